/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <ctype.h>
#include <fnmatch.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/diag.h"
#include "base/memory.h"
#include "base/size.h"

static bool reserve_bytes(struct tmk_text *text, size_t more) {
    size_t need;
    if (text->failed || !tmk_add_size(text->len, more, &need) || !tmk_add_size(need, 1, &need))
        text->failed = true;
    if (text->failed || need <= text->size)
        return !text->failed;
    size_t size = text->size ? text->size : 256;
    while (size < need && tmk_mul_size(size, 2, &size)) {
    }
    const size_t grown = size - text->size;
    if (size < need || !tmk_memory_charge(grown)) {
        text->failed = true;
        return false;
    }
    char *data = realloc(text->data, size);
    if (!data) {
        tmk_memory_uncharge(grown);
        text->failed = true;
        return false;
    }
    text->data = data;
    text->size = size;
    return true;
}

void tmk_text_append(struct tmk_text *text, const char *bytes, size_t len) {
    if (!reserve_bytes(text, len))
        return;
    if (len)
        memcpy(text->data + text->len, bytes, len);
    text->len += len;
    text->data[text->len] = '\0';
}

void tmk_text_puts(struct tmk_text *text, const char *string) {
    tmk_text_append(text, string, strlen(string));
}

void tmk_text_printf(struct tmk_text *text, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const size_t space = text->failed ? 0 : text->size - text->len;
    int n = vsnprintf(space ? text->data + text->len : NULL, space, fmt, args);
    if (n >= 0 && reserve_bytes(text, (size_t)n)) {
        if ((size_t)n >= space)
            vsnprintf(text->data + text->len, (size_t)n + 1, fmt, again);
        text->len += (size_t)n;
    } else if (space) {
        text->data[text->len] = '\0';
    }
    va_end(again);
    va_end(args);
}

char *tmk_text_release(struct tmk_text *text) {
    char *data = text->data;
    tmk_memory_uncharge(text->size);
    *text = (struct tmk_text){0};
    return data;
}

void tmk_text_finish(struct tmk_text *text) {
    free(tmk_text_release(text));
}

void tmk_pass_remark(void (*remark)(void *context, const char *text), void *context,
                     const char *fmt, va_list args) {
    char text[640];
    if (!remark)
        return;
    tmk_vprint_cut(text, sizeof text, fmt, args);
    remark(context, text);
}

/* x * 10^by, rounded once where the power is exact: |by| <= 22. */
static double scale_by_ten(double x, int by) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    return by < 0 ? x / powers[-by] : x * powers[by];
}

/* number, which has so many digits, the first of 10^top, as %g prints it. */
static void write_decimal(uint32_t number, int digits, int top, char *at) {
    char each[10] = "";
    int n = digits;
    for (; n > 1 && number % 10 == 0; n--)
        number /= 10;
    for (int i = n; i-- > 0; number /= 10)
        each[i] = (char)('0' + number % 10);
    const bool scientific = top < -4 || top >= digits;
    const int before = scientific ? 1 : top + 1; /* digits before the point; not above 0: zeros */
    if (before <= 0) {
        *at++ = '0';
        *at++ = '.';
    }
    for (int i = before; i < 0; i++)
        *at++ = '0';
    for (int i = 0; i < n || i < before; i++) {
        if (i > 0 && i == before)
            *at++ = '.';
        *at++ = i < n ? each[i] : '0';
    }
    if (scientific) {
        const int exponent = top < 0 ? -top : top;
        *at++ = 'e';
        *at++ = top < 0 ? '-' : '+';
        *at++ = (char)('0' + exponent / 10);
        *at++ = (char)('0' + exponent % 10);
    }
    *at = '\0';
}

/* What the loop of tmk_format_float finds, for numbers of usual size; printf and strtof took a
 * third of the time of a profile of few samples. False where a sum of doubles does not decide. */
static bool format_quickly(float value, char *out) {
    const double x = fabs((double)value);
    int top = x < 1 ? -1 : 0;
    if (x == 0) {
        strcpy(out, signbit(value) ? "-0" : "0");
        return true;
    }
    if (!(x >= 1e-12 && x < 1e12))
        return false;
    while (top >= 0 && x >= scale_by_ten(1, top + 1))
        top++;
    while (top < 0 && scale_by_ten(x, -top) < 1)
        top--;
    for (int digits = 6; digits <= 9; digits++) {
        const int by = digits - 1 - top;
        const double wanted = scale_by_ten(x, by);
        uint32_t number = (uint32_t)wanted;
        const double rest = wanted - number;
        if (fabs(rest - 0.5) < 1e-5)
            return false; /* `wanted` was rounded, by at most 1e-7 */
        number += rest > 0.5;
        const double back = scale_by_ten(number, -by);
        uint64_t bits;
        memcpy(&bits, &back, sizeof bits);
        if ((bits & 0x1fffffff) == 0x10000000)
            return false; /* between two floats */
        if ((double)(float)back != x)
            continue;
        if (number == scale_by_ten(1, digits)) {
            number /= 10;
            top++;
        }
        write_decimal(number, digits, top, value < 0 ? (*out = '-', out + 1) : out);
        return true;
    }
    return false;
}

bool tmk_format_float(float value, char out[32]) {
    if (format_quickly(value, out))
        return true;
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(out, 32, "%.*g", digits, (double)value);
        if (strtof(out, NULL) == value)
            break;
    }
    return (float)strtod(out, NULL) == value;
}

void tmk_format_double(double value, char out[32]) {
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, 32, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            return;
    }
}

bool tmk_glob(const char *pattern, const char *name) {
    return fnmatch(pattern, name, FNM_NOESCAPE) == 0;
}

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

/* Drops the bytes that begin a character at the end of a text, as cutting leaves them. */
static void drop_begun(char *text) {
    size_t len = strlen(text), at = len;
    while (at > 0 && len - at < 3 && ((unsigned char)text[at - 1] & 0xC0) == 0x80)
        at--;
    if (at > 0 && (unsigned char)text[at - 1] >= 0xC0 &&
        !sequence_length((const unsigned char *)text + at - 1, len - at + 1))
        text[at - 1] = '\0';
}

void tmk_vprint_cut(char *out, size_t size, const char *fmt, va_list args) {
    vsnprintf(out, size, fmt, args);
    drop_begun(out);
}

void tmk_print_cut(char *out, size_t size, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    tmk_vprint_cut(out, size, fmt, args);
    va_end(args);
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

/* The most similar of names that are known, for messages about one that is not. */

enum { LONGEST = 100, WITHIN = 1000 }; /* WITHIN: farther than any number of edits */

static bool same_letter(char a, char b) {
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static size_t min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

/* How many characters to put in, leave out, replace or swap with their neighbour; case is free. */
static size_t edit_distance(const char *a, size_t n, const char *b, size_t m) {
    size_t rows[3][LONGEST + 1];
    size_t *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= m; j++)
        last[j] = j;
    for (size_t i = 1; i <= n; i++) {
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            now[j] = min_size(min_size(last[j], now[j - 1]) + 1,
                              last[j - 1] + !same_letter(a[i - 1], b[j - 1]));
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
                same_letter(a[i - 2], b[j - 1]))
                now[j] = min_size(now[j], before[j - 2] + 1);
        }
        size_t *const free_row = before;
        before = last;
        last = now;
        now = free_row;
    }
    return last[m];
}

void tmk_guess_try(struct tmk_guess *guess, const char *known) {
    const size_t n = strlen(guess->wanted), m = strlen(known);
    if (!n || !m || n > LONGEST || m > LONGEST)
        return;
    size_t distance = edit_distance(guess->wanted, n, known, m);
    if (n >= 3 && m > n && strchr("-_./", known[n]) && strncasecmp(guess->wanted, known, n) == 0) {
        distance = 1; /* the first words of a name */
    } else if (distance > (n < 3 ? 1 : (n + 2) / 3)) {
        if (n < 3 || !strstr(known, guess->wanted))
            return;
        distance = WITHIN + m - n; /* a part of a name, where no whole one is near */
    }
    if (!guess->best || distance < guess->distance) {
        guess->best = known;
        guess->distance = distance;
    }
}

const char *tmk_guess_text(const struct tmk_guess *guess, char out[TMK_GUESS_SIZE]) {
    out[0] = '\0';
    if (guess->best)
        snprintf(out, TMK_GUESS_SIZE, " (did you mean '%s'?)", guess->best);
    return out;
}

bool tmk_read_digits(const char *text, size_t len, uint64_t *out) {
    uint64_t number = 0;
    for (size_t i = 0; i < len; i++)
        if (!tmk_is_digit(text[i]) || __builtin_mul_overflow(number, UINT64_C(10), &number) ||
            __builtin_add_overflow(number, (uint64_t)(text[i] - '0'), &number))
            return false;
    *out = number;
    return len > 0;
}

void tmk_known_add(struct tmk_known *known, const char *name) {
    const size_t used = strlen(known->names);
    tmk_guess_try(&known->guess, name);
    tmk_guess_text(&known->guess, known->meant);
    tmk_print_cut(known->names + used, sizeof known->names - used, "%s%s", used ? ", " : "", name);
}

bool tmk_ends_in(const char *text, const char *end) {
    const size_t len = strlen(text), n = strlen(end);
    return len >= n && strcmp(text + len - n, end) == 0;
}

const char *tmk_base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}
