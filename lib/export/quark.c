/* SPDX-License-Identifier: Apache-2.0 */
/* quark: AMD Quark's ranges (FORMATS 3.8). */
#include "export/rows.h"

static enum tmk_status put_quark(const struct tmk_export_row *row, struct tmk_text *out,
                                 struct tmk_diag *diag) {
    enum tmk_status status = tmk_export_quote(out, row->name, diag);
    tmk_export_put_range(row->encoding, ":[", ",", "]", out);
    return status;
}

static enum tmk_status write_quark(const struct tmk_export_job *job, struct tmk_diag *diag) {
    static const struct tmk_export_shape shape = {
        "{\"tensors_range\":{\n", ",\n", "\n}}\n", put_quark, {0}};
    return tmk_export_rows_write(job, &shape, diag);
}

const struct tmk_exporter tmk_exporter_quark = {
    .name = "quark",
    .consumer = "AMD Quark for ONNX: extra_options[\"SaveAndRestore\"]",
    .settings = "",
    .limits = {.activations = TMK_EXPORT_INTEGERS, .one_scale = true},
    .write = write_quark,
};
