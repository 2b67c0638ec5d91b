/* SPDX-License-Identifier: Apache-2.0 */
/* Whole runs with several workers, stopped, paused, watched and side by side: what is written is
 * what one worker writes. ThreadSanitizer checks here what threads share. */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/meter.h>
#include <tidemark/session.h>

#include "base/diag.h"
#include "base/file.h"
#include "data_files.h"
#include "graph/graph.h"
#include "graph_text/read.h"
#include "model/onnx.h"
#include "ops/ops.h"

enum { SAMPLES = 60, WIDTH = 5, WORKERS = 4, RUNS = 3, STOP_AFTER = 7 };

static char model_file[256], data_x[260], data_h[260];
static const char *const data[] = {data_x, data_h};

/* A running maximum, where h is fed back. */
static void put_model(void) {
    struct tmk_graph *graph = NULL;
    must(parse_graph("graph \"g\" opset 17 ir 8 {\n"
                     "  input %x : f32[1,5] \"x\"\n  input %h : f32[1,5] \"h\"\n"
                     "  init %w : f32[5,5] = {1, 2, 0, 0, 1, 0, -1, 0.5, 0, 0, 3, 0, 0, "
                     "1, 1, 0, 0, 1, 0, 0, 2, 0, 0, 0, -2}\n"
                     "  %m = MatMul(%x, %w) \"m\" : f32[1,5]\n"
                     "  %r = Relu(%m) \"r\" : f32[1,5]\n"
                     "  %a = Max(%r, %h) \"a\" : f32[1,5]\n"
                     "  %t = Tanh(%a) \"t\" : f32[1,5]\n"
                     "  output %a\n  output %t\n}\n",
                     NULL, &graph, DIAG));
    must(tmk_ops_bind(graph, DIAG));
    must(tmk_graph_identify(graph, NULL, DIAG));
    must(tmk_onnx_save(graph, model_file, DIAG));
    tmk_graph_destroy(&graph);
}

static void put_data(void) {
    static float numbers[SAMPLES * WIDTH];
    struct tmk_text bytes = {0};
    srand(11);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        numbers[i] = (float)(rand() % 2000 - 1000) / 64;
    compose(&bytes, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (60, 5), }\n", numbers,
            sizeof numbers);
    put("data.npy", bytes.data, bytes.len);
    tmk_text_finish(&bytes);
}

static int set_up(void **state) {
    if (make_folder(state) != 0)
        return -1;
    snprintf(model_file, sizeof model_file, "%s", in_folder("model.onnx"));
    snprintf(data_x, sizeof data_x, "x=%s", in_folder("data.npy"));
    snprintf(data_h, sizeof data_h, "h=%s", in_folder("data.npy"));
    put_model();
    put_data();
    return 0;
}

/* ---- who watches a run ---- */

struct crowd {
    atomic_uint asked;        /* may it go on? */
    unsigned stop_after;      /* asked so often it may not; 0: always */
    bool slow;                /* to answer: so that progress is reported meanwhile */
    uint64_t told, resumed;   /* samples; by the calling thread alone */
    uint64_t seen[WORKERS];   /* values, each worker its own */
    atomic_ullong of_all;     /* values */
    uint64_t printed, strata; /* one at a time */
};

static bool stop(void *context) {
    struct crowd *crowd = context;
    if (crowd->slow)
        usleep(5000);
    return atomic_fetch_add(&crowd->asked, 1) + 1 == crowd->stop_after;
}

static void progress(void *context, uint64_t done, uint64_t total) {
    struct crowd *crowd = context;
    (void)total;
    crowd->told = done;
}

static void resumed(void *context, uint64_t done, uint64_t total) {
    struct crowd *crowd = context;
    (void)total;
    crowd->resumed = done;
}

static void print(void *context, const char *label, uint64_t sample,
                  const struct tmk_tensor *tensor) {
    struct crowd *crowd = context;
    (void)label, (void)sample, (void)tensor;
    crowd->printed++;
}

static enum tmk_status see(void *context, const struct tmk_observation *seen,
                           struct tmk_diag *diag) {
    struct crowd *crowd = context;
    (void)diag;
    crowd->seen[seen->worker]++;
    atomic_fetch_add(&crowd->of_all, 1);
    return TMK_OK;
}

static enum tmk_status take_stratum(void *context, const char *label,
                                    const struct tmk_profile *profile, struct tmk_diag *diag) {
    struct crowd *crowd = context;
    (void)label, (void)profile, (void)diag;
    crowd->strata++;
    return TMK_OK;
}

/* ---- running ---- */

static struct tmk_run_options options_of(struct crowd *crowd, uint32_t threads) {
    return (struct tmk_run_options){.data = {.sources = data, .n_sources = 2},
                                    .limits.threads = threads,
                                    .statistics.per_sample = true,
                                    .events = {.stop = stop,
                                               .progress = progress,
                                               .resumed = resumed,
                                               .print = print,
                                               .context = crowd},
                                    .observe = {see, crowd}};
}

static enum tmk_status run(const struct tmk_run_options *options, const char *kind,
                           struct tmk_profile **out, struct tmk_run_report *report,
                           struct tmk_diag *diag) {
    struct tmk_model *model = NULL;
    const struct tmk_observe observe = {.kind = kind};
    TMK_TRY(tmk_model_open(model_file, false, &model, diag));
    enum tmk_status status = tmk_model_profile(model, options, &observe, out, report, diag);
    tmk_model_close(&model);
    return status;
}

/* The profile's bytes, as their hash; the profile goes. */
static enum tmk_status hash_of(struct tmk_profile **profile, const char *path, char hex[65],
                               struct tmk_diag *diag) {
    enum tmk_status status = tmk_profile_write(*profile, path, diag);
    tmk_profile_destroy(profile);
    return status == TMK_OK ? tmk_file_sha256(path, hex, diag) : status;
}

static void run_to_hash(const struct tmk_run_options *options, char hex[65]) {
    struct tmk_profile *profile = NULL;
    char path[256];
    snprintf(path, sizeof path, "%s", in_folder("profile.json"));
    must(run(options, NULL, &profile, NULL, DIAG));
    must(hash_of(&profile, path, hex, DIAG));
}

static void assert_all_was_seen(const struct crowd *crowd) {
    uint64_t seen = 0;
    for (int i = 0; i < WORKERS; i++)
        seen += crowd->seen[i];
    assert_int_equal(seen, atomic_load(&crowd->of_all));
    assert_true(seen >= SAMPLES);
}

TEST(whoever_watches_sees_everything) {
    char one[65], many[65];
    for (int loops = 0; loops < 2; loops++) {
        const char *feedback = "a=h";
        struct crowd alone = {0}, all = {.slow = true};
        struct tmk_run_options options = options_of(&alone, 1);
        options.data.recurrence.feedback = &feedback;
        options.data.recurrence.n_feedback = (size_t)loops;
        options.data.recurrence.reset = loops ? "every=4" : NULL;
        run_to_hash(&options, one);
        options.limits.threads = WORKERS;
        options.events.context = options.observe.context = &all;
        run_to_hash(&options, many);
        assert_string_equal(one, many);
        assert_true(all.told > 0);
        assert_all_was_seen(&alone);
        assert_all_was_seen(&all);
    }
}

TEST(values_are_printed_one_at_a_time) {
    struct crowd crowd = {0};
    struct tmk_profile *profile = NULL;
    const struct tmk_run_options options = options_of(&crowd, WORKERS);
    must(run(&options, "print", &profile, NULL, DIAG));
    assert_true(crowd.printed >= SAMPLES);
    tmk_profile_destroy(&profile);
}

/* Stopped again and again, with checkpoints at every chance, until it is done. */
TEST(a_run_that_is_stopped_goes_on_with_any_number_of_workers) {
    char whole[65], pieces[65], checkpoint[256], path[256];
    struct crowd crowd = {0};
    struct tmk_run_options options = options_of(&crowd, 1);
    enum tmk_status status = TMK_INTERRUPTED;
    unsigned starts = 0;
    run_to_hash(&options, whole);
    snprintf(checkpoint, sizeof checkpoint, "%s", in_folder("checkpoint"));
    snprintf(path, sizeof path, "%s", in_folder("pieces.json"));
    options.checkpoint.path = checkpoint;
    options.checkpoint.seconds = 1e-4;
    for (; status == TMK_INTERRUPTED && starts < SAMPLES; starts++) {
        struct crowd part = {.stop_after = STOP_AFTER + starts};
        struct tmk_profile *profile = NULL;
        options.limits.threads = 3 + starts % 2;
        options.events.context = options.observe.context = &part;
        status = run(&options, NULL, &profile, NULL, DIAG);
        assert_true(status == TMK_OK || status == TMK_INTERRUPTED);
        assert_true(part.resumed >= crowd.resumed);
        crowd.resumed = part.resumed;
        if (status == TMK_OK)
            must(hash_of(&profile, path, pieces, DIAG));
    }
    assert_int_equal(status, TMK_OK);
    assert_true(starts > 2 && crowd.resumed > 0);
    assert_string_equal(whole, pieces);
}

TEST(strata_are_counted_by_all_workers) {
    char one[65], many[65];
    struct tmk_text labels = {0};
    struct tmk_strata *strata = NULL;
    struct crowd crowd = {0};
    for (int i = 0; i < SAMPLES; i++)
        tmk_text_printf(&labels, "%s\n", i % 3 ? i % 2 ? "odd" : "even" : "third");
    put("labels.csv", labels.data, labels.len);
    must(tmk_strata_read(in_folder("labels.csv"), &strata, DIAG));
    struct tmk_run_options options = options_of(&crowd, 1);
    options.data.strata = strata;
    options.strata = (struct tmk_strata_options){take_stratum, &crowd};
    run_to_hash(&options, one);
    options.limits.threads = WORKERS;
    run_to_hash(&options, many);
    assert_string_equal(one, many);
    assert_int_equal(crowd.strata, 2 * 3);
    tmk_strata_destroy(&strata);
    tmk_text_finish(&labels);
}

TEST(snapshots_and_their_end_are_those_of_one_worker) {
    char hex[2][65];
    for (int i = 0; i < 2; i++) {
        struct crowd crowd = {0};
        struct tmk_run_options options = options_of(&crowd, i ? WORKERS : 1);
        struct tmk_profile *profile = NULL;
        struct tmk_run_report report = {0};
        options.snapshots.until_stable = 0.25;
        must(run(&options, NULL, &profile, &report, DIAG));
        assert_true(tmk_meter_snapshots(report.meter) > 2);
        must(tmk_meter_write(report.meter, in_folder("meter.json"), DIAG));
        must(tmk_file_sha256(in_folder("meter.json"), hex[i], DIAG));
        tmk_meter_destroy(&report.meter);
        tmk_profile_destroy(&profile);
    }
    assert_string_equal(hex[0], hex[1]);
}

/* ---- runs side by side ---- */

struct run {
    char path[256], hex[65];
    enum tmk_status status;
    struct tmk_diag diag;
};

static void *run_alone(void *context) {
    struct run *r = context;
    struct crowd crowd = {0};
    struct tmk_profile *profile = NULL;
    const struct tmk_run_options options = options_of(&crowd, WORKERS);
    r->status = run(&options, NULL, &profile, NULL, &r->diag);
    if (r->status == TMK_OK)
        r->status = hash_of(&profile, r->path, r->hex, &r->diag);
    return NULL;
}

TEST(distinct_models_are_independent) {
    struct run runs[RUNS] = {0};
    pthread_t threads[RUNS];
    for (int i = 0; i < RUNS; i++) {
        char name[32];
        snprintf(name, sizeof name, "run%d.json", i);
        snprintf(runs[i].path, sizeof runs[i].path, "%s", in_folder(name));
        assert_int_equal(pthread_create(&threads[i], NULL, run_alone, &runs[i]), 0);
    }
    for (int i = 0; i < RUNS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_ok(runs[i].status, &runs[i].diag);
        assert_string_equal(runs[i].hex, runs[0].hex);
    }
}

GROUP_FIXTURE(set_up, remove_folder)
