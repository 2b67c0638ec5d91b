/* SPDX-License-Identifier: Apache-2.0 */
/* A made-up run by a team, for test_team.py:
 *     team_tool OUT.json SAMPLES SLOW-RANK FAILING-RANK WHEN
 * where -1 is no rank, and WHEN is start, run, gather, end, or other: that rank then fails there,
 * or has other work than the rest. At the end each rank prints what it did. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/diag.h"
#include "dist/team.h"

enum { BATCH = 3, WIDTH = 5 };

struct plan {
    const char *out, *when;
    uint64_t samples;
    long slow, failing;
};

struct run {
    const struct plan *plan;
    struct tmk_team *team;
    struct tmk_profile *profile;
    struct tmk_profile_range ranges[4096];
    uint32_t n_ranges;
};

static enum tmk_status maybe_fail(const struct run *run, const char *when, struct tmk_diag *diag) {
    if (run->plan->failing == (long)tmk_team_rank(run->team) && strcmp(run->plan->when, when) == 0)
        return tmk_fail(diag, TMK_FORMAT, "made to fail at '%s'", when);
    return TMK_OK;
}

static enum tmk_status look(struct tmk_profile_tensor *t, uint64_t sample, uint64_t samples,
                            struct tmk_diag *diag) {
    float x[BATCH * WIDTH];
    const struct tmk_shape shape = {2, {(int64_t)samples, WIDTH}};
    const struct tmk_stats_at at = {sample, samples, 1, false, 0};
    for (uint64_t i = 0; i < samples * WIDTH; i++)
        x[i] = (float)((sample * WIDTH + i) * UINT64_C(2654435761) % 1000003) / 1000.0f - 400;
    if (!t->stats)
        TMK_TRY(tmk_stats_create(TMK_STATS_HISTOGRAM, &t->stats, diag));
    t->dtype = t->origin = TMK_FLOAT32;
    TMK_TRY(tmk_stats_update(t->stats, x, &shape, &at, diag));
    TMK_TRY(tmk_profile_add_runs(t, &shape, 1, diag));
    t->status = tmk_profile_status_of(t);
    return TMK_OK;
}

static enum tmk_status run_range(struct run *run, uint64_t begin, uint64_t end,
                                 struct tmk_diag *diag) {
    struct tmk_profile_ledger *ledger = &run->profile->ledger;
    if (run->n_ranges == sizeof run->ranges / sizeof *run->ranges)
        return tmk_fail(diag, TMK_RANGE, "too many ranges");
    run->ranges[run->n_ranges++] = (struct tmk_profile_range){begin, end};
    for (uint64_t at = begin; at < end; at += BATCH, ledger->batches++) {
        uint64_t samples = end - at < BATCH ? end - at : BATCH;
        bool pause, slow = run->plan->slow == (long)tmk_team_rank(run->team);
        nanosleep(&(struct timespec){0, slow ? 20000000 : 1000000}, NULL);
        if (run->team)
            TMK_TRY(tmk_team_poll(run->team, TMK_REQUEST_NONE, &pause, diag));
        TMK_TRY(maybe_fail(run, "run", diag));
        TMK_TRY(look(&run->profile->tensors[0], at, samples, diag));
        ledger->run += samples;
        ledger->offered += samples;
    }
    return TMK_OK;
}

static enum tmk_status describe(struct run *run, struct tmk_diag *diag) {
    struct tmk_profile_tensor *t;
    TMK_TRY(tmk_profile_create(&run->profile, diag));
    run->profile->producer.name = "team_tool";
    run->profile->coverage.total = run->plan->samples;
    TMK_TRY(tmk_profile_add_setting(run->profile, "batch", "3", diag));
    TMK_TRY(tmk_profile_add_tensor(run->profile, 0, &t, diag));
    t->name = "x";
    t->kind = TMK_PROFILE_INPUT;
    return TMK_OK;
}

static enum tmk_status work(struct run *run, struct tmk_diag *diag) {
    const uint64_t samples = run->plan->samples;
    struct tmk_work mine = {(samples + BATCH - 1) / BATCH, samples, 0};
    enum tmk_round round = TMK_ROUND_FINISHED;
    uint64_t begin = 0, end = 0;
    bool more = run->team != NULL;
    TMK_TRY(maybe_fail(run, "start", diag));
    TMK_TRY(describe(run, diag));
    if (maybe_fail(run, "other", NULL) != TMK_OK)
        mine.end--;
    if (!run->team)
        TMK_TRY(run_range(run, 0, samples, diag));
    else
        TMK_TRY(tmk_team_offer(run->team, &mine, NULL, 0, diag));
    while (more) {
        TMK_TRY(tmk_team_take(run->team, &begin, &end, &more, diag));
        if (more)
            TMK_TRY(
                run_range(run, begin * BATCH, end * BATCH < samples ? end * BATCH : samples, diag));
    }
    TMK_TRY(tmk_profile_set_ranges(run->profile, run->ranges, run->n_ranges, diag));
    TMK_TRY(maybe_fail(run, "gather", diag));
    fprintf(stderr, "did %llu samples in %u ranges\n", (unsigned long long)run->profile->ledger.run,
            run->n_ranges);
    if (run->team)
        TMK_TRY(tmk_team_gather(run->team, &run->profile, &round, diag));
    TMK_TRY(maybe_fail(run, "end", diag));
    return run->profile ? tmk_profile_write(run->profile, run->plan->out, diag) : TMK_OK;
}

int main(int argc, char **argv) {
    static struct run run;
    struct tmk_diag diag = {0};
    if (argc != 6)
        return 2;
    const struct plan plan = {argv[1], argv[5], strtoull(argv[2], NULL, 10),
                              strtol(argv[3], NULL, 10), strtol(argv[4], NULL, 10)};
    run.plan = &plan;
    enum tmk_status status = tmk_team_join(&run.team, &diag);
    uint32_t rank = tmk_team_rank(run.team);
    if (status == TMK_OK)
        status = work(&run, &diag);
    status = tmk_team_leave(&run.team, status, &diag);
    tmk_profile_destroy(&run.profile);
    if (status != TMK_OK && rank == 0)
        fprintf(stderr, "tool: %s\n", diag.text);
    return rank == 0 ? (int)status : 0;
}
