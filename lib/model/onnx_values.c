/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors, types and attributes as messages. */
#include <string.h>

#include "base/text.h"
#include "model/onnx.h"
#include "model/onnx_parts.h"
#include "model/wire.h"
#include "tensor/list.h"

void *tmk_onnx_make(struct tmk_onnx_writer *w, const ProtobufCMessageDescriptor *descriptor) {
    void *message = tmk_arena_alloc(&w->arena, descriptor->sizeof_message);
    if (message)
        protobuf_c_message_init(descriptor, message);
    return message;
}

/* The messages are only ever packed, which reads what they point to. */
static void *borrow_bytes(const void *bytes) {
    return (void *)(uintptr_t)bytes;
}

static enum tmk_status pack_tensor(struct tmk_onnx_writer *w, const struct tmk_tensor *tensor,
                                   ProtobufCBinaryData *out) {
    size_t n = tmk_tensor_count(tensor);
    const uint8_t *from = tensor->data;
    const unsigned bits = tmk_dtype_bits(tensor->dtype), each = 8 / bits;
    uint8_t *to = tmk_arena_alloc(&w->arena, n / each + 1);
    TMK_TRY_ALLOC(to, w->diag);
    for (size_t i = 0; i < n; i++)
        to[i / each] =
            (uint8_t)(to[i / each] | (from[i] & ((1u << bits) - 1)) << (i % each * bits));
    *out = (ProtobufCBinaryData){tmk_packed_bytes(tensor->dtype, n), to};
    return TMK_OK;
}

enum tmk_status tmk_onnx_write_tensor(struct tmk_onnx_writer *w, const struct tmk_tensor *tensor,
                                      const char *name, TmkPb__Tensor **out) {
    TmkPb__Tensor *pb = tmk_onnx_make(w, &tmk_pb__tensor__descriptor);
    size_t rank = (size_t)tensor->shape.rank;
    int64_t *dims = tmk_arena_array(&w->arena, rank, sizeof *dims);
    TMK_TRY_ALLOC(pb && dims, w->diag);
    memcpy(dims, tensor->shape.dim, rank * sizeof *dims);
    pb->n_dims = rank;
    pb->dims = dims;
    pb->has_data_type = true;
    pb->data_type = (int32_t)tensor->dtype;
    pb->name = borrow_bytes(name);
    pb->has_raw_data = true;
    if (tmk_dtype_bits(tensor->dtype) < 8)
        TMK_TRY(pack_tensor(w, tensor, &pb->raw_data));
    else
        pb->raw_data = (ProtobufCBinaryData){tmk_tensor_bytes(tensor), tensor->data};
    *out = pb;
    return TMK_OK;
}

static TmkPb__Shape *write_shape(struct tmk_onnx_writer *w, const struct tmk_type *type) {
    TmkPb__Shape *pb = tmk_onnx_make(w, &tmk_pb__shape__descriptor);
    size_t rank = (size_t)type->shape.rank;
    if (!pb || !(pb->dim = tmk_arena_array(&w->arena, rank, sizeof *pb->dim)))
        return NULL;
    pb->n_dim = rank;
    for (size_t i = 0; i < rank; i++) {
        TmkPb__Dim *dim = pb->dim[i] = tmk_onnx_make(w, &tmk_pb__dim__descriptor);
        if (!dim)
            return NULL;
        if (type->shape.dim[i] >= 0) {
            dim->has_dim_value = true;
            dim->dim_value = type->shape.dim[i];
        } else {
            dim->dim_param = borrow_bytes(type->symbol[i]);
        }
    }
    return pb;
}

/* The type becomes a sequence of it, or an optional. */
static enum tmk_status wrap_type(struct tmk_onnx_writer *w, bool sequence, TmkPb__Type **type) {
    TmkPb__Type *whole = tmk_onnx_make(w, &tmk_pb__type__descriptor);
    TmkPb__ContainerType *container = tmk_onnx_make(w, &tmk_pb__container_type__descriptor);
    TMK_TRY_ALLOC(whole && container, w->diag);
    container->elem_type = *type;
    *(sequence ? &whole->sequence_type : &whole->optional_type) = container;
    *type = whole;
    return TMK_OK;
}

enum tmk_status tmk_onnx_write_type(struct tmk_onnx_writer *w, const struct tmk_type *type,
                                    TmkPb__Type **out) {
    if (type->dtype == TMK_UNDEFINED) {
        *out = NULL;
        return TMK_OK;
    }
    TmkPb__Type *pb = tmk_onnx_make(w, &tmk_pb__type__descriptor);
    TmkPb__TensorType *tensor = tmk_onnx_make(w, &tmk_pb__tensor_type__descriptor);
    TMK_TRY_ALLOC(pb && tensor, w->diag);
    tensor->has_elem_type = true;
    tensor->elem_type = (int32_t)type->dtype;
    if (type->has_shape && !(tensor->shape = write_shape(w, type)))
        return tmk_nomem(w->diag);
    pb->tensor_type = tensor;
    if (type->kind == TMK_TYPE_SEQUENCE || type->kind == TMK_TYPE_OPTIONAL_SEQUENCE)
        TMK_TRY(wrap_type(w, true, &pb));
    if (type->kind == TMK_TYPE_OPTIONAL || type->kind == TMK_TYPE_OPTIONAL_SEQUENCE)
        TMK_TRY(wrap_type(w, false, &pb));
    *out = pb;
    return TMK_OK;
}

/* Of what ZipMap makes, which is held as a tensor: a sequence of maps from classes to numbers. */
enum tmk_status tmk_onnx_write_maps(struct tmk_onnx_writer *w, const struct tmk_node *node,
                                    TmkPb__Type **out) {
    const struct tmk_type number = {.dtype = TMK_FLOAT32, .has_shape = true};
    TmkPb__Type *pb = tmk_onnx_make(w, &tmk_pb__type__descriptor);
    TmkPb__MapType *map = tmk_onnx_make(w, &tmk_pb__map_type__descriptor);
    TMK_TRY_ALLOC(pb && map, w->diag);
    map->has_key_type = true;
    map->key_type = tmk_node_attr(node, "classlabels_strings") ? TMK_STRING : TMK_INT64;
    TMK_TRY(tmk_onnx_write_type(w, &number, &map->value_type));
    pb->map_type = map;
    *out = pb;
    return wrap_type(w, true, out);
}

static enum tmk_status write_tensors(struct tmk_onnx_writer *w, const struct tmk_attr *attr,
                                     TmkPb__Attribute *out) {
    out->tensors = tmk_arena_array(&w->arena, attr->n, sizeof *out->tensors);
    TMK_TRY_ALLOC(out->tensors, w->diag);
    for (size_t i = 0; i < attr->n; i++)
        TMK_TRY(tmk_onnx_write_tensor(w, &attr->tensors[i], NULL, &out->tensors[i]));
    if (attr->kind == TMK_ATTR_TENSOR)
        out->t = out->tensors[0];
    else
        out->n_tensors = attr->n;
    return TMK_OK;
}

enum tmk_status tmk_onnx_write_attr(struct tmk_onnx_writer *w, const struct tmk_attr *attr,
                                    TmkPb__Attribute *out) {
    static const enum tmk_onnx_attr_type types[] = {
        [TMK_ATTR_INT] = TMK_ONNX_INT,         [TMK_ATTR_FLOAT] = TMK_ONNX_FLOAT,
        [TMK_ATTR_STRING] = TMK_ONNX_STRING,   [TMK_ATTR_TENSOR] = TMK_ONNX_TENSOR,
        [TMK_ATTR_GRAPH] = TMK_ONNX_GRAPH,     [TMK_ATTR_INTS] = TMK_ONNX_INTS,
        [TMK_ATTR_FLOATS] = TMK_ONNX_FLOATS,   [TMK_ATTR_STRINGS] = TMK_ONNX_STRINGS,
        [TMK_ATTR_TENSORS] = TMK_ONNX_TENSORS, [TMK_ATTR_GRAPHS] = TMK_ONNX_GRAPHS,
        [TMK_ATTR_TYPE] = TMK_ONNX_TYPE_PROTO,
    };
    out->name = borrow_bytes(attr->name);
    out->has_type = true;
    out->type = types[attr->kind];
    switch (attr->kind) {
    case TMK_ATTR_INT:
        out->has_i = true;
        out->i = attr->i;
        break;
    case TMK_ATTR_FLOAT:
        out->has_f = true;
        out->f = attr->f;
        break;
    case TMK_ATTR_STRING:
        out->has_s = true;
        out->s = (ProtobufCBinaryData){attr->n, borrow_bytes(attr->s)};
        break;
    case TMK_ATTR_INTS:
        out->n_ints = attr->n;
        out->ints = borrow_bytes(attr->ints);
        break;
    case TMK_ATTR_FLOATS:
        out->n_floats = attr->n;
        out->floats = borrow_bytes(attr->floats);
        break;
    case TMK_ATTR_STRINGS:
        out->strings = tmk_arena_array(&w->arena, attr->n, sizeof *out->strings);
        TMK_TRY_ALLOC(out->strings, w->diag);
        out->n_strings = attr->n;
        for (size_t i = 0; i < attr->n; i++)
            out->strings[i] =
                (ProtobufCBinaryData){strlen(attr->strings[i]), borrow_bytes(attr->strings[i])};
        break;
    case TMK_ATTR_TENSOR:
    case TMK_ATTR_TENSORS:
        return write_tensors(w, attr, out);
    case TMK_ATTR_TYPE:
        return tmk_onnx_write_type(w, attr->type, &out->tp);
    case TMK_ATTR_GRAPH:
    case TMK_ATTR_GRAPHS:
        break; /* the caller's */
    }
    return TMK_OK;
}

/* Values in files of their own: TensorProto, SequenceProto, OptionalProto. */

enum { NOTHING = 0, TENSOR = 1, SEQUENCE = 3 }; /* elem_type */

static enum tmk_status fill_list(struct tmk_onnx_file *file, const TmkPb__Sequence *pb,
                                 struct tmk_list *list, struct tmk_diag *diag) {
    const struct tmk_tensor *first = tmk_list_items(list);
    for (size_t i = 0; i < pb->n_tensor_values; i++) {
        struct tmk_tensor *place = tmk_list_place(list, i);
        TMK_TRY(tmk_in(diag, tmk_onnx_tensor(file, pb->tensor_values[i], place, diag), "tensor %zu",
                       i));
        if (place->dtype != first->dtype)
            return tmk_fail(diag, TMK_FORMAT, "tensor %zu is %s, but tensor 0 is %s", i,
                            tmk_dtype_name(place->dtype), tmk_dtype_name(first->dtype));
    }
    return TMK_OK;
}

static enum tmk_status read_sequence(struct tmk_onnx_file *file, const TmkPb__Sequence *pb,
                                     const struct tmk_type *type, struct tmk_tensor *out,
                                     struct tmk_diag *diag) {
    if (pb->elem_type != NOTHING && pb->elem_type != TENSOR)
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "sequences of anything but tensors are not supported");
    struct tmk_list *list = tmk_list_create(pb->n_tensor_values);
    TMK_TRY_ALLOC(list, diag);
    enum tmk_status status = fill_list(file, pb, list, diag);
    enum tmk_dtype dtype = pb->n_tensor_values ? tmk_list_items(list)->dtype : type->dtype;
    if (status == TMK_OK)
        tmk_tensor_of_list(out, dtype, list);
    else
        tmk_list_unref(&list);
    return status;
}

static const struct value_kind {
    enum tmk_wire_message message;
    const ProtobufCMessageDescriptor *descriptor;
    const char *what;
} kinds[] = {
    [TMK_TYPE_TENSOR] = {TMK_WIRE_TENSOR, &tmk_pb__tensor__descriptor, "tensor"},
    [TMK_TYPE_SEQUENCE] = {TMK_WIRE_SEQUENCE, &tmk_pb__sequence__descriptor, "sequence"},
    [TMK_TYPE_OPTIONAL] = {TMK_WIRE_OPTIONAL, &tmk_pb__optional__descriptor, "optional"},
    [TMK_TYPE_OPTIONAL_SEQUENCE] = {TMK_WIRE_OPTIONAL, &tmk_pb__optional__descriptor, "optional"},
};

static enum tmk_status read_message(struct tmk_onnx_file *file, const ProtobufCMessage *message,
                                    const struct tmk_type *type, struct tmk_tensor *out,
                                    const char **name, struct tmk_diag *diag) {
    switch (type->kind) {
    case TMK_TYPE_TENSOR: {
        TmkPb__Tensor tensor = *(const TmkPb__Tensor *)message;
        *name = tensor.name;
        /* onnx up to 1.18 saved the bits of bfloat16, which NumPy lacks, as uint16 */
        if (type->origin == TMK_BFLOAT16 && tensor.data_type == TMK_UINT16)
            tensor.data_type = TMK_BFLOAT16;
        return tmk_onnx_tensor(file, &tensor, out, diag);
    }
    case TMK_TYPE_SEQUENCE:
        *name = ((const TmkPb__Sequence *)message)->name;
        return read_sequence(file, (const TmkPb__Sequence *)message, type, out, diag);
    case TMK_TYPE_OPTIONAL:
    case TMK_TYPE_OPTIONAL_SEQUENCE:
        break;
    }
    *name = ((const TmkPb__Optional *)message)->name;
    const TmkPb__Optional *pb = (const TmkPb__Optional *)message;
    if (pb->elem_type == TENSOR && pb->tensor_value)
        return tmk_onnx_tensor(file, pb->tensor_value, out, diag);
    if (pb->elem_type == SEQUENCE && pb->sequence_value)
        return read_sequence(file, pb->sequence_value, type, out, diag);
    if (pb->elem_type != NOTHING && pb->elem_type != TENSOR && pb->elem_type != SEQUENCE)
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "optionals of anything but tensors and sequences are not supported");
    tmk_tensor_nothing(out, type->dtype);
    return TMK_OK;
}

enum tmk_status tmk_onnx_load_value(const char *path, const struct tmk_type *type,
                                    struct tmk_tensor *out, char **name, struct tmk_diag *diag) {
    const struct value_kind *value_kind = &kinds[type->kind];
    struct tmk_onnx_file file;
    TMK_TRY(tmk_onnx_file_init(&file, path, diag));
    struct tmk_text outline = {0};
    struct tmk_wire_memory memory;
    ProtobufCMessage *message = NULL;
    struct tmk_tensor value = {0};
    const char *found = NULL;
    char *copy = NULL;
    tmk_wire_memory_begin(&memory);
    enum tmk_status status = tmk_wire_outline(tmk_buf_data(file.bytes), tmk_buf_size(file.bytes),
                                              value_kind->message, &outline, diag);
    if (status == TMK_OK) {
        message = protobuf_c_message_unpack(value_kind->descriptor, &memory.allocator, outline.len,
                                            (const uint8_t *)outline.data);
        status =
            message ? read_message(&file, message, type, &value, &found, diag)
            : memory.failed
                ? tmk_nomem(diag)
                : tmk_in(diag,
                         tmk_wire_fault(value_kind->descriptor, outline.data, outline.len, diag),
                         "not an ONNX %s", value_kind->what);
    }
    if (status == TMK_OK && name && found && !(copy = strdup(found))) {
        tmk_tensor_finish(&value);
        status = tmk_nomem(diag);
    }
    if (status == TMK_OK) {
        *out = value;
        if (name)
            *name = copy;
    }
    if (message)
        protobuf_c_message_free_unpacked(message, &memory.allocator);
    tmk_wire_memory_end(&memory);
    tmk_text_finish(&outline);
    tmk_onnx_file_finish(&file);
    return tmk_in(diag, status, "%s", path);
}

enum tmk_status tmk_onnx_load_tensor(const char *path, struct tmk_tensor *out, char **name,
                                     struct tmk_diag *diag) {
    return tmk_onnx_load_value(path, &(struct tmk_type){.kind = TMK_TYPE_TENSOR}, out, name, diag);
}
