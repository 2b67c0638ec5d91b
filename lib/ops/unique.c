/* SPDX-License-Identifier: Apache-2.0 */
/* Unique: items (elements, or slices along an axis) are laid out one after the other, ordered by a
 * merge sort that keeps equal ones in their order, and numbered by group. */
#include <math.h>
#include <string.h>

#include "ops/elementwise.h"
#include "ops/move.h"

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

const struct tmk_op tmk_ops_unique[] = {
    {TMK_OP_ONNX("Unique", 11, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 4), .flags = TMK_OP_SIZES_ITSELF,
     .attrs = "axis:int sorted:int", .infer = unique_infer, .run = unique_run},
    {NULL}};
