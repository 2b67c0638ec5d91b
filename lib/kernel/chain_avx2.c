/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#define TARGET __attribute__((target("avx2")))
#define WIDE 8
#define ROOT(v) ((vec)_mm256_sqrt_ps((__m256)(v)))
#include "kernel/chain_body.h"

const struct tmk_chain_loops tmk_chain_loops_avx2 = TABLE("avx2");
