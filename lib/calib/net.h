/* SPDX-License-Identifier: Apache-2.0 */
/* The network as its profile has it: nodes, found again from what the values say of their
 * producers and consumers. Attributes and values without a record are not known. */
#pragma once

#include <stdbool.h>

#include <tidemark/profile.h>

#include "base/arena.h"
#include "traits/traits.h"

#define TMK_NET_NONE UINT32_MAX

struct tmk_net_node {
    const char *name; /* nodes without one: the ID of their first output, "p12" */
    const char *op, *domain;
    const struct tmk_traits *traits;
    uint32_t *inputs; /* [n_inputs] positions in profile->tensors; TMK_NET_NONE: not there */
    uint32_t n_inputs;
    uint32_t *outputs; /* the same */
    uint32_t n_outputs;
};

/* A node input that reads a value. */
struct tmk_net_use {
    uint32_t node, input;
};

struct tmk_net {
    const struct tmk_profile *profile; /* not owned */
    struct tmk_net_node *nodes;        /* in the order of their first outputs' IDs */
    uint32_t n_nodes;
    /* By a value's position in profile->tensors: */
    uint32_t *maker;          /* the node that computes it; TMK_NET_NONE: none */
    struct tmk_net_use *uses; /* those of value v stand at first_use[v] ... first_use[v + 1] - 1 */
    uint32_t *first_use;      /* [n_tensors + 1] */
    bool *varies;             /* it depends on the numbers of an input, not on shapes alone */
    struct tmk_arena arena;
};

/* TMK_NOMEM. End with finish, also after a failure. */
enum tmk_status tmk_net_init(struct tmk_net *net, const struct tmk_profile *profile,
                             struct tmk_diag *diag);
void tmk_net_finish(struct tmk_net *net);

/* The node's input as a position in profile->tensors, or TMK_NET_NONE. */
uint32_t tmk_net_input(const struct tmk_net *net, uint32_t node, uint32_t input);
uint32_t tmk_net_output(const struct tmk_net *net, uint32_t node, uint32_t output);
static inline const struct tmk_profile_tensor *tmk_net_tensor(const struct tmk_net *net,
                                                              uint32_t value) {
    return &net->profile->tensors[value];
}
/* The node that computes a value, which may be TMK_NET_NONE; else that. */
static inline uint32_t tmk_net_maker(const struct tmk_net *net, uint32_t value) {
    return value == TMK_NET_NONE ? TMK_NET_NONE : net->maker[value];
}
/* False of TMK_NET_NONE. */
static inline bool tmk_net_varies(const struct tmk_net *net, uint32_t value) {
    return value != TMK_NET_NONE && net->varies[value];
}
/* How many inputs read the value. */
uint32_t tmk_net_readers(const struct tmk_net *net, uint32_t value);

/* What others call ONNX's operators. Pure; thread-safe. */

/* Does `word` (of a config) mean this operator? ONNX's name, or Relay's or Keras', in capitals or
 * not. "dense" and "bias_add" mean only some nodes of their operators: *only says which. */
enum tmk_op_only { TMK_OP_ALL, TMK_OP_ONLY_DENSE, TMK_OP_ONLY_BIAS };
bool tmk_op_is_called(const char *op, const char *word, enum tmk_op_only *only);
