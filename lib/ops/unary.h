/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that map each element of one operand on its own. */
#ifndef TMK_OPS_UNARY_H
#define TMK_OPS_UNARY_H

#include "ops/elementwise.h"

/* p holds the operator's parameters. */
typedef void (*tmk_row1)(size_t n, const void *x, void *y, const float *p);

/* Defines such a loop: `expr` makes the R of an element x of type T. */
#define TMK_ROW1(name, T, R, expr)                                                                 \
    static void name(size_t n, const void *px, void *pr, const float *p) {                         \
        const T *in = px;                                                                          \
        R *out = pr;                                                                               \
        (void)p;                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            const T x = in[i];                                                                     \
            out[i] = (expr);                                                                       \
        }                                                                                          \
    }

/* The same of a function of vmath.h. */
#define TMK_ROW1_VMATH(name, function)                                                             \
    static void name(size_t n, const void *px, void *pr, const float *p) {                         \
        (void)p;                                                                                   \
        function(px, pr, n);                                                                       \
    }

enum { TMK_UNARY_PARAMS = 2 };

struct tmk_unary {
    tmk_row1 row[TMK_DTYPES];
    enum tmk_dtype result; /* TMK_UNDEFINED: as the operand */
    struct {
        const char *name; /* a FLOAT attribute; NULL: no more */
        float otherwise;
    } param[TMK_UNARY_PARAMS];
};

enum tmk_status tmk_infer_unary(struct tmk_infer *infer, const struct tmk_unary *op);
enum tmk_status tmk_run_unary(struct tmk_run *run, const struct tmk_unary *op);

/* The row of a unary operator, and its functions made of the table. */
#define TMK_UNARY_ROW(Name, since, until, attributes, text)                                        \
    const struct tmk_op tmk_op_##Name##_##since = {                                                \
        TMK_OP_ONNX(#Name, since, until),                                                          \
        TMK_OP_COUNTS(1, 1, 1, 1),                                                                 \
        .flags = TMK_OP_PURE | TMK_OP_INPLACE,                                                     \
        .channel = TMK_CHANNEL_INHERIT,                                                            \
        .attrs = attributes,                                                                       \
        .infer = infer_##Name##_##since,                                                           \
        .run = run_##Name##_##since,                                                               \
        .sample = text,                                                                            \
    };
#define TMK_UNARY(Name, since, until, table, attributes, text)                                     \
    static enum tmk_status infer_##Name##_##since(struct tmk_infer *infer) {                       \
        return tmk_infer_unary(infer, table);                                                      \
    }                                                                                              \
    static enum tmk_status run_##Name##_##since(struct tmk_run *run) {                             \
        return tmk_run_unary(run, table);                                                          \
    }                                                                                              \
    TMK_UNARY_ROW(Name, since, until, attributes, text)

/* A graph of one such node; `opset` lies in the row's span, `attributes` is " {...}" or "". */
#define TMK_UNARY_SAMPLE(Name, opset, type, attributes)                                            \
    TMK_OP_SAMPLE(opset, "  input %x : " #type "[2,3,4]\n"                                         \
                         "  %y = " #Name "(%x)" attributes "\n")

#endif
