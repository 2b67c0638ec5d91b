/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/contrib_cache.h"

#include <math.h>
#include <string.h>

enum tmk_dtype tmk_cache_dtype(int bits) {
    return bits == 4 ? TMK_UINT8 : bits == 8 ? TMK_INT8 : TMK_FLOAT32;
}

static enum tmk_status check_scale(const struct tmk_tensor *scale, const char *what, int64_t wanted,
                                   struct tmk_diag *diag) {
    size_t count = 0;
    if (!scale)
        return tmk_fail(diag, TMK_GRAPH, "a cache in codes needs %s, which is absent", what);
    TMK_TRY(tmk_want_dtype(scale, TMK_FLOAT32, what, diag));
    if (!tmk_shape_count(&scale->shape, &count) || count != (size_t)wanted)
        return tmk_fail(diag, TMK_SHAPE, "%s has %zu elements instead of %lld", what, count,
                        (long long)wanted);
    return TMK_OK;
}

enum tmk_status tmk_cache_bits(const struct tmk_node *node, const struct tmk_tensor *key_scale,
                               const struct tmk_tensor *value_scale, int64_t groups, int64_t size,
                               int *bits, struct tmk_diag *diag) {
    const char *kind = tmk_node_string(node, "k_quant_type", "NONE");
    const int64_t width = tmk_node_int(node, "kv_cache_bit_width", 0);
    const bool per_tensor = strcmp(kind, "PER_TENSOR") == 0;
    *bits = 0;
    if (strcmp(kind, tmk_node_string(node, "v_quant_type", "NONE")) != 0)
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "attributes 'k_quant_type' and 'v_quant_type' that differ are not "
                        "supported");
    if (strcmp(kind, "NONE") == 0) {
        if (key_scale || value_scale)
            return tmk_fail(diag, TMK_GRAPH, "scales of a cache without 'k_quant_type'");
        return TMK_OK;
    }
    if (!per_tensor && strcmp(kind, "PER_CHANNEL") != 0)
        return tmk_fail(diag, TMK_UNSUPPORTED, "attribute 'k_quant_type' '%s' is not supported",
                        kind);
    if ((width != 8 && width != 4) || (width == 4 && size % 2))
        return tmk_fail(diag, TMK_RANGE,
                        "attribute 'kv_cache_bit_width' %lld with heads of %lld elements",
                        (long long)width, (long long)size);
    *bits = (int)width;
    const int64_t wanted = per_tensor ? 1 : groups * size;
    TMK_TRY(check_scale(key_scale, "k_scale", wanted, diag));
    return check_scale(value_scale, "v_scale", wanted, diag);
}

struct tmk_cache_codes tmk_cache_codes_of(int bits, const struct tmk_tensor *scale, size_t head,
                                          size_t size) {
    const size_t step = tmk_tensor_count(scale) > 1;
    return (struct tmk_cache_codes){bits, (const float *)scale->data + step * head * size, step,
                                    size};
}

void tmk_cache_decode(const struct tmk_cache_codes *c, const uint8_t *codes, float *x,
                      size_t rows) {
    for (size_t row = 0; row < rows; row++)
        for (size_t i = 0; i < c->size; i++) {
            const size_t at = row * c->size + i;
            const int code =
                c->bits == 8 ? (int8_t)codes[at] : (int)tmk_contrib_code(codes, at, 4) - 8;
            x[at] = (float)code * c->scale[i * c->step];
        }
}

void tmk_cache_encode(const struct tmk_cache_codes *c, float *row, uint8_t *codes) {
    const float least = c->bits == 8 ? INT8_MIN : -8, most = c->bits == 8 ? INT8_MAX : 7;
    for (size_t i = 0; i < c->size; i++) {
        float code = rintf(row[i] / c->scale[i * c->step]);
        code = code > least ? code : least; /* NaN too */
        code = code < most ? code : most;
        if (c->bits == 8)
            codes[i] = (uint8_t)(int)code;
        else if (i % 2)
            codes[i / 2] |= (uint8_t)((int)code + 8) << 4;
        else
            codes[i / 2] = (uint8_t)((int)code + 8);
    }
    tmk_cache_decode(c, codes, row, 1);
}
