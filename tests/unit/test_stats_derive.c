/* SPDX-License-Identifier: Apache-2.0 */
/* States that follow from others, against observing the result itself. */
#include "stats/shadow.h"
#include "stats_data.h"

enum { WORKERS = 3 };

/* Batches in their order or not, one state and shadow a worker. */
static size_t worker_of(size_t batch) {
    return (batch + next() % 2) % WORKERS;
}

static void observe_with(struct tmk_stats *stats, const float *x, const struct tmk_shape *shape,
                         const struct tmk_stats_at *at, struct tmk_stats_shadow *shadow) {
    struct tmk_stats_pass pass;
    size_t n;
    assert_true(tmk_shape_count(shape, &n));
    must(tmk_stats_begin(stats, shape, at, shadow, &pass, DIAG));
    for (size_t done = 0, m; done < n; done += m) {
        m = 1 + next() % 900;
        m = m < n - done ? m : n - done;
        must(tmk_stats_piece(&pass, x + done, done, m, DIAG));
    }
    must(tmk_stats_end(&pass, DIAG));
}

static struct tmk_stats_shadow *new_shadow(const struct tmk_clamp *clamp) {
    struct tmk_stats_shadow *shadow = NULL;
    must(tmk_stats_shadow_create(clamp, &shadow, DIAG));
    return shadow;
}

static void fold(struct tmk_stats **stats, struct tmk_stats_shadow **shadow) {
    size_t order[WORKERS];
    shuffle(order, WORKERS);
    for (size_t i = 1; i < WORKERS; i++) {
        size_t w = order[i], into = order[0];
        if (stats) {
            merge(stats[into], stats[w]);
            tmk_stats_destroy(&stats[w]);
        }
        if (shadow) {
            must(tmk_stats_shadow_merge(shadow[into], shadow[w], DIAG));
            tmk_stats_shadow_destroy(&shadow[w]);
        }
    }
    if (stats && order[0] != 0) {
        stats[0] = stats[order[0]];
        stats[order[0]] = NULL;
    }
    if (shadow && order[0] != 0) {
        shadow[0] = shadow[order[0]];
        shadow[order[0]] = NULL;
    }
}

static const struct tmk_clamp clamps[] = {
    {0, INFINITY},     {0, 6},       {-0.0f, 4},  {-INFINITY, 0}, {-1, 0},    {-2, 2},
    {-INFINITY, 0.5f}, {-4, -0.25f}, {0.125f, 1}, {0.7f, 1.9f},   {-1.3f, 0}, {-INFINITY, INFINITY},
    {0, 0x1p-149f},    {1, 1e30f}};

static float clamped(const struct tmk_clamp *clamp, float x) {
    return x <= clamp->lo ? clamp->lo : x >= clamp->hi ? clamp->hi : x;
}

static struct tmk_shape draw_shape(void) {
    return (struct tmk_shape){
        3, {(int64_t)(1 + next() % 4), (int64_t)(1 + next() % 40), (int64_t)(1 + next() % 60)}};
}

/* What follows from a value without squares has none. */
static void as_derived(struct tmk_stats *y, const struct tmk_stats *x) {
    struct tmk_summary is;
    tmk_stats_summary(y, &is);
    if (is.bins_used && !tmk_stats_is_narrow(x))
        tmk_stats_coarsen(y);
}

TEST(the_state_of_a_clamp_follows_from_its_input) {
    int followed = 0;
    for (int round = 0; round < 1500; round++) {
        enum tmk_stats_level level = (enum tmk_stats_level)(TMK_STATS_RANGE + round % 3);
        const struct tmk_clamp *clamp = &clamps[next() % TMK_COUNT(clamps)];
        size_t f = next() % TMK_COUNT(families), batches = 1 + next() % 5;
        struct tmk_stats *x[WORKERS], *y = empty(level), *derived = NULL;
        struct tmk_stats_shadow *shadow[WORKERS];
        for (size_t w = 0; w < WORKERS; w++) {
            x[w] = empty(level);
            shadow[w] = new_shadow(clamp);
        }
        struct tmk_shape shape = draw_shape();
        size_t order[5];
        shuffle(order, batches);
        int32_t axis = (int32_t)(next() % 4) - 1;
        uint32_t blocks[] = {0, 0, 8, 16, 3}, block = blocks[next() % TMK_COUNT(blocks)];
        for (size_t b = 0; b < batches; b++) {
            if (next() % 4 == 0)
                shape.dim[next() % 3]++;
            if (block > 1) /* what fills up has its own tests */
                shape.dim[1] = (shape.dim[1] + block - 1) / block * block;
            size_t n;
            assert_true(tmk_shape_count(&shape, &n));
            float *data = data_of(f, n), *result = malloc(n * sizeof *result);
            assert_non_null(result);
            for (size_t i = 0; i < n; i++)
                result[i] = clamped(clamp, data[i]);
            struct tmk_stats_at at = {10 * order[b], next() % 2 ? (uint64_t)shape.dim[0] : 1, axis,
                                      false, block};
            size_t w = worker_of(b);
            observe_with(x[w], data, &shape, &at, shadow[w]);
            must(tmk_stats_update(y, result, &shape, &at, DIAG));
            free(data);
            free(result);
        }
        fold(x, shadow);
        if (tmk_clamp_follows(clamp, level)) {
            followed++;
            must(tmk_stats_derive_clamp(x[0], shadow[0], &derived, DIAG));
            as_derived(y, x[0]);
            assert_true(equal(y, derived));
            reencode(&derived);
        } else {
            assert_int_equal(tmk_stats_derive_clamp(x[0], shadow[0], &derived, NULL),
                             TMK_UNSUPPORTED);
        }
        tmk_stats_destroy(&derived);
        tmk_stats_destroy(&y);
        tmk_stats_destroy(&x[0]);
        tmk_stats_shadow_destroy(&shadow[0]);
    }
    assert_true(followed > 500);
}

TEST(ends_that_begin_a_bin_follow) {
    const struct tmk_clamp relu6 = {0, 6}, odd = {-1.3f, 1}, none = {1, 1};
    assert_true(tmk_clamp_follows(&relu6, TMK_STATS_HISTOGRAM));
    assert_false(tmk_clamp_follows(&relu6, TMK_STATS_RANGE));
    assert_true(tmk_clamp_follows(&clamps[0], TMK_STATS_RANGE));
    assert_false(tmk_clamp_follows(&odd, TMK_STATS_HISTOGRAM));
    assert_true(tmk_clamp_follows(&odd, TMK_STATS_MINMAX));
    assert_false(tmk_clamp_follows(&none, TMK_STATS_MINMAX));
    struct tmk_stats_shadow *a = NULL, *b = NULL;
    assert_int_equal(tmk_stats_shadow_create(&none, &a, NULL), TMK_ARGUMENT);
    a = new_shadow(&relu6);
    b = new_shadow(&odd);
    assert_int_equal(tmk_stats_shadow_merge(a, b, NULL), TMK_MISMATCH);
    tmk_stats_shadow_destroy(&a);
    tmk_stats_shadow_destroy(&b);
    tmk_stats_shadow_destroy(&b);
}

/* A [outer, length, inner] tensor. */
struct part {
    float *x;
    size_t length;
};

static struct part join_parts(const struct part *parts, size_t n, size_t outer, size_t inner) {
    struct part all = {NULL, 0};
    for (size_t i = 0; i < n; i++)
        all.length += parts[i].length;
    all.x = malloc((outer * all.length * inner + 1) * sizeof *all.x);
    assert_non_null(all.x);
    float *to = all.x;
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < parts[i].length * inner; k++)
                *to++ = parts[i].x[o * parts[i].length * inner + k];
    return all;
}

/* Concat(Concat(a, b), Relu(c), d, a). The parts' lengths along the axis stay, the rest of the
 * shape changes from batch to batch. */
TEST(the_state_of_a_concat_follows_from_its_operands) {
    enum { A, B, C, D, LEAVES };
    for (int round = 0; round < 600; round++) {
        enum tmk_stats_level level = (enum tmk_stats_level)(TMK_STATS_RANGE + round % 3);
        bool along = round % 2;
        struct tmk_stats *leaf[LEAVES][WORKERS], *y = empty(level);
        struct tmk_stats_shadow *relu[WORKERS], *inside[WORKERS], *whole[WORKERS];
        for (size_t w = 0; w < WORKERS; w++) {
            for (size_t i = 0; i < LEAVES; i++)
                leaf[i][w] = empty(level);
            relu[w] = new_shadow(&clamps[0]);
            inside[w] = new_shadow(NULL);
            whole[w] = new_shadow(NULL);
        }
        size_t length[LEAVES], f[LEAVES], batches = 1 + next() % 5, order[5];
        size_t channels = 1 + next() % 5;
        shuffle(order, batches);
        for (size_t i = 0; i < LEAVES; i++) {
            length[i] = 1 + next() % 6;
            f[i] = next() % TMK_COUNT(families);
        }
        for (size_t b = 0; b < batches; b++) {
            /* samples, then the axis; channels are the axis or stand behind it */
            size_t samples = 1 + next() % 3, inner = along ? 1 + next() % 30 : channels;
            struct tmk_stats_at at = {10 * order[b], samples, along ? 1 : 2, false, 0};
            size_t w = worker_of(b);
            struct part parts[LEAVES];
            for (size_t i = 0; i < LEAVES; i++) {
                parts[i] = (struct part){data_of(f[i], samples * length[i] * inner), length[i]};
                struct tmk_shape shape = {3,
                                          {(int64_t)samples, (int64_t)length[i], (int64_t)inner}};
                observe_with(leaf[i][w], parts[i].x, &shape, &at, i == C ? relu[w] : NULL);
            }
            for (size_t k = 0; k < samples * length[C] * inner; k++)
                parts[C].x[k] = clamped(&clamps[0], parts[C].x[k]);
            struct part ab = join_parts(parts, 2, samples, inner);
            const struct part list[] = {ab, parts[C], parts[D], parts[A]};
            struct part all = join_parts(list, 4, samples, inner);
            struct tmk_shape shape = {3, {(int64_t)samples, (int64_t)all.length, (int64_t)inner}};
            struct tmk_stats_at without = at;
            without.channel_axis = -1;
            must(tmk_stats_update(y, all.x, &shape, &without, DIAG));
            const struct tmk_stats_operand pair[] = {
                {leaf[A][w], NULL, length[A] * inner, ab.length * inner, 0},
                {leaf[B][w], NULL, length[B] * inner, ab.length * inner, length[A] * inner}};
            tmk_stats_shadow_concat(inside[w], pair, 2, &at);
            size_t stride = all.length * inner, from_c = ab.length * inner,
                   from_d = from_c + length[C] * inner, from_a = from_d + length[D] * inner;
            const struct tmk_stats_operand four[] = {
                {NULL, inside[w], ab.length * inner, stride, 0},
                {leaf[C][w], relu[w], length[C] * inner, stride, from_c},
                {leaf[D][w], NULL, length[D] * inner, stride, from_d},
                {leaf[A][w], NULL, length[A] * inner, stride, from_a}};
            tmk_stats_shadow_concat(whole[w], four, 4, &at);
            for (size_t i = 0; i < LEAVES; i++)
                free(parts[i].x);
            free(ab.x);
            free(all.x);
        }
        struct tmk_stats *first = NULL, *rest = NULL, *derived = NULL;
        fold(leaf[A], inside);
        fold(leaf[B], whole);
        fold(leaf[C], relu);
        fold(leaf[D], NULL);
        const struct tmk_stats *const two[] = {leaf[A][0], leaf[B][0]};
        must(tmk_stats_derive_concat(two, 2, inside[0], &first, DIAG));
        must(tmk_stats_derive_clamp(leaf[C][0], relu[0], &rest, DIAG));
        const struct tmk_stats *const four[] = {first, rest, leaf[D][0], leaf[A][0]};
        must(tmk_stats_derive_concat(four, 4, whole[0], &derived, DIAG));
        as_derived(y, leaf[C][0]);
        assert_true(equal(y, derived));
        reencode(&derived);
        for (size_t i = 0; i < LEAVES; i++)
            tmk_stats_destroy(&leaf[i][0]);
        tmk_stats_destroy(&first);
        tmk_stats_destroy(&rest);
        tmk_stats_destroy(&derived);
        tmk_stats_destroy(&y);
        tmk_stats_shadow_destroy(&relu[0]);
        tmk_stats_shadow_destroy(&inside[0]);
        tmk_stats_shadow_destroy(&whole[0]);
    }
}

/* The same elements, cut by samples where the first axis counts those, in any shape. */
static struct tmk_shape other_shape(const struct tmk_shape *from) {
    const int64_t a = from->dim[0], b = from->dim[1], c = from->dim[2];
    const struct tmk_shape shapes[] = {{3, {a, b, c}}, {2, {a, b * c}},  {2, {a * b, c}},
                                       {3, {b, c, a}}, {1, {a * b * c}}, {4, {1, a, b, c}}};
    return shapes[next() % TMK_COUNT(shapes)];
}

/* Axes in reverse. */
static float *turned(const float *x, const struct tmk_shape *from, struct tmk_shape *to) {
    const size_t a = (size_t)from->dim[0], b = (size_t)from->dim[1], c = (size_t)from->dim[2];
    float *y = malloc(a * b * c * sizeof *y);
    assert_non_null(y);
    *to = (struct tmk_shape){3, {(int64_t)c, (int64_t)b, (int64_t)a}};
    for (size_t i = 0; i < a; i++)
        for (size_t j = 0; j < b; j++)
            for (size_t k = 0; k < c; k++)
                y[(k * b + j) * a + i] = x[(i * b + j) * c + k];
    return y;
}

/* A view of x, and that transposed. */
TEST(the_state_of_what_was_moved_follows) {
    size_t looks = 0, all = 0;
    for (int round = 0; round < 900; round++) {
        enum tmk_stats_level level = (enum tmk_stats_level)(TMK_STATS_RANGE + round % 3);
        struct tmk_stats *x[WORKERS], *y = empty(level), *z = empty(level), *derived = NULL;
        struct tmk_stats_shadow *view[WORKERS], *turn[WORKERS];
        for (size_t w = 0; w < WORKERS; w++) {
            x[w] = empty(level);
            view[w] = new_shadow(NULL);
            turn[w] = new_shadow(NULL);
        }
        size_t f = next() % TMK_COUNT(families), batches = 1 + next() % 5, order[5];
        shuffle(order, batches);
        for (size_t b = 0; b < batches; b++) {
            const struct tmk_shape shape = draw_shape();
            struct tmk_shape seen = other_shape(&shape), last;
            size_t n, w = worker_of(b);
            assert_true(tmk_shape_count(&shape, &n));
            float *data = data_of(f, n), *other = turned(data, &shape, &last);
            const uint64_t samples[] = {1, (uint64_t)shape.dim[0], (uint64_t)seen.dim[0],
                                        (uint64_t)last.dim[0]};
            const struct tmk_stats_at at = {10000 * order[b], samples[next() % 4], -1, false, 0};
            const struct tmk_stats_operand from_x = {.x = x[w]}, from_view = {.shadow = view[w]};
            observe_with(x[w], data, &shape, &at, NULL);
            must(tmk_stats_update(y, data, &seen, &at, DIAG));
            must(tmk_stats_update(z, other, &last, &at, DIAG));
            tmk_stats_shadow_view(view[w], &from_x, &shape, &seen, &at);
            const struct tmk_places set = tmk_places_set(&from_view, &at);
            all++;
            if (tmk_stats_shadow_needs_scan(turn[w], &set, &at)) {
                looks++;
                must(tmk_stats_shadow_scan(turn[w], other, &last, &at, NULL, 0, DIAG));
            }
            free(data);
            free(other);
        }
        fold(x, view);
        fold(NULL, turn);
        must(tmk_stats_derive_moved(x[0], view[0], &derived, DIAG));
        assert_true(equal(y, derived));
        tmk_stats_destroy(&derived);
        must(tmk_stats_derive_moved(x[0], turn[0], &derived, DIAG));
        assert_true(equal(z, derived));
        reencode(&derived);
        tmk_stats_destroy(&derived);
        tmk_stats_destroy(&x[0]);
        tmk_stats_destroy(&y);
        tmk_stats_destroy(&z);
        tmk_stats_shadow_destroy(&view[0]);
        tmk_stats_shadow_destroy(&turn[0]);
    }
    assert_true(looks > 0 && looks < all);
}
