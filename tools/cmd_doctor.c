/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/diff.h>
#include <tidemark/memory.h>
#include <tidemark/session.h>

#include "command.h"

enum { SAMPLES = 64, MAX_SECONDS = 2 };

/* Kernels add in different orders, so float32 results differ in their last digits. */
static const double tolerance = 1e-4;

/* Where the bundle is, what is made of it, and the processor's part. */
struct self_test {
    char model[PATH_MAX], data[PATH_MAX], expected[PATH_MAX];
    double begin; /* by clock_seconds */
    struct tmk_profile *seen, *wanted;
    struct tmk_run_report report;
    struct tmk_costs costs;
    struct tmk_diff *diff;
    const char *worst; /* a value that differs; NULL: none does */
};

static bool is_late(void *context) {
    return clock_seconds() - ((const struct self_test *)context)->begin > MAX_SECONDS;
}

static bool name_file(char out[PATH_MAX], const char *folder, const char *name) {
    return snprintf(out, PATH_MAX, "%s/%s", folder, name) < PATH_MAX;
}

static bool find_files(const char *folder, struct self_test *t) {
    return name_file(t->model, folder, "digits.onnx") && name_file(t->data, folder, "digits.npy") &&
           name_file(t->expected, folder, "digits-profile.json");
}

/* From the folder that the program is in: in a build folder, a wheel, most prefixes; as installed.
 */
static bool find_installed(struct self_test *t) {
    static const char *const places[] = {"../share/tidemark", TMK_INSTALLED_DATA};
    char program[PATH_MAX], folder[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(program, '/');
    if (!slash)
        return false;
    *slash = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const bool named = places[i][0] == '/'
                               ? snprintf(folder, PATH_MAX, "%s", places[i]) < PATH_MAX
                               : name_file(folder, program, places[i]);
        if (named && find_files(folder, t) && access(t->expected, R_OK) == 0)
            return true;
    }
    return false;
}

/* A value that one of the two does not have, or that differs. */
static const char *find_difference(const struct tmk_diff *diff) {
    if (diff->n_only_a || diff->n_only_b)
        return diff->n_only_a ? diff->only_a[0] : diff->only_b[0];
    for (uint32_t i = 0; i < diff->n; i++)
        if (diff->items[i].change[0] ||
            (diff->items[i].ranged && !(diff->items[i].range.share <= tolerance)))
            return diff->items[i].name;
    return NULL;
}

static enum tmk_status run_self_test(struct self_test *t, struct tmk_diag *diag) {
    const char *const sources[] = {t->data};
    const struct tmk_observe observe = {.kind = "range"};
    const struct tmk_run_options run = {
        .data = {.sources = sources, .n_sources = 1, .limit = SAMPLES},
        .events = {.stop = is_late, .context = t}};
    struct tmk_model *model = NULL;
    t->begin = clock_seconds();
    enum tmk_status status = tmk_profile_read(t->expected, &t->wanted, diag);
    if (status == TMK_OK)
        status = tmk_model_open(t->model, false, &model, diag);
    if (status == TMK_OK)
        status = tmk_model_profile(model, &run, &observe, &t->seen, &t->report, diag);
    if (status == TMK_OK)
        status = tmk_model_costs(model, &run, NULL, &t->costs, diag);
    if (status == TMK_OK)
        status = tmk_diff_profiles(t->wanted, t->seen, &t->diff, diag);
    tmk_model_close(&model);
    if (status == TMK_OK)
        t->worst = find_difference(t->diff);
    return status;
}

/* Each kernel that ran, with how many steps it ran. */
static void print_kernels(const struct tmk_costs *costs) {
    print_out("kernels of %zu steps: ", costs->n);
    bool any = false;
    for (size_t i = 0; i < costs->n; i++) {
        size_t steps = 0, before = 0;
        for (size_t k = 0; k < costs->n; k++)
            if (strcmp(costs->steps[k].kernel, costs->steps[i].kernel) == 0) {
                steps++;
                before += k < i;
            }
        if (before)
            continue;
        print_out("%s%s %zu", any ? "; " : "", costs->steps[i].kernel, steps);
        any = true;
    }
    print_out("\n");
}

static void finish_self_test(struct self_test *t) {
    tmk_diff_destroy(&t->diff);
    tmk_costs_finish(&t->costs);
    tmk_profile_destroy(&t->seen);
    tmk_profile_destroy(&t->wanted);
}

static int print_self_test(struct self_test *t) {
    struct tmk_diag diag = {0};
    const enum tmk_status status = run_self_test(t, &diag);
    if (status != TMK_OK)
        return report_error(status, &diag);
    print_out("processor: %s, %u threads\nkernel library: %s\n", t->seen->producer.isa,
              t->report.threads, t->seen->producer.kernels);
    print_kernels(&t->costs);
    if (t->worst)
        print_out("self-test: failed: '%s' has not the expected range\n", t->worst);
    else
        print_out("self-test: passed: %u values over %d samples, in %.2f s\n", t->diff->n, SAMPLES,
                  clock_seconds() - t->begin);
    return t->worst ? EXIT_ANSWER_NO : EXIT_DONE;
}

static void print_facts(void) {
    print_version();
    if (tmk_memory_limit())
        print_out("memory: %.0f MiB for models and data\n", (double)tmk_memory_limit() / (1 << 20));
    else
        print_out("memory: no limit\n");
}

/* Each program that parses untrusted files. false: one cannot be started. */
static bool print_helpers(void) {
    static const char *const reads[] = {"archives", "hdf5", "images"};
    bool all = true;
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
        char text[TMK_CONFINEMENT_SIZE];
        struct tmk_diag diag = {0};
        const enum tmk_status status = tmk_helper_confinement(reads[i], text, &diag);
        if (status == TMK_UNSUPPORTED)
            continue;
        all &= status == TMK_OK;
        print_out("reading %s: %s\n", reads[i], status == TMK_OK ? text : diag.text);
    }
    return all;
}

static int run_doctor(const struct command *command, int argc, char **argv) {
    struct words rest = {0};
    const struct option_row options[] = {{0}};
    struct self_test t = {0};
    int exit_status;
    if (!parse_options(command, options, argc, argv, &rest, &exit_status))
        goto end;
    if (rest.n > 1) {
        exit_status = wrong_call(command, "it takes one FOLDER at most");
        goto end;
    }
    print_facts();
    const bool helped = print_helpers();
    exit_status = EXIT_DONE;
    if (rest.n ? find_files(rest.items[0], &t) : find_installed(&t))
        exit_status = print_self_test(&t);
    else
        print_out("self-test: skipped: its files are not installed\n");
    finish_self_test(&t);
    if (exit_status == EXIT_DONE && !helped)
        exit_status = EXIT_ANSWER_NO;
end:
    free(rest.items);
    return exit_status;
}

const struct command command_doctor = {
    "doctor",
    "print what is built in and check that it works",
    "[FOLDER]",
    "Prints the version, the optional parts, the memory limit, what holds the programs that read\n"
    "HDF5 and images, the processor and the kernels that run on it. Then profiles a small network\n"
    "and compares the ranges with the expected ones, in less than 2 seconds. FOLDER has\n"
    "digits.onnx, digits.npy and digits-profile.json (default: as installed). Exit status 1: a\n"
    "range differs, or such a program cannot be started.",
    "tidemark doctor",
    run_doctor,
};
