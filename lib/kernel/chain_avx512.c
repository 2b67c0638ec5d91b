/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define WIDE 16
#define ROOT(v) ((vec)_mm512_sqrt_ps((__m512)(v)))
#include "kernel/chain_body.h"

const struct tmk_chain_loops tmk_chain_loops_avx512 = TABLE("avx512");
