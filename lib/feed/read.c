/* SPDX-License-Identifier: Apache-2.0 */
/* Samples out of the sources: the same ones for every input. */
#include "base/hash.h"
#include "feed/feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/diag.h"
#include "feed/internal.h"
#include "plan/batch.h"
#include "tensor/shape.h"

/* Entries [at, at + count) of a tensor's, whose bytes they share. */
static enum tmk_status view_entries(const struct tmk_tensor *tensor, uint64_t at, uint64_t count,
                                    struct tmk_tensor *out, struct tmk_diag *diag) {
    uint64_t entries = (uint64_t)tensor->shape.dim[0];
    size_t entry = entries ? tmk_tensor_bytes(tensor) / entries : 0;
    struct tmk_tensor piece = *tensor;
    piece.data = (char *)tensor->data + at * entry;
    piece.shape.dim[0] = (int64_t)count;
    piece.buf = tmk_buf_view(piece.data, count * entry, tensor->buf);
    TMK_TRY_ALLOC(piece.buf, diag);
    *out = piece;
    return TMK_OK;
}

/* Token IDs are int64 in models, and often int32 in data. */
static enum tmk_status widen_tokens(struct tmk_tensor *tensor, struct tmk_diag *diag) {
    struct tmk_tensor out = {0};
    TMK_TRY(tmk_tensor_init(&out, TMK_INT64, &tensor->shape, diag));
    for (size_t i = 0, n = tmk_tensor_count(tensor); i < n; i++)
        ((int64_t *)out.data)[i] = ((const int32_t *)tensor->data)[i];
    tmk_tensor_finish(tensor);
    *tensor = out;
    return TMK_OK;
}

/* Of the source, in the input's type. */
static enum tmk_status read_source(struct tmk_feed *feed, const struct feed_bound *bound,
                                   uint64_t first, uint64_t count, struct tmk_tensor *out,
                                   struct tmk_diag *diag) {
    struct tmk_tensor tensor = {0};
    TMK_TRY(
        tmk_source_read(feed->sources[bound->source], bound->array, first, count, &tensor, diag));
    enum tmk_status status = TMK_OK;
    if (bound->widens && tensor.dtype == TMK_INT32)
        status = widen_tokens(&tensor, diag);
    if (status == TMK_OK)
        *out = tensor;
    else
        tmk_tensor_finish(&tensor);
    return status;
}

/* Entries that another input had no match for yet are at hand already. */
static enum tmk_status read_entries(struct tmk_feed *feed, struct feed_bound *bound, uint64_t first,
                                    uint64_t count, struct tmk_tensor *out, struct tmk_diag *diag) {
    if (bound->inner) {
        /* Of an array whose first axis counts sequences: entries of one of those. The sequence at
         * hand is kept whole. */
        uint64_t at = first % bound->inner, left = bound->inner - at;
        if (!bound->kept.data || bound->kept_first != first - at) {
            struct tmk_tensor whole = {0};
            TMK_TRY(read_source(feed, bound, first / bound->inner, 1, &whole, diag));
            tmk_shape_drop(&whole.shape, 0);
            tmk_tensor_finish(&bound->kept);
            bound->kept = whole;
            bound->kept_first = first - at;
        }
        return view_entries(&bound->kept, at, count < left ? count : left, out, diag);
    }
    if (bound->kept.data) {
        uint64_t has = (uint64_t)bound->kept.shape.dim[0], at = first - bound->kept_first;
        if (first >= bound->kept_first && at < has)
            return view_entries(&bound->kept, at, has - at < count ? has - at : count, out, diag);
        tmk_tensor_finish(&bound->kept);
    }
    return read_source(feed, bound, first, count, out, diag);
}

/* All entries of one sample, where a sample takes several: part of them is none. */
static enum tmk_status read_sample(struct tmk_feed *feed, struct feed_bound *bound, uint64_t sample,
                                   struct tmk_tensor *out, bool *there, struct tmk_diag *diag) {
    struct tmk_tensor tensor = {0}, next = {0};
    uint64_t first = sample * bound->step;
    TMK_TRY(read_entries(feed, bound, first, bound->step, &tensor, diag));
    uint64_t got = bound->cut == CUT_WHOLE ? 1 : (uint64_t)tensor.shape.dim[0];
    *there = got > 0;
    if (got == bound->step || !got) {
        *out = tensor;
        return TMK_OK;
    }
    tmk_tensor_finish(&tensor);
    TMK_TRY(read_entries(feed, bound, first + got, bound->step - got, &next, diag));
    tmk_tensor_finish(&next);
    return tmk_fail(
        diag, TMK_SHAPE, "%s: a sample takes %llu entries of one shape, and there are only %llu",
        feed_path(feed, bound), (unsigned long long)bound->step, (unsigned long long)got);
}

enum tmk_status tmk_feed_read_first(struct tmk_feed *feed, uint32_t input, struct tmk_tensor *out,
                                    struct tmk_diag *diag) {
    bool there = false;
    struct tmk_tensor tensor = {0};
    TMK_TRY(read_sample(feed, &feed->bound[input], 0, &tensor, &there, diag));
    if (!there)
        return tmk_fail(diag, TMK_SHAPE, "%s: holds nothing for '%s'",
                        feed_path(feed, &feed->bound[input]), feed->graph->inputs[input]->name);
    if (feed->bound[input].cut == CUT_ENTRIES)
        tmk_shape_drop(&tensor.shape, 0);
    *out = tensor;
    return TMK_OK;
}

static bool is_first_fed(const struct tmk_feed *feed, uint32_t input) {
    for (uint32_t i = 0; i < input; i++)
        if (!feed->bound[i].fed_back)
            return false;
    return true;
}

/* *count becomes what the input has of it. */
static enum tmk_status read_input(struct tmk_feed *feed, uint32_t input, uint64_t first,
                                  uint64_t *count, struct tmk_tensor *out, struct tmk_diag *diag) {
    struct feed_bound *bound = &feed->bound[input];
    feed->batch.separate = feed_info(feed, bound)->separate;
    feed->batch.failing = input;
    if (!feed->plan.slices) {
        bool there = false;
        TMK_TRY(read_sample(feed, bound, first, out, &there, diag));
        *count = there;
    } else {
        TMK_TRY(read_entries(feed, bound, first, *count, out, diag));
        *count = (uint64_t)out->shape.dim[0];
    }
    if (!*count && (!is_first_fed(feed, input) || feed->samples != TMK_SOURCE_ENDLESS)) {
        feed->batch.separate = false;
        tmk_tensor_finish(out);
        return tmk_fail(diag, TMK_SHAPE,
                        "%s: ends after %llu samples for '%s', but there is more for other inputs",
                        feed_path(feed, bound), (unsigned long long)first,
                        feed->graph->inputs[input]->name);
    }
    return TMK_OK;
}

/* A batch ends where the first of its inputs does; the rest of the others waits. */
static enum tmk_status even_out(struct tmk_feed *feed, struct tmk_batch *batch,
                                struct tmk_diag *diag) {
    for (uint32_t i = 0; i < batch->n_inputs; i++) {
        struct tmk_tensor *tensor = &batch->inputs[i], shorter;
        struct feed_bound *bound = &feed->bound[i];
        if (bound->fed_back || (uint64_t)tensor->shape.dim[0] == batch->samples)
            continue;
        TMK_TRY(view_entries(tensor, 0, batch->samples, &shorter, diag));
        tmk_tensor_finish(&bound->kept);
        bound->kept = *tensor;
        bound->kept_first = batch->sample;
        *tensor = shorter;
    }
    return TMK_OK;
}

enum tmk_status tmk_feed_read(struct tmk_feed *feed, uint64_t first, uint64_t count,
                              struct tmk_batch *out, struct tmk_diag *diag) {
    uint32_t n = feed->graph->n_inputs;
    struct tmk_batch batch = {
        .sample = first, .samples = count, .inputs = calloc(n + 1u, sizeof *batch.inputs)};
    enum tmk_status status = batch.inputs ? TMK_OK : tmk_nomem(diag);
    feed->batch.separate = false;
    for (; status == TMK_OK && batch.n_inputs < n && batch.samples; batch.n_inputs++) {
        struct tmk_tensor *tensor = &batch.inputs[batch.n_inputs];
        if (feed->bound[batch.n_inputs].fed_back)
            continue;
        status = read_input(feed, batch.n_inputs, first, &batch.samples, tensor, diag);
    }
    if (status == TMK_OK)
        feed->batch.separate = false; /* what fails from here on is no matter of one file */
    if (status == TMK_OK && feed->plan.slices && batch.samples)
        status = even_out(feed, &batch, diag);
    for (uint32_t i = 0; status == TMK_OK && i < batch.n_inputs; i++)
        if (feed->bound[i].cut == CUT_ENTRIES && !feed->bound[i].fed_back)
            tmk_shape_drop(&batch.inputs[i].shape, 0);
    if (status == TMK_OK && batch.samples)
        status = tmk_feed_make_empty(feed, &batch, diag);
    batch.continues_sequence = tmk_feed_continues_sequence(feed, first);
    if (status == TMK_OK && batch.samples && !batch.continues_sequence)
        status = tmk_feed_first_states(feed, &batch, diag);
    if (status == TMK_OK && batch.samples)
        status = tmk_feed_check_symbols(feed, batch.inputs, diag);
    if (status == TMK_OK)
        *out = batch;
    else
        tmk_batch_finish(&batch);
    return status;
}

enum tmk_status tmk_feed_has_sample(struct tmk_feed *feed, uint64_t at, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < feed->graph->n_inputs; i++) {
        struct feed_bound *bound = &feed->bound[i];
        struct tmk_tensor tensor = {0};
        if (bound->fed_back || feed_array(feed, bound)->n_entries != TMK_SOURCE_ENDLESS)
            continue;
        TMK_TRY(read_entries(feed, bound, at * feed_step(feed, bound), 1, &tensor, diag));
        bool more = tensor.shape.dim[0] > 0;
        tmk_tensor_finish(&tensor);
        if (more)
            return tmk_fail(diag, TMK_SHAPE,
                            "%s: continues after %llu samples for '%s', but there is no more for "
                            "other inputs",
                            feed_path(feed, bound), (unsigned long long)at,
                            feed->graph->inputs[i]->name);
    }
    return TMK_OK;
}

/* A value that is printed is one of one sample. */
static bool has_print(const struct tmk_graph *graph) {
    for (const struct tmk_node *node = graph->first; node; node = node->next)
        if (tmk_node_is_observer(node) && strcmp(tmk_node_string(node, "kind", ""), "print") == 0)
            return true;
    return false;
}

/* Is the size of the batch, which every input begins with, given by --dim? */
static bool is_given(const struct tmk_graph *graph, const struct tmk_data_options *data) {
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        if (tmk_feed_dim(data, graph->inputs[i]->type.symbol[0]))
            return true;
    return false;
}

/* What leaves no choice, before the model is looked at; NULL: nothing does. */
static const char *find_obstacle(const struct tmk_graph *graph, const struct tmk_data_options *data,
                                 const struct tmk_feed *feed) {
    struct tmk_feed_plan plan = tmk_feed_plan(feed);
    if (data->batch)
        return plan.free ? "as asked for" : "the model or its data have it so";
    if (!plan.free)
        return "the model or its data have it so";
    if (data->recurrence.n_feedback)
        return "what is fed back goes from sample to sample";
    if (data->generate.steps)
        return "prompts are decoded one by one";
    if (data->strata)
        return "the samples of a call are of one stratum";
    if (data->every > 1)
        return "--sample-every is for single samples";
    if (is_given(graph, data))
        return "--dim sets the size of the batch";
    return has_print(graph) ? "each sample is printed" : NULL;
}

static enum tmk_status choose_batch(const struct tmk_graph *graph, struct tmk_feed *feed, char *why,
                                    struct tmk_diag *diag) {
    struct tmk_tensor *sample = calloc(graph->n_inputs + 1u, sizeof *sample);
    struct tmk_batch_independence answer;
    bool known = true, enough;
    TMK_TRY_ALLOC(sample, diag);
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        known = known && tmk_feed_sample(feed, i, &sample[i]);
    enum tmk_status status = TMK_OK;
    if (known)
        status = tmk_plan_batch_independence(graph, sample, &answer, diag);
    free(sample);
    TMK_TRY(status);
    if (!known || !answer.independent) {
        snprintf(why, TMK_BATCH_WHY, "%s",
                 known ? answer.why : "the shape of a sample is not known before one is read");
        return TMK_OK;
    }
    uint32_t batch = tmk_samples_a_call(&answer.cost, &enough);
    if (batch == 1 && enough)
        snprintf(why, TMK_BATCH_WHY, "one sample is work enough for a call");
    else if (batch == 1)
        snprintf(why, TMK_BATCH_WHY, "more would not fit into a core's cache");
    else
        snprintf(
            why, TMK_BATCH_WHY,
            "one sample is little work for a call, or for bringing the weights in: %.3g million "
            "multiply-adds in %u nodes, "
            "with %.3g million weights",
            (double)answer.cost.products * 1e-6, answer.cost.nodes,
            (double)answer.cost.weights * 1e-6);
    return batch == 1 ? TMK_OK : tmk_feed_set_batch(feed, batch, diag);
}

enum tmk_status tmk_feed_open_batched(const struct tmk_graph *graph,
                                      const struct tmk_data_options *data, uint32_t threads,
                                      const struct tmk_notices *notices, struct tmk_feed **out,
                                      char why[TMK_BATCH_WHY], struct tmk_diag *diag) {
    struct tmk_feed *feed;
    char unread[TMK_BATCH_WHY];
    TMK_TRY(tmk_feed_open(graph, data, threads, notices, &feed, diag));
    const char *given = find_obstacle(graph, data, feed);
    enum tmk_status status = TMK_OK;
    why = why ? why : unread;
    if (given)
        snprintf(why, TMK_BATCH_WHY, "%s", given);
    else
        status = choose_batch(graph, feed, why, diag);
    if (status == TMK_OK)
        *out = feed;
    else
        tmk_feed_close(&feed);
    return status;
}

/* The data's hashes, which take as long as reading all of it: computed in parallel with the run. */

static bool is_stream(const struct tmk_source *source) {
    return strcmp(tmk_source_info(source)->kind, "stream") == 0;
}

static void *hash_all(void *context) {
    struct tmk_feed *feed = context;
    struct feed_hashing *hashing = &feed->hashing;
    for (uint32_t i = 0; hashing->status == TMK_OK && i < feed->n_sources; i++)
        if (!is_stream(feed->sources[i]))
            hashing->status =
                tmk_source_hash(feed->sources[i], &hashing->stop, hashing->hex[i], &hashing->diag);
    if (hashing->status != TMK_OK)
        atomic_store(&hashing->failed, true);
    else if (hashing->then.publish)
        hashing->then.publish(hashing->then.context, (const char(*)[TMK_HASH128_HEX])hashing->hex,
                              feed->n_sources);
    return NULL;
}

enum tmk_status tmk_feed_hash(struct tmk_feed *feed, const struct tmk_feed_hashed *then,
                              struct tmk_diag *diag) {
    struct feed_hashing *hashing = &feed->hashing;
    hashing->hex = calloc((size_t)feed->n_sources + 1, sizeof *hashing->hex);
    TMK_TRY_ALLOC(hashing->hex, diag);
    hashing->then = *then;
    int error = pthread_create(&hashing->thread, NULL, hash_all, feed);
    hashing->runs = !error;
    if (error && feed->notices.fewer_threads)
        feed->notices.fewer_threads(feed->notices.context, TMK_THREADS_HASH, 1, 1, strerror(error));
    if (error)
        hash_all(feed);
    return TMK_OK;
}

bool tmk_feed_hash_failed(const struct tmk_feed *feed) {
    return atomic_load(&feed->hashing.failed);
}

static void join_thread(struct feed_hashing *hashing) {
    if (hashing->runs)
        pthread_join(hashing->thread, NULL);
    hashing->runs = false;
}

enum tmk_status tmk_feed_hashes(struct tmk_feed *feed, const char (**hex)[TMK_HASH128_HEX],
                                struct tmk_diag *diag) {
    struct feed_hashing *hashing = &feed->hashing;
    join_thread(hashing);
    if (hashing->status != TMK_OK)
        return tmk_fail(diag, hashing->status, "%s", hashing->diag.text);
    for (uint32_t i = 0; i < feed->n_sources; i++)
        if (is_stream(feed->sources[i]))
            TMK_TRY(tmk_source_hash(feed->sources[i], NULL, hashing->hex[i], diag));
    *hex = (const char(*)[TMK_HASH128_HEX])hashing->hex;
    return TMK_OK;
}

void tmk_feed_hash_end(struct tmk_feed *feed) {
    atomic_store(&feed->hashing.stop, true);
    join_thread(&feed->hashing);
    free(feed->hashing.hex);
}

uint64_t tmk_feed_glance(const struct tmk_feed *feed) {
    uint64_t hash = feed->n_sources;
    for (uint32_t i = 0; i < feed->n_sources; i++) {
        uint64_t of_source = tmk_source_quick_hash(feed->sources[i]);
        hash = tmk_hash64(&of_source, sizeof of_source, hash);
    }
    return hash;
}

uint32_t tmk_feed_sources(const struct tmk_feed *feed) {
    return feed->n_sources;
}

uint32_t tmk_feed_source_of(const struct tmk_feed *feed, uint32_t input) {
    return feed->bound[input].source;
}
