/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays in a .npz file: a zip archive with a member NAME.npy for each. A member is unpacked when
 * it is first read, and kept. Other members are left alone.
 *
 * The sizes that the archive announces are believed only as far as they agree with each other: a
 * member can't unpack to more than deflate can pack, and must be as long as its own header states.
 * So nothing large is allocated for a small file. */
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/map.h"
#include "base/memory.h"
#include "data/kind.h"
#include "data/npy.h"
#include "data/zip_wire.h"
#include "sandbox/helper.h"

/* ---- archives ---- */

/* A helper program unpacks them (sandbox/helper.h): libzip and zlib see no untrusted byte in this
 * process. What it answers is as hostile as the file. Errors do not name the path. */

enum {
    ZIP_SECONDS = 10, /* of processor time that a request may take */
    ZIP_MOST_NAME = 65535,
    /* bytes, in APPNOTE.TXT */
    ZIP_END = 22,
    ZIP_LOCATOR = 20,
    ZIP_END64 = 56,
    ZIP_COMMENT = 65535,
    ZIP_ENTRY = 46,
    ZIP_STORED = 0,
    ZIP_DEFLATED = 8,
};

/* What the process may take besides its directory. */
static const uint64_t zip_memory = UINT64_C(64) << 20;

static const struct tmk_helper_kind zip_helper = {"tidemark-read-archives", "archives", "libzip"};

struct zip_entry {
    const char *name;      /* until the next call */
    uint64_t size, packed; /* bytes, as announced: unpacked it may be of another size */
    uint32_t method;
    bool known, encrypted; /* known: size, packed and method are */
};

struct zip {
    struct tmk_infile file;
    struct tmk_helper process;
    size_t held; /* charged for the directory */
    uint64_t n;
    uint64_t listed,
        n_listed; /* members whose records are in the shared memory; where the next is */
    size_t place;
    char name[ZIP_MOST_NAME + 1];
};

/* ---- the directory ---- */

static uint64_t get_zip_number(const unsigned char *at, int bytes) {
    uint64_t n = 0;
    for (int i = bytes - 1; i >= 0; i--)
        n = n << 8 | at[i];
    return n;
}

/* What libzip takes, as the record at `at`, behind the directory, says. */
static uint64_t zip_said_by(const struct tmk_infile *file, const unsigned char *tail, size_t at) {
    enum { OF_LIBZIP = 384 };
    unsigned char record[ZIP_END64];
    const unsigned char *locator = at < ZIP_LOCATOR ? NULL : tail + at - ZIP_LOCATOR;
    uint64_t members = get_zip_number(tail + at + 10, 2), bytes = get_zip_number(tail + at + 12, 4);
    const bool large = locator && memcmp(locator, "PK\6\7", 4) == 0;
    const uint64_t end = large ? get_zip_number(locator + 8, 8) : 0;
    if (large && file->size >= ZIP_END64 && end <= file->size - ZIP_END64 &&
        tmk_infile_read(file, end, record, sizeof record, NULL) == TMK_OK) {
        members = get_zip_number(record + 32, 8);
        bytes = get_zip_number(record + 40, 8);
    }
    members = members < file->size / ZIP_ENTRY ? members : file->size / ZIP_ENTRY;
    return members * OF_LIBZIP + 2 * (bytes < file->size ? bytes : file->size);
}

/* What libzip makes of the directory, which it reads before anybody can ask for its size: a record
 * and a place in a table for each member, and names twice. Records at the archive's end give their
 * count; of several such, libzip takes what fits. (APPNOTE.TXT 6.3.10, 4.3.14 to 4.3.16) */
static enum tmk_status find_zip_directory(const struct tmk_infile *file, uint64_t *out,
                                          struct tmk_diag *diag) {
    const size_t most = ZIP_COMMENT + ZIP_END + ZIP_LOCATOR,
                 size = file->size < most ? (size_t)file->size : most;
    unsigned char *tail = malloc(size + 1);
    TMK_TRY_ALLOC(tail, diag);
    enum tmk_status status = tmk_infile_read(file, file->size - size, tail, size, diag);
    for (size_t back = ZIP_END; status == TMK_OK && back <= size && back <= ZIP_COMMENT + ZIP_END;
         back++) {
        if (memcmp(tail + size - back, "PK\5\6", 4) != 0)
            continue;
        const uint64_t takes = zip_said_by(file, tail, size - back);
        *out = takes > *out ? takes : *out;
    }
    free(tail);
    return status;
}

/* ---- the process ---- */

static enum tmk_status fail_zip_reply(struct tmk_diag *diag) {
    return tmk_fail(diag, TMK_READ,
                    "is damaged: the process that unpacks it gave an invalid answer");
}

static enum tmk_status call_zip(struct zip *zip, const struct tmk_zip_ask *ask, uint64_t *n,
                                struct tmk_diag *diag) {
    struct tmk_helper_answer answer = {0};
    struct tmk_zip_reply reply = {0};
    TMK_TRY(tmk_helper_send(&zip->process, ask, sizeof *ask, NULL, 0, ZIP_SECONDS, diag));
    TMK_TRY(tmk_helper_receive(&zip->process, ask->op, &answer, &reply, sizeof reply, diag));
    *n = reply.n;
    switch ((enum tmk_status)answer.outcome) {
    case TMK_OK:
        return TMK_OK;
    case TMK_NOMEM:
        return tmk_nomem(diag);
    case TMK_FORMAT:
        return tmk_fail(diag, TMK_FORMAT, "%s", answer.why);
    default:
        return fail_zip_reply(diag);
    }
}

static enum tmk_status begin_zip(struct zip *zip, const char *path, struct tmk_diag *diag) {
    uint64_t takes = 0;
    TMK_TRY(tmk_infile_open(path, &zip->file, diag));
    TMK_TRY(find_zip_directory(&zip->file, &takes, diag));
    if (takes > SIZE_MAX || !tmk_memory_charge((size_t)takes))
        return tmk_memory_fail(diag, (size_t)takes, "the archive's directory");
    zip->held = (size_t)takes;
    TMK_TRY(tmk_helper_begin(&zip_helper, zip->file.fd, TMK_ZIP_SHARED, zip_memory + takes,
                             &zip->process, diag));
    const struct tmk_zip_ask ask = {.op = TMK_ZIP_OPEN, .len = zip->file.size};
    return call_zip(zip, &ask, &zip->n, diag);
}

static void close_zip(struct zip **zip) {
    if (!*zip)
        return;
    tmk_helper_end(&(*zip)->process);
    tmk_memory_uncharge((*zip)->held);
    tmk_infile_close(&(*zip)->file);
    free(*zip);
    *zip = NULL;
}

/* The memory that its directory takes is charged. TMK_READ, TMK_FORMAT, TMK_LIMIT, TMK_MACHINE. */
static enum tmk_status open_zip(const char *path, struct zip **out, struct tmk_diag *diag) {
    struct zip *zip = calloc(1, sizeof *zip);
    TMK_TRY_ALLOC(zip, diag);
    zip->file.fd = zip->process.fd = -1;
    enum tmk_status status = begin_zip(zip, path, diag);
    if (status == TMK_OK)
        *out = zip;
    else
        close_zip(&zip);
    return status;
}

/* ---- members ---- */

static enum tmk_status list_member(struct zip *zip, uint64_t index, struct zip_entry *out,
                                   struct tmk_diag *diag) {
    struct tmk_zip_record record;
    if (index != zip->listed || !zip->n_listed) {
        const struct tmk_zip_ask ask = {.op = TMK_ZIP_LIST, .index = index};
        TMK_TRY(call_zip(zip, &ask, &zip->n_listed, diag));
        zip->listed = index;
        zip->place = 0;
    }
    const size_t left = zip->process.size - zip->place;
    if (!zip->n_listed || left < sizeof record)
        return fail_zip_reply(diag);
    /* Copies, which the process does not change any more. */
    memcpy(&record, zip->process.shared + zip->place, sizeof record);
    if (record.name_len > ZIP_MOST_NAME || record.name_len > left - sizeof record)
        return fail_zip_reply(diag);
    memcpy(zip->name, zip->process.shared + zip->place + sizeof record, record.name_len);
    zip->name[record.name_len] = '\0';
    zip->place += sizeof record + record.name_len;
    zip->listed++;
    zip->n_listed--;
    *out = (struct zip_entry){.name = zip->name,
                              .size = record.size,
                              .packed = record.packed,
                              .method = record.method,
                              .known = record.flags & TMK_ZIP_KNOWN,
                              .encrypted = record.flags & TMK_ZIP_ENCRYPTED};
    return TMK_OK;
}

/* Could it be read, and be as large as announced? TMK_FORMAT, TMK_UNSUPPORTED. */
static enum tmk_status check_member(const struct zip *zip, const struct zip_entry *entry,
                                    struct tmk_diag *diag) {
    enum { DEFLATE_AT_BEST = 1032, A_LITTLE = 64 };
    if (!entry->known || entry->packed > zip->file.size)
        return tmk_fail(diag, TMK_FORMAT, "its sizes are not those of a member of this archive");
    if (entry->encrypted)
        return tmk_fail(diag, TMK_UNSUPPORTED, "is encrypted");
    if (entry->method != ZIP_STORED && entry->method != ZIP_DEFLATED)
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "is packed by method %u; stored and deflated members are read",
                        entry->method);
    const uint64_t most =
        entry->method == ZIP_STORED ? entry->packed : entry->packed * DEFLATE_AT_BEST + A_LITTLE;
    if (entry->size > most)
        return tmk_fail(diag, TMK_FORMAT, "cannot unpack from %llu bytes to %llu",
                        (unsigned long long)entry->packed, (unsigned long long)entry->size);
    return TMK_OK;
}

static enum tmk_status read_zip_pieces(struct zip *zip, uint64_t index, char *bytes, size_t len,
                                       bool whole, struct tmk_diag *diag) {
    zip->n_listed = 0;
    uint64_t n = 1;
    for (size_t done = 0; done < len || (whole && n);) {
        const size_t left = done < len ? len - done : 1;
        const struct tmk_zip_ask ask = {.op = TMK_ZIP_READ,
                                        .index = index,
                                        .at = done,
                                        .len = left < TMK_ZIP_SHARED ? left : TMK_ZIP_SHARED};
        TMK_TRY(call_zip(zip, &ask, &n, diag));
        if (n > ask.len)
            return fail_zip_reply(diag);
        if (n && done == len)
            return tmk_fail(diag, TMK_FORMAT, "unpacks to more than %zu bytes", len);
        if (n < ask.len && done + n < len)
            return tmk_fail(diag, TMK_FORMAT, "unpacks to %zu bytes, not to %zu", done + (size_t)n,
                            len);
        memcpy(bytes + done, zip->process.shared, (size_t)n);
        done += (size_t)n;
    }
    return TMK_OK;
}

/* Exactly `len` bytes from the member's start; with `whole`, nothing may come after them, and the
 * checksum counts. */
static enum tmk_status unpack_member(struct zip *zip, uint64_t index, void *bytes, size_t len,
                                     bool whole, struct tmk_diag *diag) {
    struct tmk_diag why = {0};
    enum tmk_status status = read_zip_pieces(zip, index, bytes, len, whole, &why);
    if (status == TMK_OK)
        return TMK_OK;
    TMK_TRY(tmk_infile_check(&zip->file, diag)); /* which says more */
    return tmk_fail(diag, status, "%s", why.text);
}

struct member {
    uint64_t index; /* in the archive */
    size_t size;    /* unpacked */
    struct tmk_npy header;
    struct tmk_buf *bytes; /* NULL until wanted */
};

struct npz {
    struct zip *zip;
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
    TMK_TRY(unpack_member(npz->zip, member->index, start, have, false, diag));
    TMK_TRY(tmk_npy_header_size(start, have, &size, diag));
    if (size > member->size)
        return tmk_fail(diag, TMK_FORMAT,
                        "the header takes %zu bytes, but the array ends after %zu", size,
                        member->size);
    struct tmk_buf *buf = size > have ? tmk_buf_create(size) : NULL;
    TMK_TRY_ALLOC(buf || size <= have, diag);
    enum tmk_status status =
        buf ? unpack_member(npz->zip, member->index, tmk_buf_data(buf), size, false, diag) : TMK_OK;
    TMK_THEN(status, tmk_npy_parse(buf ? tmk_buf_data(buf) : start, size, &member->header, diag));
    TMK_THEN(status, tmk_npy_check_size(&member->header, member->size, diag));
    tmk_buf_unref(&buf);
    return status;
}

static enum tmk_status add_member(struct tmk_source *source, struct tmk_source_array *array,
                                  uint64_t index, const struct zip_entry *entry, char *name,
                                  struct tmk_diag *diag) {
    struct npz *npz = source->own;
    struct member *member = &npz->members[source->info.n_arrays];
    member->index = index;
    member->size = (size_t)entry->size;
    if (tmk_map_get(&npz->names, name))
        return tmk_fail(diag, TMK_FORMAT, "there are two arrays of this name");
    TMK_TRY_ALLOC(tmk_map_put(&npz->names, name, array), diag);
    TMK_TRY(check_member(npz->zip, entry, diag));
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
    const uint64_t n = npz->zip->n;
    if (n > INT32_MAX)
        return tmk_fail(diag, TMK_FORMAT, "has too many members");
    struct tmk_source_array *arrays = tmk_arena_array(&source->arena, (size_t)n, sizeof *arrays);
    npz->members = tmk_arena_array(&source->arena, (size_t)n, sizeof *npz->members);
    TMK_TRY_ALLOC(arrays && npz->members, diag);
    source->info.arrays = arrays;
    for (uint64_t i = 0; i < n; i++) {
        struct zip_entry entry;
        TMK_TRY(list_member(npz->zip, i, &entry, diag));
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
    TMK_TRY(open_zip(source->info.path, &npz->zip, diag));
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
            unpack_member(npz->zip, member->index, tmk_buf_data(bytes), member->size, true, diag);
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
    close_zip(&npz->zip);
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
