/* SPDX-License-Identifier: Apache-2.0 */
/* Optionals: one that holds something is that thing, so only those that hold nothing look other
 * than what they are made of. */
#include "ops/rows.h"
#include "ops/stack.h"
#include "tensor/list.h"

static enum tmk_status hand_on(struct tmk_run *run) {
    struct tmk_tensor same;
    TMK_TRY(tmk_tensor_keep(&same, run->in[0], run->diag));
    tmk_give(run, 0, &same);
    return TMK_OK;
}

/* ---- Optional ---- */

static enum tmk_status optional_infer(struct tmk_infer *infer) {
    const struct tmk_tensor *in = tmk_infer_in(infer, 0);
    if (in && in->kind == TMK_TYPE_OPTIONAL)
        return tmk_fail(infer->diag, TMK_TYPE, "an optional of an optional is not supported");
    if (!in && !tmk_node_attr(infer->node, "type"))
        return tmk_fail(infer->diag, TMK_GRAPH, "neither an input nor attribute 'type' is given");
    return TMK_OK;
}

static enum tmk_status optional_run(struct tmk_run *run) {
    if (tmk_run_in(run, 0))
        return hand_on(run);
    struct tmk_tensor nothing;
    tmk_tensor_nothing(&nothing, tmk_node_attr(run->node, "type")->type->dtype);
    tmk_give(run, 0, &nothing);
    return TMK_OK;
}

/* ---- OptionalHasElement, OptionalGetElement ---- */

static enum tmk_status has_infer(struct tmk_infer *infer) {
    const struct tmk_shape scalar = {0};
    return tmk_infer_set(infer, 0, TMK_BOOL, &scalar);
}

static enum tmk_status has_run(struct tmk_run *run) {
    const struct tmk_tensor *in = tmk_run_in(run, 0);
    struct tmk_tensor *out = tmk_run_out(run, 0);
    if (out)
        *(uint8_t *)out->data = in && in->kind != TMK_TYPE_OPTIONAL;
    return TMK_OK;
}

static enum tmk_status get_run(struct tmk_run *run) {
    if (run->in[0]->kind == TMK_TYPE_OPTIONAL)
        return tmk_fail(run->diag, TMK_RANGE, "the optional holds nothing");
    return hand_on(run);
}

const struct tmk_op tmk_ops_optional[] = {
    {TMK_OP_ONNX("Optional", 15, INT32_MAX), TMK_OP_COUNTS(0, 1, 1, 1),
     .flags = TMK_OP_IMPURE | TMK_OP_SIZES_ITSELF | TMK_OP_TAKES_ANY, .attrs = "type:type",
     .infer = optional_infer, .run = optional_run},
    {TMK_OP_ONNX("OptionalHasElement", 15, 17), TMK_OP_COUNTS(1, 1, 1, 1),
     .flags = TMK_OP_IMPURE | TMK_OP_TAKES_ANY, .infer = has_infer, .run = has_run},
    {TMK_OP_ONNX("OptionalHasElement", 18, INT32_MAX), TMK_OP_COUNTS(0, 1, 1, 1),
     .flags = TMK_OP_IMPURE | TMK_OP_TAKES_ANY, .infer = has_infer, .run = has_run},
    {TMK_OP_ONNX("OptionalGetElement", 15, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .flags = TMK_OP_IMPURE | TMK_OP_SIZES_ITSELF | TMK_OP_TAKES_ANY, .infer = tmk_infer_nothing,
     .run = get_run},
    {NULL}};
