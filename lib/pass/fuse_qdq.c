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

#include "base/diag.h"
#include "base/size.h"
#include "ops/ops.h"
#include "pass/pass.h"
#include "pass/proposal.h"

#define MICROSOFT "com.microsoft"

/* What surrounds the float operators of a quantized model: codes that are dequantized, results that
 * are quantized again. Scales and zero points are constants, or it does not count. */

enum { MAX_OPERANDS = 16 }; /* operands of an operator that are looked at */

/* The result of a DequantizeLinear: scale * (codes - zero). */
struct quantized_operand {
    struct tmk_node *dequantize;
    struct tmk_value *codes, *scale, *zero; /* zero may be NULL: zeros */
    enum tmk_dtype dtype;                   /* of the codes: int8, uint8, int32 */
    uint32_t n;                             /* scales: 1, or one a channel */
    int32_t axis;                           /* of the codes; n > 1 only */
};

/* A QuantizeLinear with one scale behind some value. */
struct quantized_result {
    struct tmk_node *quantize;
    struct tmk_node *relu; /* between, which the zero point makes superfluous; NULL: none */
    struct tmk_value *scale, *zero;
    enum tmk_dtype dtype; /* int8 or uint8 */
};

static int64_t code_at(const struct tmk_tensor *tensor, size_t i) {
    return tensor->dtype == TMK_INT8    ? ((const int8_t *)tensor->data)[i]
           : tensor->dtype == TMK_UINT8 ? ((const uint8_t *)tensor->data)[i]
                                        : ((const int32_t *)tensor->data)[i];
}

static bool is_code(enum tmk_dtype dtype) {
    return dtype == TMK_INT8 || dtype == TMK_UINT8 || dtype == TMK_INT32;
}

/* The scale and zero point of a node; false unless constant, of one shape, with a known type. */
static bool read_parameters(const struct tmk_node *node, struct tmk_value **scale,
                            struct tmk_value **zero, uint32_t *n, enum tmk_dtype *dtype) {
    if (node->n_inputs < 2 || !node->inputs[1] || tmk_node_int(node, "block_size", 0))
        return false;
    *scale = node->inputs[1];
    *zero = node->n_inputs > 2 ? node->inputs[2] : NULL;
    const struct tmk_tensor *s = tmk_value_constant(*scale), *z = tmk_value_constant(*zero);
    if (!s || s->dtype != TMK_FLOAT32 || s->shape.rank > 1 || (*zero && !z))
        return false;
    *n = (uint32_t)tmk_tensor_count(s);
    if (!*n || tmk_tensor_count(s) > UINT32_MAX || (z && tmk_tensor_count(z) != *n))
        return false;
    if (z)
        *dtype = z->dtype;
    return true;
}

/* False: the value is no such thing; *out is then zero. */
static bool read_operand(const struct tmk_value *value, struct quantized_operand *out) {
    struct tmk_node *node = value->producer;
    *out = (struct quantized_operand){0};
    if (!node || !tmk_node_is(node, TMK_DOMAIN_ONNX, "DequantizeLinear") || !node->inputs[0])
        return false;
    struct quantized_operand o = {.dequantize = node, .codes = node->inputs[0]};
    const struct tmk_tensor *constant = tmk_value_constant(o.codes);
    o.dtype = constant ? constant->dtype : o.codes->type.dtype;
    const int32_t rank = tmk_value_rank(o.codes);
    if (!read_parameters(node, &o.scale, &o.zero, &o.n, &o.dtype) || !is_code(o.dtype))
        return false;
    int64_t axis = tmk_node_int(node, "axis", 1);
    if (o.n > 1 && axis < 0)
        axis += rank;
    if (o.n > 1 && (rank < 0 || axis < 0 || axis >= rank))
        return false;
    const struct tmk_shape *shape = constant ? &constant->shape : &o.codes->type.shape;
    if (o.n > 1 && shape->dim[axis] >= 0 && shape->dim[axis] != (int64_t)o.n)
        return false;
    o.axis = o.n > 1 ? (int32_t)axis : 0;
    *out = o;
    return true;
}

/* What this QuantizeLinear does, if it has one scale. */
static bool read_result(struct tmk_node *quantize, struct quantized_result *out) {
    uint32_t n = 0;
    struct quantized_result r = {.quantize = quantize, .dtype = TMK_UINT8};
    if (!tmk_node_is(quantize, TMK_DOMAIN_ONNX, "QuantizeLinear") ||
        !read_parameters(quantize, &r.scale, &r.zero, &n, &r.dtype) || n != 1)
        return false;
    const int64_t asked = tmk_node_int(quantize, "output_dtype", 0);
    if (!r.zero && asked)
        r.dtype = (enum tmk_dtype)asked;
    if (r.dtype != TMK_INT8 && r.dtype != TMK_UINT8)
        return false;
    *out = r;
    return true;
}

static bool clips_below_zero(const struct quantized_result *result) {
    const int64_t zero = result->zero ? code_at(tmk_value_constant(result->zero), 0) : 0;
    return zero == (result->dtype == TMK_INT8 ? INT8_MIN : 0);
}

/* Whether all that becomes of the value is to be quantized, perhaps behind a Relu. */
static bool find_result(const struct tmk_rewrite *rw, const struct tmk_value *value,
                        struct quantized_result *out) {
    if (!tmk_rewrite_is_interior(rw, value))
        return false;
    struct tmk_node *reader = value->uses[0].node;
    if (!tmk_node_is(reader, TMK_DOMAIN_ONNX, "Relu"))
        return value->uses[0].input == 0 && read_result(reader, out);
    const struct tmk_value *clipped = reader->outputs[0];
    if (!clipped || !tmk_rewrite_is_interior(rw, clipped) || clipped->uses[0].input != 0 ||
        !read_result(clipped->uses[0].node, out) || !clips_below_zero(out))
        return false;
    out->relu = reader;
    return true;
}

/* Of channel i; the only one where there is one. */
static double operand_scale(const struct quantized_operand *operand, uint32_t i) {
    const struct tmk_tensor *scale = tmk_value_constant(operand->scale);
    return ((const float *)scale->data)[operand->n == 1 ? 0 : i];
}

static int64_t operand_zero(const struct quantized_operand *operand, uint32_t i) {
    const struct tmk_tensor *zero = tmk_value_constant(operand->zero);
    return zero ? code_at(zero, operand->n == 1 ? 0 : i) : 0;
}

/* One scale and zero point, equal, and the same type of codes. */
static bool same_quantization(const struct quantized_operand *operand,
                              const struct quantized_result *result) {
    const struct tmk_tensor *scale = tmk_value_constant(result->scale),
                            *zero = tmk_value_constant(result->zero);
    return operand->n == 1 && operand->dtype == result->dtype &&
           operand_scale(operand, 0) == (double)*(const float *)scale->data &&
           operand_zero(operand, 0) == (zero ? code_at(zero, 0) : 0);
}

/* A new initializer: the scalar 0 of this type. */
static enum tmk_status make_zero(struct tmk_rewrite *rw, struct tmk_graph *graph,
                                 enum tmk_dtype dtype, struct tmk_value **out) {
    struct tmk_tensor zero = {0};
    TMK_TRY(tmk_tensor_init(&zero, dtype, &(struct tmk_shape){0}, rw->diag));
    enum tmk_status status = tmk_rewrite_initializer(rw, graph, "zero_point", &zero, out);
    tmk_tensor_finish(&zero);
    return status;
}

struct fuse {
    struct tmk_rewrite *rw;
    struct tmk_node *node; /* of floats */
    struct quantized_result result;
    struct quantized_operand operand[MAX_OPERANDS];
    uint32_t n;
    struct tmk_value *inputs[3 * MAX_OPERANDS + 4]; /* of the new node */
    uint32_t n_inputs;
    enum tmk_status status;
};

/* NULL: fused, or f->status is an error; else why not. */
typedef const char *fuse_fn(struct fuse *f);

static const char *const failed = "memory ran out"; /* with f->status */

/* ---- the new node ---- */

static void put_input(struct fuse *f, struct tmk_value *value) {
    f->inputs[f->n_inputs++] = value;
}

static bool put_zero(struct fuse *f, struct tmk_value *zero, enum tmk_dtype dtype) {
    if (!zero)
        f->status = make_zero(f->rw, f->node->graph, dtype, &zero);
    put_input(f, zero);
    return f->status == TMK_OK;
}

static bool put_operand(struct fuse *f, uint32_t i) {
    const struct quantized_operand *o = &f->operand[i];
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
    struct quantized_operand bias;
    *out = NULL;
    if (input >= f->node->n_inputs || !f->node->inputs[input])
        return true;
    if (!read_operand(f->node->inputs[input], &bias) || bias.dtype != TMK_INT32)
        return false;
    const struct quantized_operand *x = &f->operand[0], *w = &f->operand[1];
    const uint32_t n = bias.n > w->n ? bias.n : w->n;
    if (bias.n > 1 && w->n > 1 && bias.n != w->n)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const double want = operand_scale(x, 0) * operand_scale(w, i);
        if (!(fabs(operand_scale(&bias, i) - want) <= 1e-5 * want) || operand_zero(&bias, i))
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
    return replace_node(f, MICROSOFT,
                        tmk_node_is(f->node, TMK_DOMAIN_ONNX, "Add") ? "QLinearAdd" : "QLinearMul",
                        1, NULL);
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
    if (tmk_node_is(f->node, TMK_DOMAIN_ONNX, "MaxPool") &&
        (f->node->version < 12 || f->node->n_outputs > 1))
        return "MaxPool takes integers since operator set 12, and without indices";
    if (!same_quantization(&f->operand[0], &f->result))
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
    for (size_t i = 0; i < TMK_COUNT(forms); i++)
        if (tmk_node_is(node, TMK_DOMAIN_ONNX, forms[i].op))
            return &forms[i];
    return tmk_node_has(node, TMK_TRAIT_CODES) && node->n_outputs == 1 ? &moving : NULL;
}

/* ---- pairs ---- */

/* A DequantizeLinear that is not read any more: its original exists as codes. */
static enum tmk_status retire_dequantize(struct tmk_rewrite *rw, struct tmk_node *dequantize) {
    struct tmk_value *real = dequantize->outputs[0];
    struct quantized_operand o;
    double *scale = NULL;
    if (dequantize->removed || real->n_uses || !tmk_rewrite_may_change(rw, real) ||
        !read_operand(real, &o) || !tmk_rewrite_can_replace(rw, real, o.codes, false))
        return TMK_OK;
    struct tmk_relation how = {.quantized = {.dtype = o.dtype, .n = o.n, .axis = o.axis}};
    int64_t *zero = calloc(o.n, sizeof *zero);
    scale = calloc(o.n, sizeof *scale);
    enum tmk_status status = zero && scale ? TMK_OK : tmk_nomem(rw->diag);
    for (uint32_t i = 0; status == TMK_OK && i < o.n; i++) {
        scale[i] = operand_scale(&o, i);
        zero[i] = operand_zero(&o, i);
    }
    how.quantized.scale = scale;
    how.quantized.zero_point = zero;
    TMK_THEN(status, tmk_rewrite_replace(rw, real, o.codes, &how));
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
    if (f->n > f->node->n_inputs || f->n > MAX_OPERANDS)
        return "it has more operands than this pass looks at";
    for (uint32_t i = 0; i < f->n; i++)
        if (!read_operand(f->node->inputs[i], &f->operand[i]) ||
            (f->operand[i].dtype != TMK_INT8 && f->operand[i].dtype != TMK_UINT8))
            return "not all its operands are dequantized 8-bit integers";
    for (uint32_t i = 0; i < f->n; i++)
        if (f->operand[i].n > 1 && !(i == 1 && form->by_channel))
            return "an operand has a scale for each channel";
    if (!find_result(f->rw, f->node->outputs[0], &f->result))
        return "its result is not quantized, or read by others too";
    if (f->operand[0].dtype != f->result.dtype)
        return "its result is of another type of codes than its operand";
    return form->fuse(f);
}

/* Which inputs come from DequantizeLinear, for the remark. */
static bool reads_dequantized(struct fuse *f) {
    bool any = false;
    f->n = f->node->n_inputs < MAX_OPERANDS ? f->node->n_inputs : MAX_OPERANDS;
    for (uint32_t i = 0; i < f->n; i++)
        any = (f->node->inputs[i] && read_operand(f->node->inputs[i], &f->operand[i])) || any;
    return any;
}

/* QuantizeLinear of what was dequantized with the same encoding. */
static enum tmk_status cancel_pair(struct tmk_rewrite *rw, struct tmk_node *quantize, bool *done) {
    struct quantized_operand o;
    struct quantized_result r;
    *done = quantize->inputs[0] && read_operand(quantize->inputs[0], &o) && o.n == 1 &&
            read_result(quantize, &r) && same_quantization(&o, &r) &&
            tmk_rewrite_can_replace(rw, quantize->outputs[0], o.codes, true);
    if (!*done)
        return TMK_OK;
    TMK_TRY(tmk_rewrite_replace(rw, quantize->outputs[0], o.codes, NULL));
    tmk_rewrite_remove(rw, quantize);
    return TMK_OK;
}

static enum tmk_status fuse_qdq_node(struct tmk_rewrite *rw, struct tmk_node *node) {
    bool done = false;
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "DequantizeLinear"))
        return retire_dequantize(rw, node);
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "QuantizeLinear"))
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

static enum tmk_status fuse_all_qdq(struct tmk_rewrite *rw) {
    TMK_TRY(tmk_rewrite_each(rw, fuse_qdq_node));
    return tmk_rewrite_each(rw, fuse_qdq_node); /* DequantizeLinear comes before what reads it */
}

const struct tmk_pass tmk_pass_fuse_qdq = {
    "fuse-qdq",
    "makes operators of integers of float ones between DequantizeLinear and QuantizeLinear",
    fuse_all_qdq, true};
