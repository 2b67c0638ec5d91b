/* SPDX-License-Identifier: Apache-2.0 */
/* The observer: an identity that marks an edge as watched. The executor accumulates its values. */
#include "ops/move.h"

static enum tmk_status observer_infer(struct tmk_infer *infer) {
    int64_t id = tmk_node_int(infer->node, "profile_id", 0);
    if (id < 0)
        return tmk_fail(infer->diag, TMK_RANGE, "profile_id is %lld", (long long)id);
    return tmk_infer_same(infer);
}

const struct tmk_op tmk_ops_observer[] = {
    {TMK_OP_KEY(TMK_DOMAIN_TIDEMARK, "EdgeObserver", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .flags = TMK_OP_VIEW | TMK_OP_INPLACE, .channel = TMK_CHANNEL_INHERIT,
     .attrs = "kind:string! profile_id:int! tensor_name:string! relation:string",
     .infer = observer_infer, .run = tmk_run_view},
    {NULL}};
