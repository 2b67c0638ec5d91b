/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of which no profile is kept, and plans of such. */
#include <stdio.h>
#include <stdlib.h>

#include "base/diag.h"
#include "session/running.h"

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
    if (status == TMK_OK) {
        const struct tmk_memory_request request = tmk_running_memory(&run, run.graph);
        status = tmk_memory_planned(&request, out, diag);
    }
    tmk_running_finish(&run);
    return status;
}

/* ---- costs ---- */

static enum tmk_status list_costs(const struct tmk_timing *timing, struct tmk_costs *out,
                                  struct tmk_diag *diag) {
    struct tmk_step_cost *steps = calloc(timing->n + 1u, sizeof *steps);
    if (!steps)
        return tmk_nomem(diag);
    for (uint32_t i = 0; i < timing->n; i++) {
        const struct tmk_step_time *time = &timing->steps[i];
        char label[256];
        snprintf(steps[i].name, sizeof steps[i].name, "%s",
                 tmk_node_label(time->node, label, sizeof label));
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
    if (status == TMK_OK)
        status = list_costs(&run.result.timing, out, diag);
    tmk_running_finish(&run);
    return status;
}

void tmk_costs_finish(struct tmk_costs *costs) {
    free(costs->steps);
    *costs = (struct tmk_costs){0};
}
