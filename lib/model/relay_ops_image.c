/* SPDX-License-Identifier: Apache-2.0 */
/* Relay's resizing of images. */
#include <math.h>
#include <string.h>

#include "model/relay_lower.h"

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

static struct tmk_value *resized(struct tmk_relay_call *call, const struct resize *r,
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

static struct tmk_value *resize2d(struct tmk_relay_call *call) {
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
    return resized(call, &r, axes);
}

static struct tmk_value *upsampling(struct tmk_relay_call *call) {
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
    return resized(call, &r, axes);
}

static const struct tmk_relay_rule resize_attrs[] = {
    {"size", TMK_RELAY_RULE_INTS, NULL},
    {"roi", TMK_RELAY_RULE_INTS, "None"},
    {"layout", TMK_RELAY_RULE_TEXT, "NCHW"},
    {"method", TMK_RELAY_RULE_TEXT, "linear"},
    {"coordinate_transformation_mode", TMK_RELAY_RULE_TEXT, "half_pixel"},
    {"rounding_method", TMK_RELAY_RULE_TEXT, "round"},
    {"cubic_alpha", TMK_RELAY_RULE_REAL, "-0.5"},
    {"cubic_exclude", TMK_RELAY_RULE_INT, "0"},
    {"extrapolation_value", TMK_RELAY_RULE_REAL, "0.0"},
    {"out_dtype", TMK_RELAY_RULE_TEXT, "None"},
    {0}};
static const struct tmk_relay_rule upsampling_attrs[] = {
    {"scale_h", TMK_RELAY_RULE_REAL, NULL},
    {"scale_w", TMK_RELAY_RULE_REAL, NULL},
    {"layout", TMK_RELAY_RULE_TEXT, "NCHW"},
    {"method", TMK_RELAY_RULE_TEXT, "nearest_neighbor"},
    {"align_corners", TMK_RELAY_RULE_BOOL, "False"},
    {0}};

const struct tmk_relay_op tmk_relay_ops_image[] = {
    {"image.resize2d", 1, 1, 0, resize_attrs, "Resize", resize2d},
    {"nn.upsampling", 1, 1, 0, upsampling_attrs, "Resize", upsampling},
    {0}};
