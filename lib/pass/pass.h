/* SPDX-License-Identifier: Apache-2.0 */
/* Passes over plain graphs, and their runner.
 *
 * A pass is one file with one row, named once in pass/list.inc. It changes the graph through
 * graph/rewrite.h only, and repeats until it finds nothing more to do, so that a second run makes
 * no progress. The runner, never a pass, sorts, binds and verifies the graph, audits the lineage
 * and shows what came of it. */
#pragma once

#include "graph/rewrite.h"

struct tmk_pass {
    const char *name; /* "fold-constant" */
    const char *help; /* for people, a line */
    /* Rows are bound; the graph is sorted and verified, with sub-graphs; types are known as far as
     * tmk_fill_types finds them (ops/shapes.h). May leave new nodes unbound, untyped and out of
     * order. */
    enum tmk_status (*run)(struct tmk_rewrite *rw);
    bool only_onnx;    /* makes operators that Relay does not have */
    bool needs_ranges; /* does nothing without tmk_pass_options.ranges */
};

/* NULL: there is no such pass. */
const struct tmk_pass *tmk_pass_find(const char *name);
/* Every row, in an order that makes sense to run them all in; NULL at the end. */
const struct tmk_pass *const *tmk_pass_list(void);

struct tmk_pass_options {
    /* Originals whose edges stay and keep their numbers: --observers=barrier. NULL, 0: none. */
    const uint32_t *pinned;
    size_t n_pinned;
    const struct tmk_channel_ranges *ranges; /* [n_ranges] by original; NULL: none are known */
    uint32_t n_ranges;
    /* Called after each pass. NULL: never. */
    void (*after)(void *context, const char *pass, bool progress, struct tmk_graph *graph,
                  const struct tmk_lineage *lineage);
    void *context;
};

/* Runs the passes in order over the graph that `lineage` was made of. Nodes that are not bound are
 * bound; TMK_UNSUPPORTED names those that can't be. options may be NULL. *progress (may be NULL):
 * any pass changed anything. On failure the graph and the lineage are of no use but to be
 * destroyed. */
enum tmk_status tmk_passes_run(struct tmk_graph *graph, struct tmk_lineage *lineage,
                               const struct tmk_pass *const *passes, size_t n,
                               const struct tmk_pass_options *options, bool *progress,
                               struct tmk_diag *diag);
