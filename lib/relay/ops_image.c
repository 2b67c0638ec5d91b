/* SPDX-License-Identifier: Apache-2.0 */
/* Relay's resizing of images. */
#include <math.h>
#include <string.h>

#include "relay/emit.h"

enum { LARGEST = 1 << 24 }; /* extent of a result */

struct resize {
    const char *method, *coordinates, *rounding;
    int64_t size[2];
};

/* The two axes of space in a layout that is not blocked. */
static bool find_axes(struct tmk_relay_call *call, const char *layout, int64_t axes[2]) {
    int64_t perm[TMK_RL_LETTERS];
    int32_t n;
    if (!tmk_rl_layout(call, layout, "NCHW", perm, &n))
        return false;
    axes[0] = perm[2];
    axes[1] = perm[3];
    return true;
}

/* What TVM calls rounding is half up where coordinates are not negative. */
static const char *nearest_mode(struct tmk_relay_call *call, const struct resize *r) {
    const char *rounding = r->rounding;
    if (!*rounding)
        rounding = strcmp(r->coordinates, "align_corners") == 0 ? "round" : "floor";
    if (strcmp(rounding, "round") == 0)
        return "round_prefer_ceil";
    if (strcmp(rounding, "round_prefer_floor") != 0 && strcmp(rounding, "round_prefer_ceil") != 0 &&
        strcmp(rounding, "floor") != 0 && strcmp(rounding, "ceil") != 0)
        tmk_rl_fail(call, TMK_UNSUPPORTED, "rounding_method '%s'", rounding);
    return rounding;
}

static struct tmk_value *make_resize(struct tmk_relay_call *call, const struct resize *r,
                                     const int64_t axes[2]) {
    static const struct {
        const char *relay, *onnx;
    } modes[] = {{"nearest_neighbor", "nearest"},
                 {"linear", "linear"},
                 {"bilinear", "linear"},
                 {"cubic", "cubic"},
                 {"bicubic", "cubic"}};
    const char *mode = NULL;
    for (size_t i = 0; i < TMK_COUNT(modes); i++)
        mode = strcmp(modes[i].relay, r->method) == 0 ? modes[i].onnx : mode;
    if (!mode)
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "method '%s'", r->method);
    if (strcmp(r->coordinates, "half_pixel") != 0 && strcmp(r->coordinates, "asymmetric") != 0 &&
        strcmp(r->coordinates, "align_corners") != 0)
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "coordinate_transformation_mode '%s'",
                           r->coordinates);
    struct tmk_value *sizes = tmk_rl_list(call, "size", r->size, 2);
    tmk_rl_set_ints(call, "axes", axes, 2);
    tmk_rl_set_text(call, "mode", mode);
    tmk_rl_set_text(call, "coordinate_transformation_mode", r->coordinates);
    if (strcmp(mode, "nearest") == 0)
        tmk_rl_set_text(call, "nearest_mode", nearest_mode(call, r));
    if (strcmp(call->op->name, "image.resize2d") == 0 && strcmp(mode, "cubic") == 0) {
        tmk_rl_set_float(call, "cubic_coeff_a", tmk_rl_real(call, "cubic_alpha"));
        tmk_rl_set_int(call, "exclude_outside", tmk_rl_int(call, "cubic_exclude"));
    } else if (strcmp(mode, "cubic") == 0) {
        tmk_rl_set_float(call, "cubic_coeff_a", -0.5);
    }
    struct tmk_value *in[] = {tmk_rl_in(call, 0), NULL, NULL, sizes};
    return tmk_rl_n(call, NULL, "Resize", in, 4);
}

static struct tmk_value *lower_resize2d(struct tmk_relay_call *call) {
    struct resize r = {.method = tmk_rl_string(call, "method"),
                       .coordinates = tmk_rl_string(call, "coordinate_transformation_mode"),
                       .rounding = tmk_rl_string(call, "rounding_method")};
    int64_t axes[2];
    if (!tmk_rl_exactly(call, "size", r.size, 2) ||
        !find_axes(call, tmk_rl_string(call, "layout"), axes))
        return NULL;
    for (int i = 0; i < 2; i++)
        if (r.size[i] < 1 || r.size[i] > LARGEST)
            return tmk_rl_fail(call, TMK_RANGE, "size %lld", (long long)r.size[i]);
    return make_resize(call, &r, axes);
}

static struct tmk_value *lower_upsampling(struct tmk_relay_call *call) {
    struct tmk_value *x = tmk_rl_in(call, 0);
    const struct tmk_shape *shape = tmk_rl_dims(call, x);
    struct resize r = {.method = tmk_rl_string(call, "method"),
                       .coordinates =
                           tmk_rl_bool(call, "align_corners") ? "align_corners" : "asymmetric",
                       .rounding = ""};
    double scale[] = {tmk_rl_real(call, "scale_h"), tmk_rl_real(call, "scale_w")};
    int64_t axes[2];
    if (!find_axes(call, tmk_rl_string(call, "layout"), axes) || call->status != TMK_OK)
        return NULL;
    for (int i = 0; i < 2; i++) {
        double size = axes[i] < shape->rank ? round(scale[i] * (double)shape->dim[axes[i]]) : 0;
        if (!(size >= 1) || size > LARGEST)
            return tmk_rl_fail(call, TMK_RANGE, "a scale of %g", scale[i]);
        r.size[i] = (int64_t)size;
    }
    return make_resize(call, &r, axes);
}

/* ---- writing ---- */

static const char *resize_method(struct tmk_relay_emit *e) {
    const char *mode = tmk_node_string(e->node, "mode", "nearest");
    if (strcmp(mode, "nearest") == 0)
        return "nearest_neighbor";
    return strcmp(mode, "linear") == 0 || strcmp(mode, "bilinear") == 0 ? "linear" : NULL;
}

static bool is_exact(const struct tmk_shape *x, const struct tmk_shape *y) {
    return x && y && x->rank == 4 && y->rank == 4 && x->dim[1] == y->dim[1] && x->dim[2] > 0 &&
           x->dim[3] > 0 && y->dim[2] > 0 && y->dim[3] > 0 && y->dim[2] % x->dim[2] == 0 &&
           y->dim[3] % x->dim[3] == 0;
}

static struct tmk_relay_expr *emit_resize(struct tmk_relay_emit *e) {
    const struct tmk_shape *x = tmk_re_shape(e, 0), *y = tmk_re_out_shape(e, 0);
    const bool simple = e->node->version < 11; /* and Upsample: asymmetric, rounding down */
    const char *place = tmk_node_string(e->node, "coordinate_transformation_mode", "half_pixel"),
               *nearest = tmk_node_string(e->node, "nearest_mode", "round_prefer_floor"),
               *method = resize_method(e);
    struct tmk_relay_expr *operand = tmk_re_in(e, 0);
    if (simple) {
        place = "asymmetric";
        nearest = "floor";
    }
    /* Elsewhere ONNX may place pixels by a scale that is not the quotient of the sizes. */
    if (!is_exact(x, y) || !method)
        return tmk_re_fail(
            e, "only height and width, grown by whole factors, nearest or linear, can be written");
    if (strcmp(place, "half_pixel") != 0 && strcmp(place, "align_corners") != 0 &&
        strcmp(place, "asymmetric") != 0)
        return tmk_re_fail(e, "Relay has no such coordinate_transformation_mode");
    if (tmk_node_int(e->node, "antialias", 0))
        return tmk_re_fail(e, "it smooths");
    tmk_rb_set_ints(e->b, "size", &y->dim[2], 2);
    const float whole[] = {0, 0, 0, 0};
    tmk_rb_set_reals(e->b, "roi", whole, 4);
    tmk_rb_set_string(e->b, "layout", "NCHW");
    tmk_rb_set_string(e->b, "method", method);
    tmk_rb_set_string(e->b, "coordinate_transformation_mode", place);
    if (method[0] == 'n')
        tmk_rb_set_string(e->b, "rounding_method", nearest);
    else
        tmk_rb_set_string(e->b, "rounding_method", "");
    return tmk_re_1(e, "image.resize2d", operand);
}

const struct tmk_relay_op tmk_relay_ops_image[] = {
    {"image.resize2d", 1, 1, 0,
     "size; roi=None; layout='NCHW'; method='linear'; coordinate_transformation_mode='half_pixel'; "
     "rounding_method='round'; cubic_alpha=-0.5; cubic_exclude=0; extrapolation_value=0.0; "
     "out_dtype=None",
     "Resize", lower_resize2d, emit_resize, TMK_RE_REST},
    {"nn.upsampling", 1, 1, 0,
     "scale_h:real; scale_w:real; layout='NCHW'; method='nearest_neighbor'; align_corners=False",
     "Resize", lower_upsampling},
    {"", 0, 0, 0, "", "Upsample", NULL, emit_resize, TMK_RE_REST},
    {0}};
