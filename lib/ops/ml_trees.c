/* SPDX-License-Identifier: Apache-2.0 */
/* Ensembles of decision trees: TreeEnsembleRegressor and TreeEnsembleClassifier, which name nodes
 * by tree and number, and TreeEnsemble, which names them by position. */
#include <string.h>

#include "ops/ml_forest.h"

/* ---- regression ---- */

static const char *kind_of(const struct tmk_node *node) {
    return node->row->table;
}

static enum tmk_status find_regressor(const struct tmk_node *node, const struct tmk_tensor *x,
                                      struct tmk_ml_rows *rows, struct tmk_forest *f,
                                      struct tmk_diag *diag) {
    static const enum tmk_aggregate means[] = {TMK_AGGREGATE_SUM, TMK_AGGREGATE_AVERAGE,
                                               TMK_AGGREGATE_MIN, TMK_AGGREGATE_MAX};
    const int64_t targets = tmk_node_int(node, "n_targets", 1);
    int aggregate = 0;
    TMK_TRY(tmk_ml_rows_of(x, rows, diag));
    if (targets < 1 || targets > INT32_MAX)
        return tmk_fail(diag, TMK_RANGE, "attribute 'n_targets' is %lld", (long long)targets);
    if (kind_of(node))
        TMK_TRY(tmk_choice(node, "aggregate_function", "SUM AVERAGE MIN MAX", &aggregate, diag));
    TMK_TRY(tmk_forest_plant(node, kind_of(node), (size_t)targets, f, diag));
    if (kind_of(node))
        f->aggregate = means[aggregate];
    enum tmk_status status = tmk_forest_check(f, rows->features, diag);
    if (status != TMK_OK)
        tmk_forest_drop(f);
    return status;
}

static enum tmk_status infer_regressor(struct tmk_infer *infer) {
    struct tmk_ml_rows rows;
    struct tmk_forest f;
    TMK_TRY(find_regressor(infer->node, infer->in[0], &rows, &f, infer->diag));
    const struct tmk_shape y = {2, {rows.n, (int64_t)f.targets}};
    tmk_forest_drop(&f);
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &y);
}

static enum tmk_status take_scores(struct tmk_run *run, size_t n, double **scores, bool **has) {
    *scores = tmk_scratch(run, n, sizeof **scores);
    *has = tmk_scratch(run, n, sizeof **has);
    return *scores && *has ? TMK_OK : tmk_nomem(run->diag);
}

/* Of one target, ONNX Runtime applies no transform but PROBIT. */
static enum tmk_status run_forest(struct tmk_run *run, const struct tmk_ml_rows *rows,
                                  const struct tmk_forest *f) {
    struct tmk_tensor *y = tmk_run_out(run, 0);
    double *scores;
    bool *has;
    TMK_TRY(take_scores(run, f->targets, &scores, &has));
    const bool based = f->n_base == f->targets;
    for (size_t r = 0; y && r < (size_t)rows->n; r++) {
        float *to = (float *)y->data + r * f->targets;
        tmk_forest_climb(f, rows->x + r * (size_t)rows->features, scores, has);
        for (size_t i = 0; i < f->targets; i++)
            to[i] = (float)(scores[i] + (based ? (double)f->base[i] : 0));
        tmk_ml_scores(to, f->targets, f->transform, TMK_ML_NO_OTHER);
    }
    return TMK_OK;
}

static enum tmk_status run_regressor(struct tmk_run *run) {
    struct tmk_ml_rows rows;
    struct tmk_forest f;
    TMK_TRY(find_regressor(run->node, run->in[0], &rows, &f, run->diag));
    enum tmk_status status = tmk_ml_read(run, &rows);
    TMK_THEN(status, run_forest(run, &rows, &f));
    tmk_forest_drop(&f);
    return status;
}

/* ---- classification ---- */

static enum tmk_status find_classifier(const struct tmk_node *node, const struct tmk_tensor *x,
                                       struct tmk_ml_rows *rows, struct tmk_ml_labels *labels,
                                       struct tmk_forest *f, struct tmk_diag *diag) {
    TMK_TRY(tmk_ml_rows_of(x, rows, diag));
    *labels = tmk_ml_labels_of(node, "classlabels_int64s");
    if (!labels->n || labels->n > INT32_MAX)
        return tmk_fail(diag, TMK_GRAPH, "a classifier without classes");
    TMK_TRY(tmk_forest_plant(node, kind_of(node), labels->n, f, diag));
    enum tmk_status status = tmk_forest_check(f, rows->features, diag);
    if (status == TMK_OK && f->n_base > f->targets)
        status =
            tmk_fail(diag, TMK_SHAPE, "%zu base values for %zu classes", f->n_base, f->targets);
    if (status != TMK_OK)
        tmk_forest_drop(f);
    return status;
}

static enum tmk_status infer_classifier(struct tmk_infer *infer) {
    struct tmk_ml_rows rows;
    struct tmk_ml_labels labels;
    struct tmk_forest f;
    TMK_TRY(find_classifier(infer->node, infer->in[0], &rows, &labels, &f, infer->diag));
    tmk_forest_drop(&f);
    return tmk_ml_infer_classes(infer, &labels, rows.n, labels.n == 1 ? 2 : (int64_t)labels.n);
}

/* Facts about all weights, by which two classes are told apart. */
struct two {
    bool one_sided; /* all weights are of one class: the other has what is left */
    bool positive;  /* no weight is negative */
};

static struct two sides_of(const struct tmk_forest *f) {
    struct two two = {f->targets <= 2, true};
    for (size_t i = 0; i < f->n_weights; i++) {
        two.positive = two.positive && f->weights[i].value >= 0;
        two.one_sided = two.one_sided && f->weights[i].target == f->weights[0].target;
    }
    return two;
}

/* One row's scores become its class and the scores to write. */
static size_t classify_two(const struct tmk_forest *f, const struct two *two, double *scores,
                           bool *has, float *to) {
    const bool both = f->targets == 2 && has[1];
    enum tmk_ml_other other = TMK_ML_NEGATION;
    size_t n = f->targets;
    if (f->n_base == 2 && both) {
        scores[1] = (double)f->base[1] + scores[0];
        scores[0] = -scores[1];
    } else {
        for (size_t i = 0; i < f->n_base; i++)
            scores[i] += (double)f->base[i];
        if (f->n_base < 2 && !both)
            n = 1;
    }
    const double weight = both ? scores[1] : scores[0];
    const bool over = weight > (two->one_sided && two->positive ? 0.5 : 0);
    if (two->one_sided && two->positive)
        other = TMK_ML_COMPLEMENT;
    for (size_t i = 0; i < n; i++)
        to[i] = (float)scores[i];
    tmk_ml_scores(to, n, f->transform, other);
    return over;
}

static size_t classify_many(const struct tmk_forest *f, double *scores, bool *has, float *to) {
    size_t best = f->targets;
    for (size_t i = 0; i < f->targets; i++) {
        has[i] = has[i] || i < f->n_base;
        scores[i] += i < f->n_base ? (double)f->base[i] : 0;
        if (has[i] && (best == f->targets || scores[i] > scores[best]))
            best = i;
        to[i] = (float)scores[i];
    }
    tmk_ml_scores(to, f->targets, f->transform, TMK_ML_NO_OTHER);
    return best == f->targets ? 0 : best;
}

static enum tmk_status classify_rows(struct tmk_run *run, const struct tmk_ml_rows *rows,
                                     const struct tmk_ml_labels *labels,
                                     const struct tmk_forest *f) {
    struct tmk_tensor *y = tmk_run_out(run, 0), *z = tmk_run_out(run, 1);
    const struct two two = sides_of(f);
    const size_t width = labels->n == 1 ? 2 : labels->n;
    double *scores;
    float *to;
    bool *has;
    TMK_TRY(take_scores(run, f->targets, &scores, &has));
    TMK_TRY(tmk_scratch_floats(run, width, 1, 1, &to));
    for (size_t r = 0; r < (size_t)rows->n; r++) {
        tmk_forest_climb(f, rows->x + r * (size_t)rows->features, scores, has);
        const size_t class = f->targets > 2 ? classify_many(f, scores, has, to)
                                            : classify_two(f, &two, scores, has, to);
        if (y)
            ((int64_t *)y->data)[r] = class < labels->n ? labels->ints[class] : (int64_t) class;
        if (z)
            memcpy((float *)z->data + r * width, to, width * sizeof *to);
    }
    return TMK_OK;
}

static enum tmk_status run_classifier(struct tmk_run *run) {
    struct tmk_ml_rows rows;
    struct tmk_ml_labels labels;
    struct tmk_forest f;
    TMK_TRY(find_classifier(run->node, run->in[0], &rows, &labels, &f, run->diag));
    enum tmk_status status = tmk_ml_read(run, &rows);
    TMK_THEN(status, classify_rows(run, &rows, &labels, &f));
    tmk_forest_drop(&f);
    return status;
}

/* A row climbs at most through all nodes of its trees. */
static double cost_trees(const struct tmk_node *node, const struct tmk_tensor *const *in,
                         const struct tmk_tensor *out) {
    size_t n;
    (void)out;
    (void)tmk_node_ints(node, "nodes_featureids", &n);
    return (in[0]->shape.rank == 2 ? (double)in[0]->shape.dim[0] : 1) * (double)n;
}

#define NODES                                                                                      \
    "base_values:floats base_values_as_tensor:tensor nodes_falsenodeids:ints "                     \
    "nodes_featureids:ints nodes_hitrates:floats nodes_hitrates_as_tensor:tensor "                 \
    "nodes_missing_value_tracks_true:ints nodes_modes:strings nodes_nodeids:ints "                 \
    "nodes_treeids:ints nodes_truenodeids:ints nodes_values:floats nodes_values_as_tensor:tensor " \
    "post_transform:string "

const struct tmk_op tmk_ops_ml_trees[] = {
    {TMK_OP_KEY(TMK_DOMAIN_ML, "TreeEnsembleRegressor", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .channel = TMK_CHANNEL_LAST, .table = "target",
     .attrs = NODES "aggregate_function:string n_targets:int target_ids:ints target_nodeids:ints "
                    "target_treeids:ints target_weights:floats target_weights_as_tensor:tensor",
     .infer = infer_regressor, .run = run_regressor, .cost = cost_trees},
    {TMK_OP_KEY(TMK_DOMAIN_ML, "TreeEnsembleClassifier", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 2),
     .table = "class",
     .attrs = NODES "class_ids:ints class_nodeids:ints class_treeids:ints class_weights:floats "
                    "class_weights_as_tensor:tensor classlabels_int64s:ints "
                    "classlabels_strings:strings",
     .infer = infer_classifier, .run = run_classifier, .cost = cost_trees},
    {TMK_OP_KEY(TMK_DOMAIN_ML, "TreeEnsemble", 5, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .channel = TMK_CHANNEL_LAST,
     .attrs = "aggregate_function:int leaf_targetids:ints! leaf_weights:tensor! "
              "membership_values:tensor n_targets:int nodes_falseleafs:ints! "
              "nodes_falsenodeids:ints! nodes_featureids:ints! nodes_hitrates:tensor "
              "nodes_missing_value_tracks_true:ints nodes_modes:tensor! nodes_splits:tensor! "
              "nodes_trueleafs:ints! nodes_truenodeids:ints! post_transform:int tree_roots:ints!",
     .infer = infer_regressor, .run = run_regressor, .cost = cost_trees},
    {NULL}};
