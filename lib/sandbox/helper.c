/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/hash.h"
#include "base/size.h"
#include "tmk_version.h"

/* Seen from the folder that this code is in: build folders; installed as TMK_HELPER_FOLDERS has it
 * (lib/meson.build). */
static const char *const folders[] = {"", "../lib/", "../../lib/", TMK_HELPER_FOLDERS};

/* The file that has this code: the shared library, or what the static one is linked into. */
static bool find_own_file(char path[PATH_MAX], FILE *maps) {
    const uintptr_t here = (uintptr_t)&tmk_helper_find;
    char *line = NULL;
    size_t size = 0;
    bool found = false;
    while (!found && getline(&line, &size, maps) > 0) {
        uintptr_t begin, end;
        const char *name = strchr(line, '/');
        found = sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2 && begin <= here &&
                here < end;
        if (found) {
            if (!name || strlen(name) >= PATH_MAX)
                break;
            snprintf(path, PATH_MAX, "%.*s", (int)strcspn(name, "\n"), name);
        }
    }
    const bool named = found && path[0] == '/';
    free(line);
    return named;
}

static bool is_safe(const char *path, uid_t owner) {
    struct stat is;
    return stat(path, &is) == 0 && S_ISREG(is.st_mode) && !(is.st_mode & S_IWOTH) &&
           (is.st_uid == 0 || is.st_uid == owner);
}

enum tmk_status tmk_helper_find(const char *program, char path[PATH_MAX], struct tmk_diag *diag) {
    char own[PATH_MAX] = "";
    struct stat is;
    const char *folder = secure_getenv("TIDEMARK_LIBEXEC");
    if (folder && *folder) {
        if (snprintf(path, PATH_MAX, "%s/%s", folder, program) < PATH_MAX &&
            access(path, X_OK) == 0)
            return TMK_OK;
        return tmk_fail(diag, TMK_MACHINE, "%s is not in '%s', which TIDEMARK_LIBEXEC names",
                        program, folder);
    }
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return tmk_fail(diag, TMK_MACHINE, "no process for %s: /proc/self/maps: %s", program,
                        strerror(errno));
    const bool known = find_own_file(own, maps);
    fclose(maps);
    if (known && stat(own, &is) == 0) {
        *strrchr(own, '/') = '\0';
        for (size_t i = 0; i < TMK_COUNT(folders); i++) {
            const char *base = folders[i][0] == '/' ? "" : own,
                       *slash = folders[i][0] == '/' ? "" : "/";
            if (snprintf(path, PATH_MAX, "%s%s%s%s", base, slash, folders[i], program) < PATH_MAX &&
                is_safe(path, is.st_uid))
                return TMK_OK;
        }
    }
    return tmk_fail(diag, TMK_MACHINE,
                    "%s is not found beside the library; TIDEMARK_LIBEXEC may name its folder",
                    program);
}

enum {
    PATIENCE = 5,    /* seconds between looks whether the process comes on, */
    MOST_QUIET = 12, /* of which so many in a row may find that it doesn't */
    MOST_SIGN = 4096,
    START_SECONDS = 10, /* of processor time */
    LOWEST_FD = 16,     /* above those that the program gets */
};

extern char **environ;

/* ---- starting it ---- */

static enum tmk_status no_process(const struct tmk_helper_kind *kind, const char *what, int error,
                                  struct tmk_diag *diag) {
    return tmk_fail(diag, TMK_MACHINE, "no process to read %s with: %s: %s", kind->reads, what,
                    strerror(error));
}

/* Memory that the process cannot make smaller, which would end this one by SIGBUS. */
static int make_shared(size_t size) {
    int fd = memfd_create("tidemark", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && (ftruncate(fd, (off_t)size) != 0 ||
                    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)) {
        const int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* What only means the end keeps its meaning; what a terminal sends to the group is for this
 * process, which may want to read on before it stops. */
static void set_signals(posix_spawnattr_t *how) {
    static const int deadly[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                                 SIGABRT, SIGTRAP, SIGSYS, SIGXCPU};
    sigset_t blocked, usual;
    sigfillset(&blocked);
    sigemptyset(&usual);
    for (size_t i = 0; i < TMK_COUNT(deadly); i++) {
        sigdelset(&blocked, deadly[i]);
        sigaddset(&usual, deadly[i]);
    }
    posix_spawnattr_setflags(how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(how, &blocked);
    posix_spawnattr_setsigdefault(how, &usual);
}

/* fd: as they are numbered over there, from TMK_HELPER_SOCKET on; -1: none. The program has no
 * standard streams: the C library prints when it finds its heap damaged. */
static int spawn_program(const char *path, const int *fd, size_t n, pid_t *pid) {
    char *const argv[] = {(char *)(uintptr_t)path, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    int error = posix_spawn_file_actions_init(&files);
    if (error)
        return error;
    if ((error = posix_spawnattr_init(&how)) == 0) {
        for (int i = 0; i < TMK_HELPER_SOCKET && !error; i++)
            error = posix_spawn_file_actions_addclose(&files, i);
        for (size_t i = 0; i < n && !error; i++)
            if (fd[i] >= 0)
                error = posix_spawn_file_actions_adddup2(&files, fd[i], TMK_HELPER_SOCKET + (int)i);
        set_signals(&how);
        if (!error)
            error = posix_spawn(pid, path, &files, &how, argv, environ);
        posix_spawnattr_destroy(&how);
    }
    posix_spawn_file_actions_destroy(&files);
    return error;
}

/* Starts the program with copies of these descriptors, out of the way of the numbers that they get
 * over there. */
static int spawn_with(const char *path, const int *from, size_t n, pid_t *pid) {
    int fd[TMK_HELPER_N_FDS], error = 0;
    for (size_t i = 0; i < n; i++) {
        fd[i] = from[i] < 0 || error ? -1 : fcntl(from[i], F_DUPFD_CLOEXEC, LOWEST_FD);
        if (from[i] >= 0 && fd[i] < 0 && !error)
            error = errno;
    }
    if (!error)
        error = spawn_program(path, fd, n, pid);
    for (size_t i = 0; i < n; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    return error;
}

static enum tmk_status start_program(struct tmk_helper *helper, int file, struct tmk_diag *diag) {
    char path[PATH_MAX];
    int fd[2];
    TMK_TRY(tmk_helper_find(helper->kind->program, path, diag));
    const int shared = make_shared(helper->size);
    void *mapped = shared < 0 ? MAP_FAILED
                              : mmap(NULL, helper->size, PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_NORESERVE, shared, 0);
    if (mapped == MAP_FAILED) {
        const int error = errno;
        if (shared >= 0)
            close(shared);
        return no_process(helper->kind, "shared memory", error, diag);
    }
    helper->shared = mapped;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd) != 0) {
        const int error = errno;
        close(shared);
        return no_process(helper->kind, "a socket", error, diag);
    }
    const int from[] = {fd[1], shared, file};
    const struct timeval patience = {PATIENCE, 0};
    const int error = spawn_with(path, from, TMK_COUNT(from), &helper->pid);
    close(fd[1]);
    close(shared);
    helper->fd = fd[0];
    setsockopt(fd[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return error ? no_process(helper->kind, path, error, diag) : TMK_OK;
}

/* Until it is confined, an end is none that the file causes. */
static enum tmk_status greet_program(struct tmk_helper *helper, struct tmk_diag *diag) {
    const struct tmk_helper_begin begin = {helper->memory, helper->size, helper->owner};
    struct tmk_helper_answer answer = {0};
    enum tmk_status status =
        tmk_helper_send(helper, &begin, sizeof begin, NULL, 0, START_SECONDS, NULL);
    TMK_THEN(status,
             tmk_helper_receive(helper, 0, &answer, &helper->ready, sizeof helper->ready, NULL));
    if (status == TMK_OK && !answer.outcome &&
        strncmp(helper->ready.version, TMK_VERSION, sizeof helper->ready.version) == 0)
        return TMK_OK;
    return tmk_fail(diag, TMK_MACHINE, "no process to read %s with: %s %s", helper->kind->reads,
                    helper->kind->program,
                    status == TMK_OK ? "is of another version than the library"
                                     : "does not start, perhaps for want of memory");
}

enum tmk_status tmk_helper_begin(const struct tmk_helper_kind *kind, int file, size_t shared,
                                 uint64_t memory, struct tmk_helper *out, struct tmk_diag *diag) {
    *out = (struct tmk_helper){
        .kind = kind, .fd = -1, .owner = getpid(), .size = shared, .memory = memory};
    enum tmk_status status = start_program(out, file, diag);
    TMK_THEN(status, greet_program(out, diag));
    if (status != TMK_OK)
        tmk_helper_end(out);
    return status;
}

/* ---- ending it ---- */

/* Waits for its end, which must not be long in coming. *how is waitpid's; false: the program
 * ignores its children's ends, or waits for any child itself, which leaves the result unknown; or
 * SIGKILL does not end a process that waits for a disk that is gone. */
static bool wait_exit(struct tmk_helper *helper, int *how) {
    enum { STEP = 100000, LONGEST_STEP = 50000000, STEPS = 50 }; /* ns; two seconds in all */
    if (helper->pid <= 0)
        return false;
    struct timespec step = {0, STEP};
    pid_t pid = waitpid(helper->pid, how, WNOHANG);
    if (pid == 0)                   /* still a child of ours, so the number is not reused */
        kill(helper->pid, SIGKILL); /* changes nothing if it is dying of something else */
    for (int i = 0; i < STEPS && pid == 0; i++) {
        pid = waitpid(helper->pid, how, WNOHANG);
        if (pid == 0)
            nanosleep(&step, NULL);
        step.tv_nsec = step.tv_nsec < LONGEST_STEP ? 2 * step.tv_nsec : LONGEST_STEP;
    }
    helper->pid = 0;
    return pid > 0;
}

/* Where the program has forked itself meanwhile, the process is the other one's. */
void tmk_helper_end(struct tmk_helper *helper) {
    int how;
    if (helper->fd >= 0) {
        close(helper->fd);
        helper->fd = -1;
        if (helper->owner == getpid())
            (void)wait_exit(helper, &how);
    }
    if (helper->shared)
        munmap(helper->shared, helper->size);
    helper->shared = NULL;
}

static void note_end(struct tmk_helper *helper, int how) {
    helper->status = TMK_READ;
    helper->damaged = true;
    helper->end = "crashes on it";
    if (WIFSIGNALED(how) && WTERMSIG(how) == SIGXCPU)
        helper->end = "timed out reading it";
    if (WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL) {
        helper->status = TMK_MACHINE;
        helper->damaged = false;
        helper->end = "the process that reads it was killed, perhaps for want of memory";
    }
}

/* There is no process any more. */
static enum tmk_status repeat_end(const struct tmk_helper *helper, struct tmk_diag *diag) {
    if (helper->damaged)
        return tmk_fail(diag, TMK_READ, "is damaged: %s %s; get the file anew, or write it again",
                        helper->kind->library, helper->end);
    return tmk_fail(diag, helper->status, "%s", helper->end);
}

/* It has closed its end, or talks nonsense: there is nothing more to be had of it. */
static enum tmk_status fail_process(struct tmk_helper *helper, bool died, struct tmk_diag *diag) {
    int how = 0;
    if (helper->fd >= 0) {
        close(helper->fd);
        helper->fd = -1;
        bool known = wait_exit(helper, &how);
        note_end(helper, known && died ? how : 0);
    }
    return repeat_end(helper, diag);
}

/* ---- messages ---- */

/* From now on: a loop ends with SIGXCPU, and a slow disk does not matter. Where the host program
 * ignores its children's ends, the number may be another process's by now. */
static void limit_time(pid_t pid, uint64_t seconds) {
    clockid_t clock;
    siginfo_t end;
    struct timespec used;
    struct rlimit limit;
    if (pid <= 0 || waitid(P_PID, (id_t)pid, &end, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0 ||
        prlimit(pid, RLIMIT_CPU, NULL, &limit) != 0)
        return;
    const rlim_t most = (rlim_t)used.tv_sec + 1 + seconds;
    limit.rlim_cur =
        limit.rlim_max != RLIM_INFINITY && limit.rlim_max < most ? limit.rlim_max : most;
    (void)prlimit(pid, RLIMIT_CPU, &limit, NULL);
}

enum tmk_status tmk_helper_send(struct tmk_helper *helper, const void *ask, size_t size,
                                const void *more, size_t len, uint64_t seconds,
                                struct tmk_diag *diag) {
    struct iovec parts[] = {{(void *)(uintptr_t)ask, size}, {(void *)(uintptr_t)more, len}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t n;
    if (helper->owner != getpid())
        return tmk_fail(diag, TMK_ARGUMENT, "was opened before the process forked: open it anew");
    if (len > TMK_HELPER_MOST_MESSAGE - size)
        return tmk_fail(diag, TMK_ARGUMENT, "its name is too long");
    if (helper->fd < 0)
        return repeat_end(helper, diag);
    limit_time(helper->pid, seconds);
    do
        n = sendmsg(helper->fd, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? fail_process(helper, true, diag) : TMK_OK;
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

enum tmk_status tmk_helper_receive(struct tmk_helper *helper, uint32_t op,
                                   struct tmk_helper_answer *answer, void *more, size_t len,
                                   struct tmk_diag *diag) {
    struct iovec parts[] = {{answer, sizeof *answer}, {more, len}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    uint64_t sign = 0;
    if (helper->fd < 0)
        return repeat_end(helper, diag);
    ssize_t n = recvmsg(helper->fd, &message, 0);
    for (int quiet = 0; n < 0 && (errno == EINTR || errno == EAGAIN);
         n = recvmsg(helper->fd, &message, 0)) {
        if (errno == EINTR)
            continue;
        const uint64_t before = sign;
        sign = sign_of_life(helper->pid);
        quiet = sign && sign == before ? quiet + 1 : 0;
        if (quiet == MOST_QUIET) {
            /* A disk or a network that is gone holds it for good. */
            int how;
            close(helper->fd);
            helper->fd = -1;
            (void)wait_exit(helper, &how);
            helper->status = TMK_READ;
            helper->end = "reading it has not come on for a minute: is its disk or network there?";
            return repeat_end(helper, diag);
        }
    }
    if (n <= 0)
        return fail_process(helper, true, diag);
    if ((size_t)n < sizeof *answer || answer->op != op || (message.msg_flags & MSG_TRUNC) ||
        (!answer->outcome && (size_t)n != sizeof *answer + len))
        return fail_process(helper, false, diag);
    answer->why[sizeof answer->why - 1] = '\0';
    return TMK_OK;
}
