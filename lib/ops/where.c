/* SPDX-License-Identifier: Apache-2.0 */
/* Where: elements are moved by their size, whatever they mean. */
#include "ops/elementwise.h"

#define CHOOSE(T)                                                                                  \
    static void choose_##T(size_t n, const uint8_t *c, bool vary_c, const void *px, bool vary_x,   \
                           const void *py, bool vary_y, void *out) {                               \
        const T *x = px, *y = py;                                                                  \
        T *r = out;                                                                                \
        /* both are always read, so that compilers need no branches */                             \
        if (vary_c && vary_x && vary_y) {                                                          \
            for (size_t i = 0; i < n; i++) {                                                       \
                const T v = x[i], w = y[i];                                                        \
                r[i] = c[i] ? v : w;                                                               \
            }                                                                                      \
        } else if (vary_c && vary_x) {                                                             \
            const T w = y[0];                                                                      \
            for (size_t i = 0; i < n; i++) {                                                       \
                const T v = x[i];                                                                  \
                r[i] = c[i] ? v : w;                                                               \
            }                                                                                      \
        } else if (vary_c && vary_y) {                                                             \
            const T v = x[0];                                                                      \
            for (size_t i = 0; i < n; i++) {                                                       \
                const T w = y[i];                                                                  \
                r[i] = c[i] ? v : w;                                                               \
            }                                                                                      \
        } else {                                                                                   \
            const size_t step_c = vary_c, step_x = vary_x, step_y = vary_y;                        \
            for (size_t i = 0; i < n; i++)                                                         \
                r[i] = c[i * step_c] ? x[i * step_x] : y[i * step_y];                              \
        }                                                                                          \
    }
CHOOSE(uint8_t)
CHOOSE(uint16_t)
CHOOSE(uint32_t)
CHOOSE(uint64_t)

static enum tmk_status infer_where(struct tmk_infer *infer) {
    const struct tmk_tensor *c = infer->in[0], *x = infer->in[1], *y = infer->in[2];
    struct tmk_shape shape;
    TMK_TRY(tmk_want_dtype(c, TMK_BOOL, "input 0, the condition,", infer->diag));
    TMK_TRY(tmk_want_dtype(y, x->dtype, "input 2", infer->diag));
    if (tmk_dtype_size(x->dtype) > 8)
        return tmk_fail(infer->diag, TMK_UNSUPPORTED, "elements of type %s are not supported",
                        tmk_dtype_name(x->dtype));
    TMK_TRY(tmk_broadcast(&x->shape, &y->shape, &shape, infer->diag));
    TMK_TRY(tmk_broadcast(&c->shape, &shape, &shape, infer->diag));
    return tmk_infer_set(infer, 0, x->dtype, &shape);
}

static enum tmk_status run_where(struct tmk_run *run) {
    const struct tmk_tensor *c = run->in[0], *x = run->in[1], *y = run->in[2];
    struct tmk_tensor *out = tmk_run_out(run, 0);
    const char *px = x->data, *py = y->data;
    char *r = out->data;
    size_t size = tmk_dtype_size(x->dtype);
    struct tmk_walk w;
    tmk_walk_init(&w, &out->shape, 3,
                  (const struct tmk_shape *const[]){&c->shape, &x->shape, &y->shape});
    for (; w.rows; tmk_walk_next(&w)) {
        const uint8_t *row_c = (const uint8_t *)c->data + w.offset[0];
        const void *row_x = px + w.offset[1] * size, *row_y = py + w.offset[2] * size;
        void *row = r + w.start * size;
        if (size == 1)
            choose_uint8_t(w.n, row_c, w.vary[0], row_x, w.vary[1], row_y, w.vary[2], row);
        else if (size == 2)
            choose_uint16_t(w.n, row_c, w.vary[0], row_x, w.vary[1], row_y, w.vary[2], row);
        else if (size == 4)
            choose_uint32_t(w.n, row_c, w.vary[0], row_x, w.vary[1], row_y, w.vary[2], row);
        else
            choose_uint64_t(w.n, row_c, w.vary[0], row_x, w.vary[1], row_y, w.vary[2], row);
    }
    return TMK_OK;
}

const struct tmk_op tmk_ops_where[] = {
    {TMK_OP_ONNX("Where", 9, INT32_MAX), TMK_OP_COUNTS(3, 3, 1, 1), .infer = infer_where,
     .run = run_where},
    {NULL},
};
