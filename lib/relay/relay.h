/* SPDX-License-Identifier: Apache-2.0 */
/* Relay <-> graph. Operators become ONNX's of the same meaning; where Relay's differ (round, pools
 * with ceil_mode, ...) they become several nodes or one of ai.tidemark. A value keeps the name that
 * the text has for it ("%5" is "%5", a parameter "data"), so that everything written about it can
 * be found there. */
#pragma once

#include "base/map.h"
#include "relay/ast.h"

/* What became of a graph that was written. Zero-initialise. */
struct tmk_relay_written {
    const struct tmk_graph *graph;
    struct tmk_relay_module *module; /* `value` of its expressions is the graph's */
    struct tmk_ptrmap constants;     /* keys: results that depend on no input */
};

/* Reads the text, and the params (NULL: none), and lowers @main. */
enum tmk_status tmk_relay_load(const char *path, const char *params_path, bool keep_unknown,
                               struct tmk_graph **out, struct tmk_diag *diag);
/* The same, with the module and the params that it was made from (*params NULL: none); end with
 * their destroys, also after a failure. */
enum tmk_status tmk_relay_open(const char *path, const char *params_path, bool keep_unknown,
                               struct tmk_relay_module **module, struct tmk_relay_params **params,
                               struct tmk_graph **out, struct tmk_diag *diag);
/* Parameters of @main that `params` has are initializers, others are inputs. Sets `value` of the
 * module's expressions, good while the graph lives. Operators that it does not know are
 * TMK_UNSUPPORTED with one line that names all of them, with places. */
enum tmk_status tmk_relay_lower(struct tmk_relay_module *module,
                                const struct tmk_relay_params *params, bool keep_unknown,
                                struct tmk_graph **out, struct tmk_diag *diag);
/* Writes a graph as Relay 0.0.5, every ONNX operator by Relay's of the same meaning, weights as
 * parameters next to it (`params_path`), or in the metadata section where that is NULL. Operators
 * that Relay cannot express are TMK_UNSUPPORTED, all in one line. `written` (may be NULL) receives
 * what tmk_relay_match takes; it borrows the graph. End with tmk_relay_written_finish, also after a
 * failure. */
enum tmk_status tmk_relay_save(const struct tmk_graph *graph, const char *path,
                               const char *params_path, struct tmk_relay_written *written,
                               struct tmk_diag *diag);
/* Finds the values of a written graph in the graph that its file reads as. `read` is the file's
 * module after tmk_relay_lower made `file` of it; out: value of the written graph -> value of
 * `file`, which has the same numbers in the same shape. Values without an entry have no expression
 * in the file. TMK_GRAPH: `read` is another module than the one written. */
enum tmk_status tmk_relay_match(const struct tmk_relay_written *written,
                                const struct tmk_relay_module *read, const struct tmk_graph *file,
                                struct tmk_ptrmap *out, struct tmk_diag *diag);
void tmk_relay_written_finish(struct tmk_relay_written *written);
/* How a graph is written as Relay; zero-initialised is the default. */
struct tmk_relay_export_options {
    bool metadata; /* weights go to the metadata section: there are no params */
    bool qnn;      /* QuantizeLinear as qnn.quantize, whose ties go away from zero, not to even */
    struct tmk_ptrmap *constants; /* keys: results that depend on no input; NULL: not wanted */
};
/* The same as a module, for exporters that add to it; NULL: the default. `value` of expressions
 * that make a value of the graph is that value. */
enum tmk_status tmk_relay_export(const struct tmk_graph *graph,
                                 const struct tmk_relay_export_options *options,
                                 struct tmk_relay_module **module, struct tmk_relay_params **params,
                                 struct tmk_diag *diag);
