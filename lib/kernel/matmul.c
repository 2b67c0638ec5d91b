/* SPDX-License-Identifier: Apache-2.0 */
/* MatMul and Gemm.
 *
 * A constant matrix on the right makes an inner product: oneDNN chooses the layout of weights by
 * itself there, and all batches of A are one, higher matrix. Otherwise the matrices lie as they
 * are, and one primitive runs on each pair of a broadcast batch in turn, so that a product's bits
 * do not depend on how many there are. Gemm's alpha, beta and C are applied to the product by the
 * loop of the plain kernel. */
#include "kernel/onednn.h"

#include "ops/kernel.h"
#include "ops/matmul.h"
#include "tensor/elements.h"

enum { SMALL = 4096 }; /* multiplications in one of several products that are not worth a call */

/* Both operators' accel. */
struct product {
    struct tmk_dn base;
    struct tmk_matmul batches; /* MatMul's, where there are several products */
    size_t count;
    float alpha, beta; /* Gemm's */
    bool addend;
    int64_t step[TMK_MAX_RANK]; /* elements of C from row to row and column to column */
};

struct sizes {
    int64_t m, n, k;
    bool trans_a, trans_b;
    bool weights; /* B is a single, constant matrix */
    bool several; /* products of as many matrices of A and B */
};

static dnnl_status_t matrix_layout(struct tmk_layout *layout, int64_t rows, int64_t columns,
                                   bool transposed) {
    dnnl_dims_t dims = {rows, columns};
    return tmk_layout_tag(layout, 2, dims, transposed ? dnnl_ba : dnnl_ab);
}

/* A primitive for one product of A and B, inputs 0 and 1. */
static enum tmk_status build_matmul(const struct tmk_dn_request *r, const struct sizes *s,
                                    struct tmk_dn **out) {
    struct tmk_layout any = {0};
    struct tmk_argument a[] = {{.role = DNNL_ARG_SRC, .operand = 0, .moves = s->several},
                               {.role = DNNL_ARG_WEIGHTS, .operand = 1, .moves = s->several},
                               {.role = DNNL_ARG_DST, .operand = TMK_RESULT}};
    struct tmk_operands operands = {
        .src = &a[0].outside, .weights = s->weights ? &any : &a[1].outside, .dst = &a[2].outside};
    dnnl_dims_t turned = {s->n, s->k}; /* an inner product's weights, as logical dimensions */
    dnnl_primitive_desc_t desc = NULL;
    bool fits;
    dnnl_status_t status = matrix_layout(&a[0].outside, s->m, s->k, s->trans_a);
    if (status == dnnl_success)
        status = s->weights ? matrix_layout(&a[1].outside, s->n, s->k, !s->trans_b)
                            : matrix_layout(&a[1].outside, s->k, s->n, s->trans_b);
    if (status == dnnl_success)
        status = matrix_layout(&a[2].outside, s->m, s->n, false);
    if (status == dnnl_success && s->weights)
        status = tmk_layout_tag(&any, 2, turned, dnnl_format_tag_any);
    if (status == dnnl_success)
        status = s->weights ? tmk_desc_inner_product(r->engine, r->attr, &operands, &desc)
                            : tmk_desc_matmul(r->engine, r->attr, &operands, &desc);
    if (status == dnnl_success && !tmk_dn_fast(desc))
        status = dnnl_unimplemented;
    tmk_layout_finish(&any);
    if (status == dnnl_success)
        return tmk_dn_build(r, sizeof(struct product), desc, a, TMK_COUNT(a), out);
    if (desc)
        dnnl_primitive_desc_destroy(desc);
    for (size_t i = 0; i < TMK_COUNT(a); i++)
        tmk_layout_finish(&a[i].outside);
    return tmk_dn_fits(status, &fits, r->base.diag);
}

/* ---- MatMul ---- */

static bool matches_matmul(const struct tmk_node *node) {
    return tmk_node_is(node, TMK_DOMAIN_ONNX, "MatMul");
}

static enum tmk_status make_matmul(const struct tmk_dn_request *r, struct tmk_dn **out) {
    const struct tmk_tensor *a = r->base.in[0], *b = r->base.in[1];
    struct tmk_matmul matmul;
    struct tmk_shape shape;
    struct tmk_dn *dn = NULL;
    TMK_TRY(tmk_matmul_shape(&a->shape, &b->shape, &matmul, &shape, r->base.diag));
    size_t count = tmk_matmul_count(&matmul);
    if (b->shape.rank <= 2) {
        matmul.m *= count;
        count = 1;
    }
    if (count > 1 && matmul.m * matmul.n * matmul.k < SMALL)
        return TMK_OK;
    struct sizes s = {.m = (int64_t)matmul.m,
                      .n = (int64_t)matmul.n,
                      .k = (int64_t)matmul.k,
                      .weights = tmk_tensor_has_elements(b) && b->shape.rank <= 2,
                      .several = count > 1};
    TMK_TRY(build_matmul(r, &s, &dn));
    if (!dn)
        return TMK_OK;
    struct product *product = (struct product *)dn;
    product->batches = matmul;
    product->count = count;
    *out = dn;
    return TMK_OK;
}

static enum tmk_status run_matmul(const struct tmk_accel *accel, const struct tmk_tensor *const *in,
                                  struct tmk_tensor *const *out, void *scratch,
                                  struct tmk_diag *diag) {
    const struct product *product = (const struct product *)accel;
    const struct tmk_matmul *b = &product->batches;
    if (product->count == 1)
        return tmk_dn_run_once(accel, in, out, scratch, diag);
    for (size_t i = 0; i < product->count; i++) {
        size_t left, right;
        tmk_matmul_at(b, i, &left, &right);
        void *data[] = {(float *)in[0]->data + left * b->m * b->k,
                        (float *)in[1]->data + right * b->k * b->n,
                        (float *)out[0]->data + i * b->m * b->n};
        TMK_TRY(tmk_dn_execute(&product->base, data, scratch, TMK_PART_ALL, diag));
    }
    return TMK_OK;
}

static enum tmk_status create_matmul(const struct tmk_request *r, struct tmk_accel **out) {
    return tmk_dn_create(r, make_matmul, out);
}

const struct tmk_family tmk_family_matmul = {matches_matmul, NULL, create_matmul, run_matmul,
                                             tmk_dn_destroy, true, tmk_dn_load,   tmk_dn_unload};

/* ---- Gemm ---- */

static bool matches_gemm(const struct tmk_node *node) {
    return tmk_node_is(node, TMK_DOMAIN_ONNX, "Gemm");
}

static enum tmk_status make_gemm(const struct tmk_dn_request *r, struct tmk_dn **out) {
    const struct tmk_tensor *a = r->base.in[0], *b = r->base.in[1];
    const struct tmk_tensor *c = r->base.node->n_inputs > 2 ? r->base.in[2] : NULL;
    struct sizes s = {.m = r->base.result->shape.dim[0],
                      .n = r->base.result->shape.dim[1],
                      .trans_a = tmk_node_int(r->base.node, "transA", 0) != 0,
                      .trans_b = tmk_node_int(r->base.node, "transB", 0) != 0};
    s.k = a->shape.dim[!s.trans_a];
    struct tmk_dn *dn = NULL;
    s.weights = tmk_tensor_has_elements(b) &&
                !s.trans_a; /* oneDNN has no inner product of a transposed source */
    TMK_TRY(build_matmul(r, &s, &dn));
    if (!dn)
        return TMK_OK;
    struct product *product = (struct product *)dn;
    product->alpha = tmk_node_float(r->base.node, "alpha", 1);
    product->beta = tmk_node_float(r->base.node, "beta", 1);
    product->addend = c && product->beta != 0;
    if (c)
        tmk_broadcast_strides(&c->shape, &r->base.result->shape, product->step);
    *out = dn;
    return TMK_OK;
}

static enum tmk_status run_gemm(const struct tmk_accel *accel, const struct tmk_tensor *const *in,
                                struct tmk_tensor *const *out, void *scratch,
                                struct tmk_diag *diag) {
    const struct product *p = (const struct product *)accel;
    TMK_TRY(tmk_dn_run_once(accel, in, out, scratch, diag));
    if (p->alpha == 1 && !p->addend)
        return TMK_OK;
    const float *c = p->addend ? in[2]->data : NULL;
    float *y = out[0]->data;
    int64_t rows = out[0]->shape.dim[0], columns = out[0]->shape.dim[1];
    for (int64_t i = 0; i < rows; i++, y += columns)
        for (int64_t j = 0; j < columns; j++) {
            float sum = y[j] * p->alpha;
            if (c)
                sum += p->beta * c[i * p->step[0] + j * p->step[1]];
            y[j] = sum;
        }
    return TMK_OK;
}

static enum tmk_status create_gemm(const struct tmk_request *r, struct tmk_accel **out) {
    return tmk_dn_create(r, make_gemm, out);
}

const struct tmk_family tmk_family_gemm = {matches_gemm,   NULL, create_gemm, run_gemm,
                                           tmk_dn_destroy, true, tmk_dn_load, tmk_dn_unload};
