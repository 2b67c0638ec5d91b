/* SPDX-License-Identifier: Apache-2.0 */
#include "pass/instrument.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/guess.h>

#include "base/diag.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/text.h"
#include "ops/ops.h"
#include "ops/shapes.h"
#include "traits/traits.h"

static const char *const kind_names[] = {
#define TMK_OBSERVER_KIND_NAME(name, text, help) text,
    TMK_OBSERVER_KINDS(TMK_OBSERVER_KIND_NAME)
#undef TMK_OBSERVER_KIND_NAME
};

bool tmk_observer_kind_by_name(const char *name, enum tmk_observer_kind *out) {
    for (int i = 0; i < TMK_N_OBSERVER_KINDS; i++)
        if (strcmp(kind_names[i], name) == 0) {
            *out = (enum tmk_observer_kind)i;
            return true;
        }
    return false;
}

static bool is_weight(const struct tmk_value *value) {
    return value->kind == TMK_VALUE_INITIALIZER ||
           (value->producer && tmk_node_is(value->producer, TMK_DOMAIN_ONNX, "Constant"));
}

static bool matches_pattern(const char *pattern, const struct tmk_value *value) {
    if (strcmp(pattern, "all") == 0)
        return true;
    if (strcmp(pattern, "weights") == 0)
        return is_weight(value);
    if (strcmp(pattern, "activations") == 0)
        return !is_weight(value);
    return tmk_glob(pattern, value->name);
}

struct instrumenting {
    const struct tmk_instrument_options *options;
    bool *matched; /* a pattern */
    struct tmk_value **values;
    size_t n, size;
    bool failed;
};

static bool observed_already(const struct tmk_value *value) {
    for (uint32_t i = 0; i < value->n_uses; i++)
        if (tmk_node_is_observer(value->uses[i].node))
            return true;
    return value->producer && tmk_node_is_observer(value->producer);
}

static bool select_value(struct instrumenting *in, const struct tmk_value *value) {
    bool wanted = in->options->n_patterns == 0;
    for (size_t i = 0; i < in->options->n_patterns; i++)
        if (matches_pattern(in->options->patterns[i], value)) {
            in->matched[i] = true;
            wanted = true;
        }
    return wanted && tmk_value_alive(value) && value->profile_id >= 0 &&
           value->type.kind == TMK_TYPE_TENSOR && !observed_already(value);
}

/* The values are listed before the first observer is added: adding changes the lists that are
 * walked. */
static void list_selected(struct instrumenting *in, struct tmk_graph *graph) {
    for (uint32_t i = 0; i < graph->n_values; i++) {
        if (!select_value(in, graph->values[i]))
            continue;
        if (!TMK_GROW(in->values, in->n, in->size)) {
            in->failed = true;
            return;
        }
        in->values[in->n++] = graph->values[i];
    }
}

static enum tmk_status name_pair(const struct tmk_value *value,
                                 const struct tmk_inserted_node *inserted, char **on, char **off,
                                 struct tmk_diag *diag) {
    const size_t size = strlen(value->name) + strlen(inserted->result_suffix) +
                        strlen(inserted->operand_suffix) + 1;
    *on = malloc(size);
    *off = malloc(size);
    TMK_TRY_ALLOC(*on && *off, diag);
    snprintf(*on, size, "%s%s", value->name, inserted->result_suffix);
    snprintf(*off, size, "%s%s", value->name, inserted->operand_suffix);
    return TMK_OK;
}

/* Puts the node behind the value and sends the value's uses through it. An output of the graph
 * keeps its name: the node's result takes the name over and the value under it becomes
 * NAME<operand_suffix>; any other value keeps its name and the node's result is
 * NAME<result_suffix>. An output that is an input or an initializer stays as it is. The graph has
 * the domain among its operator sets. */
static enum tmk_status insert_behind(struct tmk_value *value,
                                     const struct tmk_inserted_node *inserted,
                                     struct tmk_diag *diag) {
    struct tmk_graph *graph = value->graph;
    struct tmk_node *before = value->producer ? value->producer->next : graph->first, *node = NULL;
    const char *name = value->name;
    char *on = NULL, *off = NULL;
    bool takes_name = value->kind == TMK_VALUE_RESULT && value->n_graph_outputs;
    enum tmk_status status = name_pair(value, inserted, &on, &off, diag);
    if (status == TMK_OK) {
        const char *output = takes_name ? name : on;
        status = tmk_graph_add_node(graph, before,
                                    &(struct tmk_node_spec){TMK_DOMAIN_TIDEMARK, inserted->op, "",
                                                            1, &value, 1, &output, 1},
                                    &node, diag);
    }
    if (status == TMK_OK)
        node->row = tmk_op_find(TMK_DOMAIN_TIDEMARK, inserted->op, 1);
    for (size_t i = 0; status == TMK_OK && i < inserted->n_attrs; i++)
        status = tmk_node_set_attr(node, &inserted->attrs[i], diag);
    TMK_THEN(status, tmk_value_set_type(node->outputs[0], &value->type, diag));
    TMK_THEN(status, tmk_value_replace(value, node->outputs[0], node, takes_name, diag));
    if (status == TMK_OK && takes_name)
        status = tmk_value_rename(value, off, diag);
    free(on);
    free(off);
    return status;
}

static enum tmk_status insert_observers(const struct tmk_observer_place *as,
                                        struct tmk_diag *diag) {
    const struct tmk_attr attrs[] = {
        tmk_attr_int("profile_id", as->id),
        tmk_attr_text("kind", kind_names[as->kind]),
        tmk_attr_text("tensor_name", tmk_value_label(as->value)),
        tmk_attr_text("relation", as->relation ? as->relation : ""),
    };
    const struct tmk_inserted_node observer = {TMK_OP_OBSERVER, "/observed", "/unobserved", attrs,
                                               as->relation ? 4 : 3};
    return insert_behind(as->value, &observer, diag);
}

static enum tmk_status no_value(const struct tmk_graph *graph, const char *pattern,
                                struct tmk_diag *diag) {
    struct tmk_guess guess = {.wanted = pattern};
    char meant[TMK_GUESS_SIZE];
    for (const struct tmk_graph *g = graph; g; g = tmk_graph_next(graph, g))
        for (uint32_t i = 0; i < g->n_values; i++)
            if (tmk_value_alive(g->values[i]))
                tmk_guess_try(&guess, g->values[i]->name);
    return tmk_fail(diag, TMK_NOTFOUND,
                    "'%s'%s names no value of the model; `tidemark graph` lists them", pattern,
                    tmk_guess_text(&guess, meant));
}

enum tmk_status tmk_instrument(struct tmk_graph *graph,
                               const struct tmk_instrument_options *options, uint32_t *n_observers,
                               struct tmk_diag *diag) {
    struct instrumenting in = {.options = options};
    in.matched = calloc(options->n_patterns + 1, sizeof *in.matched);
    enum tmk_status status = in.matched ? TMK_OK : tmk_nomem(diag);
    if (status == TMK_OK) {
        tmk_ops_kinds(graph);
        for (struct tmk_graph *g = graph; g; g = tmk_graph_next(graph, g))
            list_selected(&in, g);
        status = in.failed ? tmk_nomem(diag) : TMK_OK;
    }
    for (size_t i = 0; status == TMK_OK && i < options->n_patterns; i++)
        if (!in.matched[i])
            status = no_value(graph, options->patterns[i], diag);
    TMK_THEN(status, tmk_graph_set_opset(graph, TMK_DOMAIN_TIDEMARK, 1, diag));
    for (size_t i = 0; status == TMK_OK && i < in.n; i++) {
        const struct tmk_observer_place as = {in.values[i], in.values[i]->profile_id, options->kind,
                                              NULL};
        status = insert_observers(&as, diag);
    }
    if (status == TMK_OK && n_observers)
        *n_observers = (uint32_t)in.n;
    free(in.matched);
    free(in.values);
    return status;
}

enum tmk_status tmk_observe_values(struct tmk_graph *graph,
                                   const struct tmk_observer_place *observations, size_t n,
                                   struct tmk_diag *diag) {
    TMK_TRY(tmk_graph_set_opset(graph, TMK_DOMAIN_TIDEMARK, 1, diag));
    for (size_t i = 0; i < n; i++)
        TMK_TRY(insert_observers(&observations[i], diag));
    return TMK_OK;
}

static enum tmk_status strip_one(struct tmk_node *node, struct tmk_diag *diag) {
    struct tmk_value *raw = node->inputs[0], *observed = node->outputs[0];
    const char *name = tmk_node_string(node, "tensor_name", "");
    if (!raw || !observed)
        return tmk_fail(diag, TMK_GRAPH, "an observer without input or output");
    if (name[0] && raw->kind == TMK_VALUE_RESULT)
        TMK_TRY(tmk_value_rename(raw, name, diag));
    if (observed->n_graph_outputs && raw->kind == TMK_VALUE_RESULT)
        TMK_TRY(tmk_value_set_type(raw, &observed->type, diag));
    TMK_TRY(tmk_value_replace(observed, raw, node, true, diag));
    tmk_node_remove(node);
    return TMK_OK;
}

enum tmk_status tmk_strip_observers(struct tmk_graph *graph, uint32_t *n_removed,
                                    struct tmk_diag *diag) {
    uint32_t n = 0;
    for (struct tmk_graph *g = graph; g; g = tmk_graph_next(graph, g))
        for (struct tmk_node *node = g->first, *next; node; node = next) {
            next = node->next;
            if (!tmk_node_is_observer(node) || !node->n_inputs || !node->n_outputs)
                continue;
            TMK_TRY(strip_one(node, diag));
            n++;
        }
    if (n_removed)
        *n_removed = n;
    return TMK_OK;
}

struct rounding {
    enum tmk_dtype *types; /* by value index: in the file; TMK_UNDEFINED: not known */
    struct tmk_value **values;
    size_t n, size;
    bool failed;
};

static bool is_half(enum tmk_dtype type) {
    return type == TMK_FLOAT16 || type == TMK_BFLOAT16;
}

static bool holds_floats(const struct tmk_value *value) {
    return (value->data.dtype != TMK_UNDEFINED ? value->data.dtype : value->type.dtype) ==
           TMK_FLOAT32;
}

/* What the file declares. */
static void take_declared(struct rounding *r, const struct tmk_graph *graph) {
    for (uint32_t i = 0; i < graph->n_values; i++) {
        const struct tmk_value *value = graph->values[i];
        if (!tmk_value_alive(value))
            continue;
        r->types[value->index] =
            value->kind == TMK_VALUE_INITIALIZER ? value->data.origin : value->type.origin;
    }
}

/* The body's value that output i of the node is; NULL: there is none. */
static const struct tmk_value *made_inside(const struct tmk_node *node, uint32_t i) {
    const uint32_t skipped = tmk_node_is(node, TMK_DOMAIN_ONNX, "Loop"); /* the condition */
    for (uint32_t a = 0; a < node->n_attrs; a++)
        if (node->attrs[a].kind == TMK_ATTR_GRAPH) {
            const struct tmk_graph *body = node->attrs[a].graphs[0];
            return i + skipped < body->n_outputs ? body->outputs[i + skipped] : NULL;
        }
    return NULL;
}

/* An operator's float operands are of one type, and so is its result, but for Cast and its like,
 * whose types the importer keeps, and the statistics of normalizations. */
static enum tmk_dtype type_of_result(const struct rounding *r, const struct tmk_node *node,
                                     uint32_t i) {
    if (node->row && node->row->flags & TMK_OP_RUNS_GRAPHS) {
        const struct tmk_value *made = made_inside(node, i);
        return made ? r->types[made->index] : TMK_UNDEFINED;
    }
    if (i > 0 && tmk_node_is(node, TMK_DOMAIN_ONNX, "LayerNormalization"))
        return TMK_FLOAT32;
    const struct tmk_attr *constant = tmk_node_attr(node, "value");
    if (constant && constant->kind == TMK_ATTR_TENSOR)
        return constant->tensors[0].origin;
    for (uint32_t k = tmk_node_is(node, TMK_DOMAIN_ONNX, "CastLike"); k < node->n_inputs; k++)
        if (node->inputs[k] && holds_floats(node->inputs[k]))
            return r->types[node->inputs[k]->index];
    return TMK_UNDEFINED;
}

static void append(struct rounding *r, struct tmk_value *value) {
    if (TMK_GROW(r->values, r->n, r->size))
        r->values[r->n++] = value;
    else
        r->failed = true;
}

/* Its elements may be other numbers than the type has. */
static bool needs_rounding(const struct rounding *r, const struct tmk_node *node) {
    const struct tmk_value *from = tmk_node_input(node, 0);
    const struct tmk_traits *traits = tmk_traits_of(node->domain, node->op);
    return node->n_inputs && !(node->row && node->row->flags & TMK_OP_RUNS_GRAPHS) &&
           !(from && tmk_traits_are(traits, TMK_TRAIT_MOVES) && is_half(r->types[from->index]));
}

static void list_half(struct rounding *r, struct tmk_graph *graph) {
    for (uint32_t i = 0; !graph->parent && i < graph->n_values; i++) {
        struct tmk_value *value = graph->values[i];
        if (value->kind == TMK_VALUE_INPUT && value->type.kind == TMK_TYPE_TENSOR &&
            is_half(r->types[value->index]))
            append(r, value);
    }
    for (struct tmk_node *node = graph->first; node && !r->failed; node = node->next) {
        for (struct tmk_graph *g = NULL; (g = tmk_node_next_graph(node, g));)
            list_half(r, g);
        for (uint32_t i = 0; i < node->n_outputs; i++) {
            struct tmk_value *value = node->outputs[i];
            if (!value || !holds_floats(value) || value->type.kind != TMK_TYPE_TENSOR)
                continue;
            enum tmk_dtype *type = &r->types[value->index];
            if (*type == TMK_UNDEFINED)
                *type = type_of_result(r, node, i);
            if (is_half(*type) && needs_rounding(r, node))
                append(r, value);
        }
    }
}

enum tmk_status tmk_round_half(struct tmk_graph *graph, uint32_t *n, struct tmk_diag *diag) {
    struct rounding r = {.types = calloc(tmk_graph_number(graph) + 1u, sizeof *r.types)};
    enum tmk_status status = r.types ? TMK_OK : tmk_nomem(diag);
    *n = 0;
    if (status == TMK_OK) {
        for (const struct tmk_graph *g = graph; g; g = tmk_graph_next(graph, g))
            take_declared(&r, g);
        status = tmk_fill_types(graph, diag);
    }
    if (status == TMK_OK) {
        list_half(&r, graph);
        status =
            r.failed ? tmk_nomem(diag) : tmk_graph_set_opset(graph, TMK_DOMAIN_TIDEMARK, 1, diag);
    }
    for (size_t i = 0; status == TMK_OK && i < r.n; i++) {
        const struct tmk_attr to = tmk_attr_int("to", r.types[r.values[i]->index]);
        const struct tmk_inserted_node inserted = {TMK_OP_ROUND_TO, "/rounded", "/exact", &to, 1};
        status = insert_behind(r.values[i], &inserted, diag);
    }
    if (status == TMK_OK)
        *n = (uint32_t)r.n;
    free(r.types);
    free(r.values);
    return status;
}

/* ---- values inside operators ---- */

struct showing {
    struct tmk_map names; /* of all values; only where some node has something to show */
    struct tmk_node **nodes;
    size_t n, size;
    int64_t next_id;
    bool failed;
};

static struct tmk_value *first_output(const struct tmk_node *node) {
    uint32_t i = 0;
    while (i < node->n_outputs && !node->outputs[i])
        i++;
    return i < node->n_outputs ? node->outputs[i] : NULL;
}

static void list_nodes(struct showing *s, struct tmk_graph *graph) {
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (tmk_value_alive(graph->values[i]) && graph->values[i]->profile_id >= s->next_id)
            s->next_id = graph->values[i]->profile_id + 1;
    for (struct tmk_node *node = graph->first; node && !s->failed; node = node->next) {
        const struct tmk_value *first = first_output(node);
        if (!node->row || !node->row->inner || !first || first->profile_id < 0)
            continue;
        s->failed = !TMK_GROW(s->nodes, s->n, s->size);
        if (!s->failed)
            s->nodes[s->n++] = node;
    }
}

static int by_id(const void *a, const void *b) {
    const int64_t x = first_output(*(struct tmk_node *const *)a)->profile_id,
                  y = first_output(*(struct tmk_node *const *)b)->profile_id;
    return TMK_ORDER(x, y);
}

static enum tmk_status show_one(struct showing *s, struct tmk_node *node,
                                const struct tmk_inner_rule *rule, struct tmk_diag *diag) {
    const struct tmk_value *first = first_output(node);
    const size_t length = strlen(rule->name),
                 size = strlen(node->name) + strlen(first->name) + length + 16;
    struct tmk_value *value;
    char *name = malloc(size);
    TMK_TRY_ALLOC(name, diag);
    snprintf(name, size, "%s/%s", *node->name ? node->name : first->name, rule->name);
    if (tmk_map_get(&s->names, name)) /* nodes may share a name, values do not */
        snprintf(name, size, "%s/%s", first->name, rule->name);
    for (unsigned i = 2; tmk_map_get(&s->names, name); i++)
        snprintf(name, size, "%s/%s_%u", first->name, rule->name, i);
    enum tmk_status status = tmk_node_add_output(node, rule->output, name, &value, diag);
    free(name);
    TMK_TRY(status);
    value->inner = true;
    value->type.dtype = value->type.origin = TMK_FLOAT32;
    value->profile_id = s->next_id++;
    value->fingerprint = tmk_hash64(rule->name, length, first->fingerprint);
    value->content = tmk_hash64(rule->name, length, first->content);
    value->ordinal = first->ordinal;
    return tmk_map_put(&s->names, value->name, value) ? TMK_OK : tmk_nomem(diag);
}

static enum tmk_status show_node(struct showing *s, struct tmk_node *node, struct tmk_diag *diag) {
    const struct tmk_op *row = node->row;
    const char *at = row->inner;
    struct tmk_inner_rule rule;
    while (tmk_inner_rule_next(&at, &rule))
        if ((rule.output >= node->n_outputs || !node->outputs[rule.output]) &&
            (!row->has_inner || row->has_inner(node, rule.output)))
            TMK_TRY(show_one(s, node, &rule, diag));
    return TMK_OK;
}

enum tmk_status tmk_show_inner(struct tmk_graph *graph, struct tmk_diag *diag) {
    struct showing s = {0};
    for (struct tmk_graph *g = graph; g; g = tmk_graph_next(graph, g))
        list_nodes(&s, g);
    for (const struct tmk_graph *g = graph; g && s.n; g = tmk_graph_next(graph, g))
        for (uint32_t i = 0; i < g->n_values && !s.failed; i++)
            s.failed = !tmk_map_put(&s.names, g->values[i]->name, g->values[i]);
    enum tmk_status status = s.failed ? tmk_nomem(diag) : TMK_OK;
    if (status == TMK_OK && s.n)
        qsort(s.nodes, s.n, sizeof(struct tmk_node *), by_id);
    for (size_t i = 0; status == TMK_OK && i < s.n; i++)
        status = show_node(&s, s.nodes[i], diag);
    tmk_map_finish(&s.names);
    free(s.nodes);
    return status;
}
