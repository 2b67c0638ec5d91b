/* SPDX-License-Identifier: Apache-2.0 */
/* Einsum. Every letter (and every axis of the ellipsis) is an index; an operand is a set of strides
 * over the indices. Two float operands go through the matrix product, whatever else is left through
 * nested loops. */
#include <string.h>

#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/move.h"

enum {
    LETTERS = 52,
    INDICES = LETTERS + TMK_MAX_RANK, /* letters, then the ellipsis' axes from the innermost */
    MAX_OPERANDS = 16
};

struct einsum {
    uint32_t n;           /* operands */
    int64_t dim[INDICES]; /* -1: not used */
    int uses[INDICES];    /* how often a letter stands on the left */
    int32_t dots;         /* axes that the ellipsis stands for, at most */
    int64_t stride[MAX_OPERANDS][INDICES];
    int32_t n_out, n_sum;
    int out[INDICES], sum[INDICES]; /* the result's indices in order, and those summed over */
};

static int letter_index(char c) {
    return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

static enum tmk_status use_axis(struct einsum *e, uint32_t operand, int index, int64_t dim,
                                int64_t stride, struct tmk_diag *diag) {
    int64_t *known = &e->dim[index];
    bool fits = *known < 0 || *known == dim || *known == 1 || dim == 1;
    if (!fits)
        return tmk_fail(diag, TMK_SHAPE, "input %u has %lld where another has %lld", operand,
                        (long long)dim, (long long)*known);
    if (*known < 0 || *known == 1)
        *known = dim;
    e->stride[operand][index] += dim == 1 ? 0 : stride;
    return TMK_OK;
}

/* Reads one term of the left side, up to `end`. */
static enum tmk_status read_term(struct einsum *e, uint32_t operand, const char *p, const char *end,
                                 const struct tmk_shape *shape, struct tmk_diag *diag) {
    int64_t strides[TMK_MAX_RANK], own[INDICES];
    int32_t axis = 0, letters = 0;
    bool dots = false;
    for (int i = 0; i < INDICES; i++)
        own[i] = -1;
    for (const char *q = p; q < end; q++)
        letters += letter_index(*q) >= 0;
    tmk_strides(shape, strides);
    for (; p < end; p++) {
        int index = letter_index(*p);
        if (*p == ' ')
            continue;
        if (*p == '.') {
            int32_t covered = shape->rank - letters;
            if (dots || end - p < 3 || p[1] != '.' || p[2] != '.' || covered < 0)
                return tmk_fail(diag, TMK_SHAPE, "the ellipsis of input %u is misplaced", operand);
            for (int32_t k = covered; k-- > 0; axis++)
                TMK_TRY(use_axis(e, operand, LETTERS + k, shape->dim[axis], strides[axis], diag));
            e->dots = covered > e->dots ? covered : e->dots;
            dots = true;
            p += 2;
            continue;
        }
        if (index < 0)
            return tmk_fail(diag, TMK_RANGE, "the equation holds '%c'", *p);
        if (axis >= shape->rank)
            return tmk_fail(diag, TMK_SHAPE, "input %u has %d axes, fewer than its term", operand,
                            shape->rank);
        if (own[index] >= 0 && own[index] != shape->dim[axis])
            return tmk_fail(diag, TMK_SHAPE, "'%c' stands for both %lld and %lld in input %u", *p,
                            (long long)own[index], (long long)shape->dim[axis], operand);
        own[index] = shape->dim[axis];
        e->uses[index]++;
        TMK_TRY(use_axis(e, operand, index, shape->dim[axis], strides[axis], diag));
        axis++;
    }
    if (axis != shape->rank)
        return tmk_fail(diag, TMK_SHAPE, "input %u has %d axes, more than its term", operand,
                        shape->rank);
    return TMK_OK;
}

static void add_dots(struct einsum *e) {
    for (int32_t k = e->dots; k-- > 0;)
        e->out[e->n_out++] = LETTERS + k;
}

/* Reads the right side; without one (p NULL) it is the ellipsis, then the letters used once, in
 * order. */
static enum tmk_status read_result(struct einsum *e, const char *p, struct tmk_diag *diag) {
    bool seen[INDICES] = {false}, dots = false;
    if (!p) {
        add_dots(e);
        for (int i = 0; i < LETTERS; i++)
            if (e->uses[i] == 1)
                e->out[e->n_out++] = i;
    }
    for (; p && *p; p++) {
        int index = letter_index(*p);
        if (*p == ' ')
            continue;
        if (*p == '.' && !dots && p[1] == '.' && p[2] == '.') {
            add_dots(e);
            dots = true;
            p += 2;
        } else if (index < 0 || seen[index] || e->dim[index] < 0) {
            return tmk_fail(diag, TMK_RANGE, "the equation's right side cannot hold '%c' there",
                            *p);
        } else {
            seen[index] = true;
            e->out[e->n_out++] = index;
        }
    }
    if (e->n_out > TMK_MAX_RANK)
        return tmk_fail(diag, TMK_SHAPE, "the result would have %d axes; at most %d", e->n_out,
                        TMK_MAX_RANK);
    bool kept[INDICES] = {false};
    for (int32_t i = 0; i < e->n_out; i++)
        kept[e->out[i]] = true;
    for (int i = 0; i < INDICES; i++)
        if (e->dim[i] >= 0 && !kept[i])
            e->sum[e->n_sum++] = i;
    return TMK_OK;
}

static enum tmk_status read_equation(const struct tmk_node *node, uint32_t n,
                                     const struct tmk_tensor *const *in, struct einsum *e,
                                     struct tmk_diag *diag) {
    const char *equation = tmk_node_string(node, "equation", ""), *arrow = strstr(equation, "->");
    const char *p = equation, *left = arrow ? arrow : equation + strlen(equation);
    *e = (struct einsum){.n = n};
    for (int i = 0; i < INDICES; i++)
        e->dim[i] = -1;
    if (n > MAX_OPERANDS)
        return tmk_fail(diag, TMK_UNSUPPORTED, "%u inputs are more than the %d supported", n,
                        MAX_OPERANDS);
    for (uint32_t i = 0; i < n; i++) {
        const char *comma = memchr(p, ',', (size_t)(left - p)), *end = comma ? comma : left;
        if (!in[i])
            return tmk_fail(diag, TMK_GRAPH, "input %u is absent", i);
        if ((comma != NULL) != (i + 1 < n))
            return tmk_fail(diag, TMK_SHAPE, "the equation '%s' is not for %u inputs", equation, n);
        TMK_TRY(read_term(e, i, p, end, &in[i]->shape, diag));
        p = comma ? comma + 1 : end;
    }
    return read_result(e, arrow ? arrow + 2 : NULL, diag);
}

static enum tmk_status einsum_infer(struct tmk_infer *infer) {
    struct einsum e;
    enum tmk_dtype dtype = infer->in[0]->dtype;
    if (dtype != TMK_FLOAT32 && !(tmk_dtype_is_integer(dtype) && dtype < TMK_UINT4))
        return tmk_fail(infer->diag, TMK_TYPE, "%s cannot be multiplied", tmk_dtype_name(dtype));
    TMK_TRY(read_equation(infer->node, infer->n_in, infer->in, &e, infer->diag));
    for (uint32_t i = 1; i < infer->n_in; i++)
        TMK_TRY(tmk_want_dtype(infer->in[i], dtype, "each input", infer->diag));
    struct tmk_shape shape = {.rank = e.n_out};
    for (int32_t i = 0; i < e.n_out; i++)
        shape.dim[i] = e.dim[e.out[i]];
    return tmk_infer_set(infer, 0, dtype, &shape);
}

/* ---- nested loops ---- */

/* The indices in `order` with the operands' offsets at each. */
struct walk {
    const struct einsum *e;
    const int *order;
    int32_t rank;
    int64_t at[INDICES];
};

/* Moves on; false after the last. */
static bool walk_next(struct walk *w, int64_t *offset) {
    for (int32_t k = w->rank - 1; k >= 0; k--) {
        int index = w->order[k];
        bool more = ++w->at[k] < w->e->dim[index];
        for (uint32_t i = 0; i < w->e->n; i++)
            offset[i] += more ? w->e->stride[i][index] : -(w->at[k] - 1) * w->e->stride[i][index];
        if (more)
            return true;
        w->at[k] = 0;
    }
    return false;
}

static double product_float(const struct tmk_tensor *const *in, const int64_t *at, uint32_t n) {
    double product = 1;
    for (uint32_t i = 0; i < n; i++)
        product *= (double)((const float *)in[i]->data)[at[i]];
    return product;
}

#define ELEMENT_CASE(op, dtype, T, U)                                                              \
    case TMK_##dtype:                                                                              \
        product *= (uint64_t)((const T *)in[i]->data)[at[i]];                                      \
        break;

static uint64_t product_integer(const struct tmk_tensor *const *in, const int64_t *at, uint32_t n) {
    uint64_t product = 1;
    for (uint32_t i = 0; i < n; i++)
        switch (in[i]->dtype) {
            TMK_EACH_INTEGER(ELEMENT_CASE, _)
        default:
            break;
        }
    return product;
}

#define STORE_CASE(op, dtype, T, U)                                                                \
    case TMK_##dtype:                                                                              \
        ((T *)out->data)[i] = (T)whole;                                                            \
        break;

static void nested_loops(const struct einsum *e, const struct tmk_tensor *const *in,
                         struct tmk_tensor *out) {
    int64_t offset[MAX_OPERANDS] = {0}, inner[MAX_OPERANDS];
    struct walk result = {.e = e, .order = e->out, .rank = e->n_out};
    bool empty = false;
    for (int32_t k = 0; k < e->n_sum; k++)
        empty |= e->dim[e->sum[k]] == 0;
    size_t i = 0;
    do {
        struct walk sum = {.e = e, .order = e->sum, .rank = e->n_sum};
        double total = 0;
        uint64_t whole = 0;
        memcpy(inner, offset, sizeof inner);
        if (!empty && out->dtype == TMK_FLOAT32)
            do
                total += product_float(in, inner, e->n);
            while (walk_next(&sum, inner));
        else if (!empty)
            do
                whole += product_integer(in, inner, e->n);
            while (walk_next(&sum, inner));
        switch (out->dtype) {
            TMK_EACH_INTEGER(STORE_CASE, _)
        default:
            ((float *)out->data)[i] = (float)total;
        }
        i++;
    } while (walk_next(&result, offset));
}

/* ---- two operands as a matrix product ---- */

/* The indices by what they are: of both operands and the result, of one and the result, or summed
 * over. */
struct product {
    int batch[INDICES], rows[INDICES], columns[INDICES], depth[INDICES];
    int32_t n_batch, n_rows, n_columns, n_depth;
};

/* False where an index of one operand alone is summed over, or a dimension is stretched. */
static bool sort_indices(const struct einsum *e, const struct tmk_tensor *const *in,
                         struct product *p) {
    *p = (struct product){0};
    if (e->n != 2 || in[0]->dtype != TMK_FLOAT32)
        return false;
    for (int32_t i = 0; i < e->n_out; i++) {
        int index = e->out[i];
        bool a = e->stride[0][index] != 0, b = e->stride[1][index] != 0;
        if (a && b)
            p->batch[p->n_batch++] = index;
        else if (a)
            p->rows[p->n_rows++] = index;
        else
            p->columns[p->n_columns++] = index; /* of b alone, or of dimension 1 */
    }
    for (int32_t i = 0; i < e->n_sum; i++) {
        int index = e->sum[i];
        bool both = e->stride[0][index] != 0 && e->stride[1][index] != 0;
        if (!both && e->dim[index] != 1)
            return false;
        p->depth[p->n_depth++] = index;
    }
    return true;
}

static int64_t axes_product(const struct einsum *e, const int *order, int32_t n) {
    int64_t all = 1;
    for (int32_t i = 0; i < n; i++)
        all *= e->dim[order[i]];
    return all;
}

/* Copies operand i to [batch, first, second], row-major. */
static void pack_operand(const struct einsum *e, uint32_t operand, const struct product *p,
                         const int *first, int32_t n_first, const int *second, int32_t n_second,
                         const void *from, void *to) {
    const int *order[] = {p->batch, first, second};
    const int32_t n[] = {p->n_batch, n_first, n_second};
    int64_t stride = axes_product(e, p->batch, p->n_batch) * axes_product(e, first, n_first) *
                     axes_product(e, second, n_second);
    struct tmk_move move = {0};
    for (int g = 0; g < 3; g++)
        for (int32_t i = 0; i < n[g]; i++) {
            int index = order[g][i];
            stride /= e->dim[index];
            tmk_move_axis(&move, e->dim[index], stride, e->stride[operand][index]);
        }
    tmk_move_run(&move, sizeof(float), to, from);
}

/* Copies the product [batch, rows, columns] to the result's order. */
static void unpack_product(const struct einsum *e, const struct product *p, const void *from,
                           void *to) {
    const int *order[] = {p->batch, p->rows, p->columns};
    const int32_t n[] = {p->n_batch, p->n_rows, p->n_columns};
    int64_t stride = axes_product(e, e->out, e->n_out), at[INDICES] = {0}, all = stride;
    for (int g = 0; g < 3; g++)
        for (int32_t i = 0; i < n[g]; i++) {
            stride /= e->dim[order[g][i]];
            at[order[g][i]] = stride;
        }
    struct tmk_move move = {0};
    for (int32_t i = 0; i < e->n_out; i++) {
        all /= e->dim[e->out[i]];
        tmk_move_axis(&move, e->dim[e->out[i]], all, at[e->out[i]]);
    }
    tmk_move_run(&move, sizeof(float), to, from);
}

static enum tmk_status matrix_product(struct tmk_run *run, const struct einsum *e,
                                      const struct product *p, struct tmk_tensor *out) {
    int64_t batch = axes_product(e, p->batch, p->n_batch), m = axes_product(e, p->rows, p->n_rows);
    int64_t n = axes_product(e, p->columns, p->n_columns),
            k = axes_product(e, p->depth, p->n_depth);
    if (k == 0) { /* a sum of nothing */
        memset(out->data, 0, tmk_tensor_bytes(out));
        return TMK_OK;
    }
    float *a, *b, *c, *panel;
    TMK_TRY(tmk_scratch_floats(run, (size_t)batch, (size_t)m, (size_t)k, &a));
    TMK_TRY(tmk_scratch_floats(run, (size_t)batch, (size_t)k, (size_t)n, &b));
    TMK_TRY(tmk_scratch_floats(run, (size_t)batch, (size_t)m, (size_t)n, &c));
    TMK_TRY(tmk_scratch_floats(run, TMK_GEMM_PANEL / sizeof(float), 1, 1, &panel));
    pack_operand(e, 0, p, p->rows, p->n_rows, p->depth, p->n_depth, run->in[0]->data, a);
    pack_operand(e, 1, p, p->depth, p->n_depth, p->columns, p->n_columns, run->in[1]->data, b);
    for (int64_t i = 0; i < batch; i++)
        tmk_gemm_rows((size_t)m, (size_t)n, (size_t)k, a + i * m * k, (size_t)k, b + i * k * n,
                      (size_t)n, c + i * m * n, panel);
    unpack_product(e, p, c, out->data);
    return TMK_OK;
}

static enum tmk_status einsum_run(struct tmk_run *run) {
    struct einsum e;
    struct product product;
    struct tmk_tensor *out = tmk_run_out(run, 0);
    TMK_TRY(read_equation(run->node, run->n_in, run->in, &e, run->diag));
    if (sort_indices(&e, run->in, &product))
        return matrix_product(run, &e, &product, out);
    nested_loops(&e, run->in, out);
    return TMK_OK;
}

static double einsum_cost(const struct tmk_node *node, const struct tmk_tensor *const *in,
                          const struct tmk_tensor *out) {
    struct einsum e;
    double cost = 1;
    (void)out;
    if (read_equation(node, node->n_inputs, in, &e, NULL) != TMK_OK)
        return 0;
    for (int i = 0; i < INDICES; i++)
        cost *= e.dim[i] >= 0 ? (double)e.dim[i] : 1;
    return cost * e.n;
}

const struct tmk_op tmk_ops_einsum[] = {
    {TMK_OP_ONNX("Einsum", 12, INT32_MAX), TMK_OP_COUNTS(1, TMK_VARIADIC, 1, 1),
     .attrs = "equation:string!", .infer = einsum_infer, .run = einsum_run, .cost = einsum_cost},
    {NULL}};
