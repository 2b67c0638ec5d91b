/* SPDX-License-Identifier: Apache-2.0 */
#include "export/yaml.h"

#include <string.h>

#include "base/json.h"

/* Characters beyond ASCII that YAML does not allow as they are: U+0080-U+009F, U+2028, U+2029,
 * U+FEFF, U+FFFE, U+FFFF. Their code point, or 0; *len is their length. */
static unsigned special(const unsigned char *c, size_t *len) {
    unsigned point = 0;
    *len = 2;
    if (c[0] == 0xc2)
        point = c[1] < 0xa0 ? c[1] : 0u;
    if (c[0] >= 0xe2 && c[0] <= 0xef && c[1] && c[2]) {
        unsigned three = (c[0] & 0xfu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu);
        *len = 3;
        point =
            three == 0x2028 || three == 0x2029 || three == 0xfeff || three >= 0xfffe ? three : 0;
    }
    return point;
}

void tmk_yaml_put_text(struct tmk_text *out, const char *text) {
    tmk_text_puts(out, "\"");
    while (*text) {
        unsigned char c = (unsigned char)*text;
        size_t len;
        unsigned point = special((const unsigned char *)text, &len);
        if (point) {
            tmk_text_printf(out, "\\u%04X", point);
            text += len;
            continue;
        }
        if (c == '"' || c == '\\')
            tmk_text_printf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            tmk_text_printf(out, "\\x%02X", c);
        else
            tmk_text_append(out, text, 1);
        text++;
    }
    tmk_text_puts(out, "\"");
}

void tmk_yaml_put_float(struct tmk_text *out, float value) {
    struct tmk_text digits = {0};
    tmk_json_float_text(&digits, value);
    out->failed = out->failed || digits.failed;
    if (!digits.failed) {
        size_t mantissa = strcspn(digits.data, "e");
        tmk_text_append(out, digits.data, mantissa);
        if (!memchr(digits.data, '.', mantissa))
            tmk_text_puts(out, ".0");
        tmk_text_puts(out, digits.data + mantissa);
    }
    tmk_text_finish(&digits);
}
