/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/number.h"

#include <math.h>

#include "base/diag.h"

bool tmk_number_takes(enum tmk_dtype dtype) {
    return dtype == TMK_FLOAT32 || dtype == TMK_INT64 || dtype == TMK_INT32 || dtype == TMK_BOOL;
}

double tmk_number_get(const struct tmk_tensor *tensor, size_t at) {
    switch (tensor->dtype) {
    case TMK_FLOAT32:
        return (double)((const float *)tensor->data)[at];
    case TMK_INT64:
        return (double)((const int64_t *)tensor->data)[at];
    case TMK_INT32:
        return ((const int32_t *)tensor->data)[at];
    default:
        return ((const uint8_t *)tensor->data)[at];
    }
}

enum tmk_status tmk_number_put(struct tmk_tensor *tensor, size_t at, double value,
                               struct tmk_diag *diag) {
    const bool whole = value == floor(value) && fabs(value) <= 9007199254740992.0;
    switch (tensor->dtype) {
    case TMK_FLOAT32:
        ((float *)tensor->data)[at] = (float)value;
        return TMK_OK;
    case TMK_INT64:
        if (whole) {
            ((int64_t *)tensor->data)[at] = (int64_t)value;
            return TMK_OK;
        }
        break;
    case TMK_INT32:
        if (whole && value >= INT32_MIN && value <= INT32_MAX) {
            ((int32_t *)tensor->data)[at] = (int32_t)value;
            return TMK_OK;
        }
        break;
    case TMK_BOOL:
        if (value == 0 || value == 1) {
            ((uint8_t *)tensor->data)[at] = value == 1;
            return TMK_OK;
        }
        break;
    default:
        return tmk_fail(diag, TMK_TYPE, "numbers do not feed inputs of type %s",
                        tmk_dtype_name(tensor->dtype));
    }
    return tmk_fail(diag, TMK_FORMAT, "%.17g is no %s", value, tmk_dtype_name(tensor->dtype));
}
