/* SPDX-License-Identifier: Apache-2.0 */
#include "base/filekind.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/size.h"

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
                 {"def @main", TMK_FILE_RELAY}};
    for (size_t i = 0; i < TMK_COUNT(words); i++)
        if (holds_word(text, n, words[i].word))
            return words[i].kind;
    return TMK_FILE_OTHER;
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
                  {"\xb7\x9c\x04\x05\x4f\x8d\xe5\xf7", 8, TMK_FILE_PARAMS}};
    for (size_t i = 0; i < TMK_COUNT(magics); i++)
        if (begins_with(bytes, n, magics[i].magic, magics[i].len))
            return magics[i].kind;
    if (n > 8 && begins_with(bytes + 4, n - 4, "TFL3", 4))
        return TMK_FILE_TFLITE;
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
                    wanted == TMK_FILE_OTHER ? "" : ", not ",
                    wanted == TMK_FILE_MODEL ? "a model" : texts[wanted].is, texts[kind].use);
}

enum tmk_status tmk_in_file(struct tmk_diag *diag, enum tmk_status status, const char *path,
                            enum tmk_file_kind wanted) {
    return tmk_in(diag, tmk_explain_file_kind(diag, status, path, wanted), "%s", path);
}
