/* SPDX-License-Identifier: Apache-2.0 */
/* The options that every command shares which runs a model over data. */
#ifndef TMK_TOOLS_RUN_OPTIONS_H
#define TMK_TOOLS_RUN_OPTIONS_H

#include <tidemark/session.h>

#include "command.h"

struct run_args {
    struct words data, dims;
    uint64_t limit, threads, batch;
    struct tmk_dim *parsed_dims;
};

/* Rows for an option table. `args` is a struct run_args. */
#define RUN_OPTION_ROWS(args)                                                                        \
    {"data",                                                                                         \
     'd',                                                                                            \
     OPTION_TEXTS,                                                                                   \
     "SRC",                                                                                          \
     "calibration data: .npy, .npz or a folder of ONNX test sets; INPUT=SRC binds it",               \
     &(args).data},                                                                                  \
        {"dim", 0, OPTION_TEXTS, "NAME=N", "a free dimension of the model must be N", &(args).dims}, \
        {"limit", 'n', OPTION_COUNT, "N", "at most N samples", &(args).limit},                       \
        {"threads",      't', OPTION_COUNT, "N", "worker threads (default: all processors)",         \
         &(args).threads},                                                                           \
    {                                                                                                \
        "batch", 'b', OPTION_COUNT, "N", "samples a call where the batch is free (default: 1)",      \
            &(args).batch                                                                            \
    }

/* The options as the library wants them, with progress shown; more words of data may stand among
 * `rest` from position `from` on. False after saying what is wrong (exit status 2). */
bool make_run_options(const struct command *command, struct run_args *args,
                      const struct words *rest, size_t from, struct tmk_run_options *out);
void finish_run_args(struct run_args *args);

#endif
