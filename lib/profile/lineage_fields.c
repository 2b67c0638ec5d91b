/* SPDX-License-Identifier: Apache-2.0 */
/* What both formats of a lineage say in the same words. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "profile/format.h"
#include "profile/lineage_format.h"

static struct tmk_json_out new_object(void) {
    cJSON *item = cJSON_CreateObject();
    return (struct tmk_json_out){item, !item};
}

enum tmk_status tmk_lineage_keep(struct tmk_lineage_record *record, const char *text,
                                 const char **out, struct tmk_diag *diag) {
    const char *kept = tmk_lineage_record_text(record, text);
    if (!kept)
        return tmk_nomem(diag);
    *out = kept;
    return TMK_OK;
}

bool tmk_lineage_is_strict(const struct tmk_lineage_record *record) {
    return record->version.minor <= TMK_LINEAGE_MINOR;
}

enum tmk_status tmk_lineage_verdict_by_name(const char *name, enum tmk_lineage_verdict *out,
                                            struct tmk_diag *diag) {
#define VERDICT_IS(verdict, number, text)                                                          \
    if (strcmp(name, text) == 0) {                                                                 \
        *out = TMK_LINEAGE_##verdict;                                                              \
        return TMK_OK;                                                                             \
    }
    TMK_LINEAGE_VERDICT_LIST(VERDICT_IS)
#undef VERDICT_IS
    return tmk_fail(diag, TMK_FORMAT, "'verdict': there is no verdict '%s'", name);
}

/* ---- the header ---- */

static void put_model(struct tmk_json_out *to, const char *key,
                      const struct tmk_lineage_model *model) {
    struct tmk_json_out out = new_object();
    char hex[17];
    snprintf(hex, sizeof hex, "%016" PRIx64, model->fingerprint);
    tmk_json_put_text(&out, "file", model->file);
    tmk_json_put_text(&out, "sha256", model->sha256);
    tmk_json_put_text(&out, "graph_fingerprint", hex);
    tmk_json_put_child(to, key, &out);
}

void tmk_lineage_put_header(struct tmk_json_out *to, const struct tmk_lineage_record *record) {
    struct tmk_json_out version = new_object();
    cJSON *item = cJSON_CreateArray();
    struct tmk_json_out passes = {item, !item};
    tmk_json_put_text(to, "format", TMK_LINEAGE_FORMAT);
    tmk_json_put_u64(&version, "major", TMK_LINEAGE_MAJOR);
    tmk_json_put_u64(&version, "minor", TMK_LINEAGE_MINOR);
    tmk_json_put_child(to, "version", &version);
    tmk_json_put_text(to, "producer", record->producer);
    put_model(to, "original", &record->original);
    put_model(to, "transformed", &record->transformed);
    for (uint32_t i = 0; i < record->n_passes; i++)
        tmk_json_put_text(&passes, NULL, record->passes[i]);
    tmk_json_put_child(to, "passes", &passes);
}

static enum tmk_status get_version(struct tmk_lineage_record *record, const cJSON *header,
                                   struct tmk_diag *diag) {
    static const char *const keys[] = {"major", "minor"};
    const cJSON *version;
    const char *format;
    TMK_TRY(tmk_json_text(header, "format", &format, diag));
    if (strcmp(format, TMK_LINEAGE_FORMAT) != 0)
        return tmk_fail(diag, TMK_FORMAT, "'format' is '%s', not '%s'", format, TMK_LINEAGE_FORMAT);
    TMK_TRY(tmk_json_object(header, "version", &version, diag));
    TMK_TRY(tmk_in(diag, tmk_json_keys(version, keys, TMK_COUNT(keys), true, diag), "'version'"));
    TMK_TRY(tmk_json_u32(version, "major", &record->version.major, diag));
    TMK_TRY(tmk_json_u32(version, "minor", &record->version.minor, diag));
    if (record->version.major != TMK_LINEAGE_MAJOR)
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "lineage version %" PRIu32 ".%" PRIu32 ", but this library reads %d.x; use "
                        "the release that wrote it",
                        record->version.major, record->version.minor, TMK_LINEAGE_MAJOR);
    return TMK_OK;
}

static enum tmk_status get_model(struct tmk_lineage_record *record, const cJSON *header,
                                 const char *key, struct tmk_lineage_model *out,
                                 struct tmk_diag *diag) {
    static const char *const keys[] = {"file", "sha256", "graph_fingerprint"};
    const cJSON *model;
    const char *file, *sha256;
    TMK_TRY(tmk_json_object(header, key, &model, diag));
    TMK_TRY(tmk_json_keys(model, keys, TMK_COUNT(keys), tmk_lineage_is_strict(record), diag));
    TMK_TRY(tmk_json_text(model, "file", &file, diag));
    TMK_TRY(tmk_json_text(model, "sha256", &sha256, diag));
    TMK_TRY(tmk_json_hex64(model, "graph_fingerprint", &out->fingerprint, diag));
    TMK_TRY(tmk_lineage_keep(record, file, &out->file, diag));
    return tmk_lineage_keep(record, sha256, &out->sha256, diag);
}

enum tmk_status tmk_lineage_get_header(struct tmk_lineage_record *record, const cJSON *header,
                                       struct tmk_diag *diag) {
    static const char *const keys[] = {"format",      "version", "producer",  "original",
                                       "transformed", "passes",  "originals", "values"};
    const cJSON *passes, *pass;
    const char *producer;
    TMK_TRY(get_version(record, header, diag));
    TMK_TRY(tmk_json_keys(header, keys, TMK_COUNT(keys), tmk_lineage_is_strict(record), diag));
    TMK_TRY(tmk_json_text(header, "producer", &producer, diag));
    TMK_TRY(tmk_lineage_keep(record, producer, &record->producer, diag));
    TMK_TRY(
        tmk_in(diag, get_model(record, header, "original", &record->original, diag), "'original'"));
    TMK_TRY(tmk_in(diag, get_model(record, header, "transformed", &record->transformed, diag),
                   "'transformed'"));
    TMK_TRY(tmk_json_array(header, "passes", &passes, diag));
    cJSON_ArrayForEach(pass, passes) {
        if (!cJSON_IsString(pass))
            return tmk_fail(diag, TMK_FORMAT, "'passes' holds no name");
        TMK_TRY(tmk_lineage_record_add_pass(record, pass->valuestring, diag));
    }
    return TMK_OK;
}

/* ---- views and shapes ---- */

void tmk_lineage_put_view(struct tmk_json_out *to, const char *key,
                          const struct tmk_lineage_view *view) {
    if (view->reshaped) {
        tmk_json_put_text(to, key, "reshaped");
        return;
    }
    if (view->rank == 0) {
        tmk_json_put(to, key, cJSON_CreateNull());
        return;
    }
    tmk_json_put(to, key, cJSON_CreateIntArray(view->perm, view->rank));
}

enum tmk_status tmk_lineage_get_view(const cJSON *item, struct tmk_lineage_view *out,
                                     struct tmk_diag *diag) {
    struct tmk_lineage_view got = {0};
    const cJSON *axis;
    if (cJSON_IsString(item) && strcmp(item->valuestring, "reshaped") == 0)
        got.reshaped = true;
    else if (item && !cJSON_IsNull(item) && !(cJSON_IsArray(item) && item->child))
        return tmk_fail(diag, TMK_FORMAT, "'view' is neither null, \"reshaped\" nor a permutation");
    cJSON_ArrayForEach(axis, item) {
        int64_t number;
        if (got.rank == TMK_MAX_RANK || !cJSON_IsNumber(axis) || !tmk_json_as_i64(axis, &number) ||
            number < 0 || number >= TMK_MAX_RANK)
            return tmk_fail(diag, TMK_FORMAT, "'view' is no permutation");
        got.perm[got.rank++] = (int32_t)number;
    }
    *out = got;
    return TMK_OK;
}

void tmk_lineage_put_shape(struct tmk_json_out *to, const char *key, bool has_shape,
                           const struct tmk_shape *shape) {
    if (has_shape)
        tmk_profile_put_dims(to, key, shape, NULL);
    else
        tmk_json_put(to, key, cJSON_CreateNull());
}

enum tmk_status tmk_lineage_get_shape(const cJSON *item, bool *has_shape, struct tmk_shape *out,
                                      struct tmk_diag *diag) {
    *has_shape = !cJSON_IsNull(item);
    if (!*has_shape)
        return TMK_OK;
    return tmk_in(diag, tmk_profile_get_dims(NULL, item, true, out, NULL, diag), "'shape'");
}
