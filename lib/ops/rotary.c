/* SPDX-License-Identifier: Apache-2.0 */
/* RotaryEmbedding: pairs of a head's elements are turned by the angle of their position. */
#include "ops/rotary.h"

#include "ops/contrib.h"
#include "ops/kernel.h"

enum { IN_X, IN_COS, IN_SIN, IN_POSITIONS };

struct sizes {
    size_t batch, sequence, heads, head;
    size_t turned;               /* elements at the beginning of a head that turn, in pairs */
    size_t at_head, at_sequence; /* elements from one to the next; a sample is all of them */
};

/* Of [batch, sequence, heads * head], whose heads are given, or [batch, heads, sequence, head]. */
static struct sizes sizes_of(const struct tmk_shape *x, int64_t heads) {
    struct sizes s = {.batch = (size_t)x->dim[0]};
    if (x->rank == 3) {
        s.sequence = (size_t)x->dim[1];
        s.heads = (size_t)heads;
        s.head = s.at_head = (size_t)(x->dim[2] / heads);
        s.at_sequence = (size_t)x->dim[2];
    } else {
        s.heads = (size_t)x->dim[1];
        s.sequence = (size_t)x->dim[2];
        s.head = s.at_sequence = (size_t)x->dim[3];
        s.at_head = tmk_shape_product(x, 2, 4);
    }
    return s;
}

static enum tmk_status read_sizes(const struct tmk_node *node, const struct tmk_shape *x,
                                  struct sizes *s, struct tmk_diag *diag) {
    int64_t heads = tmk_node_int(node, "num_heads", 0),
            turned = tmk_node_int(node, "rotary_embedding_dim", 0);
    if (x->rank != 3 && x->rank != 4)
        return tmk_fail(diag, TMK_SHAPE, "input 'X' has rank %d, neither 3 nor 4", (int)x->rank);
    if (x->rank == 3 && (heads <= 0 || x->dim[2] % heads))
        return tmk_fail(diag, TMK_SHAPE,
                        "attribute 'num_heads' is %lld, which does not divide %lld",
                        (long long)heads, (long long)x->dim[2]);
    *s = sizes_of(x, heads);
    turned = turned ? turned : (int64_t)s->head;
    if (turned < 0 || turned % 2 || turned > (int64_t)s->head)
        return tmk_fail(diag, TMK_RANGE, "%lld elements of a head of %zu cannot turn in pairs",
                        (long long)turned, s->head);
    s->turned = (size_t)turned;
    return TMK_OK;
}

/* A row of a cache may be as wide as for a head that turns as a whole; its beginning counts, as in
 * onnx 1.18's reference. */
static enum tmk_status want_cache(const struct tmk_tensor *cache, const char *what, bool by_place,
                                  const struct sizes *s, struct tmk_diag *diag) {
    const struct tmk_shape *c = &cache->shape;
    TMK_TRY(tmk_want_dtype(cache, TMK_FLOAT32, what, diag));
    bool fits = by_place ? c->rank == 2
                         : c->rank == 3 && c->dim[0] == (int64_t)s->batch &&
                               c->dim[1] == (int64_t)s->sequence;
    const int64_t width = fits ? c->dim[c->rank - 1] : 0;
    if (!fits || (width != (int64_t)s->turned / 2 && width != (int64_t)s->head / 2))
        return tmk_fail(diag, TMK_SHAPE, "input '%s' is %s; %s", what, TMK_SHAPE_TEXT(c),
                        by_place ? "with 'position_ids' it takes [positions, half the turning part]"
                                 : "it takes [batch, sequence, half the turning part]");
    return TMK_OK;
}

static enum tmk_status infer_rotary(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[IN_X], *positions = tmk_infer_in(infer, IN_POSITIONS);
    struct sizes s;
    TMK_TRY(tmk_want_dtype(x, TMK_FLOAT32, "X", infer->diag));
    TMK_TRY(read_sizes(infer->node, &x->shape, &s, infer->diag));
    TMK_TRY(want_cache(infer->in[IN_COS], "cos_cache", positions, &s, infer->diag));
    TMK_TRY(tmk_want_shape(infer->in[IN_SIN], TMK_FLOAT32, "sin_cache", &infer->in[IN_COS]->shape,
                           infer->diag));
    TMK_TRY(tmk_want_shape(positions, TMK_INT64, "position_ids",
                           &(struct tmk_shape){2, {x->shape.dim[0], (int64_t)s.sequence}},
                           infer->diag));
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &x->shape);
}

void tmk_rotary_turn(size_t turned, size_t head, bool interleaved, const float *cosine,
                     const float *sine, const float *x, float *y) {
    size_t half = turned / 2, step = interleaved ? 2 : 1, apart = interleaved ? 1 : half;
    for (size_t i = 0; i < half; i++) {
        float a = x[i * step], b = x[i * step + apart];
        y[i * step] = cosine[i] * a - sine[i] * b;
        y[i * step + apart] = sine[i] * a + cosine[i] * b;
    }
    for (size_t i = turned; i < head; i++)
        y[i] = x[i];
}

/* Turns all heads at the step `at` of all samples' sequences, by a row of each table. */
static void turn_heads(const struct tmk_run *run, const struct sizes *s, size_t at,
                       const float *cosine, const float *sine) {
    const bool interleaved = tmk_node_int(run->node, "interleaved", 0) != 0;
    size_t first =
        at / s->sequence * (s->heads * s->sequence * s->head) + at % s->sequence * s->at_sequence;
    for (size_t h = 0; h < s->heads; h++, first += s->at_head)
        tmk_rotary_turn(s->turned, s->head, interleaved, cosine, sine,
                        (const float *)run->in[IN_X]->data + first,
                        (float *)run->out[0]->data + first);
}

/* By row `place` of the tables. */
static void turn_by_table(const struct tmk_run *run, const struct sizes *s, size_t at,
                          const struct tmk_tensor *cosine, const struct tmk_tensor *sine,
                          size_t place) {
    const size_t row = place * (size_t)cosine->shape.dim[cosine->shape.rank - 1];
    turn_heads(run, s, at, (const float *)cosine->data + row, (const float *)sine->data + row);
}

static enum tmk_status run_rotary(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[IN_X], *positions = tmk_run_in(run, IN_POSITIONS);
    struct sizes s;
    TMK_TRY(read_sizes(run->node, &x->shape, &s, run->diag));
    for (size_t p = 0; p < s.batch * s.sequence; p++) {
        size_t place = p;
        if (positions) {
            int64_t given = ((const int64_t *)positions->data)[p];
            if (given < 0 || given >= run->in[IN_COS]->shape.dim[0])
                return tmk_fail(run->diag, TMK_RANGE, "input 'position_ids' has %lld of %lld",
                                (long long)given, (long long)run->in[IN_COS]->shape.dim[0]);
            place = (size_t)given;
        }
        turn_by_table(run, &s, p, run->in[IN_COS], run->in[IN_SIN], place);
    }
    return TMK_OK;
}

/* RotaryEmbedding of ONNX Runtime: the positions come before the tables, and one position stands
 * for the first of a sequence. */

enum { CONTRIB_IN_X, CONTRIB_IN_POSITIONS, CONTRIB_IN_COS, CONTRIB_IN_SIN };

/* Without num_heads, a head of [batch, sequence, hidden] turns as a whole. */
static enum tmk_status read_sizes_contrib(const struct tmk_node *node, const struct tmk_shape *x,
                                          const struct tmk_shape *table, struct sizes *out,
                                          struct tmk_diag *diag) {
    int64_t heads = tmk_node_int(node, "num_heads", 0),
            turned = tmk_node_int(node, "rotary_embedding_dim", 0);
    if (tmk_node_int(node, "is_packed_batching", 0))
        return tmk_fail(diag, TMK_UNSUPPORTED, "attribute 'is_packed_batching' is not supported");
    if ((x->rank != 3 && x->rank != 4) || table->rank != 2)
        return tmk_fail(diag, TMK_SHAPE, "the input has rank %d, and the tables %d", (int)x->rank,
                        (int)table->rank);
    int64_t half = table->dim[1], hidden = x->dim[x->rank - 1];
    if (half > INT32_MAX || (turned && turned != 2 * half) || (turned && x->rank == 3 && !heads))
        return tmk_fail(diag, TMK_RANGE,
                        "attribute 'rotary_embedding_dim' is %lld, the tables are %s",
                        (long long)turned, TMK_SHAPE_TEXT(table));
    turned = 2 * half;
    if (x->rank == 3 && !heads)
        heads = turned ? hidden / turned : 0;
    if (x->rank == 3 && (heads <= 0 || hidden % heads))
        return tmk_fail(diag, TMK_SHAPE, "%lld heads do not divide %lld", (long long)heads,
                        (long long)hidden);
    struct sizes s = sizes_of(x, heads);
    s.turned = (size_t)turned;
    if (s.turned > s.head)
        return tmk_fail(diag, TMK_RANGE, "a head has %zu elements, of which %zu cannot turn",
                        s.head, s.turned);
    *out = s;
    return TMK_OK;
}

static enum tmk_status want_operands(const struct tmk_tensor *x, const struct tmk_tensor *positions,
                                     const struct tmk_tensor *cosine, const struct tmk_tensor *sine,
                                     struct tmk_diag *diag) {
    size_t count;
    TMK_TRY(tmk_want_dtype(x, TMK_FLOAT32, "input", diag));
    TMK_TRY(tmk_want_dtype(positions, TMK_INT64, "position_ids", diag));
    TMK_TRY(tmk_want_dtype(cosine, TMK_FLOAT32, "cos_cache", diag));
    TMK_TRY(tmk_want_shape(sine, TMK_FLOAT32, "sin_cache", &cosine->shape, diag));
    return tmk_shape_count(&x->shape, &count) ? TMK_OK
                                              : tmk_fail(diag, TMK_RANGE, "the input is too large");
}

static enum tmk_status infer_rotary_contrib(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[CONTRIB_IN_X],
                            *positions = infer->in[CONTRIB_IN_POSITIONS],
                            *cosine = infer->in[CONTRIB_IN_COS], *sine = infer->in[CONTRIB_IN_SIN];
    const struct tmk_shape *p = &positions->shape;
    struct sizes s;
    TMK_TRY(want_operands(x, positions, cosine, sine, infer->diag));
    TMK_TRY(read_sizes_contrib(infer->node, &x->shape, &cosine->shape, &s, infer->diag));
    if (!(p->rank == 1 && p->dim[0] == 1) &&
        !(p->rank == 2 && p->dim[0] == (int64_t)s.batch && p->dim[1] == (int64_t)s.sequence))
        return tmk_fail(infer->diag, TMK_SHAPE,
                        "input 'position_ids' is neither [1] nor [batch, sequence]");
    return tmk_infer_same(infer);
}

static enum tmk_status run_rotary_contrib(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[CONTRIB_IN_X], *positions = run->in[CONTRIB_IN_POSITIONS];
    int64_t most = run->in[CONTRIB_IN_COS]->shape.dim[0];
    struct sizes s;
    TMK_TRY(
        read_sizes_contrib(run->node, &x->shape, &run->in[CONTRIB_IN_COS]->shape, &s, run->diag));
    const int64_t *given = positions->data;
    const bool one = positions->shape.rank == 1; /* that of each sequence's first row */
    const int64_t rows = one ? (int64_t)s.sequence : 1;
    for (size_t i = 0; i < (one ? 1 : s.batch * s.sequence); i++)
        if (given[i] < 0 || given[i] > most - rows)
            return tmk_fail(run->diag, TMK_RANGE, "place %zu has position %lld and more, of %lld",
                            i, (long long)given[i], (long long)most);
    for (size_t i = 0; i < s.batch * s.sequence; i++)
        turn_by_table(run, &s, i, run->in[CONTRIB_IN_COS], run->in[CONTRIB_IN_SIN],
                      (size_t)given[one ? 0 : i] + (one ? i % s.sequence : 0));
    return TMK_OK;
}

/* MRotaryEmbedding: a token has three positions, and a section of each row of the tables goes by
 * one of them. */

struct sections {
    bool interleaved; /* the second and the third in turns with the first, which has the rest */
    int64_t size[3];
};

static enum tmk_status read_sections(const struct tmk_node *node, size_t half, struct sections *out,
                                     struct tmk_diag *diag) {
    const int64_t layout = tmk_node_int(node, "mrope_layout", 0);
    size_t n;
    const int64_t *sections = tmk_node_ints(node, "mrope_section", &n);
    int64_t left = (int64_t)half;
    if (layout < 0 || layout > 1)
        return tmk_fail(diag, TMK_RANGE, "attribute 'mrope_layout' is %lld", (long long)layout);
    for (size_t i = 0; i < n && n == 3 && left >= 0; i++)
        left = sections[i] < 0 || sections[i] > left ? -1 : left - sections[i];
    if (n != 3 || left != 0)
        return tmk_fail(diag, TMK_RANGE,
                        "attribute 'mrope_section' is not three parts of %zu elements", half);
    *out = (struct sections){layout == 1, {sections[0], sections[1], sections[2]}};
    return TMK_OK;
}

/* Which of the three positions element i of a row goes by. */
static size_t section_at(const struct sections *s, int64_t i) {
    if (s->interleaved)
        return i % 3 && i < 3 * s->size[i % 3] ? (size_t)(i % 3) : 0;
    return i < s->size[0] ? 0 : i < s->size[0] + s->size[1] ? 1 : 2;
}

static enum tmk_status infer_rotary_sections(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[CONTRIB_IN_X],
                            *positions = infer->in[CONTRIB_IN_POSITIONS],
                            *cosine = infer->in[CONTRIB_IN_COS], *sine = infer->in[CONTRIB_IN_SIN];
    const struct tmk_shape *p = &positions->shape;
    struct sections sections;
    struct sizes s;
    TMK_TRY(want_operands(x, positions, cosine, sine, infer->diag));
    TMK_TRY(read_sizes_contrib(infer->node, &x->shape, &cosine->shape, &s, infer->diag));
    TMK_TRY(read_sections(infer->node, s.turned / 2, &sections, infer->diag));
    if (p->rank != 3 || p->dim[0] != 3 || p->dim[1] != (int64_t)s.batch ||
        p->dim[2] != (int64_t)s.sequence)
        return tmk_fail(infer->diag, TMK_SHAPE, "input 'position_ids' is not [3, batch, sequence]");
    return tmk_infer_same(infer);
}

static enum tmk_status run_rotary_sections(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[CONTRIB_IN_X], *cosine = run->in[CONTRIB_IN_COS];
    const float *cosines = cosine->data, *sines = run->in[CONTRIB_IN_SIN]->data;
    const int64_t *given = run->in[CONTRIB_IN_POSITIONS]->data, most = cosine->shape.dim[0];
    struct sections sections;
    struct sizes s;
    float *row;
    TMK_TRY(read_sizes_contrib(run->node, &x->shape, &cosine->shape, &s, run->diag));
    const size_t half = s.turned / 2, tokens = s.batch * s.sequence;
    TMK_TRY(read_sections(run->node, half, &sections, run->diag));
    TMK_TRY(tmk_scratch_floats(run, 2, half, 1, &row));
    for (size_t i = 0; i < 3 * tokens; i++)
        if (given[i] < 0 || given[i] >= most)
            return tmk_fail(run->diag, TMK_RANGE, "input 'position_ids' has %lld of %lld",
                            (long long)given[i], (long long)most);
    for (size_t t = 0; t < tokens; t++) {
        for (size_t i = 0; i < half; i++) {
            const size_t stream = section_at(&sections, (int64_t)i),
                         place = (size_t)given[stream * tokens + t] * half + i;
            row[i] = cosines[place];
            row[half + i] = sines[place];
        }
        turn_heads(run, &s, t, row, row + half);
    }
    return TMK_OK;
}

const struct tmk_op tmk_ops_rotary[] = {
    {TMK_OP_ONNX("RotaryEmbedding", 23, INT32_MAX), TMK_OP_COUNTS(3, 4, 1, 1),
     .flags = TMK_OP_CHECKS, .channel = TMK_CHANNEL_LAST,
     .attrs = "interleaved:int num_heads:int rotary_embedding_dim:int", .infer = infer_rotary,
     .run = run_rotary},
    {TMK_OP_CONTRIB("RotaryEmbedding"), TMK_OP_COUNTS(4, 4, 1, 1), .flags = TMK_OP_CHECKS,
     .channel = TMK_CHANNEL_LAST,
     .attrs = "interleaved:int is_packed_batching:int num_heads:int rotary_embedding_dim:int "
              "scale:float",
     .infer = infer_rotary_contrib, .run = run_rotary_contrib},
    {TMK_OP_CONTRIB("MRotaryEmbedding"), TMK_OP_COUNTS(4, 4, 1, 1), .flags = TMK_OP_CHECKS,
     .channel = TMK_CHANNEL_LAST,
     .attrs = "interleaved:int is_packed_batching:int mrope_layout:int mrope_section:ints! "
              "num_heads:int rotary_embedding_dim:int scale:float",
     .infer = infer_rotary_sections, .run = run_rotary_sections},
    {NULL}};
