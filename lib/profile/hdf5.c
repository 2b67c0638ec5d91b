/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/hdf5.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"

void tmk_h5_begin(struct tmk_h5 *h) {
    *h = (struct tmk_h5){0};
    /* After some damaged files HDF5 cannot shut down, and reports it on stderr at exit. Everything
     * of ours is closed by then, so it need not end. Without effect where the program has used HDF5
     * before. */
    (void)H5dont_atexit();
    H5Eget_auto2(H5E_DEFAULT, &h->printer, &h->printer_data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

/* Closes what is kept, last first, and gives HDF5 its error printer back. */
static void end_h5(struct tmk_h5 *h) {
    tmk_h5_release(h, 0);
    H5Eset_auto2(H5E_DEFAULT, h->printer, h->printer_data);
}

static herr_t note_innermost(unsigned n, const H5E_error2_t *error, void *context) {
    struct tmk_h5 *h = context;
    if (n == 0 && error->desc)
        snprintf(h->why, sizeof h->why, "%s", error->desc);
    return 0;
}

bool tmk_h5_ok(struct tmk_h5 *h, herr_t result) {
    if (result < 0 && !h->failed) {
        h->failed = true;
        snprintf(h->why, sizeof h->why, "a call failed");
        H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, note_innermost, h);
    }
    return !h->failed;
}

hid_t tmk_h5_keep(struct tmk_h5 *h, hid_t id) {
    if (id < 0) {
        (void)tmk_h5_ok(h, -1);
        return id;
    }
    if (h->n_kept == TMK_COUNT(h->kept)) {
        H5Idec_ref(id);
        h->failed = true;
        snprintf(h->why, sizeof h->why, "too many open identifiers");
        return -1;
    }
    h->kept[h->n_kept++] = id;
    return id;
}

void tmk_h5_release(struct tmk_h5 *h, size_t mark) {
    while (h->n_kept > mark) /* a dataset writes what it still holds */
        (void)tmk_h5_ok(h, H5Idec_ref(h->kept[--h->n_kept]) < 0 ? -1 : 0);
}

hid_t tmk_h5_text_type(struct tmk_h5 *h, size_t size, bool in_file) {
    hid_t id = tmk_h5_keep(h, H5Tcopy(H5T_C_S1));
    tmk_h5_ok(h, H5Tset_size(id, size));
    tmk_h5_ok(h, H5Tset_strpad(id, in_file ? H5T_STR_NULLPAD : H5T_STR_NULLTERM));
    tmk_h5_ok(h, H5Tset_cset(id, H5T_CSET_UTF8));
    return id;
}

hid_t tmk_h5_number_type(enum tmk_h5_type type, bool in_file) {
    switch (type) {
    case TMK_H5_U8:
        return in_file ? H5T_STD_U8LE : H5T_NATIVE_UINT8;
    case TMK_H5_U16:
        return in_file ? H5T_STD_U16LE : H5T_NATIVE_UINT16;
    case TMK_H5_U32:
        return in_file ? H5T_STD_U32LE : H5T_NATIVE_UINT32;
    case TMK_H5_U64:
        return in_file ? H5T_STD_U64LE : H5T_NATIVE_UINT64;
    case TMK_H5_I32:
        return in_file ? H5T_STD_I32LE : H5T_NATIVE_INT32;
    case TMK_H5_I64:
        return in_file ? H5T_STD_I64LE : H5T_NATIVE_INT64;
    case TMK_H5_F32:
        return in_file ? H5T_IEEE_F32LE : H5T_NATIVE_FLOAT;
    default:
        return in_file ? H5T_IEEE_F64LE : H5T_NATIVE_DOUBLE;
    }
}

static hid_t element_type(struct tmk_h5 *h, enum tmk_h5_type type, size_t text, bool in_file) {
    if (type == TMK_H5_WORD)
        return tmk_h5_text_type(h, TMK_H5_WORD_SIZE, in_file);
    if (type == TMK_H5_TEXT)
        return tmk_h5_text_type(h, in_file && text ? text : text + 1, in_file);
    return tmk_h5_number_type(type, in_file);
}

hid_t tmk_h5_layout_type(struct tmk_h5 *h, const struct tmk_h5_layout *layout, bool in_file) {
    hid_t compound = H5Tcreate(H5T_COMPOUND, layout->row);
    size_t mark = h->n_kept;
    for (size_t i = 0; i < layout->n; i++) {
        const struct tmk_h5_column *column = &layout->column[i];
        hid_t element = element_type(h, column->type, column->size, in_file);
        tmk_h5_ok(h, H5Tinsert(compound, column->name, column->at, element));
        tmk_h5_release(h, mark);
    }
    if (in_file)
        tmk_h5_ok(h, H5Tpack(compound));
    return tmk_h5_keep(h, compound);
}

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
    end_h5(h);
    size_t size = image_size(image);
    if (status == TMK_OK && (h->failed || size == 0))
        status = tmk_fail(diag, TMK_WRITE, "%s: HDF5 cannot make the file: %s", out->path, h->why);
    if (status == TMK_OK)
        status = tmk_outfile_write(out, image->bytes, size, diag);
    free(image->bytes);
    return status;
}
