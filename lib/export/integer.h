/* SPDX-License-Identifier: Apache-2.0 */
/* The INTEGER form's own. Operators are looked at in order (integer.c); each either becomes a few
 * operators of integers (integer_product.c, integer_arithmetic.c, integer_move.c), or stays, and
 * reads and writes float numbers between DequantizeLinear and QuantizeLinear (integer_form.c).
 *
 * A value of the original has up to two forms: codes under its encoding, and float numbers. Both
 * are made where a node reads them. Codes of 4 bits lie in 8-bit integers. */
#pragma once

#include "base/arena.h"
#include "base/map.h"
#include "export/quantized.h"

/* A value as codes. */
struct tmk_codes {
    struct tmk_value *value;
    const struct tmk_encoding *encoding;
    struct tmk_value *real; /* scale * (code - zero point); NULL: not made yet */
    struct tmk_codes *next; /* the same value under another encoding */
};

/* What became of a value of the original. */
struct tmk_form {
    struct tmk_codes *codes; /* the first is under the encoding of most readers; or NULL */
    struct tmk_value *real;  /* of a value without codes: an accumulator's numbers; or NULL */
    bool gone;               /* the node that made it is to be removed */
};

struct tmk_integer {
    struct tmk_graph *graph; /* that becomes the integer form */
    const struct tmk_encodings *encodings;
    const struct tmk_quantize_options *options;
    struct tmk_arena arena;
    struct tmk_ptrmap forms;     /* value of the original -> struct tmk_form */
    struct tmk_ptrmap rewritten; /* nodes that are new, or to be removed */
    struct tmk_ptrmap overrides; /* values -> struct tmk_encoding (integer_overrides.c) */
    struct tmk_node *at;         /* new nodes come before it */
    char why[256];               /* why the node at hand stays float */
    struct tmk_diag *diag;
};

/* How codes, or an accumulator, become codes: y = clamp(real * (x - x_zero) + zero point). */
struct tmk_rescale {
    uint32_t n;         /* 1, or one an index of `axis` */
    const double *real; /* [n], > 0 */
    const float *rne;   /* [n]: the same, as float arithmetic has it; NULL: (float)real */
    int32_t axis;
    struct tmk_value *x_zero; /* NULL: 0 */
};

/* ---- integer_form.c: values ---- */

/* As the reader sees it; node NULL: as most do. Results of operators that moved codes have theirs
 * where they have none of their own. NULL: it stays float. */
const struct tmk_encoding *tmk_integer_encoding(const struct tmk_integer *g,
                                                const struct tmk_value *value,
                                                const struct tmk_node *node, uint32_t input);
/* The same, if integers of at most `bits` bits and one scale can be reckoned with; otherwise NULL,
 * and g->why says of `what` why not. */
const struct tmk_encoding *tmk_integer_plain(struct tmk_integer *g, const struct tmk_value *value,
                                             const struct tmk_node *node, uint32_t input,
                                             uint32_t bits, const char *what);
/* The type that codes of this encoding lie in; TMK_UNDEFINED: it has no integers. */
enum tmk_dtype tmk_integer_carrier(const struct tmk_encoding *encoding);
bool tmk_integer_same_grid(const struct tmk_encoding *a, const struct tmk_encoding *b);

/* The value's codes under the encoding, made if need be. */
enum tmk_status tmk_integer_codes_of(struct tmk_integer *g, struct tmk_value *value,
                                     const struct tmk_encoding *encoding, struct tmk_value **out);
/* The value's numbers as a reader of float sees them. */
enum tmk_status tmk_integer_real_of(struct tmk_integer *g, struct tmk_value *value,
                                    const struct tmk_encoding *encoding, struct tmk_value **out);
/* Says that the node at hand, or the last of those that it stands for, is done: `codes` are those
 * of its result. */
enum tmk_status tmk_integer_made(struct tmk_integer *g, struct tmk_value *result,
                                 struct tmk_value *codes, const struct tmk_encoding *encoding);
/* The same for a result that has float numbers only. */
enum tmk_status tmk_integer_made_real(struct tmk_integer *g, struct tmk_value *result,
                                      struct tmk_value *real);
/* The value is in the graph, and so are its codes. */
enum tmk_status tmk_integer_made_both(struct tmk_integer *g, struct tmk_value *real,
                                      struct tmk_value *codes, const struct tmk_encoding *encoding);
/* The node will be removed: others stand for it. */
enum tmk_status tmk_integer_replaced(struct tmk_integer *g, struct tmk_node *node);
/* Sets g->why, and answers TMK_OK: the node at hand stays as it is. */
TMK_PRINTF(2, 3) enum tmk_status tmk_integer_stays(struct tmk_integer *g, const char *format, ...);

/* ---- integer_overrides.c ---- */

/* Before any node is looked at. */
enum tmk_status tmk_integer_find_overrides(struct tmk_integer *g);
/* Of a node that stays as it is: where it reads float numbers alone, so do readers of its results,
 * but products and the like. */
enum tmk_status tmk_integer_left_float(struct tmk_integer *g, const struct tmk_node *node);
/* As this reader sees the value whose own encoding is `own`, or NULL; reader NULL: as most do. */
const struct tmk_encoding *tmk_integer_override(const struct tmk_integer *g,
                                                const struct tmk_value *value,
                                                const struct tmk_node *reader,
                                                const struct tmk_encoding *own);

/* ---- nodes ---- */

/* A node of one result, called `name` and `suffix`. */
enum tmk_status tmk_integer_node(struct tmk_integer *g, const char *domain, const char *op,
                                 int64_t version, struct tmk_value *const *inputs,
                                 uint32_t n_inputs, const char *name, const char *suffix,
                                 struct tmk_node **out);
/* The same of ONNX's domain as of operator set 13, without attributes; b may be NULL. */
enum tmk_status tmk_integer_plain_node(struct tmk_integer *g, const char *op, struct tmk_value *a,
                                       struct tmk_value *b, const char *name, const char *suffix,
                                       struct tmk_value **out);
enum tmk_status tmk_integer_set_ints(struct tmk_integer *g, struct tmk_node *node, const char *name,
                                     const int64_t *values, size_t n);
/* An initializer of integers; shape NULL: a scalar. */
enum tmk_status tmk_integer_constant(struct tmk_integer *g, enum tmk_dtype dtype,
                                     const struct tmk_shape *shape, const int32_t *codes,
                                     const char *name, const char *suffix, struct tmk_value **out);
/* An initializer of numbers: a scalar, or [n]. */
enum tmk_status tmk_integer_floats(struct tmk_integer *g, uint32_t n, const float *values,
                                   const char *name, const char *suffix, struct tmk_value **out);
/* The zero points of an encoding: a scalar, or [n]. */
enum tmk_status tmk_integer_zero(struct tmk_integer *g, const struct tmk_encoding *encoding,
                                 const char *name, struct tmk_value **out);
/* int32: codes - zero point. */
enum tmk_status tmk_integer_centred(struct tmk_integer *g, struct tmk_value *codes,
                                    const struct tmk_encoding *encoding, const char *name,
                                    struct tmk_value **out);
/* Requantize. `to` NULL: int32 without a zero point. Codes are clamped to [lowest, highest]. */
enum tmk_status tmk_integer_requantize(struct tmk_integer *g, struct tmk_value *x,
                                       const struct tmk_rescale *rescale,
                                       const struct tmk_encoding *to, int32_t lowest,
                                       int32_t highest, const char *name, const char *suffix,
                                       struct tmk_value **out);
/* DequantizeLinear by these scales; zero NULL: 0. */
enum tmk_status tmk_integer_dequantize(struct tmk_integer *g, struct tmk_value *x, uint32_t n,
                                       const float *scale, int32_t axis, struct tmk_value *zero,
                                       const char *name, struct tmk_value **out);

/* ---- what becomes of results ---- */

/* A result, and the Relu or Clip behind it that the clamp does. */
struct tmk_tail {
    struct tmk_value *result;            /* of the last that is replaced */
    const struct tmk_encoding *encoding; /* of it; NULL: it stays float */
    int32_t lowest, highest;             /* codes */
};
/* Of a node that is to be replaced; what stands behind it becomes replaced, too. */
enum tmk_status tmk_integer_tail(struct tmk_integer *g, struct tmk_value *result,
                                 struct tmk_tail *out);
/* The bounds of a Relu or Clip; false: they depend on the data, or it is neither. */
bool tmk_integer_bounds(const struct tmk_node *node, float *least, float *most);
/* Clamps [*lowest, *highest] to the codes of these reals. */
void tmk_integer_clamp(const struct tmk_encoding *encoding, float least, float most,
                       int32_t *lowest, int32_t *highest);
/* The only reader of a value that may go: no output, and no other reader. NULL: there is none. */
struct tmk_node *tmk_integer_only_reader(const struct tmk_value *value);

/* ---- operators: each replaces the node, or says why it stays ---- */

typedef enum tmk_status tmk_integer_fn(struct tmk_integer *g, struct tmk_node *node);

tmk_integer_fn tmk_integer_conv, tmk_integer_gemm, tmk_integer_matmul; /* integer_product.c */
tmk_integer_fn tmk_integer_add, tmk_integer_sub, tmk_integer_mul,
    tmk_integer_batch_norm; /* integer_arithmetic.c */
tmk_integer_fn tmk_integer_clip, tmk_integer_dropout, tmk_integer_move, tmk_integer_split,
    tmk_integer_concat, tmk_integer_pad, tmk_integer_max_pool; /* integer_move.c */
tmk_integer_fn tmk_integer_average_pool, tmk_integer_global_average,
    tmk_integer_mean;                                         /* integer_arithmetic.c */
tmk_integer_fn tmk_integer_quantize, tmk_integer_dequantized; /* integer_overrides.c */

/* tmk_quantize_graph's, for graphs that the encodings are of. */
enum tmk_status tmk_quantize_integer(const struct tmk_graph *graph,
                                     const struct tmk_encodings *encodings,
                                     const struct tmk_quantize_options *options,
                                     struct tmk_quantized_graph *out, struct tmk_diag *diag);
