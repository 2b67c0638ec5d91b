/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings that are to be exported for a target. */
#include "export/target.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/diag.h"
#include "calib/target.h"

enum { FIRST_SIZE = 1024 };

static void keep_first(void *context, const char *text) {
    char *first = context;
    if (!*first)
        snprintf(first, FIRST_SIZE, "%s", text);
}

static uint32_t id_of(const struct tmk_value *value) {
    return value && value->profile_id >= 0 ? (uint32_t)value->profile_id : UINT32_MAX;
}

static bool is_depthwise(const struct tmk_node *node) {
    const struct tmk_value *weight = node->n_inputs > 1 ? node->inputs[1] : NULL;
    const struct tmk_shape *shape = weight ? &weight->type.shape : NULL;
    return tmk_node_is(node, TMK_DOMAIN_ONNX, "Conv") && tmk_node_int(node, "group", 1) > 1 &&
           shape && weight->type.has_shape && shape->rank > 2 && shape->dim[1] == 1;
}

static enum tmk_status check_node(struct tmk_target_check *check, const struct tmk_node *node,
                                  struct tmk_arena *arena, struct tmk_diag *diag) {
    char key[24] = "";
    uint32_t *ids = tmk_arena_array(arena, (size_t)node->n_inputs + node->n_outputs, sizeof *ids);
    TMK_TRY_ALLOC(ids, diag);
    for (uint32_t i = 0; i < node->n_inputs; i++)
        ids[i] = id_of(node->inputs[i]);
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        ids[node->n_inputs + i] = id_of(node->outputs[i]);
        if (!*key && node->outputs[i])
            snprintf(key, sizeof key, "p%" PRId64, node->outputs[i]->profile_id);
    }
    const struct tmk_target_node seen = {.op = node->op,
                                         .name = *node->name ? node->name : key,
                                         .inputs = ids,
                                         .outputs = ids + node->n_inputs,
                                         .n_inputs = node->n_inputs,
                                         .n_outputs = node->n_outputs,
                                         .depthwise = is_depthwise(node)};
    tmk_target_check_node(check, &seen);
    return TMK_OK;
}

enum tmk_status tmk_export_check_target(const struct tmk_target *target,
                                        const struct tmk_encodings *encodings,
                                        const struct tmk_graph *graph, struct tmk_diag *diag) {
    char first[FIRST_SIZE] = "";
    struct tmk_target_check check = {target, encodings, keep_first, first, 0};
    struct tmk_arena arena = {0};
    enum tmk_status status = TMK_OK;
    if (!graph)
        tmk_target_check_types(&check);
    for (const struct tmk_node *node = graph ? graph->first : NULL; status == TMK_OK && node;
         node = node->next)
        status = check_node(&check, node, &arena, diag);
    tmk_arena_finish(&arena);
    if (status == TMK_OK && check.found)
        status = tmk_fail(diag, TMK_MISMATCH,
                          "%s (%" PRIu32 " such findings); nothing was written: calibrate with "
                          "--target %s, or export without it",
                          first, check.found, target->name);
    return status;
}
