/* SPDX-License-Identifier: Apache-2.0 */
/* What ONNX Runtime's attention operators share: y = softmax(Q K^T scale + mask + bias) V, head by
 * head. A mask marks with a large negative number, not with -inf, what is not attended. */
#pragma once

#include "ops/ops.h"

/* B samples, N heads, S queries, P keys from the past and L new ones: T = P + L. */
struct tmk_attend_sizes {
    int64_t batch, heads, queries, past, keys, total;
    int64_t size, value_size; /* of one head of Q and K, and of V */
};

/* Sequences of vectors, one a head. */
struct tmk_attend_heads {
    const float *data;
    size_t batch, head, row; /* elements from one to the next */
};

/* TMK_RANGE for sizes beyond all sense. Checks the mask (may be NULL, int32) and the attention bias
 * (may be NULL). Masks are [B] (ends), [2B] (ends, then beginnings), [B,T], [B,S,T] of zeros where
 * nothing is attended; [B,1] and [1,1] mask nothing. The bias is [B or 1, N or 1, S, T]. */
enum tmk_status tmk_attend_check(const struct tmk_attend_sizes *s, const struct tmk_tensor *mask,
                                 const struct tmk_tensor *bias, struct tmk_diag *diag);

/* past and present are tensors of any shape with [B,N,P,size] and [B,N,T,size] elements, or NULL;
 * `heads` is L rows and becomes T rows. Scratch from `run`. */
enum tmk_status tmk_attend_join(struct tmk_run *run, const struct tmk_attend_sizes *s, int64_t size,
                                const float *past, float *present, struct tmk_attend_heads *heads);

struct tmk_attend {
    struct tmk_attend_sizes s;
    struct tmk_attend_heads q, k, v;
    const struct tmk_tensor *mask, *bias; /* as checked, or NULL */
    float *y;                             /* [B,S,N * value_size], or NULL */
    float *products;                      /* [B,N,S,T]: Q K^T scale + mask + bias, or NULL */
    uint32_t scores, probabilities; /* inner outputs, [B,N,S,T]: Q K^T scale, and the softmax */
};
/* The node's attributes: scale, mask_filter_value, unidirectional. Scratch from `run`. */
enum tmk_status tmk_attend(struct tmk_run *run, const struct tmk_attend *attend);

/* Shows so many rows of all heads as [batch, rows, heads * size]. */
enum tmk_status tmk_attend_show(struct tmk_run *run, uint32_t output,
                                const struct tmk_attend_sizes *s, int64_t rows, int64_t size,
                                const struct tmk_attend_heads *heads);
