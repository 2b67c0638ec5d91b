/* SPDX-License-Identifier: Apache-2.0 */
/* What the search goes by, and how far its result holds on samples that nothing was chosen by. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "base/text.h"
#include "compare/search.h"
#include "session/running.h"

static const struct tmk_quantize_options qdq = {0};

/* ---- samples ---- */

static enum tmk_status find_samples(const struct tmk_search *s, struct tmk_search_samples *out) {
    struct tmk_run_options mine = s->run;
    struct tmk_running run = {.options = &mine};
    mine.data.batch = mine.data.batch ? mine.data.batch : 1;
    enum tmk_status status = tmk_running_open(&run, s->graph, s->diag);
    if (status == TMK_OK) {
        const uint64_t batches = tmk_feed_batches(run.feed);
        const uint64_t split = batches ? tmk_feed_begin(run.feed, (batches + 1) / 2) : 0;
        *out = (struct tmk_search_samples){
            .first = mine.data.skip,
            .split = split,
            .in_half = {tmk_feed_share(run.feed, 0, split),
                        tmk_feed_share(run.feed, split, tmk_feed_begin(run.feed, batches))}};
    }
    tmk_running_finish(&run);
    return status;
}

enum tmk_status tmk_search_judge_by(struct tmk_search *s, const struct tmk_run_options *run) {
    s->run = *run;
    TMK_TRY(find_samples(s, &s->samples));
    s->judge = (struct tmk_judge){.graph = s->graph,
                                  .how = &qdq,
                                  .run = &s->run,
                                  .series = s->series,
                                  .split = s->samples.split,
                                  .labels = s->labels.n ? &s->labels : NULL,
                                  .metric = s->options->metric.call ? &s->options->metric : NULL,
                                  .before_softmax = s->options->goal != TMK_GOAL_SQNR};
    return TMK_OK;
}

/* ---- goals and labels ---- */

bool tmk_goal_read(const char *text, enum tmk_goal *goal, double *value) {
    static const struct {
        enum tmk_goal goal;
        const char *before, *after; /* the number */
    } forms[] = {{TMK_GOAL_ACCURACY, "accuracy-", "%"},
                 {TMK_GOAL_METRIC, "metric-", "%"},
                 {TMK_GOAL_SQNR, "", "dB"},
                 {TMK_GOAL_SQNR, "", ""}};
    for (size_t i = 0; i < TMK_COUNT(forms); i++) {
        const size_t len = strlen(forms[i].before);
        char *end = NULL;
        if (strncmp(text, forms[i].before, len) != 0 || !strchr("0123456789.", text[len]))
            continue;
        const double number = strtod(text + len, &end);
        if (end != text + len && strcmp(end, forms[i].after) == 0 && isfinite(number) &&
            (number > 0 || forms[i].goal != TMK_GOAL_SQNR)) {
            *goal = forms[i].goal;
            *value = number;
            return true;
        }
    }
    return false;
}

enum tmk_status tmk_search_labels(struct tmk_search *s) {
    const struct tmk_search_options *options = s->options;
    const bool needed = options->goal == TMK_GOAL_ACCURACY;
    if (options->goal == TMK_GOAL_METRIC && !options->metric.call)
        return tmk_fail(s->diag, TMK_ARGUMENT, "the goal is a metric, and there is none");
    if (!options->labels && !needed)
        return TMK_OK;
    if (options->labels && options->n_search_data && tmk_ends_in(options->labels, ".npy"))
        return tmk_fail(
            s->diag, TMK_ARGUMENT,
            "%s has labels of one set of data: with samples of the search's own, name an "
            "array that the .npz of both have",
            options->labels);
    TMK_TRY(tmk_labels_read(&s->run, options->labels, &s->labels, s->diag));
    if (!s->labels.n)
        return tmk_fail(s->diag, TMK_MISMATCH,
                        "the goal is an accuracy, and there are no labels: give them, or an array "
                        "'labels' in an .npz of the data");
    s->labels.asked = true;
    return TMK_OK;
}

/* ---- figures ---- */

static struct tmk_search_quality quality_of(const struct tmk_loss *loss) {
    struct tmk_predictions all = loss->classes[0];
    struct tmk_search_quality q = {.sqnr = tmk_noise_sqnr(loss->of_outputs),
                                   .accuracy = NAN,
                                   .margin = NAN,
                                   .metric = loss->metric};
    tmk_predictions_merge(&all, &loss->classes[1]);
    if (all.labelled) {
        const double n = (double)all.labelled,
                     change = ((double)all.right_right - (double)all.right_left) / n;
        const struct tmk_share_interval interval = tmk_predictions_change(&all);
        q.accuracy = (double)all.right_right / n;
        q.margin = fmax(interval.high - change, change - interval.low);
    }
    return q;
}

/* Of the float network, beside which `loss` was measured. */
static struct tmk_search_quality float_quality(const struct tmk_judge *judge,
                                               const struct tmk_loss *loss) {
    struct tmk_predictions all = loss->classes[0];
    tmk_predictions_merge(&all, &loss->classes[1]);
    return (struct tmk_search_quality){
        .sqnr = HUGE_VAL,
        .accuracy = all.labelled ? (double)all.right_left / (double)all.labelled : NAN,
        .margin = NAN,
        .metric = judge->metric ? judge->float_metric : NAN};
}

static enum tmk_status judge_apart(struct tmk_search *s, const struct tmk_run_options *given,
                                   const struct tmk_encodings *const *list) {
    struct tmk_search other = {
        .graph = s->graph, .options = s->options, .series = s->series, .diag = s->diag};
    struct tmk_search_result *result = &s->result;
    struct tmk_run_options run = *given;
    struct tmk_loss losses[2];
    run.data.limit = given->data.limit ? given->data.limit : TMK_SEARCH_SAMPLES;
    if (s->options->labels)
        TMK_TRY(tmk_labels_read(&run, s->options->labels, &other.labels, s->diag));
    enum tmk_status status = tmk_search_judge_by(&other, &run);
    TMK_THEN(status, tmk_losses(&other.judge, list, 2, losses, s->diag));
    if (status == TMK_OK) {
        result->judged = TMK_JUDGED_APART;
        result->judged_samples = losses[0].samples;
        result->judged_from = other.samples.first;
        result->judged_float = float_quality(&other.judge, &losses[0]);
        result->judged_before = quality_of(&losses[0]);
        result->judged_after = quality_of(&losses[1]);
    }
    tmk_labels_finish(&other.labels);
    return status;
}

static enum tmk_status judge_crossed(struct tmk_search *s, struct tmk_encodings *const halves[2]) {
    const struct tmk_encodings *const list[] = {halves[0], halves[1]};
    struct tmk_search_result *result = &s->result;
    struct tmk_judge judge = s->judge;
    struct tmk_loss loss;
    judge.crossed = true;
    TMK_TRY(tmk_losses(&judge, list, 2, &loss, s->diag));
    result->judged = TMK_JUDGED_CROSSED;
    result->judged_samples = result->samples;
    result->judged_from = result->from;
    result->split = s->samples.split;
    result->judged_float = result->in_float;
    result->judged_before = result->before; /* nothing was chosen for it */
    result->judged_after = quality_of(&loss);
    return TMK_OK;
}

enum tmk_status tmk_search_verdict(struct tmk_search *s, const struct tmk_run_options *given,
                                   const struct tmk_encodings *before,
                                   struct tmk_encodings *const halves[2]) {
    const struct tmk_encodings *const list[] = {before, s->current};
    struct tmk_loss losses[2];
    TMK_TRY(tmk_losses(&s->judge, list, 2, losses, s->diag));
    s->result.samples = losses[0].samples;
    s->result.from = s->samples.first;
    s->result.in_float = float_quality(&s->judge, &losses[0]);
    s->result.before = quality_of(&losses[0]);
    s->result.after = quality_of(&losses[1]);
    if (s->options->n_search_data)
        return judge_apart(s, given, list);
    return halves ? judge_crossed(s, halves) : TMK_OK;
}
