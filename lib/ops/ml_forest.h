/* SPDX-License-Identifier: Apache-2.0 */
/* A forest: trees of branches that point at nodes, and leaves that hold weights. */
#pragma once

#include "ops/ml.h"

/* In the order of TreeEnsemble's numbers. */
enum tmk_tree_mode {
    TMK_TREE_MODE_LEQ,
    TMK_TREE_MODE_LT,
    TMK_TREE_MODE_GTE,
    TMK_TREE_MODE_GT,
    TMK_TREE_MODE_EQ,
    TMK_TREE_MODE_NEQ,
    TMK_TREE_MODE_MEMBER,
    TMK_TREE_MODE_LEAF,
    TMK_TREE_MODES
};
enum tmk_aggregate {
    TMK_AGGREGATE_AVERAGE,
    TMK_AGGREGATE_SUM,
    TMK_AGGREGATE_MIN,
    TMK_AGGREGATE_MAX,
    TMK_AGGREGATES
};

struct tmk_tree_branch {
    enum tmk_tree_mode mode;
    bool missing; /* a NaN goes to `yes` */
    int64_t feature;
    float value;
    uint32_t yes, no;     /* nodes; of a leaf its weights, [yes, no) */
    uint32_t first, past; /* of MEMBER: the set's place among the members */
};

struct tmk_tree_weight {
    size_t target;
    float value;
};

/* malloc'ed; end with tmk_forest_drop. */
struct tmk_forest {
    struct tmk_tree_branch *nodes;
    uint32_t *roots;
    struct tmk_tree_weight *weights;
    size_t n, n_roots, n_weights, targets;
    const float *members; /* the attribute's */
    enum tmk_aggregate aggregate;
    enum tmk_ml_transform transform;
    float *base; /* n_base */
    size_t n_base;
};

/* From a node's attributes, checked. `kind`: how those of its weights begin; NULL: TreeEnsemble. On
 * success end with tmk_forest_drop. */
enum tmk_status tmk_forest_plant(const struct tmk_node *node, const char *kind, size_t targets,
                                 struct tmk_forest *out, struct tmk_diag *diag);
void tmk_forest_drop(struct tmk_forest *f);
/* TMK_RANGE unless every branch asks for one of so many features. */
enum tmk_status tmk_forest_check(const struct tmk_forest *f, int64_t features,
                                 struct tmk_diag *diag);
/* What the trees give one row: [targets] scores, and whether there are any. */
void tmk_forest_climb(const struct tmk_forest *f, const float *x, double *scores, bool *has);
