/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "graph/edit.h"
#include "graph/literal.h"

struct drawing {
    struct tmk_text *text;
    uint32_t clusters, outputs;
    const struct tmk_dot_notes *notes;
};

static void put_line(struct drawing *d, const char *string) {
    tmk_text_puts(d->text, "\\n");
    tmk_lex_put_escaped(d->text, string, strlen(string));
}

/* What is known of a value: its ID and type. */
static void put_facts(struct drawing *d, const struct tmk_value *value) {
    struct tmk_text type = {0};
    if (value->profile_id >= 0)
        tmk_text_printf(d->text, "p%lld ", (long long)value->profile_id);
    tmk_literal_put_type(&type, &value->type);
    if (type.data)
        tmk_lex_put_escaped(d->text, type.data, type.len);
    if (type.failed)
        d->text->failed = true;
    tmk_text_finish(&type);
}

static void put_origin(struct drawing *d, const struct tmk_value *value) {
    if (value->producer)
        tmk_text_printf(d->text, "n%u", value->producer->mark);
    else
        tmk_text_printf(d->text, "v%u", value->index);
}

static void put_source(struct drawing *d, const struct tmk_value *value, const char *shape) {
    put_origin(d, value);
    tmk_text_printf(d->text, " [shape=%s, label=\"", shape);
    put_facts(d, value);
    put_line(d, value->name);
    tmk_text_puts(d->text, "\"];\n");
}

static void put_box(struct drawing *d, const struct tmk_node *node) {
    tmk_text_printf(d->text, "n%u [shape=box, label=\"", node->mark);
    tmk_lex_put_escaped(d->text, node->op, strlen(node->op));
    if (node->name[0])
        put_line(d, node->name);
    char note[TMK_DOT_NOTE];
    const bool noted = d->notes && d->notes->note(d->notes->context, node, note);
    if (noted)
        put_line(d, note);
    tmk_text_printf(d->text, "\"%s];\n", noted ? ", style=filled, fillcolor=lightgrey" : "");
}

static void put_boxes(struct drawing *d, const struct tmk_graph *graph);

static void put_cluster(struct tmk_graph *graph, void *context) {
    struct drawing *d = context;
    tmk_text_printf(d->text, "subgraph cluster_%u {\nlabel=", d->clusters++);
    tmk_lex_put_string(d->text, graph->name, strlen(graph->name));
    tmk_text_puts(d->text, ";\n");
    put_boxes(d, graph);
    tmk_text_puts(d->text, "}\n");
}

static void put_boxes(struct drawing *d, const struct tmk_graph *graph) {
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        put_source(d, graph->inputs[i], "ellipse");
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (graph->values[i]->kind == TMK_VALUE_INITIALIZER)
            put_source(d, graph->values[i], "note");
    for (const struct tmk_node *node = graph->first; node; node = node->next) {
        put_box(d, node);
        tmk_node_each_graph(node, put_cluster, d);
    }
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        tmk_text_printf(d->text, "o%u [shape=ellipse, label=\"", d->outputs++);
        tmk_lex_put_escaped(d->text, graph->outputs[i]->name, strlen(graph->outputs[i]->name));
        tmk_text_puts(d->text, "\"];\n");
    }
}

static void put_edge(struct drawing *d, const struct tmk_value *value, char kind, uint32_t end) {
    put_origin(d, value);
    tmk_text_printf(d->text, " -> %c%u [label=\"", kind, end);
    put_facts(d, value);
    tmk_text_puts(d->text, "\"];\n");
}

/* In the order of put_boxes, and outside the clusters: an edge would draw both its ends into them.
 */
static void put_edges(struct tmk_graph *graph, void *context) {
    struct drawing *d = context;
    for (const struct tmk_node *node = graph->first; node; node = node->next) {
        for (uint32_t i = 0; i < node->n_inputs; i++)
            if (node->inputs[i])
                put_edge(d, node->inputs[i], 'n', node->mark);
        tmk_node_each_graph(node, put_edges, d);
    }
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        put_edge(d, graph->outputs[i], 'o', d->outputs++);
}

static void mark_nodes(struct tmk_graph *graph, void *context) {
    uint32_t *next = context;
    for (struct tmk_node *node = graph->first; node; node = node->next)
        node->mark = (*next)++;
}

void tmk_graph_dot(struct tmk_graph *graph, const struct tmk_dot_notes *notes,
                   struct tmk_text *text) {
    struct drawing d = {.text = text, .notes = notes};
    uint32_t marks = 0;
    tmk_graph_number(tmk_graph_root(graph));
    tmk_graph_each(tmk_graph_root(graph), mark_nodes, &marks);
    tmk_text_puts(text, "digraph ");
    tmk_lex_put_string(text, graph->name, strlen(graph->name));
    tmk_text_puts(text, " {\n");
    put_boxes(&d, graph);
    d.outputs = 0;
    put_edges(graph, &d);
    tmk_text_puts(text, "}\n");
}
