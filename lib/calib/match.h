/* SPDX-License-Identifier: Apache-2.0 */
/* What the config says of a value, as it is computed and as a node reads it. */
#ifndef TMK_CALIB_MATCH_H
#define TMK_CALIB_MATCH_H

#include "calib/config.h"
#include "calib/net.h"
#include "calib/pattern.h"

struct tmk_match {
    const struct tmk_net *net;
    const struct tmk_config *config;
    const bool *is_bias_add;            /* [n_nodes], or NULL: not known yet */
    bool *skipped_first, *skipped_last; /* [n_nodes], set by tmk_match_first_and_last */
    const struct tmk_patterns *patterns;
    const float *wide;      /* [n_nodes], of tmk_find_wide */
    uint32_t *beside_float; /* [n_nodes], set by tmk_match_beside_float: the float node for which
                               this one is float, too; else TMK_NET_NONE */
    bool *more_bits;        /* [n_nodes], set by tmk_match_beside_float: its values have the
                               config's type for what 8 bits ruin */
    uint32_t *matched;      /* [config->n_rules], counts */
};

/* As the node `reader` has it: what rules of operators say applies that read it and, but for
 * whether to quantize, of the one that computes it. reader TMK_NET_NONE: as it is computed. */
struct tmk_quant_settings tmk_match_settings(const struct tmk_match *match, uint32_t value,
                                             enum tmk_encoding_role role, uint32_t reader);

/* Finds the layers to skip, if the config says so: those that multiply by a weight, with none
 * before (after) them. */
void tmk_match_first_and_last(const struct tmk_match *match);

/* A product whose weight has fewer channels than the target computes quicker in codes. */
bool tmk_match_is_narrow(const struct tmk_match *match, uint32_t node);

/* What holds for a node without the config's rules: TMK_NO where it stays float. */
enum tmk_tristate tmk_match_default(const struct tmk_match *match, uint32_t node);

/* Finds the nodes that only move, clip or compare, and are float because a neighbour is: the node
 * whose result they move, or, with sensitive=float, all that read their results; and the nodes that
 * have more bits, those that move what such a node computes among them. Before the first
 * tmk_match_settings, after tmk_match_first_and_last, and with is_bias_add set. */
void tmk_match_beside_float(const struct tmk_match *match);

#endif
