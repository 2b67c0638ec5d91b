/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/account.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "plan/plan.h"
#include "stats/tile.h"
#include "tensor/elements.h"
#include "tensor/positions.h"
#include "tensor/shape.h"

uint8_t tmk_slot_need(const struct tmk_slot_config *config) {
    return config->print || config->see      ? TMK_TAP_WHOLE
           : config->rule != TMK_DERIVE_NONE ? TMK_TAP_SHAPE
                                             : TMK_TAP_PIECES;
}

void tmk_slot_drop_rule(struct tmk_slot_config *config) {
    config->topk &= config->rule == TMK_DERIVE_NONE;
    config->rule = TMK_DERIVE_NONE;
    config->shadowed = false;
}

static enum tmk_status check_nan(const struct tmk_slot_config *config,
                                 const struct tmk_account *account, const float *x, size_t first,
                                 size_t n, struct tmk_diag *diag) {
    const struct tmk_stats_at *at = &account->pass.at;
    size_t part = account->pass.part; /* of one sample */
    for (size_t i = 0; i < n; i++) {
        const size_t index = isnan(x[i]) ? tmk_place_of(&account->pass, first + i) : SIZE_MAX;
        if (index == SIZE_MAX || (at->padding && tmk_is_padding(at->padding, at->positions, index)))
            continue;
        return tmk_fail(diag, TMK_GUARD, "NaN in %s at sample %llu, element %zu", config->label,
                        (unsigned long long)(at->sample + index / part), index % part);
    }
    return TMK_OK;
}

/* Of more shapes than are kept the smallest stay: a shape that is among them in the end was never
 * pushed out, so its count is whole. */
static enum tmk_status note_shape(struct tmk_account *account, const struct tmk_shape *shape,
                                  uint64_t runs, struct tmk_diag *diag) {
    uint32_t i = 0;
    while (i < account->n_shapes && tmk_compare_shapes(&account->shapes[i].shape, shape) < 0)
        i++;
    if (i < account->n_shapes && tmk_compare_shapes(&account->shapes[i].shape, shape) == 0) {
        account->shapes[i].runs += runs;
        return TMK_OK;
    }
    if (account->n_shapes == TMK_MAX_SHAPES) {
        account->more_shapes = true;
        if (i == TMK_MAX_SHAPES)
            return TMK_OK;
        account->n_shapes--;
    } else { /* few values have more than one */
        struct tmk_shape_runs *shapes =
            realloc(account->shapes, (account->n_shapes + 1u) * sizeof *shapes);
        TMK_TRY_ALLOC(shapes, diag);
        account->shapes = shapes;
    }
    memmove(&account->shapes[i + 1], &account->shapes[i],
            (account->n_shapes - i) * sizeof *account->shapes);
    account->shapes[i] = (struct tmk_shape_runs){*shape, runs};
    account->n_shapes++;
    return TMK_OK;
}

static enum tmk_status create_stats(struct tmk_account *account,
                                    const struct tmk_slot_config *config, struct tmk_diag *diag) {
    TMK_TRY(tmk_stats_create(config->level, &account->floats, diag));
    return config->share ? tmk_stats_thin(account->floats, config->share, config->id, diag)
                         : TMK_OK;
}

static enum tmk_status note_type(struct tmk_account *account, enum tmk_dtype dtype,
                                 const struct tmk_slot_config *config, struct tmk_diag *diag) {
    if (account->dtype != TMK_UNDEFINED && account->dtype != dtype)
        return tmk_fail(diag, TMK_TYPE, "%s was %s before and is %s now", config->label,
                        tmk_dtype_name(account->dtype), tmk_dtype_name(dtype));
    if (dtype == TMK_FLOAT32 && !account->floats && config->rule == TMK_DERIVE_NONE)
        TMK_TRY(create_stats(account, config, diag));
    if (dtype == TMK_FLOAT32 && !account->shadow && config->shadowed)
        TMK_TRY(tmk_stats_shadow_create(&config->shadow, &account->shadow, diag));
    if (dtype == TMK_FLOAT32 && !account->shadow && config->rule >= TMK_DERIVE_CONCAT)
        TMK_TRY(tmk_stats_shadow_create(NULL, &account->shadow, diag));
    account->dtype = dtype;
    return TMK_OK;
}

static struct tmk_stats_at current_position(const struct tmk_account *account,
                                            const struct tmk_stats_at *at) {
    struct tmk_stats_at where = *at;
    where.again |= account->runs > 0 && account->last_sample == at->sample;
    return where;
}

static enum tmk_status note_run(struct tmk_account *account, const struct tmk_shape *shape,
                                const struct tmk_stats_at *at, struct tmk_diag *diag) {
    size_t count = 0;
    TMK_TRY(note_shape(account, shape, 1, diag));
    (void)tmk_shape_count(shape, &count);
    account->elements += count;
    account->runs++;
    account->shape = *shape;
    account->channel_axis = at->channel_axis;
    account->last_sample = at->sample;
    return TMK_OK;
}

/* Ranges of the batch's samples, for the pass to update. */
static enum tmk_status open_batch(struct tmk_account *account, uint64_t samples,
                                  struct tmk_diag *diag) {
    if (samples > account->batch_size) {
        size_t bytes;
        if (samples > SIZE_MAX || !tmk_mul_size((size_t)samples, sizeof *account->batch, &bytes))
            return tmk_nomem(diag);
        struct tmk_minmax *batch = realloc(account->batch, bytes);
        TMK_TRY_ALLOC(batch, diag);
        account->batch = batch;
        account->batch_size = (size_t)samples;
    }
    for (uint64_t i = 0; i < samples; i++)
        account->batch[i] = tmk_minmax_empty();
    tmk_stats_each_beyond(&account->pass, account->batch, &account->topk);
    return TMK_OK;
}

enum tmk_status tmk_account_begin(struct tmk_account *account, const struct tmk_slot_config *config,
                                  const struct tmk_tensor *tensor, const struct tmk_stats_at *at,
                                  struct tmk_diag *diag) {
    TMK_TRY(note_type(account, tensor->dtype, config, diag));
    const struct tmk_stats_at where = current_position(account, at);
    account->shape = tensor->shape;
    TMK_TRY(tmk_stats_begin(account->floats, &tensor->shape, &where,
                            config->shadowed ? account->shadow : NULL, &account->pass, diag));
    tmk_stats_exclude(&account->pass, config->exclude, config->n_exclude);
    if (config->per_sample) {
        struct tmk_minmax *each;
        TMK_TRY(tmk_samples_open(&account->samples, at->sample, at->samples, &each, diag));
        tmk_stats_each(&account->pass, each);
    } else if (config->topk && account->pass.part < account->pass.elements) {
        TMK_TRY(open_batch(account, at->samples, diag));
    }
    return TMK_OK;
}

enum tmk_status tmk_account_piece(struct tmk_account *account, const struct tmk_slot_config *config,
                                  const float *x, size_t first, size_t n, struct tmk_diag *diag) {
    if (config->guard)
        TMK_TRY(check_nan(config, account, x, first, n, diag));
    return tmk_stats_piece(&account->pass, x, first, n, diag);
}

enum tmk_status tmk_account_end(struct tmk_account *account, const struct tmk_slot_config *config,
                                struct tmk_diag *diag) {
    const struct tmk_stats_pass *pass = &account->pass;
    TMK_TRY(tmk_stats_end(&account->pass, diag));
    if (config->topk) {
        const struct tmk_minmax span = tmk_stats_pass_minmax(pass);
        for (uint64_t i = 0; i < pass->at.samples; i++)
            tmk_topk_add(&account->topk, pass->at.sample + i, pass->each ? &pass->each[i] : &span);
    }
    return note_run(account, &account->shape, &account->pass.at, diag);
}

/* All elements: of a mapped file a block at a time. */
static enum tmk_status look_at_elements(struct tmk_account *account,
                                        const struct tmk_slot_config *config,
                                        const struct tmk_tensor *tensor, size_t count,
                                        struct tmk_diag *diag) {
    const size_t block = tmk_elements_mapped(tensor) && count > TMK_ELEMENTS_BLOCK
                             ? (size_t)TMK_ELEMENTS_BLOCK
                             : count;
    const size_t bytes = tmk_elements_scratch(tensor, block);
    void *scratch = bytes ? malloc(bytes) : NULL;
    enum tmk_status status = bytes && !scratch ? tmk_nomem(diag) : TMK_OK;
    for (size_t first = 0; status == TMK_OK && first < count; first += block) {
        const size_t n = count - first < block ? count - first : block;
        status = tmk_account_piece(account, config, tmk_elements(tensor, first, n, scratch), first,
                                   n, diag);
        tmk_elements_rest(tensor, first, n);
    }
    tmk_elements_rest(tensor, 0, tmk_tensor_count(tensor));
    free(scratch);
    return status;
}

enum tmk_status tmk_account_look(struct tmk_account *account, const struct tmk_slot_config *config,
                                 const struct tmk_tensor *tensor, const struct tmk_stats_at *at,
                                 struct tmk_diag *diag) {
    if (tensor->dtype == TMK_FLOAT32 && config->rule == TMK_DERIVE_NONE) {
        TMK_TRY(tmk_account_begin(account, config, tensor, at, diag));
        size_t count = 0;
        (void)tmk_blocked_count(&tensor->shape, at->block, &count);
        TMK_TRY(look_at_elements(account, config, tensor, count, diag));
        return tmk_account_end(account, config, diag);
    }
    TMK_TRY(note_type(account, tensor->dtype, config, diag));
    if (tmk_int_stats_supports(tensor->dtype)) { /* of others only shapes are noted */
        const struct tmk_stats_at where = current_position(account, at);
        TMK_TRY(tmk_int_stats_update(&account->ints, tensor->dtype, tensor->data, &tensor->shape,
                                     &where, diag));
        tmk_elements_rest(tensor, 0, tmk_tensor_count(tensor));
    }
    return note_run(account, &tensor->shape, at, diag);
}

enum tmk_status tmk_account_merge(struct tmk_account *dst, const struct tmk_account *src,
                                  uint64_t times, const struct tmk_slot_config *config,
                                  struct tmk_diag *diag) {
    if (!src->runs || !times)
        return TMK_OK;
    uint64_t elements, runs;
    if (__builtin_mul_overflow(src->elements, times, &elements) ||
        __builtin_mul_overflow(src->runs, times, &runs))
        return tmk_fail(diag, TMK_RANGE, "%s has too many elements to count", config->label);
    TMK_TRY(note_type(dst, src->dtype, config, diag));
    if (src->floats && !dst->floats) /* a derived value, which is looked at where it is constant */
        TMK_TRY(create_stats(dst, config, diag));
    if (config->topk)
        tmk_topk_merge(&dst->topk, dst->floats, &src->topk, src->floats);
    if (src->floats)
        TMK_TRY(tmk_stats_merge_times(dst->floats, src->floats, times, diag));
    else if (src->dtype != TMK_FLOAT32)
        TMK_TRY(tmk_int_stats_merge_times(&dst->ints, &src->ints, times, diag));
    if (src->shadow)
        TMK_TRY(tmk_stats_shadow_merge(dst->shadow, src->shadow, diag));
    TMK_TRY(tmk_samples_merge(&dst->samples, &src->samples, diag));
    for (uint32_t i = 0; i < src->n_shapes; i++)
        TMK_TRY(note_shape(dst, &src->shapes[i].shape, src->shapes[i].runs * times, diag));
    dst->more_shapes |= src->more_shapes;
    dst->other_channels |= src->other_channels;
    dst->some_channels |= src->some_channels;
    dst->whole |= src->whole;
    dst->elements += elements;
    dst->runs += runs;
    return TMK_OK;
}

void tmk_account_finish(struct tmk_account *account) {
    tmk_stats_destroy(&account->floats);
    tmk_stats_shadow_destroy(&account->shadow);
    tmk_samples_finish(&account->samples);
    free(account->batch);
    free(account->shapes);
    *account = (struct tmk_account){0};
}

/* ---- extremes of each sample ---- */

static enum tmk_status reserve_samples(struct tmk_samples *samples, size_t n,
                                       struct tmk_diag *diag) {
    size_t size = samples->size + samples->size / 2, bytes;
    if (n <= samples->size)
        return TMK_OK;
    size = size < n ? n : size;
    size = size < 64 ? 64 : size;
    TMK_TRY_ALLOC(tmk_mul_size(size, sizeof *samples->range, &bytes), diag);
    uint64_t *sample = realloc(samples->sample, size * sizeof *sample);
    TMK_TRY_ALLOC(sample, diag);
    samples->sample = sample;
    struct tmk_minmax *range = realloc(samples->range, bytes);
    TMK_TRY_ALLOC(range, diag);
    samples->range = range;
    samples->size = size;
    return TMK_OK;
}

/* The position of the first that is not before this sample. */
static size_t lower_bound(const struct tmk_samples *samples, uint64_t sample) {
    size_t low = 0, high = samples->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (samples->sample[middle] < sample)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

enum tmk_status tmk_samples_open(struct tmk_samples *samples, uint64_t first, uint64_t n,
                                 struct tmk_minmax **out, struct tmk_diag *diag) {
    size_t at = samples->n && samples->sample[samples->n - 1] >= first ? lower_bound(samples, first)
                                                                       : samples->n;
    size_t total;
    if (n > SIZE_MAX || !tmk_add_size(at, (size_t)n, &total))
        return tmk_nomem(diag);
    if (at == samples->n) {
        TMK_TRY(reserve_samples(samples, total, diag));
        for (uint64_t i = 0; i < n; i++) {
            samples->sample[at + i] = first + i;
            samples->range[at + i] = tmk_minmax_empty();
        }
        samples->n = total;
    } else if (total > samples->n || samples->sample[at] != first ||
               (n && samples->sample[total - 1] != first + n - 1)) {
        return tmk_fail(diag, TMK_ARGUMENT, "samples from %llu on come after later ones",
                        (unsigned long long)first);
    }
    *out = samples->range + at;
    return TMK_OK;
}

/* From the end, so that dst's own are moved before something takes their place. */
static void interleave_samples(struct tmk_samples *dst, const struct tmk_samples *src,
                               size_t together) {
    size_t a = dst->n, b = src->n, to = together;
    while (b > 0) {
        to--;
        if (a > 0 && dst->sample[a - 1] >= src->sample[b - 1]) {
            bool both = dst->sample[a - 1] == src->sample[b - 1];
            dst->sample[to] = dst->sample[a - 1];
            dst->range[to] = dst->range[--a];
            if (both)
                tmk_minmax_merge(&dst->range[to], &src->range[--b]);
        } else {
            dst->sample[to] = src->sample[b - 1];
            dst->range[to] = src->range[--b];
        }
    }
}

enum tmk_status tmk_samples_merge(struct tmk_samples *dst, const struct tmk_samples *src,
                                  struct tmk_diag *diag) {
    size_t common = 0, together;
    for (size_t a = 0, b = 0; a < dst->n && b < src->n;) {
        uint64_t x = dst->sample[a], y = src->sample[b];
        common += x == y;
        a += x <= y;
        b += y <= x;
    }
    TMK_TRY_ALLOC(tmk_add_size(dst->n, src->n - common, &together), diag);
    TMK_TRY(reserve_samples(dst, together, diag));
    interleave_samples(dst, src, together);
    dst->n = together;
    return TMK_OK;
}

void tmk_samples_clamp(struct tmk_samples *samples, const struct tmk_clamp *clamp) {
    for (size_t i = 0; i < samples->n; i++)
        tmk_minmax_clamp(&samples->range[i], clamp);
}

void tmk_samples_finish(struct tmk_samples *samples) {
    free(samples->sample);
    free(samples->range);
    *samples = (struct tmk_samples){0};
}
