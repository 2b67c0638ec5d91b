/* SPDX-License-Identifier: Apache-2.0 */
/* eliminate-dead: removes nodes whose results are not needed, last first, then initializers without
 * uses.
 *
 * Results that one node of several has unused stay: an operator's outputs are positions. Inputs
 * stay: they are the model's signature. Operators that are not pure go too, since an unused result
 * has no effect. */
#include "pass/pass.h"

static bool is_needed(const struct tmk_rewrite *rw, const struct tmk_node *node) {
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i] && tmk_rewrite_is_needed(rw, node->outputs[i]))
            return true;
    return false;
}

/* Inner graphs first see their own dead nodes go; what they captured may then be dead outside. */
static void sweep_nodes(struct tmk_graph *graph, struct tmk_rewrite *rw) {
    for (struct tmk_node *node = graph->last, *before; node; node = before) {
        before = node->prev;
        if (!is_needed(rw, node)) {
            tmk_rewrite_remove(rw, node);
            continue;
        }
        for (struct tmk_graph *g = NULL; (g = tmk_node_next_graph(node, g));)
            sweep_nodes(g, rw);
    }
}

static enum tmk_status eliminate_dead(struct tmk_rewrite *rw) {
    sweep_nodes(rw->graph, rw);
    for (struct tmk_graph *g = rw->graph; g; g = tmk_graph_next(rw->graph, g))
        for (uint32_t i = g->n_values; i-- > 0;)
            if (g->values[i]->kind == TMK_VALUE_INITIALIZER &&
                !tmk_rewrite_is_needed(rw, g->values[i]))
                tmk_rewrite_drop(rw, g->values[i]);
    return TMK_OK;
}

const struct tmk_pass tmk_pass_eliminate_dead = {"eliminate-dead", "takes out what no output needs",
                                                 eliminate_dead};
