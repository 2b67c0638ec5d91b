/* SPDX-License-Identifier: Apache-2.0 */
/* What the operators on sequences share. */
#ifndef TMK_OPS_SEQUENCE_H
#define TMK_OPS_SEQUENCE_H

#include "ops/kernel.h"
#include "tensor/list.h"

enum { TMK_MAX_IN_SEQUENCE = 1 << 20 }; /* more is refused */

/* A list of n places. TMK_RANGE when that is too many. */
TMK_NODISCARD enum tmk_status tmk_sequence_begin(size_t n, struct tmk_list **out,
                                                 struct tmk_diag *diag);
/* Output i becomes the sequence of the list, which is taken. */
void tmk_sequence_give(struct tmk_run *run, uint32_t i, enum tmk_dtype dtype,
                       struct tmk_list *list);

#endif
