/* SPDX-License-Identifier: Apache-2.0 */
/* Passes tried on graphs as text: run, then held against the original by numbers.
 *
 * Both graphs run on the same random inputs through the plain kernels, every value is kept, and
 * each original's relation must give the transformed value's numbers from its own. */
#pragma once

#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "graph/graph.h"
#include "graph_text/read.h"
#include "number.h"
#include "ops/ops.h"
#include "pass/pass.h"

struct pass_case {
    struct tmk_graph *before, *after;
    struct tmk_lineage *lineage;
    bool progress; /* of the last run */
};

static inline void pass_begin(struct pass_case *c, const char *text) {
    *c = (struct pass_case){0};
    must(parse_graph(text, NULL, &c->before, DIAG));
    must(tmk_graph_sort(c->before, DIAG));
    must(tmk_ops_bind(c->before, DIAG));
    must(tmk_graph_identify(c->before, NULL, DIAG));
    must(tmk_graph_clone(c->before, &c->after, DIAG));
    must(tmk_lineage_create(c->after, &c->lineage, DIAG));
}

static inline void pass_end(struct pass_case *c) {
    tmk_lineage_destroy(&c->lineage);
    tmk_graph_destroy(&c->after);
    tmk_graph_destroy(&c->before);
}

/* `list`: names with commas between. pinned: original IDs. */
static inline void pass_run_pinned(struct pass_case *c, const char *list, const uint32_t *pinned,
                                   size_t n_pinned) {
    char names[512];
    const struct tmk_pass *passes[32];
    size_t n = 0;
    assert_true(strlen(list) < sizeof names);
    memcpy(names, list, strlen(list) + 1);
    for (char *rest = names, *name; (name = strtok_r(rest, ",", &rest));) {
        passes[n] = tmk_pass_find(name);
        if (!passes[n++])
            fail_msg("there is no pass %s", name);
    }
    const struct tmk_pass_options options = {.pinned = pinned, .n_pinned = n_pinned};
    must(run_passes_reparsed(&c->after, c->lineage, passes, n, &options, &c->progress, DIAG));
}

static inline void pass_run(struct pass_case *c, const char *list) {
    pass_run_pinned(c, list, NULL, 0);
}

static inline const struct tmk_origin *pass_origin(const struct pass_case *c, const char *name) {
    for (uint32_t i = 0; i < tmk_lineage_size(c->lineage); i++)
        if (strcmp(tmk_lineage_origin(c->lineage, i)->name, name) == 0)
            return tmk_lineage_origin(c->lineage, i);
    fail_msg("no original was called %s", name);
    return NULL;
}

static inline void pass_fate_is(const struct pass_case *c, const char *name,
                                enum tmk_lineage_verdict fate) {
    const struct tmk_origin *origin = pass_origin(c, name);
    if (origin->fate != fate)
        fail_msg("'%s' is %s, not %s", name, tmk_fate_name(origin->fate), tmk_fate_name(fate));
}

/* Nodes of the main graph, after, with this operator. */
static inline uint32_t pass_count(const struct pass_case *c, const char *op) {
    uint32_t n = 0;
    for (const struct tmk_node *node = c->after->first; node; node = node->next)
        n += strcmp(node->op, op) == 0;
    return n;
}

/* ---- running ---- */

static inline float pass_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(*state >> 40) / (1 << 23) - 1); /* [-1, 1) */
}

static inline void pass_fill(struct tmk_tensor *tensor, uint64_t seed) {
    uint64_t state = seed * 2654435761u + 1;
    for (size_t i = 0; i < tmk_tensor_count(tensor); i++) {
        float x = 2 * pass_random(&state);
        if (tensor->dtype == TMK_FLOAT32)
            ((float *)tensor->data)[i] = x;
        else if (tensor->dtype == TMK_INT64)
            ((int64_t *)tensor->data)[i] = (int64_t)x;
        else if (tensor->dtype == TMK_INT8 || tensor->dtype == TMK_UINT8)
            ((uint8_t *)tensor->data)[i] = (uint8_t)(int)(x * 50 + 100);
        else if (tensor->dtype == TMK_BOOL)
            ((uint8_t *)tensor->data)[i] = x > 0;
    }
}

/* Every value's numbers, by value; free dimensions of inputs are 2. Graphs without control flow. */
struct pass_values {
    struct tmk_ptrmap map; /* value -> struct tmk_tensor */
};

static inline struct tmk_tensor *pass_keep(struct pass_values *values,
                                           const struct tmk_value *value) {
    struct tmk_tensor *tensor = calloc(1, sizeof *tensor);
    assert_non_null(tensor);
    assert_true(tmk_ptrmap_put(&values->map, value, tensor));
    return tensor;
}

static inline const struct tmk_tensor *pass_value(const struct pass_values *values,
                                                  const struct tmk_value *value) {
    return tmk_ptrmap_get(&values->map, value);
}

static inline void pass_values_finish(struct pass_values *values, const struct tmk_graph *graph) {
    for (uint32_t i = 0; i < graph->n_values; i++) {
        struct tmk_tensor *tensor = tmk_ptrmap_get(&values->map, graph->values[i]);
        if (tensor) {
            tmk_tensor_finish(tensor);
            free(tensor);
        }
    }
    tmk_ptrmap_finish(&values->map);
}

static inline void pass_evaluate(struct tmk_graph *graph, uint64_t seed,
                                 struct pass_values *values) {
    *values = (struct pass_values){0};
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        struct tmk_shape shape = graph->inputs[i]->type.shape;
        for (int32_t k = 0; k < shape.rank; k++)
            shape.dim[k] = shape.dim[k] < 0 ? 2 : shape.dim[k];
        struct tmk_tensor *tensor = pass_keep(values, graph->inputs[i]);
        must(tmk_tensor_init(tensor, graph->inputs[i]->type.dtype, &shape, DIAG));
        pass_fill(tensor, seed + i);
    }
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (graph->values[i]->kind == TMK_VALUE_INITIALIZER)
            tmk_tensor_share(pass_keep(values, graph->values[i]), &graph->values[i]->data);
    for (const struct tmk_node *node = graph->first; node; node = node->next) {
        const struct tmk_tensor *in[TMK_MAX_INPUTS] = {0};
        struct tmk_tensor out[TMK_MAX_OUTPUTS] = {0};
        for (uint32_t i = 0; i < node->n_inputs; i++)
            in[i] = node->inputs[i] ? pass_value(values, node->inputs[i]) : NULL;
        must(tmk_op_run(node, in, out, DIAG));
        for (uint32_t i = 0; i < node->n_outputs; i++)
            if (node->outputs[i])
                *pass_keep(values, node->outputs[i]) = out[i];
            else
                tmk_tensor_finish(&out[i]);
    }
}

/* ---- comparing ---- */

/* Element i of the value is which element of the original? */
static inline size_t pass_source(const struct tmk_lineage_view *view, const struct tmk_shape *value,
                                 const struct tmk_shape *original, size_t i) {
    if (view->reshaped || !view->rank)
        return i;
    int64_t at[TMK_MAX_RANK] = {0}, rest = (int64_t)i;
    for (int32_t k = value->rank; k-- > 0;) {
        at[view->perm[k]] = rest % value->dim[k];
        rest /= value->dim[k];
    }
    int64_t flat = 0;
    for (int32_t k = 0; k < original->rank; k++)
        flat = flat * original->dim[k] + at[k];
    return (size_t)flat;
}

static inline uint32_t pass_channel(const struct tmk_shape *shape, int32_t axis, uint32_t n,
                                    size_t i) {
    if (n <= 1)
        return 0;
    size_t inner = 1;
    for (int32_t k = axis + 1; k < shape->rank; k++)
        inner *= (size_t)shape->dim[k];
    return (uint32_t)(i / inner % (size_t)shape->dim[axis]);
}

/* One original against the value that stands for it; `tolerance` is a share of the range. */
static inline void pass_origin_agrees(const struct tmk_origin *origin, const struct tmk_tensor *was,
                                      const struct tmk_tensor *is, double tolerance) {
    const struct tmk_relation *how = &origin->how;
    const size_t n = tmk_tensor_count(was);
    double low = 0, high = 0;
    assert_int_equal(tmk_tensor_count(is), n);
    if (!how->view.reshaped && !how->view.rank)
        assert_true(tmk_shape_equal(&was->shape, &is->shape));
    for (size_t i = 0; i < n; i++) {
        low = fmin(low, number_at(is, i));
        high = fmax(high, number_at(is, i));
    }
    for (size_t i = 0; i < n; i++) {
        const double x = number_at(was, pass_source(&how->view, &is->shape, &was->shape, i));
        const double y = number_at(is, i);
        double want = x, got = y, range = high - low;
        if (how->affine.n) {
            uint32_t c = pass_channel(&is->shape, how->affine.axis, how->affine.n, i);
            want = how->affine.scale[c] * x + how->affine.shift[c];
        } else if (how->quantized.n) {
            uint32_t c = pass_channel(&is->shape, how->quantized.axis, how->quantized.n, i);
            got = how->quantized.scale[c] * (y - (double)how->quantized.zero_point[c]);
            range *= how->quantized.scale[c];
        }
        if (want != got && !(fabs(want - got) <= tolerance * (range + fabs(want))))
            fail_msg("p%u '%s' (%s), element %zu: %g, its value says %g", origin->id, origin->name,
                     tmk_fate_name(origin->fate), i, want, got);
    }
}

static inline void pass_agrees_with(struct pass_case *c, uint64_t seed, double tolerance) {
    struct pass_values before, after;
    pass_evaluate(c->before, seed, &before);
    pass_evaluate(c->after, seed, &after);
    assert_int_equal(c->before->n_outputs, c->after->n_outputs);
    for (uint32_t i = 0; i < c->before->n_outputs; i++) {
        const struct tmk_origin output = {.name = c->before->outputs[i]->name};
        assert_string_equal(c->after->outputs[i]->name, c->before->outputs[i]->name);
        pass_origin_agrees(&output, pass_value(&before, c->before->outputs[i]),
                           pass_value(&after, c->after->outputs[i]), tolerance);
    }
    for (uint32_t i = 0; i < c->before->n_values; i++) {
        const struct tmk_value *value = c->before->values[i];
        const struct tmk_origin *origin =
            tmk_lineage_origin(c->lineage, (uint32_t)value->profile_id);
        if (origin->fate == TMK_LINEAGE_CONSTANT)
            pass_origin_agrees(origin, pass_value(&before, value), &origin->constant, tolerance);
        if (origin->value && origin->fate != TMK_LINEAGE_ABSORBED)
            pass_origin_agrees(origin, pass_value(&before, value),
                               pass_value(&after, origin->value), tolerance);
    }
    pass_values_finish(&after, c->after);
    pass_values_finish(&before, c->before);
}

/* Outputs and every relation, on three inputs. */
static inline void pass_agrees(struct pass_case *c, double tolerance) {
    for (uint64_t seed = 1; seed <= 3; seed++)
        pass_agrees_with(c, seed * 1000, tolerance);
}

/* Runs, compares, and runs again: there must be nothing more to do. */
static inline void pass_check(struct pass_case *c, const char *list, double tolerance) {
    pass_run(c, list);
    const bool progress = c->progress;
    pass_agrees(c, tolerance);
    pass_run(c, list);
    assert_false(c->progress);
    c->progress = progress;
}
