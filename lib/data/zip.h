/* SPDX-License-Identifier: Apache-2.0 */
/* Zip archives, which a helper program unpacks (sandbox/helper.h): libzip and zlib see no untrusted
 * byte in this process. What it answers is as hostile as the file. An archive is used by one thread
 * at a time. Errors do not name the path. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/status.h>

struct tmk_zip;

/* The memory that its directory takes is charged. TMK_READ, TMK_FORMAT, TMK_LIMIT, TMK_MACHINE. */
enum tmk_status tmk_zip_open(const char *path, struct tmk_zip **out, struct tmk_diag *diag);
void tmk_zip_close(struct tmk_zip **zip);
uint64_t tmk_zip_count(const struct tmk_zip *zip);

struct tmk_zip_entry {
    const char *name;      /* until the next call */
    uint64_t size, packed; /* bytes, as announced: unpacked it may be of another size */
    uint32_t method;
    bool known, encrypted; /* known: size, packed and method are */
};
enum tmk_status tmk_zip_entry(struct tmk_zip *zip, uint64_t index, struct tmk_zip_entry *out,
                              struct tmk_diag *diag);
/* Could it be read, and be as large as announced? TMK_FORMAT, TMK_UNSUPPORTED. */
enum tmk_status tmk_zip_check(const struct tmk_zip *zip, const struct tmk_zip_entry *entry,
                              struct tmk_diag *diag);
/* Exactly `len` bytes from the member's start; with `whole`, nothing may come after them, and the
 * checksum counts. */
enum tmk_status tmk_zip_read(struct tmk_zip *zip, uint64_t index, void *bytes, size_t len,
                             bool whole, struct tmk_diag *diag);
