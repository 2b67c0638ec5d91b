/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/print.h"

#include <stdio.h>
#include <string.h>

#include "graph/literal.h"

struct printer {
    struct tmk_text *text;
    const struct tmk_lineage *lineage; /* NULL: profile IDs alone */
    size_t limit;
    int indent;
};

static void put_text(struct printer *p, const char *string) {
    tmk_text_puts(p->text, string);
}

static void put_string(struct printer *p, const char *string) {
    tmk_literal_put_string(p->text, string, strlen(string));
}

static void begin_line(struct printer *p) {
    tmk_text_printf(p->text, "%*s", p->indent * 2, "");
}

/* A value's own name, unless its identifier is the same, and its ID. */
static bool named_otherwise(const struct tmk_value *value) {
    char identifier[16];
    snprintf(identifier, sizeof identifier, "%u", value->index);
    return strcmp(identifier, value->name) != 0;
}

static void put_name_and_id(struct printer *p, const struct tmk_value *value) {
    if (named_otherwise(value)) {
        put_text(p, " ");
        put_string(p, value->name);
    }
    if (p->lineage)
        tmk_lineage_put(p->lineage, value, p->text);
    else if (value->profile_id >= 0)
        tmk_text_printf(p->text, " @p%lld", (long long)value->profile_id);
}

static void put_value(struct printer *p, const struct tmk_value *value) {
    if (value)
        tmk_text_printf(p->text, "%%%u", value->index);
    else
        put_text(p, "_");
}

static void put_graph(struct printer *p, const struct tmk_graph *graph);

static void put_tensor(struct printer *p, const struct tmk_tensor *tensor) {
    tmk_literal_put_tensor_type(p->text, tensor);
    tmk_literal_put_elements(p->text, tensor, p->limit);
}

static const char *empty_list(enum tmk_attr_kind kind) {
    switch (kind) {
    case TMK_ATTR_FLOATS:
        return "floats[]";
    case TMK_ATTR_STRINGS:
        return "strings[]";
    case TMK_ATTR_TENSORS:
        return "tensors[]";
    case TMK_ATTR_GRAPHS:
        return "graphs[]";
    default:
        return "[]";
    }
}

static void put_item(struct printer *p, const struct tmk_attr *attr, size_t i) {
    switch (attr->kind) {
    case TMK_ATTR_INT:
        tmk_text_printf(p->text, "%lld", (long long)attr->i);
        break;
    case TMK_ATTR_INTS:
        tmk_text_printf(p->text, "%lld", (long long)attr->ints[i]);
        break;
    case TMK_ATTR_FLOAT:
        tmk_literal_put_float(p->text, attr->f);
        break;
    case TMK_ATTR_FLOATS:
        tmk_literal_put_float(p->text, attr->floats[i]);
        break;
    case TMK_ATTR_STRING:
        tmk_literal_put_string(p->text, attr->s, attr->n);
        break;
    case TMK_ATTR_STRINGS:
        put_string(p, attr->strings[i]);
        break;
    case TMK_ATTR_TENSOR:
    case TMK_ATTR_TENSORS:
        put_tensor(p, &attr->tensors[i]);
        break;
    case TMK_ATTR_GRAPH:
    case TMK_ATTR_GRAPHS:
        put_graph(p, attr->graphs[i]);
        break;
    case TMK_ATTR_TYPE:
        put_text(p, ":");
        tmk_literal_put_type(p->text, attr->type);
        break;
    }
}

static void put_attr(struct printer *p, const struct tmk_attr *attr) {
    tmk_literal_put_name(p->text, attr->name, false);
    put_text(p, "=");
    if (attr->kind < TMK_ATTR_INTS || attr->kind == TMK_ATTR_TYPE) {
        put_item(p, attr, 0);
        return;
    }
    if (!attr->n) {
        put_text(p, empty_list(attr->kind));
        return;
    }
    for (size_t i = 0; i < attr->n; i++) {
        put_text(p, i ? "," : "[");
        put_item(p, attr, i);
    }
    put_text(p, "]");
}

/* Something of the results is known that their identifiers do not show. */
static bool tells_more(const struct tmk_node *node) {
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        const struct tmk_value *value = node->outputs[i];
        if (value && (value->type.kind != TMK_TYPE_TENSOR || value->type.dtype ||
                      value->type.origin || value->type.has_shape || value->profile_id >= 0 ||
                      value->origins || named_otherwise(value)))
            return true;
    }
    return false;
}

static void put_node(struct printer *p, const struct tmk_node *node) {
    begin_line(p);
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        put_text(p, i ? ", " : "");
        put_value(p, node->outputs[i]);
    }
    put_text(p, node->n_outputs ? " = " : "= ");
    if (node->domain[0]) {
        tmk_literal_put_name(p->text, node->domain, true);
        put_text(p, "::");
    }
    tmk_literal_put_name(p->text, node->op, false);
    if (node->version != tmk_graph_opset(node->graph, node->domain))
        tmk_text_printf(p->text, ".%lld", (long long)node->version);
    put_text(p, "(");
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        put_text(p, i ? ", " : "");
        put_value(p, node->inputs[i]);
    }
    put_text(p, ")");
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        put_text(p, i ? ", " : " {");
        put_attr(p, &node->attrs[i]);
    }
    put_text(p, node->n_attrs ? "}" : "");
    if (node->name[0]) {
        put_text(p, " ");
        put_string(p, node->name);
    }
    if (tells_more(node)) {
        for (uint32_t i = 0; i < node->n_outputs; i++) {
            put_text(p, i ? ", " : " : ");
            if (!node->outputs[i]) {
                put_text(p, "_");
                continue;
            }
            tmk_literal_put_type(p->text, &node->outputs[i]->type);
            put_name_and_id(p, node->outputs[i]);
        }
    }
    put_text(p, "\n");
}

static void put_graph(struct printer *p, const struct tmk_graph *graph) {
    put_text(p, "graph ");
    put_string(p, graph->name);
    for (uint32_t i = 0; i < graph->n_opsets; i++) {
        put_text(p, i ? " " : " opset ");
        if (graph->opsets[i].domain[0]) {
            put_string(p, graph->opsets[i].domain);
            put_text(p, " ");
        }
        tmk_text_printf(p->text, "%lld", (long long)graph->opsets[i].version);
    }
    if (graph->ir_version)
        tmk_text_printf(p->text, " ir %lld", (long long)graph->ir_version);
    if (graph->producer_name[0]) {
        put_text(p, " producer ");
        put_string(p, graph->producer_name);
    }
    put_text(p, " {\n");
    p->indent++;
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        begin_line(p);
        put_text(p, "input ");
        put_value(p, graph->inputs[i]);
        put_text(p, " : ");
        tmk_literal_put_type(p->text, &graph->inputs[i]->type);
        put_name_and_id(p, graph->inputs[i]);
        put_text(p, "\n");
    }
    for (uint32_t i = 0; i < graph->n_values; i++) {
        const struct tmk_value *value = graph->values[i];
        if (value->kind != TMK_VALUE_INITIALIZER)
            continue;
        begin_line(p);
        put_text(p, "init ");
        put_value(p, value);
        put_text(p, " : ");
        tmk_literal_put_tensor_type(p->text, &value->data);
        put_text(p, " = ");
        tmk_literal_put_elements(p->text, &value->data, p->limit);
        put_name_and_id(p, value);
        put_text(p, "\n");
    }
    for (const struct tmk_node *node = graph->first; node; node = node->next)
        put_node(p, node);
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        begin_line(p);
        put_text(p, "output ");
        put_value(p, graph->outputs[i]);
        put_text(p, "\n");
    }
    p->indent--;
    begin_line(p);
    put_text(p, "}");
}

void tmk_graph_print(struct tmk_graph *graph, size_t inline_limit,
                     const struct tmk_lineage *lineage, struct tmk_text *text) {
    tmk_graph_number(tmk_graph_root(graph));
    struct printer p = {.text = text, .lineage = lineage, .limit = inline_limit};
    put_graph(&p, graph);
    put_text(&p, "\n");
}

struct drawing {
    struct tmk_text *text;
    uint32_t clusters, outputs;
    const struct tmk_dot_notes *notes;
};

static void put_line(struct drawing *d, const char *string) {
    tmk_text_puts(d->text, "\\n");
    tmk_literal_put_escaped(d->text, string, strlen(string));
}

/* What is known of a value: its ID and type. */
static void put_facts(struct drawing *d, const struct tmk_value *value) {
    struct tmk_text type = {0};
    if (value->profile_id >= 0)
        tmk_text_printf(d->text, "p%lld ", (long long)value->profile_id);
    tmk_literal_put_type(&type, &value->type);
    if (type.data)
        tmk_literal_put_escaped(d->text, type.data, type.len);
    if (type.failed)
        d->text->failed = true;
    tmk_text_finish(&type);
}

static void put_producer(struct drawing *d, const struct tmk_value *value) {
    if (value->producer)
        tmk_text_printf(d->text, "n%u", value->producer->mark);
    else
        tmk_text_printf(d->text, "v%u", value->index);
}

static void put_source(struct drawing *d, const struct tmk_value *value, const char *shape) {
    put_producer(d, value);
    tmk_text_printf(d->text, " [shape=%s, label=\"", shape);
    put_facts(d, value);
    put_line(d, value->name);
    tmk_text_puts(d->text, "\"];\n");
}

static void put_box(struct drawing *d, const struct tmk_node *node) {
    tmk_text_printf(d->text, "n%u [shape=box, label=\"", node->mark);
    tmk_literal_put_escaped(d->text, node->op, strlen(node->op));
    if (node->name[0])
        put_line(d, node->name);
    char note[TMK_DOT_NOTE];
    const bool noted = d->notes && d->notes->note(d->notes->context, node, note);
    if (noted)
        put_line(d, note);
    tmk_text_printf(d->text, "\"%s];\n", noted ? ", style=filled, fillcolor=lightgrey" : "");
}

static void put_boxes(struct drawing *d, const struct tmk_graph *graph);

static void put_cluster(struct drawing *d, const struct tmk_graph *graph) {
    tmk_text_printf(d->text, "subgraph cluster_%u {\nlabel=", d->clusters++);
    tmk_literal_put_string(d->text, graph->name, strlen(graph->name));
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
        for (struct tmk_graph *g = NULL; (g = tmk_node_next_graph(node, g));)
            put_cluster(d, g);
    }
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        tmk_text_printf(d->text, "o%u [shape=ellipse, label=\"", d->outputs++);
        tmk_literal_put_escaped(d->text, graph->outputs[i]->name, strlen(graph->outputs[i]->name));
        tmk_text_puts(d->text, "\"];\n");
    }
}

static void put_edge(struct drawing *d, const struct tmk_value *value, char kind, uint32_t end) {
    put_producer(d, value);
    tmk_text_printf(d->text, " -> %c%u [label=\"", kind, end);
    put_facts(d, value);
    tmk_text_puts(d->text, "\"];\n");
}

/* In the order of put_boxes, and outside the clusters: edges draw their ends into them. */
static void put_edges(struct drawing *d, const struct tmk_graph *graph) {
    for (const struct tmk_node *node = graph->first; node; node = node->next) {
        for (uint32_t i = 0; i < node->n_inputs; i++)
            if (node->inputs[i])
                put_edge(d, node->inputs[i], 'n', node->mark);
        for (struct tmk_graph *g = NULL; (g = tmk_node_next_graph(node, g));)
            put_edges(d, g);
    }
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        put_edge(d, graph->outputs[i], 'o', d->outputs++);
}

void tmk_graph_dot(struct tmk_graph *graph, const struct tmk_dot_notes *notes,
                   struct tmk_text *text) {
    struct drawing d = {.text = text, .notes = notes};
    uint32_t marks = 0;
    struct tmk_graph *root = tmk_graph_root(graph);
    tmk_graph_number(root);
    for (struct tmk_graph *g = root; g; g = tmk_graph_next(root, g))
        for (struct tmk_node *node = g->first; node; node = node->next)
            node->mark = marks++;
    tmk_text_puts(text, "digraph ");
    tmk_literal_put_string(text, graph->name, strlen(graph->name));
    tmk_text_puts(text, " {\n");
    put_boxes(&d, graph);
    d.outputs = 0;
    put_edges(&d, graph);
    tmk_text_puts(text, "}\n");
}
