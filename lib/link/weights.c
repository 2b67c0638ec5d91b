/* SPDX-License-Identifier: Apache-2.0 */
#include "link/choose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "tensor/shape.h"
#include "transform/model.h"

enum {
    LEAST_WEIGHTS = 16, /* elements; of fewer, equal ones are no evidence */
    LEAST_A_CHANNEL = 4 /* of a scale of its own */
};
static const double tolerance = 1e-5; /* of the largest number of its channel */

struct weights {
    struct tmk_linking *l;
    const struct tmk_tensor **originals, **values; /* [id]; NULL: no such weight */
};

static const struct tmk_tensor *data_of(const struct tmk_value *value) {
    const struct tmk_tensor *data = NULL;
    if (!value)
        return NULL;
    if (value->kind == TMK_VALUE_INITIALIZER) {
        data = &value->data;
    } else if (value->producer && tmk_node_is(value->producer, TMK_DOMAIN_ONNX, "Constant")) {
        const struct tmk_attr *attr = tmk_node_attr(value->producer, "value");
        data = attr && attr->kind == TMK_ATTR_TENSOR ? attr->tensors : NULL;
    }
    return data && data->dtype == TMK_FLOAT32 && data->data && tmk_tensor_count(data) > 1 ? data
                                                                                          : NULL;
}

/* Can numbers that are almost the same, or that lie otherwise, be a coincidence? */
static bool is_telling_tensor(const struct tmk_tensor *a) {
    return a->shape.rank >= 2 && tmk_tensor_count(a) >= LEAST_WEIGHTS;
}

static enum tmk_status list_weights(struct tmk_graph *graph, uint32_t n,
                                    const struct tmk_tensor ***out, struct tmk_diag *diag) {
    struct tmk_by_id values;
    *out = calloc((size_t)n + 1, sizeof(struct tmk_tensor *));
    TMK_TRY_ALLOC(*out, diag);
    TMK_TRY(tmk_by_id_init(&values, graph, diag));
    for (size_t i = 0; i < n && i < values.n; i++)
        (*out)[i] = data_of(values.values[i]);
    tmk_by_id_finish(&values);
    return TMK_OK;
}

enum tmk_status tmk_link_sample_weights(const struct tmk_linking *l, struct tmk_graph *graph,
                                        bool originals, struct tmk_signatures *out) {
    const struct tmk_tensor **weights = NULL;
    const uint32_t *match_of = originals ? l->value_of : l->original_of;
    enum tmk_status status = list_weights(graph, out->n, &weights, l->diag);
    for (uint32_t i = 0; status == TMK_OK && i < out->n; i++)
        for (uint32_t b = 0;
             status == TMK_OK && weights[i] && match_of[i] == TMK_UNLINKED && b < out->batches; b++)
            status = tmk_signature_add(out, i, b, weights[i], l->diag);
    free(weights);
    return status;
}

static bool is_reshaped(const struct tmk_tensor *a, const struct tmk_tensor *b) {
    return tmk_tensor_count(a) == tmk_tensor_count(b) &&
           memcmp(a->data, b->data, tmk_tensor_bytes(a)) == 0;
}

static bool is_transposed(const struct tmk_tensor *a, const struct tmk_tensor *b) {
    if (a->shape.rank != 2 || b->shape.rank != 2 || a->shape.dim[0] != b->shape.dim[1] ||
        a->shape.dim[1] != b->shape.dim[0])
        return false;
    const float *x = a->data, *y = b->data;
    size_t rows = (size_t)a->shape.dim[0], columns = (size_t)a->shape.dim[1];
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++)
            if (x[i * columns + j] != y[j * rows + i])
                return false;
    return true;
}

/* Elements of one channel: `outer` stretches of `inner` of them. */
struct channels {
    size_t n, outer, inner;
};

/* The scale of channel c, if y is x times that. 0 where the channel is of zeros: any would do. */
static bool scale_of(const float *x, const float *y, const struct channels *s, size_t c,
                     double *scale) {
    double xx = 0, xy = 0, largest = 0;
    for (size_t o = 0; o < s->outer; o++)
        for (size_t i = 0; i < s->inner; i++) {
            size_t at = (o * s->n + c) * s->inner + i;
            xx += (double)x[at] * (double)x[at];
            xy += (double)x[at] * (double)y[at];
            largest = fmax(largest, fabs((double)y[at]));
        }
    *scale = xx > 0 ? xy / xx : 0;
    if (!isfinite(*scale))
        return false;
    for (size_t o = 0; o < s->outer; o++)
        for (size_t i = 0; i < s->inner; i++) {
            size_t at = (o * s->n + c) * s->inner + i;
            if (!(fabs(*scale * (double)x[at] - (double)y[at]) <= tolerance * largest))
                return false;
        }
    return true;
}

/* Fills scale[dim[axis]]; false: y is not x scaled along this axis. */
static bool is_scaled(const struct tmk_tensor *a, const struct tmk_tensor *b, int32_t axis,
                      double *scale) {
    const struct channels s = {(size_t)a->shape.dim[axis], tmk_shape_product(&a->shape, 0, axis),
                               tmk_shape_product(&a->shape, axis + 1, a->shape.rank)};
    size_t zeros = 0;
    if (s.outer * s.inner < LEAST_A_CHANNEL)
        return false;
    for (size_t c = 0; c < s.n; c++) {
        if (!scale_of(a->data, b->data, &s, c, &scale[c]))
            return false;
        zeros += scale[c] == 0;
    }
    return zeros * 2 <= s.n;
}

enum likeness { RESHAPED, TRANSPOSED, SCALED };

struct relation {
    uint32_t value;
    enum likeness how;
    int32_t axis; /* SCALED */
};

/* How the original's weights are in a value; false: they aren't. scale has space for any axis. */
static bool relate_weights(const struct weights *w, uint32_t original, uint32_t value,
                           struct relation *out, double *scale) {
    const struct tmk_tensor *a = w->originals[original], *b = w->values[value];
    if (!b || w->l->original_of[value] != TMK_UNLINKED)
        return false;
    *out = (struct relation){.value = value, .how = RESHAPED};
    if (is_reshaped(a, b))
        return true;
    out->how = TRANSPOSED;
    if (!is_telling_tensor(a) || is_transposed(a, b))
        return is_telling_tensor(a);
    out->how = SCALED;
    if (!tmk_shape_equal(&a->shape, &b->shape))
        return false;
    if (is_scaled(a, b, 0, scale))
        return true;
    out->axis = 1;
    return a->shape.rank == 2 && is_scaled(a, b, 1, scale);
}

/* The only value that has the original's weights, or none; of those that have its very bytes the
 * first: they are all alike. */
static enum tmk_status find_weight(const struct weights *w, uint32_t original, double *scale,
                                   double *kept, size_t capacity) {
    struct tmk_link_match *match = &w->l->link->matches[original];
    struct relation only = {.value = TMK_UNLINKED}, how;
    uint32_t found = 0;
    for (uint32_t v = 0; v < w->l->to->n_tensors; v++) {
        if (!relate_weights(w, original, v, &how, scale) || (found && only.how == RESHAPED))
            continue;
        if (!found || how.how == RESHAPED) {
            only = how;
            memcpy(kept, scale, capacity * sizeof *kept);
            found = 0;
        }
        found++;
        TMK_TRY(tmk_linking_add_candidate(w->l, original, v));
    }
    match->ambiguous = found > 1;
    if (found != 1)
        return TMK_OK;
    match->n_candidates = 0;
    struct tmk_lineage_record *record = w->l->link->record;
    struct tmk_lineage_original *o = &record->originals[original];
    const struct tmk_tensor *a = w->originals[original];
    if (only.how == RESHAPED) {
        o->verdict = TMK_LINEAGE_VIEW;
        o->view = (struct tmk_lineage_view){.reshaped = true};
    } else if (only.how == TRANSPOSED) {
        o->verdict = TMK_LINEAGE_VIEW;
        o->view = (struct tmk_lineage_view){.rank = 2, .perm = {1, 0}};
    } else {
        uint32_t n = (uint32_t)a->shape.dim[only.axis];
        double *scales = tmk_lineage_record_array(record, n, sizeof *scales);
        double *shifts = tmk_lineage_record_array(record, n, sizeof *shifts);
        TMK_TRY_ALLOC(scales && shifts, w->l->diag);
        for (uint32_t i = 0; i < n; i++)
            scales[i] = kept[i];
        o->verdict = TMK_LINEAGE_AFFINE;
        o->affine = (struct tmk_lineage_affine){n, n > 1 ? only.axis : 0, scales, shifts};
    }
    w->l->link->matches[original].points = tmk_tensor_count(a);
    tmk_linking_relate(w->l, original, only.value,
                       only.how == SCALED ? TMK_LINK_AFFINE : TMK_LINK_EQUAL);
    return TMK_OK;
}

/* Scales along either of the first axes. */
static enum tmk_status find_relation(const struct weights *w, uint32_t original) {
    const struct tmk_shape *shape = &w->originals[original]->shape;
    size_t capacity = 1;
    for (int32_t i = 0; i < shape->rank && i < 2; i++)
        capacity = (size_t)shape->dim[i] > capacity ? (size_t)shape->dim[i] : capacity;
    double *scale = calloc(capacity, sizeof *scale), *kept = calloc(capacity, sizeof *kept);
    enum tmk_status status =
        scale && kept ? find_weight(w, original, scale, kept, capacity) : tmk_nomem(w->l->diag);
    free(scale);
    free(kept);
    return status;
}

enum tmk_status tmk_link_weights(struct tmk_linking *l, struct tmk_graph *original,
                                 struct tmk_graph *model) {
    struct weights w = {.l = l};
    enum tmk_status status = list_weights(original, l->from->n_tensors, &w.originals, l->diag);
    TMK_THEN(status, list_weights(model, l->to->n_tensors, &w.values, l->diag));
    for (uint32_t o = 0; status == TMK_OK && o < l->from->n_tensors; o++)
        if (w.originals[o] && l->value_of[o] == TMK_UNLINKED)
            status = find_relation(&w, o);
    free(w.originals);
    free(w.values);
    return status;
}
