/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs read from their text form (graph/print.h). */
#pragma once

#include "graph/lineage.h"
#include "graph/print.h"
#include "graph_text/pool.h"
#include "pass/pass.h"

enum { TEXT_MAX_NESTING = 32 }; /* of graphs in a text, the root included */

/* Reads the text form of a root. The pool, which may be NULL, holds the tensors that stand there as
 * "#k". Errors are TMK_FORMAT with "line:column" in front. The graph is verified, rows are unbound,
 * fingerprints zero. */
enum tmk_status parse_graph(const char *text, const struct tensor_pool *pool,
                            struct tmk_graph **out, struct tmk_diag *diag);

/* tmk_passes_run, but after each pass the graph is printed, read and bound again, and replaced by
 * the result: nothing may depend on what the text omits. */
enum tmk_status run_passes_reparsed(struct tmk_graph **graph, struct tmk_lineage *lineage,
                                    const struct tmk_pass *const *passes, size_t n,
                                    const struct tmk_pass_options *options, bool *progress,
                                    struct tmk_diag *diag);
