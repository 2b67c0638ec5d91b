/* SPDX-License-Identifier: Apache-2.0 */
/* Where NaN and infinities came from. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/profile.h>

#include "base/size.h"

enum { CLEAN = -1, UNSEEN = -2, INTEGER = -3, SAMPLES = 10, END = UINT32_MAX };

/* One value: where it is not finite for the first time, and what it is computed from. */
struct made {
    int64_t first;    /* a sample, or one of the above */
    uint32_t from[4]; /* IDs up to END */
    bool formal;      /* an input of a body */
};

static void observe(struct tmk_profile_tensor *t, int64_t first) {
    const struct tmk_shape shape = {1, {2}};
    must(tmk_stats_create(TMK_STATS_MINMAX, &t->stats, DIAG));
    for (int64_t s = 0; s < SAMPLES; s++) {
        const float x[2] = {1, first != CLEAN && s >= first ? NAN : 2};
        const struct tmk_stats_at at = {(uint64_t)s, 1, -1, false, 0};
        must(tmk_stats_update(t->stats, x, &shape, &at, DIAG));
    }
}

static struct tmk_profile *make(const struct made *made, uint32_t n) {
    struct tmk_profile *p = NULL;
    must(tmk_profile_create(&p, DIAG));
    for (uint32_t i = 0; i < n; i++) {
        struct tmk_profile_tensor *t;
        must(tmk_profile_add_tensor(p, i, &t, DIAG));
        t->has_producer = made[i].from[0] != END && !made[i].formal;
        t->path = made[i].formal ? "Loop 'l'/body" : "";
        t->has_int_stats = made[i].first == INTEGER;
        if (made[i].first >= CLEAN)
            observe(t, made[i].first);
        for (uint32_t k = 0; k < 4 && made[i].from[k] != END; k++)
            must(tmk_profile_add_operand(t, made[i].from[k], DIAG));
    }
    return p;
}

/* Each entry is "id: from" with "downstream" as an apostrophe. */
static void expect(const struct made *made, uint32_t n, const char *want) {
    struct tmk_profile *p = make(made, n);
    struct tmk_nonfinite *found;
    char text[512] = "";
    int at = 0;
    uint32_t n_found;
    must(tmk_profile_nonfinite(p, &found, &n_found, DIAG));
    for (uint32_t i = 0; i < n_found; i++) {
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%u%s:", i ? "; " : "", found[i].id,
                       found[i].downstream ? "'" : "");
        for (uint32_t k = 0; k < found[i].n_from; k++)
            at += snprintf(text + at, sizeof text - (size_t)at, " %u", found[i].from[k]);
    }
    assert_string_equal(text, want);
    free(found);
    tmk_profile_destroy(&p);
}

#define EXPECT(want, ...)                                                                          \
    do {                                                                                           \
        const struct made made[] = {__VA_ARGS__};                                                  \
        expect(made, TMK_COUNT(made), want);                                                       \
    } while (0)

TEST(a_value_has_them_from_its_operands) {
    EXPECT("", {CLEAN, {END}}, {CLEAN, {0, END}});
    EXPECT("1:; 2': 1; 3': 1 2", {CLEAN, {END}}, {4, {0, END}}, {4, {1, 0, END}}, {5, {2, 1, END}},
           {CLEAN, {3, END}});
    EXPECT("0:; 1': 0", {0, {END}}, {9, {0, END}});
}

TEST(what_came_later_is_no_cause) {
    EXPECT("1:; 2:", {CLEAN, {END}}, {5, {0, END}}, {4, {1, END}});
}

TEST(each_place_where_they_begin_is_told) {
    EXPECT("1:; 2:; 3': 1 2; 4: 2", {CLEAN, {END}}, {4, {0, END}}, {2, {0, END}}, {4, {1, 2, END}},
           {3, {2, END}});
}

TEST(values_without_observers_are_looked_through) {
    EXPECT("0:; 3': 0", {1, {END}}, {UNSEEN, {0, END}}, {UNSEEN, {1, 1, END}}, {1, {2, END}});
    EXPECT("0:; 2:", {1, {END}}, {INTEGER, {0, END}}, {1, {1, END}});
}

/* p1 is the body's input, p3 its result, which comes round; p4 the loop's. */
TEST(what_begins_inside_a_loop_has_a_beginning) {
    EXPECT("1': 3; 2:; 3': 2; 4': 3", {CLEAN, {END}}, {2, {0, 3, END}, true}, {2, {1, END}},
           {2, {2, END}}, {2, {3, END}});
    EXPECT("0:; 1': 0 3; 2': 1; 3': 2; 4': 3", {2, {END}}, {2, {0, 3, END}, true}, {2, {1, END}},
           {2, {2, END}}, {2, {3, END}});
}

TEST(a_profile_without_operands_does_not_guess) {
    EXPECT("", {3, {END}}, {3, {END}});
}
