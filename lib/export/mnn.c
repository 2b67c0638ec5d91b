/* SPDX-License-Identifier: Apache-2.0 */
/* mnn: MNN's compression parameters as JSON, for --compressionParamsFile. A layer is
 * found by the name of its output; one that is not found stays float without a word, so that names
 * must be MNN's own: an output of the network is called NAME__before_tr there. */
#include "base/diag.h"
#include "export/layers.h"
#include "export/rows.h"

enum { MIDDLE = 128 }; /* of unsigned codes: MNN counts from -128 */

static int64_t zero_point(const struct tmk_encoding *e) {
    return e->zero_point[0] - (tmk_export_is_signed(e) ? 0 : MIDDLE);
}

static struct tmk_json_out tensor_object(const char *name, const struct tmk_encoding *e,
                                         bool weight) {
    struct tmk_json_out array = tmk_json_new_array(), one = tmk_json_new_object(),
                        scales = tmk_json_new_array();
    int64_t zero = zero_point(e);
    for (uint32_t i = 0; i < e->n; i++)
        tmk_json_put_float(&scales, NULL, e->scale[i]);
    tmk_json_put_text(&one, "name", name);
    tmk_json_put_u64(&one, "bits", tmk_export_bits(e));
    tmk_json_put_child(&one, "scales", &scales);
    if (!weight)
        tmk_json_put_i64(&one, "zeroPoint", zero);
    tmk_json_put_i64(&one, "clampMin", zero || !tmk_export_is_signed(e) ? -128 : -127);
    tmk_json_put_i64(&one, "clampMax", 127);
    tmk_json_put_child(&array, NULL, &one);
    return array;
}

static const char *unfit_reason(const struct tmk_export_layer *layer, const char *const names[3]) {
    const struct tmk_encoding *all[] = {layer->in, layer->by, layer->out};
    for (int i = 0; i < 3; i++) {
        if (!all[i])
            return i == 0   ? "the layer's input is left float"
                   : i == 1 ? "the layer's weights are left float, or are not encoded by output "
                              "channel"
                            : "the layer's output is left float";
        if (tmk_export_unfit_codes(all[i]))
            return tmk_export_unfit_codes(all[i]);
        if (!names[i])
            return "MNN's names of its tensors are not known";
    }
    return layer->by->symmetric ? NULL : "MNN's weights have no zero point";
}

static enum tmk_status put_layer(const struct tmk_export_layer *layer, const char *const names[3],
                                 struct tmk_text *out, struct tmk_diag *diag) {
    struct tmk_json_out one = tmk_json_new_object();
    struct tmk_json_out input = tensor_object(names[0], layer->in, false),
                        weight = tensor_object(names[1], layer->by, true),
                        output = tensor_object(names[2], layer->out, false);
    tmk_json_put_child(&one, "input", &input);
    tmk_json_put_child(&one, "weight", &weight);
    tmk_json_put_child(&one, "output", &output);
    return tmk_json_finish(&one, out, diag);
}

static enum tmk_status put_layers(const struct tmk_export_job *job,
                                  const struct tmk_export_layers *layers, struct tmk_text *out,
                                  struct tmk_diag *diag) {
    size_t n = 0;
    tmk_text_puts(out, "{\"version\":\"0.0.0\",\"algo\":[{\"type\":\"QUANTIZE\",\"quantParams\":"
                       "{\"roundMode\":\"ROUND_HALF_TO_EVEN\",\"layer\":[\n");
    for (size_t i = 0; i < layers->n; i++) {
        const struct tmk_export_layer *layer = &layers->items[i];
        const struct tmk_value *values[] = {layer->input, layer->weight, layer->activated};
        const char *names[3];
        for (int k = 0; k < 3; k++)
            names[k] = tmk_export_name(job, (uint32_t)values[k]->profile_id, values[k]->name);
        const char *why = unfit_reason(layer, names);
        if (why) {
            tmk_export_layer_skip(job, layer, why);
            continue;
        }
        tmk_export_layer_wrote(job, layer);
        tmk_text_puts(out, n++ ? ",\n" : "");
        TMK_TRY(put_layer(layer, names, out, diag));
    }
    tmk_text_puts(out, "\n]}}]}\n");
    return tmk_export_write(job, out, diag);
}

static enum tmk_status write_mnn(const struct tmk_export_job *job, struct tmk_diag *diag) {
    struct tmk_export_layers layers = {0};
    struct tmk_text out = {0};
    TMK_TRY(tmk_export_layers_make(job, false, &layers, diag));
    enum tmk_status status = put_layers(job, &layers, &out, diag);
    tmk_text_finish(&out);
    tmk_export_layers_finish(&layers);
    return status;
}

const struct tmk_exporter tmk_exporter_mnn = {
    .name = "mnn",
    .endings = "json",
    .consumer = "MNN's converter: --compressionParamsFile OUT.json",
    .settings = "",
    .needs_graph = true,
    .limits = {.activations = TMK_EXPORT_8, .weights = TMK_EXPORT_8, .one_scale = true},
    .write = write_mnn,
};
