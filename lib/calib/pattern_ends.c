/* SPDX-License-Identifier: Apache-2.0 */
/* What stands before the first layers and behind the last ones, what becomes an index, and
 * functions of real numbers. Nodes stand in the order of their results' IDs: operands first. */
#include <stddef.h>
#include <string.h>

#include "calib/pattern_find.h"

static void clear_marks(struct tmk_finder *f) {
    memset(f->marked, 0, f->net->n_nodes * sizeof *f->marked);
}

/* ---- from the inputs ---- */

static bool is_affine(const struct tmk_finder *f, uint32_t node) {
    static const char *const others[] = {"BatchNormalization", "Neg", NULL};
    return tmk_varying_side(f, node) != TMK_NET_NONE || tmk_is_any(f, node, others);
}

/* It moves what depends on the data: no table that is looked up. */
static bool moves_data(const struct tmk_finder *f, uint32_t node) {
    const uint32_t x = tmk_net_input(f->net, node, 0);
    return tmk_is_move(f, node) && tmk_net_varies(f->net, x);
}

/* All that it is computed from is an input, or of nodes that are marked. */
static bool is_from(const struct tmk_finder *f, uint32_t node, const bool *marked) {
    bool any = false;
    for (uint32_t i = 0; i < f->net->nodes[node].n_inputs; i++) {
        const uint32_t v = tmk_net_input(f->net, node, i);
        if (!tmk_net_varies(f->net, v))
            continue;
        const uint32_t maker = f->net->maker[v];
        if (maker == TMK_NET_NONE ? tmk_net_tensor(f->net, v)->kind != TMK_PROFILE_INPUT
                                  : !marked[maker])
            return false;
        any = true;
    }
    return any;
}

/* Arithmetic with constants between the inputs and the first layer: with a scale of its own for
 * each step, 8 bits would be rounded several times. */
static void find_input_norms(struct tmk_finder *f) {
    for (uint32_t i = 0; i < f->net->n_nodes; i++)
        if ((moves_data(f, i) || is_affine(f, i)) && is_from(f, i, f->marked)) {
            f->marked[i] = true;
            if (!tmk_is_move(f, i))
                tmk_found_one(f, i, tmk_maker_of(f, i, 0), TMK_PATTERN_INPUT_NORM);
        }
    clear_marks(f);
}

/* Between a square and a logarithm or root of a spectrum. */
static bool keeps_energy(const struct tmk_finder *f, uint32_t node) {
    static const char *const sums[] = {"Add", "Sum", "ReduceSum", "Max", "Clip", NULL};
    return tmk_is_move(f, node) || tmk_is_layer(f, node) || is_affine(f, node) ||
           tmk_is_any(f, node, sums);
}

static bool is_spectral_end(const struct tmk_finder *f, uint32_t node) {
    static const char *const ends[] = {"Log", "Sqrt", NULL};
    double power;
    return tmk_is_any(f, node, ends) ||
           (tmk_is_op(f, node, "Pow") &&
            tmk_constant_is(f, tmk_net_input(f->net, node, 1), &power) && power > 0 && power < 1);
}

/* How far a node is on the way from samples of a signal to a spectrum. */
enum { NOT_REACHED, LINEAR, ENERGY };

/* All that it is computed from is an input, or was reached: the furthest of these. */
static uint8_t reached_by(const struct tmk_finder *f, uint32_t node) {
    uint8_t most = NOT_REACHED;
    for (uint32_t i = 0; i < f->net->nodes[node].n_inputs; i++) {
        const uint32_t v = tmk_net_input(f->net, node, i);
        if (!tmk_net_varies(f->net, v))
            continue;
        const uint32_t maker = f->net->maker[v];
        const uint8_t state = maker != TMK_NET_NONE ? f->state[maker]
                              : tmk_net_tensor(f->net, v)->kind == TMK_PROFILE_INPUT ? LINEAR
                                                                                     : NOT_REACHED;
        if (state == NOT_REACHED)
            return NOT_REACHED;
        most = state > most ? state : most;
    }
    return most;
}

/* Linear from the inputs, then squared, then summed up to a Log or Sqrt: all of it, back from
 * there, products with constants included. */
static void find_spectra(struct tmk_finder *f) {
    static const char *const whole[] = {"STFT", "DFT", "MelWeightMatrix", NULL};
    static const char *const magnitudes[] = {"Abs", "ReduceL2", "ReduceSumSquare", NULL};
    uint32_t last = TMK_NET_NONE;
    for (uint32_t i = 0; i < f->net->n_nodes; i++) {
        const uint8_t from = reached_by(f, i);
        const bool squares = tmk_square_of(f, i) != TMK_NET_NONE || tmk_is_any(f, i, magnitudes);
        f->state[i] = NOT_REACHED;
        if (from == ENERGY && (keeps_energy(f, i) || is_spectral_end(f, i)))
            f->state[i] = ENERGY;
        else if (from == LINEAR && squares)
            f->state[i] = ENERGY;
        else if (from == LINEAR && (moves_data(f, i) || tmk_is_layer(f, i) || is_affine(f, i) ||
                                    tmk_is_any(f, i, whole)))
            f->state[i] = LINEAR;
        f->marked[i] = (f->state[i] == ENERGY && is_spectral_end(f, i)) || tmk_is_any(f, i, whole);
    }
    for (uint32_t i = f->net->n_nodes; i-- > 0;) {
        for (uint32_t k = 0; f->marked[i] && k < f->net->nodes[i].n_inputs; k++) {
            const uint32_t maker = tmk_maker_of(f, i, k);
            if (maker != TMK_NET_NONE && f->state[maker] != NOT_REACHED)
                f->marked[maker] = true;
        }
        if (f->marked[i]) {
            tmk_found_one(f, i, last, TMK_PATTERN_SPECTRUM);
            last = i;
        }
    }
    clear_marks(f);
}

void tmk_find_fronts(struct tmk_finder *f) {
    find_spectra(f);
    find_input_norms(f);
}

/* ---- to boxes ---- */

static bool is_output(const struct tmk_finder *f, uint32_t node) {
    for (uint32_t o = 0; o < f->net->nodes[node].n_outputs; o++) {
        const uint32_t y = tmk_net_output(f->net, node, o);
        if (y != TMK_NET_NONE && tmk_net_tensor(f->net, y)->kind == TMK_PROFILE_OUTPUT)
            return true;
    }
    return false;
}

/* Something behind it is marked, or it is an output of the model. */
static bool leads_to(const struct tmk_finder *f, uint32_t node, const bool *marked) {
    for (uint32_t o = 0; o < f->net->nodes[node].n_outputs; o++) {
        const uint32_t y = tmk_net_output(f->net, node, o);
        for (uint32_t k = y == TMK_NET_NONE ? 0 : f->net->first_use[y];
             y != TMK_NET_NONE && k < f->net->first_use[y + 1]; k++)
            if (marked[f->net->uses[k].node])
                return true;
    }
    return false;
}

/* A constant that is added to the result of a layer. */
static bool adds_bias(const struct tmk_finder *f, uint32_t node) {
    const uint32_t side = tmk_is_op(f, node, "Add") ? tmk_varying_side(f, node) : TMK_NET_NONE;
    return side != TMK_NET_NONE &&
           tmk_is_product(f, tmk_before_moves(f, tmk_maker_of(f, node, side)));
}

static bool is_arithmetic(const struct tmk_finder *f, uint32_t node) {
    static const char *const ops[] = {"Add", "Sub", "Mul",  "Div",  "Exp", "Pow",
                                      "Max", "Min", "Clip", "Sqrt", NULL};
    return tmk_is_any(f, node, ops) && !adds_bias(f, node);
}

/* The mean of 0 ... n - 1 by n probabilities, as a convolution: distances of a distribution. */
static bool is_expectation(const struct tmk_finder *f, uint32_t node) {
    const uint32_t w = tmk_net_input(f->net, node, 1);
    struct tmk_summary facts;
    if (!tmk_is_layer(f, node) || w == TMK_NET_NONE || !tmk_net_tensor(f->net, w)->stats ||
        !tmk_is_op(f, tmk_before_moves(f, tmk_maker_of(f, node, 0)), "Softmax"))
        return false;
    tmk_stats_summary(tmk_net_tensor(f->net, w)->stats, &facts);
    return facts.min == 0 && facts.max == (float)facts.count - 1 &&
           facts.mean == 0.5 * (double)facts.max;
}

/* A constant with a number of its own for each cell of a grid. */
static bool has_grid(const struct tmk_finder *f, uint32_t node) {
    enum { FEWEST = 16 };
    const uint32_t side = tmk_varying_side(f, node);
    const uint32_t v = side == TMK_NET_NONE ? TMK_NET_NONE : tmk_net_input(f->net, node, 1 - side);
    double same;
    int64_t longest = 0;
    if (v == TMK_NET_NONE || tmk_constant_is(f, v, &same) || adds_bias(f, node))
        return false;
    const struct tmk_profile_tensor *t = tmk_net_tensor(f->net, v);
    for (int32_t i = 0; t->has_shape && i < t->shape.rank; i++)
        longest = t->shape.dim[i] > longest ? t->shape.dim[i] : longest;
    return longest >= FEWEST;
}

/* Arithmetic with grids or Exp behind the last layers, where results are taken apart or put
 * together. */
void tmk_find_boxes(struct tmk_finder *f) {
    static const char *const parts[] = {"Concat", "Slice", "Split", "Gather", "ScatterND", NULL};
    static const char *const functions[] = {"Sigmoid", "Softmax", "Relu", "Neg", NULL};
    bool boxes = false, apart = false, layers = false;
    uint32_t last = TMK_NET_NONE;
    for (uint32_t i = f->net->n_nodes; i-- > 0;) {
        const bool behind =
            is_output(f, i) || leads_to(f, i, f->marked) || tmk_is_op(f, i, "NonMaxSuppression");
        if (!behind || (!tmk_is_move(f, i) && !is_arithmetic(f, i) && !is_expectation(f, i) &&
                        !tmk_is_any(f, i, functions) && !tmk_is_op(f, i, "NonMaxSuppression")))
            continue;
        f->marked[i] = true;
        apart = apart || tmk_is_any(f, i, parts);
        boxes = boxes || (f->out->of[i] == TMK_PATTERN_NONE &&
                          (tmk_is_op(f, i, "Exp") || has_grid(f, i) || is_expectation(f, i)));
    }
    for (uint32_t i = 0; !layers && i < f->net->n_nodes; i++)
        layers = tmk_is_layer(f, i) && !f->marked[i];
    for (uint32_t i = 0; boxes && apart && layers && i < f->net->n_nodes; i++)
        if (f->marked[i] && (is_arithmetic(f, i) || is_expectation(f, i))) {
            tmk_found_one(f, i, last, TMK_PATTERN_BOX_DECODE);
            last = i;
        }
    clear_marks(f);
}

/* ---- indices ---- */

/* Inputs whose exact numbers decide on an order, a place or a count. Bit i: input i. */
static const struct {
    const char *op;
    uint32_t inputs;
} deciders[] = {
    {"Gather", 2},
    {"GatherElements", 2},
    {"GatherND", 2},
    {"Scatter", 2},
    {"ScatterElements", 2},
    {"ScatterND", 2},
    {"TopK", 1},
    {"NonMaxSuppression", 3},
    {"ArgMax", 1},
    {"ArgMin", 1},
    {"OneHot", 1},
    {"Loop", 3},
    {"If", 1},
    {"Greater", 3},
    {"Less", 3},
    {"GreaterOrEqual", 3},
    {"LessOrEqual", 3},
    {"Equal", 3},
    {"NonZero", 1},
    {"Range", 7},
    {"Slice", 30},
    {"Round", 1},
    {"Floor", 1},
    {"Ceil", 1},
    {"CumSum", 1},
    {"Unique", 1},
    {"Multinomial", 1},
    {NULL, 0},
};

static uint32_t decides_by(const struct tmk_finder *f, uint32_t node) {
    for (size_t i = 0; deciders[i].op; i++)
        if (tmk_is_op(f, node, deciders[i].op))
            return deciders[i].inputs;
    return 0;
}

/* Marked: all results are. The node that decides belongs to it where it computes floats that
 * depend on the decision. */
void tmk_find_indices(struct tmk_finder *f) {
    uint32_t last = TMK_NET_NONE;
    for (uint32_t i = f->net->n_nodes; i-- > 0;) {
        const uint32_t inputs = decides_by(f, i);
        const bool decides = (inputs & 1) && !tmk_is_op(f, i, "Loop") && !tmk_is_op(f, i, "If");
        for (uint32_t k = 0; k < f->net->nodes[i].n_inputs && k < 32; k++) {
            const uint32_t v = tmk_net_input(f->net, i, k);
            const uint32_t maker = tmk_net_maker(f->net, v);
            if (maker != TMK_NET_NONE && f->net->varies[v] && (f->marked[i] || inputs >> k & 1) &&
                (is_arithmetic(f, maker) || tmk_is_move(f, maker)) &&
                (!tmk_is_move(f, maker) || tmk_only_reader(f, maker) == i))
                f->marked[maker] = true;
        }
        if (f->marked[i] || decides) {
            tmk_found_one(f, i, last, TMK_PATTERN_INDEX);
            last = i;
        }
    }
    clear_marks(f);
}

/* ---- functions of real numbers ---- */

void tmk_find_math(struct tmk_finder *f) {
    static const char *const others[] = {"Erf",  "Tanh", "Sigmoid", "Softsign", "Elu",
                                         "Selu", "Celu", "Abs",     "Sign",     NULL};
    for (uint32_t i = 0; i < f->net->n_nodes; i++) {
        if (tmk_traits_are(f->net->nodes[i].traits, TMK_TRAIT_SENSITIVE) ||
            tmk_is_any(f, i, others))
            tmk_found_one(f, i, tmk_maker_of(f, i, 0), TMK_PATTERN_MATH);
    }
}
