/* SPDX-License-Identifier: Apache-2.0 */
/* A profile as HDF5. The file is built in memory (it is compressed, and much smaller than the
 * profile itself), so that a full disk meets our own write, not a library that cannot close its
 * file any more. */
#include <hdf5_hl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "profile/format.h"
#include "profile/hdf5_out.h"

enum { IMAGE_GROWTH = 1 << 20 };

struct writer {
    const struct tmk_profile *profile;
    struct tmk_h5 h5;
    hid_t file;
    struct tmk_profile_bins bins;
    struct tmk_diag *diag;
};

/* What the columns of a table mean, as a JSON object: HDF5 has no attributes for members. */
static enum tmk_status describe_columns(struct writer *w, hid_t dataset,
                                        const struct tmk_h5_table *table) {
    cJSON *item = cJSON_CreateObject();
    struct tmk_json_out columns = {item, !item};
    struct tmk_text text = {0};
    for (size_t i = 0; i < table->n_columns; i++) {
        cJSON *child = cJSON_CreateObject();
        struct tmk_json_out column = {child, !child};
        tmk_json_put_text(&column, "units", table->columns[i].units);
        tmk_json_put_text(&column, "long_name", table->columns[i].about);
        tmk_json_put_child(&columns, table->columns[i].name, &column);
    }
    enum tmk_status status = tmk_json_finish(&columns, &text, w->diag);
    if (status == TMK_OK)
        tmk_h5_put_text(&w->h5, dataset, "columns", text.data);
    tmk_text_finish(&text);
    return status;
}

static enum tmk_status new_table(struct writer *w, const char *name,
                                 const struct tmk_h5_table *table, hsize_t rows, const char *about,
                                 struct tmk_h5_out *out) {
    struct tmk_h5 *h = &w->h5;
    *out = tmk_h5_new_column(h, w->file, name, tmk_h5_table_type(h, table, true),
                             tmk_h5_table_type(h, table, false), rows, TMK_H5_CHUNK_ROWS);
    tmk_h5_put_text(h, out->dataset, "long_name", about);
    return describe_columns(w, out->dataset, table);
}

/* ---- /tensors ---- */

static void put_word(char out[TMK_H5_WORD_SIZE], const char *word) {
    strncpy(out, word, TMK_H5_WORD_SIZE - 1);
}

static enum tmk_status json_text(const struct tmk_profile_tensor *t,
                                 void (*put)(struct tmk_json_out *to, const char *key,
                                             const struct tmk_profile_tensor *t),
                                 char **out, struct tmk_diag *diag) {
    cJSON *item = cJSON_CreateArray();
    struct tmk_json_out holder = {item, !item};
    put(&holder, NULL, t);
    if (!holder.failed) {
        char *text = cJSON_PrintUnformatted(cJSON_GetArrayItem(holder.item, 0));
        *out = text ? strdup(text) : NULL;
        cJSON_free(text);
    }
    cJSON_Delete(holder.item);
    return *out ? TMK_OK : tmk_nomem(diag);
}

static void put_summary(struct tmk_h5_tensor *row, const struct tmk_stats *stats) {
    struct tmk_summary is;
    tmk_stats_summary(stats, &is);
    row->count = is.count;
    row->samples = is.samples;
    row->updates = is.updates;
    row->min = is.min;
    row->max = is.max;
    row->min_sample = is.min_at.sample;
    row->min_index = is.min_at.index;
    row->max_sample = is.max_at.sample;
    row->max_index = is.max_at.index;
    row->nan = is.nan;
    row->posinf = is.posinf;
    row->neginf = is.neginf;
    row->first_nonfinite_sample = is.first_nonfinite.sample;
    row->first_nonfinite_index = is.first_nonfinite.index;
    row->zeros = is.zeros;
    row->negative_zeros = is.negative_zeros;
    row->denormals = is.denormals;
    row->negatives = is.negatives;
    row->sum = is.sum;
    row->mean = is.mean;
    row->std = is.std;
    row->sum_squares_low = is.sumsq_lo;
    row->sum_squares_high = is.sumsq_hi;
    row->channel_axis = is.channels ? is.channel_axis : -1;
    row->channel_conflict = is.channel_conflict;
}

static void put_numbers(struct tmk_h5_tensor *row, const struct tmk_profile_tensor *t) {
    row->min = row->max = NAN;
    row->sum = row->mean = row->std = row->sum_squares_low = row->sum_squares_high = NAN;
    row->min_sample = row->min_index = row->max_sample = row->max_index = TMK_NOWHERE;
    row->first_nonfinite_sample = row->first_nonfinite_index = TMK_NOWHERE;
    row->channel_axis = -1;
    if (t->stats)
        put_summary(row, t->stats);
    if (!t->has_int_stats)
        return;
    row->count = t->int_stats.count;
    row->samples = t->int_stats.samples;
    row->updates = t->int_stats.updates;
    row->zeros = t->int_stats.zeros;
    if (t->int_stats.count) {
        row->min_sample = t->int_stats.min_at.sample;
        row->min_index = t->int_stats.min_at.index;
        row->max_sample = t->int_stats.max_at.sample;
        row->max_index = t->int_stats.max_at.index;
    }
}

/* Borrows the value's strings; the JSON ones are its own. */
static enum tmk_status fill_row(struct tmk_h5_tensor *row, const struct tmk_profile_tensor *t,
                                struct tmk_diag *diag) {
    *row = (struct tmk_h5_tensor){
        .id = t->id,
        .fingerprint = t->fingerprint,
        .content = t->content,
        .ordinal = t->ordinal,
        .name = (char *)(uintptr_t)t->name,
        .path = (char *)(uintptr_t)t->path,
        .more_shapes = t->more_runs,
        .expected_count = t->expected_count,
        .producer_node = (char *)(uintptr_t)t->producer.node,
        .producer_op = (char *)(uintptr_t)t->producer.op,
        .producer_domain = (char *)(uintptr_t)t->producer.domain,
        .producer_output = t->has_producer ? (int64_t)t->producer.output : -1,
        .derivation_rule = (char *)(uintptr_t)t->rule,
    };
    put_word(row->kind, tmk_profile_kind_name(t->kind));
    put_word(row->status, tmk_profile_status_name(t->status));
    put_word(row->dtype, tmk_dtype_name(t->dtype));
    put_word(row->origin, tmk_dtype_name(t->origin));
    put_word(row->level, tmk_profile_level_name(t));
    put_numbers(row, t);
    TMK_TRY(json_text(t, tmk_profile_put_shape, &row->shape, diag));
    TMK_TRY(json_text(t, tmk_profile_put_runs, &row->observed_shapes, diag));
    return json_text(t, tmk_profile_put_sources, &row->derivation_from, diag);
}

static void free_rows(struct tmk_h5_tensor *rows, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        free(rows[i].shape);
        free(rows[i].observed_shapes);
        free(rows[i].derivation_from);
    }
    memset(rows, 0, n * sizeof *rows);
}

static enum tmk_status write_rows(struct writer *w, struct tmk_h5_out *to,
                                  struct tmk_h5_tensor *rows) {
    const struct tmk_profile *p = w->profile;
    enum tmk_status status = TMK_OK;
    for (uint32_t at = 0; at < p->n_tensors && status == TMK_OK; at += TMK_H5_CHUNK_ROWS) {
        uint32_t n = p->n_tensors - at < TMK_H5_CHUNK_ROWS ? p->n_tensors - at : TMK_H5_CHUNK_ROWS;
        for (uint32_t i = 0; i < n && status == TMK_OK; i++)
            status = fill_row(&rows[i], &p->tensors[at + i], w->diag);
        if (status == TMK_OK)
            tmk_h5_append(&w->h5, to, rows, n);
        free_rows(rows, n);
    }
    return status;
}

static enum tmk_status write_tensors(struct writer *w) {
    struct tmk_h5 *h = &w->h5;
    const struct tmk_profile *p = w->profile;
    struct tmk_h5_out tensors, ids;
    TMK_TRY(new_table(w, "tensors", &tmk_h5_tensors, p->n_tensors, "one row a value", &tensors));
    struct tmk_h5_tensor *rows = calloc(TMK_H5_CHUNK_ROWS, sizeof *rows);
    if (!rows)
        return tmk_nomem(w->diag);
    enum tmk_status status = write_rows(w, &tensors, rows);
    free(rows);
    ids = tmk_h5_new_column(h, w->file, "tensor", H5T_STD_U32LE, H5T_NATIVE_UINT32, p->n_tensors,
                            TMK_H5_CHUNK_ELEMENTS);
    tmk_h5_describe(h, ids.dataset, "", "profile IDs: the dimension of /tensors");
    for (uint32_t i = 0; i < p->n_tensors; i++)
        tmk_h5_append(h, &ids, &p->tensors[i].id, 1);
    tmk_h5_ok(h, H5DSset_scale(ids.dataset, "tensor"));
    tmk_h5_ok(h, H5DSattach_scale(tensors.dataset, ids.dataset, 0));
    tmk_h5_ok(h, H5DSset_label(tensors.dataset, 0, "tensor"));
    return status;
}

static enum tmk_status write_consumers(struct writer *w) {
    const struct tmk_profile *p = w->profile;
    hsize_t total = 0;
    struct tmk_h5_out to;
    for (uint32_t i = 0; i < p->n_tensors; i++)
        total += p->tensors[i].n_consumers;
    TMK_TRY(
        new_table(w, "consumers", &tmk_h5_consumers, total, "one row a reader of a value", &to));
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        for (uint32_t k = 0; k < p->tensors[i].n_consumers; k++) {
            const struct tmk_profile_consumer *c = &p->tensors[i].consumers[k];
            struct tmk_h5_consumer row = {p->tensors[i].id, (char *)(uintptr_t)c->node,
                                          (char *)(uintptr_t)c->op, (char *)(uintptr_t)c->domain,
                                          c->input};
            tmk_h5_append(&w->h5, &to, &row, 1);
        }
    }
    return TMK_OK;
}

static enum tmk_status write_integers(struct writer *w) {
    const struct tmk_profile *p = w->profile;
    hsize_t total = 0;
    struct tmk_h5_out to;
    for (uint32_t i = 0; i < p->n_tensors; i++)
        total += p->tensors[i].has_int_stats;
    TMK_TRY(new_table(w, "integers", &tmk_h5_integers, total, "one row a value of integers", &to));
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        const struct tmk_int_stats *is = &p->tensors[i].int_stats;
        if (!p->tensors[i].has_int_stats)
            continue;
        struct tmk_h5_integer row = {.tensor_id = p->tensors[i].id};
        if (is->count) {
            row.min = is->min;
            row.max = is->max;
        }
        row.saturated = is->saturated;
        tmk_h5_append(&w->h5, &to, &row, 1);
    }
    return TMK_OK;
}

/* ---- /histograms, /channels, /samples ---- */

/* Where each value's part of the flat columns begins, and where the last one's ends. */
static enum tmk_status write_offsets(struct writer *w, hid_t group,
                                     uint64_t (*size)(const struct tmk_summary *is),
                                     uint64_t *total) {
    const struct tmk_profile *p = w->profile;
    struct tmk_h5_out to =
        tmk_h5_new_column(&w->h5, group, "offsets", H5T_STD_U64LE, H5T_NATIVE_UINT64,
                          (hsize_t)p->n_tensors + 1, TMK_H5_CHUNK_ELEMENTS);
    uint64_t *offsets = malloc(((size_t)p->n_tensors + 1) * sizeof *offsets);
    if (!offsets)
        return tmk_nomem(w->diag);
    offsets[0] = 0;
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        struct tmk_summary is;
        offsets[i + 1] = offsets[i];
        if (!p->tensors[i].stats)
            continue;
        tmk_stats_summary(p->tensors[i].stats, &is);
        offsets[i + 1] += size(&is);
    }
    tmk_h5_append(&w->h5, &to, offsets, (hsize_t)p->n_tensors + 1);
    tmk_h5_describe(&w->h5, to.dataset, "",
                    "the part of row i of /tensors is [offsets[i], offsets[i+1])");
    *total = offsets[p->n_tensors];
    free(offsets);
    return TMK_OK;
}

static uint64_t bins_of(const struct tmk_summary *is) {
    return is->bins_used;
}

static uint64_t channels_of(const struct tmk_summary *is) {
    return is->channels;
}

static enum tmk_status write_histograms(struct writer *w) {
    struct tmk_h5 *h = &w->h5;
    const struct tmk_profile *p = w->profile;
    uint64_t total = 0;
    hid_t group = tmk_h5_new_group(h, w->file, "histograms", "nonzero finite elements by bin, CSR");
    TMK_TRY(write_offsets(w, group, bins_of, &total));
    struct tmk_h5_out bins = tmk_h5_new_column(h, group, "bins", H5T_STD_U16LE, H5T_NATIVE_UINT16,
                                               total, TMK_H5_CHUNK_ELEMENTS),
                      counts = tmk_h5_new_column(h, group, "counts", H5T_STD_U64LE,
                                                 H5T_NATIVE_UINT64, total, TMK_H5_CHUNK_ELEMENTS),
                      low = tmk_h5_new_column(h, group, "low", H5T_STD_U64LE, H5T_NATIVE_UINT64,
                                              total, TMK_H5_CHUNK_ELEMENTS);
    tmk_h5_describe(h, bins.dataset, "", "upper 16 bits of the float32: position in /bin_edges");
    tmk_h5_describe(h, counts.dataset, "elements", "elements in the bin");
    tmk_h5_describe(h, low.dataset, "", "sum of the mantissa bits that the bin drops");
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        struct tmk_summary is;
        if (!p->tensors[i].stats)
            continue;
        tmk_stats_summary(p->tensors[i].stats, &is);
        tmk_stats_bins(p->tensors[i].stats, w->bins.bin, w->bins.count, w->bins.low);
        tmk_h5_append(h, &bins, w->bins.bin, is.bins_used);
        tmk_h5_append(h, &counts, w->bins.count, is.bins_used);
        tmk_h5_append(h, &low, w->bins.low, is.bins_used);
    }
    return TMK_OK;
}

static enum tmk_status write_bin_edges(struct writer *w) {
    struct tmk_h5 *h = &w->h5;
    struct tmk_h5_out to =
        tmk_h5_new_column(h, w->file, "bin_edges", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE,
                          TMK_PROFILE_MAX_BINS, TMK_H5_CHUNK_ELEMENTS);
    double *edges = malloc(TMK_PROFILE_MAX_BINS * sizeof *edges), high;
    if (!edges)
        return tmk_nomem(w->diag);
    for (size_t i = 0; i < TMK_PROFILE_MAX_BINS; i++)
        tmk_bin_edges((uint16_t)i, &edges[i], &high);
    tmk_h5_append(h, &to, edges, TMK_PROFILE_MAX_BINS);
    free(edges);
    tmk_h5_describe(
        h, to.dataset, "1",
        "lower edge of each bin; NaN: bins of infinities and NaN. A bin of the level range "
        "is an octave, under the number of its first bin");
    tmk_h5_ok(h, H5DSset_scale(to.dataset, "bin"));
    return TMK_OK;
}

/* `copy` has room for all. */
static void append_extremes(struct tmk_h5 *h, struct tmk_h5_out *to, const float *values, size_t n,
                            float *copy) {
    for (size_t c = 0; c < n; c++)
        copy[c] = isfinite(values[c]) ? values[c] : NAN;
    tmk_h5_append(h, to, copy, n);
}

static enum tmk_status write_channels(struct writer *w) {
    struct tmk_h5 *h = &w->h5;
    const struct tmk_profile *p = w->profile;
    uint64_t total = 0;
    hid_t group = tmk_h5_new_group(h, w->file, "channels", "extremes by channel, CSR");
    TMK_TRY(write_offsets(w, group, channels_of, &total));
    struct tmk_h5_out min = tmk_h5_new_column(h, group, "min", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT,
                                              total, TMK_H5_CHUNK_ELEMENTS),
                      max = tmk_h5_new_column(h, group, "max", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT,
                                              total, TMK_H5_CHUNK_ELEMENTS);
    tmk_h5_describe(h, min.dataset, "1", "least finite element of the channel; NaN: there is none");
    tmk_h5_describe(h, max.dataset, "1",
                    "greatest finite element of the channel; NaN: there is none");
    float *copy = malloc((total ? (size_t)total : 1) * sizeof *copy);
    if (!copy)
        return tmk_nomem(w->diag);
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        struct tmk_summary is;
        if (!p->tensors[i].stats)
            continue;
        tmk_stats_summary(p->tensors[i].stats, &is);
        append_extremes(h, &min, is.channel_min, is.channels, copy);
        append_extremes(h, &max, is.channel_max, is.channels, copy);
    }
    free(copy);
    return TMK_OK;
}

static void write_sample_rows(struct writer *w, hid_t dataset, hsize_t samples, bool of_max) {
    struct tmk_h5 *h = &w->h5;
    const struct tmk_profile *p = w->profile;
    hsize_t at[2] = {0, 0}, extent[2] = {1, samples};
    for (uint32_t i = 0; i < p->n_tensors && !h->failed; i++) {
        const struct tmk_profile_tensor *t = &p->tensors[i];
        size_t mark = h->n_kept;
        if (!t->sample_min)
            continue;
        hid_t file = tmk_h5_keep(h, H5Dget_space(dataset)),
              memory = tmk_h5_keep(h, H5Screate_simple(2, extent, NULL));
        tmk_h5_ok(h, H5Sselect_hyperslab(file, H5S_SELECT_SET, at, NULL, extent, NULL));
        tmk_h5_ok(h, H5Dwrite(dataset, H5T_NATIVE_FLOAT, memory, file, H5P_DEFAULT,
                              of_max ? t->sample_max : t->sample_min));
        at[0]++;
        tmk_h5_release(h, mark);
    }
}

static hid_t new_sample_matrix(struct tmk_h5 *h, hid_t group, const char *name, hsize_t rows,
                               hsize_t samples, hid_t tensor_scale, hid_t sample_scale) {
    hsize_t size[2] = {rows, samples}, chunk[2] = {1, TMK_H5_CHUNK_ELEMENTS};
    hid_t space = tmk_h5_keep(h, H5Screate_simple(2, size, NULL));
    hid_t dataset = tmk_h5_keep(h, H5Dcreate2(group, name, H5T_IEEE_F32LE, space, H5P_DEFAULT,
                                              tmk_h5_creation(h, 2, size, chunk), H5P_DEFAULT));
    tmk_h5_ok(h, H5DSattach_scale(dataset, tensor_scale, 0));
    tmk_h5_ok(h, H5DSattach_scale(dataset, sample_scale, 1));
    tmk_h5_ok(h, H5DSset_label(dataset, 0, "tensor"));
    tmk_h5_ok(h, H5DSset_label(dataset, 1, "sample"));
    return dataset;
}

static enum tmk_status write_samples(struct writer *w) {
    struct tmk_h5 *h = &w->h5;
    const struct tmk_profile *p = w->profile;
    hsize_t rows = 0, samples = p->ledger.end_sample - p->ledger.first_sample;
    for (uint32_t i = 0; i < p->n_tensors; i++)
        rows += p->tensors[i].sample_min != NULL;
    if (rows == 0)
        return TMK_OK;
    hid_t group = tmk_h5_new_group(h, w->file, "samples", "extremes by value and sample");
    struct tmk_h5_out ids = tmk_h5_new_column(h, group, "tensor", H5T_STD_U32LE, H5T_NATIVE_UINT32,
                                              rows, TMK_H5_CHUNK_ELEMENTS),
                      numbers =
                          tmk_h5_new_column(h, group, "sample", H5T_STD_U64LE, H5T_NATIVE_UINT64,
                                            samples, TMK_H5_CHUNK_ELEMENTS);
    tmk_h5_describe(h, ids.dataset, "", "profile IDs of the rows");
    tmk_h5_describe(h, numbers.dataset, "", "absolute sample indices of the columns");
    for (uint32_t i = 0; i < p->n_tensors; i++)
        if (p->tensors[i].sample_min)
            tmk_h5_append(h, &ids, &p->tensors[i].id, 1);
    uint64_t *indices = malloc((samples ? (size_t)samples : 1) * sizeof *indices);
    if (!indices)
        return tmk_nomem(w->diag);
    for (uint64_t s = 0; s < samples; s++)
        indices[s] = p->ledger.first_sample + s;
    tmk_h5_append(h, &numbers, indices, samples);
    free(indices);
    tmk_h5_ok(h, H5DSset_scale(ids.dataset, "tensor"));
    tmk_h5_ok(h, H5DSset_scale(numbers.dataset, "sample"));
    hid_t min = new_sample_matrix(h, group, "min", rows, samples, ids.dataset, numbers.dataset),
          max = new_sample_matrix(h, group, "max", rows, samples, ids.dataset, numbers.dataset);
    tmk_h5_describe(h, min, "1", "least finite element of the sample; NaN: there is none");
    tmk_h5_describe(h, max, "1", "greatest finite element of the sample; NaN: there is none");
    write_sample_rows(w, min, samples, false);
    write_sample_rows(w, max, samples, true);
    return TMK_OK;
}

/* ---- the header ---- */

static hid_t fixed_text(struct tmk_h5 *h, size_t len) {
    hid_t type = tmk_h5_keep(h, H5Tcopy(H5T_C_S1));
    tmk_h5_ok(h, H5Tset_size(type, len ? len : 1));
    tmk_h5_ok(h, H5Tset_strpad(type, H5T_STR_NULLPAD));
    tmk_h5_ok(h, H5Tset_cset(type, H5T_CSET_UTF8));
    return type;
}

static enum tmk_status write_header(struct writer *w) {
    struct tmk_h5 *h = &w->h5;
    const struct tmk_profile *p = w->profile;
    struct tmk_text text = {0};
    tmk_text_puts(&text, "{");
    enum tmk_status status = tmk_profile_header_text(p, ",", &text, w->diag);
    tmk_text_puts(&text, "}");
    if (status == TMK_OK && text.failed)
        status = tmk_nomem(w->diag);
    if (status == TMK_OK) {
        hid_t type = fixed_text(h, text.len), list = tmk_h5_creation(h, 0, NULL, NULL);
        hid_t space = tmk_h5_keep(h, H5Screate(H5S_SCALAR));
        hid_t dataset = tmk_h5_keep(
            h, H5Dcreate2(w->file, "header", type, space, H5P_DEFAULT, list, H5P_DEFAULT));
        tmk_h5_ok(h, H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data));
        tmk_h5_put_text(h, dataset, "long_name", "the JSON file's header, an object of JSON");
    }
    tmk_text_finish(&text);
    return status;
}

static void write_attributes(struct writer *w) {
    struct tmk_h5 *h = &w->h5;
    const struct tmk_profile *p = w->profile;
    hsize_t two = 2;
    const uint32_t version[2] = {TMK_PROFILE_MAJOR, TMK_PROFILE_MINOR};
    tmk_h5_put_text(h, w->file, "title",
                    "what a neural network's values were while data ran through it");
    tmk_h5_put_text(h, w->file, "format", TMK_PROFILE_FORMAT);
    tmk_h5_put_attribute(h, w->file, "version", H5T_STD_U32LE, H5T_NATIVE_UINT32,
                         tmk_h5_keep(h, H5Screate_simple(1, &two, NULL)), version);
    tmk_h5_put_text(h, w->file, "producer_name", p->producer.name);
    tmk_h5_put_text(h, w->file, "producer_version", p->producer.version);
    tmk_h5_put_text(h, w->file, "isa", p->producer.isa);
    tmk_h5_put_text(h, w->file, "kernels", p->producer.kernels);
    tmk_h5_put_text(h, w->file, "model_file", p->model.file);
    tmk_h5_put_text(h, w->file, "model_sha256", p->model.sha256);
    tmk_h5_put_u64(h, w->file, "samples_offered", p->ledger.offered);
    tmk_h5_put_u64(h, w->file, "samples_run", p->ledger.run);
    tmk_h5_put_u64(h, w->file, "samples_skipped", p->ledger.skipped);
    tmk_h5_put_u64(h, w->file, "samples_failed", p->ledger.failed);
    tmk_h5_put_u64(h, w->file, "batches", p->ledger.batches);
    tmk_h5_put_u64(h, w->file, "first_sample", p->ledger.first_sample);
    tmk_h5_put_u64(h, w->file, "end_sample", p->ledger.end_sample);
}

static enum tmk_status write_parts(struct writer *w) {
    static enum tmk_status (*const parts[])(struct writer * w) = {
        write_header,     write_tensors,   write_consumers, write_integers,
        write_histograms, write_bin_edges, write_channels,  write_samples,
    };
    write_attributes(w);
    for (size_t i = 0; i < TMK_COUNT(parts) && !w->h5.failed; i++) {
        size_t mark = w->h5.n_kept;
        TMK_TRY(parts[i](w));
        tmk_h5_release(&w->h5, mark);
    }
    return TMK_OK;
}

static enum tmk_status failure(struct writer *w, const char *path) {
    return w->h5.failed
               ? tmk_fail(w->diag, TMK_WRITE, "%s: HDF5 cannot make the file: %s", path, w->h5.why)
               : TMK_OK;
}

static enum tmk_status write_image(struct writer *w, struct tmk_outfile *out) {
    tmk_h5_ok(&w->h5, H5Fflush(w->file, H5F_SCOPE_GLOBAL));
    ssize_t size = H5Fget_file_image(w->file, NULL, 0);
    tmk_h5_ok(&w->h5, size < 0 ? -1 : 0);
    TMK_TRY(failure(w, out->path));
    void *image = malloc((size_t)size);
    if (!image)
        return tmk_nomem(w->diag);
    tmk_h5_ok(&w->h5, H5Fget_file_image(w->file, image, (size_t)size) == size ? 0 : -1);
    enum tmk_status status = failure(w, out->path);
    if (status == TMK_OK)
        status = tmk_outfile_write(out, image, (size_t)size, w->diag);
    free(image);
    return status;
}

enum tmk_status tmk_profile_write_hdf5(const struct tmk_profile *profile, struct tmk_outfile *out,
                                       struct tmk_diag *diag) {
    struct writer w = {.profile = profile, .diag = diag};
    struct tmk_h5 *h = &w.h5;
    TMK_TRY(tmk_profile_bins_init(&w.bins, diag));
    tmk_h5_begin(h);
    hid_t access = tmk_h5_keep(h, H5Pcreate(H5P_FILE_ACCESS)),
          create = tmk_h5_keep(h, H5Pcreate(H5P_FILE_CREATE));
    tmk_h5_ok(h, H5Pset_fapl_core(access, IMAGE_GROWTH, false));
    tmk_h5_ok(h, H5Pset_obj_track_times(create, false));
    w.file = tmk_h5_keep(h, H5Fcreate(out->temporary, H5F_ACC_TRUNC, create, access));
    enum tmk_status status = write_parts(&w);
    if (status == TMK_OK)
        status = write_image(&w, out);
    tmk_h5_end(h);
    tmk_profile_bins_finish(&w.bins);
    return status;
}
