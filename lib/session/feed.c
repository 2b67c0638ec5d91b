/* SPDX-License-Identifier: Apache-2.0 */
#include "session/feed.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "model/onnx.h"
#include "tensor/list.h"

enum cut { CUT_SLICES, CUT_ENTRIES, CUT_WHOLE };

struct bound {
    uint32_t source, array;
    bool taken;
    enum cut cut;
    uint64_t step; /* entries a batch */
};

struct tmk_session_feed {
    const struct tmk_graph *graph;
    struct tmk_source **sources;
    uint32_t n_sources;
    struct bound *bound; /* by input */
    struct tmk_feed_plan plan;
    uint64_t runs, next;                   /* batches in all, batch at hand */
    const struct tmk_run_options *options; /* outlive the feed */
};

static enum tmk_status decode(const char *path, struct tmk_tensor *out, char **name,
                              struct tmk_diag *diag) {
    return tmk_onnx_load_tensor(path, out, name, diag);
}

static int32_t input_by_name(const struct tmk_graph *graph, const char *name, size_t len) {
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        if (strlen(graph->inputs[i]->name) == len && memcmp(graph->inputs[i]->name, name, len) == 0)
            return (int32_t)i;
    return -1;
}

/* INPUT=PATH, where INPUT is an input of the graph; a path may hold '=' itself. */
static int32_t split_binding(const struct tmk_graph *graph, const char *text, const char **path) {
    *path = text;
    for (const char *eq = strchr(text, '='); eq; eq = strchr(eq + 1, '=')) {
        int32_t input = input_by_name(graph, text, (size_t)(eq - text));
        if (input >= 0) {
            *path = eq + 1;
            return input;
        }
    }
    return -1;
}

static enum tmk_status take(struct tmk_session_feed *feed, uint32_t input, uint32_t source,
                            uint32_t array, struct tmk_diag *diag) {
    if (feed->bound[input].taken)
        return tmk_fail(diag, TMK_ARGUMENT, "input '%s' has two sources: %s and %s",
                        feed->graph->inputs[input]->name,
                        tmk_source_info(feed->sources[feed->bound[input].source])->path,
                        tmk_source_info(feed->sources[source])->path);
    feed->bound[input] = (struct bound){.source = source, .array = array, .taken = true};
    return TMK_OK;
}

static enum tmk_status bind_to(struct tmk_session_feed *feed, uint32_t input, uint32_t source,
                               struct tmk_diag *diag) {
    const struct tmk_source_info *info = tmk_source_info(feed->sources[source]);
    const char *name = feed->graph->inputs[input]->name;
    for (uint32_t a = 0; a < info->n_arrays; a++)
        if (info->n_arrays == 1 || strcmp(info->arrays[a].name, name) == 0)
            return take(feed, input, source, a, diag);
    return tmk_fail(diag, TMK_ARGUMENT, "%s: holds %u arrays, none of them named '%s'", info->path,
                    info->n_arrays, name);
}

/* The one input that has nothing yet, or -1 when there are none or several. */
static int32_t only_input_left(const struct tmk_session_feed *feed) {
    int32_t left = -1;
    for (uint32_t i = 0; i < feed->graph->n_inputs; i++)
        if (!feed->bound[i].taken) {
            if (left >= 0)
                return -1;
            left = (int32_t)i;
        }
    return left;
}

/* Sets whose tensors don't all carry inputs' names go by position. */
static bool by_position(const struct tmk_graph *graph, const struct tmk_source_info *info) {
    if (!info->n_arrays || !info->arrays[0].whole || info->n_arrays > graph->n_inputs)
        return false;
    for (uint32_t a = 0; a < info->n_arrays; a++)
        if (input_by_name(graph, info->arrays[a].name, strlen(info->arrays[a].name)) < 0)
            return true;
    return false;
}

static enum tmk_status bind_by_name(struct tmk_session_feed *feed, uint32_t source,
                                    struct tmk_diag *diag) {
    const struct tmk_source_info *info = tmk_source_info(feed->sources[source]);
    bool position = by_position(feed->graph, info), any = false;
    for (uint32_t a = 0; a < info->n_arrays; a++) {
        const char *name = info->arrays[a].name;
        int32_t input = position ? (int32_t)a : input_by_name(feed->graph, name, strlen(name));
        if (input < 0)
            continue;
        TMK_TRY(take(feed, (uint32_t)input, source, a, diag));
        any = true;
    }
    int32_t left = only_input_left(feed);
    if (any)
        return TMK_OK;
    if (info->n_arrays == 1 && left >= 0)
        return take(feed, (uint32_t)left, source, 0, diag);
    return tmk_fail(diag, TMK_ARGUMENT,
                    "%s: it is not clear which input it is for; say INPUT=%s (the first input is "
                    "'%s')",
                    info->path, info->path,
                    feed->graph->n_inputs ? feed->graph->inputs[0]->name : "");
}

static enum tmk_status open_all(struct tmk_session_feed *feed,
                                const struct tmk_run_options *options, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < feed->graph->n_inputs; i++) {
        enum tmk_type_kind kind = feed->graph->inputs[i]->type.kind;
        if (kind != TMK_TYPE_TENSOR && kind != TMK_TYPE_OPTIONAL)
            return tmk_fail(diag, TMK_UNSUPPORTED, "input '%s' is %s; data are arrays only",
                            feed->graph->inputs[i]->name, tmk_type_kind_text(kind));
    }
    feed->sources = calloc(options->n_data + 1, sizeof(struct tmk_source *));
    feed->bound = calloc(feed->graph->n_inputs + 1u, sizeof *feed->bound);
    if (!feed->sources || !feed->bound)
        return tmk_nomem(diag);
    for (size_t d = 0; d < options->n_data;
         d++) { /* bindings by name first: they leave fewer inputs */
        const char *path;
        (void)split_binding(feed->graph, options->data[d], &path);
        TMK_TRY(tmk_source_open(path, decode, &feed->sources[d], diag));
        feed->n_sources++;
    }
    for (int named = 1; named >= 0; named--)
        for (size_t d = 0; d < options->n_data; d++) {
            const char *path;
            int32_t input = split_binding(feed->graph, options->data[d], &path);
            if (named && input >= 0)
                TMK_TRY(bind_to(feed, (uint32_t)input, (uint32_t)d, diag));
            else if (!named && input < 0)
                TMK_TRY(bind_by_name(feed, (uint32_t)d, diag));
        }
    for (uint32_t i = 0; i < feed->graph->n_inputs; i++)
        if (!feed->bound[i].taken)
            return tmk_fail(diag, TMK_ARGUMENT, "input '%s' has no data; add --data '%s=FILE'",
                            feed->graph->inputs[i]->name, feed->graph->inputs[i]->name);
    return TMK_OK;
}

static const struct tmk_source_array *array_of(const struct tmk_session_feed *feed,
                                               const struct bound *bound) {
    return &tmk_source_info(feed->sources[bound->source])->arrays[bound->array];
}

static enum tmk_status choose_cut(const struct tmk_session_feed *feed, uint32_t input,
                                  uint64_t batch, struct tmk_diag *diag) {
    struct bound *bound = &feed->bound[input];
    const struct tmk_source_array *array = array_of(feed, bound);
    const struct tmk_type *type = &feed->graph->inputs[input]->type;
    char want[256], have[256];
    size_t elements;
    bound->step = 1;
    if (!array->whole && (!tmk_shape_count(&array->shape, &elements) || !elements))
        return tmk_fail(diag, TMK_SHAPE, "%s: the array for input '%s' has no elements: shape %s",
                        tmk_source_info(feed->sources[bound->source])->path,
                        feed->graph->inputs[input]->name,
                        tmk_shape_text(&array->shape, have, sizeof have));
    if (array->whole) {
        bound->cut = CUT_WHOLE;
    } else if (type->has_shape && array->shape.rank == type->shape.rank + 1) {
        bound->cut = CUT_ENTRIES;
    } else if ((!type->has_shape || array->shape.rank == type->shape.rank) && array->shape.rank) {
        bound->cut = CUT_SLICES;
        int64_t fixed = type->has_shape ? type->shape.dim[0] : -1;
        bound->step = fixed > 0 ? (uint64_t)fixed : batch;
    } else {
        return tmk_fail(diag, TMK_SHAPE,
                        "%s: input '%s' has shape %s, but the array has %s; it must have the same "
                        "rank (cut along the first axis) or one more (one input an entry)",
                        tmk_source_info(feed->sources[bound->source])->path,
                        feed->graph->inputs[input]->name,
                        tmk_shape_text(&type->shape, want, sizeof want),
                        tmk_shape_text(&array->shape, have, sizeof have));
    }
    return TMK_OK;
}

/* The batch is the sources' common one: a fixed first dimension anywhere decides for the free ones
 * too. */
static enum tmk_status cut_all(struct tmk_session_feed *feed, const struct tmk_run_options *options,
                               struct tmk_diag *diag) {
    uint64_t batch = options->batch ? options->batch : 1;
    const struct tmk_graph *graph = feed->graph;
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const struct tmk_type *type = &graph->inputs[i]->type;
        const struct tmk_source_array *array = array_of(feed, &feed->bound[i]);
        if (!array->whole && type->has_shape && type->shape.rank &&
            array->shape.rank == type->shape.rank && type->shape.dim[0] > 0) {
            batch = (uint64_t)type->shape.dim[0];
            break;
        }
    }
    bool entries = false;
    feed->plan = (struct tmk_feed_plan){.batch = 1, .slices = graph->n_inputs > 0};
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        TMK_TRY(choose_cut(feed, i, batch, diag));
        if (feed->bound[i].cut != CUT_SLICES)
            entries = true;
    }
    if (entries) /* one entry is one sample: free batches cannot be gathered */
        feed->plan.slices = false;
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const struct tmk_type *type = &graph->inputs[i]->type;
        bool free_batch = !type->has_shape || type->shape.dim[0] <= 0;
        if (feed->bound[i].cut == CUT_SLICES && entries && free_batch)
            feed->bound[i].step = 1;
        if (feed->bound[i].cut == CUT_SLICES && !entries)
            feed->plan.batch = feed->bound[i].step;
    }
    return TMK_OK;
}

/* Does every input's first dimension take any size? Then the last batch may be smaller. */
static bool may_be_smaller(const struct tmk_session_feed *feed) {
    for (uint32_t i = 0; i < feed->graph->n_inputs; i++) {
        const struct tmk_type *type = &feed->graph->inputs[i]->type;
        if (type->has_shape && type->shape.rank && type->shape.dim[0] > 0)
            return false;
    }
    return feed->plan.slices;
}

static enum tmk_status count(struct tmk_session_feed *feed, const struct tmk_run_options *options,
                             struct tmk_diag *diag) {
    uint64_t samples = UINT64_MAX;
    const char *first = "";
    for (uint32_t i = 0; i < feed->graph->n_inputs; i++) {
        const struct bound *bound = &feed->bound[i];
        const struct tmk_source_info *info = tmk_source_info(feed->sources[bound->source]);
        uint64_t here = array_of(feed, bound)->n_entries;
        if (!feed->plan.slices) /* one batch a sample, however many entries it takes */
            here /= bound->step;
        if (samples == UINT64_MAX) {
            samples = here;
            first = info->path;
        } else if (samples != here) {
            return tmk_fail(diag, TMK_SHAPE,
                            "%s has %llu samples for '%s', but %s has %llu; inputs need the same "
                            "number",
                            info->path, (unsigned long long)here, feed->graph->inputs[i]->name,
                            first, (unsigned long long)samples);
        }
    }
    if (samples == UINT64_MAX)
        samples = 1; /* a model without inputs runs once */
    if (samples == 0)
        return tmk_fail(diag, TMK_SHAPE, "%s: holds no samples", first);
    struct tmk_feed_plan *plan = &feed->plan;
    plan->offered = options->limit && options->limit < samples ? options->limit : samples;
    feed->runs = plan->offered / plan->batch;
    plan->run = feed->runs * plan->batch;
    if (plan->run < plan->offered && may_be_smaller(feed)) {
        feed->runs++;
        plan->run = plan->offered;
    }
    if (!feed->runs)
        return tmk_fail(diag, TMK_SHAPE,
                        "%s: holds %llu samples, but the model runs %llu at a time", first,
                        (unsigned long long)plan->offered, (unsigned long long)plan->batch);
    return TMK_OK;
}

static enum tmk_status check_dims(const struct tmk_session_feed *feed, struct tmk_diag *diag) {
    const struct tmk_run_options *options = feed->options;
    for (size_t d = 0; d < options->n_dims; d++) {
        bool found = false;
        for (uint32_t i = 0; i < feed->graph->n_inputs && !found; i++)
            for (int k = 0; k < feed->graph->inputs[i]->type.shape.rank && !found; k++) {
                const char *symbol = feed->graph->inputs[i]->type.symbol[k];
                found = symbol && strcmp(symbol, options->dims[d].name) == 0;
            }
        if (!found)
            return tmk_fail(diag, TMK_ARGUMENT, "--dim %s: no input has a dimension of this name",
                            options->dims[d].name);
    }
    return TMK_OK;
}

enum tmk_status tmk_session_feed_open(const struct tmk_graph *graph,
                                      const struct tmk_run_options *options,
                                      struct tmk_session_feed **out, struct tmk_diag *diag) {
    struct tmk_session_feed *feed = calloc(1, sizeof *feed);
    if (!feed)
        return tmk_nomem(diag);
    feed->graph = graph;
    feed->options = options;
    enum tmk_status status = open_all(feed, options, diag);
    if (status == TMK_OK)
        status = check_dims(feed, diag);
    if (status == TMK_OK)
        status = cut_all(feed, options, diag);
    if (status == TMK_OK)
        status = count(feed, options, diag);
    if (status == TMK_OK)
        *out = feed;
    else
        tmk_session_feed_close(&feed);
    return status;
}

void tmk_session_feed_close(struct tmk_session_feed **slot) {
    struct tmk_session_feed *feed = slot ? *slot : NULL;
    if (!feed)
        return;
    *slot = NULL;
    for (uint32_t i = 0; i < feed->n_sources; i++)
        tmk_source_close(&feed->sources[i]);
    free(feed->sources);
    free(feed->bound);
    free(feed);
}

static enum tmk_status read_input(struct tmk_session_feed *feed, uint32_t input, uint64_t samples,
                                  struct tmk_tensor *out, struct tmk_diag *diag) {
    const struct bound *bound = &feed->bound[input];
    struct tmk_source *source = feed->sources[bound->source];
    uint64_t n = bound->cut != CUT_SLICES ? 1 : feed->plan.slices ? samples : bound->step;
    TMK_TRY(tmk_source_read(source, bound->array, feed->next * bound->step, n, out, diag));
    if (bound->cut == CUT_ENTRIES) {
        out->shape.rank--;
        memmove(out->shape.dim, out->shape.dim + 1,
                (size_t)out->shape.rank * sizeof out->shape.dim[0]);
    }
    return TMK_OK;
}

static enum tmk_status check_given(const struct tmk_session_feed *feed, const char *symbol,
                                   const struct tmk_value *input, int64_t size,
                                   struct tmk_diag *diag) {
    for (size_t d = 0; d < feed->options->n_dims; d++)
        if (strcmp(feed->options->dims[d].name, symbol) == 0 &&
            feed->options->dims[d].value != size)
            return tmk_fail(diag, TMK_SHAPE, "dimension '%s' is %lld in input '%s', not %lld",
                            symbol, (long long)size, input->name,
                            (long long)feed->options->dims[d].value);
    return TMK_OK;
}

struct sized_dim {
    const char *symbol;
    int64_t size;
    const struct tmk_value *input;
};

/* Equal names of free dimensions must be equal sizes, within a batch and with --dim. */
static enum tmk_status check_symbols(const struct tmk_session_feed *feed,
                                     const struct tmk_tensor *inputs, struct tmk_diag *diag) {
    enum { MOST_SYMBOLS = 64 }; /* distinct names; models have a handful */
    struct sized_dim seen[MOST_SYMBOLS];
    size_t n = 0;
    for (uint32_t i = 0; i < feed->graph->n_inputs; i++) {
        const struct tmk_value *input = feed->graph->inputs[i];
        const struct tmk_shape *shape = &inputs[i].shape;
        if (!input->type.has_shape || input->type.shape.rank != shape->rank)
            continue;
        for (int32_t k = 0; k < shape->rank; k++) {
            const char *symbol = input->type.symbol[k];
            size_t at = 0;
            if (!symbol)
                continue;
            TMK_TRY(check_given(feed, symbol, input, shape->dim[k], diag));
            while (at < n && strcmp(seen[at].symbol, symbol) != 0)
                at++;
            if (at < n && seen[at].size != shape->dim[k])
                return tmk_fail(diag, TMK_SHAPE,
                                "dimension '%s' is %lld in input '%s' and %lld in '%s'", symbol,
                                (long long)seen[at].size, seen[at].input->name,
                                (long long)shape->dim[k], input->name);
            if (at == n && n < MOST_SYMBOLS)
                seen[n++] = (struct sized_dim){symbol, shape->dim[k], input};
        }
    }
    return TMK_OK;
}

static enum tmk_status next(void *context, struct tmk_batch *out, bool *more,
                            struct tmk_diag *diag) {
    struct tmk_session_feed *feed = context;
    *more = feed->next < feed->runs;
    if (!*more)
        return TMK_OK;
    uint32_t n = feed->graph->n_inputs;
    uint64_t first = feed->next * feed->plan.batch, left = feed->plan.offered - first;
    struct tmk_batch batch = {.sample = first,
                              .samples = left < feed->plan.batch ? left : feed->plan.batch,
                              .inputs = calloc(n + 1u, sizeof *batch.inputs)};
    enum tmk_status status = batch.inputs ? TMK_OK : tmk_nomem(diag);
    for (; status == TMK_OK && batch.n_inputs < n; batch.n_inputs++)
        status =
            read_input(feed, batch.n_inputs, batch.samples, &batch.inputs[batch.n_inputs], diag);
    if (status == TMK_OK)
        status = check_symbols(feed, batch.inputs, diag);
    if (status != TMK_OK) {
        tmk_batch_finish(&batch);
        return tmk_in(diag, status, "sample %llu", (unsigned long long)first);
    }
    feed->next++;
    *out = batch;
    return TMK_OK;
}

struct tmk_feed tmk_session_feed_of(struct tmk_session_feed *feed) {
    return (struct tmk_feed){next, feed};
}

struct tmk_feed_plan tmk_session_feed_plan(const struct tmk_session_feed *feed) {
    return feed->plan;
}

const struct tmk_source_info *tmk_session_feed_source(const struct tmk_session_feed *feed,
                                                      uint32_t input) {
    return tmk_source_info(feed->sources[feed->bound[input].source]);
}

uint64_t tmk_session_feed_entries(const struct tmk_session_feed *feed, uint32_t input) {
    return array_of(feed, &feed->bound[input])->n_entries;
}
