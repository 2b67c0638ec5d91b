/* SPDX-License-Identifier: Apache-2.0 */
/* Weights and biases as codes: under the names that they had, and in an annotated text, where the
 * params file has integers and the text dequantizes them. */
#include <string.h>

#include "base/diag.h"
#include "base/map.h"
#include "export/qdq.h"
#include "relay/export.h"

struct naming {
    const struct tmk_graph *graph; /* the original */
    const struct tmk_encodings *encodings;
    const struct tmk_quantized_graph *quantized;
    struct tmk_map taken; /* by values that stay as they are */
    struct tmk_diag *diag;
};

static bool is_weight(const struct tmk_value *value) {
    return value && value->kind == TMK_VALUE_INITIALIZER;
}

static enum tmk_status rename_one(struct naming *n, struct tmk_value *value, const char *name) {
    if (!name[0] || tmk_map_get(&n->taken, name))
        return TMK_OK;
    TMK_TRY(tmk_value_rename(value, name, n->diag));
    return tmk_map_put(&n->taken, value->name, value) ? TMK_OK : tmk_nomem(n->diag);
}

static const struct tmk_value *codes_of(const struct naming *n, uint32_t id) {
    for (uint32_t i = 0; i < n->quantized->n; i++)
        if (n->quantized->values[i].id == id)
            return n->quantized->values[i].codes;
    return NULL;
}

static const struct tmk_value *read_by(const struct tmk_value *value, const char *op,
                                       const char *other) {
    for (uint32_t i = 0; i < value->n_uses; i++) {
        const struct tmk_node *node = value->uses[i].node;
        if (tmk_node_is(node, TMK_DOMAIN_ONNX, op) || tmk_node_is(node, TMK_DOMAIN_ONNX, other))
            return node->outputs[0];
    }
    return NULL;
}

/* What is added to the sums of the products with these codes. */
static struct tmk_value *bias_behind(const struct tmk_value *codes) {
    const struct tmk_value *turned = read_by(codes, "Transpose", "Transpose");
    const struct tmk_value *sum = read_by(turned ? turned : codes, "MatMulInteger", "ConvInteger");
    const struct tmk_value *biased = sum ? read_by(sum, "Add", "Add") : NULL;
    for (uint32_t i = 0; biased && i < biased->producer->n_inputs; i++)
        if (is_weight(biased->producer->inputs[i]))
            return biased->producer->inputs[i];
    return NULL;
}

/* Is it used for an output? A weight replaced by its codes may have a consumer without uses. */
static bool is_used(const struct tmk_value *value) {
    if (value->kind == TMK_VALUE_DROPPED)
        return false;
    if (!is_weight(value) || value->n_graph_outputs)
        return true;
    for (uint32_t i = 0; i < value->n_uses; i++) {
        const struct tmk_node *node = value->uses[i].node;
        for (uint32_t k = 0; k < node->n_outputs; k++)
            if (node->outputs[k] && (node->outputs[k]->n_uses || node->outputs[k]->n_graph_outputs))
                return true;
    }
    return false;
}

static enum tmk_status rename_all(struct naming *n) {
    const struct tmk_graph *graph = n->quantized->graph;
    for (uint32_t i = 0; i < graph->n_values; i++) {
        struct tmk_value *value = graph->values[i];
        if (value->name[0] && is_used(value) && !tmk_map_put(&n->taken, value->name, value))
            return tmk_nomem(n->diag);
    }
    for (uint32_t i = 0; i < n->quantized->n; i++) {
        const struct tmk_quantized_value *value = &n->quantized->values[i];
        if (is_weight(value->codes) && value->encoding)
            TMK_TRY(rename_one(n, value->codes, value->encoding->name));
    }
    for (uint32_t i = 0; i < n->encodings->n_items; i++) {
        const struct tmk_encoding *e = &n->encodings->items[i];
        if (e->role != TMK_ENCODING_BIAS || e->n_sources != 2)
            continue;
        const struct tmk_value *weight = codes_of(n, e->sources[1]);
        struct tmk_value *bias = weight ? bias_behind(weight) : NULL;
        if (bias)
            TMK_TRY(rename_one(n, bias, tmk_relay_bias_name(n->graph, e)));
    }
    return TMK_OK;
}

const char *tmk_relay_bias_name(const struct tmk_graph *graph, const struct tmk_encoding *e) {
    for (const struct tmk_node *node = graph->first; node; node = node->next)
        if (node->n_outputs && node->outputs[0] && node->outputs[0]->profile_id == (int64_t)e->id &&
            tmk_node_is(node, TMK_DOMAIN_ONNX, "Unsqueeze") && is_weight(node->inputs[0]))
            return node->inputs[0]->name;
    return e->name;
}

enum tmk_status tmk_relay_keep_names(const struct tmk_graph *graph,
                                     const struct tmk_encodings *encodings,
                                     const struct tmk_quantized_graph *quantized,
                                     struct tmk_diag *diag) {
    struct naming n = {
        .graph = graph, .encodings = encodings, .quantized = quantized, .diag = diag};
    const enum tmk_status status = rename_all(&n);
    tmk_map_finish(&n.taken);
    return status;
}

/* ---- of an annotated text ---- */

/* qnn.dequantize takes these. */
static bool can_dequantize(enum tmk_dtype dtype) {
    return dtype == TMK_INT8 || dtype == TMK_UINT8 || dtype == TMK_INT16 || dtype == TMK_INT32;
}

const struct tmk_relay_param *tmk_relay_codable(const struct tmk_relay_coding *c,
                                                const struct tmk_value *value, const char *name,
                                                const struct tmk_encoding *encoding) {
    const struct tmk_relay_param *param = tmk_relay_params_find(c->from, name);
    const bool fits = param && value && encoding && encoding->role != TMK_ENCODING_ACTIVATION &&
                      can_dequantize(encoding->dtype) && param->tensor.dtype == TMK_FLOAT32;
    return fits ? param : NULL;
}

static bool same_zeros(const struct tmk_encoding *e) {
    for (uint32_t i = 1; i < e->n; i++)
        if (e->zero_point[i] != e->zero_point[0])
            return false;
    return true;
}

/* A parameter "NAME_what" of one number a channel. */
static struct tmk_relay_expr *by_channel(struct tmk_relay_coding *c, struct tmk_relay_builder *b,
                                         const char *name, const char *what, enum tmk_dtype dtype,
                                         const void *numbers, uint32_t n) {
    const struct tmk_shape shape = {.rank = 1, .dim = {n}};
    const char *text = tmk_arena_printf(b->arena, "%s%s", name, what);
    struct tmk_tensor tensor;
    b->nomem |= !text;
    if (!text || c->status != TMK_OK)
        return NULL;
    if ((c->status = tmk_tensor_init(&tensor, dtype, &shape, c->diag)) != TMK_OK)
        return NULL;
    memcpy(tensor.data, numbers, tmk_tensor_bytes(&tensor));
    c->status = tmk_relay_params_add(c->to, text, &tensor, c->diag);
    tmk_tensor_finish(&tensor);
    return tmk_rb_add_param(b, text, tmk_rb_tensor_type(b->arena, dtype, &shape));
}

struct tmk_relay_expr *tmk_relay_decode(struct tmk_relay_coding *c, struct tmk_relay_builder *b,
                                        const struct tmk_relay_param *param,
                                        const struct tmk_encoding *e,
                                        struct tmk_relay_binding *binding) {
    struct tmk_tensor codes;
    if (c->status != TMK_OK)
        return NULL;
    if ((c->status = tmk_qdq_codes(&param->tensor, e, e->scale, &codes, c->diag)) != TMK_OK)
        return NULL;
    c->status = tmk_relay_params_add(c->to, param->name, &codes, c->diag);
    binding->type = tmk_rb_tensor_type(b->arena, codes.dtype, &codes.shape);
    tmk_tensor_finish(&codes);
    struct tmk_relay_expr *args[] = {
        tmk_rb_use(b, binding),
        e->n == 1 ? tmk_rb_scalar(b, TMK_FLOAT32, e->scale[0])
                  : by_channel(c, b, binding->name, "_scale", TMK_FLOAT32, e->scale, e->n),
        same_zeros(e)
            ? tmk_rb_scalar(b, TMK_INT32, e->zero_point[0])
            : by_channel(c, b, binding->name, "_zero_point", TMK_INT32, e->zero_point, e->n)};
    if (e->n > 1)
        tmk_rb_set_int(b, "axis", e->axis);
    return tmk_rb_make_call(b, "qnn.dequantize", args, 3,
                            tmk_rb_tensor_type(b->arena, TMK_FLOAT32, &param->tensor.shape));
}

void tmk_relay_keep(struct tmk_relay_coding *c, const char *name) {
    const struct tmk_relay_param *param = tmk_relay_params_find(c->from, name);
    if (param && c->status == TMK_OK)
        c->status = tmk_relay_params_add(c->to, param->name, &param->tensor, c->diag);
}
