/* SPDX-License-Identifier: Apache-2.0 */
/* Modules as Relay text, the way astext() writes them. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/diag.h"
#include "relay/ast.h"
#include "relay/base64.h"
#include "relay/record.h"

/* ---- types and attributes ---- */

static void print_type(struct tmk_text *out, const struct tmk_relay_type *type);

static void print_types(struct tmk_text *out, struct tmk_relay_type *const *items, uint32_t n,
                        bool tuple) {
    tmk_text_puts(out, "(");
    for (uint32_t i = 0; i < n; i++) {
        tmk_text_puts(out, i ? ", " : "");
        print_type(out, items[i]);
    }
    tmk_text_puts(out, tuple && n == 1 ? ",)" : ")");
}

static void print_tensor(struct tmk_text *out, const struct tmk_relay_type *type) {
    if (!type->n) {
        tmk_text_puts(out, type->dtype);
        return;
    }
    tmk_text_puts(out, "Tensor[(");
    for (uint32_t i = 0; i < type->n; i++) {
        tmk_text_puts(out, i ? ", " : "");
        if (type->dims[i] < 0)
            tmk_text_puts(out, "?");
        else
            tmk_text_printf(out, "%" PRId64, type->dims[i]);
    }
    tmk_text_printf(out, "), %s]", type->dtype);
}

static void print_type(struct tmk_text *out, const struct tmk_relay_type *type) {
    switch (type->kind) {
    case TMK_RELAY_TENSOR:
        print_tensor(out, type);
        break;
    case TMK_RELAY_TUPLE:
        print_types(out, type->items, type->n, true);
        break;
    case TMK_RELAY_FUNCTION:
        tmk_text_puts(out, "fn ");
        print_types(out, type->items, type->n - 1, false);
        tmk_text_puts(out, " -> ");
        print_type(out, type->items[type->n - 1]);
        break;
    case TMK_RELAY_OTHER:
        tmk_text_puts(out, type->text);
        break;
    }
}

static void print_string(struct tmk_text *out, const char *text) {
    static const char plain[] = "\\\"\n\t\r", escapes[] = "\\\"ntr";
    tmk_text_puts(out, "\"");
    for (const char *at = text; *at;) {
        size_t run = strcspn(at, plain);
        tmk_text_append(out, at, run);
        at += run;
        if (*at)
            tmk_text_append(out, (char[]){'\\', escapes[strchr(plain, *at++) - plain]}, 2);
    }
    tmk_text_puts(out, "\"");
}

/* Doubles of attributes have an f too, though they are none, in 0.0.5. */
static void print_real(struct tmk_text *out, double value, const char *suffix) {
    char digits[32];
    if (isfinite(value))
        tmk_format_double(value, digits);
    tmk_text_printf(out, "%s%s",
                    isfinite(value) ? digits
                    : isnan(value)  ? "nan"
                    : value < 0     ? "-inf"
                                    : "inf",
                    suffix);
}

static void print_value(struct tmk_text *out, const struct tmk_relay_value *value, bool old) {
    const bool number = value->kind == TMK_RELAY_INT || value->kind == TMK_RELAY_REAL;
    if (number && value->s) {
        tmk_text_puts(out, value->s);
        return;
    }
    switch (value->kind) {
    case TMK_RELAY_INT:
        tmk_text_printf(out, "%" PRId64, value->i);
        break;
    case TMK_RELAY_REAL:
        print_real(out, value->real, old ? "" : "f");
        break;
    case TMK_RELAY_STRING:
        print_string(out, value->s);
        break;
    case TMK_RELAY_BOOL:
        tmk_text_puts(out, value->i ? "True" : "False");
        break;
    case TMK_RELAY_NONE:
        tmk_text_puts(out, "None");
        break;
    case TMK_RELAY_LIST:
    case TMK_RELAY_GROUP: {
        bool group = value->kind == TMK_RELAY_GROUP;
        tmk_text_puts(out, group ? "(" : "[");
        for (uint32_t i = 0; i < value->n; i++) {
            tmk_text_puts(out, i ? ", " : "");
            print_value(out, &value->items[i], old);
        }
        tmk_text_puts(out, !group ? "]" : value->n == 1 ? ",)" : ")");
        break;
    }
    case TMK_RELAY_META:
        tmk_text_printf(out, "meta[%s][%" PRId64 "]", value->s, value->i);
        break;
    case TMK_RELAY_MAP:
    case TMK_RELAY_NAME:
        tmk_text_puts(out, value->s);
        break;
    }
}

static void print_attr(struct tmk_text *out, const struct tmk_relay_attr *attr, bool old) {
    if (attr->name[0])
        tmk_text_printf(out, "%s=", attr->name);
    print_value(out, &attr->value, old);
}

/* ---- the metadata section: TVM's JSON of objects, as version 0.14 lays it out ---- */

/* Nodes 0 to 2 are null, the map of keys and the list of constants; the first constant is followed
 * by what all of them share: the device that is not chosen yet (0.0.4 had none). */
enum { FIRST = 3, DEVICE = 4, SHARED = 2 };

static uint32_t node_of(uint32_t constant, bool old) {
    return FIRST + constant + (constant && !old ? SHARED : 0);
}

static enum tmk_status print_array(struct tmk_text *out, const struct tmk_tensor *tensor,
                                   struct tmk_diag *diag) {
    struct tmk_arena arena = {0};
    struct tmk_relay_param param = {0};
    struct tmk_text record = {0};
    enum tmk_status status = tmk_relay_record_make(tensor, &arena, &param, diag);
    if (status == TMK_OK) {
        tmk_relay_record_print(&record, &param);
        tmk_text_puts(out, "\n    \"");
        tmk_base64_print(out, record.data, record.len);
        tmk_text_puts(out, "\"");
        out->failed |= record.failed;
    }
    tmk_tensor_finish(&param.tensor);
    tmk_text_finish(&record);
    tmk_arena_finish(&arena);
    return status;
}

static enum tmk_status print_section(const struct tmk_relay_module *module, bool old,
                                     struct tmk_text *out, struct tmk_diag *diag) {
    if (module->section) {
        tmk_text_puts(out, module->section);
        return TMK_OK;
    }
    tmk_text_puts(out,
                  "\n{\n  \"root\": 1, \n  \"nodes\": [\n    {\n      \"type_key\": \"\"\n    }"
                  ", \n    {\n      \"type_key\": \"Map\", \n      \"keys\": [\n"
                  "        \"relay.Constant\"\n      ], \n      \"data\": [2]\n    }, \n    {\n"
                  "      \"type_key\": \"Array\", \n      \"data\": [");
    for (uint32_t i = 0; i < module->n_constants; i++)
        tmk_text_printf(out, "%s%" PRIu32, i ? ", " : "", node_of(i, old));
    tmk_text_puts(out, "]\n    }");
    for (uint32_t i = 0; i < module->n_constants; i++) {
        tmk_text_printf(out,
                        ", \n    {\n      \"type_key\": \"relay.Constant\", \n      \"attrs\": {\n"
                        "        \"_checked_type_\": \"0\", \n        \"data\": \"%" PRIu32 "\", \n"
                        "        \"span\": \"0\"",
                        i);
        if (!old)
            tmk_text_printf(out, ", \n        \"virtual_device_\": \"%d\"", DEVICE);
        tmk_text_puts(out, "\n      }\n    }");
        if (!old && !i)
            tmk_text_printf(
                out,
                ", \n    {\n      \"type_key\": \"VirtualDevice\", \n      \"attrs\": {\n"
                "        \"device_type_int\": \"-1\", \n        \"memory_scope\": \"%d\", \n"
                "        \"target\": \"0\", \n        \"virtual_device_id\": \"-1\"\n"
                "      }\n    }, \n    {\n      \"type_key\": \"runtime.String\"\n    }",
                DEVICE + 1);
    }
    tmk_text_puts(out, "\n  ], \n  \"b64ndarrays\": [");
    for (uint32_t i = 0; i < module->n_constants; i++) {
        tmk_text_puts(out, i ? ", " : "");
        TMK_TRY(tmk_in(diag, print_array(out, &module->constants[i].data, diag),
                       "meta[relay.Constant][%" PRIu32 "]", i));
    }
    tmk_text_printf(out, "\n  ], \n  \"attrs\": {\"tvm_version\": \"%s\"}\n}",
                    old ? "0.6.0" : "0.14.0");
    return TMK_OK;
}

/* ---- modules ---- */

struct printer {
    struct tmk_text *out;
    bool old;    /* of version 0.0.4 or before */
    bool refers; /* to metadata */
    uint32_t depth, indent;
    struct tmk_diag *diag;
};

static enum tmk_status print_expr(struct printer *to, const struct tmk_relay_expr *expr);
static enum tmk_status print_function(struct printer *to, const struct tmk_relay_function *fn);

static void put_new_line(struct printer *to) {
    tmk_text_printf(to->out, "\n%*s", (int)(2 * to->indent), "");
}

static void print_comments(struct printer *to, const struct tmk_relay_type *type, const char *span,
                           bool twice) {
    if (!type && !span)
        return;
    for (int i = 0; i < 1 + twice; i++) {
        tmk_text_puts(to->out, type ? " /* ty=" : " /*");
        if (type)
            print_type(to->out, type);
        if (span && !i)
            tmk_text_printf(to->out, " span=%s", span);
        tmk_text_puts(to->out, " */");
    }
}

/* ---- names ---- */

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Modules that were built may have names that the text cannot hold. */
static enum tmk_status print_name(struct printer *to, const struct tmk_relay_binding *binding) {
    const char *name = binding->name;
    bool good =
        binding->kind == TMK_RELAY_NUMBERED ? tmk_relay_is_digits(name) : is_letter(name[0]);
    for (const char *at = name; *at && good; at++)
        good = is_letter(*at) || (*at >= '0' && *at <= '9') || strchr("/.:$-", *at);
    if (!good)
        return tmk_fail(to->diag, TMK_FORMAT, "Relay text can't hold the name '%%%s'", name);
    tmk_text_printf(to->out, "%%%s", name);
    return TMK_OK;
}

/* ---- bodies ---- */

static enum tmk_status print_declared(struct printer *to, const struct tmk_relay_binding *binding) {
    TMK_TRY(print_name(to, binding));
    if (binding->device)
        tmk_text_printf(to->out, " {%s}", binding->device);
    if (binding->type) {
        tmk_text_puts(to->out, ": ");
        print_type(to->out, binding->type);
    }
    print_comments(to, binding->checked, binding->span, false);
    return TMK_OK;
}

static enum tmk_status print_body(struct printer *to, const struct tmk_relay_body *body) {
    for (uint32_t i = 0; i < body->n; i++) {
        const struct tmk_relay_binding *binding = body->bindings[i];
        const bool numbered = binding->kind == TMK_RELAY_NUMBERED;
        if (binding->kind == TMK_RELAY_PARAM)
            return tmk_fail(to->diag, TMK_FORMAT, "parameter %%%s stands in a body", binding->name);
        if (!numbered)
            tmk_text_puts(to->out, binding->kind == TMK_RELAY_FREE ? "free_var " : "let ");
        TMK_TRY(numbered ? print_name(to, binding) : print_declared(to, binding));
        if (binding->kind != TMK_RELAY_FREE) {
            tmk_text_puts(to->out, " = ");
            TMK_TRY(print_expr(to, binding->expr));
        }
        tmk_text_puts(to->out, ";");
        put_new_line(to);
    }
    return print_expr(to, body->result);
}

static enum tmk_status print_enclosed(struct printer *to, const char *open,
                                      const struct tmk_relay_body *body, const char *close) {
    tmk_text_puts(to->out, open);
    to->indent++;
    put_new_line(to);
    TMK_TRY(print_body(to, body));
    to->indent--;
    put_new_line(to);
    tmk_text_puts(to->out, close);
    return TMK_OK;
}

/* ---- expressions ---- */

static enum tmk_status print_list(struct printer *to, const struct tmk_relay_expr *expr) {
    for (uint32_t i = 0; i < expr->n_args; i++) {
        tmk_text_puts(to->out, i ? ", " : "");
        TMK_TRY(print_expr(to, expr->args[i]));
    }
    return TMK_OK;
}

/* In brackets where "(...)" or ".0" behind it would belong to its end. */
static enum tmk_status print_operand(struct printer *to, const struct tmk_relay_expr *expr) {
    bool bare = expr->kind == TMK_RELAY_USE || expr->kind == TMK_RELAY_CALL ||
                expr->kind == TMK_RELAY_PROJECT || expr->kind == TMK_RELAY_GLOBAL ||
                expr->kind == TMK_RELAY_OPERATOR || expr->kind == TMK_RELAY_METADATA ||
                expr->kind == TMK_RELAY_ITEMS;
    tmk_text_puts(to->out, bare ? "" : "(");
    TMK_TRY(print_expr(to, expr));
    tmk_text_puts(to->out, bare ? "" : ")");
    return TMK_OK;
}

/* Is it a function without parameters that is called at once? */
static bool is_scope(const struct tmk_relay_expr *call) {
    const struct tmk_relay_expr *callee = call->callee;
    return callee->kind == TMK_RELAY_FN && !call->n_args && !call->n_attrs &&
           !call->remark_inside && callee->fn->body.n &&
           callee->fn->body.bindings[0]->kind != TMK_RELAY_FREE && !callee->fn->n_params &&
           !callee->fn->n_attrs && !callee->fn->result && !callee->fn->type_params &&
           !callee->type && !callee->span && !callee->remark;
}

static enum tmk_status print_kind(struct printer *to, const struct tmk_relay_expr *expr) {
    switch (expr->kind) {
    case TMK_RELAY_CONSTANT:
        tmk_text_puts(to->out, expr->text);
        return TMK_OK;
    case TMK_RELAY_METADATA:
        to->refers = true;
        tmk_text_printf(to->out, "meta[%s][%" PRIu32 "]",
                        expr->text ? expr->text : "relay.Constant", expr->index);
        return TMK_OK;
    case TMK_RELAY_USE:
        return print_name(to, expr->binding);
    case TMK_RELAY_GLOBAL:
        tmk_text_printf(to->out, "@%s", expr->text);
        return TMK_OK;
    case TMK_RELAY_OPERATOR:
        tmk_text_puts(to->out, expr->text);
        return TMK_OK;
    case TMK_RELAY_FN:
        tmk_text_puts(to->out, "fn ");
        return print_function(to, expr->fn);
    case TMK_RELAY_ITEMS:
        tmk_text_puts(to->out, "(");
        TMK_TRY(print_list(to, expr));
        tmk_text_puts(to->out, expr->n_args == 1 ? ",)" : ")");
        return TMK_OK;
    case TMK_RELAY_PROJECT:
        TMK_TRY(print_operand(to, expr->args[0]));
        tmk_text_printf(to->out, ".%" PRIu32, expr->index);
        return TMK_OK;
    case TMK_RELAY_CALL: {
        if (is_scope(expr))
            return print_enclosed(to, "(", &expr->callee->fn->body, ")");
        TMK_TRY(print_operand(to, expr->callee));
        tmk_text_puts(to->out, "(");
        TMK_TRY(print_list(to, expr));
        const char *comma = expr->n_args ? ", " : "";
        for (uint32_t i = 0; i < expr->n_attrs; i++) {
            tmk_text_puts(to->out, comma);
            comma = ", ";
            print_attr(to->out, &expr->attrs[i], to->old);
            to->refers |= expr->attrs[i].value.kind == TMK_RELAY_META;
        }
        if (expr->remark && expr->remark_inside)
            tmk_text_printf(to->out, "%s/* %s */", comma, expr->remark);
        tmk_text_puts(to->out, ")");
        return TMK_OK;
    }
    case TMK_RELAY_IF: {
        tmk_text_puts(to->out, "if (");
        TMK_TRY(print_expr(to, expr->args[0]));
        tmk_text_puts(to->out, ") ");
        TMK_TRY(print_enclosed(to, "{", expr->body, "} else "));
        return print_enclosed(to, "{", expr->otherwise, "}");
    }
    }
    return TMK_OK;
}

static enum tmk_status print_expr(struct printer *to, const struct tmk_relay_expr *expr) {
    if (to->depth > TMK_RELAY_MAX_HEIGHT)
        return tmk_fail(to->diag, TMK_RANGE, "an expression nests more than %d deep",
                        TMK_RELAY_MAX_HEIGHT);
    to->depth++;
    TMK_TRY(print_kind(to, expr));
    to->depth--;
    print_comments(to, expr->type, expr->span, expr->type_twice);
    if (expr->remark && !expr->remark_inside)
        tmk_text_printf(to->out, " /* %s */", expr->remark);
    return TMK_OK;
}

/* ---- functions ---- */

/* What stands behind `def @name` or `fn `. */
static enum tmk_status print_function(struct printer *to, const struct tmk_relay_function *fn) {
    if (fn->type_params)
        tmk_text_printf(to->out, "[%s]", fn->type_params);
    tmk_text_puts(to->out, "(");
    for (uint32_t i = 0; i < fn->n_params; i++) {
        tmk_text_puts(to->out, i ? ", " : "");
        TMK_TRY(print_declared(to, fn->params[i]));
    }
    for (uint32_t i = 0; i < fn->n_attrs; i++) {
        tmk_text_puts(to->out, i || fn->n_params ? ", " : "");
        print_attr(to->out, &fn->attrs[i], to->old);
        to->refers |= fn->attrs[i].value.kind == TMK_RELAY_META;
    }
    tmk_text_puts(to->out, ") ");
    if (fn->result) {
        tmk_text_puts(to->out, "-> ");
        print_type(to->out, fn->result);
        tmk_text_puts(to->out, " ");
    }
    return print_enclosed(to, "{", &fn->body, "}");
}

enum tmk_status tmk_relay_print(const struct tmk_relay_module *module, struct tmk_text *out,
                                struct tmk_diag *diag) {
    struct printer to = {
        .out = out, .old = module->version[2] && module->version[2] < 5, .diag = diag};
    if (to.old)
        tmk_text_printf(out, "v0.0.%" PRIu32 "\n", module->version[2]);
    else
        tmk_text_puts(out, "#[version = \"0.0.5\"]\n");
    for (uint32_t i = 0; i < module->n_functions; i++) {
        const struct tmk_relay_function *fn = module->functions[i];
        tmk_text_puts(to.out, i ? "\n" : "");
        if (fn->form == TMK_RELAY_BODY_FORM) {
            TMK_TRY(print_body(&to, &fn->body));
        } else {
            if (fn->form == TMK_RELAY_DEF_FORM)
                tmk_text_printf(to.out, "def @%s", fn->name);
            else
                tmk_text_puts(to.out, "fn ");
            TMK_TRY(print_function(&to, fn));
        }
        tmk_text_puts(to.out, "\n");
    }
    if (module->has_metadata) {
        tmk_text_puts(out, to.old ? "\nMETADATA:" : "\n#[metadata]");
        TMK_TRY(print_section(module, to.old, out, diag));
    } else if (to.refers && to.old) {
        tmk_text_puts(out, "\n// meta data omitted. you can use show_meta_data=True to include "
                           "meta data\n");
    } else if (to.refers) {
        tmk_text_puts(out, "\n/* For debugging purposes the metadata section has been omitted.\n"
                           " * If you would like to see the full metadata section you can set the "
                           "\n * option to `True` when invoking `astext`. \n */");
    }
    return out->failed ? tmk_nomem(diag) : TMK_OK;
}
