/* SPDX-License-Identifier: Apache-2.0 */
/* legalize-layout: pointwise operators work channels-last.
 *
 * What works on [N, C, H, W] element by element is done on [N, H, W, C], with a Transpose where the
 * layout changes; a Transpose that undoes another goes. Operators with a window keep ONNX's layout,
 * which is the only one they have there. Between two operators of this kind a value exists
 * channels-last only: its original is a `view`, by the permutation.
 *
 * Sums and products of activations are taken when all have the shape of the result, constants when
 * they are one number or one for each channel. */
#include <string.h>

#include "base/diag.h"
#include "ops/ops.h"
#include "pass/pass.h"
#include "pass/proposal.h"

enum { RANK = 4, MOST_OPERANDS = 16 };

static const int64_t to_last[RANK] = {0, 2, 3, 1}, to_first[RANK] = {0, 3, 1, 2};

static bool works_by_element(const struct tmk_node *node) {
    return tmk_node_traits(node)->batch == TMK_BATCH_POINTWISE && node->n_outputs == 1 &&
           node->outputs[0];
}

static bool is_transpose(const struct tmk_node *node, const int64_t perm[RANK]) {
    size_t n = 0;
    if (!node || !tmk_node_is(node, TMK_DOMAIN_ONNX, "Transpose"))
        return false;
    const int64_t *own = tmk_node_ints(node, "perm", &n);
    return n == RANK && memcmp(own, perm, RANK * sizeof *perm) == 0;
}

/* Channels-last already: transposed so, or made by such an operator of what is. */
static bool is_last(const struct tmk_value *value, unsigned depth) {
    const struct tmk_node *node = value->producer;
    if (is_transpose(node, to_last))
        return true;
    if (!node || !depth || !works_by_element(node))
        return false;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] && !tmk_value_constant(node->inputs[i]) &&
            is_last(node->inputs[i], depth - 1))
            return true;
    return false;
}

static bool is_one_a_channel(const struct tmk_tensor *tensor, int64_t channels) {
    const size_t n = tmk_tensor_count(tensor);
    const struct tmk_shape *shape = &tensor->shape;
    return n == 1 ? shape->rank <= 1
                  : (int64_t)n == channels && shape->rank >= RANK - 1 && shape->rank <= RANK &&
                        shape->dim[shape->rank - (RANK - 1)] == channels;
}

static bool is_eligible(const struct tmk_node *node) {
    enum { DEEPEST = 256 };
    bool any = false;
    if (!works_by_element(node) || tmk_value_rank(node->outputs[0]) != RANK)
        return false;
    const struct tmk_shape *shape = &node->outputs[0]->type.shape;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct tmk_value *input = node->inputs[i];
        const struct tmk_tensor *constant = tmk_value_constant(input);
        if (!input || (constant && !is_one_a_channel(constant, shape->dim[1])))
            return false;
        if (constant)
            continue;
        if (!input->type.has_shape || !tmk_shape_equal(&input->type.shape, shape) ||
            is_last(input, DEEPEST))
            return false;
        any = true;
    }
    return any;
}

/* ---- putting Transposes around ---- */

static struct tmk_type permuted_type(const struct tmk_type *type, const int64_t perm[RANK]) {
    struct tmk_type out = *type;
    for (int32_t i = 0; i < RANK; i++) {
        out.shape.dim[i] = type->shape.dim[perm[i]];
        out.symbol[i] = type->symbol[perm[i]];
    }
    return out;
}

static enum tmk_status add_transpose(struct tmk_rewrite *rw, struct tmk_node *before,
                                     struct tmk_value *value, const int64_t perm[RANK],
                                     struct tmk_value **out) {
    struct tmk_node *node = NULL;
    const struct tmk_attr attr = {.name = "perm", .kind = TMK_ATTR_INTS, .n = RANK, .ints = perm};
    const struct tmk_type type = permuted_type(&value->type, perm);
    TMK_TRY(tmk_rewrite_node(rw, before, TMK_DOMAIN_ONNX, "Transpose", value->name, 0, &value, 1,
                             &node));
    TMK_TRY(tmk_node_set_attr(node, &attr, rw->diag));
    TMK_TRY(tmk_value_set_type(node->outputs[0], &type, rw->diag));
    *out = node->outputs[0];
    return TMK_OK;
}

/* [C,1,1] becomes [C]: the same elements. */
static enum tmk_status flatten_input(struct tmk_rewrite *rw, struct tmk_node *node,
                                     uint32_t input) {
    struct tmk_tensor flat;
    struct tmk_value *fresh = NULL;
    const struct tmk_relation how = {.view = {.reshaped = true}};
    const struct tmk_tensor *tensor = tmk_value_constant(node->inputs[input]);
    if (tmk_tensor_count(tensor) == 1)
        return TMK_OK;
    tmk_tensor_share(&flat, tensor);
    flat.shape = (struct tmk_shape){.rank = 1, .dim = {(int64_t)tmk_tensor_count(tensor)}};
    enum tmk_status status =
        tmk_rewrite_initializer(rw, node->graph, node->inputs[input]->name, &flat, &fresh);
    tmk_tensor_finish(&flat);
    TMK_TRY(status);
    return tmk_rewrite_set_input(rw, node, input, fresh, &how);
}

/* The node itself is turned: its result is now channels-last, and a Transpose of that is where its
 * result stood. */
static enum tmk_status turn_node(struct tmk_rewrite *rw, struct tmk_node *node) {
    struct tmk_value *result = node->outputs[0], *inputs[MOST_OPERANDS] = {0}, *back = NULL;
    struct tmk_node *made = NULL;
    if (node->n_inputs > MOST_OPERANDS || !is_eligible(node))
        return TMK_OK;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (tmk_value_constant(node->inputs[i]))
            TMK_TRY(flatten_input(rw, node, i));
        inputs[i] = node->inputs[i];
        if (!tmk_value_constant(inputs[i]))
            TMK_TRY(add_transpose(rw, node, node->inputs[i], to_last, &inputs[i]));
    }
    TMK_TRY(tmk_rewrite_node(rw, node, node->domain, node->op, node->name, node->version, inputs,
                             node->n_inputs, &made));
    TMK_TRY(tmk_node_copy_attrs(made, node, NULL, rw->diag));
    const struct tmk_type type = permuted_type(&result->type, to_last);
    TMK_TRY(tmk_value_set_type(made->outputs[0], &type, rw->diag));
    TMK_TRY(add_transpose(rw, node, made->outputs[0], to_first, &back));
    TMK_TRY(tmk_rewrite_replace(rw, result, back, NULL));
    tmk_rewrite_remove(rw, node);
    return TMK_OK;
}

/* ---- taking Transposes out ---- */

/* Channels-last of what was made channels-first from channels-last is that. */
static enum tmk_status cancel_transposes(struct tmk_rewrite *rw, struct tmk_node *node) {
    /* axis i of channels-last is axis perm[i] of the original */
    static const struct tmk_relation how = {.view = {.rank = RANK, .perm = {0, 2, 3, 1}}};
    if (!is_transpose(node, to_last) || !is_transpose(node->inputs[0]->producer, to_first))
        return TMK_OK;
    struct tmk_node *before = node->inputs[0]->producer;
    struct tmk_value *first = before->outputs[0], *source = before->inputs[0];
    if (!tmk_rewrite_can_replace(rw, node->outputs[0], source, true))
        return TMK_OK;
    TMK_TRY(tmk_rewrite_replace(rw, node->outputs[0], source, NULL));
    tmk_rewrite_remove(rw, node);
    if (first->n_uses || !tmk_rewrite_can_replace(rw, first, source, false) ||
        !tmk_rewrite_may_change(rw, first))
        return TMK_OK;
    TMK_TRY(tmk_rewrite_replace(rw, first, source, &how));
    tmk_rewrite_remove(rw, before);
    return TMK_OK;
}

static enum tmk_status legalize_layouts(struct tmk_rewrite *rw) {
    TMK_TRY(tmk_rewrite_each(rw, turn_node));
    return tmk_rewrite_each(rw, cancel_transposes);
}

const struct tmk_pass tmk_pass_legalize_layout = {
    "legalize-layout", "lets operators that look at one element at a time work channels-last",
    legalize_layouts};
