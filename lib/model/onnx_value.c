/* SPDX-License-Identifier: Apache-2.0 */
/* Values in files of their own: TensorProto, SequenceProto, OptionalProto. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "model/onnx.h"
#include "model/onnx_parts.h"
#include "model/wire.h"
#include "model/wire_fault.h"
#include "tensor/list.h"

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
    if (!list)
        return tmk_nomem(diag);
    enum tmk_status status = fill_list(file, pb, list, diag);
    enum tmk_dtype dtype = pb->n_tensor_values ? tmk_list_items(list)->dtype : type->dtype;
    if (status == TMK_OK)
        tmk_tensor_of_list(out, dtype, list);
    else
        tmk_list_unref(&list);
    return status;
}

static const struct kind {
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
    case TMK_TYPE_TENSOR:
        *name = ((const TmkPb__Tensor *)message)->name;
        return tmk_onnx_tensor(file, (const TmkPb__Tensor *)message, out, diag);
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
    const struct kind *kind = &kinds[type->kind];
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
                                              kind->message, &outline, diag);
    if (status == TMK_OK) {
        message = protobuf_c_message_unpack(kind->descriptor, &memory.allocator, outline.len,
                                            (const uint8_t *)outline.data);
        status =
            message ? read_message(&file, message, type, &value, &found, diag)
            : memory.failed
                ? tmk_nomem(diag)
                : tmk_in(diag, tmk_wire_fault(kind->descriptor, outline.data, outline.len, diag),
                         "not an ONNX %s", kind->what);
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
