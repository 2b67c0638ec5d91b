/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions, pools, matrix products and normalisation. */
#include <stdio.h>
#include <string.h>

#include "model/relay_raise.h"
#include "model/relay_window.h"

#define SAY (&r->say)

static const char no_rank[] = "the rank of its input is not known";

/* ---- convolutions ---- */

static const char *raise_conv(struct tmk_raising *r, const struct tmk_node *node) {
    struct tmk_say_attrs a = {0};
    const char *op = NULL, *why = tmk_say_conv(r, node, &a, &op);
    struct tmk_relay_expr *args[] = {tmk_raise_operand(r, node, 0), tmk_raise_operand(r, node, 1)};
    if (why)
        return why;
    struct tmk_relay_expr *y = tmk_raise_like(r, node, tmk_say_call(SAY, op, args, 2, &a));
    if (tmk_raise_has(node, 2))
        y = tmk_say_call2(SAY, "nn.bias_add", y, tmk_raise_operand(r, node, 2));
    return tmk_raise_done(r, node, y);
}

static const char *raise_conv_transpose(struct tmk_raising *r, const struct tmk_node *node) {
    const struct tmk_shape *x = tmk_raise_shape(node, 0), *w = tmk_raise_shape(node, 1);
    struct tmk_say_attrs a = {0};
    struct tmk_relay_expr *args[] = {tmk_raise_operand(r, node, 0), tmk_raise_operand(r, node, 1)};
    size_t n;
    if (!x || !w || x->rank != 4 || w->rank != 4 || w->dim[1] < 0)
        return "only two spatial axes, and weights of a known shape, can be said";
    if (tmk_node_attr(node, "output_shape"))
        return "it gives the shape of its result";
    const char *why = tmk_say_window(r, node, &w->dim[2], false, &a);
    if (why)
        return why;
    const int64_t groups = tmk_node_int(node, "group", 1),
                  *extra = tmk_node_ints(node, "output_padding", &n);
    if (extra && n == 2)
        tmk_say_set_ints(SAY, &a, "output_padding", extra, 2);
    if (groups != 1)
        tmk_say_set_int(SAY, &a, "groups", groups);
    tmk_say_set_int(SAY, &a, "channels", w->dim[1] * groups);
    tmk_say_set_ints(SAY, &a, "kernel_size", &w->dim[2], 2);
    struct tmk_relay_expr *y =
        tmk_raise_like(r, node, tmk_say_call(SAY, "nn.conv2d_transpose", args, 2, &a));
    if (tmk_raise_has(node, 2))
        y = tmk_say_call2(SAY, "nn.bias_add", y, tmk_raise_operand(r, node, 2));
    return tmk_raise_done(r, node, y);
}

/* ---- pools ---- */

static const char *raise_pool(struct tmk_raising *r, const struct tmk_node *node) {
    const struct tmk_shape *x = tmk_raise_shape(node, 0);
    const bool average = tmk_node_is(node, TMK_DOMAIN_ONNX, "AveragePool");
    struct tmk_relay_expr *args[] = {tmk_raise_operand(r, node, 0)};
    struct tmk_say_attrs a = {0};
    char op[32];
    size_t n;
    const int64_t *kernel = tmk_node_ints(node, "kernel_shape", &n);
    if (!x || !kernel || x->rank < 3 || x->rank > 5 || n != (size_t)x->rank - 2)
        return "only one to three spatial axes can be said";
    if (tmk_raise_wanted(r, node, 1))
        return "the places of its maxima are asked for";
    tmk_say_set_ints(SAY, &a, "pool_size", kernel, n);
    const char *why = tmk_say_window(r, node, kernel, true, &a);
    if (why)
        return why;
    if (average && tmk_node_int(node, "count_include_pad", 0))
        tmk_say_set_bool(&a, "count_include_pad", true);
    snprintf(op, sizeof op, "nn.%s_pool%zud", average ? "avg" : "max", n);
    const char *kept = tmk_arena_strdup(SAY->arena, op);
    SAY->nomem |= !kept;
    return tmk_raise_done(r, node, tmk_say_call(SAY, kept, args, 1, &a));
}

static const char *raise_global(struct tmk_raising *r, const struct tmk_node *node) {
    const struct tmk_shape *x = tmk_raise_shape(node, 0);
    const bool average = tmk_node_is(node, TMK_DOMAIN_ONNX, "GlobalAveragePool");
    struct tmk_relay_expr *operand = tmk_raise_operand(r, node, 0);
    struct tmk_say_attrs a = {0};
    int64_t axes[TMK_MAX_RANK];
    if (!x || x->rank < 3)
        return no_rank;
    if (x->rank == 4)
        return tmk_raise_done(
            r, node,
            tmk_say_call1(SAY, average ? "nn.global_avg_pool2d" : "nn.global_max_pool2d", operand));
    for (int32_t i = 2; i < x->rank; i++)
        axes[i - 2] = i;
    tmk_say_set_ints(SAY, &a, "axis", axes, (size_t)x->rank - 2);
    tmk_say_set_bool(&a, "keepdims", true);
    return tmk_raise_done(r, node, tmk_say_call(SAY, average ? "mean" : "max", &operand, 1, &a));
}

/* ---- matrix products ---- */

static struct tmk_relay_expr *transposed(struct tmk_raising *r, struct tmk_relay_expr *x) {
    static const int64_t axes[] = {1, 0};
    struct tmk_say_attrs a = {0};
    tmk_say_set_ints(SAY, &a, "axes", axes, 2);
    return tmk_say_call(SAY, "transpose", &x, 1, &a);
}

static bool turns_a_matrix(const struct tmk_node *node) {
    const struct tmk_shape *shape = node ? tmk_raise_shape(node, 0) : NULL;
    size_t n;
    if (!shape || shape->rank != 2 || !tmk_node_is(node, TMK_DOMAIN_ONNX, "Transpose"))
        return false;
    const int64_t *perm = tmk_node_ints(node, "perm", &n);
    return !perm || (n == 2 && perm[0] == 1);
}

struct tmk_relay_expr *tmk_raise_turned(struct tmk_raising *r, const struct tmk_node *node,
                                        uint32_t i) {
    const struct tmk_node *maker = node->inputs[i]->producer;
    return turns_a_matrix(maker) ? tmk_raise_operand(r, maker, 0)
                                 : transposed(r, tmk_raise_operand(r, node, i));
}

/* x [..., k] by w [units, k] */
static struct tmk_relay_expr *dense(struct tmk_raising *r, struct tmk_relay_expr *x,
                                    struct tmk_relay_expr *w, int64_t units) {
    struct tmk_say_attrs a = {0};
    struct tmk_relay_expr *args[] = {x, w};
    if (units >= 0)
        tmk_say_set_int(SAY, &a, "units", units);
    else
        tmk_say_set_none(&a, "units");
    return tmk_say_call(SAY, "nn.dense", args, 2, &a);
}

static struct tmk_relay_expr *scaled(struct tmk_raising *r, struct tmk_relay_expr *x,
                                     float factor) {
    return factor == 1
               ? x
               : tmk_say_call2(SAY, "multiply", x, tmk_say_scalar(SAY, TMK_FLOAT32, factor));
}

static const char *raise_gemm(struct tmk_raising *r, const struct tmk_node *node) {
    const struct tmk_shape *w = tmk_raise_shape(node, 1), *c = tmk_raise_shape(node, 2);
    const bool turned = tmk_node_int(node, "transB", 0) != 0;
    const float alpha = tmk_node_float(node, "alpha", 1), beta = tmk_node_float(node, "beta", 1);
    struct tmk_relay_expr *x = tmk_raise_operand(r, node, 0), *b = tmk_raise_operand(r, node, 1);
    if (!w || w->rank != 2)
        return no_rank;
    if (tmk_node_int(node, "transA", 0))
        x = transposed(r, x);
    struct tmk_relay_expr *second = turned ? b : tmk_raise_turned(r, node, 1);
    struct tmk_relay_expr *y =
        scaled(r, tmk_raise_like(r, node, dense(r, x, second, w->dim[turned ? 0 : 1])), alpha);
    if (tmk_raise_has(node, 2)) {
        struct tmk_relay_expr *bias = scaled(r, tmk_raise_operand(r, node, 2), beta);
        const bool plain = c && c->rank == 1 && c->dim[0] == w->dim[turned ? 0 : 1];
        y = tmk_say_call2(SAY, plain ? "nn.bias_add" : "add", y, bias);
    }
    return tmk_raise_done(r, node, y);
}

/* Of equal leading dimensions, which are known: a batch. */
static bool same_batch(const struct tmk_shape *a, const struct tmk_shape *b, int64_t *count) {
    *count = 1;
    if (a->rank != b->rank || a->rank < 3)
        return false;
    for (int32_t i = 0; i < a->rank - 2; i++) {
        if (a->dim[i] != b->dim[i] || (a->dim[i] < 0 && a->rank > 3))
            return false;
        if (!tmk_mul_i64(*count, a->dim[i], count))
            return false;
    }
    return true;
}

const char *tmk_say_batch_matmul(struct tmk_raising *r, const struct tmk_node *node,
                                 struct tmk_relay_expr *args[2], const char *out_dtype) {
    const struct tmk_shape *a = tmk_raise_shape(node, 0), *b = tmk_raise_shape(node, 1),
                           *y = tmk_raise_made(node, 0);
    struct tmk_say_attrs attrs = {0};
    const int32_t rank = a->rank;
    int64_t count;
    if (!same_batch(a, b, &count))
        return "its operands are batches of different or unknown shapes";
    for (int i = 0; rank > 3 && i < 2; i++) {
        const struct tmk_shape *shape = i ? b : a;
        const int64_t dims[] = {count, shape->dim[rank - 2], shape->dim[rank - 1]};
        if (dims[1] < 0 || dims[2] < 0 || !y)
            return "its operands are of unknown shapes";
        args[i] = tmk_say_reshape(SAY, args[i], dims, 3);
    }
    /* Without this TVM up to 0.7 takes the second for transposed. */
    tmk_say_set_bool(&attrs, "transpose_b", false);
    if (out_dtype)
        tmk_say_set_string(SAY, &attrs, "out_dtype", out_dtype);
    struct tmk_relay_expr *made = tmk_say_call(SAY, "nn.batch_matmul", args, 2, &attrs);
    if (rank > 3)
        made = tmk_say_reshape(SAY, made, y->dim, (size_t)rank);
    return tmk_raise_done(r, node, made);
}

static const char *raise_matmul(struct tmk_raising *r, const struct tmk_node *node) {
    const struct tmk_shape *a = tmk_raise_shape(node, 0), *b = tmk_raise_shape(node, 1);
    struct tmk_relay_expr *args[] = {tmk_raise_operand(r, node, 0), NULL};
    if (!a || !b || a->rank < 2)
        return "the shapes of its operands are not known, or one is a vector";
    if (b->rank == 2)
        return tmk_raise_done(r, node, dense(r, args[0], tmk_raise_turned(r, node, 1), b->dim[1]));
    args[1] = tmk_raise_operand(r, node, 1);
    return tmk_say_batch_matmul(r, node, args, NULL);
}

/* ---- normalisation ---- */

static void set_epsilon(struct tmk_raising *r, const struct tmk_node *node,
                        struct tmk_say_attrs *a) {
    const float epsilon = tmk_node_float(node, "epsilon", 1e-5f);
    if (epsilon != 1e-5f)
        tmk_say_set_real(SAY, a, "epsilon", epsilon);
}

static const char *raise_batch_norm(struct tmk_raising *r, const struct tmk_node *node) {
    struct tmk_say_attrs a = {0};
    struct tmk_relay_expr *args[5];
    for (uint32_t i = 1; i < 5; i++)
        if (tmk_raise_wanted(r, node, i))
            return "its running statistics are asked for";
    if (tmk_node_int(node, "training_mode", 0))
        return "it trains";
    for (uint32_t i = 0; i < 5; i++)
        args[i] = tmk_raise_operand(r, node, i);
    set_epsilon(r, node, &a);
    struct tmk_relay_expr *all = tmk_say_call(SAY, "nn.batch_norm", args, 5, &a);
    return tmk_raise_done(r, node, tmk_say_project(SAY, all, 0));
}

static const char *raise_norm(struct tmk_raising *r, const struct tmk_node *node) {
    struct tmk_say_attrs a = {0};
    struct tmk_relay_expr *args[3];
    for (uint32_t i = 0; i < 3; i++)
        args[i] = tmk_raise_operand(r, node, i);
    set_epsilon(r, node, &a);
    return tmk_raise_done(r, node, tmk_say_call(SAY, tmk_raise_find(node)->relay, args, 3, &a));
}

static const char *raise_layer_norm(struct tmk_raising *r, const struct tmk_node *node) {
    const struct tmk_shape *x = tmk_raise_shape(node, 0);
    struct tmk_say_attrs a = {0};
    struct tmk_relay_expr *args[] = {tmk_raise_operand(r, node, 0), tmk_raise_operand(r, node, 1),
                                     tmk_raise_operand(r, node, 2)};
    if (!x)
        return no_rank;
    if (tmk_raise_axis(tmk_node_int(node, "axis", -1), x->rank) != x->rank - 1)
        return "it normalises over more than the last axis";
    if (tmk_raise_wanted(r, node, 1) || tmk_raise_wanted(r, node, 2))
        return "its mean or deviation is asked for";
    set_epsilon(r, node, &a);
    if (!args[2]) {
        args[2] = args[1];
        tmk_say_set_bool(&a, "center", false);
    }
    return tmk_raise_done(r, node, tmk_say_call(SAY, "nn.layer_norm", args, 3, &a));
}

static const char *raise_lrn(struct tmk_raising *r, const struct tmk_node *node) {
    struct tmk_say_attrs a = {0};
    struct tmk_relay_expr *x = tmk_raise_operand(r, node, 0);
    tmk_say_set_int(SAY, &a, "size", tmk_node_int(node, "size", 5));
    tmk_say_set_real(SAY, &a, "bias", tmk_node_float(node, "bias", 1));
    tmk_say_set_real(SAY, &a, "alpha", tmk_node_float(node, "alpha", 1e-4f));
    tmk_say_set_real(SAY, &a, "beta", tmk_node_float(node, "beta", 0.75f));
    return tmk_raise_done(r, node, tmk_say_call(SAY, "nn.lrn", &x, 1, &a));
}

/* For inference: forwards. */
static const char *raise_dropout(struct tmk_raising *r, const struct tmk_node *node) {
    struct tmk_say_attrs a = {0};
    struct tmk_relay_expr *x = tmk_raise_operand(r, node, 0);
    double ratio = tmk_node_float(node, "ratio", 0.5f);
    if (tmk_raise_wanted(r, node, 1))
        return "its mask is asked for";
    tmk_raise_number(r, node, 1, &ratio);
    tmk_say_set_real(SAY, &a, "rate", (float)ratio);
    return tmk_raise_done(r, node,
                          tmk_say_project(SAY, tmk_say_call(SAY, "nn.dropout", &x, 1, &a), 0));
}

const struct tmk_raise_row tmk_raise_nn[] = {
    {TMK_DOMAIN_ONNX, "Conv", raise_conv, 0, ""},
    {TMK_DOMAIN_ONNX, "ConvTranspose", raise_conv_transpose, 0, ""},
    {TMK_DOMAIN_ONNX, "MaxPool", raise_pool, 0, ""},
    {TMK_DOMAIN_ONNX, "AveragePool", raise_pool, 0, ""},
    {TMK_DOMAIN_ONNX, "GlobalAveragePool", raise_global, 0, ""},
    {TMK_DOMAIN_ONNX, "GlobalMaxPool", raise_global, 0, ""},
    {TMK_DOMAIN_ONNX, "Gemm", raise_gemm, 0, ""},
    {TMK_DOMAIN_ONNX, "MatMul", raise_matmul, 0, ""},
    {TMK_DOMAIN_ONNX, "BatchNormalization", raise_batch_norm, 0, ""},
    {TMK_DOMAIN_ONNX, "InstanceNormalization", raise_norm, 0, "nn.instance_norm"},
    {TMK_DOMAIN_ONNX, "LayerNormalization", raise_layer_norm, 0, ""},
    {TMK_DOMAIN_ONNX, "LRN", raise_lrn, 0, ""},
    {TMK_DOMAIN_ONNX, "Dropout", raise_dropout, 1u << 1 | 1u << 2, ""},
    {0},
};
