/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of mathematics, tests and bits of one operand. Activations are in activation.c. */
#include "ops/unary.h"

#include <math.h>

#include "ops/vmath.h"

enum tmk_status tmk_infer_unary_as(struct tmk_infer *infer, const struct tmk_unary *op) {
    const struct tmk_tensor *x = infer->in[0];
    TMK_WANT_ENTRY(op->row, x, "input 0", infer->diag);
    return tmk_infer_set(infer, 0, op->result == TMK_UNDEFINED ? x->dtype : op->result, &x->shape);
}

enum tmk_status tmk_infer_unary(struct tmk_infer *infer) {
    return tmk_infer_unary_as(infer, infer->node->row->table);
}

enum tmk_status tmk_run_unary_as(struct tmk_run *run, const struct tmk_unary *op) {
    const struct tmk_tensor *x = run->in[0];
    float p[TMK_UNARY_PARAMS] = {0};
    for (int i = 0; i < TMK_UNARY_PARAMS && op->param[i].name; i++)
        p[i] = tmk_node_float(run->node, op->param[i].name, op->param[i].otherwise);
    if (tmk_run_out(run, 0))
        op->row[x->dtype](tmk_tensor_count(x), x->data, run->out[0]->data, p);
    return TMK_OK;
}

enum tmk_status tmk_run_unary(struct tmk_run *run) {
    return tmk_run_unary_as(run, run->node->row->table);
}

#define DEFINE(op, dtype, T, U) TMK_ROW1(row_##op##_##dtype, T, T, op(T, U))
#define TABLE(name, op, EACH)                                                                      \
    EACH(DEFINE, op)                                                                               \
    static const struct tmk_unary name = {.row = {EACH(TMK_ROW_ENTRY, op)}};

/* Abs, Neg and Sign take floats, signed and unsigned integers as ONNX states. */
#define ABS_FLOAT(T, U) fabsf(x)
#define ABS_SIGNED(T, U) (T)(x < 0 ? (U)0 - (U)x : (U)x)
#define ABS_UNSIGNED(T, U) x
#define NEG_FLOAT(T, U) -x
#define NEG_SIGNED(T, U) (T)((U)0 - (U)x)
#define SIGN_FLOAT(T, U) x != x ? x : (T)((x > 0) - (x < 0))
#define SIGN_SIGNED(T, U) (T)((x > 0) - (x < 0))
#define SIGN_UNSIGNED(T, U) (T)(x != 0)
TMK_EACH_FLOAT(DEFINE, ABS_FLOAT)
TMK_EACH_SIGNED(DEFINE, ABS_SIGNED)
TMK_EACH_UNSIGNED(DEFINE, ABS_UNSIGNED)
TMK_EACH_FLOAT(DEFINE, NEG_FLOAT)
TMK_EACH_SIGNED(DEFINE, NEG_SIGNED)
TMK_EACH_FLOAT(DEFINE, SIGN_FLOAT)
TMK_EACH_SIGNED(DEFINE, SIGN_SIGNED)
TMK_EACH_UNSIGNED(DEFINE, SIGN_UNSIGNED)
static const struct tmk_unary absolute = {
    .row = {TMK_EACH_FLOAT(TMK_ROW_ENTRY, ABS_FLOAT) TMK_EACH_SIGNED(TMK_ROW_ENTRY, ABS_SIGNED)
                TMK_EACH_UNSIGNED(TMK_ROW_ENTRY, ABS_UNSIGNED)}};
static const struct tmk_unary negate = {
    .row = {TMK_EACH_FLOAT(TMK_ROW_ENTRY, NEG_FLOAT) TMK_EACH_SIGNED(TMK_ROW_ENTRY, NEG_SIGNED)}};
static const struct tmk_unary sign = {
    .row = {TMK_EACH_FLOAT(TMK_ROW_ENTRY, SIGN_FLOAT) TMK_EACH_SIGNED(TMK_ROW_ENTRY, SIGN_SIGNED)
                TMK_EACH_UNSIGNED(TMK_ROW_ENTRY, SIGN_UNSIGNED)}};

#define RECIPROCAL(T, U) 1.0f / x
#define TAN(T, U) (float)tan((double)x)
#define ASIN(T, U) (float)asin((double)x)
#define ACOS(T, U) (float)acos((double)x)
#define ATAN(T, U) (float)atan((double)x)
#define SINH(T, U) (float)sinh((double)x)
#define COSH(T, U) (float)cosh((double)x)
#define ASINH(T, U) (float)asinh((double)x)
#define ACOSH(T, U) (float)acosh((double)x)
#define ATANH(T, U) (float)atanh((double)x)
#define BITWISE_NOT(T, U) (T) ~x
TABLE(reciprocal, RECIPROCAL, TMK_EACH_FLOAT)
TABLE(tangent, TAN, TMK_EACH_FLOAT)
TABLE(arc_sine, ASIN, TMK_EACH_FLOAT)
TABLE(arc_cosine, ACOS, TMK_EACH_FLOAT)
TABLE(arc_tangent, ATAN, TMK_EACH_FLOAT)
TABLE(hyperbolic_sine, SINH, TMK_EACH_FLOAT)
TABLE(hyperbolic_cosine, COSH, TMK_EACH_FLOAT)
TABLE(area_sine, ASINH, TMK_EACH_FLOAT)
TABLE(area_cosine, ACOSH, TMK_EACH_FLOAT)
TABLE(area_tangent, ATANH, TMK_EACH_FLOAT)
TABLE(bitwise_not, BITWISE_NOT, TMK_EACH_INTEGER)

#define VMATH(name, function)                                                                      \
    TMK_ROW1_VMATH(row_##name, function)                                                           \
    static const struct tmk_unary name = {.row = {[TMK_FLOAT32] = row_##name}};
VMATH(square_root, tmk_vsqrt)
VMATH(exponential, tmk_vexp)
VMATH(logarithm, tmk_vlog)
VMATH(error_function, tmk_verf)
VMATH(round_down, tmk_vfloor)
VMATH(round_up, tmk_vceil)
VMATH(round_even, tmk_vrint)
VMATH(sine, tmk_vsin)
VMATH(cosine, tmk_vcos)

#define NOT(T, U) x == 0
TABLE(logical_not, NOT, TMK_EACH_BOOL)

TMK_ROW1(row_is_nan, float, uint8_t, x != x)
static const struct tmk_unary is_nan = {.row = {[TMK_FLOAT32] = row_is_nan}, .result = TMK_BOOL};

/* ---- IsInf: its attributes select which infinities count ---- */

TMK_ROW1(row_infinite, float, uint8_t, (p[0] != 0 && x == INFINITY) | (p[1] != 0 && x == -INFINITY))
static const struct tmk_unary is_infinite = {.row = {[TMK_FLOAT32] = row_infinite},
                                             .result = TMK_BOOL};

static enum tmk_status run_is_infinite(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0];
    const float p[2] = {tmk_node_int(run->node, "detect_positive", 1) != 0,
                        tmk_node_int(run->node, "detect_negative", 1) != 0};
    if (tmk_run_out(run, 0))
        row_infinite(tmk_tensor_count(x), x->data, run->out[0]->data, p);
    return TMK_OK;
}

const struct tmk_op tmk_ops_unary[] = {
    TMK_UNARY("Abs", 1, INT32_MAX, &absolute, tmk_attrs_consumed),
    TMK_UNARY("Neg", 1, INT32_MAX, &negate, tmk_attrs_consumed),
    TMK_UNARY("Sign", 9, INT32_MAX, &sign, tmk_attrs_consumed),
    TMK_UNARY("Sqrt", 1, INT32_MAX, &square_root, tmk_attrs_consumed),
    TMK_UNARY("Exp", 1, INT32_MAX, &exponential, tmk_attrs_consumed),
    TMK_UNARY("Log", 1, INT32_MAX, &logarithm, tmk_attrs_consumed),
    TMK_UNARY("Floor", 1, INT32_MAX, &round_down, tmk_attrs_consumed),
    TMK_UNARY("Ceil", 1, INT32_MAX, &round_up, tmk_attrs_consumed),
    TMK_UNARY("Round", 11, INT32_MAX, &round_even, tmk_attrs_consumed),
    TMK_UNARY("Reciprocal", 1, INT32_MAX, &reciprocal, tmk_attrs_consumed),
    TMK_UNARY("Erf", 9, INT32_MAX, &error_function, tmk_attrs_consumed),
    TMK_UNARY("Sin", 7, INT32_MAX, &sine, tmk_attrs_consumed),
    TMK_UNARY("Cos", 7, INT32_MAX, &cosine, tmk_attrs_consumed),
    TMK_UNARY("Tan", 7, INT32_MAX, &tangent, tmk_attrs_consumed),
    TMK_UNARY("Asin", 7, INT32_MAX, &arc_sine, tmk_attrs_consumed),
    TMK_UNARY("Acos", 7, INT32_MAX, &arc_cosine, tmk_attrs_consumed),
    TMK_UNARY("Atan", 7, INT32_MAX, &arc_tangent, tmk_attrs_consumed),
    TMK_UNARY("Sinh", 9, INT32_MAX, &hyperbolic_sine, tmk_attrs_consumed),
    TMK_UNARY("Cosh", 9, INT32_MAX, &hyperbolic_cosine, tmk_attrs_consumed),
    TMK_UNARY("Asinh", 9, INT32_MAX, &area_sine, tmk_attrs_consumed),
    TMK_UNARY("Acosh", 9, INT32_MAX, &area_cosine, tmk_attrs_consumed),
    TMK_UNARY("Atanh", 9, INT32_MAX, &area_tangent, tmk_attrs_consumed),
    TMK_UNARY("IsNaN", 9, INT32_MAX, &is_nan, tmk_attrs_consumed),
    TMK_UNARY("Not", 1, INT32_MAX, &logical_not, NULL),
    TMK_UNARY("BitwiseNot", 18, INT32_MAX, &bitwise_not, NULL),
    {TMK_UNARY_ROW("IsInf", 10, INT32_MAX), .attrs = "detect_negative:int detect_positive:int",
     .table = &is_infinite, .infer = tmk_infer_unary, .run = run_is_infinite},
    {NULL}};
