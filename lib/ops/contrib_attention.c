/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of ONNX Runtime: the projections to Q, K and V are inside, in one product of the input
 * with one matrix of weights. */
#include <string.h>

#include "ops/contrib.h"
#include "ops/contrib_attend.h"
#include "ops/contrib_project.h"
#include "ops/gemm.h"
#include "ops/rows.h"

enum { IN_X, IN_WEIGHTS, IN_BIAS, IN_MASK, IN_PAST, IN_ATTENTION_BIAS, IN_PAST_LENGTH };

enum tmk_status tmk_project_sizes(const struct tmk_node *node, const struct tmk_tensor *x,
                                  const struct tmk_tensor *weights, const struct tmk_tensor *bias,
                                  const struct tmk_tensor *past, struct tmk_project *out,
                                  struct tmk_diag *diag) {
    static const char *const refused[] = {"do_rotary", "past_present_share_buffer"};
    const struct tmk_shape *xs = &x->shape, *ws = &weights->shape;
    int64_t heads = tmk_node_int(node, "num_heads", 0);
    char text[256], other[256];
    size_t n;
    const int64_t *parts = tmk_node_ints(node, "qkv_hidden_sizes", &n);
    for (size_t i = 0; i < TMK_COUNT(refused); i++)
        if (tmk_node_int(node, refused[i], 0))
            return tmk_fail(diag, TMK_UNSUPPORTED, "attribute '%s' is not supported", refused[i]);
    if (xs->rank != 3 || ws->rank != 2 || ws->dim[0] != xs->dim[2])
        return tmk_fail(diag, TMK_SHAPE, "the input is %s and the weights are %s",
                        tmk_shape_text(xs, text, sizeof text),
                        tmk_shape_text(ws, other, sizeof other));
    struct tmk_project p = {.width = ws->dim[1]};
    if (n && n != 3)
        return tmk_fail(diag, TMK_RANGE, "attribute 'qkv_hidden_sizes' has %zu numbers", n);
    int64_t rest = p.width;
    for (size_t i = 0; i < 3; i++) {
        p.part[i] = n ? parts[i] : p.width / 3;
        if (p.part[i] < 0 || p.part[i] > rest || heads <= 0 || p.part[i] % heads)
            return tmk_fail(diag, TMK_SHAPE,
                            "%lld heads do not divide part %zu, %lld, of the weights' %lld columns",
                            (long long)heads, i, (long long)p.part[i], (long long)p.width);
        rest -= p.part[i];
    }
    if (rest || p.part[0] != p.part[1])
        return tmk_fail(diag, TMK_SHAPE, "the parts of Q, K and V do not make up %lld columns",
                        (long long)p.width);
    p.s = (struct tmk_attend_sizes){.batch = xs->dim[0],
                                    .heads = heads,
                                    .queries = xs->dim[1],
                                    .keys = xs->dim[1],
                                    .size = p.part[0] / heads,
                                    .value_size = p.part[2] / heads};
    if (bias) {
        TMK_TRY(tmk_want_dtype(bias, TMK_FLOAT32, "bias", diag));
        if (bias->shape.rank != 1 || bias->shape.dim[0] != p.width)
            return tmk_fail(diag, TMK_SHAPE, "the bias is %s, not [%lld]",
                            tmk_shape_text(&bias->shape, text, sizeof text), (long long)p.width);
    }
    if (past) {
        const struct tmk_shape *shape = &past->shape;
        TMK_TRY(tmk_want_dtype(past, TMK_FLOAT32, "past", diag));
        if (shape->rank != 5 || shape->dim[0] != 2 || shape->dim[1] != p.s.batch ||
            shape->dim[2] != heads || shape->dim[4] != p.s.size || p.s.size != p.s.value_size)
            return tmk_fail(diag, TMK_SHAPE, "past is %s, not [2,%lld,%lld,past,%lld]",
                            tmk_shape_text(shape, text, sizeof text), (long long)p.s.batch,
                            (long long)heads, (long long)p.s.size);
        p.s.past = shape->dim[3];
    }
    if (!tmk_add_i64(p.s.past, p.s.keys, &p.s.total))
        return tmk_fail(diag, TMK_RANGE, "too many keys");
    *out = p;
    return TMK_OK;
}

enum tmk_status tmk_project_infer(struct tmk_infer *infer, const struct tmk_project *p) {
    struct tmk_shape y = {3, {p->s.batch, p->s.queries, p->part[2]}},
                     present = {5, {2, p->s.batch, p->s.heads, p->s.total, p->s.size}};
    if (infer->n_out > 1 && infer->node->outputs[1] && p->s.size != p->s.value_size)
        return tmk_fail(infer->diag, TMK_SHAPE,
                        "'present' cannot hold heads of %lld and of %lld elements",
                        (long long)p->s.size, (long long)p->s.value_size);
    tmk_infer_set(infer, 0, TMK_FLOAT32, &y);
    return tmk_infer_set(infer, 1, TMK_FLOAT32, &present);
}

enum tmk_status tmk_project_run(struct tmk_run *run, const struct tmk_project *p,
                                const struct tmk_project_inputs *in, const float *qkv) {
    struct tmk_tensor *y = tmk_run_out(run, 0), *present = tmk_run_out(run, 1);
    struct tmk_attend a = {.s = p->s,
                           .mask = in->mask,
                           .bias = in->attention_bias,
                           .y = y && tmk_tensor_count(y) ? y->data : NULL};
    size_t row = (size_t)p->width, batch = row * (size_t)p->s.queries;
    a.q = (struct tmk_attend_heads){qkv, batch, (size_t)p->s.size, row};
    a.k = a.q;
    a.k.data += p->part[0];
    a.v = a.k;
    a.v.data += p->part[1];
    a.v.head = (size_t)p->s.value_size;
    const float *past = in->past ? in->past->data : NULL;
    float *to = present && tmk_tensor_count(present) ? present->data : NULL;
    size_t half = past ? tmk_tensor_count(in->past) / 2 : 0,
           half_present = to ? tmk_tensor_count(present) / 2 : 0;
    TMK_TRY(tmk_attend_join(run, &p->s, p->s.size, past, to, &a.k));
    TMK_TRY(tmk_attend_join(run, &p->s, p->s.value_size, past ? past + half : NULL,
                            to ? to + half_present : NULL, &a.v));
    return tmk_attend(run, &a);
}

static enum tmk_status find_sizes(const struct tmk_node *node, const struct tmk_tensor *const *in,
                                  uint32_t n, struct tmk_project *out, struct tmk_diag *diag) {
    return tmk_project_sizes(node, in[IN_X], in[IN_WEIGHTS], n > IN_BIAS ? in[IN_BIAS] : NULL,
                             n > IN_PAST ? in[IN_PAST] : NULL, out, diag);
}

static enum tmk_status infer_attention(struct tmk_infer *infer) {
    struct tmk_project p;
    TMK_TRY(tmk_want_dtype(infer->in[IN_X], TMK_FLOAT32, "input", infer->diag));
    TMK_TRY(tmk_want_dtype(infer->in[IN_WEIGHTS], TMK_FLOAT32, "weights", infer->diag));
    TMK_TRY(find_sizes(infer->node, infer->in, infer->n_in, &p, infer->diag));
    TMK_TRY(tmk_attend_check(&p.s, tmk_infer_in(infer, IN_MASK),
                             tmk_infer_in(infer, IN_ATTENTION_BIAS), infer->diag));
    return tmk_project_infer(infer, &p);
}

static enum tmk_status run_attention(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[IN_X], *weights = run->in[IN_WEIGHTS],
                            *bias = tmk_run_in(run, IN_BIAS);
    struct tmk_project p;
    float *panel, *qkv;
    TMK_TRY(find_sizes(run->node, run->in, run->n_in, &p, run->diag));
    TMK_TRY(tmk_scratch_floats(run, TMK_GEMM_PANEL / sizeof(float), 1, 1, &panel));
    TMK_TRY(tmk_scratch_floats(run, p.s.batch, p.s.queries, p.width, &qkv));
    size_t rows = (size_t)(p.s.batch * p.s.queries), width = (size_t)p.width,
           depth = (size_t)x->shape.dim[2];
    struct tmk_gemm gemm = {.m = rows,
                            .n = width,
                            .k = depth,
                            .a = x->data,
                            .b = weights->data,
                            .a_row = depth,
                            .a_depth = 1,
                            .b_depth = width,
                            .b_column = 1,
                            .c = qkv};
    tmk_gemm(&gemm, panel);
    for (size_t i = 0; bias && i < rows; i++)
        for (size_t j = 0; j < width; j++)
            qkv[i * width + j] += ((const float *)bias->data)[j];
    struct tmk_project_inputs in = {tmk_run_in(run, IN_MASK), tmk_run_in(run, IN_PAST),
                                    tmk_run_in(run, IN_ATTENTION_BIAS)};
    return tmk_project_run(run, &p, &in, qkv);
}

const struct tmk_op tmk_ops_contrib_attention[] = {
    {TMK_OP_CONTRIB("Attention"), TMK_OP_COUNTS(2, 6, 1, 2), .channel = TMK_CHANNEL_LAST,
     .attrs = "do_rotary:int mask_filter_value:float num_heads:int! past_present_share_buffer:int "
              "qkv_hidden_sizes:ints rotary_embedding_dim:int scale:float unidirectional:int",
     .infer = infer_attention, .run = run_attention, .cost = tmk_cost_projection},
    {NULL}};
