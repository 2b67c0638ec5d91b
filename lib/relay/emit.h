/* SPDX-License-Identifier: Apache-2.0 */
/* What the rows of operators are written with that turn ONNX's nodes into Relay's calls.
 *
 * The first failure of a node sticks: functions that make expressions return NULL from then on, and
 * accept NULL. Attributes are set on the builder (`e->b`), for the next call. */
#pragma once

#include "base/map.h"
#include "base/size.h"
#include "ops/kernel.h"
#include "ops/shapes.h"
#include "relay/builder.h"
#include "relay/lower.h"
#include "relay/relay.h"

struct tmk_relay_emitter;

/* A node on its way to Relay. */
struct tmk_relay_emit {
    struct tmk_relay_emitter *to;
    struct tmk_relay_builder *b;
    const struct tmk_node *node;
    const struct tmk_relay_op *op; /* its row */
    bool qnn;                      /* tmk_relay_export_options */
    const char *why;               /* the failure: why Relay cannot express it; NULL: none */
};

/* All inputs but the first. */
enum { TMK_RE_REST = 0x7ffffffe };
#define TMK_RE_COMPUTED "its shape is computed as it runs (fold-constant may help)"
#define TMK_RE_OUT_OF_RANGE "its axes are out of range"
#define TMK_RE_NO_RANK "the rank of its input is not known"

/* Sets the row's `same_attrs` from the node's attributes. */
void tmk_re_same_attrs(struct tmk_relay_emit *e);
/* Every operand goes to the row's one operator, with its `same_attrs`. */
struct tmk_relay_expr *tmk_re_same(struct tmk_relay_emit *e);
/* Records why Relay cannot express the node (a literal, or in the module), and returns NULL. */
void *tmk_re_fail(struct tmk_relay_emit *e, const char *why);
void *tmk_re_nomem(struct tmk_relay_emit *e);

/* ---- operands: input i of the node ---- */

bool tmk_re_has(const struct tmk_relay_emit *e, uint32_t i);
/* As an expression; NULL where it is absent. */
struct tmk_relay_expr *tmk_re_in(struct tmk_relay_emit *e, uint32_t i);
/* The transpose of a matrix: what was transposed, where that is how it was made. */
struct tmk_relay_expr *tmk_re_transposed(struct tmk_relay_emit *e, uint32_t i);
/* Elements, where they are certain; else NULL. */
const struct tmk_tensor *tmk_re_tensor(const struct tmk_relay_emit *e, uint32_t i);
/* The integers (rank 0 or 1, at most TMK_MAX_RANK * 2); false where they are not certain. */
bool tmk_re_ints(const struct tmk_relay_emit *e, uint32_t i, int64_t out[2 * TMK_MAX_RANK],
                 size_t *n);
/* The same of the attribute of that name, or of input i where the operator has it there. False: not
 * certain; *n = 0: absent. */
bool tmk_re_listed(const struct tmk_relay_emit *e, const char *name, uint32_t i,
                   int64_t out[2 * TMK_MAX_RANK], size_t *n);
/* One number; false where it is not certain. */
bool tmk_re_number(const struct tmk_relay_emit *e, uint32_t i, double *out);
/* The shape; NULL where not even the rank is known. Dimensions may be -1. */
const struct tmk_shape *tmk_re_shape(const struct tmk_relay_emit *e, uint32_t i);
enum tmk_dtype tmk_re_dtype(const struct tmk_relay_emit *e, uint32_t i);
/* An axis that may be counted from the end, counted from the front; -1: out of range. */
int64_t tmk_re_axis(int64_t axis, int32_t rank);

/* ---- making ---- */

/* Calls, with the attributes that were set on the builder. */
struct tmk_relay_expr *tmk_re_1(struct tmk_relay_emit *e, const char *op, struct tmk_relay_expr *x);
struct tmk_relay_expr *tmk_re_2(struct tmk_relay_emit *e, const char *op, struct tmk_relay_expr *x,
                                struct tmk_relay_expr *y);
struct tmk_relay_expr *tmk_re_n(struct tmk_relay_emit *e, const char *op,
                                struct tmk_relay_expr *const *args, uint32_t n);
/* A float32 scalar. */
struct tmk_relay_expr *tmk_re_real(struct tmk_relay_emit *e, double value);
struct tmk_relay_expr *tmk_re_clip(struct tmk_relay_emit *e, struct tmk_relay_expr *x, double low,
                                   double high);
/* A weight that the row makes, named for output 0 and what it is. */
struct tmk_relay_expr *tmk_re_constant(struct tmk_relay_emit *e, const char *what,
                                       const struct tmk_tensor *tensor);
/* nn.batch_matmul of what inputs 0 and 1, of rank 3 and more, became; out_dtype NULL: as they. */
struct tmk_relay_expr *tmk_re_batch_matmul(struct tmk_relay_emit *e, struct tmk_relay_expr *args[2],
                                           const char *out_dtype);

/* ---- results: output i of the node ---- */

bool tmk_re_wanted(const struct tmk_relay_emit *e, uint32_t i);
/* Its shape; NULL where not even the rank is known. */
const struct tmk_shape *tmk_re_out_shape(const struct tmk_relay_emit *e, uint32_t i);
/* Of rows that make several: output i is this. */
void tmk_re_result(struct tmk_relay_emit *e, uint32_t i, struct tmk_relay_expr *expr);
/* Gives the expression the type of output 0, where it has none. */
struct tmk_relay_expr *tmk_re_like(struct tmk_relay_emit *e, struct tmk_relay_expr *expr);
