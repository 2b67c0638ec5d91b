/* SPDX-License-Identifier: Apache-2.0 */
/* The ranges of the data that run, one after the other, and what of them is dealt with. */
#include "feed/feed.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/memory.h"
#include "data/strata.h"
#include "feed/internal.h"

/* Which stratum the samples at hand are of, and so where they are counted. */

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
    const struct tmk_strata *labels = feed->data->strata;
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
    const struct tmk_strata *labels = feed->data->strata;
    uint32_t stratum = feed->tally.stratum;
    if (!labels)
        return TMK_OK;
    TMK_TRY(move_on(labels, from, until, tmk_feed_continues_sequence(feed, from), &stratum, diag));
    if (feed->tally.current->n_ranges)
        tmk_feed_cover(feed, from);
    return enter_stratum(feed, stratum, from, diag);
}

/* The same at the beginning of a range: that may be behind the batch that what is passed over there
 * comes after. */
static enum tmk_status feed_enter_range(struct tmk_feed *feed, uint64_t begin,
                                        struct tmk_diag *diag) {
    const struct tmk_strata *labels = feed->data->strata;
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
    const struct tmk_strata *labels = feed->data->strata;
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

/* The batch at `skip` may be a part of one; later ones are whole, but for the last. */
static uint64_t offered_before(const struct feed_choice *choice, uint64_t i) {
    uint64_t in_first = choice->batch - choice->skip % choice->batch, whole, sum;
    if (i == 0)
        return 0;
    if (__builtin_mul_overflow(i - 1, choice->batch, &whole) ||
        __builtin_add_overflow(in_first, whole, &sum))
        return UINT64_MAX;
    return sum;
}

bool tmk_feed_choice_batch(const struct feed_choice *choice, uint64_t i, uint64_t *from,
                           uint64_t *until) {
    uint64_t number, begin, before = offered_before(choice, i);
    if (before >= choice->limit || __builtin_mul_overflow(i, choice->every, &number) ||
        __builtin_add_overflow(number, choice->skip / choice->batch, &number) ||
        __builtin_mul_overflow(number, choice->batch, &begin))
        return false;
    uint64_t end = UINT64_MAX - begin < choice->batch ? UINT64_MAX : begin + choice->batch;
    if (begin < choice->skip)
        begin = choice->skip;
    if (end > choice->end)
        end = choice->end;
    if (begin >= end)
        return false;
    if (end - begin > choice->limit - before)
        end = begin + (choice->limit - before);
    *from = begin;
    *until = end;
    return true;
}

static void add_range(const struct feed_choice *choice, uint64_t i, struct feed_total *total) {
    uint64_t from, until;
    if (!tmk_feed_choice_batch(choice, i, &from, &until))
        return;
    total->samples += until - from;
    if (until - from == choice->batch)
        total->in_full_batches += choice->batch;
}

uint64_t tmk_feed_choice_batches(const struct feed_choice *choice) {
    uint64_t batches = 0, high = choice->end, from, until;
    while (batches < high) {
        uint64_t middle = batches + (high - batches) / 2;
        if (tmk_feed_choice_batch(choice, middle, &from, &until))
            batches = middle + 1;
        else
            high = middle;
    }
    return batches;
}

uint64_t tmk_feed_choice_from(const struct feed_choice *choice, uint64_t sample) {
    if (sample <= choice->skip)
        return 0;
    uint64_t number = sample / choice->batch + (sample % choice->batch != 0);
    uint64_t after = number - choice->skip / choice->batch;
    return after / choice->every + (after % choice->every != 0);
}

struct feed_total tmk_feed_choice_total(const struct feed_choice *choice) {
    struct feed_total total = {0};
    uint64_t batches = tmk_feed_choice_batches(choice);
    add_range(choice, 0, &total);
    if (batches > 1)
        add_range(choice, batches - 1, &total);
    if (batches > 2) { /* those between are whole */
        total.samples += (batches - 2) * choice->batch;
        total.in_full_batches += (batches - 2) * choice->batch;
    }
    return total;
}

/* ---- where a range may be cut ---- */

uint64_t tmk_feed_batches(const struct tmk_feed *feed) {
    return feed->samples == TMK_SOURCE_ENDLESS ? 0 : tmk_feed_choice_batches(&feed->cuts);
}

uint64_t tmk_feed_begin(const struct tmk_feed *feed, uint64_t batch) {
    uint64_t from = 0, until = 0, n = tmk_feed_batches(feed);
    if (batch < n && tmk_feed_choice_batch(&feed->cuts, batch, &from, &until))
        return from;
    return n && tmk_feed_choice_batch(&feed->cuts, n - 1, &from, &until) ? until : 0;
}

uint64_t tmk_feed_batch_from(const struct tmk_feed *feed, uint64_t sample) {
    uint64_t n = tmk_feed_batches(feed), from = tmk_feed_choice_from(&feed->cuts, sample);
    return from < n ? from : n;
}

uint64_t tmk_feed_share(const struct tmk_feed *feed, uint64_t begin, uint64_t end) {
    uint64_t all = tmk_feed_choice_batches(&feed->choice), from, until, last;
    uint64_t i = tmk_feed_choice_from(&feed->choice, begin);
    uint64_t k = tmk_feed_choice_from(&feed->choice, end);
    if (k > all)
        k = all;
    if (i >= k || !tmk_feed_choice_batch(&feed->choice, i, &from, &until) ||
        !tmk_feed_choice_batch(&feed->choice, k - 1, &last, &until))
        return 0;
    struct feed_choice part = feed->choice; /* the same batches, numbered from the part's first */
    part.skip = from;
    part.end = until;
    part.limit = UINT64_MAX;
    struct feed_total total = tmk_feed_choice_total(&part);
    return feed->plan.free ? total.samples : total.in_full_batches;
}

static bool is_boundary(const struct tmk_feed *feed, uint64_t sample) {
    return sample % feed->cuts.batch == 0 || sample == feed->choice.skip ||
           sample == tmk_feed_begin(feed, UINT64_MAX);
}

/* ---- reading ahead ---- */

static bool next_entry(void *context, uint64_t *entry) {
    struct feed_order *order = context;
    const struct tmk_feed *feed = order->feed;
    while (order->at == order->until) {
        uint64_t from, until;
        if (!tmk_feed_choice_batch(&order->choice, order->batch++, &from, &until) ||
            from >= order->end)
            return false;
        if (!feed->plan.free && until - from < feed->plan.batch)
            continue;
        order->at = from * order->step;
        order->until = until * order->step;
    }
    *entry = order->at++;
    return true;
}

/* ---- range after range ---- */

enum tmk_status tmk_feed_set_ranges(struct tmk_feed *feed, const struct tmk_work_ranges *work,
                                    struct tmk_diag *diag) {
    for (uint32_t i = 0; i < feed->graph->n_inputs; i++)
        if (!feed->bound[i].fed_back &&
            feed_array(feed, &feed->bound[i])->n_entries == TMK_SOURCE_ENDLESS)
            return tmk_fail(diag, TMK_ARGUMENT,
                            "%s: a stream can only be read whole, once; --shard and --checkpoint "
                            "need data in files",
                            feed_path(feed, &feed->bound[i]));
    feed->range.work = *work;
    return TMK_OK;
}

static enum tmk_status fetch_range(struct tmk_feed *feed, uint64_t *begin, uint64_t *end,
                                   bool *more, struct tmk_diag *diag) {
    uint64_t before = feed->range.n ? feed->range.end : feed->choice.skip;
    if (!feed->range.work.next) {
        *more = !feed->range.n;
        *begin = feed->choice.skip;
        *end = feed->samples == TMK_SOURCE_ENDLESS ? UINT64_MAX : tmk_feed_begin(feed, UINT64_MAX);
        return TMK_OK;
    }
    TMK_TRY(feed->range.work.next(feed->range.work.context, begin, end, more, diag));
    if (*more && (*begin < before || *begin >= *end || !is_boundary(feed, *begin) ||
                  !is_boundary(feed, *end) || *end > tmk_feed_begin(feed, UINT64_MAX)))
        return tmk_fail(diag, TMK_ARGUMENT,
                        "samples %llu to %llu are no part of the run that begins and ends with a "
                        "batch, or are out of order",
                        (unsigned long long)*begin, (unsigned long long)*end);
    return TMK_OK;
}

enum tmk_status tmk_feed_open_range(struct tmk_feed *feed, uint64_t begin, struct tmk_diag *diag) {
    struct tmk_sample_counts *counts = feed->tally.current;
    if (counts->n_ranges && counts->ranges[counts->n_ranges - 1].end == begin)
        return TMK_OK;
    if (counts->n_ranges == UINT32_MAX)
        return tmk_nomem(diag);
    TMK_TRY_ALLOC(TMK_GROW(counts->ranges, counts->n_ranges, counts->ranges_size), diag);
    counts->ranges[counts->n_ranges++] = (struct tmk_profile_range){begin, begin};
    return TMK_OK;
}

enum tmk_status tmk_feed_next_range(struct tmk_feed *feed, struct tmk_diag *diag) {
    uint64_t begin, end;
    TMK_TRY(fetch_range(feed, &begin, &end, &feed->range.active, diag));
    if (!feed->range.active)
        return TMK_OK;
    feed->range.n++;
    feed->range.end = end;
    feed->range.next_batch = tmk_feed_choice_from(&feed->choice, begin);
    TMK_TRY(feed_enter_range(feed, begin, diag));
    /* The order of the range before may be in use until the source has this one. */
    uint32_t n = feed->graph->n_inputs;
    struct feed_order *orders = feed->orders + (feed->range.n % 2 ? n : 0);
    for (uint32_t i = 0; i < n; i++) {
        const struct feed_bound *bound = &feed->bound[i];
        if (bound->fed_back || bound->inner)
            continue;
        struct tmk_source *source = feed->sources[bound->source];
        orders[i] = (struct feed_order){.feed = feed,
                                        .choice = feed->choice,
                                        .step = feed_step(feed, bound),
                                        .batch = feed->range.next_batch,
                                        .end = feed->range.end};
        if (tmk_source_info(source)->n_arrays == 1) {
            struct tmk_source_threads threads = {.wanted = feed->threads};
            TMK_TRY(tmk_source_ahead(source, &(struct tmk_source_order){next_entry, &orders[i]},
                                     &threads, diag));
            const struct tmk_notices *notices = &feed->notices;
            if (threads.missing && !feed->reported.threads && notices->fewer_threads)
                notices->fewer_threads(notices->context, TMK_THREADS_READ, threads.missing,
                                       threads.wanted, strerror(threads.why));
            feed->reported.threads |= threads.missing > 0;
        }
    }
    return TMK_OK;
}

void tmk_feed_cover(struct tmk_feed *feed, uint64_t at) {
    struct tmk_sample_counts *counts = feed->tally.current;
    counts->ranges[counts->n_ranges - 1].end = at;
}

void tmk_feed_pause(struct tmk_feed *feed) {
    uint64_t from, until;
    if (!feed->range.active || !feed->range.work.next) /* no other process resumes from here */
        return;
    /* batches by number are those of the choice; ranges are cut between sequences */
    bool more = tmk_feed_choice_batch(&feed->choice, feed->range.next_batch, &from, &until);
    tmk_feed_cover(feed, more && from < feed->range.end ? from : feed->range.end);
}

void tmk_feed_end_range(struct tmk_feed *feed) {
    feed->range.active = false;
    if (feed->samples != TMK_SOURCE_ENDLESS)
        tmk_feed_cover(feed, feed->range.end);
}

/* a * b / c without overflow where b <= c. */
static uint64_t mul_div(uint64_t a, uint64_t b, uint64_t c) {
    return a / c * b + a % c * b / c;
}

enum tmk_status tmk_shard_of(const struct tmk_feed *feed, uint32_t shard, uint32_t shards,
                             struct tmk_shard *out, struct tmk_diag *diag) {
    if (!shard || shard > shards)
        return tmk_fail(diag, TMK_ARGUMENT, "there is no shard %u of %u; they are counted from 1",
                        shard, shards);
    uint64_t batches = tmk_feed_batches(feed);
    *out = (struct tmk_shard){.begin = tmk_feed_begin(feed, mul_div(batches, shard - 1, shards)),
                              .end = tmk_feed_begin(feed, mul_div(batches, shard, shards))};
    return TMK_OK;
}

static enum tmk_status next_range(void *context, uint64_t *begin, uint64_t *end, bool *more,
                                  struct tmk_diag *diag) {
    (void)diag;
    struct tmk_shard *shard = context;
    *more = !shard->given && shard->begin < shard->end;
    *begin = shard->begin;
    *end = shard->end;
    shard->given = true;
    return TMK_OK;
}

struct tmk_work_ranges tmk_shard_ranges(struct tmk_shard *shard) {
    return (struct tmk_work_ranges){next_range, shard};
}

static enum tmk_status next_of_rest(void *context, uint64_t *begin, uint64_t *end, bool *more,
                                    struct tmk_diag *diag) {
    struct tmk_rest *rest = context;
    for (;;) {
        if (rest->begin == rest->end) {
            TMK_TRY(rest->all.next(rest->all.context, &rest->begin, &rest->end, more, diag));
            if (!*more) {
                rest->begin = rest->end;
                return TMK_OK;
            }
        }
        struct tmk_profile_range done; /* the first that ends behind rest->begin */
        bool some;
        for (uint32_t i = 0; (some = tmk_profile_range(rest->done, i, &done)); i++)
            if (done.end > rest->begin)
                break;
        if (some && done.begin <= rest->begin) {
            rest->begin = done.end < rest->end ? done.end : rest->end;
            continue;
        }
        *more = true;
        *begin = rest->begin;
        *end = some && done.begin < rest->end ? done.begin : rest->end;
        rest->begin = *end;
        return TMK_OK;
    }
}

struct tmk_work_ranges tmk_rest_ranges(struct tmk_rest *rest) {
    return (struct tmk_work_ranges){next_of_rest, rest};
}
