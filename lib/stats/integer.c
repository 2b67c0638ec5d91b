/* SPDX-License-Identifier: Apache-2.0 */
/* The account of integers. */
#include <string.h>

#include "base/diag.h"
#include "stats/codec.h"
#include "stats/state.h"
#include "tensor/shape.h"

static const char magic[] = {'T', 'M', 'K', 'I', 1}; /* and the version */

struct run {
    uint64_t zeros, saturated;
    int64_t min, max;
    size_t min_at, max_at;
};

static inline void add_value(struct run *run, int64_t value, size_t i) {
    run->zeros += value == 0;
    if (value < run->min || i == 0) {
        run->min = value;
        run->min_at = i;
    }
    if (value > run->max || i == 0) {
        run->max = value;
        run->max_at = i;
    }
}

/* Elements of one C type, at any alignment. */
#define DEFINE_RUN(name, type)                                                                     \
    static void name(const char *data, size_t n, struct run *run) {                                \
        for (size_t i = 0; i < n; i++) {                                                           \
            type value;                                                                            \
            memcpy(&value, data + i * sizeof value, sizeof value);                                 \
            add_value(run, (int64_t)value, i);                                                     \
        }                                                                                          \
    }
DEFINE_RUN(run_i8, int8_t)
DEFINE_RUN(run_u8, uint8_t)
DEFINE_RUN(run_i16, int16_t)
DEFINE_RUN(run_u16, uint16_t)
DEFINE_RUN(run_i32, int32_t)
DEFINE_RUN(run_u32, uint32_t)
DEFINE_RUN(run_i64, int64_t)

static void run_bool(const char *data, size_t n, struct run *run) {
    for (size_t i = 0; i < n; i++)
        add_value(run, data[i] != 0, i);
}

static void run_u64(const char *data, size_t n, struct run *run) {
    for (size_t i = 0; i < n; i++) {
        uint64_t value;
        memcpy(&value, data + i * sizeof value, sizeof value);
        run->saturated += value > INT64_MAX;
        add_value(run, value > INT64_MAX ? INT64_MAX : (int64_t)value, i);
    }
}

static void (*run_of(enum tmk_dtype dtype))(const char *, size_t, struct run *) {
    switch (dtype) {
    case TMK_BOOL:
        return run_bool;
    case TMK_INT2:
    case TMK_INT4:
    case TMK_INT8:
        return run_i8;
    case TMK_UINT2:
    case TMK_UINT4:
    case TMK_UINT8:
        return run_u8;
    case TMK_INT16:
        return run_i16;
    case TMK_UINT16:
        return run_u16;
    case TMK_INT32:
        return run_i32;
    case TMK_UINT32:
        return run_u32;
    case TMK_INT64:
        return run_i64;
    case TMK_UINT64:
        return run_u64;
    default:
        return NULL;
    }
}

bool tmk_int_stats_supports(enum tmk_dtype dtype) {
    return run_of(dtype) != NULL;
}

enum tmk_status tmk_int_stats_update(struct tmk_int_stats *stats, enum tmk_dtype dtype,
                                     const void *data, const struct tmk_shape *shape,
                                     const struct tmk_stats_at *at, struct tmk_diag *diag) {
    size_t n;
    uint64_t unused;
    void (*walk)(const char *, size_t, struct run *) = run_of(dtype);
    if (!walk)
        return tmk_fail(diag, TMK_TYPE, "%s is no integer type", tmk_dtype_name(dtype));
    if (!tmk_shape_count(shape, &n))
        return tmk_fail(diag, TMK_SHAPE, "a tensor of shape %s cannot be observed",
                        TMK_SHAPE_TEXT(shape));
    if (__builtin_add_overflow(at->sample, at->samples, &unused))
        return tmk_fail(diag, TMK_ARGUMENT, "sample indices overflow");
    struct tmk_int_stats seen = {.count = n, .samples = at->again ? 0 : at->samples, .updates = 1};
    if (n > 0) {
        size_t part = tmk_stats_cuts(shape, at) ? n / (size_t)at->samples : n;
        struct run run = {0};
        walk(data, n, &run);
        seen.zeros = run.zeros;
        seen.saturated = run.saturated;
        seen.min = run.min;
        seen.max = run.max;
        seen.min_at = (struct tmk_where){at->sample + run.min_at / part, run.min_at % part};
        seen.max_at = (struct tmk_where){at->sample + run.max_at / part, run.max_at % part};
    }
    return tmk_int_stats_merge(stats, &seen, diag);
}

static bool add_times(uint64_t *to, uint64_t value, uint64_t times) {
    return !__builtin_mul_overflow(value, times, &value) && !__builtin_add_overflow(*to, value, to);
}

enum tmk_status tmk_int_stats_merge_times(struct tmk_int_stats *dst,
                                          const struct tmk_int_stats *src, uint64_t times,
                                          struct tmk_diag *diag) {
    struct tmk_int_stats sum = *dst;
    /* zeros and saturated are at most count */
    if (!add_times(&sum.count, src->count, times) ||
        !add_times(&sum.samples, src->samples, times) ||
        !add_times(&sum.updates, src->updates, times))
        return tmk_fail(diag, TMK_RANGE, "more elements than statistics can count");
    sum.zeros += src->zeros * times;
    sum.saturated += src->saturated * times;
    if (src->count > 0 && times > 0) {
        if (dst->count == 0 || src->min < dst->min ||
            (src->min == dst->min && tmk_where_before(src->min_at, dst->min_at))) {
            sum.min = src->min;
            sum.min_at = src->min_at;
        }
        if (dst->count == 0 || src->max > dst->max ||
            (src->max == dst->max && tmk_where_before(src->max_at, dst->max_at))) {
            sum.max = src->max;
            sum.max_at = src->max_at;
        }
    }
    *dst = sum;
    return TMK_OK;
}

enum tmk_status tmk_int_stats_merge(struct tmk_int_stats *dst, const struct tmk_int_stats *src,
                                    struct tmk_diag *diag) {
    return tmk_int_stats_merge_times(dst, src, 1, diag);
}

/* Small numbers of either sign are short: 0, -1, 1, -2 ... are 0, 1, 2, 3 ... */
static uint64_t fold_sign(int64_t value) {
    return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

static int64_t unfold_sign(uint64_t value) {
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

void tmk_int_stats_encode(const struct tmk_int_stats *stats, struct tmk_text *out) {
    tmk_text_append(out, magic, sizeof magic);
    tmk_put_number(out, stats->count);
    tmk_put_number(out, stats->zeros);
    tmk_put_number(out, stats->samples);
    tmk_put_number(out, stats->updates);
    tmk_put_number(out, stats->saturated);
    if (stats->count == 0)
        return;
    tmk_put_number(out, fold_sign(stats->min));
    tmk_put_where(out, stats->min_at);
    tmk_put_number(out, fold_sign(stats->max));
    tmk_put_where(out, stats->max_at);
}

static bool is_consistent(const struct tmk_int_stats *s) {
    uint64_t accounted;
    if (s->count == 0)
        return s->zeros == 0 && s->saturated == 0;
    bool zero_is_in = s->min <= 0 && s->max >= 0, zero_is_end = s->min == 0 || s->max == 0;
    return s->min <= s->max && !__builtin_add_overflow(s->zeros, s->saturated, &accounted) &&
           accounted <= s->count && (s->zeros == 0 || zero_is_in) &&
           (s->zeros > 0 || !zero_is_end) && (s->saturated == 0 || s->max == INT64_MAX);
}

enum tmk_status tmk_int_stats_decode(const void *bytes, size_t len, struct tmk_int_stats *out,
                                     struct tmk_diag *diag) {
    const uint8_t *start = bytes;
    struct tmk_byte_reader in = {start, start + len, false};
    struct tmk_int_stats stats = {0};
    tmk_get_literal(&in, magic, sizeof magic);
    stats.count = tmk_get_number(&in);
    stats.zeros = tmk_get_number(&in);
    stats.samples = tmk_get_number(&in);
    stats.updates = tmk_get_number(&in);
    stats.saturated = tmk_get_number(&in);
    if (stats.count > 0) {
        stats.min = unfold_sign(tmk_get_number(&in));
        stats.min_at = tmk_get_where(&in);
        stats.max = unfold_sign(tmk_get_number(&in));
        stats.max_at = tmk_get_where(&in);
    }
    if (in.failed || in.at != in.end)
        return tmk_fail(diag, TMK_FORMAT, "byte %zu of the statistics: malformed",
                        (size_t)(in.at - start));
    if (!is_consistent(&stats))
        return tmk_fail(diag, TMK_FORMAT, "invalid statistics of integers");
    *out = stats;
    return TMK_OK;
}
