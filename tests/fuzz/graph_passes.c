/* SPDX-License-Identifier: Apache-2.0 */
/* Passes over made graphs. How near the outputs have to be is measured: the graph is run once more
 * with every float off by a few parts in a million, and where that shows much, nothing is said. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/lineage.h"
#include "graph/literal.h"
#include "graph_run.h"
#include "graph_text/read.h"
#include "ops/stack.h"
#include "pass/pass.h"

#define GOES(call) ((call) == TMK_OK || says(c, "%s: %s", #call, diag.text))

/* Outputs of the first batch by plain kernels. */
static bool run_plain(struct check *c, struct tmk_graph *graph, const struct tmk_tensor *inputs,
                      struct tmk_tensor *outputs) {
    const struct tmk_plan_options node_by_node = {.plain = true};
    struct tmk_plan *plan = NULL;
    struct tmk_worker *worker = NULL;
    struct tmk_diag diag = {0};
    tmk_graph_number(graph);
    bool good = GOES(tmk_plan_create(graph, inputs, &node_by_node, &plan, &diag)) &&
                GOES(tmk_worker_create(&worker, &diag)) &&
                GOES(tmk_worker_run(worker, plan, inputs, NULL, &diag));
    for (uint32_t i = 0; good && i < graph->n_outputs; i++) {
        const struct tmk_tensor value = tmk_worker_value(worker, graph->outputs[i]);
        good = GOES(tmk_tensor_keep(&outputs[i], &value, &diag));
    }
    tmk_worker_destroy(&worker);
    tmk_plan_destroy(&plan);
    return good;
}

/* The same graph with its floats a little off. */
static bool nudge(const struct made_graph *made, struct made_graph *out) {
    uint64_t state = made->seed;
    *out = *made;
    out->pool = (struct tensor_pool){0};
    for (size_t i = 0; i < made->pool.n; i++) {
        struct tmk_tensor copy;
        if (tmk_tensor_init(&copy, made->pool.tensors[i].dtype, &made->pool.tensors[i].shape,
                            NULL) != TMK_OK)
            return false;
        if (tmk_tensor_bytes(&copy))
            memcpy(copy.data, made->pool.tensors[i].data, tmk_tensor_bytes(&copy));
        for (size_t k = 0; copy.dtype == TMK_FLOAT32 && k < tmk_tensor_count(&copy); k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            ((float *)copy.data)[k] *= 1 + ((float)(state >> 40) / (1 << 24) - 0.5f) * 4e-6f;
        }
        const bool good = tensor_pool_add(&out->pool, &copy);
        tmk_tensor_finish(&copy);
        if (!good)
            return false;
    }
    return true;
}

static void nudge_inputs(struct tmk_tensor *inputs, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        for (size_t k = 0; inputs[i].dtype == TMK_FLOAT32 && k < tmk_tensor_count(&inputs[i]); k++)
            ((float *)inputs[i].data)[k] *= k % 2 ? 1 + 2e-6f : 1 - 2e-6f;
}

/* How far apart two outputs are at most, and how far the first reaches; infinite where they are not
 * of one kind. */
static double apart(const struct tmk_tensor *a, const struct tmk_tensor *b, double *reach) {
    double most = 0;
    *reach = 0;
    if (a->dtype != b->dtype || !tmk_shape_equal(&a->shape, &b->shape))
        return INFINITY;
    if (a->dtype != TMK_FLOAT32)
        return tmk_tensor_bytes(a) && memcmp(a->data, b->data, tmk_tensor_bytes(a)) != 0 ? INFINITY
                                                                                         : 0;
    for (size_t i = 0; i < tmk_tensor_count(a); i++) {
        const double x = (double)((const float *)a->data)[i],
                     y = (double)((const float *)b->data)[i];
        if (isnan(x) && isnan(y))
            continue;
        const double d = isfinite(x) && isfinite(y) ? fabs(x - y) : x == y ? 0 : INFINITY;
        most = fmax(most, isnan(d) ? INFINITY : d);
        *reach = isfinite(x) ? fmax(*reach, fabs(x)) : *reach;
    }
    return most;
}

struct outputs {
    struct tmk_tensor plain[64], nudged[64], passed[64];
    uint32_t n;
};

static bool compare(struct check *c, const struct outputs *o, const char *list) {
    for (uint32_t i = 0; i < o->n; i++) {
        double reach, ignored;
        if (o->plain[i].kind != TMK_TYPE_TENSOR)
            continue;
        const double unsure = apart(&o->plain[i], &o->nudged[i], &reach);
        if (!(unsure <= 1e-2 * reach)) {
            c->tally->unstable++;
            continue;
        }
        const double is = apart(&o->plain[i], &o->passed[i], &ignored);
        c->tally->pass_outputs++;
        if (!(is <= 100 * unsure + 1e-4 * reach))
            return says(c, "after %s output %u '%s' is off by %g, in a range of %g (nudged: %g)",
                        list, i, c->scene.bare->outputs[i]->name, is, reach, unsure);
    }
    return true;
}

static bool run_passes(struct check *c, struct outputs *o, const struct tmk_tensor *inputs) {
    const struct tmk_pass *const *list = tmk_pass_list(), *picked[6];
    const uint32_t how = c->scene.made->how >> 12;
    struct tmk_graph *graph = NULL;
    struct tmk_lineage *lineage = NULL;
    struct tmk_diag diag = {0};
    char names[256] = "";
    size_t n = 0, of = 0, used = 0;
    bool progress = false;
    while (list[of])
        of++;
    for (uint32_t bits = how; n < 1 + how % 6; bits = bits * 1103515245u + 12345u, n++)
        picked[n] = how % 16 == 15 ? list[n % of] : list[(bits >> 16) % of];
    for (size_t i = 0; i < n; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? "," : "",
                                 picked[i]->name);
    bool good =
        GOES(tmk_graph_clone(c->scene.bare, &graph, &diag)) &&
        GOES(tmk_lineage_create(graph, &lineage, &diag)) &&
        (GOES(how >> 4 & 1 ? run_passes_reparsed(&graph, lineage, picked, n, NULL, &progress, &diag)
                           : tmk_passes_run(graph, lineage, picked, n, NULL, &progress, &diag)) ||
         says(c, "(%s)", names));
    if (good && progress) {
        c->tally->passes++;
        good = run_plain(c, graph, inputs, o->passed) || says(c, "(after %s)", names);
        good = good && compare(c, o, names);
    }
    tmk_lineage_destroy(&lineage);
    tmk_graph_destroy(&graph);
    return good;
}

bool passes_agree(struct check *c) {
    struct made_graph nudged;
    struct tmk_graph *graph = NULL;
    struct tmk_tensor inputs[MOST_MADE_INPUTS];
    struct outputs o = {.n = c->scene.bare->n_outputs};
    struct tmk_text ignored = {0};
    struct tmk_diag diag = {0};
    struct check quiet = *c;
    quiet.why = &ignored;
    if (c->scene.made->wild || o.n > 64)
        return true;
    made_inputs(c->scene.made, 0, inputs);
    bool good = run_plain(c, c->scene.bare, inputs, o.plain), sure = nudge(c->scene.made, &nudged);
    if (good) {
        struct tmk_tensor off[MOST_MADE_INPUTS];
        made_inputs(c->scene.made, 0, off);
        nudge_inputs(off, c->scene.made->n_inputs);
        sure = sure && parse_graph(nudged.text.data, &nudged.pool, &graph, &diag) == TMK_OK &&
               tmk_ops_bind(graph, &diag) == TMK_OK && run_plain(&quiet, graph, off, o.nudged);
        for (uint32_t i = 0; i < c->scene.made->n_inputs; i++)
            tmk_tensor_finish(&off[i]);
        good = !sure || run_passes(c, &o, inputs);
    }
    for (uint32_t i = 0; i < o.n; i++) {
        tmk_tensor_finish(&o.plain[i]);
        tmk_tensor_finish(&o.nudged[i]);
        tmk_tensor_finish(&o.passed[i]);
    }
    for (uint32_t i = 0; i < c->scene.made->n_inputs; i++)
        tmk_tensor_finish(&inputs[i]);
    tmk_text_finish(&ignored);
    tensor_pool_finish(&nudged.pool);
    tmk_graph_destroy(&graph);
    return good;
}
