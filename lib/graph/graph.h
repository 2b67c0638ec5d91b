/* SPDX-License-Identifier: Apache-2.0 */
/* The graph IR: values (edges) and the nodes between them.
 *
 * A root graph owns an arena in which its nodes, values, attributes, names and sub-graphs live; all
 * of it dies with tmk_graph_destroy. Weights are refcounted views, so clones are cheap. Pointers to
 * values and nodes stay good while the graph lives, also after removal from it. Everything here may
 * be read freely; it is changed only through the functions below, which keep the use lists right. A
 * graph is used by one thread at a time; many threads may read a graph that none changes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/status.h>
#include <tidemark/tensor.h>

#include "base/arena.h"
#include "base/hash.h"

struct tmk_graph;
struct tmk_node;
struct tmk_op; /* lib/ops: an operator's row */

/* ONNX's name for its own domain is "" (also spelled "ai.onnx"); the IR always has "". */
#define TMK_DOMAIN_ONNX ""
#define TMK_DOMAIN_TIDEMARK "ai.tidemark"
#define TMK_OP_OBSERVER "EdgeObserver"
#define TMK_OP_ROUND_TO "RoundTo"
#define TMK_OP_REQUANTIZE "Requantize"

/* What is declared or inferred of a value. dtype TMK_UNDEFINED: not known. Of sequences and
 * optionals everything but the kind is that of their tensors. */
struct tmk_type {
    enum tmk_type_kind kind;
    enum tmk_dtype dtype;
    enum tmk_dtype origin;  /* the file's type, where the importer widened it; else == dtype */
    bool has_shape;         /* false: not even the rank is known */
    struct tmk_shape shape; /* -1: a dimension that is not known */
    const char *symbol[TMK_MAX_RANK]; /* a free dimension's name, or NULL */
    /* The shape is what a file declares of its outputs, which nothing checks, or was guessed
     * (ops/shapes.h). */
    bool unsure;
};

enum tmk_value_kind {
    TMK_VALUE_INPUT,
    TMK_VALUE_INITIALIZER,
    TMK_VALUE_RESULT,
    TMK_VALUE_DROPPED /* an initializer that was taken out; not alive */
};

struct tmk_use {
    struct tmk_node *node;
    uint32_t input; /* position among node->inputs */
};

struct tmk_value {
    struct tmk_graph *graph;
    const char *name; /* UTF-8, as in the file; never NULL, may be "" */
    enum tmk_value_kind kind;
    struct tmk_type type;
    struct tmk_node *producer; /* TMK_VALUE_RESULT only, else NULL */
    uint32_t output;           /* position among producer->outputs */
    struct tmk_tensor data;    /* TMK_VALUE_INITIALIZER only, else "no tensor" */
    struct tmk_use *uses;      /* by nodes, of this graph and of sub-graphs below it; any order */
    uint32_t n_uses, uses_size;
    uint32_t n_graph_outputs; /* how many times the value stands among graphs' outputs */
    uint32_t output_at;       /* among its graph's, where it was put last; it may be gone there */
    int64_t profile_id;       /* -1: none was given */
    uint64_t fingerprint;     /* how the value is computed: see identify.h */
    uint64_t content;         /* the same, with the bytes of initializers */
    uint32_t ordinal;         /* among values of equal fingerprint, in ID order */
    uint32_t index;           /* dense number given by tmk_graph_number */
    bool inner; /* lies inside its producer: no model has it as an edge, and it is only observed */
    uint32_t origins; /* the originals that it stands for, if a lineage is kept; lineage.h */
};

enum tmk_attr_kind {
    TMK_ATTR_INT,
    TMK_ATTR_FLOAT,
    TMK_ATTR_STRING,
    TMK_ATTR_TENSOR,
    TMK_ATTR_GRAPH,
    TMK_ATTR_INTS,
    TMK_ATTR_FLOATS,
    TMK_ATTR_STRINGS,
    TMK_ATTR_TENSORS,
    TMK_ATTR_GRAPHS,
    TMK_ATTR_TYPE, /* a type_proto: `type` */
};

struct tmk_attr {
    const char *name;
    enum tmk_attr_kind kind;
    size_t n; /* elements of the plural kinds; bytes of a string; 1 of a node's tensor or graph */
    union {
        int64_t i;
        float f;
        const char *s;              /* n bytes and a terminator; may hold any byte */
        struct tmk_tensor *tensors; /* TENSOR: one; TENSORS: n */
        struct tmk_graph **graphs;  /* GRAPH: one; GRAPHS: n */
        const int64_t *ints;
        const float *floats;
        const char *const *strings; /* terminated each */
        const struct tmk_type *type;
    };
};

/* How many graphs an attribute holds. */
static inline size_t tmk_attr_graphs(const struct tmk_attr *attr) {
    return attr->kind == TMK_ATTR_GRAPH || attr->kind == TMK_ATTR_GRAPHS ? attr->n : 0;
}

/* Of an integer, and of a text; both are borrowed. */
struct tmk_attr tmk_attr_int(const char *name, int64_t value);
struct tmk_attr tmk_attr_text(const char *name, const char *value);

struct tmk_node {
    struct tmk_graph *graph;
    struct tmk_node *prev, *next;
    const char *domain, *op, *name; /* never NULL */
    int64_t version;                /* of the domain's operator set that the model imports */
    const struct tmk_op *row;   /* set by tmk_ops_bind; NULL before, and for unknown operators */
    struct tmk_value **inputs;  /* NULL: an optional input that is absent */
    uint32_t *use_at;           /* [n_inputs] of each input, this use's position in its `uses` */
    struct tmk_value **outputs; /* NULL: an optional output that is not wanted */
    uint32_t n_inputs, n_outputs;
    struct tmk_attr *attrs;
    uint32_t n_attrs, attrs_size;
    bool removed;
    uint32_t mark; /* scratch for walks; no meaning between calls */
};
/* NULL: there is none, or it is left out. */
static inline struct tmk_value *tmk_node_input(const struct tmk_node *node, uint32_t at) {
    return at < node->n_inputs ? node->inputs[at] : NULL;
}
static inline struct tmk_value *tmk_node_output(const struct tmk_node *node, uint32_t at) {
    return at < node->n_outputs ? node->outputs[at] : NULL;
}

struct tmk_opset {
    const char *domain;
    int64_t version;
};

struct tmk_graph {
    struct tmk_arena *arena;  /* the root's, shared with its sub-graphs */
    struct tmk_graph *parent; /* NULL: a root */
    struct tmk_node *owner;   /* the node whose attribute a sub-graph is; NULL for a root */
    size_t place;             /* of a sub-graph: which of the attribute's */
    struct tmk_graph
        *made; /* of a root the sub-graph made last, of a sub-graph the one made before it */
    const char *name;
    struct tmk_node *first, *last;
    uint32_t n_nodes;
    struct tmk_value **values; /* every value ever added to this graph (not to its sub-graphs) */
    uint32_t n_values, values_size;
    struct tmk_value **inputs,
        **outputs; /* an output may be an input, an initializer or an outer value */
    uint32_t n_inputs, inputs_size, n_outputs, outputs_size;
    struct tmk_opset *opsets; /* root only */
    uint32_t n_opsets, opsets_size;
    int64_t ir_version;        /* root only: of the file it came from; 0: none */
    const char *producer_name; /* root only; never NULL */
    uint64_t external_bytes;   /* root only: of the files with weights beside that file */
    /* Root only: of the bytes of these files, in the order of their names; "": there are none, or
     * they were not read. */
    char external_hash[TMK_HASH128_HEX];
    /* Root only: it is to be run, and weights may be lazy (tensor/elements.h); those of its clones,
     * too. */
    bool lazy;
    /* Root only: bytes of weights are in no `content`, also of its clones; and IDs of values that
     * no output needs may be in another order. For plans of memory, which read no weights. */
    bool structure_only;
};

/* ---- making and unmaking ---- */

enum tmk_status tmk_graph_create(const char *name, struct tmk_graph **out, struct tmk_diag *diag);
/* NULL and *graph NULL are allowed; only roots are destroyed, with everything below them. */
void tmk_graph_destroy(struct tmk_graph **graph);
/* A graph to be an attribute of a node of `parent` (tmk_node_set_attr makes it so). */
enum tmk_status tmk_graph_create_sub(struct tmk_graph *parent, const char *name,
                                     struct tmk_graph **out, struct tmk_diag *diag);
/* A compact copy of a root: same order, IDs, fingerprints and bound rows; bytes of weights are
 * shared. Lazy weights are opened, unless the graph is one to be run. */
enum tmk_status tmk_graph_clone(const struct tmk_graph *graph, struct tmk_graph **out,
                                struct tmk_diag *diag);
/* A copy to be run. */
enum tmk_status tmk_graph_clone_lazy(const struct tmk_graph *graph, struct tmk_graph **out,
                                     struct tmk_diag *diag);

/* Strings, shapes and tensors are copied (tensors by reference). */
enum tmk_status tmk_graph_set_opset(struct tmk_graph *graph, const char *domain, int64_t version,
                                    struct tmk_diag *diag);
/* 0 when the root imports no such domain. */
int64_t tmk_graph_opset(const struct tmk_graph *graph, const char *domain);
enum tmk_status tmk_graph_add_input(struct tmk_graph *graph, const char *name,
                                    const struct tmk_type *type, struct tmk_value **out,
                                    struct tmk_diag *diag);
enum tmk_status tmk_graph_add_initializer(struct tmk_graph *graph, const char *name,
                                          const struct tmk_tensor *data, struct tmk_value **out,
                                          struct tmk_diag *diag);
enum tmk_status tmk_graph_add_output(struct tmk_graph *graph, struct tmk_value *value,
                                     struct tmk_diag *diag);
/* A node to be made. */
struct tmk_node_spec {
    const char *domain, *op, *name;
    int64_t version;                 /* of the operator; tmk_graph_opset of the domain as a rule */
    struct tmk_value *const *inputs; /* may hold NULL */
    uint32_t n_inputs;
    const char *const *outputs; /* names; NULL for absent outputs */
    uint32_t n_outputs;
};
/* Appends a node, or puts it before `before`; the spec is copied. The results' types are unknown
 * until set. `out` may be NULL. */
enum tmk_status tmk_graph_add_node(struct tmk_graph *graph, struct tmk_node *before,
                                   const struct tmk_node_spec *spec, struct tmk_node **out,
                                   struct tmk_diag *diag);
/* Adds or replaces the attribute of this name; contents are copied into the arena, tensors shared,
 * graphs (made by tmk_graph_create_sub of this node's graph) taken. */
enum tmk_status tmk_node_set_attr(struct tmk_node *node, const struct tmk_attr *attr,
                                  struct tmk_diag *diag);
/* The same of an integer, or of a text. */
enum tmk_status tmk_node_set_int(struct tmk_node *node, const char *name, int64_t value,
                                 struct tmk_diag *diag);
enum tmk_status tmk_node_set_text(struct tmk_node *node, const char *name, const char *value,
                                  struct tmk_diag *diag);

/* Gives the node all attributes of another of the same graph or root, but those named in `but`
 * (ends with NULL; may be NULL). Neither has attribute graphs. */
enum tmk_status tmk_node_copy_attrs(struct tmk_node *node, const struct tmk_node *from,
                                    const char *const *but, struct tmk_diag *diag);

/* ---- changing ---- */

/* value may be NULL where the input is optional. */
enum tmk_status tmk_node_set_input(struct tmk_node *node, uint32_t input, struct tmk_value *value,
                                   struct tmk_diag *diag);
/* Every use of `from` by a node other than `except` (may be NULL) becomes a use of `to`; with
 * `outputs` the graph outputs that are `from`, in this graph and the graphs below it, become `to`
 * as well. */
enum tmk_status tmk_value_replace(struct tmk_value *from, struct tmk_value *to,
                                  const struct tmk_node *except, bool outputs,
                                  struct tmk_diag *diag);
/* Makes output i of the node, which has none there: a value of this name. */
enum tmk_status tmk_node_add_output(struct tmk_node *node, uint32_t output, const char *name,
                                    struct tmk_value **out, struct tmk_diag *diag);
/* Takes the node out; its outputs must have no uses left. Memory goes with the graph. */
void tmk_node_remove(struct tmk_node *node);
/* Takes an initializer that has no uses left out of its graph, and drops its tensor. As a removed
 * node's results it stays among the values, and is not alive. */
void tmk_graph_drop_initializer(struct tmk_value *initializer);
/* The same where the value is an initializer that nothing reads, in a graph or as its output. */
void tmk_graph_drop_if_unused(struct tmk_value *value);
/* Gives a value the profile ID, fingerprint, content and ordinal of another, which has no ID then.
 */
void tmk_value_take_identity(struct tmk_value *to, struct tmk_value *from);
/* Replaces what is known of the value's type (copied). */
enum tmk_status tmk_value_set_type(struct tmk_value *value, const struct tmk_type *type,
                                   struct tmk_diag *diag);
/* Gives the value another name (copied). */
enum tmk_status tmk_value_rename(struct tmk_value *value, const char *name, struct tmk_diag *diag);

/* Puts every node after the producers of its operands, otherwise keeping the order; sub-graphs too.
 * TMK_GRAPH names a node on a cycle. */
enum tmk_status tmk_graph_sort(struct tmk_graph *graph, struct tmk_diag *diag);

/* ---- asking ---- */

const struct tmk_attr *tmk_node_attr(const struct tmk_node *node, const char *name);
/* The attribute of that name and kind, or the default given. A STRING is compared and returned
 * terminated. */
int64_t tmk_node_int(const struct tmk_node *node, const char *name, int64_t otherwise);
float tmk_node_float(const struct tmk_node *node, const char *name, float otherwise);
const char *tmk_node_string(const struct tmk_node *node, const char *name, const char *otherwise);
/* The values and their number; NULL and *n = 0 when absent. */
const int64_t *tmk_node_ints(const struct tmk_node *node, const char *name, size_t *n);
const float *tmk_node_floats(const struct tmk_node *node, const char *name, size_t *n);

/* The place of the input with this name of `len` bytes; -1: there is none. */
int32_t tmk_graph_input_named(const struct tmk_graph *graph, const char *name, size_t len);

bool tmk_node_is(const struct tmk_node *node, const char *domain, const char *op);
bool tmk_node_is_observer(const struct tmk_node *node);
/* For messages: the value's name in the model, also where an observer has taken it over. Valid as
 * long as the graph. */
const char *tmk_value_label(const struct tmk_value *value);
/* For messages: the node's name, or "#position" for nameless ones with its operator: "Conv
 * 'conv1'". */
const char *tmk_node_label(const struct tmk_node *node, char *out, size_t size);
/* The same, for the length of a block. */
#define TMK_NODE_LABEL(node) tmk_node_label((node), (char[256]){0}, 256)
/* The value behind any observers: what an observed edge really is. */
const struct tmk_value *tmk_value_source(const struct tmk_value *value);

/* The graph at the top. */
struct tmk_graph *tmk_graph_root(const struct tmk_graph *graph);

/* A walk over `top` and every graph below it, outer before inner, in node order: the graph behind
 * `graph`, which is `top` to begin with; NULL: it was the last. */
struct tmk_graph *tmk_graph_next(const struct tmk_graph *top, const struct tmk_graph *graph);
/* Of the graphs that are attributes of the node, in order of the attributes' names, the one behind
 * `graph`, or, where that is NULL, the first. NULL: there is none. */
struct tmk_graph *tmk_node_next_graph(const struct tmk_node *node, const struct tmk_graph *graph);
/* True when the value is in use at all or can be one: an input, an initializer, or a live node's
 * result. */
bool tmk_value_alive(const struct tmk_value *value);
/* Gives every live value of the graph and its sub-graphs its dense `index`, in order of appearance
 * (inputs, initializers, results, sub-graphs where their node stands); returns how many. */
uint32_t tmk_graph_number(struct tmk_graph *graph);

/* The values of an identified graph, sub-graphs included, at their profile IDs. */
struct tmk_by_id {
    struct tmk_value **values; /* [n]; NULL: no live value has this ID */
    size_t n;
};
enum tmk_status tmk_by_id_init(struct tmk_by_id *by_id, const struct tmk_graph *graph,
                               struct tmk_diag *diag);
void tmk_by_id_finish(struct tmk_by_id *by_id);
/* NULL where there is none. */
struct tmk_value *tmk_by_id_get(const struct tmk_by_id *by_id, uint32_t id);

/* Checks every invariant: use lists, order, single definitions, outer references, attribute graphs.
 * Reports all violations (as many as the diag holds) and answers TMK_GRAPH. */
enum tmk_status tmk_graph_verify(const struct tmk_graph *graph, struct tmk_diag *diag);
/* Same kind, element type, type in the file, shape and names of dimensions. */
bool tmk_type_equal(const struct tmk_type *a, const struct tmk_type *b);
/* Same type, type in the file, shape and bytes (strings are not held, and count as equal). */
bool tmk_weight_equal(const struct tmk_tensor *a, const struct tmk_tensor *b);
/* Same kind and value, whatever their names; graphs never are. */
bool tmk_attr_equal(const struct tmk_attr *a, const struct tmk_attr *b);

/* Fingerprints and profile IDs: names for values that depend on the graph's structure only.
 *
 * Fingerprint of a value: xxHash64 over
 *   an input:        its dtype, rank and position among the inputs
 *   an initializer:  its dtype and shape (`content`: and its bytes); a Constant node's value counts
 * as one a result:        domain, operator, attributes in order of name, output position, operands'
 * fingerprints An attribute graph counts by the fingerprints of its outputs; its own inputs by
 * position and depth. Names of nodes, values and files have no part in it.
 *
 * IDs: graph inputs in their order; then from each graph output in order, depth first, operands in
 * order, a node's outputs after its operands, sub-graphs where their node stands (after its
 * operands, before its outputs); then what no output needs, in order of (fingerprint, content).
 * Dense from 0. */

/* Gives every live value of a root and its sub-graphs its profile_id, fingerprint, content and
 * ordinal. The graph must be sorted. Done once, at import: an ID never changes. *n_ids (may be
 * NULL) receives their number. */
enum tmk_status tmk_graph_identify(struct tmk_graph *graph, uint32_t *n_ids, struct tmk_diag *diag);
