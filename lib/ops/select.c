/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that choose elements by their values: NonZero, Compress, Unique, TopK. */
#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "ops/elementwise.h"
#include "ops/kernel.h"
#include "ops/move.h"

/* ---- NonZero ---- */

static bool is_zero(const struct tmk_tensor *in, size_t i, size_t element) {
    static const char zeros[16];
    if (in->dtype == TMK_FLOAT32) /* -0 too */
        return ((const float *)in->data)[i] == 0.0f;
    return memcmp((const char *)in->data + i * element, zeros, element) == 0;
}

static enum tmk_status nonzero_infer(struct tmk_infer *infer) {
    enum tmk_dtype dtype = infer->in[0]->dtype;
    if (tmk_dtype_is_float(dtype) && dtype != TMK_FLOAT32)
        return tmk_fail(infer->diag, TMK_TYPE, "zeros of %s are not known", tmk_dtype_name(dtype));
    return TMK_OK;
}

static enum tmk_status nonzero_run(struct tmk_run *run) {
    const struct tmk_tensor *in = run->in[0];
    size_t n = tmk_tensor_count(in), element = tmk_dtype_size(in->dtype), found = 0;
    int32_t rank = in->shape.rank;
    for (size_t i = 0; i < n; i++)
        found += !is_zero(in, i, element);
    TMK_TRY(tmk_run_alloc(run, 0, TMK_INT64, &(struct tmk_shape){2, {rank, (int64_t)found}}));
    struct tmk_tensor *out = tmk_run_out(run, 0);
    int64_t *to = out->data, at[TMK_MAX_RANK] = {0};
    for (size_t i = 0; i < n; i++) {
        if (!is_zero(in, i, element)) {
            for (int32_t k = 0; k < rank; k++)
                to[(size_t)k * found] = at[k];
            to++;
        }
        for (int32_t k = rank - 1; k >= 0 && ++at[k] == in->shape.dim[k]; k--)
            at[k] = 0;
    }
    return TMK_OK;
}

/* ---- Compress: what stands where the condition is true; without an axis of the flattened input
 * ---- */

static enum tmk_status compress_infer(struct tmk_infer *infer) {
    const struct tmk_tensor *in = infer->in[0], *condition = infer->in[1];
    int32_t axis;
    TMK_TRY(tmk_want_dtype(condition, TMK_BOOL, "the condition", infer->diag));
    if (in->shape.rank < 1 || condition->shape.rank != 1)
        return tmk_fail(infer->diag, TMK_SHAPE,
                        "the input has %d axes (1 at least) and the condition %d (1)",
                        in->shape.rank, condition->shape.rank);
    if (tmk_node_attr(infer->node, "axis"))
        TMK_TRY(tmk_axis(tmk_node_int(infer->node, "axis", 0), in->shape.rank, &axis, infer->diag));
    return TMK_OK;
}

static enum tmk_status compress_run(struct tmk_run *run) {
    const struct tmk_tensor *in = run->in[0], *condition = run->in[1];
    const uint8_t *wanted = condition->data;
    struct tmk_shape shape = {.rank = 1, .dim = {(int64_t)tmk_tensor_count(in)}};
    int32_t axis = 0;
    if (tmk_node_attr(run->node, "axis")) {
        shape = in->shape;
        TMK_TRY(tmk_axis(tmk_node_int(run->node, "axis", 0), shape.rank, &axis, run->diag));
    }
    int64_t extent = shape.dim[axis], kept = 0;
    int64_t length = condition->shape.dim[0] < extent ? condition->shape.dim[0] : extent;
    for (int64_t i = 0; i < length; i++)
        kept += wanted[i] != 0;
    size_t block = tmk_dtype_size(in->dtype);
    bool empty = tmk_tensor_count(in) == 0 || kept == 0;
    size_t outer = empty ? 0 : tmk_shape_product(&shape, 0, axis);
    block *= empty ? 0 : tmk_shape_product(&shape, axis + 1, shape.rank);
    shape.dim[axis] = kept;
    TMK_TRY(tmk_run_alloc(run, 0, in->dtype, &shape));
    struct tmk_tensor *out = tmk_run_out(run, 0);
    const char *from = in->data;
    char *to = out->data;
    for (size_t o = 0; o < outer; o++, from += (size_t)extent * block)
        for (int64_t i = 0; i < length; i++)
            if (wanted[i]) {
                memcpy(to, from + (size_t)i * block, block);
                to += block;
            }
    return TMK_OK;
}

/* Unique: items (elements, or slices along an axis) are laid out one after the other, ordered by a
 * merge sort that keeps equal ones in their order, and numbered by group. */

/* -1, 0, 1 as a comes before, with or after b. NaN comes last and equals NaN. */
static int order_float(const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (isnan(a[i]) || isnan(b[i])) {
            if (isnan(a[i]) != isnan(b[i]))
                return isnan(a[i]) ? 1 : -1;
        } else if (a[i] != b[i]) {
            return a[i] < b[i] ? -1 : 1;
        }
    }
    return 0;
}

#define ORDER_CASE(op, dtype, T, U)                                                                \
    case TMK_##dtype:                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            if (((const T *)a)[i] != ((const T *)b)[i])                                            \
                return ((const T *)a)[i] < ((const T *)b)[i] ? -1 : 1;                             \
        return 0;

struct items {
    enum tmk_dtype dtype;
    size_t n, length; /* how many, and elements each */
    const char *data;
    size_t bytes; /* of one */
};

static int compare_items(const void *context, size_t x, size_t y) {
    const struct items *items = context;
    const void *a = items->data + x * items->bytes, *b = items->data + y * items->bytes;
    size_t n = items->length;
    switch (items->dtype) {
        TMK_EACH_INTEGER(ORDER_CASE, _)
        TMK_EACH_BOOL(ORDER_CASE, _)
    default:
        return order_float(a, b, n);
    }
}

/* The groups of equal items: the first item of each, how many, and each item's group. */
struct groups {
    size_t n;
    size_t *first, *count, *of;
};

/* Numbers the groups in sorted order. */
static void number_groups(const struct items *items, const size_t *sorted, struct groups *groups) {
    groups->n = 0;
    for (size_t i = 0; i < items->n; i++) {
        if (i == 0 || compare_items(items, sorted[i - 1], sorted[i]) != 0) {
            groups->first[groups->n] = sorted[i];
            groups->count[groups->n++] = 0;
        }
        groups->count[groups->n - 1]++;
        groups->of[sorted[i]] = groups->n - 1;
    }
}

/* Renumbers the groups in order of their first items. `number` and `count` hold n items each. */
static void order_by_appearance(const struct items *items, struct groups *groups, size_t *number,
                                size_t *count) {
    size_t n = 0;
    for (size_t i = 0; i < items->n; i++)
        if (groups->first[groups->of[i]] == i) {
            number[groups->of[i]] = n;
            count[n++] = groups->count[groups->of[i]];
        }
    memcpy(groups->count, count, n * sizeof *count);
    for (size_t i = items->n; i-- > 0;) {
        groups->of[i] = number[groups->of[i]];
        groups->first[groups->of[i]] = i;
    }
}

static enum tmk_status unique_infer(struct tmk_infer *infer) {
    const struct tmk_tensor *in = infer->in[0];
    int64_t sorted = tmk_node_int(infer->node, "sorted", 1);
    int32_t axis;
    bool number = in->dtype == TMK_FLOAT32 || in->dtype == TMK_BOOL ||
                  (tmk_dtype_is_integer(in->dtype) && in->dtype < TMK_UINT4);
    if (!number)
        return tmk_fail(infer->diag, TMK_TYPE, "%s cannot be ordered", tmk_dtype_name(in->dtype));
    if (sorted != 0 && sorted != 1)
        return tmk_fail(infer->diag, TMK_RANGE, "sorted is %lld", (long long)sorted);
    if (tmk_node_attr(infer->node, "axis"))
        TMK_TRY(tmk_axis(tmk_node_int(infer->node, "axis", 0), in->shape.rank, &axis, infer->diag));
    return TMK_OK;
}

static enum tmk_status write_indices(struct tmk_run *run, uint32_t output, const size_t *values,
                                     size_t n) {
    struct tmk_shape shape = {.rank = 1, .dim = {(int64_t)n}};
    TMK_TRY(tmk_run_alloc(run, output, TMK_INT64, &shape));
    struct tmk_tensor *out = tmk_run_out(run, output);
    for (size_t i = 0; out && i < n; i++)
        ((int64_t *)out->data)[i] = (int64_t)values[i];
    return TMK_OK;
}

/* How the items lie in a tensor of this shape: n of them along the axis, outer blocks of inner
 * elements. */
static struct tmk_move items_layout(const struct tmk_shape *shape, int32_t axis, bool gather) {
    struct tmk_move move = {0};
    int64_t n = shape->dim[axis], inner = (int64_t)tmk_shape_product(shape, axis + 1, shape->rank);
    int64_t outer = (int64_t)tmk_shape_product(shape, 0, axis);
    int64_t packed[] = {outer * inner, inner, 1}, spread[] = {inner, n * inner, 1};
    const int64_t *to = gather ? packed : spread, *from = gather ? spread : packed;
    tmk_move_axis(&move, n, to[0], from[0]);
    tmk_move_axis(&move, outer, to[1], from[1]);
    tmk_move_axis(&move, inner, to[2], from[2]);
    return move;
}

/* The unique items, laid out as the input was. */
static enum tmk_status write_items(struct tmk_run *run, const struct items *items,
                                   const struct groups *groups, struct tmk_shape shape,
                                   int32_t axis, char *packed) {
    shape.dim[axis] = (int64_t)groups->n;
    TMK_TRY(tmk_run_alloc(run, 0, items->dtype, &shape));
    struct tmk_tensor *out = tmk_run_out(run, 0);
    if (!out || tmk_tensor_count(out) == 0)
        return TMK_OK;
    for (size_t i = 0; i < groups->n; i++)
        memcpy(packed + i * items->bytes, items->data + groups->first[i] * items->bytes,
               items->bytes);
    struct tmk_move move = items_layout(&shape, axis, false);
    tmk_move_run(&move, tmk_dtype_size(items->dtype), out->data, packed);
    return TMK_OK;
}

static enum tmk_status unique_run(struct tmk_run *run) {
    const struct tmk_tensor *in = run->in[0];
    size_t count = tmk_tensor_count(in), element = tmk_dtype_size(in->dtype);
    struct tmk_shape shape = {.rank = 1, .dim = {(int64_t)count}};
    int32_t axis = 0;
    if (tmk_node_attr(run->node, "axis")) {
        shape = in->shape;
        TMK_TRY(tmk_axis(tmk_node_int(run->node, "axis", 0), shape.rank, &axis, run->diag));
    }
    struct items items = {.dtype = in->dtype, .n = (size_t)shape.dim[axis]};
    size_t words;
    /* slices without elements are all the same one */
    items.length = count ? count / items.n : 0;
    items.bytes = items.length * element;
    TMK_TRY_ALLOC(tmk_mul_size(items.n, 5 * sizeof(size_t), &words), run->diag);
    char *packed = run->scratch(run->context, count * element + 1);
    char *chosen = run->scratch(run->context, count * element + 1);
    size_t *memory = run->scratch(run->context, words + 1);
    TMK_TRY_ALLOC(packed && chosen && memory, run->diag);
    if (count) {
        struct tmk_move move = items_layout(&shape, axis, true);
        tmk_move_run(&move, element, packed, in->data);
    }
    items.data = packed;
    size_t *a = memory, *b = a + items.n;
    struct groups groups = {0, b + items.n, b + 2 * items.n, b + 3 * items.n};
    size_t *sorted = tmk_sort(items.n, compare_items, &items, a, b);
    number_groups(&items, sorted, &groups);
    if (tmk_node_int(run->node, "sorted", 1) == 0)
        order_by_appearance(&items, &groups, a, b);
    TMK_TRY(write_items(run, &items, &groups, shape, axis, chosen));
    TMK_TRY(write_indices(run, 1, groups.first, groups.n));
    TMK_TRY(write_indices(run, 2, groups.of, items.n));
    return write_indices(run, 3, groups.count, groups.n);
}

/* TopK: the k largest (or smallest) elements along an axis, in order, with their places.
 *
 * Every element becomes a 64-bit key whose order is that of the elements (NaN above all numbers, as
 * NumPy sorts); a heap keeps the k best of a row, so a row costs n log k. Among equals the lower
 * index comes first. */

struct item {
    uint64_t key;
    int64_t index;
};

static inline uint64_t key_float(float v) {
    if (v != v)
        return UINT64_MAX;
    const uint32_t bits = tmk_bits_of_float(v + 0.0f); /* one zero only */
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
    TMK_WANT_ENTRY(keys, x, "input 0", diag);
    TMK_TRY(tmk_axis(tmk_node_int(node, "axis", -1), x->shape.rank, axis, diag));
    if (input_k) {
        TMK_TRY(tmk_want_dtype(input_k, TMK_INT64, "input 1, K,", diag));
        if (!input_k->data)
            return TMK_OK;
        TMK_TRY(tmk_read_int(input_k, "input 1, K,", &k, diag));
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
    tmk_infer_put(infer, 0, infer->in[0]->dtype, &shape);
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

const struct tmk_op tmk_ops_select[] = {
    {TMK_OP_ONNX("NonZero", 9, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .flags = TMK_OP_SIZES_ITSELF,
     .infer = nonzero_infer, .run = nonzero_run},
    {TMK_OP_ONNX("Compress", 9, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1), .flags = TMK_OP_SIZES_ITSELF,
     .attrs = "axis:int", .infer = compress_infer, .run = compress_run},
    {TMK_OP_ONNX("Unique", 11, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 4), .flags = TMK_OP_SIZES_ITSELF,
     .attrs = "axis:int sorted:int", .infer = unique_infer, .run = unique_run},
    {TMK_OP_ONNX("TopK", 1, 9), TMK_OP_COUNTS(1, 1, 1, 2), .attrs = "axis:int k:int!",
     .infer = infer_topk, .run = run_topk},
    {TMK_OP_ONNX("TopK", 10, 10), TMK_OP_COUNTS(2, 2, 1, 2), .attrs = "axis:int",
     .infer = infer_topk, .run = run_topk},
    {TMK_OP_ONNX("TopK", 11, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 2),
     .attrs = "axis:int largest:int sorted:int", .infer = infer_topk, .run = run_topk},
    {NULL}};
