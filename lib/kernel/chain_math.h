/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of mathematics over one tile. */
#pragma once

#include <stddef.h>

/* y may be x; p is the kind's parameter. The same element gives the same bits wherever it stands.
 */
typedef void (*tmk_chain_math)(size_t n, const float *x, float p, float *y);

/* By kind, from TMK_CHAIN_LOOPS on; NULL before. */
extern const tmk_chain_math tmk_chain_maths[];
