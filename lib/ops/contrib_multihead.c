/* SPDX-License-Identifier: Apache-2.0 */
/* MultiHeadAttention of ONNX Runtime: attention of projected operands.
 *
 * Q is [B,S,N * H], or [B,S,N,3,H] with K and V inside. K and V are [B,L,...] like Q, or K is
 * [B,L,N,2,H] with V inside, or both are [B,N,L,H] and final: then no bias is added to them.
 */
#include <string.h>

#include "ops/contrib.h"
#include "ops/contrib_attend.h"
#include "ops/rows.h"

enum { IN_Q, IN_K, IN_V, IN_BIAS, IN_MASK, IN_ATTENTION_BIAS, IN_PAST_KEY, IN_PAST_VALUE };
enum { OUT_Y, OUT_KEY, OUT_VALUE, OUT_PRODUCTS };

struct operands {
    struct tmk_attend_sizes s;
    struct tmk_attend_heads q, k, v;
    bool cached; /* K and V are [B,N,L,H] */
};

static const struct tmk_tensor *optional_input(const struct tmk_tensor *const *in, uint32_t n,
                                               uint32_t i) {
    return i < n ? in[i] : NULL;
}

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
    char text[256];
    return tmk_fail(diag, TMK_SHAPE, "%s is %s, which does not fit the query and 'num_heads'", what,
                    tmk_shape_text(&x->shape, text, sizeof text));
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

static enum tmk_status check_past(const struct tmk_tensor *past, int64_t size, const char *what,
                                  const struct tmk_attend_sizes *s, struct tmk_diag *diag) {
    const struct tmk_shape *p = &past->shape;
    TMK_TRY(tmk_want_dtype(past, TMK_FLOAT32, what, diag));
    if (p->rank != 4 || p->dim[0] != s->batch || p->dim[1] != s->heads || p->dim[2] != s->past ||
        p->dim[3] != size)
        return no_fit(what, past, diag);
    return TMK_OK;
}

static enum tmk_status find_operands(const struct tmk_node *node,
                                     const struct tmk_tensor *const *in, uint32_t n,
                                     struct operands *out, struct tmk_diag *diag) {
    const struct tmk_tensor *q = in[IN_Q], *k = optional_input(in, n, IN_K),
                            *v = optional_input(in, n, IN_V),
                            *past_k = optional_input(in, n, IN_PAST_KEY),
                            *past_v = optional_input(in, n, IN_PAST_VALUE);
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

static enum tmk_status infer_multihead(struct tmk_infer *infer) {
    const struct tmk_tensor *bias = tmk_infer_in(infer, IN_BIAS);
    struct operands o;
    char text[256];
    for (uint32_t i = 0; i < infer->n_in; i++) {
        size_t count;
        if (infer->in[i] && !tmk_shape_count(&infer->in[i]->shape, &count))
            return tmk_fail(infer->diag, TMK_RANGE, "input %u is too large", i);
    }
    TMK_TRY(find_operands(infer->node, infer->in, infer->n_in, &o, infer->diag));
    const struct tmk_attend_sizes *s = &o.s;
    TMK_TRY(tmk_attend_check(s, tmk_infer_in(infer, IN_MASK),
                             tmk_infer_in(infer, IN_ATTENTION_BIAS), infer->diag));
    if (bias) {
        int64_t width = s->heads * (2 * s->size + s->value_size);
        TMK_TRY(tmk_want_dtype(bias, TMK_FLOAT32, "bias", infer->diag));
        if (bias->shape.rank != 1 || bias->shape.dim[0] != width)
            return tmk_fail(infer->diag, TMK_SHAPE, "the bias is %s, not [%lld]",
                            tmk_shape_text(&bias->shape, text, sizeof text), (long long)width);
    }
    struct tmk_shape y = {3, {s->batch, s->queries, s->heads * s->value_size}},
                     key = {4, {s->batch, s->heads, s->total, s->size}}, value = key,
                     products = {4, {s->batch, s->heads, s->queries, s->total}};
    value.dim[3] = s->value_size;
    tmk_infer_set(infer, OUT_Y, TMK_FLOAT32, &y);
    tmk_infer_set(infer, OUT_KEY, TMK_FLOAT32, &key);
    tmk_infer_set(infer, OUT_VALUE, TMK_FLOAT32, &value);
    return tmk_infer_set(infer, OUT_PRODUCTS, TMK_FLOAT32, &products);
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

static float *out_of(const struct tmk_run *run, uint32_t i) {
    struct tmk_tensor *out = tmk_run_out(run, i);
    return out && tmk_tensor_count(out) ? out->data : NULL;
}

static const float *past_of(const struct tmk_run *run, uint32_t i) {
    const struct tmk_tensor *past = tmk_run_in(run, i);
    return past ? past->data : NULL;
}

static enum tmk_status run_multihead(struct tmk_run *run) {
    const struct tmk_tensor *bias = tmk_run_in(run, IN_BIAS);
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
    TMK_TRY(
        tmk_attend_join(run, s, s->size, past_of(run, IN_PAST_KEY), out_of(run, OUT_KEY), &o.k));
    TMK_TRY(tmk_attend_join(run, s, s->value_size, past_of(run, IN_PAST_VALUE),
                            out_of(run, OUT_VALUE), &o.v));
    struct tmk_attend a = {.s = *s,
                           .q = o.q,
                           .k = o.k,
                           .v = o.v,
                           .mask = tmk_run_in(run, IN_MASK),
                           .bias = tmk_run_in(run, IN_ATTENTION_BIAS),
                           .y = out_of(run, OUT_Y),
                           .products = out_of(run, OUT_PRODUCTS)};
    return tmk_attend(run, &a);
}

const struct tmk_op tmk_ops_contrib_multihead[] = {
    {TMK_OP_CONTRIB("MultiHeadAttention"), TMK_OP_COUNTS(1, 8, 1, 4), .channel = TMK_CHANNEL_LAST,
     .attrs = "mask_filter_value:float num_heads:int! scale:float unidirectional:int",
     .infer = infer_multihead, .run = run_multihead, .cost = tmk_cost_attention},
    {NULL}};
