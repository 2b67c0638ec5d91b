/* SPDX-License-Identifier: Apache-2.0 */
/* CumProd: running products along an axis that comes as an input; floats are multiplied in float32,
 * so that a product that overflows on the way stays infinite; integers wrap. */
#include "ops/elementwise.h"
#include "ops/rows.h"

/* One slice [n, inner]; product has room for `inner` elements of 8 bytes. */
typedef void (*cumprod_slice)(size_t n, size_t inner, bool exclusive, bool reverse, const void *x,
                              void *y, void *product);

#define CUMPROD(dtype, T, P)                                                                       \
    static void cumprod_##dtype(size_t n, size_t inner, bool exclusive, bool reverse,              \
                                const void *px, void *py, void *pp) {                              \
        P *product = pp;                                                                           \
        for (size_t j = 0; j < inner; j++)                                                         \
            product[j] = 1;                                                                        \
        for (size_t k = 0; k < n; k++) {                                                           \
            size_t at = (reverse ? n - 1 - k : k) * inner;                                         \
            const T *x = (const T *)px + at;                                                       \
            T *y = (T *)py + at;                                                                   \
            for (size_t j = 0; j < inner; j++) {                                                   \
                P before = product[j];                                                             \
                product[j] = before * (P)x[j];                                                     \
                y[j] = (T)(exclusive ? before : product[j]);                                       \
            }                                                                                      \
        }                                                                                          \
    }
CUMPROD(FLOAT32, float, float)
CUMPROD(INT32, int32_t, uint32_t)
CUMPROD(UINT32, uint32_t, uint32_t)
CUMPROD(INT64, int64_t, uint64_t)
CUMPROD(UINT64, uint64_t, uint64_t)

static const cumprod_slice slices[TMK_DTYPES] = {
    [TMK_FLOAT32] = cumprod_FLOAT32, [TMK_INT32] = cumprod_INT32,   [TMK_UINT32] = cumprod_UINT32,
    [TMK_INT64] = cumprod_INT64,     [TMK_UINT64] = cumprod_UINT64,
};

static enum tmk_status read_axis(const struct tmk_tensor *axis, int32_t rank, int32_t *out,
                                 struct tmk_diag *diag) {
    int64_t value = 0;
    size_t n;
    TMK_TRY(tmk_read_ints(axis, "input 'axis'", 1, &value, &n, diag));
    if (n != 1)
        return tmk_fail(diag, TMK_SHAPE, "input 'axis' has no element");
    return tmk_axis(value, rank, out, diag);
}

static enum tmk_status infer_cumprod(struct tmk_infer *infer) {
    int32_t axis;
    TMK_WANT_ENTRY(slices, infer->in[0], "input 'x'", infer->diag);
    if (infer->in[1]->data)
        TMK_TRY(read_axis(infer->in[1], infer->in[0]->shape.rank, &axis, infer->diag));
    return tmk_infer_same(infer);
}

static enum tmk_status run_cumprod(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0];
    struct tmk_tensor *y = tmk_run_out(run, 0);
    bool exclusive = tmk_node_int(run->node, "exclusive", 0) != 0,
         reverse = tmk_node_int(run->node, "reverse", 0) != 0;
    int32_t axis = 0;
    size_t size = tmk_dtype_size(x->dtype), bytes;
    TMK_TRY(read_axis(run->in[1], x->shape.rank, &axis, run->diag));
    if (!y || !tmk_tensor_count(y))
        return TMK_OK;
    size_t outer = tmk_extent(&x->shape, 0, axis), n = (size_t)x->shape.dim[axis],
           inner = tmk_extent(&x->shape, axis + 1, x->shape.rank);
    if (!tmk_mul_size(inner, sizeof(uint64_t), &bytes))
        return tmk_nomem(run->diag);
    void *product = run->scratch(run->context, bytes);
    if (!product)
        return tmk_nomem(run->diag);
    for (size_t i = 0; i < outer; i++) {
        size_t at = i * n * inner * size;
        slices[x->dtype](n, inner, exclusive, reverse, (const char *)x->data + at,
                         (char *)y->data + at, product);
    }
    return TMK_OK;
}

static const struct tmk_attr_rule attrs[] = {
    {"exclusive", TMK_ATTR_INT, false}, {"reverse", TMK_ATTR_INT, false}, {NULL}};

const struct tmk_op tmk_op_CumProd_26 = {
    .domain = TMK_DOMAIN_ONNX,
    .name = "CumProd",
    .since = 26,
    .until = INT32_MAX,
    .min_in = 2,
    .max_in = 2,
    .min_out = 1,
    .max_out = 1,
    .flags = TMK_OP_PURE,
    .channel = TMK_CHANNEL_INHERIT,
    .attrs = attrs,
    .infer = infer_cumprod,
    .run = run_cumprod,
    .sample = "graph \"sample\" opset 26 {\n"
              "  input %x : f32[2,3,4]\n"
              "  init %axis : i64[] = {1}\n"
              "  %y = CumProd(%x, %axis) {exclusive=1, reverse=1}\n"
              "  output %y\n"
              "}\n",
};
