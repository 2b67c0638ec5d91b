/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings compared with a target's table. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "base/text.h"
#include "calib/encodings.h"
#include "calib/net.h"
#include "calib/target.h"

static void TMK_PRINTF(2, 3) add_finding(struct tmk_target_check *check, const char *fmt, ...) {
    va_list args;
    check->found++;
    va_start(args, fmt);
    tmk_pass_remark(check->tell, check->context, fmt, args);
    va_end(args);
}

void tmk_target_keep_first(void *context, const char *text) {
    char *first = context;
    if (!*first)
        snprintf(first, TMK_FINDING_SIZE, "%s", text);
}

static bool allows_type(const struct tmk_target_limits *limits, const struct tmk_encoding *e) {
    for (uint32_t i = 0; i < limits->n_types; i++) {
        const struct tmk_target_type *type = &limits->types[i];
        if (type->dtype == e->dtype && (type->scheme == TMK_TARGET_ANY_SCHEME ||
                                        (type->scheme == TMK_TARGET_SYMMETRIC) == e->symmetric))
            return true;
    }
    return false;
}

/* `depthwise`: of an activation, and depthwise convolutions read it. */
static bool allows_scales(const struct tmk_target_limits *limits, const struct tmk_encoding *e,
                          bool depthwise) {
    if (e->axis < 0)
        return limits->tensor || e->role == TMK_ENCODING_BIAS;
    return !e->block && (limits->channel || depthwise);
}

/* Of what an operator computes its readers decide, each by itself. */
static bool reads_depthwise(const struct tmk_target *target) {
    for (uint32_t i = 0; i < target->n_rows; i++)
        if (target->rows[i].limits[TMK_ENCODING_ACTIVATION].depthwise)
            return true;
    return false;
}

static const char *scales_text(const struct tmk_encoding *e) {
    return e->axis < 0 ? "one scale" : e->block ? "a scale per block" : "a scale per channel";
}

/* Which the row has instead. */
static const char *other_scales(const struct tmk_target_limits *limits) {
    return limits->channel     ? "a scale per channel"
           : limits->depthwise ? "one scale, but for depthwise convolutions"
                               : "one scale";
}

/* "uint8, int8 symmetric" */
static void list_types(const struct tmk_target_limits *limits, char *out, size_t size) {
    static const char *const schemes[] = {"", " symmetric", " asymmetric"};
    size_t used = (size_t)snprintf(out, size, "%s", limits->n_types ? "" : "float");
    for (uint32_t i = 0; i < limits->n_types && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s%s", i ? ", " : "",
                                 tmk_dtype_name(limits->types[i].dtype),
                                 schemes[limits->types[i].scheme]);
}

enum { TYPES_SIZE = 256 };

/* `where` is the node, and where it has the value: "Conv 'conv1' input 0". */
static void check_encoding(struct tmk_target_check *check, const struct tmk_target_limits *limits,
                           const struct tmk_encoding *e, bool depthwise, const char *where) {
    char types[TYPES_SIZE];
    list_types(limits, types, sizeof types);
    if (!allows_type(limits, e))
        add_finding(check, "%sp%" PRIu32 " '%s' is %s %s; %s has %s", where, e->id, e->name,
                    tmk_dtype_name(e->dtype), e->symmetric ? "symmetric" : "asymmetric",
                    check->target->name, types);
    else if (!allows_scales(limits, e, depthwise))
        add_finding(check, "%sp%" PRIu32 " '%s' has %s; %s has %s", where, e->id, e->name,
                    scales_text(e), check->target->name, other_scales(limits));
}

static const struct tmk_encoding *read_as(const struct tmk_target_check *check,
                                          const struct tmk_target_node *node, uint32_t at) {
    return node->inputs[at] == UINT32_MAX
               ? NULL
               : tmk_encodings_find(check->encodings, node->inputs[at], node->name, at);
}

/* The one that the first activation has. */
static const struct tmk_encoding *first_activation(const struct tmk_target_check *check,
                                                   const struct tmk_target_node *node) {
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct tmk_encoding *e = read_as(check, node, i);
        if (e && e->role == TMK_ENCODING_ACTIVATION)
            return e;
    }
    return NULL;
}

static void check_sharing(struct tmk_target_check *check, const struct tmk_target_node *node,
                          const struct tmk_encoding *first, const struct tmk_encoding *other) {
    if (other && other->role == TMK_ENCODING_ACTIVATION && !tmk_encoding_same_codes(first, other))
        add_finding(check,
                    "%s '%s': p%" PRIu32 " '%s' and p%" PRIu32 " '%s' have different scales, which "
                    "%s needs to be equal",
                    node->op, node->name, first->id, first->name, other->id, other->name,
                    check->target->name);
}

void tmk_target_check_node(struct tmk_target_check *check, const struct tmk_target_node *node) {
    const struct tmk_target_row *row = tmk_target_find_row(check->target, node->op);
    const struct tmk_encoding *first = first_activation(check, node);
    char where[512];
    if (!first)
        return;
    if (!row) {
        add_finding(check, "%s '%s' reads p%" PRIu32 " '%s' in %s; %s has no integer kernel for it",
                    node->op, node->name, first->id, first->name, tmk_dtype_name(first->dtype),
                    check->target->name);
        return;
    }
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct tmk_encoding *e = read_as(check, node, i);
        snprintf(where, sizeof where, "%s '%s' input %" PRIu32 ": ", node->op, node->name, i);
        if (e)
            check_encoding(check, &row->limits[e->role], e,
                           node->depthwise && row->limits[e->role].depthwise, where);
        if (row->sharing == TMK_TARGET_SHARES_ALL)
            check_sharing(check, node, first, e);
    }
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        const struct tmk_encoding *e =
            node->outputs[o] == UINT32_MAX
                ? NULL
                : tmk_encodings_find(check->encodings, node->outputs[o], NULL, 0);
        snprintf(where, sizeof where, "%s '%s' output %" PRIu32 ": ", node->op, node->name, o);
        if (e && e->role == TMK_ENCODING_ACTIVATION) /* not arithmetic on constants */
            check_encoding(check, &row->limits[TMK_ENCODING_ACTIVATION], e,
                           reads_depthwise(check->target), where);
        if (row->sharing != TMK_TARGET_SHARES_NONE)
            check_sharing(check, node, first, e);
    }
}

void tmk_target_check_types(struct tmk_target_check *check) {
    const struct tmk_target *target = check->target;
    for (uint32_t i = 0; i < check->encodings->n_items; i++) {
        const struct tmk_encoding *e = &check->encodings->items[i];
        bool allowed = false;
        for (uint32_t r = 0; !allowed && r < target->n_rows; r++) {
            const struct tmk_target_limits *limits = &target->rows[r].limits[e->role];
            allowed = allows_type(limits, e) && allows_scales(limits, e, limits->depthwise);
        }
        if (!allowed)
            add_finding(check, "p%" PRIu32 " '%s' is %s %s with %s; no operator of %s takes that",
                        e->id, e->name, tmk_dtype_name(e->dtype),
                        e->symmetric ? "symmetric" : "asymmetric", scales_text(e), target->name);
    }
}

/* ---- the network of a profile ---- */

/* A weight [channels, 1, ...] of an input of several channels. */
static bool is_depthwise(const struct tmk_net *net, uint32_t node) {
    const uint32_t x = tmk_net_input(net, node, 0), w = tmk_net_input(net, node, 1);
    if (strcmp(net->nodes[node].op, "Conv") != 0 || x == TMK_NET_NONE || w == TMK_NET_NONE)
        return false;
    const struct tmk_profile_tensor *input = tmk_net_tensor(net, x),
                                    *weight = tmk_net_tensor(net, w);
    return weight->has_shape && weight->shape.rank > 2 && weight->shape.dim[1] == 1 &&
           weight->shape.dim[0] > 1 &&
           (!input->has_shape || input->shape.rank < 2 || input->shape.dim[1] != 1);
}

static enum tmk_status check_net(struct tmk_target_check *check, const struct tmk_net *net,
                                 struct tmk_diag *diag) {
    const struct tmk_profile_tensor *tensors = net->profile->tensors;
    struct tmk_arena arena = {0};
    enum tmk_status status = TMK_OK;
    for (uint32_t i = 0; status == TMK_OK && i < net->n_nodes; i++) {
        const struct tmk_net_node *n = &net->nodes[i];
        uint32_t *ids = tmk_arena_array(&arena, (size_t)n->n_inputs + n->n_outputs, sizeof *ids);
        if (!ids) {
            status = tmk_nomem(diag);
            break;
        }
        for (uint32_t k = 0; k < n->n_inputs; k++) {
            const uint32_t x = n->inputs[k];
            const bool reads =
                x != TMK_NET_NONE && (net->varies[x] || tmk_input_has_codes(n->traits, k));
            ids[k] = reads ? tensors[x].id : UINT32_MAX;
        }
        for (uint32_t k = 0; k < n->n_outputs; k++)
            ids[n->n_inputs + k] =
                n->outputs[k] == TMK_NET_NONE ? UINT32_MAX : tensors[n->outputs[k]].id;
        const struct tmk_target_node node = {.op = n->op,
                                             .name = n->name,
                                             .inputs = ids,
                                             .outputs = ids + n->n_inputs,
                                             .n_inputs = n->n_inputs,
                                             .n_outputs = n->n_outputs,
                                             .depthwise = is_depthwise(net, i)};
        tmk_target_check_node(check, &node);
    }
    tmk_arena_finish(&arena);
    return status;
}

enum tmk_status tmk_target_check(const struct tmk_target *target,
                                 const struct tmk_encodings *encodings,
                                 const struct tmk_profile *profile,
                                 void (*tell)(void *context, const char *text), void *context,
                                 uint32_t *found, struct tmk_diag *diag) {
    struct tmk_target_check check = {target, encodings, tell, context, 0};
    struct tmk_net net;
    *found = 0;
    if (!profile) {
        tmk_target_check_types(&check);
        *found = check.found;
        return TMK_OK;
    }
    if (profile->model.fingerprint != encodings->model.fingerprint)
        return tmk_fail(diag, TMK_MISMATCH, "%s is another network than that of the encodings, %s",
                        profile->model.file, encodings->model.file);
    enum tmk_status status = tmk_net_init(&net, profile, diag);
    TMK_THEN(status, check_net(&check, &net, diag));
    tmk_net_finish(&net);
    *found = check.found;
    return status;
}
