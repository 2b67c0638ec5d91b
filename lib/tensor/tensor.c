/* SPDX-License-Identifier: Apache-2.0 */
#include <tidemark/tensor.h>

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/diag.h"
#include "base/memory.h"
#include "base/size.h"
#include "tensor/list.h"
#include "tensor/shape.h"

size_t tmk_dtype_size(enum tmk_dtype dtype) {
    switch (dtype) {
#define TMK_DTYPE_SIZE(name, number, text, size, kind, bits)                                       \
    case TMK_##name:                                                                               \
        return size;
        TMK_DTYPE_LIST(TMK_DTYPE_SIZE)
#undef TMK_DTYPE_SIZE
    }
    return 0;
}

const char *tmk_dtype_name(enum tmk_dtype dtype) {
    switch (dtype) {
#define TMK_DTYPE_NAME(name, number, text, size, kind, bits)                                       \
    case TMK_##name:                                                                               \
        return text;
        TMK_DTYPE_LIST(TMK_DTYPE_NAME)
#undef TMK_DTYPE_NAME
    }
    return "undefined";
}

enum tmk_dtype tmk_dtype_by_name(const char *name) {
#define TMK_DTYPE_FIND(dtype, number, text, size, kind, bits)                                      \
    if (strcmp(name, text) == 0)                                                                   \
        return TMK_##dtype;
    TMK_DTYPE_LIST(TMK_DTYPE_FIND)
#undef TMK_DTYPE_FIND
    return TMK_UNDEFINED;
}

enum kind { NONE, FLOAT, INTEGER, BOOL, COMPLEX };

static enum kind kind_of(enum tmk_dtype dtype) {
    switch (dtype) {
#define TMK_DTYPE_KIND(name, number, text, size, kind, bits)                                       \
    case TMK_##name:                                                                               \
        return kind;
        TMK_DTYPE_LIST(TMK_DTYPE_KIND)
#undef TMK_DTYPE_KIND
    }
    return NONE;
}

unsigned tmk_dtype_bits(enum tmk_dtype dtype) {
    switch (dtype) {
#define TMK_DTYPE_BITS(name, number, text, size, kind, bits)                                       \
    case TMK_##name:                                                                               \
        return bits;
        TMK_DTYPE_LIST(TMK_DTYPE_BITS)
#undef TMK_DTYPE_BITS
    }
    return 0;
}

bool tmk_dtype_is_float(enum tmk_dtype dtype) {
    return kind_of(dtype) == FLOAT;
}

bool tmk_dtype_is_integer(enum tmk_dtype dtype) {
    return kind_of(dtype) == INTEGER;
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
