/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_run.h"
#include "graph_text/read.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "exec/derive.h"
#include "exec/run.h"
#include "graph/graph.h"
#include "pass/instrument.h"
#include "stats/state.h"
#include "tools/op_rows.h"

bool says(struct check *c, const char *fmt, ...) {
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    tmk_text_printf(c->why, "%s\n", text);
    return false;
}

static void *need(void *memory) {
    if (!memory) {
        fprintf(stderr, "out of memory\n");
        exit(2);
    }
    return memory;
}

#define GOES(call) ((call) == TMK_OK || says(c, "%s: %s", #call, diag.text))

/* ---- the scene ---- */

static bool open_scene(struct check *c) {
    struct scene *s = &c->scene;
    const struct tmk_instrument_options all = {.kind = TMK_OBSERVER_HISTOGRAM};
    struct tmk_diag diag = {0};
    uint64_t samples = 0;
    for (uint32_t b = 0; b < s->made->n_batches; b++) {
        s->first[b] = samples;
        samples += s->made->samples[b];
    }
    if (!GOES(parse_graph(s->made->text.data, &s->made->pool, &s->bare, &diag)) ||
        !GOES(tmk_graph_sort(s->bare, &diag)) || !GOES(tmk_ops_bind(s->bare, &diag)) ||
        !GOES(tmk_graph_identify(s->bare, NULL, &diag)) ||
        !GOES(tmk_graph_clone(s->bare, &s->graph, &diag)) ||
        !GOES(tmk_instrument(s->graph, &all, NULL, &diag)) || !GOES(tmk_ops_bind(s->graph, &diag)))
        return false;
    tmk_graph_number(s->bare);
    tmk_graph_number(s->graph);
    if (!GOES(tmk_observer_slots(s->graph, &s->observers, &s->n_slots, &diag)))
        return false;
    s->configs = need(calloc(s->n_slots + 1u, sizeof *s->configs));
    s->needs = need(calloc(s->n_slots + 1u, 1));
    static const enum tmk_stats_level levels[] = {TMK_STATS_HISTOGRAM, TMK_STATS_HISTOGRAM,
                                                  TMK_STATS_RANGE, TMK_STATS_MINMAX};
    static const uint32_t excluded[] = {0, 0x80000000, 0x7f800000, 0x477fe000}; /* 65504 */
    const bool mixed = s->made->how % 5 == 4, excludes = (s->made->how >> 12 & 3) == 3;
    for (uint32_t i = 0; i < s->n_slots; i++) {
        const struct tmk_value *value = tmk_value_source(s->observers[i].node->outputs[0]);
        s->configs[i] = (struct tmk_slot_config){
            .level = levels[(s->made->how + (mixed ? i / 3 : 0)) % 4],
            .per_sample = s->made->how >> 5 & 1,
            .topk = s->made->how >> 6 & 1,
            .exclude = excluded,
            .n_exclude = excludes && value->kind != TMK_VALUE_INITIALIZER ? TMK_COUNT(excluded) : 0,
            .label = "a value"};
    }
    if (!GOES(tmk_derive_rules(s->graph, s->observers, s->configs, s->n_slots, &diag)))
        return false;
    for (uint32_t i = 0; i < s->n_slots; i++)
        s->needs[i] = tmk_slot_need(&s->configs[i]);
    return true;
}

static void close_scene(struct scene *s) {
    for (uint32_t i = 0; s->configs && i < s->n_slots; i++)
        free(s->configs[i].sources);
    free(s->configs);
    free(s->needs);
    free(s->observers);
    tmk_graph_destroy(&s->graph);
    tmk_graph_destroy(&s->bare);
}

/* ---- keeping what observers are shown ---- */

struct capture {
    const struct scene *scene;
    struct slot_log *logs;
    uint32_t batch;
};

static void open_capture(struct capture *k, const struct scene *scene) {
    *k = (struct capture){scene, need(calloc(scene->n_slots + 1u, sizeof *k->logs)), 0};
}

static void close_capture(struct capture *k) {
    for (uint32_t i = 0; k->logs && i < k->scene->n_slots; i++) {
        for (uint32_t j = 0; j < k->logs[i].n; j++)
            tmk_tensor_finish(&k->logs[i].items[j].tensor);
        free(k->logs[i].items);
        free(k->logs[i].open);
    }
    free(k->logs);
}

static void copy_tensor(struct tmk_tensor *to, const struct tmk_tensor *from) {
    need(tmk_tensor_init(to, from->dtype, &from->shape, NULL) == TMK_OK ? to : NULL);
    if (tmk_tensor_bytes(to))
        memcpy(to->data, from->data, tmk_tensor_bytes(to));
}

static struct seen *add_seen(struct capture *k, uint32_t slot, const struct tmk_tensor *tensor,
                             int32_t axis) {
    struct slot_log *log = &k->logs[slot];
    if (log->n == log->size) {
        log->size = log->size ? 2 * log->size : 2;
        log->items = need(realloc(log->items, log->size * sizeof *log->items));
    }
    struct seen *s = &log->items[log->n++];
    *s = (struct seen){.sample = k->scene->first[k->batch],
                       .samples = k->scene->made->samples[k->batch],
                       .axis = axis,
                       .batch = k->batch};
    tmk_tensor_borrow(&s->tensor, tensor->dtype, &tensor->shape, NULL);
    return s;
}

static void fill_seen(struct seen *s, const float *data, uint32_t block) {
    const struct tmk_shape shape = s->tensor.shape;
    need(tmk_tensor_init(&s->tensor, s->tensor.dtype, &shape, NULL) == TMK_OK ? s : NULL);
    if (!tmk_tensor_bytes(&s->tensor))
        return;
    if (block > 1)
        tmk_from_blocks(data, s->tensor.data, &shape, block);
    else
        memcpy(s->tensor.data, data, tmk_tensor_bytes(&s->tensor));
}

static enum tmk_status look(void *context, uint32_t slot, const struct tmk_tensor *tensor,
                            int32_t axis, uint32_t block, struct tmk_diag *diag) {
    struct capture *k = context;
    (void)diag;
    struct seen *s = add_seen(k, slot, tensor, axis);
    if (tensor->data)
        fill_seen(s, tensor->data, block);
    return TMK_OK;
}

static enum tmk_status begin(void *context, uint32_t slot, const struct tmk_tensor *tensor,
                             int32_t axis, uint32_t block, struct tmk_diag *diag) {
    struct capture *k = context;
    size_t places = 0;
    (void)diag;
    (void)tmk_blocked_count(&tensor->shape, block, &places);
    k->logs[slot].open = need(malloc(places * sizeof(float) + 1));
    memset(k->logs[slot].open, 0xff, places * sizeof(float));
    struct seen *s = add_seen(k, slot, tensor, axis);
    s->initializer = false;
    s->tensor.list = NULL;
    s->tensor.kind = TMK_TYPE_TENSOR;
    s->samples = k->scene->made->samples[k->batch];
    s->tensor.origin = (enum tmk_dtype)block; /* until the end */
    return TMK_OK;
}

static enum tmk_status piece(void *context, uint32_t slot, const float *x, size_t first, size_t n,
                             struct tmk_diag *diag) {
    struct capture *k = context;
    (void)diag;
    memcpy(k->logs[slot].open + first, x, n * sizeof *x);
    return TMK_OK;
}

static enum tmk_status end(void *context, uint32_t slot, struct tmk_diag *diag) {
    struct capture *k = context;
    struct slot_log *log = &k->logs[slot];
    struct seen *s = &log->items[log->n - 1];
    (void)diag;
    fill_seen(s, log->open, (uint32_t)s->tensor.origin);
    free(log->open);
    log->open = NULL;
    return TMK_OK;
}

/* ---- one batch, one way ---- */

struct outcome {
    enum tmk_status status;
    struct tmk_diag diag;
    struct tmk_plan *plan;
    struct tmk_worker *worker;
};

static void run_batch(const struct tmk_graph *graph, const struct tmk_plan_options *options,
                      const struct tmk_tensor *inputs, struct capture *capture,
                      struct outcome *out) {
    const struct tmk_watch watch = {look, begin, piece, end, capture};
    *out = (struct outcome){0};
    struct tmk_tensor shapes[MOST_MADE_INPUTS];
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        tmk_tensor_borrow(&shapes[i], inputs[i].dtype, &inputs[i].shape, NULL);
    out->status = tmk_plan_create(graph, shapes, options, &out->plan, &out->diag);
    if (out->status == TMK_OK)
        out->status = tmk_worker_create(&out->worker, &out->diag);
    if (out->status == TMK_OK)
        out->status =
            tmk_worker_run(out->worker, out->plan, inputs, capture ? &watch : NULL, &out->diag);
    if (out->status != TMK_OK || !capture)
        return;
    for (uint32_t t = 0; t < out->plan->n_constant_taps; t++) { /* the cache reads those */
        const struct tmk_plan_tap *tap = &out->plan->constant_taps[t];
        const struct tmk_plan_value *value = &out->plan->values[tap->value];
        if (value->initializer && capture->logs[tap->slot].n)
            continue;
        struct seen *s = add_seen(capture, tap->slot, &value->constant, value->channel_axis);
        fill_seen(s, value->constant.data, 0);
        s->whole = true;
        s->initializer = value->initializer;
    }
}

static void end_outcome(struct outcome *o) {
    tmk_worker_destroy(&o->worker);
    tmk_plan_destroy(&o->plan);
}

/* ---- each node on the operands that it had ---- */

struct walk {
    struct check *c;
    struct capture *capture;
    const struct outcome *outcome;
    struct tmk_tensor *values; /* by value index; what later nodes are given */
    uint32_t *slots;           /* by value index, + 1 */
    bool exact;
};

/* The value as it was in this batch; NULL: it was not observed. */
static struct seen *seen_now(const struct walk *w, const struct tmk_value *value) {
    const uint32_t slot = w->slots[value->index];
    struct slot_log *log = slot ? &w->capture->logs[slot - 1] : NULL;
    for (uint32_t i = log ? log->n : 0; i-- > 0;)
        if (log->items[i].batch == w->capture->batch || log->items[i].initializer)
            return &log->items[i];
    return NULL;
}

static bool check_output(struct walk *w, const struct tmk_node *node,
                         const struct tmk_tensor *const *in, uint32_t i,
                         struct tmk_tensor *computed) {
    const struct tmk_value *value = node->outputs[i];
    struct seen *s = seen_now(w, value);
    if (computed->kind != TMK_TYPE_TENSOR || !s) {
        w->values[value->index] = *computed;
        return true;
    }
    if (!s->tensor.data && s->tensor.dtype == TMK_FLOAT32 &&
        w->c->scene.needs[w->slots[value->index] - 1] == TMK_TAP_SHAPE) {
        if (!tmk_shape_equal(&s->tensor.shape, &computed->shape))
            return says(w->c, "%s: another shape was seen", node->op);
        w->c->tally->derived++;
        copy_tensor(&s->tensor, computed);
    }
    const bool good = node_agrees(w->c, node, in, i, computed, &s->tensor, w->exact);
    tmk_tensor_finish(computed);
    tmk_tensor_share(&w->values[value->index], &s->tensor);
    return good;
}

static bool check_node(struct walk *w, const struct tmk_node *node) {
    const struct tmk_tensor *in[TMK_MAX_INPUTS];
    struct tmk_tensor *out = need(calloc(node->n_outputs + 1u, sizeof *out));
    struct tmk_diag diag = {0};
    bool good = true, ready = !(node->row->flags & TMK_OP_RUNS_GRAPHS);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        in[i] = node->inputs[i] ? &w->values[tmk_value_source(node->inputs[i])->index] : NULL;
        ready &= !in[i] || in[i]->dtype != TMK_UNDEFINED;
    }
    if (ready) {
        const enum tmk_status status = tmk_op_run(node, in, out, &diag);
        w->c->tally->nodes++;
        if (status != TMK_OK)
            good = says(w->c, "%s does not run alone: %s", node->op, diag.text);
        for (uint32_t i = 0; good && i < node->n_outputs; i++)
            if (node->outputs[i])
                good = check_output(w, node, in, i, &out[i]);
            else
                tmk_tensor_finish(&out[i]);
    } else {
        for (uint32_t i = 0; i < node->n_outputs; i++) {
            const struct seen *s = node->outputs[i] ? seen_now(w, node->outputs[i]) : NULL;
            if (s && s->tensor.data)
                tmk_tensor_share(&w->values[node->outputs[i]->index], &s->tensor);
        }
    }
    free(out);
    return good;
}

static void count_row(struct graph_tally *tally, const struct tmk_op *row) {
    const struct tmk_op *const *list = op_rows();
    for (size_t i = 0; list[i]; i++)
        tally->rows[i] += list[i] == row;
}

static bool check_nodes(struct check *c, struct capture *capture, const struct tmk_tensor *inputs,
                        const struct outcome *outcome, bool exact) {
    const struct scene *s = &c->scene;
    const uint32_t n = tmk_graph_number(s->graph);
    struct walk w = {c,
                     capture,
                     outcome,
                     need(calloc(n + 1u, sizeof *w.values)),
                     need(calloc(n + 1u, sizeof *w.slots)),
                     exact};
    bool good = true;
    for (uint32_t i = 0; i < s->n_slots; i++)
        if (!s->observers[i].in_subgraph)
            w.slots[tmk_value_source(s->observers[i].node->outputs[0])->index] = i + 1;
    for (uint32_t i = 0; i < s->graph->n_values; i++) {
        const struct tmk_value *value = s->graph->values[i];
        if (value->kind == TMK_VALUE_INITIALIZER && tmk_value_alive(value))
            tmk_tensor_share(&w.values[value->index], &value->data);
    }
    for (uint32_t i = 0; i < s->graph->n_inputs; i++) {
        const struct seen *now = seen_now(&w, s->graph->inputs[i]);
        tmk_tensor_share(&w.values[s->graph->inputs[i]->index], &inputs[i]);
        if (now && !same_bits(&now->tensor, &inputs[i]))
            good = says(c, "input %u was seen otherwise", i);
    }
    for (const struct tmk_node *node = s->graph->first; good && node; node = node->next)
        if (!tmk_node_is_observer(node)) {
            good = check_node(&w, node);
            if (exact)
                count_row(c->tally, node->row);
        }
    /* what the run hands out is what observers saw */
    for (uint32_t i = 0; good && i < s->graph->n_outputs; i++) {
        const struct tmk_value *value = tmk_value_source(s->graph->outputs[i]);
        const struct tmk_tensor got = tmk_worker_value(outcome->worker, s->graph->outputs[i]);
        const struct tmk_tensor *want = &w.values[value->index];
        if (got.kind == TMK_TYPE_TENSOR && want->dtype != TMK_UNDEFINED && !same_bits(&got, want))
            good = says(c, "output %u '%s' is not what was observed", i, value->name);
    }
    for (uint32_t i = 0; i < n; i++)
        tmk_tensor_finish(&w.values[i]);
    free(w.values);
    free(w.slots);
    return good;
}

/* ---- all batches, plain and accelerated ---- */

static void count_steps(struct graph_tally *tally, const struct tmk_plan *plan) {
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        tally->chains += plan->steps[i].kind == TMK_STEP_CHAIN;
        tally->accels += plan->steps[i].kind == TMK_STEP_ACCEL;
        tally->blocked += plan->steps[i].kind == TMK_STEP_TO_BLOCKS;
    }
}

/* What is not watched is the same. */
static bool check_bare(struct check *c, const struct tmk_tensor *inputs,
                       const struct outcome *watched) {
    struct outcome o;
    bool good = true;
    run_batch(c->scene.bare, NULL, inputs, NULL, &o);
    if (o.status != watched->status)
        good = says(c, "without observers: %s; with: %s", o.diag.text, watched->diag.text);
    for (uint32_t i = 0; good && o.status == TMK_OK && i < c->scene.bare->n_outputs; i++) {
        const struct tmk_tensor a = tmk_worker_value(o.worker, c->scene.bare->outputs[i]),
                                b = tmk_worker_value(watched->worker, c->scene.graph->outputs[i]);
        if (a.kind == TMK_TYPE_TENSOR && !same_bits(&a, &b))
            good = says(c, "output %u '%s' is another without observers", i,
                        c->scene.bare->outputs[i]->name);
    }
    end_outcome(&o);
    return good;
}

/* *ran: the batch ran, in both ways. */
static bool check_batch(struct check *c, struct capture *plain, struct capture *fast, uint32_t b,
                        bool *ran) {
    struct tmk_tensor inputs[MOST_MADE_INPUTS];
    struct outcome o, p;
    const struct tmk_plan_options node_by_node = {.plain = true},
                                  arranged = {.needs = c->scene.needs};
    made_inputs(c->scene.made, b, inputs);
    plain->batch = fast->batch = b;
    run_batch(c->scene.graph, &node_by_node, inputs, plain, &p);
    run_batch(c->scene.graph, &arranged, inputs, fast, &o);
    bool good =
        p.status == o.status || says(c, "plain: status %d, %s; accelerated: %d, %s", (int)p.status,
                                     p.diag.text, (int)o.status, o.diag.text);
    *ran = p.status == TMK_OK;
    if (good && *ran) {
        good = check_nodes(c, plain, inputs, &p, true) || says(c, "(plain, batch %u)", b);
        good = good &&
               (check_nodes(c, fast, inputs, &o, false) || says(c, "(accelerated, batch %u)", b));
        count_steps(c->tally, o.plan);
    }
    good = good && check_bare(c, inputs, &o);
    end_outcome(&p);
    end_outcome(&o);
    for (uint32_t i = 0; i < c->scene.made->n_inputs; i++)
        tmk_tensor_finish(&inputs[i]);
    return good;
}

/* ---- the executor ---- */

struct feeding {
    const struct scene *scene;
    uint32_t next, end;
};

static enum tmk_status feed(void *context, struct tmk_batch *out, bool *more,
                            struct tmk_diag *diag) {
    struct feeding *f = context;
    (void)diag;
    *more = f->next < f->end;
    if (!*more)
        return TMK_OK;
    const uint32_t b = f->next++, n = f->scene->made->n_inputs;
    *out = (struct tmk_batch){.sample = f->scene->first[b],
                              .samples = f->scene->made->samples[b],
                              .inputs = need(calloc(n + 1u, sizeof *out->inputs)),
                              .n_inputs = n};
    made_inputs(f->scene->made, b, out->inputs);
    return TMK_OK;
}

static struct tmk_exec_options options_of(const struct scene *s, uint32_t threads) {
    return (struct tmk_exec_options){.threads = threads,
                                     .observe = {.slots = s->configs, .n_slots = s->n_slots}};
}

static struct tmk_text state_of(const struct tmk_account *accounts, uint32_t n) {
    struct tmk_text text = {0};
    for (uint32_t i = 0; i < n; i++) {
        const struct tmk_account *a = &accounts[i];
        if (a->floats)
            tmk_stats_encode(a->floats, &text);
        else
            tmk_int_stats_encode(&a->ints, &text);
        tmk_text_printf(&text, "|%d %llu %llu %u %d:", (int)a->dtype,
                        (unsigned long long)a->elements, (unsigned long long)a->runs, a->n_shapes,
                        a->more_shapes);
        tmk_text_append(&text, (const char *)&a->topk, sizeof a->topk);
        for (size_t k = 0; k < a->samples.n; k++) {
            tmk_text_append(&text, (const char *)&a->samples.sample[k], sizeof(uint64_t));
            tmk_text_append(&text, (const char *)&a->samples.range[k].min, 2 * sizeof(float));
        }
    }
    return text;
}

static bool same_states(struct check *c, const struct tmk_account *a, const struct tmk_account *b,
                        const char *what) {
    for (uint32_t i = 0; i < c->scene.n_slots; i++) {
        struct tmk_text x = state_of(a + i, 1), y = state_of(b + i, 1);
        const bool same = x.len == y.len && memcmp(x.data, y.data, x.len) == 0;
        tmk_text_finish(&x);
        tmk_text_finish(&y);
        if (!same)
            return says(c, "the state of '%s' (rule %d) is another %s",
                        c->scene.observers[i].tensor_name, (int)c->scene.configs[i].rule, what);
    }
    return true;
}

static bool check_threads(struct check *c, const struct tmk_exec_result *one) {
    const struct scene *s = &c->scene;
    struct feeding from = {s, 0, s->made->n_batches};
    const struct tmk_batch_source source = {feed, &from};
    const struct tmk_exec_options options = options_of(s, 2 + (s->made->how >> 8) % 2);
    struct tmk_exec_result many;
    struct tmk_diag diag = {0};
    if (!GOES(tmk_exec_run(&s->graph, 1, &source, &options, &many, &diag)))
        return false;
    const bool good =
        same_states(c, one->counted.accounts, many.counted.accounts, "with more threads");
    tmk_exec_result_finish(&many);
    return good;
}

/* As merging profiles does: what follows from a value without squares has none. */
static void coarsen_derived(const struct scene *s, struct tmk_account *accounts) {
    for (uint32_t round = 0; round < s->n_slots; round++)
        for (uint32_t i = 0; i < s->n_slots; i++)
            for (uint32_t k = 0; k < s->configs[i].n_sources; k++) {
                const struct tmk_stats *from = accounts[s->configs[i].sources[k]].floats;
                if (accounts[i].floats && accounts[i].floats->n_wide && from &&
                    !tmk_stats_is_narrow(from))
                    tmk_stats_coarsen(accounts[i].floats);
            }
}

/* In two legs, cut anywhere behind the first batch: a group of which nothing ran has no accounts.
 */
static bool check_legs(struct check *c, const struct tmk_exec_result *whole) {
    const struct scene *s = &c->scene;
    const uint32_t cut = 1 + (s->made->how >> 10) % s->made->n_batches;
    const struct tmk_exec_options options = options_of(s, 1);
    struct tmk_exec *exec = NULL;
    struct tmk_exec_result a = {0}, b = {0};
    struct tmk_diag diag = {0};
    struct feeding first = {s, 0, cut}, second = {s, cut, s->made->n_batches};
    bool good = GOES(tmk_exec_open(&s->graph, 1, &options, &exec, &diag)) &&
                GOES(tmk_exec_segment(exec, &(struct tmk_batch_source){feed, &first}, &a, &diag)) &&
                GOES(tmk_exec_segment(exec, &(struct tmk_batch_source){feed, &second}, &b, &diag));
    for (uint32_t i = 0; good && i < s->n_slots; i++)
        good = GOES(tmk_account_merge(&a.counted.accounts[i], &b.counted.accounts[i], 1,
                                      &s->configs[i], &diag));
    if (good)
        coarsen_derived(s, a.counted.accounts);
    good = good && same_states(c, whole->counted.accounts, a.counted.accounts, "in two legs");
    tmk_exec_result_finish(&a);
    tmk_exec_result_finish(&b);
    tmk_exec_close(&exec);
    return good;
}

/* Nodes that begin blocks: about every `step`-th. */
static struct tmk_cuts cut_graph(const struct tmk_graph *graph, uint32_t step) {
    struct tmk_cuts cuts = {.n = 1};
    uint32_t n = 0;
    for (const struct tmk_node *node = graph->first; node; node = node->next)
        n++;
    cuts.first = need(calloc(n + 1u, sizeof *cuts.first));
    n = 0;
    for (const struct tmk_node *node = graph->first; node; node = node->next)
        if (n++ && n % step == 0)
            cuts.first[cuts.n++] = node;
    return cuts;
}

/* Block by block, where every value is looked at. */
static bool check_blocks(struct check *c, const struct tmk_exec_result *whole) {
    const struct scene *s = &c->scene;
    struct feeding from = {s, 0, s->made->n_batches};
    const struct tmk_batch_source source = {feed, &from};
    struct tmk_cuts cuts = cut_graph(s->graph, 1 + (s->made->how >> 14) % 7);
    struct tmk_slot_config *unruled = need(calloc(s->n_slots + 1u, sizeof *unruled));
    struct tmk_exec_options options = options_of(s, 1 + (s->made->how >> 8) % 2);
    struct tmk_exec_result blocks;
    struct tmk_diag diag = {0};
    for (uint32_t i = 0; i < s->n_slots; i++) {
        unruled[i] = s->configs[i];
        tmk_slot_drop_rule(&unruled[i]);
    }
    options.observe.slots = unruled;
    options.cuts = &cuts;
    options.together = 1 + (s->made->how >> 17) % 3;
    bool good = GOES(tmk_exec_run(&s->graph, 1, &source, &options, &blocks, &diag));
    if (good) {
        good = same_states(c, whole->counted.accounts, blocks.counted.accounts, "in blocks");
        tmk_exec_result_finish(&blocks);
    }
    free(unruled);
    tmk_cuts_finish(&cuts);
    return good;
}

static bool check_executor(struct check *c, const struct capture *seen, bool runs) {
    const struct scene *s = &c->scene;
    struct feeding from = {s, 0, s->made->n_batches};
    const struct tmk_batch_source source = {feed, &from};
    const struct tmk_exec_options options = options_of(s, 1);
    struct tmk_exec_result one;
    struct tmk_diag diag = {0};
    const enum tmk_status status = tmk_exec_run(&s->graph, 1, &source, &options, &one, &diag);
    if ((status == TMK_OK) != runs)
        return says(c, "the executor says %d, %s", (int)status, diag.text);
    if (!runs)
        return true;
    bool good = true;
    for (uint32_t i = 0; good && i < s->n_slots; i++)
        good = recount_agrees(c, i, &seen->logs[i], &one.counted.accounts[i]);
    good = good && check_threads(c, &one) && check_blocks(c, &one) && check_legs(c, &one);
    tmk_exec_result_finish(&one);
    return good;
}

bool graph_check(const struct made_graph *made, struct graph_tally *tally, struct tmk_text *why) {
    struct check check = {.scene = {.made = made}, .tally = tally, .why = why}, *c = &check;
    struct capture plain, fast;
    bool runs = true;
    tmk_kernel_enter_thread();
    tally->graphs++;
    bool good = open_scene(c);
    if (good) {
        open_capture(&plain, &c->scene);
        open_capture(&fast, &c->scene);
        for (uint32_t b = 0; good && b < made->n_batches; b++) {
            bool ran = false;
            good = check_batch(c, &plain, &fast, b, &ran);
            runs &= ran;
        }
        tally->failed_alike += good && !runs;
        good = good && check_executor(c, &fast, runs);
        good = good && (!runs || passes_agree(c));
        close_capture(&plain);
        close_capture(&fast);
    }
    close_scene(&c->scene);
    return good;
}
