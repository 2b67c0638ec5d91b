/* SPDX-License-Identifier: Apache-2.0 */
#include "calib/make.h"

#include <math.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/memory.h"
#include "base/size.h"
#include "calib/encodings.h"

double tmk_fixed_error(int32_t q, int32_t shift, double real, enum tmk_rounding rounding,
                       int32_t lowest, int32_t highest) {
    /* |x| <= 2^31 times the real multiplier, of which the result is always 0 */
    if (rounding != TMK_ROUNDING_FLOAT_RNE && q == 0)
        return 0x1p31 * real;
    double most = fmax(fabs((double)lowest), fabs((double)highest)), made, round_off = 0.5;
    if (rounding == TMK_ROUNDING_FLOAT_RNE) {
        made = (double)(float)real;
        /* x and the product are rounded to float32: each at most 2^-24 of itself off. Products
         * below float32's normals are no further off than half of 2^-149. */
        double twice = 0x1.000002p-23;
        double off = (1 + fabs(made - real) / real) * (1 + twice) - 1;
        double reach = fmin((most + 0.5) / (made * (1 - twice)), 0x1p31);
        return round_off + reach * real * off + 0x1p-150;
    }
    made = tmk_fixed_to_real(q, shift);
    if (rounding == TMK_ROUNDING_GEMMLOWP_DOUBLE && shift < 0)
        round_off += ldexp(0.5, shift); /* rounded before the shift, too */
    double reach = fmin((most + round_off) / made, 0x1p31);
    return round_off + reach * fabs(made - real);
}

struct requants {
    struct tmk_make *make;
    const struct tmk_net *net;
    struct tmk_requant *list;
    uint32_t n;
    size_t size;
};

static const struct tmk_encoding *item_of(const struct requants *r, uint32_t pick) {
    const struct tmk_encoding *e = pick == TMK_NET_NONE ? NULL : &r->make->items[pick];
    return e && e->n && !tmk_dtype_is_float(e->dtype) ? e : NULL;
}

static const struct tmk_encoding *of_input(const struct requants *r, uint32_t node,
                                           uint32_t input) {
    return item_of(r, tmk_pick_of_input(r->make->selection, node, input));
}

/* The one for all readers, or else for the first that has one. */
static const struct tmk_encoding *encoding_of_output(const struct requants *r, uint32_t node) {
    const struct tmk_selection *s = r->make->selection;
    uint32_t y = tmk_net_output(r->net, node, 0);
    if (y == TMK_NET_NONE)
        return NULL;
    uint32_t pick = s->general[y];
    for (uint32_t k = r->net->first_use[y]; pick == TMK_NET_NONE && k < r->net->first_use[y + 1];
         k++)
        pick = s->use_pick[k];
    return item_of(r, pick);
}

static double scale_at(const struct tmk_encoding *e, uint32_t i) {
    return (double)e->scale[e->n > 1 ? i : 0];
}

static double error_of(const struct requants *r, const struct tmk_requant *q, uint32_t i,
                       const struct tmk_encoding *y) {
    int32_t lowest, highest, zero = y->zero_point[y->n > 1 ? i : 0];
    tmk_encoding_codes(y, &lowest, &highest);
    return tmk_fixed_error(q->multiplier[i], q->shift[i], q->real[i], r->make->encodings->rounding,
                           lowest - zero, highest - zero);
}

/* x (times w, unless it is NULL) to y. */
static enum tmk_status add_requant(struct requants *r, uint32_t node, int32_t operand,
                                   const struct tmk_encoding *x, const struct tmk_encoding *w,
                                   const struct tmk_encoding *y) {
    struct tmk_encodings *all = r->make->encodings;
    uint32_t n = x->n;
    n = w && w->n > n ? w->n : n;
    n = y->n > n ? y->n : n;
    if ((x->n > 1 && x->n != n) || (w && w->n > 1 && w->n != n) || (y->n > 1 && y->n != n))
        return TMK_OK;
    struct tmk_requant q = {.id = y->id, .operand = operand, .n = n};
    TMK_TRY(tmk_encodings_keep(all, r->net->nodes[node].name, &q.node, r->make->diag));
    TMK_TRY(tmk_encodings_keep(all, r->net->nodes[node].op, &q.op, r->make->diag));
    q.real = tmk_encodings_make(all, n, sizeof *q.real);
    q.multiplier = tmk_encodings_make(all, n, sizeof *q.multiplier);
    q.shift = tmk_encodings_make(all, n, sizeof *q.shift);
    TMK_TRY_ALLOC(q.real && q.multiplier && q.shift && TMK_GROW(r->list, r->n, r->size),
                  r->make->diag);
    for (uint32_t i = 0; i < n; i++) {
        q.real[i] = scale_at(x, i) * (w ? scale_at(w, i) : 1) / scale_at(y, i);
        struct tmk_diag ignored = {0};
        enum tmk_status status =
            (all->pow2_requant ? tmk_fixed_from_real_pow2 : tmk_fixed_from_real)(
                q.real[i], &q.multiplier[i], &q.shift[i], &ignored);
        if (status == TMK_RANGE) {
            tmk_make_remark(r->make,
                            "%s '%s': no fixed-point multiplier is as large as %g; p%u has none",
                            q.op, q.node, q.real[i], y->id);
            return TMK_OK;
        }
        if (status != TMK_OK)
            return tmk_fail(r->make->diag, status, "%s", ignored.text);
        q.error = fmax(q.error, error_of(r, &q, i, y));
    }
    r->list[r->n++] = q;
    return TMK_OK;
}

/* Nothing to do where both have one scale and it is the same. */
static enum tmk_status add_operand(struct requants *r, uint32_t node, uint32_t input,
                                   const struct tmk_encoding *y) {
    const struct tmk_encoding *x = of_input(r, node, input);
    if (!x || (x->n == 1 && y->n == 1 && x->scale[0] == y->scale[0]))
        return TMK_OK;
    return add_requant(r, node, (int32_t)input, x, NULL, y);
}

static enum tmk_status add_of_node(struct requants *r, uint32_t node) {
    const struct tmk_selection *s = r->make->selection;
    const struct tmk_net_node *it = &r->net->nodes[node];
    uint32_t done = s->accumulates[node] == TMK_NET_NONE ? node : s->accumulates[node];
    const struct tmk_encoding *y = encoding_of_output(r, done);
    if (!y || s->bias_of[node] != TMK_NET_NONE)
        return TMK_OK;
    switch (it->traits->class) {
    case TMK_OP_MACC:
    case TMK_OP_PRODUCT: {
        const struct tmk_encoding *a = of_input(r, node, 0), *b = of_input(r, node, 1);
        return a && b && !b->block ? add_requant(r, done, -1, a, b, y) : TMK_OK;
    }
    case TMK_OP_SUM:
    case TMK_OP_CONCAT:
    case TMK_OP_DIRECT:
    case TMK_OP_CLAMP:
    case TMK_OP_RESCALE:
        for (uint32_t i = 0; i < it->n_inputs; i++)
            TMK_TRY(add_operand(r, node, i, y));
        return TMK_OK;
    default:
        return TMK_OK;
    }
}

static int by_id(const void *a, const void *b) {
    const struct tmk_requant *x = a, *y = b;
    return x->id != y->id ? TMK_ORDER(x->id, y->id) : TMK_ORDER(x->operand, y->operand);
}

enum tmk_status tmk_make_requants(struct tmk_make *make) {
    struct requants r = {.make = make, .net = make->selection->net};
    enum tmk_status status = TMK_OK;
    for (uint32_t i = 0; status == TMK_OK && i < r.net->n_nodes; i++)
        status = add_of_node(&r, i);
    struct tmk_encodings *all = make->encodings;
    if (status == TMK_OK) {
        all->requants = tmk_encodings_make(all, r.n, sizeof *all->requants);
        status = all->requants ? TMK_OK : tmk_nomem(make->diag);
    }
    for (uint32_t i = 0; status == TMK_OK && i < r.n; i++) {
        struct tmk_requant *to = &all->requants[i];
        *to = r.list[i];
        status = tmk_encodings_keep(all, to->node, &to->node, make->diag);
        TMK_THEN(status, tmk_encodings_keep(all, to->op, &to->op, make->diag));
    }
    if (status == TMK_OK) {
        qsort(all->requants, r.n, sizeof *all->requants, by_id);
        all->n_requants = r.n;
    }
    free(r.list);
    return status;
}
