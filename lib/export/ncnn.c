/* SPDX-License-Identifier: Apache-2.0 */
#include "export/ncnn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "export/rows.h"

/* Largest magnitude of the weights of an output channel of ncnn's layer; > 0: of zeros any does. */
static float weight_magnitude(const struct tmk_export_layer *layer, tmk_ncnn_factors *factors,
                              uint32_t channel) {
    const float factor = fabsf(factors ? factors[channel] : tmk_export_norm_factor(layer, channel));
    return tmk_export_weight_magnitude(layer, channel) * (factor > 0 ? factor : 1);
}

const char *tmk_ncnn_unfit(const struct tmk_export_layer *layer, tmk_ncnn_factors *factors) {
    if (tmk_node_is(layer->node, TMK_DOMAIN_ONNX, "ConvTranspose"))
        return "ncnn has no deconvolution in int8";
    if (tmk_node_is(layer->node, TMK_DOMAIN_ONNX, "Conv") &&
        tmk_export_constant(layer->weight)->shape.rank != 4)
        return "ncnn's convolutions in int8 have two dimensions";
    if (!layer->in)
        return "the layer's input is left float";
    if (!layer->by)
        return "the layer's weights are left float, or are not encoded by output channel";
    if (!layer->by->symmetric)
        return "ncnn's weights have no zero point";
    if (!isnormal(127 / tmk_export_magnitude(layer->in)))
        return "its input's range is too small or too large for a scale";
    for (uint32_t c = 0; c < layer->channels; c++)
        if (!isnormal(127 / weight_magnitude(layer, factors, c)))
            return "its weights are too small or too large for a scale";
    return NULL;
}

static bool all_are(const struct tmk_node *node, const char *name, int64_t value) {
    size_t n;
    const int64_t *list = tmk_node_ints(node, name, &n);
    for (size_t i = 0; i < n; i++)
        if (list[i] != value)
            return false;
    return true;
}

static bool is_winograd(const struct tmk_export_layer *layer) {
    const struct tmk_shape *shape = &tmk_export_constant(layer->weight)->shape;
    return tmk_node_is(layer->node, TMK_DOMAIN_ONNX, "Conv") && layer->group == 1 &&
           shape->rank == 4 && shape->dim[2] == 3 && shape->dim[3] == 3 &&
           all_are(layer->node, "strides", 1) && all_are(layer->node, "dilations", 1);
}

enum tmk_status tmk_ncnn_scales_make(const struct tmk_export_layer *layer,
                                     tmk_ncnn_factors *factors, bool six_bits,
                                     struct tmk_ncnn_scales *out, struct tmk_diag *diag) {
    uint32_t n = layer->group > 1 ? layer->group : layer->channels;
    float codes = six_bits && is_winograd(layer) ? 31 : 127;
    float *weights = calloc(n, sizeof *weights);
    TMK_TRY_ALLOC(weights, diag);
    for (uint32_t i = 0; i < n; i++) {
        float most = 0;
        for (uint32_t c = i * (layer->channels / n); c < (i + 1) * (layer->channels / n); c++)
            most = fmaxf(most, weight_magnitude(layer, factors, c));
        weights[i] = codes / most;
    }
    *out = (struct tmk_ncnn_scales){weights, n, 127 / tmk_export_magnitude(layer->in)};
    return TMK_OK;
}

void tmk_ncnn_scales_finish(struct tmk_ncnn_scales *scales) {
    free(scales->weights);
    *scales = (struct tmk_ncnn_scales){0};
}

enum tmk_status tmk_ncnn_settings_read(const struct tmk_export_job *job,
                                       struct tmk_ncnn_settings *out, struct tmk_diag *diag) {
    const char *winograd = tmk_export_setting(job, "winograd", "8bit");
    const char *dynamic = tmk_export_setting(job, "dynamic", "int8");
    if (strcmp(winograd, "8bit") != 0 && strcmp(winograd, "6bit") != 0)
        return tmk_fail(diag, TMK_ARGUMENT, "winograd=%s: 8bit or 6bit was expected", winograd);
    if (strcmp(dynamic, "int8") != 0 && strcmp(dynamic, "float") != 0)
        return tmk_fail(diag, TMK_ARGUMENT, "dynamic=%s: int8 or float was expected", dynamic);
    *out = (struct tmk_ncnn_settings){winograd[0] == '6', dynamic[0] == 'i'};
    return TMK_OK;
}
