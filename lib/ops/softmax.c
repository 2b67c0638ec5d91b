/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax, LogSoftmax and Hardmax along one axis, or (operator sets 1 to 12) over everything from
 * an axis on.
 *
 * The input is seen as [outer, n, inner]. The largest element is taken off first, so that nothing
 * overflows; sums are kept in double, in an order that depends on the shape alone. */
#include <math.h>
#include <string.h>

#include "ops/elementwise.h"
#include "ops/softmax.h"
#include "ops/vmath.h"

/* The axis, and before operator set 13 all behind it, too. */
static enum tmk_status read_axis(const struct tmk_node *node, const struct tmk_shape *shape,
                                 int32_t *axis, int32_t *end, struct tmk_diag *diag) {
    const bool flattens = node->row->since < 13;
    TMK_TRY(tmk_axis(tmk_node_int(node, "axis", flattens ? 1 : -1), shape->rank, axis, diag));
    *end = flattens ? shape->rank : *axis + 1;
    return TMK_OK;
}

static enum tmk_status infer_slices(struct tmk_infer *infer) {
    int32_t axis, end;
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_FLOAT32, "input 0", infer->diag));
    TMK_TRY(read_axis(infer->node, &infer->in[0]->shape, &axis, &end, infer->diag));
    return tmk_infer_same(infer);
}

/* ---- slices [n, 1] ---- */

/* Rows shorter than a few vectors share calls of tmk_vexp. */
enum { SHORT = 32, BLOCK = 1024 };

/* y = x - max */
static void row_shift(size_t n, const float *x, float *y) {
    float max = x[0];
    for (size_t k = 1; k < n; k++)
        max = x[k] > max ? x[k] : max;
    for (size_t k = 0; k < n; k++)
        y[k] = x[k] - max;
}

static double row_sum(size_t n, const float *x) {
    double sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += (double)x[k];
    return sum;
}

static void short_rows(size_t rows, size_t n, const float *x, float *y) {
    for (size_t at = 0, some; at < rows; at += some) {
        some = rows - at < BLOCK / n ? rows - at : BLOCK / n;
        float *block = y + at * n;
        for (size_t i = 0; i < some; i++)
            row_shift(n, x + (at + i) * n, block + i * n);
        tmk_vexp(block, block, some * n);
        for (size_t i = 0; i < some; i++, block += n) {
            float factor = (float)(1.0 / row_sum(n, block));
            for (size_t k = 0; k < n; k++)
                block[k] *= factor;
        }
    }
}

void tmk_softmax_row(size_t n, const float *x, float *y) {
    if (n < SHORT)
        short_rows(1, n, x, y);
    else
        tmk_vscale(y, (float)(1.0 / tmk_vexp_sum(x, tmk_vmax(x, n), y, n)), y, n);
}

static void softmax_rows(size_t rows, size_t n, const float *x, float *y) {
    if (n < SHORT)
        short_rows(rows, n, x, y);
    else
        for (size_t i = 0; i < rows; i++)
            tmk_softmax_row(n, x + i * n, y + i * n);
}

static void log_softmax_row(size_t n, const float *x, float *y) {
    float max = tmk_vmax(x, n);
    double shift = log(tmk_vexp_sum(x, max, y, n));
    for (size_t k = 0; k < n; k++)
        y[k] = (float)((double)(x[k] - max) - shift);
}

/* ---- one slice [n, inner]; max and sum have space for `inner` elements ---- */

static void slice_max(size_t n, size_t inner, const float *x, float *max) {
    memcpy(max, x, inner * sizeof *max);
    for (size_t k = 1; k < n; k++)
        for (size_t j = 0; j < inner; j++)
            max[j] = x[k * inner + j] > max[j] ? x[k * inner + j] : max[j];
}

/* y = e^(x - max); sum receives their sums over n */
static void slice_exp(size_t n, size_t inner, const float *x, float *y, const float *max,
                      double *sum) {
    size_t some = inner < BLOCK ? BLOCK / inner : 1;
    for (size_t j = 0; j < inner; j++)
        sum[j] = 0;
    for (size_t at = 0; at < n; at += some) {
        size_t rows = n - at < some ? n - at : some;
        float *block = y + at * inner;
        for (size_t k = 0; k < rows; k++)
            for (size_t j = 0; j < inner; j++)
                block[k * inner + j] = x[(at + k) * inner + j] - max[j];
        tmk_vexp(block, block, rows * inner);
        for (size_t k = 0; k < rows; k++)
            for (size_t j = 0; j < inner; j++)
                sum[j] += (double)block[k * inner + j];
    }
}

static void softmax_block(size_t n, size_t inner, const float *x, float *y, float *max,
                          double *sum) {
    slice_max(n, inner, x, max);
    slice_exp(n, inner, x, y, max, sum);
    for (size_t j = 0; j < inner; j++)
        max[j] = (float)(1.0 / sum[j]);
    for (size_t k = 0; k < n; k++)
        for (size_t j = 0; j < inner; j++)
            y[k * inner + j] *= max[j];
}

static void log_softmax(size_t n, size_t inner, const float *x, float *y, float *max, double *sum) {
    if (inner == 1) {
        log_softmax_row(n, x, y);
        return;
    }
    slice_max(n, inner, x, max);
    slice_exp(n, inner, x, y, max, sum);
    for (size_t j = 0; j < inner; j++)
        sum[j] = log(sum[j]);
    for (size_t k = 0; k < n; k++)
        for (size_t j = 0; j < inner; j++)
            y[k * inner + j] = (float)((double)(x[k * inner + j] - max[j]) - sum[j]);
}

/* 1 where the first of the largest elements is. A NaN counts as larger than any number. */
static void hardmax_block(size_t n, size_t inner, const float *x, float *y, float *max,
                          double *first) {
    memcpy(max, x, inner * sizeof *max);
    for (size_t j = 0; j < inner; j++)
        first[j] = 0;
    for (size_t k = 1; k < n; k++)
        for (size_t j = 0; j < inner; j++) {
            float v = x[k * inner + j];
            if (v > max[j] || (v != v && max[j] == max[j])) {
                max[j] = v;
                first[j] = (double)k;
            }
        }
    for (size_t k = 0; k < n; k++)
        for (size_t j = 0; j < inner; j++)
            y[k * inner + j] = (double)k == first[j] ? 1.0f : 0.0f;
}

typedef void (*slice_function)(size_t n, size_t inner, const float *x, float *y, float *max,
                               double *sum);

/* x and y are not empty. */
static enum tmk_status each_slice(struct tmk_run *run, const struct tmk_extents *e,
                                  slice_function slice, const float *x, float *y) {
    if (e->inner == 1 && slice == softmax_block) {
        softmax_rows(e->outer, e->n, x, y);
        return TMK_OK;
    }
    float *max = tmk_scratch(run, e->inner, sizeof *max);
    double *sum = tmk_scratch(run, e->inner, sizeof *sum);
    TMK_TRY_ALLOC(max && sum, run->diag);
    for (size_t i = 0; i < e->outer; i++)
        slice(e->n, e->inner, x + i * e->n * e->inner, y + i * e->n * e->inner, max, sum);
    return TMK_OK;
}

enum tmk_status tmk_softmax(struct tmk_run *run, const struct tmk_extents *e, const float *x,
                            float *y) {
    return each_slice(run, e, softmax_block, x, y);
}

static enum tmk_status run_slices(struct tmk_run *run) {
    const struct tmk_shape *shape = &run->in[0]->shape;
    const slice_function *slice = run->node->row->table;
    struct tmk_tensor *out = tmk_run_out(run, 0);
    int32_t axis, end;
    TMK_TRY(read_axis(run->node, shape, &axis, &end, run->diag));
    const struct tmk_extents e = {tmk_shape_product(shape, 0, axis),
                                  tmk_shape_product(shape, axis, end),
                                  tmk_shape_product(shape, end, shape->rank)};
    return each_slice(run, &e, *slice, run->in[0]->data, out->data);
}

static const slice_function softmax_slice = softmax_block, log_slice = log_softmax,
                            hardmax_slice = hardmax_block;

#define SLICES(name_, since_, until_, table_)                                                      \
    {                                                                                              \
        TMK_OP_ONNX(name_, since_, until_), TMK_OP_COUNTS(1, 1, 1, 1),                             \
            .channel = TMK_CHANNEL_INHERIT, .attrs = "axis:int", .table = table_,                  \
            .infer = infer_slices, .run = run_slices                                               \
    }

const struct tmk_op tmk_ops_softmax[] = {SLICES("Softmax", 1, 12, &softmax_slice),
                                         SLICES("Softmax", 13, INT32_MAX, &softmax_slice),
                                         SLICES("LogSoftmax", 1, 12, &log_slice),
                                         SLICES("LogSoftmax", 13, INT32_MAX, &log_slice),
                                         SLICES("Hardmax", 1, 12, &hardmax_slice),
                                         SLICES("Hardmax", 13, INT32_MAX, &hardmax_slice),
                                         {NULL}};
