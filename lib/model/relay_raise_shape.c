/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that move elements. */
#include <string.h>

#include "model/relay_raise.h"

#define SAY (&r->say)

enum { MOST = 2 * TMK_MAX_RANK };

static const char computed[] = "its shape is computed as it runs (fold-constant may help)";
static const char out_of_range[] = "its axes are out of range";
static const char no_rank[] = "the rank of its input is not known";

static struct tmk_relay_expr *x_of(struct tmk_raising *r, const struct tmk_node *node) {
    return tmk_raise_operand(r, node, 0);
}

/* ---- Reshape and its kin ---- */

/* Relay's 0 and -1 mean what ONNX's do, but for a 0 behind a -1, of which its readers differ. */
static const char *raise_reshape(struct tmk_raising *r, const struct tmk_node *node) {
    const struct tmk_shape *x = tmk_raise_shape(node, 0);
    int64_t dims[MOST];
    size_t n;
    bool inferred = false;
    if (!tmk_raise_listed(r, node, "shape", 1, dims, &n))
        return computed;
    for (size_t i = 0; i < n; i++) {
        if (dims[i] == 0 && tmk_node_int(node, "allowzero", 0))
            return "it makes an empty tensor";
        if (dims[i] == 0 && x && i < (size_t)x->rank && x->dim[i] > 0)
            dims[i] = x->dim[i];
        if (dims[i] == 0 && inferred)
            return "it keeps a dimension that is not known behind one that is inferred";
        inferred |= dims[i] == -1;
    }
    return tmk_raise_done(r, node, tmk_say_reshape(SAY, x_of(r, node), dims, n));
}

static const char *raise_flatten(struct tmk_raising *r, const struct tmk_node *node) {
    const struct tmk_shape *x = tmk_raise_shape(node, 0);
    int64_t dims[] = {1, -1};
    if (!x)
        return no_rank;
    const int64_t said = tmk_node_int(node, "axis", 1),
                  axis = said == x->rank ? said : tmk_raise_axis(said, x->rank);
    if (axis < 0)
        return out_of_range;
    if (axis == 1 && x->rank > 1)
        return tmk_raise_done(r, node, tmk_say_call1(SAY, "nn.batch_flatten", x_of(r, node)));
    for (int64_t i = 0; i < axis; i++)
        if (x->dim[i] < 0 || !tmk_mul_i64(dims[0], x->dim[i], &dims[0]))
            return "the sizes before its axis are not known";
    return tmk_raise_done(r, node, tmk_say_reshape(SAY, x_of(r, node), dims, 2));
}

static const char *raise_squeeze(struct tmk_raising *r, const struct tmk_node *node) {
    struct tmk_say_attrs a = {0};
    struct tmk_relay_expr *x = x_of(r, node);
    int64_t axes[MOST];
    size_t n;
    if (!tmk_raise_listed(r, node, "axes", 1, axes, &n))
        return computed;
    if (n)
        tmk_say_set_ints(SAY, &a, "axis", axes, n);
    return tmk_raise_done(r, node, tmk_say_call(SAY, "squeeze", &x, 1, &a));
}

static const char *raise_unsqueeze(struct tmk_raising *r, const struct tmk_node *node) {
    const struct tmk_shape *x = tmk_raise_shape(node, 0);
    struct tmk_relay_expr *made = x_of(r, node);
    int64_t axes[MOST];
    size_t n;
    if (!x)
        return no_rank;
    if (!tmk_raise_listed(r, node, "axes", 1, axes, &n))
        return computed;
    bool at[MOST] = {0};
    for (size_t i = 0; i < n; i++) {
        const int64_t axis = tmk_raise_axis(axes[i], x->rank + (int32_t)n);
        if (axis < 0 || axis >= MOST)
            return out_of_range;
        at[axis] = true;
    }
    for (int64_t axis = 0; axis < MOST; axis++) {
        struct tmk_say_attrs a = {0};
        if (!at[axis])
            continue;
        tmk_say_set_int(SAY, &a, "axis", axis);
        made = tmk_say_call(SAY, "expand_dims", &made, 1, &a);
    }
    return tmk_raise_done(r, node, n ? made : tmk_say_call1(SAY, "copy", made));
}

static const char *raise_transpose(struct tmk_raising *r, const struct tmk_node *node) {
    struct tmk_say_attrs a = {0};
    struct tmk_relay_expr *x = x_of(r, node);
    size_t n;
    const int64_t *perm = tmk_node_ints(node, "perm", &n);
    if (perm)
        tmk_say_set_ints(SAY, &a, "axes", perm, n);
    else
        tmk_say_set_none(&a, "axes");
    return tmk_raise_done(r, node, tmk_say_call(SAY, "transpose", &x, 1, &a));
}

static const char *raise_expand(struct tmk_raising *r, const struct tmk_node *node) {
    const struct tmk_shape *y = tmk_raise_made(node, 0);
    struct tmk_say_attrs a = {0};
    struct tmk_relay_expr *x = x_of(r, node);
    size_t count;
    if (!tmk_raise_numbers(r, node, 1) || !y || !tmk_shape_count(y, &count))
        return computed;
    tmk_say_set_ints(SAY, &a, "shape", y->dim, (size_t)y->rank);
    return tmk_raise_done(r, node, tmk_say_call(SAY, "broadcast_to", &x, 1, &a));
}

static const char *raise_tile(struct tmk_raising *r, const struct tmk_node *node) {
    struct tmk_say_attrs a = {0};
    struct tmk_relay_expr *x = x_of(r, node);
    int64_t reps[MOST];
    size_t n;
    if (!tmk_raise_ints(r, node, 1, reps, &n))
        return computed;
    tmk_say_set_ints(SAY, &a, "reps", reps, n);
    return tmk_raise_done(r, node, tmk_say_call(SAY, "tile", &x, 1, &a));
}

static const char *raise_depth_space(struct tmk_raising *r, const struct tmk_node *node) {
    struct tmk_say_attrs a = {0};
    struct tmk_relay_expr *x = x_of(r, node);
    const char *mode = tmk_node_string(node, "mode", "DCR");
    tmk_say_set_int(SAY, &a, "block_size", tmk_node_int(node, "blocksize", 1));
    if (strcmp(mode, "DCR") != 0)
        tmk_say_set_string(SAY, &a, "mode", mode);
    return tmk_raise_done(r, node, tmk_say_call(SAY, tmk_raise_find(node)->relay, &x, 1, &a));
}

/* ---- joining and cutting ---- */

static const char *raise_concat(struct tmk_raising *r, const struct tmk_node *node) {
    struct tmk_say_attrs a = {0};
    const int64_t axis = tmk_node_int(node, "axis", 1); /* a must since operator set 4 */
    struct tmk_relay_expr **list =
        tmk_arena_array(SAY->arena, node->n_inputs, sizeof(struct tmk_relay_expr *));
    if (!list) {
        SAY->nomem = true;
        return NULL;
    }
    for (uint32_t i = 0; i < node->n_inputs; i++)
        list[i] = tmk_raise_operand(r, node, i);
    struct tmk_relay_expr *all = tmk_say_items(SAY, list, node->n_inputs);
    if (axis)
        tmk_say_set_int(SAY, &a, "axis", axis);
    return tmk_raise_done(r, node, tmk_say_call(SAY, "concatenate", &all, 1, &a));
}

static bool equal_parts(const struct tmk_node *node, int64_t axis, int64_t *parts) {
    const struct tmk_shape *x = tmk_raise_shape(node, 0);
    const int64_t n = tmk_node_int(node, "num_outputs", node->n_outputs);
    if (n != node->n_outputs || n > TMK_MAX_OUTPUTS || x->dim[axis] < 0)
        return false;
    const int64_t part = (x->dim[axis] + n - 1) / n;
    for (int64_t i = 0; i < n; i++)
        parts[i] = i + 1 < n ? part : x->dim[axis] - part * (n - 1);
    return true;
}

/* Relay's list says where to cut. */
static const char *raise_split(struct tmk_raising *r, const struct tmk_node *node) {
    const struct tmk_shape *x = tmk_raise_shape(node, 0);
    struct tmk_say_attrs a = {0};
    struct tmk_relay_expr *operand = x_of(r, node);
    int64_t parts[TMK_MAX_OUTPUTS], at = 0;
    size_t n;
    if (!x)
        return no_rank;
    const int64_t axis = tmk_raise_axis(tmk_node_int(node, "axis", 0), x->rank);
    if (axis < 0)
        return out_of_range;
    if (!tmk_raise_listed(r, node, "split", 1, parts, &n) || (n && n != node->n_outputs))
        return computed;
    if (!n && !equal_parts(node, axis, parts))
        return computed;
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        at += parts[i];
        parts[i] = at;
    }
    tmk_say_set_ints(SAY, &a, "indices_or_sections", parts, node->n_outputs - 1u);
    tmk_say_set_int(SAY, &a, "axis", axis);
    struct tmk_relay_expr *all = tmk_say_call(SAY, "split", &operand, 1, &a);
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (tmk_raise_wanted(r, node, i))
            tmk_raise_result(r, node, i, tmk_say_project(SAY, all, i));
    return NULL;
}

/* An end that says "to the last" in ONNX is far out; Relay's numbers are of 32 bits as a rule. */
static int64_t nearer(int64_t end, int64_t dim, int64_t step) {
    if (dim >= 0)
        return end > dim ? dim : end < -dim - 1 ? -dim - 1 : end;
    const int64_t lowest = step < 0 ? INT32_MIN : -INT32_MAX;
    return end > INT32_MAX ? INT32_MAX : end < lowest ? lowest : end;
}

static const char *raise_slice(struct tmk_raising *r, const struct tmk_node *node) {
    const struct tmk_shape *x = tmk_raise_shape(node, 0);
    struct tmk_say_attrs a = {0};
    struct tmk_relay_expr *operand = x_of(r, node);
    int64_t begin[MOST], end[MOST], axes[MOST], steps[MOST];
    size_t n, n_end, n_axes, n_steps;
    if (!x)
        return no_rank;
    if (!tmk_raise_listed(r, node, "starts", 1, begin, &n) ||
        !tmk_raise_listed(r, node, "ends", 2, end, &n_end) ||
        !tmk_raise_listed(r, node, "axes", 3, axes, &n_axes) ||
        !tmk_raise_listed(r, node, "steps", 4, steps, &n_steps) || n_end != n ||
        (n_axes && n_axes != n) || (n_steps && n_steps != n))
        return computed;
    for (size_t i = 0; i < n; i++) {
        axes[i] = n_axes ? tmk_raise_axis(axes[i], x->rank) : (int64_t)i;
        steps[i] = n_steps ? steps[i] : 1;
        if (axes[i] < 0 || axes[i] >= x->rank)
            return out_of_range;
        const int64_t dim = x->dim[axes[i]];
        if (steps[i] < 0 && dim < 0)
            return "it goes backwards along an axis of unknown size";
        begin[i] = nearer(begin[i], dim, steps[i]);
        end[i] = nearer(end[i], dim, steps[i]);
        if (begin[i] < 0 && dim >= 0)
            begin[i] = begin[i] + dim < 0 ? 0 : begin[i] + dim;
    }
    tmk_say_set_ints(SAY, &a, "begin", begin, n);
    tmk_say_set_ints(SAY, &a, "end", end, n);
    tmk_say_set_ints(SAY, &a, "strides", steps, n);
    tmk_say_set_ints(SAY, &a, "axes", axes, n);
    return tmk_raise_done(r, node, tmk_say_call(SAY, "strided_slice", &operand, 1, &a));
}

static bool any_below_zero(const struct tmk_tensor *indices) {
    for (size_t i = 0; i < tmk_tensor_count(indices); i++)
        if ((indices->dtype == TMK_INT64 && ((const int64_t *)indices->data)[i] < 0) ||
            (indices->dtype == TMK_INT32 && ((const int32_t *)indices->data)[i] < 0))
            return true;
    return false;
}

/* Relay's indices do not count from the end, unless it wraps them around. */
static const char *raise_gather(struct tmk_raising *r, const struct tmk_node *node) {
    struct tmk_say_attrs a = {0};
    struct tmk_relay_expr *args[] = {x_of(r, node), tmk_raise_operand(r, node, 1)};
    const struct tmk_tensor *indices = tmk_raise_numbers(r, node, 1);
    tmk_say_set_int(SAY, &a, "axis", tmk_node_int(node, "axis", 0));
    if (!indices || any_below_zero(indices))
        tmk_say_set_string(SAY, &a, "mode", "wrap");
    return tmk_raise_done(r, node, tmk_say_call(SAY, "take", args, 2, &a));
}

static const char *raise_pad(struct tmk_raising *r, const struct tmk_node *node) {
    const struct tmk_shape *x = tmk_raise_shape(node, 0);
    const char *mode = tmk_node_string(node, "mode", "constant");
    struct tmk_say_attrs a = {0};
    int64_t pads[MOST], pairs[MOST];
    size_t n;
    double value = tmk_node_float(node, "value", 0);
    if (!x)
        return no_rank;
    if (!tmk_raise_listed(r, node, "pads", 1, pads, &n))
        return computed;
    if (tmk_raise_has(node, 3) || n != 2 * (size_t)x->rank)
        return "it pads some axes only";
    if (tmk_raise_has(node, 2) && !tmk_raise_number(r, node, 2, &value))
        return "the number that it pads with is computed";
    if (strcmp(mode, "wrap") == 0)
        return "it pads around";
    for (size_t i = 0; i < n / 2; i++) {
        pairs[2 * i] = pads[i];
        pairs[2 * i + 1] = pads[n / 2 + i];
        if (pads[i] < 0 || pads[n / 2 + i] < 0)
            return "it pads by less than nothing";
    }
    tmk_say_set_pairs(SAY, &a, "pad_width", pairs, n / 2);
    if (strcmp(mode, "constant") != 0)
        tmk_say_set_string(SAY, &a, "pad_mode", mode);
    struct tmk_relay_expr *args[] = {x_of(r, node),
                                     tmk_say_scalar(SAY, tmk_raise_dtype(node, 0), value)};
    return tmk_raise_done(r, node, tmk_say_call(SAY, "nn.pad", args, 2, &a));
}

/* ---- Resize ---- */

static const char *resize_method(const struct tmk_node *node) {
    const char *mode = tmk_node_string(node, "mode", "nearest");
    if (strcmp(mode, "nearest") == 0)
        return "nearest_neighbor";
    return strcmp(mode, "linear") == 0 || strcmp(mode, "bilinear") == 0 ? "linear" : NULL;
}

static bool is_exact(const struct tmk_shape *x, const struct tmk_shape *y) {
    return x && y && x->rank == 4 && y->rank == 4 && x->dim[1] == y->dim[1] && x->dim[2] > 0 &&
           x->dim[3] > 0 && y->dim[2] > 0 && y->dim[3] > 0 && y->dim[2] % x->dim[2] == 0 &&
           y->dim[3] % x->dim[3] == 0;
}

static const char *raise_resize(struct tmk_raising *r, const struct tmk_node *node) {
    const struct tmk_shape *x = tmk_raise_shape(node, 0), *y = tmk_raise_made(node, 0);
    const bool simple = node->version < 11; /* and Upsample: asymmetric, rounding down */
    const char *place = tmk_node_string(node, "coordinate_transformation_mode", "half_pixel"),
               *nearest = tmk_node_string(node, "nearest_mode", "round_prefer_floor"),
               *method = resize_method(node);
    struct tmk_say_attrs a = {0};
    struct tmk_relay_expr *operand = x_of(r, node);
    if (simple) {
        place = "asymmetric";
        nearest = "floor";
    }
    /* Elsewhere ONNX may place pixels by a scale that is not the quotient of the sizes. */
    if (!is_exact(x, y) || !method)
        return "only height and width, grown by whole factors, nearest or linear, can be said";
    if (strcmp(place, "half_pixel") != 0 && strcmp(place, "align_corners") != 0 &&
        strcmp(place, "asymmetric") != 0)
        return "Relay has no such coordinate_transformation_mode";
    if (tmk_node_int(node, "antialias", 0))
        return "it smooths";
    tmk_say_set_ints(SAY, &a, "size", &y->dim[2], 2);
    const float whole[] = {0, 0, 0, 0};
    tmk_say_set_reals(SAY, &a, "roi", whole, 4);
    tmk_say_set_string(SAY, &a, "layout", "NCHW");
    tmk_say_set_string(SAY, &a, "method", method);
    tmk_say_set_string(SAY, &a, "coordinate_transformation_mode", place);
    if (method[0] == 'n')
        tmk_say_set_string(SAY, &a, "rounding_method", nearest);
    else
        tmk_say_set_string(SAY, &a, "rounding_method", "");
    return tmk_raise_done(r, node, tmk_say_call(SAY, "image.resize2d", &operand, 1, &a));
}

/* All inputs but the first. */
enum { REST = 0x7ffffffe };

const struct tmk_raise_row tmk_raise_shapes[] = {
    {TMK_DOMAIN_ONNX, "Reshape", raise_reshape, REST, ""},
    {TMK_DOMAIN_ONNX, "Flatten", raise_flatten, 0, ""},
    {TMK_DOMAIN_ONNX, "Squeeze", raise_squeeze, REST, ""},
    {TMK_DOMAIN_ONNX, "Unsqueeze", raise_unsqueeze, REST, ""},
    {TMK_DOMAIN_ONNX, "Transpose", raise_transpose, 0, ""},
    {TMK_DOMAIN_ONNX, "Expand", raise_expand, REST, ""},
    {TMK_DOMAIN_ONNX, "Tile", raise_tile, REST, ""},
    {TMK_DOMAIN_ONNX, "DepthToSpace", raise_depth_space, 0, "nn.depth_to_space"},
    {TMK_DOMAIN_ONNX, "SpaceToDepth", raise_depth_space, 0, "nn.space_to_depth"},
    {TMK_DOMAIN_ONNX, "Concat", raise_concat, 0, ""},
    {TMK_DOMAIN_ONNX, "Split", raise_split, REST, ""},
    {TMK_DOMAIN_ONNX, "Slice", raise_slice, REST, ""},
    {TMK_DOMAIN_ONNX, "Gather", raise_gather, 0, ""},
    {TMK_DOMAIN_ONNX, "Pad", raise_pad, REST, ""},
    {TMK_DOMAIN_ONNX, "Resize", raise_resize, REST, ""},
    {TMK_DOMAIN_ONNX, "Upsample", raise_resize, REST, ""},
    {0},
};
