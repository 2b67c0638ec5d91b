/* SPDX-License-Identifier: Apache-2.0 */
/* Weights and biases as codes, bit for bit as ONNX Runtime's quantizer makes them. */
#include <math.h>

#include "base/diag.h"
#include "calib/encodings.h"
#include "calib/grid.h"
#include "export/qdq.h"
#include "ops/quantized.h"

/* ---- scales ---- */

const float *tmk_qdq_scales_of(const struct tmk_qdq *q, const struct tmk_value *value,
                               const struct tmk_encoding *encoding) {
    const struct tmk_qdq_scales *larger = tmk_ptrmap_get(&q->enlarged, value);
    return larger && larger->of == encoding ? larger->scale : encoding->scale;
}

/* The smallest scale under which a bias of this magnitude fits int32, with ONNX Runtime's margin.
 * Its arithmetic is float up to the division for scales by channel, and double for one scale. */
static double least_scale(float most, bool by_channel) {
    const double codes = 2.0 * INT32_MAX;
    if (by_channel)
        return (double)(1.0001f * (2.0f * most)) / codes;
    return 1.0001 * (2.0 * (double)most) / codes;
}

static float enlarge_scale(float scale, float input, double min, bool pow2) {
    const double product = (double)input * (double)scale;
    if (!(product < min) || !(product > 0))
        return scale;
    const double wanted = (double)scale * (min / product);
    int exponent = 0;
    if (!pow2)
        return (float)wanted;
    const double fraction = frexp(wanted, &exponent); /* in [0.5, 1) */
    return (float)ldexp(1, fraction == 0.5 ? exponent - 1 : exponent);
}

static float max_abs(const float *x, size_t n) {
    float most = 0;
    for (size_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

static bool all_zero(const int32_t *x, uint32_t n) {
    while (n && !x[n - 1])
        n--;
    return n == 0;
}

static enum tmk_status widen_scale(struct tmk_qdq *q, const struct tmk_qdq_mark *bias) {
    const struct tmk_qdq_mark *input = tmk_qdq_marked(q, bias->input),
                              *weight = tmk_qdq_marked(q, bias->weight);
    const struct tmk_encoding *x = input ? tmk_qdq_encoding(q, input, bias->node, 0) : NULL,
                              *w = weight ? tmk_qdq_encoding(q, weight, bias->node, 1) : NULL;
    if (!x || !w || x->n != 1 || w->block || weight->value->kind != TMK_VALUE_INITIALIZER ||
        (w->dtype != TMK_INT8 && w->dtype != TMK_INT16) || !all_zero(w->zero_point, w->n))
        return TMK_OK;
    const float *data = bias->value->data.data;
    const size_t count = tmk_tensor_count(&bias->value->data);
    const bool by_channel = w->axis >= 0;
    if (by_channel && count != w->n)
        return TMK_OK;
    const float *old = tmk_qdq_scales_of(q, weight->value, w);
    float *made = tmk_arena_array(&q->arena, w->n, sizeof *made);
    struct tmk_qdq_scales *entry = tmk_arena_alloc(&q->arena, sizeof *entry);
    uint32_t changed = 0;
    TMK_TRY_ALLOC(made && entry, q->diag);
    for (uint32_t i = 0; i < w->n; i++) {
        const float most = by_channel ? fabsf(data[i]) : max_abs(data, count);
        made[i] = enlarge_scale(old[i], x->scale[0], least_scale(most, by_channel), w->pow2);
        changed += made[i] != old[i];
    }
    if (!changed)
        return TMK_OK;
    *entry = (struct tmk_qdq_scales){w, made};
    tmk_qdq_remark(q, "%u scale%s of weight '%s' became larger, or its bias would not fit int32",
                   changed, changed == 1 ? "" : "s", weight->value->name);
    return tmk_ptrmap_put(&q->enlarged, weight->value, entry) ? TMK_OK : tmk_nomem(q->diag);
}

enum tmk_status tmk_qdq_widen_scales(struct tmk_qdq *q) {
    for (uint32_t i = 0; i < q->n_marks; i++)
        if (q->marks[i]->is_bias)
            TMK_TRY(widen_scale(q, q->marks[i]));
    return TMK_OK;
}

/* ---- codes ---- */

enum tmk_status tmk_qdq_codes(const struct tmk_tensor *real, const struct tmk_encoding *encoding,
                              const float *scale, struct tmk_tensor *out, struct tmk_diag *diag) {
    int32_t lowest, highest;
    struct tmk_scale_layout layout;
    if (!tmk_scale_layout_init(&layout, encoding, &real->shape))
        return tmk_fail(diag, TMK_MISMATCH, "the encoding of '%s' has %u scales, which it has not",
                        encoding->name, encoding->n);
    tmk_encoding_codes(encoding, &lowest, &highest);
    TMK_TRY(tmk_tensor_init(out, encoding->dtype, &real->shape, diag));
    const float *from = real->data;
    const size_t count = tmk_tensor_count(real);
    for (size_t i = 0; i < count; i++) {
        const size_t c = tmk_scale_index(&layout, i);
        const int32_t code =
            tmk_grid_code(from[i], scale[c], encoding->zero_point[c], lowest, highest);
        tmk_quantized_narrow(&code, 1, out, i);
    }
    return TMK_OK;
}

enum tmk_status tmk_qdq_bias_codes(const struct tmk_tensor *real, float factor, const float *scale,
                                   uint32_t n, struct tmk_tensor *out, struct tmk_diag *diag) {
    TMK_TRY(tmk_tensor_init(out, TMK_INT32, &real->shape, diag));
    const float *from = real->data;
    int32_t *to = out->data;
    const size_t count = tmk_tensor_count(real);
    for (size_t i = 0; i < count; i++) {
        const double code = rint((double)(from[i] * factor) / (double)scale[i % n]);
        to[i] = code > INT32_MAX    ? INT32_MAX
                : code > INT32_MIN  ? (int32_t)code
                : code <= INT32_MIN ? INT32_MIN
                                    : 0; /* NaN */
    }
    return TMK_OK;
}
