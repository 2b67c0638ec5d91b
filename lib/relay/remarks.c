/* SPDX-License-Identifier: Apache-2.0 */
/* Comments behind expressions: the type that TVM inferred, the span of its frontend, and others. */
#include <string.h>

#include "base/diag.h"
#include "relay/read.h"

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void trim_blanks(const char **begin, const char **end) {
    while (*begin < *end && is_blank(**begin))
        ++*begin;
    while (*begin < *end && is_blank((*end)[-1]))
        --*end;
}

static const char *find_text(const char *begin, const char *end, const char *what) {
    size_t n = strlen(what);
    for (; (size_t)(end - begin) >= n; begin++)
        if (!memcmp(begin, what, n))
            return begin;
    return NULL;
}

/* As text, for a type that the grammar does not have. */
static enum tmk_status keep_type(struct tmk_relay_reader *in, const char *begin, const char *end,
                                 struct tmk_relay_type **out) {
    TMK_RELAY_NEW(in, *out);
    (*out)->kind = TMK_RELAY_OTHER;
    return tmk_relay_copy(in, begin, (size_t)(end - begin), &(*out)->text);
}

/* The type that is the whole of a text inside the gap. A comment can be anything: what is no type
 * is kept as it stands. */
static enum tmk_status read_type(struct tmk_relay_reader *in, const char *begin, const char *end,
                                 struct tmk_relay_type **out) {
    struct tmk_relay_reader saved = *in;
    in->at = begin;
    in->end = end;
    in->diag = NULL;
    struct tmk_relay_type *type = NULL;
    enum tmk_status status = tmk_relay_next(in);
    TMK_THEN(status, tmk_relay_parse_type(in, &type));
    bool whole = status == TMK_OK && in->token.kind == RELAY_END;
    in->at = saved.at;
    in->end = saved.end;
    in->line = saved.line;
    in->line_begin = saved.line_begin;
    in->token = saved.token;
    in->gap = saved.gap;
    in->gap_end = saved.gap_end;
    in->comments = saved.comments;
    in->diag = saved.diag;
    in->depth = saved.depth;
    in->pointers.used = saved.pointers.used;
    in->dims.used = saved.dims.used;
    if (status == TMK_NOMEM)
        return tmk_nomem(in->diag);
    if (!whole)
        return keep_type(in, begin, end, out);
    *out = type;
    return TMK_OK;
}

/* The same for a text that may have been read before: most expressions of a network share few
 * types. */
static enum tmk_status find_type(struct tmk_relay_reader *in, const char *begin, const char *end,
                                 struct tmk_relay_type **out) {
    size_t len = (size_t)(end - begin);
    if (len > RELAY_MAX_NAME || memchr(begin, '\0', len))
        return read_type(in, begin, end, out);
    memcpy(in->key, begin, len);
    in->key[len] = '\0';
    *out = tmk_map_get(&in->types, in->key);
    if (*out)
        return TMK_OK;
    const char *key;
    TMK_TRY(tmk_relay_copy(in, begin, len, &key));
    TMK_TRY(read_type(in, begin, end, out));
    return tmk_map_put(&in->types, key, *out) ? TMK_OK : tmk_nomem(in->diag);
}

static enum tmk_status add_remark(struct tmk_relay_reader *in, const char *begin, const char *end,
                                  struct tmk_relay_remarks *remarks) {
    if (!remarks->remark)
        return tmk_relay_copy(in, begin, (size_t)(end - begin), &remarks->remark);
    struct tmk_text joined = {0};
    tmk_text_puts(&joined, remarks->remark);
    tmk_text_puts(&joined, ", ");
    tmk_text_append(&joined, begin, (size_t)(end - begin));
    enum tmk_status status = joined.failed
                                 ? tmk_nomem(in->diag)
                                 : tmk_relay_copy(in, joined.data, joined.len, &remarks->remark);
    tmk_text_finish(&joined);
    return status;
}

static enum tmk_status read_comment(struct tmk_relay_reader *in, const char *begin, const char *end,
                                    bool types, struct tmk_relay_remarks *remarks) {
    trim_blanks(&begin, &end);
    bool typed = types && end - begin > 3 && !memcmp(begin, "ty=", 3);
    const char *span = types && end - begin > 5 && !memcmp(begin, "span=", 5) ? begin : NULL;
    if (typed && !span)
        span = find_text(begin, end, " span=");
    if (!typed && !span)
        return begin < end ? add_remark(in, begin, end, remarks) : TMK_OK;
    if (typed) {
        const char *type_begin = begin + 3, *type_end = span ? span : end;
        trim_blanks(&type_begin, &type_end);
        struct tmk_relay_type *type;
        TMK_TRY(find_type(in, type_begin, type_end, &type));
        if (!remarks->type)
            remarks->type = type;
        else if (tmk_relay_type_equal(remarks->type, type))
            remarks->type_twice = true;
        else
            return add_remark(in, begin, end, remarks);
    }
    if (span) {
        const char *name = span + (*span == ' ' ? 6 : 5), *name_end = end;
        trim_blanks(&name, &name_end);
        TMK_TRY(tmk_relay_copy(in, name, (size_t)(name_end - name), &remarks->span));
    }
    return TMK_OK;
}

enum tmk_status tmk_relay_take_remarks(struct tmk_relay_reader *in, bool types,
                                       struct tmk_relay_remarks *remarks) {
    if (!in->comments)
        return TMK_OK;
    in->comments = false;
    const char *at = in->gap, *end = in->gap_end;
    while (at + 1 < end) {
        if (at[0] == '/' && at[1] == '/') {
            const char *line_end = memchr(at, '\n', (size_t)(end - at));
            at = line_end ? line_end : end;
        } else if (at[0] == '/' && at[1] == '*') {
            const char *begin = at + 2;
            size_t open = 1;
            for (at = begin; open; at += 2) {
                if (at[0] == '/' && at[1] == '*')
                    open++;
                else if (at[0] == '*' && at[1] == '/')
                    open--;
                else
                    at--;
            }
            TMK_TRY(read_comment(in, begin, at - 2, types, remarks));
        } else {
            at++;
        }
    }
    return TMK_OK;
}
