/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions of Relay text. */
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "relay/read.h"

enum tmk_status tmk_relay_new_expr(struct tmk_relay_reader *in, enum tmk_relay_expr_kind kind,
                                   struct tmk_relay_place place, struct tmk_relay_expr **out) {
    struct tmk_relay_expr *expr;
    TMK_TRY(tmk_relay_part(in));
    TMK_RELAY_NEW(in, expr);
    expr->kind = kind;
    expr->place = place;
    *out = expr;
    return TMK_OK;
}

/* Of kind FN, with its function. */
static enum tmk_status new_inner(struct tmk_relay_reader *in, struct tmk_relay_place place,
                                 struct tmk_relay_expr **out) {
    struct tmk_relay_function *fn;
    TMK_TRY(tmk_relay_new_expr(in, TMK_RELAY_FN, place, out));
    TMK_RELAY_NEW(in, fn);
    fn->name = "";
    fn->place = place;
    (*out)->fn = fn;
    return TMK_OK;
}

/* An expression is one higher than what it holds. */
static enum tmk_status set_height(struct tmk_relay_reader *in, struct tmk_relay_expr *expr,
                                  uint32_t height) {
    if (expr->height < height + 1)
        expr->height = height + 1;
    if (expr->height > TMK_RELAY_MAX_HEIGHT)
        return tmk_relay_fail(in, expr->place, "nested more than %d deep", TMK_RELAY_MAX_HEIGHT);
    return TMK_OK;
}

static enum tmk_status take_comments(struct tmk_relay_reader *in, struct tmk_relay_expr *expr) {
    struct tmk_relay_remarks remarks = {expr->type, expr->type_twice, expr->span, expr->remark};
    TMK_TRY(tmk_relay_take_remarks(in, true, &remarks));
    expr->type = remarks.type;
    expr->type_twice = remarks.type_twice;
    expr->span = remarks.span;
    expr->remark = remarks.remark;
    return TMK_OK;
}

/* Comments between the arguments of a call belong to it, whatever they are. */
static enum tmk_status take_comments_inside(struct tmk_relay_reader *in,
                                            struct tmk_relay_expr *call) {
    struct tmk_relay_remarks remarks = {.remark = call->remark};
    TMK_TRY(tmk_relay_take_remarks(in, false, &remarks));
    call->remark = remarks.remark;
    return TMK_OK;
}

/* Moves the expressions above `base` into `expr`. */
static enum tmk_status take_args(struct tmk_relay_reader *in, struct tmk_relay_expr *expr,
                                 size_t base) {
    TMK_TRY(tmk_relay_pop(in, &in->pointers, base, &expr->args, &expr->n_args));
    for (uint32_t i = 0; i < expr->n_args; i++)
        TMK_TRY(set_height(in, expr, expr->args[i]->height));
    return TMK_OK;
}

static enum tmk_status one_arg(struct tmk_relay_reader *in, struct tmk_relay_expr *expr,
                               struct tmk_relay_expr *arg) {
    size_t base = in->pointers.used;
    TMK_TRY(tmk_relay_push(in, &in->pointers, &arg));
    return take_args(in, expr, base);
}

static enum tmk_status parse_constant(struct tmk_relay_reader *in, struct tmk_relay_expr **out) {
    struct tmk_relay_place place = in->token.place;
    struct tmk_relay_expr *expr;
    TMK_TRY(tmk_relay_new_expr(in, TMK_RELAY_CONSTANT, place, &expr));
    if (in->token.kind == RELAY_WORD && !tmk_relay_at_number(in)) {
        uint8_t truth = tmk_relay_is(in, "True");
        expr->text = truth ? "True" : "False";
        expr->dtype = tmk_dtype_name(TMK_BOOL);
        TMK_TRY(tmk_relay_scalar(in->module, TMK_BOOL, &truth, &expr->data, in->diag));
        TMK_TRY(tmk_relay_next(in));
        TMK_TRY(take_comments(in, expr));
    } else {
        struct tmk_relay_number number;
        TMK_TRY(tmk_relay_parse_number(in, &number));
        TMK_TRY(take_comments(in, expr));
        TMK_TRY(tmk_relay_number_data(in, &number, place, expr->type, expr));
    }
    *out = expr;
    return TMK_OK;
}

static enum tmk_status fail_undeclared(struct tmk_relay_reader *in,
                                       const struct tmk_relay_token *token, const char *remedy) {
    int shown = token->len < 80 ? (int)token->len : 80;
    return tmk_relay_fail(in, token->place, "%%%.*s is not declared%s", shown, token->at, remedy);
}

/* The longest declared name that the token begins with, where the rest can follow a name. */
static enum tmk_status find_local(struct tmk_relay_reader *in, struct tmk_relay_binding **out) {
    struct tmk_relay_token token = in->token;
    if (token.len > RELAY_MAX_NAME)
        return tmk_relay_fail(in, token.place, "a name of %zu bytes", token.len);
    memcpy(in->key, token.at, token.len);
    for (size_t len = token.len; len; len--) {
        char c = len < token.len ? token.at[len] : '\0';
        char after = len + 1 < token.len ? token.at[len + 1] : '\0';
        bool can_end =
            !c || c == '-' || c == '/' || c == ':' || (c == '.' && after >= '0' && after <= '9');
        if (!can_end)
            continue;
        in->key[len] = '\0';
        struct tmk_relay_word *word = tmk_map_get(&in->words, in->key);
        if (word && word->binding) {
            *out = word->binding;
            return tmk_relay_again(in, token.at + len);
        }
    }
    return fail_undeclared(in, &token, " (parameters, free_var and let declare names)");
}

static enum tmk_status parse_named(struct tmk_relay_reader *in, enum tmk_relay_expr_kind kind,
                                   struct tmk_relay_expr **out) {
    struct tmk_relay_expr *expr;
    TMK_TRY(tmk_relay_new_expr(in, kind, in->token.place, &expr));
    TMK_TRY(tmk_relay_name(in, in->token.at, in->token.len, &expr->text));
    TMK_TRY(tmk_relay_next(in));
    *out = expr;
    return TMK_OK;
}

static enum tmk_status parse_branch(struct tmk_relay_reader *in, struct tmk_relay_expr *expr,
                                    struct tmk_relay_body **out) {
    uint32_t height;
    TMK_RELAY_NEW(in, *out);
    TMK_TRY(tmk_relay_parse_block(in, *out, &height));
    return set_height(in, expr, height);
}

/* Bindings and a result inside brackets, at their first token: a function that is called at once.
 * TVM writes lets so that stand inside expressions. */
static enum tmk_status parse_scope(struct tmk_relay_reader *in, struct tmk_relay_place place,
                                   struct tmk_relay_expr **out) {
    struct tmk_relay_expr *call, *callee;
    uint32_t height;
    TMK_TRY(tmk_relay_new_expr(in, TMK_RELAY_CALL, place, &call));
    TMK_TRY(new_inner(in, place, &callee));
    TMK_TRY(tmk_relay_parse_body(in, &callee->fn->body, &height));
    TMK_TRY(set_height(in, callee, height));
    call->callee = callee;
    *out = call;
    return set_height(in, call, callee->height);
}

static bool at_binding(const struct tmk_relay_reader *in) {
    return tmk_relay_is(in, "let") ||
           (in->token.kind == RELAY_NUMBERED && tmk_relay_before_equals(in));
}

/* (), (x), (x,), (x, y), (let %x = y; z). */
static enum tmk_status parse_brackets(struct tmk_relay_reader *in, struct tmk_relay_expr **out) {
    struct tmk_relay_place place = in->token.place;
    size_t base = in->pointers.used;
    TMK_TRY(tmk_relay_next(in));
    if (at_binding(in)) {
        TMK_TRY(parse_scope(in, place, out));
        return tmk_relay_need(in, ')', "')' or ';'");
    }
    bool more = in->token.kind != ')', comma = !more;
    while (more) {
        struct tmk_relay_expr *item;
        TMK_TRY(tmk_relay_parse_expr(in, &item));
        TMK_TRY(tmk_relay_push(in, &in->pointers, &item));
        TMK_TRY(tmk_relay_take(in, ',', &more));
        comma |= more;
        more = more && in->token.kind != ')';
    }
    TMK_TRY(tmk_relay_need(in, ')', "',' or ')'"));
    if (!comma) {
        in->pointers.used = base;
        memcpy(out, in->pointers.data + base, sizeof *out);
        return TMK_OK;
    }
    struct tmk_relay_expr *expr;
    TMK_TRY(tmk_relay_new_expr(in, TMK_RELAY_ITEMS, place, &expr));
    TMK_TRY(take_args(in, expr, base));
    *out = expr;
    return TMK_OK;
}

static enum tmk_status parse_word(struct tmk_relay_reader *in, struct tmk_relay_expr **out) {
    static const char *const unread[] = {"match", "match?", "ref", "ref_read", "ref_write"};
    for (size_t i = 0; i < TMK_COUNT(unread); i++)
        if (tmk_relay_is(in, unread[i]))
            return tmk_relay_fail(in, in->token.place,
                                  "%s is not read: only what computes tensors is", unread[i]);
    if (tmk_relay_is(in, "fn")) {
        uint32_t height;
        TMK_TRY(new_inner(in, in->token.place, out));
        TMK_TRY(tmk_relay_next(in));
        TMK_TRY(tmk_relay_parse_function(in, (*out)->fn, &height));
        return set_height(in, *out, height);
    }
    if (tmk_relay_is(in, "if")) {
        struct tmk_relay_expr *expr, *condition;
        TMK_TRY(tmk_relay_new_expr(in, TMK_RELAY_IF, in->token.place, &expr));
        TMK_TRY(tmk_relay_next(in));
        TMK_TRY(tmk_relay_need(in, '(', "'(' behind if"));
        TMK_TRY(tmk_relay_parse_expr(in, &condition));
        TMK_TRY(tmk_relay_need(in, ')', "')' behind the condition"));
        TMK_TRY(one_arg(in, expr, condition));
        TMK_TRY(parse_branch(in, expr, &expr->body));
        if (!tmk_relay_is(in, "else"))
            return tmk_relay_expected(in, "else");
        TMK_TRY(tmk_relay_next(in));
        TMK_TRY(parse_branch(in, expr, &expr->otherwise));
        *out = expr;
        return TMK_OK;
    }
    if (tmk_relay_is(in, "let"))
        return tmk_relay_fail(in, in->token.place,
                              "a let inside an expression stands in brackets of its own");
    return parse_named(in, TMK_RELAY_OPERATOR, out);
}

static enum tmk_status parse_atom(struct tmk_relay_reader *in, struct tmk_relay_expr **out) {
    if (tmk_relay_at_number(in) || tmk_relay_is(in, "True") || tmk_relay_is(in, "False"))
        return parse_constant(in, out);
    switch (in->token.kind) {
    case RELAY_NUMBERED:
    case RELAY_LOCAL: {
        struct tmk_relay_expr *expr;
        TMK_TRY(tmk_relay_new_expr(in, TMK_RELAY_USE, in->token.place, &expr));
        if (in->token.kind == RELAY_NUMBERED) {
            struct tmk_relay_word *word;
            TMK_TRY(tmk_relay_word(in, in->token.at, in->token.len, &word));
            if (!word->binding)
                return fail_undeclared(in, &in->token, " before this line");
            expr->binding = word->binding;
            TMK_TRY(tmk_relay_next(in));
        } else {
            TMK_TRY(find_local(in, &expr->binding));
        }
        *out = expr;
        return TMK_OK;
    }
    case RELAY_GLOBAL:
        return parse_named(in, TMK_RELAY_GLOBAL, out);
    case RELAY_META: {
        struct tmk_relay_expr *expr;
        TMK_TRY(tmk_relay_new_expr(in, TMK_RELAY_METADATA, in->token.place, &expr));
        TMK_TRY(tmk_relay_name(in, in->token.at, in->token.len, &expr->text));
        expr->index = in->token.index;
        TMK_TRY(tmk_relay_push(in, &in->metadata, &expr));
        TMK_TRY(tmk_relay_next(in));
        *out = expr;
        return TMK_OK;
    }
    case RELAY_WORD:
        return parse_word(in, out);
    case '(':
        return parse_brackets(in, out);
    case '{': {
        /* { bindings result } */
        struct tmk_relay_place place = in->token.place;
        TMK_TRY(tmk_relay_next(in));
        TMK_TRY(parse_scope(in, place, out));
        return tmk_relay_need(in, '}', "'}' or ';'");
    }
    default:
        return tmk_relay_expected(in, "an expression");
    }
}

static bool is_constant_key(const struct tmk_relay_token *token) {
    static const char key[] = "relay.Constant";
    return token->len == sizeof key - 1 && !memcmp(token->at, key, token->len);
}

static enum tmk_status parse_arg(struct tmk_relay_reader *in) {
    struct tmk_relay_expr *arg;
    if (in->token.kind == RELAY_STRING || in->token.kind == '[')
        return tmk_relay_parse_attr(in, "");
    if (in->token.kind == RELAY_WORD && tmk_relay_before_equals(in))
        return tmk_relay_parse_attr(in, NULL);
    if (in->token.kind == RELAY_META && !is_constant_key(&in->token)) {
        /* The object that holds all attributes of a call: meta[relay.attrs.Conv2DAttrs][0]. */
        struct tmk_relay_attr attr = {.name = "", .value = {.kind = TMK_RELAY_META}};
        attr.value.i = in->token.index;
        TMK_TRY(tmk_relay_name(in, in->token.at, in->token.len, &attr.value.s));
        TMK_TRY(tmk_relay_push(in, &in->attrs, &attr));
        return tmk_relay_next(in);
    }
    TMK_TRY(tmk_relay_parse_expr(in, &arg));
    return tmk_relay_push(in, &in->pointers, &arg);
}

static enum tmk_status parse_call(struct tmk_relay_reader *in, struct tmk_relay_expr *callee,
                                  struct tmk_relay_expr **out) {
    struct tmk_relay_expr *expr;
    size_t base = in->pointers.used, attrs = in->attrs.used;
    TMK_TRY(tmk_relay_new_expr(in, TMK_RELAY_CALL, callee->place, &expr));
    expr->callee = callee;
    TMK_TRY(tmk_relay_next(in));
    TMK_TRY(take_comments_inside(in, expr));
    bool more = in->token.kind != ')';
    while (more) {
        TMK_TRY(parse_arg(in));
        TMK_TRY(take_comments_inside(in, expr));
        TMK_TRY(tmk_relay_take(in, ',', &more));
        TMK_TRY(take_comments_inside(in, expr));
        more = more && in->token.kind != ')';
    }
    expr->remark_inside = expr->remark != NULL;
    TMK_TRY(tmk_relay_need(in, ')', "',' or ')' behind an argument"));
    TMK_TRY(tmk_relay_pop(in, &in->attrs, attrs, &expr->attrs, &expr->n_attrs));
    TMK_TRY(take_args(in, expr, base));
    *out = expr;
    return set_height(in, expr, callee->height);
}

/* .index: the token is the dot. */
static enum tmk_status parse_projection(struct tmk_relay_reader *in, struct tmk_relay_expr *of,
                                        struct tmk_relay_expr **out) {
    struct tmk_relay_expr *expr;
    TMK_TRY(tmk_relay_new_expr(in, TMK_RELAY_PROJECT, of->place, &expr));
    const char *at = in->at;
    uint64_t index = 0;
    for (; at < in->end && *at >= '0' && *at <= '9' && index <= UINT32_MAX; at++)
        index = index * 10 + (uint64_t)(*at - '0');
    if (at == in->at || index > UINT32_MAX)
        return tmk_relay_fail(in, in->token.place,
                              "expected the number of a tuple's item behind "
                              "'.'");
    expr->index = (uint32_t)index;
    TMK_TRY(tmk_relay_again(in, at));
    *out = expr;
    return one_arg(in, expr, of);
}

static enum tmk_status parse_postfix(struct tmk_relay_reader *in, struct tmk_relay_expr **out) {
    struct tmk_relay_expr *expr = NULL;
    TMK_TRY(parse_atom(in, &expr));
    TMK_TRY(take_comments(in, expr));
    while (in->token.kind == '.' || in->token.kind == '(') {
        if (in->token.kind == '.')
            TMK_TRY(parse_projection(in, expr, &expr));
        else
            TMK_TRY(parse_call(in, expr, &expr));
        TMK_TRY(take_comments(in, expr));
    }
    *out = expr;
    return TMK_OK;
}

/* Operators that people write and TVM's printer doesn't. */
static const struct infix {
    int kind, binds;
    const char *name;
} infixes[] = {{'*', 3, "multiply"},
               {'/', 3, "divide"},
               {'+', 2, "add"},
               {'-', 2, "subtract"},
               {'<', 1, "less"},
               {'>', 1, "greater"},
               {RELAY_AT_MOST, 1, "less_equal"},
               {RELAY_AT_LEAST, 1, "greater_equal"},
               {RELAY_EQUAL, 0, "equal"},
               {RELAY_UNEQUAL, 0, "not_equal"}};

static const struct infix *find_infix(int kind) {
    for (size_t i = 0; i < TMK_COUNT(infixes); i++)
        if (infixes[i].kind == kind)
            return &infixes[i];
    return NULL;
}

static enum tmk_status parse_infix(struct tmk_relay_reader *in, int binds,
                                   struct tmk_relay_expr **out) {
    struct tmk_relay_expr *left = NULL, *right, *expr;
    TMK_TRY(parse_postfix(in, &left));
    for (;;) {
        const struct infix *infix = find_infix(in->token.kind);
        if (!infix || infix->binds < binds)
            break;
        TMK_TRY(tmk_relay_new_expr(in, TMK_RELAY_CALL, left->place, &expr));
        TMK_TRY(tmk_relay_new_expr(in, TMK_RELAY_OPERATOR, in->token.place, &expr->callee));
        expr->callee->text = infix->name;
        TMK_TRY(tmk_relay_next(in));
        TMK_TRY(parse_infix(in, infix->binds + 1, &right));
        size_t base = in->pointers.used;
        TMK_TRY(tmk_relay_push(in, &in->pointers, &left));
        TMK_TRY(tmk_relay_push(in, &in->pointers, &right));
        TMK_TRY(take_args(in, expr, base));
        left = expr;
    }
    *out = left;
    return TMK_OK;
}

enum tmk_status tmk_relay_parse_expr(struct tmk_relay_reader *in, struct tmk_relay_expr **out) {
    TMK_TRY(tmk_relay_enter(in));
    TMK_TRY(parse_infix(in, 0, out));
    in->depth--;
    return TMK_OK;
}
