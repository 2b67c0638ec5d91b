/* SPDX-License-Identifier: Apache-2.0 */
/* The graph executor's JSON (relay.build) as a module. Kernels are fused and have lost their
 * attributes, so only those are read whose names, shapes and layouts leave one meaning. */
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/size.h"
#include "relay/builder.h"
#include "relay/lower.h"
#include "relay/read.h"

/* One result of a node. */
struct entry {
    struct tmk_shape shape;
    enum tmk_dtype dtype;
    struct tmk_relay_expr *expr; /* NULL: of a kernel that is not read */
};

struct reader {
    const char *name;
    struct tmk_relay_builder build;
    struct entry *entries;
    size_t *first; /* node -> its first entry */
    size_t n_nodes, n_entries;
    struct tmk_text unread; /* kernels */
    struct tmk_diag *diag;
};

#define node_fail(in, i, ...) (set_node_diag(in, i, __VA_ARGS__), TMK_FORMAT)
static void set_node_diag(const struct reader *in, size_t i, const char *what) {
    tmk_diag_set(in->diag, TMK_FORMAT, "%s: node %zu: %s", in->name, i, what);
}

static const char *string_of(const cJSON *object, const char *key) {
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
}

/* A whole number below `limit`. */
static bool index_of(const cJSON *item, size_t limit, size_t *out) {
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) || item->valuedouble >= (double)limit)
        return false;
    *out = (size_t)item->valuedouble;
    return (double)*out == item->valuedouble;
}

/* attrs.key is ["list_...", [...]]: the list. */
static const cJSON *find_list(const cJSON *attrs, const char *key) {
    return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(attrs, key), 1);
}

static bool read_shape(const cJSON *list, struct tmk_shape *out) {
    struct tmk_shape shape = {0};
    size_t dim, count;
    if (!cJSON_IsArray(list))
        return false;
    for (const cJSON *item = list->child; item; item = item->next) {
        if (shape.rank == TMK_MAX_RANK || !index_of(item, (size_t)1 << 40, &dim))
            return false;
        shape.dim[shape.rank++] = (int64_t)dim;
    }
    *out = shape;
    return tmk_shape_count(&shape, &count);
}

static enum tmk_status read_entries(struct reader *in, const cJSON *attrs) {
    const cJSON *shapes = find_list(attrs, "shape"), *types = find_list(attrs, "dltype");
    if (!shapes || !types || (size_t)cJSON_GetArraySize(shapes) != in->n_entries ||
        (size_t)cJSON_GetArraySize(types) != in->n_entries)
        return tmk_fail(in->diag, TMK_FORMAT,
                        "%s: attrs: shape and dltype do not have one item for each of %zu results",
                        in->name, in->n_entries);
    in->entries = calloc(in->n_entries + 1, sizeof *in->entries);
    TMK_TRY_ALLOC(in->entries, in->diag);
    const cJSON *shape = shapes->child, *type = types->child;
    for (size_t i = 0; i < in->n_entries; i++, shape = shape->next, type = type->next) {
        const char *dtype = cJSON_GetStringValue(type);
        if (!read_shape(shape, &in->entries[i].shape))
            return tmk_fail(in->diag, TMK_FORMAT, "%s: attrs: shape %zu is none", in->name, i);
        in->entries[i].dtype = dtype ? tmk_relay_dtype(dtype) : TMK_UNDEFINED;
        if (in->entries[i].dtype == TMK_UNDEFINED)
            return tmk_fail(in->diag, TMK_FORMAT, "%s: attrs: dltype %zu is none that is known",
                            in->name, i);
    }
    return TMK_OK;
}

/* [node, result, version] of a node before `limit`. */
static enum tmk_status find_entry(struct reader *in, size_t from, const cJSON *link, size_t limit,
                                  const struct entry **out) {
    size_t node = 0, result = 0;
    if (!index_of(cJSON_GetArrayItem(link, 0), limit, &node) ||
        !index_of(cJSON_GetArrayItem(link, 1), in->first[node + 1] - in->first[node], &result))
        return node_fail(in, from, "an input that no node before it makes");
    *out = &in->entries[in->first[node] + result];
    return TMK_OK;
}

/* ---- names of kernels ---- */

/* What an operator needs besides its operands, all of which the graph's JSON has. */
enum need {
    NEEDS_NOTHING,
    NEEDS_SHAPE,  /* of its result: reshape and the like */
    NEEDS_DTYPE,  /* of its result: cast */
    NEEDS_LAYOUT, /* src_layout and dst_layout of the node */
    NEEDS_UNITS,  /* nn.dense: the weight's first dimension */
    NEEDS_BIAS,   /* nn.bias_add: two dimensions, of which one fits */
    NEEDS_LAST    /* softmax: two dimensions at most */
};
struct kernel_op {
    const char *op; /* Relay's, or what it amounts to */
    enum need needs;
    uint32_t arity;
};

enum { KERNEL_MAX = 16, KERNEL_MAX_ARITY = 3 };

/* Operators whose attributes other parts of the file have, and those with another name. */
static const struct {
    const char *kernel;
    struct kernel_op op;
} special[] = {
    {"broadcast_to", {"broadcast_to", NEEDS_SHAPE, 1}},
    {"cast", {"cast", NEEDS_DTYPE, 1}},
    {"copy", {"copy", NEEDS_NOTHING, 1}},
    {"expand_dims", {"reshape", NEEDS_SHAPE, 1}},
    {"layout_transform", {"layout_transform", NEEDS_LAYOUT, 1}},
    {"nn_bias_add", {"nn.bias_add", NEEDS_BIAS, 2}},
    {"nn_dense", {"nn.dense", NEEDS_UNITS, 2}},
    {"nn_log_softmax", {"nn.log_softmax", NEEDS_LAST, 1}},
    {"nn_softmax", {"nn.softmax", NEEDS_LAST, 1}},
    {"reshape", {"reshape", NEEDS_SHAPE, 1}},
    {"squeeze", {"reshape", NEEDS_SHAPE, 1}},
    {"_copy", {"copy", NEEDS_NOTHING, 1}},
    {"_nop", {"reshape", NEEDS_SHAPE, 1}}, /* "__nop": a reshape that moves nothing */
};

/* Kernels have '_' for '.'. */
static bool begins_with(const char *name, const char *op, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (name[i] != (op[i] == '.' ? '_' : op[i]))
            return false;
    return !name[n] || name[n] == '_';
}

/* The longest operator that the name begins with, up to its end or an underscore; its length. */
static size_t find_op(const char *name, struct kernel_op *out) {
    size_t len = 0;
    for (size_t i = 0; i < TMK_COUNT(special); i++) {
        const size_t n = strlen(special[i].kernel);
        if (n > len && begins_with(name, special[i].kernel, n)) {
            *out = special[i].op;
            len = n;
        }
    }
    for (size_t i = 0; tmk_relay_ops[i]; i++)
        for (const struct tmk_relay_op *op = tmk_relay_ops[i]; op->name; op++) {
            const size_t n = strlen(op->name);
            const bool plain =
                !op->attrs[0] && !(op->flags & (TMK_RELAY_TAKES_TUPLE | TMK_RELAY_ALIAS)) &&
                op->min_in == op->max_in && op->min_in >= 1 && op->min_in <= KERNEL_MAX_ARITY;
            if (plain && n > len && begins_with(name, op->name, n)) {
                *out = (struct kernel_op){op->name, NEEDS_NOTHING, op->min_in};
                len = n;
            }
        }
    return len;
}

/* The operators of a kernel such as "tvmgen_default_fused_nn_dense_add_nn_relu_2", in the order in
 * which they run. 0: there are others among them, or more than KERNEL_MAX. */
static uint32_t kernel_ops(const char *name, struct kernel_op ops[KERNEL_MAX]) {
    const char *fused = strstr(name, "fused_");
    const char *at = fused ? fused + strlen("fused_") : name + (name[0] == '_');
    uint32_t n = 0;
    while (n < KERNEL_MAX) {
        const size_t len = find_op(at, &ops[n]);
        if (!len)
            return 0;
        n++;
        at += len;
        if (!*at || tmk_relay_is_digits(at + 1)) /* a counter that makes names differ */
            return n;
        at++;
    }
    return 0;
}

/* ---- kernels ---- */

/* A kernel on its way to be read. */
struct kernel {
    struct kernel_op ops[KERNEL_MAX];
    uint32_t n_ops, n_inputs;
    const struct entry *inputs[KERNEL_MAX];
    const struct entry *result;
    const char *src_layout, *dst_layout;
};

/* Do x and w, the operands of nn.dense, give what the kernel gives? */
static bool fits_dense(const struct kernel *kernel, const struct entry *x, const struct entry *w) {
    const struct tmk_shape *a = &x->shape, *b = &w->shape, *y = &kernel->result->shape;
    return a->rank >= 2 && b->rank == 2 && a->dim[a->rank - 1] == b->dim[1] && y->rank >= 1 &&
           y->dim[y->rank - 1] == b->dim[0];
}

/* The operators behind the first take one operand that is not their predecessor's result, or none.
 * An add may have taken it before its predecessor's operands; bit i of `swapped` is
 * for operator i. Sets what operand each takes, and where those of the first begin. */
static bool assign_operands(const struct kernel *kernel, uint32_t swapped,
                            uint32_t fresh[KERNEL_MAX], uint32_t *first) {
    uint32_t front = 0, back;
    for (uint32_t i = kernel->n_ops; i-- > 1;)
        if (swapped >> i & 1)
            fresh[i] = front++;
    *first = front;
    back = front + kernel->ops[0].arity;
    for (uint32_t i = 1; i < kernel->n_ops; i++)
        if (kernel->ops[i].arity == 2 && !(swapped >> i & 1))
            fresh[i] = back++;
    return back == kernel->n_inputs;
}

/* One meaning of the kernel, or false: there is none, or more than one. */
static bool find_meaning(const struct kernel *kernel, uint32_t fresh[KERNEL_MAX], uint32_t *first) {
    uint32_t adds = 0, found = 0, taken = 0;
    for (uint32_t i = 1; i < kernel->n_ops; i++) {
        bool add = !strcmp(kernel->ops[i].op, "add");
        if (kernel->ops[i].arity > 1 && !add && kernel->ops[i].needs != NEEDS_BIAS)
            return false;
        adds |= (uint32_t)add << i;
    }
    if (adds && kernel->ops[0].needs != NEEDS_UNITS)
        return false;
    for (uint32_t swapped = adds;; swapped = (swapped - 1) & adds) {
        if (assign_operands(kernel, swapped, fresh, first) &&
            (kernel->ops[0].needs != NEEDS_UNITS ||
             fits_dense(kernel, kernel->inputs[*first], kernel->inputs[*first + 1]))) {
            found++;
            taken = swapped;
        }
        if (!swapped)
            break;
    }
    return found == 1 && assign_operands(kernel, taken, fresh, first);
}

/* Attributes of operator `op`; false where the file does not have them. */
static bool find_attrs(struct reader *in, const struct kernel *kernel, uint32_t op,
                       const struct entry *second) {
    const struct tmk_shape *shape = &kernel->result->shape;
    bool last = op + 1 == kernel->n_ops, same_shape = true;
    for (uint32_t i = op + 1; i < kernel->n_ops; i++)
        same_shape = same_shape && kernel->ops[i].arity == 1 &&
                     kernel->ops[i].needs != NEEDS_SHAPE && kernel->ops[i].needs != NEEDS_LAYOUT &&
                     strcmp(kernel->ops[i].op, "nn.batch_flatten") != 0;
    switch (kernel->ops[op].needs) {
    case NEEDS_NOTHING:
        return true;
    case NEEDS_SHAPE:
        tmk_rb_set_ints(&in->build, strcmp(kernel->ops[op].op, "reshape") ? "shape" : "newshape",
                        shape->dim, (size_t)shape->rank);
        return same_shape;
    case NEEDS_DTYPE:
        tmk_rb_set_string(&in->build, "dtype", tmk_dtype_name(kernel->result->dtype));
        return last;
    case NEEDS_LAYOUT:
        if (!kernel->src_layout || !kernel->dst_layout)
            return false;
        tmk_rb_set_string(&in->build, "src_layout", kernel->src_layout);
        tmk_rb_set_string(&in->build, "dst_layout", kernel->dst_layout);
        return true;
    case NEEDS_UNITS:
        tmk_rb_set_int(&in->build, "units", second->shape.dim[0]);
        return true;
    case NEEDS_BIAS:
        tmk_rb_set_int(&in->build, "axis", -1);
        return same_shape && shape->rank == 2 && second->shape.rank == 1 &&
               second->shape.dim[0] == shape->dim[1] && shape->dim[0] != shape->dim[1];
    case NEEDS_LAST:
        return same_shape && shape->rank <= 2;
    }
    return false;
}

/* The expression of a kernel; NULL where it has no single meaning. */
static struct tmk_relay_expr *emit_kernel(struct reader *in, const struct kernel *kernel) {
    uint32_t fresh[KERNEL_MAX], first;
    if (!kernel->n_ops || !find_meaning(kernel, fresh, &first))
        return NULL;
    struct tmk_relay_expr *expr = NULL;
    for (uint32_t i = 0; i < kernel->n_ops; i++) {
        struct tmk_relay_expr *args[KERNEL_MAX_ARITY];
        const struct entry *second = NULL;
        uint32_t n = kernel->ops[i].arity;
        for (uint32_t k = 0; !i && k < n; k++)
            args[k] = kernel->inputs[first + k]->expr;
        if (i)
            args[0] = expr;
        if (n > 1)
            second = kernel->inputs[i ? fresh[i] : first + 1];
        if (i && n > 1)
            args[1] = second->expr;
        if (!find_attrs(in, kernel, i, second)) {
            in->build.attrs.n = 0;
            return NULL;
        }
        expr = tmk_rb_call(&in->build, kernel->ops[i].op, args, n);
    }
    return expr;
}

static enum tmk_status read_inputs(struct reader *in, size_t i, const cJSON *node,
                                   struct kernel *kernel, bool *known) {
    const cJSON *inputs = cJSON_GetObjectItemCaseSensitive(node, "inputs");
    *known = true;
    for (const cJSON *link = inputs ? inputs->child : NULL; link; link = link->next) {
        const struct entry *entry;
        TMK_TRY(find_entry(in, i, link, i, &entry));
        *known = *known && entry->expr && kernel->n_inputs < KERNEL_MAX;
        if (kernel->n_inputs < KERNEL_MAX)
            kernel->inputs[kernel->n_inputs++] = entry;
    }
    return TMK_OK;
}

static enum tmk_status read_node(struct reader *in, size_t i, const cJSON *node) {
    const char *op = string_of(node, "op"), *name = string_of(node, "name");
    struct entry *entry = &in->entries[in->first[i]];
    if (!op || !name)
        return node_fail(in, i, "no op or no name");
    if (!strcmp(op, "tvm_op")) {
        const cJSON *attrs = cJSON_GetObjectItemCaseSensitive(node, "attrs");
        const char *func = string_of(attrs, "func_name");
        struct entry *result = &in->entries[in->first[i]];
        bool known;
        if (!func)
            return node_fail(in, i, "no func_name");
        struct kernel kernel = {.result = result,
                                .src_layout = string_of(attrs, "src_layout"),
                                .dst_layout = string_of(attrs, "dst_layout")};
        if (in->first[i + 1] - in->first[i] == 1)
            kernel.n_ops = kernel_ops(func, kernel.ops);
        TMK_TRY(read_inputs(in, i, node, &kernel, &known));
        size_t bound = in->build.n_bindings;
        if (known)
            result->expr = emit_kernel(in, &kernel);
        if (result->expr && in->build.n_bindings > bound) {
            struct tmk_relay_expr *made = in->build.bindings[in->build.n_bindings - 1]->expr;
            made->type = tmk_rb_tensor_type(in->build.arena, result->dtype, &result->shape);
            made->span = tmk_arena_strdup(in->build.arena, func);
        } else if (known && !in->build.nomem) {
            tmk_text_printf(&in->unread, "%s%s (node %zu)", in->unread.len ? ", " : "", func, i);
        }
        return TMK_OK;
    }
    if (strcmp(op, "null") != 0)
        return node_fail(in, i, "an op that is neither null nor tvm_op");
    entry->expr = tmk_rb_add_param(
        &in->build, name, tmk_rb_tensor_type(in->build.arena, entry->dtype, &entry->shape));
    return TMK_OK;
}

/* ---- the whole ---- */

static enum tmk_status read_graph(struct reader *in, const cJSON *graph) {
    const cJSON *nodes = cJSON_GetObjectItemCaseSensitive(graph, "nodes");
    size_t i = 0;
    if (!cJSON_IsArray(nodes))
        return tmk_fail(in->diag, TMK_FORMAT, "%s: no list of nodes", in->name);
    /* How many results the nodes have, one behind the other. */
    in->n_nodes = (size_t)cJSON_GetArraySize(nodes);
    in->first = calloc(in->n_nodes + 1, sizeof *in->first);
    TMK_TRY_ALLOC(in->first, in->diag);
    size_t k = 0;
    for (const cJSON *node = nodes->child; node; node = node->next, k++) {
        const char *outputs =
            string_of(cJSON_GetObjectItemCaseSensitive(node, "attrs"), "num_outputs");
        long n = outputs ? strtol(outputs, NULL, 10) : 1;
        if (n < 1 || n > 1000)
            return node_fail(in, k, "a strange number of results");
        in->first[k] = in->n_entries;
        in->n_entries += (size_t)n;
    }
    in->first[k] = in->n_entries;
    TMK_TRY(read_entries(in, cJSON_GetObjectItemCaseSensitive(graph, "attrs")));
    for (const cJSON *node = nodes->child; node; node = node->next)
        TMK_TRY(read_node(in, i++, node));
    if (in->build.nomem || in->unread.failed)
        return tmk_nomem(in->diag);
    if (in->unread.len)
        return tmk_fail(in->diag, TMK_UNSUPPORTED,
                        "%s: kernels whose operators have lost their attributes or order: %s; "
                        "import the Relay text instead",
                        in->name, in->unread.data);
    const cJSON *heads = cJSON_GetObjectItemCaseSensitive(graph, "heads");
    struct tmk_relay_expr *results[KERNEL_MAX], *result;
    uint32_t n = 0;
    for (const cJSON *link = heads ? heads->child : NULL; link; link = link->next) {
        const struct entry *entry;
        if (n == KERNEL_MAX)
            return tmk_fail(in->diag, TMK_UNSUPPORTED, "%s: more than %d heads", in->name,
                            KERNEL_MAX);
        TMK_TRY(find_entry(in, in->n_nodes, link, in->n_nodes, &entry));
        results[n++] = entry->expr;
    }
    if (!n)
        return tmk_fail(in->diag, TMK_FORMAT, "%s: no heads", in->name);
    result = n == 1 ? results[0] : tmk_rb_items(&in->build, results, n);
    return tmk_rb_main(&in->build, result, NULL, in->diag);
}

enum tmk_status tmk_relay_parse_graph(const char *text, size_t len, const char *name,
                                      struct tmk_relay_module **out, struct tmk_diag *diag) {
    struct tmk_relay_module *module = NULL;
    cJSON *graph;
    size_t held = 0;
    TMK_TRY(tmk_in(diag, tmk_json_parse_held(text, len, &graph, &held, diag), "%s", name));
    enum tmk_status status = tmk_relay_module_create(&module, diag);
    if (status == TMK_OK) {
        struct reader in = {
            .name = name, .build = {.module = module, .arena = &module->arena}, .diag = diag};
        status = read_graph(&in, graph);
        tmk_rb_finish(&in.build);
        tmk_text_finish(&in.unread);
        free(in.entries);
        free(in.first);
    }
    cJSON_Delete(graph);
    tmk_memory_uncharge(held);
    if (status != TMK_OK) {
        tmk_relay_module_destroy(&module);
        return status;
    }
    *out = module;
    return TMK_OK;
}
