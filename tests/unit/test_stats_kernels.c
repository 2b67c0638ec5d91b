/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel that this machine runs, against the plain one. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "stats/state.h"

static uint64_t kernels_random_state = 1;

static uint32_t next_kernels(void) {
    kernels_random_state = kernels_random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(kernels_random_state >> 32);
}

enum { FAMILIES = 12, CAPACITY = 6000 };

static uint32_t element(int family) {
    static const uint32_t special[] = {0,           0x80000000u, 1,           0x80000001u,
                                       0x7f800000u, 0xff800000u, 0x7f800001u, 0xff80ffffu,
                                       0x7fffffffu, 0xffffffffu};
    uint32_t r = next_kernels();
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
    case 5:
        return r & 0x807fffffu; /* denormal */
    case 6:
        return 0x3f9e0419u;
    case 7:
        return 0;
    case 8:
        return 0x80000000u;
    case 9:
        return 0xbf000000u + (r & 0x1ffffffu); /* of one sign, no zero */
    case 10:
        return 0x3f000000u + (r & 0x1ffffffu);
    default:
        return r % 50 ? 0 : special[r / 50 % TMK_COUNT(special)];
    }
}

/* Elements at every alignment, odd ones too, with bytes around them that would show in the result.
 */
struct guarded {
    unsigned char bytes[4 * CAPACITY + 64];
};

static const tmk_loose_bits *fill(struct guarded *g, int family, size_t n, size_t offset) {
    memset(g->bytes, 0xff, sizeof g->bytes);
    for (size_t i = 0; i < n; i++) {
        uint32_t v = element(family);
        memcpy(g->bytes + offset + 4 * i, &v, sizeof v);
    }
    return (const void *)(g->bytes + offset);
}

TEST(tables_and_facts_are_the_plain_ones) {
    static struct guarded g;
    uint64_t *a = calloc(TMK_TABLE, sizeof *a), *b = calloc(TMK_TABLE, sizeof *b);
    assert_true(a && b);
    for (size_t k = 0; tmk_stats_kernel_at(k); k++)
        for (int family = 0; family < FAMILIES; family++)
            for (size_t n = 1; n <= TMK_TILE; n += n < 200 ? 1 : 231) {
                const struct tmk_stats_kernel *kernel = tmk_stats_kernel_at(k);
                const tmk_loose_bits *x = fill(&g, family, n, next_kernels() % 64);
                struct tmk_tile_summary p, q;
                tmk_stats_kernel_plain.tile(x, n, next_kernels() % 2, NULL, a, &p);
                kernel->tile(x, n, next_kernels() % 2, NULL, b, &q);
                assert_memory_equal(&p, &q, sizeof p);
                kernel->scan(x, n, NULL, &q);
                assert_memory_equal(&p, &q, sizeof p);
                tmk_stats_kernel_plain.scatter(x, n, &p, a);
                kernel->scatter(x, n, &q, b);
                if (n >= 200)
                    assert_memory_equal(a, b, TMK_TABLE * sizeof *a);
            }
    assert_memory_equal(a, b, TMK_TABLE * sizeof *a);
    free(a);
    free(b);
}

TEST(facts_are_those_of_naive_counting) {
    static struct guarded g;
    for (size_t k = 0; tmk_stats_kernel_at(k); k++)
        for (int family = 0; family < FAMILIES; family++)
            for (size_t n = 1; n <= 200; n++) {
                const tmk_loose_bits *x = fill(&g, family, n, next_kernels() % 64);
                struct tmk_tile_summary summary;
                tmk_stats_kernel_at(k)->scan(x, n, NULL, &summary);
                int32_t min = INT32_MAX, max = INT32_MIN;
                uint32_t zeros = 0, negative_zeros = 0;
                bool finite = true;
                for (size_t i = 0; i < n; i++) {
                    int32_t key = tmk_key_of_bits(x[i]);
                    finite = finite && tmk_key_is_finite(key);
                    min = key < min ? key : min;
                    max = key > max ? key : max;
                    zeros += key == 0;
                    negative_zeros += key == -1;
                }
                assert_int_equal(summary.zeros, zeros);
                assert_int_equal(summary.negative_zeros, negative_zeros);
                assert_int_equal(tmk_tile_all_finite(&summary), finite);
                if (finite) {
                    assert_int_equal(tmk_tile_min(&summary), min);
                    assert_int_equal(tmk_tile_max(&summary), max);
                }
            }
}

TEST(lanes_are_those_of_naive_scanning) {
    static struct guarded g;
    uint64_t *table = calloc(TMK_TABLE, sizeof *table);
    assert_non_null(table);
    for (size_t k = 0; tmk_stats_kernel_at(k); k++)
        for (int family = 0; family < FAMILIES; family++)
            for (size_t rows = 1; rows < 64; rows++) {
                size_t width = next_kernels() % 2 ? TMK_LANES : TMK_LANES / 2, n = rows * width;
                const tmk_loose_bits *x = fill(&g, family, n, next_kernels() % 64);
                tmk_loose_bits min[TMK_LANES], max[TMK_LANES];
                int32_t low[TMK_LANES], high[TMK_LANES];
                for (size_t i = 0; i < width; i++) { /* known already: nothing, or a range */
                    static const int32_t ends[] = {-0x7f000000, -1000, -2,   -1,
                                                   0,           1,     1000, 0x7f000000};
                    const size_t first = next_kernels() % TMK_COUNT(ends);
                    const bool nothing = next_kernels() % 8 == 0;
                    low[i] = nothing ? TMK_KEY_POSINF : ends[first];
                    high[i] = nothing ? TMK_KEY_NEGINF
                                      : ends[first + next_kernels() % (TMK_COUNT(ends) - first)];
                    min[i] = tmk_bits_of_key(low[i]);
                    max[i] = tmk_bits_of_key(high[i]);
                }
                const struct tmk_columns columns = {width, min, max};
                struct tmk_tile_summary summary, alone;
                tmk_stats_kernel_at(k)->scan(x, n, NULL, &alone);
                if (rows % 2)
                    tmk_stats_kernel_at(k)->scan(x, n, &columns, &summary);
                else
                    tmk_stats_kernel_at(k)->tile(x, n, next_kernels() % 2, &columns, table,
                                                 &summary);
                assert_memory_equal(&summary, &alone, sizeof summary);
                for (size_t i = 0; i < n && tmk_tile_all_finite(&summary); i++) {
                    int32_t key = tmk_key_of_bits(x[i]);
                    low[i % width] = key < low[i % width] ? key : low[i % width];
                    high[i % width] = key > high[i % width] ? key : high[i % width];
                }
                for (size_t i = 0; i < width; i++) {
                    assert_int_equal(tmk_key_of_bits(min[i]), low[i]);
                    assert_int_equal(tmk_key_of_bits(max[i]), high[i]);
                }
            }
    free(table);
}

TEST(tables_hold_each_nonzero_element_once) {
    static struct guarded g;
    uint64_t *table = calloc(TMK_TABLE, sizeof *table), *naive = calloc(TMK_TABLE, sizeof *naive);
    assert_true(table && naive);
    for (size_t k = 0; tmk_stats_kernel_at(k); k++)
        for (int family = 0; family < 2 * FAMILIES; family++) {
            const tmk_loose_bits *x = fill(&g, family / 2, TMK_TILE, 1);
            struct tmk_tile_summary summary;
            tmk_stats_kernel_at(k)->tile(x, TMK_TILE, family % 2, NULL, table, &summary);
            for (size_t i = 0; i < TMK_TILE; i++)
                if (x[i] & 0x7fffffffu)
                    naive[x[i] >> 16] += (UINT64_C(1) << 40) + x[i];
        }
    assert_memory_equal(table, naive, TMK_TABLE * sizeof *table);
    free(table);
    free(naive);
}

TEST(signs_are_those_of_naive_counting) {
    static struct guarded g;
    for (size_t k = 0; tmk_stats_kernel_at(k); k++)
        for (int family = 0; family < FAMILIES; family++)
            for (size_t n = 0; n <= 200; n++) {
                const tmk_loose_bits *x = fill(&g, family, n, next_kernels() % 64);
                uint32_t signs = 0;
                for (size_t i = 0; i < n; i++)
                    signs += x[i] >= 0x80000000u;
                assert_int_equal(tmk_stats_kernel_at(k)->signs(x, n), signs);
            }
}

TEST(columns_are_the_plain_ones) {
    static struct guarded g;
    enum { WIDEST = 100 };
    for (size_t k = 0; tmk_stats_kernel_at(k); k++)
        for (int family = 0; family < FAMILIES; family++)
            for (size_t width = 1; width < WIDEST; width += 3) {
                size_t rows = next_kernels() % 24, stride = width + next_kernels() % 5;
                const tmk_loose_bits *x = fill(&g, family, rows * stride, next_kernels() % 64);
                int32_t min[3][WIDEST + 1], max[3][WIDEST + 1];
                uint32_t low[WIDEST + 1], high[WIDEST + 1];
                bool finite = true;
                for (size_t i = 0; i < 3 * (WIDEST + 1); i++) {
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
                        finite = finite && tmk_key_is_finite(key);
                        if (tmk_key_is_finite(key))
                            assert_true(min[0][c] <= key && key <= max[0][c]);
                    }
                if (!finite)
                    continue;
                tmk_stats_kernel_at(k)->finite_columns(x, rows, stride, width, min[2], max[2]);
                assert_memory_equal(min[0], min[2], sizeof min[0]);
                assert_memory_equal(max[0], max[2], sizeof max[0]);
                for (size_t c = 0; c <= WIDEST; c++) {
                    low[c] = tmk_bits_of_key(TMK_KEY_POSINF);
                    high[c] = tmk_bits_of_key(TMK_KEY_NEGINF);
                }
                for (size_t done = 0; done < rows; done += 7) /* added to what is there */
                    tmk_stats_kernel_at(k)->update_columns(x + done * stride,
                                                           rows - done < 7 ? rows - done : 7,
                                                           stride, width, low, high);
                for (size_t c = 0; c <= WIDEST; c++) {
                    assert_int_equal(tmk_key_of_bits(low[c]), min[0][c]);
                    assert_int_equal(tmk_key_of_bits(high[c]), max[0][c]);
                }
            }
}

TEST(states_are_the_plain_ones) {
    static struct guarded g;
    for (size_t k = 0; tmk_stats_kernel_at(k); k++)
        for (int round = 0; round < 300; round++) {
            size_t rows = next_kernels() % 60, columns = 1 + next_kernels() % 97;
            int family = (int)(next_kernels() % FAMILIES);
            const void *x = fill(&g, family, rows * columns, next_kernels() % 64);
            struct tmk_shape shape = {2, {(int64_t)rows, (int64_t)columns}};
            struct tmk_stats_at at = {next_kernels(), rows, (int32_t)(next_kernels() % 3) - 1,
                                      false, 0};
            enum tmk_stats_level level = (enum tmk_stats_level)(TMK_STATS_RANGE + round % 3);
            struct tmk_stats *stats[2];
            struct tmk_text text[2] = {{0}, {0}};
            for (size_t i = 0; i < 2; i++) {
                must(tmk_stats_create_with(
                    level, i ? tmk_stats_kernel_at(k) : &tmk_stats_kernel_plain, &stats[i], DIAG));
                must(tmk_stats_update(stats[i], x, &shape, &at, DIAG));
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

TEST(the_plain_kernel_is_the_last_resort) {
    size_t k = 0;
    while (tmk_stats_kernel_at(k + 1))
        k++;
    assert_ptr_equal(tmk_stats_kernel_at(k), &tmk_stats_kernel_plain);
    assert_null(tmk_stats_kernel_at(k + 1));
    assert_null(tmk_stats_kernel_at(SIZE_MAX));
}

TEST(a_vector_kernel_comes_first_where_all_processors_have_it) {
#if defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    assert_string_equal(tmk_stats_kernel_at(0)->name, "neon");
#endif
}
