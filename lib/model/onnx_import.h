/* SPDX-License-Identifier: Apache-2.0 */
/* The importer's own: scopes of names, calls of functions, and the steps over them.
 *
 * A file may list nodes in any order. So a graph is made in two steps: `declare` makes every node
 * with its results (inlining calls as it goes), `resolve` finds the operands by name and sets the
 * attributes, whose sub-graphs go through both steps in turn. */
#pragma once

#include "base/map.h"
#include "graph/graph.h"
#include "model/onnx_parts.h"

struct tmk_onnx_scope;

/* A call that is being inlined. */
struct tmk_onnx_call {
    const TmkPb__Function *function;
    const TmkPb__Node *node;
    struct tmk_onnx_scope *caller;
    int depth;
};

/* What a name stands for. */
struct tmk_onnx_binding {
    struct tmk_value *value; /* NULL: parameter number `parameter` of the scope's call */
    size_t parameter;
    bool claimed; /* by a result of the call that made it */
};

/* A node that waits for its operands. */
struct tmk_onnx_pending {
    const TmkPb__Node *pb; /* NULL: an Identity made by us, of `operand` */
    const char *operand;
    struct tmk_node *node; /* NULL: a call, whose body is `body` */
    struct tmk_onnx_scope *body;
};

/* The names of one graph, or of one inlined body. */
struct tmk_onnx_scope {
    struct tmk_onnx_scope *outer; /* where names are looked up next; NULL for roots and bodies */
    struct tmk_onnx_scope *next;  /* of the builder's list */
    const struct tmk_onnx_call *call; /* the body this is, or is inside of; NULL: none */
    const char *prefix;               /* for names of values within a call; NULL: none */
    struct tmk_graph *graph;          /* that nodes are added to */
    struct tmk_map names;             /* to struct tmk_onnx_binding */
    struct tmk_onnx_pending *pending;
    size_t n_pending;
};

struct tmk_onnx_builder {
    struct tmk_onnx_file *file;
    const TmkPb__Model *model;
    struct tmk_graph *root;
    struct tmk_arena scratch;      /* lives as long as the builder */
    struct tmk_map functions;      /* "domain/name/overload" to TmkPb__Function */
    struct tmk_map prefixes;       /* taken ones, to how many names were made of each */
    struct tmk_onnx_scope *scopes; /* all, for finishing */
    bool lazy;                     /* see tmk_onnx_options */
    size_t budget;                 /* bytes that inlining may still make */
    struct tmk_diag *diag;
};

/* "ai.onnx" and NULL are "". */
const char *tmk_onnx_domain(const char *domain);
/* NULL is "". */
const char *tmk_onnx_text(const char *text);

enum tmk_status tmk_onnx_scope_create(struct tmk_onnx_builder *b, struct tmk_graph *graph,
                                      struct tmk_onnx_scope **out);
/* Gives the name its meaning in this scope; TMK_GRAPH when it has one. */
enum tmk_status tmk_onnx_define(struct tmk_onnx_builder *b, struct tmk_onnx_scope *scope,
                                const char *name, struct tmk_onnx_binding binding);
/* Sees through outer scopes and parameters. *out is NULL for an absent optional. */
enum tmk_status tmk_onnx_lookup(struct tmk_onnx_builder *b, const struct tmk_onnx_scope *scope,
                                const char *name, struct tmk_value **out);
/* Takes from what inlining may still make; free outside of calls. */
enum tmk_status tmk_onnx_charge(struct tmk_onnx_builder *b, const struct tmk_onnx_scope *scope,
                                size_t bytes);
/* Reads the types that are declared for results of this scope. */
enum tmk_status tmk_onnx_set_types(struct tmk_onnx_builder *b, struct tmk_onnx_scope *scope,
                                   TmkPb__ValueInfo *const *infos, size_t n);
/* Fills the scope's graph from the message. */
enum tmk_status tmk_onnx_fill_graph(struct tmk_onnx_builder *b, struct tmk_onnx_scope *scope,
                                    const TmkPb__Graph *pb);

/* onnx_nodes.c */
enum tmk_status tmk_onnx_index_functions(struct tmk_onnx_builder *b);
enum tmk_status tmk_onnx_declare(struct tmk_onnx_builder *b, struct tmk_onnx_scope *scope,
                                 TmkPb__Node *const *nodes, size_t n);
enum tmk_status tmk_onnx_resolve(struct tmk_onnx_builder *b, struct tmk_onnx_scope *scope);

/* What every reader does with its graph in the end. */

/* Binds rows (tmk_ops_bind), gives profile IDs and verifies. The graph is sorted. keep_unknown:
 * take operators that have no row. */
enum tmk_status tmk_model_finish(struct tmk_graph *graph, bool keep_unknown, struct tmk_diag *diag);
