/* SPDX-License-Identifier: Apache-2.0 */
/* A profile from HDF5. Datasets and columns that are not known are not looked at. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "base/utf8.h"
#include "profile/hdf5_in.h"

/* ---- the header ---- */

static enum tmk_status read_header(struct tmk_h5_reader *r) {
    cJSON *header;
    TMK_TRY(tmk_h5_read_json(r, "header", &header));
    enum tmk_status status = tmk_profile_get_header(r->profile, header, r->diag);
    cJSON_Delete(header);
    return tmk_in(r->diag, status, "'header'");
}

/* ---- /tensors ---- */

static enum tmk_status keep(struct tmk_h5_reader *r, const char *text, const char **out) {
    if (text && !tmk_utf8_valid(text, strlen(text)))
        return tmk_fail(r->diag, TMK_FORMAT, "a text that is not UTF-8");
    *out = tmk_profile_text(r->profile, text ? text : "");
    return *out ? TMK_OK : tmk_nomem(r->diag);
}

static enum tmk_status parse(struct tmk_h5_reader *r, const char *text, const char *name,
                             cJSON **out) {
    return tmk_in(r->diag, tmk_json_parse(text ? text : "", text ? strlen(text) : 0, out, r->diag),
                  "'%s'", name);
}

static enum tmk_status read_json_columns(struct tmk_h5_reader *r, const struct tmk_h5_tensor *row,
                                         struct tmk_profile_tensor *t) {
    cJSON *item;
    TMK_TRY(parse(r, row->shape, "shape", &item));
    enum tmk_status status = tmk_profile_get_shape(r->profile, item, t, r->diag);
    cJSON_Delete(item);
    TMK_TRY(status);
    TMK_TRY(parse(r, row->observed_shapes, "observed_shapes", &item));
    status = tmk_profile_get_runs(item, t, r->diag);
    cJSON_Delete(item);
    TMK_TRY(status);
    TMK_TRY(parse(r, row->derivation_from, "derivation_from", &item));
    status = tmk_profile_get_sources(item, t, r->diag);
    cJSON_Delete(item);
    return status;
}

static enum tmk_status read_identity(struct tmk_h5_reader *r, const struct tmk_h5_tensor *row,
                                     struct tmk_profile_tensor *t) {
    t->fingerprint = row->fingerprint;
    t->content = row->content;
    t->ordinal = row->ordinal;
    TMK_TRY(keep(r, row->name, &t->name));
    TMK_TRY(keep(r, row->path, &t->path));
    TMK_TRY(tmk_profile_kind_by_name(row->kind, &t->kind, r->diag));
    TMK_TRY(tmk_profile_status_by_name(row->status, &t->status, r->diag));
    TMK_TRY(tmk_in(r->diag, tmk_profile_dtype_by_name(row->dtype, &t->dtype, r->diag), "'dtype'"));
    TMK_TRY(
        tmk_in(r->diag, tmk_profile_dtype_by_name(row->origin, &t->origin, r->diag), "'origin'"));
    TMK_TRY(read_json_columns(r, row, t));
    t->more_runs = row->more_shapes != 0;
    t->expected_count = row->expected_count;
    if (row->producer_output < -1 || row->producer_output > UINT32_MAX)
        return tmk_fail(r->diag, TMK_FORMAT, "'producer_output' is %" PRId64, row->producer_output);
    t->has_producer = row->producer_output >= 0;
    t->producer.output = t->has_producer ? (uint32_t)row->producer_output : 0;
    TMK_TRY(keep(r, row->producer_node, &t->producer.node));
    TMK_TRY(keep(r, row->producer_op, &t->producer.op));
    TMK_TRY(keep(r, row->producer_domain, &t->producer.domain));
    return keep(r, row->derivation_rule, &t->rule);
}

static enum tmk_status check_words(struct tmk_h5_reader *r, struct tmk_h5_tensor *row) {
    char *const words[] = {row->kind, row->status, row->dtype, row->origin, row->level};
    for (size_t i = 0; i < TMK_COUNT(words); i++) {
        if (!tmk_utf8_valid(words[i], strlen(words[i])))
            return tmk_fail(r->diag, TMK_FORMAT, "a word that is not UTF-8");
    }
    return TMK_OK;
}

/* The flat parts that belong to the rows of /tensors, in their order. */
struct parts {
    struct tmk_h5_in bin_offsets, bins, counts, low, squares;
    bool has_squares; /* since 1.4 */
    struct tmk_h5_in channel_offsets, channel_min, channel_max;
};

static enum tmk_status open_parts(struct tmk_h5_reader *r, struct parts *p) {
    TMK_TRY(tmk_h5_open_column(r, "histograms/offsets", TMK_HDF5_U64, &p->bin_offsets));
    TMK_TRY(tmk_h5_open_column(r, "histograms/bins", TMK_HDF5_U16, &p->bins));
    TMK_TRY(tmk_h5_open_column(r, "histograms/counts", TMK_HDF5_U64, &p->counts));
    TMK_TRY(tmk_h5_open_column(r, "histograms/low", TMK_HDF5_U64, &p->low));
    TMK_TRY(tmk_h5_has(r, "histograms/squares", &p->has_squares));
    if (p->has_squares)
        TMK_TRY(tmk_h5_open_column(r, "histograms/squares", TMK_HDF5_U64, &p->squares));
    TMK_TRY(tmk_h5_open_column(r, "channels/offsets", TMK_HDF5_U64, &p->channel_offsets));
    TMK_TRY(tmk_h5_open_column(r, "channels/min", TMK_HDF5_F32, &p->channel_min));
    return tmk_h5_open_column(r, "channels/max", TMK_HDF5_F32, &p->channel_max);
}

/* The length of the next row's part: offsets begin at 0 and never fall. */
static enum tmk_status next_part(struct tmk_h5_reader *r, struct tmk_h5_in *offsets, uint64_t *last,
                                 uint64_t limit, uint64_t *n) {
    uint64_t end;
    TMK_TRY(tmk_h5_take(r, offsets, &end, 1));
    if (end < *last || end - *last > limit)
        return tmk_fail(r->diag, TMK_FORMAT, "'offsets': %" PRIu64 " after %" PRIu64, end, *last);
    *n = end - *last;
    *last = end;
    return TMK_OK;
}

static enum tmk_status take_channels(struct tmk_h5_reader *r, struct parts *p, size_t n,
                                     struct tmk_summary *facts, float **out) {
    if (n == 0)
        return TMK_OK;
    if (n > p->channel_min.size || n > p->channel_max.size)
        return tmk_fail(r->diag, TMK_FORMAT, "'channels' is too short");
    float *min = malloc(2 * n * sizeof *min);
    if (!min)
        return tmk_nomem(r->diag);
    float *max = min + n;
    *out = min;
    TMK_TRY(tmk_h5_take(r, &p->channel_min, min, n));
    TMK_TRY(tmk_h5_take(r, &p->channel_max, max, n));
    for (size_t i = 0; i < n; i++) {
        min[i] = isnan(min[i]) ? INFINITY : min[i];
        max[i] = isnan(max[i]) ? -INFINITY : max[i];
    }
    facts->channels = n;
    facts->channel_min = min;
    facts->channel_max = max;
    return TMK_OK;
}

static enum tmk_status read_stats(struct tmk_h5_reader *r, const struct tmk_h5_tensor *row,
                                  enum tmk_stats_level level, struct parts *p, uint64_t n_bins,
                                  uint64_t n_channels, struct tmk_profile_tensor *t) {
    float *channels = NULL;
    struct tmk_summary facts = {
        .level = level,
        .count = row->count,
        .nan = row->nan,
        .posinf = row->posinf,
        .neginf = row->neginf,
        .excluded = row->excluded,
        .zeros = row->zeros,
        .negative_zeros = row->negative_zeros,
        .samples = row->samples,
        .updates = row->updates,
        .min = row->min,
        .max = row->max,
        .min_at = {row->min_sample, row->min_index},
        .max_at = {row->max_sample, row->max_index},
        .first_nonfinite = {row->first_nonfinite_sample, row->first_nonfinite_index},
        .bins_used = (uint32_t)n_bins,
        .channel_axis = row->channel_axis,
        .channel_conflict = row->channel_conflict != 0,
        .denormals = row->denormals,
        .negatives = row->negatives,
        .sum = row->sum,
        .mean = row->mean,
        .std = row->std,
        .sumsq_lo = row->sum_squares_low,
        .sumsq_hi = row->sum_squares_high,
        .squares = p->has_squares && row->squares_kept && n_bins ? r->bins.squares : NULL,
    };
    TMK_TRY(tmk_h5_take(r, &p->bins, r->bins.bin, n_bins));
    TMK_TRY(tmk_h5_take(r, &p->counts, r->bins.count, n_bins));
    TMK_TRY(tmk_h5_take(r, &p->low, r->bins.low, n_bins));
    if (p->has_squares)
        TMK_TRY(tmk_h5_take(r, &p->squares, r->bins.squares, n_bins));
    enum tmk_status status = take_channels(r, p, (size_t)n_channels, &facts, &channels);
    if (status == TMK_OK)
        status = tmk_profile_set_stats(t, &facts, &r->bins, r->diag);
    free(channels);
    return status;
}

static void read_int_stats(const struct tmk_h5_tensor *row, struct tmk_profile_tensor *t) {
    t->has_int_stats = true;
    t->int_stats.count = row->count;
    t->int_stats.samples = row->samples;
    t->int_stats.updates = row->updates;
    t->int_stats.zeros = row->zeros;
    if (row->count) {
        t->int_stats.min_at = (struct tmk_where){row->min_sample, row->min_index};
        t->int_stats.max_at = (struct tmk_where){row->max_sample, row->max_index};
    }
}

struct cursor {
    struct parts parts;
    uint64_t bins, channels; /* where the last row's parts ended */
};

static enum tmk_status read_numbers(struct tmk_h5_reader *r, const struct tmk_h5_tensor *row,
                                    struct cursor *c, struct tmk_profile_tensor *t) {
    uint64_t n_bins = 0, n_channels = 0;
    TMK_TRY(next_part(r, &c->parts.bin_offsets, &c->bins, TMK_PROFILE_MAX_BINS, &n_bins));
    TMK_TRY(next_part(r, &c->parts.channel_offsets, &c->channels, SIZE_MAX / 16, &n_channels));
    if (strcmp(row->level, "histogram") == 0)
        return read_stats(r, row, TMK_STATS_HISTOGRAM, &c->parts, n_bins, n_channels, t);
    if (strcmp(row->level, "range") == 0)
        return read_stats(r, row, TMK_STATS_RANGE, &c->parts, n_bins, n_channels, t);
    if (strcmp(row->level, "minmax") == 0)
        return read_stats(r, row, TMK_STATS_MINMAX, &c->parts, n_bins, n_channels, t);
    if (n_bins || n_channels)
        return tmk_fail(r->diag, TMK_FORMAT, "a histogram of a value without floats");
    if (strcmp(row->level, "integer") == 0)
        read_int_stats(row, t);
    else if (strcmp(row->level, "none") != 0)
        return tmk_fail(r->diag, TMK_FORMAT, "'level': there is no level '%s'", row->level);
    return TMK_OK;
}

static enum tmk_status read_row(struct tmk_h5_reader *r, void *bytes, void *context) {
    struct tmk_h5_tensor *row = bytes;
    struct cursor *c = context;
    struct tmk_profile_tensor *t = NULL;
    TMK_TRY(check_words(r, row));
    TMK_TRY(tmk_profile_add_read(r->profile, row->id, &t, r->diag));
    TMK_TRY(read_identity(r, row, t));
    return read_numbers(r, row, c, t);
}

static enum tmk_status check_ends(struct tmk_h5_reader *r, const struct cursor *c) {
    const struct parts *p = &c->parts;
    const struct tmk_h5_in *all[] = {&p->bin_offsets, &p->bins,       &p->counts,
                                     &p->low,         &p->squares,    &p->channel_offsets,
                                     &p->channel_min, &p->channel_max};
    for (size_t i = 0; i < TMK_COUNT(all); i++)
        if (all[i]->at != all[i]->size)
            return tmk_fail(r->diag, TMK_FORMAT, "'%s' holds more than the values need",
                            all[i]->name);
    return TMK_OK;
}

static enum tmk_status read_tensors(struct tmk_h5_reader *r) {
    struct cursor c = {.bins = 0};
    uint64_t none;
    TMK_TRY(open_parts(r, &c.parts));
    TMK_TRY(next_part(r, &c.parts.bin_offsets, &c.bins, 0, &none));
    TMK_TRY(next_part(r, &c.parts.channel_offsets, &c.channels, 0, &none));
    TMK_TRY(tmk_h5_each_row(r, "tensors", &tmk_h5_tensors, read_row, &c));
    return check_ends(r, &c);
}

/* ---- /consumers, /integers, /samples ---- */

static enum tmk_status record_of(struct tmk_h5_reader *r, uint32_t id,
                                 struct tmk_profile_tensor **out) {
    const struct tmk_profile_tensor *t = tmk_profile_by_id(r->profile, id);
    if (!t)
        return tmk_fail(r->diag, TMK_FORMAT, "p%" PRIu32 " is not among the values", id);
    *out = &r->profile->tensors[t - r->profile->tensors];
    return TMK_OK;
}

static enum tmk_status check_texts(struct tmk_h5_reader *r, const struct tmk_h5_consumer *row) {
    return tmk_utf8_valid(row->node, strlen(row->node)) &&
                   tmk_utf8_valid(row->op, strlen(row->op)) &&
                   tmk_utf8_valid(row->domain, strlen(row->domain))
               ? TMK_OK
               : tmk_fail(r->diag, TMK_FORMAT, "a text that is not UTF-8");
}

static enum tmk_status read_consumer(struct tmk_h5_reader *r, void *bytes, void *context) {
    const struct tmk_h5_consumer *row = bytes;
    struct tmk_profile_tensor *t = NULL;
    (void)context;
    TMK_TRY(record_of(r, row->tensor_id, &t));
    TMK_TRY(check_texts(r, row));
    return tmk_profile_add_consumer(r->profile, t, row->node, row->op, row->domain, row->input,
                                    r->diag);
}

static enum tmk_status read_consumers(struct tmk_h5_reader *r) {
    return tmk_h5_each_row(r, "consumers", &tmk_h5_consumers, read_consumer, NULL);
}

/* What is still to come of the values of integers. */
struct integers {
    uint32_t rows;
    uint64_t next_id;
};

static enum tmk_status read_integer(struct tmk_h5_reader *r, void *bytes, void *context) {
    const struct tmk_h5_integer *row = bytes;
    struct integers *integers = context;
    struct tmk_profile_tensor *t = NULL;
    TMK_TRY(record_of(r, row->tensor_id, &t));
    if (!t->has_int_stats || row->tensor_id < integers->next_id)
        return tmk_fail(r->diag, TMK_FORMAT,
                        "p%" PRIu32 " is no value of integers, or out of order", row->tensor_id);
    integers->rows++;
    integers->next_id = (uint64_t)row->tensor_id + 1;
    t->int_stats.saturated = row->saturated;
    if (t->int_stats.count) {
        t->int_stats.min = row->min;
        t->int_stats.max = row->max;
    }
    return TMK_OK;
}

static enum tmk_status read_integers(struct tmk_h5_reader *r) {
    struct integers integers = {0, 0};
    uint32_t expected = 0;
    TMK_TRY(tmk_h5_each_row(r, "integers", &tmk_h5_integers, read_integer, &integers));
    for (uint32_t i = 0; i < r->profile->n_tensors; i++)
        expected += r->profile->tensors[i].has_int_stats;
    if (integers.rows != expected)
        return tmk_fail(r->diag, TMK_FORMAT,
                        "'integers' has %" PRIu32 " rows for %" PRIu32 " values", integers.rows,
                        expected);
    return TMK_OK;
}

static enum tmk_status read_sample_row(struct tmk_h5_reader *r, struct tmk_hdf5_dataset *set,
                                       uint64_t row, float **out) {
    size_t bytes;
    if (!tmk_hdf5_size(set, 1, &bytes))
        return tmk_fail(r->diag, TMK_FORMAT, "'samples' is too large");
    *out = malloc(bytes ? bytes : 1);
    if (!*out)
        return tmk_nomem(r->diag);
    return tmk_in(r->diag, tmk_hdf5_read(r->file, set, row, 1, *out, r->diag), "'samples'");
}

static enum tmk_status read_samples(struct tmk_h5_reader *r) {
    struct tmk_hdf5_dataset min, max;
    struct tmk_h5_in ids;
    bool has;
    TMK_TRY(tmk_h5_has(r, "samples", &has));
    if (!has)
        return TMK_OK;
    TMK_TRY(tmk_h5_open_column(r, "samples/tensor", TMK_HDF5_U32, &ids));
    TMK_TRY(tmk_h5_open_numbers(r, "samples/min", 2, TMK_HDF5_F32, &min));
    TMK_TRY(tmk_h5_open_numbers(r, "samples/max", 2, TMK_HDF5_F32, &max));
    if (min.dim[0] != ids.size || max.dim[0] != ids.size || min.dim[1] != max.dim[1])
        return tmk_fail(r->diag, TMK_FORMAT, "'samples': its parts have different sizes");
    for (uint64_t row = 0; row < ids.size; row++) {
        uint32_t id;
        struct tmk_profile_tensor *t = NULL;
        TMK_TRY(tmk_h5_take(r, &ids, &id, 1));
        TMK_TRY(record_of(r, id, &t));
        if (t->sample_min)
            return tmk_fail(r->diag, TMK_FORMAT, "'samples': p%" PRIu32 " stands twice", id);
        TMK_TRY(read_sample_row(r, &min, row, &t->sample_min));
        TMK_TRY(read_sample_row(r, &max, row, &t->sample_max));
        t->n_samples = min.dim[1];
    }
    return TMK_OK;
}

static enum tmk_status read_topk(struct tmk_h5_reader *r) {
    struct tmk_h5_in ids, min, min_sample, max, max_sample;
    bool has;
    TMK_TRY(tmk_h5_has(r, "top_samples", &has));
    if (!has) /* before version 1.3 */
        return TMK_OK;
    TMK_TRY(tmk_h5_open_column(r, "top_samples/tensor", TMK_HDF5_U32, &ids));
    TMK_TRY(tmk_h5_open_column(r, "top_samples/min", TMK_HDF5_F32, &min));
    TMK_TRY(tmk_h5_open_column(r, "top_samples/min_sample", TMK_HDF5_U64, &min_sample));
    TMK_TRY(tmk_h5_open_column(r, "top_samples/max", TMK_HDF5_F32, &max));
    TMK_TRY(tmk_h5_open_column(r, "top_samples/max_sample", TMK_HDF5_U64, &max_sample));
    if (min.size != ids.size || min_sample.size != ids.size || max.size != ids.size ||
        max_sample.size != ids.size)
        return tmk_fail(r->diag, TMK_FORMAT, "'top_samples': its parts have different sizes");
    for (uint64_t row = 0; row < ids.size; row++) {
        uint32_t id;
        struct tmk_profile_tensor *t = NULL;
        TMK_TRY(tmk_h5_take(r, &ids, &id, 1));
        TMK_TRY(record_of(r, id, &t));
        if (t->topk.n == TMK_TOPK)
            return tmk_fail(r->diag, TMK_FORMAT,
                            "'top_samples': p%" PRIu32 " has more than %d samples", id, TMK_TOPK);
        uint32_t at = t->topk.n++;
        TMK_TRY(tmk_h5_take(r, &min, &t->topk.min[at].value, 1));
        TMK_TRY(tmk_h5_take(r, &min_sample, &t->topk.min[at].sample, 1));
        TMK_TRY(tmk_h5_take(r, &max, &t->topk.max[at].value, 1));
        TMK_TRY(tmk_h5_take(r, &max_sample, &t->topk.max[at].sample, 1));
    }
    return TMK_OK;
}

static enum tmk_status read_operands(struct tmk_h5_reader *r) {
    struct tmk_h5_in ids, operands;
    bool has;
    TMK_TRY(tmk_h5_has(r, "operands", &has));
    if (!has) /* before version 1.2 */
        return TMK_OK;
    TMK_TRY(tmk_h5_open_column(r, "operands/tensor", TMK_HDF5_U32, &ids));
    TMK_TRY(tmk_h5_open_column(r, "operands/operand", TMK_HDF5_U32, &operands));
    if (ids.size != operands.size)
        return tmk_fail(r->diag, TMK_FORMAT, "'operands': its parts have different sizes");
    for (uint64_t row = 0; row < ids.size; row++) {
        uint32_t id, operand;
        struct tmk_profile_tensor *t = NULL;
        TMK_TRY(tmk_h5_take(r, &ids, &id, 1));
        TMK_TRY(tmk_h5_take(r, &operands, &operand, 1));
        TMK_TRY(record_of(r, id, &t));
        TMK_TRY(tmk_profile_add_operand(t, operand, r->diag));
    }
    return TMK_OK;
}

static enum tmk_status read_parts(struct tmk_h5_reader *r) {
    static enum tmk_status (*const parts[])(struct tmk_h5_reader * r) = {
        read_header,  read_tensors, read_consumers, read_integers,
        read_samples, read_topk,    read_operands,
    };
    for (size_t i = 0; i < TMK_COUNT(parts); i++)
        TMK_TRY(parts[i](r));
    return TMK_OK;
}

enum tmk_status tmk_profile_read_hdf5(const char *path, struct tmk_profile *profile,
                                      struct tmk_diag *diag) {
    struct tmk_h5_reader r = {.profile = profile, .diag = diag};
    TMK_TRY(tmk_profile_bins_init(&r.bins, diag));
    enum tmk_status status = tmk_h5_begin_file(&r, path);
    if (status == TMK_OK)
        status = read_parts(&r);
    tmk_h5_end_file(&r);
    tmk_profile_bins_finish(&r.bins);
    return status;
}
