/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax, what stands between it and the product of queries and keys, and positions. */
#include <stddef.h>

#include "calib/pattern_find.h"

/* ---- Softmax ---- */

/* exp(x - max) / sum, or x - log(sum(exp(x))) */
static void find_softmax_at(struct tmk_finder *f, uint32_t sum) {
    struct tmk_found_nodes found = {.n = 0};
    const uint32_t exp = tmk_maker_of(f, sum, 0), shift = tmk_maker_of(f, exp, 0);
    if (!tmk_is_op(f, exp, "Exp"))
        return;
    tmk_found_add(&found, exp);
    tmk_found_add(&found, sum);
    if (tmk_is_op(f, shift, "Sub")) {
        uint32_t most = tmk_before_moves(f, tmk_maker_of(f, shift, 1));
        if (tmk_is_op(f, most, "Max")) /* with the lowest number */
            most = tmk_maker_of(f, most, tmk_maker_of(f, most, 0) == TMK_NET_NONE);
        if (tmk_is_op(f, most, "ReduceMax")) {
            tmk_found_add(&found, shift);
            tmk_found_add(&found, most);
        }
    }
    uint32_t next = tmk_only_reader(f, sum);
    for (int i = 0; i < 4 && tmk_is_move(f, next); i++)
        next = tmk_only_reader(f, next);
    if (tmk_is_op(f, next, "Log")) {
        tmk_found_add(&found, next);
        next = tmk_only_reader(f, next);
    }
    if (!tmk_is_op(f, next, "Div") && !tmk_is_op(f, next, "Sub"))
        return;
    tmk_found_add(&found, next);
    tmk_found_keep(f, &found, TMK_PATTERN_SOFTMAX);
}

/* ---- attention ---- */

static bool is_product_of_two(const struct tmk_finder *f, uint32_t node) {
    return tmk_is_product(f, node) && !tmk_is_layer(f, node);
}

enum { MOST_DEPTH = 8 };

/* From Softmax back to a product of two values: its number, and what stands between. */
static uint32_t back_to_scores(const struct tmk_finder *f, uint32_t node, int depth,
                               struct tmk_found_nodes *found) {
    static const char *const between[] = {"Add", "Sub", "Mul", "Div", "Where", "Max", NULL};
    if (node == TMK_NET_NONE || depth > MOST_DEPTH || is_product_of_two(f, node))
        return depth > MOST_DEPTH ? TMK_NET_NONE : node;
    if (!tmk_is_move(f, node) && !tmk_is_any(f, node, between))
        return TMK_NET_NONE;
    for (uint32_t i = 0; i < 3 && i < f->net->nodes[node].n_inputs; i++) {
        const uint32_t v = tmk_net_input(f->net, node, i);
        if (!tmk_net_varies(f->net, v))
            continue;
        const uint32_t scores = back_to_scores(f, f->net->maker[v], depth + 1, found);
        if (scores != TMK_NET_NONE) {
            if (!tmk_is_move(f, node))
                tmk_found_add(found, node);
            return scores;
        }
    }
    return TMK_NET_NONE;
}

/* Scales of queries and keys, before their product. */
static void add_scales(const struct tmk_finder *f, uint32_t scores, struct tmk_found_nodes *found) {
    double scale;
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t node = tmk_before_moves(f, tmk_maker_of(f, scores, i)),
                       side = tmk_varying_side(f, node);
        if (side != TMK_NET_NONE && !tmk_is_op(f, node, "Add") && !tmk_is_op(f, node, "Sub") &&
            tmk_constant_is(f, tmk_net_input(f->net, node, 1 - side), &scale))
            tmk_found_add(found, node);
    }
}

/* The arithmetic that a mask is made by, if it is of no product. */
static bool add_mask(const struct tmk_finder *f, uint32_t node, int depth,
                     struct tmk_found_nodes *mask) {
    if (node == TMK_NET_NONE)
        return true;
    if (depth > MOST_DEPTH || tmk_is_product(f, node))
        return false;
    tmk_found_add(mask, node);
    for (uint32_t i = 0; i < f->net->nodes[node].n_inputs; i++) {
        const uint32_t v = tmk_net_input(f->net, node, i);
        if (tmk_net_varies(f->net, v) && !add_mask(f, f->net->maker[v], depth + 1, mask))
            return false;
    }
    return true;
}

static void find_attention_at(struct tmk_finder *f, uint32_t softmax) {
    struct tmk_found_nodes found = {.n = 0};
    uint32_t first = softmax, before = tmk_maker_of(f, softmax, 0);
    while (first != TMK_NET_NONE && f->out->of[first] == TMK_PATTERN_SOFTMAX && before != first &&
           before != TMK_NET_NONE && f->out->of[before] == TMK_PATTERN_SOFTMAX) {
        first = before;
        before = tmk_maker_of(f, first, 0);
    }
    const uint32_t scores = back_to_scores(f, before, 0, &found);
    if (scores == TMK_NET_NONE)
        return;
    add_scales(f, scores, &found);
    for (uint32_t n = found.n, i = 0; i < n; i++)
        for (uint32_t k = 0; k < f->net->nodes[found.node[i]].n_inputs; k++) {
            struct tmk_found_nodes mask = {.n = 0};
            const uint32_t v = tmk_net_input(f->net, found.node[i], k);
            if (tmk_net_varies(f->net, v) && add_mask(f, f->net->maker[v], 0, &mask))
                for (uint32_t m = 0; m < mask.n; m++)
                    tmk_found_add(&found, mask.node[m]);
        }
    tmk_found_keep(f, &found, TMK_PATTERN_ATTENTION);
}

void tmk_find_attention(struct tmk_finder *f) {
    static const char *const softmax[] = {"Softmax", "LogSoftmax", NULL};
    for (uint32_t i = 0; i < f->net->n_nodes; i++)
        if (tmk_is_any(f, i, softmax))
            tmk_found_one(f, i, TMK_NET_NONE, TMK_PATTERN_SOFTMAX);
        else if (tmk_is_op(f, i, "ReduceSum"))
            find_softmax_at(f, i);
    for (uint32_t i = 0; i < f->net->n_nodes; i++)
        if (f->out->of[i] == TMK_PATTERN_SOFTMAX &&
            (tmk_is_any(f, i, softmax) || tmk_is_op(f, i, "Div")))
            find_attention_at(f, i);
}

/* ---- positions ---- */

/* Add of a constant along two axes or more: one a position and channel. */
static bool adds_positions(const struct tmk_finder *f, uint32_t node) {
    const uint32_t side = tmk_is_op(f, node, "Add") ? tmk_varying_side(f, node) : TMK_NET_NONE;
    const uint32_t v = side == TMK_NET_NONE ? TMK_NET_NONE : tmk_net_input(f->net, node, 1 - side);
    int axes = 0;
    if (v == TMK_NET_NONE)
        return false;
    const struct tmk_profile_tensor *t = tmk_net_tensor(f->net, v);
    for (int32_t i = 0; t->has_shape && i < t->shape.rank; i++)
        axes += t->shape.dim[i] != 1;
    return axes > 1;
}

/* concat(-b, a) of halves of x: its products with sines, and their sum with x cos. */
static void find_rotary_at(struct tmk_finder *f, uint32_t concat) {
    struct tmk_found_nodes found = {.n = 0};
    for (uint32_t i = 0; i < f->net->nodes[concat].n_inputs && i < 4; i++) {
        const uint32_t node = tmk_maker_of(f, concat, i);
        if (tmk_is_op(f, node, "Neg"))
            tmk_found_add(&found, node);
    }
    const uint32_t product = tmk_only_reader(f, concat), sum = tmk_only_reader(f, product);
    if (!found.n || !tmk_is_op(f, product, "Mul") || !tmk_is_op(f, sum, "Add"))
        return;
    tmk_found_add(&found, concat);
    tmk_found_add(&found, product);
    tmk_found_add(&found, sum);
    for (uint32_t i = 0; i < 2; i++)
        if (tmk_is_op(f, tmk_maker_of(f, sum, i), "Mul"))
            tmk_found_add(&found, tmk_maker_of(f, sum, i));
    tmk_found_keep(f, &found, TMK_PATTERN_POSITION);
}

/* Sines and cosines, and products with them. */
static void find_waves_at(struct tmk_finder *f, uint32_t wave) {
    struct tmk_found_nodes found = {.n = 0};
    const uint32_t y = tmk_net_output(f->net, wave, 0);
    const uint32_t before = tmk_maker_of(f, wave, 0);
    tmk_found_add(&found, wave);
    if (tmk_varying_side(f, before) != TMK_NET_NONE)
        tmk_found_add(&found, before);
    for (uint32_t k = y == TMK_NET_NONE ? 0 : f->net->first_use[y];
         y != TMK_NET_NONE && k < f->net->first_use[y + 1] && found.n < 16; k++)
        if (tmk_is_op(f, f->net->uses[k].node, "Mul"))
            tmk_found_add(&found, f->net->uses[k].node);
    tmk_found_keep(f, &found, TMK_PATTERN_POSITION);
}

void tmk_find_positions(struct tmk_finder *f) {
    static const char *const waves[] = {"Sin", "Cos", NULL};
    static const char *const whole[] = {"RotaryEmbedding", NULL};
    for (uint32_t i = 0; i < f->net->n_nodes; i++)
        if (tmk_is_op(f, i, "Concat"))
            find_rotary_at(f, i);
        else if (tmk_is_any(f, i, waves))
            find_waves_at(f, i);
        else if (adds_positions(f, i) || tmk_is_any(f, i, whole))
            tmk_found_one(f, i, TMK_NET_NONE, TMK_PATTERN_POSITION);
}
