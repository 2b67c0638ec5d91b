/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/served.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/size.h"
#include "tmk_version.h"

enum {
    MOST_FDS = 1 << 16,
    OWNER_PATIENCE = 5 /* seconds between looks whether the owner is there */
};

extern char **environ;

/* ---- giving up ---- */

static void close_others(void) {
#ifdef SYS_close_range
    if (syscall(SYS_close_range, TMK_HELPER_N_FDS, ~0U, 0) == 0)
        return;
#endif
    for (int fd = TMK_HELPER_N_FDS; fd < MOST_FDS; fd++)
        close(fd);
}

static void set_limit(int resource, uint64_t most) {
    struct rlimit is;
    if (getrlimit(resource, &is) != 0)
        return;
    if (is.rlim_max == RLIM_INFINITY || is.rlim_max > most)
        is.rlim_max = (rlim_t)most;
    if (is.rlim_cur == RLIM_INFINITY || is.rlim_cur > is.rlim_max)
        is.rlim_cur = is.rlim_max;
    setrlimit(resource, &is);
}

/* Bytes of data of this process, as RLIMIT_DATA counts them. */
static bool own_data(uint64_t *out) {
    char text[128], *at = text;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return false;
    text[n] = '\0';
    uint64_t pages = 0;
    for (int i = 0; i < 6; i++) /* the sixth figure, see proc(5) */
        pages = strtoull(at, &at, 10);
    *out = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    return true;
}

/* It may hold what is no business of a file's. */
static void forget_environment(void) {
    for (char **at = environ; at && *at; at++)
        explicit_bzero(*at, strlen(*at));
    clearenv();
}

/* A sanitizer catches them, which must not report what is sent to the process. */
static void reset_signals(void) {
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < TMK_COUNT(deadly); i++)
        signal(deadly[i], SIG_DFL);
}

static void confine_process(uint64_t memory, struct tmk_helper_ready *ready) {
    uint64_t data;
    reset_signals();
    close_others();
    forget_environment();
    if (own_data(&data))
        set_limit(RLIMIT_DATA, data + memory);
    set_limit(RLIMIT_CORE, 0);
    set_limit(RLIMIT_NPROC, 0);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    ready->landlock = tmk_refuse_files();
    ready->seccomp = tmk_refuse_calls();
}

/* ---- messages ---- */

bool tmk_served_next(struct tmk_served *served, void *ask, size_t size) {
    struct iovec parts[] = {{ask, size}, {served->more, TMK_HELPER_MOST_MESSAGE}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t n;
    /* The other end of the socket may be open in further children of the owner. */
    do
        n = recvmsg(TMK_HELPER_SOCKET, &message, 0);
    while (n < 0 && (errno == EINTR || errno == EAGAIN) && getppid() == (pid_t)served->owner);
    if (n < (ssize_t)size)
        return false;
    served->len = (size_t)n - size;
    served->more[served->len] = '\0';
    return true;
}

bool tmk_served_answer(struct tmk_served *served, const struct tmk_helper_answer *answer,
                       const void *more, size_t len) {
    struct iovec parts[] = {{(void *)(uintptr_t)answer, sizeof *answer},
                            {(void *)(uintptr_t)more, len}};
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t n;
    (void)served;
    do
        n = sendmsg(TMK_HELPER_SOCKET, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n >= 0;
}

bool tmk_served_begin(struct tmk_served *served) {
    const struct timeval patience = {OWNER_PATIENCE, 0};
    struct tmk_helper_begin begin = {0};
    struct tmk_helper_answer answer = {0};
    struct tmk_helper_ready ready = {0};
    *served = (struct tmk_served){.owner = getppid()};
    if (setsockopt(TMK_HELPER_SOCKET, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
        !tmk_served_next(served, &begin, sizeof begin))
        return false;
    served->owner = begin.owner;
    served->size = (size_t)begin.shared;
    served->shared =
        mmap(NULL, served->size, PROT_READ | PROT_WRITE, MAP_SHARED, TMK_HELPER_SHARED, 0);
    if (served->shared == MAP_FAILED)
        return false;
    close(TMK_HELPER_SHARED);
    snprintf(ready.version, sizeof ready.version, "%s", TMK_VERSION);
    confine_process(begin.memory, &ready);
    return tmk_served_answer(served, &answer, &ready, sizeof ready);
}
