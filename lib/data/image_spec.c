/* SPDX-License-Identifier: Apache-2.0 */
#include "data/image_spec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"

enum { LARGEST_SIDE = 1 << 16, LONGEST_VALUE = 128 };

struct reader {
    struct tmk_image_spec spec;
    bool scaled; /* scale, mean or std were given */
    uint32_t n_mean, n_deviation;
    struct tmk_diag *diag;
};

static enum tmk_status fail_value(struct reader *r, const char *key, const char *value,
                                  const char *wants) {
    return tmk_fail(r->diag, TMK_ARGUMENT, "--image: %s takes %s, not '%s'", key, wants, value);
}

/* "224", or "320x240" (width, then height). */
static bool read_sides(const char *text, uint32_t *width, uint32_t *height) {
    uint32_t *const sides[] = {width, height};
    *height = 0;
    for (int i = 0; i < 2; i++) {
        char *end;
        if (*text < '0' || *text > '9')
            return false;
        unsigned long side = strtoul(text, &end, 10);
        if (!side || side > LARGEST_SIDE)
            return false;
        *sides[i] = (uint32_t)side;
        if (!*end)
            return true;
        if (i || (*end != 'x' && *end != 'X'))
            return false;
        text = end + 1;
    }
    return false;
}

static bool read_number(const char **text, double *out) {
    char *end;
    *out = strtod(*text, &end);
    if (end == *text || !isfinite(*out))
        return false;
    *text = end;
    return true;
}

/* One number, or three between colons. */
static uint32_t read_channels(const char *text, double out[3]) {
    uint32_t n = 0;
    do {
        if (n == 3 || !read_number(&text, &out[n++]))
            return 0;
    } while (*text == ':' && *++text);
    return *text ? 0 : n == 2 ? 0 : n;
}

static enum tmk_status set_resize(struct reader *r, const char *value) {
    uint32_t a, b;
    if (!read_sides(value, &a, &b))
        return fail_value(r, "resize", value, "the shorter side (256) or WIDTHxHEIGHT (320x240)");
    r->spec.shorter = b ? 0 : a;
    r->spec.width = b ? a : 0;
    r->spec.height = b;
    return TMK_OK;
}

static enum tmk_status set_crop(struct reader *r, const char *value) {
    uint32_t a, b;
    if (!read_sides(value, &a, &b))
        return fail_value(r, "crop", value, "a side (224) or WIDTHxHEIGHT (320x240)");
    r->spec.crop_width = a;
    r->spec.crop_height = b ? b : a;
    return TMK_OK;
}

static enum tmk_status set_layout(struct reader *r, const char *value) {
    r->spec.nhwc = strcmp(value, "nhwc") == 0;
    return r->spec.nhwc || strcmp(value, "nchw") == 0
               ? TMK_OK
               : fail_value(r, "layout", value, "nchw or nhwc");
}

static enum tmk_status set_color(struct reader *r, const char *value) {
    static const struct {
        const char *name;
        enum tmk_image_color color;
    } colors[] = {{"rgb", TMK_IMAGE_RGB},
                  {"bgr", TMK_IMAGE_BGR},
                  {"grey", TMK_IMAGE_GREY},
                  {"gray", TMK_IMAGE_GREY}};
    for (size_t i = 0; i < TMK_COUNT(colors); i++)
        if (strcmp(value, colors[i].name) == 0) {
            r->spec.color = colors[i].color;
            return TMK_OK;
        }
    return fail_value(r, "color", value, "rgb, bgr or grey");
}

static enum tmk_status set_type(struct reader *r, const char *value) {
    r->spec.bytes = strcmp(value, "uint8") == 0;
    return r->spec.bytes || strcmp(value, "float32") == 0
               ? TMK_OK
               : fail_value(r, "type", value, "float32 or uint8");
}

static enum tmk_status set_scale(struct reader *r, const char *value) {
    double over, under = 1;
    const char *text = value;
    bool ok = read_number(&text, &over);
    if (ok && *text == '/') {
        text++;
        ok = read_number(&text, &under) && under != 0;
    }
    if (!ok || *text || over == 0)
        return fail_value(r, "scale", value, "a number or a fraction (1/255)");
    r->spec.scale = over / under;
    r->scaled = true;
    return TMK_OK;
}

static enum tmk_status set_mean(struct reader *r, const char *value) {
    r->n_mean = read_channels(value, r->spec.mean);
    r->scaled = true;
    return r->n_mean ? TMK_OK
                     : fail_value(r, "mean", value, "one number, or three as in 0.5:0.5:0.5");
}

static enum tmk_status set_deviation(struct reader *r, const char *value) {
    r->n_deviation = read_channels(value, r->spec.deviation);
    r->scaled = true;
    for (uint32_t i = 0; i < r->n_deviation; i++)
        if (r->spec.deviation[i] == 0)
            r->n_deviation = 0;
    return r->n_deviation ? TMK_OK
                          : fail_value(r, "std", value,
                                       "one number that is not 0, or three as in 0.2:0.2:0.2");
}

static const struct {
    const char *key;
    enum tmk_status (*set)(struct reader *r, const char *value);
} keys[] = {
    {"resize", set_resize}, {"crop", set_crop},   {"layout", set_layout}, {"color", set_color},
    {"type", set_type},     {"scale", set_scale}, {"mean", set_mean},     {"std", set_deviation},
};

static enum tmk_status set_key(struct reader *r, const char *text, size_t len, uint32_t *seen) {
    char word[LONGEST_VALUE];
    if (len >= sizeof word)
        return tmk_fail(r->diag, TMK_ARGUMENT, "--image: '%.20s...' is too long", text);
    memcpy(word, text, len);
    word[len] = '\0';
    char *value = strchr(word, '=');
    if (value)
        *value++ = '\0';
    for (size_t i = 0; value && i < TMK_COUNT(keys); i++)
        if (strcmp(word, keys[i].key) == 0) {
            if (*seen & 1u << i)
                return tmk_fail(r->diag, TMK_ARGUMENT, "--image: %s is given twice", word);
            *seen |= 1u << i;
            return keys[i].set(r, value);
        }
    return tmk_fail(r->diag, TMK_ARGUMENT,
                    "--image: '%.*s' is none of resize=, crop=, layout=, color=, type=, scale=, "
                    "mean=, std= (lists of numbers stand between colons)",
                    (int)len, text);
}

/* One number is for all channels. */
static enum tmk_status spread_values(struct reader *r, const char *key, uint32_t n,
                                     double value[3]) {
    if (n == 3 && r->spec.color == TMK_IMAGE_GREY)
        return tmk_fail(r->diag, TMK_ARGUMENT, "--image: %s has three numbers for one channel",
                        key);
    if (n == 1)
        value[1] = value[2] = value[0];
    return TMK_OK;
}

enum tmk_status tmk_image_spec_parse(const char *text, struct tmk_image_spec *out,
                                     struct tmk_diag *diag) {
    struct reader r = {.spec = {.scale = 1.0 / 255, .deviation = {1, 1, 1}}, .diag = diag};
    uint32_t seen = 0;
    for (const char *at = text ? text : ""; *at;) {
        size_t len = strcspn(at, ",");
        TMK_TRY(set_key(&r, at, len, &seen));
        at += len;
        if (*at == ',' && !*++at)
            return tmk_fail(diag, TMK_ARGUMENT, "--image: ends with a comma");
    }
    TMK_TRY(spread_values(&r, "mean", r.n_mean, r.spec.mean));
    TMK_TRY(spread_values(&r, "std", r.n_deviation, r.spec.deviation));
    if (r.spec.bytes && r.scaled)
        return tmk_fail(diag, TMK_ARGUMENT,
                        "--image: type=uint8 gives pixels as they are; scale, mean and std are "
                        "for float32");
    *out = r.spec;
    return TMK_OK;
}

uint32_t tmk_image_channels(const struct tmk_image_spec *spec) {
    return spec->color == TMK_IMAGE_GREY ? 1 : 3;
}
