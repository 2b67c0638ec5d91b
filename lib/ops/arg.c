/* SPDX-License-Identifier: Apache-2.0 */
/* ArgMax and ArgMin: where along an axis the largest or smallest element is. As in NumPy a NaN wins
 * over any number; among equals the first wins, or the last with select_last_index.
 */
#include "ops/elementwise.h"
#include "ops/rows.h"

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
    if (!y || !tmk_tensor_count(y))
        return TMK_OK;
    size_t outer = tmk_shape_product(&x->shape, 0, axis), n = rank ? (size_t)x->shape.dim[axis] : 1,
           inner = tmk_shape_product(&x->shape, axis + 1, rank), size = tmk_dtype_size(x->dtype);
    for (size_t i = 0; i < outer; i++)
        slices[x->dtype](n, inner, last, (const char *)x->data + i * n * inner * size,
                         (int64_t *)y->data + i * inner);
    return TMK_OK;
}

static const char attrs[] = "axis:int keepdims:int select_last_index:int";

const struct tmk_op tmk_ops_arg[] = {
    {TMK_OP_ONNX("ArgMax", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .attrs = attrs,
     .table = max_slices, .infer = infer_arg, .run = run_arg},
    {TMK_OP_ONNX("ArgMin", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .attrs = attrs,
     .table = min_slices, .infer = infer_arg, .run = run_arg},
    {NULL}};
