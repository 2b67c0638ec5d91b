/* SPDX-License-Identifier: Apache-2.0 */
/* One head of linear attention, whatever its inputs look like. */
#pragma once

#include "ops/ops.h"

struct tmk_recurrent_heads {
    const char *rule; /* attribute update_rule, which says the next two */
    bool gated, delta, decay_by_key;
    double scale;
    size_t batch, tokens, query_heads, key_heads, heads, keys, values, beta_heads;
};

/* [tokens, heads, elements]; decay and beta may be NULL. */
struct tmk_linear_inputs {
    const float *query, *key, *value, *decay, *beta;
};

/* r->rule, delta and gated. TMK_RANGE: there is no such rule. */
enum tmk_status tmk_read_update_rule(const struct tmk_node *node, struct tmk_recurrent_heads *r,
                                     struct tmk_diag *diag);

/* log(1 + e^x) */
double tmk_softplus(double x);

/* Tokens first, first + 1, ... r->tokens of them, of head h. `state` is [keys, values], and becomes
 * that behind the last token; `v` is scratch for `values`. `out` may be NULL. */
void tmk_linear_head(const struct tmk_recurrent_heads *r, const struct tmk_linear_inputs *in,
                     size_t first, size_t h, double *state, double *v, float *out);
