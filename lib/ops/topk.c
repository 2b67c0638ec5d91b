/* SPDX-License-Identifier: Apache-2.0 */
/* TopK: the k largest (or smallest) elements along an axis, in order, with their places.
 *
 * Every element becomes a 64-bit key whose order is that of the elements (NaN above all numbers, as
 * NumPy sorts); a heap keeps the k best of a row, so a row costs n log k. Among equals the lower
 * index comes first. */
#include <string.h>

#include "ops/elementwise.h"

struct item {
    uint64_t key;
    int64_t index;
};

static inline uint64_t key_float(float v) {
    uint32_t bits;
    if (v != v)
        return UINT64_MAX;
    v += 0.0f; /* one zero only */
    memcpy(&bits, &v, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

#define KEY_FLOAT(v) key_float(v)
#define KEY_SIGNED(v) ((uint64_t)(int64_t)(v) ^ ((uint64_t)1 << 63))
#define KEY_UNSIGNED(v) (uint64_t)(v)

typedef uint64_t (*key_fn)(const void *x, size_t i);
#define DEFINE(op, dtype, T, U)                                                                    \
    static uint64_t row_##op##_##dtype(const void *x, size_t i) {                                  \
        return op(((const T *)x)[i]);                                                              \
    }
TMK_EACH_FLOAT(DEFINE, KEY_FLOAT)
TMK_EACH_SIGNED(DEFINE, KEY_SIGNED)
TMK_EACH_UNSIGNED(DEFINE, KEY_UNSIGNED)
static const key_fn keys[TMK_DTYPES] = {TMK_EACH_FLOAT(TMK_ROW_ENTRY, KEY_FLOAT) TMK_EACH_SIGNED(
    TMK_ROW_ENTRY, KEY_SIGNED) TMK_EACH_UNSIGNED(TMK_ROW_ENTRY, KEY_UNSIGNED)};

/* Does a come after b? */
static inline bool comes_after(struct item a, struct item b) {
    return a.key != b.key ? a.key < b.key : a.index > b.index;
}

/* heap[0] comes last of the n items; `item` takes the place at `hole` or one below it. */
static void sift_down(struct item *heap, size_t n, size_t hole, struct item item) {
    for (;;) {
        size_t child = 2 * hole + 1;
        if (child >= n)
            break;
        if (child + 1 < n && comes_after(heap[child + 1], heap[child]))
            child++;
        if (!comes_after(heap[child], item))
            break;
        heap[hole] = heap[child];
        hole = child;
    }
    heap[hole] = item;
}

/* The best k of n elements that lie `step` apart, best first. */
static void choose_best(key_fn key, const void *x, size_t at, size_t step, size_t n, size_t k,
                        bool largest, struct item *heap) {
    uint64_t flip = largest ? 0 : UINT64_MAX;
    for (size_t i = 0; i < k; i++)
        heap[i] = (struct item){key(x, at + i * step) ^ flip, (int64_t)i};
    for (size_t i = k / 2; i-- > 0;)
        sift_down(heap, k, i, heap[i]);
    for (size_t i = k; i < n; i++) {
        struct item item = {key(x, at + i * step) ^ flip, (int64_t)i};
        if (comes_after(heap[0], item))
            sift_down(heap, k, 0, item);
    }
    for (size_t left = k; left-- > 1;) {
        struct item last = heap[0];
        sift_down(heap, left, 0, heap[left]);
        heap[left] = last;
    }
}

/* *known stays false when k is an input without data. */
static enum tmk_status top_shape(const struct tmk_node *node, const struct tmk_tensor *x,
                                 const struct tmk_tensor *input_k, int32_t *axis, bool *known,
                                 struct tmk_shape *shape, struct tmk_diag *diag) {
    int64_t k = tmk_node_int(node, "k", 0);
    size_t n;
    TMK_WANT_ENTRY(keys, x, "input 0", diag);
    TMK_TRY(tmk_axis(tmk_node_int(node, "axis", -1), x->shape.rank, axis, diag));
    if (input_k) {
        TMK_TRY(tmk_want_dtype(input_k, TMK_INT64, "input 1, K,", diag));
        if (!input_k->data)
            return TMK_OK;
        TMK_TRY(tmk_read_ints(input_k, "input 1, K,", 1, &k, &n, diag));
        if (n != 1)
            return tmk_fail(diag, TMK_SHAPE, "input 1, K, has no element");
    }
    if (k < 0 || k > x->shape.dim[*axis])
        return tmk_fail(diag, TMK_RANGE, "k is %lld, but axis %d has %lld elements", (long long)k,
                        *axis, (long long)x->shape.dim[*axis]);
    *shape = x->shape;
    shape->dim[*axis] = k;
    *known = true;
    return TMK_OK;
}

static enum tmk_status infer_topk(struct tmk_infer *infer) {
    struct tmk_shape shape = {0};
    bool known = false;
    int32_t axis;
    TMK_TRY(top_shape(infer->node, infer->in[0], tmk_infer_in(infer, 1), &axis, &known, &shape,
                      infer->diag));
    if (!known)
        return TMK_OK;
    tmk_infer_set(infer, 0, infer->in[0]->dtype, &shape);
    return tmk_infer_set(infer, 1, TMK_INT64, &shape);
}

static enum tmk_status prepare_output(struct tmk_run *run, uint32_t i, enum tmk_dtype dtype,
                                      const struct tmk_shape *shape) {
    struct tmk_tensor *out = tmk_run_out(run, i);
    return out && !out->data ? tmk_run_alloc(run, i, dtype, shape) : TMK_OK;
}

static enum tmk_status run_topk(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0];
    bool largest = tmk_node_int(run->node, "largest", 1) != 0, known = false;
    struct tmk_shape shape = {0};
    int32_t axis = 0;
    TMK_TRY(top_shape(run->node, x, tmk_run_in(run, 1), &axis, &known, &shape, run->diag));
    TMK_TRY(prepare_output(run, 0, x->dtype, &shape));
    TMK_TRY(prepare_output(run, 1, TMK_INT64, &shape));
    size_t outer = tmk_shape_product(&shape, 0, axis), k = (size_t)shape.dim[axis],
           inner = tmk_shape_product(&shape, axis + 1, shape.rank), n = (size_t)x->shape.dim[axis],
           size = tmk_dtype_size(x->dtype);
    if (!outer || !k || !inner)
        return TMK_OK;
    struct item *heap = tmk_scratch(run, k, sizeof(struct item));
    TMK_TRY_ALLOC(heap, run->diag);
    char *values = tmk_run_out(run, 0) ? run->out[0]->data : NULL;
    int64_t *indices = tmk_run_out(run, 1) ? run->out[1]->data : NULL;
    for (size_t i = 0; i < outer; i++)
        for (size_t j = 0; j < inner; j++) {
            size_t from = i * n * inner + j, to = i * k * inner + j;
            choose_best(keys[x->dtype], x->data, from, inner, n, k, largest, heap);
            for (size_t t = 0; t < k; t++) {
                if (values)
                    memcpy(values + (to + t * inner) * size,
                           (const char *)x->data + (from + (size_t)heap[t].index * inner) * size,
                           size);
                if (indices)
                    indices[to + t * inner] = heap[t].index;
            }
        }
    return TMK_OK;
}

const struct tmk_op tmk_ops_topk[] = {
    {TMK_OP_ONNX("TopK", 1, 9), TMK_OP_COUNTS(1, 1, 1, 2), .attrs = "axis:int k:int!",
     .infer = infer_topk, .run = run_topk},
    {TMK_OP_ONNX("TopK", 10, 10), TMK_OP_COUNTS(2, 2, 1, 2), .attrs = "axis:int",
     .infer = infer_topk, .run = run_topk},
    {TMK_OP_ONNX("TopK", 11, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 2),
     .attrs = "axis:int largest:int sorted:int", .infer = infer_topk, .run = run_topk},
    {NULL}};
