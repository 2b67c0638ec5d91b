/* SPDX-License-Identifier: Apache-2.0 */
/* Exact one-pass statistics of the numbers that pass over one edge, and their algebra.
 *
 * A state is a function of the multiset of observed float32 bit patterns (and of where the extremes
 * stand), made of integers that are only ever added, or compared: so state(A and B) ==
 * merge(state(A), state(B)) bit for bit, whatever the order, batch, thread, shard or instruction
 * set. No floating-point instruction is in the update path; rounding modes, flush-to-zero and fused
 * multiply-add cannot change a result. Equal states encode to equal bytes.
 *
 * Bins are fixed by the float's own bits: bin = bits >> 16 (sign, 8 exponent bits, 7 mantissa bits:
 * bfloat16's truncation), 65,536 of them, each under 0.8 % wide. Per bin the state keeps how many
 * nonzero finite elements fell there, and the exact sum `low` of their 16 dropped mantissa bits; so
 * sums and bin means are exact. Zeros, NaN and infinities are counted apart and are in no bin.
 * While at most 192 bins are used, and no sum exceeds 64 bits, it also keeps the exact sum of the
 * squares of those 16 bits: so the sum of squares is exact where values lie close together, which
 * is where bins bound the standard deviation too loosely.
 *
 * Order of values: by sign and magnitude, and -0 below +0. NaN and infinities are never an extreme.
 *
 * Threads: calls on distinct states are independent. Calls that take a const state only read it, so
 * they may run at the same time as each other on one state. `diag` may be NULL everywhere. */
#ifndef TIDEMARK_STATS_H
#define TIDEMARK_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/status.h>
#include <tidemark/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How finely elements are resolved. All levels keep every count, and the extremes with their
 * places. HISTOGRAM keeps the 65,536 bins. RANGE costs the same while observing and stores one bin
 * an octave (a sign and an exponent; `low` sums all 23 mantissa bits): a state of about a hundred
 * numbers; the exact sum, no quantile, and the bracket of the sum of squares is some per cent wide
 * (no squares are kept). MINMAX has no bins, so no moments either, and costs a fifth of the
 * others. */
enum tmk_stats_level { TMK_STATS_RANGE = 1, TMK_STATS_HISTOGRAM = 2, TMK_STATS_MINMAX = 3 };

/* The most elements that one state holds; beyond it, TMK_RANGE. No integer of a state can overflow
 * below it. */
#define TMK_STATS_LIMIT_RANGE (UINT64_C(1) << 41)
#define TMK_STATS_LIMIT_HISTOGRAM (UINT64_C(1) << 48)

/* A thinned histogram counts one in at most so many runs (tmk_stats_thin). */
#define TMK_STATS_MOST_THINNED 64
/* Words of an exact sum: two's complement, in units of 2^-149, least significant first. */
#define TMK_STATS_SUM_WORDS 6

/* A place that is not known (an extreme that was derived, not seen). Orders after every known
 * place. */
#define TMK_NOWHERE UINT64_MAX

/* The absolute index of a sample, and the flat (row-major) index of an element in that sample's
 * part. */
struct tmk_where {
    uint64_t sample, index;
};

/* Where a piece of data stands. */
struct tmk_padding;
struct tmk_positions;
struct tmk_stats_at {
    uint64_t sample;      /* absolute index of the batch's first sample */
    uint64_t samples;     /* samples in the batch */
    int32_t channel_axis; /* the axis along which extremes are kept apart; -1: none */
    bool again;     /* these samples have been observed before, as in the last round of a loop:
                       they are not counted once more */
    uint32_t block; /* 0 or 1: the elements lie row-major. More: axis 1 is cut into blocks of so
                       many, and memory holds [dim 0][blocks of axis 1][dims 2...][block]; what
                       fills the last block up is neither read into the state nor counted. The shape
                       is the logical one, and so are all places and channels. */
    bool whole; /* not to be cut by samples, whatever its first dimension: it belongs to all of the
                   batch, as a constant does */
    /* Elements that are of padding, and how to find them; private. Both NULL: none are. They are
     * excluded as tmk_stats_exclude excludes others, and counted as padding, too. */
    const struct tmk_padding *padding;
    const struct tmk_positions *positions;
};

/* The state of one observed float value. Opaque. */
struct tmk_stats;

/* An empty state. TMK_ARGUMENT for an unknown level, TMK_NOMEM. End with tmk_stats_destroy. */
TMK_API enum tmk_status tmk_stats_create(enum tmk_stats_level level, struct tmk_stats **out,
                                         struct tmk_diag *diag);
/* Thins an empty HISTOGRAM state: its histogram counts one run of 64 elements in `share` (1 to 64;
 * 1: all), which is less work. Which ones follows from `key` (of the value), the sample and the
 * place in it alone, so states still merge exactly; a sample of at most 64 * share elements is
 * counted whole. Everything else is of all elements as ever: counts, zeros, extremes, places,
 * channels and the sum, which is exact; but `denormals` and `negatives` follow from the histogram,
 * no squares are kept, and the bracket of the sum of squares is wide. TMK_ARGUMENT: the share, the
 * level, a state that has seen data. */
TMK_API enum tmk_status tmk_stats_thin(struct tmk_stats *stats, uint32_t share, uint64_t key,
                                       struct tmk_diag *diag);
/* Frees and sets *stats to NULL; a NULL state is allowed. */
TMK_API void tmk_stats_destroy(struct tmk_stats **stats);

/* Observes one whole tensor of one batch: adds its elements, at->samples samples (none with
 * at->again) and one update.
 *
 * `x` holds the shape's elements, row-major, at any alignment; it may be NULL when there are none
 * (then the samples are counted and nothing else changes). Places: when the first dimension equals
 * at->samples and that is more than 1 (and not at->whole), the tensor is cut evenly along it and an
 * element's place is its own sample and the flat index in that sample's part; else it is at->sample
 * and the flat index in the tensor. Of equal extremes the earliest sample, then the lowest index is
 * kept. Channels: with channel_axis in [0, rank), the extremes of the finite elements are also kept
 * for each index along that axis. All non-empty updates of a state (and of what it is merged with)
 * must agree on axis and count; once two differ (no axis, or a rank too small for it, differs from
 * an axis) the channels are dropped for good, whatever the order: the state is in "channel
 * conflict".
 *
 * TMK_SHAPE: a shape without a size. TMK_ARGUMENT: axis below -1, sample indices that overflow.
 * TMK_RANGE: over the level's limit. After these the state is as it was; after TMK_NOMEM it is only
 * good for destroying. */
TMK_API enum tmk_status tmk_stats_update(struct tmk_stats *stats, const float *x,
                                         const struct tmk_shape *shape,
                                         const struct tmk_stats_at *at, struct tmk_diag *diag);

/* The same, a piece at a time, while a tensor is being made: between begin and end every element is
 * handed over exactly once. Plain data, the caller's memory; its fields are private. `stats` and
 * `shadow` must stay, and are not to be used otherwise, until the end. After a failure the state is
 * only good for destroying; there is nothing to undo in the pass itself. */
struct tmk_stats_shadow;
struct tmk_minmax;
struct tmk_stats_pass {
    struct tmk_stats *stats;
    struct tmk_stats_shadow *shadow;
    struct tmk_stats_at at;
    size_t elements, part;    /* of the tensor; of one sample in it */
    size_t inner, channels;   /* elements in a run of one channel; 0 channels: none are kept */
    size_t rows, blocked;     /* elements behind one index of the axis that is cut; its length */
    int32_t min_key, max_key; /* keys of the finite elements so far */
    struct tmk_minmax *each;  /* see tmk_stats_each */
    int32_t skip_above, skip_below; /* keys between which nothing need be noted there */
    const uint32_t *excluded;       /* see tmk_stats_exclude */
    size_t n_excluded;
};
/* shadow NULL: none (see below). Errors as tmk_stats_update; TMK_SHAPE when there is no axis 1 to
 * cut into blocks. */
TMK_API enum tmk_status tmk_stats_begin(struct tmk_stats *stats, const struct tmk_shape *shape,
                                        const struct tmk_stats_at *at,
                                        struct tmk_stats_shadow *shadow,
                                        struct tmk_stats_pass *pass, struct tmk_diag *diag);
/* x[0, n) are the places [first, first + n) of the tensor's memory (with at->block, places count
 * what fills up, too; a piece may hold any number of whole or broken blocks). */
TMK_API enum tmk_status tmk_stats_piece(struct tmk_stats_pass *pass, const float *x, size_t first,
                                        size_t n, struct tmk_diag *diag);
TMK_API enum tmk_status tmk_stats_end(struct tmk_stats_pass *pass, struct tmk_diag *diag);

/* To be called right after tmk_stats_begin: elements with exactly one of these bit patterns (not of
 * NaN) are counted as `excluded` and are in nothing else: no range, channel, sample's range, zero,
 * moment or bin. `bits` [n] must stay until the end. Costs a copy of the elements. */
TMK_API void tmk_stats_exclude(struct tmk_stats_pass *pass, const uint32_t *bits, size_t n);

/* ---- extremes of each sample ---- */

/* What one sample's elements of a value span. */
struct tmk_minmax {
    float min, max;      /* of the finite ones; +inf and -inf: there are none */
    bool neginf, posinf; /* an infinity was there */
};
/* Without elements. */
TMK_API struct tmk_minmax tmk_minmax_empty(void);
/* Both together. */
TMK_API void tmk_minmax_merge(struct tmk_minmax *range, const struct tmk_minmax *other);
/* To be called right after tmk_stats_begin: until the end, the pass widens each[i] by what the i-th
 * sample of the batch holds. `each` [at->samples] is the caller's. A tensor that is not cut by
 * samples along its first axis belongs to all samples of the batch. */
TMK_API void tmk_stats_each(struct tmk_stats_pass *pass, struct tmk_minmax *each);
/* The same where only samples are of interest that are to be taken into `topk`: elements that reach
 * less far than all of those may be left out of the ranges. */
struct tmk_topk;
TMK_API void tmk_stats_each_beyond(struct tmk_stats_pass *pass, struct tmk_minmax *each,
                                   const struct tmk_topk *topk);
/* What the finite elements span that the pass has seen; infinities are not listed. Costs nothing
 * beforehand, but is of the whole tensor. */
TMK_API struct tmk_minmax tmk_stats_pass_minmax(const struct tmk_stats_pass *pass);

/* ---- the samples with the largest and smallest elements ---- */

enum { TMK_TOPK = 4 }; /* kept at each end */
struct tmk_topk_entry {
    float value; /* of one sample: its smallest, or its largest finite element */
    uint64_t sample;
};
/* Of the samples with finite elements those with the smallest min and those with the largest max,
 * most extreme first, of equal ones the earliest first; no sample twice at one end. Plain data:
 * zero-initialised is empty. A function of the set of samples seen, and of nothing else. */
struct tmk_topk {
    uint32_t n; /* at either end: the number of samples, up to TMK_TOPK; 0 beside a state with
                   finite elements: the samples are not known */
    struct tmk_topk_entry min[TMK_TOPK], max[TMK_TOPK];
};
/* Takes in what a sample spans, or a part of it: a sample may come more than once. */
TMK_API void tmk_topk_add(struct tmk_topk *topk, uint64_t sample, const struct tmk_minmax *range);
/* What all samples but this one span; false where there is no other, or they are not known. */
TMK_API bool tmk_topk_without(const struct tmk_topk *topk, uint64_t sample, float *min, float *max);
/* dst becomes the topk of both; each belongs to a state (NULL: nothing was seen), as it is before
 * those are merged. Where samples of one are not known, none are of both. */
TMK_API void tmk_topk_merge(struct tmk_topk *dst, const struct tmk_stats *of_dst,
                            const struct tmk_topk *src, const struct tmk_stats *of_src);

/* ---- states that follow from others ----
 *
 * Some results need not be looked at: their state is an exact function of their operand's, but for
 * a few things, such as where an extreme stands. Those are kept in a shadow while the operand is
 * observed, and tmk_stats_derive_... then gives the very state that observing would have given. */

/* y = x <= lo ? lo : x >= hi ? hi : x, and NaN stays: Relu (0, infinity), Clip. lo < hi. */
struct tmk_clamp {
    float lo, hi;
};
/* Does y's state follow at this level? At HISTOGRAM the ends that are finite must begin a bin, at
 * RANGE an octave (0 does both); at MINMAX always. */
TMK_API bool tmk_clamp_follows(const struct tmk_clamp *clamp, enum tmk_stats_level level);
/* The range of y from x's. */
TMK_API void tmk_minmax_clamp(struct tmk_minmax *range, const struct tmk_clamp *clamp);

/* What the state of x does not determine about a clamped y, or, for Concat (clamp NULL), about the
 * whole. Opaque. TMK_ARGUMENT: not lo < hi. */
TMK_API enum tmk_status tmk_stats_shadow_create(const struct tmk_clamp *clamp,
                                                struct tmk_stats_shadow **out,
                                                struct tmk_diag *diag);
/* Frees and sets *shadow to NULL; a NULL shadow is allowed. */
TMK_API void tmk_stats_shadow_destroy(struct tmk_stats_shadow **shadow);
/* Both of one clamp (or both of Concat). TMK_NOMEM leaves dst only good for destroying. */
TMK_API enum tmk_status tmk_stats_shadow_merge(struct tmk_stats_shadow *dst,
                                               const struct tmk_stats_shadow *src,
                                               struct tmk_diag *diag);
/* The state of y from x's, which was observed with this shadow from its first element on (or its
 * merges with those of others so observed). Equal to observing y, bit for bit, encoding included,
 * but that squares are kept only where x's are.
 * TMK_UNSUPPORTED: it does not follow at this level, x is thinned, or elements of it were excluded;
 * TMK_NOMEM. */
TMK_API enum tmk_status tmk_stats_derive_clamp(const struct tmk_stats *x,
                                               const struct tmk_stats_shadow *shadow,
                                               struct tmk_stats **out, struct tmk_diag *diag);

/* One operand of a Concat: its state so far (`x`); where it is itself a clamped value, x is the
 * operand's operand and `shadow` the clamp's; where it is itself a Concat, x is NULL and shadow is
 * its own. `elements` of it stand together in each part of the result that is `stride` long,
 * `offset` elements into it, both counted in one sample. */
struct tmk_stats_operand {
    const struct tmk_stats *x;
    const struct tmk_stats_shadow *shadow;
    size_t elements, stride, offset;
};
/* To be called once for each batch, after all operands were observed: keeps the extremes of the
 * whole that this batch set. `at` as for the batch's observations. An operand must not be observed
 * twice in one sample under two shapes: its positions would be ambiguous. */
TMK_API void tmk_stats_shadow_concat(struct tmk_stats_shadow *shadow,
                                     const struct tmk_stats_operand *operands, size_t n,
                                     const struct tmk_stats_at *at);
/* The state of a Concat from its operands' states (whole ones: derived where they are derived), in
 * order. The whole has no channels. `updates` and `samples` are those of operand 0. */
TMK_API enum tmk_status tmk_stats_derive_concat(const struct tmk_stats *const *operands, size_t n,
                                                const struct tmk_stats_shadow *shadow,
                                                struct tmk_stats **out, struct tmk_diag *diag);

/* dst becomes the state of both multisets. dst and src are distinct, of one level and equally
 * thinned (else TMK_MISMATCH; a dst that has seen nothing becomes as thinned as src). TMK_RANGE:
 * over the limit; TMK_NOMEM. After a failure dst is as it was. */
TMK_API enum tmk_status tmk_stats_merge(struct tmk_stats *dst, const struct tmk_stats *src,
                                        struct tmk_diag *diag);
/* The same as though src's data had been observed `times` times (a constant that is there in every
 * batch): counts, samples, updates and sums count `times` times; places stay src's. 0 changes
 * nothing. */
TMK_API enum tmk_status tmk_stats_merge_times(struct tmk_stats *dst, const struct tmk_stats *src,
                                              uint64_t times, struct tmk_diag *diag);

/* Appends the canonical bytes: equal states give equal bytes. Errors stick in out->failed. */
struct tmk_text;
TMK_API void tmk_stats_encode(const struct tmk_stats *stats, struct tmk_text *out);
/* A state from exactly the bytes of one encoding. TMK_FORMAT for anything that tmk_stats_encode
 * does not write and for a state that does not balance (tmk_stats_restore). */
TMK_API enum tmk_status tmk_stats_decode(const void *bytes, size_t len, struct tmk_stats **out,
                                         struct tmk_diag *diag);

/* A state in numbers. The fields down to `squares` are the state itself (with tmk_stats_bins
 * they rebuild it); the rest follows from them, by arithmetic in a fixed order: equal states give
 * equal bits. */
struct tmk_summary {
    enum tmk_stats_level level;
    uint64_t count; /* all elements */
    uint64_t nan, posinf, neginf;
    uint64_t excluded;       /* left out on purpose */
    uint64_t padding;        /* of those, elements that are of padding */
    uint64_t zeros;          /* of either sign */
    uint64_t negative_zeros; /* those among them with the sign bit */
    uint64_t samples, updates;
    uint32_t share; /* the histogram counts one run in so many; 0: all (tmk_stats_thin) */
    uint64_t exact_sum[TMK_STATS_SUM_WORDS]; /* of a thinned state; else 0: the bins give the sum */
    float min, max;                          /* of the finite elements; NaN when there are none */
    struct tmk_where min_at, max_at;
    struct tmk_where
        first_nonfinite;  /* the earliest NaN or infinity; TMK_NOWHERE when there is none */
    uint32_t bins_used;   /* rows that tmk_stats_bins writes */
    int32_t channel_axis; /* -1: no channels */
    bool channel_conflict;
    size_t channels; /* 0: no channels */
    const float *channel_min,
        *channel_max;        /* [channels], the state's memory, valid until it changes;
                                +inf and -inf for a channel without finite elements */
    const uint64_t *squares; /* [bins_used], for tmk_stats_restore: what tmk_stats_squares writes;
                                NULL: not kept. tmk_stats_summary leaves it NULL */

    bool squares_kept; /* tmk_stats_squares has them */
    uint64_t counted;  /* elements in bins: finite - zeros, of a thinned state fewer */
    uint64_t finite;   /* count - nan - posinf - neginf - excluded */
    /* at MINMAX, what follows is not known: 0 here, and NaN from `sum` on */
    uint64_t denormals; /* finite, not zero, below 2^-126 in magnitude */
    uint64_t negatives; /* finite and below zero; -0 is not */
    double sum;         /* of the finite elements: the exact sum, rounded once to nearest even */
    double mean;        /* sum / finite; NaN when there are none */
    double sumsq_lo; /* the sum of squares lies in [sumsq_lo, sumsq_hi]: proven, rounded outwards */
    double sumsq_hi; /* at HISTOGRAM, hi <= lo * (1 + 2^-15) when no element is denormal */
    double sumsq_est; /* for elements spread evenly inside each bin */
    double variance;  /* for the same; NaN when there are none */
    double std;       /* its root */
                      /* of a thinned state, these three are estimated from what was counted */
    double
        std_lo; /* std of the elements lies in [std_lo, std_hi]: proven, from the same integers. */
    double std_hi; /* Within 2^-48 of each other where squares are kept. */
};
TMK_API void tmk_stats_summary(const struct tmk_stats *stats, struct tmk_summary *out);
/* Is `std` proven to be within a relative error of 1e-5? Also true where there is none. */
TMK_API bool tmk_summary_std_is_close(const struct tmk_summary *summary);
/* The same without reading the bins: `bins_used`, `denormals`, `negatives` and all from `sum` on
 * are 0. */
TMK_API void tmk_stats_quick_summary(const struct tmk_stats *stats, struct tmk_summary *out);

/* Writes the used bins in ascending order of their number: bin, elements in it, sum of their
 * dropped bits; each array holds summary.bins_used entries. At RANGE a row is an octave, under the
 * number of its first bin (a multiple of 128), and `low` sums 23 bits. */
TMK_API void tmk_stats_bins(const struct tmk_stats *stats, uint16_t *bin, uint64_t *count,
                            uint64_t *low);

/* The sums of squares of the dropped bits, bin by bin in the order of tmk_stats_bins; `squares`
 * holds summary.bins_used entries. False, and nothing is written, where they are not kept. */
TMK_API bool tmk_stats_squares(const struct tmk_stats *stats, uint64_t *squares);

/* A state from a summary's first part and the rows of tmk_stats_bins (facts->bins_used of them),
 * for readers of profiles. Derived fields are not looked at. TMK_FORMAT, with what is wrong, unless
 * it is consistent: counts add up; bins ascend, are finite and not empty; each `low` is possible
 * for its count, and each entry of `squares` for its count and `low`; the extremes are the ends of
 * the lowest and the highest bin; the channels' extremes are those of the whole. TMK_NOMEM. */
TMK_API enum tmk_status tmk_stats_restore(const struct tmk_summary *facts, const uint16_t *bin,
                                          const uint64_t *count, const uint64_t *low,
                                          struct tmk_stats **out, struct tmk_diag *diag);

/* The ends of a histogram bin of finite values: lo <= x < hi for a positive one, lo < x <= hi for a
 * negative one. The last bins end at +-2^128. Bins of infinities and NaN give NaN. */
TMK_API void tmk_bin_edges(uint16_t bin, double *lo, double *hi);
/* The same for the octave (RANGE) that `bin` lies in. */
TMK_API void tmk_octave_edges(uint16_t bin, double *lo, double *hi);
/* The mean of the `count` > 0 elements of a histogram bin, whose dropped bits add up to `low`. */
TMK_API double tmk_bin_mean(uint16_t bin, uint64_t count, uint64_t low);

/* Of how many nonzero finite elements each element in a bin stands: 1, of a thinned state about its
 * share; 0 where there are such, and none was counted. */
TMK_API double tmk_stats_weight(const struct tmk_stats *stats);
/* Of a thinned state: with the probability `confidence`, no quantile that follows is further from
 * the one asked for, as a share of all elements (in q), than this: the inequality of Dvoretzky,
 * Kiefer and Wolfowitz, sqrt(ln(2 / (1 - confidence)) / (2 n)). It takes the n that were counted as
 * independent draws. Elements of a run are alike; were they the same, n would be the runs, and the
 * bound 8 times as wide: with `runs`. At most 1. 0 where all are counted. */
TMK_API double tmk_stats_rank_error(const struct tmk_stats *stats, double confidence, bool runs);

/* The q-quantile of the finite elements (of their magnitudes when `absolute`): the smallest element
 * x with at least q * finite elements <= x, q in [0, 1]; NumPy's "inverted_cdf". It is proven to
 * lie in [*lo, *hi], the ends of one bin tightened by the extremes. *mid is the harmonic mean of
 * the two, at most 0.390 % off for normal floats. Of a thinned state it is estimated: proven are
 * the extremes only (q of 0 and 1; see tmk_stats_rank_error). TMK_ARGUMENT: q. TMK_UNSUPPORTED: the
 * level has no histogram. TMK_NOTFOUND: no finite element. */
TMK_API enum tmk_status tmk_stats_quantile(const struct tmk_stats *stats, double q, bool absolute,
                                           double *lo, double *hi, double *mid,
                                           struct tmk_diag *diag);

/* The histogram of the finite elements (or of their magnitudes) over `bins` equal parts of [lo,
 * hi]; what lies outside is left out, as in numpy.histogram. The elements of a bin of ours are
 * spread evenly over the widest interval around their exact mean that stays in the bin. `out`
 * [bins]. TMK_ARGUMENT: not lo < hi, or not finite, or no bins. TMK_UNSUPPORTED: the level has no
 * histogram. */
TMK_API enum tmk_status tmk_stats_linear(const struct tmk_stats *stats, bool absolute, double lo,
                                         double hi, size_t bins, double *out,
                                         struct tmk_diag *diag);

/* How unlike two multisets are: the Jensen-Shannon distance (the root of the divergence, logarithms
 * of base 2) of their histograms, with zeros of both signs, NaN and either infinity as bins of
 * their own; 0: alike, whatever their numbers of elements; 1: nothing in common. Both at one level
 * with bins (TMK_MISMATCH, TMK_UNSUPPORTED), neither empty (TMK_NOTFOUND). */
TMK_API enum tmk_status tmk_stats_distance(const struct tmk_stats *a, const struct tmk_stats *b,
                                           double *out, struct tmk_diag *diag);

TMK_API enum tmk_stats_level tmk_stats_level_of(const struct tmk_stats *stats);
/* Bytes of memory that the state holds now, an estimate to add up and print. */
TMK_API size_t tmk_stats_bytes(const struct tmk_stats *stats);

/* The same kind of account for integers and bools (false is 0, true 1). Plain data:
 * zero-initialised is empty, copying is assignment. */
struct tmk_int_stats {
    uint64_t count, zeros, samples, updates;
    uint64_t saturated; /* uint64 elements above INT64_MAX; they count as INT64_MAX */
    int64_t min, max;   /* meaningless while count is 0 */
    struct tmk_where min_at, max_at;
};

/* Booleans and integers of any width are counted so. */
TMK_API bool tmk_int_stats_supports(enum tmk_dtype dtype);
/* As tmk_stats_update; channel_axis is not looked at. `data` at any alignment. TMK_TYPE for other
 * types. After any failure the state is as it was. */
TMK_API enum tmk_status tmk_int_stats_update(struct tmk_int_stats *stats, enum tmk_dtype dtype,
                                             const void *data, const struct tmk_shape *shape,
                                             const struct tmk_stats_at *at, struct tmk_diag *diag);
/* As tmk_stats_merge_times; TMK_RANGE on overflow leaves dst as it was. */
TMK_API enum tmk_status tmk_int_stats_merge_times(struct tmk_int_stats *dst,
                                                  const struct tmk_int_stats *src, uint64_t times,
                                                  struct tmk_diag *diag);
TMK_API enum tmk_status tmk_int_stats_merge(struct tmk_int_stats *dst,
                                            const struct tmk_int_stats *src, struct tmk_diag *diag);
TMK_API void tmk_int_stats_encode(const struct tmk_int_stats *stats, struct tmk_text *out);
TMK_API enum tmk_status tmk_int_stats_decode(const void *bytes, size_t len,
                                             struct tmk_int_stats *out, struct tmk_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
