/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/account.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"

static enum tmk_status guard(const struct tmk_slot_config *config, const struct tmk_tensor *tensor,
                             const struct tmk_stats_at *at, struct tmk_diag *diag) {
    const float *x = tensor->data;
    size_t n = tmk_tensor_count(tensor);
    for (size_t i = 0; i < n; i++)
        if (isnan(x[i]))
            return tmk_fail(diag, TMK_GUARD, "NaN in %s at sample %llu, element %zu", config->label,
                            (unsigned long long)at->sample, i);
    return TMK_OK;
}

static int compare(const struct tmk_shape *a, const struct tmk_shape *b) {
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    for (int32_t i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return a->dim[i] < b->dim[i] ? -1 : 1;
    return 0;
}

/* Of more shapes than are kept the smallest stay: a shape that is among them in the end was never
 * pushed out, so its count is whole. */
static enum tmk_status note_shape(struct tmk_account *account, const struct tmk_shape *shape,
                                  uint64_t runs, struct tmk_diag *diag) {
    uint32_t i = 0;
    while (i < account->n_shapes && compare(&account->shapes[i].shape, shape) < 0)
        i++;
    if (i < account->n_shapes && compare(&account->shapes[i].shape, shape) == 0) {
        account->shapes[i].runs += runs;
        return TMK_OK;
    }
    if (!account->shapes) {
        account->shapes = calloc(TMK_MOST_SHAPES, sizeof *account->shapes);
        if (!account->shapes)
            return tmk_nomem(diag);
    }
    if (account->n_shapes == TMK_MOST_SHAPES) {
        account->more_shapes = true;
        if (i == TMK_MOST_SHAPES)
            return TMK_OK;
        account->n_shapes--;
    }
    memmove(&account->shapes[i + 1], &account->shapes[i],
            (account->n_shapes - i) * sizeof *account->shapes);
    account->shapes[i] = (struct tmk_shape_runs){*shape, runs};
    account->n_shapes++;
    return TMK_OK;
}

static enum tmk_status note_type(struct tmk_account *account, enum tmk_dtype dtype,
                                 const struct tmk_slot_config *config, struct tmk_diag *diag) {
    if (account->dtype != TMK_UNDEFINED && account->dtype != dtype)
        return tmk_fail(diag, TMK_TYPE, "%s was %s before and is %s now", config->label,
                        tmk_dtype_name(account->dtype), tmk_dtype_name(dtype));
    if (dtype == TMK_FLOAT32 && !account->floats)
        TMK_TRY(tmk_stats_create(config->level, &account->floats, diag));
    account->dtype = dtype;
    return TMK_OK;
}

enum tmk_status tmk_account_look(struct tmk_account *account, const struct tmk_slot_config *config,
                                 const struct tmk_tensor *tensor, const struct tmk_stats_at *at,
                                 struct tmk_diag *diag) {
    TMK_TRY(note_type(account, tensor->dtype, config, diag));
    struct tmk_stats_at here = *at;
    here.again = account->runs > 0 && account->last_sample == at->sample;
    if (tensor->dtype == TMK_FLOAT32) {
        if (config->guard)
            TMK_TRY(guard(config, tensor, at, diag));
        TMK_TRY(tmk_stats_update(account->floats, tensor->data, &tensor->shape, &here, diag));
    } else {
        TMK_TRY(tmk_int_stats_update(&account->ints, tensor->dtype, tensor->data, &tensor->shape,
                                     &here, diag));
    }
    TMK_TRY(note_shape(account, &tensor->shape, 1, diag));
    account->elements += tmk_tensor_count(tensor);
    account->runs++;
    account->last_sample = at->sample;
    return TMK_OK;
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
    if (src->floats)
        TMK_TRY(tmk_stats_merge_times(dst->floats, src->floats, times, diag));
    else
        TMK_TRY(tmk_int_stats_merge_times(&dst->ints, &src->ints, times, diag));
    for (uint32_t i = 0; i < src->n_shapes; i++)
        TMK_TRY(note_shape(dst, &src->shapes[i].shape, src->shapes[i].runs * times, diag));
    dst->more_shapes |= src->more_shapes;
    dst->elements += elements;
    dst->runs += runs;
    return TMK_OK;
}

void tmk_account_finish(struct tmk_account *account) {
    tmk_stats_destroy(&account->floats);
    free(account->shapes);
    *account = (struct tmk_account){0};
}
