/* SPDX-License-Identifier: Apache-2.0 */
/* How many more bins a value uses than normally distributed elements would, for plans of memory:
 * spectra and recurrent states reach over many octaves, from silence to noise. Known of inputs, and
 * of what is moved or carried on from them. */
#ifndef TMK_SESSION_REACH_H
#define TMK_SESSION_REACH_H

#include "exec/run.h"

/* Elements of the batches looked at, by input and octave. Zero-initialised is empty. */
struct tmk_reach {
    uint64_t *counts; /* [n][TMK_OCTAVES + 1], malloc'ed; the last of an input: all elements */
    uint32_t n;
};
TMK_NODISCARD enum tmk_status tmk_reach_note(struct tmk_reach *reach, const struct tmk_batch *batch,
                                             struct tmk_diag *diag);
void tmk_reach_finish(struct tmk_reach *reach);

/* *out: malloc'ed, [n] by index of a value, and more; 1 where nothing is known. `batch` is one of
 * `batches`. */
TMK_NODISCARD enum tmk_status tmk_reach_of(const struct tmk_reach *reach,
                                           const struct tmk_graph *graph,
                                           const struct tmk_batch *batch, uint64_t batches,
                                           uint32_t n, float **out, struct tmk_diag *diag);

#endif
