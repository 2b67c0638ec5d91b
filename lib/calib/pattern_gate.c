/* SPDX-License-Identifier: Apache-2.0 */
/* Activation functions of the form x f(x): from f to the product with x. */
#include <stddef.h>

#include "calib/pattern_find.h"

static const struct {
    const char *op;
    enum tmk_pattern pattern;
    bool whole; /* the function x f(x) itself */
} gates[] = {
    {"Erf", TMK_PATTERN_GELU, false},        {"Tanh", TMK_PATTERN_GELU, false},
    {"Sigmoid", TMK_PATTERN_SILU, false},    {"HardSigmoid", TMK_PATTERN_HARD_SWISH, false},
    {"Clip", TMK_PATTERN_HARD_SWISH, false}, {"Gelu", TMK_PATTERN_GELU, true},
    {"FastGelu", TMK_PATTERN_GELU, true},    {"BiasGelu", TMK_PATTERN_GELU, true},
    {"QuickGelu", TMK_PATTERN_GELU, true},   {"Swish", TMK_PATTERN_SILU, true},
    {"Mish", TMK_PATTERN_SILU, true},        {"HardSwish", TMK_PATTERN_HARD_SWISH, true},
    {NULL, TMK_PATTERN_NONE, false},
};

/* The values that a node's operand is computed from by pointwise arithmetic, and by which nodes. */
struct behind {
    uint32_t values[24], n_values;
    struct tmk_found_nodes nodes;
};

static bool has_value(const struct behind *b, uint32_t v) {
    for (uint32_t i = 0; i < b->n_values; i++)
        if (b->values[i] == v)
            return true;
    return false;
}

static void look_behind(const struct tmk_finder *f, uint32_t v, struct behind *b) {
    static const char *const pointwise[] = {"Add", "Sub",  "Mul", "Div",      "Pow",
                                            "Neg", "Cast", "Exp", "Softplus", NULL};
    const uint32_t node = tmk_net_maker(f->net, v);
    if (!tmk_net_varies(f->net, v) || has_value(b, v) ||
        b->n_values == sizeof b->values / sizeof *b->values)
        return;
    b->values[b->n_values++] = v;
    if (b->nodes.n >= 12 || !tmk_is_any(f, node, pointwise))
        return;
    tmk_found_add(&b->nodes, node);
    for (uint32_t i = 0; i < 2; i++)
        look_behind(f, tmk_net_input(f->net, node, i), b);
}

/* Whether x, or what x is a multiple of, is what the function is of. */
static bool is_of(const struct tmk_finder *f, uint32_t x, const struct behind *b, uint32_t *source,
                  uint32_t *scaled) {
    const uint32_t node = tmk_net_maker(f->net, x);
    *scaled = TMK_NET_NONE;
    *source = x;
    if (x == TMK_NET_NONE || has_value(b, x))
        return x != TMK_NET_NONE;
    const uint32_t side = tmk_varying_side(f, node);
    if (side == TMK_NET_NONE || tmk_is_op(f, node, "Add") || tmk_is_op(f, node, "Sub"))
        return false;
    *scaled = node;
    *source = tmk_net_input(f->net, node, side);
    return has_value(b, *source);
}

/* The nodes between x and f(x) only: not those that x is computed by. */
static void add_between(const struct tmk_finder *f, uint32_t v, uint32_t source, int depth,
                        const struct behind *b, struct tmk_found_nodes *found) {
    const uint32_t node = tmk_net_maker(f->net, v);
    if (v == source || node == TMK_NET_NONE || depth > 8 || !has_value(b, v))
        return;
    for (uint32_t i = 0; i < b->nodes.n; i++)
        if (b->nodes.node[i] == node) {
            tmk_found_add(found, node);
            for (uint32_t k = 0; k < 2; k++)
                add_between(f, tmk_net_input(f->net, node, k), source, depth + 1, b, found);
        }
}

/* From f(x) over f(x) + 1, f(x) / 6 and the like to the product: it, and the input that is x. */
static uint32_t product_after(const struct tmk_finder *f, uint32_t node,
                              struct tmk_found_nodes *found, uint32_t *x) {
    for (int i = 0; i < 4; i++) {
        const uint32_t y = tmk_net_output(f->net, node, 0), next = tmk_only_reader(f, node);
        const uint32_t a = tmk_net_input(f->net, next, 0), b = tmk_net_input(f->net, next, 1);
        if (tmk_is_op(f, next, "Mul") && tmk_varying_side(f, next) == TMK_NET_NONE) {
            *x = a == y ? b : a;
            tmk_found_add(found, next);
            return next;
        }
        if (tmk_varying_side(f, next) == TMK_NET_NONE)
            return TMK_NET_NONE;
        tmk_found_add(found, next);
        node = next;
    }
    return TMK_NET_NONE;
}

/* A sigmoid of 1.702 x is a GELU, a tanh of a softplus Mish. */
static enum tmk_pattern kind_of(const struct tmk_finder *f, enum tmk_pattern pattern,
                                uint32_t node) {
    const uint32_t before = tmk_maker_of(f, node, 0), side = tmk_varying_side(f, before);
    double factor;
    if (pattern == TMK_PATTERN_SILU && side != TMK_NET_NONE && tmk_is_op(f, before, "Mul") &&
        tmk_constant_is(f, tmk_net_input(f->net, before, 1 - side), &factor) && factor > 1.5 &&
        factor < 1.9)
        return TMK_PATTERN_GELU;
    return tmk_is_op(f, node, "Tanh") && tmk_is_op(f, before, "Softplus") ? TMK_PATTERN_SILU
                                                                          : pattern;
}

static void find_gate(struct tmk_finder *f, uint32_t node, enum tmk_pattern pattern) {
    struct tmk_found_nodes found = {.n = 0};
    struct behind behind = {.n_values = 0};
    uint32_t x = TMK_NET_NONE, source, scaled, last;
    double half;
    tmk_found_add(&found, node);
    const uint32_t product = product_after(f, node, &found, &x);
    if (product == TMK_NET_NONE)
        return;
    look_behind(f, tmk_net_input(f->net, node, 0), &behind);
    if (!is_of(f, x, &behind, &source, &scaled))
        return;
    tmk_found_add(&found, scaled);
    add_between(f, tmk_net_input(f->net, node, 0), source, 0, &behind, &found);
    last = tmk_only_reader(f, product);
    const uint32_t side = tmk_varying_side(f, last);
    if (side != TMK_NET_NONE && !tmk_is_op(f, last, "Add") && !tmk_is_op(f, last, "Sub") &&
        tmk_constant_is(f, tmk_net_input(f->net, last, 1 - side), &half))
        tmk_found_add(&found, last);
    tmk_found_keep(f, &found, kind_of(f, pattern, node));
}

void tmk_find_gates(struct tmk_finder *f) {
    for (uint32_t i = 0; i < f->net->n_nodes; i++)
        for (size_t k = 0; gates[k].op; k++) {
            if (!tmk_is_op(f, i, gates[k].op))
                continue;
            if (gates[k].whole)
                tmk_found_one(f, i, TMK_NET_NONE, gates[k].pattern);
            else
                find_gate(f, i, gates[k].pattern);
        }
}
