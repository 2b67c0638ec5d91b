/* SPDX-License-Identifier: Apache-2.0 */
/* How many operations a node takes; see <tidemark/operations.h>. */
#pragma once

#include <tidemark/operations.h>

#include "ops/ops.h"

/* The estimate for operands of these shapes and what infer says of the results. Large numbers are
 * rounded, never wrapped. */
double tmk_op_cost(const struct tmk_node *node, const struct tmk_tensor *const *in,
                   const struct tmk_infer_result *results);

/* TMK_LIMIT, with a text that does not name the node, where `sum`, which includes `own` operations
 * of the node at hand, exceeds the limit. */
enum tmk_status tmk_cost_check(double own, double sum, struct tmk_diag *diag);

/* ---- for rows: what an operator takes beyond its elements ---- */

/* `out`: the first result; NULL: its shape is not known. */
typedef double tmk_cost_function(const struct tmk_node *node, const struct tmk_tensor *const *in,
                                 const struct tmk_tensor *out);

/* Elements; 0 for NULL. */
double tmk_cost_count(const struct tmk_tensor *tensor);
/* The size of an axis, counted from the last where it is negative; 1 where there is none. */
double tmk_cost_dim(const struct tmk_tensor *tensor, int32_t axis);

tmk_cost_function tmk_cost_product;        /* matrices: in[0] and another */
tmk_cost_function tmk_cost_conv;           /* weights in[1] */
tmk_cost_function tmk_cost_conv_quantized; /* weights in[3] */
tmk_cost_function tmk_cost_conv_transpose; /* weights in[1] */
tmk_cost_function tmk_cost_window;         /* each result looks at kernel_shape elements */
tmk_cost_function tmk_cost_recurrent;      /* in[0]: sequence, batch, input; weights in[1], in[2] */
tmk_cost_function tmk_cost_attention;      /* queries in[0]; the longest of the others are keys */
tmk_cost_function tmk_cost_projection;     /* attention that multiplies in[0] with weights first */
