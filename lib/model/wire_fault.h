/* SPDX-License-Identifier: Apache-2.0 */
/* Why protobuf-c rejects a message, which it does not report. */
#ifndef TMK_MODEL_WIRE_FAULT_H
#define TMK_MODEL_WIRE_FAULT_H

#include <protobuf-c/protobuf-c.h>

#include <tidemark/status.h>

/* TMK_FORMAT: names the first field that is not what the layout says, as in
 * "graph.node[3].attribute[0].ints". `bytes` are an outline (model/wire.h), so well-formed. */
TMK_NODISCARD enum tmk_status tmk_wire_fault(const ProtobufCMessageDescriptor *layout,
                                             const void *bytes, size_t size, struct tmk_diag *diag);

#endif
