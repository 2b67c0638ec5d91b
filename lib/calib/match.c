/* SPDX-License-Identifier: Apache-2.0 */
#include "calib/match.h"

#include <string.h>

#include "base/text.h"
#include "calib/opclass.h"

/* One of its operands is a constant. */
static bool is_dense(const struct tmk_net *net, uint32_t node) {
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t x = tmk_net_input(net, node, i);
        if (x != TMK_NET_NONE && !net->varies[x])
            return true;
    }
    return false;
}

static bool is_node(const struct tmk_match *m, const struct tmk_config_rule *rule, uint32_t node) {
    if (node == TMK_NET_NONE)
        return false;
    const struct tmk_net_node *n = &m->net->nodes[node];
    enum tmk_op_only only;
    if (rule->node && !tmk_glob(rule->node, n->name))
        return false;
    if (!rule->op)
        return true;
    if (!tmk_op_is_called(n->op, rule->op, &only))
        return false;
    if (only == TMK_OP_ONLY_DENSE)
        return is_dense(m->net, node);
    return only == TMK_OP_ALL || (m->is_bias_add && m->is_bias_add[node]);
}

static bool is_kind(const struct tmk_config_rule *rule, enum tmk_encoding_role role,
                    enum tmk_profile_kind kind) {
    switch (rule->kind) {
    case TMK_CONFIG_ANY:
        return true;
    case TMK_CONFIG_ACTIVATION:
        return role == TMK_ENCODING_ACTIVATION;
    case TMK_CONFIG_WEIGHT:
        return role == TMK_ENCODING_WEIGHT;
    case TMK_CONFIG_BIAS:
        return role == TMK_ENCODING_BIAS;
    case TMK_CONFIG_INPUT:
        return kind == TMK_PROFILE_INPUT;
    case TMK_CONFIG_OUTPUT:
        return kind == TMK_PROFILE_OUTPUT;
    }
    return false;
}

static void overlay(const struct tmk_match *m, uint32_t rule, bool quantize,
                    enum tmk_encoding_role role, struct tmk_wish *wish) {
    struct tmk_wish said = m->config->rules[rule].wish;
    if (!quantize)
        said.quantize = TMK_UNSAID;
    if (role == TMK_ENCODING_BIAS)
        said.dtype = TMK_UNDEFINED;
    tmk_wish_overlay(wish, &said);
    m->matched[rule]++;
}

struct tmk_wish tmk_match_wish(const struct tmk_match *m, uint32_t value,
                               enum tmk_encoding_role role, uint32_t reader) {
    const struct tmk_profile_tensor *t = &m->net->profile->tensors[value];
    struct tmk_wish wish = m->config->defaults[role];
    if (reader != TMK_NET_NONE && (m->skipped_first[reader] || m->skipped_last[reader]))
        wish.quantize = TMK_NO;
    for (uint32_t i = 0; i < m->config->n_rules; i++) {
        const struct tmk_config_rule *rule = &m->config->rules[i];
        bool of_nodes = rule->op || rule->node;
        if ((rule->has_id && rule->id != t->id) || (rule->name && !tmk_glob(rule->name, t->name)) ||
            !is_kind(rule, role, t->kind))
            continue;
        if (!of_nodes || is_node(m, rule, reader))
            overlay(m, i, true, role, &wish);
        else if (is_node(m, rule, m->net->maker[value]))
            overlay(m, i, reader == TMK_NET_NONE, role, &wish);
    }
    return wish;
}

/* A node that multiplies by a weight and accumulates. */
static bool is_layer(const struct tmk_net *net, uint32_t node) {
    const struct tmk_net_node *n = &net->nodes[node];
    return tmk_op_class_of(n->domain, n->op)->class == TMK_OP_MACC && is_dense(net, node);
}

/* Nodes stand in the order of their results' IDs, in which operands come before results. */
void tmk_match_first_and_last(const struct tmk_match *m) {
    const struct tmk_net *net = m->net;
    bool *behind = m->skipped_first, *ahead = m->skipped_last;
    for (uint32_t i = 0; i < net->n_nodes; i++)
        for (uint32_t k = 0; k < net->nodes[i].n_inputs; k++) {
            uint32_t x = net->nodes[i].inputs[k];
            uint32_t maker = x == TMK_NET_NONE ? TMK_NET_NONE : net->maker[x];
            if (maker != TMK_NET_NONE && (is_layer(net, maker) || behind[maker]))
                behind[i] = true;
        }
    for (uint32_t i = net->n_nodes; i-- > 0;)
        for (uint32_t o = 0; o < net->nodes[i].n_outputs; o++) {
            uint32_t y = net->nodes[i].outputs[o];
            for (uint32_t k = y == TMK_NET_NONE ? 0 : net->first_use[y];
                 y != TMK_NET_NONE && k < net->first_use[y + 1]; k++)
                if (is_layer(net, net->uses[k].node) || ahead[net->uses[k].node])
                    ahead[i] = true;
        }
    for (uint32_t i = 0; i < net->n_nodes; i++) {
        bool layer = is_layer(net, i);
        behind[i] = m->config->skip_first && layer && !behind[i];
        ahead[i] = m->config->skip_last && layer && !ahead[i];
    }
}
