/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles and lineages in HDF5 that the HDF5 library itself has changed: it reads them without a
 * fault, and what they hold is for our readers to refuse. The bytes choose the file and the
 * changes: an element, a dataset's shape, type, members or filters, a link, an attribute. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/lineage.h>

#include "base/diag.h"
#include "base/size.h"
#include "embedded.h"
#include "fuzz.h"
#include "profile/checkpoint.h"

enum { MOST_NAMES = 256, MOST_NAME = 128, MOST_CHANGES = 6, MOST_BYTES = 1 << 20, MOST_RANK = 4 };

static const char *const files[] = {"profile-1.4.h5", "profile-1.0.h5", "lineage-1.0.h5"};

struct job {
    const uint8_t *data;
    size_t size;
    hid_t file;
    char name[MOST_NAMES][MOST_NAME];
    size_t n;
};

static unsigned take(struct job *job) {
    return fuzz_take(&job->data, &job->size);
}

static unsigned take_wide(struct job *job) {
    const unsigned high = take(job);
    return high << 8 | take(job);
}

/* ---- the file ---- */

/* Gives its path, good until the next call of fuzz_file. (An image in memory that HDF5 gives has
 * the checksum of another.) */
static const char *write_file(const char *name) {
    const struct embedded *file = embedded;
    while (strcmp(file->name, name) != 0)
        file++;
    return fuzz_file("edited.h5", file->data, file->size);
}

static void list_names(struct job *job, const char *path, int depth) {
    H5G_info_t info;
    const hid_t group = H5Gopen2(job->file, path, H5P_DEFAULT);
    if (group < 0 || H5Gget_info(group, &info) < 0)
        info.nlinks = 0;
    for (hsize_t i = 0; i < info.nlinks && job->n < MOST_NAMES; i++) {
        char link[MOST_NAME / 2], *name = job->name[job->n];
        if (H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, link, sizeof link,
                               H5P_DEFAULT) < 0)
            continue;
        if (snprintf(name, MOST_NAME, "%s/%s", strcmp(path, "/") == 0 ? "" : path, link) >=
            MOST_NAME)
            continue;
        job->n++;
        const hid_t object = H5Oopen(job->file, name, H5P_DEFAULT);
        const bool is_group = object >= 0 && H5Iget_type(object) == H5I_GROUP;
        if (object >= 0)
            H5Oclose(object);
        if (is_group && depth < 4)
            list_names(job, name, depth + 1);
    }
    if (group >= 0)
        H5Gclose(group);
}

static const char *pick_name(struct job *job) {
    return job->n ? job->name[take_wide(job) % job->n] : "/";
}

/* ---- datasets ---- */

struct set {
    hid_t id, type, space;
    hsize_t dim[MOST_RANK];
    int rank;
    size_t count, size; /* elements, bytes of one */
    unsigned char *bytes;
};

static void close_set(struct set *set) {
    free(set->bytes);
    if (set->space >= 0)
        H5Sclose(set->space);
    if (set->type >= 0)
        H5Tclose(set->type);
    if (set->id >= 0)
        H5Dclose(set->id);
}

/* Elements of a fixed size only. */
static bool open_set(struct job *job, const char *name, struct set *set) {
    *set = (struct set){.id = -1, .type = -1, .space = -1};
    const hid_t object = H5Oopen(job->file, name, H5P_DEFAULT);
    if (object < 0)
        return false;
    if (H5Iget_type(object) != H5I_DATASET) {
        H5Oclose(object);
        return false;
    }
    set->id = object;
    set->type = H5Dget_type(set->id);
    set->space = H5Dget_space(set->id);
    set->rank = H5Sget_simple_extent_ndims(set->space);
    const hssize_t count = H5Sget_simple_extent_npoints(set->space);
    set->size = H5Tget_size(set->type);
    if (count < 0 || set->rank < 0 || set->rank > MOST_RANK || !set->size ||
        (uint64_t)count > MOST_BYTES / set->size || H5Tdetect_class(set->type, H5T_VLEN) > 0 ||
        H5Tis_variable_str(set->type) > 0 || H5Tdetect_class(set->type, H5T_REFERENCE) > 0)
        return false;
    H5Sget_simple_extent_dims(set->space, set->dim, NULL);
    set->count = (size_t)count;
    set->bytes = calloc(set->count + 1, set->size);
    return set->bytes &&
           (!count || H5Dread(set->id, set->type, H5S_ALL, H5S_ALL, H5P_DEFAULT, set->bytes) >= 0);
}

/* One element, or a part of one, becomes a number at the end of a range. */
static void change_element(struct job *job, const char *name) {
    static const uint64_t numbers[] = {0,
                                       1,
                                       2,
                                       3,
                                       0x7f,
                                       0x80,
                                       0xff,
                                       0x7fff,
                                       0x8000,
                                       0xffff,
                                       0x7fffffff,
                                       0x80000000,
                                       0xffffffff,
                                       0x7f800000,
                                       0xff800000,
                                       0x7fc00000,
                                       0x100000000,
                                       0x7fffffffffffffff,
                                       0x8000000000000000,
                                       0xffffffffffffffff,
                                       0x7ff0000000000000,
                                       0x7ff8000000000000};
    struct set set;
    if (open_set(job, name, &set) && set.count) {
        const size_t all = set.count * set.size, at = take_wide(job) % all,
                     width = (size_t)1 << take(job) % 4;
        const uint64_t number = numbers[take(job) % TMK_COUNT(numbers)];
        memcpy(set.bytes + at, &number, all - at < width ? all - at : width);
        H5Dwrite(set.id, set.type, H5S_ALL, H5S_ALL, H5P_DEFAULT, set.bytes);
    }
    close_set(&set);
}

/* The dataset under its name again, with its attributes gone. */
static void make_again(struct job *job, const char *name, hid_t type, int rank, const hsize_t *dim,
                       hid_t how, const void *bytes) {
    const hid_t space = rank ? H5Screate_simple(rank, dim, NULL) : H5Screate(H5S_SCALAR);
    H5Ldelete(job->file, name, H5P_DEFAULT);
    const hid_t id = H5Dcreate2(job->file, name, type, space, H5P_DEFAULT, how, H5P_DEFAULT);
    if (id >= 0) {
        if (bytes)
            H5Dwrite(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes);
        H5Dclose(id);
    }
    H5Sclose(space);
}

static void change_shape(struct job *job, const char *name) {
    struct set set;
    if (open_set(job, name, &set)) {
        hsize_t dim[MOST_RANK + 1] = {0};
        int rank = set.rank;
        size_t count = 1;
        memcpy(dim, set.dim, sizeof set.dim);
        const unsigned how = take(job) % 6, axis = rank ? take(job) % (unsigned)rank : 0;
        if (how == 0)
            dim[rank++] = 1 + take(job) % 3;
        else if (how == 1 && rank)
            rank--;
        else if (how == 2)
            dim[axis] += 1;
        else if (how == 3)
            dim[axis] -= dim[axis] > 0;
        else
            dim[axis] = take(job) % 40;
        for (int i = 0; i < rank; i++)
            count *= (size_t)dim[i];
        unsigned char *bytes = calloc(count + 1, set.size);
        if (bytes && count * set.size <= MOST_BYTES) {
            memcpy(bytes, set.bytes, (count < set.count ? count : set.count) * set.size);
            make_again(job, name, set.type, rank, dim, H5P_DEFAULT, bytes);
        }
        free(bytes);
    }
    close_set(&set);
}

static hid_t some_type(struct job *job, bool *owned) {
    const hid_t types[] = {H5T_IEEE_F32LE, H5T_IEEE_F64LE, H5T_IEEE_F32BE, H5T_STD_I8LE,
                           H5T_STD_U8LE,   H5T_STD_U16BE,  H5T_STD_I32LE,  H5T_STD_U32LE,
                           H5T_STD_I64LE,  H5T_STD_U64LE,  H5T_STD_B16LE};
    const unsigned which = take(job) % (TMK_COUNT(types) + 2);
    *owned = which >= TMK_COUNT(types);
    if (!*owned)
        return types[which];
    const hid_t text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, which == TMK_COUNT(types) ? H5T_VARIABLE : 1 + take(job));
    return text;
}

static void change_type(struct job *job, const char *name) {
    struct set set;
    bool owned;
    if (open_set(job, name, &set)) {
        const hid_t type = some_type(job, &owned);
        make_again(job, name, type, set.rank, set.dim, H5P_DEFAULT, NULL);
        if (owned)
            H5Tclose(type);
    }
    close_set(&set);
}

/* Without one of a compound's members, or with one of them twice as long. */
static void change_members(struct job *job, const char *name) {
    struct set set;
    if (open_set(job, name, &set) && H5Tget_class(set.type) == H5T_COMPOUND) {
        const int n = H5Tget_nmembers(set.type);
        const unsigned gone = take(job) % (unsigned)n;
        const hid_t type = H5Tcreate(H5T_COMPOUND, set.size);
        size_t at = 0;
        for (int i = 0; i < n; i++) {
            char *member = H5Tget_member_name(set.type, (unsigned)i);
            const hid_t is = H5Tget_member_type(set.type, (unsigned)i);
            if ((unsigned)i != gone) {
                H5Tinsert(type, member, at, is);
                at += H5Tget_size(is);
            }
            H5Tclose(is);
            H5free_memory(member);
        }
        if (at && H5Tset_size(type, at) >= 0) {
            unsigned char *bytes = calloc(set.count + 1, at);
            if (bytes && set.count)
                H5Dread(set.id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes);
            make_again(job, name, type, set.rank, set.dim, H5P_DEFAULT, bytes);
            free(bytes);
        }
        H5Tclose(type);
    }
    close_set(&set);
}

static void change_filters(struct job *job, const char *name) {
    struct set set;
    if (open_set(job, name, &set) && set.rank) {
        hsize_t chunk[MOST_RANK];
        for (int i = 0; i < set.rank; i++)
            chunk[i] = 1 + take(job) % 8;
        const hid_t how = H5Pcreate(H5P_DATASET_CREATE);
        H5Pset_chunk(how, set.rank, chunk);
        if (take(job) & 1)
            H5Pset_shuffle(how);
        H5Pset_deflate(how, 1);
        make_again(job, name, set.type, set.rank, set.dim, how, set.bytes);
        H5Pclose(how);
    }
    close_set(&set);
}

/* ---- links and attributes ---- */

static void change_link(struct job *job, const char *name) {
    char other[MOST_NAME + 2];
    switch (take(job) % 6) {
    case 0:
        H5Ldelete(job->file, name, H5P_DEFAULT);
        break;
    case 1:
        snprintf(other, sizeof other, "%sx", name);
        H5Lmove(job->file, name, job->file, other, H5P_DEFAULT, H5P_DEFAULT);
        break;
    case 2:
        H5Ldelete(job->file, name, H5P_DEFAULT);
        H5Lcreate_soft(pick_name(job), job->file, name, H5P_DEFAULT, H5P_DEFAULT);
        break;
    case 3: {
        const char *to = pick_name(job);
        if (strcmp(to, name) == 0)
            break;
        H5Ldelete(job->file, name, H5P_DEFAULT);
        H5Lcreate_hard(job->file, to, job->file, name, H5P_DEFAULT, H5P_DEFAULT);
        break;
    }
    case 4:
        H5Ldelete(job->file, name, H5P_DEFAULT);
        H5Lcreate_external("/etc/passwd", "/x", job->file, name, H5P_DEFAULT, H5P_DEFAULT);
        break;
    default: {
        H5Ldelete(job->file, name, H5P_DEFAULT);
        const hid_t group = H5Gcreate2(job->file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        if (group >= 0)
            H5Gclose(group);
    }
    }
}

static void write_attribute(struct job *job, hid_t object, const char *key) {
    static const char *const texts[] = {"",         "1.4",      "tidemark-profile",     "p0",
                                        "\xff\xc0", "\x1b[31m", "18446744073709551616", "observed",
                                        "float32",  "{}"};
    bool owned;
    const hid_t type = some_type(job, &owned);
    const hsize_t n = take(job) % 4;
    const hid_t space = n ? H5Screate_simple(1, &n, NULL) : H5Screate(H5S_SCALAR);
    const hid_t id = H5Acreate2(object, key, type, space, H5P_DEFAULT, H5P_DEFAULT);
    char bytes[4 * 256] = "";
    const char *text = texts[take(job) % TMK_COUNT(texts)], *pointers[4] = {text, text, text, text};
    snprintf(bytes, sizeof bytes, "%s", text);
    if (id >= 0) {
        H5Awrite(id, type, H5Tis_variable_str(type) > 0 ? (const void *)pointers : bytes);
        H5Aclose(id);
    }
    H5Sclose(space);
    if (owned)
        H5Tclose(type);
}

static void change_attribute(struct job *job, const char *name) {
    char key[MOST_NAME] = "";
    const hid_t object = H5Oopen(job->file, take(job) % 3 ? name : "/", H5P_DEFAULT);
    if (object < 0)
        return;
    const int n = H5Aget_num_attrs(object);
    if (n > 0) {
        H5Aget_name_by_idx(object, ".", H5_INDEX_NAME, H5_ITER_INC, take(job) % (unsigned)n, key,
                           sizeof key, H5P_DEFAULT);
        H5Adelete(object, key);
    }
    if (take(job) % 3)
        write_attribute(job, object, *key ? key : "format");
    H5Oclose(object);
}

static void change(struct job *job) {
    static void (*const ways[])(struct job * job, const char *name) = {
        change_element, change_element, change_element, change_shape,     change_type,
        change_members, change_filters, change_link,    change_attribute, change_attribute};
    job->n = 0;
    list_names(job, "/", 0);
    const char *name = pick_name(job);
    ways[take(job) % TMK_COUNT(ways)](job, name);
}

static void read_profile(const char *path) {
    struct tmk_diag diag = {0};
    struct tmk_profile *profile = NULL;
    if (!fuzz_ok(tmk_profile_read(path, &profile, &diag), &diag))
        return;
    (void)fuzz_done(tmk_profile_write(profile, fuzz_file("again.h5", NULL, 0), &diag), &diag);
    tmk_profile_destroy(&profile);
}

static void read_lineage(const char *path) {
    struct tmk_diag diag = {0};
    struct tmk_lineage_record *record = NULL;
    if (!fuzz_ok(tmk_lineage_record_read(path, &record, &diag), &diag))
        return;
    (void)fuzz_done(tmk_lineage_record_write(record, fuzz_file("again.h5", NULL, 0), &diag), &diag);
    tmk_lineage_record_destroy(&record);
}

FUZZ_TARGET(hdf5_edits) {
    static struct job job;
    job.data = data;
    job.size = size;
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    const char *name = files[take(&job) % TMK_COUNT(files)], *path = write_file(name);
    job.file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    for (int i = 0; i < MOST_CHANGES && job.size; i++)
        change(&job);
    H5Fclose(job.file);
    (name[0] == 'p' ? read_profile : read_lineage)(path);
    return 0;
}
