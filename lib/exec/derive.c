/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/derive.h"

#include <math.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/map.h"
#include "graph/rewrite.h"
#include "stats/shadow.h"
#include "tensor/shape.h"

/* ---- which ---- */

struct deriving {
    const struct tmk_observer *observers;
    struct tmk_slot_config *configs;
    struct tmk_ptrmap slots;  /* observed value -> its first observer's slot + 1 */
    struct tmk_ptrmap varies; /* values that are unknown when a plan is made */
    struct tmk_diag *diag;
};

static const struct tmk_value *observed_value(const struct tmk_observer *observer) {
    return tmk_value_source(observer->node->outputs[0]);
}

static const struct tmk_tensor *constant_of(const struct tmk_value *value) {
    return value ? tmk_value_constant(tmk_value_source(value)) : NULL;
}

/* The constant scalar that an operand is; NAN where it is none. */
static float scalar_of(const struct tmk_value *value) {
    const struct tmk_tensor *data = constant_of(value);
    return data && data->dtype == TMK_FLOAT32 && tmk_tensor_count(data) == 1
               ? *(const float *)data->data
               : NAN;
}

/* Up to operator set 10 the limits are attributes. An upper limit that is not given is the largest
 * float, which an infinity would become; so it has no rule, unless it is the old operator's. */
static bool clamp_of(const struct tmk_node *node, struct tmk_clamp *out) {
    if (tmk_node_traits(node)->class != TMK_OP_CLAMP || !node->row)
        return false;
    *out = (struct tmk_clamp){0, INFINITY};
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "Relu"))
        return true;
    if (node->row->since >= 11) {
        if (node->n_inputs < 3 || !node->inputs[1] || !node->inputs[2])
            return false;
        *out = (struct tmk_clamp){scalar_of(node->inputs[1]), scalar_of(node->inputs[2])};
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
    if (!source || source > slot || !tmk_ptrmap_get(&d->varies, value) ||
        d->configs[source - 1].level != d->configs[slot].level)
        return UINT32_MAX;
    return (uint32_t)source - 1;
}

static enum tmk_status set_rule(struct deriving *d, uint32_t slot, enum tmk_derive_rule rule,
                                const struct tmk_node *node, uint32_t n) {
    struct tmk_slot_config *config = &d->configs[slot];
    uint32_t *sources = calloc(n, sizeof *sources);
    TMK_TRY_ALLOC(sources, d->diag);
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
        d->configs[source].rule != TMK_DERIVE_NONE)
        return TMK_OK;
    TMK_TRY(set_rule(d, slot, TMK_DERIVE_CLAMP, node, 1));
    config->clamp = *clamp;
    d->configs[source].shadowed = config->rule == TMK_DERIVE_CLAMP;
    d->configs[source].shadow = *clamp;
    /* what is clamped is known of elements in bins only; and a histogram of all elements, which
     * gives two values, costs no more than two thinned ones */
    if (config->rule == TMK_DERIVE_CLAMP)
        config->share = d->configs[source].share = 0;
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

static enum tmk_status derive_concat(struct deriving *d, uint32_t slot, const struct tmk_node *node,
                                     const struct tmk_value *value) {
    const struct tmk_attr *axis = tmk_node_attr(node, "axis");
    if (!axis || !keeps_samples(node, value, axis->i))
        return TMK_OK;
    d->configs[slot].axis = axis->i;
    return set_rule(d, slot, TMK_DERIVE_CONCAT, node, node->n_inputs);
}

/* Integers that a node has as an attribute or, later, as its second operand; NULL: not known. */
static const int64_t *integers_of(const struct tmk_node *node, const char *name, size_t *n) {
    const struct tmk_tensor *operand = node->n_inputs > 1 ? constant_of(node->inputs[1]) : NULL;
    if (!operand)
        return tmk_node_ints(node, name, n);
    *n = tmk_tensor_count(operand);
    return operand->dtype == TMK_INT64 ? operand->data : NULL;
}

/* Is the first axis of a view that of its operand, whatever the shapes? */
static bool keeps_first(const struct tmk_node *node) {
    const int64_t *list = NULL;
    size_t n = 0;
    switch (tmk_node_traits(node)->batch) {
    case TMK_BATCH_FLATTEN:
        return tmk_node_int(node, "axis", 1) == 1;
    case TMK_BATCH_SQUEEZE:
    case TMK_BATCH_UNSQUEEZE:
        list = integers_of(node, "axes", &n);
        for (size_t i = 0; list && i < n; i++)
            if (list[i] < 1)
                return false;
        return list && n;
    case TMK_BATCH_RESHAPE:
        list = integers_of(node, "shape", &n);
        return list && n && list[0] == 0 && !tmk_node_int(node, "allowzero", 0);
    default:
        return node->row->channel == TMK_CHANNEL_INHERIT; /* it keeps all axes */
    }
}

static uint32_t root_of(const struct tmk_slot_config *configs, uint32_t slot) {
    return configs[slot].rule >= TMK_DERIVE_VIEW ? configs[slot].root : slot;
}

static enum tmk_status derive_moved(struct deriving *d, uint32_t slot, const struct tmk_node *node,
                                    enum tmk_derive_rule rule, bool samples_stay) {
    struct tmk_slot_config *config = &d->configs[slot];
    if (config->per_sample && !samples_stay)
        return TMK_OK;
    TMK_TRY(set_rule(d, slot, rule, node, 1));
    if (config->rule == rule)
        config->root = root_of(d->configs, config->sources[0]);
    return TMK_OK;
}

static enum tmk_status derive_one(struct deriving *d, uint32_t slot) {
    const struct tmk_slot_config *config = &d->configs[slot];
    const struct tmk_observer *observer = &d->observers[slot];
    const struct tmk_value *value = observed_value(observer);
    const struct tmk_node *node = value->producer;
    struct tmk_clamp clamp;
    if (observer->in_subgraph || config->guard || config->print || config->see || !node ||
        node->graph->parent || value->output != 0 || node->n_inputs < 1 || !node->inputs[0])
        return TMK_OK;
    if (clamp_of(node, &clamp))
        return derive_clamp(d, slot, node, &clamp);
    const struct tmk_traits *traits = tmk_node_traits(node);
    if (traits->class == TMK_OP_CONCAT)
        return derive_concat(d, slot, node, value);
    if (traits->batch == TMK_BATCH_TRANSPOSE) {
        size_t n = 0;
        const int64_t *perm = tmk_node_ints(node, "perm", &n);
        return derive_moved(d, slot, node, TMK_DERIVE_TRANSPOSE, n && perm[0] == 0);
    }
    if (node->row->flags & TMK_OP_VIEW)
        return derive_moved(d, slot, node, TMK_DERIVE_VIEW, keeps_first(node));
    return TMK_OK;
}

/* What follows from constants and shapes alone may be folded, and is then observed elsewhere. */
static bool find_varying(struct deriving *d, const struct tmk_graph *graph) {
    bool ok = true;
    for (uint32_t i = 0; ok && i < graph->n_inputs; i++)
        ok = tmk_ptrmap_put(&d->varies, graph->inputs[i], graph->inputs[i]);
    for (const struct tmk_node *node = graph->first; ok && node; node = node->next) {
        bool varies = node->row->flags & TMK_OP_IMPURE;
        for (uint32_t i = 0; i < node->n_inputs && !varies; i++)
            varies = node->inputs[i] && tmk_ptrmap_get(&d->varies, node->inputs[i]);
        if (!varies || tmk_node_has(node, TMK_TRAIT_SHAPE_ONLY))
            continue;
        for (uint32_t i = 0; ok && i < node->n_outputs; i++)
            ok =
                !node->outputs[i] || tmk_ptrmap_put(&d->varies, node->outputs[i], node->outputs[i]);
    }
    return ok;
}

/* That of what the slot's numbers come from. */
static uint32_t share_of(const struct tmk_slot_config *configs, uint32_t slot) {
    while (configs[slot].rule != TMK_DERIVE_NONE)
        slot = configs[slot].sources[0];
    return configs[slot].share;
}

/* Histograms of which some are thinned do not add up. */
static void drop_mixed(struct tmk_slot_config *configs, uint32_t slot) {
    struct tmk_slot_config *config = &configs[slot];
    bool mixed = false;
    for (uint32_t i = 1; config->rule == TMK_DERIVE_CONCAT && i < config->n_sources; i++)
        mixed |= share_of(configs, config->sources[i]) != share_of(configs, config->sources[0]);
    if (mixed)
        config->rule = TMK_DERIVE_NONE;
}

enum tmk_status tmk_derive_rules(const struct tmk_graph *graph,
                                 const struct tmk_observer *observers,
                                 struct tmk_slot_config *configs, uint32_t n,
                                 struct tmk_diag *diag) {
    struct deriving d = {.observers = observers, .configs = configs, .diag = diag};
    bool ok = find_varying(&d, graph);
    for (uint32_t s = 0; ok && s < n; s++) {
        const struct tmk_value *value = observed_value(&observers[s]);
        if (!tmk_ptrmap_get(&d.slots, value))
            ok = tmk_ptrmap_put(&d.slots, value, (void *)(uintptr_t)(s + 1));
    }
    enum tmk_status status = ok ? TMK_OK : tmk_nomem(diag);
    for (uint32_t s = 0; status == TMK_OK && s < n; s++)
        status = derive_one(&d, s);
    for (uint32_t s = 0; status == TMK_OK && s < n; s++)
        drop_mixed(configs, s);
    tmk_ptrmap_finish(&d.slots);
    tmk_ptrmap_finish(&d.varies);
    return status;
}

/* ---- while running ---- */

static bool has_rule(const struct tmk_account *account, const struct tmk_slot_config *config) {
    return config->rule != TMK_DERIVE_NONE && account->dtype == TMK_FLOAT32 && account->runs;
}

static bool seen_in(const struct tmk_account *account, const struct tmk_stats_at *at) {
    return account->runs && account->last_sample == at->sample;
}

/* What is known of a slot's value so far. */
static struct tmk_stats_operand operand_of(const struct tmk_account *accounts,
                                           const struct tmk_slot_config *configs, uint32_t slot) {
    const struct tmk_slot_config *config = &configs[slot];
    const struct tmk_account *known =
        &accounts[config->rule == TMK_DERIVE_CLAMP ? config->sources[0] : slot];
    return (struct tmk_stats_operand){
        .x = known->floats, .shadow = config->rule == TMK_DERIVE_NONE ? NULL : known->shadow};
}

static void note_concat(struct tmk_account *accounts, const struct tmk_slot_config *configs,
                        uint32_t slot, const struct tmk_stats_at *at) {
    const struct tmk_slot_config *config = &configs[slot];
    const struct tmk_shape *shape = &accounts[slot].shape;
    int32_t axis = (int32_t)(config->axis < 0 ? config->axis + shape->rank : config->axis);
    struct tmk_stats_operand operands[TMK_MAX_INPUTS];
    size_t offset = 0;
    for (uint32_t i = 0; i < config->n_sources; i++) {
        const struct tmk_shape *part = &accounts[config->sources[i]].shape;
        operands[i] = operand_of(accounts, configs, config->sources[i]);
        operands[i].elements = tmk_shape_product(part, axis, part->rank);
        operands[i].stride = tmk_shape_product(shape, axis, shape->rank);
        operands[i].offset = offset;
        offset += operands[i].elements;
    }
    tmk_stats_shadow_concat(accounts[slot].shadow, operands, config->n_sources, at);
}

/* An operator may lose the channels of its operand, or never have had them, in some shapes. */
static void note_channels(struct tmk_account *account, const struct tmk_account *source) {
    size_t elements = 0;
    (void)tmk_shape_count(&account->shape, &elements);
    account->other_channels |= elements && account->channel_axis != source->channel_axis;
    account->some_channels |= elements && account->channel_axis >= 0;
}

void tmk_derive_note(struct tmk_account *accounts, const struct tmk_slot_config *configs,
                     uint32_t n, const struct tmk_stats_at *at) {
    for (uint32_t s = 0; s < n; s++) { /* operands come before results */
        const struct tmk_slot_config *config = &configs[s];
        if (!has_rule(&accounts[s], config) || !seen_in(&accounts[s], at))
            continue;
        const struct tmk_account *source = &accounts[config->sources[0]];
        if (config->rule == TMK_DERIVE_CONCAT) {
            note_concat(accounts, configs, s, at);
            continue;
        }
        note_channels(&accounts[s], source);
        if (config->rule != TMK_DERIVE_VIEW)
            continue;
        const struct tmk_stats_operand operand = operand_of(accounts, configs, config->sources[0]);
        tmk_stats_shadow_view(accounts[s].shadow, &operand, &source->shape, &accounts[s].shape, at);
    }
}

/* The places that this batch has set in a value which is looked at, or clamped; false: it is not
 * known yet. */
static bool set_in_one(const struct tmk_account *accounts, const struct tmk_slot_config *configs,
                       uint32_t slot, const struct tmk_stats_at *at, struct tmk_places *out) {
    const struct tmk_slot_config *config = &configs[slot];
    const bool clamped = config->rule == TMK_DERIVE_CLAMP;
    if (config->rule > TMK_DERIVE_CLAMP ||
        !seen_in(&accounts[clamped ? config->sources[0] : slot], at))
        return false;
    const struct tmk_stats_operand operand = operand_of(accounts, configs, slot);
    *out = tmk_places_set(&operand, at);
    return true;
}

/* Might there be a place in a transposed value that its shadow lacks? */
static bool may_be_news(const struct tmk_account *accounts, const struct tmk_slot_config *configs,
                        uint32_t slot, const struct tmk_stats_at *at) {
    const struct tmk_slot_config *root = &configs[configs[slot].root];
    const uint32_t *parts = root->rule == TMK_DERIVE_CONCAT ? root->sources : &configs[slot].root;
    const uint32_t n = root->rule == TMK_DERIVE_CONCAT ? root->n_sources : 1;
    for (uint32_t i = 0; i < n; i++) {
        struct tmk_places set;
        if (!set_in_one(accounts, configs, root_of(configs, parts[i]), at, &set) ||
            tmk_stats_shadow_needs_scan(accounts[slot].shadow, &set, at))
            return true;
    }
    return false;
}

enum tmk_status tmk_derive_look(struct tmk_account *accounts, const struct tmk_slot_config *configs,
                                uint32_t slot, const struct tmk_tensor *tensor,
                                const struct tmk_stats_at *at, struct tmk_diag *diag) {
    const struct tmk_slot_config *config = &configs[slot];
    struct tmk_account *account = &accounts[slot];
    TMK_TRY(tmk_account_look(account, config, tensor, at, diag));
    if (config->rule != TMK_DERIVE_TRANSPOSE || !has_rule(account, config) ||
        !may_be_news(accounts, configs, slot, at))
        return TMK_OK;
    return tmk_stats_shadow_scan(account->shadow, tensor->data, &tensor->shape, at, config->exclude,
                                 config->n_exclude, diag);
}

/* ---- in the end ---- */

static enum tmk_status add_up_concat(struct tmk_account *accounts,
                                     const struct tmk_slot_config *config,
                                     struct tmk_account *account, struct tmk_diag *diag) {
    const struct tmk_stats **operands = calloc(config->n_sources, sizeof *operands);
    TMK_TRY_ALLOC(operands, diag);
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
    if (config->rule == TMK_DERIVE_CLAMP)
        tmk_samples_clamp(&account->samples, &config->clamp);
    return TMK_OK;
}

static enum tmk_status derive_state(struct tmk_account *accounts,
                                    const struct tmk_slot_config *config,
                                    struct tmk_account *account, struct tmk_diag *diag) {
    const struct tmk_account *source = &accounts[config->sources[0]];
    if (config->rule == TMK_DERIVE_CONCAT)
        return add_up_concat(accounts, config, account, diag);
    if (config->rule == TMK_DERIVE_CLAMP)
        TMK_TRY(tmk_stats_derive_clamp(source->floats, source->shadow, &account->floats, diag));
    else
        TMK_TRY(tmk_stats_derive_moved(source->floats, account->shadow, &account->floats, diag));
    if (account->other_channels)
        tmk_stats_drop_channels(account->floats, account->some_channels);
    return TMK_OK;
}

/* Of a value whose rule was dropped. */
static void coarsen_as_sources(struct tmk_account *accounts, const struct tmk_slot_config *config,
                               struct tmk_account *account) {
    for (uint32_t i = 0; account->floats && i < config->n_sources; i++) {
        const struct tmk_stats *source = accounts[config->sources[i]].floats;
        if (account->floats->n_wide && source && !tmk_stats_is_narrow(source))
            tmk_stats_coarsen(account->floats);
    }
}

enum tmk_status tmk_derive_all(struct tmk_account *accounts, const struct tmk_slot_config *configs,
                               uint32_t n, struct tmk_diag *diag) {
    for (uint32_t s = 0; s < n; s++) {
        if (configs[s].rule == TMK_DERIVE_NONE)
            coarsen_as_sources(accounts, &configs[s], &accounts[s]);
        if (!has_rule(&accounts[s], &configs[s]))
            continue;
        if (configs[s].per_sample)
            TMK_TRY(derive_samples(accounts, &configs[s], &accounts[s], diag));
        TMK_TRY(derive_state(accounts, &configs[s], &accounts[s], diag));
    }
    return TMK_OK;
}
