/* SPDX-License-Identifier: Apache-2.0 */
/* With Landlock, by the system's own calls: the C library has none for it, and the headers of the
 * machine that builds may be older than the kernel that runs. */
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/served.h"

#ifndef SYS_landlock_create_ruleset
enum { SYS_landlock_create_ruleset = 444, SYS_landlock_restrict_self = 446 };
#endif

/* struct landlock_ruleset_attr; what a kernel does not know has to be 0. */
struct ruleset {
    uint64_t files, network, scopes;
};

enum { ASK_VERSION = 1, MOST_VERSION = 6 };

/* Bits that each version of Landlock added. */
static const struct ruleset added[MOST_VERSION] = {
    {.files = 0x1fff},  /* open, make, remove of every kind */
    {.files = 1 << 13}, /* links and renames across folders */
    {.files = 1 << 14}, /* truncate */
    {.network = 3},     /* bind, connect */
    {.files = 1 << 15}, /* ioctl of devices */
    {.scopes = 3},      /* abstract sockets, signals */
};

uint32_t tmk_refuse_files(void) {
    const struct rlimit none = {0, 0};
    struct ruleset rules = {0};
    setrlimit(RLIMIT_FSIZE, &none);
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, ASK_VERSION);
    if (version <= 0)
        return 0;
    if (version > MOST_VERSION)
        version = MOST_VERSION;
    for (long i = 0; i < version; i++) {
        rules.files |= added[i].files;
        rules.network |= added[i].network;
        rules.scopes |= added[i].scopes;
    }
    const long fd = syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
    if (fd < 0)
        return 0;
    const bool held = syscall(SYS_landlock_restrict_self, fd, 0) == 0;
    close((int)fd);
    return held ? (uint32_t)version : 0;
}
