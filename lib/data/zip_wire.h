/* SPDX-License-Identifier: Apache-2.0 */
/* What passes between the process that wants an archive's members and the one that unpacks them
 * (sandbox/wire.h). The archive is the helper's file. */
#pragma once

#include "sandbox/wire.h"

enum tmk_zip_op {
    TMK_ZIP_OPEN = 1, /* len: of the file, in bytes -> n members */
    TMK_ZIP_LIST,     /* from `index` on -> n records, each with its name behind it */
    TMK_ZIP_READ,     /* `len` bytes of member `index` from `at` on, the next or 0 -> n bytes; fewer
                         only at its end, where the checksum counts */
};

enum { TMK_ZIP_SHARED = 1 << 22 };

struct tmk_zip_ask {
    uint32_t op, padding;
    uint64_t index, at, len;
};

struct tmk_zip_reply {
    uint64_t n;
};

enum { TMK_ZIP_KNOWN = 1 /* size, packed and method are */, TMK_ZIP_ENCRYPTED = 2 };

struct tmk_zip_record {
    uint64_t size, packed;
    uint32_t method, flags, name_len, padding;
};
