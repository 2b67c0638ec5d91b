/* SPDX-License-Identifier: Apache-2.0 */
#include "calib/select.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/size.h"
#include "base/text.h"
#include "calib/method.h"
#include "calib/net.h"

#define NARROWER 0.99 /* a range so much narrower than the whole's is worth a scale of its own */

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
    if (rule->pattern && (m->patterns->of[node] == TMK_PATTERN_NONE ||
                          strcmp(rule->pattern, tmk_pattern_name(m->patterns->of[node])) != 0))
        return false;
    for (const char *const *op = rule->except_op; op && *op; op++)
        if (strcasecmp(*op, n->op) == 0)
            return false;
    if (!rule->op)
        return true;
    if (!tmk_op_is_called(n->op, rule->op, &only))
        return false;
    if (only == TMK_OP_ONLY_DENSE)
        return is_dense(m->net, node);
    return only == TMK_OP_ALL || (m->is_bias_add && m->is_bias_add[node]);
}

static bool is_of_nodes(const struct tmk_config_rule *rule) {
    return rule->op || rule->node || rule->pattern || rule->except_op;
}

/* ---- what stays float without being told ---- */

/* It moves, clips or compares: 8 bits in, 8 bits out, nothing lost between two products. */
static bool is_moving(const struct tmk_match *m, uint32_t node) {
    static const char *const comparing[] = {"Max", "Min", "Where", "ReduceMax", "ReduceMin"};
    const struct tmk_net_node *n = &m->net->nodes[node];
    const enum tmk_op_class class = n->traits->class;
    if (class == TMK_OP_DIRECT || class == TMK_OP_CLAMP)
        return true;
    for (size_t i = 0; i < TMK_COUNT(comparing); i++)
        if (strcmp(n->op, comparing[i]) == 0)
            return true;
    return tmk_traits_are(n->traits, TMK_TRAIT_MOVES);
}

static bool is_follower(const struct tmk_match *m, uint32_t node) {
    const enum tmk_op_class class = m->net->nodes[node].traits->class;
    return m->config->quantize_sensitive == TMK_YES
               ? class == TMK_OP_DIRECT || class == TMK_OP_CLAMP
               : is_moving(m, node);
}

/* Of what it makes of constants, its readers alone decide. */
static bool moves_constants(const struct tmk_match *m, uint32_t node) {
    const uint32_t y = tmk_net_output(m->net, node, 0);
    return m->net->nodes[node].traits->class == TMK_OP_DIRECT && y != TMK_NET_NONE &&
           !m->net->varies[y];
}

static bool is_bias_add(const struct tmk_match *m, uint32_t node) {
    return m->is_bias_add && m->is_bias_add[node];
}

/* What has kernels of 8 bits nearly everywhere; transposed convolutions and recurrent networks have
 * not, and lose much. */
static bool is_worth_it(const struct tmk_match *m, uint32_t node) {
    const struct tmk_traits *traits = m->net->nodes[node].traits;
    return traits->class == TMK_OP_MACC && traits->product != TMK_PRODUCT_CONV_TRANSPOSED;
}

/* 8 bits lose too much in it. */
static bool loses_in_8_bits(const struct tmk_match *m, uint32_t node) {
    return m->patterns->of[node] != TMK_PATTERN_NONE || m->wide[node] != 0 ||
           (!is_worth_it(m, node) && !is_moving(m, node) && !is_bias_add(m, node));
}

/* The target is no quicker with codes of so few channels: all of a convolution's are, or either of
 * a matrix product's. */
bool tmk_match_is_narrow(const struct tmk_match *m, uint32_t node) {
    const struct tmk_net_node *n = &m->net->nodes[node];
    const struct tmk_traits *traits = n->traits;
    const struct tmk_target *target = m->config->target;
    const struct tmk_target_row *row = tmk_target_find_row(target, n->op);
    const uint32_t w = tmk_net_input(m->net, node, 1);
    if (!row || !row->least_channels || w == TMK_NET_NONE || m->net->varies[w])
        return false;
    const struct tmk_profile_tensor *t = tmk_net_tensor(m->net, w);
    const int64_t *dim = t->shape.dim, least = row->least_channels;
    if (!t->has_shape || t->shape.rank < 2)
        return false;
    return traits->product == TMK_PRODUCT_MATRIX
               ? dim[t->shape.rank - 2] < least || dim[t->shape.rank - 1] < least
               : dim[0] < least && dim[1] < least;
}

static bool stays_float(const struct tmk_match *m, uint32_t node) {
    return (m->config->quantize_sensitive != TMK_YES && loses_in_8_bits(m, node)) ||
           tmk_match_is_narrow(m, node);
}

enum tmk_tristate tmk_match_default(const struct tmk_match *m, uint32_t node) {
    return m->skipped_first[node] || m->skipped_last[node] || stays_float(m, node) ? TMK_NO
                                                                                   : TMK_UNSET;
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

/* So that a rule that quantizes an operator does not mean them. */
static bool has_float_biases(const struct tmk_match *m) {
    return m->config->target && !m->config->target->defaults[TMK_ENCODING_BIAS].n_types;
}

static void override_by_rule(const struct tmk_match *m, uint32_t rule, bool quantize,
                             enum tmk_encoding_role role, struct tmk_quant_settings *settings) {
    struct tmk_quant_settings given = m->config->rules[rule].settings;
    if (!quantize)
        given.quantize = TMK_UNSET;
    if (role == TMK_ENCODING_BIAS)
        given.dtype = TMK_UNDEFINED;
    if (role == TMK_ENCODING_BIAS && given.quantize == TMK_YES && has_float_biases(m) &&
        m->config->rules[rule].kind != TMK_CONFIG_BIAS)
        given.quantize = TMK_UNSET;
    tmk_quant_settings_override(settings, &given);
    m->matched[rule]++;
}

struct tmk_quant_settings tmk_match_settings(const struct tmk_match *m, uint32_t value,
                                             enum tmk_encoding_role role, uint32_t reader) {
    const struct tmk_profile_tensor *t = tmk_net_tensor(m->net, value);
    struct tmk_quant_settings settings = m->config->defaults[role];
    const uint32_t node = reader == TMK_NET_NONE ? m->net->maker[value] : reader;
    if (role == TMK_ENCODING_ACTIVATION && !m->net->varies[value]) {
        settings.method = tmk_method_find("minmax"); /* a constant has the range that it has */
        settings.parameter = 0;
    }
    if (reader != TMK_NET_NONE && (m->skipped_first[reader] || m->skipped_last[reader]))
        settings.quantize = TMK_NO;
    if (node != TMK_NET_NONE && stays_float(m, node))
        settings.quantize = TMK_NO;
    if (reader == TMK_NET_NONE && t->kind == TMK_PROFILE_OUTPUT &&
        m->config->quantize_sensitive != TMK_YES)
        settings.quantize = TMK_NO;
    if (node != TMK_NET_NONE && m->beside_float[node] != TMK_NET_NONE &&
        (role == TMK_ENCODING_ACTIVATION || moves_constants(m, node)))
        settings.quantize = TMK_NO;
    if (node != TMK_NET_NONE && role == TMK_ENCODING_ACTIVATION && m->more_bits[node])
        settings.dtype = m->config->sensitive_dtype;
    for (uint32_t i = 0; i < m->config->n_rules; i++) {
        const struct tmk_config_rule *rule = &m->config->rules[i];
        bool of_nodes = is_of_nodes(rule);
        if ((rule->has_id && rule->id != t->id) || (rule->name && !tmk_glob(rule->name, t->name)) ||
            !is_kind(rule, role, t->kind))
            continue;
        if (!of_nodes || is_node(m, rule, reader))
            override_by_rule(m, i, true, role, &settings);
        else if (is_node(m, rule, m->net->maker[value]))
            override_by_rule(m, i, reader == TMK_NET_NONE, role, &settings);
    }
    return settings;
}

/* A node that multiplies by a weight and accumulates. */
static bool is_layer(const struct tmk_net *net, uint32_t node) {
    return net->nodes[node].traits->class == TMK_OP_MACC && is_dense(net, node);
}

/* Nodes stand in the order of their results' IDs, in which operands come before results. */
void tmk_match_first_and_last(const struct tmk_match *m) {
    const struct tmk_net *net = m->net;
    bool *behind = m->skipped_first, *ahead = m->skipped_last;
    for (uint32_t i = 0; i < net->n_nodes; i++)
        for (uint32_t k = 0; k < net->nodes[i].n_inputs; k++) {
            uint32_t maker = tmk_net_maker(net, net->nodes[i].inputs[k]);
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

/* What rules of nodes, not of single values, state, or what holds without them. */
static enum tmk_tristate is_node_quantized(const struct tmk_match *m, uint32_t node) {
    enum tmk_tristate given = tmk_match_default(m, node);
    for (uint32_t i = 0; i < m->config->n_rules; i++) {
        const struct tmk_config_rule *rule = &m->config->rules[i];
        if (is_of_nodes(rule) && !rule->has_id && !rule->name &&
            (rule->kind == TMK_CONFIG_ANY || rule->kind == TMK_CONFIG_ACTIVATION) &&
            rule->settings.quantize != TMK_UNSET && is_node(m, rule, node))
            given = rule->settings.quantize;
    }
    return given;
}

/* The node that computes one of its inputs in float, or that stands beside such a one. */
static uint32_t float_before(const struct tmk_match *m, uint32_t node) {
    const struct tmk_net_node *n = &m->net->nodes[node];
    const bool all = m->config->quantize_sensitive != TMK_YES;
    for (uint32_t i = 0; i < (all ? n->n_inputs : 1); i++) {
        const uint32_t x = tmk_net_input(m->net, node, i);
        const uint32_t maker = tmk_net_maker(m->net, x);
        if (maker == TMK_NET_NONE || (i && !m->net->varies[x]))
            continue;
        if (is_node_quantized(m, maker) == TMK_NO)
            return maker;
        if (m->beside_float[maker] != TMK_NET_NONE && m->beside_float[maker] != maker)
            return m->beside_float[maker];
    }
    return TMK_NET_NONE;
}

static bool is_paired(const struct tmk_match *m, uint32_t node) {
    return tmk_traits_are(m->net->nodes[node].traits, TMK_TRAIT_PAIRED);
}

static bool follows_codes(const struct tmk_match *m, uint32_t node) {
    return tmk_traits_are(m->net->nodes[node].traits, TMK_TRAIT_FOLLOWS);
}

/* An operand that the node's result is made of has no codes in a QDQ model: the first, or, of what
 * follows its operands, each that is a number. */
static bool has_unpaired_operand(const struct tmk_match *m, uint32_t node) {
    const struct tmk_net_node *n = &m->net->nodes[node];
    const bool several = follows_codes(m, node) && n->traits->numbers;
    bool has = false;
    for (uint32_t i = 0; i < (several ? n->n_inputs : 1); i++) {
        const uint32_t x = tmk_net_input(m->net, node, i);
        if (!several || tmk_input_is_number(n->traits, i))
            has = has || x == TMK_NET_NONE || !m->net->varies[x] || m->unpaired[x];
    }
    return has;
}

static bool is_for_qdq(const struct tmk_target *target) {
    for (size_t i = 0; target && i < target->n_exports; i++)
        if (strcmp(target->exports[i], "qdq") == 0)
            return true;
    return !target;
}

/* Values at which a QDQ model has no pair: inputs, and what is computed without codes, that no node
 * reads in codes but those that move them on; and what these make of them. */
static void find_unpaired(const struct tmk_match *m) {
    const struct tmk_net *net = m->net;
    const bool known = m->config->built_in[TMK_RULE_DIRECT] && is_for_qdq(m->config->target);
    for (uint32_t v = 0; v < net->profile->n_tensors; v++) {
        const uint32_t maker = net->maker[v];
        bool is = known && net->varies[v];
        if (maker != TMK_NET_NONE &&
            (net->nodes[maker].traits->class == TMK_OP_DIRECT || follows_codes(m, maker)))
            is = is && has_unpaired_operand(m, maker);
        else if (maker != TMK_NET_NONE)
            is = is && !is_paired(m, maker);
        for (uint32_t k = net->first_use[v]; k < net->first_use[v + 1] && is; k++)
            is = !is_paired(m, net->uses[k].node) || follows_codes(m, net->uses[k].node) ||
                 is_node_quantized(m, net->uses[k].node) == TMK_NO;
        m->unpaired[v] = is;
    }
}

static bool has_range(const struct tmk_match *m, uint32_t v, double *width) {
    const struct tmk_profile_tensor *t = tmk_net_tensor(m->net, v);
    struct tmk_summary facts;
    if (!t->stats)
        return false;
    tmk_stats_quick_summary(t->stats, &facts);
    *width = (double)facts.max - (double)facts.min;
    return isfinite(*width);
}

/* It moves a part of such a value, whose codes would be coarser under the scale of the whole; or it
 * moves that part on. */
static bool takes_part(const struct tmk_match *m, uint32_t node) {
    const uint32_t x = tmk_net_input(m->net, node, 0);
    double whole = 0, part = 0;
    if (x == TMK_NET_NONE || m->net->nodes[node].traits->class != TMK_OP_DIRECT ||
        !m->unpaired[x] || is_node_quantized(m, node) == TMK_YES)
        return false;
    const uint32_t maker = m->net->maker[x];
    bool takes = maker != TMK_NET_NONE && m->beside_float[maker] == maker;
    for (uint32_t o = 0; o < m->net->nodes[node].n_outputs && !takes; o++) {
        const uint32_t y = tmk_net_output(m->net, node, o);
        takes = y != TMK_NET_NONE && has_range(m, x, &whole) && has_range(m, y, &part) &&
                part < NARROWER * whole;
    }
    return takes;
}

/* It moves into a result of the model what comes as its input, as caches of keys and values do. */
static bool is_cache(const struct tmk_match *m, uint32_t node) {
    const uint32_t y = tmk_net_output(m->net, node, 0);
    if (y == TMK_NET_NONE || tmk_net_tensor(m->net, y)->kind != TMK_PROFILE_OUTPUT)
        return false;
    for (uint32_t i = 0; i < m->net->nodes[node].n_inputs; i++) {
        uint32_t x = tmk_net_input(m->net, node, i);
        while (x != TMK_NET_NONE && m->net->maker[x] != TMK_NET_NONE &&
               is_follower(m, m->net->maker[x]))
            x = tmk_net_input(m->net, m->net->maker[x], 0);
        if (x != TMK_NET_NONE && tmk_net_tensor(m->net, x)->kind == TMK_PROFILE_INPUT &&
            tmk_dtype_is_float(tmk_net_tensor(m->net, x)->dtype))
            return true;
    }
    return false;
}

/* One of the nodes that read its results, if all of them read floats; itself, where only the
 * model's outputs are, or where it extends a cache: codes of what is new would be in the cache, and
 * under another scale than those of the whole. */
static uint32_t float_behind(const struct tmk_match *m, uint32_t node) {
    const struct tmk_net_node *n = &m->net->nodes[node];
    uint32_t found = TMK_NET_NONE;
    if (m->config->quantize_sensitive != TMK_YES && is_cache(m, node))
        return node;
    for (uint32_t o = 0; o < n->n_outputs; o++) {
        const uint32_t y = n->outputs[o];
        if (y == TMK_NET_NONE)
            continue;
        if (tmk_net_tensor(m->net, y)->kind == TMK_PROFILE_OUTPUT && found == TMK_NET_NONE)
            found = node;
        for (uint32_t k = m->net->first_use[y]; k < m->net->first_use[y + 1]; k++) {
            const uint32_t reader = m->net->uses[k].node;
            const bool is_float = is_node_quantized(m, reader) == TMK_NO;
            if (!is_float && m->beside_float[reader] == TMK_NET_NONE)
                return TMK_NET_NONE;
            found = is_float ? reader : m->beside_float[reader];
        }
    }
    return found;
}

static bool moves_more_bits(const struct tmk_match *m, uint32_t node) {
    for (uint32_t i = 0; i < m->net->nodes[node].n_inputs; i++) {
        const uint32_t x = tmk_net_input(m->net, node, i);
        if (x != TMK_NET_NONE && m->net->maker[x] != TMK_NET_NONE && m->more_bits[m->net->maker[x]])
            return true;
    }
    return false;
}

/* All that read its results have more bits. */
static bool has_more_bits_behind(const struct tmk_match *m, uint32_t node) {
    const struct tmk_net_node *n = &m->net->nodes[node];
    bool found = false;
    for (uint32_t o = 0; o < n->n_outputs; o++) {
        const uint32_t y = n->outputs[o];
        for (uint32_t k = y == TMK_NET_NONE ? 0 : m->net->first_use[y];
             y != TMK_NET_NONE && k < m->net->first_use[y + 1]; k++) {
            if (!m->more_bits[m->net->uses[k].node])
                return false;
            found = true;
        }
    }
    return found;
}

/* What moves, clips or compares has the type of what it moves, or of all that read it. */
static void find_more_bits(const struct tmk_match *m) {
    for (uint32_t i = 0; i < m->net->n_nodes; i++)
        m->more_bits[i] = loses_in_8_bits(m, i) || (is_moving(m, i) && moves_more_bits(m, i));
    for (uint32_t i = m->net->n_nodes; i-- > 0;)
        if (is_moving(m, i) && has_more_bits_behind(m, i))
            m->more_bits[i] = true;
}

/* Nodes stand in the order of their results' IDs, so operands come first. */
void tmk_match_beside_float(const struct tmk_match *m) {
    find_unpaired(m);
    for (uint32_t i = 0; i < m->net->n_nodes; i++) {
        const bool follows =
            is_follower(m, i) || (m->config->quantize_sensitive != TMK_YES && is_bias_add(m, i));
        m->beside_float[i] = TMK_NET_NONE;
        if (follows && is_node_quantized(m, i) != TMK_YES)
            m->beside_float[i] = float_before(m, i);
        if (m->beside_float[i] == TMK_NET_NONE && takes_part(m, i))
            m->beside_float[i] = i;
    }
    for (uint32_t i = m->net->n_nodes; i-- > 0;)
        if ((m->config->quantize_sensitive != TMK_YES || moves_constants(m, i)) &&
            m->beside_float[i] == TMK_NET_NONE && is_follower(m, i) && !is_bias_add(m, i) &&
            is_node_quantized(m, i) == TMK_UNSET)
            m->beside_float[i] = float_behind(m, i);
    if (m->config->sensitive_dtype != TMK_UNDEFINED)
        find_more_bits(m);
}
