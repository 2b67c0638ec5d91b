/* SPDX-License-Identifier: Apache-2.0 */
/* The options that every command shares which runs a model over data. */
#pragma once

#include <tidemark/session.h>

#include "command.h"

enum { MAX_THREADS = 1024 }; /* that --threads takes */

struct run_args {
    struct words data, dims, feedback;
    uint64_t limit, skip, every, threads, batch, max_iterations;
    const char *params, *image, *bad, *shard, *checkpoint, *checkpoint_every, *reset;
    struct tmk_dim *parsed_dims;
};

#define RUN_DATA_HELP                                                                              \
    "calibration data, one SRC for each input; INPUT=SRC names the input. SRC is FILE.npy, "       \
    "FILE.npz, FILE.h5:/path, FILE.bin (float32 in the input's shape), FILE.jsonl (token ids, a "  \
    "line a sample), a folder of input_N.pb or of such folders (ONNX test sets), a folder of PNG " \
    "and JPEG files (or one, or a FILE.txt that lists them), or - for .npy records on standard "   \
    "input"
#define RUN_IMAGE_HELP                                                                             \
    "how images are prepared: resize=SHORTER or WxH, crop=SIDE or WxH, color=rgb or bgr or grey, " \
    "scale=1/255, mean=R:G:B, std=R:G:B, layout=nchw or nhwc, type=float32 or uint8; joined by "   \
    "commas, applied in this order"

#define RUN_FEEDBACK_HELP                                                                          \
    "output OUT of one step is input IN of the next: states of recurrent models "                  \
    "and caches of decoders; repeat for each. At first IN is its --data, or zeros"
#define RUN_RESET_HELP                                                                             \
    "where a sequence begins and states are reset: never (default), every=N samples, or source: "  \
    "the data's first axis counts sequences, the next their samples; each record of a stream is "  \
    "a sequence"
#define MAX_ITERATIONS_ROW(target)                                                                 \
    {                                                                                              \
        "max-iterations", 0, OPTION_COUNT, "N",                                                    \
            "most runs of loop and branch bodies for one batch, in total "                         \
            "(default: 10000000)",                                                                 \
            &(target)                                                                              \
    }
#define RUN_BATCH_HELP                                                                             \
    "samples a call where the batch is free (default: 1; up to 32 for small models and for "       \
    "models "                                                                                      \
    "with many weights; `tidemark run`: 1)"

/* Rows for an option table. `args` is a struct run_args. */
#define RUN_OPTION_ROWS(args)                                                                        \
    PARAMS_OPTION_ROW((args).params), MAX_ITERATIONS_ROW((args).max_iterations),                     \
        {"data", 'd', OPTION_INPUTS, "SRC", RUN_DATA_HELP, &(args).data},                            \
        {"image", 0, OPTION_TEXT, "SPEC", RUN_IMAGE_HELP, &(args).image},                            \
        {"on-bad-sample",                                                                            \
         0,                                                                                          \
         OPTION_TEXT,                                                                                \
         "WHAT",                                                                                     \
         "stop (default) at a file that cannot be read, or skip it: count and list it",              \
         &(args).bad},                                                                               \
        {"dim", 0, OPTION_TEXTS, "NAME=N", "a free dimension of the model must be N", &(args).dims}, \
        {"feedback", 0, OPTION_TEXTS, "OUT=IN", RUN_FEEDBACK_HELP, &(args).feedback},                \
        {"reset", 0, OPTION_TEXT, "RULE", RUN_RESET_HELP, &(args).reset},                            \
        {"limit", 'n', OPTION_POSITIVE, "N", "at most N samples", &(args).limit},                    \
        {"skip", 0, OPTION_COUNT, "N", "leave out the first N samples", &(args).skip},               \
        {"sample-every",                                                                             \
         0,                                                                                          \
         OPTION_POSITIVE,                                                                            \
         "K",                                                                                        \
         "every K-th sample only (with --batch: every K-th batch)",                                  \
         &(args).every},                                                                             \
        {"threads",      't', OPTION_COUNT, "N", "worker threads (default: all processors)",         \
         &(args).threads},                                                                           \
    {                                                                                                \
        "batch", 'b', OPTION_COUNT, "N", RUN_BATCH_HELP, &(args).batch                               \
    }

/* The library's options, with progress shown; more words of data may be among
 * `rest` from position `from` on. False after an error message, with the exit status. */
bool make_run_options(const struct command *command, struct run_args *args,
                      const struct words *rest, size_t from, struct tmk_run_options *out,
                      int *exit_status);
void finish_run_args(struct run_args *args);
/* Is the word of data, a path or NAME=PATH, standard input? */
bool is_stream(const char *source);
/* False after an error message where the data is a stream: for commands that run it again. */
bool can_read_again(const struct command *command, const struct tmk_data_options *data,
                    int *exit_status);

/* 1/8, as 8; NULL leaves *share as it is. False after an error message: a wrong call. */
bool parse_histogram_share(const struct command *command, const char *word, uint32_t *share);
