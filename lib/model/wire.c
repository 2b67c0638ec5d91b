/* SPDX-License-Identifier: Apache-2.0 */
#include "model/wire.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/text.h"

enum { VARINT = 0, BITS64 = 1, BYTES = 2, BITS32 = 5 };
enum { RAW_DATA = 9, RAW_OFFSET = 100000, RAW_SIZE = 100001 };
/* Lengths are written at this fixed width, so that they can be filled in afterwards. */
enum { LENGTH_BYTES = 5 };

static const struct {
    enum tmk_wire_message message;
    uint32_t field;
    enum tmk_wire_message holds;
} nested[] = {
    {TMK_WIRE_MODEL, 7, TMK_WIRE_GRAPH},          {TMK_WIRE_MODEL, 25, TMK_WIRE_FUNCTION},
    {TMK_WIRE_GRAPH, 1, TMK_WIRE_NODE},           {TMK_WIRE_GRAPH, 5, TMK_WIRE_TENSOR},
    {TMK_WIRE_GRAPH, 11, TMK_WIRE_VALUE_INFO},    {TMK_WIRE_GRAPH, 12, TMK_WIRE_VALUE_INFO},
    {TMK_WIRE_GRAPH, 13, TMK_WIRE_VALUE_INFO},    {TMK_WIRE_NODE, 5, TMK_WIRE_ATTRIBUTE},
    {TMK_WIRE_FUNCTION, 7, TMK_WIRE_NODE},        {TMK_WIRE_FUNCTION, 11, TMK_WIRE_ATTRIBUTE},
    {TMK_WIRE_FUNCTION, 12, TMK_WIRE_VALUE_INFO}, {TMK_WIRE_ATTRIBUTE, 5, TMK_WIRE_TENSOR},
    {TMK_WIRE_ATTRIBUTE, 6, TMK_WIRE_GRAPH},      {TMK_WIRE_ATTRIBUTE, 10, TMK_WIRE_TENSOR},
    {TMK_WIRE_ATTRIBUTE, 11, TMK_WIRE_GRAPH},     {TMK_WIRE_ATTRIBUTE, 14, TMK_WIRE_TYPE},
    {TMK_WIRE_VALUE_INFO, 2, TMK_WIRE_TYPE},      {TMK_WIRE_TYPE, 4, TMK_WIRE_CONTAINER_TYPE},
    {TMK_WIRE_TYPE, 9, TMK_WIRE_CONTAINER_TYPE},  {TMK_WIRE_CONTAINER_TYPE, 1, TMK_WIRE_TYPE},
    {TMK_WIRE_SEQUENCE, 3, TMK_WIRE_TENSOR},      {TMK_WIRE_OPTIONAL, 3, TMK_WIRE_TENSOR},
    {TMK_WIRE_OPTIONAL, 5, TMK_WIRE_SEQUENCE},    {TMK_WIRE_GRAPH, 15, TMK_WIRE_SPARSE},
    {TMK_WIRE_ATTRIBUTE, 22, TMK_WIRE_SPARSE},    {TMK_WIRE_SPARSE, 1, TMK_WIRE_TENSOR},
    {TMK_WIRE_SPARSE, 2, TMK_WIRE_TENSOR},
};

struct walk {
    const unsigned char *bytes;
    struct tmk_text *out;
    struct tmk_diag *diag;
};

static enum tmk_wire_message held_by(enum tmk_wire_message message, uint32_t field) {
    for (size_t i = 0; i < TMK_COUNT(nested); i++)
        if (nested[i].message == message && nested[i].field == field)
            return nested[i].holds;
    return TMK_WIRE_LEAF;
}

/* A number of protobuf's variable width, from bytes[*at] on; false when it does not end before
 * bytes[end]. */
static bool wire_varint(const void *data, size_t *at, size_t end, uint64_t *out) {
    const unsigned char *bytes = data;
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
        unsigned char byte = bytes[(*at)++];
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *out = value;
            return true;
        }
    }
    return false;
}

static void write_varint(struct tmk_text *out, uint64_t value) {
    char bytes[10];
    size_t n = 0;
    do {
        bytes[n++] = (char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value);
    tmk_text_append(out, bytes, n);
}

static void write_place(struct tmk_text *out, uint32_t field, uint64_t value) {
    write_varint(out, (uint64_t)field << 3 | VARINT);
    write_varint(out, value);
}

/* Outlines the message in [at, end). */
static enum tmk_status walk_message(struct walk *w, size_t at, size_t end,
                                    enum tmk_wire_message kind, int depth);

static enum tmk_status walk_submessage(struct walk *w, size_t at, size_t end, uint64_t key,
                                       enum tmk_wire_message kind, int depth) {
    static const char placeholder[LENGTH_BYTES];
    write_varint(w->out, key);
    size_t place = w->out->len;
    tmk_text_append(w->out, placeholder, sizeof placeholder);
    TMK_TRY(walk_message(w, at, end, kind, depth));
    TMK_TRY_ALLOC(!w->out->failed, w->diag);
    size_t size = w->out->len - place - LENGTH_BYTES;
    if (size > INT32_MAX)
        return tmk_fail(w->diag, TMK_FORMAT, "byte %zu: a message of more than 2 GiB", at);
    for (int i = 0; i < LENGTH_BYTES; i++, size >>= 7)
        w->out->data[place + (size_t)i] = (char)((size & 0x7f) | (i < LENGTH_BYTES - 1 ? 0x80 : 0));
    return TMK_OK;
}

static enum tmk_status walk_message(struct walk *w, size_t at, size_t end,
                                    enum tmk_wire_message kind, int depth) {
    if (depth > TMK_WIRE_DEPTH)
        return tmk_fail(w->diag, TMK_FORMAT, "byte %zu: more than %d messages within each other",
                        at, TMK_WIRE_DEPTH);
    while (at < end) {
        size_t start = at;
        uint64_t key, value = 0;
        if (!wire_varint(w->bytes, &at, end, &key) || key >> 3 == 0 || key > UINT32_MAX)
            return tmk_fail(w->diag, TMK_FORMAT, "byte %zu: no protobuf field starts here", start);
        uint32_t field = (uint32_t)(key >> 3);
        unsigned wire = key & 7;
        if (wire == VARINT || wire == BYTES) {
            if (!wire_varint(w->bytes, &at, end, &value))
                return tmk_fail(w->diag, TMK_FORMAT, "byte %zu: a number that does not end", start);
        } else if (wire != BITS64 && wire != BITS32) {
            return tmk_fail(w->diag, TMK_FORMAT, "byte %zu: no protobuf field starts here", start);
        }
        uint64_t size = wire == BYTES ? value : wire == BITS64 ? 8 : wire == BITS32 ? 4 : 0;
        if (size > end - at)
            return tmk_fail(w->diag, TMK_FORMAT,
                            "byte %zu: a field of %llu bytes where %zu are left; the file is cut "
                            "short or damaged",
                            start, (unsigned long long)size, end - at);
        size_t next = at + (size_t)size;
        enum tmk_wire_message holds = wire == BYTES ? held_by(kind, field) : TMK_WIRE_LEAF;
        if (holds != TMK_WIRE_LEAF) {
            TMK_TRY(walk_submessage(w, at, next, key, holds, depth + 1));
        } else if (kind == TMK_WIRE_TENSOR && field == RAW_DATA && wire == BYTES) {
            write_place(w->out, RAW_OFFSET, at);
            write_place(w->out, RAW_SIZE, size);
        } else if (kind != TMK_WIRE_TENSOR || field < RAW_OFFSET) {
            tmk_text_append(w->out, (const char *)w->bytes + start, next - start);
        }
        at = next;
    }
    return w->out->failed ? tmk_nomem(w->diag) : TMK_OK;
}

enum tmk_status tmk_wire_outline(const void *bytes, size_t size, enum tmk_wire_message kind,
                                 struct tmk_text *out, struct tmk_diag *diag) {
    struct walk w = {bytes, out, diag};
    return walk_message(&w, 0, size, kind, 0);
}

/* ---- memory ---- */

enum { HEAP_OVERHEAD = 16 }; /* of malloc, a block */

static void *allocate_block(void *context, size_t size) {
    struct tmk_wire_memory *memory = context;
    size_t total;
    void *block = NULL;
    if (tmk_add_size(size, HEAP_OVERHEAD, &total) && tmk_memory_charge(total)) {
        memory->taken += total;
        block = malloc(size);
    }
    memory->failed |= !block;
    return block;
}

static void release_block(void *context, void *block) {
    (void)context;
    free(block);
}

void tmk_wire_memory_begin(struct tmk_wire_memory *memory) {
    *memory = (struct tmk_wire_memory){.allocator = {allocate_block, release_block, memory}};
}

void tmk_wire_memory_end(struct tmk_wire_memory *memory) {
    tmk_memory_uncharge(memory->taken);
    memory->taken = 0;
}

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
        if (!wire_varint(b->bytes, &at, end, &value))
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
    if (!wire_varint(b->bytes, at, end, &key) || key > UINT32_MAX)
        return false;
    *out = (struct wire_field){(unsigned)(key >> 3), key & 7, *at, 0};
    switch (out->wire) {
    case PROTOBUF_C_WIRE_TYPE_VARINT:
        out->next = *at;
        return wire_varint(b->bytes, &out->next, end, &size);
    case PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED:
        if (!wire_varint(b->bytes, &out->at, end, &size))
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
