/* SPDX-License-Identifier: Apache-2.0 */
/* What values and their statistics take, estimated for plans of memory. */
#pragma once

#include "exec/run.h"
#include "plan/plan.h"

/* ---- reach: how many more bins a value uses than normally distributed elements would ---- */
/* Spectra and recurrent states reach over many octaves, from silence to noise. Known of inputs, and
 * of what is moved or carried on from them. */

/* Elements of the batches looked at, by input and octave. Zero-initialised is empty. */
struct tmk_reach {
    uint64_t *counts; /* [n][TMK_OCTAVES + 1], malloc'ed; the last of an input: all elements */
    uint32_t n;
};
enum tmk_status tmk_reach_note(struct tmk_reach *reach, const struct tmk_batch *batch,
                               struct tmk_diag *diag);
void tmk_reach_finish(struct tmk_reach *reach);

/* *out: malloc'ed, [n] by index of a value, and more; 1 where nothing is known. `batch` is one of
 * `batches`. */
enum tmk_status tmk_reach_of(const struct tmk_reach *reach, const struct tmk_graph *graph,
                             const struct tmk_batch *batch, uint64_t batches, uint32_t n,
                             float **out, struct tmk_diag *diag);

/* ---- bytes ---- */

/* What is observed. */
struct tmk_planned_taps {
    const struct tmk_plan *plan;
    const struct tmk_slot_config *slots; /* NULL: nothing is */
    const float *reach;                  /* by value */
};

struct tmk_statistics_bytes {
    uint64_t counting, finishing, done; /* of values that are observed: meanwhile, and afterwards */
    uint64_t derived;                   /* of those with a rule, which get theirs in the end */
};
/* Of n taps whose tensors run `times` times. */
struct tmk_statistics_bytes tmk_statistics_bytes_of(const struct tmk_planned_taps *observed,
                                                    const struct tmk_plan_tap *taps, uint32_t n,
                                                    uint64_t times);

/* ---- values whose shapes depend on data ---- */

/* Gives values that a plan for the batch does not know the types that they will have, as far as
 * they follow from the batch and from what the graph declares. *bytes: of those that are there
 * together at most. */
enum tmk_status tmk_find_dynamic_types(struct tmk_plan *plan, const struct tmk_batch *batch,
                                       uint64_t *bytes, struct tmk_diag *diag);
