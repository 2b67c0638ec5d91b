/* SPDX-License-Identifier: Apache-2.0 */
#include "compare/compare.h"

#include "base/diag.h"
#include "session/running.h"

/* The record of a batch. */
struct compared {
    struct tmk_predictions predictions;
    struct tmk_error_sums errors[]; /* one a pair */
};

static struct tmk_tensor value_of(const struct tmk_ran *ran, const struct tmk_compared_value *v) {
    return v->value->kind == TMK_VALUE_INITIALIZER
               ? v->value->data
               : tmk_worker_value(ran->workers[v->graph], v->value);
}

static bool is_constant(const struct tmk_compared_pair *pair) {
    return pair->left.value->kind == TMK_VALUE_INITIALIZER &&
           pair->right.value->kind == TMK_VALUE_INITIALIZER;
}

static enum tmk_status count_predictions(const struct tmk_comparison *c, const struct tmk_ran *ran,
                                         struct tmk_predictions *out, struct tmk_diag *diag) {
    if (!c->labels || !c->graphs[0]->n_outputs)
        return TMK_OK;
    const struct tmk_tensor left = tmk_worker_value(ran->workers[0], c->graphs[0]->outputs[0]),
                            right = tmk_worker_value(ran->workers[1], c->graphs[1]->outputs[0]);
    return tmk_predictions_add(out, c->labels, ran->batch->sample, ran->batch->samples, &left,
                               &right, diag);
}

static enum tmk_status compare_batch(void *context, const struct tmk_ran *ran, void *record,
                                     struct tmk_diag *diag) {
    const struct tmk_comparison *c = context;
    struct compared *compared = record;
    for (uint32_t i = 0; i < c->n_pairs; i++) {
        const struct tmk_compared_pair *pair = &c->pairs[i];
        if (is_constant(pair))
            continue;
        const struct tmk_tensor left = value_of(ran, &pair->left),
                                right = value_of(ran, &pair->right);
        tmk_error_add(&compared->errors[i], &left, pair->left.encoding, &right,
                      pair->right.encoding);
    }
    return count_predictions(c, ran, &compared->predictions, diag);
}

static enum tmk_status merge_record(void *context, const void *record, struct tmk_diag *diag) {
    struct tmk_comparison *c = context;
    const struct compared *more = record;
    (void)diag;
    for (uint32_t i = 0; i < c->n_pairs; i++)
        tmk_error_merge(&c->pairs[i].errors, &more->errors[i]);
    c->predictions.n += more->predictions.n;
    c->predictions.agree += more->predictions.agree;
    c->predictions.labelled += more->predictions.labelled;
    c->predictions.right_left += more->predictions.right_left;
    c->predictions.right_right += more->predictions.right_right;
    return TMK_OK;
}

/* Once, not with every batch. */
static void compare_constants(struct tmk_comparison *c) {
    for (uint32_t i = 0; i < c->n_pairs; i++) {
        struct tmk_compared_pair *pair = &c->pairs[i];
        if (is_constant(pair))
            tmk_error_add(&pair->errors, &pair->left.value->data, pair->left.encoding,
                          &pair->right.value->data, pair->right.encoding);
    }
}

static enum tmk_status keep_value(const struct tmk_comparison *c,
                                  const struct tmk_compared_value *v, struct tmk_diag *diag) {
    return v->value->kind == TMK_VALUE_RESULT && !v->value->n_graph_outputs
               ? tmk_graph_add_output(c->graphs[v->graph], v->value, diag)
               : TMK_OK;
}

static enum tmk_status prepare_graphs(struct tmk_comparison *c, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < c->n_pairs; i++) {
        TMK_TRY(keep_value(c, &c->pairs[i].left, diag));
        TMK_TRY(keep_value(c, &c->pairs[i].right, diag));
    }
    for (uint32_t i = 0; i < c->n_graphs; i++)
        tmk_graph_number(c->graphs[i]);
    compare_constants(c);
    return TMK_OK;
}

enum tmk_status tmk_compare_run(struct tmk_comparison *comparison,
                                const struct tmk_run_options *options, struct tmk_diag *diag) {
    const struct tmk_sink sink = {.record = compare_batch,
                                  .record_bytes =
                                      sizeof(struct compared) +
                                      comparison->n_pairs * sizeof(struct tmk_error_sums),
                                  .merge = merge_record,
                                  .context = comparison};
    struct tmk_run_options mine = *options;
    struct tmk_running run = {.options = &mine};
    mine.data.batch = options->data.batch ? options->data.batch : 1;
    enum tmk_status status = prepare_graphs(comparison, diag);
    if (status == TMK_OK)
        status = tmk_running_open(&run, comparison->graphs[0], diag);
    if (status == TMK_OK)
        status = tmk_running_execute(&run, comparison->graphs, comparison->n_graphs, &sink, diag);
    comparison->samples = run.report.samples;
    tmk_running_finish(&run);
    return status;
}
