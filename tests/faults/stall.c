/* SPDX-License-Identifier: Apache-2.0 */
/* For LD_PRELOAD: a process that opens an HDF5 file does not come on, as where a disk is gone, or
 * comes on slowly. TIDEMARK_STALL selects one: "stop", or how many reads it makes first. Waiting
 * for an answer takes a fiftieth of its time. With "sync" files take 0.3 s to reach their disk. */
#include <dlfcn.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { FASTER = 50, MOST_READS = 100, PAGE = 4096 };

typedef int set_option(int fd, int level, int name, const void *value, socklen_t len);
set_option setsockopt;
typedef int64_t open_file(const char *path, unsigned flags, int64_t access);
open_file H5Fopen;

int setsockopt(int fd, int level, int name, const void *value, socklen_t len) {
    set_option *real;
    struct timeval time;
    *(void **)&real = dlsym(RTLD_NEXT, "setsockopt");
    if (level != SOL_SOCKET || name != SO_RCVTIMEO || len != sizeof time)
        return real(fd, level, name, value, len);
    memcpy(&time, value, sizeof time);
    const long us = (time.tv_sec * 1000000L + time.tv_usec) / FASTER;
    time = (struct timeval){us / 1000000, us % 1000000};
    return real(fd, level, name, &time, sizeof time);
}

/* One a wait for an answer, by calls that the process still has: a page that is new to it. */
static void read_slowly(long times) {
    const struct timespec wait = {0, 1000000000L / FASTER * 5};
    static char pages[MOST_READS][PAGE];
    int never = 0;
    for (long i = 0; i < times && i < MOST_READS; i++) {
        syscall(SYS_futex, &never, FUTEX_WAIT, 0, &wait, NULL, 0);
        *(volatile char *)pages[i] = 1;
    }
}

/* The process forgets its environment. */
static char how[16];
__attribute__((constructor)) static void note_environment(void) {
    const char *text = getenv("TIDEMARK_STALL");
    if (text)
        strncpy(how, text, sizeof how - 1);
}

int fsync(int fd) {
    static const struct timespec wait = {0, 300000000L};
    if (strcmp(how, "sync") == 0)
        nanosleep(&wait, NULL);
    return (int)syscall(SYS_fsync, fd);
}

int64_t H5Fopen(const char *path, unsigned flags, int64_t access) {
    open_file *real;
    if (strcmp(how, "stop") == 0)
        raise(SIGSTOP);
    else if (how[0])
        read_slowly(strtol(how, NULL, 10));
    *(void **)&real = dlsym(RTLD_NEXT, "H5Fopen");
    return real(path, flags, access);
}
