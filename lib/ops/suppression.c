/* SPDX-License-Identifier: Apache-2.0 */
/* NonMaxSuppression: of boxes that overlap too much only the best one stays. */
#include <math.h>

#include "ops/cost.h"
#include "ops/move.h"
#include "ops/rows.h"

/* Corners in order, whatever the model wrote. */
struct box {
    float low[2], high[2];
};

static struct box box_at(const float *v, bool centred) {
    struct box box;
    for (int i = 0; i < 2; i++) {
        float a = centred ? v[i] - v[2 + i] / 2 : v[i];
        float b = centred ? v[i] + v[2 + i] / 2 : v[2 + i];
        box.low[i] = a < b ? a : b;
        box.high[i] = a < b ? b : a;
    }
    return box;
}

static float box_area(const struct box *box) {
    return (box->high[0] - box->low[0]) * (box->high[1] - box->low[1]);
}

static bool boxes_overlap(const struct box *a, const struct box *b, float threshold) {
    float common = 1.0f;
    for (int i = 0; i < 2; i++) {
        float low = a->low[i] > b->low[i] ? a->low[i] : b->low[i];
        float high = a->high[i] < b->high[i] ? a->high[i] : b->high[i];
        common *= high > low ? high - low : 0.0f;
    }
    float all = box_area(a) + box_area(b) - common;
    return common > 0.0f && all > 0.0f && common / all > threshold;
}

static int better_first(const void *items, size_t x, size_t y) {
    const float *scores = items;
    if (isnan(scores[x]) || isnan(scores[y]))
        return isnan(scores[x]) - isnan(scores[y]);
    return (scores[x] < scores[y]) - (scores[x] > scores[y]);
}

static enum tmk_status want_one(const struct tmk_tensor *in, enum tmk_dtype dtype, const char *what,
                                struct tmk_diag *diag) {
    if (!in)
        return TMK_OK;
    TMK_TRY(tmk_want_dtype(in, dtype, what, diag));
    if (tmk_tensor_count(in) != 1)
        return tmk_fail(diag, TMK_SHAPE, "%s must be one number", what);
    return TMK_OK;
}

static enum tmk_status suppression_infer(struct tmk_infer *infer) {
    char a[256], b[256];
    const struct tmk_shape *boxes = &infer->in[0]->shape, *scores = &infer->in[1]->shape;
    struct tmk_diag *diag = infer->diag;
    int64_t format = tmk_node_int(infer->node, "center_point_box", 0);
    if (format != 0 && format != 1)
        return tmk_fail(diag, TMK_RANGE, "center_point_box is %lld", (long long)format);
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_FLOAT32, "the boxes", diag));
    TMK_TRY(tmk_want_dtype(infer->in[1], TMK_FLOAT32, "the scores", diag));
    if (boxes->rank != 3 || scores->rank != 3 || boxes->dim[2] != 4 ||
        boxes->dim[0] != scores->dim[0] || boxes->dim[1] != scores->dim[2])
        return tmk_fail(diag, TMK_SHAPE, "boxes of shape %s and scores of shape %s do not fit",
                        tmk_shape_text(boxes, a, sizeof a), tmk_shape_text(scores, b, sizeof b));
    TMK_TRY(want_one(tmk_infer_in(infer, 2), TMK_INT64, "the limit", diag));
    TMK_TRY(want_one(tmk_infer_in(infer, 3), TMK_FLOAT32, "the overlap threshold", diag));
    return want_one(tmk_infer_in(infer, 4), TMK_FLOAT32, "the score threshold", diag);
}

/* What is the same for every batch and class. */
struct suppression {
    size_t n, limit; /* boxes; how many may stay */
    float overlap, score;
    bool centred, has_score;
    size_t *a, *b; /* scratch for n */
};

/* Writes the boxes that stay, best first, to `kept`; answers how many. */
static size_t suppress_boxes(const struct suppression *s, const float *boxes, const float *scores,
                             size_t *kept) {
    const size_t *sorted = tmk_sort(s->n, better_first, scores, s->a, s->b);
    size_t n = 0;
    for (size_t i = 0; i < s->n && n < s->limit; i++) {
        float score = scores[sorted[i]];
        if (isnan(score) || (s->has_score && !(score > s->score)))
            break;
        struct box box = box_at(boxes + 4 * sorted[i], s->centred);
        bool stays = true;
        for (size_t k = 0; k < n && stays; k++) {
            struct box other = box_at(boxes + 4 * kept[k], s->centred);
            stays = !boxes_overlap(&box, &other, s->overlap);
        }
        if (stays)
            kept[n++] = sorted[i];
    }
    return n;
}

static enum tmk_status suppression_run(struct tmk_run *run) {
    const struct tmk_tensor *boxes = run->in[0], *scores = run->in[1];
    const struct tmk_tensor *limit = tmk_run_in(run, 2), *overlaps = tmk_run_in(run, 3),
                            *min = tmk_run_in(run, 4);
    size_t batches = (size_t)scores->shape.dim[0], classes = (size_t)scores->shape.dim[1];
    struct suppression s = {.n = (size_t)scores->shape.dim[2]};
    int64_t most = limit ? tmk_index_at(limit, 0) : 0;
    s.limit = most < 0 ? 0 : (uint64_t)most < s.n ? (size_t)most : s.n;
    s.overlap = overlaps ? *(const float *)overlaps->data : 0.0f;
    s.has_score = min != NULL;
    s.score = min ? *(const float *)min->data : 0.0f;
    s.centred = tmk_node_int(run->node, "center_point_box", 0) != 0;
    if (!(s.overlap >= 0.0f && s.overlap <= 1.0f))
        return tmk_fail(run->diag, TMK_RANGE, "the overlap threshold is %g, not within 0 and 1",
                        (double)s.overlap);
    size_t words, bytes, total = 0, groups = tmk_tensor_count(scores) ? batches * classes : 0;
    bool fits = tmk_mul_size(groups, s.limit, &words) && tmk_add_size(words, groups, &words) &&
                tmk_add_size(words, 2 * s.n + 1, &words) &&
                tmk_mul_size(words, sizeof(size_t), &bytes);
    size_t *memory = fits ? run->scratch(run->context, bytes) : NULL;
    if (!memory)
        return tmk_nomem(run->diag);
    size_t *count = memory, *kept = count + groups;
    s.a = kept + groups * s.limit;
    s.b = s.a + s.n;
    for (size_t g = 0; g < groups; g++) {
        const float *of_batch = (const float *)boxes->data + g / classes * s.n * 4;
        count[g] =
            suppress_boxes(&s, of_batch, (const float *)scores->data + g * s.n, kept + g * s.limit);
        total += count[g];
    }
    TMK_TRY(tmk_run_alloc(run, 0, TMK_INT64, &(struct tmk_shape){2, {(int64_t)total, 3}}));
    struct tmk_tensor *out = tmk_run_out(run, 0);
    int64_t *to = out ? out->data : NULL;
    for (size_t g = 0; to && g < groups; g++)
        for (size_t i = 0; i < count[g]; i++) {
            *to++ = (int64_t)(g / classes);
            *to++ = (int64_t)(g % classes);
            *to++ = (int64_t)kept[g * s.limit + i];
        }
    return TMK_OK;
}

/* Each box of a class is compared with those that stay. */
static double suppression_cost(const struct tmk_node *node, const struct tmk_tensor *const *in,
                               const struct tmk_tensor *out) {
    (void)out;
    const struct tmk_tensor *limit = node->n_inputs > 2 ? in[2] : NULL;
    double stay = tmk_cost_dim(in[1], -1);
    const double most = limit && limit->data ? (double)tmk_index_at(limit, 0) : stay;
    stay = most < 0 ? 0 : most < stay ? most : stay;
    return tmk_cost_count(in[1]) * stay;
}

const struct tmk_op tmk_ops_suppression[] = {
    {TMK_OP_ONNX("NonMaxSuppression", 10, INT32_MAX), TMK_OP_COUNTS(2, 5, 1, 1),
     .flags = TMK_OP_SIZES_ITSELF, .attrs = "center_point_box:int", .infer = suppression_infer,
     .run = suppression_run, .cost = suppression_cost},
    {NULL}};
