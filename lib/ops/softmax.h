/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax, for the operators that have it inside. */
#pragma once

#include "ops/ops.h"

/* A tensor seen as [outer, n, inner]; sums run over n. */
struct tmk_extents {
    size_t outer, n, inner;
};

/* y = softmax(x) over n >= 1 elements; y may be x. */
void tmk_softmax_row(size_t n, const float *x, float *y);
/* The same along n of [outer, n, inner], none of them 0; y may be x. Scratch from `run`. */
enum tmk_status tmk_softmax(struct tmk_run *run, const struct tmk_extents *e, const float *x,
                            float *y);
