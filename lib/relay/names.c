/* SPDX-License-Identifier: Apache-2.0 */
/* Codes of weights and biases under the names that the weights and biases had. */
#include "base/diag.h"
#include "base/map.h"
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

/* Is it used for an output? A weight whose codes took its place may have a consumer without uses.
 */
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
