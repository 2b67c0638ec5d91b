/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of ONNX Runtime: the projections to Q, K and V are inside, in one product of the input
 * with one matrix of weights. */

#include "ops/contrib.h"
#include "ops/contrib_attend.h"
#include "ops/contrib_multihead.h"
#include "ops/contrib_project.h"
#include "ops/matmul.h"

enum { IN_X, IN_WEIGHTS, IN_BIAS, IN_MASK, IN_PAST, IN_ATTENTION_BIAS, IN_PAST_LENGTH };

enum tmk_status tmk_project_sizes(const struct tmk_node *node, const struct tmk_tensor *x,
                                  const struct tmk_tensor *weights, const struct tmk_tensor *bias,
                                  const struct tmk_tensor *past, struct tmk_project *out,
                                  struct tmk_diag *diag) {
    static const char *const refused[] = {"do_rotary", "past_present_share_buffer"};
    const struct tmk_shape *xs = &x->shape, *ws = &weights->shape;
    int64_t heads = tmk_node_int(node, "num_heads", 0);
    size_t n;
    const int64_t *parts = tmk_node_ints(node, "qkv_hidden_sizes", &n);
    for (size_t i = 0; i < TMK_COUNT(refused); i++)
        if (tmk_node_int(node, refused[i], 0))
            return tmk_fail(diag, TMK_UNSUPPORTED, "attribute '%s' is not supported", refused[i]);
    if (xs->rank != 3 || ws->rank != 2 || ws->dim[0] != xs->dim[2])
        return tmk_fail(diag, TMK_SHAPE, "the input is %s and the weights are %s",
                        TMK_SHAPE_TEXT(xs), TMK_SHAPE_TEXT(ws));
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
    TMK_TRY(tmk_want_shape(bias, TMK_FLOAT32, "bias", &(struct tmk_shape){1, {p.width}}, diag));
    if (past) {
        TMK_TRY(tmk_want_shape(past, TMK_FLOAT32, "past",
                               &(struct tmk_shape){5, {2, p.s.batch, heads, -1, p.s.size}}, diag));
        if (p.s.size != p.s.value_size)
            return tmk_fail(diag, TMK_SHAPE, "past needs keys and values of one size");
        p.s.past = past->shape.dim[3];
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
    const struct tmk_shape scores = {4, {p->s.batch, p->s.heads, p->s.queries, p->s.total}};
    tmk_infer_put(infer, 0, TMK_FLOAT32, &y);
    tmk_infer_put(infer, TMK_PROJECT_SCORES, TMK_FLOAT32, &scores);
    tmk_infer_put(infer, TMK_PROJECT_PROBABILITIES, TMK_FLOAT32, &scores);
    for (uint32_t i = 0; i < 3; i++) {
        const struct tmk_shape part = {3, {p->s.batch, p->s.queries, p->part[i]}};
        tmk_infer_put(infer, TMK_PROJECT_QUERY + i, TMK_FLOAT32, &part);
    }
    return tmk_infer_set(infer, 1, TMK_FLOAT32, &present);
}

enum tmk_status tmk_project_run(struct tmk_run *run, const struct tmk_project *p,
                                const struct tmk_project_inputs *in, const float *qkv) {
    struct tmk_tensor *present = tmk_run_out(run, 1);
    struct tmk_attend a = {.s = p->s,
                           .mask = in->mask,
                           .bias = in->attention_bias,
                           .scores = TMK_PROJECT_SCORES,
                           .probabilities = TMK_PROJECT_PROBABILITIES,
                           .y = tmk_run_elements(run, 0)};
    size_t row = (size_t)p->width, batch = row * (size_t)p->s.queries;
    a.q = (struct tmk_attend_heads){qkv, batch, (size_t)p->s.size, row};
    a.k = a.q;
    a.k.data += p->part[0];
    a.v = a.k;
    a.v.data += p->part[1];
    a.v.head = (size_t)p->s.value_size;
    const struct tmk_attend_heads *const parts[] = {&a.q, &a.k, &a.v};
    for (uint32_t i = 0; i < 3; i++)
        TMK_TRY(tmk_attend_show(run, TMK_PROJECT_QUERY + i, &p->s, p->s.queries,
                                i == 2 ? p->s.value_size : p->s.size, parts[i]));
    const float *past = in->past ? in->past->data : NULL;
    float *to = tmk_run_elements(run, 1);
    size_t half = past ? tmk_tensor_count(in->past) / 2 : 0,
           half_present = to ? tmk_tensor_count(present) / 2 : 0;
    TMK_TRY(tmk_attend_join(run, &p->s, p->s.size, past, to, &a.k));
    TMK_TRY(tmk_attend_join(run, &p->s, p->s.value_size, past ? past + half : NULL,
                            to ? to + half_present : NULL, &a.v));
    return tmk_attend(run, &a);
}

static enum tmk_status find_sizes(const struct tmk_node *node, const struct tmk_tensor *const *in,
                                  uint32_t n, struct tmk_project *out, struct tmk_diag *diag) {
    return tmk_project_sizes(node, in[IN_X], in[IN_WEIGHTS], tmk_operand(in, n, IN_BIAS),
                             tmk_operand(in, n, IN_PAST), out, diag);
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
    tmk_gemm_rows(rows, width, depth, x->data, depth, weights->data, width, qkv, panel);
    for (size_t i = 0; bias && i < rows; i++)
        for (size_t j = 0; j < width; j++)
            qkv[i * width + j] += ((const float *)bias->data)[j];
    struct tmk_project_inputs in = {tmk_run_in(run, IN_MASK), tmk_run_in(run, IN_PAST),
                                    tmk_run_in(run, IN_ATTENTION_BIAS)};
    return tmk_project_run(run, &p, &in, qkv);
}

/* MultiHeadAttention of ONNX Runtime: attention of projected operands.
 *
 * Q is [B,S,N * H], or [B,S,N,3,H] with K and V inside. K and V are [B,L,...] like Q, or K is
 * [B,L,N,2,H] with V inside, or both are [B,N,L,H] and final: then no bias is added to them. */

/* Q, K and V are operands of the node, unless a bias is added to them, or one operand has all. */
static bool has_inner(const struct tmk_node *node, uint32_t output) {
    return output >= TMK_MH_INNER_SCORES || node->n_inputs <= TMK_MH_K || !node->inputs[TMK_MH_K] ||
           (node->n_inputs > TMK_MH_BIAS && node->inputs[TMK_MH_BIAS]);
}

struct operands {
    struct tmk_attend_sizes s;
    struct tmk_attend_heads q, k, v;
    bool cached; /* K and V are [B,N,L,H] */
};

/* Element `at` of a tensor whose data may not be known. */
static const float *element_pointer(const struct tmk_tensor *x, int64_t at) {
    return x->data ? (const float *)x->data + at : NULL;
}

/* Vectors of one of `pack` operands that lie in turn: [batch, sequence, heads, pack, size]. */
static struct tmk_attend_heads packed_heads(const struct tmk_tensor *x, int64_t sequence,
                                            int64_t heads, int64_t size, int64_t pack,
                                            int64_t turn) {
    size_t head = (size_t)(pack * size), row = (size_t)heads * head;
    return (struct tmk_attend_heads){element_pointer(x, turn * size), (size_t)sequence * row, head,
                                     row};
}

static enum tmk_status no_fit(const char *what, const struct tmk_tensor *x, struct tmk_diag *diag) {
    return tmk_fail(diag, TMK_SHAPE, "%s is %s, which does not fit the query and 'num_heads'", what,
                    TMK_SHAPE_TEXT(&x->shape));
}

static enum tmk_status find_keys(const struct tmk_tensor *key, const struct tmk_tensor *value,
                                 struct operands *o, struct tmk_diag *diag) {
    struct tmk_attend_sizes *s = &o->s;
    const struct tmk_shape *k = &key->shape, *v = value ? &value->shape : NULL;
    TMK_TRY(tmk_want_dtype(key, TMK_FLOAT32, "key", diag));
    if (value)
        TMK_TRY(tmk_want_dtype(value, TMK_FLOAT32, "value", diag));
    if (!value) {
        if (k->rank != 5 || k->dim[0] != s->batch || k->dim[2] != s->heads || k->dim[3] != 2 ||
            k->dim[4] != s->size)
            return no_fit("key", key, diag);
        s->keys = k->dim[1];
        s->value_size = s->size;
        o->k = packed_heads(key, s->keys, s->heads, s->size, 2, 0);
        o->v = packed_heads(key, s->keys, s->heads, s->size, 2, 1);
        return TMK_OK;
    }
    o->cached = k->rank == 4;
    if (o->cached) {
        if (k->dim[0] != s->batch || k->dim[1] != s->heads || k->dim[3] != s->size)
            return no_fit("key", key, diag);
        s->keys = k->dim[2];
        if (v->rank != 4 || v->dim[0] != s->batch || v->dim[1] != s->heads || v->dim[2] != s->keys)
            return no_fit("value", value, diag);
        s->value_size = v->dim[3];
        size_t head = tmk_shape_product(k, 2, 4), head_v = tmk_shape_product(v, 2, 4),
               n = (size_t)s->heads;
        o->k = (struct tmk_attend_heads){key->data, n * head, head, (size_t)s->size};
        o->v = (struct tmk_attend_heads){value->data, n * head_v, head_v, (size_t)s->value_size};
        return TMK_OK;
    }
    if (k->rank != 3 || k->dim[0] != s->batch || k->dim[2] != s->heads * s->size)
        return no_fit("key", key, diag);
    s->keys = k->dim[1];
    if (v->rank != 3 || v->dim[0] != s->batch || v->dim[1] != s->keys || v->dim[2] % s->heads)
        return no_fit("value", value, diag);
    s->value_size = v->dim[2] / s->heads;
    o->k = packed_heads(key, s->keys, s->heads, s->size, 1, 0);
    o->v = packed_heads(value, s->keys, s->heads, s->value_size, 1, 0);
    return TMK_OK;
}

/* A cache of no position may have heads of any size: exporters leave it symbolic. */
static enum tmk_status check_past(const struct tmk_tensor *past, int64_t size, const char *what,
                                  const struct tmk_attend_sizes *s, struct tmk_diag *diag) {
    return tmk_want_shape(
        past, TMK_FLOAT32, what,
        &(struct tmk_shape){4, {s->batch, s->heads, s->past, s->past ? size : -1}}, diag);
}

static enum tmk_status find_operands(const struct tmk_node *node,
                                     const struct tmk_tensor *const *in, uint32_t n,
                                     struct operands *out, struct tmk_diag *diag) {
    const struct tmk_tensor *q = in[TMK_MH_Q], *k = tmk_operand(in, n, TMK_MH_K),
                            *v = tmk_operand(in, n, TMK_MH_V),
                            *past_k = tmk_operand(in, n, TMK_MH_PAST_KEY),
                            *past_v = tmk_operand(in, n, TMK_MH_PAST_VALUE);
    const struct tmk_shape *shape = &q->shape;
    struct operands o = {.s = {.heads = tmk_node_int(node, "num_heads", 0)}};
    struct tmk_attend_sizes *s = &o.s;
    TMK_TRY(tmk_want_dtype(q, TMK_FLOAT32, "query", diag));
    if (s->heads <= 0 || (shape->rank != 3 && shape->rank != 5))
        return no_fit("query", q, diag);
    s->batch = shape->dim[0];
    s->queries = shape->dim[1];
    if (shape->rank == 5) {
        if (k || v || shape->dim[2] != s->heads || shape->dim[3] != 3)
            return no_fit("query", q, diag);
        s->keys = s->queries;
        s->size = s->value_size = shape->dim[4];
        o.q = packed_heads(q, s->queries, s->heads, s->size, 3, 0);
        o.k = packed_heads(q, s->queries, s->heads, s->size, 3, 1);
        o.v = packed_heads(q, s->queries, s->heads, s->size, 3, 2);
    } else {
        if (shape->dim[2] % s->heads)
            return no_fit("query", q, diag);
        if (!k)
            return tmk_fail(diag, TMK_GRAPH, "a query of rank 3 without a key");
        s->size = shape->dim[2] / s->heads;
        o.q = packed_heads(q, s->queries, s->heads, s->size, 1, 0);
        TMK_TRY(find_keys(k, v, &o, diag));
    }
    if (!past_k != !past_v)
        return tmk_fail(diag, TMK_GRAPH, "one of past_key and past_value without the other");
    if (past_k) {
        s->past = past_k->shape.rank == 4 ? past_k->shape.dim[2] : 0;
        TMK_TRY(check_past(past_k, s->size, "past_key", s, diag));
        TMK_TRY(check_past(past_v, s->value_size, "past_value", s, diag));
    }
    if (!tmk_add_i64(s->past, s->keys, &s->total))
        return tmk_fail(diag, TMK_RANGE, "too many keys");
    *out = o;
    return TMK_OK;
}

enum tmk_status tmk_infer_multihead(struct tmk_infer *infer) {
    struct operands o;
    for (uint32_t i = 0; i < infer->n_in; i++) {
        size_t count;
        if (infer->in[i] && !tmk_shape_count(&infer->in[i]->shape, &count))
            return tmk_fail(infer->diag, TMK_RANGE, "input %u is too large", i);
    }
    TMK_TRY(find_operands(infer->node, infer->in, infer->n_in, &o, infer->diag));
    const struct tmk_attend_sizes *s = &o.s;
    TMK_TRY(tmk_attend_check(s, tmk_infer_in(infer, TMK_MH_MASK),
                             tmk_infer_in(infer, TMK_MH_ATTENTION_BIAS), infer->diag));
    const struct tmk_shape width = {1, {s->heads * (2 * s->size + s->value_size)}};
    TMK_TRY(
        tmk_want_shape(tmk_infer_in(infer, TMK_MH_BIAS), TMK_FLOAT32, "bias", &width, infer->diag));
    struct tmk_shape y = {3, {s->batch, s->queries, s->heads * s->value_size}},
                     key = {4, {s->batch, s->heads, s->total, s->size}}, value = key,
                     products = {4, {s->batch, s->heads, s->queries, s->total}};
    value.dim[3] = s->value_size;
    tmk_infer_put(infer, TMK_MH_Y, TMK_FLOAT32, &y);
    tmk_infer_put(infer, TMK_MH_KEY, TMK_FLOAT32, &key);
    tmk_infer_put(infer, TMK_MH_VALUE, TMK_FLOAT32, &value);
    y.dim[2] = s->heads * s->size;
    tmk_infer_put(infer, TMK_MH_INNER_QUERY, TMK_FLOAT32, &y);
    y.dim[1] = s->keys;
    tmk_infer_put(infer, TMK_MH_INNER_KEY, TMK_FLOAT32, &y);
    y.dim[2] = s->heads * s->value_size;
    tmk_infer_put(infer, TMK_MH_INNER_VALUE, TMK_FLOAT32, &y);
    tmk_infer_put(infer, TMK_MH_INNER_SCORES, TMK_FLOAT32, &products);
    tmk_infer_put(infer, TMK_MH_INNER_PROBABILITIES, TMK_FLOAT32, &products);
    return tmk_infer_set(infer, TMK_MH_PRODUCTS, TMK_FLOAT32, &products);
}

/* heads + bias, [batch, sequence, heads * size], in scratch. */
static enum tmk_status add_bias(struct tmk_run *run, const struct tmk_attend_sizes *s,
                                int64_t sequence, int64_t size, const float *bias,
                                struct tmk_attend_heads *heads) {
    float *to;
    TMK_TRY(tmk_scratch_floats(run, s->batch * s->heads, sequence, size, &to));
    size_t n = (size_t)s->heads, width = (size_t)size, rows = (size_t)sequence;
    struct tmk_attend_heads biased = {to, rows * n * width, width, n * width};
    for (size_t b = 0; b < (size_t)s->batch; b++)
        for (size_t r = 0; r < rows; r++)
            for (size_t h = 0; h < n; h++) {
                const float *from =
                    heads->data + b * heads->batch + r * heads->row + h * heads->head;
                for (size_t j = 0; j < width; j++)
                    *to++ = from[j] + bias[h * width + j];
            }
    *heads = biased;
    return TMK_OK;
}

static const float *past_of(const struct tmk_run *run, uint32_t i) {
    const struct tmk_tensor *past = tmk_run_in(run, i);
    return past ? past->data : NULL;
}

enum tmk_status tmk_run_multihead(struct tmk_run *run) {
    const struct tmk_tensor *bias = tmk_run_in(run, TMK_MH_BIAS);
    struct operands o;
    TMK_TRY(find_operands(run->node, run->in, run->n_in, &o, run->diag));
    const struct tmk_attend_sizes *s = &o.s;
    if (bias) {
        const float *b = bias->data;
        TMK_TRY(add_bias(run, s, s->queries, s->size, b, &o.q));
        if (!o.cached) {
            TMK_TRY(add_bias(run, s, s->keys, s->size, b + s->heads * s->size, &o.k));
            TMK_TRY(add_bias(run, s, s->keys, s->value_size, b + 2 * s->heads * s->size, &o.v));
        }
    }
    TMK_TRY(tmk_attend_show(run, TMK_MH_INNER_QUERY, s, s->queries, s->size, &o.q));
    TMK_TRY(tmk_attend_show(run, TMK_MH_INNER_KEY, s, s->keys, s->size, &o.k));
    TMK_TRY(tmk_attend_show(run, TMK_MH_INNER_VALUE, s, s->keys, s->value_size, &o.v));
    TMK_TRY(tmk_attend_join(run, s, s->size, past_of(run, TMK_MH_PAST_KEY),
                            tmk_run_elements(run, TMK_MH_KEY), &o.k));
    TMK_TRY(tmk_attend_join(run, s, s->value_size, past_of(run, TMK_MH_PAST_VALUE),
                            tmk_run_elements(run, TMK_MH_VALUE), &o.v));
    struct tmk_attend a = {.s = *s,
                           .q = o.q,
                           .k = o.k,
                           .v = o.v,
                           .mask = tmk_run_in(run, TMK_MH_MASK),
                           .bias = tmk_run_in(run, TMK_MH_ATTENTION_BIAS),
                           .scores = TMK_MH_INNER_SCORES,
                           .probabilities = TMK_MH_INNER_PROBABILITIES,
                           .y = tmk_run_elements(run, TMK_MH_Y),
                           .products = tmk_run_elements(run, TMK_MH_PRODUCTS)};
    return tmk_attend(run, &a);
}

const struct tmk_op tmk_ops_contrib_attention[] = {
    {TMK_OP_CONTRIB("Attention"), TMK_OP_COUNTS(2, 6, 1, 2), .channel = TMK_CHANNEL_LAST,
     .attrs = "do_rotary:int mask_filter_value:float num_heads:int! past_present_share_buffer:int "
              "qkv_hidden_sizes:ints rotary_embedding_dim:int scale:float unidirectional:int",
     .inner = TMK_PROJECT_INNER, .infer = infer_attention, .run = run_attention,
     .cost = tmk_cost_projection},
    {TMK_OP_CONTRIB("MultiHeadAttention"), TMK_OP_COUNTS(1, 8, 1, 4), .channel = TMK_CHANNEL_LAST,
     .attrs = "mask_filter_value:float num_heads:int! scale:float unidirectional:int",
     .inner = TMK_MULTIHEAD_INNER, .has_inner = has_inner, .infer = tmk_infer_multihead,
     .run = tmk_run_multihead, .cost = tmk_cost_attention},
    {NULL}};
