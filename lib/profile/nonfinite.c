/* SPDX-License-Identifier: Apache-2.0 */
/* Where NaN and infinities came from: a question to the statistics and the operands of a profile.
 * A value has them from an operand that had some at the same sample or before. */
#include <stdlib.h>
#include <string.h>

#include <tidemark/profile.h>

#include "base/diag.h"
#include "base/size.h"

struct tracing {
    const struct tmk_profile *profile;
    uint64_t *first;   /* by position: sample of the first NaN or infinity; TMK_NOWHERE: none */
    uint32_t *visited; /* by position: for which value it was last looked through, + 1 */
    uint32_t *stack;   /* positions still to look through */
    uint32_t *found;   /* positions of the operands found */
    uint32_t n_found;
};

static uint32_t position_of(const struct tmk_profile *profile, uint32_t id) {
    const struct tmk_profile_tensor *t = tmk_profile_by_id(profile, id);
    return t ? (uint32_t)(t - profile->tensors) : profile->n_tensors;
}

/* A value of the main graph that was not observed, or a sequence. */
static bool is_unseen(const struct tmk_profile_tensor *t) {
    return !t->stats && !t->has_int_stats && !t->path[0];
}

/* An input of a loop's body that was finite when the loop began. */
static bool comes_round(const struct tracing *trace, uint32_t at) {
    const struct tmk_profile_tensor *t = &trace->profile->tensors[at];
    if (t->has_producer || !t->path[0])
        return false;
    for (uint32_t i = 0; i < t->n_operands; i++) {
        uint32_t operand = position_of(trace->profile, t->operands[i]);
        if (operand < at && trace->first[operand] <= trace->first[at])
            return false;
    }
    return true;
}

/* An input with an operand is fed back: it has its NaN from the step before, if from anywhere. */
static bool may_come_from(const struct tracing *trace, uint32_t operand, uint32_t at) {
    const struct tmk_profile_tensor *t = &trace->profile->tensors[at];
    bool earlier = !t->has_producer && !t->path[0] && t->n_operands;
    return trace->first[operand] != TMK_NOWHERE &&
           (trace->first[operand] < trace->first[at] ||
            (!earlier && trace->first[operand] == trace->first[at]));
}

static void find_origins(struct tracing *trace, uint32_t at) {
    const struct tmk_profile *p = trace->profile;
    uint32_t depth = 0;
    trace->n_found = 0;
    trace->visited[at] = at + 1;
    trace->stack[depth++] = at;
    while (depth) {
        const struct tmk_profile_tensor *t = &p->tensors[trace->stack[--depth]];
        for (uint32_t i = 0; i < t->n_operands; i++) {
            uint32_t operand = position_of(p, t->operands[i]);
            if (operand == p->n_tensors || trace->visited[operand] == at + 1)
                continue;
            trace->visited[operand] = at + 1;
            if (is_unseen(&p->tensors[operand]))
                trace->stack[depth++] = operand;
            else if (may_come_from(trace, operand, at) &&
                     (operand > at || !comes_round(trace, operand)))
                trace->found[trace->n_found++] = operand;
        }
    }
}

/* With the lists NULL, only counts. */
static void list_entries(struct tracing *trace, struct tmk_nonfinite *entries, uint32_t *ids,
                         uint32_t *n_entries, size_t *n_ids) {
    const struct tmk_profile *p = trace->profile;
    *n_entries = 0;
    *n_ids = 0;
    memset(trace->visited, 0, p->n_tensors * sizeof *trace->visited);
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        if (trace->first[i] == TMK_NOWHERE)
            continue;
        find_origins(trace, i);
        if (entries) {
            qsort(trace->found, trace->n_found, sizeof *trace->found, tmk_compare_u32);
            for (uint32_t k = 0; k < trace->n_found; k++)
                ids[*n_ids + k] = p->tensors[trace->found[k]].id;
            entries[*n_entries] =
                (struct tmk_nonfinite){p->tensors[i].id, ids + *n_ids, trace->n_found, false};
        }
        ++*n_entries;
        *n_ids += trace->n_found;
    }
}

static enum tmk_status gather_entries(struct tracing *trace, struct tmk_nonfinite **out,
                                      uint32_t *n, struct tmk_diag *diag) {
    const struct tmk_profile *p = trace->profile;
    bool has_operands = false, any = false;
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        struct tmk_summary s = {.first_nonfinite = {TMK_NOWHERE, TMK_NOWHERE}};
        if (p->tensors[i].stats)
            tmk_stats_quick_summary(p->tensors[i].stats, &s);
        trace->first[i] = s.first_nonfinite.sample;
        any |= trace->first[i] != TMK_NOWHERE;
        has_operands |= p->tensors[i].n_operands > 0;
    }
    *out = NULL;
    *n = 0;
    if (!any || !has_operands)
        return TMK_OK;
    uint32_t entries;
    size_t ids;
    list_entries(trace, NULL, NULL, &entries, &ids);
    struct tmk_nonfinite *block = malloc(entries * sizeof *block + ids * sizeof(uint32_t));
    TMK_TRY_ALLOC(block, diag);
    list_entries(trace, block, (uint32_t *)(void *)(block + entries), &entries, &ids);
    uint32_t first = 0;
    while (first < entries && block[first].n_from)
        first++;
    for (bool more = first < entries; more;) { /* more than once for what comes round a loop */
        more = false;
        for (uint32_t i = 0; i < entries; i++)
            for (uint32_t k = 0; k < block[i].n_from && !block[i].downstream; k++) {
                const struct tmk_nonfinite *from =
                    &block[tmk_lower_bound(block, entries, sizeof *block, block[i].from[k])];
                block[i].downstream = from == &block[first] || from->downstream;
                more |= block[i].downstream;
            }
    }
    *out = block;
    *n = entries;
    return TMK_OK;
}

enum tmk_status tmk_profile_nonfinite(const struct tmk_profile *profile, struct tmk_nonfinite **out,
                                      uint32_t *n, struct tmk_diag *diag) {
    size_t size = (size_t)profile->n_tensors + 1;
    uint32_t *scratch = calloc(size, 3 * sizeof *scratch);
    struct tracing trace = {.profile = profile, .first = calloc(size, sizeof(uint64_t))};
    enum tmk_status status = scratch && trace.first ? TMK_OK : tmk_nomem(diag);
    if (status == TMK_OK) {
        trace.visited = scratch;
        trace.stack = scratch + size;
        trace.found = scratch + 2 * size;
        status = gather_entries(&trace, out, n, diag);
    }
    free(scratch);
    free(trace.first);
    return status;
}
