/* SPDX-License-Identifier: Apache-2.0 */
/* Which graphs are batch-independent, and how many samples make a call. Where the answer is yes, a
 * batch is compared with its samples, run one by one. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"
#include "plan/batch.h"

enum { BATCH = 3 };

/* ---- a batch against its samples ---- */

static bool depends[1024]; /* by value index: on an input */

static void find_dependent(const struct tmk_graph *graph) {
    memset(depends, 0, sizeof depends);
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        depends[graph->inputs[i]->index] = true;
    for (const struct tmk_node *node = graph->first; node; node = node->next) {
        bool any = false;
        for (uint32_t i = 0; i < node->n_inputs; i++)
            any |= node->inputs[i] && depends[node->inputs[i]->index];
        for (uint32_t i = 0; i < node->n_outputs; i++)
            if (node->outputs[i])
                depends[node->outputs[i]->index] = any;
    }
}

static void compare(const char *what, const struct tmk_graph *graph, const struct made *batch,
                    const struct made *alone, size_t k) {
    find_dependent(graph);
    for (uint32_t i = 0; i < batch->n; i++) {
        const struct tmk_tensor *all = &batch->values[i], *one = &alone->values[i];
        if (!depends[i])
            continue;
        size_t part = tmk_tensor_bytes(one);
        bool fits = all->shape.rank == one->shape.rank && one->shape.rank > 0 &&
                    one->shape.dim[0] == 1 && all->shape.dim[0] == BATCH &&
                    tmk_tensor_bytes(all) == BATCH * part;
        if (!fits || (part && memcmp((const char *)all->data + k * part, one->data, part) != 0))
            fail_msg("%s: value %u of sample %zu is another in a batch", what, i, k);
    }
}

static void run_both(const char *what, struct tmk_graph *graph, const struct tmk_tensor *sample,
                     uint64_t seed) {
    struct tmk_tensor inputs[MOST_INPUTS] = {{0}};
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        struct tmk_shape shape = sample[i].shape;
        shape.dim[0] = BATCH;
        must(tmk_tensor_init(&inputs[i], sample[i].dtype, &shape, DIAG));
        fill(&inputs[i], &seed);
    }
    struct made batch = make(graph, inputs);
    for (size_t k = 0; k < BATCH; k++) {
        struct tmk_tensor ones[MOST_INPUTS];
        for (uint32_t i = 0; i < graph->n_inputs; i++)
            tmk_tensor_borrow(&ones[i], sample[i].dtype, &sample[i].shape,
                              (char *)inputs[i].data + k * tmk_tensor_bytes(&inputs[i]) / BATCH);
        struct made alone = make(graph, ones);
        compare(what, graph, &batch, &alone, k);
        drop(&alone);
    }
    drop(&batch);
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        tmk_tensor_finish(&inputs[i]);
}

/* ---- graphs written down ---- */

/* Of what is declared of the inputs; free dimensions behind the first are 1, too. */
static void declared_samples(const struct tmk_graph *graph, struct tmk_tensor *out) {
    assert_true(graph->n_inputs <= MOST_INPUTS);
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        struct tmk_shape shape = graph->inputs[i]->type.shape;
        for (int32_t k = 0; k < shape.rank; k++)
            shape.dim[k] = k == 0 || shape.dim[k] < 0 ? 1 : shape.dim[k];
        tmk_tensor_borrow(&out[i], graph->inputs[i]->type.dtype, &shape, NULL);
    }
}

static struct tmk_batch_independence ask(int opset, const char *body, struct tmk_graph **graph,
                                         struct tmk_tensor *sample) {
    char text[4096];
    struct tmk_batch_independence answer;
    int n = snprintf(text, sizeof text, "graph \"g\" opset %d \"com.microsoft\" 1 {\n%s\n}\n",
                     opset, body);
    assert_true(n > 0 && (size_t)n < sizeof text);
    if (parse_graph(text, NULL, graph, DIAG) != TMK_OK || tmk_ops_bind(*graph, DIAG) != TMK_OK)
        fail_msg("%s: %s", body, test_diag.text);
    tmk_graph_number(*graph);
    declared_samples(*graph, sample);
    must(tmk_plan_batch_independence(*graph, sample, &answer, DIAG));
    return answer;
}

static struct tmk_sample_cost yes(int opset, const char *body) {
    struct tmk_graph *graph = NULL;
    struct tmk_tensor sample[MOST_INPUTS];
    struct tmk_batch_independence answer = ask(opset, body, &graph, sample);
    if (!answer.independent)
        fail_msg("%s: %s", body, answer.why);
    run_both(body, graph, sample, 99);
    tmk_graph_destroy(&graph);
    return answer.cost;
}

static void no(int opset, const char *body, const char *why) {
    struct tmk_graph *graph = NULL;
    struct tmk_tensor sample[MOST_INPUTS];
    struct tmk_batch_independence answer = ask(opset, body, &graph, sample);
    if (answer.independent || !strstr(answer.why, why))
        fail_msg("%s: %s, '%s'", body, answer.independent ? "independent" : "not independent",
                 answer.why);
    tmk_graph_destroy(&graph);
}

#define X "input %x : f32[\"N\",3,4]\n"
#define V "input %v : f32[\"N\",3]\n"
#define C "input %x : f32[\"N\",2,4]\ninit %s : f32[2] = {1,2}\n"
#define Y "\noutput %y"

TEST(perceptrons_are_independent) {
    struct tmk_sample_cost cost =
        yes(17, V "init %w : f32[2,3] = {1, -2, 3, 4, 5, -6}\ninit %b : f32[2] = {1, 2}\n"
                  "%h = Gemm(%v, %w, %b) {transB=1}\n%r = Relu(%h)\n%y = Softmax(%r)" Y);
    assert_int_equal(cost.products, 6);
    assert_int_equal(cost.weights, 6);
    assert_int_equal(cost.elements, 3 + 2 + 2 + 2);
    assert_int_equal(cost.largest, 3);
    assert_int_equal(cost.nodes, 3);
    yes(17, V "init %w : f32[1,2,3] = {1, -2, 3, 4, 5, -6}\n%t = Transpose(%w) {perm=[0,2,1]}\n"
              "init %s : i64[2] = {3, 2}\n%m = Reshape(%t, %s)\n%y = MatMul(%v, %m)" Y);
}

TEST(convolutions_are_independent) {
    struct tmk_sample_cost cost =
        yes(17, "input %x : f32[\"N\",2,4,4]\ninit %w : f32[3,2,3,3] = {"
                "1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,"
                "1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9}\n"
                "%c = Conv(%x, %w) {pads=[1,1,1,1]}\n%p = MaxPool(%c) {kernel_shape=[2,2]}\n"
                "%y = Flatten(%p)" Y);
    assert_int_equal(cost.products, 16 * 3 * 18);
    assert_int_equal(cost.weights, 54);
    assert_int_equal(cost.largest, 48);
    cost = yes(17, "input %x : f32[\"N\",2,2,2]\ninit %w : f32[2,1,2,2] = {1,2,3,4,5,6,7,8}\n"
                   "%y = ConvTranspose(%x, %w) {strides=[2,2]}" Y);
    assert_int_equal(cost.products, 8 * 4);
}

TEST(observers_and_constants_are_nothing) {
    struct tmk_sample_cost cost =
        yes(17, V "%a = Constant() {value=f32[]{2}}\n%b = Neg(%a)\n%y = Mul(%v, %b)" Y);
    assert_int_equal(cost.nodes, 1);
    assert_int_equal(cost.elements, 6);
}

TEST(inputs_must_begin_with_one_free_dimension) {
    no(17, "init %v : f32[1] = {1}\n%y = Relu(%v)" Y, "no inputs");
    no(17, "input %v : f32[1,3]\n%y = Relu(%v)" Y, "fixed");
    no(17, "input %v : f32[]\n%y = Relu(%v)" Y, "without a first dimension");
    no(17, "input %v : f32[\"N\",3]\ninput %u : f32[\"M\",3]\n%y = Add(%u, %v)" Y,
       "different names");
    no(17, "input %v : f32[\"N\",\"N\"]\n%y = Relu(%v)" Y, "for another one too");
    yes(17, "input %v : f32[\"N\",3]\ninput %u : f32[?,3]\n%y = Add(%u, %v)" Y);
    yes(17, "input %v : f32[?,\"T\"]\n%y = Relu(%v)" Y);
    /* nor may anything else be said of the results */
    no(17, V "%y = Relu(%v) : f32[1,3]" Y, "a fixed number");
    yes(17, V "%y = Relu(%v) : f32[\"N\",3]" Y);
}

TEST(samples_that_meet_by_broadcasting_are_seen) {
    const char *meets = "lets samples meet";
    /* [N,1] and [N] make [N,N] */
    no(17, "input %x : f32[\"N\",1]\ninput %v : f32[\"N\"]\n%y = Add(%x, %v)" Y, meets);
    no(17, X V "%y = Add(%x, %v)" Y, "two samples do not fit");
    no(17, V "init %c : f32[1,1,3] = {1,2,3}\n%y = Mul(%v, %c)" Y, meets);
    no(17, V "init %c : f32[2,3] = {1,2,3,4,5,6}\n%y = Mul(%v, %c)" Y, meets);
    no(17, V "init %c : f32[2,1] = {1,2}\n%y = Mul(%c, %v)" Y, meets);
    no(6, V "init %c : f32[2] = {1,2}\n%y = Mul(%v, %c) {broadcast=1, axis=0}" Y, "axis");
    yes(6, "input %v : f32[\"N\",2]\ninit %c : f32[2] = {1,2}\n%y = Mul(%v, %c) {broadcast=1, "
           "axis=1}" Y);
    yes(17, V "init %c : f32[1,3] = {1,2,3}\ninit %d : f32[3] = {1,2,3}\ninit %e : f32[] = {4}\n"
              "%a = Mul(%v, %c)\n%b = Sub(%d, %a)\n%f = Max(%b, %e, %v)\n%g = Greater(%f, %e)\n"
              "%y = Where(%g, %v, %c)" Y);
    no(17, V "init %s : i64[2] = {2, 3}\n%y = Expand(%v, %s)" Y, meets);
    no(17, V "init %s : i64[3] = {2, 1, 3}\n%y = Expand(%v, %s)" Y, meets);
    yes(17, "input %v : f32[\"N\",1]\ninit %s : i64[2] = {1, 3}\n%a = Expand(%v, %s)\n"
            "init %t : i64[1] = {3}\n%y = Expand(%a, %t)" Y);
}

TEST(axes_of_samples_are_left_alone) {
    const char *along = "along the axis of the samples";
    no(17, V "%y = Softmax(%v) {axis=0}" Y, along);
    no(17, V "%y = Softmax(%v) {axis=-2}" Y, along);
    no(11, X "%y = Softmax(%x) {axis=0}" Y, along);
    yes(11, X "%y = Softmax(%x)" Y);
    no(17, "input %v : f32[\"N\"]\n%y = LogSoftmax(%v)" Y, along);
    no(17, V "%y = ReduceMean(%v) {axes=[0], keepdims=1}" Y, along);
    no(17, V "%y = ReduceMax(%v) {axes=[1,-2]}" Y, along);
    no(17, V "%y = ReduceMean(%v) {keepdims=1}" Y, along);
    no(18, V "init %a : i64[1] = {0}\n%y = ReduceMean(%v, %a)" Y, along);
    yes(18, X "init %a : i64[2] = {1, -1}\n%y = ReduceMean(%x, %a) {keepdims=0}" Y);
    no(17, V "%y = ArgMax(%v)" Y, along);
    yes(17, V "%y = ArgMax(%v) {axis=1, keepdims=0}" Y);
    no(17, "input %v : f32[\"N\"]\ninit %k : i64[1] = {1}\n%y, %i = TopK(%v, %k)" Y, along);
    no(17, V "init %a : i64[] = {0}\n%y = CumSum(%v, %a)" Y, along);
    no(17, V "%y = Concat(%v, %v) {axis=0}" Y, along);
    no(17, V "init %c : f32[2,3] = {1,2,3,4,5,6}\n%y = Concat(%v, %c) {axis=1}" Y, "constant");
    no(17, V "init %s : i64[1] = {0}\ninit %e : i64[1] = {1}\n%y = Slice(%v, %s, %e)" Y, along);
    no(17,
       V "init %s : i64[1] = {0}\ninit %e : i64[1] = {9}\ninit %a : i64[1] = {-2}\n"
         "%y = Slice(%v, %s, %e, %a)" Y,
       along);
    yes(17, V "init %s : i64[1] = {0}\ninit %e : i64[1] = {2}\ninit %a : i64[1] = {1}\n"
              "%b = Slice(%v, %s, %e, %a)\n%y = Concat(%b, %v, %b) {axis=-1}" Y);
    no(17, V "%y, %z = Split(%v)" Y, along);
    no(17, V "init %i : i64[1] = {0}\n%y = Gather(%v, %i)" Y, along);
    no(17, V "init %i : i64[1] = {0}\n%y = GatherElements(%v, %i) {axis=1}" Y, "");
    yes(17, V "init %i : i64[] = {1}\n%y = Gather(%v, %i) {axis=1}" Y);
    yes(17,
        "input %i : i64[\"N\",3]\ninit %t : f32[4,2] = {1,2,3,4,5,6,7,8}\n%y = Gather(%t, %i)" Y);
    no(17,
       "input %i : i64[\"N\",3]\ninit %t : f32[4,2] = {1,2,3,4,5,6,7,8}\n"
       "%y = Gather(%t, %i) {axis=1}" Y,
       along);
    no(17, V "init %p : i64[4] = {1,0,0,0}\n%y = Pad(%v, %p)" Y, along);
    no(17, V "init %p : i64[4] = {0,0,1,0}\n%y = Pad(%v, %p)" Y, along);
    yes(17, V "init %p : i64[4] = {0,1,0,2}\n%y = Pad(%v, %p)" Y);
    no(17, V "init %r : i64[2] = {2,1}\n%y = Tile(%v, %r)" Y, along);
    yes(17, V "init %r : i64[2] = {1,2}\n%y = Tile(%v, %r)" Y);
}

TEST(matrices_of_samples_do_not_meet) {
    const char *meets = "lets samples meet";
    no(17, "input %v : f32[\"N\",3]\ninit %w : f32[4,2] = {1,2,3,4,5,6,7,8}\n%y = MatMul(%w, %v)" Y,
       "");
    no(17,
       "input %v : f32[\"N\",3]\ninit %w : f32[2,2] = {1,2,3,4}\n%t = Transpose(%v)\n%y = "
       "Gemm(%t, %w)" Y,
       "along the axis");
    no(17, V "init %w : f32[2,2] = {1,2,3,4}\n%y = Gemm(%v, %w) {transA=1}" Y, meets);
    no(17,
       V "init %w : f32[3,2] = {1,2,3,4,5,6}\ninit %c : f32[2,1] = {1,2}\n%y = Gemm(%v, %w, %c)" Y,
       meets);
    no(17, V "init %w : f32[1,3,2] = {1,2,3,4,5,6}\n%y = MatMul(%v, %w)" Y, meets);
    no(17, "input %v : f32[\"N\",2]\ninput %u : f32[\"N\",2]\n%y = MatMul(%v, %u)" Y, meets);
    no(17, "input %v : f32[\"N\"]\ninput %u : f32[\"N\"]\n%y = MatMul(%v, %u)" Y, meets);
    no(17, X "init %w : f32[2,4,1] = {1,2,3,4,5,6,7,8}\n%y = MatMul(%x, %w)" Y, meets);
    no(17, X "input %u : f32[\"N\",1,4,2]\n%y = MatMul(%x, %u)" Y, meets);
    yes(17, X "init %w : f32[1,4,2] = {1,2,3,4,5,6,7,8}\n%y = MatMul(%x, %w)" Y);
    yes(17, X "init %w : f32[2,3] = {1,2,3,4,5,6}\n%y = MatMul(%w, %x)" Y);
    yes(17, X "init %w : f32[4] = {1,2,3,4}\n%y = MatMul(%x, %w)" Y);
    struct tmk_sample_cost cost =
        yes(17, X "%t = Transpose(%x) {perm=[0,2,1]}\n%s = MatMul(%x, %t)\n%y = Softmax(%s)" Y);
    assert_int_equal(cost.products, 36);
    assert_int_equal(cost.weights, 0);
}

TEST(views_keep_the_axis_of_samples) {
    const char *fixed = "a fixed size", *joins = "with another";
    no(17, X "init %s : i64[2] = {1, -1}\n%y = Reshape(%x, %s)" Y, fixed);
    no(17, X "init %s : i64[2] = {2, -1}\n%y = Reshape(%x, %s)" Y, fixed);
    no(17, X "init %s : i64[2] = {-1, 4}\n%y = Reshape(%x, %s)" Y, joins);
    no(17, X "init %s : i64[2] = {-1, 24}\n%y = Reshape(%x, %s)" Y, joins);
    no(17, X "init %s : i64[1] = {-1}\n%y = Reshape(%x, %s)" Y, joins);
    no(17, X "init %s : i64[2] = {0, 12}\n%y = Reshape(%x, %s) {allowzero=1}" Y, "do not fit");
    yes(17, X "init %s : i64[2] = {-1, 12}\n%y = Reshape(%x, %s)" Y);
    yes(17, X "init %s : i64[3] = {0, 0, -1}\n%y = Reshape(%x, %s)" Y);
    no(17, X "%y = Flatten(%x) {axis=0}" Y, "along");
    no(17, X "%y = Flatten(%x) {axis=2}" Y, joins);
    yes(17, X "%y = Flatten(%x) {axis=-2}" Y);
    yes(17, "input %x : f32[\"N\",1,4]\n%y = Flatten(%x) {axis=2}" Y);
    no(17, X "%y = Transpose(%x)" Y, "along");
    no(17, X "%y = Transpose(%x) {perm=[1,0,2]}" Y, "along");
    yes(17, X "%y = Transpose(%x) {perm=[0,2,1]}" Y);
    /* of one sample it would drop the axis of the samples, too */
    no(17, "input %x : f32[\"N\",1,4]\n%y = Squeeze(%x)" Y, "along");
    no(12, "input %x : f32[\"N\",1,4]\n%y = Squeeze(%x) {axes=[-3]}" Y, "cannot be squeezed");
    yes(12,
        "input %x : f32[\"N\",1,4]\n%a = Squeeze(%x) {axes=[1]}\n%y = Unsqueeze(%a) {axes=[-1]}" Y);
    no(12, X "%y = Unsqueeze(%x) {axes=[0]}" Y, "along");
    no(12, X "%y = Unsqueeze(%x) {axes=[-4]}" Y, "along");
}

TEST(what_reads_the_batch_is_refused) {
    no(17, X "%s = Shape(%x)\n%y = Cast(%s) {to=1}" Y, "is not known to be batch-independent");
    no(17, X "%y = Size(%x)" Y, "is not known");
    no(17, X "%y = NonZero(%x)" Y, "is not known");
    no(17, X "%y = RandomNormalLike(%x)" Y, "is not known");
    no(17, X "%r = RandomNormal() {shape=[1,3,4]}\n%y = Add(%x, %r)" Y, "neither constant");
    no(17, X "%y, %s, %z = DynamicQuantizeLinear(%x)" Y, "is not known");
    no(17,
       X "init %c : bool[] = {1}\n%y = If(%c) {then_branch=graph \"t\" {\n%a = ReduceSum(%x)\n"
         "output %a\n}, else_branch=graph \"e\" {\n%b = ReduceSum(%x)\noutput %b\n}}" Y,
       "graph of its own");
    yes(17, C "%y = BatchNormalization(%x, %s, %s, %s, %s)" Y);
    no(17, C "%y, %m, %v = BatchNormalization(%x, %s, %s, %s, %s) {training_mode=1}" Y,
       "is for training");
    /* places that count from the first element of the batch */
    no(17, "input %x : f32[\"N\",1,4]\n%y, %i = MaxPool(%x) {kernel_shape=[2]}" Y, "along");
    no(17, "input %x : f32[\"N\",2,4,1]\n%y = MeanVarianceNormalization(%x)" Y, "along");
    no(17,
       "input %x : f32[\"N\",2]\ninit %s : f32[2] = {1,2}\n%y = QuantizeLinear(%x, %s) {axis=0}" Y,
       "along");
    yes(17, "input %x : f32[\"N\",2]\ninit %s : f32[2] = {1,2}\n%y = QuantizeLinear(%x, %s)" Y);
    no(17, "input %x : f32[\"N\",2,2,2]\ninit %s : f32[4] = {2,1,2,2}\n%y = Resize(%x, _, %s)" Y,
       "along");
    no(17, "input %x : f32[\"N\",2,2,2]\ninit %s : i64[4] = {2,2,4,4}\n%y = Resize(%x, _, _, %s)" Y,
       "sizes");
    yes(17, "input %x : f32[\"N\",2,2,2]\ninit %s : f32[4] = {1,1,2,2}\n%y = Resize(%x, _, %s) "
            "{mode=\"linear\"}" Y);
}

/* ---- every operator's sample, with each choice of operands that are made of samples ---- */

/* The inputs that are not in `mask` become constants, and no node reads the input any more. */
static struct tmk_graph *with_samples(const struct tmk_op *row, unsigned mask, uint64_t *random) {
    struct tmk_graph *graph = NULL;
    must(parse_graph(op_sample(row), NULL, &graph, DIAG));
    must(tmk_ops_bind(graph, DIAG));
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        struct tmk_type type = graph->inputs[i]->type;
        if (!(mask >> i & 1)) {
            struct tmk_tensor tensor = {0};
            struct tmk_value *constant;
            must(tmk_tensor_init(&tensor, type.dtype, &type.shape, DIAG));
            fill(&tensor, random);
            must(tmk_graph_add_initializer(graph, "", &tensor, &constant, DIAG));
            tmk_tensor_finish(&tensor);
            must(tmk_value_replace(graph->inputs[i], constant, NULL, true, DIAG));
            type.shape = (struct tmk_shape){1, {-1}};
        }
        type.shape.dim[0] = -1;
        memset(type.symbol, 0, sizeof type.symbol);
        must(tmk_value_set_type(graph->inputs[i], &type, DIAG));
    }
    tmk_graph_number(graph);
    return graph;
}

static unsigned try_masks(const struct tmk_op *row, uint32_t n_inputs) {
    unsigned independent = 0;
    for (unsigned mask = 1; mask < 1u << n_inputs; mask++) {
        uint64_t random = 77 + mask;
        struct tmk_graph *graph = with_samples(row, mask, &random);
        struct tmk_tensor sample[MOST_INPUTS];
        struct tmk_batch_independence answer;
        declared_samples(graph, sample);
        must(tmk_plan_batch_independence(graph, sample, &answer, DIAG));
        if (answer.independent)
            run_both(row->name, graph, sample, random);
        independent += answer.independent;
        tmk_graph_destroy(&graph);
    }
    return independent;
}

TEST(every_operator_that_is_said_to_is_independent) {
    unsigned rows = 0, independent = 0;
    for (const struct tmk_op *const *row = op_rows(); *row; row++) {
        uint32_t n_inputs;
        if (!can_be_samples(*row, &n_inputs))
            continue;
        unsigned n = try_masks(*row, n_inputs);
        rows++;
        independent += n > 0;
    }
    assert_true(independent > rows / 4);
}

/* ---- how many make a call ---- */

TEST(small_samples_share_a_call) {
    bool enough;
    struct tmk_sample_cost densenet = {2834161664, 7894208, 54000000, 802816, 490};
    const struct tmk_sample_cost perceptron = {668672, 668672, 3862, 784, 6},
                                 resnet = {4089184256, 25502912, 33000000, 802816, 176},
                                 mobilenet = {300774272, 3469760, 20000000, 1204224, 152},
                                 encoder = {1434451968, 10626048, 21289472, 196608, 305},
                                 tiny = {10, 10, 20, 10, 2}, wide = {10, 10, 1 << 18, 1 << 18, 2};
    assert_int_equal(tmk_samples_a_call(&perceptron, &enough), TMK_MAX_A_CALL);
    assert_true(enough);
    assert_int_equal(tmk_samples_a_call(&resnet, &enough), 4); /* for its weights */
    assert_true(enough);
    assert_int_equal(tmk_samples_a_call(&encoder, &enough), 4);
    assert_int_equal(tmk_samples_a_call(&mobilenet, &enough), 2); /* few weights for its values */
    assert_int_equal(tmk_samples_a_call(&densenet, &enough), 2);  /* for its tables */
    assert_true(enough);
    densenet.nodes = 200; /* larger values */
    assert_int_equal(tmk_samples_a_call(&densenet, &enough), 1);
    assert_int_equal(tmk_samples_a_call(&tiny, &enough), TMK_MAX_A_CALL);
    assert_false(enough);
    assert_int_equal(tmk_samples_a_call(&wide, &enough), 1);
    assert_false(enough);
    const struct tmk_sample_cost endless = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, 1};
    assert_int_equal(tmk_samples_a_call(&endless, NULL), 1);
}

TEST(more_work_never_asks_for_more_samples) {
    uint64_t random = 5;
    for (int round = 0; round < 1000; round++) {
        struct tmk_sample_cost cost = {next(&random) >> next(&random) % 47, 0, 0, 0,
                                       (uint32_t)(next(&random) % 300)};
        cost.weights = cost.products / (1 + next(&random) % 100);
        cost.elements = next(&random) % 1000000;
        cost.largest = cost.elements / 3;
        uint32_t before = tmk_samples_a_call(&cost, NULL);
        assert_true(before && before <= TMK_MAX_A_CALL && !(before & (before - 1)));
        cost.products += next(&random) % (cost.products + 1);
        assert_true(tmk_samples_a_call(&cost, NULL) <= before);
    }
}
