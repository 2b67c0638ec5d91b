/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include "base/diag.h"

/* Bytes of the well-formed sequence that starts at s; 0 when there is none. */
static size_t sequence_length(const unsigned char *s, size_t left) {
    unsigned char lead = s[0], low = 0x80, high = 0xBF;
    size_t n;
    if (lead < 0x80)
        return 1;
    if (lead >= 0xC2 && lead <= 0xDF)
        n = 2;
    else if (lead >= 0xE0 && lead <= 0xEF)
        n = 3;
    else if (lead >= 0xF0 && lead <= 0xF4)
        n = 4;
    else
        return 0;
    if (left < n)
        return 0;
    if (lead == 0xE0)
        low = 0xA0;
    else if (lead == 0xED)
        high = 0x9F;
    else if (lead == 0xF0)
        low = 0x90;
    else if (lead == 0xF4)
        high = 0x8F;
    if (s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++)
        if (s[i] < 0x80 || s[i] > 0xBF)
            return 0;
    return n;
}

/* How many bytes from the beginning are well-formed. */
static size_t well_formed(const char *bytes, size_t len) {
    const unsigned char *s = (const unsigned char *)bytes;
    size_t at = 0, n;
    while (at < len && (n = sequence_length(s + at, len - at)) > 0)
        at += n;
    return at;
}

bool tmk_utf8_valid(const char *bytes, size_t len) {
    return well_formed(bytes, len) == len;
}

enum tmk_status tmk_utf8_check(const char *bytes, size_t len, struct tmk_diag *diag) {
    size_t good = well_formed(bytes, len);
    return good == len ? TMK_OK : tmk_fail(diag, TMK_FORMAT, "byte %zu: not UTF-8", good);
}

size_t tmk_utf8_put(unsigned point, char out[4]) {
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    size_t n = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, point >>= 6)
        out[i] = (char)(0x80 | (point & 0x3f));
    out[0] = (char)((0xf00 >> n & 0xff) | point);
    return n;
}
