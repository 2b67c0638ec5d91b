/* SPDX-License-Identifier: Apache-2.0 */
/* litert: the calibration result of AI Edge Quantizer: the range of each activation,
 * by the names of the .tflite. */
#include "export/rows.h"

static enum tmk_status put_litert(const struct tmk_export_row *row, struct tmk_text *out,
                                  struct tmk_diag *diag) {
    enum tmk_status status = tmk_export_quote(out, row->name, diag);
    tmk_export_put_range(row->encoding, ":{\"min\":[", "],\"max\":[", "]}", out);
    return status;
}

static const struct tmk_export_text litert_text = {
    .wants = {.computed = true},
    .head = "{\"model_qsvs\":{\n",
    .between = ",\n",
    .tail = "\n},\n\"metadata\":{\"producer\":\"tidemark\"}}\n",
    .put_row = put_litert};

const struct tmk_exporter tmk_exporter_litert = {
    .name = "litert",
    .endings = "json",
    .consumer = "LiteRT's AI Edge Quantizer: calibration_utils.load_calibration_results",
    .settings = "",
    .limits = {.activations = TMK_EXPORT_INTEGERS, .one_scale = true},
    .text = &litert_text,
};
