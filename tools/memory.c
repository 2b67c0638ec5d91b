/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool parse_size(const struct command *command, const char *option, const char *word,
                uint64_t *out) {
    static const char units[] = "KMGT";
    *out = 0;
    if (!word)
        return true;
    char *end;
    double value = isdigit((unsigned char)*word) ? strtod(word, &end) : -1;
    const char *unit = value >= 0 && *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (unit) {
        value = ldexp(value, 10 * (int)(unit - units + 1));
        end += strcasecmp(end + 1, "ib") == 0 ? 3 : strcasecmp(end + 1, "b") == 0 ? 2 : 1;
    }
    if (!(value >= 1) || value >= 0x1p63 || *end) {
        wrong_call(command, "%s wants a size such as 400M or 2G, not '%s'", option, word);
        return false;
    }
    *out = (uint64_t)value;
    return true;
}

static void print_row(const char *what, uint64_t bytes, uint32_t times) {
    double mib = (double)bytes / (1 << 20);
    if (times)
        printf("  %-52s %10.1f MiB x %u\n", what, mib, times);
    else
        printf("  %-52s %10.1f MiB\n", what, mib);
}

void print_memory_plan(const struct tmk_memory_plan *plan) {
    printf("%u worker%s, batches of %llu (%s)\n", plan->threads, plan->threads == 1 ? "" : "s",
           (unsigned long long)plan->batch, plan->batch_why);
    print_row("the program, its libraries, the graph with its weights", plan->program, 0);
    print_row("weights that are read from the file as they lie", plan->model, 0);
    print_row("weights as the kernels want them, computed constants", plan->packed, 0);
    print_row("statistics of constants, an estimate", plan->constants, 0);
    print_row("activations", plan->worker, plan->threads);
    print_row("statistics of activations, an estimate", plan->statistics, plan->threads);
    print_row("batches read ahead", plan->read_ahead, plan->threads);
    if (plan->whole)
        print_row("statistics of all strata together, an estimate", plan->whole, 0);
    if (plan->per_sample)
        print_row("extremes of each sample", plan->per_sample, 0);
    print_row("expected in all", plan->total, 0);
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
