/* SPDX-License-Identifier: Apache-2.0 */
/* Random graphs through random lists of passes: the audit holds (the runner makes it), outputs and
 * every relation agree by numbers, and a second run of a pass finds nothing more to do.
 *
 * TIDEMARK_RANDOM_GRAPHS sets how many, TIDEMARK_RANDOM_FIRST the first seed. A failure shows
 * the seed, the graph and the passes. */
#include "pass_case.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"

enum { USUAL = 500, MOST_VALUES = 64, LARGEST = 3 };

/* What is there to build on: activations [2, channels, side, side]. */
struct made {
    int channels, side;
};

struct random_graph {
    struct tmk_text text;
    uint64_t state;
    struct made made[MOST_VALUES];
    int n, weights;
    bool quantized;
};

static struct {
    uint64_t seed;
    const char *text, *passes;
} now;

/* That the graphs give the passes something to do: originals by fate, and passes that changed one.
 */
static struct { uint64_t fates[TMK_LINEAGE_VERDICTS], progress[64]; } seen;

static unsigned draw(struct random_graph *g, unsigned below) {
    g->state = g->state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((g->state >> 33) % below);
}

static double number(struct random_graph *g, double low, double high) {
    return low + (high - low) * draw(g, 1 << 20) / (1 << 20);
}

/* An initializer of n numbers under this type; answers its number: %wN. */
static int weights(struct random_graph *g, const char *type, int n, double low, double high) {
    tmk_text_printf(&g->text, " init %%w%d : %s = {", g->weights, type);
    for (int i = 0; i < n; i++)
        tmk_text_printf(&g->text, "%s%.9g", i ? ", " : "", number(g, low, high));
    tmk_text_puts(&g->text, "}\n");
    return g->weights++;
}

static int result(struct random_graph *g, int channels, int side) {
    g->made[g->n] = (struct made){channels, side};
    return g->n++;
}

static int any(struct random_graph *g) {
    /* the last ones more often, so that there are chains */
    return draw(g, 2) ? g->n - 1 : (int)draw(g, (unsigned)g->n);
}

static void convolution(struct random_graph *g, int x) {
    const int in = g->made[x].channels, out = 1 + (int)draw(g, LARGEST), k = draw(g, 2) ? 3 : 1;
    char type[64], bias[32] = "";
    const bool depthwise = draw(g, 4) == 0;
    const int m = depthwise ? in : out, each = depthwise ? 1 : in;
    snprintf(type, sizeof type, "f32[%d,%d,%d,%d]", m, each, k, k);
    const int w = weights(g, type, m * each * k * k, -1, 1);
    if (draw(g, 2)) {
        snprintf(type, sizeof type, "f32[%d]", m);
        snprintf(bias, sizeof bias, ", %%w%d", weights(g, type, m, -1, 1));
    }
    const int y = result(g, m, g->made[x].side);
    tmk_text_printf(&g->text, " %%v%d = Conv(%%v%d, %%w%d%s) {group=%d, pads=[%d,%d,%d,%d]}\n", y,
                    x, w, bias, depthwise ? in : 1, k / 2, k / 2, k / 2, k / 2);
}

static void normalisation(struct random_graph *g, int x) {
    const int c = g->made[x].channels;
    char type[32];
    snprintf(type, sizeof type, "f32[%d]", c);
    const int scale = weights(g, type, c, draw(g, 2) ? 0.2 : -1, 2),
              shift = weights(g, type, c, -1, 1), mean = weights(g, type, c, -1, 1),
              var = weights(g, type, c, 0.1, 2);
    const int y = result(g, c, g->made[x].side);
    tmk_text_printf(&g->text, " %%v%d = BatchNormalization(%%v%d, %%w%d, %%w%d, %%w%d, %%w%d)\n", y,
                    x, scale, shift, mean, var);
}

/* With a constant: of one number, of one a channel, or one that is itself computed. */
static void with_constant(struct random_graph *g, int x, const char *op) {
    const int c = g->made[x].channels;
    char type[32];
    const bool one = draw(g, 3) == 0, positive = draw(g, 2);
    snprintf(type, sizeof type, one ? "f32[]" : "f32[%d,1,1]", c);
    int w = weights(g, type, one ? 1 : c, positive ? 0.25 : -2, 2);
    const char *kind = "w";
    if (draw(g, 4) == 0) {
        tmk_text_printf(&g->text, " %%k%d = Neg(%%w%d)\n", w, w);
        kind = "k";
    }
    const int y = result(g, c, g->made[x].side);
    if (draw(g, 2))
        tmk_text_printf(&g->text, " %%v%d = %s(%%v%d, %%%s%d)\n", y, op, x, kind, w);
    else
        tmk_text_printf(&g->text, " %%v%d = %s(%%%s%d, %%v%d)\n", y, op, kind, w, x);
}

static void unary(struct random_graph *g, int x) {
    static const char *const ops[] = {"Relu", "Relu",     "LeakyRelu", "Sigmoid",
                                      "Neg",  "Identity", "Tanh",      "Dropout"};
    const int y = result(g, g->made[x].channels, g->made[x].side);
    tmk_text_printf(&g->text, " %%v%d = %s(%%v%d)\n", y, ops[draw(g, 8)], x);
}

static void pool(struct random_graph *g, int x) {
    const int y = result(g, g->made[x].channels, g->made[x].side);
    tmk_text_printf(&g->text, " %%v%d = %s(%%v%d) {kernel_shape=[3,3], pads=[1,1,1,1]}\n", y,
                    draw(g, 2) ? "MaxPool" : "AveragePool", x);
}

static void pair(struct random_graph *g, int x) {
    for (int tries = 0; tries < 8; tries++) {
        const int z = any(g);
        if (g->made[z].channels != g->made[x].channels)
            continue;
        const int y = result(g, g->made[x].channels, g->made[x].side);
        tmk_text_printf(&g->text, " %%v%d = %s(%%v%d, %%v%d)\n", y, draw(g, 3) ? "Add" : "Mul", x,
                        z);
        return;
    }
    const int z = any(g), y = result(g, g->made[x].channels + g->made[z].channels, g->made[x].side);
    tmk_text_printf(&g->text, " %%v%d = Concat(%%v%d, %%v%d) {axis=1}\n", y, x, z);
}

static void there_and_back(struct random_graph *g, int x) {
    const int y = result(g, g->made[x].channels, g->made[x].side);
    tmk_text_printf(&g->text,
                    " %%t%d = Transpose(%%v%d) {perm=[0,2,3,1]}\n %%u%d = Relu(%%t%d)\n"
                    " %%v%d = Transpose(%%u%d) {perm=[0,3,1,2]}\n",
                    y, x, y, y, y, y);
}

/* Pairs around what is there, so that operators between them may become ones of integers. */
static void quantize(struct random_graph *g, int x) {
    const int s = weights(g, "f32[]", 1, 0.02, 0.05);
    const int y = result(g, g->made[x].channels, g->made[x].side);
    tmk_text_printf(&g->text,
                    " init %%z%d : u8[] = {%u}\n %%q%d = QuantizeLinear(%%v%d, %%w%d, %%z%d)\n"
                    " %%v%d = DequantizeLinear(%%q%d, %%w%d, %%z%d)\n",
                    y, draw(g, 3) ? 128 : 0, y, x, s, y, y, y, s, y);
}

static void grow(struct random_graph *g) {
    const int x = any(g);
    if (g->quantized && draw(g, 2)) {
        quantize(g, x);
        return;
    }
    switch (draw(g, 9)) {
    case 0:
    case 1:
        convolution(g, x);
        break;
    case 2:
        normalisation(g, x);
        break;
    case 3:
        with_constant(g, x, "Mul");
        break;
    case 4:
        with_constant(g, x, "Add");
        break;
    case 5:
        unary(g, x);
        break;
    case 6:
        pool(g, x);
        break;
    case 7:
        pair(g, x);
        break;
    default:
        if (draw(g, 3))
            unary(g, x);
        else
            there_and_back(g, x);
    }
}

static void make(struct random_graph *g, uint64_t seed) {
    *g = (struct random_graph){.state = seed * 0x9e3779b97f4a7c15u + 1};
    g->quantized = draw(g, 5) == 0;
    const int channels = 1 + (int)draw(g, LARGEST);
    tmk_text_printf(&g->text, "graph \"random\" opset 17 {\n input %%v0 : f32[2,%d,4,4]\n",
                    channels);
    result(g, channels, 4);
    const int length = 2 + (int)draw(g, 14);
    for (int i = 0; i < length; i++)
        grow(g);
    /* Twice the same, and a value without consumers: for passes that eliminate. */
    const int again = (int)draw(g, (unsigned)g->n);
    tmk_text_printf(&g->text, " %%a = Exp(%%v%d)\n %%b = Exp(%%v%d)\n %%c = Add(%%a, %%b)\n", again,
                    again);
    tmk_text_printf(&g->text, " output %%v%d\n output %%c\n", g->n - 1);
    if (draw(g, 3) == 0 && g->n > 2)
        tmk_text_printf(&g->text, " output %%v%d\n", 1 + (int)draw(g, (unsigned)g->n - 2));
    tmk_text_puts(&g->text, "}\n");
    assert_false(g->text.failed);
}

static void pick_passes(struct random_graph *g, char *out, size_t size) {
    const struct tmk_pass *const *list = tmk_pass_list();
    size_t n = 0, used = 0;
    while (list[n])
        n++;
    out[0] = '\0';
    for (unsigned i = 0, of = 1 + draw(g, 8); i < of; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? "," : "",
                                 list[draw(g, (unsigned)n)]->name);
}

/* Each pass twice: the second time it has nothing to do. */
static void run_each_twice(struct pass_case *c, const char *list, const uint32_t *pinned,
                           size_t n_pinned) {
    char names[512];
    memcpy(names, list, strlen(list) + 1);
    for (char *rest = names, *name; (name = strtok_r(rest, ",", &rest));) {
        pass_run_pinned(c, name, pinned, n_pinned);
        for (size_t i = 0; c->progress && tmk_pass_list()[i]; i++)
            seen.progress[i] += strcmp(tmk_pass_list()[i]->name, name) == 0;
        pass_run_pinned(c, name, pinned, n_pinned);
        if (c->progress)
            fail_msg("a second run of %s makes progress", name);
    }
}

static void one_graph(uint64_t seed) {
    struct random_graph g;
    struct pass_case c;
    char passes[512];
    make(&g, seed);
    pick_passes(&g, passes, sizeof passes);
    now.seed = seed;
    now.text = g.text.data;
    now.passes = passes;
    pass_begin(&c, g.text.data);
    uint32_t pinned[2] = {draw(&g, tmk_lineage_size(c.lineage)),
                          draw(&g, tmk_lineage_size(c.lineage))};
    run_each_twice(&c, passes, pinned, draw(&g, 4) ? 0 : 2);
    pass_agrees_with(&c, seed, g.quantized ? 0.3 : 1e-4);
    for (uint32_t i = 0; i < tmk_lineage_size(c.lineage); i++)
        seen.fates[tmk_lineage_origin(c.lineage, i)->fate]++;
    pass_end(&c);
    now.text = NULL;
    tmk_text_finish(&g.text);
}

static uint64_t asked(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

TEST(random_graphs_survive_random_passes) {
    const uint64_t first = asked("TIDEMARK_RANDOM_FIRST", 1);
    const uint64_t n = asked("TIDEMARK_RANDOM_GRAPHS", USUAL);
    for (uint64_t i = 0; i < n; i++)
        one_graph(first + i);
    for (size_t i = 0; i < TMK_LINEAGE_VERDICTS; i++)
        print_message("# %" PRIu64 " originals %s\n", seen.fates[i],
                      tmk_fate_name((enum tmk_lineage_verdict)i));
    for (size_t i = 0; tmk_pass_list()[i]; i++) {
        print_message("# %s changed %" PRIu64 " graphs\n", tmk_pass_list()[i]->name,
                      seen.progress[i]);
        assert_true(n < USUAL || seen.progress[i] > 0 || tmk_pass_list()[i]->needs_ranges);
    }
}

static int tell_where(void **state) {
    (void)state;
    if (now.text)
        print_message("# seed %" PRIu64 ", passes %s\n%s", now.seed, now.passes, now.text);
    return 0;
}

TEST_FIXTURE(NULL, tell_where)
