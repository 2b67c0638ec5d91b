/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of comparing share. */
#pragma once

#include <tidemark/simulate.h>

#include "exec/worker.h"
#include "export/quantized.h"
#include "session/running.h"

/* ---- classes: classes.c ---- */

/* Right classes, by absolute sample. */
struct tmk_labels {
    int64_t *classes; /* [n][each] */
    uint64_t n, each;
    bool asked; /* for by name: otherwise those that do not fit are passed over */
};
/* What options->labels names, or an array "labels" of the data; *out stays empty where there is
 * none. Finish it whatever the answer. */
enum tmk_status tmk_labels_read(const struct tmk_run_options *run, const char *labels,
                                struct tmk_labels *out, struct tmk_diag *diag);
void tmk_labels_finish(struct tmk_labels *labels);

struct tmk_predictions {
    uint64_t n, agree, labelled, right_left, right_right, one_right; /* of the two */
};
/* Of a batch that begins at `sample`: integers are classes; of floats the class of each position is
 * its largest element along the last axis that is not 1, or along axis 1 where labels fit that.
 * Rows without labels have classes where `made`, the left output, is of a product with weights.
 * TMK_MISMATCH: the labels were asked for, and there are no classes, or labels are fewer than the
 * samples, or not as many a sample as there are positions. */
enum tmk_status tmk_predictions_add(struct tmk_predictions *sum, const struct tmk_labels *labels,
                                    uint64_t sample, uint64_t samples, const struct tmk_value *made,
                                    const struct tmk_tensor *left, const struct tmk_tensor *right,
                                    struct tmk_diag *diag);
void tmk_predictions_merge(struct tmk_predictions *sum, const struct tmk_predictions *more);
/* Intervals of 95 %, as tmk_simulation has them. */
struct tmk_share_interval tmk_predictions_agreement(const struct tmk_predictions *p);
struct tmk_share_interval tmk_predictions_change(const struct tmk_predictions *p);

/* ---- outputs under several encodings: loss.c ---- */

/* Noise of the float outputs: squared error over square, the mean of all outputs. */
struct tmk_loss {
    double noise;            /* of all samples together */
    double of_outputs;       /* the same, of the outputs themselves with `before_softmax`, too */
    double typical, half[2]; /* the geometric mean over batches: of all, of those before `split`,
                                of those from it on */
    uint64_t samples;
    struct tmk_predictions classes[2]; /* by half, where there are labels */
    double metric;                     /* where there is one */
};

/* What candidates are judged by. Zero-initialised but for graph, how and run. */
struct tmk_judge {
    const struct tmk_graph *graph; /* identified */
    const struct tmk_quantize_options *how;
    const struct tmk_run_options *run;
    struct tmk_run_series *series;          /* that its runs belong to; NULL: none */
    uint64_t split;                         /* the sample that the second half begins with */
    const struct tmk_labels *labels;        /* NULL: none */
    const struct tmk_search_metric *metric; /* NULL: none */
    double float_metric;                    /* of the float network, once anything was judged */
    bool float_known;
    /* Where an output is that of a Softmax, what this reads is compared: the noise of probabilities
     * depends most of all on how near each sample is to a threshold. */
    bool before_softmax;
    /* Two candidates are judged as one: the first on the first half, the second on the other. */
    bool crossed;
};
/* Of `n` encodings, each as tmk_quantize_graph has it; crossed: n is 2, and *out the only one. */
enum tmk_status tmk_losses(struct tmk_judge *judge, const struct tmk_encodings *const *encodings,
                           uint32_t n, struct tmk_loss *out, struct tmk_diag *diag);
/* Decibels. */
double tmk_noise_sqnr(double noise);

/* tmk_model_rank, whose runs belong to others'. */
enum tmk_status tmk_rank_within(struct tmk_model *model, const struct tmk_encodings *encodings,
                                const struct tmk_run_options *run, uint32_t most,
                                struct tmk_run_series *series, struct tmk_ranking **out,
                                struct tmk_diag *diag);
