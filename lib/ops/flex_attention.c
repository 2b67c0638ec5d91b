/* SPDX-License-Identifier: Apache-2.0 */
/* FlexAttention: prob_mod(softmax(score_mod(Q K^T scale))) V, whose two graphs take and make the
 * scores and probabilities of all heads at once. `softmax_precision` is always float32. */
#include <math.h>

#include "ops/cost.h"
#include "ops/kernel.h"
#include "ops/matmul.h"
#include "ops/softmax.h"
#include "ops/stack.h"

/* In the order of the inputs and outputs. */
enum { IN_Q, IN_K, IN_V };
enum { OUT_Y, INNER_SCORES, INNER_PROBABILITIES };

struct flex {
    int64_t batch, q_heads, kv_heads, queries, keys, size, value_size;
};

static enum tmk_status read_flex(const struct tmk_tensor *const *in, struct flex *f,
                                 struct tmk_diag *diag) {
    static const char *const names[] = {"Q", "K", "V"};
    for (uint32_t i = IN_Q; i <= IN_V; i++)
        TMK_TRY(tmk_want_shape(in[i], TMK_FLOAT32, names[i],
                               &(struct tmk_shape){4, {-1, -1, -1, -1}}, diag));
    const int64_t *q = in[IN_Q]->shape.dim, *k = in[IN_K]->shape.dim, *v = in[IN_V]->shape.dim;
    *f = (struct flex){q[0], q[1], k[1], q[2], k[2], q[3], v[3]};
    if (k[0] != q[0] || v[0] != q[0] || k[3] != q[3] || v[1] != k[1] || v[2] != k[2])
        return tmk_fail(diag, TMK_SHAPE, "inputs 'Q', 'K' and 'V' do not fit each other");
    if (f->kv_heads ? f->q_heads % f->kv_heads : f->q_heads)
        return tmk_fail(diag, TMK_SHAPE, "%lld heads of 'Q' cannot share %lld of 'K'",
                        (long long)f->q_heads, (long long)f->kv_heads);
    return TMK_OK;
}

static struct tmk_shape shape_of_scores(const struct flex *f) {
    return (struct tmk_shape){4, {f->batch, f->q_heads, f->queries, f->keys}};
}

static enum tmk_status infer_flex(struct tmk_infer *infer) {
    struct flex f;
    TMK_TRY(read_flex(infer->in, &f, infer->diag));
    const struct tmk_shape scores = shape_of_scores(&f),
                           y = {4, {f.batch, f.q_heads, f.queries, f.value_size}};
    tmk_infer_put(infer, INNER_SCORES, TMK_FLOAT32, &scores);
    tmk_infer_put(infer, INNER_PROBABILITIES, TMK_FLOAT32, &scores);
    return tmk_infer_set(infer, OUT_Y, TMK_FLOAT32, &y);
}

/* *x becomes what the graph of the attribute makes of it, where the node has one. */
static enum tmk_status modify(struct tmk_run *run, const char *attr, struct tmk_tensor *x) {
    const struct tmk_attr *graph = tmk_node_attr(run->node, attr);
    struct tmk_tensor made[1] = {0};
    if (!graph)
        return TMK_OK;
    if (graph->graphs[0]->n_outputs != 1)
        return tmk_fail(run->diag, TMK_GRAPH, "the graph '%s' makes %u values, not 1", attr,
                        graph->graphs[0]->n_outputs);
    enum tmk_status status = tmk_call_body(run, graph->graphs[0], x, 1, made);
    TMK_THEN(status, tmk_want_dtype(&made[0], TMK_FLOAT32, attr, run->diag));
    if (status == TMK_OK && !tmk_shape_equal(&made[0].shape, &x->shape))
        status =
            tmk_fail(run->diag, TMK_SHAPE, "the graph '%s' makes %s, not the shape that it gets",
                     attr, TMK_SHAPE_TEXT(&made[0].shape));
    if (status == TMK_OK) {
        tmk_tensor_finish(x);
        status = tmk_tensor_keep(x, &made[0], run->diag);
    }
    tmk_tensor_finish(&made[0]);
    return status;
}

/* c [heads, rows, columns] = a [heads, rows, depth] b, head by head; b has `depth` by `columns`
 * elements a head of K and V, one step of each `b_depth` and `b_column` apart. */
static void multiply_heads(const struct flex *f, float *panel, const float *a, size_t depth,
                           const float *b, size_t columns, size_t b_depth, size_t b_column,
                           float *c) {
    const size_t rows = (size_t)f->queries, heads = (size_t)f->batch * (size_t)f->q_heads,
                 group = f->kv_heads ? (size_t)(f->q_heads / f->kv_heads) : 1;
    for (size_t h = 0; h < heads; h++) {
        const struct tmk_gemm product = {.m = rows,
                                         .n = columns,
                                         .k = depth,
                                         .a = a + h * rows * depth,
                                         .b = b + h / group * depth * columns,
                                         .a_row = depth,
                                         .a_depth = 1,
                                         .b_depth = b_depth,
                                         .b_column = b_column,
                                         .c = c + h * rows * columns};
        tmk_gemm(&product, panel);
    }
}

/* The scores are *x's elements, and become the probabilities. */
static enum tmk_status attend(struct tmk_run *run, const struct flex *f, struct tmk_tensor *x) {
    const size_t n = tmk_tensor_count(x), keys = (size_t)f->keys, size = (size_t)f->size,
                 width = (size_t)f->value_size;
    const float scale = tmk_node_float(run->node, "scale", f->size ? 1 / sqrtf((float)f->size) : 1);
    struct tmk_tensor *y = tmk_run_out(run, OUT_Y);
    float *panel;
    TMK_TRY(tmk_scratch_floats(run, TMK_GEMM_PANEL / sizeof(float), 1, 1, &panel));
    multiply_heads(f, panel, run->in[IN_Q]->data, size, run->in[IN_K]->data, keys, 1, size,
                   x->data);
    for (size_t i = 0; i < n; i++)
        ((float *)x->data)[i] *= scale;
    TMK_TRY(tmk_run_show(run, INNER_SCORES, x->data, 0, n));
    TMK_TRY(modify(run, "score_mod", x));
    struct tmk_tensor probabilities;
    TMK_TRY(tmk_tensor_init(&probabilities, TMK_FLOAT32, &x->shape, run->diag));
    for (size_t i = 0; i < n; i += keys)
        tmk_softmax_row(keys, (const float *)x->data + i, (float *)probabilities.data + i);
    tmk_tensor_finish(x);
    *x = probabilities;
    TMK_TRY(tmk_run_show(run, INNER_PROBABILITIES, x->data, 0, n));
    TMK_TRY(modify(run, "prob_mod", x));
    if (y && tmk_tensor_count(y))
        multiply_heads(f, panel, x->data, keys, run->in[IN_V]->data, width, width, 1, y->data);
    return TMK_OK;
}

static enum tmk_status run_flex(struct tmk_run *run) {
    struct flex f;
    struct tmk_tensor x;
    TMK_TRY(read_flex(run->in, &f, run->diag));
    const struct tmk_shape shape = shape_of_scores(&f);
    TMK_TRY(tmk_tensor_init(&x, TMK_FLOAT32, &shape, run->diag));
    enum tmk_status status = attend(run, &f, &x);
    tmk_tensor_finish(&x);
    return status;
}

const struct tmk_op tmk_ops_flex_attention[] = {
    {TMK_OP_KEY("ai.onnx.preview", "FlexAttention", 1, INT32_MAX), TMK_OP_COUNTS(3, 3, 1, 1),
     .flags = TMK_OP_IMPURE | TMK_OP_RUNS_GRAPHS, .channel = TMK_CHANNEL_LAST,
     .attrs = "prob_mod:graph scale:float score_mod:graph softmax_precision:int",
     .inner = "scores:1 probabilities:2", .infer = infer_flex, .run = run_flex,
     .cost = tmk_cost_attention},
    {NULL}};
