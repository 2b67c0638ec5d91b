/* SPDX-License-Identifier: Apache-2.0 */
/* tidl: Texas Instruments' TIDLNetQuantParams as prototxt, for
 * quant_params_proto_path: each layer by the name of its output, with the ranges of its output, its
 * weights and its bias. Its reader takes min and max, and the bias's values; symmetric only. */
#include <math.h>

#include "base/diag.h"
#include "base/size.h"
#include "export/layers.h"
#include "export/rows.h"

struct writing {
    const struct tmk_export_job *job;
    struct tmk_text layers;
    size_t n;
};

/* In text_format's escapes. */
static void put_string(struct tmk_text *out, const char *text) {
    tmk_text_puts(out, "\"");
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\')
            tmk_text_printf(out, "\\%c", *c);
        else if ((unsigned char)*c < 0x20 || *c == 0x7f)
            tmk_text_printf(out, "\\%03o", (unsigned char)*c);
        else
            tmk_text_append(out, c, 1);
    }
    tmk_text_puts(out, "\"");
}

static void put_number(struct tmk_text *out, const char *key, float value) {
    tmk_text_printf(out, "    %s: ", key);
    tmk_json_float_text(out, value);
    tmk_text_puts(out, "\n");
}

/* Opens a range; the caller closes it. */
static void put_range(struct tmk_text *out, const char *key, float low, float high, size_t size) {
    float most = fmaxf(-low, high);
    tmk_text_printf(out, "  %s {\n", key);
    put_number(out, "min", low);
    put_number(out, "max", high);
    tmk_text_printf(out, "    size: %zu\n    element_type: 0\n", size);
    put_number(out, "scale", most > 0 && isnormal(127 / most) ? 127 / most : 1);
    tmk_text_puts(out, "    zero_point: 0\n");
}

static void put_encoded(struct tmk_text *out, const char *key, const struct tmk_encoding *e) {
    float low, high;
    tmk_export_range(e, &low, &high);
    put_range(out, key, low, high, 1);
    tmk_text_puts(out, "  }\n");
}

static void put_bias(struct tmk_text *out, const struct tmk_tensor *bias) {
    const float *values = bias->data;
    size_t n = tmk_tensor_count(bias);
    float low = 0, high = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(values[i]))
            return;
        low = fminf(low, values[i]);
        high = fmaxf(high, values[i]);
    }
    put_range(out, "bias", low, high, n);
    for (size_t i = 0; i < n; i++)
        put_number(out, "value", values[i]);
    tmk_text_puts(out, "  }\n");
}

static void begin_layer(struct writing *w, const char *name, const char *type,
                        const struct tmk_encoding *e) {
    tmk_text_puts(&w->layers, "layers {\n  layer_name: ");
    put_string(&w->layers, name);
    tmk_text_printf(&w->layers, "\n  layer_type: \"%s\"\n  bit_depth: %u\n", type,
                    tmk_export_bits(e));
    put_encoded(&w->layers, "outputs", e);
    w->n++;
}

/* TIDL's name of an operator without weights; NULL: not known here. */
static const char *type_of(const struct tmk_node *node) {
    static const char *const types[][2] = {
        {"Add", "TIDL_EltWiseLayer"},
        {"Mul", "TIDL_EltWiseLayer"},
        {"MaxPool", "TIDL_PoolingLayer"},
        {"AveragePool", "TIDL_PoolingLayer"},
        {"GlobalAveragePool", "TIDL_PoolingLayer"},
        {"Concat", "TIDL_ConcatLayer"},
        {"Relu", "TIDL_ReLULayer"},
        {"PRelu", "TIDL_PReLULayer"},
        {"BatchNormalization", "TIDL_BatchNormLayer"},
        {"Softmax", "TIDL_SoftMaxLayer"},
        {"Slice", "TIDL_SliceLayer"},
        {"Split", "TIDL_SliceLayer"},
        {"Resize", "TIDL_ResizeLayer"},
        {"Flatten", "TIDL_FlattenLayer"},
        {"Reshape", "TIDL_ReshapeLayer"},
        {"Pad", "TIDL_PadLayer"},
    };
    for (size_t i = 0; i < TMK_COUNT(types); i++)
        if (tmk_node_is(node, TMK_DOMAIN_ONNX, types[i][0]))
            return types[i][1];
    return NULL;
}

static const char *weighted_type(const struct tmk_node *node) {
    return tmk_node_is(node, TMK_DOMAIN_ONNX, "Conv")            ? "TIDL_ConvolutionLayer"
           : tmk_node_is(node, TMK_DOMAIN_ONNX, "ConvTranspose") ? "TIDL_Deconv2DLayer"
                                                                 : "TIDL_InnerProductLayer";
}

static const struct tmk_export_layer *layer_of(const struct tmk_export_layers *layers,
                                               uint32_t id) {
    for (size_t i = 0; i < layers->n; i++)
        if (layers->items[i].activated->profile_id == (int64_t)id)
            return &layers->items[i];
    return NULL;
}

static const struct tmk_value *value_of(const struct tmk_graph *graph, uint32_t id) {
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (tmk_value_alive(graph->values[i]) && graph->values[i]->profile_id == (int64_t)id)
            return graph->values[i];
    return NULL;
}

static void put_row(struct writing *w, const struct tmk_export_row *row,
                    const struct tmk_export_layers *layers) {
    const struct tmk_encoding *e = row->encoding;
    const struct tmk_value *value = value_of(w->job->graph, e->id);
    const struct tmk_export_layer *layer = layer_of(layers, e->id);
    const char *type = !value                            ? NULL
                       : value->kind == TMK_VALUE_INPUT  ? "TIDL_DataLayer"
                       : layer                           ? weighted_type(layer->node)
                       : value->kind == TMK_VALUE_RESULT ? type_of(value->producer)
                                                         : NULL;
    if (!type || (layer && !layer->by)) {
        tmk_export_skip(w->job, e,
                        !value  ? "it is in a sub-graph"
                        : !type ? "TIDL's name of the layer that makes it is not known"
                                : "the layer's weights are left float, or are not encoded by "
                                  "output channel");
        return;
    }
    begin_layer(w, row->name, type, e);
    if (layer) {
        tmk_export_layer_wrote(w->job, layer);
        const struct tmk_tensor *bias = layer->bias ? tmk_export_constant(layer->bias) : NULL;
        put_range(&w->layers, "weights", fminf(layer->by->observed_min, 0),
                  fmaxf(layer->by->observed_max, 0), 1);
        tmk_text_puts(&w->layers, "  }\n");
        if (bias && bias->dtype == TMK_FLOAT32)
            put_bias(&w->layers, bias);
    }
    tmk_text_puts(&w->layers, "}\n");
}

static enum tmk_status put_tidl(const struct tmk_export_job *job, struct tmk_export_rows *rows,
                                struct tmk_text *out, struct tmk_diag *diag) {
    struct writing w = {.job = job};
    struct tmk_export_layers layers = {0};
    TMK_TRY(tmk_export_layers_make(job, false, &layers, diag));
    for (size_t i = 0; i < rows->n; i++)
        put_row(&w, &rows->items[i], &layers);
    tmk_text_printf(out, "num_layers: %zu\nquant_type: SYMMETRIC\ncalib_type: PERTENSOR\n", w.n);
    tmk_text_append(out, w.layers.data ? w.layers.data : "", w.layers.len);
    out->failed = out->failed || w.layers.failed;
    tmk_text_finish(&w.layers);
    tmk_export_layers_finish(&layers);
    return TMK_OK;
}

static const struct tmk_export_text tidl_text = {
    .wants = {.fused = true, .unfit = tmk_export_unfit_codes}, .put = put_tidl};

const struct tmk_exporter tmk_exporter_tidl = {
    .name = "tidl",
    .endings = "prototxt txt",
    .consumer = "TI's TIDL: advanced_options:quant_params_proto_path",
    .settings = "",
    .needs_graph = true,
    .limits = {.activations = TMK_EXPORT_INTEGERS,
               .weights = TMK_EXPORT_INTEGERS,
               .one_scale = true,
               .symmetric = true},
    .text = &tidl_text,
};
