/* SPDX-License-Identifier: Apache-2.0 */
/* Accelerated overrides of the plain kernels. The plain kernel (lib/ops) is the reference; an
 * accelerated one is chosen while planning, for one node at fixed shapes, and may prepare what it
 * likes then (weights in another layout, compiled code). The library behind it is hidden here: one
 * file a library, none.c where there is none. */
#ifndef TMK_KERNEL_ACCEL_H
#define TMK_KERNEL_ACCEL_H

#include "ops/ops.h"

/* Prepared to run one node at fixed shapes. Immutable once made: may be run by many threads at a
 * time. */
struct tmk_accel;

/* *out becomes NULL when no accelerated kernel fits (not an error: the plain kernel runs then). in:
 * as for infer (data NULL where not constant; constant operands such as weights have data, which
 * must stay alive as long as the accel unless it was copied; so must the node); out_types:
 * inferred, all known. */
TMK_NODISCARD enum tmk_status tmk_accel_create(const struct tmk_node *node,
                                               const struct tmk_tensor *const *in,
                                               const struct tmk_infer_result *out_types,
                                               struct tmk_accel **out, struct tmk_diag *diag);
/* NULL and *accel NULL are allowed. */
void tmk_accel_destroy(struct tmk_accel **accel);
/* A name for people: "onednn jit:avx2". */
const char *tmk_accel_name(const struct tmk_accel *accel);
/* Bytes of 64-byte aligned scratch memory that a run needs; may be 0. */
size_t tmk_accel_scratch(const struct tmk_accel *accel);
/* Runs single-threaded in the calling thread. Same bits for the same inputs, whichever thread runs
 * it. in and out as for the plain kernel, never overlapping. */
TMK_NODISCARD enum tmk_status tmk_accel_run(const struct tmk_accel *accel,
                                            const struct tmk_tensor *const *in,
                                            struct tmk_tensor *const *out, void *scratch,
                                            struct tmk_diag *diag);

/* To be called once by each thread that plans or runs, before it does: keeps the library from
 * starting threads of its own. */
void tmk_kernel_enter_thread(void);
/* "oneDNN 2.6.3 (avx2)" or "plain C"; static or thread-local storage. Recorded in profiles. */
const char *tmk_kernel_library(void);

#endif
