/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout for inference: the identity, with a mask of ones. Before operator set 12 ONNX leaves the
 * mask of inference open; it is zeros then, as in ONNX Runtime. From 12 on a node may ask for
 * training; that draws random numbers and is refused, unless its ratio is 0. */
#include "ops/kernel.h"
#include "ops/move.h"
#include "ops/rows.h"

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
    for (uint32_t i = 1; i < TMK_COUNT(names); i++) {
        const struct tmk_tensor *in = tmk_infer_in(infer, i);
        if (!in)
            continue;
        TMK_TRY(tmk_want_dtype(in, i == 1 ? TMK_FLOAT32 : TMK_BOOL, names[i], infer->diag));
        if (tmk_tensor_count(in) != 1)
            return tmk_fail(infer->diag, TMK_SHAPE, "input '%s' has %zu elements, not one",
                            names[i], tmk_tensor_count(in));
    }
    TMK_TRY(check_mode(tmk_infer_in(infer, 1), tmk_infer_in(infer, 2), infer->diag));
    tmk_infer_set(infer, 0, x->dtype, &x->shape);
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

const struct tmk_op tmk_ops_dropout[] = {
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
