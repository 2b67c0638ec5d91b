/* SPDX-License-Identifier: Apache-2.0 */
/* Relay expressions, made one by one.
 *
 * Everything lives in the module's arena. Functions return NULL once memory ran out (`nomem` stays
 * set) and accept NULL operands then, so that callers check once, at the end. An expression may be
 * an operand any number of times: the tree contains copies. One thread at a time. */
#pragma once

#include "relay/ast.h"

enum { TMK_RB_MAX_ATTRS = 16 };
struct tmk_relay_attrs {
    struct tmk_relay_attr items[TMK_RB_MAX_ATTRS];
    uint32_t n;
};

/* Zero-initialise but for module and arena; end with tmk_rb_finish. */
struct tmk_relay_builder {
    struct tmk_relay_module *module;
    struct tmk_arena *arena; /* the module's */
    struct tmk_relay_binding **params, **bindings;
    size_t n_params, params_size, n_bindings, bindings_size;
    uint32_t next;                /* number of the next "%N" */
    struct tmk_relay_attrs attrs; /* of the next call */
    bool nomem;
};
void tmk_rb_finish(struct tmk_relay_builder *b);
/* The bindings become the module's function "main", with this result; unused ones are left out. */
enum tmk_status tmk_rb_main(struct tmk_relay_builder *b, struct tmk_relay_expr *result,
                            struct tmk_relay_type *type, struct tmk_diag *diag);

/* Puts a binding behind those that were made, or nothing for NULL; and all of them into a body. */
void tmk_rb_append(struct tmk_relay_builder *b, struct tmk_relay_binding *binding);
void tmk_rb_body(struct tmk_relay_builder *b, struct tmk_relay_body *body);

/* Attributes of the next call. Names are literals, all else is copied. A call takes at most
 * TMK_RB_MAX_ATTRS. */
void tmk_rb_set_int(struct tmk_relay_builder *b, const char *name, int64_t value);
void tmk_rb_set_ints(struct tmk_relay_builder *b, const char *name, const int64_t *values,
                     size_t n);
/* [[a, b], [c, d], ...] of 2 * n values */
void tmk_rb_set_pairs(struct tmk_relay_builder *b, const char *name, const int64_t *values,
                      size_t n);
/* Spelled so that they read back to the same bits. */
void tmk_rb_set_real(struct tmk_relay_builder *b, const char *name, float value);
void tmk_rb_set_reals(struct tmk_relay_builder *b, const char *name, const float *values, size_t n);
void tmk_rb_set_bool(struct tmk_relay_builder *b, const char *name, bool value);
/* None */
void tmk_rb_set_none(struct tmk_relay_builder *b, const char *name);
void tmk_rb_set_string(struct tmk_relay_builder *b, const char *name, const char *value);

/* The type of a tensor; NULL where the element type or the rank is not known. -1 is '?'. */
struct tmk_relay_type *tmk_rb_tensor_type(struct tmk_arena *arena, enum tmk_dtype dtype,
                                          const struct tmk_shape *shape);

/* A parameter of the function. `name` is spelled as it is. */
struct tmk_relay_expr *tmk_rb_add_param(struct tmk_relay_builder *b, const char *name,
                                        struct tmk_relay_type *type);
/* A binding that the caller puts among others himself. */
struct tmk_relay_binding *tmk_rb_make_binding(struct tmk_relay_builder *b,
                                              struct tmk_relay_expr *expr);
/* A use of the binding. */
struct tmk_relay_expr *tmk_rb_use(struct tmk_relay_builder *b, struct tmk_relay_binding *binding);
/* A call with the attributes that were set, not bound to a name. type: NULL: none. */
struct tmk_relay_expr *tmk_rb_make_call(struct tmk_relay_builder *b, const char *op,
                                        struct tmk_relay_expr *const *args, uint32_t n,
                                        struct tmk_relay_type *type);
/* `%N = op(args, attrs)`. Returns the use of %N. */
struct tmk_relay_expr *tmk_rb_call(struct tmk_relay_builder *b, const char *op,
                                   struct tmk_relay_expr *const *args, uint32_t n);
/* `%N = tuple.index` */
struct tmk_relay_expr *tmk_rb_project(struct tmk_relay_builder *b, struct tmk_relay_expr *tuple,
                                      uint32_t index);
/* (a, b, ...), to be an operand */
struct tmk_relay_expr *tmk_rb_items(struct tmk_relay_builder *b,
                                    struct tmk_relay_expr *const *items, uint32_t n);
/* A scalar: 6f, 3, 3i64, True. Types other than float32, int32, int64 and bool are cast from
 * int32. */
struct tmk_relay_expr *tmk_rb_scalar(struct tmk_relay_builder *b, enum tmk_dtype dtype,
                                     double value);
/* meta[relay.Constant][i], which the tensor becomes (shared). */
struct tmk_relay_expr *tmk_rb_add_constant(struct tmk_relay_builder *b,
                                           const struct tmk_tensor *tensor);
/* cast(x, dtype=...); attributes that were set stay for the next call. */
struct tmk_relay_expr *tmk_rb_cast(struct tmk_relay_builder *b, struct tmk_relay_expr *x,
                                   enum tmk_dtype dtype);
/* reshape(x, newshape=...), likewise */
struct tmk_relay_expr *tmk_rb_reshape(struct tmk_relay_builder *b, struct tmk_relay_expr *x,
                                      const int64_t *dims, size_t n);

/* ---- names ---- */

/* A name as TVM's reader takes it: letters, digits, '_' and '/', no digit and no '/' at the front.
 * Any other byte becomes _xHH (two small hexadecimal digits), an '_' that already begins such a
 * group becomes _x5f, and "v_x_" goes before a name that is empty or begins with a digit, '/' or
 * itself with "v_x_". NULL when memory ran out. */
const char *tmk_relay_escape(struct tmk_arena *arena, const char *name);
/* The name that was escaped; the very text where it holds no escapes. NULL when memory ran out. */
const char *tmk_relay_unescape(struct tmk_arena *arena, const char *text);
