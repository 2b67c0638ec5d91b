/* SPDX-License-Identifier: Apache-2.0 */
/* Relay text as a tree, with nothing of the text lost: parse -> print -> parse gives an
 * equal module. Knows the grammar, not the operators.
 *
 * Everything of a module lives in its arena. A module is used by one thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <tidemark/status.h>
#include <tidemark/tensor.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/text.h"
#include "graph/graph.h"

struct tmk_relay_expr;
struct tmk_relay_function;

struct tmk_relay_place {
    uint32_t line, column; /* from 1; column in bytes */
};

enum tmk_relay_type_kind {
    TMK_RELAY_TENSOR, /* dtype text and dims; a scalar has no dims */
    TMK_RELAY_TUPLE,
    TMK_RELAY_FUNCTION, /* items: arguments, the last is the result */
    TMK_RELAY_OTHER     /* kept as text: ADTs */
};
struct tmk_relay_type {
    enum tmk_relay_type_kind kind;
    const char *dtype;   /* as spelled: "float32", "uint1", "bool", "custom[...]" */
    const int64_t *dims; /* -1: '?' */
    struct tmk_relay_type **items;
    uint32_t n;       /* dims or items */
    const char *text; /* OTHER */
};

/* The value of an attribute. */
enum tmk_relay_attr_kind {
    TMK_RELAY_INT,
    TMK_RELAY_REAL,
    TMK_RELAY_STRING,
    TMK_RELAY_BOOL,
    TMK_RELAY_NONE,
    TMK_RELAY_LIST,  /* [...] */
    TMK_RELAY_GROUP, /* (...) */
    TMK_RELAY_MAP,   /* {...}: kept as text */
    TMK_RELAY_META,  /* meta[Key][i]: key in `s`, number in `i` */
    TMK_RELAY_NAME   /* @global, or a bare word */
};
struct tmk_relay_value {
    enum tmk_relay_attr_kind kind;
    int64_t i;     /* INT, BOOL, META */
    double real;   /* REAL */
    const char *s; /* STRING, NAME, MAP, META; of numbers the spelling with its suffix */
    struct tmk_relay_value *items;
    uint32_t n;
};
struct tmk_relay_attr {
    const char *name;
    struct tmk_relay_value value;
};

/* What a name stands for: a parameter, a free variable, `%N = ...`, `let %name = ...`. */
enum tmk_relay_binding_kind { TMK_RELAY_PARAM, TMK_RELAY_FREE, TMK_RELAY_NUMBERED, TMK_RELAY_LET };
struct tmk_relay_binding {
    enum tmk_relay_binding_kind kind;
    const char *name;               /* without '%': "0", "data"; of `e1; e2` "_" */
    struct tmk_relay_type *type;    /* declared; NULL: none */
    struct tmk_relay_type *checked; /* of its ty comment; NULL: none */
    const char *span;               /* NULL: none */
    const char *device;             /* what stands in braces behind the name; NULL: nothing */
    struct tmk_relay_expr *expr;    /* NUMBERED, LET; else NULL */
    struct tmk_relay_place place;
};

struct tmk_relay_body {
    struct tmk_relay_binding **bindings; /* FREE, NUMBERED and LET, in order */
    uint32_t n;
    struct tmk_relay_expr *result;
};

enum tmk_relay_expr_kind {
    TMK_RELAY_CONSTANT, /* a number, True, False: data is a scalar */
    TMK_RELAY_METADATA, /* meta[relay.Constant][i]: data, unless there is no metadata */
    TMK_RELAY_USE,      /* of a binding */
    TMK_RELAY_GLOBAL,   /* @name */
    TMK_RELAY_OPERATOR, /* nn.conv2d */
    TMK_RELAY_FN,
    TMK_RELAY_ITEMS,   /* a tuple: args */
    TMK_RELAY_PROJECT, /* args[0] . index */
    TMK_RELAY_CALL,    /* callee (args, attrs) */
    TMK_RELAY_IF       /* args[0] ? body : otherwise */
};
struct tmk_relay_expr {
    enum tmk_relay_expr_kind kind;
    struct tmk_relay_place place;
    struct tmk_relay_type *type; /* of its ty comment, maybe shared; NULL: none */
    bool type_twice;             /* 0.0.4 has the type of a constant twice */
    bool remark_inside;          /* CALL: the remark stands before the closing bracket */
    const char *span;            /* NULL: none */
    const char *remark;          /* another comment behind it, such as "en_id=418"; NULL: none */
    const char *text;            /* CONSTANT: its spelling; GLOBAL, OPERATOR: the name;
                                    METADATA: the key, "relay.Constant" */
    struct tmk_tensor data;      /* CONSTANT, METADATA; else "no tensor". Its buf is the module's:
                                    share it to keep it, never finish it */
    const char *dtype;           /* of data as spelled in the file (bool is "bool" or "uint1") */
    uint32_t index;              /* METADATA, PROJECT */
    uint32_t height;             /* of the tree below; at most TMK_RELAY_MAX_HEIGHT once parsed */
    struct tmk_relay_binding *binding; /* USE */
    struct tmk_relay_function *fn;     /* FN */
    struct tmk_relay_expr *callee;     /* CALL */
    struct tmk_relay_expr **args;
    uint32_t n_args;
    struct tmk_relay_attr *attrs; /* CALL; of `op(%x, meta[relay.attrs.A][0])` and of
                                     those by position, `cast(%x, "int8")`, the name is "" */
    uint32_t n_attrs;
    struct tmk_relay_body *body, *otherwise; /* IF */

    /* Set by tmk_relay_lower: the value that holds its numbers; NULL: none (tuples, functions). */
    struct tmk_value *value;
};

enum { TMK_RELAY_MAX_HEIGHT = 200 };

/* How a function stands in the text. */
enum tmk_relay_form {
    TMK_RELAY_FN_FORM,  /* `fn (...) {...}`; at the top the whole text: its name is "main" */
    TMK_RELAY_DEF_FORM, /* `def @name(...) {...}` */
    TMK_RELAY_BODY_FORM /* the whole text, with free variables: its name is "main" */
};
struct tmk_relay_function {
    enum tmk_relay_form form;
    const char *name;        /* of a definition, without '@'; "" of an inner one */
    const char *type_params; /* what stands in [] behind the name; NULL: nothing */
    struct tmk_relay_binding **params;
    uint32_t n_params;
    struct tmk_relay_attr *attrs;
    uint32_t n_attrs;
    struct tmk_relay_type *result; /* NULL: not declared */
    struct tmk_relay_body body;
    struct tmk_relay_place place;
};

struct tmk_relay_constant {
    struct tmk_tensor data;
    const char *dtype; /* as spelled in the file */
};

struct tmk_relay_module {
    struct tmk_arena arena;
    uint32_t version[3]; /* 0.0.4, 0.0.5; all 0: there was no header */
    struct tmk_relay_function **functions;
    uint32_t n_functions;
    struct tmk_map by_name; /* the functions of a module that was read; else empty */
    bool has_metadata;      /* a section was there; without it METADATA expressions have no data */
    const char *section;    /* its JSON, where it holds more than constants; else NULL */
    struct tmk_relay_constant *constants; /* of the section, in order; METADATA share them */
    uint32_t n_constants;
    size_t constants_size;
    struct tmk_relay_pool *pool; /* of scalars */
};

/* Parses text (`len` bytes, hostile). Failures are TMK_FORMAT "name:line:column: what". Nesting is
 * limited; memory is at most a small multiple of the text. The graph executor's JSON
 * and tvm.ir.save_json's are read too. End with tmk_relay_module_destroy. */
enum tmk_status tmk_relay_parse(const char *text, size_t len, const char *name,
                                struct tmk_relay_module **out, struct tmk_diag *diag);
/* An empty module of version 0.0.5, to be filled. */
enum tmk_status tmk_relay_module_create(struct tmk_relay_module **out, struct tmk_diag *diag);
void tmk_relay_module_destroy(struct tmk_relay_module **module);
/* Shares the tensor. `dtype` is kept as it is. */
enum tmk_status tmk_relay_add_constant(struct tmk_relay_module *module,
                                       const struct tmk_tensor *data, const char *dtype,
                                       struct tmk_diag *diag);
/* The scalar of an expression: `value` is one element of `dtype`. Kept by the module. */
enum tmk_status tmk_relay_scalar(struct tmk_relay_module *module, enum tmk_dtype dtype,
                                 const void *value, struct tmk_tensor *out, struct tmk_diag *diag);
/* TVM's name of an element type ("uint1" is bool too); TMK_UNDEFINED: Tidemark has no such type. */
enum tmk_dtype tmk_relay_dtype(const char *name);
/* Appends the module as astext() would write it, in its own version's spelling (0.0.5 where it has
 * none), with the metadata section. Deterministic. */
enum tmk_status tmk_relay_print(const struct tmk_relay_module *module, struct tmk_text *out,
                                struct tmk_diag *diag);
/* NULL equals NULL only. */
bool tmk_relay_type_equal(const struct tmk_relay_type *a, const struct tmk_relay_type *b);
/* The function of that name, or NULL. */
struct tmk_relay_function *tmk_relay_function(const struct tmk_relay_module *module,
                                              const char *name);

/* ---- params ---- */

struct tmk_relay_param {
    const char *name;
    const char
        *dtype; /* as TVM spells it: "float32", "int8", "bool" ("uint1"), "bfloat16", "float32x4" */
    struct tmk_tensor tensor; /* dtype TMK_UNDEFINED where Tidemark has no such type: the bytes are
                                 kept, and only written again */
    const void *bytes;        /* as in the file */
    size_t n_bytes;
    uint8_t code, bits;
    uint16_t lanes;
    int32_t device_type, device_id;
    int32_t rank;
    const int64_t *dims;
};
struct tmk_relay_params {
    struct tmk_arena arena;
    struct tmk_relay_param *items; /* in the order of the file; their tensors finished by destroy */
    uint32_t n, size;
};
enum tmk_status tmk_relay_params_create(struct tmk_relay_params **out, struct tmk_diag *diag);
/* Appends a tensor, which it shares. TMK_TYPE where TVM has no such element type. The caller sees
 * to it that no two have one name. */
enum tmk_status tmk_relay_params_add(struct tmk_relay_params *params, const char *name,
                                     const struct tmk_tensor *tensor, struct tmk_diag *diag);
/* relay.save_param_dict's bytes: hostile; TMK_FORMAT "name: byte N: what". */
enum tmk_status tmk_relay_params_read(const char *path, struct tmk_relay_params **out,
                                      struct tmk_diag *diag);
enum tmk_status tmk_relay_params_parse(const void *bytes, size_t len, const char *name,
                                       struct tmk_relay_params **out, struct tmk_diag *diag);
/* The same bytes again for what was read. */
enum tmk_status tmk_relay_params_print(const struct tmk_relay_params *params, struct tmk_text *out,
                                       struct tmk_diag *diag);
void tmk_relay_params_destroy(struct tmk_relay_params **params);
/* By exact name, then by the name with the "v" that TVM puts before names that begin with no
 * letter; NULL. */
const struct tmk_relay_param *tmk_relay_params_find(const struct tmk_relay_params *params,
                                                    const char *name);

/* One digit at least, and nothing else. */
static inline bool tmk_relay_is_digits(const char *text) {
    return text[0] && !text[strspn(text, "0123456789")];
}
