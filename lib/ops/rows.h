/* SPDX-License-Identifier: Apache-2.0 */
/* Declares every file's rows. */
#ifndef TMK_OPS_ROWS_H
#define TMK_OPS_ROWS_H

#include "ops/ops.h"

#define TMK_OPS(file) extern const struct tmk_op tmk_ops_##file[];
#include "ops/list.inc"
#undef TMK_OPS

#endif
