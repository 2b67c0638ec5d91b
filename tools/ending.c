/* SPDX-License-Identifier: Apache-2.0 */
#include "ending.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
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
