/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes become a small graph that is valid: every byte makes a choice, and what shape inference or
 * the plain kernels refuse is left out again. The same bytes give the same graph. */
#pragma once

#include "base/text.h"
#include "graph/print.h"
#include "graph_text/pool.h"

enum { MOST_MADE_INPUTS = 12, MOST_MADE_BATCHES = 4 };

struct made_input {
    enum tmk_dtype dtype;
    struct tmk_shape shape;
    bool batched; /* dim[0] is how many samples there are: "N" in the graph */
};

/* The graph, as text with its weights, and what to run it with. */
struct made_graph {
    struct tmk_text text;
    struct tensor_pool pool;
    struct made_input inputs[MOST_MADE_INPUTS];
    uint32_t n_inputs;
    int opset;
    bool wild;     /* NaN, infinities, huge and tiny numbers among the others */
    uint64_t seed; /* of the inputs' numbers */
    uint32_t n_batches, samples[MOST_MADE_BATCHES]; /* of each batch */
    uint32_t how;                                   /* unused bits, for the caller */
};

/* Stops the process where memory runs out. End with made_graph_finish. */
void graph_make(const uint8_t *bytes, size_t n, struct made_graph *out);
void made_graph_finish(struct made_graph *made);
/* The numbers of batch number `batch`, one tensor an input; finish each. */
void made_inputs(const struct made_graph *made, uint32_t batch, struct tmk_tensor *out);

/* Random numbers of any type; `low` and `high` are for floats. */
struct numbers {
    uint64_t seed;
    double low, high;
    bool wild;
};
void fill_numbers(struct tmk_tensor *tensor, const struct numbers *how);
