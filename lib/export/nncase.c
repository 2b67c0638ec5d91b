/* SPDX-License-Identifier: Apache-2.0 */
/* nncase: the quantization scheme of Canaan's compiler. */
#include "export/rows.h"

static const char *data_type(const struct tmk_encoding *e) {
    return tmk_export_bits(e) == 16 ? "i16" : tmk_export_is_signed(e) ? "i8" : "u8";
}

static enum tmk_status put_nncase(const struct tmk_export_row *row, struct tmk_text *out,
                                  struct tmk_diag *diag) {
    const struct tmk_encoding *e = row->encoding;
    struct tmk_json_out one = tmk_json_new_object(), ranges = tmk_json_new_array();
    for (uint32_t i = 0; i < e->n; i++) {
        struct tmk_json_out range = tmk_json_new_object();
        tmk_json_put_float(&range, "Min", e->clip_min[i]);
        tmk_json_put_float(&range, "Max", e->clip_max[i]);
        tmk_json_put(&range, "IsFull", cJSON_CreateFalse());
        tmk_json_put_child(&ranges, NULL, &range);
    }
    tmk_json_put_text(&one, "Name", row->name);
    tmk_json_put_text(&one, "DataType", data_type(e));
    tmk_json_put_child(&one, "DataRange", &ranges);
    tmk_json_put_text(&one, "DataRangeMode", e->axis < 0 ? "by_tensor" : "by_channel");
    return tmk_json_finish(&one, out, diag);
}

static const struct tmk_export_text nncase_text = {.wants = {.weights = true, .fused = true},
                                                   .head = "{\"Version\":\"1.0\",\"Outputs\":[\n",
                                                   .between = ",\n",
                                                   .tail = "\n]}\n",
                                                   .put_row = put_nncase};

const struct tmk_exporter tmk_exporter_nncase = {
    .name = "nncase",
    .endings = "json",
    .consumer = "nncase: ptq_options.quant_scheme",
    .settings = "",
    .limits = {.activations = TMK_EXPORT_8 | TMK_EXPORT_TYPE(TMK_INT16),
               .weights = TMK_EXPORT_8 | TMK_EXPORT_TYPE(TMK_INT16)},
    .text = &nncase_text,
};
