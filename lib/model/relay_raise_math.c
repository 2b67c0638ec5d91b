/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic, activations and reductions. */
#include <math.h>
#include <string.h>

#include "model/relay_raise.h"

#define SAY (&r->say)

static struct tmk_relay_expr *real(struct tmk_raising *r, double value) {
    return tmk_say_scalar(SAY, TMK_FLOAT32, value);
}

static struct tmk_relay_expr *x_of(struct tmk_raising *r, const struct tmk_node *node) {
    return tmk_raise_operand(r, node, 0);
}

/* ---- of any number of operands ---- */

static struct tmk_relay_expr *chained(struct tmk_raising *r, const struct tmk_node *node,
                                      const char *op) {
    struct tmk_relay_expr *sum = x_of(r, node);
    for (uint32_t i = 1; i < node->n_inputs; i++)
        sum = tmk_say_call2(SAY, op, sum, tmk_raise_operand(r, node, i));
    return node->n_inputs > 1 ? sum : tmk_say_call1(SAY, "copy", sum);
}

static const char *raise_chain(struct tmk_raising *r, const struct tmk_node *node) {
    return tmk_raise_done(r, node, chained(r, node, tmk_raise_find(node)->relay));
}

static const char *raise_mean(struct tmk_raising *r, const struct tmk_node *node) {
    return tmk_raise_done(
        r, node, tmk_say_call2(SAY, "divide", chained(r, node, "add"), real(r, node->n_inputs)));
}

static const char *raise_pow(struct tmk_raising *r, const struct tmk_node *node) {
    if (tmk_raise_dtype(node, 0) != tmk_raise_dtype(node, 1))
        return "base and exponent are of different types";
    return tmk_raise_same(r, node);
}

static const char *raise_mod(struct tmk_raising *r, const struct tmk_node *node) {
    struct tmk_relay_expr *args[] = {x_of(r, node), tmk_raise_operand(r, node, 1)};
    const bool truncates = tmk_node_int(node, "fmod", 0) != 0;
    return tmk_raise_done(r, node,
                          tmk_say_call(SAY, truncates ? "mod" : "floor_mod", args, 2, NULL));
}

/* Broadcasting as it was until operator set 6: by an axis. */
static const char *raise_binary(struct tmk_raising *r, const struct tmk_node *node) {
    if (tmk_node_int(node, "broadcast", 0) && tmk_node_attr(node, "axis"))
        return "it broadcasts along an axis, as before operator set 7";
    return tmk_raise_same(r, node);
}

/* ---- activations ---- */

static const char *raise_leaky(struct tmk_raising *r, const struct tmk_node *node) {
    struct tmk_say_attrs a = {0};
    struct tmk_relay_expr *x = x_of(r, node);
    tmk_say_set_real(SAY, &a, "alpha", tmk_node_float(node, "alpha", 0.01f));
    return tmk_raise_done(r, node, tmk_say_call(SAY, "nn.leaky_relu", &x, 1, &a));
}

/* max(x, 0) + slope * min(x, 0): any slope that broadcasts. */
static const char *raise_prelu(struct tmk_raising *r, const struct tmk_node *node) {
    struct tmk_relay_expr *x = x_of(r, node), *slope = tmk_raise_operand(r, node, 1);
    struct tmk_relay_expr *below = tmk_say_call2(SAY, "minimum", x, real(r, 0));
    return tmk_raise_done(r, node,
                          tmk_say_call2(SAY, "add", tmk_say_call1(SAY, "nn.relu", x),
                                        tmk_say_call2(SAY, "multiply", slope, below)));
}

/* where(x > 0, x, alpha * (exp(x) - 1)) * gamma */
static const char *say_elu(struct tmk_raising *r, const struct tmk_node *node, float alpha,
                           float gamma) {
    struct tmk_relay_expr *x = x_of(r, node);
    struct tmk_relay_expr *args[] = {
        tmk_say_call2(SAY, "greater", x, real(r, 0)), x,
        tmk_say_call2(SAY, "multiply", real(r, alpha),
                      tmk_say_call2(SAY, "subtract", tmk_say_call1(SAY, "exp", x), real(r, 1)))};
    struct tmk_relay_expr *made = tmk_say_call(SAY, "where", args, 3, NULL);
    if (gamma != 1)
        made = tmk_say_call2(SAY, "multiply", made, real(r, gamma));
    return tmk_raise_done(r, node, made);
}

static const char *raise_elu(struct tmk_raising *r, const struct tmk_node *node) {
    return say_elu(r, node, tmk_node_float(node, "alpha", 1), 1);
}

static const char *raise_selu(struct tmk_raising *r, const struct tmk_node *node) {
    return say_elu(r, node, tmk_node_float(node, "alpha", 1.67326319217681884765625f),
                   tmk_node_float(node, "gamma", 1.05070102214813232421875f));
}

static struct tmk_relay_expr *say_clip(struct tmk_raising *r, struct tmk_relay_expr *x, float low,
                                       float high) {
    struct tmk_say_attrs a = {0};
    tmk_say_set_real(SAY, &a, "a_min", low);
    tmk_say_set_real(SAY, &a, "a_max", high);
    return tmk_say_call(SAY, "clip", &x, 1, &a);
}

/* clip(alpha * x + beta, 0, 1) */
static struct tmk_relay_expr *hard(struct tmk_raising *r, struct tmk_relay_expr *x, float alpha,
                                   float beta) {
    struct tmk_relay_expr *scaled = tmk_say_call2(SAY, "multiply", x, real(r, alpha));
    return say_clip(r, tmk_say_call2(SAY, "add", scaled, real(r, beta)), 0, 1);
}

static const char *raise_hard_sigmoid(struct tmk_raising *r, const struct tmk_node *node) {
    return tmk_raise_done(r, node,
                          hard(r, x_of(r, node), tmk_node_float(node, "alpha", 0.2f),
                               tmk_node_float(node, "beta", 0.5f)));
}

static const char *raise_hard_swish(struct tmk_raising *r, const struct tmk_node *node) {
    struct tmk_relay_expr *x = x_of(r, node);
    return tmk_raise_done(r, node, tmk_say_call2(SAY, "multiply", x, hard(r, x, 1.0f / 6, 0.5f)));
}

static const char *raise_softsign(struct tmk_raising *r, const struct tmk_node *node) {
    struct tmk_relay_expr *x = x_of(r, node);
    struct tmk_relay_expr *below =
        tmk_say_call2(SAY, "add", tmk_say_call1(SAY, "abs", x), real(r, 1));
    return tmk_raise_done(r, node, tmk_say_call2(SAY, "divide", x, below));
}

/* max(x, 0) + log(1 + exp(-|x|)), which never overflows */
static const char *raise_softplus(struct tmk_raising *r, const struct tmk_node *node) {
    struct tmk_relay_expr *x = x_of(r, node);
    struct tmk_relay_expr *e =
        tmk_say_call1(SAY, "exp", tmk_say_call1(SAY, "negative", tmk_say_call1(SAY, "abs", x)));
    struct tmk_relay_expr *rest =
        tmk_say_call1(SAY, "log", tmk_say_call2(SAY, "add", e, real(r, 1)));
    return tmk_raise_done(r, node,
                          tmk_say_call2(SAY, "add", tmk_say_call1(SAY, "nn.relu", x), rest));
}

/* x * 0.5 * (1 + erf(x / sqrt 2)) */
static const char *raise_gelu(struct tmk_raising *r, const struct tmk_node *node) {
    struct tmk_relay_expr *x = x_of(r, node);
    if (strcmp(tmk_node_string(node, "approximate", "none"), "none") != 0)
        return "it is approximated by tanh";
    struct tmk_relay_expr *e =
        tmk_say_call1(SAY, "erf", tmk_say_call2(SAY, "multiply", x, real(r, M_SQRT1_2)));
    struct tmk_relay_expr *half =
        tmk_say_call2(SAY, "multiply", real(r, 0.5), tmk_say_call2(SAY, "add", e, real(r, 1)));
    return tmk_raise_done(r, node, tmk_say_call2(SAY, "multiply", x, half));
}

static const char *raise_reciprocal(struct tmk_raising *r, const struct tmk_node *node) {
    return tmk_raise_done(r, node, tmk_say_call2(SAY, "divide", real(r, 1), x_of(r, node)));
}

/* ---- Clip ---- */

/* A bound that is an attribute, or an input whose number is certain, or absent. */
struct bound {
    bool there, known;
    double value;
};

static struct bound bound_of(const struct tmk_raising *r, const struct tmk_node *node,
                             const char *name, uint32_t i) {
    const struct tmk_attr *attr = tmk_node_attr(node, name);
    struct bound b = {0};
    b.there = attr || tmk_raise_has(node, i);
    if (attr)
        b.value = attr->f;
    b.known = attr || tmk_raise_number(r, node, i, &b.value);
    return b;
}

/* By `maximum` or `minimum` where the other bound is absent, or its number comes at run time. */
static struct tmk_relay_expr *bounded(struct tmk_raising *r, const struct tmk_node *node,
                                      struct tmk_relay_expr *x, const char *op,
                                      const struct bound *b, uint32_t i) {
    if (!b->there)
        return x;
    struct tmk_relay_expr *end = b->known ? tmk_say_scalar(SAY, tmk_raise_dtype(node, 0), b->value)
                                          : tmk_raise_operand(r, node, i);
    return tmk_say_call2(SAY, op, x, end);
}

static const char *raise_clip(struct tmk_raising *r, const struct tmk_node *node) {
    const struct bound low = bound_of(r, node, "min", 1), high = bound_of(r, node, "max", 2);
    struct tmk_relay_expr *x = x_of(r, node);
    /* 24 bits of a float hold codes too */
    const enum tmk_dtype dtype = tmk_raise_dtype(node, 0);
    const bool fits = dtype == TMK_FLOAT32 || tmk_dtype_size(dtype) <= 2;
    if (fits && low.known && high.known)
        return tmk_raise_done(r, node, say_clip(r, x, (float)low.value, (float)high.value));
    if (!low.there && !high.there)
        return tmk_raise_done(r, node, tmk_say_call1(SAY, "copy", x));
    x = bounded(r, node, x, "maximum", &low, 1);
    return tmk_raise_done(r, node, bounded(r, node, x, "minimum", &high, 2));
}

/* ---- reductions ---- */

static struct tmk_relay_expr *reduced(struct tmk_raising *r, const struct tmk_node *node,
                                      const char *op, struct tmk_relay_expr *x, const int64_t *axes,
                                      size_t n) {
    struct tmk_say_attrs a = {0};
    if (n)
        tmk_say_set_ints(SAY, &a, "axis", axes, n);
    if (tmk_node_int(node, "keepdims", 1))
        tmk_say_set_bool(&a, "keepdims", true);
    return tmk_say_call(SAY, op, &x, 1, &a);
}

static const char *raise_reduce(struct tmk_raising *r, const struct tmk_node *node) {
    int64_t axes[2 * TMK_MAX_RANK];
    size_t n;
    const char *op = tmk_raise_find(node)->relay;
    struct tmk_relay_expr *x = x_of(r, node);
    if (!tmk_raise_listed(r, node, "axes", 1, axes, &n))
        return "its axes are computed";
    if (!n && tmk_node_int(node, "noop_with_empty_axes", 0))
        return tmk_raise_done(r, node, tmk_say_call1(SAY, "copy", x));
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "ReduceL1"))
        x = tmk_say_call1(SAY, "abs", x);
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "ReduceL2") ||
        tmk_node_is(node, TMK_DOMAIN_ONNX, "ReduceSumSquare"))
        x = tmk_say_call2(SAY, "multiply", x, x);
    struct tmk_relay_expr *made = reduced(r, node, op, x, axes, n);
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "ReduceL2"))
        made = tmk_say_call1(SAY, "sqrt", made);
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "ReduceLogSum"))
        made = tmk_say_call1(SAY, "log", made);
    return tmk_raise_done(r, node, made);
}

static const char *raise_arg(struct tmk_raising *r, const struct tmk_node *node) {
    struct tmk_say_attrs a = {0};
    const int64_t axis = tmk_node_int(node, "axis", 0);
    struct tmk_relay_expr *x = x_of(r, node);
    tmk_say_set_ints(SAY, &a, "axis", &axis, 1);
    if (tmk_node_int(node, "keepdims", 1))
        tmk_say_set_bool(&a, "keepdims", true);
    if (tmk_node_int(node, "select_last_index", 0))
        tmk_say_set_bool(&a, "select_last_index", true);
    x = tmk_say_call(SAY, tmk_raise_find(node)->relay, &x, 1, &a);
    return tmk_raise_done(r, node, tmk_say_cast(SAY, x, TMK_INT64));
}

/* ---- Softmax ---- */

static const char *raise_softmax(struct tmk_raising *r, const struct tmk_node *node) {
    const struct tmk_shape *shape = tmk_raise_shape(node, 0);
    struct tmk_say_attrs a = {0};
    struct tmk_relay_expr *x = x_of(r, node);
    const bool flat = node->version < 13; /* everything from the axis on is one dimension */
    if (!shape || !shape->rank)
        return "the rank of its input is not known";
    const int64_t axis = tmk_raise_axis(tmk_node_int(node, "axis", flat ? 1 : -1), shape->rank);
    if (axis < 0)
        return "its axis is out of range";
    for (int32_t i = (int32_t)axis + 1; flat && i < shape->rank; i++)
        if (shape->dim[i] != 1)
            return "it takes several axes for one, as before operator set 13";
    if (axis != shape->rank - 1)
        tmk_say_set_int(SAY, &a, "axis", axis);
    return tmk_raise_done(r, node, tmk_say_call(SAY, tmk_raise_find(node)->relay, &x, 1, &a));
}

/* ---- types ---- */

static const char *raise_cast(struct tmk_raising *r, const struct tmk_node *node) {
    const enum tmk_dtype to = (enum tmk_dtype)tmk_node_int(node, "to", TMK_FLOAT32);
    if (!tmk_dtype_size(to) || to >= TMK_FLOAT8E4M3FN)
        return "it makes a type that Relay does not have";
    return tmk_raise_done(r, node, tmk_say_cast(SAY, x_of(r, node), to));
}

#define UNARY(onnx, name)                                                                          \
    { TMK_DOMAIN_ONNX, onnx, tmk_raise_same, 0, name }
#define BINARY(onnx, name)                                                                         \
    { TMK_DOMAIN_ONNX, onnx, raise_binary, 0, name }
#define CHAIN(onnx, name)                                                                          \
    { TMK_DOMAIN_ONNX, onnx, raise_chain, 0, name }
#define REDUCE(onnx, name)                                                                         \
    { TMK_DOMAIN_ONNX, onnx, raise_reduce, 1u << 1, name }

const struct tmk_raise_row tmk_raise_math[] = {
    BINARY("Add", "add"),
    BINARY("Sub", "subtract"),
    BINARY("Mul", "multiply"),
    BINARY("Div", "divide"),
    {TMK_DOMAIN_ONNX, "Pow", raise_pow, 0, "power"},
    {TMK_DOMAIN_ONNX, "Mod", raise_mod, 0, ""},
    BINARY("And", "logical_and"),
    BINARY("Or", "logical_or"),
    BINARY("Xor", "logical_xor"),
    BINARY("Equal", "equal"),
    BINARY("Greater", "greater"),
    BINARY("GreaterOrEqual", "greater_equal"),
    BINARY("Less", "less"),
    BINARY("LessOrEqual", "less_equal"),
    {TMK_DOMAIN_ONNX, "Where", tmk_raise_same, 0, "where"},
    CHAIN("Sum", "add"),
    CHAIN("Max", "maximum"),
    CHAIN("Min", "minimum"),
    {TMK_DOMAIN_ONNX, "Mean", raise_mean, 0, ""},
    UNARY("Abs", "abs"),
    UNARY("Acos", "acos"),
    UNARY("Acosh", "acosh"),
    UNARY("Asin", "asin"),
    UNARY("Asinh", "asinh"),
    UNARY("Atan", "atan"),
    UNARY("Atanh", "atanh"),
    UNARY("Ceil", "ceil"),
    UNARY("Cos", "cos"),
    UNARY("Cosh", "cosh"),
    UNARY("Erf", "erf"),
    UNARY("Exp", "exp"),
    UNARY("Floor", "floor"),
    UNARY("Identity", "copy"),
    UNARY("IsNaN", "isnan"),
    UNARY("Log", "log"),
    UNARY("Neg", "negative"),
    UNARY("Not", "logical_not"),
    UNARY("Relu", "nn.relu"),
    UNARY("Sigmoid", "sigmoid"),
    UNARY("Sign", "sign"),
    UNARY("Sin", "sin"),
    UNARY("Sinh", "sinh"),
    UNARY("Sqrt", "sqrt"),
    UNARY("Tan", "tan"),
    UNARY("Tanh", "tanh"),
    {TMK_DOMAIN_ONNX, "Reciprocal", raise_reciprocal, 0, ""},
    {TMK_DOMAIN_ONNX, "LeakyRelu", raise_leaky, 0, ""},
    {TMK_DOMAIN_ONNX, "PRelu", raise_prelu, 0, ""},
    {TMK_DOMAIN_ONNX, "Elu", raise_elu, 0, ""},
    {TMK_DOMAIN_ONNX, "Selu", raise_selu, 0, ""},
    {TMK_DOMAIN_ONNX, "HardSigmoid", raise_hard_sigmoid, 0, ""},
    {TMK_DOMAIN_ONNX, "HardSwish", raise_hard_swish, 0, ""},
    {TMK_DOMAIN_ONNX, "Softsign", raise_softsign, 0, ""},
    {TMK_DOMAIN_ONNX, "Softplus", raise_softplus, 0, ""},
    {TMK_DOMAIN_ONNX, "Gelu", raise_gelu, 0, ""},
    {TMK_DOMAIN_ONNX, "Clip", raise_clip, 1u << 1 | 1u << 2, ""},
    REDUCE("ReduceMean", "mean"),
    REDUCE("ReduceSum", "sum"),
    REDUCE("ReduceMax", "max"),
    REDUCE("ReduceMin", "min"),
    REDUCE("ReduceProd", "prod"),
    REDUCE("ReduceL1", "sum"),
    REDUCE("ReduceL2", "sum"),
    REDUCE("ReduceSumSquare", "sum"),
    REDUCE("ReduceLogSum", "sum"),
    {TMK_DOMAIN_ONNX, "ArgMax", raise_arg, 0, "argmax"},
    {TMK_DOMAIN_ONNX, "ArgMin", raise_arg, 0, "argmin"},
    {TMK_DOMAIN_ONNX, "Softmax", raise_softmax, 0, "nn.softmax"},
    {TMK_DOMAIN_ONNX, "LogSoftmax", raise_softmax, 0, "nn.log_softmax"},
    {TMK_DOMAIN_ONNX, "Cast", raise_cast, 0, ""},
    {0},
};
