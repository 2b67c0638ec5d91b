/* SPDX-License-Identifier: Apache-2.0 */
/* The last stage of the search: the goal, whatever it costs. How many values it takes is found by
 * bisection, in the order of what each costs the outputs alone. */
#include <stdio.h>
#include <stdlib.h>

#include "base/diag.h"
#include "compare/search.h"

/* The first values of the ranking, with those that share their scales. */
static enum tmk_status unit_of_ranked(const struct tmk_search *s, const struct tmk_ranking *ranking,
                                      uint32_t n, struct tmk_unit *out) {
    enum tmk_status status = TMK_OK;
    *out = (struct tmk_unit){.key = NULL};
    for (uint32_t i = 0; status == TMK_OK && i < n; i++) {
        const struct tmk_encoding *e = tmk_search_item(s->current, ranking->values[i].id);
        if (e && e->role != TMK_ENCODING_BIAS)
            status = tmk_search_members(s->current, e, out, s->diag);
    }
    return status;
}

/* *reached: the goal, by the first n values. What is tried replaces *best if it is better, or
 * reaches the goal. */
static enum tmk_status try_first(struct tmk_search *s, const struct tmk_ranking *ranking,
                                 uint32_t n, enum tmk_change change, struct tmk_attempt *best,
                                 bool *reached) {
    struct tmk_unit unit;
    struct tmk_attempt attempt;
    uint32_t added = 0, tried = 0;
    enum tmk_status status = unit_of_ranked(s, ranking, n, &unit);
    *reached = false;
    TMK_THEN(status, tmk_attempt_add(s, &unit, change, NULL, &attempt, &added));
    free(unit.ids);
    if (status != TMK_OK || !added)
        return status;
    status = tmk_attempts_run(s, &attempt, 1, &tried);
    *reached = status == TMK_OK && tried && attempt.loss.at_goal;
    if (*reached ||
        (status == TMK_OK && tried && attempt.loss.noise < s->loss.noise && !best->encodings)) {
        tmk_attempt_finish(best);
        *best = attempt;
    } else {
        tmk_attempt_finish(&attempt);
    }
    return status;
}

static enum tmk_status widen_first(struct tmk_search *s, const struct tmk_ranking *ranking,
                                   enum tmk_change change) {
    struct tmk_attempt best = {.config = NULL};
    uint32_t low = 0, high = ranking->n; /* too few, enough */
    bool reached;
    char name[64];
    enum tmk_status status = try_first(s, ranking, high, change, &best, &reached);
    while (status == TMK_OK && best.encodings && best.loss.at_goal && high - low > 1 &&
           !tmk_search_is_spent(s)) {
        const uint32_t middle = low + (high - low) / 2;
        status = try_first(s, ranking, middle, change, &best, &reached);
        *(reached ? &high : &low) = middle;
    }
    if (status == TMK_OK && best.encodings) {
        snprintf(name, sizeof name, "the %u values that cost most", high);
        tmk_attempt_choose(s, &best, name);
    }
    tmk_attempt_finish(&best);
    return status;
}

enum tmk_status tmk_search_goal(struct tmk_search *s) {
    struct tmk_ranking *ranking = NULL;
    TMK_TRY(tmk_search_rank(s, s->current, UINT32_MAX, &ranking));
    enum tmk_status status = widen_first(s, ranking, TMK_CHANGE_16_BITS);
    if (status == TMK_OK && !tmk_search_is_over(s))
        status = widen_first(s, ranking, TMK_CHANGE_FLOAT);
    tmk_ranking_destroy(&ranking);
    return status;
}
