/* SPDX-License-Identifier: Apache-2.0 */
/* Images as data. A helper program decodes and resizes them (sandbox/helper.h, data/image_wire.h);
 * here they become what a network wants. Distinct calls are thread-safe. */
#pragma once

#include "data/image_spec.h"
#include "sandbox/helper.h"

/* 256 MiB as RGB. */
enum { TMK_IMAGE_MAX_PIXELS = (1 << 28) / 3 };

/* Rows of 8-bit pixels without gaps. */
struct tmk_pixels {
    uint32_t width, height;
    uint32_t channels; /* 1: grey; 3: RGB */
    unsigned char *data;
};

/* Tables of what becomes of each pixel value, a channel. */
struct tmk_image_recipe {
    struct tmk_image_spec spec;
    float value[3][256];
};
void tmk_image_recipe_init(struct tmk_image_recipe *recipe, const struct tmk_image_spec *spec);

/* Pixels of the recipe's colours as [1, channels, height, width], or in the other layout. */
enum tmk_status tmk_image_lay_out(const struct tmk_image_recipe *recipe,
                                  const struct tmk_pixels *pixels, struct tmk_tensor *out,
                                  struct tmk_diag *diag);

/* Helper programs that are kept for the next picture; one for each thread that reads. */
struct tmk_image_helpers;
extern const struct tmk_helper_kind tmk_image_helper;
enum tmk_status tmk_image_helpers_create(struct tmk_image_helpers **out, struct tmk_diag *diag);
void tmk_image_helpers_destroy(struct tmk_image_helpers **helpers);

/* A file as tmk_image_lay_out has it. What the helper allocates counts. Errors name the path. */
enum tmk_status tmk_image_load(struct tmk_image_helpers *helpers, const char *path,
                               const struct tmk_image_recipe *recipe, struct tmk_tensor *out,
                               struct tmk_diag *diag);
