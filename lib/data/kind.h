/* SPDX-License-Identifier: Apache-2.0 */
/* What a kind of source is. A new one is a file with one row, and a line in the list. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/file.h"
#include "data/source.h"

/* In the order in which they are asked. X(name of the row) */
#define TMK_SOURCE_KIND_LIST(X)                                                                    \
    X(stream)                                                                                      \
    X(hdf5)                                                                                        \
    X(npy)                                                                                         \
    X(npz)                                                                                         \
    X(sets)                                                                                        \
    X(jsonl)                                                                                       \
    X(images)                                                                                      \
    X(raw)

/* What is known of a path before its kind is. */
struct tmk_source_probe {
    const char *path;       /* of the file or folder */
    const char *inside;     /* "/a/b" of FILE:/a/b, else NULL */
    bool stream;            /* "-": standard input */
    bool folder;            /* else a regular file */
    unsigned char start[8]; /* of a file, zeroed where it is shorter */
};

struct tmk_source_kind {
    const char *name;
    const char *takes; /* for the message that lists what there is */
    size_t own_size;   /* of what source->own points to, which is zeroed first */
    bool (*claims)(const struct tmk_source_probe *probe); /* of files and streams; NULL: none */
    /* Is the folder one of this kind? NULL: none is. */
    enum tmk_status (*claims_folder)(const char *path, bool *out, struct tmk_diag *diag);
    /* Fills info.arrays, info.n_arrays and *own; info.path, file and inside are there.
     * After a failure, close is called. */
    enum tmk_status (*open)(struct tmk_source *source, const struct tmk_source_options *options,
                            struct tmk_diag *diag);
    /* NULL unless info.binds. */
    enum tmk_status (*bind)(struct tmk_source *source, const struct tmk_source_input *wants,
                            uint32_t n, struct tmk_diag *diag);
    /* NULL: there is nothing that could be done ahead. */
    enum tmk_status (*ahead)(struct tmk_source *source, const struct tmk_source_order *order,
                             struct tmk_source_threads *threads, struct tmk_diag *diag);
    /* As tmk_source_read; `array` is in range, and so are entries unless they are endless. Errors
     * name the path. */
    enum tmk_status (*read)(struct tmk_source *source, uint32_t array, uint64_t first,
                            uint64_t count, struct tmk_tensor *out, struct tmk_diag *diag);
    /* NULL: there are no records. */
    bool (*begins)(const struct tmk_source *source, uint32_t array, uint64_t entry);
    /* NULL unless info.separate; `entry` may be out of range. */
    const char *(*entry_name)(const struct tmk_source *source, uint64_t entry);
    /* NULL: nothing changes. */
    void (*end)(struct tmk_source *source);
    /* As tmk_source_hash. NULL: that of the file. */
    enum tmk_status (*hash)(const struct tmk_source *source, const atomic_bool *stop,
                            char hex[TMK_HASH128_HEX], struct tmk_diag *diag);
    /* Releases what *own holds, which may be half made. */
    void (*close)(struct tmk_source *source);
};

struct tmk_source {
    const struct tmk_source_kind *kind;
    struct tmk_source_info info;
    const char *file, *inside; /* info.path taken apart as in the probe */
    struct tmk_arena arena;    /* arrays, names, own */
    void *own;
};

#define TMK_SOURCE_DECLARE(row) extern const struct tmk_source_kind tmk_source_##row;
TMK_SOURCE_KIND_LIST(TMK_SOURCE_DECLARE)
#undef TMK_SOURCE_DECLARE

/* Does the path end so, whatever the case? */
bool tmk_source_ends_in(const char *path, const char *extension);
/* What comes before the bytes of one of several files: so that a byte cannot move from one to
 * another. */
void tmk_source_hash_head(struct tmk_hash128 *hash, const char *name, uint64_t size);
/* What tmk_source_hash returns where it was stopped. */
enum tmk_status tmk_source_hash_stopped(const struct tmk_source *source, const atomic_bool *stop,
                                        struct tmk_diag *diag);
/* For what was not read by tmk_infile_read: a mapping, and HDF5, give zeros for bytes that a file
 * has lost meanwhile. *tensor becomes *out, or TMK_READ, and it is finished, where `file` is
 * shorter than it was. */
enum tmk_status tmk_source_return_tensor(const struct tmk_infile *file, struct tmk_tensor *tensor,
                                         struct tmk_tensor *out, struct tmk_diag *diag);
