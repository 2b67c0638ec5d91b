/* SPDX-License-Identifier: Apache-2.0 */
/* MatMulNBits of ONNX Runtime: a product with a matrix of 2, 4 or 8 bits.
 *
 * B is the transposed matrix [N,K] in blocks of a row: [N, blocks, block_size * bits / 8] bytes,
 * the lowest bits first. Each block has a scale and a zero point; `g_idx` names the block of each
 * of the K columns instead. Rows are widened a few at a time.
 */
#include <string.h>

#include "ops/contrib.h"
#include "ops/contrib_attend.h"
#include "ops/gemm.h"
#include "ops/rows.h"

enum { IN_A, IN_B, IN_SCALES, IN_ZEROS, IN_GROUPS, IN_BIAS };

struct sizes {
    size_t m, n, k, bits, block, blocks; /* of one row of B */
    size_t row_bytes, zero_bytes;        /* of one row of B, and of its packed zero points */
};

static enum tmk_status check_count(const struct tmk_tensor *x, const char *what, size_t wanted,
                                   struct tmk_diag *diag) {
    char text[256];
    size_t count;
    if (tmk_shape_count(&x->shape, &count) && count == wanted)
        return TMK_OK;
    return tmk_fail(diag, TMK_SHAPE, "%s is %s, which does not have %zu elements", what,
                    tmk_shape_text(&x->shape, text, sizeof text), wanted);
}

static enum tmk_status find_matrix(const struct tmk_node *node, struct sizes *out,
                                   struct tmk_diag *diag) {
    const int64_t n = tmk_node_int(node, "N", 0), k = tmk_node_int(node, "K", 0),
                  bits = tmk_node_int(node, "bits", 4), block = tmk_node_int(node, "block_size", 0);
    if (n <= 0 || k <= 0 || n > INT32_MAX || k > INT32_MAX)
        return tmk_fail(diag, TMK_RANGE, "attributes 'N' and 'K' are %lld and %lld", (long long)n,
                        (long long)k);
    if ((bits != 2 && bits != 4 && bits != 8) || block < 16 || block > 1 << 20 ||
        block & (block - 1))
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "attributes 'bits' %lld and 'block_size' %lld are not supported",
                        (long long)bits, (long long)block);
    if (tmk_node_int(node, "weight_prepacked", 0))
        return tmk_fail(diag, TMK_UNSUPPORTED, "attribute 'weight_prepacked' is not supported");
    struct sizes s = {.n = (size_t)n, .k = (size_t)k, .bits = (size_t)bits, .block = (size_t)block};
    s.blocks = (s.k + s.block - 1) / s.block;
    s.row_bytes = s.blocks * (s.block * s.bits / 8);
    s.zero_bytes = (s.blocks * s.bits + 7) / 8;
    *out = s;
    return TMK_OK;
}

static enum tmk_status infer_nbits(struct tmk_infer *infer) {
    const struct tmk_tensor *a = infer->in[IN_A], *zeros = tmk_infer_in(infer, IN_ZEROS),
                            *groups = tmk_infer_in(infer, IN_GROUPS),
                            *bias = tmk_infer_in(infer, IN_BIAS);
    struct tmk_shape y = a->shape;
    struct tmk_diag *diag = infer->diag;
    struct sizes s;
    char text[256];
    TMK_TRY(find_matrix(infer->node, &s, diag));
    TMK_TRY(tmk_want_dtype(a, TMK_FLOAT32, "A", diag));
    TMK_TRY(tmk_want_dtype(infer->in[IN_B], TMK_UINT8, "B", diag));
    TMK_TRY(tmk_want_dtype(infer->in[IN_SCALES], TMK_FLOAT32, "scales", diag));
    if (y.rank < 1 || y.dim[y.rank - 1] != (int64_t)s.k)
        return tmk_fail(diag, TMK_SHAPE, "A is %s, and 'K' is %zu",
                        tmk_shape_text(&a->shape, text, sizeof text), s.k);
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
    y.dim[y.rank - 1] = (int64_t)s.n;
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

static enum tmk_status widen_row(struct tmk_run *run, const struct sizes *s, size_t row,
                                 float *out) {
    const uint8_t *codes = (const uint8_t *)run->in[IN_B]->data + row * s->row_bytes;
    const float *scales = (const float *)run->in[IN_SCALES]->data + row * s->blocks;
    const struct tmk_tensor *zeros = tmk_run_in(run, IN_ZEROS),
                            *groups = tmk_run_in(run, IN_GROUPS);
    const int32_t *group = groups ? groups->data : NULL;
    float zero = 0;
    for (size_t k = 0; k < s->k; k++) {
        size_t block = k / s->block;
        if (group && (group[k] < 0 || (size_t)group[k] >= s->blocks))
            return tmk_fail(run->diag, TMK_RANGE, "g_idx[%zu] is %d, of %zu blocks", k,
                            (int)group[k], s->blocks);
        if (group)
            block = (size_t)group[k];
        if (group || k % s->block == 0)
            zero = zero_of(zeros, s, row, block);
        out[k] = ((float)tmk_contrib_code(codes, k, s->bits) - zero) * scales[block];
    }
    return TMK_OK;
}

static enum tmk_status run_nbits(struct tmk_run *run) {
    struct tmk_tensor *y = tmk_run_out(run, 0);
    const struct tmk_tensor *bias = tmk_run_in(run, IN_BIAS);
    float *rows, *part, *panel;
    struct sizes s;
    TMK_TRY(find_matrix(run->node, &s, run->diag));
    if (!y || tmk_tensor_count(y) == 0)
        return TMK_OK;
    s.m = tmk_tensor_count(y) / s.n;
    TMK_TRY(tmk_scratch_floats(run, TMK_GEMM_COLUMNS, (int64_t)s.k, 1, &rows));
    TMK_TRY(tmk_scratch_floats(run, (int64_t)s.m, TMK_GEMM_COLUMNS, 1, &part));
    TMK_TRY(tmk_scratch_floats(run, TMK_GEMM_PANEL / sizeof(float), 1, 1, &panel));
    for (size_t first = 0; first < s.n; first += TMK_GEMM_COLUMNS) {
        const size_t n = s.n - first < TMK_GEMM_COLUMNS ? s.n - first : TMK_GEMM_COLUMNS;
        for (size_t i = 0; i < n; i++)
            TMK_TRY(widen_row(run, &s, first + i, rows + i * s.k));
        const struct tmk_gemm gemm = {s.m, n, s.k, run->in[IN_A]->data, rows, s.k, 1, 1, s.k, part};
        tmk_gemm(&gemm, panel);
        for (size_t i = 0; i < s.m; i++)
            for (size_t j = 0; j < n; j++)
                ((float *)y->data)[i * s.n + first + j] =
                    part[i * n + j] + (bias ? ((const float *)bias->data)[first + j] : 0);
    }
    return TMK_OK;
}

static double cost_nbits(const struct tmk_node *node, const struct tmk_tensor *const *in,
                         const struct tmk_tensor *out) {
    (void)out;
    return tmk_cost_count(in[IN_A]) * (double)tmk_node_int(node, "N", 0) * 2;
}

const struct tmk_op tmk_ops_contrib_nbits[] = {
    {TMK_OP_CONTRIB("MatMulNBits"), TMK_OP_COUNTS(3, 6, 1, 1), .channel = TMK_CHANNEL_LAST,
     .attrs = "K:int! N:int! accuracy_level:int bits:int block_size:int! weight_prepacked:int",
     .infer = infer_nbits, .run = run_nbits, .cost = cost_nbits},
    {NULL}};
