/* SPDX-License-Identifier: Apache-2.0 */
/* Chains against the plain kernels, member by member, on random graphs: what the watcher gets and
 * what is stored, in both layouts, whatever else is stored or watched. */
#include "chain_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "graph_text/read.h"
#include "kernel/chain.h"

enum { MOST_MEMBERS = 8, MOST_OPERANDS = 48, MOST_INPUTS = 5 };

/* ---- a graph that is one chain ---- */

struct fixture {
    struct tmk_graph *graph;
    struct tmk_shape space;
    uint32_t block, n_members, n_operands;
    size_t count, places; /* row-major elements, and as they lie */
    const struct tmk_node *node[MOST_MEMBERS];
    int32_t from[MOST_MEMBERS][MOST_INPUTS];
    struct tmk_tensor operand[MOST_OPERANDS]; /* row-major */
    bool constant[MOST_OPERANDS];
    float *laid[MOST_OPERANDS]; /* as the chain reads them */
    struct tmk_chain_operand operands[MOST_OPERANDS];
    struct tmk_chain_member members[MOST_MEMBERS];
    /* of the run that watches everything */
    float *seen[MOST_OPERANDS + MOST_MEMBERS];
    size_t next[MOST_OPERANDS + MOST_MEMBERS];
};

/* What fills up blocks is garbage here: nothing may come of it. */
static float *lay(const struct fixture *f, const float *x) {
    float *laid = guarded(f->places), *ones = malloc(f->count * sizeof *ones),
          *mask = malloc(f->places * sizeof *mask);
    assert_non_null(ones);
    assert_non_null(mask);
    if (f->block <= 1) {
        memcpy(laid, x, f->count * sizeof *x);
    } else {
        for (size_t i = 0; i < f->count; i++)
            ones[i] = 1;
        tmk_to_blocks(x, laid, &f->space, f->block);
        tmk_to_blocks(ones, mask, &f->space, f->block);
        for (size_t i = 0; i < f->places; i++)
            if (mask[i] == 0) {
                assert_true(laid[i] == 0 && !signbit(laid[i]));
                laid[i] = random_float();
            }
    }
    free(ones);
    free(mask);
    return laid;
}

static uint32_t number_of(const struct tmk_value *value) {
    return (uint32_t)strtoul(value->name + 1, NULL, 10);
}

/* False: some member is not for a chain. */
static bool set_up(struct fixture *f, const char *text, const struct tmk_shape *space,
                   uint32_t block) {
    *f = (struct fixture){.space = *space, .block = block};
    must(parse_graph(text, NULL, &f->graph, DIAG));
    must(tmk_ops_bind(f->graph, DIAG));
    assert_true(tmk_shape_count(space, &f->count) && tmk_blocked_count(space, block, &f->places));
    for (struct tmk_node *node = f->graph->first; node; node = node->next) {
        uint32_t at = f->n_members++;
        struct tmk_tensor tensor[MOST_INPUTS];
        const struct tmk_tensor *in[MOST_INPUTS] = {NULL};
        assert_true(node->n_inputs <= MOST_INPUTS && at < MOST_MEMBERS);
        f->node[at] = node;
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            const struct tmk_value *value = node->inputs[i];
            f->from[at][i] = TMK_CHAIN_ABSENT;
            if (!value)
                continue;
            in[i] = &tensor[i];
            if (value->kind == TMK_VALUE_RESULT) {
                f->from[at][i] = -1 - (int32_t)number_of(value);
                tmk_tensor_borrow(&tensor[i], TMK_FLOAT32, space, NULL);
                continue;
            }
            uint32_t o = number_of(value);
            assert_true(o < MOST_OPERANDS);
            f->from[at][i] = (int32_t)o;
            f->n_operands = o >= f->n_operands ? o + 1 : f->n_operands;
            if (!f->operand[o].data) {
                f->constant[o] = value->name[0] == 'c';
                must(tmk_tensor_init(&f->operand[o], TMK_FLOAT32, &value->type.shape, DIAG));
                for (size_t k = 0; k < tmk_tensor_count(&f->operand[o]); k++)
                    ((float *)f->operand[o].data)[k] =
                        value->name[0] == 'c' && value->kind == TMK_VALUE_INITIALIZER
                            ? ((const float *)value->data.data)[k]
                            : random_float();
            }
            tmk_tensor_borrow(&tensor[i], TMK_FLOAT32, &f->operand[o].shape,
                              f->constant[o] ? f->operand[o].data : NULL);
        }
        if (!tmk_chain_supports(node, in, space, block))
            return false;
    }
    for (uint32_t i = 0; i < f->n_operands; i++) {
        const struct tmk_shape *shape = &f->operand[i].shape;
        bool whole =
            f->operand[i].data && (block > 1 ? tmk_shape_equal(shape, space)
                                             : tmk_tensor_count(&f->operand[i]) == f->count);
        if (whole && !f->constant[i])
            f->laid[i] = lay(f, f->operand[i].data);
        f->operands[i] = (struct tmk_chain_operand){
            .shape = shape, .constant = f->constant[i] ? f->operand[i].data : NULL};
    }
    return true;
}

static void tear_down(struct fixture *f) {
    for (uint32_t i = 0; i < MOST_OPERANDS; i++) {
        tmk_tensor_finish(&f->operand[i]);
        free_guarded(f->laid[i], f->places);
    }
    for (size_t i = 0; i < TMK_COUNT(f->seen); i++)
        free(f->seen[i]);
    tmk_graph_destroy(&f->graph);
}

/* ---- running ---- */

static enum tmk_status see(void *context, uint32_t which, const float *x, size_t first, size_t n,
                           struct tmk_diag *diag) {
    struct fixture *f = context;
    (void)diag;
    assert_true(which < f->n_operands + f->n_members);
    assert_true(n > 0 && first == f->next[which] && first + n <= f->places);
    f->next[which] = first + n;
    memcpy(f->seen[which] + first, x, n * sizeof *x);
    return TMK_OK;
}

static void create(struct fixture *f, uint32_t stored, uint32_t watched_members,
                   bool watched_operands, struct tmk_chain **out) {
    for (uint32_t i = 0; i < f->n_members; i++)
        f->members[i] = (struct tmk_chain_member){.node = f->node[i],
                                                  .from = f->from[i],
                                                  .stored = stored >> i & 1,
                                                  .watched = watched_members >> i & 1};
    for (uint32_t i = 0; i < f->n_operands; i++)
        f->operands[i].watched = watched_operands && f->laid[i];
    must(tmk_chain_create(&f->space, f->block, f->operands, f->n_operands, f->members, f->n_members,
                          out, DIAG));
}

/* place[r]: where result r goes. */
static void run(struct fixture *f, const struct tmk_chain *chain, float *const *place,
                float *const *laid, const struct tmk_chain_watcher *watcher) {
    const float *operands[MOST_OPERANDS];
    size_t n = tmk_chain_scratch(chain) / sizeof(float);
    float *scratch = guarded(n);
    for (uint32_t i = 0; i < f->n_operands; i++)
        operands[i] = f->constant[i] ? NULL : laid[i] ? laid[i] : f->operand[i].data;
    must(tmk_chain_run(chain, operands, place, scratch, watcher, DIAG));
    free_guarded(scratch, n);
}

/* ---- what comes out ---- */

static bool is_exact(const struct tmk_node *node) {
    static const char *const near[] = {"Erf",      "Exp",      "Gelu",     "Elu",   "Log",
                                       "Pow",      "Sigmoid",  "Softplus", "Swish", "Tanh",
                                       "BiasGelu", "FastGelu", "QuickGelu"};
    for (size_t i = 0; i < TMK_COUNT(near); i++)
        if (strcmp(node->op, near[i]) == 0)
            return false;
    return true;
}

static float *row_major(const struct fixture *f, const float *x) {
    float *out = malloc((f->count + 1) * sizeof *out);
    assert_non_null(out);
    if (f->block > 1)
        tmk_from_blocks(x, out, &f->space, f->block);
    else
        memcpy(out, x, f->count * sizeof *out);
    return out;
}

/* Each member from its operands as they were seen. */
static void check_members(const struct fixture *f, const char *text) {
    struct tmk_tensor value[MOST_MEMBERS];
    for (uint32_t i = 0; i < f->n_members; i++) {
        float *x = row_major(f, f->seen[f->n_operands + i]);
        const struct tmk_tensor *in[MOST_INPUTS] = {NULL};
        struct tmk_tensor out[1];
        tmk_tensor_borrow(&value[i], TMK_FLOAT32, &f->space, x);
        for (uint32_t k = 0; k < f->node[i]->n_inputs; k++) {
            int32_t from = f->from[i][k];
            if (from != TMK_CHAIN_ABSENT)
                in[k] = from < 0 ? &value[-1 - from] : &f->operand[from];
        }
        must(tmk_op_run(f->node[i], in, out, DIAG));
        const float *want = out[0].data;
        for (size_t k = 0; k < f->count; k++)
            if (!same(x[k], want[k], is_exact(f->node[i])))
                fail_msg("member %u, element %zu is %.9g, not %.9g; block %u\n%s", i, k,
                         (double)x[k], (double)want[k], f->block, text);
        tmk_tensor_finish(&out[0]);
    }
    for (uint32_t i = 0; i < f->n_members; i++)
        free(value[i].data);
    for (uint32_t i = 0; i < f->n_operands; i++)
        if (f->laid[i])
            assert_memory_equal(f->seen[i], f->laid[i], f->places * sizeof(float));
}

/* A result: the bits that were seen, and zeros for what fills up. */
static void check_result(const struct fixture *f, uint32_t member, const float *y,
                         const char *text) {
    float *flat = row_major(f, y), *want = row_major(f, f->seen[f->n_operands + member]);
    for (size_t i = 0; i < f->count; i++)
        if (!same(flat[i], want[i], true))
            fail_msg("result of member %u, element %zu is %.9g, not %.9g\n%s", member, i,
                     (double)flat[i], (double)want[i], text);
    if (f->block > 1) {
        float *back = malloc(f->places * sizeof *back);
        assert_non_null(back);
        tmk_to_blocks(flat, back, &f->space, f->block);
        if (memcmp(back, y, f->places * sizeof *y) != 0)
            fail_msg("result of member %u is not filled up with zeros\n%s", member, text);
        free(back);
    }
    free(flat);
    free(want);
}

static void watch_all(struct fixture *f, const char *text) {
    struct tmk_chain *chain = NULL;
    const struct tmk_chain_watcher watcher = {see, f};
    float *none[1] = {NULL};
    for (uint32_t i = 0; i < f->n_operands + f->n_members; i++) {
        f->seen[i] = malloc(f->places * sizeof(float));
        assert_non_null(f->seen[i]);
    }
    create(f, 0, UINT32_MAX, true, &chain);
    run(f, chain, none, f->laid, &watcher);
    for (uint32_t i = 0; i < f->n_operands + f->n_members; i++)
        assert_true(f->next[i] == (i >= f->n_operands || f->laid[i] ? f->places : 0));
    tmk_chain_destroy(&chain);
    assert_null(chain);
    check_members(f, text);
}

/* Some are stored, some watched; then each result once more in an operand's memory. Returns how
 * often that was possible. */
static int store_some(struct fixture *f, const char *text) {
    struct tmk_chain *chain = NULL;
    uint32_t stored = random_bits() | 1u << (f->n_members - 1), results = 0;
    float *place[MOST_MEMBERS] = {NULL};
    uint32_t member_of[MOST_MEMBERS];
    int overwritten = 0;
    create(f, stored, random_bits(), random_bits() & 1, &chain);
    for (uint32_t i = 0; i < f->n_members; i++)
        if (stored >> i & 1) {
            member_of[results] = i;
            place[results++] = guarded(f->places);
        }
    run(f, chain, place, f->laid, NULL);
    for (uint32_t r = 0; r < results; r++)
        check_result(f, member_of[r], place[r], text);
    for (uint32_t r = 0; r < results; r++)
        for (uint32_t o = 0; o < f->n_operands; o++) {
            if (!tmk_chain_may_overwrite(chain, r, o))
                continue;
            float *laid[MOST_OPERANDS], *copy = guarded(f->places), *own = place[r];
            assert_true(f->laid[o] != NULL);
            memcpy(laid, f->laid, sizeof laid);
            memcpy(copy, laid[o], f->places * sizeof *copy);
            laid[o] = place[r] = copy;
            for (uint32_t k = 0; k < results; k++)
                memset(place[k] == copy ? own : place[k], 0xff, f->places * sizeof *own);
            run(f, chain, place, laid, NULL);
            for (uint32_t k = 0; k < results; k++)
                check_result(f, member_of[k], place[k], text);
            place[r] = own;
            free_guarded(copy, f->places);
            overwritten++;
        }
    for (uint32_t r = 0; r < results; r++)
        free_guarded(place[r], f->places);
    tmk_chain_destroy(&chain);
    return overwritten;
}

/* ---- random chains ---- */

struct sketch {
    struct tmk_shape space;
    struct tmk_text head, body;
    uint32_t n_operands, n_members;
    char kind[MOST_OPERANDS];
    int32_t whole[MOST_OPERANDS];
    uint32_t n_whole;
};

static void print_shape(struct tmk_text *text, const struct tmk_shape *shape) {
    char out[128];
    tmk_text_printf(text, "f32%s", tmk_shape_text(shape, out, sizeof out));
}

/* A new operand's number; a constant's elements are random too. */
static uint32_t declare(struct sketch *s, const struct tmk_shape *shape, bool constant) {
    size_t n;
    uint32_t at = s->n_operands++;
    assert_true(tmk_shape_count(shape, &n));
    if (at >= MOST_OPERANDS)
        abort();
    s->kind[at] = constant ? 'c' : 'o';
    tmk_text_printf(&s->head, "  input %%%c%u : ", s->kind[at], at);
    print_shape(&s->head, shape);
    tmk_text_printf(&s->head, "\n");
    return at;
}

static uint32_t scalar(struct sketch *s, const char *value) {
    uint32_t at = s->n_operands++;
    if (at >= MOST_OPERANDS)
        abort();
    s->kind[at] = 'c';
    tmk_text_printf(&s->head, "  init %%c%u : f32[] = {%s}\n", at, value);
    return at;
}

/* Names an operand of the whole space: a member, a tensor that is there already, or a new one. */
static void print_whole(struct sketch *s, struct tmk_text *text) {
    if (s->n_members && pick(0, 3)) {
        uint32_t back = (uint32_t)pick(0, 2), last = s->n_members - 1;
        tmk_text_printf(text, "%%m%u", back > last ? last : last - back);
        return;
    }
    if (!s->n_whole || pick(0, 1))
        s->whole[s->n_whole++] = (int32_t)declare(s, &s->space, false);
    uint32_t at = (uint32_t)s->whole[random_bits() % s->n_whole];
    tmk_text_printf(text, "%%%c%u", s->kind[at], at);
}

/* Names an operand that is broadcast, or whole. */
static void print_other(struct sketch *s, struct tmk_text *text, bool constant, uint32_t block) {
    struct tmk_shape shape = s->space;
    int32_t rank = shape.rank;
    if (!constant && pick(0, 2) == 0) {
        print_whole(s, text);
        return;
    }
    int from = pick(0, rank), to = pick(from, rank);
    if (block > 1) {
        from = pick(0, 1);
        to = pick(from, 2);
    }
    for (int32_t i = 0; i < rank; i++)
        if (i < from || i >= to)
            shape.dim[i] = 1;
    const int32_t drop = pick(0, 1) ? from : 0;
    struct tmk_shape kept = {.rank = rank - drop};
    for (int32_t i = 0; i < kept.rank; i++)
        kept.dim[i] = shape.dim[i + drop];
    uint32_t at = declare(s, &kept, constant || pick(0, 1));
    tmk_text_printf(text, "%%%c%u", s->kind[at], at);
}

static void print_member(struct sketch *s, uint32_t block) {
    static const char *const unary[] = {"Relu(|)",
                                        "LeakyRelu(|) {alpha=0.3f}",
                                        "Sqrt(|)",
                                        "Neg(|)",
                                        "Abs(|)",
                                        "Reciprocal(|)",
                                        "Exp(|)",
                                        "Log(|)",
                                        "Erf(|)",
                                        "Tanh(|)",
                                        "Sigmoid(|)",
                                        "HardSigmoid(|) {alpha=0.3f}",
                                        "HardSwish(|)",
                                        "Gelu(|)",
                                        "Gelu(|) {approximate=\"tanh\"}",
                                        "Softplus(|)",
                                        "Elu(|) {alpha=0.7f}",
                                        "Identity(|)",
                                        "Dropout(|)",
                                        "com.microsoft::Gelu(|)",
                                        "com.microsoft::FastGelu(|)",
                                        "com.microsoft::QuickGelu(|)",
                                        "Swish(|) {alpha=1.5f}",
                                        "ai.tidemark::RoundTo(|) {to=10}",
                                        "ai.tidemark::RoundTo(|) {to=16}"};
    static const char *const binary[] = {"Add", "Sub", "Mul", "Div", "Min", "Max", "Sum"};
    static const char *const exponents[] = {"2", "0.5", "1", "3"};
    struct tmk_text *out = &s->body;
    tmk_text_printf(out, "  %%m%u = ", s->n_members);
    int kind = pick(0, 11);
    if (kind < 4) {
        const char *form = unary[random_bits() % TMK_COUNT(unary)], *bar = strchr(form, '|');
        tmk_text_printf(out, "%.*s", (int)(bar - form), form);
        print_whole(s, out);
        tmk_text_printf(out, "%s\n", bar + 1);
    } else if (kind < 8) {
        bool swap = pick(0, 1);
        tmk_text_printf(out, "%s(", binary[random_bits() % TMK_COUNT(binary)]);
        swap ? print_other(s, out, false, block) : print_whole(s, out);
        tmk_text_printf(out, ", ");
        swap ? print_whole(s, out) : print_other(s, out, false, block);
        tmk_text_printf(out, ")\n");
    } else if (kind == 8) {
        tmk_text_printf(out, "Pow(");
        print_whole(s, out);
        tmk_text_printf(out, ", %%c%u)\n",
                        scalar(s, exponents[random_bits() % TMK_COUNT(exponents)]));
    } else if (kind == 9) {
        tmk_text_printf(out, "PRelu(");
        print_whole(s, out);
        tmk_text_printf(out, ", ");
        print_other(s, out, true, block);
        tmk_text_printf(out, ")\n");
    } else if (kind == 10) {
        tmk_text_printf(out, "Clip(");
        print_whole(s, out);
        if (pick(0, 1))
            tmk_text_printf(out, ", %%c%u", scalar(s, pick(0, 1) ? "0" : "-0.5"));
        else
            tmk_text_printf(out, ", _");
        if (pick(0, 1))
            tmk_text_printf(out, ", %%c%u", scalar(s, pick(0, 1) ? "6" : "0.5"));
        tmk_text_printf(out, ")\n");
    } else {
        struct tmk_shape channels = {1, {s->space.rank > 1 ? s->space.dim[1] : 1}};
        tmk_text_printf(out, "BatchNormalization(");
        print_whole(s, out);
        for (int i = 0; i < 4; i++)
            tmk_text_printf(out, ", %%c%u", declare(s, &channels, true));
        tmk_text_printf(out, ")\n");
    }
    s->n_members++;
}

static int64_t one_of(const int64_t *values, size_t n) {
    return values[random_bits() % n];
}

static void random_space(struct tmk_shape *space, uint32_t block) {
    static const int64_t channels[] = {1, 3, 5, 8, 16, 17, 24, 40},
                         extents[] = {1, 2, 3, 7, 13, 30, 70};
    *space = (struct tmk_shape){.rank = pick(block > 1 ? 2 : 1, 4)};
    for (int32_t i = 0; i < space->rank; i++)
        space->dim[i] = i == 0   ? pick(1, 3)
                        : i == 1 ? one_of(channels, TMK_COUNT(channels))
                                 : one_of(extents, TMK_COUNT(extents));
    if (space->rank == 1)
        space->dim[0] = pick(1, 5000);
}

/* Of `count` random chains: how many are chains, and how often a result could stand in an operand's
 * memory. */
static void check_many(uint32_t block, int count, int *chains, int *overwritten) {
    *chains = *overwritten = 0;
    for (int i = 0; i < count; i++) {
        struct sketch s = {0};
        struct tmk_text text = {0};
        struct fixture f;
        random_space(&s.space, block);
        for (int n = pick(1, 6); n > 0; n--)
            print_member(&s, block);
        assert_false(s.head.failed || s.body.failed);
        tmk_text_printf(
            &text,
            "graph \"g\" opset 24 \"com.microsoft\" 1 \"ai.tidemark\" 1 {\n%s%s  output %%m%u\n}\n",
            s.head.data ? s.head.data : "", s.body.data, s.n_members - 1);
        assert_false(text.failed);
        if (set_up(&f, text.data, &s.space, block)) {
            (*chains)++;
            watch_all(&f, text.data);
            *overwritten += store_some(&f, text.data);
        }
        tear_down(&f);
        tmk_text_finish(&s.head);
        tmk_text_finish(&s.body);
        tmk_text_finish(&text);
    }
}

TEST(chains_make_what_plain_kernels_make) {
    static const uint32_t blocks[] = {0, 8, 16, 4};
    (void)state;
    for (size_t i = 0; i < TMK_COUNT(blocks); i++) {
        int chains, overwritten, count = 400;
        check_many(blocks[i], count, &chains, &overwritten);
        assert_true(chains > count / 2 && overwritten > count / 4);
    }
}

/* ---- a watcher that fails ---- */

static enum tmk_status refuse(void *context, uint32_t which, const float *x, size_t first, size_t n,
                              struct tmk_diag *diag) {
    (void)context, (void)which, (void)x, (void)first, (void)n, (void)diag;
    return TMK_RANGE;
}

TEST(a_watcher_that_fails_ends_the_run) {
    struct fixture f;
    struct tmk_chain *chain = NULL;
    const struct tmk_chain_watcher watcher = {refuse, NULL};
    struct tmk_shape space = {2, {2, 3}};
    float *none[1] = {NULL};
    (void)state;
    assert_true(set_up(&f,
                       "graph \"g\" opset 17 {\n input %o0 : f32[2,3]\n %m0 = Relu(%o0)\n"
                       " output %m0\n}\n",
                       &space, 0));
    create(&f, 0, 1, false, &chain);
    float *scratch = guarded(tmk_chain_scratch(chain) / sizeof(float));
    const float *operands[] = {f.laid[0]};
    assert_int_equal(tmk_chain_run(chain, operands, none, scratch, &watcher, NULL), TMK_RANGE);
    free_guarded(scratch, tmk_chain_scratch(chain) / sizeof(float));
    tmk_chain_destroy(&chain);
    tear_down(&f);
}
