/* SPDX-License-Identifier: Apache-2.0 */
/* A model file: opened, printed, instrumented, transformed. Nothing runs.
 *
 * A model is used by one thread at a time; distinct models are independent. String arguments are
 * only read during the call. Returned strings are malloc'ed: free() them. */
#ifndef TIDEMARK_MODEL_H
#define TIDEMARK_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/lineage.h>
#include <tidemark/profile.h>
#include <tidemark/status.h>
#include <tidemark/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0". */
TMK_API const char *tmk_version(void);
/* The optional parts that were built in, with blanks: "hdf5 images mpi onednn yaml". */
TMK_API const char *tmk_features(void);

/* A model file in memory: its graph, with profile IDs. Opaque. */
struct tmk_model;

/* Reads an ONNX model, or a module of Relay as text. Its sha256 is that of the file, or with
 * external data that of this hash and the xxh128 of these files' bytes in the order of their names
 * (both in hex, one after the other). `keep_unknown`: operators without a kernel are
 * let through, for printing and instrumenting; otherwise they are TMK_UNSUPPORTED, all named
 * together. End with tmk_model_close. */
TMK_API enum tmk_status tmk_model_open(const char *path, bool keep_unknown, struct tmk_model **out,
                                       struct tmk_diag *diag);
/* The same, with the weights of a Relay module in a file of their own, as relay.save_param_dict
 * writes it (NULL: none); TMK_ARGUMENT where the model is not Relay. The model's sha256 is then
 * that of both files' hashes (in hex), one after the other. */
TMK_API enum tmk_status tmk_model_open_params(const char *path, const char *params,
                                              bool keep_unknown, struct tmk_model **out,
                                              struct tmk_diag *diag);
/* The model that was profiled, if a file of its name and of its sha256 (with that of `params`, or
 * NULL) is in the folder of the file `beside`, or in the current folder; *out: NULL, and no error,
 * where it is in neither. */
TMK_API enum tmk_status tmk_model_open_profiled(const struct tmk_profile *profile,
                                                const char *beside, const char *params,
                                                struct tmk_model **out, struct tmk_diag *diag);
/* tmk_model_open_params without reading weights, for tmk_model_plan_memory: no file is hashed, and
 * values have no fingerprints of contents, so no profile can be made (TMK_ARGUMENT). */
TMK_API enum tmk_status tmk_model_open_to_plan(const char *path, const char *params,
                                               struct tmk_model **out, struct tmk_diag *diag);
/* NULL is allowed. */
TMK_API void tmk_model_close(struct tmk_model **model);

/* What the model takes on the disk: its file, those of its external data, and that of its params;
 * those that are gone count as 0. */
TMK_API uint64_t tmk_model_file_bytes(const struct tmk_model *model);

/* The numbers of a constant by its profile ID: of an initializer, or of what operators compute from
 * initializers alone; of float32, or widened to it. NULL: it is no such value, or memory ran out.
 * Lives as long as the model, which is a struct tmk_model. */
TMK_API const struct tmk_tensor *tmk_model_constant(void *model, uint32_t id);

/* Of what a DequantizeLinear makes of constant codes, also behind operators that move it: the
 * codes' type, axis, block, scales and zero points. NULL: it is no such value, a scale is not
 * positive, or memory ran out. Lives as long as the model. */
TMK_API const struct tmk_encoding *tmk_model_codes(void *model, uint32_t id);

/* ---- looking at a model ---- */

/* Nodes of ONNX's operator of this name, in sub-graphs too. */
TMK_API uint32_t tmk_model_count_op(struct tmk_model *model, const char *op);

enum tmk_view {
    TMK_VIEW_TEXT, /* the IR, one line a node, with profile IDs */
    TMK_VIEW_DOT,  /* Graphviz */
    TMK_VIEW_OPS,  /* operators, how often, which are unsupported: a table */
    TMK_VIEW_JSON  /* values and nodes as JSON */
};
/* *unsupported (may be NULL) receives the number of nodes whose operator is unsupported. */
TMK_API enum tmk_status tmk_model_print(struct tmk_model *model, enum tmk_view view, char **out,
                                        uint32_t *unsupported, struct tmk_diag *diag);

struct tmk_pattern_node;
/* Graphviz, with the nodes of patterns filled and named: `nodes` as tmk_patterns_list has them for
 * a profile of this model, or its skeleton. */
TMK_API enum tmk_status tmk_model_draw_patterns(struct tmk_model *model,
                                                const struct tmk_pattern_node *nodes, size_t n,
                                                char **out, struct tmk_diag *diag);

/* Old and new side by side: a line for each original (ID, verdict, ID in the new model, name,
 * relation, absorber, pass), then one for each new value. The model is either end of the lineage,
 * recognized by fingerprints and weights; TMK_MISMATCH, with what differs from the original, when
 * it is neither. */
TMK_API enum tmk_status tmk_model_print_lineage(const struct tmk_model *model,
                                                const struct tmk_lineage_record *lineage,
                                                char **out, struct tmk_diag *diag);

/* ---- instrumenting ---- */

/* Which values get an observer, and of which kind. */
struct tmk_observe {
    const char *const *patterns; /* "all", "activations", "weights", or globs on names; none: all */
    size_t n_patterns;
    const char *kind; /* "minmax", "range", "histogram", "print", "guard"; NULL: "histogram", but in
                         a run what observers in the file that print or guard do */
};
/* Help for each kind, for people: "range", "extremes ...", ..., NULL. */
TMK_API const char *const *tmk_observer_kinds(void);

/* Writes the model with `ai.tidemark::EdgeObserver` on every selected value; any ONNX runtime runs
 * it and gives the same outputs. *n_observers may be NULL. */
TMK_API enum tmk_status tmk_model_instrument(struct tmk_model *model,
                                             const struct tmk_observe *observe, const char *path,
                                             uint32_t *n_observers, struct tmk_diag *diag);

/* ---- transforming ---- */

/* Name and help, for people, of the i-th pass in the order of "all"; false behind the last. */
TMK_API bool tmk_transform_pass(size_t i, const char **name, const char **help);

struct tmk_profile;

struct tmk_transform_options {
    /* Names, in order; "all" is every pass whose operators the file's format has. */
    const char *const *passes;
    size_t n_passes;
    /* Values that have an observer in the model stay and keep their numbers. Otherwise observers
     * are transparent: out of the way of every pass, and put back where their values went. */
    bool barrier;
    /* Of this very model, for passes that go by observed ranges; without it "all" leaves these
     * passes out. NULL: none. */
    const struct tmk_profile *profile;
    /* Of a Relay module the file for its weights, as relay.save_param_dict writes it; NULL: they go
     * to its metadata section. */
    const char *params_path;
    /* After each pass that is run: its name, whether it changed anything, and the graph as text
     * with what each value stands for. NULL: never. */
    void (*after)(void *context, const char *pass, bool progress, const char *text);
    void *context;
};

/* Does tmk_model_transform write Relay to this path? */
TMK_API bool tmk_is_relay_path(const char *path);

struct tmk_transform_report {
    uint32_t nodes_before, nodes_after; /* in sub-graphs too, without observers */
    uint32_t observers_before, observers_after;
    bool progress; /* any pass changed anything */
};

/* Runs passes over a copy of the model, writes it to `path` (whole or not at all), and answers with
 * what became of each value; end with tmk_lineage_record_destroy. Originals are those of the model
 * without its observers. out and report may be NULL. Inputs and outputs of an ONNX file keep types
 * that are float32 inside (float16 and the like), with Cast behind and before them. TMK_ARGUMENT:
 * there is no such pass.
 *
 * A path that ends in ".relay" becomes Relay text, without observers. Values of the graph that
 * have no expression in the text are CONSTANT where they depend on no input, else DEAD.
 * TMK_UNSUPPORTED names all nodes that Relay cannot express. */
TMK_API enum tmk_status tmk_model_transform(struct tmk_model *model,
                                            const struct tmk_transform_options *options,
                                            const char *path, struct tmk_lineage_record **out,
                                            struct tmk_transform_report *report,
                                            struct tmk_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
