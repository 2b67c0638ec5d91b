/* SPDX-License-Identifier: Apache-2.0 */
/* The float network, the same under encodings, and, where integers are rounded otherwise than in
 * float, the one that rounds in float: side by side. */
#include "session/simulate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/diag.h"
#include "ops/ops.h"
#include "session/beside.h"
#include "session/feed.h"
#include "session/model.h"

enum { FLOAT, QUANTIZED, ROUNDED, LANES };

struct simulating {
    struct tmk_graph *original;
    struct tmk_quantized_graph quantized[LANES]; /* by lane; of FLOAT only the graph */
    struct tmk_graph *lanes[LANES];
    struct tmk_beside beside;
    struct tmk_pair *pairs;
    struct tmk_simulated *items;  /* one for each of the first `n` pairs */
    uint32_t n, n_whole, n_alone; /* pairs: float against quantized; codes of both networks; of
                                     both roundings */
    struct tmk_value **by_id;     /* of the float lane */
    uint32_t n_ids;
    struct tmk_labels labels;
    struct tmk_predictions predictions;
    struct tmk_simulation *out;
    uint32_t remarks_size;
    bool nomem;
    struct tmk_diag *diag;
};

/* ---- graphs ---- */

static void add_remark(void *context, const char *text) {
    struct simulating *s = context;
    struct tmk_simulation *out = s->out;
    const char *copy = tmk_arena_strdup(out->arena, text);
    if (out->n_remarks == s->remarks_size) {
        const uint32_t size = 2 * s->remarks_size + 8;
        const char **list = tmk_arena_array(out->arena, size, sizeof *list);
        if (list && out->n_remarks)
            memcpy(list, out->remarks, out->n_remarks * sizeof *list);
        out->remarks = list ? list : out->remarks;
        s->remarks_size = list ? size : s->remarks_size;
    }
    if (copy && out->n_remarks < s->remarks_size)
        out->remarks[out->n_remarks++] = copy;
    else
        s->nomem = true;
}

static enum tmk_status make_lanes(struct simulating *s, const struct tmk_encodings *encodings,
                                  const struct tmk_simulate_options *options) {
    struct tmk_quantize_options how = {.integer = options->integer,
                                       .rounding = options->rounding,
                                       .pow2 = options->pow2,
                                       .remark = add_remark,
                                       .context = s};
    const bool compare =
        options->integer && (options->pow2 || options->rounding != TMK_ROUNDING_FLOAT_RNE);
    TMK_TRY(tmk_graph_clone(s->original, &s->quantized[FLOAT].graph, s->diag));
    TMK_TRY(tmk_quantize_graph(s->original, encodings, &how, &s->quantized[QUANTIZED], s->diag));
    if (compare) {
        how.rounding = TMK_ROUNDING_FLOAT_RNE;
        how.pow2 = false;
        how.remark = NULL;
        TMK_TRY(tmk_quantize_graph(s->original, encodings, &how, &s->quantized[ROUNDED], s->diag));
    }
    for (int i = 0; i < LANES; i++)
        s->lanes[i] = s->quantized[i].graph;
    s->beside.lanes = s->lanes;
    s->beside.n_lanes = compare ? 3 : 2;
    return s->nomem ? tmk_nomem(s->diag) : TMK_OK;
}

/* ---- pairs ---- */

static bool is_output(const struct tmk_value *value) {
    return value->n_graph_outputs > 0;
}

static enum tmk_status find_ids(struct simulating *s) {
    const struct tmk_graph *graph = s->lanes[FLOAT];
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (graph->values[i]->profile_id >= (int64_t)s->n_ids)
            s->n_ids = (uint32_t)graph->values[i]->profile_id + 1;
    s->by_id = calloc((size_t)s->n_ids + 1, sizeof(struct tmk_value *));
    if (!s->by_id)
        return tmk_nomem(s->diag);
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (graph->values[i]->profile_id >= 0 && tmk_value_alive(graph->values[i]))
            s->by_id[graph->values[i]->profile_id] = graph->values[i];
    return TMK_OK;
}

static struct tmk_beside_value beside_value(uint32_t lane, const struct tmk_quantized_value *v) {
    return v->codes ? (struct tmk_beside_value){lane, v->codes, v->encoding}
                    : (struct tmk_beside_value){lane, v->real, NULL};
}

/* A constant that is not quantized is the same in both, and so is an input. What has no type in the
 * file may turn out not to be float: tell() leaves that out. */
static bool is_worth_it(const struct tmk_value *value, const struct tmk_quantized_value *v) {
    return value && value->type.kind == TMK_TYPE_TENSOR &&
           (value->type.dtype == TMK_FLOAT32 || value->type.dtype == TMK_UNDEFINED) &&
           (v->encoding || value->kind == TMK_VALUE_RESULT);
}

static void add_pair(struct simulating *s, const struct tmk_quantized_value *v) {
    struct tmk_value *value = v->id < s->n_ids ? s->by_id[v->id] : NULL;
    if (!is_worth_it(value, v))
        return;
    s->items[s->n] = (struct tmk_simulated){
        .id = v->id,
        .name = value->name,
        .dtype = v->encoding ? v->encoding->dtype : TMK_UNDEFINED,
        .output = is_output(value),
        .constant = value->kind == TMK_VALUE_INITIALIZER,
    };
    s->pairs[s->n++] =
        (struct tmk_pair){.left = {FLOAT, value, NULL}, .right = beside_value(QUANTIZED, v)};
}

/* The same codes by both roundings; the forms differ in nothing else. */
static void add_whole(struct simulating *s) {
    const struct tmk_quantized_graph *a = &s->quantized[QUANTIZED], *b = &s->quantized[ROUNDED];
    for (uint32_t i = 0; i < a->n && i < b->n; i++)
        if (a->values[i].codes && b->values[i].codes &&
            a->values[i].codes->kind == TMK_VALUE_RESULT)
            s->pairs[s->n + s->n_whole++] =
                (struct tmk_pair){.left = beside_value(ROUNDED, &b->values[i]),
                                  .right = beside_value(QUANTIZED, &a->values[i])};
}

/* Beside each requantization to codes, one of the same accumulators in float. */
static enum tmk_status add_alone(struct simulating *s) {
    static const char *const name = "float";
    const char *rounding = tmk_rounding_name(TMK_ROUNDING_FLOAT_RNE);
    const struct tmk_attr attr = {
        .name = "rounding", .kind = TMK_ATTR_STRING, .n = strlen(rounding), .s = rounding};
    struct tmk_graph *graph = s->lanes[QUANTIZED];
    struct tmk_node *twin = NULL, *next = NULL;
    for (struct tmk_node *node = graph->first; node; node = next) {
        next = node->next;
        if (!tmk_node_is(node, TMK_DOMAIN_TIDEMARK, TMK_OP_REQUANTIZE) ||
            node->inputs[4]->data.dtype == TMK_INT32)
            continue;
        TMK_TRY(tmk_graph_add_node(graph, next, node->domain, node->op, "", node->version,
                                   node->inputs, node->n_inputs, &name, 1, &twin, s->diag));
        TMK_TRY(tmk_node_copy_attrs(twin, node, NULL, s->diag));
        TMK_TRY(tmk_node_set_attr(twin, &attr, s->diag));
        s->pairs[s->n + s->n_whole + s->n_alone++] =
            (struct tmk_pair){.left = {QUANTIZED, twin->outputs[0], NULL},
                              .right = {QUANTIZED, node->outputs[0], NULL}};
    }
    return tmk_ops_bind(graph, s->diag);
}

static uint32_t count_nodes(const struct tmk_graph *graph) {
    uint32_t n = 0;
    for (const struct tmk_node *node = graph->first; node; node = node->next)
        n++;
    return n;
}

static enum tmk_status make_pairs(struct simulating *s) {
    const uint32_t n = s->quantized[QUANTIZED].n;
    TMK_TRY(find_ids(s));
    s->pairs = calloc(2 * (size_t)n + count_nodes(s->lanes[QUANTIZED]) + 1, sizeof *s->pairs);
    s->items = tmk_arena_array(s->out->arena, (size_t)n + 1, sizeof *s->items);
    if (!s->pairs || !s->items)
        return tmk_nomem(s->diag);
    for (uint32_t i = 0; i < n; i++)
        add_pair(s, &s->quantized[QUANTIZED].values[i]);
    if (s->beside.n_lanes > ROUNDED) {
        add_whole(s);
        TMK_TRY(add_alone(s));
    }
    s->beside.pairs = s->pairs;
    s->beside.n_pairs = s->n + s->n_whole + s->n_alone;
    return TMK_OK;
}

/* ---- classes ---- */

static enum tmk_status look(void *context, uint64_t sample, uint64_t samples,
                            struct tmk_worker *const *workers, void *seen, struct tmk_diag *diag) {
    const struct simulating *s = context;
    if (!s->lanes[FLOAT]->n_outputs)
        return TMK_OK;
    const struct tmk_tensor left = tmk_worker_value(workers[FLOAT], s->lanes[FLOAT]->outputs[0]),
                            right = tmk_worker_value(workers[QUANTIZED],
                                                     s->lanes[QUANTIZED]->outputs[0]);
    return tmk_predictions_add(seen, &s->labels, sample, samples, &left, &right, diag);
}

static enum tmk_status merge(void *context, struct tmk_worker *const *workers, const void *seen,
                             struct tmk_diag *diag) {
    struct simulating *s = context;
    (void)workers;
    (void)diag;
    const struct tmk_predictions *more = seen;
    s->predictions.n += more->n;
    s->predictions.agree += more->agree;
    s->predictions.labelled += more->labelled;
    s->predictions.right_left += more->right_left;
    s->predictions.right_right += more->right_right;
    return TMK_OK;
}

/* ---- results ---- */

static void add_up(const struct tmk_pair *pairs, uint32_t n, struct tmk_code_difference *sum) {
    for (uint32_t i = 0; i < n; i++) {
        sum->codes += pairs[i].unlike.codes;
        sum->equal += pairs[i].unlike.equal;
        if (pairs[i].unlike.code_error > sum->largest)
            sum->largest = pairs[i].unlike.code_error;
    }
}

static void tell_of_shapes(struct simulating *s, const struct tmk_simulated *item,
                           uint64_t batches) {
    char line[512];
    snprintf(line, sizeof line, "p%u '%.400s': another shape than in float in %llu batches, %s",
             item->id, item->name, (unsigned long long)batches, "which are not compared");
    add_remark(s, line);
}

static void tell(struct simulating *s) {
    struct tmk_simulation *out = s->out;
    for (uint32_t i = 0; i < s->n; i++) {
        const struct tmk_unlike *unlike = &s->pairs[i].unlike;
        struct tmk_simulated *item = &s->items[out->n_values];
        if (!unlike->numbers)
            continue;
        *item = s->items[i];
        out->n_values++;
        if (unlike->reshaped)
            tell_of_shapes(s, item, unlike->reshaped);
        item->elements = unlike->n;
        item->sqnr = tmk_unlike_sqnr(unlike);
        item->cosine = tmk_unlike_cosine(unlike);
        item->max_error = unlike->most;
        item->clipped = unlike->n ? (double)unlike->clipped / (double)unlike->n : 0;
    }
    add_up(&s->pairs[s->n], s->n_whole, &out->whole);
    add_up(&s->pairs[s->n + s->n_whole], s->n_alone, &out->alone);
    out->compared = s->beside.n_lanes > ROUNDED;
    out->values = s->items;
    out->samples = s->beside.samples;
    out->predictions = s->predictions.n;
    out->agree = s->predictions.agree;
    out->labelled = s->predictions.n > 0 && s->predictions.labelled == s->predictions.n;
    out->right_float = s->predictions.right_left;
    out->right_quantized = s->predictions.right_right;
}

static enum tmk_status copy_names(struct simulating *s) {
    for (uint32_t i = 0; i < s->out->n_values; i++) {
        s->items[i].name = tmk_arena_strdup(s->out->arena, s->items[i].name);
        if (!s->items[i].name)
            return tmk_nomem(s->diag);
    }
    return TMK_OK;
}

static enum tmk_status simulate(struct simulating *s, struct tmk_model *model,
                                const struct tmk_encodings *encodings,
                                const struct tmk_run_options *run,
                                const struct tmk_simulate_options *options) {
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    TMK_TRY(tmk_feed_takes(model->graph, s->diag));
    TMK_TRY(tmk_original(model, &s->original, s->diag));
    TMK_TRY(make_lanes(s, encodings, options));
    TMK_TRY(make_pairs(s));
    TMK_TRY(tmk_labels_read(run, options->labels, &s->labels, s->diag));
    s->beside.look = look;
    s->beside.merge = merge;
    s->beside.seen_bytes = sizeof(struct tmk_predictions);
    s->beside.context = s;
    TMK_TRY(tmk_beside_run(&s->beside, run, s->diag));
    tell(s);
    clock_gettime(CLOCK_MONOTONIC, &end);
    s->out->seconds =
        (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    return s->nomem ? tmk_nomem(s->diag) : copy_names(s);
}

enum tmk_status tmk_model_simulate(struct tmk_model *model, const struct tmk_encodings *encodings,
                                   const struct tmk_run_options *run,
                                   const struct tmk_simulate_options *options,
                                   struct tmk_simulation **out, struct tmk_diag *diag) {
    struct simulating s = {.diag = diag};
    s.out = calloc(1, sizeof *s.out);
    if (!s.out)
        return tmk_nomem(diag);
    s.out->arena = calloc(1, sizeof *s.out->arena);
    enum tmk_status status = s.out->arena ? TMK_OK : tmk_nomem(diag);
    if (status == TMK_OK)
        status = tmk_in(diag, simulate(&s, model, encodings, run, options), "%s", model->path);
    for (int i = 0; i < LANES; i++)
        tmk_quantized_finish(&s.quantized[i]);
    tmk_labels_finish(&s.labels);
    tmk_graph_destroy(&s.original);
    free(s.pairs);
    free(s.by_id);
    if (status == TMK_OK)
        *out = s.out;
    else
        tmk_simulation_destroy(&s.out);
    return status;
}

void tmk_simulation_destroy(struct tmk_simulation **slot) {
    struct tmk_simulation *simulation = slot ? *slot : NULL;
    if (!simulation)
        return;
    *slot = NULL;
    if (simulation->arena)
        tmk_arena_finish(simulation->arena);
    free(simulation->arena);
    free(simulation);
}
