/* SPDX-License-Identifier: Apache-2.0 */
/* eliminate-common-subexpressions: of initializers with equal numbers, and of nodes that compute
 * the same from the same operands, the first stays.
 *
 * One walk in order suffices: when a node is met, its operands are already those that stay. Within
 * graphs inside of nodes everything before the node, outside of it, may be reused, and nothing of a
 * graph outside of it. Operators that draw random numbers, or run graphs, are not pure, and never
 * merge: two dice are not one. The order of operands counts, a + b and b + a are two: the payload
 * of a NaN shows which came first.
 *
 * A graph output keeps its name and its node where no other result can bear it. */
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/hash.h"
#include "ops/ops.h"
#include "pass/pass.h"

/* What may be reused: an initializer or a node. */
struct entry {
    uint64_t hash;
    struct tmk_value *initializer; /* or NULL */
    struct tmk_node *node;
    size_t next; /* 1 + the entry of the same bucket before it; 0: none */
};

/* Entries are a stack: those of a graph go when it ends. */
struct merging {
    struct tmk_rewrite *rw;
    struct entry *entries;
    size_t n;
    size_t *buckets; /* 1 + entry; 0: none */
    size_t mask;
};

static void push_entry(struct merging *m, struct entry entry) {
    size_t *bucket = &m->buckets[entry.hash & m->mask];
    entry.next = *bucket;
    m->entries[m->n++] = entry;
    *bucket = m->n;
}

static void pop_to(struct merging *m, size_t n) {
    while (m->n > n) {
        const struct entry *top = &m->entries[--m->n];
        m->buckets[top->hash & m->mask] = top->next;
    }
}

/* ---- initializers ---- */

static uint64_t hash_tensor(const struct tmk_tensor *tensor, uint64_t seed) {
    const int32_t head[] = {(int32_t)tensor->dtype, tensor->shape.rank};
    seed = tmk_hash64(head, sizeof head, seed);
    seed = tmk_hash64(tensor->shape.dim, (size_t)tensor->shape.rank * sizeof(int64_t), seed);
    const size_t bytes = tmk_tensor_bytes(tensor);
    return bytes ? tmk_hash64(tensor->data, bytes, seed) : seed;
}

static enum tmk_status merge_initializer(struct merging *m, struct tmk_value *value) {
    const uint64_t hash = hash_tensor(&value->data, 0);
    for (size_t at = m->buckets[hash & m->mask]; at; at = m->entries[at - 1].next) {
        const struct entry *entry = &m->entries[at - 1];
        if (entry->hash != hash || !entry->initializer ||
            !tmk_weight_equal(&entry->initializer->data, &value->data) ||
            !tmk_rewrite_can_replace(m->rw, value, entry->initializer, true))
            continue;
        TMK_TRY(tmk_rewrite_replace(m->rw, value, entry->initializer, NULL));
        tmk_rewrite_drop(m->rw, value);
        return TMK_OK;
    }
    push_entry(m, (struct entry){.hash = hash, .initializer = value});
    return TMK_OK;
}

/* Dropping one moves those behind it. */
static enum tmk_status merge_initializers(struct merging *m, struct tmk_graph *graph) {
    for (uint32_t i = 0; i < graph->n_values;) {
        struct tmk_value *value = graph->values[i];
        if (value->kind == TMK_VALUE_INITIALIZER && tmk_dtype_size(value->data.dtype))
            TMK_TRY(merge_initializer(m, value));
        i += i < graph->n_values && graph->values[i] == value;
    }
    return TMK_OK;
}

/* ---- nodes ---- */

static bool may_merge(const struct tmk_node *node) {
    if (node->row->flags & TMK_OP_IMPURE)
        return false;
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const struct tmk_attr *attr = &node->attrs[i];
        if (tmk_attr_graphs(attr))
            return false;
        if (attr->kind != TMK_ATTR_TENSOR && attr->kind != TMK_ATTR_TENSORS)
            continue;
        for (size_t k = 0; k < attr->n; k++)
            if (!tmk_dtype_size(attr->tensors[k].dtype))
                return false;
    }
    return true;
}

/* Equal attributes have equal hashes; of lists of strings and of types only the name counts. */
static uint64_t hash_attr(const struct tmk_attr *attr) {
    const uint64_t seed = tmk_hash64(attr->name, strlen(attr->name), attr->kind);
    switch (attr->kind) {
    case TMK_ATTR_INT:
        return tmk_hash64(&attr->i, sizeof attr->i, seed);
    case TMK_ATTR_FLOAT:
        return tmk_hash64(&attr->f, sizeof attr->f, seed);
    case TMK_ATTR_STRING:
        return tmk_hash64(attr->s, attr->n, seed);
    case TMK_ATTR_INTS:
        return attr->n ? tmk_hash64(attr->ints, attr->n * sizeof *attr->ints, seed) : seed;
    case TMK_ATTR_FLOATS:
        return attr->n ? tmk_hash64(attr->floats, attr->n * sizeof *attr->floats, seed) : seed;
    case TMK_ATTR_TENSOR:
        return hash_tensor(attr->tensors, seed);
    default:
        return seed;
    }
}

static uint64_t hash_node(const struct tmk_node *node) {
    uint64_t hash = tmk_hash64(node->op, strlen(node->op), node->n_outputs);
    hash = tmk_hash64(node->inputs, node->n_inputs * sizeof(struct tmk_value *), hash);
    for (uint32_t i = 0; i < node->n_attrs; i++)
        hash += hash_attr(&node->attrs[i]); /* in whichever order */
    return hash;
}

static bool computes_the_same(const struct tmk_node *a, const struct tmk_node *b) {
    if (a->row != b->row || a->version != b->version || a->n_inputs != b->n_inputs ||
        a->n_outputs != b->n_outputs || a->n_attrs != b->n_attrs)
        return false;
    for (uint32_t i = 0; i < a->n_inputs; i++)
        if (a->inputs[i] != b->inputs[i])
            return false;
    for (uint32_t i = 0; i < a->n_attrs; i++) {
        const struct tmk_attr *other = tmk_node_attr(b, a->attrs[i].name);
        if (!other || !tmk_attr_equal(&a->attrs[i], other))
            return false;
    }
    return true;
}

static bool can_stand_for(const struct merging *m, const struct tmk_node *to,
                          const struct tmk_node *from) {
    for (uint32_t i = 0; i < from->n_outputs; i++)
        if (from->outputs[i] &&
            (!to->outputs[i] ||
             !tmk_rewrite_can_replace(m->rw, from->outputs[i], to->outputs[i], true)))
            return false;
    return true;
}

static enum tmk_status merge_node(struct merging *m, struct tmk_node *node) {
    const uint64_t hash = hash_node(node);
    for (size_t at = m->buckets[hash & m->mask]; at; at = m->entries[at - 1].next) {
        const struct entry *entry = &m->entries[at - 1];
        if (entry->hash != hash || !entry->node || !computes_the_same(entry->node, node) ||
            !can_stand_for(m, entry->node, node))
            continue;
        for (uint32_t i = 0; i < node->n_outputs; i++)
            if (node->outputs[i])
                TMK_TRY(
                    tmk_rewrite_replace(m->rw, node->outputs[i], entry->node->outputs[i], NULL));
        tmk_rewrite_remove(m->rw, node);
        return TMK_OK;
    }
    push_entry(m, (struct entry){.hash = hash, .node = node});
    return TMK_OK;
}

static enum tmk_status merge_graph(struct merging *m, struct tmk_graph *graph) {
    const size_t outside = m->n;
    TMK_TRY(merge_initializers(m, graph));
    for (struct tmk_node *node = graph->first, *next; node; node = next) {
        next = node->next;
        for (struct tmk_graph *g = NULL; (g = tmk_node_next_graph(node, g));)
            TMK_TRY(merge_graph(m, g));
        if (may_merge(node))
            TMK_TRY(merge_node(m, node));
    }
    pop_to(m, outside);
    return TMK_OK;
}

static enum tmk_status eliminate_common(struct tmk_rewrite *rw) {
    size_t most = 1, size = 1;
    for (const struct tmk_graph *g = rw->graph; g; g = tmk_graph_next(rw->graph, g))
        most += (size_t)g->n_values + g->n_nodes;
    while (size < most)
        size *= 2;
    struct merging m = {.rw = rw,
                        .entries = calloc(most, sizeof *m.entries),
                        .buckets = calloc(size, sizeof *m.buckets),
                        .mask = size - 1};
    const enum tmk_status status =
        m.entries && m.buckets ? merge_graph(&m, rw->graph) : tmk_nomem(rw->diag);
    free(m.entries);
    free(m.buckets);
    return status;
}

const struct tmk_pass tmk_pass_eliminate_common_subexpressions = {
    "eliminate-common-subexpressions", "computes once what is computed twice", eliminate_common};
