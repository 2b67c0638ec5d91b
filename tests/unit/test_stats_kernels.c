/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel that this machine runs, against the plain one. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "stats/state.h"

static uint64_t random_state = 1;

static uint32_t next(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

enum { FAMILIES = 6, ROOM = 6000 };

static uint32_t element(int family) {
    static const uint32_t special[] = {0,           0x80000000u, 1,           0x80000001u,
                                       0x7f800000u, 0xff800000u, 0x7f800001u, 0xff80ffffu,
                                       0x7fffffffu, 0xffffffffu};
    uint32_t r = next();
    switch (family) {
    case 0:
        return r;
    case 1:
        return 0x3f000000u + (r & 0x81ffffffu); /* finite, both signs */
    case 2:
        return r & 1 ? 0 : 0x3f000000u + (r & 0x1ffffffu); /* half zeros: packed */
    case 3:
        return r % 3 ? 0x80000000u : r & 0x807fffffu;
    case 4:
        return special[r % TMK_COUNT(special)];
    default:
        return r % 50 ? 0 : special[r / 50 % TMK_COUNT(special)];
    }
}

/* Elements at every alignment, odd ones too, with bytes around them that would show in the result.
 */
struct guarded {
    unsigned char bytes[4 * ROOM + 64];
};

static const tmk_loose_bits *fill(struct guarded *g, int family, size_t n, size_t offset) {
    memset(g->bytes, 0xff, sizeof g->bytes);
    for (size_t i = 0; i < n; i++) {
        uint32_t v = element(family);
        memcpy(g->bytes + offset + 4 * i, &v, sizeof v);
    }
    return (const void *)(g->bytes + offset);
}

static void tables_and_facts_are_the_plain_ones(void **state) {
    (void)state;
    static struct guarded g;
    uint64_t *a = calloc(TMK_TABLE, sizeof *a), *b = calloc(TMK_TABLE, sizeof *b);
    assert_true(a && b);
    for (size_t k = 0; tmk_stats_kernel_at(k); k++)
        for (int family = 0; family < FAMILIES; family++)
            for (size_t n = 1; n <= TMK_TILE; n += n < 70 ? 1 : 331) {
                const struct tmk_stats_kernel *kernel = tmk_stats_kernel_at(k);
                const tmk_loose_bits *x = fill(&g, family, n, next() % 64);
                struct tmk_facts p, q;
                tmk_stats_kernel_plain.tile(x, n, a, &p);
                kernel->tile(x, n, b, &q);
                assert_memory_equal(&p, &q, sizeof p);
                kernel->survey(x, n, &q);
                assert_memory_equal(&p, &q, sizeof p);
                if (n > 60)
                    assert_memory_equal(a, b, TMK_TABLE * sizeof *a);
            }
    assert_memory_equal(a, b, TMK_TABLE * sizeof *a);
    free(a);
    free(b);
}

static void tables_hold_each_nonzero_element_once(void **state) {
    (void)state;
    static struct guarded g;
    uint64_t *table = calloc(TMK_TABLE, sizeof *table), *naive = calloc(TMK_TABLE, sizeof *naive);
    assert_true(table && naive);
    for (int family = 0; family < FAMILIES; family++) {
        const tmk_loose_bits *x = fill(&g, family, TMK_TILE, 1);
        struct tmk_facts facts;
        tmk_stats_kernel_at(0)->tile(x, TMK_TILE, table, &facts);
        for (size_t i = 0; i < TMK_TILE; i++)
            if (x[i] & 0x7fffffffu)
                naive[x[i] >> 16] += (UINT64_C(1) << TMK_COUNT_SHIFT) + (x[i] & 0xffff);
    }
    assert_memory_equal(table, naive, TMK_TABLE * sizeof *table);
    free(table);
    free(naive);
}

static void columns_are_the_plain_ones(void **state) {
    (void)state;
    static struct guarded g;
    enum { WIDEST = 100 };
    for (size_t k = 0; tmk_stats_kernel_at(k); k++)
        for (int family = 0; family < FAMILIES; family++)
            for (size_t width = 1; width < WIDEST; width += 3) {
                size_t rows = 1 + next() % 23, stride = width + next() % 5;
                const tmk_loose_bits *x = fill(&g, family, rows * stride, next() % 64);
                int32_t min[2][WIDEST + 1], max[2][WIDEST + 1];
                for (size_t i = 0; i < 2 * (WIDEST + 1); i++) {
                    min[i / (WIDEST + 1)][i % (WIDEST + 1)] = TMK_KEY_POSINF;
                    max[i / (WIDEST + 1)][i % (WIDEST + 1)] = TMK_KEY_NEGINF;
                }
                tmk_stats_kernel_plain.columns(x, rows, stride, width, min[0], max[0]);
                tmk_stats_kernel_at(k)->columns(x, rows, stride, width, min[1], max[1]);
                assert_memory_equal(min[0], min[1], sizeof min[0]);
                assert_memory_equal(max[0], max[1], sizeof max[0]);
                for (size_t c = 0; c < width; c++)
                    for (size_t r = 0; r < rows; r++) {
                        int32_t key = tmk_key_of_bits(x[r * stride + c]);
                        if (tmk_key_is_finite(key))
                            assert_true(min[0][c] <= key && key <= max[0][c]);
                    }
            }
}

static void states_are_the_plain_ones(void **state) {
    (void)state;
    static struct guarded g;
    struct tmk_diag diag = {0};
    for (size_t k = 0; tmk_stats_kernel_at(k); k++)
        for (int round = 0; round < 300; round++) {
            size_t rows = next() % 60, columns = 1 + next() % 97;
            int family = (int)(next() % FAMILIES);
            const void *x = fill(&g, family, rows * columns, next() % 64);
            struct tmk_shape shape = {2, {(int64_t)rows, (int64_t)columns}};
            struct tmk_stats_at at = {next(), rows, (int32_t)(next() % 3) - 1, false};
            enum tmk_stats_level level = round % 2 ? TMK_STATS_RANGE : TMK_STATS_HISTOGRAM;
            struct tmk_stats *stats[2];
            struct tmk_text text[2] = {{0}, {0}};
            for (size_t i = 0; i < 2; i++) {
                assert_ok(tmk_stats_create_with(
                              level, i ? tmk_stats_kernel_at(k) : &tmk_stats_kernel_plain,
                              &stats[i], &diag),
                          &diag);
                assert_ok(tmk_stats_update(stats[i], x, &shape, &at, &diag), &diag);
                tmk_stats_encode(stats[i], &text[i]);
            }
            assert_int_equal(text[0].len, text[1].len);
            assert_memory_equal(text[0].data, text[1].data, text[0].len);
            for (size_t i = 0; i < 2; i++) {
                tmk_text_finish(&text[i]);
                tmk_stats_destroy(&stats[i]);
            }
        }
}

static void the_plain_kernel_is_the_last_resort(void **state) {
    (void)state;
    size_t k = 0;
    while (tmk_stats_kernel_at(k + 1))
        k++;
    assert_ptr_equal(tmk_stats_kernel_at(k), &tmk_stats_kernel_plain);
    assert_null(tmk_stats_kernel_at(k + 1));
    assert_null(tmk_stats_kernel_at(SIZE_MAX));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_and_facts_are_the_plain_ones),
        cmocka_unit_test(tables_hold_each_nonzero_element_once),
        cmocka_unit_test(columns_are_the_plain_ones),
        cmocka_unit_test(states_are_the_plain_ones),
        cmocka_unit_test(the_plain_kernel_is_the_last_resort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
