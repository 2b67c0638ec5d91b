/* SPDX-License-Identifier: Apache-2.0 */
/* What the rules are written with that turn Relay's operators into nodes.
 *
 * Within a rule the first failure sticks (`status` of the call): functions that make values answer
 * NULL from then on, and take NULL, so that a rule reads as the formula that it is. A value that a
 * rule makes on the way is named "RESULT/part" (a part ".0": "RESULT.0"); with part NULL it is the
 * result itself. */
#pragma once

#include "base/diag.h"
#include "base/map.h"
#include "base/size.h"
#include "relay/ast.h"

struct tmk_relay_call;
struct tmk_relay_frame;

/* ---- the table of operators ---- */

enum tmk_relay_op_flags {
    TMK_RELAY_TAKES_TUPLE = 1,  /* some operand is a tuple; else tuples are refused */
    TMK_RELAY_ALIAS = 2,        /* an identity: the attributes don't matter */
    TMK_RELAY_BROADCASTS = 4,   /* the result has operand 0's element type and the shape to which
                                   the operands broadcast; but for nn.bias_add and cast */
    TMK_RELAY_WRITES_RANKED = 8 /* `emit` gets nodes only whose input 0 has a known rank */
};

struct tmk_relay_emit;

/* An attribute that means the same in Relay and ONNX. */
struct tmk_relay_same_attr {
    const char *name;              /* NULL ends a list */
    enum tmk_relay_attr_kind kind; /* INT, REAL or STRING */
    double number;                 /* ONNX's default; of a STRING `text` */
    const char *text;
    const char *onnx; /* its name there; NULL: the same */
    bool optional;    /* not written where it has ONNX's default, which is Relay's too */
    bool write_only;  /* ONNX's operator set of the graph does not have it */
};

/* An operator of Relay and what it is in ONNX, for both directions. */
struct tmk_relay_op {
    const char *name; /* Relay's; "": the row is for writing only; NULL ends a table */
    uint32_t min_in, max_in;
    unsigned flags;
    /* Relay's attributes in their order: "axis=-1; mode='clip'; begin; eps:real". The default as
     * Relay prints it, text in quotes; None: absent; nothing: the call must have it. Of int, real
     * and bool TVM has C++'s own; where the default does not tell, a type does ("object": another).
     */
    const char *attrs;
    /* ONNX's operator ("ai.tidemark::X": of that domain), then for people what else there may be:
     * "Conv; of 8-bit integers ConvInteger". */
    const char *onnx;
    /* Makes ONNX's nodes. The result, or NULL after tmk_rl_tuple or a failure. */
    struct tmk_value *(*lower)(struct tmk_relay_call *call);
    /* Makes Relay's calls of a node of `onnx` (emit.h). The expression of output 0, or NULL after
     * tmk_re_result or a failure. NULL: another row does, or nothing does. */
    struct tmk_relay_expr *(*emit)(struct tmk_relay_emit *e);
    uint32_t read; /* emit: bit i: input i of the node is read as numbers, not as an operand */
    const struct tmk_relay_same_attr *same_attrs; /* for tmk_rl_same and tmk_re_same; NULL: none */
};

/* One node of the operator `onnx` with the same operands and the row's `same_attrs`. */
struct tmk_value *tmk_rl_same(struct tmk_relay_call *call);

/* The tables, one a file; NULL at the end. */
extern const struct tmk_relay_op *const tmk_relay_ops[];
extern const struct tmk_relay_op tmk_relay_ops_codes[], tmk_relay_ops_convolve[],
    tmk_relay_ops_elementwise[], tmk_relay_ops_image[], tmk_relay_ops_nn[], tmk_relay_ops_pool[],
    tmk_relay_ops_qnn[], tmk_relay_ops_reduce[], tmk_relay_ops_shape[], tmk_relay_ops_tensor[];
/* NULL: no such operator. */
const struct tmk_relay_op *tmk_relay_op_find(const char *name);
/* Is the attribute a plain INT, REAL or BOOL in TVM? */
bool tmk_relay_op_attr_is(const struct tmk_relay_op *op, const char *name,
                          enum tmk_relay_attr_kind kind);
/* TMK_UNSUPPORTED names every operator without a row that the function and those that it calls use,
 * with places. */
enum tmk_status tmk_relay_known(const struct tmk_relay_module *module,
                                const struct tmk_relay_function *fn, struct tmk_diag *diag);

/* ---- a module on its way ---- */

/* What an expression comes to: a tensor, a tuple, or a function. */
struct tmk_relay_item {
    struct tmk_value *value;      /* a tensor */
    struct tmk_relay_item *items; /* a tuple; never NULL, even of none */
    uint32_t n;
    const struct tmk_relay_function *fn; /* a function, with the frame that it sees */
    struct tmk_relay_frame *frame;
};

struct tmk_relay_lowering {
    struct tmk_relay_module *module;
    const struct tmk_relay_params *params; /* NULL: none */
    bool keep_unknown;
    struct tmk_graph *root, *graph; /* graph: where nodes go; a branch's, or the root */
    struct tmk_arena scratch;
    struct tmk_map names;             /* of the values so far */
    struct tmk_ptrmap constants;      /* of the metadata section, by their bytes -> value */
    struct tmk_ptrmap parts;          /* results named "TUPLE.i" */
    struct tmk_ptrmap renamed;        /* those that a projection has named since */
    struct tmk_relay_frame *frames;   /* all, to be finished */
    struct tmk_relay_scalar *scalars; /* those of the text that became values */
    uint32_t depth, n_nodes;
    bool placed; /* the failure has its place */
    struct tmk_diag *diag;
};

struct tmk_relay_call {
    struct tmk_relay_lowering *to;
    const struct tmk_relay_op *op;
    const struct tmk_relay_expr *expr;
    const char *name; /* the result's */
    const struct tmk_relay_item *args;
    uint32_t n_args;
    struct tmk_relay_item result; /* of rules that make tuples */
    struct tmk_attr pending[16];  /* of the next node */
    uint32_t n_pending;
    enum tmk_status status;
};

/* A name that no value has yet: `want`, or with a number behind it. NULL: no memory. */
const char *tmk_rl_unique(struct tmk_relay_lowering *l, const char *want);
/* A printed string in the scratch arena; NULL: no memory. */
#define tmk_rl_text(lowering, ...) tmk_arena_printf(&(lowering)->scratch, __VA_ARGS__)
/* Own names of the results of a node: `name` itself, or of a tuple "NAME.0", ... */
enum tmk_status tmk_rl_result_names(struct tmk_relay_lowering *l, const char *name, bool tuple,
                                    uint32_t n, const char **names);
/* A type, widened; unknown where it is no tensor. */
enum tmk_status tmk_rl_type(const struct tmk_relay_type *from, struct tmk_type *out,
                            struct tmk_diag *diag);
/* An initializer of the root, widened. */
enum tmk_status tmk_rl_initializer(struct tmk_relay_lowering *l, const char *name,
                                   const struct tmk_tensor *data, struct tmk_value **out);

/* ---- failures ---- */

/* Records the failure and returns NULL. */
void *tmk_rl_fail(struct tmk_relay_call *call, enum tmk_status status, const char *fmt, ...)
    TMK_PRINTF(3, 4);
void *tmk_rl_nomem(struct tmk_relay_call *call);

/* ---- operands and what is known of them ---- */

/* Operand i; NULL where it is not given or is a tuple. */
struct tmk_value *tmk_rl_in(const struct tmk_relay_call *call, uint32_t i);
/* The parts of the tuple that operand i must be, and their number. */
struct tmk_value **tmk_rl_parts(struct tmk_relay_call *call, uint32_t i, uint32_t *n);
/* Rank 0, and a failure, where it is not known. `v` may be NULL. */
const struct tmk_shape *tmk_rl_shape(struct tmk_relay_call *call, const struct tmk_value *v);
/* The same, with every dimension known. */
const struct tmk_shape *tmk_rl_dims(struct tmk_relay_call *call, const struct tmk_value *v);
int32_t tmk_rl_rank(struct tmk_relay_call *call, const struct tmk_value *v);
enum tmk_dtype tmk_rl_type_of(struct tmk_relay_call *call, const struct tmk_value *v);
bool tmk_rl_is_float(struct tmk_relay_call *call, const struct tmk_value *v);
/* Types of the codes of quantized values: integers of 8 and 16 bits, and int32. */
bool tmk_rl_is_code(enum tmk_dtype dtype);
/* The lowest and the highest number of bool and the integers; false: another type. */
bool tmk_rl_limits(enum tmk_dtype dtype, double *low, double *high);
/* Element i as a double; false where the type is none of those that Relay's constants have. */
bool tmk_rl_element(const struct tmk_tensor *tensor, size_t i, double *out);
/* The elements of a constant as doubles (int64 beyond 2^53 is a failure), in scratch memory. */
const double *tmk_rl_numbers(struct tmk_relay_call *call, const struct tmk_value *v,
                             const char *what, size_t *n);

/* ---- attributes: given, or by the row's default ---- */

/* Does the row list it? */
bool tmk_rl_has_attr(const struct tmk_relay_call *call, const char *name);
bool tmk_rl_given(const struct tmk_relay_call *call, const char *name); /* and not None */
int64_t tmk_rl_int(struct tmk_relay_call *call, const char *name);
double tmk_rl_real(struct tmk_relay_call *call, const char *name);
bool tmk_rl_bool(struct tmk_relay_call *call, const char *name);
const char *tmk_rl_string(struct tmk_relay_call *call, const char *name);
enum { TMK_RL_INTS = 4096 }; /* the longest list */
/* In scratch memory; *n = 0 where it is None. */
const int64_t *tmk_rl_ints(struct tmk_relay_call *call, const char *name, size_t *n);
/* The same of exactly n numbers; one number stands for all. */
bool tmk_rl_exactly(struct tmk_relay_call *call, const char *name, int64_t *out, size_t n);
/* Pairs of a list of pairs. */
const int64_t (*tmk_rl_pairs(struct tmk_relay_call *call, const char *name, size_t *n))[2];
/* An axis in 0 ... rank - 1. */
int32_t tmk_rl_axis(struct tmk_relay_call *call, int64_t axis, int32_t rank);
/* The attribute's dtype, not widened; `otherwise` where it is None or "". */
enum tmk_dtype tmk_rl_dtype_attr(struct tmk_relay_call *call, const char *name,
                                 enum tmk_dtype otherwise);
/* Every attribute of the call is one of the row's, which an annotation may have any of. */
enum tmk_status tmk_rl_check_attrs(struct tmk_relay_call *call);

/* ---- making nodes ---- */

/* Attributes of the node that is made next. */
void tmk_rl_set_int(struct tmk_relay_call *call, const char *name, int64_t value);
void tmk_rl_set_ints(struct tmk_relay_call *call, const char *name, const int64_t *values,
                     size_t n);
void tmk_rl_set_float(struct tmk_relay_call *call, const char *name, double value);
void tmk_rl_set_text(struct tmk_relay_call *call, const char *name, const char *value);

/* `op` is of ONNX's domain unless it begins with "ai.tidemark::". Operands may be NULL only after a
 * failure; trailing ones of `tmk_rl_3` also where they are absent. */
struct tmk_value *tmk_rl_1(struct tmk_relay_call *call, const char *part, const char *op,
                           struct tmk_value *a);
struct tmk_value *tmk_rl_2(struct tmk_relay_call *call, const char *part, const char *op,
                           struct tmk_value *a, struct tmk_value *b);
struct tmk_value *tmk_rl_3(struct tmk_relay_call *call, const char *part, const char *op,
                           struct tmk_value *a, struct tmk_value *b, struct tmk_value *c);
/* NULL operands are absent ones. */
struct tmk_value *tmk_rl_n(struct tmk_relay_call *call, const char *part, const char *op,
                           struct tmk_value *const *in, uint32_t n);
/* A node of several results, which become the call's tuple ("RESULT.0", ...). */
void tmk_rl_outputs(struct tmk_relay_call *call, const char *op, struct tmk_value *const *in,
                    uint32_t n_in, uint32_t n_out);
/* Makes the call's result this tuple; returns NULL. */
struct tmk_value *tmk_rl_tuple(struct tmk_relay_call *call, struct tmk_value *const *values,
                               uint32_t n);

enum { TMK_RL_CONSTANT = 1 << 24 }; /* elements of a constant that is made here */
/* Constants. A dtype of the 64-bit and 16-bit floats stands for float32. */
struct tmk_value *tmk_rl_list(struct tmk_relay_call *call, const char *part, const int64_t *values,
                              size_t n);
struct tmk_value *tmk_rl_scalar(struct tmk_relay_call *call, const char *part, enum tmk_dtype dtype,
                                double value);
struct tmk_value *tmk_rl_array(struct tmk_relay_call *call, const char *part, enum tmk_dtype dtype,
                               const struct tmk_shape *shape, const double *values);

/* ---- formulas that many rules need ---- */

/* The value itself where nothing is to be done; these never make the result itself, unless part is
 * NULL: then there is always a node. */
struct tmk_value *tmk_rl_cast(struct tmk_relay_call *call, const char *part, struct tmk_value *v,
                              enum tmk_dtype to);
struct tmk_value *tmk_rl_transpose(struct tmk_relay_call *call, const char *part,
                                   struct tmk_value *v, const int64_t *perm, int32_t n);
struct tmk_value *tmk_rl_reshape(struct tmk_relay_call *call, const char *part, struct tmk_value *v,
                                 const int64_t *dims, size_t n);
/* A vector laid along `axis` of tensors of that rank: dimensions of 1 are put behind it. Scalars
 * stay. */
struct tmk_value *tmk_rl_along(struct tmk_relay_call *call, const char *part, struct tmk_value *v,
                               int32_t axis, int32_t rank);
/* clip to [low, high]: bounds of the operand's type, cut to what it holds. */
struct tmk_value *tmk_rl_clip(struct tmk_relay_call *call, const char *part, struct tmk_value *v,
                              double low, double high);

/* ---- layouts ---- */

enum { TMK_RL_LETTERS = 8 };
/* perm[i] = where the i-th letter of `to` stands in `from`; false, and a failure, unless both hold
 * the same letters ("NCHW", "OHWI"); lower case and digits are blocks, which are refused. */
bool tmk_rl_layout(struct tmk_relay_call *call, const char *from, const char *to,
                   int64_t perm[TMK_RL_LETTERS], int32_t *n);
