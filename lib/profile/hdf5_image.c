/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/hdf5_image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"

enum { IMAGE_GROWTH = 1 << 20 };

static void *image_malloc(size_t size, H5FD_file_image_op_t op, void *image) {
    (void)op;
    (void)image;
    return malloc(size);
}

static void *image_memcpy(void *to, const void *from, size_t size, H5FD_file_image_op_t op,
                          void *image) {
    (void)op;
    (void)image;
    return memcpy(to, from, size);
}

static void *image_realloc(void *bytes, size_t size, H5FD_file_image_op_t op, void *image) {
    (void)op;
    (void)image;
    return realloc(bytes, size);
}

static herr_t image_free(void *bytes, H5FD_file_image_op_t op, void *image) {
    struct tmk_h5_image *taken = image;
    if (op == H5FD_FILE_IMAGE_OP_FILE_CLOSE && !taken->bytes)
        taken->bytes = bytes;
    else
        free(bytes);
    return 0;
}

static void *image_same(void *image) {
    return image;
}

static herr_t image_left(void *image) {
    (void)image;
    return 0;
}

hid_t tmk_h5_image_open(struct tmk_h5 *h, struct tmk_h5_image *image) {
    char name[48]; /* of no file, or HDF5 would open it first; and of this image only */
    snprintf(name, sizeof name, "/dev/null/%p", (void *)image);
    H5FD_file_image_callbacks_t callbacks = {image_malloc, image_memcpy, image_realloc, image_free,
                                             image_same,   image_left,   image};
    hid_t access = tmk_h5_keep(h, H5Pcreate(H5P_FILE_ACCESS)),
          create = tmk_h5_keep(h, H5Pcreate(H5P_FILE_CREATE));
    tmk_h5_ok(h, H5Pset_fapl_core(access, IMAGE_GROWTH, false));
    tmk_h5_ok(h, H5Pset_file_image_callbacks(access, &callbacks));
    /* Read by every HDF5 since 1.8, and the first format whose metadata has checksums. */
    tmk_h5_ok(h, H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V18));
    tmk_h5_ok(h, H5Pset_obj_track_times(create, false));
    hid_t file = h->failed ? -1 : H5Fcreate(name, H5F_ACC_TRUNC, create, access);
    tmk_h5_ok(h, file < 0 ? -1 : 0);
    return file;
}

/* The memory is larger than the file. The file's end is in its superblock (HDF5 File Format
 * Specification 3.0, II.A, version 2: at byte 28, after addresses of the size at byte 9). */
static size_t image_size(const struct tmk_h5_image *image) {
    enum { VERSION = 8, ADDRESS_SIZE = 9, END = 28 };
    uint64_t size = 0;
    if (!image->bytes || image->bytes[VERSION] != 2 || image->bytes[ADDRESS_SIZE] != 8)
        return 0;
    for (int i = 7; i >= 0; i--)
        size = size << 8 | image->bytes[END + i];
    return (size_t)size;
}

enum tmk_status tmk_h5_image_finish(struct tmk_h5 *h, hid_t file, struct tmk_h5_image *image,
                                    enum tmk_status status, struct tmk_outfile *out,
                                    struct tmk_diag *diag) {
    if (file >= 0)
        tmk_h5_ok(h, H5Fclose(file));
    tmk_h5_end(h);
    size_t size = image_size(image);
    if (status == TMK_OK && (h->failed || size == 0))
        status = tmk_fail(diag, TMK_WRITE, "%s: HDF5 cannot make the file: %s", out->path, h->why);
    if (status == TMK_OK)
        status = tmk_outfile_write(out, image->bytes, size, diag);
    free(image->bytes);
    return status;
}
