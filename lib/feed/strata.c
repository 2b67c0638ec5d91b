/* SPDX-License-Identifier: Apache-2.0 */
/* Which stratum the samples at hand are of, and so where they are counted. */
#include <inttypes.h>

#include "base/diag.h"
#include "data/strata.h"
#include "feed/internal.h"

static const struct tmk_strata *labels_of(const struct tmk_feed *feed) {
    return feed->data->strata;
}

/* *stratum: that of the samples before, and then of [from, until); `continues_sequence`: these go
 * on with a sequence of those. */
static enum tmk_status move_on(const struct tmk_strata *labels, uint64_t from, uint64_t until,
                               bool continues_sequence, uint32_t *stratum, struct tmk_diag *diag) {
    const uint32_t before = *stratum;
    TMK_TRY(tmk_strata_of(labels, from, until, stratum, diag));
    if (continues_sequence && *stratum != before)
        return tmk_fail(diag, TMK_MISMATCH,
                        "%s: sample %" PRIu64 " is '%s', but continues a sequence that is '%s'; "
                        "a sequence is of one stratum",
                        tmk_strata_path(labels), from, tmk_strata_label(labels, *stratum),
                        tmk_strata_label(labels, before));
    return TMK_OK;
}

enum tmk_status tmk_feed_check_strata(const struct tmk_feed *feed, struct tmk_diag *diag) {
    const struct tmk_strata *labels = labels_of(feed);
    uint64_t from, until;
    uint32_t stratum = 0;
    if (!labels || feed->samples == TMK_SOURCE_ENDLESS)
        return TMK_OK;
    if (tmk_strata_end(labels) > feed->samples)
        return tmk_fail(diag, TMK_MISMATCH,
                        "%s: sample %" PRIu64 " has a label, but the data holds %" PRIu64
                        " samples; they count from 0",
                        tmk_strata_path(labels), tmk_strata_end(labels) - 1, feed->samples);
    for (uint64_t i = 0; tmk_feed_choice_batch(&feed->choice, i, &from, &until); i++)
        TMK_TRY(move_on(labels, from, until,
                        i && feed->recurrence.n && from % feed->recurrence.sequence, &stratum,
                        diag));
    return TMK_OK;
}

static enum tmk_status enter_stratum(struct tmk_feed *feed, uint32_t stratum, uint64_t begin,
                                     struct tmk_diag *diag) {
    feed->tally.stratum = stratum;
    feed->tally.current = &feed->tally.counts[stratum];
    return tmk_feed_open_range(feed, begin, diag);
}

enum tmk_status tmk_feed_enter(struct tmk_feed *feed, uint64_t from, uint64_t until,
                               struct tmk_diag *diag) {
    const struct tmk_strata *labels = labels_of(feed);
    uint32_t stratum = feed->tally.stratum;
    if (!labels)
        return TMK_OK;
    TMK_TRY(move_on(labels, from, until, tmk_feed_continues_sequence(feed, from), &stratum, diag));
    if (feed->tally.current->counts.n_ranges)
        tmk_feed_cover(feed, from);
    return enter_stratum(feed, stratum, from, diag);
}

enum tmk_status tmk_feed_enter_range(struct tmk_feed *feed, uint64_t begin, struct tmk_diag *diag) {
    const struct tmk_strata *labels = labels_of(feed);
    uint64_t batch = feed->range.next_batch, from, until;
    uint32_t stratum;
    if (!labels)
        return tmk_feed_open_range(feed, begin, diag);
    if (feed->samples == TMK_SOURCE_ENDLESS)
        return TMK_OK; /* what comes is seen when it is there */
    if (batch && (!tmk_feed_choice_batch(&feed->choice, batch, &from, &until) || from > begin))
        batch--;
    if (!tmk_feed_choice_batch(&feed->choice, batch, &from, &until))
        return tmk_fail(diag, TMK_ARGUMENT, "no batch begins at sample %" PRIu64 " or before it",
                        begin);
    TMK_TRY(tmk_strata_of(labels, from, until, &stratum, diag));
    return enter_stratum(feed, stratum, begin, diag);
}

enum tmk_status tmk_feed_is_of(const struct tmk_feed *feed, uint64_t begin, uint64_t end,
                               uint32_t stratum, struct tmk_diag *diag) {
    const struct tmk_strata *labels = labels_of(feed);
    uint64_t from, until;
    uint32_t is;
    for (uint64_t i = tmk_feed_choice_from(&feed->choice, begin);
         labels && tmk_feed_choice_batch(&feed->choice, i, &from, &until) && from < end; i++) {
        TMK_TRY(tmk_strata_of(labels, from, until, &is, diag));
        if (is != stratum)
            return tmk_fail(diag, TMK_MISMATCH, "sample %" PRIu64 " is '%s' there and '%s' in %s",
                            from, tmk_strata_label(labels, stratum), tmk_strata_label(labels, is),
                            tmk_strata_path(labels));
    }
    return TMK_OK;
}
