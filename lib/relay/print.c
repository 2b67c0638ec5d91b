/* SPDX-License-Identifier: Apache-2.0 */
/* Modules as Relay text, the way astext() writes them. */
#include <inttypes.h>
#include <string.h>

#include "base/diag.h"
#include "relay/write.h"

struct printer {
    struct tmk_text *out;
    bool old;
    bool refers; /* to metadata */
    uint32_t depth, indent;
    struct tmk_diag *diag;
};

bool tmk_relay_is_old(const struct tmk_relay_module *module) {
    return module->version[2] && module->version[2] < 5;
}

static enum tmk_status print_expr(struct printer *to, const struct tmk_relay_expr *expr);
static enum tmk_status print_function(struct printer *to, const struct tmk_relay_function *fn);

static void new_line(struct printer *to) {
    tmk_text_printf(to->out, "\n%*s", (int)(2 * to->indent), "");
}

static void print_remark(struct printer *to, const char *remark) {
    tmk_text_printf(to->out, "/* %s */", remark);
}

static void print_comments(struct printer *to, const struct tmk_relay_type *type, const char *span,
                           bool twice) {
    if (!type && !span)
        return;
    for (int i = 0; i < 1 + twice; i++) {
        tmk_text_puts(to->out, type ? " /* ty=" : " /*");
        if (type)
            tmk_relay_print_type(to->out, type);
        if (span && !i)
            tmk_text_printf(to->out, " span=%s", span);
        tmk_text_puts(to->out, " */");
    }
}

/* ---- names ---- */

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digits(const char *name) {
    return name[0] && !name[strspn(name, "0123456789")];
}

/* Modules that were built may have names that the text cannot hold. */
static enum tmk_status print_name(struct printer *to, const struct tmk_relay_binding *binding) {
    const char *name = binding->name;
    bool good = binding->kind == TMK_RELAY_NUMBERED ? is_digits(name) : is_letter(name[0]);
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
        tmk_relay_print_type(to->out, binding->type);
    }
    print_comments(to, binding->checked, binding->span, false);
    return TMK_OK;
}

static enum tmk_status print_binding(struct printer *to, const struct tmk_relay_binding *binding) {
    switch (binding->kind) {
    case TMK_RELAY_FREE:
        tmk_text_puts(to->out, "free_var ");
        TMK_TRY(print_declared(to, binding));
        break;
    case TMK_RELAY_LET:
        tmk_text_puts(to->out, "let ");
        TMK_TRY(print_declared(to, binding));
        tmk_text_puts(to->out, " = ");
        TMK_TRY(print_expr(to, binding->expr));
        break;
    case TMK_RELAY_NUMBERED:
        TMK_TRY(print_name(to, binding));
        tmk_text_puts(to->out, " = ");
        TMK_TRY(print_expr(to, binding->expr));
        break;
    case TMK_RELAY_PARAM:
        return tmk_fail(to->diag, TMK_FORMAT, "parameter %%%s stands in a body", binding->name);
    }
    tmk_text_puts(to->out, ";");
    return TMK_OK;
}

static enum tmk_status print_body(struct printer *to, const struct tmk_relay_body *body) {
    for (uint32_t i = 0; i < body->n; i++) {
        TMK_TRY(print_binding(to, body->bindings[i]));
        new_line(to);
    }
    return print_expr(to, body->result);
}

static enum tmk_status print_block(struct printer *to, const struct tmk_relay_body *body) {
    tmk_text_puts(to->out, "{");
    to->indent++;
    new_line(to);
    TMK_TRY(print_body(to, body));
    to->indent--;
    new_line(to);
    tmk_text_puts(to->out, "}");
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

static enum tmk_status print_scope(struct printer *to, const struct tmk_relay_body *body) {
    tmk_text_puts(to->out, "(");
    to->indent++;
    new_line(to);
    TMK_TRY(print_body(to, body));
    to->indent--;
    new_line(to);
    tmk_text_puts(to->out, ")");
    return TMK_OK;
}

static enum tmk_status print_call(struct printer *to, const struct tmk_relay_expr *expr) {
    if (is_scope(expr))
        return print_scope(to, &expr->callee->fn->body);
    TMK_TRY(print_operand(to, expr->callee));
    tmk_text_puts(to->out, "(");
    TMK_TRY(print_list(to, expr));
    const char *comma = expr->n_args ? ", " : "";
    for (uint32_t i = 0; i < expr->n_attrs; i++) {
        tmk_text_puts(to->out, comma);
        comma = ", ";
        tmk_relay_print_attr(to->out, &expr->attrs[i], to->old);
        to->refers |= expr->attrs[i].value.kind == TMK_RELAY_META;
    }
    if (expr->remark && expr->remark_inside) {
        tmk_text_puts(to->out, comma);
        print_remark(to, expr->remark);
    }
    tmk_text_puts(to->out, ")");
    return TMK_OK;
}

static enum tmk_status print_if(struct printer *to, const struct tmk_relay_expr *expr) {
    tmk_text_puts(to->out, "if (");
    TMK_TRY(print_expr(to, expr->args[0]));
    tmk_text_puts(to->out, ") ");
    TMK_TRY(print_block(to, expr->body));
    tmk_text_puts(to->out, " else ");
    return print_block(to, expr->otherwise);
}

static enum tmk_status print_kind(struct printer *to, const struct tmk_relay_expr *expr) {
    switch (expr->kind) {
    case TMK_RELAY_CONSTANT:
        return tmk_relay_print_scalar(to->out, expr, to->old, to->diag);
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
    case TMK_RELAY_CALL:
        return print_call(to, expr);
    case TMK_RELAY_IF:
        return print_if(to, expr);
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
    if (expr->remark && !expr->remark_inside) {
        tmk_text_puts(to->out, " ");
        print_remark(to, expr->remark);
    }
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
        tmk_relay_print_attr(to->out, &fn->attrs[i], to->old);
        to->refers |= fn->attrs[i].value.kind == TMK_RELAY_META;
    }
    tmk_text_puts(to->out, ") ");
    if (fn->result) {
        tmk_text_puts(to->out, "-> ");
        tmk_relay_print_type(to->out, fn->result);
        tmk_text_puts(to->out, " ");
    }
    return print_block(to, &fn->body);
}

static enum tmk_status print_functions(struct printer *to, const struct tmk_relay_module *module) {
    for (uint32_t i = 0; i < module->n_functions; i++) {
        const struct tmk_relay_function *fn = module->functions[i];
        tmk_text_puts(to->out, i ? "\n" : "");
        if (fn->form == TMK_RELAY_BODY_FORM) {
            TMK_TRY(print_body(to, &fn->body));
        } else {
            if (fn->form == TMK_RELAY_DEF_FORM)
                tmk_text_printf(to->out, "def @%s", fn->name);
            else
                tmk_text_puts(to->out, "fn ");
            TMK_TRY(print_function(to, fn));
        }
        tmk_text_puts(to->out, "\n");
    }
    return TMK_OK;
}

enum tmk_status tmk_relay_print(const struct tmk_relay_module *module, struct tmk_text *out,
                                struct tmk_diag *diag) {
    struct printer to = {.out = out, .old = tmk_relay_is_old(module), .diag = diag};
    if (to.old)
        tmk_text_printf(out, "v0.0.%" PRIu32 "\n", module->version[2]);
    else
        tmk_text_puts(out, "#[version = \"0.0.5\"]\n");
    TMK_TRY(print_functions(&to, module));
    if (module->has_metadata) {
        tmk_text_puts(out, to.old ? "\nMETADATA:" : "\n#[metadata]");
        TMK_TRY(tmk_relay_print_section(module, out, diag));
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
