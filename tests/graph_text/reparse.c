/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/diag.h"
#include "graph_text/read.h"
#include "ops/ops.h"
#include "ops/shapes.h"

struct numbered {
    struct tmk_value **values;
    uint32_t n;
};

/* Points all entries to the values of `copy` that have the same number as theirs in `graph`. */
static enum tmk_status follow_copy(struct tmk_lineage *lineage, struct tmk_graph *graph,
                                   struct tmk_graph *copy, struct tmk_diag *diag) {
    struct numbered list = {.n = tmk_graph_number(copy)};
    if (tmk_graph_number(graph) != list.n)
        return tmk_fail(diag, TMK_GRAPH, "a copy of the graph has other values");
    list.values = calloc((size_t)list.n + 1, sizeof(struct tmk_value *));
    if (!list.values)
        return tmk_nomem(diag);
    for (const struct tmk_graph *g = copy; g; g = tmk_graph_next(copy, g))
        for (uint32_t i = 0; i < g->n_values; i++)
            if (tmk_value_alive(g->values[i]) && g->values[i]->index < list.n)
                list.values[g->values[i]->index] = g->values[i];
    for (uint32_t i = 0; i < tmk_lineage_size(lineage); i++) {
        struct tmk_origin *origin = (struct tmk_origin *)tmk_lineage_origin(lineage, i);
        struct tmk_value *old = origin->value;
        if (!old)
            continue;
        struct tmk_value *value = list.values[old->index];
        origin->value = value;
        value->origins = old->origins;
    }
    free(list.values);
    return TMK_OK;
}

static enum tmk_status reparse_graph(struct tmk_graph **graph, struct tmk_lineage *lineage,
                                     struct tmk_diag *diag) {
    struct tmk_text text = {0};
    struct tmk_graph *copy = NULL;
    tmk_graph_print(*graph, SIZE_MAX, NULL, &text);
    enum tmk_status status = text.failed ? tmk_nomem(diag) : TMK_OK;
    if (status == TMK_OK)
        status = parse_graph(text.data, NULL, &copy, diag);
    if (status == TMK_OK)
        status = follow_copy(lineage, *graph, copy, diag);
    if (status == TMK_OK) {
        tmk_graph_destroy(graph);
        *graph = copy;
        copy = NULL;
        status = tmk_ops_bind(*graph, diag);
    }
    if (status == TMK_OK) {
        tmk_ops_kinds(*graph);
        status = tmk_fill_types(*graph, diag);
    }
    if (status == TMK_OK)
        status = tmk_lineage_audit(lineage, *graph, diag);
    tmk_graph_destroy(&copy);
    tmk_text_finish(&text);
    return status;
}

enum tmk_status run_passes_reparsed(struct tmk_graph **graph, struct tmk_lineage *lineage,
                                    const struct tmk_pass *const *passes, size_t n,
                                    const struct tmk_pass_options *options, bool *progress,
                                    struct tmk_diag *diag) {
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        bool changed;
        TMK_TRY(tmk_passes_run(*graph, lineage, &passes[i], 1, options, &changed, diag));
        TMK_TRY(tmk_in(diag, reparse_graph(graph, lineage, diag), "pass %s", passes[i]->name));
        any |= changed;
    }
    if (progress)
        *progress = any;
    return TMK_OK;
}
