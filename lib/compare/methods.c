/* SPDX-License-Identifier: Apache-2.0 */
/* Which method of activations is best for a network: each half of the samples judges encodings that
 * were made of the other half. */
#include <math.h>

#include "base/diag.h"
#include "calib/config.h"
#include "compare/simulate.h"
#include "transform/model.h"

/* Samples: below, what is better on one half is luck; a part of them that halves may differ by. */
enum { FEWEST = 32, EVEN = 4 };

/* Decibels that another method than the default must be better by in the mean. */
static const double least_method_gain = 0.5;

struct choosing {
    struct tmk_model *model;
    const struct tmk_run_options *run;
    struct tmk_calibrate_options how;
    struct tmk_profile *half[2], *whole;
    bool enough; /* samples */
    struct tmk_profile_range range[2];
    struct tmk_graph *graph;
    struct tmk_encodings *made[2][TMK_METHODS_TRIED]; /* of either half */
    struct tmk_loss losses[2][TMK_METHODS_TRIED];     /* on either half, by those of the other */
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

/* The run in two shards. They are cut between batches: where few batches make uneven halves, each
 * is run once more by itself. */
static enum tmk_status profile_halves(struct choosing *c) {
    struct tmk_run_options run = *c->run;
    for (uint32_t i = 0; i < 2; i++) {
        run.shard = (struct tmk_shard_options){i + 1, 2};
        struct tmk_run_report report = {0};
        TMK_TRY(profile(c, &run, &c->half[i], &report));
        if (c->report)
            add_report(c->report, &report);
        if (!tmk_profile_range(c->half[i], 0, &c->range[i]))
            c->range[i] = (struct tmk_profile_range){run.data.skip, run.data.skip};
    }
    const uint64_t n[] = {c->range[0].end - c->range[0].begin, c->range[1].end - c->range[1].begin},
                   all = n[0] + n[1], differ = n[0] > n[1] ? n[0] - n[1] : n[1] - n[0];
    c->enough = all >= FEWEST;
    if (differ <= all / EVEN || !c->enough)
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

/* Does the config say by which method? */
static enum tmk_status is_given(const struct choosing *c, bool *out) {
    struct tmk_config config;
    const enum tmk_status status = tmk_config_init(&config, c->how.config, c->diag);
    *out = c->how.activations.method || config.defaults[TMK_ENCODING_ACTIVATION].method;
    tmk_config_finish(&config);
    return status;
}

/* Of either half. The default comes first. */
static enum tmk_status make_encodings(struct choosing *c) {
    const char *const names[TMK_METHODS_TRIED] = {(*tmk_method_list())->name, "mse", "minmax",
                                                  "percentile", "entropy"};
    for (uint32_t m = 0; m < TMK_METHODS_TRIED; m++) {
        c->how.activations.method = names[m];
        c->out->tried[m] = (struct tmk_method_tried){.name = names[m]};
        for (uint32_t i = 0; i < 2; i++)
            TMK_TRY(tmk_calibrate(c->half[i], &c->how, &c->made[i][m], c->diag));
    }
    c->out->n = TMK_METHODS_TRIED;
    return TMK_OK;
}

/* The samples next to where the halves meet. */
static enum tmk_status judge_halves(struct choosing *c) {
    static const struct tmk_quantize_options qdq = {0};
    TMK_TRY(tmk_original(c->model, &c->graph, c->diag));
    tmk_graph_number(c->graph);
    for (uint32_t i = 0; i < 2; i++) {
        struct tmk_run_options run = *c->run;
        struct tmk_judge judge = {
            .graph = c->graph, .how = &qdq, .run = &run, .before_softmax = true};
        const uint64_t all = c->range[i].end - c->range[i].begin, most = TMK_METHODS_SAMPLES / 2,
                       n = all < most ? all : most;
        run.events.progress = NULL;
        run.data.skip = i ? c->range[i].begin : c->range[i].end - n;
        run.data.limit = n;
        TMK_TRY(tmk_losses(&judge, (const struct tmk_encodings *const *)c->made[1 - i], c->out->n,
                           c->losses[i], c->diag));
        c->out->samples += n;
    }
    return TMK_OK;
}

/* Geometric means of the halves' samples are of the same weight. */
static void fill_tried(const struct choosing *c) {
    for (uint32_t i = 0; i < c->out->n; i++) {
        struct tmk_method_tried *tried = &c->out->tried[i];
        const struct tmk_loss *a = &c->losses[0][i], *b = &c->losses[1][i];
        for (uint32_t k = 0; k < 2; k++)
            tried->half[k] = tmk_noise_sqnr(c->losses[k][i].typical);
        tried->typical = tmk_noise_sqnr(sqrt(a->typical * b->typical));
        tried->sqnr = tmk_noise_sqnr((a->noise + b->noise) / 2);
    }
}

/* The best one that is not worse than the default by any measure. */
static uint32_t best_method(const struct tmk_method_tried *tried, uint32_t n) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (tried[i].typical > tried[best].typical &&
            tried[i].typical >= tried[0].typical + least_method_gain &&
            tried[i].sqnr >= tried[0].sqnr && tried[i].half[0] >= tried[0].half[0] &&
            tried[i].half[1] >= tried[0].half[1])
            best = i;
    return best;
}

static enum tmk_status choose_method(struct choosing *c) {
    bool given = false;
    TMK_TRY(is_given(c, &given));
    if (given)
        return profile(c, c->run, &c->whole, c->report);
    TMK_TRY(profile_halves(c));
    if (c->enough) {
        TMK_TRY(make_encodings(c));
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
    c.how.remark = NULL;
    *out = (struct tmk_method_choice){.n = 0};
    if (report)
        *report = (struct tmk_run_report){0};
    const enum tmk_status status = choose_method(&c);
    if (status == TMK_OK) {
        *profile = c.whole;
        c.whole = NULL;
    }
    tmk_profile_destroy(&c.whole);
    for (uint32_t i = 0; i < 2; i++) {
        tmk_profile_destroy(&c.half[i]);
        for (uint32_t k = 0; k < TMK_METHODS_TRIED; k++)
            tmk_encodings_destroy(&c.made[i][k]);
    }
    tmk_graph_destroy(&c.graph);
    return status;
}
