/* SPDX-License-Identifier: Apache-2.0 */
/* Declares every operator's row. */
#ifndef TMK_OPS_ROWS_H
#define TMK_OPS_ROWS_H

#include "ops/ops.h"

#define TMK_ROW(name, since) extern const struct tmk_op tmk_op_##name##_##since;
#include "ops/list.inc"
#undef TMK_ROW

#endif
