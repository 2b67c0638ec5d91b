/* SPDX-License-Identifier: Apache-2.0 */
/* How much encodings cost a network's outputs: a few candidates at a time beside the float network,
 * so that that one runs once for all of them. */
#include <math.h>
#include <stdlib.h>

#include "base/diag.h"
#include "session/beside.h"
#include "session/simulate.h"

enum { AT_A_TIME = 4 };

static bool is_float(const struct tmk_value *value) {
    return value->type.dtype == TMK_FLOAT32 || value->type.dtype == TMK_UNDEFINED;
}

/* Output by output; a value that is an output twice counts twice. */
static uint32_t pair_outputs(struct tmk_graph *const *lanes, uint32_t lane,
                             struct tmk_pair *pairs) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < lanes[0]->n_outputs && i < lanes[lane]->n_outputs; i++)
        if (is_float(lanes[0]->outputs[i]))
            pairs[n++] = (struct tmk_pair){.left = {0, lanes[0]->outputs[i], NULL},
                                           .right = {lane, lanes[lane]->outputs[i], NULL}};
    return n;
}

/* Outputs of another shape than in float are all noise. */
static void add_up(const struct tmk_pair *pairs, uint32_t n, struct tmk_loss *loss) {
    uint32_t floats = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct tmk_unlike *u = &pairs[i].unlike;
        const double noise = u->left > 0 ? u->error / u->left : u->error > 0;
        floats += u->numbers;
        loss->noise += u->reshaped ? fmax(noise, 1) : noise;
    }
    if (floats)
        loss->noise /= floats;
}

/* Lanes 1 ... n are the candidates'. */
static enum tmk_status run_some(struct tmk_graph **lanes, uint32_t n,
                                const struct tmk_run_options *run, struct tmk_loss *out,
                                struct tmk_diag *diag) {
    const uint32_t outputs = lanes[0]->n_outputs;
    struct tmk_pair *pairs = calloc((size_t)n * outputs + 1, sizeof *pairs);
    struct tmk_beside beside = {.lanes = lanes, .n_lanes = n + 1, .pairs = pairs};
    uint32_t each = 0;
    if (!pairs)
        return tmk_nomem(diag);
    for (uint32_t i = 0; i < n; i++) {
        each = pair_outputs(lanes, i + 1, pairs + beside.n_pairs);
        beside.n_pairs += each;
    }
    enum tmk_status status = tmk_beside_run(&beside, run, diag);
    for (uint32_t i = 0; status == TMK_OK && i < n; i++) {
        out[i] = (struct tmk_loss){.samples = beside.samples};
        add_up(pairs + (size_t)i * each, each, &out[i]);
    }
    free(pairs);
    return status;
}

static enum tmk_status lose(const struct tmk_graph *graph,
                            const struct tmk_encodings *const *encodings, uint32_t n,
                            const struct tmk_quantize_options *how,
                            const struct tmk_run_options *run, struct tmk_loss *out,
                            struct tmk_diag *diag) {
    struct tmk_quantized_graph made[AT_A_TIME] = {0};
    struct tmk_graph *lanes[AT_A_TIME + 1] = {NULL};
    enum tmk_status status = tmk_graph_clone(graph, &lanes[0], diag);
    for (uint32_t i = 0; status == TMK_OK && i < n; i++) {
        status = tmk_quantize_graph(graph, encodings[i], how, &made[i], diag);
        lanes[i + 1] = made[i].graph;
    }
    if (status == TMK_OK)
        status = run_some(lanes, n, run, out, diag);
    for (uint32_t i = 0; i < n; i++)
        tmk_quantized_finish(&made[i]);
    tmk_graph_destroy(&lanes[0]);
    return status;
}

enum tmk_status tmk_losses(const struct tmk_graph *graph,
                           const struct tmk_encodings *const *encodings, uint32_t n,
                           const struct tmk_quantize_options *how,
                           const struct tmk_run_options *run, struct tmk_loss *out,
                           struct tmk_diag *diag) {
    for (uint32_t i = 0; i < n; i += AT_A_TIME)
        TMK_TRY(lose(graph, encodings + i, n - i < AT_A_TIME ? n - i : AT_A_TIME, how, run, out + i,
                     diag));
    return TMK_OK;
}

double tmk_loss_sqnr(const struct tmk_loss *loss) {
    return loss->noise > 0 ? -10 * log10(loss->noise) : HUGE_VAL;
}
