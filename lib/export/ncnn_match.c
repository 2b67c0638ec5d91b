/* SPDX-License-Identifier: Apache-2.0 */
/* Converters to ncnn give layers and blobs names of their own, so layers are found by their
 * weights. What stands around a layer may have been put into them: each output channel may be ours
 * times one factor. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "export/ncnn.h"
#include "ops/ops.h"

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
