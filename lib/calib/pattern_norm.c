/* SPDX-License-Identifier: Apache-2.0 */
/* Normalizations: from a square root of a mean of squares to both sides. */
#include <stddef.h>

#include "calib/pattern_find.h"

static const char *const means[] = {"ReduceMean", "ReduceSum", "ReduceSumSquare",
                                    "GlobalAveragePool", NULL};

/* Back over moves and products with constants, such as 1 / n. */
static uint32_t back_over_scale(const struct tmk_finder *f, uint32_t node,
                                struct tmk_found_nodes *found) {
    for (int i = 0; i < 4; i++) {
        node = tmk_before_moves(f, node);
        const uint32_t side = tmk_varying_side(f, node);
        if (side == TMK_NET_NONE || tmk_is_op(f, node, "Add") || tmk_is_op(f, node, "Sub"))
            break;
        tmk_found_add(found, node);
        node = tmk_maker_of(f, node, side);
    }
    return node;
}

/* Back over epsilon, max and n / (n - 1): what the root is taken of. */
static uint32_t back_to_mean(const struct tmk_finder *f, uint32_t node,
                             struct tmk_found_nodes *found) {
    static const char *const bounds[] = {"Max", "Clip", NULL};
    for (int i = 0; i < 4; i++) {
        node = tmk_before_moves(f, node);
        const bool bound = tmk_is_any(f, node, bounds);
        uint32_t side = bound ? 0 : tmk_varying_side(f, node);
        if (side == TMK_NET_NONE)
            break;
        const uint32_t v = tmk_net_input(f->net, node, 0);
        if (bound && v != TMK_NET_NONE && !f->net->varies[v])
            side = 1;
        tmk_found_add(found, node);
        node = tmk_maker_of(f, node, side);
    }
    return node;
}

/* mean(x^2) - mean(x)^2 */
static bool is_variance(const struct tmk_finder *f, uint32_t sub, struct tmk_found_nodes *found,
                        uint32_t *mean) {
    const uint32_t square = tmk_before_moves(f, tmk_maker_of(f, sub, 1));
    const uint32_t of = square == TMK_NET_NONE ? TMK_NET_NONE : tmk_square_of(f, square);
    if (!tmk_is_op(f, sub, "Sub") || of == TMK_NET_NONE)
        return false;
    const uint32_t inner = back_over_scale(f, f->net->maker[of], found);
    if (!tmk_is_any(f, inner, means))
        return false;
    tmk_found_add(found, sub);
    tmk_found_add(found, square);
    tmk_found_add(found, inner);
    *mean = back_over_scale(f, tmk_maker_of(f, sub, 0), found);
    return true;
}

/* x - mean(x) */
static bool is_centred(const struct tmk_finder *f, uint32_t sub, struct tmk_found_nodes *found) {
    struct tmk_found_nodes scales = {.n = 0};
    const uint32_t mean = tmk_is_op(f, sub, "Sub")
                              ? back_over_scale(f, tmk_maker_of(f, sub, 1), &scales)
                              : TMK_NET_NONE;
    if (!tmk_is_any(f, mean, means) ||
        tmk_net_input(f->net, mean, 0) != tmk_net_input(f->net, sub, 0))
        return false;
    for (uint32_t i = 0; i < scales.n; i++)
        tmk_found_add(found, scales.node[i]);
    tmk_found_add(found, sub);
    tmk_found_add(found, mean);
    return true;
}

/* Before the root; TMK_PATTERN_NONE: it is of no normalization. */
static enum tmk_pattern head_of(const struct tmk_finder *f, uint32_t root,
                                struct tmk_found_nodes *found, uint32_t *source) {
    uint32_t mean = back_to_mean(f, tmk_maker_of(f, root, 0), found);
    const bool variance = is_variance(f, mean, found, &mean);
    if (!tmk_is_any(f, mean, means))
        return TMK_PATTERN_NONE;
    tmk_found_add(found, mean);
    uint32_t x = tmk_net_input(f->net, mean, 0);
    if (!tmk_is_op(f, mean, "ReduceSumSquare")) {
        const uint32_t square = tmk_maker_of(f, mean, 0);
        x = square == TMK_NET_NONE ? TMK_NET_NONE : tmk_square_of(f, square);
        if (x == TMK_NET_NONE)
            return TMK_PATTERN_NONE;
        tmk_found_add(found, square);
    }
    const uint32_t before = tmk_net_maker(f->net, x);
    const bool centred = before != TMK_NET_NONE && is_centred(f, before, found);
    *source = centred ? tmk_maker_of(f, before, 0) : before;
    if (variance || centred)
        return TMK_PATTERN_LAYER_NORM;
    return tmk_is_op(f, mean, "ReduceMean") ? TMK_PATTERN_RMS_NORM : TMK_PATTERN_L2_NORM;
}

/* Behind the quotient: scale and bias, and moves before them. *reshaped: a Reshape was among. */
static void add_affine(const struct tmk_finder *f, uint32_t node, struct tmk_found_nodes *found,
                       bool *reshaped) {
    for (int i = 0; i < 4; i++) {
        uint32_t next = tmk_only_reader(f, node);
        const uint32_t move = next;
        if (tmk_is_move(f, next)) {
            *reshaped = *reshaped || tmk_is_op(f, next, "Reshape");
            next = tmk_only_reader(f, next);
        }
        if ((!tmk_is_op(f, next, "Mul") && !tmk_is_op(f, next, "Add")) ||
            tmk_varying_side(f, next) == TMK_NET_NONE)
            return;
        if (move != next)
            tmk_found_add(found, move);
        tmk_found_add(found, next);
        node = next;
    }
}

/* What reads the root or its reciprocal: x / root, x * 1/root. */
static bool add_quotients(const struct tmk_finder *f, uint32_t root, int depth,
                          struct tmk_found_nodes *found, bool *reshaped) {
    static const char *const between[] = {"Reciprocal", "Clip", "Max", "Add", NULL};
    const uint32_t y = tmk_net_output(f->net, root, 0);
    bool any = false;
    for (uint32_t k = y == TMK_NET_NONE ? 0 : f->net->first_use[y];
         y != TMK_NET_NONE && k < f->net->first_use[y + 1] && k < f->net->first_use[y] + 8; k++) {
        const struct tmk_net_use use = f->net->uses[k];
        const bool divides =
            (tmk_is_op(f, use.node, "Div") && use.input == 1) || tmk_is_op(f, use.node, "Mul");
        const bool scales = divides && tmk_varying_side(f, use.node) != TMK_NET_NONE;
        if (divides && !scales) {
            tmk_found_add(found, use.node);
            (void)is_centred(f, tmk_maker_of(f, use.node, 1 - use.input), found);
            add_affine(f, use.node, found, reshaped);
            any = true;
        } else if ((scales || tmk_is_any(f, use.node, between) || tmk_is_move(f, use.node)) &&
                   depth < 4 && add_quotients(f, use.node, depth + 1, found, reshaped)) {
            tmk_found_add(found, use.node);
            any = true;
        }
    }
    return any;
}

static bool is_root(const struct tmk_finder *f, uint32_t node) {
    double power;
    return tmk_is_op(f, node, "Sqrt") ||
           (tmk_is_op(f, node, "Pow") &&
            tmk_constant_is(f, tmk_net_input(f->net, node, 1), &power) &&
            (power == 0.5 || power == -0.5));
}

static void find_at_root(struct tmk_finder *f, uint32_t root) {
    struct tmk_found_nodes found = {.n = 0};
    const bool norm = tmk_is_op(f, root, "ReduceL2");
    uint32_t source = TMK_NET_NONE;
    bool reshaped = false;
    enum tmk_pattern pattern = norm ? TMK_PATTERN_L2_NORM : head_of(f, root, &found, &source);
    tmk_found_add(&found, root);
    if (pattern == TMK_PATTERN_NONE || !add_quotients(f, root, 0, &found, &reshaped))
        return;
    if (pattern == TMK_PATTERN_LAYER_NORM && reshaped && tmk_is_op(f, source, "Reshape"))
        pattern = TMK_PATTERN_GROUP_NORM;
    tmk_found_keep(f, &found, pattern);
}

/* Normalizations that are one operator. */
static const struct {
    const char *op;
    enum tmk_pattern pattern;
} whole[] = {
    {"LayerNormalization", TMK_PATTERN_LAYER_NORM},
    {"SkipLayerNormalization", TMK_PATTERN_LAYER_NORM},
    {"MeanVarianceNormalization", TMK_PATTERN_LAYER_NORM},
    {"RMSNormalization", TMK_PATTERN_RMS_NORM},
    {"SimplifiedLayerNormalization", TMK_PATTERN_RMS_NORM},
    {"SkipSimplifiedLayerNormalization", TMK_PATTERN_RMS_NORM},
    {"GroupNormalization", TMK_PATTERN_GROUP_NORM},
    {"InstanceNormalization", TMK_PATTERN_GROUP_NORM},
    {"LpNormalization", TMK_PATTERN_L2_NORM},
    {"LRN", TMK_PATTERN_L2_NORM},
    {NULL, TMK_PATTERN_NONE},
};

void tmk_find_norms(struct tmk_finder *f) {
    for (uint32_t i = 0; i < f->net->n_nodes; i++) {
        if (is_root(f, i) || tmk_is_op(f, i, "ReduceL2"))
            find_at_root(f, i);
        for (size_t k = 0; whole[k].op; k++)
            if (tmk_is_op(f, i, whole[k].op)) {
                struct tmk_found_nodes found = {.n = 0};
                bool reshaped = false;
                tmk_found_add(&found, i);
                if (whole[k].pattern == TMK_PATTERN_GROUP_NORM)
                    add_affine(f, i, &found, &reshaped);
                tmk_found_keep(f, &found, whole[k].pattern);
            }
    }
}
