/* SPDX-License-Identifier: Apache-2.0 */
#include "pass/proposal.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/memory.h"

int32_t tmk_value_rank(const struct tmk_value *value) {
    const struct tmk_tensor *constant = tmk_value_constant(value);
    return constant                         ? constant->shape.rank
           : value && value->type.has_shape ? value->type.shape.rank
                                            : -1;
}

/* ---- scales ---- */

bool tmk_scale_make(uint32_t n, int32_t axis, struct tmk_scale *out) {
    double *block = calloc((size_t)n * 3, sizeof *block);
    if (!block)
        return false;
    *out = (struct tmk_scale){n, axis, block, block + n, block + (size_t)2 * n};
    return true;
}

/* The axis of a value of this rank along which the constant has its elements, all others being 1;
 * -1: there are several. */
static int32_t channel_axis(const struct tmk_shape *constant, int32_t rank) {
    int32_t axis = -1;
    for (int32_t i = 0; i < constant->rank; i++) {
        if (constant->dim[i] == 1)
            continue;
        if (axis >= 0)
            return -1;
        axis = rank - constant->rank + i;
    }
    return axis;
}

bool tmk_scale_of(const struct tmk_node *node, struct tmk_scale *out, uint32_t *constant) {
    if (node->n_inputs != 2 || node->n_outputs != 1 || !node->outputs[0])
        return false;
    const bool divides = tmk_node_is(node, TMK_DOMAIN_ONNX, "Div");
    const struct tmk_tensor *tensor = tmk_value_constant(node->inputs[1]);
    const struct tmk_tensor *first = tmk_value_constant(node->inputs[0]);
    const uint32_t which = tensor ? 1 : 0;
    const int32_t rank = tmk_value_rank(node->outputs[0]);
    if ((tensor != NULL) == (first != NULL) || (divides && !tensor) || rank < 0)
        return false;
    tensor = tensor ? tensor : first;
    const size_t n = tmk_tensor_count(tensor);
    const int32_t axis = n == 1 ? 0 : channel_axis(&tensor->shape, rank);
    if (tensor->dtype != TMK_FLOAT32 || !n || n > UINT32_MAX || axis < 0 ||
        tensor->shape.rank > rank || !tmk_scale_make((uint32_t)n, axis, out))
        return false;
    for (size_t i = 0; i < n; i++) {
        const double x = ((const float *)tensor->data)[i];
        out->factor[i] = divides ? 1 / x : x;
        out->inverse[i] = divides ? x : 1 / x;
        if (!isfinite(out->factor[i])) {
            tmk_scale_finish(out);
            return false;
        }
    }
    *constant = which;
    return true;
}

void tmk_scale_finish(struct tmk_scale *scale) {
    free(scale->factor);
    *scale = (struct tmk_scale){0};
}

bool tmk_scale_is_positive(const struct tmk_scale *scale) {
    for (uint32_t i = 0; i < scale->n; i++)
        if (!(scale->factor[i] > 0))
            return false;
    return true;
}

bool tmk_scale_has_inverse(const struct tmk_scale *scale) {
    for (uint32_t i = 0; i < scale->n; i++)
        if (!(fabs(scale->inverse[i]) <= (double)FLT_MAX) || scale->inverse[i] == 0)
            return false;
    return true;
}

struct tmk_scale tmk_scale_inverse(const struct tmk_scale *scale) {
    return (struct tmk_scale){scale->n, scale->axis, scale->inverse, scale->factor, scale->zero};
}

struct tmk_lineage_affine tmk_scale_relation(const struct tmk_scale *scale) {
    return (struct tmk_lineage_affine){scale->n, scale->axis, scale->factor, scale->zero};
}

/* ---- proposals ---- */

static bool scale_tensor(struct tmk_tensor *out, const struct tmk_tensor *in,
                         const struct tmk_scale *scale, int32_t axis, struct tmk_diag *diag) {
    size_t inner = 1;
    if (tmk_tensor_init(out, TMK_FLOAT32, &in->shape, diag) != TMK_OK)
        return false;
    for (int32_t i = axis + 1; i < in->shape.rank; i++)
        inner *= (size_t)in->shape.dim[i];
    const float *from = in->data;
    float *to = out->data;
    for (size_t i = 0; i < tmk_tensor_count(in); i++) {
        const size_t channel = scale->n == 1 ? 0 : i / inner % scale->n;
        to[i] = (float)((double)from[i] * scale->factor[channel]);
        if (isfinite(from[i]) && !isfinite(to[i]))
            return false;
    }
    return true;
}

bool tmk_propose_constant(struct tmk_proposal *p, struct tmk_node *node, uint32_t input,
                          const struct tmk_scale *scale, int32_t axis) {
    const struct tmk_tensor *tensor =
        input < node->n_inputs ? tmk_value_constant(node->inputs[input]) : NULL;
    if (!tensor || tensor->dtype != TMK_FLOAT32)
        return false;
    if (scale->n > 1 &&
        (axis < 0 || axis >= tensor->shape.rank || tensor->shape.dim[axis] != (int64_t)scale->n))
        return false;
    for (size_t i = 0; i < p->n_constants; i++)
        if (p->constants[i].node == node && p->constants[i].input == input)
            return false;
    if (!TMK_GROW(p->constants, p->n_constants, p->constants_size)) {
        p->failed = true;
        return false;
    }
    struct tmk_proposed_constant *c = &p->constants[p->n_constants];
    *c = (struct tmk_proposed_constant){
        .node = node, .input = input, .how = tmk_scale_relation(scale)};
    c->how.axis = scale->n == 1 ? 0 : axis;
    if (!scale_tensor(&c->tensor, tensor, scale, scale->n == 1 ? 0 : axis, NULL)) {
        tmk_tensor_finish(&c->tensor);
        return false;
    }
    p->n_constants++;
    return true;
}

bool tmk_propose_rescale(struct tmk_proposal *p, struct tmk_value *value,
                         const struct tmk_scale *scale) {
    for (size_t i = 0; i < p->n_rescales; i++)
        if (p->rescales[i].value == value)
            return false;
    if (!TMK_GROW(p->rescales, p->n_rescales, p->rescales_size)) {
        p->failed = true;
        return false;
    }
    p->rescales[p->n_rescales++] = (struct tmk_proposed_rescale){value, tmk_scale_relation(scale)};
    return true;
}

enum tmk_status tmk_proposal_apply(struct tmk_proposal *p) {
    for (size_t i = 0; i < p->n_constants; i++) {
        struct tmk_proposed_constant *c = &p->constants[i];
        const struct tmk_relation how = {.affine = c->how};
        struct tmk_value *fresh = NULL;
        TMK_TRY(tmk_rewrite_initializer(p->rw, c->node->graph, c->node->inputs[c->input]->name,
                                        &c->tensor, &fresh));
        TMK_TRY(tmk_rewrite_set_input(p->rw, c->node, c->input, fresh, &how));
    }
    for (size_t i = 0; i < p->n_rescales; i++) {
        const struct tmk_relation how = {.affine = p->rescales[i].how};
        TMK_TRY(tmk_rewrite_rescale(p->rw, p->rescales[i].value, &how));
    }
    return TMK_OK;
}

void tmk_proposal_finish(struct tmk_proposal *p) {
    for (size_t i = 0; i < p->n_constants; i++)
        tmk_tensor_finish(&p->constants[i].tensor);
    free(p->constants);
    free(p->rescales);
    *p = (struct tmk_proposal){0};
}
