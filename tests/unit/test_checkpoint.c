/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "golden.h"
#include "profile/checkpoint.h"
#include "profile/format.h"
#include "profile/sample.h"

enum { VERSION_AT = 8, HEAD = 20, TAIL = 8 };

static uint64_t random_state = 7;

static uint32_t roll(uint32_t sides) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((random_state >> 33) % sides);
}

static struct tmk_profile *sample(bool per_sample) {
    struct tmk_diag diag = {0};
    struct tmk_profile *profile = NULL;
    assert_ok(sample_profile(per_sample, &profile, &diag), &diag);
    return profile;
}

static struct tmk_text encoded(const struct tmk_profile *profile) {
    struct tmk_text bytes = {0};
    must(tmk_checkpoint_encode(profile, &bytes, DIAG));
    return bytes;
}

static void reseal(char *bytes, size_t len) {
    uint64_t hash = tmk_hash64(bytes, len - TAIL, 0);
    for (int i = 0; i < TAIL; i++)
        bytes[len - TAIL + (size_t)i] = (char)(hash >> (8 * i));
}

static bool same_stats(const struct tmk_profile_tensor *a, const struct tmk_profile_tensor *b) {
    struct tmk_text x = {0}, y = {0};
    if (a->stats)
        tmk_stats_encode(a->stats, &x);
    if (b->stats)
        tmk_stats_encode(b->stats, &y);
    bool same = x.len == y.len && (!x.len || memcmp(x.data, y.data, x.len) == 0);
    tmk_text_finish(&x);
    tmk_text_finish(&y);
    return same && a->has_int_stats == b->has_int_stats &&
           memcmp(&a->int_stats, &b->int_stats, sizeof a->int_stats) == 0;
}

TEST(what_running_made_comes_back) {
    for (int per_sample = 0; per_sample < 2; per_sample++) {
        struct tmk_profile *profile = sample(per_sample), *back = NULL;
        profile->coverage.total = 1000;
        struct tmk_text bytes = encoded(profile);
        must(tmk_checkpoint_decode(bytes.data, bytes.len, &back, DIAG));
        must(tmk_profile_same_run(profile, back, DIAG));
        assert_memory_equal(&profile->ledger, &back->ledger, sizeof back->ledger);
        assert_int_equal(tmk_profile_total(back), 1000);
        assert_int_equal(back->n_tensors, profile->n_tensors);
        for (uint32_t i = 0; i < back->n_tensors; i++) {
            const struct tmk_profile_tensor *a = &profile->tensors[i], *b = &back->tensors[i];
            assert_true(a->id == b->id && a->fingerprint == b->fingerprint && a->kind == b->kind &&
                        a->status == b->status && a->dtype == b->dtype && a->origin == b->origin);
            assert_true(a->expected_count == b->expected_count && a->n_runs == b->n_runs &&
                        a->more_runs == b->more_runs && a->has_producer == b->has_producer);
            assert_true(same_stats(a, b));
            assert_string_equal(a->rule, b->rule);
            assert_int_equal(a->n_samples, b->n_samples);
            if (a->n_samples) {
                assert_memory_equal(a->sample_min, b->sample_min, a->n_samples * sizeof(float));
                assert_memory_equal(a->sample_max, b->sample_max, a->n_samples * sizeof(float));
            }
        }
        struct tmk_text again = encoded(back);
        assert_int_equal(again.len, bytes.len);
        assert_memory_equal(again.data, bytes.data, bytes.len);
        tmk_text_finish(&again);
        tmk_text_finish(&bytes);
        tmk_profile_destroy(&profile);
        tmk_profile_destroy(&back);
    }
}

/* Another version is refused, so there is one file: of the version that is written. */
TEST(the_golden_file_is_what_we_write) {
    char name[64];
    struct tmk_profile *profile = sample(false);
    struct tmk_text bytes = encoded(profile);
    snprintf(name, sizeof name, "checkpoint-%d.ckpt", bytes.data[VERSION_AT]);
    assert_golden(name, bytes.data, bytes.len);
    tmk_profile_destroy(&profile);
    for (int step = -1; step < 2; step += 2) {
        bytes.data[VERSION_AT] = (char)(bytes.data[VERSION_AT] + step);
        reseal(bytes.data, bytes.len);
        must_fail(tmk_checkpoint_decode(bytes.data, bytes.len, &profile, DIAG), TMK_UNSUPPORTED,
                  "checkpoint of version");
        assert_null(strchr(test_diag.text, '\n'));
        bytes.data[VERSION_AT] = (char)(bytes.data[VERSION_AT] - step);
    }
    tmk_text_finish(&bytes);
}

TEST(an_empty_one_is_one_too) {
    struct tmk_profile *profile = NULL, *back = NULL;
    must(tmk_profile_create(&profile, DIAG));
    struct tmk_text bytes = encoded(profile);
    must(tmk_checkpoint_decode(bytes.data, bytes.len, &back, DIAG));
    assert_int_equal(back->n_tensors, 0);
    tmk_text_finish(&bytes);
    tmk_profile_destroy(&profile);
    tmk_profile_destroy(&back);
}

/* Refused with one line that is about a checkpoint; the bytes are in memory of their own length. */
static enum tmk_status refuse(const char *bytes, size_t len, struct tmk_diag *diag) {
    struct tmk_profile *back = NULL;
    char *copy = malloc(len ? len : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    tmk_diag_reset(diag);
    enum tmk_status status = tmk_checkpoint_decode(copy, len, &back, diag);
    free(copy);
    if (status == TMK_OK) {
        tmk_profile_destroy(&back);
        return TMK_OK;
    }
    assert_null(back);
    if ((status != TMK_FORMAT && status != TMK_UNSUPPORTED) || !strstr(diag->text, "checkpoint") ||
        strchr(diag->text, '\n'))
        fail_msg("status %d, %s", (int)status, diag->text);
    return status;
}

TEST(cut_files_are_refused) {
    struct tmk_diag diag = {0};
    struct tmk_profile *profile = sample(true);
    struct tmk_text bytes = encoded(profile);
    for (size_t len = 0; len < bytes.len; len++)
        assert_int_equal(refuse(bytes.data, len, &diag), TMK_FORMAT);
    assert_non_null(strstr(diag.text, "cut short"));
    assert_int_equal(refuse("", 0, &diag), TMK_FORMAT);
    assert_string_equal(diag.text, "not a checkpoint");
    tmk_text_append(&bytes, "x", 1);
    assert_int_equal(refuse(bytes.data, bytes.len, &diag), TMK_FORMAT);
    tmk_text_finish(&bytes);
    tmk_profile_destroy(&profile);
}

TEST(flipped_bits_are_refused) {
    struct tmk_diag diag = {0};
    struct tmk_profile *profile = sample(true);
    struct tmk_text bytes = encoded(profile);
    for (size_t i = 0; i < bytes.len; i++) {
        char saved = bytes.data[i];
        bytes.data[i] = (char)(saved ^ 1 << roll(8));
        assert_int_not_equal(refuse(bytes.data, bytes.len, &diag), TMK_OK);
        bytes.data[i] = saved;
    }
    tmk_text_finish(&bytes);
    tmk_profile_destroy(&profile);
}

static void mutate(char *bytes, size_t *len) {
    static const unsigned char edges[] = {0, 1, 0x7f, 0x80, 0xff, '"', '{', '}', ',', '9'};
    for (uint32_t n = 1 + roll(4); n > 0; n--) {
        size_t at = HEAD + roll((uint32_t)(*len - HEAD - TAIL)), more;
        switch (roll(4)) {
        case 0:
            bytes[at] = (char)(bytes[at] ^ 1 << roll(8));
            break;
        case 1:
            bytes[at] = (char)edges[roll(TMK_COUNT(edges))];
            break;
        case 2: /* bytes go away */
            more = 1 + roll(8);
            if (*len < at + more + TAIL || *len - more < HEAD + TAIL + 1)
                break;
            memmove(bytes + at, bytes + at + more, *len - at - more);
            *len -= more;
            break;
        default: /* bytes stand twice */
            more = 1 + roll(8);
            memmove(bytes + at + more, bytes + at, *len - at);
            *len += more;
        }
    }
    for (int i = 0; i < 8; i++)
        bytes[12 + i] = (char)((uint64_t)(*len - HEAD - TAIL) >> (8 * i));
    reseal(bytes, *len);
}

/* With a right length and checksum the content itself is what must be found out. What is accepted
 * must be what would be written for it. */
TEST(forged_files_are_refused_or_canonical) {
    struct tmk_profile *profile = sample(true);
    struct tmk_text bytes = encoded(profile);
    char *copy = malloc(bytes.len + 64);
    assert_non_null(copy);
    uint32_t accepted = 0;
    for (uint32_t round = 0; round < 6000; round++) {
        struct tmk_diag diag = {0};
        size_t len = bytes.len;
        memcpy(copy, bytes.data, len);
        mutate(copy, &len);
        if (refuse(copy, len, &diag) != TMK_OK)
            continue;
        struct tmk_profile *back = NULL;
        accepted++;
        assert_ok(tmk_checkpoint_decode(copy, len, &back, &diag), &diag);
        struct tmk_text again = encoded(back);
        assert_int_equal(again.len, len);
        assert_memory_equal(again.data, copy, len);
        tmk_text_finish(&again);
        tmk_profile_destroy(&back);
    }
    assert_true(accepted < 1200); /* hashes, names and the like can be anything */
    free(copy);
    tmk_text_finish(&bytes);
    tmk_profile_destroy(&profile);
}

TEST(other_versions_are_named) {
    struct tmk_diag diag = {0};
    struct tmk_profile *profile = sample(false);
    struct tmk_text bytes = encoded(profile);
    bytes.data[8] = 4;
    reseal(bytes.data, bytes.len);
    assert_int_equal(refuse(bytes.data, bytes.len, &diag), TMK_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "version 4, but this program reads 3"));
    bytes.data[8] = 3;
    char *minor = bytes.data + HEAD;
    while (memcmp(minor, "\"minor\":", 8) != 0)
        minor++;
    minor[8] = '7';
    reseal(bytes.data, bytes.len);
    assert_int_equal(refuse(bytes.data, bytes.len, &diag), TMK_UNSUPPORTED);
    tmk_text_finish(&bytes);
    tmk_profile_destroy(&profile);
}

/* Reads a file that holds the profile so often. */
static void read_back(const char *path, const struct tmk_profile *profile, size_t times) {
    struct tmk_profile **back;
    size_t n;
    must(tmk_checkpoint_read(path, &back, &n, DIAG));
    assert_int_equal(n, times);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(back[i]->n_tensors, profile->n_tensors);
        assert_memory_equal(&back[i]->ledger, &profile->ledger, sizeof profile->ledger);
        tmk_profile_destroy(&back[i]);
    }
    free(back);
}

TEST(files_are_written_whole_and_named) {
    char folder[] = "/tmp/tidemark-checkpoint-XXXXXX", path[64];
    struct tmk_profile *profile = sample(false), *three[] = {profile, NULL, profile}, **back;
    size_t n;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/run.tmkc", folder);
    for (size_t k = 1; k <= 3; k += 2) { /* of three, one is not there */
        must(tmk_checkpoint_write(three, k, path, DIAG));
        read_back(path, profile, (k + 1) / 2);
    }
    profile->ledger.failed++;
    must_fail(tmk_checkpoint_write(three, 1, path, DIAG), TMK_MISMATCH, path);
    profile->ledger.failed--;
    read_back(path, profile, 2);
    assert_int_equal(truncate(path, 1000), 0);
    assert_int_equal(tmk_checkpoint_read(path, &back, &n, DIAG), TMK_FORMAT);
    assert_true(strncmp(test_diag.text, path, strlen(path)) == 0 &&
                strstr(test_diag.text, "cut short"));
    unlink(path);
    assert_int_equal(tmk_checkpoint_read(path, &back, &n, NULL), TMK_READ);
    rmdir(folder);
    tmk_profile_destroy(&profile);
}

/* The sample's first half as a checkpoint, and the same thing under other names as what came after:
 * 100 to 106 is done, 200 to 206 is new. */
TEST(what_was_done_before_is_added) {
    struct tmk_profile *before = sample(false), *after = sample(false), *back = NULL,
                       *merged = sample(false);
    before->coverage.total = after->coverage.total = merged->coverage.total = 1000;
    const struct tmk_profile_range later = {200, 206};
    must(tmk_profile_set_ranges(after, &later, 1, DIAG));
    must(tmk_profile_merge(merged, after, DIAG));
    struct tmk_text bytes = encoded(before);
    must(tmk_checkpoint_decode(bytes.data, bytes.len, &back, DIAG));
    must(tmk_checkpoint_add(after, back, DIAG));
    struct tmk_text x = encoded(merged), y = encoded(after);
    assert_int_equal(x.len, y.len);
    assert_memory_equal(x.data, y.data, x.len);
    assert_string_equal(after->tensors[1].name, "conv1/weight");
    must_fail(tmk_checkpoint_add(after, back, DIAG), TMK_MISMATCH, "both hold samples 100 to 106");
    back->tensors[2].fingerprint++;
    must(tmk_profile_set_ranges(back, &(struct tmk_profile_range){300, 306}, 1, DIAG));
    must_fail(tmk_checkpoint_add(after, back, DIAG), TMK_MISMATCH, "its fingerprint");
    tmk_text_finish(&x);
    tmk_text_finish(&y);
    tmk_text_finish(&bytes);
    tmk_profile_destroy(&before);
    tmk_profile_destroy(&after);
    tmk_profile_destroy(&back);
    tmk_profile_destroy(&merged);
}

TEST(what_is_packed_is_not_checked_again) {
    struct tmk_diag diag = {0};
    struct tmk_profile *profile = sample(true), *back = NULL;
    struct tmk_text bytes = encoded(profile), packed = {0}, again = {0};
    assert_ok(tmk_checkpoint_pack(profile, &packed, &diag), &diag);
    assert_int_equal(packed.len, bytes.len);
    assert_memory_equal(packed.data, bytes.data, bytes.len);
    tmk_text_finish(&bytes);
    tmk_text_finish(&packed);
    profile->tensors[0].expected_count++;
    assert_int_equal(tmk_checkpoint_encode(profile, &bytes, &diag), TMK_MISMATCH);
    assert_int_equal(bytes.len, 0);
    tmk_diag_reset(&diag);
    assert_ok(tmk_checkpoint_pack(profile, &packed, &diag), &diag);
    assert_int_equal(refuse(packed.data, packed.len, &diag), TMK_FORMAT);
    tmk_diag_reset(&diag);
    assert_ok(tmk_checkpoint_unpack(packed.data, packed.len, &back, &diag), &diag);
    assert_ok(tmk_checkpoint_pack(back, &again, &diag), &diag);
    assert_int_equal(again.len, packed.len);
    assert_memory_equal(again.data, packed.data, packed.len);
    packed.data[packed.len / 2] ^= 1;
    tmk_profile_destroy(&back);
    assert_int_equal(tmk_checkpoint_unpack(packed.data, packed.len, &back, &diag), TMK_FORMAT);
    tmk_text_finish(&packed);
    tmk_text_finish(&again);
    tmk_profile_destroy(&profile);
}
