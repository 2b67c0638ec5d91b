/* SPDX-License-Identifier: Apache-2.0 */
/* Which values are quantized, for which of their readers, and in which way: a pick for each
 * encoding that is to be made, a reason for each value that stays float. */
#pragma once

#include "calib/config.h"
#include "calib/net.h"
#include "calib/pattern.h"

/* How one encoding is to be made; everything is said. */
struct tmk_terms {
    struct tmk_grid grid;
    const struct tmk_method *method;
    double parameter; /* 0: the method's default */
    bool channels;    /* a scale a channel, where the value has channels */
    uint32_t block;   /* of weights of matrix products: terms that share a scale; 0: no blocks */
    bool has_range;   /* the config says which */
    float low, high;
};

bool tmk_same_terms(const struct tmk_terms *a, const struct tmk_terms *b);

struct tmk_pick {
    uint32_t value; /* position in profile->tensors */
    enum tmk_encoding_role role;
    struct tmk_terms terms;
    const struct tmk_net_use **uses; /* [n_uses] */
    uint32_t n_uses;
    bool general;  /* for all readers that no other pick of the value is for */
    uint32_t macc; /* BIAS: the node to whose accumulator it is added */
    uint32_t rank; /* the order among picks of one value */
};

struct tmk_selection {
    const struct tmk_net *net;
    struct tmk_pick *picks; /* ascending by value; of one value the general one last */
    uint32_t n_picks;
    uint32_t *general;   /* [n_tensors] the pick that is general; TMK_NET_NONE: none */
    uint32_t *use_pick;  /* by position in net->uses: the pick that holds for it, or TMK_NET_NONE */
    const char **reason; /* [n_tensors] why it stays float (for some readers at least); NULL: no */
    uint32_t *bias_of;   /* [n_nodes] of an Add of a bias with codes: the node whose accumulator it
                            adds to */
    uint32_t *accumulates; /* [n_nodes] the Add that completes its accumulator, or TMK_NET_NONE */
    uint32_t *matched;     /* [config->n_rules] how often each rule was of something */
    struct tmk_arena arena;
};

/* TMK_NOMEM. End with finish, also after a failure. net and config outlive it. */
enum tmk_status tmk_select(const struct tmk_net *net, const struct tmk_config *config,
                           struct tmk_selection *out, struct tmk_diag *diag);
void tmk_selection_finish(struct tmk_selection *selection);

/* The pick by which a node reads its input, or TMK_NET_NONE. */
uint32_t tmk_pick_of_input(const struct tmk_selection *selection, uint32_t node, uint32_t input);

/* Which values must share scale and zero point, and which take their range from elsewhere. */

struct tmk_ties {
    /* By pick: */
    uint32_t *parent;  /* of a forest; ask tmk_tie_root */
    bool *covered;     /* its numbers are those of others of its group, or lie between them */
    const char **unit; /* the rule by which it is in [0, 1]; NULL: none */
    uint32_t *takes;   /* the pick whose encoding it takes over; TMK_NET_NONE: none */
    uint32_t *numbers; /* the value whose numbers are its range: its own, or that of a Relu's result
                          which stays float */
    const char **rule; /* that tied it; NULL: none */
    struct tmk_arena arena;
};

/* TMK_NOMEM. End with finish, also after a failure. */
enum tmk_status tmk_ties_init(struct tmk_ties *ties, const struct tmk_selection *selection,
                              const struct tmk_config *config, struct tmk_diag *diag);
void tmk_ties_finish(struct tmk_ties *ties);

/* The same for all of a group, and one of them. */
uint32_t tmk_tie_root(const struct tmk_ties *ties, uint32_t pick);

/* Layers whose input spans more than 8 bits hold: raw spectra, energies, values with rare and very
 * large elements. The best range leaves them so much noise that it is that of the outputs. */

/* Sets decibels[node] of products that better stay float for that, to what 8 bits leave of the
 * input; 0 of all other nodes. Those with the fewest decibels come first, as long as they have no
 * more than half of the multiplications that 8 bits are for. None with sensitive=quantize, and
 * where activations have more than 8 bits by default. */
enum tmk_status tmk_find_wide(const struct tmk_net *net, const struct tmk_config *config,
                              const struct tmk_patterns *patterns, float *decibels,
                              struct tmk_diag *diag);

/* What the config says of a value, as it is computed and as a node reads it. */

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
    bool *unpaired;         /* [n_tensors], set by tmk_match_beside_float: no QDQ model has codes */
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
