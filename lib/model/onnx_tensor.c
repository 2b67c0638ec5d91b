/* SPDX-License-Identifier: Apache-2.0 */
/* TensorProto and TypeProto: element types, shapes and every encoding of the elements. */
#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "model/onnx_parts.h"
#include "tensor/elements.h"
#include "tensor/shape.h"

static bool is_packed(enum tmk_dtype dtype) {
    return tmk_dtype_bits(dtype) < 8;
}

static void unpack_codes(enum tmk_dtype dtype, const unsigned char *from, size_t n,
                         unsigned char *to) {
    const unsigned bits = tmk_dtype_bits(dtype), each = 8 / bits, mask = (1u << bits) - 1;
    const unsigned sign = dtype == TMK_INT4 || dtype == TMK_INT2 ? 1u << (bits - 1) : 0;
    for (size_t i = 0; i < n; i++) {
        unsigned code = from[i / each] >> (i % each * bits) & mask;
        to[i] = (unsigned char)(code & sign ? code | ~mask : code);
    }
}

/* Smaller tensors are copied: where the system maps whole folios, one that is read in the file
 * takes up to 2 MiB of memory as long as the model is used. */
enum { MAPPED_LEAST = 1 << 15 }; /* bytes */

struct header {
    enum tmk_dtype dtype;
    struct tmk_shape shape;
    size_t count, bytes; /* elements; bytes in the file's raw form */
};

static enum tmk_status read_header(const TmkPb__Tensor *pb, struct header *out,
                                   struct tmk_diag *diag) {
    struct header h = {.dtype = pb->data_type};
    if (pb->data_type < TMK_FLOAT32 || pb->data_type >= TMK_N_DTYPES)
        return tmk_fail(diag, pb->data_type ? TMK_UNSUPPORTED : TMK_FORMAT,
                        "field data_type: element type %d is not supported", (int)pb->data_type);
    if (h.dtype == TMK_STRING)
        return tmk_fail(diag, TMK_UNSUPPORTED, "string tensors are not supported");
    if (pb->n_dims > TMK_MAX_RANK)
        return tmk_fail(diag, TMK_UNSUPPORTED, "%zu dimensions; at most %d are supported",
                        pb->n_dims, TMK_MAX_RANK);
    h.shape.rank = (int32_t)pb->n_dims;
    for (size_t i = 0; i < pb->n_dims; i++) {
        if (pb->dims[i] < 0)
            return tmk_fail(diag, TMK_FORMAT, "dimension %zu is %lld", i, (long long)pb->dims[i]);
        h.shape.dim[i] = pb->dims[i];
    }
    if (!tmk_shape_count(&h.shape, &h.count) ||
        !tmk_mul_size(h.count, tmk_dtype_size(h.dtype), &h.bytes)) {
        return tmk_fail(diag, TMK_RANGE, "a tensor of shape %s is too large",
                        TMK_SHAPE_TEXT(&h.shape));
    }
    if (is_packed(h.dtype))
        h.bytes = tmk_packed_bytes(h.dtype, h.count);
    *out = h;
    return TMK_OK;
}

static bool all_truth_values(const unsigned char *bytes, size_t n) {
    unsigned char seen = 0;
    for (size_t i = 0; i < n; i++)
        seen |= bytes[i];
    return seen <= 1;
}

static enum tmk_status from_raw(const struct header *h, const unsigned char *bytes, size_t size,
                                struct tmk_buf *owner, bool lazy, struct tmk_tensor *out,
                                struct tmk_diag *diag) {
    if (size != h->bytes) {
        return tmk_fail(diag, TMK_FORMAT, "%zu bytes of data where %s of shape %s takes %zu", size,
                        tmk_dtype_name(h->dtype), TMK_SHAPE_TEXT(&h->shape), h->bytes);
    }
    const size_t unit = tmk_dtype_size(h->dtype);
    const bool narrow_type = tmk_onnx_widened(h->dtype) != h->dtype,
               aligned = unit && (uintptr_t)bytes % unit == 0;
    if (lazy && h->count >= TMK_LAZY_LEAST &&
        (narrow_type || (h->dtype == TMK_FLOAT32 && !aligned)))
        return tmk_lazy_create(h->dtype, &h->shape, bytes, owner, out, diag);
    if (narrow_type) {
        struct tmk_tensor narrow;
        tmk_tensor_borrow(&narrow, h->dtype, &h->shape, (void *)(uintptr_t)bytes);
        return tmk_tensor_widen(&narrow, out, diag);
    }
    bool as_it_is = size >= MAPPED_LEAST && !is_packed(h->dtype) && aligned &&
                    (h->dtype != TMK_BOOL || all_truth_values(bytes, size));
    if (as_it_is) {
        struct tmk_buf *view = tmk_buf_view(bytes, size, owner);
        TMK_TRY_ALLOC(view, diag);
        *out = (struct tmk_tensor){.dtype = h->dtype,
                                   .origin = h->dtype,
                                   .shape = h->shape,
                                   .buf = view,
                                   .data = tmk_buf_data(view)};
        return TMK_OK;
    }
    TMK_TRY(tmk_tensor_init(out, h->dtype, &h->shape, diag));
    unsigned char *to = out->data;
    if (is_packed(h->dtype))
        unpack_codes(h->dtype, bytes, h->count, to);
    else if (h->dtype == TMK_BOOL)
        for (size_t i = 0; i < size; i++)
            to[i] = bytes[i] != 0;
    else if (size)
        memcpy(to, bytes, size);
    return TMK_OK;
}

/* int32_data holds every type of 32 bits and less, floats of 16 and 8 bits by their bits. */
static void narrow_integers(enum tmk_dtype dtype, const int32_t *from, size_t n, void *to) {
    uint8_t *bytes = to;
    uint16_t *halves = to;
    for (size_t i = 0; i < n; i++) {
        if (tmk_dtype_size(dtype) == 2)
            halves[i] = (uint16_t)from[i];
        else
            bytes[i] = (uint8_t)(dtype == TMK_BOOL ? from[i] != 0 : from[i]);
    }
}

static enum tmk_status from_fields(const struct header *h, const TmkPb__Tensor *pb,
                                   struct tmk_tensor *out, struct tmk_diag *diag) {
    const void *field;
    const char *name;
    size_t n, want = h->count;
    switch (h->dtype) {
    case TMK_COMPLEX64:
    case TMK_FLOAT32:
        field = pb->float_data, n = pb->n_float_data, name = "float_data";
        want *= h->dtype == TMK_FLOAT32 ? 1 : 2;
        break;
    case TMK_COMPLEX128:
    case TMK_FLOAT64:
        field = pb->double_data, n = pb->n_double_data, name = "double_data";
        want *= h->dtype == TMK_FLOAT64 ? 1 : 2;
        break;
    case TMK_INT64:
        field = pb->int64_data, n = pb->n_int64_data, name = "int64_data";
        break;
    case TMK_UINT32:
    case TMK_UINT64:
        field = pb->uint64_data, n = pb->n_uint64_data, name = "uint64_data";
        break;
    default:
        field = pb->int32_data, n = pb->n_int32_data, name = "int32_data";
        want = is_packed(h->dtype) ? h->bytes : h->count;
    }
    if (n != want) {
        return tmk_fail(diag, TMK_FORMAT,
                        "field %s has %zu elements of data where %s of shape %s takes %zu", name, n,
                        tmk_dtype_name(h->dtype), TMK_SHAPE_TEXT(&h->shape), want);
    }
    struct tmk_tensor tensor;
    TMK_TRY(tmk_tensor_init(&tensor, h->dtype, &h->shape, diag));
    if (h->dtype == TMK_UINT32) {
        for (size_t i = 0; i < n; i++)
            ((uint32_t *)tensor.data)[i] = (uint32_t)pb->uint64_data[i];
    } else if (is_packed(h->dtype)) {
        const size_t each = 8 / tmk_dtype_bits(h->dtype);
        for (size_t i = 0; i < n; i++) {
            const unsigned char byte = (unsigned char)pb->int32_data[i];
            const size_t at = i * each, left = h->count - at;
            unpack_codes(h->dtype, &byte, left < each ? left : each,
                         (unsigned char *)tensor.data + at);
        }
    } else if (field == pb->int32_data && tmk_dtype_size(h->dtype) < 4) {
        narrow_integers(h->dtype, pb->int32_data, n, tensor.data);
    } else if (n) {
        memcpy(tensor.data, field, h->bytes);
    }
    enum tmk_status status = tmk_tensor_widen(&tensor, out, diag);
    tmk_tensor_finish(&tensor);
    return status;
}

enum tmk_status tmk_onnx_tensor(struct tmk_onnx_file *file, const TmkPb__Tensor *pb,
                                struct tmk_tensor *out, struct tmk_diag *diag) {
    struct header h;
    TMK_TRY(read_header(pb, &h, diag));
    if (pb->data_location == TMK_ONNX_EXTERNAL) {
        const char *location = NULL;
        uint64_t offset = 0, length = h.bytes;
        for (size_t i = 0; i < pb->n_external_data; i++) {
            const char *key = pb->external_data[i]->key, *value = pb->external_data[i]->value;
            if (!key || !value)
                continue;
            if (strcmp(key, "location") == 0)
                location = value;
            else if ((strcmp(key, "offset") == 0 &&
                      !tmk_read_digits(value, strlen(value), &offset)) ||
                     (strcmp(key, "length") == 0 &&
                      !tmk_read_digits(value, strlen(value), &length)))
                return tmk_fail(diag, TMK_FORMAT, "external data: %s '%s' is no size", key, value);
        }
        if (!location)
            return tmk_fail(diag, TMK_FORMAT, "external data without a location");
        struct tmk_buf *bytes;
        TMK_TRY(tmk_onnx_external(file, location, &bytes, diag));
        size_t size = tmk_buf_size(bytes);
        if (offset > size || length > size - offset)
            return tmk_fail(diag, TMK_FORMAT,
                            "external data at '%s': %llu bytes from %llu on, but the file has %zu",
                            location, (unsigned long long)length, (unsigned long long)offset, size);
        enum tmk_status status = from_raw(&h, (unsigned char *)tmk_buf_data(bytes) + offset,
                                          (size_t)length, bytes, file->lazy, out, diag);
        if (h.bytes < MAPPED_LEAST)
            tmk_buf_rest(bytes);
        return tmk_in(diag, status, "external data at '%s'", location);
    }
    if (pb->has_raw_offset && pb->has_raw_size)
        return from_raw(&h, (unsigned char *)tmk_buf_data(file->bytes) + pb->raw_offset,
                        pb->raw_size, file->bytes, file->lazy, out, diag);
    return from_fields(&h, pb, out, diag);
}

enum tmk_dtype tmk_onnx_widened(enum tmk_dtype dtype) {
    return dtype == TMK_FLOAT16 || dtype == TMK_BFLOAT16 || dtype == TMK_FLOAT64 ? TMK_FLOAT32
                                                                                 : dtype;
}

static enum tmk_status read_shape(const TmkPb__Shape *pb, struct tmk_type *out,
                                  struct tmk_diag *diag) {
    if (pb->n_dim > TMK_MAX_RANK)
        return tmk_fail(diag, TMK_UNSUPPORTED, "%zu dimensions; at most %d are supported",
                        pb->n_dim, TMK_MAX_RANK);
    out->has_shape = true;
    out->shape.rank = (int32_t)pb->n_dim;
    for (size_t i = 0; i < pb->n_dim; i++) {
        const TmkPb__Dim *dim = pb->dim[i];
        out->shape.dim[i] = dim->has_dim_value && dim->dim_value >= 0 ? dim->dim_value : -1;
        if (!dim->has_dim_value)
            out->symbol[i] = dim->dim_param;
    }
    return TMK_OK;
}

enum tmk_status tmk_onnx_type(const TmkPb__Type *pb, struct tmk_type *out, struct tmk_diag *diag) {
    struct tmk_type type = {.kind = TMK_TYPE_TENSOR};
    if (pb && (pb->map_type || pb->opaque_type || pb->sparse_tensor_type))
        return tmk_fail(diag, TMK_UNSUPPORTED, "%s are not supported",
                        pb->map_type      ? "maps"
                        : pb->opaque_type ? "opaque types"
                                          : "sparse tensors");
    if (pb && pb->optional_type) {
        type.kind = TMK_TYPE_OPTIONAL;
        pb = pb->optional_type->elem_type;
    }
    if (pb && pb->sequence_type) {
        type.kind = type.kind == TMK_TYPE_OPTIONAL ? TMK_TYPE_OPTIONAL_SEQUENCE : TMK_TYPE_SEQUENCE;
        pb = pb->sequence_type->elem_type;
    }
    if (type.kind != TMK_TYPE_TENSOR && pb && !pb->tensor_type)
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "sequences and optionals of anything but tensors are not supported");
    if (pb && pb->tensor_type) {
        int32_t number = pb->tensor_type->elem_type;
        if (number < TMK_UNDEFINED || number >= TMK_N_DTYPES)
            return tmk_fail(diag, TMK_UNSUPPORTED, "element type %d is not supported", (int)number);
        type.origin = (enum tmk_dtype)number;
        type.dtype = tmk_onnx_widened(type.origin);
        if (pb->tensor_type->shape)
            TMK_TRY(read_shape(pb->tensor_type->shape, &type, diag));
    }
    *out = type;
    return TMK_OK;
}
