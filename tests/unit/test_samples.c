/* SPDX-License-Identifier: Apache-2.0 */
/* Extremes of each sample, against looking at each element. */
#include "stats_data.h"

#include "exec/account.h"
#include "exec/derive.h"

static struct tmk_shape random_shape(void) {
    struct tmk_shape shape = {2 + (int32_t)(next() % 3), {0}};
    for (int32_t i = 0; i < shape.rank; i++)
        shape.dim[i] = (int64_t)(1 + next() % (i == 1 ? 40 : i == 0 ? 5 : 12));
    if (next() % 12 == 0)
        shape.dim[next() % (uint64_t)shape.rank] = next() % 2 ? 0 : 300;
    return shape;
}

/* Where an element lies in memory. */
static size_t place_of(const struct tmk_shape *shape, uint32_t block, size_t i) {
    if (block < 2)
        return i;
    size_t inner = 1, cut = (size_t)shape->dim[1], padded = (cut + block - 1) / block * block;
    for (int32_t k = 2; k < shape->rank; k++)
        inner *= (size_t)shape->dim[k];
    size_t outer = i / inner / cut, c = i / inner % cut, at = i % inner;
    return ((outer * padded + c / block * block) * inner) + at * block + c % block;
}

static void take(struct tmk_minmax *range, float x) {
    range->neginf |= x == -INFINITY;
    range->posinf |= x == INFINITY;
    if (!isfinite(x))
        return;
    int32_t key = tmk_key_of_float(x);
    range->min = key < tmk_key_of_float(range->min) ? x : range->min;
    range->max = key > tmk_key_of_float(range->max) ? x : range->max;
}

static void assert_same(const struct tmk_minmax *a, const struct tmk_minmax *b) {
    assert_int_equal(tmk_bits_of_float(a->min), tmk_bits_of_float(b->min));
    assert_int_equal(tmk_bits_of_float(a->max), tmk_bits_of_float(b->max));
    assert_int_equal(a->neginf, b->neginf);
    assert_int_equal(a->posinf, b->posinf);
}

enum { MOST_SAMPLES = 300 };

static void naive(struct tmk_minmax *each, const struct tmk_shape *shape, uint64_t samples,
                  const float *x, size_t n) {
    bool cut = (uint64_t)shape->dim[0] == samples;
    size_t part = cut && samples ? n / (size_t)samples : n;
    for (uint64_t s = 0; s < samples; s++)
        for (size_t i = 0; i < part; i++)
            take(&each[s], x[(cut ? s * part : 0) + i]);
}

static float *laid_out(const struct tmk_shape *shape, uint32_t block, const float *x, size_t n,
                       size_t *places) {
    *places = n;
    if (block > 1 && n)
        *places = n / (size_t)shape->dim[1] * (((size_t)shape->dim[1] + block - 1) / block * block);
    float *y = malloc((*places + 1) * sizeof *y);
    assert_non_null(y);
    for (size_t i = 0; i < *places; i++)
        y[i] = -INFINITY; /* a trap, where it only fills up */
    for (size_t i = 0; i < n; i++)
        y[place_of(shape, block, i)] = x[i];
    return y;
}

/* The pieces are handed over from the last to the first. */
static void see(struct tmk_account *account, const struct tmk_slot_config *config,
                const struct tmk_shape *shape, const float *y, size_t places,
                const struct tmk_stats_at *at) {
    struct tmk_tensor tensor = {0};
    tmk_tensor_borrow(&tensor, TMK_FLOAT32, shape, (void *)(uintptr_t)y);
    if (next() % 2) {
        must(tmk_account_look(account, config, &tensor, at, DIAG));
        return;
    }
    tensor.data = NULL;
    must(tmk_account_begin(account, config, &tensor, at, DIAG));
    for (size_t left = places; left > 0;) {
        size_t n = 1 + next() % (next() % 2 ? 40 : 4000);
        n = n < left ? n : left;
        left -= n;
        must(tmk_account_piece(account, config, y + left, left, n, DIAG));
    }
    must(tmk_account_end(account, config, DIAG));
}

TEST(layouts_and_pieces_do_not_show) {
    static const uint32_t blocks[] = {0, 2, 5, 8, 16, 32};
    for (int round = 0; round < 600; round++) {
        struct tmk_shape shape = random_shape();
        size_t n, places;
        assert_true(tmk_shape_count(&shape, &n));
        uint32_t block = blocks[next() % TMK_COUNT(blocks)];
        uint64_t samples = next() % 3 && shape.dim[0] ? (uint64_t)shape.dim[0] : 1 + next() % 3;
        float *x = data_of(next() % TMK_COUNT(families), n),
              *y = laid_out(&shape, block, x, n, &places);
        struct tmk_minmax each[MOST_SAMPLES];
        for (uint64_t s = 0; s < samples; s++)
            each[s] = tmk_minmax_empty();
        naive(each, &shape, samples, x, n);
        const struct tmk_slot_config config = {
            .level = (enum tmk_stats_level)(1 + round % 3), .per_sample = true, .label = "x"};
        const struct tmk_stats_at at = {70, samples, next() % 2 ? 1 : -1, false, block};
        struct tmk_account account = {0};
        see(&account, &config, &shape, y, places, &at);
        if (round % 2) /* again, as in a loop */
            see(&account, &config, &shape, y, places, &at);
        assert_int_equal(account.samples.n, samples);
        for (uint64_t s = 0; s < samples; s++) {
            assert_int_equal(account.samples.sample[s], 70 + s);
            assert_same(&account.samples.range[s], &each[s]);
        }
        tmk_account_finish(&account);
        free(x);
        free(y);
    }
}

TEST(nothing_is_kept_that_was_not_asked_for) {
    const float x[4] = {1, 2, 3, 4};
    const struct tmk_shape shape = {2, {1, 4}};
    const struct tmk_slot_config config = {.level = TMK_STATS_MINMAX, .label = "x"};
    const struct tmk_stats_at at = {0, 1, -1, false, 0};
    struct tmk_account account = {0};
    see(&account, &config, &shape, x, 4, &at);
    assert_int_equal(account.samples.n, 0);
    tmk_account_finish(&account);
}

/* What y = clamp(x) of these elements spans. */
static struct tmk_minmax of_clamped(const struct tmk_clamp *clamp, const float *x, size_t n) {
    struct tmk_minmax range = tmk_minmax_empty();
    for (size_t i = 0; i < n; i++)
        take(&range, x[i] <= clamp->lo ? clamp->lo : x[i] >= clamp->hi ? clamp->hi : x[i]);
    return range;
}

TEST(clamped_extents_are_those_of_clamped_elements) {
    static const struct tmk_clamp clamps[] = {{0, INFINITY},  {0, 6},     {-1, 1},
                                              {-INFINITY, 0}, {-0.0f, 2}, {-INFINITY, INFINITY}};
    for (int round = 0; round < 5000; round++) {
        const struct tmk_clamp *clamp = &clamps[next() % TMK_COUNT(clamps)];
        size_t n = next() % 6;
        float *x = data_of(next() % TMK_COUNT(families), n);
        struct tmk_minmax range = tmk_minmax_empty(), truth = of_clamped(clamp, x, n);
        for (size_t i = 0; i < n; i++)
            take(&range, x[i]);
        tmk_minmax_clamp(&range, clamp);
        assert_same(&range, &truth);
        free(x);
    }
}

static void fill_samples(struct tmk_samples *samples, const bool *has, size_t n, float *x) {
    for (size_t s = 0; s < n; s++) {
        struct tmk_minmax *range;
        if (!has[s])
            continue;
        must(tmk_samples_open(samples, 1000 + s, 1, &range, DIAG));
        take(range, x[s]);
    }
}

TEST(merging_joins_what_each_worker_saw) {
    enum { MOST = 300 };
    for (int round = 0; round < 300; round++) {
        size_t n = next() % MOST, at = 0;
        float *x = data_of(0, MOST), *y = data_of(0, MOST);
        bool in_a[MOST], in_b[MOST];
        for (size_t s = 0; s < n; s++) {
            in_a[s] = next() % 3;
            in_b[s] = next() % 2;
        }
        struct tmk_samples a = {0}, b = {0};
        fill_samples(&a, in_a, n, x);
        fill_samples(&b, in_b, n, y);
        must(tmk_samples_merge(&a, &b, DIAG));
        for (size_t s = 0; s < n; s++) {
            struct tmk_minmax truth = tmk_minmax_empty();
            if (!in_a[s] && !in_b[s])
                continue;
            if (in_a[s])
                take(&truth, x[s]);
            if (in_b[s])
                take(&truth, y[s]);
            assert_int_equal(a.sample[at], 1000 + s);
            assert_same(&a.range[at++], &truth);
        }
        assert_int_equal(a.n, at);
        tmk_samples_finish(&a);
        tmk_samples_finish(&b);
        free(x);
        free(y);
    }
}

TEST(samples_cannot_be_put_between_others) {
    struct tmk_samples samples = {0};
    struct tmk_minmax *range;
    must(tmk_samples_open(&samples, 5, 2, &range, DIAG));
    must(tmk_samples_open(&samples, 9, 2, &range, DIAG));
    must(tmk_samples_open(&samples, 5, 2, &range, DIAG));
    assert_ptr_equal(range, samples.range);
    assert_int_equal(samples.n, 4);
    assert_int_equal(tmk_samples_open(&samples, 7, 1, &range, DIAG), TMK_ARGUMENT);
    assert_int_equal(tmk_samples_open(&samples, 10, 2, &range, DIAG), TMK_ARGUMENT);
    assert_int_equal(samples.n, 4);
    tmk_samples_finish(&samples);
}

/* A value, its Relu, and the two side by side. */
TEST(derived_values_have_extents_too) {
    uint32_t relu_from[] = {0}, concat_from[] = {0, 1};
    const struct tmk_clamp relu = {0, INFINITY};
    const struct tmk_slot_config configs[] = {{.level = TMK_STATS_RANGE,
                                               .per_sample = true,
                                               .label = "x",
                                               .shadowed = true,
                                               .shadow = relu},
                                              {.level = TMK_STATS_RANGE,
                                               .per_sample = true,
                                               .label = "y",
                                               .rule = TMK_DERIVE_CLAMP,
                                               .clamp = relu,
                                               .sources = relu_from,
                                               .n_sources = 1},
                                              {.level = TMK_STATS_RANGE,
                                               .per_sample = true,
                                               .label = "z",
                                               .rule = TMK_DERIVE_CONCAT,
                                               .axis = 1,
                                               .sources = concat_from,
                                               .n_sources = 2}};
    struct tmk_account accounts[3] = {{0}};
    enum { SAMPLES = 40, WIDTH = 6 };
    const struct tmk_shape shape = {2, {1, WIDTH}}, wide_shape = {2, {1, 2 * WIDTH}};
    float *x = data_of(5, SAMPLES * WIDTH);
    for (uint64_t s = 0; s < SAMPLES; s++) {
        const struct tmk_stats_at at = {s, 1, -1, false, 0};
        struct tmk_tensor tensor = {0};
        tmk_tensor_borrow(&tensor, TMK_FLOAT32, &shape, x + s * WIDTH);
        must(tmk_account_look(&accounts[0], &configs[0], &tensor, &at, DIAG));
        tensor.data = NULL;
        must(tmk_account_look(&accounts[1], &configs[1], &tensor, &at, DIAG));
        tmk_tensor_borrow(&tensor, TMK_FLOAT32, &wide_shape, NULL);
        must(tmk_account_look(&accounts[2], &configs[2], &tensor, &at, DIAG));
        tmk_derive_note(accounts, configs, 3, &at);
    }
    must(tmk_derive_all(accounts, configs, 3, DIAG));
    for (uint64_t s = 0; s < SAMPLES; s++) {
        struct tmk_minmax whole = tmk_minmax_empty(),
                          clamped = of_clamped(&relu, x + s * WIDTH, WIDTH);
        for (size_t i = 0; i < WIDTH; i++)
            take(&whole, x[s * WIDTH + i]);
        assert_same(&accounts[0].samples.range[s], &whole);
        assert_same(&accounts[1].samples.range[s], &clamped);
        tmk_minmax_merge(&whole, &clamped);
        assert_same(&accounts[2].samples.range[s], &whole);
    }
    for (size_t i = 0; i < 3; i++)
        tmk_account_finish(&accounts[i]);
    free(x);
}
