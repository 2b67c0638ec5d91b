/* SPDX-License-Identifier: Apache-2.0 */
/* Changing graphs: uses, removal, order. */
#include "graph/edit.h"

#include <stdlib.h>

#include "base/diag.h"
#include "base/memory.h"

/* Takes use `at` of a value out, if it is this one. The last use takes its place: a value may have
 * very many. */
static void use_remove(struct tmk_value *value, uint32_t at, const struct tmk_node *node,
                       uint32_t input) {
    if (at >= value->n_uses || value->uses[at].node != node || value->uses[at].input != input)
        return;
    const struct tmk_use moved = value->uses[--value->n_uses];
    if (at < value->n_uses) {
        value->uses[at] = moved;
        moved.node->use_at[moved.input] = at;
    }
}

enum tmk_status tmk_node_set_input(struct tmk_node *node, uint32_t input, struct tmk_value *value,
                                   struct tmk_diag *diag) {
    struct tmk_value *old = node->inputs[input];
    const uint32_t at = node->use_at[input];
    if (old == value)
        return TMK_OK;
    if (value)
        TMK_TRY(tmk_use_add(value, node, input, diag));
    if (old)
        use_remove(old, at, node, input);
    node->inputs[input] = value;
    return TMK_OK;
}

static void replace_output(struct tmk_graph *graph, uint32_t i, struct tmk_value *from,
                           struct tmk_value *to) {
    if (i >= graph->n_outputs || graph->outputs[i] != from)
        return;
    graph->outputs[i] = to;
    from->n_graph_outputs--;
    to->n_graph_outputs++;
    to->output_at = i;
}

enum tmk_status tmk_value_replace(struct tmk_value *from, struct tmk_value *to,
                                  const struct tmk_node *except, bool outputs,
                                  struct tmk_diag *diag) {
    struct tmk_graph *top = from->graph;
    for (uint32_t i = from->n_uses; i-- > 0;)
        if (from->uses[i].node != except)
            TMK_TRY(tmk_node_set_input(from->uses[i].node, from->uses[i].input, to, diag));
    if (outputs)
        replace_output(top, from->output_at, from, to);
    for (struct tmk_graph *g = top; outputs && g && from->n_graph_outputs;
         g = tmk_graph_next(top, g))
        for (uint32_t i = 0; i < g->n_outputs; i++)
            replace_output(g, i, from, to);
    return TMK_OK;
}

void tmk_graph_detach(struct tmk_graph *graph) {
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        graph->outputs[i]->n_graph_outputs--;
    graph->n_outputs = 0;
    for (struct tmk_node *node = graph->first; node; node = node->next) {
        for (uint32_t i = 0; i < node->n_inputs; i++)
            if (node->inputs[i])
                use_remove(node->inputs[i], node->use_at[i], node, i);
        for (struct tmk_graph *g = NULL; (g = tmk_node_next_graph(node, g));)
            tmk_graph_detach(g);
        node->removed = true;
    }
}

void tmk_node_remove(struct tmk_node *node) {
    struct tmk_graph *graph = node->graph;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i])
            use_remove(node->inputs[i], node->use_at[i], node, i);
    for (struct tmk_graph *g = NULL; (g = tmk_node_next_graph(node, g));)
        tmk_graph_detach(g);
    tmk_node_drop_attrs(node);
    *(node->prev ? &node->prev->next : &graph->first) = node->next;
    *(node->next ? &node->next->prev : &graph->last) = node->prev;
    node->prev = node->next = NULL;
    node->removed = true;
    graph->n_nodes--;
}

void tmk_graph_drop_initializer(struct tmk_value *initializer) {
    tmk_tensor_finish(&initializer->data);
    initializer->kind = TMK_VALUE_DROPPED;
    initializer->graph = NULL;
}

void tmk_graph_drop_if_unused(struct tmk_value *value) {
    if (value->kind == TMK_VALUE_INITIALIZER && !value->n_uses && !value->n_graph_outputs)
        tmk_graph_drop_initializer(value);
}

void tmk_value_take_identity(struct tmk_value *to, struct tmk_value *from) {
    to->profile_id = from->profile_id;
    to->fingerprint = from->fingerprint;
    to->content = from->content;
    to->ordinal = from->ordinal;
    from->profile_id = -1;
}

/* ---- sorting: depth first over producers, started in the present order, which therefore stays
 * where it can ---- */

enum { UNSEEN, OPEN, DONE };

struct frame {
    struct tmk_node *node;
    struct tmk_node *
        *needs; /* producers within the same graph, its sub-graphs' captures included */
    size_t n, size, next;
};

struct collect {
    struct tmk_graph *graph;
    struct frame *frame;
    bool failed;
};

static void mark_needed(struct collect *c, const struct tmk_value *value) {
    if (!value || value->graph != c->graph || !value->producer || value->producer->mark == DONE)
        return;
    struct frame *frame = c->frame;
    if (!TMK_GROW(frame->needs, frame->n, frame->size)) {
        c->failed = true;
        return;
    }
    frame->needs[frame->n++] = value->producer;
}

/* Operands of the node, and what the graphs inside it read. */
static void collect_needed(struct collect *c, const struct tmk_node *node) {
    for (uint32_t i = 0; i < node->n_inputs; i++)
        mark_needed(c, node->inputs[i]);
    for (struct tmk_graph *g = NULL; (g = tmk_node_next_graph(node, g));) {
        for (uint32_t i = 0; i < g->n_outputs; i++)
            mark_needed(c, g->outputs[i]);
        for (const struct tmk_node *inner = g->first; inner; inner = inner->next)
            collect_needed(c, inner);
    }
}

static enum tmk_status open_frame(struct frame *frame, struct tmk_node *node,
                                  struct tmk_diag *diag) {
    *frame = (struct frame){.node = node};
    struct collect c = {node->graph, frame, false};
    collect_needed(&c, node);
    if (c.failed) {
        free(frame->needs);
        return tmk_nomem(diag);
    }
    node->mark = OPEN;
    return TMK_OK;
}

static void append_node(struct tmk_graph *graph, struct tmk_node *node) {
    node->next = NULL;
    node->prev = graph->last;
    *(graph->last ? &graph->last->next : &graph->first) = node;
    graph->last = node;
    node->mark = DONE;
}

/* Leaves the list as it was when it fails. */
static enum tmk_status sort_one(struct tmk_graph *graph, struct tmk_diag *diag) {
    size_t n = graph->n_nodes, filled = 0, depth = 0;
    struct tmk_node **order = calloc(n + 1, sizeof(struct tmk_node *)),
                    **sorted = calloc(n + 1, sizeof(struct tmk_node *));
    struct frame *stack = calloc(n + 1, sizeof *stack);
    enum tmk_status status = order && sorted && stack ? TMK_OK : tmk_nomem(diag);
    for (struct tmk_node *node = graph->first; status == TMK_OK && node; node = node->next) {
        node->mark = UNSEEN;
        order[filled++] = node;
    }
    filled = 0;
    for (size_t i = 0; status == TMK_OK && i < n; i++) {
        if (order[i]->mark != UNSEEN)
            continue;
        status = open_frame(&stack[depth++], order[i], diag);
        if (status != TMK_OK)
            depth--;
        while (status == TMK_OK && depth) {
            struct frame *top = &stack[depth - 1];
            struct tmk_node *next = NULL;
            while (top->next < top->n && top->needs[top->next]->mark == DONE)
                top->next++;
            if (top->next < top->n)
                next = top->needs[top->next++];
            if (!next) {
                top->node->mark = DONE;
                sorted[filled++] = top->node;
                free(top->needs);
                depth--;
            } else if (next->mark == OPEN) {
                status = tmk_fail(diag, TMK_GRAPH, "%s is on a cycle: it needs its own result",
                                  TMK_NODE_LABEL(next));
            } else {
                status = open_frame(&stack[depth], next, diag);
                depth += status == TMK_OK;
            }
        }
    }
    while (depth)
        free(stack[--depth].needs);
    if (status == TMK_OK) {
        graph->first = graph->last = NULL;
        for (size_t i = 0; i < n; i++)
            append_node(graph, sorted[i]);
    }
    free(order);
    free(sorted);
    free(stack);
    return status;
}

enum tmk_status tmk_graph_sort(struct tmk_graph *graph, struct tmk_diag *diag) {
    for (struct tmk_graph *g = graph; g; g = tmk_graph_next(graph, g))
        TMK_TRY(sort_one(g, diag));
    return TMK_OK;
}
