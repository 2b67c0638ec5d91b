/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/hash.h"
#include "base/size.h"

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
    TMK_TRY_ALLOC(buf, diag);
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

static enum tmk_status refuse_special(const char *path, const struct stat *st,
                                      struct tmk_diag *diag) {
    return tmk_fail(diag, TMK_READ, "%s: is %s", path,
                    S_ISDIR(st->st_mode) ? "a folder, not a file" : "not a regular file");
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
        status = refuse_special(path, &st, diag);
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
        return refuse_special(path, &st, diag);
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
    TMK_TRY_ALLOC(hash, diag);
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
    TMK_TRY_ALLOC(hash, diag);
    enum tmk_status status = read_all(path, stop, take_hash128, hash, diag);
    char digest[TMK_HASH128_HEX];
    tmk_hash128_finish(&hash, digest);
    if (status == TMK_OK)
        memcpy(hex, digest, sizeof digest);
    return status;
}

enum { BEGINNING = 4096 };

static bool begins_with(const char *bytes, size_t n, const char *with, size_t len) {
    return n >= len && memcmp(bytes, with, len) == 0;
}

static bool holds_word(const char *bytes, size_t n, const char *word) {
    return memmem(bytes, n, word, strlen(word)) != NULL;
}

/* A varint of protobuf; false where it does not end. */
static bool take_varint(const unsigned char **at, const unsigned char *end, uint64_t *out) {
    *out = 0;
    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        const unsigned char byte = *(*at)++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

/* Fields of ModelProto with their wire types, up to the graph: a tensor in a file of its own has
 * others. */
static bool is_onnx(const char *bytes, size_t n) {
    static const unsigned char keys[] = {0x08, 0x12, 0x1a, 0x22, 0x28, 0x32, 0x42, 0x72};
    enum { GRAPH = 0x3a, VARINT = 0 };
    const unsigned char *at = (const unsigned char *)bytes, *end = at + n;
    for (uint32_t fields = 0; at < end; fields++) {
        const unsigned char key = *at++;
        uint64_t value;
        if (key == GRAPH)
            return fields > 0;
        if (!memchr(keys, key, sizeof keys) || !take_varint(&at, end, &value))
            return false;
        if ((key & 7) == VARINT)
            continue;
        if (value > (uint64_t)(end - at))
            return false;
        at += value;
    }
    return false;
}

static enum tmk_file_kind kind_of_text(const char *text, size_t n) {
    static const struct {
        const char *word;
        enum tmk_file_kind kind;
    } words[] = {{"\"tidemark-profile\"", TMK_FILE_PROFILE},
                 {"\"tidemark-encodings\"", TMK_FILE_ENCODINGS},
                 {"\"tidemark-lineage\"", TMK_FILE_LINEAGE},
                 {"#[version = ", TMK_FILE_RELAY},
                 {"def @main", TMK_FILE_RELAY},
                 {"<net ", TMK_FILE_OPENVINO}};
    for (size_t i = 0; i < TMK_COUNT(words); i++)
        if (holds_word(text, n, words[i].word))
            return words[i].kind;
    return TMK_FILE_OTHER;
}

/* An archive of torch.save, torch.jit.save or torch.export.save: its first file is NAME/data.pkl or
 * in NAME/data. */
static bool is_torch(const char *bytes, size_t n) {
    enum { HEADER = 30, LENGTH_AT = 26 };
    if (n < HEADER || memcmp(bytes, "PK\x03\x04", 4) != 0)
        return false;
    const unsigned char *length = (const unsigned char *)bytes + LENGTH_AT;
    const char *name = bytes + HEADER;
    const size_t size = length[0] | (size_t)length[1] << 8;
    const char *slash = size <= n - HEADER ? memchr(name, '/', size) : NULL;
    return slash && begins_with(slash, size - (size_t)(slash - name), "/data", 5) &&
           memcmp(name + size - 4, ".npy", 4) != 0;
}

/* A GraphDef: its first field is a node, whose first fields are a name and an operator; or a
 * SavedModel: a version, and a MetaGraphDef that begins with its MetaInfoDef. */
static bool is_tensorflow(const char *bytes, size_t n) {
    enum { FIRST = 0x0a, SECOND = 0x12 };
    const unsigned char *at = (const unsigned char *)bytes, *end = at + n;
    uint64_t size;
    if (begins_with(bytes, n, "\x08\x01\x12", 3)) {
        at += 3;
        return take_varint(&at, end, &size) && at < end && *at == FIRST;
    }
    if (n < 2 || *at++ != FIRST || !take_varint(&at, end, &size) || at == end || *at++ != FIRST ||
        !take_varint(&at, end, &size))
        return false;
    return size > 0 && size < (uint64_t)(end - at) && at[size] == SECOND;
}

/* The length of a JSON object, and that. */
static bool is_safetensors(const char *bytes, size_t n) {
    return n > 9 && bytes[5] == 0 && bytes[6] == 0 && bytes[7] == 0 && bytes[8] == '{' &&
           (bytes[9] == '"' || bytes[9] == '}');
}

enum tmk_file_kind tmk_file_kind_of(const char *bytes, size_t n) {
    static const struct {
        const char *magic;
        size_t len;
        enum tmk_file_kind kind;
    } magics[] = {{"\x93NUMPY", 6, TMK_FILE_NPY},
                  {"PK\x03\x04", 4, TMK_FILE_ZIP},
                  {"\x89HDF\r\n\x1a\n", 8, TMK_FILE_HDF5},
                  {"\x89PNG\r\n\x1a\n", 8, TMK_FILE_IMAGE},
                  {"\xff\xd8\xff", 3, TMK_FILE_IMAGE},
                  {"version https://git-lfs", 23, TMK_FILE_POINTER},
                  {"<!DOCTYPE html", 14, TMK_FILE_HTML},
                  {"<!doctype html", 14, TMK_FILE_HTML},
                  {"<html", 5, TMK_FILE_HTML},
                  {"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9", 9, TMK_FILE_TORCH}, /* before 1.6 */
                  {"\x80\x02", 2, TMK_FILE_PICKLE},
                  {"\x80\x03", 2, TMK_FILE_PICKLE},
                  {"\x80\x04", 2, TMK_FILE_PICKLE},
                  {"\x80\x05", 2, TMK_FILE_PICKLE},
                  {"GGUF", 4, TMK_FILE_WEIGHTS},
                  {"\xb7\x9c\x04\x05\x4f\x8d\xe5\xf7", 8, TMK_FILE_PARAMS}};
    if (is_torch(bytes, n))
        return TMK_FILE_TORCH;
    for (size_t i = 0; i < TMK_COUNT(magics); i++)
        if (begins_with(bytes, n, magics[i].magic, magics[i].len))
            return magics[i].kind;
    if (n > 8 && begins_with(bytes + 4, n - 4, "TFL3", 4))
        return TMK_FILE_TFLITE;
    if (is_safetensors(bytes, n))
        return TMK_FILE_WEIGHTS;
    if (is_tensorflow(bytes, n))
        return TMK_FILE_TENSORFLOW;
    return is_onnx(bytes, n) ? TMK_FILE_MODEL : kind_of_text(bytes, n);
}

enum tmk_file_kind tmk_file_kind(const char *path) {
    char bytes[BEGINNING];
    struct stat st;
    enum tmk_file_kind kind = TMK_FILE_OTHER;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return kind;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);
    if (n > 0)
        kind = tmk_file_kind_of(bytes, (size_t)n);
    if (fd >= 0)
        close(fd);
    return kind;
}

static const struct {
    const char *is, *use;
} texts[] = {{"", ""},
#define TMK_FILE_TEXT(name, is, use) {is, use},
             TMK_FILE_KINDS(TMK_FILE_TEXT)
#undef TMK_FILE_TEXT
};

const char *tmk_file_kind_text(enum tmk_file_kind kind) {
    return texts[kind].is;
}

enum tmk_status tmk_explain_file_kind(struct tmk_diag *diag, enum tmk_status status,
                                      const char *path, enum tmk_file_kind wanted) {
    if (!diag || status == TMK_OK || status == TMK_NOMEM || status == TMK_LIMIT)
        return status;
    const enum tmk_file_kind kind = tmk_file_kind(path);
    const bool models = wanted == TMK_FILE_MODEL && kind == TMK_FILE_RELAY;
    if (kind == TMK_FILE_OTHER || kind == wanted || models)
        return status;
    const bool either = wanted == TMK_FILE_PROFILE || wanted == TMK_FILE_LINEAGE;
    if (kind == TMK_FILE_HDF5 && either)
        return status;
    tmk_diag_reset(diag);
    return tmk_fail(diag, status, "%s: is %s%s%s; %s", path, texts[kind].is,
                    wanted == TMK_FILE_OTHER ? "" : ", not ", texts[wanted].is, texts[kind].use);
}

enum tmk_status tmk_in_file(struct tmk_diag *diag, enum tmk_status status, const char *path,
                            enum tmk_file_kind wanted) {
    return tmk_in(diag, tmk_explain_file_kind(diag, status, path, wanted), "%s", path);
}
