/* SPDX-License-Identifier: Apache-2.0 */
/* TVM's JSON of objects: nodes that name each other by number, and tensors as base64. Nodes are
 * found by scanning and parsed one at a time, when they are asked for, so that big files need no
 * tree. */
#pragma once

#include "relay/read.h"

struct tmk_relay_extent {
    const char *at;
    size_t len;
};
struct tmk_relay_extents {
    struct tmk_relay_extent *items;
    size_t n, size;
};

/* All values of attributes are strings; "3" may be the number 3, or node 3. */
struct tmk_relay_member {
    const char *name; /* NULL: `attrs` is no object */
    const char *text; /* NULL: it is no string */
};
struct tmk_relay_node {
    const char *type, *text; /* type_key, repr_str; "" where there is none */
    struct tmk_relay_member *attrs;
    uint32_t n_attrs;
    const int64_t *data; /* numbers of nodes; -1: it is none */
    uint32_t n_data;
    const char **keys; /* of a map, whose values are `data`; NULL: it is no string */
    uint32_t n_keys;
};

struct tmk_relay_nodes {
    struct tmk_relay_reader *in; /* `at` is not behind the JSON's beginning */
    const char *json;
    size_t len;
    const char *what; /* goes before what is wrong: "metadata: " or "" */
    struct tmk_relay_extents items, arrays;
    int64_t root;
    uint64_t used;                /* bytes of the nodes that were asked for, so far */
    struct tmk_arena arena;       /* of `read` */
    struct tmk_relay_node **read; /* of `items`; NULL: not read yet */
    struct tmk_tensor *tensors;   /* of `arrays`; data NULL: not read yet */
    const char **dtypes;
};

/* Finds the nodes. `nodes` has `in`, `json`, `len` and `what`; end with tmk_relay_nodes_finish, on
 * failure too. */
enum tmk_status tmk_relay_nodes_open(struct tmk_relay_nodes *nodes);
void tmk_relay_nodes_finish(struct tmk_relay_nodes *nodes);
struct tmk_relay_place tmk_relay_nodes_place(const struct tmk_relay_nodes *nodes, const char *at);
/* Node `index`, owned by the nodes. */
enum tmk_status tmk_relay_node(struct tmk_relay_nodes *nodes, int64_t index,
                               const struct tmk_relay_node **out);
/* The attribute of that name; NULL: there is none. */
const char *tmk_relay_node_attr(const struct tmk_relay_node *node, const char *key);
/* The node that an attribute names; 0: none. */
int64_t tmk_relay_node_ref(const struct tmk_relay_node *node, const char *key);
/* Entry `array` of b64ndarrays, owned by the nodes; `node` is what refers to it. */
enum tmk_status tmk_relay_nodes_tensor(struct tmk_relay_nodes *nodes, int64_t node,
                                       const char *array, const struct tmk_tensor **out,
                                       const char **dtype);
/* TMK_FORMAT at node `index`, which there is. */
#define tmk_relay_node_fail(nodes, index, ...)                                                     \
    tmk_relay_fail((nodes)->in, tmk_relay_nodes_place((nodes), (nodes)->items.items[index].at),    \
                   __VA_ARGS__)
