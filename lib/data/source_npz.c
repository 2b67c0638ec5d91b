/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays in a .npz file: a zip archive with a member NAME.npy for each. A member is unpacked when
 * it is first read, and kept. Other members are left alone.
 *
 * The sizes that the archive announces are believed only as far as they agree with each other: a
 * member can't unpack to more than deflate can pack, and must be as long as its own header states.
 * So nothing large is allocated for a small file.
 */
#include <string.h>
#include <zip.h>
#include <zlib.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/size.h"
#include "data/kind.h"
#include "data/npy.h"

struct member {
    uint64_t index; /* in the archive */
    size_t size;    /* unpacked */
    struct tmk_npy header;
    struct tmk_buf *bytes; /* NULL until wanted */
};

struct npz {
    struct tmk_buf *file;
    zip_t *zip;
    struct member *members; /* one an array */
    struct tmk_map names;
    size_t held; /* counted for libzip */
};

static bool claims_npz(const struct tmk_source_probe *probe) {
    return !probe->inside && !probe->stream &&
           (memcmp(probe->start, "PK\3\4", 4) == 0 || memcmp(probe->start, "PK\5\6", 4) == 0 ||
            tmk_source_ends_in(probe->path, ".npz"));
}

static uint64_t get_number(const unsigned char *at, int bytes) {
    uint64_t n = 0;
    for (int i = bytes - 1; i >= 0; i--)
        n = n << 8 | at[i];
    return n;
}

enum {
    END = 22,
    LOCATOR = 20,
    END64 = 56,
    COMMENT = 65535,
    ENTRY = 46
}; /* bytes, in APPNOTE.TXT */

/* What libzip takes, as the record at `at`, behind the directory, says. */
static uint64_t said_by(const unsigned char *file, size_t size, size_t at) {
    enum { OF_LIBZIP = 384 };
    const unsigned char *locator = at < LOCATOR ? NULL : file + at - LOCATOR;
    uint64_t members = get_number(file + at + 10, 2), bytes = get_number(file + at + 12, 4);
    const bool large = locator && memcmp(locator, "PK\6\7", 4) == 0;
    const uint64_t end = large ? get_number(locator + 8, 8) : 0;
    if (large && size >= END64 && end <= size - END64) {
        members = get_number(file + end + 32, 8);
        bytes = get_number(file + end + 40, 8);
    }
    members = members < size / ENTRY ? members : size / ENTRY;
    return members * OF_LIBZIP + 2 * (bytes < size ? bytes : size);
}

/* What libzip makes of the directory, which it reads before anybody can ask for its size: a record
 * and a place in a table for each member, and names twice. Records at the archive's end give their
 * count; of several such, libzip takes what fits. (APPNOTE.TXT 6.3.10, 4.3.14 to 4.3.16) */
static size_t directory_bytes(const unsigned char *file, size_t size) {
    uint64_t most = 0;
    for (size_t back = END; back <= size && back <= COMMENT + END; back++) {
        const size_t at = size - back;
        if (memcmp(file + at, "PK\5\6", 4) != 0)
            continue;
        const uint64_t takes = said_by(file, size, at);
        most = takes > most ? takes : most;
    }
    return (size_t)most;
}

static enum tmk_status open_archive(struct npz *npz, struct tmk_diag *diag) {
    const size_t takes = directory_bytes(tmk_buf_data(npz->file), tmk_buf_size(npz->file));
    if (!tmk_memory_charge(takes))
        return tmk_memory_fail(diag, takes, "the archive's directory");
    npz->held = takes;
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *from =
        zip_source_buffer_create(tmk_buf_data(npz->file), tmk_buf_size(npz->file), 0, &error);
    if (from) {
        npz->zip = zip_open_from_source(from, ZIP_RDONLY, &error);
        if (!npz->zip)
            zip_source_free(from);
    }
    enum tmk_status status = TMK_OK;
    if (!npz->zip) /* without a source it may fail without a reason; then too it was this */
        status = !from || zip_error_code_zip(&error) == ZIP_ER_MEMORY
                     ? tmk_nomem(diag)
                     : tmk_fail(diag, TMK_FORMAT, "is no readable zip archive: %s",
                                zip_error_strerror(&error));
    zip_error_fini(&error);
    return status;
}

static enum tmk_status not_unpacked(zip_error_t *error, struct tmk_diag *diag) {
    const bool inflating = zip_error_code_zip(error) == ZIP_ER_ZLIB;
    if (zip_error_code_zip(error) == ZIP_ER_MEMORY ||
        (inflating && zip_error_code_system(error) == Z_MEM_ERROR))
        return tmk_nomem(diag);
    return tmk_fail(diag, TMK_FORMAT, "cannot be unpacked: %s", zip_error_strerror(error));
}

/* Exactly `len` bytes from the member's start; with `whole`, nothing may come after them, and the
 * checksum counts. */
static enum tmk_status unpack_entry(struct npz *npz, uint64_t index, void *bytes, size_t len,
                                    bool whole, struct tmk_diag *diag) {
    zip_file_t *file = zip_fopen_index(npz->zip, index, 0);
    if (!file)
        return not_unpacked(zip_get_error(npz->zip), diag);
    size_t done = 0;
    zip_int64_t n = 1;
    while (done < len && (n = zip_fread(file, (char *)bytes + done, len - done)) > 0)
        done += (size_t)n;
    char more;
    if (n > 0 && whole)
        n = zip_fread(file, &more, 1);
    enum tmk_status status = TMK_OK;
    if (n < 0)
        status = not_unpacked(zip_file_get_error(file), diag);
    else if (done < len)
        status = tmk_fail(diag, TMK_FORMAT, "unpacks to %zu bytes, not to %zu", done, len);
    else if (whole && n > 0)
        status = tmk_fail(diag, TMK_FORMAT, "unpacks to more than %zu bytes", len);
    zip_fclose(file);
    return status;
}

static enum tmk_status check_sizes(const struct npz *npz, const zip_stat_t *st,
                                   struct tmk_diag *diag) {
    enum { DEFLATE_AT_BEST = 1032, A_LITTLE = 64 };
    const zip_uint64_t known = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    if ((st->valid & known) != known || st->comp_size > tmk_buf_size(npz->file))
        return tmk_fail(diag, TMK_FORMAT, "its sizes are not those of a member of this archive");
    if ((st->valid & ZIP_STAT_ENCRYPTION_METHOD) && st->encryption_method != ZIP_EM_NONE)
        return tmk_fail(diag, TMK_UNSUPPORTED, "is encrypted");
    if (st->comp_method != ZIP_CM_STORE && st->comp_method != ZIP_CM_DEFLATE)
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "is packed by method %u; stored and deflated members are read",
                        st->comp_method);
    uint64_t most = st->comp_method == ZIP_CM_STORE ? st->comp_size
                                                    : st->comp_size * DEFLATE_AT_BEST + A_LITTLE;
    if (st->size > most)
        return tmk_fail(diag, TMK_FORMAT, "cannot unpack from %llu bytes to %llu",
                        (unsigned long long)st->comp_size, (unsigned long long)st->size);
    return TMK_OK;
}

static enum tmk_status read_header(struct npz *npz, struct member *member, const zip_stat_t *st,
                                   struct tmk_diag *diag) {
    unsigned char preamble[TMK_NPY_PREAMBLE];
    TMK_TRY(check_sizes(npz, st, diag));
    size_t have = st->size < sizeof preamble ? (size_t)st->size : sizeof preamble, size = 0;
    member->size = (size_t)st->size;
    TMK_TRY(unpack_entry(npz, member->index, preamble, have, false, diag));
    TMK_TRY(tmk_npy_header_size(preamble, have, &size, diag));
    if (size > member->size)
        return tmk_fail(diag, TMK_FORMAT,
                        "the header takes %zu bytes, but the array ends after %zu", size,
                        member->size);
    struct tmk_buf *buf = tmk_buf_create(size);
    TMK_TRY_ALLOC(buf, diag);
    enum tmk_status status = unpack_entry(npz, member->index, tmk_buf_data(buf), size, false, diag);
    if (status == TMK_OK)
        status = tmk_npy_parse(tmk_buf_data(buf), size, &member->header, diag);
    if (status == TMK_OK)
        status = tmk_npy_check_size(&member->header, st->size, diag);
    tmk_buf_unref(&buf);
    return status;
}

static enum tmk_status add_member(struct tmk_source *source, struct tmk_source_array *array,
                                  const zip_stat_t *st, struct tmk_diag *diag) {
    struct npz *npz = source->own;
    struct member *member = &npz->members[source->info.n_arrays];
    member->index = st->index;
    char *name = tmk_arena_strndup(&source->arena, st->name, strlen(st->name) - strlen(".npy"));
    TMK_TRY_ALLOC(name, diag);
    if (tmk_map_get(&npz->names, name))
        return tmk_fail(diag, TMK_FORMAT, "there are two arrays of this name");
    TMK_TRY_ALLOC(tmk_map_put(&npz->names, name, array), diag);
    TMK_TRY(read_header(npz, member, st, diag));
    *array = (struct tmk_source_array){.name = name,
                                       .n_entries = tmk_npy_entries(&member->header),
                                       .dtype = member->header.dtype,
                                       .shape = member->header.shape};
    source->info.n_arrays++;
    return TMK_OK;
}

static enum tmk_status list_members(struct tmk_source *source, struct tmk_diag *diag) {
    struct npz *npz = source->own;
    zip_int64_t n = zip_get_num_entries(npz->zip, 0);
    if (n < 0 || n > INT32_MAX)
        return tmk_fail(diag, TMK_FORMAT, "has too many members");
    struct tmk_source_array *arrays = tmk_arena_array(&source->arena, (size_t)n, sizeof *arrays);
    npz->members = tmk_arena_array(&source->arena, (size_t)n, sizeof *npz->members);
    TMK_TRY_ALLOC(arrays && npz->members, diag);
    source->info.arrays = arrays;
    for (zip_int64_t i = 0; i < n; i++) {
        zip_stat_t st;
        if (zip_stat_index(npz->zip, (zip_uint64_t)i, 0, &st) != 0 || !(st.valid & ZIP_STAT_NAME))
            return tmk_fail(diag, TMK_FORMAT, "member %lld: %s", (long long)i,
                            zip_strerror(npz->zip));
        if (!tmk_source_ends_in(st.name, ".npy"))
            continue;
        TMK_TRY(tmk_in(diag, add_member(source, &arrays[source->info.n_arrays], &st, diag), "'%s'",
                       st.name));
    }
    if (!source->info.n_arrays)
        return tmk_fail(diag, TMK_FORMAT, "holds no arrays");
    return TMK_OK;
}

static enum tmk_status read_archive(struct tmk_source *source, struct tmk_diag *diag) {
    struct npz *npz = source->own;
    TMK_TRY(open_archive(npz, diag));
    return list_members(source, diag);
}

static enum tmk_status open_npz(struct tmk_source *source, const struct tmk_source_options *options,
                                struct tmk_diag *diag) {
    (void)options;
    struct npz *npz = tmk_arena_alloc(&source->arena, sizeof *npz);
    source->own = npz;
    TMK_TRY_ALLOC(npz, diag);
    TMK_TRY(tmk_file_map(source->info.path, &npz->file, diag));
    return tmk_in(diag, read_archive(source, diag), "%s", source->info.path);
}

static enum tmk_status read_member(struct npz *npz, struct member *member, uint64_t first,
                                   uint64_t count, struct tmk_tensor *out, struct tmk_diag *diag) {
    if (!member->header.refusal && !member->bytes) {
        struct tmk_buf *bytes = tmk_buf_create(member->size);
        TMK_TRY_ALLOC(bytes, diag);
        enum tmk_status status =
            unpack_entry(npz, member->index, tmk_buf_data(bytes), member->size, true, diag);
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
    if (!npz)
        return;
    for (uint32_t i = 0; i < source->info.n_arrays; i++)
        tmk_buf_unref(&npz->members[i].bytes);
    tmk_map_finish(&npz->names);
    if (npz->zip)
        zip_discard(npz->zip);
    tmk_memory_uncharge(npz->held);
    tmk_buf_unref(&npz->file);
}

const struct tmk_source_kind tmk_source_npz = {
    .name = "npz",
    .takes = "FILE.npz (NumPy arrays by name)",
    .claims = claims_npz,
    .open = open_npz,
    .read = read_npz,
    .close = close_npz,
};
