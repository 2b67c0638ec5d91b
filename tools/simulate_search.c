/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate_search.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tidemark/inputs.h>

#include "table.h"

enum { CELL = 32 };

/* ---- options ---- */

/* "128", "60s", "128,60s" */
static bool read_budget(const char *text, struct search_args *out) {
    while (*text) {
        char *end = NULL;
        const double number = strtod(text, &end);
        const bool seconds = end != text && *end == 's';
        if (end == text || !isfinite(number) || number <= 0 || strchr("+-", *text))
            return false;
        end += seconds;
        if (seconds ? out->seconds > 0
                    : out->tries || number > UINT32_MAX || floor(number) != number)
            return false;
        if (seconds)
            out->seconds = number;
        else
            out->tries = (uint32_t)number;
        if (*end && (*end != ',' || !end[1]))
            return false;
        text = *end ? end + 1 : end;
    }
    return out->tries || out->seconds > 0;
}

bool check_search(const struct command *command, struct search_args *a) {
    const bool more = a->goal || a->budget || a->data.n || a->write_config || a->metric ||
                      a->metric_seconds > 0 || a->config;
    if (a->on != (a->profile && a->output))
        wrong_call(command, "--search takes --profile and -o, and they go with --search");
    else if (!a->on && more)
        wrong_call(command, "--goal, --budget, --search-data, --config, --write-config and "
                            "--metric-command go with --search");
    else if (a->goal && !tmk_goal_read(a->goal, &a->goal_kind, &a->goal_value))
        wrong_call(command,
                   "--goal %s: decibels, accuracy or metric: 30dB, accuracy-0.5%%, "
                   "metric-1%%",
                   a->goal);
    else if (a->goal_kind == TMK_GOAL_METRIC && !a->metric)
        wrong_call(command, "--goal %s takes --metric-command", a->goal);
    else if (a->budget && !read_budget(a->budget, a))
        wrong_call(command, "--budget %s: a number of tries, seconds, or both: 128, 60s, 128,60s",
                   a->budget);
    else if (a->metric_seconds < 0 || !isfinite(a->metric_seconds))
        wrong_call(command, "--metric-timeout is a number of seconds");
    else
        return true;
    return false;
}

/* ---- printing ---- */

/* Is there another with as much that costs less? By what the search goes by. */
static bool is_beaten(const struct tmk_search_result *r, uint32_t i) {
    const struct tmk_search_point *p = &r->points[i];
    const bool judged = isfinite(p->judged);
    for (uint32_t k = 0; k < r->n_points; k++) {
        const struct tmk_search_point *q = &r->points[k];
        const double here = judged ? p->judged : p->sqnr, there = judged ? q->judged : q->sqnr;
        if (k != i && there >= here && q->bytes <= p->bytes && q->share8 >= p->share8 &&
            (k < i || there > here || q->bytes < p->bytes || q->share8 > p->share8))
            return true;
    }
    return false;
}

/* One measure of all figures, where there is one. */
static void put_measure(const char *key, const double figures[6]) {
    static const char *const names[] = {"float",        "before",        "after",
                                        "judged_float", "judged_before", "judged_after"};
    if (!isfinite(figures[0]))
        return;
    print_out(",\"%s\":{\"float\":%.9g", key, figures[0]);
    for (int i = 1; i < 6; i++)
        put_member(names[i], figures[i]);
    print_out("}");
}

static const char *judged_name(enum tmk_judged judged) {
    return judged == TMK_JUDGED_CROSSED ? "crossed" : judged == TMK_JUDGED_APART ? "data" : "not";
}

static void put_json(const struct tmk_search_result *r) {
    const bool judged = r->judged != TMK_JUDGED_NOT;
    const struct tmk_search_quality none = {NAN, NAN, NAN, NAN},
                                    *q[] = {&r->in_float,
                                            &r->before,
                                            &r->after,
                                            judged ? &r->judged_float : &none,
                                            judged ? &r->judged_before : &none,
                                            judged ? &r->judged_after : &none};
    double accuracy[6], metric[6];
    for (int i = 0; i < 6; i++) {
        accuracy[i] = q[i]->accuracy;
        metric[i] = q[i]->metric;
    }
    print_out("{\"samples\":%llu,\"from\":%llu,\"judged\":%llu,\"judged_from\":%llu,"
              "\"judged_by\":\"%s\"",
              (unsigned long long)r->samples, (unsigned long long)r->from,
              (unsigned long long)r->judged_samples, (unsigned long long)r->judged_from,
              judged_name(r->judged));
    print_out(",\"tried\":%u,\"chosen\":%u,\"out_of_time\":%s", r->tried, r->chosen,
              r->out_of_time ? "true" : "false");
    put_member("before", r->before.sqnr);
    put_member("after", r->after.sqnr);
    put_member("judged_before", q[4]->sqnr);
    put_member("judged_after", q[5]->sqnr);
    put_measure("accuracy", accuracy);
    put_measure("metric", metric);
    if (isfinite(q[5]->margin))
        put_member("accuracy_margin", q[5]->margin);
    print_out(",\"points\":[");
    for (uint32_t i = 0; i < r->n_points; i++) {
        const struct tmk_search_point *p = &r->points[i];
        print_out("%s{\"bytes\":%.0f,\"share8\":%.6g,\"front\":%s", i ? "," : "", p->bytes,
                  p->share8, is_beaten(r, i) ? "false" : "true");
        put_member("sqnr", p->sqnr);
        if (isfinite(p->judged))
            put_member("judged", p->judged);
        print_out("}");
    }
    print_out("]}\n");
}

static void put_front(const struct tmk_search_result *r) {
    const bool metric = isfinite(r->in_float.metric), judged = isfinite(r->points[0].judged);
    const struct table_column columns[] = {{"outputs' dB", 12, .right = true},
                                           {"weights, bytes", 15, .right = true},
                                           {"8-bit products", 15, .right = true},
                                           {metric ? "metric" : "accuracy", 12, .right = true}};
    struct table table;
    table_begin(&table, columns, judged ? 4 : 3);
    for (uint32_t i = 0; i < r->n_points; i++) {
        const struct tmk_search_point *p = &r->points[i];
        char sqnr[CELL] = "no change", bytes[CELL], share[CELL], by[CELL];
        const char *const cells[] = {sqnr, bytes, share, by};
        if (is_beaten(r, i))
            continue;
        if (isfinite(p->sqnr))
            snprintf(sqnr, CELL, "%.2f", p->sqnr);
        snprintf(bytes, CELL, "%.0f", p->bytes);
        snprintf(share, CELL, "%.1f%%", 100 * p->share8);
        snprintf(by, CELL, metric ? "%.6g" : "%.2f%%", metric ? p->judged : 100 * p->judged);
        table_row(&table, cells, HUE_NONE);
    }
}

static void put_quality(const struct tmk_search_quality *in_float,
                        const struct tmk_search_quality *before,
                        const struct tmk_search_quality *after) {
    print_out("  outputs: %.2f dB before, %.2f dB after\n", before->sqnr, after->sqnr);
    if (isfinite(after->accuracy))
        print_out("  accuracy: %.2f%% before, %.2f%% after, %.2f%% in float; after less float "
                  "%+.2f, 95%% within %.2f\n",
                  100 * before->accuracy, 100 * after->accuracy, 100 * in_float->accuracy,
                  100 * (after->accuracy - in_float->accuracy), 100 * after->margin);
    if (isfinite(after->metric))
        print_out("  metric: %.6g before, %.6g after, %.6g in float\n", before->metric,
                  after->metric, in_float->metric);
}

static void put_result(const struct tmk_search_result *r, const struct search_args *args) {
    const unsigned long long from = r->from, n = r->samples;
    put_front(r);
    if (args->data.n)
        print_out("chosen by %llu samples of --search-data", n);
    else
        print_out("chosen by %llu samples of --data, from %llu", n, from);
    print_out("; %u tried, %u chosen%s:\n", r->tried, r->chosen,
              r->out_of_time ? ", out of time" : "");
    put_quality(&r->in_float, &r->before, &r->after);
    if (r->judged == TMK_JUDGED_NOT) {
        print_out("on others: not judged, too few samples to leave any out\n");
        return;
    }
    if (r->judged == TMK_JUDGED_APART)
        print_out("on %llu other samples of --data, from %llu:\n",
                  (unsigned long long)r->judged_samples, (unsigned long long)r->judged_from);
    else
        print_out("cross-validated, 2 folds: samples before %llu, and the others:\n",
                  (unsigned long long)r->split);
    put_quality(&r->judged_float, &r->judged_before, &r->judged_after);
}

/* ---- searching ---- */

/* ---- --metric-command ---- */

/* A metric that another program computes: it reads the outputs as .npy, one behind the other, and
 * prints one number. */
struct metric_command {
    const char *text; /* for the shell */
    double seconds;
};

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

static enum tmk_status run_metric(void *context, const struct tmk_metric_outputs *outputs,
                                  double *out, struct tmk_diag *diag) {
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

/* ---- the search ---- */

enum tmk_status search_encodings(struct tmk_model *model, const struct tmk_encodings *encodings,
                                 const struct tmk_target *target, const struct tmk_run_options *run,
                                 const struct search_args *args, struct tmk_diag *diag) {
    struct metric_command metric = {args->metric,
                                    args->metric_seconds > 0 ? args->metric_seconds : 600};
    struct tmk_search_options options = {.config = args->config,
                                         .target = target,
                                         .budget = args->tries,
                                         .seconds = args->seconds,
                                         .goal = args->goal_kind,
                                         .goal_value = args->goal_value,
                                         .labels = args->labels,
                                         .search_data = args->data.items,
                                         .n_search_data = args->data.n,
                                         .write_config = args->write_config,
                                         .report = hear_remark};
    struct tmk_profile *profile = NULL;
    struct tmk_encodings *better = NULL;
    struct tmk_search_result result;
    if (args->metric)
        options.metric = (struct tmk_search_metric){run_metric, &metric};
    enum tmk_status status = tmk_can_write(args->output, "json", diag);
    if (status == TMK_OK && args->write_config)
        status = tmk_can_write(args->write_config, "json yaml yml", diag);
    if (status == TMK_OK)
        status = tmk_profile_read(args->profile, &profile, diag);
    options.profile = profile;
    if (status == TMK_OK)
        status = tmk_model_search(model, encodings, run, &options, &better, &result, diag);
    if (status == TMK_OK)
        status = tmk_encodings_write(better, args->output, diag);
    end_progress();
    if (status == TMK_OK) {
        if (args->json)
            put_json(&result);
        else if (!is_quiet())
            put_result(&result, args);
        print_remark("wrote %s", args->output);
    }
    tmk_encodings_destroy(&better);
    tmk_profile_destroy(&profile);
    return status;
}
