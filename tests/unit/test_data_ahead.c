/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/diag.h"
#include "data/ahead.h"

enum { ENTRIES = 200, BAD = 77 };

/* 0, 2, 4, ... up to ENTRIES. */
struct evens {
    uint64_t next;
};

static bool next_even(void *context, uint64_t *entry) {
    struct evens *evens = context;
    if (evens->next >= ENTRIES)
        return false;
    *entry = evens->next;
    evens->next += 2;
    return true;
}

struct maker {
    atomic_int made;
    bool slow;
};

/* The entry's own number; multiples of BAD fail. */
static enum tmk_status make(const void *context, uint64_t entry, struct tmk_tensor *out,
                            struct tmk_diag *diag) {
    struct maker *maker = (struct maker *)(uintptr_t)context;
    atomic_fetch_add(&maker->made, 1);
    if (maker->slow)
        usleep((unsigned)(entry * 37 % 11) * 100);
    if (entry && entry % BAD == 0)
        return tmk_fail(diag, TMK_FORMAT, "entry %llu is bad", (unsigned long long)entry);
    struct tmk_shape shape = {1, {1}};
    TMK_TRY(tmk_tensor_init(out, TMK_FLOAT32, &shape, diag));
    *(float *)out->data = (float)entry;
    return TMK_OK;
}

static void take_all(uint32_t threads, bool slow) {
    struct evens evens = {0};
    struct maker maker = {.slow = slow};
    struct tmk_ahead *ahead = NULL;
    struct tmk_diag diag = {0};
    struct tmk_source_threads some = {.wanted = threads};
    assert_ok(tmk_ahead_create(make, &maker, &(struct tmk_source_order){next_even, &evens}, &some,
                               &ahead, &diag),
              &diag);
    assert_int_equal(some.missing, 0);
    for (uint64_t entry = 0; entry < ENTRIES; entry++) {
        struct tmk_tensor tensor = {0};
        bool there = false;
        tmk_diag_reset(&diag);
        enum tmk_status status = tmk_ahead_take(ahead, entry, &there, &tensor, &diag);
        assert_int_equal(there, entry % 2 == 0);
        if (there && entry && entry % BAD == 0) {
            assert_int_equal(status, TMK_FORMAT);
            assert_string_equal(diag.text, "entry 154 is bad");
        } else if (there) {
            assert_ok(status, &diag);
            assert_true(*(float *)tensor.data == (float)entry);
        }
        tmk_tensor_finish(&tensor);
    }
    assert_int_equal(atomic_load(&maker.made), ENTRIES / 2);
    tmk_ahead_destroy(&ahead);
    assert_null(ahead);
}

TEST(entries_come_in_order_whoever_makes_them) {
    take_all(1, false);
    take_all(4, true);
    take_all(100, false);
}

TEST(an_entry_may_be_asked_for_again) {
    struct evens evens = {0};
    struct maker maker = {0};
    struct tmk_ahead *ahead = NULL;
    struct tmk_source_threads two = {.wanted = 2};
    must(tmk_ahead_create(make, &maker, &(struct tmk_source_order){next_even, &evens}, &two, &ahead,
                          DIAG));
    for (int i = 0; i < 6; i++) {
        struct tmk_tensor tensor = {0};
        bool there = false;
        uint64_t entry = i < 3 ? 12 : 154;
        enum tmk_status status = tmk_ahead_take(ahead, entry, &there, &tensor, DIAG);
        assert_true(there);
        assert_int_equal(status, entry == 154 ? TMK_FORMAT : TMK_OK);
        tmk_tensor_finish(&tensor);
    }
    bool there = true;
    must(tmk_ahead_take(ahead, 12, &there, &(struct tmk_tensor){0}, DIAG));
    assert_false(there); /* it has been passed */
    tmk_ahead_destroy(&ahead);
}

TEST(only_so_many_are_made_ahead) {
    struct evens evens = {0};
    struct maker maker = {0};
    struct tmk_ahead *ahead = NULL;
    struct tmk_source_threads two = {.wanted = 2};
    must(tmk_ahead_create(make, &maker, &(struct tmk_source_order){next_even, &evens}, &two, &ahead,
                          DIAG));
    usleep(50000);
    assert_true(atomic_load(&maker.made) <= 6);
    tmk_ahead_destroy(&ahead); /* with entries that were not taken */
    tmk_ahead_destroy(&ahead);
}
