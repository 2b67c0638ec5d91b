/* SPDX-License-Identifier: Apache-2.0 */
#include "data/npz_write.h"

#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/map.h"
#include "base/text.h"
#include "data/npy.h"

/* A name becomes a path when the archive is unpacked: it may not climb. */
static const char *fault_of(const char *name) {
    if (!*name)
        return "is empty";
    if (!tmk_utf8_valid(name, strlen(name)))
        return "is not UTF-8";
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return "has a control character";
    for (const char *part = name;;) {
        size_t n = strcspn(part, "/\\");
        if (n == 2 && part[0] == '.' && part[1] == '.')
            return "has '..' among its parts";
        if (!part[n])
            return NULL;
        part += n + 1;
    }
}

/* numpy.load finds a member by its name with and without ".npy", so "x" and "x.npy" collide too. */
static enum tmk_status check_names(const struct tmk_npz_entry *entries, size_t n,
                                   struct tmk_arena *arena, struct tmk_map *names,
                                   struct tmk_diag *diag) {
    for (size_t i = 0; i < n; i++) {
        const char *name = entries[i].name, *fault = fault_of(name);
        if (fault)
            return tmk_fail(diag, TMK_UNSUPPORTED, "the array's name '%s' %s", name, fault);
        if (tmk_map_get(names, name))
            return tmk_fail(diag, TMK_UNSUPPORTED, "there are two arrays named '%s'", name);
        TMK_TRY_ALLOC(tmk_map_put(names, name, (void *)(size_t)name), diag);
    }
    for (size_t i = 0; i < n; i++) {
        if (!tmk_ends_in(entries[i].name, ".npy"))
            continue;
        char *shorter = tmk_arena_strndup(arena, entries[i].name, strlen(entries[i].name) - 4);
        TMK_TRY_ALLOC(shorter, diag);
        if (tmk_map_get(names, shorter))
            return tmk_fail(diag, TMK_UNSUPPORTED,
                            "arrays named '%s' and '%s' cannot be in one .npz file", shorter,
                            entries[i].name);
    }
    return TMK_OK;
}

static enum tmk_status zip_failed(zip_error_t *error, struct tmk_diag *diag) {
    return zip_error_code_zip(error) == ZIP_ER_MEMORY
               ? tmk_nomem(diag)
               : tmk_fail(diag, TMK_WRITE, "the archive cannot be made: %s",
                          zip_error_strerror(error));
}

static enum tmk_status add_member(zip_t *zip, const struct tmk_npz_entry *entry,
                                  struct tmk_arena *arena, struct tmk_diag *diag) {
    enum { DOS_1980_01_01 = 1 << 5 | 1 };
    struct tmk_text header = {0}, name = {0};
    enum tmk_status status = tmk_npy_write_header(entry->tensor, &header, diag);
    tmk_text_printf(&name, "%s.npy", entry->name);
    /* libzip reads these when it closes the archive */
    char *kept = status == TMK_OK ? tmk_arena_strndup(arena, header.data, header.len) : NULL;
    if (status == TMK_OK && (!kept || name.failed))
        status = tmk_nomem(diag);
    if (status == TMK_OK) {
        zip_buffer_fragment_t parts[] = {
            {(zip_uint8_t *)kept, header.len},
            {entry->tensor->data, tmk_tensor_bytes(entry->tensor)},
        };
        zip_source_t *from = zip_source_buffer_fragment_create(parts, parts[1].length ? 2 : 1, 0,
                                                               zip_get_error(zip));
        zip_int64_t index = from ? zip_file_add(zip, name.data, from, ZIP_FL_ENC_UTF_8) : -1;
        if (from && index < 0)
            zip_source_free(from);
        if (index < 0 || zip_set_file_compression(zip, (zip_uint64_t)index, ZIP_CM_STORE, 0) != 0 ||
            zip_file_set_dostime(zip, (zip_uint64_t)index, 0, DOS_1980_01_01, 0) != 0)
            status = zip_failed(zip_get_error(zip), diag);
    }
    tmk_text_finish(&header);
    tmk_text_finish(&name);
    return status;
}

/* The archive as bytes in memory, held by `to`. */
static enum tmk_status make_archive(zip_source_t *to, const struct tmk_npz_entry *entries, size_t n,
                                    struct tmk_arena *arena, struct tmk_diag *diag) {
    zip_error_t error;
    zip_error_init(&error);
    zip_source_keep(to);
    zip_t *zip = zip_open_from_source(to, ZIP_TRUNCATE, &error);
    if (!zip) {
        zip_source_free(to);
        enum tmk_status status = zip_failed(&error, diag);
        zip_error_fini(&error);
        return status;
    }
    enum tmk_status status = TMK_OK;
    for (size_t i = 0; i < n && status == TMK_OK; i++)
        status = tmk_in(diag, add_member(zip, &entries[i], arena, diag), "'%s'", entries[i].name);
    if (status == TMK_OK && zip_close(zip) == 0)
        return TMK_OK;
    TMK_THEN(status, zip_failed(zip_get_error(zip), diag));
    zip_discard(zip);
    return status;
}

static enum tmk_status copy_out(zip_source_t *from, struct tmk_outfile *file,
                                struct tmk_diag *diag) {
    enum { CHUNK = 1 << 18 };
    char *chunk = malloc(CHUNK);
    TMK_TRY_ALLOC(chunk, diag);
    enum tmk_status status = TMK_OK;
    zip_int64_t n = 0;
    if (zip_source_open(from) != 0) {
        status = zip_failed(zip_source_error(from), diag);
    } else {
        while (status == TMK_OK && (n = zip_source_read(from, chunk, CHUNK)) > 0)
            status = tmk_outfile_write(file, chunk, (size_t)n, diag);
        if (n < 0)
            status = zip_failed(zip_source_error(from), diag);
        zip_source_close(from);
    }
    free(chunk);
    return status;
}

static enum tmk_status write_npz(struct tmk_outfile *file, const struct tmk_npz_entry *entries,
                                 size_t n, struct tmk_diag *diag) {
    struct tmk_arena arena = {0};
    struct tmk_map names = {0};
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *archive = zip_source_buffer_create(NULL, 0, 0, &error);
    enum tmk_status status = archive ? TMK_OK : zip_failed(&error, diag);
    TMK_THEN(status, check_names(entries, n, &arena, &names, diag));
    TMK_THEN(status, make_archive(archive, entries, n, &arena, diag));
    status = tmk_in(diag, status, "%s", file->path);
    TMK_THEN(status, copy_out(archive, file, diag));
    if (archive)
        zip_source_free(archive);
    zip_error_fini(&error);
    tmk_map_finish(&names);
    tmk_arena_finish(&arena);
    return status;
}

static enum tmk_status write_npy(struct tmk_outfile *file, const struct tmk_tensor *tensor,
                                 struct tmk_diag *diag) {
    struct tmk_text header = {0};
    enum tmk_status status =
        tmk_in(diag, tmk_npy_write_header(tensor, &header, diag), "%s", file->path);
    TMK_THEN(status, tmk_outfile_write(file, header.data, header.len, diag));
    TMK_THEN(status, tmk_outfile_write(file, tensor->data, tmk_tensor_bytes(tensor), diag));
    tmk_text_finish(&header);
    return status;
}

static bool is_alone(const char *path) {
    return tmk_ends_in(path, ".npy");
}

enum tmk_status tmk_npz_check(const char *path, size_t n, struct tmk_diag *diag) {
    TMK_TRY(tmk_check_ending(path, "npz npy", diag));
    if (is_alone(path) && n != 1)
        return tmk_fail(diag, TMK_ARGUMENT,
                        "%s: a .npy file holds one array, not %zu; name it .npz instead", path, n);
    if (!n)
        return tmk_fail(diag, TMK_ARGUMENT, "%s: there is no array to write", path);
    return TMK_OK;
}

enum tmk_status tmk_npz_write(const char *path, const struct tmk_npz_entry *entries, size_t n,
                              struct tmk_diag *diag) {
    struct tmk_outfile file;
    TMK_TRY(tmk_npz_check(path, n, diag));
    TMK_TRY(tmk_outfile_begin(path, &file, diag));
    enum tmk_status status = is_alone(path) ? write_npy(&file, entries[0].tensor, diag)
                                            : write_npz(&file, entries, n, diag);
    if (status == TMK_OK)
        return tmk_outfile_commit(&file, diag);
    tmk_outfile_abort(&file);
    return status;
}
