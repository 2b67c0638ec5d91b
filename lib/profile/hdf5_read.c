/* SPDX-License-Identifier: Apache-2.0 */
/* A profile from HDF5. Datasets and columns that are not known are not looked at. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/size.h"
#include "profile/hdf5_in.h"

/* ---- the header ---- */

static enum tmk_status read_header(struct tmk_h5_reader *r) {
    cJSON *header;
    TMK_TRY(tmk_h5_read_header(r, &header));
    enum tmk_status status = tmk_profile_get_header(r->profile, header, r->diag);
    cJSON_Delete(header);
    return tmk_in(r->diag, status, "'header'");
}

/* ---- /tensors ---- */

/* The flat parts that belong to the rows of /tensors, in their order. */
struct parts {
    struct tmk_h5_in bin_offsets, channel_offsets;
    struct tmk_h5_in bins[TMK_COUNT(tmk_h5_histograms)], channels[TMK_COUNT(tmk_h5_channels)];
    uint64_t n_bins, n_channels; /* where the last row's parts ended */
};

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

static enum tmk_status read_numbers(struct tmk_h5_reader *r, struct parts *p,
                                    struct tmk_profile_row *row) {
    uint64_t bins = 0, channels = 0;
    TMK_TRY(next_part(r, &p->bin_offsets, &p->n_bins, TMK_PROFILE_MAX_BINS, &bins));
    TMK_TRY(next_part(r, &p->channel_offsets, &p->n_channels, SIZE_MAX / 16, &channels));
    if (row->level == TMK_PROFILE_INTEGERS) {
        /* What floats have too; the rest is in /integers. */
        row->t.int_stats.count = row->is.count;
        row->t.int_stats.samples = row->is.samples;
        row->t.int_stats.updates = row->is.updates;
        row->t.int_stats.zeros = row->is.zeros;
        if (row->is.count) {
            row->t.int_stats.min_at = row->is.min_at;
            row->t.int_stats.max_at = row->is.max_at;
        }
    }
    if (row->level >= TMK_PROFILE_MINMAX) {
        const bool has_squares = p->bins[3].block;
        row->is.bins_used = (uint32_t)bins;
        TMK_TRY(tmk_h5_take(r, &p->bins[0], r->bins.bin, bins));
        TMK_TRY(tmk_h5_take(r, &p->bins[1], r->bins.count, bins));
        TMK_TRY(tmk_h5_take(r, &p->bins[2], r->bins.low, bins));
        if (has_squares)
            TMK_TRY(tmk_h5_take(r, &p->bins[3], r->bins.squares, bins));
        if (has_squares && row->is.squares_kept && bins)
            row->is.squares = r->bins.squares;
        size_t n = (size_t)channels;
        if (n != 0) {
            if (n > p->channels[0].size)
                return tmk_fail(r->diag, TMK_FORMAT, "'channels' is too short");
            float *min = malloc(2 * n * sizeof *min);
            TMK_TRY_ALLOC(min, r->diag);
            float *max = min + n;
            row->channels = min;
            TMK_TRY(tmk_h5_take(r, &p->channels[0], min, n));
            TMK_TRY(tmk_h5_take(r, &p->channels[1], max, n));
            for (size_t i = 0; i < n; i++) {
                min[i] = isnan(min[i]) ? INFINITY : min[i];
                max[i] = isnan(max[i]) ? -INFINITY : max[i];
            }
            row->is.channels = n;
            row->is.channel_min = min;
            row->is.channel_max = max;
        }
    } else if (bins || channels) {
        return tmk_fail(r->diag, TMK_FORMAT, "a histogram of a value without floats");
    }
    return tmk_profile_row_restore(row, r->diag);
}

static enum tmk_status read_value(struct tmk_h5_reader *r, struct parts *p,
                                  struct tmk_profile_row *row) {
    if (row->producer_output < -1 || row->producer_output > UINT32_MAX)
        return tmk_fail(r->diag, TMK_FORMAT, "'producer_output' is %" PRId64, row->producer_output);
    row->t.has_producer = row->producer_output >= 0;
    row->t.producer.output = row->t.has_producer ? (uint32_t)row->producer_output : 0;
    return read_numbers(r, p, row);
}

static enum tmk_status read_row(struct tmk_h5_reader *r, enum tmk_status loaded, void *record,
                                void *parts) {
    struct tmk_profile_row *row = record;
    struct tmk_profile_tensor *t = NULL;
    row->bins = &r->bins;
    enum tmk_status status = tmk_profile_add_read(r->profile, row->t.id, &t, r->diag);
    if (status != TMK_OK) {
        free(row->t.runs);
        free(row->t.sources);
        return status;
    }
    if (loaded == TMK_OK)
        status = read_value(r, parts, row);
    free(row->channels);
    *t = row->t;
    return loaded == TMK_OK ? status : loaded;
}

static enum tmk_status read_tensors(struct tmk_h5_reader *r) {
    struct parts p = {.n_bins = 0};
    uint64_t none;
    TMK_TRY(tmk_h5_open_column(r, "histograms/offsets", TMK_HDF5_U64, &p.bin_offsets));
    TMK_TRY(tmk_h5_open_columns(r, "histograms", tmk_h5_histograms, TMK_COUNT(p.bins), p.bins));
    TMK_TRY(tmk_h5_open_column(r, "channels/offsets", TMK_HDF5_U64, &p.channel_offsets));
    TMK_TRY(tmk_h5_open_columns(r, "channels", tmk_h5_channels, TMK_COUNT(p.channels), p.channels));
    TMK_TRY(next_part(r, &p.bin_offsets, &p.n_bins, 0, &none));
    TMK_TRY(next_part(r, &p.channel_offsets, &p.n_channels, 0, &none));
    r->fields = tmk_profile_reader(r->profile, r->diag);
    TMK_TRY(tmk_h5_each_row(r, "tensors", &tmk_h5_tensors, read_row, &p));
    const struct tmk_h5_in *all[] = {&p.bin_offsets, &p.bins[0],    &p.bins[1],
                                     &p.bins[2],     &p.bins[3],    &p.channel_offsets,
                                     &p.channels[0], &p.channels[1]};
    for (size_t i = 0; i < TMK_COUNT(all); i++)
        if (all[i]->at != all[i]->size)
            return tmk_fail(r->diag, TMK_FORMAT, "'%s' holds more than the values need",
                            all[i]->name);
    return TMK_OK;
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

static enum tmk_status read_consumer(struct tmk_h5_reader *r, enum tmk_status loaded, void *record,
                                     void *context) {
    const struct tmk_h5_consumer *row = record;
    struct tmk_profile_tensor *t = NULL;
    (void)context;
    TMK_TRY(loaded);
    TMK_TRY(record_of(r, row->tensor_id, &t));
    TMK_TRY_ALLOC(TMK_PROFILE_GROW(t->consumers, t->n_consumers), r->diag);
    t->consumers[t->n_consumers++] = row->consumer;
    return TMK_OK;
}

static enum tmk_status read_consumers(struct tmk_h5_reader *r) {
    return tmk_h5_each_row(r, "consumers", &tmk_h5_consumers, read_consumer, NULL);
}

/* What is still to come of the values of integers. */
struct integers {
    uint32_t rows;
    uint64_t next_id;
};

static enum tmk_status read_integer(struct tmk_h5_reader *r, enum tmk_status loaded, void *record,
                                    void *context) {
    const struct tmk_profile_row *row = record;
    struct integers *integers = context;
    struct tmk_profile_tensor *t = NULL;
    TMK_TRY(loaded);
    TMK_TRY(record_of(r, row->t.id, &t));
    if (!t->has_int_stats || t->id < integers->next_id)
        return tmk_fail(r->diag, TMK_FORMAT,
                        "p%" PRIu32 " is no value of integers, or out of order", t->id);
    integers->rows++;
    integers->next_id = (uint64_t)t->id + 1;
    t->int_stats.saturated = row->t.int_stats.saturated;
    if (t->int_stats.count) {
        t->int_stats.min = row->t.int_stats.min;
        t->int_stats.max = row->t.int_stats.max;
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

/* The next row's value, of a group whose first column has IDs. */
static enum tmk_status next_record(struct tmk_h5_reader *r, struct tmk_h5_in *ids,
                                   struct tmk_profile_tensor **out) {
    uint32_t id;
    TMK_TRY(tmk_h5_take(r, ids, &id, 1));
    return record_of(r, id, out);
}

static enum tmk_status read_sample_row(struct tmk_h5_reader *r, struct tmk_hdf5_dataset *set,
                                       uint64_t row, float **out) {
    size_t bytes;
    if (!tmk_hdf5_size(set, 1, &bytes))
        return tmk_fail(r->diag, TMK_FORMAT, "'samples' is too large");
    *out = malloc(bytes ? bytes : 1);
    TMK_TRY_ALLOC(*out, r->diag);
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
        struct tmk_profile_tensor *t = NULL;
        TMK_TRY(next_record(r, &ids, &t));
        if (t->sample_min)
            return tmk_fail(r->diag, TMK_FORMAT, "'samples': p%" PRIu32 " stands twice", t->id);
        TMK_TRY(read_sample_row(r, &min, row, &t->sample_min));
        TMK_TRY(read_sample_row(r, &max, row, &t->sample_max));
        t->n_samples = min.dim[1];
    }
    return TMK_OK;
}

static enum tmk_status read_topk(struct tmk_h5_reader *r) {
    struct tmk_h5_in in[TMK_COUNT(tmk_h5_topk)];
    struct tmk_profile_tensor *t = NULL;
    bool has;
    TMK_TRY(tmk_h5_has(r, "top_samples", &has));
    if (!has) /* before version 1.3 */
        return TMK_OK;
    TMK_TRY(tmk_h5_open_columns(r, "top_samples", tmk_h5_topk, TMK_COUNT(in), in));
    while (in[0].at < in[0].size) {
        TMK_TRY(next_record(r, &in[0], &t));
        if (t->topk.n == TMK_TOPK)
            return tmk_fail(r->diag, TMK_FORMAT,
                            "'top_samples': p%" PRIu32 " has more than %d samples", t->id,
                            TMK_TOPK);
        uint32_t at = t->topk.n++;
        TMK_TRY(tmk_h5_take(r, &in[1], &t->topk.min[at].value, 1));
        TMK_TRY(tmk_h5_take(r, &in[2], &t->topk.min[at].sample, 1));
        TMK_TRY(tmk_h5_take(r, &in[3], &t->topk.max[at].value, 1));
        TMK_TRY(tmk_h5_take(r, &in[4], &t->topk.max[at].sample, 1));
    }
    return TMK_OK;
}

static enum tmk_status read_operands(struct tmk_h5_reader *r) {
    struct tmk_h5_in in[TMK_COUNT(tmk_h5_operands)];
    struct tmk_profile_tensor *t = NULL;
    uint32_t operand;
    bool has;
    TMK_TRY(tmk_h5_has(r, "operands", &has));
    if (!has) /* before version 1.2 */
        return TMK_OK;
    TMK_TRY(tmk_h5_open_columns(r, "operands", tmk_h5_operands, TMK_COUNT(in), in));
    while (in[0].at < in[0].size) {
        TMK_TRY(next_record(r, &in[0], &t));
        TMK_TRY(tmk_h5_take(r, &in[1], &operand, 1));
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
    TMK_THEN(status, read_parts(&r));
    tmk_h5_end_file(&r);
    tmk_profile_bins_finish(&r.bins);
    return status;
}
