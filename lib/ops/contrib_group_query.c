/* SPDX-License-Identifier: Apache-2.0 */
/* GroupQueryAttention of ONNX Runtime: causal attention of a decoder with a cache of keys and
 * values, where several heads of the query share one head of the keys.
 *
 * Q is [B,S,N * H], K and V are [B,S,G * H], or Q is [B,S,(N + 2 G) * H] with K and V inside.
 * Sample b has seqlens_k[b] + 1 keys, the last S of them new; when the sequence is the whole prompt
 * (S = total_sequence_length), all are new. Heads of Q and K may be normalized by their root mean
 * square before they are turned.
 *
 * A cache may hold codes (ops/contrib_cache.h): new rows are attended to as their codes have them,
 * and are observed before.
 *
 * A windowed cache (attribute 'sliding_window_cache') is taken as long as it holds every position,
 * as one does that starts empty and grows. */
#include <math.h>
#include <string.h>

#include "ops/contrib_cache.h"
#include "ops/contrib_group_query.h"
#include "ops/functions.h"
#include "ops/matmul.h"
#include "ops/rotary.h"
#include "ops/vmath.h"

enum {
    OUT_Y,
    OUT_KEY,
    OUT_VALUE,
    INNER_QUERY,
    INNER_KEY,
    INNER_VALUE,
    INNER_QUERY_ROTATED,
    INNER_KEY_ROTATED,
    INNER_SCORES,
    INNER_PROBABILITIES
};

/* Q, K and V are operands of the node, unless they are in one; some are rotated. */
bool tmk_group_query_has_inner(const struct tmk_node *node, uint32_t output) {
    if (output <= INNER_VALUE)
        return node->n_inputs <= TMK_GQ_K || !node->inputs[TMK_GQ_K];
    return output >= INNER_SCORES || tmk_node_int(node, "do_rotary", 0) != 0;
}

struct sizes {
    int64_t batch, queries, heads, groups, size; /* B, S, N, G, H */
    int64_t past, total, cache;                  /* keys of the past, in all, of the results */
    int64_t turned;     /* elements of a head that the rotary tables turn */
    bool packed, known; /* known: total and cache are */
    int bits;           /* of codes in the cache; 0: floats */
};

static enum tmk_status no_fit(const char *what, const struct tmk_tensor *x, struct tmk_diag *diag) {
    return tmk_fail(diag, TMK_SHAPE, "%s is %s, which does not fit the query and the heads", what,
                    TMK_SHAPE_TEXT(&x->shape));
}

static enum tmk_status find_heads(const struct tmk_node *node, const struct tmk_tensor *const *in,
                                  uint32_t n, struct sizes *s, struct tmk_diag *diag) {
    const struct tmk_tensor *q = in[TMK_GQ_Q], *k = tmk_operand(in, n, TMK_GQ_K),
                            *v = tmk_operand(in, n, TMK_GQ_V);
    const int64_t most = 1 << 20;
    s->heads = tmk_node_int(node, "num_heads", 0);
    s->groups = tmk_node_int(node, "kv_num_heads", 0);
    TMK_TRY(tmk_want_dtype(q, TMK_FLOAT32, "query", diag));
    if (s->heads <= 0 || s->groups <= 0 || s->heads > most || s->heads % s->groups)
        return tmk_fail(diag, TMK_RANGE,
                        "attributes 'num_heads' %lld and 'kv_num_heads' %lld do not fit each other",
                        (long long)s->heads, (long long)s->groups);
    if (!k != !v)
        return tmk_fail(diag, TMK_GRAPH, "one of key and value without the other");
    s->packed = !k;
    const int64_t heads = s->packed ? s->heads + 2 * s->groups : s->heads;
    if (q->shape.rank != 3 || q->shape.dim[2] % heads)
        return no_fit("query", q, diag);
    s->batch = q->shape.dim[0];
    s->queries = q->shape.dim[1];
    s->size = q->shape.dim[2] / heads;
    if (s->batch > INT32_MAX || s->queries > INT32_MAX || s->size > INT32_MAX)
        return tmk_fail(diag, TMK_RANGE, "the query is too large");
    const struct tmk_shape part = {3, {s->batch, s->queries, s->groups * s->size}};
    TMK_TRY(tmk_want_shape(k, TMK_FLOAT32, "key", &part, diag));
    return tmk_want_shape(v, TMK_FLOAT32, "value", &part, diag);
}

static enum tmk_status find_cache(const struct tmk_tensor *const *in, uint32_t n, struct sizes *s,
                                  struct tmk_diag *diag) {
    const struct tmk_tensor *key = tmk_operand(in, n, TMK_GQ_PAST_KEY),
                            *value = tmk_operand(in, n, TMK_GQ_PAST_VALUE),
                            *lengths = in[TMK_GQ_LENGTHS], *total = in[TMK_GQ_TOTAL];
    size_t count = 0;
    if (!key != !value)
        return tmk_fail(diag, TMK_GRAPH, "one of past_key and past_value without the other");
    if (key) {
        s->past = key->shape.rank == 4 ? key->shape.dim[2] : 0;
        /* one of no position may have heads of any size: exporters leave it symbolic */
        const struct tmk_shape past = {
            4, {s->batch, s->groups, s->past, s->past ? tmk_cache_width(s->bits, s->size) : -1}};
        const enum tmk_dtype dtype = tmk_cache_dtype(s->bits);
        TMK_TRY(tmk_want_shape(key, dtype, "past_key", &past, diag));
        TMK_TRY(tmk_want_shape(value, dtype, "past_value", &past, diag));
    }
    TMK_TRY(tmk_want_dtype(lengths, TMK_INT32, "seqlens_k", diag));
    if (!tmk_shape_count(&lengths->shape, &count) || count != (size_t)s->batch)
        return tmk_fail(diag, TMK_SHAPE, "seqlens_k has %zu elements for %lld samples", count,
                        (long long)s->batch);
    TMK_TRY(tmk_want_dtype(total, TMK_INT32, "total_sequence_length", diag));
    if (!tmk_shape_count(&total->shape, &count) || count != 1)
        return tmk_fail(diag, TMK_SHAPE, "total_sequence_length has %zu elements", count);
    s->known = total->data != NULL;
    if (!s->known)
        return TMK_OK;
    s->total = *(const int32_t *)total->data;
    if (s->total < s->queries)
        return tmk_fail(diag, TMK_RANGE, "total_sequence_length is %lld, the query has %lld rows",
                        (long long)s->total, (long long)s->queries);
    s->cache = s->total > s->past ? s->total : s->past;
    return TMK_OK;
}

static enum tmk_status check_tables(const struct tmk_node *node, const struct tmk_tensor *const *in,
                                    uint32_t n, struct sizes *s, struct tmk_diag *diag) {
    const struct tmk_tensor *cosine = tmk_operand(in, n, TMK_GQ_COS),
                            *sine = tmk_operand(in, n, TMK_GQ_SIN),
                            *positions = tmk_operand(in, n, TMK_GQ_POSITIONS);
    size_t count;
    if (!tmk_node_int(node, "do_rotary", 0))
        return TMK_OK;
    if (!cosine || !sine)
        return tmk_fail(diag, TMK_GRAPH, "attribute 'do_rotary' without cos_cache and sin_cache");
    TMK_TRY(tmk_want_dtype(cosine, TMK_FLOAT32, "cos_cache", diag));
    TMK_TRY(tmk_want_dtype(sine, TMK_FLOAT32, "sin_cache", diag));
    if (cosine->shape.rank != 2 || !tmk_shape_equal(&cosine->shape, &sine->shape) ||
        cosine->shape.dim[1] > s->size / 2)
        return no_fit("cos_cache", cosine, diag);
    s->turned = 2 * cosine->shape.dim[1];
    if (!positions)
        return TMK_OK;
    TMK_TRY(tmk_want_dtype(positions, TMK_INT64, "position_ids", diag));
    if (!tmk_shape_count(&positions->shape, &count) ||
        count != (size_t)s->batch * (size_t)s->queries)
        return no_fit("position_ids", positions, diag);
    return TMK_OK;
}

static enum tmk_status check_norms(const struct tmk_tensor *const *in, uint32_t n,
                                   const struct sizes *s, struct tmk_diag *diag) {
    const struct tmk_tensor *query = tmk_operand(in, n, TMK_GQ_QUERY_NORM),
                            *key = tmk_operand(in, n, TMK_GQ_KEY_NORM);
    if (!query != !key)
        return tmk_fail(diag, TMK_GRAPH,
                        "one of q_norm_weight and k_norm_weight without the other");
    const struct tmk_shape size = {1, {s->size}};
    TMK_TRY(tmk_want_shape(query, TMK_FLOAT32, "q_norm_weight", &size, diag));
    return tmk_want_shape(key, TMK_FLOAT32, "k_norm_weight", &size, diag);
}

static enum tmk_status check_addends(const struct tmk_tensor *const *in, uint32_t n,
                                     const struct sizes *s, struct tmk_diag *diag) {
    const struct tmk_tensor *bias = tmk_operand(in, n, TMK_GQ_BIAS),
                            *sink = tmk_operand(in, n, TMK_GQ_SINK);
    if (bias) {
        const struct tmk_shape *b = &bias->shape;
        TMK_TRY(tmk_want_dtype(bias, TMK_FLOAT32, "attention_bias", diag));
        if (b->rank != 4 || (b->dim[0] != s->batch && b->dim[0] != 1) ||
            (b->dim[1] != s->heads && b->dim[1] != 1) || b->dim[2] != s->queries ||
            (s->known && b->dim[3] < s->total))
            return no_fit("attention_bias", bias, diag);
    }
    return tmk_want_shape(sink, TMK_FLOAT32, "head_sink", &(struct tmk_shape){1, {s->heads}}, diag);
}

static enum tmk_status find_sizes(const struct tmk_node *node, const struct tmk_tensor *const *in,
                                  uint32_t n, struct sizes *out, struct tmk_diag *diag) {
    struct sizes s = {0};
    if (tmk_node_int(node, "qk_output", 0))
        return tmk_fail(diag, TMK_UNSUPPORTED, "attribute 'qk_output' is not supported");
    TMK_TRY(find_heads(node, in, n, &s, diag));
    TMK_TRY(tmk_cache_bits(node, tmk_operand(in, n, TMK_GQ_KEY_SCALE),
                           tmk_operand(in, n, TMK_GQ_VALUE_SCALE), s.groups, s.size, &s.bits,
                           diag));
    TMK_TRY(find_cache(in, n, &s, diag));
    TMK_TRY(check_tables(node, in, n, &s, diag));
    TMK_TRY(check_addends(in, n, &s, diag));
    TMK_TRY(check_norms(in, n, &s, diag));
    *out = s;
    return TMK_OK;
}

enum tmk_status tmk_infer_group_query(struct tmk_infer *infer) {
    struct sizes s;
    for (uint32_t i = 0; i < infer->n_in; i++) {
        size_t count;
        if (infer->in[i] && !tmk_shape_count(&infer->in[i]->shape, &count))
            return tmk_fail(infer->diag, TMK_RANGE, "input %u is too large", i);
    }
    TMK_TRY(tmk_contrib_need(infer, TMK_GQ_LENGTHS, "seqlens_k"));
    TMK_TRY(tmk_contrib_need(infer, TMK_GQ_TOTAL, "total_sequence_length"));
    TMK_TRY(find_sizes(infer->node, infer->in, infer->n_in, &s, infer->diag));
    const struct tmk_shape y = {3, {s.batch, s.queries, s.heads * s.size}},
                           cache = {4,
                                    {s.batch, s.groups, s.cache, tmk_cache_width(s.bits, s.size)}};
    const enum tmk_dtype cached = tmk_cache_dtype(s.bits);
    tmk_infer_put(infer, OUT_Y, TMK_FLOAT32, &y);
    const struct tmk_shape part = {3, {s.batch, s.queries, s.groups * s.size}},
                           query = {4, {s.batch, s.heads, s.queries, s.size}},
                           key = {4, {s.batch, s.groups, s.queries, s.size}},
                           scores = {4, {s.batch, s.heads, s.queries, s.size ? s.total : 0}};
    tmk_infer_put(infer, INNER_QUERY, TMK_FLOAT32, &y);
    tmk_infer_put(infer, INNER_KEY, TMK_FLOAT32, &part);
    tmk_infer_put(infer, INNER_VALUE, TMK_FLOAT32, &part);
    tmk_infer_put(infer, INNER_QUERY_ROTATED, TMK_FLOAT32, &query);
    tmk_infer_put(infer, INNER_KEY_ROTATED, TMK_FLOAT32, &key);
    if (s.known) {
        tmk_infer_put(infer, INNER_SCORES, TMK_FLOAT32, &scores);
        tmk_infer_put(infer, INNER_PROBABILITIES, TMK_FLOAT32, &scores);
        tmk_infer_put(infer, OUT_KEY, cached, &cache);
        tmk_infer_put(infer, OUT_VALUE, cached, &cache);
    }
    return TMK_OK;
}

/* ---- running ---- */

struct job {
    struct tmk_run *run;
    struct sizes s;
    const float *q, *k, *v; /* rows of the first head, as wide as q_row and kv_row */
    size_t q_row, kv_row;
    float *keys, *values, *query, *scores, *sums, *panel;
    float *normalized; /* a row of a head */
    uint8_t *codes;    /* of such a row */
    float *nothing;    /* [total] zeros */
    float *y;
    float scale, cap;
    double query_epsilon, key_epsilon;
    int64_t window;
    bool causal, interleaved, smooth;
};

/* The keys that sample b has before and after this call. */
static enum tmk_status find_lengths(const struct job *j, int64_t b, int64_t *before,
                                    int64_t *after) {
    const struct sizes *s = &j->s;
    const int64_t keys = (int64_t)((const int32_t *)j->run->in[TMK_GQ_LENGTHS]->data)[b] + 1;
    const bool prompt = s->queries == s->total;
    *before = prompt ? 0 : keys - s->queries;
    *after = *before + s->queries;
    if (keys < 1 || keys > s->total || *before < 0 || *before > s->past)
        return tmk_fail(j->run->diag, TMK_RANGE,
                        "seqlens_k[%lld] is %lld, with %lld rows of %lld in all and a past of %lld",
                        (long long)b, (long long)(keys - 1), (long long)s->queries,
                        (long long)s->total, (long long)s->past);
    return TMK_OK;
}

/* Divided by its root mean square, where the node has weights `norm` for that. */
static const float *normalize_row(const struct job *j, uint32_t norm, const float *x) {
    const struct tmk_tensor *weight = tmk_run_in(j->run, norm);
    const size_t size = (size_t)j->s.size;
    if (!weight)
        return x;
    const double squares = tmk_vsum_deviations(x, 0, size) / (double)size,
                 epsilon = norm == TMK_GQ_QUERY_NORM ? j->query_epsilon : j->key_epsilon;
    tmk_vnormalize(x, 0, (float)(1 / sqrt(squares + epsilon)), weight->data, NULL, j->normalized,
                   size);
    return j->normalized;
}

/* One row of one head, normalized and turned by its position. */
static enum tmk_status turn_row(const struct job *j, int64_t b, int64_t row, int64_t before,
                                uint32_t norm, const float *x, float *y) {
    const struct sizes *s = &j->s;
    const struct tmk_tensor *given = tmk_run_in(j->run, TMK_GQ_POSITIONS);
    x = normalize_row(j, norm, x);
    if (!tmk_node_int(j->run->node, "do_rotary", 0)) {
        memcpy(y, x, (size_t)s->size * sizeof *y);
        return TMK_OK;
    }
    const struct tmk_tensor *cosine = j->run->in[TMK_GQ_COS];
    const int64_t position =
        given ? ((const int64_t *)given->data)[b * s->queries + row] : before + row;
    if (position < 0 || position >= cosine->shape.dim[0])
        return tmk_fail(j->run->diag, TMK_RANGE, "position %lld, and tables of %lld rows",
                        (long long)position, (long long)cosine->shape.dim[0]);
    const size_t at = (size_t)position * (size_t)s->turned / 2;
    tmk_rotary_turn((size_t)s->turned, (size_t)s->size, j->interleaved,
                    (const float *)cosine->data + at,
                    (const float *)j->run->in[TMK_GQ_SIN]->data + at, x, y);
    return TMK_OK;
}

/* The past of a head in rows for floats, and zeros behind it. */
static void take_past(const struct job *j, uint32_t past, uint32_t scale, size_t head, size_t rows,
                      float *to) {
    const struct sizes *s = &j->s;
    const size_t size = (size_t)s->size, from = head * (size_t)s->past * size;
    const uint8_t *data = rows ? j->run->in[past]->data : NULL;
    memset(to + rows * size, 0, ((size_t)s->cache - rows) * size * sizeof(float));
    if (rows && s->bits) {
        const struct tmk_cache_codes c =
            tmk_cache_codes_of(s->bits, j->run->in[scale], head % (size_t)s->groups, size);
        tmk_cache_decode(&c, data + from * (size_t)s->bits / 8, to, rows);
    } else if (rows) {
        memcpy(to, data + from * sizeof(float), rows * size * sizeof(float));
    }
}

/* Codes of the past and of the new rows; these are rounded to what their codes stand for. */
static void code_head(const struct job *j, uint32_t past, uint32_t scale, uint32_t output,
                      size_t head, size_t before, float *rows) {
    const struct sizes *s = &j->s;
    const size_t size = (size_t)s->size, row = size * (size_t)s->bits / 8;
    const struct tmk_cache_codes c =
        tmk_cache_codes_of(s->bits, j->run->in[scale], head % (size_t)s->groups, size);
    uint8_t *out = tmk_run_elements(j->run, output);
    if (out) {
        out += head * (size_t)s->cache * row;
        memset(out, 0, (size_t)s->cache * row);
    }
    if (out && before)
        memcpy(out, (const uint8_t *)j->run->in[past]->data + head * (size_t)s->past * row,
               before * row);
    for (size_t i = before; i < before + (size_t)s->queries; i++) {
        tmk_cache_encode(&c, rows + i * size, j->codes);
        if (out)
            memcpy(out + i * row, j->codes, row);
    }
}

/* The past and the new rows of head g of sample b, as results have them. */
static enum tmk_status fill_cache(const struct job *j, int64_t b, int64_t g, int64_t before) {
    const struct sizes *s = &j->s;
    const size_t size = (size_t)s->size, head = (size_t)(b * s->groups + g),
                 at = head * (size_t)s->cache * size, first = at + (size_t)before * size;
    take_past(j, TMK_GQ_PAST_KEY, TMK_GQ_KEY_SCALE, head, (size_t)before, j->keys + at);
    take_past(j, TMK_GQ_PAST_VALUE, TMK_GQ_VALUE_SCALE, head, (size_t)before, j->values + at);
    for (int64_t row = 0; row < s->queries; row++) {
        const size_t from = (size_t)(b * s->queries + row) * j->kv_row + (size_t)g * size,
                     to = first + (size_t)row * size;
        TMK_TRY(turn_row(j, b, row, before, TMK_GQ_KEY_NORM, j->k + from, j->keys + to));
        memcpy(j->values + to, j->v + from, size * sizeof(float));
    }
    const size_t rows = (size_t)s->queries * size;
    TMK_TRY(tmk_run_show(j->run, INNER_KEY_ROTATED, j->keys + first, head * rows, rows));
    if (s->bits) {
        code_head(j, TMK_GQ_PAST_KEY, TMK_GQ_KEY_SCALE, OUT_KEY, head, (size_t)before,
                  j->keys + at);
        code_head(j, TMK_GQ_PAST_VALUE, TMK_GQ_VALUE_SCALE, OUT_VALUE, head, (size_t)before,
                  j->values + at);
    }
    return TMK_OK;
}

/* Softmax of x[begin .. end); the others are 0. `sink`: one more logit, of no key. */
static void weigh_row(float *x, int64_t begin, int64_t end, int64_t n, const float *sink) {
    float max = sink ? *sink : -INFINITY, sum = 0;
    for (int64_t i = begin; i < end; i++)
        max = x[i] > max ? x[i] : max;
    for (int64_t i = 0; i < n; i++) {
        x[i] = i < begin || i >= end || max == -INFINITY ? 0 : tmk_expf(x[i] - max);
        sum += x[i];
    }
    sum += sink && max != -INFINITY ? tmk_expf(*sink - max) : 0;
    for (int64_t i = begin; i < end && sum > 0; i++)
        x[i] /= sum;
}

/* A row of scores or probabilities; a sample with fewer keys than others has zeros behind them. */
static enum tmk_status show_row(const struct job *j, uint32_t output, int64_t b, int64_t h,
                                int64_t row, const float *x, int64_t keys) {
    const struct sizes *s = &j->s;
    const size_t first = (size_t)((b * s->heads + h) * s->queries + row) * (size_t)s->total;
    TMK_TRY(tmk_run_show(j->run, output, x, first, (size_t)keys));
    return tmk_run_show(j->run, output, j->nothing, first + (size_t)keys,
                        (size_t)(s->total - keys));
}

static enum tmk_status weigh_keys(const struct job *j, int64_t b, int64_t h, int64_t before,
                                  int64_t after) {
    const struct sizes *s = &j->s;
    const struct tmk_tensor *bias = tmk_run_in(j->run, TMK_GQ_BIAS),
                            *sinks = tmk_run_in(j->run, TMK_GQ_SINK);
    const float zero = 0, *sink = sinks ? (const float *)sinks->data + h : j->smooth ? &zero : NULL;
    for (int64_t row = 0; row < s->queries; row++) {
        float *x = j->scores + row * after;
        const int64_t end = j->causal ? before + row + 1 : after,
                      begin = j->window >= 0 && end > j->window ? end - j->window : 0;
        for (int64_t i = 0; i < after; i++)
            x[i] *= j->scale;
        TMK_TRY(show_row(j, INNER_SCORES, b, h, row, x, after));
        for (int64_t i = begin; i < end && j->cap > 0; i++)
            x[i] = j->cap * tmk_tanhf(x[i] / j->cap);
        if (bias) {
            const struct tmk_shape *shape = &bias->shape;
            const int64_t plane =
                (shape->dim[0] > 1 ? b : 0) * shape->dim[1] + (shape->dim[1] > 1 ? h : 0);
            const float *from =
                (const float *)bias->data + (plane * s->queries + row) * shape->dim[3];
            for (int64_t i = begin; i < end; i++)
                x[i] += from[i];
        }
        weigh_row(x, begin, end, after, sink);
        TMK_TRY(show_row(j, INNER_PROBABILITIES, b, h, row, x, after));
    }
    return TMK_OK;
}

static enum tmk_status attend_head(const struct job *j, int64_t b, int64_t h, int64_t before,
                                   int64_t after) {
    const struct sizes *s = &j->s;
    const size_t size = (size_t)s->size, rows = (size_t)s->queries,
                 head = (size_t)(b * s->groups + h / (s->heads / s->groups)),
                 at = head * (size_t)s->cache * size;
    for (size_t row = 0; row < rows; row++)
        TMK_TRY(turn_row(j, b, (int64_t)row, before, TMK_GQ_QUERY_NORM,
                         j->q + ((size_t)b * rows + row) * j->q_row + (size_t)h * size,
                         j->query + row * size));
    TMK_TRY(tmk_run_show(j->run, INNER_QUERY_ROTATED, j->query,
                         (size_t)(b * s->heads + h) * rows * size, rows * size));
    tmk_gemm_transposed(rows, (size_t)after, size, j->query, size, j->keys + at, size, j->scores,
                        j->panel);
    TMK_TRY(weigh_keys(j, b, h, before, after));
    tmk_gemm_rows(rows, size, (size_t)after, j->scores, (size_t)after, j->values + at, size,
                  j->sums, j->panel);
    for (size_t row = 0; row < rows && j->y; row++)
        memcpy(j->y + (((size_t)b * rows + row) * (size_t)s->heads + (size_t)h) * size,
               j->sums + row * size, size * sizeof(float));
    return TMK_OK;
}

static enum tmk_status take_scratch(struct job *j) {
    const struct sizes *s = &j->s;
    j->keys = s->bits ? NULL : tmk_run_elements(j->run, OUT_KEY);
    j->values = s->bits ? NULL : tmk_run_elements(j->run, OUT_VALUE);
    if (!j->keys)
        TMK_TRY(tmk_scratch_floats(j->run, s->batch * s->groups, s->cache, s->size, &j->keys));
    if (!j->values)
        TMK_TRY(tmk_scratch_floats(j->run, s->batch * s->groups, s->cache, s->size, &j->values));
    TMK_TRY(tmk_scratch_floats(j->run, s->queries, s->size, 1, &j->query));
    TMK_TRY(tmk_scratch_floats(j->run, s->queries, s->size, 1, &j->sums));
    TMK_TRY(tmk_scratch_floats(j->run, s->size, 1, 1, &j->normalized));
    float *codes;
    TMK_TRY(tmk_scratch_floats(j->run, s->size, 1, 1, &codes));
    j->codes = (uint8_t *)codes;
    TMK_TRY(tmk_scratch_floats(j->run, s->queries, s->total, 1, &j->scores));
    TMK_TRY(tmk_scratch_floats(j->run, s->total, 1, 1, &j->nothing));
    memset(j->nothing, 0, (size_t)s->total * sizeof *j->nothing);
    return tmk_scratch_floats(j->run, TMK_GEMM_PANEL / sizeof(float), 1, 1, &j->panel);
}

/* What one operand holds together, and no rotation has turned yet. */
static enum tmk_status show_parts(const struct job *j) {
    const struct sizes *s = &j->s;
    const size_t query = (size_t)(s->heads * s->size), kv = (size_t)(s->groups * s->size);
    for (size_t i = 0; s->packed && i < (size_t)(s->batch * s->queries); i++) {
        TMK_TRY(tmk_run_show(j->run, INNER_QUERY, j->q + i * j->q_row, i * query, query));
        TMK_TRY(tmk_run_show(j->run, INNER_KEY, j->k + i * j->kv_row, i * kv, kv));
        TMK_TRY(tmk_run_show(j->run, INNER_VALUE, j->v + i * j->kv_row, i * kv, kv));
    }
    return TMK_OK;
}

enum tmk_status tmk_run_group_query(struct tmk_run *run) {
    struct job j = {.run = run, .y = tmk_run_elements(run, OUT_Y)};
    struct sizes *s = &j.s;
    TMK_TRY(find_sizes(run->node, run->in, run->n_in, s, run->diag));
    j.scale = (float)tmk_node_float(run->node, "scale", 0);
    if (j.scale == 0)
        j.scale = 1 / sqrtf((float)s->size);
    j.cap = (float)tmk_node_float(run->node, "softcap", 0);
    j.window = tmk_node_int(run->node, "local_window_size", -1);
    j.interleaved = tmk_node_int(run->node, "rotary_interleaved", 0) != 0;
    j.smooth = tmk_node_int(run->node, "smooth_softmax", 0) > 0;
    j.causal = tmk_node_int(run->node, "causal", 1) != 0;
    const double epsilon = tmk_node_float(run->node, "qk_norm_epsilon", 1e-6);
    j.query_epsilon = tmk_node_float(run->node, "q_norm_epsilon", epsilon);
    j.key_epsilon = tmk_node_float(run->node, "k_norm_epsilon", epsilon);
    const size_t size = (size_t)s->size, kv = (size_t)s->groups * size;
    j.q = run->in[TMK_GQ_Q]->data;
    j.q_row = (size_t)s->heads * size + (s->packed ? 2 * kv : 0);
    j.kv_row = s->packed ? j.q_row : kv;
    int64_t before, after;
    for (int64_t b = 0; s->queries && b < s->batch; b++)
        TMK_TRY(find_lengths(&j, b, &before, &after));
    if (!s->batch || !s->queries || !s->size)
        return TMK_OK;
    j.k = s->packed ? j.q + (size_t)s->heads * size : run->in[TMK_GQ_K]->data;
    j.v = s->packed ? j.k + kv : run->in[TMK_GQ_V]->data;
    TMK_TRY(take_scratch(&j));
    TMK_TRY(show_parts(&j));
    for (int64_t b = 0; b < s->batch; b++) {
        TMK_TRY(find_lengths(&j, b, &before, &after));
        for (int64_t g = 0; g < s->groups; g++)
            TMK_TRY(fill_cache(&j, b, g, before));
        for (int64_t h = 0; h < s->heads; h++)
            TMK_TRY(attend_head(&j, b, h, before, after));
    }
    return TMK_OK;
}

const struct tmk_op tmk_ops_contrib_group_query[] = {
    {TMK_OP_CONTRIB("GroupQueryAttention"), TMK_OP_COUNTS(1, 16, 1, 3), .flags = TMK_OP_CHECKS,
     .channel = TMK_CHANNEL_LAST,
     .attrs = "causal:int do_rotary:int k_norm_epsilon:float k_quant_type:string "
              "kv_cache_bit_width:int kv_num_heads:int! local_window_size:int num_heads:int! "
              "q_norm_epsilon:float qk_norm_epsilon:float qk_output:int rotary_interleaved:int "
              "scale:float sliding_window_cache:int smooth_softmax:int softcap:float "
              "v_quant_type:string",
     .inner = TMK_GROUP_QUERY_INNER, .has_inner = tmk_group_query_has_inner,
     .infer = tmk_infer_group_query, .run = tmk_run_group_query, .cost = tmk_cost_attention},
    {NULL}};
