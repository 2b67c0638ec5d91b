/* SPDX-License-Identifier: Apache-2.0 */
/* Keys or values of a cache in symmetric codes: of 8 bits, or of 4, two a byte, the first in the
 * low half with 8 added. */
#pragma once

#include "ops/contrib.h"

/* TMK_UNSUPPORTED, TMK_GRAPH, TMK_TYPE or TMK_SHAPE unless attributes and scales of the node name
 * one kind of codes for `groups` heads of `size` elements. *bits: 8 or 4; 0 for floats. */
enum tmk_status tmk_cache_bits(const struct tmk_node *node, const struct tmk_tensor *key_scale,
                               const struct tmk_tensor *value_scale, int64_t groups, int64_t size,
                               int *bits, struct tmk_diag *diag);
enum tmk_dtype tmk_cache_dtype(int bits);
/* Elements of a row of `size` in a tensor of the cache. */
static inline int64_t tmk_cache_width(int bits, int64_t size) {
    return bits == 4 ? size / 2 : size;
}

/* Codes of one head: the scale of element i is scale[i * step]. */
struct tmk_cache_codes {
    int bits;
    const float *scale;
    size_t step, size;
};
struct tmk_cache_codes tmk_cache_codes_of(int bits, const struct tmk_tensor *scale, size_t head,
                                          size_t size);
void tmk_cache_decode(const struct tmk_cache_codes *c, const uint8_t *codes, float *x, size_t rows);
/* Takes what a row's codes stand for instead of the row. */
void tmk_cache_encode(const struct tmk_cache_codes *c, float *row, uint8_t *codes);
