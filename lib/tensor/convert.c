/* SPDX-License-Identifier: Apache-2.0 */
/* Between the floating-point formats. Layouts: IEEE 754-2019 (binary16, binary32, binary64) and
 * bfloat16. */
#include <string.h>

#include <tidemark/tensor.h>

#include "base/diag.h"
#include "tensor/widen.h"

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Without branches, so that compilers make vectors of a loop over it. */
float tmk_from_half(uint16_t half) {
    const uint32_t magnitude = half & 0x7fffu, mantissa = half & 0x3ffu,
                   special = 0u - (magnitude >= 0x7c00u), small = 0u - (magnitude < 0x400u),
                   large = (magnitude << 13) + (112u << 23) + (special & 112u << 23);
    const uint32_t least = bits_of((float)(int32_t)mantissa * 0x1p-24f); /* zero, denormal: exact */
    return float_of((half & 0x8000u) << 16 | (large & ~small) | (least & small));
}

uint16_t tmk_to_half(float value) {
    uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffffu;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x477ff000u) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x33000001u) /* 2^-25 and below round to zero */
        return sign;
    uint32_t shift = 13, kept;
    if (magnitude < 0x38800000u) { /* a denormal half: the implicit bit becomes explicit */
        shift = 126u - (magnitude >> 23);
        magnitude = (magnitude & 0x7fffffu) | 0x800000u;
        kept = magnitude >> shift;
    } else {
        kept = (magnitude - 0x38000000u) >> 13;
    }
    uint32_t rest = magnitude & ((1u << shift) - 1), half = 1u << (shift - 1);
    kept += rest > half || (rest == half && (kept & 1));
    return (uint16_t)(sign | kept);
}

float tmk_from_bfloat16(uint16_t bits) {
    return float_of((uint32_t)bits << 16);
}

uint16_t tmk_to_bfloat16(float value) {
    uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

void tmk_widen(enum tmk_dtype dtype, const void *bytes, size_t n, float *to) {
    const char *from = bytes; /* mapped files need not be aligned */
    uint16_t half;
    double wide;
    if (dtype == TMK_FLOAT16)
        for (size_t i = 0; i < n; i++) {
            memcpy(&half, from + i * sizeof half, sizeof half);
            to[i] = tmk_from_half(half);
        }
    else if (dtype == TMK_BFLOAT16)
        for (size_t i = 0; i < n; i++) {
            memcpy(&half, from + i * sizeof half, sizeof half);
            to[i] = tmk_from_bfloat16(half);
        }
    else
        for (size_t i = 0; i < n; i++) {
            memcpy(&wide, from + i * sizeof wide, sizeof wide);
            to[i] = (float)wide;
        }
}

enum tmk_status tmk_tensor_widen(const struct tmk_tensor *in, struct tmk_tensor *out,
                                 struct tmk_diag *diag) {
    if (in->dtype != TMK_FLOAT16 && in->dtype != TMK_BFLOAT16 && in->dtype != TMK_FLOAT64) {
        tmk_tensor_share(out, in);
        return TMK_OK;
    }
    TMK_TRY(tmk_tensor_init(out, TMK_FLOAT32, &in->shape, diag));
    out->origin = in->dtype;
    tmk_widen(in->dtype, in->data, tmk_tensor_count(in), out->data);
    return TMK_OK;
}
