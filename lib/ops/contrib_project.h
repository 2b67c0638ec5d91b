/* SPDX-License-Identifier: Apache-2.0 */
/* Attention whose Q, K and V are parts of one matrix [batch, sequence, Q | K | V], the product of
 * the input with the weights: what Attention and QAttention share. */
#pragma once

#include "ops/contrib_attend.h"

/* Inner outputs of both. */
enum { TMK_PROJECT_QUERY = 2, TMK_PROJECT_SCORES = 5, TMK_PROJECT_PROBABILITIES };
#define TMK_PROJECT_INNER "query:2 key:3 value:4 scores:5 probabilities:6"

struct tmk_project {
    struct tmk_attend_sizes s;
    int64_t width, part[3]; /* columns of the product: all, and those of Q, K, V */
};

/* Attributes and shapes of x [B,S,D], weights [D,width], bias [width] and past [2,B,N,P,size] (the
 * last two may be NULL); bias and past must be float32. */
enum tmk_status tmk_project_sizes(const struct tmk_node *node, const struct tmk_tensor *x,
                                  const struct tmk_tensor *weights, const struct tmk_tensor *bias,
                                  const struct tmk_tensor *past, struct tmk_project *out,
                                  struct tmk_diag *diag);
/* Sets output [B,S,part 2], present [2,B,N,T,size] and the inner outputs. */
enum tmk_status tmk_project_infer(struct tmk_infer *infer, const struct tmk_project *p);

struct tmk_project_inputs {
    const struct tmk_tensor *mask, *past, *attention_bias; /* checked, or NULL */
};
/* Makes both outputs from qkv [B,S,width]. */
enum tmk_status tmk_project_run(struct tmk_run *run, const struct tmk_project *p,
                                const struct tmk_project_inputs *in, const float *qkv);
