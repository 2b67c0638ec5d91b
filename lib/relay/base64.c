/* SPDX-License-Identifier: Apache-2.0 */
#include "relay/base64.h"

#include <stdint.h>

#include "base/diag.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int letter_value(char c) {
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

enum tmk_status tmk_base64_decode(const char *text, size_t len, struct tmk_buf **out, size_t *used,
                                  struct tmk_diag *diag) {
    struct tmk_buf *buf = tmk_buf_create(len / 4 * 3 + 3);
    TMK_TRY_ALLOC(buf, diag);
    unsigned char *to = tmk_buf_data(buf);
    uint32_t bits = 0;
    size_t n = 0, count = 0, i = 0;
    for (; i < len && text[i] != '='; i++) {
        if (text[i] == '\\' && i + 1 < len && text[i + 1] == '/')
            continue; /* JSON may write a slash so */
        int value = letter_value(text[i]);
        if (value < 0) {
            tmk_buf_unref(&buf);
            return tmk_fail(diag, TMK_FORMAT, "letter %zu is not base64's", i);
        }
        bits = bits << 6 | (uint32_t)value;
        if (++count % 4 == 0) {
            to[n++] = (unsigned char)(bits >> 16);
            to[n++] = (unsigned char)(bits >> 8);
            to[n++] = (unsigned char)bits;
        }
    }
    size_t rest = count % 4, padding = len - i;
    bool padded = padding == (4 - rest) % 4 && (padding < 2 || text[len - 1] == '=');
    if (rest == 1 || !padded) {
        tmk_buf_unref(&buf);
        return tmk_fail(diag, TMK_FORMAT, "the base64 text is cut short");
    }
    if (rest)
        to[n++] = (unsigned char)(bits >> (rest == 3 ? 10 : 4));
    if (rest == 3)
        to[n++] = (unsigned char)(bits >> 2);
    *out = buf;
    *used = n;
    return TMK_OK;
}

void tmk_base64_print(struct tmk_text *out, const void *bytes, size_t len) {
    const unsigned char *from = bytes;
    char quad[4];
    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        uint32_t bits = (uint32_t)from[i] << 16 | (left > 1 ? (uint32_t)from[i + 1] << 8 : 0) |
                        (left > 2 ? from[i + 2] : 0);
        for (int k = 0; k < 4; k++)
            quad[k] = letters[bits >> (18 - 6 * k) & 63];
        if (left < 3)
            quad[3] = '=';
        if (left < 2)
            quad[2] = '=';
        tmk_text_append(out, quad, sizeof quad);
    }
}
