/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/move.h"

/* What is asked for, in the order of `axis`, as in the model. */
struct request {
    bool known;
    size_t n;
    int64_t start[TMK_MAX_RANK], end[TMK_MAX_RANK], axis[TMK_MAX_RANK], step[TMK_MAX_RANK];
};

/* The same for each of the data's axes: first element, how many, and how far apart. */
struct slice {
    struct tmk_shape shape;
    int64_t first[TMK_MAX_RANK], step[TMK_MAX_RANK];
};

static enum tmk_status read_attribute(const struct tmk_node *node, const char *name, int64_t *out,
                                      size_t *n, struct tmk_diag *diag) {
    size_t given;
    const int64_t *values = tmk_node_ints(node, name, &given);
    if (given > TMK_MAX_RANK)
        return tmk_fail(diag, TMK_SHAPE, "%s has %zu entries; at most %d are possible", name, given,
                        TMK_MAX_RANK);
    for (size_t i = 0; i < given; i++)
        out[i] = values[i];
    *n = given;
    return TMK_OK;
}

static enum tmk_status fill_in(struct request *r, size_t n_ends, size_t n_axes, size_t n_steps,
                               bool axes, bool steps, struct tmk_diag *diag) {
    if (n_ends != r->n || (axes && n_axes != r->n) || (steps && n_steps != r->n))
        return tmk_fail(diag, TMK_SHAPE, "starts, ends, axes and steps differ in length");
    for (size_t i = 0; i < r->n; i++) {
        if (!axes)
            r->axis[i] = (int64_t)i;
        if (!steps)
            r->step[i] = 1;
    }
    r->known = true;
    return TMK_OK;
}

static enum tmk_status request_1(const struct tmk_node *node, struct request *r,
                                 struct tmk_diag *diag) {
    size_t ends = 0, axes = 0;
    TMK_TRY(read_attribute(node, "starts", r->start, &r->n, diag));
    TMK_TRY(read_attribute(node, "ends", r->end, &ends, diag));
    TMK_TRY(read_attribute(node, "axes", r->axis, &axes, diag));
    return fill_in(r, ends, axes, 0, tmk_node_attr(node, "axes") != NULL, false, diag);
}

/* in[1..4]: starts, ends, axes, steps; the last two may be NULL. */
static enum tmk_status request_10(const struct tmk_tensor *const in[5], struct request *r,
                                  struct tmk_diag *diag) {
    static const char *const what[] = {"", "the starts", "the ends", "the axes", "the steps"};
    int64_t *values[] = {NULL, r->start, r->end, r->axis, r->step};
    size_t n[5] = {0};
    r->known = false;
    for (int i = 1; i < 5; i++) {
        if (in[i])
            TMK_TRY(tmk_want_indices(in[i], what[i], diag));
        if (in[i] && !in[i]->data)
            return TMK_OK;
    }
    for (int i = 1; i < 5; i++)
        if (in[i])
            TMK_TRY(tmk_read_ints(in[i], what[i], TMK_MAX_RANK, values[i], &n[i], diag));
    r->n = n[1];
    return fill_in(r, n[2], n[3], n[4], in[3] != NULL, in[4] != NULL, diag);
}

/* A bound counted from the end if negative, then clamped to [low, high]. */
static int64_t clamp_bound(int64_t value, int64_t extent, int64_t low, int64_t high) {
    if (value < 0)
        value += extent;
    return value < low ? low : value > high ? high : value;
}

static enum tmk_status resolve_slice(const struct request *r, const struct tmk_shape *data,
                                     struct slice *slice, struct tmk_diag *diag) {
    bool seen[TMK_MAX_RANK] = {false};
    slice->shape = *data;
    for (int32_t i = 0; i < data->rank; i++) {
        slice->first[i] = 0;
        slice->step[i] = 1;
    }
    for (size_t i = 0; i < r->n; i++) {
        int32_t axis;
        TMK_TRY(tmk_axis(r->axis[i], data->rank, &axis, diag));
        if (seen[axis])
            return tmk_fail(diag, TMK_RANGE, "axis %d is named twice", axis);
        seen[axis] = true;
        int64_t extent = data->dim[axis], step = r->step[i], from, to;
        uint64_t distance = 0, stride;
        if (step == 0)
            return tmk_fail(diag, TMK_RANGE, "the step on axis %d is 0", axis);
        if (step > 0) {
            from = clamp_bound(r->start[i], extent, 0, extent);
            to = clamp_bound(r->end[i], extent, 0, extent);
            stride = (uint64_t)step;
            distance = to > from ? (uint64_t)(to - from) : 0;
        } else {
            from = clamp_bound(r->start[i], extent, 0, extent - 1);
            to = clamp_bound(r->end[i], extent, -1, extent - 1);
            stride = 0 - (uint64_t)step;
            distance = extent && from > to ? (uint64_t)(from - to) : 0;
        }
        int64_t count = distance ? (int64_t)((distance - 1) / stride + 1) : 0;
        slice->shape.dim[axis] = count;
        slice->first[axis] = from;
        /* a step that is taken is shorter than the dimension, so that strides cannot overflow */
        slice->step[axis] = count > 1 ? step : 1;
    }
    return TMK_OK;
}

static enum tmk_status infer_with(struct tmk_infer *infer, const struct request *request) {
    struct slice slice;
    if (!request->known)
        return TMK_OK;
    TMK_TRY(resolve_slice(request, &infer->in[0]->shape, &slice, infer->diag));
    return tmk_infer_set(infer, 0, infer->in[0]->dtype, &slice.shape);
}

static enum tmk_status run_with(struct tmk_run *run, const struct request *request) {
    const struct tmk_tensor *in = run->in[0];
    struct tmk_tensor *out = tmk_run_out(run, 0);
    if (!out || tmk_tensor_count(out) == 0)
        return TMK_OK;
    struct slice slice;
    int64_t to[TMK_MAX_RANK], from[TMK_MAX_RANK], offset = 0;
    TMK_TRY(resolve_slice(request, &in->shape, &slice, run->diag));
    tmk_strides(&out->shape, to);
    tmk_strides(&in->shape, from);
    struct tmk_move move = {0};
    for (int32_t i = 0; i < in->shape.rank; i++) {
        offset += slice.first[i] * from[i];
        tmk_move_axis(&move, out->shape.dim[i], to[i], slice.step[i] * from[i]);
    }
    size_t element = tmk_dtype_size(in->dtype);
    tmk_move_run(&move, element, out->data, (const char *)in->data + (size_t)offset * element);
    return TMK_OK;
}

static enum tmk_status slice_1_infer(struct tmk_infer *infer) {
    struct request request;
    TMK_TRY(request_1(infer->node, &request, infer->diag));
    return infer_with(infer, &request);
}

static enum tmk_status slice_1_run(struct tmk_run *run) {
    struct request request;
    TMK_TRY(request_1(run->node, &request, run->diag));
    return run_with(run, &request);
}

static enum tmk_status slice_10_infer(struct tmk_infer *infer) {
    const struct tmk_tensor *in[5];
    struct request request;
    for (uint32_t i = 0; i < 5; i++)
        in[i] = tmk_infer_in(infer, i);
    TMK_TRY(request_10(in, &request, infer->diag));
    return infer_with(infer, &request);
}

static enum tmk_status slice_10_run(struct tmk_run *run) {
    const struct tmk_tensor *in[5];
    struct request request;
    for (uint32_t i = 0; i < 5; i++)
        in[i] = tmk_run_in(run, i);
    TMK_TRY(request_10(in, &request, run->diag));
    return run_with(run, &request);
}

const struct tmk_op tmk_ops_slice[] = {
    {TMK_OP_ONNX("Slice", 1, 9), TMK_OP_COUNTS(1, 1, 1, 1),
     .attrs = "axes:ints ends:ints! starts:ints!", .infer = slice_1_infer, .run = slice_1_run},
    {TMK_OP_ONNX("Slice", 10, INT32_MAX), TMK_OP_COUNTS(3, 5, 1, 1), .infer = slice_10_infer,
     .run = slice_10_run},
    /* An experimental operator of the first releases; its axes, too, are an input. */
    {TMK_OP_ONNX("DynamicSlice", 1, INT32_MAX), TMK_OP_COUNTS(3, 4, 1, 1), .infer = slice_10_infer,
     .run = slice_10_run},
    {NULL}};
