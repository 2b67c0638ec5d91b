/* SPDX-License-Identifier: Apache-2.0 */
#include "relay/builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/map.h"
#include "base/memory.h"
#include "relay/lower.h"

static void *new_array(struct tmk_relay_builder *b, size_t count, size_t size) {
    void *memory = tmk_arena_array(b->arena, count, size);
    b->nomem |= !memory;
    return memory;
}

static const char *copy_text(struct tmk_relay_builder *b, const char *text) {
    const char *made = tmk_arena_strdup(b->arena, text);
    b->nomem |= !made;
    return made ? made : "";
}

static bool append_binding(struct tmk_relay_builder *b, struct tmk_relay_binding ***list, size_t *n,
                           size_t *size, struct tmk_relay_binding *binding) {
    if (!TMK_GROW(*list, *n, *size)) {
        b->nomem = true;
        return false;
    }
    (*list)[(*n)++] = binding;
    return true;
}

void tmk_rb_finish(struct tmk_relay_builder *b) {
    free(b->params);
    free(b->bindings);
    b->params = b->bindings = NULL;
}

static struct tmk_relay_binding **copy_list(struct tmk_relay_builder *b,
                                            struct tmk_relay_binding *const *list, size_t n) {
    struct tmk_relay_binding **made = new_array(b, n + 1, sizeof(*made));
    if (made && n)
        memcpy(made, list, n * sizeof(*made));
    return made;
}

void tmk_rb_append(struct tmk_relay_builder *b, struct tmk_relay_binding *binding) {
    if (binding)
        append_binding(b, &b->bindings, &b->n_bindings, &b->bindings_size, binding);
}

void tmk_rb_body(struct tmk_relay_builder *b, struct tmk_relay_body *body) {
    body->bindings = copy_list(b, b->bindings, b->n_bindings);
    body->n = (uint32_t)b->n_bindings;
}

static void mark_used(struct tmk_relay_builder *b, struct tmk_ptrmap *used,
                      const struct tmk_relay_expr *expr) {
    if (expr->kind == TMK_RELAY_USE && !tmk_ptrmap_put(used, expr->binding, b))
        b->nomem = true;
    for (uint32_t i = 0; i < expr->n_args; i++)
        mark_used(b, used, expr->args[i]);
}

/* Drops unused bindings, and numbers the others anew. */
static void drop_unused(struct tmk_relay_builder *b, const struct tmk_relay_expr *result) {
    struct tmk_ptrmap used = {0};
    size_t n = 0;
    char name[16];
    mark_used(b, &used, result);
    for (size_t i = b->n_bindings; i-- > 0;)
        if (tmk_ptrmap_get(&used, b->bindings[i]))
            mark_used(b, &used, b->bindings[i]->expr);
    for (size_t i = 0; i < b->n_bindings; i++) {
        if (!tmk_ptrmap_get(&used, b->bindings[i]))
            continue;
        snprintf(name, sizeof name, "%zu", n);
        b->bindings[i]->name = copy_text(b, name);
        b->bindings[n++] = b->bindings[i];
    }
    b->n_bindings = n;
    tmk_ptrmap_finish(&used);
}

enum tmk_status tmk_rb_main(struct tmk_relay_builder *b, struct tmk_relay_expr *result,
                            struct tmk_relay_type *type, struct tmk_diag *diag) {
    struct tmk_relay_function *function = new_array(b, 1, sizeof *function);
    struct tmk_relay_function **list =
        new_array(b, b->module->n_functions + 1, sizeof(struct tmk_relay_function *));
    if (b->nomem)
        return tmk_nomem(diag);
    drop_unused(b, result);
    function->form = TMK_RELAY_DEF_FORM;
    function->name = copy_text(b, "main");
    function->params = copy_list(b, b->params, b->n_params);
    function->n_params = (uint32_t)b->n_params;
    function->result = type;
    tmk_rb_body(b, &function->body);
    function->body.result = result;
    if (b->module->n_functions)
        memcpy(list, b->module->functions, b->module->n_functions * sizeof(*list));
    list[b->module->n_functions++] = function;
    b->module->functions = list;
    return b->nomem ? tmk_nomem(diag) : TMK_OK;
}

/* ---- attributes ---- */

static void set_attr(struct tmk_relay_builder *b, const char *name, struct tmk_relay_value value) {
    if (b->attrs.n < TMK_RB_MAX_ATTRS)
        b->attrs.items[b->attrs.n++] = (struct tmk_relay_attr){name, value};
}

static struct tmk_relay_value of_int(struct tmk_relay_builder *b, int64_t i) {
    char text[32];
    const bool wide = i < INT32_MIN || i > INT32_MAX;
    snprintf(text, sizeof text, "%lld%s", (long long)i, wide ? "i64" : "");
    return (struct tmk_relay_value){.kind = TMK_RELAY_INT, .i = i, .s = copy_text(b, text)};
}

static struct tmk_relay_value of_real(struct tmk_relay_builder *b, float value) {
    char text[40];
    tmk_format_float(value, text);
    strcat(text, "f");
    return (struct tmk_relay_value){
        .kind = TMK_RELAY_REAL, .real = strtod(text, NULL), .s = copy_text(b, text)};
}

static struct tmk_relay_value list_of(struct tmk_relay_builder *b, size_t n) {
    struct tmk_relay_value list = {.kind = TMK_RELAY_LIST,
                                   .items = new_array(b, n + 1, sizeof(struct tmk_relay_value))};
    list.n = list.items ? (uint32_t)n : 0;
    return list;
}

static struct tmk_relay_value of_ints(struct tmk_relay_builder *b, const int64_t *values,
                                      size_t n) {
    struct tmk_relay_value list = list_of(b, n);
    for (size_t i = 0; i < list.n; i++)
        list.items[i] = of_int(b, values[i]);
    return list;
}

void tmk_rb_set_int(struct tmk_relay_builder *b, const char *name, int64_t value) {
    set_attr(b, name, of_int(b, value));
}

void tmk_rb_set_ints(struct tmk_relay_builder *b, const char *name, const int64_t *values,
                     size_t n) {
    set_attr(b, name, of_ints(b, values, n));
}

void tmk_rb_set_pairs(struct tmk_relay_builder *b, const char *name, const int64_t *values,
                      size_t n) {
    struct tmk_relay_value list = list_of(b, n);
    for (size_t i = 0; i < list.n; i++)
        list.items[i] = of_ints(b, values + 2 * i, 2);
    set_attr(b, name, list);
}

void tmk_rb_set_real(struct tmk_relay_builder *b, const char *name, float value) {
    set_attr(b, name, of_real(b, value));
}

void tmk_rb_set_reals(struct tmk_relay_builder *b, const char *name, const float *values,
                      size_t n) {
    struct tmk_relay_value list = list_of(b, n);
    for (size_t i = 0; i < list.n; i++)
        list.items[i] = of_real(b, values[i]);
    set_attr(b, name, list);
}

void tmk_rb_set_bool(struct tmk_relay_builder *b, const char *name, bool value) {
    set_attr(b, name, (struct tmk_relay_value){.kind = TMK_RELAY_BOOL, .i = value});
}

void tmk_rb_set_none(struct tmk_relay_builder *b, const char *name) {
    set_attr(b, name, (struct tmk_relay_value){.kind = TMK_RELAY_NONE});
}

static struct tmk_relay_value of_text(struct tmk_relay_builder *b, const char *value) {
    return (struct tmk_relay_value){.kind = TMK_RELAY_STRING, .s = copy_text(b, value)};
}

void tmk_rb_set_string(struct tmk_relay_builder *b, const char *name, const char *value) {
    set_attr(b, name, of_text(b, value));
}

/* ---- types ---- */

struct tmk_relay_type *tmk_rb_tensor_type(struct tmk_arena *arena, enum tmk_dtype dtype,
                                          const struct tmk_shape *shape) {
    if (dtype == TMK_UNDEFINED || !shape)
        return NULL;
    struct tmk_relay_type *type = tmk_arena_alloc(arena, sizeof *type);
    int64_t *dims = tmk_arena_array(arena, TMK_MAX_RANK, sizeof *dims);
    if (!type || !dims)
        return NULL;
    memcpy(dims, shape->dim, (size_t)shape->rank * sizeof *dims);
    *type = (struct tmk_relay_type){.kind = TMK_RELAY_TENSOR,
                                    .dtype = tmk_dtype_name(dtype),
                                    .dims = dims,
                                    .n = (uint32_t)shape->rank};
    return type;
}

/* ---- expressions ---- */

static struct tmk_relay_expr *make_expr(struct tmk_relay_builder *b,
                                        enum tmk_relay_expr_kind kind) {
    struct tmk_relay_expr *expr = new_array(b, 1, sizeof *expr);
    if (expr)
        expr->kind = kind;
    return expr;
}

struct tmk_relay_expr *tmk_rb_use(struct tmk_relay_builder *b, struct tmk_relay_binding *binding) {
    struct tmk_relay_expr *expr = binding ? make_expr(b, TMK_RELAY_USE) : NULL;
    if (expr)
        expr->binding = binding;
    return expr;
}

struct tmk_relay_binding *tmk_rb_make_binding(struct tmk_relay_builder *b,
                                              struct tmk_relay_expr *expr) {
    struct tmk_relay_binding *binding = new_array(b, 1, sizeof *binding);
    char name[16];
    if (!binding || !expr)
        return NULL;
    snprintf(name, sizeof name, "%u", b->next++);
    *binding = (struct tmk_relay_binding){
        .kind = TMK_RELAY_NUMBERED, .name = copy_text(b, name), .expr = expr};
    return binding;
}

struct tmk_relay_expr *tmk_rb_add_param(struct tmk_relay_builder *b, const char *name,
                                        struct tmk_relay_type *type) {
    struct tmk_relay_binding *binding = new_array(b, 1, sizeof *binding);
    if (!binding || !append_binding(b, &b->params, &b->n_params, &b->params_size, binding))
        return NULL;
    *binding = (struct tmk_relay_binding){
        .kind = TMK_RELAY_PARAM, .name = copy_text(b, name), .type = type};
    return tmk_rb_use(b, binding);
}

static struct tmk_relay_expr *bind_expr(struct tmk_relay_builder *b, struct tmk_relay_expr *expr) {
    struct tmk_relay_binding *binding = tmk_rb_make_binding(b, expr);
    if (!binding || !append_binding(b, &b->bindings, &b->n_bindings, &b->bindings_size, binding))
        return NULL;
    return tmk_rb_use(b, binding);
}

static struct tmk_relay_expr *copy_expr(struct tmk_relay_builder *b, struct tmk_relay_expr *expr) {
    struct tmk_relay_expr *copied = expr ? make_expr(b, expr->kind) : NULL;
    if (copied)
        *copied = *expr;
    return copied;
}

static struct tmk_relay_expr **copy_operands(struct tmk_relay_builder *b,
                                             struct tmk_relay_expr *const *from, uint32_t n) {
    struct tmk_relay_expr **list = new_array(b, n + 1, sizeof(*list));
    for (uint32_t i = 0; list && i < n; i++)
        if (!(list[i] = copy_expr(b, from[i])))
            return NULL;
    return list;
}

static struct tmk_relay_expr *make_call(struct tmk_relay_builder *b, const char *op,
                                        struct tmk_relay_expr *const *args, uint32_t n,
                                        const struct tmk_relay_attr *attrs, uint32_t n_attrs) {
    struct tmk_relay_expr *call = make_expr(b, TMK_RELAY_CALL);
    struct tmk_relay_expr *callee = make_expr(b, TMK_RELAY_OPERATOR);
    struct tmk_relay_expr **list = copy_operands(b, args, n);
    struct tmk_relay_attr *set = new_array(b, n_attrs + 1, sizeof *set);
    if (!call || !callee || !list || !set)
        return NULL;
    callee->text = op;
    call->callee = callee;
    call->args = list;
    call->n_args = n;
    call->attrs = set;
    call->n_attrs = n_attrs;
    if (n_attrs)
        memcpy(set, attrs, n_attrs * sizeof *set);
    return call;
}

struct tmk_relay_expr *tmk_rb_make_call(struct tmk_relay_builder *b, const char *op,
                                        struct tmk_relay_expr *const *args, uint32_t n,
                                        struct tmk_relay_type *type) {
    struct tmk_relay_expr *call = make_call(b, op, args, n, b->attrs.items, b->attrs.n);
    b->attrs.n = 0;
    if (call)
        call->type = type;
    return call;
}

/* ---- types of what is made on the way ---- */

static const struct tmk_relay_type *type_of(const struct tmk_relay_expr *expr) {
    const struct tmk_relay_type *type = expr->type;
    if (!type && expr->kind == TMK_RELAY_USE)
        type = expr->binding->expr ? expr->binding->expr->type : expr->binding->type;
    return type && type->kind == TMK_RELAY_TENSOR ? type : NULL;
}

/* NumPy's broadcasting; -1 gives way to what is known. */
static void broadcast_shape(struct tmk_shape *shape, const struct tmk_relay_type *type) {
    struct tmk_shape all = {.rank =
                                shape->rank > (int32_t)type->n ? shape->rank : (int32_t)type->n};
    for (int32_t i = 1; i <= all.rank; i++) {
        const int64_t a = i <= shape->rank ? shape->dim[shape->rank - i] : 1,
                      b = i <= (int32_t)type->n ? type->dims[type->n - (uint32_t)i] : 1;
        all.dim[all.rank - i] = a == 1 || (a < 0 && b > 1) ? b : a;
    }
    *shape = all;
}

/* Of an operator that is so by its row; else NULL. */
static struct tmk_relay_type *infer_type(struct tmk_relay_builder *b,
                                         const struct tmk_relay_expr *call) {
    struct tmk_shape shape = {0};
    const char *dtype = NULL;
    const struct tmk_relay_op *op = tmk_relay_op_find(call->callee->text);
    if (!op || !(op->flags & TMK_RELAY_BROADCASTS))
        return NULL;
    for (uint32_t i = 0; i < call->n_args; i++) {
        const struct tmk_relay_type *type = type_of(call->args[i]);
        if (!type)
            return NULL;
        dtype = dtype ? dtype : type->dtype;
        if (strcmp(call->callee->text, "nn.bias_add") != 0 || !i)
            broadcast_shape(&shape, type);
    }
    if (strcmp(call->callee->text, "cast") == 0)
        dtype = call->attrs[0].value.s;
    return tmk_rb_tensor_type(b->arena, tmk_dtype_by_name(dtype), &shape);
}

static struct tmk_relay_expr *bind_call(struct tmk_relay_builder *b, struct tmk_relay_expr *call) {
    if (call)
        call->type = infer_type(b, call);
    return bind_expr(b, call);
}

struct tmk_relay_expr *tmk_rb_call(struct tmk_relay_builder *b, const char *op,
                                   struct tmk_relay_expr *const *args, uint32_t n) {
    return bind_call(b, tmk_rb_make_call(b, op, args, n, NULL));
}

struct tmk_relay_expr *tmk_rb_items(struct tmk_relay_builder *b,
                                    struct tmk_relay_expr *const *items, uint32_t n) {
    struct tmk_relay_expr *expr = make_expr(b, TMK_RELAY_ITEMS);
    struct tmk_relay_expr **list = copy_operands(b, items, n);
    if (!expr || !list)
        return NULL;
    expr->args = list;
    expr->n_args = n;
    return expr;
}

struct tmk_relay_expr *tmk_rb_project(struct tmk_relay_builder *b, struct tmk_relay_expr *tuple,
                                      uint32_t index) {
    struct tmk_relay_expr *expr = make_expr(b, TMK_RELAY_PROJECT);
    struct tmk_relay_expr **list = copy_operands(b, &tuple, 1);
    if (!expr || !list)
        return NULL;
    expr->args = list;
    expr->n_args = 1;
    expr->index = index;
    return bind_expr(b, expr);
}

struct tmk_relay_expr *tmk_rb_scalar(struct tmk_relay_builder *b, enum tmk_dtype dtype,
                                     double value) {
    const bool direct =
        dtype == TMK_FLOAT32 || dtype == TMK_INT32 || dtype == TMK_INT64 || dtype == TMK_BOOL;
    const enum tmk_dtype spelled = direct ? dtype : TMK_INT32;
    const struct tmk_shape none = {0};
    struct tmk_relay_expr *expr = make_expr(b, TMK_RELAY_CONSTANT);
    void *bytes = new_array(b, 1, sizeof(int64_t));
    char text[40];
    if (!expr || !bytes)
        return NULL;
    tmk_tensor_borrow(&expr->data, spelled, &none, bytes);
    if (spelled == TMK_FLOAT32) {
        *(float *)expr->data.data = (float)value;
        tmk_format_float((float)value, text);
        strcat(text, "f");
    } else if (spelled == TMK_BOOL) {
        *(uint8_t *)expr->data.data = value != 0;
        strcpy(text, value != 0 ? "True" : "False");
    } else if (spelled == TMK_INT64) {
        *(int64_t *)expr->data.data = (int64_t)value;
        snprintf(text, sizeof text, "%lldi64", (long long)value);
    } else {
        *(int32_t *)expr->data.data = (int32_t)value;
        snprintf(text, sizeof text, "%d", (int32_t)value);
    }
    expr->text = copy_text(b, text);
    expr->dtype = tmk_dtype_name(spelled);
    expr->type = tmk_rb_tensor_type(b->arena, spelled, &none);
    return direct ? expr : tmk_rb_cast(b, expr, dtype);
}

struct tmk_relay_expr *tmk_rb_add_constant(struct tmk_relay_builder *b,
                                           const struct tmk_tensor *tensor) {
    struct tmk_relay_module *module = b->module;
    struct tmk_relay_expr *expr = make_expr(b, TMK_RELAY_METADATA);
    if (!expr)
        return NULL;
    expr->text = "relay.Constant";
    expr->index = module->n_constants;
    expr->dtype = tmk_dtype_name(tensor->dtype);
    b->nomem |= tmk_relay_add_constant(module, tensor, expr->dtype, NULL) != TMK_OK;
    tmk_tensor_borrow(&expr->data, tensor->dtype, &tensor->shape, tensor->data);
    expr->type = tmk_rb_tensor_type(b->arena, tensor->dtype, &tensor->shape);
    module->has_metadata = true;
    return expr;
}

struct tmk_relay_expr *tmk_rb_cast(struct tmk_relay_builder *b, struct tmk_relay_expr *x,
                                   enum tmk_dtype dtype) {
    const struct tmk_relay_attr attr = {"dtype", of_text(b, tmk_dtype_name(dtype))};
    return bind_call(b, make_call(b, "cast", &x, 1, &attr, 1));
}

struct tmk_relay_expr *tmk_rb_reshape(struct tmk_relay_builder *b, struct tmk_relay_expr *x,
                                      const int64_t *dims, size_t n) {
    const struct tmk_relay_attr attr = {"newshape", of_ints(b, dims, n)};
    return bind_call(b, make_call(b, "reshape", &x, 1, &attr, 1));
}
