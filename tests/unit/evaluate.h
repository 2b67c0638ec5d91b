/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs with numbers in them, node by node: for samples of operators, with changed inputs. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "graph_text/read.h"
#include "tensor/list.h"
#include "test.h"
#include "tools/op_rows.h"

enum { MOST_INPUTS = 18 };

static inline uint64_t next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 16;
}

/* Numbers that most operators can work with: indices that fit, no zero divisors. */
static inline void fill(struct tmk_tensor *tensor, uint64_t *random) {
    size_t size = tmk_dtype_size(tensor->dtype);
    for (size_t i = 0; i < tmk_tensor_count(tensor); i++) {
        float f = (float)(next(random) % 4001) / 1000.0f - 2.0f;
        int64_t whole = 1 - (int64_t)(next(random) % 2) * (tensor->dtype == TMK_BOOL);
        if (tensor->dtype == TMK_FLOAT32)
            ((float *)tensor->data)[i] = f;
        else
            memcpy((char *)tensor->data + i * size, &whole,
                   size); /* little-endian or not: 0 or 1 */
    }
}

/* ---- a graph, and what it makes ---- */

struct made {
    struct tmk_tensor *values; /* by index */
    uint32_t n;
};

static inline void evaluate(struct made *made, const struct tmk_graph *graph,
                            const struct tmk_tensor *inputs) {
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (graph->values[i]->kind == TMK_VALUE_INITIALIZER)
            tmk_tensor_share(&made->values[graph->values[i]->index], &graph->values[i]->data);
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        tmk_tensor_share(&made->values[graph->inputs[i]->index], &inputs[i]);
    for (const struct tmk_node *node = graph->first; node; node = node->next) {
        const struct tmk_tensor *in[MOST_INPUTS];
        struct tmk_tensor out[MOST_INPUTS] = {{0}};
        assert_true(node->n_inputs <= MOST_INPUTS && node->n_outputs <= MOST_INPUTS);
        for (uint32_t i = 0; i < node->n_inputs; i++)
            in[i] = node->inputs[i] ? &made->values[node->inputs[i]->index] : NULL;
        if (tmk_op_run(node, in, out, DIAG) != TMK_OK)
            fail_msg("%s: %s", node->op, test_diag.text);
        for (uint32_t i = 0; i < node->n_outputs; i++)
            if (node->outputs[i])
                made->values[node->outputs[i]->index] = out[i];
            else
                tmk_tensor_finish(&out[i]);
    }
}

static inline struct made make(struct tmk_graph *graph, const struct tmk_tensor *inputs) {
    struct made made = {.n = tmk_graph_number(graph)};
    made.values = calloc(made.n + 1u, sizeof *made.values);
    assert_non_null(made.values);
    evaluate(&made, graph, inputs);
    return made;
}

static inline void drop(struct made *made) {
    for (uint32_t i = 0; i < made->n; i++)
        tmk_tensor_finish(&made->values[i]);
    free(made->values);
}

static inline bool can_be_samples(const struct tmk_op *row, uint32_t *n_inputs) {
    struct tmk_graph *graph = NULL;
    must(parse_graph(op_sample(row), NULL, &graph, DIAG));
    bool can = graph->n_inputs > 0 && graph->n_inputs <= MOST_INPUTS;
    for (uint32_t i = 0; can && i < graph->n_inputs; i++) {
        const struct tmk_type *type = &graph->inputs[i]->type;
        can = type->kind == TMK_TYPE_TENSOR && type->has_shape && type->shape.rank > 0 &&
              tmk_dtype_size(type->dtype) > 0;
    }
    *n_inputs = graph->n_inputs;
    tmk_graph_destroy(&graph);
    return can;
}
