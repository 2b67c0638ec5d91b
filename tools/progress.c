/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "command.h"

static struct {
    struct timespec begin;
    bool begun, open;
    uint64_t before; /* samples that an earlier run did */
    int milestone;   /* tenths told so far */
} line;

static double seconds_since(const struct timespec *begin) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)(t.tv_sec - begin->tv_sec) + (double)(t.tv_nsec - begin->tv_nsec) * 1e-9;
}

void show_progress(void *context, uint64_t samples_done, uint64_t total) {
    (void)context;
    if (is_quiet())
        return;
    if (!line.begun) {
        clock_gettime(CLOCK_MONOTONIC, &line.begin);
        line.begun = true;
        line.before = samples_done;
        return;
    }
    double seconds = seconds_since(&line.begin);
    double rate = seconds > 0 ? (double)(samples_done - line.before) / seconds : 0;
    unsigned long long done = samples_done, all = total;
    if (isatty(STDERR_FILENO)) {
        double left = rate > 0 && total ? (double)(total - samples_done) / rate : 0;
        fprintf(stderr, "\r%llu of %llu samples, %.1f a second, %.0f s left   ", done, all, rate,
                left);
        line.open = true;
    } else if (total && (int)(samples_done * 10 / total) > line.milestone) {
        line.milestone = (int)(samples_done * 10 / total);
        fprintf(stderr, "%llu of %llu samples, %.1f a second\n", done, all, rate);
    }
}

void end_progress(void) {
    if (line.open)
        fputs("\r\033[K", stderr);
    line.open = false;
}
