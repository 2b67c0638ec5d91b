/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

void tmk_diag_set(struct tmk_diag *diag, enum tmk_status status, const char *fmt, ...) {
    if (!diag || diag->status != TMK_OK)
        return;
    diag->status = status;
    char text[4 * sizeof diag->text];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    size_t len = strlen(text), room = sizeof diag->text - 1;
    if (len <= room)
        memcpy(diag->text, text, len + 1);
    else /* the place stands at the beginning, the reason at the end */
        snprintf(diag->text, sizeof diag->text, "%.*s...%s", (int)(room / 2), text,
                 text + len - (room - room / 2 - 3));
    one_line(diag->text);
}

enum tmk_status tmk_in(struct tmk_diag *diag, enum tmk_status status, const char *fmt, ...) {
    if (!diag || status == TMK_OK)
        return status;
    char place[sizeof diag->text];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(place, sizeof place, fmt, args);
    va_end(args);
    if (n < 0)
        return status;
    size_t used = strlen(place), rest = strlen(diag->text);
    if (used + 2 + rest >= sizeof diag->text) /* the error's own words matter more than its place */
        return status;
    memmove(diag->text + used + 2, diag->text, rest + 1);
    memcpy(diag->text, place, used);
    memcpy(diag->text + used, ": ", 2);
    one_line(diag->text);
    return status;
}
