/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of made-up profiles: what moved, by how much, and when that is enough. */
#include "stats_data.h"

#include "profile/meter.h"

enum value { STEADY, RISING, LATE, WEIGHT, COARSE, VALUES };

static void see(struct tmk_profile_tensor *t, uint64_t sample, float x) {
    const struct tmk_shape shape = {1, {1}};
    const struct tmk_stats_at at = {sample, 1, -1, false, 0};
    must(tmk_stats_update(t->stats, &x, &shape, &at, DIAG));
}

static struct tmk_profile *new_profile(void) {
    static const char *const names[] = {"steady", "rising", "late", "weight", "coarse"};
    struct tmk_profile *profile;
    must(tmk_profile_create(&profile, DIAG));
    for (uint32_t i = 0; i < VALUES; i++) {
        struct tmk_profile_tensor *t;
        must(tmk_profile_add_tensor(profile, 10 + i, &t, DIAG));
        t->name = names[i];
        t->kind = i == WEIGHT ? TMK_PROFILE_WEIGHT : TMK_PROFILE_ACTIVATION;
        must(
            tmk_stats_create(i == COARSE ? TMK_STATS_RANGE : TMK_STATS_HISTOGRAM, &t->stats, DIAG));
    }
    return profile;
}

static void run_to(struct tmk_profile *profile, uint64_t samples) {
    struct tmk_profile_tensor *t = profile->tensors;
    for (uint64_t s = profile->ledger.run; s < samples; s++) {
        see(&t[STEADY], s, s % 2 ? 1.0f : -1.0f);
        see(&t[RISING], s, s < 6 ? (float)s : 6);
        if (s >= 3)
            see(&t[LATE], s, 5);
        see(&t[WEIGHT], s, (float)s);
        see(&t[COARSE], s, s ? 4 : -4);
    }
    profile->ledger.run = profile->ledger.offered = samples;
}

TEST(movements_are_shares_of_the_range) {
    struct tmk_profile *profile = new_profile();
    struct tmk_meter *meter;
    struct tmk_movement worst;
    static const uint64_t at[] = {1, 2, 4, 8, 16};
    static const bool stable[] = {false, false, false, false, true};
    must(tmk_meter_create(&meter, DIAG));
    for (size_t i = 0; i < TMK_COUNT(at); i++) {
        assert_int_equal(tmk_meter_next(meter), at[i]);
        run_to(profile, at[i]);
        must(tmk_meter_take(meter, profile, DIAG));
        assert_int_equal(tmk_meter_is_stable(meter, 0.01), stable[i]);
    }
    assert_int_equal(tmk_meter_snapshots(meter), TMK_COUNT(at));
    assert_int_equal(tmk_meter_offered(meter, 3), 8);
    assert_int_equal(tmk_meter_values(meter, 1), VALUES - 2);
    assert_int_equal(tmk_meter_values(meter, 2), VALUES - 1);
    /* from 1 to 2: all that are there, from one end of their range to the other */
    assert_int_equal(tmk_meter_moved(meter, 0, 1, 0.99, &worst), 3);
    assert_int_equal(worst.id, 10 + STEADY);
    assert_true(worst.share == 1);
    /* from 2 to 4: to 3 from 1, and one that was not there */
    assert_int_equal(tmk_meter_moved(meter, 1, 2, 0.01, &worst), 2);
    assert_string_equal(worst.name, "late");
    assert_true(worst.share == 1);
    assert_int_equal(tmk_meter_moved(meter, 1, 2, 0.68, NULL), 1);
    /* from 4 to 8: to 6 from 3 */
    assert_int_equal(tmk_meter_moved(meter, 2, 3, 0.01, &worst), 1);
    assert_int_equal(worst.id, 10 + RISING);
    assert_true(fabs(worst.share - 0.5) < 0.01);
    assert_int_equal(tmk_meter_moved(meter, 3, 4, 0, &worst), 0);
    assert_true(worst.share == 0);
    tmk_meter_destroy(&meter);
    assert_null(meter);
    tmk_meter_destroy(&meter);
    tmk_profile_destroy(&profile);
}

/* Batches end where they end, and a run may end anywhere. */
TEST(the_next_snapshot_is_the_next_power_of_two) {
    struct tmk_profile *profile = new_profile();
    struct tmk_meter *meter;
    must(tmk_meter_create(&meter, DIAG));
    static const uint64_t at[] = {3, 4, 9, 100}, next_is[] = {4, 8, 16, 128};
    for (size_t i = 0; i < TMK_COUNT(at); i++) {
        run_to(profile, at[i]);
        must(tmk_meter_take(meter, profile, DIAG));
        assert_int_equal(tmk_meter_next(meter), next_is[i]);
    }
    tmk_meter_destroy(&meter);
    tmk_profile_destroy(&profile);
}
