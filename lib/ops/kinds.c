/* SPDX-License-Identifier: Apache-2.0 */
/* Which results are sequences or optionals, where the model does not declare it. */
#include "ops/ops.h"

static enum tmk_type_kind optional_of(enum tmk_type_kind kind) {
    return kind == TMK_TYPE_SEQUENCE ? TMK_TYPE_OPTIONAL_SEQUENCE : TMK_TYPE_OPTIONAL;
}

static enum tmk_type_kind element_of(enum tmk_type_kind kind) {
    return kind == TMK_TYPE_OPTIONAL            ? TMK_TYPE_TENSOR
           : kind == TMK_TYPE_OPTIONAL_SEQUENCE ? TMK_TYPE_SEQUENCE
                                                : kind;
}

static enum tmk_type_kind operand_kind(const struct tmk_node *node, uint32_t i) {
    return i < node->n_inputs && node->inputs[i] ? node->inputs[i]->type.kind : TMK_TYPE_TENSOR;
}

/* The kind of output i of the node's graph. */
static enum tmk_type_kind made_by_graph(const struct tmk_node *node, const char *name, uint32_t i) {
    const struct tmk_graph *graph = tmk_node_attr(node, name)->graphs[0];
    return i < graph->n_outputs ? graph->outputs[i]->type.kind : TMK_TYPE_TENSOR;
}

static enum tmk_type_kind kind_of(const struct tmk_node *node, uint32_t i) {
    if (node->row->flags & TMK_OP_MAKES_SEQUENCES)
        return TMK_TYPE_SEQUENCE;
    if (tmk_node_is(node, "ai.onnx.ml",
                    "ZipMap")) /* to all others; here the scores stay a tensor */
        return TMK_TYPE_SEQUENCE;
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "Identity") || tmk_node_is_observer(node))
        return operand_kind(node, 0);
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "Optional")) {
        const struct tmk_attr *type = tmk_node_attr(node, "type");
        return optional_of(type ? type->type->kind : operand_kind(node, 0));
    }
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "OptionalGetElement"))
        return element_of(operand_kind(node, 0));
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "If"))
        return made_by_graph(node, "then_branch", i);
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "Loop") && i + 2 < node->n_inputs)
        return made_by_graph(node, "body", i + 1);
    return TMK_TYPE_TENSOR;
}

static void set_kind(struct tmk_value *value, enum tmk_type_kind kind) {
    if (value && value->type.kind == TMK_TYPE_TENSOR && value->type.dtype == TMK_UNDEFINED)
        value->type.kind = kind;
}

static void set_carried_kinds(const struct tmk_node *node) {
    const struct tmk_graph *body = tmk_node_attr(node, "body")->graphs[0];
    for (uint32_t i = 2; i < node->n_inputs && i < body->n_inputs; i++)
        set_kind(body->inputs[i], operand_kind(node, i));
}

void tmk_ops_kinds(struct tmk_graph *graph) {
    for (struct tmk_node *node = graph->first; node; node = node->next) {
        if (!node->row)
            continue;
        if (tmk_node_is(node, TMK_DOMAIN_ONNX, "Loop"))
            set_carried_kinds(node);
        for (uint32_t a = 0; a < node->n_attrs; a++)
            for (size_t k = 0; node->attrs[a].kind == TMK_ATTR_GRAPH && k < node->attrs[a].n; k++)
                tmk_ops_kinds(node->attrs[a].graphs[k]);
        for (uint32_t i = 0; i < node->n_outputs; i++)
            set_kind(node->outputs[i], kind_of(node, i));
    }
}
