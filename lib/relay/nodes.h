/* SPDX-License-Identifier: Apache-2.0 */
/* TVM's JSON of objects: nodes that name each other by number, and tensors as base64. Nodes are
 * found by scanning and parsed one at a time, so that big files need no tree. */
#ifndef TMK_RELAY_NODES_H
#define TMK_RELAY_NODES_H

#include "base/json.h"
#include "relay/read.h"

struct tmk_relay_extent {
    const char *at;
    size_t len;
};
struct tmk_relay_extents {
    struct tmk_relay_extent *items;
    size_t n, size;
};
struct tmk_relay_nodes {
    struct tmk_relay_reader *in; /* `at` is not behind the JSON's beginning */
    const char *json;
    size_t len;
    const char *what; /* goes before what is wrong: "metadata: " or "" */
    struct tmk_relay_extents items, arrays;
    int64_t root;
    uint64_t read;              /* bytes of nodes, so far */
    struct tmk_tensor *tensors; /* of `arrays`; data NULL: not read yet */
    const char **dtypes;
};

/* Finds the nodes. `nodes` has `in`, `json`, `len` and `what`; end with tmk_relay_nodes_finish, on
 * failure too. */
TMK_NODISCARD enum tmk_status tmk_relay_nodes_open(struct tmk_relay_nodes *nodes);
void tmk_relay_nodes_finish(struct tmk_relay_nodes *nodes);
struct tmk_relay_place tmk_relay_nodes_place(const struct tmk_relay_nodes *nodes, const char *at);
/* Node `index` as a tree, to be deleted. */
TMK_NODISCARD enum tmk_status tmk_relay_node(struct tmk_relay_nodes *nodes, int64_t index,
                                             cJSON **out);
/* Entry `array` of b64ndarrays, owned by the nodes; `node` is what refers to it. */
TMK_NODISCARD enum tmk_status tmk_relay_nodes_tensor(struct tmk_relay_nodes *nodes, int64_t node,
                                                     const char *array,
                                                     const struct tmk_tensor **out,
                                                     const char **dtype);
/* The number of a node; -1: it is none. */
int64_t tmk_relay_node_number(const cJSON *item);
/* TMK_FORMAT at node `index`, which there is. */
#define tmk_relay_node_fail(nodes, index, ...)                                                     \
    tmk_relay_fail((nodes)->in, tmk_relay_nodes_place((nodes), (nodes)->items.items[index].at),    \
                   __VA_ARGS__)

#endif
