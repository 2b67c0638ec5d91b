/* SPDX-License-Identifier: Apache-2.0 */
#include "export/ncnn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/map.h"
#include "base/text.h"
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

/* ncnn-table: what ncnn2int8 reads: for each layer NAME_param_0 with a scale for each output
 * channel, and NAME with the scale of its input; of layers whose inputs ncnn measures itself
 * NAME_param_0, NAME_param_1, ... A blank line would end the reader's work. One of a layer's lines
 * without the other ends it for all layers of the type, as a missing layer of the latter kind does,
 * and names that the .param does not have are passed over, all without a word. */

enum { LONGEST_KEY = 255 - (int)sizeof "_param_0" };

static const char *unfit_name(const char *name) {
    if (strlen(name) > LONGEST_KEY)
        return "its name is longer than ncnn's keys may be";
    if (strstr(name, "_param_"))
        return "its name holds \"_param_\", which ncnn takes for that of weights";
    return tmk_utf8_valid(name, strlen(name)) ? tmk_export_unfit_word(name)
                                              : "its name is no UTF-8";
}

struct writing {
    const struct tmk_export_job *job;
    struct tmk_map names;
    struct tmk_text weights, inputs, others;
    struct tmk_ncnn_settings settings;
    struct tmk_ncnn_model model; /* of the template */
    struct tmk_diag *diag;
};

static void put_scales(struct tmk_text *out, const char *name, unsigned i, const float *scales,
                       size_t n) {
    tmk_text_printf(out, "%s_param_%u", name, i);
    for (size_t k = 0; k < n; k++) {
        tmk_text_puts(out, " ");
        tmk_json_float_text(out, scales[k]);
    }
    tmk_text_puts(out, "\n");
}

/* factors: NULL, or as the template has them. */
static enum tmk_status put_layer(struct writing *w, const struct tmk_export_layer *layer,
                                 const char *name, tmk_ncnn_factors *factors) {
    const char *why = tmk_ncnn_unfit(layer, factors);
    struct tmk_ncnn_scales scales;
    if (!why)
        why = !name ? "ncnn's name of the layer is not known" : unfit_name(name);
    if (!why && tmk_map_get(&w->names, name))
        why = "another layer has the same name";
    if (why) {
        tmk_export_layer_skip(w->job, layer, why);
        return TMK_OK;
    }
    TMK_TRY_ALLOC(tmk_map_put(&w->names, name, (void *)layer), w->diag);
    TMK_TRY(tmk_ncnn_scales_make(layer, factors, w->settings.six_bits, &scales, w->diag));
    put_scales(&w->weights, name, 0, scales.weights, scales.n);
    tmk_text_printf(&w->inputs, "%s ", name);
    tmk_json_float_text(&w->inputs, scales.input);
    tmk_text_puts(&w->inputs, "\n");
    tmk_ncnn_scales_finish(&scales);
    tmk_export_layer_wrote(w->job, layer);
    return TMK_OK;
}

/* ---- by the template ---- */

/* Weights alone: their largest magnitudes. */
static enum tmk_status put_dynamic(struct writing *w, const struct tmk_ncnn_layer *layer) {
    const char *why = unfit_name(layer->name);
    if (why || !w->settings.dynamic) {
        tmk_export_remark(w->job, "'%s' (%s) and all others of its type stay float: %s",
                          layer->name, layer->type, why ? why : "dynamic=float");
        return TMK_OK;
    }
    for (size_t i = 0, param = 0; i < layer->n_parts; i++) {
        if (!layer->parts[i].scales)
            continue;
        float *scales = tmk_ncnn_dynamic_scales(&w->model, &layer->parts[i]);
        TMK_TRY_ALLOC(scales, w->diag);
        put_scales(&w->others, layer->name, (unsigned)param++, scales, layer->parts[i].scales);
        free(scales);
    }
    return TMK_OK;
}

static enum tmk_status put_matches(struct writing *w, const struct tmk_export_layers *layers,
                                   const struct tmk_ncnn_match *matches) {
    for (size_t i = 0; i < layers->n; i++)
        tmk_export_layer_skip(w->job, &layers->items[i],
                              "no Convolution or InnerProduct of the template has its weights");
    for (size_t i = 0; i < w->model.n; i++) {
        const struct tmk_ncnn_layer *layer = &w->model.layers[i];
        if (tmk_ncnn_is_gemm(layer) && matches[i].ours)
            tmk_export_layer_skip(w->job, matches[i].ours,
                                  "ncnn2int8 gives its Gemm scales by itself");
        else if (layer->int8 == TMK_NCNN_DYNAMIC && !tmk_ncnn_is_gemm(layer))
            TMK_TRY(put_dynamic(w, layer));
        else if (layer->int8 == TMK_NCNN_STATIC && matches[i].ours)
            TMK_TRY(put_layer(w, matches[i].ours, layer->name, matches[i].factors));
    }
    tmk_ncnn_remark(w->job, &w->model, matches);
    return TMK_OK;
}

static enum tmk_status put_template(struct writing *w, const struct tmk_export_layers *layers) {
    struct tmk_ncnn_match *matches = NULL;
    TMK_TRY(tmk_ncnn_model_read(w->job->template, &w->model, w->diag));
    enum tmk_status status = tmk_ncnn_matches_make(&w->model, layers, NULL, &matches, w->diag);
    TMK_THEN(status, put_matches(w, layers, matches));
    tmk_ncnn_matches_finish(matches, w->model.n);
    tmk_ncnn_model_finish(&w->model);
    return status;
}

/* ---- without it ---- */

static enum tmk_status put_by_name(struct writing *w, const struct tmk_export_layers *layers) {
    for (size_t i = 0; i < layers->n; i++)
        TMK_TRY(put_layer(w, &layers->items[i], tmk_export_layer_name(w->job, &layers->items[i]),
                          NULL));
    if (!w->job->names)
        tmk_export_remark(w->job,
                          "layers have the names of the model's nodes: ncnn2int8 silently leaves "
                          "float what has another name in its .param, as after pnnx; "
                          "--template NAME.param finds its names");
    return TMK_OK;
}

static enum tmk_status put_all(struct writing *w, const struct tmk_export_layers *layers) {
    TMK_TRY(w->job->template ? put_template(w, layers) : put_by_name(w, layers));
    tmk_text_append(&w->weights, w->inputs.data ? w->inputs.data : "", w->inputs.len);
    tmk_text_append(&w->weights, w->others.data ? w->others.data : "", w->others.len);
    w->weights.failed = w->weights.failed || w->inputs.failed || w->others.failed;
    if (!w->others.len || w->weights.failed)
        return tmk_export_write(w->job, &w->weights, w->diag);
    /* Without these lines ncnn2int8 leaves their layers float, also where no encoding fits. */
    return tmk_file_write(w->job->path, w->weights.data, w->weights.len, w->diag);
}

static enum tmk_status write_table(const struct tmk_export_job *job, struct tmk_diag *diag) {
    struct writing w = {.job = job, .diag = diag};
    struct tmk_export_layers layers = {0};
    TMK_TRY(tmk_ncnn_settings_read(job, &w.settings, diag));
    TMK_TRY(tmk_export_layers_make(job, true, &layers, diag));
    enum tmk_status status = put_all(&w, &layers);
    tmk_export_layers_finish(&layers);
    tmk_map_finish(&w.names);
    tmk_text_finish(&w.weights);
    tmk_text_finish(&w.inputs);
    tmk_text_finish(&w.others);
    return status;
}

const struct tmk_exporter tmk_exporter_ncnn_table = {
    .name = "ncnn-table",
    .endings = "table txt",
    .consumer = "ncnn2int8; --template NAME.param names its layers, or --names under the value "
                "that each makes",
    .settings = TMK_NCNN_SETTINGS,
    .needs_graph = true,
    .limits = {.activations = TMK_EXPORT_8,
               .weights = TMK_EXPORT_8,
               .one_scale = true,
               .symmetric = true},
    .write = write_table,
};
