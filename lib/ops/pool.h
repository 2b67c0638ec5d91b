/* SPDX-License-Identifier: Apache-2.0 */
/* Pools whose input lies elsewhere than in input 0, for operators with AveragePool's and MaxPool's
 * attributes. */
#pragma once

#include "ops/ops.h"

/* The result's shape for an input [N, C, ...]. */
enum tmk_status tmk_pool_shape(const struct tmk_node *node, const struct tmk_shape *x,
                               struct tmk_shape *out, struct tmk_diag *diag);
/* y, not empty, = the mean or the maximum under each window of x, of that shape. Scratch from
 * `run`. */
enum tmk_status tmk_pool_average(struct tmk_run *run, const struct tmk_shape *shape, const float *x,
                                 float *y);
/* Of int8 or uint8. */
enum tmk_status tmk_pool_max(struct tmk_run *run, const struct tmk_shape *shape, bool is_signed,
                             const void *x, void *y);
