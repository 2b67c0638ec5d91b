/* SPDX-License-Identifier: Apache-2.0 */
/* ncnn-table: what ncnn2int8 reads: for each layer NAME_param_0 with a scale for each
 * output channel, and NAME with the scale of its input. A blank line would end the reader's work,
 * and one of the two without the other leaves every layer float, both without a word. */
#include <string.h>

#include "base/diag.h"
#include "base/map.h"
#include "base/text.h"
#include "export/ncnn.h"
#include "export/rows.h"

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
    struct tmk_text weights, inputs;
    bool six_bits;
    struct tmk_diag *diag;
};

static enum tmk_status put_layer(struct writing *w, const struct tmk_export_layer *layer) {
    const char *name = tmk_export_layer_name(w->job, layer);
    const char *why = tmk_ncnn_unfit(layer);
    struct tmk_ncnn_scales scales;
    if (!why)
        why = !name ? "ncnn's name of the layer is not known" : unfit_name(name);
    if (!why && tmk_map_get(&w->names, name))
        why = "another layer has the same name";
    if (why) {
        tmk_export_layer_skip(w->job, layer, why);
        return TMK_OK;
    }
    if (!tmk_map_put(&w->names, name, (void *)layer))
        return tmk_nomem(w->diag);
    TMK_TRY(tmk_ncnn_scales_make(layer, w->six_bits, &scales, w->diag));
    tmk_text_printf(&w->weights, "%s_param_0", name);
    for (uint32_t i = 0; i < scales.n; i++) {
        tmk_text_puts(&w->weights, " ");
        tmk_json_float_text(&w->weights, scales.weights[i]);
    }
    tmk_text_puts(&w->weights, "\n");
    tmk_text_printf(&w->inputs, "%s ", name);
    tmk_json_float_text(&w->inputs, scales.input);
    tmk_text_puts(&w->inputs, "\n");
    tmk_ncnn_scales_finish(&scales);
    tmk_export_layer_wrote(w->job, layer);
    return TMK_OK;
}

static enum tmk_status put_layers(struct writing *w, const struct tmk_export_layers *layers) {
    for (size_t i = 0; i < layers->n; i++)
        TMK_TRY(put_layer(w, &layers->items[i]));
    tmk_text_append(&w->weights, w->inputs.data ? w->inputs.data : "", w->inputs.len);
    w->weights.failed = w->weights.failed || w->inputs.failed;
    return tmk_export_write(w->job, &w->weights, w->diag);
}

static enum tmk_status write_table(const struct tmk_export_job *job, struct tmk_diag *diag) {
    struct writing w = {.job = job, .diag = diag};
    struct tmk_export_layers layers = {0};
    TMK_TRY(tmk_ncnn_six_bits(job, &w.six_bits, diag));
    TMK_TRY(tmk_export_layers_make(job, true, &layers, diag));
    enum tmk_status status = put_layers(&w, &layers);
    tmk_export_layers_finish(&layers);
    tmk_map_finish(&w.names);
    tmk_text_finish(&w.weights);
    tmk_text_finish(&w.inputs);
    return status;
}

const struct tmk_exporter tmk_exporter_ncnn_table = {
    .name = "ncnn-table",
    .consumer = "ncnn2int8; --names has ncnn's name of a layer under the value that it makes",
    .settings = "winograd=8bit|6bit",
    .needs_graph = true,
    .limits = {.activations = TMK_EXPORT_8,
               .weights = TMK_EXPORT_8,
               .one_scale = true,
               .symmetric = true},
    .write = write_table,
};
