/* SPDX-License-Identifier: Apache-2.0 */
#include "session/team.h"

#include <string.h>

#include "base/diag.h"
#include "dist/team.h"
#include "exec/timing.h"
#include "session/profile.h"

struct job {
    const struct tmk_run_options *options;
    const struct tmk_session_feed *feed;
};

static enum tmk_status next(void *context, uint64_t *begin, uint64_t *end, bool *more,
                            struct tmk_diag *diag) {
    const struct job *job = context;
    uint64_t first, last;
    TMK_TRY(tmk_team_take(job->options->team, &first, &last, more, diag));
    *begin = tmk_session_feed_begin(job->feed, first);
    *end = tmk_session_feed_begin(job->feed, last);
    return TMK_OK;
}

static enum tmk_status open_parts(void *context, const struct tmk_session_feed *feed,
                                  struct tmk_hand_out *out, struct tmk_diag *diag) {
    struct job *job = context;
    const struct tmk_work work = {tmk_session_feed_batches(feed),
                                  tmk_session_feed_begin(feed, UINT64_MAX)};
    job->feed = feed;
    *out = (struct tmk_hand_out){next, job};
    return tmk_team_offer(job->options->team, &work, diag);
}

static bool stop(void *context) {
    const struct job *job = context;
    const struct tmk_run_options *options = job->options;
    return tmk_team_is_over(options->team) || (options->stop && options->stop(options->context));
}

/* What all ranks have done; which batches those were does not matter. */
static void progress(void *context, uint64_t samples_done, uint64_t total) {
    const struct job *job = context;
    uint64_t done = tmk_session_feed_begin(job->feed, tmk_team_done(job->options->team));
    (void)samples_done;
    (void)total;
    job->options->progress(job->options->context, tmk_session_feed_share(job->feed, 0, done),
                           tmk_session_feed_plan(job->feed).run);
}

static void print(void *context, const char *label, uint64_t sample,
                  const struct tmk_tensor *tensor) {
    const struct job *job = context;
    job->options->print(job->options->context, label, sample, tensor);
}

/* A rank may be left without samples; all of them together may not. */
static enum tmk_status anything(const struct tmk_profile *profile, struct tmk_diag *diag) {
    const struct tmk_profile_ledger *ledger = &profile->ledger;
    if (ledger->run)
        return TMK_OK;
    return tmk_fail(diag, ledger->failed ? TMK_FORMAT : TMK_SHAPE,
                    "no sample is left to run: %llu could not be read, %llu fill no batch",
                    (unsigned long long)ledger->failed, (unsigned long long)ledger->skipped);
}

static bool is_stream(const char *data) {
    const char *equals = strrchr(data, '=');
    return strcmp(data, "-") == 0 || (equals && strcmp(equals, "=-") == 0);
}

/* What a launcher gives to one rank only, or what is a part already. */
static enum tmk_status is_for_a_team(const struct tmk_run_options *options, struct tmk_diag *diag) {
    for (size_t i = 0; i < options->n_data; i++)
        if (is_stream(options->data[i]))
            return tmk_fail(diag, TMK_ARGUMENT,
                            "standard input can feed one process only; a run of %u ranks needs "
                            "data in files",
                            tmk_team_size(options->team));
    if (options->shard || options->shards || options->checkpoint)
        return tmk_fail(diag, TMK_ARGUMENT, "%s is for one process, not for a run of %u ranks",
                        options->checkpoint ? "a checkpoint" : "a shard",
                        tmk_team_size(options->team));
    return TMK_OK;
}

enum tmk_status tmk_team_profile(struct tmk_model *model, const struct tmk_run_options *options,
                                 const struct tmk_observe *observe, struct tmk_profile **out,
                                 struct tmk_run_report *report, struct tmk_diag *diag) {
    struct job job = {.options = options};
    struct tmk_run_options mine = *options;
    const struct tmk_parts parts = {open_parts, &job};
    struct tmk_profile *profile = NULL;
    struct tmk_run_report of_mine;
    bool leads = tmk_team_rank(options->team) == 0;
    TMK_TRY(is_for_a_team(options, diag));
    mine.stop = stop;
    mine.progress = leads && options->progress ? progress : NULL;
    mine.print = options->print ? print : NULL;
    mine.context = &job;
    TMK_TRY(tmk_session_profile(model, &mine, observe, &parts, &profile, &of_mine, diag));
    const uint64_t before = tmk_clock_ns();
    enum tmk_status status = tmk_team_gather(options->team, &profile, diag);
    if (status == TMK_OK && leads)
        status = anything(profile, diag);
    if (status != TMK_OK) {
        tmk_profile_destroy(&profile);
        return status;
    }
    of_mine.seconds += (double)(tmk_clock_ns() - before) * 1e-9;
    if (leads) {
        of_mine.samples = profile->ledger.run;
        of_mine.batches = profile->ledger.batches;
    }
    if (report)
        *report = of_mine;
    *out = profile;
    return TMK_OK;
}
