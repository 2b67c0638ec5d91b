/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of an annotated text as codes: the params file has integers, the text dequantizes
 * them. */
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "export/qdq.h"
#include "relay/export.h"

/* qnn.dequantize takes these. */
static bool can_dequantize(enum tmk_dtype dtype) {
    return dtype == TMK_INT8 || dtype == TMK_UINT8 || dtype == TMK_INT16 || dtype == TMK_INT32;
}

const struct tmk_relay_param *tmk_relay_codable(const struct tmk_relay_coding *c,
                                                const struct tmk_value *value, const char *name,
                                                const struct tmk_encoding *encoding) {
    const struct tmk_relay_param *param = tmk_relay_params_find(c->from, name);
    const bool fits = param && value && encoding && encoding->role != TMK_ENCODING_ACTIVATION &&
                      can_dequantize(encoding->dtype) && param->tensor.dtype == TMK_FLOAT32;
    return fits ? param : NULL;
}

static bool same_zeros(const struct tmk_encoding *e) {
    for (uint32_t i = 1; i < e->n; i++)
        if (e->zero_point[i] != e->zero_point[0])
            return false;
    return true;
}

/* A parameter "NAME_what" of one number a channel. */
static struct tmk_relay_expr *by_channel(struct tmk_relay_coding *c, struct tmk_relay_builder *b,
                                         const char *name, const char *what, enum tmk_dtype dtype,
                                         const void *numbers, uint32_t n) {
    const struct tmk_shape shape = {.rank = 1, .dim = {n}};
    const size_t size = strlen(name) + strlen(what) + 1;
    char *text = tmk_arena_alloc(b->arena, size);
    struct tmk_tensor tensor;
    b->nomem |= !text;
    if (!text || c->status != TMK_OK)
        return NULL;
    snprintf(text, size, "%s%s", name, what);
    if ((c->status = tmk_tensor_init(&tensor, dtype, &shape, c->diag)) != TMK_OK)
        return NULL;
    memcpy(tensor.data, numbers, tmk_tensor_bytes(&tensor));
    c->status = tmk_relay_params_add(c->to, text, &tensor, c->diag);
    tmk_tensor_finish(&tensor);
    return tmk_rb_add_param(b, text, tmk_rb_tensor_type(b->arena, dtype, &shape));
}

struct tmk_relay_expr *tmk_relay_decode(struct tmk_relay_coding *c, struct tmk_relay_builder *b,
                                        const struct tmk_relay_param *param,
                                        const struct tmk_encoding *e,
                                        struct tmk_relay_binding *binding) {
    struct tmk_tensor codes;
    if (c->status != TMK_OK)
        return NULL;
    if ((c->status = tmk_qdq_codes(&param->tensor, e, e->scale, &codes, c->diag)) != TMK_OK)
        return NULL;
    c->status = tmk_relay_params_add(c->to, param->name, &codes, c->diag);
    binding->type = tmk_rb_tensor_type(b->arena, codes.dtype, &codes.shape);
    tmk_tensor_finish(&codes);
    struct tmk_relay_expr *args[] = {
        tmk_rb_use(b, binding),
        e->n == 1 ? tmk_rb_scalar(b, TMK_FLOAT32, e->scale[0])
                  : by_channel(c, b, binding->name, "_scale", TMK_FLOAT32, e->scale, e->n),
        same_zeros(e)
            ? tmk_rb_scalar(b, TMK_INT32, e->zero_point[0])
            : by_channel(c, b, binding->name, "_zero_point", TMK_INT32, e->zero_point, e->n)};
    if (e->n > 1)
        tmk_rb_set_int(b, "axis", e->axis);
    return tmk_rb_make_call(b, "qnn.dequantize", args, 3,
                            tmk_rb_tensor_type(b->arena, TMK_FLOAT32, &param->tensor.shape));
}

void tmk_relay_keep(struct tmk_relay_coding *c, const char *name) {
    const struct tmk_relay_param *param = tmk_relay_params_find(c->from, name);
    if (param && c->status == TMK_OK)
        c->status = tmk_relay_params_add(c->to, param->name, &param->tensor, c->diag);
}
