/* SPDX-License-Identifier: Apache-2.0 */
/* Accelerated kernels against the plain ones, on random nodes, in all layouts: the same numbers
 * within rounding, +0 where there is no channel, nothing written beyond outputs and scratch memory,
 * and the same bytes in every run and every thread. */
#include "test.h"

#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "graph/print.h"
#include "kernel/accel.h"

enum { GUARD = 64, MOST_INPUTS = 3, RUNS = 3 };

static uint64_t seed = 20240229;

static uint32_t random_bits(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

/* Built with a library of kernels, or only with those of our own? */
static bool with_library(void) {
    return tmk_kernel_block() != 0;
}

static int pick(int low, int high) {
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

struct fixture {
    struct tmk_graph *graph;
    struct tmk_accel_layout layout;
    const struct tmk_node *node;
    struct tmk_tensor operand[MOST_INPUTS],
        known[MOST_INPUTS]; /* known: data NULL where not constant */
    const struct tmk_tensor *in[MOST_INPUTS], *in_known[MOST_INPUTS];
    struct tmk_tensor blocks; /* operand 0, as the layout has it */
    struct tmk_infer_result type[2];
    struct tmk_tensor expected[2];
    struct tmk_accel *accel;
};

/* Operands whose bit is set in `constants` are known when the accel is made. False: the node is not
 * valid. */
static bool set_up(struct fixture *f, const char *text, unsigned constants) {
    struct tmk_diag diag = {0};
    *f = (struct fixture){0};
    assert_ok(tmk_graph_parse(text, NULL, &f->graph, &diag), &diag);
    assert_ok(tmk_ops_bind(f->graph, &diag), &diag);
    f->node = f->graph->first;
    for (uint32_t i = 0; i < f->node->n_inputs; i++) {
        if (!f->node->inputs[i])
            continue;
        const struct tmk_type *type = &f->node->inputs[i]->type;
        struct tmk_tensor *t = &f->operand[i];
        assert_ok(tmk_tensor_init(t, type->dtype, &type->shape, &diag), &diag);
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

/* False: left to the plain kernel. */
static bool prepare(struct fixture *f, struct tmk_accel_layout layout) {
    struct tmk_diag diag = {0};
    f->layout = layout;
    assert_ok(tmk_accel_create(f->node, f->in_known, f->type, layout, NULL, &f->accel, &diag),
              &diag);
    return f->accel;
}

static void tear_down(struct fixture *f) {
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
    if (worst > 1e-5 * range)
        fail_msg("%s: off by %g in a range of %g, {%u, %u}\n%s", tmk_accel_name(f->accel), worst,
                 range, f->layout.in, f->layout.out, text);
}

/* Runs on this thread and on two more at a time. */
static void check_prepared(struct fixture *f, const char *text) {
    struct tmk_diag diag = {0};
    struct worker workers[3] = {0};
    pthread_t threads[3];
    tmk_tensor_finish(&f->expected[0]);
    tmk_tensor_finish(&f->expected[1]);
    assert_ok(tmk_op_run(f->node, f->in, f->expected, &diag), &diag);
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
            struct tmk_accel_layout wanted =
                tmk_accel_wants(f->node, f->in_known, f->type, haves[k]);
            if (is_rows(wanted))
                continue;
            asked = true;
            if (!check_layout(f, wanted, text))
                fail_msg("asks for {%u, %u}, but cannot do it\n%s", wanted.in, wanted.out, text);
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
    bool valid, rows, blocks; /* rows: accelerated row-major; blocks: asks for blocks */
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

/* 1: accelerated, and right; 0: left to the plain kernel; -1: no valid node. */
static int check(const char *text, unsigned constants) {
    struct outcome outcome = check_all(text, constants);
    return outcome.valid ? outcome.rows : -1;
}

/* `count` valid nodes out of make, at least so many of them accelerated row-major, and asking for
 * blocks. */
static void check_many(void (*make)(struct tmk_text *text), int count, int least,
                       int least_blocks) {
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
    if (accelerated < least || asking < least_blocks)
        fail_msg("only %d of %d are accelerated, and %d ask for blocks", accelerated, count,
                 asking);
}

/* ---- random nodes: from inside the first input's shape to the node's end ----
 * No expression picks twice: compilers may evaluate arguments in any order. */

static void add_number(struct tmk_text *text, const char *before, int number) {
    tmk_text_printf(text, "%s%d", before, number);
}

/* "a,b,c]": n numbers in [low, high]. */
static void add_numbers(struct tmk_text *text, int n, int low, int high) {
    for (int i = 0; i < n; i++)
        add_number(text, i ? "," : "", pick(low, high));
    tmk_text_printf(text, "]");
}

static void add_window(struct tmk_text *text, int spatial, int kernel, int dilation) {
    static const char *const same[] = {"SAME_UPPER", "SAME_LOWER", "VALID"};
    tmk_text_printf(text, "strides=[");
    add_numbers(text, spatial, 1, 3);
    if (dilation > 1) {
        tmk_text_printf(text, ", dilations=[");
        add_numbers(text, spatial, 1, dilation);
    }
    if (pick(0, 3) == 0) {
        tmk_text_printf(text, ", auto_pad=\"%s\"}", same[pick(0, 2)]);
        return;
    }
    tmk_text_printf(text, ", pads=[");
    add_numbers(text, 2 * spatial, 0, kernel - 1);
    tmk_text_printf(text, "}");
}

static int random_spatial(void) {
    int choice = pick(0, 9);
    return choice < 6 ? 2 : choice < 8 ? 1 : 3;
}

static void convolution(struct tmk_text *text, bool transposed) {
    static const int channels[] = {1, 3, 5, 8, 16, 17, 32};
    int spatial = random_spatial(), group = 1, kernel = pick(1, 3), kind = pick(0, 4);
    int in = channels[pick(0, 6)];
    int out = channels[pick(0, 6)];
    if (kind == 0) { /* depthwise */
        group = in;
        out = in * pick(1, 2);
    } else if (kind == 1) {
        group = pick(2, 4);
        in = group * pick(1, 9);
        out = group * pick(1, 9);
    }
    tmk_text_printf(text, "%d,%d,", pick(1, 3), in);
    add_numbers(text, spatial, 3, spatial == 3 ? 7 : 14);
    tmk_text_printf(text, "\n  input %%w : f32[%d,%d,", transposed ? in : out,
                    (transposed ? out : in) / group);
    add_numbers(text, spatial, kernel, kernel);
    tmk_text_printf(text, "\n  input %%b : f32[%d]\n  %%y = Conv%s(%%x, %%w%s) {group=%d, ", out,
                    transposed ? "Transpose" : "", pick(0, 1) ? ", %b" : "", group);
    add_window(text, spatial, kernel, pick(0, 2) ? 1 : 2);
}

static void random_conv(struct tmk_text *text) {
    convolution(text, false);
}

static void random_fused_conv(struct tmk_text *text) {
    static const char *const activations[] = {
        "activation=\"Relu\"",
        "activation=\"Sigmoid\"",
        "activation=\"LeakyRelu\", activation_params=[0.1f]",
        "activation=\"Clip\", activation_params=[0.25f, 1f]",
        "auto_pad=\"VALID\"",
    };
    int in = pick(1, 40), out = pick(1, 40), activation;
    tmk_text_printf(text, "2,%d,", in);
    add_numbers(text, 2, 3, 14);
    tmk_text_printf(text, "\n  input %%w : f32[%d,%d,3,3]\n  input %%b : f32[%d]\n", out, in, out);
    activation = pick(0, 4);
    tmk_text_printf(text, "  %%y = com.microsoft::FusedConv(%%x, %%w%s) {%s}",
                    pick(0, 1) ? ", %b" : "", activations[activation]);
}

static void random_conv_transpose(struct tmk_text *text) {
    convolution(text, true);
}

static void random_pool(struct tmk_text *text) {
    int spatial = random_spatial(), kernel = pick(1, 4), kind = pick(0, 3);
    add_number(text, "", pick(1, 2));
    add_number(text, ",", pick(1, 19));
    tmk_text_printf(text, ",");
    add_numbers(text, spatial, 3, 13);
    tmk_text_printf(text, "\n  %%y = %sPool(%%x) {ceil_mode=%d, %skernel_shape=[",
                    kind < 2 ? "Max" : "Average", pick(0, 1),
                    kind == 3 ? "count_include_pad=1, " : "");
    add_numbers(text, spatial, kernel, kernel);
    tmk_text_printf(text, ", ");
    add_window(text, spatial, kernel, 1);
}

static void random_global(struct tmk_text *text) {
    static const char *const axes[] = {"", "[2]", "[-1,2]", "[2,4,-2]"};
    int spatial = random_spatial(), kind = pick(0, 3);
    add_number(text, "", pick(1, 3));
    add_number(text, ",", pick(1, 40));
    tmk_text_printf(text, ",");
    add_numbers(text, spatial, 1, 8);
    if (kind < 2)
        tmk_text_printf(text, "\n  %%y = Global%sPool(%%x)", kind ? "Max" : "Average");
    else
        tmk_text_printf(text, "\n  %%y = ReduceMean(%%x) {keepdims=%d, axes=%s}", kind - 2,
                        axes[spatial]);
}

static void random_matmul(struct tmk_text *text) {
    static const char *const left[] = {"", "2,", "3,1,", "1,4,", "3,4,", "4,", "2,3,4,"};
    static const char *const right[] = {"", "4,", "3,1,", "1,4,", "3,4,", "", ""};
    int m = pick(1, 40), n = pick(1, 40), k = pick(1, 70), kind = pick(0, 9);
    if (kind != 0)
        tmk_text_printf(text, "%s%d,", left[pick(0, 6)], m);
    tmk_text_printf(text, "%d]\n  input %%w : f32[", k);
    if (kind == 1)
        tmk_text_printf(text, "%d]", k);
    else
        tmk_text_printf(text, "%s%d,%d]", right[pick(0, 6)], k, n);
    tmk_text_printf(text, "\n  %%y = MatMul(%%x, %%w)");
}

static void random_gemm(struct tmk_text *text) {
    static const char *const alphas[] = {"1f", "0.5f"}, *const betas[] = {"1f", "1f", "0f", "-2f"};
    int m = pick(1, 30), n = pick(1, 50), k = pick(1, 70), ta = pick(0, 1), tb = pick(0, 1);
    int addend = pick(0, 6);
    tmk_text_printf(text, "%d,%d]\n  input %%w : f32[%d,%d]\n  input %%c : f32[", ta ? k : m,
                    ta ? m : k, tb ? n : k, tb ? k : n);
    if (addend == 0)
        tmk_text_printf(text, "%d]", n);
    else if (addend == 1)
        tmk_text_printf(text, "%d,1]", m);
    else if (addend == 2)
        tmk_text_printf(text, "%d,%d]", m, n);
    else
        tmk_text_printf(text, "%s]", addend == 3 ? "1" : "");
    tmk_text_printf(text, "\n  %%y = Gemm(%%x, %%w%s) {transA=%d, transB=%d, ",
                    addend < 5 ? ", %c" : "", ta, tb);
    tmk_text_printf(text, "alpha=%s, ", alphas[pick(0, 1)]);
    tmk_text_printf(text, "beta=%s}", betas[pick(0, 3)]);
}

/* ---- tests ---- */

static void convolutions_agree(void **state) {
    (void)state;
    check_many(random_conv, 90, 85, 12);
}

static void fused_convolutions_agree(void **state) {
    (void)state;
    check_many(random_fused_conv, 30, 28, 1);
}

static void transposed_convolutions_agree(void **state) {
    (void)state;
    check_many(random_conv_transpose, 50, 45, 1);
}

static void pools_agree(void **state) {
    (void)state;
    check_many(random_pool, 80, with_library() ? 70 : 0, 78);
}

static void global_pools_agree(void **state) {
    (void)state;
    check_many(random_global, 60, 0, 58);
}

static void matrix_products_agree(void **state) {
    (void)state;
    check_many(random_matmul, 60, 45, 0);
}

static void gemms_agree(void **state) {
    (void)state;
    check_many(random_gemm, 50, 50, 0);
}

static void wide_pointwise_and_image_layers_agree(void **state) {
    (void)state;
    static const char *const nodes[] = {
        "graph \"g\" opset 17 {\n input %x : f32[2,19,12,13]\n input %w : f32[23,19,1,1]\n"
        " input %b : f32[23]\n %y = Conv(%x, %w, %b)\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[2,64,7,7]\n input %w : f32[96,64,1,1]\n"
        " %y = Conv(%x, %w)\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[1,3,41,40]\n input %w : f32[20,3,7,7]\n"
        " input %b : f32[20]\n %y = Conv(%x, %w, %b) {pads=[3,3,3,3], strides=[2,2]}\n output "
        "%y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[1,32,15,15]\n input %w : f32[64,32,1,1]\n"
        " %y = Conv(%x, %w) {strides=[2,2]}\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[1,200]\n input %w : f32[100,200]\n"
        " input %b : f32[100]\n %y = Gemm(%x, %w, %b) {transB=1}\n output %y\n}\n",
    };
    tmk_kernel_enter_thread();
    for (size_t i = 0; i < TMK_COUNT(nodes); i++)
        for (unsigned constants = 0; constants < 8; constants += 2)
            assert_int_equal(check(nodes[i], constants), 1);
}

static void a_transposed_convolution_pads_its_output(void **state) {
    (void)state;
    tmk_kernel_enter_thread();
    assert_int_equal(
        check("graph \"g\" opset 17 {\n input %x : f32[1,8,5,4]\n"
              " input %w : f32[8,6,3,3]\n input %b : f32[6]\n %y = ConvTranspose(%x, %w, %b)"
              " {strides=[2,3], pads=[1,1,0,0], output_padding=[1,2]}\n output %y\n}\n",
              6),
        1);
}

static void what_does_not_map_is_left_to_the_plain_kernel(void **state) {
    (void)state;
    static const char *const nodes[] = {
        "graph \"g\" opset 17 {\n input %x : i32[4,5]\n input %w : i32[5,6]\n"
        " %y = MatMul(%x, %w)\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[0,5]\n input %w : f32[5,6]\n"
        " %y = MatMul(%x, %w)\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[4,0]\n input %w : f32[0,6]\n"
        " %y = MatMul(%x, %w)\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[1,8,9,9]\n"
        " %y = MaxPool(%x) {kernel_shape=[2,2], dilations=[2,2]}\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[1,8,9,9]\n"
        " %y, %i = MaxPool(%x) {kernel_shape=[2,2]}\n output %y\n output %i\n}\n",
        "graph \"g\" opset 17 {\n input %x : u8[1,8,9,9]\n"
        " %y = MaxPool(%x) {kernel_shape=[2,2]}\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[1,8,8,8]\n %y = AveragePool(%x) "
        "{kernel_shape=[3,3],"
        " strides=[2,2], ceil_mode=1, count_include_pad=1}\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[1,8,40,40]\n"
        " %y = AveragePool(%x) {kernel_shape=[33,33]}\n"
        " output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[1,2,3,3,3,3]\n input %w : f32[2,2,1,1,1,1]\n"
        " %y = Conv(%x, %w)\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[1,8]\n %y = Relu(%x)\n output %y\n}\n",
    };
    for (size_t i = 0; i < TMK_COUNT(nodes); i++)
        if (check(nodes[i], 2) != 0)
            fail_msg("accelerated: %s", nodes[i]);
}

static const uint32_t all_blocks[] = {0, 8, 16};

static void maxima_keep_nan_and_infinities(void **state) {
    (void)state;
    static const char *const nodes[] = {
        "graph \"g\" opset 17 {\n input %x : f32[1,9,6,6]\n"
        " %y = MaxPool(%x) {kernel_shape=[3,3], strides=[3,3]}\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[1,9,6,6]\n"
        " %y = GlobalMaxPool(%x)\n output %y\n}\n"};
    tmk_kernel_enter_thread();
    for (size_t node = 0; node < TMK_COUNT(nodes); node++)
        for (size_t i = 0; i < TMK_COUNT(all_blocks); i++) {
            uint32_t block = all_blocks[i];
            if (block == 0 && (node == 1 || !with_library()))
                continue;
            struct fixture f;
            assert_true(set_up(&f, nodes[node], 0));
            assert_true(prepare(&f, (struct tmk_accel_layout){block, node ? 0 : block}));
            float *x = f.operand[0].data;
            x[0] = NAN;
            x[40] = INFINITY;
            for (size_t k = 72; k < 144; k++)
                x[k] = -INFINITY;
            check_prepared(&f, nodes[node]);
            const float *y = f.expected[0].data;
            assert_true(isnan(y[0]));
            assert_true(y[node ? 2 : 8] < 0 && isinf(y[node ? 2 : 8]));
            tear_down(&f);
        }
}

/* Their sum is beyond float32, their mean is not. */
static void averages_of_huge_numbers_are_finite(void **state) {
    (void)state;
    static const char node[] = "graph \"g\" opset 17 {\n input %x : f32[1,9,6,6]\n"
                               " %y = AveragePool(%x) {kernel_shape=[3,3], strides=[3,3]}\n"
                               " output %y\n}\n";
    tmk_kernel_enter_thread();
    for (size_t i = 0; i < TMK_COUNT(all_blocks); i++) {
        struct fixture f;
        if (all_blocks[i] == 0 && !with_library())
            continue;
        assert_true(set_up(&f, node, 0));
        assert_true(prepare(&f, (struct tmk_accel_layout){all_blocks[i], all_blocks[i]}));
        for (size_t k = 0; k < 36; k++)
            ((float *)f.operand[0].data)[k] = 1e38f;
        check_prepared(&f, node);
        assert_float_equal(((const float *)f.expected[0].data)[0], 1e38f, 1e32f);
        tear_down(&f);
    }
}

static void nan_reaches_its_sums_only(void **state) {
    (void)state;
    static const char *const nodes[] = {
        "graph \"g\" opset 17 {\n input %x : f32[1,5,9,9]\n input %w : f32[7,5,3,3]\n"
        " %y = Conv(%x, %w)\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[1,3,9,9]\n input %w : f32[7,3,3,3]\n"
        " input %b : f32[7]\n %y = Conv(%x, %w, %b)\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[1,17,9,9]\n input %w : f32[18,17,1,1]\n"
        " input %b : f32[18]\n %y = Conv(%x, %w, %b)\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[1,17,9,9]\n input %w : f32[17,1,3,3]\n"
        " %y = Conv(%x, %w) {group=17}\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[1,9,9,9]\n input %w : f32[9,7,3,3]\n"
        " %y = ConvTranspose(%x, %w)\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[1,9,9,9]\n"
        " %y = AveragePool(%x) {kernel_shape=[3,3]}\n output %y\n}\n",
    };
    tmk_kernel_enter_thread();
    for (size_t node = 0; node < TMK_COUNT(nodes); node++)
        for (size_t in = 0; in < TMK_COUNT(all_blocks); in++)
            for (size_t out = 0; out < TMK_COUNT(all_blocks); out++) {
                struct fixture f;
                assert_true(set_up(&f, nodes[node], 2));
                if (prepare(&f, (struct tmk_accel_layout){all_blocks[in], all_blocks[out]})) {
                    ((float *)f.operand[0].data)[2] = NAN;
                    ((float *)f.operand[0].data)[80] = INFINITY;
                    check_prepared(&f, nodes[node]);
                } else
                    assert_false(all_blocks[in] == 0 && all_blocks[out] == 0);
                tear_down(&f);
            }
}

/* Padding is zeros to the plain kernel: under an infinite weight they are NaN. */
static void infinite_weights_under_padding_are_left_to_the_plain_kernel(void **state) {
    (void)state;
    static const char *const nodes[] = {
        "graph \"g\" opset 17 {\n input %x : f32[1,16,9,9]\n input %w : f32[16,16,3,3]\n"
        " %y = Conv(%x, %w) {pads=[1,1,1,1]}\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[1,16,9,9]\n input %w : f32[16,16,3,3]\n"
        " %y = Conv(%x, %w)\n output %y\n}\n",
    };
    tmk_kernel_enter_thread();
    for (size_t node = 0; node < TMK_COUNT(nodes); node++) {
        struct fixture f;
        assert_true(set_up(&f, nodes[node], 2));
        ((float *)f.operand[1].data)[7] = INFINITY;
        assert_true(prepare(&f, (struct tmk_accel_layout){0, 0}) == (node == 1));
        if (node == 1)
            check_prepared(&f, nodes[node]);
        tear_down(&f);
    }
}

/* The second accel has a copy of its own exactly where the first had made one, and nothing to
 * share; and outlives the first. */
static void accels_share_copies_of_the_same_weights(void **state) {
    (void)state;
    static const char *const text[] = {
        "graph \"g\" opset 17 {\n input %x : f32[1,32,9,9]\n input %w : f32[48,32,3,3]\n"
        " input %b : f32[48]\n %y = Conv(%x, %w, %b) {pads=[1,1,1,1]}\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[4,32,9,9]\n input %w : f32[48,32,3,3]\n"
        " input %b : f32[48]\n %y = Conv(%x, %w, %b) {pads=[1,1,1,1]}\n output %y\n}\n",
    };
    const size_t copy = 48 * 32 * 3 * 3 * sizeof(float);
    struct tmk_diag diag = {0};
    struct tmk_packs *packs = NULL;
    struct fixture f[3];
    size_t held[3] = {0};
    tmk_kernel_enter_thread();
    assert_ok(tmk_packs_create(&packs, &diag), &diag);
    for (size_t i = 0; i < TMK_COUNT(f); i++) { /* the last has weights of its own */
        assert_true(set_up(&f[i], text[i ? 1 : 0], 6));
        for (size_t k = 1; k < 3 && i == 1; k++) {
            tmk_tensor_finish(&f[1].operand[k]);
            tmk_tensor_share(&f[1].operand[k], &f[0].operand[k]);
            f[1].known[k] = f[1].operand[k];
        }
        f[i].layout = tmk_accel_wants(f[i].node, f[i].in_known, f[i].type, 0);
        assert_ok(tmk_accel_create(f[i].node, f[i].in_known, f[i].type, f[i].layout, packs,
                                   &f[i].accel, &diag),
                  &diag);
        assert_non_null(f[i].accel);
        held[i] = tmk_accel_bytes(f[i].accel);
    }
    assert_true(held[0] >= copy);
    assert_true(held[1] + copy <= held[0]);
    assert_int_equal(held[2], held[0]);
    tmk_accel_destroy(&f[0].accel);
    check_prepared(&f[1], text[1]);
    check_prepared(&f[2], text[1]);
    for (size_t i = 0; i < TMK_COUNT(f); i++)
        tear_down(&f[i]);
    tmk_packs_destroy(&packs);
}

static size_t threads_of_this_process(void) {
    size_t n = 0;
    DIR *dir = opendir("/proc/self/task");
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void *do_nothing(void *unused) {
    return unused;
}

static void the_library_starts_no_threads(void **state) {
    (void)state;
    pthread_t thread; /* a sanitizer starts one of its own no later than this */
    assert_int_equal(pthread_create(&thread, NULL, do_nothing, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    const size_t before = threads_of_this_process();
    tmk_kernel_enter_thread();
    assert_int_equal(check("graph \"g\" opset 17 {\n input %x : f32[4,32,40,40]\n"
                           " input %w : f32[32,32,3,3]\n %y = Conv(%x, %w)\n output %y\n}\n",
                           2),
                     1);
    assert_int_equal(threads_of_this_process(), before);
}

static void kernels_have_names(void **state) {
    (void)state;
    struct fixture f;
    tmk_kernel_enter_thread();
    assert_non_null(strstr(tmk_kernel_library(), "oneDNN "));
    assert_non_null(strchr(tmk_kernel_library(), '('));
    assert_true(set_up(&f,
                       "graph \"g\" opset 17 {\n input %a : f32[9,9]\n input %b : f32[9,9]\n"
                       " %y = MatMul(%a, %b)\n output %y\n}\n",
                       0));
    assert_true(prepare(&f, (struct tmk_accel_layout){0, 0}));
    assert_int_equal(strncmp(tmk_accel_name(f.accel), "onednn ", 7), 0);
    tear_down(&f);
    tmk_accel_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_library_starts_no_threads), /* first: before other tests start any */
        cmocka_unit_test(convolutions_agree),
        cmocka_unit_test(fused_convolutions_agree),
        cmocka_unit_test(transposed_convolutions_agree),
        cmocka_unit_test(pools_agree),
        cmocka_unit_test(global_pools_agree),
        cmocka_unit_test(matrix_products_agree),
        cmocka_unit_test(gemms_agree),
        cmocka_unit_test(wide_pointwise_and_image_layers_agree),
        cmocka_unit_test(a_transposed_convolution_pads_its_output),
        cmocka_unit_test(what_does_not_map_is_left_to_the_plain_kernel),
        cmocka_unit_test(maxima_keep_nan_and_infinities),
        cmocka_unit_test(averages_of_huge_numbers_are_finite),
        cmocka_unit_test(nan_reaches_its_sums_only),
        cmocka_unit_test(infinite_weights_under_padding_are_left_to_the_plain_kernel),
        cmocka_unit_test(accels_share_copies_of_the_same_weights),
        cmocka_unit_test(kernels_have_names),
    };
    const struct CMUnitTest own[] = {
        cmocka_unit_test(pools_agree),
        cmocka_unit_test(global_pools_agree),
        cmocka_unit_test(what_does_not_map_is_left_to_the_plain_kernel),
        cmocka_unit_test(maxima_keep_nan_and_infinities),
        cmocka_unit_test(averages_of_huge_numbers_are_finite),
    };
    if (!with_library())
        return cmocka_run_group_tests(own, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
