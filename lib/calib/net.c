/* SPDX-License-Identifier: Apache-2.0 */
#include "calib/net.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/size.h"

enum { MOST_PORTS = 1 << 20 }; /* of one node; a profile that says more is damaged */

struct build {
    struct tmk_net *net;
    struct tmk_map named; /* "name\nop" -> the node's number (uint32_t *) */
    size_t size;          /* room in nodes */
    uint32_t *unnamed;    /* nodes without names that have a value among their operands: */
    uint32_t *first;      /* [n_tensors + 1] into `unnamed` */
    struct tmk_diag *diag;
};

static const char *key_of(struct build *b, const char *node, const char *op) {
    size_t n = strlen(node), m = strlen(op);
    char *key = tmk_arena_alloc(&b->net->arena, n + m + 2);
    if (key) {
        memcpy(key, node, n);
        key[n] = '\n';
        memcpy(key + n + 1, op, m);
    }
    return key;
}

static enum tmk_status add_node(struct build *b, const char *name, const char *op,
                                const char *domain, uint32_t *out) {
    TMK_TRY_ALLOC(TMK_GROW(b->net->nodes, b->net->n_nodes, b->size), b->diag);
    b->net->nodes[b->net->n_nodes] = (struct tmk_net_node){
        .name = name, .op = op, .domain = domain, .traits = tmk_traits_of(domain, op)};
    *out = b->net->n_nodes++;
    return TMK_OK;
}

static enum tmk_status node_by_name(struct build *b, const char *name, const char *op,
                                    const char *domain, uint32_t *out) {
    const char *key = key_of(b, name, op);
    TMK_TRY_ALLOC(key, b->diag);
    const uint32_t *found = tmk_map_get(&b->named, key);
    if (found) {
        *out = *found;
        return TMK_OK;
    }
    uint32_t *number = tmk_arena_alloc(&b->net->arena, sizeof *number);
    TMK_TRY_ALLOC(number, b->diag);
    TMK_TRY(add_node(b, name, op, domain, number));
    *out = *number;
    return tmk_map_put(&b->named, key, number) ? TMK_OK : tmk_nomem(b->diag);
}

/* Sets port number `at` of a list that grows as needed. */
static enum tmk_status set_port(struct build *b, uint32_t **list, uint32_t *n, uint32_t at,
                                uint32_t value) {
    if (at >= MOST_PORTS)
        return tmk_fail(b->diag, TMK_FORMAT, "p%" PRIu32 ": a node with %" PRIu32 " ports",
                        tmk_net_tensor(b->net, value)->id, at);
    if (at >= *n) {
        uint32_t size = at + 1 > 2 * *n ? at + 1 : 2 * *n;
        uint32_t *moved = tmk_arena_array(&b->net->arena, size, sizeof *moved);
        TMK_TRY_ALLOC(moved, b->diag);
        for (uint32_t i = 0; i < size; i++)
            moved[i] = i < *n ? (*list)[i] : TMK_NET_NONE;
        *list = moved;
        *n = size;
    }
    (*list)[at] = value;
    return TMK_OK;
}

static bool same_operands(const struct tmk_profile_tensor *a, const struct tmk_profile_tensor *b) {
    return a->n_operands == b->n_operands &&
           (!a->n_operands ||
            memcmp(a->operands, b->operands, a->n_operands * sizeof *a->operands) == 0);
}

/* Another output of the node without a name that was found last, if it is one. */
static bool is_of_last(const struct build *b, uint32_t last, uint32_t v) {
    const struct tmk_profile_tensor *t = tmk_net_tensor(b->net, v);
    if (last == TMK_NET_NONE || t->producer.output == 0)
        return false;
    const struct tmk_net_node *node = &b->net->nodes[last];
    uint32_t first = TMK_NET_NONE;
    for (uint32_t i = 0; first == TMK_NET_NONE && i < node->n_outputs; i++)
        first = node->outputs[i];
    return strcmp(node->op, t->producer.op) == 0 &&
           same_operands(tmk_net_tensor(b->net, first), t) &&
           (t->producer.output >= node->n_outputs ||
            node->outputs[t->producer.output] == TMK_NET_NONE);
}

static enum tmk_status make_nodes(struct build *b) {
    struct tmk_net *net = b->net;
    uint32_t last = TMK_NET_NONE;
    for (uint32_t v = 0; v < net->profile->n_tensors; v++) {
        const struct tmk_profile_tensor *t = tmk_net_tensor(b->net, v);
        uint32_t node = last;
        net->maker[v] = TMK_NET_NONE;
        if (!t->has_producer)
            continue;
        if (*t->producer.node) {
            TMK_TRY(node_by_name(b, t->producer.node, t->producer.op, t->producer.domain, &node));
        } else if (!is_of_last(b, last, v)) {
            const char *name = tmk_arena_printf(&net->arena, "p%" PRIu32, t->id);
            TMK_TRY_ALLOC(name, b->diag);
            TMK_TRY(add_node(b, name, t->producer.op, t->producer.domain, &node));
            last = node;
        }
        net->maker[v] = node;
        TMK_TRY(set_port(b, &net->nodes[node].outputs, &net->nodes[node].n_outputs,
                         t->producer.output, v));
    }
    return TMK_OK;
}

static uint32_t position_of(const struct tmk_profile *profile, uint32_t id) {
    const struct tmk_profile_tensor *t = tmk_profile_by_id(profile, id);
    return t ? (uint32_t)(t - profile->tensors) : TMK_NET_NONE;
}

static bool is_unnamed_result(const struct build *b, uint32_t v) {
    const struct tmk_profile_tensor *t = tmk_net_tensor(b->net, v);
    return t->has_producer && !*t->producer.node;
}

/* Which nodes without names have which operands. */
static enum tmk_status list_unnamed(struct build *b) {
    const struct tmk_profile *profile = b->net->profile;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t v = 0; v < profile->n_tensors; v++)
            for (uint32_t i = 0;
                 is_unnamed_result(b, v) && i < tmk_net_tensor(b->net, v)->n_operands; i++) {
                uint32_t x = position_of(profile, tmk_net_tensor(b->net, v)->operands[i]);
                if (x == TMK_NET_NONE)
                    continue;
                if (pass == 0)
                    b->first[x + 1]++;
                else
                    b->unnamed[b->first[x]++] = b->net->maker[v];
            }
        if (pass == 0) {
            for (uint32_t v = 0; v < profile->n_tensors; v++)
                b->first[v + 1] += b->first[v];
            b->unnamed = calloc((size_t)b->first[profile->n_tensors] + 1, sizeof *b->unnamed);
            TMK_TRY_ALLOC(b->unnamed, b->diag);
        } else {
            memmove(b->first + 1, b->first, profile->n_tensors * sizeof *b->first);
            b->first[0] = 0;
        }
    }
    return TMK_OK;
}

/* Uses of one value as one input of nodes of one kind that have no names: which is of which node
 * can't be told apart, and need not be. */
struct pending {
    uint32_t value, n;
    const struct tmk_profile_consumer *use;
};

static int by_use(const void *a, const void *b) {
    const struct pending *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    const int order = strcmp(x->use->op, y->use->op);
    return order ? order : TMK_ORDER(x->use->input, y->use->input);
}

static uint32_t gather_ready(struct pending *pending, uint32_t n) {
    uint32_t left = 0;
    qsort(pending, n, sizeof *pending, by_use);
    for (uint32_t i = 0; i < n; i++)
        if (left && by_use(&pending[left - 1], &pending[i]) == 0)
            pending[left - 1].n++;
        else
            pending[left++] = pending[i];
    return left;
}

/* Whether unnamed reader i of the value has the input free. */
static bool is_candidate(const struct build *b, const struct pending *p, uint32_t i) {
    const struct tmk_net_node *node = &b->net->nodes[b->unnamed[i]];
    return strcmp(node->op, p->use->op) == 0 &&
           (i == b->first[p->value] || b->unnamed[i] != b->unnamed[i - 1]) &&
           (p->use->input >= node->n_inputs || node->inputs[p->use->input] == TMK_NET_NONE);
}

/* Gives the uses to the nodes that they can be of, where there are no more of these than uses, or
 * where `any`. */
static enum tmk_status settle_one(struct build *b, const struct pending *p, bool any,
                                  bool *settled) {
    const uint32_t begin = b->first[p->value], end = b->first[p->value + 1];
    uint32_t n = 0;
    for (uint32_t i = begin; !any && i < end && n <= p->n; i++)
        n += is_candidate(b, p, i);
    *settled = any || (n && n <= p->n);
    n = 0;
    for (uint32_t i = begin; *settled && i < end && n < p->n; i++) {
        if (!is_candidate(b, p, i))
            continue;
        struct tmk_net_node *node = &b->net->nodes[b->unnamed[i]];
        TMK_TRY(set_port(b, &node->inputs, &node->n_inputs, p->use->input, p->value));
        n++;
    }
    return TMK_OK;
}

/* Those that can be of one set of nodes only are settled first, since that leaves fewer for others;
 * what is ambiguous then is alike. It is settled a few at a time, twice as many in each round, so
 * that there are few rounds. */
static enum tmk_status finalize_pending(struct build *b, struct pending *pending, uint32_t n) {
    uint32_t free_choices = 0, next_choices = 1;
    n = gather_ready(pending, n);
    while (n) {
        uint32_t left = 0;
        bool progress = false;
        for (uint32_t i = 0; i < n; i++) {
            bool settled;
            TMK_TRY(settle_one(b, &pending[i], false, &settled));
            if (!settled && free_choices) {
                free_choices--;
                TMK_TRY(settle_one(b, &pending[i], true, &settled));
            }
            progress = progress || settled;
            if (!settled)
                pending[left++] = pending[i];
        }
        free_choices = 0;
        if (!progress) {
            free_choices = next_choices;
            next_choices *= 2;
        }
        n = left;
    }
    return TMK_OK;
}

static enum tmk_status make_inputs(struct build *b) {
    const struct tmk_profile *profile = b->net->profile;
    size_t all = 1;
    uint32_t n = 0;
    for (uint32_t v = 0; v < profile->n_tensors; v++)
        all += tmk_net_tensor(b->net, v)->n_consumers;
    struct pending *pending = malloc(all * sizeof *pending);
    enum tmk_status status = pending ? TMK_OK : tmk_nomem(b->diag);
    for (uint32_t v = 0; status == TMK_OK && v < profile->n_tensors; v++)
        for (uint32_t i = 0; status == TMK_OK && i < tmk_net_tensor(b->net, v)->n_consumers; i++) {
            const struct tmk_profile_consumer *use = &tmk_net_tensor(b->net, v)->consumers[i];
            uint32_t node;
            if (!*use->node) {
                pending[n++] = (struct pending){v, 1, use};
                continue;
            }
            status = node_by_name(b, use->node, use->op, use->domain, &node);
            TMK_THEN(status, set_port(b, &b->net->nodes[node].inputs, &b->net->nodes[node].n_inputs,
                                      use->input, v));
        }
    TMK_THEN(status, finalize_pending(b, pending, n));
    free(pending);
    return status;
}

static enum tmk_status make_uses(struct build *b) {
    struct tmk_net *net = b->net;
    uint32_t n_values = net->profile->n_tensors;
    for (uint32_t i = 0; i < net->n_nodes; i++)
        for (uint32_t k = 0; k < net->nodes[i].n_inputs; k++)
            if (net->nodes[i].inputs[k] != TMK_NET_NONE)
                net->first_use[net->nodes[i].inputs[k] + 1]++;
    for (uint32_t v = 0; v < n_values; v++)
        net->first_use[v + 1] += net->first_use[v];
    net->uses = tmk_arena_array(&net->arena, net->first_use[n_values], sizeof *net->uses);
    uint32_t *at = tmk_arena_array(&net->arena, n_values, sizeof *at);
    TMK_TRY_ALLOC(net->uses && at, b->diag);
    for (uint32_t i = 0; i < net->n_nodes; i++)
        for (uint32_t k = 0; k < net->nodes[i].n_inputs; k++) {
            uint32_t v = net->nodes[i].inputs[k];
            if (v != TMK_NET_NONE)
                net->uses[net->first_use[v] + at[v]++] = (struct tmk_net_use){i, k};
        }
    return TMK_OK;
}

static bool asks_shape_only(const struct tmk_profile_tensor *t) {
    return t->has_producer &&
           tmk_traits_are(tmk_traits_of(t->producer.domain, t->producer.op), TMK_TRAIT_SHAPE_ONLY);
}

/* Operands come before results but for what comes round a loop. */
static void find_what_varies(struct tmk_net *net) {
    const struct tmk_profile *profile = net->profile;
    bool knows_operands = false, changed = true;
    for (uint32_t v = 0; v < profile->n_tensors; v++)
        knows_operands = knows_operands || profile->tensors[v].n_operands;
    for (uint32_t v = 0; v < profile->n_tensors; v++) {
        const struct tmk_profile_tensor *t = &profile->tensors[v];
        net->varies[v] = t->kind == TMK_PROFILE_INPUT
                             ? !t->n_operands
                             : !knows_operands && t->has_producer && t->kind != TMK_PROFILE_WEIGHT;
    }
    while (changed) {
        changed = false;
        for (uint32_t v = 0; v < profile->n_tensors; v++) {
            const struct tmk_profile_tensor *t = &profile->tensors[v];
            for (uint32_t i = 0; !net->varies[v] && !asks_shape_only(t) && i < t->n_operands; i++) {
                uint32_t x = position_of(profile, t->operands[i]);
                if (tmk_net_varies(net, x))
                    net->varies[v] = changed = true;
            }
        }
    }
}

enum tmk_status tmk_net_init(struct tmk_net *net, const struct tmk_profile *profile,
                             struct tmk_diag *diag) {
    size_t n = profile->n_tensors;
    struct build b = {.net = net, .diag = diag};
    *net = (struct tmk_net){.profile = profile};
    net->maker = tmk_arena_array(&net->arena, n, sizeof *net->maker);
    net->first_use = tmk_arena_array(&net->arena, n + 1, sizeof *net->first_use);
    net->varies = tmk_arena_array(&net->arena, n, sizeof *net->varies);
    b.first = tmk_arena_array(&net->arena, n + 2, sizeof *b.first);
    enum tmk_status status =
        net->maker && net->first_use && net->varies && b.first ? TMK_OK : tmk_nomem(diag);
    TMK_THEN(status, make_nodes(&b));
    TMK_THEN(status, list_unnamed(&b));
    TMK_THEN(status, make_inputs(&b));
    TMK_THEN(status, make_uses(&b));
    if (status == TMK_OK)
        find_what_varies(net);
    free(b.unnamed);
    tmk_map_finish(&b.named);
    return status;
}

void tmk_net_finish(struct tmk_net *net) {
    free(net->nodes);
    tmk_arena_finish(&net->arena);
    *net = (struct tmk_net){0};
}

uint32_t tmk_net_input(const struct tmk_net *net, uint32_t node, uint32_t input) {
    if (node == TMK_NET_NONE || input >= net->nodes[node].n_inputs)
        return TMK_NET_NONE;
    return net->nodes[node].inputs[input];
}

uint32_t tmk_net_output(const struct tmk_net *net, uint32_t node, uint32_t output) {
    if (node == TMK_NET_NONE || output >= net->nodes[node].n_outputs)
        return TMK_NET_NONE;
    return net->nodes[node].outputs[output];
}

uint32_t tmk_net_readers(const struct tmk_net *net, uint32_t value) {
    return net->first_use[value + 1] - net->first_use[value];
}

/* Relay's and Keras' names, where they differ from ONNX's by more than capitals and '_'. */
static const struct {
    const char *word, *op;
    enum tmk_op_only only;
} aliases[] = {
    {"dense", "Gemm", TMK_OP_ONLY_DENSE},
    {"dense", "MatMul", TMK_OP_ONLY_DENSE},
    {"linear", "Gemm", TMK_OP_ONLY_DENSE},
    {"linear", "MatMul", TMK_OP_ONLY_DENSE},
    {"batchmatmul", "MatMul", TMK_OP_ALL},
    {"biasadd", "Add", TMK_OP_ONLY_BIAS},
    {"subtract", "Sub", TMK_OP_ALL},
    {"multiply", "Mul", TMK_OP_ALL},
    {"divide", "Div", TMK_OP_ALL},
    {"power", "Pow", TMK_OP_ALL},
    {"maximum", "Max", TMK_OP_ALL},
    {"minimum", "Min", TMK_OP_ALL},
    {"conv1d", "Conv", TMK_OP_ALL},
    {"conv2d", "Conv", TMK_OP_ALL},
    {"conv3d", "Conv", TMK_OP_ALL},
    {"depthwiseconv2d", "Conv", TMK_OP_ALL},
    {"conv1dtranspose", "ConvTranspose", TMK_OP_ALL},
    {"conv2dtranspose", "ConvTranspose", TMK_OP_ALL},
    {"conv3dtranspose", "ConvTranspose", TMK_OP_ALL},
    {"maxpool1d", "MaxPool", TMK_OP_ALL},
    {"maxpool2d", "MaxPool", TMK_OP_ALL},
    {"maxpooling1d", "MaxPool", TMK_OP_ALL},
    {"maxpooling2d", "MaxPool", TMK_OP_ALL},
    {"avgpool1d", "AveragePool", TMK_OP_ALL},
    {"avgpool2d", "AveragePool", TMK_OP_ALL},
    {"averagepooling1d", "AveragePool", TMK_OP_ALL},
    {"averagepooling2d", "AveragePool", TMK_OP_ALL},
    {"globalavgpool2d", "GlobalAveragePool", TMK_OP_ALL},
    {"globalaveragepooling2d", "GlobalAveragePool", TMK_OP_ALL},
    {"globalmaxpool2d", "GlobalMaxPool", TMK_OP_ALL},
    {"globalmaxpooling2d", "GlobalMaxPool", TMK_OP_ALL},
    {"batchnorm", "BatchNormalization", TMK_OP_ALL},
    {"layernorm", "LayerNormalization", TMK_OP_ALL},
    {"instancenorm", "InstanceNormalization", TMK_OP_ALL},
    {"groupnorm", "GroupNormalization", TMK_OP_ALL},
    {"batchflatten", "Flatten", TMK_OP_ALL},
    {"concatenate", "Concat", TMK_OP_ALL},
    {"expanddims", "Unsqueeze", TMK_OP_ALL},
    {"stridedslice", "Slice", TMK_OP_ALL},
    {"take", "Gather", TMK_OP_ALL},
    {"embedding", "Gather", TMK_OP_ALL},
    {"permute", "Transpose", TMK_OP_ALL},
    {"broadcastto", "Expand", TMK_OP_ALL},
    {"upsampling", "Resize", TMK_OP_ALL},
    {"upsampling2d", "Resize", TMK_OP_ALL},
    {"resize2d", "Resize", TMK_OP_ALL},
    {"zeropadding2d", "Pad", TMK_OP_ALL},
    {"mean", "ReduceMean", TMK_OP_ALL},
    {"sum", "ReduceSum", TMK_OP_ALL},
};

/* Without "nn.", "image.", '_' and capitals; cut to fit. */
static const char *plain_word(const char *word, char out[64]) {
    size_t n = 0;
    if (strncmp(word, "nn.", 3) == 0)
        word += 3;
    else if (strncmp(word, "image.", 6) == 0)
        word += 6;
    for (; *word && n < 63; word++)
        if (*word != '_')
            out[n++] = (char)(*word >= 'A' && *word <= 'Z' ? *word - 'A' + 'a' : *word);
    out[n] = '\0';
    return out;
}

bool tmk_op_is_called(const char *op, const char *word, enum tmk_op_only *only) {
    char a[64], b[64];
    plain_word(word, a);
    *only = TMK_OP_ALL;
    if (strcmp(a, plain_word(op, b)) == 0)
        return true;
    for (size_t i = 0; i < TMK_COUNT(aliases); i++)
        if (strcmp(aliases[i].word, a) == 0 && strcmp(aliases[i].op, op) == 0) {
            *only = aliases[i].only;
            return true;
        }
    return false;
}
