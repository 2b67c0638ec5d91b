/* SPDX-License-Identifier: Apache-2.0 */
/* Shape and Size: what is known of a tensor without its elements. */
#include <string.h>

#include "ops/kernel.h"

/* A bound of the slice that version 15 takes of the shape. */
static int32_t read_bound(const struct tmk_node *node, const char *name, int32_t otherwise,
                          int32_t rank) {
    int64_t at = tmk_node_int(node, name, otherwise);
    if (at < 0)
        at += rank;
    return at < 0 ? 0 : at > rank ? rank : (int32_t)at;
}

static void slice_range(const struct tmk_node *node, int32_t rank, int32_t *start, int32_t *n) {
    int32_t end = read_bound(node, "end", rank, rank);
    *start = read_bound(node, "start", 0, rank);
    *n = end > *start ? end - *start : 0;
}

static enum tmk_status shape_infer(struct tmk_infer *infer) {
    int32_t start, n;
    slice_range(infer->node, infer->in[0]->shape.rank, &start, &n);
    return tmk_infer_set(infer, 0, TMK_INT64, &(struct tmk_shape){1, {n}});
}

static enum tmk_status shape_run(struct tmk_run *run) {
    int32_t start, n;
    struct tmk_tensor *out = tmk_run_out(run, 0);
    slice_range(run->node, run->in[0]->shape.rank, &start, &n);
    if (out)
        memcpy(out->data, run->in[0]->shape.dim + start, (size_t)n * sizeof(int64_t));
    return TMK_OK;
}

static enum tmk_status size_infer(struct tmk_infer *infer) {
    size_t n;
    if (!tmk_shape_count(&infer->in[0]->shape, &n) || n > INT64_MAX)
        return tmk_fail(infer->diag, TMK_RANGE, "the input is too large");
    return tmk_infer_set(infer, 0, TMK_INT64, &(struct tmk_shape){0});
}

static enum tmk_status size_run(struct tmk_run *run) {
    struct tmk_tensor *out = tmk_run_out(run, 0);
    if (out)
        *(int64_t *)out->data = (int64_t)tmk_tensor_count(run->in[0]);
    return TMK_OK;
}

const struct tmk_op tmk_ops_shape[] = {
    {TMK_OP_ONNX("Shape", 1, 14), TMK_OP_COUNTS(1, 1, 1, 1), .infer = shape_infer,
     .run = shape_run},
    {TMK_OP_ONNX("Shape", 15, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .attrs = "end:int start:int",
     .infer = shape_infer, .run = shape_run},
    {TMK_OP_ONNX("Size", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .infer = size_infer,
     .run = size_run},
    {NULL}};
