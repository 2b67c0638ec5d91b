/* SPDX-License-Identifier: Apache-2.0 */
/* `simulate --search`. */
#pragma once

#include <tidemark/simulate.h>

#include "command.h"

struct search_args {
    bool on;
    const char *profile, *config, *output, *write_config; /* files */
    const char *goal, *budget, *metric;                   /* as they were given */
    double metric_seconds;
    struct words data;
    /* Of other options. */
    const char *labels;
    bool json;
    /* What the texts mean; set by check_search. */
    enum tmk_goal goal_kind;
    double goal_value, seconds;
    uint32_t tries;
};

#define SEARCH_OPTION_ROWS(args)                                                                   \
    {"search",                                                                                     \
     0,                                                                                            \
     OPTION_FLAG,                                                                                  \
     NULL,                                                                                         \
     "instead: try other methods, 16 bits and float, by groups, then by values, and write "        \
     "better encodings to -o; on --limit (32) samples. With --labels by the accuracy",             \
     &(args).on},                                                                                  \
        {"profile",      0, OPTION_INPUT, "FILE", "--search: that the encodings were made of",     \
         &(args).profile},                                                                         \
        {"config", 0, OPTION_INPUT, "FILE", "--search: that they were made with", &(args).config}, \
        {"budget",                                                                                 \
         0,                                                                                        \
         OPTION_TEXT,                                                                              \
         "N",                                                                                      \
         "--search: try at most N encodings (128), or for so long: 60s; or both: 128,60s",         \
         &(args).budget},                                                                          \
        {"search-data",                                                                            \
         0,                                                                                        \
         OPTION_INPUTS,                                                                            \
         "SRC",                                                                                    \
         "--search: samples that choices are made by; --data is then for the verdict only "        \
         "(default: each half of the samples judges a search that had the other)",                 \
         &(args).data},                                                                            \
        {"goal",                                                                                   \
         0,                                                                                        \
         OPTION_TEXT,                                                                              \
         "GOAL",                                                                                   \
         "--search: end at so many decibels of the outputs (30dB), or where at most so many "      \
         "points of accuracy (accuracy-0.5%) or percent of the metric (metric-1%) are lost to "    \
         "float32",                                                                                \
         &(args).goal},                                                                            \
        {"metric-command",                                                                         \
         0,                                                                                        \
         OPTION_TEXT,                                                                              \
         "CMD",                                                                                    \
         "--search: by the number that CMD prints for each candidate, larger is better; it reads " \
         "the outputs of all samples as .npy, one behind the other",                               \
         &(args).metric},                                                                          \
        {"metric-timeout",      0, OPTION_REAL, "SECONDS", "--search: of each call of CMD (600)",  \
         &(args).metric_seconds},                                                                  \
        {"write-config",                                                                           \
         0,                                                                                        \
         OPTION_OUTPUT,                                                                            \
         "FILE",                                                                                   \
         "--search: the config with which `calibrate` makes the result",                           \
         &(args).write_config},                                                                    \
    {                                                                                              \
        "output", 'o', OPTION_OUTPUT, "FILE", "--search: where to write them", &(args).output      \
    }

/* Reads the texts; false after an error message. */
bool check_search(const struct command *command, struct search_args *args);
enum tmk_status search_encodings(struct tmk_model *model, const struct tmk_encodings *encodings,
                                 const struct tmk_target *target, const struct tmk_run_options *run,
                                 const struct search_args *args, struct tmk_diag *diag);
