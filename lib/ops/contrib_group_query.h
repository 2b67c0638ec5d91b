/* SPDX-License-Identifier: Apache-2.0 */
/* GroupQueryAttention, for operators that are it with other inputs. */
#pragma once

#include "ops/ops.h"

/* Its inputs. */
enum {
    TMK_GQ_Q,
    TMK_GQ_K,
    TMK_GQ_V,
    TMK_GQ_PAST_KEY,
    TMK_GQ_PAST_VALUE,
    TMK_GQ_LENGTHS,
    TMK_GQ_TOTAL,
    TMK_GQ_COS,
    TMK_GQ_SIN,
    TMK_GQ_POSITIONS,
    TMK_GQ_BIAS,
    TMK_GQ_SINK,
    TMK_GQ_KEY_SCALE,
    TMK_GQ_VALUE_SCALE,
    TMK_GQ_QUERY_NORM,
    TMK_GQ_KEY_NORM,
    TMK_GQ_INPUTS
};
#define TMK_GROUP_QUERY_INNER                                                                      \
    "query:3 key:4 value:5 query_rotated:6 key_rotated:7 scores:8 probabilities:9"

/* infer, run and has_inner of the row. Attributes are read from the node. */
enum tmk_status tmk_infer_group_query(struct tmk_infer *infer);
enum tmk_status tmk_run_group_query(struct tmk_run *run);
bool tmk_group_query_has_inner(const struct tmk_node *node, uint32_t output);
