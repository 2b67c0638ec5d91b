/* SPDX-License-Identifier: Apache-2.0 */
#define TARGET
#define WIDE 4
#define ROOT(v) ((vec){sqrtf((v)[0]), sqrtf((v)[1]), sqrtf((v)[2]), sqrtf((v)[3])})
#include "kernel/chain_body.h"

const struct tmk_chain_loops tmk_chain_loops_plain = TABLE("plain");
