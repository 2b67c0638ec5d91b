/* SPDX-License-Identifier: Apache-2.0 */
/* What is made of an image before a network sees it. */
#pragma once

#include <tidemark/tensor.h>

enum tmk_image_color { TMK_IMAGE_RGB, TMK_IMAGE_BGR, TMK_IMAGE_GREY };

/* In this order: colours, resize, crop, then (pixel * scale - mean) / std. Plain data. */
struct tmk_image_spec {
    enum tmk_image_color color;
    uint32_t shorter;                    /* side after resizing; 0: see below */
    uint32_t width, height;              /* after resizing; 0: as it is */
    uint32_t crop_width, crop_height;    /* from the middle; 0: all of it */
    bool nhwc;                           /* else NCHW */
    bool bytes;                          /* uint8 pixels as they are; else float32 */
    double scale, mean[3], deviation[3]; /* of each channel */
};

/* "resize=256,crop=224,layout=nchw,mean=0.485:0.456:0.406,std=0.229:0.224:0.225,color=rgb"; NULL or
 * "" is the default. TMK_ARGUMENT. */
enum tmk_status tmk_image_spec_parse(const char *text, struct tmk_image_spec *out,
                                     struct tmk_diag *diag);
/* 1 or 3. */
uint32_t tmk_image_channels(const struct tmk_image_spec *spec);
