/* SPDX-License-Identifier: Apache-2.0 */
/* Relay's reductions. */
#include <string.h>

#include "relay/emit.h"

/* The axes that are reduced; with `exclude` all but those that are named. */
static struct tmk_value *axes_of(struct tmk_relay_call *call, const struct tmk_value *x,
                                 size_t *count) {
    size_t n;
    const int64_t *given = tmk_rl_ints(call, "axis", &n);
    int32_t rank = tmk_rl_rank(call, x);
    bool all = !tmk_rl_given(call, "axis"), exclude = tmk_rl_bool(call, "exclude");
    bool named[TMK_MAX_RANK] = {false};
    int64_t axes[TMK_MAX_RANK];
    *count = 0;
    for (size_t i = 0; i < n; i++)
        named[tmk_rl_axis(call, given[i], rank)] = true;
    for (int32_t i = 0; i < rank; i++)
        if (all ? !exclude : named[i] != exclude)
            axes[(*count)++] = i;
    return tmk_rl_list(call, "axes", axes, *count);
}

/* No axes at all means none, where ONNX would take all. */
static struct tmk_value *make_reduce(struct tmk_relay_call *call, const char *part, const char *op,
                                     struct tmk_value *x, struct tmk_value *axes) {
    tmk_rl_set_int(call, "keepdims", tmk_rl_bool(call, "keepdims"));
    tmk_rl_set_int(call, "noop_with_empty_axes", 1);
    return tmk_rl_2(call, part, op, x, axes);
}

/* Booleans and narrow integers add up in what the operator takes, and go back. */
static bool is_computed_in(enum tmk_dtype dtype) {
    return dtype == TMK_FLOAT32 || dtype == TMK_INT32 || dtype == TMK_INT64;
}

static struct tmk_value *lower_reduce(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    size_t n;
    struct tmk_value *axes = axes_of(call, x, &n);
    enum tmk_dtype dtype = tmk_rl_type_of(call, x);
    if (is_computed_in(dtype))
        return make_reduce(call, NULL, call->op->onnx, x, axes);
    struct tmk_value *wide = tmk_rl_cast(call, "wide", x, TMK_INT32);
    return tmk_rl_cast(call, NULL, make_reduce(call, "reduced", call->op->onnx, wide, axes), dtype);
}

static struct tmk_value *lower_all_or_any(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    size_t n;
    struct tmk_value *axes = axes_of(call, x, &n);
    struct tmk_value *wide = tmk_rl_cast(call, "wide", x, TMK_INT32);
    const char *op = strcmp(call->op->name, "all") == 0 ? "ReduceMin" : "ReduceMax";
    return tmk_rl_cast(call, NULL, make_reduce(call, "reduced", op, wide, axes), TMK_BOOL);
}

/* The second operand is the mean, its axes kept. */
static struct tmk_value *lower_variance(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    const struct tmk_shape *shape = tmk_rl_shape(call, x);
    size_t n;
    struct tmk_value *axes = axes_of(call, x, &n);
    struct tmk_value *off = tmk_rl_2(call, "off", "Sub", x, tmk_rl_in(call, 1));
    struct tmk_value *square = tmk_rl_2(call, "square", "Mul", off, off);
    if (!tmk_rl_bool(call, "unbiased"))
        return make_reduce(call, NULL, "ReduceMean", square, axes);
    double count = 1;
    tmk_rl_dims(call, x);
    for (size_t i = 0; i < n && axes; i++)
        count *= (double)shape->dim[((const int64_t *)axes->data.data)[i]];
    struct tmk_value *divisor = tmk_rl_scalar(call, "count", TMK_FLOAT32, count - 1);
    return tmk_rl_2(call, NULL, "Div", make_reduce(call, "sum", "ReduceSum", square, axes),
                    divisor);
}

/* One axis, or the whole tensor; Relay counts in int32. */
static struct tmk_value *lower_arg(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    size_t n;
    const int64_t *axes = tmk_rl_ints(call, "axis", &n);
    bool all = !tmk_rl_given(call, "axis");
    int64_t every = -1;
    if (tmk_rl_bool(call, "exclude") || n > 1 || (all && tmk_rl_bool(call, "keepdims")))
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "only along one axis, or of the whole tensor");
    if (all)
        x = tmk_rl_reshape(call, "flat", x, &every, 1);
    tmk_rl_set_int(call, "axis", all ? 0 : n ? axes[0] : 0);
    tmk_rl_set_int(call, "keepdims", tmk_rl_bool(call, "keepdims"));
    tmk_rl_set_int(call, "select_last_index", tmk_rl_bool(call, "select_last_index"));
    struct tmk_value *index =
        tmk_rl_1(call, "index", strcmp(call->op->name, "argmax") == 0 ? "ArgMax" : "ArgMin", x);
    return tmk_rl_cast(call, NULL, index, TMK_INT32);
}

static struct tmk_value *lower_cumulate(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    int64_t every = -1;
    enum tmk_dtype dtype = tmk_rl_dtype_attr(call, "dtype", tmk_rl_type_of(call, x));
    bool all = !tmk_rl_given(call, "axis");
    if (all)
        x = tmk_rl_reshape(call, "flat", x, &every, 1);
    x = tmk_rl_cast(call, "wide", x, dtype);
    struct tmk_value *axis =
        tmk_rl_scalar(call, "axis", TMK_INT64, all ? 0 : (double)tmk_rl_int(call, "axis"));
    tmk_rl_set_int(call, "exclusive", tmk_rl_bool(call, "exclusive"));
    return tmk_rl_2(call, NULL, "CumSum", x, axis);
}

/* ---- writing ---- */

static struct tmk_relay_expr *emit_reduce(struct tmk_relay_emit *e) {
    int64_t axes[2 * TMK_MAX_RANK];
    size_t n;
    const char *op = *e->op->name ? e->op->name : "sum";
    struct tmk_relay_expr *x = tmk_re_in(e, 0);
    if (!tmk_re_listed(e, "axes", 1, axes, &n))
        return tmk_re_fail(e, "its axes are computed");
    if (!n && tmk_node_int(e->node, "noop_with_empty_axes", 0))
        return tmk_re_1(e, "copy", x);
    if (tmk_node_is(e->node, TMK_DOMAIN_ONNX, "ReduceL1"))
        x = tmk_re_1(e, "abs", x);
    if (tmk_node_is(e->node, TMK_DOMAIN_ONNX, "ReduceL2") ||
        tmk_node_is(e->node, TMK_DOMAIN_ONNX, "ReduceSumSquare"))
        x = tmk_re_2(e, "multiply", x, x);
    if (n)
        tmk_rb_set_ints(e->b, "axis", axes, n);
    if (tmk_node_int(e->node, "keepdims", 1))
        tmk_rb_set_bool(e->b, "keepdims", true);
    struct tmk_relay_expr *made = tmk_re_1(e, op, x);
    if (tmk_node_is(e->node, TMK_DOMAIN_ONNX, "ReduceL2"))
        made = tmk_re_1(e, "sqrt", made);
    if (tmk_node_is(e->node, TMK_DOMAIN_ONNX, "ReduceLogSum"))
        made = tmk_re_1(e, "log", made);
    return made;
}

static struct tmk_relay_expr *emit_arg(struct tmk_relay_emit *e) {
    const int64_t axis = tmk_node_int(e->node, "axis", 0);
    struct tmk_relay_expr *x = tmk_re_in(e, 0);
    tmk_rb_set_ints(e->b, "axis", &axis, 1);
    if (tmk_node_int(e->node, "keepdims", 1))
        tmk_rb_set_bool(e->b, "keepdims", true);
    if (tmk_node_int(e->node, "select_last_index", 0))
        tmk_rb_set_bool(e->b, "select_last_index", true);
    x = tmk_re_1(e, e->op->name, x);
    return tmk_rb_cast(e->b, x, TMK_INT64);
}

#define WRITE_SUM(onnx)                                                                            \
    { "", 0, 0, 0, "", onnx, NULL, emit_reduce, 1u << 1 }

const struct tmk_relay_op tmk_relay_ops_reduce[] = {
    {"all", 1, 1, 0, "axis=None; keepdims=False; exclude=False", "Cast, ReduceMin, Cast",
     lower_all_or_any},
    {"any", 1, 1, 0, "axis=None; keepdims=False; exclude=False", "Cast, ReduceMax, Cast",
     lower_all_or_any},
    {"argmax", 1, 1, 0, "axis=None; keepdims=False; exclude=False; select_last_index=False",
     "ArgMax, Cast", lower_arg, emit_arg},
    {"argmin", 1, 1, 0, "axis=None; keepdims=False; exclude=False; select_last_index=False",
     "ArgMin, Cast", lower_arg, emit_arg},
    {"cumsum", 1, 1, 0, "axis=None; dtype=None; exclusive:object=False", "CumSum", lower_cumulate},
    {"logsumexp", 1, 1, 0, "axis=None; keepdims=False; exclude=False", "ReduceLogSumExp",
     lower_reduce},
    {"max", 1, 1, 0, "axis=None; keepdims=False; exclude=False", "ReduceMax", lower_reduce,
     emit_reduce, 1u << 1},
    {"mean", 1, 1, 0, "axis=None; keepdims=False; exclude=False", "ReduceMean", lower_reduce,
     emit_reduce, 1u << 1},
    {"min", 1, 1, 0, "axis=None; keepdims=False; exclude=False", "ReduceMin", lower_reduce,
     emit_reduce, 1u << 1},
    {"prod", 1, 1, 0, "axis=None; keepdims=False; exclude=False", "ReduceProd", lower_reduce,
     emit_reduce, 1u << 1},
    {"sum", 1, 1, 0, "axis=None; keepdims=False; exclude=False", "ReduceSum", lower_reduce,
     emit_reduce, 1u << 1},
    {"variance", 2, 2, 0, "axis=None; keepdims=False; exclude=False; unbiased=False",
     "Sub, Mul, ReduceMean", lower_variance},
    WRITE_SUM("ReduceL1"),
    WRITE_SUM("ReduceL2"),
    WRITE_SUM("ReduceSumSquare"),
    WRITE_SUM("ReduceLogSum"),
    {0}};
