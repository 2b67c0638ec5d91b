/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the reader of Relay text: tokens one at a time, and what its parts share. */
#pragma once

#include "base/map.h"
#include "relay/ast.h"

enum {
    RELAY_MAX_NAME = 1024,
    RELAY_MAX_PARTS = 1 << 22 /* expressions, attributes, types: bounds the tree's memory */
};

/* Signs are their own character. */
enum tmk_relay_token_kind {
    RELAY_END = 256,
    RELAY_NUMBER, /* without its minus */
    RELAY_STRING, /* between its quotes, as it stands */
    RELAY_WORD,   /* nn.conv2d, True, fn, ... */
    RELAY_NUMBERED,
    RELAY_LOCAL,
    RELAY_GLOBAL,
    RELAY_META, /* the key */
    RELAY_ARROW,
    RELAY_EQUAL,
    RELAY_UNEQUAL,
    RELAY_AT_MOST,
    RELAY_AT_LEAST
};
struct tmk_relay_token {
    int kind;
    const char *at; /* its text without '%', '@', quotes */
    size_t len;
    uint32_t index; /* META */
    struct tmk_relay_place place;
};

/* A name of the text, once, and what it stands for now. */
struct tmk_relay_word {
    struct tmk_relay_binding *binding;
    size_t bound;    /* where in the reader's `scope` */
    bool defined;    /* is it the name of a function? */
    uint32_t copies; /* names that were made of it by a counter */
    char text[];
};

/* Things of one size that are not counted yet. */
struct tmk_relay_stack {
    char *data;
    size_t used, size, element;
};

struct tmk_relay_reader {
    const char *name;
    const char *at, *end; /* behind the token */
    const char *line_begin;
    uint32_t line;
    struct tmk_relay_token token; /* not consumed yet */
    const char *gap, *gap_end;    /* between the consumed token and it: it begins at the end */
    bool comments;                /* the gap has some that were not taken */
    uint32_t depth, parts;
    struct tmk_relay_module *module;
    struct tmk_map words, types;
    struct tmk_relay_stack pointers, attrs, values, dims, scope, metadata;
    char key[RELAY_MAX_NAME + 1];
    struct tmk_diag *diag;
};

/* ---- lex.c ---- */

/* Reads the next token. */
enum tmk_status tmk_relay_next(struct tmk_relay_reader *in);
/* Reads the token anew from `at`, which is on the line of the one that is not consumed yet. */
enum tmk_status tmk_relay_again(struct tmk_relay_reader *in, const char *at);
/* Consumes the sign; an error has what was expected. */
enum tmk_status tmk_relay_need(struct tmk_relay_reader *in, int kind, const char *what);
/* Consumes the sign where it stands; *out: whether it did. */
enum tmk_status tmk_relay_take(struct tmk_relay_reader *in, int kind, bool *out);
bool tmk_relay_is(const struct tmk_relay_reader *in, const char *word);
/* Does '=', and not "==", follow the token? */
bool tmk_relay_before_equals(const struct tmk_relay_reader *in);
/* Consumes brackets with all that they hold; their inside is *begin to *end. */
enum tmk_status tmk_relay_balanced(struct tmk_relay_reader *in, const char **begin,
                                   const char **end);
/* TMK_FORMAT at a place. Macros, so that compilers see which status it is. */
void tmk_relay_report(struct tmk_relay_reader *in, struct tmk_relay_place place, const char *fmt,
                      ...) TMK_PRINTF(3, 4);
#define tmk_relay_fail(in, ...) (tmk_relay_report(in, __VA_ARGS__), TMK_FORMAT)
/* "expected `what`, found ..." at the token. */
void tmk_relay_report_expected(struct tmk_relay_reader *in, const char *what);
#define tmk_relay_expected(in, what) (tmk_relay_report_expected(in, what), TMK_FORMAT)

/* ---- parse.c: what the parts need of each other ---- */

/* Counts a level or a part; fails beyond the limits. Leave a level by `depth--`. */
enum tmk_status tmk_relay_enter(struct tmk_relay_reader *in);
enum tmk_status tmk_relay_part(struct tmk_relay_reader *in);
enum tmk_status tmk_relay_push(struct tmk_relay_reader *in, struct tmk_relay_stack *stack,
                               const void *element);
/* Moves what stands above `base` into the arena. */
enum tmk_status tmk_relay_pop(struct tmk_relay_reader *in, struct tmk_relay_stack *stack,
                              size_t base, void *array, uint32_t *n);
enum tmk_status tmk_relay_word(struct tmk_relay_reader *in, const char *at, size_t len,
                               struct tmk_relay_word **out);
/* The same, as a text that lives as long as the module. */
enum tmk_status tmk_relay_name(struct tmk_relay_reader *in, const char *at, size_t len,
                               const char **out);
enum tmk_status tmk_relay_copy(struct tmk_relay_reader *in, const char *at, size_t len,
                               const char **out);
/* The parameters and body of a function behind its name or `fn`. */
enum tmk_status tmk_relay_parse_function(struct tmk_relay_reader *in, struct tmk_relay_function *fn,
                                         uint32_t *height);
/* Bindings and the result, up to the bracket behind them. */
enum tmk_status tmk_relay_parse_body(struct tmk_relay_reader *in, struct tmk_relay_body *body,
                                     uint32_t *height);
/* The same in braces. */
enum tmk_status tmk_relay_parse_block(struct tmk_relay_reader *in, struct tmk_relay_body *body,
                                      uint32_t *height);

/* ---- types.c ---- */

enum tmk_status tmk_relay_parse_type(struct tmk_relay_reader *in, struct tmk_relay_type **out);

/* ---- remarks.c ---- */

/* Contents of the comments behind something; members that they do not have stay. */
struct tmk_relay_remarks {
    struct tmk_relay_type *type;
    bool type_twice;
    const char *span, *remark;
};
/* Takes the comments before the token; where `types` is false, all are remarks. */
enum tmk_status tmk_relay_take_remarks(struct tmk_relay_reader *in, bool types,
                                       struct tmk_relay_remarks *remarks);

/* ---- values.c ---- */

/* A number of the text. */
struct tmk_relay_number {
    const char *text; /* the spelling, in the module */
    char suffix;      /* 'f', 'i' or 0 */
    unsigned width;   /* 0: none */
    bool integer;     /* and `i` holds it */
    int64_t i;
    double real;
};
/* Is the token the beginning of a number? */
bool tmk_relay_at_number(const struct tmk_relay_reader *in);
enum tmk_status tmk_relay_parse_number(struct tmk_relay_reader *in, struct tmk_relay_number *out);
/* The scalar of that number; `type` (NULL: none) is from a comment. */
enum tmk_status tmk_relay_number_data(struct tmk_relay_reader *in,
                                      const struct tmk_relay_number *number,
                                      struct tmk_relay_place place,
                                      const struct tmk_relay_type *type,
                                      struct tmk_relay_expr *expr);
/* `name = value`, pushed onto `attrs`; with a name given, the value alone. */
enum tmk_status tmk_relay_parse_attr(struct tmk_relay_reader *in, const char *name);

/* ---- exprs.c ---- */

/* Allocates what `to` points at, in the module; returns from the calling function without memory.
 */
#define TMK_RELAY_NEW(in, to)                                                                      \
    TMK_TRY_ALLOC((to) = tmk_arena_alloc(&(in)->module->arena, sizeof *(to)), (in)->diag)
enum tmk_status tmk_relay_new_expr(struct tmk_relay_reader *in, enum tmk_relay_expr_kind kind,
                                   struct tmk_relay_place place, struct tmk_relay_expr **out);
enum tmk_status tmk_relay_parse_expr(struct tmk_relay_reader *in, struct tmk_relay_expr **out);

/* ---- nodes.c ---- */

/* The JSON behind the functions; sets the module's constants. */
enum tmk_status tmk_relay_parse_section(struct tmk_relay_reader *in, const char *json, size_t len);
/* ---- graph_json.c ---- */

/* The graph executor's JSON, for tmk_relay_parse: hostile. Nodes without inputs are parameters of
 * @main; kernels are calls whose span is the kernel's name. Those that are not plain operators are
 * TMK_UNSUPPORTED, all in one line; else failures are TMK_FORMAT "name: node N: what". */
enum tmk_status tmk_relay_parse_graph(const char *text, size_t len, const char *name,
                                      struct tmk_relay_module **out, struct tmk_diag *diag);
