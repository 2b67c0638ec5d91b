/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics counted naively, element by element, from tensors that were kept. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "graph_run.h"

struct recount {
    uint64_t count, nan, posinf, neginf, zeros, negative_zeros, denormals, negatives, samples,
        updates, excluded;
    const struct tmk_slot_config *config;
    double low, high; /* ties of zeros: -0 is below +0 */
    bool low_negative, high_negative, any;
    struct tmk_where low_at, high_at, bad_at;
    uint32_t *bits; /* of finite elements but zeros */
    size_t n_bits;
    int32_t axis;
    size_t channels;
    bool no_channels, axis_known;
    float *channel_low, *channel_high;
};

static bool earlier(const struct tmk_where *a, const struct tmk_where *b) {
    return a->sample < b->sample || (a->sample == b->sample && a->index < b->index);
}

static struct tmk_where place(const struct seen *s, size_t n, size_t i) {
    const bool cut = !s->whole && s->samples > 1 && s->tensor.shape.rank > 0 &&
                     (uint64_t)s->tensor.shape.dim[0] == s->samples;
    const size_t part = cut ? n / (size_t)s->samples : n;
    return (struct tmk_where){s->sample + (cut ? i / part : 0), cut ? i % part : i};
}

/* Order of values: by sign and magnitude. */
static int order(double a, bool a_negative, double b, bool b_negative) {
    if (a != b)
        return a < b ? -1 : 1;
    return a_negative == b_negative ? 0 : a_negative ? -1 : 1;
}

static void take_extremes(struct recount *r, double x, bool negative, const struct tmk_where *at) {
    const int low = r->any ? order(x, negative, r->low, r->low_negative) : -1,
              high = r->any ? order(x, negative, r->high, r->high_negative) : 1;
    if (low < 0 || (low == 0 && earlier(at, &r->low_at))) {
        r->low = x;
        r->low_negative = negative;
        r->low_at = *at;
    }
    if (high > 0 || (high == 0 && earlier(at, &r->high_at))) {
        r->high = x;
        r->high_negative = negative;
        r->high_at = *at;
    }
    r->any = true;
}

/* Constants that are there once are never left out. */
static bool left_out(const struct recount *r, float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    for (size_t i = 0; i < r->config->n_exclude; i++)
        if (bits == r->config->exclude[i])
            return true;
    return false;
}

static void take_channels(struct recount *r, const struct seen *s) {
    const struct tmk_shape *shape = &s->tensor.shape;
    const int32_t axis = s->axis >= 0 && s->axis < shape->rank ? s->axis : -1;
    const size_t n = tmk_tensor_count(&s->tensor),
                 channels = axis >= 0 ? (size_t)shape->dim[axis] : 0;
    if (!n)
        return;
    if (!r->axis_known) {
        r->axis_known = true;
        r->axis = axis;
        r->channels = channels;
        r->channel_low = malloc((channels + 1) * sizeof(float));
        r->channel_high = malloc((channels + 1) * sizeof(float));
        for (size_t i = 0; i < channels; i++) {
            r->channel_low[i] = INFINITY;
            r->channel_high[i] = -INFINITY;
        }
    }
    r->no_channels |= axis != r->axis || channels != r->channels;
    if (r->no_channels || !channels)
        return;
    size_t inner = 1;
    for (int32_t k = axis + 1; k < shape->rank; k++)
        inner *= (size_t)shape->dim[k];
    for (size_t i = 0; i < n; i++) {
        const float x = ((const float *)s->tensor.data)[i];
        const size_t k = i / inner % channels;
        if (!isfinite(x) || left_out(r, x))
            continue;
        if (x < r->channel_low[k])
            r->channel_low[k] = x;
        if (x > r->channel_high[k])
            r->channel_high[k] = x;
    }
}

static void take_floats(struct recount *r, const struct seen *s) {
    const size_t n = tmk_tensor_count(&s->tensor);
    for (size_t i = 0; i < n; i++) {
        const float x = ((const float *)s->tensor.data)[i];
        const struct tmk_where at = place(s, n, i);
        r->count++;
        if (left_out(r, x)) {
            r->excluded++;
            continue;
        }
        r->nan += isnan(x);
        r->posinf += isinf(x) && x > 0;
        r->neginf += isinf(x) && x < 0;
        if (!isfinite(x)) {
            if (earlier(&at, &r->bad_at))
                r->bad_at = at;
            continue;
        }
        r->zeros += x == 0;
        r->negative_zeros += x == 0 && signbit(x);
        r->denormals += x != 0 && fabsf(x) < 0x1p-126f;
        r->negatives += x < 0;
        take_extremes(r, (double)x, signbit(x), &at);
        if (x != 0)
            memcpy(&r->bits[r->n_bits++], &x, sizeof x);
    }
    take_channels(r, s);
}

static int64_t integer_at(const struct tmk_tensor *t, size_t i) {
    switch (t->dtype) {
    case TMK_INT64:
        return ((const int64_t *)t->data)[i];
    case TMK_UINT64: {
        const uint64_t x = ((const uint64_t *)t->data)[i];
        return x > INT64_MAX ? INT64_MAX : (int64_t)x;
    }
    case TMK_INT32:
        return ((const int32_t *)t->data)[i];
    case TMK_UINT32:
        return ((const uint32_t *)t->data)[i];
    case TMK_INT16:
        return ((const int16_t *)t->data)[i];
    case TMK_UINT16:
        return ((const uint16_t *)t->data)[i];
    case TMK_INT8:
    case TMK_INT4:
        return ((const int8_t *)t->data)[i];
    default:
        return ((const uint8_t *)t->data)[i];
    }
}

static bool tell_count(struct check *c, uint32_t slot, const char *what, double is,
                       double counted) {
    return says(c, "'%s' (slot %u, rule %d): %s is %.17g, counted: %.17g",
                c->scene.observers[slot].tensor_name, slot, (int)c->scene.configs[slot].rule, what,
                is, counted);
}

#define HOLDS(what, is, counted)                                                                   \
    do {                                                                                           \
        if ((is) != (counted))                                                                     \
            return tell_count(c, slot, what, (double)(is), (double)(counted));                     \
    } while (0)

static bool integers_agree(struct check *c, uint32_t slot, const struct slot_log *log,
                           const struct tmk_account *account, uint64_t samples, bool places) {
    const struct tmk_int_stats *s = &account->ints;
    uint64_t count = 0, zeros = 0;
    int64_t min = INT64_MAX, max = INT64_MIN;
    struct tmk_where min_at = {TMK_NOWHERE, TMK_NOWHERE}, max_at = min_at;
    for (uint32_t k = 0; k < log->n; k++) {
        const size_t n = tmk_tensor_count(&log->items[k].tensor);
        for (size_t i = 0; i < n; i++) {
            const int64_t x = integer_at(&log->items[k].tensor, i);
            const struct tmk_where at = place(&log->items[k], n, i);
            count++;
            zeros += x == 0;
            if (x < min || (x == min && earlier(&at, &min_at))) {
                min = x;
                min_at = at;
            }
            if (x > max || (x == max && earlier(&at, &max_at))) {
                max = x;
                max_at = at;
            }
        }
    }
    HOLDS("count", s->count, count);
    HOLDS("zeros", s->zeros, zeros);
    HOLDS("samples", s->samples, samples);
    HOLDS("updates", s->updates, log->n);
    if (!count)
        return true;
    HOLDS("min", s->min, min);
    HOLDS("max", s->max, max);
    if (places) {
        HOLDS("sample of min", s->min_at.sample, min_at.sample);
        HOLDS("index of min", s->min_at.index, min_at.index);
        HOLDS("sample of max", s->max_at.sample, max_at.sample);
        HOLDS("index of max", s->max_at.index, max_at.index);
    }
    return true;
}

static int by_bits(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static bool bins_agree(struct check *c, uint32_t slot, const struct tmk_stats *stats,
                       const struct tmk_summary *s, struct recount *r) {
    const unsigned dropped = s->level == TMK_STATS_HISTOGRAM ? 16 : 23;
    uint16_t *bin = malloc((s->bins_used + 1) * sizeof *bin);
    uint64_t *count = malloc((s->bins_used + 1) * sizeof *count),
             *low = malloc((s->bins_used + 1) * sizeof *low);
    tmk_stats_bins(stats, bin, count, low);
    qsort(r->bits, r->n_bits, sizeof *r->bits, by_bits);
    bool good = true;
    uint32_t row = 0;
    for (size_t i = 0; good && i < r->n_bits; row++) {
        const uint32_t key = r->bits[i] >> dropped;
        uint64_t n = 0, sum = 0;
        for (; i < r->n_bits && r->bits[i] >> dropped == key; i++, n++)
            sum += r->bits[i] & ((1u << dropped) - 1);
        if (row >= s->bins_used || bin[row] != (uint16_t)(key << (dropped - 16)) ||
            count[row] != n || low[row] != sum)
            good =
                says(c, "'%s' (slot %u, rule %d): bin row %u of %u is not %u elements of bin %u",
                     c->scene.observers[slot].tensor_name, slot, (int)c->scene.configs[slot].rule,
                     row, s->bins_used, (unsigned)n, key << (dropped - 16));
    }
    free(bin);
    free(count);
    free(low);
    return good && (row == s->bins_used || tell_count(c, slot, "bins", s->bins_used, row));
}

static bool floats_agree(struct check *c, uint32_t slot, const struct tmk_account *account,
                         struct recount *r, bool places) {
    struct tmk_summary s;
    tmk_stats_summary(account->floats, &s);
    HOLDS("count", s.count, r->count);
    HOLDS("NaN", s.nan, r->nan);
    HOLDS("infinities", s.posinf, r->posinf);
    HOLDS("negative infinities", s.neginf, r->neginf);
    HOLDS("left out", s.excluded, r->excluded);
    HOLDS("zeros", s.zeros, r->zeros);
    HOLDS("negative zeros", s.negative_zeros, r->negative_zeros);
    HOLDS("samples", s.samples, r->samples);
    HOLDS("updates", s.updates, r->updates);
    if (r->any) {
        HOLDS("min", s.min, (float)r->low);
        HOLDS("max", s.max, (float)r->high);
        HOLDS("sign of min", signbit(s.min) != 0, r->low_negative);
        HOLDS("sign of max", signbit(s.max) != 0, r->high_negative);
    } else if (!isnan(s.min) || !isnan(s.max)) {
        return tell_count(c, slot, "min", (double)s.min, NAN);
    }
    if (places) {
        HOLDS("sample of the first that is not finite", s.first_nonfinite.sample, r->bad_at.sample);
        if (r->bad_at.sample != TMK_NOWHERE)
            HOLDS("index of the first that is not finite", s.first_nonfinite.index,
                  r->bad_at.index);
    }
    if (places && r->any) {
        HOLDS("sample of min", s.min_at.sample, r->low_at.sample);
        HOLDS("index of min", s.min_at.index, r->low_at.index);
        HOLDS("sample of max", s.max_at.sample, r->high_at.sample);
        HOLDS("index of max", s.max_at.index, r->high_at.index);
        const size_t channels = r->no_channels ? 0 : r->channels;
        HOLDS("channels", s.channels, channels);
        for (size_t i = 0; i < channels; i++) {
            HOLDS("min of a channel", s.channel_min[i], r->channel_low[i]);
            HOLDS("max of a channel", s.channel_max[i], r->channel_high[i]);
        }
    }
    if (s.level == TMK_STATS_MINMAX)
        return true;
    HOLDS("denormals", s.denormals, r->denormals);
    HOLDS("negatives", s.negatives, r->negatives);
    return bins_agree(c, slot, account->floats, &s, r);
}

/* ---- samples ---- */

/* What each sample of the run holds of a value. Constants belong to no sample. */
struct each {
    struct tmk_minmax *range;
    bool *there;
    uint64_t n;
};

static struct each each_of(const struct recount *r, const struct slot_log *log) {
    const struct seen *last = &log->items[log->n - 1];
    struct each each = {.n = last->sample + last->samples};
    each.range = calloc((size_t)each.n + 1, sizeof *each.range);
    each.there = calloc((size_t)each.n + 1, sizeof *each.there);
    for (uint64_t i = 0; i < each.n; i++)
        each.range[i] = tmk_minmax_empty();
    for (uint32_t k = 0; k < log->n; k++) {
        const struct seen *s = &log->items[k];
        const size_t n = tmk_tensor_count(&s->tensor);
        if (s->whole)
            continue;
        for (uint64_t i = 0; i < s->samples; i++)
            each.there[s->sample + i] = true;
        for (size_t i = 0; i < n; i++) {
            const float x = ((const float *)s->tensor.data)[i];
            const uint64_t own = place(s, n, i).sample;
            const bool cut = n && place(s, n, n - 1).sample != s->sample;
            struct tmk_minmax one = tmk_minmax_empty();
            if (isfinite(x))
                one.min = one.max = x;
            one.neginf = isinf(x) && x < 0;
            one.posinf = isinf(x) && x > 0;
            if (left_out(r, x) || isnan(x))
                continue;
            for (uint64_t t = 0; t < s->samples; t++)
                if (!cut || s->sample + t == own)
                    tmk_minmax_merge(&each.range[s->sample + t], &one);
        }
    }
    return each;
}

static bool samples_agree(struct check *c, uint32_t slot, const struct tmk_account *account,
                          const struct each *each) {
    const struct tmk_samples *s = &account->samples;
    size_t at = 0;
    for (uint64_t i = 0; i < each->n; i++) {
        const struct tmk_minmax *want = &each->range[i];
        if (!each->there[i])
            continue;
        HOLDS("samples with extremes", at < s->n, true);
        HOLDS("a sample", s->sample[at], i);
        HOLDS("a sample's min", s->range[at].min, want->min);
        HOLDS("a sample's max", s->range[at].max, want->max);
        HOLDS("a sample's sign of min", signbit(s->range[at].min) != 0, signbit(want->min) != 0);
        HOLDS("a sample's sign of max", signbit(s->range[at].max) != 0, signbit(want->max) != 0);
        HOLDS("a sample's -infinity", s->range[at].neginf, want->neginf);
        HOLDS("a sample's infinity", s->range[at].posinf, want->posinf);
        at++;
    }
    HOLDS("number of samples with extremes", s->n, at);
    return true;
}

bool recount_agrees(struct check *c, uint32_t slot, const struct slot_log *log,
                    const struct tmk_account *account) {
    struct recount r = {.bad_at = {TMK_NOWHERE, TMK_NOWHERE}};
    size_t elements = 0;
    bool places = true;
    HOLDS("runs", account->runs, log->n);
    if (!log->n)
        return true;
    for (uint32_t i = 0; i < log->n; i++) {
        const struct seen *s = &log->items[i];
        elements += tmk_tensor_count(&s->tensor);
        places &= !s->whole;
        if (!i || log->items[i - 1].batch != s->batch)
            r.samples += s->initializer ? 1 : s->samples;
    }
    HOLDS("elements", account->elements, elements);
    HOLDS("type", account->dtype, log->items[0].tensor.dtype);
    c->tally->recounts++;
    if (account->dtype != TMK_FLOAT32)
        return integers_agree(c, slot, log, account, r.samples, places);
    r.updates = log->n;
    r.config = &c->scene.configs[slot];
    r.bits = malloc((elements + 1) * sizeof *r.bits);
    for (uint32_t i = 0; i < log->n; i++)
        take_floats(&r, &log->items[i]);
    bool good = floats_agree(c, slot, account, &r, places);
    if (good && r.config->per_sample) {
        const struct each each = each_of(&r, log);
        good = samples_agree(c, slot, account, &each);
        free(each.range);
        free(each.there);
    }
    free(r.bits);
    free(r.channel_low);
    free(r.channel_high);
    return good;
}
