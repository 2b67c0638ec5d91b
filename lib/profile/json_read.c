/* SPDX-License-Identifier: Apache-2.0 */
/* A profile from JSON. The text is walked, and one value's tree is built at a time. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/utf8.h"
#include "profile/format.h"

struct reader {
    struct tmk_profile *profile;
    struct tmk_profile_bins bins;
    size_t held; /* bytes that were counted for the header's trees */
    struct tmk_diag *diag;
};

static const char *const header_keys[] = {"format", "version",  "producer", "model",
                                          "data",   "settings", "ledger",   "coverage"};

/* The keys of every value; more depend on its level. */
#define IDENTITY                                                                                   \
    "id", "fingerprint", "content", "ordinal", "name", "path", "kind", "status", "dtype",          \
        "origin", "shape", "observed_shapes", "more_shapes", "expected_count", "producer",         \
        "consumers", "operands", "derivation", "level"

static enum tmk_status get_producer(struct reader *r, const cJSON *item,
                                    struct tmk_profile_tensor *t) {
    static const char *const keys[] = {"node", "op", "domain", "output"};
    const char *node, *op, *domain;
    t->has_producer = !cJSON_IsNull(item);
    if (!t->has_producer)
        return TMK_OK;
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), tmk_profile_is_strict(r->profile), r->diag));
    TMK_TRY(tmk_json_text(item, "node", &node, r->diag));
    TMK_TRY(tmk_json_text(item, "op", &op, r->diag));
    TMK_TRY(tmk_json_text(item, "domain", &domain, r->diag));
    TMK_TRY(tmk_json_u32(item, "output", &t->producer.output, r->diag));
    t->producer.node = tmk_profile_text(r->profile, node);
    t->producer.op = tmk_profile_text(r->profile, op);
    t->producer.domain = tmk_profile_text(r->profile, domain);
    return t->producer.node && t->producer.op && t->producer.domain ? TMK_OK : tmk_nomem(r->diag);
}

static enum tmk_status get_consumer(struct reader *r, const cJSON *item,
                                    struct tmk_profile_tensor *t) {
    static const char *const keys[] = {"node", "op", "domain", "input"};
    const char *node, *op, *domain;
    uint32_t input;
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), tmk_profile_is_strict(r->profile), r->diag));
    TMK_TRY(tmk_json_text(item, "node", &node, r->diag));
    TMK_TRY(tmk_json_text(item, "op", &op, r->diag));
    TMK_TRY(tmk_json_text(item, "domain", &domain, r->diag));
    TMK_TRY(tmk_json_u32(item, "input", &input, r->diag));
    return tmk_profile_add_consumer(r->profile, t, node, op, domain, input, r->diag);
}

static enum tmk_status get_derivation(struct reader *r, const cJSON *item,
                                      struct tmk_profile_tensor *t) {
    static const char *const keys[] = {"rule", "from"};
    const char *rule;
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), tmk_profile_is_strict(r->profile), r->diag));
    TMK_TRY(tmk_json_text(item, "rule", &rule, r->diag));
    t->rule = tmk_profile_text(r->profile, rule);
    if (!t->rule)
        return tmk_nomem(r->diag);
    return tmk_profile_get_sources(tmk_json_member(item, "from"), t, r->diag);
}

static enum tmk_status get_index(const cJSON *object, const char *key, uint64_t *out,
                                 struct tmk_diag *diag) {
    if (cJSON_IsNull(tmk_json_member(object, key))) {
        *out = TMK_NOWHERE;
        return TMK_OK;
    }
    return tmk_json_u64(object, key, out, diag);
}

static enum tmk_status get_where(const cJSON *object, const char *key, struct tmk_where *out,
                                 struct tmk_diag *diag) {
    const cJSON *item = tmk_json_member(object, key);
    *out = (struct tmk_where){TMK_NOWHERE, TMK_NOWHERE};
    if (cJSON_IsNull(item))
        return TMK_OK;
    if (!cJSON_IsObject(item))
        return tmk_fail(diag, TMK_FORMAT, "'%s' is missing or is neither a place nor null", key);
    TMK_TRY(tmk_in(diag, get_index(item, "sample", &out->sample, diag), "'%s'", key));
    return tmk_in(diag, get_index(item, "index", &out->index, diag), "'%s'", key);
}

static enum tmk_status get_counts(const cJSON *object, const char *key, uint64_t *out, uint32_t n,
                                  struct tmk_diag *diag) {
    const cJSON *array, *item;
    uint32_t i = 0;
    TMK_TRY(tmk_json_array(object, key, &array, diag));
    cJSON_ArrayForEach(item, array) {
        if (i == n || !tmk_json_as_u64(item, &out[i]))
            return tmk_fail(diag, TMK_FORMAT, "'%s': entry %" PRIu32 " is %s", key, i,
                            i == n ? "one more than there are bins" : "not a count");
        i++;
    }
    if (i != n)
        return tmk_fail(diag, TMK_FORMAT, "'%s' has %" PRIu32 " entries for %" PRIu32 " bins", key,
                        i, n);
    return TMK_OK;
}

static enum tmk_status get_histogram(struct reader *r, const cJSON *item,
                                     struct tmk_summary *facts) {
    static const char *const keys[] = {"bins", "counts", "low", "squares"};
    const cJSON *bins, *bin;
    uint32_t i = 0;
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), tmk_profile_is_strict(r->profile), r->diag));
    TMK_TRY(tmk_json_array(item, "bins", &bins, r->diag));
    cJSON_ArrayForEach(bin, bins) {
        uint64_t number;
        if (i == TMK_PROFILE_MAX_BINS || !tmk_json_as_u64(bin, &number) || number > UINT16_MAX)
            return tmk_fail(r->diag, TMK_FORMAT, "'bins': entry %" PRIu32 " is no bin", i);
        r->bins.bin[i++] = (uint16_t)number;
    }
    TMK_TRY(get_counts(item, "counts", r->bins.count, i, r->diag));
    TMK_TRY(get_counts(item, "low", r->bins.low, i, r->diag));
    facts->bins_used = i;
    if (!tmk_json_member(item, "squares"))
        return TMK_OK;
    facts->squares = r->bins.squares;
    return get_counts(item, "squares", r->bins.squares, i, r->diag);
}

static enum tmk_status get_extremes(const cJSON *object, const char *key, float nothing,
                                    float **out, size_t *n, struct tmk_diag *diag) {
    const cJSON *array, *item;
    TMK_TRY(tmk_json_array(object, key, &array, diag));
    size_t count = (size_t)cJSON_GetArraySize(array), i = 0;
    float *values = malloc((count ? count : 1) * sizeof *values);
    if (!values)
        return tmk_nomem(diag);
    cJSON_ArrayForEach(item, array) {
        if (!tmk_json_as_float(item, &values[i])) {
            free(values);
            return tmk_fail(diag, TMK_FORMAT, "'%s': entry %zu is no float32 and not null", key, i);
        }
        if (isnan(values[i]))
            values[i] = nothing;
        i++;
    }
    *out = values;
    *n = count;
    return TMK_OK;
}

static enum tmk_status get_channels(struct reader *r, const cJSON *item, struct tmk_summary *facts,
                                    float **min, float **max) {
    static const char *const keys[] = {"axis", "min", "max"};
    size_t n;
    uint32_t axis;
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), tmk_profile_is_strict(r->profile), r->diag));
    TMK_TRY(tmk_json_u32(item, "axis", &axis, r->diag));
    TMK_TRY(get_extremes(item, "min", INFINITY, min, &facts->channels, r->diag));
    TMK_TRY(get_extremes(item, "max", -INFINITY, max, &n, r->diag));
    if (axis >= TMK_MAX_RANK || n != facts->channels || n == 0)
        return tmk_fail(r->diag, TMK_FORMAT, "axis %" PRIu32 " with %zu minima and %zu maxima",
                        axis, facts->channels, n);
    facts->channel_axis = (int32_t)axis;
    facts->channel_min = *min;
    facts->channel_max = *max;
    return TMK_OK;
}

/* What readers in other languages want, and follows from the histogram; NaN where it isn't there.
 */
static enum tmk_status get_derived(const cJSON *item, struct tmk_summary *facts,
                                   struct tmk_diag *diag) {
    const cJSON *squares = tmk_json_member(item, "sum_squares");
    facts->mean = facts->std = facts->sumsq_lo = facts->sumsq_hi = NAN;
    if (tmk_json_member(item, "mean"))
        TMK_TRY(tmk_json_double(item, "mean", &facts->mean, diag));
    if (tmk_json_member(item, "std"))
        TMK_TRY(tmk_json_double(item, "std", &facts->std, diag));
    if (!squares)
        return TMK_OK;
    TMK_TRY(tmk_in(diag, tmk_json_double(squares, "low", &facts->sumsq_lo, diag), "'sum_squares'"));
    return tmk_in(diag, tmk_json_double(squares, "high", &facts->sumsq_hi, diag), "'sum_squares'");
}

static enum tmk_status get_facts(const cJSON *item, struct tmk_summary *facts,
                                 struct tmk_diag *diag) {
    TMK_TRY(tmk_json_u64(item, "count", &facts->count, diag));
    TMK_TRY(tmk_json_u64(item, "samples", &facts->samples, diag));
    TMK_TRY(tmk_json_u64(item, "updates", &facts->updates, diag));
    TMK_TRY(tmk_json_float(item, "min", &facts->min, diag));
    TMK_TRY(tmk_json_float(item, "max", &facts->max, diag));
    TMK_TRY(get_where(item, "min_at", &facts->min_at, diag));
    TMK_TRY(get_where(item, "max_at", &facts->max_at, diag));
    TMK_TRY(tmk_json_u64(item, "nan", &facts->nan, diag));
    TMK_TRY(tmk_json_u64(item, "posinf", &facts->posinf, diag));
    TMK_TRY(tmk_json_u64(item, "neginf", &facts->neginf, diag));
    TMK_TRY(get_where(item, "first_nonfinite", &facts->first_nonfinite, diag));
    if (tmk_json_member(item, "excluded"))
        TMK_TRY(tmk_json_u64(item, "excluded", &facts->excluded, diag));
    TMK_TRY(tmk_json_u64(item, "zeros", &facts->zeros, diag));
    TMK_TRY(tmk_json_u64(item, "negative_zeros", &facts->negative_zeros, diag));
    TMK_TRY(tmk_json_u64(item, "denormals", &facts->denormals, diag));
    TMK_TRY(tmk_json_u64(item, "negatives", &facts->negatives, diag));
    TMK_TRY(tmk_json_bool_or(item, "channel_conflict", &facts->channel_conflict, false, diag));
    TMK_TRY(get_derived(item, facts, diag));
    return tmk_json_double(item, "sum", &facts->sum, diag);
}

static enum tmk_status get_stats(struct reader *r, const cJSON *item, enum tmk_stats_level level,
                                 struct tmk_profile_tensor *t) {
    static const char *const keys[] = {
        IDENTITY,      "count",
        "samples",     "updates",
        "min",         "max",
        "min_at",      "max_at",
        "nan",         "posinf",
        "neginf",      "first_nonfinite",
        "zeros",       "negative_zeros",
        "denormals",   "negatives",
        "sum",         "mean",
        "std",         "sum_squares",
        "channels",    "channel_conflict",
        "histogram",   "nonfinite",
        "top_samples", "excluded",
        "std_bracket",
    };
    struct tmk_summary facts = {.level = level, .channel_axis = -1};
    float *min = NULL, *max = NULL;
    const cJSON *channels = tmk_json_member(item, "channels"),
                *topk = tmk_json_member(item, "top_samples");
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), tmk_profile_is_strict(r->profile), r->diag));
    TMK_TRY(get_facts(item, &facts, r->diag));
    TMK_TRY(tmk_in(r->diag, get_histogram(r, tmk_json_member(item, "histogram"), &facts),
                   "'histogram'"));
    enum tmk_status status = TMK_OK;
    if (topk)
        TMK_TRY(
            tmk_in(r->diag,
                   tmk_profile_get_topk(topk, tmk_profile_is_strict(r->profile), &t->topk, r->diag),
                   "'top_samples'"));
    if (channels)
        status = tmk_in(r->diag, get_channels(r, channels, &facts, &min, &max), "'channels'");
    if (status == TMK_OK)
        status = tmk_profile_set_stats(t, &facts, &r->bins, r->diag);
    free(min);
    free(max);
    return status;
}

static enum tmk_status get_int_stats(struct reader *r, const cJSON *item,
                                     struct tmk_profile_tensor *t) {
    static const char *const keys[] = {IDENTITY, "count",  "samples", "updates", "min",
                                       "max",    "min_at", "max_at",  "zeros",   "saturated"};
    struct tmk_int_stats *is = &t->int_stats;
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), tmk_profile_is_strict(r->profile), r->diag));
    t->has_int_stats = true;
    TMK_TRY(tmk_json_u64(item, "count", &is->count, r->diag));
    TMK_TRY(tmk_json_u64(item, "samples", &is->samples, r->diag));
    TMK_TRY(tmk_json_u64(item, "updates", &is->updates, r->diag));
    TMK_TRY(tmk_json_u64(item, "zeros", &is->zeros, r->diag));
    TMK_TRY(tmk_json_u64(item, "saturated", &is->saturated, r->diag));
    if (is->count == 0)
        return TMK_OK;
    TMK_TRY(tmk_json_i64(item, "min", &is->min, r->diag));
    TMK_TRY(tmk_json_i64(item, "max", &is->max, r->diag));
    TMK_TRY(get_where(item, "min_at", &is->min_at, r->diag));
    return get_where(item, "max_at", &is->max_at, r->diag);
}

static enum tmk_status get_numbers(struct reader *r, const cJSON *item,
                                   struct tmk_profile_tensor *t) {
    const char *level;
    TMK_TRY(tmk_json_text(item, "level", &level, r->diag));
    if (strcmp(level, "histogram") == 0)
        return get_stats(r, item, TMK_STATS_HISTOGRAM, t);
    if (strcmp(level, "range") == 0)
        return get_stats(r, item, TMK_STATS_RANGE, t);
    if (strcmp(level, "minmax") == 0)
        return get_stats(r, item, TMK_STATS_MINMAX, t);
    if (strcmp(level, "integer") == 0)
        return get_int_stats(r, item, t);
    if (strcmp(level, "none") != 0)
        return tmk_fail(r->diag, TMK_FORMAT, "'level': there is no level '%s'", level);
    static const char *const keys[] = {IDENTITY, "count"};
    uint64_t count = 0;
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), tmk_profile_is_strict(r->profile), r->diag));
    if (tmk_json_member(item, "count")) /* the first files of version 1.0 had none */
        TMK_TRY(tmk_json_u64(item, "count", &count, r->diag));
    if (count)
        return tmk_fail(r->diag, TMK_FORMAT, "'count': is %llu, but nothing else was kept",
                        (unsigned long long)count);
    return TMK_OK;
}

static enum tmk_status get_identity(struct reader *r, const cJSON *item,
                                    struct tmk_profile_tensor *t) {
    struct tmk_diag *diag = r->diag;
    const char *name, *path, *kind, *status, *dtype, *origin;
    TMK_TRY(tmk_json_hex64(item, "fingerprint", &t->fingerprint, diag));
    TMK_TRY(tmk_json_hex64(item, "content", &t->content, diag));
    TMK_TRY(tmk_json_u32(item, "ordinal", &t->ordinal, diag));
    TMK_TRY(tmk_json_text(item, "name", &name, diag));
    TMK_TRY(tmk_json_text_or(item, "path", &path, "", diag));
    TMK_TRY(tmk_json_text(item, "kind", &kind, diag));
    TMK_TRY(tmk_json_text(item, "status", &status, diag));
    TMK_TRY(tmk_json_text(item, "dtype", &dtype, diag));
    TMK_TRY(tmk_json_text(item, "origin", &origin, diag));
    t->name = tmk_profile_text(r->profile, name);
    t->path = tmk_profile_text(r->profile, path);
    if (!t->name || !t->path)
        return tmk_nomem(diag);
    TMK_TRY(tmk_profile_kind_by_name(kind, &t->kind, diag));
    TMK_TRY(tmk_profile_status_by_name(status, &t->status, diag));
    TMK_TRY(tmk_in(diag, tmk_profile_dtype_by_name(dtype, &t->dtype, diag), "'dtype'"));
    TMK_TRY(tmk_in(diag, tmk_profile_dtype_by_name(origin, &t->origin, diag), "'origin'"));
    TMK_TRY(tmk_profile_get_shape(r->profile, tmk_json_member(item, "shape"), t, diag));
    TMK_TRY(tmk_profile_get_runs(tmk_json_member(item, "observed_shapes"), t, diag));
    TMK_TRY(tmk_json_bool_or(item, "more_shapes", &t->more_runs, false, diag));
    return tmk_json_u64(item, "expected_count", &t->expected_count, diag);
}

static enum tmk_status get_tensor(struct reader *r, const cJSON *item) {
    struct tmk_profile_tensor *t;
    const cJSON *consumers, *consumer, *operands, *derivation;
    const char *text;
    uint32_t id;
    TMK_TRY(tmk_json_text(item, "id", &text, r->diag));
    if (!tmk_profile_id_of_text(text, &id))
        return tmk_fail(r->diag, TMK_FORMAT, "'id' is '%s', not an ID such as \"p0\"", text);
    TMK_TRY(tmk_profile_add_read(r->profile, id, &t, r->diag));
    TMK_TRY(get_identity(r, item, t));
    if (!tmk_json_member(item, "producer"))
        return tmk_fail(r->diag, TMK_FORMAT, "'producer' is missing");
    TMK_TRY(tmk_in(r->diag, get_producer(r, tmk_json_member(item, "producer"), t), "'producer'"));
    TMK_TRY(tmk_json_array(item, "consumers", &consumers, r->diag));
    cJSON_ArrayForEach(consumer, consumers)
        TMK_TRY(tmk_in(r->diag, get_consumer(r, consumer, t), "'consumers'"));
    operands = tmk_json_member(item, "operands");
    if (operands)
        TMK_TRY(tmk_profile_get_operands(operands, t, r->diag));
    derivation = tmk_json_member(item, "derivation");
    if (derivation)
        TMK_TRY(tmk_in(r->diag, get_derivation(r, derivation, t), "'derivation'"));
    return get_numbers(r, item, t);
}

static enum tmk_status get_tensors(struct reader *r, const char *text, size_t len) {
    struct tmk_json_scan scan;
    if (!tmk_json_enter(&scan, text, len, '['))
        return tmk_fail(r->diag, TMK_FORMAT, "'tensors' is not an array");
    for (size_t i = 0;; i++) {
        const char *value;
        size_t size;
        cJSON *item;
        enum tmk_status status = tmk_json_next(&scan, '[', NULL, &value, &size, r->diag);
        if (status == TMK_NOTFOUND)
            return TMK_OK;
        if (status == TMK_OK)
            status = tmk_json_parse(value, size, &item, r->diag);
        if (status == TMK_OK) {
            status = get_tensor(r, item);
            cJSON_Delete(item);
        }
        TMK_TRY(tmk_in(r->diag, status, "tensors[%zu]", i));
    }
}

static bool is_header_key(const char *key) {
    for (size_t i = 0; i < TMK_COUNT(header_keys); i++)
        if (strcmp(key, header_keys[i]) == 0)
            return true;
    return false;
}

/* Gathers the header's members as a tree and finds where the values stand. Of other members only
 * the name is kept, for the check of unknown keys. */
static enum tmk_status gather(struct reader *r, const char *text, size_t len, cJSON *header,
                              const char **tensors, size_t *tensors_len) {
    struct tmk_json_scan scan;
    if (!tmk_json_enter(&scan, text, len, '{'))
        return tmk_fail(r->diag, TMK_FORMAT, "not a profile: neither a JSON object nor HDF5");
    for (;;) {
        char *key;
        const char *value;
        size_t size;
        cJSON *item = NULL;
        enum tmk_status status = tmk_json_next(&scan, '{', &key, &value, &size, r->diag);
        if (status == TMK_NOTFOUND)
            break;
        TMK_TRY(status);
        if (strcmp(key, "tensors") == 0) {
            *tensors = value;
            *tensors_len = size;
        }
        if (is_header_key(key))
            status = tmk_in(r->diag, tmk_json_parse_held(value, size, &item, &r->held, r->diag),
                            "'%s'", key);
        else
            item = cJSON_CreateNull();
        if (status == TMK_OK && (!item || !cJSON_AddItemToObject(header, key, item))) {
            cJSON_Delete(item);
            status = tmk_nomem(r->diag);
        }
        free(key);
        TMK_TRY(status);
    }
    if (!tmk_json_rest_is_blank(&scan))
        return tmk_fail(r->diag, TMK_FORMAT, "something follows the profile's closing '}'");
    return TMK_OK;
}

enum tmk_status tmk_profile_read_json(const char *text, size_t len, struct tmk_profile *profile,
                                      struct tmk_diag *diag) {
    struct reader r = {.profile = profile, .diag = diag};
    const char *tensors = NULL;
    size_t tensors_len = 0;
    TMK_TRY(tmk_utf8_check(text, len, diag));
    TMK_TRY(tmk_profile_bins_init(&r.bins, diag));
    cJSON *header = cJSON_CreateObject();
    enum tmk_status status = header ? TMK_OK : tmk_nomem(diag);
    if (status == TMK_OK)
        status = gather(&r, text, len, header, &tensors, &tensors_len);
    if (status == TMK_OK)
        status = tmk_profile_get_header(profile, header, diag);
    if (status == TMK_OK)
        status = tensors ? get_tensors(&r, tensors, tensors_len)
                         : tmk_fail(diag, TMK_FORMAT, "'tensors' is missing");
    cJSON_Delete(header);
    tmk_memory_uncharge(r.held);
    tmk_profile_bins_finish(&r.bins);
    return status;
}
