/* SPDX-License-Identifier: Apache-2.0 */
/* Relay's matrix products, biases, normalizations and their like. */
#include <string.h>

#include "relay/emit.h"

/* ---- matrix products ---- */

static bool is_8bit(enum tmk_dtype dtype) {
    return dtype == TMK_INT8 || dtype == TMK_UINT8;
}

/* The last two axes change places. */
static struct tmk_value *swap_last_axes(struct tmk_relay_call *call, const char *part,
                                        struct tmk_value *v) {
    int64_t perm[TMK_MAX_RANK];
    int32_t rank = tmk_rl_rank(call, v);
    if (rank < 2)
        return tmk_rl_fail(call, TMK_SHAPE, "a matrix of rank %d", (int)rank);
    for (int32_t i = 0; i < rank; i++)
        perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    return tmk_rl_transpose(call, part, v, perm, rank);
}

/* a times b as matrices, into out_dtype: 8-bit integers add up in 32. */
static struct tmk_value *matrix_product(struct tmk_relay_call *call, struct tmk_value *a,
                                        struct tmk_value *b) {
    enum tmk_dtype type_a = tmk_rl_type_of(call, a), type_b = tmk_rl_type_of(call, b);
    enum tmk_dtype to = tmk_rl_dtype_attr(call, "out_dtype", type_a);
    if (is_8bit(type_a) && is_8bit(type_b) && to == TMK_INT32)
        return tmk_rl_2(call, NULL, "MatMulInteger", a, b);
    if (type_a == TMK_FLOAT32)
        return tmk_rl_2(call, NULL, "MatMul", a, b);
    b = tmk_rl_cast(call, "right", b, to);
    return tmk_rl_2(call, NULL, "MatMul", tmk_rl_cast(call, "left", a, to), b);
}

static struct tmk_value *lower_dense(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0), *w = tmk_rl_in(call, 1);
    if (tmk_rl_is_float(call, x) && tmk_rl_rank(call, x) == 2) {
        tmk_rl_set_int(call, "transB", 1);
        return tmk_rl_2(call, NULL, "Gemm", x, w);
    }
    return matrix_product(call, x, swap_last_axes(call, "weight", w));
}

static struct tmk_value *lower_matmul(struct tmk_relay_call *call) {
    struct tmk_value *a = tmk_rl_in(call, 0), *b = tmk_rl_in(call, 1);
    bool turn_a = tmk_rl_bool(call, "transpose_a"), turn_b = tmk_rl_bool(call, "transpose_b");
    if (tmk_rl_is_float(call, a) && tmk_rl_rank(call, a) == 2 && tmk_rl_rank(call, b) == 2) {
        tmk_rl_set_int(call, "transA", turn_a);
        tmk_rl_set_int(call, "transB", turn_b);
        return tmk_rl_2(call, NULL, "Gemm", a, b);
    }
    b = turn_b ? swap_last_axes(call, "right_turned", b) : b;
    return matrix_product(call, turn_a ? swap_last_axes(call, "left_turned", a) : a, b);
}

/* Without attributes the second operand is transposed up to TVM 0.7, and is not since. What the
 * text declares of the result decides, else whether it fits, else the version. */
static bool second_is_turned(struct tmk_relay_call *call, const struct tmk_value *a,
                             const struct tmk_value *b) {
    const struct tmk_shape *x = tmk_rl_dims(call, a), *y = tmk_rl_dims(call, b);
    const struct tmk_relay_type *declared = call->expr->type;
    const uint32_t *version = call->to->module->version;
    if (tmk_rl_given(call, "transpose_b") || tmk_rl_given(call, "transpose_a"))
        return tmk_rl_bool(call, "transpose_b");
    if (x->rank != 3 || y->rank != 3)
        return false;
    bool plain = x->dim[2] == y->dim[1], turned = x->dim[2] == y->dim[2];
    if (plain != turned)
        return turned;
    if (declared && declared->kind == TMK_RELAY_TENSOR && declared->n == 3 &&
        y->dim[1] != y->dim[2])
        return declared->dims[2] == y->dim[1];
    return version[2] == 4; /* 0.0.4 */
}

static struct tmk_value *lower_batch_matmul(struct tmk_relay_call *call) {
    struct tmk_value *a = tmk_rl_in(call, 0), *b = tmk_rl_in(call, 1);
    if (second_is_turned(call, a, b))
        b = swap_last_axes(call, "right_turned", b);
    return matrix_product(
        call, tmk_rl_bool(call, "transpose_a") ? swap_last_axes(call, "left_turned", a) : a, b);
}

static struct tmk_value *lower_bias_add(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    int32_t rank = tmk_rl_rank(call, x), axis = tmk_rl_axis(call, tmk_rl_int(call, "axis"), rank);
    return tmk_rl_2(call, NULL, "Add", x,
                    tmk_rl_along(call, "bias", tmk_rl_in(call, 1), axis, rank));
}

/* ---- normalizations ---- */

/* Operand i, or as many of `otherwise` where the attribute switches it off. */
static struct tmk_value *norm_factor(struct tmk_relay_call *call, const char *attr, uint32_t i,
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
static void find_permutation(int32_t rank, int32_t axis, int32_t place, bool back, int64_t *perm) {
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

/* A node that wants its channels on axis `place` (-1: the last) of a tensor that has them on the
 * call's `axis`: transposed before and after. in[0] is the tensor; pending attributes are the
 * node's. */
static struct tmk_value *transpose_around(struct tmk_relay_call *call, const char *result,
                                          const char *op, struct tmk_value **in, uint32_t n,
                                          int32_t place) {
    int64_t perm[TMK_MAX_RANK];
    const int32_t rank = tmk_rl_rank(call, in[0]);
    const int32_t axis = tmk_rl_axis(call, tmk_rl_int(call, "axis"), rank);
    place = place < 0 ? rank - 1 : place;
    if (axis == place || call->status != TMK_OK)
        return tmk_rl_n(call, result, op, in, n);
    struct tmk_attr kept[TMK_COUNT(call->pending)];
    uint32_t n_kept = call->n_pending;
    memcpy(kept, call->pending, sizeof kept);
    call->n_pending = 0;
    find_permutation(rank, axis, place, false, perm);
    in[0] = tmk_rl_transpose(call, "input", in[0], perm, rank);
    memcpy(call->pending, kept, sizeof kept);
    call->n_pending = n_kept;
    struct tmk_value *y = tmk_rl_n(call, "normalized", op, in, n);
    find_permutation(rank, axis, place, true, perm);
    return tmk_rl_transpose(call, result, y, perm, rank);
}

/* Operands: the tensor, scale, center, and of batch_norm the mean and the variance. */
static struct tmk_value *lower_norm(struct tmk_relay_call *call) {
    const bool batch = strcmp(call->op->name, "nn.batch_norm") == 0,
               layer = strcmp(call->op->name, "nn.layer_norm") == 0;
    struct tmk_value *in[5] = {tmk_rl_in(call, 0)};
    in[1] = norm_factor(call, "scale", 1, 1);
    in[2] = norm_factor(call, "center", 2, 0);
    in[3] = tmk_rl_in(call, 3);
    in[4] = tmk_rl_in(call, 4);
    if (layer)
        tmk_rl_set_int(call, "axis", -1);
    tmk_rl_set_float(call, "epsilon", tmk_rl_real(call, "epsilon"));
    if (tmk_rl_has_attr(call, "num_groups"))
        tmk_rl_set_int(call, "num_groups", tmk_rl_int(call, "num_groups"));
    struct tmk_value *y = transpose_around(call, batch ? ".0" : NULL, call->op->onnx, in,
                                           call->n_args, layer ? -1 : 1);
    return batch ? tmk_rl_tuple(call, (struct tmk_value *[]){y, in[3], in[4]}, 3) : y;
}

/* x / sqrt(max(sum of x^2 along the axes, eps)) */
static struct tmk_value *lower_l2_normalize(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    size_t n;
    const int64_t *axes = tmk_rl_ints(call, "axis", &n);
    struct tmk_value *list = n ? tmk_rl_list(call, "axes", axes, n) : NULL;
    tmk_rl_set_int(call, "keepdims", 1);
    struct tmk_value *sum = tmk_rl_2(call, "sum", "ReduceSumSquare", x, list);
    struct tmk_value *min =
        tmk_rl_2(call, "least", "Max", sum,
                 tmk_rl_scalar(call, "eps", TMK_FLOAT32, tmk_rl_real(call, "eps")));
    return tmk_rl_2(call, NULL, "Div", x, tmk_rl_1(call, "norm", "Sqrt", min));
}

static struct tmk_value *lower_lrn(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    tmk_rl_set_int(call, "size", tmk_rl_int(call, "size"));
    tmk_rl_set_float(call, "alpha", tmk_rl_real(call, "alpha"));
    tmk_rl_set_float(call, "beta", tmk_rl_real(call, "beta"));
    tmk_rl_set_float(call, "bias", tmk_rl_real(call, "bias"));
    return transpose_around(call, NULL, "LRN", &x, 1, 1);
}

/* ---- padding ---- */

static struct tmk_value *make_pad(struct tmk_relay_call *call, const char *mode,
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
static struct tmk_value *lower_pad(struct tmk_relay_call *call) {
    enum tmk_dtype dtype = tmk_rl_type_of(call, tmk_rl_in(call, 0));
    const char *mode = tmk_rl_string(call, "pad_mode");
    struct tmk_value *value = NULL;
    size_t n = 0;
    if (strcmp(mode, "constant") != 0)
        return make_pad(call, mode, NULL);
    if (call->n_args < 2)
        value = tmk_rl_scalar(call, "value", dtype, tmk_rl_real(call, "pad_value"));
    else if (tmk_rl_type_of(call, tmk_rl_in(call, 1)) == dtype)
        value = tmk_rl_in(call, 1);
    else if (tmk_rl_in(call, 1)->kind == TMK_VALUE_INITIALIZER) {
        const double *number = tmk_rl_numbers(call, tmk_rl_in(call, 1), "the padding's value", &n);
        value = n ? tmk_rl_scalar(call, "value", dtype, number[0]) : NULL;
    } else
        value = tmk_rl_cast(call, "value", tmk_rl_in(call, 1), dtype);
    return make_pad(call, mode, value);
}

static struct tmk_value *lower_mirror_pad(struct tmk_relay_call *call) {
    if (strcmp(tmk_rl_string(call, "mode"), "REFLECT") != 0)
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "mode %s", tmk_rl_string(call, "mode"));
    return make_pad(call, "reflect", NULL);
}

/* ---- writing: matrix products ---- */

/* x [..., k] by w [units, k] */
static struct tmk_relay_expr *emit_dense(struct tmk_relay_emit *e, struct tmk_relay_expr *x,
                                         struct tmk_relay_expr *w, int64_t units) {
    struct tmk_relay_expr *args[] = {x, w};
    if (units >= 0)
        tmk_rb_set_int(e->b, "units", units);
    else
        tmk_rb_set_none(e->b, "units");
    return tmk_re_n(e, "nn.dense", args, 2);
}

static struct tmk_relay_expr *emit_scaled(struct tmk_relay_emit *e, struct tmk_relay_expr *x,
                                          float factor) {
    return factor == 1 ? x : tmk_re_2(e, "multiply", x, tmk_re_real(e, factor));
}

static struct tmk_relay_expr *emit_gemm(struct tmk_relay_emit *e) {
    const struct tmk_shape *w = tmk_re_shape(e, 1), *c = tmk_re_shape(e, 2);
    const bool turned = tmk_node_int(e->node, "transB", 0) != 0;
    const float alpha = tmk_node_float(e->node, "alpha", 1),
                beta = tmk_node_float(e->node, "beta", 1);
    struct tmk_relay_expr *x = tmk_re_in(e, 0), *b = tmk_re_in(e, 1);
    if (!w || w->rank != 2)
        return tmk_re_fail(e, TMK_RE_NO_RANK);
    if (tmk_node_int(e->node, "transA", 0)) {
        tmk_rb_set_ints(e->b, "axes", (int64_t[]){1, 0}, 2);
        x = tmk_re_1(e, "transpose", x);
    }
    struct tmk_relay_expr *second = turned ? b : tmk_re_transposed(e, 1);
    struct tmk_relay_expr *y =
        emit_scaled(e, tmk_re_like(e, emit_dense(e, x, second, w->dim[turned ? 0 : 1])), alpha);
    if (tmk_re_has(e, 2)) {
        struct tmk_relay_expr *bias = emit_scaled(e, tmk_re_in(e, 2), beta);
        const bool plain = c && c->rank == 1 && c->dim[0] == w->dim[turned ? 0 : 1];
        y = tmk_re_2(e, plain ? "nn.bias_add" : "add", y, bias);
    }
    return y;
}

/* Of equal leading dimensions, which are known: a batch. */
static bool same_batch(const struct tmk_shape *a, const struct tmk_shape *b, int64_t *count) {
    *count = 1;
    if (a->rank != b->rank || a->rank < 3)
        return false;
    for (int32_t i = 0; i < a->rank - 2; i++) {
        if (a->dim[i] != b->dim[i] || (a->dim[i] < 0 && a->rank > 3))
            return false;
        if (!tmk_mul_i64(*count, a->dim[i], count))
            return false;
    }
    return true;
}

struct tmk_relay_expr *tmk_re_batch_matmul(struct tmk_relay_emit *e, struct tmk_relay_expr *args[2],
                                           const char *out_dtype) {
    const struct tmk_shape *a = tmk_re_shape(e, 0), *b = tmk_re_shape(e, 1),
                           *y = tmk_re_out_shape(e, 0);
    const int32_t rank = a->rank;
    int64_t count;
    if (!same_batch(a, b, &count))
        return tmk_re_fail(e, "its operands are batches of different or unknown shapes");
    for (int i = 0; rank > 3 && i < 2; i++) {
        const struct tmk_shape *shape = i ? b : a;
        const int64_t dims[] = {count, shape->dim[rank - 2], shape->dim[rank - 1]};
        if (dims[1] < 0 || dims[2] < 0 || !y)
            return tmk_re_fail(e, "its operands are of unknown shapes");
        args[i] = tmk_rb_reshape(e->b, args[i], dims, 3);
    }
    /* Without this TVM up to 0.7 takes the second for transposed. */
    tmk_rb_set_bool(e->b, "transpose_b", false);
    if (out_dtype)
        tmk_rb_set_string(e->b, "out_dtype", out_dtype);
    struct tmk_relay_expr *made = tmk_re_n(e, "nn.batch_matmul", args, 2);
    if (rank > 3)
        made = tmk_rb_reshape(e->b, made, y->dim, (size_t)rank);
    return made;
}

static struct tmk_relay_expr *emit_matmul(struct tmk_relay_emit *e) {
    const struct tmk_shape *a = tmk_re_shape(e, 0), *b = tmk_re_shape(e, 1);
    struct tmk_relay_expr *args[] = {tmk_re_in(e, 0), NULL};
    if (!a || !b || a->rank < 2)
        return tmk_re_fail(e, "the shapes of its operands are not known, or one is a vector");
    if (b->rank == 2)
        return emit_dense(e, args[0], tmk_re_transposed(e, 1), b->dim[1]);
    args[1] = tmk_re_in(e, 1);
    return tmk_re_batch_matmul(e, args, NULL);
}

/* ---- writing: normalizations ---- */

static struct tmk_relay_expr *emit_batch_norm(struct tmk_relay_emit *e) {
    struct tmk_relay_expr *args[5];
    for (uint32_t i = 1; i < 5; i++)
        if (tmk_re_wanted(e, i))
            return tmk_re_fail(e, "its running statistics are asked for");
    if (tmk_node_int(e->node, "training_mode", 0))
        return tmk_re_fail(e, "it trains");
    for (uint32_t i = 0; i < 5; i++)
        args[i] = tmk_re_in(e, i);
    tmk_re_same_attrs(e);
    struct tmk_relay_expr *all = tmk_re_n(e, "nn.batch_norm", args, 5);
    return tmk_rb_project(e->b, all, 0);
}

static struct tmk_relay_expr *emit_layer_norm(struct tmk_relay_emit *e) {
    const struct tmk_shape *x = tmk_re_shape(e, 0);
    struct tmk_relay_expr *args[] = {tmk_re_in(e, 0), tmk_re_in(e, 1), tmk_re_in(e, 2)};
    if (tmk_re_axis(tmk_node_int(e->node, "axis", -1), x->rank) != x->rank - 1)
        return tmk_re_fail(e, "it normalises over more than the last axis");
    if (tmk_re_wanted(e, 1) || tmk_re_wanted(e, 2))
        return tmk_re_fail(e, "its mean or deviation is asked for");
    tmk_re_same_attrs(e);
    if (!args[2]) {
        args[2] = args[1];
        tmk_rb_set_bool(e->b, "center", false);
    }
    return tmk_re_n(e, "nn.layer_norm", args, 3);
}

static struct tmk_relay_expr *emit_softmax(struct tmk_relay_emit *e) {
    const struct tmk_shape *shape = tmk_re_shape(e, 0);
    struct tmk_relay_expr *x = tmk_re_in(e, 0);
    const bool flat = e->node->version < 13; /* everything from the axis on is one dimension */
    if (!shape || !shape->rank)
        return tmk_re_fail(e, TMK_RE_NO_RANK);
    const int64_t axis = tmk_re_axis(tmk_node_int(e->node, "axis", flat ? 1 : -1), shape->rank);
    if (axis < 0)
        return tmk_re_fail(e, "its axis is out of range");
    for (int32_t i = (int32_t)axis + 1; flat && i < shape->rank; i++)
        if (shape->dim[i] != 1)
            return tmk_re_fail(e, "it takes several axes for one, as before operator set 13");
    if (axis != shape->rank - 1)
        tmk_rb_set_int(e->b, "axis", axis);
    return tmk_re_1(e, e->op->name, x);
}

static struct tmk_relay_expr *emit_dropout(struct tmk_relay_emit *e) {
    struct tmk_relay_expr *x = tmk_re_in(e, 0);
    double ratio = tmk_node_float(e->node, "ratio", 0.5f);
    if (tmk_re_wanted(e, 1))
        return tmk_re_fail(e, "its mask is asked for");
    tmk_re_number(e, 1, &ratio);
    tmk_rb_set_real(e->b, "rate", (float)ratio);
    return tmk_rb_project(e->b, tmk_re_1(e, "nn.dropout", x), 0);
}

static struct tmk_relay_expr *emit_pad(struct tmk_relay_emit *e) {
    const struct tmk_shape *x = tmk_re_shape(e, 0);
    const char *mode = tmk_node_string(e->node, "mode", "constant");
    int64_t pads[2 * TMK_MAX_RANK], pairs[2 * TMK_MAX_RANK];
    size_t n;
    double value = tmk_node_float(e->node, "value", 0);
    if (!tmk_re_listed(e, "pads", 1, pads, &n))
        return tmk_re_fail(e, TMK_RE_COMPUTED);
    if (tmk_re_has(e, 3) || n != 2 * (size_t)x->rank)
        return tmk_re_fail(e, "it pads some axes only");
    if (tmk_re_has(e, 2) && !tmk_re_number(e, 2, &value))
        return tmk_re_fail(e, "the number that it pads with is computed");
    if (strcmp(mode, "wrap") == 0)
        return tmk_re_fail(e, "it pads around");
    for (size_t i = 0; i < n / 2; i++) {
        pairs[2 * i] = pads[i];
        pairs[2 * i + 1] = pads[n / 2 + i];
        if (pads[i] < 0 || pads[n / 2 + i] < 0)
            return tmk_re_fail(e, "it pads by less than nothing");
    }
    tmk_rb_set_pairs(e->b, "pad_width", pairs, n / 2);
    if (strcmp(mode, "constant") != 0)
        tmk_rb_set_string(e->b, "pad_mode", mode);
    struct tmk_relay_expr *args[] = {tmk_re_in(e, 0),
                                     tmk_rb_scalar(e->b, tmk_re_dtype(e, 0), value)};
    return tmk_re_n(e, "nn.pad", args, 2);
}

static const struct tmk_relay_same_attr softmax_axis_attr[] = {{"axis", TMK_RELAY_INT}, {0}};
static const struct tmk_relay_same_attr epsilon_attr[] = {
    {"epsilon", TMK_RELAY_REAL, .number = 1e-5f, .optional = true}, {0}};
static const struct tmk_relay_same_attr lrn_attrs[] = {{"size", TMK_RELAY_INT, .number = 5},
                                                       {"bias", TMK_RELAY_REAL, .number = 1},
                                                       {"alpha", TMK_RELAY_REAL, .number = 1e-4f},
                                                       {"beta", TMK_RELAY_REAL, .number = 0.75},
                                                       {0}};
static const char products[] = "MatMul with Transpose; of 8-bit integers MatMulInteger";

const struct tmk_relay_op tmk_relay_ops_nn[] = {
    {"nn.batch_matmul", 2, 2, 0, "units=None; out_dtype=None; transpose_a=False; transpose_b=False",
     products, lower_batch_matmul, emit_matmul},
    {"nn.batch_norm", 5, 5, 0, "axis=1; epsilon=1e-05; center=True; scale=True",
     "BatchNormalization", lower_norm, emit_batch_norm, 0, epsilon_attr},
    {"nn.bias_add", 2, 2, TMK_RELAY_BROADCASTS, "axis=1", "Unsqueeze, Add", lower_bias_add},
    {"nn.dense", 2, 2, 0,
     "units=None; out_dtype=None; auto_scheduler_rewritten_layout=None; "
     "meta_schedule_original_shape=None",
     "Gemm; of other ranks MatMul; of 8-bit integers MatMulInteger", lower_dense, emit_gemm},
    {"nn.fast_softmax", 1, 1, 0, "axis=-1", "Softmax", tmk_rl_same, NULL, 0, softmax_axis_attr},
    {"nn.group_norm", 3, 3, 0, "num_groups:int; axis=1; epsilon=1e-05; center=True; scale=True",
     "GroupNormalization", lower_norm},
    {"nn.instance_norm", 3, 3, 0, "axis=1; epsilon=1e-05; center=True; scale=True",
     "InstanceNormalization", lower_norm, tmk_re_same, 0, epsilon_attr},
    {"nn.l2_normalize", 1, 1, 0, "eps:real; axis=None", "ReduceSumSquare, Max, Sqrt, Div",
     lower_l2_normalize},
    {"nn.layer_norm", 3, 3, TMK_RELAY_WRITES_RANKED,
     "axis=-1; epsilon=1e-05; center=True; scale=True", "LayerNormalization", lower_norm,
     emit_layer_norm, 0, epsilon_attr},
    {"nn.log_softmax", 1, 1, 0, "axis=-1", "LogSoftmax", tmk_rl_same, emit_softmax, 0,
     softmax_axis_attr},
    {"nn.lrn", 1, 1, 0, "size=5; axis=1; bias=2.0; alpha=0.0001; beta=0.75", "LRN", lower_lrn,
     tmk_re_same, 0, lrn_attrs},
    {"nn.matmul", 2, 2, 0, "units=None; out_dtype=None; transpose_a=False; transpose_b=False",
     products, lower_matmul},
    {"nn.mirror_pad", 1, 1, 0, "pad_width; mode='SYMMETRIC'", "Pad", lower_mirror_pad},
    {"nn.pad", 1, 2, TMK_RELAY_WRITES_RANKED, "pad_width; pad_mode='constant'; pad_value=0.0",
     "Pad", lower_pad, emit_pad, TMK_RE_REST},
    {"nn.softmax", 1, 1, 0, "axis=-1", "Softmax", tmk_rl_same, emit_softmax, 0, softmax_axis_attr},
    {"", 0, 0, 0, "", "Dropout", NULL, emit_dropout, 1u << 1 | 1u << 2},
    {0}};
