/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/hdf5_in.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "base/utf8.h"

enum {
    BATCH_BYTES = 1 << 18,
    DEFLATE_RATIO = 1040,      /* deflate cannot pack tighter: 258 bytes in 2 bits */
    MAX_CHUNK_BYTES = 1 << 28, /* what the library may have to hold to read one element */
};

enum tmk_status tmk_h5_check(struct tmk_h5_reader *r, const char *what) {
    return r->h5.failed ? tmk_fail(r->diag, TMK_FORMAT, "/%s: %s", what, r->h5.why) : TMK_OK;
}

static enum tmk_status check_link(struct tmk_h5_reader *r, hid_t parent, const char *name) {
    H5L_info_t info;
    if (H5Lexists(parent, name, H5P_DEFAULT) <= 0)
        return tmk_fail(r->diag, TMK_FORMAT, "'%s' is missing", name);
    if (H5Lget_info(parent, name, &info, H5P_DEFAULT) < 0 || info.type != H5L_TYPE_HARD)
        return tmk_fail(r->diag, TMK_FORMAT, "'%s' points elsewhere", name);
    return TMK_OK;
}

static enum tmk_status check_layout(struct tmk_h5_reader *r, hid_t dataset, size_t element,
                                    const char *name) {
    struct tmk_h5 *h = &r->h5;
    hid_t list = tmk_h5_keep(h, H5Dget_create_plist(dataset));
    H5D_layout_t layout = H5Pget_layout(list);
    hsize_t chunk[H5S_MAX_RANK];
    size_t bytes = element;
    if (layout == H5D_VIRTUAL || layout == H5D_LAYOUT_ERROR || H5Pget_external_count(list) != 0)
        return tmk_fail(r->diag, TMK_FORMAT, "'%s' is stored outside the file", name);
    int rank = layout == H5D_CHUNKED ? H5Pget_chunk(list, H5S_MAX_RANK, chunk) : 0;
    for (int i = 0; i < rank; i++)
        if (!tmk_mul_size(bytes, (size_t)chunk[i], &bytes) || bytes > MAX_CHUNK_BYTES)
            return tmk_fail(r->diag, TMK_FORMAT, "'%s' has chunks that are too large", name);
    return TMK_OK;
}

enum tmk_status tmk_h5_open_dataset(struct tmk_h5_reader *r, hid_t parent, const char *name,
                                    int rank, hid_t *out, hsize_t *size) {
    struct tmk_h5 *h = &r->h5;
    TMK_TRY(check_link(r, parent, name));
    hid_t dataset = tmk_h5_keep(h, H5Dopen2(parent, name, H5P_DEFAULT));
    size_t mark = h->n_kept;
    hid_t space = tmk_h5_keep(h, H5Dget_space(dataset)),
          type = tmk_h5_keep(h, H5Dget_type(dataset));
    TMK_TRY(tmk_h5_check(r, name));
    size_t element = H5Tget_size(type), bytes = element;
    if (H5Sget_simple_extent_ndims(space) != rank || element == 0)
        return tmk_fail(r->diag, TMK_FORMAT, "'%s' has not %d dimensions", name, rank);
    TMK_TRY(check_layout(r, dataset, element, name));
    H5Sget_simple_extent_dims(space, size, NULL);
    uint64_t stored = H5Dget_storage_size(dataset), most;
    bool fits = !__builtin_mul_overflow(stored, (uint64_t)DEFLATE_RATIO, &most);
    for (int i = 0; i < rank && fits; i++)
        fits = tmk_mul_size(bytes, (size_t)size[i], &bytes);
    if (!fits || bytes > most)
        return tmk_fail(r->diag, TMK_FORMAT, "'%s' claims more than the file holds", name);
    tmk_h5_release(h, mark);
    *out = dataset;
    return TMK_OK;
}

bool tmk_h5_holds(hid_t type, enum tmk_h5_type wanted) {
    H5T_class_t class = H5Tget_class(type);
    switch (wanted) {
    case TMK_H5_TEXT:
    case TMK_H5_WORD:
        return class == H5T_STRING && H5Tis_variable_str(type) == 0;
    case TMK_H5_F32:
    case TMK_H5_F64:
        return class == H5T_FLOAT;
    default:
        return class == H5T_INTEGER;
    }
}

enum tmk_status tmk_h5_open_column(struct tmk_h5_reader *r, hid_t parent, const char *name,
                                   enum tmk_h5_type wanted, hid_t in_memory,
                                   struct tmk_h5_in *out) {
    *out = (struct tmk_h5_in){.name = name, .type = in_memory};
    TMK_TRY(tmk_h5_open_dataset(r, parent, name, 1, &out->dataset, &out->size));
    hid_t type = H5Dget_type(out->dataset);
    bool right = type >= 0 && tmk_h5_holds(type, wanted);
    if (type >= 0)
        H5Tclose(type);
    return right ? TMK_OK : tmk_fail(r->diag, TMK_FORMAT, "'%s' has the wrong type", name);
}

/* The columns that we know must be there; each, known or not, must lie inside its row. */
static enum tmk_status check_columns(struct tmk_h5_reader *r, hid_t type, const char *name,
                                     struct tmk_h5_layout *layout) {
    int members = H5Tget_nmembers(type);
    size_t row = H5Tget_size(type);
    for (int m = 0; m < members; m++) {
        hid_t element = H5Tget_member_type(type, (unsigned)m);
        size_t size = element < 0 ? 0 : H5Tget_size(element),
               at = H5Tget_member_offset(type, (unsigned)m);
        if (element >= 0)
            H5Tclose(element);
        if (size == 0 || at > row || size > row - at)
            return tmk_fail(r->diag, TMK_FORMAT, "'%s': column %d is outside its row", name, m);
    }
    for (size_t i = 0; i < layout->table->n_columns; i++) {
        const struct tmk_h5_column *column = &layout->table->columns[i];
        int member = H5Tget_member_index(type, column->name);
        layout->absent[i] = member < 0 && column->later;
        if (layout->absent[i])
            continue;
        hid_t element = member < 0 ? -1 : H5Tget_member_type(type, (unsigned)member);
        bool right = element >= 0 && tmk_h5_holds(element, column->type);
        if (right && column->type == TMK_H5_TEXT)
            layout->size[i] = H5Tget_size(element);
        if (element >= 0)
            H5Tclose(element);
        if (!right)
            return tmk_fail(r->diag, TMK_FORMAT,
                            "'%s': the column '%s' is missing or of another type", name,
                            column->name);
    }
    return TMK_OK;
}

/* A table that is read in batches of rows. Kept. */
struct table {
    struct tmk_h5_in column;
    struct tmk_h5_layout layout;
    unsigned char *rows; /* [batch], owned */
    hsize_t batch;
};

static enum tmk_status open_table(struct tmk_h5_reader *r, const char *name,
                                  const struct tmk_h5_table *table, struct table *out) {
    struct tmk_h5 *h = &r->h5;
    *out = (struct table){.column.name = name};
    tmk_h5_layout_init(&out->layout, table);
    TMK_TRY(tmk_h5_open_dataset(r, r->file, name, 1, &out->column.dataset, &out->column.size));
    hid_t type = tmk_h5_keep(h, H5Dget_type(out->column.dataset));
    if (H5Tget_class(type) != H5T_COMPOUND)
        return tmk_fail(r->diag, TMK_FORMAT, "'%s' is not a table", name);
    TMK_TRY(check_columns(r, type, name, &out->layout));
    if (!tmk_h5_layout_place(&out->layout) || out->layout.row > MAX_CHUNK_BYTES)
        return tmk_fail(r->diag, TMK_FORMAT, "'%s': its rows are too large", name);
    out->column.type = tmk_h5_layout_type(h, &out->layout, false);
    TMK_TRY(tmk_h5_check(r, name));
    out->batch = BATCH_BYTES / out->layout.row + 1;
    out->rows = calloc((size_t)out->batch, out->layout.row);
    return out->rows ? TMK_OK : tmk_nomem(r->diag);
}

enum tmk_status tmk_h5_take(struct tmk_h5_reader *r, struct tmk_h5_in *from, void *values,
                            hsize_t n) {
    struct tmk_h5 *h = &r->h5;
    size_t mark = h->n_kept;
    if (n == 0)
        return TMK_OK;
    if (n > from->size - from->at)
        return tmk_fail(r->diag, TMK_FORMAT, "'%s' is too short", from->name);
    hid_t file = tmk_h5_keep(h, H5Dget_space(from->dataset)),
          memory = tmk_h5_keep(h, H5Screate_simple(1, &n, NULL));
    tmk_h5_ok(h, H5Sselect_hyperslab(file, H5S_SELECT_SET, &from->at, NULL, &n, NULL));
    tmk_h5_ok(h, H5Dread(from->dataset, from->type, memory, file, H5P_DEFAULT, values));
    tmk_h5_release(h, mark);
    from->at += n;
    return tmk_h5_check(r, from->name);
}

/* Reads the next batch; its n rows are at from->rows, and 0 at the end. */
static enum tmk_status take_rows(struct tmk_h5_reader *r, struct table *from, hsize_t *n) {
    hsize_t left = from->column.size - from->column.at;
    *n = left < from->batch ? left : from->batch;
    TMK_TRY(tmk_h5_take(r, &from->column, from->rows, *n));
    for (hsize_t i = 0; i < *n; i++)
        tmk_h5_layout_load(&from->layout, from->rows + i * from->layout.row);
    return TMK_OK;
}

enum tmk_status
tmk_h5_each_row(struct tmk_h5_reader *r, const char *name, const struct tmk_h5_table *table,
                enum tmk_status (*fn)(struct tmk_h5_reader *r, void *row, void *context),
                void *context) {
    struct table from;
    enum tmk_status status = open_table(r, name, table, &from);
    hsize_t n = 1, done = 0;
    while (status == TMK_OK && n > 0) {
        status = take_rows(r, &from, &n);
        for (hsize_t i = 0; i < n && status == TMK_OK; i++, done++)
            status = tmk_in(r->diag, fn(r, from.rows + i * from.layout.row, context),
                            "%s[%" PRIu64 "]", name, (uint64_t)done);
    }
    free(from.rows);
    return status;
}

enum tmk_status tmk_h5_open_group(struct tmk_h5_reader *r, const char *name, hid_t *out) {
    TMK_TRY(check_link(r, r->file, name));
    *out = tmk_h5_keep(&r->h5, H5Gopen2(r->file, name, H5P_DEFAULT));
    return tmk_h5_check(r, name);
}

static enum tmk_status parse_text(struct tmk_h5_reader *r, const char *text, size_t len,
                                  cJSON **out) {
    if (!tmk_utf8_valid(text, strnlen(text, len)))
        return tmk_fail(r->diag, TMK_FORMAT, "not UTF-8");
    return tmk_json_parse(text, strnlen(text, len), out, r->diag);
}

enum tmk_status tmk_h5_read_json(struct tmk_h5_reader *r, const char *name, cJSON **out) {
    struct tmk_h5 *h = &r->h5;
    hid_t dataset;
    TMK_TRY(tmk_h5_open_dataset(r, r->file, name, 0, &dataset, NULL));
    hid_t type = tmk_h5_keep(h, H5Dget_type(dataset));
    if (!tmk_h5_holds(type, TMK_H5_WORD))
        return tmk_fail(r->diag, TMK_FORMAT, "'%s' is not a string of fixed length", name);
    size_t size = H5Tget_size(type);
    char *text = malloc(size);
    if (!text)
        return tmk_nomem(r->diag);
    tmk_h5_ok(h, H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text));
    enum tmk_status status = tmk_h5_check(r, name);
    if (status == TMK_OK)
        status = tmk_in(r->diag, parse_text(r, text, size, out), "'%s'", name);
    free(text);
    return status;
}

enum tmk_status tmk_h5_open_file(struct tmk_h5_reader *r, const char *path) {
    struct tmk_h5 *h = &r->h5;
    hid_t access = tmk_h5_keep(h, H5Pcreate(H5P_FILE_ACCESS));
#if H5_VERSION_GE(1, 10, 7)
    /* Locks fail on file systems without them, and a finished file is never written to. */
    tmk_h5_ok(h, H5Pset_file_locking(access, false, true));
#endif
    r->file = tmk_h5_keep(h, H5Fopen(path, H5F_ACC_RDONLY, access));
    return h->failed ? tmk_fail(r->diag, TMK_FORMAT, "damaged HDF5: %s", h->why) : TMK_OK;
}
