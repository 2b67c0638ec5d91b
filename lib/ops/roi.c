/* SPDX-License-Identifier: Apache-2.0 */
/* Regions of interest: pooling, aligning, suppressing. */
#include <float.h>
#include <math.h>

#include "ops/cost.h"
#include "ops/move.h"

/* RoiAlign and MaxRoiPool: each region of an image becomes a grid of bins.
 *
 * RoiAlign (K. He et al., "Mask R-CNN", ICCV 2017) takes the mean, or the maximum, of points spread
 * evenly over a bin, each blended from the four elements around it; a point more than one element
 * outside the image is 0. With `max`, the largest of the blend's four products counts, as ONNX
 * defines it. MaxRoiPool (R. Girshick, "Fast R-CNN", ICCV 2015) rounds a region and its bins to
 * whole elements and takes the maximum; an empty bin is 0. */

/* Of RoiAlign, in one bin along one axis: as asked for, and as a large region makes them. */
enum { MOST_SAMPLES = 1 << 12, MOST_POINTS = 1 << 20 };

/* rois is [regions, columns] */
static enum tmk_status check_regions(const struct tmk_infer *infer, int64_t columns, int64_t height,
                                     int64_t width) {
    const struct tmk_shape *x = &infer->in[0]->shape;
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_FLOAT32, "the input", infer->diag));
    TMK_TRY(tmk_want_shape(infer->in[1], TMK_FLOAT32, "rois", &(struct tmk_shape){2, {-1, columns}},
                           infer->diag));
    if (x->rank != 4 || x->dim[2] < 1 || x->dim[3] < 1)
        return tmk_fail(infer->diag, TMK_SHAPE, "an input of shape %s is no batch of images",
                        TMK_SHAPE_TEXT(x));
    if (height < 1 || width < 1 || height > INT32_MAX || width > INT32_MAX)
        return tmk_fail(infer->diag, TMK_RANGE, "%lld times %lld bins are asked for",
                        (long long)height, (long long)width);
    return TMK_OK;
}

static enum tmk_status check_image(int64_t image, int64_t images, size_t region,
                                   struct tmk_diag *diag) {
    if (image >= 0 && image < images)
        return TMK_OK;
    return tmk_fail(diag, TMK_RANGE, "region %zu is of image %lld of %lld", region,
                    (long long)image, (long long)images);
}

/* ---- RoiAlign ---- */

/* One axis of one point: two neighbours and their weights. */
struct point {
    int64_t low, high;
    double low_weight, high_weight;
};

/* One axis of one region. */
struct side {
    double start, bin; /* in elements */
    int64_t bins, points /* in a bin */, size /* of the image */;
};

/* The points of a bin that are not outside; answers how many. */
static size_t find_points(const struct side *side, int64_t bin, struct point *out) {
    size_t n = 0;
    double last = (double)(side->size - 1);
    for (int64_t i = 0; i < side->points; i++) {
        double at = side->start + (double)bin * side->bin +
                    ((double)i + 0.5) * side->bin / (double)side->points;
        if (!(at >= -1 && at <= (double)side->size))
            continue;
        at = at < 0 ? 0 : at > last ? last : at;
        int64_t low = (int64_t)at;
        double rest = at - (double)low;
        out[n++] = (struct point){low, low < side->size - 1 ? low + 1 : low, 1 - rest, rest};
    }
    return n;
}

static double mean_of(const float *image, int64_t width, const struct point *ys, size_t n_y,
                      const struct point *xs, size_t n_x, double points) {
    double sum = 0;
    for (size_t i = 0; i < n_y; i++) {
        const float *a = image + ys[i].low * width, *b = image + ys[i].high * width;
        for (size_t j = 0; j < n_x; j++) {
            double above =
                xs[j].low_weight * (double)a[xs[j].low] + xs[j].high_weight * (double)a[xs[j].high];
            double below =
                xs[j].low_weight * (double)b[xs[j].low] + xs[j].high_weight * (double)b[xs[j].high];
            sum += ys[i].low_weight * above + ys[i].high_weight * below;
        }
    }
    return points > 0 ? sum / points : 0;
}

static double most_of(const float *image, int64_t width, const struct point *ys, size_t n_y,
                      const struct point *xs, size_t n_x, double points) {
    /* points outside are 0 */
    double most = (double)n_y * (double)n_x < points || points == 0 ? 0 : -INFINITY;
    for (size_t i = 0; i < n_y; i++) {
        const float *a = image + ys[i].low * width, *b = image + ys[i].high * width;
        for (size_t j = 0; j < n_x; j++) {
            double products[] = {
                ys[i].low_weight * xs[j].low_weight * (double)a[xs[j].low],
                ys[i].low_weight * xs[j].high_weight * (double)a[xs[j].high],
                ys[i].high_weight * xs[j].low_weight * (double)b[xs[j].low],
                ys[i].high_weight * xs[j].high_weight * (double)b[xs[j].high],
            };
            for (size_t k = 0; k < TMK_COUNT(products); k++)
                if (!(products[k] <= most) && !isnan(most))
                    most = products[k];
        }
    }
    return most;
}

struct align {
    bool max, half_pixel;
    int64_t sampling;
    double scale;
};

static enum tmk_status read_align(const struct tmk_node *node, struct align *out,
                                  struct tmk_diag *diag) {
    const bool old = node->row->since < 16;
    int max, other;
    TMK_TRY(tmk_choice(node, "mode", "avg max", &max, diag));
    TMK_TRY(tmk_choice(node, "coordinate_transformation_mode",
                       old ? "output_half_pixel half_pixel" : "half_pixel output_half_pixel",
                       &other, diag));
    struct align align = {.max = max != 0,
                          .half_pixel = old == (other != 0),
                          .sampling = tmk_node_int(node, "sampling_ratio", 0),
                          .scale = (double)tmk_node_float(node, "spatial_scale", 1)};
    if (align.sampling < 0 || align.sampling > MOST_SAMPLES)
        return tmk_fail(diag, TMK_RANGE, "sampling_ratio is %lld", (long long)align.sampling);
    *out = align;
    return TMK_OK;
}

static enum tmk_status infer_align(struct tmk_infer *infer) {
    struct align align;
    const struct tmk_shape *x = &infer->in[0]->shape, *rois = &infer->in[1]->shape;
    int64_t height = tmk_node_int(infer->node, "output_height", 1),
            width = tmk_node_int(infer->node, "output_width", 1);
    TMK_TRY(read_align(infer->node, &align, infer->diag));
    TMK_TRY(check_regions(infer, 4, height, width));
    TMK_TRY(tmk_want_indices(infer->in[2], "input 'batch_indices'", infer->diag));
    TMK_TRY(tmk_want_shape(infer->in[2], infer->in[2]->dtype, "batch_indices",
                           &(struct tmk_shape){1, {rois->dim[0]}}, infer->diag));
    return tmk_infer_set(infer, 0, TMK_FLOAT32,
                         &(struct tmk_shape){4, {rois->dim[0], x->dim[1], height, width}});
}

/* `sides`: of y and x. */
static enum tmk_status place_region(const struct align *align, const float *roi, size_t region,
                                    const struct tmk_shape *x, const struct tmk_shape *y,
                                    struct side sides[2], struct tmk_diag *diag) {
    double shift = align->half_pixel ? 0.5 : 0;
    for (int i = 0; i < 2; i++) {
        double start = (double)roi[1 - i] * align->scale - shift,
               length = (double)roi[3 - i] * align->scale - shift - start;
        struct side *side = &sides[i];
        *side = (struct side){.start = start, .bins = y->dim[2 + i], .size = x->dim[2 + i]};
        if (!align->half_pixel && length < 1)
            length = 1;
        side->bin = length / (double)side->bins;
        if (!(fabs(start) <= FLT_MAX && fabs(side->bin) <= MOST_POINTS))
            return tmk_fail(diag, TMK_RANGE, "region %zu is from %g to %g on an axis of %lld",
                            region, (double)roi[1 - i], (double)roi[3 - i], (long long)side->size);
        double points = align->sampling ? (double)align->sampling : ceil(side->bin);
        side->points = points > 0 ? (int64_t)points : 0;
    }
    return TMK_OK;
}

static enum tmk_status run_align(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0], *rois = run->in[1], *images = run->in[2];
    struct tmk_tensor *y = tmk_run_out(run, 0);
    struct align align;
    struct side sides[2];
    TMK_TRY(read_align(run->node, &align, run->diag));
    size_t regions = (size_t)rois->shape.dim[0], channels = (size_t)x->shape.dim[1], most[2] = {0};
    for (size_t r = 0; r < regions; r++) {
        TMK_TRY(check_image(tmk_index_at(images, r), x->shape.dim[0], r, run->diag));
        TMK_TRY(place_region(&align, (const float *)rois->data + 4 * r, r, &x->shape, &y->shape,
                             sides, run->diag));
        for (int i = 0; i < 2; i++)
            most[i] = (size_t)sides[i].points > most[i] ? (size_t)sides[i].points : most[i];
    }
    if (tmk_tensor_count(y) == 0)
        return TMK_OK;
    struct point *ys = run->scratch(run->context, (most[0] + most[1] + 1) * sizeof *ys);
    TMK_TRY_ALLOC(ys, run->diag);
    struct point *xs = ys + most[0];
    float *out = y->data;
    size_t height = (size_t)y->shape.dim[2], width = (size_t)y->shape.dim[3],
           area = tmk_shape_product(&x->shape, 2, 4);
    for (size_t r = 0; r < regions; r++, out += channels * height * width) {
        TMK_TRY(place_region(&align, (const float *)rois->data + 4 * r, r, &x->shape, &y->shape,
                             sides, run->diag));
        const float *image =
            (const float *)x->data + (size_t)tmk_index_at(images, r) * channels * area;
        double points = (double)sides[0].points * (double)sides[1].points;
        for (size_t h = 0; h < height; h++) {
            size_t n_y = find_points(&sides[0], (int64_t)h, ys);
            for (size_t w = 0; w < width; w++) {
                size_t n_x = find_points(&sides[1], (int64_t)w, xs);
                for (size_t c = 0; c < channels; c++)
                    out[(c * height + h) * width + w] = (float)(align.max ? most_of : mean_of)(
                        image + c * area, x->shape.dim[3], ys, n_y, xs, n_x, points);
            }
        }
    }
    return TMK_OK;
}

/* ---- MaxRoiPool ---- */

static enum tmk_status infer_pool(struct tmk_infer *infer) {
    size_t n;
    const int64_t *pooled = tmk_node_ints(infer->node, "pooled_shape", &n);
    const struct tmk_shape *x = &infer->in[0]->shape, *rois = &infer->in[1]->shape;
    if (n != 2)
        return tmk_fail(infer->diag, TMK_GRAPH,
                        "attribute 'pooled_shape' has %zu elements instead of 2", n);
    TMK_TRY(check_regions(infer, 5, pooled[0], pooled[1]));
    return tmk_infer_set(infer, 0, TMK_FLOAT32,
                         &(struct tmk_shape){4, {rois->dim[0], x->dim[1], pooled[0], pooled[1]}});
}

/* Elements [from, to) of an axis. */
struct range {
    int64_t from, to;
};

/* Bin `bin` of `bins`; first and last are the region's elements. */
static struct range bin_range(double first, double last, int64_t bin, int64_t bins, int64_t size) {
    float length = last - first + 1 > 1 ? (float)(last - first + 1) : 1.0f,
          step = length / (float)bins;
    double from = floor((double)((float)bin * step)) + first,
           to = ceil((double)((float)(bin + 1) * step)) + first, end = (double)size;
    from = from < 0 ? 0 : from > end ? end : from;
    to = to < 0 ? 0 : to > end ? end : to;
    return (struct range){(int64_t)from, (int64_t)to};
}

static float most_in(const float *image, int64_t width, struct range rows, struct range columns) {
    if (rows.from >= rows.to || columns.from >= columns.to)
        return 0;
    float most = -FLT_MAX;
    for (int64_t i = rows.from; i < rows.to; i++)
        for (int64_t j = columns.from; j < columns.to; j++) {
            float v = image[i * width + j];
            most = !(v <= most) && !isnan(most) ? v : most;
        }
    return most;
}

static enum tmk_status run_pool(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0], *rois = run->in[1];
    struct tmk_tensor *y = tmk_run_out(run, 0);
    float scale = tmk_node_float(run->node, "spatial_scale", 1), *out = y->data;
    size_t channels = (size_t)x->shape.dim[1], area = tmk_shape_product(&x->shape, 2, 4);
    const int64_t *bins = y->shape.dim + 2, *size = x->shape.dim + 2;
    const float *roi = rois->data;
    for (size_t r = 0; r < (size_t)rois->shape.dim[0]; r++, roi += 5) {
        double corner[4]; /* left, top, right, bottom */
        for (int i = 0; i < 4; i++) {
            corner[i] = round((double)(roi[1 + i] * scale));
            if (!isfinite(corner[i]))
                return tmk_fail(run->diag, TMK_RANGE, "corner %d of region %zu is %g", i, r,
                                (double)roi[1 + i]);
        }
        int64_t index = roi[0] >= 0 && roi[0] < 0x1p62f ? (int64_t)roi[0] : -1;
        TMK_TRY(check_image(index, x->shape.dim[0], r, run->diag));
        const float *image = (const float *)x->data + (size_t)index * channels * area;
        for (size_t c = 0; c < channels; c++, image += area)
            for (int64_t h = 0; h < bins[0]; h++) {
                struct range rows = bin_range(corner[1], corner[3], h, bins[0], size[0]);
                for (int64_t w = 0; w < bins[1]; w++)
                    *out++ = most_in(image, size[1], rows,
                                     bin_range(corner[0], corner[2], w, bins[1], size[1]));
            }
    }
    return TMK_OK;
}

#define ALIGN_RULES                                                                                \
    "mode:string output_height:int output_width:int sampling_ratio:int spatial_scale:float"

/* With a sampling ratio that depends on the regions, or bins: at least the points around one. */
static double roi_cost(const struct tmk_node *node, const struct tmk_tensor *const *in,
                       const struct tmk_tensor *out) {
    const double points = (double)tmk_node_int(node, "sampling_ratio", 0);
    (void)in;
    return tmk_cost_count(out) * (points > 2 ? points * points : 4);
}

/* NonMaxSuppression: of boxes that overlap too much only the best one stays. */

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

static enum tmk_status suppression_infer(struct tmk_infer *infer) {
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
                        TMK_SHAPE_TEXT(boxes), TMK_SHAPE_TEXT(scores));
    TMK_TRY(tmk_want_scalar(tmk_infer_in(infer, 2), TMK_INT64, "the limit", diag));
    TMK_TRY(tmk_want_scalar(tmk_infer_in(infer, 3), TMK_FLOAT32, "the overlap threshold", diag));
    return tmk_want_scalar(tmk_infer_in(infer, 4), TMK_FLOAT32, "the score threshold", diag);
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
    TMK_TRY_ALLOC(memory, run->diag);
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

const struct tmk_op tmk_ops_roi[] = {
    {TMK_OP_ONNX("RoiAlign", 10, 15), TMK_OP_COUNTS(3, 3, 1, 1), .flags = TMK_OP_CHECKS,
     .channel = TMK_CHANNEL_AXIS1, .attrs = ALIGN_RULES, .infer = infer_align, .run = run_align,
     .cost = roi_cost},
    {TMK_OP_ONNX("RoiAlign", 16, INT32_MAX), TMK_OP_COUNTS(3, 3, 1, 1), .flags = TMK_OP_CHECKS,
     .channel = TMK_CHANNEL_AXIS1, .attrs = ALIGN_RULES " coordinate_transformation_mode:string",
     .infer = infer_align, .run = run_align, .cost = roi_cost},
    {TMK_OP_ONNX("MaxRoiPool", 1, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1), .flags = TMK_OP_CHECKS,
     .channel = TMK_CHANNEL_AXIS1, .attrs = "pooled_shape:ints! spatial_scale:float",
     .infer = infer_pool, .run = run_pool, .cost = roi_cost},
    {TMK_OP_ONNX("NonMaxSuppression", 10, INT32_MAX), TMK_OP_COUNTS(2, 5, 1, 1),
     .flags = TMK_OP_SIZES_ITSELF, .attrs = "center_point_box:int", .infer = suppression_infer,
     .run = suppression_run, .cost = suppression_cost},
    {NULL}};
