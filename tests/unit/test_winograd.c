/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions by Winograd's algorithm, where the library has it; where not, the same promises of
 * what runs there. */
#include "kernel_case.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/size.h"

static const char *const nodes[] = {
    "graph \"g\" opset 17 {\n input %x : f32[1,16,10,10]\n input %w : f32[16,16,3,3]\n"
    " %y = Conv(%x, %w) {pads=[1,1,1,1]}\n output %y\n}\n",
    "graph \"g\" opset 17 {\n input %x : f32[3,64,14,15]\n input %w : f32[32,64,3,3]\n"
    " input %b : f32[32]\n %y = Conv(%x, %w, %b) {pads=[1,0,1,0]}\n output %y\n}\n",
    "graph \"g\" opset 17 {\n input %x : f32[1,32,21,17]\n input %w : f32[48,32,3,3]\n"
    " %y = Conv(%x, %w)\n output %y\n}\n",
    /* in parts */
    "graph \"g\" opset 17 {\n input %x : f32[2,128,28,28]\n input %w : f32[128,128,3,3]\n"
    " input %b : f32[128]\n %y = Conv(%x, %w, %b) {pads=[1,1,1,1]}\n output %y\n}\n",
    /* in parts that add up */
    "graph \"g\" opset 17 {\n input %x : f32[2,512,10,10]\n input %w : f32[16,512,3,3]\n"
    " input %b : f32[16]\n %y = Conv(%x, %w, %b) {pads=[1,1,1,1]}\n output %y\n}\n",
    "graph \"g\" opset 17 {\n input %x : f32[1,512,12,12]\n input %w : f32[32,512,3,3]\n"
    " %y = Conv(%x, %w) {pads=[1,1,1,1]}\n output %y\n}\n",
    /* with more bytes of weights than of anything else */
    "graph \"g\" opset 17 {\n input %x : f32[2,128,10,12]\n input %w : f32[192,128,3,3]\n"
    " %y = Conv(%x, %w) {pads=[1,1,1,1]}\n output %y\n}\n",
};

static bool has_winograd(void) {
    return strncmp(tmk_kernel_library(), "oneDNN 2.", 9) == 0 && tmk_kernel_block() == 16;
}

static void prepare_blocks(struct fixture *f, const char *text, unsigned constants) {
    tmk_kernel_enter_thread();
    assert_true(set_up(f, text, constants));
    assert_true(prepare(f, preferred_layout(f, 0)));
}

static bool is_winograd(const struct fixture *f) {
    return strstr(tmk_accel_name(f->accel), "wino_2x3");
}

TEST(sums_agree) {
    for (size_t i = 0; i < TMK_COUNT(nodes); i++) {
        struct fixture f;
        prepare_blocks(&f, nodes[i], 6);
        assert_int_equal(is_winograd(&f), has_winograd());
        check_prepared(&f, nodes[i]);
        tear_down(&f);
    }
}

/* Small integers, most of them zeros: windows of nothing but zeros, and integers, stay so. */
TEST(zeros_and_integers_stay_exact) {
    for (size_t i = 0; i < TMK_COUNT(nodes); i++) {
        struct fixture f;
        tmk_kernel_enter_thread();
        assert_true(set_up(&f, nodes[i], 6));
        for (size_t k = 0; k < f.node->n_inputs; k++)
            for (size_t n = 0; n < tmk_tensor_count(&f.operand[k]); n++)
                ((float *)f.operand[k].data)[n] =
                    k == 0 && pick(0, 99) ? 0 : (float)pick(-100, 100);
        f.exact = true;
        assert_true(prepare(&f, preferred_layout(&f, 0)));
        check_prepared(&f, nodes[i]);
        tear_down(&f);
    }
}

/* What isn't finite, and what isn't on the way. */
TEST(infinities_are_those_of_the_direct_sum) {
    static const float strange[] = {INFINITY, -INFINITY, NAN, FLT_MAX, -0x1p127f};
    for (size_t i = 0; i < TMK_COUNT(nodes); i++)
        for (size_t k = 0; k < TMK_COUNT(strange); k++) {
            struct fixture f;
            prepare_blocks(&f, nodes[i], 6);
            float *x = f.operand[0].data;
            x[pick(0, (int)tmk_tensor_count(&f.operand[0]) - 1)] = strange[k];
            x[tmk_tensor_count(&f.operand[0]) - 1] = strange[k];
            for (size_t n = 0; n < tmk_tensor_count(&f.operand[1]); n++)
                ((float *)f.operand[1].data)[n] *= 0x1p-4f;
            tmk_accel_destroy(&f.accel);
            assert_true(prepare(&f, f.layout));
            check_prepared(&f, nodes[i]);
            tear_down(&f);
        }
}

TEST(others_run_directly) {
    static const char *const direct[] = {
        "graph \"g\" opset 17 {\n input %x : f32[1,16,16,16]\n input %w : f32[16,16,3,3]\n"
        " %y = Conv(%x, %w) {strides=[2,2]}\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[1,16,16,16]\n input %w : f32[16,16,3,3]\n"
        " %y = Conv(%x, %w) {dilations=[2,1]}\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[1,16,16,16]\n input %w : f32[16,16,3,3]\n"
        " %y = Conv(%x, %w) {pads=[1,0,0,0]}\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[1,16,16,16]\n input %w : f32[16,16,3,5]\n"
        " %y = Conv(%x, %w)\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[1,32,16,16]\n input %w : f32[32,16,3,3]\n"
        " %y = Conv(%x, %w) {group=2}\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[1,16,16,16]\n input %w : f32[24,16,3,3]\n"
        " %y = Conv(%x, %w)\n output %y\n}\n",
        "graph \"g\" opset 17 {\n input %x : f32[1,512,7,7]\n input %w : f32[32,512,3,3]\n"
        " %y = Conv(%x, %w) {pads=[1,1,1,1]}\n output %y\n}\n",
    };
    for (size_t i = 0; i < TMK_COUNT(direct); i++) {
        struct fixture f;
        prepare_blocks(&f, direct[i], 2);
        assert_false(is_winograd(&f));
        check_prepared(&f, direct[i]);
        tear_down(&f);
    }
    struct fixture f; /* weights that are known only in a run */
    prepare_blocks(&f, nodes[0], 0);
    assert_false(is_winograd(&f));
    check_prepared(&f, nodes[0]);
    tear_down(&f);
}

/* Their copies wait to be written, and need memory that is gone by then. */
TEST(what_fails_later_names_its_node) {
    struct fixture f[2]; /* the first copy is written at once */
    struct tmk_packs *packs = NULL;
    if (!has_winograd()) /* nothing else takes memory while it copies */
        return;
    tmk_kernel_enter_thread();
    must(tmk_packs_create(&packs, DIAG));
    tmk_packs_open(packs);
    for (size_t i = 0; i < TMK_COUNT(f); i++) {
        assert_true(set_up(&f[i], nodes[0], 2));
        f[i].layout = preferred_layout(&f[i], 0);
        must(tmk_accel_create(f[i].node, f[i].in_known, f[i].type, f[i].layout, packs, &f[i].accel,
                              DIAG));
    }
    tmk_memory_set_limit(1);
    const enum tmk_status status = tmk_packs_close(packs, DIAG);
    tmk_memory_set_limit(0);
    assert_int_equal(status, TMK_LIMIT);
    assert_non_null(strstr(test_diag.text, "Conv"));
    for (size_t i = 0; i < TMK_COUNT(f); i++)
        tear_down(&f[i]);
    tmk_packs_destroy(&packs);
}
