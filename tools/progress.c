/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "memory.h"

enum { REDRAW_MS = 100 };

static struct {
    struct timespec begin, drawn;
    bool begun;
    atomic_bool open;
    uint64_t before;    /* samples that an earlier run did */
    uint64_t milestone; /* the last one told: a fraction of the total, or samples */
} line;

static double seconds_since(const struct timespec *begin) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)(t.tv_sec - begin->tv_sec) + (double)(t.tv_nsec - begin->tv_nsec) * 1e-9;
}

double seconds_left(const struct figures *f) {
    return f->rate > 0 && f->total > f->samples ? (double)(f->total - f->samples) / f->rate : 0;
}

/* "1 h 05 min", "2 min 10 s", "7 s". */
static const char *duration(double seconds, char text[32]) {
    unsigned long long s = seconds < 1e9 ? (unsigned long long)(seconds + 0.5) : 1000000000;
    if (s >= 3600)
        snprintf(text, 32, "%llu h %02llu min", s / 3600, s / 60 % 60);
    else if (s >= 60)
        snprintf(text, 32, "%llu min %02llu s", s / 60, s % 60);
    else
        snprintf(text, 32, "%llu s", s);
    return text;
}

/* "300 of 1797 samples, 150.2 a second, 10 s left, peak 61 MiB". */
static const char *describe(const struct figures *f, char *text, size_t size) {
    char of[32] = "", left[64] = "", time[32];
    if (f->total)
        snprintf(of, sizeof of, " of %llu", (unsigned long long)f->total);
    if (f->total && f->rate > 0)
        snprintf(left, sizeof left, ", %s left", duration(seconds_left(f), time));
    snprintf(text, size, "%llu%s samples, %.1f a second%s, peak %.0f MiB",
             (unsigned long long)f->samples, of, f->rate, left, (double)f->peak_bytes / (1 << 20));
    return text;
}

/* Is it time for another line? Then that is noted. */
static bool is_milestone(uint64_t samples, uint64_t total) {
    const uint64_t parts = logs_json() ? 100 : 10;
    uint64_t reached =
        total ? (uint64_t)((double)samples / (double)total * (double)parts) : samples;
    bool is = total ? reached > line.milestone : reached && reached / 2 >= line.milestone;
    if (is)
        line.milestone = reached;
    return is;
}

static struct figures figures_now(uint64_t samples, uint64_t total) {
    double seconds = seconds_since(&line.begin);
    return (struct figures){
        samples, total, seconds > 0 ? (double)(samples - line.before) / seconds : 0, peak_bytes()};
}

void show_progress(void *context, uint64_t samples_done, uint64_t total) {
    (void)context;
    char text[160];
    if (is_quiet())
        return;
    if (!line.begun) {
        clock_gettime(CLOCK_MONOTONIC, &line.begin);
        line.begun = true;
        line.before = samples_done;
        return;
    }
    if (!logs_json() && isatty(STDERR_FILENO)) {
        if (seconds_since(&line.drawn) * 1000 < REDRAW_MS)
            return;
        clock_gettime(CLOCK_MONOTONIC, &line.drawn);
        const struct figures figures = figures_now(samples_done, total);
        fprintf(stderr, "\r%s\033[K", describe(&figures, text, sizeof text));
        fflush(stderr);
        line.open = true;
    } else if (is_milestone(samples_done, total)) {
        const struct figures figures = figures_now(samples_done, total);
        say(LEVEL_INFO, "progress", &figures, "%s", describe(&figures, text, sizeof text));
    }
}

static const char erase[] = "\r\033[K";

void end_progress(void) {
    if (line.open)
        fputs(erase, stderr);
    line.open = false;
}

void drop_progress(void) {
    if (line.open)
        (void)!write(STDERR_FILENO, erase, sizeof erase - 1);
}
