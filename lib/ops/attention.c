/* SPDX-License-Identifier: Apache-2.0 */
/* Attention: softmax(softcap(Q K^T scale) + bias) V, head by head.
 *
 * The bias of a query and a key is that of the mask, and -inf where the causal frontier, the window
 * or the end of the sequence is in between. A query that may attend no key gives zeros.
 * `softmax_precision` is always float32. */
#include <math.h>
#include <string.h>

#include "ops/cost.h"
#include "ops/functions.h"
#include "ops/kernel.h"
#include "ops/matmul.h"
#include "ops/vmath.h"

/* In the order of the inputs and outputs. */
enum { IN_Q, IN_K, IN_V, IN_MASK, IN_PAST_KEY, IN_PAST_VALUE, IN_LENGTHS };
enum { OUT_Y, OUT_KEY, OUT_VALUE, OUT_SCORES, INNER_SCORES, INNER_PROBABILITIES };

/* What output 3 shows. */
enum shown { SHOW_PRODUCT, SHOW_CAPPED, SHOW_BIASED, SHOW_SOFTMAX };

struct sizes {
    bool packed; /* rank 3: batch, sequence, heads * size; else batch, heads, sequence, size */
    int64_t batch, q_heads, kv_heads, queries, keys, past, total, size, value_size;
};

/* ---- shapes ---- */

/* Heads, sequence and size of one of Q, K, V. */
static enum tmk_status read_operand(const struct tmk_node *node, const struct tmk_tensor *x,
                                    const char *what, const char *attr, int64_t *heads,
                                    int64_t *sequence, int64_t *size, struct tmk_diag *diag) {
    const int64_t *dim = x->shape.dim;
    TMK_TRY(tmk_want_dtype(x, TMK_FLOAT32, what, diag));
    if (x->shape.rank != 3 && x->shape.rank != 4)
        return tmk_fail(diag, TMK_SHAPE, "input '%s' has rank %d, neither 3 nor 4", what,
                        (int)x->shape.rank);
    *heads = tmk_node_int(node, attr, x->shape.rank == 4 ? dim[1] : 0);
    if (x->shape.rank == 4) {
        *sequence = dim[2];
        *size = dim[3];
        if (*heads != dim[1])
            return tmk_fail(diag, TMK_SHAPE, "attribute '%s' is %lld, but '%s' has %lld heads",
                            attr, (long long)*heads, what, (long long)dim[1]);
        return TMK_OK;
    }
    if (*heads <= 0 || dim[2] % *heads)
        return tmk_fail(diag, TMK_SHAPE, "attribute '%s' is %lld, which does not divide %lld", attr,
                        (long long)*heads, (long long)dim[2]);
    *sequence = dim[1];
    *size = dim[2] / *heads;
    return TMK_OK;
}

/* A cache of no position may have heads of any size: exporters leave it symbolic. */
static enum tmk_status want_past(const struct tmk_tensor *past, const char *what,
                                 const struct sizes *s, int64_t size, struct tmk_diag *diag) {
    return tmk_want_shape(
        past, TMK_FLOAT32, what,
        &(struct tmk_shape){4, {s->batch, s->kv_heads, s->past, s->past ? size : -1}}, diag);
}

/* `in` holds n inputs. */
static enum tmk_status read_sizes(const struct tmk_node *node, const struct tmk_tensor *const *in,
                                  uint32_t n, struct sizes *s, struct tmk_diag *diag) {
    const struct tmk_tensor *q = in[IN_Q], *k = in[IN_K], *v = in[IN_V],
                            *key = tmk_operand(in, n, IN_PAST_KEY),
                            *value = tmk_operand(in, n, IN_PAST_VALUE);
    int64_t size, heads, values;
    TMK_TRY(read_operand(node, q, "Q", "q_num_heads", &s->q_heads, &s->queries, &s->size, diag));
    TMK_TRY(read_operand(node, k, "K", "kv_num_heads", &s->kv_heads, &s->keys, &size, diag));
    TMK_TRY(read_operand(node, v, "V", "kv_num_heads", &heads, &values, &s->value_size, diag));
    s->packed = q->shape.rank == 3;
    s->batch = q->shape.dim[0];
    if (k->shape.rank != q->shape.rank || v->shape.rank != q->shape.rank)
        return tmk_fail(diag, TMK_SHAPE, "inputs 'Q', 'K' and 'V' have ranks %d, %d and %d",
                        (int)q->shape.rank, (int)k->shape.rank, (int)v->shape.rank);
    if (k->shape.dim[0] != s->batch || v->shape.dim[0] != s->batch || size != s->size ||
        heads != s->kv_heads || values != s->keys)
        return tmk_fail(diag, TMK_SHAPE, "inputs 'Q', 'K' and 'V' do not fit each other");
    if (s->kv_heads ? s->q_heads % s->kv_heads : s->q_heads)
        return tmk_fail(diag, TMK_SHAPE, "%lld heads of 'Q' cannot share %lld of 'K'",
                        (long long)s->q_heads, (long long)s->kv_heads);
    if (!key != !value)
        return tmk_fail(diag, TMK_GRAPH, "one of 'past_key' and 'past_value' without the other");
    s->past = key && key->shape.rank == 4 ? key->shape.dim[2] : 0;
    if (key) {
        TMK_TRY(want_past(key, "past_key", s, s->size, diag));
        TMK_TRY(want_past(value, "past_value", s, s->value_size, diag));
    }
    if (!tmk_add_i64(s->past, s->keys, &s->total))
        return tmk_fail(diag, TMK_RANGE, "too many keys");
    return TMK_OK;
}

/* From operator set 24 on a mask may end early; the rest is not attended. */
static bool mask_may_end(const struct tmk_node *node) {
    return node->row->since >= 24;
}

static enum tmk_status check_mask(const struct tmk_node *node, const struct tmk_tensor *mask,
                                  const struct sizes *s, struct tmk_diag *diag) {
    struct tmk_shape all = {4, {s->batch, s->q_heads, s->queries, s->total}};
    struct tmk_shape shape = mask->shape, both;
    if (mask->dtype != TMK_BOOL)
        TMK_TRY(tmk_want_dtype(mask, TMK_FLOAT32, "attn_mask", diag));
    int32_t last = shape.rank - 1;
    if (last >= 0 && mask_may_end(node) && shape.dim[last] < s->total)
        shape.dim[last] = s->total;
    if (last < 0 || tmk_broadcast(&shape, &all, &both, NULL) != TMK_OK ||
        !tmk_shape_equal(&both, &all))
        return tmk_fail(diag, TMK_SHAPE,
                        "input 'attn_mask' is %s, which does not fit [%lld,%lld,%lld,%lld]",
                        TMK_SHAPE_TEXT(&mask->shape), (long long)s->batch, (long long)s->q_heads,
                        (long long)s->queries, (long long)s->total);
    return TMK_OK;
}

static enum tmk_status check_attributes(const struct tmk_node *node, struct tmk_diag *diag) {
    static const char *const windows[] = {"left_window_size", "right_window_size"};
    int64_t shown = tmk_node_int(node, "qk_matmul_output_mode", 0);
    if (shown < SHOW_PRODUCT || shown > SHOW_SOFTMAX)
        return tmk_fail(diag, TMK_RANGE,
                        "attribute 'qk_matmul_output_mode' is %lld, not from 0 to 3",
                        (long long)shown);
    for (size_t i = 0; i < TMK_COUNT(windows); i++)
        if (tmk_node_int(node, windows[i], -1) < -1)
            return tmk_fail(diag, TMK_RANGE, "attribute '%s' is %lld", windows[i],
                            (long long)tmk_node_int(node, windows[i], -1));
    return TMK_OK;
}

static enum tmk_status infer_attention(struct tmk_infer *infer) {
    struct sizes s;
    const struct tmk_tensor *mask = tmk_infer_in(infer, IN_MASK),
                            *lengths = tmk_infer_in(infer, IN_LENGTHS);
    TMK_TRY(read_sizes(infer->node, infer->in, infer->n_in, &s, infer->diag));
    TMK_TRY(check_attributes(infer->node, infer->diag));
    if (mask)
        TMK_TRY(check_mask(infer->node, mask, &s, infer->diag));
    TMK_TRY(tmk_want_shape(lengths, TMK_INT64, "nonpad_kv_seqlen",
                           &(struct tmk_shape){1, {s.batch}}, infer->diag));
    if (lengths && tmk_infer_in(infer, IN_PAST_KEY))
        return tmk_fail(infer->diag, TMK_GRAPH,
                        "inputs 'nonpad_kv_seqlen' and 'past_key' exclude each other");
    struct tmk_shape y = {4, {s.batch, s.q_heads, s.queries, s.value_size}};
    if (s.packed) {
        y = (struct tmk_shape){3, {s.batch, s.queries, 0}};
        if (!tmk_mul_i64(s.q_heads, s.value_size, &y.dim[2]))
            return tmk_fail(infer->diag, TMK_RANGE, "the output is too large");
    }
    struct tmk_shape key = {4, {s.batch, s.kv_heads, s.total, s.size}}, value = key,
                     scores = {4, {s.batch, s.q_heads, s.queries, s.total}};
    value.dim[3] = s.value_size;
    tmk_infer_put(infer, OUT_Y, TMK_FLOAT32, &y);
    tmk_infer_put(infer, OUT_KEY, TMK_FLOAT32, &key);
    tmk_infer_put(infer, OUT_VALUE, TMK_FLOAT32, &value);
    tmk_infer_put(infer, INNER_SCORES, TMK_FLOAT32, &scores);
    tmk_infer_put(infer, INNER_PROBABILITIES, TMK_FLOAT32, &scores);
    return tmk_infer_set(infer, OUT_SCORES, TMK_FLOAT32, &scores);
}

/* ---- running ---- */

/* Sequences of vectors, one a head. */
struct heads {
    const float *data;
    size_t batch, head, row; /* elements from one to the next */
};

static struct heads heads_of(const struct tmk_tensor *x, bool packed, size_t heads, size_t sequence,
                             size_t size) {
    if (packed)
        return (struct heads){x->data, sequence * heads * size, size, heads * size};
    return (struct heads){x->data, heads * sequence * size, sequence * size, size};
}

/* Past and new vectors joined, in output `output` or, where it is not wanted, in scratch. */
static enum tmk_status join_past(struct tmk_run *run, const struct sizes *s, uint32_t output,
                                 uint32_t past_input, uint32_t input, int64_t vector,
                                 struct heads *out) {
    struct tmk_tensor *present = tmk_run_out(run, output);
    const struct tmk_tensor *past = tmk_run_in(run, past_input);
    size_t heads = (size_t)s->kv_heads, keys = (size_t)s->keys, size = (size_t)vector,
           total = (size_t)s->total, before = (size_t)s->past * size, bytes, all;
    *out = heads_of(run->in[input], s->packed, heads, keys, size);
    if (!present && !past)
        return TMK_OK;
    struct heads joined = {NULL, heads * total * size, total * size, size};
    TMK_TRY_ALLOC(
        tmk_mul_size((size_t)s->batch, heads, &all) && tmk_mul_size(total, size, &bytes) &&
            tmk_mul_size(bytes, sizeof(float), &bytes) && tmk_mul_size(bytes, all, &bytes),
        run->diag);
    float *to = present ? present->data : run->scratch(run->context, bytes + 1);
    if (!to && bytes)
        return tmk_nomem(run->diag);
    joined.data = to;
    for (size_t i = 0; i < all && bytes > 0; i++, to += total * size) {
        const float *from = out->data + i / heads * out->batch + i % heads * out->head;
        if (before)
            memcpy(to, (const float *)past->data + i * before, before * sizeof *to);
        for (size_t r = 0; r < keys; r++)
            memcpy(to + before + r * size, from + r * out->row, size * sizeof *to);
    }
    *out = joined;
    return TMK_OK;
}

/* What decides on the bias. */
struct bias {
    const struct tmk_tensor *mask;     /* or NULL */
    int64_t mask_stride[TMK_MAX_RANK]; /* in batch, heads, queries, keys */
    size_t mask_keys;                  /* later ones are not attended */
    const int64_t *lengths;            /* or NULL */
    bool causal;
    int64_t left, right; /* -1: no limit */
};

static void read_bias(const struct tmk_run *run, const struct sizes *s, struct bias *out) {
    const struct tmk_tensor *lengths = tmk_run_in(run, IN_LENGTHS);
    int64_t most = s->total + s->queries; /* as good as any wider window */
    *out = (struct bias){.mask = tmk_run_in(run, IN_MASK),
                         .mask_keys = (size_t)s->total,
                         .lengths = lengths ? lengths->data : NULL,
                         .causal = tmk_node_int(run->node, "is_causal", 0) != 0,
                         .left = tmk_node_int(run->node, "left_window_size", -1),
                         .right = tmk_node_int(run->node, "right_window_size", -1)};
    out->left = out->left < most ? out->left : most;
    out->right = out->right < most ? out->right : most;
    if (!out->mask)
        return;
    struct tmk_shape all = {4, {s->batch, s->q_heads, s->queries, s->total}};
    int32_t last = out->mask->shape.rank - 1;
    if (mask_may_end(run->node) && out->mask->shape.dim[last] < s->total) {
        out->mask_keys = (size_t)out->mask->shape.dim[last];
        all.dim[3] = out->mask->shape.dim[last];
    }
    tmk_broadcast_strides(&out->mask->shape, &all, out->mask_stride);
}

/* The bias of query i of head h in sample b for every key; false where all of them are -inf. */
static bool fill_bias(const struct bias *bias, const struct sizes *s, size_t b, size_t h, size_t i,
                      float *out) {
    const int64_t *stride = bias->mask_stride;
    int64_t length = bias->lengths ? bias->lengths[b] : s->total;
    int64_t place = (int64_t)i + (bias->lengths ? length - s->queries : s->past);
    size_t at = b * (size_t)stride[0] + h * (size_t)stride[1] + i * (size_t)stride[2];
    bool any = false;
    for (int64_t j = 0; j < s->total; j++) {
        size_t where = at + (size_t)j * (size_t)stride[3];
        float value = 0;
        if ((size_t)j >= bias->mask_keys)
            value = -INFINITY;
        else if (bias->mask && bias->mask->dtype == TMK_BOOL)
            value = ((const uint8_t *)bias->mask->data)[where] ? 0 : -INFINITY;
        else if (bias->mask)
            value = ((const float *)bias->mask->data)[where];
        if ((bias->causal && j > place) || j >= length ||
            (bias->left >= 0 && j < place - bias->left) ||
            (bias->right >= 0 && j > place + bias->right))
            value += -INFINITY;
        out[j] = value;
        any = any || value != -INFINITY;
    }
    return any;
}

/* In place. */
static void softmax_row(size_t n, float *x) {
    float most = tmk_vmax(x, n);
    if (most == -INFINITY) {
        memset(x, 0, n * sizeof *x);
        return;
    }
    double sum = tmk_vexp_sum(x, most, x, n);
    for (size_t j = 0; j < n; j++)
        x[j] = (float)((double)x[j] / sum);
}

struct attention {
    struct sizes s;
    struct bias bias;
    struct heads q, k, v;
    float scale, softcap;
    enum shown shown;
    float *panel, *scores, *row, *result; /* scores: of one head; row: bias; result: of one head */
    float *y, *shown_scores;              /* outputs, or NULL */
};

/* Products to probabilities, for query i; `shown` is its row of output 3, or NULL. */
static enum tmk_status finish_row(struct tmk_run *run, const struct attention *a, size_t b,
                                  size_t h, size_t i, float *score, float *shown) {
    const size_t n = (size_t)a->s.total,
                 first = ((b * (size_t)a->s.q_heads + h) * (size_t)a->s.queries + i) * n;
    for (size_t j = 0; j < n; j++)
        score[j] *= a->scale;
    TMK_TRY(tmk_run_show(run, INNER_SCORES, score, first, n));
    if (shown && a->shown == SHOW_PRODUCT)
        memcpy(shown, score, n * sizeof *score);
    for (size_t j = 0; j < n && a->softcap > 0; j++)
        score[j] = tmk_tanhf(score[j] / a->softcap) * a->softcap;
    if (shown && a->shown == SHOW_CAPPED)
        memcpy(shown, score, n * sizeof *score);
    bool any = fill_bias(&a->bias, &a->s, b, h, i, a->row);
    for (size_t j = 0; j < n; j++)
        score[j] += a->row[j];
    if (shown && a->shown == SHOW_BIASED)
        memcpy(shown, score, n * sizeof *score);
    if (any)
        softmax_row(n, score);
    else
        memset(score, 0, n * sizeof *score);
    if (shown && a->shown == SHOW_SOFTMAX)
        memcpy(shown, score, n * sizeof *score);
    return tmk_run_show(run, INNER_PROBABILITIES, score, first, n);
}

static enum tmk_status attend_head(struct tmk_run *run, const struct attention *a, size_t b,
                                   size_t h) {
    const struct sizes *s = &a->s;
    size_t group = h / (size_t)(s->q_heads / s->kv_heads), queries = (size_t)s->queries,
           total = (size_t)s->total, width = (size_t)s->value_size,
           head = b * (size_t)s->q_heads + h;
    tmk_gemm_transposed(queries, total, (size_t)s->size, a->q.data + b * a->q.batch + h * a->q.head,
                        a->q.row, a->k.data + b * a->k.batch + group * a->k.head, a->k.row,
                        a->scores, a->panel);
    for (size_t i = 0; i < queries && total; i++)
        TMK_TRY(
            finish_row(run, a, b, h, i, a->scores + i * total,
                       a->shown_scores ? a->shown_scores + (head * queries + i) * total : NULL));
    if (!a->y)
        return TMK_OK;
    tmk_gemm_rows(queries, width, total, a->scores, total,
                  a->v.data + b * a->v.batch + group * a->v.head, a->v.row,
                  s->packed ? a->result : a->y + head * queries * width, a->panel);
    for (size_t i = 0; s->packed && i < queries && width; i++)
        memcpy(a->y + ((b * queries + i) * (size_t)s->q_heads + h) * width, a->result + i * width,
               width * sizeof(float));
    return TMK_OK;
}

static enum tmk_status run_attention(struct tmk_run *run) {
    struct attention a = {0};
    TMK_TRY(read_sizes(run->node, run->in, run->n_in, &a.s, run->diag));
    const struct sizes *s = &a.s;
    read_bias(run, s, &a.bias);
    for (int64_t b = 0; a.bias.lengths && b < s->batch; b++)
        if (a.bias.lengths[b] < 0 || a.bias.lengths[b] > s->total)
            return tmk_fail(run->diag, TMK_RANGE, "input 'nonpad_kv_seqlen' has %lld of %lld keys",
                            (long long)a.bias.lengths[b], (long long)s->total);
    a.q =
        heads_of(run->in[IN_Q], s->packed, (size_t)s->q_heads, (size_t)s->queries, (size_t)s->size);
    TMK_TRY(join_past(run, s, OUT_KEY, IN_PAST_KEY, IN_K, s->size, &a.k));
    TMK_TRY(join_past(run, s, OUT_VALUE, IN_PAST_VALUE, IN_V, s->value_size, &a.v));
    TMK_TRY(tmk_scratch_floats(run, TMK_GEMM_PANEL / sizeof(float), 1, 1, &a.panel));
    TMK_TRY(tmk_scratch_floats(run, s->queries, s->total, 1, &a.scores));
    TMK_TRY(tmk_scratch_floats(run, s->total, 1, 1, &a.row));
    if (s->packed)
        TMK_TRY(tmk_scratch_floats(run, s->queries, s->value_size, 1, &a.result));
    a.scale = tmk_node_float(run->node, "scale", s->size ? 1 / sqrtf((float)s->size) : 1);
    a.softcap = tmk_node_float(run->node, "softcap", 0);
    a.shown = (enum shown)tmk_node_int(run->node, "qk_matmul_output_mode", 0);
    a.y = tmk_run_elements(run, OUT_Y);
    a.shown_scores = tmk_run_elements(run, OUT_SCORES);
    if (!a.y && !a.shown_scores && !tmk_run_out(run, INNER_SCORES) &&
        !tmk_run_out(run, INNER_PROBABILITIES))
        return TMK_OK;
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->q_heads; h++)
            TMK_TRY(attend_head(run, &a, (size_t)b, (size_t)h));
    return TMK_OK;
}

/* ---- rows ---- */

#define TMK_ATTENTION_ATTRS                                                                        \
    "is_causal:int kv_num_heads:int q_num_heads:int qk_matmul_output_mode:int scale:float "        \
    "softcap:float softmax_precision:int"

static const char attention_inner[] = "scores:4 probabilities:5";

const struct tmk_op tmk_ops_attention[] = {
    {TMK_OP_ONNX("Attention", 23, 23), TMK_OP_COUNTS(3, 6, 1, 4), .channel = TMK_CHANNEL_LAST,
     .attrs = TMK_ATTENTION_ATTRS, .inner = attention_inner, .infer = infer_attention,
     .run = run_attention, .cost = tmk_cost_attention},
    {TMK_OP_ONNX("Attention", 24, 24), TMK_OP_COUNTS(3, 7, 1, 4), .flags = TMK_OP_CHECKS,
     .channel = TMK_CHANNEL_LAST, .attrs = TMK_ATTENTION_ATTRS, .inner = attention_inner,
     .infer = infer_attention, .run = run_attention, .cost = tmk_cost_attention},
    {TMK_OP_ONNX("Attention", 25, INT32_MAX), TMK_OP_COUNTS(3, 7, 1, 4), .flags = TMK_OP_CHECKS,
     .channel = TMK_CHANNEL_LAST,
     .attrs = TMK_ATTENTION_ATTRS " left_window_size:int right_window_size:int",
     .inner = attention_inner, .infer = infer_attention, .run = run_attention,
     .cost = tmk_cost_attention},
    {NULL}};
