/* SPDX-License-Identifier: Apache-2.0 */
/* RNN, GRU and LSTM with one unit and functions that are lines: cases worked out by hand. */
#include "ops_nn.h"

#define LINE "activation_alpha=[1f], activation_beta=[0f], activations=[\"Affine\"]"
#define ONE "init %w : f32[1,1,1] = {1}\ninit %r : f32[1,1,1] = {1}\n"

TEST(sequences_end_where_they_say_in_either_direction) {
#define LINES                                                                                      \
    "activations=[\"Affine\",\"Affine\"], direction=\"bidirectional\"" /* x itself by default */
#define BOTH                                                                                       \
    "init %w : f32[2,1,1] = {1, 1}\ninit %r : f32[2,1,1] = {1, 1}\ninit %n : i32[2] = {3, 2}\n"
    /* sums from the beginning and from the end, of 1 2 3 and of 10 20 */
    gives(13,
          BOTH "init %x : f32[3,2,1] = {1, 10, 2, 20, 3, 99}\n"
               "%y = RNN(%x, %w, %r, _, %n) {" LINES "}",
          "[3,2,2,1]", FLOATS(1, 10, 6, 30, 3, 30, 5, 20, 6, 0, 3, 0));
    gives(14,
          BOTH "init %x : f32[2,3,1] = {1, 2, 3, 10, 20, 99}\n"
               "%y = RNN(%x, %w, %r, _, %n) {" LINES ", layout=1}",
          "[2,3,2,1]", FLOATS(1, 6, 3, 5, 6, 3, 10, 30, 30, 20, 0, 0));
}

TEST(the_last_states_are_those_of_each_sequence) {
    const char *body = BOTH "init %x : f32[2,3,1] = {1, 2, 3, 10, 20, 99}\n"
                            "init %h : f32[2,2,1] = {100, 200, 300, 400}\n"
                            "%y, %last = RNN(%x, %w, %r, _, %n, %h) {" LINES ", layout=1}";
    struct tmk_diag diag;
    struct tmk_tensor out[OPERANDS];
    if (run_node(14, body, out, &diag) != TMK_OK)
        fail_msg("%s", diag.text);
    check_output(body, &out[1], TMK_FLOAT32, "[2,2,1]", FLOATS(106, 206, 330, 430), 0);
    finish_outputs(out);
}

TEST(a_sequence_without_steps_leaves_zeros) {
    const char *body = ONE "init %x : f32[2,2,1] = {1, 10, 2, 20}\ninit %n : i32[2] = {0, 2}\n"
                           "init %h : f32[1,2,1] = {100, 200}\n"
                           "%y, %last = RNN(%x, %w, %r, _, %n, %h) {" LINE "}";
    struct tmk_diag diag;
    struct tmk_tensor out[OPERANDS];
    if (run_node(14, body, out, &diag) != TMK_OK)
        fail_msg("%s", diag.text);
    check_output(body, &out[0], TMK_FLOAT32, "[2,1,2,1]", FLOATS(0, 210, 0, 230), 0);
    check_output(body, &out[1], TMK_FLOAT32, "[1,2,1]", FLOATS(0, 230), 0);
    finish_outputs(out);
}

TEST(a_state_starts_as_given_and_every_bias_counts) {
    gives(7,
          "init %x : f32[2,1,1] = {1, 2}\ninit %w : f32[1,1,1] = {3}\ninit %r : f32[1,1,1] = {2}\n"
          "init %b : f32[1,2] = {0.5, 0.25}\ninit %h : f32[1,1,1] = {10}\n"
          "%y = RNN(%x, %w, %r, %b, _, %h) {" LINE ", hidden_size=1}",
          "[2,1,1,1]", FLOATS(23.75f, 54.25f));
}

TEST(every_function_has_its_parameters) {
    static const struct {
        const char *name, *more;
        float want[3]; /* of -2, 0.25 and 3 */
    } cases[] = {
        {"Relu", "", {0, 0.25f, 3}},
        {"relu", ", clip=1f", {0, 0.25f, 1}},
        {"Tanh", "", {-0.96402758f, 0.24491866f, 0.99505475f}},
        {"Sigmoid", "", {0.11920292f, 0.5621765f, 0.95257413f}},
        {"Affine", ", activation_alpha=[2f], activation_beta=[1f]", {-3, 1.5f, 7}},
        {"LeakyRelu", "", {-0.02f, 0.25f, 3}},
        {"LeakyRelu", ", activation_alpha=[0.5f]", {-1, 0.25f, 3}},
        {"ThresholdedRelu", "", {0, 0, 3}},
        {"ScaledTanh",
         ", activation_alpha=[2f], activation_beta=[0.5f]",
         {-1.5231884f, 0.24870600f, 1.8102965f}},
        {"HardSigmoid", "", {0.1f, 0.55f, 1}},
        {"Elu", ", activation_alpha=[2f]", {-1.7293294f, 0.25f, 3}},
        {"Softsign", "", {-0.66666667f, 0.2f, 0.75f}},
        {"Softplus", "", {0.12692801f, 0.82593942f, 3.0485873f}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[512];
        snprintf(body, sizeof body,
                 "%sinit %%x : f32[1,3,1] = {-2, 0.25, 3}\n"
                 "%%y = RNN(%%x, %%w, %%r) {activations=[\"%s\"]%s}",
                 ONE, cases[i].name, cases[i].more);
        gives_type(14, body, TMK_FLOAT32, "[1,1,3,1]", cases[i].want, 3e-7);
    }
}

/* Gates are 0.5 whatever comes in; the candidate is a line. */
TEST(the_reset_gate_stands_before_or_after_the_product) {
#define GRU                                                                                        \
    "init %x : f32[2,1,1] = {1, 2}\ninit %w : f32[1,3,1] = {0, 0, 1}\n"                            \
    "init %r : f32[1,3,1] = {0, 0, 2}\ninit %b : f32[1,6] = {0, 0, 0, 0, 0, 4}\n"                  \
    "%y = GRU(%x, %w, %r, %b) {activation_alpha=[0f,1f], activation_beta=[0.5f,0f], "              \
    "activations=[\"Affine\",\"Affine\"]"
    gives(13, GRU "}", "[2,1,1,1]", FLOATS(2.5f, 5.5f));
    gives(13, GRU ", linear_before_reset=1}", "[2,1,1,1]", FLOATS(1.5f, 3.5f));
}

/* All functions are lines: every gate is its own sum. */
TEST(lstm_gates_peep_couple_and_clip) {
    static const struct {
        const char *more;
        float h, c;
    } cases[] = {{"", 118734, 77}, {", input_forget=1", 23188, 34}, {", clip=2f", 4, 6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[768];
        struct tmk_diag diag;
        struct tmk_tensor out[OPERANDS];
        snprintf(body, sizeof body,
                 "init %%x : f32[1,1,1] = {1}\ninit %%w : f32[1,4,1] = {1, 2, 3, 4}\n"
                 "init %%r : f32[1,4,1] = {0, 0, 0, 0}\ninit %%c : f32[1,1,1] = {1}\n"
                 "init %%p : f32[1,3] = {10, 20, 30}\n"
                 "%%y, %%hn, %%cn = LSTM(%%x, %%w, %%r, _, _, _, %%c, %%p) "
                 "{activations=[\"Affine\",\"Affine\",\"Affine\"]%s}",
                 cases[i].more);
        if (run_node(14, body, out, &diag) != TMK_OK)
            fail_msg("%s", diag.text);
        check_output(body, &out[0], TMK_FLOAT32, "[1,1,1,1]", &cases[i].h, 0);
        check_output(body, &out[1], TMK_FLOAT32, "[1,1,1]", &cases[i].h, 0);
        check_output(body, &out[2], TMK_FLOAT32, "[1,1,1]", &cases[i].c, 0);
        finish_outputs(out);
    }
}

TEST(odd_requests_are_refused) {
    static const struct {
        const char *inputs, *attrs;
        enum tmk_status status;
        const char *why;
    } cases[] = {
        {"%x, %w, %r", "direction=\"up\"", TMK_RANGE, "'direction' is 'up'"},
        {"%x, %w, %r", "layout=2", TMK_RANGE, "'layout' is 2"},
        {"%x, %w, %r", "hidden_size=2", TMK_SHAPE, "'hidden_size' is 2, but 'R' is for 1"},
        {"%x, %w, %r", "clip=0f", TMK_RANGE, "'clip' is 0"},
        {"%x, %w, %r", "activations=[\"Tanh\",\"Tanh\"]", TMK_RANGE, "has 2 entries, not 1"},
        {"%x, %w, %r", "activations=[\"Sine\"]", TMK_RANGE, "names 'Sine'"},
        {"%x, %w, %r", "direction=\"bidirectional\"", TMK_SHAPE, "'W' is [1,1,1], not [2,1,1]"},
        {"%x, %w, %r, %w", "layout=0", TMK_SHAPE, "'B' is [1,1,1], not [1,2]"},
        {"%x, %w, %r, _, %n", "layout=0", TMK_RANGE, "'sequence_lens' has 3 in sequences of 2"},
        {"%x, %w, %r, _, %x", "layout=0", TMK_TYPE, "sequence_lens"},
        {"%n, %w, %r", "layout=0", TMK_TYPE, "X"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[512];
        snprintf(body, sizeof body,
                 "%sinit %%x : f32[2,1,1] = {1, 2}\ninit %%n : i32[1] = {3}\n"
                 "%%y = RNN(%s) {%s}",
                 ONE, cases[i].inputs, cases[i].attrs);
        refuses(14, body, cases[i].status, cases[i].why);
    }
}
