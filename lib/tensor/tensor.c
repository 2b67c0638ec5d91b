/* SPDX-License-Identifier: Apache-2.0 */
#include <tidemark/tensor.h>

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/diag.h"
#include "base/memory.h"
#include "base/size.h"
#include "tensor/elements.h"
#include "tensor/list.h"
#include "tensor/shape.h"

enum kind { NONE, FLOAT, INTEGER, BOOL, COMPLEX };

static const struct {
    const char *name;
    uint8_t size, kind, bits;
} types[TMK_N_DTYPES] = {
#define TMK_DTYPE_ROW(name, number, text, size, kind, bits) [number] = {text, size, kind, bits},
    TMK_DTYPE_LIST(TMK_DTYPE_ROW)
#undef TMK_DTYPE_ROW
};

static size_t row_of(enum tmk_dtype dtype) {
    return (size_t)dtype < TMK_N_DTYPES ? (size_t)dtype : TMK_UNDEFINED;
}

size_t tmk_dtype_size(enum tmk_dtype dtype) {
    return types[row_of(dtype)].size;
}

const char *tmk_dtype_name(enum tmk_dtype dtype) {
    return types[row_of(dtype)].name;
}

enum tmk_dtype tmk_dtype_by_name(const char *name) {
    for (int dtype = TMK_UNDEFINED + 1; dtype < TMK_N_DTYPES; dtype++)
        if (strcmp(name, types[dtype].name) == 0)
            return (enum tmk_dtype)dtype;
    return TMK_UNDEFINED;
}

unsigned tmk_dtype_bits(enum tmk_dtype dtype) {
    return types[row_of(dtype)].bits;
}

bool tmk_dtype_is_float(enum tmk_dtype dtype) {
    return types[row_of(dtype)].kind == FLOAT;
}

bool tmk_dtype_is_integer(enum tmk_dtype dtype) {
    return types[row_of(dtype)].kind == INTEGER;
}

bool tmk_dtype_is_signed(enum tmk_dtype dtype) {
    return tmk_dtype_is_integer(dtype) && *tmk_dtype_name(dtype) == 'i';
}

bool tmk_shape_count(const struct tmk_shape *shape, size_t *out) {
    if (shape->rank < 0 || shape->rank > TMK_MAX_RANK)
        return false;
    /* a zero dimension makes the count zero, but the others must still multiply without overflow */
    size_t count = 1;
    bool empty = false;
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dim[i] < 0)
            return false;
        if (shape->dim[i] == 0)
            empty = true;
        else if (!tmk_mul_size(count, (size_t)shape->dim[i], &count))
            return false;
    }
    *out = empty ? 0 : count;
    return true;
}

bool tmk_shape_equal(const struct tmk_shape *a, const struct tmk_shape *b) {
    if (a->rank != b->rank)
        return false;
    for (int32_t i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

const char *tmk_shape_text(const struct tmk_shape *shape, char *out, size_t size) {
    size_t used = 0;
    out[0] = '\0';
    for (int32_t i = 0; i < shape->rank && used < size; i++) {
        const char *before = i ? "," : "[";
        int n = shape->dim[i] < 0
                    ? snprintf(out + used, size - used, "%s?", before)
                    : snprintf(out + used, size - used, "%s%lld", before, (long long)shape->dim[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    if (used < size)
        snprintf(out + used, size - used, shape->rank ? "]" : "[]");
    return out;
}

enum tmk_status tmk_tensor_init(struct tmk_tensor *tensor, enum tmk_dtype dtype,
                                const struct tmk_shape *shape, struct tmk_diag *diag) {
    size_t size = tmk_dtype_size(dtype), count, bytes;
    if (!size)
        return tmk_fail(diag, TMK_TYPE, "%s tensors are not supported", tmk_dtype_name(dtype));
    if (!tmk_shape_count(shape, &count) || !tmk_mul_size(count, size, &bytes) ||
        bytes > PTRDIFF_MAX)
        return tmk_fail(diag, TMK_RANGE, "a tensor of shape %s is too large",
                        TMK_SHAPE_TEXT(shape));
    struct tmk_buf *buf = tmk_buf_create(bytes);
    if (!buf)
        return tmk_memory_fail(diag, bytes, "a tensor of shape %s", TMK_SHAPE_TEXT(shape));
    *tensor = (struct tmk_tensor){
        .dtype = dtype, .origin = dtype, .shape = *shape, .buf = buf, .data = tmk_buf_data(buf)};
    return TMK_OK;
}

void tmk_tensor_borrow(struct tmk_tensor *tensor, enum tmk_dtype dtype,
                       const struct tmk_shape *shape, void *data) {
    *tensor = (struct tmk_tensor){.dtype = dtype, .origin = dtype, .shape = *shape, .data = data};
}

void tmk_tensor_share(struct tmk_tensor *copy, const struct tmk_tensor *src) {
    *copy = *src;
    if (copy->buf)
        tmk_buf_ref(copy->buf);
    if (copy->list)
        tmk_list_ref(copy->list);
}

void tmk_tensor_finish(struct tmk_tensor *tensor) {
    tmk_buf_unref(&tensor->buf);
    tmk_list_unref(&tensor->list);
    *tensor = (struct tmk_tensor){0};
}

size_t tmk_tensor_count(const struct tmk_tensor *tensor) {
    size_t count = 0;
    return tmk_shape_count(&tensor->shape, &count) ? count : 0;
}

size_t tmk_tensor_bytes(const struct tmk_tensor *tensor) {
    return tmk_tensor_count(tensor) * tmk_dtype_size(tensor->dtype);
}
