/* SPDX-License-Identifier: Apache-2.0 */
/* Batch after batch, and counts of what became of each sample. */
#include "feed/feed.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/memory.h"
#include "base/text.h"
#include "feed/internal.h"

enum { MAX_REPORTED = 3 };

/* ---- what became of samples ---- */

/* A file that is wrong, and not the machine. */
static bool is_bad_sample(const struct tmk_feed *feed, enum tmk_status status) {
    switch (status) {
    case TMK_READ:
    case TMK_FORMAT:
    case TMK_UNSUPPORTED:
    case TMK_SHAPE:
    case TMK_TYPE:
    case TMK_RANGE:
        return feed->batch.separate;
    default:
        return false;
    }
}

/* The message behind the name of the file: a profile holds no directories. */
static const char *reason_in(const char *text, const char *file, enum tmk_status status) {
    const char *at = strstr(text, file);
    const char *colon = at ? strstr(at + strlen(file), ": ") : NULL;
    return colon ? colon + 2 : tmk_status_text(status);
}

/* A copy; a file's name may be any bytes, and what is written down is text. */
static char *as_text(const char *name) {
    char *copy = strdup(name);
    if (copy && !tmk_utf8_valid(copy, strlen(copy)))
        for (char *c = copy; *c; c++)
            if ((unsigned char)*c >= 0x80)
                *c = '?';
    return copy;
}

void tmk_feed_remark(const struct tmk_feed *feed, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    tmk_pass_remark(feed->notices.remark, feed->notices.context, fmt, args);
    va_end(args);
}

static enum tmk_status note_bad(struct tmk_feed *feed, uint64_t sample, enum tmk_status status,
                                const char *text, struct tmk_diag *diag) {
    struct tmk_sample_counts *counts = feed->tally.current;
    const struct feed_bound *bound = &feed->bound[feed->batch.failing];
    const char *file =
        tmk_source_entry_name(feed->sources[bound->source], sample * feed_step(feed, bound));
    counts->failed++;
    if (feed->tally.passed_over++ < MAX_REPORTED)
        tmk_feed_remark(feed, "sample %llu is passed over: %s", (unsigned long long)sample, text);
    if (counts->n_bad == TMK_FEED_MAX_BAD)
        return TMK_OK;
    TMK_TRY_ALLOC(TMK_GROW(counts->bad, counts->n_bad, counts->bad_size), diag);
    if (!*file)
        file = feed_info(feed, bound)->label;
    struct tmk_bad_sample is = {sample, as_text(file), as_text(reason_in(text, file, status))};
    counts->bad[counts->n_bad++] = is;
    return is.file && is.why ? TMK_OK : tmk_nomem(diag);
}

/* The samples before `at` are dealt with. */
static void move_to(struct tmk_feed *feed, uint64_t at) {
    feed->batch.at = at;
    tmk_feed_cover(feed, at);
}

/* Of all strata, the counts and the first sample that failed. */
static struct tmk_sample_counts sum_of(const struct tmk_feed *feed) {
    struct tmk_sample_counts sum = {0};
    for (uint32_t i = 0; i < feed->tally.n; i++) {
        const struct tmk_sample_counts *counts = &feed->tally.counts[i];
        sum.run += counts->run;
        sum.skipped += counts->skipped;
        sum.failed += counts->failed;
        if (counts->n_bad && (!sum.n_bad || counts->bad[0].sample < sum.bad[0].sample)) {
            sum.bad = counts->bad;
            sum.n_bad = 1;
        }
    }
    return sum;
}

static void end_sources(struct tmk_feed *feed) {
    for (uint32_t i = 0; i < feed->n_sources; i++)
        tmk_source_end(feed->sources[i]);
}

static enum tmk_status close_counts(struct tmk_feed *feed, struct tmk_diag *diag) {
    const struct tmk_sample_counts sum = sum_of(feed), *counts = &sum;
    if (feed->samples != TMK_SOURCE_ENDLESS && feed->choice.limit == UINT64_MAX)
        TMK_TRY(tmk_feed_has_sample(feed, feed->samples, diag));
    end_sources(feed);
    if (feed->tally.passed_over)
        tmk_feed_remark(feed, "%llu samples could not be read and were passed over",
                        (unsigned long long)feed->tally.passed_over);
    if (feed->range.work.next || feed->tally.resumed) /* a range may be without samples */
        return TMK_OK;
    if (!counts->run && counts->n_bad)
        return tmk_fail(diag, TMK_FORMAT,
                        "no sample is left to run: %llu could not be read; the first of them: "
                        "%s: %s",
                        (unsigned long long)counts->failed, counts->bad[0].file,
                        counts->bad[0].why);
    if (!counts->run && !counts->skipped && !feed->choice.skip)
        return tmk_fail(diag, TMK_SHAPE, "the data holds no sample");
    if (!counts->run && !counts->skipped)
        return tmk_fail(diag, TMK_SHAPE, "the data ends before sample %llu",
                        (unsigned long long)feed->choice.skip);
    if (!counts->run)
        return tmk_fail(diag, TMK_SHAPE,
                        "no sample is left to run: %llu were passed over, since they fill no batch "
                        "of %llu",
                        (unsigned long long)counts->skipped, (unsigned long long)feed->plan.batch);
    return TMK_OK;
}

/* ---- batches ---- */

/* Reads what comes next of the batch at hand; *out has no samples when nothing came of it. */
static enum tmk_status read_on(struct tmk_feed *feed, struct tmk_batch *out, bool *ended,
                               struct tmk_diag *diag) {
    struct tmk_diag why = {0};
    struct tmk_batch batch = {0};
    uint64_t at = feed->batch.at;
    enum tmk_status status = tmk_feed_read(feed, at, feed->batch.until - at, &batch, &why);
    const bool bad = is_bad_sample(feed, status);
    if (bad && feed->data->skip_bad) {
        TMK_TRY(note_bad(feed, at, status, why.text, diag));
        move_to(feed, at + 1);
        return TMK_OK;
    }
    if (status != TMK_OK)
        return tmk_fail(diag, status, "sample %llu: %s%s", (unsigned long long)at, why.text,
                        bad ? "; --on-bad-sample=skip leaves it out" : "");
    if (feed->samples == TMK_SOURCE_ENDLESS && batch.samples) {
        status = tmk_feed_enter(feed, at, at + batch.samples, diag);
        if (status != TMK_OK) {
            tmk_batch_finish(&batch);
            return status;
        }
    }
    *ended = !batch.samples;
    batch.group = feed->tally.stratum;
    if (!batch.samples || (!feed->plan.free && batch.samples < feed->plan.batch)) {
        feed->tally.current->skipped += batch.samples;
        if (batch.samples)
            move_to(feed, at + batch.samples);
        tmk_batch_finish(&batch);
        return TMK_OK;
    }
    feed->tally.current->run += batch.samples;
    move_to(feed, at + batch.samples);
    feed->recurrence.ran_to = feed->batch.at;
    *out = batch;
    return TMK_OK;
}

/* The next batch of the ranges becomes the current one; *ended when there is none. */
static enum tmk_status next_batch(struct tmk_feed *feed, bool *ended, struct tmk_diag *diag) {
    uint64_t from, until;
    for (;;) {
        if (!feed->range.active)
            TMK_TRY(tmk_feed_next_range(feed, diag));
        *ended = !feed->range.active;
        if (*ended)
            return TMK_OK;
        if (tmk_feed_choice_batch(&feed->choice, feed->range.next_batch, &from, &until) &&
            from < feed->range.end)
            break;
        tmk_feed_end_range(feed);
    }
    feed->range.next_batch++;
    feed->batch.at = from;
    feed->batch.until = until;
    if (feed->samples != TMK_SOURCE_ENDLESS)
        TMK_TRY(tmk_feed_enter(feed, from, until, diag));
    if (!feed->plan.free && until - from < feed->plan.batch &&
        feed->samples != TMK_SOURCE_ENDLESS) {
        feed->tally.current->skipped += until - from;
        move_to(feed, until);
    }
    return TMK_OK;
}

static enum tmk_status load_batch(void *context, struct tmk_batch *out, bool *more,
                                  struct tmk_diag *diag) {
    struct tmk_feed *feed = context;
    bool ended = false;
    if (tmk_feed_is_between(feed))
        TMK_TRY(next_batch(feed, &ended, diag));
    if (!ended && !tmk_feed_is_between(feed))
        TMK_TRY(read_on(feed, out, &ended, diag));
    *more = !ended;
    return ended ? close_counts(feed, diag) : TMK_OK;
}

/* ---- outside ---- */

static enum tmk_status open_counts(struct tmk_feed *feed, struct tmk_diag *diag) {
    const struct tmk_strata *strata = feed->data->strata;
    feed->tally.n = strata ? tmk_strata_count(strata) : 1;
    feed->tally.counts = feed->tally.current = calloc(feed->tally.n, sizeof *feed->tally.counts);
    return feed->tally.counts ? TMK_OK : tmk_nomem(diag);
}

enum tmk_status tmk_feed_open(const struct tmk_graph *graph, const struct tmk_data_options *data,
                              uint32_t threads, const struct tmk_notices *notices,
                              struct tmk_feed **out, struct tmk_diag *diag) {
    struct tmk_feed *feed = calloc(1, sizeof *feed);
    TMK_TRY_ALLOC(feed, diag);
    feed->graph = graph;
    feed->data = data;
    feed->threads = threads;
    feed->notices = *notices;
    feed->batch_size = data->batch ? data->batch : 1;
    enum tmk_status status = tmk_feed_check_dims(feed, diag);
    TMK_THEN(status, tmk_feed_find_recurrence(feed, diag));
    TMK_THEN(status, tmk_feed_bind(feed, diag));
    TMK_THEN(status, tmk_feed_cut(feed, diag));
    TMK_THEN(status, tmk_feed_check_strata(feed, diag));
    TMK_THEN(status, open_counts(feed, diag));
    if (status == TMK_OK) {
        feed->orders = calloc(2 * (size_t)graph->n_inputs + 1, sizeof *feed->orders);
        status = feed->orders ? TMK_OK : tmk_nomem(diag);
    }
    if (status == TMK_OK)
        *out = feed;
    else
        tmk_feed_close(&feed);
    return status;
}

enum tmk_status tmk_feed_set_batch(struct tmk_feed *feed, uint32_t batch, struct tmk_diag *diag) {
    feed->batch_size = batch;
    return tmk_feed_cut(feed, diag);
}

static void clear_counts(struct tmk_feed *feed) {
    for (uint32_t i = 0; feed->tally.counts && i < feed->tally.n; i++) {
        struct tmk_sample_counts *counts = &feed->tally.counts[i];
        for (size_t k = 0; k < counts->n_bad; k++) {
            free(counts->bad[k].file);
            free(counts->bad[k].why);
        }
        free(counts->bad);
        free(counts->ranges);
        *counts = (struct tmk_sample_counts){0};
    }
}

void tmk_feed_close(struct tmk_feed **slot) {
    struct tmk_feed *feed = slot ? *slot : NULL;
    if (!feed)
        return;
    *slot = NULL;
    tmk_feed_hash_end(feed);
    for (uint32_t i = 0; i < feed->n_sources; i++)
        tmk_source_close(&feed->sources[i]);
    for (uint32_t i = 0; feed->bound && i < feed->graph->n_inputs; i++) {
        tmk_tensor_finish(&feed->bound[i].kept);
        tmk_tensor_finish(&feed->bound[i].state);
    }
    clear_counts(feed);
    free(feed->tally.counts);
    free(feed->orders);
    free(feed->sources);
    free(feed->bound);
    free(feed->recurrence.loops);
    free(feed->decoding.loops);
    free(feed->decoding.role);
    free(feed);
}

struct tmk_batch_source tmk_feed_batch_source(struct tmk_feed *feed) {
    return (struct tmk_batch_source){load_batch, feed};
}

bool tmk_feed_is_between(const struct tmk_feed *feed) {
    return feed->batch.at == feed->batch.until;
}

bool tmk_feed_can_pause(const struct tmk_feed *feed) {
    return tmk_feed_is_between(feed) &&
           !(feed->range.active && tmk_feed_continues_sequence(feed, feed->batch.at));
}

enum tmk_status tmk_feed_resume(struct tmk_feed *feed, struct tmk_diag *diag) {
    const uint64_t at = tmk_feed_reached(feed);
    feed->tally.resumed = true;
    clear_counts(feed);
    return feed->range.active ? tmk_feed_open_range(feed, at, diag) : TMK_OK;
}

void tmk_feed_end(struct tmk_feed *feed, uint64_t offered) {
    feed->range.active = false;
    feed->choice.limit = feed->cuts.limit = offered;
    end_sources(feed);
}

struct tmk_feed_plan tmk_feed_plan(const struct tmk_feed *feed) {
    return feed->plan;
}

bool tmk_feed_sample(const struct tmk_feed *feed, uint32_t input, struct tmk_tensor *out) {
    if (!feed->bound[input].taken)
        return false;
    const struct tmk_source_array *array = feed_array(feed, &feed->bound[input]);
    const struct tmk_type *type = &feed->graph->inputs[input]->type;
    struct tmk_shape shape = array->shape;
    if (feed->bound[input].cut != CUT_SLICES || array->dtype == TMK_UNDEFINED)
        return false;
    shape.dim[0] = 1;
    for (int32_t k = 1; k < shape.rank; k++) {
        if (shape.dim[k] < 0 && type->has_shape) /* of images, until one is read */
            shape.dim[k] = type->shape.dim[k];
        if (shape.dim[k] < 0)
            return false;
    }
    tmk_tensor_borrow(out, array->dtype, &shape, NULL);
    return true;
}

const struct tmk_sample_counts *tmk_feed_counts(const struct tmk_feed *feed, uint32_t stratum) {
    return &feed->tally.counts[stratum];
}

uint32_t tmk_feed_strata(const struct tmk_feed *feed) {
    return feed->tally.n;
}

bool tmk_feed_has_begun(const struct tmk_feed *feed) {
    const struct tmk_sample_counts sum = sum_of(feed);
    return sum.run + sum.skipped + sum.failed > 0;
}

uint64_t tmk_feed_reached(const struct tmk_feed *feed) {
    const struct tmk_sample_counts *counts = feed->tally.current; /* others end before it */
    return counts->n_ranges ? counts->ranges[counts->n_ranges - 1].end : 0;
}

const struct tmk_source_info *tmk_feed_source(const struct tmk_feed *feed, uint32_t input) {
    const struct feed_bound *bound = &feed->bound[input];
    return bound->taken ? feed_info(feed, bound) : NULL;
}

uint64_t tmk_feed_entries(const struct tmk_feed *feed, uint32_t input) {
    return feed_array(feed, &feed->bound[input])->n_entries;
}
