/* SPDX-License-Identifier: Apache-2.0 */
#include "pass/qdq.h"

#include "base/diag.h"
#include "pass/proposal.h"

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

bool tmk_qdq_operand_of(const struct tmk_value *value, struct tmk_qdq_operand *out) {
    struct tmk_node *node = value->producer;
    *out = (struct tmk_qdq_operand){0};
    if (!node || !tmk_node_is(node, TMK_DOMAIN_ONNX, "DequantizeLinear") || !node->inputs[0])
        return false;
    struct tmk_qdq_operand o = {.dequantize = node, .codes = node->inputs[0]};
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

bool tmk_qdq_result_at(struct tmk_node *quantize, struct tmk_qdq_result *out) {
    uint32_t n = 0;
    struct tmk_qdq_result r = {.quantize = quantize, .dtype = TMK_UINT8};
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

static bool clips_below_zero(const struct tmk_qdq_result *result) {
    const int64_t zero = result->zero ? code_at(tmk_value_constant(result->zero), 0) : 0;
    return zero == (result->dtype == TMK_INT8 ? INT8_MIN : 0);
}

bool tmk_qdq_result_of(const struct tmk_rewrite *rw, const struct tmk_value *value,
                       struct tmk_qdq_result *out) {
    if (!tmk_rewrite_is_interior(rw, value))
        return false;
    struct tmk_node *reader = value->uses[0].node;
    if (!tmk_node_is(reader, TMK_DOMAIN_ONNX, "Relu"))
        return value->uses[0].input == 0 && tmk_qdq_result_at(reader, out);
    const struct tmk_value *clipped = reader->outputs[0];
    if (!clipped || !tmk_rewrite_is_interior(rw, clipped) || clipped->uses[0].input != 0 ||
        !tmk_qdq_result_at(clipped->uses[0].node, out) || !clips_below_zero(out))
        return false;
    out->relu = reader;
    return true;
}

double tmk_qdq_scale(const struct tmk_qdq_operand *operand, uint32_t i) {
    const struct tmk_tensor *scale = tmk_value_constant(operand->scale);
    return ((const float *)scale->data)[operand->n == 1 ? 0 : i];
}

int64_t tmk_qdq_zero_of(const struct tmk_qdq_operand *operand, uint32_t i) {
    const struct tmk_tensor *zero = tmk_value_constant(operand->zero);
    return zero ? code_at(zero, operand->n == 1 ? 0 : i) : 0;
}

bool tmk_qdq_same(const struct tmk_qdq_operand *operand, const struct tmk_qdq_result *result) {
    const struct tmk_tensor *scale = tmk_value_constant(result->scale),
                            *zero = tmk_value_constant(result->zero);
    return operand->n == 1 && operand->dtype == result->dtype &&
           tmk_qdq_scale(operand, 0) == (double)*(const float *)scale->data &&
           tmk_qdq_zero_of(operand, 0) == (zero ? code_at(zero, 0) : 0);
}

enum tmk_status tmk_qdq_zero(struct tmk_rewrite *rw, struct tmk_graph *graph, enum tmk_dtype dtype,
                             struct tmk_value **out) {
    struct tmk_tensor zero = {0};
    TMK_TRY(tmk_tensor_init(&zero, dtype, &(struct tmk_shape){0}, rw->diag));
    enum tmk_status status = tmk_rewrite_initializer(rw, graph, "zero_point", &zero, out);
    tmk_tensor_finish(&zero);
    return status;
}
