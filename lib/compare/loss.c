/* SPDX-License-Identifier: Apache-2.0 */
/* How much encodings cost a network's outputs: a few candidates at a time beside the float network,
 * so that that one runs once for all of them. */
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/size.h"
#include "compare/compare.h"
#include "compare/simulate.h"
#include "ops/ops.h"
#include "transform/model.h"

enum { AT_A_TIME = 5 };

/* What one run is made of: graph 0 is the float network, 1 ... n are the candidates. */
struct measuring {
    struct tmk_judge *judge;
    struct tmk_quantized_graph made[AT_A_TIME];
    struct tmk_graph *graphs[AT_A_TIME + 1];
    uint32_t n, n_out;               /* candidates, results */
    uint32_t each;                   /* pairs of a half of a candidate */
    struct tmk_compared_pair *pairs; /* [n][2][each]; with before_softmax as many of outputs */
    struct tmk_compared_classes classes[2 * AT_A_TIME];
    struct tmk_kept_outputs kept[AT_A_TIME + 1]; /* of each result, and of the float network */
    struct tmk_comparison comparison;
};

static bool is_float(const struct tmk_value *value) {
    return value->type.dtype == TMK_FLOAT32 || value->type.dtype == TMK_UNDEFINED;
}

/* What the Softmax reads whose results the output has, moved or quantized; NULL: it has none. */
static struct tmk_value *before_softmax(struct tmk_value *output) {
    struct tmk_value *value = output;
    while (value && value->producer) {
        const struct tmk_node *node = value->producer;
        const struct tmk_traits *traits = tmk_node_traits(node);
        value = tmk_node_input(node, 0);
        if (traits->class == TMK_OP_SOFTMAX)
            return value;
        if (!tmk_traits_are(traits, TMK_TRAIT_MOVES) && traits->batch != TMK_BATCH_QUANTIZE)
            return NULL;
    }
    return NULL;
}

/* Output by output, or what Softmax reads in their place; a value that is an output twice counts
 * twice. */
static uint32_t pair_outputs(struct measuring *m, uint32_t graph, enum tmk_half half,
                             bool in_their_place) {
    const struct tmk_graph *left = m->graphs[0], *right = m->graphs[graph];
    uint32_t n = 0;
    for (uint32_t i = 0; i < left->n_outputs && i < right->n_outputs; i++)
        if (is_float(left->outputs[i])) {
            struct tmk_value *one = left->outputs[i], *other = right->outputs[i];
            struct tmk_value *logits[2] = {before_softmax(one), before_softmax(other)};
            if (in_their_place && logits[0] && logits[1]) {
                one = logits[0];
                other = logits[1];
            }
            m->pairs[m->comparison.n_pairs++] = (struct tmk_compared_pair){
                .left = {0, one, NULL}, .right = {graph, other, NULL}, .half = half};
            n++;
        }
    return n;
}

static enum tmk_status keep_outputs(struct measuring *m, uint32_t first, uint32_t second,
                                    struct tmk_diag *diag) {
    const struct tmk_graph *graph = m->graphs[0];
    struct tmk_kept_outputs *kept = &m->kept[m->comparison.n_kept++];
    *kept = (struct tmk_kept_outputs){.graph = {first, second}};
    m->comparison.n_outputs = graph->n_outputs;
    kept->outputs = calloc(graph->n_outputs + 1u, sizeof *kept->outputs);
    for (uint32_t i = 0; kept->outputs && i < graph->n_outputs; i++)
        kept->outputs[i].name = graph->outputs[i]->name;
    return kept->outputs ? TMK_OK : tmk_nomem(diag);
}

static enum tmk_status prepare_comparison(struct measuring *m, struct tmk_diag *diag) {
    const bool crossed = m->judge->crossed;
    struct tmk_comparison *c = &m->comparison;
    m->pairs = calloc(4 * (size_t)m->n * m->graphs[0]->n_outputs + 1, sizeof *m->pairs);
    TMK_TRY_ALLOC(m->pairs, diag);
    *c = (struct tmk_comparison){.graphs = m->graphs,
                                 .n_graphs = m->n + 1,
                                 .pairs = m->pairs,
                                 .split = m->judge->split,
                                 .labels = m->judge->labels,
                                 .classes = m->classes,
                                 .kept = m->kept,
                                 .series = m->judge->series};
    for (uint32_t i = 1; i <= m->n; i++)
        for (enum tmk_half half = TMK_FIRST_HALF; half <= TMK_SECOND_HALF; half++) {
            m->each = pair_outputs(m, i, half, m->judge->before_softmax);
            m->classes[c->n_classes++] = (struct tmk_compared_classes){.graph = i, .half = half};
        }
    for (uint32_t i = 1; m->judge->before_softmax && i <= m->n; i++)
        for (enum tmk_half half = TMK_FIRST_HALF; half <= TMK_SECOND_HALF; half++)
            pair_outputs(m, i, half, false);
    for (uint32_t i = 1; m->judge->metric && i <= m->n_out; i++)
        TMK_TRY(keep_outputs(m, i, crossed ? 2 : i, diag));
    return m->judge->metric && !m->judge->float_known ? keep_outputs(m, 0, 0, diag) : TMK_OK;
}

/* Outputs of another shape than in float are all noise. */
static double noise_of(const struct tmk_compared_pair *first,
                       const struct tmk_compared_pair *second, uint32_t n) {
    uint32_t floats = 0;
    double all = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct tmk_error_sums sum = first[i].errors;
        tmk_error_merge(&sum, &second[i].errors);
        const double noise = sum.left > 0 ? sum.error / sum.left : sum.error > 0;
        floats += sum.numbers;
        all += sum.reshaped ? fmax(noise, 1) : noise;
    }
    return floats ? all / floats : 0;
}

/* 0: nothing was compared. */
static double typical_noise(double log_noise, uint64_t batches) {
    return batches ? pow(10, log_noise / (double)batches) : 0;
}

static void fill_loss(const struct measuring *m, uint32_t i, struct tmk_loss *out) {
    const uint32_t other = m->judge->crossed ? 1 : i; /* of the second half */
    const struct tmk_compared_pair *halves[2] = {m->pairs + 2 * (size_t)i * m->each,
                                                 m->pairs + (2 * (size_t)other + 1) * m->each};
    double log_noise[2] = {0, 0};
    uint64_t batches[2] = {0, 0};
    const size_t further = m->judge->before_softmax ? 2 * (size_t)m->n * m->each : 0;
    *out =
        (struct tmk_loss){.noise = noise_of(halves[0], halves[1], m->each),
                          .of_outputs = noise_of(halves[0] + further, halves[1] + further, m->each),
                          .samples = m->comparison.samples,
                          .classes = {m->classes[2 * i].sum, m->classes[2 * other + 1].sum},
                          .metric = NAN};
    for (int half = 0; half < 2; half++) {
        for (uint32_t k = 0; k < m->each; k++) {
            log_noise[half] += halves[half][k].log_noise;
            batches[half] += halves[half][k].batches;
        }
        out->half[half] = typical_noise(log_noise[half], batches[half]);
    }
    out->typical = typical_noise(log_noise[0] + log_noise[1], batches[0] + batches[1]);
}

/* The caller's number of what was kept. */
static enum tmk_status ask_metric(const struct measuring *m, const struct tmk_kept_outputs *kept,
                                  double *out, struct tmk_diag *diag) {
    const struct tmk_judge *judge = m->judge;
    const uint32_t n = m->comparison.n_outputs;
    struct tmk_tensor *tensors = calloc(n + 1u, sizeof *tensors);
    enum tmk_status status = tensors ? TMK_OK : tmk_nomem(diag);
    for (uint32_t i = 0; status == TMK_OK && i < n; i++)
        status = tmk_gathered_tensor(&kept->outputs[i], m->comparison.joined, &tensors[i], diag);
    if (status == TMK_OK) {
        const struct tmk_metric_outputs outputs = {.outputs = tensors,
                                                   .n = n,
                                                   .first = judge->run->data.skip,
                                                   .samples = m->comparison.samples,
                                                   .sources = judge->run->data.sources,
                                                   .n_sources = judge->run->data.n_sources};
        status = judge->metric->call(judge->metric->context, &outputs, out, diag);
    }
    if (status == TMK_OK && !isfinite(*out))
        status = tmk_fail(diag, TMK_RANGE, "the metric is %g, which is no number to go by", *out);
    free(tensors);
    return status;
}

static enum tmk_status ask_metrics(const struct measuring *m, struct tmk_loss *out,
                                   struct tmk_diag *diag) {
    if (!m->judge->metric)
        return TMK_OK;
    if (!m->judge->float_known)
        TMK_TRY(ask_metric(m, &m->kept[m->n_out], &m->judge->float_metric, diag));
    m->judge->float_known = true;
    for (uint32_t i = 0; i < m->n_out; i++)
        TMK_TRY(ask_metric(m, &m->kept[i], &out[i].metric, diag));
    return TMK_OK;
}

static void finish_measuring(struct measuring *m) {
    for (uint32_t i = 0; i < m->comparison.n_kept; i++) {
        for (uint32_t k = 0; m->kept[i].outputs && k < m->comparison.n_outputs; k++)
            tmk_gathered_finish(&m->kept[i].outputs[k]);
        free(m->kept[i].outputs);
    }
    free(m->pairs);
    for (uint32_t i = 0; i < m->n; i++)
        tmk_quantized_finish(&m->made[i]);
    tmk_graph_destroy(&m->graphs[0]);
}

static enum tmk_status measure_losses(struct tmk_judge *judge,
                                      const struct tmk_encodings *const *encodings, uint32_t n,
                                      struct tmk_loss *out, struct tmk_diag *diag) {
    struct measuring m = {.judge = judge, .n = n, .n_out = judge->crossed ? 1 : n};
    struct tmk_run_events events = judge->run->events;
    struct tmk_quantize_options how = *judge->how;
    how.stop = tmk_running_stops;
    how.of = &events;
    enum tmk_status status = tmk_graph_clone(judge->graph, &m.graphs[0], diag);
    for (uint32_t i = 0; status == TMK_OK && i < n; i++) {
        status = tmk_quantize_graph(judge->graph, encodings[i], &how, &m.made[i], diag);
        m.graphs[i + 1] = m.made[i].graph;
    }
    TMK_THEN(status, prepare_comparison(&m, diag));
    TMK_THEN(status, tmk_compare_run(&m.comparison, judge->run, diag));
    for (uint32_t i = 0; status == TMK_OK && i < m.n_out; i++)
        fill_loss(&m, i, &out[i]);
    TMK_THEN(status, ask_metrics(&m, out, diag));
    finish_measuring(&m);
    return status;
}

enum tmk_status tmk_losses(struct tmk_judge *judge, const struct tmk_encodings *const *encodings,
                           uint32_t n, struct tmk_loss *out, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < n; i += AT_A_TIME)
        TMK_TRY(measure_losses(judge, encodings + i, n - i < AT_A_TIME ? n - i : AT_A_TIME, out + i,
                               diag));
    return TMK_OK;
}

double tmk_noise_sqnr(double noise) {
    return noise > 0 ? -10 * log10(noise) : HUGE_VAL;
}

/* Which value costs most: each quantized alone. In the integer form a value alone is rounded where
 * it is made, whatever reads it, and operators stay float. */

/* Entries of one value: encodings with nothing else. */
struct alone {
    struct tmk_encodings encodings;
    double expected;
};

static double expected_of(const struct tmk_encoding *e) {
    return e->expected.known ? e->expected.sqnr : HUGE_VAL;
}

/* Weights have no histogram there: they come before what is known to cost little. */
static int most_first(const void *a, const void *b) {
    const struct alone *x = a, *y = b;
    const uint32_t i = x->encodings.items->id, j = y->encodings.items->id;
    return x->expected != y->expected ? TMK_ORDER(x->expected, y->expected) : TMK_ORDER(i, j);
}

static uint32_t take_apart(const struct tmk_encodings *all, struct alone *out) {
    uint32_t n = 0;
    for (uint32_t i = 0, end = 0; i < all->n_items; i = end) {
        struct alone *one = &out[n++];
        *one = (struct alone){.encodings = *all, .expected = HUGE_VAL};
        for (end = i; end < all->n_items && all->items[end].id == all->items[i].id; end++)
            one->expected = fmin(one->expected, expected_of(&all->items[end]));
        one->encodings.items = &all->items[i];
        one->encodings.n_items = end - i;
        one->encodings.n_requants = 0;
    }
    qsort(out, n, sizeof *out, most_first);
    return n;
}

static int costly_first(const void *a, const void *b) {
    const struct tmk_sensitivity *x = a, *y = b;
    return x->sqnr != y->sqnr ? TMK_ORDER(x->sqnr, y->sqnr) : TMK_ORDER(x->id, y->id);
}

static enum tmk_status report_losses(const struct alone *apart, const struct tmk_loss *losses,
                                     struct tmk_ranking *out, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < out->n; i++) {
        const struct tmk_encoding *e = apart[i].encodings.items;
        out->values[i] = (struct tmk_sensitivity){
            .id = e->id,
            .name = tmk_arena_strdup(out->arena, e->name),
            .dtype = e->dtype,
            .sqnr = tmk_noise_sqnr(losses[i].noise),
            .expected = apart[i].expected,
        };
        TMK_TRY_ALLOC(out->values[i].name, diag);
        out->samples = losses[i].samples;
    }
    qsort(out->values, out->n, sizeof *out->values, costly_first);
    return TMK_OK;
}

static enum tmk_status rank_groups(const struct tmk_graph *graph,
                                   const struct tmk_encodings *encodings,
                                   const struct tmk_run_options *run, uint32_t most,
                                   struct tmk_run_series *series, struct tmk_ranking *out,
                                   struct tmk_diag *diag) {
    const struct tmk_quantize_options how = {.integer = true, .rounding = TMK_ROUNDING_FLOAT_RNE};
    struct alone *apart = tmk_arena_array(out->arena, encodings->n_items, sizeof *apart);
    const struct tmk_encodings **list =
        tmk_arena_array(out->arena, encodings->n_items, sizeof(void *));
    struct tmk_loss *losses = tmk_arena_array(out->arena, encodings->n_items, sizeof *losses);
    out->values = tmk_arena_array(out->arena, encodings->n_items, sizeof *out->values);
    TMK_TRY_ALLOC(apart && list && losses && out->values, diag);
    const uint32_t n = take_apart(encodings, apart);
    out->n = n < most ? n : most;
    out->left_out = n - out->n;
    for (uint32_t i = 0; i < out->n; i++)
        list[i] = &apart[i].encodings;
    struct tmk_run_series own = {.runs = (out->n + AT_A_TIME - 1) / AT_A_TIME};
    struct tmk_judge judge = {
        .graph = graph, .how = &how, .run = run, .series = series ? series : &own};
    TMK_TRY(tmk_losses(&judge, list, out->n, losses, diag));
    return report_losses(apart, losses, out, diag);
}

enum tmk_status tmk_rank_within(struct tmk_model *model, const struct tmk_encodings *encodings,
                                const struct tmk_run_options *run, uint32_t most,
                                struct tmk_run_series *series, struct tmk_ranking **out,
                                struct tmk_diag *diag) {
    struct tmk_run_options some = *run;
    struct tmk_graph *graph = NULL;
    struct tmk_ranking *made = calloc(1, sizeof *made);
    TMK_TRY_ALLOC(made, diag);
    some.data.limit = run->data.limit ? run->data.limit : TMK_RANK_SAMPLES;
    made->arena = calloc(1, sizeof *made->arena);
    enum tmk_status status = made->arena ? TMK_OK : tmk_nomem(diag);
    TMK_THEN(status, tmk_original(model, &graph, diag));
    TMK_THEN(status, tmk_in(diag,
                            rank_groups(graph, encodings, &some, most ? most : TMK_RANK_MAX, series,
                                        made, diag),
                            "%s", model->path));
    tmk_graph_destroy(&graph);
    if (status == TMK_OK)
        *out = made;
    else
        tmk_ranking_destroy(&made);
    return status;
}

enum tmk_status tmk_model_rank(struct tmk_model *model, const struct tmk_encodings *encodings,
                               const struct tmk_run_options *run, uint32_t most,
                               struct tmk_ranking **out, struct tmk_diag *diag) {
    TMK_TRY(tmk_data_can_repeat(&run->data, diag));
    return tmk_rank_within(model, encodings, run, most, NULL, out, diag);
}

void tmk_ranking_destroy(struct tmk_ranking **slot) {
    struct tmk_ranking *ranking = slot ? *slot : NULL;
    if (!ranking)
        return;
    *slot = NULL;
    if (ranking->arena)
        tmk_arena_finish(ranking->arena);
    free(ranking->arena);
    free(ranking);
}
