/* SPDX-License-Identifier: Apache-2.0 */
/* LayerNormalization and RMSNormalization: statistics over the trailing axes. `stash_type` names
 * the precision of the first stage; ours is always double. */
#include <math.h>
#include <string.h>

#include "ops/contrib.h"
#include "ops/elementwise.h"
#include "ops/kernel.h"
#include "ops/ops.h"
#include "ops/quantized.h"
#include "ops/vmath.h"

struct layer_norm {
    const struct tmk_shape *shape; /* of x and y */
    int32_t axis;                  /* statistics run over this axis and those after it */
    const float *x;
    const struct tmk_tensor *scale, *bias; /* broadcast to `shape`; bias may be NULL */
    double epsilon;
    bool centred;            /* false: the mean counts as 0 */
    float *y;                /* may be x, or NULL */
    float *means, *inverses; /* one an index before `axis`; or NULL */
};

/* TMK_TYPE or TMK_SHAPE unless the part (may be NULL) is float32 and broadcasts to x. */
static enum tmk_status layer_norm_check(const struct tmk_tensor *part, const struct tmk_shape *x,
                                        const char *what, struct tmk_diag *diag) {
    struct tmk_shape both;
    if (!part)
        return TMK_OK;
    TMK_TRY(tmk_want_dtype(part, TMK_FLOAT32, what, diag));
    TMK_TRY(tmk_broadcast(&part->shape, x, &both, diag));
    if (!tmk_shape_equal(&both, x))
        return tmk_fail(diag, TMK_SHAPE, "input '%s' is %s, which does not broadcast to %s", what,
                        TMK_SHAPE_TEXT(&part->shape), TMK_SHAPE_TEXT(x));
    return TMK_OK;
}

static enum tmk_status infer_layer_norm(struct tmk_infer *infer) {
    const struct tmk_shape *x = &infer->in[0]->shape;
    int32_t axis;
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_FLOAT32, "X", infer->diag));
    TMK_TRY(tmk_axis(tmk_node_int(infer->node, "axis", -1), x->rank, &axis, infer->diag));
    TMK_TRY(layer_norm_check(infer->in[1], x, "scale", infer->diag));
    TMK_TRY(layer_norm_check(tmk_infer_in(infer, 2), x, "B", infer->diag));
    struct tmk_shape moments = *x;
    for (int32_t i = axis; i < x->rank; i++)
        moments.dim[i] = 1;
    tmk_infer_put(infer, 0, TMK_FLOAT32, x);
    tmk_infer_put(infer, 1, TMK_FLOAT32, &moments);
    return tmk_infer_set(infer, 2, TMK_FLOAT32, &moments);
}

/* A scale or bias, spread over one row of the input at a time. */
struct part {
    const float *data;
    int64_t stride[TMK_MAX_RANK];
    bool varies; /* from row to row */
    float *row;
};

static enum tmk_status part_init(struct tmk_run *run, const struct tmk_tensor *tensor,
                                 const struct tmk_shape *x, int32_t axis, struct part *part) {
    *part = (struct part){.data = tensor->data};
    tmk_broadcast_strides(&tensor->shape, x, part->stride);
    for (int32_t i = 0; i < axis; i++)
        part->varies |= part->stride[i] != 0;
    part->row = run->scratch(run->context, tmk_shape_product(x, axis, x->rank) * sizeof *part->row);
    return part->row ? TMK_OK : tmk_nomem(run->diag);
}

static void part_fill(struct part *part, const struct tmk_shape *x, int32_t axis, size_t row,
                      size_t width) {
    if (row > 0 && !part->varies)
        return;
    for (size_t j = 0; j < width; j++) {
        size_t rest = row * width + j;
        int64_t at = 0;
        for (int32_t i = x->rank - 1; i >= (part->varies ? 0 : axis); i--) {
            at += (int64_t)(rest % (size_t)x->dim[i]) * part->stride[i];
            rest /= (size_t)x->dim[i];
        }
        part->row[j] = part->data[at];
    }
}

/* y = (x - mean) / sqrt(variance + epsilon) * scale + bias. Scratch from `run`. */
static enum tmk_status layer_norm(struct tmk_run *run, const struct layer_norm *norm) {
    const struct tmk_shape *shape = norm->shape;
    int32_t axis = norm->axis;
    size_t rows = tmk_shape_product(shape, 0, axis),
           width = tmk_shape_product(shape, axis, shape->rank);
    struct part scale, bias = {0};
    TMK_TRY(part_init(run, norm->scale, shape, axis, &scale));
    if (norm->bias)
        TMK_TRY(part_init(run, norm->bias, shape, axis, &bias));
    const float *x = norm->x;
    for (size_t r = 0; r < rows; r++, x += width) {
        double mean = 0, variance;
        if (norm->centred)
            mean = tmk_vsum(x, width) / (double)width;
        variance = tmk_vsum_deviations(x, mean, width) / (double)width;
        double inverse = 1 / sqrt(variance + norm->epsilon);
        if (norm->means)
            norm->means[r] = (float)mean;
        if (norm->inverses)
            norm->inverses[r] = (float)inverse;
        if (!norm->y)
            continue;
        float centre = (float)mean, factor = (float)inverse, *to = norm->y + r * width;
        part_fill(&scale, shape, axis, r, width);
        if (norm->bias)
            part_fill(&bias, shape, axis, r, width);
        tmk_vnormalize(x, centre, factor, scale.row, norm->bias ? bias.row : NULL, to, width);
    }
    return TMK_OK;
}

static enum tmk_status run_layer_norm(struct tmk_run *run) {
    struct layer_norm norm = {
        .shape = &run->in[0]->shape,
        .x = run->in[0]->data,
        .scale = run->in[1],
        .bias = tmk_run_in(run, 2),
        .epsilon = (double)tmk_node_float(run->node, "epsilon", 1e-5f),
        .centred = !run->node->row->variant,
        .y = tmk_run_elements(run, 0),
        .means = tmk_run_elements(run, 1),
        .inverses = tmk_run_elements(run, 2),
    };
    TMK_TRY(tmk_axis(tmk_node_int(run->node, "axis", -1), norm.shape->rank, &norm.axis, run->diag));
    return layer_norm(run, &norm);
}

static const char layer_norm_attrs[] = "axis:int epsilon:float stash_type:int";

/* Layer normalisation with what stands before it inside: SkipLayerNormalization,
 * SkipSimplifiedLayerNormalization, EmbedLayerNormalization; and SimplifiedLayerNormalization,
 * which ONNX Runtime writes in its own domain and in ONNX's. "Simplified": no mean is taken off. */

TMK_ROW2(add_row, float, float, float, x + y)

/* The shape with 1 for the last axis. */
static struct tmk_shape moments_of(const struct tmk_shape *x) {
    struct tmk_shape shape = *x;
    shape.dim[shape.rank - 1] = 1;
    return shape;
}

static double epsilon_of(const struct tmk_node *node, float otherwise) {
    return (double)tmk_node_float(node, "epsilon", otherwise);
}

/* ---- SimplifiedLayerNormalization ---- */

static enum tmk_status run_simplified(struct tmk_run *run) {
    struct layer_norm norm = {.shape = &run->in[0]->shape,
                              .x = run->in[0]->data,
                              .scale = run->in[1],
                              .epsilon = epsilon_of(run->node, 1e-5f),
                              .y = tmk_run_elements(run, 0),
                              .inverses = tmk_run_elements(run, 1)};
    TMK_TRY(tmk_axis(tmk_node_int(run->node, "axis", -1), norm.shape->rank, &norm.axis, run->diag));
    return layer_norm(run, &norm);
}

/* ---- SkipLayerNormalization and the simplified one: of input + skip + bias ---- */

enum { OUT_Y, OUT_MEAN, OUT_INVERSE, OUT_SUM };

/* The last one; the simplified operator has no beta before it. */
static uint32_t bias_input(const struct tmk_node *node) {
    return (uint32_t)node->row->max_in - 1;
}

static enum tmk_status infer_skip(struct tmk_infer *infer) {
    const struct tmk_shape *x = &infer->in[0]->shape;
    uint32_t bias = bias_input(infer->node);
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_FLOAT32, "input", infer->diag));
    TMK_TRY(tmk_want_rank(x, 1, infer->diag));
    const struct tmk_shape width = {1, {x->dim[x->rank - 1]}};
    TMK_TRY(layer_norm_check(infer->in[1], x, "skip", infer->diag));
    TMK_TRY(tmk_want_shape(infer->in[2], TMK_FLOAT32, "gamma", &width, infer->diag));
    if (bias == 4)
        TMK_TRY(tmk_want_shape(tmk_infer_in(infer, 3), TMK_FLOAT32, "beta", &width, infer->diag));
    TMK_TRY(tmk_want_shape(tmk_infer_in(infer, bias), TMK_FLOAT32, "bias", &width, infer->diag));
    struct tmk_shape moments = moments_of(x);
    tmk_infer_put(infer, OUT_Y, TMK_FLOAT32, x);
    tmk_infer_put(infer, OUT_MEAN, TMK_FLOAT32, &moments);
    tmk_infer_put(infer, OUT_INVERSE, TMK_FLOAT32, &moments);
    return tmk_infer_set(infer, OUT_SUM, TMK_FLOAT32, x);
}

static enum tmk_status run_skip(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0], *skip = run->in[1];
    uint32_t bias_at = bias_input(run->node);
    const struct tmk_tensor *bias = tmk_run_in(run, bias_at);
    struct tmk_tensor sum = {0}, *wanted = tmk_run_out(run, OUT_SUM);
    float *to = wanted ? wanted->data : run->scratch(run->context, tmk_tensor_bytes(x) + 1);
    if (tmk_tensor_count(x) == 0)
        return TMK_OK;
    TMK_TRY_ALLOC(to, run->diag);
    tmk_tensor_borrow(&sum, TMK_FLOAT32, &x->shape, to);
    tmk_walk2(add_row, x, &x->shape, skip, &skip->shape, &sum);
    if (bias)
        tmk_walk2(add_row, &sum, &sum.shape, bias, &bias->shape, &sum);
    struct layer_norm norm = {.shape = &x->shape,
                              .axis = x->shape.rank - 1,
                              .x = to,
                              .scale = run->in[2],
                              .bias = bias_at == 4 ? tmk_run_in(run, 3) : NULL,
                              .epsilon = epsilon_of(run->node, 1e-12f),
                              .centred = bias_at == 4,
                              .y = tmk_run_elements(run, OUT_Y),
                              .means = tmk_run_elements(run, OUT_MEAN),
                              .inverses = tmk_run_elements(run, OUT_INVERSE)};
    if (norm.means && !norm.centred)
        memset(norm.means, 0, tmk_tensor_bytes(tmk_run_out(run, OUT_MEAN)));
    return layer_norm(run, &norm);
}

/* ---- EmbedLayerNormalization: of the sum of two or three embeddings; with Q, all weights are in
 * codes ---- */

enum {
    IN_IDS,
    IN_SEGMENTS,
    IN_WORDS,
    IN_POSITIONS,
    IN_SEGMENT_TABLE,
    IN_GAMMA,
    IN_BETA,
    IN_MASK,
    IN_POSITION_IDS,
    /* in codes, without position_ids: scales of words, positions, segments, gamma, beta; then
     * their zero points */
    IN_SCALES = IN_POSITION_IDS,
    CODED = 5,
    IN_ZEROS = IN_SCALES + CODED
};
enum { OUT_EMBEDDED, OUT_MASK_INDEX, OUT_EMBEDDING_SUM };

/* An embedding's rows, and which of them each token takes. */
struct table {
    const char *what;
    const struct tmk_tensor *rows, *ids;   /* rows: NULL, no such table; ids: NULL, by position */
    const struct tmk_tensor *scale, *zero; /* of the rows' codes; NULL: they are floats */
};

/* Weights are in codes. */
static bool is_coded(const struct tmk_node *node) {
    return node->row->variant;
}

static void list_tables(const struct tmk_node *node, const struct tmk_tensor *const *in, uint32_t n,
                        struct table out[3]) {
    const bool coded = is_coded(node);
    out[0] = (struct table){"input_ids", in[IN_WORDS], in[IN_IDS], NULL, NULL};
    out[1] = (struct table){"position_ids", in[IN_POSITIONS],
                            coded ? NULL : tmk_operand(in, n, IN_POSITION_IDS), NULL, NULL};
    out[2] = (struct table){"segment_ids", in[IN_SEGMENT_TABLE], in[IN_SEGMENTS], NULL, NULL};
    for (uint32_t i = 0; i < 3 && coded; i++) {
        out[i].scale = tmk_operand(in, n, IN_SCALES + i);
        out[i].zero = tmk_operand(in, n, IN_ZEROS + i);
    }
}

/* TMK_GRAPH, TMK_TYPE or TMK_SHAPE unless each weight that is there is of 8 bits, with a scale and
 * a zero point. */
static enum tmk_status check_codes(const struct tmk_infer *infer) {
    for (uint32_t i = 0; i < CODED; i++) {
        const struct tmk_tensor *codes = infer->in[IN_WORDS + i],
                                *zero = tmk_infer_in(infer, IN_ZEROS + i);
        if (!codes)
            continue;
        TMK_TRY(tmk_contrib_need(infer, IN_SCALES + i, "a scale"));
        TMK_TRY(tmk_contrib_need(infer, IN_ZEROS + i, "a zero point"));
        TMK_TRY(tmk_want_quantized(codes, zero, "a weight", infer->diag));
        TMK_TRY(tmk_want_scalar(infer->in[IN_SCALES + i], TMK_FLOAT32, "a scale", infer->diag));
        TMK_TRY(tmk_want_scalar(zero, TMK_UNDEFINED, "a zero point", infer->diag));
    }
    return TMK_OK;
}

/* y (+)= n elements of a weight from `first` on. */
static void add_elements(const struct table *t, size_t first, size_t n, float *y) {
    if (!t->scale) {
        add_row(n, y, true, (const float *)t->rows->data + first, true, y);
        return;
    }
    const float scale = *(const float *)t->scale->data;
    const int32_t zero = tmk_quantized_at(t->zero, 0);
    for (size_t j = 0; j < n; j++)
        y[j] += (float)(tmk_quantized_at(t->rows, first + j) - zero) * scale;
}

/* Gamma or beta as floats. */
static enum tmk_status take_vector(struct tmk_run *run, uint32_t input, struct tmk_tensor *out) {
    const struct tmk_tensor *given = run->in[input];
    const size_t n = tmk_tensor_count(given);
    tmk_tensor_borrow(out, TMK_FLOAT32, &given->shape, given->data);
    if (!is_coded(run->node))
        return TMK_OK;
    const uint32_t i = input - IN_WORDS;
    const struct table codes = {"", given, NULL, run->in[IN_SCALES + i], run->in[IN_ZEROS + i]};
    float *values = tmk_scratch(run, n, sizeof *values);
    TMK_TRY_ALLOC(values, run->diag);
    memset(values, 0, n * sizeof *values);
    add_elements(&codes, 0, n, values);
    tmk_tensor_borrow(out, TMK_FLOAT32, &given->shape, values);
    return TMK_OK;
}

static enum tmk_status want_tokens(const struct tmk_tensor *ids, const struct tmk_shape *shape,
                                   bool shared, const char *what, struct tmk_diag *diag) {
    const bool is_shared = shared && ids && ids->shape.rank == 2 && ids->shape.dim[0] == 1;
    return tmk_want_shape(ids, TMK_INT32, what,
                          &(struct tmk_shape){2, {is_shared ? 1 : shape->dim[0], shape->dim[1]}},
                          diag);
}

static enum tmk_status infer_embed(struct tmk_infer *infer) {
    const struct tmk_shape *ids = &infer->in[IN_IDS]->shape;
    struct table tables[3];
    TMK_TRY(tmk_contrib_need(infer, IN_WORDS, "word_embedding"));
    TMK_TRY(tmk_contrib_need(infer, IN_POSITIONS, "position_embedding"));
    TMK_TRY(tmk_contrib_need(infer, IN_GAMMA, "gamma"));
    TMK_TRY(tmk_contrib_need(infer, IN_BETA, "beta"));
    const bool coded = is_coded(infer->node);
    if (coded)
        TMK_TRY(check_codes(infer));
    const struct tmk_tensor *words = infer->in[IN_WORDS];
    if (ids->rank != 2 || words->shape.rank != 2)
        return tmk_fail(infer->diag, TMK_SHAPE, "input_ids and word_embedding have rank %d and %d",
                        (int)ids->rank, (int)words->shape.rank);
    if (!infer->in[IN_SEGMENT_TABLE] != !infer->in[IN_SEGMENTS])
        return tmk_fail(infer->diag, TMK_GRAPH,
                        "one of segment_ids and segment_embedding without the other");
    int64_t width = words->shape.dim[1];
    list_tables(infer->node, infer->in, infer->n_in, tables);
    for (size_t i = 0; i < TMK_COUNT(tables); i++) {
        const struct tmk_tensor *rows = tables[i].rows;
        TMK_TRY(want_tokens(tables[i].ids, ids, i == 1, tables[i].what, infer->diag));
        TMK_TRY(tmk_want_shape(rows, coded && rows ? rows->dtype : TMK_FLOAT32, "an embedding",
                               &(struct tmk_shape){2, {-1, width}}, infer->diag));
    }
    TMK_TRY(want_tokens(tmk_infer_in(infer, IN_MASK), ids, false, "mask", infer->diag));
    for (uint32_t i = IN_GAMMA; i <= IN_BETA; i++)
        TMK_TRY(tmk_want_shape(infer->in[i], coded ? infer->in[i]->dtype : TMK_FLOAT32,
                               i == IN_GAMMA ? "gamma" : "beta", &(struct tmk_shape){1, {width}},
                               infer->diag));
    struct tmk_shape y = {3, {ids->dim[0], ids->dim[1], width}}, lengths = {1, {ids->dim[0]}};
    tmk_infer_put(infer, OUT_EMBEDDED, TMK_FLOAT32, &y);
    tmk_infer_put(infer, OUT_MASK_INDEX, TMK_INT32, &lengths);
    return tmk_infer_set(infer, OUT_EMBEDDING_SUM, TMK_FLOAT32, &y);
}

/* How many tokens of each sample the mask leaves; 0 without one. */
static void count_tokens(const struct tmk_run *run, size_t batch, size_t length, int32_t *out) {
    const struct tmk_tensor *mask = tmk_run_in(run, IN_MASK);
    for (size_t b = 0; b < batch; b++) {
        out[b] = 0;
        for (size_t i = 0; mask && i < length; i++)
            out[b] += ((const int32_t *)mask->data)[b * length + i] == 1;
    }
}

static enum tmk_status run_embed(struct tmk_run *run) {
    const struct tmk_shape *ids = &run->in[IN_IDS]->shape;
    size_t batch = (size_t)ids->dim[0], length = (size_t)ids->dim[1],
           width = (size_t)run->in[IN_WORDS]->shape.dim[1];
    struct tmk_tensor *y = tmk_run_out(run, OUT_EMBEDDED),
                      *counts = tmk_run_out(run, OUT_MASK_INDEX),
                      *sums = tmk_run_out(run, OUT_EMBEDDING_SUM);
    struct table tables[3];
    if (counts)
        count_tokens(run, batch, length, counts->data);
    list_tables(run->node, run->in, run->n_in, tables);
    float *sum = sums ? sums->data : tmk_scratch(run, batch * length, width * sizeof(float));
    TMK_TRY_ALLOC(sum, run->diag);
    memset(sum, 0, batch * length * width * sizeof *sum);
    for (size_t i = 0; i < batch * length; i++)
        for (size_t t = 0; t < TMK_COUNT(tables); t++) {
            const struct table *table = &tables[t];
            if (!table->rows)
                continue;
            int64_t row = (int64_t)(i % length), rows = table->rows->shape.dim[0];
            if (table->ids)
                row = ((const int32_t *)
                           table->ids->data)[table->ids->shape.dim[0] == 1 ? i % length : i];
            if (row < 0 || row >= rows)
                return tmk_fail(run->diag, TMK_RANGE, "%s has %lld of %lld rows", table->what,
                                (long long)row, (long long)rows);
            add_elements(table, (size_t)row * width, width, sum + i * width);
        }
    if (batch * length * width == 0)
        return TMK_OK;
    struct tmk_tensor gamma = {0}, beta = {0};
    TMK_TRY(take_vector(run, IN_GAMMA, &gamma));
    TMK_TRY(take_vector(run, IN_BETA, &beta));
    struct tmk_shape shape = {3, {ids->dim[0], ids->dim[1], (int64_t)width}};
    struct layer_norm norm = {.shape = &shape,
                              .axis = 2,
                              .x = sum,
                              .scale = &gamma,
                              .bias = &beta,
                              .epsilon = epsilon_of(run->node, 1e-12f),
                              .centred = true,
                              .y = y ? y->data : NULL};
    return layer_norm(run, &norm);
}

/* ---- rows ---- */

static const char simplified_attrs[] = "axis:int epsilon:float stash_type:int";
static const char skip_attrs[] = "epsilon:float";

const struct tmk_op tmk_ops_layer_norm[] = {
    {TMK_OP_ONNX("LayerNormalization", 17, INT32_MAX), TMK_OP_COUNTS(2, 3, 1, 3),
     .flags = TMK_OP_INPLACE, .channel = TMK_CHANNEL_LAST, .attrs = layer_norm_attrs,
     .infer = infer_layer_norm, .run = run_layer_norm},
    /* ONNX Runtime writes the operator into models of older operator sets too. */
    {TMK_OP_ONNX("LayerNormalization", 1, 16), TMK_OP_COUNTS(2, 3, 1, 3), .flags = TMK_OP_INPLACE,
     .channel = TMK_CHANNEL_LAST, .attrs = layer_norm_attrs, .infer = infer_layer_norm,
     .run = run_layer_norm},
    {TMK_OP_ONNX("RMSNormalization", 23, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1),
     .flags = TMK_OP_INPLACE, .channel = TMK_CHANNEL_LAST, .attrs = layer_norm_attrs,
     .variant = true /* no mean is taken off */, .infer = infer_layer_norm, .run = run_layer_norm},
    {TMK_OP_ONNX("SimplifiedLayerNormalization", 1, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 2),
     .flags = TMK_OP_INPLACE, .channel = TMK_CHANNEL_LAST, .attrs = simplified_attrs,
     .infer = infer_layer_norm, .run = run_simplified},
    {TMK_OP_CONTRIB("SimplifiedLayerNormalization"), TMK_OP_COUNTS(2, 2, 1, 2),
     .flags = TMK_OP_INPLACE, .channel = TMK_CHANNEL_LAST, .attrs = simplified_attrs,
     .infer = infer_layer_norm, .run = run_simplified},
    {TMK_OP_CONTRIB("SkipLayerNormalization"), TMK_OP_COUNTS(3, 5, 1, 4),
     .channel = TMK_CHANNEL_LAST, .attrs = skip_attrs, .inner = "input_skip_bias_sum:3",
     .infer = infer_skip, .run = run_skip},
    {TMK_OP_CONTRIB("SkipSimplifiedLayerNormalization"), TMK_OP_COUNTS(3, 4, 1, 4),
     .channel = TMK_CHANNEL_LAST, .attrs = skip_attrs, .inner = "input_skip_bias_sum:3",
     .infer = infer_skip, .run = run_skip},
    {TMK_OP_CONTRIB("EmbedLayerNormalization"), TMK_OP_COUNTS(1, 9, 1, 3), .flags = TMK_OP_CHECKS,
     .channel = TMK_CHANNEL_LAST, .attrs = "epsilon:float mask_index_type:int",
     .inner = "embedding_sum:2", .infer = infer_embed, .run = run_embed},
    {TMK_OP_CONTRIB("QEmbedLayerNormalization"), TMK_OP_COUNTS(1, 18, 1, 2), .flags = TMK_OP_CHECKS,
     .channel = TMK_CHANNEL_LAST, .attrs = "epsilon:float", .variant = true /* in codes */,
     .infer = infer_embed, .run = run_embed},
    {NULL}};
