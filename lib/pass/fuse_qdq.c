/* SPDX-License-Identifier: Apache-2.0 */
/* fuse-qdq: a float operator between DequantizeLinear and QuantizeLinear becomes an operator of
 * integers.
 *
 * Files that PyTorch, TensorFlow or ONNX Runtime quantize express quantization by pairs around
 * float operators: QuantizeLinear(Conv(DequantizeLinear(x), DequantizeLinear(w))) is QLinearConv.
 * What the operators on floats computed inside is absorbed; a DequantizeLinear's original is
 * `quantized`: scale * (code - zero point), where the code is the value that it was made of.
 *
 * Operators that only move elements (MaxPool, Reshape, ...) work on the codes when both sides have
 * one scale and zero point. A Relu before QuantizeLinear goes when the zero point is the lowest
 * code, which clips in its place. QuantizeLinear(DequantizeLinear(x)) of the same scale and zero
 * point is x.
 *
 * A pair that stays is where quantized networks lose accuracy or speed unnoticed; its original gets
 * a remark with the reason. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "ops/ops.h"
#include "pass/pass.h"
#include "pass/qdq.h"

#define MICROSOFT "com.microsoft"

struct fuse {
    struct tmk_rewrite *rw;
    struct tmk_node *node; /* of floats */
    struct tmk_qdq_result result;
    struct tmk_qdq_operand operand[TMK_QDQ_MAX];
    uint32_t n;
    struct tmk_value *inputs[3 * TMK_QDQ_MAX + 4]; /* of the new node */
    uint32_t n_inputs;
    enum tmk_status status;
};

/* NULL: fused, or f->status is an error; else why not. */
typedef const char *fuse_fn(struct fuse *f);

static const char *const failed = "memory ran out"; /* with f->status */

static bool is_op(const struct tmk_node *node, const char *op) {
    return tmk_node_is(node, TMK_DOMAIN_ONNX, op);
}

/* ---- the new node ---- */

static void put_input(struct fuse *f, struct tmk_value *value) {
    f->inputs[f->n_inputs++] = value;
}

static bool put_zero(struct fuse *f, struct tmk_value *zero, enum tmk_dtype dtype) {
    if (!zero)
        f->status = tmk_qdq_zero(f->rw, f->node->graph, dtype, &zero);
    put_input(f, zero);
    return f->status == TMK_OK;
}

static bool put_operand(struct fuse *f, uint32_t i) {
    const struct tmk_qdq_operand *o = &f->operand[i];
    put_input(f, o->codes);
    put_input(f, o->scale);
    return put_zero(f, o->zero, o->dtype);
}

static bool put_result(struct fuse *f) {
    put_input(f, f->result.scale);
    return put_zero(f, f->result.zero, f->result.dtype);
}

/* The integer node with f->inputs replaces the float nodes, which are removed. */
static const char *replace_node(struct fuse *f, const char *domain, const char *op, int64_t version,
                                const char *const *but) {
    struct tmk_node *made = NULL;
    struct tmk_value *quantized = f->result.quantize->outputs[0];
    f->status = tmk_rewrite_node(f->rw, f->node, domain, op, f->node->name, version, f->inputs,
                                 f->n_inputs, &made);
    if (f->status == TMK_OK)
        f->status = tmk_node_copy_attrs(made, f->node, but, f->rw->diag);
    if (f->status == TMK_OK)
        f->status = tmk_rewrite_replace(f->rw, quantized, made->outputs[0], NULL);
    if (f->status != TMK_OK)
        return failed;
    tmk_rewrite_remove(f->rw, f->result.quantize);
    if (f->result.relu) {
        tmk_rewrite_absorb(f->rw, f->result.relu->outputs[0], made->outputs[0]);
        tmk_rewrite_remove(f->rw, f->result.relu);
    }
    tmk_rewrite_absorb(f->rw, f->node->outputs[0], made->outputs[0]);
    tmk_rewrite_remove(f->rw, f->node);
    return NULL;
}

/* ---- operators ---- */

static const char *const no_bias = "its bias is not quantized by the scales of its operands";

/* A bias of int32 whose scale is the product of the operands' scales; absent is fine too. */
static bool take_bias(struct fuse *f, uint32_t input, struct tmk_value **out) {
    struct tmk_qdq_operand bias;
    *out = NULL;
    if (input >= f->node->n_inputs || !f->node->inputs[input])
        return true;
    if (!tmk_qdq_operand_of(f->node->inputs[input], &bias) || bias.dtype != TMK_INT32)
        return false;
    const struct tmk_qdq_operand *x = &f->operand[0], *w = &f->operand[1];
    const uint32_t n = bias.n > w->n ? bias.n : w->n;
    if (bias.n > 1 && w->n > 1 && bias.n != w->n)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const double want = tmk_qdq_scale(x, 0) * tmk_qdq_scale(w, i);
        if (!(fabs(tmk_qdq_scale(&bias, i) - want) <= 1e-5 * want) || tmk_qdq_zero_of(&bias, i))
            return false;
    }
    *out = bias.codes;
    return true;
}

static const char *fuse_conv(struct fuse *f) {
    struct tmk_value *bias;
    if (f->operand[1].n > 1 && f->operand[1].axis != 0)
        return "its weights have scales along another axis than the result's channels";
    if (!take_bias(f, 2, &bias))
        return no_bias;
    if (!put_operand(f, 0) || !put_operand(f, 1) || !put_result(f))
        return failed;
    if (bias)
        put_input(f, bias);
    return replace_node(f, TMK_DOMAIN_ONNX, "QLinearConv", 0, NULL);
}

static const char *fuse_matmul(struct fuse *f) {
    const struct tmk_tensor *right = tmk_value_constant(f->operand[1].codes);
    if (f->operand[1].n > 1 && (!right || right->shape.rank != 2 || f->operand[1].axis != 1))
        return "its right operand has scales along another axis than the columns";
    if (!put_operand(f, 0) || !put_operand(f, 1) || !put_result(f))
        return failed;
    return replace_node(f, TMK_DOMAIN_ONNX, "QLinearMatMul", 0, NULL);
}

static const char *fuse_gemm(struct fuse *f) {
    static const char *const but[] = {"beta", NULL};
    struct tmk_value *bias;
    const int64_t columns = tmk_node_int(f->node, "transB", 0) ? 0 : 1;
    if (f->operand[1].n > 1 && f->operand[1].axis != columns)
        return "its right operand has scales along another axis than the columns";
    if (tmk_node_float(f->node, "alpha", 1) != 1 || tmk_node_float(f->node, "beta", 1) != 1)
        return "it multiplies by alpha or beta";
    if (!take_bias(f, 2, &bias))
        return no_bias;
    if (!put_operand(f, 0) || !put_operand(f, 1))
        return failed;
    put_input(f, bias);
    if (!put_result(f))
        return failed;
    return replace_node(f, MICROSOFT, "QGemm", 1, but);
}

static const char *fuse_two(struct fuse *f) {
    if (f->operand[1].dtype != f->operand[0].dtype)
        return "its operands are of two types of codes";
    if (!put_operand(f, 0) || !put_operand(f, 1) || !put_result(f))
        return failed;
    return replace_node(f, MICROSOFT, is_op(f->node, "Add") ? "QLinearAdd" : "QLinearMul", 1, NULL);
}

static const char *fuse_one(struct fuse *f) {
    char op[64];
    if (tmk_node_attr(f->node, "dilations"))
        return "the operator of integers knows no dilations";
    snprintf(op, sizeof op, "QLinear%s", f->node->op);
    if (!put_operand(f, 0) || !put_result(f))
        return failed;
    return replace_node(f, MICROSOFT, op, 1, NULL);
}

static const char *fuse_concat(struct fuse *f) {
    for (uint32_t i = 0; i < f->n; i++)
        if (f->operand[i].dtype != f->operand[0].dtype)
            return "its operands are of two types of codes";
    if (!put_result(f))
        return failed;
    for (uint32_t i = 0; i < f->n; i++)
        if (!put_operand(f, i))
            return failed;
    return replace_node(f, MICROSOFT, "QLinearConcat", 1, NULL);
}

/* The codes themselves are moved. */
static const char *fuse_moving(struct fuse *f) {
    if (is_op(f->node, "MaxPool") && (f->node->version < 12 || f->node->n_outputs > 1))
        return "MaxPool takes integers since operator set 12, and without indices";
    if (!tmk_qdq_same(&f->operand[0], &f->result))
        return "the scales or zero points on its two sides differ";
    put_input(f, f->operand[0].codes);
    for (uint32_t i = 1; i < f->node->n_inputs; i++)
        put_input(f, f->node->inputs[i]);
    return replace_node(f, TMK_DOMAIN_ONNX, f->node->op, f->node->version, NULL);
}

struct form {
    const char *op;
    uint32_t operands; /* that must be dequantized; 0: all inputs */
    fuse_fn *fuse;
    bool by_channel; /* the second operand may have a scale for each */
};

static const struct form forms[] = {
    {"Conv", 2, fuse_conv, true},
    {"MatMul", 2, fuse_matmul, true},
    {"Gemm", 2, fuse_gemm, true},
    {"Add", 2, fuse_two, false},
    {"Mul", 2, fuse_two, false},
    {"Sigmoid", 1, fuse_one, false},
    {"LeakyRelu", 1, fuse_one, false},
    {"AveragePool", 1, fuse_one, false},
    {"GlobalAveragePool", 1, fuse_one, false},
    {"Concat", 0, fuse_concat, false},
};

static const struct form *form_of(const struct tmk_node *node) {
    static const struct form moving = {"", 1, fuse_moving, false};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (is_op(node, forms[i].op))
            return &forms[i];
    return tmk_node_has(node, TMK_TRAIT_CODES) && node->n_outputs == 1 ? &moving : NULL;
}

/* ---- pairs ---- */

/* A DequantizeLinear that is not read any more: its original exists as codes. */
static enum tmk_status retire_dequantize(struct tmk_rewrite *rw, struct tmk_node *dequantize) {
    struct tmk_value *real = dequantize->outputs[0];
    struct tmk_qdq_operand o;
    double *scale = NULL;
    if (dequantize->removed || real->n_uses || !tmk_rewrite_may_change(rw, real) ||
        !tmk_qdq_operand_of(real, &o) || !tmk_rewrite_can_replace(rw, real, o.codes, false))
        return TMK_OK;
    struct tmk_relation how = {.quantized = {.dtype = o.dtype, .n = o.n, .axis = o.axis}};
    int64_t *zero = calloc(o.n, sizeof *zero);
    scale = calloc(o.n, sizeof *scale);
    enum tmk_status status = zero && scale ? TMK_OK : tmk_nomem(rw->diag);
    for (uint32_t i = 0; status == TMK_OK && i < o.n; i++) {
        scale[i] = tmk_qdq_scale(&o, i);
        zero[i] = tmk_qdq_zero_of(&o, i);
    }
    how.quantized.scale = scale;
    how.quantized.zero_point = zero;
    if (status == TMK_OK)
        status = tmk_rewrite_replace(rw, real, o.codes, &how);
    if (status == TMK_OK)
        tmk_rewrite_remove(rw, dequantize);
    free(zero);
    free(scale);
    return status;
}

static void add_remark(struct fuse *f, const char *why) {
    char text[256];
    snprintf(text, sizeof text, "not fused into %s: %s", f->node->op, why);
    for (uint32_t i = 0; i < f->n; i++)
        if (f->operand[i].dequantize)
            (void)!tmk_lineage_remark(f->rw->lineage, f->operand[i].dequantize->outputs[0], text);
}

static const char *try_operator(struct fuse *f) {
    const struct form *form = form_of(f->node);
    if (!form)
        return "it has no form of integers here";
    f->n = form->operands ? form->operands : f->node->n_inputs;
    if (f->n > f->node->n_inputs || f->n > TMK_QDQ_MAX)
        return "it has more operands than this pass looks at";
    for (uint32_t i = 0; i < f->n; i++)
        if (!tmk_qdq_operand_of(f->node->inputs[i], &f->operand[i]) ||
            (f->operand[i].dtype != TMK_INT8 && f->operand[i].dtype != TMK_UINT8))
            return "not all its operands are dequantized 8-bit integers";
    for (uint32_t i = 0; i < f->n; i++)
        if (f->operand[i].n > 1 && !(i == 1 && form->by_channel))
            return "an operand has a scale for each channel";
    if (!tmk_qdq_result_of(f->rw, f->node->outputs[0], &f->result))
        return "its result is not quantized, or read by others too";
    if (f->operand[0].dtype != f->result.dtype)
        return "its result is of another type of codes than its operand";
    return form->fuse(f);
}

/* Which inputs come from DequantizeLinear, for the remark. */
static bool reads_dequantized(struct fuse *f) {
    bool any = false;
    f->n = f->node->n_inputs < TMK_QDQ_MAX ? f->node->n_inputs : TMK_QDQ_MAX;
    for (uint32_t i = 0; i < f->n; i++)
        any = (f->node->inputs[i] && tmk_qdq_operand_of(f->node->inputs[i], &f->operand[i])) || any;
    return any;
}

/* QuantizeLinear of what was dequantized with the same encoding. */
static enum tmk_status cancel_pair(struct tmk_rewrite *rw, struct tmk_node *quantize, bool *done) {
    struct tmk_qdq_operand o;
    struct tmk_qdq_result r;
    *done = quantize->inputs[0] && tmk_qdq_operand_of(quantize->inputs[0], &o) && o.n == 1 &&
            tmk_qdq_result_at(quantize, &r) && tmk_qdq_same(&o, &r) &&
            tmk_rewrite_can_replace(rw, quantize->outputs[0], o.codes, true);
    if (!*done)
        return TMK_OK;
    TMK_TRY(tmk_rewrite_replace(rw, quantize->outputs[0], o.codes, NULL));
    tmk_rewrite_remove(rw, quantize);
    return TMK_OK;
}

static enum tmk_status fuse_node(struct tmk_rewrite *rw, struct tmk_node *node) {
    bool done = false;
    if (is_op(node, "DequantizeLinear"))
        return retire_dequantize(rw, node);
    if (is_op(node, "QuantizeLinear"))
        TMK_TRY(cancel_pair(rw, node, &done));
    if (done || !node->n_outputs || !node->outputs[0])
        return TMK_OK;
    struct fuse f = {.rw = rw, .node = node, .status = TMK_OK};
    if (!reads_dequantized(&f))
        return TMK_OK;
    const char *why = try_operator(&f);
    if (why && f.status == TMK_OK) {
        (void)reads_dequantized(&f);
        add_remark(&f, why);
    }
    return f.status;
}

static enum tmk_status run_pass(struct tmk_rewrite *rw) {
    TMK_TRY(tmk_rewrite_each(rw, fuse_node));
    return tmk_rewrite_each(rw, fuse_node); /* DequantizeLinear comes before what reads it */
}

const struct tmk_pass tmk_pass_fuse_qdq = {
    "fuse-qdq",
    "makes operators of integers of float ones between DequantizeLinear and QuantizeLinear",
    run_pass, true};
