/* SPDX-License-Identifier: Apache-2.0 */
/* quark: AMD Quark's ranges. Quark wants one of every tensor that it quantizes, so that
 * values without an encoding get the range that was observed; so do weights and biases, which
 * Quark takes for activations where Constant nodes make them. */
#include <math.h>

#include "base/diag.h"
#include "export/rows.h"

static enum tmk_status put_range(const char *name, float low, float high, bool first,
                                 struct tmk_text *out, struct tmk_diag *diag) {
    tmk_text_puts(out, first ? "" : ",\n");
    enum tmk_status status = tmk_export_quote(out, name, diag);
    tmk_text_puts(out, ":[");
    tmk_json_float_text(out, low);
    tmk_text_puts(out, ",");
    tmk_json_float_text(out, high);
    tmk_text_puts(out, "]");
    return status;
}

static enum tmk_status put_left(const struct tmk_export_job *job, const struct tmk_left_float *left,
                                struct tmk_text *out, struct tmk_diag *diag) {
    const char *name = tmk_export_name(job, left->id, left->name);
    if (!name || !isfinite(left->observed_min) || !isfinite(left->observed_max) ||
        tmk_encodings_find(job->encodings, left->id, NULL, 0))
        return TMK_OK;
    return put_range(name, left->observed_min, left->observed_max, false, out, diag);
}

/* The first encoding of a value that has no other as an activation. */
static bool is_constant_alone(const struct tmk_encodings *all, uint32_t i) {
    const struct tmk_encoding *e = &all->items[i];
    if (i && all->items[i - 1].id == e->id)
        return false;
    for (uint32_t k = i; k < all->n_items && all->items[k].id == e->id; k++)
        if (all->items[k].role == TMK_ENCODING_ACTIVATION)
            return false;
    return isfinite(e->observed_min) && isfinite(e->observed_max);
}

static enum tmk_status put_constants(const struct tmk_export_job *job, struct tmk_text *out,
                                     struct tmk_diag *diag) {
    for (uint32_t i = 0; i < job->given->n_items; i++) {
        const struct tmk_encoding *e = &job->given->items[i];
        const char *name =
            is_constant_alone(job->given, i) ? tmk_export_name(job, e->id, e->name) : NULL;
        if (name)
            TMK_TRY(put_range(name, e->observed_min, e->observed_max, false, out, diag));
    }
    return TMK_OK;
}

static enum tmk_status put_quark(const struct tmk_export_job *job, struct tmk_export_rows *rows,
                                 struct tmk_text *out, struct tmk_diag *diag) {
    tmk_text_puts(out, "{\"tensors_range\":{\n");
    for (size_t i = 0; i < rows->n; i++) {
        float low, high;
        tmk_export_range(rows->items[i].encoding, &low, &high);
        TMK_TRY(put_range(rows->items[i].name, low, high, i == 0, out, diag));
    }
    for (uint32_t i = 0; i < job->encodings->n_left; i++)
        TMK_TRY(put_left(job, &job->encodings->left[i], out, diag));
    TMK_TRY(put_constants(job, out, diag));
    tmk_text_puts(out, "\n}}\n");
    return TMK_OK;
}

static const struct tmk_export_text quark_text = {.put = put_quark};

const struct tmk_exporter tmk_exporter_quark = {
    .name = "quark",
    .endings = "json",
    .consumer = "AMD Quark for ONNX: extra_options[\"SaveAndRestore\"]",
    .settings = "",
    .limits = {.activations = TMK_EXPORT_INTEGERS, .one_scale = true},
    .text = &quark_text,
};
