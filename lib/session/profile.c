/* SPDX-License-Identifier: Apache-2.0 */
/* The main job: import has happened; instrument, run, and write down what was seen. Reads from top
 * to bottom as the data flows. */
#include <stdlib.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/file.h"
#include "exec/run.h"
#include "profile/format.h"
#include "session/describe.h"
#include "session/meter.h"
#include "session/model.h"
#include "session/parts.h"
#include "session/profile.h"
#include "session/record.h"
#include "session/running.h"
#include "session/sums.h"
#include "session/team.h"

struct story {
    struct tmk_running run;
    const struct tmk_model *model;
    const struct tmk_observe *observe; /* as asked for; may be NULL */
    const struct tmk_parts *parts;
    struct tmk_shard shard;
    struct tmk_rest rest;        /* of it, behind a checkpoint */
    struct tmk_sums sums;        /* of all legs so far */
    struct tmk_profile *profile; /* of all of them, in the end */
    struct tmk_meter *meter;     /* NULL: no snapshots are wanted */
    double leg_began;
    char (*heard)[TMK_HASH128_HEX]; /* the data's hashes, where another part tells them */
    bool stopped;
};

static void finish(struct story *story) {
    tmk_profile_destroy(&story->profile);
    tmk_sums_finish(&story->sums);
    tmk_meter_destroy(&story->meter);
    free(story->rest.done);
    free(story->heard);
    tmk_running_finish(&story->run);
}

/* ---- what is said of a leg ---- */

/* Begun beside the first batches, or left to the part that leads. */
static enum tmk_status begin_hashing(struct story *story, struct tmk_diag *diag) {
    const struct tmk_parts *parts = story->parts;
    struct tmk_feed_hashed then = {0};
    if (parts && !parts->leads) {
        story->heard =
            calloc((size_t)tmk_session_feed_sources(story->run.feed) + 1, sizeof *story->heard);
        return story->heard ? TMK_OK : tmk_nomem(diag);
    }
    if (parts)
        then = (struct tmk_feed_hashed){parts->tell_hashes, parts->context};
    return tmk_session_feed_hash(story->run.feed, &then, diag);
}

/* One a source. */
static enum tmk_status hashes(const struct story *story, const char (**out)[TMK_HASH128_HEX],
                              struct tmk_diag *diag) {
    if (!story->heard)
        return tmk_session_feed_hashes(story->run.feed, out, diag);
    if (!story->heard[0][0])
        TMK_TRY(story->parts->hear_hashes(story->parts->context, story->heard,
                                          tmk_session_feed_sources(story->run.feed), diag));
    *out = (const char(*)[TMK_HASH128_HEX])story->heard;
    return TMK_OK;
}

static enum tmk_status describe(const struct story *story, uint32_t stratum,
                                struct tmk_profile **out, struct tmk_diag *diag) {
    struct tmk_leg leg = {.model = story->model,
                          .options = story->run.options,
                          .observe = story->observe,
                          .original = story->run.original,
                          .excluded = &story->run.excluded,
                          .feed = story->run.feed,
                          .tallies = story->run.result.tallies};
    TMK_TRY(hashes(story, &leg.hashes, diag));
    return tmk_leg_describe(&leg, stratum, tmk_sums_label(&story->sums, stratum), out, diag);
}

/* ---- which samples ---- */

static enum tmk_status check_before(const struct story *story, uint32_t stratum,
                                    struct tmk_diag *diag) {
    const struct tmk_run_options *options = story->run.options;
    const struct tmk_shard *shard = &story->shard;
    const struct tmk_profile *before = story->sums.before[stratum];
    struct tmk_profile *run;
    struct tmk_profile_range range;
    if (!before)
        return TMK_OK;
    TMK_TRY(describe(story, stratum, &run, diag));
    enum tmk_status status = tmk_profile_same_run(run, before, diag);
    tmk_profile_destroy(&run);
    TMK_TRY(tmk_in(diag, status,
                   "%s (the second) is the checkpoint of another run than this (the "
                   "first)",
                   options->checkpoint));
    for (uint32_t i = 0; tmk_profile_range(before, i, &range); i++) {
        TMK_TRY(tmk_in(
            diag, tmk_session_feed_is_of(story->run.feed, range.begin, range.end, stratum, diag),
            "%s is the checkpoint of another run", options->checkpoint));
        if (options->shards && (range.begin < shard->begin || range.end > shard->end))
            return tmk_fail(diag, TMK_MISMATCH,
                            "%s is the checkpoint of another run: it holds samples %llu to %llu, "
                            "but shard %u/%u is %llu to %llu",
                            options->checkpoint, (unsigned long long)range.begin,
                            (unsigned long long)range.end, options->shard, options->shards,
                            (unsigned long long)shard->begin, (unsigned long long)shard->end);
    }
    return TMK_OK;
}

static enum tmk_status read_before(struct story *story, struct tmk_diag *diag) {
    const struct tmk_run_options *options = story->run.options;
    TMK_TRY(tmk_outfile_check(options->checkpoint, diag));
    if (access(options->checkpoint, F_OK) != 0)
        return TMK_OK;
    TMK_TRY(tmk_sums_read(&story->sums, diag));
    for (uint32_t i = 0; i < story->sums.n; i++)
        TMK_TRY(check_before(story, i, diag));
    story->run.done = tmk_sums_run(&story->sums);
    if (options->resumed)
        options->resumed(options->context, story->run.done, story->run.to_run);
    return TMK_OK;
}

/* What the checkpoint holds is taken off the hand-out. */
static enum tmk_status go_on(struct story *story, struct tmk_hand_out *hand_out,
                             struct tmk_diag *diag) {
    struct tmk_profile *covered;
    TMK_TRY(tmk_sums_covered(&story->sums, &covered, diag));
    enum tmk_status status = tmk_rest_of(hand_out, covered, &story->rest, diag);
    tmk_profile_destroy(&covered);
    if (status == TMK_OK)
        *hand_out = tmk_rest_hand_out(&story->rest);
    return status;
}

static bool keeps_checkpoint(const struct story *story) {
    return story->run.options->checkpoint && (!story->parts || story->parts->leads);
}

static enum tmk_status choose_part(struct story *story, struct tmk_diag *diag) {
    const struct tmk_run_options *options = story->run.options;
    struct tmk_hand_out hand_out = {0};
    if (story->parts) {
        if (keeps_checkpoint(story))
            TMK_TRY(read_before(story, diag));
        TMK_TRY(story->parts->open(story->parts->context, story->run.feed, story->sums.before[0],
                                   &hand_out, diag));
        return tmk_session_feed_hand_out(story->run.feed, &hand_out, diag);
    }
    if (options->shard || options->shards || options->checkpoint) {
        bool all = !options->shard && !options->shards;
        TMK_TRY(tmk_shard_of(story->run.feed, all ? 1 : options->shard, all ? 1 : options->shards,
                             &story->shard, diag));
        story->run.to_run =
            tmk_session_feed_share(story->run.feed, story->shard.begin, story->shard.end);
        hand_out = tmk_shard_hand_out(&story->shard);
    }
    if (!hand_out.next)
        return TMK_OK;
    TMK_TRY(tmk_session_feed_hand_out(story->run.feed, &hand_out, diag));
    if (!options->checkpoint)
        return TMK_OK;
    TMK_TRY(read_before(story, diag));
    TMK_TRY(go_on(story, &hand_out, diag));
    return tmk_session_feed_hand_out(story->run.feed, &hand_out, diag);
}

/* ---- leg after leg, from one checkpoint or snapshot to the next ---- */

static enum tmk_status stopped_for_good(struct tmk_diag *diag) {
    return tmk_fail(diag, TMK_INTERRUPTED,
                    "stopped before the end, and nothing is written; --checkpoint FILE keeps "
                    "what is done");
}

static bool snapshot_is_due(const struct story *story) {
    const struct tmk_profile *before = story->sums.profiles[0];
    const struct tmk_feed_ledger *since = tmk_session_feed_ledger(story->run.feed, 0);
    return story->meter &&
           (before ? before->ledger.offered : 0) + since->run + since->skipped + since->failed >=
               tmk_meter_next(story->meter);
}

static enum tmk_status ask(void *context, bool *pause, struct tmk_diag *diag) {
    struct story *story = context;
    const struct tmk_run_options *options = story->run.options;
    double every = options->checkpoint_seconds > 0 ? options->checkpoint_seconds : 60;
    enum tmk_wish wish = TMK_WISH_NOTHING;
    if (options->stop && options->stop(options->context))
        wish = TMK_WISH_STOP;
    if (wish == TMK_WISH_STOP && !options->checkpoint)
        return stopped_for_good(diag);
    if (tmk_session_feed_hash_failed(
            story->run.feed)) { /* which would be told at the end, otherwise */
        const char(*none)[TMK_HASH128_HEX];
        return tmk_session_feed_hashes(story->run.feed, &none, diag);
    }
    if (wish == TMK_WISH_NOTHING && keeps_checkpoint(story) &&
        tmk_session_feed_has_begun(story->run.feed) &&
        tmk_running_now() - story->leg_began >= every)
        wish = TMK_WISH_PAUSE;
    if (wish == TMK_WISH_NOTHING && snapshot_is_due(story))
        wish = TMK_WISH_PAUSE;
    if (story->parts)
        return story->parts->ask(story->parts->context, wish, pause, diag);
    story->stopped = wish == TMK_WISH_STOP;
    *pause = wish != TMK_WISH_NOTHING;
    return TMK_OK;
}

/* The profile of a stratum's samples of the leg, whose accounts go into it. */
static enum tmk_status write_down(struct story *story, uint32_t stratum, struct tmk_profile **out,
                                  struct tmk_diag *diag) {
    struct tmk_profile *profile = NULL;
    const struct tmk_observed observed = {
        story->run.observers, story->run.slots,
        story->run.result.accounts + (size_t)stratum * story->run.n_slots, story->run.n_slots,
        tmk_session_feed_loops(story->run.feed)};
    TMK_TRY(describe(story, stratum, &profile, diag));
    enum tmk_status status = tmk_record_values(profile, story->run.original, &observed, diag);
    if (status == TMK_OK)
        *out = profile;
    else
        tmk_profile_destroy(&profile);
    return status;
}

/* Is there anything to add? Of the first stratum always, so that there is a profile. */
static bool is_in_leg(const struct story *story, uint32_t stratum) {
    const struct tmk_sums *sums = &story->sums;
    return tmk_session_feed_ledger(story->run.feed, stratum)->n_ranges || sums->before[stratum] ||
           (stratum == 0 && !sums->profiles[0]);
}

static enum tmk_status add_leg(struct story *story, uint32_t stratum, struct tmk_diag *diag) {
    struct tmk_profile *leg = NULL;
    if (!is_in_leg(story, stratum))
        return TMK_OK;
    TMK_TRY(write_down(story, stratum, &leg, diag));
    return tmk_sums_add(&story->sums, stratum, leg, diag);
}

/* The run is over, and was one of so many samples. */
static enum tmk_status end_here(struct story *story, struct tmk_diag *diag) {
    struct tmk_profile *last, *sum = story->sums.profiles[0];
    tmk_session_feed_end(story->run.feed, sum->ledger.offered);
    TMK_TRY(describe(story, 0, &last, diag));
    enum tmk_status status = tmk_sums_follow(&story->sums, 0, last, diag);
    tmk_profile_destroy(&last);
    return status;
}

static enum tmk_status take_snapshot(struct story *story, enum tmk_round *round,
                                     struct tmk_diag *diag) {
    const struct tmk_profile *sum = story->sums.profiles[0];
    const double until = story->run.options->until_stable;
    const size_t n = tmk_meter_snapshots(story->meter);
    if (n && tmk_meter_offered(story->meter, n - 1) == sum->ledger.offered)
        return TMK_OK; /* the run ends where the last one was taken */
    TMK_TRY(tmk_meter_take(story->meter, sum, diag));
    story->run.report.stable =
        *round == TMK_ROUND_PAUSED && until > 0 && tmk_meter_is_stable(story->meter, until);
    if (!story->run.report.stable)
        return TMK_OK;
    *round = TMK_ROUND_FINISHED;
    return end_here(story, diag);
}

/* How the leg ended; with parts, how it did for all of them. */
static enum tmk_status end_round(struct story *story, enum tmk_round *round,
                                 struct tmk_diag *diag) {
    const struct tmk_parts *parts = story->parts;
    *round = !tmk_session_feed_paused(story->run.feed) ? TMK_ROUND_FINISHED
             : story->stopped                          ? TMK_ROUND_STOPPED
                                                       : TMK_ROUND_PAUSED;
    for (uint32_t i = 0; i < story->sums.n; i++) {
        TMK_TRY(add_leg(story, i, diag));
        if (parts) /* which know one stratum */
            TMK_TRY(parts->gather(parts->context, &story->sums.profiles[i], round, diag));
        if (story->meter)
            TMK_TRY(take_snapshot(story, round, diag));
        if (*round == TMK_ROUND_FINISHED)
            TMK_TRY(tmk_sums_close(&story->sums, i, &story->profile, diag));
    }
    tmk_exec_result_finish(&story->run.result);
    return TMK_OK;
}

/* *more: there is another leg to run. */
static enum tmk_status between_legs(struct story *story, bool *more, struct tmk_diag *diag) {
    const char *path = story->run.options->checkpoint;
    const double began = tmk_running_now();
    enum tmk_round round;
    TMK_TRY(end_round(story, &round, diag));
    if (round == TMK_ROUND_STOPPED && !path)
        return stopped_for_good(diag);
    if (round != TMK_ROUND_FINISHED && keeps_checkpoint(story)) {
        TMK_TRY(tmk_sums_write(&story->sums, diag));
        story->run.report.checkpoints++;
        story->run.report.checkpoint_seconds += tmk_running_now() - began;
    }
    story->run.report.seconds += tmk_running_now() - began;
    *more = round == TMK_ROUND_PAUSED;
    if (round == TMK_ROUND_STOPPED)
        return tmk_fail(diag, TMK_INTERRUPTED,
                        "stopped, with %llu samples done; the same command goes on from %s",
                        (unsigned long long)tmk_sums_run(&story->sums), path);
    return *more ? tmk_session_feed_go_on(story->run.feed, diag) : TMK_OK;
}

static enum tmk_status run_legs(struct story *story, struct tmk_exec *exec, struct tmk_diag *diag) {
    const struct tmk_feed feed = tmk_session_feed_of(story->run.feed);
    const struct tmk_feed_watch watch = {ask, story};
    bool more = true;
    tmk_session_feed_watch(story->run.feed, &watch);
    while (more) {
        story->leg_began = tmk_running_now();
        TMK_TRY(tmk_in(diag, tmk_exec_leg(exec, &feed, &story->run.result, diag), "%s",
                       story->model->path));
        tmk_running_note(&story->run, tmk_running_now() - story->leg_began);
        TMK_TRY(between_legs(story, &more, diag));
    }
    return TMK_OK;
}

/* A part may be without samples, but not a whole run. */
static enum tmk_status check_ledger(const struct story *story, struct tmk_diag *diag) {
    const struct tmk_profile *profile = story->profile;
    if (profile->ledger.run || story->parts || story->run.options->shards)
        return TMK_OK;
    return tmk_fail(diag, TMK_FORMAT,
                    "%s: no sample is left to run: %llu could not be read, %llu were passed over",
                    story->model->path, (unsigned long long)profile->ledger.failed,
                    (unsigned long long)profile->ledger.skipped);
}

static enum tmk_status open_meter(struct story *story, struct tmk_diag *diag) {
    const struct tmk_run_options *options = story->run.options;
    if (!options->snapshots && !(options->until_stable > 0))
        return TMK_OK;
    if (story->parts || options->shards || options->strata || options->checkpoint)
        return tmk_fail(diag, TMK_ARGUMENT,
                        "snapshots go by all samples in their order: they cannot be taken of %s",
                        story->parts      ? "a run that several processes share"
                        : options->shards ? "a shard"
                        : options->strata ? "strata"
                                          : "a run that may go on from a checkpoint");
    return tmk_meter_create(&story->meter, diag);
}

static enum tmk_status tell(struct story *story, struct tmk_model *model,
                            const struct tmk_observe *observe, struct tmk_diag *diag) {
    double begin = tmk_running_now();
    TMK_TRY(open_meter(story, diag));
    TMK_TRY(tmk_running_prepare(&story->run, model, observe, diag));
    TMK_TRY(begin_hashing(story, diag));
    TMK_TRY(tmk_sums_init(&story->sums, story->run.options, diag));
    TMK_TRY(choose_part(story, diag));
    story->run.report.setup_seconds = tmk_running_now() - begin;
    const struct tmk_exec_options options = tmk_running_exec_options(&story->run, true);
    struct tmk_exec *exec;
    TMK_TRY(tmk_exec_open(story->run.graph, &options, &exec, diag));
    enum tmk_status status = run_legs(story, exec, diag);
    tmk_exec_close(&exec);
    if (status != TMK_OK || !story->profile) /* another part has it */
        return status;
    TMK_TRY(tmk_profile_balance(story->profile, diag)); /* a checkpoint's, when it is written */
    return check_ledger(story, diag);
}

enum tmk_status tmk_session_profile(struct tmk_model *model, const struct tmk_run_options *options,
                                    const struct tmk_observe *observe,
                                    const struct tmk_parts *parts, struct tmk_profile **out,
                                    struct tmk_run_report *report, struct tmk_diag *diag) {
    static const struct tmk_observe everything = {0};
    struct story story = {
        .run.options = options, .model = model, .observe = observe, .parts = parts};
    enum tmk_status status = tell(&story, model, observe ? observe : &everything, diag);
    if (status == TMK_OK) {
        *out = story.profile;
        story.profile = NULL;
        if (report) {
            *report = story.run.report;
            report->meter = story.meter;
            story.meter = NULL;
        }
    }
    finish(&story);
    return status;
}

enum tmk_status tmk_model_profile(struct tmk_model *model, const struct tmk_run_options *options,
                                  const struct tmk_observe *observe, struct tmk_profile **out,
                                  struct tmk_run_report *report, struct tmk_diag *diag) {
    if (options->team)
        return tmk_team_profile(model, options, observe, out, report, diag);
    return tmk_session_profile(model, options, observe, NULL, out, report, diag);
}
