/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this module share. */
#pragma once

#include <tidemark/lineage.h>
#include <tidemark/model.h>
#include <tidemark/profile.h>

#include "base/map.h"
#include "graph/graph.h"
#include "graph/lineage.h"
#include "pass/instrument.h"

struct tmk_constants;

struct tmk_model {
    char *path;
    char *params;                    /* the file of its weights; NULL: none */
    char sha256[65], of_file[65];    /* the latter without its external data */
    const char *format;              /* "onnx", "relay" */
    struct tmk_graph *graph;         /* identified; never changed: clones are */
    struct tmk_constants *constants; /* made when they are asked for */
};
/* The SHA-256 of a model's file; with params (NULL: none) of both files' hashes. Without external
 * data. */
enum tmk_status tmk_model_sha256(const char *path, const char *params, char hex[65],
                                 struct tmk_diag *diag);
/* Is this the model's hash, or in files of former versions that of its file without external data?
 */
bool tmk_model_is_profiled(const struct tmk_model *model, const char *sha256);
/* Of an identified graph: over the fingerprints of its outputs. */
uint64_t tmk_graph_fingerprint(const struct tmk_graph *graph);

/* A copy of the model's graph as it was before anybody observed it: of an instrumented file, the
 * graph that it was made from. Identified. */
enum tmk_status tmk_original(const struct tmk_model *model, struct tmk_graph **out,
                             struct tmk_diag *diag);
/* The same with lazy weights (tensor/elements.h), as clones of it have. */
enum tmk_status tmk_original_to_run(const struct tmk_model *model, struct tmk_graph **out,
                                    struct tmk_diag *diag);
/* Whom the observers of a model watch: by the IDs of the graph without them, one each. */
struct tmk_watched {
    uint32_t *ids;
    enum tmk_observer_kind *kinds;
    uint32_t n;
};
/* One of these copies, and who was watched. Finish *watched whatever the answer. TMK_UNSUPPORTED:
 * an observer is of no kind that is known. */
enum tmk_status tmk_original_watched(const struct tmk_model *model, bool to_run,
                                     struct tmk_graph **out, struct tmk_watched *watched,
                                     struct tmk_diag *diag);
void tmk_watched_finish(struct tmk_watched *watched);
/* A copy of an identified graph with its observers, verified and bound. `observe` NULL: everything,
 * histograms. */
enum tmk_status tmk_instrumented(const struct tmk_graph *original,
                                 const struct tmk_observe *observe, struct tmk_graph **out,
                                 uint32_t *n_observers, struct tmk_diag *diag);

/* What profiles and lineages record of a value. */

/* What the value is to its network. */
enum tmk_profile_kind tmk_value_kind_of(const struct tmk_value *value);
/* "If 'if1'/then_branch" for each graph between this one and the root, outermost first; as much of
 * it as fits. */
enum { TMK_GRAPH_PATH = 1024 };
void tmk_graph_path(const struct tmk_graph *graph, char path[TMK_GRAPH_PATH]);

/* An initializer, or the value of a Constant node. */
bool tmk_is_weight(const struct tmk_value *value);

/* Names of nodes, values and axes are text in profiles and lineages: UTF-8. */
enum tmk_status tmk_check_names(struct tmk_graph *graph, struct tmk_diag *diag);

/* From a lineage between graphs to a record that needs none. */

struct tmk_lineage_ends {
    struct tmk_graph *original; /* as the lineage was made of it; identified */
    struct tmk_graph *graph;    /* that the lineage points into */
    struct tmk_graph *file;     /* what the file of `graph` is when it is read; identified */
    const struct tmk_lineage *lineage;
    /* Of a file in another form than the graph: value of `graph` -> value of `file` with the same
     * numbers in the same shape, and as keys the results that depend on no input. NULL: the file
     * has the graph's own nodes, in their order. */
    const struct tmk_ptrmap *matches, *constants;
};
/* One original for each value of `original`, one value for each of `file`; both get outputs for
 * what lies inside their operators (pass/instrument.h). The models' files and the passes are left
 * to the caller. Numbers the graphs anew. TMK_GRAPH: `file` is not `graph`. */
enum tmk_status tmk_lineage_record_of(const struct tmk_lineage_ends *ends,
                                      struct tmk_lineage_record **out, struct tmk_diag *diag);
