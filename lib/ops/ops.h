/* SPDX-License-Identifier: Apache-2.0 */
/* Operators: one row an operator and semantic version, found by (domain, name, operator set
 * version). Operators that share one kernel share a file, whose rows are an array: tmk_ops_FILE,
 * listed in lib/ops/list.inc. */
#pragma once

#include "graph/graph.h"
#include "traits/traits.h"

enum { TMK_MAX_INPUTS = 2048, TMK_MAX_OUTPUTS = 2048 }; /* of one node; more is refused */
enum { TMK_VARIADIC = INT32_MAX };

/* What the memory and the running of a row need. Traits of the operator that hold for all of its
 * rows are in traits/traits.h. */
enum tmk_op_flags {
    TMK_OP_IMPURE = 1, /* the same inputs may give other outputs, or outputs that are no tensors:
                          constants are not folded by running the kernel */
    TMK_OP_VIEW = 2, /* output 0 holds input 0's elements in the same order: memory may be shared */
    TMK_OP_INPLACE =
        4, /* element i of output 0 needs element i of the operands only: it may overwrite input 0
              when both have the same dtype and shape, other operands in that memory included */
    TMK_OP_SIZES_ITSELF =
        8, /* some output's shape is known only once the kernel has run: tmk_run_alloc */
    TMK_OP_RUNS_GRAPHS = 16, /* control flow: the kernel runs attribute graphs, by `call` */
    TMK_OP_TAKES_ANY = 32,   /* operands may be sequences, or optionals that hold nothing; all other
                                operators are refused them before infer */
    TMK_OP_MAKES_SEQUENCES = 64, /* every output is a sequence: the kernel gives it, by tmk_give */
    TMK_OP_CHECKS = 128 /* run refuses elements of operands that may have some where the outputs
                           have none: it is called then, too */
};

/* Where output 0 has its channels, for per-channel statistics. */
enum tmk_channel_rule {
    TMK_CHANNEL_NONE,
    TMK_CHANNEL_AXIS1,  /* N C ...: convolutions, normalisation over channels, pools */
    TMK_CHANNEL_LAST,   /* ... C: matrix products, normalisation over the last axis */
    TMK_CHANNEL_INHERIT /* as input 0, when output 0 has the same shape: elementwise operators */
};

/* An attribute of an operator. Kinds are checked when a graph is bound. */
struct tmk_attr_rule {
    char name[48];
    enum tmk_attr_kind kind;
    bool required;
};

/* ---- shape inference: concrete input shapes in, output types and shapes out ---- */

struct tmk_infer_result {
    bool known; /* false: depends on elements that were not given (or TMK_OP_SIZES_ITSELF) */
    enum tmk_dtype dtype;
    struct tmk_shape shape;
};

struct tmk_infer {
    const struct tmk_node *node;
    uint32_t n_in, n_out;
    /* dtype and shape always; data is NULL where the elements are not known; NULL pointer: input
     * absent */
    const struct tmk_tensor *const *in;
    struct tmk_infer_result
        *out; /* n_out of them, zeroed; absent outputs may be filled, and are not read */
    struct tmk_diag *diag;
};

/* ---- running ---- */

struct tmk_run {
    const struct tmk_node *node;
    uint32_t n_in, n_out;
    const struct tmk_tensor *const
        *in; /* NULL: absent; data is never NULL (but may be of zero elements) */
    /* NULL: not wanted. Allocated as inferred; data NULL for outputs whose shape was not known: the
     * kernel calls tmk_run_alloc. Only with TMK_OP_INPLACE may out[0]->data be in[0]->data, only
     * with TMK_OP_VIEW or TMK_OP_INPLACE do they overlap at all. */
    struct tmk_tensor *const *out;
    /* Temporary memory, 64-byte aligned, not zeroed, gone after the call; NULL: there is none. */
    void *(*scratch)(void *context, size_t bytes);
    /* Memory for output i; see tmk_run_alloc. */
    enum tmk_status (*alloc)(void *context, uint32_t i, enum tmk_dtype dtype,
                             const struct tmk_shape *shape, struct tmk_diag *diag);
    void *context; /* of the functions */
    struct tmk_diag *diag;
    /* Takes elements [first, first + n) of an inner output that has no memory; see tmk_run_show.
     * NULL: all have. */
    enum tmk_status (*show)(void *context, uint32_t i, const float *x, size_t first, size_t n,
                            struct tmk_diag *diag);
    /* Only for TMK_OP_RUNS_GRAPHS: runs an attribute graph of the node. inputs: one a graph input,
     * good for the call. outputs: one a graph output, the caller's to finish, whatever the status.
     * NULL: it cannot be run. */
    enum tmk_status (*call)(void *context, const struct tmk_graph *body,
                            const struct tmk_tensor *inputs, struct tmk_tensor *outputs,
                            struct tmk_diag *diag);
    bool gives_back; /* operands in mapped files leave memory between reads of a few rows */
};

struct tmk_op {
    const char *domain, *name;
    int32_t since, until; /* operator set versions [since, until]; INT32_MAX: still current */
    int32_t min_in, max_in, min_out, max_out; /* TMK_VARIADIC: no limit but TMK_MAX_* */
    unsigned flags;
    enum tmk_channel_rule channel;
    uint32_t lazy; /* bit i: run takes operand i also where it is lazy (tensor/elements.h) */
    /* Attributes and their kinds, "!" behind one that must be there: "axis:int pads:ints!". NULL:
     * none. */
    const char *attrs;
    /* Inner values: float32 numbers that the kernel comes by, named by what they are, and the
     * outputs that a node has for them when they are to be observed: "scores:4 probabilities:5".
     * From max_out on, an output is the profile's alone: infer gives its shape, and run shows every
     * element once, by tmk_run_show, where the output is wanted. Below, it is an output that the
     * model may leave out. NULL: none. */
    const char *inner;
    /* A node has this one (of `inner`); NULL: every node has all. */
    bool (*has_inner)(const struct tmk_node *node, uint32_t output);
    /* What the row's infer and run read, where rows that differ in it share them; and the same
     * where a yes or no tells them apart. */
    const void *table;
    bool variant;
    /* May assume: n_in, n_out within limits, required inputs present, attributes of the right kind.
     * Checks everything else of shapes, dtypes and attribute values (they are hostile). */
    enum tmk_status (*infer)(struct tmk_infer *infer);
    /* By tmk_run_kernel only. May assume: infer has accepted exactly these shapes, dtypes and
     * attributes (and these elements, where infer reads them), and some output is wanted and, but
     * with TMK_OP_CHECKS, has elements. Checks elements that infer could not see. */
    enum tmk_status (*run)(struct tmk_run *run);
    /* Operations beyond one for each element of operands and results, from shapes and from elements
     * that are there (ops/cost.h). Where infer has accepted the operands. NULL: none. */
    double (*cost)(const struct tmk_node *node, const struct tmk_tensor *const *in,
                   const struct tmk_tensor *out);
};

/* Does the operator read operand i also where it is lazy? */
static inline bool tmk_op_takes_lazy(const struct tmk_op *op, uint32_t i) {
    return i < 32 && op->lazy >> i & 1;
}

/* Members of a row: what it is found by, and the least and most inputs and outputs of a node. */
#define TMK_OP_KEY(domain_, name_, since_, until_)                                                 \
    .domain = domain_, .name = name_, .since = since_, .until = until_
#define TMK_OP_ONNX(name_, since_, until_) TMK_OP_KEY(TMK_DOMAIN_ONNX, name_, since_, until_)
#define TMK_OP_COUNTS(min_in_, max_in_, min_out_, max_out_)                                        \
    .min_in = min_in_, .max_in = max_in_, .min_out = min_out_, .max_out = max_out_

/* Reads an attribute of a row's `attrs`, and moves *at behind it; false, at the end. */
bool tmk_attr_rule_next(const char **at, struct tmk_attr_rule *rule);
/* One of the row's attributes has the name. */
bool tmk_op_takes_attr(const struct tmk_op *row, const char *name);

/* Reads an inner value of a row's `inner`, and moves *at behind it; false, at the end. */
struct tmk_inner_rule {
    char name[48];
    uint32_t output;
};
bool tmk_inner_rule_next(const char **at, struct tmk_inner_rule *rule);

/* The row for a node's (domain, op, version), or NULL. */
const struct tmk_op *tmk_op_find(const char *domain, const char *name, int64_t version);
/* The arrays of rows: every file's, and their list, NULL at the end. An array ends with a row
 * without a name. */
#define TMK_OPS(file) extern const struct tmk_op tmk_ops_##file[];
#include "ops/list.inc"
#undef TMK_OPS
const struct tmk_op *const *tmk_op_list(void);

/* Sets every node's row, in sub-graphs too, and checks counts of inputs and outputs and kinds of
 * attributes. Unknown operators are TMK_UNSUPPORTED with one line that names all of them with their
 * nodes. */
enum tmk_status tmk_ops_bind(struct tmk_graph *graph, struct tmk_diag *diag);

/* Gives the results whose types are not declared, and that are no tensors by the operators that
 * make them, their kind; in sub-graphs too. The graph is bound and sorted. */
void tmk_ops_kinds(struct tmk_graph *graph);

/* What others than its kernel may assume of a node's operator; bound or not. */
static inline const struct tmk_traits *tmk_node_traits(const struct tmk_node *node) {
    return tmk_traits_of(node->domain, node->op);
}
/* The operator has one of these traits. */
static inline bool tmk_node_has(const struct tmk_node *node, unsigned flags) {
    return tmk_traits_are(tmk_node_traits(node), flags);
}
/* An output that the kernel shows piece by piece: an inner value that no model has. */
static inline bool tmk_is_shown(const struct tmk_node *node, uint32_t output) {
    return node->outputs[output] && node->outputs[output]->inner &&
           (int64_t)output >= node->row->max_out;
}
/* A product of floats, with nothing else fused into it. */
bool tmk_op_is_product(const struct tmk_node *node);
/* The dimension of a product's weights that makes channels of its result; -1: it is none. */
int32_t tmk_op_weight_axis(const struct tmk_node *node);

/* infer with checks around it: operands are of a kind that the row takes (TMK_TYPE), every inferred
 * shape is a valid one (counts don't overflow). */
enum tmk_status tmk_op_infer(const struct tmk_node *node, const struct tmk_tensor *const *in,
                             struct tmk_infer_result *out, struct tmk_diag *diag);
/* Runs the row's kernel, unless it is known that no wanted output has elements and that it checks
 * none. */
enum tmk_status tmk_run_kernel(struct tmk_run *run);
/* Infers, allocates the wanted outputs on the heap, runs the plain kernel. out[i] is overwritten
 * for every output of the node (finish each); absent outputs become "no tensor". The reference for
 * every other way to run a node, and the fold rule. */
enum tmk_status tmk_op_run(const struct tmk_node *node, const struct tmk_tensor *const *in,
                           struct tmk_tensor *out, struct tmk_diag *diag);

/* The axis of output 0 on which a node's channels lie, given its operands' axes (-1: none). */
int32_t tmk_op_channel_axis(const struct tmk_node *node, int32_t input_axis,
                            const struct tmk_shape *in, const struct tmk_shape *out);
