/* SPDX-License-Identifier: Apache-2.0 */
/* Several graphs over the same batches, and how far pairs of their values differ. */
#pragma once

#include <tidemark/encodings.h>
#include <tidemark/session.h>

#include "compare/simulate.h"
#include "graph/graph.h"
#include "session/partials.h"

/* A value of one of the graphs. */
struct tmk_compared_value {
    uint32_t graph;
    struct tmk_value *value;
    const struct tmk_encoding *encoding; /* of its codes; NULL: numbers as they are */
};

/* What was seen of a pair's elements. Zero-initialised is nothing. */
struct tmk_error_sums {
    bool numbers;                /* both were float numbers, or codes with an encoding */
    uint64_t reshaped;           /* batches in which the shapes differ: nothing is compared there */
    uint64_t n;                  /* elements that are finite in both */
    double left, right, product; /* sums of squares, and of products */
    double error, most;          /* sum of squared differences, the largest one */
    uint64_t clipped;            /* of the left beyond what the right's codes reach */
    /* Where both are codes: as integers. */
    uint64_t codes, equal;
    int64_t code_error; /* the largest difference */
};

/* Samples before tmk_comparison.split, and from it on. A batch belongs where it begins. */
enum tmk_half { TMK_ALL_SAMPLES, TMK_FIRST_HALF, TMK_SECOND_HALF };

struct tmk_compared_pair {
    struct tmk_compared_value left, right;
    enum tmk_half half;
    struct tmk_error_sums errors;
    double log_noise; /* decadic logarithms of squared error over square of each batch, added up */
    uint64_t batches; /* in these */
};

/* Adds a pair's tensors, whatever they are: only float numbers and codes are compared. Types are
 * known only here, since a model need not declare them. */
void tmk_error_add(struct tmk_error_sums *sum, const struct tmk_tensor *left,
                   const struct tmk_encoding *left_encoding, const struct tmk_tensor *right,
                   const struct tmk_encoding *right_encoding);
/* Adds sums of what came later. */
void tmk_error_merge(struct tmk_error_sums *sum, const struct tmk_error_sums *more);
double tmk_error_sqnr(const struct tmk_error_sums *errors);
double tmk_error_cosine(const struct tmk_error_sums *errors);

/* The classes of a graph's first output against those of the first graph's, and the labels. */
struct tmk_compared_classes {
    uint32_t graph;
    enum tmk_half half;
    struct tmk_predictions sum;
};

/* The outputs of one graph for the first half of the samples, and of one for the second. */
struct tmk_kept_outputs {
    uint32_t graph[2];
    struct tmk_gathered *outputs; /* one an output; end each with tmk_gathered_finish */
};

struct tmk_comparison {
    struct tmk_graph **graphs; /* bound, with the same inputs; values of pairs become outputs */
    uint32_t n_graphs;
    struct tmk_compared_pair *pairs;
    uint32_t n_pairs;
    uint64_t split;                  /* the sample that the second half begins with */
    const struct tmk_labels *labels; /* NULL: no classes are counted */
    struct tmk_compared_classes *classes;
    uint32_t n_classes;
    struct tmk_kept_outputs *kept;
    uint32_t n_kept, n_outputs;    /* of each that are kept */
    bool joined;                   /* what is kept is joined along the first axis; set by the run */
    uint64_t samples;              /* that ran */
    struct tmk_run_series *series; /* that the run belongs to; NULL: none */
};

/* Runs all batches; sums are added to, and outputs appended, in the order of the samples. */
enum tmk_status tmk_compare_run(struct tmk_comparison *comparison,
                                const struct tmk_run_options *options, struct tmk_diag *diag);
