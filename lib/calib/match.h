/* SPDX-License-Identifier: Apache-2.0 */
/* What the config says of a value, as it is computed and as a node reads it. */
#ifndef TMK_CALIB_MATCH_H
#define TMK_CALIB_MATCH_H

#include "calib/config.h"
#include "calib/net.h"

struct tmk_match {
    const struct tmk_net *net;
    const struct tmk_config *config;
    const bool *is_bias_add;            /* [n_nodes], or NULL: not known yet */
    bool *skipped_first, *skipped_last; /* [n_nodes], set by tmk_match_first_and_last */
    uint32_t
        *behind_float; /* [n_nodes], set by tmk_match_behind_float: the node that the config leaves
                          float and whose result this one moves or clips; else TMK_NET_NONE */
    uint32_t *matched; /* [config->n_rules], counts */
};

/* As the node `reader` has it: what rules of operators say applies that read it and, but for
 * whether to quantize, of the one that computes it. reader TMK_NET_NONE: as it is computed. */
struct tmk_quant_settings tmk_match_settings(const struct tmk_match *match, uint32_t value,
                                             enum tmk_encoding_role role, uint32_t reader);

/* Finds the layers to skip, if the config says so: those that multiply by a weight, with none
 * before (after) them. */
void tmk_match_first_and_last(const struct tmk_match *match);

/* Finds the nodes that only move or clip what a node computes that the config leaves float. They
 * read and compute floats too, unless a rule states otherwise. Before the first tmk_match_settings,
 * after tmk_match_first_and_last, and with is_bias_add set. */
void tmk_match_behind_float(const struct tmk_match *match);

#endif
