/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/blocks.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/memory.h"
#include "base/size.h"
#include "exec/worker_parts.h"

/* Bytes of the arena. */
struct span {
    size_t first, end;
};

/* What lives behind a block. */
struct crossing {
    struct span *spans; /* ascending, apart from each other */
    uint32_t n_spans;
    uint32_t *dynamic; /* values */
    uint32_t n_dynamic;
    size_t bytes; /* of the spans */
};

struct tmk_blocks {
    uint32_t n;
    uint32_t *end;             /* [n]: the step behind each block */
    struct crossing *crossing; /* [n]; of the last nothing */
};

struct tmk_saved {
    unsigned char *bytes;
    struct tmk_tensor *dynamic;
    uint32_t n_dynamic;
    uint64_t iterations;
    double operations;
};

/* ---- where ---- */

void tmk_cuts_finish(struct tmk_cuts *cuts) {
    free(cuts->first);
    *cuts = (struct tmk_cuts){0};
}

enum tmk_status tmk_cuts_choose(const struct tmk_plan *plan, const uint64_t *bytes, uint64_t most,
                                struct tmk_cuts *out, uint64_t *largest, struct tmk_diag *diag) {
    struct tmk_cuts cuts = {calloc(plan->n_steps + 1u, sizeof *cuts.first), 1};
    uint64_t sum = 0;
    *largest = 0;
    TMK_TRY_ALLOC(cuts.first, diag);
    for (uint32_t s = 0; s < plan->n_steps;) {
        const struct tmk_node *node = plan->steps[s].node;
        uint64_t own = 0;
        for (; s < plan->n_steps && plan->steps[s].node == node; s++) /* with its reorders */
            own += bytes[s];
        if (sum && own > most - (sum < most ? sum : most)) {
            cuts.first[cuts.n++] = node;
            sum = 0;
        }
        sum += own;
        *largest = sum > *largest ? sum : *largest;
    }
    *out = cuts;
    return TMK_OK;
}

/* Nodes in the order in which they run. */
static enum tmk_status number_nodes(const struct tmk_graph *graph, struct tmk_ptrmap *out,
                                    struct tmk_diag *diag) {
    uintptr_t n = 0;
    for (const struct tmk_node *node = graph->first; node; node = node->next)
        TMK_TRY_ALLOC(tmk_ptrmap_put(out, node, (void *)++n), diag);
    return TMK_OK;
}

static void find_ends(struct tmk_blocks *blocks, const struct tmk_plan *plan,
                      const struct tmk_cuts *cuts, const struct tmk_ptrmap *numbers) {
    uint32_t s = 0;
    for (uint32_t b = 0; b < blocks->n; b++) {
        const void *next = b + 1 < blocks->n ? tmk_ptrmap_get(numbers, cuts->first[b + 1]) : NULL;
        while (s < plan->n_steps &&
               (!next || (uintptr_t)tmk_ptrmap_get(numbers, plan->steps[s].node) < (uintptr_t)next))
            s++;
        blocks->end[b] = s;
    }
}

/* ---- what lives there ---- */

static int by_first(const void *a, const void *b) {
    const struct span *x = a, *y = b;
    return TMK_ORDER(x->first, y->first);
}

/* From its first element to its last. */
static struct span span_of(const struct tmk_plan_value *value) {
    size_t count = 0, bytes;
    (void)tmk_blocked_count(&value->shape, value->block, &count);
    bytes = count * tmk_dtype_size(value->dtype);
    if (value->pitch && count) {
        const size_t rounds = tmk_plan_rounds(value);
        bytes = (rounds - 1) * value->pitch * sizeof(float) + bytes / rounds;
    }
    return (struct span){value->offset, value->offset + bytes};
}

static void join_spans(struct crossing *crossing) {
    uint32_t n = 0;
    qsort(crossing->spans, crossing->n_spans, sizeof *crossing->spans, by_first);
    for (uint32_t i = 0; i < crossing->n_spans; i++) {
        const struct span *span = &crossing->spans[i];
        if (n && span->first <= crossing->spans[n - 1].end) {
            if (span->end > crossing->spans[n - 1].end)
                crossing->spans[n - 1].end = span->end;
        } else {
            crossing->spans[n++] = *span;
        }
    }
    crossing->n_spans = n;
    for (uint32_t i = 0; i < n; i++)
        crossing->bytes += crossing->spans[i].end - crossing->spans[i].first;
}

/* Results of steps before `end` that a step behind it reads. */
static enum tmk_status find_crossing(const struct tmk_plan *plan, uint32_t end,
                                     struct crossing *out, struct tmk_diag *diag) {
    uint32_t n = 0;
    for (uint32_t s = 0; s < end; s++)
        n += plan->steps[s].n_out;
    out->spans = calloc(n + 1u, sizeof *out->spans);
    out->dynamic = calloc(n + 1u, sizeof *out->dynamic);
    TMK_TRY_ALLOC(out->spans && out->dynamic, diag);
    for (uint32_t s = 0; s < end; s++)
        for (uint32_t i = 0; i < plan->steps[s].n_out; i++) {
            const uint32_t at = plan->refs[plan->steps[s].first_out + i];
            if (at == TMK_NO_VALUE || plan->last_use[at] == TMK_NO_VALUE ||
                plan->last_use[at] < end)
                continue;
            if (plan->values[at].place == TMK_PLACE_ARENA)
                out->spans[out->n_spans++] = span_of(&plan->values[at]);
            else if (plan->values[at].place == TMK_PLACE_DYNAMIC)
                out->dynamic[out->n_dynamic++] = at;
        }
    join_spans(out);
    return TMK_OK;
}

enum tmk_status tmk_blocks_create(const struct tmk_plan *plan, const struct tmk_cuts *cuts,
                                  struct tmk_blocks **out, struct tmk_diag *diag) {
    struct tmk_blocks *blocks = calloc(1, sizeof *blocks);
    struct tmk_ptrmap numbers = {0};
    TMK_TRY_ALLOC(blocks, diag);
    blocks->n = cuts->n;
    blocks->end = calloc(cuts->n, sizeof *blocks->end);
    blocks->crossing = calloc(cuts->n, sizeof *blocks->crossing);
    enum tmk_status status = blocks->end && blocks->crossing ? TMK_OK : tmk_nomem(diag);
    TMK_THEN(status, number_nodes(plan->graph, &numbers, diag));
    if (status == TMK_OK)
        find_ends(blocks, plan, cuts, &numbers);
    for (uint32_t b = 0; status == TMK_OK && b + 1 < cuts->n; b++)
        status = find_crossing(plan, blocks->end[b], &blocks->crossing[b], diag);
    tmk_ptrmap_finish(&numbers);
    if (status == TMK_OK)
        *out = blocks;
    else
        tmk_blocks_destroy(&blocks);
    return status;
}

void tmk_blocks_destroy(struct tmk_blocks **slot) {
    struct tmk_blocks *blocks = slot ? *slot : NULL;
    if (!blocks)
        return;
    *slot = NULL;
    for (uint32_t b = 0; blocks->crossing && b < blocks->n; b++) {
        free(blocks->crossing[b].spans);
        free(blocks->crossing[b].dynamic);
    }
    free(blocks->crossing);
    free(blocks->end);
    free(blocks);
}

void tmk_blocks_steps(const struct tmk_blocks *blocks, uint32_t block, uint32_t *first,
                      uint32_t *end) {
    *first = block ? blocks->end[block - 1] : 0;
    *end = blocks->end[block];
}

size_t tmk_blocks_kept(const struct tmk_blocks *blocks) {
    size_t most = 0;
    for (uint32_t b = 0; b < blocks->n; b++)
        most = blocks->crossing[b].bytes > most ? blocks->crossing[b].bytes : most;
    return most;
}

/* ---- between blocks ---- */

void tmk_saved_destroy(struct tmk_saved **slot) {
    struct tmk_saved *saved = slot ? *slot : NULL;
    if (!saved)
        return;
    *slot = NULL;
    for (uint32_t i = 0; saved->dynamic && i < saved->n_dynamic; i++)
        tmk_tensor_finish(&saved->dynamic[i]);
    free(saved->dynamic);
    tmk_memory_free(saved->bytes);
    free(saved);
}

static void copy_spans(struct tmk_worker *worker, const struct crossing *crossing,
                       unsigned char *bytes, bool back) {
    for (uint32_t i = 0; i < crossing->n_spans; i++) {
        unsigned char *at = worker->arena + crossing->spans[i].first;
        const size_t n = crossing->spans[i].end - crossing->spans[i].first;
        if (n)
            memcpy(back ? at : bytes, back ? bytes : at, n);
        bytes += n;
    }
}

static void drop_dynamic_values(struct tmk_worker *worker) {
    for (uint32_t i = 0; i < worker->plan->n_values; i++)
        if (worker->plan->values[i].place == TMK_PLACE_DYNAMIC)
            tmk_tensor_finish(&worker->values[i]);
}

enum tmk_status tmk_block_save(struct tmk_worker *worker, const struct tmk_blocks *blocks,
                               uint32_t block, struct tmk_saved **out, struct tmk_diag *diag) {
    const struct crossing *crossing = &blocks->crossing[block];
    struct tmk_saved *saved = calloc(1, sizeof *saved);
    TMK_TRY_ALLOC(saved, diag);
    *out = saved;
    saved->bytes = tmk_memory_aligned(crossing->bytes);
    saved->dynamic = calloc(crossing->n_dynamic + 1u, sizeof *saved->dynamic);
    if (!saved->bytes || !saved->dynamic)
        return tmk_memory_fail(diag, crossing->bytes, "what later layers read of a batch");
    copy_spans(worker, crossing, saved->bytes, false);
    saved->n_dynamic = crossing->n_dynamic;
    for (uint32_t i = 0; i < crossing->n_dynamic; i++)
        tmk_tensor_share(&saved->dynamic[i], &worker->values[crossing->dynamic[i]]);
    drop_dynamic_values(worker);
    saved->iterations = worker->iterations;
    saved->operations = worker->operations;
    return TMK_OK;
}

void tmk_block_restore(struct tmk_worker *worker, const struct tmk_blocks *blocks, uint32_t block,
                       struct tmk_saved **from) {
    const struct crossing *crossing = &blocks->crossing[block - 1];
    const struct tmk_saved *saved = *from;
    drop_dynamic_values(worker);
    copy_spans(worker, crossing, saved->bytes, true);
    for (uint32_t i = 0; i < crossing->n_dynamic; i++)
        tmk_tensor_share(&worker->values[crossing->dynamic[i]], &saved->dynamic[i]);
    worker->iterations = saved->iterations;
    worker->operations = saved->operations;
    tmk_saved_destroy(from);
}
