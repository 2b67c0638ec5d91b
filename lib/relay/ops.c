/* SPDX-License-Identifier: Apache-2.0 */
/* The list of Relay's operators, and what of a module is not in it. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "relay/lower.h"

const struct tmk_relay_op *const tmk_relay_ops[] = {tmk_relay_ops_convolve,
                                                    tmk_relay_ops_elementwise,
                                                    tmk_relay_ops_image,
                                                    tmk_relay_ops_nn,
                                                    tmk_relay_ops_pool,
                                                    tmk_relay_ops_qnn,
                                                    tmk_relay_ops_reduce,
                                                    tmk_relay_ops_shape,
                                                    tmk_relay_ops_tensor,
                                                    tmk_relay_ops_codes,
                                                    NULL};

const struct tmk_relay_op *tmk_relay_op_find(const char *name) {
    for (size_t i = 0; tmk_relay_ops[i]; i++)
        for (const struct tmk_relay_op *op = tmk_relay_ops[i]; op->name; op++)
            if (strcmp(op->name, name) == 0)
                return op;
    return NULL;
}

struct scan {
    const struct tmk_relay_module *module;
    struct tmk_ptrmap seen;                 /* functions */
    const struct tmk_relay_function **todo; /* those seen, to be scanned */
    uint32_t n;
    struct tmk_text unknown;
    bool failed;
};

static void scan_expr(struct scan *scan, const struct tmk_relay_expr *expr);

static void scan_body(struct scan *scan, const struct tmk_relay_body *body) {
    for (uint32_t i = 0; i < body->n; i++)
        if (body->bindings[i]->expr)
            scan_expr(scan, body->bindings[i]->expr);
    scan_expr(scan, body->result);
}

static void add_function(struct scan *scan, const struct tmk_relay_function *fn) {
    if (!fn || tmk_ptrmap_get(&scan->seen, fn))
        return;
    if (tmk_ptrmap_put(&scan->seen, fn, scan))
        scan->todo[scan->n++] = fn;
    else
        scan->failed = true;
}

/* The parser has limited how deep expressions nest. */
static void scan_expr(struct scan *scan, const struct tmk_relay_expr *expr) {
    if (expr->kind == TMK_RELAY_OPERATOR && !tmk_relay_op_find(expr->text))
        tmk_text_printf(&scan->unknown, "%s%s at %u:%u", scan->unknown.len ? ", " : "", expr->text,
                        expr->place.line, expr->place.column);
    if (expr->kind == TMK_RELAY_GLOBAL)
        add_function(scan, tmk_relay_function(scan->module, expr->text));
    if (expr->fn)
        scan_body(scan, &expr->fn->body);
    if (expr->callee)
        scan_expr(scan, expr->callee);
    for (uint32_t i = 0; i < expr->n_args; i++)
        scan_expr(scan, expr->args[i]);
    if (expr->body)
        scan_body(scan, expr->body);
    if (expr->otherwise)
        scan_body(scan, expr->otherwise);
}

enum tmk_status tmk_relay_known(const struct tmk_relay_module *module,
                                const struct tmk_relay_function *fn, struct tmk_diag *diag) {
    struct scan scan = {.module = module};
    enum tmk_status status = TMK_OK;
    scan.todo = calloc(module->n_functions ? module->n_functions : 1, sizeof(void *));
    TMK_TRY_ALLOC(scan.todo, diag);
    add_function(&scan, fn);
    for (uint32_t i = 0; i < scan.n; i++)
        scan_body(&scan, &scan.todo[i]->body);
    if (scan.failed || scan.unknown.failed)
        status = tmk_nomem(diag);
    else if (scan.unknown.len)
        status = tmk_fail(diag, TMK_UNSUPPORTED, "operators that are not supported: %s",
                          scan.unknown.data);
    free(scan.todo);
    tmk_ptrmap_finish(&scan.seen);
    tmk_text_finish(&scan.unknown);
    return status;
}
