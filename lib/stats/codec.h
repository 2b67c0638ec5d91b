/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as bytes: little-endian base-128 groups, shortest form only, so that a number has one
 * spelling. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/stats.h>

#include "base/text.h"

struct tmk_byte_reader {
    const uint8_t *at, *end;
    bool failed; /* sticks: what is read after it is 0 */
};

void tmk_put_number(struct tmk_text *out, uint64_t value);
uint64_t tmk_get_number(struct tmk_byte_reader *in);
/* Four bytes, little-endian. */
void tmk_put_bits(struct tmk_text *out, uint32_t bits);
uint32_t tmk_get_bits(struct tmk_byte_reader *in);
/* Each number plus one, so that TMK_NOWHERE is short. */
void tmk_put_where(struct tmk_text *out, struct tmk_where at);
struct tmk_where tmk_get_where(struct tmk_byte_reader *in);
/* Takes `len` bytes that must be there. */
void tmk_get_literal(struct tmk_byte_reader *in, const void *bytes, size_t len);
