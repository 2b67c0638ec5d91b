/* SPDX-License-Identifier: Apache-2.0 */
/* A helper program as if a file had taken it over: it is confined as the others are, then tries to
 * get at files, processes and the network. A request is the number of a way out and a path that
 * may be spoiled; the answer says how the attempt ended. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "payload.h"

#include "base/size.h"
#include "sandbox/served.h"

#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

struct target {
    const char *path; /* a file */
    pid_t parent;
    char bytes[64];
};

/* A number so that pointers fit. */
static long call(long number, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e) {
    return syscall(number, a, b, c, d, e, (uintptr_t)0);
}

static long call_out(struct target *t, uint32_t way) {
    const uintptr_t path = (uintptr_t)t->path, here = (uintptr_t)AT_FDCWD,
                    bytes = (uintptr_t)t->bytes, parent = (uintptr_t)t->parent,
                    anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
    char *const words[] = {(char *)(uintptr_t) "true", NULL};
    struct iovec mine = {t->bytes, sizeof t->bytes};
    switch ((enum way_out)way) {
    case WAY_OPEN_TO_READ:
        return call(SYS_openat, here, path, O_RDONLY, 0, 0);
    case WAY_OPEN_TO_WRITE:
        return call(SYS_openat, here, path, O_WRONLY, 0, 0);
    case WAY_MAKE_A_FILE:
        return call(SYS_openat, here, (uintptr_t) "/tmp", O_TMPFILE | O_RDWR, 0600, 0);
    case WAY_MAKE_A_FOLDER:
        return call(SYS_mkdirat, here, (uintptr_t) "/tmp/tidemark-payload", 0700, 0, 0);
    case WAY_STAT:
        return call(SYS_statx, here, path, 0, 0, 0);
    case WAY_CHMOD:
        return call(SYS_fchmodat, here, path, 0777, 0, 0);
    case WAY_UNLINK:
        return call(SYS_unlinkat, here, path, 0, 0, 0);
    case WAY_RENAME:
        return call(SYS_renameat2, here, path, here, (uintptr_t) "/tmp/tidemark-payload", 0);
    case WAY_TRUNCATE:
        return call(SYS_truncate, path, 0, 0, 0, 0);
    case WAY_WRITE_ITS_FILE:
        return call(SYS_pwrite64, TMK_HELPER_FILE, bytes, 1, 0, 0);
    case WAY_CHANGE_ITS_FILE:
        return call(SYS_ftruncate, TMK_HELPER_FILE, 0, 0, 0, 0);
    case WAY_SOCKET:
        return call(SYS_socket, AF_INET, SOCK_STREAM, 0, 0, 0);
    case WAY_CONNECT:
        return call(SYS_connect, TMK_HELPER_SOCKET, bytes, sizeof t->bytes, 0, 0);
    case WAY_EXEC:
        return call(SYS_execve, (uintptr_t) "/bin/true", (uintptr_t)words, 0, 0, 0);
    case WAY_FORK:
        return call(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    case WAY_CLONE:
        return call(SYS_clone3, bytes, sizeof t->bytes, 0, 0, 0);
    case WAY_TRACE:
        return call(SYS_ptrace, PTRACE_ATTACH, parent, 0, 0, 0);
    case WAY_KILL:
        return call(SYS_kill, parent, 0, 0, 0, 0);
    case WAY_KILL_A_THREAD:
        return call(SYS_tgkill, parent, parent, 0, 0, 0);
    case WAY_PIDFD:
        return call(SYS_pidfd_open, parent, 0, 0, 0, 0);
    case WAY_READ_A_PROCESS:
        return call(SYS_process_vm_readv, parent, (uintptr_t)&mine, 1, (uintptr_t)&mine, 1);
    case WAY_MAP_CODE:
        return call(SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC, anonymous, (uintptr_t)-1);
    case WAY_MAP_A_FILE:
        return call(SYS_mmap, 0, 4096, PROT_READ, MAP_PRIVATE, TMK_HELPER_FILE);
    case WAY_MAKE_CODE:
        return call(SYS_mprotect, (uintptr_t)&call_out & ~(uintptr_t)4095, 4096,
                    PROT_READ | PROT_WRITE | PROT_EXEC, 0, 0);
    case WAY_IO_URING:
        return call(SYS_io_uring_setup, 1, bytes, 0, 0, 0);
    case WAY_PRCTL:
        return call(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0);
    case WAY_RAISE_LIMITS:
        return call(SYS_prlimit64, 0, RLIMIT_CPU, bytes, 0, 0);
    case WAY_SHARE_MEMORY:
        return call(SYS_shmget, IPC_PRIVATE, 4096, IPC_CREAT | 0600, 0, 0);
    case WAY_MEMFD:
        return call(SYS_memfd_create, (uintptr_t) "x", 0, 0, 0, 0);
    case WAY_WATCH_FILES:
        return call(SYS_inotify_init1, 0, 0, 0, 0, 0);
    case WAY_NAMESPACE:
        return call(SYS_unshare, CLONE_NEWUSER, 0, 0, 0, 0);
    case WAY_COPY_A_DESCRIPTOR:
        return call(SYS_dup, TMK_HELPER_SOCKET, 0, 0, 0, 0);
    case WAY_CATCH_SIGNALS:
        return call(SYS_rt_sigprocmask, SIG_BLOCK, bytes, 0, 8, 0);
    case N_WAYS_OUT:
        break;
    }
    return 0;
}

int main(void) {
    static struct tmk_served served;
    struct payload_ask ask;
    if (!tmk_served_begin(&served))
        return 1;
    struct target target = {.path = served.more, .parent = (pid_t)served.owner};
    while (tmk_served_next(&served, &ask, sizeof ask)) {
        const struct tmk_helper_answer answer = {.op = ask.way};
        struct payload_reply reply = {0};
        errno = 0;
        reply.result = call_out(&target, ask.way);
        reply.error = errno;
        if (!tmk_served_answer(&served, &answer, &reply, sizeof reply))
            break;
    }
    return 0;
}
