/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays in a .npz file: a zip archive with a member NAME.npy for each. A member is unpacked when
 * it is first read, and kept. Other members are left alone.
 *
 * The sizes that the archive announces are believed only as far as they agree with each other: a
 * member can't unpack to more than deflate can pack, and must be as long as its own header states.
 * So nothing large is allocated for a small file. */
#include <string.h>

#include "base/diag.h"
#include "base/map.h"
#include "data/kind.h"
#include "data/npy.h"
#include "data/zip.h"

struct member {
    uint64_t index; /* in the archive */
    size_t size;    /* unpacked */
    struct tmk_npy header;
    struct tmk_buf *bytes; /* NULL until wanted */
};

struct npz {
    struct tmk_zip *zip;
    struct member *members; /* one an array */
    struct tmk_map names;
};

static bool claims_npz(const struct tmk_source_probe *probe) {
    return !probe->inside && !probe->stream &&
           (memcmp(probe->start, "PK\3\4", 4) == 0 || memcmp(probe->start, "PK\5\6", 4) == 0 ||
            tmk_source_ends_in(probe->path, ".npz"));
}

/* NumPy's header takes 128 bytes, most often: one request is enough. */
static enum tmk_status read_header(struct npz *npz, struct member *member, struct tmk_diag *diag) {
    enum { FIRST = 256 };
    unsigned char start[FIRST];
    const size_t have = member->size < FIRST ? member->size : FIRST;
    size_t size = 0;
    TMK_TRY(tmk_zip_read(npz->zip, member->index, start, have, false, diag));
    TMK_TRY(tmk_npy_header_size(start, have, &size, diag));
    if (size > member->size)
        return tmk_fail(diag, TMK_FORMAT,
                        "the header takes %zu bytes, but the array ends after %zu", size,
                        member->size);
    struct tmk_buf *buf = size > have ? tmk_buf_create(size) : NULL;
    TMK_TRY_ALLOC(buf || size <= have, diag);
    enum tmk_status status =
        buf ? tmk_zip_read(npz->zip, member->index, tmk_buf_data(buf), size, false, diag) : TMK_OK;
    if (status == TMK_OK)
        status = tmk_npy_parse(buf ? tmk_buf_data(buf) : start, size, &member->header, diag);
    if (status == TMK_OK)
        status = tmk_npy_check_size(&member->header, member->size, diag);
    tmk_buf_unref(&buf);
    return status;
}

static enum tmk_status add_member(struct tmk_source *source, struct tmk_source_array *array,
                                  uint64_t index, const struct tmk_zip_entry *entry, char *name,
                                  struct tmk_diag *diag) {
    struct npz *npz = source->own;
    struct member *member = &npz->members[source->info.n_arrays];
    member->index = index;
    member->size = (size_t)entry->size;
    if (tmk_map_get(&npz->names, name))
        return tmk_fail(diag, TMK_FORMAT, "there are two arrays of this name");
    TMK_TRY_ALLOC(tmk_map_put(&npz->names, name, array), diag);
    TMK_TRY(tmk_zip_check(npz->zip, entry, diag));
    TMK_TRY(read_header(npz, member, diag));
    *array = (struct tmk_source_array){.name = name,
                                       .n_entries = tmk_npy_entries(&member->header),
                                       .dtype = member->header.dtype,
                                       .shape = member->header.shape};
    source->info.n_arrays++;
    return TMK_OK;
}

static enum tmk_status list_members(struct tmk_source *source, struct tmk_diag *diag) {
    struct npz *npz = source->own;
    const uint64_t n = tmk_zip_count(npz->zip);
    if (n > INT32_MAX)
        return tmk_fail(diag, TMK_FORMAT, "has too many members");
    struct tmk_source_array *arrays = tmk_arena_array(&source->arena, (size_t)n, sizeof *arrays);
    npz->members = tmk_arena_array(&source->arena, (size_t)n, sizeof *npz->members);
    TMK_TRY_ALLOC(arrays && npz->members, diag);
    source->info.arrays = arrays;
    for (uint64_t i = 0; i < n; i++) {
        struct tmk_zip_entry entry;
        TMK_TRY(tmk_zip_entry(npz->zip, i, &entry, diag));
        if (!tmk_source_ends_in(entry.name, ".npy"))
            continue;
        char *name =
            tmk_arena_strndup(&source->arena, entry.name, strlen(entry.name) - strlen(".npy"));
        TMK_TRY_ALLOC(name, diag);
        TMK_TRY(tmk_in(diag,
                       add_member(source, &arrays[source->info.n_arrays], i, &entry, name, diag),
                       "'%s.npy'", name));
    }
    if (!source->info.n_arrays)
        return tmk_fail(diag, TMK_FORMAT, "holds no arrays");
    return TMK_OK;
}

static enum tmk_status read_archive(struct tmk_source *source, struct tmk_diag *diag) {
    struct npz *npz = source->own;
    TMK_TRY(tmk_zip_open(source->info.path, &npz->zip, diag));
    return list_members(source, diag);
}

static enum tmk_status open_npz(struct tmk_source *source, const struct tmk_source_options *options,
                                struct tmk_diag *diag) {
    (void)options;
    return tmk_in(diag, read_archive(source, diag), "%s", source->info.path);
}

static enum tmk_status read_member(struct npz *npz, struct member *member, uint64_t first,
                                   uint64_t count, struct tmk_tensor *out, struct tmk_diag *diag) {
    if (!member->header.refusal && !member->bytes) {
        struct tmk_buf *bytes = tmk_buf_create(member->size);
        TMK_TRY_ALLOC(bytes, diag);
        enum tmk_status status =
            tmk_zip_read(npz->zip, member->index, tmk_buf_data(bytes), member->size, true, diag);
        if (status != TMK_OK) {
            tmk_buf_unref(&bytes);
            return status;
        }
        member->bytes = bytes;
    }
    return tmk_npy_slice(&member->header, member->bytes, first, count, out, diag);
}

static enum tmk_status read_npz(struct tmk_source *source, uint32_t array, uint64_t first,
                                uint64_t count, struct tmk_tensor *out, struct tmk_diag *diag) {
    struct npz *npz = source->own;
    return tmk_in(diag, read_member(npz, &npz->members[array], first, count, out, diag), "%s: '%s'",
                  source->info.path, source->info.arrays[array].name);
}

static void close_npz(struct tmk_source *source) {
    struct npz *npz = source->own;
    for (uint32_t i = 0; i < source->info.n_arrays; i++)
        tmk_buf_unref(&npz->members[i].bytes);
    tmk_map_finish(&npz->names);
    tmk_zip_close(&npz->zip);
}

const struct tmk_source_kind tmk_source_npz = {
    .name = "npz",
    .takes = "FILE.npz (NumPy arrays by name)",
    .own_size = sizeof(struct npz),
    .claims = claims_npz,
    .open = open_npz,
    .read = read_npz,
    .close = close_npz,
};
