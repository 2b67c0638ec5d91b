/* SPDX-License-Identifier: Apache-2.0 */
/* Relay files become a graph. The values of a graph that was written are found in what its file
 * reads as: the module that was written and the module that was read are the same tree. */
#include <string.h>

#include "base/buf.h"
#include "base/diag.h"
#include "base/file.h"
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

enum tmk_status tmk_relay_open(const char *path, const char *params_path, bool keep_unknown,
                               struct tmk_relay_module **module, struct tmk_relay_params **params,
                               struct tmk_graph **out, struct tmk_diag *diag) {
    struct tmk_buf *text = NULL;
    *module = NULL;
    *params = NULL;
    TMK_TRY(tmk_file_map(path, &text, diag));
    enum tmk_status status =
        tmk_relay_parse(tmk_buf_data(text), tmk_buf_size(text), path, module, diag);
    tmk_buf_unref(&text);
    TMK_TRY(status);
    if (params_path)
        TMK_TRY(tmk_relay_params_read(params_path, params, diag));
    return tmk_in(diag, tmk_relay_lower(*module, *params, keep_unknown, out, diag), "%s", path);
}

enum tmk_status tmk_relay_load(const char *path, const char *params_path, bool keep_unknown,
                               struct tmk_graph **out, struct tmk_diag *diag) {
    struct tmk_relay_module *module = NULL;
    struct tmk_relay_params *params = NULL;
    enum tmk_status status =
        tmk_relay_open(path, params_path, keep_unknown, &module, &params, out, diag);
    tmk_relay_module_destroy(&module);
    tmk_relay_params_destroy(&params);
    return status;
}
