/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of a model's constants. */
#include <stdlib.h>

#include "base/diag.h"
#include "graph/rewrite.h"
#include "ops/ops.h"
#include "transform/model.h"
#include "transform/values.h"

enum { DEEPEST = 8 }; /* operators on constants behind each other */

struct tmk_constants {
    struct tmk_graph *graph; /* without observers */
    struct tmk_by_id by_id;
    struct tmk_tensor *made; /* [by_id.n] those that were asked for */
};

/* What initializers alone make; false: it is more than that. */
static bool compute_constant(const struct tmk_value *value, int depth, struct tmk_tensor *out) {
    const struct tmk_tensor *held = tmk_value_constant(value);
    const struct tmk_node *node = value->producer;
    struct tmk_tensor operands[TMK_MAX_INPUTS] = {{0}};
    const struct tmk_tensor *in[TMK_MAX_INPUTS] = {NULL};
    if (held) {
        tmk_tensor_share(out, held);
        return true;
    }
    if (!node || depth == DEEPEST || node->n_outputs != 1 || node->n_inputs > TMK_MAX_INPUTS ||
        !node->row || (node->row->flags & TMK_OP_IMPURE))
        return false;
    bool known = true;
    for (uint32_t i = 0; known && i < node->n_inputs; i++) {
        known = !node->inputs[i] || compute_constant(node->inputs[i], depth + 1, &operands[i]);
        in[i] = node->inputs[i] ? &operands[i] : NULL;
    }
    known = known && tmk_op_run(node, in, out, NULL) == TMK_OK;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        tmk_tensor_finish(&operands[i]);
    return known;
}

void tmk_constants_destroy(struct tmk_constants **slot) {
    struct tmk_constants *constants = *slot;
    if (!constants)
        return;
    *slot = NULL;
    for (size_t i = 0; constants->made && i < constants->by_id.n; i++)
        tmk_tensor_finish(&constants->made[i]);
    free(constants->made);
    tmk_by_id_finish(&constants->by_id);
    tmk_graph_destroy(&constants->graph);
    free(constants);
}

static struct tmk_constants *create_constants(const struct tmk_model *model) {
    struct tmk_constants *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    if (tmk_original(model, &made->graph, NULL) == TMK_OK &&
        tmk_by_id_init(&made->by_id, made->graph, NULL) == TMK_OK)
        made->made = calloc(made->by_id.n + 1, sizeof *made->made);
    if (!made->made)
        tmk_constants_destroy(&made);
    return made;
}

const struct tmk_tensor *tmk_model_constant(void *of, uint32_t id) {
    struct tmk_model *model = of;
    if (!model->constants)
        model->constants = create_constants(model);
    struct tmk_constants *all = model->constants;
    const struct tmk_value *value = all && id < all->by_id.n ? all->by_id.values[id] : NULL;
    if (!value)
        return NULL;
    struct tmk_tensor *made = &all->made[id];
    if (!made->data && !compute_constant(value, 0, made))
        return NULL;
    return made->kind == TMK_TYPE_TENSOR && made->dtype == TMK_FLOAT32 ? made : NULL;
}
