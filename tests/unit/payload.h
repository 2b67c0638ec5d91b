/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#define WAYS_OUT(X)                                                                                \
    X(OPEN_TO_READ)                                                                                \
    X(OPEN_TO_WRITE)                                                                               \
    X(MAKE_A_FILE)                                                                                 \
    X(MAKE_A_FOLDER)                                                                               \
    X(STAT)                                                                                        \
    X(CHMOD)                                                                                       \
    X(UNLINK)                                                                                      \
    X(RENAME)                                                                                      \
    X(TRUNCATE)                                                                                    \
    X(WRITE_ITS_FILE)                                                                              \
    X(CHANGE_ITS_FILE)                                                                             \
    X(SOCKET)                                                                                      \
    X(CONNECT)                                                                                     \
    X(EXEC)                                                                                        \
    X(FORK)                                                                                        \
    X(CLONE)                                                                                       \
    X(TRACE)                                                                                       \
    X(KILL)                                                                                        \
    X(KILL_A_THREAD)                                                                               \
    X(PIDFD)                                                                                       \
    X(READ_A_PROCESS)                                                                              \
    X(MAP_CODE)                                                                                    \
    X(MAP_A_FILE)                                                                                  \
    X(MAKE_CODE)                                                                                   \
    X(IO_URING)                                                                                    \
    X(PRCTL)                                                                                       \
    X(RAISE_LIMITS)                                                                                \
    X(SHARE_MEMORY)                                                                                \
    X(MEMFD)                                                                                       \
    X(WATCH_FILES)                                                                                 \
    X(NAMESPACE)                                                                                   \
    X(COPY_A_DESCRIPTOR)                                                                           \
    X(CATCH_SIGNALS)

enum way_out {
#define WAY(name) WAY_##name,
    WAYS_OUT(WAY)
#undef WAY
        N_WAYS_OUT
};

struct payload_ask {
    uint32_t way;
};

struct payload_reply {
    int64_t result;
    int32_t error, padding;
};
