/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges as data, recognized by their file's first bytes, and compared. */
#include <tidemark/guess.h>
#include <tidemark/ranges.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/text.h"
#include "export/reader.h"

#define TMK_READER(symbol) extern const struct tmk_ranges_reader symbol;
#include "export/readers.inc"
#undef TMK_READER

static const struct tmk_ranges_reader *const readers[] = {
#define TMK_READER(symbol) &symbol,
#include "export/readers.inc"
#undef TMK_READER
};
enum { N_READERS = TMK_COUNT(readers) };

const char *tmk_range_meaning_name(enum tmk_range_meaning meaning) {
    static const char *const names[] = {
#define TMK_RANGE_MEANING_TEXT(name, text, help) text,
        TMK_RANGE_MEANING_LIST(TMK_RANGE_MEANING_TEXT)
#undef TMK_RANGE_MEANING_TEXT
    };
    return (size_t)meaning < TMK_COUNT(names) ? names[meaning] : "?";
}

bool tmk_ranges_format(size_t i, const char **name, const char **help) {
    if (i >= N_READERS)
        return false;
    *name = readers[i]->name;
    *help = readers[i]->help;
    return true;
}

static enum tmk_status create_ranges(struct tmk_ranges **out, struct tmk_diag *diag) {
    struct tmk_ranges *ranges = calloc(1, sizeof *ranges);
    TMK_TRY_ALLOC(ranges, diag);
    ranges->arena = calloc(1, sizeof *ranges->arena);
    if (!ranges->arena) {
        free(ranges);
        return tmk_nomem(diag);
    }
    ranges->format = ranges->unnamed = ranges->unknown = "";
    *out = ranges;
    return TMK_OK;
}

void tmk_ranges_destroy(struct tmk_ranges **slot) {
    struct tmk_ranges *ranges = slot ? *slot : NULL;
    if (!ranges)
        return;
    *slot = NULL;
    free(ranges->items);
    tmk_arena_finish(ranges->arena);
    free(ranges->arena);
    free(ranges);
}

enum tmk_status tmk_ranges_add(struct tmk_ranges *ranges, const char *name, size_t len, uint32_t n,
                               struct tmk_range **out, struct tmk_diag *diag) {
    if (memchr(name, '\0', len) || !tmk_utf8_valid(name, len))
        return tmk_fail(diag, TMK_FORMAT, "entry %u: the name is no UTF-8", ranges->n);
    TMK_TRY_ALLOC(TMK_GROW(ranges->items, ranges->n, ranges->size), diag);
    struct tmk_range range = {.name = tmk_arena_strndup(ranges->arena, name, len), .n = n};
    double *numbers = tmk_arena_array(ranges->arena, n, 3 * sizeof *numbers);
    TMK_TRY_ALLOC(range.name && numbers, diag);
    range.low = numbers;
    range.high = numbers + n;
    range.step = numbers + 2 * (size_t)n;
    ranges->items[ranges->n++] = range;
    *out = &ranges->items[ranges->n - 1];
    return TMK_OK;
}

enum tmk_status tmk_range_set(struct tmk_range *range, uint32_t channel, double low, double high,
                              double step, struct tmk_diag *diag) {
    if (!isfinite(low) || !isfinite(high) || !isfinite(step) || low > high || step < 0)
        return tmk_fail(diag, TMK_FORMAT, "'%s': [%g, %g] in steps of %g is no range", range->name,
                        low, high, step);
    range->low[channel] = low;
    range->high[channel] = high;
    range->step[channel] = step;
    return TMK_OK;
}

enum tmk_status tmk_ranges_add_one(struct tmk_ranges *ranges, const char *name,
                                   enum tmk_range_meaning meaning, double low, double high,
                                   struct tmk_diag *diag) {
    struct tmk_range *range;
    TMK_TRY(tmk_ranges_add(ranges, name, strlen(name), 1, &range, diag));
    range->meaning = meaning;
    return tmk_range_set(range, 0, low, high, 0, diag);
}

bool tmk_text_has_word(const char *text, size_t len, const char *word) {
    const size_t n = strlen(word);
    for (const char *at = text, *end = text + len; (size_t)(end - at) >= n; at++) {
        at = memchr(at, word[0], (size_t)(end - at) - n + 1);
        if (!at)
            return false;
        if (memcmp(at, word, n) == 0)
            return true;
    }
    return false;
}

static enum tmk_status find_reader(const struct tmk_ranges_file *file, const char *format,
                                   const struct tmk_ranges_reader **out, struct tmk_diag *diag) {
    struct tmk_known known = {.guess.wanted = format ? format : ""};
    for (size_t i = 0; i < N_READERS; i++) {
        if (format ? strcmp(format, readers[i]->name) == 0 : readers[i]->is(file)) {
            *out = readers[i];
            return TMK_OK;
        }
        tmk_known_add(&known, readers[i]->name);
    }
    if (format)
        return tmk_fail(diag, TMK_ARGUMENT, "there is no format '%s'%s of ranges; there are %s",
                        format, known.meant, known.names);
    const char *is = tmk_file_kind_text(tmk_file_kind_of(file->text, file->len));
    return tmk_fail(diag, TMK_UNSUPPORTED,
                    "%s: %s%s%sholds no ranges in a form that is known; there are %s", file->path,
                    *is ? "is " : "", is, *is ? ", and " : "", known.names);
}

enum tmk_status tmk_ranges_detect_format(const char *path, const char **out,
                                         struct tmk_diag *diag) {
    struct tmk_buf *buf = NULL;
    const struct tmk_ranges_reader *reader;
    TMK_TRY(tmk_file_map(path, &buf, diag));
    const struct tmk_ranges_file file = {path, tmk_buf_data(buf), tmk_buf_size(buf)};
    const enum tmk_status status = find_reader(&file, NULL, &reader, diag);
    tmk_buf_unref(&buf);
    if (status == TMK_OK)
        *out = reader->name;
    return status;
}

enum tmk_status tmk_ranges_read(const char *path, const char *format, struct tmk_ranges **out,
                                struct tmk_diag *diag) {
    struct tmk_buf *buf = NULL;
    struct tmk_ranges *ranges = NULL;
    const struct tmk_ranges_reader *reader;
    locale_t saved[2];
    TMK_TRY(tmk_file_map(path, &buf, diag));
    const struct tmk_ranges_file file = {path, tmk_buf_data(buf), tmk_buf_size(buf)};
    enum tmk_status status = find_reader(&file, format, &reader, diag);
    TMK_THEN(status, create_ranges(&ranges, diag));
    if (status == TMK_OK) {
        ranges->format = reader->name;
        ranges->unnamed = reader->unnamed;
        ranges->unknown = reader->unknown;
        status = tmk_locale_begin(saved, diag);
        if (status == TMK_OK) {
            status = tmk_in(diag, reader->read(&file, ranges, diag), "%s (%s)", path, reader->name);
            tmk_locale_end(saved);
        }
    }
    tmk_buf_unref(&buf);
    if (status == TMK_OK)
        *out = ranges;
    else
        tmk_ranges_destroy(&ranges);
    return status;
}

/* ---- whose ---- */

static bool reads_input(const struct tmk_profile_tensor *tensor, const char *node, uint32_t input) {
    for (uint32_t i = 0; i < tensor->n_consumers; i++)
        if (tensor->consumers[i].input == input && strcmp(tensor->consumers[i].node, node) == 0)
            return true;
    return false;
}

const struct tmk_profile_tensor *tmk_range_record(const struct tmk_range *range,
                                                  const struct tmk_profile *profile) {
    for (uint32_t i = 0; i < profile->n_tensors; i++) {
        const struct tmk_profile_tensor *tensor = &profile->tensors[i];
        if (range->subject == TMK_RANGE_OF_TENSOR
                ? strcmp(tensor->name, range->name) == 0
                : reads_input(tensor, range->name, range->subject == TMK_RANGE_OF_PARAMETER))
            return tensor;
    }
    return NULL;
}

enum tmk_status tmk_ranges_of_profile(const struct tmk_profile *profile, struct tmk_ranges **out,
                                      struct tmk_diag *diag) {
    struct tmk_ranges *ranges = NULL;
    TMK_TRY(create_ranges(&ranges, diag));
    ranges->format = "profile";
    enum tmk_status status = TMK_OK;
    for (uint32_t i = 0; status == TMK_OK && i < profile->n_tensors; i++) {
        const struct tmk_profile_tensor *tensor = &profile->tensors[i];
        struct tmk_summary summary;
        if (!tensor->stats || !tensor->name[0])
            continue;
        tmk_stats_quick_summary(tensor->stats, &summary);
        if (!isnan(summary.min))
            status = tmk_ranges_add_one(ranges, tensor->name, TMK_RANGE_EXACT, (double)summary.min,
                                        (double)summary.max, diag);
    }
    if (status == TMK_OK)
        *out = ranges;
    else
        tmk_ranges_destroy(&ranges);
    return status;
}

/* ---- comparing ---- */

static double max_magnitude(double low, double high) {
    return fmax(fabs(low), fabs(high));
}

/* Of an end, as a share of the magnitude: executors differ by it, and a scale is float32, so that
 * the end of a grid of thousands of codes is off by more than a share of its step. */
#define ROUNDING 1e-6

/* One channel, or all of them as one. */
struct ends {
    double low, high, step;
};

static struct ends ends_of(const struct tmk_range *range, uint32_t channel, bool all) {
    struct ends ends = {range->low[channel], range->high[channel], range->step[channel]};
    for (uint32_t c = 0; all && c < range->n; c++) {
        ends.low = fmin(ends.low, range->low[c]);
        ends.high = fmax(ends.high, range->high[c]);
        ends.step = fmax(ends.step, range->step[c]);
    }
    return ends;
}

/* A grid whose ends are alike but for a step: a value on one side of 0 leaves half of it unused. */
static bool is_symmetric(const struct ends *e) {
    return e->step > 0 && e->low < 0 && e->high > 0 &&
           fabs(e->low + e->high) <= e->step + ROUNDING * max_magnitude(e->low, e->high);
}

static void compare_ends(const struct ends *a, const struct ends *b, uint32_t channel,
                         struct tmk_range_difference *out) {
    *out = (struct tmk_range_difference){.meaning = out->meaning,
                                         .low_a = a->low,
                                         .high_a = a->high,
                                         .low_b = b->low,
                                         .high_b = b->high,
                                         .channel = channel};
    const double size_a = max_magnitude(a->low, a->high), size_b = max_magnitude(b->low, b->high);
    const bool sizes = out->meaning == TMK_RANGE_LARGEST || is_symmetric(a) || is_symmetric(b);
    if (out->meaning == TMK_RANGE_LARGEST) {
        out->low_a = out->high_a = size_a;
        out->low_b = out->high_b = size_b;
    } else if (out->meaning == TMK_RANGE_STEP) {
        /* A grid holds 0: so does what it was made of, as far as it shows. */
        out->low_a = fmin(out->low_a, 0), out->high_a = fmax(out->high_a, 0);
        out->low_b = fmin(out->low_b, 0), out->high_b = fmax(out->high_b, 0);
    }
    const double apart = sizes
                             ? fabs(size_a - size_b)
                             : fmax(fabs(out->low_a - out->low_b), fabs(out->high_a - out->high_b));
    const double whole = out->meaning == TMK_RANGE_LARGEST ? out->high_a : out->high_a - out->low_a;
    const double step = fmax(a->step, b->step);
    /* Any grid has a code for nothing but 0. */
    const bool nothing = out->meaning == TMK_RANGE_STEP && (size_a == 0 || size_b == 0);
    out->share = apart == 0 || nothing ? 0 : whole > 0 ? apart / whole : HUGE_VAL;
    const double outside = sizes
                               ? fmax(size_b - size_a, 0)
                               : fmax(fmax(out->low_a - out->low_b, out->high_b - out->high_a), 0);
    out->beyond = outside == 0 || nothing ? 0 : whole > 0 ? outside / whole : HUGE_VAL;
    out->steps = out->meaning == TMK_RANGE_STEP && step > 0 ? apart / step : 0;
    out->equal = out->meaning == TMK_RANGE_STEP
                     ? nothing || apart <= step + ROUNDING * fmax(size_a, size_b)
                     : out->share <= ROUNDING;
}

enum tmk_status tmk_range_compare(const struct tmk_range *a, const struct tmk_range *b,
                                  struct tmk_range_difference *out, struct tmk_diag *diag) {
    if (a->n != b->n && a->n > 1 && b->n > 1)
        return tmk_fail(diag, TMK_SHAPE, "'%s': %u channels, and %u", a->name, a->n, b->n);
    const bool all = a->n != b->n; /* one has a range for all channels */
    struct tmk_range_difference worst = {0}, one;
    for (uint32_t c = 0; c < (all ? 1 : a->n); c++) {
        const struct ends of_a = ends_of(a, c, all), of_b = ends_of(b, c, all);
        one.meaning = a->meaning > b->meaning ? a->meaning : b->meaning;
        compare_ends(&of_a, &of_b, c, &one);
        const bool equal = (c == 0 || worst.equal) && one.equal;
        if (c == 0 || one.share > worst.share)
            worst = one;
        worst.equal = equal;
    }
    *out = worst;
    return TMK_OK;
}

/* ---- what a profile has for the names ---- */

const char *tmk_range_coverage_name(enum tmk_range_coverage_kind kind) {
    static const char *const names[] = {
#define TMK_COVERAGE_TEXT(name, text, help) text,
        TMK_COVERAGE_LIST(TMK_COVERAGE_TEXT)
#undef TMK_COVERAGE_TEXT
    };
    return (size_t)kind < TMK_N_COVERAGES ? names[kind] : "?";
}

/* The original whose numbers, perhaps in another layout or on a scale, the value of that name has.
 */
static const struct tmk_lineage_original *original_of(const struct tmk_lineage_record *lineage,
                                                      const char *name) {
    for (uint32_t v = 0; v < lineage->n_values; v++) {
        const struct tmk_lineage_value *value = &lineage->values[v];
        if (strcmp(value->is.name, name) != 0)
            continue;
        const struct tmk_lineage_original *best = NULL;
        for (uint32_t i = 0; i < value->n_originals; i++) {
            const struct tmk_lineage_original *o = &lineage->originals[value->originals[i]];
            if (!best || o->verdict < best->verdict)
                best = o;
        }
        return best;
    }
    return NULL;
}

static bool keeps_range(enum tmk_lineage_verdict verdict) {
    return verdict == TMK_LINEAGE_SAME || verdict == TMK_LINEAGE_VIEW ||
           verdict == TMK_LINEAGE_MERGED || verdict == TMK_LINEAGE_QUANTIZED ||
           verdict == TMK_LINEAGE_CONSTANT;
}

/* Channel by channel; *fits: false where the profile has other channels, or one without a finite
 * element. */
static enum tmk_status compare_channels(const struct tmk_range *range,
                                        const struct tmk_summary *summary,
                                        struct tmk_range_coverage *coverage, bool *fits,
                                        struct tmk_diag *diag) {
    *fits = summary->channels == range->n;
    if (!*fits)
        return TMK_OK;
    double *numbers = calloc(range->n, 3 * sizeof *numbers);
    TMK_TRY_ALLOC(numbers, diag);
    struct tmk_range ours = {.name = range->name,
                             .meaning = TMK_RANGE_EXACT,
                             .n = range->n,
                             .low = numbers,
                             .high = numbers + range->n,
                             .step = numbers + 2 * (size_t)range->n};
    for (uint32_t c = 0; c < range->n; c++) {
        ours.low[c] = (double)summary->channel_min[c];
        ours.high[c] = (double)summary->channel_max[c];
        *fits = *fits && isfinite(ours.low[c]);
    }
    enum tmk_status status = TMK_OK;
    if (*fits)
        status = tmk_range_compare(&ours, range, &coverage->difference, diag);
    coverage->compared = *fits && status == TMK_OK;
    free(numbers);
    return status;
}

static enum tmk_status compare_range(const struct tmk_range *range,
                                     struct tmk_range_coverage *coverage, struct tmk_diag *diag) {
    struct tmk_summary summary;
    tmk_stats_quick_summary(coverage->record->stats, &summary);
    double low = (double)summary.min, high = (double)summary.max, step = 0;
    struct tmk_range ours = {range->name, range->subject, TMK_RANGE_EXACT, 1, &low, &high, &step};
    if (isnan(low))
        return TMK_OK;
    bool fits = false;
    if (range->n > 1)
        TMK_TRY(compare_channels(range, &summary, coverage, &fits, diag));
    if (fits)
        return TMK_OK;
    coverage->compared = true;
    return tmk_range_compare(&ours, range, &coverage->difference, diag);
}

enum tmk_status tmk_ranges_cover(const struct tmk_ranges *ranges, const struct tmk_profile *profile,
                                 const struct tmk_lineage_record *lineage,
                                 struct tmk_range_coverage *out, struct tmk_diag *diag) {
    if (lineage && lineage->original.fingerprint != profile->model.fingerprint)
        return tmk_fail(diag, TMK_MISMATCH,
                        "the lineage is of another model ('%s') than the profile ('%s')",
                        lineage->original.file, profile->model.file);
    for (uint32_t i = 0; i < ranges->n; i++) {
        const struct tmk_range *range = &ranges->items[i];
        struct tmk_range_coverage *coverage = &out[i];
        *coverage = (struct tmk_range_coverage){.kind = TMK_COVERAGE_MATCHED};
        coverage->record = lineage ? NULL : tmk_range_record(range, profile);
        if (lineage) {
            const struct tmk_lineage_original *o = original_of(lineage, range->name);
            coverage->kind = TMK_COVERAGE_DERIVED;
            coverage->record =
                o ? tmk_profile_by_id(profile, (uint32_t)(o - lineage->originals)) : NULL;
            coverage->verdict = o ? o->verdict : TMK_LINEAGE_DEAD;
            if (coverage->record && o->verdict == TMK_LINEAGE_SAME &&
                strcmp(coverage->record->name, range->name) == 0)
                coverage->kind = TMK_COVERAGE_MATCHED;
        }
        if (!coverage->record)
            coverage->kind = TMK_COVERAGE_MISSING;
        else if (!coverage->record->stats)
            coverage->kind = TMK_COVERAGE_UNSEEN;
        else if (coverage->kind == TMK_COVERAGE_MATCHED || keeps_range(coverage->verdict))
            TMK_TRY(compare_range(range, coverage, diag));
    }
    return TMK_OK;
}
