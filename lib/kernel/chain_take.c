/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes can be members of a chain, and what they are there. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "kernel/chain_internal.h"
#include "ops/elementwise.h"

static const char microsoft[] = "com.microsoft";

struct query {
    const struct tmk_node *node;
    const struct tmk_tensor *const *in;
    const struct tmk_shape *space;
    uint32_t block;
};

static bool spread_row_major(const struct tmk_shape *space, const bool *vary,
                             struct tmk_chain_spread *out) {
    int32_t first = space->rank, last = space->rank;
    for (int32_t i = space->rank; i-- > 0;)
        if (vary[i]) {
            first = i;
            last = last == space->rank ? i : last;
        }
    *out = (struct tmk_chain_spread){.run = tmk_shape_product(space, 0, space->rank), .period = 1};
    if (first < space->rank) {
        for (int32_t i = first; i < last; i++)
            if (!vary[i] && space->dim[i] != 1)
                return false;
        out->run = tmk_shape_product(space, last + 1, space->rank);
        out->period = tmk_shape_product(space, first, last + 1);
    }
    out->whole = out->run == 1 && out->period == tmk_shape_product(space, 0, space->rank);
    return true;
}

/* False: neither whole nor of the kinds that have a spread. In blocks, a whole operand lies in
 * blocks itself unless it is constant. */
static bool find_spread(const struct tmk_shape *shape, const struct tmk_shape *space,
                        uint32_t block, bool constant, struct tmk_chain_spread *out) {
    bool vary[TMK_MAX_RANK] = {false};
    int32_t shift = space->rank - shape->rank;
    if (shift < 0)
        return false;
    for (int32_t i = shift; i < space->rank; i++) {
        int64_t dim = shape->dim[i - shift];
        if (dim != 1 && dim != space->dim[i])
            return false;
        vary[i] = dim != 1;
    }
    if (block <= 1)
        return spread_row_major(space, vary, out);
    *out = (struct tmk_chain_spread){.whole = !constant && tmk_shape_equal(shape, space)};
    for (int32_t i = 2; i < space->rank && !out->whole; i++)
        if (vary[i])
            return false;
    out->per_channel = vary[1];
    out->per_sample = vary[0] ? (vary[1] ? (size_t)space->dim[1] : 1) : 0;
    return true;
}

static bool spread_of(const struct query *q, uint32_t input, const struct tmk_shape *shape,
                      struct tmk_chain_spread *out) {
    return find_spread(shape, q->space, q->block, q->in[input]->data != NULL, out);
}

static bool is_whole(const struct query *q, uint32_t input) {
    struct tmk_chain_spread spread;
    return spread_of(q, input, &q->in[input]->shape, &spread) && spread.whole;
}

static const struct tmk_tensor *input_at(const struct query *q, uint32_t i) {
    return i < q->node->n_inputs ? q->in[i] : NULL;
}

/* What p op x is, where a loop computes it. */
static const enum tmk_chain_kind swapped_loops[] = {
    [TMK_CHAIN_ADD] = TMK_CHAIN_ADD,    [TMK_CHAIN_SUB] = TMK_CHAIN_SUB_FROM,
    [TMK_CHAIN_MUL] = TMK_CHAIN_MUL,    [TMK_CHAIN_DIV] = TMK_CHAIN_DIV_INTO,
    [TMK_CHAIN_MIN] = TMK_CHAIN_MIN_OF, [TMK_CHAIN_MAX] = TMK_CHAIN_MAX_OF,
    [TMK_CHAIN_PRELU] = TMK_CHAIN_COPY,
};

/* x op p by out->loop, where inputs 0 and 1 have these shapes once aligned. */
static bool take_pair(const struct query *q, const struct tmk_shape *a, const struct tmk_shape *b,
                      struct tmk_chain_spec *out) {
    const enum tmk_chain_kind swapped = swapped_loops[out->loop];
    struct tmk_chain_spread spread_a, spread_b;
    if (!spread_of(q, 0, a, &spread_a) || !spread_of(q, 1, b, &spread_b))
        return false;
    bool swap = !spread_a.whole;
    if (swap && (!spread_b.whole || swapped == TMK_CHAIN_COPY))
        return false;
    out->p_from = TMK_CHAIN_P_INPUT;
    out->loop = swap ? swapped : out->loop;
    out->x = swap;
    out->p = !swap;
    out->spread = swap ? spread_a : spread_b;
    return true;
}

static bool take_binary(const struct query *q, struct tmk_chain_spec *out) {
    const struct tmk_shape *a = &q->in[0]->shape;
    struct tmk_shape b;
    if (q->node->n_inputs != 2)
        return false;
    b = q->in[1]->shape;
    if (q->node->row->attrs == tmk_attrs_legacy &&
        tmk_align_legacy(q->node, a, &q->in[1]->shape, &b, NULL) != TMK_OK)
        return false;
    return take_pair(q, a, &b, out);
}

/* Before operator set 7 a slope of one axis lies along axis 1. */
static bool take_prelu(const struct query *q, struct tmk_chain_spec *out) {
    const struct tmk_shape *x = &q->in[0]->shape;
    struct tmk_shape slope = q->in[1]->shape;
    size_t n;
    if (!q->in[1]->data || !tmk_shape_count(&slope, &n))
        return false;
    if (n == 1) {
        slope = (struct tmk_shape){0};
    } else if (q->node->row->since < 7 && !tmk_shape_equal(x, &slope)) {
        slope = (struct tmk_shape){.rank = x->rank};
        for (int32_t i = 0; i < x->rank; i++)
            slope.dim[i] = i == 1 ? x->dim[1] : 1;
    }
    return take_pair(q, x, &slope, out);
}

static bool take_scalars(struct tmk_chain_spec *out, enum tmk_chain_kind loop, float p, float q) {
    out->loop = loop;
    out->p_from = TMK_CHAIN_P_SCALARS;
    out->scalar[0] = p;
    out->scalar[1] = q;
    return true;
}

static bool take_clip(const struct query *q, struct tmk_chain_spec *out) {
    float most = q->node->row->since < 6 ? INFINITY : FLT_MAX, limit[2] = {-most, most};
    if (q->node->row->since < 11) {
        limit[0] = tmk_node_float(q->node, "min", limit[0]);
        limit[1] = tmk_node_float(q->node, "max", limit[1]);
    }
    for (uint32_t i = 1; i < 3; i++) {
        const struct tmk_tensor *t = input_at(q, i);
        if (t && !t->data)
            return false;
        if (t)
            memcpy(&limit[i - 1], t->data, sizeof(float));
    }
    return take_scalars(out, TMK_CHAIN_CLIP, limit[0], limit[1]);
}

static bool take_leaky(const struct query *q, struct tmk_chain_spec *out) {
    return take_scalars(out, TMK_CHAIN_LEAKY, tmk_node_float(q->node, "alpha", 0.01f), 0);
}

static bool take_hard_sigmoid(const struct query *q, struct tmk_chain_spec *out) {
    return take_scalars(out, TMK_CHAIN_HARD_SIGMOID, tmk_node_float(q->node, "alpha", 0.2f),
                        tmk_node_float(q->node, "beta", 0.5f));
}

static bool take_pow(const struct query *q, struct tmk_chain_spec *out) {
    const struct tmk_tensor *exponent = q->in[1];
    static const struct {
        float exponent;
        enum tmk_chain_kind loop, math;
    } known[] = {{2.0f, TMK_CHAIN_SQUARE, TMK_CHAIN_COPY},
                 {0.5f, TMK_CHAIN_POWER_HALF, TMK_CHAIN_COPY},
                 {1.0f, TMK_CHAIN_COPY, TMK_CHAIN_COPY},
                 {3.0f, TMK_CHAIN_COPY, TMK_CHAIN_CUBE}};
    float value;
    if (!exponent->data || exponent->dtype != TMK_FLOAT32 || tmk_tensor_count(exponent) != 1)
        return false;
    memcpy(&value, exponent->data, sizeof value);
    for (size_t i = 0; i < TMK_COUNT(known); i++)
        if (known[i].exponent == value) {
            out->loop = known[i].loop;
            out->math = known[i].math;
            return true;
        }
    return false;
}

static bool take_batch_norm(const struct query *q, struct tmk_chain_spec *out) {
    const struct tmk_node *node = q->node;
    struct tmk_shape channels = {.rank = q->space->rank};
    for (int32_t i = 0; i < channels.rank; i++)
        channels.dim[i] = i == 1 ? q->space->dim[1] : 1;
    for (uint32_t i = 1; i < 5; i++)
        if (!q->in[i]->data)
            return false;
    if ((node->row->since >= 14 && tmk_node_int(node, "training_mode", 0) != 0) ||
        (node->row->since < 9 && tmk_node_int(node, "spatial", 1) == 0))
        return false;
    out->loop = TMK_CHAIN_AFFINE;
    out->p_from = TMK_CHAIN_P_CHANNELS;
    return find_spread(&channels, q->space, q->block, true, &out->spread);
}

static bool take_math(struct tmk_chain_spec *out, enum tmk_chain_kind math, float param) {
    out->math = math;
    out->param = param;
    return true;
}

static bool take_elu(const struct query *q, struct tmk_chain_spec *out) {
    return take_math(out, TMK_CHAIN_ELU, tmk_node_float(q->node, "alpha", 1.0f));
}
static bool take_swish(const struct query *q, struct tmk_chain_spec *out) {
    return take_math(out, TMK_CHAIN_SWISH, tmk_node_float(q->node, "alpha", 1.0f));
}
static bool take_quick_gelu(const struct query *q, struct tmk_chain_spec *out) {
    return take_math(out, TMK_CHAIN_SWISH, tmk_node_float(q->node, "alpha", 1.702f));
}
static bool take_gelu(const struct query *q, struct tmk_chain_spec *out) {
    bool exact = strcmp(tmk_node_string(q->node, "approximate", "none"), "none") == 0;
    return take_math(out, exact ? TMK_CHAIN_GELU : TMK_CHAIN_GELU_TANH, 0);
}

static bool take_rounding(const struct query *q, struct tmk_chain_spec *out) {
    const bool brain = tmk_node_int(q->node, "to", 0) == TMK_BFLOAT16;
    out->loop = brain ? TMK_CHAIN_BFLOAT16 : TMK_CHAIN_FLOAT16;
    return true;
}

/* With a bias, or without one. */
static bool take_biased(const struct query *q, struct tmk_chain_spec *out) {
    if (!input_at(q, 1))
        return true;
    out->loop = TMK_CHAIN_ADD;
    return take_binary(q, out) && out->x == 0;
}

/* The loops, which `take` may change by the operands and attributes; it may refuse the node. */
static const struct {
    const char *domain, *name;
    bool (*take)(const struct query *q, struct tmk_chain_spec *out);
    enum tmk_chain_kind loop, math;
} known[] = {
    {TMK_DOMAIN_ONNX, "Abs", NULL, TMK_CHAIN_ABS, TMK_CHAIN_COPY},
    {TMK_DOMAIN_ONNX, "Add", take_binary, TMK_CHAIN_ADD, TMK_CHAIN_COPY},
    {TMK_DOMAIN_ONNX, "BatchNormalization", take_batch_norm, 0, 0},
    {TMK_DOMAIN_ONNX, "Clip", take_clip, 0, 0},
    {TMK_DOMAIN_ONNX, "Div", take_binary, TMK_CHAIN_DIV, TMK_CHAIN_COPY},
    {TMK_DOMAIN_ONNX, "Dropout", NULL, TMK_CHAIN_COPY, TMK_CHAIN_COPY},
    {TMK_DOMAIN_ONNX, "Elu", take_elu, 0, 0},
    {TMK_DOMAIN_ONNX, "Erf", NULL, TMK_CHAIN_COPY, TMK_CHAIN_ERF},
    {TMK_DOMAIN_ONNX, "Exp", NULL, TMK_CHAIN_COPY, TMK_CHAIN_EXP},
    {TMK_DOMAIN_ONNX, "Gelu", take_gelu, 0, 0},
    {TMK_DOMAIN_ONNX, "HardSigmoid", take_hard_sigmoid, 0, 0},
    {TMK_DOMAIN_ONNX, "HardSwish", NULL, TMK_CHAIN_HARD_SWISH, TMK_CHAIN_COPY},
    {TMK_DOMAIN_ONNX, "Identity", NULL, TMK_CHAIN_COPY, TMK_CHAIN_COPY},
    {TMK_DOMAIN_ONNX, "LeakyRelu", take_leaky, 0, 0},
    {TMK_DOMAIN_ONNX, "Log", NULL, TMK_CHAIN_COPY, TMK_CHAIN_LOG},
    {TMK_DOMAIN_ONNX, "Max", take_binary, TMK_CHAIN_MAX, TMK_CHAIN_COPY},
    {TMK_DOMAIN_ONNX, "Min", take_binary, TMK_CHAIN_MIN, TMK_CHAIN_COPY},
    {TMK_DOMAIN_ONNX, "Mul", take_binary, TMK_CHAIN_MUL, TMK_CHAIN_COPY},
    {TMK_DOMAIN_ONNX, "Neg", NULL, TMK_CHAIN_NEG, TMK_CHAIN_COPY},
    {TMK_DOMAIN_ONNX, "PRelu", take_prelu, TMK_CHAIN_PRELU, TMK_CHAIN_COPY},
    {TMK_DOMAIN_ONNX, "Pow", take_pow, 0, 0},
    {TMK_DOMAIN_ONNX, "Reciprocal", NULL, TMK_CHAIN_RECIPROCAL, TMK_CHAIN_COPY},
    {TMK_DOMAIN_ONNX, "Relu", NULL, TMK_CHAIN_RELU, TMK_CHAIN_COPY},
    {TMK_DOMAIN_ONNX, "Sigmoid", NULL, TMK_CHAIN_COPY, TMK_CHAIN_SIGMOID},
    {TMK_DOMAIN_ONNX, "Softplus", NULL, TMK_CHAIN_COPY, TMK_CHAIN_SOFTPLUS},
    {TMK_DOMAIN_ONNX, "Sqrt", NULL, TMK_CHAIN_SQRT, TMK_CHAIN_COPY},
    {TMK_DOMAIN_ONNX, "Sub", take_binary, TMK_CHAIN_SUB, TMK_CHAIN_COPY},
    {TMK_DOMAIN_ONNX, "Sum", take_binary, TMK_CHAIN_ADD, TMK_CHAIN_COPY},
    {TMK_DOMAIN_ONNX, "Swish", take_swish, 0, 0},
    {TMK_DOMAIN_ONNX, "Tanh", NULL, TMK_CHAIN_COPY, TMK_CHAIN_TANH},
    {TMK_DOMAIN_TIDEMARK, TMK_OP_ROUND_TO, take_rounding, 0, 0},
    {microsoft, "BiasGelu", take_biased, TMK_CHAIN_COPY, TMK_CHAIN_GELU},
    {microsoft, "FastGelu", take_biased, TMK_CHAIN_COPY, TMK_CHAIN_GELU_TANH},
    {microsoft, "Gelu", NULL, TMK_CHAIN_COPY, TMK_CHAIN_GELU},
    {microsoft, "QuickGelu", take_quick_gelu, 0, 0},
};

bool tmk_chain_spec(const struct tmk_node *node, const struct tmk_tensor *const *in,
                    const struct tmk_shape *space, uint32_t block, struct tmk_chain_spec *out) {
    const struct query q = {node, in, space, block};
    struct tmk_chain_spec spec = {0};
    for (size_t i = 0; i < TMK_COUNT(known); i++) {
        if (!tmk_node_is(node, known[i].domain, known[i].name))
            continue;
        spec.loop = known[i].loop;
        spec.math = known[i].math;
        if ((known[i].take && !known[i].take(&q, &spec)) || !is_whole(&q, spec.x))
            return false;
        *out = spec;
        return true;
    }
    return false;
}

bool tmk_chain_supports(const struct tmk_node *node, const struct tmk_tensor *const *in,
                        const struct tmk_shape *space, uint32_t block) {
    enum { MOST_OUTPUTS = 5 };
    struct tmk_infer_result result[MOST_OUTPUTS] = {{0}};
    struct tmk_chain_spec spec;
    size_t n;
    if (!node->row || node->n_inputs < 1 || !in[0] || node->n_outputs < 1 ||
        node->n_outputs > MOST_OUTPUTS || !node->outputs[0])
        return false;
    for (uint32_t i = 1; i < node->n_outputs; i++)
        if (node->outputs[i])
            return false;
    if (!tmk_blocked_count(space, block, &n) || n == 0 ||
        (block > 1 && (space->rank < 2 || TMK_CHAIN_LANES % block != 0)))
        return false;
    return tmk_op_infer(node, in, result, NULL) == TMK_OK && result[0].known &&
           result[0].dtype == TMK_FLOAT32 && tmk_shape_equal(&result[0].shape, space) &&
           in[0]->kind == TMK_TYPE_TENSOR && in[0]->dtype == TMK_FLOAT32 &&
           tmk_chain_spec(node, in, space, block, &spec);
}
