/* SPDX-License-Identifier: Apache-2.0 */
#include "calib/pattern.h"

#include <stdlib.h>
#include <string.h>

#include <tidemark/patterns.h>

#include "base/diag.h"
#include "base/size.h"
#include "calib/pattern_find.h"

const char *tmk_pattern_name(enum tmk_pattern pattern) {
    static const char *const names[] = {NULL,
#define PATTERN_NAME(name, text, help) text,
                                        TMK_PATTERN_LIST(PATTERN_NAME)
#undef PATTERN_NAME
    };
    return names[pattern];
}

/* ---- what the searches share ---- */

void tmk_found_add(struct tmk_found_nodes *found, uint32_t node) {
    for (uint32_t i = 0; i < found->n; i++)
        if (found->node[i] == node)
            return;
    if (node != TMK_NET_NONE && found->n < TMK_COUNT(found->node))
        found->node[found->n++] = node;
}

/* What depends on shapes and constants alone needs no pattern. */
static bool is_free(const struct tmk_finder *f, uint32_t node) {
    bool varies = false;
    for (uint32_t o = 0; !varies && o < f->net->nodes[node].n_outputs; o++) {
        const uint32_t y = f->net->nodes[node].outputs[o];
        varies = tmk_net_varies(f->net, y);
    }
    return varies && f->out->of[node] == TMK_PATTERN_NONE;
}

void tmk_found_keep(struct tmk_finder *f, const struct tmk_found_nodes *found,
                    enum tmk_pattern pattern) {
    bool any = false;
    for (uint32_t i = 0; i < found->n; i++) {
        if (!is_free(f, found->node[i]))
            continue;
        f->n_instances += !any;
        any = true;
        f->out->of[found->node[i]] = (uint8_t)pattern;
        f->out->instance[found->node[i]] = f->n_instances;
    }
}

void tmk_found_one(struct tmk_finder *f, uint32_t node, uint32_t with, enum tmk_pattern pattern) {
    if (!is_free(f, node))
        return;
    const bool joins = with != TMK_NET_NONE && f->out->of[with] == (uint8_t)pattern;
    f->out->of[node] = (uint8_t)pattern;
    f->out->instance[node] = joins ? f->out->instance[with] : ++f->n_instances;
}

bool tmk_is_op(const struct tmk_finder *f, uint32_t node, const char *op) {
    return node != TMK_NET_NONE && strcmp(f->net->nodes[node].op, op) == 0;
}

bool tmk_is_any(const struct tmk_finder *f, uint32_t node, const char *const *ops) {
    while (*ops && !tmk_is_op(f, node, *ops))
        ops++;
    return *ops != NULL;
}

bool tmk_is_move(const struct tmk_finder *f, uint32_t node) {
    return node != TMK_NET_NONE &&
           tmk_traits_are(f->net->nodes[node].traits, TMK_TRAIT_MOVES | TMK_TRAIT_CASTS);
}

bool tmk_is_product(const struct tmk_finder *f, uint32_t node) {
    return node != TMK_NET_NONE && f->net->nodes[node].traits->class == TMK_OP_MACC;
}

bool tmk_is_layer(const struct tmk_finder *f, uint32_t node) {
    return tmk_is_product(f, node) && (!tmk_net_varies(f->net, tmk_net_input(f->net, node, 0)) ||
                                       !tmk_net_varies(f->net, tmk_net_input(f->net, node, 1)));
}

uint32_t tmk_varying_side(const struct tmk_finder *f, uint32_t node) {
    static const char *const ops[] = {"Add", "Sub", "Mul", "Div", NULL};
    if (!tmk_is_any(f, node, ops))
        return TMK_NET_NONE;
    const bool first = tmk_net_varies(f->net, tmk_net_input(f->net, node, 0)),
               second = tmk_net_varies(f->net, tmk_net_input(f->net, node, 1));
    return first == second ? TMK_NET_NONE : second;
}

uint32_t tmk_maker_of(const struct tmk_finder *f, uint32_t node, uint32_t input) {
    return tmk_net_maker(f->net, tmk_net_input(f->net, node, input));
}

bool tmk_constant_is(const struct tmk_finder *f, uint32_t value, double *out) {
    struct tmk_summary facts;
    if (value == TMK_NET_NONE || f->net->varies[value] || !tmk_net_tensor(f->net, value)->stats)
        return false;
    tmk_stats_quick_summary(tmk_net_tensor(f->net, value)->stats, &facts);
    *out = (double)facts.min;
    return facts.finite && facts.min == facts.max;
}

uint32_t tmk_only_reader(const struct tmk_finder *f, uint32_t node) {
    const uint32_t y = tmk_net_output(f->net, node, 0);
    if (y == TMK_NET_NONE || tmk_net_readers(f->net, y) != 1 ||
        tmk_net_tensor(f->net, y)->kind == TMK_PROFILE_OUTPUT)
        return TMK_NET_NONE;
    return f->net->uses[f->net->first_use[y]].node;
}

uint32_t tmk_square_of(const struct tmk_finder *f, uint32_t node) {
    const uint32_t a = tmk_net_input(f->net, node, 0), b = tmk_net_input(f->net, node, 1);
    double power;
    if (a == TMK_NET_NONE)
        return TMK_NET_NONE;
    if (tmk_is_op(f, node, "Mul"))
        return a == b ? a : TMK_NET_NONE;
    return tmk_is_op(f, node, "Pow") && tmk_constant_is(f, b, &power) && power == 2 ? a
                                                                                    : TMK_NET_NONE;
}

uint32_t tmk_before_moves(const struct tmk_finder *f, uint32_t node) {
    enum { MOST_MOVES = 12 };
    for (int i = 0; i < MOST_MOVES && tmk_is_move(f, node); i++)
        node = tmk_maker_of(f, node, 0);
    return node;
}

/* ---- all of them ---- */

enum tmk_status tmk_patterns_init(struct tmk_patterns *patterns, const struct tmk_net *net,
                                  struct tmk_diag *diag) {
    const size_t n = (size_t)net->n_nodes + 1;
    struct tmk_finder f = {.net = net, .out = patterns};
    *patterns = (struct tmk_patterns){.of = NULL};
    patterns->of = tmk_arena_array(&patterns->arena, n, sizeof *patterns->of);
    patterns->instance = tmk_arena_array(&patterns->arena, n, sizeof *patterns->instance);
    f.marked = tmk_arena_array(&patterns->arena, n, sizeof *f.marked);
    f.state = tmk_arena_array(&patterns->arena, n, sizeof *f.state);
    TMK_TRY_ALLOC(patterns->of && patterns->instance && f.marked && f.state, diag);
    tmk_find_fronts(&f);
    tmk_find_norms(&f);
    tmk_find_gates(&f);
    tmk_find_attention(&f);
    tmk_find_boxes(&f);
    tmk_find_positions(&f);
    tmk_find_indices(&f);
    tmk_find_math(&f);
    return TMK_OK;
}

void tmk_patterns_finish(struct tmk_patterns *patterns) {
    tmk_arena_finish(&patterns->arena);
    *patterns = (struct tmk_patterns){.of = NULL};
}

/* ---- for others ---- */

bool tmk_pattern_info(size_t i, const char **name, const char **help) {
    static const char *const helps[] = {
#define PATTERN_HELP(name, text, help) help,
        TMK_PATTERN_LIST(PATTERN_HELP)
#undef PATTERN_HELP
    };
    if (i >= TMK_COUNT(helps))
        return false;
    *name = tmk_pattern_name((enum tmk_pattern)(i + 1));
    *help = helps[i];
    return true;
}

static uint32_t first_result(const struct tmk_net *net, uint32_t node) {
    const struct tmk_net_node *n = &net->nodes[node];
    uint32_t o = 0;
    while (o < n->n_outputs && n->outputs[o] == TMK_NET_NONE)
        o++;
    return o < n->n_outputs ? n->outputs[o] : TMK_NET_NONE;
}

static enum tmk_status list_nodes(const struct tmk_net *net, const struct tmk_patterns *patterns,
                                  struct tmk_pattern_node **out, size_t *n, struct tmk_diag *diag) {
    struct tmk_pattern_node *list = calloc((size_t)net->n_nodes + 1, sizeof *list);
    TMK_TRY_ALLOC(list, diag);
    *n = 0;
    for (uint32_t i = 0; i < net->n_nodes; i++) {
        const uint32_t v = first_result(net, i);
        if (patterns->of[i] == TMK_PATTERN_NONE || v == TMK_NET_NONE)
            continue;
        const struct tmk_profile_tensor *t = tmk_net_tensor(net, v);
        list[(*n)++] = (struct tmk_pattern_node){
            .pattern = tmk_pattern_name((enum tmk_pattern)patterns->of[i]),
            .occurrence = patterns->instance[i],
            .op = t->producer.op,
            .node = t->producer.node,
            .id = t->id,
        };
    }
    *out = list;
    return TMK_OK;
}

enum tmk_status tmk_patterns_list(const struct tmk_profile *profile, struct tmk_pattern_node **out,
                                  size_t *n, struct tmk_diag *diag) {
    struct tmk_net net;
    struct tmk_patterns patterns = {.of = NULL};
    enum tmk_status status = tmk_net_init(&net, profile, diag);
    TMK_THEN(status, tmk_patterns_init(&patterns, &net, diag));
    TMK_THEN(status, list_nodes(&net, &patterns, out, n, diag));
    tmk_patterns_finish(&patterns);
    tmk_net_finish(&net);
    return status;
}
