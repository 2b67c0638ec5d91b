/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the reader of tvm.ir.save_json. */
#pragma once

#include "relay/nodes.h"

struct tmk_relay_json {
    struct tmk_relay_nodes nodes;
    struct tmk_relay_expr **exprs; /* node -> what stands for it in the scope that is open */
    struct tmk_relay_type **types;
    bool *open;    /* nodes whose operands are being read */
    int64_t *todo; /* calls and tuples whose operands come first */
    size_t n_todo, todo_size;
    struct tmk_relay_stack known; /* nodes that have an expression, of all open scopes */
    uint32_t next;                /* "%N" */
    size_t definition;            /* counts them, from 1 */
};

/* ---- json_nodes.c ---- */

enum tmk_status tmk_relay_json_string(struct tmk_relay_json *from, const char *text,
                                      const char **out);
/* A text that an attribute is, or whose node it names. */
enum tmk_status tmk_relay_json_name(struct tmk_relay_json *from, const struct tmk_relay_node *node,
                                    const char *key, const char **out);
/* The type of node `index`. *out NULL: there is none. */
enum tmk_status tmk_relay_json_type(struct tmk_relay_json *from, int64_t index,
                                    struct tmk_relay_type **out);
/* Where the node stood in the source, "file:line:column"; untouched where that is not known. */
enum tmk_status tmk_relay_json_span(struct tmk_relay_json *from, const struct tmk_relay_node *node,
                                    const char **out);
/* The attributes of a call of the operator `op`; node 0 has none. */
enum tmk_status tmk_relay_json_attrs(struct tmk_relay_json *from, int64_t index, const char *op,
                                     struct tmk_relay_attr **out, uint32_t *n);
/* Those of a function; untouched where it has none. */
enum tmk_status tmk_relay_json_dict(struct tmk_relay_json *from, int64_t index,
                                    struct tmk_relay_attr **out, uint32_t *n);

/* ---- json.c ---- */

/* The module that the JSON is; `in` is a reader at its beginning. */
enum tmk_status tmk_relay_parse_json(struct tmk_relay_reader *in, const char *json, size_t len);
