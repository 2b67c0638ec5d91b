/* SPDX-License-Identifier: Apache-2.0 */
/* Accelerated overrides of the plain kernels. The plain kernel (lib/ops) is the reference; an
 * accelerated one is chosen while planning, for one node at fixed shapes, and may prepare what it
 * likes then (weights in another layout, compiled code). The library behind it is hidden here: one
 * file a library, none.c where there is none. */
#pragma once

#include "ops/ops.h"

/* Prepared to run one node at fixed shapes. Immutable once made: may be run by many threads at a
 * time. */
struct tmk_accel;

/* Copies of constant operands that accels share: the maker of several plans of one graph passes
 * them the same. Constants must stay where they are as long as an accel that was given them. Not
 * thread-safe: accels that share are made and destroyed one at a time. */
struct tmk_packs;
enum tmk_status tmk_packs_create(struct tmk_packs **out, struct tmk_diag *diag);
/* For accels that are measured (tmk_accel_bytes), and loaded before they run: until then copies
 * have no memory, and no constant is read for them. */
enum tmk_status tmk_packs_create_empty(struct tmk_packs **out, struct tmk_diag *diag);
/* After all accels that share them. *packs NULL is allowed. */
void tmk_packs_destroy(struct tmk_packs **packs);
/* Copying weights takes far longer than all else that making accels does, and others may help with
 * it: between open and close, accels are made whose copies are still to be filled, and other
 * threads' tmk_packs_help (thread-safe) fills them until close, which fills what is left and waits
 * for all. No accel may run before that. It answers the first failure; accels may only be destroyed
 * then. */
void tmk_packs_open(struct tmk_packs *packs);
enum tmk_status tmk_packs_close(struct tmk_packs *packs, struct tmk_diag *diag);
/* Returns at once when nothing is open. Of a thread that entered (tmk_kernel_enter_thread). */
void tmk_packs_help(struct tmk_packs *packs);

/* How a node's activations lie: 0 row-major, else blocks of so many channels (see chain.h). */
struct tmk_accel_layout {
    uint32_t in, out; /* operand 0, and result 0; all others lie row-major */
};

/* The layouts in which the node runs best, given that operand 0 comes in blocks of `have` (0:
 * row-major). {0, 0} where no accelerated kernel wants blocks. in, out_types: as for
 * tmk_accel_create. Where a layout is asked for whose bytes are row-major as well
 * (tmk_blocked_same), 0 is answered. */
enum tmk_status tmk_accel_preferred_layout(const struct tmk_node *node,
                                           const struct tmk_tensor *const *in,
                                           const struct tmk_infer_result *out_types, uint32_t have,
                                           struct tmk_accel_layout *out, struct tmk_diag *diag);

/* *out becomes NULL when no accelerated kernel fits the node in these layouts (not an error: the
 * plain kernel, row-major, runs then). in: as for infer (data NULL where not constant; constant
 * operands such as weights have data, which must stay alive as long as the accel unless it was
 * copied; so must the node); out_types: inferred, all known. packs NULL: nothing is shared. */
enum tmk_status tmk_accel_create(const struct tmk_node *node, const struct tmk_tensor *const *in,
                                 const struct tmk_infer_result *out_types,
                                 struct tmk_accel_layout layout, struct tmk_packs *packs,
                                 struct tmk_accel **out, struct tmk_diag *diag);
/* May operand `input` of the node be lazy (tensor/elements.h) where it is constant? */
bool tmk_accel_takes_lazy(const struct tmk_node *node, uint32_t input);
/* Was it packed, so that runs do not read the operand? */
bool tmk_accel_has_packed(const struct tmk_accel *accel, uint32_t input);
/* Gives the accel, which was made with empty packs, its copies, and takes them away again. As
 * making accels, between tmk_packs_open and close or outside; no thread may run it meanwhile. After
 * a failure only destroy it. */
enum tmk_status tmk_accel_load(struct tmk_accel *accel, struct tmk_diag *diag);
void tmk_accel_unload(struct tmk_accel *accel);
/* NULL and *accel NULL are allowed. */
void tmk_accel_destroy(struct tmk_accel **accel);
/* A name for people: "onednn jit:avx2". */
const char *tmk_accel_name(const struct tmk_accel *accel);
/* Bytes of 64-byte aligned scratch memory that a run needs; may be 0. */
size_t tmk_accel_scratch(const struct tmk_accel *accel);
/* Bytes of memory that it has for operands that are known: weights in another layout, and code
 * made for it; those that it found made are not counted. */
size_t tmk_accel_bytes(const struct tmk_accel *accel);
/* Of these, code: it is there before anything is packed. */
size_t tmk_accel_code(const struct tmk_accel *accel);
/* Runs single-threaded in the calling thread. Same bits for the same inputs, whichever thread runs
 * it. in and out as for the plain kernel (shapes are the logical ones, whatever the layout; what
 * fills up the last block of the result is written as +0), never overlapping. */
enum tmk_status tmk_accel_run(const struct tmk_accel *accel, const struct tmk_tensor *const *in,
                              struct tmk_tensor *const *out, void *scratch, struct tmk_diag *diag);

/* Channels in a block that this machine's vectors and accelerated kernels like: 16 or 8; 0 where
 * no kernel wants blocks. */
uint32_t tmk_kernel_block(void);
/* To be called once by each thread that plans or runs, before it does: keeps the library from
 * starting threads of its own. False: there is no memory for what it keeps of a thread. */
bool tmk_kernel_enter_thread(void);
/* "oneDNN 2.6.3 (avx2)" or "plain C"; static or thread-local storage. Recorded in profiles. */
const char *tmk_kernel_library(void);
