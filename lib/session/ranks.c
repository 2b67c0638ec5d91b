/* SPDX-License-Identifier: Apache-2.0 */
#include "session/ranks.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "dist/team.h"

static bool is_stream(const char *data) {
    const char *equals = strrchr(data, '=');
    return strcmp(data, "-") == 0 || (equals && strcmp(equals, "=-") == 0);
}

enum tmk_status tmk_ranks_check(const struct tmk_run_options *options, struct tmk_diag *diag) {
    for (size_t i = 0; i < options->data.n_sources; i++)
        if (is_stream(options->data.sources[i]))
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
    const struct tmk_rank *rank = context;
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
    if (!batches)
        return tmk_nomem(diag);
    for (uint32_t i = 0; i < ranges; i++) {
        (void)tmk_profile_range(profile, i, &range);
        batches[i] = (struct tmk_batches){tmk_feed_batch_from(feed, range.begin),
                                          tmk_feed_batch_from(feed, range.end)};
    }
    *out = batches;
    *n = ranges;
    return TMK_OK;
}

enum tmk_status tmk_ranks_share(struct tmk_rank *rank, const struct tmk_profile *before,
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
