/* SPDX-License-Identifier: Apache-2.0 */
#include "hdf5/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/size.h"
#include "hdf5/serve.h"

enum {
    MOST_FDS = 1 << 16,
    PATIENCE = 5,    /* seconds between looks whether the process comes on, */
    MOST_QUIET = 12, /* of which so many in a row may find that it doesn't */
    MOST_SIGN = 4096,
};

/* What the process may take on top of what it was born with: HDF5 itself; without a limit; the
 * largest chunk of HDF5, unpacked, and what else is kept. */
static const uint64_t min_memory = UINT64_C(64) << 20, default_memory = UINT64_C(2) << 30,
                      max_memory = UINT64_C(9) << 30;

static uint64_t choose_memory(void) {
    const uint64_t limit = tmk_memory_limit(), used = tmk_memory_used();
    if (!limit)
        return default_memory;
    const uint64_t left = limit > used ? limit - used : 0;
    return left < min_memory ? min_memory : left > max_memory ? max_memory : left;
}

/* ---- in the new process ---- */

static void close_from(unsigned first, unsigned last) {
#ifdef SYS_close_range
    if (first > last || syscall(SYS_close_range, first, last, 0) == 0)
        return;
#endif
    for (unsigned fd = first; fd <= last && fd < MOST_FDS; fd++)
        close((int)fd);
}

static void set_limit(int resource, uint64_t most) {
    struct rlimit is;
    if (getrlimit(resource, &is) != 0)
        return;
    if (is.rlim_cur == RLIM_INFINITY || is.rlim_cur > most)
        is.rlim_cur = (rlim_t)most;
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

static _Noreturn void be_the_process(const char *path, int fd,
                                     const struct tmk_hdf5_process *process) {
    uint64_t data;
    /* A signal that can only mean the end keeps its meaning; what a terminal sends to the group is
     * for the parent, which may want to read on before it stops. */
    static const int deadly[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                                 SIGABRT, SIGTRAP, SIGSYS, SIGXCPU};
    sigset_t blocked;
    sigfillset(&blocked);
    for (size_t i = 0; i < TMK_COUNT(deadly); i++) {
        signal(deadly[i], SIG_DFL);
        sigdelset(&blocked, deadly[i]);
    }
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    if (own_data(&data))
        set_limit(RLIMIT_DATA, data + process->memory);
    set_limit(RLIMIT_CORE, 0);
    /* The C library prints when it finds its heap damaged; so there are streams, to nowhere. */
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3; i++)
        if (nowhere < 0)
            close(i);
        else
            dup2(nowhere, i);
    close_from(3, (unsigned)fd - 1);
    close_from((unsigned)fd + 1, ~0U);
    tmk_hdf5_serve(path, fd, process->shared, process->owner);
    _exit(0);
}

/* ---- in the old one ---- */

static enum tmk_status no_process(const char *what, struct tmk_diag *diag) {
    return tmk_fail(diag, TMK_MACHINE, "no process to read HDF5 with: %s: %s", what,
                    strerror(errno));
}

/* Above the standard streams, which the new process replaces. */
static bool move_fds(int fd[2]) {
    for (int i = 0; i < 2; i++)
        if (fd[i] <= STDERR_FILENO) {
            int other = fcntl(fd[i], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
            if (other < 0)
                return false;
            close(fd[i]);
            fd[i] = other;
        }
    return true;
}

enum tmk_status tmk_hdf5_process_begin(const char *path, struct tmk_hdf5_process *out,
                                       struct tmk_diag *diag) {
    int fd[2];
    sigset_t all, before;
    struct tmk_hdf5_process process = {.fd = -1, .owner = getpid(), .memory = choose_memory()};
    process.shared = mmap(NULL, 2 * (size_t)TMK_HDF5_HALF, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (process.shared == MAP_FAILED)
        return no_process("shared memory", diag);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd) != 0) {
        enum tmk_status status = no_process("a socket", diag);
        munmap(process.shared, 2 * (size_t)TMK_HDF5_HALF);
        return status;
    }
    enum tmk_status status = TMK_OK;
    if (move_fds(fd)) {
        sigfillset(&all); /* no handler of ours runs over there */
        pthread_sigmask(SIG_BLOCK, &all, &before);
        process.pid = fork();
        if (process.pid == 0)
            be_the_process(path, fd[1], &process);
        if (process.pid < 0)
            status = no_process("fork", diag);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    } else {
        status = no_process("a socket", diag);
    }
    close(fd[1]);
    const struct timeval patience = {PATIENCE, 0};
    if (status == TMK_OK) {
        setsockopt(fd[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        process.fd = fd[0];
        *out = process;
        return TMK_OK;
    }
    close(fd[0]);
    munmap(process.shared, 2 * (size_t)TMK_HDF5_HALF);
    return status;
}

/* Waits for its end, which must not be long in coming. *how is waitpid's; false: the program
 * ignores its children's ends, or waits for any child itself, which leaves the result unknown; or
 * SIGKILL does not end a process that waits for a disk that is gone. */
static bool wait_exit(struct tmk_hdf5_process *process, int *how) {
    enum { STEP = 100000, LONGEST_STEP = 50000000, STEPS = 50 }; /* ns; two seconds in all */
    if (process->pid <= 0)
        return false;
    struct timespec step = {0, STEP};
    pid_t pid = waitpid(process->pid, how, WNOHANG);
    if (pid == 0)                    /* still a child of ours, so the number is not reused */
        kill(process->pid, SIGKILL); /* changes nothing if it is dying of something else */
    for (int i = 0; i < STEPS && pid == 0; i++) {
        pid = waitpid(process->pid, how, WNOHANG);
        if (pid == 0)
            nanosleep(&step, NULL);
        step.tv_nsec = step.tv_nsec < LONGEST_STEP ? 2 * step.tv_nsec : LONGEST_STEP;
    }
    process->pid = 0;
    return pid > 0;
}

static void note_end(struct tmk_hdf5_process *process, int how) {
    process->status = TMK_READ;
    process->end = "is damaged: the HDF5 library crashes on it; get the file anew, or write it "
                   "again";
    if (WIFSIGNALED(how) && WTERMSIG(how) == SIGXCPU)
        process->end = "is damaged: the HDF5 library timed out reading it; get the file anew, or "
                       "write it again";
    if (WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL) {
        process->status = TMK_MACHINE;
        process->end = "the process that reads it was killed, perhaps for want of memory";
    }
}

/* Where the program has forked itself meanwhile, the process is the other one's. */
void tmk_hdf5_process_end(struct tmk_hdf5_process *process) {
    int how;
    if (process->fd >= 0) {
        close(process->fd);
        process->fd = -1;
        if (process->owner == getpid())
            (void)wait_exit(process, &how);
    }
    if (process->shared)
        munmap(process->shared, 2 * (size_t)TMK_HDF5_HALF);
    process->shared = NULL;
}

/* It has closed its end, or talks nonsense: there is nothing more to be had of it. */
static enum tmk_status fail_process(struct tmk_hdf5_process *process, bool died,
                                    struct tmk_diag *diag) {
    int how = 0;
    if (process->fd >= 0) {
        close(process->fd);
        process->fd = -1;
        bool known = wait_exit(process, &how);
        note_end(process, known && died ? how : 0);
    }
    return tmk_fail(diag, process->status, "%s", process->end);
}

enum tmk_status tmk_hdf5_send(struct tmk_hdf5_process *process, const struct tmk_hdf5_ask *ask,
                              const void *more, size_t len, struct tmk_diag *diag) {
    struct iovec parts[] = {{(void *)(uintptr_t)ask, sizeof *ask}, {(void *)(uintptr_t)more, len}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t n;
    if (process->owner != getpid())
        return tmk_fail(diag, TMK_ARGUMENT, "was opened before the process forked: open it anew");
    if (len > TMK_HDF5_MOST_MESSAGE - sizeof *ask)
        return tmk_fail(diag, TMK_ARGUMENT, "its name is too long");
    if (process->fd < 0)
        return fail_process(process, true, diag);
    do
        n = sendmsg(process->fd, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? fail_process(process, true, diag) : TMK_OK;
}

/* Of what it has done: time, faults, bytes; the same as before while it does nothing. 0:
 * unknown. */
static uint64_t sign_of_life(pid_t pid) {
    static const char *const files[] = {"stat", "io"};
    uint64_t sign = 0;
    for (size_t i = 0; i < TMK_COUNT(files); i++) {
        char path[64], text[MOST_SIGN];
        snprintf(path, sizeof path, "/proc/%ld/%s", (long)pid, files[i]);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
        if (fd >= 0)
            close(fd);
        if (n > 0)
            sign = tmk_hash64(text, (size_t)n, sign);
    }
    return sign;
}

enum tmk_status tmk_hdf5_receive(struct tmk_hdf5_process *process, enum tmk_hdf5_op op, void *more,
                                 size_t len, struct tmk_diag *diag) {
    struct tmk_hdf5_answer answer;
    struct iovec parts[] = {{&answer, sizeof answer}, {more, len}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    uint64_t sign = 0;
    if (process->fd < 0)
        return fail_process(process, true, diag);
    ssize_t n = recvmsg(process->fd, &message, 0);
    for (int quiet = 0; n < 0 && (errno == EINTR || errno == EAGAIN);
         n = recvmsg(process->fd, &message, 0)) {
        if (errno == EINTR)
            continue;
        const uint64_t before = sign;
        sign = sign_of_life(process->pid);
        quiet = sign && sign == before ? quiet + 1 : 0;
        if (quiet == MOST_QUIET) {
            /* A disk or a network that is gone holds it for good. */
            int how;
            close(process->fd);
            process->fd = -1;
            (void)wait_exit(process, &how);
            process->status = TMK_READ;
            process->end = "reading it has not come on for a minute: is its disk or network there?";
            return tmk_fail(diag, process->status, "%s", process->end);
        }
    }
    if (n <= 0)
        return fail_process(process, true, diag);
    if ((size_t)n < sizeof answer || answer.op != op || (message.msg_flags & MSG_TRUNC) ||
        (!answer.outcome && (size_t)n != sizeof answer + len))
        return fail_process(process, false, diag);
    if (answer.outcome == TMK_HDF5_LACKED && tmk_memory_limit())
        return tmk_fail(diag, TMK_LIMIT,
                        "HDF5: %.*s; its process may take %llu MiB of the memory limit",
                        (int)strnlen(answer.why, sizeof answer.why), answer.why,
                        (unsigned long long)(process->memory >> 20));
    if (answer.outcome)
        return tmk_fail(diag, TMK_FORMAT, "HDF5: %.*s", (int)strnlen(answer.why, sizeof answer.why),
                        answer.why);
    return TMK_OK;
}
