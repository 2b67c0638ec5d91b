/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/hash.h"

enum tmk_status tmk_cannot_read(struct tmk_diag *diag, const char *path) {
    const bool ours = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
    return tmk_fail(diag, ours ? TMK_MACHINE : TMK_READ, "%s: cannot be read: %s", path,
                    strerror(errno));
}

/* A FIFO must not hang us; what is no regular file is refused later. */
static int open_to_read(const char *path) {
    int fd;
    do
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    while (fd < 0 && errno == EINTR);
    return fd;
}

/* For file systems that map nothing. */
static enum tmk_status read_whole(const char *path, int fd, size_t size, struct tmk_buf **out,
                                  struct tmk_diag *diag) {
    const struct tmk_infile file = {.fd = fd, .size = size};
    struct tmk_buf *buf = tmk_buf_create(size);
    if (!buf)
        return tmk_nomem(diag);
    enum tmk_status status =
        tmk_in(diag, tmk_infile_read(&file, 0, tmk_buf_data(buf), size, diag), "%s", path);
    if (status == TMK_OK)
        *out = buf;
    else
        tmk_buf_unref(&buf);
    return status;
}

/* Takes the input, also on failure. */
static enum tmk_status map_file(const char *path, int fd, size_t size, struct tmk_input *input,
                                struct tmk_buf **out, struct tmk_diag *diag) {
    void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    struct tmk_buf *buf = bytes == MAP_FAILED ? NULL : tmk_buf_mapped(bytes, size, input);
    if (!buf)
        tmk_input_drop(input);
    if (bytes == MAP_FAILED)
        return read_whole(path, fd, size, out, diag);
    if (!buf) {
        munmap(bytes, size);
        return tmk_nomem(diag);
    }
    *out = buf;
    return TMK_OK;
}

enum tmk_status tmk_file_map(const char *path, struct tmk_buf **out, struct tmk_diag *diag) {
    int fd = open_to_read(path);
    if (fd < 0)
        return tmk_cannot_read(diag, path);
    struct stat st;
    enum tmk_status status = TMK_OK;
    struct tmk_buf *buf = NULL;
    struct tmk_input input;
    if (fstat(fd, &st) != 0) {
        status = tmk_cannot_read(diag, path);
    } else if (!S_ISREG(st.st_mode)) {
        status = tmk_fail(diag, TMK_READ, "%s: is not a regular file", path);
    } else if (!tmk_input_add(&st, &input)) {
        status = tmk_nomem(diag);
    } else if (st.st_size == 0) {
        tmk_input_drop(&input);
        buf = tmk_buf_create(0);
        status = buf ? TMK_OK : tmk_nomem(diag);
    } else {
        status = map_file(path, fd, (size_t)st.st_size, &input, &buf, diag);
    }
    close(fd);
    if (status == TMK_OK)
        *out = buf;
    return status;
}

enum tmk_status tmk_infile_open(const char *path, struct tmk_infile *out, struct tmk_diag *diag) {
    struct stat st;
    int fd = open_to_read(path);
    if (fd < 0 || fstat(fd, &st) != 0) {
        enum tmk_status status = tmk_cannot_read(diag, path);
        if (fd >= 0)
            close(fd);
        return status;
    }
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return tmk_fail(diag, TMK_READ, "%s: is not a regular file", path);
    }
    *out = (struct tmk_infile){.fd = fd, .size = (uint64_t)st.st_size};
    if (tmk_input_add(&st, &out->input))
        return TMK_OK;
    tmk_infile_close(out);
    return tmk_nomem(diag);
}

static enum tmk_status has_shrunk(uint64_t end, struct tmk_diag *diag) {
    return tmk_fail(diag, TMK_READ, "ends at byte %llu, though more was there before",
                    (unsigned long long)end);
}

enum tmk_status tmk_infile_read(const struct tmk_infile *file, uint64_t offset, void *bytes,
                                size_t len, struct tmk_diag *diag) {
    char *to = bytes;
    while (len > 0) {
        ssize_t n = pread(file->fd, to, len, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tmk_fail(diag, TMK_READ, "cannot be read at byte %llu: %s",
                            (unsigned long long)offset, strerror(errno));
        struct stat st;
        if (n == 0 && fstat(file->fd, &st) == 0 && (uint64_t)st.st_size < offset)
            return has_shrunk((uint64_t)st.st_size, diag);
        if (n == 0)
            return has_shrunk(offset, diag);
        to += n;
        offset += (uint64_t)n;
        len -= (size_t)n;
    }
    return TMK_OK;
}

enum tmk_status tmk_infile_check(const struct tmk_infile *file, struct tmk_diag *diag) {
    struct stat st;
    if (fstat(file->fd, &st) != 0)
        return tmk_fail(diag, TMK_READ, "cannot be read: %s", strerror(errno));
    return (uint64_t)st.st_size < file->size ? has_shrunk((uint64_t)st.st_size, diag) : TMK_OK;
}

void tmk_infile_close(struct tmk_infile *file) {
    if (file->fd < 0)
        return;
    close(file->fd);
    file->fd = -1;
    tmk_input_drop(&file->input);
}

/* Gives all of a file's bytes to `take`, in order. */
static enum tmk_status read_all(const char *path, const atomic_bool *stop,
                                void (*take)(void *context, const void *bytes, size_t n),
                                void *context, struct tmk_diag *diag) {
    enum { CHUNK = 1 << 18 };
    struct tmk_infile file = {.fd = -1};
    unsigned char *bytes = malloc(CHUNK);
    enum tmk_status status = bytes ? tmk_infile_open(path, &file, diag) : tmk_nomem(diag);
    for (uint64_t at = 0; status == TMK_OK && at < file.size; at += CHUNK) {
        size_t n = file.size - at < CHUNK ? (size_t)(file.size - at) : CHUNK;
        status = tmk_in(diag, tmk_infile_read(&file, at, bytes, n, diag), "%s", path);
        if (status == TMK_OK)
            take(context, bytes, n);
        if (status == TMK_OK && stop && atomic_load(stop))
            status = tmk_fail(diag, TMK_INTERRUPTED, "%s: stopped while it was hashed", path);
    }
    free(bytes);
    tmk_infile_close(&file);
    return status;
}

static void take_sha256(void *hash, const void *bytes, size_t n) {
    tmk_sha256_update(hash, bytes, n);
}

enum tmk_status tmk_file_sha256(const char *path, char hex[TMK_SHA256_HEX], struct tmk_diag *diag) {
    struct tmk_sha256 *hash = tmk_sha256_create();
    if (!hash)
        return tmk_nomem(diag);
    enum tmk_status status = read_all(path, NULL, take_sha256, hash, diag);
    char digest[TMK_SHA256_HEX];
    tmk_sha256_finish(&hash, digest);
    if (status == TMK_OK)
        memcpy(hex, digest, sizeof digest);
    return status;
}

static void take_hash128(void *hash, const void *bytes, size_t n) {
    tmk_hash128_update(hash, bytes, n);
}

enum tmk_status tmk_file_hash128(const char *path, const atomic_bool *stop,
                                 char hex[TMK_HASH128_HEX], struct tmk_diag *diag) {
    struct tmk_hash128 *hash = tmk_hash128_create();
    if (!hash)
        return tmk_nomem(diag);
    enum tmk_status status = read_all(path, stop, take_hash128, hash, diag);
    char digest[TMK_HASH128_HEX];
    tmk_hash128_finish(&hash, digest);
    if (status == TMK_OK)
        memcpy(hex, digest, sizeof digest);
    return status;
}
