/* SPDX-License-Identifier: Apache-2.0 */
/* A model file and its external data. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "model/onnx_parts.h"

struct tmk_onnx_external {
    struct tmk_onnx_external *next;
    char *location;
    struct tmk_buf *bytes;
};

enum tmk_status tmk_onnx_file_init(struct tmk_onnx_file *file, const char *path,
                                   struct tmk_diag *diag) {
    struct tmk_buf *bytes;
    TMK_TRY(tmk_file_map(path, &bytes, diag));
    *file = (struct tmk_onnx_file){.bytes = bytes, .path = path};
    return TMK_OK;
}

void tmk_onnx_file_rest(struct tmk_onnx_file *file) {
    tmk_buf_rest(file->bytes);
    for (struct tmk_onnx_external *e = file->externals; e; e = e->next)
        tmk_buf_rest(e->bytes);
}

void tmk_onnx_file_finish(struct tmk_onnx_file *file) {
    while (file->externals) {
        struct tmk_onnx_external *external = file->externals;
        file->externals = external->next;
        free(external->location);
        tmk_buf_unref(&external->bytes);
        free(external);
    }
    tmk_buf_unref(&file->bytes);
}

static bool leaves_folder(const char *location) {
    for (const char *part = location;; part++) {
        size_t len = strcspn(part, "/");
        if (len == 2 && part[0] == '.' && part[1] == '.')
            return true;
        part += len;
        if (!*part)
            return false;
    }
}

/* The real path of the location, where that is within the real folder of the model. */
static enum tmk_status locate_file(const struct tmk_onnx_file *file, const char *location,
                                   char **out, struct tmk_diag *diag) {
    if (!*location || *location == '/' || leaves_folder(location))
        return tmk_fail(diag, TMK_FORMAT,
                        "external data at '%s': must be a path within the model's folder",
                        location);
    const char *slash = strrchr(file->path, '/');
    struct tmk_text folder = {0}, wanted = {0};
    if (slash)
        tmk_text_append(&folder, file->path, (size_t)(slash - file->path) + 1);
    else
        tmk_text_puts(&folder, "./");
    if (!folder.failed)
        tmk_text_printf(&wanted, "%s%s", folder.data, location);
    enum tmk_status status = TMK_OK;
    char *real_folder = NULL, *real = NULL;
    if (folder.failed || wanted.failed) {
        status = tmk_nomem(diag);
    } else if (!(real_folder = realpath(folder.data, NULL)) ||
               !(real = realpath(wanted.data, NULL))) {
        status = tmk_in(diag, tmk_cannot_read(diag, location), "external data");
    } else {
        size_t len = strlen(real_folder);
        if (len > 1 && !(strncmp(real, real_folder, len) == 0 && real[len] == '/'))
            status =
                tmk_fail(diag, TMK_FORMAT,
                         "external data at '%s': a link leads out of the model's folder", location);
    }
    if (status == TMK_OK)
        *out = real;
    else
        free(real);
    free(real_folder);
    tmk_text_finish(&folder);
    tmk_text_finish(&wanted);
    return status;
}

enum tmk_status tmk_onnx_external(struct tmk_onnx_file *file, const char *location,
                                  struct tmk_buf **out, struct tmk_diag *diag) {
    struct tmk_onnx_external **place = &file->externals;
    while (*place && strcmp((*place)->location, location) < 0)
        place = &(*place)->next;
    if (*place && strcmp((*place)->location, location) == 0) {
        *out = (*place)->bytes;
        return TMK_OK;
    }
    char *real = NULL;
    TMK_TRY(locate_file(file, location, &real, diag));
    struct tmk_onnx_external *external = calloc(1, sizeof *external);
    char *copy = strdup(location);
    enum tmk_status status =
        external && copy ? tmk_file_map(real, &external->bytes, diag) : tmk_nomem(diag);
    free(real);
    if (status != TMK_OK) {
        free(copy);
        free(external);
        return status;
    }
    external->location = copy;
    external->next = *place;
    *place = external;
    *out = external->bytes;
    return TMK_OK;
}

uint64_t tmk_onnx_external_bytes(const struct tmk_onnx_file *file) {
    uint64_t bytes = 0;
    for (const struct tmk_onnx_external *e = file->externals; e; e = e->next)
        bytes += tmk_buf_size(e->bytes);
    return bytes;
}

/* What was hashed rests. */
static void hash_bytes(struct tmk_hash128 *hash, const struct tmk_buf *buf) {
    enum { CHUNK = 1 << 22 };
    const unsigned char *bytes = tmk_buf_data(buf);
    const size_t size = tmk_buf_size(buf);
    for (size_t at = 0; at < size; at += CHUNK) {
        const size_t n = size - at < CHUNK ? size - at : CHUNK;
        tmk_hash128_update(hash, bytes + at, n);
        tmk_buf_rest_part(buf, bytes + at, n);
    }
}

enum tmk_status tmk_onnx_external_hash(const struct tmk_onnx_file *file, char hex[TMK_HASH128_HEX],
                                       struct tmk_diag *diag) {
    hex[0] = '\0';
    if (!file->externals)
        return TMK_OK;
    struct tmk_hash128 *hash = tmk_hash128_create();
    TMK_TRY_ALLOC(hash, diag);
    for (const struct tmk_onnx_external *e = file->externals; e; e = e->next)
        hash_bytes(hash, e->bytes);
    tmk_hash128_finish(&hash, hex);
    return TMK_OK;
}
