/* SPDX-License-Identifier: Apache-2.0 */
/* A model for people and programs: text, dot, a table of operators, JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/patterns.h>

#include "base/diag.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/text.h"
#include "graph/print.h"
#include "profile/lineage_format.h"
#include "transform/model.h"

/* The text becomes the caller's. */
static enum tmk_status give_text(struct tmk_text *text, bool failed, char **out,
                                 struct tmk_diag *diag) {
    if (text->failed || failed || !text->data) {
        tmk_text_finish(text);
        return tmk_nomem(diag);
    }
    *out = tmk_text_release(text);
    return TMK_OK;
}

/* ---- operators ---- */

struct op_count {
    const struct tmk_node *example;
    uint32_t nodes;
};

struct counting {
    struct op_count *ops;
    size_t size;
    uint32_t n, unsupported;
    bool failed;
};

static bool same_op(const struct tmk_node *a, const struct tmk_node *b) {
    return a->version == b->version && tmk_node_is(a, b->domain, b->op);
}

static void count_ops(struct counting *c, const struct tmk_graph *graph) {
    for (const struct tmk_node *node = graph->first; node; node = node->next) {
        c->unsupported += !node->row;
        uint32_t i = 0;
        while (i < c->n && !same_op(c->ops[i].example, node))
            i++;
        if (i == c->n) {
            if (!TMK_GROW(c->ops, c->n, c->size)) {
                c->failed = true;
                return;
            }
            c->ops[c->n++] = (struct op_count){node, 0};
        }
        c->ops[i].nodes++;
    }
}

static int most_first(const void *a, const void *b) {
    const struct op_count *x = a, *y = b;
    if (!x->example->row != !y->example->row)
        return x->example->row ? 1 : -1;
    return x->nodes != y->nodes ? TMK_ORDER(y->nodes, x->nodes)
                                : strcmp(x->example->op, y->example->op);
}

static void print_ops(const struct counting *c, struct tmk_text *text) {
    tmk_text_printf(text, "%-32s %6s %6s  %s\n", "operator", "opset", "nodes", "");
    for (uint32_t i = 0; i < c->n; i++) {
        const struct tmk_node *node = c->ops[i].example;
        char name[256];
        snprintf(name, sizeof name, "%s%s%s", node->domain, node->domain[0] ? "::" : "", node->op);
        tmk_text_printf(text, "%-32s %6lld %6u  %s\n", name, (long long)node->version,
                        c->ops[i].nodes, node->row ? "" : "unsupported");
    }
    tmk_text_printf(text, "%u operators, %u unsupported nodes\n", c->n, c->unsupported);
}

uint32_t tmk_model_count_op(struct tmk_model *model, const char *op) {
    uint32_t n = 0;
    for (const struct tmk_graph *g = model->graph; g; g = tmk_graph_next(model->graph, g))
        for (const struct tmk_node *node = g->first; node; node = node->next)
            n += tmk_node_is(node, "", op);
    return n;
}

/* ---- JSON ---- */

static void put_ids(struct tmk_json_out *to, const char *key, struct tmk_value *const *values,
                    uint32_t n) {
    struct tmk_json_out array = tmk_json_new_array();
    for (uint32_t i = 0; i < n; i++)
        if (values[i])
            tmk_json_put_id(&array, NULL, (uint32_t)values[i]->profile_id);
        else
            tmk_json_put(&array, NULL, cJSON_CreateNull());
    tmk_json_put_child(to, key, &array);
}

static void put_value(struct tmk_json_out *to, const struct tmk_value *value) {
    static const char *const kinds[] = {"input", "initializer", "result"};
    char text[32];
    struct tmk_json_out o = tmk_json_new_object();
    tmk_json_put_id(&o, "id", (uint32_t)value->profile_id);
    tmk_json_put_text(&o, "name", value->name);
    tmk_json_put_text(&o, "kind", kinds[value->kind]);
    snprintf(text, sizeof text, "%016llx", (unsigned long long)value->fingerprint);
    tmk_json_put_text(&o, "fingerprint", text);
    tmk_json_put_text(&o, "dtype", tmk_dtype_name(value->type.dtype));
    if (value->type.has_shape) {
        struct tmk_json_out array = tmk_json_new_array();
        for (int32_t i = 0; i < value->type.shape.rank; i++)
            if (value->type.shape.dim[i] >= 0)
                tmk_json_put(&array, NULL, cJSON_CreateNumber((double)value->type.shape.dim[i]));
            else if (value->type.symbol[i])
                tmk_json_put_text(&array, NULL, value->type.symbol[i]);
            else
                tmk_json_put(&array, NULL, cJSON_CreateNull());
        tmk_json_put_child(&o, "shape", &array);
    }
    tmk_json_put_child(to, NULL, &o);
}

static void put_graph(struct tmk_json_out *values, struct tmk_json_out *nodes,
                      const struct tmk_graph *graph) {
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (tmk_value_alive(graph->values[i]))
            put_value(values, graph->values[i]);
    for (const struct tmk_node *node = graph->first; node; node = node->next) {
        struct tmk_json_out o = tmk_json_new_object();
        tmk_json_put_text(&o, "name", node->name);
        tmk_json_put_text(&o, "domain", node->domain);
        tmk_json_put_text(&o, "op", node->op);
        tmk_json_put(&o, "opset", cJSON_CreateNumber((double)node->version));
        tmk_json_put(&o, "supported", cJSON_CreateBool(node->row != NULL));
        put_ids(&o, "inputs", node->inputs, node->n_inputs);
        put_ids(&o, "outputs", node->outputs, node->n_outputs);
        tmk_json_put_child(nodes, NULL, &o);
    }
}

static void print_json(struct tmk_model *model, struct tmk_text *text) {
    struct tmk_json_out root = tmk_json_new_object();
    tmk_json_put_text(&root, "graph", model->graph->name);
    put_ids(&root, "inputs", model->graph->inputs, model->graph->n_inputs);
    put_ids(&root, "outputs", model->graph->outputs, model->graph->n_outputs);
    struct tmk_json_out values = tmk_json_new_array(), nodes = tmk_json_new_array();
    for (const struct tmk_graph *g = model->graph; g; g = tmk_graph_next(model->graph, g))
        put_graph(&values, &nodes, g);
    tmk_json_put_child(&root, "values", &values);
    tmk_json_put_child(&root, "nodes", &nodes);
    char *printed = root.failed ? NULL : cJSON_Print(root.item);
    if (printed) {
        tmk_text_puts(text, printed);
        tmk_text_puts(text, "\n");
    } else {
        text->failed = true;
    }
    cJSON_free(printed);
    cJSON_Delete(root.item);
}

enum tmk_status tmk_model_print(struct tmk_model *model, enum tmk_view view, char **out,
                                uint32_t *unsupported, struct tmk_diag *diag) {
    struct tmk_text text = {0};
    struct counting c = {0};
    for (const struct tmk_graph *g = model->graph; g; g = tmk_graph_next(model->graph, g))
        count_ops(&c, g);
    if (c.n)
        qsort(c.ops, c.n, sizeof *c.ops, most_first);
    switch (view) {
    case TMK_VIEW_TEXT:
        tmk_graph_print(model->graph, TMK_INLINE_LIMIT, NULL, &text);
        break;
    case TMK_VIEW_DOT:
        tmk_graph_dot(model->graph, NULL, &text);
        break;
    case TMK_VIEW_OPS:
        print_ops(&c, &text);
        break;
    case TMK_VIEW_JSON:
        print_json(model, &text);
        break;
    }
    free(c.ops);
    if (unsupported)
        *unsupported = c.unsupported;
    return give_text(&text, c.failed, out, diag);
}

/* ---- patterns ---- */

struct marking {
    const struct tmk_pattern_node *nodes; /* ascending by id */
    size_t n;
};

static int compare_pattern_ids(const void *a, const void *b) {
    const uint32_t x = ((const struct tmk_pattern_node *)a)->id,
                   y = ((const struct tmk_pattern_node *)b)->id;
    return TMK_ORDER(x, y);
}

static bool note_pattern(const void *context, const struct tmk_node *node, char out[TMK_DOT_NOTE]) {
    const struct marking *m = context;
    const int64_t id = node->n_outputs && node->outputs[0] ? node->outputs[0]->profile_id : -1;
    const struct tmk_pattern_node key = {.id = (uint32_t)id},
                                  *found = id < 0 || !m->n
                                               ? NULL
                                               : bsearch(&key, m->nodes, m->n, sizeof key,
                                                         compare_pattern_ids);
    if (found)
        snprintf(out, TMK_DOT_NOTE, "%s %u", found->pattern, found->occurrence);
    return found != NULL;
}

enum tmk_status tmk_model_draw_patterns(struct tmk_model *model,
                                        const struct tmk_pattern_node *nodes, size_t n, char **out,
                                        struct tmk_diag *diag) {
    const struct marking marking = {nodes, n};
    struct tmk_text text = {0};
    tmk_graph_dot(model->graph, &(struct tmk_dot_notes){note_pattern, &marking}, &text);
    return give_text(&text, false, out, diag);
}

/* ---- lineage ---- */

static enum tmk_status is_end(const struct tmk_by_id *values,
                              const struct tmk_lineage_record *lineage, bool original,
                              struct tmk_diag *diag) {
    uint32_t n = original ? lineage->n_originals : lineage->n_values;
    if (values->n != n)
        return tmk_fail(diag, TMK_MISMATCH, "it has %zu values, the lineage's original %u",
                        values->n, n);
    for (uint32_t i = 0; i < n; i++) {
        const struct tmk_lineage_identity *is =
            original ? &lineage->originals[i].is : &lineage->values[i].is;
        const struct tmk_value *value = values->values[i];
        if (!value || value->fingerprint != is->fingerprint || value->content != is->content)
            return tmk_fail(diag, TMK_MISMATCH,
                            "p%u '%s' is computed otherwise, or from other weights, than the "
                            "lineage's p%u '%s'",
                            i, value ? value->name : "", i, is->name);
    }
    return TMK_OK;
}

enum tmk_status tmk_model_print_lineage(const struct tmk_model *model,
                                        const struct tmk_lineage_record *lineage, char **out,
                                        struct tmk_diag *diag) {
    struct tmk_text text = {0};
    struct tmk_graph *graph = NULL;
    struct tmk_by_id values;
    TMK_TRY(tmk_original(model, &graph, diag));
    enum tmk_status status = tmk_by_id_init(&values, graph, diag);
    if (status == TMK_OK) {
        if (is_end(&values, lineage, false, NULL) != TMK_OK)
            status = is_end(&values, lineage, true, diag);
        tmk_by_id_finish(&values);
    }
    tmk_graph_destroy(&graph);
    TMK_TRY(tmk_in(diag, status, "%s is neither end of the lineage", model->path));
    tmk_lineage_text(lineage, &text);
    return give_text(&text, false, out, diag);
}
