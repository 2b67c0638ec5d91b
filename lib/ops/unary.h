/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that map each element of one operand on its own. */
#pragma once

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

/* The row's table is a struct tmk_unary. */
enum tmk_status tmk_infer_unary(struct tmk_infer *infer);
enum tmk_status tmk_run_unary(struct tmk_run *run);
/* The same with a table that the node selects. */
enum tmk_status tmk_infer_unary_as(struct tmk_infer *infer, const struct tmk_unary *op);
enum tmk_status tmk_run_unary_as(struct tmk_run *run, const struct tmk_unary *op);

#define TMK_UNARY_ROW(name_, since_, until_)                                                       \
    TMK_OP_ONNX(name_, since_, until_), TMK_OP_COUNTS(1, 1, 1, 1), .flags = TMK_OP_INPLACE,        \
                                                                   .channel = TMK_CHANNEL_INHERIT
#define TMK_UNARY(name_, since_, until_, table_, attrs_)                                           \
    {                                                                                              \
        TMK_UNARY_ROW(name_, since_, until_), .attrs = attrs_, .table = table_,                    \
                                              .infer = tmk_infer_unary, .run = tmk_run_unary       \
    }
