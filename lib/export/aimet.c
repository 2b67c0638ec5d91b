/* SPDX-License-Identifier: Apache-2.0 */
/* aimet: encodings of AIMET, QNN and SNPE.
 *
 * Versions before 2.0.0 count codes from 0 whatever the type: real = (code + offset) * scale, so
 * that offset = -(zero point + 128) for int8 and -zero point for uint8. No reader notices a wrong
 * sign. 2.0.0 has ONNX's zero points. */
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "calib/encodings.h"
#include "export/aimet_fused.h"
#include "export/aimet_tied.h"
#include "export/rows.h"

static double first_code(const struct tmk_encoding *e) {
    return tmk_export_is_signed(e) ? -(double)(1u << (tmk_export_bits(e) - 1)) : 0;
}

static double offset_of(const struct tmk_encoding *e, uint32_t channel) {
    return first_code(e) - e->zero_point[channel];
}

static bool is_weight(const struct tmk_export_row *row) {
    return row->encoding->role == TMK_ENCODING_WEIGHT;
}

/* Activations of one kind in a section, weights in the other: how wide, for quantizer_args. */
static uint32_t max_bits(const struct tmk_export_rows *rows, bool weights) {
    uint32_t bits = 0;
    for (size_t i = 0; i < rows->n; i++)
        if (is_weight(&rows->items[i]) == weights &&
            tmk_export_bits(rows->items[i].encoding) > bits)
            bits = tmk_export_bits(rows->items[i].encoding);
    return bits ? bits : 8;
}

static struct tmk_json_out quantizer_args(const struct tmk_export_rows *rows) {
    struct tmk_json_out args = tmk_json_new_object();
    bool symmetric = true, by_channel = false;
    for (size_t i = 0; i < rows->n; i++)
        if (is_weight(&rows->items[i])) {
            symmetric = symmetric && rows->items[i].encoding->symmetric;
            by_channel = by_channel || rows->items[i].encoding->n > 1;
        }
    tmk_json_put_u64(&args, "activation_bitwidth", max_bits(rows, false));
    tmk_json_put_u64(&args, "param_bitwidth", max_bits(rows, true));
    tmk_json_put_text(&args, "dtype", "int");
    tmk_json_put(&args, "is_symmetric", cJSON_CreateBool(symmetric));
    tmk_json_put(&args, "per_channel_quantization", cJSON_CreateBool(by_channel));
    tmk_json_put_text(&args, "quant_scheme", "min_max");
    return args;
}

/* ---- 0.6.1: an array for each name ---- */

static enum tmk_status put_061(const struct tmk_export_row *row, struct tmk_text *out,
                               struct tmk_diag *diag) {
    const struct tmk_encoding *e = row->encoding;
    struct tmk_json_out array = tmk_json_new_array();
    double codes = (double)((UINT32_C(1) << tmk_export_bits(e)) - 1);
    for (uint32_t i = 0; i < e->n; i++) {
        struct tmk_json_out one = tmk_json_new_object();
        tmk_json_put_u64(&one, "bitwidth", tmk_export_bits(e));
        tmk_json_put_text(&one, "dtype", "int");
        tmk_json_put_text(&one, "is_symmetric", e->symmetric ? "True" : "False");
        tmk_json_put_double(&one, "max", (codes + offset_of(e, i)) * e->scale[i]);
        tmk_json_put_double(&one, "min", offset_of(e, i) * e->scale[i]);
        tmk_json_put_i64(&one, "offset", (int64_t)offset_of(e, i));
        tmk_json_put_float(&one, "scale", e->scale[i]);
        tmk_json_put_child(&array, NULL, &one);
    }
    enum tmk_status status = tmk_export_quote(out, row->name, diag);
    tmk_text_puts(out, ":");
    enum tmk_status finished = tmk_json_finish(&array, out, diag);
    return status == TMK_OK ? finished : status;
}

/* ---- 1.0.0 and 2.0.0: one object each ---- */

static enum tmk_status put_100(const struct tmk_export_row *row, struct tmk_text *out,
                               struct tmk_diag *diag) {
    const struct tmk_encoding *e = row->encoding;
    struct tmk_json_out one = tmk_json_new_object(), scales = tmk_json_new_array(),
                        offsets = tmk_json_new_array();
    for (uint32_t i = 0; i < e->n; i++) {
        tmk_json_put_float(&scales, NULL, e->scale[i]);
        tmk_json_put_i64(&offsets, NULL, (int64_t)offset_of(e, i));
    }
    tmk_json_put_text(&one, "name", row->name);
    tmk_json_put_text(&one, "dtype", "INT");
    tmk_json_put_u64(&one, "bw", tmk_export_bits(e));
    tmk_json_put(&one, "is_sym", cJSON_CreateBool(e->symmetric));
    tmk_json_put_text(&one, "enc_type", e->axis < 0 ? "PER_TENSOR" : "PER_CHANNEL");
    tmk_json_put_child(&one, "scale", &scales);
    tmk_json_put_child(&one, "offset", &offsets);
    return tmk_json_finish(&one, out, diag);
}

static bool has_zero_point(const struct tmk_encoding *e) {
    for (uint32_t i = 0; i < e->n; i++)
        if (e->zero_point[i])
            return true;
    return false;
}

static enum tmk_status put_200(const struct tmk_export_row *row, struct tmk_text *out,
                               struct tmk_diag *diag) {
    const struct tmk_encoding *e = row->encoding;
    struct tmk_json_out one = tmk_json_new_object();
    tmk_json_put_text(&one, "name", row->name);
    tmk_json_put_text(&one, "output_dtype", tmk_dtype_name(e->dtype));
    if (e->axis < 0) {
        tmk_json_put_float(&one, "y_scale", e->scale[0]);
        if (e->zero_point[0])
            tmk_json_put_i64(&one, "y_zero_point", e->zero_point[0]);
        return tmk_json_finish(&one, out, diag);
    }
    struct tmk_json_out scales = tmk_json_new_array(), zero_points = tmk_json_new_array();
    for (uint32_t i = 0; i < e->n; i++) {
        tmk_json_put_float(&scales, NULL, e->scale[i]);
        tmk_json_put_i64(&zero_points, NULL, e->zero_point[i]);
    }
    tmk_json_put_child(&one, "y_scale", &scales);
    if (has_zero_point(e))
        tmk_json_put_child(&one, "y_zero_point", &zero_points);
    else
        cJSON_Delete(zero_points.item);
    tmk_json_put_i64(&one, "axis", e->axis);
    return tmk_json_finish(&one, out, diag);
}

/* ---- the file ---- */

/* "KEY": open, the rows of one kind on a line each, close. */
static enum tmk_status put_section(const struct tmk_export_rows *rows, bool weights,
                                   tmk_export_putter *put, const char *key, const char *brackets,
                                   struct tmk_text *out, struct tmk_diag *diag) {
    bool any = false;
    tmk_text_printf(out, "%s%c", key, brackets[0]);
    for (size_t i = 0; i < rows->n; i++) {
        if (is_weight(&rows->items[i]) != weights)
            continue;
        tmk_text_puts(out, any ? ",\n" : "\n");
        TMK_TRY(put(&rows->items[i], out, diag));
        any = true;
    }
    tmk_text_printf(out, "\n%c", brackets[1]);
    return TMK_OK;
}

static enum tmk_status put_sections(const struct tmk_export_rows *rows, const char *version,
                                    struct tmk_text *out, struct tmk_diag *diag) {
    bool is_061 = strcmp(version, "0.6.1") == 0;
    tmk_export_putter *put = is_061 ? put_061 : put_100;
    const char *brackets = is_061 ? "{}" : "[]";
    struct tmk_json_out args = quantizer_args(rows);
    enum tmk_status status =
        put_section(rows, false, put, "\"activation_encodings\":", brackets, out, diag);
    if (status == TMK_OK)
        status = put_section(rows, true, put, ",\n\"param_encodings\":", brackets, out, diag);
    tmk_text_puts(out, ",\n\"excluded_layers\":[],\n\"quantizer_args\":");
    enum tmk_status finished = tmk_json_finish(&args, out, diag);
    return status == TMK_OK ? finished : status;
}

static enum tmk_status put_list(const struct tmk_export_rows *rows, struct tmk_text *out,
                                struct tmk_diag *diag) {
    tmk_text_puts(out, "\"encodings\":[");
    for (size_t i = 0; i < rows->n; i++) {
        tmk_text_puts(out, i ? ",\n" : "\n");
        TMK_TRY(put_200(&rows->items[i], out, diag));
    }
    tmk_text_puts(out, "\n]");
    return TMK_OK;
}

/* ---- tensors that AIMET has no quantizer for ---- */

/* AIMET and the converters fold a BatchNormalization into the convolution before it: there is no
 * value in between, and a quantizer that was off would be turned on. */
static bool is_folded(const struct tmk_value *value) {
    static const char *const ops[] = {"Conv", "ConvTranspose", "Gemm"};
    bool product = false;
    for (size_t i = 0; value->producer && i < TMK_COUNT(ops); i++)
        product = product || tmk_node_is(value->producer, TMK_DOMAIN_ONNX, ops[i]);
    return product && value->n_uses == 1 && !value->n_graph_outputs &&
           tmk_node_is(value->uses[0].node, TMK_DOMAIN_ONNX, "BatchNormalization");
}

/* Reading a name that AIMET's graph has not, it fails; with 2.0.0 also at an encoding where it has
 * no quantizer, unless it finds the same behind the operators that keep the grid. */
static const char *why_no_quantizer(const struct tmk_export_job *job, const struct tmk_value *value,
                                    const struct tmk_encoding *e, bool is_200) {
    if (!value->n_uses && !value->n_graph_outputs)
        return "nothing reads it: AIMET's graph does not have it";
    if (is_folded(value))
        return "the BatchNormalization behind it is folded: AIMET quantizes its result";
    for (const struct tmk_value *v = value; is_200 && v && tmk_aimet_keeps_grid(v->producer);) {
        v = v->producer->inputs[0];
        const struct tmk_encoding *theirs =
            v && v->profile_id >= 0
                ? tmk_encodings_find(job->encodings, (uint32_t)v->profile_id, NULL, 0)
                : NULL;
        if (!theirs || theirs->axis >= 0 || !tmk_encoding_same_codes(theirs, e))
            return "AIMET has no quantizer behind an operator that keeps the grid of an operand "
                   "that is float or has another encoding; version=1.0.0 can hold it";
    }
    return NULL;
}

/* Takes their rows out. */
static enum tmk_status drop_unquantized(const struct tmk_export_job *job,
                                        const struct tmk_by_id *all, struct tmk_export_rows *rows,
                                        bool is_200, struct tmk_diag *diag) {
    size_t kept = 0;
    uint32_t *within = calloc(all->n + 1, sizeof *within);
    TMK_TRY_ALLOC(within, diag);
    tmk_aimet_count_fused(job->graph, within, (uint32_t)all->n);
    for (size_t i = 0; i < rows->n; i++) {
        const struct tmk_encoding *e = rows->items[i].encoding;
        const struct tmk_value *value = tmk_by_id_get(all, e->id);
        const bool here = value && value->graph == job->graph;
        const char *why = NULL;
        if (here && within[e->id] && within[e->id] >= value->n_uses && !value->n_graph_outputs)
            why = "AIMET fuses the normalization, or MatMul and bias, that it is within";
        else if (here && value->kind == TMK_VALUE_RESULT && !is_weight(&rows->items[i]))
            why = why_no_quantizer(job, value, e, is_200);
        if (why)
            tmk_export_skip(job, e, why);
        else
            rows->items[kept++] = rows->items[i];
    }
    rows->n = kept;
    free(within);
    return TMK_OK;
}

/* Rows and encodings that AIMET's quantizers can take; *tied as tmk_aimet_tie has it. */
static enum tmk_status fit_rows(const struct tmk_export_job *job, struct tmk_export_rows *rows,
                                bool is_200, struct tmk_tied **tied, struct tmk_diag *diag) {
    struct tmk_by_id all;
    TMK_TRY(tmk_by_id_init(&all, job->graph, diag));
    enum tmk_status status = drop_unquantized(job, &all, rows, is_200, diag);
    if (status == TMK_OK)
        status = tmk_aimet_tie(job, all.n, rows, tied, diag);
    tmk_by_id_finish(&all);
    return status;
}

static const char *version_of(const struct tmk_export_job *job) {
    return tmk_export_setting(job, "version", "0.6.1");
}

static enum tmk_status put_aimet(const struct tmk_export_job *job, struct tmk_export_rows *rows,
                                 struct tmk_text *out, struct tmk_diag *diag) {
    const char *version = version_of(job);
    const bool is_200 = strcmp(version, "2.0.0") == 0;
    struct tmk_tied *tied = NULL;
    enum tmk_status status = TMK_OK;
    if (job->graph)
        status = fit_rows(job, rows, is_200, &tied, diag);
    else if (is_200)
        tmk_export_remark(job, "AIMET refuses 2.0.0 where it has no quantizer for an encoding: "
                               "with --model such encodings are left out");
    tmk_text_printf(out, "{\"version\":\"%s\",\n", version);
    if (status == TMK_OK)
        status = is_200 ? put_list(rows, out, diag) : put_sections(rows, version, out, diag);
    tmk_text_puts(out, "}\n");
    free(tied);
    return status;
}

static enum tmk_status write_aimet(const struct tmk_export_job *job, struct tmk_diag *diag) {
    static const struct tmk_export_text text = {
        .wants = {.weights = true, .fused = true, .unfit = tmk_export_unfit_codes},
        .put = put_aimet};
    const char *version = version_of(job);
    if (strcmp(version, "0.6.1") != 0 && strcmp(version, "1.0.0") != 0 &&
        strcmp(version, "2.0.0") != 0)
        return tmk_fail(diag, TMK_ARGUMENT, "there is no version '%s' of it: 0.6.1, 1.0.0, 2.0.0",
                        version);
    return tmk_export_text_write(job, &text, diag);
}

const struct tmk_exporter tmk_exporter_aimet = {
    .name = "aimet",
    .endings = "encodings json yaml yml",
    .consumer = "AIMET, and the converters of QNN and SNPE (--quantization_overrides)",
    .settings = "version=0.6.1|1.0.0|2.0.0",
    .limits = {.activations = TMK_EXPORT_INTEGERS,
               .weights = TMK_EXPORT_INTEGERS,
               .one_scale = true},
    .write = write_aimet,
};
