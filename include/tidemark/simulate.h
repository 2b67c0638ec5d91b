/* SPDX-License-Identifier: Apache-2.0 */
/* A network under encodings, run in parallel with the float network over the same data.
 *
 * Results do not depend on the number of threads. One thread at a time for a model. */
#ifndef TIDEMARK_SIMULATE_H
#define TIDEMARK_SIMULATE_H

#include <tidemark/encodings.h>
#include <tidemark/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Zero-initialised is: float operators between quantized values (QDQ). */
struct tmk_simulate_options {
    /* Integers between quantized inputs and dequantized outputs, as far as there are such forms. */
    bool integer;
    enum tmk_rounding rounding; /* with `integer`: of requantizations; FLOAT_RNE: in float */
    bool pow2;                  /* with `integer`: by shifts alone */
    /* A .npy, or the name of an array in an .npz of the data; NULL: "labels", where there is such
     * an array. An entry a sample: the right class, or one a position. */
    const char *labels;
};

/* One value, float against quantized, over all samples. */
struct tmk_simulated {
    uint32_t id;
    const char *name;
    enum tmk_dtype dtype; /* of its codes; TMK_UNDEFINED: it stays float */
    bool output;          /* of the network */
    bool constant;        /* a weight */
    uint64_t elements;    /* that are finite in both */
    double sqnr; /* decibels: 10 log10(mean square / mean squared error); HUGE_VAL: no error */
    double cosine, max_error;
    double clipped; /* share of the float elements beyond the lowest and highest code */
};

/* Of a share, 95 %. */
struct tmk_share_interval {
    double low, high;
};

/* Codes against codes. */
struct tmk_code_difference {
    uint64_t codes, equal;
    int64_t largest;
};

struct tmk_simulation {
    uint64_t samples;
    double seconds;
    struct tmk_simulated *values; /* ascending by id */
    uint32_t n_values;
    /* The largest element of the first output is a class (along its last axis that is not 1, or
     * along axis 1 where labels fit that), or each of its integers. Without labels pictures have
     * none, and several rows a sample neither, unless a product with weights makes them, be it
     * behind Softmax: hidden states are no classes. */
    uint64_t predictions; /* 0: no output is of that kind */
    uint64_t agree;       /* both networks predict the same */
    bool labelled;
    uint64_t right_float, right_quantized;
    struct tmk_share_interval agreement; /* of agree of predictions (Wilson's); 0 to 1 of none */
    /* Of right_quantized less right_float, of predictions that are one sample's each: Newcombe's
     * for pairs; -1 to 1 without labels. */
    struct tmk_share_interval change;
    /* With `integer` and other than float requantization: against that. */
    bool compared;
    struct tmk_code_difference alone; /* each requantization of the same accumulators */
    struct tmk_code_difference whole; /* all codes of the network that requantizes in float */
    const char **remarks;             /* what stays float, and why: a line each */
    uint32_t n_remarks;
    struct tmk_arena *arena; /* where everything lives; not for callers */
};

/* TMK_MISMATCH: the encodings are of another model, or the labels of other data. Feedback is
 * TMK_UNSUPPORTED. End with tmk_simulation_destroy. */
TMK_API enum tmk_status tmk_model_simulate(struct tmk_model *model,
                                           const struct tmk_encodings *encodings,
                                           const struct tmk_run_options *run,
                                           const struct tmk_simulate_options *options,
                                           struct tmk_simulation **out, struct tmk_diag *diag);
/* Frees and sets *simulation to NULL; NULL is allowed. */
TMK_API void tmk_simulation_destroy(struct tmk_simulation **simulation);

/* ---- which value costs most ---- */

/* What it costs to quantize this value and no other. */
struct tmk_sensitivity {
    uint32_t id;
    const char *name;
    enum tmk_dtype dtype;
    double sqnr;     /* decibels, of the network's outputs; HUGE_VAL: they do not change */
    double expected; /* decibels, of the value itself by its histogram; HUGE_VAL: not known */
};

struct tmk_ranking {
    uint64_t samples;
    struct tmk_sensitivity *values; /* what costs most first */
    uint32_t n;
    uint32_t left_out; /* values that were not tried */
    struct tmk_arena *arena;
};

enum { TMK_RANK_MAX = 64, TMK_RANK_SAMPLES = 8 };

/* Tries at most `most` values (0: TMK_RANK_MAX), those that the encodings expect most error of, on
 * at most run->limit samples (0: TMK_RANK_SAMPLES). TMK_ARGUMENT: the data is a stream, and is run
 * more than once. End with tmk_ranking_destroy. */
TMK_API enum tmk_status tmk_model_rank(struct tmk_model *model,
                                       const struct tmk_encodings *encodings,
                                       const struct tmk_run_options *run, uint32_t most,
                                       struct tmk_ranking **out, struct tmk_diag *diag);
TMK_API void tmk_ranking_destroy(struct tmk_ranking **ranking);

/* ---- which method ---- */

/* A method of activations, judged by cross-validation in two folds: each half of the samples judges
 * encodings that were made of the other half. What is not better than the default by 1.5 dB on 8
 * samples of the first half, or on all of it, is judged no further: NAN, but for half[0]. Decibels
 * of the outputs, or, where these are results of a Softmax, of what it reads: */
struct tmk_method_tried {
    const char *name;
    double typical, half[2]; /* of the samples' noise, as a geometric mean: of all, of each half */
    double sqnr;             /* of all samples together */
};

/* A method of weights, judged on the first samples; of activations by the default. */
struct tmk_weights_tried {
    const char *name;
    double typical;
};

enum { TMK_METHODS_TRIED = 5, TMK_METHODS_SAMPLES = 64, TMK_WEIGHTS_TRIED = 2 };

struct tmk_method_choice {
    struct tmk_method_tried tried[TMK_METHODS_TRIED]; /* the default first */
    uint32_t n;       /* 0: none was tried, since `calibrate` or its config names a method, or there
                         are fewer than 32 samples */
    uint32_t chosen;  /* of tried */
    uint64_t samples; /* that judged, at most TMK_METHODS_SAMPLES */
    struct tmk_weights_tried weights[TMK_WEIGHTS_TRIED]; /* the default first */
    uint32_t n_weights;      /* 0: none was tried, since `calibrate` or its config names a method */
    uint32_t chosen_weights; /* of weights */
};

/* tmk_model_profile, with nothing but its defaults observed; where no method of activations is
 * given, in two halves whose merge *profile is. And which methods are best for encodings made of
 * it. Of weights: the default, unless minmax is better by 1 dB (2 on 8 samples). Of activations:
 * the default, unless mse, minmax, percentile or entropy is better by 3 dB on either half, and not
 * worse of all samples together. End *profile with tmk_profile_destroy. report (may be NULL): of
 * the runs that *profile is of. */
TMK_API enum tmk_status
tmk_model_choose_method(struct tmk_model *model, const struct tmk_run_options *run,
                        const struct tmk_calibrate_options *calibrate, struct tmk_profile **profile,
                        struct tmk_method_choice *out, struct tmk_run_report *report,
                        struct tmk_diag *diag);

/* ---- better encodings ---- */

/* What a network made of all samples of a run; good during the call. */
struct tmk_metric_outputs {
    const struct tmk_tensor *outputs; /* one an output of the model, in its order; the first axis
                                         counts samples, or batches where these are no slices */
    uint32_t n;
    uint64_t first, samples;    /* number of the first in the data, and how many */
    const char *const *sources; /* the data */
    size_t n_sources;
};

/* The caller's own measure of outputs: larger is better. Called by the calling thread, for the
 * float network once for each run of samples, and for every candidate. A failure ends it. */
struct tmk_search_metric {
    enum tmk_status (*call)(void *context, const struct tmk_metric_outputs *outputs, double *out,
                            struct tmk_diag *diag);
    void *context;
};
/* The bytes of a .npy file before the tensor's data, for metrics that other programs compute.
 * Free *out. TMK_TYPE: the format has no such elements. */
TMK_API enum tmk_status tmk_npy_header(const struct tmk_tensor *tensor, char **out, size_t *len,
                                       struct tmk_diag *diag);

enum tmk_goal {
    TMK_GOAL_NONE,
    TMK_GOAL_SQNR,     /* decibels of the outputs, at least */
    TMK_GOAL_ACCURACY, /* percentage points of accuracy that are lost to float32, at most */
    TMK_GOAL_METRIC    /* percent of the float network's metric that are lost, at most */
};

/* "30dB" (or "30"), "accuracy-0.5%", "metric-1%"; false: none of these. */
TMK_API bool tmk_goal_read(const char *text, enum tmk_goal *goal, double *value);

struct tmk_search_options {
    const struct tmk_profile *profile; /* that the encodings were made of */
    const char *config;                /* and with; NULL: none */
    const struct tmk_target *target;   /* and for; NULL: none */
    uint32_t budget;    /* encodings that are tried, by each search; 0: TMK_SEARCH_BUDGET */
    double seconds;     /* after which no more are tried, in all; 0: no such limit */
    enum tmk_goal goal; /* at which it ends, on the samples that choices are made by */
    double goal_value;
    /* What candidates are judged by: the metric; else, with labels, the accuracy; else decibels.
     * Labels are as in tmk_simulate_options; the goal ACCURACY takes an array "labels", too. */
    struct tmk_search_metric metric; /* call NULL: none */
    const char *labels;
    /* Samples that choices are made by; none: those of the run. The run's are then for the verdict
     * only. */
    const char *const *search_data;
    size_t n_search_data;
    const char *write_config; /* where to write the config that gives the result; NULL: nowhere */
    /* What was chosen, a line each. May be NULL. */
    void (*report)(void *context, const char *text);
    void *context;
};

/* Encodings that were at hand during the search: the first, and after each choice. */
struct tmk_search_point {
    double sqnr;   /* decibels of the outputs, on the samples of the search */
    double judged; /* what the search goes by: share of right classes, or the metric; NAN: sqnr */
    double bytes;  /* of the weights */
    double share8; /* of the multiplications of Conv, Gemm and MatMul: with at most 8 bits */
};

enum { TMK_SEARCH_BUDGET = 128, TMK_SEARCH_SAMPLES = 32, TMK_SEARCH_POINTS = 64 };

struct tmk_search_quality {
    double sqnr;     /* decibels of the outputs; HUGE_VAL: no error */
    double accuracy; /* share of right classes; NAN: no labels */
    double margin;   /* of its difference from float32: half of the 95 % interval, of pairs */
    double metric;   /* NAN: none */
};

/* How a search was judged by samples that nothing was chosen by. */
enum tmk_judged {
    TMK_JUDGED_NOT,     /* there are too few samples */
    TMK_JUDGED_CROSSED, /* each half of the samples by a search that had the other half only */
    TMK_JUDGED_APART    /* the run's data: choices were made by search_data */
};

struct tmk_search_result {
    uint32_t tried, chosen;
    uint64_t samples, from; /* of the search, and the number of the first */
    struct tmk_search_quality in_float, before, after; /* on these */
    enum tmk_judged judged;
    uint64_t judged_samples, judged_from, split; /* CROSSED: the second half begins there */
    struct tmk_search_quality judged_float, judged_before, judged_after;
    bool out_of_time;
    struct tmk_search_point points[TMK_SEARCH_POINTS]; /* later ones are left out */
    uint32_t n_points;
};

/* First by groups: what calibrate leaves float by default, all at once, also with its default
 * method; then patterns, operators and blocks of values, each in 16 bits and in float. Then by
 * values (with those that share their scale) in the order of tmk_model_rank: auto or minmax, 16
 * bits, float. Where a goal is reached, products that had 8 bits get them again, as long as it
 * still is. docs/simulate.md has what a change must gain. Groups take at most half of the budget.
 * On at most run->limit samples (0: TMK_SEARCH_SAMPLES). The setting "search" of *out tells what
 * was done. TMK_MISMATCH: the profile and the config make other encodings; there are no labels that
 * the goal asks for. End *out with tmk_encodings_destroy. */
TMK_API enum tmk_status tmk_model_search(struct tmk_model *model,
                                         const struct tmk_encodings *encodings,
                                         const struct tmk_run_options *run,
                                         const struct tmk_search_options *options,
                                         struct tmk_encodings **out,
                                         struct tmk_search_result *result, struct tmk_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
