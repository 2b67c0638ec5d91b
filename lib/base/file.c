/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/hash.h"

static enum tmk_status cannot_read(struct tmk_diag *diag, const char *path) {
    return tmk_fail(diag, TMK_READ, "%s: cannot be read: %s", path, strerror(errno));
}

static enum tmk_status cannot_write(struct tmk_diag *diag, const char *path) {
    return tmk_fail(diag, TMK_WRITE, "%s: cannot be written: %s", path, strerror(errno));
}

/* A FIFO must not hang us; what is no regular file is refused later. */
static int open_to_read(const char *path) {
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

enum tmk_status tmk_file_map(const char *path, struct tmk_buf **out, struct tmk_diag *diag) {
    int fd = open_to_read(path);
    if (fd < 0)
        return cannot_read(diag, path);
    struct stat st;
    enum tmk_status status = TMK_OK;
    struct tmk_buf *buf = NULL;
    if (fstat(fd, &st) != 0) {
        status = cannot_read(diag, path);
    } else if (!S_ISREG(st.st_mode)) {
        status = tmk_fail(diag, TMK_READ, "%s: is not a regular file", path);
    } else if (st.st_size == 0) {
        buf = tmk_buf_create(0);
        status = buf ? TMK_OK : tmk_nomem(diag);
    } else {
        void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes == MAP_FAILED) {
            status = cannot_read(diag, path);
        } else {
            buf = tmk_buf_mapped(bytes, (size_t)st.st_size);
            if (!buf) {
                munmap(bytes, (size_t)st.st_size);
                status = tmk_nomem(diag);
            }
        }
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
        enum tmk_status status = cannot_read(diag, path);
        if (fd >= 0)
            close(fd);
        return status;
    }
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return tmk_fail(diag, TMK_READ, "%s: is not a regular file", path);
    }
    *out = (struct tmk_infile){fd, (uint64_t)st.st_size};
    return TMK_OK;
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
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

enum tmk_status tmk_file_sha256(const char *path, const atomic_bool *stop, char hex[65],
                                struct tmk_diag *diag) {
    enum { CHUNK = 1 << 18 };
    struct tmk_infile file = {.fd = -1};
    struct tmk_sha256 *hash = tmk_sha256_create();
    unsigned char *bytes = malloc(CHUNK);
    enum tmk_status status = hash && bytes ? tmk_infile_open(path, &file, diag) : tmk_nomem(diag);
    for (uint64_t at = 0; status == TMK_OK && at < file.size; at += CHUNK) {
        size_t n = file.size - at < CHUNK ? (size_t)(file.size - at) : CHUNK;
        status = tmk_in(diag, tmk_infile_read(&file, at, bytes, n, diag), "%s", path);
        if (status == TMK_OK)
            tmk_sha256_update(hash, bytes, n);
        if (status == TMK_OK && stop && atomic_load(stop))
            status = tmk_fail(diag, TMK_INTERRUPTED, "%s: stopped while it was hashed", path);
    }
    char digest[TMK_SHA256_HEX];
    if (hash)
        tmk_sha256_finish(&hash, digest);
    if (status == TMK_OK)
        memcpy(hex, digest, sizeof digest);
    free(bytes);
    tmk_infile_close(&file);
    return status;
}

enum tmk_status tmk_outfile_begin(const char *path, struct tmk_outfile *out,
                                  struct tmk_diag *diag) {
    static const char suffix[] = ".tmp-XXXXXX";
    size_t len = strlen(path);
    struct tmk_outfile file = {strdup(path), malloc(len + sizeof suffix), -1};
    if (!file.path || !file.temporary) {
        free(file.path);
        free(file.temporary);
        return tmk_nomem(diag);
    }
    memcpy(file.temporary, path, len);
    memcpy(file.temporary + len, suffix, sizeof suffix);
    file.fd = mkostemp(file.temporary, O_CLOEXEC);
    if (file.fd < 0) {
        enum tmk_status status = cannot_write(diag, path);
        free(file.path);
        free(file.temporary);
        return status;
    }
    mode_t mask = umask(0);
    umask(mask);
    if (fchmod(file.fd, 0666 & ~mask) != 0)
        errno = 0; /* a file system without modes keeps its own */
    *out = file;
    return TMK_OK;
}

enum tmk_status tmk_outfile_write(struct tmk_outfile *out, const void *bytes, size_t len,
                                  struct tmk_diag *diag) {
    const char *p = bytes;
    while (len > 0) {
        ssize_t n = write(out->fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cannot_write(diag, out->path);
        p += n;
        len -= (size_t)n;
    }
    return TMK_OK;
}

void tmk_outfile_abort(struct tmk_outfile *out) {
    if (!out->path)
        return;
    if (out->fd >= 0)
        close(out->fd);
    unlink(out->temporary);
    free(out->path);
    free(out->temporary);
    *out = (struct tmk_outfile){NULL, NULL, -1};
}

static void sync_directory(const char *path) {
    const char *slash = strrchr(path, '/');
    char *directory = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    int fd = directory ? open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        (void)fsync(fd); /* some file systems refuse; the rename itself has happened */
        close(fd);
    }
    free(directory);
}

enum tmk_status tmk_outfile_commit(struct tmk_outfile *out, struct tmk_diag *diag) {
    int failed = fsync(out->fd) != 0 && errno != EINVAL && errno != EROFS;
    if (!failed) {
        failed = close(out->fd) != 0;
        out->fd = -1;
    }
    if (failed || rename(out->temporary, out->path) != 0) {
        enum tmk_status status = cannot_write(diag, out->path);
        tmk_outfile_abort(out);
        return status;
    }
    sync_directory(out->path);
    free(out->path);
    free(out->temporary);
    *out = (struct tmk_outfile){NULL, NULL, -1};
    return TMK_OK;
}

enum tmk_status tmk_file_write(const char *path, const void *bytes, size_t len,
                               struct tmk_diag *diag) {
    struct tmk_outfile out;
    TMK_TRY(tmk_outfile_begin(path, &out, diag));
    enum tmk_status status = tmk_outfile_write(&out, bytes, len, diag);
    if (status == TMK_OK)
        return tmk_outfile_commit(&out, diag);
    tmk_outfile_abort(&out);
    return status;
}
