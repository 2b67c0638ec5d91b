/* SPDX-License-Identifier: Apache-2.0 */
/* A profile as JSON: one member of the header a line, one value a line; memory for one value at a
 * time. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/diag.h"
#include "profile/format.h"

static void put_producer(struct tmk_json_out *to, const struct tmk_profile_tensor *t) {
    cJSON *item = cJSON_CreateObject();
    struct tmk_json_out producer = {item, !item};
    if (!t->has_producer) {
        cJSON_Delete(item);
        tmk_json_put(to, "producer", cJSON_CreateNull());
        return;
    }
    tmk_json_put_text(&producer, "node", t->producer.node);
    tmk_json_put_text(&producer, "op", t->producer.op);
    tmk_json_put_text(&producer, "domain", t->producer.domain);
    tmk_json_put_u64(&producer, "output", t->producer.output);
    tmk_json_put_child(to, "producer", &producer);
}

static void put_consumers(struct tmk_json_out *to, const struct tmk_profile_tensor *t) {
    cJSON *array = cJSON_CreateArray();
    struct tmk_json_out consumers = {array, !array};
    for (uint32_t i = 0; i < t->n_consumers; i++) {
        cJSON *item = cJSON_CreateObject();
        struct tmk_json_out consumer = {item, !item};
        tmk_json_put_text(&consumer, "node", t->consumers[i].node);
        tmk_json_put_text(&consumer, "op", t->consumers[i].op);
        tmk_json_put_text(&consumer, "domain", t->consumers[i].domain);
        tmk_json_put_u64(&consumer, "input", t->consumers[i].input);
        tmk_json_put_child(&consumers, NULL, &consumer);
    }
    tmk_json_put_child(to, "consumers", &consumers);
}

static void put_derivation(struct tmk_json_out *to, const struct tmk_profile_tensor *t) {
    cJSON *item = cJSON_CreateObject();
    struct tmk_json_out derivation = {item, !item};
    tmk_json_put_text(&derivation, "rule", t->rule);
    tmk_profile_put_sources(&derivation, "from", t);
    tmk_json_put_child(to, "derivation", &derivation);
}

static void put_index(struct tmk_json_out *to, const char *key, uint64_t value) {
    if (value == TMK_NOWHERE)
        tmk_json_put(to, key, cJSON_CreateNull());
    else
        tmk_json_put_u64(to, key, value);
}

static void put_where(struct tmk_json_out *to, const char *key, const struct tmk_where *at) {
    if (at->sample == TMK_NOWHERE && at->index == TMK_NOWHERE) {
        tmk_json_put(to, key, cJSON_CreateNull());
        return;
    }
    cJSON *item = cJSON_CreateObject();
    struct tmk_json_out where = {item, !item};
    put_index(&where, "sample", at->sample);
    put_index(&where, "index", at->index);
    tmk_json_put_child(to, key, &where);
}

static void put_counts(struct tmk_json_out *to, const char *key, const uint64_t *counts,
                       uint32_t n) {
    struct tmk_text text = {0};
    for (uint32_t i = 0; i < n; i++) {
        tmk_text_puts(&text, i ? "," : "[");
        tmk_json_u64_text(&text, counts[i]);
    }
    tmk_text_puts(&text, n ? "]" : "[]");
    tmk_json_put_raw(to, key, &text);
    tmk_text_finish(&text);
}

static void put_histogram(struct tmk_json_out *to, const struct tmk_stats *stats, uint32_t n,
                          const struct tmk_profile_bins *bins) {
    struct tmk_text text = {0};
    cJSON *item = cJSON_CreateObject();
    struct tmk_json_out histogram = {item, !item};
    tmk_stats_bins(stats, bins->bin, bins->count, bins->low);
    for (uint32_t i = 0; i < n; i++) {
        tmk_text_puts(&text, i ? "," : "[");
        tmk_json_u64_text(&text, bins->bin[i]);
    }
    tmk_text_puts(&text, n ? "]" : "[]");
    tmk_json_put_raw(&histogram, "bins", &text);
    tmk_text_finish(&text);
    put_counts(&histogram, "counts", bins->count, n);
    put_counts(&histogram, "low", bins->low, n);
    if (n && tmk_stats_squares(stats, bins->squares))
        put_counts(&histogram, "squares", bins->squares, n);
    tmk_json_put_child(to, "histogram", &histogram);
}

static void put_extremes(struct tmk_json_out *to, const char *key, const float *values, size_t n) {
    struct tmk_text text = {0};
    for (size_t c = 0; c < n; c++) {
        tmk_text_puts(&text, c ? "," : "[");
        tmk_json_float_text(&text, values[c]);
    }
    tmk_text_puts(&text, "]");
    tmk_json_put_raw(to, key, &text);
    tmk_text_finish(&text);
}

static void put_channels(struct tmk_json_out *to, const struct tmk_summary *is) {
    if (is->channel_conflict)
        tmk_json_put(to, "channel_conflict", cJSON_CreateTrue());
    if (is->channels == 0)
        return;
    cJSON *item = cJSON_CreateObject();
    struct tmk_json_out channels = {item, !item};
    tmk_json_put_i64(&channels, "axis", is->channel_axis);
    put_extremes(&channels, "min", is->channel_min, is->channels);
    put_extremes(&channels, "max", is->channel_max, is->channels);
    tmk_json_put_child(to, "channels", &channels);
}

static void put_bracket(struct tmk_json_out *to, const char *key, double low, double high) {
    cJSON *item = cJSON_CreateObject();
    struct tmk_json_out bracket = {item, !item};
    tmk_json_put_double(&bracket, "low", low);
    tmk_json_put_double(&bracket, "high", high);
    tmk_json_put_child(to, key, &bracket);
}

static void put_stats(struct tmk_json_out *to, const struct tmk_stats *stats,
                      const struct tmk_profile_bins *bins) {
    struct tmk_summary is;
    tmk_stats_summary(stats, &is);
    tmk_json_put_u64(to, "count", is.count);
    tmk_json_put_u64(to, "samples", is.samples);
    tmk_json_put_u64(to, "updates", is.updates);
    tmk_json_put_float(to, "min", is.min);
    tmk_json_put_float(to, "max", is.max);
    put_where(to, "min_at", &is.min_at);
    put_where(to, "max_at", &is.max_at);
    tmk_json_put_u64(to, "nan", is.nan);
    tmk_json_put_u64(to, "posinf", is.posinf);
    tmk_json_put_u64(to, "neginf", is.neginf);
    put_where(to, "first_nonfinite", &is.first_nonfinite);
    if (is.excluded)
        tmk_json_put_u64(to, "excluded", is.excluded);
    tmk_json_put_u64(to, "zeros", is.zeros);
    tmk_json_put_u64(to, "negative_zeros", is.negative_zeros);
    tmk_json_put_u64(to, "denormals", is.denormals);
    tmk_json_put_u64(to, "negatives", is.negatives);
    tmk_json_put_double(to, "sum", is.sum);
    tmk_json_put_double(to, "mean", is.mean);
    tmk_json_put_double(to, "std", is.std);
    if (!tmk_summary_std_is_close(&is))
        put_bracket(to, "std_bracket", is.std_lo, is.std_hi);
    put_bracket(to, "sum_squares", is.sumsq_lo, is.sumsq_hi);
    put_channels(to, &is);
    put_histogram(to, stats, is.bins_used, bins);
}

static void put_int_stats(struct tmk_json_out *to, const struct tmk_int_stats *is) {
    tmk_json_put_u64(to, "count", is->count);
    tmk_json_put_u64(to, "samples", is->samples);
    tmk_json_put_u64(to, "updates", is->updates);
    if (is->count) {
        tmk_json_put_i64(to, "min", is->min);
        tmk_json_put_i64(to, "max", is->max);
        put_where(to, "min_at", &is->min_at);
        put_where(to, "max_at", &is->max_at);
    } else {
        static const char *const keys[] = {"min", "max", "min_at", "max_at"};
        for (size_t i = 0; i < 4; i++)
            tmk_json_put(to, keys[i], cJSON_CreateNull());
    }
    tmk_json_put_u64(to, "zeros", is->zeros);
    tmk_json_put_u64(to, "saturated", is->saturated);
}

static void put_nonfinite(struct tmk_json_out *to, const struct tmk_nonfinite *nonfinite) {
    cJSON *item = cJSON_CreateObject();
    struct tmk_json_out member = {item, !item};
    if (nonfinite->n_from)
        tmk_profile_put_ids(&member, "inherits", nonfinite->from, nonfinite->n_from);
    else
        tmk_json_put(&member, "origin", cJSON_CreateTrue());
    tmk_json_put_child(to, "nonfinite", &member);
}

/* nonfinite NULL: it was always finite, or it is not known where it began. */
static enum tmk_status tensor_text(const struct tmk_profile_tensor *t,
                                   const struct tmk_nonfinite *nonfinite,
                                   const struct tmk_profile_bins *bins, struct tmk_text *out,
                                   struct tmk_diag *diag) {
    char id[24];
    cJSON *item = cJSON_CreateObject();
    struct tmk_json_out to = {item, !item};
    snprintf(id, sizeof id, "p%" PRIu32, t->id);
    tmk_json_put_text(&to, "id", id);
    snprintf(id, sizeof id, "%016" PRIx64, t->fingerprint);
    tmk_json_put_text(&to, "fingerprint", id);
    snprintf(id, sizeof id, "%016" PRIx64, t->content);
    tmk_json_put_text(&to, "content", id);
    tmk_json_put_u64(&to, "ordinal", t->ordinal);
    tmk_json_put_text(&to, "name", t->name);
    if (*t->path)
        tmk_json_put_text(&to, "path", t->path);
    tmk_json_put_text(&to, "kind", tmk_profile_kind_name(t->kind));
    tmk_json_put_text(&to, "status", tmk_profile_status_name(t->status));
    tmk_json_put_text(&to, "dtype", tmk_dtype_name(t->dtype));
    tmk_json_put_text(&to, "origin", tmk_dtype_name(t->origin));
    tmk_profile_put_shape(&to, "shape", t);
    tmk_profile_put_runs(&to, "observed_shapes", t);
    if (t->more_runs)
        tmk_json_put(&to, "more_shapes", cJSON_CreateTrue());
    tmk_json_put_u64(&to, "expected_count", t->expected_count);
    put_producer(&to, t);
    put_consumers(&to, t);
    if (t->n_operands)
        tmk_profile_put_ids(&to, "operands", t->operands, t->n_operands);
    if (*t->rule)
        put_derivation(&to, t);
    tmk_json_put_text(&to, "level", tmk_profile_level_name(t));
    if (t->stats)
        put_stats(&to, t->stats, bins);
    if (t->topk.n)
        tmk_profile_put_topk(&to, "top_samples", &t->topk);
    if (nonfinite)
        put_nonfinite(&to, nonfinite);
    if (t->stats)
        return tmk_json_finish(&to, out, diag);
    if (t->has_int_stats)
        put_int_stats(&to, &t->int_stats);
    else
        tmk_json_put_u64(&to, "count", 0);
    return tmk_json_finish(&to, out, diag);
}

static enum tmk_status flush(struct tmk_outfile *out, struct tmk_text *text,
                             struct tmk_diag *diag) {
    if (text->failed)
        return tmk_nomem(diag);
    enum tmk_status status = tmk_outfile_write(out, text->data, text->len, diag);
    text->len = 0;
    return status;
}

static enum tmk_status write_parts(const struct tmk_profile *profile, struct tmk_outfile *out,
                                   const struct tmk_profile_bins *bins,
                                   const struct tmk_nonfinite *nonfinite, uint32_t n_nonfinite,
                                   struct tmk_text *text, struct tmk_diag *diag) {
    uint32_t at = 0;
    tmk_text_puts(text, "{\n");
    TMK_TRY(tmk_profile_header_text(profile, ",\n", text, diag));
    tmk_text_puts(text, ",\n\"tensors\":[");
    for (uint32_t i = 0; i < profile->n_tensors; i++) {
        tmk_text_puts(text, i ? ",\n" : "\n");
        const struct tmk_profile_tensor *t = &profile->tensors[i];
        bool is = at < n_nonfinite && nonfinite[at].id == t->id;
        TMK_TRY(tensor_text(t, is ? &nonfinite[at++] : NULL, bins, text, diag));
        TMK_TRY(flush(out, text, diag));
    }
    tmk_text_puts(text, "\n]\n}\n");
    return flush(out, text, diag);
}

enum tmk_status tmk_profile_write_json(const struct tmk_profile *profile, struct tmk_outfile *out,
                                       struct tmk_diag *diag) {
    struct tmk_profile_bins bins;
    struct tmk_text text = {0};
    struct tmk_nonfinite *nonfinite;
    uint32_t n;
    TMK_TRY(tmk_profile_nonfinite(profile, &nonfinite, &n, diag));
    enum tmk_status status = tmk_profile_bins_init(&bins, diag);
    if (status != TMK_OK) {
        free(nonfinite);
        return status;
    }
    status = write_parts(profile, out, &bins, nonfinite, n, &text, diag);
    free(nonfinite);
    tmk_text_finish(&text);
    tmk_profile_bins_finish(&bins);
    return status;
}
