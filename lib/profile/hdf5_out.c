/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/hdf5_out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/json.h"
#include "base/size.h"

enum { DEFLATE_LEVEL = 4, CHUNK_ROWS = 256, CHUNK_BYTES = 1 << 18 };

/* UTF-8 of a fixed length > 0, zero-padded in the file or terminated in memory. Kept. */
static hid_t text_type(struct tmk_h5 *h, size_t size, bool in_file) {
    hid_t id = tmk_h5_keep(h, H5Tcopy(H5T_C_S1));
    tmk_h5_ok(h, H5Tset_size(id, size));
    tmk_h5_ok(h, H5Tset_strpad(id, in_file ? H5T_STR_NULLPAD : H5T_STR_NULLTERM));
    tmk_h5_ok(h, H5Tset_cset(id, H5T_CSET_UTF8));
    return id;
}

/* Not kept. */
static hid_t number_type(enum tmk_h5_type type, bool in_file) {
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
        return text_type(h, TMK_H5_WORD_SIZE, in_file);
    if (type == TMK_H5_TEXT)
        return text_type(h, in_file && text ? text : text + 1, in_file);
    return number_type(type, in_file);
}

/* The compound type of a table: a row in memory, or packed and little-endian in the file. Kept. */
static hid_t layout_type(struct tmk_h5 *h, const struct tmk_h5_layout *layout, bool in_file) {
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

void tmk_h5_put_attribute(struct tmk_h5 *h, hid_t at, const char *name, hid_t in_file,
                          hid_t in_memory, hid_t space, const void *value) {
    hid_t attribute =
        tmk_h5_keep(h, H5Acreate2(at, name, in_file, space, H5P_DEFAULT, H5P_DEFAULT));
    tmk_h5_ok(h, H5Awrite(attribute, in_memory, value));
}

void tmk_h5_put_text(struct tmk_h5 *h, hid_t at, const char *name, const char *text) {
    size_t mark = h->n_kept;
    hid_t type = text_type(h, H5T_VARIABLE, false);
    tmk_h5_put_attribute(h, at, name, type, type, tmk_h5_keep(h, H5Screate(H5S_SCALAR)), &text);
    tmk_h5_release(h, mark);
}

void tmk_h5_put_u64(struct tmk_h5 *h, hid_t at, const char *name, uint64_t value) {
    size_t mark = h->n_kept;
    tmk_h5_put_attribute(h, at, name, H5T_STD_U64LE, H5T_NATIVE_UINT64,
                         tmk_h5_keep(h, H5Screate(H5S_SCALAR)), &value);
    tmk_h5_release(h, mark);
}

void tmk_h5_describe(struct tmk_h5 *h, hid_t dataset, const char *units, const char *about) {
    tmk_h5_put_text(h, dataset, "units", units);
    tmk_h5_put_text(h, dataset, "long_name", about);
}

hid_t tmk_h5_creation(struct tmk_h5 *h, int rank, const hsize_t *size, const hsize_t *chunk) {
    hid_t list = tmk_h5_keep(h, H5Pcreate(H5P_DATASET_CREATE));
    tmk_h5_ok(h, H5Pset_obj_track_times(list, false));
    hsize_t cut[2] = {1, 1};
    bool empty = false;
    for (int i = 0; i < rank; i++) {
        empty = empty || size[i] == 0;
        cut[i] = chunk[i] < size[i] ? chunk[i] : size[i];
    }
    if (rank == 0 || empty)
        return list;
    tmk_h5_ok(h, H5Pset_chunk(list, rank, cut));
    if (H5Zfilter_avail(H5Z_FILTER_DEFLATE) > 0) {
        /* Their own setters would leave a chunk as it is when memory runs out: other bytes. */
        tmk_h5_ok(h, H5Pset_filter(list, H5Z_FILTER_SHUFFLE, H5Z_FLAG_MANDATORY, 0, NULL));
        tmk_h5_ok(h, H5Pset_filter(list, H5Z_FILTER_DEFLATE, H5Z_FLAG_MANDATORY, 1,
                                   (const unsigned[]){DEFLATE_LEVEL}));
    }
    return list;
}

static struct tmk_h5_out new_dataset(struct tmk_h5 *h, hid_t parent, const char *name,
                                     hid_t in_file, hid_t in_memory, hsize_t size, hsize_t chunk) {
    hid_t dataset =
        H5Dcreate2(parent, name, in_file, tmk_h5_keep(h, H5Screate_simple(1, &size, NULL)),
                   H5P_DEFAULT, tmk_h5_creation(h, 1, &size, &chunk), H5P_DEFAULT);
    return (struct tmk_h5_out){tmk_h5_keep(h, dataset), in_memory, 0};
}

struct tmk_h5_out tmk_h5_new_column(struct tmk_h5 *h, hid_t parent, const char *name,
                                    enum tmk_h5_type type, hsize_t size) {
    return new_dataset(h, parent, name, number_type(type, true), number_type(type, false), size,
                       TMK_H5_CHUNK_ELEMENTS);
}

void tmk_h5_new_columns(struct tmk_h5 *h, hid_t parent, const struct tmk_h5_flat *flat, size_t n,
                        hsize_t size, struct tmk_h5_out *out) {
    for (size_t i = 0; i < n; i++)
        out[i] = tmk_h5_new_column(h, parent, flat[i].name, flat[i].type, size);
    for (size_t i = 0; i < n; i++)
        tmk_h5_describe(h, out[i].dataset, flat[i].units, flat[i].about);
}

void tmk_h5_append(struct tmk_h5 *h, struct tmk_h5_out *to, const void *values, hsize_t n) {
    size_t mark = h->n_kept;
    if (n == 0 || h->failed)
        return;
    hid_t file = tmk_h5_keep(h, H5Dget_space(to->dataset)),
          memory = tmk_h5_keep(h, H5Screate_simple(1, &n, NULL));
    tmk_h5_ok(h, H5Sselect_hyperslab(file, H5S_SELECT_SET, &to->at, NULL, &n, NULL));
    tmk_h5_ok(h, H5Dwrite(to->dataset, to->type, memory, file, H5P_DEFAULT, values));
    to->at += n;
    tmk_h5_release(h, mark);
}

hid_t tmk_h5_new_group(struct tmk_h5 *h, hid_t parent, const char *name, const char *about) {
    hid_t list = tmk_h5_keep(h, H5Pcreate(H5P_GROUP_CREATE));
    tmk_h5_ok(h, H5Pset_obj_track_times(list, false));
    hid_t group = tmk_h5_keep(h, H5Gcreate2(parent, name, H5P_DEFAULT, list, H5P_DEFAULT));
    tmk_h5_put_text(h, group, "long_name", about);
    return group;
}

void tmk_h5_new_header(struct tmk_h5 *h, hid_t file, const struct tmk_text *json) {
    hid_t type = text_type(h, json->len, true), list = tmk_h5_creation(h, 0, NULL, NULL);
    hid_t space = tmk_h5_keep(h, H5Screate(H5S_SCALAR));
    hid_t dataset =
        tmk_h5_keep(h, H5Dcreate2(file, "header", type, space, H5P_DEFAULT, list, H5P_DEFAULT));
    tmk_h5_ok(h, H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, json->data));
    tmk_h5_put_text(h, dataset, "long_name", "the JSON file's header, an object of JSON");
}

/* ---- tables ---- */

/* `record` is scratch for one record, as everywhere here. */
static enum tmk_status next_record(const struct tmk_h5_rows *rows, struct tmk_h5_cursor *cursor,
                                   void *record) {
    memset(record, 0, rows->table->record);
    return rows->next(rows->source, cursor, record) ? TMK_OK : TMK_NOTFOUND;
}

static enum tmk_status measure_rows(const struct tmk_h5_rows *rows, struct tmk_h5_layout *layout,
                                    void *record, hsize_t *n, struct tmk_diag *diag) {
    struct tmk_h5_cursor cursor = {0, 0};
    for (*n = 0; next_record(rows, &cursor, record) == TMK_OK; ++*n)
        TMK_TRY(tmk_h5_layout_measure(layout, record, diag));
    return tmk_h5_layout_place(layout) ? TMK_OK : tmk_nomem(diag);
}

static enum tmk_status fill_columns(struct tmk_h5 *h, const struct tmk_h5_rows *rows,
                                    const struct tmk_h5_layout *layout, void *record, hsize_t batch,
                                    struct tmk_h5_out *to, struct tmk_diag *diag) {
    struct tmk_h5_cursor cursor = {0, 0};
    enum tmk_status status = TMK_OK;
    unsigned char *buffer = malloc((size_t)batch * layout->row);
    TMK_TRY_ALLOC(buffer, diag);
    while (status == TMK_OK) {
        hsize_t n = 0;
        while (n < batch && (status = next_record(rows, &cursor, record)) == TMK_OK &&
               (status = tmk_h5_layout_store(layout, record, buffer + n * layout->row, diag)) ==
                   TMK_OK)
            n++;
        tmk_h5_append(h, to, buffer, n);
    }
    free(buffer);
    return status == TMK_NOTFOUND ? TMK_OK : status;
}

static enum tmk_status new_table(struct tmk_h5 *h, hid_t parent, const char *name,
                                 const char *about, const struct tmk_h5_rows *rows, void *record,
                                 hid_t *dataset, struct tmk_diag *diag) {
    struct tmk_h5_layout layout;
    hsize_t n = 0;
    tmk_h5_layout_init(&layout, rows->table);
    TMK_TRY(measure_rows(rows, &layout, record, &n, diag));
    hsize_t batch = CHUNK_BYTES / layout.row;
    batch = batch > CHUNK_ROWS ? CHUNK_ROWS : batch ? batch : 1;
    struct tmk_h5_out to = new_dataset(h, parent, name, layout_type(h, &layout, true),
                                       layout_type(h, &layout, false), n, batch);
    tmk_h5_put_text(h, to.dataset, "long_name", about);
    /* What the columns of a table mean, as a JSON object: HDF5 has no attributes for members. */
    struct tmk_json_out columns = tmk_json_new_object();
    struct tmk_text text = {0};
    for (size_t i = 0; i < layout.n; i++) {
        struct tmk_json_out column = tmk_json_new_object();
        tmk_json_put_text(&column, "units", layout.column[i].field->units);
        tmk_json_put_text(&column, "long_name", layout.column[i].field->about);
        tmk_json_put_child(&columns, layout.column[i].name, &column);
    }
    enum tmk_status status = tmk_json_finish(&columns, &text, diag);
    if (status == TMK_OK)
        tmk_h5_put_text(h, to.dataset, "columns", text.data);
    tmk_text_finish(&text);
    TMK_TRY(status);
    TMK_TRY(fill_columns(h, rows, &layout, record, batch, &to, diag));
    if (dataset)
        *dataset = to.dataset;
    return TMK_OK;
}

enum tmk_status tmk_h5_new_table(struct tmk_h5 *h, hid_t parent, const char *name,
                                 const char *about, const struct tmk_h5_rows *rows, hid_t *dataset,
                                 struct tmk_diag *diag) {
    void *record = malloc(rows->table->record);
    TMK_TRY_ALLOC(record, diag);
    enum tmk_status status = new_table(h, parent, name, about, rows, record, dataset, diag);
    free(record);
    return status;
}

/* ---- sessions and their files ---- */

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
    /* Datasets are filled from their start: each needs the chunk at hand, not a MiB of them. */
    tmk_h5_ok(h, H5Pset_cache(access, 0, 1, TMK_H5_CHUNK_ELEMENTS * sizeof(uint64_t), 1.0));
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
    TMK_THEN(status, tmk_outfile_write(out, image->bytes, size, diag));
    free(image->bytes);
    return status;
}
