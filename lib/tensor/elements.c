/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/elements.h"

#include "base/buf.h"

bool tmk_elements_mapped(const struct tmk_tensor *tensor) {
    return tmk_buf_is_mapped(tensor->buf);
}

const void *tmk_elements(const struct tmk_tensor *tensor, size_t first, size_t n) {
    (void)n;
    return (const char *)tensor->data + first * tmk_dtype_size(tensor->dtype);
}

void tmk_elements_rest(const struct tmk_tensor *tensor, size_t first, size_t n) {
    const size_t size = tmk_dtype_size(tensor->dtype);
    tmk_buf_rest_part(tensor->buf, (const char *)tensor->data + first * size, n * size);
}
