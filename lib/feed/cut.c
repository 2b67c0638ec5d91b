/* SPDX-License-Identifier: Apache-2.0 */
/* How the sources are cut into samples, and which samples are offered. */

#include "base/diag.h"
#include "feed/internal.h"
#include "tensor/shape.h"

/* The array as it is cut: without the axis that counts sequences. */
static enum tmk_status look_inside(const struct tmk_feed *feed, uint32_t input,
                                   struct tmk_source_array *array, struct tmk_diag *diag) {
    struct feed_bound *bound = &feed->bound[input];
    *array = *feed_array(feed, bound);
    if (feed->recurrence.reset != RESET_SOURCE || bound->fed_back ||
        array->n_entries == TMK_SOURCE_ENDLESS)
        return TMK_OK;
    if (array->whole || array->shape.rank < 2 || array->shape.dim[1] <= 0)
        return tmk_fail(diag, TMK_ARGUMENT,
                        "%s: --reset source wants an array whose first axis counts sequences and "
                        "whose second counts their samples, or a stream; every=N cuts other data",
                        feed_path(feed, bound));
    bound->inner = (uint64_t)array->shape.dim[1];
    if (__builtin_mul_overflow(array->n_entries, bound->inner, &array->n_entries))
        return tmk_fail(diag, TMK_RANGE, "%s: more samples than can be counted",
                        feed_path(feed, bound));
    tmk_shape_drop(&array->shape, 0);
    return TMK_OK;
}

static enum tmk_status choose_cut(const struct tmk_feed *feed, uint32_t input, uint64_t batch,
                                  struct tmk_diag *diag) {
    struct feed_bound *bound = &feed->bound[input];
    struct tmk_source_array inside, *array = &inside;
    TMK_TRY(look_inside(feed, input, array, diag));
    const struct tmk_type *type = &feed->graph->inputs[input]->type;
    bound->step = 1;
    bound->widens = type->dtype == TMK_INT64 && array->dtype == TMK_INT32;
    if (type->dtype != TMK_UNDEFINED && array->dtype != TMK_UNDEFINED &&
        type->dtype != array->dtype && !bound->widens)
        return tmk_fail(diag, TMK_TYPE, "%s: input '%s' wants %s, but the array is %s",
                        feed_path(feed, bound), feed->graph->inputs[input]->name,
                        tmk_dtype_name(type->dtype), tmk_dtype_name(array->dtype));
    if (array->whole) {
        bound->cut = CUT_WHOLE;
    } else if (array->entries || (type->has_shape && array->shape.rank == type->shape.rank + 1)) {
        bound->cut = CUT_ENTRIES;
    } else if ((!type->has_shape || array->shape.rank == type->shape.rank) && array->shape.rank) {
        bound->cut = CUT_SLICES;
        int64_t fixed = type->has_shape ? type->shape.dim[0] : -1;
        bound->step = fixed > 0 ? (uint64_t)fixed : batch;
    } else {
        return tmk_fail(diag, TMK_SHAPE,
                        "%s: input '%s' has shape %s, but the array has %s; it must have the same "
                        "rank (cut along the first axis) or one more (one input an entry)",
                        feed_path(feed, bound), feed->graph->inputs[input]->name,
                        TMK_SHAPE_TEXT(&type->shape), TMK_SHAPE_TEXT(&array->shape));
    }
    return TMK_OK;
}

/* The batch is the sources' common one: a fixed first dimension anywhere decides for the free ones
 * too. */
static enum tmk_status cut_all(struct tmk_feed *feed, struct tmk_diag *diag) {
    uint64_t batch = feed->batch_size;
    const struct tmk_graph *graph = feed->graph;
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const struct tmk_type *type = &graph->inputs[i]->type;
        struct tmk_source_array array;
        if (feed->bound[i].fed_back)
            continue;
        TMK_TRY(look_inside(feed, i, &array, diag));
        if (!array.whole && !array.entries && type->has_shape && type->shape.rank &&
            array.shape.rank == type->shape.rank && type->shape.dim[0] > 0) {
            batch = (uint64_t)type->shape.dim[0];
            break;
        }
    }
    bool entries = false;
    feed->plan = (struct tmk_feed_plan){.batch = 1, .slices = graph->n_inputs > 0};
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        if (feed->bound[i].taken)
            TMK_TRY(choose_cut(feed, i, batch, diag));
        if (feed->bound[i].fed_back)
            continue;
        if (feed->bound[i].cut != CUT_SLICES)
            entries = true;
    }
    if (entries) /* one entry is one sample: free batches cannot be gathered */
        feed->plan.slices = false;
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const struct tmk_type *type = &graph->inputs[i]->type;
        bool free_batch = !type->has_shape || type->shape.dim[0] <= 0;
        if (feed->bound[i].fed_back)
            continue;
        if (feed->bound[i].cut == CUT_SLICES && entries && free_batch)
            feed->bound[i].step = 1;
        if (feed->bound[i].cut == CUT_SLICES && !entries)
            feed->plan.batch = feed->bound[i].step;
    }
    return TMK_OK;
}

/* Does every input's first dimension take any size? Then the last batch may be smaller. */
static bool may_be_smaller(const struct tmk_feed *feed) {
    for (uint32_t i = 0; i < feed->graph->n_inputs; i++) {
        const struct tmk_type *type = &feed->graph->inputs[i]->type;
        if (type->has_shape && type->shape.rank && type->shape.dim[0] > 0 &&
            !feed->bound[i].fed_back)
            return false;
    }
    return feed->plan.slices;
}

/* How many samples the sources hold; TMK_SOURCE_ENDLESS when all are streams. */
static enum tmk_status count_samples(struct tmk_feed *feed, const char **first,
                                     struct tmk_diag *diag) {
    uint64_t samples = TMK_SOURCE_ENDLESS;
    *first = "the data";
    for (uint32_t i = 0; i < feed->graph->n_inputs; i++) {
        const struct feed_bound *bound = &feed->bound[i];
        if (bound->fed_back)
            continue;
        const char *path = feed_path(feed, bound);
        uint64_t here = feed_array(feed, bound)->n_entries * (bound->inner ? bound->inner : 1);
        if (here == TMK_SOURCE_ENDLESS)
            continue;
        if (here == 0)
            return tmk_fail(diag, TMK_SHAPE, "%s: no samples for input '%s': shape %s", path,
                            feed->graph->inputs[i]->name,
                            TMK_SHAPE_TEXT(&feed_array(feed, bound)->shape));
        if (!feed->plan.slices) /* one batch a sample, however many entries it takes */
            here /= bound->step;
        if (samples == TMK_SOURCE_ENDLESS) {
            samples = here;
            *first = path;
        } else if (samples != here) {
            return tmk_fail(diag, TMK_SHAPE,
                            "%s has %llu samples for '%s', but %s has %llu; inputs need the same "
                            "number",
                            path, (unsigned long long)here, feed->graph->inputs[i]->name, *first,
                            (unsigned long long)samples);
        }
    }
    if (!feed->graph->n_inputs)
        samples = 1; /* a model without inputs runs once */
    if (samples == 0)
        return tmk_fail(diag, TMK_SHAPE, "%s: holds no samples", *first);
    feed->samples = samples;
    return TMK_OK;
}

static enum tmk_status choose_strata(struct tmk_feed *feed, const char *first,
                                     struct tmk_diag *diag) {
    const struct tmk_data_options *data = feed->data;
    struct tmk_feed_plan *plan = &feed->plan;
    plan->free = may_be_smaller(feed);
    feed->choice = (struct feed_choice){.skip = data->skip,
                                        .end = feed->samples,
                                        .limit = data->limit ? data->limit : UINT64_MAX,
                                        .batch = plan->batch,
                                        .every = data->every ? data->every : 1};
    if (feed->samples == TMK_SOURCE_ENDLESS)
        return TMK_OK;
    if (data->skip >= feed->samples)
        return tmk_fail(diag, TMK_ARGUMENT, "%s: holds %llu samples; skipping %llu leaves none",
                        first, (unsigned long long)feed->samples, (unsigned long long)data->skip);
    struct feed_total total = tmk_feed_choice_total(&feed->choice);
    plan->offered = total.samples;
    plan->run = plan->free ? total.samples : total.in_full_batches;
    if (!plan->run)
        return tmk_fail(diag, TMK_SHAPE,
                        "%s: %llu samples are offered, but the model runs %llu at a time, from "
                        "multiples of that on",
                        first, (unsigned long long)plan->offered, (unsigned long long)plan->batch);
    return TMK_OK;
}

enum tmk_status tmk_feed_cut(struct tmk_feed *feed, struct tmk_diag *diag) {
    const char *first;
    TMK_TRY(cut_all(feed, diag));
    TMK_TRY(count_samples(feed, &first, diag));
    TMK_TRY(choose_strata(feed, first, diag));
    return tmk_feed_cut_sequences(feed, diag);
}
