/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/guess.h>

#include "base/diag.h"
#include "base/json.h"
#include "base/memory.h"

/* The grammar of RFC 8259. */

enum { LONGEST_NUMBER = 63 }; /* of cJSON */

struct cursor {
    const char *at, *end;
};

static bool skip_text(struct cursor *c, const char *text) {
    size_t n = strlen(text);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, text, n) != 0)
        return false;
    c->at += n;
    return true;
}

static void take_blank(struct cursor *c) {
    while (c->at < c->end && memchr(" \t\n\r", *c->at, 4))
        c->at++;
}

static bool take_hex4(struct cursor *c, unsigned *out) {
    unsigned value = 0;
    for (int i = 0; i < 4; i++, c->at++) {
        if (c->at == c->end || !isxdigit((unsigned char)*c->at))
            return false;
        int digit = (unsigned char)*c->at;
        value = value << 4 | (unsigned)(isdigit(digit) ? digit - '0' : (digit | 0x20) - 'a' + 10);
    }
    *out = value;
    return true;
}

/* Behind a backslash. Surrogates come in pairs. */
static bool take_escape(struct cursor *c) {
    unsigned high, low;
    if (c->at == c->end)
        return false;
    if (*c->at != 'u')
        return memchr("\"\\/bfnrt", *c->at++, 8) != NULL;
    c->at++;
    if (!take_hex4(c, &high) || (high >= 0xdc00 && high <= 0xdfff))
        return false;
    return high < 0xd800 || high > 0xdbff ||
           (skip_text(c, "\\u") && take_hex4(c, &low) && low >= 0xdc00 && low <= 0xdfff);
}

static bool take_string(struct cursor *c) {
    if (!skip_text(c, "\""))
        return false;
    while (c->at < c->end && *c->at != '"') {
        unsigned char byte = (unsigned char)*c->at++;
        if (byte < 0x20 || (byte == '\\' && !take_escape(c)))
            return false;
    }
    return skip_text(c, "\"");
}

static bool take_digits(struct cursor *c) {
    const char *start = c->at;
    while (c->at < c->end && isdigit((unsigned char)*c->at))
        c->at++;
    return c->at > start;
}

static bool take_number(struct cursor *c) {
    const char *start = c->at;
    (void)skip_text(c, "-");
    if (!skip_text(c, "0") && !take_digits(c))
        return false;
    if (skip_text(c, ".") && !take_digits(c))
        return false;
    if (skip_text(c, "e") || skip_text(c, "E")) {
        if (!skip_text(c, "-"))
            (void)skip_text(c, "+");
        if (!take_digits(c))
            return false;
    }
    return c->at - start <= LONGEST_NUMBER;
}

static bool take_scalar(struct cursor *c) {
    if (c->at == c->end)
        return false;
    if (*c->at == '"')
        return take_string(c);
    return skip_text(c, "null") || skip_text(c, "true") || skip_text(c, "false") || take_number(c);
}

static bool take_name(struct cursor *c) {
    take_blank(c);
    if (!take_string(c))
        return false;
    take_blank(c);
    return skip_text(c, ":");
}

bool tmk_json_is_valid(const char *text, size_t len) {
    char closing[CJSON_NESTING_LIMIT] = {0};
    size_t depth = 0;
    struct cursor c = {text, text + len};
    for (;;) { /* a value stands here */
        take_blank(&c);
        bool object = skip_text(&c, "{"), opened = object || skip_text(&c, "[");
        if (opened) {
            if (depth == CJSON_NESTING_LIMIT)
                return false;
            closing[depth++] = object ? '}' : ']';
            take_blank(&c);
        } else if (!take_scalar(&c)) {
            return false;
        }
        bool first = opened;
        for (;; first = false) { /* behind an opening bracket or a value */
            take_blank(&c);
            if (depth && c.at < c.end && *c.at == closing[depth - 1]) {
                c.at++;
                depth--;
                continue;
            }
            if (!depth)
                return c.at == c.end;
            if (!first && !skip_text(&c, ","))
                return false;
            if (closing[depth - 1] == '}' && !take_name(&c))
                return false;
            break;
        }
    }
}

static const char *skip_blank(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    return at;
}

bool tmk_json_enter(struct tmk_json_scan *scan, const char *text, size_t len, char bracket) {
    const char *end = text + len, *at = skip_blank(text, end);
    if (at == end || *at != bracket)
        return false;
    *scan = (struct tmk_json_scan){at + 1, text, end, true};
    return true;
}

bool tmk_json_rest_is_blank(const struct tmk_json_scan *scan) {
    return skip_blank(scan->at, scan->end) == scan->end;
}

/* Says what is wrong and where; NULL, for those who return a place. */
static const char *syntax_error(const struct tmk_json_scan *scan, const char *at,
                                struct tmk_diag *diag, const char *what) {
    tmk_diag_set(diag, TMK_FORMAT, "byte %zu: %s", (size_t)(at - scan->begin), what);
    return NULL;
}

/* From the opening quote to behind the closing one. U+0000 is refused: C strings end there. */
static const char *skip_string(const struct tmk_json_scan *scan, const char *at,
                               struct tmk_diag *diag) {
    const char *end = scan->end;
    for (at++; at < end && *at != '"'; at++) {
        if ((unsigned char)*at < 0x20)
            return syntax_error(scan, at, diag, "a control character in a string");
        if (*at != '\\')
            continue;
        if (end - at >= 6 && memcmp(at, "\\u0000", 6) == 0)
            return syntax_error(scan, at, diag, "a zero character in a string");
        if (++at == end)
            break;
    }
    if (at >= end)
        return syntax_error(scan, end, diag,
                            "the text ends inside a string: the file is cut short");
    return at + 1;
}

/* Only finds where a value ends; what is inside is checked when it is parsed. */
static const char *skip_value(const struct tmk_json_scan *scan, struct tmk_diag *diag) {
    size_t depth = 0;
    const char *at = scan->at;
    while (at < scan->end) {
        char c = *at;
        if (c == '"') {
            at = skip_string(scan, at, diag);
            if (!at)
                return NULL;
            if (depth == 0)
                return at;
            continue;
        }
        if (depth == 0 && at > scan->at && strchr(" \t\r\n,]}", c))
            return at;
        at++;
        if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && (depth == 0 || --depth == 0))
            return at;
    }
    return syntax_error(scan, at, diag, "the text ends inside a value: the file is cut short");
}

static enum tmk_status next_key(struct tmk_json_scan *scan, char **key, struct tmk_diag *diag) {
    const char *start = scan->at,
               *at = *start == '"' ? skip_string(scan, start, diag)
                                   : syntax_error(scan, start, diag, "a member without a name");
    if (!at)
        return TMK_FORMAT;
    cJSON *item;
    TMK_TRY(tmk_in(diag, tmk_json_parse(start, (size_t)(at - start), &item, diag), "byte %zu",
                   (size_t)(start - scan->begin)));
    *key = strdup(item->valuestring);
    cJSON_Delete(item);
    TMK_TRY_ALLOC(*key, diag);
    at = skip_blank(at, scan->end);
    if (at == scan->end || *at != ':') {
        syntax_error(scan, at, diag, "a member's name without ':' after it");
        free(*key);
        return TMK_FORMAT;
    }
    scan->at = skip_blank(at + 1, scan->end);
    return TMK_OK;
}

enum tmk_status tmk_json_next(struct tmk_json_scan *scan, char bracket, char **key,
                              const char **value, size_t *len, struct tmk_diag *diag) {
    char closing = bracket == '{' ? '}' : ']';
    scan->at = skip_blank(scan->at, scan->end);
    if (scan->at < scan->end && *scan->at == closing) {
        scan->at++;
        return TMK_NOTFOUND;
    }
    if (!scan->first) {
        if (scan->at == scan->end || *scan->at != ',')
            return tmk_fail(diag, TMK_FORMAT,
                            "byte %zu: ',' or '%c' expected: the file is damaged or cut short",
                            (size_t)(scan->at - scan->begin), closing);
        scan->at = skip_blank(scan->at + 1, scan->end);
    }
    scan->first = false;
    char *name = NULL;
    if (scan->at == scan->end) {
        syntax_error(scan, scan->at, diag, "the text ends early: the file is cut short");
        return TMK_FORMAT;
    }
    if (bracket == '{')
        TMK_TRY(next_key(scan, &name, diag));
    const char *end = skip_value(scan, diag);
    if (!end) {
        free(name);
        return TMK_FORMAT;
    }
    *value = scan->at;
    *len = (size_t)(end - scan->at);
    scan->at = end;
    if (key)
        *key = name;
    return TMK_OK;
}

/* What the C library's heap makes of so many bytes. */
static size_t block_size(size_t bytes) {
    enum { HEAD = 8, STEP = 16, LEAST = 32 };
    const size_t whole = (bytes + HEAD + STEP - 1) / STEP * STEP;
    return whole > LEAST ? whole : LEAST;
}

/* At most what cJSON takes for a tree: an item for each value, a block for each string. The worst
 * is an item for two characters. */
static size_t tree_bytes(const char *text, size_t len) {
    enum { NOT_WORTH_COUNTING = 1 << 14 };
    const size_t item = block_size(sizeof(cJSON));
    size_t bytes = item;
    if (len < NOT_WORTH_COUNTING)
        return item + len / 2 * item;
    for (const char *at = text, *end = text + len; at < end; at++) {
        if (*at == ',' || *at == '[' || *at == '{')
            bytes += item;
        if (*at != '"')
            continue;
        const char *begin = at;
        for (at++; at < end && *at != '"'; at++)
            at += *at == '\\';
        bytes += block_size((size_t)(at - begin));
    }
    return bytes;
}

static enum tmk_status parse_counted(const char *text, size_t len, cJSON **out,
                                     struct tmk_diag *diag) {
    const char *end = NULL;
    cJSON *tree = cJSON_ParseWithLengthOpts(text, len, &end, 0);
    if (!tree && tmk_json_is_valid(text, len)) /* cJSON gives no reason */
        return tmk_nomem(diag);
    if (!tree)
        return tmk_fail(diag, TMK_FORMAT, "not JSON, %zu bytes into the value",
                        end >= text && end <= text + len ? (size_t)(end - text) : len);
    if (skip_blank(end, text + len) != text + len) {
        cJSON_Delete(tree);
        return tmk_fail(diag, TMK_FORMAT, "not JSON: something follows the value");
    }
    *out = tree;
    return TMK_OK;
}

enum tmk_status tmk_json_parse_held(const char *text, size_t len, cJSON **out, size_t *held,
                                    struct tmk_diag *diag) {
    const size_t bytes = tree_bytes(text, len);
    if (!tmk_memory_charge(bytes))
        return tmk_memory_fail(diag, bytes, "JSON of %zu bytes as a tree", len);
    enum tmk_status status = parse_counted(text, len, out, diag);
    if (status == TMK_OK)
        *held += bytes;
    else
        tmk_memory_uncharge(bytes);
    return status;
}

enum tmk_status tmk_json_parse(const char *text, size_t len, cJSON **out, struct tmk_diag *diag) {
    size_t held = 0;
    enum tmk_status status = tmk_json_parse_held(text, len, out, &held, diag);
    tmk_memory_uncharge(held);
    return status;
}

enum tmk_status tmk_json_parse_object(const char *text, size_t len, cJSON **out, size_t *held,
                                      struct tmk_diag *diag) {
    struct tmk_json_scan scan;
    const char *value;
    size_t size;
    char *key;
    enum tmk_status status;
    if (!tmk_json_enter(&scan, text, len, '{'))
        return tmk_fail(diag, TMK_FORMAT, "neither a JSON object nor HDF5");
    while ((status = tmk_json_next(&scan, '{', &key, &value, &size, diag)) == TMK_OK)
        free(key);
    if (status != TMK_NOTFOUND)
        return status;
    return tmk_json_parse_held(text, len, out, held, diag);
}

static enum tmk_status fail_expected(struct tmk_diag *diag, const char *key, const char *what) {
    return tmk_fail(diag, TMK_FORMAT, "'%s' is missing or is not %s", key, what);
}

/* A profile has 40 keys a value, each of which is looked for among the others. */
static bool is_key(const char *text, const char *key) {
    return text[0] == key[0] && strcmp(text, key) == 0;
}

enum tmk_status tmk_json_keys(const cJSON *object, const char *const *known, size_t n, bool strict,
                              struct tmk_diag *diag) {
    uint64_t seen = 0;
    size_t k = 0, tried;
    if (!cJSON_IsObject(object))
        return tmk_fail(diag, TMK_FORMAT, "not an object");
    const cJSON *member;
    cJSON_ArrayForEach(member, object) { /* mostly they stand in the known ones' order */
        for (tried = 0; tried < n && !is_key(member->string, known[k]); tried++)
            k = k + 1 < n ? k + 1 : 0;
        if (tried == n) {
            if (strict && strncmp(member->string, "x-", 2) != 0) {
                struct tmk_guess guess = {.wanted = member->string};
                char meant[TMK_GUESS_SIZE];
                for (size_t i = 0; i < n; i++)
                    tmk_guess_try(&guess, known[i]);
                return tmk_fail(diag, TMK_FORMAT, "unknown key '%s'%s", member->string,
                                tmk_guess_text(&guess, meant));
            }
            continue;
        }
        if (seen >> k & 1)
            return tmk_fail(diag, TMK_FORMAT, "'%s' stands twice", member->string);
        seen |= UINT64_C(1) << k;
    }
    return TMK_OK;
}

const cJSON *tmk_json_member(const cJSON *object, const char *key) {
    const cJSON *member = object ? object->child : NULL;
    while (member && member->string && !is_key(member->string, key))
        member = member->next;
    return member && member->string ? member : NULL;
}

enum tmk_status tmk_json_object(const cJSON *object, const char *key, const cJSON **out,
                                struct tmk_diag *diag) {
    const cJSON *item = tmk_json_member(object, key);
    if (!cJSON_IsObject(item))
        return fail_expected(diag, key, "an object");
    *out = item;
    return TMK_OK;
}

enum tmk_status tmk_json_array(const cJSON *object, const char *key, const cJSON **out,
                               struct tmk_diag *diag) {
    const cJSON *item = tmk_json_member(object, key);
    if (!cJSON_IsArray(item))
        return fail_expected(diag, key, "an array");
    *out = item;
    return TMK_OK;
}

enum tmk_status tmk_json_text(const cJSON *object, const char *key, const char **out,
                              struct tmk_diag *diag) {
    const cJSON *item = tmk_json_member(object, key);
    if (!cJSON_IsString(item))
        return fail_expected(diag, key, "a string");
    *out = item->valuestring;
    return TMK_OK;
}

enum tmk_status tmk_json_texts(const cJSON *object, const char *key, const char *what,
                               struct tmk_arena *arena, const char ***out, uint32_t *n,
                               struct tmk_diag *diag) {
    const cJSON *array, *item;
    TMK_TRY(tmk_json_array(object, key, &array, diag));
    *n = 0;
    *out = tmk_arena_array(arena, (size_t)cJSON_GetArraySize(array) + 1, sizeof **out);
    TMK_TRY_ALLOC(*out, diag);
    cJSON_ArrayForEach(item, array) {
        if (!cJSON_IsString(item))
            return tmk_fail(diag, TMK_FORMAT, "'%s' is not a list of %s", key, what);
        (*out)[*n] = tmk_arena_strdup(arena, item->valuestring);
        TMK_TRY_ALLOC((*out)[(*n)++], diag);
    }
    return TMK_OK;
}

enum tmk_status tmk_json_text_or(const cJSON *object, const char *key, const char **out,
                                 const char *otherwise, struct tmk_diag *diag) {
    if (tmk_json_member(object, key))
        return tmk_json_text(object, key, out, diag);
    *out = otherwise;
    return TMK_OK;
}

static bool parse_digits(const char *text, uint64_t *out) {
    uint64_t value = 0;
    if (!*text)
        return false;
    for (; *text; text++)
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return false;
    *out = value;
    return true;
}

bool tmk_json_as_u64(const cJSON *item, uint64_t *out) {
    if (cJSON_IsString(item))
        return parse_digits(item->valuestring, out);
    double value = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!(value >= 0 && value <= 0x1p53 && value == floor(value)))
        return false;
    *out = (uint64_t)value;
    return true;
}

bool tmk_json_as_i64(const cJSON *item, int64_t *out) {
    if (cJSON_IsString(item)) {
        bool negative = item->valuestring[0] == '-';
        uint64_t value;
        if (!parse_digits(item->valuestring + negative, &value) ||
            value > (uint64_t)INT64_MAX + (negative ? 1 : 0))
            return false;
        *out = negative ? (int64_t)(0 - value) : (int64_t)value;
        return true;
    }
    double value = cJSON_IsNumber(item) ? item->valuedouble : NAN;
    if (!(fabs(value) <= 0x1p53 && value == floor(value)))
        return false;
    *out = (int64_t)value;
    return true;
}

bool tmk_json_as_float(const cJSON *item, float *out) {
    if (cJSON_IsNull(item)) {
        *out = NAN;
        return true;
    }
    if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble) ||
        !isfinite((float)item->valuedouble))
        return false;
    *out = (float)item->valuedouble;
    return true;
}

enum tmk_status tmk_json_u64(const cJSON *object, const char *key, uint64_t *out,
                             struct tmk_diag *diag) {
    return tmk_json_as_u64(tmk_json_member(object, key), out)
               ? TMK_OK
               : fail_expected(diag, key, "a count (an integer, or its digits as a string)");
}

enum tmk_status tmk_json_u32(const cJSON *object, const char *key, uint32_t *out,
                             struct tmk_diag *diag) {
    uint64_t value;
    if (!tmk_json_as_u64(tmk_json_member(object, key), &value) || value > UINT32_MAX)
        return fail_expected(diag, key, "an integer of 32 bits");
    *out = (uint32_t)value;
    return TMK_OK;
}

enum tmk_status tmk_json_bool_or(const cJSON *object, const char *key, bool *out, bool otherwise,
                                 struct tmk_diag *diag) {
    const cJSON *item = tmk_json_member(object, key);
    if (item && !cJSON_IsBool(item))
        return fail_expected(diag, key, "true or false");
    *out = item ? cJSON_IsTrue(item) : otherwise;
    return TMK_OK;
}
