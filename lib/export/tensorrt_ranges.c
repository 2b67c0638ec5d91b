/* SPDX-License-Identifier: Apache-2.0 */
/* tensorrt-ranges: a largest magnitude a line, for setDynamicRange, as sampleINT8API reads it
 *. */
#include <string.h>

#include "export/rows.h"

static const char *unfit_colon(const char *name) {
    return strchr(name, ':') ? "its name holds ':', where the format's readers split the line"
                             : tmk_export_unfit_line(name);
}

static enum tmk_status put_amax(const struct tmk_export_row *row, struct tmk_text *out,
                                struct tmk_diag *diag) {
    (void)diag;
    tmk_text_printf(out, "%s: ", row->name);
    tmk_json_float_text(out, tmk_export_magnitude(row->encoding));
    return TMK_OK;
}

static enum tmk_status write_tensorrt_ranges(const struct tmk_export_job *job,
                                             struct tmk_diag *diag) {
    static const struct tmk_export_shape shape = {
        "", "\n", "\n", put_amax, {.unfit_name = unfit_colon}};
    return tmk_export_rows_write(job, &shape, diag);
}

const struct tmk_exporter tmk_exporter_tensorrt_ranges = {
    .name = "tensorrt-ranges",
    .consumer = "TensorRT up to 10, by setDynamicRange (sampleINT8API): NAME: LARGEST MAGNITUDE",
    .settings = "",
    .limits = {.activations = TMK_EXPORT_INTEGERS, .one_scale = true, .symmetric = true},
    .write = write_tensorrt_ranges,
};
