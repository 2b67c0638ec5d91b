/* SPDX-License-Identifier: Apache-2.0 */
/* Which values are quantized, for which of their readers, and in which way: a pick for each
 * encoding that is to be made, a reason for each value that stays float. */
#ifndef TMK_CALIB_SELECT_H
#define TMK_CALIB_SELECT_H

#include "calib/config.h"
#include "calib/net.h"

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
TMK_NODISCARD enum tmk_status tmk_select(const struct tmk_net *net, const struct tmk_config *config,
                                         struct tmk_selection *out, struct tmk_diag *diag);
void tmk_selection_finish(struct tmk_selection *selection);

/* The pick by which a node reads its input, or TMK_NET_NONE. */
uint32_t tmk_pick_of_input(const struct tmk_selection *selection, uint32_t node, uint32_t input);

#endif
