/* SPDX-License-Identifier: Apache-2.0 */
#include "strata.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/inputs.h>

#include "stop.h"

enum { MAX_REPORTED = 20 };

static enum tmk_status fail_with(struct tmk_diag *diag, enum tmk_status status, const char *text) {
    diag->status = status;
    snprintf(diag->text, sizeof diag->text, "%s", text);
    return status;
}

static bool is_plain(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           strchr("._-+", c) || (unsigned char)c >= 0x80;
}

/* "dir/out.json" of the stratum "a/b" is "dir/out.a%2Fb.json": different labels, different names.
 * NULL when memory ran out. */
static char *file_of(const char *output, const char *label) {
    const char *slash = strrchr(output, '/'), *dot = strrchr(slash ? slash : output, '.');
    size_t stem = dot ? (size_t)(dot - output) : strlen(output);
    char *name = malloc(strlen(output) + 3 * strlen(label) + 2), *to = name;
    if (!name)
        return NULL;
    memcpy(to, output, stem);
    to += stem;
    *to++ = '.';
    for (; *label; label++) {
        if (is_plain(*label))
            *to++ = *label;
        else
            to += sprintf(to, "%%%02X", (unsigned char)*label);
    }
    strcpy(to, output + stem);
    return name;
}

static enum tmk_status check_file(const char *file, const char *label, const struct words *outputs,
                                  const char *checkpoint, struct tmk_diag *diag) {
    const char *same = tmk_same_file(checkpoint, file) ? "--checkpoint" : NULL;
    char text[512];
    for (size_t i = 0; i < outputs->n; i++)
        if (tmk_same_file(outputs->items[i], file))
            same = "-o";
    if (!same)
        return tmk_profile_can_write(file, diag);
    snprintf(text, sizeof text, "%s names %s, where the profile of the stratum '%s' goes", same,
             file, label);
    return fail_with(diag, TMK_ARGUMENT, text);
}

typedef enum tmk_status each_file(struct strata *strata, const char *file, const char *label,
                                  const void *context, struct tmk_diag *diag);

static enum tmk_status for_each_file(struct strata *strata, const char *label, each_file *call,
                                     const void *context, struct tmk_diag *diag) {
    enum tmk_status status = TMK_OK;
    for (size_t i = 0; status == TMK_OK && i < strata->outputs->n; i++) {
        char *file = file_of(strata->outputs->items[i], label);
        status = file ? call(strata, file, label, context, diag)
                      : fail_with(diag, TMK_NOMEM, "out of memory");
        free(file);
    }
    return status;
}

static enum tmk_status check_name(struct strata *strata, const char *file, const char *label,
                                  const void *context, struct tmk_diag *diag) {
    return check_file(file, label, strata->outputs, context, diag);
}

static enum tmk_status write_file(struct strata *strata, const char *file, const char *label,
                                  const void *context, struct tmk_diag *diag) {
    const struct tmk_profile *profile = context;
    enum tmk_status status = tmk_profile_write(profile, file, diag);
    if (status == TMK_OK && strata->written < MAX_REPORTED)
        print_remark("stratum '%s': %llu sample%s, wrote %s", label,
                     (unsigned long long)profile->ledger.run, profile->ledger.run == 1 ? "" : "s",
                     file);
    return status;
}

/* For tmk_strata_options. */
static enum tmk_status write_stratum(void *context, const char *label,
                                     const struct tmk_profile *profile, struct tmk_diag *diag) {
    struct strata *strata = context;
    end_progress();
    stop_waits_for_files();
    enum tmk_status status = for_each_file(strata, label, write_file, profile, diag);
    if (status == TMK_OK && strata->written++ == MAX_REPORTED)
        print_remark("more strata are written and not listed");
    return status;
}

enum tmk_status open_strata(struct strata *out, const char *path, const struct words *outputs,
                            struct tmk_run_options *options, struct tmk_diag *diag) {
    if (!path)
        return TMK_OK;
    struct strata strata = {.outputs = outputs};
    enum tmk_status status = tmk_strata_read(path, &strata.labels, diag);
    uint32_t n = status == TMK_OK ? tmk_strata_count(strata.labels) : 0;
    for (uint32_t i = 0; status == TMK_OK && i < n; i++)
        status = for_each_file(&strata, tmk_strata_label(strata.labels, i), check_name,
                               options->checkpoint.path, diag);
    if (status != TMK_OK) {
        close_strata(&strata);
        return status;
    }
    *out = strata;
    options->data.strata = strata.labels;
    options->strata = (struct tmk_strata_options){write_stratum, out};
    return TMK_OK;
}

void close_strata(struct strata *strata) {
    tmk_strata_destroy(&strata->labels);
}
