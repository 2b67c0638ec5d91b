/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include <jerror.h>

#include "base/diag.h"
#include "base/memory.h"
#include "data/image_decode.h"

enum { MOST_SCANS = 500 }; /* a small file may ask for any number of passes over a large picture */

/* What has to outlive libjpeg's jumps. */
struct reading {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    struct tmk_pixels pixels;
    unsigned char *row;  /* CMYK */
    size_t coefficients; /* bytes that libjpeg keeps of them, counted */
    enum tmk_status status;
    struct tmk_diag *diag;
};

static void stop_jpeg(j_common_ptr jpeg) {
    struct reading *r = jpeg->client_data;
    char why[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, why);
    if (r->status == TMK_OK)
        r->status = jpeg->err->msg_code == JERR_OUT_OF_MEMORY
                        ? tmk_nomem(r->diag)
                        : tmk_fail(r->diag, TMK_FORMAT, "is no readable JPEG: %s", why);
    longjmp(r->escape, 1);
}

/* libjpeg makes up what is missing; here that is an error. */
static void count_warning(j_common_ptr jpeg, int level) {
    if (level >= 0)
        return;
    switch (jpeg->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_BOGUS_PROGRESSION:
        stop_jpeg(jpeg);
        break;
    default:
        break;
    }
}

static void say_nothing(j_common_ptr jpeg) {
    (void)jpeg;
}

static void count_scans(j_common_ptr jpeg) {
    struct reading *r = jpeg->client_data;
    if (r->jpeg.input_scan_number > MOST_SCANS) {
        r->status =
            tmk_fail(r->diag, TMK_UNSUPPORTED, "is a JPEG of more than %d scans", MOST_SCANS);
        longjmp(r->escape, 1);
    }
}

/* a * b / 255, rounded. */
static unsigned scaled_size(unsigned a, unsigned b) {
    unsigned product = a * b + 128;
    return ((product >> 8) + product) >> 8;
}

/* Ink is stored as Adobe does it: 255 is none. */
static void row_from_cmyk(const unsigned char *ink, unsigned char *rgb, size_t n) {
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < 3; c++) {
            unsigned key = ink[4 * i + 3];
            rgb[3 * i + c] = (unsigned char)(key - scaled_size(255u - ink[4 * i + c], key));
        }
}

/* What comes in several scans libjpeg collects before it makes pixels of it. */
static enum tmk_status count_coefficients(struct reading *r) {
    struct jpeg_decompress_struct *jpeg = &r->jpeg;
    size_t blocks = 0;
    for (int i = 0; i < jpeg->num_components && jpeg_has_multiple_scans(jpeg); i++) {
        const jpeg_component_info *c = &jpeg->comp_info[i];
        blocks += ((size_t)c->width_in_blocks + (size_t)c->h_samp_factor) *
                  ((size_t)c->height_in_blocks + (size_t)c->v_samp_factor);
    }
    const size_t bytes = blocks * sizeof(JBLOCK);
    if (!tmk_memory_charge(bytes))
        return tmk_memory_fail(r->diag, bytes, "a JPEG of %u x %u pixels in several scans",
                               jpeg->image_width, jpeg->image_height);
    r->coefficients = bytes;
    return TMK_OK;
}

static enum tmk_status prepare_jpeg(struct reading *r) {
    struct jpeg_decompress_struct *jpeg = &r->jpeg;
    (void)jpeg_read_header(jpeg, TRUE);
    switch (jpeg->num_components) {
    case 1:
        jpeg->out_color_space = JCS_GRAYSCALE;
        break;
    case 3:
        jpeg->out_color_space = JCS_RGB;
        break;
    case 4:
        jpeg->out_color_space = JCS_CMYK;
        break;
    default:
        return tmk_fail(r->diag, TMK_UNSUPPORTED, "is a JPEG of %d components",
                        jpeg->num_components);
    }
    TMK_TRY(tmk_pixels_init(&r->pixels, jpeg->image_width, jpeg->image_height,
                            jpeg->num_components == 1 ? 1 : 3, r->diag));
    TMK_TRY(count_coefficients(r));
    if (jpeg->num_components != 4)
        return TMK_OK;
    r->row = malloc((size_t)jpeg->image_width * 4);
    return r->row ? TMK_OK : tmk_nomem(r->diag);
}

static void read_all(struct reading *r, const unsigned char *bytes, size_t len) {
    struct jpeg_decompress_struct *jpeg = &r->jpeg;
    if (setjmp(r->escape))
        return;
    jpeg_create_decompress(jpeg);
    jpeg->client_data = r;
    jpeg->progress = &r->progress;
    jpeg_mem_src(jpeg, bytes, (unsigned long)len);
    r->status = prepare_jpeg(r);
    if (r->status != TMK_OK)
        return;
    (void)jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        unsigned char *row =
            r->pixels.data + (size_t)jpeg->output_scanline * r->pixels.width * r->pixels.channels;
        JSAMPROW to = r->row ? r->row : row;
        (void)jpeg_read_scanlines(jpeg, &to, 1);
        if (r->row)
            row_from_cmyk(r->row, row, r->pixels.width);
    }
    (void)jpeg_finish_decompress(jpeg);
}

enum tmk_status tmk_jpeg_decode(const unsigned char *bytes, size_t len, struct tmk_pixels *out,
                                struct tmk_diag *diag) {
    struct reading *r = calloc(1, sizeof *r);
    TMK_TRY_ALLOC(r, diag);
    r->diag = diag;
    r->jpeg.err = jpeg_std_error(&r->errors);
    r->jpeg.client_data = r;
    r->errors.error_exit = stop_jpeg;
    r->errors.emit_message = count_warning;
    r->errors.output_message = say_nothing;
    r->progress.progress_monitor = count_scans;
    read_all(r, bytes, len);
    jpeg_destroy_decompress(&r->jpeg);
    tmk_memory_uncharge(r->coefficients);
    free(r->row);
    enum tmk_status status = r->status;
    if (status == TMK_OK)
        *out = r->pixels;
    else
        tmk_pixels_finish(&r->pixels);
    free(r);
    return status;
}
