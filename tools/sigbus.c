/* SPDX-License-Identifier: Apache-2.0 */
#include "sigbus.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

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
