/* SPDX-License-Identifier: Apache-2.0 */
#include "calib/select.h"

#include <string.h>

#include "base/diag.h"
#include "base/forest.h"

struct tie {
    const struct tmk_selection *selection;
    const struct tmk_net *net;
    const struct tmk_config *config;
    struct tmk_ties *out;
};

uint32_t tmk_tie_root(const struct tmk_ties *ties, uint32_t pick) {
    return tmk_forest_root(ties->parent, pick);
}

/* Only activations with one scale for all of their readers are tied. */
static bool has_one_scale(const struct tie *t, uint32_t pick) {
    if (pick == TMK_NET_NONE)
        return false;
    const struct tmk_pick *p = &t->selection->picks[pick];
    return p->role == TMK_ENCODING_ACTIVATION && !p->terms.channels;
}

static bool can_be_tied(const struct tie *t, uint32_t pick) {
    return has_one_scale(t, pick) && t->selection->picks[pick].general;
}

static uint32_t of_output(const struct tie *t, uint32_t node, uint32_t output) {
    uint32_t y = tmk_net_output(t->net, node, output);
    return y == TMK_NET_NONE ? TMK_NET_NONE : t->selection->general[y];
}

static bool same_terms_of(const struct tie *t, uint32_t a, uint32_t b) {
    return tmk_same_terms(&t->selection->picks[a].terms, &t->selection->picks[b].terms);
}

static bool join_groups(const struct tie *t, uint32_t a, uint32_t b, enum tmk_built_in rule) {
    if (!has_one_scale(t, a) || !has_one_scale(t, b) || !same_terms_of(t, a, b))
        return false;
    tmk_forest_join(t->out->parent, a, b);
    if (!t->out->rule[a])
        t->out->rule[a] = tmk_built_in_name(rule);
    if (!t->out->rule[b])
        t->out->rule[b] = tmk_built_in_name(rule);
    return true;
}

static bool unite_picks(const struct tie *t, uint32_t a, uint32_t b, enum tmk_built_in rule) {
    return can_be_tied(t, a) && can_be_tied(t, b) && join_groups(t, a, b, rule);
}

/* Of the target, for the node's operator; NULL: it has none. */
static const struct tmk_target_row *target_row(const struct tie *t, uint32_t node) {
    return tmk_target_find_row(t->config->target, t->net->nodes[node].op);
}

/* Means have a smaller range than what they are of: a scale of their own is finer, where the
 * target takes one. */
static bool has_scale_of_means(const struct tie *t, uint32_t node) {
    const struct tmk_traits *traits = t->net->nodes[node].traits;
    const struct tmk_target_row *row = target_row(t, node);
    return row && row->sharing == TMK_TARGET_SHARES_NONE &&
           tmk_traits_are(traits, TMK_TRAIT_LINEAR) && !tmk_traits_are(traits, TMK_TRAIT_MOVES);
}

static void tie_direct(const struct tie *t, uint32_t node) {
    if (has_scale_of_means(t, node))
        return;
    uint32_t x = tmk_pick_of_input(t->selection, node, 0);
    for (uint32_t o = 0; o < t->net->nodes[node].n_outputs; o++) {
        uint32_t y = of_output(t, node, o);
        if (unite_picks(t, x, y, TMK_RULE_DIRECT)) {
            t->out->covered[y] = true;
            t->out->rule[y] = tmk_built_in_name(TMK_RULE_DIRECT);
        }
    }
}

static void tie_all(const struct tie *t, uint32_t node, enum tmk_built_in rule, bool covers) {
    uint32_t y = of_output(t, node, 0);
    bool all = true;
    for (uint32_t i = 0; i < t->net->nodes[node].n_inputs; i++)
        if (tmk_net_input(t->net, node, i) != TMK_NET_NONE)
            all = unite_picks(t, tmk_pick_of_input(t->selection, node, i), y, rule) && all;
    if (covers && all && y != TMK_NET_NONE)
        t->out->covered[y] = true;
}

/* Adds of two values that both depend on the data. */
static bool is_residual_add(const struct tie *t, uint32_t node) {
    const struct tmk_net_node *it = &t->net->nodes[node];
    uint32_t n = 0;
    for (uint32_t i = 0; i < it->n_inputs; i++)
        n += tmk_net_varies(t->net, it->inputs[i]);
    return n > 1 && (strcmp(it->op, "Add") == 0 || strcmp(it->op, "Sum") == 0);
}

/* Of a value: the pick for all readers, or for all of those that do not read it as float. */
static uint32_t only_pick_of(const struct tie *t, uint32_t y) {
    uint32_t found = y == TMK_NET_NONE ? TMK_NET_NONE : t->selection->general[y];
    if (y == TMK_NET_NONE || found != TMK_NET_NONE)
        return found;
    for (uint32_t k = t->net->first_use[y]; k < t->net->first_use[y + 1]; k++) {
        uint32_t pick = t->selection->use_pick[k];
        if (found != TMK_NET_NONE && pick != TMK_NET_NONE && pick != found)
            return TMK_NET_NONE;
        found = pick != TMK_NET_NONE ? pick : found;
    }
    return found;
}

/* A value that has a range, and no codes for any reader. */
static bool is_float_with_range(const struct tie *t, uint32_t v) {
    const struct tmk_profile_tensor *tensor = tmk_net_tensor(t->net, v);
    struct tmk_summary facts;
    if (!tensor->stats || t->selection->general[v] != TMK_NET_NONE)
        return false;
    for (uint32_t k = t->net->first_use[v]; k < t->net->first_use[v + 1]; k++)
        if (t->selection->use_pick[k] != TMK_NET_NONE)
            return false;
    tmk_stats_quick_summary(tensor->stats, &facts);
    return facts.finite && facts.excluded == facts.padding;
}

/* The value in front of Relu or Clip, if no other node reads it, needs no codes for what is cut
 * off. */
static void take_over(const struct tie *t, uint32_t node) {
    uint32_t x = tmk_pick_of_input(t->selection, node, 0), result = tmk_net_output(t->net, node, 0),
             y = only_pick_of(t, result);
    if (!can_be_tied(t, x) || result == TMK_NET_NONE)
        return;
    uint32_t v = t->selection->picks[x].value;
    if (tmk_net_tensor(t->net, v)->kind == TMK_PROFILE_OUTPUT || tmk_net_readers(t->net, v) != 1 ||
        !t->net->varies[v])
        return;
    if (has_one_scale(t, y) && same_terms_of(t, x, y))
        t->out->takes[x] = y;
    else if (is_float_with_range(t, result))
        t->out->numbers[x] = result;
}

/* What the target wants, also where the result has no codes. */
static void tie_for_target(const struct tie *t, uint32_t node) {
    const struct tmk_target_row *row = target_row(t, node);
    if (!row || row->sharing == TMK_TARGET_SHARES_NONE || !t->config->built_in[TMK_RULE_TARGET])
        return;
    const uint32_t n = row->sharing == TMK_TARGET_SHARES_ALL ? t->net->nodes[node].n_inputs : 1;
    uint32_t first = TMK_NET_NONE; /* a constant such as -infinity has no codes */
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t pick = tmk_pick_of_input(t->selection, node, i);
        if (first == TMK_NET_NONE)
            first = pick;
        else
            join_groups(t, first, pick, TMK_RULE_TARGET);
    }
    for (uint32_t o = 0; o < t->net->nodes[node].n_outputs; o++)
        join_groups(t, first, only_pick_of(t, tmk_net_output(t->net, node, o)), TMK_RULE_TARGET);
}

static void tie_node(const struct tie *t, uint32_t node) {
    const struct tmk_net_node *it = &t->net->nodes[node];
    enum tmk_op_class class = it->traits->class;
    const bool *on = t->config->built_in;
    uint32_t y = of_output(t, node, 0);
    const bool softmax = class == TMK_OP_SOFTMAX;
    if (class == TMK_OP_DIRECT && on[TMK_RULE_DIRECT])
        tie_direct(t, node);
    else if (class == TMK_OP_CONCAT && on[TMK_RULE_CONCAT])
        tie_all(t, node, TMK_RULE_CONCAT, true);
    else if (class == TMK_OP_SUM && on[TMK_RULE_ADDS] && is_residual_add(t, node))
        tie_all(t, node, TMK_RULE_ADDS, false);
    else if ((softmax || class == TMK_OP_UNIT_RANGE) && y != TMK_NET_NONE && can_be_tied(t, y) &&
             tmk_pick_of_input(t->selection, node, 0) != TMK_NET_NONE && /* else it is float */
             on[softmax ? TMK_RULE_SOFTMAX : TMK_RULE_SIGMOID] &&
             !t->selection->picks[y].terms.has_range)
        t->out->unit[y] = tmk_built_in_name(softmax ? TMK_RULE_SOFTMAX : TMK_RULE_SIGMOID);
}

/* What is tied to others keeps its own range. */
static void release_tied(const struct tie *t) {
    for (uint32_t i = 0; i < t->selection->n_picks; i++)
        if (t->out->rule[i]) {
            t->out->takes[i] = TMK_NET_NONE;
            t->out->numbers[i] = t->selection->picks[i].value;
        }
}

enum tmk_status tmk_ties_init(struct tmk_ties *ties, const struct tmk_selection *selection,
                              const struct tmk_config *config, struct tmk_diag *diag) {
    uint32_t n = selection->n_picks;
    const struct tie t = {selection, selection->net, config, ties};
    *ties = (struct tmk_ties){.parent = NULL};
    ties->parent = tmk_arena_array(&ties->arena, n, sizeof *ties->parent);
    ties->covered = tmk_arena_array(&ties->arena, n, sizeof *ties->covered);
    ties->unit = tmk_arena_array(&ties->arena, n, sizeof *ties->unit);
    ties->takes = tmk_arena_array(&ties->arena, n, sizeof *ties->takes);
    ties->numbers = tmk_arena_array(&ties->arena, n, sizeof *ties->numbers);
    ties->rule = tmk_arena_array(&ties->arena, n, sizeof *ties->rule);
    TMK_TRY_ALLOC(ties->parent && ties->covered && ties->unit && ties->takes && ties->numbers &&
                      ties->rule,
                  diag);
    for (uint32_t i = 0; i < n; i++) {
        ties->parent[i] = i;
        ties->takes[i] = TMK_NET_NONE;
        ties->numbers[i] = selection->picks[i].value;
    }
    for (uint32_t i = 0; i < selection->net->n_nodes; i++)
        tie_node(&t, i);
    for (uint32_t i = 0; i < selection->net->n_nodes; i++)
        tie_for_target(&t, i);
    for (uint32_t i = 0; config->built_in[TMK_RULE_AFTER_RELU] && i < selection->net->n_nodes;
         i++) {
        if (selection->net->nodes[i].traits->class == TMK_OP_CLAMP)
            take_over(&t, i);
    }
    release_tied(&t);
    return TMK_OK;
}

void tmk_ties_finish(struct tmk_ties *ties) {
    tmk_arena_finish(&ties->arena);
    *ties = (struct tmk_ties){.parent = NULL};
}
