/* SPDX-License-Identifier: Apache-2.0 */
/* DecoderMaskedMultiHeadAttention of ONNX Runtime: MultiHeadAttention of one new token. Keys and
 * values are those of an encoder, [B,N,L,H], or new ones, [B,1,N * H], behind the first
 * past_sequence_length rows of a cache, [B,N,room,H], in which they get the next row. Searches with
 * several beams, whose caches follow a table, are refused. */
#include <string.h>

#include "ops/contrib.h"
#include "ops/contrib_multihead.h"
#include "ops/quantized.h"

enum {
    IN_QUERY,
    IN_KEY,
    IN_VALUE,
    IN_MASK,
    IN_ATTENTION_BIAS,
    IN_PAST_KEY,
    IN_PAST_VALUE,
    IN_LENGTH,
    IN_BEAMS,
    IN_TABLE,
    IN_BIAS
};

/* Q, K and V are operands of the node, unless a bias is added to them. */
static bool decoder_has_inner(const struct tmk_node *node, uint32_t output) {
    return output > TMK_MH_INNER_VALUE || (node->n_inputs > IN_BIAS && node->inputs[IN_BIAS]);
}

/* The first rows of the caches. */
struct decoder_past {
    struct tmk_tensor key, value;
    int64_t rows;
    bool is_cross, known; /* known: rows are */
};

/* Shapes only; also that there is one beam, where it is known. */
static enum tmk_status read_past(const struct tmk_node *node, const struct tmk_tensor *const *in,
                                 uint32_t n, struct decoder_past *out, struct tmk_diag *diag) {
    const struct tmk_tensor *key = tmk_operand(in, n, IN_KEY),
                            *past[] = {tmk_operand(in, n, IN_PAST_KEY),
                                       tmk_operand(in, n, IN_PAST_VALUE)},
                            *length = tmk_operand(in, n, IN_LENGTH),
                            *beams = tmk_operand(in, n, IN_BEAMS);
    struct tmk_tensor *rows[] = {&out->key, &out->value};
    *out = (struct decoder_past){.is_cross = key && key->shape.rank == 4, .known = true};
    TMK_TRY(tmk_want_scalar(beams, TMK_INT32, "beam_width", diag));
    if (beams && beams->data && *(const int32_t *)beams->data != 1)
        return tmk_fail(diag, TMK_UNSUPPORTED, "a beam_width of %d is not supported",
                        (int)*(const int32_t *)beams->data);
    if (in[IN_QUERY]->shape.rank != 3 || in[IN_QUERY]->shape.dim[1] != 1 || !key)
        return tmk_fail(diag, TMK_SHAPE,
                        "the query is %s, or there is no key, where one token and "
                        "its key are expected",
                        TMK_SHAPE_TEXT(&in[IN_QUERY]->shape));
    if (out->is_cross)
        return TMK_OK;
    if (!tmk_node_int(node, "past_present_share_buffer", 0) || !past[0] || !past[1] || !length)
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "is supported with a cache that past and present share "
                        "(past_present_share_buffer), and its length");
    TMK_TRY(tmk_want_scalar(length, TMK_INT32, "past_sequence_length", diag));
    out->known = length->data != NULL;
    out->rows = out->known ? *(const int32_t *)length->data : 0;
    for (size_t i = 0; i < 2; i++) {
        struct tmk_shape shape = past[i]->shape;
        TMK_TRY(tmk_want_dtype(past[i], TMK_FLOAT32, "a cache", diag));
        if (shape.rank != 4 || shape.dim[2] < 1 || out->rows < 0 || out->rows >= shape.dim[2])
            return tmk_fail(diag, TMK_SHAPE, "a cache is %s and holds %lld tokens",
                            TMK_SHAPE_TEXT(&shape), (long long)out->rows);
        shape.dim[2] = out->rows;
        tmk_tensor_borrow(rows[i], TMK_FLOAT32, &shape, NULL);
    }
    return TMK_OK;
}

static void place_operands(const struct tmk_tensor *const *in, uint32_t n,
                           const struct decoder_past *past,
                           const struct tmk_tensor *out[TMK_MH_INPUTS]) {
    out[TMK_MH_Q] = in[IN_QUERY];
    out[TMK_MH_K] = tmk_operand(in, n, IN_KEY);
    out[TMK_MH_V] = tmk_operand(in, n, IN_VALUE);
    out[TMK_MH_BIAS] = tmk_operand(in, n, IN_BIAS);
    out[TMK_MH_MASK] = past->known ? tmk_operand(in, n, IN_MASK) : NULL;
    out[TMK_MH_ATTENTION_BIAS] = past->known ? tmk_operand(in, n, IN_ATTENTION_BIAS) : NULL;
    out[TMK_MH_PAST_KEY] = past->is_cross ? NULL : &past->key;
    out[TMK_MH_PAST_VALUE] = past->is_cross ? NULL : &past->value;
}

/* What MultiHeadAttention infers from the same operands. */
static enum tmk_status infer_operands(const struct tmk_node *node,
                                      const struct tmk_tensor *const *in, uint32_t n,
                                      const struct decoder_past *past,
                                      struct tmk_infer_result results[TMK_MH_OUTPUTS],
                                      struct tmk_diag *diag) {
    const struct tmk_tensor *operands[TMK_MH_INPUTS];
    place_operands(in, n, past, operands);
    memset(results, 0, TMK_MH_OUTPUTS * sizeof *results);
    return tmk_infer_multihead(
        &(struct tmk_infer){node, TMK_MH_INPUTS, TMK_MH_OUTPUTS, operands, results, diag});
}

static enum tmk_status infer_decoder(struct tmk_infer *infer) {
    struct tmk_infer_result results[TMK_MH_OUTPUTS];
    struct decoder_past past;
    TMK_TRY(read_past(infer->node, infer->in, infer->n_in, &past, infer->diag));
    TMK_TRY(infer_operands(infer->node, infer->in, infer->n_in, &past, results, infer->diag));
    for (uint32_t i = 0; i < infer->n_out && i < TMK_MH_OUTPUTS; i++) {
        const bool by_keys = i == TMK_MH_PRODUCTS || i > TMK_MH_INNER_VALUE;
        if (past.known || !by_keys)
            infer->out[i] = results[i];
    }
    for (uint32_t i = TMK_MH_KEY; i <= TMK_MH_VALUE && !past.is_cross; i++)
        tmk_infer_put(infer, i, TMK_FLOAT32, &infer->in[IN_PAST_KEY + i - TMK_MH_KEY]->shape);
    return TMK_OK;
}

/* Rows of each head of a cache from one that has room for `from_rows` to one for `to_rows`. */
static void copy_rows(const float *from, size_t from_rows, float *to, size_t to_rows, size_t heads,
                      size_t rows, size_t size) {
    for (size_t h = 0; h < heads && rows > 0 && size > 0; h++)
        memcpy(to + h * to_rows * size, from + h * from_rows * size, rows * size * sizeof *to);
}

/* The rows of the past, and memory for them with the new one. */
static enum tmk_status take_past(struct tmk_run *run, uint32_t input, struct tmk_tensor *rows,
                                 struct tmk_tensor *joined) {
    const struct tmk_tensor *cache = run->in[input];
    const size_t heads = tmk_shape_product(&cache->shape, 0, 2), n = (size_t)rows->shape.dim[2],
                 size = (size_t)cache->shape.dim[3];
    struct tmk_shape shape = rows->shape;
    float *past, *all;
    TMK_TRY(tmk_scratch_floats(run, heads, n, size, &past));
    TMK_TRY(tmk_scratch_floats(run, heads, n + 1, size, &all));
    copy_rows(cache->data, (size_t)cache->shape.dim[2], past, n, heads, n, size);
    shape.dim[2]++;
    tmk_tensor_borrow(joined, TMK_FLOAT32, &shape, all);
    rows->data = past;
    return TMK_OK;
}

static enum tmk_status run_decoder(struct tmk_run *run) {
    const struct tmk_tensor *in[TMK_MH_INPUTS];
    struct tmk_tensor joined[2] = {{0}}, *out[TMK_MAX_OUTPUTS];
    struct tmk_infer_result results[TMK_MH_OUTPUTS];
    struct decoder_past past;
    struct tmk_run all = *run;
    TMK_TRY(read_past(run->node, run->in, run->n_in, &past, run->diag));
    TMK_TRY(infer_operands(run->node, run->in, run->n_in, &past, results, run->diag));
    memcpy(out, run->out, run->n_out * sizeof *out);
    for (uint32_t i = 0; i < 2 && !past.is_cross; i++) {
        TMK_TRY(take_past(run, IN_PAST_KEY + i, i ? &past.value : &past.key, &joined[i]));
        if (run->n_out > TMK_MH_KEY + i)
            out[TMK_MH_KEY + i] = &joined[i];
    }
    place_operands(run->in, run->n_in, &past, in);
    all.in = in;
    all.n_in = TMK_MH_INPUTS;
    all.out = out;
    TMK_TRY(tmk_run_multihead(&all));
    for (uint32_t i = 0; i < 2 && !past.is_cross; i++) {
        const struct tmk_tensor *cache = run->in[IN_PAST_KEY + i];
        float *to = tmk_run_elements(run, TMK_MH_KEY + i);
        if (!to)
            continue;
        memcpy(to, cache->data, tmk_tensor_bytes(cache));
        copy_rows(joined[i].data, (size_t)past.rows + 1, to, (size_t)cache->shape.dim[2],
                  tmk_shape_product(&cache->shape, 0, 2), (size_t)past.rows + 1,
                  (size_t)cache->shape.dim[3]);
    }
    return TMK_OK;
}

const struct tmk_op tmk_ops_contrib_decoder[] = {
    {TMK_OP_CONTRIB("DecoderMaskedMultiHeadAttention"), TMK_OP_COUNTS(1, 11, 1, 4),
     .flags = TMK_OP_CHECKS, .channel = TMK_CHANNEL_LAST,
     .attrs = "mask_filter_value:float num_heads:int! output_qk:int past_present_share_buffer:int "
              "scale:float",
     .inner = TMK_MULTIHEAD_INNER, .has_inner = decoder_has_inner, .infer = infer_decoder,
     .run = run_decoder, .cost = tmk_cost_attention},
    {NULL}};
