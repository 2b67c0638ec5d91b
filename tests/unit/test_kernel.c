/* SPDX-License-Identifier: Apache-2.0 */
/* Accelerated kernels against the plain ones, on random nodes, in all layouts: the same numbers
 * within rounding, +0 where there is no channel, nothing written beyond outputs and scratch memory,
 * and the same bytes in every run and every thread. */
#include "kernel_case.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/size.h"

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

static void need_library(void) {
    if (!with_library())
        skip();
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

/* First: before other tests start any. */
TEST(the_library_starts_no_threads) {
    need_library();
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

TEST(convolutions_agree) {
    need_library();
    check_many(random_conv, 90, 85, 12);
}

TEST(fused_convolutions_agree) {
    need_library();
    check_many(random_fused_conv, 30, 28, 1);
}

TEST(transposed_convolutions_agree) {
    need_library();
    check_many(random_conv_transpose, 50, 45, 1);
}

TEST(pools_agree) {
    check_many(random_pool, 80, with_library() ? 70 : 0, 78);
}

TEST(global_pools_agree) {
    check_many(random_global, 60, 0, 58);
}

TEST(matrix_products_agree) {
    need_library();
    check_many(random_matmul, 60, 45, 0);
}

TEST(gemms_agree) {
    need_library();
    check_many(random_gemm, 50, 50, 0);
}

TEST(wide_pointwise_and_image_layers_agree) {
    need_library();
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

TEST(a_transposed_convolution_pads_its_output) {
    need_library();
    tmk_kernel_enter_thread();
    assert_int_equal(
        check("graph \"g\" opset 17 {\n input %x : f32[1,8,5,4]\n"
              " input %w : f32[8,6,3,3]\n input %b : f32[6]\n %y = ConvTranspose(%x, %w, %b)"
              " {strides=[2,3], pads=[1,1,0,0], output_padding=[1,2]}\n output %y\n}\n",
              6),
        1);
}

TEST(what_does_not_map_is_left_to_the_plain_kernel) {
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

TEST(maxima_keep_nan_and_infinities) {
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
TEST(averages_of_huge_numbers_are_finite) {
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

TEST(nan_reaches_its_sums_only) {
    need_library();
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
TEST(infinite_weights_under_padding_are_left_to_the_plain_kernel) {
    need_library();
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

static void *help(void *packs) {
    tmk_kernel_enter_thread();
    tmk_packs_help(packs);
    return NULL;
}

/* The second accel has a copy of its own exactly where the first had made one, and nothing to
 * share; and outlives the first. helpers > 0: so many threads write the copies meanwhile. */
static void share_copies(size_t helpers) {
    static const char *const text[] = {
        "graph \"g\" opset 17 {\n input %x : f32[1,32,9,9]\n input %w : f32[48,32,3,3]\n"
        " input %b : f32[48]\n %y = Conv(%x, %w, %b) {pads=[1,1,1,1]}\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[4,32,9,9]\n input %w : f32[48,32,3,3]\n"
        " input %b : f32[48]\n %y = Conv(%x, %w, %b) {pads=[1,1,1,1]}\n output %y\n}\n",
    };
    const size_t copy = 48 * 32 * 3 * 3 * sizeof(float);
    struct tmk_packs *packs = NULL;
    struct fixture f[3];
    size_t held[3] = {0};
    pthread_t threads[2];
    tmk_kernel_enter_thread();
    must(tmk_packs_create(&packs, DIAG));
    if (helpers)
        tmk_packs_open(packs);
    for (size_t i = 0; i < helpers; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, help, packs), 0);
    for (size_t i = 0; i < TMK_COUNT(f); i++) { /* the last has weights of its own */
        assert_true(set_up(&f[i], text[i ? 1 : 0], 6));
        for (size_t k = 1; k < 3 && i == 1; k++) {
            tmk_tensor_finish(&f[1].operand[k]);
            tmk_tensor_share(&f[1].operand[k], &f[0].operand[k]);
            f[1].known[k] = f[1].operand[k];
        }
        f[i].layout = preferred_layout(&f[i], 0);
        must(tmk_accel_create(f[i].node, f[i].in_known, f[i].type, f[i].layout, packs, &f[i].accel,
                              DIAG));
        assert_non_null(f[i].accel);
        held[i] = tmk_accel_bytes(f[i].accel);
    }
    if (helpers)
        must(tmk_packs_close(packs, DIAG));
    for (size_t i = 0; i < helpers; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    tmk_packs_help(packs); /* there is nothing to wait for */
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

/* A block of the graph may load another part of the copies each time: those that waited before are
 * not among those that wait now. */
TEST(copies_are_loaded_in_parts) {
    static const char text[] =
        "graph \"g\" opset 17 {\n input %x : f32[1,32,9,9]\n input %w : f32[48,32,3,3]\n"
        " input %b : f32[48]\n %y = Conv(%x, %w, %b) {pads=[1,1,1,1]}\n output %y\n}\n";
    struct tmk_packs *packs = NULL;
    struct fixture f[3];
    need_library();
    tmk_kernel_enter_thread();
    must(tmk_packs_create_empty(&packs, DIAG));
    for (size_t i = 0; i < TMK_COUNT(f); i++) {
        assert_true(set_up(&f[i], text, 6));
        f[i].layout = preferred_layout(&f[i], 0);
        must(tmk_accel_create(f[i].node, f[i].in_known, f[i].type, f[i].layout, packs, &f[i].accel,
                              DIAG));
        assert_non_null(f[i].accel);
    }
    for (size_t n = TMK_COUNT(f); n > 0; n--) {
        tmk_packs_open(packs);
        for (size_t i = 0; i < n; i++)
            must(tmk_accel_load(f[i].accel, DIAG));
        must(tmk_packs_close(packs, DIAG));
        check_prepared(&f[n - 1], text);
        for (size_t i = 0; i < n; i++)
            tmk_accel_unload(f[i].accel);
    }
    for (size_t i = 0; i < TMK_COUNT(f); i++)
        tear_down(&f[i]);
    tmk_packs_destroy(&packs);
}

TEST(accels_share_copies_of_the_same_weights) {
    need_library();
    share_copies(0);
}

TEST(threads_write_copies_together) {
    need_library();
    for (size_t round = 0; round < 8; round++)
        share_copies(1 + round % 2);
}

/* How many pages of the memory are there for this process. */
static size_t pages_present(const void *bytes, size_t size) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)bytes / page;
    size_t present = 0;
    int fd = open("/proc/self/pagemap", O_RDONLY);
    for (size_t i = 0; fd >= 0 && i < size / page; i++) {
        uint64_t entry = 0;
        (void)!pread(fd, &entry, sizeof entry, (off_t)((first + i) * sizeof entry));
        present += entry >> 63;
    }
    if (fd >= 0)
        close(fd);
    return present;
}

TEST(weights_of_a_mapped_file_are_packed_and_leave_memory) {
    need_library();
    static const char *const nodes[] = {
        "graph \"g\" opset 17 {\n input %a : f32[3,700]\n input %b : f32[700,1000]\n"
        " %y = MatMul(%a, %b)\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %a : f32[3,700]\n input %b : f32[999,700]\n"
        " %y = Gemm(%a, %b) {transB=1}\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[1,130,7,7]\n input %w : f32[330,130,3,3]\n"
        " %y = Conv(%x, %w)\n output %y\n}\n",
    };
    char path[] = "/tmp/tidemark-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    tmk_kernel_enter_thread();
    for (size_t i = 0; i < TMK_COUNT(nodes); i++) {
        struct fixture f;
        assert_true(set_up(&f, nodes[i], 2));
        const size_t bytes = tmk_tensor_bytes(&f.operand[1]);
        must(tmk_file_write(path, f.operand[1].data, bytes, DIAG));
        must(tmk_file_map(path, &f.known[1].buf, DIAG));
        f.known[1].data = tmk_buf_data(f.known[1].buf);
        assert_true(prepare(&f, (struct tmk_accel_layout){0, 0}));
        assert_true(pages_present(f.known[1].data, bytes) < 64);
        check_prepared(&f, nodes[i]);
        tmk_accel_destroy(&f.accel);
        tmk_buf_unref(&f.known[1].buf);
        tear_down(&f);
    }
    unlink(path);
}

TEST(kernels_have_names) {
    need_library();
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
