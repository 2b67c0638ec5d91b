/* SPDX-License-Identifier: Apache-2.0 */
/* Several graphs over the same batches, and how far pairs of their values differ. */
#ifndef TMK_COMPARE_COMPARE_H
#define TMK_COMPARE_COMPARE_H

#include <tidemark/encodings.h>
#include <tidemark/session.h>

#include "compare/simulate.h"
#include "graph/graph.h"

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

struct tmk_compared_pair {
    struct tmk_compared_value left, right;
    struct tmk_error_sums errors;
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

struct tmk_comparison {
    struct tmk_graph **graphs; /* bound, with the same inputs; values of pairs become outputs */
    uint32_t n_graphs;
    struct tmk_compared_pair *pairs;
    uint32_t n_pairs;
    const struct tmk_labels *labels;    /* NULL: no predictions are counted */
    struct tmk_predictions predictions; /* by the first outputs of the first two graphs */
    uint64_t samples;                   /* that ran */
};

/* Runs all batches; pairs' sums and the predictions are added to, in the order of the samples. */
TMK_NODISCARD enum tmk_status tmk_compare_run(struct tmk_comparison *comparison,
                                              const struct tmk_run_options *options,
                                              struct tmk_diag *diag);

#endif
