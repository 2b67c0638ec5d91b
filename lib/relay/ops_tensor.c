/* SPDX-License-Identifier: Apache-2.0 */
/* Relay's operators that move elements: slices, gathers, repeats, constants. */
#include <string.h>

#include "relay/emit.h"

/* ---- slices ---- */

static struct tmk_value *make_slice(struct tmk_relay_call *call, struct tmk_value *x,
                                    const int64_t *begin, const int64_t *end, const int64_t *axes,
                                    const int64_t *steps, size_t n) {
    struct tmk_value *in[] = {x, tmk_rl_list(call, "begin", begin, n),
                              tmk_rl_list(call, "end", end, n), tmk_rl_list(call, "axes", axes, n),
                              tmk_rl_list(call, "steps", steps, n)};
    return tmk_rl_n(call, NULL, "Slice", in, 5);
}

/* slice_mode "size": `end` holds lengths, -1 for all that is left, and steps don't count. */
static struct tmk_value *lower_strided_slice(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    size_t n, n_end, n_steps, n_axes;
    const int64_t *begin = tmk_rl_ints(call, "begin", &n), *end = tmk_rl_ints(call, "end", &n_end);
    const int64_t *steps = tmk_rl_ints(call, "strides", &n_steps);
    const int64_t *axes = tmk_rl_ints(call, "axes", &n_axes);
    bool by_size = strcmp(tmk_rl_string(call, "slice_mode"), "size") == 0;
    int64_t to[TMK_MAX_RANK], step[TMK_MAX_RANK], axis[TMK_MAX_RANK];
    if (call->status != TMK_OK || n > TMK_MAX_RANK || n_end != n || n_steps > n ||
        (n_axes && n_axes != n))
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "%zu begins, %zu ends, %zu strides, %zu axes", n,
                           n_end, n_steps, n_axes);
    for (size_t i = 0; i < n; i++) {
        axis[i] = n_axes ? axes[i] : (int64_t)i;
        step[i] = by_size || n_steps == 0 ? 1 : i < n_steps ? steps[i] : steps[n_steps - 1];
        if (n_steps > 1 && i >= n_steps)
            step[i] = 1;
        to[i] = end[i];
        if (by_size && (end[i] < 0 || !tmk_add_i64(begin[i], end[i], &to[i])))
            to[i] = INT64_MAX;
        else if (by_size && begin[i] < 0 && to[i] == 0)
            to[i] = INT64_MAX; /* the last elements, up to the end */
    }
    return make_slice(call, x, begin, to, axis, step, n);
}

static struct tmk_value *lower_slice_like(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    const struct tmk_shape *like = tmk_rl_dims(call, tmk_rl_in(call, 1));
    int32_t rank = tmk_rl_rank(call, x);
    size_t n;
    const int64_t *axes = tmk_rl_ints(call, "axes", &n);
    int64_t begin[TMK_MAX_RANK] = {0}, end[TMK_MAX_RANK], axis[TMK_MAX_RANK], step[TMK_MAX_RANK];
    size_t count = n ? n : (size_t)like->rank;
    if (call->status != TMK_OK || count > TMK_MAX_RANK)
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "%zu axes", count);
    for (size_t i = 0; i < count; i++) {
        axis[i] = tmk_rl_axis(call, n ? axes[i] : (int64_t)i, rank);
        if (axis[i] >= like->rank)
            return tmk_rl_fail(call, TMK_SHAPE, "axis %lld of a tensor of rank %d",
                               (long long)axis[i], (int)like->rank);
        end[i] = like->dim[axis[i]];
        step[i] = 1;
    }
    return make_slice(call, x, begin, end, axis, step, count);
}

/* ---- gathers ---- */

/* Indices beyond the axis are taken as its last ("clip"), or from its begin again ("wrap"). */
static struct tmk_value *lower_take(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0), *indices = tmk_rl_in(call, 1);
    const char *mode = tmk_rl_string(call, "mode");
    bool flat = !tmk_rl_given(call, "axis");
    int64_t all = -1;
    enum tmk_dtype dtype = tmk_rl_type_of(call, indices);
    if (tmk_rl_int(call, "batch_dims") != 0)
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "batch_dims is not 0");
    x = flat ? tmk_rl_reshape(call, "flat", x, &all, 1) : x;
    int32_t axis = flat ? 0 : tmk_rl_axis(call, tmk_rl_int(call, "axis"), tmk_rl_rank(call, x));
    if (call->status != TMK_OK)
        return NULL;
    int64_t size = x->type.shape.dim[axis];
    if (dtype != TMK_INT32 && dtype != TMK_INT64)
        indices = tmk_rl_cast(call, "index", indices, dtype = TMK_INT64);
    size_t n = 0;
    bool inside = indices && indices->kind == TMK_VALUE_INITIALIZER && size >= 0;
    const double *known = inside ? tmk_rl_numbers(call, indices, "the indices", &n) : NULL;
    for (size_t i = 0; i < n; i++)
        inside &= known[i] >= 0 && known[i] < (double)size;
    if (!inside && size < 0)
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "the size of the axis is not known");
    if (!inside && strcmp(mode, "wrap") == 0)
        indices = tmk_rl_2(call, "wrapped", "Mod", indices,
                           tmk_rl_scalar(call, "size", dtype, (double)size));
    else if (!inside)
        indices = tmk_rl_clip(call, "within", indices, 0, (double)(size - 1));
    tmk_rl_set_int(call, "axis", axis);
    return tmk_rl_2(call, NULL, "Gather", x, indices);
}

/* Relay has the places' coordinates on the first axis, ONNX on the last. */
static struct tmk_value *lower_gather_nd(struct tmk_relay_call *call) {
    struct tmk_value *indices = tmk_rl_in(call, 1);
    int32_t rank = tmk_rl_rank(call, indices);
    int64_t perm[TMK_MAX_RANK];
    if (tmk_rl_int(call, "batch_dims") != 0)
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "batch_dims is not 0");
    for (int32_t i = 0; i < rank; i++)
        perm[i] = i + 1 < rank ? i + 1 : 0;
    indices = tmk_rl_transpose(call, "places", tmk_rl_cast(call, "index", indices, TMK_INT64), perm,
                               rank);
    return tmk_rl_2(call, NULL, "GatherND", tmk_rl_in(call, 0), indices);
}

static struct tmk_value *lower_one_hot(struct tmk_relay_call *call) {
    enum tmk_dtype dtype = tmk_rl_dtype_attr(call, "dtype", TMK_FLOAT32);
    size_t n_on, n_off;
    const double *on = tmk_rl_numbers(call, tmk_rl_in(call, 1), "on_value", &n_on);
    const double *off = tmk_rl_numbers(call, tmk_rl_in(call, 2), "off_value", &n_off);
    struct tmk_shape two = {1, {2}};
    int64_t depth = tmk_rl_int(call, "depth");
    if (call->status != TMK_OK || n_on != 1 || n_off != 1)
        return tmk_rl_fail(call, TMK_SHAPE, "on_value and off_value are no scalars");
    double values[] = {off[0], on[0]};
    struct tmk_value *in[] = {tmk_rl_in(call, 0), tmk_rl_list(call, "depth", &depth, 1),
                              tmk_rl_array(call, "values", dtype, &two, values)};
    tmk_rl_set_int(call, "axis", tmk_rl_int(call, "axis"));
    return tmk_rl_n(call, NULL, "OneHot", in, 3);
}

/* ---- repeats ---- */

static struct tmk_value *make_expand(struct tmk_relay_call *call, struct tmk_value *x,
                                     const int64_t *dims, size_t n) {
    return tmk_rl_2(call, NULL, "Expand", x, tmk_rl_list(call, "shape", dims, n));
}

static struct tmk_value *lower_broadcast_to(struct tmk_relay_call *call) {
    size_t n;
    const int64_t *dims = tmk_rl_ints(call, "shape", &n);
    return dims ? make_expand(call, tmk_rl_in(call, 0), dims, n) : NULL;
}

static struct tmk_value *lower_broadcast_to_like(struct tmk_relay_call *call) {
    const struct tmk_shape *like = tmk_rl_dims(call, tmk_rl_in(call, 1));
    return make_expand(call, tmk_rl_in(call, 0), like->dim, (size_t)like->rank);
}

static struct tmk_value *lower_tile(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    const struct tmk_shape *shape = tmk_rl_shape(call, x);
    size_t n;
    const int64_t *given = tmk_rl_ints(call, "reps", &n);
    int64_t reps[TMK_MAX_RANK];
    size_t rank = (size_t)shape->rank;
    if (call->status != TMK_OK || n > TMK_MAX_RANK)
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "%zu repetitions", n);
    if (n > rank) { /* the tensor gets leading axes */
        int64_t dims[TMK_MAX_RANK];
        tmk_rl_dims(call, x);
        for (size_t i = 0; i < n; i++)
            dims[i] = i < n - rank ? 1 : shape->dim[i - (n - rank)];
        x = tmk_rl_reshape(call, "wide", x, dims, n);
        rank = n;
    }
    for (size_t i = 0; i < rank; i++)
        reps[i] = i < rank - n ? 1 : given[i - (rank - n)];
    return tmk_rl_2(call, NULL, "Tile", x, tmk_rl_list(call, "reps", reps, rank));
}

/* Each element so many times: a new axis behind it, tiled, and joined with it. */
static struct tmk_value *lower_repeat(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    int64_t times = tmk_rl_int(call, "repeats"), all = -1;
    if (!tmk_rl_given(call, "axis"))
        x = tmk_rl_reshape(call, "flat", x, &all, 1);
    const struct tmk_shape *shape = tmk_rl_dims(call, x);
    int32_t axis =
        tmk_rl_given(call, "axis") ? tmk_rl_axis(call, tmk_rl_int(call, "axis"), shape->rank) : 0;
    int64_t behind = axis + 1, reps[TMK_MAX_RANK], dims[TMK_MAX_RANK];
    if (call->status != TMK_OK || shape->rank >= TMK_MAX_RANK || times < 0)
        return tmk_rl_fail(call, TMK_RANGE, "%lld repeats", (long long)times);
    for (int32_t i = 0; i <= shape->rank; i++)
        reps[i] = i == behind ? times : 1;
    for (int32_t i = 0; i < shape->rank; i++)
        dims[i] = shape->dim[i];
    if (!tmk_mul_i64(dims[axis], times, &dims[axis]))
        return tmk_rl_fail(call, TMK_RANGE, "%lld repeats", (long long)times);
    size_t n = (size_t)shape->rank;
    struct tmk_value *wide =
        tmk_rl_2(call, "wide", "Unsqueeze", x, tmk_rl_list(call, "axis", &behind, 1));
    struct tmk_value *tiled =
        tmk_rl_2(call, "tiled", "Tile", wide, tmk_rl_list(call, "reps", reps, n + 1));
    return tmk_rl_reshape(call, NULL, tiled, dims, n);
}

/* ---- constants ---- */

static struct tmk_value *lower_full(struct tmk_relay_call *call) {
    size_t n;
    const int64_t *dims = tmk_rl_ints(call, "shape", &n);
    struct tmk_value *x = tmk_rl_in(call, 0);
    bool zeros = strcmp(call->op->name, "zeros") == 0;
    enum tmk_dtype dtype =
        tmk_rl_dtype_attr(call, "dtype", x ? tmk_rl_type_of(call, x) : TMK_FLOAT32);
    struct tmk_value *value =
        x ? tmk_rl_cast(call, "value", x, dtype) : tmk_rl_scalar(call, "value", dtype, !zeros);
    return dims ? make_expand(call, value, dims, n) : NULL;
}

static struct tmk_value *lower_full_like(struct tmk_relay_call *call) {
    struct tmk_value *like = tmk_rl_in(call, 0);
    const struct tmk_shape *shape = tmk_rl_dims(call, like);
    bool zeros = strcmp(call->op->name, "zeros_like") == 0;
    enum tmk_dtype dtype = tmk_rl_type_of(call, like);
    struct tmk_value *value = call->n_args == 2
                                  ? tmk_rl_cast(call, "value", tmk_rl_in(call, 1), dtype)
                                  : tmk_rl_scalar(call, "value", dtype, !zeros);
    return make_expand(call, value, shape->dim, (size_t)shape->rank);
}

static struct tmk_value *lower_arange(struct tmk_relay_call *call) {
    enum tmk_dtype dtype = tmk_rl_dtype_attr(call, "dtype", TMK_FLOAT32);
    struct tmk_value *in[3];
    static const char *const parts[] = {"start", "stop", "step"};
    for (uint32_t i = 0; i < 3; i++)
        in[i] = tmk_rl_cast(call, parts[i], tmk_rl_in(call, i), dtype);
    return tmk_rl_n(call, NULL, "Range", in, 3);
}

static struct tmk_value *lower_shape_of(struct tmk_relay_call *call) {
    enum tmk_dtype dtype = tmk_rl_dtype_attr(call, "dtype", TMK_INT32);
    return tmk_rl_cast(call, NULL, tmk_rl_1(call, "shape", "Shape", tmk_rl_in(call, 0)), dtype);
}

/* ---- blocks ---- */

static struct tmk_value *lower_depth_to_space(struct tmk_relay_call *call) {
    if (strcmp(tmk_rl_string(call, "layout"), "NCHW") != 0)
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "layout %s", tmk_rl_string(call, "layout"));
    return tmk_rl_same(call);
}

/* ---- writing ---- */

static struct tmk_relay_expr *emit_expand(struct tmk_relay_emit *e) {
    const struct tmk_shape *y = tmk_re_out_shape(e, 0);
    struct tmk_relay_expr *x = tmk_re_in(e, 0);
    size_t count;
    if (!tmk_re_tensor(e, 1) || !y || !tmk_shape_count(y, &count))
        return tmk_re_fail(e, TMK_RE_COMPUTED);
    tmk_rb_set_ints(e->b, "shape", y->dim, (size_t)y->rank);
    return tmk_re_1(e, "broadcast_to", x);
}

static struct tmk_relay_expr *emit_tile(struct tmk_relay_emit *e) {
    struct tmk_relay_expr *x = tmk_re_in(e, 0);
    int64_t reps[2 * TMK_MAX_RANK];
    size_t n;
    if (!tmk_re_ints(e, 1, reps, &n))
        return tmk_re_fail(e, TMK_RE_COMPUTED);
    tmk_rb_set_ints(e->b, "reps", reps, n);
    return tmk_re_1(e, "tile", x);
}

/* ONNX has a very large end for "to the last"; Relay's numbers are of 32 bits as a rule. */
static int64_t clamp_end(int64_t end, int64_t dim, int64_t step) {
    if (dim >= 0)
        return end > dim ? dim : end < -dim - 1 ? -dim - 1 : end;
    const int64_t lowest = step < 0 ? INT32_MIN : -INT32_MAX;
    return end > INT32_MAX ? INT32_MAX : end < lowest ? lowest : end;
}

static struct tmk_relay_expr *emit_slice(struct tmk_relay_emit *e) {
    const struct tmk_shape *x = tmk_re_shape(e, 0);
    struct tmk_relay_expr *operand = tmk_re_in(e, 0);
    int64_t begin[2 * TMK_MAX_RANK], end[2 * TMK_MAX_RANK], axes[2 * TMK_MAX_RANK],
        steps[2 * TMK_MAX_RANK];
    size_t n, n_end, n_axes, n_steps;
    if (!tmk_re_listed(e, "starts", 1, begin, &n) || !tmk_re_listed(e, "ends", 2, end, &n_end) ||
        !tmk_re_listed(e, "axes", 3, axes, &n_axes) ||
        !tmk_re_listed(e, "steps", 4, steps, &n_steps) || n_end != n || (n_axes && n_axes != n) ||
        (n_steps && n_steps != n))
        return tmk_re_fail(e, TMK_RE_COMPUTED);
    for (size_t i = 0; i < n; i++) {
        axes[i] = n_axes ? tmk_re_axis(axes[i], x->rank) : (int64_t)i;
        steps[i] = n_steps ? steps[i] : 1;
        if (axes[i] < 0 || axes[i] >= x->rank)
            return tmk_re_fail(e, TMK_RE_OUT_OF_RANGE);
        const int64_t dim = x->dim[axes[i]];
        if (steps[i] < 0 && dim < 0)
            return tmk_re_fail(e, "it goes backwards along an axis of unknown size");
        begin[i] = clamp_end(begin[i], dim, steps[i]);
        end[i] = clamp_end(end[i], dim, steps[i]);
        if (begin[i] < 0 && dim >= 0)
            begin[i] = begin[i] + dim < 0 ? 0 : begin[i] + dim;
    }
    tmk_rb_set_ints(e->b, "begin", begin, n);
    tmk_rb_set_ints(e->b, "end", end, n);
    tmk_rb_set_ints(e->b, "strides", steps, n);
    tmk_rb_set_ints(e->b, "axes", axes, n);
    return tmk_re_1(e, "strided_slice", operand);
}

static bool any_below_zero(const struct tmk_tensor *indices) {
    for (size_t i = 0; i < tmk_tensor_count(indices); i++)
        if ((indices->dtype == TMK_INT64 && ((const int64_t *)indices->data)[i] < 0) ||
            (indices->dtype == TMK_INT32 && ((const int32_t *)indices->data)[i] < 0))
            return true;
    return false;
}

/* Relay's indices do not count from the end, unless it wraps them around. */
static struct tmk_relay_expr *emit_gather(struct tmk_relay_emit *e) {
    struct tmk_relay_expr *args[] = {tmk_re_in(e, 0), tmk_re_in(e, 1)};
    const struct tmk_tensor *indices = tmk_re_tensor(e, 1);
    tmk_rb_set_int(e->b, "axis", tmk_node_int(e->node, "axis", 0));
    if (!indices || any_below_zero(indices))
        tmk_rb_set_string(e->b, "mode", "wrap");
    return tmk_re_n(e, "take", args, 2);
}

static const struct tmk_relay_same_attr gather_axis_attr[] = {{"axis", TMK_RELAY_INT}, {0}};
static const struct tmk_relay_same_attr space_attrs[] = {
    {"block_size", TMK_RELAY_INT, .number = 1, .onnx = "blocksize"},
    {"mode", TMK_RELAY_STRING, .text = "DCR", .optional = true, .write_only = true},
    {0}};
static const struct tmk_relay_same_attr depth_attrs[] = {
    {"block_size", TMK_RELAY_INT, .number = 1, .onnx = "blocksize"},
    {"mode", TMK_RELAY_STRING, .text = "DCR", .optional = true},
    {0}};

const struct tmk_relay_op tmk_relay_ops_tensor[] = {
    {"arange", 3, 3, 0, "dtype=None", "Range", lower_arange},
    {"broadcast_to", 1, 1, 0, "shape; dtype=None", "Expand", lower_broadcast_to, emit_expand,
     TMK_RE_REST},
    {"broadcast_to_like", 2, 2, 0, "", "Expand", lower_broadcast_to_like},
    {"full", 1, 1, 0, "shape; dtype=None", "Expand", lower_full},
    {"full_like", 2, 2, 0, "", "Expand", lower_full_like},
    {"gather", 2, 2, 0, "axis", "GatherElements", tmk_rl_same, NULL, 0, gather_axis_attr},
    {"gather_nd", 2, 2, 0, "batch_dims:object=0; index_rank=None", "Transpose, GatherND",
     lower_gather_nd},
    {"nn.depth_to_space", 1, 1, 0, "block_size=1; layout='NCHW'; mode='DCR'", "DepthToSpace",
     lower_depth_to_space, tmk_re_same, 0, depth_attrs},
    {"nn.space_to_depth", 1, 1, 0, "block_size=1; layout='NCHW'; mode='DCR'", "SpaceToDepth",
     lower_depth_to_space, tmk_re_same, 0, space_attrs},
    {"one_hot", 3, 3, 0, "depth=1; axis=-1; dtype=None", "OneHot", lower_one_hot},
    {"ones", 0, 0, 0, "shape; dtype=None", "Expand", lower_full},
    {"ones_like", 1, 1, 0, "", "Expand", lower_full_like},
    {"repeat", 1, 1, 0, "repeats; axis=None", "Unsqueeze, Tile, Reshape", lower_repeat},
    {"shape_of", 1, 1, 0, "dtype=None", "Shape, Cast", lower_shape_of},
    {"slice_like", 2, 2, 0, "axes=None", "Slice", lower_slice_like},
    {"strided_slice", 1, 1, TMK_RELAY_WRITES_RANKED,
     "begin; end; strides=None; slice_mode='end'; axes=None", "Slice", lower_strided_slice,
     emit_slice, TMK_RE_REST},
    {"take", 2, 2, 0, "batch_dims:object=0; axis=None; mode='clip'", "Gather", lower_take,
     emit_gather},
    {"tile", 1, 1, 0, "reps", "Tile", lower_tile, emit_tile, TMK_RE_REST},
    {"zeros", 0, 0, 0, "shape; dtype=None", "Expand", lower_full},
    {"zeros_like", 1, 1, 0, "", "Expand", lower_full_like},
    {0}};
