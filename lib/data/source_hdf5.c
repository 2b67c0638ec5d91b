/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays in an HDF5 file: FILE.h5:/path is one dataset; a group (or the file alone, which is its
 * root) gives its datasets by their names. Entries are read as they are wanted, by a process of the
 * file's own (hdf5/file.h). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "data/kind.h"
#include "hdf5/file.h"

enum {
    LARGEST_UNWRITTEN = 1 << 28, /* bytes of an array that the file need not hold */
    BEST_PACKED = 1 << 15        /* bytes that a filter is believed to make of one */
};

struct table {
    struct tmk_hdf5_dataset set;
    enum tmk_dtype stored;
    const char *refusal; /* why it cannot be read; static text */
};

struct hdf5 {
    struct tmk_hdf5 *file;
    struct table *tables; /* one an array */
};

static bool claims_hdf5(const struct tmk_source_probe *probe) {
    return !probe->stream &&
           (memcmp(probe->start, "\x89HDF\r\n\x1a\n", 8) == 0 || probe->inside ||
            tmk_source_ends_in(probe->path, ".h5") || tmk_source_ends_in(probe->path, ".hdf5"));
}

/* How elements of a type are kept, and as what they are read. */
struct row {
    enum tmk_hdf5_class is;
    bool is_signed;
    size_t size;
    uint32_t exponent_bits;
    enum tmk_dtype stored;
    enum tmk_hdf5_as as;
};

static const struct row rows[] = {
    {TMK_HDF5_FLOAT, false, 8, 11, TMK_FLOAT64, TMK_HDF5_F64},
    {TMK_HDF5_FLOAT, false, 4, 8, TMK_FLOAT32, TMK_HDF5_F32},
    {TMK_HDF5_FLOAT, false, 2, 5, TMK_FLOAT16, TMK_HDF5_F32}, /* which is exact */
    {TMK_HDF5_FLOAT, false, 2, 8, TMK_BFLOAT16, TMK_HDF5_F32},
    {TMK_HDF5_INTEGER, true, 1, 0, TMK_INT8, TMK_HDF5_I8},
    {TMK_HDF5_INTEGER, true, 2, 0, TMK_INT16, TMK_HDF5_I16},
    {TMK_HDF5_INTEGER, true, 4, 0, TMK_INT32, TMK_HDF5_I32},
    {TMK_HDF5_INTEGER, true, 8, 0, TMK_INT64, TMK_HDF5_I64},
    {TMK_HDF5_INTEGER, false, 1, 0, TMK_UINT8, TMK_HDF5_U8},
    {TMK_HDF5_INTEGER, false, 2, 0, TMK_UINT16, TMK_HDF5_U16},
    {TMK_HDF5_INTEGER, false, 4, 0, TMK_UINT32, TMK_HDF5_U32},
    {TMK_HDF5_INTEGER, false, 8, 0, TMK_UINT64, TMK_HDF5_U64},
    {TMK_HDF5_BOOL, false, 1, 0, TMK_BOOL, TMK_HDF5_BYTE},
};

static enum tmk_status choose_type(struct tmk_hdf5 *file, struct table *table,
                                   struct tmk_diag *diag) {
    const struct tmk_hdf5_element *is = &table->set.element;
    for (size_t i = 0; i < TMK_COUNT(rows); i++)
        if (rows[i].is == is->is && rows[i].is_signed == is->is_signed &&
            rows[i].size == is->size && rows[i].exponent_bits == is->exponent_bits) {
            table->stored = rows[i].stored;
            return tmk_hdf5_read_as(file, &table->set, rows[i].as, 0, diag);
        }
    table->refusal = "elements of this type are not read";
    return TMK_OK;
}

/* Could the file hold so many bytes of the array? A damaged shape may need any amount of memory.
 * Parts that were not written are zeros. */
static bool could_hold(const struct hdf5 *h, const struct table *table, size_t bytes) {
    const struct tmk_hdf5_dataset *set = &table->set;
    if (set->compact) /* HDF5 copies from the object's header without looking */
        return bytes <= set->stored;
    return bytes <= LARGEST_UNWRITTEN ||
           bytes / (set->filtered ? BEST_PACKED : 1) <= tmk_hdf5_bytes(h->file)->size;
}

static enum tmk_status read_shape(const struct hdf5 *h, struct table *table,
                                  struct tmk_source_array *array, struct tmk_diag *diag) {
    const struct tmk_hdf5_dataset *set = &table->set;
    size_t elements, bytes;
    if (set->rank > TMK_MAX_RANK) {
        table->refusal = "arrays of more than 12 dimensions are not read";
        return TMK_OK;
    }
    array->shape.rank = set->rank;
    for (int i = 0; i < set->rank; i++) {
        if (set->dim[i] > INT64_MAX)
            return tmk_fail(diag, TMK_FORMAT, "its dimension %d is too large", i);
        array->shape.dim[i] = (int64_t)set->dim[i];
    }
    if (!tmk_shape_count(&array->shape, &elements) || !tmk_mul_size(elements, 8, &bytes))
        return tmk_fail(diag, TMK_FORMAT, "it is too large");
    if (table->stored != TMK_UNDEFINED &&
        !could_hold(h, table, elements * tmk_dtype_size(table->stored)))
        return tmk_fail(diag, TMK_FORMAT,
                        "it declares %zu elements, which a file of %" PRIu64 " bytes cannot hold",
                        elements, tmk_hdf5_bytes(h->file)->size);
    array->n_entries = set->rank ? set->dim[0] : 0;
    return TMK_OK;
}

static enum tmk_status add_table(struct tmk_source *source, const char *path, const char *name,
                                 struct tmk_diag *diag) {
    struct hdf5 *h = source->own;
    struct table *table = &h->tables[source->info.n_arrays];
    struct tmk_source_array *array =
        (struct tmk_source_array *)(uintptr_t)&source->info.arrays[source->info.n_arrays];
    array->name = tmk_arena_strdup(&source->arena, name);
    TMK_TRY_ALLOC(array->name, diag);
    source->info.n_arrays++;
    TMK_TRY(tmk_hdf5_dataset_open(h->file, path, &table->set, diag));
    TMK_TRY(choose_type(h->file, table, diag));
    TMK_TRY(read_shape(h, table, array, diag));
    array->dtype = table->refusal                      ? TMK_UNDEFINED
                   : tmk_dtype_is_float(table->stored) ? TMK_FLOAT32
                                                       : table->stored;
    return TMK_OK;
}

static enum tmk_status reserve_buffer(struct tmk_source *source, uint64_t n,
                                      struct tmk_diag *diag) {
    struct hdf5 *h = source->own;
    h->tables = tmk_arena_array(&source->arena, n, sizeof *h->tables);
    source->info.arrays = tmk_arena_array(&source->arena, n, sizeof *source->info.arrays);
    return h->tables && source->info.arrays ? TMK_OK : tmk_nomem(diag);
}

static enum tmk_status add_member(struct tmk_source *source, const char *group,
                                  const struct tmk_hdf5_member *member, struct tmk_diag *diag) {
    char path[4096];
    if (member->kind != TMK_HDF5_DATASET ||
        snprintf(path, sizeof path, "%s/%s", group, member->name) >= (int)sizeof path)
        return TMK_OK;
    return tmk_in(diag, add_table(source, path, member->name, diag), "'%s'", member->name);
}

static enum tmk_status add_group(struct tmk_source *source, const char *path,
                                 struct tmk_diag *diag) {
    struct hdf5 *h = source->own;
    struct tmk_hdf5_member *members;
    uint32_t n;
    TMK_TRY(tmk_hdf5_list(h->file, path, &members, &n, diag));
    enum tmk_status status = reserve_buffer(source, n, diag);
    for (uint32_t i = 0; status == TMK_OK && i < n; i++)
        status = add_member(source, path, &members[i], diag);
    free(members);
    if (status == TMK_OK && !source->info.n_arrays)
        status = tmk_fail(diag, TMK_FORMAT, "holds no datasets");
    return status;
}

static enum tmk_status open_inside(struct tmk_source *source, struct tmk_diag *diag) {
    struct hdf5 *h = source->own;
    const char *path = source->inside ? source->inside : "/";
    enum tmk_hdf5_kind kind;
    TMK_TRY(tmk_hdf5_open(source->file, &h->file, diag));
    TMK_TRY(tmk_hdf5_look(h->file, path, &kind, NULL, diag));
    switch (kind) {
    case TMK_HDF5_DATASET:
        TMK_TRY(reserve_buffer(source, 1, diag));
        return add_table(source, path, "", diag);
    case TMK_HDF5_GROUP:
        return add_group(source, path, diag);
    default:
        return tmk_fail(diag, TMK_NOTFOUND, "there is no dataset or group '%s'", path);
    }
}

static enum tmk_status open_hdf5(struct tmk_source *source,
                                 const struct tmk_source_options *options, struct tmk_diag *diag) {
    (void)options;
    return tmk_in(diag, open_inside(source, diag), "%s", source->info.path);
}

static enum tmk_status read_entries(const struct hdf5 *h, struct table *table,
                                    const struct tmk_source_array *array, uint64_t first,
                                    uint64_t count, struct tmk_tensor *out, struct tmk_diag *diag) {
    struct tmk_shape shape = array->shape;
    struct tmk_tensor tensor = {0};
    bool narrow = table->stored == TMK_FLOAT16 || table->stored == TMK_BFLOAT16;
    if (table->refusal)
        return tmk_fail(diag, TMK_UNSUPPORTED, "%s", table->refusal);
    shape.dim[0] = (int64_t)count;
    TMK_TRY(tmk_tensor_init(&tensor, narrow ? TMK_FLOAT32 : table->stored, &shape, diag));
    enum tmk_status status = tmk_hdf5_read(h->file, &table->set, first, count, tensor.data, diag);
    for (size_t i = 0; table->stored == TMK_BOOL && i < tmk_tensor_count(&tensor); i++)
        ((uint8_t *)tensor.data)[i] = ((uint8_t *)tensor.data)[i] != 0;
    if (narrow)
        tensor.origin = table->stored;
    TMK_THEN(status, tmk_tensor_widen(&tensor, out, diag));
    tmk_tensor_finish(&tensor);
    return status;
}

static enum tmk_status read_hdf5(struct tmk_source *source, uint32_t a, uint64_t first,
                                 uint64_t count, struct tmk_tensor *out, struct tmk_diag *diag) {
    const struct hdf5 *h = source->own;
    const struct tmk_source_array *array = &source->info.arrays[a];
    struct tmk_tensor tensor = {0};
    enum tmk_status status = read_entries(h, &h->tables[a], array, first, count, &tensor, diag);
    TMK_THEN(status, tmk_source_return_tensor(tmk_hdf5_bytes(h->file), &tensor, out, diag));
    return *array->name ? tmk_in(diag, status, "%s: '%s'", source->info.path, array->name)
                        : tmk_in(diag, status, "%s", source->info.path);
}

static void close_hdf5(struct tmk_source *source) {
    tmk_hdf5_close(&((struct hdf5 *)source->own)->file);
}

const struct tmk_source_kind tmk_source_hdf5 = {
    .name = "hdf5",
    .takes = "FILE.h5:/path (an HDF5 dataset, or the datasets of a group by name)",
    .own_size = sizeof(struct hdf5),
    .claims = claims_hdf5,
    .open = open_hdf5,
    .read = read_hdf5,
    .close = close_hdf5,
};
