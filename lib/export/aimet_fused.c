/* SPDX-License-Identifier: Apache-2.0 */
/* Values within the operators that AIMET fuses. */
#include "export/aimet_fused.h"

#include <stdbool.h>

enum { MOST = 8 };

/* Nodes between the input of a normalization and its quotient, each with its first output. */
struct norm {
    const struct tmk_node *quotient, *nodes[MOST];
    uint32_t n;
};

struct counts {
    uint32_t *within, n;
};

static const struct tmk_node *made_by(const struct tmk_value *value, const char *op) {
    return value && value->producer && tmk_node_is(value->producer, TMK_DOMAIN_ONNX, op)
               ? value->producer
               : NULL;
}

static bool is_stored(const struct tmk_value *value) {
    return value && value->kind == TMK_VALUE_INITIALIZER;
}

/* The operand of a node that is added; NULL, and nothing is added, where there is no node. */
static const struct tmk_value *enter_node(struct norm *norm, const struct tmk_node *node,
                                          uint32_t side) {
    if (!node || norm->n == MOST)
        return NULL;
    norm->nodes[norm->n++] = node;
    return node->inputs[side];
}

/* The x of mean(x * x) + epsilon or mean(Pow(x, 2)) + epsilon. */
static const struct tmk_value *enter_mean_square(struct norm *norm, const struct tmk_value *value) {
    const struct tmk_node *add = made_by(value, "Add");
    for (uint32_t side = 0; add && side < 2; side++) {
        if (!made_by(add->inputs[side], "ReduceMean") || !is_stored(add->inputs[1 - side]))
            continue;
        const struct tmk_value *mean = enter_node(norm, add, side);
        const struct tmk_value *square = enter_node(norm, made_by(mean, "ReduceMean"), 0);
        const struct tmk_node *product = made_by(square, "Mul"), *power = made_by(square, "Pow");
        if (product && product->inputs[0] == product->inputs[1])
            return enter_node(norm, product, 0);
        return power && is_stored(power->inputs[1]) ? enter_node(norm, power, 0) : NULL;
    }
    return NULL;
}

/* Under the root that the quotient's operand is, or is the reciprocal of. */
static const struct tmk_value *enter_root(struct norm *norm, const struct tmk_value *value) {
    const struct tmk_node *reciprocal = made_by(value, "Reciprocal"), *div = made_by(value, "Div");
    const struct tmk_node *power = made_by(value, "Pow");
    if (tmk_node_is(norm->quotient, TMK_DOMAIN_ONNX, "Mul")) {
        if (power && is_stored(power->inputs[1]))
            return enter_node(norm, power, 0);
        value = reciprocal                         ? enter_node(norm, reciprocal, 0)
                : div && is_stored(div->inputs[0]) ? enter_node(norm, div, 1)
                                                   : NULL;
    }
    return enter_node(norm, made_by(value, "Sqrt"), 0);
}

static bool is_within(const struct norm *norm, const struct tmk_node *node) {
    bool found = node == norm->quotient;
    for (uint32_t i = 0; i < norm->n; i++)
        found = found || node == norm->nodes[i];
    return found;
}

/* Does nothing else read what is within? */
static bool is_closed(const struct norm *norm) {
    for (uint32_t i = 0; i < norm->n; i++) {
        const struct tmk_value *value = norm->nodes[i]->outputs[0];
        if (value->n_graph_outputs)
            return false;
        for (uint32_t k = 0; k < value->n_uses; k++)
            if (!is_within(norm, value->uses[k].node))
                return false;
    }
    return true;
}

/* x = y - mean(y), with axes as operator sets before 18 have them. */
static void enter_centred(struct norm *norm, const struct tmk_value *x) {
    struct norm more = *norm;
    const struct tmk_node *sub = made_by(x, "Sub");
    const struct tmk_node *mean = sub ? made_by(sub->inputs[1], "ReduceMean") : NULL;
    if (!mean || mean->n_inputs != 1 || mean->inputs[0] != sub->inputs[0])
        return;
    enter_node(&more, sub, 0);
    enter_node(&more, mean, 0);
    if (is_closed(&more))
        *norm = more;
}

static bool find_norm(struct norm *norm, const struct tmk_node *quotient, uint32_t side) {
    const struct tmk_value *x = quotient->inputs[1 - side];
    *norm = (struct norm){.quotient = quotient};
    return enter_mean_square(norm, enter_root(norm, quotient->inputs[side])) == x && x &&
           is_closed(norm);
}

static void add_uses(const struct counts *counts, const struct tmk_value *value, uint32_t uses) {
    if (value && value->profile_id >= 0 && value->profile_id < counts->n)
        counts->within[value->profile_id] += uses;
}

/* The only node that reads it, if the operator is that. */
static const struct tmk_node *only_reader(const struct tmk_value *value, const char *op) {
    return value && value->n_uses == 1 && !value->n_graph_outputs &&
                   tmk_node_is(value->uses[0].node, TMK_DOMAIN_ONNX, op)
               ? value->uses[0].node
               : NULL;
}

static void count_norm(const struct counts *counts, struct norm *norm, const struct tmk_value *x) {
    const uint32_t n = norm->n;
    enter_centred(norm, x);
    for (uint32_t i = 0; i < norm->n; i++) {
        add_uses(counts, norm->nodes[i]->outputs[0], norm->nodes[i]->outputs[0]->n_uses);
        for (uint32_t k = 0; k < norm->nodes[i]->n_inputs; k++)
            if (is_stored(norm->nodes[i]->inputs[k]))
                add_uses(counts, norm->nodes[i]->inputs[k], 1);
    }
    const struct tmk_value *y = norm->quotient->outputs[0];
    /* Back to a narrow type that a Cast came from. */
    const struct tmk_node *cast = made_by(x, "Cast") ? only_reader(y, "Cast") : NULL;
    const struct tmk_node *scale = only_reader(cast ? cast->outputs[0] : y, "Mul");
    if (!scale)
        return;
    add_uses(counts, y, 1);
    if (cast)
        add_uses(counts, cast->outputs[0], 1);
    if (norm->n > n && only_reader(scale->outputs[0], "Add"))
        add_uses(counts, scale->outputs[0], 1);
}

/* MatMul(x, weights) + bias, the weights perhaps behind a Transpose. */
static void count_product(const struct counts *counts, const struct tmk_node *product) {
    const struct tmk_value *y = product->outputs[0], *weights = product->inputs[1];
    const struct tmk_node *add = only_reader(y, "Add"), *move = made_by(weights, "Transpose");
    const struct tmk_value *bias = add ? add->inputs[1 - y->uses[0].input] : NULL;
    const struct tmk_value *stored = move ? move->inputs[0] : weights;
    if (!is_stored(bias) || bias->type.shape.rank != 1 || !is_stored(stored) ||
        stored->type.shape.rank != 2)
        return;
    add_uses(counts, y, 1);
    if (move && only_reader(weights, "MatMul"))
        add_uses(counts, weights, 1);
}

void tmk_aimet_count_fused(const struct tmk_graph *graph, uint32_t *within, uint32_t n) {
    const struct counts counts = {within, n};
    struct norm norm;
    for (const struct tmk_node *node = graph->first; node; node = node->next) {
        if (tmk_node_is(node, TMK_DOMAIN_ONNX, "MatMul"))
            count_product(&counts, node);
        const bool div = tmk_node_is(node, TMK_DOMAIN_ONNX, "Div");
        if (!div && !tmk_node_is(node, TMK_DOMAIN_ONNX, "Mul"))
            continue;
        for (uint32_t side = div; side < 2; side++)
            if (find_norm(&norm, node, side)) {
                count_norm(&counts, &norm, node->inputs[1 - side]);
                break;
            }
    }
}
