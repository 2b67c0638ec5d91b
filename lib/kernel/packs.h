/* SPDX-License-Identifier: Apache-2.0 */
/* Constant operands as primitives want them. Accels that want the same layout of the same operand,
 * such as those of one node at two batch sizes, share the bytes. */
#pragma once

#include "kernel/accel.h"
#include "kernel/shim.h"

struct tmk_pack;

/* The pack of the operand whose elements are at `source`, which lie as `from` says, in the layout
 * `to`; one user more. *made: it is new, and its bytes (64-byte aligned) are to be written, by
 * tmk_pack_write. packs NULL: always a new one. TMK_NOMEM, TMK_LIMIT. */
enum tmk_status tmk_pack_get(struct tmk_packs *packs, const void *source, tmk_md from, tmk_md to,
                             struct tmk_pack **out, bool *made, struct tmk_diag *diag);
void *tmk_pack_bytes(const struct tmk_pack *pack);
/* Writes the bytes of a new pack, which it finds zero. Called once, by any thread. */
struct tmk_pack_writer {
    enum tmk_status (*write)(void *context, void *bytes, struct tmk_diag *diag);
    void *context;
    const struct tmk_node *node; /* whose operand it is, for the message when it fails later */
};
/* Has the bytes written, now or, while packs are open, before they are closed. */
enum tmk_status tmk_pack_write(struct tmk_pack *pack, const struct tmk_pack_writer *writer,
                               struct tmk_diag *diag);
/* Of packs that were made empty: gives it bytes, which the writer fills as above, unless another
 * user has loaded it. A pack of its own has bytes from the beginning and keeps them. */
enum tmk_status tmk_pack_load(struct tmk_pack *pack, const struct tmk_pack_writer *writer,
                              struct tmk_diag *diag);
/* The last of those who loaded it frees the bytes. */
void tmk_pack_unload(struct tmk_pack *pack);
/* To be called before a writer's context goes: afterwards it has written. */
void tmk_pack_finalize(struct tmk_pack *pack);
/* One user less; the last one ends it. NULL is allowed. */
void tmk_pack_release(struct tmk_pack *pack);
