/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_equal.h"

#include <string.h>

#include "base/diag.h"
#include "base/map.h"

struct comparing {
    struct tmk_ptrmap values; /* a's -> b's */
    struct tmk_diag *why;
    bool nomem;
};

static bool note_difference(struct comparing *c, const char *what, const char *a, const char *b) {
    (void)!tmk_fail(c->why, TMK_MISMATCH, "%s: '%s' and '%s'", what, a, b);
    return false;
}

static bool same_value(struct comparing *c, const struct tmk_value *a, struct tmk_value *b) {
    if (strcmp(a->name, b->name) != 0)
        return note_difference(c, "names of values differ", a->name, b->name);
    if (a->kind != b->kind || a->profile_id != b->profile_id || !tmk_type_equal(&a->type, &b->type))
        return note_difference(c, "values differ in kind, type or profile ID", a->name, b->name);
    if (a->kind == TMK_VALUE_INITIALIZER && !tmk_weight_equal(&a->data, &b->data))
        return note_difference(c, "initializers differ", a->name, b->name);
    if (!tmk_ptrmap_put(&c->values, a, b)) {
        c->nomem = true;
        return false;
    }
    return true;
}

static bool same_graph(struct comparing *c, const struct tmk_graph *a, const struct tmk_graph *b);

static bool same_attr(struct comparing *c, const struct tmk_attr *a, const struct tmk_attr *b) {
    if (a->kind != TMK_ATTR_GRAPH && a->kind != TMK_ATTR_GRAPHS)
        return tmk_attr_equal(a, b);
    if (a->kind != b->kind || a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!same_graph(c, a->graphs[i], b->graphs[i]))
            return false;
    return true;
}

static bool same_node(struct comparing *c, const struct tmk_node *a, const struct tmk_node *b) {
    if (strcmp(a->op, b->op) != 0 || strcmp(a->domain, b->domain) != 0)
        return note_difference(c, "operators differ", a->op, b->op);
    if (strcmp(a->name, b->name) != 0)
        return note_difference(c, "names of nodes differ", a->name, b->name);
    if (a->version != b->version || a->n_inputs != b->n_inputs || a->n_outputs != b->n_outputs ||
        a->n_attrs != b->n_attrs)
        return note_difference(c, "nodes differ in version or counts", a->op, b->op);
    for (uint32_t i = 0; i < a->n_inputs; i++)
        if (tmk_ptrmap_get(&c->values, a->inputs[i]) != b->inputs[i])
            return note_difference(c, "nodes have different operands", a->op, b->op);
    for (uint32_t i = 0; i < a->n_attrs; i++) {
        const struct tmk_attr *other = tmk_node_attr(b, a->attrs[i].name);
        if (!other || !same_attr(c, &a->attrs[i], other))
            return note_difference(c, "attributes differ", a->op, a->attrs[i].name);
    }
    for (uint32_t i = 0; i < a->n_outputs; i++) {
        if (!a->outputs[i] != !b->outputs[i])
            return note_difference(c, "nodes differ in which outputs they have", a->op, b->op);
        if (a->outputs[i] && !same_value(c, a->outputs[i], b->outputs[i]))
            return false;
    }
    return true;
}

static struct tmk_value *next_initializer(const struct tmk_graph *graph, uint32_t *i) {
    for (; *i < graph->n_values; (*i)++)
        if (graph->values[*i]->kind == TMK_VALUE_INITIALIZER)
            return graph->values[(*i)++];
    return NULL;
}

static bool same_graph(struct comparing *c, const struct tmk_graph *a, const struct tmk_graph *b) {
    if (a->n_inputs != b->n_inputs || a->n_outputs != b->n_outputs || a->n_nodes != b->n_nodes)
        return note_difference(c, "graphs differ in size", a->name, b->name);
    for (uint32_t i = 0; i < a->n_inputs; i++)
        if (!same_value(c, a->inputs[i], b->inputs[i]))
            return false;
    for (uint32_t i = 0, k = 0;;) {
        const struct tmk_value *x = next_initializer(a, &i);
        struct tmk_value *y = next_initializer(b, &k);
        if (!x != !y)
            return note_difference(c, "graphs differ in their number of initializers", a->name,
                                   b->name);
        if (!x)
            break;
        if (!same_value(c, x, y))
            return false;
    }
    const struct tmk_node *y = b->first;
    for (const struct tmk_node *x = a->first; x; x = x->next, y = y->next)
        if (!same_node(c, x, y))
            return false;
    for (uint32_t i = 0; i < a->n_outputs; i++)
        if (tmk_ptrmap_get(&c->values, a->outputs[i]) != b->outputs[i])
            return note_difference(c, "graph outputs differ", a->outputs[i]->name,
                                   b->outputs[i]->name);
    return true;
}

bool graph_equal(const struct tmk_graph *a, const struct tmk_graph *b, struct tmk_diag *why) {
    struct comparing c = {.why = why};
    bool same = a->n_opsets == b->n_opsets;
    for (uint32_t i = 0; same && i < a->n_opsets; i++)
        same = tmk_graph_opset(b, a->opsets[i].domain) == a->opsets[i].version;
    if (!same)
        note_difference(&c, "operator sets differ", a->name, b->name);
    else
        same = same_graph(&c, a, b);
    tmk_ptrmap_finish(&c.values);
    return same && !c.nomem;
}
