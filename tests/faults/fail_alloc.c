/* SPDX-License-Identifier: Apache-2.0 */
/* For LD_PRELOAD: makes a process's allocations, or the start of its threads, fail on request.
 * Calls are counted from main on, whichever library they come from; what the C library allocates
 * for its own callers (strdup, fopen) counts too. Helper programs (lib/sandbox) are left alone.
 *
 * TIDEMARK_FAIL names what fails: "alloc" or "thread", a colon, and
 *     N         the N-th call (from 1; 0: none)
 *     N+        the N-th and every later one
 *     P%SEED    each call by itself, with P percent
 *
 * TIDEMARK_FAIL_PIPES=IN,OUT instead: the process waits before main for such a line on descriptor
 * IN, goes through main in a child, writes the child's wait status on OUT as a line, and waits for
 * the next one; at the end of IN it is over. So a program that takes long to load is loaded once. A
 * child that takes over 10 seconds ends by SIGALRM.
 *
 * TIDEMARK_FAIL_REPORT is a file that is written at exit: how many calls of each there were, and
 * how many failed. TIDEMARK_FAIL_TRACE is a file to which the stack of each failure is added.
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* glibc's own, under the names that it keeps for replacements of malloc, and AddressSanitizer's,
 * where it is there. */
/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): their names */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void *__interceptor_malloc(size_t size) __attribute__((weak));
void *__interceptor_calloc(size_t count, size_t size) __attribute__((weak));
void *__interceptor_realloc(void *old, size_t size) __attribute__((weak));
void *__interceptor_memalign(size_t alignment, size_t size) __attribute__((weak));
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

enum { MOST_SECONDS = 10 };

struct fault {
    unsigned long first; /* 0: none */
    bool ever_after;
    unsigned percent;
    uint64_t seed;
    atomic_ulong calls, failed;
};

static struct fault allocations, threads;
static atomic_bool in_main;
static int trace = -1;
static _Thread_local bool within; /* this thread is leaving a trace */

static uint64_t mixed(uint64_t x) { /* splitmix64 */
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static void leave_trace(void) {
    enum { DEEPEST = 40 };
    void *frames[DEEPEST];
    within = true;
    int n = backtrace(frames, DEEPEST);
    backtrace_symbols_fd(frames, n, trace);
    (void)!write(trace, "\n", 1);
    within = false;
}

static bool fails(struct fault *fault) {
    if (!atomic_load_explicit(&in_main, memory_order_relaxed) || within)
        return false;
    unsigned long n = atomic_fetch_add(&fault->calls, 1) + 1;
    bool yes = fault->percent
                   ? mixed(fault->seed + n) % 100 < fault->percent
                   : fault->first && (fault->ever_after ? n >= fault->first : n == fault->first);
    if (yes)
        atomic_fetch_add(&fault->failed, 1);
    if (yes && trace >= 0)
        leave_trace();
    return yes;
}

static void *none(void) {
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t size) {
    if (fails(&allocations))
        return none();
    return __interceptor_malloc ? __interceptor_malloc(size) : __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    if (fails(&allocations))
        return none();
    return __interceptor_calloc ? __interceptor_calloc(count, size) : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
    if (fails(&allocations))
        return none();
    return __interceptor_realloc ? __interceptor_realloc(old, size) : __libc_realloc(old, size);
}

void *memalign(size_t alignment, size_t size) {
    if (fails(&allocations))
        return none();
    return __interceptor_memalign ? __interceptor_memalign(alignment, size)
                                  : __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size) {
    void *bytes = memalign(alignment, size);
    if (bytes)
        *out = bytes;
    return bytes ? 0 : ENOMEM;
}

/* Of files too: that takes memory for tables. */
void *mmap(void *where, size_t len, int access, int flags, int fd, off_t offset) {
    if (fails(&allocations)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, where, len, access, flags, fd, offset);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                   void *arg) {
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (fails(&threads))
        return EAGAIN;
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return real(thread, attr, start, arg);
}

static void read_fault(const char *text, const char *kind, struct fault *fault) {
    size_t len = strlen(kind);
    if (!text || strncmp(text, kind, len) != 0 || text[len] != ':')
        return;
    char *end;
    unsigned long n = strtoul(text + len + 1, &end, 10);
    if (*end == '%') {
        fault->percent = (unsigned)n;
        fault->seed = mixed(strtoull(end + 1, NULL, 10));
    } else {
        fault->first = n;
        fault->ever_after = *end == '+';
    }
}

static void report(void) {
    const char *path = getenv("TIDEMARK_FAIL_REPORT");
    atomic_store(&in_main, false);
    if (!path)
        return;
    char text[256];
    int len = snprintf(text, sizeof text, "alloc %lu %lu\nthread %lu %lu\n",
                       atomic_load(&allocations.calls), atomic_load(&allocations.failed),
                       atomic_load(&threads.calls), atomic_load(&threads.failed));
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    (void)!write(fd, text, (size_t)len);
    close(fd);
}

/* A line without its end; false at the end of the file. */
static bool read_line(int fd, char *line, size_t size) {
    size_t n = 0;
    while (n + 1 < size && read(fd, line + n, 1) == 1)
        if (line[n++] == '\n') {
            line[n - 1] = '\0';
            return true;
        }
    return false;
}

/* Returns in a child, which is to fail as `line` states; the process itself ends here. */
static void serve(int in, int out, char *line, size_t size) {
    while (read_line(in, line, size)) {
        lseek(STDIN_FILENO, 0, SEEK_SET);
        pid_t child = fork();
        if (child == 0) {
            close(in);
            close(out);
            alarm(MOST_SECONDS);
            return;
        }
        int status = -1;
        waitpid(child, &status, 0);
        dprintf(out, "%d\n", status);
    }
    _exit(0);
}

static int (*real_main)(int argc, char **argv, char **environment);

static int counted_main(int argc, char **argv, char **environment) {
    const char *asked = getenv("TIDEMARK_FAIL"), *pipes = getenv("TIDEMARK_FAIL_PIPES"),
               *traced = getenv("TIDEMARK_FAIL_TRACE");
    int in, out;
    char line[64];
    void *frame;
    (void)backtrace(&frame, 1); /* allocates, the first time */
    if (traced)
        trace = open(traced, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (pipes && sscanf(pipes, "%d,%d", &in, &out) == 2) {
        serve(in, out, line, sizeof line);
        asked = line;
    }
    read_fault(asked, "alloc", &allocations);
    read_fault(asked, "thread", &threads);
    atexit(report);
    atomic_store(&in_main, true);
    return real_main(argc, argv, environment);
}

typedef int start_main(int (*main)(int, char **, char **), int argc, char **argv,
                       void (*init)(void), void (*fini)(void), void (*rtld_fini)(void),
                       void *stack_end);
start_main __libc_start_main; /* NOLINT(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp):
                                 glibc's name */

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void *stack_end) {
    start_main *real;
    *(void **)&real = dlsym(RTLD_NEXT, "__libc_start_main");
    real_main = main;
    if (strstr(argv[0], "/tidemark-read-"))
        return real(main, argc, argv, init, fini, rtld_fini, stack_end);
    return real(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}
