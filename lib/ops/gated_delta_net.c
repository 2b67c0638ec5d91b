/* SPDX-License-Identifier: Apache-2.0 */
/* GatedDeltaNet of ONNX Runtime: linear attention (ops/linear_attention.h) over tokens of several
 * sequences behind each other, with the activations of its gates and the normalization of queries
 * and keys inside. Its states are [values, keys]. */
#include <math.h>
#include <string.h>

#include "ops/contrib.h"
#include "ops/functions.h"
#include "ops/linear_attention.h"

enum {
    IN_QUERY,
    IN_KEY,
    IN_VALUE,
    IN_ENDS,
    IN_DECAY,
    IN_BETA,
    IN_STATE,
    IN_A_LOG,
    IN_DT_BIAS,
    IN_CAPTURE
};

enum gate { GATE_NONE, GATE_SOFTPLUS, GATE_SIGMOID };

struct delta_net {
    struct tmk_recurrent_heads heads;
    struct tmk_shape lead; /* the axes before heads and elements: [tokens] or [batch, tokens] */
    size_t tokens;         /* of all sequences */
    size_t shifts;         /* dt_bias: elements a head; 0: absent */
    enum gate gate;
    bool packed, beta_sigmoid, normalized;
};

static enum tmk_status read_rule(const struct tmk_node *node, const struct tmk_tensor *const *in,
                                 uint32_t n, struct delta_net *d, struct tmk_diag *diag) {
    static const enum gate gates[] = {GATE_NONE, GATE_SOFTPLUS, GATE_SOFTPLUS, GATE_SIGMOID,
                                      GATE_SIGMOID};
    int gate, beta;
    struct tmk_recurrent_heads *r = &d->heads;
    TMK_TRY(tmk_read_update_rule(node, r, diag));
    TMK_TRY(tmk_choice(node, "gate_activation", "none softplus qwen sigmoid kda", &gate, diag));
    TMK_TRY(tmk_choice(node, "beta_activation", "none sigmoid", &beta, diag));
    d->gate = gates[gate];
    d->beta_sigmoid = beta != 0;
    d->normalized = tmk_node_int(node, "qk_l2_norm", 0) != 0;
    if (tmk_node_int(node, "state_update_capacity", 0) != 0 || tmk_operand(in, n, IN_CAPTURE))
        return tmk_fail(diag, TMK_UNSUPPORTED, "captured states are not supported");
    if (r->gated && !tmk_operand(in, n, IN_DECAY))
        return tmk_fail(diag, TMK_GRAPH, "update_rule '%s' needs input 'decay'", r->rule);
    if (r->delta && !tmk_operand(in, n, IN_BETA))
        return tmk_fail(diag, TMK_GRAPH, "update_rule '%s' needs input 'beta'", r->rule);
    if (r->gated && d->gate && !tmk_operand(in, n, IN_A_LOG))
        return tmk_fail(diag, TMK_GRAPH, "attribute 'gate_activation' needs input 'a_log'");
    return TMK_OK;
}

/* TMK_SHAPE unless the input (may be NULL) is float32 and [lead..., a], or, b not 0,
 * [lead..., a, b]. */
static enum tmk_status want_lead(const struct tmk_tensor *x, const struct tmk_shape *lead,
                                 int64_t a, int64_t b, const char *what, struct tmk_diag *diag) {
    struct tmk_shape shape = *lead;
    shape.dim[shape.rank++] = a;
    if (b)
        shape.dim[shape.rank++] = b;
    return tmk_want_shape(x, TMK_FLOAT32, what, &shape, diag);
}

/* Heads and their sizes, from query, key and value, or from the state where they are packed. */
static enum tmk_status read_heads(const struct tmk_tensor *const *in, uint32_t n,
                                  struct delta_net *d, struct tmk_diag *diag) {
    const struct tmk_tensor *q = in[IN_QUERY], *k = tmk_operand(in, n, IN_KEY),
                            *v = tmk_operand(in, n, IN_VALUE),
                            *state = tmk_operand(in, n, IN_STATE);
    struct tmk_recurrent_heads *r = &d->heads;
    TMK_TRY(tmk_want_dtype(q, TMK_FLOAT32, "query", diag));
    if (!k != !v || (!k && !state))
        return tmk_fail(diag, TMK_GRAPH,
                        "key and value are both needed, or initial_state and neither");
    if (state)
        TMK_TRY(tmk_want_dtype(state, TMK_FLOAT32, "initial_state", diag));
    if (state && state->shape.rank != 4)
        return tmk_fail(diag, TMK_SHAPE, "initial_state is %s", TMK_SHAPE_TEXT(&state->shape));
    d->packed = !k;
    d->lead = q->shape;
    d->lead.rank = q->shape.rank - (d->packed ? 1 : 2);
    if (d->lead.rank < 1 || d->lead.rank > 2 || (!d->packed && v->shape.rank != q->shape.rank))
        return tmk_fail(diag, TMK_SHAPE, "query is %s", TMK_SHAPE_TEXT(&q->shape));
    const int32_t last = q->shape.rank - 1;
    int64_t heads = d->packed ? state->shape.dim[1] : v->shape.dim[last - 1],
            values = d->packed ? state->shape.dim[2] : v->shape.dim[last],
            keys = d->packed ? state->shape.dim[3] : q->shape.dim[last], queries, width;
    if (heads < 1 || keys < 1 || values < 1 || heads > INT32_MAX || keys > INT32_MAX / 2 ||
        values > INT32_MAX || !tmk_mul_i64(heads, values, &width))
        return tmk_fail(diag, TMK_RANGE,
                        "%lld heads with keys and values of %lld and %lld elements",
                        (long long)heads, (long long)keys, (long long)values);
    queries = d->packed ? (q->shape.dim[last] - width) / (2 * keys) : q->shape.dim[last - 1];
    if (queries < 1 || heads % queries != 0 ||
        (d->packed && 2 * keys * queries + width != q->shape.dim[last]))
        return tmk_fail(diag, TMK_SHAPE, "a query of %s does not fit %lld heads",
                        TMK_SHAPE_TEXT(&q->shape), (long long)heads);
    if (!d->packed) {
        TMK_TRY(want_lead(k, &d->lead, queries, keys, "key", diag));
        TMK_TRY(want_lead(v, &d->lead, heads, values, "value", diag));
    }
    r->query_heads = r->key_heads = (size_t)queries;
    r->heads = r->beta_heads = (size_t)heads;
    r->keys = (size_t)keys;
    r->values = (size_t)values;
    return TMK_OK;
}

static enum tmk_status read_gates(const struct tmk_tensor *const *in, uint32_t n,
                                  struct delta_net *d, struct tmk_diag *diag) {
    const struct tmk_tensor *decay = tmk_operand(in, n, IN_DECAY),
                            *shift = tmk_operand(in, n, IN_DT_BIAS);
    const int64_t heads = (int64_t)d->heads.heads, keys = (int64_t)d->heads.keys;
    size_t count;
    d->heads.decay_by_key = decay && decay->shape.rank == d->lead.rank + 2;
    TMK_TRY(want_lead(decay, &d->lead, heads, d->heads.decay_by_key ? keys : 0, "decay", diag));
    TMK_TRY(want_lead(tmk_operand(in, n, IN_BETA), &d->lead, heads, 0, "beta", diag));
    TMK_TRY(tmk_want_shape(tmk_operand(in, n, IN_A_LOG), TMK_FLOAT32, "a_log",
                           &(struct tmk_shape){1, {heads}}, diag));
    if (!shift)
        return TMK_OK;
    TMK_TRY(tmk_want_dtype(shift, TMK_FLOAT32, "dt_bias", diag));
    if (!tmk_shape_count(&shift->shape, &count) ||
        (count != (size_t)heads && count / d->heads.keys != (size_t)heads) ||
        count % (size_t)heads != 0)
        return tmk_fail(diag, TMK_SHAPE, "dt_bias is %s for %lld heads",
                        TMK_SHAPE_TEXT(&shift->shape), (long long)heads);
    d->shifts = count / (size_t)heads;
    if (d->shifts > 1 && !d->heads.decay_by_key)
        return tmk_fail(diag, TMK_SHAPE, "dt_bias is %s, and decay has one element a head",
                        TMK_SHAPE_TEXT(&shift->shape));
    return TMK_OK;
}

static enum tmk_status read_net(const struct tmk_node *node, const struct tmk_tensor *const *in,
                                uint32_t n, struct delta_net *out, struct tmk_diag *diag) {
    const struct tmk_tensor *ends = tmk_operand(in, n, IN_ENDS),
                            *state = tmk_operand(in, n, IN_STATE);
    struct delta_net d = {0};
    TMK_TRY(read_rule(node, in, n, &d, diag));
    TMK_TRY(read_heads(in, n, &d, diag));
    TMK_TRY(read_gates(in, n, &d, diag));
    if (!tmk_shape_count(&d.lead, &d.tokens))
        return tmk_fail(diag, TMK_RANGE, "the query is too large");
    if (ends) {
        TMK_TRY(tmk_want_dtype(ends, TMK_INT32, "cu_seqlens", diag));
        if (ends->shape.rank != 1 || ends->shape.dim[0] < 1)
            return tmk_fail(diag, TMK_SHAPE, "cu_seqlens is %s", TMK_SHAPE_TEXT(&ends->shape));
    } else if (!state) {
        return tmk_fail(diag, TMK_GRAPH, "needs cu_seqlens or initial_state");
    }
    const int64_t batch = ends ? ends->shape.dim[0] - 1 : state->shape.dim[0];
    const struct tmk_shape shape = {
        4, {batch, (int64_t)d.heads.heads, (int64_t)d.heads.values, (int64_t)d.heads.keys}};
    TMK_TRY(tmk_want_shape(state, TMK_FLOAT32, "initial_state", &shape, diag));
    d.heads.batch = (size_t)batch;
    if (!ends && (batch ? d.tokens % (size_t)batch : d.tokens) != 0)
        return tmk_fail(diag, TMK_SHAPE, "%zu tokens are not %lld sequences of one length",
                        d.tokens, (long long)batch);
    const float scale = tmk_node_float(node, "scale", 0);
    d.heads.scale = scale != 0 ? (double)scale : 1 / sqrt((double)d.heads.keys);
    *out = d;
    return TMK_OK;
}

static enum tmk_status infer_net(struct tmk_infer *infer) {
    struct delta_net d;
    TMK_TRY(read_net(infer->node, infer->in, infer->n_in, &d, infer->diag));
    const struct tmk_recurrent_heads *r = &d.heads;
    struct tmk_shape y = d.lead;
    y.dim[y.rank++] = (int64_t)r->heads;
    y.dim[y.rank++] = (int64_t)r->values;
    tmk_infer_put(infer, 0, TMK_FLOAT32, &y);
    return tmk_infer_set(
        infer, 1, TMK_FLOAT32,
        &(struct tmk_shape){
            4, {(int64_t)r->batch, (int64_t)r->heads, (int64_t)r->values, (int64_t)r->keys}});
}

/* ---- running ---- */

/* `each` elements a token, from rows of `row`; heads of `size` are normalized where asked for. */
static enum tmk_status take_rows(struct tmk_run *run, const float *from, size_t row, size_t tokens,
                                 size_t each, size_t size, bool normalized, const float **out) {
    *out = from;
    if (row == each && !normalized)
        return TMK_OK;
    float *to;
    TMK_TRY(tmk_scratch_floats(run, tokens, each, 1, &to));
    for (size_t t = 0; t < tokens; t++)
        memcpy(to + t * each, from + t * row, each * sizeof *to);
    for (size_t i = 0; i < tokens * each && normalized; i += size) {
        double squares = 0;
        for (size_t j = i; j < i + size; j++)
            squares += (double)to[j] * (double)to[j];
        const double inverse = 1 / sqrt(squares + 1e-6);
        for (size_t j = i; j < i + size; j++)
            to[j] = (float)((double)to[j] * inverse);
    }
    *out = to;
    return TMK_OK;
}

static enum tmk_status take_gates(struct tmk_run *run, const struct delta_net *d,
                                  struct tmk_linear_inputs *in) {
    const struct tmk_recurrent_heads *r = &d->heads;
    const size_t each = r->decay_by_key ? r->keys : 1;
    const double lower = (double)tmk_node_float(run->node, "gate_lower_bound", -5);
    float *to;
    in->decay = r->gated ? run->in[IN_DECAY]->data : NULL;
    in->beta = r->delta ? run->in[IN_BETA]->data : NULL;
    if (in->decay && d->gate) {
        const float *rates = run->in[IN_A_LOG]->data,
                    *shifts = d->shifts ? run->in[IN_DT_BIAS]->data : NULL;
        TMK_TRY(tmk_scratch_floats(run, d->tokens, r->heads, each, &to));
        for (size_t i = 0; i < d->tokens * r->heads * each; i++) {
            const size_t h = i / each % r->heads;
            const double rate = exp((double)rates[h]),
                         shift =
                             shifts ? (double)shifts[d->shifts > 1 ? h * each + i % each : h] : 0,
                         x = (double)in->decay[i] + shift;
            to[i] = (float)(d->gate == GATE_SOFTPLUS ? -rate * tmk_softplus(x)
                                                     : lower / (1 + exp(-rate * x)));
        }
        in->decay = to;
    }
    if (in->beta && d->beta_sigmoid) {
        TMK_TRY(tmk_scratch_floats(run, d->tokens, r->heads, 1, &to));
        for (size_t i = 0; i < d->tokens * r->heads; i++)
            to[i] = tmk_sigmoidf(in->beta[i]);
        in->beta = to;
    }
    return TMK_OK;
}

static enum tmk_status take_inputs(struct tmk_run *run, const struct delta_net *d,
                                   struct tmk_linear_inputs *in) {
    const struct tmk_recurrent_heads *r = &d->heads;
    const size_t queries = r->query_heads * r->keys, values = r->heads * r->values,
                 row = d->packed ? 2 * queries + values : queries;
    const float *q = run->in[IN_QUERY]->data, *k = d->packed ? q + queries : run->in[IN_KEY]->data,
                *v = d->packed ? k + queries : run->in[IN_VALUE]->data;
    TMK_TRY(take_rows(run, q, row, d->tokens, queries, r->keys, d->normalized, &in->query));
    TMK_TRY(take_rows(run, k, row, d->tokens, queries, r->keys, d->normalized, &in->key));
    TMK_TRY(take_rows(run, v, d->packed ? row : values, d->tokens, values, r->values, false,
                      &in->value));
    return take_gates(run, d, in);
}

/* Where sequence b begins, and that no sequence ends before or beyond the tokens. */
static enum tmk_status find_ends(const struct tmk_run *run, const struct delta_net *d, size_t b,
                                 size_t *first, size_t *end) {
    const struct tmk_tensor *ends = tmk_run_in(run, IN_ENDS);
    const size_t each = d->heads.batch ? d->tokens / d->heads.batch : 0;
    *first = b * each;
    *end = *first + each;
    if (!ends)
        return TMK_OK;
    const int32_t *at = (const int32_t *)ends->data + b;
    if (at[0] < 0 || at[1] < at[0] || (size_t)at[1] > d->tokens)
        return tmk_fail(run->diag, TMK_RANGE, "cu_seqlens has %d behind %d, of %zu tokens",
                        (int)at[1], (int)at[0], d->tokens);
    *first = (size_t)at[0];
    *end = (size_t)at[1];
    return TMK_OK;
}

/* The state is [values, keys] outside. */
static void turn_state(const struct tmk_recurrent_heads *r, const float *from, double *state,
                       float *to) {
    for (size_t i = 0; i < r->keys; i++)
        for (size_t j = 0; j < r->values; j++)
            if (to)
                to[j * r->keys + i] = (float)state[i * r->values + j];
            else
                state[i * r->values + j] = from ? (double)from[j * r->keys + i] : 0;
}

static enum tmk_status run_net(struct tmk_run *run) {
    const struct tmk_tensor *past = tmk_run_in(run, IN_STATE);
    float *y = tmk_run_elements(run, 0), *present = tmk_run_elements(run, 1);
    struct delta_net d;
    struct tmk_linear_inputs in = {0};
    size_t bytes, size;
    TMK_TRY(read_net(run->node, run->in, run->n_in, &d, run->diag));
    struct tmk_recurrent_heads *r = &d.heads;
    TMK_TRY(take_inputs(run, &d, &in));
    const bool fits = tmk_mul_size(r->keys, r->values, &size) &&
                      tmk_mul_size(size + r->values, sizeof(double), &bytes);
    double *state = fits ? run->scratch(run->context, bytes) : NULL;
    TMK_TRY_ALLOC(state, run->diag);
    if (y) /* tokens of no sequence */
        memset(y, 0, tmk_tensor_bytes(run->out[0]));
    for (size_t b = 0; b < r->batch; b++) {
        size_t first, end;
        TMK_TRY(find_ends(run, &d, b, &first, &end));
        r->tokens = end - first;
        for (size_t h = 0; h < r->heads; h++) {
            const size_t at = (b * r->heads + h) * size;
            turn_state(r, past ? (const float *)past->data + at : NULL, state, NULL);
            tmk_linear_head(r, &in, first, h, state, state + size, y);
            if (present)
                turn_state(r, NULL, state, present + at);
        }
    }
    return TMK_OK;
}

/* Each token reads and writes a state of key by value elements. */
static double net_cost(const struct tmk_node *node, const struct tmk_tensor *const *in,
                       const struct tmk_tensor *out) {
    (void)node;
    return (tmk_cost_count(in[IN_QUERY]) + tmk_cost_count(out)) * tmk_cost_dim(in[IN_QUERY], -1);
}

const struct tmk_op tmk_ops_gated_delta_net[] = {
    {TMK_OP_CONTRIB("GatedDeltaNet"), TMK_OP_COUNTS(1, 11, 1, 3), .flags = TMK_OP_CHECKS,
     .channel = TMK_CHANNEL_LAST,
     .attrs = "beta_activation:string chunk_size:int gate_activation:string gate_lower_bound:float "
              "qk_l2_norm:int scale:float state_update_capacity:int update_rule:string",
     .infer = infer_net, .run = run_net, .cost = net_cost},
    {NULL}};
