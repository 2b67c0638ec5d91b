/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a state, and reading it bin by bin. */
#pragma once

#include <tidemark/stats.h>

#include "stats/exact.h"
#include "stats/kernel.h"

enum {
    TMK_OCTAVE = 128,  /* histogram bins in an octave */
    TMK_OCTAVES = 512, /* sign, exponent */
    TMK_SPECIAL = 255, /* the exponent of NaN and infinities */
    TMK_FEW = 2048,    /* elements that need no table yet */
    TMK_NARROW = 192,  /* used bins up to which sums of squares are kept */
    TMK_RUN = 64,      /* elements that a thinned histogram counts or skips together */
};

struct tmk_extreme {
    int32_t key;
    struct tmk_where at;
};

enum tmk_channel_kind {
    TMK_CHANNELS_NONE, /* no axis so far */
    TMK_CHANNELS_KNOWN,
    TMK_CHANNELS_CONFLICT,
};

/* Extremes along one axis. An empty state (count 0) has none, and agrees with every kind. */
struct tmk_channels {
    enum tmk_channel_kind kind;
    int32_t axis;
    size_t count;
    float *min, *max; /* [count], one allocation, owned; +inf and -inf where nothing finite was */
};

/* A used bin, for good: a wide counter, and wide sums of dropped bits and of their squares, which
 * mean nothing where they are not kept. At RANGE an octave has one, its first. */
struct tmk_wide {
    uint64_t count, low, squares;
    uint16_t bin;
};

struct tmk_stats {
    enum tmk_stats_level level;
    const struct tmk_stats_kernel *kernel;
    uint64_t count, nan, posinf, neginf, zeros, negative_zeros; /* zeros: of +0 only */
    uint64_t excluded, padding; /* in none of the others but count; padding is part of it */
    uint64_t samples, updates;
    struct tmk_extreme min,
        max; /* keys TMK_KEY_POSINF and TMK_KEY_NEGINF when nothing finite was */
    struct tmk_where first_nonfinite;
    struct tmk_channels channels;
    uint64_t *table; /* [TMK_TABLE] packed entries, mapped once more than TMK_FEW elements come;
                        NULL before, and always at MINMAX, which has no wide counters either */
    size_t table_counted; /* of it against the memory limit */
    uint32_t in_table;    /* elements since the last drain */
    uint64_t outside;     /* elements in no bin (tmk_stats_outside) that are none of those */
    bool coarse; /* sums of squares are not kept, for good: more than TMK_NARROW bins were used, a
                    sum has left 64 bits, or some of the data came without. Always at other levels
                    than HISTOGRAM and in thinned states; in others never without bins */
    uint32_t share;          /* the histogram counts one run in so many; 1: all */
    uint64_t key;            /* of the value: which runs (tile.h) */
    struct tmk_exact sum;    /* thinned: of the finite elements, in units of 2^-149; else 0 */
    uint64_t *squares;       /* [TMK_TABLE], of what is in the table; NULL: coarse, or no table */
    uint64_t taken, look_at; /* elements since there is a table; when to count bins again */
    bool sparse;             /* the last tile held many zeros */
    struct tmk_wide *wide;   /* [n_wide], ascending by bin; counted against the memory limit; may be
                                shared (tmk_stats_share_bins) */
    uint32_t n_wide, wide_size;
    uint64_t
        octaves[TMK_OCTAVES / 64]; /* a bit each (sign << 8 | exponent): `wide` has bins of it */
};

/* One octave's bins: what the table and the wide counters hold together. At RANGE only entry 0 is
 * used. */
struct tmk_octave {
    uint64_t count[TMK_OCTAVE], low[TMK_OCTAVE];
    uint64_t squares[TMK_OCTAVE]; /* not written where the state is coarse */
};

/* Estimated memory of the bins of a state that has observed a tensor of `elements` elements `times`
 * times, or was derived from such. */
size_t tmk_stats_bins_bytes(enum tmk_stats_level level, size_t elements, uint64_t times);
/* The same while it observes, and when it has. */
size_t tmk_stats_counting_bytes(enum tmk_stats_level level, size_t elements, uint64_t times);
size_t tmk_stats_finishing_bytes(enum tmk_stats_level level, size_t elements, uint64_t times);

/* As tmk_stats_create, with a kernel of the caller's choice (tmk_stats_kernel_at). */
enum tmk_status tmk_stats_create_with(enum tmk_stats_level level,
                                      const struct tmk_stats_kernel *kernel, struct tmk_stats **out,
                                      struct tmk_diag *diag);

/* Thins an empty state as the other, of the same level, is. */
void tmk_stats_thin_as(struct tmk_stats *stats, const struct tmk_stats *other);

static inline bool tmk_stats_is_thinned(const struct tmk_stats *stats) {
    return stats->share > 1;
}

bool tmk_stats_octave_held(const struct tmk_stats *stats, unsigned octave, struct tmk_octave *out);

/* False when nothing was ever counted in the octave; *out is then not written. */
static inline bool tmk_stats_octave(const struct tmk_stats *stats, unsigned octave,
                                    struct tmk_octave *out) {
    return (stats->in_table || (stats->octaves[octave / 64] >> octave % 64 & 1)) &&
           tmk_stats_octave_held(stats, octave, out);
}

/* Goes through the used bins of `stats`, ascending. All else is 0 at first. */
struct tmk_bin_walk {
    const struct tmk_stats *stats;
    unsigned octave, next; /* of the octave's bins; 0: `bins` is not filled yet */
    struct tmk_octave bins;
};
/* False at the end. out->squares: 0 where the state is coarse. */
bool tmk_next_bin(struct tmk_bin_walk *walk, struct tmk_wide *out);

/* Room for so many wide counters more, and that they are the state's own; false when memory ran
 * out. */
bool tmk_stats_reserve(struct tmk_stats *stats, size_t more);
/* The first counter that is not before the bin's place. */
uint32_t tmk_stats_place_of(const struct tmk_stats *stats, unsigned bin);

/* Adds to the wide counters, for which there is space. */
void tmk_stats_add_bin(struct tmk_stats *stats, const struct tmk_wide *more);
/* How many of these, ascending, have no counter yet. */
uint32_t tmk_stats_fresh(const struct tmk_stats *stats, const struct tmk_wide *more, size_t n);
/* Adds them all, so many times each; false, and nothing is added, when memory for counters ran out.
 * `more` are not the state's own. */
bool tmk_stats_add_bins(struct tmk_stats *stats, const struct tmk_wide *more, size_t n,
                        uint64_t times);

/* Gives a state that has no wide counters the other's. They are one block, until one of the two has
 * something to add. */
void tmk_stats_share_bins(struct tmk_stats *stats, const struct tmk_stats *with);

/* The table has taken in n elements, and their zeros and specials have been counted: adds their
 * squares, unless the state has become coarse. */
enum tmk_status tmk_stats_add_squares(struct tmk_stats *stats, const tmk_loose_bits *x, size_t n,
                                      struct tmk_diag *diag);
/* Makes the state coarse. */
void tmk_stats_coarsen(struct tmk_stats *stats);
/* Are they kept? Of a state with a table, its bins are counted for it. */
bool tmk_stats_is_narrow(const struct tmk_stats *stats);

/* Puts n <= TMK_TILE elements, by their bits, in the order of their bins. */
void tmk_sort_by_bin(uint32_t *bits, size_t n);

/* The table, for tensors of about so many elements; there is none yet. Counted is what a table was
 * seen to touch, not its address space. TMK_NOMEM, TMK_LIMIT. */
enum tmk_status tmk_stats_map(struct tmk_stats *stats, size_t elements, struct tmk_diag *diag);
void tmk_stats_unmap(struct tmk_stats *stats);
/* Bytes of it that are in memory. */
size_t tmk_stats_touched(const struct tmk_stats *stats);
/* Adds what the table holds of an octave. */
void tmk_stats_unpack(const struct tmk_stats *stats, unsigned octave, struct tmk_octave *to);
/* What the whole table holds, ascending; malloc'ed. */
enum tmk_status tmk_stats_list(const struct tmk_stats *stats, struct tmk_wide **out, size_t *n,
                               struct tmk_diag *diag);

/* Moves the table's entries to the wide counters. */
enum tmk_status tmk_stats_drain(struct tmk_stats *stats, struct tmk_diag *diag);

/* For a state that is only read from now on, or merged into: gives the table's memory back, which
 * reading would go through each time. */
enum tmk_status tmk_stats_finalize(struct tmk_stats *stats, struct tmk_diag *diag);

static inline unsigned tmk_stats_bins_an_octave(enum tmk_stats_level level) {
    return level == TMK_STATS_HISTOGRAM ? TMK_OCTAVE : 1;
}

static inline bool tmk_stats_has_bins(enum tmk_stats_level level) {
    return level != TMK_STATS_MINMAX;
}

static inline uint64_t tmk_stats_limit(enum tmk_stats_level level) {
    return level == TMK_STATS_RANGE ? TMK_STATS_LIMIT_RANGE : TMK_STATS_LIMIT_HISTOGRAM;
}

static inline uint64_t tmk_stats_finite(const struct tmk_stats *stats) {
    return stats->count - stats->nan - stats->posinf - stats->neginf - stats->excluded;
}

/* Elements that are in no bin. */
static inline uint64_t tmk_stats_outside(const struct tmk_stats *stats) {
    return stats->zeros + stats->negative_zeros + stats->nan + stats->posinf + stats->neginf +
           stats->excluded;
}

/* Is a tensor that stands there cut by samples along its first dimension? */
static inline bool tmk_stats_cuts(const struct tmk_shape *shape, const struct tmk_stats_at *at) {
    return shape->rank > 0 && !at->whole && at->samples > 1 &&
           (uint64_t)shape->dim[0] == at->samples;
}

static inline bool tmk_where_before(struct tmk_where a, struct tmk_where b) {
    return a.sample != b.sample ? a.sample < b.sample : a.index < b.index;
}

static inline void tmk_where_earlier(struct tmk_where *at, struct tmk_where other) {
    if (tmk_where_before(other, *at))
        *at = other;
}

static inline void tmk_extreme_lower(struct tmk_extreme *min, struct tmk_extreme other) {
    if (other.key < min->key || (other.key == min->key && tmk_where_before(other.at, min->at)))
        *min = other;
}

static inline void tmk_extreme_update(struct tmk_extreme *max, struct tmk_extreme other) {
    if (other.key > max->key || (other.key == max->key && tmk_where_before(other.at, max->at)))
        *max = other;
}

static const struct tmk_where tmk_nowhere = {TMK_NOWHERE, TMK_NOWHERE};

/* As tmk_stats_update, but for elements with these bits (see tmk_stats_exclude). */
enum tmk_status tmk_stats_update_excluding(struct tmk_stats *stats, const float *x,
                                           const struct tmk_shape *shape,
                                           const struct tmk_stats_at *at, const uint32_t *exclude,
                                           size_t n_exclude, struct tmk_diag *diag);

/* Channels: see channel.c. */

/* Makes *channels (of a state with `seen` elements so far) agree with non-empty data of axis and
 * count (count 0: none): they become known, or conflict. New memory holds "nothing finite". */
enum tmk_status tmk_channels_join(struct tmk_channels *channels, uint64_t seen,
                                  enum tmk_channel_kind kind, int32_t axis, size_t count,
                                  struct tmk_diag *diag);
void tmk_channels_finish(struct tmk_channels *channels);
/* Takes in elements [first, first + n) of a row-major tensor whose channels are known and come in
 * runs of `inner`. */
void tmk_channels_add(struct tmk_channels *channels, const struct tmk_stats_kernel *kernel,
                      const tmk_loose_bits *x, size_t first, size_t n, size_t inner,
                      bool all_finite);
void tmk_channels_update(struct tmk_channels *channels, size_t channel, int32_t min, int32_t max);
/* Takes other's extremes in; both are known and agree. */
void tmk_channels_merge(struct tmk_channels *channels, const struct tmk_channels *other);
