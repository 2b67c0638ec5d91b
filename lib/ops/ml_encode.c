/* SPDX-License-Identifier: Apache-2.0 */
/* What stands around models of tables: Imputer, OneHotEncoder, LabelEncoder, FeatureVectorizer, and
 * ZipMap. Strings are not supported. */
#include <math.h>
#include <string.h>

#include "ops/ml.h"
#include "ops/move.h"

/* A list of int64 or of float32; both NULL: none. */
struct list {
    const int64_t *ints;
    const float *floats;
    size_t n;
};

static enum tmk_dtype dtype_of(const struct list *list) {
    return list->ints ? TMK_INT64 : TMK_FLOAT32;
}

/* By these attributes, the last of which is a tensor; any may be NULL. */
static enum tmk_status find_list(const struct tmk_node *node, const char *ints, const char *floats,
                                 const char *tensor, struct list *out, struct tmk_diag *diag) {
    const struct tmk_attr *attr = tensor ? tmk_node_attr(node, tensor) : NULL;
    *out = (struct list){0};
    if (attr) {
        const struct tmk_tensor *t = attr->tensors;
        if (!t->data || (t->dtype != TMK_INT64 && t->dtype != TMK_FLOAT32))
            return tmk_fail(diag, TMK_UNSUPPORTED, "attribute '%s' of %s is not supported", tensor,
                            tmk_dtype_name(t->dtype));
        out->n = tmk_tensor_count(t);
        out->ints = t->dtype == TMK_INT64 ? t->data : NULL;
        out->floats = t->dtype == TMK_FLOAT32 ? t->data : NULL;
        return TMK_OK;
    }
    out->ints = tmk_node_ints(node, ints, &out->n);
    if (!out->n)
        out->floats = tmk_node_floats(node, floats, &out->n);
    return TMK_OK;
}

/* Whether the element is the list's number k; with `nan`, NaN is NaN. */
static bool is_number(const struct tmk_tensor *x, size_t i, const struct list *list, size_t k,
                      bool nan) {
    if (list->ints)
        return ((const int64_t *)x->data)[i] == list->ints[k];
    const float a = ((const float *)x->data)[i], b = list->floats[k];
    return a == b || (nan && isnan(a) && isnan(b));
}

/* ---- Imputer ---- */

static enum tmk_status infer_imputer(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[0];
    const struct tmk_shape *shape = &x->shape;
    const size_t features = shape->rank ? (size_t)shape->dim[shape->rank - 1] : 1;
    struct list list;
    TMK_TRY(find_list(infer->node, "imputed_value_int64s", "imputed_value_floats", NULL, &list,
                      infer->diag));
    TMK_TRY(tmk_want_dtype(x, dtype_of(&list), "input 'X'", infer->diag));
    if (list.n != 1 && list.n != features)
        return tmk_fail(infer->diag, TMK_SHAPE, "%zu imputed values for %zu features", list.n,
                        features);
    return tmk_infer_same(infer);
}

static enum tmk_status run_imputer(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0];
    struct tmk_tensor *y = tmk_run_out(run, 0);
    const int64_t old_int = tmk_node_int(run->node, "replaced_value_int64", 0);
    const float old_float = tmk_node_float(run->node, "replaced_value_float", 0);
    struct list list;
    TMK_TRY(find_list(run->node, "imputed_value_int64s", "imputed_value_floats", NULL, &list,
                      run->diag));
    const struct list old = {list.ints ? &old_int : NULL, list.ints ? NULL : &old_float, 1};
    for (size_t i = 0, n = tmk_tensor_count(x); y && i < n; i++) {
        const size_t k = list.n == 1 ? 0 : i % list.n;
        const bool imputed = is_number(x, i, &old, 0, true);
        if (list.ints)
            ((int64_t *)y->data)[i] = imputed ? list.ints[k] : ((const int64_t *)x->data)[i];
        else
            ((float *)y->data)[i] = imputed ? list.floats[k] : ((const float *)x->data)[i];
    }
    return TMK_OK;
}

/* ---- OneHotEncoder ---- */

static enum tmk_status infer_one_hot(struct tmk_infer *infer) {
    struct tmk_shape shape = infer->in[0]->shape;
    const enum tmk_dtype dtype = infer->in[0]->dtype;
    size_t n;
    if (!tmk_node_ints(infer->node, "cats_int64s", &n) || !n)
        return tmk_fail(infer->diag, TMK_UNSUPPORTED,
                        "only categories that are integers are supported");
    if (dtype != TMK_INT64 && dtype != TMK_INT32 && dtype != TMK_FLOAT32)
        return tmk_fail(infer->diag, TMK_TYPE, "input 'X' of type %s is not supported",
                        tmk_dtype_name(dtype));
    if (shape.rank == TMK_MAX_RANK)
        return tmk_fail(infer->diag, TMK_SHAPE, "input 'X' has too many axes");
    shape.dim[shape.rank++] = (int64_t)n;
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &shape);
}

/* Numbers that no int64 is are no category. */
static bool is_category(const struct tmk_tensor *x, size_t i, int64_t category) {
    if (x->dtype == TMK_INT64)
        return ((const int64_t *)x->data)[i] == category;
    if (x->dtype == TMK_INT32)
        return ((const int32_t *)x->data)[i] == category;
    const float v = ((const float *)x->data)[i];
    return v > -9.2e18f && v < 9.2e18f && (int64_t)v == category;
}

static enum tmk_status run_one_hot(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0];
    struct tmk_tensor *y = tmk_run_out(run, 0);
    const bool zeros = tmk_node_int(run->node, "zeros", 1) != 0;
    size_t n;
    const int64_t *categories = tmk_node_ints(run->node, "cats_int64s", &n);
    for (size_t i = 0, count = tmk_tensor_count(x); y && i < count; i++) {
        bool found = false;
        for (size_t k = 0; k < n; k++) {
            const bool is = is_category(x, i, categories[k]);
            ((float *)y->data)[i * n + k] = is ? 1.0f : 0.0f;
            found = found || is;
        }
        if (!found && !zeros)
            return tmk_fail(run->diag, TMK_RANGE, "element %zu is none of the %zu categories", i,
                            n);
    }
    return TMK_OK;
}

/* ---- LabelEncoder ---- */

struct labels {
    struct list keys, values;
    int64_t other_int;
    float other_float;
};

static enum tmk_status find_labels(const struct tmk_node *node, struct labels *l,
                                   struct tmk_diag *diag) {
    struct list other = {0};
    TMK_TRY(find_list(node, "keys_int64s", "keys_floats", "keys_tensor", &l->keys, diag));
    TMK_TRY(find_list(node, "values_int64s", "values_floats", "values_tensor", &l->values, diag));
    if (!l->keys.n || !l->values.n)
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "only labels that are integers or floats are supported");
    if (l->keys.n != l->values.n)
        return tmk_fail(diag, TMK_SHAPE, "%zu keys for %zu values", l->keys.n, l->values.n);
    l->other_int = tmk_node_int(node, "default_int64", -1);
    l->other_float = tmk_node_float(node, "default_float", -0.0f);
    if (!tmk_node_attr(node, "default_tensor"))
        return TMK_OK;
    TMK_TRY(find_list(node, "", "", "default_tensor", &other, diag));
    if (other.n != 1 || dtype_of(&other) != dtype_of(&l->values))
        return tmk_fail(diag, TMK_TYPE, "attribute 'default_tensor' is no value");
    if (other.ints)
        l->other_int = other.ints[0];
    else
        l->other_float = other.floats[0];
    return TMK_OK;
}

static enum tmk_status infer_labels(struct tmk_infer *infer) {
    struct labels l;
    TMK_TRY(find_labels(infer->node, &l, infer->diag));
    TMK_TRY(tmk_want_dtype(infer->in[0], dtype_of(&l.keys), "input 'X'", infer->diag));
    return tmk_infer_set(infer, 0, dtype_of(&l.values), &infer->in[0]->shape);
}

static enum tmk_status run_labels(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0];
    struct tmk_tensor *y = tmk_run_out(run, 0);
    struct labels l;
    const bool nan_is_a_key = run->node->row->variant;
    TMK_TRY(find_labels(run->node, &l, run->diag));
    for (size_t i = 0, n = tmk_tensor_count(x); y && i < n; i++) {
        size_t k = 0;
        while (k < l.keys.n && !is_number(x, i, &l.keys, k, nan_is_a_key))
            k++;
        if (l.values.ints)
            ((int64_t *)y->data)[i] = k < l.keys.n ? l.values.ints[k] : l.other_int;
        else
            ((float *)y->data)[i] = k < l.keys.n ? l.values.floats[k] : l.other_float;
    }
    return TMK_OK;
}

/* Each element is compared with each key, or category. */
static double cost_lists(const struct tmk_node *node, const struct tmk_tensor *const *in,
                         const struct tmk_tensor *out) {
    struct labels l;
    size_t n;
    (void)out;
    if (tmk_node_ints(node, "cats_int64s", &n) || find_labels(node, &l, NULL) != TMK_OK)
        return tmk_cost_count(in[0]) * (double)n;
    return tmk_cost_count(in[0]) * (double)l.keys.n;
}

/* ---- FeatureVectorizer: the operands' rows, side by side ---- */

static enum tmk_status infer_vectorizer(struct tmk_infer *infer) {
    struct tmk_shape shape = {2, {1, 0}};
    size_t n;
    const int64_t *widths = tmk_node_ints(infer->node, "inputdimensions", &n);
    if (n != infer->n_in)
        return tmk_fail(infer->diag, TMK_SHAPE, "'inputdimensions' has %zu entries for %u inputs",
                        n, infer->n_in);
    for (uint32_t i = 0; i < infer->n_in; i++) {
        struct tmk_ml_rows rows;
        if (!infer->in[i])
            return tmk_fail(infer->diag, TMK_GRAPH, "input %u is absent", i);
        TMK_TRY(tmk_ml_rows_of(infer->in[i], &rows, infer->diag));
        if (rows.features != widths[i] || (i && rows.n != shape.dim[0]) ||
            !tmk_add_i64(shape.dim[1], widths[i], &shape.dim[1]))
            return tmk_fail(infer->diag, TMK_SHAPE,
                            "input %u is %lld rows of %lld, not %lld of %lld", i, (long long)rows.n,
                            (long long)rows.features, (long long)(i ? shape.dim[0] : rows.n),
                            (long long)widths[i]);
        shape.dim[0] = rows.n;
    }
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &shape);
}

static enum tmk_status run_vectorizer(struct tmk_run *run) {
    struct tmk_tensor *y = tmk_run_out(run, 0);
    size_t at = 0;
    for (uint32_t i = 0; y && i < run->n_in; i++) {
        struct tmk_run one = *run;
        struct tmk_ml_rows rows;
        one.in = run->in + i;
        TMK_TRY(tmk_ml_read(&one, &rows));
        const size_t width = (size_t)rows.features, all = (size_t)y->shape.dim[1];
        for (size_t r = 0; r < (size_t)rows.n && width; r++)
            memcpy((float *)y->data + r * all + at, rows.x + r * width, width * sizeof(float));
        at += width;
    }
    return TMK_OK;
}

/* ---- ZipMap: a sequence of maps from classes to scores, which here stays the tensor of scores
 * ---- */

static enum tmk_status infer_zip_map(struct tmk_infer *infer) {
    const struct tmk_shape *shape = &infer->in[0]->shape;
    const struct tmk_ml_labels labels = tmk_ml_labels_of(infer->node, "classlabels_int64s");
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_FLOAT32, "input 'X'", infer->diag));
    if (shape->rank < 1 || shape->rank > 2 || shape->dim[shape->rank - 1] != (int64_t)labels.n)
        return tmk_fail(infer->diag, TMK_SHAPE, "input 'X' does not hold scores of %zu classes",
                        labels.n);
    return tmk_infer_same(infer);
}

#define LABEL_ATTRS                                                                                \
    "default_float:float default_int64:int default_string:string keys_floats:floats "              \
    "keys_int64s:ints keys_strings:strings values_floats:floats values_int64s:ints "               \
    "values_strings:strings"

const struct tmk_op tmk_ops_ml_encode[] = {
    {TMK_OP_KEY(TMK_DOMAIN_ML, "Imputer", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .flags = TMK_OP_INPLACE, .channel = TMK_CHANNEL_INHERIT,
     .attrs = "imputed_value_floats:floats imputed_value_int64s:ints replaced_value_float:float "
              "replaced_value_int64:int",
     .infer = infer_imputer, .run = run_imputer},
    {TMK_OP_KEY(TMK_DOMAIN_ML, "OneHotEncoder", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .attrs = "cats_int64s:ints cats_strings:strings zeros:int", .infer = infer_one_hot,
     .run = run_one_hot, .cost = cost_lists},
    {TMK_OP_KEY(TMK_DOMAIN_ML, "LabelEncoder", 2, 3), TMK_OP_COUNTS(1, 1, 1, 1),
     .attrs = LABEL_ATTRS, .infer = infer_labels, .run = run_labels, .cost = cost_lists},
    {TMK_OP_KEY(TMK_DOMAIN_ML, "LabelEncoder", 4, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .attrs = LABEL_ATTRS " default_tensor:tensor keys_tensor:tensor values_tensor:tensor",
     .variant = true /* NaN is a key */, .infer = infer_labels, .run = run_labels,
     .cost = cost_lists},
    {TMK_OP_KEY(TMK_DOMAIN_ML, "FeatureVectorizer", 1, INT32_MAX),
     TMK_OP_COUNTS(1, TMK_VARIADIC, 1, 1), .attrs = "inputdimensions:ints!",
     .infer = infer_vectorizer, .run = run_vectorizer},
    {TMK_OP_KEY(TMK_DOMAIN_ML, "ZipMap", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .flags = TMK_OP_VIEW | TMK_OP_INPLACE, .channel = TMK_CHANNEL_INHERIT,
     .attrs = "classlabels_int64s:ints classlabels_strings:strings", .infer = infer_zip_map,
     .run = tmk_run_view},
    {NULL}};
