/* SPDX-License-Identifier: Apache-2.0 */
/* SparseAttention of ONNX Runtime: GroupQueryAttention whose queries attend to blocks of keys that
 * a table names. Each of `layouts` tables is in CSR form: rows and columns are blocks of so many
 * positions; head h has table h % layouts. The cache has room for all positions. */
#include <math.h>
#include <string.h>

#include "ops/contrib.h"
#include "ops/contrib_group_query.h"

enum {
    IN_QUERY,
    IN_KEY,
    IN_VALUE,
    IN_PAST_KEY,
    IN_PAST_VALUE,
    IN_ROWS,
    IN_COLUMNS,
    IN_TOTAL,
    IN_LENGTHS,
    IN_COS,
    IN_SIN
};
enum { OUT_KEY = 1, OUT_VALUE };

struct blocks {
    size_t layouts, rows, columns; /* rows: blocks in a table; columns: room for those named */
    int64_t size;
};

/* The inputs as GroupQueryAttention has them; its lengths do not count the last key. */
static void place_inputs(const struct tmk_tensor *const *in, uint32_t n,
                         const struct tmk_tensor *lengths, const struct tmk_tensor *bias,
                         const struct tmk_tensor *out[TMK_GQ_INPUTS]) {
    memset(out, 0, TMK_GQ_INPUTS * sizeof(const struct tmk_tensor *));
    for (uint32_t i = IN_QUERY; i <= IN_PAST_VALUE; i++)
        out[i] = in[i];
    out[TMK_GQ_LENGTHS] = lengths;
    out[TMK_GQ_TOTAL] = in[IN_TOTAL];
    out[TMK_GQ_COS] = tmk_operand(in, n, IN_COS);
    out[TMK_GQ_SIN] = tmk_operand(in, n, IN_SIN);
    out[TMK_GQ_BIAS] = bias;
}

static enum tmk_status find_blocks(const struct tmk_node *node, const struct tmk_tensor *const *in,
                                   struct blocks *out, struct tmk_diag *diag) {
    const struct tmk_shape *rows = &in[IN_ROWS]->shape, *columns = &in[IN_COLUMNS]->shape,
                           *past = &in[IN_PAST_KEY]->shape;
    const int64_t size = tmk_node_int(node, "sparse_block_size", 0),
                  heads = tmk_node_int(node, "num_heads", 0);
    TMK_TRY(tmk_want_dtype(in[IN_ROWS], TMK_INT32, "block_row_indices", diag));
    TMK_TRY(tmk_want_dtype(in[IN_COLUMNS], TMK_INT32, "block_col_indices", diag));
    if (size < 1 || size > INT32_MAX)
        return tmk_fail(diag, TMK_RANGE, "attribute 'sparse_block_size' is %lld", (long long)size);
    if (rows->rank != 2 || columns->rank != 2 || rows->dim[0] != columns->dim[0] ||
        rows->dim[0] < 1 || rows->dim[1] < 1 || heads % rows->dim[0] != 0)
        return tmk_fail(diag, TMK_SHAPE, "block indices of %s and %s do not fit %lld heads",
                        TMK_SHAPE_TEXT(rows), TMK_SHAPE_TEXT(columns), (long long)heads);
    if (past->rank != 4)
        return tmk_fail(diag, TMK_SHAPE, "past_key is %s", TMK_SHAPE_TEXT(past));
    *out = (struct blocks){(size_t)rows->dim[0], (size_t)rows->dim[1] - 1, (size_t)columns->dim[1],
                           size};
    return TMK_OK;
}

/* The cache does not grow. The elements may not be known yet. */
static enum tmk_status check_total(const struct tmk_tensor *const *in, struct tmk_diag *diag) {
    const int64_t room = in[IN_PAST_KEY]->shape.dim[2], queries = in[IN_QUERY]->shape.dim[1],
                  total = in[IN_TOTAL]->data ? *(const int32_t *)in[IN_TOTAL]->data : queries;
    if (total < queries || total > room)
        return tmk_fail(diag, TMK_RANGE,
                        "total_sequence_length is %lld, with %lld queries and room for %lld keys",
                        (long long)total, (long long)queries, (long long)room);
    return TMK_OK;
}

static enum tmk_status infer_sparse(struct tmk_infer *infer) {
    static const char *const needed[] = {[IN_PAST_KEY] = "past_key", "past_value",
                                         "block_row_indices",        "block_col_indices",
                                         "total_sequence_length",    "key_total_sequence_lengths"};
    const struct tmk_tensor *in[TMK_GQ_INPUTS];
    struct tmk_infer dense = *infer;
    struct blocks b;
    for (uint32_t i = IN_PAST_KEY; i < TMK_COUNT(needed); i++)
        TMK_TRY(tmk_contrib_need(infer, i, needed[i]));
    TMK_TRY(find_blocks(infer->node, infer->in, &b, infer->diag));
    place_inputs(infer->in, infer->n_in, infer->in[IN_LENGTHS], NULL, in);
    dense.in = in;
    dense.n_in = TMK_GQ_INPUTS;
    TMK_TRY(tmk_infer_group_query(&dense));
    TMK_TRY(check_total(infer->in, infer->diag));
    tmk_infer_put(infer, OUT_KEY, TMK_FLOAT32, &infer->in[IN_PAST_KEY]->shape);
    return tmk_infer_set(infer, OUT_VALUE, TMK_FLOAT32, &infer->in[IN_PAST_VALUE]->shape);
}

/* What is added to the scores of one query at `position`: 0 where the table names the block. */
static enum tmk_status mask_row(const struct tmk_run *run, const struct blocks *b, size_t layout,
                                int64_t position, int64_t total, float *row) {
    const int32_t *ends = (const int32_t *)run->in[IN_ROWS]->data + layout * (b->rows + 1),
                  *columns = (const int32_t *)run->in[IN_COLUMNS]->data + layout * b->columns;
    const int64_t block = position / b->size;
    for (int64_t i = 0; i < total; i++)
        row[i] = -INFINITY;
    if (block >= (int64_t)b->rows)
        return tmk_fail(run->diag, TMK_RANGE, "position %lld is beyond the table of %zu blocks",
                        (long long)position, b->rows);
    if (ends[block] < 0 || ends[block] > ends[block + 1] || (size_t)ends[block + 1] > b->columns)
        return tmk_fail(run->diag, TMK_RANGE, "block_row_indices has %d to %d for %zu entries",
                        (int)ends[block], (int)ends[block + 1], b->columns);
    for (int32_t i = ends[block]; i < ends[block + 1]; i++)
        if (columns[i] >= 0 && columns[i] <= (total - 1) / b->size) /* others hold no key */
            for (int64_t k = 0; k < b->size && columns[i] * b->size + k < total; k++)
                row[columns[i] * b->size + k] = 0;
    return TMK_OK;
}

static enum tmk_status run_sparse(struct tmk_run *run) {
    const struct tmk_tensor *in[TMK_GQ_INPUTS], *given = run->in[IN_LENGTHS];
    const struct tmk_shape *q = &run->in[IN_QUERY]->shape;
    struct tmk_tensor lengths = {0}, bias = {0};
    struct tmk_run dense = *run;
    struct blocks b;
    TMK_TRY(find_blocks(run->node, run->in, &b, run->diag));
    TMK_TRY(check_total(run->in, run->diag));
    const int64_t total = *(const int32_t *)run->in[IN_TOTAL]->data, queries = q->dim[1],
                  heads = b.layouts == 1 ? 1 : tmk_node_int(run->node, "num_heads", 1);
    const struct tmk_shape shape = {4, {q->dim[0], heads, queries, total}};
    int32_t *last = tmk_scratch(run, (size_t)q->dim[0], sizeof *last);
    float *mask;
    TMK_TRY_ALLOC(last, run->diag);
    TMK_TRY(tmk_scratch_floats(run, (size_t)(q->dim[0] * heads), (size_t)queries, (size_t)total,
                               &mask));
    for (size_t i = 0; i < (size_t)q->dim[0]; i++)
        last[i] = (int32_t)((uint32_t)((const int32_t *)given->data)[i] - 1);
    for (int64_t i = 0; i < q->dim[0] * heads * queries; i++) {
        const int64_t sample = i / (heads * queries), row = i % queries,
                      before = queries == total ? 0 : (int64_t)last[sample] + 1 - queries;
        const size_t layout = (size_t)(i / queries % heads) % b.layouts;
        if (before >= 0) /* others are refused with the lengths */
            TMK_TRY(mask_row(run, &b, layout, before + row, total, mask + i * total));
    }
    tmk_tensor_borrow(&lengths, TMK_INT32, &given->shape, last);
    tmk_tensor_borrow(&bias, TMK_FLOAT32, &shape, mask);
    place_inputs(run->in, run->n_in, &lengths, &bias, in);
    dense.in = in;
    dense.n_in = TMK_GQ_INPUTS;
    return tmk_run_group_query(&dense);
}

const struct tmk_op tmk_ops_contrib_sparse[] = {
    {TMK_OP_CONTRIB("SparseAttention"), TMK_OP_COUNTS(1, 11, 1, 3), .flags = TMK_OP_CHECKS,
     .channel = TMK_CHANNEL_LAST,
     .attrs = "do_rotary:int kv_num_heads:int! num_heads:int! rotary_interleaved:int scale:float "
              "sparse_block_size:int!",
     .inner = TMK_GROUP_QUERY_INNER, .has_inner = tmk_group_query_has_inner, .infer = infer_sparse,
     .run = run_sparse, .cost = tmk_cost_attention},
    {NULL}};
