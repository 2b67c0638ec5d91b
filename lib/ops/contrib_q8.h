/* SPDX-License-Identifier: Apache-2.0 */
/* 8-bit tensors that stand for (element - zero) * scale: their inputs come as a scale and, after it
 * and optional, a zero point. */
#pragma once

#include <math.h>

#include "ops/contrib.h"
#include "ops/quantized.h"

struct tmk_q8 {
    float scale;
    int32_t zero;
};

/* TMK_GRAPH, TMK_TYPE or TMK_SHAPE unless input i, there, is int8 or uint8 and inputs i + 1 and
 * i + 2 are its scale and zero point, of one element each. */
static inline enum tmk_status tmk_q8_check(const struct tmk_infer *infer, uint32_t i,
                                           const char *what) {
    const struct tmk_tensor *zero = tmk_infer_in(infer, i + 2);
    TMK_TRY(tmk_want_quantized(infer->in[i], zero, what, infer->diag));
    TMK_TRY(tmk_contrib_need(infer, i + 1, "a scale"));
    TMK_TRY(tmk_want_scalar(infer->in[i + 1], TMK_FLOAT32, "a scale", infer->diag));
    return tmk_want_scalar(zero, TMK_UNDEFINED, "a zero point", infer->diag);
}

/* The same for a result of type `dtype` whose scale is input i and its zero point input i + 1. */
static inline enum tmk_status tmk_q8_check_result(const struct tmk_infer *infer, uint32_t i,
                                                  enum tmk_dtype dtype, const char *what) {
    const struct tmk_tensor *zero = tmk_infer_in(infer, i + 1);
    TMK_TRY(tmk_contrib_need(infer, i, what));
    TMK_TRY(tmk_want_scalar(infer->in[i], TMK_FLOAT32, "a scale", infer->diag));
    return tmk_want_scalar(zero, dtype, "a zero point", infer->diag);
}

/* Scale and zero point from inputs i and i + 1, as checked. */
static inline struct tmk_q8 tmk_q8_of(const struct tmk_run *run, uint32_t i) {
    return (struct tmk_q8){*(const float *)run->in[i]->data,
                           tmk_quantized_at(tmk_run_in(run, i + 1), 0)};
}

/* What a byte stands for. */
static inline float tmk_q8_value(enum tmk_dtype dtype, struct tmk_q8 q, uint8_t byte) {
    return (float)((dtype == TMK_INT8 ? (int8_t)byte : byte) - q.zero) * q.scale;
}

/* The byte for a whole number, with the zero point in it; NaN saturates low. */
static inline uint8_t tmk_q8_saturate(enum tmk_dtype dtype, float v) {
    float low = dtype == TMK_INT8 ? INT8_MIN : 0, high = dtype == TMK_INT8 ? INT8_MAX : UINT8_MAX;
    v = v > low ? v : low;
    v = v < high ? v : high;
    return (uint8_t)(int32_t)v;
}

/* The byte for v, which has been divided by the scale; half to even. */
static inline uint8_t tmk_q8_byte(enum tmk_dtype dtype, float v, struct tmk_q8 q) {
    return tmk_q8_saturate(dtype, rintf(v) + (float)q.zero);
}

/* The same where the zero point comes in before the rounding: a tie goes to an even byte. */
static inline uint8_t tmk_q8_even_byte(enum tmk_dtype dtype, float v, struct tmk_q8 q) {
    return tmk_q8_saturate(dtype, rintf(v + (float)q.zero));
}
