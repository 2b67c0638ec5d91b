/* SPDX-License-Identifier: Apache-2.0 */
#include "calib/fused.h"

#include <stdio.h>

#include "base/diag.h"
#include "traits/traits.h"

/* The node that alone reads the result of this one; TMK_NET_NONE: none, or several. */
static uint32_t only_reader(const struct tmk_net *net, uint32_t v) {
    return net->profile->tensors[v].kind == TMK_PROFILE_OUTPUT || tmk_net_readers(net, v) != 1
               ? TMK_NET_NONE
               : net->uses[net->first_use[v]].node;
}

/* A sum takes one accumulator; its other operand has codes, and is no constant, which would be a
 * bias. */
static bool is_only_accumulator(const struct tmk_net *net, uint32_t sum, uint32_t v,
                                const char *const *reason) {
    const struct tmk_net_node *n = &net->nodes[sum];
    for (uint32_t i = 0; i < n->n_inputs; i++) {
        const uint32_t x = n->inputs[i];
        if (x != v && (x == TMK_NET_NONE || !net->varies[x] || reason[x]))
            return false;
    }
    return true;
}

enum tmk_status tmk_fused_values(const struct tmk_net *net, const struct tmk_config *config,
                                 const char **reason, struct tmk_arena *arena,
                                 struct tmk_diag *diag) {
    const struct tmk_target *target = config->target;
    for (uint32_t i = 0; target && i < net->n_nodes; i++) {
        const uint32_t v = tmk_net_output(net, i, 0);
        const uint32_t reader = v == TMK_NET_NONE ? TMK_NET_NONE : only_reader(net, v);
        if (reader == TMK_NET_NONE || reason[v] || !net->varies[v] ||
            !tmk_target_fuses(target, net->nodes[i].op, net->nodes[reader].op))
            continue;
        const struct tmk_net_node *next = &net->nodes[reader];
        const enum tmk_op_class class = tmk_traits_of(next->domain, next->op)->class;
        if ((class == TMK_OP_CLAMP && config->built_in[TMK_RULE_AFTER_RELU]) ||
            (class == TMK_OP_SUM && !is_only_accumulator(net, reader, v, reason)))
            continue;
        char text[256];
        snprintf(text, sizeof text, "%s computes %s and %s in one step, without codes between them",
                 target->name, net->nodes[i].op, next->op);
        reason[v] = tmk_arena_strdup(arena, text);
        if (!reason[v])
            return tmk_nomem(diag);
    }
    return TMK_OK;
}
