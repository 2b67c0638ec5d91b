/* SPDX-License-Identifier: Apache-2.0 */
/* TVM's record of one tensor (SaveDLTensor), as params files and metadata sections hold it. */
#pragma once

#include "relay/ast.h"

enum { TMK_RELAY_RECORD_MIN = 44 }; /* bytes of a record of a scalar without its data */

/* Little-endian fields that are read one behind the other. */
struct tmk_relay_bytes {
    const unsigned char *bytes;
    size_t at, len;
    const char *name; /* for messages: "name: byte N: what" */
    struct tmk_diag *diag;
};

/* The next `size` (1 to 8) bytes as a number; TMK_FORMAT when they are not there. */
enum tmk_status tmk_relay_field(struct tmk_relay_bytes *from, size_t size, uint64_t *out);
/* TMK_FORMAT "name: byte N: what". A macro, so that compilers see which status it is. */
void tmk_relay_bytes_report(const struct tmk_relay_bytes *from, size_t at, const char *fmt, ...)
    TMK_PRINTF(3, 4);
#define tmk_relay_bytes_fail(from, ...) (tmk_relay_bytes_report(from, __VA_ARGS__), TMK_FORMAT)

/* Everything of `out` but its name. Its tensor has memory of its own; `bytes` are the tensor's, or
 * a copy in the arena for element types that Tidemark does not have. */
enum tmk_status tmk_relay_record_read(struct tmk_relay_bytes *from, struct tmk_arena *arena,
                                      struct tmk_relay_param *out);
/* Everything of `out` but its name, for a tensor, which it shares. TMK_TYPE where TVM has no such
 * element type. */
enum tmk_status tmk_relay_record_make(const struct tmk_tensor *tensor, struct tmk_arena *arena,
                                      struct tmk_relay_param *out, struct tmk_diag *diag);
void tmk_relay_field_print(struct tmk_text *out, size_t size, uint64_t value);
void tmk_relay_record_print(struct tmk_text *out, const struct tmk_relay_param *param);
