/* SPDX-License-Identifier: Apache-2.0 */
/* Images: from a file's bytes to pixels of the wanted size. Linked into the helper program only.
 * Bytes are not trusted; nothing is allocated for a picture before its size is known to be
 * bearable. Distinct calls are thread-safe. */
#pragma once

#include "data/image.h"

void tmk_pixels_finish(struct tmk_pixels *pixels);
/* Memory for a picture of that size. TMK_FORMAT when it has no pixels, or too many; TMK_LIMIT. */
enum tmk_status tmk_pixels_init(struct tmk_pixels *pixels, uint64_t width, uint64_t height,
                                uint32_t channels, struct tmk_diag *diag);

/* Grey pictures come as grey, all others as RGB: palettes are looked up, transparency is dropped,
 * of 16 bits the upper 8 are kept, CMYK is converted. Orientation tags and colour profiles are left
 * alone. What the libraries take counts, too. TMK_FORMAT, TMK_UNSUPPORTED, TMK_NOMEM, TMK_LIMIT. */
enum tmk_status tmk_png_decode(const unsigned char *bytes, size_t len, struct tmk_pixels *out,
                               struct tmk_diag *diag);
enum tmk_status tmk_jpeg_decode(const unsigned char *bytes, size_t len, struct tmk_pixels *out,
                                struct tmk_diag *diag);

/* A part of a resized picture. */
struct tmk_image_view {
    uint32_t width, height; /* of all of it */
    uint32_t x, y, columns, rows;
};
/* Antialiased bilinear resampling: each pixel is the mean of those it covers, weighted by a
 * triangle that is as wide as two of the larger of the two grids' pixels; columns first, then rows,
 * rounded to 8 bits each time. */
enum tmk_status tmk_image_resize(const struct tmk_pixels *in, const struct tmk_image_view *view,
                                 struct tmk_pixels *out, struct tmk_diag *diag);

/* All of it: decoded, grey where that is wanted, resized and cropped. */
enum tmk_status tmk_image_decode(const unsigned char *bytes, size_t len,
                                 const struct tmk_image_spec *spec, struct tmk_pixels *out,
                                 struct tmk_diag *diag);
