/* SPDX-License-Identifier: Apache-2.0 */
/* fold-constant: what is made of constants alone is computed now, by the plain kernel, and becomes
 * an initializer. Nodes are taken in order, so that one walk finds whole chains of them; graphs
 * inside of nodes fold too, with what is constant around them.
 *
 * Shape and Size need a shape that is certain, and no elements.
 *
 * Left as they are: graph outputs, since an initializer can't bear an output's name;
 * QuantizeLinear, DequantizeLinear and the like, since the weights of a quantized network would
 * become floats again, and the pairs that state how they were quantized would be lost on fuse-qdq;
 * what would take much more space in the file than its operands; what would take seconds; what its
 * kernel refuses, which then fails when it is run. */
#include <stdlib.h>

#include "base/diag.h"
#include "base/size.h"
#include "ops/cost.h"
#include "ops/ops.h"
#include "ops/shapes.h"
#include "pass/pass.h"

/* A node may make so many bytes out of nothing, and take so many operations. */
enum { MOST_BYTES = 4 << 20, MOST_OPERATIONS = 1 << 30 };

struct folding {
    struct tmk_rewrite *rw;
    struct tmk_inferred certain;
    bool changed;
    const struct tmk_tensor *in[TMK_MAX_INPUTS];
    struct tmk_infer_result results[TMK_MAX_OUTPUTS];
    struct tmk_tensor made[TMK_MAX_OUTPUTS];
};

/* A result has a consumer, and all of them may become initializers. */
static bool is_wanted(const struct folding *f, const struct tmk_node *node) {
    bool needed = false;
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        if (!node->outputs[i])
            continue;
        if (node->outputs[i]->n_graph_outputs)
            return false;
        needed |= tmk_rewrite_is_needed(f->rw, node->outputs[i]);
    }
    return needed;
}

/* What of the operand does not depend on the graph's inputs, as far as the node looks. */
static const struct tmk_tensor *constant_operand(const struct folding *f,
                                                 const struct tmk_node *node,
                                                 const struct tmk_value *value) {
    const struct tmk_tensor *constant = tmk_value_constant(value);
    if (constant || !tmk_node_has(node, TMK_TRAIT_SHAPE_ONLY) ||
        value->kind == TMK_VALUE_INITIALIZER)
        return constant;
    const struct tmk_tensor *certain = &f->certain.tensors[value->index];
    return certain->dtype != TMK_UNDEFINED ? certain : NULL;
}

static bool gather_operands(struct folding *f, const struct tmk_node *node, size_t *bytes) {
    *bytes = 0;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        f->in[i] = node->inputs[i] ? constant_operand(f, node, node->inputs[i]) : NULL;
        if (node->inputs[i] && !f->in[i])
            return false;
        if (f->in[i])
            *bytes += tmk_tensor_bytes(f->in[i]);
    }
    return true;
}

static bool is_reasonable(size_t made, size_t from) {
    return made <= MOST_BYTES || made <= from;
}

static bool will_be_reasonable(const struct folding *f, const struct tmk_node *node, size_t from) {
    size_t made = 0;
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        size_t bytes = 0;
        if (node->outputs[i] && f->results[i].known &&
            (!tmk_shape_count(&f->results[i].shape, &bytes) ||
             !tmk_mul_size(bytes, tmk_dtype_size(f->results[i].dtype), &bytes) ||
             !tmk_add_size(made, bytes, &made)))
            return false;
    }
    return is_reasonable(made, from);
}

static bool was_reasonable(const struct folding *f, const struct tmk_node *node, size_t from) {
    size_t made = 0;
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        if (!node->outputs[i])
            continue;
        if (f->made[i].kind != TMK_TYPE_TENSOR || !f->made[i].data)
            return false;
        made += tmk_tensor_bytes(&f->made[i]);
    }
    return is_reasonable(made, from);
}

static enum tmk_status replace_by_constant(struct folding *f, struct tmk_node *node) {
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i] && tmk_rewrite_is_needed(f->rw, node->outputs[i]))
            TMK_TRY(tmk_rewrite_fold(f->rw, node->outputs[i], &f->made[i]));
    tmk_rewrite_remove(f->rw, node);
    f->changed = true;
    return TMK_OK;
}

/* A Constant's tensor is not copied. */
static bool compute_node(struct folding *f, const struct tmk_node *node) {
    const struct tmk_tensor *held = node->outputs[0] ? tmk_value_constant(node->outputs[0]) : NULL;
    if (!held || held->dtype != f->results[0].dtype)
        return tmk_op_run(node, f->in, f->made, NULL) == TMK_OK;
    tmk_tensor_share(&f->made[0], held);
    return true;
}

static enum tmk_status fold_constant_node(struct folding *f, struct tmk_node *node) {
    size_t from;
    if (node->row->flags & TMK_OP_IMPURE || tmk_node_has(node, TMK_TRAIT_RECODES) ||
        !is_wanted(f, node) || !gather_operands(f, node, &from))
        return TMK_OK;
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "Constant"))
        from = SIZE_MAX; /* its attribute holds as much */
    if (tmk_op_infer(node, f->in, f->results, NULL) != TMK_OK ||
        !will_be_reasonable(f, node, from) ||
        tmk_op_cost(node, f->in, f->results) > MOST_OPERATIONS || !compute_node(f, node))
        return TMK_OK;
    enum tmk_status status = was_reasonable(f, node, from) ? replace_by_constant(f, node) : TMK_OK;
    for (uint32_t i = 0; i < node->n_outputs; i++)
        tmk_tensor_finish(&f->made[i]);
    return status;
}

static enum tmk_status fold_graph(struct folding *f, struct tmk_graph *graph) {
    for (struct tmk_node *node = graph->first, *next; node; node = next) {
        next = node->next;
        TMK_TRY(fold_constant_node(f, node));
    }
    return TMK_OK;
}

/* Again, as long as numbers that were folded make more shapes certain. */
static enum tmk_status fold_all(struct folding *f) {
    struct tmk_graph *root = f->rw->graph;
    do {
        f->changed = false;
        enum tmk_status status = tmk_infer_certain(root, &f->certain, f->rw->diag);
        for (struct tmk_graph *g = root; g && status == TMK_OK; g = tmk_graph_next(root, g))
            status = fold_graph(f, g);
        tmk_inferred_finish(&f->certain);
        TMK_TRY(status);
    } while (f->changed);
    return TMK_OK;
}

static enum tmk_status fold_constants(struct tmk_rewrite *rw) {
    struct folding *f = calloc(1, sizeof *f);
    TMK_TRY_ALLOC(f, rw->diag);
    f->rw = rw;
    const enum tmk_status status = fold_all(f);
    free(f);
    return status;
}

const struct tmk_pass tmk_pass_fold_constant = {
    "fold-constant", "computes what depends on no input, and keeps the result", fold_constants};
