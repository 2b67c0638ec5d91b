/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that work element by element, or along an axis. */
#include "graph_maker_parts.h"

#include <stdio.h>

static const struct {
    const char *text; /* what follows the operand */
    int since, until;
} unary[] = {
    {"Relu(|)", 1, 99},
    {"Sigmoid(|)", 1, 99},
    {"Tanh(|)", 1, 99},
    {"LeakyRelu(|) {alpha=0.3f}", 1, 99},
    {"Neg(|)", 1, 99},
    {"Abs(|)", 1, 99},
    {"Identity(|)", 1, 99},
    {"Exp(|)", 1, 99},
    {"Sqrt(|)", 1, 99},
    {"Log(|)", 1, 99},
    {"Reciprocal(|)", 1, 99},
    {"HardSigmoid(|) {alpha=0.3f}", 1, 99},
    {"Softplus(|)", 1, 99},
    {"Softsign(|)", 1, 99},
    {"Elu(|) {alpha=0.7f}", 1, 99},
    {"Selu(|)", 1, 99},
    {"Floor(|)", 1, 99},
    {"Ceil(|)", 1, 99},
    {"Erf(|)", 9, 99},
    {"Sign(|)", 9, 99},
    {"Sin(|)", 7, 99},
    {"Cos(|)", 7, 99},
    {"Atan(|)", 7, 99},
    {"Tan(|)", 7, 99},
    {"Asin(|)", 7, 99},
    {"Acos(|)", 7, 99},
    {"Sinh(|)", 9, 99},
    {"Cosh(|)", 9, 99},
    {"Asinh(|)", 9, 99},
    {"Acosh(|)", 9, 99},
    {"Atanh(|)", 9, 99},
    {"Round(|)", 11, 99},
    {"Celu(|) {alpha=0.5f}", 12, 99},
    {"HardSwish(|)", 14, 99},
    {"Mish(|)", 18, 99},
    {"Gelu(|)", 20, 99},
    {"Gelu(|) {approximate=\"tanh\"}", 20, 99},
    {"Swish(|) {alpha=1.5f}", 24, 99},
    {"ThresholdedRelu(|) {alpha=0.5f}", 10, 99},
    {"Shrink(|) {lambd=0.3f, bias=0.1f}", 9, 99},
    {"Dropout(|)", 7, 99},
    {"Dropout(|) {is_test=1}", 1, 6},
    {"com.microsoft::Gelu(|)", 1, 99},
    {"com.microsoft::FastGelu(|)", 1, 99},
    {"com.microsoft::QuickGelu(|)", 1, 99},
    {"IsNaN(|)", 9, 99},
    {"IsInf(|)", 10, 99},
};

void make_unary(struct maker *m) {
    const struct thing *x = maker_value(m, TMK_FLOAT32, 0, 8);
    const size_t common = 8;
    if (!x)
        return;
    const size_t i = draw(m, 3) ? draw(m, (unsigned)common) : draw(m, TMK_COUNT(unary));
    const char *bar = unary[i].text;
    while (*bar != '|')
        bar++;
    if (m->made->opset >= unary[i].since && m->made->opset <= unary[i].until)
        LINE(m, " %%v%d = %.*s%%v%d%s\n", maker_result(m), (int)(bar - unary[i].text),
             unary[i].text, x->name, bar + 1);
}

/* The other operand: a value, a constant that is broadcast, or one number. */
static void other(struct maker *m, const struct thing *x, char *out, size_t size) {
    const unsigned kind = draw(m, 4);
    if (x->dtype == TMK_FLOAT32 && kind) {
        struct tmk_shape shape = maker_broadcast(m, x);
        if (kind == 1)
            shape.rank = 0;
        snprintf(out, size, "%%w%d", maker_weight(m, &shape, draw(m, 2) ? 0.25 : -2, 2));
    } else {
        snprintf(out, size, "%%v%d", maker_partner(m, x)->name);
    }
}

void make_binary(struct maker *m) {
    static const char *const ops[] = {"Add", "Mul", "Sub",   "Add", "Mul",
                                      "Div", "Pow", "PRelu", "Mod", "Add"};
    const struct thing *x = maker_value(m, draw(m, 8) ? TMK_FLOAT32 : TMK_UNDEFINED, 0, 8);
    char a[24], b[24];
    if (!x || x->dtype == TMK_BOOL)
        return;
    const char *op = draw_of(m, ops);
    snprintf(a, sizeof a, "%%v%d", x->name);
    other(m, x, b, sizeof b);
    if (op[0] == 'P' && op[1] == 'o') {
        static const double exponents[] = {2, 0.5, 1, 3, -1, 0};
        if (x->dtype == TMK_FLOAT32 && draw(m, 4))
            snprintf(b, sizeof b, "%%w%d", maker_scalar(m, draw_of(m, exponents)));
    }
    const bool swap = op[0] != 'P' && one_in(m, 3);
    LINE(m, " %%v%d = %s(%s, %s)%s\n", maker_result(m), op, swap ? b : a, swap ? a : b,
         op[0] == 'M' && op[2] == 'd' && x->dtype == TMK_FLOAT32 ? " {fmod=1}"
         : m->made->opset < 7 && op[0] != 'P'                    ? " {broadcast=1}"
                                                                 : "");
}

void make_variadic(struct maker *m) {
    static const char *const ops[] = {"Max", "Min", "Sum", "Mean"};
    const struct thing *x = maker_value(m, TMK_FLOAT32, 0, 6);
    char b[24];
    if (!x)
        return;
    const char *op = draw_of(m, ops);
    const unsigned more = draw(m, 4);
    struct tmk_text operands = {0};
    for (unsigned i = 0; i < more; i++) {
        other(m, x, b, sizeof b);
        tmk_text_printf(&operands, ", %s", b);
    }
    LINE(m, " %%v%d = %s(%%v%d%s)\n", maker_result(m), op, x->name,
         operands.data ? operands.data : "");
    tmk_text_finish(&operands);
}

/* A comparison, and what is done with its answer. */
void make_compare(struct maker *m) {
    static const char *const ops[] = {"Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual"};
    static const char *const logic[] = {"And", "Or", "Xor"};
    const struct thing *x = maker_value(m, TMK_FLOAT32, 0, 6);
    char b[24];
    if (!x)
        return;
    const char *broadcast = m->made->opset < 7 ? " {broadcast=1}" : "";
    other(m, x, b, sizeof b);
    const int c = maker_result(m);
    LINE(m, " %%v%d = %s(%%v%d, %s)%s\n", c, draw_of(m, ops), x->name, b, broadcast);
    switch (draw(m, 5)) {
    case 0:
        LINE(m, " %%v%d = Where(%%v%d, %%v%d, %s)\n", maker_result(m), c, x->name, b);
        break;
    case 1:
        LINE(m, " %%v%d = Cast(%%v%d) {to=%s}\n", maker_result(m), c,
             m->made->opset < 6 ? "\"FLOAT\"" : "1");
        break;
    case 2:
        LINE(m, " %%v%d = Not(%%v%d)\n", maker_result(m), c);
        break;
    case 3: {
        const struct thing *d = maker_value(m, TMK_BOOL, 0, 6);
        LINE(m, " %%v%d = %s(%%v%d, %%v%d)%s\n", maker_result(m), draw_of(m, logic), c,
             d ? d->name : c, broadcast);
        break;
    }
    default:
        break;
    }
}

/* Limits at which statistics follow, and others; sometimes several of one value. */
void make_clip(struct maker *m) {
    static const double lows[] = {0, -1, -0.5, 0.3, -128}, highs[] = {6, 1, 0.5, 127, 0.7};
    const struct thing *x = maker_value(m, TMK_FLOAT32, 0, 8);
    if (!x)
        return;
    if (one_in(m, 3)) {
        LINE(m, " %%v%d = Relu(%%v%d)\n", maker_result(m), x->name);
        if (draw(m, 2))
            return;
    }
    const double low = draw_of(m, lows), high = draw_of(m, highs);
    const unsigned which = 1 + draw(m, 3); /* bits: low, high */
    const int v = maker_result(m);
    if (m->made->opset >= 11) {
        char text[64];
        const int a = which & 1 ? maker_scalar(m, low) : -1,
                  b = which & 2 ? maker_scalar(m, high) : -1;
        snprintf(text, sizeof text, "%s", "_");
        if (a >= 0)
            snprintf(text, sizeof text, "%%w%d", a);
        LINE(m, " %%v%d = Clip(%%v%d, %s", v, x->name, text);
        if (b >= 0)
            LINE(m, ", %%w%d", b);
        LINE(m, ")\n");
        return;
    }
    LINE(m, " %%v%d = Clip(%%v%d) {", v, x->name);
    if (which & 1)
        LINE(m, "min=%gf, ", low);
    if (which & 2)
        LINE(m, "max=%gf", high);
    LINE(m, "}\n");
}

void make_cast(struct maker *m) {
    static const struct {
        int number;
        const char *name;
    } to[] = {{1, "FLOAT"}, {7, "INT64"}, {6, "INT32"}, {9, "BOOL"},
              {2, "UINT8"}, {3, "INT8"},  {5, "INT16"}};
    const struct thing *x = maker_value(m, one_in(m, 3) ? TMK_UNDEFINED : TMK_FLOAT32, 0, 8);
    if (!x)
        return;
    const unsigned i = draw(m, TMK_COUNT(to));
    if (m->made->opset < 6)
        LINE(m, " %%v%d = Cast(%%v%d) {to=\"%s\"}\n", maker_result(m), x->name, to[i].name);
    else
        LINE(m, " %%v%d = Cast(%%v%d) {to=%d}\n", maker_result(m), x->name, to[i].number);
}

/* A pair, by tensor or by channel; or half of one. */
void make_quantize(struct maker *m) {
    static const enum tmk_dtype types[] = {TMK_UINT8, TMK_INT8};
    const struct thing *x = maker_value(m, TMK_FLOAT32, 1, 6);
    if (!x || m->made->opset < 10)
        return;
    const bool by_channel = m->made->opset >= 13 && x->shape.rank > 1 && one_in(m, 4);
    const int32_t axis = by_channel ? draw_between(m, 0, x->shape.rank - 1) : 0;
    const int64_t n = by_channel ? x->shape.dim[axis] : 0;
    const enum tmk_dtype dtype = draw_of(m, types);
    if (n > 64)
        return;
    if (m->made->opset >= 11 && one_in(m, 6)) {
        const int q = maker_result(m), s = maker_result(m), z = maker_result(m);
        LINE(m, " %%v%d, %%v%d, %%v%d = DynamicQuantizeLinear(%%v%d)\n", q, s, z, x->name);
        return;
    }
    int64_t zeros[64];
    for (int64_t i = 0; i < n || i == 0; i++)
        zeros[i] = draw(m, 3) ? 0 : draw(m, 100);
    struct tmk_shape shape = {by_channel, {n}};
    const int s = maker_weight(m, &shape, 0.01, 0.05),
              z = maker_ints(m, dtype, zeros, by_channel ? (int)n : -1);
    char attr[32] = "";
    if (by_channel)
        snprintf(attr, sizeof attr, " {axis=%d}", axis);
    const int q = maker_result(m);
    LINE(m, " %%v%d = QuantizeLinear(%%v%d, %%w%d, %%w%d)%s\n", q, x->name, s, z, attr);
    if (draw(m, 6))
        LINE(m, " %%v%d = DequantizeLinear(%%v%d, %%w%d, %%w%d)%s\n", maker_result(m), q, s, z,
             attr);
}

void make_reduce(struct maker *m) {
    static const char *const ops[] = {"Mean", "Sum", "Max",       "Min",    "SumSquare",
                                      "L2",   "L1",  "LogSumExp", "LogSum", "Prod"};
    const struct thing *x = maker_value(m, TMK_FLOAT32, 1, 6);
    if (!x)
        return;
    const char *op = draw(m, 2) ? "Mean" : draw_of(m, ops);
    int64_t axes[6];
    int n = 0;
    for (int32_t i = 0; i < x->shape.rank; i++)
        if (draw(m, 4) > (i == 0 ? 2u : 1u))
            axes[n++] = one_in(m, 3) ? i - x->shape.rank : i;
    /* "axes" became an operand of Sum's first */
    const int since = op[0] == 'S' && op[3] == '\0' ? 13 : 18;
    const int keep = (int)draw(m, 2);
    if (n && m->made->opset >= since) {
        const int w = maker_ints(m, TMK_INT64, axes, n);
        LINE(m, " %%v%d = Reduce%s(%%v%d, %%w%d) {keepdims=%d}\n", maker_result(m), op, x->name, w,
             keep);
        return;
    }
    LINE(m, " %%v%d = Reduce%s(%%v%d) {", maker_result(m), op, x->name);
    if (n)
        line_ints(m, "axes", axes, n);
    LINE(m, "keepdims=%d}\n", keep);
}

void make_softmax(struct maker *m) {
    static const char *const ops[] = {"Softmax", "Softmax", "LogSoftmax", "Hardmax"};
    const struct thing *x = maker_value(m, TMK_FLOAT32, 1, 6);
    if (!x)
        return;
    LINE(m, " %%v%d = %s(%%v%d) ", maker_result(m), draw_of(m, ops), x->name);
    LINE(m, "{axis=%d}\n",
         draw_between(m, m->made->opset < 11 ? 0 : -x->shape.rank, x->shape.rank - 1));
}

/* What hangs on the order of numbers. */
void make_order(struct maker *m) {
    const struct thing *x = maker_value(m, TMK_FLOAT32, 1, 5);
    if (!x)
        return;
    const int axis = draw_between(m, 0, x->shape.rank - 1);
    switch (draw(m, 4)) {
    case 0:
        LINE(m, " %%v%d = %s(%%v%d) {axis=%d, ", maker_result(m), draw(m, 2) ? "ArgMax" : "ArgMin",
             x->name, axis);
        LINE(m, "keepdims=%u}\n", draw(m, 2));
        break;
    case 1: {
        const int64_t k = x->shape.dim[axis] > 1 ? 1 + draw(m, (unsigned)x->shape.dim[axis]) : 1;
        const int v = maker_result(m), i = maker_result(m);
        if (m->made->opset < 10) {
            LINE(m, " %%v%d, %%v%d = TopK(%%v%d) {k=%lld, axis=%d}\n", v, i, x->name, (long long)k,
                 axis);
            break;
        }
        const int w = maker_ints(m, TMK_INT64, &k, 1);
        LINE(m, " %%v%d, %%v%d = TopK(%%v%d, %%w%d) {axis=%d%s}\n", v, i, x->name, w, axis,
             m->made->opset >= 11 && draw(m, 2) ? ", largest=0" : "");
        break;
    }
    case 2: {
        const int64_t at = axis;
        const int w = maker_ints(m, TMK_INT64, &at, -1);
        LINE(m, " %%v%d = CumSum(%%v%d, %%w%d) {exclusive=%u, ", maker_result(m), x->name, w,
             draw(m, 2));
        LINE(m, "reverse=%u}\n", draw(m, 2));
        break;
    }
    default:
        LINE(m, " %%v%d = NonZero(%%v%d)\n", maker_result(m), x->name);
    }
}
