/* SPDX-License-Identifier: Apache-2.0 */
/* A profile as HDF5. The file is built in memory (it is compressed, and much smaller than the
 * profile itself), so that a full disk meets our own write, not a library that cannot close its
 * file any more. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "profile/hdf5_out.h"

/* What HDF5 itself could not do is noted in h5 only; a status is for everything else. */
struct writer {
    const struct tmk_profile *profile;
    struct tmk_h5 h5;
    hid_t file;
    struct tmk_profile_bins bins;
    struct tmk_diag *diag;
};

/* ---- /tensors, /consumers, /integers ---- */

static bool next_tensor(const void *source, struct tmk_h5_cursor *cursor, void *record) {
    const struct tmk_profile *p = source;
    if (cursor->item == p->n_tensors)
        return false;
    tmk_profile_row_of(&p->tensors[cursor->item++], NULL, record);
    return true;
}

static bool next_consumer(const void *source, struct tmk_h5_cursor *cursor, void *record) {
    const struct tmk_profile *p = source;
    struct tmk_h5_consumer *row = record;
    while (cursor->item < p->n_tensors && cursor->part == p->tensors[cursor->item].n_consumers) {
        cursor->item++;
        cursor->part = 0;
    }
    if (cursor->item == p->n_tensors)
        return false;
    const struct tmk_profile_tensor *t = &p->tensors[cursor->item];
    *row = (struct tmk_h5_consumer){t->id, t->consumers[cursor->part++]};
    return true;
}

static bool next_integer(const void *source, struct tmk_h5_cursor *cursor, void *record) {
    const struct tmk_profile *p = source;
    while (cursor->item < p->n_tensors && !p->tensors[cursor->item].has_int_stats)
        cursor->item++;
    return next_tensor(source, cursor, record);
}

static enum tmk_status write_tensors(struct writer *w) {
    struct tmk_h5 *h = &w->h5;
    const struct tmk_profile *p = w->profile;
    const struct tmk_h5_rows rows = {&tmk_h5_tensors, p, next_tensor};
    struct tmk_h5_out ids;
    hid_t tensors = -1;
    TMK_TRY(tmk_h5_new_table(h, w->file, "tensors", "one row a value", &rows, &tensors, w->diag));
    tmk_h5_new_columns(h, w->file, &tmk_h5_ids, 1, p->n_tensors, &ids);
    for (uint32_t i = 0; i < p->n_tensors; i++)
        tmk_h5_append(h, &ids, &p->tensors[i].id, 1);
    tmk_h5_ok(h, H5DSset_scale(ids.dataset, "tensor"));
    tmk_h5_ok(h, H5DSattach_scale(tensors, ids.dataset, 0));
    tmk_h5_ok(h, H5DSset_label(tensors, 0, "tensor"));
    return TMK_OK;
}

static enum tmk_status write_consumers(struct writer *w) {
    const struct tmk_h5_rows rows = {&tmk_h5_consumers, w->profile, next_consumer};
    return tmk_h5_new_table(&w->h5, w->file, "consumers", "one row a reader of a value", &rows,
                            NULL, w->diag);
}

static enum tmk_status write_integers(struct writer *w) {
    const struct tmk_h5_rows rows = {&tmk_h5_integers, w->profile, next_integer};
    return tmk_h5_new_table(&w->h5, w->file, "integers", "one row a value of integers", &rows, NULL,
                            w->diag);
}

/* ---- /histograms, /channels, /samples ---- */

/* Where each value's part of the flat columns begins, and where the last one's ends. */
static enum tmk_status write_offsets(struct writer *w, hid_t group,
                                     uint64_t (*size)(const struct tmk_summary *is),
                                     uint64_t *total) {
    const struct tmk_profile *p = w->profile;
    struct tmk_h5_out to =
        tmk_h5_new_column(&w->h5, group, "offsets", TMK_H5_U64, (hsize_t)p->n_tensors + 1);
    uint64_t *offsets = malloc(((size_t)p->n_tensors + 1) * sizeof *offsets);
    TMK_TRY_ALLOC(offsets, w->diag);
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
    struct tmk_h5_out bins[TMK_COUNT(tmk_h5_histograms)];
    tmk_h5_new_columns(h, group, tmk_h5_histograms, TMK_COUNT(bins), total, bins);
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        struct tmk_summary is;
        if (!p->tensors[i].stats)
            continue;
        tmk_stats_summary(p->tensors[i].stats, &is);
        tmk_stats_bins(p->tensors[i].stats, w->bins.bin, w->bins.count, w->bins.low);
        tmk_h5_append(h, &bins[0], w->bins.bin, is.bins_used);
        tmk_h5_append(h, &bins[1], w->bins.count, is.bins_used);
        tmk_h5_append(h, &bins[2], w->bins.low, is.bins_used);
        if (!tmk_stats_squares(p->tensors[i].stats, w->bins.squares))
            memset(w->bins.squares, 0, is.bins_used * sizeof *w->bins.squares);
        tmk_h5_append(h, &bins[3], w->bins.squares, is.bins_used);
    }
    return TMK_OK;
}

static enum tmk_status write_bin_edges(struct writer *w) {
    struct tmk_h5 *h = &w->h5;
    struct tmk_h5_out to =
        tmk_h5_new_column(h, w->file, "bin_edges", TMK_H5_F64, TMK_PROFILE_MAX_BINS);
    double *edges = malloc(TMK_PROFILE_MAX_BINS * sizeof *edges), high;
    TMK_TRY_ALLOC(edges, w->diag);
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

/* `copy` has space for all. */
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
    struct tmk_h5_out ends[TMK_COUNT(tmk_h5_channels)];
    tmk_h5_new_columns(h, group, tmk_h5_channels, TMK_COUNT(ends), total, ends);
    float *copy = malloc((total ? (size_t)total : 1) * sizeof *copy);
    TMK_TRY_ALLOC(copy, w->diag);
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        struct tmk_summary is;
        if (!p->tensors[i].stats)
            continue;
        tmk_stats_quick_summary(p->tensors[i].stats, &is);
        append_extremes(h, &ends[0], is.channel_min, is.channels, copy);
        append_extremes(h, &ends[1], is.channel_max, is.channels, copy);
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
    struct tmk_h5_out ids = tmk_h5_new_column(h, group, "tensor", TMK_H5_U32, rows),
                      numbers = tmk_h5_new_column(h, group, "sample", TMK_H5_U64, samples);
    tmk_h5_describe(h, ids.dataset, "", "profile IDs of the rows");
    tmk_h5_describe(h, numbers.dataset, "", "absolute sample indices of the columns");
    for (uint32_t i = 0; i < p->n_tensors; i++)
        if (p->tensors[i].sample_min)
            tmk_h5_append(h, &ids, &p->tensors[i].id, 1);
    uint64_t *indices = malloc((samples ? (size_t)samples : 1) * sizeof *indices);
    TMK_TRY_ALLOC(indices, w->diag);
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

/* ---- /top_samples, /operands, /nonfinite ---- */

static enum tmk_status write_topk(struct writer *w) {
    struct tmk_h5 *h = &w->h5;
    const struct tmk_profile *p = w->profile;
    hsize_t rows = 0;
    for (uint32_t i = 0; i < p->n_tensors; i++)
        rows += p->tensors[i].topk.n;
    hid_t group = tmk_h5_new_group(h, w->file, "top_samples", "the samples that reach furthest");
    struct tmk_h5_out to[TMK_COUNT(tmk_h5_topk)];
    for (size_t i = 0; i < TMK_COUNT(to); i++) {
        to[i] = tmk_h5_new_column(h, group, tmk_h5_topk[i].name, tmk_h5_topk[i].type, rows);
        if (tmk_h5_topk[i].type == TMK_H5_U64)
            tmk_h5_describe(h, to[i].dataset, tmk_h5_topk[i].units, tmk_h5_topk[i].about);
    }
    for (size_t i = 0; i < TMK_COUNT(to); i++)
        if (tmk_h5_topk[i].type != TMK_H5_U64)
            tmk_h5_describe(h, to[i].dataset, tmk_h5_topk[i].units, tmk_h5_topk[i].about);
    for (uint32_t i = 0; i < p->n_tensors; i++)
        for (uint32_t k = 0; k < p->tensors[i].topk.n; k++) {
            const struct tmk_topk *topk = &p->tensors[i].topk;
            tmk_h5_append(h, &to[0], &p->tensors[i].id, 1);
            tmk_h5_append(h, &to[1], &topk->min[k].value, 1);
            tmk_h5_append(h, &to[2], &topk->min[k].sample, 1);
            tmk_h5_append(h, &to[3], &topk->max[k].value, 1);
            tmk_h5_append(h, &to[4], &topk->max[k].sample, 1);
        }
    return TMK_OK;
}

static enum tmk_status write_operands(struct writer *w) {
    struct tmk_h5 *h = &w->h5;
    const struct tmk_profile *p = w->profile;
    hsize_t rows = 0;
    for (uint32_t i = 0; i < p->n_tensors; i++)
        rows += p->tensors[i].n_operands;
    hid_t group = tmk_h5_new_group(h, w->file, "operands", "which values one is computed from");
    struct tmk_h5_out to[TMK_COUNT(tmk_h5_operands)];
    tmk_h5_new_columns(h, group, tmk_h5_operands, TMK_COUNT(to), rows, to);
    for (uint32_t i = 0; i < p->n_tensors; i++)
        for (uint32_t k = 0; k < p->tensors[i].n_operands; k++) {
            tmk_h5_append(h, &to[0], &p->tensors[i].id, 1);
            tmk_h5_append(h, &to[1], &p->tensors[i].operands[k], 1);
        }
    return TMK_OK;
}

/* Follows from /operands and /tensors; not read. */
static enum tmk_status write_nonfinite(struct writer *w) {
    struct tmk_h5 *h = &w->h5;
    struct tmk_nonfinite *nonfinite;
    uint32_t n;
    hsize_t rows = 0;
    TMK_TRY(tmk_profile_nonfinite(w->profile, &nonfinite, &n, w->diag));
    for (uint32_t i = 0; i < n; i++)
        rows += nonfinite[i].n_from ? nonfinite[i].n_from : 1;
    hid_t group = tmk_h5_new_group(h, w->file, "nonfinite", "where NaN and infinities came from");
    struct tmk_h5_out to[TMK_COUNT(tmk_h5_nonfinite)];
    tmk_h5_new_columns(h, group, tmk_h5_nonfinite, TMK_COUNT(to), rows, to);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k == 0 || k < nonfinite[i].n_from; k++) {
            int64_t id = nonfinite[i].n_from ? (int64_t)nonfinite[i].from[k] : -1;
            tmk_h5_append(h, &to[0], &nonfinite[i].id, 1);
            tmk_h5_append(h, &to[1], &id, 1);
        }
    free(nonfinite);
    return TMK_OK;
}

/* ---- the header ---- */

static enum tmk_status write_header(struct writer *w) {
    struct tmk_text text = {0};
    tmk_text_puts(&text, "{");
    enum tmk_status status = tmk_profile_header_text(w->profile, ",", &text, w->diag);
    tmk_text_puts(&text, "}");
    if (status == TMK_OK && text.failed)
        status = tmk_nomem(w->diag);
    if (status == TMK_OK)
        tmk_h5_new_header(&w->h5, w->file, &text);
    tmk_text_finish(&text);
    return status;
}

static void write_attributes_of(struct writer *w, const struct tmk_fields *fields) {
    const struct tmk_field *end = fields->field + fields->n;
    for (const struct tmk_field *f = fields->field; f < end; f++)
        if (f->column && f->type == TMK_FIELD_TEXT)
            tmk_h5_put_text(&w->h5, w->file, f->column, TMK_CONST_MEMBER(char *, f, w->profile));
        else if (f->column)
            tmk_h5_put_u64(&w->h5, w->file, f->column, TMK_CONST_MEMBER(uint64_t, f, w->profile));
}

static enum tmk_status write_parts(struct writer *w) {
    static enum tmk_status (*const parts[])(struct writer * w) = {
        write_header,     write_tensors,   write_consumers, write_integers,
        write_histograms, write_bin_edges, write_channels,  write_samples,
        write_topk,       write_operands,  write_nonfinite,
    };
    struct tmk_h5 *h = &w->h5;
    const struct tmk_profile *p = w->profile;
    hsize_t two = 2;
    const uint32_t version[2] = {TMK_PROFILE_MAJOR, TMK_PROFILE_MINOR};
    tmk_h5_put_text(h, w->file, "title",
                    "what a neural network's values were while data ran through it");
    tmk_h5_put_text(h, w->file, "format", TMK_PROFILE_FORMAT);
    tmk_h5_put_attribute(h, w->file, "version", H5T_STD_U32LE, H5T_NATIVE_UINT32,
                         tmk_h5_keep(h, H5Screate_simple(1, &two, NULL)), version);
    for (size_t i = 0; i < tmk_profile_header_fields.n; i++)
        if (tmk_profile_header_fields.field[i].type == TMK_FIELD_OBJECT)
            write_attributes_of(w, tmk_profile_header_fields.field[i].of);
    tmk_h5_put_u64(h, w->file, "total_samples", tmk_profile_total(p));
    for (size_t i = 0; i < TMK_COUNT(parts) && !w->h5.failed; i++) {
        size_t mark = w->h5.n_kept;
        TMK_TRY(parts[i](w));
        tmk_h5_release(&w->h5, mark);
    }
    return TMK_OK;
}

enum tmk_status tmk_profile_write_hdf5(const struct tmk_profile *profile, struct tmk_outfile *out,
                                       struct tmk_diag *diag) {
    struct writer w = {.profile = profile, .diag = diag};
    struct tmk_h5 *h = &w.h5;
    struct tmk_h5_image image = {NULL};
    TMK_TRY(tmk_profile_bins_init(&w.bins, diag));
    tmk_h5_begin(h);
    w.file = tmk_h5_image_open(h, &image);
    size_t mark = h->n_kept;
    enum tmk_status status = h->failed ? TMK_OK : write_parts(&w);
    tmk_h5_release(h, mark);
    status = tmk_h5_image_finish(h, w.file, &image, status, out, diag);
    tmk_profile_bins_finish(&w.bins);
    return status;
}
