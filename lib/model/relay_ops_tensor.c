/* SPDX-License-Identifier: Apache-2.0 */
/* Relay's operators that move elements: shapes, slices, joins, constants. */
#include <string.h>

#include "model/relay_lower.h"
#include "ops/ops.h"

/* ---- reshape ---- */

struct shaping {
    const struct tmk_shape *from;
    int64_t out[TMK_MAX_RANK];
    size_t n;
    int32_t at;  /* the source dimension that is next */
    bool copies; /* some dimension stands for the source's */
};

static bool next_dims(struct tmk_relay_call *call, const struct shaping *s, int32_t n) {
    if (call->status == TMK_OK && s->at + n > s->from->rank)
        tmk_rl_fail(call, TMK_SHAPE, "newshape asks for more dimensions than there are");
    return call->status == TMK_OK;
}

static void put_dim(struct tmk_relay_call *call, struct shaping *s, int64_t dim) {
    if (s->n == TMK_MAX_RANK)
        tmk_rl_fail(call, TMK_UNSUPPORTED, "a shape of more than %d dimensions", TMK_MAX_RANK);
    else
        s->out[s->n++] = dim;
}

/* -4 a b: the next dimension is split in two, one of which may be -1. */
static void split_dim(struct tmk_relay_call *call, struct shaping *s, int64_t a, int64_t b) {
    if (!next_dims(call, s, 1))
        return;
    int64_t whole = s->from->dim[s->at++];
    if ((a < 1 && a != -1) || (b < 1 && b != -1) || (a == -1 && b == -1)) {
        tmk_rl_fail(call, TMK_RANGE, "newshape splits a dimension into %lld and %lld", (long long)a,
                    (long long)b);
        return;
    }
    if (whole >= 0) { /* of an unknown one -1 is left to ONNX's Reshape */
        a = a == -1 ? whole / b : a;
        b = b == -1 ? whole / a : b;
    }
    put_dim(call, s, a);
    put_dim(call, s, b);
}

/* Relay's codes: 0 keeps a dimension, -1 is what is left, -2 all that remain, -3 the product of
 * two, -4 splits one. */
static bool resolve_codes(struct tmk_relay_call *call, const int64_t *codes, size_t n,
                          bool allow_zero, struct shaping *s) {
    for (size_t i = 0; i < n && call->status == TMK_OK; i++) {
        int64_t product, code = codes[i];
        if (code > 0 || code == -1 || (code == 0 && allow_zero)) {
            put_dim(call, s, code);
            s->at++;
        } else if (code == 0 && next_dims(call, s, 1)) {
            put_dim(call, s, s->from->dim[s->at++]);
        } else if (code == -2) {
            while (s->at < s->from->rank && call->status == TMK_OK)
                put_dim(call, s, s->from->dim[s->at++]);
        } else if (code == -3 && next_dims(call, s, 2)) {
            int64_t a = s->from->dim[s->at++], b = s->from->dim[s->at++];
            put_dim(call, s, a < 0 || b < 0 || !tmk_mul_i64(a, b, &product) ? -1 : product);
        } else if (code == -4 && i + 2 < n) {
            split_dim(call, s, codes[i + 1], codes[i + 2]);
            i += 2;
        } else if (call->status == TMK_OK) {
            tmk_rl_fail(call, TMK_RANGE, "newshape has the code %lld", (long long)code);
        }
    }
    int unknown = 0;
    for (size_t i = 0; i < s->n; i++)
        unknown += s->out[i] < 0;
    if (call->status == TMK_OK && unknown > 1)
        tmk_rl_fail(call, TMK_UNSUPPORTED, "more than one dimension of the result is not known");
    return call->status == TMK_OK;
}

/* A dimension that is left open is computed where the operand is known, so that ONNX's own 0 and
 * -1 are never asked. */
static struct tmk_value *reshaped(struct tmk_relay_call *call, struct tmk_value *x,
                                  struct shaping *s) {
    size_t count, known = 1;
    bool whole = tmk_shape_count(s->from, &count);
    for (size_t i = 0; i < s->n && whole; i++)
        whole = s->out[i] < 0 || tmk_mul_size(known, (size_t)s->out[i], &known);
    for (size_t i = 0; i < s->n && whole && known; i++)
        if (s->out[i] < 0 && count % known == 0)
            s->out[i] = (int64_t)(count / known);
    tmk_rl_set_int(call, "allowzero", 1);
    return tmk_rl_2(call, NULL, "Reshape", x, tmk_rl_list(call, "shape", s->out, s->n));
}

static struct tmk_value *reshape(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    size_t n;
    const int64_t *codes = tmk_rl_ints(call, "newshape", &n);
    struct shaping s = {.from = tmk_rl_shape(call, x)};
    return codes && resolve_codes(call, codes, n, tmk_rl_bool(call, "allowzero"), &s)
               ? reshaped(call, x, &s)
               : NULL;
}

/* The codes, read from the end. */
static struct tmk_value *reverse_reshape(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    size_t n;
    const int64_t *codes = tmk_rl_ints(call, "newshape", &n);
    const struct tmk_shape *shape = tmk_rl_shape(call, x);
    int64_t turned[TMK_MAX_RANK];
    struct tmk_shape mirror = {.rank = shape->rank};
    if (call->status != TMK_OK || n > TMK_MAX_RANK)
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "newshape has %zu numbers", n);
    for (size_t i = 0; i < n; i++)
        turned[i] = codes[n - 1 - i];
    for (int32_t i = 0; i < shape->rank; i++)
        mirror.dim[i] = shape->dim[shape->rank - 1 - i];
    struct shaping s = {.from = &mirror};
    if (!resolve_codes(call, turned, n, tmk_rl_bool(call, "allowzero"), &s))
        return NULL;
    for (size_t i = 0; i < s.n / 2; i++) {
        int64_t other = s.out[i];
        s.out[i] = s.out[s.n - 1 - i];
        s.out[s.n - 1 - i] = other;
    }
    return reshaped(call, x, &s);
}

static struct tmk_value *reshape_like(struct tmk_relay_call *call) {
    const struct tmk_shape *like = tmk_rl_dims(call, tmk_rl_in(call, 1));
    if (tmk_rl_int(call, "lhs_begin") != 0 || tmk_rl_given(call, "lhs_end") ||
        tmk_rl_int(call, "rhs_begin") != 0 || tmk_rl_given(call, "rhs_end"))
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "only whole shapes");
    return tmk_rl_reshape(call, NULL, tmk_rl_in(call, 0), like->dim, (size_t)like->rank);
}

/* ---- axes ---- */

static struct tmk_value *transpose(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    int32_t rank = tmk_rl_rank(call, x);
    int64_t perm[TMK_MAX_RANK];
    size_t n;
    const int64_t *axes = tmk_rl_ints(call, "axes", &n);
    if (call->status != TMK_OK || (n != 0 && n != (size_t)rank))
        return tmk_rl_fail(call, TMK_SHAPE, "%zu axes of a tensor of rank %d", n, (int)rank);
    for (int32_t i = 0; i < rank; i++)
        perm[i] = n ? tmk_rl_axis(call, axes[i], rank) : rank - 1 - i;
    return tmk_rl_transpose(call, NULL, x, perm, rank);
}

static struct tmk_value *layout_transform(struct tmk_relay_call *call) {
    int64_t perm[TMK_RL_LETTERS];
    int32_t n;
    if (!tmk_rl_layout(call, tmk_rl_string(call, "src_layout"), tmk_rl_string(call, "dst_layout"),
                       perm, &n))
        return NULL;
    return tmk_rl_transpose(call, NULL, tmk_rl_in(call, 0), perm, n);
}

static struct tmk_value *expand_dims(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    int64_t axes[TMK_MAX_RANK], count = tmk_rl_int(call, "num_newaxis");
    int32_t rank = tmk_rl_rank(call, x);
    if (call->status != TMK_OK || count < 0 || count > TMK_MAX_RANK - rank)
        return tmk_rl_fail(call, TMK_RANGE, "num_newaxis is %lld", (long long)count);
    int32_t axis = tmk_rl_axis(call, tmk_rl_int(call, "axis"), rank + 1);
    for (int64_t i = 0; i < count; i++)
        axes[i] = axis + i;
    return tmk_rl_2(call, NULL, "Unsqueeze", x, tmk_rl_list(call, "axes", axes, (size_t)count));
}

static struct tmk_value *squeeze(struct tmk_relay_call *call) {
    size_t n;
    const int64_t *axes = tmk_rl_ints(call, "axis", &n);
    bool all = !tmk_rl_given(call, "axis");
    return tmk_rl_2(call, NULL, "Squeeze", tmk_rl_in(call, 0),
                    all ? NULL : tmk_rl_list(call, "axes", axes, n));
}

static struct tmk_value *reverse(struct tmk_relay_call *call) {
    int64_t axis = tmk_rl_int(call, "axis"), begin = -1, end = INT64_MIN, step = -1;
    struct tmk_value *in[] = {tmk_rl_in(call, 0), tmk_rl_list(call, "begin", &begin, 1),
                              tmk_rl_list(call, "end", &end, 1),
                              tmk_rl_list(call, "axes", &axis, 1),
                              tmk_rl_list(call, "steps", &step, 1)};
    return tmk_rl_n(call, NULL, "Slice", in, 5);
}

/* ---- joins and splits ---- */

static struct tmk_value *concatenate(struct tmk_relay_call *call) {
    uint32_t n;
    struct tmk_value **parts = tmk_rl_parts(call, 0, &n);
    tmk_rl_set_int(call, "axis", tmk_rl_int(call, "axis"));
    return parts ? tmk_rl_n(call, NULL, "Concat", parts, n) : NULL;
}

static struct tmk_value *stack(struct tmk_relay_call *call) {
    uint32_t n;
    struct tmk_value **parts = tmk_rl_parts(call, 0, &n);
    if (!parts || n == 0)
        return tmk_rl_fail(call, TMK_GRAPH, "an empty tuple");
    int64_t axis = tmk_rl_axis(call, tmk_rl_int(call, "axis"), tmk_rl_rank(call, parts[0]) + 1);
    struct tmk_value *axes = tmk_rl_list(call, "axes", &axis, 1);
    for (uint32_t i = 0; i < n; i++)
        parts[i] = tmk_rl_2(call, tmk_rl_text(call->to, "part%u", i), "Unsqueeze", parts[i], axes);
    tmk_rl_set_int(call, "axis", axis);
    return tmk_rl_n(call, NULL, "Concat", parts, n);
}

/* One integer: so many equal parts. A list: the places of the cuts. */
static struct tmk_value *split(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    const struct tmk_shape *shape = tmk_rl_shape(call, x);
    int32_t axis = tmk_rl_axis(call, tmk_rl_int(call, "axis"), shape->rank);
    size_t n;
    const int64_t *given = tmk_rl_ints(call, "indices_or_sections", &n);
    int64_t sizes[TMK_MAX_OUTPUTS], whole = shape->dim[axis], last = 0;
    bool equal = false;
    for (uint32_t i = 0; i < call->expr->n_attrs; i++)
        equal |= strcmp(call->expr->attrs[i].name, "indices_or_sections") == 0 &&
                 call->expr->attrs[i].value.kind == TMK_RELAY_INT;
    if (call->status != TMK_OK || (equal && (given[0] < 1 || given[0] > TMK_MAX_OUTPUTS)) ||
        n >= TMK_MAX_OUTPUTS)
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "more parts than %d", TMK_MAX_OUTPUTS);
    if (whole < 0)
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "the size of axis %d is not known", (int)axis);
    uint32_t count = equal ? (uint32_t)given[0] : (uint32_t)n + 1;
    if (equal && whole % given[0] != 0)
        return tmk_rl_fail(call, TMK_SHAPE, "%lld elements in %lld equal parts", (long long)whole,
                           (long long)given[0]);
    for (uint32_t i = 0; i < count; i++) {
        int64_t cut = equal ? whole / given[0] * (i + 1) : i < n ? given[i] : whole;
        cut = cut > whole ? whole : cut;
        if (cut < last)
            return tmk_rl_fail(call, TMK_RANGE, "cuts that go back");
        sizes[i] = cut - last;
        last = cut;
    }
    struct tmk_value *in[] = {x, tmk_rl_list(call, "sizes", sizes, count)};
    tmk_rl_set_int(call, "axis", axis);
    tmk_rl_outputs(call, "Split", in, 2, count);
    return NULL;
}

/* ---- slices ---- */

static struct tmk_value *sliced(struct tmk_relay_call *call, struct tmk_value *x,
                                const int64_t *begin, const int64_t *end, const int64_t *axes,
                                const int64_t *steps, size_t n) {
    struct tmk_value *in[] = {x, tmk_rl_list(call, "begin", begin, n),
                              tmk_rl_list(call, "end", end, n), tmk_rl_list(call, "axes", axes, n),
                              tmk_rl_list(call, "steps", steps, n)};
    return tmk_rl_n(call, NULL, "Slice", in, 5);
}

/* slice_mode "size": `end` holds lengths, -1 for all that is left, and steps don't count. */
static struct tmk_value *strided_slice(struct tmk_relay_call *call) {
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
    return sliced(call, x, begin, to, axis, step, n);
}

static struct tmk_value *slice_like(struct tmk_relay_call *call) {
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
    return sliced(call, x, begin, end, axis, step, count);
}

/* ---- gathers ---- */

/* Indices beyond the axis are taken as its last ("clip"), or from its begin again ("wrap"). */
static struct tmk_value *take(struct tmk_relay_call *call) {
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

static struct tmk_value *gather(struct tmk_relay_call *call) {
    tmk_rl_set_int(call, "axis", tmk_rl_int(call, "axis"));
    return tmk_rl_same(call);
}

/* Relay has the places' coordinates on the first axis, ONNX on the last. */
static struct tmk_value *gather_nd(struct tmk_relay_call *call) {
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

static struct tmk_value *one_hot(struct tmk_relay_call *call) {
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

static struct tmk_value *expanded(struct tmk_relay_call *call, struct tmk_value *x,
                                  const int64_t *dims, size_t n) {
    return tmk_rl_2(call, NULL, "Expand", x, tmk_rl_list(call, "shape", dims, n));
}

static struct tmk_value *broadcast_to(struct tmk_relay_call *call) {
    size_t n;
    const int64_t *dims = tmk_rl_ints(call, "shape", &n);
    return dims ? expanded(call, tmk_rl_in(call, 0), dims, n) : NULL;
}

static struct tmk_value *broadcast_to_like(struct tmk_relay_call *call) {
    const struct tmk_shape *like = tmk_rl_dims(call, tmk_rl_in(call, 1));
    return expanded(call, tmk_rl_in(call, 0), like->dim, (size_t)like->rank);
}

static struct tmk_value *tile(struct tmk_relay_call *call) {
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
static struct tmk_value *repeat(struct tmk_relay_call *call) {
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

static struct tmk_value *filled(struct tmk_relay_call *call, struct tmk_value *value,
                                const int64_t *dims, size_t n) {
    return expanded(call, value, dims, n);
}

static struct tmk_value *full(struct tmk_relay_call *call) {
    size_t n;
    const int64_t *dims = tmk_rl_ints(call, "shape", &n);
    struct tmk_value *x = tmk_rl_in(call, 0);
    bool zeros = strcmp(call->op->name, "zeros") == 0;
    enum tmk_dtype dtype =
        tmk_rl_dtype_attr(call, "dtype", x ? tmk_rl_type_of(call, x) : TMK_FLOAT32);
    struct tmk_value *value =
        x ? tmk_rl_cast(call, "value", x, dtype) : tmk_rl_scalar(call, "value", dtype, !zeros);
    return dims ? filled(call, value, dims, n) : NULL;
}

static struct tmk_value *full_like(struct tmk_relay_call *call) {
    struct tmk_value *like = tmk_rl_in(call, 0);
    const struct tmk_shape *shape = tmk_rl_dims(call, like);
    bool zeros = strcmp(call->op->name, "zeros_like") == 0;
    enum tmk_dtype dtype = tmk_rl_type_of(call, like);
    struct tmk_value *value = call->n_args == 2
                                  ? tmk_rl_cast(call, "value", tmk_rl_in(call, 1), dtype)
                                  : tmk_rl_scalar(call, "value", dtype, !zeros);
    return filled(call, value, shape->dim, (size_t)shape->rank);
}

static struct tmk_value *arange(struct tmk_relay_call *call) {
    enum tmk_dtype dtype = tmk_rl_dtype_attr(call, "dtype", TMK_FLOAT32);
    struct tmk_value *in[3];
    static const char *const parts[] = {"start", "stop", "step"};
    for (uint32_t i = 0; i < 3; i++)
        in[i] = tmk_rl_cast(call, parts[i], tmk_rl_in(call, i), dtype);
    return tmk_rl_n(call, NULL, "Range", in, 3);
}

static struct tmk_value *shape_of(struct tmk_relay_call *call) {
    enum tmk_dtype dtype = tmk_rl_dtype_attr(call, "dtype", TMK_INT32);
    return tmk_rl_cast(call, NULL, tmk_rl_1(call, "shape", "Shape", tmk_rl_in(call, 0)), dtype);
}

/* ---- blocks ---- */

static struct tmk_value *depth_to_space(struct tmk_relay_call *call) {
    if (strcmp(tmk_rl_string(call, "layout"), "NCHW") != 0)
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "layout %s", tmk_rl_string(call, "layout"));
    tmk_rl_set_int(call, "blocksize", tmk_rl_int(call, "block_size"));
    if (strcmp(call->op->becomes, "DepthToSpace") == 0)
        tmk_rl_set_text(call, "mode", tmk_rl_string(call, "mode"));
    return tmk_rl_same(call);
}

#define AXIS(otherwise)                                                                            \
    { "axis", TMK_RELAY_RULE_INT, otherwise }
#define TAKEN(name)                                                                                \
    { name, TMK_RELAY_RULE_INTS, NULL }
#define DTYPE                                                                                      \
    { "dtype", TMK_RELAY_RULE_TEXT, "None" }
static const struct tmk_relay_rule reshape_attrs[] = {TAKEN("newshape"),
                                                      {"allowzero", TMK_RELAY_RULE_BOOL, "False"},
                                                      {"reverse", TMK_RELAY_RULE_BOOL, "False"},
                                                      {0}};
static const struct tmk_relay_rule like_attrs[] = {{"lhs_begin", TMK_RELAY_RULE_INT, "0"},
                                                   {"lhs_end", TMK_RELAY_RULE_INT, "None"},
                                                   {"rhs_begin", TMK_RELAY_RULE_INT, "0"},
                                                   {"rhs_end", TMK_RELAY_RULE_INT, "None"},
                                                   {0}};
static const struct tmk_relay_rule transpose_attrs[] = {{"axes", TMK_RELAY_RULE_INTS, "None"}, {0}};
static const struct tmk_relay_rule layout_attrs[] = {
    {"src_layout", TMK_RELAY_RULE_TEXT, NULL}, {"dst_layout", TMK_RELAY_RULE_TEXT, NULL}, {0}};
static const struct tmk_relay_rule expand_attrs[] = {
    AXIS(NULL), {"num_newaxis", TMK_RELAY_RULE_INT, "1"}, {0}};
static const struct tmk_relay_rule squeeze_attrs[] = {{"axis", TMK_RELAY_RULE_INTS, "None"}, {0}};
static const struct tmk_relay_rule axis_needed[] = {AXIS(NULL), {0}};
static const struct tmk_relay_rule axis_0[] = {AXIS("0"), {0}};
static const struct tmk_relay_rule split_attrs[] = {TAKEN("indices_or_sections"), AXIS("0"), {0}};
static const struct tmk_relay_rule slice_attrs[] = {TAKEN("begin"),
                                                    TAKEN("end"),
                                                    {"strides", TMK_RELAY_RULE_INTS, "None"},
                                                    {"slice_mode", TMK_RELAY_RULE_TEXT, "end"},
                                                    {"axes", TMK_RELAY_RULE_INTS, "None"},
                                                    {0}};
static const struct tmk_relay_rule take_attrs[] = {{"batch_dims", TMK_RELAY_RULE_INT, "0"},
                                                   AXIS("None"),
                                                   {"mode", TMK_RELAY_RULE_TEXT, "clip"},
                                                   {0}};
static const struct tmk_relay_rule gather_nd_attrs[] = {
    {"batch_dims", TMK_RELAY_RULE_INT, "0"}, {"index_rank", TMK_RELAY_RULE_INT, "None"}, {0}};
static const struct tmk_relay_rule one_hot_attrs[] = {
    {"depth", TMK_RELAY_RULE_INT, "1"}, AXIS("-1"), DTYPE, {0}};
static const struct tmk_relay_rule shape_attrs[] = {TAKEN("shape"), DTYPE, {0}};
static const struct tmk_relay_rule tile_attrs[] = {TAKEN("reps"), {0}};
static const struct tmk_relay_rule repeat_attrs[] = {
    {"repeats", TMK_RELAY_RULE_INT, NULL}, AXIS("None"), {0}};
static const struct tmk_relay_rule dtype_attrs[] = {DTYPE, {0}};
static const struct tmk_relay_rule block_attrs[] = {{"block_size", TMK_RELAY_RULE_INT, "1"},
                                                    {"layout", TMK_RELAY_RULE_TEXT, "NCHW"},
                                                    {"mode", TMK_RELAY_RULE_TEXT, "DCR"},
                                                    {0}};

const struct tmk_relay_op tmk_relay_ops_tensor[] = {
    {"arange", 3, 3, 0, dtype_attrs, "Range", arange},
    {"broadcast_to", 1, 1, 0, shape_attrs, "Expand", broadcast_to},
    {"broadcast_to_like", 2, 2, 0, tmk_rl_no_attrs, "Expand", broadcast_to_like},
    {"concatenate", 1, 1, TMK_RELAY_TAKES_TUPLE, axis_0, "Concat", concatenate},
    {"contrib_reverse_reshape", 1, 1, 0, reshape_attrs, "Reshape", reverse_reshape},
    {"expand_dims", 1, 1, 0, expand_attrs, "Unsqueeze", expand_dims},
    {"full", 1, 1, 0, shape_attrs, "Expand", full},
    {"full_like", 2, 2, 0, tmk_rl_no_attrs, "Expand", full_like},
    {"gather", 2, 2, 0, axis_needed, "GatherElements", gather},
    {"gather_nd", 2, 2, 0, gather_nd_attrs, "Transpose, GatherND", gather_nd},
    {"layout_transform", 1, 1, 0, layout_attrs, "Transpose", layout_transform},
    {"nn.depth_to_space", 1, 1, 0, block_attrs, "DepthToSpace", depth_to_space},
    {"nn.space_to_depth", 1, 1, 0, block_attrs, "SpaceToDepth", depth_to_space},
    {"one_hot", 3, 3, 0, one_hot_attrs, "OneHot", one_hot},
    {"ones", 0, 0, 0, shape_attrs, "Expand", full},
    {"ones_like", 1, 1, 0, tmk_rl_no_attrs, "Expand", full_like},
    {"repeat", 1, 1, 0, repeat_attrs, "Unsqueeze, Tile, Reshape", repeat},
    {"reshape", 1, 1, 0, reshape_attrs, "Reshape", reshape},
    {"reshape_like", 2, 2, 0, like_attrs, "Reshape", reshape_like},
    {"reverse", 1, 1, 0, axis_needed, "Slice", reverse},
    {"shape_of", 1, 1, 0, dtype_attrs, "Shape, Cast", shape_of},
    {"slice_like", 2, 2, 0, transpose_attrs, "Slice", slice_like},
    {"split", 1, 1, 0, split_attrs, "Split", split},
    {"squeeze", 1, 1, 0, squeeze_attrs, "Squeeze", squeeze},
    {"stack", 1, 1, TMK_RELAY_TAKES_TUPLE, axis_0, "Unsqueeze, Concat", stack},
    {"strided_slice", 1, 1, 0, slice_attrs, "Slice", strided_slice},
    {"take", 2, 2, 0, take_attrs, "Gather", take},
    {"tile", 1, 1, 0, tile_attrs, "Tile", tile},
    {"transpose", 1, 1, 0, transpose_attrs, "Transpose", transpose},
    {"zeros", 0, 0, 0, shape_attrs, "Expand", full},
    {"zeros_like", 1, 1, 0, tmk_rl_no_attrs, "Expand", full_like},
    {0}};
