/* SPDX-License-Identifier: Apache-2.0 */
#include "pass/pass.h"

#include <string.h>

#include "base/diag.h"
#include "ops/ops.h"
#include "ops/shapes.h"

#define TMK_PASS(symbol) extern const struct tmk_pass symbol;
#include "pass/list.inc"
#undef TMK_PASS

static const struct tmk_pass *const list[] = {
#define TMK_PASS(symbol) &symbol,
#include "pass/list.inc"
#undef TMK_PASS
    NULL,
};

const struct tmk_pass *const *tmk_pass_list(void) {
    return list;
}

const struct tmk_pass *tmk_pass_find(const char *name) {
    for (size_t i = 0; list[i]; i++)
        if (strcmp(list[i]->name, name) == 0)
            return list[i];
    return NULL;
}

static enum tmk_status pin_values(struct tmk_rewrite *rw, const struct tmk_pass_options *options) {
    for (size_t i = 0; i < options->n_pinned; i++) {
        const struct tmk_origin *origin = tmk_lineage_origin(rw->lineage, options->pinned[i]);
        if (origin->value && origin->fate != TMK_LINEAGE_ABSORBED)
            TMK_TRY(tmk_rewrite_pin(rw, origin->value));
    }
    return TMK_OK;
}

static enum tmk_status finish_passes(struct tmk_graph *graph, const struct tmk_lineage *lineage,
                                     struct tmk_diag *diag) {
    TMK_TRY(tmk_graph_sort(graph, diag));
    TMK_TRY(tmk_ops_bind(graph, diag));
    tmk_ops_kinds(graph);
    TMK_TRY(tmk_fill_types(graph, diag));
    TMK_TRY(tmk_graph_verify(graph, diag));
    return tmk_lineage_audit(lineage, graph, diag);
}

static enum tmk_status run_one(const struct tmk_pass *pass, struct tmk_graph *graph,
                               struct tmk_lineage *lineage, const struct tmk_pass_options *options,
                               bool *progress, struct tmk_diag *diag) {
    struct tmk_rewrite rw = {.graph = graph,
                             .lineage = lineage,
                             .pass = pass->name,
                             .ranges = options->ranges,
                             .n_ranges = options->n_ranges,
                             .diag = diag};
    enum tmk_status status = tmk_rewrite_begin(&rw);
    TMK_THEN(status, pin_values(&rw, options));
    TMK_THEN(status, pass->run(&rw));
    TMK_THEN(status, finish_passes(graph, lineage, diag));
    *progress = rw.progress;
    tmk_rewrite_finish(&rw);
    return tmk_in(diag, status, "pass %s", pass->name);
}

/* Passes use rows without a check; binding names what has none. */
static enum tmk_status bind_all(struct tmk_graph *graph, struct tmk_diag *diag) {
    bool unbound = false;
    for (const struct tmk_graph *g = graph; g; g = tmk_graph_next(graph, g))
        for (const struct tmk_node *node = g->first; node; node = node->next)
            unbound |= !node->row;
    return unbound ? tmk_ops_bind(graph, diag) : TMK_OK;
}

enum tmk_status tmk_passes_run(struct tmk_graph *graph, struct tmk_lineage *lineage,
                               const struct tmk_pass *const *passes, size_t n,
                               const struct tmk_pass_options *options, bool *progress,
                               struct tmk_diag *diag) {
    static const struct tmk_pass_options plain;
    options = options ? options : &plain;
    bool any = false;
    TMK_TRY(bind_all(graph, diag));
    TMK_TRY(tmk_fill_types(graph, diag));
    for (size_t i = 0; i < n; i++) {
        bool changed = false;
        TMK_TRY(run_one(passes[i], graph, lineage, options, &changed, diag));
        any = any || changed;
        if (options->after)
            options->after(options->context, passes[i]->name, changed, graph, lineage);
    }
    if (progress)
        *progress = any;
    return TMK_OK;
}
