/* SPDX-License-Identifier: Apache-2.0 */
/* What the operators' files share: shape helpers, checks, and the loops that many kernels are made
 * of. */
#pragma once

#include "base/diag.h"
#include "base/size.h"
#include "ops/ops.h"
#include "tensor/shape.h"

/* What infer finds of output i. */
static inline void tmk_infer_put(struct tmk_infer *infer, uint32_t i, enum tmk_dtype dtype,
                                 const struct tmk_shape *shape) {
    if (i < infer->n_out)
        infer->out[i] = (struct tmk_infer_result){true, dtype, *shape};
}
/* The same; TMK_OK, so that infer may end with it. */
static inline enum tmk_status tmk_infer_set(struct tmk_infer *infer, uint32_t i,
                                            enum tmk_dtype dtype, const struct tmk_shape *shape) {
    tmk_infer_put(infer, i, dtype, shape);
    return TMK_OK;
}

/* Input i of n, or NULL when it is absent. */
static inline const struct tmk_tensor *tmk_operand(const struct tmk_tensor *const *in, uint32_t n,
                                                   uint32_t i) {
    return i < n ? in[i] : NULL;
}
static inline const struct tmk_tensor *tmk_infer_in(const struct tmk_infer *infer, uint32_t i) {
    return tmk_operand(infer->in, infer->n_in, i);
}
static inline const struct tmk_tensor *tmk_run_in(const struct tmk_run *run, uint32_t i) {
    return tmk_operand(run->in, run->n_in, i);
}
static inline struct tmk_tensor *tmk_run_out(const struct tmk_run *run, uint32_t i) {
    return i < run->n_out ? run->out[i] : NULL;
}
/* The elements of output i; NULL: it is not wanted, or has none. */
static inline void *tmk_run_elements(const struct tmk_run *run, uint32_t i) {
    struct tmk_tensor *out = tmk_run_out(run, i);
    return out && tmk_tensor_count(out) ? out->data : NULL;
}

/* Makes output i of a TMK_OP_SIZES_ITSELF operator; TMK_OK at once when it is not wanted. */
static inline enum tmk_status tmk_run_alloc(struct tmk_run *run, uint32_t i, enum tmk_dtype dtype,
                                            const struct tmk_shape *shape) {
    return tmk_run_out(run, i) ? run->alloc(run->context, i, dtype, shape, run->diag) : TMK_OK;
}

/* Elements [first, first + n) of an inner output (tmk_op.inner) that is wanted. */
enum tmk_status tmk_run_show(struct tmk_run *run, uint32_t i, const float *x, size_t first,
                             size_t n);

/* Scratch for so many elements, or for a * b * c floats, and for one byte at least. The former is
 * NULL, the latter fails with TMK_NOMEM, when there is none. */
void *tmk_scratch(struct tmk_run *run, size_t count, size_t element);
enum tmk_status tmk_scratch_floats(struct tmk_run *run, size_t a, size_t b, size_t c, float **out);

/* Which of the names, separated by blanks, the text attribute is, counted from 0; absent: the
 * first. TMK_RANGE: none of them. */
enum tmk_status tmk_choice(const struct tmk_node *node, const char *attr, const char *names,
                           int *out, struct tmk_diag *diag);

/* -rank <= axis < rank becomes 0 <= axis < rank; TMK_RANGE otherwise. */
enum tmk_status tmk_axis(int64_t axis, int32_t rank, int32_t *out, struct tmk_diag *diag);
/* NumPy's broadcasting of two shapes; TMK_SHAPE when they do not fit. `out` may be `a` or `b`. */
enum tmk_status tmk_broadcast(const struct tmk_shape *a, const struct tmk_shape *b,
                              struct tmk_shape *out, struct tmk_diag *diag);
/* Element strides of `shape` when walked in the shape of `out` (0 where it is broadcast); `shape`
 * must broadcast to `out`. */
void tmk_broadcast_strides(const struct tmk_shape *shape, const struct tmk_shape *out,
                           int64_t strides[TMK_MAX_RANK]);
/* Row-major element strides. */
void tmk_strides(const struct tmk_shape *shape, int64_t strides[TMK_MAX_RANK]);

/* Reads a whole integer tensor (int32 or int64, rank 0 or 1, at most `limit` elements) into `out`;
 * TMK_TYPE, TMK_SHAPE or TMK_RANGE state what is wrong with "what". The tensor's data must be
 * known. */
enum tmk_status tmk_read_ints(const struct tmk_tensor *tensor, const char *what, size_t limit,
                              int64_t *out, size_t *n, struct tmk_diag *diag);
/* The same of one number. */
enum tmk_status tmk_read_int(const struct tmk_tensor *tensor, const char *what, int64_t *out,
                             struct tmk_diag *diag);

/* TMK_TYPE unless the tensor has this type; "what" names the input. */
enum tmk_status tmk_want_dtype(const struct tmk_tensor *tensor, enum tmk_dtype dtype,
                               const char *what, struct tmk_diag *diag);
/* The same, and TMK_SHAPE unless it has this shape, in which -1 is any size. An absent input (NULL)
 * is TMK_OK. */
enum tmk_status tmk_want_shape(const struct tmk_tensor *tensor, enum tmk_dtype dtype,
                               const char *what, const struct tmk_shape *shape,
                               struct tmk_diag *diag);
/* TMK_TYPE or TMK_SHAPE unless the tensor (may be NULL) is of one element; `dtype` TMK_UNDEFINED:
 * any type. */
enum tmk_status tmk_want_scalar(const struct tmk_tensor *tensor, enum tmk_dtype dtype,
                                const char *what, struct tmk_diag *diag);

/* TMK_SHAPE unless the input has so many dimensions. */
enum tmk_status tmk_want_rank(const struct tmk_shape *input, int32_t least, struct tmk_diag *diag);

/* TMK_TYPE unless it is a tensor, or a sequence; "what" names the input. For operators that take
 * any. */
enum tmk_status tmk_want_tensor(const struct tmk_tensor *tensor, const char *what,
                                struct tmk_diag *diag);
enum tmk_status tmk_want_sequence(const struct tmk_tensor *tensor, const char *what,
                                  struct tmk_diag *diag);

/* infer of operators whose output 0 is as input 0. */
enum tmk_status tmk_infer_same(struct tmk_infer *infer);
