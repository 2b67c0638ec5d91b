/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs that are fed back, and the sequences that they make of the samples. */
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/text.h"
#include "feed/internal.h"
#include "tensor/shape.h"

/* ---- OUT=IN ---- */

static int32_t output_by_name(const struct tmk_graph *graph, const char *name, size_t len) {
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        if (strlen(graph->outputs[i]->name) == len &&
            memcmp(graph->outputs[i]->name, name, len) == 0)
            return (int32_t)i;
    return -1;
}

/* Names may hold '=' themselves. */
enum tmk_status tmk_feed_parse_pair(const struct tmk_feed *feed, size_t i, struct tmk_loop *out,
                                    struct tmk_diag *diag) {
    const struct tmk_graph *graph = feed->graph;
    const char *text = feed->data->recurrence.feedback[i];
    const char *equals = strchr(text, '=');
    if (!equals)
        return tmk_fail(diag, TMK_ARGUMENT, "--feedback wants OUT=IN, not '%s'", text);
    int32_t some_output = -1;
    for (const char *eq = equals; eq; eq = strchr(eq + 1, '=')) {
        int32_t output = output_by_name(graph, text, (size_t)(eq - text)),
                input = tmk_graph_input_named(graph, eq + 1, strlen(eq + 1));
        if (output >= 0 && input >= 0) {
            *out = (struct tmk_loop){(uint32_t)output, (uint32_t)input, false};
            return TMK_OK;
        }
        some_output = output >= 0 ? output : some_output;
    }
    if (some_output >= 0)
        return tmk_fail(diag, TMK_ARGUMENT, "--feedback %s: no input of the model is named so",
                        text);
    return tmk_fail(diag, TMK_ARGUMENT,
                    "--feedback %s: no output of the model is named so; the first is '%s'", text,
                    graph->n_outputs ? graph->outputs[0]->name : "");
}

bool tmk_feed_fits(const struct tmk_feed *feed, const struct tmk_loop *loop) {
    const struct tmk_type *a = &feed->graph->outputs[loop->output]->type,
                          *b = &feed->graph->inputs[loop->input]->type;
    if (a->kind != TMK_TYPE_TENSOR || b->kind != TMK_TYPE_TENSOR ||
        (a->dtype != TMK_UNDEFINED && a->dtype != b->dtype))
        return false;
    if (!a->has_shape || !b->has_shape)
        return true;
    if (a->shape.rank != b->shape.rank)
        return false;
    for (int32_t k = 0; k < a->shape.rank; k++)
        if (a->shape.dim[k] >= 0 && b->shape.dim[k] >= 0 && a->shape.dim[k] != b->shape.dim[k])
            return false;
    return true;
}

/* ---- where sequences begin ---- */

static enum tmk_status parse_reset(struct tmk_feed *feed, struct tmk_diag *diag) {
    const char *rule = feed->data->recurrence.reset;
    feed->recurrence.sequence = UINT64_MAX;
    if (!rule || strcmp(rule, "never") == 0) {
        feed->recurrence.reset = RESET_NEVER;
        return TMK_OK;
    }
    if (strcmp(rule, "source") == 0) {
        feed->recurrence.reset = RESET_SOURCE;
        return TMK_OK;
    }
    static const char every[] = "every=";
    const char *digits = strncmp(rule, every, sizeof every - 1) == 0 ? rule + sizeof every - 1 : "";
    feed->recurrence.reset = RESET_EVERY;
    if (!tmk_read_digits(digits, strlen(digits), &feed->recurrence.sequence) ||
        !feed->recurrence.sequence)
        return tmk_fail(diag, TMK_ARGUMENT,
                        "--reset takes never, every=N (samples) or source, not '%s'", rule);
    return TMK_OK;
}

enum tmk_status tmk_feed_find_recurrence(struct tmk_feed *feed, struct tmk_diag *diag) {
    const struct tmk_data_options *data = feed->data;
    feed->bound = calloc(feed->graph->n_inputs + 1u, sizeof *feed->bound);
    feed->recurrence.loops =
        calloc(data->recurrence.n_feedback + 1, sizeof *feed->recurrence.loops);
    TMK_TRY_ALLOC(feed->bound && feed->recurrence.loops, diag);
    if (data->recurrence.reset && !data->recurrence.n_feedback)
        return tmk_fail(diag, TMK_ARGUMENT, "--reset goes with --feedback OUT=IN");
    TMK_TRY(parse_reset(feed, diag));
    if (data->generate.steps)
        return tmk_feed_find_decoding(feed, diag);
    for (size_t i = 0; i < data->recurrence.n_feedback; i++) {
        struct tmk_loop *loop = &feed->recurrence.loops[feed->recurrence.n];
        TMK_TRY(tmk_feed_parse_pair(feed, i, loop, diag));
        const char *text = data->recurrence.feedback[i];
        const struct tmk_value *out = feed->graph->outputs[loop->output],
                               *in = feed->graph->inputs[loop->input];
        if (feed->bound[loop->input].fed_back)
            return tmk_fail(diag, TMK_ARGUMENT, "--feedback %s: input '%s' is fed back already",
                            text, in->name);
        if (!tmk_feed_fits(feed, loop))
            return tmk_fail(
                diag, TMK_ARGUMENT,
                "--feedback %s: the output is %s%s and the input %s%s; both must be arrays "
                "of one type and shape",
                text, tmk_dtype_name(out->type.dtype), TMK_SHAPE_TEXT(&out->type.shape),
                tmk_dtype_name(in->type.dtype), TMK_SHAPE_TEXT(&in->type.shape));
        feed->bound[loop->input].fed_back = true;
        feed->recurrence.n++;
    }
    if (feed->recurrence.n && feed->recurrence.n == feed->graph->n_inputs)
        return tmk_fail(diag, TMK_ARGUMENT,
                        "every input is fed back, so that no data sets the number of steps");
    return TMK_OK;
}

/* All inputs have sequences of the same number of samples (0: they are records of a stream). */
static enum tmk_status measure_sequences(struct tmk_feed *feed, struct tmk_diag *diag) {
    bool first = true;
    uint64_t most = 1;
    for (uint32_t i = 0; i < feed->graph->n_inputs; i++) {
        const struct feed_bound *bound = &feed->bound[i];
        uint64_t step = feed_step(feed, bound);
        if (bound->fed_back)
            continue;
        if (bound->inner % step || (!first && bound->inner / step != feed->recurrence.sequence))
            return tmk_fail(diag, TMK_SHAPE,
                            "%s: its sequences have %llu entries for '%s', which are not as many "
                            "samples as other inputs have, or no whole number of them",
                            feed_path(feed, bound), (unsigned long long)bound->inner,
                            feed->graph->inputs[i]->name);
        feed->recurrence.sequence = bound->inner / step;
        most = bound->step > most ? bound->step : most;
        first = false;
    }
    if (feed->recurrence.sequence)
        return TMK_OK;
    feed->recurrence.sequence = UINT64_MAX; /* as the records of a stream state */
    if (most > 1)
        return tmk_fail(diag, TMK_ARGUMENT,
                        "--reset source: records are cut into single entries, but the model takes "
                        "%llu at a time; every=N cuts a stream, too",
                        (unsigned long long)most);
    return TMK_OK;
}

enum tmk_status tmk_feed_cut_sequences(struct tmk_feed *feed, struct tmk_diag *diag) {
    feed->cuts = feed->choice;
    if (!feed->recurrence.n)
        return TMK_OK;
    if (feed->recurrence.reset == RESET_SOURCE)
        TMK_TRY(measure_sequences(feed, diag));
    /* What would be the same as a run without the samples in between. */
    const struct tmk_data_options *data = feed->data;
    uint64_t batch = feed->plan.batch;
    if (data->batch > 1 && (data->batch != batch || feed->plan.free))
        return tmk_fail(diag, TMK_ARGUMENT,
                        "--batch %u: with --feedback a batch is one step, and steps run one by one",
                        data->batch);
    if (data->every > 1 || data->skip_bad)
        return tmk_fail(
            diag, TMK_ARGUMENT,
            "--feedback: a sequence cannot continue without one of its steps; leave out "
            "%s",
            data->skip_bad ? "--on-bad-sample=skip" : "--sample-every");
    if (feed->recurrence.sequence != UINT64_MAX && feed->recurrence.sequence % batch)
        return tmk_fail(diag, TMK_ARGUMENT,
                        "sequences of %llu samples are no whole number of steps: the model runs "
                        "%llu at a time",
                        (unsigned long long)feed->recurrence.sequence, (unsigned long long)batch);
    feed->cuts.batch = feed->recurrence.sequence;
    for (uint32_t i = 0; i < feed->recurrence.n; i++) {
        const uint32_t input = feed->recurrence.loops[i].input;
        if (feed->bound[input].taken)
            TMK_TRY(tmk_feed_read_first(feed, input, &feed->bound[input].state, diag));
    }
    return TMK_OK;
}

static bool begins_a_record(const struct tmk_feed *feed, uint64_t sample) {
    for (uint32_t i = 0; i < feed->graph->n_inputs; i++) {
        const struct feed_bound *bound = &feed->bound[i];
        if (!bound->fed_back && tmk_source_begins(feed->sources[bound->source], bound->array,
                                                  sample * feed_step(feed, bound)))
            return true;
    }
    return false;
}

bool tmk_feed_continues_sequence(const struct tmk_feed *feed, uint64_t sample) {
    if (!feed->recurrence.n || sample != feed->recurrence.ran_to)
        return false;
    return feed->recurrence.reset == RESET_SOURCE && feed->recurrence.sequence == UINT64_MAX
               ? !begins_a_record(feed, sample)
               : sample % feed->recurrence.sequence != 0;
}

/* ---- before the first step ---- */

/* A free dimension is as set by --dim, or as wherever its name stands in the batch; -1: unknown. */
static int64_t size_of(const struct tmk_feed *feed, const struct tmk_batch *batch,
                       const char *symbol) {
    const int64_t *given = tmk_feed_dim(feed->data, symbol);
    int64_t size = -1;
    if (given)
        return *given;
    for (uint32_t i = 0; symbol && i < batch->n_inputs; i++) {
        const struct tmk_shape *shape = &batch->inputs[i].shape;
        for (int32_t k = 0; batch->inputs[i].data && k < shape->rank; k++) {
            if (!tmk_feed_dim_is(feed, i, shape, k, symbol))
                continue;
            if (size >= 0 && size != shape->dim[k])
                return -1; /* the name means nothing */
            size = shape->dim[k];
        }
    }
    return size;
}

/* Of no elements where one size is 0: then sizes that are not known are 0, too. */
static enum tmk_status make_zeros(const struct tmk_feed *feed, uint32_t input,
                                  struct tmk_batch *batch, struct tmk_diag *diag) {
    const struct tmk_value *value = feed->graph->inputs[input];
    struct tmk_shape shape = value->type.shape;
    if (!value->type.has_shape)
        return tmk_fail(diag, TMK_ARGUMENT,
                        "the model does not state the shape of '%s'; --data '%s=FILE' gives its "
                        "first state",
                        value->name, value->name);
    bool empty = false;
    for (int32_t k = 0; k < shape.rank; k++) {
        if (shape.dim[k] < 0)
            shape.dim[k] = size_of(feed, batch, value->type.symbol[k]);
        empty |= shape.dim[k] == 0;
    }
    for (int32_t k = 0; k < shape.rank; k++) {
        const char *symbol = value->type.symbol[k];
        if (shape.dim[k] < 0 && empty)
            shape.dim[k] = 0;
        if (shape.dim[k] < 0)
            return tmk_fail(diag, TMK_ARGUMENT,
                            "dimension %d of '%s' is free, and its size is not known%s; "
                            "add %s%s%s--data '%s=FILE'",
                            (int)k, value->name, feed->bound[input].empty ? "" : " at first",
                            symbol ? "--dim " : "", symbol ? symbol : "", symbol ? "=N, or " : "",
                            value->name);
    }
    return tmk_tensor_init(&batch->inputs[input], value->type.dtype, &shape, diag);
}

enum tmk_status tmk_feed_make_empty(const struct tmk_feed *feed, struct tmk_batch *batch,
                                    struct tmk_diag *diag) {
    for (uint32_t i = 0; i < batch->n_inputs; i++)
        if (feed->bound[i].empty)
            TMK_TRY(make_zeros(feed, i, batch, diag));
    return TMK_OK;
}

enum tmk_status tmk_feed_first_states(const struct tmk_feed *feed, struct tmk_batch *batch,
                                      struct tmk_diag *diag) {
    for (uint32_t i = 0; i < feed->recurrence.n; i++) {
        uint32_t input = feed->recurrence.loops[i].input;
        if (feed->bound[input].taken)
            tmk_tensor_share(&batch->inputs[input], &feed->bound[input].state);
        else
            TMK_TRY(make_zeros(feed, input, batch, diag));
    }
    return TMK_OK;
}

/* ---- outside ---- */

bool tmk_feed_is_one_sequence(const struct tmk_feed *feed) {
    return feed->recurrence.n && feed->recurrence.reset == RESET_NEVER;
}

struct tmk_feedback tmk_feed_recurrence(const struct tmk_feed *feed) {
    if (feed->decoding.generation.steps)
        return (struct tmk_feedback){feed->decoding.loops, feed->decoding.n};
    return (struct tmk_feedback){feed->recurrence.loops, feed->recurrence.n};
}

uint32_t tmk_feed_workers(const struct tmk_feed *feed, uint32_t workers) {
    uint64_t sequences = feed->recurrence.reset == RESET_NEVER ? 1 : tmk_feed_batches(feed);
    return feed->recurrence.n && sequences && sequences < workers ? (uint32_t)sequences : workers;
}

uint64_t tmk_feed_steps(const struct tmk_feed *feed) {
    uint64_t samples =
        feed->recurrence.sequence < feed->samples ? feed->recurrence.sequence : feed->samples;
    return !feed->recurrence.n             ? 1
           : samples == TMK_SOURCE_ENDLESS ? UINT64_MAX
                                           : samples / feed->plan.batch;
}
