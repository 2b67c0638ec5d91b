/* SPDX-License-Identifier: Apache-2.0 */
/* Before anything is marked: the graph is brought to where its weights and biases can be seen.
 *
 * A weight that operators on constants make (Reshape of an initializer) becomes an initializer, but
 * for one that DequantizeLinear makes of codes, which stay. An
 * addition whose constant is the bias of the product before it, so that the product itself is an
 * accumulator without an encoding of its own, becomes that product's bias: Add(Conv(x, w), b) is
 * Conv(x, w, b), Add(MatMul(x, w), b) of matrices Gemm(x, w, b). With more axes the addition stays,
 * in a shape that keeps ONNX Runtime from making a Gemm of it. */

#include "base/diag.h"
#include "export/codes.h"
#include "export/qdq.h"
#include "graph/rewrite.h"
#include "ops/ops.h"
#include "ops/shapes.h"

/* ---- constants ---- */

enum { DEEPEST = 8 }; /* operators on constants behind each other */

static bool is_constant(const struct tmk_value *value, int depth) {
    if (!value)
        return true;
    if (value->kind == TMK_VALUE_INITIALIZER)
        return value->data.data != NULL;
    const struct tmk_node *node = value->producer;
    if (!node || depth == DEEPEST || node->n_outputs != 1 || value->n_graph_outputs || !node->row ||
        (node->row->flags & TMK_OP_IMPURE))
        return false;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (!is_constant(node->inputs[i], depth + 1))
            return false;
    return true;
}

static enum tmk_status fold_constant(struct tmk_qdq *q, struct tmk_value *value,
                                     struct tmk_value **out);

static const struct tmk_encoding *encoding_of(const struct tmk_qdq *q,
                                              const struct tmk_value *value) {
    return value && value->profile_id >= 0
               ? tmk_encodings_find(q->encodings, (uint32_t)value->profile_id, NULL, 0)
               : NULL;
}

static enum tmk_status run_folded(struct tmk_qdq *q, struct tmk_node *node,
                                  struct tmk_tensor *out) {
    const struct tmk_tensor **in = tmk_arena_array(&q->arena, node->n_inputs, sizeof *in);
    TMK_TRY_ALLOC(in, q->diag);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        struct tmk_value *operand = node->inputs[i];
        if (operand && operand->kind != TMK_VALUE_INITIALIZER)
            TMK_TRY(fold_constant(q, operand, &operand));
        const struct tmk_encoding *e = encoding_of(q, operand),
                                  *result = encoding_of(q, node->outputs[0]);
        if (e && result && !tmk_ptrmap_put(&q->folded, e, (void *)(uintptr_t)result))
            return tmk_nomem(q->diag);
        in[i] = operand ? &operand->data : NULL;
    }
    return tmk_op_run(node, in, out, q->diag);
}

static enum tmk_status fold_constant(struct tmk_qdq *q, struct tmk_value *value,
                                     struct tmk_value **out) {
    struct tmk_node *node = value->producer;
    struct tmk_tensor result = {0};
    TMK_TRY(run_folded(q, node, &result));
    enum tmk_status status =
        tmk_graph_add_initializer(q->graph, value->name, &result, out, q->diag);
    tmk_tensor_finish(&result);
    TMK_TRY(status);
    TMK_TRY(tmk_value_replace(value, *out, NULL, false, q->diag));
    tmk_value_take_identity(*out, value);
    tmk_node_remove(node);
    return TMK_OK;
}

static enum tmk_status move_constant(struct tmk_qdq *q, const struct tmk_node *mover,
                                     const struct tmk_value *from, struct tmk_value **out) {
    struct tmk_tensor moved = {0};
    TMK_TRY(tmk_codes_move(mover, tmk_value_constant(from), &q->arena, &moved, q->diag));
    enum tmk_status status = tmk_graph_add_initializer(q->graph, from->name, &moved, out, q->diag);
    tmk_tensor_finish(&moved);
    return status;
}

/* DequantizeLinear of moved codes in the place of Transpose and the like: engines look for it right
 * before the operator. `axis` is that of the scales in what is computed; -1: there is none. */
static enum tmk_status move_codes(struct tmk_qdq *q, struct tmk_node *mover, int32_t axis) {
    struct tmk_value *value = mover->outputs[0], *from = mover->inputs[0], *codes;
    struct tmk_node *old = from->producer, *made = NULL;
    TMK_TRY(move_constant(q, mover, old->inputs[0], &codes));
    struct tmk_value *inputs[3] = {codes};
    for (uint32_t i = 1; i < old->n_inputs; i++) {
        inputs[i] = old->inputs[i];
        if (inputs[i] && tmk_node_int(old, "block_size", 0))
            TMK_TRY(move_constant(q, mover, old->inputs[i], &inputs[i]));
    }
    TMK_TRY(tmk_graph_add_node(q->graph, mover,
                               &(struct tmk_node_spec){old->domain, old->op, mover->name,
                                                       old->version, inputs, old->n_inputs,
                                                       (const char *const[]){value->name}, 1},
                               &made, q->diag));
    TMK_TRY(tmk_node_copy_attrs(made, old, NULL, q->diag));
    if (axis >= 0)
        TMK_TRY(tmk_node_set_int(made, "axis", axis, q->diag));
    TMK_TRY(tmk_value_set_type(made->outputs[0], &value->type, q->diag));
    TMK_TRY(tmk_value_replace(value, made->outputs[0], NULL, false, q->diag));
    tmk_value_take_identity(made->outputs[0], value);
    tmk_node_remove(mover);
    if (from->n_uses || from->n_graph_outputs)
        return TMK_OK;
    struct tmk_value *read[3] = {old->inputs[0], old->inputs[1],
                                 old->n_inputs > 2 ? old->inputs[2] : NULL};
    tmk_node_remove(old);
    for (int i = 0; i < 3; i++)
        if (read[i])
            tmk_graph_drop_if_unused(read[i]);
    return TMK_OK;
}

/* What DequantizeLinear makes of constant codes stays, also behind operators that move it; *kept:
 * so it is. */
static enum tmk_status keep_codes(struct tmk_qdq *q, struct tmk_value *value, bool *kept) {
    const struct tmk_node *origin = tmk_codes_origin(value);
    struct tmk_encoding e;
    *kept = tmk_codes_are_constant(value);
    if (!*kept || value->producer == origin)
        return TMK_OK;
    TMK_TRY(tmk_codes_encoding(value, &q->arena, &e, q->diag));
    *kept = e.n > 0;
    if (!*kept)
        return TMK_OK;
    struct tmk_node *mover = value->producer;
    if (mover->inputs[0]->producer != origin)
        TMK_TRY(keep_codes(q, mover->inputs[0], kept));
    return move_codes(q, mover, e.axis);
}

/* Those that are encoded as weights or biases: operands like others stay where ONNX Runtime has
 * them. What has codes already keeps them. */
static enum tmk_status fold_weight(struct tmk_qdq *q, struct tmk_value *value) {
    if (!value || value->kind != TMK_VALUE_RESULT || value->graph != q->graph ||
        value->profile_id < 0 || value->type.dtype == TMK_STRING)
        return TMK_OK;
    const struct tmk_encoding *e =
        tmk_encodings_find(q->encodings, (uint32_t)value->profile_id, NULL, 0);
    bool kept;
    if (!e || e->role == TMK_ENCODING_ACTIVATION || !is_constant(value, 0))
        return TMK_OK;
    TMK_TRY(keep_codes(q, value, &kept));
    return kept ? TMK_OK : fold_constant(q, value, &value);
}

/* ---- biases ---- */

/* Along the channels of an accumulator of this rank, and along nothing else; false: it is not. */
static bool is_along_channels(const struct tmk_shape *bias, int32_t rank, int64_t channels) {
    enum { AXIS = 1 };
    if (bias->rank > rank)
        return false;
    for (int32_t i = 0; i < bias->rank; i++)
        if (bias->dim[i] != (i + rank - bias->rank == AXIS ? channels : 1))
            return false;
    return bias->rank > 0 && rank - bias->rank <= AXIS;
}

/* What the bias would be of, as Add's operand: a product without a bias and without other readers,
 * and that has no encoding. */
static struct tmk_node *product_of(const struct tmk_qdq *q, const struct tmk_value *value) {
    struct tmk_node *node = value ? value->producer : NULL;
    if (!node || value->graph != q->graph || value->n_uses != 1 || value->n_graph_outputs ||
        tmk_encodings_find(q->encodings, (uint32_t)value->profile_id, NULL, 0))
        return NULL;
    const bool conv = tmk_node_is(node, TMK_DOMAIN_ONNX, "Conv"),
               matmul = tmk_node_is(node, TMK_DOMAIN_ONNX, "MatMul");
    if ((!conv && !matmul) || (node->n_inputs > 2 && node->inputs[2]))
        return NULL;
    return node;
}

/* Of a weight; NULL: it is no constant. */
static const struct tmk_shape *constant_shape(const struct tmk_value *w) {
    const struct tmk_node *node = w->producer;
    if (w->kind == TMK_VALUE_INITIALIZER)
        return &w->data.shape;
    return node && tmk_codes_origin(w) == node && tmk_codes_are_constant(w)
               ? &tmk_value_constant(node->inputs[0])->shape
               : NULL;
}

static bool bias_fits(const struct tmk_node *product, const struct tmk_tensor *bias) {
    const struct tmk_value *x = product->inputs[0], *w = product->inputs[1];
    const struct tmk_shape *shape = constant_shape(w);
    if (!shape || bias->dtype != TMK_FLOAT32)
        return false;
    if (tmk_node_is(product, TMK_DOMAIN_ONNX, "Conv"))
        return shape->rank > 2 && is_along_channels(&bias->shape, shape->rank, shape->dim[0]);
    return x->type.has_shape && x->type.shape.rank == 2 && shape->rank == 2 &&
           is_along_channels(&bias->shape, 2, shape->dim[1]);
}

/* Of an initializer, also behind Identity, by which exporters share weights; NULL: neither. */
static const struct tmk_tensor *data_of(const struct tmk_value *value) {
    while (value && value->producer && tmk_node_is(value->producer, TMK_DOMAIN_ONNX, "Identity"))
        value = value->producer->inputs[0];
    return value ? tmk_value_constant(value) : NULL;
}

/* [C] behind axes of size 1, under the bias's name where that is free. */
static enum tmk_status reshape_bias(struct tmk_qdq *q, struct tmk_value *bias, int32_t rank,
                                    struct tmk_value **out) {
    const struct tmk_tensor *data = data_of(bias);
    struct tmk_tensor made = {0};
    tmk_tensor_share(&made, data);
    made.shape = (struct tmk_shape){.rank = rank};
    for (int32_t i = 0; i < rank; i++)
        made.shape.dim[i] = i == rank - 1 ? (int64_t)tmk_tensor_count(data) : 1;
    enum tmk_status status = tmk_graph_add_initializer(q->graph, bias->name, &made, out, q->diag);
    tmk_tensor_finish(&made);
    TMK_TRY(status);
    (*out)->profile_id = bias->profile_id;
    (*out)->fingerprint = bias->fingerprint;
    return TMK_OK;
}

static enum tmk_status merge_bias(struct tmk_qdq *q, struct tmk_node *product, struct tmk_node *add,
                                  uint32_t at, const struct tmk_encoding *e) {
    const bool conv = tmk_node_is(product, TMK_DOMAIN_ONNX, "Conv");
    struct tmk_value *bias = add->inputs[at], *sum = add->outputs[0], *flat = NULL;
    struct tmk_node *made = NULL;
    TMK_TRY(reshape_bias(q, bias, 1, &flat));
    TMK_TRY_ALLOC(tmk_ptrmap_put(&q->derived, flat, (void *)(uintptr_t)e), q->diag);
    struct tmk_value *inputs[] = {product->inputs[0], product->inputs[1], flat};
    TMK_TRY(tmk_graph_add_node(q->graph, product,
                               &(struct tmk_node_spec){TMK_DOMAIN_ONNX, conv ? "Conv" : "Gemm",
                                                       product->name, product->version, inputs, 3,
                                                       (const char *const[]){sum->name}, 1},
                               &made, q->diag));
    TMK_TRY(tmk_node_copy_attrs(made, product, NULL, q->diag));
    TMK_TRY(tmk_value_set_type(made->outputs[0], &sum->type, q->diag));
    TMK_TRY(tmk_value_replace(sum, made->outputs[0], NULL, true, q->diag));
    tmk_value_take_identity(made->outputs[0], sum);
    tmk_node_remove(add);
    tmk_node_remove(product);
    tmk_graph_drop_if_unused(bias);
    return TMK_OK;
}

/* Optimised ONNX Runtime (1.32) makes Reshape, Gemm and Reshape of a MatMul of three and more axes
 * and an addition of [C]. A Gemm whose bias has 8 bits computes in float there, and with int8 codes
 * of operator set 21 the file does not load. An addition of [1, 1, C] stays. */
static bool becomes_gemm(const struct tmk_node *product, const struct tmk_tensor *bias) {
    const struct tmk_type *x = &product->inputs[0]->type, *w = &product->inputs[1]->type;
    return tmk_node_is(product, TMK_DOMAIN_ONNX, "MatMul") && x->has_shape && x->shape.rank > 2 &&
           w->has_shape && w->shape.rank == 2 && bias->shape.rank == 1 &&
           (w->shape.dim[1] < 0 || w->shape.dim[1] == bias->shape.dim[0]);
}

static enum tmk_status keep_apart(struct tmk_qdq *q, const struct tmk_node *product,
                                  struct tmk_node *add, uint32_t at) {
    struct tmk_value *bias = add->inputs[at], *made = NULL;
    TMK_TRY(reshape_bias(q, bias, product->inputs[0]->type.shape.rank, &made));
    TMK_TRY(tmk_node_set_input(add, at, made, q->diag));
    tmk_graph_drop_if_unused(bias);
    return TMK_OK;
}

static enum tmk_status join_bias(struct tmk_qdq *q, struct tmk_node *add) {
    for (uint32_t at = 0; at < 2; at++) {
        struct tmk_value *bias = add->inputs[at];
        struct tmk_node *product = product_of(q, add->inputs[1 - at]);
        const struct tmk_tensor *data = product ? data_of(bias) : NULL;
        if (!data || bias->profile_id < 0)
            continue;
        const struct tmk_qdq_mark asked = {.value = bias, .id = bias->profile_id};
        const struct tmk_encoding *e = tmk_qdq_encoding(q, &asked, add, at);
        if (e && e->dtype == TMK_INT32 && bias->kind == TMK_VALUE_INITIALIZER &&
            bias_fits(product, data))
            return merge_bias(q, product, add, at, e);
        if (becomes_gemm(product, data))
            return keep_apart(q, product, add, at);
    }
    return TMK_OK;
}

/* Files need not declare of how many axes the operands of products are. */
static bool wants_ranks(const struct tmk_qdq *q) {
    for (const struct tmk_node *node = q->graph->first; node; node = node->next)
        if (tmk_node_is(node, TMK_DOMAIN_ONNX, "MatMul") && !node->inputs[0]->type.has_shape &&
            constant_shape(node->inputs[1]))
            return true;
    return false;
}

enum tmk_status tmk_qdq_prepare(struct tmk_qdq *q) {
    struct tmk_node *next = NULL;
    TMK_TRY(tmk_codes_fold(q->graph, true, q->diag));
    if (wants_ranks(q))
        TMK_TRY(tmk_fill_types(q->graph, q->diag));
    for (struct tmk_node *node = q->graph->first; node; node = next) {
        next = node->next;
        for (uint32_t i = 0; i < node->n_inputs; i++)
            TMK_TRY(fold_weight(q, node->inputs[i]));
        if (tmk_node_is(node, TMK_DOMAIN_ONNX, "Add"))
            TMK_TRY(join_bias(q, node));
    }
    return TMK_OK;
}
