/* SPDX-License-Identifier: Apache-2.0 */
#include "model/wire_fault.h"

#include "base/diag.h"
#include "base/text.h"
#include "model/wire.h"

enum { MAX_FIELDS = 64 }; /* of one message, for counting; no layout has as many */

struct blame {
    const unsigned char *bytes;
    struct tmk_text *path;
    struct tmk_diag *diag;
};

static unsigned wire_of(ProtobufCType type) {
    switch (type) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return PROTOBUF_C_WIRE_TYPE_32BIT;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return PROTOBUF_C_WIRE_TYPE_64BIT;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED;
    default:
        return PROTOBUF_C_WIRE_TYPE_VARINT;
    }
}

/* Numbers of one wire type, end to end. */
static bool packed_is_whole(const struct blame *b, unsigned wire, size_t at, size_t end) {
    uint64_t value;
    if (wire == PROTOBUF_C_WIRE_TYPE_32BIT || wire == PROTOBUF_C_WIRE_TYPE_64BIT)
        return (end - at) % (wire == PROTOBUF_C_WIRE_TYPE_32BIT ? 4 : 8) == 0;
    while (at < end)
        if (!tmk_wire_varint(b->bytes, &at, end, &value))
            return false;
    return true;
}

struct wire_field {
    unsigned number, wire;
    size_t at, next; /* its bytes, without key and length */
};

/* False when none starts at *at. */
static bool read_field(const struct blame *b, size_t *at, size_t end, struct wire_field *out) {
    uint64_t key, size = 0;
    if (!tmk_wire_varint(b->bytes, at, end, &key) || key > UINT32_MAX)
        return false;
    *out = (struct wire_field){(unsigned)(key >> 3), key & 7, *at, 0};
    switch (out->wire) {
    case PROTOBUF_C_WIRE_TYPE_VARINT:
        out->next = *at;
        return tmk_wire_varint(b->bytes, &out->next, end, &size);
    case PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED:
        if (!tmk_wire_varint(b->bytes, &out->at, end, &size))
            return false;
        break;
    case PROTOBUF_C_WIRE_TYPE_64BIT:
        size = 8;
        break;
    case PROTOBUF_C_WIRE_TYPE_32BIT:
        size = 4;
        break;
    default:
        return false;
    }
    if (size > end - out->at)
        return false;
    out->next = out->at + (size_t)size;
    return true;
}

static enum tmk_status find_fault(struct blame *b, const ProtobufCMessageDescriptor *layout,
                                  size_t at, size_t end);

static enum tmk_status find_fault(struct blame *b, const ProtobufCMessageDescriptor *layout,
                                  size_t at, size_t end) {
    size_t seen[MAX_FIELDS] = {0};
    while (at < end) {
        struct wire_field found;
        if (!read_field(b, &at, end, &found))
            return tmk_fail(b->diag, TMK_FORMAT, "field %s is damaged",
                            b->path->len ? b->path->data : layout->short_name);
        const ProtobufCFieldDescriptor *field =
            protobuf_c_message_descriptor_get_field(layout, found.number);
        if (field) {
            size_t i = (size_t)(field - layout->fields);
            /* The nth of this field. */
            size_t nth = i < MAX_FIELDS ? seen[i]++ : 0;
            unsigned wanted = wire_of(field->type);
            bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
            bool packed = repeated && found.wire == PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED &&
                          found.wire != wanted;
            size_t length = b->path->len;
            tmk_text_printf(b->path, "%s%s", length ? "." : "", field->name);
            if (repeated && !packed)
                tmk_text_printf(b->path, "[%zu]", nth);
            if (packed ? !packed_is_whole(b, wanted, found.at, found.next) : found.wire != wanted)
                return tmk_fail(b->diag, TMK_FORMAT, "field %s is of the wrong type or damaged",
                                b->path->failed ? field->name : b->path->data);
            if (field->type == PROTOBUF_C_TYPE_MESSAGE)
                TMK_TRY(find_fault(b, field->descriptor, found.at, found.next));
            if (!b->path->failed) {
                b->path->len = length;
                b->path->data[length] = '\0';
            }
        }
        at = found.next;
    }
    return TMK_OK;
}

enum tmk_status tmk_wire_fault(const ProtobufCMessageDescriptor *layout, const void *bytes,
                               size_t size, struct tmk_diag *diag) {
    struct tmk_text path = {0};
    struct blame b = {bytes, &path, diag};
    enum tmk_status status = find_fault(&b, layout, 0, size);
    tmk_text_finish(&path);
    return status == TMK_OK ? tmk_fail(diag, TMK_FORMAT, "some field is damaged") : status;
}
