/* SPDX-License-Identifier: Apache-2.0 */
/* How much encodings cost a network's outputs: a few candidates at a time beside the float network,
 * so that that one runs once for all of them. */
#include <math.h>
#include <stdlib.h>

#include "base/diag.h"
#include "compare/compare.h"
#include "compare/simulate.h"

enum { AT_A_TIME = 4 };

static bool is_float(const struct tmk_value *value) {
    return value->type.dtype == TMK_FLOAT32 || value->type.dtype == TMK_UNDEFINED;
}

/* Output by output; a value that is an output twice counts twice. */
static uint32_t pair_outputs(struct tmk_graph *const *graphs, uint32_t graph,
                             struct tmk_compared_pair *pairs) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < graphs[0]->n_outputs && i < graphs[graph]->n_outputs; i++)
        if (is_float(graphs[0]->outputs[i]))
            pairs[n++] =
                (struct tmk_compared_pair){.left = {0, graphs[0]->outputs[i], NULL},
                                           .right = {graph, graphs[graph]->outputs[i], NULL}};
    return n;
}

/* Outputs of another shape than in float are all noise. */
static void add_up(const struct tmk_compared_pair *pairs, uint32_t n, struct tmk_loss *loss) {
    uint32_t floats = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct tmk_error_sums *u = &pairs[i].errors;
        const double noise = u->left > 0 ? u->error / u->left : u->error > 0;
        floats += u->numbers;
        loss->noise += u->reshaped ? fmax(noise, 1) : noise;
    }
    if (floats)
        loss->noise /= floats;
}

/* Graphs 1 ... n are the candidates'. */
static enum tmk_status run_some(struct tmk_graph **graphs, uint32_t n,
                                const struct tmk_run_options *run, struct tmk_loss *out,
                                struct tmk_diag *diag) {
    const uint32_t outputs = graphs[0]->n_outputs;
    struct tmk_compared_pair *pairs = calloc((size_t)n * outputs + 1, sizeof *pairs);
    struct tmk_comparison comparison = {.graphs = graphs, .n_graphs = n + 1, .pairs = pairs};
    uint32_t each = 0;
    if (!pairs)
        return tmk_nomem(diag);
    for (uint32_t i = 0; i < n; i++) {
        each = pair_outputs(graphs, i + 1, pairs + comparison.n_pairs);
        comparison.n_pairs += each;
    }
    enum tmk_status status = tmk_compare_run(&comparison, run, diag);
    for (uint32_t i = 0; status == TMK_OK && i < n; i++) {
        out[i] = (struct tmk_loss){.samples = comparison.samples};
        add_up(pairs + (size_t)i * each, each, &out[i]);
    }
    free(pairs);
    return status;
}

static enum tmk_status measure_losses(const struct tmk_graph *graph,
                                      const struct tmk_encodings *const *encodings, uint32_t n,
                                      const struct tmk_quantize_options *how,
                                      const struct tmk_run_options *run, struct tmk_loss *out,
                                      struct tmk_diag *diag) {
    struct tmk_quantized_graph made[AT_A_TIME] = {0};
    struct tmk_graph *graphs[AT_A_TIME + 1] = {NULL};
    enum tmk_status status = tmk_graph_clone(graph, &graphs[0], diag);
    for (uint32_t i = 0; status == TMK_OK && i < n; i++) {
        status = tmk_quantize_graph(graph, encodings[i], how, &made[i], diag);
        graphs[i + 1] = made[i].graph;
    }
    if (status == TMK_OK)
        status = run_some(graphs, n, run, out, diag);
    for (uint32_t i = 0; i < n; i++)
        tmk_quantized_finish(&made[i]);
    tmk_graph_destroy(&graphs[0]);
    return status;
}

enum tmk_status tmk_losses(const struct tmk_graph *graph,
                           const struct tmk_encodings *const *encodings, uint32_t n,
                           const struct tmk_quantize_options *how,
                           const struct tmk_run_options *run, struct tmk_loss *out,
                           struct tmk_diag *diag) {
    for (uint32_t i = 0; i < n; i += AT_A_TIME)
        TMK_TRY(measure_losses(graph, encodings + i, n - i < AT_A_TIME ? n - i : AT_A_TIME, how,
                               run, out + i, diag));
    return TMK_OK;
}

double tmk_loss_sqnr(const struct tmk_loss *loss) {
    return loss->noise > 0 ? -10 * log10(loss->noise) : HUGE_VAL;
}
