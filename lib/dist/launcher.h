/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher of this process, from the environment. */
#ifndef TMK_DIST_LAUNCHER_H
#define TMK_DIST_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>

struct tmk_launch {
    bool by_launcher;    /* there may be others */
    uint32_t rank, size; /* size 0: unknown */
};
struct tmk_launch tmk_launch_of_environment(void);

#endif
