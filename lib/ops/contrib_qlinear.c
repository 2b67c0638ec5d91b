/* SPDX-License-Identifier: Apache-2.0 */
/* 8-bit tensors in, 8-bit tensors out, each element on its own: QLinearAdd, QLinearMul,
 * QLinearSigmoid, QLinearLeakyRelu, QLinearWhere, QLinearConcat. An operand has 256 values at most,
 * so what does not need two of them is a table. */

#include "ops/contrib.h"
#include "ops/contrib_q8.h"
#include "ops/elementwise.h"
#include "ops/functions.h"
#include "ops/move.h"

/* ---- one operand ---- */

enum { IN_X, IN_X_SCALE, IN_X_ZERO, IN_Y_SCALE, IN_Y_ZERO };

static enum tmk_status infer_unary(struct tmk_infer *infer) {
    TMK_TRY(tmk_q8_check(infer, IN_X, "X"));
    TMK_TRY(tmk_q8_check_result(infer, IN_Y_SCALE, infer->in[IN_X]->dtype, "Y"));
    return tmk_infer_same(infer);
}

static float leaky_relu(float x, float alpha) {
    return x >= 0 ? x : alpha * x;
}

static float sigmoid_element(float x, float unused) {
    (void)unused;
    return tmk_sigmoidf(x);
}

static float keep_element(float x, float unused) {
    (void)unused;
    return x;
}

/* table[byte of x] = the byte of f(x). */
static void make_table(enum tmk_dtype from, struct tmk_q8 x, enum tmk_dtype to, struct tmk_q8 y,
                       float (*f)(float, float), float parameter, uint8_t table[256]) {
    for (int i = 0; i < 256; i++)
        table[i] = tmk_q8_byte(to, f(tmk_q8_value(from, x, (uint8_t)i), parameter) / y.scale, y);
}

static enum tmk_status run_unary(struct tmk_run *run, float (*f)(float, float), float parameter) {
    const struct tmk_tensor *x = run->in[IN_X];
    struct tmk_tensor *y = tmk_run_out(run, 0);
    uint8_t table[256];
    make_table(x->dtype, tmk_q8_of(run, IN_X_SCALE), y->dtype, tmk_q8_of(run, IN_Y_SCALE), f,
               parameter, table);
    const uint8_t *from = x->data;
    uint8_t *to = y->data;
    for (size_t i = 0, n = tmk_tensor_count(y); i < n; i++)
        to[i] = table[from[i]];
    return TMK_OK;
}

static enum tmk_status run_sigmoid(struct tmk_run *run) {
    return run_unary(run, sigmoid_element, 0);
}

static enum tmk_status run_leaky(struct tmk_run *run) {
    return run_unary(run, leaky_relu, tmk_node_float(run->node, "alpha", 0.01f));
}

/* ---- two operands ---- */

enum { IN_A, IN_A_SCALE, IN_A_ZERO, IN_B, IN_B_SCALE, IN_B_ZERO, IN_C_SCALE };

static enum tmk_status infer_binary(struct tmk_infer *infer) {
    struct tmk_shape shape;
    TMK_TRY(tmk_q8_check(infer, IN_A, "A"));
    TMK_TRY(tmk_contrib_need(infer, IN_B, "B"));
    TMK_TRY(tmk_q8_check(infer, IN_B, "B"));
    TMK_TRY(tmk_want_dtype(infer->in[IN_B], infer->in[IN_A]->dtype, "B", infer->diag));
    TMK_TRY(tmk_q8_check_result(infer, IN_C_SCALE, infer->in[IN_A]->dtype, "C"));
    TMK_TRY(tmk_broadcast(&infer->in[IN_A]->shape, &infer->in[IN_B]->shape, &shape, infer->diag));
    return tmk_infer_set(infer, 0, infer->in[IN_A]->dtype, &shape);
}

static enum tmk_status run_binary(struct tmk_run *run) {
    const bool multiply = run->node->row->variant;
    const struct tmk_tensor *a = run->in[IN_A], *b = run->in[IN_B];
    struct tmk_tensor *c = tmk_run_out(run, 0);
    struct tmk_q8 qa = tmk_q8_of(run, IN_A_SCALE), qb = tmk_q8_of(run, IN_B_SCALE),
                  qc = tmk_q8_of(run, IN_C_SCALE);
    float left[256], right[256];
    qa.scale /= qc.scale;
    qb.scale /= multiply ? 1 : qc.scale;
    for (int i = 0; i < 256; i++) {
        left[i] = tmk_q8_value(a->dtype, qa, (uint8_t)i);
        right[i] = tmk_q8_value(b->dtype, qb, (uint8_t)i);
    }
    struct tmk_walk walk;
    tmk_walk_init(&walk, &c->shape, 2, (const struct tmk_shape *const[]){&a->shape, &b->shape});
    for (; walk.rows; tmk_walk_next(&walk)) {
        const uint8_t *x = (const uint8_t *)a->data + walk.offset[0],
                      *y = (const uint8_t *)b->data + walk.offset[1];
        uint8_t *to = (uint8_t *)c->data + walk.start;
        for (size_t i = 0; i < walk.n; i++) {
            float l = left[x[walk.vary[0] ? i : 0]], r = right[y[walk.vary[1] ? i : 0]];
            to[i] = tmk_q8_byte(c->dtype, multiply ? l * r : l + r, qc);
        }
    }
    return TMK_OK;
}

/* ---- QLinearWhere ---- */

enum { CONDITION, THEN, OTHERWISE = THEN + 3, WHERE_SCALE = OTHERWISE + 3 };

static enum tmk_status infer_where(struct tmk_infer *infer) {
    const enum tmk_dtype dtype = infer->in[THEN]->dtype;
    struct tmk_shape both, shape;
    TMK_TRY(tmk_want_dtype(infer->in[CONDITION], TMK_BOOL, "condition", infer->diag));
    TMK_TRY(tmk_q8_check(infer, THEN, "X"));
    TMK_TRY(tmk_q8_check(infer, OTHERWISE, "Y"));
    TMK_TRY(tmk_want_dtype(infer->in[OTHERWISE], dtype, "Y", infer->diag));
    TMK_TRY(tmk_q8_check_result(infer, WHERE_SCALE, dtype, "Z"));
    TMK_TRY(
        tmk_broadcast(&infer->in[THEN]->shape, &infer->in[OTHERWISE]->shape, &both, infer->diag));
    TMK_TRY(tmk_broadcast(&infer->in[CONDITION]->shape, &both, &shape, infer->diag));
    return tmk_infer_set(infer, 0, dtype, &shape);
}

static enum tmk_status run_where(struct tmk_run *run) {
    const struct tmk_tensor *const part[] = {run->in[CONDITION], run->in[THEN], run->in[OTHERWISE]};
    struct tmk_tensor *z = tmk_run_out(run, 0);
    const struct tmk_q8 q = tmk_q8_of(run, WHERE_SCALE);
    uint8_t table[2][256];
    make_table(z->dtype, tmk_q8_of(run, OTHERWISE + 1), z->dtype, q, keep_element, 0, table[0]);
    make_table(z->dtype, tmk_q8_of(run, THEN + 1), z->dtype, q, keep_element, 0, table[1]);
    struct tmk_walk walk;
    tmk_walk_init(
        &walk, &z->shape, 3,
        (const struct tmk_shape *const[]){&part[0]->shape, &part[1]->shape, &part[2]->shape});
    for (; walk.rows; tmk_walk_next(&walk)) {
        const uint8_t *from[3], *chosen;
        for (int i = 0; i < 3; i++)
            from[i] = (const uint8_t *)part[i]->data + walk.offset[i];
        for (size_t i = 0; i < walk.n; i++) {
            const int yes = from[0][walk.vary[0] ? i : 0] != 0, at = yes ? 1 : 2;
            chosen = from[at] + (walk.vary[at] ? i : 0);
            ((uint8_t *)z->data)[walk.start + i] = table[yes][*chosen];
        }
    }
    return TMK_OK;
}

/* ---- QLinearConcat: Y_scale, Y_zero_point, then a tensor, its scale and zero point each ---- */

static enum tmk_status infer_concat(struct tmk_infer *infer) {
    int32_t axis = 0;
    TMK_TRY(tmk_want_scalar(infer->in[0], TMK_FLOAT32, "Y_scale", infer->diag));
    TMK_TRY(tmk_want_quantized(infer->in[1], NULL, "Y_zero_point", infer->diag));
    TMK_TRY(tmk_want_scalar(infer->in[1], TMK_UNDEFINED, "Y_zero_point", infer->diag));
    if (infer->n_in < 5 || infer->n_in % 3 != 2)
        return tmk_fail(infer->diag, TMK_GRAPH, "%u inputs after Y's are not three a tensor",
                        infer->n_in - 2);
    struct tmk_shape shape = {0};
    for (uint32_t i = 2; i < infer->n_in; i += 3) {
        TMK_TRY(tmk_contrib_need(infer, i, "a tensor"));
        TMK_TRY(tmk_q8_check(infer, i, "a tensor"));
        TMK_TRY(tmk_want_dtype(infer->in[i], infer->in[1]->dtype, "a tensor", infer->diag));
        const struct tmk_shape *x = &infer->in[i]->shape;
        if (i == 2) {
            shape = *x;
            TMK_TRY(tmk_axis(tmk_node_int(infer->node, "axis", 0), x->rank, &axis, infer->diag));
            continue;
        }
        TMK_TRY(tmk_concat_join(&shape, x, axis, i, infer->diag));
    }
    return tmk_infer_set(infer, 0, infer->in[1]->dtype, &shape);
}

static enum tmk_status run_concat(struct tmk_run *run) {
    struct tmk_tensor *y = tmk_run_out(run, 0);
    int32_t axis;
    TMK_TRY(tmk_axis(tmk_node_int(run->node, "axis", 0), y->shape.rank, &axis, run->diag));
    size_t outer = tmk_shape_product(&y->shape, 0, axis),
           row = tmk_shape_product(&y->shape, axis, y->shape.rank);
    uint8_t *to = y->data, table[256];
    for (uint32_t i = 2; i < run->n_in; i += 3) {
        const struct tmk_tensor *x = run->in[i];
        const uint8_t *from = x->data;
        size_t block = tmk_shape_product(&x->shape, axis, x->shape.rank);
        make_table(x->dtype, tmk_q8_of(run, i + 1), y->dtype, tmk_q8_of(run, 0), keep_element, 0,
                   table);
        for (size_t o = 0; o < outer; o++)
            for (size_t j = 0; j < block; j++)
                to[o * row + j] = table[from[o * block + j]];
        to += block;
    }
    return TMK_OK;
}

/* ---- rows ---- */

/* QGemm of ONNX Runtime's own domain: Gemm of 8-bit matrices, plus 32-bit C, ending in 8 bits or,
 * without a scale for the result, in float. */

enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, C, Y_SCALE, Y_ZERO };

struct gemm {
    size_t m, n, k;
    size_t a_row, a_depth, b_depth, b_column; /* elements from one to the next */
    size_t c_row, c_column;
};

static enum tmk_status one_or_a_column(const struct tmk_tensor *tensor, size_t n, const char *what,
                                       struct tmk_diag *diag) {
    const size_t count = tensor ? tmk_tensor_count(tensor) : 1;
    if (count == 1 || (tensor->shape.rank == 1 && count == n))
        return TMK_OK;
    return tmk_fail(diag, TMK_SHAPE, "%s is %s, neither one number nor one for each of %zu columns",
                    what, TMK_SHAPE_TEXT(&tensor->shape), n);
}

/* C broadcasts to [m, n]. */
static enum tmk_status find_addend(const struct tmk_tensor *c, struct gemm *g,
                                   struct tmk_diag *diag) {
    if (!c)
        return TMK_OK;
    TMK_TRY(tmk_want_dtype(c, TMK_INT32, "C", diag));
    const int32_t rank = c->shape.rank;
    const int64_t columns = rank > 0 ? c->shape.dim[rank - 1] : 1;
    const int64_t rows = rank > 1 ? c->shape.dim[rank - 2] : 1;
    if (rank > 2 || (columns != 1 && columns != (int64_t)g->n) ||
        (rows != 1 && rows != (int64_t)g->m))
        return tmk_fail(diag, TMK_SHAPE, "C is %s, which does not broadcast to [%zu,%zu]",
                        TMK_SHAPE_TEXT(&c->shape), g->m, g->n);
    g->c_column = columns > 1;
    g->c_row = rows > 1 ? (size_t)columns : 0;
    return TMK_OK;
}

static enum tmk_status find_operands(const struct tmk_node *node,
                                     const struct tmk_tensor *const *in, uint32_t n_in,
                                     struct gemm *out, struct tmk_diag *diag) {
    const struct tmk_shape *a = &in[A]->shape, *b = &in[B]->shape;
    const bool ta = tmk_node_int(node, "transA", 0) != 0, tb = tmk_node_int(node, "transB", 0) != 0;
    if (a->rank != 2 || b->rank != 2 || a->dim[ta ? 0 : 1] != b->dim[tb ? 1 : 0])
        return tmk_fail(diag, TMK_SHAPE, "A is %s and B is %s, which have no product",
                        TMK_SHAPE_TEXT(a), TMK_SHAPE_TEXT(b));
    struct gemm g = {.m = (size_t)a->dim[ta ? 1 : 0],
                     .k = (size_t)a->dim[ta ? 0 : 1],
                     .n = (size_t)b->dim[tb ? 0 : 1]};
    g.a_row = ta ? 1 : g.k;
    g.a_depth = ta ? g.m : 1;
    g.b_depth = tb ? 1 : g.n;
    g.b_column = tb ? g.k : 1;
    TMK_TRY(one_or_a_column(in[B_SCALE], g.n, "b_scale", diag));
    TMK_TRY(one_or_a_column(tmk_operand(in, n_in, B_ZERO), g.n, "b_zero_point", diag));
    TMK_TRY(find_addend(tmk_operand(in, n_in, C), &g, diag));
    *out = g;
    return TMK_OK;
}

static enum tmk_status infer_gemm(struct tmk_infer *infer) {
    struct gemm g;
    const struct tmk_tensor *b_zero = tmk_infer_in(infer, B_ZERO);
    TMK_TRY(tmk_q8_check(infer, A, "A"));
    TMK_TRY(tmk_contrib_need(infer, B, "B"));
    TMK_TRY(tmk_contrib_need(infer, B_SCALE, "b_scale"));
    TMK_TRY(tmk_want_quantized(infer->in[B], b_zero, "B", infer->diag));
    TMK_TRY(tmk_want_dtype(infer->in[B_SCALE], TMK_FLOAT32, "b_scale", infer->diag));
    TMK_TRY(find_operands(infer->node, infer->in, infer->n_in, &g, infer->diag));
    enum tmk_dtype dtype = TMK_FLOAT32;
    if (tmk_infer_in(infer, Y_SCALE)) {
        const struct tmk_tensor *y_zero = tmk_infer_in(infer, Y_ZERO);
        dtype = y_zero ? y_zero->dtype : infer->in[A]->dtype;
        TMK_TRY(tmk_q8_check_result(infer, Y_SCALE, dtype, "Y"));
        if (dtype != TMK_INT8 && dtype != TMK_UINT8)
            return tmk_fail(infer->diag, TMK_TYPE, "y_zero_point is of type %s, not int8 or uint8",
                            tmk_dtype_name(dtype));
    }
    const struct tmk_shape shape = {.rank = 2, .dim = {(int64_t)g.m, (int64_t)g.n}};
    return tmk_infer_set(infer, 0, dtype, &shape);
}

static int32_t sum_of(const struct tmk_run *run, const struct gemm *g, size_t i, size_t j,
                      int32_t a_zero, int32_t b_zero) {
    uint32_t sum = 0;
    for (size_t k = 0; k < g->k; k++) {
        const int32_t a = tmk_quantized_at(run->in[A], i * g->a_row + k * g->a_depth) - a_zero;
        const int32_t b = tmk_quantized_at(run->in[B], k * g->b_depth + j * g->b_column) - b_zero;
        sum += (uint32_t)(a * b);
    }
    const struct tmk_tensor *c = tmk_run_in(run, C);
    if (c)
        sum += (uint32_t)((const int32_t *)c->data)[i * g->c_row + j * g->c_column];
    return (int32_t)sum;
}

static enum tmk_status run_gemm(struct tmk_run *run) {
    struct tmk_tensor *y = tmk_run_out(run, 0);
    struct gemm g;
    TMK_TRY(find_operands(run->node, run->in, run->n_in, &g, run->diag));
    const struct tmk_tensor *b_scale = run->in[B_SCALE], *b_zero = tmk_run_in(run, B_ZERO);
    const size_t scales = tmk_tensor_count(b_scale), zeros = b_zero ? tmk_tensor_count(b_zero) : 1;
    const struct tmk_q8 a = tmk_q8_of(run, A_SCALE);
    const bool ends_in_float = y->dtype == TMK_FLOAT32;
    const struct tmk_q8 result = ends_in_float ? (struct tmk_q8){1, 0} : tmk_q8_of(run, Y_SCALE);
    const float alpha = tmk_node_float(run->node, "alpha", 1);
    for (size_t i = 0; i < g.m; i++)
        for (size_t j = 0; j < g.n; j++) {
            const int32_t zero = tmk_quantized_at(b_zero, zeros > 1 ? j : 0);
            const int32_t sum = sum_of(run, &g, i, j, a.zero, zero);
            const float scale =
                alpha * a.scale * ((const float *)b_scale->data)[scales > 1 ? j : 0] / result.scale;
            if (ends_in_float)
                ((float *)y->data)[i * g.n + j] = (float)sum * scale;
            else
                tmk_quantized_put(y, i * g.n + j, sum, scale, result.zero);
        }
    return TMK_OK;
}

const struct tmk_op tmk_ops_contrib_qlinear[] = {
    {TMK_OP_CONTRIB("QLinearAdd"), TMK_OP_COUNTS(2, 8, 1, 1), .channel = TMK_CHANNEL_INHERIT,
     .infer = infer_binary, .run = run_binary},
    {TMK_OP_CONTRIB("QLinearMul"), TMK_OP_COUNTS(2, 8, 1, 1), .channel = TMK_CHANNEL_INHERIT,
     .variant = true /* multiplies */, .infer = infer_binary, .run = run_binary},
    {TMK_OP_CONTRIB("QLinearSigmoid"), TMK_OP_COUNTS(2, 5, 1, 1), .flags = TMK_OP_INPLACE,
     .channel = TMK_CHANNEL_INHERIT, .infer = infer_unary, .run = run_sigmoid},
    {TMK_OP_CONTRIB("QLinearLeakyRelu"), TMK_OP_COUNTS(2, 5, 1, 1), .flags = TMK_OP_INPLACE,
     .channel = TMK_CHANNEL_INHERIT, .attrs = "alpha:float", .infer = infer_unary,
     .run = run_leaky},
    {TMK_OP_CONTRIB("QLinearWhere"), TMK_OP_COUNTS(9, 9, 1, 1), .infer = infer_where,
     .run = run_where},
    {TMK_OP_CONTRIB("QLinearConcat"), TMK_OP_COUNTS(2, TMK_VARIADIC, 1, 1), .attrs = "axis:int!",
     .infer = infer_concat, .run = run_concat},
    {TMK_OP_CONTRIB("QGemm"), TMK_OP_COUNTS(6, 9, 1, 1), .channel = TMK_CHANNEL_LAST,
     .attrs = "alpha:float transA:int transB:int", .infer = infer_gemm, .run = run_gemm,
     .cost = tmk_cost_product},
    {NULL}};
