/* SPDX-License-Identifier: Apache-2.0 */
/* The float network, the same under encodings, and, where integers are rounded otherwise than in
 * float, the one that rounds in float: together. */
#include "compare/simulate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/diag.h"
#include "compare/compare.h"
#include "feed/feed.h"
#include "ops/ops.h"
#include "transform/model.h"

enum { FLOAT, QUANTIZED, ROUNDED, GRAPHS };

struct simulating {
    struct tmk_graph *original;
    struct tmk_quantized_graph quantized[GRAPHS]; /* by graph; of FLOAT only the graph */
    struct tmk_graph *graphs[GRAPHS];
    struct tmk_comparison comparison;
    struct tmk_compared_pair *pairs;
    struct tmk_compared_classes classes;
    struct tmk_simulated *items;  /* one for each of the first `n` pairs */
    uint32_t n, n_whole, n_alone; /* pairs: float against quantized; codes of both networks; of
                                     both roundings */
    struct tmk_by_id by_id;       /* of the float graph */
    struct tmk_labels labels;
    struct tmk_run_events events; /* the caller's */
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

static enum tmk_status make_graphs(struct simulating *s, const struct tmk_encodings *encodings,
                                   const struct tmk_simulate_options *options) {
    struct tmk_quantize_options how = {.integer = options->integer,
                                       .rounding = options->rounding,
                                       .pow2 = options->pow2,
                                       .remark = add_remark,
                                       .context = s,
                                       .stop = tmk_running_stops,
                                       .of = &s->events};
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
    for (int i = 0; i < GRAPHS; i++)
        s->graphs[i] = s->quantized[i].graph;
    s->comparison.graphs = s->graphs;
    s->comparison.n_graphs = compare ? 3 : 2;
    return s->nomem ? tmk_nomem(s->diag) : TMK_OK;
}

/* ---- pairs ---- */

static bool is_output(const struct tmk_value *value) {
    return value->n_graph_outputs > 0;
}

static struct tmk_compared_value compared_value(uint32_t graph,
                                                const struct tmk_quantized_value *v) {
    return v->codes ? (struct tmk_compared_value){graph, v->codes, v->encoding}
                    : (struct tmk_compared_value){graph, v->real, NULL};
}

/* A constant that is not quantized is the same in both, and so is an input. Values of sub-graphs
 * come and go. What has no type in the file may turn out not to be float: fill_simulation() leaves
 * that out. */
static bool is_worth_it(const struct tmk_value *value, const struct tmk_quantized_value *v) {
    return value && !value->graph->parent && value->type.kind == TMK_TYPE_TENSOR &&
           (value->type.dtype == TMK_FLOAT32 || value->type.dtype == TMK_UNDEFINED) &&
           (v->encoding || value->kind == TMK_VALUE_RESULT);
}

static void add_pair(struct simulating *s, const struct tmk_quantized_value *v) {
    struct tmk_value *value = tmk_by_id_get(&s->by_id, v->id);
    if (!is_worth_it(value, v))
        return;
    s->items[s->n] = (struct tmk_simulated){
        .id = v->id,
        .name = tmk_arena_strdup(s->out->arena, value->name),
        .dtype = v->encoding ? v->encoding->dtype : TMK_UNDEFINED,
        .output = is_output(value),
        .constant = value->kind == TMK_VALUE_INITIALIZER,
    };
    s->nomem |= !s->items[s->n].name;
    s->pairs[s->n++] = (struct tmk_compared_pair){.left = {FLOAT, value, NULL},
                                                  .right = compared_value(QUANTIZED, v)};
}

/* The same codes by both roundings; the forms differ in nothing else. */
static void add_whole(struct simulating *s) {
    const struct tmk_quantized_graph *a = &s->quantized[QUANTIZED], *b = &s->quantized[ROUNDED];
    for (uint32_t i = 0; i < a->n && i < b->n; i++)
        if (a->values[i].codes && b->values[i].codes &&
            a->values[i].codes->kind == TMK_VALUE_RESULT)
            s->pairs[s->n + s->n_whole++] =
                (struct tmk_compared_pair){.left = compared_value(ROUNDED, &b->values[i]),
                                           .right = compared_value(QUANTIZED, &a->values[i])};
}

/* Beside each requantization to codes, one of the same accumulators in float. */
static enum tmk_status add_alone(struct simulating *s) {
    static const char *const name = "float";
    const char *rounding = tmk_rounding_name(TMK_ROUNDING_FLOAT_RNE);
    struct tmk_graph *graph = s->graphs[QUANTIZED];
    struct tmk_node *twin = NULL, *next = NULL;
    for (struct tmk_node *node = graph->first; node; node = next) {
        next = node->next;
        if (!tmk_node_is(node, TMK_DOMAIN_TIDEMARK, TMK_OP_REQUANTIZE) ||
            node->inputs[4]->data.dtype == TMK_INT32)
            continue;
        TMK_TRY(
            tmk_graph_add_node(graph, next,
                               &(struct tmk_node_spec){node->domain, node->op, "", node->version,
                                                       node->inputs, node->n_inputs, &name, 1},
                               &twin, s->diag));
        TMK_TRY(tmk_node_copy_attrs(twin, node, NULL, s->diag));
        TMK_TRY(tmk_node_set_text(twin, "rounding", rounding, s->diag));
        s->pairs[s->n + s->n_whole + s->n_alone++] =
            (struct tmk_compared_pair){.left = {QUANTIZED, twin->outputs[0], NULL},
                                       .right = {QUANTIZED, node->outputs[0], NULL}};
    }
    return tmk_ops_bind(graph, s->diag);
}

static enum tmk_status make_pairs(struct simulating *s) {
    const uint32_t n = s->quantized[QUANTIZED].n;
    TMK_TRY(tmk_by_id_init(&s->by_id, s->graphs[FLOAT], s->diag));
    s->pairs = calloc(2 * (size_t)n + s->graphs[QUANTIZED]->n_nodes + 1, sizeof *s->pairs);
    s->items = tmk_arena_array(s->out->arena, (size_t)n + 1, sizeof *s->items);
    TMK_TRY_ALLOC(s->pairs && s->items, s->diag);
    for (uint32_t i = 0; i < n; i++)
        add_pair(s, &s->quantized[QUANTIZED].values[i]);
    TMK_TRY_ALLOC(!s->nomem, s->diag);
    if (s->comparison.n_graphs > ROUNDED) {
        add_whole(s);
        TMK_TRY(add_alone(s));
    }
    s->comparison.pairs = s->pairs;
    s->comparison.n_pairs = s->n + s->n_whole + s->n_alone;
    return TMK_OK;
}

/* ---- results ---- */

static void add_up(const struct tmk_compared_pair *pairs, uint32_t n,
                   struct tmk_code_difference *sum) {
    for (uint32_t i = 0; i < n; i++) {
        sum->codes += pairs[i].errors.codes;
        sum->equal += pairs[i].errors.equal;
        if (pairs[i].errors.code_error > sum->largest)
            sum->largest = pairs[i].errors.code_error;
    }
}

static void tell_of_shapes(struct simulating *s, const struct tmk_simulated *item,
                           uint64_t batches) {
    char line[512];
    snprintf(line, sizeof line,
             "p%u '%.400s': another shape than in float in %llu batches, which are not compared",
             item->id, item->name, (unsigned long long)batches);
    add_remark(s, line);
}

static void fill_simulation(struct simulating *s) {
    struct tmk_simulation *out = s->out;
    for (uint32_t i = 0; i < s->n; i++) {
        const struct tmk_error_sums *errors = &s->pairs[i].errors;
        struct tmk_simulated *item = &s->items[out->n_values];
        if (!errors->numbers)
            continue;
        *item = s->items[i];
        out->n_values++;
        if (errors->reshaped)
            tell_of_shapes(s, item, errors->reshaped);
        item->elements = errors->n;
        item->sqnr = tmk_error_sqnr(errors);
        item->cosine = tmk_error_cosine(errors);
        item->max_error = errors->most;
        item->clipped = errors->n ? (double)errors->clipped / (double)errors->n : 0;
    }
    add_up(&s->pairs[s->n], s->n_whole, &out->whole);
    add_up(&s->pairs[s->n + s->n_whole], s->n_alone, &out->alone);
    out->compared = s->comparison.n_graphs > ROUNDED;
    out->values = s->items;
    out->samples = s->comparison.samples;
    out->predictions = s->classes.sum.n;
    out->agree = s->classes.sum.agree;
    out->labelled = s->classes.sum.n > 0 && s->classes.sum.labelled == s->classes.sum.n;
    out->right_float = s->classes.sum.right_left;
    out->right_quantized = s->classes.sum.right_right;
    out->agreement = tmk_predictions_agreement(&s->classes.sum);
    out->change = tmk_predictions_change(&s->classes.sum);
}

static enum tmk_status run_simulation(struct simulating *s, struct tmk_model *model,
                                      const struct tmk_encodings *encodings,
                                      const struct tmk_run_options *run,
                                      const struct tmk_simulate_options *options) {
    const double begin = tmk_running_now();
    TMK_TRY(tmk_feed_takes(model->graph, s->diag));
    TMK_TRY(tmk_original(model, &s->original, s->diag));
    TMK_TRY(make_graphs(s, encodings, options));
    TMK_TRY(make_pairs(s));
    TMK_TRY(tmk_labels_read(run, options->labels, &s->labels, s->diag));
    s->classes.graph = QUANTIZED;
    s->comparison.labels = &s->labels;
    s->comparison.classes = &s->classes;
    s->comparison.n_classes = 1;
    TMK_TRY(tmk_compare_run(&s->comparison, run, s->diag));
    fill_simulation(s);
    s->out->seconds = tmk_running_now() - begin;
    return s->nomem ? tmk_nomem(s->diag) : TMK_OK;
}

enum tmk_status tmk_model_simulate(struct tmk_model *model, const struct tmk_encodings *encodings,
                                   const struct tmk_run_options *run,
                                   const struct tmk_simulate_options *options,
                                   struct tmk_simulation **out, struct tmk_diag *diag) {
    struct simulating s = {.events = run->events, .diag = diag};
    s.out = calloc(1, sizeof *s.out);
    TMK_TRY_ALLOC(s.out, diag);
    s.out->arena = calloc(1, sizeof *s.out->arena);
    enum tmk_status status = s.out->arena ? TMK_OK : tmk_nomem(diag);
    TMK_THEN(status,
             tmk_in(diag, run_simulation(&s, model, encodings, run, options), "%s", model->path));
    for (int i = 0; i < GRAPHS; i++)
        tmk_quantized_finish(&s.quantized[i]);
    tmk_labels_finish(&s.labels);
    tmk_graph_destroy(&s.original);
    free(s.pairs);
    tmk_by_id_finish(&s.by_id);
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
