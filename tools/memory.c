/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t asked;

/* The number that a file begins with, of bytes in `unit`; UINT64_MAX where there is none ("max").
 */
static uint64_t number_in(const char *path, uint64_t unit) {
    FILE *file = fopen(path, "re");
    unsigned long long number = 0;
    uint64_t bytes = UINT64_MAX;
    if (file && fscanf(file, "%llu", &number) == 1 && __builtin_mul_overflow(number, unit, &bytes))
        bytes = UINT64_MAX;
    if (file)
        fclose(file);
    return bytes;
}

/* The number behind a word at the start of a line, the same way. */
static uint64_t number_after(const char *path, const char *word, uint64_t unit) {
    FILE *file = fopen(path, "re");
    char line[256];
    uint64_t bytes = UINT64_MAX;
    const size_t len = strlen(word);
    while (file && fgets(line, sizeof line, file)) {
        char *end;
        unsigned long long number =
            strncmp(line, word, len) == 0 ? strtoull(line + len, &end, 10) : 0;
        if (strncmp(line, word, len) == 0 && end != line + len &&
            __builtin_mul_overflow(number, unit, &bytes))
            bytes = UINT64_MAX;
    }
    if (file)
        fclose(file);
    return bytes;
}

/* What a control group leaves: its limit without what it holds, pages of files aside that it would
 * give up. */
static uint64_t left_in_group(const char *folder, const char *limit, const char *usage,
                              const char *inactive) {
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", folder, limit);
    uint64_t most = number_in(path, 1);
    if (most == UINT64_MAX)
        return most;
    snprintf(path, sizeof path, "%s/%s", folder, usage);
    uint64_t used = number_in(path, 1);
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    uint64_t files = number_after(path, inactive, 1);
    if (used == UINT64_MAX)
        used = 0;
    used -= files == UINT64_MAX ? 0 : files < used ? files : used;
    return used < most ? most - used : 0;
}

/* The smallest limit of this group and its ancestors, minus usage. */
static uint64_t left_in_groups(const char *mount, char *group, const char *limit, const char *usage,
                               const char *inactive) {
    uint64_t min = UINT64_MAX;
    for (;;) {
        char folder[4096];
        snprintf(folder, sizeof folder, "%s%s", mount, group);
        uint64_t left = left_in_group(folder, limit, usage, inactive);
        min = left < min ? left : min;
        char *slash = strrchr(group, '/');
        if (!slash)
            return min;
        *slash = '\0';
    }
}

/* "0::/a/b" of version 2, "4:memory:/a/b" of version 1. In a container the path may be the host's:
 * the folders that are not there are skipped, and the last one tried is the mount itself. */
static uint64_t left_in_own_groups(void) {
    FILE *file = fopen("/proc/self/cgroup", "re");
    char line[2048];
    uint64_t min = UINT64_MAX;
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *name = strchr(line, ':'), *group = name ? strchr(name + 1, ':') : NULL;
        uint64_t left = UINT64_MAX;
        if (!group)
            continue;
        *group++ = '\0';
        if (!name[1])
            left = left_in_groups("/sys/fs/cgroup", group, "memory.max", "memory.current",
                                  "inactive_file");
        else if (strcmp(name + 1, "memory") == 0)
            left = left_in_groups("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes",
                                  "memory.usage_in_bytes", "total_inactive_file");
        min = left < min ? left : min;
    }
    if (file)
        fclose(file);
    return min;
}

void limit_memory_to_machine(void) {
    uint64_t machine = number_after("/proc/meminfo", "MemAvailable:", 1024),
             groups = left_in_own_groups(), min = groups < machine ? groups : machine;
    if (min != UINT64_MAX)
        tmk_memory_set_limit(min / 10 * 9 + 1);
}

uint64_t memory_limit_asked(void) {
    return asked;
}

bool limit_memory(const struct command *command, const char *word) {
    static const char units[] = "KMGT";
    char *end;
    double value = isdigit((unsigned char)*word) ? strtod(word, &end) : -1;
    const char *unit = value >= 0 && *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (unit) {
        value = ldexp(value, 10 * (int)(unit - units + 1));
        end += strcasecmp(end + 1, "ib") == 0 ? 3 : strcasecmp(end + 1, "b") == 0 ? 2 : 1;
    }
    if (!(value >= 1) || value >= 0x1p63 || *end) {
        wrong_call(command, "--memory-limit takes a size such as 400M or 2G, not '%s'", word);
        return false;
    }
    asked = (uint64_t)value;
    tmk_memory_set_limit(asked);
    return true;
}

static void print_row(const char *what, uint64_t bytes, uint32_t times) {
    double mib = (double)bytes / (1 << 20);
    if (times)
        print_out("  %-52s %10.1f MiB x %u\n", what, mib, times);
    else
        print_out("  %-52s %10.1f MiB\n", what, mib);
}

/* What the run has besides, when it needs most. */
static void print_moment(const struct tmk_memory_plan *plan) {
    if (plan->moment == TMK_MEMORY_RUNNING) {
        print_row("statistics of activations, an estimate", plan->counting, plan->threads);
        print_row("batches read ahead", plan->read_ahead, plan->threads);
    } else if (plan->moment == TMK_MEMORY_FINISHING) {
        print_row("statistics of activations in the end, an estimate", plan->statistics,
                  plan->threads);
    } else {
        print_row("statistics of activations, added up, an estimate", plan->summed, 0);
        print_row("statistics of constants, an estimate", plan->constants, 0);
        print_row("statistics made of others, an estimate", plan->derived, 0);
        if (plan->writing)
            print_row("writing the profile", plan->writing, 0);
    }
}

void print_memory_plan(const struct tmk_memory_plan *plan) {
    print_out("%u worker%s, batches of %llu (%s)", plan->threads, plan->threads == 1 ? "" : "s",
              (unsigned long long)plan->batch, plan->batch_why);
    if (tmk_memory_limit())
        print_out("; the limit, %s, is %llu MiB", asked ? "as given" : "9/10 of what is free",
                  (unsigned long long)tmk_memory_limit() >> 20);
    print_out("\n");
    if (plan->blocks)
        print_out("layer by layer: %llu block%s, each over %llu batch%s at a time\n",
                  (unsigned long long)plan->blocks, plan->blocks == 1 ? "" : "s",
                  (unsigned long long)plan->together, plan->together == 1 ? "" : "es");
    print_row("program, libraries, graph", plan->program, 0);
    print_row("weights in the mapped file", plan->model, 0);
    print_row("packed weights, computed constants", plan->packed, 0);
    print_row("activations", plan->worker, plan->threads);
    if (plan->blocks)
        print_row("activations between blocks, inputs", plan->kept, 0);
    print_moment(plan);
    if (plan->whole)
        print_row("statistics of all strata together, an estimate", plan->whole, 0);
    if (plan->per_sample)
        print_row("min and max of each sample", plan->per_sample, 0);
    print_row("total, an estimate", plan->total, 0);
}

uint64_t peak_bytes(void) {
    FILE *status = fopen("/proc/self/status", "re");
    char text[256];
    unsigned long long kib = 0;
    while (status && !kib && fgets(text, sizeof text, status))
        if (sscanf(text, "VmHWM: %llu kB", &kib) != 1)
            kib = 0;
    if (status)
        fclose(status);
    return 1024ULL * kib;
}
