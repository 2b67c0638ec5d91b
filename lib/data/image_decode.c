/* SPDX-License-Identifier: Apache-2.0 */
#include "data/image_decode.h"

#include <string.h>

#include "base/diag.h"
#include "base/memory.h"

void tmk_pixels_finish(struct tmk_pixels *pixels) {
    tmk_memory_free(pixels->data);
    *pixels = (struct tmk_pixels){0};
}

enum tmk_status tmk_pixels_init(struct tmk_pixels *pixels, uint64_t width, uint64_t height,
                                uint32_t channels, struct tmk_diag *diag) {
    if (!width || !height || width > TMK_IMAGE_MAX_PIXELS || height > TMK_IMAGE_MAX_PIXELS ||
        width * height > TMK_IMAGE_MAX_PIXELS)
        return tmk_fail(diag, TMK_FORMAT,
                        "a picture of %llu x %llu pixels is not read; the limit "
                        "is %d pixels",
                        (unsigned long long)width, (unsigned long long)height,
                        TMK_IMAGE_MAX_PIXELS);
    const size_t bytes = (size_t)(width * height) * channels;
    unsigned char *data = tmk_memory_aligned(bytes);
    if (!data)
        return tmk_memory_fail(diag, bytes, "a picture of %llu x %llu pixels",
                               (unsigned long long)width, (unsigned long long)height);
    *pixels = (struct tmk_pixels){(uint32_t)width, (uint32_t)height, channels, data};
    return TMK_OK;
}

static enum tmk_status decode_image(const unsigned char *bytes, size_t len, struct tmk_pixels *out,
                                    struct tmk_diag *diag) {
    if (len >= 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0)
        return tmk_png_decode(bytes, len, out, diag);
    if (len >= 3 && memcmp(bytes, "\xff\xd8\xff", 3) == 0)
        return tmk_jpeg_decode(bytes, len, out, diag);
    return tmk_fail(diag, TMK_FORMAT, "is neither a PNG nor a JPEG");
}

/* ---- colours ---- */

/* ITU-R 601 luma in 16-bit fixed point, in place. */
static void make_grey(struct tmk_pixels *pixels) {
    size_t n = (size_t)pixels->width * pixels->height;
    unsigned char *p = pixels->data;
    if (pixels->channels == 1)
        return;
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)((p[3 * i] * 19595u + p[3 * i + 1] * 38470u + p[3 * i + 2] * 7471u +
                                32768u) >>
                               16);
    pixels->channels = 1;
}

/* ---- sizes ---- */

/* Half of an even number of pixels is cut off on either side; of an odd one, so that the offset is
 * even. That is where Python rounds to. */
static uint32_t crop_margin(uint32_t all, uint32_t kept) {
    uint32_t over = all - kept, half = over / 2;
    return over % 2 ? half + half % 2 : half;
}

static enum tmk_status choose_view(const struct tmk_image_spec *spec,
                                   const struct tmk_pixels *pixels, struct tmk_image_view *out,
                                   struct tmk_diag *diag) {
    uint64_t width = pixels->width, height = pixels->height;
    if (spec->shorter && width <= height) {
        height = height * spec->shorter / width;
        width = spec->shorter;
    } else if (spec->shorter) {
        width = width * spec->shorter / height;
        height = spec->shorter;
    } else if (spec->width) {
        width = spec->width;
        height = spec->height;
    }
    if (width > TMK_IMAGE_MAX_PIXELS || height > TMK_IMAGE_MAX_PIXELS ||
        width * height > TMK_IMAGE_MAX_PIXELS)
        return tmk_fail(diag, TMK_FORMAT, "resizing would make it %llu x %llu pixels",
                        (unsigned long long)width, (unsigned long long)height);
    struct tmk_image_view view = {(uint32_t)width, (uint32_t)height, 0, 0,
                                  (uint32_t)width, (uint32_t)height};
    if (spec->crop_width) {
        if (spec->crop_width > width || spec->crop_height > height)
            return tmk_fail(diag, TMK_SHAPE,
                            "is %llu x %llu pixels, from which %u x %u cannot be cropped; "
                            "resize= comes before crop=",
                            (unsigned long long)width, (unsigned long long)height, spec->crop_width,
                            spec->crop_height);
        view.columns = spec->crop_width;
        view.rows = spec->crop_height;
        view.x = crop_margin(view.width, view.columns);
        view.y = crop_margin(view.height, view.rows);
    }
    *out = view;
    return TMK_OK;
}

static enum tmk_status cut_out(const struct tmk_pixels *in, const struct tmk_image_view *view,
                               struct tmk_pixels *out, struct tmk_diag *diag) {
    size_t pixel = in->channels;
    TMK_TRY(tmk_pixels_init(out, view->columns, view->rows, in->channels, diag));
    for (size_t y = 0; y < view->rows; y++)
        memcpy(out->data + y * view->columns * pixel,
               in->data + ((view->y + y) * in->width + view->x) * pixel, view->columns * pixel);
    return TMK_OK;
}

static enum tmk_status fit_image(const struct tmk_image_spec *spec, struct tmk_pixels *pixels,
                                 struct tmk_diag *diag) {
    struct tmk_image_view view;
    struct tmk_pixels fitted = {0};
    TMK_TRY(choose_view(spec, pixels, &view, diag));
    bool same = view.width == pixels->width && view.height == pixels->height;
    if (same && view.columns == view.width && view.rows == view.height)
        return TMK_OK;
    TMK_TRY(same ? cut_out(pixels, &view, &fitted, diag)
                 : tmk_image_resize(pixels, &view, &fitted, diag));
    tmk_pixels_finish(pixels);
    *pixels = fitted;
    return TMK_OK;
}

enum tmk_status tmk_image_decode(const unsigned char *bytes, size_t len,
                                 const struct tmk_image_spec *spec, struct tmk_pixels *out,
                                 struct tmk_diag *diag) {
    struct tmk_pixels pixels = {0};
    TMK_TRY(decode_image(bytes, len, &pixels, diag));
    if (spec->color == TMK_IMAGE_GREY)
        make_grey(&pixels);
    enum tmk_status status = fit_image(spec, &pixels, diag);
    if (status == TMK_OK)
        *out = pixels;
    else
        tmk_pixels_finish(&pixels);
    return status;
}
