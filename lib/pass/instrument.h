/* SPDX-License-Identifier: Apache-2.0 */
/* The instrumentation pass: an edge observer on every value of the original graph. */
#pragma once

#include "graph/graph.h"

/* A node of ai.tidemark with one operand and one result. */
struct tmk_inserted_node {
    const char *op;
    const char *result_suffix, *operand_suffix; /* see insert_behind */
    const struct tmk_attr *attrs;
    size_t n_attrs;
};

/* What an observer does with what it sees. X(NAME, "name", help) */
#define TMK_OBSERVER_KINDS(X)                                                                      \
    X(RANGE, "range", "extremes with their places, counts and moments")                            \
    X(HISTOGRAM, "histogram", "all of range, and an exact histogram")                              \
    X(PRINT, "print", "the first elements of every batch, to stderr")                              \
    X(GUARD, "guard", "all of range, and stops the run at the first NaN")                          \
    X(MINMAX, "minmax", "extremes with their places, and counts")

enum tmk_observer_kind {
#define TMK_OBSERVER_KIND_ENUM(name, text, help) TMK_OBSERVER_##name,
    TMK_OBSERVER_KINDS(TMK_OBSERVER_KIND_ENUM)
#undef TMK_OBSERVER_KIND_ENUM
        TMK_N_OBSERVER_KINDS
};

/* False when no kind has this name. */
bool tmk_observer_kind_by_name(const char *name, enum tmk_observer_kind *out);

/* Which values: all of "all", "activations" (inputs and results of nodes other than Constant),
 * "weights" (initializers and results of Constant nodes), or a glob on the value's name; a value
 * that any of the n patterns names is observed. n = 0: all. */
struct tmk_instrument_options {
    const char *const *patterns;
    size_t n_patterns;
    enum tmk_observer_kind kind;
};

/* Puts `ai.tidemark::EdgeObserver` on every selected value of an identified graph, sub-graphs
 * included, and sends the value's uses through it. Its attributes: profile_id, kind, tensor_name
 * (the value's own). A graph's outputs keep their names: the observer's result takes the name over
 * and the value under it becomes NAME/unobserved; any other value keeps its name and the observer's
 * result is NAME/observed. An output that is an input or an initializer of the same graph stays as
 * it is, next to its observer. Values of sequence and optional type get no observer. TMK_NOTFOUND
 * when a pattern names no value. *n_observers may be NULL. A second run adds nothing. */
enum tmk_status tmk_instrument(struct tmk_graph *graph,
                               const struct tmk_instrument_options *options, uint32_t *n_observers,
                               struct tmk_diag *diag);

/* One observer for a value whose ID may differ from the observed one. */
struct tmk_observer_place {
    struct tmk_value *value;
    int64_t id;
    enum tmk_observer_kind kind;
    const char *relation; /* how the value's numbers are had from the ID's; NULL: they are equal */
};
/* Puts these observers on their values as tmk_instrument does, each with its ID, kind and, where
 * there is one, `relation`. A value may have several. */
enum tmk_status tmk_observe_values(struct tmk_graph *graph,
                                   const struct tmk_observer_place *observations, size_t n,
                                   struct tmk_diag *diag);

/* Takes every observer out again and gives the values their names back, so that an instrumented
 * file becomes the graph it was made from. The caller identifies the graph anew. *n_removed may be
 * NULL. */
enum tmk_status tmk_strip_observers(struct tmk_graph *graph, uint32_t *n_removed,
                                    struct tmk_diag *diag);

/* Puts `ai.tidemark::RoundTo` behind every input and result of the graph, its sub-graphs included,
 * that is float16 or bfloat16 in the file that it was imported from (tmk_type.origin, or by the
 * operands where the file does not declare it), and sends all uses through it, those by observers
 * too. Operators that only move elements get none. The graph is sorted and bound; its values are
 * numbered anew, and types that it lacks are filled in. *n: how many were put in. TMK_NOMEM. */
enum tmk_status tmk_round_half(struct tmk_graph *graph, uint32_t *n, struct tmk_diag *diag);

/* Values inside operators, as edges that can be observed. */

/* Gives the nodes of a bound, identified graph, sub-graphs included, an output for each of their
 * inner values (ops/ops.h). Its name is NODE/WHAT, or OUTPUT/WHAT where the node has no name of its
 * own, and longer where a value has that. Its ID follows those of the graph's own values, in the
 * order of the nodes' first outputs; fingerprint and content are those of that output and WHAT.
 * Such a graph can be run, and is no model to be written. */
enum tmk_status tmk_show_inner(struct tmk_graph *graph, struct tmk_diag *diag);
