/* SPDX-License-Identifier: Apache-2.0 */
/* Which methods are best for a network. Of activations: each half of the samples judges encodings
 * that were made of the other half. Of weights, whose ranges hardly depend on samples: any of them
 * judge. */
#include <math.h>

#include "base/diag.h"
#include "calib/config.h"
#include "calib/weights.h"
#include "compare/simulate.h"
#include "session/running.h"
#include "transform/model.h"

/* Samples: below, what is better on one half is luck; a part of them that halves may differ by. */
enum { FEWEST = 32, EVEN = 4, A_FEW = 8 };

/* Decibels that another method than the default must be better by on either half, as hardly any is
 * by luck: the default's ranges are wider than what was seen, so that narrower ones seem better
 * until an extreme comes. And of weights. */
static const double least_method_gain = 3,
                    least_weights_gain = 1; /* on FEWEST samples; more on fewer */

/* Decibels by which the default's weights are better on A_FEW samples where more need not be asked:
 * those of single samples differ by 3 to 6 from one to the next. */
static const double clear_weights = 2;

struct choosing {
    struct tmk_model *model;
    const struct tmk_run_options *run;
    struct tmk_calibrate_options how;
    struct tmk_weight_ranges *known;
    struct tmk_profile *half[2], *whole;
    bool enough; /* samples */
    struct tmk_profile_range range[2];
    struct tmk_graph *graph;
    uint32_t left[TMK_METHODS_TRIED], n_left;         /* that may still be taken */
    struct tmk_encodings *made[2][TMK_METHODS_TRIED]; /* for either half, of the other one */
    struct tmk_loss losses[2][TMK_METHODS_TRIED];     /* on either half */
    uint64_t judged;                                  /* samples, by the last run */
    struct tmk_method_choice *out;
    struct tmk_run_report *report; /* of the runs that `whole` is of; NULL: it is not asked for */
    struct tmk_diag *diag;
};

static enum tmk_status profile(const struct choosing *c, const struct tmk_run_options *run,
                               struct tmk_profile **out, struct tmk_run_report *report) {
    const struct tmk_observe observe = {0};
    return tmk_model_profile(c->model, run, &observe, out, report, c->diag);
}

static void add_report(struct tmk_run_report *sum, const struct tmk_run_report *one) {
    sum->samples += one->samples;
    sum->batches += one->batches;
    sum->seconds += one->seconds;
    sum->setup_seconds += one->setup_seconds;
    sum->arena_bytes = sum->arena_bytes > one->arena_bytes ? sum->arena_bytes : one->arena_bytes;
    sum->threads = sum->threads > one->threads ? sum->threads : one->threads;
    sum->checkpoints += one->checkpoints;
    sum->checkpoint_seconds += one->checkpoint_seconds;
}

/* Of the halves as they are. */
static enum tmk_status merge_halves(struct choosing *c) {
    TMK_TRY(tmk_profile_merge(c->half[0], c->half[1], c->diag));
    c->whole = c->half[0];
    c->half[0] = NULL;
    tmk_profile_destroy(&c->half[1]);
    return TMK_OK;
}

/* By how many samples halves differ, of which the first has so many. */
static uint64_t unevenness(uint64_t all, uint64_t first) {
    return 2 * first > all ? 2 * first - all : all - 2 * first;
}

/* Two shards are cut between batches, which begin at multiples of their size. The size that makes
 * the most even ones: more than half of the run's, unless only smaller ones will do. */
static uint32_t even_batch(const struct tmk_feed_plan *plan, uint64_t skip) {
    uint64_t best = plan->batch, least = plan->run;
    for (uint64_t batch = plan->batch;
         batch > 0 && (2 * batch > plan->batch || least > plan->run / EVEN); batch--) {
        const uint64_t from = skip / batch, end = (skip + plan->run - 1) / batch + 1,
                       middle = (from + (end - from) / 2) * batch,
                       differ = unevenness(plan->run, middle > skip ? middle - skip : 0);
        if (differ < least) {
            least = differ;
            best = batch;
        }
    }
    return (uint32_t)best;
}

/* *all: the samples that are to run. */
static enum tmk_status plan_halves(struct choosing *c, struct tmk_run_options *run, uint64_t *all) {
    struct tmk_running probe = {.options = c->run};
    const enum tmk_status status = tmk_running_open(&probe, c->graph, c->diag);
    if (status == TMK_OK) {
        const struct tmk_feed_plan plan = tmk_feed_plan(probe.feed);
        *all = plan.run;
        if (plan.free && plan.run > 0)
            run->data.batch = even_batch(&plan, run->data.skip);
    }
    tmk_running_finish(&probe);
    return status;
}

/* The run in two shards; where few batches of fixed size make uneven ones, each half is run once
 * more by itself. */
static enum tmk_status profile_halves(struct choosing *c) {
    struct tmk_run_options run = *c->run;
    uint64_t all = 0;
    TMK_TRY(plan_halves(c, &run, &all));
    c->enough = all >= FEWEST;
    if (!c->enough)
        return profile(c, c->run, &c->whole, c->report);
    for (uint32_t i = 0; i < 2; i++) {
        run.shard = (struct tmk_shard_options){i + 1, 2};
        struct tmk_run_report report = {0};
        TMK_TRY(profile(c, &run, &c->half[i], &report));
        if (c->report)
            add_report(c->report, &report);
        if (!tmk_profile_range(c->half[i], 0, &c->range[i]))
            c->range[i] = (struct tmk_profile_range){run.data.skip, run.data.skip};
    }
    const uint64_t first = c->range[0].end - c->range[0].begin;
    all = first + c->range[1].end - c->range[1].begin;
    if (unevenness(all, first) <= all / EVEN)
        return TMK_OK;
    TMK_TRY(merge_halves(c));
    run.shard = (struct tmk_shard_options){0};
    run.events.progress = NULL;
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t begin = c->run->data.skip + (i ? all / 2 : 0);
        run.data.skip = begin;
        run.data.limit = i ? all - all / 2 : all / 2;
        c->range[i] = (struct tmk_profile_range){begin, begin + run.data.limit};
        TMK_TRY(profile(c, &run, &c->half[i], NULL));
    }
    return TMK_OK;
}

/* Do the options or the config say by which methods? */
static enum tmk_status find_given(const struct choosing *c, bool *activations, bool *weights) {
    struct tmk_config config;
    tmk_config_init(&config);
    const enum tmk_status status =
        c->how.config ? tmk_config_add_file(&config, c->how.config, c->diag) : TMK_OK;
    *activations = c->how.activations.method || config.defaults[TMK_ENCODING_ACTIVATION].method;
    *weights = c->how.weights.method || c->how.weights.block || !c->how.constant ||
               config.defaults[TMK_ENCODING_WEIGHT].method ||
               config.defaults[TMK_ENCODING_WEIGHT].block;
    tmk_config_finish(&config);
    return status;
}

static const struct tmk_quantize_options qdq_form = {0};

/* Judges both on A_FEW samples, and where these do not tell that the default is better on FEWEST.
 */
static enum tmk_status judge_weights(struct choosing *c, const struct tmk_encodings *const *made) {
    struct tmk_run_options run = *c->run;
    struct tmk_judge judge = {
        .graph = c->graph, .how = &qdq_form, .run = &run, .before_softmax = true};
    struct tmk_weights_tried *tried = c->out->weights;
    const uint64_t all = c->whole ? c->whole->ledger.run : FEWEST;
    bool open = true;
    uint64_t done = 0;
    run.events.progress = NULL;
    for (uint64_t most = A_FEW; open && done < most && done < all; most = FEWEST) {
        struct tmk_loss losses[TMK_WEIGHTS_TRIED];
        const uint64_t n = (all < most ? all : most) - done;
        run.data.skip = c->run->data.skip + done;
        run.data.limit = n;
        TMK_TRY(tmk_losses(&judge, made, TMK_WEIGHTS_TRIED, losses, c->diag));
        for (uint32_t i = 0; i < TMK_WEIGHTS_TRIED; i++)
            tried[i].typical =
                ((double)done * tried[i].typical + (double)n * tmk_noise_sqnr(losses[i].typical)) /
                (double)(done + n);
        open = tried[0].typical - tried[1].typical < clear_weights;
        done += n;
    }
    const double gain = tried[1].typical - tried[0].typical;
    c->out->chosen_weights =
        done && gain >= least_weights_gain * sqrt((double)FEWEST / (double)done) ? 1 : 0;
    return TMK_OK;
}

/* What ranges by sums leave is luck, which differs by network: now and then the extremes have less.
 */
static enum tmk_status choose_weights(struct choosing *c) {
    static const char *const names[TMK_WEIGHTS_TRIED] = {"auto", "minmax"};
    const struct tmk_profile *known = c->whole ? c->whole : c->half[0];
    struct tmk_encodings *made[TMK_WEIGHTS_TRIED] = {NULL};
    enum tmk_status status = TMK_OK;
    c->out->n_weights = TMK_WEIGHTS_TRIED;
    for (uint32_t i = 0; i < TMK_WEIGHTS_TRIED && status == TMK_OK; i++) {
        c->out->weights[i].name = c->how.weights.method = names[i];
        status = tmk_calibrate_by(known, &c->how, NULL, c->known, &made[i], c->diag);
    }
    TMK_THEN(status, judge_weights(c, (const struct tmk_encodings *const *)made));
    for (uint32_t i = 0; i < TMK_WEIGHTS_TRIED; i++)
        tmk_encodings_destroy(&made[i]);
    TMK_TRY(status);
    c->how.weights.method = names[c->out->chosen_weights];
    return TMK_OK;
}

/* Judges the methods that are left on a half, by encodings made of the other one: on so many
 * samples next to where the halves meet. */
static enum tmk_status judge_half(struct choosing *c, uint32_t half, uint64_t most) {
    struct tmk_run_options run = *c->run;
    struct tmk_judge judge = {
        .graph = c->graph, .how = &qdq_form, .run = &run, .before_softmax = true};
    const struct tmk_profile_range *range = &c->range[half];
    const uint64_t all = range->end - range->begin, n = all < most ? all : most;
    const struct tmk_encodings *made[TMK_METHODS_TRIED];
    struct tmk_loss losses[TMK_METHODS_TRIED];
    for (uint32_t i = 0; i < c->n_left; i++) {
        struct tmk_encodings **slot = &c->made[half][c->left[i]];
        c->how.activations.method = c->out->tried[c->left[i]].name;
        if (!*slot)
            TMK_TRY(tmk_calibrate_by(c->half[1 - half], &c->how, NULL, c->known, slot, c->diag));
        made[i] = *slot;
    }
    run.events.progress = NULL;
    run.data.skip = half ? range->begin : range->end - n;
    run.data.limit = n;
    TMK_TRY(tmk_losses(&judge, made, c->n_left, losses, c->diag));
    for (uint32_t i = 0; i < c->n_left; i++) {
        c->losses[half][c->left[i]] = losses[i];
        c->out->tried[c->left[i]].half[half] = tmk_noise_sqnr(losses[i].typical);
    }
    c->judged = n;
    return TMK_OK;
}

/* What gains less than half of the least gain on the first half is hardly taken, whatever the
 * second one says; true: something is left. */
static bool leave_worse(struct choosing *c) {
    uint32_t n = 1;
    for (uint32_t i = 1; i < c->n_left; i++)
        if (c->out->tried[c->left[i]].half[0] >= c->out->tried[0].half[0] + least_method_gain / 2)
            c->left[n++] = c->left[i];
    c->n_left = n;
    return n > 1;
}

/* The default comes first. */
static enum tmk_status judge_halves(struct choosing *c) {
    const char *const names[TMK_METHODS_TRIED] = {(*tmk_method_list())->name, "mse", "minmax",
                                                  "percentile", "entropy"};
    c->out->n = c->n_left = TMK_METHODS_TRIED;
    for (uint32_t i = 0; i < TMK_METHODS_TRIED; i++) {
        c->left[i] = i;
        c->out->tried[i] = (struct tmk_method_tried){
            .name = names[i], .typical = NAN, .half = {NAN, NAN}, .sqnr = NAN};
    }
    for (uint64_t most = A_FEW; most <= TMK_METHODS_SAMPLES / 2; most *= 4) {
        TMK_TRY(judge_half(c, 0, most));
        c->out->samples = c->judged;
        if (!leave_worse(c))
            return TMK_OK;
    }
    TMK_TRY(judge_half(c, 1, TMK_METHODS_SAMPLES / 2));
    c->out->samples += c->judged;
    return TMK_OK;
}

/* Geometric means of the halves' samples are of the same weight. */
static void fill_tried(const struct choosing *c) {
    for (uint32_t i = 0; c->n_left > 1 && i < c->n_left; i++) {
        struct tmk_method_tried *tried = &c->out->tried[c->left[i]];
        const struct tmk_loss *a = &c->losses[0][c->left[i]], *b = &c->losses[1][c->left[i]];
        tried->typical = tmk_noise_sqnr(sqrt(a->typical * b->typical));
        tried->sqnr = tmk_noise_sqnr((a->noise + b->noise) / 2);
    }
}

/* The best one that is better on both halves and not worse of all; what is NAN is not better. */
static uint32_t best_method(const struct tmk_method_tried *tried, uint32_t n) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (tried[i].typical > tried[best].typical && tried[i].sqnr >= tried[0].sqnr &&
            tried[i].half[0] >= tried[0].half[0] + least_method_gain &&
            tried[i].half[1] >= tried[0].half[1] + least_method_gain)
            best = i;
    return best;
}

static enum tmk_status choose_method(struct choosing *c) {
    bool activations = false, weights = false;
    TMK_TRY(find_given(c, &activations, &weights));
    TMK_TRY(tmk_original(c->model, &c->graph, c->diag));
    tmk_graph_number(c->graph);
    TMK_TRY(activations ? profile(c, c->run, &c->whole, c->report) : profile_halves(c));
    if (!weights)
        TMK_TRY(choose_weights(c));
    if (c->enough) {
        TMK_TRY(judge_halves(c));
        fill_tried(c);
        c->out->chosen = best_method(c->out->tried, c->out->n);
    }
    return c->whole ? TMK_OK : merge_halves(c);
}

enum tmk_status tmk_model_choose_method(struct tmk_model *model, const struct tmk_run_options *run,
                                        const struct tmk_calibrate_options *calibrate,
                                        struct tmk_profile **profile, struct tmk_method_choice *out,
                                        struct tmk_run_report *report, struct tmk_diag *diag) {
    struct choosing c = {
        .model = model, .run = run, .how = *calibrate, .out = out, .report = report, .diag = diag};
    TMK_TRY(tmk_data_can_repeat(&run->data, diag));
    c.how.remark = NULL;
    *out = (struct tmk_method_choice){.n = 0};
    if (report)
        *report = (struct tmk_run_report){0};
    c.known = tmk_weight_ranges_create();
    const enum tmk_status status = c.known ? choose_method(&c) : tmk_nomem(diag);
    if (status == TMK_OK) {
        *profile = c.whole;
        c.whole = NULL;
    }
    tmk_weight_ranges_destroy(&c.known);
    tmk_profile_destroy(&c.whole);
    for (uint32_t i = 0; i < 2; i++) {
        tmk_profile_destroy(&c.half[i]);
        for (uint32_t k = 0; k < TMK_METHODS_TRIED; k++)
            tmk_encodings_destroy(&c.made[i][k]);
    }
    tmk_graph_destroy(&c.graph);
    return status;
}
