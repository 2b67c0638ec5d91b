/* SPDX-License-Identifier: Apache-2.0 */
/* A look at a protobuf file before protobuf-c sees it.
 *
 * protobuf-c copies every bytes field and descends as deep as the file nests. So the file is first
 * copied without its raw tensor bytes: each TensorProto.raw_data becomes a raw_offset and a
 * raw_size (onnx.proto), by which the weights are read in place from the mapped file; and what is
 * nested too deep is refused, as is what is no protobuf at all. Wire format:
 * https://protobuf.dev/programming-guides/encoding. */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

#include <tidemark/status.h>

#include "base/text.h"

enum {
    TMK_WIRE_DEPTH = 100
}; /* messages within messages; the limit that Google's readers have too */

/* The messages that can hold, however far below, a tensor or themselves. */
enum tmk_wire_message {
    TMK_WIRE_LEAF,
    TMK_WIRE_MODEL,
    TMK_WIRE_GRAPH,
    TMK_WIRE_NODE,
    TMK_WIRE_ATTRIBUTE,
    TMK_WIRE_FUNCTION,
    TMK_WIRE_TENSOR,
    TMK_WIRE_SPARSE,
    TMK_WIRE_VALUE_INFO,
    TMK_WIRE_TYPE,
    TMK_WIRE_CONTAINER_TYPE,
    TMK_WIRE_SEQUENCE,
    TMK_WIRE_OPTIONAL
};

/* What protobuf-c takes for a message, counted against the memory limit. `allocator` points into
 * it: it does not move between begin and end, and the message is freed before the end. */
struct tmk_wire_memory {
    ProtobufCAllocator allocator;
    size_t taken;
    bool failed; /* there was none left */
};
void tmk_wire_memory_begin(struct tmk_wire_memory *memory);
void tmk_wire_memory_end(struct tmk_wire_memory *memory);

/* Appends to `out` the message that the bytes hold, with places for raw_data. TMK_FORMAT names the
 * byte. */
enum tmk_status tmk_wire_outline(const void *bytes, size_t size, enum tmk_wire_message message,
                                 struct tmk_text *out, struct tmk_diag *diag);

/* Why protobuf-c rejects a message, which it does not report. */

/* TMK_FORMAT: names the first field that is not what the layout says, as in
 * "graph.node[3].attribute[0].ints". `bytes` are an outline (model/wire.h), so well-formed. */
enum tmk_status tmk_wire_fault(const ProtobufCMessageDescriptor *layout, const void *bytes,
                               size_t size, struct tmk_diag *diag);
