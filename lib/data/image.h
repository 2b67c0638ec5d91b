/* SPDX-License-Identifier: Apache-2.0 */
/* Images: from a file's bytes to what a network wants. Bytes are not trusted; nothing is allocated
 * for a picture before its size is known to be bearable. Distinct calls are thread-safe. */
#ifndef TMK_DATA_IMAGE_H
#define TMK_DATA_IMAGE_H

#include "data/image_spec.h"

/* 256 MiB as RGB. */
enum { TMK_IMAGE_MAX_PIXELS = (1 << 28) / 3 };

/* Rows of 8-bit pixels without gaps, in memory that counts (base/memory.h). */
struct tmk_pixels {
    uint32_t width, height;
    uint32_t channels; /* 1: grey; 3: RGB */
    unsigned char *data;
};
void tmk_pixels_finish(struct tmk_pixels *pixels);
/* Memory for a picture of that size. TMK_FORMAT when it has no pixels, or too many; TMK_LIMIT. */
TMK_NODISCARD enum tmk_status tmk_pixels_init(struct tmk_pixels *pixels, uint64_t width,
                                              uint64_t height, uint32_t channels,
                                              struct tmk_diag *diag);

/* Grey pictures come as grey, all others as RGB: palettes are looked up, transparency is dropped,
 * of 16 bits the upper 8 are kept, CMYK is converted. Orientation tags and colour profiles are left
 * alone. What the libraries take counts, too. TMK_FORMAT, TMK_UNSUPPORTED, TMK_NOMEM, TMK_LIMIT. */
TMK_NODISCARD enum tmk_status tmk_png_decode(const unsigned char *bytes, size_t len,
                                             struct tmk_pixels *out, struct tmk_diag *diag);
TMK_NODISCARD enum tmk_status tmk_jpeg_decode(const unsigned char *bytes, size_t len,
                                              struct tmk_pixels *out, struct tmk_diag *diag);

/* A part of a resized picture. */
struct tmk_image_view {
    uint32_t width, height; /* of all of it */
    uint32_t x, y, columns, rows;
};
/* Antialiased bilinear resampling: each pixel is the mean of those it covers, weighted by a
 * triangle that is as wide as two of the larger of the two grids' pixels; columns first, then rows,
 * rounded to 8 bits each time. */
TMK_NODISCARD enum tmk_status tmk_image_resize(const struct tmk_pixels *in,
                                               const struct tmk_image_view *view,
                                               struct tmk_pixels *out, struct tmk_diag *diag);

/* Tables of what becomes of each pixel value, a channel. */
struct tmk_image_recipe {
    struct tmk_image_spec spec;
    float value[3][256];
};
void tmk_image_recipe_init(struct tmk_image_recipe *recipe, const struct tmk_image_spec *spec);

/* A file as [1, channels, height, width], or in the other layout. Errors name the path. */
TMK_NODISCARD enum tmk_status tmk_image_load(const char *path,
                                             const struct tmk_image_recipe *recipe,
                                             struct tmk_tensor *out, struct tmk_diag *diag);

#endif
