/* SPDX-License-Identifier: Apache-2.0 */
/* ncnn-int8: the .param and .bin that ncnn2int8 would make of the template and our table: a
 * quantized layer has its codes under the tag of int8, its bias, the scales of its weights and of
 * its input, and 8=2 (grouped convolutions: 8=1) in its line. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/map.h"
#include "base/size.h"
#include "export/ncnn.h"
#include "export/pair.h"

enum { TAG_INT8 = 0x000d4b38 };

struct writing {
    const struct tmk_export_job *job;
    struct tmk_ncnn_model model;
    struct tmk_export_layers layers;
    struct tmk_map by_blob; /* the consumer's name of an output -> struct tmk_export_layer */
    struct tmk_text param, bin;
    size_t n;
    bool six_bits;
    struct tmk_diag *diag;
};

/* Round half away from zero, as ncnn does. */
static signed char int8_code(float real) {
    return (signed char)fmaxf(-127, fminf(127, roundf(real)));
}

static void put_bytes(struct writing *w, const void *bytes, size_t len) {
    tmk_text_append(&w->bin, bytes, len);
}

static void put_codes(struct writing *w, const float *weights, uint64_t count,
                      const struct tmk_ncnn_scales *scales) {
    static const char zeros[3];
    const uint32_t tag = TAG_INT8;
    uint64_t each = count / scales->n;
    put_bytes(w, &tag, sizeof tag);
    for (uint64_t i = 0; i < count; i++) {
        signed char q = int8_code(weights[i] * scales->weights[i / each]);
        put_bytes(w, &q, 1);
    }
    put_bytes(w, zeros, (size_t)(-count & 3));
}

static enum tmk_status put_quantized(struct writing *w, const struct tmk_ncnn_layer *layer,
                                     const struct tmk_ncnn_scales *scales) {
    size_t all;
    if (!tmk_add_size((size_t)layer->weights, (size_t)layer->bias, &all))
        return tmk_nomem(w->diag);
    float *numbers = calloc(all + 1, sizeof *numbers);
    if (!numbers)
        return tmk_nomem(w->diag);
    tmk_ncnn_numbers(&w->model, layer, numbers, numbers + layer->weights);
    put_codes(w, numbers, layer->weights, scales);
    put_bytes(w, numbers + layer->weights, (size_t)layer->bias * sizeof *numbers);
    put_bytes(w, scales->weights, scales->n * sizeof *scales->weights);
    put_bytes(w, &scales->input, sizeof scales->input);
    tmk_text_append(&w->param, layer->line, layer->len);
    tmk_text_puts(&w->param,
                  strcmp(layer->type, "ConvolutionDepthWise") == 0 ? " 8=1\n" : " 8=2\n");
    free(numbers);
    w->n++;
    return TMK_OK;
}

static void put_as_it_is(struct writing *w, const struct tmk_ncnn_layer *layer) {
    put_bytes(w, (const char *)tmk_buf_data(w->model.bin) + layer->offset, layer->size);
    tmk_text_append(&w->param, layer->line, layer->len);
    tmk_text_puts(&w->param, "\n");
}

/* Not the layer that we know by this name: NULL, or why. */
static const char *difference_of(const struct tmk_ncnn_layer *theirs,
                                 const struct tmk_export_layer *ours) {
    bool grouped = strcmp(theirs->type, "ConvolutionDepthWise") == 0;
    if (tmk_tensor_count(tmk_export_constant(ours->weight)) != theirs->weights)
        return "ncnn's layer has another number of weights";
    return grouped == (ours->group > 1) ? NULL : "ncnn's layer has other groups";
}

/* A BatchNormalization that ncnn has as a layer of its own changes no weights. */
static bool is_before_norm(const struct writing *w, const struct tmk_ncnn_layer *theirs,
                           const struct tmk_export_layer *ours) {
    const struct tmk_value *own = ours->node->outputs[0];
    const char *name = tmk_export_name(w->job, (uint32_t)own->profile_id, own->name);
    return ours->norm && name && strcmp(name, theirs->top) == 0;
}

static enum tmk_status put_layer(struct writing *w, const struct tmk_ncnn_layer *layer) {
    const struct tmk_export_layer *ours =
        layer->quantizable && layer->top ? tmk_map_get(&w->by_blob, layer->top) : NULL;
    struct tmk_export_layer alone;
    if (ours && is_before_norm(w, layer, ours)) {
        alone = *ours;
        alone.norm = NULL;
        ours = &alone;
    }
    const char *why = ours ? difference_of(layer, ours) : NULL;
    struct tmk_ncnn_scales scales;
    if (ours && !why)
        why = tmk_ncnn_unfit(ours);
    if (ours && why)
        tmk_export_layer_skip(w->job, ours, why);
    if (layer->quantizable && !ours)
        tmk_export_remark(w->job, "'%s' stays float: no value of ours is called '%s'", layer->name,
                          layer->top ? layer->top : "");
    if (!ours || why) {
        put_as_it_is(w, layer);
        return TMK_OK;
    }
    TMK_TRY(tmk_ncnn_scales_make(ours, w->six_bits, &scales, w->diag));
    enum tmk_status status = put_quantized(w, layer, &scales);
    tmk_ncnn_scales_finish(&scales);
    tmk_export_layer_wrote(w->job, ours);
    return status;
}

/* A layer is found by its output, before or behind the activation that ncnn may have put into it.
 */
static enum tmk_status name_layers(struct writing *w) {
    for (size_t i = 0; i < w->layers.n; i++) {
        const struct tmk_export_layer *layer = &w->layers.items[i];
        const struct tmk_value *ends[] = {layer->node->outputs[0], layer->output, layer->activated};
        for (size_t k = 0; k < TMK_COUNT(ends); k++) {
            const char *name =
                tmk_export_name(w->job, (uint32_t)ends[k]->profile_id, ends[k]->name);
            if (name && !tmk_map_put(&w->by_blob, name, (void *)layer))
                return tmk_nomem(w->diag);
        }
    }
    return TMK_OK;
}

static enum tmk_status put_all(struct writing *w) {
    tmk_text_append(&w->param, w->model.head, w->model.head_len);
    for (size_t i = 0; i < w->model.n; i++)
        TMK_TRY(put_layer(w, &w->model.layers[i]));
    if (!w->n)
        return tmk_fail(w->diag, TMK_NOTFOUND,
                        "no layer of %s could be quantized; nothing was "
                        "written",
                        w->job->template);
    return TMK_OK;
}

static enum tmk_status write_int8(const struct tmk_export_job *job, struct tmk_diag *diag) {
    struct writing w = {.job = job, .diag = diag};
    TMK_TRY(tmk_ncnn_six_bits(job, &w.six_bits, diag));
    TMK_TRY(tmk_ncnn_model_read(job->template, &w.model, diag));
    enum tmk_status status = tmk_export_layers_make(job, true, &w.layers, diag);
    if (status == TMK_OK)
        status = name_layers(&w);
    if (status == TMK_OK)
        status = put_all(&w);
    if (status == TMK_OK)
        status = tmk_export_write_pair(job, ".param", &w.param, &w.bin, diag);
    tmk_map_finish(&w.by_blob);
    tmk_export_layers_finish(&w.layers);
    tmk_ncnn_model_finish(&w.model);
    tmk_text_finish(&w.param);
    tmk_text_finish(&w.bin);
    return status;
}

const struct tmk_exporter tmk_exporter_ncnn_int8 = {
    .name = "ncnn-int8",
    .consumer = "ncnn: OUT.param and OUT.bin in int8, from --template NAME.param with its .bin",
    .settings = "winograd=8bit|6bit",
    .needs_graph = true,
    .needs_template = true,
    .limits = {.activations = TMK_EXPORT_8,
               .weights = TMK_EXPORT_8,
               .one_scale = true,
               .symmetric = true},
    .write = write_int8,
};
