/* SPDX-License-Identifier: Apache-2.0 */
/* Text for terminals: nothing that came from a file moves the cursor, changes colours or the
 * direction of writing. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "command.h"

/* How many bytes of UTF-8 make the character here; 0: it is none. */
static size_t utf8_length(const unsigned char *c) {
    size_t n = c[0] < 0x80                    ? 1
               : c[0] >= 0xc2 && c[0] < 0xe0  ? 2
               : c[0] >= 0xe0 && c[0] < 0xf0  ? 3
               : c[0] >= 0xf0 && c[0] <= 0xf4 ? 4
                                              : 0;
    for (size_t i = 1; i < n; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xf0 && c[1] < 0x90);
    bool beyond = (c[0] == 0xed && c[1] > 0x9f) || (c[0] == 0xf4 && c[1] > 0x8f);
    return overlong || beyond ? 0 : n;
}

/* Characters of several bytes that move the cursor, change colours or turn the direction of what
 * stands around them: C1 controls, line separators, bidirectional marks. */
static bool is_control(const unsigned char *c, size_t n) {
    switch (n) {
    case 1:
        return c[0] < 0x20 || c[0] == 0x7f;
    case 2:
        return (c[0] == 0xc2 && c[1] < 0xa0) || (c[0] == 0xd8 && c[1] == 0x9c);
    case 3:
        return c[0] == 0xe2 && ((c[1] == 0x80 && ((c[2] >= 0xa8 && c[2] <= 0xae) || c[2] == 0x8e ||
                                                  c[2] == 0x8f)) ||
                                (c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9));
    default:
        return false;
    }
}

size_t text_character(const char *text, bool *harmless) {
    const unsigned char *c = (const unsigned char *)text;
    size_t n = utf8_length(c);
    *harmless = n && !is_control(c, n);
    return n ? n : 1;
}

/* How a character is shown that is none for a terminal. */
enum escape { HEX, UNICODE };

/* The code point of a control character. */
static unsigned code_point(const unsigned char *c, size_t n) {
    return n == 1   ? c[0]
           : n == 2 ? (c[0] & 0x1fu) << 6 | (c[1] & 0x3fu)
                    : (c[0] & 0x0fu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu);
}

/* Characters of `kept` stay as they are. How many characters were printed. */
static int put_but(FILE *to, const char *text, size_t len, const char *kept, enum escape escape) {
    int printed = 0;
    for (size_t at = 0; at < len && text[at];) {
        const unsigned char *c = (const unsigned char *)text + at;
        bool harmless;
        size_t n = text_character(text + at, &harmless);
        harmless |= strchr(kept, text[at]) != NULL;
        if (harmless)
            printed += fwrite(c, 1, n, to) > 0;
        else if (escape == UNICODE)
            printed += fprintf(to, "\\u%04x", utf8_length(c) ? code_point(c, n) : 0xfffd);
        for (size_t i = 0; !harmless && escape == HEX && i < n; i++)
            printed += fprintf(to, "\\x%02x", c[i]);
        at += n;
    }
    return printed;
}

void put_escaped(FILE *to, const char *text) {
    put_but(to, text, SIZE_MAX, "", HEX);
}

void put_lines(FILE *to, const char *text) {
    put_but(to, text, SIZE_MAX, "\n\t", HEX);
}

void put_json_text(FILE *to, const char *text) {
    put_but(to, text, SIZE_MAX, "\n\t", UNICODE);
}

void put_quoted(FILE *to, const char *text) {
    putc('"', to);
    while (*text) {
        const size_t plain = strcspn(text, "\"\\");
        put_but(to, text, plain, "", UNICODE);
        text += plain;
        if (*text)
            fprintf(to, "\\%c", *text++);
    }
    putc('"', to);
}

/* ---- printf ---- */

/* A conversion of a format: %-*.3llu. */
struct conversion {
    char text[32]; /* without its stars */
    int width, precision;
    bool has_width, has_precision, left;
    char size[3], letter;
};

static const char *read_number(const char *at, int *number, bool *there) {
    *there = *at >= '0' && *at <= '9';
    for (*number = 0; *at >= '0' && *at <= '9'; at++)
        *number = 10 * *number + (*at - '0');
    return at;
}

/* `at` is behind the percent sign; what follows the conversion. */
static const char *read_conversion(const char *at, va_list *args, struct conversion *out) {
    char flags[8] = "";
    *out = (struct conversion){0};
    for (size_t n = 0; *at && strchr("-+ #0", *at) && n + 1 < sizeof flags; at++) {
        out->left |= *at == '-';
        flags[n++] = *at;
    }
    if (*at == '*') {
        out->width = va_arg(*args, int);
        out->has_width = true;
        at++;
    } else {
        at = read_number(at, &out->width, &out->has_width);
    }
    if (*at == '.' && at[1] == '*') {
        out->precision = va_arg(*args, int);
        out->has_precision = out->precision >= 0;
        at += 2;
    } else if (*at == '.') {
        at = read_number(at + 1, &out->precision, &out->has_precision);
        out->has_precision = true;
    }
    for (size_t n = 0; *at && strchr("hlzj", *at) && n + 1 < sizeof out->size; at++)
        out->size[n++] = *at;
    out->letter = *at;
    if (out->has_precision)
        snprintf(out->text, sizeof out->text, "%%%s%d.%d%s%c", flags, out->width, out->precision,
                 out->size, out->letter);
    else if (out->has_width)
        snprintf(out->text, sizeof out->text, "%%%s%d%s%c", flags, out->width, out->size,
                 out->letter);
    else
        snprintf(out->text, sizeof out->text, "%%%s%s%c", flags, out->size, out->letter);
    return *at ? at + 1 : at;
}

static int put_padded(FILE *to, const char *text, const struct conversion *c) {
    const size_t len = c->has_precision ? strnlen(text, (size_t)c->precision) : strlen(text);
    int cells = 0;
    for (size_t at = 0; at < len;) {
        bool harmless;
        const size_t n = text_character(text + at, &harmless);
        cells += harmless ? 1 : (int)(4 * n);
        at += n;
    }
    const int pad = c->width > cells ? c->width - cells : 0;
    int printed = c->left ? 0 : fprintf(to, "%*s", pad, "");
    printed += put_but(to, text, len, "", HEX);
    return printed + (c->left ? fprintf(to, "%*s", pad, "") : 0);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static int put_conversion(FILE *to, const struct conversion *c, va_list *args) {
    const bool is_signed = c->letter == 'd' || c->letter == 'i';
    if (c->letter == 's')
        return put_padded(to, va_arg(*args, const char *), c);
    if (c->letter == '%')
        return fputc('%', to) != EOF;
    if (strchr("eEfFgGaA", c->letter))
        return fprintf(to, c->text, va_arg(*args, double));
    if (c->letter == 'c')
        return fprintf(to, c->text, va_arg(*args, int));
    if (strcmp(c->size, "ll") == 0)
        return is_signed ? fprintf(to, c->text, va_arg(*args, long long))
                         : fprintf(to, c->text, va_arg(*args, unsigned long long));
    if (*c->size == 'l' || *c->size == 'z' || *c->size == 'j') /* of one size where this runs */
        return is_signed ? fprintf(to, c->text, va_arg(*args, long))
                         : fprintf(to, c->text, va_arg(*args, unsigned long));
    return is_signed ? fprintf(to, c->text, va_arg(*args, int))
                     : fprintf(to, c->text, va_arg(*args, unsigned));
}
#pragma GCC diagnostic pop

_Static_assert(sizeof(long) == sizeof(size_t) && sizeof(long) == sizeof(intmax_t),
               "z and j are read as l");

int print_out(const char *fmt, ...) {
    va_list args;
    int printed = 0;
    va_start(args, fmt);
    while (*fmt) {
        const size_t plain = strcspn(fmt, "%");
        for (size_t i = 0; i < plain; i++)
            printed += ((unsigned char)fmt[i] & 0xc0) != 0x80;
        fwrite(fmt, 1, plain, stdout);
        fmt += plain;
        if (*fmt) {
            struct conversion conversion;
            fmt = read_conversion(fmt + 1, &args, &conversion);
            printed += put_conversion(stdout, &conversion, &args);
        }
    }
    va_end(args);
    return printed;
}

void put_member(const char *key, double number) {
    if (isfinite(number))
        print_out(",\"%s\":%.9g", key, number);
    else
        print_out(",\"%s\":null", key);
}
