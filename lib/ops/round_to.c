/* SPDX-License-Identifier: Apache-2.0 */
/* The operators of ai.tidemark. RoundTo: float32 numbers rounded to those of float16 or bfloat16
 * (`to`, as in Cast), ties to even. It is what a device of that type keeps of a result. */
#include "ops/elementwise.h"
#include "ops/move.h"

static enum tmk_status round_to_infer(struct tmk_infer *infer) {
    const int64_t to = tmk_node_int(infer->node, "to", 0);
    if (to != TMK_FLOAT16 && to != TMK_BFLOAT16)
        return tmk_fail(infer->diag, TMK_UNSUPPORTED,
                        "rounding to type %lld: only float16 (%d) and bfloat16 (%d) are supported",
                        (long long)to, TMK_FLOAT16, TMK_BFLOAT16);
    if (infer->in[0]->dtype != TMK_FLOAT32)
        return tmk_fail(infer->diag, TMK_TYPE, "only float32 is rounded");
    return tmk_infer_same(infer);
}

static enum tmk_status round_to_run(struct tmk_run *run) {
    const float *x = run->in[0]->data;
    const size_t n = tmk_tensor_count(run->in[0]);
    float *y = run->out[0] ? run->out[0]->data : NULL;
    const bool brain = tmk_node_int(run->node, "to", 0) == TMK_BFLOAT16;
    for (size_t i = 0; y && i < n; i++)
        y[i] = x[i] != x[i] ? x[i]
               : brain      ? tmk_from_bfloat16(tmk_to_bfloat16(x[i]))
                            : tmk_from_half(tmk_to_half(x[i]));
    return TMK_OK;
}

/* The observer: an identity that marks an edge as watched. The executor accumulates its values. */

static enum tmk_status observer_infer(struct tmk_infer *infer) {
    int64_t id = tmk_node_int(infer->node, "profile_id", 0);
    if (id < 0)
        return tmk_fail(infer->diag, TMK_RANGE, "profile_id is %lld", (long long)id);
    return tmk_infer_same(infer);
}

const struct tmk_op tmk_ops_round_to[] = {
    {TMK_OP_KEY(TMK_DOMAIN_TIDEMARK, TMK_OP_ROUND_TO, 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .flags = TMK_OP_INPLACE, .channel = TMK_CHANNEL_INHERIT, .attrs = "to:int!",
     .infer = round_to_infer, .run = round_to_run},
    {TMK_OP_KEY(TMK_DOMAIN_TIDEMARK, "EdgeObserver", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .flags = TMK_OP_VIEW | TMK_OP_INPLACE, .channel = TMK_CHANNEL_INHERIT,
     .attrs = "kind:string! profile_id:int! tensor_name:string! relation:string",
     .infer = observer_infer, .run = tmk_run_view},
    {NULL}};
