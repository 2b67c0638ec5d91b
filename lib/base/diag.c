/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

const char *tmk_status_text(enum tmk_status status) {
    switch (status) {
#define TMK_STATUS_CASE(name, number, text)                                                        \
    case TMK_##name:                                                                               \
        return text;
        TMK_STATUS_LIST(TMK_STATUS_CASE)
#undef TMK_STATUS_CASE
    }
    return "unknown status";
}

void tmk_diag_reset(struct tmk_diag *diag) {
    diag->status = TMK_OK;
    diag->text[0] = '\0';
}

static void one_line(char *text) {
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
}

/* Of a text that is too long the middle goes: the place stands at the beginning, the reason at the
 * end. size: in bytes, the zero included. */
static void put_shortened(char *out, size_t size, const char *text) {
    size_t len = strlen(text), most = size - 1;
    if (len <= most) {
        memmove(out, text, len + 1);
        return;
    }
    const char *rest = text + len - (most - most / 2 - 3);
    while (((unsigned char)*rest & 0xC0) == 0x80) /* within a character */
        rest++;
    tmk_print_cut(out, most / 2 + 1, "%s", text);
    const size_t used = strlen(out);
    snprintf(out + used, size - used, "...%s", rest);
}

void tmk_diag_set(struct tmk_diag *diag, enum tmk_status status, const char *fmt, ...) {
    if (!diag || diag->status != TMK_OK)
        return;
    diag->status = status;
    char text[4 * sizeof diag->text];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    put_shortened(diag->text, sizeof diag->text, text);
    one_line(diag->text);
}

enum tmk_status tmk_in(struct tmk_diag *diag, enum tmk_status status, const char *fmt, ...) {
    if (!diag || status == TMK_OK)
        return status;
    char place[4 * sizeof diag->text], words[sizeof diag->text];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(place, sizeof place, fmt, args);
    va_end(args);
    if (n < 0)
        return status;
    if (strncmp(diag->text, place, (size_t)n) == 0 &&
        diag->text[n] == ':') /* it states so itself */
        return status;
    const char *colon = strstr(diag->text, ": ");
    const size_t named = colon ? (size_t)(colon - diag->text) : 0;
    const bool more = named && strncmp(place, diag->text, named) == 0 &&
                      strncmp(place + named, " (", 2) == 0; /* it says less of the same place */
    memcpy(words, diag->text, sizeof words);
    if (more)
        memmove(words, words + named + 2, strlen(words + named + 2) + 1);
    const size_t size = sizeof diag->text, needed = strlen(words) + 1;
    const size_t for_words = needed < size / 2 ? needed : size / 2;
    put_shortened(diag->text, size - for_words - 2, place);
    size_t used = strlen(diag->text);
    memcpy(diag->text + used, ": ", 2);
    put_shortened(diag->text + used + 2, size - used - 2, words);
    one_line(diag->text);
    return status;
}
