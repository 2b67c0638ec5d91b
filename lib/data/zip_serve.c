/* SPDX-License-Identifier: Apache-2.0 */
/* The helper program that unpacks zip archives. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zip.h>
#include <zlib.h>

#include "base/diag.h"
#include "data/zip_wire.h"
#include "sandbox/served.h"

static struct {
    struct tmk_served served;
    zip_t *zip;
    zip_file_t *member; /* being unpacked; NULL: none */
    uint64_t index, at; /* of it: which, and how far */
    /* the file, as libzip reads it */
    uint64_t size, offset;
    zip_error_t error;
} state;

/* ---- the file ---- */

static zip_int64_t read_file(void *data, zip_uint64_t len) {
    const uint64_t left = state.size - state.offset;
    ssize_t n;
    do
        n = pread(TMK_HELPER_FILE, data, len < left ? len : left, (off_t)state.offset);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        zip_error_set(&state.error, ZIP_ER_READ, errno);
    else
        state.offset += (uint64_t)n;
    return n;
}

static zip_int64_t give_file(void *context, void *data, zip_uint64_t len, zip_source_cmd_t what) {
    (void)context;
    zip_int64_t to;
    switch (what) {
    case ZIP_SOURCE_OPEN:
        state.offset = 0;
        return 0;
    case ZIP_SOURCE_READ:
        return read_file(data, len);
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE:
        return 0;
    case ZIP_SOURCE_STAT:
        zip_stat_init(data);
        ((zip_stat_t *)data)->size = state.size;
        ((zip_stat_t *)data)->valid = ZIP_STAT_SIZE;
        return sizeof(zip_stat_t);
    case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&state.error, data, len);
    case ZIP_SOURCE_SEEK:
        to = zip_source_seek_compute_offset(state.offset, state.size, data, len, &state.error);
        if (to < 0)
            return -1;
        state.offset = (uint64_t)to;
        return 0;
    case ZIP_SOURCE_TELL:
        return (zip_int64_t)state.offset;
    case ZIP_SOURCE_SUPPORTS:
        return ZIP_SOURCE_SUPPORTS_SEEKABLE;
    default:
        zip_error_set(&state.error, ZIP_ER_OPNOTSUPP, 0);
        return -1;
    }
}

static enum tmk_status open_archive(uint64_t size, uint64_t *n, struct tmk_diag *diag) {
    zip_error_t error;
    if (state.zip)
        return tmk_fail(diag, TMK_ARGUMENT, "is open");
    zip_error_init(&error);
    zip_error_init(&state.error);
    state.size = size;
    zip_source_t *from = zip_source_function_create(give_file, NULL, &error);
    if (from) {
        state.zip = zip_open_from_source(from, ZIP_RDONLY, &error);
        if (!state.zip)
            zip_source_free(from);
    }
    enum tmk_status status = TMK_OK;
    if (!state.zip) /* without a source it may fail without a reason; then too it was this */
        status = !from || zip_error_code_zip(&error) == ZIP_ER_MEMORY
                     ? tmk_nomem(diag)
                     : tmk_fail(diag, TMK_FORMAT, "is no readable zip archive: %s",
                                zip_error_strerror(&error));
    zip_error_fini(&error);
    if (status == TMK_OK)
        *n = (uint64_t)zip_get_num_entries(state.zip, 0);
    return status;
}

/* ---- its members ---- */

static enum tmk_status list_members(uint64_t first, uint64_t *n, struct tmk_diag *diag) {
    const uint64_t all = (uint64_t)zip_get_num_entries(state.zip, 0);
    unsigned char *to = state.served.shared;
    size_t left = state.served.size;
    for (uint64_t i = first; i < all; i++) {
        enum { KNOWN = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD };
        zip_stat_t st;
        if (zip_stat_index(state.zip, i, 0, &st) != 0 || !(st.valid & ZIP_STAT_NAME))
            return tmk_fail(diag, TMK_FORMAT, "member %llu: %s", (unsigned long long)i,
                            zip_strerror(state.zip));
        const bool encrypted =
            (st.valid & ZIP_STAT_ENCRYPTION_METHOD) && st.encryption_method != ZIP_EM_NONE;
        const struct tmk_zip_record record = {
            .size = st.size,
            .packed = st.comp_size,
            .method = st.comp_method,
            .flags = ((st.valid & KNOWN) == KNOWN ? TMK_ZIP_KNOWN : 0u) |
                     (encrypted ? TMK_ZIP_ENCRYPTED : 0u),
            .name_len = (uint32_t)strlen(st.name)};
        if (sizeof record + record.name_len > left)
            break;
        memcpy(to, &record, sizeof record);
        memcpy(to + sizeof record, st.name, record.name_len);
        to += sizeof record + record.name_len;
        left -= sizeof record + record.name_len;
        ++*n;
    }
    return TMK_OK;
}

static enum tmk_status not_unpacked(zip_error_t *error, struct tmk_diag *diag) {
    const bool inflating = zip_error_code_zip(error) == ZIP_ER_ZLIB;
    if (zip_error_code_zip(error) == ZIP_ER_MEMORY ||
        (inflating && zip_error_code_system(error) == Z_MEM_ERROR))
        return tmk_nomem(diag);
    return tmk_fail(diag, TMK_FORMAT, "cannot be unpacked: %s", zip_error_strerror(error));
}

static enum tmk_status read_member(const struct tmk_zip_ask *ask, uint64_t *n,
                                   struct tmk_diag *diag) {
    if (ask->len > state.served.size)
        return tmk_fail(diag, TMK_ARGUMENT, "more bytes than shared memory");
    if (!ask->at || !state.member || ask->index != state.index || ask->at != state.at) {
        if (state.member)
            zip_fclose(state.member);
        state.member = ask->at ? NULL : zip_fopen_index(state.zip, ask->index, 0);
        state.index = ask->index;
        state.at = 0;
        if (!state.member)
            return ask->at ? tmk_fail(diag, TMK_ARGUMENT, "not the next bytes")
                           : not_unpacked(zip_get_error(state.zip), diag);
    }
    zip_int64_t got = 1;
    while (*n < ask->len &&
           (got = zip_fread(state.member, state.served.shared + *n, ask->len - *n)) > 0)
        *n += (uint64_t)got;
    state.at += *n;
    return got < 0 ? not_unpacked(zip_file_get_error(state.member), diag) : TMK_OK;
}

static enum tmk_status serve(const struct tmk_zip_ask *ask, uint64_t *n, struct tmk_diag *diag) {
    if (ask->op == TMK_ZIP_OPEN)
        return open_archive(ask->len, n, diag);
    if (!state.zip)
        return tmk_fail(diag, TMK_ARGUMENT, "is not open");
    return ask->op == TMK_ZIP_LIST ? list_members(ask->index, n, diag) : read_member(ask, n, diag);
}

int main(void) {
    struct tmk_zip_ask ask;
    if (!tmk_served_begin(&state.served))
        return EXIT_FAILURE;
    bool there = true;
    while (there && tmk_served_next(&state.served, &ask, sizeof ask)) {
        struct tmk_diag diag = {0};
        struct tmk_zip_reply reply = {0};
        struct tmk_helper_answer answer = {.op = ask.op};
        answer.outcome = (uint32_t)serve(&ask, &reply.n, &diag);
        snprintf(answer.why, sizeof answer.why, "%.*s", (int)sizeof answer.why - 1, diag.text);
        there = tmk_served_answer(&state.served, &answer, &reply, sizeof reply);
    }
    _exit(0); /* without exit handlers, which a file may have reached */
}
