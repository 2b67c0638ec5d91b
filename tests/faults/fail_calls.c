/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a program: makes one of its system calls fail, and counts all that it watches.
 *
 *   FAIL_CALL="NAME:N[+]:HOW"  the N-th call of NAME (from 1; +: and all later ones; NAME "any":
 *                              of all watched calls together). HOW is an error (ENOSPC), "short"
 *                              (fewer bytes than asked for), "zero" (none), or "signal=N" (then the
 *                              call goes on).
 *   FAIL_UNDER=FOLDER          calls that have to do with a file in there only
 *   FAIL_UNNAMED=1             the file system knows no files without a name
 *   FAIL_COUNTS=FILE           of at least 256 bytes: how often each call was made, as uint32_t in
 *                              the order of CALLS; the first is "any"
 *
 * What the C library calls for itself (fopen, printf) does not pass here. */
#undef _FILE_OFFSET_BITS /* both names of each call are defined here */
#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <unistd.h>

#define CALLS(X)                                                                                   \
    X(any)                                                                                         \
    X(open)                                                                                        \
    X(write)                                                                                       \
    X(fsync)                                                                                       \
    X(fchmod)                                                                                      \
    X(linkat)                                                                                      \
    X(renameat2)                                                                                   \
    X(unlinkat)                                                                                    \
    X(unlink)                                                                                      \
    X(remove)                                                                                      \
    X(close)                                                                                       \
    X(read)                                                                                        \
    X(pread)                                                                                       \
    X(mmap)                                                                                        \
    X(fstat)                                                                                       \
    X(stat)                                                                                        \
    X(dlopen)

enum call {
#define CALL_ENUM(name) CALL_##name,
    CALLS(CALL_ENUM)
#undef CALL_ENUM
        N_CALLS
};

static const char *const names[] = {
#define CALL_NAME(name) #name,
    CALLS(CALL_NAME)
#undef CALL_NAME
};

static const struct {
    const char *name;
    int number;
} errors[] = {{"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT},
              {"EROFS", EROFS},   {"EINTR", EINTR},   {"EACCES", EACCES},
              {"EMFILE", EMFILE}, {"ENOMEM", ENOMEM}, {"EOPNOTSUPP", EOPNOTSUPP},
              {"EINVAL", EINVAL}, {"EPERM", EPERM},   {"ENODEV", ENODEV}};

enum how { NOTHING, ERROR, SHORT, ZERO, SIGNAL };

static struct {
    enum call call;
    enum how how;
    int number; /* the error, or the signal */
    uint32_t at;
    bool later, named;
    const char *under;
    _Atomic uint32_t *counts;
    _Atomic uint32_t own[64];
} plan;

static void refuse(const char *what) {
    fprintf(stderr, "fail_calls: what is %s?\n", what);
    _exit(99);
}

static void read_how(const char *how) {
    if (strcmp(how, "short") == 0) {
        plan.how = SHORT;
    } else if (strcmp(how, "zero") == 0) {
        plan.how = ZERO;
    } else if (strncmp(how, "signal=", 7) == 0) {
        plan.how = SIGNAL;
        plan.number = atoi(how + 7);
    } else {
        for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
            if (strcmp(errors[i].name, how) == 0) {
                plan.how = ERROR;
                plan.number = errors[i].number;
            }
        if (plan.how != ERROR)
            refuse(how);
    }
}

__attribute__((constructor)) static void read_plan(void) {
    const char *text = getenv("FAIL_CALL"), *file = getenv("FAIL_COUNTS");
    char name[32] = "", how[32] = "", plus[2] = "";
    plan.under = getenv("FAIL_UNDER");
    plan.named = getenv("FAIL_UNNAMED") != NULL;
    plan.counts = plan.own;
    if (file) {
        int fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC);
        void *shared = mmap(NULL, sizeof plan.own, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (shared == MAP_FAILED)
            refuse(file);
        plan.counts = shared;
        syscall(SYS_close, fd);
    }
    if (!text)
        return;
    if (sscanf(text, "%31[^:]:%u%1[+]:%31s", name, &plan.at, plus, how) != 4 &&
        sscanf(text, "%31[^:]:%u:%31s", name, &plan.at, how) != 3)
        refuse(text);
    plan.later = plus[0] == '+';
    plan.call = N_CALLS;
    for (int i = 0; i < N_CALLS; i++)
        if (strcmp(names[i], name) == 0)
            plan.call = (enum call)i;
    if (plan.call == N_CALLS)
        refuse(name);
    read_how(how);
}

static bool is_under(const char *path) {
    size_t len = plan.under ? strlen(plan.under) : 0;
    return !plan.under || (strncmp(path, plan.under, len) == 0 && (!path[len] || path[len] == '/'));
}

/* A descriptor is of the folder, or in it. */
static bool is_descriptor_under(int fd) {
    char name[32], path[4096];
    if (!plan.under)
        return true;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    long n = syscall(SYS_readlinkat, AT_FDCWD, name, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    return is_under(path);
}

static bool is_name_under(int folder, const char *name) {
    return name[0] == '/' ? is_under(name) : folder != AT_FDCWD && is_descriptor_under(folder);
}

static bool comes_now(enum call call) {
    uint32_t n = atomic_fetch_add(&plan.counts[call], 1) + 1;
    return plan.how != NOTHING && plan.call == call &&
           (n == plan.at || (plan.later && n > plan.at));
}

/* What is to happen to this call; for an error errno is set. */
static enum how fate(enum call call, bool watched) {
    if (!watched || !plan.counts)
        return NOTHING;
    const bool now = comes_now(CALL_any), this_one = comes_now(call);
    if (!now && !this_one)
        return NOTHING;
    if (plan.how == SIGNAL) {
        int kept = errno;
        syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), plan.number);
        errno = kept;
        return NOTHING;
    }
    if (plan.how == ERROR)
        errno = plan.number;
    return plan.how;
}

/* The next definition of a function, by the type of ours. */
#define REAL(function) ((__typeof__(&(function)))(uintptr_t)dlsym(RTLD_NEXT, #function))

/* ---- files by name ---- */

static mode_t mode_of(int flags, va_list args) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
}

#define OPEN_LIKE(function)                                                                        \
    int function(const char *path, int flags, ...) {                                               \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        mode_t mode = mode_of(flags, args);                                                        \
        va_end(args);                                                                              \
        if (fate(CALL_open, is_name_under(AT_FDCWD, path)) == ERROR)                               \
            return -1;                                                                             \
        return REAL(function)(path, flags, mode);                                                  \
    }
OPEN_LIKE(open)
OPEN_LIKE(open64)

static bool refuses_unnamed(int flags) {
    const bool refuses = plan.named && (flags & O_TMPFILE) == O_TMPFILE;
    if (refuses)
        errno = EOPNOTSUPP;
    return refuses;
}

#define OPENAT_LIKE(function)                                                                      \
    int function(int folder, const char *path, int flags, ...) {                                   \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        mode_t mode = mode_of(flags, args);                                                        \
        va_end(args);                                                                              \
        if (fate(CALL_open, is_name_under(folder, path)) == ERROR || refuses_unnamed(flags))       \
            return -1;                                                                             \
        return REAL(function)(folder, path, flags, mode);                                          \
    }
OPENAT_LIKE(openat)
OPENAT_LIKE(openat64)

int linkat(int from_folder, const char *from, int folder, const char *name, int flags) {
    if (fate(CALL_linkat, is_name_under(folder, name)) == ERROR)
        return -1;
    return REAL(linkat)(from_folder, from, folder, name, flags);
}

int renameat2(int from_folder, const char *from, int folder, const char *name, unsigned flags) {
    if (fate(CALL_renameat2, is_name_under(folder, name)) == ERROR)
        return -1;
    return REAL(renameat2)(from_folder, from, folder, name, flags);
}

int unlinkat(int folder, const char *name, int flags) {
    if (fate(CALL_unlinkat, is_name_under(folder, name)) == ERROR)
        return -1;
    return REAL(unlinkat)(folder, name, flags);
}

#define NAME_LIKE(function)                                                                        \
    int function(const char *name) {                                                               \
        if (fate(CALL_##function, is_name_under(AT_FDCWD, name)) == ERROR)                         \
            return -1;                                                                             \
        return REAL(function)(name);                                                               \
    }
NAME_LIKE(unlink)
NAME_LIKE(remove)

#define STAT_LIKE(function, type)                                                                  \
    int function(const char *name, struct type *out) {                                             \
        if (fate(CALL_stat, is_name_under(AT_FDCWD, name)) == ERROR)                               \
            return -1;                                                                             \
        return REAL(function)(name, out);                                                          \
    }
STAT_LIKE(stat, stat)
STAT_LIKE(stat64, stat64)

/* ---- files by descriptor ---- */

static size_t fewer(size_t len) {
    return len > 1 ? len / 2 : len;
}

ssize_t write(int fd, const void *bytes, size_t len) {
    enum how how = fate(CALL_write, is_descriptor_under(fd));
    if (how == ERROR || how == ZERO)
        return how == ZERO ? 0 : -1;
    return REAL(write)(fd, bytes, how == SHORT ? fewer(len) : len);
}

ssize_t read(int fd, void *bytes, size_t len) {
    enum how how = fate(CALL_read, is_descriptor_under(fd));
    if (how == ERROR || how == ZERO)
        return how == ZERO ? 0 : -1;
    return REAL(read)(fd, bytes, how == SHORT ? fewer(len) : len);
}

#define PREAD_LIKE(function, offset_type)                                                          \
    ssize_t function(int fd, void *bytes, size_t len, offset_type offset) {                        \
        enum how how = fate(CALL_pread, is_descriptor_under(fd));                                  \
        if (how == ERROR || how == ZERO)                                                           \
            return how == ZERO ? 0 : -1;                                                           \
        return REAL(function)(fd, bytes, how == SHORT ? fewer(len) : len, offset);                 \
    }
PREAD_LIKE(pread, off_t)
PREAD_LIKE(pread64, off64_t)

#define MMAP_LIKE(function, offset_type)                                                           \
    void *function(void *at, size_t len, int access, int flags, int fd, offset_type offset) {      \
        if (fate(CALL_mmap, fd >= 0 && is_descriptor_under(fd)) == ERROR)                          \
            return MAP_FAILED;                                                                     \
        return REAL(function)(at, len, access, flags, fd, offset);                                 \
    }
MMAP_LIKE(mmap, off_t)
MMAP_LIKE(mmap64, off64_t)

#define FSTAT_LIKE(function, type)                                                                 \
    int function(int fd, struct type *out) {                                                       \
        if (fate(CALL_fstat, is_descriptor_under(fd)) == ERROR)                                    \
            return -1;                                                                             \
        return REAL(function)(fd, out);                                                            \
    }
FSTAT_LIKE(fstat, stat)
FSTAT_LIKE(fstat64, stat64)

/* Of HDF5, the one library that is loaded when it is needed. */
void *dlopen(const char *file, int mode) {
    const bool watched = file && strstr(file, "hdf5");
    return fate(CALL_dlopen, watched) == ERROR ? NULL : REAL(dlopen)(file, mode);
}

int fsync(int fd) {
    return fate(CALL_fsync, is_descriptor_under(fd)) == ERROR ? -1 : REAL(fsync)(fd);
}

int fchmod(int fd, mode_t mode) {
    return fate(CALL_fchmod, is_descriptor_under(fd)) == ERROR ? -1 : REAL(fchmod)(fd, mode);
}

/* The descriptor is closed in any case, as Linux does. */
int close(int fd) {
    enum how how = fate(CALL_close, is_descriptor_under(fd));
    int error = errno, answer = REAL(close)(fd);
    if (how != ERROR)
        return answer;
    errno = error;
    return -1;
}
