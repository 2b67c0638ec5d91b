/* SPDX-License-Identifier: Apache-2.0 */
/* The observer: an identity that marks an edge as watched. The executor accumulates its values. */
#include "ops/move.h"
#include "ops/rows.h"

static enum tmk_status observer_infer(struct tmk_infer *infer) {
    int64_t id = tmk_node_int(infer->node, "profile_id", 0);
    if (id < 0)
        return tmk_fail(infer->diag, TMK_RANGE, "profile_id is %lld", (long long)id);
    return tmk_infer_same(infer);
}

static const struct tmk_attr_rule attrs[] = {{"kind", TMK_ATTR_STRING, true},
                                             {"profile_id", TMK_ATTR_INT, true},
                                             {"tensor_name", TMK_ATTR_STRING, true},
                                             {"relation", TMK_ATTR_STRING, false},
                                             {NULL}};

const struct tmk_op tmk_ops_observer[] = {
    {TMK_OP_KEY(TMK_DOMAIN_TIDEMARK, "EdgeObserver", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .flags = TMK_OP_VIEW | TMK_OP_INPLACE, .channel = TMK_CHANNEL_INHERIT, .attrs = attrs,
     .infer = observer_infer, .run = tmk_run_view},
    {NULL}};
