/* SPDX-License-Identifier: Apache-2.0 */
#include "data/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/diag.h"
#include "base/hash.h"
#include "base/size.h"
#include "base/text.h"
#include "data/kind.h"

static const struct tmk_source_kind *const kinds[] = {
#define TMK_SOURCE_ROW(row) &tmk_source_##row,
    TMK_SOURCE_KIND_LIST(TMK_SOURCE_ROW)
#undef TMK_SOURCE_ROW
};

bool tmk_source_ends_in(const char *path, const char *extension) {
    size_t n = strlen(path), k = strlen(extension);
    return n > k && strcasecmp(path + n - k, extension) == 0;
}

enum tmk_status tmk_source_hash(struct tmk_source *source, const struct tmk_buf *buf,
                                struct tmk_diag *diag) {
    struct tmk_sha256 *hash = tmk_sha256_create();
    if (!hash)
        return tmk_nomem(diag);
    tmk_sha256_update(hash, tmk_buf_data(buf), tmk_buf_size(buf));
    tmk_sha256_finish(&hash, source->info.hash);
    return TMK_OK;
}

static enum tmk_status cannot_read(const char *path, struct tmk_diag *diag) {
    return tmk_fail(diag, TMK_READ, "%s: cannot be read: %s", path, strerror(errno));
}

static enum tmk_status look(const char *path, struct tmk_source_probe *out, struct tmk_diag *diag) {
    struct tmk_source_probe probe = {.path = path};
    struct stat st;
    if (stat(path, &st) != 0)
        return cannot_read(path, diag);
    probe.folder = S_ISDIR(st.st_mode);
    if (!probe.folder && !S_ISREG(st.st_mode))
        return tmk_fail(diag, TMK_READ, "%s: is neither a file nor a folder", path);
    if (!probe.folder) {
        FILE *file = fopen(path, "rbe");
        if (!file)
            return cannot_read(path, diag);
        size_t n = fread(probe.start, 1, sizeof probe.start, file);
        bool failed = n < sizeof probe.start && ferror(file);
        enum tmk_status status = failed ? cannot_read(path, diag) : TMK_OK;
        fclose(file);
        TMK_TRY(status);
    }
    *out = probe;
    return TMK_OK;
}

static enum tmk_status no_kind(const char *path, struct tmk_diag *diag) {
    struct tmk_text text = {0};
    for (size_t i = 0; i < TMK_COUNT(kinds); i++)
        tmk_text_printf(&text, "%s%s", i ? ", " : "", kinds[i]->takes);
    enum tmk_status status =
        text.failed
            ? tmk_nomem(diag)
            : tmk_fail(diag, TMK_UNSUPPORTED,
                       "%s: is no source of data that is known; there are: %s", path, text.data);
    tmk_text_finish(&text);
    return status;
}

enum tmk_status tmk_source_open(const char *path, tmk_decode_tensor decode, struct tmk_source **out,
                                struct tmk_diag *diag) {
    struct tmk_source_probe probe;
    const struct tmk_source_kind *kind = NULL;
    TMK_TRY(look(path, &probe, diag));
    for (size_t i = 0; i < TMK_COUNT(kinds) && !kind; i++)
        if (kinds[i]->claims(&probe))
            kind = kinds[i];
    if (!kind)
        return no_kind(path, diag);
    struct tmk_source *source = calloc(1, sizeof *source);
    if (!source)
        return tmk_nomem(diag);
    source->kind = kind;
    source->info.kind = kind->name;
    source->info.path = tmk_arena_strdup(&source->arena, path);
    enum tmk_status status = source->info.path ? kind->open(source, decode, diag) : tmk_nomem(diag);
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
    source->kind->close(source);
    tmk_arena_finish(&source->arena);
    free(source);
}

const struct tmk_source_info *tmk_source_info(const struct tmk_source *source) {
    return &source->info;
}

enum tmk_status tmk_source_read(struct tmk_source *source, uint32_t array, uint64_t first,
                                uint64_t count, struct tmk_tensor *out, struct tmk_diag *diag) {
    if (array >= source->info.n_arrays)
        return tmk_fail(diag, TMK_ARGUMENT, "%s: array %u of %u is wanted", source->info.path,
                        array, source->info.n_arrays);
    return source->kind->read(source, array, first, count, out, diag);
}
