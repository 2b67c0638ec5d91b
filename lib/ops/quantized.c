/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/quantized.h"

#include <math.h>

#include "ops/kernel.h"

enum tmk_status tmk_want_quantized(const struct tmk_tensor *tensor, const struct tmk_tensor *zero,
                                   const char *what, struct tmk_diag *diag) {
    if (tensor->dtype != TMK_INT8 && tensor->dtype != TMK_UINT8)
        return tmk_fail(diag, TMK_TYPE, "input '%s' is of type %s, not int8 or uint8", what,
                        tmk_dtype_name(tensor->dtype));
    if (zero && zero->dtype != tensor->dtype)
        return tmk_fail(diag, TMK_TYPE, "input '%s' is of type %s, its zero point of type %s", what,
                        tmk_dtype_name(tensor->dtype), tmk_dtype_name(zero->dtype));
    return TMK_OK;
}

#define INTEGERS(X)                                                                                \
    X(INT8, int8_t)                                                                                \
    X(INT4, int8_t)                                                                                \
    X(INT2, int8_t)                                                                                \
    X(UINT8, uint8_t)                                                                              \
    X(UINT4, uint8_t)                                                                              \
    X(UINT2, uint8_t)                                                                              \
    X(INT16, int16_t)                                                                              \
    X(UINT16, uint16_t)                                                                            \
    X(INT32, int32_t)

bool tmk_is_quantized(enum tmk_dtype dtype) {
    switch (dtype) {
#define IS(dtype, T) case TMK_##dtype:
        INTEGERS(IS)
#undef IS
        return true;
    default:
        return false;
    }
}

int32_t tmk_quantized_at(const struct tmk_tensor *tensor, size_t i) {
    switch (tensor ? tensor->dtype : TMK_UNDEFINED) {
#define AT(dtype, T)                                                                               \
    case TMK_##dtype:                                                                              \
        return ((const T *)tensor->data)[i];
        INTEGERS(AT)
#undef AT
    default:
        return 0;
    }
}

void tmk_quantized_widen(const struct tmk_tensor *tensor, size_t first, size_t n, int32_t zero,
                         int32_t *to) {
    switch (tensor->dtype) {
#define WIDEN(dtype, T)                                                                            \
    case TMK_##dtype:                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            to[i] = (int32_t)((uint32_t)((const T *)tensor->data)[first + i] - (uint32_t)zero);    \
        break;
        INTEGERS(WIDEN)
#undef WIDEN
    default:
        break;
    }
}

void tmk_quantized_narrow(const int32_t *from, size_t n, struct tmk_tensor *tensor, size_t first) {
    switch (tensor->dtype) {
#define NARROW(dtype, T)                                                                           \
    case TMK_##dtype:                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            ((T *)tensor->data)[first + i] = (T)from[i];                                           \
        break;
        INTEGERS(NARROW)
#undef NARROW
    default:
        break;
    }
}

void tmk_quantized_put(struct tmk_tensor *y, size_t i, int32_t sum, float scale, int32_t zero) {
    bool is_signed = y->dtype == TMK_INT8;
    float low = is_signed ? INT8_MIN : 0, high = is_signed ? INT8_MAX : UINT8_MAX;
    float value = rintf((float)sum * scale) + (float)zero;
    value = value > low ? value : low;
    value = value < high ? value : high;
    if (is_signed)
        ((int8_t *)y->data)[i] = (int8_t)value;
    else
        ((uint8_t *)y->data)[i] = (uint8_t)value;
}
