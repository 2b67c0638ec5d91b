/* SPDX-License-Identifier: Apache-2.0 */
#include "data/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "base/text.h"
#include "data/kind.h"

enum { GLANCE = 1 << 14 /* bytes at each end */ };

static const struct tmk_source_kind *const kinds[] = {
#define TMK_SOURCE_ROW(row) &tmk_source_##row,
    TMK_SOURCE_KIND_LIST(TMK_SOURCE_ROW)
#undef TMK_SOURCE_ROW
};

bool tmk_source_ends_in(const char *path, const char *extension) {
    size_t n = strlen(path), k = strlen(extension);
    return n > k && strcasecmp(path + n - k, extension) == 0;
}

/* FIFOs and devices may keep a reader waiting for ever. */
static enum tmk_status refuse_special(const char *path, struct tmk_diag *diag) {
    return tmk_fail(diag, TMK_READ,
                    "%s: is neither a file nor a folder; a stream of .npy records is read from "
                    "standard input, as --data -",
                    path);
}

static enum tmk_status read_start(struct tmk_source_probe *probe, struct tmk_diag *diag) {
    FILE *file = fopen(probe->path, "rbe");
    if (!file)
        return tmk_cannot_read(diag, probe->path);
    size_t n = fread(probe->start, 1, sizeof probe->start, file);
    bool failed = n < sizeof probe->start && ferror(file);
    enum tmk_status status = failed ? tmk_cannot_read(diag, probe->path) : TMK_OK;
    fclose(file);
    return status;
}

/* FILE:/INSIDE, where there is a file of that name. */
static enum tmk_status split_inside(struct tmk_source *source, struct stat *st, bool *found,
                                    struct tmk_diag *diag) {
    const char *path = source->info.path;
    *found = false;
    for (const char *colon = strstr(path, ":/"); colon && !*found;
         colon = strstr(colon + 1, ":/")) {
        char *file = tmk_arena_strndup(&source->arena, path, (size_t)(colon - path));
        TMK_TRY_ALLOC(file, diag);
        if (stat(file, st) == 0 && S_ISREG(st->st_mode)) {
            source->file = file;
            source->inside = colon + 1;
            *found = true;
        }
    }
    return TMK_OK;
}

/* A file's name may be any bytes; what is written down is text. */
static char *as_text(char *name) {
    if (name && !tmk_utf8_valid(name, strlen(name)))
        for (char *c = name; *c; c++)
            if ((unsigned char)*c >= 0x80)
                *c = '?';
    return name;
}

/* "photos" of /a/b/photos/, "x.h5:/data" of /a/b/x.h5:/data. */
static const char *label_of(struct tmk_source *source) {
    const char *path = source->info.path;
    size_t end = strlen(source->file);
    while (end > 1 && source->file[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin && path[begin - 1] != '/')
        begin--;
    return as_text(source->inside ? tmk_arena_strdup(&source->arena, path + begin)
                                  : tmk_arena_strndup(&source->arena, path + begin, end - begin));
}

static enum tmk_status probe_path(struct tmk_source *source, struct tmk_source_probe *out,
                                  struct tmk_diag *diag) {
    const char *path = source->info.path;
    struct stat st;
    source->file = path;
    if (strcmp(path, "-") == 0) {
        *out = (struct tmk_source_probe){.path = path, .stream = true};
        return TMK_OK;
    }
    if (stat(path, &st) != 0) {
        int error = errno;
        bool found;
        TMK_TRY(split_inside(source, &st, &found, diag));
        errno = error;
        if (!found)
            return tmk_cannot_read(diag, path);
    }
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return refuse_special(path, diag);
    struct tmk_source_probe probe = {
        .path = source->file, .inside = source->inside, .folder = S_ISDIR(st.st_mode)};
    if (!probe.folder)
        TMK_TRY(read_start(&probe, diag));
    *out = probe;
    return TMK_OK;
}

static enum tmk_status no_kind(const char *path, struct tmk_diag *diag) {
    struct tmk_text text = {0};
    struct stat st;
    const bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    const char *is = folder ? "a folder" : tmk_file_kind_text(tmk_file_kind(path));
    for (size_t i = 0; i < TMK_COUNT(kinds); i++) { /* without what is in brackets */
        const char *takes = kinds[i]->takes, *more = strstr(takes, " (");
        tmk_text_printf(&text, "%s%.*s", i ? ", " : "",
                        more ? (int)(more - takes) : (int)strlen(takes), takes);
    }
    enum tmk_status status =
        text.failed ? tmk_nomem(diag)
                    : tmk_fail(diag, TMK_UNSUPPORTED,
                               "%s: is %s%sno source of data that is known; there are: %s", path,
                               is, *is ? ", and " : "", text.data);
    tmk_text_finish(&text);
    return status;
}

static enum tmk_status open_path(struct tmk_source *source,
                                 const struct tmk_source_options *options, struct tmk_diag *diag) {
    struct tmk_source_probe probe = {0};
    const struct tmk_source_kind *kind = NULL;
    TMK_TRY(probe_path(source, &probe, diag));
    for (size_t i = 0; i < TMK_COUNT(kinds) && !kind; i++) {
        bool claimed = false;
        if (!probe.folder)
            claimed = kinds[i]->claims && kinds[i]->claims(&probe);
        else if (kinds[i]->claims_folder)
            TMK_TRY(kinds[i]->claims_folder(probe.path, &claimed, diag));
        if (claimed)
            kind = kinds[i];
    }
    if (!kind)
        return no_kind(source->info.path, diag);
    source->info.label = label_of(source);
    TMK_TRY_ALLOC(source->info.label, diag);
    source->own = tmk_arena_alloc(&source->arena, kind->own_size);
    TMK_TRY_ALLOC(source->own, diag);
    source->kind = kind;
    source->info.kind = kind->name;
    return kind->open(source, options, diag);
}

enum tmk_status tmk_source_open(const char *path, const struct tmk_source_options *options,
                                struct tmk_source **out, struct tmk_diag *diag) {
    static const struct tmk_source_options nothing_said = {0};
    struct tmk_source *source = calloc(1, sizeof *source);
    TMK_TRY_ALLOC(source, diag);
    source->info.path = tmk_arena_strdup(&source->arena, path);
    enum tmk_status status = source->info.path
                                 ? open_path(source, options ? options : &nothing_said, diag)
                                 : tmk_nomem(diag);
    if (status == TMK_OK)
        *out = source;
    else
        tmk_source_close(&source);
    return status;
}

void tmk_source_close(struct tmk_source **slot) {
    struct tmk_source *source = slot ? *slot : NULL;
    if (!source)
        return;
    *slot = NULL;
    if (source->kind)
        source->kind->close(source);
    tmk_arena_finish(&source->arena);
    free(source);
}

const struct tmk_source_info *tmk_source_info(const struct tmk_source *source) {
    return &source->info;
}

/* Of streams, and of what is refused whatever is wanted of it, read decides. */
static enum tmk_status check_range(const struct tmk_source *source,
                                   const struct tmk_source_array *array, uint64_t first,
                                   uint64_t count, struct tmk_diag *diag) {
    const uint64_t n = array->n_entries;
    const bool single = array->whole || source->info.separate;
    if (n == TMK_SOURCE_ENDLESS || (!array->whole && array->dtype == TMK_UNDEFINED))
        return TMK_OK;
    if (!array->whole && !array->shape.rank)
        return tmk_fail(diag, TMK_RANGE, "%s: a scalar has no entries", source->info.path);
    if (first > n || count > n - first || (single && !count) || (array->whole && count > 1))
        return tmk_fail(diag, TMK_RANGE, "%s: %llu entries from %llu on are wanted, of %llu%s",
                        source->info.path, (unsigned long long)count, (unsigned long long)first,
                        (unsigned long long)n, array->whole ? " single ones" : "");
    return TMK_OK;
}

enum tmk_status tmk_source_read(struct tmk_source *source, uint32_t array, uint64_t first,
                                uint64_t count, struct tmk_tensor *out, struct tmk_diag *diag) {
    if (array >= source->info.n_arrays)
        return tmk_fail(diag, TMK_ARGUMENT, "%s: array %u of %u is wanted", source->info.path,
                        array, source->info.n_arrays);
    TMK_TRY(check_range(source, &source->info.arrays[array], first, count, diag));
    return source->kind->read(source, array, first, count, out, diag);
}

enum tmk_status tmk_source_return_tensor(const struct tmk_infile *file, struct tmk_tensor *tensor,
                                         struct tmk_tensor *out, struct tmk_diag *diag) {
    enum tmk_status status = tmk_infile_check(file, diag);
    if (status == TMK_OK)
        *out = *tensor;
    else
        tmk_tensor_finish(tensor);
    return status;
}

enum tmk_status tmk_source_bind(struct tmk_source *source, const struct tmk_source_input *wants,
                                uint32_t n, struct tmk_diag *diag) {
    return source->kind->bind ? source->kind->bind(source, wants, n, diag) : TMK_OK;
}

enum tmk_status tmk_source_ahead(struct tmk_source *source, const struct tmk_source_order *order,
                                 struct tmk_source_threads *threads, struct tmk_diag *diag) {
    return source->kind->ahead ? source->kind->ahead(source, order, threads, diag) : TMK_OK;
}

bool tmk_source_begins(const struct tmk_source *source, uint32_t array, uint64_t entry) {
    return source->kind->begins && source->kind->begins(source, array, entry);
}

const char *tmk_source_entry_name(const struct tmk_source *source, uint64_t entry) {
    return source->kind->entry_name ? source->kind->entry_name(source, entry) : "";
}

void tmk_source_end(struct tmk_source *source) {
    if (source->kind->end)
        source->kind->end(source);
}

/* ---- its bytes ---- */

void tmk_source_hash_head(struct tmk_hash128 *hash, const char *name, uint64_t size) {
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(size >> 8 * i);
    tmk_hash128_update(hash, name, strlen(name) + 1);
    tmk_hash128_update(hash, bytes, sizeof bytes);
}

enum tmk_status tmk_source_hash_stopped(const struct tmk_source *source, const atomic_bool *stop,
                                        struct tmk_diag *diag) {
    if (stop && atomic_load(stop))
        return tmk_fail(diag, TMK_INTERRUPTED, "%s: stopped while it was hashed",
                        source->info.path);
    return TMK_OK;
}

enum tmk_status tmk_source_hash(const struct tmk_source *source, const atomic_bool *stop,
                                char hex[TMK_HASH128_HEX], struct tmk_diag *diag) {
    if (source->kind->hash)
        return source->kind->hash(source, stop, hex, diag);
    return tmk_file_hash128(source->file, stop, hex, diag);
}

/* Of the file's size, its first bytes and its last. */
static uint64_t glance_at_file(const char *path) {
    unsigned char ends[2 * GLANCE] = {0};
    struct tmk_infile file = {.fd = -1};
    if (tmk_infile_open(path, &file, NULL) != TMK_OK)
        return 0;
    size_t n = file.size < GLANCE ? (size_t)file.size : GLANCE;
    bool there = tmk_infile_read(&file, 0, ends, n, NULL) == TMK_OK &&
                 tmk_infile_read(&file, file.size - n, ends + n, n, NULL) == TMK_OK;
    tmk_infile_close(&file);
    return tmk_hash64(ends, there ? 2 * n : 0, file.size);
}

uint64_t tmk_source_quick_hash(const struct tmk_source *source) {
    uint64_t hash = glance_at_file(source->file);
    uint64_t n = source->info.separate ? source->info.arrays[0].n_entries : 0;
    for (uint64_t i = 0; i < n; i++) {
        const char *name = tmk_source_entry_name(source, i);
        hash = tmk_hash64(name, strlen(name), hash);
    }
    return hash;
}
