/* SPDX-License-Identifier: Apache-2.0 */
/* RandomUniform, RandomNormal, their ...Like, Bernoulli, Multinomial.
 *
 * There is no generator with a state: the number that element i of a node's output is drawn by is a
 * hash of the node's key and i. So a node gives the same bits in every run, on every thread, in
 * every batch of the same shape; each batch, and each turn of a loop, sees the same noise.
 *
 * The key is the attribute `seed`, bit for bit, where there is one; nodes of one seed draw the same
 * numbers. Without it the key is a fixed number and what the graph says of the output's computation
 * (its fingerprint, and its ordinal among equal ones), so that nodes draw numbers of their own, and
 * the same ones whenever the model is read. No other program draws these numbers.
 *
 * The hash is SplitMix64's: G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number
 * generators", OOPSLA 2014. Normal numbers come from two uniform ones: G. E. P. Box, M. E. Muller,
 * "A note on the generation of random normal deviates", Ann. Math. Statist. 29, 1958. */
#include <math.h>

#include "base/bits.h"
#include "ops/elementwise.h"
#include "ops/kernel.h"
#include "ops/move.h"

static const uint64_t golden = 0x9e3779b97f4a7c15u, without_seed = 0x7469646d61726b;

static uint64_t mix_bits(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t key_of(const struct tmk_node *node) {
    if (tmk_node_attr(node, "seed"))
        return mix_bits(golden + tmk_bits_of_float(tmk_node_float(node, "seed", 0)));
    const struct tmk_value *output = node->outputs[0];
    uint64_t key = mix_bits(golden + without_seed);
    return output ? mix_bits(mix_bits(key + output->fingerprint) + output->ordinal) : key;
}

/* Number `i` of a key, 0 <= u < 1 in steps of 2^-53. */
static double draw_uniform(uint64_t key, uint64_t i) {
    return (double)(mix_bits(key + (i + 1) * golden) >> 11) * 0x1p-53;
}

/* ---- types and shapes ---- */

/* The type that attribute `dtype` names, as it is held; `otherwise` where it is absent. */
static enum tmk_status read_dtype(const struct tmk_node *node, enum tmk_dtype otherwise,
                                  enum tmk_dtype *out, struct tmk_diag *diag) {
    int64_t asked = tmk_node_int(node, "dtype", otherwise);
    if (asked <= TMK_UNDEFINED || asked >= TMK_N_DTYPES)
        return tmk_fail(diag, TMK_RANGE, "attribute 'dtype' is %lld, which is no type",
                        (long long)asked);
    *out = tmk_held_dtype((enum tmk_dtype)asked);
    return TMK_OK;
}

static enum tmk_status want_float(enum tmk_dtype dtype, struct tmk_diag *diag) {
    if (dtype == TMK_FLOAT32)
        return TMK_OK;
    return tmk_fail(diag, TMK_TYPE, "random numbers of type %s are asked for; they are floats",
                    tmk_dtype_name(dtype));
}

static enum tmk_status infer_shape(struct tmk_infer *infer) {
    size_t n;
    const int64_t *dim = tmk_node_ints(infer->node, "shape", &n);
    enum tmk_dtype dtype;
    TMK_TRY(read_dtype(infer->node, TMK_FLOAT32, &dtype, infer->diag));
    TMK_TRY(want_float(dtype, infer->diag));
    if (n > TMK_MAX_RANK)
        return tmk_fail(infer->diag, TMK_RANGE, "attribute 'shape' has %zu dimensions; at most %d",
                        n, TMK_MAX_RANK);
    struct tmk_shape shape = {.rank = (int32_t)n};
    for (size_t i = 0; i < n; i++) {
        shape.dim[i] = dim[i];
        if (dim[i] < 0)
            return tmk_fail(infer->diag, TMK_RANGE, "attribute 'shape' holds %lld",
                            (long long)dim[i]);
    }
    return tmk_infer_set(infer, 0, dtype, &shape);
}

static enum tmk_status infer_like(struct tmk_infer *infer) {
    const struct tmk_tensor *like = infer->in[0];
    enum tmk_dtype dtype;
    TMK_TRY(read_dtype(infer->node, like->dtype, &dtype, infer->diag));
    TMK_TRY(want_float(dtype, infer->diag));
    return tmk_infer_set(infer, 0, dtype, &like->shape);
}

/* ---- uniform and normal ---- */

static enum tmk_status run_uniform(struct tmk_run *run) {
    struct tmk_tensor *y = tmk_run_out(run, 0);
    float low = tmk_node_float(run->node, "low", 0), high = tmk_node_float(run->node, "high", 1);
    uint64_t key = key_of(run->node);
    for (size_t i = 0, n = y ? tmk_tensor_count(y) : 0; i < n; i++) {
        double u = draw_uniform(key, i);
        ((float *)y->data)[i] = (float)((double)low * (1 - u) + (double)high * u);
    }
    return TMK_OK;
}

static enum tmk_status run_normal(struct tmk_run *run) {
    struct tmk_tensor *y = tmk_run_out(run, 0);
    float mean = tmk_node_float(run->node, "mean", 0),
          scale = tmk_node_float(run->node, "scale", 1);
    uint64_t key = key_of(run->node);
    for (size_t i = 0, n = y ? tmk_tensor_count(y) : 0; i < n; i++) {
        double radius = sqrt(-2 * log(1 - draw_uniform(key, 2 * i))); /* 1 - u is never 0 */
        double z = radius * cos(2 * 3.14159265358979323846 * draw_uniform(key, 2 * i + 1));
        ((float *)y->data)[i] = (float)((double)mean + (double)scale * z);
    }
    return TMK_OK;
}

/* ---- Bernoulli ---- */

typedef void (*draw_bits)(uint64_t key, size_t n, const float *p, void *y);

#define BERNOULLI(op, dtype, T, U)                                                                 \
    static void bernoulli_##dtype(uint64_t key, size_t n, const float *p, void *py) {              \
        for (size_t i = 0; i < n; i++)                                                             \
            ((T *)py)[i] = (T)(draw_uniform(key, i) < (double)p[i]);                               \
    }
TMK_EACH_NUMBER(BERNOULLI, )
TMK_EACH_BOOL(BERNOULLI, )
#define BERNOULLI_ENTRY(op, dtype, T, U) [TMK_##dtype] = bernoulli_##dtype,
static const draw_bits bernoullis[TMK_DTYPES] = {TMK_EACH_NUMBER(BERNOULLI_ENTRY, )
                                                     TMK_EACH_BOOL(BERNOULLI_ENTRY, )};

static enum tmk_status infer_bernoulli(struct tmk_infer *infer) {
    const struct tmk_tensor *p = infer->in[0];
    enum tmk_dtype dtype;
    TMK_TRY(tmk_want_dtype(p, TMK_FLOAT32, "the input", infer->diag));
    TMK_TRY(read_dtype(infer->node, p->dtype, &dtype, infer->diag));
    if (!bernoullis[dtype])
        return tmk_fail(infer->diag, TMK_TYPE, "attribute 'dtype' asks for %s",
                        tmk_dtype_name(dtype));
    return tmk_infer_set(infer, 0, dtype, &p->shape);
}

static enum tmk_status run_bernoulli(struct tmk_run *run) {
    const float *p = run->in[0]->data;
    struct tmk_tensor *y = tmk_run_out(run, 0);
    size_t n = y ? tmk_tensor_count(y) : 0;
    for (size_t i = 0; i < n; i++)
        if (!(p[i] >= 0 && p[i] <= 1))
            return tmk_fail(run->diag, TMK_RANGE,
                            "element %zu of the input is %g, not a probability", i, (double)p[i]);
    if (n)
        bernoullis[y->dtype](key_of(run->node), n, p, y->data);
    return TMK_OK;
}

/* ---- Multinomial ---- */

static enum tmk_status infer_multinomial(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[0];
    int64_t samples = tmk_node_int(infer->node, "sample_size", 1);
    enum tmk_dtype dtype;
    TMK_TRY(tmk_want_dtype(x, TMK_FLOAT32, "the input", infer->diag));
    TMK_TRY(read_dtype(infer->node, TMK_INT32, &dtype, infer->diag));
    if (dtype != TMK_INT32 && dtype != TMK_INT64)
        return tmk_fail(infer->diag, TMK_TYPE, "attribute 'dtype' asks for %s",
                        tmk_dtype_name(dtype));
    if (x->shape.rank != 2 || x->shape.dim[1] < 1 || x->shape.dim[1] > INT32_MAX)
        return tmk_fail(infer->diag, TMK_SHAPE, "an input of shape %s is not [batch, classes]",
                        TMK_SHAPE_TEXT(&x->shape));
    if (samples < 1)
        return tmk_fail(infer->diag, TMK_RANGE, "attribute 'sample_size' is %lld",
                        (long long)samples);
    return tmk_infer_set(infer, 0, dtype, &(struct tmk_shape){2, {x->shape.dim[0], samples}});
}

/* Sums of e^(x - the largest x) up to each class; false where they make no distribution. */
static bool accumulate_classes(size_t classes, const float *x, double *sum) {
    float most = x[0];
    double total = 0;
    for (size_t c = 0; c < classes; c++) {
        if (isnan(x[c]))
            return false;
        most = x[c] > most ? x[c] : most;
    }
    for (size_t c = 0; c < classes; c++)
        sum[c] = total += exp((double)x[c] - (double)most);
    return isfinite(total);
}

/* The first class whose sum is above `point`, which is below the last sum. */
static size_t class_at(size_t classes, const double *sum, double point) {
    size_t low = 0, high = classes - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sum[middle] > point)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static enum tmk_status run_multinomial(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0];
    struct tmk_tensor *y = tmk_run_out(run, 0);
    size_t batch = (size_t)x->shape.dim[0], classes = (size_t)x->shape.dim[1],
           samples = (size_t)y->shape.dim[1];
    uint64_t key = key_of(run->node);
    double *sum = run->scratch(run->context, classes * sizeof *sum);
    TMK_TRY_ALLOC(sum, run->diag);
    for (size_t b = 0, i = 0; b < batch; b++) {
        if (!accumulate_classes(classes, (const float *)x->data + b * classes, sum))
            return tmk_fail(run->diag, TMK_RANGE,
                            "row %zu of the input holds NaN or +infinity, or -infinity only", b);
        for (size_t s = 0; s < samples; s++, i++) {
            size_t drawn = class_at(classes, sum, draw_uniform(key, i) * sum[classes - 1]);
            if (y->dtype == TMK_INT64)
                ((int64_t *)y->data)[i] = (int64_t)drawn;
            else
                ((int32_t *)y->data)[i] = (int32_t)drawn;
        }
    }
    return TMK_OK;
}

/* ---- the rows: neither pure nor of shapes only, so nothing is drawn in planning ---- */

#define SEED_AND_TYPE "dtype:int seed:float"
#define UNIFORM_RULES SEED_AND_TYPE " low:float high:float"
#define NORMAL_RULES SEED_AND_TYPE " mean:float scale:float"

/* Dropout for inference: the identity, with a mask of ones. Before operator set 12 ONNX leaves the
 * mask of inference open; it is zeros then, as in ONNX Runtime. From 12 on a node may ask for
 * training; that draws random numbers and is refused, unless its ratio is 0. */

/* The mask: of the input's type before operator set 10. */
static enum tmk_dtype mask_type(const struct tmk_node *node, enum tmk_dtype input) {
    return node->row->since < 10 ? input : TMK_BOOL;
}

static enum tmk_status check_mode(const struct tmk_tensor *ratio, const struct tmk_tensor *training,
                                  struct tmk_diag *diag) {
    if (!training || !training->data || !*(const uint8_t *)training->data)
        return TMK_OK;
    if (ratio && (!ratio->data || *(const float *)ratio->data == 0))
        return TMK_OK;
    return tmk_fail(diag, TMK_UNSUPPORTED,
                    "input 'training_mode' is true; random dropout is not for inference");
}

static enum tmk_status infer_dropout(struct tmk_infer *infer) {
    static const char *const names[] = {"data", "ratio", "training_mode"};
    const struct tmk_tensor *x = infer->in[0];
    TMK_TRY(tmk_want_dtype(x, TMK_FLOAT32, names[0], infer->diag));
    for (uint32_t i = 1; i < TMK_COUNT(names); i++)
        TMK_TRY(tmk_want_scalar(tmk_infer_in(infer, i), i == 1 ? TMK_FLOAT32 : TMK_BOOL, names[i],
                                infer->diag));
    TMK_TRY(check_mode(tmk_infer_in(infer, 1), tmk_infer_in(infer, 2), infer->diag));
    tmk_infer_put(infer, 0, x->dtype, &x->shape);
    return tmk_infer_set(infer, 1, mask_type(infer->node, x->dtype), &x->shape);
}

static enum tmk_status run_dropout(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0];
    struct tmk_tensor *mask = tmk_run_out(run, 1);
    TMK_TRY(check_mode(tmk_run_in(run, 1), tmk_run_in(run, 2), run->diag));
    size_t n = tmk_tensor_count(x);
    bool kept = run->node->row->since >= 12;
    TMK_TRY(tmk_run_view(run));
    for (size_t i = 0; mask && i < n; i++)
        if (mask->dtype == TMK_BOOL)
            ((uint8_t *)mask->data)[i] = kept;
        else
            ((float *)mask->data)[i] = kept;
    return TMK_OK;
}

static const char attrs_7[] = "ratio:float";

const struct tmk_op tmk_ops_random[] = {
    {TMK_OP_ONNX("RandomUniform", 1, INT32_MAX), TMK_OP_COUNTS(0, 0, 1, 1), .flags = TMK_OP_IMPURE,
     .attrs = UNIFORM_RULES " shape:ints!", .infer = infer_shape, .run = run_uniform},
    {TMK_OP_ONNX("RandomNormal", 1, INT32_MAX), TMK_OP_COUNTS(0, 0, 1, 1), .flags = TMK_OP_IMPURE,
     .attrs = NORMAL_RULES " shape:ints!", .infer = infer_shape, .run = run_normal},
    {TMK_OP_ONNX("RandomUniformLike", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .flags = TMK_OP_IMPURE, .channel = TMK_CHANNEL_INHERIT, .attrs = UNIFORM_RULES,
     .infer = infer_like, .run = run_uniform},
    {TMK_OP_ONNX("RandomNormalLike", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .flags = TMK_OP_IMPURE, .channel = TMK_CHANNEL_INHERIT, .attrs = NORMAL_RULES,
     .infer = infer_like, .run = run_normal},
    {TMK_OP_ONNX("Bernoulli", 15, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .flags = TMK_OP_IMPURE,
     .channel = TMK_CHANNEL_INHERIT, .attrs = SEED_AND_TYPE, .infer = infer_bernoulli,
     .run = run_bernoulli},
    {TMK_OP_ONNX("Multinomial", 7, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .flags = TMK_OP_IMPURE,
     .attrs = SEED_AND_TYPE " sample_size:int", .infer = infer_multinomial, .run = run_multinomial},
    {TMK_OP_ONNX("Dropout", 1, 6), TMK_OP_COUNTS(1, 1, 1, 2), .flags = TMK_OP_VIEW,
     .channel = TMK_CHANNEL_INHERIT, .attrs = "consumed_inputs:ints is_test:int ratio:float",
     .infer = infer_dropout, .run = run_dropout},
    {TMK_OP_ONNX("Dropout", 7, 9), TMK_OP_COUNTS(1, 1, 1, 2), .flags = TMK_OP_VIEW,
     .channel = TMK_CHANNEL_INHERIT, .attrs = attrs_7, .infer = infer_dropout, .run = run_dropout},
    {TMK_OP_ONNX("Dropout", 10, 11), TMK_OP_COUNTS(1, 1, 1, 2), .flags = TMK_OP_VIEW,
     .channel = TMK_CHANNEL_INHERIT, .attrs = attrs_7, .infer = infer_dropout, .run = run_dropout},
    {TMK_OP_ONNX("Dropout", 12, INT32_MAX), TMK_OP_COUNTS(1, 3, 1, 2), .flags = TMK_OP_VIEW,
     .channel = TMK_CHANNEL_INHERIT, .attrs = "seed:int", .infer = infer_dropout,
     .run = run_dropout},
    {NULL}};
