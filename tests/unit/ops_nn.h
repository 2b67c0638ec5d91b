/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one node whose operands are all initializers, and compares what comes out. */
#pragma once

#include "test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph_text/read.h"
#include "number.h"
#include "ops/ops.h"

enum { OPERANDS = 9 };

#define FLOATS(...) ((const float[]){__VA_ARGS__})

/* `body` holds the initializers and the node; `out` has OPERANDS entries, to be finished on TMK_OK.
 */
static inline enum tmk_status run_node(int version, const char *body, struct tmk_tensor *out,
                                       struct tmk_diag *diag) {
    char text[4096];
    struct tmk_graph *graph = NULL;
    snprintf(text, sizeof text, "graph \"t\" opset %d \"com.microsoft\" 1 {\n%s\noutput %%y\n}\n",
             version, body);
    *diag = (struct tmk_diag){0};
    memset(out, 0, OPERANDS * sizeof *out);
    if (parse_graph(text, NULL, &graph, diag) != TMK_OK || tmk_ops_bind(graph, diag) != TMK_OK)
        fail_msg("%s: %s", body, diag->text);
    const struct tmk_node *node = graph->first;
    const struct tmk_tensor *in[OPERANDS];
    assert_ptr_equal(node, graph->last);
    assert_true(node->n_inputs <= OPERANDS && node->n_outputs <= OPERANDS);
    for (uint32_t i = 0; i < node->n_inputs; i++)
        in[i] = node->inputs[i] ? &node->inputs[i]->data : NULL;
    enum tmk_status status = tmk_op_run(node, in, out, diag);
    tmk_graph_destroy(&graph);
    return status;
}

/* Type and shape as in the IR: "f32[2,3]"; every number within `slack` of what is wanted, NaN being
 * NaN. */
static inline void check_output(const char *body, const struct tmk_tensor *out,
                                enum tmk_dtype dtype, const char *shape, const float *want,
                                double slack) {
    char text[256];
    if (out->dtype != dtype)
        fail_msg("%s: type %s", body, tmk_dtype_name(out->dtype));
    if (strcmp(tmk_shape_text(&out->shape, text, sizeof text), shape) != 0)
        fail_msg("%s: shape %s instead of %s", body, text, shape);
    for (size_t i = 0; i < tmk_tensor_count(out); i++) {
        double got = number_at(out, i), wanted = (double)want[i];
        bool same = isnan(wanted) ? isnan(got) : got == wanted || fabs(got - wanted) <= slack;
        if (!same)
            fail_msg("%s: element %zu is %.9g instead of %.9g", body, i, got, wanted);
    }
}

static inline void finish_outputs(struct tmk_tensor *out) {
    for (size_t i = 0; i < OPERANDS; i++)
        tmk_tensor_finish(&out[i]);
}

/* The first output. */
static inline void gives_type(int version, const char *body, enum tmk_dtype dtype,
                              const char *shape, const float *want, double slack) {
    struct tmk_diag diag;
    struct tmk_tensor out[OPERANDS];
    enum tmk_status status = run_node(version, body, out, &diag);
    if (status != TMK_OK)
        fail_msg("%s: %s", body, diag.text);
    check_output(body, &out[0], dtype, shape, want, slack);
    finish_outputs(out);
}

static inline void gives(int version, const char *body, const char *shape, const float *want) {
    gives_type(version, body, TMK_FLOAT32, shape, want, 0);
}

/* The operator refuses with this status, and its text contains `why`. */
static inline void refuses(int version, const char *body, enum tmk_status status, const char *why) {
    struct tmk_diag diag;
    struct tmk_tensor out[OPERANDS];
    enum tmk_status got = run_node(version, body, out, &diag);
    if (got != status)
        fail_msg("%s: status %d instead of %d: %s", body, (int)got, (int)status, diag.text);
    if (!strstr(diag.text, why))
        fail_msg("%s: says '%s' instead of '%s'", body, diag.text, why);
}
