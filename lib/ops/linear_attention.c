/* SPDX-License-Identifier: Apache-2.0 */
/* LinearAttention: a state S of [keys, values] a head that each token fades, corrects, writes and
 * reads:
 *   gated, gated_delta     S[i, :] = S[i, :] * e^decay[i]
 *   delta, gated_delta     v = beta * (v - S^T k)
 *   all                    S = S + k v^T, output = scale * S^T q
 * Several query heads may read one state; in ONNX Runtime's operator several states may share a
 * query head and a key head, too. The state is held in double from token to token. */
#include <math.h>
#include <string.h>

#include "ops/contrib.h"
#include "ops/functions.h"
#include "ops/linear_attention.h"

enum { QUERY, KEY, VALUE, PAST, DECAY, BETA, INPUTS };

/* [batch, tokens, heads * each] with each >= 1, or TMK_SHAPE. */
static enum tmk_status want_packed(const struct tmk_tensor *tensor, const struct tmk_shape *like,
                                   int64_t heads, const char *what, struct tmk_diag *diag) {
    const struct tmk_shape *s = &tensor->shape;
    TMK_TRY(tmk_want_dtype(tensor, TMK_FLOAT32, what, diag));
    if (s->rank != 3 || s->dim[0] != like->dim[0] || s->dim[1] != like->dim[1] || s->dim[2] < 1 ||
        s->dim[2] % heads != 0)
        return tmk_fail(diag, TMK_SHAPE,
                        "input '%s' of shape %s is not [batch,tokens,elements] with elements for "
                        "%lld heads",
                        what, TMK_SHAPE_TEXT(s), (long long)heads);
    return TMK_OK;
}

static enum tmk_status want_gate(const struct tmk_tensor *tensor, bool wanted, const char *what,
                                 const char *rule, struct tmk_diag *diag) {
    if ((tensor != NULL) == wanted)
        return TMK_OK;
    return tmk_fail(diag, TMK_GRAPH, "update_rule '%s' %s input '%s'", rule,
                    wanted ? "needs" : "does not take", what);
}

enum tmk_status tmk_read_update_rule(const struct tmk_node *node, struct tmk_recurrent_heads *r,
                                     struct tmk_diag *diag) {
    const char *rule = r->rule = tmk_node_string(node, "update_rule", "gated_delta");
    r->gated = strncmp(rule, "gated", 5) == 0;
    r->delta = strcmp(rule, "delta") == 0 || strcmp(rule, "gated_delta") == 0;
    if (strcmp(rule, "linear") != 0 && strcmp(rule, "gated") != 0 && !r->delta)
        return tmk_fail(diag, TMK_RANGE,
                        "update_rule '%s' is not linear, gated, delta or gated_delta", rule);
    return TMK_OK;
}

double tmk_softplus(double x) {
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

/* `in` has INPUTS entries. */
static enum tmk_status read_recurrence(const struct tmk_node *node,
                                       const struct tmk_tensor *const *in,
                                       struct tmk_recurrent_heads *out, struct tmk_diag *diag) {
    int64_t query_heads = tmk_node_int(node, "q_num_heads", 0),
            heads = tmk_node_int(node, "kv_num_heads", 0);
    struct tmk_recurrent_heads r = {0};
    TMK_TRY(tmk_read_update_rule(node, &r, diag));
    const bool may_share = node->row->variant;
    if (query_heads < 1 || heads < 1 || query_heads > INT32_MAX || heads > INT32_MAX ||
        (query_heads % heads != 0 && !(may_share && heads % query_heads == 0)))
        return tmk_fail(diag, TMK_RANGE, "%lld query heads for %lld heads of keys and values",
                        (long long)query_heads, (long long)heads);
    TMK_TRY(want_gate(in[DECAY], r.gated, "decay", r.rule, diag));
    TMK_TRY(want_gate(in[BETA], r.delta, "beta", r.rule, diag));
    const struct tmk_shape *q = &in[QUERY]->shape;
    TMK_TRY(want_packed(in[QUERY], q, query_heads, "query", diag));
    int64_t keys = q->dim[2] / query_heads;
    TMK_TRY(want_packed(in[KEY], q, may_share ? keys : heads, "key", diag));
    TMK_TRY(want_packed(in[VALUE], q, heads, "value", diag));
    int64_t values = in[VALUE]->shape.dim[2] / heads,
            key_heads = may_share ? in[KEY]->shape.dim[2] / keys : heads;
    if (in[KEY]->shape.dim[2] / key_heads != keys || heads % key_heads != 0)
        return tmk_fail(diag, TMK_SHAPE, "keys have %lld elements a head, queries %lld",
                        (long long)(in[KEY]->shape.dim[2] / heads), (long long)keys);
    if (tmk_node_int(node, "state_window", 0) != 0)
        return tmk_fail(diag, TMK_UNSUPPORTED, "attribute 'state_window' is not supported");
    if (in[DECAY]) {
        TMK_TRY(want_packed(in[DECAY], q, heads, "decay", diag));
        r.decay_by_key = in[DECAY]->shape.dim[2] != heads;
        if (r.decay_by_key && in[DECAY]->shape.dim[2] / heads != keys)
            return tmk_fail(diag, TMK_SHAPE, "decay has %lld elements a head, neither 1 nor %lld",
                            (long long)(in[DECAY]->shape.dim[2] / heads), (long long)keys);
    }
    if (in[BETA]) {
        TMK_TRY(want_packed(in[BETA], q, 1, "beta", diag));
        if (in[BETA]->shape.dim[2] != 1 && in[BETA]->shape.dim[2] != heads)
            return tmk_fail(diag, TMK_SHAPE, "beta has %lld elements a token, neither 1 nor %lld",
                            (long long)in[BETA]->shape.dim[2], (long long)heads);
        r.beta_heads = (size_t)in[BETA]->shape.dim[2];
    }
    float scale = tmk_node_float(node, "scale", 0);
    r.scale = scale != 0 ? (double)scale : 1 / sqrt((double)keys);
    r.batch = (size_t)q->dim[0];
    r.tokens = (size_t)q->dim[1];
    r.query_heads = (size_t)query_heads;
    r.heads = (size_t)heads;
    r.key_heads = (size_t)key_heads;
    r.keys = (size_t)keys;
    r.values = (size_t)values;
    *out = r;
    return TMK_OK;
}

static enum tmk_status infer_attention(struct tmk_infer *infer) {
    const struct tmk_tensor *in[INPUTS];
    struct tmk_recurrent_heads r;
    int64_t width;
    for (uint32_t i = 0; i < INPUTS; i++)
        in[i] = tmk_infer_in(infer, i);
    TMK_TRY(read_recurrence(infer->node, in, &r, infer->diag));
    struct tmk_shape state = {
        4, {(int64_t)r.batch, (int64_t)r.heads, (int64_t)r.keys, (int64_t)r.values}};
    TMK_TRY(tmk_want_shape(in[PAST], TMK_FLOAT32, "past_state", &state, infer->diag));
    const size_t readers = r.query_heads > r.heads ? r.query_heads : r.heads;
    if (!tmk_mul_i64((int64_t)readers, (int64_t)r.values, &width))
        return tmk_fail(infer->diag, TMK_RANGE, "the output is too large");
    tmk_infer_put(infer, 0, TMK_FLOAT32,
                  &(struct tmk_shape){3, {(int64_t)r.batch, (int64_t)r.tokens, width}});
    return tmk_infer_set(infer, 1, TMK_FLOAT32, &state);
}

/* One token of one head. `decay` and `beta` may be NULL; `v` is scratch for `values`. */
static void update_state(const struct tmk_recurrent_heads *r, const float *key, const float *value,
                         const float *decay, const float *beta, double *state, double *v) {
    for (size_t i = 0; i < r->keys && decay; i++) {
        double fade = exp((double)decay[r->decay_by_key ? i : 0]);
        for (size_t j = 0; j < r->values; j++)
            state[i * r->values + j] *= fade;
    }
    for (size_t j = 0; j < r->values; j++)
        v[j] = (double)value[j];
    if (beta) {
        for (size_t i = 0; i < r->keys; i++)
            for (size_t j = 0; j < r->values; j++)
                v[j] -= state[i * r->values + j] * (double)key[i];
        for (size_t j = 0; j < r->values; j++)
            v[j] *= (double)*beta;
    }
    for (size_t i = 0; i < r->keys; i++)
        for (size_t j = 0; j < r->values; j++)
            state[i * r->values + j] += (double)key[i] * v[j];
}

static void answer_query(const struct tmk_recurrent_heads *r, const float *query,
                         const double *state, double *v, float *out) {
    memset(v, 0, r->values * sizeof *v);
    for (size_t i = 0; i < r->keys; i++)
        for (size_t j = 0; j < r->values; j++)
            v[j] += (double)query[i] * state[i * r->values + j];
    for (size_t j = 0; j < r->values; j++)
        out[j] = (float)(r->scale * v[j]);
}

static const float *float_data(const struct tmk_tensor *tensor) {
    return tensor ? tensor->data : NULL;
}

void tmk_linear_head(const struct tmk_recurrent_heads *r, const struct tmk_linear_inputs *in,
                     size_t first, size_t h, double *state, double *v, float *out) {
    const size_t fades = r->decay_by_key ? r->keys : 1,
                 readers = r->query_heads > r->heads ? r->query_heads : r->heads,
                 share = readers / r->heads, /* outputs of a state */
        queries = readers / r->query_heads;  /* outputs of a query head */
    for (size_t token = first; token < first + r->tokens; token++) {
        size_t head = token * r->heads + h,
               key = token * r->key_heads + h / (r->heads / r->key_heads);
        size_t rate = token * r->beta_heads + (r->beta_heads > 1 ? h : 0);
        update_state(r, in->key + key * r->keys, in->value + head * r->values,
                     in->decay ? in->decay + head * fades : NULL, in->beta ? in->beta + rate : NULL,
                     state, v);
        for (size_t g = h * share; g < (h + 1) * share && out; g++)
            answer_query(r, in->query + (token * r->query_heads + g / queries) * r->keys, state, v,
                         out + (token * readers + g) * r->values);
    }
}

static enum tmk_status run_attention(struct tmk_run *run) {
    const struct tmk_tensor *in[INPUTS];
    struct tmk_tensor *y = tmk_run_out(run, 0), *present = tmk_run_out(run, 1);
    struct tmk_recurrent_heads r;
    size_t bytes;
    for (uint32_t i = 0; i < INPUTS; i++)
        in[i] = tmk_run_in(run, i);
    TMK_TRY(read_recurrence(run->node, in, &r, run->diag));
    if (r.batch == 0)
        return TMK_OK;
    bool fits =
        tmk_mul_size(r.keys + 1, r.values, &bytes) && tmk_mul_size(bytes, sizeof(double), &bytes);
    double *state = fits ? run->scratch(run->context, bytes) : NULL;
    TMK_TRY_ALLOC(state, run->diag);
    const struct tmk_linear_inputs inputs = {float_data(in[QUERY]), float_data(in[KEY]),
                                             float_data(in[VALUE]), float_data(in[DECAY]),
                                             float_data(in[BETA])};
    size_t size = r.keys * r.values;
    for (size_t b = 0; b < r.batch; b++)
        for (size_t h = 0; h < r.heads; h++) {
            size_t at = (b * r.heads + h) * size;
            for (size_t i = 0; i < size; i++)
                state[i] = in[PAST] ? (double)((const float *)in[PAST]->data)[at + i] : 0;
            tmk_linear_head(&r, &inputs, b * r.tokens, h, state, state + size, y ? y->data : NULL);
            for (size_t i = 0; i < size && present; i++)
                ((float *)present->data)[at + i] = (float)state[i];
        }
    return TMK_OK;
}

/* Each step reads and writes a state of key by value elements. */
static double linear_cost(const struct tmk_node *node, const struct tmk_tensor *const *in,
                          const struct tmk_tensor *out) {
    (void)node;
    return (tmk_cost_count(in[0]) + tmk_cost_count(out)) * tmk_cost_dim(in[0], -1);
}

/* ---- LinearAttentionGate: decay = scale * softplus(a + bias), beta = sigmoid(b) ---- */

enum { GATE_A, GATE_BIAS, GATE_SCALE, GATE_B };

static enum tmk_status infer_gate(struct tmk_infer *infer) {
    const struct tmk_tensor *a = infer->in[GATE_A], *b = tmk_infer_in(infer, GATE_B);
    TMK_TRY(tmk_want_shape(a, TMK_FLOAT32, "a", &(struct tmk_shape){3, {-1, -1, -1}}, infer->diag));
    const struct tmk_shape heads = {1, {a->shape.dim[2]}};
    TMK_TRY(tmk_want_shape(infer->in[GATE_BIAS], TMK_FLOAT32, "dt_bias", &heads, infer->diag));
    TMK_TRY(tmk_want_shape(infer->in[GATE_SCALE], TMK_FLOAT32, "decay_scale", &heads, infer->diag));
    TMK_TRY(tmk_want_shape(b, TMK_FLOAT32, "b", &a->shape, infer->diag));
    if (infer->node->n_outputs > 1 && infer->node->outputs[1])
        TMK_TRY(tmk_contrib_need(infer, GATE_B, "b"));
    tmk_infer_put(infer, 0, TMK_FLOAT32, &a->shape);
    return tmk_infer_set(infer, 1, TMK_FLOAT32, &a->shape);
}

static enum tmk_status run_gate(struct tmk_run *run) {
    struct tmk_tensor *decay = tmk_run_out(run, 0), *beta = tmk_run_out(run, 1);
    const float *a = run->in[GATE_A]->data, *bias = run->in[GATE_BIAS]->data,
                *scale = run->in[GATE_SCALE]->data, *b = float_data(tmk_run_in(run, GATE_B));
    const size_t n = tmk_tensor_count(run->in[GATE_A]),
                 heads = (size_t)run->in[GATE_A]->shape.dim[2];
    for (size_t i = 0; i < n && decay; i++) {
        const double x = (double)a[i] + (double)bias[i % heads];
        ((float *)decay->data)[i] = (float)((double)scale[i % heads] * tmk_softplus(x));
    }
    for (size_t i = 0; i < n && beta && b; i++)
        ((float *)beta->data)[i] = tmk_sigmoidf(b[i]);
    return TMK_OK;
}

/* chunk_size is a hint for parallel kernels. */
#define TMK_LINEAR_ATTRS                                                                           \
    "chunk_size:int kv_num_heads:int! q_num_heads:int! scale:float update_rule:string"

const struct tmk_op tmk_ops_linear_attention[] = {
    {TMK_OP_ONNX("LinearAttention", 27, INT32_MAX), TMK_OP_COUNTS(3, 6, 1, 2),
     .channel = TMK_CHANNEL_LAST, .attrs = TMK_LINEAR_ATTRS, .infer = infer_attention,
     .run = run_attention, .cost = linear_cost},
    {TMK_OP_CONTRIB("LinearAttention"), TMK_OP_COUNTS(3, 6, 2, 2), .channel = TMK_CHANNEL_LAST,
     .variant = true /* states may share a query head */,
     .attrs = TMK_LINEAR_ATTRS " state_window:int", .infer = infer_attention, .run = run_attention,
     .cost = linear_cost},
    {TMK_OP_CONTRIB("LinearAttentionGate"), TMK_OP_COUNTS(3, 4, 1, 2), .channel = TMK_CHANNEL_LAST,
     .infer = infer_gate, .run = run_gate},
    {NULL}};
