/* SPDX-License-Identifier: Apache-2.0 */
/* Relay's reductions. */
#include <string.h>

#include "model/relay_lower.h"

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
static struct tmk_value *reduced(struct tmk_relay_call *call, const char *part, const char *op,
                                 struct tmk_value *x, struct tmk_value *axes) {
    tmk_rl_set_int(call, "keepdims", tmk_rl_bool(call, "keepdims"));
    tmk_rl_set_int(call, "noop_with_empty_axes", 1);
    return tmk_rl_2(call, part, op, x, axes);
}

/* Booleans and narrow integers add up in what the operator takes, and go back. */
static bool computes(enum tmk_dtype dtype) {
    return dtype == TMK_FLOAT32 || dtype == TMK_INT32 || dtype == TMK_INT64;
}

static struct tmk_value *reduce(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    size_t n;
    struct tmk_value *axes = axes_of(call, x, &n);
    enum tmk_dtype dtype = tmk_rl_type_of(call, x);
    if (computes(dtype))
        return reduced(call, NULL, call->op->becomes, x, axes);
    struct tmk_value *wide = tmk_rl_cast(call, "wide", x, TMK_INT32);
    return tmk_rl_cast(call, NULL, reduced(call, "reduced", call->op->becomes, wide, axes), dtype);
}

static struct tmk_value *all_or_any(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    size_t n;
    struct tmk_value *axes = axes_of(call, x, &n);
    struct tmk_value *wide = tmk_rl_cast(call, "wide", x, TMK_INT32);
    const char *op = strcmp(call->op->name, "all") == 0 ? "ReduceMin" : "ReduceMax";
    return tmk_rl_cast(call, NULL, reduced(call, "reduced", op, wide, axes), TMK_BOOL);
}

/* The second operand is the mean, its axes kept. */
static struct tmk_value *variance(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    const struct tmk_shape *shape = tmk_rl_shape(call, x);
    size_t n;
    struct tmk_value *axes = axes_of(call, x, &n);
    struct tmk_value *off = tmk_rl_2(call, "off", "Sub", x, tmk_rl_in(call, 1));
    struct tmk_value *square = tmk_rl_2(call, "square", "Mul", off, off);
    if (!tmk_rl_bool(call, "unbiased"))
        return reduced(call, NULL, "ReduceMean", square, axes);
    double count = 1;
    tmk_rl_dims(call, x);
    for (size_t i = 0; i < n && axes; i++)
        count *= (double)shape->dim[((const int64_t *)axes->data.data)[i]];
    return tmk_rl_2(call, NULL, "Div", reduced(call, "sum", "ReduceSum", square, axes),
                    tmk_rl_scalar(call, "count", TMK_FLOAT32, count - 1));
}

/* One axis, or the whole tensor; Relay counts in int32. */
static struct tmk_value *arg(struct tmk_relay_call *call) {
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

static struct tmk_value *cumulate(struct tmk_relay_call *call) {
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

#define REDUCE_RULES                                                                               \
    {"axis", TMK_RELAY_RULE_INTS, "None"}, {"keepdims", TMK_RELAY_RULE_BOOL, "False"}, {           \
        "exclude", TMK_RELAY_RULE_BOOL, "False"                                                    \
    }
static const struct tmk_relay_rule reduce_attrs[] = {REDUCE_RULES, {0}};
static const struct tmk_relay_rule variance_attrs[] = {
    REDUCE_RULES, {"unbiased", TMK_RELAY_RULE_BOOL, "False"}, {0}};
static const struct tmk_relay_rule arg_attrs[] = {
    REDUCE_RULES, {"select_last_index", TMK_RELAY_RULE_BOOL, "False"}, {0}};
static const struct tmk_relay_rule cumulate_attrs[] = {{"axis", TMK_RELAY_RULE_INT, "None"},
                                                       {"dtype", TMK_RELAY_RULE_TEXT, "None"},
                                                       {"exclusive", TMK_RELAY_RULE_BOOL, "False"},
                                                       {0}};

const struct tmk_relay_op tmk_relay_ops_reduce[] = {
    {"all", 1, 1, 0, reduce_attrs, "Cast, ReduceMin, Cast", all_or_any},
    {"any", 1, 1, 0, reduce_attrs, "Cast, ReduceMax, Cast", all_or_any},
    {"argmax", 1, 1, 0, arg_attrs, "ArgMax, Cast", arg},
    {"argmin", 1, 1, 0, arg_attrs, "ArgMin, Cast", arg},
    {"cumsum", 1, 1, 0, cumulate_attrs, "CumSum", cumulate},
    {"logsumexp", 1, 1, 0, reduce_attrs, "ReduceLogSumExp", reduce},
    {"max", 1, 1, 0, reduce_attrs, "ReduceMax", reduce},
    {"mean", 1, 1, 0, reduce_attrs, "ReduceMean", reduce},
    {"min", 1, 1, 0, reduce_attrs, "ReduceMin", reduce},
    {"prod", 1, 1, 0, reduce_attrs, "ReduceProd", reduce},
    {"sum", 1, 1, 0, reduce_attrs, "ReduceSum", reduce},
    {"variance", 2, 2, 0, variance_attrs, "Sub, Mul, ReduceMean", variance},
    {0}};
