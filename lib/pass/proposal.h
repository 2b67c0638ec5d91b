/* SPDX-License-Identifier: Apache-2.0 */
/* Scales along channels, and changes of weights that are tried before they are made.
 *
 * A pass collects what a fold would take; if everything is possible it applies the lot, else it
 * drops it and the graph is untouched. One thread at a time. */
#pragma once

#include "graph/rewrite.h"

/* Factors: one for all elements, or one for each index of an axis of some value. */
struct tmk_scale {
    uint32_t n;
    int32_t axis;    /* n > 1 only */
    double *factor;  /* n; a scale owns them together with `inverse`, one block */
    double *inverse; /* 1 / factor, n */
    double *zero;    /* n zeros: the shift of a relation */
};

/* The constant factor of a Mul, or of a Div by it, of two float32 operands; *constant receives
 * which of the inputs it is. False: there is none, it is not finite, or its shape is not that of
 * one number or of one a channel of the result (whose rank must be known). End with
 * tmk_scale_finish. */
bool tmk_scale_of(const struct tmk_node *node, struct tmk_scale *out, uint32_t *constant);
void tmk_scale_finish(struct tmk_scale *scale);
/* n factors along the axis, to be filled in with their inverses. False: memory ran out. */
bool tmk_scale_make(uint32_t n, int32_t axis, struct tmk_scale *out);
bool tmk_scale_is_positive(const struct tmk_scale *scale);
/* No factor is 0, none so small that its inverse is infinite in float32. */
bool tmk_scale_has_inverse(const struct tmk_scale *scale);
/* The same block with factors and inverses exchanged; borrowed, not to be finished. */
struct tmk_scale tmk_scale_inverse(const struct tmk_scale *scale);
/* value = factor * original; borrows the factors. */
struct tmk_lineage_affine tmk_scale_relation(const struct tmk_scale *scale);

/* -1: not known. Of initializers and Constants that of the data. */
int32_t tmk_value_rank(const struct tmk_value *value);

struct tmk_proposed_constant {
    struct tmk_node *node;
    uint32_t input;
    struct tmk_tensor tensor;
    struct tmk_lineage_affine how; /* borrows from the scale */
};
struct tmk_proposed_rescale {
    struct tmk_value *value;
    struct tmk_lineage_affine how;
};

/* Zero-initialised but rw is empty. */
struct tmk_proposal {
    struct tmk_rewrite *rw;
    struct tmk_proposed_constant *constants;
    size_t n_constants, constants_size;
    struct tmk_proposed_rescale *rescales;
    size_t n_rescales, rescales_size;
    bool failed; /* memory ran out, which made an answer "no" */
};

/* The node's constant float32 input times the scale along `axis` of the constant (n = 1: all of
 * it). False: no constant, another size along the axis, a product that is not finite, or the input
 * is already in the proposal. */
bool tmk_propose_constant(struct tmk_proposal *p, struct tmk_node *node, uint32_t input,
                          const struct tmk_scale *scale, int32_t axis);
/* The value's numbers will be factor times what they were. False when it is in the proposal
 * already. */
bool tmk_propose_rescale(struct tmk_proposal *p, struct tmk_value *value,
                         const struct tmk_scale *scale);
/* The value times the scale: what makes it takes the factors, through operators that pass a scale
 * on. False: something on the way cannot (pass/fold_scale_axis.c). */
bool tmk_propose_result(struct tmk_proposal *p, struct tmk_value *value,
                        const struct tmk_scale *scale);
/* All that reads the value takes the factors into its weights. */
bool tmk_propose_readers(struct tmk_proposal *p, struct tmk_value *value,
                         const struct tmk_scale *scale);
/* Makes all of it so. */
enum tmk_status tmk_proposal_apply(struct tmk_proposal *p);
void tmk_proposal_finish(struct tmk_proposal *p);
