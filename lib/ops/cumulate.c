/* SPDX-License-Identifier: Apache-2.0 */
/* CumSum and CumProd: running sums and products along an axis that comes as an input. Integers
 * wrap. Floats are summed in double, but multiplied in float32, so that a product that overflows on
 * the way stays infinite. */

#include "ops/elementwise.h"

/* One slice [n, inner]; `so_far` has space for `inner` elements of 8 bytes. */
typedef void (*cumulate_slice)(size_t n, size_t inner, bool exclusive, bool reverse, const void *x,
                               void *y, void *so_far);

#define CUMULATE(name, T, S, first, op)                                                            \
    static void name(size_t n, size_t inner, bool exclusive, bool reverse, const void *px,         \
                     void *py, void *so_far) {                                                     \
        S *held = so_far;                                                                          \
        for (size_t j = 0; j < inner; j++)                                                         \
            held[j] = first;                                                                       \
        for (size_t k = 0; k < n; k++) {                                                           \
            size_t at = (reverse ? n - 1 - k : k) * inner;                                         \
            const T *x = (const T *)px + at;                                                       \
            T *y = (T *)py + at;                                                                   \
            for (size_t j = 0; j < inner; j++) {                                                   \
                S before = held[j];                                                                \
                held[j] = before op(S) x[j];                                                       \
                y[j] = (T)(exclusive ? before : held[j]);                                          \
            }                                                                                      \
        }                                                                                          \
    }
CUMULATE(sum_FLOAT32, float, double, 0, +)
CUMULATE(sum_INT32, int32_t, uint32_t, 0, +)
CUMULATE(sum_UINT32, uint32_t, uint32_t, 0, +)
CUMULATE(sum_INT64, int64_t, uint64_t, 0, +)
CUMULATE(sum_UINT64, uint64_t, uint64_t, 0, +)
CUMULATE(product_FLOAT32, float, float, 1, *)
CUMULATE(product_INT32, int32_t, uint32_t, 1, *)
CUMULATE(product_UINT32, uint32_t, uint32_t, 1, *)
CUMULATE(product_INT64, int64_t, uint64_t, 1, *)
CUMULATE(product_UINT64, uint64_t, uint64_t, 1, *)

static const cumulate_slice sums[TMK_DTYPES] = {
    [TMK_FLOAT32] = sum_FLOAT32, [TMK_INT32] = sum_INT32,   [TMK_UINT32] = sum_UINT32,
    [TMK_INT64] = sum_INT64,     [TMK_UINT64] = sum_UINT64,
};
static const cumulate_slice products[TMK_DTYPES] = {
    [TMK_FLOAT32] = product_FLOAT32, [TMK_INT32] = product_INT32,   [TMK_UINT32] = product_UINT32,
    [TMK_INT64] = product_INT64,     [TMK_UINT64] = product_UINT64,
};

static enum tmk_status read_axis(const struct tmk_tensor *axis, int32_t rank, int32_t *out,
                                 struct tmk_diag *diag) {
    int64_t value = 0;
    TMK_TRY(tmk_read_int(axis, "input 'axis'", &value, diag));
    return tmk_axis(value, rank, out, diag);
}

static enum tmk_status cumulate_infer(struct tmk_infer *infer) {
    int32_t axis;
    TMK_WANT_ENTRY(sums, infer->in[0], "input 'x'", infer->diag);
    if (infer->in[1]->data)
        TMK_TRY(read_axis(infer->in[1], infer->in[0]->shape.rank, &axis, infer->diag));
    return tmk_infer_same(infer);
}

static enum tmk_status cumulate_run(struct tmk_run *run) {
    const cumulate_slice *slices = run->node->row->table;
    const struct tmk_tensor *x = run->in[0];
    struct tmk_tensor *y = tmk_run_out(run, 0);
    bool exclusive = tmk_node_int(run->node, "exclusive", 0) != 0,
         reverse = tmk_node_int(run->node, "reverse", 0) != 0;
    int32_t axis = 0;
    size_t size = tmk_dtype_size(x->dtype);
    TMK_TRY(read_axis(run->in[1], x->shape.rank, &axis, run->diag));
    if (tmk_tensor_count(y) == 0)
        return TMK_OK;
    size_t outer = tmk_shape_product(&x->shape, 0, axis), n = (size_t)x->shape.dim[axis],
           inner = tmk_shape_product(&x->shape, axis + 1, x->shape.rank);
    void *so_far = tmk_scratch(run, inner, sizeof(uint64_t));
    TMK_TRY_ALLOC(so_far, run->diag);
    for (size_t i = 0; i < outer; i++) {
        size_t at = i * n * inner * size;
        slices[x->dtype](n, inner, exclusive, reverse, (const char *)x->data + at,
                         (char *)y->data + at, so_far);
    }
    return TMK_OK;
}

static const char attrs[] = "exclusive:int reverse:int";

const struct tmk_op tmk_ops_cumulate[] = {
    {TMK_OP_ONNX("CumSum", 11, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1), .flags = TMK_OP_CHECKS,
     .channel = TMK_CHANNEL_INHERIT, .attrs = attrs, .infer = cumulate_infer, .table = sums,
     .run = cumulate_run},
    {TMK_OP_ONNX("CumProd", 26, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1), .flags = TMK_OP_CHECKS,
     .channel = TMK_CHANNEL_INHERIT, .attrs = attrs, .infer = cumulate_infer, .table = products,
     .run = cumulate_run},
    {NULL}};
