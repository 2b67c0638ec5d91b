/* SPDX-License-Identifier: Apache-2.0 */
/* Every invariant of a graph, checked. All violations are reported, as far as diag holds them. */
#include <stdarg.h>
#include <stdio.h>

#include "base/diag.h"
#include "base/map.h"
#include "base/text.h"
#include "graph/graph.h"
#include "tensor/elements.h"

enum { MOST_REPORTED = 8 };

struct check {
    struct tmk_text report;
    unsigned violations;
    struct tmk_ptrmap defined; /* values that stand before the node at hand */
    struct tmk_ptrmap listed;  /* where a use list has a value: slot -> value */
    struct tmk_ptrmap outputs; /* value -> how many times it stands among graphs' outputs */
    bool nomem;
};

/* node: where; NULL: nowhere in particular. */
static void TMK_PRINTF(3, 4)
    report_violation(struct check *check, const struct tmk_node *node, const char *fmt, ...) {
    if (check->violations++ >= MOST_REPORTED)
        return;
    char line[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    tmk_text_puts(&check->report, check->report.len ? "; " : "");
    if (node)
        tmk_text_printf(&check->report, "%s: ", TMK_NODE_LABEL(node));
    tmk_text_puts(&check->report, line);
}

static void define_value(struct check *check, struct tmk_value *value) {
    if (tmk_ptrmap_get(&check->defined, value))
        report_violation(check, NULL, "'%s' is defined twice", value->name);
    else if (!tmk_ptrmap_put(&check->defined, value, value))
        check->nomem = true;
}

static bool in_scope(const struct tmk_graph *graph, const struct tmk_value *value) {
    while (graph && graph != value->graph)
        graph = graph->parent;
    return graph != NULL;
}

static void check_operand(struct check *check, const struct tmk_node *node, uint32_t i) {
    const struct tmk_value *value = node->inputs[i];
    if (!value)
        return;
    if (!in_scope(node->graph, value))
        report_violation(check, node, "input %u ('%s') is out of scope", i, value->name);
    else if (!tmk_value_alive(value))
        report_violation(check, node, "input %u ('%s') comes from a removed node", i, value->name);
    else if (!tmk_ptrmap_get(&check->defined, value))
        report_violation(check, node, "input %u ('%s') is used before it is made", i, value->name);
    else if (tmk_ptrmap_get(&check->listed, &node->inputs[i]) != value)
        report_violation(check, node, "input %u ('%s') is missing from its use list", i,
                         value->name);
}

static void check_uses(struct check *check, struct tmk_value *value) {
    for (uint32_t i = 0; i < value->n_uses; i++) {
        const struct tmk_use *use = &value->uses[i];
        if (use->input >= use->node->n_inputs || use->node->inputs[use->input] != value ||
            use->node->removed)
            report_violation(check, NULL, "'%s' has a use that is none", value->name);
        else if (tmk_ptrmap_get(&check->listed, &use->node->inputs[use->input]))
            report_violation(check, NULL, "'%s' lists a use twice", value->name);
        else if (!tmk_ptrmap_put(&check->listed, &use->node->inputs[use->input], value))
            check->nomem = true;
    }
}

/* Follows the nodes down, since a graph may name another owner. */
static void check_output_counts(struct check *check, const struct tmk_graph *graph) {
    for (uint32_t i = 0; i < graph->n_values; i++) {
        const struct tmk_value *value = graph->values[i];
        size_t found = (size_t)(uintptr_t)tmk_ptrmap_get(&check->outputs, value);
        if (tmk_value_alive(value) && value->n_graph_outputs != found)
            report_violation(check, NULL, "'%s' stands %zu times among outputs but counts %u",
                             value->name, found, value->n_graph_outputs);
    }
    for (const struct tmk_node *node = graph->first; node; node = node->next)
        for (struct tmk_graph *g = NULL; (g = tmk_node_next_graph(node, g));)
            check_output_counts(check, g);
}

static void check_graph(struct check *check, const struct tmk_graph *graph);

static void check_node(struct check *check, const struct tmk_graph *graph,
                       const struct tmk_node *before, const struct tmk_node *node) {
    if (node->prev != before)
        report_violation(check, node, "is not linked to the node before it");
    if (node->graph != graph || node->removed)
        report_violation(check, node, "stands in a graph that is not its own");
    for (uint32_t i = 0; i < node->n_inputs; i++)
        check_operand(check, node, i);
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const struct tmk_attr *attr = &node->attrs[i];
        for (size_t k = 0; k < tmk_attr_graphs(attr); k++)
            if (attr->graphs[k]->owner != node || attr->graphs[k]->parent != graph)
                report_violation(check, node, "its attribute '%s' holds a graph of another node",
                                 attr->name);
    }
    for (struct tmk_graph *g = NULL; (g = tmk_node_next_graph(node, g));)
        check_graph(check, g);
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        struct tmk_value *value = node->outputs[i];
        if (!value)
            continue;
        if (value->kind != TMK_VALUE_RESULT || value->producer != node || value->output != i ||
            value->graph != graph)
            report_violation(check, node, "output %u ('%s') does not know its producer", i,
                             value->name);
        define_value(check, value);
        check_uses(check, value);
    }
}

static void check_graph(struct check *check, const struct tmk_graph *graph) {
    uint32_t nodes = 0;
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        if (graph->inputs[i]->kind != TMK_VALUE_INPUT || graph->inputs[i]->graph != graph)
            report_violation(check, NULL, "input '%s' is not an input of its graph",
                             graph->inputs[i]->name);
        define_value(check, graph->inputs[i]);
        check_uses(check, graph->inputs[i]);
    }
    for (uint32_t i = 0; i < graph->n_values; i++) {
        struct tmk_value *value = graph->values[i];
        if (value->kind != TMK_VALUE_INITIALIZER)
            continue;
        if (!tmk_tensor_has_elements(&value->data))
            report_violation(check, NULL, "initializer '%s' has no data", value->name);
        define_value(check, value);
        check_uses(check, value);
    }
    const struct tmk_node *last = NULL;
    for (const struct tmk_node *node = graph->first; node; last = node, node = node->next, nodes++)
        check_node(check, graph, last, node);
    if (graph->last != last)
        report_violation(check, NULL, "graph '%s' does not know its last node", graph->name);
    if (nodes != graph->n_nodes)
        report_violation(check, NULL, "graph '%s' counts %u nodes but holds %u", graph->name,
                         graph->n_nodes, nodes);
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        const struct tmk_value *value = graph->outputs[i];
        if (!in_scope(graph, value) || !tmk_value_alive(value) ||
            !tmk_ptrmap_get(&check->defined, value))
            report_violation(check, NULL, "graph output '%s' is never made", value->name);
        uintptr_t before = (uintptr_t)tmk_ptrmap_get(&check->outputs, value);
        if (!tmk_ptrmap_put(&check->outputs, value, (void *)(before + 1)))
            check->nomem = true;
    }
}

enum tmk_status tmk_graph_verify(const struct tmk_graph *graph, struct tmk_diag *diag) {
    struct check check = {0};
    check_graph(&check, graph);
    check_output_counts(&check, graph);
    enum tmk_status status = TMK_OK;
    if (check.nomem || check.report.failed)
        status = tmk_nomem(diag);
    else if (check.violations > MOST_REPORTED)
        status = tmk_fail(diag, TMK_GRAPH, "%s; and %u more", check.report.data,
                          check.violations - MOST_REPORTED);
    else if (check.violations)
        status = tmk_fail(diag, TMK_GRAPH, "%s", check.report.data);
    tmk_ptrmap_finish(&check.defined);
    tmk_ptrmap_finish(&check.listed);
    tmk_ptrmap_finish(&check.outputs);
    tmk_text_finish(&check.report);
    return status;
}
