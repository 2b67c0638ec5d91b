/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "memory.h"
#include "table.h"

/* Seconds from one to the next: a line that is rewritten, an object of JSON, a plain line. */
static const double redraw = 0.1, json_interval = 1, plain_interval = 10;

static struct {
    double begin, reported;
    bool begun;
    atomic_bool open;
    uint64_t before; /* samples that an earlier run did */
} line;

double clock_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double seconds_left(const struct figures *f) {
    return f->rate > 0 && f->total > f->samples ? (double)(f->total - f->samples) / f->rate : 0;
}

/* "1 h 05 min", "2 min 10 s", "7 s". */
static const char *format_duration(double seconds, char text[32]) {
    unsigned long long s = seconds < 1e9 ? (unsigned long long)(seconds + 0.5) : 1000000000;
    if (s >= 3600)
        snprintf(text, 32, "%llu h %02llu min", s / 3600, s / 60 % 60);
    else if (s >= 60)
        snprintf(text, 32, "%llu min %02llu s", s / 60, s % 60);
    else
        snprintf(text, 32, "%llu s", s);
    return text;
}

/* "300 of 1797 samples, 150.2 a second, 10 s left, peak 61 MiB"; "12.5 s a sample" where that is
 * slow, and nothing of it before the first. */
static const char *describe_progress(const struct figures *f, char *text, size_t size) {
    char of[32] = "", rate[64] = "", left[64] = "", time[32];
    if (f->total)
        snprintf(of, sizeof of, " of %llu", (unsigned long long)f->total);
    if (f->rate >= 1)
        snprintf(rate, sizeof rate, ", %.1f a second", f->rate);
    else if (f->rate > 0)
        snprintf(rate, sizeof rate, ", %.1f s a sample", 1 / f->rate);
    if (f->total && f->rate > 0)
        snprintf(left, sizeof left, ", %s left", format_duration(seconds_left(f), time));
    snprintf(text, size, "%llu%s samples%s%s, peak %.0f MiB", (unsigned long long)f->samples, of,
             rate, left, (double)f->peak_bytes / (1 << 20));
    return text;
}

static struct figures figures_now(uint64_t samples, uint64_t total) {
    double seconds = clock_seconds() - line.begin;
    return (struct figures){
        samples, total, seconds > 0 ? (double)(samples - line.before) / seconds : 0, peak_bytes()};
}

void show_progress(void *context, uint64_t samples_done, uint64_t total) {
    (void)context;
    char text[160];
    const bool rewrites = !logs_json() && takes_escapes(STDERR_FILENO);
    if (is_quiet())
        return;
    if (!line.begun) {
        line.begin = clock_seconds();
        line.begun = true;
        line.before = samples_done;
        if (!rewrites)
            line.reported = line.begin;
        return;
    }
    if (clock_seconds() - line.reported < (rewrites      ? redraw
                                           : logs_json() ? json_interval
                                                         : plain_interval))
        return;
    line.reported = clock_seconds();
    const struct figures figures = figures_now(samples_done, total);
    describe_progress(&figures, text, sizeof text);
    if (!rewrites) {
        print_event(LEVEL_INFO, "progress", &figures, "%s", text);
        return;
    }
    const int width = terminal_width(STDERR_FILENO);
    if ((size_t)width <= strlen(text)) /* what is broken into two lines cannot be rewritten */
        text[width - 1] = '\0';
    flockfile(stderr);
    fprintf(stderr, "\r%s\033[K", text);
    fflush(stderr);
    line.open = true;
    funlockfile(stderr);
}

static const char erase[] = "\r\033[K";

void end_progress(void) {
    flockfile(stderr);
    if (line.open) {
        fputs(erase, stderr);
        fflush(stderr); /* it ends no line, and the next thing may go to stdout */
    }
    line.open = false;
    funlockfile(stderr);
}

void drop_progress(void) {
    if (line.open)
        (void)!write(STDERR_FILENO, erase, sizeof erase - 1);
}
