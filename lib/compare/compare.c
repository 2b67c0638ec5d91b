/* SPDX-License-Identifier: Apache-2.0 */
#include "compare/compare.h"

#include <math.h>

#include "base/diag.h"
#include "ops/stack.h"
#include "session/running.h"

/* The record of a batch: sums of each pair, predictions of each of the classes, copies of what is
 * kept. */
static struct tmk_error_sums *errors_in(const void *record) {
    return (struct tmk_error_sums *)(uintptr_t)record;
}

static struct tmk_predictions *predictions_in(const struct tmk_comparison *c, const void *record) {
    return (struct tmk_predictions *)(errors_in(record) + c->n_pairs);
}

static struct tmk_tensor *copies_in(const struct tmk_comparison *c, const void *record) {
    return (struct tmk_tensor *)(predictions_in(c, record) + c->n_classes);
}

static size_t count_copies(const struct tmk_comparison *c) {
    return (size_t)c->n_kept * c->n_outputs;
}

static enum tmk_half half_of(const struct tmk_comparison *c, const struct tmk_ran *ran) {
    return ran->batch->sample < c->split ? TMK_FIRST_HALF : TMK_SECOND_HALF;
}

static struct tmk_tensor value_of(const struct tmk_ran *ran, const struct tmk_compared_value *v) {
    return v->value->kind == TMK_VALUE_INITIALIZER
               ? v->value->data
               : tmk_worker_value(ran->workers[v->graph], v->value);
}

static bool is_constant(const struct tmk_compared_pair *pair) {
    return pair->left.value->kind == TMK_VALUE_INITIALIZER &&
           pair->right.value->kind == TMK_VALUE_INITIALIZER;
}

static enum tmk_status count_classes(const struct tmk_comparison *c, const struct tmk_ran *ran,
                                     struct tmk_predictions *out, struct tmk_diag *diag) {
    for (uint32_t i = 0; c->labels && c->graphs[0]->n_outputs && i < c->n_classes; i++) {
        const uint32_t graph = c->classes[i].graph;
        const struct tmk_tensor left = tmk_worker_value(ran->workers[0], c->graphs[0]->outputs[0]),
                                right = tmk_worker_value(ran->workers[graph],
                                                         c->graphs[graph]->outputs[0]);
        if (c->classes[i].half == TMK_ALL_SAMPLES || c->classes[i].half == half_of(c, ran))
            TMK_TRY(tmk_predictions_add(&out[i], c->labels, ran->batch->sample, ran->batch->samples,
                                        c->graphs[0]->outputs[0], &left, &right, diag));
    }
    return TMK_OK;
}

static enum tmk_status copy_outputs(const struct tmk_comparison *c, const struct tmk_ran *ran,
                                    struct tmk_tensor *copies, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < c->n_kept; i++)
        for (uint32_t k = 0; k < c->n_outputs; k++) {
            const uint32_t graph = c->kept[i].graph[half_of(c, ran) == TMK_SECOND_HALF];
            const struct tmk_tensor tensor =
                tmk_worker_value(ran->workers[graph], c->graphs[graph]->outputs[k]);
            if (tensor.kind != TMK_TYPE_TENSOR)
                return tmk_fail(diag, TMK_TYPE, "output %u is no tensor, and no metric takes it",
                                k);
            TMK_TRY(tmk_tensor_keep(copies++, &tensor, diag));
        }
    return TMK_OK;
}

static enum tmk_status compare_batch(void *context, const struct tmk_ran *ran, void *record,
                                     struct tmk_diag *diag) {
    const struct tmk_comparison *c = context;
    for (uint32_t i = 0; i < c->n_pairs; i++) {
        const struct tmk_compared_pair *pair = &c->pairs[i];
        if (is_constant(pair) || (pair->half != TMK_ALL_SAMPLES && pair->half != half_of(c, ran)))
            continue;
        const struct tmk_tensor left = value_of(ran, &pair->left),
                                right = value_of(ran, &pair->right);
        tmk_error_add(&errors_in(record)[i], &left, pair->left.encoding, &right,
                      pair->right.encoding);
    }
    TMK_TRY(count_classes(c, ran, predictions_in(c, record), diag));
    return copy_outputs(c, ran, copies_in(c, record), diag);
}

/* At least -80 dB, at most 20; what has another shape is all noise. */
static double log_noise_of(const struct tmk_error_sums *errors) {
    const double noise = errors->left > 0 ? errors->error / errors->left : errors->error > 0;
    return errors->reshaped ? 0 : log10(fmin(fmax(noise, 1e-8), 100));
}

static void merge_pair(struct tmk_compared_pair *pair, const struct tmk_error_sums *more) {
    tmk_error_merge(&pair->errors, more);
    if (more->n || more->reshaped) {
        pair->log_noise += log_noise_of(more);
        pair->batches++;
    }
}

static enum tmk_status merge_record(void *context, const void *record, struct tmk_diag *diag) {
    struct tmk_comparison *c = context;
    const struct tmk_tensor *copies = copies_in(c, record);
    for (uint32_t i = 0; i < c->n_pairs; i++)
        merge_pair(&c->pairs[i], &errors_in(record)[i]);
    for (uint32_t i = 0; i < c->n_classes; i++)
        tmk_predictions_merge(&c->classes[i].sum, &predictions_in(c, record)[i]);
    for (uint32_t i = 0; i < c->n_kept; i++)
        for (uint32_t k = 0; k < c->n_outputs; k++)
            TMK_TRY(tmk_gathered_append(&c->kept[i].outputs[k], copies++, c->joined, diag));
    return TMK_OK;
}

static void drop_copies(void *context, void *record) {
    const struct tmk_comparison *c = context;
    for (size_t i = 0; i < count_copies(c); i++)
        tmk_tensor_finish(&copies_in(c, record)[i]);
}

/* Once, not with every batch. */
static enum tmk_status compare_constants(struct tmk_comparison *c, struct tmk_run_events *events,
                                         struct tmk_diag *diag) {
    for (uint32_t i = 0; i < c->n_pairs; i++) {
        struct tmk_compared_pair *pair = &c->pairs[i];
        if (!is_constant(pair))
            continue;
        if (tmk_running_stops(events))
            return tmk_fail(diag, TMK_INTERRUPTED, "stopped while weights were compared");
        tmk_error_add(&pair->errors, &pair->left.value->data, pair->left.encoding,
                      &pair->right.value->data, pair->right.encoding);
    }
    return TMK_OK;
}

static enum tmk_status keep_value(const struct tmk_comparison *c,
                                  const struct tmk_compared_value *v, struct tmk_diag *diag) {
    return v->value->kind == TMK_VALUE_RESULT && !v->value->n_graph_outputs
               ? tmk_graph_add_output(c->graphs[v->graph], v->value, diag)
               : TMK_OK;
}

static enum tmk_status prepare_graphs(struct tmk_comparison *c, struct tmk_run_events *events,
                                      struct tmk_diag *diag) {
    for (uint32_t i = 0; i < c->n_pairs; i++) {
        TMK_TRY(keep_value(c, &c->pairs[i].left, diag));
        TMK_TRY(keep_value(c, &c->pairs[i].right, diag));
    }
    for (uint32_t i = 0; i < c->n_graphs; i++)
        tmk_graph_number(c->graphs[i]);
    return compare_constants(c, events, diag);
}

enum tmk_status tmk_compare_run(struct tmk_comparison *comparison,
                                const struct tmk_run_options *options, struct tmk_diag *diag) {
    const struct tmk_sink sink = {.record = compare_batch,
                                  .record_bytes =
                                      comparison->n_pairs * sizeof(struct tmk_error_sums) +
                                      comparison->n_classes * sizeof(struct tmk_predictions) +
                                      count_copies(comparison) * sizeof(struct tmk_tensor) + 1,
                                  .merge = merge_record,
                                  .drop = drop_copies,
                                  .context = comparison};
    struct tmk_run_options mine = *options;
    struct tmk_running run = {.options = &mine};
    mine.data.batch = options->data.batch ? options->data.batch : 1;
    enum tmk_status status = prepare_graphs(comparison, &mine.events, diag);
    TMK_THEN(status, tmk_running_open(&run, comparison->graphs[0], diag));
    if (status == TMK_OK && comparison->series) {
        run.done = comparison->series->done;
        run.to_run *= comparison->series->runs;
    }
    if (status == TMK_OK) {
        comparison->joined = tmk_feed_plan(run.feed).slices;
        status = tmk_running_execute(&run, comparison->graphs, comparison->n_graphs, &sink, diag);
    }
    comparison->samples = run.report.samples;
    if (comparison->series)
        comparison->series->done += run.report.samples;
    tmk_running_finish(&run);
    return status;
}
