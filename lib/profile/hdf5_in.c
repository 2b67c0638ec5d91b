/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/hdf5_in.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "base/text.h"

enum {
    BATCH_BYTES = 1 << 18,
    DEFLATE_RATIO = 1040,      /* deflate cannot pack tighter: 258 bytes in 2 bits */
    MAX_CHUNK_BYTES = 1 << 28, /* what the library may have to hold to read one element */
};

enum tmk_status tmk_h5_begin_file(struct tmk_h5_reader *r, const char *path) {
    return tmk_hdf5_open(path, &r->file, r->diag);
}

void tmk_h5_end_file(struct tmk_h5_reader *r) {
    tmk_hdf5_close(&r->file);
    tmk_arena_finish(&r->arena);
}

enum tmk_status tmk_h5_has(struct tmk_h5_reader *r, const char *path, bool *out) {
    enum tmk_hdf5_kind kind;
    TMK_TRY(tmk_hdf5_look(r->file, path, &kind, NULL, r->diag));
    *out = kind != TMK_HDF5_NOTHING;
    return TMK_OK;
}

static enum tmk_status check_layout(struct tmk_h5_reader *r, const struct tmk_hdf5_dataset *set,
                                    const char *path) {
    size_t bytes = set->element.size;
    for (int i = 0; i < set->rank && set->chunk[i]; i++)
        if (!tmk_mul_size(bytes, (size_t)set->chunk[i], &bytes) || bytes > MAX_CHUNK_BYTES)
            return tmk_fail(r->diag, TMK_FORMAT, "'%s' has chunks that are too large", path);
    return TMK_OK;
}

enum tmk_status tmk_h5_open_dataset(struct tmk_h5_reader *r, const char *path, int rank,
                                    struct tmk_hdf5_dataset *out) {
    struct tmk_hdf5_dataset set;
    enum tmk_hdf5_kind kind;
    bool linked;
    TMK_TRY(tmk_hdf5_look(r->file, path, &kind, &linked, r->diag));
    if (kind == TMK_HDF5_NOTHING)
        return tmk_fail(r->diag, TMK_FORMAT, "'%s' is missing", path);
    if (linked)
        TMK_TRY(tmk_fail(r->diag, TMK_FORMAT, "'%s' points elsewhere", path));
    TMK_TRY(tmk_in(r->diag, tmk_hdf5_dataset_open(r->file, path, &set, r->diag), "'%s'", path));
    if (set.rank != rank)
        return tmk_fail(r->diag, TMK_FORMAT, "'%s' has not %d dimensions", path, rank);
    TMK_TRY(check_layout(r, &set, path));
    /* HDF5 itself does not look how much a compact dataset holds. */
    uint64_t ratio = rank && set.chunk[0] ? DEFLATE_RATIO : 1, most;
    size_t bytes = set.element.size;
    bool fits = !__builtin_mul_overflow(set.stored, ratio, &most);
    for (int i = 0; i < rank && fits; i++)
        fits = tmk_mul_size(bytes, (size_t)set.dim[i], &bytes);
    if (!fits || bytes > most)
        return tmk_fail(r->diag, TMK_FORMAT, "'%s' claims more than the file holds", path);
    *out = set;
    return TMK_OK;
}

static const enum tmk_hdf5_as read_as[] = {
    [TMK_H5_U8] = TMK_HDF5_U8,      [TMK_H5_U16] = TMK_HDF5_U16, [TMK_H5_U32] = TMK_HDF5_U32,
    [TMK_H5_U64] = TMK_HDF5_U64,    [TMK_H5_I32] = TMK_HDF5_I32, [TMK_H5_I64] = TMK_HDF5_I64,
    [TMK_H5_F32] = TMK_HDF5_F32,    [TMK_H5_F64] = TMK_HDF5_F64, [TMK_H5_WORD] = TMK_HDF5_CHARS,
    [TMK_H5_TEXT] = TMK_HDF5_CHARS,
};

/* Whether a type in the file is one that numbers or text in memory are made from. */
static bool can_hold(const struct tmk_hdf5_element *element, enum tmk_hdf5_as as) {
    switch (as) {
    case TMK_HDF5_CHARS:
        return element->is == TMK_HDF5_FIXED;
    case TMK_HDF5_F32:
    case TMK_HDF5_F64:
        return element->is == TMK_HDF5_FLOAT;
    default:
        return element->is == TMK_HDF5_INTEGER;
    }
}

enum tmk_status tmk_h5_open_numbers(struct tmk_h5_reader *r, const char *path, int rank,
                                    enum tmk_hdf5_as as, struct tmk_hdf5_dataset *out) {
    TMK_TRY(tmk_h5_open_dataset(r, path, rank, out));
    if (!can_hold(&out->element, as))
        return tmk_fail(r->diag, TMK_FORMAT, "'%s' has the wrong type", path);
    return tmk_in(r->diag, tmk_hdf5_read_as(r->file, out, as, 0, r->diag), "'%s'", path);
}

/* Space for what is read ahead of so many entries. */
static enum tmk_status make_block(struct tmk_h5_reader *r, struct tmk_h5_in *in) {
    in->size = in->set.dim[0];
    uint64_t most = BATCH_BYTES / in->set.size + 1, n = in->size < most ? in->size : most;
    in->block = tmk_arena_array(&r->arena, (size_t)n, in->set.size);
    return in->block ? TMK_OK : tmk_nomem(r->diag);
}

enum tmk_status tmk_h5_open_column(struct tmk_h5_reader *r, const char *path, enum tmk_hdf5_as as,
                                   struct tmk_h5_in *out) {
    *out = (struct tmk_h5_in){.name = path};
    TMK_TRY(tmk_h5_open_numbers(r, path, 1, as, &out->set));
    return make_block(r, out);
}

enum tmk_status tmk_h5_open_columns(struct tmk_h5_reader *r, const char *group,
                                    const struct tmk_h5_flat *flat, size_t n,
                                    struct tmk_h5_in *out) {
    for (size_t i = 0; i < n; i++) {
        struct tmk_text path = {0};
        bool has = true;
        tmk_text_printf(&path, "%s/%s", group, flat[i].name);
        out[i] =
            (struct tmk_h5_in){.name = path.failed ? NULL : tmk_arena_strdup(&r->arena, path.data)};
        tmk_text_finish(&path);
        TMK_TRY_ALLOC(out[i].name, r->diag);
        if (flat[i].later)
            TMK_TRY(tmk_h5_has(r, out[i].name, &has));
        if (!has)
            continue;
        TMK_TRY(tmk_h5_open_column(r, out[i].name, read_as[flat[i].type], &out[i]));
        if (out[i].size != out[0].size)
            return tmk_fail(r->diag, TMK_FORMAT, "'%s': its parts have different sizes", group);
    }
    return TMK_OK;
}

/* Reads as much ahead as the block holds, from the column's position. */
static enum tmk_status fill_block(struct tmk_h5_reader *r, struct tmk_h5_in *from) {
    uint64_t most = BATCH_BYTES / from->set.size + 1, left = from->size - from->at,
             n = left < most ? left : most;
    TMK_TRY(tmk_in(r->diag, tmk_hdf5_read(r->file, &from->set, from->at, n, from->block, r->diag),
                   "'%s'", from->name));
    from->start = from->at;
    from->end = from->at + n;
    return TMK_OK;
}

enum tmk_status tmk_h5_take(struct tmk_h5_reader *r, struct tmk_h5_in *from, void *values,
                            uint64_t n) {
    unsigned char *to = values;
    if (n > from->size - from->at)
        return tmk_fail(r->diag, TMK_FORMAT, "'%s' is too short", from->name);
    while (n > 0) {
        if (from->at == from->end)
            TMK_TRY(fill_block(r, from));
        uint64_t here = from->end - from->at < n ? from->end - from->at : n;
        size_t bytes = (size_t)here * from->set.size;
        memcpy(to, from->block + (size_t)(from->at - from->start) * from->set.size, bytes);
        to += bytes;
        from->at += here;
        n -= here;
    }
    return TMK_OK;
}

/* ---- tables ---- */

/* The columns that we know must be there. */
static enum tmk_status check_columns(struct tmk_h5_reader *r, const struct tmk_hdf5_dataset *set,
                                     const char *name, struct tmk_h5_layout *layout) {
    const char *names[TMK_H5_MAX_COLUMNS];
    struct tmk_hdf5_element is[TMK_H5_MAX_COLUMNS];
    for (size_t i = 0; i < layout->n; i++)
        names[i] = layout->column[i].name;
    TMK_TRY(tmk_in(r->diag, tmk_hdf5_columns(r->file, set, names, (uint32_t)layout->n, is, r->diag),
                   "'%s'", name));
    for (size_t i = 0; i < layout->n; i++) {
        struct tmk_h5_column *column = &layout->column[i];
        column->absent = is[i].is == TMK_HDF5_NONE && column->field->flags & TMK_FIELD_LATER;
        if (column->absent)
            continue;
        if (!can_hold(&is[i], read_as[column->type]))
            return tmk_fail(r->diag, TMK_FORMAT,
                            "'%s': the column '%s' is missing or of another type", name,
                            column->name);
        if (column->type == TMK_H5_TEXT)
            column->size = is[i].size;
    }
    return TMK_OK;
}

/* The record is handed over even where only a part of it was read: it may own memory. */
static enum tmk_status load_row(struct tmk_h5_reader *r, const struct tmk_h5_layout *layout,
                                unsigned char *row, void *record, tmk_h5_row_reader *fn,
                                void *context) {
    memset(record, 0, layout->table->record);
    enum tmk_status status = tmk_h5_layout_load(layout, &r->fields, row, record);
    return fn(r, status, record, context);
}

enum tmk_status tmk_h5_each_row(struct tmk_h5_reader *r, const char *name,
                                const struct tmk_h5_table *table, tmk_h5_row_reader *fn,
                                void *context) {
    struct tmk_h5_in from;
    struct tmk_h5_layout layout;
    tmk_h5_layout_init(&layout, table);
    /* A table that is read in batches of rows. */
    from = (struct tmk_h5_in){.name = name};
    TMK_TRY(tmk_h5_open_dataset(r, name, 1, &from.set));
    if (from.set.element.is != TMK_HDF5_TABLE)
        return tmk_fail(r->diag, TMK_FORMAT, "'%s' is not a table", name);
    TMK_TRY(check_columns(r, &from.set, name, &layout));
    if (!tmk_h5_layout_place(&layout) || layout.row > TMK_HDF5_MAX_ELEMENT)
        return tmk_fail(r->diag, TMK_FORMAT, "'%s': its rows are too large", name);
    struct tmk_hdf5_field fields[TMK_H5_MAX_COLUMNS];
    uint32_t n = 0;
    for (size_t i = 0; i < layout.n; i++) {
        const struct tmk_h5_column *column = &layout.column[i];
        size_t chars = column->type == TMK_H5_TEXT   ? column->size + 1
                       : column->type == TMK_H5_WORD ? TMK_H5_WORD_SIZE
                                                     : 0;
        if (!column->absent)
            fields[n++] =
                (struct tmk_hdf5_field){column->name, read_as[column->type], chars, column->at};
    }
    TMK_TRY(tmk_in(r->diag, tmk_hdf5_rows_as(r->file, &from.set, fields, n, layout.row, r->diag),
                   "'%s'", name));
    TMK_TRY(make_block(r, &from));
    void *record = tmk_arena_alloc(&r->arena, table->record);
    TMK_TRY_ALLOC(record, r->diag);
    for (; from.at < from.size; from.at++) {
        if (from.at == from.end)
            TMK_TRY(fill_block(r, &from));
        unsigned char *row = from.block + (size_t)(from.at - from.start) * layout.row;
        TMK_TRY(tmk_in(r->diag, load_row(r, &layout, row, record, fn, context), "%s[%" PRIu64 "]",
                       name, from.at));
    }
    return TMK_OK;
}

/* ---- JSON ---- */

static enum tmk_status parse_text(struct tmk_h5_reader *r, const char *text, cJSON **out) {
    if (!tmk_utf8_valid(text, strlen(text)))
        return tmk_fail(r->diag, TMK_FORMAT, "not UTF-8");
    return tmk_json_parse(text, strlen(text), out, r->diag);
}

enum tmk_status tmk_h5_read_header(struct tmk_h5_reader *r, cJSON **out) {
    static const char path[] = "header";
    struct tmk_hdf5_dataset set;
    TMK_TRY(tmk_h5_open_dataset(r, path, 0, &set));
    if (!can_hold(&set.element, TMK_HDF5_CHARS))
        return tmk_fail(r->diag, TMK_FORMAT, "'%s' is not a string of fixed length", path);
    size_t size = set.element.size + 1;
    char *text = malloc(size);
    TMK_TRY_ALLOC(text, r->diag);
    enum tmk_status status = tmk_hdf5_read_as(r->file, &set, TMK_HDF5_CHARS, size, r->diag);
    TMK_THEN(status, tmk_hdf5_read(r->file, &set, 0, 1, text, r->diag));
    text[size - 1] = '\0';
    TMK_THEN(status, parse_text(r, text, out));
    free(text);
    return tmk_in(r->diag, status, "'%s'", path);
}
