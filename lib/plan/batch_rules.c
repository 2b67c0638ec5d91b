/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/batch.h"

#include <string.h>

#include "ops/kernel.h"

static const char ALONG[] = "works along the axis of the samples";
static const char UNKNOWN[] = "is not known to leave the axis of the samples alone";
static const char MEETS[] = "lets samples meet in its operands";

/* ---- queries ---- */

static bool has_operand(const struct tmk_batch_node *n, uint32_t i) {
    return i < n->node->n_inputs && n->node->inputs[i];
}

static bool is_batched(const struct tmk_batch_node *n, uint32_t i) {
    return has_operand(n, i) && n->batched[n->node->inputs[i]->index];
}

/* Operand i, which is there. */
static const struct tmk_plan_value *operand_at(const struct tmk_batch_node *n, uint32_t i) {
    return &n->plan->values[n->node->inputs[i]->index];
}

int32_t tmk_batch_rank(const struct tmk_batch_node *n, uint32_t i) {
    return operand_at(n, i)->shape.rank;
}

static bool has_result(const struct tmk_batch_node *n, uint32_t i) {
    return i < n->node->n_outputs && n->node->outputs[i];
}

/* Of result 0; 0 where that is absent. */
static int32_t result_rank(const struct tmk_batch_node *n) {
    return has_result(n, 0) ? n->plan->values[n->node->outputs[0]->index].shape.rank : 0;
}

static bool only_first_is_batched(const struct tmk_batch_node *n) {
    for (uint32_t i = 1; i < n->node->n_inputs; i++)
        if (is_batched(n, i))
            return false;
    return is_batched(n, 0);
}

/* The axis an attribute names is not the first. */
static bool is_inner(const struct tmk_batch_node *n, int64_t otherwise, int32_t rank) {
    int64_t axis = tmk_node_int(n->node, "axis", otherwise);
    return (axis < 0 ? axis + rank : axis) > 0;
}

/* A constant operand that is there. */
static const struct tmk_tensor *constant_operand(const struct tmk_batch_node *n, uint32_t i) {
    return has_operand(n, i) && operand_at(n, i)->place == TMK_PLACE_CONSTANT
               ? &operand_at(n, i)->constant
               : NULL;
}

bool tmk_batch_integers(const struct tmk_batch_node *n, const char *name, uint32_t input,
                        int64_t out[TMK_BATCH_INTEGERS], size_t *count) {
    *count = 0;
    if (tmk_op_takes_attr(n->node->row, name)) {
        const int64_t *values = tmk_node_ints(n->node, name, count);
        if (*count > TMK_BATCH_INTEGERS)
            return false;
        for (size_t i = 0; i < *count; i++)
            out[i] = values[i];
    } else {
        const struct tmk_tensor *values = constant_operand(n, input);
        if (!values || tmk_read_ints(values, name, TMK_BATCH_INTEGERS, out, count, NULL) != TMK_OK)
            return false;
    }
    return *count > 0;
}

/* One of them is the first axis of `rank`. */
static bool names_first(const int64_t *axes, size_t n, int32_t rank) {
    for (size_t i = 0; i < n; i++)
        if (axes[i] == 0 || axes[i] == -(int64_t)rank)
            return true;
    return false;
}

/* Laid over a result of that rank as NumPy does, the operand's samples lie on its first axis, or a
 * constant is the same for all of them. */
static bool lies_over(const struct tmk_batch_node *n, uint32_t i, int32_t rank) {
    const struct tmk_shape *shape = &operand_at(n, i)->shape;
    if (is_batched(n, i))
        return shape->rank == rank;
    return shape->rank < rank || (shape->rank == rank && shape->dim[0] == 1);
}

/* ---- element by element ---- */

static const char *pointwise_rule(const struct tmk_batch_node *n) {
    if (tmk_node_attr(n->node, "axis") && !is_inner(n, 0, 0)) /* how B lay in A before set 7 */
        return ALONG;
    for (uint32_t i = 0; i < n->node->n_inputs; i++)
        if (has_operand(n, i) && !lies_over(n, i, result_rank(n)))
            return MEETS;
    return NULL;
}

static const char *expand_rule(const struct tmk_batch_node *n) {
    int64_t shape[TMK_BATCH_INTEGERS];
    size_t count;
    if (!only_first_is_batched(n) || !tmk_batch_integers(n, "shape", 1, shape, &count))
        return UNKNOWN;
    int32_t rank = tmk_batch_rank(n, 0);
    return (int64_t)count < rank || ((int64_t)count == rank && shape[0] == 1) ? NULL : MEETS;
}

/* One scale for all, or one an index of an axis. */
static const char *quantize_rule(const struct tmk_batch_node *n) {
    size_t scales = 0;
    if (!only_first_is_batched(n) || tmk_node_int(n->node, "block_size", 0) ||
        !tmk_shape_count(&operand_at(n, 1)->shape, &scales))
        return UNKNOWN;
    if (scales == 1 && tmk_batch_rank(n, 1) < 2)
        return NULL;
    return tmk_batch_rank(n, 1) == 1 && is_inner(n, 1, tmk_batch_rank(n, 0)) ? NULL : ALONG;
}

/* ---- sample by sample by their own meaning ---- */

static const char *sample_rule(const struct tmk_batch_node *n) {
    return only_first_is_batched(n) ? NULL : MEETS;
}

static const char *batch_norm_rule(const struct tmk_batch_node *n) {
    return tmk_node_int(n->node, "training_mode", 0) ? "is for training" : sample_rule(n);
}

/* Its indices count from the batch's first element. */
static const char *max_pool_rule(const struct tmk_batch_node *n) {
    return has_result(n, 1) ? ALONG : sample_rule(n);
}

static const char *trilu_rule(const struct tmk_batch_node *n) {
    return tmk_batch_rank(n, 0) > 2 ? sample_rule(n) : ALONG;
}

/* ---- matrix products ---- */

static const char *gemm_rule(const struct tmk_batch_node *n) {
    if (!is_batched(n, 0) || is_batched(n, 1) || tmk_node_int(n->node, "transA", 0))
        return MEETS;
    return has_operand(n, 2) && !lies_over(n, 2, 2) ? MEETS : NULL;
}

/* Axis 0 of the result is A's rows, or one of the axes that matrices are stacked along. */
static const char *matmul_rule(const struct tmk_batch_node *n) {
    int32_t a = tmk_batch_rank(n, 0), b = tmk_batch_rank(n, 1), rank = result_rank(n);
    if (is_batched(n, 0) && !is_batched(n, 1) && a == 2 && b <= 2)
        return NULL;
    int32_t stack = a > b ? a : b; /* the rank of the stack with its matrices */
    if (stack < 3 || rank < 1 || !lies_over(n, 0, stack) || !lies_over(n, 1, stack))
        return MEETS;
    return NULL;
}

/* ---- along an axis ---- */

static const char *softmax_rule(const struct tmk_batch_node *n) {
    return is_inner(n, n->node->row->since < 13 ? 1 : -1, tmk_batch_rank(n, 0)) ? NULL : ALONG;
}

static const char *arg_rule(const struct tmk_batch_node *n) {
    return is_inner(n, 0, tmk_batch_rank(n, 0)) ? NULL : ALONG;
}

static const char *last_axis_rule(const struct tmk_batch_node *n) {
    return is_inner(n, -1, tmk_batch_rank(n, 0)) ? sample_rule(n) : ALONG;
}

static const char *layer_norm_rule(const struct tmk_batch_node *n) {
    for (uint32_t i = 1; i < n->node->n_inputs; i++)
        if (has_operand(n, i) && !lies_over(n, i, tmk_batch_rank(n, 0)))
            return MEETS;
    return last_axis_rule(n);
}

static const char *mean_variance_rule(const struct tmk_batch_node *n) {
    int64_t axes[TMK_BATCH_INTEGERS];
    size_t count;
    bool given = tmk_batch_integers(n, "axes", 0, axes, &count); /* else 0, 2, 3 */
    return given && !names_first(axes, count, tmk_batch_rank(n, 0)) ? NULL : ALONG;
}

static const char *reduce_rule(const struct tmk_batch_node *n) {
    int64_t axes[TMK_BATCH_INTEGERS];
    size_t count;
    if (!only_first_is_batched(n))
        return MEETS;
    if (!tmk_batch_integers(n, "axes", 1, axes, &count))
        return ALONG;
    return names_first(axes, count, tmk_batch_rank(n, 0)) ? ALONG : NULL;
}

static const char *cumulate_rule(const struct tmk_batch_node *n) {
    int64_t axis[TMK_BATCH_INTEGERS];
    size_t count;
    if (!only_first_is_batched(n) || !tmk_batch_integers(n, "axis", 1, axis, &count))
        return UNKNOWN;
    return names_first(axis, count, tmk_batch_rank(n, 0)) ? ALONG : NULL;
}

static const char *concat_rule(const struct tmk_batch_node *n) {
    for (uint32_t i = 0; i < n->node->n_inputs; i++)
        if (!is_batched(n, i))
            return "joins samples with a constant";
    return is_inner(n, 1, tmk_batch_rank(n, 0)) ? NULL : ALONG;
}

static const char *split_rule(const struct tmk_batch_node *n) {
    return is_inner(n, 0, tmk_batch_rank(n, 0)) ? sample_rule(n) : ALONG;
}

static const char *slice_rule(const struct tmk_batch_node *n) {
    int64_t axes[TMK_BATCH_INTEGERS];
    size_t count;
    if (!only_first_is_batched(n) || !tmk_batch_integers(n, "axes", 3, axes, &count))
        return ALONG; /* without axes: from the first on */
    return names_first(axes, count, tmk_batch_rank(n, 0)) ? ALONG : NULL;
}

static const char *gather_rule(const struct tmk_batch_node *n) {
    bool inner = is_inner(n, 0, tmk_batch_rank(n, 0));
    if (is_batched(n, 0))
        return is_batched(n, 1) ? MEETS : inner ? NULL : ALONG;
    return inner ? ALONG : NULL; /* rows of a table */
}

static const char *gather_elements_rule(const struct tmk_batch_node *n) {
    if (!is_batched(n, 0) || !is_batched(n, 1))
        return MEETS;
    return is_inner(n, 0, tmk_batch_rank(n, 0)) ? NULL : ALONG;
}

static const char *one_hot_rule(const struct tmk_batch_node *n) {
    return is_inner(n, -1, result_rank(n)) ? sample_rule(n) : ALONG;
}

/* ---- the same elements in another shape ---- */

/* Index k of axis 0 is sample k's as long as there are as many as samples: then, of elements in
 * order, each has as many as a sample. */
static const char *reshape_rule(const struct tmk_batch_node *n) {
    int64_t shape[TMK_BATCH_INTEGERS];
    size_t count;
    if (!only_first_is_batched(n) || !has_result(n, 0) ||
        !tmk_batch_integers(n, "shape", 1, shape, &count))
        return UNKNOWN;
    bool copies = shape[0] == 0 && !tmk_node_int(n->node, "allowzero", 0);
    if (!copies && shape[0] != -1)
        return "gives the axis of the samples a fixed size";
    const struct tmk_plan_value *made = &n->plan->values[n->node->outputs[0]->index];
    return made->shape.dim[0] == TMK_TYPED_SAMPLES ? NULL
                                                   : "joins the axis of the samples with another";
}

static const char *flatten_rule(const struct tmk_batch_node *n) {
    const struct tmk_shape *shape = &operand_at(n, 0)->shape;
    int64_t axis = tmk_node_int(n->node, "axis", 1);
    axis = axis < 0 ? axis + shape->rank : axis;
    for (int64_t i = 1; i < axis; i++)
        if (shape->dim[i] != 1)
            return "joins the axis of the samples with another";
    return axis > 0 ? NULL : ALONG;
}

static const char *squeeze_rule(const struct tmk_batch_node *n) {
    int64_t axes[TMK_BATCH_INTEGERS];
    size_t count;
    if (!tmk_batch_integers(n, "axes", 1, axes, &count)) /* whatever is 1, as one sample is */
        return ALONG;
    return names_first(axes, count, tmk_batch_rank(n, 0)) ? ALONG : NULL;
}

static const char *unsqueeze_rule(const struct tmk_batch_node *n) {
    int64_t axes[TMK_BATCH_INTEGERS];
    size_t count;
    if (!tmk_batch_integers(n, "axes", 1, axes, &count))
        return UNKNOWN;
    return names_first(axes, count, result_rank(n)) ? ALONG : NULL;
}

static const char *transpose_rule(const struct tmk_batch_node *n) {
    int64_t order[TMK_BATCH_INTEGERS];
    size_t count;
    return tmk_batch_integers(n, "perm", 0, order, &count) && order[0] == 0 ? NULL : ALONG;
}

static const char *tile_rule(const struct tmk_batch_node *n) {
    int64_t repeats[TMK_BATCH_INTEGERS];
    size_t count;
    if (!only_first_is_batched(n) || n->node->row->since < 6 ||
        !tmk_batch_integers(n, "repeats", 1, repeats, &count))
        return UNKNOWN;
    return repeats[0] == 1 ? NULL : ALONG;
}

static const char *pad_rule(const struct tmk_batch_node *n) {
    int64_t pads[TMK_BATCH_INTEGERS], axes[TMK_BATCH_INTEGERS];
    size_t n_pads, n_axes;
    if (!only_first_is_batched(n) || tmk_node_attr(n->node, "paddings") || /* its name at first */
        !tmk_batch_integers(n, "pads", 1, pads, &n_pads))
        return UNKNOWN;
    if (has_operand(n, 3)) {
        if (!tmk_batch_integers(n, "axes", 3, axes, &n_axes))
            return UNKNOWN;
        return names_first(axes, n_axes, tmk_batch_rank(n, 0)) ? ALONG : NULL;
    }
    return pads[0] || pads[n_pads / 2] ? ALONG : NULL;
}

/* ---- images of another size ---- */

static const char *resize_rule(const struct tmk_batch_node *n) {
    int64_t axes[TMK_BATCH_INTEGERS];
    size_t count;
    if (!only_first_is_batched(n) ||
        strcmp(tmk_node_string(n->node, "coordinate_transformation_mode", ""),
               "tf_crop_and_resize") == 0)
        return UNKNOWN;
    if (tmk_op_takes_attr(n->node->row, "axes") && tmk_batch_integers(n, "axes", 0, axes, &count))
        return names_first(axes, count, tmk_batch_rank(n, 0)) ? ALONG : NULL;
    const float *scales = tmk_node_floats(n->node, "scales", &count);
    const struct tmk_tensor *given = constant_operand(n, n->node->row->since >= 11 ? 2 : 1);
    if (!tmk_op_takes_attr(n->node->row, "scales")) {
        if (!given || given->dtype != TMK_FLOAT32)
            return "is given sizes, not scales";
        scales = given->data;
        count = tmk_tensor_count(given);
    }
    return count && scales[0] == 1 ? NULL : ALONG;
}

/* ---- all rules ---- */

static const char *unknown_rule(const struct tmk_batch_node *n) {
    (void)n;
    return "is not known to be batch-independent";
}

typedef const char *refuse_fn(const struct tmk_batch_node *n);

static refuse_fn *const rules[TMK_N_BATCH_RULES] = {
    [TMK_BATCH_UNKNOWN] = unknown_rule,
    [TMK_BATCH_ARG] = arg_rule,
    [TMK_BATCH_BATCH_NORM] = batch_norm_rule,
    [TMK_BATCH_CONCAT] = concat_rule,
    [TMK_BATCH_CUMULATE] = cumulate_rule,
    [TMK_BATCH_EXPAND] = expand_rule,
    [TMK_BATCH_FLATTEN] = flatten_rule,
    [TMK_BATCH_GATHER] = gather_rule,
    [TMK_BATCH_GATHER_ELEMENTS] = gather_elements_rule,
    [TMK_BATCH_GEMM] = gemm_rule,
    [TMK_BATCH_LAST_AXIS] = last_axis_rule,
    [TMK_BATCH_LAYER_NORM] = layer_norm_rule,
    [TMK_BATCH_MATMUL] = matmul_rule,
    [TMK_BATCH_MAX_POOL] = max_pool_rule,
    [TMK_BATCH_MEAN_VARIANCE] = mean_variance_rule,
    [TMK_BATCH_ONE_HOT] = one_hot_rule,
    [TMK_BATCH_PAD] = pad_rule,
    [TMK_BATCH_POINTWISE] = pointwise_rule,
    [TMK_BATCH_QUANTIZE] = quantize_rule,
    [TMK_BATCH_REDUCE] = reduce_rule,
    [TMK_BATCH_RESHAPE] = reshape_rule,
    [TMK_BATCH_RESIZE] = resize_rule,
    [TMK_BATCH_SAMPLE] = sample_rule,
    [TMK_BATCH_SLICE] = slice_rule,
    [TMK_BATCH_SOFTMAX] = softmax_rule,
    [TMK_BATCH_SPLIT] = split_rule,
    [TMK_BATCH_SQUEEZE] = squeeze_rule,
    [TMK_BATCH_TILE] = tile_rule,
    [TMK_BATCH_TRANSPOSE] = transpose_rule,
    [TMK_BATCH_TRILU] = trilu_rule,
    [TMK_BATCH_UNSQUEEZE] = unsqueeze_rule,
};

const char *tmk_batch_refuse(const struct tmk_batch_node *n) {
    return rules[tmk_node_traits(n->node)->batch](n);
}
