/* SPDX-License-Identifier: Apache-2.0 */
/* RotaryEmbedding of ONNX Runtime: the positions come before the tables, and one position stands
 * for the first of a sequence. */
#include "ops/contrib.h"
#include "ops/rotary.h"
#include "ops/rows.h"

enum { IN_X, IN_POSITIONS, IN_COS, IN_SIN };

struct sizes {
    size_t batch, sequence, heads, head, turned;
    size_t at_head, at_sequence; /* elements from one to the next; a sample is all of them */
};

/* Without num_heads, a head of [batch, sequence, hidden] turns as a whole. */
static enum tmk_status read_sizes(const struct tmk_node *node, const struct tmk_shape *x,
                                  const struct tmk_shape *table, struct sizes *out,
                                  struct tmk_diag *diag) {
    int64_t heads = tmk_node_int(node, "num_heads", 0),
            turned = tmk_node_int(node, "rotary_embedding_dim", 0);
    char text[256];
    if (tmk_node_int(node, "is_packed_batching", 0))
        return tmk_fail(diag, TMK_UNSUPPORTED, "attribute 'is_packed_batching' is not supported");
    if ((x->rank != 3 && x->rank != 4) || table->rank != 2)
        return tmk_fail(diag, TMK_SHAPE, "the input has rank %d, and the tables %d", (int)x->rank,
                        (int)table->rank);
    int64_t half = table->dim[1], hidden = x->dim[x->rank - 1];
    if (half > INT32_MAX || (turned && turned != 2 * half) || (turned && x->rank == 3 && !heads))
        return tmk_fail(diag, TMK_RANGE,
                        "attribute 'rotary_embedding_dim' is %lld, the tables are %s",
                        (long long)turned, tmk_shape_text(table, text, sizeof text));
    turned = 2 * half;
    if (x->rank == 3 && !heads)
        heads = turned ? hidden / turned : 0;
    if (x->rank == 3 && (heads <= 0 || hidden % heads))
        return tmk_fail(diag, TMK_SHAPE, "%lld heads do not divide %lld", (long long)heads,
                        (long long)hidden);
    struct sizes s = {.batch = (size_t)x->dim[0], .turned = (size_t)turned};
    if (x->rank == 3) {
        s.sequence = (size_t)x->dim[1];
        s.heads = (size_t)heads;
        s.head = s.at_head = (size_t)(hidden / heads);
        s.at_sequence = (size_t)hidden;
    } else {
        s.heads = (size_t)x->dim[1];
        s.sequence = (size_t)x->dim[2];
        s.head = s.at_sequence = (size_t)hidden;
        s.at_head = tmk_shape_product(x, 2, 4);
    }
    if (s.turned > s.head)
        return tmk_fail(diag, TMK_RANGE, "a head has %zu elements, of which %zu cannot turn",
                        s.head, s.turned);
    *out = s;
    return TMK_OK;
}

static enum tmk_status infer_rotary(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[IN_X], *positions = infer->in[IN_POSITIONS],
                            *cosine = infer->in[IN_COS], *sine = infer->in[IN_SIN];
    const struct tmk_shape *p = &positions->shape;
    struct sizes s;
    size_t count;
    TMK_TRY(tmk_want_dtype(x, TMK_FLOAT32, "input", infer->diag));
    TMK_TRY(tmk_want_dtype(positions, TMK_INT64, "position_ids", infer->diag));
    TMK_TRY(tmk_want_dtype(cosine, TMK_FLOAT32, "cos_cache", infer->diag));
    TMK_TRY(tmk_want_dtype(sine, TMK_FLOAT32, "sin_cache", infer->diag));
    if (!tmk_shape_equal(&cosine->shape, &sine->shape))
        return tmk_fail(infer->diag, TMK_SHAPE,
                        "inputs 'cos_cache' and 'sin_cache' differ in shape");
    if (!tmk_shape_count(&x->shape, &count))
        return tmk_fail(infer->diag, TMK_RANGE, "the input is too large");
    TMK_TRY(read_sizes(infer->node, &x->shape, &cosine->shape, &s, infer->diag));
    if (!(p->rank == 1 && p->dim[0] == 1) &&
        !(p->rank == 2 && p->dim[0] == (int64_t)s.batch && p->dim[1] == (int64_t)s.sequence))
        return tmk_fail(infer->diag, TMK_SHAPE,
                        "input 'position_ids' is neither [1] nor [batch, sequence]");
    return tmk_infer_same(infer);
}

static enum tmk_status run_rotary(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[IN_X], *positions = run->in[IN_POSITIONS];
    const float *cosine = run->in[IN_COS]->data, *sine = run->in[IN_SIN]->data;
    bool interleaved = tmk_node_int(run->node, "interleaved", 0) != 0;
    struct tmk_tensor *y = tmk_run_out(run, 0);
    int64_t most = run->in[IN_COS]->shape.dim[0];
    struct sizes s;
    TMK_TRY(read_sizes(run->node, &x->shape, &run->in[IN_COS]->shape, &s, run->diag));
    if (!y || tmk_tensor_count(y) == 0)
        return TMK_OK;
    for (size_t i = 0; i < s.batch * s.sequence; i++) {
        const int64_t *given = positions->data;
        int64_t first = positions->shape.rank == 1 ? given[0] : given[i],
                step = positions->shape.rank == 1 ? (int64_t)(i % s.sequence) : 0;
        if (first < 0 || first >= most || step >= most - first)
            return tmk_fail(run->diag, TMK_RANGE, "place %zu has position %lld and more, of %lld",
                            i, (long long)first, (long long)most);
        size_t place = (size_t)(first + step) * (s.turned / 2),
               at = i / s.sequence * (s.heads * s.sequence * s.head) +
                    i % s.sequence * s.at_sequence;
        for (size_t h = 0; h < s.heads; h++, at += s.at_head)
            tmk_rotary_turn(s.turned, s.head, interleaved, cosine + place, sine + place,
                            (const float *)x->data + at, (float *)y->data + at);
    }
    return TMK_OK;
}

const struct tmk_op tmk_ops_contrib_rotary[] = {
    {TMK_OP_CONTRIB("RotaryEmbedding"), TMK_OP_COUNTS(4, 4, 1, 1), .channel = TMK_CHANNEL_LAST,
     .attrs = "interleaved:int is_packed_batching:int num_heads:int rotary_embedding_dim:int "
              "scale:float",
     .infer = infer_rotary, .run = run_rotary},
    {NULL}};
