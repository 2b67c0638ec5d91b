/* SPDX-License-Identifier: Apache-2.0 */
/* tensorrt-cache: the calibration cache of TensorRT up to 10: a line with the version
 * and calibrator that made it, then for each tensor the bits of the float32 scale, largest
 * magnitude / 127, as eight hex digits. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "base/diag.h"
#include "base/size.h"
#include "export/rows.h"

/* TRT-<digits>-<one of TensorRT's calibrators>. */
static bool is_header(const char *text) {
    static const char *const calibrators[] = {"EntropyCalibration2", "EntropyCalibration",
                                              "MinMaxCalibration", "LegacyCalibration"};
    if (strncmp(text, "TRT-", 4) != 0)
        return false;
    size_t digits = strspn(text + 4, "0123456789");
    if (!digits || text[4 + digits] != '-')
        return false;
    for (size_t i = 0; i < TMK_COUNT(calibrators); i++)
        if (strcmp(text + 5 + digits, calibrators[i]) == 0)
            return true;
    return false;
}

static const char *header_of(const struct tmk_export_job *job) {
    return tmk_export_setting(job, "header", "TRT-8601-EntropyCalibration2");
}

static float scale_of(const struct tmk_encoding *encoding) {
    return tmk_export_magnitude(encoding) / 127;
}

static const char *unfit_reason(const struct tmk_encoding *encoding) {
    return isnormal(scale_of(encoding)) ? NULL : "its range is too small for a scale";
}

static enum tmk_status put_cache(const struct tmk_export_job *job, struct tmk_export_rows *rows,
                                 struct tmk_text *out, struct tmk_diag *diag) {
    bool colons = false;
    (void)diag;
    tmk_text_printf(out, "%s\n", header_of(job));
    for (size_t i = 0; i < rows->n; i++) {
        tmk_text_printf(out, "%s: %08" PRIx32 "\n", rows->items[i].name,
                        tmk_bits_of_float(scale_of(rows->items[i].encoding)));
        colons = colons || strchr(rows->items[i].name, ':');
    }
    if (colons)
        tmk_export_remark(job, "names hold ':': TensorRT reads them, ONNX Runtime's reader of "
                               "native tables does not");
    return TMK_OK;
}

static enum tmk_status write_cache(const struct tmk_export_job *job, struct tmk_diag *diag) {
    static const struct tmk_export_text text = {
        .wants = {.computed = true, .unfit = unfit_reason, .unfit_name = tmk_export_unfit_line},
        .put = put_cache};
    if (!is_header(header_of(job)))
        return tmk_fail(diag, TMK_ARGUMENT,
                        "header=%s: TRT-VERSION-CALIBRATOR was expected, such as "
                        "TRT-8601-EntropyCalibration2 or TRT-100300-MinMaxCalibration",
                        header_of(job));
    return tmk_export_text_write(job, &text, diag);
}

const struct tmk_exporter tmk_exporter_tensorrt_cache = {
    .name = "tensorrt-cache",
    .endings = "cache txt bin",
    .consumer = "TensorRT up to 10 (calibration cache), ModelOpt: calibration_cache_path",
    .settings = "header=TRT-8601-EntropyCalibration2",
    .limits = {.activations = TMK_EXPORT_8, .one_scale = true, .symmetric = true},
    .write = write_cache,
};

/* tensorrt-ranges: a largest magnitude a line, for setDynamicRange, as sampleINT8API reads it
 *. */

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

static const struct tmk_export_text tensorrt_ranges_text = {
    .wants = {.computed = true, .unfit_name = unfit_colon},
    .head = "",
    .between = "\n",
    .tail = "\n",
    .put_row = put_amax};

const struct tmk_exporter tmk_exporter_tensorrt_ranges = {
    .name = "tensorrt-ranges",
    .endings = "json",
    .consumer = "TensorRT up to 10, by setDynamicRange (sampleINT8API): NAME: LARGEST MAGNITUDE",
    .settings = "",
    .limits = {.activations = TMK_EXPORT_INTEGERS, .one_scale = true, .symmetric = true},
    .text = &tensorrt_ranges_text,
};
