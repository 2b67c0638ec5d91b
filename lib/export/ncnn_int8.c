/* SPDX-License-Identifier: Apache-2.0 */
/* ncnn-int8: the .param and .bin that ncnn2int8 would make of the template and our table: a
 * quantized layer has its codes under the tag of int8, what else it keeps, the scales of its
 * weights and of its input, and in its line 8=2 (grouped convolutions: 8=1; embeddings and
 * attention: 18=2). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/map.h"
#include "base/size.h"
#include "export/exporter.h"
#include "export/ncnn.h"
#include "ops/ops.h"

struct writing {
    const struct tmk_export_job *job;
    struct tmk_ncnn_model model;
    struct tmk_export_layers layers;
    struct tmk_map by_blob; /* the consumer's name of an output -> struct tmk_export_layer */
    struct tmk_ncnn_match *matches;
    struct tmk_text param, bin;
    size_t n;
    struct tmk_ncnn_settings settings;
    struct tmk_diag *diag;
};

/* Round half away from zero, as ncnn does. */
static signed char int8_code(float real) {
    return (signed char)fmaxf(-127, fminf(127, roundf(real)));
}

static void put_bytes(struct writing *w, const void *bytes, size_t len) {
    tmk_text_append(&w->bin, bytes, len);
}

static void put_codes(struct writing *w, const float *weights, uint64_t count, const float *scales,
                      uint64_t n) {
    static const char zeros[3];
    const uint32_t tag = TMK_NCNN_CODES;
    put_bytes(w, &tag, sizeof tag);
    for (uint64_t i = 0; i < count; i++) {
        signed char q = int8_code(weights[i] * scales[i / (count / n)]);
        put_bytes(w, &q, 1);
    }
    put_bytes(w, zeros, (size_t)(-count & 3));
}

static void put_part(struct writing *w, const struct tmk_ncnn_part *part) {
    put_bytes(w, (const char *)tmk_buf_data(w->model.bin) + part->offset, part->size);
}

static enum tmk_status put_quantized_part(struct writing *w, const struct tmk_ncnn_part *part,
                                          const float *scales) {
    float *numbers = tmk_ncnn_numbers(&w->model, part);
    TMK_TRY_ALLOC(numbers, w->diag);
    put_codes(w, numbers, part->count, scales, part->scales);
    free(numbers);
    return TMK_OK;
}

/* The line, with `key`=`value` behind it, where key is not 0. */
static void put_line(struct writing *w, const struct tmk_ncnn_layer *layer, int key, int value) {
    tmk_text_append(&w->param, layer->line, layer->len);
    if (key)
        tmk_text_printf(&w->param, " %d=%d", key, value);
    tmk_text_puts(&w->param, "\n");
}

static enum tmk_status put_static(struct writing *w, const struct tmk_ncnn_layer *layer,
                                  const struct tmk_ncnn_scales *scales) {
    TMK_TRY(put_quantized_part(w, &layer->parts[0], scales->weights));
    for (size_t i = 1; i < layer->n_parts; i++)
        put_part(w, &layer->parts[i]);
    put_bytes(w, scales->weights, scales->n * sizeof *scales->weights);
    put_bytes(w, &scales->input, sizeof scales->input);
    put_line(w, layer, 8, strcmp(layer->type, "ConvolutionDepthWise") == 0 ? 1 : 2);
    w->n++;
    return TMK_OK;
}

static void put_as_it_is(struct writing *w, const struct tmk_ncnn_layer *layer) {
    for (size_t i = 0; i < layer->n_parts; i++)
        put_part(w, &layer->parts[i]);
    put_line(w, layer, 0, 0);
}

/* Of Gemm, one scale for the weights of all outputs. */
static enum tmk_status set_gemm_scale(struct writing *w, const struct tmk_ncnn_match *match,
                                      float *scale) {
    struct tmk_ncnn_scales scales;
    const char *why = tmk_ncnn_unfit(match->ours, match->factors);
    if (why) {
        tmk_export_layer_skip(w->job, match->ours, why);
        return TMK_OK;
    }
    TMK_TRY(tmk_ncnn_scales_make(match->ours, match->factors, false, &scales, w->diag));
    *scale = scales.weights[0];
    for (uint32_t i = 1; i < scales.n; i++)
        *scale = fminf(*scale, scales.weights[i]);
    tmk_ncnn_scales_finish(&scales);
    tmk_export_wrote(w->job, match->ours->by);
    tmk_export_layer_skip(w->job, match->ours, "ncnn measures what its Gemm reads as it runs");
    return TMK_OK;
}

static enum tmk_status put_dynamic(struct writing *w, const struct tmk_ncnn_layer *layer,
                                   const struct tmk_ncnn_match *match) {
    const bool cell = layer->n_parts > 1 && strcmp(layer->type, "Embed") != 0 &&
                      strcmp(layer->type, "MultiHeadAttention") != 0 && !tmk_ncnn_is_gemm(layer);
    float *scales[TMK_NCNN_PARTS] = {NULL};
    enum tmk_status status = TMK_OK;
    for (size_t i = 0; i < layer->n_parts && status == TMK_OK; i++) {
        const struct tmk_ncnn_part *part = &layer->parts[i];
        if (!part->scales) {
            put_part(w, part);
            continue;
        }
        scales[i] = tmk_ncnn_dynamic_scales(&w->model, part);
        status = scales[i] ? TMK_OK : tmk_nomem(w->diag);
        if (status == TMK_OK && match->ours)
            status = set_gemm_scale(w, match, scales[i]);
        TMK_THEN(status, put_quantized_part(w, part, scales[i]));
    }
    for (size_t i = 0; i < layer->n_parts; i++) {
        put_bytes(w, scales[i], scales[i] ? layer->parts[i].scales * sizeof *scales[i] : 0);
        free(scales[i]);
    }
    put_line(w, layer, cell ? 8 : 18, 2);
    w->n++;
    return status;
}

static enum tmk_status put_layer(struct writing *w, const struct tmk_ncnn_layer *layer,
                                 const struct tmk_ncnn_match *match) {
    const struct tmk_export_layer *ours = match->ours;
    const char *why = ours ? tmk_ncnn_unfit(ours, match->factors) : NULL;
    struct tmk_ncnn_scales scales;
    if (layer->int8 == TMK_NCNN_DYNAMIC && w->settings.dynamic)
        return put_dynamic(w, layer, match);
    if (ours && layer->int8 == TMK_NCNN_DYNAMIC)
        why = "dynamic=float leaves ncnn's Gemm float";
    if (why)
        tmk_export_layer_skip(w->job, ours, why);
    if (!ours || why) {
        put_as_it_is(w, layer);
        return TMK_OK;
    }
    TMK_TRY(tmk_ncnn_scales_make(ours, match->factors, w->settings.six_bits, &scales, w->diag));
    enum tmk_status status = put_static(w, layer, &scales);
    tmk_ncnn_scales_finish(&scales);
    tmk_export_layer_wrote(w->job, ours);
    return status;
}

/* By its output, before or behind the activation that ncnn may have put into it. */
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
    for (size_t i = 0; i < w->layers.n; i++)
        tmk_export_layer_skip(w->job, &w->layers.items[i],
                              w->job->names
                                  ? "ncnn's layer of this name has other weights, or there is none"
                                  : "no Convolution or InnerProduct of the template has its "
                                    "weights");
    tmk_text_append(&w->param, w->model.head, w->model.head_len);
    for (size_t i = 0; i < w->model.n; i++)
        TMK_TRY(put_layer(w, &w->model.layers[i], &w->matches[i]));
    tmk_ncnn_remark(w->job, &w->model, w->matches);
    if (!w->n)
        return tmk_fail(w->diag, TMK_NOTFOUND,
                        "no layer of %s could be quantized; nothing was "
                        "written",
                        w->job->template);
    return TMK_OK;
}

static enum tmk_status write_int8(const struct tmk_export_job *job, struct tmk_diag *diag) {
    struct writing w = {.job = job, .diag = diag};
    TMK_TRY(tmk_ncnn_settings_read(job, &w.settings, diag));
    TMK_TRY(tmk_ncnn_model_read(job->template, &w.model, diag));
    enum tmk_status status = tmk_export_layers_make(job, true, &w.layers, diag);
    if (status == TMK_OK && job->names)
        status = name_layers(&w);
    TMK_THEN(status, tmk_ncnn_matches_make(&w.model, &w.layers, job->names ? &w.by_blob : NULL,
                                           &w.matches, diag));
    TMK_THEN(status, put_all(&w));
    TMK_THEN(status, tmk_export_write_pair(job, ".param", &w.param, &w.bin, diag));
    tmk_ncnn_matches_finish(w.matches, w.model.n);
    tmk_map_finish(&w.by_blob);
    tmk_export_layers_finish(&w.layers);
    tmk_ncnn_model_finish(&w.model);
    tmk_text_finish(&w.param);
    tmk_text_finish(&w.bin);
    return status;
}

const struct tmk_exporter tmk_exporter_ncnn_int8 = {
    .name = "ncnn-int8",
    .endings = "param txt",
    .writes_model = true,
    .consumer = "ncnn: OUT.param and OUT.bin in int8, from --template NAME.param with its .bin",
    .settings = TMK_NCNN_SETTINGS,
    .needs_graph = true,
    .needs_template = true,
    .limits = {.activations = TMK_EXPORT_8,
               .weights = TMK_EXPORT_8,
               .one_scale = true,
               .symmetric = true},
    .write = write_int8,
};

/* Converters to ncnn give layers and blobs names of their own, so layers are found by their
 * weights. What stands around a layer may have been put into them: each output channel may be ours
 * times one factor. */

/* More than the share of a row's square that rounding to half precision takes away; other weights
 * are not proportional by chance. Converters write 0 for what half precision has as a denormal. */
static const double apart = 1e-5, factors_apart = 2e-3, smallest_half = 0x1p-14;

struct matching {
    const struct tmk_ncnn_model *model;
    const struct tmk_export_layers *layers;
    const struct tmk_map *names;
    struct tmk_ncnn_match *matches;
    bool *taken; /* [layers->n] */
    struct tmk_diag *diag;
};

/* Row `channel` of theirs is ours times *factor. */
static bool is_proportional(const struct tmk_export_layer *ours, const float *theirs,
                            uint64_t channel, uint64_t each, bool half, float *factor) {
    const float *numbers = tmk_export_constant(ours->weight)->data;
    const bool rows = tmk_op_weight_axis(ours->node) == 0;
    double both = 0, a = 0, b = 0;
    for (uint64_t i = 0; i < each; i++) {
        const double x = numbers[rows ? channel * each + i : i * ours->channels + channel];
        const double y = theirs[channel * each + i];
        both += x * y;
        a += x * x;
        b += y * y;
    }
    const float wanted = tmk_export_norm_factor(ours, (uint32_t)channel);
    if (a == 0 || b == 0) {
        *factor = b == 0 && a > 0 ? 0 : wanted;
        return b == 0;
    }
    const double found = both / a;
    *factor = fabs(found - wanted) <= factors_apart * fabs(wanted) ? wanted
              : fabs(found - 1) <= factors_apart                   ? 1
                                                                   : (float)found;
    const double flushed = half ? (double)each * smallest_half * smallest_half : 0;
    return b - both * found <= apart * b + flushed;
}

/* How many channels have a factor that nothing explains; -1: it is another layer. */
static int64_t strangeness(const struct tmk_ncnn_layer *layer, const struct tmk_export_layer *ours,
                           const float *theirs, float *factors) {
    const uint64_t count = layer->parts[0].count;
    const bool grouped = strcmp(layer->type, "ConvolutionDepthWise") == 0;
    const bool half = layer->parts[0].tag == TMK_NCNN_HALF;
    int64_t strange = 0;
    if (tmk_node_is(ours->node, TMK_DOMAIN_ONNX, "ConvTranspose") || grouped != (ours->group > 1) ||
        (uint64_t)tmk_tensor_count(tmk_export_constant(ours->weight)) != count ||
        (layer->int8 == TMK_NCNN_STATIC &&
         layer->parts[0].scales != (grouped ? ours->group : ours->channels)))
        return -1;
    for (uint32_t c = 0; c < ours->channels; c++) {
        if (!is_proportional(ours, theirs, c, count / ours->channels, half, &factors[c]))
            return -1;
        strange += factors[c] != 1 && factors[c] != tmk_export_norm_factor(ours, c);
    }
    return strange;
}

/* The best of those that no other layer has, else of all: converters repeat what is used twice. */
static enum tmk_status match_layer(struct matching *m, const struct tmk_ncnn_layer *layer,
                                   const float *theirs, struct tmk_ncnn_match *out) {
    const struct tmk_export_layer *named =
        m->names && layer->top ? tmk_map_get(m->names, layer->top) : NULL;
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < m->layers->n; i++) {
        const struct tmk_export_layer *ours = &m->layers->items[i];
        if (m->names && ours != named)
            continue;
        float *factors = calloc(ours->channels, sizeof *factors);
        TMK_TRY_ALLOC(factors, m->diag);
        int64_t strange = strangeness(layer, ours, theirs, factors);
        if (strange >= 0 && m->taken[i])
            strange += ours->channels + (int64_t)1;
        if (strange >= 0 && strange < least) {
            least = strange;
            free(out->factors);
            *out = (struct tmk_ncnn_match){ours, factors};
        } else {
            free(factors);
        }
    }
    if (out->ours)
        m->taken[out->ours - m->layers->items] = true;
    return TMK_OK;
}

static enum tmk_status match_all(struct matching *m) {
    for (size_t i = 0; i < m->model->n; i++) {
        const struct tmk_ncnn_layer *layer = &m->model->layers[i];
        if (layer->int8 != TMK_NCNN_STATIC && !tmk_ncnn_is_gemm(layer))
            continue;
        float *theirs = tmk_ncnn_numbers(m->model, &layer->parts[0]);
        TMK_TRY_ALLOC(theirs, m->diag);
        enum tmk_status status = match_layer(m, layer, theirs, &m->matches[i]);
        free(theirs);
        TMK_TRY(status);
    }
    return TMK_OK;
}

enum tmk_status tmk_ncnn_matches_make(const struct tmk_ncnn_model *model,
                                      const struct tmk_export_layers *layers,
                                      const struct tmk_map *names, struct tmk_ncnn_match **out,
                                      struct tmk_diag *diag) {
    struct matching m = {model, layers, names, NULL, NULL, diag};
    m.matches = calloc(model->n + 1, sizeof *m.matches);
    m.taken = calloc(layers->n + 1, sizeof *m.taken);
    enum tmk_status status = m.matches && m.taken ? match_all(&m) : tmk_nomem(diag);
    free(m.taken);
    if (status == TMK_OK)
        *out = m.matches;
    else
        tmk_ncnn_matches_finish(m.matches, model->n);
    return status;
}

void tmk_ncnn_remark(const struct tmk_export_job *job, const struct tmk_ncnn_model *model,
                     const struct tmk_ncnn_match *matches) {
    for (size_t i = 0; i < model->n; i++) {
        const struct tmk_ncnn_layer *layer = &model->layers[i];
        if (layer->int8 == TMK_NCNN_STATIC && !matches[i].ours)
            tmk_export_remark(job, "'%s' (%s) stays float: no layer of ours has its weights",
                              layer->name, layer->type);
        if (strcmp(layer->type, "SDPA") == 0)
            tmk_export_remark(job,
                              "'%s' (SDPA) has no place for scales: ncnn measures both of its "
                              "inputs",
                              layer->name);
    }
}

void tmk_ncnn_matches_finish(struct tmk_ncnn_match *matches, size_t n) {
    for (size_t i = 0; matches && i < n; i++)
        free(matches[i].factors);
    free(matches);
}
