/* SPDX-License-Identifier: Apache-2.0 */
/* The search by groups: each group's change is tried alone, the best is chosen, and the next best
 * are tried again on top of it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/patterns.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/size.h"
#include "compare/search.h"

enum { MOST_GROUPS = 64, BLOCKS = 8, AGAIN = 4 };
/* Decibels that a group has to gain: these, and for the share of multiplications that are of 8 bits
 * no more, at 16 bits half of it. Decibels beyond `enough` are of no use. */
static const double least_gain = 0.5, gain_a_share = 60, enough = 60;

static double lost_share(const struct tmk_search *s, const struct tmk_attempt *a) {
    return fmax(s->cost.share8 - a->cost.share8, 0) * (a->change == TMK_CHANGE_16_BITS ? 0.5 : 1);
}

double tmk_needed_gain(const struct tmk_search *s, const struct tmk_attempt *a) {
    return gain_a_share * lost_share(s, a);
}

struct group {
    struct tmk_unit unit;
    char name[112]; /* for people */
    double score;   /* of the better of its changes, when last tried */
    bool done;
};

struct groups {
    struct group list[MOST_GROUPS];
    uint32_t n;
    struct tmk_arena arena;
};

static bool has_unit(const struct groups *g, const char *key, const char *name) {
    for (uint32_t i = 0; i < g->n; i++)
        if (g->list[i].unit.key && strcmp(g->list[i].unit.key, key) == 0 &&
            strcmp(g->list[i].unit.name, name) == 0)
            return true;
    return false;
}

static void add_named(struct groups *g, const char *key, const char *name) {
    if (g->n == MOST_GROUPS || has_unit(g, key, name))
        return;
    struct group *group = &g->list[g->n++];
    *group = (struct group){.unit = {.key = key, .name = name}};
    snprintf(group->name, sizeof group->name, "%s %s",
             strcmp(key, "op") == 0 ? "operators" : "pattern", name);
}

/* Runs of values with encodings, in the order of IDs, which follows the network's. */
static enum tmk_status add_blocks(const struct tmk_search *s, struct groups *g) {
    const struct tmk_encodings *all = s->current;
    uint32_t *ids = tmk_arena_array(&g->arena, all->n_items, sizeof *ids), n = 0;
    TMK_TRY_ALLOC(ids, s->diag);
    for (uint32_t i = 0; i < all->n_items; i++)
        if (all->items[i].role != TMK_ENCODING_BIAS && (!n || ids[n - 1] != all->items[i].id))
            ids[n++] = all->items[i].id;
    for (uint32_t b = 0; b < BLOCKS && n >= 2 * BLOCKS && g->n < MOST_GROUPS; b++) {
        const uint32_t first = n * b / BLOCKS, end = n * (b + 1) / BLOCKS;
        struct group *group = &g->list[g->n++];
        *group = (struct group){.unit = {.ids = ids + first, .n_ids = end - first}};
        snprintf(group->name, sizeof group->name, "block p%u to p%u", ids[first], ids[end - 1]);
    }
    return TMK_OK;
}

static enum tmk_status find_groups(const struct tmk_search *s, struct groups *g) {
    struct tmk_pattern_node *nodes = NULL;
    size_t n = 0;
    const struct tmk_profile *profile = s->options->profile;
    TMK_TRY(tmk_patterns_list(profile, &nodes, &n, s->diag));
    for (size_t i = 0; i < n; i++)
        add_named(g, "pattern", nodes[i].pattern);
    free(nodes);
    for (uint32_t v = 0; v < profile->n_tensors; v++)
        if (profile->tensors[v].has_producer)
            add_named(g, "op", profile->tensors[v].producer.op);
    return add_blocks(s, g);
}

/* Decibels for the cost; not positive: it is not worth it. */
static double score_of(const struct tmk_search *s, const struct tmk_attempt *a) {
    const bool by_goal = s->options->goal == TMK_GOAL_SQNR && !s->judge.metric && !s->judge.labels;
    const double now = tmk_decibels_of(&s->loss),
                 missing =
                     by_goal ? s->options->goal_value - tmk_noise_sqnr(s->loss.noise) : HUGE_VAL,
                 gain = fmin(fmin(tmk_decibels_of(&a->loss), enough) - fmin(now, enough), missing),
                 lost = lost_share(s, a), needed = least_gain + tmk_needed_gain(s, a);
    if (!tmk_is_better(&a->loss, &s->loss, 1))
        return -HUGE_VAL;
    return gain >= needed ? gain / (0.02 + lost) : gain - needed;
}

/* Tries a group in 16 bits and in float; *best: the better one, if it is worth it, and ready to be
 * chosen. */
static enum tmk_status try_group(struct tmk_search *s, struct group *group,
                                 struct tmk_attempt *best, bool *found) {
    static const enum tmk_change changes[] = {TMK_CHANGE_16_BITS, TMK_CHANGE_FLOAT};
    struct tmk_attempt list[2];
    uint32_t n = 0, tried = 0, chosen = 0;
    enum tmk_status status = TMK_OK;
    *found = false;
    for (int i = 0; status == TMK_OK && i < 2; i++)
        status = tmk_attempt_add(s, &group->unit, changes[i], NULL, list, &n);
    TMK_THEN(status, tmk_attempts_run(s, list, n, &tried));
    group->done = status == TMK_OK && !n;
    if (status == TMK_OK && tried) {
        chosen = tried == 2 && score_of(s, &list[1]) > score_of(s, &list[0]);
        group->score = score_of(s, &list[chosen]);
        *found = group->score > 0;
    }
    for (uint32_t i = 0; i < n; i++)
        if (*found && i == chosen)
            *best = list[i];
        else
            tmk_attempt_finish(&list[i]);
    return status;
}

static int best_first(const void *a, const void *b) {
    const struct group *x = a, *y = b;
    if (x->done != y->done)
        return x->done ? 1 : -1;
    return TMK_ORDER(y->score, x->score);
}

/* The best of the first `most` groups is chosen; *any: there was one. */
static enum tmk_status choose_best(struct tmk_search *s, struct groups *g, uint32_t most,
                                   bool *any) {
    struct tmk_attempt best = {.config = NULL}, one;
    struct group *of = NULL; /* of `best` */
    enum tmk_status status = TMK_OK;
    for (uint32_t i = 0; status == TMK_OK && i < g->n && i < most; i++) {
        bool found = false;
        if (g->list[i].done || tmk_search_is_spent(s))
            continue;
        status = try_group(s, &g->list[i], &one, &found);
        if (status == TMK_OK && found && (!of || g->list[i].score > of->score)) {
            tmk_attempt_finish(&best);
            best = one;
            of = &g->list[i];
        } else if (found) {
            tmk_attempt_finish(&one);
        }
    }
    *any = status == TMK_OK && of != NULL;
    if (*any) {
        of->done = best.change == TMK_CHANGE_FLOAT;
        tmk_attempt_choose(s, &best, of->name);
    }
    tmk_attempt_finish(&best);
    return status;
}

/* What calibrate leaves float by default, where it was quantized: all of it at once, since single
 * parts show no effect while others lose everything. And all that it does by default, where a
 * method was given. */
static enum tmk_status try_defaults(struct tmk_search *s) {
    struct tmk_attempt list[TMK_SEARCH_DEFAULTS], *best = NULL;
    uint32_t n = 0, tried = 0;
    enum tmk_status status = tmk_search_defaults(s, list, &n);
    TMK_THEN(status, tmk_attempts_run(s, list, n, &tried));
    for (uint32_t i = 0; status == TMK_OK && i < tried; i++)
        if (tmk_is_better(&list[i].loss, &s->loss, tmk_default_gain) &&
            (!best || list[i].loss.lost < tmk_default_gain * best->loss.lost))
            best = &list[i];
    if (best)
        tmk_attempt_choose(s, best, tmk_search_default_name(best));
    for (uint32_t i = 0; i < n; i++)
        tmk_attempt_finish(&list[i]);
    return status;
}

enum tmk_status tmk_search_groups(struct tmk_search *s) {
    struct groups *g = calloc(1, sizeof *g);
    TMK_TRY_ALLOC(g, s->diag);
    enum tmk_status status = try_defaults(s);
    if (status == TMK_OK && !tmk_search_is_over(s))
        status = find_groups(s, g);
    bool any = g->n > 0;
    for (uint32_t most = MOST_GROUPS; status == TMK_OK && any && !tmk_search_is_over(s);
         most = AGAIN) {
        status = choose_best(s, g, most, &any);
        qsort(g->list, g->n, sizeof *g->list, best_first);
    }
    tmk_arena_finish(&g->arena);
    free(g);
    return status;
}
