/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a profile in HDF5. */
#include <hdf5_hl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "profile/hdf5_write.h"

/* ---- /tensors ---- */

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
    row->excluded = is.excluded;
    row->first_nonfinite_sample = is.first_nonfinite.sample;
    row->first_nonfinite_index = is.first_nonfinite.index;
    row->zeros = is.zeros;
    row->negative_zeros = is.negative_zeros;
    row->denormals = is.denormals;
    row->negatives = is.negatives;
    row->sum = is.sum;
    row->mean = is.mean;
    row->std = is.std;
    row->std_low = is.std_lo;
    row->std_high = is.std_hi;
    row->sum_squares_low = is.sumsq_lo;
    row->sum_squares_high = is.sumsq_hi;
    row->squares_kept = is.squares_kept;
    row->channel_axis = is.channels ? is.channel_axis : -1;
    row->channel_conflict = is.channel_conflict;
}

static void put_numbers(struct tmk_h5_tensor *row, const struct tmk_profile_tensor *t) {
    row->min = row->max = NAN;
    row->sum = row->mean = row->std = row->sum_squares_low = row->sum_squares_high = NAN;
    row->std_low = row->std_high = NAN;
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
    tmk_h5_put_word(row->kind, tmk_profile_kind_name(t->kind));
    tmk_h5_put_word(row->status, tmk_profile_status_name(t->status));
    tmk_h5_put_word(row->dtype, tmk_dtype_name(t->dtype));
    tmk_h5_put_word(row->origin, tmk_dtype_name(t->origin));
    tmk_h5_put_word(row->level, tmk_profile_level_name(t));
    put_numbers(row, t);
    TMK_TRY(json_text(t, tmk_profile_put_shape, &row->shape, diag));
    TMK_TRY(json_text(t, tmk_profile_put_runs, &row->observed_shapes, diag));
    return json_text(t, tmk_profile_put_sources, &row->derivation_from, diag);
}

static void free_tensor(void *to) {
    struct tmk_h5_tensor *row = to;
    free(row->shape);
    free(row->observed_shapes);
    free(row->derivation_from);
}

static enum tmk_status next_tensor(const void *profile, struct tmk_h5_cursor *cursor, void *row,
                                   struct tmk_diag *diag) {
    const struct tmk_profile *p = profile;
    if (cursor->item == p->n_tensors)
        return TMK_NOTFOUND;
    enum tmk_status status = fill_tensor(row, &p->tensors[cursor->item++], diag);
    if (status != TMK_OK)
        free_tensor(row);
    return status;
}

enum tmk_status tmk_h5_write_tensors(struct tmk_h5_writer *w) {
    struct tmk_h5 *h = &w->h5;
    const struct tmk_profile *p = w->profile;
    hid_t tensors = -1;
    const struct tmk_h5_rows rows = {&tmk_h5_tensors, p, next_tensor, free_tensor};
    TMK_TRY(tmk_h5_new_table(h, w->file, "tensors", "one row a value", &rows, &tensors, w->diag));
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

static enum tmk_status next_consumer(const void *profile, struct tmk_h5_cursor *cursor, void *to,
                                     struct tmk_diag *diag) {
    const struct tmk_profile *p = profile;
    struct tmk_h5_consumer *row = to;
    (void)diag;
    while (cursor->item < p->n_tensors && cursor->part == p->tensors[cursor->item].n_consumers) {
        cursor->item++;
        cursor->part = 0;
    }
    if (cursor->item == p->n_tensors)
        return TMK_NOTFOUND;
    const struct tmk_profile_tensor *t = &p->tensors[cursor->item];
    const struct tmk_profile_consumer *c = &t->consumers[cursor->part++];
    row->tensor_id = t->id;
    row->node = (char *)(uintptr_t)c->node;
    row->op = (char *)(uintptr_t)c->op;
    row->domain = (char *)(uintptr_t)c->domain;
    row->input = c->input;
    return TMK_OK;
}

enum tmk_status tmk_h5_write_consumers(struct tmk_h5_writer *w) {
    const struct tmk_h5_rows rows = {&tmk_h5_consumers, w->profile, next_consumer, NULL};
    return tmk_h5_new_table(&w->h5, w->file, "consumers", "one row a reader of a value", &rows,
                            NULL, w->diag);
}

static enum tmk_status next_integer(const void *profile, struct tmk_h5_cursor *cursor, void *row,
                                    struct tmk_diag *diag) {
    const struct tmk_profile *p = profile;
    (void)diag;
    while (cursor->item < p->n_tensors && !p->tensors[cursor->item].has_int_stats)
        cursor->item++;
    if (cursor->item == p->n_tensors)
        return TMK_NOTFOUND;
    const struct tmk_profile_tensor *t = &p->tensors[cursor->item++];
    const struct tmk_int_stats *is = &t->int_stats;
    *(struct tmk_h5_integer *)row = (struct tmk_h5_integer){t->id, is->count ? is->min : 0,
                                                            is->count ? is->max : 0, is->saturated};
    return TMK_OK;
}

enum tmk_status tmk_h5_write_integers(struct tmk_h5_writer *w) {
    const struct tmk_h5_rows rows = {&tmk_h5_integers, w->profile, next_integer, NULL};
    return tmk_h5_new_table(&w->h5, w->file, "integers", "one row a value of integers", &rows, NULL,
                            w->diag);
}
