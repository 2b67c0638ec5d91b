/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    vsnprintf(text, sizeof text, fmt, args);
    remark(context, text);
}

void tmk_format_float(float value, char out[32]) {
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(out, 32, "%.*g", digits, (double)value);
        if (strtof(out, NULL) == value)
            return;
    }
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
