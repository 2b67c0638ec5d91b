/* SPDX-License-Identifier: Apache-2.0 */
/* Pools over windows of one to three spatial axes: MaxPool, AveragePool, LpPool.
 *
 * Padding is never looked at: each window is cut to the taps inside the input. A window with none
 * there (dilation can do that) gives the lowest finite number in MaxPool, with index -1, and 0
 * otherwise, as ONNX Runtime has it. NaN counts as the largest number, as in NumPy.
 */
#include "ops/pool.h"
#include "ops/cost.h"

#include <float.h>
#include <math.h>

#include "ops/kernel.h"
#include "ops/rows.h"
#include "ops/window.h"

enum { AXES = 3 };

/* One window on one axis. */
struct span {
    int64_t first;  /* position of the first tap inside the input */
    int64_t count;  /* taps inside the input */
    int64_t padded; /* taps inside the input and its explicit padding */
};

struct pool {
    size_t planes;
    int64_t in[AXES], out[AXES], step[AXES]; /* step: elements from tap to tap along the axis */
    const struct span *span[AXES];
};

static struct span cut_span(const struct tmk_window *w, int32_t i, int64_t o) {
    int64_t start = o * w->stride[i] - w->begin[i], step = w->dilation[i];
    int64_t skipped = start < 0 ? (-start + step - 1) / step : 0;
    int64_t span_size = w->in[i] - 1 - start, wide = span_size + w->end[i];
    struct span span = {.first = start + skipped * step,
                        .count = span_size < 0 ? 0 : span_size / step + 1,
                        .padded = wide < 0 ? 0 : wide / step + 1};
    span.count = (span.count < w->kernel[i] ? span.count : w->kernel[i]) - skipped;
    span.count = span.count > 0 ? span.count : 0;
    span.padded = span.padded < w->kernel[i] ? span.padded : w->kernel[i];
    return span;
}

/* The output is not empty. */
static enum tmk_status prepare_pool(struct tmk_run *run, const struct tmk_shape *shape,
                                    struct pool *out) {
    struct tmk_window window;
    TMK_TRY(tmk_window_pool(run->node, shape, &window, run->diag));
    struct pool pool = {.planes = tmk_shape_product(shape, 0, 2)};
    for (int32_t i = 0; i < AXES; i++) { /* axes that are not there come first, of one element */
        int32_t axis = i - (AXES - window.n);
        pool.in[i] = axis < 0 ? 1 : window.in[axis];
        pool.out[i] = axis < 0 ? 1 : window.out[axis];
        pool.step[i] = axis < 0 ? 1 : window.dilation[axis];
        struct span *span = run->scratch(run->context, (size_t)pool.out[i] * sizeof *span);
        if (!span)
            return tmk_nomem(run->diag);
        for (int64_t o = 0; o < pool.out[i]; o++)
            span[o] = axis < 0 ? (struct span){0, 1, 1} : cut_span(&window, axis, o);
        pool.span[i] = span;
    }
    *out = pool;
    return TMK_OK;
}

enum tmk_status tmk_pool_shape(const struct tmk_node *node, const struct tmk_shape *x,
                               struct tmk_shape *out, struct tmk_diag *diag) {
    struct tmk_window window;
    TMK_TRY(tmk_window_pool(node, x, &window, diag));
    if (window.n > AXES)
        return tmk_fail(diag, TMK_UNSUPPORTED, "pooling over %d spatial axes; at most %d",
                        (int)window.n, AXES);
    tmk_window_shape(&window, x->dim[0], x->dim[1], out);
    return TMK_OK;
}

static enum tmk_status infer_pool(struct tmk_infer *infer, bool (*takes)(enum tmk_dtype),
                                  bool indices) {
    const struct tmk_tensor *x = infer->in[0];
    struct tmk_shape shape;
    if (!takes(x->dtype))
        return tmk_fail(infer->diag, TMK_TYPE, "the input is of type %s", tmk_dtype_name(x->dtype));
    TMK_TRY(tmk_pool_shape(infer->node, &x->shape, &shape, infer->diag));
    tmk_infer_set(infer, 0, x->dtype, &shape);
    return indices ? tmk_infer_set(infer, 1, TMK_INT64, &shape) : TMK_OK;
}

static bool only_float(enum tmk_dtype dtype) {
    return dtype == TMK_FLOAT32;
}

static bool float_or_8_bits(enum tmk_dtype dtype) {
    return dtype == TMK_FLOAT32 || dtype == TMK_INT8 || dtype == TMK_UINT8;
}

/* ---- MaxPool ---- */

#define TMK_BETTER_FLOAT(value, best) (!((value) <= (best)) && !isnan(best))
#define TMK_BETTER_INTEGER(value, best) ((value) > (best))

/* Either of y and indices may be NULL. indices are flat in the whole input, or per plane with the
 * first spatial axis fastest. */
#define TMK_MAX_POOL(type, better, lowest)                                                         \
    static void max_##type(const struct pool *p, const type *x, type *y, int64_t *indices,         \
                           bool column_major) {                                                    \
        int64_t area = p->in[0] * p->in[1] * p->in[2], base = 0;                                   \
        for (size_t plane = 0; plane < p->planes; plane++, base += area)                           \
            for (int64_t a = 0; a < p->out[0]; a++)                                                \
                for (int64_t b = 0; b < p->out[1]; b++)                                            \
                    for (int64_t c = 0; c < p->out[2]; c++) {                                      \
                        struct span s = p->span[0][a], t = p->span[1][b], u = p->span[2][c];       \
                        type best = lowest;                                                        \
                        int64_t found = -1;                                                        \
                        for (int64_t i = 0; i < s.count; i++)                                      \
                            for (int64_t j = 0; j < t.count; j++) {                                \
                                int64_t at = ((s.first + i * p->step[0]) * p->in[1] + t.first +    \
                                              j * p->step[1]) *                                    \
                                                 p->in[2] +                                        \
                                             u.first;                                              \
                                for (int64_t k = 0; k < u.count; k++, at += p->step[2])            \
                                    if (found < 0 || better(x[base + at], best)) {                 \
                                        best = x[base + at];                                       \
                                        found = at;                                                \
                                    }                                                              \
                            }                                                                      \
                        if (y)                                                                     \
                            *y++ = best;                                                           \
                        if (indices)                                                               \
                            *indices++ = index_of(p, found, base, column_major);                   \
                    }                                                                              \
    }

static int64_t index_of(const struct pool *p, int64_t found, int64_t base, bool column_major) {
    if (found < 0)
        return -1;
    if (!column_major)
        return base + found;
    int64_t c = found % p->in[2], b = found / p->in[2] % p->in[1], a = found / p->in[2] / p->in[1];
    return base + (c * p->in[1] + b) * p->in[0] + a;
}

TMK_MAX_POOL(float, TMK_BETTER_FLOAT, -FLT_MAX)
TMK_MAX_POOL(int8_t, TMK_BETTER_INTEGER, INT8_MIN)
TMK_MAX_POOL(uint8_t, TMK_BETTER_INTEGER, 0)

static enum tmk_status infer_max_pool(struct tmk_infer *infer) {
    return infer_pool(infer, float_or_8_bits, true);
}

static enum tmk_status run_max_pool(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0];
    struct tmk_tensor *y = run->out[0], *indices = tmk_run_out(run, 1);
    if ((!y && !indices) || tmk_tensor_count(y ? y : indices) == 0)
        return TMK_OK;
    struct pool pool;
    TMK_TRY(prepare_pool(run, &run->in[0]->shape, &pool));
    bool column_major = tmk_node_int(run->node, "storage_order", 0) != 0;
    void *to = y ? y->data : NULL;
    int64_t *at = indices ? indices->data : NULL;
    if (x->dtype == TMK_FLOAT32)
        max_float(&pool, x->data, to, at, column_major);
    else if (x->dtype == TMK_INT8)
        max_int8_t(&pool, x->data, to, at, column_major);
    else
        max_uint8_t(&pool, x->data, to, at, column_major);
    return TMK_OK;
}

enum tmk_status tmk_pool_max(struct tmk_run *run, const struct tmk_shape *shape, bool is_signed,
                             const void *x, void *y) {
    struct pool pool;
    TMK_TRY(prepare_pool(run, shape, &pool));
    if (is_signed)
        max_int8_t(&pool, x, y, NULL, false);
    else
        max_uint8_t(&pool, x, y, NULL, false);
    return TMK_OK;
}

/* ---- AveragePool, LpPool ---- */

enum power { POWER_MEAN, POWER_1, POWER_2, POWER_ANY };

static inline double power_term(enum power power, double p, double x) {
    switch (power) {
    case POWER_MEAN:
        return x;
    case POWER_1:
        return fabs(x);
    case POWER_2:
        return x * x;
    default:
        return pow(fabs(x), p);
    }
}

static inline void sum_windows(const struct pool *p, const float *x, float *y, enum power power,
                               double exponent, bool padding_counts) {
    int64_t area = p->in[0] * p->in[1] * p->in[2];
    for (size_t plane = 0; plane < p->planes; plane++, x += area)
        for (int64_t a = 0; a < p->out[0]; a++)
            for (int64_t b = 0; b < p->out[1]; b++)
                for (int64_t c = 0; c < p->out[2]; c++) {
                    struct span s = p->span[0][a], t = p->span[1][b], u = p->span[2][c];
                    double sum = 0;
                    for (int64_t i = 0; i < s.count; i++)
                        for (int64_t j = 0; j < t.count; j++) {
                            const float *from = x + ((s.first + i * p->step[0]) * p->in[1] +
                                                     t.first + j * p->step[1]) *
                                                        p->in[2];
                            for (int64_t k = 0; k < u.count; k++)
                                sum += power_term(power, exponent, from[u.first + k * p->step[2]]);
                        }
                    double count = padding_counts
                                       ? (double)s.padded * (double)t.padded * (double)u.padded
                                       : (double)s.count * (double)t.count * (double)u.count;
                    if (power == POWER_MEAN)
                        sum = count > 0 ? sum / count : 0;
                    else if (power == POWER_2)
                        sum = sqrt(sum);
                    else if (power == POWER_ANY)
                        sum = pow(sum, 1 / exponent);
                    *y++ = (float)sum;
                }
}

static enum tmk_status infer_average_pool(struct tmk_infer *infer) {
    return infer_pool(infer, only_float, false);
}

enum tmk_status tmk_pool_average(struct tmk_run *run, const struct tmk_shape *shape, const float *x,
                                 float *y) {
    struct pool pool;
    TMK_TRY(prepare_pool(run, shape, &pool));
    sum_windows(&pool, x, y, POWER_MEAN, 1, tmk_node_int(run->node, "count_include_pad", 0) != 0);
    return TMK_OK;
}

static enum tmk_status run_average_pool(struct tmk_run *run) {
    if (!run->out[0] || tmk_tensor_count(run->out[0]) == 0)
        return TMK_OK;
    return tmk_pool_average(run, &run->in[0]->shape, run->in[0]->data, run->out[0]->data);
}

/* The attribute was a float in operator set 1. */
static double exponent_of(const struct tmk_node *node) {
    return node->row->since == 1 ? (double)tmk_node_float(node, "p", 2)
                                 : (double)tmk_node_int(node, "p", 2);
}

static enum tmk_status infer_lp_pool(struct tmk_infer *infer) {
    double p = exponent_of(infer->node);
    if (!(p > 0) || !isfinite(p))
        return tmk_fail(infer->diag, TMK_RANGE, "attribute 'p' is %g", p);
    return infer_pool(infer, only_float, false);
}

static enum tmk_status run_lp_pool(struct tmk_run *run) {
    if (!run->out[0] || tmk_tensor_count(run->out[0]) == 0)
        return TMK_OK;
    struct pool pool;
    TMK_TRY(prepare_pool(run, &run->in[0]->shape, &pool));
    const float *x = run->in[0]->data;
    float *y = run->out[0]->data;
    double p = exponent_of(run->node);
    if (p == 1)
        sum_windows(&pool, x, y, POWER_1, p, false);
    else if (p == 2)
        sum_windows(&pool, x, y, POWER_2, p, false);
    else
        sum_windows(&pool, x, y, POWER_ANY, p, false);
    return TMK_OK;
}

/* ---- rows ---- */

#define TMK_POOL_ATTRS "auto_pad:string kernel_shape:ints! pads:ints strides:ints"

const struct tmk_op tmk_ops_pool[] = {
    {TMK_OP_ONNX("MaxPool", 1, 7), TMK_OP_COUNTS(1, 1, 1, 1), .channel = TMK_CHANNEL_AXIS1,
     .attrs = TMK_POOL_ATTRS, .infer = infer_max_pool, .run = run_max_pool,
     .cost = tmk_cost_window},
    {TMK_OP_ONNX("MaxPool", 8, 9), TMK_OP_COUNTS(1, 1, 1, 2), .channel = TMK_CHANNEL_AXIS1,
     .attrs = TMK_POOL_ATTRS " storage_order:int", .infer = infer_max_pool, .run = run_max_pool,
     .cost = tmk_cost_window},
    {TMK_OP_ONNX("MaxPool", 10, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 2), .channel = TMK_CHANNEL_AXIS1,
     .attrs = TMK_POOL_ATTRS " storage_order:int ceil_mode:int dilations:ints",
     .infer = infer_max_pool, .run = run_max_pool, .cost = tmk_cost_window},
    {TMK_OP_ONNX("AveragePool", 1, 6), TMK_OP_COUNTS(1, 1, 1, 1), .channel = TMK_CHANNEL_AXIS1,
     .attrs = TMK_POOL_ATTRS, .infer = infer_average_pool, .run = run_average_pool,
     .cost = tmk_cost_window},
    {TMK_OP_ONNX("AveragePool", 7, 9), TMK_OP_COUNTS(1, 1, 1, 1), .channel = TMK_CHANNEL_AXIS1,
     .attrs = TMK_POOL_ATTRS " count_include_pad:int", .infer = infer_average_pool,
     .run = run_average_pool, .cost = tmk_cost_window},
    {TMK_OP_ONNX("AveragePool", 10, 18), TMK_OP_COUNTS(1, 1, 1, 1), .channel = TMK_CHANNEL_AXIS1,
     .attrs = TMK_POOL_ATTRS " count_include_pad:int ceil_mode:int", .infer = infer_average_pool,
     .run = run_average_pool, .cost = tmk_cost_window},
    {TMK_OP_ONNX("AveragePool", 19, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .channel = TMK_CHANNEL_AXIS1,
     .attrs = TMK_POOL_ATTRS " count_include_pad:int ceil_mode:int dilations:ints",
     .infer = infer_average_pool, .run = run_average_pool, .cost = tmk_cost_window},
    {TMK_OP_ONNX("LpPool", 1, 1), TMK_OP_COUNTS(1, 1, 1, 1), .channel = TMK_CHANNEL_AXIS1,
     .attrs = TMK_POOL_ATTRS " p:float", .infer = infer_lp_pool, .run = run_lp_pool,
     .cost = tmk_cost_window},
    {TMK_OP_ONNX("LpPool", 2, 17), TMK_OP_COUNTS(1, 1, 1, 1), .channel = TMK_CHANNEL_AXIS1,
     .attrs = TMK_POOL_ATTRS " p:int", .infer = infer_lp_pool, .run = run_lp_pool,
     .cost = tmk_cost_window},
    {TMK_OP_ONNX("LpPool", 18, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .channel = TMK_CHANNEL_AXIS1,
     .attrs = TMK_POOL_ATTRS " ceil_mode:int dilations:ints p:int", .infer = infer_lp_pool,
     .run = run_lp_pool, .cost = tmk_cost_window},
    {NULL}};
