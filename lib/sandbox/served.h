/* SPDX-License-Identifier: Apache-2.0 */
/* The side of a helper program (sandbox/helper.h), which nothing else links. Before it sees a byte
 * of a file it gives up what it does not need: other descriptors, the environment, cores, memory
 * above its share; files (sandbox/files.c) and calls of the system (sandbox/calls.c), where the
 * system can refuse them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "sandbox/wire.h"

struct tmk_served {
    unsigned char *shared;
    size_t size; /* bytes of it */
    int64_t owner;
    /* The request: its header is the caller's; its further bytes, terminated. */
    char more[TMK_HELPER_MOST_MESSAGE + 1];
    size_t len;
};

/* Waits for the first message, confines the process, and answers. false: nobody is there. */
bool tmk_served_begin(struct tmk_served *served);
/* The next request. false: there are no more, or the one that started this process is gone. */
bool tmk_served_next(struct tmk_served *served, void *ask, size_t size);
bool tmk_served_answer(struct tmk_served *served, const struct tmk_helper_answer *answer,
                       const void *more, size_t len);

/* No file can be opened, made or changed from now on, but through what is open. Returns the version
 * of Landlock that refuses it, 0 where the kernel has none. */
uint32_t tmk_refuse_files(void);
/* Of the system's calls only those are left that computing and answering take. false: the kernel
 * filters no calls. */
bool tmk_refuse_calls(void);
