/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a profile in HDF5. A table is walked twice: for the sizes of its texts, then for
 * its rows. */
#include <hdf5_hl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "profile/hdf5_write.h"

enum { CHUNK_ROWS = 256, CHUNK_BYTES = 1 << 20 };

/* ---- tables ---- */

union row {
    struct tmk_h5_tensor tensor;
    struct tmk_h5_consumer consumer;
    struct tmk_h5_integer integer;
};

/* Where a walk stands: at the value `tensor`, and at its entry `part` where it has several. */
struct cursor {
    uint32_t tensor, part;
};

/* Fills the next row and moves on; TMK_NOTFOUND, without a text, behind the last one. The row's
 * texts are borrowed, but the three JSON texts of a tensor are its own: see `free_row`. */
typedef enum tmk_status next_fn(const struct tmk_profile *profile, struct cursor *cursor,
                                union row *row, struct tmk_diag *diag);

static void free_row(const struct tmk_h5_table *table, union row *row) {
    if (table != &tmk_h5_tensors)
        return;
    free(row->tensor.shape);
    free(row->tensor.observed_shapes);
    free(row->tensor.derivation_from);
}

static enum tmk_status measure(struct tmk_h5_writer *w, struct tmk_h5_layout *layout, next_fn *next,
                               hsize_t *rows) {
    struct cursor cursor = {0, 0};
    union row row;
    enum tmk_status status;
    *rows = 0;
    while ((status = next(w->profile, &cursor, &row, w->diag)) == TMK_OK) {
        tmk_h5_layout_measure(layout, &row);
        free_row(layout->table, &row);
        ++*rows;
    }
    if (status != TMK_NOTFOUND)
        return status;
    return tmk_h5_layout_place(layout) ? TMK_OK : tmk_nomem(w->diag);
}

static enum tmk_status fill(struct tmk_h5_writer *w, const struct tmk_h5_layout *layout,
                            next_fn *next, hsize_t batch, unsigned char *rows,
                            struct tmk_h5_out *to) {
    struct cursor cursor = {0, 0};
    enum tmk_status status = TMK_OK;
    while (status == TMK_OK) {
        hsize_t n = 0;
        union row row;
        while (n < batch && (status = next(w->profile, &cursor, &row, w->diag)) == TMK_OK) {
            tmk_h5_layout_store(layout, &row, rows + n++ * layout->row);
            free_row(layout->table, &row);
        }
        tmk_h5_append(&w->h5, to, rows, n);
    }
    return status == TMK_NOTFOUND ? TMK_OK : status;
}

/* What the columns of a table mean, as a JSON object: HDF5 has no attributes for members. */
static enum tmk_status describe_columns(struct tmk_h5_writer *w, hid_t dataset,
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

/* *dataset is kept. */
static enum tmk_status write_table(struct tmk_h5_writer *w, const char *name, const char *about,
                                   const struct tmk_h5_table *table, next_fn *next,
                                   hid_t *dataset) {
    struct tmk_h5 *h = &w->h5;
    struct tmk_h5_layout layout;
    hsize_t rows = 0;
    tmk_h5_layout_init(&layout, table);
    TMK_TRY(measure(w, &layout, next, &rows));
    hsize_t batch = CHUNK_BYTES / layout.row;
    batch = batch > CHUNK_ROWS ? CHUNK_ROWS : batch ? batch : 1;
    struct tmk_h5_out to = tmk_h5_new_column(h, w->file, name, tmk_h5_layout_type(h, &layout, true),
                                             tmk_h5_layout_type(h, &layout, false), rows, batch);
    tmk_h5_put_text(h, to.dataset, "long_name", about);
    TMK_TRY(describe_columns(w, to.dataset, table));
    unsigned char *buffer = malloc((size_t)batch * layout.row);
    if (!buffer)
        return tmk_nomem(w->diag);
    enum tmk_status status = fill(w, &layout, next, batch, buffer, &to);
    free(buffer);
    *dataset = to.dataset;
    return status;
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
static enum tmk_status fill_tensor(struct tmk_h5_tensor *row, const struct tmk_profile_tensor *t,
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

static enum tmk_status next_tensor(const struct tmk_profile *p, struct cursor *cursor,
                                   union row *row, struct tmk_diag *diag) {
    if (cursor->tensor == p->n_tensors)
        return TMK_NOTFOUND;
    enum tmk_status status = fill_tensor(&row->tensor, &p->tensors[cursor->tensor++], diag);
    if (status != TMK_OK)
        free_row(&tmk_h5_tensors, row);
    return status;
}

enum tmk_status tmk_h5_write_tensors(struct tmk_h5_writer *w) {
    struct tmk_h5 *h = &w->h5;
    const struct tmk_profile *p = w->profile;
    hid_t tensors = -1;
    TMK_TRY(write_table(w, "tensors", "one row a value", &tmk_h5_tensors, next_tensor, &tensors));
    struct tmk_h5_out ids =
        tmk_h5_new_column(h, w->file, "tensor", H5T_STD_U32LE, H5T_NATIVE_UINT32, p->n_tensors,
                          TMK_H5_CHUNK_ELEMENTS);
    tmk_h5_describe(h, ids.dataset, "", "profile IDs: the dimension of /tensors");
    for (uint32_t i = 0; i < p->n_tensors; i++)
        tmk_h5_append(h, &ids, &p->tensors[i].id, 1);
    tmk_h5_ok(h, H5DSset_scale(ids.dataset, "tensor"));
    tmk_h5_ok(h, H5DSattach_scale(tensors, ids.dataset, 0));
    tmk_h5_ok(h, H5DSset_label(tensors, 0, "tensor"));
    return TMK_OK;
}

/* ---- /consumers, /integers ---- */

static enum tmk_status next_consumer(const struct tmk_profile *p, struct cursor *cursor,
                                     union row *row, struct tmk_diag *diag) {
    (void)diag;
    while (cursor->tensor < p->n_tensors &&
           cursor->part == p->tensors[cursor->tensor].n_consumers) {
        cursor->tensor++;
        cursor->part = 0;
    }
    if (cursor->tensor == p->n_tensors)
        return TMK_NOTFOUND;
    const struct tmk_profile_tensor *t = &p->tensors[cursor->tensor];
    const struct tmk_profile_consumer *c = &t->consumers[cursor->part++];
    memset(row, 0, sizeof *row);
    row->consumer =
        (struct tmk_h5_consumer){t->id, (char *)(uintptr_t)c->node, (char *)(uintptr_t)c->op,
                                 (char *)(uintptr_t)c->domain, c->input};
    return TMK_OK;
}

enum tmk_status tmk_h5_write_consumers(struct tmk_h5_writer *w) {
    hid_t dataset;
    return write_table(w, "consumers", "one row a reader of a value", &tmk_h5_consumers,
                       next_consumer, &dataset);
}

static enum tmk_status next_integer(const struct tmk_profile *p, struct cursor *cursor,
                                    union row *row, struct tmk_diag *diag) {
    (void)diag;
    while (cursor->tensor < p->n_tensors && !p->tensors[cursor->tensor].has_int_stats)
        cursor->tensor++;
    if (cursor->tensor == p->n_tensors)
        return TMK_NOTFOUND;
    const struct tmk_profile_tensor *t = &p->tensors[cursor->tensor++];
    const struct tmk_int_stats *is = &t->int_stats;
    row->integer = (struct tmk_h5_integer){t->id, is->count ? is->min : 0, is->count ? is->max : 0,
                                           is->saturated};
    return TMK_OK;
}

enum tmk_status tmk_h5_write_integers(struct tmk_h5_writer *w) {
    hid_t dataset;
    return write_table(w, "integers", "one row a value of integers", &tmk_h5_integers, next_integer,
                       &dataset);
}
