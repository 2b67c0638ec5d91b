/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/kernel.h"

#include <string.h>

#include "tensor/list.h"

enum tmk_status tmk_run_show(struct tmk_run *run, uint32_t i, const float *x, size_t first,
                             size_t n) {
    struct tmk_tensor *out = tmk_run_out(run, i);
    if (!out || !n)
        return TMK_OK;
    if (!out->data)
        return run->show(run->context, i, x, first, n, run->diag);
    memcpy((float *)out->data + first, x, n * sizeof *x);
    return TMK_OK;
}

void *tmk_scratch(struct tmk_run *run, size_t count, size_t element) {
    size_t bytes;
    return tmk_mul_size(count, element, &bytes) ? run->scratch(run->context, bytes ? bytes : 1)
                                                : NULL;
}

enum tmk_status tmk_scratch_floats(struct tmk_run *run, size_t a, size_t b, size_t c, float **out) {
    size_t n = sizeof(float);
    *out = tmk_mul_size(n, a, &n) && tmk_mul_size(n, b, &n) ? tmk_scratch(run, n, c) : NULL;
    return *out ? TMK_OK : tmk_nomem(run->diag);
}

enum tmk_status tmk_choice(const struct tmk_node *node, const char *attr, const char *names,
                           int *out, struct tmk_diag *diag) {
    const char *text = tmk_node_string(node, attr, NULL), *at = names;
    for (*out = 0; text && *at; ++*out) {
        const size_t n = strcspn(at, " ");
        if (strlen(text) == n && memcmp(text, at, n) == 0)
            return TMK_OK;
        at += n + (at[n] == ' ');
    }
    return text ? tmk_fail(diag, TMK_RANGE, "attribute '%s' is '%s', not one of: %s", attr, text,
                           names)
                : TMK_OK;
}

enum tmk_status tmk_axis(int64_t axis, int32_t rank, int32_t *out, struct tmk_diag *diag) {
    if (axis < -(int64_t)rank || axis >= rank)
        return tmk_fail(diag, TMK_RANGE, "axis %lld is outside [-%d, %d)", (long long)axis, rank,
                        rank);
    *out = (int32_t)(axis < 0 ? axis + rank : axis);
    return TMK_OK;
}

enum tmk_status tmk_broadcast(const struct tmk_shape *a, const struct tmk_shape *b,
                              struct tmk_shape *out, struct tmk_diag *diag) {
    struct tmk_shape r = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (int32_t i = 1; i <= r.rank; i++) {
        int64_t x = i <= a->rank ? a->dim[a->rank - i] : 1;
        int64_t y = i <= b->rank ? b->dim[b->rank - i] : 1;
        if (x != y && x != 1 && y != 1) {
            return tmk_fail(diag, TMK_SHAPE, "shapes %s and %s do not broadcast", TMK_SHAPE_TEXT(a),
                            TMK_SHAPE_TEXT(b));
        }
        r.dim[r.rank - i] = x == 1 ? y : x;
    }
    *out = r;
    return TMK_OK;
}

void tmk_strides(const struct tmk_shape *shape, int64_t strides[TMK_MAX_RANK]) {
    /* unsigned: an empty tensor's other dimensions may multiply to anything, and its strides are
     * not used */
    uint64_t stride = 1;
    for (int32_t i = shape->rank - 1; i >= 0; i--) {
        strides[i] = (int64_t)stride;
        stride *= shape->dim[i] ? (uint64_t)shape->dim[i] : 1;
    }
}

void tmk_broadcast_strides(const struct tmk_shape *shape, const struct tmk_shape *out,
                           int64_t strides[TMK_MAX_RANK]) {
    int64_t own[TMK_MAX_RANK];
    int32_t shift = out->rank - shape->rank;
    tmk_strides(shape, own);
    for (int32_t i = 0; i < out->rank; i++)
        strides[i] = i < shift || shape->dim[i - shift] == 1 ? 0 : own[i - shift];
}

enum tmk_status tmk_read_ints(const struct tmk_tensor *tensor, const char *what, size_t limit,
                              int64_t *out, size_t *n, struct tmk_diag *diag) {
    size_t count = tmk_tensor_count(tensor);
    if (tensor->dtype != TMK_INT64 && tensor->dtype != TMK_INT32)
        return tmk_fail(diag, TMK_TYPE, "%s must be int64, but is %s", what,
                        tmk_dtype_name(tensor->dtype));
    if (tensor->shape.rank > 1)
        return tmk_fail(diag, TMK_SHAPE, "%s must have one axis, but has %d", what,
                        tensor->shape.rank);
    if (count > limit)
        return tmk_fail(diag, TMK_RANGE, "%s has %zu elements; at most %zu make sense", what, count,
                        limit);
    for (size_t i = 0; i < count; i++) {
        int32_t narrow;
        if (tensor->dtype == TMK_INT64) {
            memcpy(&out[i], (const char *)tensor->data + i * 8, 8);
        } else {
            memcpy(&narrow, (const char *)tensor->data + i * 4, 4);
            out[i] = narrow;
        }
    }
    *n = count;
    return TMK_OK;
}

enum tmk_status tmk_read_int(const struct tmk_tensor *tensor, const char *what, int64_t *out,
                             struct tmk_diag *diag) {
    size_t n;
    TMK_TRY(tmk_read_ints(tensor, what, 1, out, &n, diag));
    return n == 1 ? TMK_OK : tmk_fail(diag, TMK_SHAPE, "%s must be one number", what);
}

enum tmk_status tmk_want_dtype(const struct tmk_tensor *tensor, enum tmk_dtype dtype,
                               const char *what, struct tmk_diag *diag) {
    if (tensor->dtype == dtype)
        return TMK_OK;
    return tmk_fail(diag, TMK_TYPE, "%s must be %s, but is %s", what, tmk_dtype_name(dtype),
                    tmk_dtype_name(tensor->dtype));
}

enum tmk_status tmk_want_rank(const struct tmk_shape *input, int32_t least, struct tmk_diag *diag) {
    return input->rank >= least
               ? TMK_OK
               : tmk_fail(diag, TMK_SHAPE, "the input has rank %d, and needs %d at least",
                          (int)input->rank, (int)least);
}

enum tmk_status tmk_want_shape(const struct tmk_tensor *tensor, enum tmk_dtype dtype,
                               const char *what, const struct tmk_shape *shape,
                               struct tmk_diag *diag) {
    if (!tensor)
        return TMK_OK;
    TMK_TRY(tmk_want_dtype(tensor, dtype, what, diag));
    bool fits = tensor->shape.rank == shape->rank;
    for (int32_t i = 0; fits && i < shape->rank; i++)
        fits = shape->dim[i] == -1 || tensor->shape.dim[i] == shape->dim[i];
    return fits ? TMK_OK
                : tmk_fail(diag, TMK_SHAPE, "input '%s' is %s, not %s", what,
                           TMK_SHAPE_TEXT(&tensor->shape), TMK_SHAPE_TEXT(shape));
}

enum tmk_status tmk_want_scalar(const struct tmk_tensor *tensor, enum tmk_dtype dtype,
                                const char *what, struct tmk_diag *diag) {
    if (!tensor)
        return TMK_OK;
    if (dtype != TMK_UNDEFINED)
        TMK_TRY(tmk_want_dtype(tensor, dtype, what, diag));
    if (tmk_tensor_count(tensor) != 1)
        return tmk_fail(diag, TMK_SHAPE, "input '%s' is %s, and must have one element", what,
                        TMK_SHAPE_TEXT(&tensor->shape));
    return TMK_OK;
}

static enum tmk_status want_kind(const struct tmk_tensor *tensor, enum tmk_type_kind kind,
                                 const char *what, struct tmk_diag *diag) {
    if (tensor->kind == kind)
        return TMK_OK;
    return tmk_fail(diag, TMK_TYPE, "%s must be %s, but is %s", what, tmk_type_kind_text(kind),
                    tmk_tensor_what(tensor));
}

enum tmk_status tmk_want_tensor(const struct tmk_tensor *tensor, const char *what,
                                struct tmk_diag *diag) {
    return want_kind(tensor, TMK_TYPE_TENSOR, what, diag);
}

enum tmk_status tmk_want_sequence(const struct tmk_tensor *tensor, const char *what,
                                  struct tmk_diag *diag) {
    return want_kind(tensor, TMK_TYPE_SEQUENCE, what, diag);
}

enum tmk_status tmk_infer_same(struct tmk_infer *infer) {
    return tmk_infer_set(infer, 0, infer->in[0]->dtype, &infer->in[0]->shape);
}
