/* SPDX-License-Identifier: Apache-2.0 */
#include "session/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "graph/rewrite.h"
#include "kernel/accel.h"
#include "ops/ops.h"
#include "pass/instrument.h"
#include "plan/build.h"
#include "profile/format.h"
#include "stats/state.h"
#include "tmk_version.h"

static const char *cpu_isa(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
        return "x86_64 avx512";
    return __builtin_cpu_supports("avx2") ? "x86_64 avx2" : "x86_64";
#elif defined(__aarch64__)
    return "aarch64";
#else
    return "other";
#endif
}

static const char *copy_text(struct tmk_profile *profile, const char *text, bool *ok) {
    const char *c = tmk_profile_text(profile, text);
    *ok &= c != NULL;
    return c;
}

/* Fills the profile's producer and model; `original` is the graph without observers. */
static enum tmk_status describe_model(struct tmk_profile *profile, const struct tmk_model *model,
                                      const struct tmk_graph *original, struct tmk_diag *diag) {
    bool ok = true;
    const struct tmk_graph *graph = model->graph;
    if (graph->structure_only)
        return tmk_fail(diag, TMK_ARGUMENT, "%s was opened for plans only", model->path);
    profile->producer.name = copy_text(profile, "tidemark", &ok);
    profile->producer.version = copy_text(profile, TMK_VERSION, &ok);
    profile->producer.isa = copy_text(profile, cpu_isa(), &ok);
    profile->producer.kernels = copy_text(profile, tmk_kernel_library(), &ok);
    profile->model.file = copy_text(profile, tmk_base_name(model->path), &ok);
    profile->model.sha256 = copy_text(profile, model->sha256, &ok);
    profile->model.format = copy_text(profile, model->format, &ok);
    profile->model.ir_version = graph->ir_version;
    profile->model.fingerprint = tmk_graph_fingerprint(original);
    for (uint32_t i = 0; i < graph->n_opsets; i++)
        TMK_TRY(tmk_profile_add_opset(profile, graph->opsets[i].domain, graph->opsets[i].version,
                                      diag));
    return ok ? TMK_OK : tmk_nomem(diag);
}

static enum tmk_status add_number(struct tmk_profile *profile, const char *key, uint64_t number,
                                  struct tmk_diag *diag) {
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    return tmk_profile_add_setting(profile, key, text, diag);
}

/* Parts of which nothing was looked at are none. */
static enum tmk_status describe_coverage(struct tmk_profile *profile,
                                         const struct tmk_segment *segment, uint32_t stratum,
                                         struct tmk_diag *diag) {
    const struct tmk_sample_counts *counts = tmk_feed_counts(segment->feed, stratum);
    struct tmk_profile_range *ranges = calloc((size_t)counts->n_ranges + 1, sizeof *ranges);
    uint32_t n = 0;
    TMK_TRY_ALLOC(ranges, diag);
    for (uint32_t i = 0; i < counts->n_ranges; i++)
        if (counts->ranges[i].begin < counts->ranges[i].end)
            ranges[n++] = counts->ranges[i];
    enum tmk_status status = tmk_profile_set_ranges(profile, ranges, n, diag);
    free(ranges);
    profile->coverage.total = tmk_feed_begin(segment->feed, UINT64_MAX);
    if (!profile->coverage.total) /* a stream, which ended */
        profile->coverage.total = tmk_feed_reached(segment->feed);
    return status;
}

static enum tmk_status describe_recurrence(struct tmk_profile *profile,
                                           const struct tmk_data_options *data,
                                           struct tmk_diag *diag) {
    const struct tmk_recurrence *recurrence = &data->recurrence;
    if (data->generate.steps)
        TMK_TRY(add_number(profile, "generate", data->generate.steps, diag));
    for (size_t i = 0; data->generate.steps && i < data->generate.n_stop; i++)
        TMK_TRY(add_number(profile, "eos", (uint64_t)data->generate.stop[i], diag));
    for (size_t i = 0; i < recurrence->n_feedback; i++)
        TMK_TRY(tmk_profile_add_setting(profile, "feedback", recurrence->feedback[i], diag));
    if (!recurrence->n_feedback || data->generate.steps)
        return TMK_OK;
    return tmk_profile_add_setting(profile, "reset",
                                   recurrence->reset ? recurrence->reset : "never", diag);
}

static enum tmk_status describe_counts(struct tmk_profile *profile,
                                       const struct tmk_segment *segment, uint32_t stratum,
                                       struct tmk_diag *diag) {
    const struct tmk_sample_counts *counts = tmk_feed_counts(segment->feed, stratum);
    for (size_t i = 0; i < counts->n_bad; i++)
        TMK_TRY(tmk_profile_add_bad(profile, counts->bad[i].sample, counts->bad[i].file,
                                    counts->bad[i].why, diag));
    profile->ledger.offered = counts->run + counts->skipped + counts->failed;
    profile->ledger.skipped = counts->skipped;
    profile->ledger.failed = counts->failed;
    if (segment->tallies) {
        profile->ledger.run = segment->tallies[stratum].samples;
        profile->ledger.batches = segment->tallies[stratum].batches;
    }
    return describe_coverage(profile, segment, stratum, diag);
}

static enum tmk_status describe_data(struct tmk_profile *profile, const struct tmk_segment *segment,
                                     struct tmk_diag *diag) {
    const char *image = segment->options->data.image;
    bool images = false;
    for (uint32_t i = 0; i < segment->original->n_inputs; i++) {
        const struct tmk_source_info *info = tmk_feed_source(segment->feed, i);
        char hash[sizeof "xxh128:" + TMK_HASH128_HEX];
        if (!info)
            continue;
        images |= strcmp(info->kind, "images") == 0;
        snprintf(hash, sizeof hash, "xxh128:%s",
                 segment->hashes[tmk_feed_source_of(segment->feed, i)]);
        TMK_TRY(tmk_profile_add_source(profile, segment->original->inputs[i]->name, info->label,
                                       tmk_feed_entries(segment->feed, i), hash, diag));
    }
    if (images)
        TMK_TRY(
            tmk_profile_add_setting(profile, "image", image && *image ? image : "default", diag));
    TMK_TRY(describe_recurrence(profile, &segment->options->data, diag));
    if (segment->options->data.skip)
        TMK_TRY(add_number(profile, "skip", segment->options->data.skip, diag));
    if (segment->options->data.every > 1)
        TMK_TRY(add_number(profile, "sample-every", segment->options->data.every, diag));
    return TMK_OK;
}

static enum tmk_status add_share(struct tmk_profile *profile, uint32_t share,
                                 struct tmk_diag *diag) {
    char text[16];
    snprintf(text, sizeof text, "1/%u", (unsigned)share);
    return tmk_profile_add_setting(profile, "histogram-share", text, diag);
}

static enum tmk_status describe_settings(struct tmk_profile *profile,
                                         const struct tmk_segment *segment, const char *label,
                                         struct tmk_diag *diag) {
    const struct tmk_observe *observe = segment->observe;
    TMK_TRY(add_number(profile, "batch", tmk_feed_plan(segment->feed).batch, diag));
    TMK_TRY(tmk_profile_add_setting(profile, "kind",
                                    observe && observe->kind ? observe->kind : "histogram", diag));
    if (segment->options->round_half)
        TMK_TRY(tmk_profile_add_setting(profile, "round-half", "true", diag));
    TMK_TRY(tmk_excluded_describe(segment->excluded, profile, diag));
    if (segment->options->statistics.histogram_share > 1)
        TMK_TRY(add_share(profile, segment->options->statistics.histogram_share, diag));
    const char *mask = segment->options->statistics.exclude_padding;
    if (mask)
        TMK_TRY(tmk_profile_add_setting(profile, "exclude-padding", mask, diag));
    if (!observe || !observe->n_patterns)
        TMK_TRY(tmk_profile_add_setting(profile, "observe", "all", diag));
    for (size_t i = 0; observe && i < observe->n_patterns; i++)
        TMK_TRY(tmk_profile_add_setting(profile, "observe", observe->patterns[i], diag));
    return label ? tmk_profile_add_setting(profile, TMK_PROFILE_STRATUM, label, diag) : TMK_OK;
}

enum tmk_status tmk_segment_describe(const struct tmk_segment *segment, uint32_t stratum,
                                     const char *label, struct tmk_profile **out,
                                     struct tmk_diag *diag) {
    struct tmk_profile *profile = NULL;
    TMK_TRY(tmk_profile_create(&profile, diag));
    enum tmk_status status = describe_model(profile, segment->model, segment->original, diag);
    TMK_THEN(status, describe_data(profile, segment, diag));
    TMK_THEN(status, describe_counts(profile, segment, stratum, diag));
    TMK_THEN(status, describe_settings(profile, segment, label, diag));
    if (status == TMK_OK)
        *out = profile;
    else
        tmk_profile_destroy(&profile);
    return status;
}

/* In the order of the consuming nodes, identified by the numbers of their first results. */
static uint64_t place_of(const struct tmk_use *use) {
    for (uint32_t i = 0; i < use->node->n_outputs; i++)
        if (use->node->outputs[i])
            return (uint64_t)use->node->outputs[i]->index << 32 | use->input;
    return UINT64_MAX;
}

static int by_place(const void *a, const void *b) {
    uint64_t x = place_of(a), y = place_of(b);
    return TMK_ORDER(x, y);
}

static enum tmk_status describe_ends(struct tmk_profile *profile, const struct tmk_value *value,
                                     struct tmk_profile_tensor *tensor, struct tmk_diag *diag) {
    if (value->producer) {
        const struct tmk_node *node = value->producer;
        tensor->has_producer = true;
        tensor->producer = (struct tmk_profile_producer){
            tmk_profile_text(profile, node->name), tmk_profile_text(profile, node->op),
            tmk_profile_text(profile, node->domain), value->output};
        TMK_TRY_ALLOC(tensor->producer.node && tensor->producer.op && tensor->producer.domain,
                      diag);
    }
    struct tmk_use *uses = calloc(value->n_uses + 1u, sizeof *uses);
    TMK_TRY_ALLOC(uses, diag);
    if (value->n_uses) {
        memcpy(uses, value->uses, value->n_uses * sizeof *uses);
        qsort(uses, value->n_uses, sizeof *uses, by_place);
    }
    enum tmk_status status = TMK_OK;
    for (uint32_t i = 0; status == TMK_OK && i < value->n_uses; i++)
        status = tmk_profile_add_consumer(profile, tensor, uses[i].node->name, uses[i].node->op,
                                          uses[i].node->domain, uses[i].input, diag);
    free(uses);
    return status;
}

/* ---- what it is computed from ---- */

static enum tmk_status add_operand(struct tmk_profile_tensor *tensor, const struct tmk_value *value,
                                   struct tmk_diag *diag) {
    if (value && value->profile_id < 0)
        value = tmk_value_source(value);
    if (!value || value->profile_id < 0 || value->profile_id > UINT32_MAX)
        return TMK_OK;
    return tmk_profile_add_operand(tensor, (uint32_t)value->profile_id, diag);
}

static enum tmk_status add_input(struct tmk_profile_tensor *tensor, const struct tmk_node *node,
                                 uint32_t i, struct tmk_diag *diag) {
    return i < node->n_inputs ? add_operand(tensor, node->inputs[i], diag) : TMK_OK;
}

static enum tmk_status add_output(struct tmk_profile_tensor *tensor, const struct tmk_graph *body,
                                  uint32_t i, struct tmk_diag *diag) {
    return i < body->n_outputs ? add_operand(tensor, body->outputs[i], diag) : TMK_OK;
}

static const struct tmk_graph *body_of(const struct tmk_node *node) {
    for (uint32_t i = 0; i < node->n_attrs; i++)
        if (node->attrs[i].kind == TMK_ATTR_GRAPH)
            return node->attrs[i].graphs[0];
    return NULL;
}

/* The numbers that go round: not counted are a Loop's number and condition, which come first among
 * its body's inputs, and the scanned inputs of a Scan. */
static uint32_t states_of(const struct tmk_node *node, const struct tmk_graph *body) {
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "Loop"))
        return body->n_inputs > 2 ? body->n_inputs - 2 : 0;
    int64_t scanned = tmk_node_int(node, "num_scan_inputs", body->n_inputs);
    return scanned >= 0 && scanned < body->n_inputs ? body->n_inputs - (uint32_t)scanned : 0;
}

/* Until operator set 8, Scan had the sequences' lengths as its first input. */
static uint32_t inputs_before(const struct tmk_node *node) {
    return tmk_node_is(node, TMK_DOMAIN_ONNX, "Scan") && node->row && node->row->since < 9;
}

static enum tmk_status trace_formal(struct tmk_profile_tensor *tensor,
                                    const struct tmk_value *value, struct tmk_diag *diag) {
    const struct tmk_graph *body = value->graph;
    const struct tmk_node *node = body->owner;
    uint32_t at = 0;
    while (at < body->n_inputs && body->inputs[at] != value)
        at++;
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "Loop")) {
        if (at == 0)
            return TMK_OK;
        TMK_TRY(add_input(tensor, node, at, diag));
        return add_output(tensor, body, at - 1, diag);
    }
    TMK_TRY(add_input(tensor, node, at + inputs_before(node), diag));
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "Scan") && at < states_of(node, body))
        return add_output(tensor, body, at, diag);
    return TMK_OK;
}

/* From the step before. */
static enum tmk_status trace_input(struct tmk_profile_tensor *tensor, const struct tmk_value *value,
                                   const struct tmk_feedback *feedback, struct tmk_diag *diag) {
    const struct tmk_graph *graph = value->graph;
    for (uint32_t i = 0; i < feedback->n; i++)
        if (graph->inputs[feedback->loops[i].input] == value)
            return add_operand(tensor, graph->outputs[feedback->loops[i].output], diag);
    return TMK_OK;
}

static enum tmk_status trace_value(struct tmk_profile_tensor *tensor, const struct tmk_value *value,
                                   const struct tmk_feedback *feedback, struct tmk_diag *diag) {
    if (value->producer) {
        const struct tmk_node *node = value->producer;
        const struct tmk_graph *body = body_of(node);
        bool loop = tmk_node_is(node, TMK_DOMAIN_ONNX, "Loop"),
             scan = tmk_node_is(node, TMK_DOMAIN_ONNX, "Scan");
        if (body && (loop || scan)) {
            uint32_t before = loop ? 2 : inputs_before(node);
            if (value->output < states_of(node, body))
                TMK_TRY(add_input(tensor, node, before + value->output, diag));
            return add_output(tensor, body, value->output + loop, diag);
        }
        for (uint32_t i = 0; i < node->n_inputs; i++)
            TMK_TRY(add_input(tensor, node, i, diag));
        for (uint32_t i = 0; i < node->n_attrs; i++)
            if (node->attrs[i].kind == TMK_ATTR_GRAPH)
                TMK_TRY(add_output(tensor, node->attrs[i].graphs[0], value->output, diag));
        return TMK_OK;
    }
    if (value->kind != TMK_VALUE_INPUT)
        return TMK_OK;
    return value->graph->owner ? trace_formal(tensor, value, diag)
                               : trace_input(tensor, value, feedback, diag);
}

/* ---- what was seen ---- */

static enum tmk_status move_account(const struct tmk_profile *profile, struct tmk_account *account,
                                    bool per_sample, struct tmk_profile_tensor *tensor,
                                    struct tmk_diag *diag) {
    for (uint32_t i = 0; i < account->n_shapes; i++)
        TMK_TRY(
            tmk_profile_add_runs(tensor, &account->shapes[i].shape, account->shapes[i].runs, diag));
    tensor->more_runs = account->more_shapes;
    tensor->expected_count = account->elements;
    if (account->dtype == TMK_UNDEFINED)
        return TMK_OK;
    if (tensor->dtype != account->dtype) {
        tensor->dtype = account->dtype;
        tensor->origin = account->dtype;
    }
    if (account->floats)
        TMK_TRY(tmk_stats_finalize(account->floats, diag));
    tensor->stats = account->floats;
    account->floats = NULL;
    tensor->has_int_stats = tmk_int_stats_supports(account->dtype);
    tensor->int_stats = account->ints;
    tensor->topk = account->topk;
    if (!per_sample || !tensor->stats || tensor->kind == TMK_PROFILE_WEIGHT)
        return TMK_OK;
    /* One entry a sample of the ledger's range. */
    uint64_t first = profile->ledger.first_sample, n = profile->ledger.end_sample - first;
    size_t bytes;
    if (n > SIZE_MAX || !tmk_mul_size((size_t)n, sizeof(float), &bytes))
        return tmk_nomem(diag);
    tensor->sample_min = malloc(bytes ? bytes : 1);
    tensor->sample_max = malloc(bytes ? bytes : 1);
    TMK_TRY_ALLOC(tensor->sample_min && tensor->sample_max, diag);
    tensor->n_samples = n;
    for (uint64_t i = 0; i < n; i++)
        tensor->sample_min[i] = tensor->sample_max[i] = NAN;
    for (size_t i = 0; i < account->samples.n; i++) {
        const struct tmk_minmax *range = &account->samples.range[i];
        uint64_t at = account->samples.sample[i] - first;
        if (at < n && range->min <= range->max) {
            tensor->sample_min[at] = range->min;
            tensor->sample_max[at] = range->max;
        }
    }
    return TMK_OK;
}

static const char *const rule_names[] = {[TMK_DERIVE_NONE] = "",
                                         [TMK_DERIVE_CLAMP] = "clip",
                                         [TMK_DERIVE_CONCAT] = "concat",
                                         [TMK_DERIVE_VIEW] = "view",
                                         [TMK_DERIVE_TRANSPOSE] = "transpose"};

static enum tmk_status record_value(struct tmk_profile *profile, const struct tmk_value *value,
                                    const struct tmk_observed *observed, uint32_t slot,
                                    struct tmk_diag *diag) {
    struct tmk_profile_tensor *tensor;
    char path[TMK_GRAPH_PATH];
    TMK_TRY(tmk_profile_add_tensor(profile, (uint32_t)value->profile_id, &tensor, diag));
    tensor->fingerprint = value->fingerprint;
    tensor->content = value->content;
    tensor->ordinal = value->ordinal;
    tensor->name = tmk_profile_text(profile, value->name);
    tmk_graph_path(value->graph, path);
    tensor->path = tmk_profile_text(profile, path);
    TMK_TRY_ALLOC(tensor->name && tensor->path, diag);
    tensor->kind = tmk_value_kind_of(value);
    tensor->inner = value->inner;
    tensor->dtype = value->type.dtype;
    tensor->origin = value->type.origin;
    tensor->has_shape = value->type.has_shape;
    tensor->shape = value->type.shape;
    for (int i = 0; tensor->has_shape && i < tensor->shape.rank; i++) {
        if (!value->type.symbol[i])
            continue;
        tensor->symbol[i] = tmk_profile_text(profile, value->type.symbol[i]);
        TMK_TRY_ALLOC(tensor->symbol[i], diag);
    }
    TMK_TRY(describe_ends(profile, value, tensor, diag));
    TMK_TRY(trace_value(tensor, value, &observed->feedback, diag));
    if (slot)
        TMK_TRY(move_account(profile, &observed->accounts[slot - 1],
                             observed->configs[slot - 1].per_sample, tensor, diag));
    if (slot && tensor->stats && tensor->kind != TMK_PROFILE_WEIGHT &&
        observed->configs[slot - 1].rule != TMK_DERIVE_NONE) {
        const struct tmk_slot_config *config = &observed->configs[slot - 1];
        bool relu =
            config->rule == TMK_DERIVE_CLAMP && config->clamp.lo == 0 && isinf(config->clamp.hi);
        tensor->rule = tmk_profile_text(profile, relu ? "relu" : rule_names[config->rule]);
        for (uint32_t i = 0; i < config->n_sources; i++)
            TMK_TRY(tmk_profile_add_derivation(
                tensor, (uint32_t)observed->observers[config->sources[i]].profile_id, diag));
        TMK_TRY_ALLOC(tensor->rule, diag);
    }
    tensor->status = tmk_profile_status_of(tensor);
    return TMK_OK;
}

enum tmk_status tmk_record_values(struct tmk_profile *profile, struct tmk_graph *original,
                                  const struct tmk_observed *observed, struct tmk_diag *diag) {
    struct tmk_by_id by_id;
    tmk_graph_number(original);
    TMK_TRY(tmk_by_id_init(&by_id, original, diag));
    uint32_t *slots = calloc(by_id.n + 1, sizeof *slots); /* of its observer, + 1; 0: none */
    enum tmk_status status = slots ? TMK_OK : tmk_nomem(diag);
    for (uint32_t s = 0; status == TMK_OK && s < observed->n_slots; s++) {
        int64_t id = observed->observers[s].profile_id;
        if (id >= 0 && (size_t)id < by_id.n)
            slots[id] = s + 1;
    }
    for (size_t id = 0; status == TMK_OK && id < by_id.n; id++)
        if (by_id.values[id])
            status = record_value(profile, by_id.values[id], observed, slots[id], diag);
    tmk_by_id_finish(&by_id);
    free(slots);
    return status;
}

/* A model's profile before anything ran. */

struct weights {
    struct tmk_observer *observers;
    struct tmk_slot_config *configs;
    struct tmk_account *accounts;
    uint32_t n;
};

static bool is_counted(enum tmk_dtype dtype) {
    return dtype == TMK_FLOAT32 || tmk_int_stats_supports(dtype);
}

/* As a run does: an initializer is there once, whatever runs. */
static enum tmk_status count_weight(struct weights *w, const struct tmk_value *value,
                                    struct tmk_diag *diag) {
    const struct tmk_stats_at at = {0, 1, tmk_weight_axis(value), false, 0};
    if (value->kind != TMK_VALUE_INITIALIZER || !is_counted(value->data.dtype))
        return TMK_OK;
    w->observers[w->n].profile_id = value->profile_id;
    w->configs[w->n].level = TMK_STATS_HISTOGRAM;
    w->configs[w->n].label = value->name;
    uint32_t i = w->n++;
    return tmk_account_look(&w->accounts[i], &w->configs[i], &value->data, &at, diag);
}

static enum tmk_status count_weights(struct tmk_graph *graph, struct weights *w,
                                     struct tmk_diag *diag) {
    struct tmk_by_id values;
    TMK_TRY(tmk_by_id_init(&values, graph, diag));
    w->observers = calloc(values.n + 1, sizeof *w->observers);
    w->configs = calloc(values.n + 1, sizeof *w->configs);
    w->accounts = calloc(values.n + 1, sizeof *w->accounts);
    enum tmk_status status = w->observers && w->configs && w->accounts ? TMK_OK : tmk_nomem(diag);
    for (size_t i = 0; status == TMK_OK && i < values.n; i++)
        if (values.values[i])
            status = count_weight(w, values.values[i], diag);
    tmk_by_id_finish(&values);
    return status;
}

static enum tmk_status fill_profile(struct tmk_profile *profile, const struct tmk_model *model,
                                    struct tmk_graph *graph, struct tmk_diag *diag) {
    struct weights w = {0};
    TMK_TRY(tmk_in(diag, tmk_check_names(graph, diag), "%s", model->path));
    TMK_TRY(tmk_show_inner(graph, diag));
    TMK_TRY(describe_model(profile, model, graph, diag));
    enum tmk_status status = count_weights(graph, &w, diag);
    if (status == TMK_OK) {
        const struct tmk_observed observed = {w.observers, w.configs, w.accounts, w.n};
        status = tmk_record_values(profile, graph, &observed, diag);
    }
    for (uint32_t i = 0; w.accounts && i < w.n; i++)
        tmk_account_finish(&w.accounts[i]);
    free(w.accounts);
    free(w.configs);
    free(w.observers);
    return status;
}

enum tmk_status tmk_model_skeleton(const struct tmk_model *model, struct tmk_profile **out,
                                   struct tmk_diag *diag) {
    struct tmk_graph *graph = NULL;
    struct tmk_profile *profile = NULL;
    TMK_TRY(tmk_original(model, &graph, diag));
    enum tmk_status status = tmk_profile_create(&profile, diag);
    TMK_THEN(status, fill_profile(profile, model, graph, diag));
    tmk_graph_destroy(&graph);
    if (status == TMK_OK)
        *out = profile;
    else
        tmk_profile_destroy(&profile);
    return status;
}
