/* SPDX-License-Identifier: Apache-2.0 */
/* Relay <-> graph. Operators become ONNX's of the same meaning; where Relay's differ (round, pools
 * with ceil_mode, ...) they become several nodes or one of ai.tidemark. A value keeps the name that
 * the text has for it ("%5" is "%5", a parameter "data"), so that everything written about it can
 * be found there. */
#ifndef TMK_MODEL_RELAY_H
#define TMK_MODEL_RELAY_H

#include "model/relay_ast.h"

/* Reads the text, and the params (NULL: none), and lowers @main. */
TMK_NODISCARD enum tmk_status tmk_relay_load(const char *path, const char *params_path,
                                             bool keep_unknown, struct tmk_graph **out,
                                             struct tmk_diag *diag);
/* The same, with the module and the params that it was made from (*params NULL: none); end with
 * their destroys, also after a failure. */
TMK_NODISCARD enum tmk_status tmk_relay_open(const char *path, const char *params_path,
                                             bool keep_unknown, struct tmk_relay_module **module,
                                             struct tmk_relay_params **params,
                                             struct tmk_graph **out, struct tmk_diag *diag);
/* Parameters of @main that `params` has are initializers, others are inputs. Sets `value` of the
 * module's expressions, good while the graph lives. Operators that it does not know are
 * TMK_UNSUPPORTED with one line that names all of them, with places. */
TMK_NODISCARD enum tmk_status tmk_relay_lower(struct tmk_relay_module *module,
                                              const struct tmk_relay_params *params,
                                              bool keep_unknown, struct tmk_graph **out,
                                              struct tmk_diag *diag);
/* Writes a graph as Relay 0.0.5, every ONNX operator by Relay's of the same meaning, weights as
 * parameters beside it (`params_path`), or in the metadata section where that is NULL. Operators
 * that Relay can't say are TMK_UNSUPPORTED, all in one line. */
TMK_NODISCARD enum tmk_status tmk_relay_save(const struct tmk_graph *graph, const char *path,
                                             const char *params_path, struct tmk_diag *diag);
/* How a graph is said in Relay; zero-initialised is the default. */
struct tmk_relay_raise_options {
    bool metadata; /* weights go to the metadata section: there are no params */
    bool qnn;      /* QuantizeLinear as qnn.quantize, whose ties go away from zero, not to even */
};
/* The same as a module, for exporters that add to it; NULL: the default. `value` of expressions
 * that make a value of the graph is that value. */
TMK_NODISCARD enum tmk_status tmk_relay_raise(const struct tmk_graph *graph,
                                              const struct tmk_relay_raise_options *options,
                                              struct tmk_relay_module **module,
                                              struct tmk_relay_params **params,
                                              struct tmk_diag *diag);

#endif
