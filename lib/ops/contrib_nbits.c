/* SPDX-License-Identifier: Apache-2.0 */
/* Products of ONNX Runtime with a matrix of few bits. Rows are widened a few at a time.
 *
 * MatMulNBits: 2, 4 or 8 bits. B is the transposed matrix [N,K] in blocks of a row: [N, blocks,
 * block_size * bits / 8] bytes, the lowest bits first. Each block has a scale and a zero point;
 * `g_idx` names the block of each of the K columns instead. */
#include <string.h>

#include "ops/contrib.h"
#include "ops/matmul.h"
#include "tensor/shape.h"

enum { IN_A, IN_B, IN_SCALES, IN_ZEROS, IN_GROUPS, IN_BIAS };

struct sizes {
    size_t m, n, k, bits, block, blocks; /* of one row of B */
    size_t row_bytes, zero_bytes;        /* of one row of B, and of its packed zero points */
};

static enum tmk_status check_count(const struct tmk_tensor *x, const char *what, size_t wanted,
                                   struct tmk_diag *diag) {
    size_t count;
    if (tmk_shape_count(&x->shape, &count) && count == wanted)
        return TMK_OK;
    return tmk_fail(diag, TMK_SHAPE, "%s is %s, which does not have %zu elements", what,
                    TMK_SHAPE_TEXT(&x->shape), wanted);
}

/* N and K, and no more. */
static enum tmk_status start_sizes(const struct tmk_node *node, struct sizes *out,
                                   struct tmk_diag *diag) {
    const int64_t n = tmk_node_int(node, "N", 0), k = tmk_node_int(node, "K", 0);
    if (n <= 0 || k <= 0 || n > INT32_MAX || k > INT32_MAX)
        return tmk_fail(diag, TMK_RANGE, "attributes 'N' and 'K' are %lld and %lld", (long long)n,
                        (long long)k);
    *out = (struct sizes){.n = (size_t)n, .k = (size_t)k};
    return TMK_OK;
}

/* Types of the operands that are always there, and the shape of the product. */
static enum tmk_status check_product(struct tmk_infer *infer, const struct sizes *s,
                                     const char *scales, struct tmk_shape *y) {
    const struct tmk_tensor *a = infer->in[IN_A];
    TMK_TRY(tmk_want_dtype(a, TMK_FLOAT32, "A", infer->diag));
    TMK_TRY(tmk_want_dtype(infer->in[IN_B], TMK_UINT8, "B", infer->diag));
    TMK_TRY(tmk_want_dtype(infer->in[IN_SCALES], TMK_FLOAT32, scales, infer->diag));
    if (a->shape.rank < 1 || a->shape.dim[a->shape.rank - 1] != (int64_t)s->k)
        return tmk_fail(infer->diag, TMK_SHAPE, "A is %s, and 'K' is %zu",
                        TMK_SHAPE_TEXT(&a->shape), s->k);
    *y = a->shape;
    y->dim[y->rank - 1] = (int64_t)s->n;
    return TMK_OK;
}

static enum tmk_status find_matrix(const struct tmk_node *node, struct sizes *out,
                                   struct tmk_diag *diag) {
    const int64_t bits = tmk_node_int(node, "bits", 4), block = tmk_node_int(node, "block_size", 0);
    struct sizes s;
    TMK_TRY(start_sizes(node, &s, diag));
    if ((bits != 2 && bits != 4 && bits != 8) || block < 16 || block > 1 << 20 ||
        block & (block - 1))
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "attributes 'bits' %lld and 'block_size' %lld are not supported",
                        (long long)bits, (long long)block);
    if (tmk_node_int(node, "weight_prepacked", 0))
        return tmk_fail(diag, TMK_UNSUPPORTED, "attribute 'weight_prepacked' is not supported");
    s.bits = (size_t)bits;
    s.block = (size_t)block;
    s.blocks = (s.k + s.block - 1) / s.block;
    s.row_bytes = s.blocks * (s.block * s.bits / 8);
    s.zero_bytes = (s.blocks * s.bits + 7) / 8;
    *out = s;
    return TMK_OK;
}

static enum tmk_status infer_nbits(struct tmk_infer *infer) {
    const struct tmk_tensor *zeros = tmk_infer_in(infer, IN_ZEROS),
                            *groups = tmk_infer_in(infer, IN_GROUPS),
                            *bias = tmk_infer_in(infer, IN_BIAS);
    struct tmk_diag *diag = infer->diag;
    struct tmk_shape y;
    struct sizes s;
    TMK_TRY(find_matrix(infer->node, &s, diag));
    TMK_TRY(check_product(infer, &s, "scales", &y));
    TMK_TRY(check_count(infer->in[IN_B], "B", s.n * s.row_bytes, diag));
    TMK_TRY(check_count(infer->in[IN_SCALES], "scales", s.n * s.blocks, diag));
    if (zeros && zeros->dtype == TMK_UINT8) {
        TMK_TRY(check_count(zeros, "zero_points", s.n * s.zero_bytes, diag));
    } else if (zeros) {
        TMK_TRY(tmk_want_dtype(zeros, TMK_FLOAT32, "zero_points", diag));
        TMK_TRY(check_count(zeros, "zero_points", s.n * s.blocks, diag));
    }
    if (groups) {
        TMK_TRY(tmk_want_dtype(groups, TMK_INT32, "g_idx", diag));
        if (check_count(groups, "g_idx", s.blocks * s.block, NULL) != TMK_OK)
            TMK_TRY(check_count(groups, "g_idx", s.k, diag));
    }
    if (bias) {
        TMK_TRY(tmk_want_dtype(bias, TMK_FLOAT32, "bias", diag));
        TMK_TRY(check_count(bias, "bias", s.n, diag));
    }
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &y);
}

static float zero_of(const struct tmk_tensor *zeros, const struct sizes *s, size_t row,
                     size_t block) {
    if (!zeros)
        return (float)(1u << (s->bits - 1));
    if (zeros->dtype == TMK_UINT8)
        return (float)tmk_contrib_code((const uint8_t *)zeros->data + row * s->zero_bytes, block,
                                       s->bits);
    return ((const float *)zeros->data)[row * s->blocks + block];
}

static inline __attribute__((always_inline)) void
widen(const uint8_t *packed, size_t n, size_t bits, float zero, float scale, float *out) {
    const size_t several = 8 / bits; /* in a byte */
    for (size_t i = 0; i < n / several; i++)
        for (size_t j = 0; j < several; j++)
            out[i * several + j] =
                ((float)(int)(packed[i] >> j * bits & ((1u << bits) - 1)) - zero) * scale;
    for (size_t i = n - n % several; i < n; i++)
        out[i] = ((float)tmk_contrib_code(packed, i, bits) - zero) * scale;
}

void tmk_contrib_widen(const uint8_t *packed, size_t n, size_t bits, float zero, float scale,
                       float *out) {
    if (bits == 2)
        widen(packed, n, 2, zero, scale, out);
    else if (bits == 4)
        widen(packed, n, 4, zero, scale, out);
    else
        widen(packed, n, 8, zero, scale, out);
}

static void widen_row(struct tmk_run *run, const struct sizes *s, size_t row, float *out) {
    const uint8_t *codes = (const uint8_t *)run->in[IN_B]->data + row * s->row_bytes;
    const float *scales = (const float *)run->in[IN_SCALES]->data + row * s->blocks;
    const struct tmk_tensor *zeros = tmk_run_in(run, IN_ZEROS),
                            *groups = tmk_run_in(run, IN_GROUPS);
    for (size_t k = 0; groups && k < s->k; k++) {
        const size_t block = (size_t)((const int32_t *)groups->data)[k];
        out[k] = ((float)tmk_contrib_code(codes, k, s->bits) - zero_of(zeros, s, row, block)) *
                 scales[block];
    }
    for (size_t block = 0; !groups && block < s->blocks; block++) {
        const size_t first = block * s->block, left = s->k - first;
        tmk_contrib_widen(codes + first * s->bits / 8, left < s->block ? left : s->block, s->bits,
                          zero_of(zeros, s, row, block), scales[block], out + first);
    }
}

/* y = A times what `widen_of` makes of rows of B, with a bias if there is one. */
static enum tmk_status
multiply_rows(struct tmk_run *run, struct sizes s, const struct tmk_tensor *bias,
              void (*widen_of)(struct tmk_run *, const struct sizes *, size_t row, float *out)) {
    struct tmk_tensor *y = tmk_run_out(run, 0);
    float *rows, *part, *panel;
    if (tmk_tensor_count(y) == 0)
        return TMK_OK;
    s.m = tmk_tensor_count(y) / s.n;
    TMK_TRY(tmk_scratch_floats(run, TMK_GEMM_COLUMNS, (int64_t)s.k, 1, &rows));
    TMK_TRY(tmk_scratch_floats(run, (int64_t)s.m, TMK_GEMM_COLUMNS, 1, &part));
    TMK_TRY(tmk_scratch_floats(run, TMK_GEMM_PANEL / sizeof(float), 1, 1, &panel));
    for (size_t first = 0; first < s.n; first += TMK_GEMM_COLUMNS) {
        const size_t n = s.n - first < TMK_GEMM_COLUMNS ? s.n - first : TMK_GEMM_COLUMNS;
        for (size_t i = 0; i < n; i++)
            widen_of(run, &s, first + i, rows + i * s.k);
        tmk_gemm_transposed(s.m, n, s.k, run->in[IN_A]->data, s.k, rows, s.k, part, panel);
        for (size_t i = 0; i < s.m; i++)
            for (size_t j = 0; j < n; j++)
                ((float *)y->data)[i * s.n + first + j] =
                    part[i * n + j] + (bias ? ((const float *)bias->data)[first + j] : 0);
    }
    return TMK_OK;
}

static enum tmk_status run_nbits(struct tmk_run *run) {
    struct sizes s;
    TMK_TRY(find_matrix(run->node, &s, run->diag));
    const struct tmk_tensor *groups = tmk_run_in(run, IN_GROUPS);
    for (size_t k = 0; groups && k < s.k; k++) {
        const int32_t group = ((const int32_t *)groups->data)[k];
        if (group < 0 || (size_t)group >= s.blocks)
            return tmk_fail(run->diag, TMK_RANGE, "g_idx[%zu] is %d, of %zu blocks", k, (int)group,
                            s.blocks);
    }
    return multiply_rows(run, s, tmk_run_in(run, IN_BIAS), widen_row);
}

static double cost_nbits(const struct tmk_node *node, const struct tmk_tensor *const *in,
                         const struct tmk_tensor *out) {
    (void)out;
    return tmk_cost_count(in[IN_A]) * (double)tmk_node_int(node, "N", 0) * 2;
}

/* MatMulBnb4 of ONNX Runtime: a product with a matrix of 4 bits as bitsandbytes writes it.
 *
 * B is the transposed matrix [N,K], its first code in the high half of a byte. Codes are places in
 * a table; each block of the whole matrix, rows one behind the other, has its largest magnitude. */

static const float tables[2][16] = {
    /* 4-bit floats */
    {0, 0.00520833333f, 0.66666667f, 1, 0.33333333f, 0.5f, 0.16666667f, 0.25f, -0.0f,
     -0.00520833333f, -0.66666667f, -1, -0.33333333f, -0.5f, -0.16666667f, -0.25f},
    /* quantiles of the normal distribution */
    {-1, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
     -0.18477343022823334f, -0.09105003625154495f, 0, 0.07958029955625534f, 0.16093020141124725f,
     0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f,
     0.7229568362236023f, 1}};

static enum tmk_status find_bnb4(const struct tmk_node *node, struct sizes *out,
                                 struct tmk_diag *diag) {
    const int64_t kind = tmk_node_int(node, "quant_type", 0),
                  block = tmk_node_int(node, "block_size", 0);
    TMK_TRY(start_sizes(node, out, diag));
    if ((kind != 0 && kind != 1) || block < 16 || block > 1 << 20 || block & (block - 1))
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "attributes 'quant_type' %lld and 'block_size' %lld are not supported",
                        (long long)kind, (long long)block);
    if (tmk_node_int(node, "training_mode", 0) || !tmk_node_int(node, "transB", 1))
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "attributes 'training_mode' and 'transB' are supported with their defaults "
                        "only");
    out->bits = 4;
    out->block = (size_t)block;
    out->blocks = (out->n * out->k + out->block - 1) / out->block;
    return TMK_OK;
}

static enum tmk_status infer_bnb4(struct tmk_infer *infer) {
    struct tmk_diag *diag = infer->diag;
    struct tmk_shape y;
    struct sizes s;
    TMK_TRY(find_bnb4(infer->node, &s, diag));
    TMK_TRY(check_product(infer, &s, "absmax", &y));
    TMK_TRY(check_count(infer->in[IN_B], "B", (s.n * s.k + 1) / 2, diag));
    TMK_TRY(check_count(infer->in[IN_SCALES], "absmax", s.blocks, diag));
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &y);
}

static void widen_bnb4(struct tmk_run *run, const struct sizes *s, size_t row, float *out) {
    const uint8_t *codes = run->in[IN_B]->data;
    const float *most = run->in[IN_SCALES]->data,
                *table = tables[tmk_node_int(run->node, "quant_type", 0)];
    for (size_t k = 0, at = row * s->k; k < s->k; k++, at++)
        out[k] = table[tmk_contrib_code(codes, at ^ 1, 4)] * most[at / s->block];
}

static enum tmk_status run_bnb4(struct tmk_run *run) {
    struct sizes s;
    TMK_TRY(find_bnb4(run->node, &s, run->diag));
    return multiply_rows(run, s, NULL, widen_bnb4);
}

/* GatherBlockQuantized of ONNX Runtime: rows of a table of codes, as floats.
 *
 * The table has a scale, and may have a zero point, for each block along `quantize_axis`. Codes are
 * int4, uint4, or uint8 that hold 2, 4 or 8 bits, packed along the last axis with the lowest bits
 * first. An index outside the table gives zeros. */

enum { IN_TABLE, IN_INDICES, GATHER_IN_SCALES, GATHER_IN_ZEROS };

struct gather {
    struct tmk_shape table; /* of codes, not of bytes that hold several */
    int32_t gather_axis, block_axis;
    size_t bits, block;
    bool packed; /* uint8 */
};

static enum tmk_status find_gather(const struct tmk_node *node, const struct tmk_tensor *table,
                                   struct gather *out, struct tmk_diag *diag) {
    struct gather g = {.table = table->shape, .packed = table->dtype == TMK_UINT8};
    const int64_t bits = g.packed ? tmk_node_int(node, "bits", 4) : 4,
                  block = tmk_node_int(node, "block_size", 128), rank = g.table.rank;
    int64_t gather = tmk_node_int(node, "gather_axis", 0),
            quantize = tmk_node_int(node, "quantize_axis", 1);
    if (!g.packed && table->dtype != TMK_INT4 && table->dtype != TMK_UINT4)
        return tmk_fail(diag, TMK_UNSUPPORTED, "a table of %s is not supported",
                        tmk_dtype_name(table->dtype));
    if ((bits != 2 && bits != 4 && bits != 8) || block < 16 || block > 1 << 20 ||
        block & (block - 1))
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "attributes 'bits' %lld and 'block_size' %lld are not supported",
                        (long long)bits, (long long)block);
    gather += gather < 0 ? rank : 0;
    quantize += quantize < 0 ? rank : 0;
    if (gather < 0 || gather >= rank || quantize < 0 || quantize >= rank || gather == quantize ||
        (g.packed && gather != 0))
        return tmk_fail(diag, TMK_RANGE,
                        "attributes 'gather_axis' and 'quantize_axis' do not fit %lld axes",
                        (long long)rank);
    g.gather_axis = (int32_t)gather;
    g.block_axis = (int32_t)quantize;
    g.bits = (size_t)bits;
    g.block = (size_t)block;
    if (g.packed && g.table.dim[rank - 1] > INT64_MAX / 4)
        return tmk_fail(diag, TMK_SHAPE, "the table is too large");
    if (g.packed)
        g.table.dim[rank - 1] *= 8 / bits;
    *out = g;
    return TMK_OK;
}

/* Blocks along the axis of the table. */
static struct tmk_shape block_shape(const struct gather *g) {
    struct tmk_shape shape = g->table;
    int64_t *dim = &shape.dim[g->block_axis];
    *dim = *dim / (int64_t)g->block + (*dim % (int64_t)g->block != 0);
    return shape;
}

static enum tmk_status infer_gather(struct tmk_infer *infer) {
    const struct tmk_tensor *zeros = tmk_infer_in(infer, GATHER_IN_ZEROS),
                            *indices = infer->in[IN_INDICES], *scales = infer->in[GATHER_IN_SCALES];
    struct gather g;
    TMK_TRY(find_gather(infer->node, infer->in[IN_TABLE], &g, infer->diag));
    if (indices->dtype != TMK_INT32)
        TMK_TRY(tmk_want_dtype(indices, TMK_INT64, "indices", infer->diag));
    struct tmk_shape blocks = block_shape(&g), y = {.rank = g.table.rank - 1 + indices->shape.rank};
    TMK_TRY(tmk_want_shape(scales, TMK_FLOAT32, "scales", &blocks, infer->diag));
    if (g.packed)
        blocks.dim[blocks.rank - 1] = (blocks.dim[blocks.rank - 1] * (int64_t)g.bits + 7) / 8;
    TMK_TRY(tmk_want_shape(zeros, infer->in[IN_TABLE]->dtype, "zero_points", &blocks, infer->diag));
    if (y.rank > TMK_MAX_RANK)
        return tmk_fail(infer->diag, TMK_SHAPE, "the result has %d axes", y.rank);
    for (int32_t i = 0, to = 0; i < g.table.rank; i++)
        if (i != g.gather_axis)
            y.dim[to++] = g.table.dim[i];
        else
            for (int32_t j = 0; j < indices->shape.rank; j++)
                y.dim[to++] = indices->shape.dim[j];
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &y);
}

/* Element i, counted in codes, of codes in rows of `row` of them. */
static float code_at(const struct tmk_tensor *codes, const struct gather *g, size_t i, size_t row) {
    if (!g->packed)
        return codes->dtype == TMK_INT4 ? (float)((const int8_t *)codes->data)[i]
                                        : (float)((const uint8_t *)codes->data)[i];
    const size_t bytes = (row * g->bits + 7) / 8;
    return (float)tmk_contrib_code((const uint8_t *)codes->data + i / row * bytes, i % row,
                                   g->bits);
}

/* One gathered slice: the table's elements [outer, index, :]. */
static void widen_slice(const struct tmk_run *run, const struct gather *g, size_t outer,
                        size_t index, size_t inner, float *out) {
    const struct tmk_tensor *zeros = tmk_run_in(run, GATHER_IN_ZEROS);
    const struct tmk_shape blocks = block_shape(g), *t = &g->table;
    const size_t last = (size_t)t->dim[t->rank - 1],
                 first = (outer * (size_t)t->dim[g->gather_axis] + index) * inner,
                 after = tmk_shape_product(t, g->block_axis + 1, t->rank),
                 length = (size_t)t->dim[g->block_axis], n = (size_t)blocks.dim[g->block_axis];
    for (size_t i = 0; i < inner; i++) {
        const size_t at = first + i, along = at / after % length,
                     block = (at / after / length * n + along / g->block) * after + at % after;
        float zero = g->packed ? (float)(1u << (g->bits - 1)) : 0;
        if (zeros)
            zero = code_at(zeros, g, block, (size_t)blocks.dim[blocks.rank - 1]);
        out[i] = (code_at(run->in[IN_TABLE], g, at, last) - zero) *
                 ((const float *)run->in[GATHER_IN_SCALES]->data)[block];
    }
}

static enum tmk_status run_gather(struct tmk_run *run) {
    const struct tmk_tensor *indices = run->in[IN_INDICES];
    struct tmk_tensor *y = tmk_run_out(run, 0);
    struct gather g;
    TMK_TRY(find_gather(run->node, run->in[IN_TABLE], &g, run->diag));
    const size_t n = tmk_tensor_count(indices),
                 outer = tmk_shape_product(&g.table, 0, g.gather_axis),
                 inner = tmk_shape_product(&g.table, g.gather_axis + 1, g.table.rank);
    const int64_t size = g.table.dim[g.gather_axis];
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < n; i++) {
            float *out = (float *)y->data + (o * n + i) * inner;
            int64_t index = indices->dtype == TMK_INT32 ? ((const int32_t *)indices->data)[i]
                                                        : ((const int64_t *)indices->data)[i];
            index += index < 0 ? size : 0;
            if (index < 0 || index >= size)
                memset(out, 0, inner * sizeof *out);
            else
                widen_slice(run, &g, o, (size_t)index, inner, out);
        }
    return TMK_OK;
}

const struct tmk_op tmk_ops_contrib_nbits[] = {
    {TMK_OP_CONTRIB("MatMulNBits"), TMK_OP_COUNTS(3, 6, 1, 1), .flags = TMK_OP_CHECKS,
     .channel = TMK_CHANNEL_LAST,
     .attrs = "K:int! N:int! accuracy_level:int bits:int block_size:int! weight_prepacked:int",
     .infer = infer_nbits, .run = run_nbits, .cost = cost_nbits},
    {TMK_OP_CONTRIB("MatMulBnb4"), TMK_OP_COUNTS(3, 3, 1, 1), .channel = TMK_CHANNEL_LAST,
     .attrs = "K:int! N:int! block_size:int! quant_type:int! training_mode:int transB:int",
     .infer = infer_bnb4, .run = run_bnb4, .cost = cost_nbits},
    {TMK_OP_CONTRIB("GatherBlockQuantized"), TMK_OP_COUNTS(3, 4, 1, 1), .channel = TMK_CHANNEL_LAST,
     .attrs = "bits:int block_size:int gather_axis:int quantize_axis:int", .infer = infer_gather,
     .run = run_gather},
    {NULL}};
