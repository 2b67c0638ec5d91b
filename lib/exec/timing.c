/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/timing.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/diag.h"
#include "base/memory.h"

uint64_t tmk_clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A node may have a step and reorders: an address inside the node distinguishes them. */
static const void *key_of(const struct tmk_node *node, enum tmk_step_kind kind) {
    return (const char *)node + kind;
}

static struct tmk_step_time *find_step(struct tmk_timing *timing, const struct tmk_node *node,
                                       enum tmk_step_kind kind) {
    size_t at = (size_t)tmk_ptrmap_get(&timing->index, key_of(node, kind));
    return at ? &timing->steps[at - 1] : NULL;
}

static struct tmk_step_time *add_step(struct tmk_timing *timing, const struct tmk_node *node,
                                      enum tmk_step_kind kind) {
    if (!TMK_GROW(timing->steps, timing->n, timing->size))
        return NULL;
    if (!tmk_ptrmap_put(&timing->index, key_of(node, kind), (void *)(uintptr_t)(timing->n + 1)))
        return NULL;
    timing->steps[timing->n] = (struct tmk_step_time){.node = node, .kind = kind};
    return &timing->steps[timing->n++];
}

static void describe_step(struct tmk_step_time *time, const struct tmk_plan *plan,
                          const struct tmk_plan_step *step) {
    size_t used = 0;
    const char *reorder = step->kind == TMK_STEP_TO_BLOCKS     ? "to blocks for "
                          : step->kind == TMK_STEP_FROM_BLOCKS ? "from blocks for "
                                                               : "";
    snprintf(time->what, sizeof time->what, "%s%s", reorder, step->node->op);
    for (uint32_t i = 0; i < step->n_nodes && used < sizeof time->what; i++)
        used += (size_t)snprintf(time->what + used, sizeof time->what - used, "%s%s", i ? "+" : "",
                                 plan->members[step->first_node + i]->op);
    snprintf(time->kernel, sizeof time->kernel, "%s",
             step->kind == TMK_STEP_ACCEL   ? tmk_accel_name(step->accel)
             : step->kind == TMK_STEP_CHAIN ? "tiles"
             : step->kind == TMK_STEP_NODE  ? "plain C"
             : step->kind == TMK_STEP_JOIN  ? "in place"
                                            : "reorder");
}

enum tmk_status tmk_timing_add(struct tmk_timing *timing, const struct tmk_plan *plan,
                               const struct tmk_plan_step *step, uint64_t ns,
                               struct tmk_diag *diag) {
    struct tmk_step_time *time = find_step(timing, step->node, step->kind);
    if (!time) {
        time = add_step(timing, step->node, step->kind);
        TMK_TRY_ALLOC(time, diag);
        describe_step(time, plan, step);
    }
    time->runs++;
    time->ns += ns - timing->observe_ns;
    time->observe_ns += timing->observe_ns;
    timing->observe_ns = 0;
    return TMK_OK;
}

enum tmk_status tmk_timing_merge(struct tmk_timing *dst, const struct tmk_timing *src,
                                 struct tmk_diag *diag) {
    for (uint32_t i = 0; i < src->n; i++) {
        const struct tmk_step_time *from = &src->steps[i];
        struct tmk_step_time *to = find_step(dst, from->node, from->kind);
        if (!to) {
            to = add_step(dst, from->node, from->kind);
            TMK_TRY_ALLOC(to, diag);
            *to = *from;
            continue;
        }
        to->runs += from->runs;
        to->ns += from->ns;
        to->observe_ns += from->observe_ns;
    }
    return TMK_OK;
}

void tmk_timing_finish(struct tmk_timing *timing) {
    free(timing->steps);
    tmk_ptrmap_finish(&timing->index);
    *timing = (struct tmk_timing){0};
}
