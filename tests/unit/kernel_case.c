/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel_case.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "graph_text/read.h"

enum { GUARD = 64, RUNS = 3 };

static uint64_t seed = 20240229;

uint32_t random_bits(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

bool with_library(void) {
    return tmk_kernel_block() != 0;
}

int pick(int low, int high) {
    return low + (int)(random_bits() % (uint32_t)(high - low + 1));
}

/* A block of `size` bytes, 64-byte aligned, with guards before and behind; everything is 0xff:
 * floats are NaN. */
static unsigned char *guarded(size_t size) {
    size_t total = (size + 2 * GUARD + 63) & ~(size_t)63;
    unsigned char *block = aligned_alloc(64, total);
    assert_non_null(block);
    memset(block, 0xff, total);
    return block + GUARD;
}

static void free_guarded(unsigned char *bytes, size_t size) {
    for (size_t i = 0; i < GUARD; i++) {
        assert_int_equal(bytes[-1 - (int)i], 0xff);
        assert_int_equal(bytes[size + i], 0xff);
    }
    free(bytes - GUARD);
}

/* ---- a node with its operands ---- */

bool set_up(struct fixture *f, const char *text, unsigned constants) {
    *f = (struct fixture){0};
    must(parse_graph(text, NULL, &f->graph, DIAG));
    must(tmk_ops_bind(f->graph, DIAG));
    f->node = f->graph->first;
    for (uint32_t i = 0; i < f->node->n_inputs; i++) {
        if (!f->node->inputs[i])
            continue;
        const struct tmk_type *type = &f->node->inputs[i]->type;
        struct tmk_tensor *t = &f->operand[i];
        must(tmk_tensor_init(t, type->dtype, &type->shape, DIAG));
        if (type->dtype == TMK_FLOAT32)
            for (size_t k = 0; k < tmk_tensor_count(t); k++)
                ((float *)t->data)[k] = (float)random_bits() * 0x1p-30f - 1;
        f->known[i] = *t;
        if (!(constants >> i & 1))
            f->known[i].data = NULL;
        f->in[i] = t;
        f->in_known[i] = &f->known[i];
    }
    return tmk_op_infer(f->node, f->in_known, f->type, NULL) == TMK_OK;
}

struct tmk_accel_layout preferred_layout(const struct fixture *f, uint32_t have) {
    struct tmk_accel_layout layout;
    must(tmk_accel_preferred_layout(f->node, f->in_known, f->type, have, &layout, DIAG));
    return layout;
}

bool prepare(struct fixture *f, struct tmk_accel_layout layout) {
    f->layout = layout;
    must(tmk_accel_create(f->node, f->in_known, f->type, layout, NULL, &f->accel, DIAG));
    return f->accel;
}

void tear_down(struct fixture *f) {
    tmk_accel_destroy(&f->accel);
    assert_null(f->accel);
    for (size_t i = 0; i < MOST_INPUTS; i++)
        tmk_tensor_finish(&f->operand[i]);
    tmk_tensor_finish(&f->expected[0]);
    tmk_tensor_finish(&f->expected[1]);
    tmk_graph_destroy(&f->graph);
}

/* ---- layouts ---- */

struct extents {
    size_t batch, channels, blocks, places;
};

static struct extents extents_of(const struct tmk_shape *shape, uint32_t block) {
    struct extents e = {.batch = (size_t)shape->dim[0],
                        .channels = (size_t)shape->dim[1],
                        .blocks = ((size_t)shape->dim[1] + block - 1) / block,
                        .places = 1};
    for (int32_t i = 2; i < shape->rank; i++)
        e.places *= (size_t)shape->dim[i];
    return e;
}

static size_t bytes_of(const struct tmk_shape *shape, uint32_t block) {
    size_t count = 0;
    if (block) {
        struct extents e = extents_of(shape, block);
        return e.batch * e.blocks * e.places * block * sizeof(float);
    }
    assert_true(tmk_shape_count(shape, &count));
    return count * sizeof(float);
}

static size_t place_of(const struct extents *e, uint32_t block, size_t n, size_t c, size_t i) {
    return ((n * e->blocks + c / block) * e->places + i) * block + c % block;
}

static void to_layout(const float *from, float *to, const struct tmk_shape *shape, uint32_t block) {
    if (!block) {
        memcpy(to, from, bytes_of(shape, 0));
        return;
    }
    struct extents e = extents_of(shape, block);
    memset(to, 0, bytes_of(shape, block));
    for (size_t n = 0; n < e.batch; n++)
        for (size_t c = 0; c < e.channels; c++)
            for (size_t i = 0; i < e.places; i++)
                to[place_of(&e, block, n, c, i)] = *from++;
}

/* What fills up must be +0. */
static void from_layout(const float *from, float *to, const struct tmk_shape *shape, uint32_t block,
                        const struct tmk_accel *accel, const char *text) {
    if (!block) {
        memcpy(to, from, bytes_of(shape, 0));
        return;
    }
    struct extents e = extents_of(shape, block);
    for (size_t n = 0; n < e.batch; n++)
        for (size_t c = 0; c < e.blocks * block; c++)
            for (size_t i = 0; i < e.places; i++) {
                float value = from[place_of(&e, block, n, c, i)];
                uint32_t bits;
                memcpy(&bits, &value, sizeof bits);
                if (c < e.channels)
                    *to++ = value;
                else if (bits)
                    fail_msg("%s: filled up with %g\n%s", tmk_accel_name(accel), (double)value,
                             text);
            }
}

/* ---- running ---- */

struct worker {
    const struct fixture *fixture;
    unsigned char *bytes[RUNS];
    size_t size;
    enum tmk_status status;
};

static void *work(void *argument) {
    struct worker *w = argument;
    const struct fixture *f = w->fixture;
    tmk_kernel_enter_thread();
    size_t scratch_size = tmk_accel_scratch(f->accel);
    for (size_t i = 0; i < RUNS && w->status == TMK_OK; i++) {
        unsigned char *scratch = guarded(scratch_size);
        struct tmk_tensor y;
        const struct tmk_tensor *in[MOST_INPUTS];
        memcpy(in, f->in, sizeof in);
        in[0] = &f->blocks;
        tmk_tensor_borrow(&y, TMK_FLOAT32, &f->type[0].shape, w->bytes[i]);
        w->status = tmk_accel_run(f->accel, in, (struct tmk_tensor *[]){&y, NULL}, scratch, NULL);
        free_guarded(scratch, scratch_size);
    }
    return NULL;
}

static void compare(const struct fixture *f, const float *y, const char *text) {
    const float *expected = f->expected[0].data;
    size_t n = tmk_tensor_count(&f->expected[0]);
    double range = 1, worst = 0; /* operands are in [-1, 1) */
    for (size_t i = 0; i < n; i++) {
        double e = expected[i], d = (double)y[i] - e;
        if (isnan(y[i]) || isnan(e) || isinf(e)) {
            if (isnan(y[i]) != isnan(e) || (!isnan(e) && (double)y[i] != e))
                fail_msg("%s: element %zu is %g, not %g\n%s", tmk_accel_name(f->accel), i,
                         (double)y[i], e, text);
            continue;
        }
        range = fmax(range, fabs(e));
        worst = fmax(worst, fabs(d));
    }
    if (worst > (f->exact ? 0 : 1e-5 * range))
        fail_msg("%s: off by %g in a range of %g, {%u, %u}\n%s", tmk_accel_name(f->accel), worst,
                 range, f->layout.in, f->layout.out, text);
}

void check_prepared(struct fixture *f, const char *text) {
    struct worker workers[3] = {0};
    pthread_t threads[3];
    tmk_tensor_finish(&f->expected[0]);
    tmk_tensor_finish(&f->expected[1]);
    must(tmk_op_run(f->node, f->in, f->expected, DIAG));
    assert_null(strstr(tmk_accel_name(f->accel), "ref")); /* oneDNN's slow ones */
    assert_null(strstr(tmk_accel_name(f->accel), "simple"));
    size_t size = bytes_of(&f->type[0].shape, f->layout.out),
           size_in = bytes_of(&f->operand[0].shape, f->layout.in);
    unsigned char *x = guarded(size_in);
    to_layout(f->operand[0].data, (float *)(void *)x, &f->operand[0].shape, f->layout.in);
    tmk_tensor_borrow(&f->blocks, TMK_FLOAT32, &f->operand[0].shape, x);
    for (size_t w = 0; w < TMK_COUNT(workers); w++) {
        workers[w] = (struct worker){.fixture = f, .size = size};
        for (size_t i = 0; i < RUNS; i++)
            workers[w].bytes[i] = guarded(size);
    }
    work(&workers[0]);
    for (size_t w = 1; w < TMK_COUNT(workers); w++)
        assert_int_equal(pthread_create(&threads[w], NULL, work, &workers[w]), 0);
    for (size_t w = 1; w < TMK_COUNT(workers); w++)
        pthread_join(threads[w], NULL);
    float *rows = malloc(bytes_of(&f->type[0].shape, 0));
    assert_non_null(rows);
    from_layout((const float *)(const void *)workers[0].bytes[0], rows, &f->type[0].shape,
                f->layout.out, f->accel, text);
    compare(f, rows, text);
    free(rows);
    free_guarded(x, size_in);
    for (size_t w = TMK_COUNT(workers); w-- > 0;) {
        assert_int_equal(workers[w].status, TMK_OK);
        for (size_t i = RUNS; i-- > 0;) {
            assert_memory_equal(workers[w].bytes[i], workers[0].bytes[0], size);
            free_guarded(workers[w].bytes[i], size);
        }
    }
}

static bool check_layout(struct fixture *f, struct tmk_accel_layout layout, const char *text) {
    tmk_accel_destroy(&f->accel);
    if (!prepare(f, layout))
        return false;
    check_prepared(f, text);
    return true;
}

static bool is_rows(struct tmk_accel_layout layout) {
    return !layout.in && !layout.out;
}

/* What is asked for is there; what is not asked for is right where it is there. Without a library
 * nothing is asked for, but our own kernels are there. */
static bool check_blocks(struct fixture *f, const char *text) {
    f->known[0].data = NULL;
    static const uint32_t blocks[] = {8, 16};
    bool asked = false;
    if (f->operand[0].shape.rank < 3)
        return false;
    for (size_t i = 0; i < TMK_COUNT(blocks); i++) {
        const uint32_t b = blocks[i], haves[] = {0, tmk_kernel_block()};
        for (size_t k = 0; k < TMK_COUNT(haves); k++) {
            struct tmk_accel_layout wanted = preferred_layout(f, haves[k]);
            if (is_rows(wanted))
                continue;
            asked = true;
            if (!check_layout(f, wanted, text))
                fail_msg("requests {%u, %u}, but does not support it\n%s", wanted.in, wanted.out,
                         text);
        }
        bool both = check_layout(f, (struct tmk_accel_layout){b, b}, text),
             in = check_layout(f, (struct tmk_accel_layout){b, 0}, text);
        asked |= !with_library() && (both || in);
        if (f->type[0].shape.rank == f->operand[0].shape.rank)
            check_layout(f, (struct tmk_accel_layout){0, b}, text);
    }
    return asked;
}

struct outcome {
    bool valid, rows, blocks; /* rows: accelerated row-major; blocks: requests blocks */
};

static struct outcome check_all(const char *text, unsigned constants) {
    struct fixture f;
    struct outcome outcome = {.valid = set_up(&f, text, constants)};
    if (outcome.valid) {
        outcome.rows = check_layout(&f, (struct tmk_accel_layout){0, 0}, text);
        outcome.blocks = check_blocks(&f, text);
    }
    tear_down(&f);
    return outcome;
}

int check(const char *text, unsigned constants) {
    struct outcome outcome = check_all(text, constants);
    return outcome.valid ? outcome.rows : -1;
}

void check_many(void (*make)(struct tmk_text *text), int count, int min, int least_blocks) {
    int accelerated = 0, asking = 0;
    tmk_kernel_enter_thread();
    for (int i = 0; i < count;) {
        struct tmk_text text = {0};
        tmk_text_printf(&text, "graph \"g\" opset 17 \"com.microsoft\" 1 {\n  input %%x : f32[");
        make(&text);
        tmk_text_printf(&text, "\n  output %%y\n}\n");
        assert_false(text.failed);
        struct outcome outcome = check_all(text.data, random_bits());
        i += outcome.valid;
        accelerated += outcome.rows;
        asking += outcome.blocks;
        tmk_text_finish(&text);
    }
    if (accelerated < min || asking < least_blocks)
        fail_msg("only %d of %d are accelerated, and %d ask for blocks", accelerated, count,
                 asking);
}
