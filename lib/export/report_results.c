/* SPDX-License-Identifier: Apache-2.0 */
/* What `tidemark simulate --json` printed, for the report: the figures that it shows, checked. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "calib/json_file.h"
#include "export/report_internal.h"

struct results {
    const struct tmk_profile *profile;
    struct tmk_json_out *out;
};

/* A number or null by its key, in the same spelling. */
static enum tmk_status copy_number(const cJSON *from, const char *key, bool optional,
                                   struct tmk_json_out *out, const char *as,
                                   struct tmk_diag *diag) {
    const cJSON *item = tmk_json_member(from, key);
    char digits[32] = "null";
    if (optional && !item)
        return TMK_OK;
    if (!cJSON_IsNumber(item) && !cJSON_IsNull(item))
        return tmk_fail(diag, TMK_FORMAT, "'%s' is no number", key);
    if (cJSON_IsNumber(item) && isfinite(item->valuedouble))
        snprintf(digits, sizeof digits, "%.6g", item->valuedouble);
    tmk_json_put(out, as, cJSON_CreateRaw(digits));
    return TMK_OK;
}

static enum tmk_status copy_flag(const cJSON *from, const char *key, struct tmk_json_out *out,
                                 struct tmk_diag *diag) {
    bool flag;
    TMK_TRY(tmk_json_bool_or(from, key, &flag, false, diag));
    tmk_json_put_u64(out, NULL, flag);
    return TMK_OK;
}

/* The value's number, if the profile has it under this name. */
static enum tmk_status copy_id(const struct results *r, const cJSON *from, struct tmk_json_out *out,
                               struct tmk_diag *diag) {
    const char *id, *name;
    uint32_t number;
    TMK_TRY(tmk_json_text(from, "id", &id, diag));
    TMK_TRY(tmk_json_text(from, "name", &name, diag));
    const struct tmk_profile_tensor *t =
        tmk_profile_id_of_text(id, &number) ? tmk_profile_by_id(r->profile, number) : NULL;
    if (!t || strcmp(t->name, name) != 0)
        return tmk_fail(diag, TMK_MISMATCH, "the profile has no value %s '%s'", id, name);
    tmk_json_put_u64(out, NULL, number);
    return TMK_OK;
}

typedef enum tmk_status copy_row(const struct results *r, const cJSON *from,
                                 struct tmk_json_out *out, struct tmk_diag *diag);

static enum tmk_status copy_value(const struct results *r, const cJSON *from,
                                  struct tmk_json_out *out, struct tmk_diag *diag) {
    TMK_TRY(copy_id(r, from, out, diag));
    TMK_TRY(copy_number(from, "sqnr", false, out, NULL, diag));
    TMK_TRY(copy_flag(from, "quantized", out, diag));
    return copy_flag(from, "output", out, diag);
}

static enum tmk_status copy_ranked(const struct results *r, const cJSON *from,
                                   struct tmk_json_out *out, struct tmk_diag *diag) {
    TMK_TRY(copy_id(r, from, out, diag));
    TMK_TRY(copy_number(from, "sqnr", false, out, NULL, diag));
    return copy_number(from, "expected_sqnr", false, out, NULL, diag);
}

static enum tmk_status copy_point(const struct results *r, const cJSON *from,
                                  struct tmk_json_out *out, struct tmk_diag *diag) {
    (void)r;
    TMK_TRY(copy_number(from, "sqnr", false, out, NULL, diag));
    TMK_TRY(copy_number(from, "bytes", false, out, NULL, diag));
    TMK_TRY(copy_number(from, "share8", false, out, NULL, diag));
    TMK_TRY(copy_flag(from, "front", out, diag));
    return copy_number(from, "judged", true, out, NULL, diag);
}

static enum tmk_status copy_rows(const struct results *r, const cJSON *from, const char *key,
                                 copy_row *copy, struct tmk_json_out *out, struct tmk_diag *diag) {
    const cJSON *rows, *row;
    TMK_TRY(tmk_json_array(from, key, &rows, diag));
    struct tmk_json_out list = tmk_json_new_array();
    enum tmk_status status = TMK_OK;
    cJSON_ArrayForEach(row, rows) {
        struct tmk_json_out one = tmk_json_new_array();
        status = cJSON_IsObject(row)
                     ? copy(r, row, &one, diag)
                     : tmk_fail(diag, TMK_FORMAT, "an entry of '%s' is no object", key);
        tmk_json_put_child(&list, NULL, &one);
        if (status != TMK_OK)
            break;
    }
    tmk_json_put_child(out, "rows", &list);
    return status;
}

/* The kinds are told apart by their lists. */
static const struct kind {
    const char *list, *name;
    copy_row *copy;
    const char *numbers[12];
} kinds[] = {
    {"values",
     "simulation",
     copy_value,
     {"samples", "predictions", "agreement", "accuracy_float", "accuracy_quantized"}},
    {"ranking", "ranking", copy_ranked, {"samples", "not_tried"}},
    {"points",
     "search",
     copy_point,
     {"samples", "judged", "tried", "chosen", "before", "after", "judged_before", "judged_after"}},
};

static enum tmk_status copy_results(const struct results *r, const cJSON *tree,
                                    struct tmk_diag *diag) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const struct kind *kind = &kinds[i];
        if (!tmk_json_member(tree, kind->list))
            continue;
        struct tmk_json_out all = tmk_json_new_object();
        enum tmk_status status = copy_rows(r, tree, kind->list, kind->copy, &all, diag);
        for (size_t k = 0; status == TMK_OK && kind->numbers[k]; k++)
            status = copy_number(tree, kind->numbers[k], k > 0, &all, kind->numbers[k], diag);
        cJSON_DeleteItemFromObjectCaseSensitive(r->out->item, kind->name);
        tmk_json_put_child(r->out, kind->name, &all);
        return status;
    }
    return tmk_fail(diag, TMK_FORMAT,
                    "this is not what `tidemark simulate --json` prints: it has neither 'values' "
                    "nor 'ranking' nor 'points'");
}

enum tmk_status tmk_report_results(const struct tmk_profile *profile, const char *path,
                                   struct tmk_json_out *out, struct tmk_diag *diag) {
    struct tmk_json_file file;
    const struct results r = {profile, out};
    TMK_TRY(tmk_json_file_open(path, &file, diag));
    enum tmk_status status = copy_results(&r, file.tree, diag);
    tmk_json_file_close(&file);
    return tmk_in(diag, status, "%s", path);
}
