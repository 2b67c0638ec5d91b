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
#include "profile/hdf5_image.h"
#include "profile/hdf5_write.h"

/* ---- /histograms, /channels, /samples ---- */

/* Where each value's part of the flat columns begins, and where the last one's ends. */
static enum tmk_status write_offsets(struct tmk_h5_writer *w, hid_t group,
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

static enum tmk_status write_histograms(struct tmk_h5_writer *w) {
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
                                              total, TMK_H5_CHUNK_ELEMENTS),
                      squares = tmk_h5_new_column(h, group, "squares", H5T_STD_U64LE,
                                                  H5T_NATIVE_UINT64, total, TMK_H5_CHUNK_ELEMENTS);
    tmk_h5_describe(h, bins.dataset, "", "upper 16 bits of the float32: position in /bin_edges");
    tmk_h5_describe(h, counts.dataset, "elements", "elements in the bin");
    tmk_h5_describe(h, low.dataset, "", "sum of the mantissa bits that the bin drops");
    tmk_h5_describe(h, squares.dataset, "",
                    "sum of their squares, of values with squares_kept; else 0");
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        struct tmk_summary is;
        if (!p->tensors[i].stats)
            continue;
        tmk_stats_summary(p->tensors[i].stats, &is);
        tmk_stats_bins(p->tensors[i].stats, w->bins.bin, w->bins.count, w->bins.low);
        tmk_h5_append(h, &bins, w->bins.bin, is.bins_used);
        tmk_h5_append(h, &counts, w->bins.count, is.bins_used);
        tmk_h5_append(h, &low, w->bins.low, is.bins_used);
        if (!tmk_stats_squares(p->tensors[i].stats, w->bins.squares))
            memset(w->bins.squares, 0, is.bins_used * sizeof *w->bins.squares);
        tmk_h5_append(h, &squares, w->bins.squares, is.bins_used);
    }
    return TMK_OK;
}

static enum tmk_status write_bin_edges(struct tmk_h5_writer *w) {
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

static enum tmk_status write_channels(struct tmk_h5_writer *w) {
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
        tmk_stats_quick_summary(p->tensors[i].stats, &is);
        append_extremes(h, &min, is.channel_min, is.channels, copy);
        append_extremes(h, &max, is.channel_max, is.channels, copy);
    }
    free(copy);
    return TMK_OK;
}

static void write_sample_rows(struct tmk_h5_writer *w, hid_t dataset, hsize_t samples,
                              bool of_max) {
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

static enum tmk_status write_samples(struct tmk_h5_writer *w) {
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

/* ---- /top_samples, /operands, /nonfinite ---- */

static enum tmk_status write_topk(struct tmk_h5_writer *w) {
    struct tmk_h5 *h = &w->h5;
    const struct tmk_profile *p = w->profile;
    hsize_t rows = 0;
    for (uint32_t i = 0; i < p->n_tensors; i++)
        rows += p->tensors[i].topk.n;
    hid_t group = tmk_h5_new_group(h, w->file, "top_samples", "the samples that reach furthest");
    struct tmk_h5_out ids = tmk_h5_new_column(h, group, "tensor", H5T_STD_U32LE, H5T_NATIVE_UINT32,
                                              rows, TMK_H5_CHUNK_ELEMENTS),
                      value[2], sample[2];
    static const char *const names[2][2] = {{"min", "min_sample"}, {"max", "max_sample"}};
    for (int end = 0; end < 2; end++) {
        value[end] = tmk_h5_new_column(h, group, names[end][0], H5T_IEEE_F32LE, H5T_NATIVE_FLOAT,
                                       rows, TMK_H5_CHUNK_ELEMENTS);
        sample[end] = tmk_h5_new_column(h, group, names[end][1], H5T_STD_U64LE, H5T_NATIVE_UINT64,
                                        rows, TMK_H5_CHUNK_ELEMENTS);
        tmk_h5_describe(h, sample[end].dataset, "", "the sample that has it");
    }
    tmk_h5_describe(h, ids.dataset, "", "profile ID; its rows begin with the furthest sample");
    tmk_h5_describe(h, value[0].dataset, "1", "least finite element of a sample");
    tmk_h5_describe(h, value[1].dataset, "1", "greatest finite element of a sample");
    for (uint32_t i = 0; i < p->n_tensors; i++)
        for (uint32_t k = 0; k < p->tensors[i].topk.n; k++) {
            const struct tmk_topk *topk = &p->tensors[i].topk;
            const struct tmk_topk_entry *top[2] = {&topk->min[k], &topk->max[k]};
            tmk_h5_append(h, &ids, &p->tensors[i].id, 1);
            for (int end = 0; end < 2; end++) {
                tmk_h5_append(h, &value[end], &top[end]->value, 1);
                tmk_h5_append(h, &sample[end], &top[end]->sample, 1);
            }
        }
    return TMK_OK;
}

static enum tmk_status write_operands(struct tmk_h5_writer *w) {
    struct tmk_h5 *h = &w->h5;
    const struct tmk_profile *p = w->profile;
    hsize_t rows = 0;
    for (uint32_t i = 0; i < p->n_tensors; i++)
        rows += p->tensors[i].n_operands;
    hid_t group = tmk_h5_new_group(h, w->file, "operands", "which values one is computed from");
    struct tmk_h5_out ids = tmk_h5_new_column(h, group, "tensor", H5T_STD_U32LE, H5T_NATIVE_UINT32,
                                              rows, TMK_H5_CHUNK_ELEMENTS),
                      operands = tmk_h5_new_column(h, group, "operand", H5T_STD_U32LE,
                                                   H5T_NATIVE_UINT32, rows, TMK_H5_CHUNK_ELEMENTS);
    tmk_h5_describe(h, ids.dataset, "", "profile ID of a value");
    tmk_h5_describe(h, operands.dataset, "", "profile ID of a value that it is computed from");
    for (uint32_t i = 0; i < p->n_tensors; i++)
        for (uint32_t k = 0; k < p->tensors[i].n_operands; k++) {
            tmk_h5_append(h, &ids, &p->tensors[i].id, 1);
            tmk_h5_append(h, &operands, &p->tensors[i].operands[k], 1);
        }
    return TMK_OK;
}

/* Follows from /operands and /tensors; not read. */
static enum tmk_status write_nonfinite(struct tmk_h5_writer *w) {
    struct tmk_h5 *h = &w->h5;
    struct tmk_nonfinite *nonfinite;
    uint32_t n;
    hsize_t rows = 0;
    TMK_TRY(tmk_profile_nonfinite(w->profile, &nonfinite, &n, w->diag));
    for (uint32_t i = 0; i < n; i++)
        rows += nonfinite[i].n_from ? nonfinite[i].n_from : 1;
    hid_t group = tmk_h5_new_group(h, w->file, "nonfinite", "where NaN and infinities came from");
    struct tmk_h5_out ids = tmk_h5_new_column(h, group, "tensor", H5T_STD_U32LE, H5T_NATIVE_UINT32,
                                              rows, TMK_H5_CHUNK_ELEMENTS),
                      from = tmk_h5_new_column(h, group, "from", H5T_STD_I64LE, H5T_NATIVE_INT64,
                                               rows, TMK_H5_CHUNK_ELEMENTS);
    tmk_h5_describe(h, ids.dataset, "", "profile ID of a value that was not always finite");
    tmk_h5_describe(h, from.dataset, "", "profile ID of the value it has that from; -1: it began");
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k == 0 || k < nonfinite[i].n_from; k++) {
            int64_t id = nonfinite[i].n_from ? (int64_t)nonfinite[i].from[k] : -1;
            tmk_h5_append(h, &ids, &nonfinite[i].id, 1);
            tmk_h5_append(h, &from, &id, 1);
        }
    free(nonfinite);
    return TMK_OK;
}

/* ---- the header ---- */

static enum tmk_status write_header(struct tmk_h5_writer *w) {
    struct tmk_text text = {0};
    tmk_text_puts(&text, "{");
    enum tmk_status status = tmk_profile_header_text(w->profile, ",", &text, w->diag);
    tmk_text_puts(&text, "}");
    if (status == TMK_OK && text.failed)
        status = tmk_nomem(w->diag);
    if (status == TMK_OK)
        tmk_h5_new_json(&w->h5, w->file, "header", "the JSON file's header, an object of JSON",
                        &text);
    tmk_text_finish(&text);
    return status;
}

static void write_attributes(struct tmk_h5_writer *w) {
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
    tmk_h5_put_u64(h, w->file, "total_samples", tmk_profile_total(p));
}

static enum tmk_status write_parts(struct tmk_h5_writer *w) {
    static enum tmk_status (*const parts[])(struct tmk_h5_writer * w) = {
        write_header,     tmk_h5_write_tensors, tmk_h5_write_consumers, tmk_h5_write_integers,
        write_histograms, write_bin_edges,      write_channels,         write_samples,
        write_topk,       write_operands,       write_nonfinite,
    };
    write_attributes(w);
    for (size_t i = 0; i < TMK_COUNT(parts) && !w->h5.failed; i++) {
        size_t mark = w->h5.n_kept;
        TMK_TRY(parts[i](w));
        tmk_h5_release(&w->h5, mark);
    }
    return TMK_OK;
}

bool tmk_profile_has_hdf5(void) {
    return true;
}

enum tmk_status tmk_profile_write_hdf5(const struct tmk_profile *profile, struct tmk_outfile *out,
                                       struct tmk_diag *diag) {
    struct tmk_h5_writer w = {.profile = profile, .diag = diag};
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
