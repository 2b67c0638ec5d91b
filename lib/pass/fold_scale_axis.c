/* SPDX-License-Identifier: Apache-2.0 */
/* fold-scale-axis: a multiplication by constants, for all elements or for each channel, moves into
 * weights.
 *
 * Backward, into what makes the operand: Mul(Conv(x, W, b), s) becomes Conv(x, W*s, b*s). The
 * product's original is then the convolution's result, and the convolution's own is affine: value =
 * s * original. On the way up the scale passes through additions (all operands take it), pools and
 * activations; through those that depend on the sign only if every s is positive.
 *
 * Forward, into all that reads the product: Conv(Mul(x, s), W) becomes Conv(x, W*s along W's input
 * channels). The product's original is then affine in x: value = original / s, so no s may be 0.
 *
 * A counter-example to folding without asking: Conv(x) that is also an output of the graph, or is
 * read by anything but the Mul, must keep its numbers.
 *
 * First the whole change is proposed, and only a proposal that is possible everywhere is carried
 * out: weights that would overflow, or constants that are shaped otherwise, leave all as it is. */

#include "base/diag.h"
#include "ops/ops.h"
#include "pass/pass.h"
#include "pass/proposal.h"

static bool passes_scale(const struct tmk_node *node, const struct tmk_scale *scale) {
    const bool along_channels =
        scale->n == 1 || scale->axis == 1 || tmk_node_traits(node)->batch == TMK_BATCH_POINTWISE;
    return along_channels &&
           (tmk_node_has(node, TMK_TRAIT_LINEAR) ||
            (tmk_node_has(node, TMK_TRAIT_HOMOGENEOUS) && tmk_scale_is_positive(scale)));
}

static bool has_shape_of(const struct tmk_value *a, const struct tmk_value *b) {
    return a->type.has_shape && b->type.has_shape &&
           tmk_shape_equal(&a->type.shape, &b->type.shape);
}

/* ---- weights ---- */

/* The dimension of the weights that makes channels of the result; -1: none it handles. */
static int32_t result_axis(const struct tmk_node *node, const struct tmk_scale *scale) {
    const bool all = scale->n == 1, channels = all || scale->axis == 1;
    const bool grouped = tmk_node_int(node, "group", 1) != 1;
    const bool last = all || scale->axis == tmk_value_rank(node->outputs[0]) - 1;
    bool fits = false;
    if (!tmk_op_is_product(node))
        return -1;
    switch (tmk_node_traits(node)->product) {
    case TMK_PRODUCT_CONV:
        fits = channels;
        break;
    case TMK_PRODUCT_CONV_TRANSPOSED:
        fits = all || (channels && !grouped);
        break;
    case TMK_PRODUCT_MATRIX:
        fits = last && tmk_value_rank(node->inputs[1]) == 2;
        break;
    case TMK_PRODUCT_NONE:
        break;
    }
    return fits ? tmk_op_weight_axis(node) : -1;
}

/* The dimension that reads channels of the operand. */
static int32_t operand_axis(const struct tmk_node *node, const struct tmk_scale *scale) {
    const bool all = scale->n == 1, channels = all || scale->axis == 1;
    const bool last = all || scale->axis == tmk_value_rank(node->inputs[0]) - 1;
    if (!tmk_op_is_product(node))
        return -1;
    const struct tmk_tensor *weights = tmk_value_constant(node->inputs[1]);
    if (!weights || weights->shape.rank < 2)
        return -1;
    switch (tmk_node_traits(node)->product) {
    case TMK_PRODUCT_CONV:
        if (all || (channels && tmk_node_int(node, "group", 1) == 1))
            return 1;
        return channels && weights->shape.dim[1] == 1 && weights->shape.dim[0] == scale->n
                   ? 0 /* depthwise */
                   : -1;
    case TMK_PRODUCT_CONV_TRANSPOSED:
        return channels ? 0 : -1;
    case TMK_PRODUCT_MATRIX:
        if (!last || weights->shape.rank != 2 || (tmk_node_int(node, "transA", 0) && !all))
            return -1;
        return 1 - tmk_op_weight_axis(node);
    case TMK_PRODUCT_NONE:
        break;
    }
    return -1;
}

/* ---- backward ---- */

static bool scale_result(struct tmk_proposal *p, struct tmk_value *value,
                         const struct tmk_scale *scale, unsigned depth);

static bool scale_addends(struct tmk_proposal *p, struct tmk_node *node,
                          const struct tmk_scale *scale, unsigned depth) {
    struct tmk_value *result = node->outputs[0];
    const int32_t rank = tmk_value_rank(result);
    for (uint32_t i = 0; i < 2; i++) {
        struct tmk_value *operand = node->inputs[i];
        const struct tmk_tensor *constant = tmk_value_constant(operand);
        if (constant ? !tmk_propose_constant(p, node, i, scale,
                                             scale->axis - (rank - constant->shape.rank))
                     : !has_shape_of(operand, result) || !scale_result(p, operand, scale, depth))
            return false;
    }
    return rank >= 0;
}

/* The constant operand of a Mul by channels takes the scale as well. */
static bool scale_factor(struct tmk_proposal *p, struct tmk_node *node,
                         const struct tmk_scale *scale) {
    struct tmk_scale own;
    uint32_t constant = 0;
    if (!tmk_scale_of(node, &own, &constant))
        return false;
    const int32_t rank = tmk_value_rank(node->outputs[0]);
    const struct tmk_tensor *tensor = tmk_value_constant(node->inputs[constant]);
    const bool possible = tmk_node_is(node, TMK_DOMAIN_ONNX, "Mul") &&
                          (scale->n == 1 || (own.n == scale->n && own.axis == scale->axis));
    tmk_scale_finish(&own);
    return possible && tmk_propose_constant(p, node, constant, scale,
                                            scale->axis - (rank - tensor->shape.rank));
}

static bool scale_result(struct tmk_proposal *p, struct tmk_value *value,
                         const struct tmk_scale *scale, unsigned depth) {
    struct tmk_node *node = value->producer;
    if (!depth || !node || value->output != 0 || !tmk_rewrite_is_interior(p->rw, value))
        return false;
    if (!tmk_propose_rescale(p, value, scale))
        return false;
    if (passes_scale(node, scale))
        return scale_result(p, node->inputs[0], scale, depth - 1);
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "Add"))
        return scale_addends(p, node, scale, depth - 1);
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "Mul"))
        return scale_factor(p, node, scale);
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "BatchNormalization"))
        return node->n_inputs == 5 && node->n_outputs == 1 &&
               !tmk_node_int(node, "training_mode", 0) && (scale->n == 1 || scale->axis == 1) &&
               tmk_propose_constant(p, node, 1, scale, 0) &&
               tmk_propose_constant(p, node, 2, scale, 0);
    const int32_t axis = result_axis(node, scale);
    if (axis < 0 || !tmk_propose_constant(p, node, 1, scale, axis))
        return false;
    if (node->n_inputs < 3 || !node->inputs[2])
        return true;
    const struct tmk_tensor *bias = tmk_value_constant(node->inputs[2]);
    return bias && tmk_propose_constant(p, node, 2, scale, bias->shape.rank - 1);
}

bool tmk_propose_result(struct tmk_proposal *p, struct tmk_value *value,
                        const struct tmk_scale *scale) {
    enum { DEEPEST = 64 };
    return scale_result(p, value, scale, DEEPEST);
}

static bool propose_backward(struct tmk_proposal *p, const struct tmk_node *product,
                             uint32_t constant, const struct tmk_scale *scale) {
    struct tmk_value *operand = product->inputs[1 - constant];
    return tmk_rewrite_can_replace(p->rw, product->outputs[0], operand, true) &&
           has_shape_of(operand, product->outputs[0]) && tmk_propose_result(p, operand, scale);
}

/* ---- forward ---- */

static bool scale_readers(struct tmk_proposal *p, struct tmk_value *value,
                          const struct tmk_scale *scale, unsigned depth);

static bool scale_reader(struct tmk_proposal *p, const struct tmk_value *value,
                         const struct tmk_use *use, const struct tmk_scale *scale, unsigned depth) {
    struct tmk_node *node = use->node;
    struct tmk_value *result = node->outputs[0];
    if (node->graph != value->graph || !result)
        return false;
    const bool added = tmk_node_is(node, TMK_DOMAIN_ONNX, "Add") &&
                       tmk_value_constant(node->inputs[1 - use->input]) &&
                       has_shape_of(value, result);
    if (added || (use->input == 0 && passes_scale(node, scale))) {
        const struct tmk_scale inverse = tmk_scale_inverse(scale);
        if (added) {
            const struct tmk_tensor *c = tmk_value_constant(node->inputs[1 - use->input]);
            if (!tmk_propose_constant(p, node, 1 - use->input, &inverse,
                                      scale->axis - (tmk_value_rank(result) - c->shape.rank)))
                return false;
        }
        return tmk_rewrite_may_change(p->rw, result) && tmk_propose_rescale(p, result, &inverse) &&
               scale_readers(p, result, scale, depth);
    }
    const int32_t axis = use->input == 0 && node->n_inputs >= 2 ? operand_axis(node, scale) : -1;
    return axis >= 0 && tmk_propose_constant(p, node, 1, scale, axis);
}

static bool scale_readers(struct tmk_proposal *p, struct tmk_value *value,
                          const struct tmk_scale *scale, unsigned depth) {
    if (!depth || !value->n_uses)
        return false;
    for (uint32_t i = 0; i < value->n_uses; i++)
        if (!scale_reader(p, value, &value->uses[i], scale, depth - 1))
            return false;
    return true;
}

bool tmk_propose_readers(struct tmk_proposal *p, struct tmk_value *value,
                         const struct tmk_scale *scale) {
    enum { DEEPEST = 16 };
    return scale_readers(p, value, scale, DEEPEST);
}

static bool propose_forward(struct tmk_proposal *p, const struct tmk_node *product,
                            uint32_t constant, const struct tmk_scale *scale) {
    struct tmk_value *result = product->outputs[0], *operand = product->inputs[1 - constant];
    return tmk_scale_has_inverse(scale) && tmk_rewrite_may_change(p->rw, result) &&
           tmk_rewrite_can_replace(p->rw, result, operand, false) &&
           has_shape_of(operand, result) && tmk_propose_readers(p, result, scale);
}

/* ---- the pass ---- */

typedef bool propose(struct tmk_proposal *p, const struct tmk_node *product, uint32_t constant,
                     const struct tmk_scale *scale);

static enum tmk_status try_fold(struct tmk_rewrite *rw, struct tmk_node *product, uint32_t constant,
                                const struct tmk_scale *scale, bool forward, bool *folded) {
    struct tmk_proposal p = {.rw = rw};
    const struct tmk_scale inverse = tmk_scale_inverse(scale);
    struct tmk_value *operand = product->inputs[1 - constant], *result = product->outputs[0];
    enum tmk_status status = TMK_OK;
    *folded = (forward ? propose_forward : propose_backward)(&p, product, constant, scale);
    if (*folded)
        status = tmk_proposal_apply(&p);
    if (status == TMK_OK && *folded) {
        const struct tmk_relation how = {.affine = tmk_scale_relation(&inverse)};
        status = tmk_rewrite_replace(rw, result, operand, forward ? &how : NULL);
    }
    if (status == TMK_OK && *folded)
        tmk_rewrite_remove(rw, product);
    if (status == TMK_OK && p.failed)
        status = tmk_nomem(rw->diag);
    tmk_proposal_finish(&p);
    return status;
}

static enum tmk_status fold_scale_of(struct tmk_rewrite *rw, struct tmk_node *node) {
    struct tmk_scale scale;
    uint32_t constant = 0;
    bool folded = false;
    if (!(tmk_node_is(node, TMK_DOMAIN_ONNX, "Mul") || tmk_node_is(node, TMK_DOMAIN_ONNX, "Div")) ||
        !tmk_scale_of(node, &scale, &constant))
        return TMK_OK;
    enum tmk_status status = try_fold(rw, node, constant, &scale, false, &folded);
    if (status == TMK_OK && !folded)
        status = try_fold(rw, node, constant, &scale, true, &folded);
    tmk_scale_finish(&scale);
    return status;
}

/* A fold may make another possible: of a Mul before this one. */
static enum tmk_status fold_scales(struct tmk_rewrite *rw) {
    bool any = false;
    do {
        rw->progress = false;
        TMK_TRY(tmk_rewrite_each(rw, fold_scale_of));
        any = any || rw->progress;
    } while (rw->progress);
    rw->progress = any;
    return TMK_OK;
}

const struct tmk_pass tmk_pass_fold_scale_axis = {
    "fold-scale-axis", "moves multiplications by constants into weights, before or behind them",
    fold_scales};
