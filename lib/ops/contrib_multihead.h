/* SPDX-License-Identifier: Apache-2.0 */
/* MultiHeadAttention, for operators that are it with other inputs. */
#pragma once

#include "ops/ops.h"

/* Its inputs and outputs. */
enum {
    TMK_MH_Q,
    TMK_MH_K,
    TMK_MH_V,
    TMK_MH_BIAS,
    TMK_MH_MASK,
    TMK_MH_ATTENTION_BIAS,
    TMK_MH_PAST_KEY,
    TMK_MH_PAST_VALUE,
    TMK_MH_INPUTS
};
enum {
    TMK_MH_Y,
    TMK_MH_KEY,
    TMK_MH_VALUE,
    TMK_MH_PRODUCTS,
    TMK_MH_INNER_QUERY,
    TMK_MH_INNER_KEY,
    TMK_MH_INNER_VALUE,
    TMK_MH_INNER_SCORES,
    TMK_MH_INNER_PROBABILITIES,
    TMK_MH_OUTPUTS
};
#define TMK_MULTIHEAD_INNER "query:4 key:5 value:6 scores:7 probabilities:8"

/* infer and run of the row. Attributes are read from the node. */
enum tmk_status tmk_infer_multihead(struct tmk_infer *infer);
enum tmk_status tmk_run_multihead(struct tmk_run *run);
