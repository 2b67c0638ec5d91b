/* SPDX-License-Identifier: Apache-2.0 */
#include "run_options.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stop.h"

static bool parse_dim(const struct command *command, const char *word, struct tmk_dim *out,
                      int *exit_status) {
    const char *eq = strrchr(word, '=');
    char *end = NULL;
    errno = 0;
    long long value = eq ? strtoll(eq + 1, &end, 10) : 0;
    if (!eq || eq == word || errno || !end || *end || end == eq + 1 || value < 0) {
        *exit_status = wrong_call(command, "--dim takes NAME=N, not '%s'", word);
        return false;
    }
    char *name = strndup(word, (size_t)(eq - word));
    *out = (struct tmk_dim){name, value};
    if (!name)
        *exit_status = out_of_memory();
    return name != NULL;
}

static bool parse_shard(const struct command *command, const char *word, uint32_t *shard,
                        uint32_t *shards) {
    char *slash = NULL, *end = NULL;
    errno = 0;
    unsigned long k = strtoul(word, &slash, 10),
                  n = *slash == '/' ? strtoul(slash + 1, &end, 10) : 0;
    if (errno || !isdigit((unsigned char)word[0]) || !end || !isdigit((unsigned char)slash[1]) ||
        *end || !k || k > n || n > UINT32_MAX) {
        wrong_call(command, "--shard takes K/N, the K-th of N parts, from 1/N to N/N, not '%s'",
                   word);
        return false;
    }
    *shard = (uint32_t)k;
    *shards = (uint32_t)n;
    return true;
}

static bool parse_duration(const struct command *command, const char *word, double *seconds) {
    if (read_duration(word, seconds))
        return true;
    wrong_call(command, "--every takes a time such as 10s, 5m or 1h, not '%s'", word);
    return false;
}

bool is_stream(const char *source) {
    const char *eq = strrchr(source, '=');
    return strcmp(eq ? eq + 1 : source, "-") == 0;
}

/* A terminal gives no .npy records; without this the program would seem to hang. */
static bool stream_is_piped(const struct command *command, const struct words *data) {
    for (size_t i = 0; i < data->n; i++)
        if (is_stream(data->items[i]) && isatty(STDIN_FILENO)) {
            wrong_call(command, "--data - reads .npy records from a pipe, and standard input is a "
                                "terminal");
            return false;
        }
    return true;
}

static void warn_of_fewer_threads(void *context, enum tmk_thread_work work, uint32_t missing,
                                  uint32_t wanted, const char *why) {
    static const char *const what[TMK_N_THREAD_WORKS] = {"that run the model", "that read ahead",
                                                         "that hash the data"};
    static bool reported[TMK_N_THREAD_WORKS]; /* some commands run more than once */
    (void)context;
    if (!reported[work])
        warn_of("%u of %u threads %s could not start (%s); continuing with %u", missing, wanted,
                what[work], why, wanted > missing ? wanted - missing : 1);
    reported[work] = true;
}

static void warn_of_data(void *context, const char *text) {
    enum { MOST = 8, LONGEST = 512 };
    static char reported[MOST][LONGEST]; /* some commands run more than once and repeat messages */
    (void)context;
    for (int i = 0; i < MOST; i++) {
        if (reported[i][0] && strncmp(reported[i], text, LONGEST - 1) == 0)
            return;
        if (!reported[i][0]) {
            snprintf(reported[i], LONGEST, "%s", text);
            break;
        }
    }
    warn_of("%s", text);
}

bool make_run_options(const struct command *command, struct run_args *args,
                      const struct words *rest, size_t from, struct tmk_run_options *out,
                      int *exit_status) {
    *exit_status = EXIT_WRONG_CALL;
    for (size_t i = from; i < rest->n; i++)
        if (!add_word(&args->data, rest->items[i])) {
            *exit_status = out_of_memory();
            return false;
        }
    if (args->threads > MAX_THREADS || args->batch > UINT32_MAX) {
        wrong_call(command, "--threads or --batch is too large");
        return false;
    }
    uint32_t shard = 0, shards = 0;
    if (args->shard && !parse_shard(command, args->shard, &shard, &shards))
        return false;
    double seconds = 0;
    if (args->checkpoint_every && !parse_duration(command, args->checkpoint_every, &seconds))
        return false;
    if (args->checkpoint_every && !args->checkpoint) {
        wrong_call(command, "--every goes with --checkpoint FILE");
        return false;
    }
    if (args->bad && strcmp(args->bad, "stop") != 0 && strcmp(args->bad, "skip") != 0) {
        wrong_call(command, "--on-bad-sample takes stop or skip, not '%s'", args->bad);
        return false;
    }
    if (!stream_is_piped(command, &args->data))
        return false;
    args->parsed_dims = calloc(args->dims.n + 1, sizeof *args->parsed_dims);
    if (!args->parsed_dims) {
        *exit_status = out_of_memory();
        return false;
    }
    for (size_t i = 0; i < args->dims.n; i++)
        if (!parse_dim(command, args->dims.items[i], &args->parsed_dims[i], exit_status))
            return false;
    *out = (struct tmk_run_options){
        .data = {.sources = args->data.items,
                 .n_sources = args->data.n,
                 .dims = args->parsed_dims,
                 .n_dims = args->dims.n,
                 .recurrence = {args->feedback.items, args->feedback.n, args->reset},
                 .limit = args->limit,
                 .skip = args->skip,
                 .every = args->every,
                 .image = args->image,
                 .skip_bad = args->bad && strcmp(args->bad, "skip") == 0,
                 .batch = (uint32_t)args->batch},
        .limits = {.threads = (uint32_t)args->threads, .iterations = args->max_iterations},
        .notices = {.fewer_threads = warn_of_fewer_threads, .remark = warn_of_data},
        .events.progress = is_quiet() ? NULL : show_progress,
        .shard = {shard, shards},
        .checkpoint = {args->checkpoint, seconds}};
    return true;
}

bool can_read_again(const struct command *command, const struct tmk_data_options *data,
                    int *exit_status) {
    for (size_t i = 0; i < data->n_sources; i++)
        if (is_stream(data->sources[i])) {
            wrong_call(command, "the data is read more than once, which a pipe cannot be");
            *exit_status = EXIT_WRONG_CALL;
            return false;
        }
    return true;
}

void finish_run_args(struct run_args *args) {
    for (size_t i = 0; args->parsed_dims && i < args->dims.n; i++)
        free((char *)(uintptr_t)args->parsed_dims[i].name);
    free(args->parsed_dims);
    free(args->data.items);
    free(args->dims.items);
    free(args->feedback.items);
}

bool parse_histogram_share(const struct command *command, const char *word, uint32_t *share) {
    char *end;
    if (!word)
        return true;
    errno = 0;
    const unsigned long n = strncmp(word, "1/", 2) == 0 && isdigit((unsigned char)word[2])
                                ? strtoul(word + 2, &end, 10)
                                : 0;
    if (n == 0 || *end || errno || n > TMK_STATS_MOST_THINNED) {
        wrong_call(command, "--histogram-share takes 1/1 to 1/%d, not '%s'", TMK_STATS_MOST_THINNED,
                   word);
        return false;
    }
    *share = (uint32_t)n;
    return true;
}
