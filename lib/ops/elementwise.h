/* SPDX-License-Identifier: Apache-2.0 */
/* What the elementwise families share: lists of element types to make typed loops from, and the
 * walk over broadcast operands that hands those loops whole rows. */
#pragma once

#include "ops/kernel.h"

/* X(op, dtype, T, U): T holds an element, U is what to compute in so that integers wrap instead of
 * overflowing. `op` is passed through, so that X can paste names from it. */
#define TMK_EACH_FLOAT(X, op) X(op, FLOAT32, float, float)
#define TMK_EACH_SIGNED(X, op)                                                                     \
    X(op, INT8, int8_t, uint32_t)                                                                  \
    X(op, INT16, int16_t, uint32_t)                                                                \
    X(op, INT32, int32_t, uint32_t)                                                                \
    X(op, INT64, int64_t, uint64_t)
#define TMK_EACH_UNSIGNED(X, op)                                                                   \
    X(op, UINT8, uint8_t, uint32_t)                                                                \
    X(op, UINT16, uint16_t, uint32_t)                                                              \
    X(op, UINT32, uint32_t, uint32_t)                                                              \
    X(op, UINT64, uint64_t, uint64_t)
#define TMK_EACH_INTEGER(X, op) TMK_EACH_SIGNED(X, op) TMK_EACH_UNSIGNED(X, op)
#define TMK_EACH_NUMBER(X, op) TMK_EACH_FLOAT(X, op) TMK_EACH_INTEGER(X, op)
#define TMK_EACH_BOOL(X, op) X(op, BOOL, uint8_t, uint32_t)

/* An entry of a table of loops by element type: [TMK_INT8] = row_ADD_INT8. */
#define TMK_ROW_ENTRY(op, dtype, T, U) [TMK_##dtype] = row_##op##_##dtype,

enum { TMK_DTYPES = TMK_N_DTYPES }; /* length of such a table */

/* TMK_TYPE unless table[dtype of the tensor] is there; "what" names the input. */
#define TMK_WANT_ENTRY(table, tensor, what, diag)                                                  \
    do {                                                                                           \
        if ((unsigned)(tensor)->dtype >= TMK_DTYPES || !(table)[(tensor)->dtype])                  \
            return tmk_fail(diag, TMK_TYPE, "%s is of type %s, which this operator does not take", \
                            what, tmk_dtype_name((tensor)->dtype));                                \
    } while (0)

/* Towards zero, saturated, NaN to 0. */
static inline int64_t tmk_to_int64(double v) {
    if (v != v)
        return 0;
    return v < -0x1p63 ? INT64_MIN : v >= 0x1p63 ? INT64_MAX : (int64_t)v;
}
static inline uint64_t tmk_to_uint64(double v) {
    if (!(v > 0))
        return 0;
    return v >= 0x1p64 ? UINT64_MAX : (uint64_t)v;
}
static inline int32_t tmk_to_int32(double v) {
    int64_t wide = tmk_to_int64(v);
    return (int32_t)(wide < INT32_MIN ? INT32_MIN : wide > INT32_MAX ? INT32_MAX : wide);
}
static inline uint32_t tmk_to_uint32(double v) {
    uint64_t wide = tmk_to_uint64(v);
    return (uint32_t)(wide > UINT32_MAX ? UINT32_MAX : wide);
}

/* ---- the walk over operands that broadcast to one shape ---- */

enum { TMK_WALK_OPERANDS = 3 };

/* The dense result, cut into rows of n elements. Dimensions that every operand walks alike have
 * been merged, so operands of the same shape make one row, and a bias of [C,1,1] against [N,C,H,W]
 * makes rows of H*W. Within a row an operand either moves along (vary) or stays on its element. */
struct tmk_walk {
    size_t rows, n;
    size_t start; /* first element of this row in the result */
    bool vary[TMK_WALK_OPERANDS];
    size_t offset[TMK_WALK_OPERANDS]; /* first element of this row in each operand */
    uint32_t operands;
    int32_t rank; /* of the dimensions outside a row */
    int64_t dim[TMK_MAX_RANK], at[TMK_MAX_RANK];
    int64_t stride[TMK_WALK_OPERANDS][TMK_MAX_RANK];
};

/* Each shape must broadcast to `out`. `walk` stands on the first row, if rows > 0. */
void tmk_walk_init(struct tmk_walk *walk, const struct tmk_shape *out, uint32_t operands,
                   const struct tmk_shape *const *in);
/* Moves on to the next row; rows counts down to 0. */
void tmk_walk_next(struct tmk_walk *walk);

/* ---- two operands ---- */

/* One row: a moves along where `vary_a`, else a[0] meets every b; so for b. */
typedef void (*tmk_row2)(size_t n, const void *a, bool vary_a, const void *b, bool vary_b,
                         void *out);

/* Defines row_op_dtype for elements x of type A and y of type B; `expr` gives the R. */
#define TMK_ROW2(name, A, B, R, expr)                                                              \
    static void name(size_t n, const void *pa, bool vary_a, const void *pb, bool vary_b,           \
                     void *pr) {                                                                   \
        const A *a = pa;                                                                           \
        const B *b = pb;                                                                           \
        R *r = pr;                                                                                 \
        if (vary_a && vary_b) {                                                                    \
            for (size_t i = 0; i < n; i++) {                                                       \
                const A x = a[i];                                                                  \
                const B y = b[i];                                                                  \
                r[i] = (expr);                                                                     \
            }                                                                                      \
        } else if (vary_a) {                                                                       \
            const B y = b[0];                                                                      \
            for (size_t i = 0; i < n; i++) {                                                       \
                const A x = a[i];                                                                  \
                r[i] = (expr);                                                                     \
            }                                                                                      \
        } else if (vary_b) {                                                                       \
            const A x = a[0];                                                                      \
            for (size_t i = 0; i < n; i++) {                                                       \
                const B y = b[i];                                                                  \
                r[i] = (expr);                                                                     \
            }                                                                                      \
        } else {                                                                                   \
            const A x = a[0];                                                                      \
            const B y = b[0];                                                                      \
            const R v = (expr);                                                                    \
            for (size_t i = 0; i < n; i++)                                                         \
                r[i] = v;                                                                          \
        }                                                                                          \
    }

/* Runs `row` over a and b as they broadcast to `out`; shape_a and shape_b stand in for the tensors'
 * own (of as many elements). */
void tmk_walk2(tmk_row2 row, const struct tmk_tensor *a, const struct tmk_shape *shape_a,
               const struct tmk_tensor *b, const struct tmk_shape *shape_b, struct tmk_tensor *out);

/* An operator of two operands: loops by element type, and the type of the result (TMK_UNDEFINED: as
 * the operands). */
struct tmk_binary {
    tmk_row2 row[TMK_DTYPES];
    enum tmk_dtype result;
};

/* NumPy's broadcasting, operator sets 7 and later; the row's table is a struct tmk_binary. */
enum tmk_status tmk_infer_binary(struct tmk_infer *infer);
enum tmk_status tmk_run_binary(struct tmk_run *run);
/* The same with a table that the node's attributes select. */
enum tmk_status tmk_infer_binary_as(struct tmk_infer *infer, const struct tmk_binary *op);
enum tmk_status tmk_run_binary_as(struct tmk_run *run, const struct tmk_binary *op);

/* How operator sets 1 to 6 fit B to A: without broadcast=1 the shapes are equal; with it B has one
 * element, or its shape stands in A's from `axis` on (absent: at the end), where early exporters
 * also wrote 1 for a dimension that repeats. *shape_b receives B's shape as NumPy would want it. */
enum tmk_status tmk_align_legacy(const struct tmk_node *node, const struct tmk_shape *a,
                                 const struct tmk_shape *b, struct tmk_shape *shape_b,
                                 struct tmk_diag *diag);
enum tmk_status tmk_infer_binary_legacy(struct tmk_infer *infer);
enum tmk_status tmk_run_binary_legacy(struct tmk_run *run);

/* Attributes of the legacy rows. */
extern const char tmk_attrs_legacy[];
/* Only `consumed_inputs`, which has had no effect since operator set 6. */
extern const char tmk_attrs_consumed[];

/* Rows of two operands, by NumPy's broadcasting and as operator sets 1 to 6 did. */
#define TMK_BINARY_ROW(name_, since_, until_)                                                      \
    TMK_OP_ONNX(name_, since_, until_), TMK_OP_COUNTS(2, 2, 1, 1), .flags = TMK_OP_INPLACE,        \
                                                                   .channel = TMK_CHANNEL_INHERIT
#define TMK_BINARY(name_, since_, table_)                                                          \
    {                                                                                              \
        TMK_BINARY_ROW(name_, since_, INT32_MAX), .table = table_, .infer = tmk_infer_binary,      \
                                                  .run = tmk_run_binary                            \
    }
#define TMK_BINARY_LEGACY(name_, table_)                                                           \
    {                                                                                              \
        TMK_BINARY_ROW(name_, 1, 6), .attrs = tmk_attrs_legacy, .table = table_,                   \
                                     .infer = tmk_infer_binary_legacy,                             \
                                     .run = tmk_run_binary_legacy                                  \
    }
