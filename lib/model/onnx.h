/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX model files <-> graph.
 *
 * Import takes operator sets from 1 on and IR versions from 1 on. What it changes on the way in:
 *   - float16, bfloat16 and float64 (types, weights, `to` and `dtype` attributes) become float32;
 * `origin` of a type or tensor keeps what the file states,
 *   - model-local functions are inlined, except ai.tidemark::EdgeObserver; a value inside a call is
 * named "call/value", where call is the name of the calling node or else of its first result,
 *   - initializers that are also listed as inputs are initializers only,
 *   - nodes are put in order.
 * Weights are views of the mapped file wherever their alignment allows; the graph keeps the mapping
 * alive. Files are hostile: every size is checked before memory is asked for, nesting and inlining
 * are limited.
 *
 * All calls are thread-safe for distinct graphs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <tidemark/status.h>
#include <tidemark/tensor.h>

#include "base/text.h"
#include "graph/graph.h"

/* The newest operator set of ONNX's own domain whose operators were compared with ours (onnx 1.23).
 * A later one may give old names new meanings, so models that ask for it are refused. */
enum { TMK_ONNX_NEWEST = 28 };

struct tmk_onnx_options {
    bool keep_unknown;   /* take operators that have no row, for listing or instrumenting */
    bool lazy;           /* large initializers may be lazy (tensor/elements.h) */
    bool structure_only; /* weights are not read: see graph/graph.h */
};

/* Imports, inlines, sorts, binds rows (tmk_ops_bind), gives profile IDs (tmk_graph_identify) and
 * verifies. Errors carry the path; TMK_READ, TMK_FORMAT (no ONNX model), TMK_GRAPH (names node and
 * value), TMK_UNSUPPORTED. `options` may be NULL: all off. */
enum tmk_status tmk_onnx_load(const char *path, const struct tmk_onnx_options *options,
                              struct tmk_graph **out, struct tmk_diag *diag);

/* Export. Names of values, and those of nodes, are made unique where they collide; nameless values
 * get names. Observers keep running in any ONNX runtime: the model brings ai.tidemark::EdgeObserver
 * along as a model-local function that forwards its input. What was widened stays float32, but the
 * model's inputs and outputs have the types of the file that the graph was read from, with Cast
 * behind and before them, and a node that rounds to float16 or bfloat16 (Cast) does so.
 *
 * Where the weights take more than 2,000,000,000 bytes (a protobuf ends at 2 GiB) those of 1 KiB
 * and more go to `path`.data, which is written first. */
enum tmk_status tmk_onnx_save(const struct tmk_graph *graph, const char *path,
                              struct tmk_diag *diag);
/* tmk_onnx_save with another limit, in bytes. */
enum tmk_status tmk_onnx_save_split(const struct tmk_graph *graph, const char *path, size_t limit,
                                    struct tmk_diag *diag);
/* So many nodes stand before the graph's own in its file: a Cast for each such input. */
uint32_t tmk_onnx_leading_casts(const struct tmk_graph *graph);
/* So many Casts stand behind the node in its file, the last of which has the node's result: a
 * node that rounds to float16 or bfloat16 does so there, too. */
uint32_t tmk_onnx_casts_behind(const struct tmk_node *node);
/* Appends the model, weights and all, to `out`. */
enum tmk_status tmk_onnx_encode(const struct tmk_graph *graph, struct tmk_text *out,
                                struct tmk_diag *diag);

/* Reads a TensorProto file (test_data_set_0/input_0.pb); widened as weights are. `name` may be
 * NULL; otherwise *name receives the tensor's name, to be freed, or NULL. End with
 * tmk_tensor_finish. */
enum tmk_status tmk_onnx_load_tensor(const char *path, struct tmk_tensor *out, char **name,
                                     struct tmk_diag *diag);
/* The same for a value of any type: a TensorProto, SequenceProto or OptionalProto file, which by
 * itself does not state its kind. An empty sequence is of the type's elements. */
enum tmk_status tmk_onnx_load_value(const char *path, const struct tmk_type *type,
                                    struct tmk_tensor *out, char **name, struct tmk_diag *diag);
