/* SPDX-License-Identifier: Apache-2.0 */
/* An operator's case written down in the graph's text form: operands, node, expected result. */
#pragma once

#include "test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph_text/read.h"
#include "ops/ops.h"

enum { CASE_TENSORS = 8 };

/* Runs the only node of a graph whose operands are initializers; *out receives the result %y.
 * `want` (may be NULL) is the initializer %want. */
static inline enum tmk_status case_run(int opset, const char *body, struct tmk_tensor *out,
                                       struct tmk_tensor *want, struct tmk_diag *diag) {
    char text[4096];
    struct tmk_graph *graph = NULL;
    const struct tmk_tensor *in[CASE_TENSORS] = {NULL};
    struct tmk_tensor all[CASE_TENSORS];
    int length =
        snprintf(text, sizeof text, "graph \"t\" opset %d \"ai.tidemark\" 1 {\n%s\noutput %%y\n}\n",
                 opset, body);
    assert_true(length > 0 && (size_t)length < sizeof text);
    *diag = (struct tmk_diag){0};
    if (parse_graph(text, NULL, &graph, diag) != TMK_OK)
        fail_msg("%s: %s", body, diag->text);
    enum tmk_status status = tmk_ops_bind(graph, diag);
    if (status == TMK_OK) {
        const struct tmk_node *node = graph->first;
        assert_true(node && node == graph->last);
        assert_true(node->n_inputs <= CASE_TENSORS && node->n_outputs <= CASE_TENSORS);
        for (uint32_t i = 0; i < node->n_inputs; i++)
            in[i] = node->inputs[i] ? &node->inputs[i]->data : NULL;
        status = tmk_op_run(node, in, all, diag);
        for (uint32_t i = 0; i < node->n_outputs && status == TMK_OK; i++)
            if (node->outputs[i] == graph->outputs[0])
                *out = all[i];
            else
                tmk_tensor_finish(&all[i]);
    }
    for (uint32_t i = 0; i < graph->n_values && status == TMK_OK && want; i++)
        if (strcmp(graph->values[i]->name, "want") == 0)
            tmk_tensor_share(want, &graph->values[i]->data);
    tmk_graph_destroy(&graph);
    return status;
}

/* The operands (lines "init %a : f32[2] = {1, 2}"), the node ("%y = Neg(%a)") and what comes out
 * ("f32[2] = {-1, -2}"): the same type and shape; floats within one part in a million, zeros of the
 * same sign. */
static inline void gives(int opset, const char *operands, const char *node, const char *result) {
    char body[3072];
    struct tmk_diag diag;
    struct tmk_tensor out = {0}, want = {0};
    snprintf(body, sizeof body, "%s\ninit %%want : %s\n%s", operands, result, node);
    if (case_run(opset, body, &out, &want, &diag) != TMK_OK)
        fail_msg("%s: %s", body, diag.text);
    if (out.dtype != want.dtype || !tmk_shape_equal(&out.shape, &want.shape)) {
        char shape[128];
        fail_msg("%s: is %s %s", body, tmk_dtype_name(out.dtype),
                 tmk_shape_text(&out.shape, shape, sizeof shape));
    }
    size_t n = tmk_tensor_count(&out), size = tmk_dtype_size(out.dtype);
    for (size_t i = 0; i < n; i++) {
        if (out.dtype == TMK_FLOAT32) {
            float x = ((const float *)out.data)[i], y = ((const float *)want.data)[i];
            bool same = isnan(y) ? isnan(x)
                        : isinf(y) || y == 0
                            ? x == y && !signbit(x) == !signbit(y)
                            : fabs((double)x - (double)y) <= 1e-6 * fabs((double)y);
            if (!same)
                fail_msg("%s: element %zu is %.9g", body, i, (double)x);
        } else if (memcmp((const char *)out.data + i * size, (const char *)want.data + i * size,
                          size) != 0) {
            fail_msg("%s: element %zu differs", body, i);
        }
    }
    tmk_tensor_finish(&out);
    tmk_tensor_finish(&want);
}

/* The node is refused with this status, and the text contains `why`. */
static inline void refuses(int opset, const char *operands, const char *node,
                           enum tmk_status status, const char *why) {
    char body[3072];
    struct tmk_diag diag;
    struct tmk_tensor out = {0};
    snprintf(body, sizeof body, "%s\n%s", operands, node);
    enum tmk_status got = case_run(opset, body, &out, NULL, &diag);
    if (got != status)
        fail_msg("%s: status %d instead of %d: %s", body, (int)got, (int)status, diag.text);
    if (!strstr(diag.text, why))
        fail_msg("%s: says '%s' instead of '%s'", body, diag.text, why);
}
