/* SPDX-License-Identifier: Apache-2.0 */
/* Relay text into a module: functions, bodies, names and their scopes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/memory.h"
#include "relay/json.h"
#include "relay/read.h"

/* ---- what the parts share ---- */

enum tmk_status tmk_relay_enter(struct tmk_relay_reader *in) {
    if (in->depth >= TMK_RELAY_MAX_HEIGHT)
        return tmk_relay_fail(in, in->token.place, "nested more than %d deep",
                              TMK_RELAY_MAX_HEIGHT);
    in->depth++;
    return TMK_OK;
}

enum tmk_status tmk_relay_part(struct tmk_relay_reader *in) {
    if (++in->parts > RELAY_MAX_PARTS)
        return tmk_relay_fail(in, in->token.place, "more than %d expressions", RELAY_MAX_PARTS);
    return TMK_OK;
}

enum tmk_status tmk_relay_push(struct tmk_relay_reader *in, struct tmk_relay_stack *stack,
                               const void *element) {
    TMK_TRY(tmk_relay_part(in));
    size_t count = stack->used / stack->element, size = stack->size;
    TMK_TRY_ALLOC(tmk_grow(&stack->data, count, &size, stack->element), in->diag);
    stack->size = size;
    memcpy(stack->data + stack->used, element, stack->element);
    stack->used += stack->element;
    return TMK_OK;
}

enum tmk_status tmk_relay_pop(struct tmk_relay_reader *in, struct tmk_relay_stack *stack,
                              size_t base, void *array, uint32_t *n) {
    size_t len = stack->used - base;
    void *copy = NULL;
    if (len) {
        copy = tmk_arena_alloc(&in->module->arena, len);
        TMK_TRY_ALLOC(copy, in->diag);
        memcpy(copy, stack->data + base, len);
    }
    stack->used = base;
    memcpy(array, &copy, sizeof copy);
    *n = (uint32_t)(len / stack->element);
    return TMK_OK;
}

enum tmk_status tmk_relay_word(struct tmk_relay_reader *in, const char *at, size_t len,
                               struct tmk_relay_word **out) {
    if (len > RELAY_MAX_NAME)
        return tmk_relay_fail(in, in->token.place, "a name of %zu bytes", len);
    memmove(in->key, at, len);
    in->key[len] = '\0';
    struct tmk_relay_word *word = tmk_map_get(&in->words, in->key);
    if (!word) {
        word = tmk_arena_alloc(&in->module->arena, sizeof *word + len + 1);
        TMK_TRY_ALLOC(word, in->diag);
        memcpy(word->text, in->key, len + 1);
        TMK_TRY_ALLOC(tmk_map_put(&in->words, word->text, word), in->diag);
    }
    *out = word;
    return TMK_OK;
}

enum tmk_status tmk_relay_name(struct tmk_relay_reader *in, const char *at, size_t len,
                               const char **out) {
    struct tmk_relay_word *word;
    TMK_TRY(tmk_relay_word(in, at, len, &word));
    *out = word->text;
    return TMK_OK;
}

enum tmk_status tmk_relay_copy(struct tmk_relay_reader *in, const char *at, size_t len,
                               const char **out) {
    if (memchr(at, '\0', len))
        return tmk_relay_fail(in, in->token.place, "a zero byte before this");
    *out = tmk_arena_strndup(&in->module->arena, at, len);
    return *out ? TMK_OK : tmk_nomem(in->diag);
}

/* ---- names ---- */

/* What a name stood for before the scope that is open now. */
struct shadow {
    struct tmk_relay_word *word;
    struct tmk_relay_binding *before;
    size_t bound;
};

static enum tmk_status bind_name(struct tmk_relay_reader *in, struct tmk_relay_binding *binding) {
    struct tmk_relay_word *word;
    TMK_TRY(tmk_relay_word(in, binding->name, strlen(binding->name), &word));
    struct shadow shadow = {word, word->binding, word->bound};
    word->bound = in->scope.used;
    TMK_TRY(tmk_relay_push(in, &in->scope, &shadow));
    word->binding = binding;
    return TMK_OK;
}

static void leave_scope(struct tmk_relay_reader *in, size_t base) {
    while (in->scope.used > base) {
        struct shadow shadow;
        in->scope.used -= sizeof shadow;
        memcpy(&shadow, in->scope.data + in->scope.used, sizeof shadow);
        shadow.word->binding = shadow.before;
        shadow.word->bound = shadow.bound;
    }
}

/* Was the name bound since the scope began? */
static bool bound_here(const struct tmk_relay_word *word, size_t scope) {
    return word->binding && word->bound >= scope;
}

/* `%name {device}: type`. */
static enum tmk_status parse_variable(struct tmk_relay_reader *in, enum tmk_relay_binding_kind kind,
                                      struct tmk_relay_binding **out) {
    struct tmk_relay_binding *binding;
    TMK_TRY(tmk_relay_part(in));
    TMK_RELAY_NEW(in, binding);
    binding->kind = kind;
    binding->place = in->token.place;
    /* The name that is declared here, without the ':' of its type: the name itself may hold some
     * ("conv/kernel:0"), but the ':' before a type is its last, and no type begins with a digit. */
    if (in->token.kind != RELAY_LOCAL)
        return tmk_relay_expected(in, "the name of a variable (%name)");
    const char *at = in->token.at;
    size_t len = in->token.len;
    for (size_t i = len; i-- > 1;)
        if (at[i] == ':') {
            if (i + 1 == len || at[i + 1] < '0' || at[i + 1] > '9')
                len = i;
            break;
        }
    TMK_TRY(tmk_relay_name(in, at, len, &binding->name));
    TMK_TRY(tmk_relay_again(in, at + len));
    if (in->token.kind == '{') {
        const char *begin, *end;
        TMK_TRY(tmk_relay_balanced(in, &begin, &end));
        TMK_TRY(tmk_relay_copy(in, begin, (size_t)(end - begin), &binding->device));
    }
    bool typed;
    TMK_TRY(tmk_relay_take(in, ':', &typed));
    if (typed)
        TMK_TRY(tmk_relay_parse_type(in, &binding->type));
    struct tmk_relay_remarks remarks = {0};
    TMK_TRY(tmk_relay_take_remarks(in, true, &remarks));
    binding->checked = remarks.type;
    binding->span = remarks.span;
    *out = binding;
    return TMK_OK;
}

/* ---- bodies ---- */

static enum tmk_status parse_value(struct tmk_relay_reader *in, struct tmk_relay_binding *binding,
                                   uint32_t *height) {
    TMK_TRY(tmk_relay_need(in, '=', "'='"));
    TMK_TRY(tmk_relay_parse_expr(in, &binding->expr));
    if (*height < binding->expr->height)
        *height = binding->expr->height;
    return TMK_OK;
}

/* A function may call itself by the name that let gives it. */
static enum tmk_status parse_let(struct tmk_relay_reader *in, uint32_t *height,
                                 struct tmk_relay_binding **out) {
    TMK_TRY(tmk_relay_next(in));
    TMK_TRY(parse_variable(in, TMK_RELAY_LET, out));
    const char *at = in->at;
    while (at < in->end && (*at == ' ' || *at == '\n'))
        at++;
    bool recursive = in->end - at > 2 && !memcmp(at, "fn", 2) && (at[2] == ' ' || at[2] == '(');
    if (recursive)
        TMK_TRY(bind_name(in, *out));
    TMK_TRY(parse_value(in, *out, height));
    return recursive ? TMK_OK : bind_name(in, *out);
}

static enum tmk_status parse_numbered(struct tmk_relay_reader *in, size_t scope, uint32_t *height,
                                      struct tmk_relay_binding **out) {
    struct tmk_relay_binding *binding;
    struct tmk_relay_word *word;
    TMK_TRY(tmk_relay_part(in));
    TMK_RELAY_NEW(in, binding);
    binding->kind = TMK_RELAY_NUMBERED;
    binding->place = in->token.place;
    TMK_TRY(tmk_relay_word(in, in->token.at, in->token.len, &word));
    binding->name = word->text;
    if (bound_here(word, scope))
        return tmk_relay_fail(in, binding->place, "%%%s is bound twice", binding->name);
    TMK_TRY(tmk_relay_next(in));
    TMK_TRY(parse_value(in, binding, height));
    *out = binding;
    return bind_name(in, binding);
}

/* One binding, or the result: then *out is NULL. */
static enum tmk_status parse_step(struct tmk_relay_reader *in, size_t scope,
                                  struct tmk_relay_body *body, uint32_t *height,
                                  struct tmk_relay_binding **out) {
    struct tmk_relay_binding *binding = NULL;
    bool ends;
    if (tmk_relay_is(in, "free_var")) {
        TMK_TRY(tmk_relay_next(in));
        TMK_TRY(parse_variable(in, TMK_RELAY_FREE, &binding));
        TMK_TRY(bind_name(in, binding));
    } else if (tmk_relay_is(in, "let")) {
        TMK_TRY(parse_let(in, height, &binding));
    } else if (in->token.kind == RELAY_NUMBERED && tmk_relay_before_equals(in)) {
        TMK_TRY(parse_numbered(in, scope, height, &binding));
    } else {
        struct tmk_relay_expr *expr;
        TMK_TRY(tmk_relay_parse_expr(in, &expr));
        if (*height < expr->height)
            *height = expr->height;
        if (in->token.kind == ';') { /* `e1; e2` is a let whose name cannot be used */
            TMK_RELAY_NEW(in, binding);
            *binding = (struct tmk_relay_binding){
                .kind = TMK_RELAY_LET, .name = "_", .expr = expr, .place = expr->place};
        } else {
            body->result = expr;
        }
    }
    if (binding) {
        if (binding->kind != TMK_RELAY_FREE || in->token.kind == ';') /* 0.0.4 leaves it out */
            TMK_TRY(tmk_relay_need(in, ';', "';'"));
        TMK_TRY(tmk_relay_take(in, ';', &ends)); /* 0.0.4 writes two */
    }
    *out = binding;
    return TMK_OK;
}

enum tmk_status tmk_relay_parse_body(struct tmk_relay_reader *in, struct tmk_relay_body *body,
                                     uint32_t *height) {
    size_t base = in->pointers.used, scope = in->scope.used;
    struct tmk_relay_binding *binding;
    *height = 0;
    for (;;) {
        TMK_TRY(parse_step(in, scope, body, height, &binding));
        if (!binding)
            break;
        TMK_TRY(tmk_relay_push(in, &in->pointers, &binding));
    }
    TMK_TRY(tmk_relay_pop(in, &in->pointers, base, &body->bindings, &body->n));
    leave_scope(in, scope);
    return TMK_OK;
}

enum tmk_status tmk_relay_parse_block(struct tmk_relay_reader *in, struct tmk_relay_body *body,
                                      uint32_t *height) {
    TMK_TRY(tmk_relay_need(in, '{', "'{'"));
    TMK_TRY(tmk_relay_parse_body(in, body, height));
    return tmk_relay_need(in, '}', "'}' or ';'");
}

/* ---- functions ---- */

static enum tmk_status parse_param(struct tmk_relay_reader *in, size_t scope) {
    if (in->token.kind == RELAY_WORD)
        return tmk_relay_parse_attr(in, NULL);
    struct tmk_relay_binding *param;
    TMK_TRY(parse_variable(in, TMK_RELAY_PARAM, &param));
    struct tmk_relay_word *word;
    TMK_TRY(tmk_relay_word(in, param->name, strlen(param->name), &word));
    if (bound_here(word, scope))
        return tmk_relay_fail(in, param->place, "two parameters are named %%%s", param->name);
    TMK_TRY(bind_name(in, param));
    return tmk_relay_push(in, &in->pointers, &param);
}

enum tmk_status tmk_relay_parse_function(struct tmk_relay_reader *in, struct tmk_relay_function *fn,
                                         uint32_t *height) {
    size_t scope = in->scope.used, params = in->pointers.used, attrs = in->attrs.used;
    if (in->token.kind == '[') {
        const char *begin, *end;
        TMK_TRY(tmk_relay_balanced(in, &begin, &end));
        TMK_TRY(tmk_relay_copy(in, begin, (size_t)(end - begin), &fn->type_params));
    }
    TMK_TRY(tmk_relay_need(in, '(', "'(' before the parameters"));
    bool more = in->token.kind != ')', returns;
    while (more) {
        TMK_TRY(parse_param(in, scope));
        TMK_TRY(tmk_relay_take(in, ',', &more));
        more = more && in->token.kind != ')';
    }
    TMK_TRY(tmk_relay_need(in, ')', "',' or ')' behind a parameter"));
    TMK_TRY(tmk_relay_pop(in, &in->pointers, params, &fn->params, &fn->n_params));
    TMK_TRY(tmk_relay_pop(in, &in->attrs, attrs, &fn->attrs, &fn->n_attrs));
    TMK_TRY(tmk_relay_take(in, RELAY_ARROW, &returns));
    if (returns)
        TMK_TRY(tmk_relay_parse_type(in, &fn->result));
    TMK_TRY(tmk_relay_parse_block(in, &fn->body, height));
    leave_scope(in, scope);
    return TMK_OK;
}

/* ---- the module ---- */

static enum tmk_status new_function(struct tmk_relay_reader *in, enum tmk_relay_form form,
                                    struct tmk_relay_function **out) {
    struct tmk_relay_function *fn;
    TMK_RELAY_NEW(in, fn);
    fn->form = form;
    fn->name = "main";
    fn->place = in->token.place;
    *out = fn;
    return TMK_OK;
}

/* Algebraic data types hold no tensors. */
static enum tmk_status skip_typedef(struct tmk_relay_reader *in) {
    const char *begin, *end;
    if (tmk_relay_is(in, "extern"))
        TMK_TRY(tmk_relay_next(in));
    TMK_TRY(tmk_relay_next(in));
    if (in->token.kind != RELAY_WORD)
        return tmk_relay_expected(in, "the name of a type");
    TMK_TRY(tmk_relay_next(in));
    if (in->token.kind == '[')
        TMK_TRY(tmk_relay_balanced(in, &begin, &end));
    if (in->token.kind == '{')
        return tmk_relay_balanced(in, &begin, &end);
    return TMK_OK;
}

/* `v0.0.4`; the text is at its first token. */
static enum tmk_status parse_old_version(struct tmk_relay_reader *in) {
    const char *at = in->token.at;
    uint32_t *version = in->module->version;
    if (in->token.kind != RELAY_WORD || in->token.len < 2 || at[0] != 'v' || at[1] < '0' ||
        at[1] > '9')
        return TMK_OK;
    const char *end = at;
    while (end<in->end && * end> ' ')
        end++;
    char text[32] = "";
    size_t len = (size_t)(end - at) < sizeof text ? (size_t)(end - at) : sizeof text - 1;
    memcpy(text, at, len);
    int used = 0;
    if (sscanf(text, "v%9u.%9u.%9u%n", &version[0], &version[1], &version[2], &used) != 3 ||
        (size_t)used != len)
        return tmk_relay_fail(in, in->token.place, "'%s' is no version such as v0.0.4", text);
    return tmk_relay_again(in, end);
}

static enum tmk_status check_version(struct tmk_relay_reader *in, struct tmk_relay_place place) {
    const uint32_t *version = in->module->version;
    if (version[0] || version[1] || version[2] > 5)
        return tmk_relay_fail(in, place, "Relay text of version %u.%u.%u (0.0.5 was the last)",
                              version[0], version[1], version[2]);
    return TMK_OK;
}

/* `#[version = "0.0.5"]` or `#[metadata]`; of the latter *json is where its text begins. */
static enum tmk_status parse_hash(struct tmk_relay_reader *in, const char **json) {
    struct tmk_relay_place place = in->token.place;
    TMK_TRY(tmk_relay_next(in));
    TMK_TRY(tmk_relay_need(in, '[', "'[' behind '#'"));
    if (tmk_relay_is(in, "metadata")) {
        TMK_TRY(tmk_relay_next(in));
        if (in->token.kind != ']')
            return tmk_relay_expected(in, "']'");
        *json = in->at;
        return TMK_OK;
    }
    if (!tmk_relay_is(in, "version"))
        return tmk_relay_expected(in, "version or metadata");
    TMK_TRY(tmk_relay_next(in));
    TMK_TRY(tmk_relay_need(in, '=', "'='"));
    uint32_t *version = in->module->version;
    char text[32] = "";
    int used = 0;
    if (in->token.kind == RELAY_STRING && in->token.len < sizeof text)
        memcpy(text, in->token.at, in->token.len);
    if (sscanf(text, "%9u.%9u.%9u%n", &version[0], &version[1], &version[2], &used) != 3 ||
        text[used])
        return tmk_relay_expected(in, "a version such as \"0.0.5\"");
    TMK_TRY(tmk_relay_next(in));
    TMK_TRY(tmk_relay_need(in, ']', "']'"));
    return check_version(in, place);
}

static enum tmk_status parse_module(struct tmk_relay_reader *in) {
    const char *json = NULL;
    struct tmk_relay_module *module = in->module;
    TMK_TRY(tmk_relay_next(in));
    struct tmk_relay_place place = in->token.place;
    TMK_TRY(parse_old_version(in));
    TMK_TRY(check_version(in, place));
    while (in->token.kind != RELAY_END && !json) {
        if (in->token.kind == '#') {
            TMK_TRY(parse_hash(in, &json));
        } else if (tmk_relay_is(in, "METADATA") && in->at < in->end && *in->at == ':') {
            json = in->at + 1;
        } else if (tmk_relay_is(in, "def")) {
            struct tmk_relay_function *fn;
            uint32_t height;
            TMK_TRY(new_function(in, TMK_RELAY_DEF_FORM, &fn));
            TMK_TRY(tmk_relay_next(in));
            if (in->token.kind != RELAY_GLOBAL)
                return tmk_relay_expected(in, "the name of a function (@name)");
            struct tmk_relay_word *word;
            TMK_TRY(tmk_relay_word(in, in->token.at, in->token.len, &word));
            fn->name = word->text;
            if (word->defined)
                return tmk_relay_fail(in, in->token.place, "@%s is defined twice", fn->name);
            word->defined = true;
            TMK_TRY(tmk_relay_next(in));
            TMK_TRY(tmk_relay_parse_function(in, fn, &height));
            TMK_TRY(tmk_relay_push(in, &in->pointers, &fn));
        } else if (tmk_relay_is(in, "type") || tmk_relay_is(in, "extern")) {
            TMK_TRY(skip_typedef(in));
        } else if (in->pointers.used) {
            return tmk_relay_expected(in, "def, metadata or the end");
        } else {
            /* The whole text is one function, or the body of one. */
            struct tmk_relay_function *fn;
            uint32_t height;
            if (tmk_relay_is(in, "fn")) {
                TMK_TRY(new_function(in, TMK_RELAY_FN_FORM, &fn));
                TMK_TRY(tmk_relay_next(in));
                TMK_TRY(tmk_relay_parse_function(in, fn, &height));
            } else {
                TMK_TRY(new_function(in, TMK_RELAY_BODY_FORM, &fn));
                TMK_TRY(tmk_relay_parse_body(in, &fn->body, &height));
            }
            TMK_TRY(tmk_relay_push(in, &in->pointers, &fn));
        }
    }
    if (!in->pointers.used)
        return tmk_relay_expected(in, "a function");
    TMK_TRY(tmk_relay_pop(in, &in->pointers, 0, &module->functions, &module->n_functions));
    return json ? tmk_relay_parse_section(in, json, (size_t)(in->end - json)) : TMK_OK;
}

static enum tmk_status index_functions(struct tmk_relay_module *module, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < module->n_functions; i++)
        TMK_TRY_ALLOC(
            tmk_map_put(&module->by_name, module->functions[i]->name, module->functions[i]), diag);
    return TMK_OK;
}

enum tmk_status tmk_relay_parse(const char *text, size_t len, const char *name,
                                struct tmk_relay_module **out, struct tmk_diag *diag) {
    /* No Relay text begins with a brace. */
    size_t i = 0;
    while (i < len && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r'))
        i++;
    bool json = i < len && text[i] == '{';
    if (json && memmem(text, len, "\"arg_nodes\"", 11))
        return tmk_relay_parse_graph(text, len, name, out, diag);
    struct tmk_relay_module *module;
    TMK_TRY(tmk_relay_module_create(&module, diag));
    module->version[2] = 0;
    static const char mark[] = "\xef\xbb\xbf"; /* some editors write it before UTF-8 */
    size_t skip = len >= 3 && !memcmp(text, mark, 3) ? 3 : 0;
    struct tmk_relay_reader in = {
        .name = name,
        .at = text + skip,
        .end = text + len,
        .line_begin = text + skip,
        .line = 1,
        .token = {.place = {1, 1}}, /* what JSON has no better place for */
        .module = module,
        .pointers = {.element = sizeof(void *)},
        .attrs = {.element = sizeof(struct tmk_relay_attr)},
        .values = {.element = sizeof(struct tmk_relay_value)},
        .dims = {.element = sizeof(int64_t)},
        .scope = {.element = sizeof(struct shadow)},
        .metadata = {.element = sizeof(void *)},
        .diag = diag,
    };
    enum tmk_status status = json ? tmk_relay_parse_json(&in, text, len) : parse_module(&in);
    free(in.pointers.data);
    free(in.attrs.data);
    free(in.values.data);
    free(in.dims.data);
    free(in.scope.data);
    free(in.metadata.data);
    tmk_map_finish(&in.words);
    tmk_map_finish(&in.types);
    TMK_THEN(status, index_functions(module, diag));
    if (status != TMK_OK) {
        tmk_relay_module_destroy(&module);
        return status;
    }
    *out = module;
    return TMK_OK;
}
