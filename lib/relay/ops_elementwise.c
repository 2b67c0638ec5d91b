/* SPDX-License-Identifier: Apache-2.0 */
/* Relay's operators that work element by element, and those that change nothing. */
#include <math.h>
#include <string.h>

#include "relay/emit.h"

/* ---- identities: the edge stays, under its own name ---- */

static struct tmk_value *lower_alias(struct tmk_relay_call *call) {
    return tmk_rl_1(call, NULL, "Identity", tmk_rl_in(call, 0));
}

static struct tmk_value *lower_dropout(struct tmk_relay_call *call) {
    struct tmk_value *y = tmk_rl_1(call, ".0", "Identity", tmk_rl_in(call, 0));
    return tmk_rl_tuple(call, (struct tmk_value *[]){y, NULL}, 2); /* the mask is not used */
}

/* ---- arithmetic whose meaning ONNX has in several nodes ---- */

static struct tmk_value *lower_rsqrt(struct tmk_relay_call *call) {
    return tmk_rl_1(call, NULL, "Reciprocal", tmk_rl_1(call, "sqrt", "Sqrt", tmk_rl_in(call, 0)));
}

static struct tmk_value *lower_logarithm(struct tmk_relay_call *call) {
    double base = strcmp(call->op->name, "log2") == 0 ? 0x1.62e42fefa39efp-1 : 0x1.26bb1bbb55516p1;
    struct tmk_value *scale = tmk_rl_scalar(call, "base", TMK_FLOAT32, base);
    return tmk_rl_2(call, NULL, "Div", tmk_rl_1(call, "log", "Log", tmk_rl_in(call, 0)), scale);
}

/* Floors of reals; integers that are not divided evenly, towards minus infinity: what remains has
 * the divisor's sign in ONNX's Mod. */
static struct tmk_value *lower_floor_divide(struct tmk_relay_call *call) {
    struct tmk_value *a = tmk_rl_in(call, 0), *b = tmk_rl_in(call, 1);
    if (tmk_rl_is_float(call, a))
        return tmk_rl_1(call, NULL, "Floor", tmk_rl_2(call, "quotient", "Div", a, b));
    struct tmk_value *even = tmk_rl_2(call, "even", "Sub", a, tmk_rl_2(call, "rest", "Mod", a, b));
    return tmk_rl_2(call, NULL, "Div", even, b);
}

static struct tmk_value *lower_floor_mod(struct tmk_relay_call *call) {
    struct tmk_value *a = tmk_rl_in(call, 0), *b = tmk_rl_in(call, 1);
    if (!tmk_rl_is_float(call, a))
        return tmk_rl_2(call, NULL, "Mod", a, b);
    struct tmk_value *times =
        tmk_rl_1(call, "times", "Floor", tmk_rl_2(call, "quotient", "Div", a, b));
    return tmk_rl_2(call, NULL, "Sub", a, tmk_rl_2(call, "even", "Mul", times, b));
}

/* The remainder has the dividend's sign, as C's. */
static struct tmk_value *lower_mod(struct tmk_relay_call *call) {
    tmk_rl_set_int(call, "fmod", 1);
    return tmk_rl_same(call);
}

static struct tmk_value *lower_not_equal(struct tmk_relay_call *call) {
    return tmk_rl_1(call, NULL, "Not",
                    tmk_rl_2(call, "equal", "Equal", tmk_rl_in(call, 0), tmk_rl_in(call, 1)));
}

static struct tmk_value *lower_clip(struct tmk_relay_call *call) {
    return tmk_rl_clip(call, NULL, tmk_rl_in(call, 0), tmk_rl_real(call, "a_min"),
                       tmk_rl_real(call, "a_max"));
}

static struct tmk_value *lower_cast(struct tmk_relay_call *call) {
    return tmk_rl_cast(call, NULL, tmk_rl_in(call, 0),
                       tmk_rl_dtype_attr(call, "dtype", TMK_FLOAT32));
}

static struct tmk_value *lower_cast_like(struct tmk_relay_call *call) {
    return tmk_rl_cast(call, NULL, tmk_rl_in(call, 0), tmk_rl_type_of(call, tmk_rl_in(call, 1)));
}

static struct tmk_value *lower_shift(struct tmk_relay_call *call) {
    tmk_rl_set_text(call, "direction",
                    strcmp(call->op->name, "left_shift") == 0 ? "LEFT" : "RIGHT");
    return tmk_rl_same(call);
}

static struct tmk_value *lower_prelu(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    int32_t rank = tmk_rl_rank(call, x), axis = tmk_rl_axis(call, tmk_rl_int(call, "axis"), rank);
    return tmk_rl_2(call, NULL, "PRelu", x,
                    tmk_rl_along(call, "slope", tmk_rl_in(call, 1), axis, rank));
}

/* ---- writing ---- */

static struct tmk_relay_expr *emit_chained(struct tmk_relay_emit *e, const char *op) {
    struct tmk_relay_expr *sum = tmk_re_in(e, 0);
    for (uint32_t i = 1; i < e->node->n_inputs; i++)
        sum = tmk_re_2(e, op, sum, tmk_re_in(e, i));
    return e->node->n_inputs > 1 ? sum : tmk_re_1(e, "copy", sum);
}

static struct tmk_relay_expr *emit_chain(struct tmk_relay_emit *e) {
    return emit_chained(e, e->op->name);
}

static struct tmk_relay_expr *emit_sum(struct tmk_relay_emit *e) {
    return emit_chained(e, "add");
}

static struct tmk_relay_expr *emit_mean(struct tmk_relay_emit *e) {
    return tmk_re_2(e, "divide", emit_chained(e, "add"), tmk_re_real(e, e->node->n_inputs));
}

static struct tmk_relay_expr *emit_pow(struct tmk_relay_emit *e) {
    if (tmk_re_dtype(e, 0) != tmk_re_dtype(e, 1))
        return tmk_re_fail(e, "base and exponent are of different types");
    return tmk_re_same(e);
}

static struct tmk_relay_expr *emit_mod(struct tmk_relay_emit *e) {
    struct tmk_relay_expr *args[] = {tmk_re_in(e, 0), tmk_re_in(e, 1)};
    const bool truncates = tmk_node_int(e->node, "fmod", 0) != 0;
    return tmk_re_n(e, truncates ? "mod" : "floor_mod", args, 2);
}

/* Broadcasting as it was until operator set 6: by an axis. */
static struct tmk_relay_expr *emit_binary(struct tmk_relay_emit *e) {
    if (tmk_node_int(e->node, "broadcast", 0) && tmk_node_attr(e->node, "axis"))
        return tmk_re_fail(e, "it broadcasts along an axis, as before operator set 7");
    return tmk_re_same(e);
}

/* max(x, 0) + slope * min(x, 0): any slope that broadcasts. */
static struct tmk_relay_expr *emit_prelu(struct tmk_relay_emit *e) {
    struct tmk_relay_expr *x = tmk_re_in(e, 0), *slope = tmk_re_in(e, 1);
    struct tmk_relay_expr *below =
        tmk_re_2(e, "multiply", slope, tmk_re_2(e, "minimum", x, tmk_re_real(e, 0)));
    return tmk_re_2(e, "add", tmk_re_1(e, "nn.relu", x), below);
}

/* where(x > 0, x, alpha * (exp(x) - 1)) * gamma */
static struct tmk_relay_expr *emit_scaled_elu(struct tmk_relay_emit *e, float alpha, float gamma) {
    struct tmk_relay_expr *x = tmk_re_in(e, 0);
    struct tmk_relay_expr *args[] = {
        tmk_re_2(e, "greater", x, tmk_re_real(e, 0)), x,
        tmk_re_2(e, "multiply", tmk_re_real(e, alpha),
                 tmk_re_2(e, "subtract", tmk_re_1(e, "exp", x), tmk_re_real(e, 1)))};
    struct tmk_relay_expr *made = tmk_re_n(e, "where", args, 3);
    if (gamma != 1)
        made = tmk_re_2(e, "multiply", made, tmk_re_real(e, gamma));
    return made;
}

static struct tmk_relay_expr *emit_elu(struct tmk_relay_emit *e) {
    return emit_scaled_elu(e, tmk_node_float(e->node, "alpha", 1), 1);
}

static struct tmk_relay_expr *emit_selu(struct tmk_relay_emit *e) {
    return emit_scaled_elu(e, tmk_node_float(e->node, "alpha", 1.67326319217681884765625f),
                           tmk_node_float(e->node, "gamma", 1.05070102214813232421875f));
}

/* clip(alpha * x + beta, 0, 1) */
static struct tmk_relay_expr *emit_hard(struct tmk_relay_emit *e, struct tmk_relay_expr *x,
                                        float alpha, float beta) {
    struct tmk_relay_expr *scaled = tmk_re_2(e, "multiply", x, tmk_re_real(e, alpha));
    return tmk_re_clip(e, tmk_re_2(e, "add", scaled, tmk_re_real(e, beta)), 0, 1);
}

static struct tmk_relay_expr *emit_hard_sigmoid(struct tmk_relay_emit *e) {
    return emit_hard(e, tmk_re_in(e, 0), tmk_node_float(e->node, "alpha", 0.2f),
                     tmk_node_float(e->node, "beta", 0.5f));
}

static struct tmk_relay_expr *emit_hard_swish(struct tmk_relay_emit *e) {
    struct tmk_relay_expr *x = tmk_re_in(e, 0);
    return tmk_re_2(e, "multiply", x, emit_hard(e, x, 1.0f / 6, 0.5f));
}

static struct tmk_relay_expr *emit_softsign(struct tmk_relay_emit *e) {
    struct tmk_relay_expr *x = tmk_re_in(e, 0);
    struct tmk_relay_expr *below = tmk_re_2(e, "add", tmk_re_1(e, "abs", x), tmk_re_real(e, 1));
    return tmk_re_2(e, "divide", x, below);
}

/* max(x, 0) + log(1 + exp(-|x|)), which never overflows */
static struct tmk_relay_expr *emit_softplus(struct tmk_relay_emit *e) {
    struct tmk_relay_expr *x = tmk_re_in(e, 0);
    struct tmk_relay_expr *small =
        tmk_re_1(e, "exp", tmk_re_1(e, "negative", tmk_re_1(e, "abs", x)));
    struct tmk_relay_expr *rest = tmk_re_1(e, "log", tmk_re_2(e, "add", small, tmk_re_real(e, 1)));
    return tmk_re_2(e, "add", tmk_re_1(e, "nn.relu", x), rest);
}

/* x * 0.5 * (1 + erf(x / sqrt 2)) */
static struct tmk_relay_expr *emit_gelu(struct tmk_relay_emit *e) {
    struct tmk_relay_expr *x = tmk_re_in(e, 0);
    if (strcmp(tmk_node_string(e->node, "approximate", "none"), "none") != 0)
        return tmk_re_fail(e, "it is approximated by tanh");
    struct tmk_relay_expr *erf =
        tmk_re_1(e, "erf", tmk_re_2(e, "multiply", x, tmk_re_real(e, M_SQRT1_2)));
    struct tmk_relay_expr *half =
        tmk_re_2(e, "multiply", tmk_re_real(e, 0.5), tmk_re_2(e, "add", erf, tmk_re_real(e, 1)));
    return tmk_re_2(e, "multiply", x, half);
}

static struct tmk_relay_expr *emit_reciprocal(struct tmk_relay_emit *e) {
    return tmk_re_2(e, "divide", tmk_re_real(e, 1), tmk_re_in(e, 0));
}

/* ---- Clip ---- */

/* A bound that is an attribute, or an input whose number is certain, or absent. */
struct bound {
    bool there, known;
    double value;
};

static struct bound bound_of(struct tmk_relay_emit *e, const char *name, uint32_t i) {
    const struct tmk_attr *attr = tmk_node_attr(e->node, name);
    struct bound b = {0};
    b.there = attr || tmk_re_has(e, i);
    if (attr)
        b.value = attr->f;
    b.known = attr || tmk_re_number(e, i, &b.value);
    return b;
}

/* By `maximum` or `minimum` where the other bound is absent, or its number comes at run time. */
static struct tmk_relay_expr *emit_bounded(struct tmk_relay_emit *e, struct tmk_relay_expr *x,
                                           const char *op, const struct bound *b, uint32_t i) {
    if (!b->there)
        return x;
    struct tmk_relay_expr *end =
        b->known ? tmk_rb_scalar(e->b, tmk_re_dtype(e, 0), b->value) : tmk_re_in(e, i);
    return tmk_re_2(e, op, x, end);
}

static struct tmk_relay_expr *emit_clip(struct tmk_relay_emit *e) {
    const struct bound low = bound_of(e, "min", 1), high = bound_of(e, "max", 2);
    struct tmk_relay_expr *x = tmk_re_in(e, 0);
    /* 24 bits of a float hold codes too */
    const enum tmk_dtype dtype = tmk_re_dtype(e, 0);
    const bool fits = dtype == TMK_FLOAT32 || tmk_dtype_size(dtype) <= 2;
    if (fits && low.known && high.known)
        return tmk_re_clip(e, x, low.value, high.value);
    if (!low.there && !high.there)
        return tmk_re_1(e, "copy", x);
    x = emit_bounded(e, x, "maximum", &low, 1);
    return emit_bounded(e, x, "minimum", &high, 2);
}

static struct tmk_relay_expr *emit_cast(struct tmk_relay_emit *e) {
    const enum tmk_dtype to = (enum tmk_dtype)tmk_node_int(e->node, "to", TMK_FLOAT32);
    if (!tmk_dtype_size(to) || to >= TMK_FLOAT8E4M3FN)
        return tmk_re_fail(e, "it makes a type that Relay does not have");
    return tmk_rb_cast(e->b, tmk_re_in(e, 0), to);
}

#define READ1(relay, onnx)                                                                         \
    { relay, 1, 1, 0, "", onnx, tmk_rl_same }
#define BOTH1(relay, onnx)                                                                         \
    { relay, 1, 1, TMK_RELAY_BROADCASTS, "", onnx, tmk_rl_same, tmk_re_same }
#define READ2(relay, onnx)                                                                         \
    { relay, 2, 2, 0, "", onnx, tmk_rl_same }
#define BOTH2(relay, onnx)                                                                         \
    { relay, 2, 2, TMK_RELAY_BROADCASTS, "", onnx, tmk_rl_same, emit_binary }
#define COMPARE2(relay, onnx)                                                                      \
    { relay, 2, 2, 0, "", onnx, tmk_rl_same, emit_binary }
#define WRITE(onnx, emit)                                                                          \
    { "", 0, 0, 0, "", onnx, NULL, emit }
static const struct tmk_relay_same_attr leaky_attrs[] = {{"alpha", TMK_RELAY_REAL, .number = 0.01f},
                                                         {0}};
#define ALIAS_OF(relay, attrs)                                                                     \
    { relay, 1, 1, TMK_RELAY_ALIAS, attrs, "Identity", lower_alias }
#define ALIAS(relay) ALIAS_OF(relay, "")

const struct tmk_relay_op tmk_relay_ops_elementwise[] = {
    BOTH1("abs", "Abs"),
    BOTH1("acos", "Acos"),
    BOTH1("acosh", "Acosh"),
    BOTH2("add", "Add"),
    ALIAS_OF("annotation.bitpack_end", "bits=1; pack_axis=1; bit_axis=-1"),
    ALIAS_OF("annotation.bitpack_start", "bits=1; pack_axis=1; bit_axis=-1"),
    ALIAS("annotation.cast_hint"),
    ALIAS("annotation.checkpoint"),
    ALIAS("annotation.compiler_begin"),
    ALIAS("annotation.compiler_end"),
    ALIAS("annotation.quantize_info"),
    ALIAS("annotation.stop_fusion"),
    BOTH1("asin", "Asin"),
    BOTH1("asinh", "Asinh"),
    BOTH1("atan", "Atan"),
    BOTH1("atanh", "Atanh"),
    READ2("bitwise_and", "BitwiseAnd"),
    READ1("bitwise_not", "BitwiseNot"),
    READ2("bitwise_or", "BitwiseOr"),
    READ2("bitwise_xor", "BitwiseXor"),
    {"cast", 1, 1, TMK_RELAY_BROADCASTS, "dtype", "Cast", lower_cast, emit_cast},
    {"cast_like", 2, 2, 0, "", "Cast", lower_cast_like},
    BOTH1("ceil", "Ceil"),
    {"clip", 1, 1, TMK_RELAY_BROADCASTS, "a_min:real; a_max:real", "Clip", lower_clip, emit_clip,
     1u << 1 | 1u << 2},
    {"copy", 1, 1, TMK_RELAY_ALIAS, "", "Identity", lower_alias, tmk_re_same},
    BOTH1("cos", "Cos"),
    BOTH1("cosh", "Cosh"),
    ALIAS("device_copy"),
    BOTH2("divide", "Div"),
    COMPARE2("equal", "Equal"),
    BOTH1("erf", "Erf"),
    BOTH1("exp", "Exp"),
    READ1("fast_erf", "Erf"),
    READ1("fast_exp", "Exp"),
    READ1("fast_tanh", "Tanh"),
    BOTH1("floor", "Floor"),
    {"floor_divide", 2, 2, 0, "", "Div, Floor; of integers Mod, Sub, Div", lower_floor_divide},
    {"floor_mod", 2, 2, 0, "", "Mod; of reals Div, Floor, Mul, Sub", lower_floor_mod, emit_mod},
    COMPARE2("greater", "Greater"),
    COMPARE2("greater_equal", "GreaterOrEqual"),
    READ1("isinf", "IsInf"),
    {"isnan", 1, 1, 0, "", "IsNaN", tmk_rl_same, tmk_re_same},
    {"left_shift", 2, 2, 0, "", "BitShift", lower_shift},
    COMPARE2("less", "Less"),
    COMPARE2("less_equal", "LessOrEqual"),
    BOTH1("log", "Log"),
    {"log10", 1, 1, 0, "", "Log, Div", lower_logarithm},
    {"log2", 1, 1, 0, "", "Log, Div", lower_logarithm},
    BOTH2("logical_and", "And"),
    BOTH1("logical_not", "Not"),
    BOTH2("logical_or", "Or"),
    BOTH2("logical_xor", "Xor"),
    {"maximum", 2, 2, TMK_RELAY_BROADCASTS, "", "Max", tmk_rl_same, emit_chain},
    {"minimum", 2, 2, TMK_RELAY_BROADCASTS, "", "Min", tmk_rl_same, emit_chain},
    {"mod", 2, 2, 0, "", "Mod", lower_mod},
    BOTH2("multiply", "Mul"),
    BOTH1("negative", "Neg"),
    {"nn.dropout", 1, 1, 0, "rate=0.5", "Identity", lower_dropout},
    {"nn.leaky_relu", 1, 1, 0, "alpha=0.25", "LeakyRelu", tmk_rl_same, tmk_re_same, 0, leaky_attrs},
    {"nn.prelu", 2, 2, 0, "axis=1", "PRelu", lower_prelu, emit_prelu},
    BOTH1("nn.relu", "Relu"),
    {"not_equal", 2, 2, 0, "", "Equal, Not", lower_not_equal},
    ALIAS_OF("on_device", "constrain_result=False; constrain_body=True"),
    {"power", 2, 2, 0, "", "Pow", tmk_rl_same, emit_pow},
    {"right_shift", 2, 2, TMK_RELAY_BROADCASTS, "", "BitShift", lower_shift},
    READ1("round", "ai.tidemark::RoundAway"),
    {"rsqrt", 1, 1, 0, "", "Sqrt, Reciprocal", lower_rsqrt},
    BOTH1("sigmoid", "Sigmoid"),
    BOTH1("sign", "Sign"),
    BOTH1("sin", "Sin"),
    BOTH1("sinh", "Sinh"),
    BOTH1("sqrt", "Sqrt"),
    BOTH2("subtract", "Sub"),
    BOTH1("tan", "Tan"),
    BOTH1("tanh", "Tanh"),
    {"where", 3, 3, 0, "", "Where", tmk_rl_same, tmk_re_same},
    WRITE("Elu", emit_elu),
    WRITE("Gelu", emit_gelu),
    WRITE("HardSigmoid", emit_hard_sigmoid),
    WRITE("HardSwish", emit_hard_swish),
    WRITE("Mean", emit_mean),
    WRITE("Reciprocal", emit_reciprocal),
    WRITE("Selu", emit_selu),
    WRITE("Softplus", emit_softplus),
    WRITE("Softsign", emit_softsign),
    WRITE("Sum", emit_sum),
    {0}};
