/* SPDX-License-Identifier: Apache-2.0 */
/* The values of a graph that was written as Relay, in the graph that the file reads as: the module
 * that was written and the module that was read are the same tree. */
#include <string.h>

#include "base/diag.h"
#include "relay/relay.h"

struct matching {
    struct tmk_ptrmap *out;
    struct tmk_diag *diag;
};

static enum tmk_status fail_differs(const struct matching *m) {
    return tmk_fail(m->diag, TMK_GRAPH, "what was written reads as another module");
}

static enum tmk_status match_value(struct matching *m, const struct tmk_value *value,
                                   struct tmk_value *in_file) {
    if (!value || !in_file || tmk_ptrmap_get(m->out, value))
        return TMK_OK;
    return tmk_ptrmap_put(m->out, value, in_file) ? TMK_OK : tmk_nomem(m->diag);
}

static const char *name_of(const struct tmk_relay_expr *expr) {
    const char *op = expr->kind == TMK_RELAY_CALL ? expr->callee->text : NULL;
    return expr->kind == TMK_RELAY_USE ? expr->binding->name : op ? op : "";
}

static enum tmk_status match_expr(struct matching *m, const struct tmk_relay_expr *written,
                                  const struct tmk_relay_expr *read) {
    if (written->kind != read->kind || written->n_args != read->n_args ||
        written->index != read->index || strcmp(name_of(written), name_of(read)) != 0)
        return fail_differs(m);
    TMK_TRY(match_value(m, written->value, read->value));
    for (uint32_t i = 0; i < written->n_args; i++)
        TMK_TRY(match_expr(m, written->args[i], read->args[i]));
    return TMK_OK;
}

/* The writer makes one function, without inner ones and branches. */
enum tmk_status tmk_relay_match(const struct tmk_relay_written *written,
                                const struct tmk_relay_module *read, const struct tmk_graph *file,
                                struct tmk_ptrmap *out, struct tmk_diag *diag) {
    struct matching m = {out, diag};
    const struct tmk_relay_body *body = &written->module->functions[0]->body,
                                *other = &read->functions[0]->body;
    if (file->n_inputs != written->graph->n_inputs || body->n != other->n)
        return fail_differs(&m);
    for (uint32_t i = 0; i < file->n_inputs; i++)
        TMK_TRY(match_value(&m, written->graph->inputs[i], file->inputs[i]));
    for (uint32_t i = 0; i < body->n; i++)
        TMK_TRY(match_expr(&m, body->bindings[i]->expr, other->bindings[i]->expr));
    return match_expr(&m, body->result, other->result);
}

void tmk_relay_written_finish(struct tmk_relay_written *written) {
    tmk_relay_module_destroy(&written->module);
    tmk_ptrmap_finish(&written->constants);
}
