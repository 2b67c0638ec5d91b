/* SPDX-License-Identifier: Apache-2.0 */
/* Relay's operators that work element by element, and those that change nothing. */
#include <string.h>

#include "model/relay_lower.h"

#define UNARY(relay, onnx)                                                                         \
    { relay, 1, 1, 0, tmk_rl_no_attrs, onnx, tmk_rl_same }
#define BINARY(relay, onnx)                                                                        \
    { relay, 2, 2, 0, tmk_rl_no_attrs, onnx, tmk_rl_same }

/* ---- identities: the edge stays, under its own name ---- */

static struct tmk_value *alias(struct tmk_relay_call *call) {
    return tmk_rl_1(call, NULL, "Identity", tmk_rl_in(call, 0));
}

static struct tmk_value *dropout(struct tmk_relay_call *call) {
    struct tmk_value *y = tmk_rl_1(call, ".0", "Identity", tmk_rl_in(call, 0));
    return tmk_rl_tuple(call, (struct tmk_value *[]){y, NULL}, 2); /* nobody asks for the mask */
}

/* ---- arithmetic whose meaning ONNX has in several nodes ---- */

static struct tmk_value *rsqrt(struct tmk_relay_call *call) {
    return tmk_rl_1(call, NULL, "Reciprocal", tmk_rl_1(call, "sqrt", "Sqrt", tmk_rl_in(call, 0)));
}

static struct tmk_value *logarithm(struct tmk_relay_call *call) {
    double base = strcmp(call->op->name, "log2") == 0 ? 0x1.62e42fefa39efp-1 : 0x1.26bb1bbb55516p1;
    return tmk_rl_2(call, NULL, "Div", tmk_rl_1(call, "log", "Log", tmk_rl_in(call, 0)),
                    tmk_rl_scalar(call, "base", TMK_FLOAT32, base));
}

/* Floors of reals; integers that are not divided evenly, towards minus infinity: what remains has
 * the divisor's sign in ONNX's Mod. */
static struct tmk_value *floor_divide(struct tmk_relay_call *call) {
    struct tmk_value *a = tmk_rl_in(call, 0), *b = tmk_rl_in(call, 1);
    if (tmk_rl_is_float(call, a))
        return tmk_rl_1(call, NULL, "Floor", tmk_rl_2(call, "quotient", "Div", a, b));
    struct tmk_value *even = tmk_rl_2(call, "even", "Sub", a, tmk_rl_2(call, "rest", "Mod", a, b));
    return tmk_rl_2(call, NULL, "Div", even, b);
}

static struct tmk_value *floor_mod(struct tmk_relay_call *call) {
    struct tmk_value *a = tmk_rl_in(call, 0), *b = tmk_rl_in(call, 1);
    if (!tmk_rl_is_float(call, a))
        return tmk_rl_2(call, NULL, "Mod", a, b);
    struct tmk_value *times =
        tmk_rl_1(call, "times", "Floor", tmk_rl_2(call, "quotient", "Div", a, b));
    return tmk_rl_2(call, NULL, "Sub", a, tmk_rl_2(call, "even", "Mul", times, b));
}

/* The remainder has the dividend's sign, as C's. */
static struct tmk_value *mod(struct tmk_relay_call *call) {
    tmk_rl_set_int(call, "fmod", 1);
    return tmk_rl_same(call);
}

static struct tmk_value *not_equal(struct tmk_relay_call *call) {
    return tmk_rl_1(call, NULL, "Not",
                    tmk_rl_2(call, "equal", "Equal", tmk_rl_in(call, 0), tmk_rl_in(call, 1)));
}

static struct tmk_value *clip(struct tmk_relay_call *call) {
    return tmk_rl_clip(call, NULL, tmk_rl_in(call, 0), tmk_rl_real(call, "a_min"),
                       tmk_rl_real(call, "a_max"));
}

static struct tmk_value *cast(struct tmk_relay_call *call) {
    return tmk_rl_cast(call, NULL, tmk_rl_in(call, 0),
                       tmk_rl_dtype_attr(call, "dtype", TMK_FLOAT32));
}

static struct tmk_value *cast_like(struct tmk_relay_call *call) {
    return tmk_rl_cast(call, NULL, tmk_rl_in(call, 0), tmk_rl_type_of(call, tmk_rl_in(call, 1)));
}

static struct tmk_value *shift(struct tmk_relay_call *call) {
    tmk_rl_set_text(call, "direction",
                    strcmp(call->op->name, "left_shift") == 0 ? "LEFT" : "RIGHT");
    return tmk_rl_same(call);
}

/* x * sigmoid(x) and the like are written out by Relay's frontends; only these have names. */
static struct tmk_value *leaky_relu(struct tmk_relay_call *call) {
    tmk_rl_set_float(call, "alpha", tmk_rl_real(call, "alpha"));
    return tmk_rl_same(call);
}

static struct tmk_value *prelu(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    int32_t rank = tmk_rl_rank(call, x), axis = tmk_rl_axis(call, tmk_rl_int(call, "axis"), rank);
    return tmk_rl_2(call, NULL, "PRelu", x,
                    tmk_rl_along(call, "slope", tmk_rl_in(call, 1), axis, rank));
}

static const struct tmk_relay_rule clip_attrs[] = {
    {"a_min", TMK_RELAY_RULE_REAL, NULL}, {"a_max", TMK_RELAY_RULE_REAL, NULL}, {0}};
static const struct tmk_relay_rule cast_attrs[] = {{"dtype", TMK_RELAY_RULE_TEXT, NULL}, {0}};
static const struct tmk_relay_rule leaky_attrs[] = {{"alpha", TMK_RELAY_RULE_REAL, "0.25"}, {0}};
static const struct tmk_relay_rule prelu_attrs[] = {{"axis", TMK_RELAY_RULE_INT, "1"}, {0}};
static const struct tmk_relay_rule dropout_attrs[] = {{"rate", TMK_RELAY_RULE_REAL, "0.5"}, {0}};
#define ALIAS(relay)                                                                               \
    { relay, 1, 1, TMK_RELAY_ALIAS, tmk_rl_no_attrs, "Identity", alias }

const struct tmk_relay_op tmk_relay_ops_elementwise[] = {
    UNARY("abs", "Abs"),
    UNARY("acos", "Acos"),
    UNARY("acosh", "Acosh"),
    BINARY("add", "Add"),
    ALIAS("annotation.bitpack_end"),
    ALIAS("annotation.bitpack_start"),
    ALIAS("annotation.cast_hint"),
    ALIAS("annotation.checkpoint"),
    ALIAS("annotation.compiler_begin"),
    ALIAS("annotation.compiler_end"),
    ALIAS("annotation.quantize_info"),
    ALIAS("annotation.stop_fusion"),
    UNARY("asin", "Asin"),
    UNARY("asinh", "Asinh"),
    UNARY("atan", "Atan"),
    UNARY("atanh", "Atanh"),
    BINARY("bitwise_and", "BitwiseAnd"),
    UNARY("bitwise_not", "BitwiseNot"),
    BINARY("bitwise_or", "BitwiseOr"),
    BINARY("bitwise_xor", "BitwiseXor"),
    {"cast", 1, 1, 0, cast_attrs, "Cast", cast},
    {"cast_like", 2, 2, 0, tmk_rl_no_attrs, "Cast", cast_like},
    UNARY("ceil", "Ceil"),
    {"clip", 1, 1, 0, clip_attrs, "Clip", clip},
    ALIAS("copy"),
    UNARY("cos", "Cos"),
    UNARY("cosh", "Cosh"),
    ALIAS("device_copy"),
    BINARY("divide", "Div"),
    BINARY("equal", "Equal"),
    UNARY("erf", "Erf"),
    UNARY("exp", "Exp"),
    UNARY("fast_erf", "Erf"),
    UNARY("fast_exp", "Exp"),
    UNARY("fast_tanh", "Tanh"),
    UNARY("floor", "Floor"),
    {"floor_divide", 2, 2, 0, tmk_rl_no_attrs, "Div, Floor; of integers Mod, Sub, Div",
     floor_divide},
    {"floor_mod", 2, 2, 0, tmk_rl_no_attrs, "Mod; of reals Div, Floor, Mul, Sub", floor_mod},
    BINARY("greater", "Greater"),
    BINARY("greater_equal", "GreaterOrEqual"),
    UNARY("isinf", "IsInf"),
    UNARY("isnan", "IsNaN"),
    {"left_shift", 2, 2, 0, tmk_rl_no_attrs, "BitShift", shift},
    BINARY("less", "Less"),
    BINARY("less_equal", "LessOrEqual"),
    UNARY("log", "Log"),
    {"log10", 1, 1, 0, tmk_rl_no_attrs, "Log, Div", logarithm},
    {"log2", 1, 1, 0, tmk_rl_no_attrs, "Log, Div", logarithm},
    BINARY("logical_and", "And"),
    UNARY("logical_not", "Not"),
    BINARY("logical_or", "Or"),
    BINARY("logical_xor", "Xor"),
    BINARY("maximum", "Max"),
    BINARY("minimum", "Min"),
    {"mod", 2, 2, 0, tmk_rl_no_attrs, "Mod", mod},
    BINARY("multiply", "Mul"),
    UNARY("negative", "Neg"),
    {"nn.dropout", 1, 1, 0, dropout_attrs, "Identity", dropout},
    {"nn.leaky_relu", 1, 1, 0, leaky_attrs, "LeakyRelu", leaky_relu},
    {"nn.prelu", 2, 2, 0, prelu_attrs, "PRelu", prelu},
    UNARY("nn.relu", "Relu"),
    {"not_equal", 2, 2, 0, tmk_rl_no_attrs, "Equal, Not", not_equal},
    ALIAS("on_device"),
    BINARY("power", "Pow"),
    {"right_shift", 2, 2, 0, tmk_rl_no_attrs, "BitShift", shift},
    UNARY("round", "ai.tidemark::RoundAway"),
    {"rsqrt", 1, 1, 0, tmk_rl_no_attrs, "Sqrt, Reciprocal", rsqrt},
    UNARY("sigmoid", "Sigmoid"),
    UNARY("sign", "Sign"),
    UNARY("sin", "Sin"),
    UNARY("sinh", "Sinh"),
    UNARY("sqrt", "Sqrt"),
    BINARY("subtract", "Sub"),
    UNARY("tan", "Tan"),
    UNARY("tanh", "Tanh"),
    {"where", 3, 3, 0, tmk_rl_no_attrs, "Where", tmk_rl_same},
    {0}};
