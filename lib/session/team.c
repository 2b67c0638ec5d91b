/* SPDX-License-Identifier: Apache-2.0 */
#include "session/team.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "session/profile.h"

struct job {
    const struct tmk_run_options *options;
    const struct tmk_session_feed *feed;
    uint64_t samples_before, batches_before; /* in the checkpoint */
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

/* Its batches; malloc'ed. */
static enum tmk_status batches_of(const struct tmk_session_feed *feed,
                                  const struct tmk_profile *profile, struct tmk_batches **out,
                                  uint32_t *n, struct tmk_diag *diag) {
    struct tmk_profile_range range;
    uint32_t ranges = 0;
    while (profile && tmk_profile_range(profile, ranges, &range))
        ranges++;
    struct tmk_batches *batches = calloc((size_t)ranges + 1, sizeof *batches);
    if (!batches)
        return tmk_nomem(diag);
    for (uint32_t i = 0; i < ranges; i++) {
        (void)tmk_profile_range(profile, i, &range);
        batches[i] = (struct tmk_batches){tmk_session_feed_batch_from(feed, range.begin),
                                          tmk_session_feed_batch_from(feed, range.end)};
    }
    *out = batches;
    *n = ranges;
    return TMK_OK;
}

static enum tmk_status open_parts(void *context, const struct tmk_session_feed *feed,
                                  const struct tmk_profile *before, struct tmk_hand_out *out,
                                  struct tmk_diag *diag) {
    struct job *job = context;
    const struct tmk_work work = {tmk_session_feed_batches(feed),
                                  tmk_session_feed_begin(feed, UINT64_MAX),
                                  tmk_session_feed_glance(feed)};
    struct tmk_batches *done;
    uint32_t n_done;
    TMK_TRY(batches_of(feed, before, &done, &n_done, diag));
    job->feed = feed;
    if (before) {
        job->samples_before = before->ledger.run;
        job->batches_before = before->ledger.batches;
    }
    *out = (struct tmk_hand_out){next, job};
    enum tmk_status status = tmk_team_offer(job->options->team, &work, done, n_done, diag);
    free(done);
    return status;
}

static enum tmk_status ask(void *context, enum tmk_wish wish, bool *pause, struct tmk_diag *diag) {
    const struct job *job = context;
    return tmk_team_ask(job->options->team, wish, pause, diag);
}

static enum tmk_status gather(void *context, struct tmk_profile **profile, enum tmk_round *round,
                              struct tmk_diag *diag) {
    const struct job *job = context;
    return tmk_team_gather(job->options->team, profile, round, diag);
}

static void tell_hashes(void *context, const char (*hex)[TMK_HASH128_HEX], uint32_t n) {
    const struct job *job = context;
    tmk_team_tell(job->options->team, hex, n * sizeof *hex);
}

static enum tmk_status hear_hashes(void *context, char (*hex)[TMK_HASH128_HEX], uint32_t n,
                                   struct tmk_diag *diag) {
    const struct job *job = context;
    return tmk_team_hear(job->options->team, hex, n * sizeof *hex, diag);
}

static bool stop(void *context) {
    const struct job *job = context;
    return job->options->stop(job->options->context);
}

static void resumed(void *context, uint64_t samples_done, uint64_t total) {
    const struct job *job = context;
    job->options->resumed(job->options->context, samples_done, total);
}

static void fewer_threads(void *context, enum tmk_thread_work work, uint32_t missing,
                          uint32_t wanted, const char *why) {
    const struct job *job = context;
    job->options->fewer_threads(job->options->context, work, missing, wanted, why);
}

static void remark(void *context, const char *text) {
    const struct job *job = context;
    job->options->remark(job->options->context, text);
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
    if (options->strata)
        return tmk_fail(diag, TMK_ARGUMENT,
                        "strata are for one process, not for a run of %u ranks; shards can be "
                        "merged stratum by stratum",
                        tmk_team_size(options->team));
    if (options->shard || options->shards)
        return tmk_fail(diag, TMK_ARGUMENT, "a shard is for one process, not for a run of %u ranks",
                        tmk_team_size(options->team));
    return TMK_OK;
}

enum tmk_status tmk_team_profile(struct tmk_model *model, const struct tmk_run_options *options,
                                 const struct tmk_observe *observe, struct tmk_profile **out,
                                 struct tmk_run_report *report, struct tmk_diag *diag) {
    struct job job = {.options = options};
    struct tmk_run_options mine = *options;
    const bool leads = tmk_team_rank(options->team) == 0;
    const struct tmk_parts parts = {open_parts, ask, gather, tell_hashes, hear_hashes, leads, &job};
    struct tmk_profile *profile = NULL;
    struct tmk_run_report of_mine;
    TMK_TRY(is_for_a_team(options, diag));
    mine.stop = options->stop ? stop : NULL;
    mine.resumed = options->resumed ? resumed : NULL;
    mine.fewer_threads = options->fewer_threads ? fewer_threads : NULL;
    mine.remark = options->remark ? remark : NULL;
    mine.progress = leads && options->progress ? progress : NULL;
    mine.print = options->print ? print : NULL;
    mine.context = &job;
    TMK_TRY(tmk_session_profile(model, &mine, observe, &parts, &profile, &of_mine, diag));
    enum tmk_status status = leads ? anything(profile, diag) : TMK_OK;
    if (status != TMK_OK) {
        tmk_profile_destroy(&profile);
        return status;
    }
    if (leads) {
        of_mine.samples = profile->ledger.run - job.samples_before;
        of_mine.batches = profile->ledger.batches - job.batches_before;
    }
    if (report)
        *report = of_mine;
    *out = profile;
    return TMK_OK;
}
