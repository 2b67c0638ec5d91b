/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this module share. */
#ifndef TMK_TRANSFORM_MODEL_H
#define TMK_TRANSFORM_MODEL_H

#include <tidemark/model.h>

#include "graph/graph.h"
#include "pass/instrument.h"

struct tmk_constants;

struct tmk_model {
    char *path;
    char *params; /* the file of its weights; NULL: none */
    char sha256[65];
    const char *format;              /* "onnx", "relay" */
    struct tmk_graph *graph;         /* identified; never changed: clones are */
    struct tmk_constants *constants; /* made when they are asked for */
};
/* The SHA-256 of a model's file; with params (NULL: none) of both files' hashes. */
TMK_NODISCARD enum tmk_status tmk_model_sha256(const char *path, const char *params, char hex[65],
                                               struct tmk_diag *diag);
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

#endif
