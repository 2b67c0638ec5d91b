/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a run goes, step by step. Not thread-safe: each worker has its own, and they
 * are added up. */
#pragma once

#include "base/map.h"
#include "plan/plan.h"

/* All runs of one step, whatever the shapes. */
struct tmk_step_time {
    const struct tmk_node *node;
    enum tmk_step_kind kind;
    uint64_t runs, ns; /* without what the observers took, which is: */
    uint64_t observe_ns;
    char what[128];  /* "Conv", "BatchNormalization+Add+Relu", "to blocks for Conv" */
    char kernel[64]; /* "onednn jit:avx512_core", "tiles", "plain C" */
};

/* Zero-initialised is empty. */
struct tmk_timing {
    struct tmk_step_time *steps; /* in order of their first run */
    uint32_t n;
    size_t size;
    struct tmk_ptrmap index;
    uint64_t observe_ns; /* of the step at hand */
};

uint64_t tmk_clock_ns(void);
enum tmk_status tmk_timing_add(struct tmk_timing *timing, const struct tmk_plan *plan,
                               const struct tmk_plan_step *step, uint64_t ns,
                               struct tmk_diag *diag);
enum tmk_status tmk_timing_merge(struct tmk_timing *dst, const struct tmk_timing *src,
                                 struct tmk_diag *diag);
void tmk_timing_finish(struct tmk_timing *timing);
