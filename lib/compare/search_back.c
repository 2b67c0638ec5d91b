/* SPDX-License-Identifier: Apache-2.0 */
/* What the search made wider than the goal needs gets its 8 bits again: products in the order of
 * their multiplications for the noise that their operands make alone. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/size.h"
#include "compare/search.h"

struct product {
    uint32_t node;
    double score;
};

static const struct tmk_encoding *operand_of(const struct tmk_net *net,
                                             const struct tmk_encodings *all, uint32_t node,
                                             uint32_t input) {
    return tmk_encodings_find(all, net->profile->tensors[tmk_net_input(net, node, input)].id,
                              net->nodes[node].name, input);
}

/* Both operands and what shares their scales. */
static enum tmk_status unit_of_product(const struct tmk_net *net, const struct tmk_encodings *start,
                                       uint32_t node, struct tmk_unit *out, struct tmk_diag *diag) {
    *out = (struct tmk_unit){.as = start};
    for (uint32_t input = 0; input < 2; input++)
        TMK_TRY(tmk_search_members(start, operand_of(net, start, node, input), out, diag));
    return TMK_OK;
}

static double noise_of_unit(const struct tmk_ranking *ranking, const struct tmk_unit *unit) {
    double noise = 0;
    for (uint32_t i = 0; i < ranking->n; i++)
        if (tmk_has_id(unit, ranking->values[i].id))
            noise += pow(10, -ranking->values[i].sqnr / 10);
    return noise;
}

static int best_product_first(const void *a, const void *b) {
    const struct product *x = a, *y = b;
    return x->score != y->score ? TMK_ORDER(y->score, x->score) : TMK_ORDER(x->node, y->node);
}

/* Products that have 8 bits in `start` and have not now. */
static enum tmk_status find_products(const struct tmk_search *s, const struct tmk_net *net,
                                     const struct tmk_encodings *start,
                                     const struct tmk_ranking *ranking, struct product *list,
                                     uint32_t *n) {
    for (uint32_t node = 0; node < net->n_nodes; node++) {
        const double products = tmk_products_of(net, node);
        struct tmk_unit unit;
        if (!(products > 0) || !tmk_is_8_bit_product(net, start, node) ||
            tmk_is_8_bit_product(net, s->current, node))
            continue;
        const enum tmk_status status = unit_of_product(net, start, node, &unit, s->diag);
        const double noise = noise_of_unit(ranking, &unit);
        free(unit.ids);
        TMK_TRY(status);
        list[(*n)++] = (struct product){node, noise > 0 ? products / noise : HUGE_VAL};
    }
    qsort(list, *n, sizeof *list, best_product_first);
    return TMK_OK;
}

static enum tmk_status try_product(struct tmk_search *s, const struct tmk_net *net,
                                   const struct tmk_encodings *start, uint32_t node) {
    struct tmk_unit unit;
    struct tmk_attempt attempt = {.config = NULL};
    uint32_t n = 0, tried = 0;
    char name[300];
    enum tmk_status status = unit_of_product(net, start, node, &unit, s->diag);
    TMK_THEN(status, tmk_attempt_add(s, &unit, TMK_CHANGE_BACK, NULL, &attempt, &n));
    free(unit.ids);
    TMK_THEN(status, tmk_attempts_run(s, &attempt, n, &tried));
    if (status == TMK_OK && tried && attempt.loss.at_goal && attempt.cost.share8 > s->cost.share8) {
        snprintf(name, sizeof name, "operands of %s '%s'", net->nodes[node].op,
                 net->nodes[node].name);
        tmk_attempt_choose(s, &attempt, name);
    }
    tmk_attempt_finish(&attempt);
    return status;
}

static enum tmk_status try_products(struct tmk_search *s, const struct tmk_net *net,
                                    const struct tmk_encodings *start, struct product *list) {
    struct tmk_ranking *ranking = NULL;
    uint32_t n = 0;
    TMK_TRY(tmk_search_rank(s, start, UINT32_MAX, &ranking));
    enum tmk_status status = find_products(s, net, start, ranking, list, &n);
    tmk_ranking_destroy(&ranking);
    for (uint32_t i = 0; status == TMK_OK && i < n && !tmk_search_is_spent(s); i++)
        status = try_product(s, net, start, list[i].node);
    return status;
}

enum tmk_status tmk_search_back(struct tmk_search *s, const struct tmk_encodings *start) {
    struct tmk_net net;
    struct tmk_cost cost;
    TMK_TRY(tmk_cost_of(s->options->profile, start, &cost, s->diag));
    if (s->cost.share8 >= cost.share8)
        return TMK_OK;
    TMK_TRY(tmk_net_init(&net, s->options->profile, s->diag));
    struct product *list = calloc((size_t)net.n_nodes + 1, sizeof *list);
    const enum tmk_status status = list ? try_products(s, &net, start, list) : tmk_nomem(s->diag);
    free(list);
    tmk_net_finish(&net);
    return status;
}
