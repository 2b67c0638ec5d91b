/* SPDX-License-Identifier: Apache-2.0 */
#include "export/layers.h"

#include <math.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/memory.h"
#include "base/size.h"
#include "export/rows.h"
#include "ops/ops.h"

const struct tmk_tensor *tmk_export_constant(const struct tmk_value *value) {
    if (value->kind == TMK_VALUE_INITIALIZER)
        return &value->data;
    if (!value->producer || !tmk_node_is(value->producer, TMK_DOMAIN_ONNX, "Constant"))
        return NULL;
    const struct tmk_attr *attr = tmk_node_attr(value->producer, "value");
    return attr && attr->kind == TMK_ATTR_TENSOR ? attr->tensors : NULL;
}

static bool passes_activation(const struct tmk_encodings *encodings,
                              const struct tmk_value *value) {
    const struct tmk_encoding *e =
        tmk_encodings_find(encodings, (uint32_t)value->profile_id, NULL, 0);
    return !e || tmk_export_is_before_activation(e);
}

/* The constant that a node adds to its input number `input`; NULL: it does something else. */
static const struct tmk_value *added_bias(const struct tmk_node *node, uint32_t input) {
    if (!tmk_node_is(node, TMK_DOMAIN_ONNX, "Add"))
        return NULL;
    return tmk_export_constant(node->inputs[1 - input]) ? node->inputs[1 - input] : NULL;
}

/* Behind a bias that is added apart, and activations, which a layer takes in, as long as nothing
 * else reads the values between. */
static void skip_behind(const struct tmk_encodings *encodings, struct tmk_export_layer *layer) {
    const struct tmk_value *value = layer->output;
    while (value->n_uses == 1 && !value->n_graph_outputs && passes_activation(encodings, value)) {
        const struct tmk_use *use = &value->uses[0];
        const struct tmk_value *bias = layer->bias ? NULL : added_bias(use->node, use->input);
        bool activation = use->input == 0 && tmk_node_traits(use->node)->class == TMK_OP_CLAMP;
        if (!bias && !activation)
            break;
        if (bias)
            layer->bias = bias;
        value = use->node->outputs[0];
    }
    layer->activated = value;
}

static const float *norm_input(const struct tmk_node *norm, uint32_t i, uint32_t channels) {
    const struct tmk_tensor *data =
        i < norm->n_inputs && norm->inputs[i] ? tmk_export_constant(norm->inputs[i]) : NULL;
    return data && data->dtype == TMK_FLOAT32 && tmk_tensor_count(data) == channels ? data->data
                                                                                    : NULL;
}

/* Of one that reads a convolution's result alone, with constant moments. */
static const struct tmk_node *norm_behind(const struct tmk_export_layer *layer) {
    const struct tmk_value *value = layer->output;
    const struct tmk_node *norm =
        value->n_uses == 1 && !value->n_graph_outputs ? value->uses[0].node : NULL;
    if (!norm || !tmk_node_is(layer->node, TMK_DOMAIN_ONNX, "Conv") || value->uses[0].input != 0 ||
        !tmk_node_is(norm, TMK_DOMAIN_ONNX, "BatchNormalization") ||
        tmk_node_int(norm, "training_mode", 0))
        return NULL;
    for (uint32_t i = 1; i < 5; i++)
        if (!norm_input(norm, i, layer->channels))
            return NULL;
    return norm;
}

static bool make_layer(const struct tmk_encodings *encodings, const struct tmk_node *node,
                       bool fold_norms, struct tmk_export_layer *out) {
    const int32_t axis = tmk_op_weight_axis(node);
    if (!tmk_op_is_product(node) || node->n_inputs < 2 || !node->inputs[0] || !node->inputs[1])
        return false;
    const struct tmk_tensor *data = tmk_export_constant(node->inputs[1]);
    if (!data || data->dtype != TMK_FLOAT32 || data->shape.rank < 2 ||
        (tmk_node_is(node, TMK_DOMAIN_ONNX, "MatMul") && data->shape.rank != 2))
        return false;
    int64_t group = tmk_node_int(node, "group", 1), channels = data->shape.dim[axis];
    if (group < 1 || channels < 1 || channels > UINT32_MAX / group)
        return false;
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "ConvTranspose"))
        channels *= group;
    *out = (struct tmk_export_layer){
        .node = node,
        .input = node->inputs[0],
        .weight = node->inputs[1],
        .bias = node->n_inputs > 2 ? node->inputs[2] : NULL,
        .output = node->outputs[0],
        .channels = (uint32_t)channels,
        .group = (uint32_t)group,
    };
    out->norm = fold_norms ? norm_behind(out) : NULL;
    if (out->norm)
        out->output = out->norm->outputs[0];
    skip_behind(encodings, out);
    out->in = tmk_encodings_find(encodings, (uint32_t)out->input->profile_id, node->name, 0);
    out->by = tmk_encodings_find(encodings, (uint32_t)out->weight->profile_id, node->name, 1);
    out->out = tmk_encodings_find(encodings, (uint32_t)out->activated->profile_id, NULL, 0);
    /* One a channel means one an output channel. */
    if (out->by && out->by->axis >= 0 && (out->by->axis != axis || out->by->n != channels))
        out->by = NULL;
    return true;
}

enum tmk_status tmk_export_layers_make(const struct tmk_export_job *job, bool fold_norms,
                                       struct tmk_export_layers *out, struct tmk_diag *diag) {
    struct tmk_export_layers layers = {0};
    struct tmk_export_layer layer;
    size_t size = 0;
    for (const struct tmk_node *node = job->graph->first; node; node = node->next) {
        if (!make_layer(job->encodings, node, fold_norms, &layer))
            continue;
        if (!TMK_GROW(layers.items, layers.n, size)) {
            tmk_export_layers_finish(&layers);
            return tmk_nomem(diag);
        }
        layers.items[layers.n++] = layer;
    }
    *out = layers;
    return TMK_OK;
}

void tmk_export_layers_finish(struct tmk_export_layers *layers) {
    free(layers->items);
    *layers = (struct tmk_export_layers){0};
}

void tmk_export_layer_wrote(const struct tmk_export_job *job,
                            const struct tmk_export_layer *layer) {
    tmk_export_wrote(job, layer->in);
    tmk_export_wrote(job, layer->by);
    tmk_export_wrote(job, layer->out);
}

void tmk_export_layer_skip(const struct tmk_export_job *job, const struct tmk_export_layer *layer,
                           const char *why) {
    const struct tmk_encoding *all[] = {layer->in, layer->by, layer->out};
    for (size_t i = 0; i < TMK_COUNT(all); i++)
        if (!tmk_export_is_written(job, all[i]))
            tmk_export_skip(job, all[i], why);
}

float tmk_export_weight_magnitude(const struct tmk_export_layer *layer, uint32_t channel) {
    const struct tmk_encoding *by = layer->by;
    uint32_t c = by->axis < 0 ? 0 : channel;
    float most = fmaxf(-by->low[c], by->high[c]);
    return most > 0 ? most : fmaxf(-by->clip_min[c], by->clip_max[c]);
}

float tmk_export_norm_factor(const struct tmk_export_layer *layer, uint32_t channel) {
    if (!layer->norm)
        return 1;
    const float *scale = norm_input(layer->norm, 1, layer->channels),
                *variance = norm_input(layer->norm, 4, layer->channels);
    return scale[channel] /
           sqrtf(variance[channel] + tmk_node_float(layer->norm, "epsilon", 1e-5f));
}

const char *tmk_export_layer_name(const struct tmk_export_job *job,
                                  const struct tmk_export_layer *layer) {
    const char *original = layer->node->name[0] ? layer->node->name : layer->node->outputs[0]->name;
    const struct tmk_value *ends[] = {layer->activated, layer->output, layer->node->outputs[0]};
    for (size_t i = 0; job->names && i < TMK_COUNT(ends); i++) {
        const char *mapped = tmk_export_names_get(job->names, (uint32_t)ends[i]->profile_id, 0);
        if (mapped)
            return mapped;
    }
    return !job->names || job->names->keep ? (original[0] ? original : NULL) : NULL;
}
