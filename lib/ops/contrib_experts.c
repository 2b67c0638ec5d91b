/* SPDX-License-Identifier: Apache-2.0 */
/* MoE and QMoE of ONNX Runtime: each token goes through the k experts with the largest router
 * logits, two or three matrices each, and their results are summed with the router's weights.
 *
 * An expert runs over all tokens that chose it at once. QMoE has matrices of 2, 4 or 8 bits, row by
 * row, the lowest bits first; rows are widened a few at a time. */
#include <math.h>
#include <string.h>

#include "ops/contrib.h"
#include "ops/functions.h"
#include "ops/matmul.h"

enum activation { ACT_RELU, ACT_GELU, ACT_SILU, ACT_SWIGLU, ACT_IDENTITY, N_ACTS };
/* Of the rows that the experts get: what they are, between the matrices, and what comes out. */
enum { INNER_INPUT = 1, INNER_HIDDEN, INNER_OUTPUT };
#define EXPERTS_INNER "expert_input:1 expert_hidden:2 expert_output:3"
enum fusion { SEPARATE, INTERLEAVED, CONCATENATED, N_FUSIONS };

/* One matrix of all experts, [E,n,k], with what quantizes it. Absent operands are NULL. */
struct layer {
    const struct tmk_tensor *weights, *scales, *zeros, *bias;
    size_t n, k, bits, block; /* bits 0: floats; block 0: one scale a row */
};

struct experts {
    size_t tokens, hidden, inner, count, chosen;
    enum activation act;
    enum fusion fusion;
    struct layer first, second, third; /* third.weights is NULL without one */
    const struct tmk_tensor *logits, *mix;
    float alpha, beta, limit;
    bool normalize;
};

static enum tmk_status find_attributes(const struct tmk_node *node, struct experts *out,
                                       struct tmk_diag *diag) {
    static const char *const names[] = {"relu", "gelu", "silu", "swiglu", "identity"};
    const char *act = tmk_node_string(node, "activation_type", "relu"),
               *quant = tmk_node_string(node, "quant_type", "int");
    const int64_t fusion = tmk_node_int(node, "swiglu_fusion", 0), k = tmk_node_int(node, "k", 1);
    int i = 0;
    while (i < N_ACTS && strcmp(names[i], act) != 0)
        i++;
    if (i == N_ACTS || fusion < 0 || fusion >= N_FUSIONS)
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "attributes 'activation_type' %s and 'swiglu_fusion' %lld are not "
                        "supported",
                        act, (long long)fusion);
    if (strcmp(quant, "int") != 0 || tmk_node_int(node, "use_sparse_mixer", 0) ||
        tmk_node_int(node, "swiglu_limit_after_activation", 0) ||
        tmk_node_int(node, "weights_prepacked", 0) > 0)
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "only 'quant_type' int, without 'use_sparse_mixer', 'weights_prepacked' "
                        "and 'swiglu_limit_after_activation', is supported");
    if (k < 1 || k > INT32_MAX)
        return tmk_fail(diag, TMK_RANGE, "attribute 'k' is %lld", (long long)k);
    out->act = (enum activation)i;
    out->fusion = i == ACT_SWIGLU ? (enum fusion)fusion : SEPARATE;
    out->chosen = (size_t)k;
    out->alpha = tmk_node_float(node, "activation_alpha", 1.0f);
    out->beta = tmk_node_float(node, "activation_beta", 0.0f);
    out->limit = tmk_node_float(node, "swiglu_limit", INFINITY);
    out->normalize = tmk_node_int(node, "normalize_routing_weights", 0) != 0;
    return TMK_OK;
}

static enum tmk_status check_operand(const struct tmk_tensor *x, const char *what,
                                     enum tmk_dtype dtype, const size_t *dims, int32_t rank,
                                     struct tmk_diag *diag) {
    struct tmk_shape shape = {.rank = rank};
    for (int32_t i = 0; i < rank; i++)
        shape.dim[i] = (int64_t)dims[i];
    return tmk_want_shape(x, dtype, what, &shape, diag);
}

static enum tmk_status check_layer(const struct layer *l, size_t experts, const char *what,
                                   struct tmk_diag *diag) {
    const size_t blocks = l->block ? l->k / l->block : 1, bits = l->bits;
    const bool quantized = bits != 0;
    if (!l->weights)
        return TMK_OK;
    if (quantized && (l->k * bits % 8 || (l->block && l->k % l->block)))
        return tmk_fail(diag, TMK_SHAPE, "%s: rows of %zu do not fit %zu bits in blocks of %zu",
                        what, l->k, bits, l->block);
    TMK_TRY(check_operand(l->weights, what, quantized ? TMK_UINT8 : TMK_FLOAT32,
                          (size_t[]){experts, l->n, quantized ? l->k * bits / 8 : l->k}, 3, diag));
    TMK_TRY(check_operand(l->bias, "a bias", TMK_FLOAT32, (size_t[]){experts, l->n}, 2, diag));
    if (!quantized)
        return TMK_OK;
    if (!l->scales)
        return tmk_fail(diag, TMK_GRAPH, "%s has no scales", what);
    TMK_TRY(check_operand(l->scales, "a scale", TMK_FLOAT32, (size_t[]){experts, l->n, blocks},
                          l->block ? 3 : 2, diag));
    if (l->block)
        return check_operand(l->zeros, "a zero point", TMK_UINT8,
                             (size_t[]){experts, l->n, (blocks * bits + 7) / 8}, 3, diag);
    return check_operand(l->zeros, "a zero point", TMK_UINT8,
                         (size_t[]){experts, (l->n * bits + 7) / 8}, 2, diag);
}

/* Sizes come from the operands; `in` may be of an inference or of a run. */
static enum tmk_status find_experts(const struct tmk_node *node, const struct tmk_tensor *const *in,
                                    uint32_t n_in, bool quantized, struct experts *out,
                                    struct tmk_diag *diag) {
    /* By operator: weights, scales, zeros and bias of the three layers. */
    static const uint8_t at[2][3][4] = {{{2, 99, 99, 3}, {4, 99, 99, 5}, {6, 99, 99, 7}},
                                        {{2, 3, 11, 4}, {5, 6, 12, 7}, {8, 9, 13, 10}}};
    struct experts e = {.tokens = 1};
    struct layer *layers[] = {&e.first, &e.second, &e.third};
    const struct tmk_shape *x = &in[0]->shape, *w = &in[2]->shape;
    const int64_t bits = quantized ? tmk_node_int(node, "expert_weight_bits", 4) : 0,
                  block = quantized ? tmk_node_int(node, "block_size", 0) : 0;
    static const char *const own[] = {"fc1_expert_weight_bits", "fc2_expert_weight_bits",
                                      "fc3_expert_weight_bits"};
    TMK_TRY(find_attributes(node, &e, diag));
    if (x->rank < 2 || x->rank > 3 || w->rank != 3)
        return tmk_fail(diag, TMK_SHAPE, "input has %d axes and fc1 %d; 2 or 3, and 3, are wanted",
                        x->rank, w->rank);
    if (block && (block < 16 || block > 1 << 20 || block & (block - 1)))
        return tmk_fail(diag, TMK_RANGE, "attribute 'block_size' is %lld", (long long)block);
    for (int i = 0; i < 3; i++) {
        const struct tmk_tensor **slots[] = {&layers[i]->weights, &layers[i]->scales,
                                             &layers[i]->zeros, &layers[i]->bias};
        for (int j = 0; j < 4; j++)
            *slots[j] = at[quantized][i][j] < n_in ? in[at[quantized][i][j]] : NULL;
        const int64_t width = quantized ? tmk_node_int(node, own[i], bits) : 0;
        if (quantized && width != 2 && width != 4 && width != 8)
            return tmk_fail(diag, TMK_UNSUPPORTED, "weights of %lld bits are not supported",
                            (long long)width);
        layers[i]->bits = (size_t)width;
        layers[i]->block = (size_t)block;
    }
    for (uint32_t i = 15; i < n_in; i++)
        if (in[i])
            return tmk_fail(diag, TMK_UNSUPPORTED,
                            "input %u, for other kinds of quantization, is "
                            "not supported",
                            i);
    const size_t parts = e.fusion == SEPARATE ? 1 : 2;
    e.tokens = tmk_shape_product(x, 0, x->rank - 1);
    e.hidden = (size_t)x->dim[x->rank - 1];
    e.count = (size_t)w->dim[0];
    e.inner = (size_t)w->dim[1] / parts;
    e.logits = in[1];
    e.mix = tmk_operand(in, n_in, 14);
    e.normalize = e.normalize || (quantized && !e.mix); /* as ONNX Runtime's kernel does */
    e.first.n = e.inner * parts;
    e.first.k = e.third.k = e.second.n = e.hidden;
    e.second.k = e.third.n = e.inner;
    *out = e;
    return TMK_OK;
}

static enum tmk_status infer_experts(struct tmk_infer *infer) {
    const bool quantized = infer->node->row->variant;
    struct tmk_diag *diag = infer->diag;
    struct experts e;
    TMK_TRY(tmk_contrib_need(infer, quantized ? 5 : 4, "fc2_experts_weights"));
    TMK_TRY(find_experts(infer->node, infer->in, infer->n_in, quantized, &e, diag));
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_FLOAT32, "input", diag));
    const size_t routed[] = {e.tokens, e.count};
    TMK_TRY(check_operand(e.logits, "router_probs", TMK_FLOAT32, routed, 2, diag));
    TMK_TRY(check_operand(e.mix, "router_weights", TMK_FLOAT32, routed, 2, diag));
    TMK_TRY(check_layer(&e.first, e.count, "fc1", diag));
    TMK_TRY(check_layer(&e.second, e.count, "fc2", diag));
    TMK_TRY(check_layer(&e.third, e.count, "fc3", diag));
    if (e.chosen > e.count)
        return tmk_fail(diag, TMK_RANGE, "'k' is %zu, of %zu experts", e.chosen, e.count);
    if ((e.act == ACT_SWIGLU && e.fusion == SEPARATE) != (e.third.weights != NULL) &&
        e.act == ACT_SWIGLU)
        return tmk_fail(diag, TMK_GRAPH, "fc3 and 'swiglu_fusion' do not go together");
    struct tmk_shape chosen = {3, {(int64_t)e.tokens, (int64_t)e.chosen, (int64_t)e.hidden}};
    tmk_infer_put(infer, INNER_INPUT, TMK_FLOAT32, &chosen);
    tmk_infer_put(infer, INNER_OUTPUT, TMK_FLOAT32, &chosen);
    chosen.dim[2] = e.hidden ? (int64_t)e.inner : 0;
    tmk_infer_put(infer, INNER_HIDDEN, TMK_FLOAT32, &chosen);
    return tmk_infer_same(infer);
}

/* ---- running ---- */

static void widen_row(const struct layer *l, size_t expert, size_t row, float *out) {
    const size_t at = expert * l->n + row, bytes = l->k * l->bits / 8,
                 blocks = l->block ? l->k / l->block : 1, n = l->block ? l->block : l->k;
    const uint8_t *codes = (const uint8_t *)l->weights->data + at * bytes,
                  *zeros = l->zeros ? l->zeros->data : NULL;
    const float *scales = (const float *)l->scales->data + at * blocks;
    if (zeros)
        zeros += l->block ? at * ((blocks * l->bits + 7) / 8) : expert * ((l->n * l->bits + 7) / 8);
    float zero = (float)(1u << (l->bits - 1));
    for (size_t block = 0; block < blocks; block++) {
        if (zeros)
            zero = (float)tmk_contrib_code(zeros, l->block ? block : row, l->bits);
        tmk_contrib_widen(codes + block * n * l->bits / 8, n, l->bits, zero, scales[block],
                          out + block * n);
    }
}

struct scratch {
    float *rows, *part, *panel; /* widened rows, their products, and the product's panel */
};

/* y[m,n] = x[m,k] times the expert's matrix, transposed, plus its bias. */
static void apply_layer(const struct layer *l, size_t expert, size_t m, const float *x, float *y,
                        const struct scratch *s) {
    for (size_t first = 0; first < l->n; first += TMK_GEMM_COLUMNS) {
        const size_t n = l->n - first < TMK_GEMM_COLUMNS ? l->n - first : TMK_GEMM_COLUMNS;
        const float *b = s->rows;
        if (l->bits)
            for (size_t i = 0; i < n; i++)
                widen_row(l, expert, first + i, s->rows + i * l->k);
        else
            b = (const float *)l->weights->data + (expert * l->n + first) * l->k;
        const float *bias = l->bias ? (const float *)l->bias->data + expert * l->n + first : NULL;
        tmk_gemm_transposed(m, n, l->k, x, l->k, b, l->k, s->part, s->panel);
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < n; j++)
                y[i * l->n + first + j] = s->part[i * n + j] + (bias ? bias[j] : 0);
    }
}

static float activate(const struct experts *e, float x) {
    switch (e->act) {
    case ACT_RELU:
        return x > 0 ? x : 0;
    case ACT_GELU:
        return 0.5f * x * (1 + tmk_tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    case ACT_SILU:
        return x / (1 + tmk_expf(-x));
    default:
        return x;
    }
}

/* h: m rows of the first layer's results, which become rows of `inner`; up: the third layer's. */
static void activate_rows(const struct experts *e, size_t m, float *h, const float *up) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < e->inner; j++) {
            float *to = h + i * e->inner + j;
            if (e->act != ACT_SWIGLU) {
                *to = activate(e, *to) * (up ? up[i * e->inner + j] : 1);
                continue;
            }
            const float *row = h + i * e->first.n;
            float g = row[e->fusion == INTERLEAVED ? 2 * j : j],
                  l = e->fusion == INTERLEAVED    ? row[2 * j + 1]
                      : e->fusion == CONCATENATED ? row[e->inner + j]
                                                  : up[i * e->inner + j];
            g = g > e->limit ? e->limit : g;
            l = l > e->limit ? e->limit : l < -e->limit ? -e->limit : l;
            *to = g / (1 + tmk_expf(-e->alpha * g)) * (l + e->beta);
        }
}

/* The weight of each expert for one token, and, of the k that are chosen, its place among them,
 * from 1 on in their order; 0: it is not. */
static void route_token(const struct experts *e, size_t token, float *weight, uint32_t *place) {
    uint32_t n = 0;
    const float *logits = (const float *)e->logits->data + token * e->count;
    const float *mix = e->mix ? (const float *)e->mix->data + token * e->count : NULL;
    float most = -INFINITY, sum = 0, chosen = 0;
    for (size_t i = 0; i < e->count; i++)
        most = logits[i] > most ? logits[i] : most;
    for (size_t i = 0; i < e->count; i++)
        sum += tmk_expf(logits[i] - most);
    for (size_t i = 0; i < e->count; i++) {
        size_t above = 0; /* of equal ones the first is chosen */
        for (size_t j = 0; j < e->count; j++)
            above += logits[j] > logits[i] || (j < i && logits[j] == logits[i]);
        place[i] = above < e->chosen && n < e->chosen ? ++n : 0; /* of NaNs all are above */
        weight[i] = !place[i] ? 0 : mix ? mix[i] : tmk_expf(logits[i] - most) / sum;
        chosen += weight[i];
    }
    for (size_t i = 0; e->normalize && chosen > 0 && i < e->count; i++)
        weight[i] /= chosen;
}

static void run_expert(const struct experts *e, size_t expert, size_t m, float *const buffers[4],
                       const struct scratch *s) {
    float *x = buffers[0], *h = buffers[1], *up = buffers[2], *y = buffers[3];
    apply_layer(&e->first, expert, m, x, h, s);
    if (e->third.weights)
        apply_layer(&e->third, expert, m, x, up, s);
    activate_rows(e, m, h, e->third.weights ? up : NULL);
    apply_layer(&e->second, expert, m, h, y, s);
}

/* Row m of what one expert computes is row `at` of what all do: [tokens, k, width]. */
static enum tmk_status show_token(struct tmk_run *run, const struct experts *e, size_t at, size_t m,
                                  float *const buffers[4]) {
    TMK_TRY(tmk_run_show(run, INNER_INPUT, buffers[0] + m * e->hidden, at * e->hidden, e->hidden));
    TMK_TRY(tmk_run_show(run, INNER_HIDDEN, buffers[1] + m * e->inner, at * e->inner, e->inner));
    return tmk_run_show(run, INNER_OUTPUT, buffers[3] + m * e->hidden, at * e->hidden, e->hidden);
}

static enum tmk_status run_experts(struct tmk_run *run) {
    const bool quantized = run->node->row->variant;
    struct tmk_tensor *out = tmk_run_out(run, 0);
    struct experts e;
    struct scratch s;
    float *weights, *buffers[4];
    uint32_t *places;
    TMK_TRY(find_experts(run->node, run->in, run->n_in, quantized, &e, run->diag));
    const int64_t tokens = (int64_t)e.tokens, inner = (int64_t)e.inner, hidden = (int64_t)e.hidden;
    TMK_TRY(tmk_scratch_floats(run, TMK_GEMM_COLUMNS, inner > hidden ? inner : hidden, 1, &s.rows));
    TMK_TRY(tmk_scratch_floats(run, tokens, TMK_GEMM_COLUMNS, 1, &s.part));
    TMK_TRY(tmk_scratch_floats(run, TMK_GEMM_PANEL / sizeof(float), 1, 1, &s.panel));
    TMK_TRY(tmk_scratch_floats(run, tokens, (int64_t)e.count, 1, &weights));
    places = tmk_scratch(run, e.tokens, e.count * sizeof *places);
    TMK_TRY_ALLOC(places, run->diag);
    const int64_t widths[] = {hidden, (int64_t)e.first.n, inner, hidden};
    for (int i = 0; i < 4; i++)
        TMK_TRY(tmk_scratch_floats(run, tokens, widths[i], 1, &buffers[i]));
    const float *x = run->in[0]->data;
    float *y = out->data;
    memset(y, 0, tmk_tensor_count(out) * sizeof *y);
    for (size_t t = 0; t < e.tokens; t++)
        route_token(&e, t, weights + t * e.count, places + t * e.count);
    for (size_t expert = 0; expert < e.count; expert++) {
        size_t m = 0;
        for (size_t t = 0; t < e.tokens; t++)
            if (places[t * e.count + expert])
                memcpy(buffers[0] + m++ * e.hidden, x + t * e.hidden, e.hidden * sizeof *x);
        if (!m)
            continue;
        run_expert(&e, expert, m, buffers, &s);
        m = 0;
        for (size_t t = 0; t < e.tokens; t++) {
            const float weight = weights[t * e.count + expert];
            const uint32_t place = places[t * e.count + expert];
            if (!place)
                continue;
            for (size_t i = 0; i < e.hidden; i++)
                y[t * e.hidden + i] += weight * buffers[3][m * e.hidden + i];
            TMK_TRY(show_token(run, &e, t * e.chosen + place - 1, m++, buffers));
        }
    }
    return TMK_OK;
}

static double cost_experts(const struct tmk_node *node, const struct tmk_tensor *const *in,
                           const struct tmk_tensor *out) {
    (void)out;
    const double rows = in[2]->shape.rank == 3 ? (double)in[2]->shape.dim[1] : 1;
    return tmk_cost_count(in[0]) * rows * 4 * (double)tmk_node_int(node, "k", 1);
}

#define SHARED_ATTRS                                                                               \
    "activation_alpha:float activation_beta:float activation_type:string k:int "                   \
    "normalize_routing_weights:int swiglu_fusion:int swiglu_limit:float "                          \
    "swiglu_limit_after_activation:int use_sparse_mixer:int"

const struct tmk_op tmk_ops_contrib_experts[] = {
    {TMK_OP_CONTRIB("MoE"), TMK_OP_COUNTS(3, 8, 1, 1), .channel = TMK_CHANNEL_LAST,
     .attrs = SHARED_ATTRS, .inner = EXPERTS_INNER, .infer = infer_experts, .run = run_experts,
     .cost = cost_experts},
    {TMK_OP_CONTRIB("QMoE"), TMK_OP_COUNTS(3, 19, 1, 1), .channel = TMK_CHANNEL_LAST,
     .attrs = SHARED_ATTRS " accuracy_level:int block_size:int expert_weight_bits:int "
                           "fc1_expert_weight_bits:int fc2_expert_weight_bits:int "
                           "fc3_expert_weight_bits:int quant_type:string weights_prepacked:int",
     .variant = true /* quantized */, .inner = EXPERTS_INNER, .infer = infer_experts,
     .run = run_experts, .cost = cost_experts},
    {NULL}};
