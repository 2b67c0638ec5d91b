/* SPDX-License-Identifier: Apache-2.0 */
/* Names that Relay cannot spell, and back. */
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "relay/builder.h"

static const char front[] = "v_x_";

static bool is_plain(char c) {
    return tmk_in_word(c) || c == '/';
}

/* -1: no small hexadecimal digit */
static int hex_value(char c) {
    if (tmk_is_digit(c))
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_group(const char *text) {
    return text[0] == '_' && text[1] == 'x' && hex_value(text[2]) >= 0 && hex_value(text[3]) >= 0;
}

static bool is_fronted(const char *text) {
    return strncmp(text, front, sizeof front - 1) == 0;
}

const char *tmk_relay_escape(struct tmk_arena *arena, const char *name) {
    size_t size;
    if (!tmk_mul_size(strlen(name) + 2, 4, &size))
        return NULL;
    char *made = tmk_arena_alloc(arena, size), *at = made;
    if (!made)
        return NULL;
    if (!name[0] || tmk_is_digit(name[0]) || name[0] == '/' || is_fronted(name))
        at += sprintf(at, "%s", front);
    for (; *name; name++) {
        if (!is_plain(*name) || is_group(name))
            at += sprintf(at, "_x%02x", (unsigned char)*name);
        else
            *at++ = *name;
    }
    *at = 0;
    return made;
}

const char *tmk_relay_unescape(struct tmk_arena *arena, const char *text) {
    char *made = tmk_arena_strdup(arena, is_fronted(text) ? text + sizeof front - 1 : text);
    char *at = made;
    for (const char *from = made; from && *from; at++) {
        if (is_group(from)) {
            *at = (char)(hex_value(from[2]) * 16 + hex_value(from[3]));
            from += 4;
        } else {
            *at = *from++;
        }
    }
    if (at)
        *at = 0;
    return made;
}
