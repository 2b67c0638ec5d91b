/* SPDX-License-Identifier: Apache-2.0 */
/* Samples out of the sources: the same ones for every input. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/diag.h"
#include "feed/internal.h"
#include "tensor/shape.h"

static const struct tmk_source_info *info_of(const struct tmk_feed *feed,
                                             const struct feed_bound *bound) {
    return tmk_source_info(feed->sources[bound->source]);
}

/* Entries [at, at + count) of a tensor's, whose bytes they share. */
static enum tmk_status view_entries(const struct tmk_tensor *tensor, uint64_t at, uint64_t count,
                                    struct tmk_tensor *out, struct tmk_diag *diag) {
    uint64_t entries = (uint64_t)tensor->shape.dim[0];
    size_t entry = entries ? tmk_tensor_bytes(tensor) / entries : 0;
    struct tmk_tensor piece = *tensor;
    piece.data = (char *)tensor->data + at * entry;
    piece.shape.dim[0] = (int64_t)count;
    piece.buf = tmk_buf_view(piece.data, count * entry, tensor->buf);
    if (!piece.buf)
        return tmk_nomem(diag);
    *out = piece;
    return TMK_OK;
}

/* Entries that another input had no match for yet are at hand already. */
static enum tmk_status read_entries(struct tmk_feed *feed, struct feed_bound *bound, uint64_t first,
                                    uint64_t count, struct tmk_tensor *out, struct tmk_diag *diag) {
    if (bound->inner) {
        /* Of an array whose first axis counts sequences: entries of one of those. The sequence at
         * hand is kept whole. */
        uint64_t at = first % bound->inner, left = bound->inner - at;
        if (!bound->kept.data || bound->kept_first != first - at) {
            struct tmk_tensor whole = {0};
            TMK_TRY(tmk_source_read(feed->sources[bound->source], bound->array,
                                    first / bound->inner, 1, &whole, diag));
            tmk_shape_drop_first(&whole.shape);
            tmk_tensor_finish(&bound->kept);
            bound->kept = whole;
            bound->kept_first = first - at;
        }
        return view_entries(&bound->kept, at, count < left ? count : left, out, diag);
    }
    if (bound->kept.data) {
        uint64_t has = (uint64_t)bound->kept.shape.dim[0], at = first - bound->kept_first;
        if (first >= bound->kept_first && at < has)
            return view_entries(&bound->kept, at, has - at < count ? has - at : count, out, diag);
        tmk_tensor_finish(&bound->kept);
    }
    return tmk_source_read(feed->sources[bound->source], bound->array, first, count, out, diag);
}

/* All entries of one sample, where a sample takes several: part of them is none. */
static enum tmk_status read_sample(struct tmk_feed *feed, struct feed_bound *bound, uint64_t sample,
                                   struct tmk_tensor *out, bool *there, struct tmk_diag *diag) {
    struct tmk_tensor tensor = {0}, next = {0};
    uint64_t first = sample * bound->step;
    TMK_TRY(read_entries(feed, bound, first, bound->step, &tensor, diag));
    uint64_t got = bound->cut == CUT_WHOLE ? 1 : (uint64_t)tensor.shape.dim[0];
    *there = got > 0;
    if (got == bound->step || !got) {
        *out = tensor;
        return TMK_OK;
    }
    tmk_tensor_finish(&tensor);
    TMK_TRY(read_entries(feed, bound, first + got, bound->step - got, &next, diag));
    tmk_tensor_finish(&next);
    return tmk_fail(
        diag, TMK_SHAPE, "%s: a sample takes %llu entries of one shape, and there are only %llu",
        info_of(feed, bound)->path, (unsigned long long)bound->step, (unsigned long long)got);
}

enum tmk_status tmk_feed_read_first(struct tmk_feed *feed, uint32_t input, struct tmk_tensor *out,
                                    struct tmk_diag *diag) {
    bool there = false;
    struct tmk_tensor tensor = {0};
    TMK_TRY(read_sample(feed, &feed->bound[input], 0, &tensor, &there, diag));
    if (!there)
        return tmk_fail(diag, TMK_SHAPE, "%s: holds nothing for '%s'",
                        info_of(feed, &feed->bound[input])->path, feed->graph->inputs[input]->name);
    if (feed->bound[input].cut == CUT_ENTRIES)
        tmk_shape_drop_first(&tensor.shape);
    *out = tensor;
    return TMK_OK;
}

static bool is_first_fed(const struct tmk_feed *feed, uint32_t input) {
    for (uint32_t i = 0; i < input; i++)
        if (!feed->bound[i].fed_back)
            return false;
    return true;
}

/* *count becomes what the input has of it. */
static enum tmk_status read_input(struct tmk_feed *feed, uint32_t input, uint64_t first,
                                  uint64_t *count, struct tmk_tensor *out, struct tmk_diag *diag) {
    struct feed_bound *bound = &feed->bound[input];
    feed->batch.separate = info_of(feed, bound)->separate;
    feed->batch.failing = input;
    if (!feed->plan.slices) {
        bool there = false;
        TMK_TRY(read_sample(feed, bound, first, out, &there, diag));
        *count = there;
    } else {
        TMK_TRY(read_entries(feed, bound, first, *count, out, diag));
        *count = (uint64_t)out->shape.dim[0];
    }
    if (!*count && (!is_first_fed(feed, input) || feed->samples != TMK_SOURCE_ENDLESS)) {
        feed->batch.separate = false;
        tmk_tensor_finish(out);
        return tmk_fail(diag, TMK_SHAPE,
                        "%s: ends after %llu samples for '%s', but there is more for other inputs",
                        info_of(feed, &feed->bound[input])->path, (unsigned long long)first,
                        feed->graph->inputs[input]->name);
    }
    return TMK_OK;
}

/* A batch ends where the first of its inputs does; the rest of the others waits. */
static enum tmk_status even_out(struct tmk_feed *feed, struct tmk_batch *batch,
                                struct tmk_diag *diag) {
    for (uint32_t i = 0; i < batch->n_inputs; i++) {
        struct tmk_tensor *tensor = &batch->inputs[i], shorter;
        struct feed_bound *bound = &feed->bound[i];
        if (bound->fed_back || (uint64_t)tensor->shape.dim[0] == batch->samples)
            continue;
        TMK_TRY(view_entries(tensor, 0, batch->samples, &shorter, diag));
        tmk_tensor_finish(&bound->kept);
        bound->kept = *tensor;
        bound->kept_first = batch->sample;
        *tensor = shorter;
    }
    return TMK_OK;
}

enum tmk_status tmk_feed_read(struct tmk_feed *feed, uint64_t first, uint64_t count,
                              struct tmk_batch *out, struct tmk_diag *diag) {
    uint32_t n = feed->graph->n_inputs;
    struct tmk_batch batch = {
        .sample = first, .samples = count, .inputs = calloc(n + 1u, sizeof *batch.inputs)};
    enum tmk_status status = batch.inputs ? TMK_OK : tmk_nomem(diag);
    feed->batch.separate = false;
    for (; status == TMK_OK && batch.n_inputs < n && batch.samples; batch.n_inputs++) {
        struct tmk_tensor *tensor = &batch.inputs[batch.n_inputs];
        if (feed->bound[batch.n_inputs].fed_back)
            continue;
        status = read_input(feed, batch.n_inputs, first, &batch.samples, tensor, diag);
    }
    if (status == TMK_OK)
        feed->batch.separate = false; /* what fails from here on is no matter of one file */
    if (status == TMK_OK && feed->plan.slices && batch.samples)
        status = even_out(feed, &batch, diag);
    for (uint32_t i = 0; status == TMK_OK && i < batch.n_inputs; i++)
        if (feed->bound[i].cut == CUT_ENTRIES && !feed->bound[i].fed_back)
            tmk_shape_drop_first(&batch.inputs[i].shape);
    if (status == TMK_OK && batch.samples)
        status = tmk_feed_make_empty(feed, &batch, diag);
    batch.continues_sequence = tmk_feed_continues_sequence(feed, first);
    if (status == TMK_OK && batch.samples && !batch.continues_sequence)
        status = tmk_feed_first_states(feed, &batch, diag);
    if (status == TMK_OK && batch.samples)
        status = tmk_feed_check_symbols(feed, batch.inputs, diag);
    if (status == TMK_OK)
        *out = batch;
    else
        tmk_batch_finish(&batch);
    return status;
}

enum tmk_status tmk_feed_has_sample(struct tmk_feed *feed, uint64_t at, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < feed->graph->n_inputs; i++) {
        struct feed_bound *bound = &feed->bound[i];
        struct tmk_tensor tensor = {0};
        if (bound->fed_back || tmk_feed_array(feed, bound)->n_entries != TMK_SOURCE_ENDLESS)
            continue;
        TMK_TRY(read_entries(feed, bound, at * (feed->plan.slices ? 1 : bound->step), 1, &tensor,
                             diag));
        bool more = tensor.shape.dim[0] > 0;
        tmk_tensor_finish(&tensor);
        if (more)
            return tmk_fail(diag, TMK_SHAPE,
                            "%s: continues after %llu samples for '%s', but there is no more for "
                            "other inputs",
                            info_of(feed, bound)->path, (unsigned long long)at,
                            feed->graph->inputs[i]->name);
    }
    return TMK_OK;
}
