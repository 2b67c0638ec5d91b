/* SPDX-License-Identifier: Apache-2.0 */
/* Min, Max, Sum and Mean of any number of operands, folded from the left; and Where. */
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
        char what[32];
        snprintf(what, sizeof what, "input %u", i);
        if (!infer->in[i])
            return tmk_fail(infer->diag, TMK_GRAPH, "%s is absent", what);
        TMK_TRY(tmk_want_dtype(infer->in[i], first->dtype, what, infer->diag));
        if (!broadcasts && !tmk_shape_equal(&shape, &infer->in[i]->shape))
            return tmk_fail(
                infer->diag, TMK_SHAPE,
                "%s is of shape %s, input 0 of %s; before operator set 8 they are equal", what,
                TMK_SHAPE_TEXT(&infer->in[i]->shape), TMK_SHAPE_TEXT(&shape));
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

/* Where: elements are moved by their size, whatever they mean. */

#define CHOOSE(T)                                                                                  \
    static void choose_##T(size_t n, const uint8_t *c, bool vary_c, const void *px, bool vary_x,   \
                           const void *py, bool vary_y, void *out) {                               \
        const T *x = px, *y = py;                                                                  \
        T *r = out;                                                                                \
        /* both are always read, so that compilers need no branches */                             \
        if (vary_c && vary_x && vary_y) {                                                          \
            for (size_t i = 0; i < n; i++) {                                                       \
                const T v = x[i], w = y[i];                                                        \
                r[i] = c[i] ? v : w;                                                               \
            }                                                                                      \
        } else if (vary_c && vary_x) {                                                             \
            const T w = y[0];                                                                      \
            for (size_t i = 0; i < n; i++) {                                                       \
                const T v = x[i];                                                                  \
                r[i] = c[i] ? v : w;                                                               \
            }                                                                                      \
        } else if (vary_c && vary_y) {                                                             \
            const T v = x[0];                                                                      \
            for (size_t i = 0; i < n; i++) {                                                       \
                const T w = y[i];                                                                  \
                r[i] = c[i] ? v : w;                                                               \
            }                                                                                      \
        } else {                                                                                   \
            const size_t step_c = vary_c, step_x = vary_x, step_y = vary_y;                        \
            for (size_t i = 0; i < n; i++)                                                         \
                r[i] = c[i * step_c] ? x[i * step_x] : y[i * step_y];                              \
        }                                                                                          \
    }
CHOOSE(uint8_t)
CHOOSE(uint16_t)
CHOOSE(uint32_t)
CHOOSE(uint64_t)

static enum tmk_status infer_where(struct tmk_infer *infer) {
    const struct tmk_tensor *c = infer->in[0], *x = infer->in[1], *y = infer->in[2];
    struct tmk_shape shape;
    TMK_TRY(tmk_want_dtype(c, TMK_BOOL, "input 0, the condition,", infer->diag));
    TMK_TRY(tmk_want_dtype(y, x->dtype, "input 2", infer->diag));
    if (tmk_dtype_size(x->dtype) > 8)
        return tmk_fail(infer->diag, TMK_UNSUPPORTED, "elements of type %s are not supported",
                        tmk_dtype_name(x->dtype));
    TMK_TRY(tmk_broadcast(&x->shape, &y->shape, &shape, infer->diag));
    TMK_TRY(tmk_broadcast(&c->shape, &shape, &shape, infer->diag));
    return tmk_infer_set(infer, 0, x->dtype, &shape);
}

static enum tmk_status run_where(struct tmk_run *run) {
    const struct tmk_tensor *c = run->in[0], *x = run->in[1], *y = run->in[2];
    struct tmk_tensor *out = tmk_run_out(run, 0);
    const char *px = x->data, *py = y->data;
    char *r = out->data;
    size_t size = tmk_dtype_size(x->dtype);
    struct tmk_walk w;
    tmk_walk_init(&w, &out->shape, 3,
                  (const struct tmk_shape *const[]){&c->shape, &x->shape, &y->shape});
    for (; w.rows; tmk_walk_next(&w)) {
        const uint8_t *row_c = (const uint8_t *)c->data + w.offset[0];
        const void *row_x = px + w.offset[1] * size, *row_y = py + w.offset[2] * size;
        void *row = r + w.start * size;
        if (size == 1)
            choose_uint8_t(w.n, row_c, w.vary[0], row_x, w.vary[1], row_y, w.vary[2], row);
        else if (size == 2)
            choose_uint16_t(w.n, row_c, w.vary[0], row_x, w.vary[1], row_y, w.vary[2], row);
        else if (size == 4)
            choose_uint32_t(w.n, row_c, w.vary[0], row_x, w.vary[1], row_y, w.vary[2], row);
        else
            choose_uint64_t(w.n, row_c, w.vary[0], row_x, w.vary[1], row_y, w.vary[2], row);
    }
    return TMK_OK;
}

const struct tmk_op tmk_ops_variadic[] = {BOTH("Min", &minimum, fold_inputs),
                                          BOTH("Max", &maximum, fold_inputs),
                                          BOTH("Sum", &sum, fold_inputs),
                                          BOTH("Mean", &sum, run_mean),
                                          {TMK_OP_ONNX("Where", 9, INT32_MAX),
                                           TMK_OP_COUNTS(3, 3, 1, 1), .infer = infer_where,
                                           .run = run_where},
                                          {NULL}};
