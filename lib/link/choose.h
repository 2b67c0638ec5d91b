/* SPDX-License-Identifier: Apache-2.0 */
/* From signatures to matches: which numbers are equal, and where several are, which is meant. */
#pragma once

#include "graph/graph.h"
#include "link/link.h"
#include "link/signature.h"

struct tmk_choosing {
    struct tmk_linking *l;
    const struct tmk_signatures *originals, *values; /* by ID */
    uint32_t batches;                                /* of both */
    bool made; /* values have operators and an order; those of a dump don't */
    /* One of the files rounds to narrow types: what tmk_link_near tolerates. 0: none does. */
    double noise;
    /* [id]: does it follow from weights alone? With noise weights are sampled, too. */
    const bool *fixed_originals, *fixed_values;
};

/* Floats that were sampled on this side. */
bool tmk_link_is_sampled(const struct tmk_signatures *side, uint32_t id);

/* Channels that go last, or from there to axis 1: axis i of the value is axis perm[i] of the
 * original. */
void tmk_link_permute(bool to_last, int32_t rank, int32_t *perm);
/* Are the value's axes those of the original, so permuted? */
bool tmk_link_is_permuted(const struct tmk_shape *original, const struct tmk_shape *value,
                          bool to_last);
/* Values with equal numbers: SAME, MERGED, VIEW, or ambiguous. */
enum tmk_status tmk_link_choose_equal(const struct tmk_choosing *c);
/* Originals that are left: AFFINE. */
enum tmk_status tmk_link_choose_affine(const struct tmk_choosing *c);
/* Integers that are left, by all their bytes. */
enum tmk_status tmk_link_choose_integers(const struct tmk_choosing *c);

/* Weights that an optimiser changed: reshaped, transposed, or scaled by channel. */

/* Adds signatures of float weights that are not matched, as if they were seen in each batch. */
enum tmk_status tmk_link_sample_weights(const struct tmk_linking *l, struct tmk_graph *graph,
                                        bool originals, struct tmk_signatures *out);
/* Matches float weights that are left. Both graphs are without observers. */
enum tmk_status tmk_link_weights(struct tmk_linking *l, struct tmk_graph *original,
                                 struct tmk_graph *model);
