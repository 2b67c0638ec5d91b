/* SPDX-License-Identifier: Apache-2.0 */
#include "stats/wire.h"

#include <string.h>

void tmk_put_number(struct tmk_text *out, uint64_t value) {
    char bytes[10];
    size_t n = 0;
    for (; value >= 128; value >>= 7)
        bytes[n++] = (char)(value | 128);
    bytes[n++] = (char)value;
    tmk_text_append(out, bytes, n);
}

uint64_t tmk_get_number(struct tmk_byte_reader *in) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && in->at < in->end && !in->failed; shift += 7) {
        uint8_t byte = *in->at++;
        if ((shift == 63 && byte > 1) || (shift > 0 && byte == 0))
            break; /* more than 64 bits, or not the shortest form */
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return value;
    }
    in->failed = true;
    return 0;
}

void tmk_put_bits(struct tmk_text *out, uint32_t bits) {
    char bytes[4] = {(char)bits, (char)(bits >> 8), (char)(bits >> 16), (char)(bits >> 24)};
    tmk_text_append(out, bytes, sizeof bytes);
}

uint32_t tmk_get_bits(struct tmk_byte_reader *in) {
    if (in->failed || in->end - in->at < 4) {
        in->failed = true;
        return 0;
    }
    const uint8_t *b = in->at;
    in->at += 4;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

void tmk_put_where(struct tmk_text *out, struct tmk_where at) {
    tmk_put_number(out, at.sample + 1);
    tmk_put_number(out, at.index + 1);
}

struct tmk_where tmk_get_where(struct tmk_byte_reader *in) {
    uint64_t sample = tmk_get_number(in) - 1, index = tmk_get_number(in) - 1;
    return (struct tmk_where){sample, index};
}

void tmk_get_literal(struct tmk_byte_reader *in, const void *bytes, size_t len) {
    if (in->failed || (size_t)(in->end - in->at) < len || memcmp(in->at, bytes, len) != 0)
        in->failed = true;
    else
        in->at += len;
}
