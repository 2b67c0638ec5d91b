/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that turn ONNX's operators into Relay's share. */
#ifndef TMK_MODEL_RELAY_RAISE_H
#define TMK_MODEL_RELAY_RAISE_H

#include "base/map.h"
#include "base/ptrmap.h"
#include "base/size.h"
#include "model/relay.h"
#include "model/relay_say.h"
#include "ops/kernel.h"
#include "ops/shapes.h"

/* More reasons than that are told by the last. */
enum { TMK_RAISE_REASONS = 32 };

struct tmk_raising {
    struct tmk_saying say;
    struct tmk_graph *graph;    /* a copy, typed */
    struct tmk_certain certain; /* of the copy's values */
    struct tmk_ptrmap sources;  /* value of the copy -> the caller's value */
    struct tmk_ptrmap exprs;    /* value of the copy -> the expression that has its numbers */
    struct tmk_relay_raise_options options;
    struct tmk_relay_params *params;
    struct tmk_map names; /* of parameters */
    struct tmk_unsayable {
        const char *why;
        struct tmk_text nodes;
    } unsayable[TMK_RAISE_REASONS]; /* what Relay can't say, so far, by reason */
    size_t n_unsayable;
    bool *needed;           /* by value's index */
    enum tmk_status status; /* of what answers no status */
    struct tmk_diag *diag;
};

/* Says the node in Relay: reads its operands by tmk_raise_operand, gives its results by
 * tmk_raise_result. Answers NULL, or why Relay can't say it; running out of memory is noted in the
 * say. */
typedef const char *tmk_raise_fn(struct tmk_raising *r, const struct tmk_node *node);

struct tmk_raise_row {
    const char *domain, *op; /* op NULL ends a table */
    tmk_raise_fn *raise;
    uint32_t read;     /* bit i: input i is read as numbers, not as an operand */
    const char *relay; /* the operator of Relay, where that is all; for tmk_raise_same */
};
extern const struct tmk_raise_row tmk_raise_math[], tmk_raise_nn[], tmk_raise_quantized[],
    tmk_raise_shapes[];
const struct tmk_raise_row *tmk_raise_find(const struct tmk_node *node);

/* Every operand goes to the one operator of the row. */
tmk_raise_fn tmk_raise_same;

/* ---- operands ---- */

bool tmk_raise_has(const struct tmk_node *node, uint32_t i);
/* Input i as an expression; NULL where it is absent. */
struct tmk_relay_expr *tmk_raise_operand(struct tmk_raising *r, const struct tmk_node *node,
                                         uint32_t i);
/* The transpose of input i, a matrix: what was transposed, where that is how it was made. */
struct tmk_relay_expr *tmk_raise_turned(struct tmk_raising *r, const struct tmk_node *node,
                                        uint32_t i);
/* nn.batch_matmul of what inputs 0 and 1, of rank 3 and more, became; out_dtype NULL: as they. */
const char *tmk_say_batch_matmul(struct tmk_raising *r, const struct tmk_node *node,
                                 struct tmk_relay_expr *args[2], const char *out_dtype);
/* Elements of input i, where they are certain; else NULL. */
const struct tmk_tensor *tmk_raise_numbers(const struct tmk_raising *r, const struct tmk_node *node,
                                           uint32_t i);
/* The integers of input i (rank 0 or 1, at most TMK_MAX_RANK * 2); false where they are not
 * certain. */
bool tmk_raise_ints(const struct tmk_raising *r, const struct tmk_node *node, uint32_t i,
                    int64_t out[2 * TMK_MAX_RANK], size_t *n);
/* The same of the attribute of that name, or of input i where the operator has it there. False: not
 * certain; *n = 0: absent. */
bool tmk_raise_listed(const struct tmk_raising *r, const struct tmk_node *node, const char *name,
                      uint32_t i, int64_t out[2 * TMK_MAX_RANK], size_t *n);
/* One number of input i; false where it is not certain. */
bool tmk_raise_number(const struct tmk_raising *r, const struct tmk_node *node, uint32_t i,
                      double *out);
/* The shape of input i, or of output i; NULL where not even the rank is known. Dimensions may be
 * -1. */
const struct tmk_shape *tmk_raise_shape(const struct tmk_node *node, uint32_t i);
const struct tmk_shape *tmk_raise_made(const struct tmk_node *node, uint32_t i);
enum tmk_dtype tmk_raise_dtype(const struct tmk_node *node, uint32_t i);
/* The place of an axis that may be counted from the end; -1: there is no such axis. */
int64_t tmk_raise_axis(int64_t axis, int32_t rank);

/* A constant that a row makes up: a weight named for what the node makes and what it is. */
struct tmk_relay_expr *tmk_raise_constant(struct tmk_raising *r, const struct tmk_node *node,
                                          const char *what, const struct tmk_tensor *tensor);

/* ---- results ---- */

bool tmk_raise_wanted(const struct tmk_raising *r, const struct tmk_node *node, uint32_t i);
/* Output i is this. */
void tmk_raise_result(struct tmk_raising *r, const struct tmk_node *node, uint32_t i,
                      struct tmk_relay_expr *expr);
/* Gives what was made on the way the type of output 0, where it has none. */
struct tmk_relay_expr *tmk_raise_like(struct tmk_raising *r, const struct tmk_node *node,
                                      struct tmk_relay_expr *expr);
/* Output 0 is, and every row that makes one says: return tmk_raise_done(r, node, expr). */
const char *tmk_raise_done(struct tmk_raising *r, const struct tmk_node *node,
                           struct tmk_relay_expr *expr);

#endif
