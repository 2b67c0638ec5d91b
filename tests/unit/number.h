/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of tensors as numbers. Needs test.h before it. */
#pragma once

#include <tidemark/tensor.h>

static inline double number_at(const struct tmk_tensor *tensor, size_t i) {
    switch (tensor->dtype) {
    case TMK_FLOAT32:
        return (double)((const float *)tensor->data)[i];
    case TMK_BOOL:
    case TMK_UINT8:
        return ((const uint8_t *)tensor->data)[i];
    case TMK_INT8:
        return ((const int8_t *)tensor->data)[i];
    case TMK_INT16:
        return ((const int16_t *)tensor->data)[i];
    case TMK_UINT16:
        return ((const uint16_t *)tensor->data)[i];
    case TMK_INT32:
        return ((const int32_t *)tensor->data)[i];
    case TMK_UINT32:
        return ((const uint32_t *)tensor->data)[i];
    case TMK_INT64:
        return (double)((const int64_t *)tensor->data)[i];
    case TMK_UINT64:
        return (double)((const uint64_t *)tensor->data)[i];
    default:
        fail_msg("no numbers of type %s here", tmk_dtype_name(tensor->dtype));
        return 0;
    }
}
