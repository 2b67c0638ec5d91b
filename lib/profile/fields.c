/* SPDX-License-Identifier: Apache-2.0 */
/* What both file formats say in the same words: the header, shapes, names of enums, restored
 * statistics. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "profile/format.h"

enum tmk_status tmk_profile_bins_init(struct tmk_profile_bins *bins, struct tmk_diag *diag) {
    *bins = (struct tmk_profile_bins){
        malloc(TMK_PROFILE_MAX_BINS * sizeof *bins->bin),
        malloc(TMK_PROFILE_MAX_BINS * sizeof *bins->count),
        malloc(TMK_PROFILE_MAX_BINS * sizeof *bins->low),
        malloc(TMK_PROFILE_MAX_BINS * sizeof *bins->squares),
    };
    if (bins->bin && bins->count && bins->low && bins->squares)
        return TMK_OK;
    tmk_profile_bins_finish(bins);
    return tmk_nomem(diag);
}

void tmk_profile_bins_finish(struct tmk_profile_bins *bins) {
    free(bins->bin);
    free(bins->count);
    free(bins->low);
    free(bins->squares);
    *bins = (struct tmk_profile_bins){0};
}

const char *tmk_profile_level_name(const struct tmk_profile_tensor *tensor) {
    static const char *const names[] = {[TMK_STATS_RANGE] = "range",
                                        [TMK_STATS_HISTOGRAM] = "histogram",
                                        [TMK_STATS_MINMAX] = "minmax"};
    if (tensor->stats)
        return names[tmk_stats_level_of(tensor->stats)];
    return tensor->has_int_stats ? "integer" : "none";
}

enum tmk_status tmk_profile_kind_by_name(const char *name, enum tmk_profile_kind *out,
                                         struct tmk_diag *diag) {
#define KIND_IS(kind, number, text)                                                                \
    if (strcmp(name, text) == 0) {                                                                 \
        *out = TMK_PROFILE_##kind;                                                                 \
        return TMK_OK;                                                                             \
    }
    TMK_PROFILE_KIND_LIST(KIND_IS)
#undef KIND_IS
    return tmk_fail(diag, TMK_FORMAT, "'kind': there is no kind '%s'", name);
}

enum tmk_status tmk_profile_status_by_name(const char *name, enum tmk_profile_status *out,
                                           struct tmk_diag *diag) {
#define STATUS_IS(status, number, text)                                                            \
    if (strcmp(name, text) == 0) {                                                                 \
        *out = TMK_PROFILE_##status;                                                               \
        return TMK_OK;                                                                             \
    }
    TMK_PROFILE_STATUS_LIST(STATUS_IS)
#undef STATUS_IS
    return tmk_fail(diag, TMK_FORMAT, "'status': there is no status '%s'", name);
}

enum tmk_status tmk_profile_dtype_by_name(const char *name, enum tmk_dtype *out,
                                          struct tmk_diag *diag) {
    enum tmk_dtype dtype = tmk_dtype_by_name(name);
    if (dtype == TMK_UNDEFINED && strcmp(name, tmk_dtype_name(TMK_UNDEFINED)) != 0)
        return tmk_fail(diag, TMK_FORMAT, "there is no type '%s'", name);
    *out = dtype;
    return TMK_OK;
}

bool tmk_profile_is_strict(const struct tmk_profile *profile) {
    return profile->version.minor <= TMK_PROFILE_MINOR;
}

/* ---- the header ---- */

static struct tmk_json_out new_object(void) {
    cJSON *item = cJSON_CreateObject();
    return (struct tmk_json_out){item, !item};
}

static struct tmk_json_out new_array(void) {
    cJSON *item = cJSON_CreateArray();
    return (struct tmk_json_out){item, !item};
}

static struct tmk_json_out format_out(const struct tmk_profile *profile) {
    (void)profile;
    cJSON *item = cJSON_CreateString(TMK_PROFILE_FORMAT);
    return (struct tmk_json_out){item, !item};
}

static struct tmk_json_out version_out(const struct tmk_profile *profile) {
    (void)profile;
    struct tmk_json_out out = new_object();
    tmk_json_put_u64(&out, "major", TMK_PROFILE_MAJOR);
    tmk_json_put_u64(&out, "minor", TMK_PROFILE_MINOR);
    return out;
}

static struct tmk_json_out producer_out(const struct tmk_profile *profile) {
    struct tmk_json_out out = new_object();
    tmk_json_put_text(&out, "name", profile->producer.name);
    tmk_json_put_text(&out, "version", profile->producer.version);
    tmk_json_put_text(&out, "isa", profile->producer.isa);
    tmk_json_put_text(&out, "kernels", profile->producer.kernels);
    return out;
}

static struct tmk_json_out model_out(const struct tmk_profile *profile) {
    struct tmk_json_out out = new_object(), opsets = new_array();
    char hex[17];
    snprintf(hex, sizeof hex, "%016" PRIx64, profile->model.fingerprint);
    tmk_json_put_text(&out, "file", profile->model.file);
    tmk_json_put_text(&out, "sha256", profile->model.sha256);
    tmk_json_put_text(&out, "format", profile->model.format);
    tmk_json_put_i64(&out, "ir_version", profile->model.ir_version);
    for (uint32_t i = 0; i < profile->model.n_opsets; i++) {
        struct tmk_json_out opset = new_object();
        tmk_json_put_text(&opset, "domain", profile->model.opsets[i].domain);
        tmk_json_put_i64(&opset, "version", profile->model.opsets[i].version);
        tmk_json_put_child(&opsets, NULL, &opset);
    }
    tmk_json_put_child(&out, "opsets", &opsets);
    tmk_json_put_text(&out, "graph_fingerprint", hex);
    return out;
}

static struct tmk_json_out data_out(const struct tmk_profile *profile) {
    struct tmk_json_out out = new_array();
    for (uint32_t i = 0; i < profile->n_sources; i++) {
        struct tmk_json_out source = new_object();
        tmk_json_put_text(&source, "input", profile->sources[i].input);
        tmk_json_put_text(&source, "source", profile->sources[i].source);
        tmk_json_put_u64(&source, "samples", profile->sources[i].samples);
        tmk_json_put_text(&source, "hash", profile->sources[i].hash);
        tmk_json_put_child(&out, NULL, &source);
    }
    return out;
}

/* A setting that was added more than once is a list. */
static struct tmk_json_out settings_out(const struct tmk_profile *profile) {
    struct tmk_json_out out = new_object();
    const struct tmk_profile_setting *settings = profile->settings;
    for (uint32_t i = 0, end; i < profile->n_settings; i = end) {
        for (end = i + 1; end < profile->n_settings; end++)
            if (strcmp(settings[end].key, settings[i].key) != 0)
                break;
        if (end == i + 1) {
            tmk_json_put_text(&out, settings[i].key, settings[i].value);
            continue;
        }
        struct tmk_json_out list = new_array();
        for (uint32_t k = i; k < end; k++)
            tmk_json_put_text(&list, NULL, settings[k].value);
        tmk_json_put_child(&out, settings[i].key, &list);
    }
    return out;
}

static struct tmk_json_out bad_out(const struct tmk_profile *profile) {
    struct tmk_json_out out = new_array();
    for (uint32_t i = 0; i < profile->n_bad; i++) {
        struct tmk_json_out bad = new_object();
        tmk_json_put_u64(&bad, "sample", profile->bad[i].sample);
        tmk_json_put_text(&bad, "file", profile->bad[i].file);
        tmk_json_put_text(&bad, "why", profile->bad[i].why);
        tmk_json_put_child(&out, NULL, &bad);
    }
    return out;
}

static struct tmk_json_out ledger_out(const struct tmk_profile *profile) {
    const struct tmk_profile_ledger *ledger = &profile->ledger;
    struct tmk_json_out out = new_object();
    tmk_json_put_u64(&out, "offered", ledger->offered);
    tmk_json_put_u64(&out, "run", ledger->run);
    tmk_json_put_u64(&out, "skipped", ledger->skipped);
    tmk_json_put_u64(&out, "failed", ledger->failed);
    tmk_json_put_u64(&out, "batches", ledger->batches);
    tmk_json_put_u64(&out, "first_sample", ledger->first_sample);
    tmk_json_put_u64(&out, "end_sample", ledger->end_sample);
    if (profile->n_bad) {
        struct tmk_json_out list = bad_out(profile);
        tmk_json_put_child(&out, "bad", &list);
    }
    return out;
}

enum tmk_status tmk_profile_header_text(const struct tmk_profile *profile, const char *separator,
                                        struct tmk_text *out, struct tmk_diag *diag) {
    static const struct {
        const char *key;
        struct tmk_json_out (*out)(const struct tmk_profile *profile);
    } members[] = {
        {"format", format_out},     {"version", version_out},
        {"producer", producer_out}, {"model", model_out},
        {"data", data_out},         {"settings", settings_out},
        {"ledger", ledger_out},     {"coverage", tmk_profile_coverage_out},
    };
    for (size_t i = 0; i < TMK_COUNT(members); i++) {
        struct tmk_json_out value = members[i].out(profile);
        tmk_text_printf(out, "%s\"%s\":", i ? separator : "", members[i].key);
        TMK_TRY(tmk_json_finish(&value, out, diag));
    }
    return TMK_OK;
}

static enum tmk_status keep_text(struct tmk_profile *profile, const cJSON *object, const char *key,
                                 const char **out, struct tmk_diag *diag) {
    const char *text;
    TMK_TRY(tmk_json_text(object, key, &text, diag));
    *out = tmk_profile_text(profile, text);
    return *out ? TMK_OK : tmk_nomem(diag);
}

static enum tmk_status get_version(struct tmk_profile *profile, const cJSON *header,
                                   struct tmk_diag *diag) {
    static const char *const keys[] = {"major", "minor"};
    const cJSON *version;
    const char *format;
    uint32_t major, minor;
    TMK_TRY(tmk_json_text(header, "format", &format, diag));
    if (strcmp(format, TMK_PROFILE_FORMAT) != 0)
        return tmk_fail(diag, TMK_FORMAT, "'format' is '%s', not '%s'", format, TMK_PROFILE_FORMAT);
    TMK_TRY(tmk_json_object(header, "version", &version, diag));
    TMK_TRY(tmk_in(diag, tmk_json_keys(version, keys, TMK_COUNT(keys), true, diag), "'version'"));
    TMK_TRY(tmk_json_u32(version, "major", &major, diag));
    TMK_TRY(tmk_json_u32(version, "minor", &minor, diag));
    if (major != TMK_PROFILE_MAJOR)
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "profile version %" PRIu32 ".%" PRIu32 ", but this library reads %d.x; "
                        "use the release that wrote it",
                        major, minor, TMK_PROFILE_MAJOR);
    profile->version.major = major;
    profile->version.minor = minor;
    return TMK_OK;
}

static enum tmk_status get_producer(struct tmk_profile *profile, const cJSON *producer,
                                    struct tmk_diag *diag) {
    static const char *const keys[] = {"name", "version", "isa", "kernels"};
    TMK_TRY(tmk_json_keys(producer, keys, TMK_COUNT(keys), tmk_profile_is_strict(profile), diag));
    TMK_TRY(keep_text(profile, producer, "name", &profile->producer.name, diag));
    TMK_TRY(keep_text(profile, producer, "version", &profile->producer.version, diag));
    TMK_TRY(keep_text(profile, producer, "isa", &profile->producer.isa, diag));
    return keep_text(profile, producer, "kernels", &profile->producer.kernels, diag);
}

static enum tmk_status get_opset(struct tmk_profile *profile, const cJSON *opset,
                                 struct tmk_diag *diag) {
    static const char *const keys[] = {"domain", "version"};
    const char *domain;
    int64_t version;
    TMK_TRY(tmk_json_keys(opset, keys, TMK_COUNT(keys), tmk_profile_is_strict(profile), diag));
    TMK_TRY(tmk_json_text(opset, "domain", &domain, diag));
    TMK_TRY(tmk_json_i64(opset, "version", &version, diag));
    return tmk_profile_add_opset(profile, domain, version, diag);
}

static enum tmk_status get_model(struct tmk_profile *profile, const cJSON *model,
                                 struct tmk_diag *diag) {
    static const char *const keys[] = {"file",       "sha256", "format",
                                       "ir_version", "opsets", "graph_fingerprint"};
    const cJSON *opsets, *opset;
    TMK_TRY(tmk_json_keys(model, keys, TMK_COUNT(keys), tmk_profile_is_strict(profile), diag));
    TMK_TRY(keep_text(profile, model, "file", &profile->model.file, diag));
    TMK_TRY(keep_text(profile, model, "sha256", &profile->model.sha256, diag));
    TMK_TRY(keep_text(profile, model, "format", &profile->model.format, diag));
    TMK_TRY(tmk_json_i64(model, "ir_version", &profile->model.ir_version, diag));
    TMK_TRY(tmk_json_hex64(model, "graph_fingerprint", &profile->model.fingerprint, diag));
    TMK_TRY(tmk_json_array(model, "opsets", &opsets, diag));
    cJSON_ArrayForEach(opset, opsets)
        TMK_TRY(tmk_in(diag, get_opset(profile, opset, diag), "'opsets'"));
    return TMK_OK;
}

static enum tmk_status get_source(struct tmk_profile *profile, const cJSON *item,
                                  struct tmk_diag *diag) {
    static const char *const keys[] = {"input", "source", "samples", "hash"};
    const char *input, *source, *hash;
    uint64_t samples;
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), tmk_profile_is_strict(profile), diag));
    TMK_TRY(tmk_json_text(item, "input", &input, diag));
    TMK_TRY(tmk_json_text(item, "source", &source, diag));
    TMK_TRY(tmk_json_u64(item, "samples", &samples, diag));
    TMK_TRY(tmk_json_text(item, "hash", &hash, diag));
    return tmk_profile_add_source(profile, input, source, samples, hash, diag);
}

static enum tmk_status get_setting(struct tmk_profile *profile, const char *key, const cJSON *value,
                                   struct tmk_diag *diag) {
    if (!cJSON_IsString(value))
        return tmk_fail(diag, TMK_FORMAT, "'%s' is not a string", key);
    return tmk_profile_add_setting(profile, key, value->valuestring, diag);
}

static enum tmk_status get_settings(struct tmk_profile *profile, const cJSON *settings,
                                    struct tmk_diag *diag) {
    const cJSON *setting, *value, *last = NULL;
    cJSON_ArrayForEach(setting, settings) {
        if (last && strcmp(last->string, setting->string) == 0)
            return tmk_fail(diag, TMK_FORMAT, "'%s' stands twice", setting->string);
        last = setting;
        if (!cJSON_IsArray(setting)) {
            TMK_TRY(get_setting(profile, setting->string, setting, diag));
            continue;
        }
        if (cJSON_GetArraySize(setting) < 2)
            return tmk_fail(diag, TMK_FORMAT, "'%s' is a list of less than two", setting->string);
        cJSON_ArrayForEach(value, setting)
            TMK_TRY(get_setting(profile, setting->string, value, diag));
    }
    return TMK_OK;
}

static enum tmk_status get_bad(struct tmk_profile *profile, const cJSON *item,
                               struct tmk_diag *diag) {
    static const char *const keys[] = {"sample", "file", "why"};
    const char *file, *why;
    uint64_t sample;
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), tmk_profile_is_strict(profile), diag));
    TMK_TRY(tmk_json_u64(item, "sample", &sample, diag));
    TMK_TRY(tmk_json_text(item, "file", &file, diag));
    TMK_TRY(tmk_json_text(item, "why", &why, diag));
    return tmk_profile_add_bad(profile, sample, file, why, diag);
}

static enum tmk_status get_ledger(struct tmk_profile *profile, const cJSON *item,
                                  struct tmk_diag *diag) {
    static const char *const keys[] = {"offered", "run",          "skipped",    "failed",
                                       "batches", "first_sample", "end_sample", "bad"};
    const cJSON *list, *bad;
    struct tmk_profile_ledger *ledger = &profile->ledger;
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), tmk_profile_is_strict(profile), diag));
    TMK_TRY(tmk_json_u64(item, "offered", &ledger->offered, diag));
    TMK_TRY(tmk_json_u64(item, "run", &ledger->run, diag));
    TMK_TRY(tmk_json_u64(item, "skipped", &ledger->skipped, diag));
    TMK_TRY(tmk_json_u64(item, "failed", &ledger->failed, diag));
    TMK_TRY(tmk_json_u64(item, "batches", &ledger->batches, diag));
    TMK_TRY(tmk_json_u64(item, "first_sample", &ledger->first_sample, diag));
    TMK_TRY(tmk_json_u64(item, "end_sample", &ledger->end_sample, diag));
    if (!tmk_json_member(item, "bad"))
        return TMK_OK;
    TMK_TRY(tmk_json_array(item, "bad", &list, diag));
    cJSON_ArrayForEach(bad, list) TMK_TRY(tmk_in(diag, get_bad(profile, bad, diag), "'bad'"));
    return TMK_OK;
}

enum tmk_status tmk_profile_get_header(struct tmk_profile *profile, const cJSON *header,
                                       struct tmk_diag *diag) {
    static const char *const keys[] = {"format",   "version", "producer", "model",  "data",
                                       "settings", "ledger",  "coverage", "tensors"};
    const cJSON *producer, *model, *data, *source, *settings, *ledger;
    TMK_TRY(get_version(profile, header, diag));
    TMK_TRY(tmk_json_keys(header, keys, TMK_COUNT(keys), tmk_profile_is_strict(profile), diag));
    TMK_TRY(tmk_json_object(header, "producer", &producer, diag));
    TMK_TRY(tmk_in(diag, get_producer(profile, producer, diag), "'producer'"));
    TMK_TRY(tmk_json_object(header, "model", &model, diag));
    TMK_TRY(tmk_in(diag, get_model(profile, model, diag), "'model'"));
    TMK_TRY(tmk_json_array(header, "data", &data, diag));
    cJSON_ArrayForEach(source, data)
        TMK_TRY(tmk_in(diag, get_source(profile, source, diag), "'data'"));
    TMK_TRY(tmk_json_object(header, "settings", &settings, diag));
    TMK_TRY(tmk_in(diag, get_settings(profile, settings, diag), "'settings'"));
    TMK_TRY(tmk_json_object(header, "ledger", &ledger, diag));
    TMK_TRY(tmk_in(diag, get_ledger(profile, ledger, diag), "'ledger'"));
    return tmk_in(diag,
                  tmk_profile_get_coverage(profile, tmk_json_member(header, "coverage"), diag),
                  "'coverage'");
}

/* ---- shapes and derivations ---- */

void tmk_profile_put_dims(struct tmk_json_out *to, const char *key, const struct tmk_shape *shape,
                          const char *const *symbol) {
    struct tmk_json_out dims = new_array();
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dim[i] >= 0)
            tmk_json_put_i64(&dims, NULL, shape->dim[i]);
        else if (symbol && symbol[i] && *symbol[i])
            tmk_json_put_text(&dims, NULL, symbol[i]);
        else
            tmk_json_put(&dims, NULL, cJSON_CreateNull());
    }
    tmk_json_put_child(to, key, &dims);
}

void tmk_profile_put_shape(struct tmk_json_out *to, const char *key,
                           const struct tmk_profile_tensor *tensor) {
    if (tensor->has_shape)
        tmk_profile_put_dims(to, key, &tensor->shape, tensor->symbol);
    else
        tmk_json_put(to, key, cJSON_CreateNull());
}

void tmk_profile_put_runs(struct tmk_json_out *to, const char *key,
                          const struct tmk_profile_tensor *tensor) {
    struct tmk_json_out runs = new_array();
    for (uint32_t i = 0; i < tensor->n_runs; i++) {
        struct tmk_json_out run = new_object();
        tmk_profile_put_dims(&run, "shape", &tensor->runs[i].shape, NULL);
        tmk_json_put_u64(&run, "runs", tensor->runs[i].runs);
        tmk_json_put_child(&runs, NULL, &run);
    }
    tmk_json_put_child(to, key, &runs);
}

void tmk_profile_put_ids(struct tmk_json_out *to, const char *key, const uint32_t *ids,
                         uint32_t n) {
    struct tmk_json_out array = new_array();
    for (uint32_t i = 0; i < n; i++) {
        char id[16];
        snprintf(id, sizeof id, "p%" PRIu32, ids[i]);
        tmk_json_put_text(&array, NULL, id);
    }
    tmk_json_put_child(to, key, &array);
}

void tmk_profile_put_sources(struct tmk_json_out *to, const char *key,
                             const struct tmk_profile_tensor *tensor) {
    tmk_profile_put_ids(to, key, tensor->sources, tensor->n_sources);
}

enum tmk_status tmk_profile_get_dims(struct tmk_profile *profile, const cJSON *item, bool unknown,
                                     struct tmk_shape *shape, const char **symbol,
                                     struct tmk_diag *diag) {
    struct tmk_shape got = {0};
    const cJSON *dim;
    if (!cJSON_IsArray(item))
        return tmk_fail(diag, TMK_FORMAT, "a shape is not an array");
    cJSON_ArrayForEach(dim, item) {
        if (got.rank == TMK_MAX_RANK)
            return tmk_fail(diag, TMK_FORMAT, "a shape of more than %d dimensions", TMK_MAX_RANK);
        int64_t *at = &got.dim[got.rank];
        *at = -1;
        if (symbol && cJSON_IsString(dim) && *dim->valuestring) {
            symbol[got.rank] = tmk_profile_text(profile, dim->valuestring);
            if (!symbol[got.rank])
                return tmk_nomem(diag);
        } else if (!(unknown && cJSON_IsNull(dim)) &&
                   !(cJSON_IsNumber(dim) && tmk_json_as_i64(dim, at) && *at >= 0)) {
            return tmk_fail(diag, TMK_FORMAT, "dimension %" PRId32 " of a shape is not a size",
                            got.rank);
        }
        got.rank++;
    }
    *shape = got;
    return TMK_OK;
}

enum tmk_status tmk_profile_get_shape(struct tmk_profile *profile, const cJSON *item,
                                      struct tmk_profile_tensor *tensor, struct tmk_diag *diag) {
    tensor->has_shape = !cJSON_IsNull(item);
    if (!tensor->has_shape)
        return TMK_OK;
    return tmk_in(diag,
                  tmk_profile_get_dims(profile, item, true, &tensor->shape, tensor->symbol, diag),
                  "'shape'");
}

static enum tmk_status get_run(const cJSON *item, struct tmk_profile_tensor *tensor,
                               struct tmk_diag *diag) {
    struct tmk_shape shape;
    uint64_t runs;
    uint32_t before = tensor->n_runs;
    if (!cJSON_IsObject(item))
        return tmk_fail(diag, TMK_FORMAT, "an entry is not an object");
    TMK_TRY(tmk_profile_get_dims(NULL, tmk_json_member(item, "shape"), false, &shape, NULL, diag));
    TMK_TRY(tmk_json_u64(item, "runs", &runs, diag));
    if (runs == 0)
        return tmk_fail(diag, TMK_FORMAT, "a shape that never ran");
    if (before == TMK_PROFILE_MAX_RUNS)
        return tmk_fail(diag, TMK_FORMAT, "more than %d shapes", TMK_PROFILE_MAX_RUNS);
    TMK_TRY(tmk_profile_add_runs(tensor, &shape, runs, diag));
    if (tensor->n_runs == before)
        return tmk_fail(diag, TMK_FORMAT, "a shape stands twice");
    return TMK_OK;
}

enum tmk_status tmk_profile_get_runs(const cJSON *item, struct tmk_profile_tensor *tensor,
                                     struct tmk_diag *diag) {
    const cJSON *run;
    if (!cJSON_IsArray(item))
        return tmk_fail(diag, TMK_FORMAT, "'observed_shapes' is missing or is not an array");
    cJSON_ArrayForEach(run, item)
        TMK_TRY(tmk_in(diag, get_run(run, tensor, diag), "'observed_shapes'"));
    return TMK_OK;
}

enum tmk_status tmk_profile_get_operands(const cJSON *item, struct tmk_profile_tensor *tensor,
                                         struct tmk_diag *diag) {
    const cJSON *operand;
    if (!cJSON_IsArray(item))
        return tmk_fail(diag, TMK_FORMAT, "'operands' is not an array of IDs");
    cJSON_ArrayForEach(operand, item) {
        uint32_t id;
        if (!cJSON_IsString(operand) || !tmk_profile_id_of_text(operand->valuestring, &id))
            return tmk_fail(diag, TMK_FORMAT, "'operands' holds no ID");
        TMK_TRY(tmk_profile_add_operand(tensor, id, diag));
    }
    return TMK_OK;
}

enum tmk_status tmk_profile_get_sources(const cJSON *item, struct tmk_profile_tensor *tensor,
                                        struct tmk_diag *diag) {
    const cJSON *source;
    if (!cJSON_IsArray(item))
        return tmk_fail(diag, TMK_FORMAT, "what the value derives from is not an array of IDs");
    cJSON_ArrayForEach(source, item) {
        uint32_t id;
        if (!cJSON_IsString(source) || !tmk_profile_id_of_text(source->valuestring, &id))
            return tmk_fail(diag, TMK_FORMAT, "what the value derives from holds no ID");
        TMK_TRY(tmk_profile_add_derivation(tensor, id, diag));
    }
    return TMK_OK;
}

enum tmk_status tmk_profile_add_read(struct tmk_profile *profile, uint32_t id,
                                     struct tmk_profile_tensor **out, struct tmk_diag *diag) {
    enum tmk_status status = tmk_profile_add_tensor(profile, id, out, diag);
    if (status != TMK_ARGUMENT)
        return status;
    if (diag) /* an argument to the call, but here it is the file's */
        diag->status = TMK_FORMAT;
    return TMK_FORMAT;
}

/* ---- statistics ---- */

static enum tmk_status differs(struct tmk_diag *diag, const char *key, const char *says,
                               const char *is) {
    return tmk_fail(diag, TMK_MISMATCH, "'%s' is %s, but the histogram gives %s", key, says, is);
}

/* What else follows from the histogram. NaN: the file doesn't say. Not to the bit, since other
 * releases may estimate otherwise inside the bracket of the squares. */
static enum tmk_status derived_numbers_fit(const struct tmk_summary *facts,
                                           const struct tmk_summary *is, struct tmk_diag *diag) {
    const double close = 1e-6;
    const struct {
        const char *key;
        double says, is, slack;
    } numbers[] = {
        {"mean", facts->mean, is->mean, close * fabs(is->mean)},
        {"std", facts->std, is->std, close * (fabs(is->mean) + is->std)},
        {"sum_squares: low", facts->sumsq_lo, is->sumsq_lo, close * is->sumsq_hi},
        {"sum_squares: high", facts->sumsq_hi, is->sumsq_hi, close * is->sumsq_hi},
    };
    for (size_t i = 0; i < TMK_COUNT(numbers); i++) {
        char a[32], b[32];
        if (isnan(numbers[i].says) || fabs(numbers[i].says - numbers[i].is) <= numbers[i].slack)
            continue;
        snprintf(a, sizeof a, "%.17g", numbers[i].says);
        snprintf(b, sizeof b, "%.17g", numbers[i].is);
        return differs(diag, numbers[i].key, a, b);
    }
    return TMK_OK;
}

enum tmk_status tmk_profile_set_stats(struct tmk_profile_tensor *tensor,
                                      const struct tmk_summary *facts,
                                      const struct tmk_profile_bins *bins, struct tmk_diag *diag) {
    struct tmk_summary is;
    char a[32], b[32];
    TMK_TRY(tmk_stats_restore(facts, bins->bin, bins->count, bins->low, &tensor->stats, diag));
    tmk_stats_summary(tensor->stats, &is);
    if (facts->denormals != is.denormals || facts->negatives != is.negatives) {
        bool which = facts->denormals != is.denormals;
        snprintf(a, sizeof a, "%" PRIu64, which ? facts->denormals : facts->negatives);
        snprintf(b, sizeof b, "%" PRIu64, which ? is.denormals : is.negatives);
        return differs(diag, which ? "denormals" : "negatives", a, b);
    }
    bool unknown = isnan(facts->sum) && isnan(is.sum); /* at a level without bins */
    if (facts->sum != is.sum && !unknown) {
        snprintf(a, sizeof a, "%.17g", facts->sum);
        snprintf(b, sizeof b, "%.17g", is.sum);
        return differs(diag, "sum", a, b);
    }
    return derived_numbers_fit(facts, &is, diag);
}
