/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of a quantized ONNX model: QuantizeLinear and DequantizeLinear with constant scales. */
#include <math.h>
#include <string.h>

#include "base/diag.h"
#include "base/map.h"
#include "calib/grid.h"
#include "export/reader.h"
#include "model/onnx.h"
#include "ops/quantized.h"

static bool is_qdq(const struct tmk_ranges_file *file) {
    const char *dot = strrchr(file->path, '.');
    return file->len && dot && strcmp(dot, ".onnx") == 0;
}

static const struct tmk_tensor *constant_of(const struct tmk_value *value) {
    return value && value->kind == TMK_VALUE_INITIALIZER ? &value->data : NULL;
}

/* The name that the value had before it was quantized. */
static size_t original_name(const char *name) {
    static const char *const suffixes[] = {"_QuantizeLinear_Input", "_quantized"};
    const size_t len = strlen(name);
    for (int i = 0; i < 2; i++) {
        const size_t n = strlen(suffixes[i]);
        if (len > n && strcmp(name + len - n, suffixes[i]) == 0)
            return len - n;
    }
    return len;
}

static enum tmk_status put_range(struct tmk_ranges *out, const char *name,
                                 const struct tmk_tensor *scale, const struct tmk_tensor *zero,
                                 enum tmk_dtype dtype, struct tmk_diag *diag) {
    int32_t lowest, highest;
    struct tmk_range *range;
    const size_t n = tmk_tensor_count(scale);
    if (!tmk_grid_codes(&(struct tmk_grid){.dtype = dtype}, &lowest, &highest) ||
        scale->dtype != TMK_FLOAT32 || !n || n > UINT32_MAX ||
        (zero && tmk_tensor_count(zero) != n))
        return TMK_OK;
    TMK_TRY(tmk_ranges_add(out, name, original_name(name), (uint32_t)n, &range, diag));
    range->meaning = TMK_RANGE_STEP;
    const float *steps = scale->data;
    for (uint32_t c = 0; c < n; c++) {
        const double step = (double)steps[c], shift = tmk_quantized_at(zero, c);
        TMK_TRY(
            tmk_range_set(range, c, step * (lowest - shift), step * (highest - shift), step, diag));
    }
    return TMK_OK;
}

/* A bias: the ends of an int32 grid mean nothing, its codes do. All elements have one range, as in
 * encodings. Other forms than one scale for all, or for each element, are no bias's. */
static enum tmk_status put_bias(struct tmk_ranges *out, const char *name,
                                const struct tmk_tensor *codes, const struct tmk_tensor *scale,
                                struct tmk_diag *diag) {
    struct tmk_range *range;
    const size_t n = tmk_tensor_count(scale), count = tmk_tensor_count(codes);
    double low = INFINITY, high = -INFINITY, most = 0;
    if (codes->dtype != TMK_INT32 || scale->dtype != TMK_FLOAT32 || !count ||
        (n != 1 && n != count))
        return TMK_OK;
    const float *steps = scale->data;
    for (size_t i = 0; i < count; i++) {
        const double step = (double)steps[n > 1 ? i : 0], value = step * tmk_quantized_at(codes, i);
        low = fmin(low, value);
        high = fmax(high, value);
        most = fmax(most, step);
    }
    TMK_TRY(tmk_ranges_add(out, name, original_name(name), 1, &range, diag));
    range->meaning = TMK_RANGE_STEP;
    return tmk_range_set(range, 0, low, high, most, diag);
}

static enum tmk_status read_node(const struct tmk_node *node, struct tmk_map *seen,
                                 struct tmk_ranges *out, struct tmk_diag *diag) {
    const bool quantize = strcmp(node->op, "QuantizeLinear") == 0;
    if ((!quantize && strcmp(node->op, "DequantizeLinear") != 0) || node->n_inputs < 2)
        return TMK_OK;
    const struct tmk_value *value = node->inputs[0];
    const struct tmk_tensor *scale = constant_of(node->inputs[1]);
    const struct tmk_tensor *zero = node->n_inputs > 2 ? constant_of(node->inputs[2]) : NULL;
    if (!scale || !value || (!quantize && !constant_of(value)) || tmk_map_get(seen, value->name))
        return TMK_OK;
    const enum tmk_dtype dtype = zero ? zero->dtype : quantize ? TMK_UINT8 : value->data.dtype;
    TMK_TRY_ALLOC(tmk_map_put(seen, value->name, (void *)value), diag);
    if (dtype == TMK_INT32)
        return quantize ? TMK_OK : put_bias(out, value->name, constant_of(value), scale, diag);
    return put_range(out, value->name, scale, zero, dtype, diag);
}

static enum tmk_status read_qdq(const struct tmk_ranges_file *file, struct tmk_ranges *out,
                                struct tmk_diag *diag) {
    struct tmk_graph *graph = NULL;
    struct tmk_map seen = {0};
    TMK_TRY(
        tmk_onnx_load(file->path, &(struct tmk_onnx_options){.keep_unknown = true}, &graph, diag));
    enum tmk_status status = TMK_OK;
    for (const struct tmk_node *node = graph->first; status == TMK_OK && node; node = node->next)
        status = read_node(node, &seen, out, diag);
    if (status == TMK_OK && !out->n)
        status = tmk_fail(diag, TMK_FORMAT,
                          "nothing in it is quantized with a scale that is a constant");
    tmk_map_finish(&seen);
    tmk_graph_destroy(&graph);
    return status;
}

const struct tmk_ranges_reader tmk_reader_qdq = {
    .name = "qdq",
    .help = "an ONNX model with QuantizeLinear and DequantizeLinear",
    .unnamed = "runs in float",
    .unknown = "cannot be: the names are its own",
    .is = is_qdq,
    .read = read_qdq,
};
