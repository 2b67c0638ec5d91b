/* SPDX-License-Identifier: Apache-2.0 */
/* tvm: what relay.quantize wants of each edge, keyed by profile ID, with names: kind,
 * nbit, sign, ndom_scale, nclip_min, nclip_max. TVM's domain scale is threshold / 2^(nbit - sign)
 * and has no zero point; the encoding itself is written, too. */
#include <inttypes.h>
#include <stdio.h>

#include "base/diag.h"
#include "export/rows.h"

static bool is_input(const struct tmk_export_job *job, const struct tmk_encoding *e) {
    for (uint32_t i = 0; job->graph && i < job->graph->n_inputs; i++)
        if (job->graph->inputs[i]->profile_id == (int64_t)e->id)
            return true;
    return false;
}

static void put_hex(struct tmk_json_out *to, const char *key, float value) {
    char text[32];
    snprintf(text, sizeof text, "%a", (double)value);
    tmk_json_put_text(to, key, text);
}

/* TVM's scalars: symmetric, one a tensor. */
static void put_domain(struct tmk_json_out *to, const struct tmk_encoding *e) {
    float low, high, threshold = tmk_export_magnitude(e);
    tmk_export_range(e, &low, &high);
    bool is_signed = tmk_export_is_signed(e) || low < 0;
    uint32_t codes = UINT32_C(1) << (tmk_export_bits(e) - is_signed);
    float scale = threshold / (float)codes;
    tmk_json_put_u64(to, "nbit", tmk_export_bits(e));
    tmk_json_put(to, "sign", cJSON_CreateBool(is_signed));
    tmk_json_put_float(to, "threshold", threshold);
    tmk_json_put_float(to, "ndom_scale", scale);
    put_hex(to, "ndom_scale_hex", scale);
    tmk_json_put_i64(to, "nclip_min", is_signed ? 1 - (int64_t)codes : 0);
    tmk_json_put_u64(to, "nclip_max", codes - 1);
}

static void put_encoding(struct tmk_json_out *to, const struct tmk_encoding *e) {
    struct tmk_json_out zero_points = tmk_json_new_array();
    for (uint32_t i = 0; i < e->n; i++)
        tmk_json_put_i64(&zero_points, NULL, e->zero_point[i]);
    tmk_json_put_text(to, "dtype", tmk_dtype_name(e->dtype));
    tmk_json_put(to, "axis", e->axis < 0 ? cJSON_CreateNull() : cJSON_CreateNumber(e->axis));
    tmk_json_put_floats(to, "scale", e->scale, e->n);
    tmk_json_put_child(to, "zero_point", &zero_points);
    tmk_json_put_floats(to, "clip_min", e->clip_min, e->n);
    tmk_json_put_floats(to, "clip_max", e->clip_max, e->n);
    tmk_json_put_float(to, "min", e->observed_min);
    tmk_json_put_float(to, "max", e->observed_max);
    tmk_json_put_text(to, "calibrator", e->method);
}

static enum tmk_status put_edge(const struct tmk_export_job *job, const struct tmk_export_row *row,
                                struct tmk_text *out, struct tmk_diag *diag) {
    const struct tmk_encoding *e = row->encoding;
    struct tmk_json_out edge = tmk_json_new_object();
    tmk_json_put_id(&edge, "profile_id", e->id);
    tmk_json_put_text(&edge, "name", row->name);
    tmk_json_put_text(&edge, "kind", is_input(job, e) ? "input" : tmk_encoding_role_name(e->role));
    if (tmk_export_bits(e)) {
        put_domain(&edge, e);
    } else {
        tmk_json_put_u64(&edge, "nbit", 32);
        tmk_json_put(&edge, "sign", cJSON_CreateTrue());
    }
    put_encoding(&edge, e);
    return tmk_json_finish(&edge, out, diag);
}

static enum tmk_status put_head(const struct tmk_encodings *encodings, struct tmk_text *out,
                                struct tmk_diag *diag) {
    struct tmk_json_out model = tmk_json_new_object();
    char fingerprint[20];
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, encodings->model.fingerprint);
    tmk_json_put_text(&model, "file", encodings->model.file);
    tmk_json_put_text(&model, "sha256", encodings->model.sha256);
    tmk_json_put_text(&model, "fingerprint", fingerprint);
    tmk_text_puts(out, "{\"format\":\"tidemark-quantize-info\",\"version\":1,\n\"model\":");
    TMK_TRY(tmk_json_finish(&model, out, diag));
    tmk_text_puts(out, ",\n\"n_samples\":");
    tmk_json_u64_text(out, encodings->samples);
    tmk_text_printf(out, ",\"rounding\":\"%s\",\n\"edges\":[\n",
                    tmk_rounding_name(encodings->rounding));
    return TMK_OK;
}

static enum tmk_status put_tvm(const struct tmk_export_job *job, struct tmk_export_rows *rows,
                               struct tmk_text *out, struct tmk_diag *diag) {
    TMK_TRY(put_head(job->encodings, out, diag));
    for (size_t i = 0; i < rows->n; i++) {
        tmk_text_puts(out, i ? ",\n" : "");
        TMK_TRY(put_edge(job, &rows->items[i], out, diag));
    }
    tmk_text_puts(out, "\n]}\n");
    return TMK_OK;
}

static const struct tmk_export_text tvm_text = {
    .wants = {.weights = true, .biases = true, .unfit = tmk_export_unfit_codes}, .put = put_tvm};

const struct tmk_exporter tmk_exporter_tvm = {
    .name = "tvm",
    .endings = "json",
    .consumer = "a calibration hook of TVM's relay.quantize: quantize_info by profile ID and name",
    .settings = "",
    .limits = {.activations = TMK_EXPORT_INTEGERS, .weights = TMK_EXPORT_INTEGERS},
    .text = &tvm_text,
};
