/* SPDX-License-Identifier: Apache-2.0 */
/* Batch after batch, and the books on what became of each sample. */
#include "session/feed.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/grow.h"
#include "base/text.h"
#include "base/utf8.h"
#include "session/feed_parts.h"

enum { TOLD_OF_BAD = 3 };

/* ---- the books ---- */

/* A file that is wrong, and not the machine. */
static bool is_bad_sample(const struct tmk_session_feed *feed, enum tmk_status status) {
    switch (status) {
    case TMK_READ:
    case TMK_FORMAT:
    case TMK_UNSUPPORTED:
    case TMK_SHAPE:
    case TMK_TYPE:
    case TMK_RANGE:
        return feed->separate;
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

static void TMK_PRINTF(2, 3) tell(const struct tmk_session_feed *feed, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    tmk_pass_remark(feed->options->remark, feed->options->context, fmt, args);
    va_end(args);
}

static enum tmk_status note_bad(struct tmk_session_feed *feed, uint64_t sample,
                                enum tmk_status status, const char *text, struct tmk_diag *diag) {
    struct tmk_feed_ledger *ledger = &feed->book->ledger;
    const struct feed_bound *bound = &feed->bound[feed->failing];
    const struct tmk_source *source = feed->sources[bound->source];
    const char *file =
        tmk_source_entry_name(source, sample * (feed->plan.slices ? 1 : bound->step));
    ledger->failed++;
    if (feed->passed_over++ < TOLD_OF_BAD)
        tell(feed, "sample %llu is passed over: %s", (unsigned long long)sample, text);
    if (ledger->n_bad == TMK_FEED_MOST_BAD)
        return TMK_OK;
    struct tmk_bad_sample *bad =
        tmk_grown(ledger->bad, ledger->n_bad, &feed->book->bad_size, sizeof *bad);
    if (!bad)
        return tmk_nomem(diag);
    ledger->bad = bad;
    if (!*file)
        file = tmk_source_info(source)->label;
    struct tmk_bad_sample is = {sample, as_text(file), as_text(reason_in(text, file, status))};
    bad[ledger->n_bad++] = is;
    return is.file && is.why ? TMK_OK : tmk_nomem(diag);
}

/* The samples before `at` are dealt with. */
static void move_to(struct tmk_session_feed *feed, uint64_t at) {
    feed->at = at;
    tmk_feed_cover(feed, at);
}

/* Of all books, the numbers and the first sample that failed. */
static struct tmk_feed_ledger sum_of(const struct tmk_session_feed *feed) {
    struct tmk_feed_ledger sum = {0};
    for (uint32_t i = 0; i < feed->n_books; i++) {
        const struct tmk_feed_ledger *ledger = &feed->books[i].ledger;
        sum.run += ledger->run;
        sum.skipped += ledger->skipped;
        sum.failed += ledger->failed;
        if (ledger->n_bad && (!sum.n_bad || ledger->bad[0].sample < sum.bad[0].sample)) {
            sum.bad = ledger->bad;
            sum.n_bad = 1;
        }
    }
    return sum;
}

static void end_sources(struct tmk_session_feed *feed) {
    for (uint32_t i = 0; i < feed->n_sources; i++)
        tmk_source_end(feed->sources[i]);
}

static enum tmk_status close_books(struct tmk_session_feed *feed, struct tmk_diag *diag) {
    const struct tmk_feed_ledger sum = sum_of(feed), *ledger = &sum;
    if (feed->samples != TMK_SOURCE_ENDLESS && feed->choice.limit == UINT64_MAX)
        TMK_TRY(tmk_feed_goes_on(feed, feed->samples, diag));
    end_sources(feed);
    if (feed->passed_over)
        tell(feed, "%llu samples could not be read and were passed over",
             (unsigned long long)feed->passed_over);
    if (feed->hand_out.next || feed->went_on) /* a part may be without samples */
        return TMK_OK;
    if (!ledger->run && ledger->n_bad)
        return tmk_fail(diag, TMK_FORMAT,
                        "no sample is left to run: %llu could not be read; the first of them: "
                        "%s: %s",
                        (unsigned long long)ledger->failed, ledger->bad[0].file,
                        ledger->bad[0].why);
    if (!ledger->run && !ledger->skipped)
        return tmk_fail(diag, TMK_SHAPE, "the data ends before sample %llu",
                        (unsigned long long)feed->choice.skip);
    if (!ledger->run)
        return tmk_fail(diag, TMK_SHAPE,
                        "no sample is left to run: %llu were passed over, since they fill no batch "
                        "of %llu",
                        (unsigned long long)ledger->skipped, (unsigned long long)feed->plan.batch);
    return TMK_OK;
}

/* ---- batches ---- */

/* Reads what comes next of the batch at hand; *out has no samples when nothing came of it. */
static enum tmk_status read_on(struct tmk_session_feed *feed, struct tmk_batch *out, bool *ended,
                               struct tmk_diag *diag) {
    struct tmk_diag why = {0};
    struct tmk_batch batch = {0};
    uint64_t at = feed->at;
    enum tmk_status status = tmk_feed_read(feed, at, feed->until - at, &batch, &why);
    const bool bad = is_bad_sample(feed, status);
    if (bad && feed->options->skip_bad_samples) {
        TMK_TRY(note_bad(feed, at, status, why.text, diag));
        move_to(feed, at + 1);
        return TMK_OK;
    }
    if (status != TMK_OK)
        return tmk_fail(diag, status, "sample %llu: %s%s", (unsigned long long)at, why.text,
                        bad ? "; --on-bad-sample=skip goes on without it" : "");
    if (feed->samples == TMK_SOURCE_ENDLESS && batch.samples) {
        status = tmk_feed_enter(feed, at, at + batch.samples, diag);
        if (status != TMK_OK) {
            tmk_batch_finish(&batch);
            return status;
        }
    }
    *ended = !batch.samples;
    batch.group = feed->stratum;
    if (!batch.samples || (!feed->smaller && batch.samples < feed->plan.batch)) {
        feed->book->ledger.skipped += batch.samples;
        if (batch.samples)
            move_to(feed, at + batch.samples);
        tmk_batch_finish(&batch);
        return TMK_OK;
    }
    feed->book->ledger.run += batch.samples;
    move_to(feed, at + batch.samples);
    feed->ran_to = feed->at;
    *out = batch;
    return TMK_OK;
}

/* The next batch of the parts becomes the one at hand; *ended when there is none. */
static enum tmk_status next_batch(struct tmk_session_feed *feed, bool *ended,
                                  struct tmk_diag *diag) {
    uint64_t from, until;
    for (;;) {
        if (!feed->in_part)
            TMK_TRY(tmk_feed_next_part(feed, diag));
        *ended = !feed->in_part;
        if (*ended)
            return TMK_OK;
        if (tmk_feed_choice_batch(&feed->choice, feed->next_batch, &from, &until) &&
            from < feed->part_end)
            break;
        tmk_feed_end_part(feed);
    }
    feed->next_batch++;
    feed->at = from;
    feed->until = until;
    if (feed->samples != TMK_SOURCE_ENDLESS)
        TMK_TRY(tmk_feed_enter(feed, from, until, diag));
    if (!feed->smaller && until - from < feed->plan.batch && feed->samples != TMK_SOURCE_ENDLESS) {
        feed->book->ledger.skipped += until - from;
        move_to(feed, until);
    }
    return TMK_OK;
}

static enum tmk_status next(void *context, struct tmk_batch *out, bool *more,
                            struct tmk_diag *diag) {
    struct tmk_session_feed *feed = context;
    struct tmk_batch batch = {0};
    bool ended = false;
    *more = false;
    while (!batch.samples && !ended) {
        while (!ended && feed->at == feed->until) {
            if (feed->watch.ask)
                TMK_TRY(feed->watch.ask(feed->watch.context, &feed->paused, diag));
            feed->paused = feed->paused && !(feed->in_part && tmk_feed_goes_on_at(feed, feed->at));
            if (feed->paused) {
                tmk_feed_pause(feed);
                return TMK_OK;
            }
            TMK_TRY(next_batch(feed, &ended, diag));
        }
        if (!ended)
            TMK_TRY(read_on(feed, &batch, &ended, diag));
    }
    if (ended)
        return close_books(feed, diag);
    *more = true;
    *out = batch;
    return TMK_OK;
}

/* ---- outside ---- */

static enum tmk_status open_books(struct tmk_session_feed *feed, struct tmk_diag *diag) {
    const struct tmk_strata_options *strata = feed->options->strata;
    feed->n_books = strata ? tmk_strata_count(strata->labels) : 1;
    feed->books = feed->book = calloc(feed->n_books, sizeof *feed->books);
    return feed->books ? TMK_OK : tmk_nomem(diag);
}

enum tmk_status tmk_session_feed_open(const struct tmk_graph *graph,
                                      const struct tmk_run_options *options,
                                      struct tmk_session_feed **out, struct tmk_diag *diag) {
    struct tmk_session_feed *feed = calloc(1, sizeof *feed);
    if (!feed)
        return tmk_nomem(diag);
    feed->graph = graph;
    feed->options = options;
    feed->batch = options->batch ? options->batch : 1;
    enum tmk_status status = tmk_feed_check_dims(feed, diag);
    if (status == TMK_OK)
        status = tmk_feed_find_loops(feed, diag);
    if (status == TMK_OK)
        status = tmk_feed_bind(feed, diag);
    if (status == TMK_OK)
        status = tmk_feed_cut(feed, diag);
    if (status == TMK_OK)
        status = tmk_feed_check_strata(feed, diag);
    if (status == TMK_OK)
        status = open_books(feed, diag);
    if (status == TMK_OK) {
        feed->orders = calloc(2 * (size_t)graph->n_inputs + 1, sizeof *feed->orders);
        status = feed->orders ? TMK_OK : tmk_nomem(diag);
    }
    if (status == TMK_OK)
        *out = feed;
    else
        tmk_session_feed_close(&feed);
    return status;
}

enum tmk_status tmk_session_feed_set_batch(struct tmk_session_feed *feed, uint32_t batch,
                                           struct tmk_diag *diag) {
    feed->batch = batch;
    return tmk_feed_cut(feed, diag);
}

static void clear_book(struct feed_book *book) {
    for (size_t i = 0; i < book->ledger.n_bad; i++) {
        free(book->ledger.bad[i].file);
        free(book->ledger.bad[i].why);
    }
    free(book->ledger.bad);
    free(book->ledger.ranges);
    *book = (struct feed_book){0};
}

static void clear_books(struct tmk_session_feed *feed) {
    for (uint32_t i = 0; feed->books && i < feed->n_books; i++)
        clear_book(&feed->books[i]);
}

void tmk_session_feed_close(struct tmk_session_feed **slot) {
    struct tmk_session_feed *feed = slot ? *slot : NULL;
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
    clear_books(feed);
    free(feed->books);
    free(feed->orders);
    free(feed->sources);
    free(feed->bound);
    free(feed->loops);
    free(feed);
}

struct tmk_feed tmk_session_feed_of(struct tmk_session_feed *feed) {
    return (struct tmk_feed){next, feed};
}

void tmk_session_feed_watch(struct tmk_session_feed *feed, const struct tmk_feed_watch *watch) {
    feed->watch = *watch;
}

bool tmk_session_feed_paused(const struct tmk_session_feed *feed) {
    return feed->paused;
}

enum tmk_status tmk_session_feed_go_on(struct tmk_session_feed *feed, struct tmk_diag *diag) {
    const uint64_t at = tmk_session_feed_reached(feed);
    feed->paused = false;
    feed->went_on = true;
    clear_books(feed);
    return feed->in_part ? tmk_feed_open_range(feed, at, diag) : TMK_OK;
}

void tmk_session_feed_end(struct tmk_session_feed *feed, uint64_t offered) {
    feed->paused = false;
    feed->in_part = false;
    feed->choice.limit = feed->cuts.limit = offered;
    end_sources(feed);
}

struct tmk_feed_plan tmk_session_feed_plan(const struct tmk_session_feed *feed) {
    return feed->plan;
}

bool tmk_session_feed_sample(const struct tmk_session_feed *feed, uint32_t input,
                             struct tmk_tensor *out) {
    if (!feed->bound[input].taken)
        return false;
    const struct tmk_source_array *array = tmk_feed_array(feed, &feed->bound[input]);
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

const struct tmk_feed_ledger *tmk_session_feed_ledger(const struct tmk_session_feed *feed,
                                                      uint32_t stratum) {
    return &feed->books[stratum].ledger;
}

uint32_t tmk_session_feed_strata(const struct tmk_session_feed *feed) {
    return feed->n_books;
}

bool tmk_session_feed_has_begun(const struct tmk_session_feed *feed) {
    const struct tmk_feed_ledger sum = sum_of(feed);
    return sum.run + sum.skipped + sum.failed > 0;
}

uint64_t tmk_session_feed_reached(const struct tmk_session_feed *feed) {
    const struct tmk_feed_ledger *ledger = &feed->book->ledger; /* others end before it */
    return ledger->n_ranges ? ledger->ranges[ledger->n_ranges - 1].end : 0;
}

const struct tmk_source_info *tmk_session_feed_source(const struct tmk_session_feed *feed,
                                                      uint32_t input) {
    const struct feed_bound *bound = &feed->bound[input];
    return bound->taken ? tmk_source_info(feed->sources[bound->source]) : NULL;
}

uint64_t tmk_session_feed_entries(const struct tmk_session_feed *feed, uint32_t input) {
    return tmk_feed_array(feed, &feed->bound[input])->n_entries;
}
