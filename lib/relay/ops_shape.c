/* SPDX-License-Identifier: Apache-2.0 */
/* Relay's operators that change shapes and the order of axes, join and split. */
#include <string.h>

#include "ops/ops.h"
#include "relay/emit.h"

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
static struct tmk_value *make_reshape(struct tmk_relay_call *call, struct tmk_value *x,
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

static struct tmk_value *lower_reshape(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    size_t n;
    const int64_t *codes = tmk_rl_ints(call, "newshape", &n);
    struct shaping s = {.from = tmk_rl_shape(call, x)};
    return codes && resolve_codes(call, codes, n, tmk_rl_bool(call, "allowzero"), &s)
               ? make_reshape(call, x, &s)
               : NULL;
}

/* The codes, read from the end. */
static struct tmk_value *lower_reverse_reshape(struct tmk_relay_call *call) {
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
    return make_reshape(call, x, &s);
}

static struct tmk_value *lower_reshape_like(struct tmk_relay_call *call) {
    const struct tmk_shape *like = tmk_rl_dims(call, tmk_rl_in(call, 1));
    if (tmk_rl_int(call, "lhs_begin") != 0 || tmk_rl_given(call, "lhs_end") ||
        tmk_rl_int(call, "rhs_begin") != 0 || tmk_rl_given(call, "rhs_end"))
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "only whole shapes");
    return tmk_rl_reshape(call, NULL, tmk_rl_in(call, 0), like->dim, (size_t)like->rank);
}

/* ---- axes ---- */

static struct tmk_value *lower_transpose(struct tmk_relay_call *call) {
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

static struct tmk_value *lower_layout_transform(struct tmk_relay_call *call) {
    int64_t perm[TMK_RL_LETTERS];
    int32_t n;
    if (!tmk_rl_layout(call, tmk_rl_string(call, "src_layout"), tmk_rl_string(call, "dst_layout"),
                       perm, &n))
        return NULL;
    return tmk_rl_transpose(call, NULL, tmk_rl_in(call, 0), perm, n);
}

static struct tmk_value *lower_expand_dims(struct tmk_relay_call *call) {
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

static struct tmk_value *lower_squeeze(struct tmk_relay_call *call) {
    size_t n;
    const int64_t *axes = tmk_rl_ints(call, "axis", &n);
    bool all = !tmk_rl_given(call, "axis");
    return tmk_rl_2(call, NULL, "Squeeze", tmk_rl_in(call, 0),
                    all ? NULL : tmk_rl_list(call, "axes", axes, n));
}

static struct tmk_value *lower_reverse(struct tmk_relay_call *call) {
    int64_t axis = tmk_rl_int(call, "axis"), begin = -1, end = INT64_MIN, step = -1;
    struct tmk_value *in[] = {tmk_rl_in(call, 0), tmk_rl_list(call, "begin", &begin, 1),
                              tmk_rl_list(call, "end", &end, 1),
                              tmk_rl_list(call, "axes", &axis, 1),
                              tmk_rl_list(call, "steps", &step, 1)};
    return tmk_rl_n(call, NULL, "Slice", in, 5);
}

/* ---- joins and splits ---- */

static struct tmk_value *lower_concatenate(struct tmk_relay_call *call) {
    uint32_t n;
    struct tmk_value **parts = tmk_rl_parts(call, 0, &n);
    tmk_rl_set_int(call, "axis", tmk_rl_int(call, "axis"));
    return parts ? tmk_rl_n(call, NULL, "Concat", parts, n) : NULL;
}

static struct tmk_value *lower_stack(struct tmk_relay_call *call) {
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
static struct tmk_value *lower_split(struct tmk_relay_call *call) {
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

static struct tmk_value *lower_batch_flatten(struct tmk_relay_call *call) {
    tmk_rl_set_int(call, "axis", 1);
    return tmk_rl_same(call);
}

/* ---- writing ---- */

/* Relay's 0 and -1 mean what ONNX's do, but for a 0 behind a -1, of which its readers differ. */
static struct tmk_relay_expr *emit_reshape(struct tmk_relay_emit *e) {
    const struct tmk_shape *x = tmk_re_shape(e, 0);
    int64_t dims[2 * TMK_MAX_RANK];
    size_t n;
    bool inferred = false;
    if (!tmk_re_listed(e, "shape", 1, dims, &n))
        return tmk_re_fail(e, TMK_RE_COMPUTED);
    for (size_t i = 0; i < n; i++) {
        if (dims[i] == 0 && tmk_node_int(e->node, "allowzero", 0))
            return tmk_re_fail(e, "it makes an empty tensor");
        if (dims[i] == 0 && x && i < (size_t)x->rank && x->dim[i] > 0)
            dims[i] = x->dim[i];
        if (dims[i] == 0 && inferred)
            return tmk_re_fail(
                e, "it keeps a dimension that is not known behind one that is inferred");
        inferred |= dims[i] == -1;
    }
    return tmk_rb_reshape(e->b, tmk_re_in(e, 0), dims, n);
}

static struct tmk_relay_expr *emit_flatten(struct tmk_relay_emit *e) {
    const struct tmk_shape *x = tmk_re_shape(e, 0);
    int64_t dims[] = {1, -1};
    const int64_t given = tmk_node_int(e->node, "axis", 1),
                  axis = given == x->rank ? given : tmk_re_axis(given, x->rank);
    if (axis < 0)
        return tmk_re_fail(e, TMK_RE_OUT_OF_RANGE);
    if (axis == 1 && x->rank > 1)
        return tmk_re_1(e, "nn.batch_flatten", tmk_re_in(e, 0));
    for (int64_t i = 0; i < axis; i++)
        if (x->dim[i] < 0 || !tmk_mul_i64(dims[0], x->dim[i], &dims[0]))
            return tmk_re_fail(e, "the sizes before its axis are not known");
    return tmk_rb_reshape(e->b, tmk_re_in(e, 0), dims, 2);
}

static struct tmk_relay_expr *emit_squeeze(struct tmk_relay_emit *e) {
    struct tmk_relay_expr *x = tmk_re_in(e, 0);
    int64_t axes[2 * TMK_MAX_RANK];
    size_t n;
    if (!tmk_re_listed(e, "axes", 1, axes, &n))
        return tmk_re_fail(e, TMK_RE_COMPUTED);
    if (n)
        tmk_rb_set_ints(e->b, "axis", axes, n);
    return tmk_re_1(e, "squeeze", x);
}

static struct tmk_relay_expr *emit_unsqueeze(struct tmk_relay_emit *e) {
    const struct tmk_shape *x = tmk_re_shape(e, 0);
    struct tmk_relay_expr *made = tmk_re_in(e, 0);
    int64_t axes[2 * TMK_MAX_RANK];
    size_t n;
    if (!tmk_re_listed(e, "axes", 1, axes, &n))
        return tmk_re_fail(e, TMK_RE_COMPUTED);
    bool at[2 * TMK_MAX_RANK] = {0};
    for (size_t i = 0; i < n; i++) {
        const int64_t axis = tmk_re_axis(axes[i], x->rank + (int32_t)n);
        if (axis < 0 || axis >= 2 * TMK_MAX_RANK)
            return tmk_re_fail(e, TMK_RE_OUT_OF_RANGE);
        at[axis] = true;
    }
    for (int64_t axis = 0; axis < 2 * TMK_MAX_RANK; axis++) {
        if (!at[axis])
            continue;
        tmk_rb_set_int(e->b, "axis", axis);
        made = tmk_re_1(e, "expand_dims", made);
    }
    return n ? made : tmk_re_1(e, "copy", made);
}

static struct tmk_relay_expr *emit_transpose(struct tmk_relay_emit *e) {
    struct tmk_relay_expr *x = tmk_re_in(e, 0);
    size_t n;
    const int64_t *perm = tmk_node_ints(e->node, "perm", &n);
    if (perm)
        tmk_rb_set_ints(e->b, "axes", perm, n);
    else
        tmk_rb_set_none(e->b, "axes");
    return tmk_re_1(e, "transpose", x);
}

static struct tmk_relay_expr *emit_concat(struct tmk_relay_emit *e) {
    const int64_t axis = tmk_node_int(e->node, "axis", 1); /* a must since operator set 4 */
    struct tmk_relay_expr **list =
        tmk_arena_array(e->b->arena, e->node->n_inputs, sizeof(struct tmk_relay_expr *));
    if (!list)
        return tmk_re_nomem(e);
    for (uint32_t i = 0; i < e->node->n_inputs; i++)
        list[i] = tmk_re_in(e, i);
    struct tmk_relay_expr *all = tmk_rb_items(e->b, list, e->node->n_inputs);
    if (axis)
        tmk_rb_set_int(e->b, "axis", axis);
    return tmk_re_1(e, "concatenate", all);
}

static bool equal_parts(struct tmk_relay_emit *e, int64_t axis, int64_t *parts) {
    const struct tmk_shape *x = tmk_re_shape(e, 0);
    const int64_t n = tmk_node_int(e->node, "num_outputs", e->node->n_outputs);
    if (n != e->node->n_outputs || n > TMK_MAX_OUTPUTS || x->dim[axis] < 0)
        return false;
    const int64_t part = (x->dim[axis] + n - 1) / n;
    for (int64_t i = 0; i < n; i++)
        parts[i] = i + 1 < n ? part : x->dim[axis] - part * (n - 1);
    return true;
}

/* Relay's list has the places of the cuts. */
static struct tmk_relay_expr *emit_split(struct tmk_relay_emit *e) {
    const struct tmk_shape *x = tmk_re_shape(e, 0);
    struct tmk_relay_expr *operand = tmk_re_in(e, 0);
    int64_t parts[TMK_MAX_OUTPUTS], at = 0;
    size_t n;
    const int64_t axis = tmk_re_axis(tmk_node_int(e->node, "axis", 0), x->rank);
    if (axis < 0)
        return tmk_re_fail(e, TMK_RE_OUT_OF_RANGE);
    if (!tmk_re_listed(e, "split", 1, parts, &n) || (n && n != e->node->n_outputs))
        return tmk_re_fail(e, TMK_RE_COMPUTED);
    if (!n && !equal_parts(e, axis, parts))
        return tmk_re_fail(e, TMK_RE_COMPUTED);
    for (uint32_t i = 0; i < e->node->n_outputs; i++) {
        at += parts[i];
        parts[i] = at;
    }
    tmk_rb_set_ints(e->b, "indices_or_sections", parts, e->node->n_outputs - 1u);
    tmk_rb_set_int(e->b, "axis", axis);
    struct tmk_relay_expr *all = tmk_re_1(e, "split", operand);
    for (uint32_t i = 0; i < e->node->n_outputs; i++)
        if (tmk_re_wanted(e, i))
            tmk_re_result(e, i, tmk_rb_project(e->b, all, i));
    return NULL;
}

const struct tmk_relay_op tmk_relay_ops_shape[] = {
    {"concatenate", 1, 1, TMK_RELAY_TAKES_TUPLE, "axis=0", "Concat", lower_concatenate,
     emit_concat},
    {"contrib_reverse_reshape", 1, 1, 0, "newshape; allowzero=False; reverse=False", "Reshape",
     lower_reverse_reshape},
    {"expand_dims", 1, 1, TMK_RELAY_WRITES_RANKED, "axis:int; num_newaxis=1", "Unsqueeze",
     lower_expand_dims, emit_unsqueeze, TMK_RE_REST},
    {"layout_transform", 1, 1, 0, "src_layout; dst_layout", "Transpose", lower_layout_transform},
    {"nn.batch_flatten", 1, 1, TMK_RELAY_WRITES_RANKED, "", "Flatten", lower_batch_flatten,
     emit_flatten},
    {"reshape", 1, 1, 0, "newshape; allowzero=False; reverse=False", "Reshape", lower_reshape,
     emit_reshape, TMK_RE_REST},
    {"reshape_like", 2, 2, 0, "lhs_begin=0; lhs_end=None; rhs_begin=0; rhs_end=None", "Reshape",
     lower_reshape_like},
    {"reverse", 1, 1, 0, "axis", "Slice", lower_reverse},
    {"split", 1, 1, TMK_RELAY_WRITES_RANKED, "indices_or_sections; axis=0", "Split", lower_split,
     emit_split, TMK_RE_REST},
    {"squeeze", 1, 1, 0, "axis=None", "Squeeze", lower_squeeze, emit_squeeze, TMK_RE_REST},
    {"stack", 1, 1, TMK_RELAY_TAKES_TUPLE, "axis:object=0", "Unsqueeze, Concat", lower_stack},
    {"transpose", 1, 1, 0, "axes=None", "Transpose", lower_transpose, emit_transpose},
    {0}};
