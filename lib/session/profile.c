/* SPDX-License-Identifier: Apache-2.0 */
/* A profile: instrument, choose the samples, run segment after segment, merge. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/file.h"
#include "dist/team.h"
#include "exec/run.h"
#include "feed/feed.h"
#include "profile/format.h"
#include "profile/meter.h"
#include "session/partials.h"
#include "session/record.h"
#include "session/running.h"
#include "transform/model.h"

/* ---- ranks ---- */

struct rank {
    struct tmk_team *team;
    const struct tmk_feed *feed;
};

/* TMK_ARGUMENT: the options are for one process only. */
static enum tmk_status check_ranks(const struct tmk_run_options *options, struct tmk_diag *diag) {
    for (size_t i = 0; i < options->data.n_sources; i++)
        if (tmk_data_is_stream(options->data.sources[i]))
            return tmk_fail(diag, TMK_ARGUMENT,
                            "standard input can feed one process only; a run of %u ranks needs "
                            "data in files",
                            tmk_team_size(options->team));
    if (options->data.strata)
        return tmk_fail(diag, TMK_ARGUMENT,
                        "strata are for one process, not for a run of %u ranks; shards can be "
                        "merged stratum by stratum",
                        tmk_team_size(options->team));
    if (options->shard.index || options->shard.count)
        return tmk_fail(diag, TMK_ARGUMENT, "a shard is for one process, not for a run of %u ranks",
                        tmk_team_size(options->team));
    return TMK_OK;
}

static enum tmk_status next_range(void *context, uint64_t *begin, uint64_t *end, bool *more,
                                  struct tmk_diag *diag) {
    const struct rank *rank = context;
    uint64_t first, last;
    TMK_TRY(tmk_team_take(rank->team, &first, &last, more, diag));
    *begin = tmk_feed_begin(rank->feed, first);
    *end = tmk_feed_begin(rank->feed, last);
    return TMK_OK;
}

/* Its batches; malloc'ed. */
static enum tmk_status batches_of(const struct tmk_feed *feed, const struct tmk_profile *profile,
                                  struct tmk_batches **out, uint32_t *n, struct tmk_diag *diag) {
    struct tmk_profile_range range;
    uint32_t ranges = 0;
    while (profile && tmk_profile_range(profile, ranges, &range))
        ranges++;
    struct tmk_batches *batches = calloc((size_t)ranges + 1, sizeof *batches);
    TMK_TRY_ALLOC(batches, diag);
    for (uint32_t i = 0; i < ranges; i++) {
        (void)tmk_profile_range(profile, i, &range);
        batches[i] = (struct tmk_batches){tmk_feed_batch_from(feed, range.begin),
                                          tmk_feed_batch_from(feed, range.end)};
    }
    *out = batches;
    *n = ranges;
    return TMK_OK;
}

/* The ranges that this rank runs: at rank 0 without what `before` covers (NULL: there is no
 * checkpoint). *rank must outlive the feed. */
static enum tmk_status share_ranks(struct rank *rank, const struct tmk_profile *before,
                                   struct tmk_work_ranges *out, struct tmk_diag *diag) {
    const struct tmk_feed *feed = rank->feed;
    const struct tmk_work work = {tmk_feed_batches(feed), tmk_feed_begin(feed, UINT64_MAX),
                                  tmk_feed_glance(feed)};
    struct tmk_batches *done;
    uint32_t n_done;
    TMK_TRY(batches_of(feed, before, &done, &n_done, diag));
    *out = (struct tmk_work_ranges){next_range, rank};
    enum tmk_status status = tmk_team_offer(rank->team, &work, done, n_done, diag);
    free(done);
    return status;
}

/* ---- a run ---- */

struct profiling {
    struct tmk_running run;
    const struct tmk_model *model;
    const struct tmk_observe *observe; /* as asked for; may be NULL */
    struct rank rank;                  /* .team NULL: this process is alone */
    struct tmk_shard shard;
    struct tmk_rest rest;                  /* of it, behind a checkpoint */
    struct tmk_partials partials;          /* of all segments so far */
    struct tmk_profile *profile;           /* of all of them, in the end */
    struct tmk_meter *meter;               /* NULL: no snapshots are wanted */
    double segment_began, checkpoint_took; /* the last one, in seconds */
    /* What the checkpoint had. */
    uint64_t samples_before, batches_before;
    char (*received)[TMK_HASH128_HEX]; /* the data's hashes, at other ranks than 0 */
    bool stopped;
};

/* ---- the description of a segment ---- */

static void broadcast_hashes(void *team, const char (*hex)[TMK_HASH128_HEX], uint32_t n) {
    tmk_team_broadcast(team, hex, n * sizeof *hex);
}

/* During the first batches; rank 0 does it for all. */
static enum tmk_status begin_hashing(struct profiling *p, struct tmk_diag *diag) {
    const struct tmk_feed_hashed then = {p->rank.team ? broadcast_hashes : NULL, p->rank.team};
    if (tmk_team_rank(p->rank.team) == 0)
        return tmk_feed_hash(p->run.feed, &then, diag);
    p->received = calloc((size_t)tmk_feed_sources(p->run.feed) + 1, sizeof *p->received);
    return p->received ? TMK_OK : tmk_nomem(diag);
}

/* One a source. */
static enum tmk_status hash_sources(const struct profiling *p, const char (**out)[TMK_HASH128_HEX],
                                    struct tmk_diag *diag) {
    if (!p->received)
        return tmk_feed_hashes(p->run.feed, out, diag);
    if (!p->received[0][0])
        TMK_TRY(tmk_team_receive_broadcast(
            p->rank.team, p->received, tmk_feed_sources(p->run.feed) * sizeof *p->received, diag));
    *out = (const char(*)[TMK_HASH128_HEX])p->received;
    return TMK_OK;
}

static enum tmk_status describe_segment(const struct profiling *p, uint32_t stratum,
                                        struct tmk_profile **out, struct tmk_diag *diag) {
    struct tmk_segment segment = {.model = p->model,
                                  .options = p->run.options,
                                  .observe = p->observe,
                                  .original = p->run.original,
                                  .excluded = &p->run.excluded,
                                  .feed = p->run.feed,
                                  .tallies = p->run.result.counted.tallies};
    TMK_TRY(hash_sources(p, &segment.hashes, diag));
    return tmk_segment_describe(&segment, stratum, tmk_partials_label(&p->partials, stratum), out,
                                diag);
}

/* ---- which samples ---- */

static enum tmk_status check_before(const struct profiling *p, uint32_t stratum,
                                    struct tmk_diag *diag) {
    const struct tmk_run_options *options = p->run.options;
    const struct tmk_shard *shard = &p->shard;
    const struct tmk_profile *before = p->partials.before[stratum];
    struct tmk_profile *run;
    struct tmk_profile_range range;
    if (!before)
        return TMK_OK;
    TMK_TRY(describe_segment(p, stratum, &run, diag));
    enum tmk_status status = tmk_profile_same_run(run, before, diag);
    tmk_profile_destroy(&run);
    TMK_TRY(tmk_in(diag, status,
                   "%s (the second) is the checkpoint of another run than this (the "
                   "first)",
                   options->checkpoint.path));
    for (uint32_t i = 0; tmk_profile_range(before, i, &range); i++) {
        TMK_TRY(tmk_in(diag, tmk_feed_is_of(p->run.feed, range.begin, range.end, stratum, diag),
                       "%s is the checkpoint of another run", options->checkpoint.path));
        if (options->shard.count && (range.begin < shard->begin || range.end > shard->end))
            return tmk_fail(diag, TMK_MISMATCH,
                            "%s is the checkpoint of another run: it holds samples %llu to %llu, "
                            "but shard %u/%u is %llu to %llu",
                            options->checkpoint.path, (unsigned long long)range.begin,
                            (unsigned long long)range.end, options->shard.index,
                            options->shard.count, (unsigned long long)shard->begin,
                            (unsigned long long)shard->end);
    }
    return TMK_OK;
}

static enum tmk_status read_before(struct profiling *p, struct tmk_diag *diag) {
    const struct tmk_run_options *options = p->run.options;
    TMK_TRY(tmk_outfile_check(options->checkpoint.path, diag));
    if (access(options->checkpoint.path, F_OK) != 0)
        return TMK_OK;
    TMK_TRY(tmk_partials_read(&p->partials, diag));
    for (uint32_t i = 0; i < p->partials.n; i++)
        TMK_TRY(check_before(p, i, diag));
    p->run.done = tmk_partials_run(&p->partials);
    if (options->events.resumed)
        options->events.resumed(options->events.context, p->run.done, p->run.to_run);
    return TMK_OK;
}

/* What the checkpoint holds is taken off the work. */
static enum tmk_status resume_checkpoint(struct profiling *p, struct tmk_work_ranges *work,
                                         struct tmk_diag *diag) {
    TMK_TRY(read_before(p, diag));
    p->rest.all = *work;
    TMK_TRY(tmk_partials_covered(&p->partials, &p->rest.done, diag));
    *work = tmk_rest_ranges(&p->rest);
    return TMK_OK;
}

static bool keeps_checkpoint(const struct profiling *p) {
    return p->run.options->checkpoint.path && tmk_team_rank(p->rank.team) == 0;
}

/* A run is cut between sequences. */
static enum tmk_status can_be_cut(const struct profiling *p, struct tmk_diag *diag) {
    const struct tmk_run_options *options = p->run.options;
    if (!tmk_feed_is_one_sequence(p->run.feed))
        return TMK_OK;
    if (options->checkpoint.path)
        return tmk_fail(diag, TMK_ARGUMENT,
                        "a checkpoint is made between sequences, but all samples are one; --reset "
                        "says where sequences begin");
    if (options->shard.count > 1 || tmk_team_size(options->team) > 1)
        return tmk_fail(diag, TMK_ARGUMENT,
                        "a sequence runs in one process, and all samples are one; --reset says "
                        "where sequences begin");
    return TMK_OK;
}

static enum tmk_status choose_work(struct profiling *p, struct tmk_diag *diag) {
    const struct tmk_run_options *options = p->run.options;
    const struct tmk_shard_options all = {1, 1},
                                   *shard = options->shard.index || options->shard.count
                                                ? &options->shard
                                                : &all;
    struct tmk_work_ranges work = {0};
    TMK_TRY(can_be_cut(p, diag));
    if (p->rank.team) {
        if (keeps_checkpoint(p))
            TMK_TRY(read_before(p, diag));
        const struct tmk_profile *before = p->partials.before[0];
        p->samples_before = before ? before->ledger.run : 0;
        p->batches_before = before ? before->ledger.batches : 0;
        TMK_TRY(share_ranks(&p->rank, before, &work, diag));
        return tmk_feed_set_ranges(p->run.feed, &work, diag);
    }
    if (shard == &all && !options->checkpoint.path)
        return TMK_OK;
    TMK_TRY(tmk_shard_of(p->run.feed, shard->index, shard->count, &p->shard, diag));
    p->run.to_run = tmk_feed_share(p->run.feed, p->shard.begin, p->shard.end);
    work = tmk_shard_ranges(&p->shard);
    TMK_TRY(tmk_feed_set_ranges(p->run.feed, &work, diag));
    if (!options->checkpoint.path)
        return TMK_OK;
    TMK_TRY(resume_checkpoint(p, &work, diag));
    return tmk_feed_set_ranges(p->run.feed, &work, diag);
}

/* ---- segment after segment, from one checkpoint or snapshot to the next ---- */

static enum tmk_status stopped_for_good(struct tmk_diag *diag) {
    return tmk_fail(diag, TMK_INTERRUPTED,
                    "stopped before the end, and nothing is written; --checkpoint FILE keeps "
                    "what is done");
}

static bool snapshot_is_due(const struct profiling *p) {
    const struct tmk_profile *before = p->partials.profiles[0];
    const struct tmk_sample_counts *since = tmk_feed_counts(p->run.feed, 0);
    return p->meter &&
           (before ? before->ledger.offered : 0) + since->run + since->skipped + since->failed >=
               tmk_meter_next(p->meter);
}

/* Why the run should not continue. */
static enum tmk_status request_of(const struct profiling *p, enum tmk_team_request *request,
                                  struct tmk_diag *diag) {
    const struct tmk_run_options *options = p->run.options;
    const double asked = options->checkpoint.seconds > 0 ? options->checkpoint.seconds : 60,
                 /* a slow disk takes half of the time at most */
        every = asked > p->checkpoint_took ? asked : p->checkpoint_took;
    *request = options->events.stop && options->events.stop(options->events.context)
                   ? TMK_REQUEST_STOP
                   : TMK_REQUEST_NONE;
    if (*request == TMK_REQUEST_STOP && !options->checkpoint.path)
        return stopped_for_good(diag);
    if (tmk_feed_hash_failed(p->run.feed)) { /* which would be reported at the end only */
        const char(*none)[TMK_HASH128_HEX];
        return tmk_feed_hashes(p->run.feed, &none, diag);
    }
    if (*request == TMK_REQUEST_NONE && ((keeps_checkpoint(p) && tmk_feed_has_begun(p->run.feed) &&
                                          tmk_running_now() - p->segment_began >= every) ||
                                         snapshot_is_due(p)))
        *request = TMK_REQUEST_PAUSE;
    return TMK_OK;
}

/* Before each batch: stopping, checkpoints and snapshots are decided here alone. */
static enum tmk_status control_run(void *context, bool *pause, struct tmk_diag *diag) {
    struct profiling *p = context;
    enum tmk_team_request request;
    if (!tmk_feed_is_between(p->run.feed))
        return TMK_OK;
    TMK_TRY(request_of(p, &request, diag));
    p->stopped = !p->rank.team && request == TMK_REQUEST_STOP;
    *pause = request != TMK_REQUEST_NONE;
    if (p->rank.team) /* the ranks decide together */
        TMK_TRY(tmk_team_poll(p->rank.team, request, pause, diag));
    *pause = *pause && tmk_feed_can_pause(p->run.feed);
    if (*pause)
        tmk_feed_pause(p->run.feed);
    return TMK_OK;
}

/* A run with a checkpoint ends its prompts, since what they have counted cannot be taken back. */
static enum tmk_status between_steps(void *context, struct tmk_diag *diag) {
    const struct tmk_run_options *options = ((const struct profiling *)context)->run.options;
    if (!options->checkpoint.path && options->events.stop &&
        options->events.stop(options->events.context))
        return stopped_for_good(diag);
    return TMK_OK;
}

/* Is there anything to add? Of the first stratum always, so that there is a profile. */
static bool is_in_segment(const struct profiling *p, uint32_t stratum) {
    const struct tmk_partials *partials = &p->partials;
    return tmk_feed_counts(p->run.feed, stratum)->n_ranges || partials->before[stratum] ||
           (stratum == 0 && !partials->profiles[0]);
}

/* The run is over, and was one of so many samples. */
static enum tmk_status end_here(struct profiling *p, struct tmk_diag *diag) {
    struct tmk_profile *last, *sum = p->partials.profiles[0];
    tmk_feed_end(p->run.feed, sum->ledger.offered);
    TMK_TRY(describe_segment(p, 0, &last, diag));
    enum tmk_status status = tmk_partials_follow(&p->partials, 0, last, diag);
    tmk_profile_destroy(&last);
    return status;
}

static enum tmk_status take_snapshot(struct profiling *p, enum tmk_round *round,
                                     struct tmk_diag *diag) {
    const struct tmk_profile *sum = p->partials.profiles[0];
    const double until = p->run.options->snapshots.until_stable;
    const size_t n = tmk_meter_snapshots(p->meter);
    if (n && tmk_meter_offered(p->meter, n - 1) == sum->ledger.offered)
        return TMK_OK; /* the run ends where the last one was taken */
    TMK_TRY(tmk_meter_take(p->meter, sum, diag));
    p->run.report.stable =
        *round == TMK_ROUND_PAUSED && until > 0 && tmk_meter_is_stable(p->meter, until);
    if (!p->run.report.stable)
        return TMK_OK;
    *round = TMK_ROUND_FINISHED;
    return end_here(p, diag);
}

static void note_whole(struct profiling *p, uint32_t stratum) {
    const struct tmk_account *accounts =
        p->run.result.counted.accounts + (size_t)stratum * p->run.n_slots;
    for (uint32_t i = 0; i < p->run.n_slots; i++)
        p->run.whole[i] |= accounts[i].whole && accounts[i].dtype == TMK_FLOAT32;
}

static void remark_on_padding(const struct profiling *p) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->run.n_slots; i++)
        n += p->run.whole[i];
    if (n)
        tmk_feed_remark(p->run.feed,
                        "%u of %u values keep all of their elements: which of them are of padding "
                        "is not known",
                        n, p->run.n_slots);
}

/* How the segment ended; in a team, for all ranks. */
static enum tmk_status end_round(struct profiling *p, enum tmk_round *round,
                                 struct tmk_diag *diag) {
    *round = !p->run.result.paused ? TMK_ROUND_FINISHED
             : p->stopped          ? TMK_ROUND_STOPPED
                                   : TMK_ROUND_PAUSED;
    const struct tmk_run_events *events = &p->run.options->events;
    if (*round == TMK_ROUND_STOPPED && events->stopping)
        events->stopping(events->context);
    for (uint32_t i = 0; i < p->partials.n; i++) {
        struct tmk_profile *segment = NULL;
        if (is_in_segment(p, i)) {
            note_whole(p, i);
            /* the accounts go into the profile */
            const struct tmk_observed observed = {p->run.observers, p->run.slots,
                                                  p->run.result.counted.accounts +
                                                      (size_t)i * p->run.n_slots,
                                                  p->run.n_slots, tmk_feed_recurrence(p->run.feed)};
            TMK_TRY(describe_segment(p, i, &segment, diag));
            enum tmk_status status = tmk_record_values(segment, p->run.original, &observed, diag);
            if (status != TMK_OK)
                tmk_profile_destroy(&segment);
            TMK_TRY(status);
            TMK_TRY(tmk_partials_add(&p->partials, i, segment, diag));
        }
        if (p->rank.team) /* which has one stratum */
            TMK_TRY(tmk_team_gather(p->rank.team, &p->partials.profiles[i], round, diag));
        if (p->meter)
            TMK_TRY(take_snapshot(p, round, diag));
        if (*round == TMK_ROUND_FINISHED)
            TMK_TRY(tmk_partials_close(&p->partials, i, &p->profile, diag));
    }
    tmk_exec_result_finish(&p->run.result);
    return TMK_OK;
}

/* *more: there is another segment to run. */
static enum tmk_status between_segments(struct profiling *p, bool *more, struct tmk_diag *diag) {
    const char *path = p->run.options->checkpoint.path;
    const double began = tmk_running_now();
    enum tmk_round round;
    TMK_TRY(end_round(p, &round, diag));
    if (round == TMK_ROUND_STOPPED && !path)
        return stopped_for_good(diag);
    if (round != TMK_ROUND_FINISHED && keeps_checkpoint(p)) {
        TMK_TRY(tmk_partials_write(&p->partials, diag));
        p->checkpoint_took = tmk_running_now() - began;
        p->run.report.checkpoints++;
        p->run.report.checkpoint_seconds += p->checkpoint_took;
    }
    p->run.report.seconds += tmk_running_now() - began;
    *more = round == TMK_ROUND_PAUSED;
    if (round == TMK_ROUND_STOPPED)
        return tmk_fail(diag, TMK_INTERRUPTED,
                        "stopped, with %llu samples done; the same command resumes from %s",
                        (unsigned long long)tmk_partials_run(&p->partials), path);
    return *more ? tmk_feed_resume(p->run.feed, diag) : TMK_OK;
}

static enum tmk_status run_segments(struct profiling *p, struct tmk_exec *exec,
                                    struct tmk_diag *diag) {
    const struct tmk_batch_source feed = tmk_feed_batch_source(p->run.feed);
    bool more = true;
    while (more) {
        p->segment_began = tmk_running_now();
        TMK_TRY(tmk_in(diag, tmk_exec_segment(exec, &feed, &p->run.result, diag), "%s",
                       p->model->path));
        tmk_running_note(&p->run, tmk_running_now() - p->segment_began);
        TMK_TRY(between_segments(p, &more, diag));
    }
    return TMK_OK;
}

static enum tmk_status open_meter(struct profiling *p, struct tmk_diag *diag) {
    const struct tmk_run_options *options = p->run.options;
    if (!options->snapshots.take && !(options->snapshots.until_stable > 0))
        return TMK_OK;
    if (p->rank.team || options->shard.count || options->data.strata || options->checkpoint.path)
        return tmk_fail(diag, TMK_ARGUMENT,
                        "snapshots go by all samples in their order: they cannot be taken of %s",
                        p->rank.team           ? "a run that several processes share"
                        : options->shard.count ? "a shard"
                        : options->data.strata ? "strata"
                                               : "a run that may resume from a checkpoint");
    return tmk_meter_create(&p->meter, diag);
}

static enum tmk_status run_profile(struct profiling *p, const struct tmk_observe *observe,
                                   struct tmk_diag *diag) {
    const double begin = tmk_running_now();
    struct tmk_exec *exec;
    if (p->rank.team)
        TMK_TRY(check_ranks(p->run.options, diag));
    TMK_TRY(open_meter(p, diag));
    TMK_TRY(tmk_running_graph(&p->run, p->model, observe, diag));
    TMK_TRY(tmk_running_may_divide(&p->run, diag));
    TMK_TRY(tmk_running_open(&p->run, p->run.graph, diag));
    p->rank.feed = p->run.feed;
    TMK_TRY(begin_hashing(p, diag));
    TMK_TRY(tmk_partials_init(&p->partials, p->run.options, diag));
    TMK_TRY(choose_work(p, diag));
    p->run.report.setup_seconds = tmk_running_now() - begin;
    struct tmk_exec_options options = tmk_running_exec_options(&p->run);
    options.control = (struct tmk_control){control_run, between_steps, p};
    TMK_TRY(tmk_exec_open(&p->run.graph, 1, &options, &exec, diag));
    enum tmk_status status = run_segments(p, exec, diag);
    tmk_exec_close(&exec);
    if (status != TMK_OK || !p->profile) /* rank 0 has it */
        return status;
    remark_on_padding(p);
    TMK_TRY(tmk_profile_validate(p->profile, diag)); /* a checkpoint's, when it is written */
    /* A shard may be without samples, but not a whole run. */
    const struct tmk_profile_ledger *counts = &p->profile->ledger;
    const unsigned long long failed = counts->failed, skipped = counts->skipped;
    if (counts->run || p->run.options->shard.count)
        return TMK_OK;
    if (p->rank.team)
        return tmk_fail(diag, failed ? TMK_FORMAT : TMK_SHAPE,
                        "no sample is left to run: %llu could not be read, %llu fill no batch",
                        failed, skipped);
    return tmk_fail(diag, TMK_FORMAT,
                    "%s: no sample is left to run: %llu could not be read, %llu were passed over",
                    p->model->path, failed, skipped);
}

static void fill_report(struct profiling *p, struct tmk_run_report *report) {
    *report = p->run.report;
    report->meter = p->meter;
    p->meter = NULL;
    if (p->rank.team && p->profile) { /* of all ranks */
        report->samples = p->profile->ledger.run - p->samples_before;
        report->batches = p->profile->ledger.batches - p->batches_before;
    }
}

enum tmk_status tmk_model_profile(struct tmk_model *model, const struct tmk_run_options *options,
                                  const struct tmk_observe *observe, struct tmk_profile **out,
                                  struct tmk_run_report *report, struct tmk_diag *diag) {
    static const struct tmk_observe everything = {0};
    struct profiling p = {
        .run.options = options, .model = model, .observe = observe, .rank.team = options->team};
    tmk_inputs_begin();
    enum tmk_status status = run_profile(&p, observe ? observe : &everything, diag);
    tmk_inputs_end();
    if (status == TMK_OK) {
        if (report)
            fill_report(&p, report);
        *out = p.profile;
        p.profile = NULL;
    }
    tmk_profile_destroy(&p.profile);
    tmk_partials_finish(&p.partials);
    tmk_meter_destroy(&p.meter);
    tmk_profile_destroy(&p.rest.done);
    free(p.received);
    tmk_running_finish(&p.run);
    return status;
}
