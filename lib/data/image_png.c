/* SPDX-License-Identifier: Apache-2.0 */
#include <png.h>
#include <setjmp.h>
#include <string.h>

#include "base/diag.h"
#include "base/memory.h"
#include "data/image_decode.h"

/* What has to outlive libpng's jumps. */
struct reading {
    const unsigned char *bytes;
    size_t len, at;
    png_structp png;
    png_infop info;
    struct tmk_pixels pixels;
    int passes; /* over all rows */
    enum tmk_status status;
    struct tmk_diag *diag;
    size_t lacks; /* bytes that there were not: libpng's own errors do not report it */
};

static void take_bytes(png_structp png, png_bytep out, size_t len) {
    struct reading *r = png_get_io_ptr(png);
    if (len > r->len - r->at)
        png_error(png, "the file is truncated");
    memcpy(out, r->bytes + r->at, len);
    r->at += len;
}

static void stop_png(png_structp png, png_const_charp why) {
    struct reading *r = png_get_error_ptr(png);
    if (r->status == TMK_OK)
        r->status = r->lacks ? tmk_memory_fail(r->diag, r->lacks, "what libpng keeps")
                             : tmk_fail(r->diag, TMK_FORMAT, "is no readable PNG: %s", why);
    png_longjmp(png, 1);
}

static png_voidp allocate_png(png_structp png, png_alloc_size_t size) {
    struct reading *r = png_get_mem_ptr(png);
    void *bytes = tmk_memory_aligned(size);
    if (!bytes)
        r->lacks = size;
    return bytes;
}

static void release_png(png_structp png, png_voidp bytes) {
    (void)png;
    tmk_memory_free(bytes);
}

static void pass_over(png_structp png, png_const_charp what) {
    (void)png, (void)what;
}

static enum tmk_status prepare_png(struct reading *r) {
    png_uint_32 width, height;
    int depth, type, interlace, compression, filter;
    png_read_info(r->png, r->info);
    png_get_IHDR(r->png, r->info, &width, &height, &depth, &type, &interlace, &compression,
                 &filter);
    bool grey = !(type & PNG_COLOR_MASK_COLOR);
    TMK_TRY(tmk_pixels_init(&r->pixels, width, height, grey ? 1 : 3, r->diag));
    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(r->png);
    if (grey && depth < 8)
        png_set_expand_gray_1_2_4_to_8(r->png);
    if (depth == 16)
        png_set_strip_16(r->png);
    png_set_strip_alpha(r->png);
    r->passes = png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
    if (png_get_rowbytes(r->png, r->info) != (size_t)width * r->pixels.channels)
        return tmk_fail(r->diag, TMK_UNSUPPORTED, "is a PNG of an unknown kind");
    return TMK_OK;
}

static void read_all(struct reading *r) {
    r->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, r, stop_png, pass_over, r,
                                      allocate_png, release_png);
    r->info = r->png ? png_create_info_struct(r->png) : NULL;
    if (!r->info) {
        r->status = tmk_nomem(r->diag);
        return;
    }
    if (setjmp(png_jmpbuf(r->png)))
        return;
    png_set_read_fn(r->png, r, take_bytes);
    png_set_user_limits(r->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX); /* the product counts */
    r->status = prepare_png(r);
    if (r->status != TMK_OK)
        return;
    const size_t row = (size_t)r->pixels.width * r->pixels.channels;
    for (int pass = 0; pass < r->passes; pass++)
        for (size_t y = 0; y < r->pixels.height; y++)
            png_read_row(r->png, r->pixels.data + y * row, NULL);
    png_read_end(r->png, NULL);
}

enum tmk_status tmk_png_decode(const unsigned char *bytes, size_t len, struct tmk_pixels *out,
                               struct tmk_diag *diag) {
    struct reading r = {.bytes = bytes, .len = len, .diag = diag};
    read_all(&r);
    png_destroy_read_struct(&r.png, &r.info, NULL);
    if (r.status == TMK_OK)
        *out = r.pixels;
    else
        tmk_pixels_finish(&r.pixels);
    return r.status;
}
