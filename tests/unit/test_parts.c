/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "data_files.h"
#include "feed/feed.h"
#include "feed/internal.h"
#include "graph_text/read.h"
#include "ops/ops.h"

enum { SAMPLES = 40, WIDTH = 3 };

TEST(the_first_batch_from_a_sample_on) {
    for (uint64_t skip = 0; skip < 9; skip++)
        for (uint64_t batch = 1; batch < 6; batch++)
            for (uint64_t every = 1; every < 4; every++) {
                const struct feed_choice choice = {skip, SAMPLES, UINT64_MAX, batch, every};
                uint64_t n = tmk_feed_choice_batches(&choice);
                for (uint64_t sample = 0; sample < SAMPLES + 4; sample++) {
                    uint64_t i = 0, from, until, got = tmk_feed_choice_from(&choice, sample);
                    while (tmk_feed_choice_batch(&choice, i, &from, &until) && from < sample)
                        i++;
                    assert_int_equal(got < n ? got : n, i);
                }
            }
}

/* ---- what is left ---- */

struct list {
    const struct tmk_profile_range *ranges;
    uint32_t n, at;
};

static enum tmk_status next_of_list(void *context, uint64_t *begin, uint64_t *end, bool *more,
                                    struct tmk_diag *diag) {
    (void)diag;
    struct list *list = context;
    *more = list->at < list->n;
    if (*more) {
        *begin = list->ranges[list->at].begin;
        *end = list->ranges[list->at++].end;
    }
    return TMK_OK;
}

/* Ranges at multiples of `unit`, some of them touching, and their samples. */
static uint32_t make_up(struct tmk_profile_range *ranges, bool *samples, uint64_t unit) {
    uint32_t n = 0;
    memset(samples, 0, SAMPLES);
    for (uint64_t at = (uint64_t)rand() % 3 * unit; at < SAMPLES;
         at += (uint64_t)rand() % 3 * unit) {
        uint64_t end = at + (1 + (uint64_t)rand() % 3) * unit;
        end = end < SAMPLES ? end : SAMPLES;
        ranges[n++] = (struct tmk_profile_range){at, end};
        memset(samples + at, 1, end - at);
        at = end;
    }
    return n;
}

TEST(what_is_done_is_not_handed_out) {
    for (int round = 0; round < 2000; round++) {
        struct tmk_profile_range given[SAMPLES], done[SAMPLES];
        bool in_given[SAMPLES], in_done[SAMPLES], got[SAMPLES] = {false}, more = true;
        struct list list = {given, make_up(given, in_given, 1), 0};
        uint32_t n = make_up(done, in_done, 1);
        struct tmk_profile *profile = NULL;
        struct tmk_diag diag = {0};
        uint64_t begin, end, last = 0;
        assert_ok(tmk_profile_create(&profile, &diag), &diag);
        assert_ok(tmk_profile_set_ranges(profile, done, n, &diag), &diag);
        struct tmk_rest rest = {.all = {next_of_list, &list}, .done = profile};
        const struct tmk_work_ranges hand_out = tmk_rest_ranges(&rest);
        for (;;) {
            assert_ok(hand_out.next(hand_out.context, &begin, &end, &more, &diag), &diag);
            if (!more)
                break;
            assert_true(begin >= last && begin < end && end <= SAMPLES);
            memset(got + begin, 1, end - begin);
            last = end;
        }
        for (int s = 0; s < SAMPLES; s++)
            assert_int_equal(got[s], in_given[s] && !in_done[s]);
        tmk_profile_destroy(&profile);
    }
}

/* ---- a feed that is handed out to ---- */

struct stage {
    struct tmk_graph *graph;
    struct tmk_feed *feed;
    const char *data[1];
    struct tmk_data_options options;
};

static void open_stage(struct stage *stage, uint32_t batch, uint64_t skip) {
    struct tmk_text file = {0};
    float x[SAMPLES * WIDTH];
    for (int i = 0; i < SAMPLES; i++)
        for (int k = 0; k < WIDTH; k++)
            x[i * WIDTH + k] = (float)i;
    compose(&file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (40, 3), }", x, sizeof x);
    put("x.npy", file.data, file.len);
    tmk_text_finish(&file);
    *stage = (struct stage){.data = {in_folder("x.npy")}};
    stage->options = (struct tmk_data_options){
        .sources = stage->data, .n_sources = 1, .batch = batch, .skip = skip};
    must(parse_graph("graph \"g\" opset 17 {\n input %x : f32[\"N\",3]\n"
                     " %y = Neg(%x)\n output %y\n}",
                     NULL, &stage->graph, DIAG));
    must(tmk_ops_bind(stage->graph, DIAG));
    tmk_graph_number(stage->graph);
    must(tmk_feed_open(stage->graph, &stage->options, 1, &(struct tmk_notices){0}, &stage->feed,
                       DIAG));
}

static void close_stage(struct stage *stage) {
    tmk_feed_close(&stage->feed);
    tmk_graph_destroy(&stage->graph);
}

/* Reads all there is, pause after pause, and adds up the sample counts. */
static void read_all(struct stage *stage, bool *got, bool *covered, uint64_t batch) {
    struct tmk_diag diag = {0};
    struct tmk_batch_source feed = tmk_feed_batch_source(stage->feed);
    const struct tmk_sample_counts *ledger = tmk_feed_counts(stage->feed, 0);
    uint64_t run = 0, counted = 0;
    for (;;) {
        struct tmk_batch read = {0};
        bool more = true, paused = false;
        paused = rand() % 3 == 0 && tmk_feed_can_pause(stage->feed);
        if (paused)
            tmk_feed_pause(stage->feed);
        else
            assert_ok(feed.next(feed.context, &read, &more, &diag), &diag);
        if (!paused && more && !read.samples)
            continue;
        if (!paused && more) {
            assert_true(read.sample / batch == (read.sample + read.samples - 1) / batch);
            assert_true(((float *)read.inputs[0].data)[0] == (float)read.sample);
            for (uint64_t s = read.sample; s < read.sample + read.samples; s++) {
                assert_false(got[s]);
                got[s] = true;
            }
            run += read.samples;
            tmk_batch_finish(&read);
            continue;
        }
        counted += ledger->run;
        for (uint32_t i = 0; i < ledger->n_ranges; i++)
            for (uint64_t s = ledger->ranges[i].begin; s < ledger->ranges[i].end; s++) {
                assert_false(covered[s]);
                covered[s] = true;
            }
        if (!paused)
            break;
        assert_ok(tmk_feed_resume(stage->feed, &diag), &diag);
    }
    assert_int_equal(run, counted);
}

TEST(what_is_assigned_runs_and_is_counted) {
    for (int round = 0; round < 200; round++) {
        uint64_t batch = 1 + (uint64_t)rand() % 5;
        struct tmk_profile_range given[SAMPLES];
        bool in_given[SAMPLES], got[SAMPLES] = {false}, covered[SAMPLES] = {false};
        struct list list = {given, make_up(given, in_given, batch), 0};
        struct stage stage;
        uint64_t share = 0;
        open_stage(&stage, (uint32_t)batch, 0);
        const struct tmk_work_ranges hand_out = {next_of_list, &list};
        must(tmk_feed_set_ranges(stage.feed, &hand_out, DIAG));
        for (uint32_t i = 0; i < list.n; i++)
            share += tmk_feed_share(stage.feed, given[i].begin, given[i].end);
        read_all(&stage, got, covered, batch);
        assert_memory_equal(got, in_given, sizeof got);
        assert_memory_equal(covered, in_given, sizeof covered);
        for (int s = 0; s < SAMPLES; s++)
            share -= in_given[s];
        assert_int_equal(share, 0);
        close_stage(&stage);
    }
}

TEST(shards_tile_the_run) {
    for (uint32_t batch = 1; batch < 9; batch += 2)
        for (uint32_t shards = 1; shards < 50; shards += 6) {
            struct stage stage;
            struct tmk_shard shard;
            open_stage(&stage, batch, 5);
            uint64_t at = 5, n = tmk_feed_batches(stage.feed);
            for (uint32_t k = 1; k <= shards; k++) {
                must(tmk_shard_of(stage.feed, k, shards, &shard, DIAG));
                assert_int_equal(shard.begin, at);
                assert_true(shard.end - shard.begin <= (n / shards + 1) * batch);
                at = shard.end;
            }
            assert_int_equal(at, SAMPLES);
            assert_int_equal(tmk_shard_of(stage.feed, shards + 1, shards, &shard, DIAG),
                             TMK_ARGUMENT);
            close_stage(&stage);
        }
}

TEST(parts_that_are_none_are_refused) {
    static const struct tmk_profile_range wrong[][2] = {
        {{0, 6}, {6, 12}}, {{2, 8}, {8, 12}},    {{4, 8}, {0, 4}},    {{4, 8}, {4, 12}},
        {{4, 4}, {4, 8}},  {{36, 44}, {44, 48}}, {{12, 8}, {12, 16}}, {{0, 4}, {41, 44}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct list list = {wrong[i], 2, 0};
        struct stage stage;
        struct tmk_diag diag = {0};
        enum tmk_status status = TMK_OK;
        open_stage(&stage, 4, 0);
        assert_ok(
            tmk_feed_set_ranges(stage.feed, &(struct tmk_work_ranges){next_of_list, &list}, &diag),
            &diag);
        struct tmk_batch_source feed = tmk_feed_batch_source(stage.feed);
        for (bool more = true; more && status == TMK_OK;) {
            struct tmk_batch read = {0};
            status = feed.next(feed.context, &read, &more, &diag);
            tmk_batch_finish(&read);
        }
        assert_int_equal(status, TMK_ARGUMENT);
        close_stage(&stage);
    }
}

GROUP_FIXTURE(make_folder, remove_folder)
