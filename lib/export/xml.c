/* SPDX-License-Identifier: Apache-2.0 */
#include "export/xml.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "base/text.h"

enum { DEEPEST = 1000 };

struct tmk_xml tmk_xml_begin(const char *text, size_t len) {
    return (struct tmk_xml){text, text, text + len, 0, 0};
}

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static enum tmk_status fail_at(const struct tmk_xml *xml, const char *at, struct tmk_diag *diag) {
    return tmk_fail(diag, TMK_FORMAT, "byte %zu: it is no XML as OpenVINO writes it",
                    (size_t)(at - xml->begin));
}

/* Behind the text, or NULL. */
static const char *find_behind(const char *at, const char *end, const char *text) {
    const char *found = memmem(at, (size_t)(end - at), text, strlen(text));
    return found ? found + strlen(text) : NULL;
}

/* Behind the '>' of a tag, passing over quoted attributes; NULL: it does not end. */
static const char *end_of_tag(const char *at, const char *end) {
    char quote = '\0';
    for (; at < end; at++) {
        if (quote ? *at == quote : *at == '"' || *at == '\'')
            quote = (char)(quote ? '\0' : *at);
        else if (!quote && *at == '>')
            return at + 1;
        else if (!quote && *at == '<')
            return NULL;
    }
    return NULL;
}

enum tmk_status tmk_xml_next(struct tmk_xml *xml, struct tmk_xml_tag *tag, struct tmk_diag *diag) {
    for (;;) {
        const char *at = memchr(xml->at, '<', (size_t)(xml->end - xml->at));
        if (!at)
            return xml->open ? fail_at(xml, xml->end, diag) : TMK_NOTFOUND;
        const char *next = NULL;
        size_t left = (size_t)(xml->end - at);
        if (left > 4 && memcmp(at, "<!--", 4) == 0)
            next = find_behind(at + 4, xml->end, "-->");
        else if (left > 2 && at[1] == '?')
            next = find_behind(at, xml->end, "?>");
        else if (left > 2 && at[1] == '!')
            return fail_at(xml, at, diag);
        if (next) {
            xml->at = next;
            continue;
        }
        const char *end = end_of_tag(at + 1, xml->end);
        if (!end)
            return fail_at(xml, at, diag);
        *tag = (struct tmk_xml_tag){.begin = at, .end = end};
        tag->closes = at[1] == '/' || end[-2] == '/';
        tag->opens = at[1] != '/';
        tag->name = at + (tag->opens ? 1 : 2);
        while (tag->name + tag->len < end && !is_space(tag->name[tag->len]) &&
               tag->name[tag->len] != '>' && tag->name[tag->len] != '/')
            tag->len++;
        xml->open += tag->opens;
        xml->depth = xml->open;
        xml->open -= tag->closes;
        xml->at = end;
        return xml->depth < 1 || xml->depth > DEEPEST ? fail_at(xml, at, diag) : TMK_OK;
    }
}

bool tmk_xml_is(const struct tmk_xml_tag *tag, const char *name) {
    return tag->len == strlen(name) && memcmp(tag->name, name, tag->len) == 0;
}

bool tmk_xml_raw(const struct tmk_xml_tag *tag, const char *name, const char **value, size_t *len) {
    const char *at = tag->name + tag->len, *end = tag->end;
    while (at < end) {
        while (at < end && is_space(*at))
            at++;
        const char *key = at;
        while (at < end && *at != '=' && !is_space(*at))
            at++;
        size_t key_len = (size_t)(at - key);
        at = memchr(at, '=', (size_t)(end - at));
        if (!at)
            return false;
        at++;
        while (at < end && is_space(*at))
            at++;
        if (at >= end || (*at != '"' && *at != '\''))
            return false;
        const char *stop = memchr(at + 1, *at, (size_t)(end - at - 1));
        if (!stop)
            return false;
        if (key_len == strlen(name) && memcmp(key, name, key_len) == 0) {
            *value = at + 1;
            *len = (size_t)(stop - at - 1);
            return true;
        }
        at = stop + 1;
    }
    return false;
}

/* What an entity at `raw` means: its length there, 0: it is none. */
static size_t read_entity(const char *raw, size_t len, char out[4], size_t *n) {
    static const struct {
        const char *text;
        char means;
    } named[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    for (size_t i = 0; i < TMK_COUNT(named); i++)
        if (len >= strlen(named[i].text) &&
            memcmp(raw, named[i].text, strlen(named[i].text)) == 0) {
            out[0] = named[i].means;
            *n = 1;
            return strlen(named[i].text);
        }
    const char *stop = memchr(raw, ';', len < 12 ? len : 12);
    if (len < 4 || raw[1] != '#' || !stop)
        return 0;
    char *end;
    unsigned long point = raw[2] == 'x' ? strtoul(raw + 3, &end, 16) : strtoul(raw + 2, &end, 10);
    if (end != stop || !point || point > 0x10ffff)
        return 0;
    *n = tmk_utf8_put((unsigned)point, out);
    return (size_t)(stop - raw) + 1;
}

char *tmk_xml_text(const char *raw, size_t len, struct tmk_arena *arena) {
    char *text = tmk_arena_strndup(arena, raw, len), point[4];
    size_t used = 0, n = 0;
    for (size_t i = 0; text && i < len;) {
        size_t entity = raw[i] == '&' ? read_entity(raw + i, len - i, point, &n) : 0;
        if (entity) {
            memcpy(text + used, point, n);
            used += n;
            i += entity;
        } else {
            text[used++] = raw[i++];
        }
    }
    if (text)
        text[used] = '\0';
    return text;
}
