/* SPDX-License-Identifier: Apache-2.0 */
#include "run_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 1024 };

static bool parse_dim(const struct command *command, const char *word, struct tmk_dim *out) {
    const char *eq = strrchr(word, '=');
    char *end = NULL;
    errno = 0;
    long long value = eq ? strtoll(eq + 1, &end, 10) : 0;
    if (!eq || eq == word || errno || !end || *end || end == eq + 1 || value <= 0) {
        wrong_call(command, "--dim wants NAME=N, not '%s'", word);
        return false;
    }
    char *name = strndup(word, (size_t)(eq - word));
    *out = (struct tmk_dim){name, value};
    return name != NULL;
}

bool make_run_options(const struct command *command, struct run_args *args,
                      const struct words *rest, size_t from, struct tmk_run_options *out) {
    for (size_t i = from; i < rest->n; i++)
        if (!add_word(&args->data, rest->items[i]))
            return false;
    if (args->threads > MOST_THREADS || args->batch > UINT32_MAX) {
        wrong_call(command, "--threads and --batch must be reasonable numbers");
        return false;
    }
    args->parsed_dims = calloc(args->dims.n + 1, sizeof *args->parsed_dims);
    if (!args->parsed_dims)
        return false;
    for (size_t i = 0; i < args->dims.n; i++)
        if (!parse_dim(command, args->dims.items[i], &args->parsed_dims[i]))
            return false;
    *out = (struct tmk_run_options){.data = args->data.items,
                                    .n_data = args->data.n,
                                    .dims = args->parsed_dims,
                                    .n_dims = args->dims.n,
                                    .limit = args->limit,
                                    .threads = (uint32_t)args->threads,
                                    .batch = (uint32_t)args->batch,
                                    .progress = is_quiet() ? NULL : show_progress};
    return true;
}

void finish_run_args(struct run_args *args) {
    for (size_t i = 0; args->parsed_dims && i < args->dims.n; i++)
        free((char *)(uintptr_t)args->parsed_dims[i].name);
    free(args->parsed_dims);
    free(args->data.items);
    free(args->dims.items);
}
