/* SPDX-License-Identifier: Apache-2.0 */
#include <arm_neon.h>

#define TARGET
#define WIDE 4
#define ROOT(v) ((vec)vsqrtq_f32((float32x4_t)(v)))
#include "kernel/chain_body.h"

const struct tmk_chain_loops tmk_chain_loops_neon = TABLE("neon");
