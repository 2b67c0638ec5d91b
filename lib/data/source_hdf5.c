/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays in an HDF5 file: FILE.h5:/path is one dataset; a group (or the file alone, which is its
 * root) gives its datasets by their names. Entries are read as they are wanted.
 *
 * HDF5 may be a library without locks: whoever reads from such a source must not use HDF5 in
 * another thread meanwhile.
 */
#include <hdf5.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/size.h"
#include "data/kind.h"

enum {
    LARGEST_CACHE = 1 << 28,
    CACHE_SLOTS = 101,
    LARGEST_UNWRITTEN = 1 << 28, /* bytes of an array that the file need not hold */
    BEST_PACKED = 1 << 15        /* bytes that a filter is believed to make of one */
};

/* A dataset; hid_t that are not open are 0, which HDF5 never gives. */
struct table {
    hid_t set, space;
    hid_t memory; /* the type that elements are read as */
    enum tmk_dtype stored;
    const char *refusal; /* why it cannot be read; static text */
};

struct hdf5 {
    struct tmk_infile bytes; /* of the file, to see whether they are still there */
    hid_t file;
    struct table *tables; /* one an array */
};

static bool claims(const struct tmk_source_probe *probe) {
    return !probe->folder && !probe->stream &&
           (memcmp(probe->start, "\x89HDF\r\n\x1a\n", 8) == 0 || probe->inside ||
            tmk_source_ends_in(probe->path, ".h5") || tmk_source_ends_in(probe->path, ".hdf5"));
}

static herr_t note_innermost(unsigned n, const H5E_error2_t *error, void *context) {
    if (n == 0 && error->desc)
        snprintf(context, 128, "%s", error->desc);
    return 0;
}

static enum tmk_status refused(enum tmk_status status, const char *what, struct tmk_diag *diag) {
    char why[128] = "a call failed";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, note_innermost, why);
    return tmk_fail(diag, status, "%s: %s", what, why);
}

static bool is_bool(hid_t type) {
    char name[8];
    int8_t value;
    if (H5Tget_nmembers(type) != 2)
        return false;
    for (unsigned i = 0; i < 2; i++) {
        char *member = H5Tget_member_name(type, i);
        snprintf(name, sizeof name, "%s", member ? member : "");
        H5free_memory(member);
        if (H5Tget_size(type) != 1 || H5Tget_member_value(type, i, &value) < 0 ||
            strcmp(name, value ? "TRUE" : "FALSE") != 0)
            return false;
    }
    return true;
}

static void type_of_float(hid_t type, struct table *out) {
    size_t sign, exponent, exponent_size, mantissa, mantissa_size, size = H5Tget_size(type);
    if (H5Tget_fields(type, &sign, &exponent, &exponent_size, &mantissa, &mantissa_size) < 0)
        return;
    if (size == 8 && exponent_size == 11) {
        out->stored = TMK_FLOAT64;
        out->memory = H5Tcopy(H5T_NATIVE_DOUBLE);
    } else if (size == 4 && exponent_size == 8) {
        out->stored = TMK_FLOAT32;
        out->memory = H5Tcopy(H5T_NATIVE_FLOAT);
    } else if (size == 2 && (exponent_size == 5 || exponent_size == 8)) {
        out->stored = exponent_size == 5 ? TMK_FLOAT16 : TMK_BFLOAT16;
        out->memory = H5Tcopy(H5T_NATIVE_FLOAT); /* which is exact */
    }
}

static void type_of_integer(hid_t type, struct table *out) {
    static const enum tmk_dtype signeds[] = {TMK_INT8, TMK_INT16, TMK_INT32, TMK_INT64};
    static const enum tmk_dtype unsigneds[] = {TMK_UINT8, TMK_UINT16, TMK_UINT32, TMK_UINT64};
    const hid_t natives[] = {H5T_NATIVE_INT8, H5T_NATIVE_INT16, H5T_NATIVE_INT32, H5T_NATIVE_INT64};
    const hid_t unsigned_natives[] = {H5T_NATIVE_UINT8, H5T_NATIVE_UINT16, H5T_NATIVE_UINT32,
                                      H5T_NATIVE_UINT64};
    bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
    for (size_t i = 0; i < 4; i++)
        if (H5Tget_size(type) == (size_t)1 << i) {
            out->stored = is_signed ? signeds[i] : unsigneds[i];
            out->memory = H5Tcopy(is_signed ? natives[i] : unsigned_natives[i]);
        }
}

static enum tmk_status read_type(struct table *table, struct tmk_diag *diag) {
    hid_t type = H5Dget_type(table->set);
    if (type < 0)
        return refused(TMK_FORMAT, "its type cannot be read", diag);
    switch (H5Tget_class(type)) {
    case H5T_FLOAT:
        type_of_float(type, table);
        break;
    case H5T_INTEGER:
        type_of_integer(type, table);
        break;
    case H5T_ENUM:
        if (is_bool(type)) {
            table->stored = TMK_BOOL;
            table->memory = H5Tcopy(type);
        }
        break;
    default:
        break;
    }
    H5Tclose(type);
    if (table->memory <= 0)
        table->refusal = "elements of this type are not read";
    return TMK_OK;
}

/* Could the file hold so many bytes of the array? A damaged shape asks for any memory. Parts that
 * nobody wrote are zeros, and data may lie in other files. */
static bool could_hold(const struct hdf5 *h, const struct table *table, size_t bytes) {
    hid_t created = H5Dget_create_plist(table->set);
    if (created < 0)
        return false;
    H5D_layout_t layout = H5Pget_layout(created);
    bool elsewhere = layout == H5D_VIRTUAL || H5Pget_external_count(created) > 0;
    uint64_t packed = layout == H5D_CHUNKED && H5Pget_nfilters(created) > 0 ? BEST_PACKED : 1;
    H5Pclose(created);
    if (layout == H5D_COMPACT) /* HDF5 copies from the object's header without looking */
        return bytes <= H5Dget_storage_size(table->set);
    return elsewhere || bytes <= LARGEST_UNWRITTEN || bytes / packed <= h->bytes.size;
}

static enum tmk_status read_shape(const struct hdf5 *h, struct table *table,
                                  struct tmk_source_array *array, struct tmk_diag *diag) {
    hsize_t dims[H5S_MAX_RANK];
    size_t elements, bytes;
    table->space = H5Dget_space(table->set);
    int rank = table->space < 0 ? -1 : H5Sget_simple_extent_ndims(table->space);
    if (rank < 0 || H5Sget_simple_extent_dims(table->space, dims, NULL) < 0)
        return refused(TMK_FORMAT, "its shape cannot be read", diag);
    if (rank > TMK_MAX_RANK) {
        table->refusal = "arrays of more than 12 dimensions are not read";
        return TMK_OK;
    }
    array->shape.rank = rank;
    for (int i = 0; i < rank; i++) {
        if (dims[i] > INT64_MAX)
            return tmk_fail(diag, TMK_FORMAT, "its dimension %d is too large", i);
        array->shape.dim[i] = (int64_t)dims[i];
    }
    if (!tmk_shape_count(&array->shape, &elements) || !tmk_mul_size(elements, 8, &bytes))
        return tmk_fail(diag, TMK_FORMAT, "it is too large");
    if (table->stored != TMK_UNDEFINED &&
        !could_hold(h, table, elements * tmk_dtype_size(table->stored)))
        return tmk_fail(diag, TMK_FORMAT,
                        "it says that it has %zu elements, which a file of %" PRIu64
                        " bytes cannot hold",
                        elements, h->bytes.size);
    array->n_entries = rank ? dims[0] : 0;
    return TMK_OK;
}

/* Neighbouring entries often share a compressed chunk, which should be unpacked once. */
static void keep_a_chunk(hid_t file, const char *path, struct table *table) {
    hsize_t dims[H5S_MAX_RANK];
    size_t bytes = 1;
    bool fits = true;
    hid_t created = H5Dget_create_plist(table->set), type = H5Dget_type(table->set);
    if (created < 0 || H5Pget_layout(created) != H5D_CHUNKED || type < 0)
        goto done;
    int rank = H5Pget_chunk(created, H5S_MAX_RANK, dims);
    for (int i = 0; i < rank; i++)
        fits = fits && tmk_mul_size(bytes, (size_t)dims[i], &bytes);
    size_t one;
    if (rank <= 0 || !fits || !tmk_mul_size(bytes, H5Tget_size(type), &one) || one > LARGEST_CACHE)
        goto done;
    hid_t access = one > 1 << 20 ? H5Pcreate(H5P_DATASET_ACCESS) : -1;
    if (access >= 0 && H5Pset_chunk_cache(access, CACHE_SLOTS, one, 1) >= 0) {
        H5Dclose(table->set); /* as long as it is open, its old cache stays */
        table->set = H5Dopen2(file, path, access);
    }
    if (access >= 0)
        H5Pclose(access);
done:
    if (type >= 0)
        H5Tclose(type);
    if (created >= 0)
        H5Pclose(created);
}

static enum tmk_status add_table(struct tmk_source *source, const char *path, const char *name,
                                 struct tmk_diag *diag) {
    struct hdf5 *h = source->own;
    struct table *table = &h->tables[source->info.n_arrays];
    struct tmk_source_array *array =
        (struct tmk_source_array *)(uintptr_t)&source->info.arrays[source->info.n_arrays];
    array->name = tmk_arena_strdup(&source->arena, name);
    if (!array->name)
        return tmk_nomem(diag);
    source->info.n_arrays++; /* closed from here on */
    table->set = H5Dopen2(h->file, path, H5P_DEFAULT);
    if (table->set < 0)
        return refused(TMK_FORMAT, "cannot be opened", diag);
    keep_a_chunk(h->file, path, table);
    if (table->set < 0)
        return refused(TMK_FORMAT, "cannot be opened", diag);
    TMK_TRY(read_type(table, diag));
    TMK_TRY(read_shape(h, table, array, diag));
    array->dtype = table->refusal                      ? TMK_UNDEFINED
                   : tmk_dtype_is_float(table->stored) ? TMK_FLOAT32
                                                       : table->stored;
    return TMK_OK;
}

static enum tmk_status make_room(struct tmk_source *source, uint64_t n, struct tmk_diag *diag) {
    struct hdf5 *h = source->own;
    h->tables = tmk_arena_array(&source->arena, n, sizeof *h->tables);
    source->info.arrays = tmk_arena_array(&source->arena, n, sizeof *source->info.arrays);
    return h->tables && source->info.arrays ? TMK_OK : tmk_nomem(diag);
}

static H5O_type_t type_of_object(hid_t file, const char *path) {
    H5O_type_t type = H5O_TYPE_UNKNOWN;
    hid_t object = H5Oopen(file, path, H5P_DEFAULT);
    if (object < 0)
        return type;
    H5I_type_t is = H5Iget_type(object);
    if (is == H5I_DATASET)
        type = H5O_TYPE_DATASET;
    else if (is == H5I_GROUP)
        type = H5O_TYPE_GROUP;
    H5Oclose(object);
    return type;
}

static enum tmk_status add_member(struct tmk_source *source, const char *group, hid_t id, hsize_t i,
                                  struct tmk_diag *diag) {
    struct hdf5 *h = source->own;
    char name[1024], path[4096];
    ssize_t len =
        H5Lget_name_by_idx(id, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof name, H5P_DEFAULT);
    if (len < 0)
        return refused(TMK_FORMAT, "its members cannot be listed", diag);
    if ((size_t)len >= sizeof name ||
        snprintf(path, sizeof path, "%s/%s", group, name) >= (int)sizeof path ||
        type_of_object(h->file, path) != H5O_TYPE_DATASET)
        return TMK_OK;
    return tmk_in(diag, add_table(source, path, name, diag), "'%s'", name);
}

static enum tmk_status add_group(struct tmk_source *source, const char *path,
                                 struct tmk_diag *diag) {
    struct hdf5 *h = source->own;
    H5G_info_t info;
    hid_t id = H5Gopen2(h->file, path, H5P_DEFAULT);
    enum tmk_status status = TMK_OK;
    if (id < 0)
        return refused(TMK_FORMAT, "cannot be opened", diag);
    if (H5Gget_info(id, &info) < 0 || info.nlinks > UINT32_MAX)
        status = refused(TMK_FORMAT, "its members cannot be listed", diag);
    if (status == TMK_OK)
        status = make_room(source, info.nlinks, diag);
    for (hsize_t i = 0; status == TMK_OK && i < info.nlinks; i++)
        status = add_member(source, path, id, i, diag);
    H5Gclose(id);
    if (status == TMK_OK && !source->info.n_arrays)
        status = tmk_fail(diag, TMK_FORMAT, "holds no datasets");
    return status;
}

static enum tmk_status open_inside(struct tmk_source *source, struct tmk_diag *diag) {
    struct hdf5 *h = source->own;
    const char *path = source->inside ? source->inside : "/";
    h->file = H5Fopen(source->file, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (h->file < 0)
        return refused(TMK_FORMAT, "is no readable HDF5 file", diag);
    switch (type_of_object(h->file, path)) {
    case H5O_TYPE_DATASET:
        TMK_TRY(make_room(source, 1, diag));
        return add_table(source, path, "", diag);
    case H5O_TYPE_GROUP:
        return add_group(source, path, diag);
    default:
        return tmk_fail(diag, TMK_NOTFOUND, "there is no dataset or group '%s'", path);
    }
}

/* HDF5 prints what goes wrong, unless told not to. */
struct hush {
    H5E_auto2_t printer;
    void *data;
};

static struct hush hush(void) {
    struct hush was = {0};
    (void)H5dont_atexit();
    H5Eget_auto2(H5E_DEFAULT, &was.printer, &was.data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    return was;
}

static void unhush(struct hush was) {
    H5Eset_auto2(H5E_DEFAULT, was.printer, was.data);
}

static enum tmk_status open_hdf5(struct tmk_source *source,
                                 const struct tmk_source_options *options, struct tmk_diag *diag) {
    (void)options;
    struct hdf5 *h = tmk_arena_alloc(&source->arena, sizeof *h);
    if (!h)
        return tmk_nomem(diag);
    h->bytes.fd = -1;
    source->own = h;
    TMK_TRY(tmk_infile_open(source->file, &h->bytes, diag));
    struct hush was = hush();
    enum tmk_status status = tmk_in(diag, open_inside(source, diag), "%s", source->info.path);
    unhush(was);
    return status;
}

static enum tmk_status read_entries(const struct table *table, const struct tmk_source_array *array,
                                    uint64_t first, uint64_t count, struct tmk_tensor *out,
                                    struct tmk_diag *diag) {
    hsize_t start[TMK_MAX_RANK] = {first}, size[TMK_MAX_RANK] = {count};
    struct tmk_shape shape = array->shape;
    struct tmk_tensor tensor = {0};
    bool narrow = table->stored == TMK_FLOAT16 || table->stored == TMK_BFLOAT16;
    if (table->refusal)
        return tmk_fail(diag, TMK_UNSUPPORTED, "%s", table->refusal);
    if (first > array->n_entries || count > array->n_entries - first || !shape.rank)
        return tmk_fail(diag, TMK_RANGE, "entries %llu to %llu are wanted, of %llu",
                        (unsigned long long)first, (unsigned long long)(first + count),
                        (unsigned long long)array->n_entries);
    shape.dim[0] = (int64_t)count;
    for (int32_t i = 1; i < shape.rank; i++)
        size[i] = (hsize_t)shape.dim[i];
    TMK_TRY(tmk_tensor_init(&tensor, narrow ? TMK_FLOAT32 : table->stored, &shape, diag));
    enum tmk_status status = TMK_OK;
    if (tmk_tensor_count(&tensor)) {
        hid_t memory = H5Screate_simple(shape.rank, size, NULL);
        if (memory < 0 ||
            H5Sselect_hyperslab(table->space, H5S_SELECT_SET, start, NULL, size, NULL) < 0 ||
            H5Dread(table->set, table->memory, memory, table->space, H5P_DEFAULT, tensor.data) < 0)
            status = refused(TMK_FORMAT, "cannot be read", diag);
        if (memory >= 0)
            H5Sclose(memory);
    }
    for (size_t i = 0; table->stored == TMK_BOOL && i < tmk_tensor_count(&tensor); i++)
        ((uint8_t *)tensor.data)[i] = ((uint8_t *)tensor.data)[i] != 0;
    if (narrow)
        tensor.origin = table->stored;
    if (status == TMK_OK)
        status = tmk_tensor_widen(&tensor, out, diag);
    tmk_tensor_finish(&tensor);
    return status;
}

static enum tmk_status read_hdf5(struct tmk_source *source, uint32_t a, uint64_t first,
                                 uint64_t count, struct tmk_tensor *out, struct tmk_diag *diag) {
    const struct hdf5 *h = source->own;
    const struct tmk_source_array *array = &source->info.arrays[a];
    struct hush was = hush();
    struct tmk_tensor tensor = {0};
    enum tmk_status status = read_entries(&h->tables[a], array, first, count, &tensor, diag);
    unhush(was);
    if (status == TMK_OK)
        status = tmk_source_hand_out(&h->bytes, &tensor, out, diag);
    return *array->name ? tmk_in(diag, status, "%s: '%s'", source->info.path, array->name)
                        : tmk_in(diag, status, "%s", source->info.path);
}

static void close_hdf5(struct tmk_source *source) {
    struct hdf5 *h = source->own;
    if (!h)
        return;
    struct hush was = hush();
    for (uint32_t i = 0; i < source->info.n_arrays; i++) {
        if (h->tables[i].memory > 0)
            H5Tclose(h->tables[i].memory);
        if (h->tables[i].space > 0)
            H5Sclose(h->tables[i].space);
        if (h->tables[i].set > 0)
            H5Dclose(h->tables[i].set);
    }
    if (h->file > 0)
        H5Fclose(h->file);
    unhush(was);
    tmk_infile_close(&h->bytes);
}

const struct tmk_source_kind tmk_source_hdf5 = {
    .name = "hdf5",
    .takes = "FILE.h5:/path (an HDF5 dataset, or the datasets of a group by name)",
    .claims = claims,
    .open = open_hdf5,
    .read = read_hdf5,
    .close = close_hdf5,
};
