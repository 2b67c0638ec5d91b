/* SPDX-License-Identifier: Apache-2.0 */
/* The Reduce family. Every result has one accumulator: a double for floats, 64 bits that wrap for
 * integers. The input is walked once in the order of memory, in rows that either fold into one
 * accumulator or lie over as many. */
#include <math.h>

#include "ops/elementwise.h"
#include "ops/functions.h"
#include "ops/vmath.h"

/* Folds n elements into acc[0], or (spread) into acc[0..n). shift is as acc. */
typedef void (*fold_fn)(size_t n, const void *x, bool spread, void *acc, const double *shift);

/* Eight partial results of type L, always joined in the same order: fast, and the same bits each
 * time. */
enum { LANES = 8 };

#define FOLD(name, T, A, L, start, map, join)                                                      \
    static void name(size_t n, const void *px, bool spread, void *pacc, const double *shift) {     \
        const T *x = px;                                                                           \
        A *acc = pacc;                                                                             \
        (void)shift;                                                                               \
        if (spread) {                                                                              \
            for (size_t i = 0; i < n; i++)                                                         \
                acc[i] = join(acc[i], map(A, x[i]));                                               \
            return;                                                                                \
        }                                                                                          \
        size_t i = 0;                                                                              \
        if (n >= LANES) {                                                                          \
            L lane[LANES];                                                                         \
            for (size_t j = 0; j < LANES; j++)                                                     \
                lane[j] = (start);                                                                 \
            for (; i + LANES <= n; i += LANES)                                                     \
                for (size_t j = 0; j < LANES; j++)                                                 \
                    lane[j] = join(lane[j], map(L, x[i + j]));                                     \
            for (size_t j = 0; j < LANES; j++)                                                     \
                acc[0] = join(acc[0], (A)lane[j]);                                                 \
        }                                                                                          \
        for (; i < n; i++)                                                                         \
            acc[0] = join(acc[0], map(A, x[i]));                                                   \
    }

#define SAME(A, v) ((A)(v))
#define SQUARE(A, v) ((A)(v) * (A)(v))
#define MAGNITUDE_FLOAT(A, v) ((A)fabsf(v))
#define MAGNITUDE_SIGNED(A, v) ((v) < 0 ? (A)0 - (A)(v) : (A)(v))
#define PLUS(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
/* NaN passes */
#define HIGHER(a, b) ((((b) > (a)) | ((b) != (b))) ? (b) : (a))
#define LOWER(a, b) ((((b) < (a)) | ((b) != (b))) ? (b) : (a))

/* X(dtype, T, A, lowest, highest): the types of most reductions, and those that Max and Min take
 * besides */
#define EACH_INTEGER(X)                                                                            \
    X(INT32, int32_t, int64_t, INT32_MIN, INT32_MAX)                                               \
    X(INT64, int64_t, int64_t, INT64_MIN, INT64_MAX)                                               \
    X(UINT32, uint32_t, uint64_t, 0, UINT32_MAX)                                                   \
    X(UINT64, uint64_t, uint64_t, 0, UINT64_MAX)
#define EACH_SMALL(X)                                                                              \
    X(INT8, int8_t, int64_t, INT8_MIN, INT8_MAX)                                                   \
    X(UINT8, uint8_t, uint64_t, 0, UINT8_MAX)                                                      \
    X(BOOL, uint8_t, uint64_t, 0, 1)

FOLD(sum_short, float, double, double, 0.0, SAME, PLUS)
FOLD(highest_short, float, double, float, -INFINITY, SAME, HIGHER)
FOLD(magnitudes_FLOAT32, float, double, double, 0.0, MAGNITUDE_FLOAT, PLUS)
FOLD(squares_FLOAT32, float, double, double, 0.0, SQUARE, PLUS)
FOLD(product_FLOAT32, float, double, double, 1.0, SAME, TIMES)
#define SUMS(dtype, T, A, lowest, highest)                                                         \
    FOLD(sum_##dtype, T, uint64_t, uint64_t, 0, SAME, PLUS)                                        \
    FOLD(squares_##dtype, T, uint64_t, uint64_t, 0, SQUARE, PLUS)                                  \
    FOLD(product_##dtype, T, uint64_t, uint64_t, 1, SAME, TIMES)
EACH_INTEGER(SUMS)
FOLD(magnitudes_INT32, int32_t, uint64_t, uint64_t, 0, MAGNITUDE_SIGNED, PLUS)
FOLD(magnitudes_INT64, int64_t, uint64_t, uint64_t, 0, MAGNITUDE_SIGNED, PLUS)

FOLD(lowest_FLOAT32, float, double, float, INFINITY, SAME, LOWER)
#define EXTREMES(dtype, T, A, lowest, highest)                                                     \
    FOLD(highest_##dtype, T, A, T, lowest, SAME, HIGHER)                                           \
    FOLD(lowest_##dtype, T, A, T, highest, SAME, LOWER)
EACH_INTEGER(EXTREMES)
EACH_SMALL(EXTREMES)

/* Long rows of floats: means and maxima, of which pooling and normalisation are made. */
#define LONG_ROWS(kind, vector, join)                                                              \
    static void kind##_FLOAT32(size_t n, const void *x, bool spread, void *pacc,                   \
                               const double *shift) {                                              \
        double *acc = pacc;                                                                        \
        if (spread || n < 4 * LANES) {                                                             \
            kind##_short(n, x, spread, pacc, shift);                                               \
        } else {                                                                                   \
            double v = (double)vector(x, n);                                                       \
            acc[0] = join(acc[0], v);                                                              \
        }                                                                                          \
    }
LONG_ROWS(sum, tmk_vsum, PLUS)
LONG_ROWS(highest, tmk_vmax, HIGHER)

/* For LogSumExp: the largest as a double, then the sum of e^(x - shift). */
#define EXPONENTIALS(dtype, T, A, lowest, highest)                                                 \
    FOLD(shift_##dtype, T, double, double, -(double)INFINITY, SAME, HIGHER)                        \
    static void exponentials_##dtype(size_t n, const void *px, bool spread, void *pacc,            \
                                     const double *shift) {                                        \
        const T *x = px;                                                                           \
        double *acc = pacc;                                                                        \
        for (size_t i = 0; i < n; i++) {                                                           \
            size_t k = spread ? i : 0;                                                             \
            acc[k] += (double)tmk_expf((float)((double)x[i] - shift[k]));                          \
        }                                                                                          \
    }
EXPONENTIALS(FLOAT32, float, double, , )
EACH_INTEGER(EXPONENTIALS)

enum ending { PLAIN, MEAN, ROOT, LOG, LOG_SHIFTED };

struct reduction {
    fold_fn fold[TMK_DTYPES];
    enum ending ending;
    enum { FROM_ZERO, FROM_ONE, FROM_LOWEST, FROM_HIGHEST } start;
};

#define ENTRIES(fold)                                                                              \
    [TMK_FLOAT32] = fold##_FLOAT32, [TMK_INT32] = fold##_INT32, [TMK_INT64] = fold##_INT64,        \
    [TMK_UINT32] = fold##_UINT32, [TMK_UINT64] = fold##_UINT64
#define MORE_ENTRIES(fold)                                                                         \
    [TMK_INT8] = fold##_INT8, [TMK_UINT8] = fold##_UINT8, [TMK_BOOL] = fold##_BOOL

#define magnitudes_UINT32 sum_UINT32
#define magnitudes_UINT64 sum_UINT64
static const struct reduction sum = {{ENTRIES(sum)}, PLAIN, FROM_ZERO};
static const struct reduction mean = {{ENTRIES(sum)}, MEAN, FROM_ZERO};
static const struct reduction log_sum = {{ENTRIES(sum)}, LOG, FROM_ZERO};
static const struct reduction norm_1 = {{ENTRIES(magnitudes)}, PLAIN, FROM_ZERO};
static const struct reduction norm_2 = {{ENTRIES(squares)}, ROOT, FROM_ZERO};
static const struct reduction sum_square = {{ENTRIES(squares)}, PLAIN, FROM_ZERO};
static const struct reduction product = {{ENTRIES(product)}, PLAIN, FROM_ONE};
static const struct reduction maximum = {
    {ENTRIES(highest), MORE_ENTRIES(highest)}, PLAIN, FROM_LOWEST};
static const struct reduction minimum = {
    {ENTRIES(lowest), MORE_ENTRIES(lowest)}, PLAIN, FROM_HIGHEST};
static const struct reduction log_sum_exp = {{ENTRIES(exponentials)}, LOG_SHIFTED, FROM_ZERO};
static const fold_fn shifts[TMK_DTYPES] = {ENTRIES(shift)};

/* ---- before and after the fold ---- */

union cell {
    double d;
    int64_t i;
    uint64_t u;
};

/* What a reduction of nothing gives: for Max the lowest value of the type, and so on. */
static union cell first_value(const struct reduction *r, enum tmk_dtype dtype) {
    bool low = r->start == FROM_LOWEST;
    if (r->start == FROM_ZERO || r->start == FROM_ONE) {
        if (dtype == TMK_FLOAT32)
            return (union cell){.d = r->start == FROM_ONE};
        return (union cell){.u = r->start == FROM_ONE};
    }
    switch (dtype) {
#define LIMITS(type, T, A, lowest, highest)                                                        \
    case TMK_##type:                                                                               \
        return (union cell){.u = low ? (uint64_t)(lowest) : (uint64_t)(highest)};
        EACH_INTEGER(LIMITS)
        EACH_SMALL(LIMITS)
    default:
        return (union cell){.d = low ? -(double)INFINITY : (double)INFINITY};
    }
}

static double finish_float(enum ending ending, double acc, double count, double shift) {
    switch (ending) {
    case MEAN:
        return acc / count;
    case ROOT:
        return sqrt(acc);
    case LOG:
        return log(acc);
    case LOG_SHIFTED:
        return log(acc) + shift;
    case PLAIN:
        break;
    }
    return acc;
}

#define FINISH(dtype, T, A, to_integer)                                                            \
    static void finish_##dtype(enum ending ending, size_t n, const union cell *acc, size_t count,  \
                               const double *shift, void *py) {                                    \
        T *y = py;                                                                                 \
        for (size_t i = 0; i < n; i++)                                                             \
            if (ending == PLAIN)                                                                   \
                y[i] = (T)acc[i].u;                                                                \
            else if (ending == MEAN)                                                               \
                y[i] = (T)((A)acc[i].u / (A)count);                                                \
            else if (ending == LOG_SHIFTED)                                                        \
                y[i] = to_integer(finish_float(ending, acc[i].d, 0, shift[i]));                    \
            else                                                                                   \
                y[i] = to_integer(finish_float(ending, (double)(A)acc[i].u, 0, 0));                \
    }
FINISH(INT32, int32_t, int64_t, tmk_to_int32)
FINISH(INT64, int64_t, int64_t, tmk_to_int64)
FINISH(UINT32, uint32_t, uint64_t, tmk_to_uint32)
FINISH(UINT64, uint64_t, uint64_t, tmk_to_uint64)

static void finish_cells(const struct reduction *r, size_t n, const union cell *acc, size_t count,
                         const double *shift, struct tmk_tensor *out) {
    switch (out->dtype) {
    case TMK_FLOAT32:
        for (size_t i = 0; i < n; i++)
            ((float *)out->data)[i] =
                (float)finish_float(r->ending, acc[i].d, (double)count, shift ? shift[i] : 0);
        break;
    case TMK_INT32:
        finish_INT32(r->ending, n, acc, count, shift, out->data);
        break;
    case TMK_INT64:
        finish_INT64(r->ending, n, acc, count, shift, out->data);
        break;
    case TMK_UINT32:
        finish_UINT32(r->ending, n, acc, count, shift, out->data);
        break;
    case TMK_UINT64:
        finish_UINT64(r->ending, n, acc, count, shift, out->data);
        break;
    default: /* one byte */
        for (size_t i = 0; i < n; i++)
            ((uint8_t *)out->data)[i] = (uint8_t)acc[i].u;
    }
}

/* ---- shapes ---- */

/* Which axes go. *known stays false when the axes are an input without data. */
static enum tmk_status read_axes(const struct tmk_node *node, const struct tmk_shape *shape,
                                 const struct tmk_tensor *input, bool reduced[TMK_MAX_RANK],
                                 bool *known, struct tmk_diag *diag) {
    int64_t read[TMK_MAX_RANK];
    size_t n = 0;
    const int64_t *axes = tmk_node_ints(node, "axes", &n);
    bool noop = false;
    if (node->row->max_in == 2) {
        noop = tmk_node_int(node, "noop_with_empty_axes", 0) != 0;
        axes = read;
        n = 0;
        if (input && !input->data)
            return tmk_want_dtype(input, TMK_INT64, "input 1, the axes,", diag);
        if (input)
            TMK_TRY(
                tmk_read_ints(input, "input 1, the axes,", (size_t)shape->rank, read, &n, diag));
    }
    for (int32_t i = 0; i < shape->rank; i++)
        reduced[i] = n == 0 && !noop;
    for (size_t i = 0; i < n; i++) {
        int32_t axis = 0;
        TMK_TRY(tmk_axis(axes[i], shape->rank, &axis, diag));
        if (reduced[axis])
            return tmk_fail(diag, TMK_RANGE, "axis %d is named twice", axis);
        reduced[axis] = true;
    }
    *known = true;
    return TMK_OK;
}

/* The result's shape, with and without the reduced axes as 1. */
static void shapes_of(const struct tmk_node *node, const struct tmk_shape *x,
                      const bool reduced[TMK_MAX_RANK], struct tmk_shape *kept,
                      struct tmk_shape *out) {
    *kept = *x;
    struct tmk_shape squeezed = {0};
    for (int32_t i = 0; i < x->rank; i++)
        if (reduced[i])
            kept->dim[i] = 1;
        else
            squeezed.dim[squeezed.rank++] = x->dim[i];
    *out = tmk_node_int(node, "keepdims", 1) ? *kept : squeezed;
}

static enum tmk_status infer_reduction(struct tmk_infer *infer) {
    const struct reduction *r = infer->node->row->table;
    const struct tmk_tensor *x = infer->in[0];
    bool reduced[TMK_MAX_RANK] = {false}, known = false;
    struct tmk_shape kept, out;
    size_t n_in, n_out;
    TMK_WANT_ENTRY(r->fold, x, "input 0", infer->diag);
    TMK_TRY(
        read_axes(infer->node, &x->shape, tmk_infer_in(infer, 1), reduced, &known, infer->diag));
    if (!known)
        return TMK_OK;
    shapes_of(infer->node, &x->shape, reduced, &kept, &out);
    if (r->ending == MEAN && x->dtype != TMK_FLOAT32 && tmk_shape_count(&x->shape, &n_in) &&
        tmk_shape_count(&out, &n_out) && n_in == 0 && n_out > 0)
        return tmk_fail(infer->diag, TMK_SHAPE, "no integer is the mean of no elements");
    return tmk_infer_set(infer, 0, x->dtype, &out);
}

/* ---- running ---- */

static void fold_all(fold_fn fold, const struct tmk_tensor *x, const struct tmk_shape *kept,
                     union cell *acc, const double *shift) {
    size_t size = tmk_dtype_size(x->dtype);
    struct tmk_walk w;
    tmk_walk_init(&w, &x->shape, 1, (const struct tmk_shape *const[]){kept});
    for (; w.rows; tmk_walk_next(&w))
        fold(w.n, (const char *)x->data + w.start * size, w.vary[0], acc + w.offset[0],
             shift ? shift + w.offset[0] : NULL);
}

/* Nothing to take off where the largest is infinite: e^-inf is 0, e^inf is inf as they stand. */
static void find_shifts(const struct tmk_tensor *x, const struct tmk_shape *kept, size_t n,
                        double *shift) {
    for (size_t i = 0; i < n; i++)
        shift[i] = -(double)INFINITY;
    fold_all(shifts[x->dtype], x, kept, (union cell *)shift, NULL);
    for (size_t i = 0; i < n; i++)
        if (isinf(shift[i]))
            shift[i] = 0;
}

static enum tmk_status run_reduction(struct tmk_run *run) {
    const struct reduction *r = run->node->row->table;
    const struct tmk_tensor *x = run->in[0];
    bool reduced[TMK_MAX_RANK] = {false}, known = false;
    struct tmk_shape kept, shape;
    double *shift = NULL;
    TMK_TRY(read_axes(run->node, &x->shape, tmk_run_in(run, 1), reduced, &known, run->diag));
    shapes_of(run->node, &x->shape, reduced, &kept, &shape);
    struct tmk_tensor *out = tmk_run_out(run, 0);
    if (!out->data)
        TMK_TRY(tmk_run_alloc(run, 0, x->dtype, &shape));
    size_t n = tmk_tensor_count(out);
    if (n == 0)
        return TMK_OK;
    union cell *acc = tmk_scratch(run, n, sizeof(union cell)), first = first_value(r, x->dtype);
    if (r->ending == LOG_SHIFTED)
        shift = tmk_scratch(run, n, sizeof *shift);
    if (!acc || (r->ending == LOG_SHIFTED && !shift))
        return tmk_nomem(run->diag);
    if (shift)
        find_shifts(x, &kept, n, shift);
    for (size_t i = 0; i < n; i++)
        acc[i] = first;
    fold_all(r->fold[x->dtype], x, &kept, acc, shift);
    finish_cells(r, n, acc, tmk_tensor_count(x) / n, shift, out);
    return TMK_OK;
}

/* ---- rows: the axes are an attribute, and then (ReduceSum from operator set 13, the others from
 * 18) an input ---- */

#define REDUCTION(name_, since_, until_, max_in_, attrs_, table_)                                  \
    {                                                                                              \
        TMK_OP_ONNX(name_, since_, until_), TMK_OP_COUNTS(1, max_in_, 1, 1),                       \
            .attrs = attrs_, .table = table_, .infer = infer_reduction, .run = run_reduction       \
    }
#define REDUCTIONS(name_, table_, since_)                                                          \
    REDUCTION(name_, 1, since_ - 1, 1, "axes:ints keepdims:int", table_),                          \
        REDUCTION(name_, since_, INT32_MAX, 2, "keepdims:int noop_with_empty_axes:int", table_)

/* ArgMax and ArgMin: where along an axis the largest or smallest element is. As in NumPy a NaN wins
 * over any number; among equals the first wins, or the last with select_last_index. */

/* One slice [n, inner], n > 0: at[j] becomes the winner's index. */
typedef void (*arg_slice)(size_t n, size_t inner, bool last, const void *x, int64_t *at);

#define ARG(op, dtype, T, U)                                                                       \
    static void arg_##op##_##dtype(size_t n, size_t inner, bool last, const void *px,              \
                                   int64_t *at) {                                                  \
        const T *x = px;                                                                           \
        for (size_t j = 0; j < inner; j++)                                                         \
            at[j] = 0;                                                                             \
        for (size_t k = 1; k < n; k++)                                                             \
            for (size_t j = 0; j < inner; j++) {                                                   \
                const T v = x[k * inner + j], best = x[(size_t)at[j] * inner + j];                 \
                if (op(v, best) || (last && (v == best || (v != v && best != best))))              \
                    at[j] = (int64_t)k;                                                            \
            }                                                                                      \
    }                                                                                              \
    /* the common case, whose best element stays in a register */                                  \
    static void row_##op##_##dtype(size_t n, size_t inner, bool last, const void *px,              \
                                   int64_t *at) {                                                  \
        const T *x = px;                                                                           \
        if (inner != 1) {                                                                          \
            arg_##op##_##dtype(n, inner, last, px, at);                                            \
            return;                                                                                \
        }                                                                                          \
        T best = x[0];                                                                             \
        size_t where = 0;                                                                          \
        for (size_t k = 1; k < n; k++)                                                             \
            if (op(x[k], best) || (last && (x[k] == best || (x[k] != x[k] && best != best)))) {    \
                best = x[k];                                                                       \
                where = k;                                                                         \
            }                                                                                      \
        *at = (int64_t)where;                                                                      \
    }
#define MAX(v, best) ((v) > (best) || ((v) != (v) && (best) == (best)))
#define MIN(v, best) ((v) < (best) || ((v) != (v) && (best) == (best)))
TMK_EACH_NUMBER(ARG, MAX)
TMK_EACH_NUMBER(ARG, MIN)

static const arg_slice max_slices[TMK_DTYPES] = {TMK_EACH_NUMBER(TMK_ROW_ENTRY, MAX)};
static const arg_slice min_slices[TMK_DTYPES] = {TMK_EACH_NUMBER(TMK_ROW_ENTRY, MIN)};

/* A scalar counts as a row of one element. */
static enum tmk_status arg_axis(const struct tmk_node *node, const struct tmk_shape *shape,
                                int32_t *axis, struct tmk_diag *diag) {
    return tmk_axis(tmk_node_int(node, "axis", 0), shape->rank ? shape->rank : 1, axis, diag);
}

static enum tmk_status infer_arg(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[0];
    bool keep = tmk_node_int(infer->node, "keepdims", 1) != 0;
    struct tmk_shape shape = {0};
    size_t count;
    int32_t axis = 0;
    TMK_WANT_ENTRY(max_slices, x, "input 0", infer->diag);
    TMK_TRY(arg_axis(infer->node, &x->shape, &axis, infer->diag));
    for (int32_t i = 0; i < x->shape.rank; i++)
        if (i != axis)
            shape.dim[shape.rank++] = x->shape.dim[i];
        else if (keep)
            shape.dim[shape.rank++] = 1;
    if (x->shape.rank && x->shape.dim[axis] == 0 && tmk_shape_count(&shape, &count) && count)
        return tmk_fail(infer->diag, TMK_SHAPE, "axis %d has no element to choose", axis);
    return tmk_infer_set(infer, 0, TMK_INT64, &shape);
}

static enum tmk_status run_arg(struct tmk_run *run) {
    const arg_slice *slices = run->node->row->table;
    const struct tmk_tensor *x = run->in[0];
    struct tmk_tensor *y = tmk_run_out(run, 0);
    bool last = tmk_node_int(run->node, "select_last_index", 0) != 0;
    int32_t axis = 0, rank = x->shape.rank;
    TMK_TRY(arg_axis(run->node, &x->shape, &axis, run->diag));
    size_t outer = tmk_shape_product(&x->shape, 0, axis), n = rank ? (size_t)x->shape.dim[axis] : 1,
           inner = tmk_shape_product(&x->shape, axis + 1, rank), size = tmk_dtype_size(x->dtype);
    for (size_t i = 0; i < outer; i++)
        slices[x->dtype](n, inner, last, (const char *)x->data + i * n * inner * size,
                         (int64_t *)y->data + i * inner);
    return TMK_OK;
}

static const char arg_attrs[] = "axis:int keepdims:int select_last_index:int";

const struct tmk_op tmk_ops_reduce[] = {
    REDUCTIONS("ReduceSum", &sum, 13),
    REDUCTIONS("ReduceMean", &mean, 18),
    REDUCTIONS("ReduceMax", &maximum, 18),
    REDUCTIONS("ReduceMin", &minimum, 18),
    REDUCTIONS("ReduceProd", &product, 18),
    REDUCTIONS("ReduceL1", &norm_1, 18),
    REDUCTIONS("ReduceL2", &norm_2, 18),
    REDUCTIONS("ReduceLogSum", &log_sum, 18),
    REDUCTIONS("ReduceLogSumExp", &log_sum_exp, 18),
    REDUCTIONS("ReduceSumSquare", &sum_square, 18),
    {TMK_OP_ONNX("ArgMax", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .attrs = arg_attrs,
     .table = max_slices, .infer = infer_arg, .run = run_arg},
    {TMK_OP_ONNX("ArgMin", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .attrs = arg_attrs,
     .table = min_slices, .infer = infer_arg, .run = run_arg},
    {NULL}};
