/* SPDX-License-Identifier: Apache-2.0 */
/* Plain inference: chosen values of every batch, gathered into arrays. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/guess.h>

#include "base/diag.h"
#include "base/inputs.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/npz_write.h"
#include "ops/stack.h"
#include "session/partials.h"
#include "session/running.h"
#include "tensor/list.h"
#include "transform/model.h"

struct chosen {
    const struct tmk_value *value;
    struct tmk_gathered gathered;
};

struct gathering {
    struct tmk_graph *graph;
    bool slices; /* batches are slices of the data: results are joined along their first axis */
    struct chosen *all;
    size_t n;
};

struct choosing {
    struct gathering *g;
    const char *const *patterns;
    size_t n_patterns, size;
    bool *matched, failed;
};

static bool is_wanted(struct choosing *c, const struct tmk_value *value) {
    bool wanted = false;
    for (size_t i = 0; i < c->n_patterns; i++)
        if (tmk_glob(c->patterns[i], value->name) || strcmp(c->patterns[i], value->name) == 0)
            wanted = c->matched[i] = true;
    return wanted;
}

static bool add_wanted(struct choosing *c, const struct tmk_value *value) {
    struct gathering *g = c->g;
    if (!TMK_GROW(g->all, g->n, c->size))
        return false;
    g->all[g->n++] = (struct chosen){.value = value, .gathered = {.name = value->name}};
    return true;
}

/* Wanted values become graph outputs of the copy, so that the plan keeps them to the end of a
 * batch. */
static enum tmk_status choose_outputs(struct gathering *g, const char *const *patterns,
                                      size_t n_patterns, struct tmk_diag *diag) {
    struct choosing c = {.g = g, .patterns = patterns, .n_patterns = n_patterns};
    struct tmk_graph *graph = g->graph;
    c.matched = calloc(n_patterns + 1, sizeof *c.matched);
    bool ok = c.matched != NULL;
    for (uint32_t i = 0; ok && !n_patterns && i < graph->n_outputs; i++)
        ok = add_wanted(&c, graph->outputs[i]);
    for (uint32_t i = 0; ok && n_patterns && i < graph->n_values; i++)
        if (tmk_value_alive(graph->values[i]) && is_wanted(&c, graph->values[i]))
            ok = add_wanted(&c, graph->values[i]);
    enum tmk_status status = ok ? TMK_OK : tmk_nomem(diag);
    for (size_t i = 0; status == TMK_OK && i < n_patterns; i++)
        if (!c.matched[i]) {
            struct tmk_guess guess = {.wanted = patterns[i]};
            char meant[TMK_GUESS_SIZE];
            for (uint32_t v = 0; v < graph->n_values; v++)
                if (tmk_value_alive(graph->values[v]))
                    tmk_guess_try(&guess, graph->values[v]->name);
            status = tmk_fail(diag, TMK_NOTFOUND,
                              "'%s'%s names no value of the model; `tidemark graph` lists them",
                              patterns[i], tmk_guess_text(&guess, meant));
        }
    if (status == TMK_OK && !g->n)
        status = tmk_fail(diag, TMK_GRAPH, "the model has no outputs");
    for (size_t i = 0; status == TMK_OK && n_patterns && i < g->n; i++)
        status = tmk_graph_add_output(graph, (struct tmk_value *)(uintptr_t)g->all[i].value, diag);
    free(c.matched);
    return status;
}

/* A record is a copy of each value. */
static enum tmk_status copy_values(void *context, const struct tmk_ran *ran, void *record,
                                   struct tmk_diag *diag) {
    const struct gathering *g = context;
    struct tmk_tensor *copies = record;
    for (size_t i = 0; i < g->n; i++) {
        const struct tmk_tensor tensor = tmk_worker_value(ran->workers[0], g->all[i].value);
        if (tensor.kind != TMK_TYPE_TENSOR)
            return tmk_fail(diag, TMK_TYPE, "'%s' is %s, which is no array to be written",
                            g->all[i].gathered.name, tmk_tensor_what(&tensor));
        TMK_TRY(tmk_tensor_keep(&copies[i], &tensor, diag));
    }
    return TMK_OK;
}

static enum tmk_status gather_outputs(void *context, const void *record, struct tmk_diag *diag) {
    struct gathering *g = context;
    const struct tmk_tensor *copies = record;
    for (size_t i = 0; i < g->n; i++)
        TMK_TRY(tmk_gathered_append(&g->all[i].gathered, &copies[i], g->slices, diag));
    return TMK_OK;
}

static void drop_copies(void *context, void *record) {
    const struct gathering *g = context;
    struct tmk_tensor *copies = record;
    for (size_t i = 0; i < g->n; i++)
        tmk_tensor_finish(&copies[i]);
}

static enum tmk_status write_all(const struct gathering *g, const char *path,
                                 struct tmk_diag *diag) {
    struct tmk_tensor *tensors = calloc(g->n + 1, sizeof *tensors);
    struct tmk_npz_entry *entries = calloc(g->n + 1, sizeof *entries);
    enum tmk_status status = tensors && entries ? TMK_OK : tmk_nomem(diag);
    for (size_t i = 0; status == TMK_OK && i < g->n; i++) {
        status = tmk_gathered_tensor(&g->all[i].gathered, g->slices, &tensors[i], diag);
        entries[i] = (struct tmk_npz_entry){g->all[i].gathered.name, &tensors[i]};
    }
    TMK_THEN(status, tmk_npz_write(path, entries, g->n, diag));
    free(tensors);
    free(entries);
    return status;
}

static enum tmk_status run_all(struct gathering *g, struct tmk_running *run,
                               struct tmk_diag *diag) {
    const struct tmk_sink sink = {.record = copy_values,
                                  .record_bytes = g->n * sizeof(struct tmk_tensor),
                                  .merge = gather_outputs,
                                  .drop = drop_copies,
                                  .context = g};
    tmk_graph_number(g->graph);
    TMK_TRY(tmk_running_open(run, g->graph, diag));
    g->slices = tmk_feed_plan(run->feed).slices;
    return tmk_running_execute(run, &g->graph, 1, &sink, diag);
}

enum tmk_status tmk_model_run(struct tmk_model *model, const struct tmk_run_options *options,
                              const char *const *patterns, size_t n_patterns, const char *path,
                              struct tmk_diag *diag) {
    struct gathering g = {0};
    struct tmk_run_options mine = *options;
    struct tmk_running run = {.options = &mine, .path = model->path};
    mine.data.batch = options->data.batch ? options->data.batch : 1;
    tmk_inputs_begin();
    enum tmk_status status = tmk_in(diag, tmk_feed_takes(model->graph, diag), "%s", model->path);
    TMK_THEN(status, tmk_graph_clone_lazy(model->graph, &g.graph, diag));
    TMK_THEN(status,
             tmk_in(diag, choose_outputs(&g, patterns, n_patterns, diag), "%s", model->path));
    if (status == TMK_OK)
        status = tmk_npz_check(path, g.n, diag); /* before the run */
    TMK_THEN(status, run_all(&g, &run, diag));
    TMK_THEN(status, write_all(&g, path, diag));
    tmk_inputs_end();
    tmk_running_finish(&run);
    for (size_t i = 0; i < g.n; i++)
        tmk_gathered_finish(&g.all[i].gathered);
    free(g.all);
    tmk_graph_destroy(&g.graph);
    return status;
}

/* Runs of which no profile is kept, and plans of such. */

/* observe NULL: bare. */
static enum tmk_status run_once(struct tmk_running *run, struct tmk_model *model,
                                const struct tmk_observe *observe, struct tmk_diag *diag) {
    const double begin = tmk_running_now();
    TMK_TRY(tmk_running_graph(run, model, observe, diag));
    TMK_TRY(tmk_running_open(run, run->graph, diag));
    run->report.setup_seconds = tmk_running_now() - begin;
    return tmk_running_execute(run, &run->graph, 1, NULL, diag);
}

enum tmk_status tmk_model_run_bare(struct tmk_model *model, const struct tmk_run_options *options,
                                   struct tmk_run_report *report, struct tmk_diag *diag) {
    struct tmk_running run = {.options = options};
    enum tmk_status status = run_once(&run, model, NULL, diag);
    if (status == TMK_OK && report)
        *report = run.report;
    tmk_running_finish(&run);
    return status;
}

enum tmk_status tmk_model_plan_memory(struct tmk_model *model,
                                      const struct tmk_run_options *options,
                                      const struct tmk_observe *observe,
                                      struct tmk_memory_plan *out, struct tmk_diag *diag) {
    struct tmk_running run = {.options = options};
    enum tmk_status status = tmk_running_graph(&run, model, observe, diag);
    if (status == TMK_OK && observe)
        status = tmk_running_may_divide(&run, diag);
    if (status == TMK_OK) {
        const struct tmk_memory_request request = tmk_running_memory(&run, run.graph);
        status = tmk_memory_planned(&request, out, NULL, diag);
    }
    tmk_running_finish(&run);
    return status;
}

/* ---- costs ---- */

static enum tmk_status list_costs(const struct tmk_timing *timing, struct tmk_costs *out,
                                  struct tmk_diag *diag) {
    struct tmk_step_cost *steps = calloc(timing->n + 1u, sizeof *steps);
    TMK_TRY_ALLOC(steps, diag);
    for (uint32_t i = 0; i < timing->n; i++) {
        const struct tmk_step_time *time = &timing->steps[i];
        snprintf(steps[i].name, sizeof steps[i].name, "%s", TMK_NODE_LABEL(time->node));
        snprintf(steps[i].what, sizeof steps[i].what, "%s", time->what);
        snprintf(steps[i].kernel, sizeof steps[i].kernel, "%s", time->kernel);
        steps[i].runs = time->runs;
        steps[i].seconds = (double)time->ns * 1e-9;
        steps[i].observe_seconds = (double)time->observe_ns * 1e-9;
    }
    *out = (struct tmk_costs){steps, timing->n};
    return TMK_OK;
}

enum tmk_status tmk_model_costs(struct tmk_model *model, const struct tmk_run_options *options,
                                const struct tmk_observe *observe, struct tmk_costs *out,
                                struct tmk_diag *diag) {
    struct tmk_running run = {.options = options, .timing = true};
    enum tmk_status status = run_once(&run, model, observe, diag);
    TMK_THEN(status, list_costs(&run.result.timing, out, diag));
    tmk_running_finish(&run);
    return status;
}

void tmk_costs_finish(struct tmk_costs *costs) {
    free(costs->steps);
    *costs = (struct tmk_costs){0};
}
