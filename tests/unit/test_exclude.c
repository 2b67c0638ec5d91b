/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that are left out, against data in which they are NaN. */
#include "stats_data.h"

#include "exec/account.h"

enum { MOST_LEFT_OUT = 4 };

static void look(struct tmk_account *account, const struct tmk_slot_config *config, const float *x,
                 const struct tmk_shape *shape, const struct tmk_stats_at *at) {
    struct tmk_tensor tensor = {0};
    tmk_tensor_borrow(&tensor, TMK_FLOAT32, shape, (void *)(uintptr_t)x);
    must(tmk_account_look(account, config, &tensor, at, DIAG));
}

static void assert_same_numbers(const struct tmk_account *a, const struct tmk_account *b,
                                uint64_t left_out) {
    struct tmk_summary x, y;
    enum { BINS = 65536 };
    static uint16_t bin[2][BINS];
    static uint64_t count[2][BINS], low[2][BINS];
    tmk_stats_summary(a->floats, &x);
    tmk_stats_summary(b->floats, &y);
    assert_int_equal(x.excluded, left_out);
    assert_int_equal(x.nan + left_out, y.nan);
    assert_int_equal(x.count, y.count);
    assert_int_equal(x.finite, y.finite);
    assert_int_equal(x.zeros, y.zeros);
    assert_int_equal(x.negative_zeros, y.negative_zeros);
    assert_int_equal(x.posinf + x.neginf, y.posinf + y.neginf);
    assert_int_equal(x.bins_used, y.bins_used);
    assert_true(x.finite == 0 || (tmk_bits_of_float(x.min) == tmk_bits_of_float(y.min) &&
                                  tmk_bits_of_float(x.max) == tmk_bits_of_float(y.max)));
    assert_memory_equal(&x.min_at, &y.min_at, sizeof x.min_at);
    assert_memory_equal(&x.max_at, &y.max_at, sizeof x.max_at);
    assert_int_equal(x.channels, y.channels);
    for (size_t c = 0; c < x.channels; c++)
        assert_true(x.channel_min[c] == y.channel_min[c] && x.channel_max[c] == y.channel_max[c]);
    tmk_stats_bins(a->floats, bin[0], count[0], low[0]);
    tmk_stats_bins(b->floats, bin[1], count[1], low[1]);
    assert_memory_equal(bin[0], bin[1], x.bins_used * sizeof bin[0][0]);
    assert_memory_equal(count[0], count[1], x.bins_used * sizeof count[0][0]);
    assert_memory_equal(low[0], low[1], x.bins_used * sizeof low[0][0]);
    assert_int_equal(a->topk.n, b->topk.n);
    for (uint32_t i = 0; i < a->topk.n; i++)
        assert_true(a->topk.min[i].sample == b->topk.min[i].sample &&
                    a->topk.max[i].value == b->topk.max[i].value);
}

static void assert_encoding_comes_back(const struct tmk_stats *stats) {
    struct tmk_text bytes = {0}, again = {0};
    struct tmk_stats *back;
    tmk_stats_encode(stats, &bytes);
    must(tmk_stats_decode(bytes.data, bytes.len, &back, DIAG));
    tmk_stats_encode(back, &again);
    assert_int_equal(bytes.len, again.len);
    assert_memory_equal(bytes.data, again.data, bytes.len);
    tmk_stats_destroy(&back);
    tmk_text_finish(&bytes);
    tmk_text_finish(&again);
}

/* Batches of some samples, by two workers, whose accounts are merged. */
TEST(what_is_left_out_is_in_nothing) {
    for (int round = 0; round < 500; round++) {
        uint32_t left_out[MOST_LEFT_OUT];
        size_t n_left_out = 1 + next() % MOST_LEFT_OUT;
        const struct tmk_shape shape = {
            3,
            {1 + (int64_t)(next() % 3), 1 + (int64_t)(next() % 20), 1 + (int64_t)(next() % 200)}};
        size_t n, family = next() % TMK_COUNT(families);
        assert_true(tmk_shape_count(&shape, &n));
        float *sample = data_of(family, 64);
        for (size_t e = 0; e < n_left_out; e++) {
            float chosen = sample[next() % 64];
            left_out[e] = tmk_bits_of_float(isfinite(chosen) ? chosen : -65504);
        }
        struct tmk_slot_config config = {.level = (enum tmk_stats_level)(1 + round % 3),
                                         .topk = true,
                                         .exclude = left_out,
                                         .n_exclude = n_left_out,
                                         .label = "x"},
                               plain = config;
        plain.n_exclude = 0;
        struct tmk_account with[2] = {{0}}, without[2] = {{0}};
        uint64_t count = 0;
        struct tmk_where nonfinite = tmk_nowhere;
        for (uint64_t batch = 0; batch < 4; batch++) {
            const struct tmk_stats_at at = {batch * 3, (uint64_t)shape.dim[0], round % 2 ? 1 : -1,
                                            false, 0};
            float *x = data_of(family, n), *y = malloc((n + 1) * sizeof *y);
            assert_non_null(y);
            for (size_t i = 0; i < n; i++) {
                bool out = false;
                if (next() % 5 == 0) /* often enough, whatever the family */
                    x[i] = tmk_float_of_bits(left_out[next() % n_left_out]);
                for (size_t e = 0; e < n_left_out; e++)
                    out |= tmk_bits_of_float(x[i]) == left_out[e];
                y[i] = out ? NAN : x[i];
                count += out;
                size_t part = n / (size_t)shape.dim[0];
                if (!out && !isfinite(x[i]))
                    tmk_where_earlier(&nonfinite,
                                      (struct tmk_where){at.sample + i / part, i % part});
            }
            uint64_t who = next() % 2;
            look(&with[who], &config, x, &shape, &at);
            look(&without[who], &plain, y, &shape, &at);
            free(x);
            free(y);
        }
        must(tmk_account_merge(&with[0], &with[1], 1, &config, DIAG));
        must(tmk_account_merge(&without[0], &without[1], 1, &plain, DIAG));
        assert_same_numbers(&with[0], &without[0], count);
        assert_encoding_comes_back(with[0].floats);
        struct tmk_summary s;
        tmk_stats_quick_summary(with[0].floats, &s);
        assert_int_equal(s.first_nonfinite.sample, nonfinite.sample);
        assert_int_equal(s.first_nonfinite.index, nonfinite.index);
        for (int i = 0; i < 2; i++) {
            tmk_account_finish(&with[i]);
            tmk_account_finish(&without[i]);
        }
        free(sample);
    }
}

/* What stands in for it meanwhile is a NaN, too. */
TEST(every_nan_stays_one) {
    static const uint32_t nans[] = {0x7fc00000, 0x7f800001, 0x7fffffff, 0xffffffff, 0xffc00000};
    float x[TMK_COUNT(nans) + 2];
    for (size_t i = 0; i < TMK_COUNT(nans); i++)
        x[i] = tmk_float_of_bits(nans[i]);
    x[TMK_COUNT(nans)] = -1e9f;
    x[TMK_COUNT(nans) + 1] = 2;
    const uint32_t mask = tmk_bits_of_float(-1e9f);
    const struct tmk_slot_config config = {
        .level = TMK_STATS_HISTOGRAM, .exclude = &mask, .n_exclude = 1, .label = "x"};
    const struct tmk_shape shape = {1, {TMK_COUNT(x)}};
    const struct tmk_stats_at at = {0, 1, -1, false, 0};
    struct tmk_account account = {0};
    struct tmk_summary s;
    look(&account, &config, x, &shape, &at);
    tmk_stats_summary(account.floats, &s);
    assert_int_equal(s.nan, TMK_COUNT(nans));
    assert_int_equal(s.excluded, 1);
    assert_true(s.min == 2 && s.max == 2 && s.sum == 2);
    tmk_account_finish(&account);
}
