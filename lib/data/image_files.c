/* SPDX-License-Identifier: Apache-2.0 */
#include "data/image_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"

enum { DEEPEST = 32, CHUNK = 1 << 16 };

static bool has_image_name(const char *path) {
    return tmk_source_ends_in(path, ".png") || tmk_source_ends_in(path, ".jpg") ||
           tmk_source_ends_in(path, ".jpeg");
}

static char *join_path(struct tmk_arena *arena, const char *folder, const char *name) {
    return tmk_arena_printf(arena, "%s%s%s", folder, *folder ? "/" : "", name);
}

static enum tmk_status add_file(struct tmk_image_files *files, const char *path, const char *name,
                                struct tmk_diag *diag) {
    TMK_TRY_ALLOC(path && name && TMK_GROW(files->file, files->n, files->size), diag);
    files->file[files->n++] = (struct tmk_image_file){path, name};
    return TMK_OK;
}

/* ---- a folder ---- */

enum entry { ENTRY_OTHER, ENTRY_IMAGE, ENTRY_FOLDER };

/* Links to folders are not followed, since they may lead in circles. */
static enum entry look_at(const char *path, const struct dirent *entry) {
    struct stat st;
    if (entry->d_name[0] == '.')
        return ENTRY_OTHER;
    if (entry->d_type == DT_DIR ||
        (entry->d_type == DT_UNKNOWN && lstat(path, &st) == 0 && S_ISDIR(st.st_mode)))
        return ENTRY_FOLDER;
    if (!has_image_name(entry->d_name))
        return ENTRY_OTHER;
    /* what is gone or no file is an entry too, and its failure is reported */
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? ENTRY_OTHER : ENTRY_IMAGE;
}

/* Adds what is in the folder, or (files NULL) stops at the first image. `inner` is the folder's
 * path within the source's. */
static enum tmk_status walk_folder(struct tmk_arena *arena, const char *folder, const char *inner,
                                   int depth, struct tmk_image_files *files, bool *found,
                                   struct tmk_diag *diag) {
    DIR *directory = opendir(folder);
    enum tmk_status status = directory ? TMK_OK : tmk_cannot_read(diag, folder);
    const struct dirent *entry;
    while (status == TMK_OK && (files || !*found) && (errno = 0, entry = readdir(directory))) {
        char *path = join_path(arena, folder, entry->d_name);
        char *name = join_path(arena, inner, entry->d_name);
        if (!path || !name) {
            status = tmk_nomem(diag);
            break;
        }
        enum entry is = look_at(path, entry);
        if (is == ENTRY_IMAGE) {
            *found = true;
            if (files)
                status = add_file(files, path, name, diag);
        } else if (is == ENTRY_FOLDER && depth < DEEPEST) {
            status = walk_folder(arena, path, name, depth + 1, files, found, diag);
        }
    }
    if (status == TMK_OK && (files || !*found) && errno)
        status = tmk_cannot_read(diag, folder);
    if (directory)
        closedir(directory);
    return status;
}

static int by_name(const void *a, const void *b) {
    const struct tmk_image_file *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* ---- a list ---- */

static enum tmk_status add_line(struct tmk_source *source, const char *line, size_t len,
                                struct tmk_image_files *files, struct tmk_diag *diag) {
    while (len && (line[len - 1] == '\r' || line[len - 1] == ' ' || line[len - 1] == '\t'))
        len--;
    if (!len)
        return TMK_OK;
    if (memchr(line, '\0', len))
        return tmk_fail(diag, TMK_FORMAT, "is no text: it holds a zero byte");
    const char *name = tmk_arena_strndup(&source->arena, line, len);
    const char *slash = strrchr(source->info.path, '/');
    if (!name || *name == '/' || !slash)
        return add_file(files, name, name, diag);
    char *folder =
        tmk_arena_strndup(&source->arena, source->info.path, (size_t)(slash - source->info.path));
    return folder ? add_file(files, join_path(&source->arena, *folder ? folder : "/", name), name,
                             diag)
                  : tmk_nomem(diag);
}

static enum tmk_status read_list(struct tmk_source *source, const char *text, size_t len,
                                 struct tmk_image_files *files, struct tmk_diag *diag) {
    size_t number = 1;
    for (size_t at = 0; at < len; number++) {
        const char *newline = memchr(text + at, '\n', len - at);
        size_t n = newline ? (size_t)(newline - text) - at : len - at;
        TMK_TRY(tmk_in(diag, add_line(source, text + at, n, files, diag), "line %zu", number));
        at += n + 1;
    }
    return TMK_OK;
}

static enum tmk_status add_listed(struct tmk_source *source, struct tmk_image_files *files,
                                  struct tmk_diag *diag) {
    struct tmk_buf *buf = NULL;
    TMK_TRY(tmk_file_map(source->info.path, &buf, diag));
    enum tmk_status status =
        tmk_in(diag, read_list(source, tmk_buf_data(buf), tmk_buf_size(buf), files, diag), "%s",
               source->info.path);
    tmk_buf_unref(&buf);
    return status;
}

/* ---- all ---- */

bool tmk_image_files_claim(const struct tmk_source_probe *probe) {
    return !probe->inside && !probe->stream &&
           (memcmp(probe->start, "\x89PNG\r\n\x1a\n", 8) == 0 ||
            memcmp(probe->start, "\xff\xd8\xff", 3) == 0 || has_image_name(probe->path) ||
            tmk_source_ends_in(probe->path, ".txt"));
}

enum tmk_status tmk_image_files_claim_folder(const char *path, bool *out, struct tmk_diag *diag) {
    struct tmk_arena arena = {0};
    *out = false;
    enum tmk_status status = walk_folder(&arena, path, "", 0, NULL, out, diag);
    tmk_arena_finish(&arena);
    return status;
}

enum tmk_status tmk_image_files_list(struct tmk_source *source, struct tmk_image_files *files,
                                     struct tmk_diag *diag) {
    const char *path = source->info.path, *slash = strrchr(path, '/');
    struct stat st;
    bool found = false;
    if (stat(path, &st) != 0)
        return tmk_cannot_read(diag, path);
    if (S_ISDIR(st.st_mode)) {
        TMK_TRY(walk_folder(&source->arena, path, "", 0, files, &found, diag));
        if (files->n)
            qsort(files->file, files->n, sizeof *files->file, by_name);
    } else if (tmk_source_ends_in(path, ".txt")) {
        TMK_TRY(add_listed(source, files, diag));
    } else {
        TMK_TRY(add_file(files, path, slash ? slash + 1 : path, diag));
    }
    if (!files->n)
        return tmk_fail(diag, TMK_FORMAT, "%s: names no images", path);
    return TMK_OK;
}

static void hash_file(struct tmk_hash128 *hash, const struct tmk_image_file *file,
                      unsigned char *bytes) {
    struct tmk_infile in = {.fd = -1};
    bool there = tmk_infile_open(file->path, &in, NULL) == TMK_OK;
    uint64_t size = there ? in.size : UINT64_MAX;
    tmk_source_hash_head(hash, file->name, size);
    for (uint64_t at = 0; there && at < size; at += CHUNK) {
        size_t n = size - at < CHUNK ? (size_t)(size - at) : CHUNK;
        there = tmk_infile_read(&in, at, bytes, n, NULL) == TMK_OK;
        if (there)
            tmk_hash128_update(hash, bytes, n);
    }
    tmk_infile_close(&in);
}

enum tmk_status tmk_image_files_hash(const struct tmk_source *source,
                                     const struct tmk_image_files *files, const atomic_bool *stop,
                                     char hex[TMK_HASH128_HEX], struct tmk_diag *diag) {
    char digest[TMK_HASH128_HEX];
    struct tmk_hash128 *hash = tmk_hash128_create();
    unsigned char *bytes = malloc(CHUNK);
    enum tmk_status status = hash && bytes ? TMK_OK : tmk_nomem(diag);
    for (size_t i = 0; status == TMK_OK && i < files->n; i++) {
        hash_file(hash, &files->file[i], bytes);
        status = tmk_source_hash_stopped(source, stop, diag);
    }
    if (hash)
        tmk_hash128_finish(&hash, digest);
    if (status == TMK_OK)
        memcpy(hex, digest, sizeof digest);
    free(bytes);
    return status;
}
