/* SPDX-License-Identifier: Apache-2.0 */
/* For LD_PRELOAD: a process that opens an HDF5 file does not come on, as where a disk is gone, or
 * comes on slowly. TIDEMARK_STALL selects one: "stop", or how many reads it makes first. Waiting
 * for an answer takes a fiftieth of its time. */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { FASTER = 50 };

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

/* One a wait for an answer. */
static void read_slowly(long times) {
    const struct timespec wait = {0, 1000000000L / FASTER * 5};
    char byte;
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    for (long i = 0; i < times; i++) {
        nanosleep(&wait, NULL);
        (void)!read(fd, &byte, 1);
    }
    close(fd);
}

int64_t H5Fopen(const char *path, unsigned flags, int64_t access) {
    open_file *real;
    const char *how = getenv("TIDEMARK_STALL");
    if (how && strcmp(how, "stop") == 0)
        raise(SIGSTOP);
    else if (how)
        read_slowly(strtol(how, NULL, 10));
    *(void **)&real = dlsym(RTLD_NEXT, "H5Fopen");
    return real(path, flags, access);
}
