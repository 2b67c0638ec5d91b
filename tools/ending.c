/* SPDX-License-Identifier: Apache-2.0 */
#include "ending.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "command.h"

/* ---- signals: no stdio, no memory ---- */

/* As base/file.h names files that are being written, where they have names. */
static const char temporary[] = "/.tidemark-";
enum { LETTERS = 12 };

static bool is_temporary(const char *path) {
    const char *name = strrchr(path, '/');
    return name && strncmp(name, temporary, sizeof temporary - 1) == 0 &&
           strlen(name) == sizeof temporary - 1 + LETTERS;
}

static void remove_if_temporary(int folder, const char *descriptor) {
    char path[4096];
    ssize_t n = readlinkat(folder, descriptor, path, sizeof path - 1);
    if (n <= 0)
        return;
    path[n] = '\0';
    if (is_temporary(path))
        unlink(path);
}

/* They are open; fstat identifies each descriptor's file. */
static void remove_temporaries(void) {
    struct entry {
        uint64_t inode, offset;
        uint16_t size;
        unsigned char type;
        char name[];
    };
    _Alignas(struct entry) char entries[2048];
    int folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long n;
    while (folder >= 0 && (n = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0)
        for (long at = 0; at < n;) {
            const struct entry *entry = (const struct entry *)(const void *)(entries + at);
            remove_if_temporary(folder, entry->name);
            at += entry->size;
        }
    if (folder >= 0)
        close(folder);
}

void die_of_signal(int number) {
    sigset_t one;
    remove_temporaries();
    drop_progress();
    signal(number, SIG_DFL);
    sigemptyset(&one);
    sigaddset(&one, number);
    raise(number);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    _exit(EXIT_BY_SIGNAL + number);
}

static void watch_signals(void) {
    static const int numbers[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,  SIGUSR1,
                                  SIGUSR2, SIGALRM, SIGXCPU, SIGVTALRM};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction action = {.sa_handler = die_of_signal}, before;
        sigemptyset(&action.sa_mask);
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

/* ---- streams ---- */

/* Each opened so that it can't do what it is for. */
static void fill_closed_streams(void) {
    static const int flags[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    struct stat st;
    for (int fd = 0; fd < 3; fd++)
        if (fstat(fd, &st) != 0 && open("/dev/null", flags[fd]) < 0)
            abort();
}

void begin_program(void) {
    fill_closed_streams();
    watch_signals();
    setvbuf(stderr, NULL, _IOLBF,
            BUFSIZ); /* one write a line, so that lines of several processes do not mix */
}

static bool is_closed(int fd) {
    struct pollfd one = {.fd = fd};
    return poll(&one, 1, 0) == 1 && (one.revents & POLLERR);
}

int end_program(int status) {
    end_progress();
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    if (is_closed(STDOUT_FILENO))
        die_of_signal(SIGPIPE);
    print_event(LEVEL_ERROR, "error", NULL, "tidemark: cannot write to standard output");
    return status > EXIT_ANSWER_NO ? status : EXIT_MACHINE;
}

/* ---- libraries that end the process when memory runs out ---- */

/* oneDNN lets std::bad_alloc through to callers that are C, and C++ then ends the process. Streams
 * are not flushed: what was printed so far is not the whole answer. */
static void report_terminate(void) {
    static const struct tmk_diag diag = {
        .text = "oneDNN ended the process, most likely for lack of memory"};
    _exit(report_error(TMK_NOMEM, &diag));
}

static bool own_exit;

/* libgomp calls exit when it has no memory, with a status that means something else here. */
static void replace_status(void) {
    if (!own_exit)
        _exit(EXIT_MACHINE);
}

int mark_own_exit(int status) {
    own_exit = true;
    return status;
}

void handle_terminate(void) {
    void (*(*set_terminate)(void (*)(void)))(void);
    /* std::set_terminate, where a C++ library is there at all */
    *(void **)&set_terminate = dlsym(RTLD_DEFAULT, "_ZSt13set_terminatePFvvE");
    if (set_terminate)
        (void)set_terminate(report_terminate);
    (void)atexit(replace_status);
}

/* ---- files that become shorter while they are mapped ---- */

/* Everything here runs in a signal handler: no stdio, no memory. */

struct line {
    char text[4096];
    size_t len;
};

static void append_text(struct line *line, const char *text, size_t len) {
    if (len > sizeof line->text - line->len)
        len = sizeof line->text - line->len;
    memcpy(line->text + line->len, text, len);
    line->len += len;
}

static const char *parse_number(const char *at, uintptr_t *out) {
    static const char digits[] = "0123456789abcdef";
    const char *digit;
    for (*out = 0; *at && (digit = strchr(digits, *at)); at++)
        *out = *out << 4 | (uintptr_t)(digit - digits);
    return at;
}

/* "BEGIN-END rwxp OFFSET DEVICE INODE   PATH": the path, or NULL where the address is elsewhere or
 * in no file. */
static const char *path_around(const char *mapping, uintptr_t address) {
    uintptr_t begin, end = 0;
    const char *at = parse_number(mapping, &begin);
    if (*at == '-')
        at = parse_number(at + 1, &end);
    return *at == ' ' && begin <= address && address < end ? strchr(at, '/') : NULL;
}

/* The path of the file that is mapped at the address, or "". */
static const char *file_at(uintptr_t address, struct line *mapping) {
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    char c;
    const char *path = NULL;
    mapping->len = 0;
    while (fd >= 0 && !path && read(fd, &c, 1) == 1) {
        if (c != '\n') {
            if (mapping->len < sizeof mapping->text - 1)
                mapping->text[mapping->len++] = c;
            continue;
        }
        mapping->text[mapping->len] = '\0';
        path = path_around(mapping->text, address);
        mapping->len = 0;
    }
    if (fd >= 0)
        close(fd);
    return path ? path : "";
}

static void append_path(struct line *line, const char *path) {
    while (*path) {
        bool harmless;
        const size_t n = text_character(path, &harmless);
        if (logs_json() && (*path == '"' || *path == '\\'))
            append_text(line, "\\", 1);
        append_text(line, harmless ? path : "?", harmless ? n : 1);
        path += n;
    }
}

static void report_and_exit(int number, siginfo_t *info, void *context) {
    (void)context;
    static const char what[] =
        ": cannot be read any more: it has become shorter, or its disk fails";
    static const char begin_json[] =
        "{\"event\": \"error\", \"level\": \"error\", \"message\": \"tidemark: ";
    static const char begin[] = "tidemark: ";
    struct line mapping, line = {.len = 0};
    const char *path = file_at((uintptr_t)info->si_addr, &mapping);
    if (!*path) {
        signal(number, SIG_DFL); /* and it happens again */
        return;
    }
    append_text(&line, logs_json() ? begin_json : begin, strlen(logs_json() ? begin_json : begin));
    append_path(&line, path);
    append_text(&line, what, sizeof what - 1);
    append_text(&line, logs_json() ? "\"}\n" : "\n", logs_json() ? 3 : 1);
    drop_progress();
    (void)!write(STDERR_FILENO, line.text, line.len);
    _exit(EXIT_BAD_INPUT);
}

void handle_sigbus(void) {
    struct sigaction action = {.sa_sigaction = report_and_exit, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}
