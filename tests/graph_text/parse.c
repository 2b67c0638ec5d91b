/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_text/read.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/map.h"
#include "graph/literal.h"
#include "graph_text/literal.h"

/* The identifiers of one graph; those of the graphs around it are visible too. */
struct scope {
    struct tmk_map values;
    struct scope *outer;
    struct tmk_graph *graph;
    int depth;
};

struct parser {
    struct lex lex;
    const struct tensor_pool *pool;
    struct tmk_arena
        scratch; /* what the text's strings and lists need until the graph holds copies */
    struct tensor_pool held; /* tensors of attributes, until then */
};

/* A list that grows in the scratch arena. */
struct list {
    void *items;
    size_t n, size;
};

static enum tmk_status append_item(struct parser *p, struct list *list, const void *item,
                                   size_t size) {
    if (list->n == UINT32_MAX)
        return lex_fail(&p->lex, p->lex.at, "this list is too long");
    if (list->n == list->size) {
        size_t grown = list->size ? list->size * 2 : 4;
        void *items = tmk_arena_array(&p->scratch, grown, size);
        if (!items)
            return tmk_nomem(p->lex.diag);
        if (list->n)
            memcpy(items, list->items, list->n * size);
        list->items = items;
        list->size = grown;
    }
    memcpy((char *)list->items + list->n++ * size, item, size);
    return TMK_OK;
}

/* ---- identifiers ---- */

static struct tmk_value *find_value(const struct scope *scope, const char *id) {
    struct tmk_value *value = NULL;
    for (; scope && !value; scope = scope->outer)
        value = tmk_map_get(&scope->values, id);
    return value;
}

/* A new identifier; the text keeps its place for the message of a second one. */
struct fresh {
    const char *at, *id; /* id NULL: an absent output */
    struct tmk_type type;
    const char *name;
    int64_t profile_id;
};

static enum tmk_status read_fresh(struct parser *p, const struct scope *scope, struct fresh *out) {
    TMK_TRY(lex_need(&p->lex, '%'));
    *out = (struct fresh){.at = p->lex.at - 1, .profile_id = -1};
    TMK_TRY(lex_identifier(&p->lex, &out->id));
    out->name = out->id;
    if (find_value(scope, out->id))
        return lex_fail(&p->lex, out->at, "%%%.80s is defined twice; choose another identifier",
                        out->id);
    return TMK_OK;
}

static enum tmk_status define_value(struct parser *p, struct scope *scope,
                                    const struct fresh *fresh, struct tmk_value *value) {
    value->profile_id = fresh->profile_id;
    if (tmk_map_get(&scope->values, fresh->id)) /* twice among the outputs of one node */
        return lex_fail(&p->lex, fresh->at, "%%%.80s is defined twice; choose another identifier",
                        fresh->id);
    return tmk_map_put(&scope->values, fresh->id, value) ? TMK_OK : tmk_nomem(p->lex.diag);
}

static enum tmk_status read_use(struct parser *p, const struct scope *scope,
                                struct tmk_value **out) {
    const char *id;
    TMK_TRY(lex_need(&p->lex, '%'));
    const char *at = p->lex.at - 1;
    TMK_TRY(lex_identifier(&p->lex, &id));
    struct tmk_value *value = find_value(scope, id);
    if (!value)
        return lex_fail(&p->lex, at,
                        "%%%.80s is not defined above; a node stands after the producers of "
                        "its inputs",
                        id);
    *out = value;
    return TMK_OK;
}

static enum tmk_status read_name_and_id(struct parser *p, struct fresh *fresh) {
    if (lex_peek(&p->lex) == '"')
        TMK_TRY(lex_name(&p->lex, "a name", &fresh->name));
    if (!lex_take(&p->lex, '@'))
        return TMK_OK;
    if (*p->lex.at != 'p')
        return lex_expected(&p->lex, "a profile ID like @p0");
    p->lex.at++;
    return lex_signed(&p->lex, 0, INT64_MAX, "a profile ID", &fresh->profile_id);
}

/* ---- attributes ---- */

static enum tmk_status read_graph(struct parser *p, struct scope *scope);

static enum tmk_status read_subgraph(struct parser *p, struct scope *outer,
                                     struct tmk_graph **out) {
    const char *name;
    struct scope scope = {.outer = outer, .depth = outer->depth + 1};
    if (scope.depth > TEXT_MAX_NESTING)
        return lex_fail(&p->lex, p->lex.at, "graphs are nested more than %d deep",
                        TEXT_MAX_NESTING);
    TMK_TRY(lex_name(&p->lex, "the graph's name", &name));
    TMK_TRY(tmk_graph_create_sub(outer->graph, name, &scope.graph, p->lex.diag));
    enum tmk_status status = read_graph(p, &scope);
    tmk_map_finish(&scope.values);
    if (status == TMK_OK)
        *out = scope.graph;
    return status;
}

static enum tmk_status read_tensor(struct parser *p, struct tmk_tensor **out) {
    struct tmk_type type;
    const char *at = p->lex.at;
    struct tmk_tensor tensor, *kept = tmk_arena_alloc(&p->scratch, sizeof *kept);
    if (!kept)
        return tmk_nomem(p->lex.diag);
    TMK_TRY(read_type(&p->lex, &type));
    TMK_TRY(read_tensor_elements(&p->lex, at, &type, p->pool, &tensor));
    bool held = tensor_pool_add(&p->held, &tensor);
    *kept = tensor;
    tmk_tensor_finish(&tensor);
    *out = kept;
    return held ? TMK_OK : tmk_nomem(p->lex.diag);
}

/* Anything but a list or a type. */
static enum tmk_status read_item(struct parser *p, struct scope *scope, struct tmk_attr *out) {
    struct lex *lex = &p->lex;
    size_t number = lex_number_length(lex);
    if (number) {
        out->kind = lex->at[number - 1] == 'f' ? TMK_ATTR_FLOAT : TMK_ATTR_INT;
        return out->kind == TMK_ATTR_FLOAT
                   ? read_float_attr(lex, &out->f)
                   : lex_signed(lex, INT64_MIN, INT64_MAX, "an int (floats end in f)", &out->i);
    }
    if (*lex->at == '"') {
        out->kind = TMK_ATTR_STRING;
        return lex_string(lex, "a string", &out->s, &out->n);
    }
    if (lex_take_word(lex, "graph")) {
        out->kind = TMK_ATTR_GRAPH;
        out->n = 1;
        out->graphs = tmk_arena_alloc(&p->scratch, sizeof(struct tmk_graph *));
        return out->graphs ? read_subgraph(p, scope, out->graphs) : tmk_nomem(lex->diag);
    }
    if (*lex->at == '-' || strncmp(lex->at, "inf", 3) == 0 || strncmp(lex->at, "nan", 3) == 0) {
        out->kind = TMK_ATTR_FLOAT;
        return read_float_attr(lex, &out->f);
    }
    out->kind = TMK_ATTR_TENSOR;
    out->n = 1;
    return read_tensor(p, &out->tensors);
}

static enum tmk_status push_item(struct parser *p, struct list *list, const struct tmk_attr *item,
                                 const char *at) {
    switch (item->kind) {
    case TMK_ATTR_INT:
        return append_item(p, list, &item->i, sizeof item->i);
    case TMK_ATTR_FLOAT:
        return append_item(p, list, &item->f, sizeof item->f);
    case TMK_ATTR_STRING:
        if (strlen(item->s) != item->n)
            return lex_fail(&p->lex, at, "\\x00 cannot stand in a list of strings");
        return append_item(p, list, &item->s, sizeof item->s);
    case TMK_ATTR_TENSOR:
        return append_item(p, list, item->tensors, sizeof *item->tensors);
    default:
        return append_item(p, list, item->graphs, sizeof(struct tmk_graph *));
    }
}

static void use_list(struct tmk_attr *attr, const struct list *list) {
    attr->n = list->n;
    switch (attr->kind) {
    case TMK_ATTR_INTS:
        attr->ints = list->items;
        break;
    case TMK_ATTR_FLOATS:
        attr->floats = list->items;
        break;
    case TMK_ATTR_STRINGS:
        attr->strings = list->items;
        break;
    case TMK_ATTR_TENSORS:
        attr->tensors = list->items;
        break;
    default:
        attr->graphs = list->items;
    }
}

static enum tmk_status read_attr(struct parser *p, struct scope *scope, struct tmk_attr *out) {
    static const struct {
        const char *word;
        enum tmk_attr_kind kind;
    } empty[] = {{"floats", TMK_ATTR_FLOATS},
                 {"strings", TMK_ATTR_STRINGS},
                 {"tensors", TMK_ATTR_TENSORS},
                 {"graphs", TMK_ATTR_GRAPHS}};
    struct lex *lex = &p->lex;
    TMK_TRY(lex_word_or_name(lex, false, "an attribute's name", &out->name));
    TMK_TRY(lex_need(lex, '='));
    if (lex_take(lex, '[')) {
        struct list list = {0};
        struct tmk_attr item = {.kind = TMK_ATTR_INT};
        enum tmk_attr_kind first = TMK_ATTR_INT;
        while (!lex_take(&p->lex, ']')) {
            if (list.n)
                TMK_TRY(lex_need(&p->lex, ','));
            lex_peek(&p->lex);
            const char *at = p->lex.at;
            TMK_TRY(read_item(p, scope, &item));
            if (!list.n)
                first = item.kind;
            if (item.kind != first)
                return lex_fail(&p->lex, at, "this differs in kind from the list's first item");
            TMK_TRY(push_item(p, &list, &item, at));
        }
        out->kind = TMK_ATTR_INTS + (first - TMK_ATTR_INT);
        use_list(out, &list);
        return TMK_OK;
    }
    if (lex_take(lex, ':')) {
        struct tmk_type *type = tmk_arena_alloc(&p->scratch, sizeof *type);
        if (!type)
            return tmk_nomem(lex->diag);
        TMK_TRY(read_type(lex, type));
        out->kind = TMK_ATTR_TYPE;
        out->type = type;
        return TMK_OK;
    }
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++)
        if (lex_take_word(lex, empty[i].word)) {
            out->kind = empty[i].kind;
            use_list(out, &(struct list){0});
            TMK_TRY(lex_need(lex, '['));
            return lex_need(lex, ']');
        }
    return read_item(p, scope, out);
}

static enum tmk_status read_attrs(struct parser *p, struct scope *scope, struct list *list) {
    if (!lex_take(&p->lex, '{'))
        return TMK_OK;
    struct tmk_map names = {0};
    enum tmk_status status = TMK_OK;
    do {
        struct tmk_attr attr = {0};
        lex_peek(&p->lex);
        const char *at = p->lex.at;
        status = read_attr(p, scope, &attr);
        if (status == TMK_OK && tmk_map_get(&names, attr.name))
            status = lex_fail(&p->lex, at, "attribute '%.80s' stands here twice", attr.name);
        if (status == TMK_OK && !tmk_map_put(&names, attr.name, &names))
            status = tmk_nomem(p->lex.diag);
        if (status == TMK_OK)
            status = append_item(p, list, &attr, sizeof attr);
    } while (status == TMK_OK && lex_take(&p->lex, ','));
    tmk_map_finish(&names);
    TMK_TRY(status);
    return lex_need(&p->lex, '}');
}

/* ---- nodes ---- */

struct heading {
    const char *domain, *op, *name;
    int64_t version;
};

static enum tmk_status read_inputs(struct parser *p, const struct scope *scope,
                                   struct list *inputs) {
    TMK_TRY(lex_need(&p->lex, '('));
    if (lex_take(&p->lex, ')'))
        return TMK_OK;
    do {
        struct tmk_value *value = NULL;
        if (!lex_take_word(&p->lex, "_"))
            TMK_TRY(read_use(p, scope, &value));
        TMK_TRY(append_item(p, inputs, &value, sizeof(struct tmk_value *)));
    } while (lex_take(&p->lex, ','));
    return lex_need(&p->lex, ')');
}

/* What stands after a node's ':', one entry an output. */
static enum tmk_status read_results(struct parser *p, struct list *outputs) {
    struct fresh *fresh = outputs->items;
    if (!lex_take(&p->lex, ':'))
        return TMK_OK;
    size_t i = 0;
    do {
        lex_peek(&p->lex);
        if (i == outputs->n)
            return lex_fail(&p->lex, p->lex.at, "more types than the node has outputs, %zu", i);
        if (!fresh[i].id && !lex_take_word(&p->lex, "_"))
            return lex_expected(&p->lex, "'_', since this output is absent,");
        if (fresh[i].id) {
            TMK_TRY(read_type(&p->lex, &fresh[i].type));
            TMK_TRY(read_name_and_id(p, &fresh[i]));
        }
        i++;
    } while (lex_take(&p->lex, ','));
    if (i < outputs->n)
        return lex_fail(&p->lex, p->lex.at,
                        "%zu types for the node's %zu outputs; ? stands for one not known", i,
                        outputs->n);
    return TMK_OK;
}

static enum tmk_status read_node(struct parser *p, struct scope *scope) {
    struct list outputs = {0}, inputs = {0}, attrs = {0}, names = {0};
    struct heading heading;
    struct tmk_node *node;
    if (!lex_take(&p->lex, '=')) {
        do {
            struct fresh fresh = {.profile_id = -1};
            if (!lex_take_word(&p->lex, "_"))
                TMK_TRY(read_fresh(p, scope, &fresh));
            TMK_TRY(append_item(p, &outputs, &fresh, sizeof fresh));
        } while (lex_take(&p->lex, ','));
        TMK_TRY(lex_need(&p->lex, '='));
    }
    struct lex *lex = &p->lex;
    heading.domain = TMK_DOMAIN_ONNX;
    heading.name = "";
    TMK_TRY(lex_word_or_name(lex, true, "an operator", &heading.op));
    if (lex_take_word(lex, "::")) {
        heading.domain = heading.op;
        TMK_TRY(lex_word_or_name(lex, true, "an operator", &heading.op));
    }
    heading.version = tmk_graph_opset(scope->graph, heading.domain);
    if (lex_take(lex, '.'))
        TMK_TRY(lex_signed(lex, INT64_MIN, INT64_MAX, "an operator set version", &heading.version));
    TMK_TRY(read_inputs(p, scope, &inputs));
    TMK_TRY(read_attrs(p, scope, &attrs));
    if (lex_peek(&p->lex) == '"')
        TMK_TRY(lex_name(&p->lex, "the node's name", &heading.name));
    TMK_TRY(read_results(p, &outputs));
    const struct fresh *fresh = outputs.items;
    for (size_t i = 0; i < outputs.n; i++)
        TMK_TRY(append_item(p, &names, &fresh[i].name, sizeof fresh[i].name));
    TMK_TRY(tmk_graph_add_node(
        scope->graph, NULL,
        &(struct tmk_node_spec){heading.domain, heading.op, heading.name, heading.version,
                                inputs.items, (uint32_t)inputs.n, names.items, (uint32_t)outputs.n},
        &node, p->lex.diag));
    const struct tmk_attr *attr = attrs.items;
    for (size_t i = 0; i < attrs.n; i++)
        TMK_TRY(tmk_node_set_attr(node, &attr[i], p->lex.diag));
    for (size_t i = 0; i < outputs.n; i++)
        if (fresh[i].id) {
            TMK_TRY(tmk_value_set_type(node->outputs[i], &fresh[i].type, p->lex.diag));
            TMK_TRY(define_value(p, scope, &fresh[i], node->outputs[i]));
        }
    return TMK_OK;
}

/* ---- graphs ---- */

static enum tmk_status read_input(struct parser *p, struct scope *scope) {
    struct fresh fresh;
    struct tmk_value *value;
    TMK_TRY(read_fresh(p, scope, &fresh));
    TMK_TRY(lex_need(&p->lex, ':'));
    TMK_TRY(read_type(&p->lex, &fresh.type));
    TMK_TRY(read_name_and_id(p, &fresh));
    TMK_TRY(tmk_graph_add_input(scope->graph, fresh.name, &fresh.type, &value, p->lex.diag));
    return define_value(p, scope, &fresh, value);
}

static enum tmk_status read_initializer(struct parser *p, struct scope *scope) {
    struct fresh fresh;
    struct tmk_value *value;
    struct tmk_tensor tensor;
    TMK_TRY(read_fresh(p, scope, &fresh));
    TMK_TRY(lex_need(&p->lex, ':'));
    lex_peek(&p->lex);
    const char *at = p->lex.at;
    TMK_TRY(read_type(&p->lex, &fresh.type));
    TMK_TRY(lex_need(&p->lex, '='));
    TMK_TRY(read_tensor_elements(&p->lex, at, &fresh.type, p->pool, &tensor));
    enum tmk_status status = read_name_and_id(p, &fresh);
    if (status == TMK_OK)
        status = tmk_graph_add_initializer(scope->graph, fresh.name, &tensor, &value, p->lex.diag);
    tmk_tensor_finish(&tensor);
    TMK_TRY(status);
    return define_value(p, scope, &fresh, value);
}

/* From after the name to the closing brace. */
static enum tmk_status read_graph(struct parser *p, struct scope *scope) {
    struct tmk_value *value = NULL;
    TMK_TRY(lex_need(&p->lex, '{'));
    while (!lex_take(&p->lex, '}')) {
        if (lex_take_word(&p->lex, "input")) {
            TMK_TRY(read_input(p, scope));
        } else if (lex_take_word(&p->lex, "init")) {
            TMK_TRY(read_initializer(p, scope));
        } else if (lex_take_word(&p->lex, "output")) {
            TMK_TRY(read_use(p, scope, &value));
            TMK_TRY(tmk_graph_add_output(scope->graph, value, p->lex.diag));
        } else {
            char c = lex_peek(&p->lex);
            if (c != '%' && c != '_' && c != '=')
                return lex_expected(&p->lex, "input, init, output, a node or '}'");
            TMK_TRY(read_node(p, scope));
        }
    }
    return TMK_OK;
}

static enum tmk_status read_opsets(struct parser *p, struct tmk_graph *root) {
    do {
        const char *domain = TMK_DOMAIN_ONNX, *at = p->lex.at;
        int64_t version;
        if (lex_peek(&p->lex) == '"')
            TMK_TRY(lex_name(&p->lex, "a domain", &domain));
        TMK_TRY(lex_signed(&p->lex, INT64_MIN, INT64_MAX, "an operator set version", &version));
        for (uint32_t i = 0; i < root->n_opsets; i++)
            if (strcmp(root->opsets[i].domain, domain) == 0)
                return lex_fail(&p->lex, at, "operator set \"%.80s\" stands here twice", domain);
        TMK_TRY(tmk_graph_set_opset(root, domain, version, p->lex.diag));
    } while (lex_peek(&p->lex) == '"' || lex_number_length(&p->lex));
    return TMK_OK;
}

static enum tmk_status read_root(struct parser *p, struct scope *scope) {
    struct lex *lex = &p->lex;
    const char *name, *producer;
    if (!lex_take_word(lex, "graph"))
        return lex_expected(lex, "'graph'");
    TMK_TRY(lex_name(lex, "the graph's name", &name));
    TMK_TRY(tmk_graph_create(name, &scope->graph, lex->diag));
    if (lex_take_word(lex, "opset"))
        TMK_TRY(read_opsets(p, scope->graph));
    if (lex_take_word(lex, "ir"))
        TMK_TRY(lex_signed(lex, INT64_MIN, INT64_MAX, "an IR version", &scope->graph->ir_version));
    if (lex_take_word(lex, "producer")) {
        TMK_TRY(lex_name(lex, "the producer", &producer));
        scope->graph->producer_name = tmk_arena_strdup(scope->graph->arena, producer);
        if (!scope->graph->producer_name)
            return tmk_nomem(lex->diag);
    }
    TMK_TRY(read_graph(p, scope));
    if (lex_peek(lex))
        return lex_expected(lex, "nothing after the graph");
    return tmk_graph_verify(scope->graph, lex->diag);
}

enum tmk_status parse_graph(const char *text, const struct tensor_pool *pool,
                            struct tmk_graph **out, struct tmk_diag *diag) {
    struct parser p = {.lex = {text, text, NULL, diag}, .pool = pool};
    struct scope scope = {.depth = 1};
    p.lex.arena = &p.scratch;
    enum tmk_status status = read_root(&p, &scope);
    tmk_map_finish(&scope.values);
    tensor_pool_finish(&p.held);
    tmk_arena_finish(&p.scratch);
    if (status == TMK_OK)
        *out = scope.graph;
    else
        tmk_graph_destroy(&scope.graph);
    return status;
}
