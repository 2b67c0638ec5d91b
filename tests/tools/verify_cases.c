/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests: `tidemark verify -q` of many models in one process, which is what a sanitizer's
 * start and end are paid for once.
 *
 *     verify_cases <CASES
 *
 * Reads a case a line, fields between tabs: rtol, atol, the model, the folder of its test sets.
 * Prints a line for each: nothing where all outputs agree, else what is wrong.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/session.h>

static void print_difference(void *context, const struct tmk_verdict *verdict) {
    (void)context;
    if (!verdict->ok)
        printf("'%s': %s ", verdict->output, verdict->why);
}

static void verify(const char *path, const char *folder, const struct tmk_verify_options *options) {
    struct tmk_diag diag = {0};
    struct tmk_model *model = NULL;
    uint32_t failed = 0;
    enum tmk_status status = tmk_model_open(path, false, &model, &diag);
    if (status == TMK_OK)
        status = tmk_model_verify(model, folder, options, print_difference, NULL, &failed, &diag);
    tmk_model_close(&model);
    printf("%s\n", status == TMK_OK ? "" : diag.text);
    fflush(stdout);
}

int main(void) {
    char *line = NULL;
    size_t size = 0;
    for (ssize_t length; (length = getline(&line, &size, stdin)) > 0;) {
        char *rest = line, *fields[4];
        line[length - 1] = '\0';
        for (int i = 0; i < 4; i++)
            if (!(fields[i] = strsep(&rest, "\t")))
                return 2;
        const struct tmk_verify_options options = {.rtol = strtod(fields[0], NULL),
                                                   .atol = strtod(fields[1], NULL),
                                                   .limits = {.threads = 1}};
        verify(fields[2], fields[3], &options);
    }
    free(line);
    return 0;
}
