/* SPDX-License-Identifier: Apache-2.0 */
/* What is written, and that it replaces nothing that is read. */
#include "outputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/inputs.h>
#include <tidemark/profile.h>

enum tmk_status write_profiles(const struct tmk_profile *profile, const struct words *files,
                               struct tmk_diag *diag) {
    enum tmk_status status = TMK_OK;
    for (size_t i = 0; i < files->n; i++) {
        enum tmk_status one =
            tmk_profile_write(profile, files->items[i], status == TMK_OK ? diag : NULL);
        status = status == TMK_OK ? one : status;
    }
    return status;
}

static const char standard_output[] = "/dev/stdout";

/* A file that the command line names. */
struct named {
    char option[40];
    const char *path;
    bool output;
};

struct named_files {
    struct named *items;
    size_t n;
};

static bool add_named(struct named_files *files, const struct option_row *row, const char *path) {
    struct named *grown = realloc(files->items, (files->n + 1) * sizeof *grown);
    if (!grown)
        return false;
    files->items = grown;
    struct named *named = &grown[files->n++];
    *named = (struct named){.path = path};
    if (row)
        named->output = row->kind == OPTION_OUTPUT || row->kind == OPTION_OUTPUTS;
    if (!row)
        snprintf(named->option, sizeof named->option, "the argument");
    else if (path == standard_output)
        snprintf(named->option, sizeof named->option, "%s", row->name);
    else if (row->letter)
        snprintf(named->option, sizeof named->option, "-%c", row->letter);
    else
        snprintf(named->option, sizeof named->option, "--%s", row->name);
    return true;
}

static bool add_row(struct named_files *files, const struct option_row *row) {
    bool done = true;
    if (row->kind == OPTION_INPUT || row->kind == OPTION_OUTPUT) {
        const char *path = *(const char **)row->target;
        return !path || add_named(files, row, path);
    }
    if (row->kind == OPTION_INPUTS || row->kind == OPTION_OUTPUTS) {
        const struct words *words = row->target;
        for (size_t i = 0; done && i < words->n; i++)
            done = add_named(files, row, words->items[i]);
    }
    return done;
}

/* Does `source` read the file? It is a path, or FILE:/INSIDE, or "-" for standard input, each with
 * INPUT= before it, perhaps. */
static bool source_reads(const char *source, const char *path) {
    for (const char *from = source, *eq; from; from = eq ? eq + 1 : NULL) {
        eq = strchr(from, '=');
        if (tmk_same_file(strcmp(from, "-") == 0 ? "/dev/stdin" : from, path))
            return true;
        for (const char *colon = from; (colon = strstr(colon, ":/")); colon++) {
            char *file = strndup(from, (size_t)(colon - from));
            const bool same = file && tmk_same_file(file, path);
            free(file);
            if (same)
                return true;
        }
    }
    return false;
}

static bool check_pair(const struct command *command, const struct named *a,
                       const struct named *b) {
    const bool both = a->output && b->output;
    const bool same = both && b->path == standard_output ? false /* -o /dev/stdout */
                      : both                             ? tmk_same_file(a->path, b->path)
                      : a->output                        ? source_reads(b->path, a->path)
                      : b->output                        ? source_reads(a->path, b->path)
                                                         : false;
    if (same)
        wrong_call(command, "%s and %s name the same file, %s; an output replaces no %s", a->option,
                   b->option, a->path, both ? "other output" : "input");
    return !same;
}

bool check_outputs(const struct command *command, const struct option_row *options,
                   const struct words *rest, int *exit_status) {
    struct named_files files = {0};
    const struct option_row stdout_row = {"standard output", 0, OPTION_OUTPUT, NULL, NULL, NULL};
    bool room = add_named(&files, &stdout_row, standard_output), good = true;
    for (const struct option_row *row = options; room && row->name; row++)
        room = add_row(&files, row);
    for (size_t i = 0; room && i < rest->n; i++)
        room = add_named(&files, NULL, rest->items[i]);
    for (size_t i = 0; room && good && i < files.n; i++)
        for (size_t k = 0; good && k < i; k++)
            good = check_pair(command, &files.items[i], &files.items[k]);
    free(files.items);
    if (room && good)
        return true;
    *exit_status = room ? EXIT_WRONG_CALL : out_of_memory();
    return false;
}
