/* SPDX-License-Identifier: Apache-2.0 */
/* Min, Max, Sum and Mean of any number of operands, folded from the left. */
#include <stdio.h>
#include <string.h>

#include "ops/elementwise.h"

/* A NaN in either operand comes through, as in NumPy. */
#define MIN(T, U) x < y || x != x ? x : y
#define MAX(T, U) x > y || x != x ? x : y
#define SUM(T, U) x + y
#define DEFINE(op, dtype, T, U) TMK_ROW2(row_##op##_##dtype, T, T, T, op(T, U))
TMK_EACH_FLOAT(DEFINE, MIN)
TMK_EACH_FLOAT(DEFINE, MAX)
TMK_EACH_FLOAT(DEFINE, SUM)
#undef MIN
#undef MAX
#define MIN(T, U) x < y ? x : y
#define MAX(T, U) x > y ? x : y
TMK_EACH_INTEGER(DEFINE, MIN)
TMK_EACH_INTEGER(DEFINE, MAX)

static const struct tmk_binary minimum = {{TMK_EACH_NUMBER(TMK_ROW_ENTRY, MIN)}, TMK_UNDEFINED};
static const struct tmk_binary maximum = {{TMK_EACH_NUMBER(TMK_ROW_ENTRY, MAX)}, TMK_UNDEFINED};
static const struct tmk_binary sum = {{TMK_EACH_FLOAT(TMK_ROW_ENTRY, SUM)}, TMK_UNDEFINED};

static enum tmk_status infer_variadic(struct tmk_infer *infer) {
    const struct tmk_binary *op = infer->node->row->table;
    const bool broadcasts = infer->node->row->since >= 8;
    const struct tmk_tensor *first = infer->in[0];
    struct tmk_shape shape = first->shape;
    TMK_WANT_ENTRY(op->row, first, "input 0", infer->diag);
    for (uint32_t i = 1; i < infer->n_in; i++) {
        char what[32], text[256], first_text[256];
        snprintf(what, sizeof what, "input %u", i);
        if (!infer->in[i])
            return tmk_fail(infer->diag, TMK_GRAPH, "%s is absent", what);
        TMK_TRY(tmk_want_dtype(infer->in[i], first->dtype, what, infer->diag));
        if (!broadcasts && !tmk_shape_equal(&shape, &infer->in[i]->shape))
            return tmk_fail(
                infer->diag, TMK_SHAPE,
                "%s is of shape %s, input 0 of %s; before operator set 8 they are equal", what,
                tmk_shape_text(&infer->in[i]->shape, text, sizeof text),
                tmk_shape_text(&shape, first_text, sizeof first_text));
        TMK_TRY(tmk_broadcast(&shape, &infer->in[i]->shape, &shape, infer->diag));
    }
    return tmk_infer_set(infer, 0, first->dtype, &shape);
}

/* The first two go to the output, the others join it there. */
static enum tmk_status fold_inputs(struct tmk_run *run) {
    const struct tmk_binary *op = run->node->row->table;
    struct tmk_tensor *out = tmk_run_out(run, 0);
    const struct tmk_tensor *first = run->in[0];
    if (!out)
        return TMK_OK;
    if (run->n_in == 1) {
        if (tmk_tensor_bytes(out))
            memcpy(out->data, first->data, tmk_tensor_bytes(out));
        return TMK_OK;
    }
    tmk_row2 row = op->row[first->dtype];
    tmk_walk2(row, first, &first->shape, run->in[1], &run->in[1]->shape, out);
    for (uint32_t i = 2; i < run->n_in; i++)
        tmk_walk2(row, out, &out->shape, run->in[i], &run->in[i]->shape, out);
    return TMK_OK;
}

static enum tmk_status run_mean(struct tmk_run *run) {
    struct tmk_tensor *out = tmk_run_out(run, 0);
    TMK_TRY(fold_inputs(run));
    if (!out)
        return TMK_OK;
    float *y = out->data, n = (float)run->n_in;
    size_t count = tmk_tensor_count(out);
    for (size_t i = 0; i < count; i++)
        y[i] /= n;
    return TMK_OK;
}

/* Not TMK_OP_INPLACE: an operand that is there twice would be overwritten between its two uses. */
#define VARIADIC(name_, since_, until_, attrs_, table_, run_)                                      \
    {                                                                                              \
        TMK_OP_ONNX(name_, since_, until_), TMK_OP_COUNTS(1, TMK_VARIADIC, 1, 1),                  \
            .channel = TMK_CHANNEL_INHERIT, .attrs = attrs_, .table = table_,                      \
            .infer = infer_variadic, .run = run_                                                   \
    }
#define BOTH(name_, table_, run_)                                                                  \
    VARIADIC(name_, 1, 7, tmk_attrs_consumed, table_, run_),                                       \
        VARIADIC(name_, 8, INT32_MAX, NULL, table_, run_)

const struct tmk_op tmk_ops_variadic[] = {BOTH("Min", &minimum, fold_inputs),
                                          BOTH("Max", &maximum, fold_inputs),
                                          BOTH("Sum", &sum, fold_inputs),
                                          BOTH("Mean", &sum, run_mean),
                                          {NULL}};
