/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel behind LayerNormalization and its kin. */
#ifndef TMK_OPS_LAYER_NORM_H
#define TMK_OPS_LAYER_NORM_H

#include "ops/ops.h"

struct tmk_layer_norm {
    const struct tmk_shape *shape; /* of x and y */
    int32_t axis;                  /* statistics run over this axis and those after it */
    const float *x;
    const struct tmk_tensor *scale, *bias; /* broadcast to `shape`; bias may be NULL */
    double epsilon;
    bool centred;            /* false: the mean counts as 0 */
    float *y;                /* may be x, or NULL */
    float *means, *inverses; /* one an index before `axis`; or NULL */
};

/* y = (x - mean) / sqrt(variance + epsilon) * scale + bias. Scratch from `run`. */
TMK_NODISCARD enum tmk_status tmk_layer_norm(struct tmk_run *run,
                                             const struct tmk_layer_norm *norm);

/* TMK_TYPE or TMK_SHAPE unless the part (may be NULL) is float32 and broadcasts to x. */
TMK_NODISCARD enum tmk_status tmk_layer_norm_check(const struct tmk_tensor *part,
                                                   const struct tmk_shape *x, const char *what,
                                                   struct tmk_diag *diag);
/* The elements of output i, NULL when it is not wanted. */
float *tmk_layer_norm_out(const struct tmk_run *run, uint32_t i);

#endif
