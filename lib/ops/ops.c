/* SPDX-License-Identifier: Apache-2.0 */
/* The list of operators, and what is done the same way for each of them. */
#include "ops/ops.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/text.h"
#include "ops/cost.h"
#include "tensor/list.h"
#include "tensor/shape.h"

/* Which results are sequences or optionals, where the model does not declare it. */

static enum tmk_type_kind optional_of(enum tmk_type_kind kind) {
    return kind == TMK_TYPE_SEQUENCE ? TMK_TYPE_OPTIONAL_SEQUENCE : TMK_TYPE_OPTIONAL;
}

static enum tmk_type_kind element_of(enum tmk_type_kind kind) {
    return kind == TMK_TYPE_OPTIONAL            ? TMK_TYPE_TENSOR
           : kind == TMK_TYPE_OPTIONAL_SEQUENCE ? TMK_TYPE_SEQUENCE
                                                : kind;
}

static enum tmk_type_kind operand_kind(const struct tmk_node *node, uint32_t i) {
    return i < node->n_inputs && node->inputs[i] ? node->inputs[i]->type.kind : TMK_TYPE_TENSOR;
}

/* The kind of output i of the node's graph. */
static enum tmk_type_kind made_by_graph(const struct tmk_node *node, const char *name, uint32_t i) {
    const struct tmk_graph *graph = tmk_node_attr(node, name)->graphs[0];
    return i < graph->n_outputs ? graph->outputs[i]->type.kind : TMK_TYPE_TENSOR;
}

static enum tmk_type_kind kind_of(const struct tmk_node *node, uint32_t i) {
    if (node->row->flags & TMK_OP_MAKES_SEQUENCES)
        return TMK_TYPE_SEQUENCE;
    if (tmk_node_is(node, "ai.onnx.ml",
                    "ZipMap")) /* to all others; here the scores stay a tensor */
        return TMK_TYPE_SEQUENCE;
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "Identity") || tmk_node_is_observer(node))
        return operand_kind(node, 0);
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "Optional")) {
        const struct tmk_attr *type = tmk_node_attr(node, "type");
        return optional_of(type ? type->type->kind : operand_kind(node, 0));
    }
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "OptionalGetElement"))
        return element_of(operand_kind(node, 0));
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "If"))
        return made_by_graph(node, "then_branch", i);
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "Loop") && i + 2 < node->n_inputs)
        return made_by_graph(node, "body", i + 1);
    return TMK_TYPE_TENSOR;
}

static void set_kind(struct tmk_value *value, enum tmk_type_kind kind) {
    if (value && value->type.kind == TMK_TYPE_TENSOR && value->type.dtype == TMK_UNDEFINED)
        value->type.kind = kind;
}

static void set_carried_kinds(const struct tmk_node *node) {
    const struct tmk_graph *body = tmk_node_attr(node, "body")->graphs[0];
    for (uint32_t i = 2; i < node->n_inputs && i < body->n_inputs; i++)
        set_kind(body->inputs[i], operand_kind(node, i));
}

void tmk_ops_kinds(struct tmk_graph *graph) {
    for (struct tmk_node *node = graph->first; node; node = node->next) {
        if (!node->row)
            continue;
        if (tmk_node_is(node, TMK_DOMAIN_ONNX, "Loop"))
            set_carried_kinds(node);
        for (struct tmk_graph *g = NULL; (g = tmk_node_next_graph(node, g));)
            tmk_ops_kinds(g);
        for (uint32_t i = 0; i < node->n_outputs; i++)
            set_kind(node->outputs[i], kind_of(node, i));
    }
}

static const struct tmk_op *const lists[] = {
#define TMK_OPS(file) tmk_ops_##file,
#include "ops/list.inc"
#undef TMK_OPS
    NULL,
};

const struct tmk_op *const *tmk_op_list(void) {
    return lists;
}

static const struct tmk_op *find_from(const struct tmk_op *const *list, const char *domain,
                                      const char *name, int64_t version) {
    for (; *list; list++)
        for (const struct tmk_op *row = *list; row->name; row++)
            if (version >= row->since && version <= row->until && strcmp(row->name, name) == 0 &&
                strcmp(row->domain, domain) == 0)
                return row;
    return NULL;
}

const struct tmk_op *tmk_op_find(const char *domain, const char *name, int64_t version) {
    return find_from(lists, domain, name, version);
}

static const char *const attr_kinds[] = {"int",    "float",   "string",  "tensor", "graph", "ints",
                                         "floats", "strings", "tensors", "graphs", "type"};

bool tmk_attr_rule_next(const char **at, struct tmk_attr_rule *rule) {
    const char *colon = *at ? strchr(*at, ':') : NULL;
    if (!colon || (size_t)(colon - *at) >= sizeof rule->name)
        return false;
    const size_t kind = strcspn(colon + 1, "! ");
    const char *end = colon + 1 + kind;
    *rule = (struct tmk_attr_rule){.required = *end == '!'};
    memcpy(rule->name, *at, (size_t)(colon - *at));
    for (; rule->kind < TMK_COUNT(attr_kinds); rule->kind++)
        if (strlen(attr_kinds[rule->kind]) == kind &&
            memcmp(attr_kinds[rule->kind], colon + 1, kind) == 0) {
            *at = end + strspn(end, "! ");
            return true;
        }
    return false;
}

bool tmk_inner_rule_next(const char **at, struct tmk_inner_rule *rule) {
    const char *colon = *at ? strchr(*at, ':') : NULL;
    char *end;
    if (!colon || (size_t)(colon - *at) >= sizeof rule->name)
        return false;
    *rule = (struct tmk_inner_rule){.output = (uint32_t)strtoul(colon + 1, &end, 10)};
    memcpy(rule->name, *at, (size_t)(colon - *at));
    *at = end + (*end == ' ');
    return true;
}

bool tmk_op_takes_attr(const struct tmk_op *row, const char *name) {
    struct tmk_attr_rule rule;
    for (const char *at = row->attrs; tmk_attr_rule_next(&at, &rule);)
        if (strcmp(rule.name, name) == 0)
            return true;
    return false;
}

/* ---- binding ---- */

/* How many of n values a node names, without absent ones at the end. */
static uint32_t count_named(struct tmk_value *const *values, uint32_t n) {
    while (n && !values[n - 1])
        n--;
    return n;
}

static enum tmk_status check_counts(const struct tmk_node *node, struct tmk_diag *diag) {
    const struct tmk_op *op = node->row;
    int64_t most_in = op->max_in == TMK_VARIADIC ? TMK_MAX_INPUTS : op->max_in;
    int64_t most_out = op->max_out == TMK_VARIADIC ? TMK_MAX_OUTPUTS : op->max_out;
    if (node->n_inputs < (uint32_t)op->min_in ||
        count_named(node->inputs, node->n_inputs) > most_in)
        return tmk_fail(diag, TMK_GRAPH, "takes %d to %lld inputs, but has %u", op->min_in,
                        (long long)most_in, node->n_inputs);
    if (node->n_outputs < (uint32_t)op->min_out ||
        count_named(node->outputs, node->n_outputs) > most_out)
        return tmk_fail(diag, TMK_GRAPH, "makes %d to %lld outputs, but %u are named", op->min_out,
                        (long long)most_out, node->n_outputs);
    for (int32_t i = 0; i < op->min_in; i++)
        if (!node->inputs[i])
            return tmk_fail(diag, TMK_GRAPH, "needs its input %d, which is absent", i);
    return TMK_OK;
}

/* An attribute that the operator does not have would change nothing, whatever its writer hoped for.
 * Names with "__" in front are notes of whoever wrote the file, to ONNX's checker, too. */
static enum tmk_status check_known(const struct tmk_node *node, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < node->n_attrs; i++)
        if (strncmp(node->attrs[i].name, "__", 2) != 0 &&
            !tmk_op_takes_attr(node->row, node->attrs[i].name))
            return tmk_fail(diag, TMK_GRAPH, "has no attribute '%s'", node->attrs[i].name);
    return TMK_OK;
}

static enum tmk_status check_attrs(const struct tmk_node *node, struct tmk_diag *diag) {
    struct tmk_attr_rule rule;
    for (const char *at = node->row->attrs; tmk_attr_rule_next(&at, &rule);) {
        const struct tmk_attr *attr = tmk_node_attr(node, rule.name);
        if (!attr && rule.required)
            return tmk_fail(diag, TMK_GRAPH, "lacks its attribute '%s'", rule.name);
        if (attr && attr->kind != rule.kind)
            return tmk_fail(diag, TMK_GRAPH, "attribute '%s' must be of kind %s, but is %s",
                            rule.name, attr_kinds[rule.kind], attr_kinds[attr->kind]);
    }
    return TMK_OK;
}

/* What the user of a model with the operator may do; "": nothing but without it. */
static const char *remedy_of(const struct tmk_node *node) {
    static const struct {
        const char *domain, *op; /* op NULL: every other one of the domain */
        const char *remedy;
    } known[] = {
        {"com.microsoft.nchwc", NULL,
         "; the model was optimized for one processor and its weights are in that one's blocks: "
         "save it with ONNX Runtime's optimizations up to ORT_ENABLE_EXTENDED"},
        {"com.microsoft", "BeamSearch", "; profile the decoder in its attribute 'decoder' alone"},
        {"com.microsoft", "GreedySearch", "; profile the decoder in its attribute 'decoder' alone"},
        {"com.microsoft", "Sampling", "; profile the decoder in its attribute 'decoder' alone"},
        {"com.microsoft", "WhisperBeamSearch",
         "; profile the decoder in its attribute 'decoder' alone"},
        {"com.microsoft", "Tokenizer", "; feed the model token ids and cut the operator off"},
    };
    for (size_t i = 0; i < TMK_COUNT(known); i++)
        if (strcmp(node->domain, known[i].domain) == 0 &&
            (!known[i].op || strcmp(node->op, known[i].op) == 0))
            return known[i].remedy;
    return "";
}

struct binding {
    struct tmk_diag *diag;
    enum tmk_status status;
    struct tmk_text unknown;   /* "Foo.13 (node 'a', node 'b'), ..." */
    size_t n_unknown, n_named; /* nodes; operators of the graph at hand */
    struct tmk_map named;      /* of the graph at hand: "domain::op" */
    struct tmk_arena keys;
    const char *remedy; /* of the first operator that has one; NULL: none yet */
};

/* Was the operator named for an earlier node of the graph? From now on it was. */
static bool was_named(struct binding *b, const struct tmk_node *node) {
    struct tmk_text text = {0};
    tmk_text_printf(&text, "%s::%s", node->domain, node->op);
    const bool named = !text.failed && tmk_map_get(&b->named, text.data);
    char *key = text.failed || named ? NULL : tmk_arena_strdup(&b->keys, text.data);
    if (!named && (!key || !tmk_map_put(&b->named, key, key)))
        b->unknown.failed = true;
    tmk_text_finish(&text);
    return named;
}

/* One entry an operator; the nodes beyond the first few of one operator are counted. */
static void name_unknown(struct binding *b, const struct tmk_node *node) {
    enum { MOST_NODES = 4, MOST_OPERATORS = 32 };
    b->n_unknown++;
    if (!b->remedy || !b->remedy[0])
        b->remedy = remedy_of(node);
    if (b->n_named > MOST_OPERATORS || was_named(b, node))
        return;
    if (++b->n_named > MOST_OPERATORS) {
        tmk_text_puts(&b->unknown, "; and others");
        return;
    }
    size_t nodes = 0;
    tmk_text_printf(&b->unknown, "%s%s%s%s (operator set %lld): ", b->unknown.len ? "; " : "",
                    node->domain, node->domain[0] ? "::" : "", node->op, (long long)node->version);
    for (const struct tmk_node *other = node; other; other = other->next) {
        if (other->row || !tmk_node_is(other, node->domain, node->op))
            continue;
        if (nodes++ < MOST_NODES)
            tmk_text_printf(&b->unknown, "%s%s", nodes > 1 ? ", " : "", TMK_NODE_LABEL(other));
    }
    if (nodes > MOST_NODES)
        tmk_text_printf(&b->unknown, " and %zu more", nodes - MOST_NODES);
}

/* From here on, indexing all rows costs less than comparing each node with them. */
enum { MANY_NODES = 16 };

static bool has_many_nodes(const struct tmk_graph *root) {
    size_t n = 0;
    for (const struct tmk_graph *g = root; g && n < MANY_NODES; g = tmk_graph_next(root, g))
        n += g->n_nodes;
    return n >= MANY_NODES;
}

/* The first list with each name. */
static enum tmk_status index_rows(struct tmk_map *first, struct tmk_diag *diag) {
    for (const struct tmk_op *const *list = lists; *list; list++)
        for (const struct tmk_op *row = *list; row->name; row++)
            if (!tmk_map_get(first, row->name) &&
                !tmk_map_put(first, row->name, (void *)(uintptr_t)list))
                return tmk_nomem(diag);
    return TMK_OK;
}

/* first: empty where rows are not indexed. */
static void find_rows(struct tmk_graph *graph, const struct tmk_map *first) {
    for (struct tmk_node *node = graph->first; node; node = node->next) {
        const struct tmk_op *const *from = first->used ? tmk_map_get(first, node->op) : lists;
        node->row = from ? find_from(from, node->domain, node->op, node->version) : NULL;
    }
}

static void check_rows(struct tmk_graph *graph, struct binding *b) {
    tmk_map_finish(&b->named);
    b->n_named = 0;
    for (struct tmk_node *node = graph->first; node && b->status == TMK_OK; node = node->next) {
        if (!node->row) {
            name_unknown(b, node);
            continue;
        }
        b->status = check_counts(node, b->diag);
        if (b->status == TMK_OK)
            b->status = check_attrs(node, b->diag);
        if (b->status == TMK_OK)
            b->status = check_known(node, b->diag);
        if (b->status != TMK_OK) {
            b->status = tmk_in(b->diag, b->status, "node %s", TMK_NODE_LABEL(node));
        }
    }
}

enum tmk_status tmk_ops_bind(struct tmk_graph *graph, struct tmk_diag *diag) {
    struct tmk_map first = {0};
    struct binding b = {.diag = diag};
    if (has_many_nodes(graph))
        b.status = index_rows(&first, diag);
    for (struct tmk_graph *g = graph; g && b.status == TMK_OK; g = tmk_graph_next(graph, g))
        find_rows(g, &first);
    for (struct tmk_graph *g = graph; g && b.status == TMK_OK; g = tmk_graph_next(graph, g))
        check_rows(g, &b);
    tmk_map_finish(&first);
    if (b.status == TMK_OK && b.n_unknown)
        b.status = b.unknown.failed ? tmk_nomem(diag)
                                    : tmk_fail(diag, TMK_UNSUPPORTED,
                                               "%zu nodes use unsupported operators: %s%s",
                                               b.n_unknown, b.unknown.data, b.remedy);
    tmk_text_finish(&b.unknown);
    tmk_map_finish(&b.named);
    tmk_arena_finish(&b.keys);
    return b.status;
}

/* ---- inferring and running ---- */

static enum tmk_status want_tensors(const struct tmk_node *node, const struct tmk_tensor *const *in,
                                    struct tmk_diag *diag) {
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (in[i] && in[i]->kind != TMK_TYPE_TENSOR)
            return tmk_fail(diag, TMK_TYPE, "input %u must be a tensor, but is %s", i,
                            tmk_tensor_what(in[i]));
    return TMK_OK;
}

enum tmk_status tmk_op_infer(const struct tmk_node *node, const struct tmk_tensor *const *in,
                             struct tmk_infer_result *out, struct tmk_diag *diag) {
    memset(out, 0, node->n_outputs * sizeof *out);
    if (!(node->row->flags & TMK_OP_TAKES_ANY))
        TMK_TRY(want_tensors(node, in, diag));
    struct tmk_infer infer = {node, node->n_inputs, node->n_outputs, in, out, diag};
    TMK_TRY(node->row->infer(&infer));
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        size_t count, bytes;
        if (!out[i].known)
            continue;
        if (!tmk_shape_count(&out[i].shape, &count) ||
            !tmk_mul_size(count, tmk_dtype_size(out[i].dtype), &bytes) || bytes > PTRDIFF_MAX / 2)
            return tmk_fail(diag, TMK_RANGE, "output %u would be too large: %s", i,
                            TMK_SHAPE_TEXT(&out[i].shape));
        if (!tmk_is_shown(node, i) && !tmk_memory_fits(bytes))
            return tmk_memory_fail(diag, bytes, "output %u of shape %s", i,
                                   TMK_SHAPE_TEXT(&out[i].shape));
        if (!tmk_dtype_size(out[i].dtype))
            return tmk_fail(diag, TMK_TYPE, "output %u of type %s is not supported", i,
                            tmk_dtype_name(out[i].dtype));
    }
    return TMK_OK;
}

enum tmk_status tmk_run_kernel(struct tmk_run *run) {
    const unsigned flags = run->node->row->flags;
    bool runs = flags & (TMK_OP_IMPURE | TMK_OP_SIZES_ITSELF);
    for (uint32_t i = 0; i < run->n_out && !runs; i++)
        runs = run->out[i] && (flags & TMK_OP_CHECKS || tmk_tensor_count(run->out[i]) > 0);
    return runs ? run->node->row->run(run) : TMK_OK;
}

struct heap_run {
    struct tmk_tensor *out;
    void *scratch[64];
    size_t n_scratch;
};

static void *heap_scratch(void *context, size_t bytes) {
    struct heap_run *h = context;
    if (h->n_scratch == TMK_COUNT(h->scratch))
        return NULL;
    void *p = tmk_memory_aligned(bytes);
    if (p)
        h->scratch[h->n_scratch++] = p;
    return p;
}

static enum tmk_status heap_alloc(void *context, uint32_t i, enum tmk_dtype dtype,
                                  const struct tmk_shape *shape, struct tmk_diag *diag) {
    struct heap_run *h = context;
    tmk_tensor_finish(&h->out[i]);
    return tmk_tensor_init(&h->out[i], dtype, shape, diag);
}

static enum tmk_status run_prepared(const struct tmk_node *node, const struct tmk_tensor *const *in,
                                    struct tmk_tensor *out, struct tmk_tensor **wanted,
                                    struct tmk_infer_result *results, struct tmk_diag *diag) {
    TMK_TRY(tmk_op_infer(node, in, results, diag));
    const double cost = tmk_op_cost(node, in, results);
    TMK_TRY(tmk_cost_check(cost, cost, diag));
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        if (!node->outputs[i])
            continue;
        wanted[i] = &out[i];
        if (results[i].known)
            TMK_TRY(tmk_tensor_init(&out[i], results[i].dtype, &results[i].shape, diag));
    }
    struct heap_run heap = {.out = out};
    struct tmk_run run = {node,         node->n_inputs, node->n_outputs, in,  wanted,
                          heap_scratch, heap_alloc,     &heap,           diag};
    enum tmk_status status = tmk_run_kernel(&run);
    while (heap.n_scratch)
        tmk_memory_free(heap.scratch[--heap.n_scratch]);
    return status;
}

enum tmk_status tmk_op_run(const struct tmk_node *node, const struct tmk_tensor *const *in,
                           struct tmk_tensor *out, struct tmk_diag *diag) {
    memset(out, 0, node->n_outputs * sizeof *out);
    struct tmk_tensor **wanted = calloc(node->n_outputs + 1u, sizeof(struct tmk_tensor *));
    struct tmk_infer_result *results = calloc(node->n_outputs + 1u, sizeof *results);
    enum tmk_status status =
        wanted && results ? run_prepared(node, in, out, wanted, results, diag) : tmk_nomem(diag);
    free(wanted);
    free(results);
    if (status != TMK_OK)
        for (uint32_t i = 0; i < node->n_outputs; i++)
            tmk_tensor_finish(&out[i]);
    return status;
}

int32_t tmk_op_channel_axis(const struct tmk_node *node, int32_t input_axis,
                            const struct tmk_shape *in, const struct tmk_shape *out) {
    switch (node->row->channel) {
    case TMK_CHANNEL_AXIS1:
        return out->rank >= 2 ? 1 : -1;
    case TMK_CHANNEL_LAST:
        return out->rank >= 2 ? out->rank - 1 : -1;
    case TMK_CHANNEL_INHERIT:
        return in && tmk_shape_equal(in, out) ? input_axis : -1;
    case TMK_CHANNEL_NONE:
        break;
    }
    return -1;
}

bool tmk_op_is_product(const struct tmk_node *node) {
    return !node->domain[0] && tmk_node_traits(node)->class == TMK_OP_MACC;
}

int32_t tmk_op_weight_axis(const struct tmk_node *node) {
    switch (tmk_node_traits(node)->product) {
    case TMK_PRODUCT_CONV:
        return 0;
    case TMK_PRODUCT_CONV_TRANSPOSED:
        return 1;
    case TMK_PRODUCT_MATRIX:
        return tmk_node_int(node, "transB", 0) ? 0 : 1;
    case TMK_PRODUCT_NONE:
        break;
    }
    return -1;
}
