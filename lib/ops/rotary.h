/* SPDX-License-Identifier: Apache-2.0 */
/* The turning behind the rotary embeddings. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* y = x, one head at one place, its first `turned` elements turned in pairs: neighbours when
 * interleaved, else one from each half. cosine and sine hold turned / 2 elements. */
void tmk_rotary_turn(size_t turned, size_t head, bool interleaved, const float *cosine,
                     const float *sine, const float *x, float *y);
