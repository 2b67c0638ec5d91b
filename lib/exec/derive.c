/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/derive.h"

#include <math.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/ptrmap.h"
#include "tensor/shape.h"

/* ---- which ---- */

struct deriving {
    const struct tmk_observer *observers;
    struct tmk_slot_config *configs;
    struct tmk_ptrmap slots;  /* observed value -> its first observer's slot + 1 */
    struct tmk_ptrmap varies; /* values that no plan knows before it runs */
    struct tmk_diag *diag;
};

static const struct tmk_value *observed(const struct tmk_observer *observer) {
    return tmk_value_source(observer->node->outputs[0]);
}

/* The constant scalar that an operand is; NAN where it is none. */
static float scalar(const struct tmk_value *value) {
    const struct tmk_value *source = tmk_value_source(value);
    const struct tmk_tensor *data = &source->data;
    if (source->kind == TMK_VALUE_RESULT &&
        tmk_node_is(source->producer, TMK_DOMAIN_ONNX, "Constant")) {
        const struct tmk_attr *held = tmk_node_attr(source->producer, "value");
        if (!held || held->kind != TMK_ATTR_TENSOR)
            return NAN;
        data = held->tensors;
    } else if (source->kind != TMK_VALUE_INITIALIZER) {
        return NAN;
    }
    if (data->dtype != TMK_FLOAT32 || tmk_tensor_count(data) != 1 || !data->data)
        return NAN;
    return *(const float *)data->data;
}

/* Up to operator set 10 the limits are attributes. An upper limit that is not given is the largest
 * float, which an infinity would become; so it has no rule, unless it is the old operator's. */
static bool clamp_of(const struct tmk_node *node, struct tmk_clamp *out) {
    *out = (struct tmk_clamp){0, INFINITY};
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "Relu"))
        return true;
    if (!tmk_node_is(node, TMK_DOMAIN_ONNX, "Clip") || !node->row)
        return false;
    if (node->row->since >= 11) {
        if (node->n_inputs < 3 || !node->inputs[1] || !node->inputs[2])
            return false;
        *out = (struct tmk_clamp){scalar(node->inputs[1]), scalar(node->inputs[2])};
    } else {
        *out =
            (struct tmk_clamp){tmk_node_float(node, "min", NAN), tmk_node_float(node, "max", NAN)};
    }
    return out->lo < out->hi;
}

/* The slot that can be a source of `slot` for this operand, or UINT32_MAX. */
static uint32_t source_of(const struct deriving *d, uint32_t slot,
                          const struct tmk_value *operand) {
    const struct tmk_value *value = tmk_value_source(operand);
    size_t source = (size_t)tmk_ptrmap_get(&d->slots, value);
    if (!source || !tmk_ptrmap_get(&d->varies, value) ||
        d->configs[source - 1].level != d->configs[slot].level)
        return UINT32_MAX;
    return (uint32_t)source - 1;
}

static enum tmk_status set_rule(struct deriving *d, uint32_t slot, enum tmk_rule rule,
                                const struct tmk_node *node, uint32_t n) {
    struct tmk_slot_config *config = &d->configs[slot];
    uint32_t *sources = calloc(n, sizeof *sources);
    if (!sources)
        return tmk_nomem(d->diag);
    for (uint32_t i = 0; i < n; i++) {
        sources[i] = source_of(d, slot, node->inputs[i]);
        if (sources[i] == UINT32_MAX) {
            free(sources);
            return TMK_OK;
        }
    }
    config->rule = rule;
    config->sources = sources;
    config->n_sources = n;
    return TMK_OK;
}

static enum tmk_status derive_clamp(struct deriving *d, uint32_t slot, const struct tmk_node *node,
                                    const struct tmk_clamp *clamp) {
    struct tmk_slot_config *config = &d->configs[slot];
    /* what is left out of the operand is a number like others in the result */
    if (!tmk_clamp_follows(clamp, config->level) || config->n_exclude)
        return TMK_OK;
    uint32_t source = source_of(d, slot, node->inputs[0]);
    /* a source has one shadow; and a shadow is made while its source is looked at */
    if (source == UINT32_MAX || d->configs[source].shadowed ||
        d->configs[source].rule != TMK_RULE_NONE)
        return TMK_OK;
    TMK_TRY(set_rule(d, slot, TMK_RULE_CLAMP, node, 1));
    config->clamp = *clamp;
    d->configs[source].shadowed = config->rule == TMK_RULE_CLAMP;
    d->configs[source].shadow = *clamp;
    return TMK_OK;
}

/* Along another axis than that of samples? One counted from the end tells only with a rank. */
static bool keeps_samples(const struct tmk_node *concat, const struct tmk_value *result,
                          int64_t axis) {
    if (axis >= 0)
        return axis > 0;
    for (uint32_t i = 0; i <= concat->n_inputs; i++) {
        const struct tmk_value *value = i ? tmk_value_source(concat->inputs[i - 1]) : result;
        if (value->type.has_shape)
            return value->type.shape.rank + axis > 0;
    }
    return false;
}

static enum tmk_status derive_one(struct deriving *d, uint32_t slot) {
    const struct tmk_slot_config *config = &d->configs[slot];
    const struct tmk_observer *observer = &d->observers[slot];
    const struct tmk_value *value = observed(observer);
    struct tmk_clamp clamp;
    if (observer->in_subgraph || config->guard || config->print || config->see ||
        !value->producer || value->producer->graph->parent || !tmk_ptrmap_get(&d->slots, value) ||
        value->producer->n_inputs < 1 || !value->producer->inputs[0])
        return TMK_OK;
    if (clamp_of(value->producer, &clamp))
        return derive_clamp(d, slot, value->producer, &clamp);
    const struct tmk_attr *axis = tmk_node_attr(value->producer, "axis");
    if (!tmk_node_is(value->producer, TMK_DOMAIN_ONNX, "Concat") || !axis ||
        !keeps_samples(value->producer, value, axis->i))
        return TMK_OK;
    d->configs[slot].axis = axis->i;
    return set_rule(d, slot, TMK_RULE_CONCAT, value->producer, value->producer->n_inputs);
}

/* What follows from constants and shapes alone may be folded, and is then observed elsewhere. */
static bool find_varying(struct deriving *d, const struct tmk_graph *graph) {
    bool ok = true;
    for (uint32_t i = 0; ok && i < graph->n_inputs; i++)
        ok = tmk_ptrmap_put(&d->varies, graph->inputs[i], graph->inputs[i]);
    for (const struct tmk_node *node = graph->first; ok && node; node = node->next) {
        bool varies = !(node->row->flags & TMK_OP_PURE);
        for (uint32_t i = 0; i < node->n_inputs && !varies; i++)
            varies = node->inputs[i] && tmk_ptrmap_get(&d->varies, node->inputs[i]);
        if (!varies || (node->row->flags & TMK_OP_SHAPE_ONLY))
            continue;
        for (uint32_t i = 0; ok && i < node->n_outputs; i++)
            ok =
                !node->outputs[i] || tmk_ptrmap_put(&d->varies, node->outputs[i], node->outputs[i]);
    }
    return ok;
}

enum tmk_status tmk_derive_rules(const struct tmk_graph *graph,
                                 const struct tmk_observer *observers,
                                 struct tmk_slot_config *configs, uint32_t n,
                                 struct tmk_diag *diag) {
    struct deriving d = {.observers = observers, .configs = configs, .diag = diag};
    bool ok = find_varying(&d, graph);
    for (uint32_t s = 0; ok && s < n; s++) {
        const struct tmk_value *value = observed(&observers[s]);
        if (!tmk_ptrmap_get(&d.slots, value))
            ok = tmk_ptrmap_put(&d.slots, value, (void *)(uintptr_t)(s + 1));
    }
    enum tmk_status status = ok ? TMK_OK : tmk_nomem(diag);
    for (uint32_t s = 0; status == TMK_OK && s < n; s++)
        status = derive_one(&d, s);
    tmk_ptrmap_finish(&d.slots);
    tmk_ptrmap_finish(&d.varies);
    return status;
}

/* ---- while running ---- */

static void note_concat(struct tmk_account *accounts, const struct tmk_slot_config *configs,
                        uint32_t slot, const struct tmk_stats_at *at) {
    const struct tmk_slot_config *config = &configs[slot];
    const struct tmk_shape *shape = &accounts[slot].shape;
    int32_t axis = (int32_t)(config->axis < 0 ? config->axis + shape->rank : config->axis);
    struct tmk_stats_operand operands[TMK_MAX_INPUTS];
    size_t offset = 0;
    for (uint32_t i = 0; i < config->n_sources; i++) {
        const struct tmk_account *source = &accounts[config->sources[i]];
        const struct tmk_slot_config *rule = &configs[config->sources[i]];
        size_t elements = tmk_shape_part(&source->shape, axis, source->shape.rank);
        operands[i] = (struct tmk_stats_operand){source->floats, NULL, elements,
                                                 tmk_shape_part(shape, axis, shape->rank), offset};
        if (rule->rule == TMK_RULE_CLAMP) {
            operands[i].x = accounts[rule->sources[0]].floats;
            operands[i].shadow = accounts[rule->sources[0]].shadow;
        } else if (rule->rule == TMK_RULE_CONCAT) {
            operands[i].shadow = source->shadow;
        }
        offset += elements;
    }
    tmk_stats_shadow_concat(accounts[slot].shadow, operands, config->n_sources, at);
}

void tmk_derive_note(struct tmk_account *accounts, const struct tmk_slot_config *configs,
                     uint32_t n, const struct tmk_stats_at *at) {
    for (uint32_t s = 0; s < n; s++) /* operands come before results */
        if (configs[s].rule == TMK_RULE_CONCAT && accounts[s].dtype == TMK_FLOAT32 &&
            accounts[s].runs && accounts[s].last_sample == at->sample)
            note_concat(accounts, configs, s, at);
}

/* ---- in the end ---- */

static enum tmk_status derive_concat(struct tmk_account *accounts,
                                     const struct tmk_slot_config *config,
                                     struct tmk_account *account, struct tmk_diag *diag) {
    const struct tmk_stats **operands = calloc(config->n_sources, sizeof *operands);
    if (!operands)
        return tmk_nomem(diag);
    for (uint32_t i = 0; i < config->n_sources; i++)
        operands[i] = accounts[config->sources[i]].floats;
    enum tmk_status status = tmk_stats_derive_concat(operands, config->n_sources, account->shadow,
                                                     &account->floats, diag);
    free(operands);
    return status;
}

/* Of each sample: those of all operands together, clamped. */
static enum tmk_status derive_samples(struct tmk_account *accounts,
                                      const struct tmk_slot_config *config,
                                      struct tmk_account *account, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < config->n_sources; i++)
        TMK_TRY(tmk_samples_merge(&account->samples, &accounts[config->sources[i]].samples, diag));
    if (config->rule == TMK_RULE_CLAMP)
        tmk_samples_clamp(&account->samples, &config->clamp);
    return TMK_OK;
}

enum tmk_status tmk_derive_all(struct tmk_account *accounts, const struct tmk_slot_config *configs,
                               uint32_t n, struct tmk_diag *diag) {
    for (uint32_t s = 0; s < n; s++) {
        struct tmk_account *account = &accounts[s];
        const struct tmk_slot_config *config = &configs[s];
        if (config->rule == TMK_RULE_NONE || account->dtype != TMK_FLOAT32 || !account->runs)
            continue;
        if (config->per_sample)
            TMK_TRY(derive_samples(accounts, config, account, diag));
        if (config->rule == TMK_RULE_CONCAT)
            TMK_TRY(derive_concat(accounts, config, account, diag));
        else
            TMK_TRY(tmk_stats_derive_clamp(accounts[config->sources[0]].floats,
                                           accounts[config->sources[0]].shadow, &account->floats,
                                           diag));
    }
    return TMK_OK;
}
