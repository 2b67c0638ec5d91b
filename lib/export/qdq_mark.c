/* SPDX-License-Identifier: Apache-2.0 */
/* Which values are quantized: where ONNX Runtime's quantize_static (1.31, QuantFormat.QDQ) would
 * put pairs, among the values that have an encoding.
 *
 * Nodes are looked at in order. Most operators want their operands and results quantized; those
 * that move elements want their result on the grid of an operand that is quantized; weights and
 * biases have places of their own. What is not in the table is left alone. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "calib/encodings.h"
#include "export/codes.h"
#include "export/qdq.h"
#include "graph/rewrite.h"

typedef enum tmk_status mark_fn(struct tmk_qdq *q, struct tmk_node *node);

/* ---- marks ---- */

struct tmk_qdq_mark *tmk_qdq_marked(const struct tmk_qdq *q, const struct tmk_value *value) {
    return value ? tmk_ptrmap_get(&q->by_value, value) : NULL;
}

/* Nodes without names are identified by the ID of their first result. */
const struct tmk_encoding *tmk_qdq_encoding(const struct tmk_qdq *q,
                                            const struct tmk_qdq_mark *mark,
                                            const struct tmk_node *reader, uint32_t input) {
    const struct tmk_encoding *derived = tmk_ptrmap_get(&q->derived, mark->value);
    if (derived)
        return derived;
    char label[16] = "";
    /* what is in sub-graphs stays float, and the model's own codes are of float numbers */
    if (reader && (reader->graph != q->graph || tmk_codes_is(reader, "QuantizeLinear")))
        return NULL;
    if (reader && !reader->name[0] && reader->n_outputs && reader->outputs[0])
        snprintf(label, sizeof label, "p%lld", (long long)reader->outputs[0]->profile_id);
    const struct tmk_encoding *found = tmk_encodings_find(q->encodings, (uint32_t)mark->id,
                                                          !reader           ? NULL
                                                          : reader->name[0] ? reader->name
                                                                            : label,
                                                          input);
    /* 8-bit floats have operators of their own, and nothing is quantized to int32. */
    if (!found || !tmk_dtype_is_integer(found->dtype) ||
        (found->dtype == TMK_INT32 && mark->value && mark->value->kind != TMK_VALUE_INITIALIZER))
        return NULL;
    return found;
}

/* For any of its readers. */
static bool has_encoding(const struct tmk_qdq *q, const struct tmk_value *value) {
    if (value->profile_id < 0)
        return false;
    const struct tmk_qdq_mark mark = {.value = (struct tmk_value *)(uintptr_t)value,
                                      .id = value->profile_id};
    bool found = tmk_qdq_encoding(q, &mark, NULL, 0) != NULL;
    for (uint32_t i = 0; !found && i < value->n_uses; i++)
        found = tmk_qdq_encoding(q, &mark, value->uses[i].node, value->uses[i].input) != NULL;
    return found;
}

static bool is_float_tensor(const struct tmk_value *value) {
    if (value->kind == TMK_VALUE_INITIALIZER && value->data.dtype != TMK_FLOAT32)
        return false;
    return (value->type.dtype == TMK_FLOAT32 || value->type.dtype == TMK_UNDEFINED) &&
           value->type.kind == TMK_TYPE_TENSOR;
}

static bool can_be_quantized(const struct tmk_qdq *q, const struct tmk_value *value) {
    return value && value->graph == q->graph && is_float_tensor(value) && has_encoding(q, value);
}

static enum tmk_status add_mark(struct tmk_qdq *q, struct tmk_value *value, int64_t id,
                                struct tmk_qdq_mark **out) {
    struct tmk_qdq_mark *made = tmk_arena_alloc(&q->arena, sizeof *made);
    if (q->n_marks == q->marks_size) {
        uint32_t size = q->marks_size ? 2 * q->marks_size : 64;
        struct tmk_qdq_mark **list = tmk_arena_array(&q->arena, size, sizeof *list);
        TMK_TRY_ALLOC(list, q->diag);
        if (q->n_marks)
            memcpy(list, q->marks, q->n_marks * sizeof *list);
        q->marks = list;
        q->marks_size = size;
    }
    TMK_TRY_ALLOC(made, q->diag);
    made->value = value;
    made->id = id;
    made->has_codes =
        tmk_codes_is(value->producer, "DequantizeLinear") || tmk_codes_quantized_only(value);
    q->marks[q->n_marks++] = made;
    *out = made;
    return TMK_OK;
}

static enum tmk_status mark_value(struct tmk_qdq *q, struct tmk_value *value) {
    struct tmk_qdq_mark *made = NULL;
    if (!can_be_quantized(q, value) || tmk_qdq_marked(q, value))
        return TMK_OK;
    TMK_TRY(add_mark(q, value, value->profile_id, &made));
    return tmk_ptrmap_put(&q->by_value, value, made) ? TMK_OK : tmk_nomem(q->diag);
}

/* Result `output` of the node is on the grid of its operand 0. */
static enum tmk_status mark_like_operand(struct tmk_qdq *q, struct tmk_node *node,
                                         uint32_t output) {
    if (output >= node->n_outputs)
        return TMK_OK;
    TMK_TRY(mark_value(q, node->outputs[output]));
    struct tmk_qdq_mark *made = tmk_qdq_marked(q, node->outputs[output]);
    if (made) {
        made->provider = node->inputs[0];
        made->provided = node;
    }
    return TMK_OK;
}

static enum tmk_status mark_results(struct tmk_qdq *q, struct tmk_node *node) {
    for (uint32_t i = 0; i < node->n_outputs; i++)
        TMK_TRY(mark_value(q, node->outputs[i]));
    return TMK_OK;
}

/* ---- biases ---- */

/* "name" and the number behind the largest that an initializer called "name<number>" has. */
static enum tmk_status copy_bias(struct tmk_qdq *q, struct tmk_value *bias,
                                 struct tmk_value **out) {
    const size_t len = strlen(bias->name);
    long most = -1;
    for (uint32_t i = 0; i < q->graph->n_values; i++) {
        const struct tmk_value *value = q->graph->values[i];
        char *end = NULL;
        if (value->kind != TMK_VALUE_INITIALIZER || strncmp(value->name, bias->name, len) != 0 ||
            !value->name[len])
            continue;
        long number = strtol(value->name + len, &end, 10);
        if (!*end && number > most && number < INT32_MAX)
            most = number;
    }
    const char *name = tmk_arena_printf(&q->arena, "%s%ld", bias->name, most + 1);
    TMK_TRY_ALLOC(name, q->diag);
    return tmk_graph_add_initializer(q->graph, name, &bias->data, out, q->diag);
}

static bool is_bias_already(const struct tmk_qdq *q, const struct tmk_value *value) {
    for (uint32_t i = 0; i < q->n_marks; i++)
        if (q->marks[i]->is_bias && q->marks[i]->value == value)
            return true;
    return false;
}

/* The scale of a bias is that of one node's operands, so each node has its own. */
static enum tmk_status mark_bias(struct tmk_qdq *q, struct tmk_node *node) {
    enum { BIAS = 2 };
    struct tmk_value *bias = tmk_node_input(node, BIAS);
    struct tmk_qdq_mark *made = NULL;
    if (!can_be_quantized(q, bias) || bias->kind != TMK_VALUE_INITIALIZER)
        return TMK_OK;
    const int64_t id = bias->profile_id;
    const struct tmk_qdq_mark asked = {.value = bias, .id = id};
    const struct tmk_encoding *encoding = tmk_qdq_encoding(q, &asked, node, BIAS);
    if (!encoding)
        return TMK_OK;
    if (encoding->dtype != TMK_INT32)
        return mark_value(q, bias);
    if (is_bias_already(q, bias)) {
        TMK_TRY(copy_bias(q, bias, &bias));
        TMK_TRY(tmk_node_set_input(node, BIAS, bias, q->diag));
    }
    TMK_TRY(add_mark(q, bias, id, &made));
    made->is_bias = true;
    made->node = node;
    made->input = node->inputs[0];
    made->weight = node->inputs[1];
    return TMK_OK;
}

/* The encoding of an initializer that is to be int32 here; NULL: it is no such thing. */
static const struct tmk_encoding *is_accumulated(const struct tmk_qdq *q,
                                                 const struct tmk_value *value,
                                                 const struct tmk_node *node, uint32_t at) {
    if (!value || value->kind != TMK_VALUE_INITIALIZER || !can_be_quantized(q, value) ||
        tmk_qdq_marked(q, value))
        return NULL;
    const struct tmk_qdq_mark asked = {.value = (struct tmk_value *)(uintptr_t)value,
                                       .id = value->profile_id};
    const struct tmk_encoding *e = tmk_qdq_encoding(q, &asked, node, at);
    return e && e->dtype == TMK_INT32 ? e : NULL;
}

/* The first operand or result of the node whose codes are no accumulator's. */
static const struct tmk_encoding *grid_beside(const struct tmk_qdq *q,
                                              const struct tmk_node *node) {
    for (uint32_t i = 0; i < node->n_inputs + node->n_outputs; i++) {
        const bool operand = i < node->n_inputs;
        const struct tmk_qdq_mark *other =
            tmk_qdq_marked(q, operand ? node->inputs[i] : node->outputs[i - node->n_inputs]);
        const struct tmk_encoding *e =
            other ? tmk_qdq_encoding(q, other, operand ? node : NULL, i) : NULL;
        if (e && e->n == 1 && e->dtype != TMK_INT32)
            return e;
    }
    return NULL;
}

/* An operator of its own that adds a bias reads 8 or 16 bits, as it does all operands: the bias
 * gets what the grid of the others makes of its own range. (An engine that adds it to the sums of
 * the operator before does so by itself.) */
static enum tmk_status derive_operand(struct tmk_qdq *q, const struct tmk_node *node,
                                      struct tmk_value *value, const struct tmk_encoding *own) {
    const struct tmk_encoding *like = grid_beside(q, node);
    if (!like)
        return tmk_qdq_report(q, own, "nothing else that its operator reads or makes is quantized");
    struct tmk_encoding *made = tmk_arena_alloc(q->graph->arena, sizeof *made);
    struct tmk_one_scale *numbers = tmk_arena_alloc(q->graph->arena, sizeof *numbers);
    float low = 0, high = 0;
    TMK_TRY_ALLOC(made && numbers, q->diag);
    const float *data = value->data.data;
    for (size_t i = 0; i < tmk_tensor_count(&value->data); i++) {
        low = data[i] < low ? data[i] : low;
        high = data[i] > high ? data[i] : high;
    }
    *made = *like;
    TMK_TRY(tmk_encoding_cover(made, low, high, numbers, q->diag));
    made->id = own->id;
    made->fingerprint = own->fingerprint;
    made->name = value->name;
    TMK_TRY(tmk_qdq_report(q, own, NULL));
    return tmk_ptrmap_put(&q->derived, value, made) ? mark_value(q, value) : tmk_nomem(q->diag);
}

/* ---- operators ---- */

static enum tmk_status mark_everything(struct tmk_qdq *q, struct tmk_node *node) {
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (!is_accumulated(q, node->inputs[i], node, i))
            TMK_TRY(mark_value(q, node->inputs[i]));
    TMK_TRY(mark_results(q, node));
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct tmk_encoding *own = is_accumulated(q, node->inputs[i], node, i);
        if (own)
            TMK_TRY(derive_operand(q, node, node->inputs[i], own));
    }
    return TMK_OK;
}

/* Conv, ConvTranspose, Gemm */
static enum tmk_status mark_product(struct tmk_qdq *q, struct tmk_node *node) {
    TMK_TRY(mark_value(q, tmk_node_input(node, 0)));
    TMK_TRY(mark_value(q, node->outputs[0]));
    TMK_TRY(mark_value(q, tmk_node_input(node, 1)));
    return mark_bias(q, node);
}

/* Mean and variance of a batch stay float. */
static enum tmk_status mark_norm(struct tmk_qdq *q, struct tmk_node *node) {
    TMK_TRY(mark_value(q, tmk_node_input(node, 0)));
    TMK_TRY(mark_value(q, tmk_node_input(node, 1)));
    TMK_TRY(mark_bias(q, node));
    return mark_results(q, node);
}

static enum tmk_status mark_moving(struct tmk_qdq *q, struct tmk_node *node) {
    return tmk_qdq_marked(q, tmk_node_input(node, 0)) ? mark_like_operand(q, node, 0) : TMK_OK;
}

static enum tmk_status mark_split(struct tmk_qdq *q, struct tmk_node *node) {
    TMK_TRY(mark_value(q, tmk_node_input(node, 0)));
    if (!tmk_qdq_marked(q, tmk_node_input(node, 0)))
        return mark_results(q, node);
    for (uint32_t i = 0; i < node->n_outputs; i++)
        TMK_TRY(mark_like_operand(q, node, i));
    return TMK_OK;
}

static enum tmk_status mark_gather(struct tmk_qdq *q, struct tmk_node *node) {
    const struct tmk_value *data = tmk_node_input(node, 0);
    if (data && data->kind == TMK_VALUE_INITIALIZER)
        TMK_TRY(mark_value(q, node->inputs[0]));
    return mark_moving(q, node);
}

static enum tmk_status mark_where(struct tmk_qdq *q, struct tmk_node *node) {
    if (!tmk_qdq_marked(q, tmk_node_input(node, 1)) || !tmk_qdq_marked(q, tmk_node_input(node, 2)))
        return TMK_OK;
    return mark_results(q, node);
}

/* Zero is on every grid, and the other modes repeat what is there. */
static bool pads_with_what_is_there(const struct tmk_node *node) {
    if (strcmp(tmk_node_string(node, "mode", "constant"), "constant") != 0)
        return true;
    if (node->version < 11)
        return tmk_node_float(node, "value", 0) == 0;
    if (!tmk_node_input(node, 2))
        return true;
    const struct tmk_tensor *value = tmk_value_constant(node->inputs[2]);
    return value && value->dtype == TMK_FLOAT32 && tmk_tensor_count(value) == 1 &&
           *(const float *)value->data == 0;
}

static enum tmk_status mark_pad(struct tmk_qdq *q, struct tmk_node *node) {
    for (uint32_t i = 0; i < node->n_inputs; i++)
        TMK_TRY(mark_value(q, node->inputs[i]));
    if (tmk_qdq_marked(q, tmk_node_input(node, 0)) && pads_with_what_is_there(node))
        return mark_like_operand(q, node, 0);
    return mark_value(q, node->outputs[0]);
}

/* ---- Relu and Clip ---- */

/* False: it depends on the data. */
static bool constant_bound(const struct tmk_node *node, uint32_t at, const char *attr,
                           float otherwise, float *out) {
    *out = otherwise;
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "Relu")) {
        *out = at == 1 ? 0 : otherwise;
        return true;
    }
    if (node->version < 11) {
        *out = tmk_node_float(node, attr, otherwise);
        return true;
    }
    if (!tmk_node_input(node, at))
        return true;
    const struct tmk_tensor *value = tmk_value_constant(node->inputs[at]);
    if (!value || value->dtype != TMK_FLOAT32 || tmk_tensor_count(value) != 1)
        return false;
    *out = *(const float *)value->data;
    return true;
}

/* The codes end where the operator clips, or within. (Symmetric grids never do for ONNX Runtime.)
 */
static bool clips_alike(const struct tmk_node *node, const struct tmk_encoding *e) {
    float least, most;
    int32_t lowest, highest;
    if (e->symmetric || !constant_bound(node, 1, "min", -INFINITY, &least) ||
        !constant_bound(node, 2, "max", INFINITY, &most))
        return false;
    tmk_encoding_codes(e, &lowest, &highest);
    for (uint32_t i = 0; i < e->n; i++) {
        const double half = 0.5 * (double)e->scale[i];
        if ((double)e->scale[i] * ((double)lowest - e->zero_point[i]) < (double)least - half ||
            (double)e->scale[i] * ((double)highest - e->zero_point[i]) > (double)most + half)
            return false;
    }
    return true;
}

/* The operand replaces the result and takes its name. */
static enum tmk_status absorb_result(struct tmk_qdq *q, struct tmk_node *node) {
    struct tmk_value *from = node->inputs[0], *to = node->outputs[0];
    struct tmk_qdq_mark *old = tmk_qdq_marked(q, from), *made = NULL;
    old->value = NULL;
    TMK_TRY(tmk_value_replace(to, from, NULL, true, q->diag));
    TMK_TRY(tmk_value_rename(from, to->name, q->diag));
    tmk_value_take_identity(from, to);
    TMK_TRY(tmk_node_set_input(node, 0, NULL, q->diag));
    tmk_node_remove(node);
    TMK_TRY(add_mark(q, from, from->profile_id, &made));
    return tmk_ptrmap_put(&q->by_value, from, made) ? TMK_OK : tmk_nomem(q->diag);
}

static enum tmk_status mark_clipping(struct tmk_qdq *q, struct tmk_node *node) {
    struct tmk_value *from = tmk_node_input(node, 0);
    if (!tmk_qdq_marked(q, from))
        return TMK_OK;
    const struct tmk_qdq_mark result = {.value = node->outputs[0],
                                        .id = node->outputs[0]->profile_id};
    const struct tmk_encoding *e =
        can_be_quantized(q, node->outputs[0]) ? tmk_qdq_encoding(q, &result, NULL, 0) : NULL;
    const bool alone = from->producer && from->n_uses == 1 && !from->n_graph_outputs;
    if (alone &&
        tmk_codes_quantized_only(node->outputs[0])) /* in one piece with what is in front */
        tmk_qdq_marked(q, from)->has_codes = true;
    else if (e && alone && clips_alike(node, e))
        return absorb_result(q, node);
    return mark_value(q, node->outputs[0]);
}

/* The operators of ONNX Runtime's two registries (quantization/registry.py); TopK's result 1 is of
 * integers. */
static const struct {
    const char *op;
    mark_fn *mark;
} operators[] = {
    {"Conv", mark_product},
    {"ConvTranspose", mark_product},
    {"Gemm", mark_product},
    {"MatMul", mark_everything},
    {"Relu", mark_clipping},
    {"Clip", mark_clipping},
    {"Reshape", mark_moving},
    {"Transpose", mark_moving},
    {"Squeeze", mark_moving},
    {"Unsqueeze", mark_moving},
    {"Flatten", mark_moving},
    {"Resize", mark_moving},
    {"MaxPool", mark_moving},
    {"AveragePool", mark_moving},
    {"Slice", mark_moving},
    {"TopK", mark_moving},
    {"Pad", mark_pad},
    {"Split", mark_split},
    {"Gather", mark_gather},
    {"GatherElements", mark_gather},
    {"Where", mark_where},
    {"InstanceNormalization", mark_norm},
    {"LayerNormalization", mark_norm},
    {"BatchNormalization", mark_norm},
    {"CumSum", mark_everything},
    {"ArgMax", mark_everything},
    {"Add", mark_everything},
    {"Mul", mark_everything},
    {"LeakyRelu", mark_everything},
    {"Sigmoid", mark_everything},
    {"GlobalAveragePool", mark_everything},
    {"Concat", mark_everything},
    {"Softmax", mark_everything},
};

static mark_fn *find_operator(const struct tmk_node *node) {
    if (strcmp(node->domain, TMK_DOMAIN_ONNX) != 0)
        return NULL;
    for (size_t i = 0; i < TMK_COUNT(operators); i++)
        if (strcmp(node->op, operators[i].op) == 0)
            return operators[i].mark;
    return NULL;
}

/* It computes in float: it has float operands, of which none has an encoding for it. What it
 * computes has encodings for its readers alone, which mark it if they are quantized. */
static bool is_left_float(const struct tmk_qdq *q, const struct tmk_node *node) {
    bool reads = false;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        struct tmk_value *value = node->inputs[i];
        if (!value || !is_float_tensor(value) || value->profile_id < 0)
            continue;
        const struct tmk_qdq_mark asked = {.value = value, .id = value->profile_id};
        if (tmk_qdq_encoding(q, &asked, node, i))
            return false;
        reads = true;
    }
    return reads;
}

bool tmk_qdq_knows(const struct tmk_node *node) {
    return find_operator(node) != NULL;
}

bool tmk_qdq_moves(const struct tmk_node *node) {
    mark_fn *fn = find_operator(node);
    return fn == mark_moving || fn == mark_clipping || fn == mark_gather || fn == mark_where;
}

/* What DequantizeLinear computes has codes already, which stand in the place of its own encoding:
 * as in ONNX Runtime no pair is placed there (qdq_place.c). */
static enum tmk_status take_codes_of(struct tmk_qdq *q, struct tmk_value *value) {
    struct tmk_encoding *made = tmk_arena_alloc(q->graph->arena, sizeof *made);
    TMK_TRY_ALLOC(made, q->diag);
    if (!can_be_quantized(q, value))
        return TMK_OK;
    TMK_TRY(tmk_codes_encoding(value, q->graph->arena, made, q->diag));
    return !made->n || tmk_ptrmap_put(&q->derived, value, made) ? TMK_OK : tmk_nomem(q->diag);
}

/* Codes of codes: any other grid would round them again. */
static enum tmk_status pass_codes(struct tmk_qdq *q, const struct tmk_node *node) {
    const struct tmk_encoding *e = tmk_ptrmap_get(&q->derived, tmk_node_input(node, 0));
    for (uint32_t i = 0; e && e->n == 1 && i < node->n_outputs; i++) {
        struct tmk_value *value = node->outputs[i];
        struct tmk_encoding *made = tmk_arena_alloc(q->graph->arena, sizeof *made);
        TMK_TRY_ALLOC(made, q->diag);
        if (!can_be_quantized(q, value))
            continue;
        *made = *e;
        made->id = (uint32_t)value->profile_id;
        made->fingerprint = value->fingerprint;
        made->name = value->name;
        TMK_TRY_ALLOC(tmk_ptrmap_put(&q->derived, value, made), q->diag);
    }
    return TMK_OK;
}

enum tmk_status tmk_qdq_mark_all(struct tmk_qdq *q) {
    struct tmk_node *next = NULL;
    for (const struct tmk_node *node = q->graph->first; node; node = node->next)
        if (tmk_codes_is(node, "DequantizeLinear"))
            TMK_TRY(take_codes_of(q, node->outputs[0]));
        else if (tmk_codes_pass(node))
            TMK_TRY(pass_codes(q, node));
    for (struct tmk_node *node = q->graph->first; node; node = next) {
        next = node->next;
        mark_fn *fn = find_operator(node);
        if (fn && node->n_outputs && node->outputs[0] && !is_left_float(q, node))
            TMK_TRY(fn(q, node));
    }
    return TMK_OK;
}
