/* SPDX-License-Identifier: Apache-2.0 */
/* What the searches for patterns share. All look at a bounded number of nodes around a node, or at
 * each node once. */
#pragma once

#include "calib/pattern.h"

struct tmk_finder {
    const struct tmk_net *net;
    struct tmk_patterns *out;
    uint32_t n_instances;
    bool *marked;   /* [n_nodes] scratch of a search over all nodes; all false between searches */
    uint8_t *state; /* [n_nodes] the same */
};

/* Nodes of one occurrence while they are collected. Nodes beyond the room are left out. */
struct tmk_found_nodes {
    uint32_t node[48];
    uint32_t n;
};
void tmk_found_add(struct tmk_found_nodes *found, uint32_t node);
/* Gives those that belong to no pattern yet to this one. */
void tmk_found_keep(struct tmk_finder *f, const struct tmk_found_nodes *found,
                    enum tmk_pattern pattern);
/* One node of an occurrence of its own, or of the one that `with` belongs to. */
void tmk_found_one(struct tmk_finder *f, uint32_t node, uint32_t with, enum tmk_pattern pattern);

bool tmk_is_op(const struct tmk_finder *f, uint32_t node, const char *op);
/* The node is one of these; the list ends with NULL. */
bool tmk_is_any(const struct tmk_finder *f, uint32_t node, const char *const *ops);
/* It moves elements and changes none: Reshape, Transpose, Slice, Concat, Cast ... */
bool tmk_is_move(const struct tmk_finder *f, uint32_t node);
/* It multiplies and accumulates. */
bool tmk_is_product(const struct tmk_finder *f, uint32_t node);
/* The same, by a constant. */
bool tmk_is_layer(const struct tmk_finder *f, uint32_t node);
/* Add, Sub, Mul or Div (TMK_NET_NONE: no) of a value and a constant: the number of the varying
 * input. */
uint32_t tmk_varying_side(const struct tmk_finder *f, uint32_t node);
/* The node that computes the node's input; TMK_NET_NONE: none does. */
uint32_t tmk_maker_of(const struct tmk_finder *f, uint32_t node, uint32_t input);
/* A constant whose elements are all the same. */
bool tmk_constant_is(const struct tmk_finder *f, uint32_t value, double *out);
/* Its one reader, where it has one and is no output of the model. */
uint32_t tmk_only_reader(const struct tmk_finder *f, uint32_t node);
/* x * x or x ^ 2: its x, a value; TMK_NET_NONE: it is not. */
uint32_t tmk_square_of(const struct tmk_finder *f, uint32_t node);
/* Back over moves, at most a few: the node behind them. */
uint32_t tmk_before_moves(const struct tmk_finder *f, uint32_t node);

/* ---- the searches ---- */
void tmk_find_norms(struct tmk_finder *f);     /* pattern_norm.c */
void tmk_find_gates(struct tmk_finder *f);     /* pattern_gate.c */
void tmk_find_attention(struct tmk_finder *f); /* pattern_attention.c: Softmax, too */
void tmk_find_positions(struct tmk_finder *f);
void tmk_find_fronts(struct tmk_finder *f); /* pattern_ends.c: spectra and inputs */
void tmk_find_boxes(struct tmk_finder *f);
void tmk_find_indices(struct tmk_finder *f);
void tmk_find_math(struct tmk_finder *f);
