/* SPDX-License-Identifier: Apache-2.0 */
/* Pools over windows and over all spatial axes, and MaxUnpool. */
#include "ops/pool.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "ops/cost.h"
#include "ops/kernel.h"
#include "ops/move.h"
#include "ops/sums.h"
#include "ops/window.h"

/* Pools over windows of one to three spatial axes: MaxPool, AveragePool, LpPool.
 *
 * Padding is never looked at: each window is cut to the taps inside the input. A window with none
 * there (dilation can do that) gives the lowest finite number in MaxPool, with index -1, and 0
 * otherwise, as ONNX Runtime has it. NaN counts as the largest number, as in NumPy. */

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
        TMK_TRY_ALLOC(span, run->diag);
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
    tmk_infer_put(infer, 0, x->dtype, &shape);
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

#define TMK_POOL_ATTRS "auto_pad:string kernel_shape:ints! pads:ints strides:ints"

/* Pools over all spatial axes: GlobalAveragePool, GlobalMaxPool, GlobalLpPool. */

static enum tmk_status infer_global(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[0];
    struct tmk_shape shape = x->shape;
    TMK_TRY(tmk_want_dtype(x, TMK_FLOAT32, "X", infer->diag));
    TMK_TRY(tmk_want_rank(&shape, 2, infer->diag));
    for (int32_t i = 2; i < shape.rank; i++)
        shape.dim[i] = 1;
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &shape);
}

static float mean_of(const float *x, size_t n, double p) {
    (void)p;
    return (float)(tmk_sum(x, n) / (double)n);
}

/* NaN counts as the largest; the lowest finite number where there is nothing. */
static float max_of(const float *x, size_t n, double p) {
    float best = n ? x[0] : -FLT_MAX;
    (void)p;
    for (size_t i = 1; i < n; i++)
        if (!(x[i] <= best) && !isnan(best))
            best = x[i];
    return best;
}

static float norm_of(const float *x, size_t n, double p) {
    double sum = 0;
    if (p == 2)
        return (float)sqrt(tmk_sum_squares(x, n));
    for (size_t i = 0; i < n; i++)
        sum += p == 1 ? fabs((double)x[i]) : pow(fabs((double)x[i]), p);
    return (float)(p == 1 ? sum : pow(sum, 1 / p));
}

static enum tmk_status each_plane(struct tmk_run *run,
                                  float (*reduce)(const float *, size_t, double), double p) {
    const struct tmk_shape *shape = &run->in[0]->shape;
    size_t planes = tmk_shape_product(shape, 0, 2), area = tmk_shape_product(shape, 2, shape->rank);
    const float *x = run->in[0]->data;
    float *y = run->out[0]->data;
    for (size_t i = 0; i < planes; i++)
        y[i] = reduce(x + i * area, area, p);
    return TMK_OK;
}

static enum tmk_status run_average(struct tmk_run *run) {
    return each_plane(run, mean_of, 1);
}

static enum tmk_status run_max(struct tmk_run *run) {
    return each_plane(run, max_of, 1);
}

static enum tmk_status infer_lp(struct tmk_infer *infer) {
    double p = exponent_of(infer->node);
    if (!(p > 0) || !isfinite(p))
        return tmk_fail(infer->diag, TMK_RANGE, "attribute 'p' is %g", p);
    return infer_global(infer);
}

static enum tmk_status run_lp(struct tmk_run *run) {
    return each_plane(run, norm_of, exponent_of(run->node));
}

/* MaxUnpool: puts each element at the position in MaxPool's second output; zeros elsewhere.
 *
 * Indices count the elements of the result, of a given output shape too, as ONNX Runtime has it: so
 * what a pool has taken from an input of any size comes back to its place. (The reference of the
 * onnx package counts in the shape without output_shape, and lays that into the corner.) Where two
 * indices are equal the later element stays. */

/* `n` integers of attribute `name`, `otherwise` where it is absent. */
static enum tmk_status read_attr(const struct tmk_node *node, const char *name, size_t n,
                                 int64_t min, int64_t otherwise, int64_t *out,
                                 struct tmk_diag *diag) {
    size_t given;
    const int64_t *values = tmk_node_ints(node, name, &given);
    if (given && given != n)
        return tmk_fail(diag, TMK_GRAPH, "attribute '%s' has %zu elements instead of %zu", name,
                        given, n);
    for (size_t i = 0; i < n; i++) {
        out[i] = given ? values[i] : otherwise;
        if (out[i] < min || out[i] > INT32_MAX)
            return tmk_fail(diag, TMK_RANGE, "attribute '%s' holds %lld", name, (long long)out[i]);
    }
    return TMK_OK;
}

/* The output's shape without output_shape. */
static enum tmk_status unpooled_shape(const struct tmk_node *node, const struct tmk_shape *x,
                                      struct tmk_shape *out, struct tmk_diag *diag) {
    int64_t kernel[TMK_MAX_RANK], stride[TMK_MAX_RANK], pads[2 * TMK_MAX_RANK];
    struct tmk_shape shape = *x;
    size_t n = (size_t)x->rank - 2;
    if (!tmk_node_ints(node, "kernel_shape", &(size_t){0}))
        return tmk_fail(diag, TMK_GRAPH, "attribute 'kernel_shape' is empty");
    TMK_TRY(read_attr(node, "kernel_shape", n, 1, 1, kernel, diag));
    TMK_TRY(read_attr(node, "strides", n, 1, 1, stride, diag));
    TMK_TRY(read_attr(node, "pads", 2 * n, 0, 0, pads, diag));
    for (size_t i = 0; i < n; i++) {
        int64_t *size = &shape.dim[i + 2];
        if (!tmk_mul_i64(*size - 1, stride[i], size) ||
            !tmk_add_i64(*size, kernel[i] - pads[i] - pads[n + i], size) || *size < 0)
            return tmk_fail(diag, TMK_SHAPE,
                            "%lld elements on spatial axis %zu cannot be unpooled with a window of "
                            "%lld, a stride of %lld and padding of %lld",
                            (long long)x->dim[i + 2], i, (long long)kernel[i], (long long)stride[i],
                            (long long)(pads[i] + pads[n + i]));
    }
    *out = shape;
    return TMK_OK;
}

static enum tmk_status infer_unpool(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[0], *indices = infer->in[1],
                            *wanted = tmk_infer_in(infer, 2);
    struct tmk_diag *diag = infer->diag;
    struct tmk_shape shape;
    TMK_TRY(tmk_want_dtype(x, TMK_FLOAT32, "the input", diag));
    TMK_TRY(tmk_want_dtype(indices, TMK_INT64, "the indices", diag));
    TMK_TRY(tmk_want_rank(&x->shape, 3, diag));
    if (!tmk_shape_equal(&x->shape, &indices->shape))
        return tmk_fail(diag, TMK_SHAPE, "indices of shape %s for an input of shape %s",
                        TMK_SHAPE_TEXT(&indices->shape), TMK_SHAPE_TEXT(&x->shape));
    TMK_TRY(unpooled_shape(infer->node, &x->shape, &shape, diag));
    if (wanted) {
        int64_t dim[TMK_MAX_RANK];
        size_t n;
        if (!wanted->data)
            return TMK_OK;
        TMK_TRY(tmk_read_ints(wanted, "input 'output_shape'", TMK_MAX_RANK, dim, &n, diag));
        bool fits = n == (size_t)x->shape.rank && dim[0] == shape.dim[0] && dim[1] == shape.dim[1];
        for (size_t i = 0; i < n && fits; i++)
            fits = dim[i] >= 0;
        if (!fits)
            return tmk_fail(diag, TMK_SHAPE,
                            "input 'output_shape' does not fit an input of shape %s",
                            TMK_SHAPE_TEXT(&x->shape));
        memcpy(shape.dim, dim, n * sizeof *dim);
    }
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &shape);
}

static enum tmk_status run_unpool(struct tmk_run *run) {
    const float *x = run->in[0]->data;
    struct tmk_tensor *y = tmk_run_out(run, 0);
    size_t count = tmk_tensor_count(y);
    if (count)
        memset(y->data, 0, tmk_tensor_bytes(y));
    for (size_t i = 0, n = tmk_tensor_count(run->in[0]); i < n; i++) {
        int64_t at = tmk_index_at(run->in[1], i);
        if (at < 0 || (uint64_t)at >= count)
            return tmk_fail(run->diag, TMK_RANGE,
                            "element %zu of the indices is %lld; the output has %zu elements", i,
                            (long long)at, count);
        ((float *)y->data)[at] = x[i];
    }
    return TMK_OK;
}

/* Over windows, which have a cost. */
#define WINDOW_POOL(name, since_, until_, outputs, attrs_, kind)                                   \
    {                                                                                              \
        TMK_OP_ONNX(name, since_, until_), TMK_OP_COUNTS(1, 1, 1, outputs),                        \
            .channel = TMK_CHANNEL_AXIS1, .attrs = TMK_POOL_ATTRS attrs_, .infer = infer_##kind,   \
            .run = run_##kind, .cost = tmk_cost_window                                             \
    }

const struct tmk_op tmk_ops_pool[] = {
    WINDOW_POOL("MaxPool", 1, 7, 1, "", max_pool),
    WINDOW_POOL("MaxPool", 8, 9, 2, " storage_order:int", max_pool),
    WINDOW_POOL("MaxPool", 10, INT32_MAX, 2, " storage_order:int ceil_mode:int dilations:ints",
                max_pool),
    WINDOW_POOL("AveragePool", 1, 6, 1, "", average_pool),
    WINDOW_POOL("AveragePool", 7, 9, 1, " count_include_pad:int", average_pool),
    WINDOW_POOL("AveragePool", 10, 18, 1, " count_include_pad:int ceil_mode:int", average_pool),
    WINDOW_POOL("AveragePool", 19, INT32_MAX, 1,
                " count_include_pad:int ceil_mode:int dilations:ints", average_pool),
    WINDOW_POOL("LpPool", 1, 1, 1, " p:float", lp_pool),
    WINDOW_POOL("LpPool", 2, 17, 1, " p:int", lp_pool),
    WINDOW_POOL("LpPool", 18, INT32_MAX, 1, " ceil_mode:int dilations:ints p:int", lp_pool),
    {TMK_OP_ONNX("GlobalAveragePool", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .channel = TMK_CHANNEL_AXIS1, .infer = infer_global, .run = run_average},
    {TMK_OP_ONNX("GlobalMaxPool", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .channel = TMK_CHANNEL_AXIS1, .infer = infer_global, .run = run_max},
    {TMK_OP_ONNX("GlobalLpPool", 1, 1), TMK_OP_COUNTS(1, 1, 1, 1), .channel = TMK_CHANNEL_AXIS1,
     .attrs = "p:float", .infer = infer_lp, .run = run_lp},
    {TMK_OP_ONNX("GlobalLpPool", 2, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .channel = TMK_CHANNEL_AXIS1, .attrs = "p:int", .infer = infer_lp, .run = run_lp},
    {TMK_OP_ONNX("MaxUnpool", 9, INT32_MAX), TMK_OP_COUNTS(2, 3, 1, 1), .flags = TMK_OP_CHECKS,
     .channel = TMK_CHANNEL_AXIS1, .attrs = "kernel_shape:ints! pads:ints strides:ints",
     .infer = infer_unpool, .run = run_unpool},
    {NULL}};
