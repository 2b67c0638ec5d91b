/* SPDX-License-Identifier: Apache-2.0 */
/* Whether two Relay modules are equal. */
#include "relay_equal.h"

#include <inttypes.h>
#include <string.h>

#include "base/diag.h"
#include "base/map.h"

struct comparison {
    bool names;
    struct tmk_ptrmap twins; /* bindings of a -> those of b */
    struct tmk_relay_place place;
    struct tmk_diag *why;
};

static bool differ(struct comparison *of, const char *what) {
    tmk_diag_set(of->why, TMK_MISMATCH, "%" PRIu32 ":%" PRIu32 ": %s", of->place.line,
                 of->place.column, what);
    return false;
}

static bool same_text(const char *a, const char *b) {
    return a && b ? !strcmp(a, b) : a == b;
}

/* Spellings do not count: 1e-05f is 0.00001f. */
static bool same_value(const struct tmk_relay_value *a, const struct tmk_relay_value *b) {
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case TMK_RELAY_INT:
    case TMK_RELAY_BOOL:
        return a->i == b->i;
    case TMK_RELAY_REAL:
        return !memcmp(&a->real, &b->real, sizeof a->real);
    case TMK_RELAY_NONE:
        return true;
    case TMK_RELAY_META:
        return a->i == b->i && !strcmp(a->s, b->s);
    case TMK_RELAY_STRING:
    case TMK_RELAY_MAP:
    case TMK_RELAY_NAME:
        return !strcmp(a->s, b->s);
    case TMK_RELAY_LIST:
    case TMK_RELAY_GROUP:
        break;
    }
    if (a->n != b->n)
        return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (!same_value(&a->items[i], &b->items[i]))
            return false;
    return true;
}

static bool same_attrs(struct comparison *of, const struct tmk_relay_attr *a, uint32_t n_a,
                       const struct tmk_relay_attr *b, uint32_t n_b) {
    if (n_a != n_b)
        return differ(of, "other attributes");
    for (uint32_t i = 0; i < n_a; i++)
        if (strcmp(a[i].name, b[i].name) != 0 || !same_value(&a[i].value, &b[i].value))
            return differ(of, "another attribute");
    return true;
}

static bool same_data(const struct tmk_tensor *a, const struct tmk_tensor *b) {
    if (!a->data || !b->data)
        return a->data == b->data;
    return a->dtype == b->dtype && tmk_shape_equal(&a->shape, &b->shape) &&
           !memcmp(a->data, b->data, tmk_tensor_bytes(a));
}

static bool same_expr(struct comparison *of, const struct tmk_relay_expr *a,
                      const struct tmk_relay_expr *b);
static bool same_function(struct comparison *of, const struct tmk_relay_function *a,
                          const struct tmk_relay_function *b);

static bool same_binding(struct comparison *of, struct tmk_relay_binding *a,
                         struct tmk_relay_binding *b) {
    of->place = a->place;
    if (a->kind != b->kind || !tmk_relay_type_equal(a->type, b->type) ||
        !same_text(a->device, b->device) || !a->expr != !b->expr)
        return differ(of, "another binding");
    if (of->names &&
        (strcmp(a->name, b->name) != 0 || !tmk_relay_type_equal(a->checked, b->checked) ||
         !same_text(a->span, b->span)))
        return differ(of, "another name or comment");
    if (!tmk_ptrmap_put(&of->twins, a, b)) {
        tmk_diag_set(of->why, TMK_NOMEM, "out of memory");
        return false;
    }
    return !a->expr || same_expr(of, a->expr, b->expr);
}

static bool same_bindings(struct comparison *of, struct tmk_relay_binding *const *a, uint32_t n_a,
                          struct tmk_relay_binding *const *b, uint32_t n_b) {
    if (n_a != n_b)
        return differ(of, "another number of bindings");
    for (uint32_t i = 0; i < n_a; i++)
        if (!same_binding(of, a[i], b[i]))
            return false;
    return true;
}

static bool same_body(struct comparison *of, const struct tmk_relay_body *a,
                      const struct tmk_relay_body *b) {
    return same_bindings(of, a->bindings, a->n, b->bindings, b->n) &&
           same_expr(of, a->result, b->result);
}

/* What depends on the kind of the expression; the caller compares its args. */
static bool same_kind(struct comparison *of, const struct tmk_relay_expr *a,
                      const struct tmk_relay_expr *b) {
    switch (a->kind) {
    case TMK_RELAY_CONSTANT:
        return same_data(&a->data, &b->data) || differ(of, "another constant");
    case TMK_RELAY_METADATA:
        return (a->index == b->index && same_text(a->text, b->text) &&
                same_data(&a->data, &b->data)) ||
               differ(of, "another constant");
    case TMK_RELAY_USE:
        return tmk_ptrmap_get(&of->twins, a->binding) == b->binding ||
               differ(of, "another variable");
    case TMK_RELAY_GLOBAL:
    case TMK_RELAY_OPERATOR:
        return !strcmp(a->text, b->text) || differ(of, "another operator");
    case TMK_RELAY_FN:
        return same_function(of, a->fn, b->fn);
    case TMK_RELAY_ITEMS:
        return true;
    case TMK_RELAY_PROJECT:
        return a->index == b->index || differ(of, "another item of a tuple");
    case TMK_RELAY_CALL:
        return same_expr(of, a->callee, b->callee) &&
               same_attrs(of, a->attrs, a->n_attrs, b->attrs, b->n_attrs);
    case TMK_RELAY_IF:
        return same_body(of, a->body, b->body) && same_body(of, a->otherwise, b->otherwise);
    }
    return false;
}

static bool same_expr(struct comparison *of, const struct tmk_relay_expr *a,
                      const struct tmk_relay_expr *b) {
    of->place = a->place;
    if (a->kind != b->kind)
        return differ(of, "another kind of expression");
    if (of->names && (!tmk_relay_type_equal(a->type, b->type) || a->type_twice != b->type_twice ||
                      !same_text(a->span, b->span) || !same_text(a->remark, b->remark)))
        return differ(of, "another comment");
    if (a->n_args != b->n_args)
        return differ(of, "another number of arguments");
    for (uint32_t i = 0; i < a->n_args; i++)
        if (!same_expr(of, a->args[i], b->args[i]))
            return false;
    return same_kind(of, a, b);
}

static bool same_function(struct comparison *of, const struct tmk_relay_function *a,
                          const struct tmk_relay_function *b) {
    of->place = a->place;
    if (a->form != b->form || strcmp(a->name, b->name) != 0 ||
        !same_text(a->type_params, b->type_params) || !tmk_relay_type_equal(a->result, b->result))
        return differ(of, "another function");
    return same_bindings(of, a->params, a->n_params, b->params, b->n_params) &&
           same_attrs(of, a->attrs, a->n_attrs, b->attrs, b->n_attrs) &&
           same_body(of, &a->body, &b->body);
}

/* No header means the last version. */
static uint32_t version_of(const struct tmk_relay_module *module) {
    return module->version[2] ? module->version[2] : 5;
}

static bool same_module(struct comparison *of, const struct tmk_relay_module *a,
                        const struct tmk_relay_module *b) {
    if (version_of(a) != version_of(b))
        return differ(of, "another version of the text");
    if (a->has_metadata != b->has_metadata || a->n_constants != b->n_constants ||
        !same_text(a->section, b->section))
        return differ(of, "other metadata");
    for (uint32_t i = 0; i < a->n_constants; i++)
        if (!same_data(&a->constants[i].data, &b->constants[i].data))
            return differ(of, "other metadata");
    if (a->n_functions != b->n_functions)
        return differ(of, "another number of functions");
    for (uint32_t i = 0; i < a->n_functions; i++)
        if (!same_function(of, a->functions[i], b->functions[i]))
            return false;
    return true;
}

bool relay_equal(const struct tmk_relay_module *a, const struct tmk_relay_module *b, bool names,
                 struct tmk_diag *why) {
    struct comparison of = {.names = names, .why = why};
    bool same = same_module(&of, a, b);
    tmk_ptrmap_finish(&of.twins);
    return same;
}
