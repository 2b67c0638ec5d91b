/* SPDX-License-Identifier: Apache-2.0 */
/* How passes change a graph: every change records what becomes of the originals' numbers.
 *
 * A pass matches, checks whether it may, makes new nodes and initializers, and then speaks one
 * verdict for each value that goes or changes. The framework rewires uses and outputs, keeps names
 * of graph outputs, moves IDs, notes progress. After a pass the runner sorts and verifies the graph
 * and audits the lineage, so a forgotten verdict is an error that names the ID.
 *
 * Passes see plain graphs: the runner takes observers out before and puts them back where their IDs
 * went. With pinned values (--observers=barrier) the questions below answer so that a pinned value
 * keeps its numbers and stays.
 *
 * One thread at a time. */
#pragma once

#include "base/map.h"
#include "graph/lineage.h"

/* What was observed of an original: the largest magnitude of each index of an axis. */
struct tmk_channel_ranges {
    const float *most; /* [n]; NULL: not known */
    uint32_t n;
    int32_t axis;
};

struct tmk_rewrite {
    struct tmk_graph *graph; /* the root */
    struct tmk_lineage *lineage;
    const char *pass;                        /* its name */
    const struct tmk_channel_ranges *ranges; /* [n_ranges] by original ID; NULL: none */
    uint32_t n_ranges;
    bool progress;            /* something changed; set by the functions below */
    struct tmk_ptrmap pinned; /* values that must stay as they are */
    struct tmk_map names;     /* all names of values in the graph */
    struct tmk_diag *diag;
};

/* Zeroed members but graph, lineage, pass, diag; collects the names. Always finish it. */
enum tmk_status tmk_rewrite_begin(struct tmk_rewrite *rw);
void tmk_rewrite_finish(struct tmk_rewrite *rw);
/* The value must keep its numbers and stay. */
enum tmk_status tmk_rewrite_pin(struct tmk_rewrite *rw, struct tmk_value *value);

/* Calls fn for every node of the graph, then of its sub-graphs, in order, until it fails. fn may
 * remove and add nodes anywhere: those that are gone, and new ones, are not visited. */
enum tmk_status tmk_rewrite_each(struct tmk_rewrite *rw,
                                 enum tmk_status (*fn)(struct tmk_rewrite *rw,
                                                       struct tmk_node *node));

/* ---- asking ---- */

/* The numbers of an initializer or of a Constant node's `value`; NULL for anything else. */
const struct tmk_tensor *tmk_value_constant(const struct tmk_value *value);
/* It has a consumer, is an output, or is pinned: otherwise eliminate-dead removes it. */
bool tmk_rewrite_is_needed(const struct tmk_rewrite *rw, const struct tmk_value *value);
/* May the value's numbers change, or the value go? Not graph outputs, inputs, pinned values. */
bool tmk_rewrite_may_change(const struct tmk_rewrite *rw, const struct tmk_value *value);
/* The same, and its only use is by one input of one node: inside of a pattern that is to be one. */
bool tmk_rewrite_is_interior(const struct tmk_rewrite *rw, const struct tmk_value *value);
/* May `to` stand wherever `from` stands? Not when from is pinned and the relation is not equality
 * (`equal`), and not when from is a graph output whose name `to` can't take (an input, an
 * initializer, an output itself, a value of another graph). */
bool tmk_rewrite_can_replace(const struct tmk_rewrite *rw, const struct tmk_value *from,
                             const struct tmk_value *to, bool equal);

/* ---- making; these alone are no progress ---- */

/* A node with one result before `before` (in its graph; never NULL), with the graph's operator set
 * of the domain (or `version` where that is not 0, and imports it where the graph does not). The
 * node is called `name`, the result something like it. The result's type is unknown until set. */
enum tmk_status tmk_rewrite_node(struct tmk_rewrite *rw, struct tmk_node *before,
                                 const char *domain, const char *op, const char *name,
                                 int64_t version, struct tmk_value *const *inputs,
                                 uint32_t n_inputs, struct tmk_node **out);
/* An initializer of the graph called something like `name`; the tensor is shared. */
enum tmk_status tmk_rewrite_initializer(struct tmk_rewrite *rw, struct tmk_graph *graph,
                                        const char *name, const struct tmk_tensor *tensor,
                                        struct tmk_value **out);

/* ---- verdicts: all are progress ---- */

/* Every use of `from`, outputs too, becomes a use of `to`, whose numbers are how(from's) (NULL:
 * they are equal). A graph output's name goes along. May be called only where can_replace allows.
 * `from` itself stays, without uses, for tmk_rewrite_remove. */
enum tmk_status tmk_rewrite_replace(struct tmk_rewrite *rw, struct tmk_value *from,
                                    struct tmk_value *to, const struct tmk_relation *how);
/* The numbers that the value holds are from now on how(those it held): what makes it was changed.
 * Only where may_change allows. */
enum tmk_status tmk_rewrite_rescale(struct tmk_rewrite *rw, struct tmk_value *value,
                                    const struct tmk_relation *how);
/* One use of a value becomes a use of `value`, whose numbers are how(the old one's). If the old one
 * has no other use, and it may change, its originals go along; else they stay with it. */
enum tmk_status tmk_rewrite_set_input(struct tmk_rewrite *rw, struct tmk_node *node, uint32_t input,
                                      struct tmk_value *value, const struct tmk_relation *how);
/* The value is computed inside of the operator that makes `into` from now on. Its uses must be
 * gone, or be those of nodes that the caller removes. */
void tmk_rewrite_absorb(struct tmk_rewrite *rw, struct tmk_value *value, struct tmk_value *into);
/* Uses of the value become uses of a new initializer with these numbers (the tensor is shared). Not
 * for graph outputs, whose name an initializer can't take. */
enum tmk_status tmk_rewrite_fold(struct tmk_rewrite *rw, struct tmk_value *value,
                                 const struct tmk_tensor *tensor);
/* Takes out a node whose outputs are not used. Originals that still point to them, or to values of
 * its sub-graphs, are dead. */
void tmk_rewrite_remove(struct tmk_rewrite *rw, struct tmk_node *node);
/* Takes out an initializer without uses. */
void tmk_rewrite_drop(struct tmk_rewrite *rw, struct tmk_value *initializer);
