/* SPDX-License-Identifier: Apache-2.0 */
/* Several graphs over the same batches, side by side, and what sets their values unlike. */
#ifndef TMK_SESSION_BESIDE_H
#define TMK_SESSION_BESIDE_H

#include <tidemark/encodings.h>
#include <tidemark/session.h>

#include "exec/worker.h"
#include "graph/graph.h"

/* A value of one of the graphs (lanes). */
struct tmk_beside_value {
    uint32_t lane;
    struct tmk_value *value;
    const struct tmk_encoding *encoding; /* of its codes; NULL: numbers as they are */
};

/* What was seen of a pair's elements. Zero-initialised is nothing. */
struct tmk_unlike {
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

struct tmk_pair {
    struct tmk_beside_value left, right;
    struct tmk_unlike unlike;
};

/* Adds a pair's tensors, whatever they are: only float numbers and codes are compared. Types are
 * known only here, since a model need not declare them. */
void tmk_unlike_add(struct tmk_unlike *sum, const struct tmk_tensor *left,
                    const struct tmk_encoding *left_encoding, const struct tmk_tensor *right,
                    const struct tmk_encoding *right_encoding);
/* Adds sums of what came later. */
void tmk_unlike_merge(struct tmk_unlike *sum, const struct tmk_unlike *more);
double tmk_unlike_sqnr(const struct tmk_unlike *unlike);
double tmk_unlike_cosine(const struct tmk_unlike *unlike);

struct tmk_beside {
    const char *path; /* of the model, for what is said of batches and for limits; or NULL */
    struct tmk_graph **lanes; /* bound, with the same inputs; values of pairs become outputs */
    uint32_t n_lanes;
    struct tmk_pair *pairs;
    uint32_t n_pairs;
    /* Called after each batch, by several threads, and then `merge`, in the order of the batches,
     * by one thread at a time with what `look` answered. NULL: never. */
    enum tmk_status (*look)(void *context, uint64_t sample, uint64_t samples,
                            struct tmk_worker *const *workers, void *seen, struct tmk_diag *diag);
    enum tmk_status (*merge)(void *context, struct tmk_worker *const *workers, const void *seen,
                             struct tmk_diag *diag);
    size_t seen_bytes; /* of *seen, which is zeroed */
    void *context;
    uint64_t samples; /* that ran */
    bool slices;      /* as tmk_feed_plan has it; known once `look` or `merge` is called */
};

/* Runs all batches; pairs' sums are added to. */
TMK_NODISCARD enum tmk_status tmk_beside_run(struct tmk_beside *beside,
                                             const struct tmk_run_options *options,
                                             struct tmk_diag *diag);

#endif
