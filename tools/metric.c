/* SPDX-License-Identifier: Apache-2.0 */
/* A metric that another program computes: it reads the outputs as .npy, one behind the other, and
 * prints one number. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "simulate_search.h"

enum { MOST_PRINTED = 4096 };

extern char **environ;

struct talk {
    const struct metric_command *command;
    const struct tmk_metric_outputs *outputs;
    char **headers;
    size_t *header_len;
    size_t part, done; /* of the parts, header and data in turn; bytes of this one */
    pid_t pid;
    int to, from; /* -1: closed */
    double until;
    char printed[MOST_PRINTED + 1];
    size_t n_printed;
    struct tmk_diag *diag;
};

TMK_PRINTF(3, 4)
static enum tmk_status fail_metric(struct talk *t, enum tmk_status status, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    const int len = snprintf(t->diag->text, sizeof t->diag->text, "--metric-command: ");
    vsnprintf(t->diag->text + len, sizeof t->diag->text - (size_t)len, fmt, args);
    va_end(args);
    return t->diag->status = status;
}

/* ---- the program ---- */

/* The number of the first sample and how many: the environment has them. */
static void set_environment(const struct tmk_metric_outputs *outputs) {
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)outputs->first);
    setenv("TIDEMARK_FIRST", text, 1);
    snprintf(text, sizeof text, "%llu", (unsigned long long)outputs->samples);
    setenv("TIDEMARK_SAMPLES", text, 1);
    setenv("TIDEMARK_DATA", outputs->n_sources ? outputs->sources[0] : "", 1);
}

/* A group of its own, so that all of a pipeline can be ended. */
static enum tmk_status start_program(struct talk *t) {
    int in[2], out[2] = {-1, -1};
    if (pipe2(in, O_CLOEXEC) != 0)
        return fail_metric(t, TMK_MACHINE, "no pipe: %s", strerror(errno));
    if (pipe2(out, O_CLOEXEC) != 0) {
        close(in[0]);
        close(in[1]);
        return fail_metric(t, TMK_MACHINE, "no pipe: %s", strerror(errno));
    }
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t usual;
    char shell[] = "sh", option[] = "-c", *text = strdup(t->command->text);
    char *const argv[] = {shell, option, text, NULL};
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&how);
    posix_spawn_file_actions_adddup2(&files, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigdefault(&how, &usual);
    set_environment(t->outputs);
    const int failed = text ? posix_spawnp(&t->pid, shell, &files, &how, argv, environ) : ENOMEM;
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&how);
    free(text);
    close(in[0]);
    close(out[1]);
    t->to = in[1];
    t->from = out[0];
    if (failed) {
        t->pid = 0;
        return fail_metric(t, TMK_MACHINE, "no shell to run it: %s", strerror(failed));
    }
    fcntl(t->to, F_SETFL, O_NONBLOCK);
    return TMK_OK;
}

/* ---- bytes ---- */

static void close_end(int *end) {
    if (*end >= 0)
        close(*end);
    *end = -1;
}

static const char *part_of(const struct talk *t, size_t *len) {
    const size_t i = t->part / 2;
    if (t->part % 2 == 0) {
        *len = t->header_len[i];
        return t->headers[i];
    }
    *len = tmk_tensor_bytes(&t->outputs->outputs[i]);
    return t->outputs->outputs[i].data;
}

/* As much as the pipe takes. A program that reads no more may do so. */
static void write_some(struct talk *t) {
    while (t->part < 2 * (size_t)t->outputs->n) {
        size_t len;
        const char *bytes = part_of(t, &len);
        const ssize_t n = t->done < len ? write(t->to, bytes + t->done, len - t->done) : 0;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0 && errno != EINTR)
            break;
        t->done += n > 0 ? (size_t)n : 0;
        if (t->done >= len) {
            t->part++;
            t->done = 0;
        }
    }
    close_end(&t->to);
}

static void read_some(struct talk *t) {
    char bytes[512];
    const ssize_t n = read(t->from, bytes, sizeof bytes);
    const size_t left = MOST_PRINTED - t->n_printed;
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
        close_end(&t->from);
    if (n > 0) {
        memcpy(t->printed + t->n_printed, bytes, (size_t)n < left ? (size_t)n : left);
        t->n_printed += (size_t)n < left ? (size_t)n : left;
    }
}

static enum tmk_status pass_bytes(struct talk *t) {
    while (t->from >= 0) {
        const double left = t->until - clock_seconds();
        struct pollfd ends[] = {{t->from, POLLIN, 0}, {t->to, POLLOUT, 0}};
        if (left <= 0)
            return fail_metric(t, TMK_LIMIT, "no answer after %g s (--metric-timeout)",
                               t->command->seconds);
        if (poll(ends, t->to >= 0 ? 2 : 1, left < 1 ? (int)(1000 * left) + 1 : 1000) < 0 &&
            errno != EINTR)
            return fail_metric(t, TMK_MACHINE, "%s", strerror(errno));
        if (t->to >= 0 && ends[1].revents)
            write_some(t);
        if (ends[0].revents)
            read_some(t);
    }
    return TMK_OK;
}

/* ---- the answer ---- */

static enum tmk_status wait_for_end(struct talk *t) {
    int status = 0;
    pid_t ended;
    while ((ended = waitpid(t->pid, &status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
        if (clock_seconds() >= t->until)
            return fail_metric(t, TMK_LIMIT, "no end after %g s (--metric-timeout)",
                               t->command->seconds);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    t->pid = 0;
    if (WIFSIGNALED(status))
        return fail_metric(t, TMK_READ, "ended by signal %d", WTERMSIG(status));
    if (ended < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return fail_metric(t, TMK_READ, "ended with status %d", WEXITSTATUS(status));
    return TMK_OK;
}

static enum tmk_status read_number(struct talk *t, double *out) {
    char *end = NULL;
    t->printed[t->n_printed] = '\0';
    *out = strtod(t->printed, &end);
    if (end != t->printed && end[strspn(end, " \t\r\n")] == '\0')
        return TMK_OK;
    t->printed[strcspn(t->printed, "\r\n")] = '\0';
    return fail_metric(t, TMK_FORMAT, "it printed '%.60s', and not one number", t->printed);
}

static enum tmk_status make_headers(struct talk *t) {
    const uint32_t n = t->outputs->n;
    t->headers = calloc(n + 1u, sizeof *t->headers);
    t->header_len = calloc(n + 1u, sizeof *t->header_len);
    if (!t->headers || !t->header_len)
        return fail_metric(t, TMK_NOMEM, "out of memory");
    for (uint32_t i = 0; i < n; i++) {
        enum tmk_status status =
            tmk_npy_header(&t->outputs->outputs[i], &t->headers[i], &t->header_len[i], t->diag);
        if (status != TMK_OK)
            return status;
    }
    return TMK_OK;
}

enum tmk_status run_metric(void *context, const struct tmk_metric_outputs *outputs, double *out,
                           struct tmk_diag *diag) {
    struct talk t = {.command = context, .outputs = outputs, .to = -1, .from = -1, .diag = diag};
    struct sigaction ignored = {.sa_handler = SIG_IGN}, was;
    t.until = clock_seconds() + t.command->seconds;
    sigaction(SIGPIPE, &ignored, &was);
    enum tmk_status status = make_headers(&t);
    if (status == TMK_OK)
        status = start_program(&t);
    if (status == TMK_OK)
        status = pass_bytes(&t);
    close_end(&t.to);
    close_end(&t.from);
    if (status == TMK_OK)
        status = wait_for_end(&t);
    if (t.pid > 0) {
        kill(-t.pid, SIGKILL);
        waitpid(t.pid, NULL, 0);
    }
    if (status == TMK_OK)
        status = read_number(&t, out);
    for (uint32_t i = 0; t.headers && i < outputs->n; i++)
        free(t.headers[i]);
    free(t.headers);
    free(t.header_len);
    sigaction(SIGPIPE, &was, NULL);
    return status;
}
