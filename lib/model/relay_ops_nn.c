/* SPDX-License-Identifier: Apache-2.0 */
/* Relay's matrix products, biases, normalizations and their like. */
#include <math.h>
#include <string.h>

#include "model/relay_lower.h"

/* ---- matrix products ---- */

static bool narrow(enum tmk_dtype dtype) {
    return dtype == TMK_INT8 || dtype == TMK_UINT8;
}

/* The last two axes change places. */
static struct tmk_value *turn(struct tmk_relay_call *call, const char *part, struct tmk_value *v) {
    int64_t perm[TMK_MAX_RANK];
    int32_t rank = tmk_rl_rank(call, v);
    if (rank < 2)
        return tmk_rl_fail(call, TMK_SHAPE, "a matrix of rank %d", (int)rank);
    for (int32_t i = 0; i < rank; i++)
        perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    return tmk_rl_transpose(call, part, v, perm, rank);
}

/* a times b as matrices, into out_dtype: 8-bit integers add up in 32. */
static struct tmk_value *product(struct tmk_relay_call *call, struct tmk_value *a,
                                 struct tmk_value *b) {
    enum tmk_dtype type_a = tmk_rl_type_of(call, a), type_b = tmk_rl_type_of(call, b);
    enum tmk_dtype to = tmk_rl_dtype_attr(call, "out_dtype", type_a);
    if (narrow(type_a) && narrow(type_b) && to == TMK_INT32)
        return tmk_rl_2(call, NULL, "MatMulInteger", a, b);
    if (type_a == TMK_FLOAT32)
        return tmk_rl_2(call, NULL, "MatMul", a, b);
    return tmk_rl_2(call, NULL, "MatMul", tmk_rl_cast(call, "left", a, to),
                    tmk_rl_cast(call, "right", b, to));
}

static struct tmk_value *dense(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0), *w = tmk_rl_in(call, 1);
    if (tmk_rl_is_float(call, x) && tmk_rl_rank(call, x) == 2) {
        tmk_rl_set_int(call, "transB", 1);
        return tmk_rl_2(call, NULL, "Gemm", x, w);
    }
    return product(call, x, turn(call, "weight", w));
}

static struct tmk_value *matmul(struct tmk_relay_call *call) {
    struct tmk_value *a = tmk_rl_in(call, 0), *b = tmk_rl_in(call, 1);
    bool turn_a = tmk_rl_bool(call, "transpose_a"), turn_b = tmk_rl_bool(call, "transpose_b");
    if (tmk_rl_is_float(call, a) && tmk_rl_rank(call, a) == 2 && tmk_rl_rank(call, b) == 2) {
        tmk_rl_set_int(call, "transA", turn_a);
        tmk_rl_set_int(call, "transB", turn_b);
        return tmk_rl_2(call, NULL, "Gemm", a, b);
    }
    return product(call, turn_a ? turn(call, "left_turned", a) : a,
                   turn_b ? turn(call, "right_turned", b) : b);
}

/* Without attributes the second operand is transposed up to TVM 0.7, and is not since. What the
 * text says of the result decides, else whether it fits, else the version. */
static bool second_is_turned(struct tmk_relay_call *call, const struct tmk_value *a,
                             const struct tmk_value *b) {
    const struct tmk_shape *x = tmk_rl_dims(call, a), *y = tmk_rl_dims(call, b);
    const struct tmk_relay_type *said = call->expr->type;
    const uint32_t *version = call->to->module->version;
    if (tmk_rl_given(call, "transpose_b") || tmk_rl_given(call, "transpose_a"))
        return tmk_rl_bool(call, "transpose_b");
    if (x->rank != 3 || y->rank != 3)
        return false;
    bool plain = x->dim[2] == y->dim[1], turned = x->dim[2] == y->dim[2];
    if (plain != turned)
        return turned;
    if (said && said->kind == TMK_RELAY_TENSOR && said->n == 3 && y->dim[1] != y->dim[2])
        return said->dims[2] == y->dim[1];
    return version[2] == 4; /* 0.0.4 */
}

static struct tmk_value *batch_matmul(struct tmk_relay_call *call) {
    struct tmk_value *a = tmk_rl_in(call, 0), *b = tmk_rl_in(call, 1);
    bool turned = second_is_turned(call, a, b);
    return product(call, tmk_rl_bool(call, "transpose_a") ? turn(call, "left_turned", a) : a,
                   turned ? turn(call, "right_turned", b) : b);
}

static struct tmk_value *bias_add(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    int32_t rank = tmk_rl_rank(call, x), axis = tmk_rl_axis(call, tmk_rl_int(call, "axis"), rank);
    return tmk_rl_2(call, NULL, "Add", x,
                    tmk_rl_along(call, "bias", tmk_rl_in(call, 1), axis, rank));
}

/* ---- normalizations ---- */

/* Operand i, or as many of `otherwise` where the attribute says that it does not count. */
static struct tmk_value *factor(struct tmk_relay_call *call, const char *attr, uint32_t i,
                                double otherwise) {
    struct tmk_value *given = tmk_rl_in(call, i);
    if (tmk_rl_bool(call, attr))
        return given;
    const struct tmk_shape *shape = tmk_rl_dims(call, given);
    size_t count;
    if (call->status != TMK_OK || !tmk_shape_count(shape, &count) || count > TMK_RL_CONSTANT)
        return tmk_rl_fail(call, TMK_RANGE, "'%s' is too large", given ? given->name : "");
    double *values = tmk_arena_array(&call->to->scratch, count + 1, sizeof *values);
    if (!values)
        return tmk_rl_nomem(call);
    for (size_t k = 0; k < count; k++)
        values[k] = otherwise;
    return tmk_rl_array(call, attr, TMK_FLOAT32, shape, values);
}

/* perm that brings `axis` to `place`, or back. */
static void bring(int32_t rank, int32_t axis, int32_t place, bool back, int64_t *perm) {
    int64_t order[TMK_MAX_RANK];
    int32_t from = 0;
    for (int32_t i = 0; i < rank; i++) {
        if (i == place) {
            order[i] = axis;
        } else {
            from += from == axis;
            order[i] = from++;
        }
    }
    for (int32_t i = 0; i < rank; i++)
        if (back)
            perm[order[i]] = i;
        else
            perm[i] = order[i];
}

/* A node that wants its channels on axis `place`, of a tensor that has them on `axis`: transposed
 * before and after. in[0] is the tensor; pending attributes are the node's. */
static struct tmk_value *around(struct tmk_relay_call *call, const char *result, const char *op,
                                struct tmk_value **in, uint32_t n, int32_t axis, int32_t place) {
    int64_t perm[TMK_MAX_RANK];
    int32_t rank = tmk_rl_rank(call, in[0]);
    if (axis == place || call->status != TMK_OK)
        return tmk_rl_n(call, result, op, in, n);
    struct tmk_attr kept[TMK_COUNT(call->pending)];
    uint32_t n_kept = call->n_pending;
    memcpy(kept, call->pending, sizeof kept);
    call->n_pending = 0;
    bring(rank, axis, place, false, perm);
    in[0] = tmk_rl_transpose(call, "input", in[0], perm, rank);
    memcpy(call->pending, kept, sizeof kept);
    call->n_pending = n_kept;
    struct tmk_value *y = tmk_rl_n(call, "normalized", op, in, n);
    bring(rank, axis, place, true, perm);
    return tmk_rl_transpose(call, result, y, perm, rank);
}

static struct tmk_value *batch_norm(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    int32_t axis = tmk_rl_axis(call, tmk_rl_int(call, "axis"), tmk_rl_rank(call, x));
    struct tmk_value *in[] = {x, factor(call, "scale", 1, 1), factor(call, "center", 2, 0),
                              tmk_rl_in(call, 3), tmk_rl_in(call, 4)};
    tmk_rl_set_float(call, "epsilon", tmk_rl_real(call, "epsilon"));
    struct tmk_value *y = around(call, ".0", "BatchNormalization", in, 5, axis, 1);
    return tmk_rl_tuple(call, (struct tmk_value *[]){y, tmk_rl_in(call, 3), tmk_rl_in(call, 4)}, 3);
}

static struct tmk_value *layer_norm(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    int32_t rank = tmk_rl_rank(call, x), axis = tmk_rl_axis(call, tmk_rl_int(call, "axis"), rank);
    struct tmk_value *in[] = {x, factor(call, "scale", 1, 1), factor(call, "center", 2, 0)};
    tmk_rl_set_int(call, "axis", -1);
    tmk_rl_set_float(call, "epsilon", tmk_rl_real(call, "epsilon"));
    return around(call, NULL, "LayerNormalization", in, 3, axis, rank - 1);
}

static struct tmk_value *instance_norm(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    int32_t axis = tmk_rl_axis(call, tmk_rl_int(call, "axis"), tmk_rl_rank(call, x));
    struct tmk_value *in[] = {x, factor(call, "scale", 1, 1), factor(call, "center", 2, 0)};
    tmk_rl_set_float(call, "epsilon", tmk_rl_real(call, "epsilon"));
    return around(call, NULL, "InstanceNormalization", in, 3, axis, 1);
}

static struct tmk_value *group_norm(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    int32_t axis = tmk_rl_axis(call, tmk_rl_int(call, "axis"), tmk_rl_rank(call, x));
    struct tmk_value *in[] = {x, factor(call, "scale", 1, 1), factor(call, "center", 2, 0)};
    tmk_rl_set_float(call, "epsilon", tmk_rl_real(call, "epsilon"));
    tmk_rl_set_int(call, "num_groups", tmk_rl_int(call, "num_groups"));
    return around(call, NULL, "GroupNormalization", in, 3, axis, 1);
}

/* x / sqrt(max(sum of x^2 along the axes, eps)) */
static struct tmk_value *l2_normalize(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    size_t n;
    const int64_t *axes = tmk_rl_ints(call, "axis", &n);
    struct tmk_value *list = n ? tmk_rl_list(call, "axes", axes, n) : NULL;
    tmk_rl_set_int(call, "keepdims", 1);
    struct tmk_value *sum = tmk_rl_2(call, "sum", "ReduceSumSquare", x, list);
    struct tmk_value *least =
        tmk_rl_2(call, "least", "Max", sum,
                 tmk_rl_scalar(call, "eps", TMK_FLOAT32, tmk_rl_real(call, "eps")));
    return tmk_rl_2(call, NULL, "Div", x, tmk_rl_1(call, "norm", "Sqrt", least));
}

static struct tmk_value *lrn(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    int32_t axis = tmk_rl_axis(call, tmk_rl_int(call, "axis"), tmk_rl_rank(call, x));
    tmk_rl_set_int(call, "size", tmk_rl_int(call, "size"));
    tmk_rl_set_float(call, "alpha", tmk_rl_real(call, "alpha"));
    tmk_rl_set_float(call, "beta", tmk_rl_real(call, "beta"));
    tmk_rl_set_float(call, "bias", tmk_rl_real(call, "bias"));
    return around(call, NULL, "LRN", &x, 1, axis, 1);
}

static struct tmk_value *softmax(struct tmk_relay_call *call) {
    tmk_rl_set_int(call, "axis", tmk_rl_int(call, "axis"));
    return tmk_rl_same(call);
}

static struct tmk_value *batch_flatten(struct tmk_relay_call *call) {
    tmk_rl_set_int(call, "axis", 1);
    return tmk_rl_same(call);
}

/* ---- padding ---- */

static struct tmk_value *padded(struct tmk_relay_call *call, const char *mode,
                                struct tmk_value *value) {
    size_t n;
    const int64_t(*pairs)[2] = tmk_rl_pairs(call, "pad_width", &n);
    int64_t pads[2 * TMK_MAX_RANK];
    if (call->status != TMK_OK)
        return NULL;
    if (n != (size_t)tmk_rl_rank(call, tmk_rl_in(call, 0)) || n > TMK_MAX_RANK)
        return tmk_rl_fail(call, TMK_SHAPE, "pad_width has %zu pairs for a tensor of rank %d", n,
                           (int)tmk_rl_rank(call, tmk_rl_in(call, 0)));
    for (size_t i = 0; i < n; i++) {
        pads[i] = pairs[i][0];
        pads[n + i] = pairs[i][1];
    }
    struct tmk_value *list = tmk_rl_list(call, "pads", pads, 2 * n);
    tmk_rl_set_text(call, "mode", mode);
    return tmk_rl_3(call, NULL, "Pad", tmk_rl_in(call, 0), list, value);
}

/* Up to TVM 0.7 the value is an attribute, later an operand, of any type. */
static struct tmk_value *pad(struct tmk_relay_call *call) {
    enum tmk_dtype dtype = tmk_rl_type_of(call, tmk_rl_in(call, 0));
    const char *mode = tmk_rl_string(call, "pad_mode");
    struct tmk_value *value = NULL;
    size_t n = 0;
    if (strcmp(mode, "constant") != 0)
        return padded(call, mode, NULL);
    if (call->n_args < 2)
        value = tmk_rl_scalar(call, "value", dtype, tmk_rl_real(call, "pad_value"));
    else if (tmk_rl_type_of(call, tmk_rl_in(call, 1)) == dtype)
        value = tmk_rl_in(call, 1);
    else if (tmk_rl_in(call, 1)->kind == TMK_VALUE_INITIALIZER) {
        const double *number = tmk_rl_numbers(call, tmk_rl_in(call, 1), "the padding's value", &n);
        value = n ? tmk_rl_scalar(call, "value", dtype, number[0]) : NULL;
    } else
        value = tmk_rl_cast(call, "value", tmk_rl_in(call, 1), dtype);
    return padded(call, mode, value);
}

static struct tmk_value *mirror_pad(struct tmk_relay_call *call) {
    if (strcmp(tmk_rl_string(call, "mode"), "REFLECT") != 0)
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "mode %s", tmk_rl_string(call, "mode"));
    return padded(call, "reflect", NULL);
}

/* ---- attributes ---- */

#define OUT_DTYPE                                                                                  \
    { "out_dtype", TMK_RELAY_RULE_TEXT, "None" }
static const struct tmk_relay_rule dense_attrs[] = {
    {"units", TMK_RELAY_RULE_INT, "None"},
    OUT_DTYPE,
    {"auto_scheduler_rewritten_layout", TMK_RELAY_RULE_TEXT, "None"},
    {"meta_schedule_original_shape", TMK_RELAY_RULE_INTS, "None"},
    {0}};
static const struct tmk_relay_rule matmul_attrs[] = {{"units", TMK_RELAY_RULE_INT, "None"},
                                                     OUT_DTYPE,
                                                     {"transpose_a", TMK_RELAY_RULE_BOOL, "False"},
                                                     {"transpose_b", TMK_RELAY_RULE_BOOL, "False"},
                                                     {0}};
static const struct tmk_relay_rule axis_1[] = {{"axis", TMK_RELAY_RULE_INT, "1"}, {0}};
static const struct tmk_relay_rule axis_last[] = {{"axis", TMK_RELAY_RULE_INT, "-1"}, {0}};
#define NORM_RULES                                                                                 \
    {"epsilon", TMK_RELAY_RULE_REAL, "1e-05"}, {"center", TMK_RELAY_RULE_BOOL, "True"}, {          \
        "scale", TMK_RELAY_RULE_BOOL, "True"                                                       \
    }
static const struct tmk_relay_rule norm_attrs[] = {
    {"axis", TMK_RELAY_RULE_INT, "1"}, NORM_RULES, {0}};
static const struct tmk_relay_rule layer_norm_attrs[] = {
    {"axis", TMK_RELAY_RULE_INT, "-1"}, NORM_RULES, {0}};
static const struct tmk_relay_rule group_norm_attrs[] = {
    {"num_groups", TMK_RELAY_RULE_INT, NULL}, {"axis", TMK_RELAY_RULE_INT, "1"}, NORM_RULES, {0}};
static const struct tmk_relay_rule l2_attrs[] = {
    {"eps", TMK_RELAY_RULE_REAL, NULL}, {"axis", TMK_RELAY_RULE_INTS, "None"}, {0}};
static const struct tmk_relay_rule lrn_attrs[] = {
    {"size", TMK_RELAY_RULE_INT, "5"},     {"axis", TMK_RELAY_RULE_INT, "1"},
    {"bias", TMK_RELAY_RULE_REAL, "2"},    {"alpha", TMK_RELAY_RULE_REAL, "0.0001"},
    {"beta", TMK_RELAY_RULE_REAL, "0.75"}, {0}};
static const struct tmk_relay_rule pad_attrs[] = {{"pad_width", TMK_RELAY_RULE_PAIRS, NULL},
                                                  {"pad_mode", TMK_RELAY_RULE_TEXT, "constant"},
                                                  {"pad_value", TMK_RELAY_RULE_REAL, "0"},
                                                  {0}};
static const struct tmk_relay_rule mirror_attrs[] = {
    {"pad_width", TMK_RELAY_RULE_PAIRS, NULL}, {"mode", TMK_RELAY_RULE_TEXT, "SYMMETRIC"}, {0}};

static const char products[] = "MatMul with Transpose; of 8-bit integers MatMulInteger";

const struct tmk_relay_op tmk_relay_ops_nn[] = {
    {"nn.batch_flatten", 1, 1, 0, tmk_rl_no_attrs, "Flatten", batch_flatten},
    {"nn.batch_matmul", 2, 2, 0, matmul_attrs, products, batch_matmul},
    {"nn.batch_norm", 5, 5, 0, norm_attrs, "BatchNormalization", batch_norm},
    {"nn.bias_add", 2, 2, 0, axis_1, "Unsqueeze, Add", bias_add},
    {"nn.dense", 2, 2, 0, dense_attrs,
     "Gemm; of other ranks MatMul; of 8-bit integers MatMulInteger", dense},
    {"nn.fast_softmax", 1, 1, 0, axis_last, "Softmax", softmax},
    {"nn.group_norm", 3, 3, 0, group_norm_attrs, "GroupNormalization", group_norm},
    {"nn.instance_norm", 3, 3, 0, norm_attrs, "InstanceNormalization", instance_norm},
    {"nn.l2_normalize", 1, 1, 0, l2_attrs, "ReduceSumSquare, Max, Sqrt, Div", l2_normalize},
    {"nn.layer_norm", 3, 3, 0, layer_norm_attrs, "LayerNormalization", layer_norm},
    {"nn.log_softmax", 1, 1, 0, axis_last, "LogSoftmax", softmax},
    {"nn.lrn", 1, 1, 0, lrn_attrs, "LRN", lrn},
    {"nn.matmul", 2, 2, 0, matmul_attrs, products, matmul},
    {"nn.mirror_pad", 1, 1, 0, mirror_attrs, "Pad", mirror_pad},
    {"nn.pad", 1, 2, 0, pad_attrs, "Pad", pad},
    {"nn.softmax", 1, 1, 0, axis_last, "Softmax", softmax},
    {0}};
