/* SPDX-License-Identifier: Apache-2.0 */
/* What passes between the process that wants pictures and the one that decodes them
 * (sandbox/wire.h): the file's bytes are in the shared memory, where the pixels replace them. */
#pragma once

#include "data/image_spec.h"
#include "sandbox/wire.h"

enum { TMK_IMAGE_DECODE = 1 };

struct tmk_image_ask {
    uint32_t op, padding;
    uint64_t len;         /* bytes of the file */
    uint64_t limit, used; /* of memory: what may be in use, and what is already; limit 0: none */
    struct tmk_image_spec spec;
};

/* Where it fails for lack of memory or of shared memory: how many bytes were wanted. */
struct tmk_image_reply {
    uint32_t width, height, channels, padding;
    uint64_t lacks, shared;
};
