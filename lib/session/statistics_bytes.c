/* SPDX-License-Identifier: Apache-2.0 */
#include "session/statistics_bytes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "ops/ops.h"
#include "ops/shapes.h"
#include "stats/state.h"

/* STATE: about what holds a value's statistics, without bins. LARGEST_LOOK: elements of a batch.
 * HIDDEN, CELL: inputs of recurrent operators, their states. */
enum {
    STATE = 1024,
    ROW = TMK_OCTAVES + 1,
    MANTISSA = 23,
    LARGEST_LOOK = 1 << 16,
    HIDDEN = 5,
    CELL = 6
};

enum tmk_status tmk_reach_note(struct tmk_reach *reach, const struct tmk_batch *batch,
                               struct tmk_diag *diag) {
    if (!reach->counts) {
        reach->counts = calloc((size_t)batch->n_inputs * ROW + 1, sizeof *reach->counts);
        TMK_TRY_ALLOC(reach->counts, diag);
        reach->n = batch->n_inputs;
    }
    for (uint32_t i = 0; i < reach->n; i++) {
        const struct tmk_tensor *input = &batch->inputs[i];
        uint64_t *counts = reach->counts + (size_t)i * ROW;
        if (input->dtype != TMK_FLOAT32 || !input->data)
            continue;
        const size_t count = tmk_tensor_count(input),
                     n = count < LARGEST_LOOK ? count : LARGEST_LOOK;
        for (size_t k = 0; k < n; k++) {
            uint32_t bits;
            memcpy(&bits, (const float *)input->data + k, sizeof bits);
            counts[bits >> MANTISSA] += bits << 1 != 0;
        }
        counts[TMK_OCTAVES] += n;
    }
    return TMK_OK;
}

void tmk_reach_finish(struct tmk_reach *reach) {
    free(reach->counts);
    *reach = (struct tmk_reach){0};
}

/* The bins that so many elements are expected to use: in each octave they are about equally
 * frequent. */
static float reach_of_input(const uint64_t *counts, double elements) {
    double bins = 0;
    for (size_t i = 0; i < TMK_OCTAVES && counts[TMK_OCTAVES]; i++)
        if (i % (TMK_SPECIAL + 1) != TMK_SPECIAL)
            bins += TMK_OCTAVE * -expm1(-elements * (double)counts[i] /
                                        (double)counts[TMK_OCTAVES] / TMK_OCTAVE);
    const size_t normal =
        tmk_stats_bins_bytes(TMK_STATS_HISTOGRAM, (size_t)elements, 1) / sizeof(struct tmk_wide);
    return normal && bins > (double)normal ? (float)(bins / (double)normal) : 1;
}

static float most_of(const struct tmk_node *node, uint32_t first, uint32_t end, const float *of) {
    float most = 1;
    for (uint32_t i = first; i < end && i < node->n_inputs; i++)
        if (node->inputs[i] && of[node->inputs[i]->index] > most)
            most = of[node->inputs[i]->index];
    return most;
}

static float reach_of_node(const struct tmk_node *node, const float *of) {
    if (tmk_node_is_observer(node) || tmk_node_has(node, TMK_TRAIT_MOVES))
        return most_of(node, 0, node->n_inputs, of);
    if (tmk_node_has(node, TMK_TRAIT_RECURRENT)) /* what comes out goes in again */
        return most_of(node, HIDDEN, CELL + 1, of);
    return 1;
}

enum tmk_status tmk_reach_of(const struct tmk_reach *reach, const struct tmk_graph *graph,
                             const struct tmk_batch *batch, uint64_t batches, uint32_t n,
                             float **out, struct tmk_diag *diag) {
    float *of = malloc((n + 1u) * sizeof *of);
    TMK_TRY_ALLOC(of, diag);
    for (uint32_t i = 0; i < n; i++)
        of[i] = 1;
    for (uint32_t i = 0; i < reach->n && i < graph->n_inputs; i++)
        of[graph->inputs[i]->index] =
            reach_of_input(reach->counts + (size_t)i * ROW,
                           (double)tmk_tensor_count(&batch->inputs[i]) * (double)batches);
    for (const struct tmk_node *node = graph->first; node; node = node->next)
        for (uint32_t i = 0; i < node->n_outputs; i++)
            if (node->outputs[i])
                of[node->outputs[i]->index] = reach_of_node(node, of);
    *out = of;
    return TMK_OK;
}

/* ---- bytes ---- */

static uint64_t bins_of(float reach, size_t bytes) {
    return (uint64_t)((double)reach * (double)bytes);
}

struct tmk_statistics_bytes tmk_statistics_bytes_of(const struct tmk_planned_taps *o,
                                                    const struct tmk_plan_tap *taps, uint32_t n,
                                                    uint64_t times) {
    const struct tmk_slot_config *slots = o->slots;
    struct tmk_statistics_bytes bytes = {0};
    for (uint32_t i = 0; slots && i < n; i++) {
        const struct tmk_plan_value *value = &o->plan->values[taps[i].value];
        const float reach = o->reach[taps[i].value];
        const struct tmk_slot_config *slot = &slots[taps[i].slot];
        const bool bins = slot->level != TMK_STATS_MINMAX;
        size_t count = 0;
        if (value->dtype != TMK_FLOAT32)
            continue;
        (void)tmk_shape_count(&value->shape, &count);
        if (slot->share > 1)
            count = (count + slot->share - 1) / slot->share;
        const uint64_t done =
                           STATE +
                           (bins ? bins_of(reach, tmk_stats_bins_bytes(slot->level, count, times))
                                 : 0),
                       parts = slot->rule == TMK_DERIVE_CLAMP ? 2 : 1; /* of one sign */
        if (slot->rule != TMK_DERIVE_NONE) { /* what was moved has the same bins, there once */
            bytes.derived += slot->rule >= TMK_DERIVE_VIEW ? (uint64_t)STATE : done / parts;
            continue;
        }
        bytes.counting +=
            STATE +
            (bins ? bins_of(reach, tmk_stats_counting_bytes(slot->level, count, times)) : 0);
        bytes.finishing +=
            STATE +
            (bins ? bins_of(reach, tmk_stats_finishing_bytes(slot->level, count, times)) : 0);
        bytes.done += done;
    }
    return bytes;
}

/* ---- values whose shapes depend on data ---- */

static uint64_t bytes_of_value(const struct tmk_plan *plan, uint32_t at) {
    const struct tmk_plan_value *value = &plan->values[at];
    size_t count = 0;
    if (value->place != TMK_PLACE_DYNAMIC || !value->dtype)
        return 0;
    (void)tmk_shape_count(&value->shape, &count);
    return count * tmk_dtype_size(value->dtype);
}

static bool has_dynamic_steps(const struct tmk_plan *plan) {
    for (uint32_t s = 0; s < plan->n_steps; s++)
        if (plan->steps[s].dynamic)
            return true;
    return false;
}

static enum tmk_status find_types(struct tmk_plan *plan, const struct tmk_batch *batch,
                                  struct tmk_diag *diag) {
    struct tmk_inferred types;
    if (!has_dynamic_steps(plan)) /* then all are known */
        return TMK_OK;
    TMK_TRY(tmk_infer_run(plan->graph, batch->inputs, plan->n_values, &types, diag));
    for (const struct tmk_node *node = plan->graph->first; node; node = node->next)
        for (uint32_t i = 0; i < node->n_outputs; i++) {
            const uint32_t at = node->outputs[i] ? node->outputs[i]->index : TMK_NO_VALUE;
            if (at == TMK_NO_VALUE || plan->values[at].dtype != TMK_UNDEFINED)
                continue;
            plan->values[at].dtype = types.tensors[at].dtype;
            plan->values[at].shape = types.tensors[at].shape;
        }
    tmk_inferred_finish(&types);
    return TMK_OK;
}

enum tmk_status tmk_find_dynamic_types(struct tmk_plan *plan, const struct tmk_batch *batch,
                                       uint64_t *bytes, struct tmk_diag *diag) {
    uint64_t now = 0;
    *bytes = 0;
    TMK_TRY(find_types(plan, batch, diag));
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        const struct tmk_plan_step *step = &plan->steps[s];
        for (uint32_t i = 0; i < step->n_out; i++)
            if (plan->refs[step->first_out + i] != TMK_NO_VALUE)
                now += bytes_of_value(plan, plan->refs[step->first_out + i]);
        *bytes = now > *bytes ? now : *bytes;
        for (uint32_t i = 0; i < step->n_free; i++)
            now -= bytes_of_value(plan, plan->free_list[step->first_free + i]);
    }
    return TMK_OK;
}
