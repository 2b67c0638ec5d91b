/* SPDX-License-Identifier: Apache-2.0 */
#include "export/opset.h"

#include <string.h>

#include "base/diag.h"
#include "base/text.h"
#include "ops/ops.h"
#include "ops/shapes.h"

struct upgrading {
    int64_t to;
    struct tmk_text refused;
    uint32_t n_refused;
    enum tmk_status status;
    struct tmk_diag *diag;
};

static void refuse_node(struct upgrading *r, const struct tmk_node *node) {
    enum { MOST = 4 };
    char label[256];
    if (r->n_refused++ < MOST)
        tmk_text_printf(&r->refused, "%s%s", r->n_refused > 1 ? ", " : "",
                        tmk_node_label(node, label, sizeof label));
}

/* Row by row, until its row is the one of the wanted version. */
static enum tmk_status upgrade_node(struct upgrading *r, struct tmk_node *node) {
    bool done = true;
    while (done) {
        const struct tmk_op *row = tmk_op_find(node->domain, node->op, node->version);
        if (!row || row == tmk_op_find(node->domain, node->op, r->to)) {
            node->version = r->to;
            return TMK_OK;
        }
        TMK_TRY(tmk_opset_step(&node, row->until + 1, &done, r->diag));
    }
    refuse_node(r, node);
    return TMK_OK;
}

static void upgrade_graph(struct tmk_graph *graph, void *context) {
    struct upgrading *r = context;
    struct tmk_node *next = NULL;
    for (struct tmk_node *node = graph->first; node && r->status == TMK_OK; node = next) {
        next = node->next;
        if (strcmp(node->domain, TMK_DOMAIN_ONNX) == 0 && node->version < r->to)
            r->status = upgrade_node(r, node);
    }
}

enum tmk_status tmk_opset_upgrade(struct tmk_graph *graph, int64_t to, struct tmk_diag *diag) {
    struct upgrading r = {.to = to, .status = TMK_OK, .diag = diag};
    const int64_t from = tmk_graph_opset(graph, TMK_DOMAIN_ONNX);
    if (from >= to)
        return TMK_OK;
    TMK_TRY(tmk_fill_types(graph, diag));
    tmk_graph_each(graph, upgrade_graph, &r);
    if (r.status == TMK_OK && r.refused.failed)
        r.status = tmk_nomem(diag);
    if (r.status == TMK_OK && r.n_refused)
        r.status = tmk_fail(
            diag, TMK_UNSUPPORTED,
            "operator set %lld can't become %lld here: %s%s have no form there that "
            "is known to mean the same; convert the model first "
            "(onnx.version_converter), and profile it again",
            (long long)from, (long long)to, r.refused.data, r.n_refused > 4 ? " and more" : "");
    tmk_text_finish(&r.refused);
    TMK_TRY(r.status);
    TMK_TRY(tmk_graph_set_opset(graph, TMK_DOMAIN_ONNX, to, diag));
    return tmk_ops_bind(graph, diag);
}
