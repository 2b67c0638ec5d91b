/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of values of floats, and the numbers of any value as a row. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "profile/format.h"

/* ---- the histogram ---- */

static void put_counts(struct tmk_json_out *to, const char *key, const uint16_t *bins,
                       const uint64_t *counts, uint32_t n) {
    struct tmk_text text = {0};
    for (uint32_t i = 0; i < n; i++) {
        tmk_text_puts(&text, i ? "," : "[");
        tmk_json_u64_text(&text, bins ? bins[i] : counts[i]);
    }
    tmk_text_puts(&text, n ? "]" : "[]");
    tmk_json_put_raw(to, key, &text);
    tmk_text_finish(&text);
}

static void put_histogram(struct tmk_json_out *to, const char *key, const void *record) {
    const struct tmk_profile_row *row = record;
    const struct tmk_profile_bins *bins = row->bins;
    const uint32_t n = row->is.bins_used;
    struct tmk_json_out histogram = tmk_json_new_object();
    tmk_stats_bins(row->t.stats, bins->bin, bins->count, bins->low);
    put_counts(&histogram, "bins", bins->bin, NULL, n);
    put_counts(&histogram, "counts", NULL, bins->count, n);
    put_counts(&histogram, "low", NULL, bins->low, n);
    if (n && tmk_stats_squares(row->t.stats, bins->squares))
        put_counts(&histogram, "squares", NULL, bins->squares, n);
    tmk_json_put_child(to, key, &histogram);
}

static enum tmk_status get_counts(const cJSON *object, const char *key, uint64_t *out, uint32_t n,
                                  struct tmk_diag *diag) {
    const cJSON *array, *item;
    uint32_t i = 0;
    TMK_TRY(tmk_json_array(object, key, &array, diag));
    cJSON_ArrayForEach(item, array) {
        if (i == n || !tmk_json_as_u64(item, &out[i]))
            return tmk_fail(diag, TMK_FORMAT, "'%s': entry %" PRIu32 " is %s", key, i,
                            i == n ? "one more than there are bins" : "not a count");
        i++;
    }
    if (i != n)
        return tmk_fail(diag, TMK_FORMAT, "'%s' has %" PRIu32 " entries for %" PRIu32 " bins", key,
                        i, n);
    return TMK_OK;
}

static enum tmk_status get_histogram(struct tmk_field_reader *r, const cJSON *item, void *record) {
    static const char *const keys[] = {"bins", "counts", "low", "squares"};
    struct tmk_profile_row *row = record;
    const struct tmk_profile_bins *out = row->bins;
    const cJSON *bins, *bin;
    uint32_t i = 0;
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), !r->lenient, r->diag));
    TMK_TRY(tmk_json_array(item, "bins", &bins, r->diag));
    cJSON_ArrayForEach(bin, bins) {
        uint64_t number;
        if (i == TMK_PROFILE_MAX_BINS || !tmk_json_as_u64(bin, &number) || number > UINT16_MAX)
            return tmk_fail(r->diag, TMK_FORMAT, "'bins': entry %" PRIu32 " is no bin", i);
        out->bin[i++] = (uint16_t)number;
    }
    TMK_TRY(get_counts(item, "counts", out->count, i, r->diag));
    TMK_TRY(get_counts(item, "low", out->low, i, r->diag));
    row->is.bins_used = i;
    if (!tmk_json_member(item, "squares"))
        return TMK_OK;
    row->is.squares = out->squares;
    return get_counts(item, "squares", out->squares, i, r->diag);
}

/* ---- thinned histograms ---- */

static bool is_whole(const void *record) {
    return ((const struct tmk_profile_row *)record)->is.share == 0;
}

enum { WORD_DIGITS = 16, SUM_DIGITS = TMK_STATS_SUM_WORDS * WORD_DIGITS };

/* Two's complement, there and back. */
static void negate_sum(uint64_t *word) {
    bool carry = true;
    for (size_t i = 0; i < TMK_STATS_SUM_WORDS; i++) {
        word[i] = ~word[i] + carry;
        carry = carry && word[i] == 0;
    }
}

static bool is_negative_sum(const uint64_t *word) {
    return word[TMK_STATS_SUM_WORDS - 1] >> 63;
}

static void print_sum(const uint64_t *exact, char text[SUM_DIGITS + 2]) {
    uint64_t word[TMK_STATS_SUM_WORDS];
    size_t top = TMK_STATS_SUM_WORDS - 1;
    memcpy(word, exact, sizeof word);
    const bool negative = is_negative_sum(word);
    if (negative)
        negate_sum(word);
    while (top > 0 && !word[top])
        top--;
    int n = snprintf(text, SUM_DIGITS + 2, "%s%" PRIx64, negative ? "-" : "", word[top]);
    while (top-- > 0)
        n += snprintf(text + n, WORD_DIGITS + 1, "%016" PRIx64, word[top]);
}

static bool parse_sum(const char *text, uint64_t *word) {
    const bool negative = *text == '-';
    const char *digits = text + negative;
    const size_t n = strspn(digits, "0123456789abcdef");
    memset(word, 0, TMK_STATS_SUM_WORDS * sizeof *word);
    if (n == 0 || n > SUM_DIGITS || digits[n] || (digits[0] == '0' && (n > 1 || negative)))
        return false;
    for (size_t i = 0; i < n; i++) {
        const char digit = digits[n - 1 - i];
        const uint64_t value = (uint64_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
        word[i / WORD_DIGITS] |= value << 4 * (i % WORD_DIGITS);
    }
    if (is_negative_sum(word))
        return false;
    if (negative)
        negate_sum(word);
    return true;
}

/* null in HDF5 where the histogram is of all elements. */
static void put_thinned(struct tmk_json_out *to, const char *key, const void *record) {
    const struct tmk_profile_row *row = record;
    char sum[SUM_DIGITS + 2];
    if (is_whole(record)) {
        tmk_json_put(to, key, cJSON_CreateNull());
        return;
    }
    struct tmk_json_out thinned = tmk_json_new_object();
    print_sum(row->is.exact_sum, sum);
    tmk_json_put_u64(&thinned, "share", row->is.share);
    tmk_json_put(&thinned, "sum", cJSON_CreateString(sum));
    tmk_json_put_child(to, key, &thinned);
}

static enum tmk_status get_thinned(struct tmk_field_reader *r, const cJSON *item, void *record) {
    static const char *const keys[] = {"share", "sum"};
    struct tmk_profile_row *row = record;
    if (cJSON_IsNull(item))
        return TMK_OK;
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), !r->lenient, r->diag));
    TMK_TRY(tmk_json_u32(item, "share", &row->is.share, r->diag));
    const cJSON *sum = tmk_json_member(item, "sum");
    if (row->is.share < 2 || row->is.share > TMK_STATS_MOST_THINNED)
        return tmk_fail(r->diag, TMK_FORMAT, "'share' is not 2 to %d", TMK_STATS_MOST_THINNED);
    if (!cJSON_IsString(sum) || !parse_sum(sum->valuestring, row->is.exact_sum))
        return tmk_fail(r->diag, TMK_FORMAT, "'sum' is no hexadecimal number");
    return TMK_OK;
}

/* ---- channels ---- */

static bool has_no_channels(const void *record) {
    return ((const struct tmk_profile_row *)record)->is.channels == 0;
}

static void put_channels(struct tmk_json_out *to, const char *key, const void *record) {
    const struct tmk_summary *is = &((const struct tmk_profile_row *)record)->is;
    struct tmk_json_out channels = tmk_json_new_object();
    tmk_json_put_i64(&channels, "axis", is->channel_axis);
    tmk_json_put_floats(&channels, "min", is->channel_min, is->channels);
    tmk_json_put_floats(&channels, "max", is->channel_max, is->channels);
    tmk_json_put_child(to, key, &channels);
}

static enum tmk_status get_extremes(const cJSON *array, const char *key, float nothing, float *out,
                                    struct tmk_diag *diag) {
    const cJSON *item;
    size_t i = 0;
    cJSON_ArrayForEach(item, array) {
        if (!tmk_json_as_float(item, &out[i]))
            return tmk_fail(diag, TMK_FORMAT, "'%s': entry %zu is no float32 and not null", key, i);
        if (isnan(out[i]))
            out[i] = nothing;
        i++;
    }
    return TMK_OK;
}

static enum tmk_status get_channels(struct tmk_field_reader *r, const cJSON *item, void *record) {
    static const char *const keys[] = {"axis", "min", "max"};
    struct tmk_profile_row *row = record;
    const cJSON *min, *max;
    uint32_t axis;
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), !r->lenient, r->diag));
    TMK_TRY(tmk_json_u32(item, "axis", &axis, r->diag));
    TMK_TRY(tmk_json_array(item, "min", &min, r->diag));
    TMK_TRY(tmk_json_array(item, "max", &max, r->diag));
    size_t n = (size_t)cJSON_GetArraySize(min), maxima = (size_t)cJSON_GetArraySize(max);
    if (axis >= TMK_MAX_RANK || n != maxima || n == 0)
        return tmk_fail(r->diag, TMK_FORMAT, "axis %" PRIu32 " with %zu minima and %zu maxima",
                        axis, n, maxima);
    row->channels = malloc(2 * n * sizeof *row->channels);
    TMK_TRY_ALLOC(row->channels, r->diag);
    row->is.channel_axis = (int32_t)axis;
    row->is.channels = n;
    row->is.channel_min = row->channels;
    row->is.channel_max = row->channels + n;
    TMK_TRY(get_extremes(min, "min", INFINITY, row->channels, r->diag));
    return get_extremes(max, "max", -INFINITY, row->channels + n, r->diag);
}

/* ---- NaN and infinities, top samples, brackets ---- */

static bool is_always_finite(const void *record) {
    return !((const struct tmk_profile_row *)record)->nonfinite;
}

static void put_nonfinite(struct tmk_json_out *to, const char *key, const void *record) {
    const struct tmk_nonfinite *nonfinite = ((const struct tmk_profile_row *)record)->nonfinite;
    struct tmk_json_out member = tmk_json_new_object();
    if (nonfinite->n_from)
        tmk_field_put_ids(&member, "inherits", nonfinite->from, nonfinite->n_from);
    else
        tmk_json_put(&member, "origin", cJSON_CreateTrue());
    tmk_json_put_child(to, key, &member);
}

/* It follows from the operands. */
static enum tmk_status skip_nonfinite(struct tmk_field_reader *r, const cJSON *item, void *record) {
    (void)r;
    (void)item;
    (void)record;
    return TMK_OK;
}

static bool has_no_topk(const void *record) {
    return ((const struct tmk_profile_row *)record)->t.topk.n == 0;
}

static bool std_is_close(const void *record) {
    return tmk_summary_std_is_close(&((const struct tmk_profile_row *)record)->is);
}

#define RECORD tmk_profile_row
static const struct tmk_field std_table[] = {
    TMK_FIELD("low", F64, is.std_lo),
    TMK_FIELD("high", F64, is.std_hi),
};
static const struct tmk_field squares_table[] = {
    TMK_FIELD("low", F64, is.sumsq_lo),
    TMK_FIELD("high", F64, is.sumsq_hi),
};
static const struct tmk_fields std_fields = TMK_FIELDS(std_table, ),
                               squares_fields = TMK_FIELDS(squares_table, );
static const struct tmk_field_codec histogram = {put_histogram, get_histogram},
                                    channels = {put_channels, get_channels},
                                    nonfinite = {put_nonfinite, skip_nonfinite},
                                    thinned = {put_thinned, get_thinned};

#define OPTIONAL .flags = TMK_FIELD_OPTIONAL
static const struct tmk_field float_table[] = {
    TMK_FIELD("count", U64, is.count, TMK_COLUMN("elements", "elements seen")),
    TMK_FIELD("samples", U64, is.samples, TMK_COLUMN("samples", "samples seen")),
    TMK_FIELD("updates", U64, is.updates, TMK_COLUMN("", "times the value was computed")),
    TMK_FIELD("min", F32, is.min, TMK_COLUMN("1", "least finite element; NaN: there is none")),
    TMK_FIELD("max", F32, is.max, TMK_COLUMN("1", "greatest finite element; NaN: there is none")),
    TMK_FIELD("min_at", WHERE, is.min_at),
    TMK_COLUMN_ONLY("min_sample", U64, is.min_at.sample, "",
                    "sample where min stands; 2^64-1: not known"),
    TMK_COLUMN_ONLY("min_index", U64, is.min_at.index, "", "flat index in that sample"),
    TMK_FIELD("max_at", WHERE, is.max_at),
    TMK_COLUMN_ONLY("max_sample", U64, is.max_at.sample, "",
                    "sample where max stands; 2^64-1: not known"),
    TMK_COLUMN_ONLY("max_index", U64, is.max_at.index, "", "flat index in that sample"),
    TMK_FIELD("nan", U64, is.nan, TMK_COLUMN("elements", "NaN elements")),
    TMK_FIELD("posinf", U64, is.posinf, TMK_COLUMN("elements", "elements that are +infinity")),
    TMK_FIELD("neginf", U64, is.neginf, TMK_COLUMN("elements", "elements that are -infinity")),
    TMK_FIELD("first_nonfinite", WHERE, is.first_nonfinite),
    TMK_COLUMN_ONLY("first_nonfinite_sample", U64, is.first_nonfinite.sample, "",
                    "sample of the first NaN or infinity; 2^64-1: none"),
    TMK_COLUMN_ONLY("first_nonfinite_index", U64, is.first_nonfinite.index, "",
                    "flat index in that sample"),
    TMK_FIELD("excluded", U64, is.excluded,
              .flags = TMK_FIELD_OPTIONAL | TMK_FIELD_OMIT | TMK_FIELD_LATER,
              TMK_COLUMN("elements", "elements that were left out, see the setting exclude")),
    TMK_FIELD("padding", U64, is.padding,
              .flags = TMK_FIELD_OPTIONAL | TMK_FIELD_OMIT | TMK_FIELD_LATER,
              TMK_COLUMN("elements", "of those, elements of padding: the setting exclude-padding")),
    TMK_FIELD("zeros", U64, is.zeros, TMK_COLUMN("elements", "zeros of either sign")),
    TMK_FIELD("negative_zeros", U64, is.negative_zeros,
              TMK_COLUMN("elements", "zeros with the sign bit")),
    TMK_FIELD("denormals", U64, is.denormals,
              TMK_COLUMN("elements", "nonzero elements below 2^-126 in magnitude")),
    TMK_FIELD("negatives", U64, is.negatives, TMK_COLUMN("elements", "finite elements below zero")),
    TMK_FIELD("sum", F64, is.sum,
              TMK_COLUMN("1", "exact sum of the finite elements, rounded once")),
    TMK_FIELD("mean", F64, is.mean, OPTIONAL,
              TMK_COLUMN("1", "sum over the number of finite elements")),
    TMK_FIELD("std", F64, is.std, OPTIONAL,
              TMK_COLUMN("1", "standard deviation, estimated within the bracket of the squares")),
    TMK_FIELD_WHOLE("std_bracket", OBJECT, OPTIONAL, .of = &std_fields, .absent = std_is_close),
    TMK_COLUMN_ONLY("std_low", F64, is.std_lo, "1", "the standard deviation is at least this",
                    .flags = TMK_FIELD_LATER),
    TMK_COLUMN_ONLY("std_high", F64, is.std_hi, "1", "the standard deviation is at most this",
                    .flags = TMK_FIELD_LATER),
    TMK_FIELD_WHOLE("sum_squares", OBJECT, OPTIONAL, .of = &squares_fields),
    TMK_COLUMN_ONLY("sum_squares_low", F64, is.sumsq_lo, "1",
                    "the sum of squares is at least this"),
    TMK_COLUMN_ONLY("sum_squares_high", F64, is.sumsq_hi, "1",
                    "the sum of squares is at most this"),
    TMK_COLUMN_ONLY("channel_axis", I32, is.channel_axis, "", "axis of /channels; -1: none"),
    TMK_FIELD("channel_conflict", BOOL, is.channel_conflict,
              .flags = TMK_FIELD_OPTIONAL | TMK_FIELD_OMIT,
              TMK_COLUMN("", "1: updates disagreed on the channels, which were dropped")),
    TMK_FIELD("channels", CODEC, is.channels, OPTIONAL, .of = &channels, .absent = has_no_channels),
    TMK_FIELD("thinned", CODEC, is.share, .flags = TMK_FIELD_OPTIONAL | TMK_FIELD_LATER,
              .of = &thinned, .absent = is_whole,
              TMK_COLUMN("", "of a histogram that counts a share of the elements: share and sum, "
                             "JSON; else null")),
    TMK_FIELD("histogram", CODEC, bins, .of = &histogram),
    TMK_COLUMN_ONLY("squares_kept", BOOL, is.squares_kept, "",
                    "1: /histograms/squares are known of the value", .flags = TMK_FIELD_LATER),
    TMK_FIELD("top_samples", CODEC, t.topk, OPTIONAL, .of = &tmk_profile_topk_codec,
              .absent = has_no_topk),
    TMK_FIELD("nonfinite", CODEC, nonfinite, OPTIONAL, .of = &nonfinite,
              .absent = is_always_finite),
};
const struct tmk_fields tmk_profile_float_fields =
    TMK_FIELDS(float_table, .before = &tmk_profile_value_fields);

const struct tmk_fields *const tmk_profile_row_fields[TMK_PROFILE_LEVELS] = {
    [TMK_PROFILE_NO_NUMBERS] = &tmk_profile_none_fields,
    [TMK_PROFILE_INTEGERS] = &tmk_profile_integer_fields,
    [TMK_PROFILE_MINMAX] = &tmk_profile_float_fields,
    [TMK_PROFILE_RANGE] = &tmk_profile_float_fields,
    [TMK_PROFILE_HISTOGRAM] = &tmk_profile_float_fields,
};

/* ---- rows ---- */

void tmk_profile_row_of(const struct tmk_profile_tensor *t, struct tmk_profile_bins *bins,
                        struct tmk_profile_row *out) {
    const struct tmk_where nowhere = {TMK_NOWHERE, TMK_NOWHERE};
    struct tmk_int_stats *integers = &out->t.int_stats;
    *out = (struct tmk_profile_row){
        .t = *t,
        .is = {.min = NAN,
               .max = NAN,
               .sum = NAN,
               .mean = NAN,
               .std = NAN,
               .std_lo = NAN,
               .std_hi = NAN,
               .sumsq_lo = NAN,
               .sumsq_hi = NAN,
               .min_at = nowhere,
               .max_at = nowhere,
               .first_nonfinite = nowhere},
        .producer_output = t->has_producer ? (int64_t)t->producer.output : -1,
        .level = tmk_profile_level_of(t),
        .bins = bins,
    };
    if (t->stats)
        tmk_stats_summary(t->stats, &out->is);
    if (!out->is.channels)
        out->is.channel_axis = -1;
    if (!t->has_int_stats)
        return;
    out->is.count = integers->count;
    out->is.samples = integers->samples;
    out->is.updates = integers->updates;
    out->is.zeros = integers->zeros;
    if (integers->count) {
        out->is.min_at = integers->min_at;
        out->is.max_at = integers->max_at;
    } else {
        integers->min = integers->max = 0;
    }
}

static enum tmk_status fail_differs(struct tmk_diag *diag, const char *key, const char *written,
                                    const char *is) {
    return tmk_fail(diag, TMK_MISMATCH, "'%s' is %s, but the histogram gives %s", key, written, is);
}

/* What else follows from the histogram. NaN: not in the file. Not to the bit, since other releases
 * may estimate otherwise inside the bracket of the squares. */
static enum tmk_status derived_numbers_fit(const struct tmk_summary *summary,
                                           const struct tmk_summary *is, struct tmk_diag *diag) {
    const double close = 1e-6;
    const struct {
        const char *key;
        double written, is, slack;
    } numbers[] = {
        {"mean", summary->mean, is->mean, close * fabs(is->mean)},
        {"std", summary->std, is->std, close * (fabs(is->mean) + is->std)},
        {"sum_squares: low", summary->sumsq_lo, is->sumsq_lo, close * is->sumsq_hi},
        {"sum_squares: high", summary->sumsq_hi, is->sumsq_hi, close * is->sumsq_hi},
    };
    for (size_t i = 0; i < TMK_COUNT(numbers); i++) {
        char a[32], b[32];
        if (isnan(numbers[i].written) ||
            fabs(numbers[i].written - numbers[i].is) <= numbers[i].slack)
            continue;
        snprintf(a, sizeof a, "%.17g", numbers[i].written);
        snprintf(b, sizeof b, "%.17g", numbers[i].is);
        return fail_differs(diag, numbers[i].key, a, b);
    }
    return TMK_OK;
}

/* Rebuilds the value's state from a file's record. Of the derived fields, those that have one right
 * answer (denormals, negatives, sum) must be it, and the others that are there near it:
 * TMK_MISMATCH. NaN: not there. */
static enum tmk_status set_stats(struct tmk_profile_tensor *tensor,
                                 const struct tmk_summary *summary,
                                 const struct tmk_profile_bins *bins, struct tmk_diag *diag) {
    struct tmk_summary is;
    char a[32], b[32];
    TMK_TRY(tmk_stats_restore(summary, bins->bin, bins->count, bins->low, &tensor->stats, diag));
    tmk_stats_summary(tensor->stats, &is);
    if (summary->denormals != is.denormals || summary->negatives != is.negatives) {
        bool which = summary->denormals != is.denormals;
        snprintf(a, sizeof a, "%" PRIu64, which ? summary->denormals : summary->negatives);
        snprintf(b, sizeof b, "%" PRIu64, which ? is.denormals : is.negatives);
        return fail_differs(diag, which ? "denormals" : "negatives", a, b);
    }
    bool unknown = isnan(summary->sum) && isnan(is.sum); /* at a level without bins */
    if (summary->sum != is.sum && !unknown) {
        snprintf(a, sizeof a, "%.17g", summary->sum);
        snprintf(b, sizeof b, "%.17g", is.sum);
        return fail_differs(diag, "sum", a, b);
    }
    return derived_numbers_fit(summary, &is, diag);
}

enum tmk_status tmk_profile_row_restore(struct tmk_profile_row *row, struct tmk_diag *diag) {
    static const enum tmk_stats_level of[TMK_PROFILE_LEVELS] = {
        [TMK_PROFILE_MINMAX] = TMK_STATS_MINMAX,
        [TMK_PROFILE_RANGE] = TMK_STATS_RANGE,
        [TMK_PROFILE_HISTOGRAM] = TMK_STATS_HISTOGRAM,
    };
    enum tmk_status status = TMK_OK;
    row->is.level = of[row->level];
    row->t.has_int_stats = row->level == TMK_PROFILE_INTEGERS;
    if (row->is.level)
        status = set_stats(&row->t, &row->is, row->bins, diag);
    free(row->channels);
    row->channels = NULL;
    return status;
}

enum tmk_status tmk_profile_bins_init(struct tmk_profile_bins *bins, struct tmk_diag *diag) {
    *bins = (struct tmk_profile_bins){
        malloc(TMK_PROFILE_MAX_BINS * sizeof *bins->bin),
        malloc(TMK_PROFILE_MAX_BINS * sizeof *bins->count),
        malloc(TMK_PROFILE_MAX_BINS * sizeof *bins->low),
        malloc(TMK_PROFILE_MAX_BINS * sizeof *bins->squares),
    };
    if (bins->bin && bins->count && bins->low && bins->squares)
        return TMK_OK;
    tmk_profile_bins_finish(bins);
    return tmk_nomem(diag);
}

void tmk_profile_bins_finish(struct tmk_profile_bins *bins) {
    free(bins->bin);
    free(bins->count);
    free(bins->low);
    free(bins->squares);
    *bins = (struct tmk_profile_bins){0};
}

enum tmk_status tmk_profile_add_read(struct tmk_profile *profile, uint32_t id,
                                     struct tmk_profile_tensor **out, struct tmk_diag *diag) {
    enum tmk_status status = tmk_profile_add_tensor(profile, id, out, diag);
    if (status != TMK_ARGUMENT)
        return status;
    if (diag) /* an argument to the call, but here it is the file's */
        diag->status = TMK_FORMAT;
    return TMK_FORMAT;
}
