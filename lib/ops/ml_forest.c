/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/ml_forest.h"
#include "base/size.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tmk_forest_drop(struct tmk_forest *f) {
    free(f->nodes);
    free(f->roots);
    free(f->weights);
    free(f->base);
}

static enum tmk_status make_arrays(struct tmk_forest *f, size_t n, size_t weights,
                                   struct tmk_diag *diag) {
    if (n > INT32_MAX || weights > INT32_MAX)
        return tmk_fail(diag, TMK_RANGE, "%zu nodes with %zu weights are too many", n, weights);
    f->n = n;
    f->n_weights = weights;
    f->nodes = calloc(n + 1, sizeof *f->nodes);
    f->roots = calloc(n + 1, sizeof *f->roots);
    f->weights = calloc(weights + 1, sizeof *f->weights);
    return f->nodes && f->roots && f->weights ? TMK_OK : tmk_nomem(diag);
}

/* ---- attributes ---- */

/* A list of numbers: of floats, or, by the name with `_as_tensor`, in a tensor. */
struct numbers {
    const float *floats;
    const double *doubles;
    size_t n;
};

static float number_at(const struct numbers *x, size_t i) {
    return x->floats ? x->floats[i] : (float)x->doubles[i];
}

static enum tmk_status tensor_numbers(const struct tmk_attr *attr, struct numbers *out,
                                      struct tmk_diag *diag) {
    const struct tmk_tensor *t = attr->tensors;
    if (!t->data || (t->dtype != TMK_FLOAT32 && t->dtype != TMK_FLOAT64))
        return tmk_fail(diag, TMK_TYPE, "attribute '%s' is of %s, not of float or double",
                        attr->name, tmk_dtype_name(t->dtype));
    out->n = tmk_tensor_count(t);
    out->floats = t->dtype == TMK_FLOAT32 ? t->data : NULL;
    out->doubles = t->dtype == TMK_FLOAT64 ? t->data : NULL;
    return TMK_OK;
}

static enum tmk_status find_numbers(const struct tmk_node *node, const char *name,
                                    struct numbers *out, struct tmk_diag *diag) {
    char as_tensor[64];
    snprintf(as_tensor, sizeof as_tensor, "%s_as_tensor", name);
    const struct tmk_attr *attr = tmk_node_attr(node, as_tensor);
    *out = (struct numbers){0};
    if (attr && attr->kind == TMK_ATTR_TENSOR && tmk_tensor_count(attr->tensors))
        return tensor_numbers(attr, out, diag);
    out->floats = tmk_node_floats(node, name, &out->n);
    return TMK_OK;
}

static enum tmk_status want_length(const char *name, size_t have, size_t want,
                                   struct tmk_diag *diag) {
    return have == want ? TMK_OK
                        : tmk_fail(diag, TMK_SHAPE, "attribute '%s' has %zu entries, not %zu", name,
                                   have, want);
}

static enum tmk_status want_ints(const struct tmk_node *node, const char *name, size_t n,
                                 const int64_t **out, struct tmk_diag *diag) {
    size_t have;
    *out = tmk_node_ints(node, name, &have);
    return want_length(name, have, n, diag);
}

/* ---- nodes by tree and number ---- */

struct place {
    int64_t tree, number;
    uint32_t at;
};

static int by_place(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    return x->tree != y->tree ? TMK_ORDER(x->tree, y->tree) : TMK_ORDER(x->number, y->number);
}

struct naming {
    struct place *sorted;
    size_t n;
};

/* `guess` is where it stands in files whose nodes are in order. */
static const struct place *find_place(const struct naming *names, int64_t tree, int64_t number,
                                      uint64_t guess) {
    const struct place key = {tree, number, 0};
    if (guess < names->n && by_place(&key, &names->sorted[guess]) == 0)
        return &names->sorted[guess];
    return bsearch(&key, names->sorted, names->n, sizeof key, by_place);
}

static enum tmk_status name_nodes(const int64_t *trees, const int64_t *numbers, size_t n,
                                  struct naming *out, struct tmk_diag *diag) {
    bool sorted = true;
    out->sorted = calloc(n + 1, sizeof *out->sorted);
    out->n = n;
    TMK_TRY_ALLOC(out->sorted, diag);
    for (size_t i = 0; i < n; i++) {
        out->sorted[i] = (struct place){trees[i], numbers[i], (uint32_t)i};
        sorted = sorted && (i == 0 || by_place(&out->sorted[i - 1], &out->sorted[i]) < 0);
    }
    if (!sorted)
        qsort(out->sorted, n, sizeof *out->sorted, by_place);
    for (size_t i = 1; i < n; i++)
        if (by_place(&out->sorted[i - 1], &out->sorted[i]) == 0)
            return tmk_fail(diag, TMK_GRAPH, "node %lld of tree %lld is there twice",
                            (long long)out->sorted[i].number, (long long)out->sorted[i].tree);
    return TMK_OK;
}

static enum tmk_status read_mode(const struct tmk_attr *modes, size_t i, enum tmk_tree_mode *out,
                                 struct tmk_diag *diag) {
    static const char *const names[TMK_TREE_MODES] = {
        [TMK_TREE_MODE_LEQ] = "BRANCH_LEQ", [TMK_TREE_MODE_LT] = "BRANCH_LT",
        [TMK_TREE_MODE_GTE] = "BRANCH_GTE", [TMK_TREE_MODE_GT] = "BRANCH_GT",
        [TMK_TREE_MODE_EQ] = "BRANCH_EQ",   [TMK_TREE_MODE_NEQ] = "BRANCH_NEQ",
        [TMK_TREE_MODE_MEMBER] = "",        [TMK_TREE_MODE_LEAF] = "LEAF"};
    for (int mode = 0; mode < TMK_TREE_MODES; mode++)
        if (mode != TMK_TREE_MODE_MEMBER && strcmp(modes->strings[i], names[mode]) == 0) {
            *out = (enum tmk_tree_mode)mode;
            return TMK_OK;
        }
    return tmk_fail(diag, TMK_GRAPH, "'nodes_modes' holds '%s', which is not known",
                    modes->strings[i]);
}

static enum tmk_status link_child(const struct naming *names, size_t node, int64_t tree,
                                  int64_t number, int64_t child, uint32_t *out,
                                  struct tmk_diag *diag) {
    const struct place *found =
        find_place(names, tree, child, (uint64_t)node + (uint64_t)child - (uint64_t)number);
    if (!found)
        return tmk_fail(diag, TMK_GRAPH,
                        "node %lld of tree %lld leads to node %lld, which is not there",
                        (long long)number, (long long)tree, (long long)child);
    *out = found->at;
    return TMK_OK;
}

static enum tmk_status read_named_nodes(const struct tmk_node *node, size_t n, const int64_t *trees,
                                        const int64_t *numbers, const struct naming *names,
                                        struct tmk_forest *f, struct tmk_diag *diag) {
    const struct tmk_attr *modes = tmk_node_attr(node, "nodes_modes");
    const int64_t *features, *yes, *no;
    struct numbers values;
    size_t n_missing;
    const int64_t *missing = tmk_node_ints(node, "nodes_missing_value_tracks_true", &n_missing);
    TMK_TRY(find_numbers(node, "nodes_values", &values, diag));
    TMK_TRY(want_length("nodes_values", values.n, n, diag));
    TMK_TRY(want_length("nodes_modes", modes && modes->kind == TMK_ATTR_STRINGS ? modes->n : 0, n,
                        diag));
    TMK_TRY(want_ints(node, "nodes_featureids", n, &features, diag));
    TMK_TRY(want_ints(node, "nodes_truenodeids", n, &yes, diag));
    TMK_TRY(want_ints(node, "nodes_falsenodeids", n, &no, diag));
    if (n_missing)
        TMK_TRY(want_length("nodes_missing_value_tracks_true", n_missing, n, diag));
    for (size_t i = 0; i < n; i++) {
        struct tmk_tree_branch *b = &f->nodes[i];
        TMK_TRY(read_mode(modes, i, &b->mode, diag));
        b->missing = n_missing && missing[i] == 1;
        if (i == 0 || trees[i] != trees[i - 1])
            f->roots[f->n_roots++] = (uint32_t)i;
        if (b->mode == TMK_TREE_MODE_LEAF)
            continue;
        b->feature = features[i];
        b->value = number_at(&values, i);
        TMK_TRY(link_child(names, i, trees[i], numbers[i], yes[i], &b->yes, diag));
        TMK_TRY(link_child(names, i, trees[i], numbers[i], no[i], &b->no, diag));
    }
    return TMK_OK;
}

/* The attributes of weights begin with "target" or "class". Those of a leaf stand together in the
 * end; those of branches are passed over. */
static enum tmk_status read_named_weights(const struct tmk_node *node, const char *kind,
                                          const struct naming *names, struct tmk_forest *f,
                                          struct tmk_diag *diag) {
    char name[4][32];
    static const char *const ends[] = {"nodeids", "treeids", "ids", "weights"};
    const int64_t *numbers, *trees, *ids;
    struct numbers values;
    for (size_t i = 0; i < TMK_COUNT(ends); i++)
        snprintf(name[i], sizeof name[i], "%s_%s", kind, ends[i]);
    TMK_TRY(find_numbers(node, name[3], &values, diag));
    TMK_TRY(want_length(name[3], values.n, f->n_weights, diag));
    TMK_TRY(want_ints(node, name[0], f->n_weights, &numbers, diag));
    TMK_TRY(want_ints(node, name[1], f->n_weights, &trees, diag));
    TMK_TRY(want_ints(node, name[2], f->n_weights, &ids, diag));
    uint32_t *leaf_of = calloc(f->n_weights + 1, sizeof *leaf_of), total = 0;
    TMK_TRY_ALLOC(leaf_of, diag);
    enum tmk_status status = TMK_OK;
    uint64_t guess = 0;
    for (size_t i = 0; status == TMK_OK && i < f->n_weights; i++) {
        while (guess < names->n && names->sorted[guess].tree == trees[i] &&
               names->sorted[guess].number < numbers[i])
            guess++;
        const struct place *found = find_place(names, trees[i], numbers[i], guess);
        if (!found || ids[i] < 0 || (uint64_t)ids[i] >= f->targets) {
            status = tmk_fail(diag, TMK_GRAPH,
                              "a weight is of node %lld of tree %lld and of target %lld, which is "
                              "not there",
                              (long long)numbers[i], (long long)trees[i], (long long)ids[i]);
            break;
        }
        guess = (uint64_t)(found - names->sorted);
        leaf_of[i] = found->at;
        f->nodes[found->at].past++; /* so many */
    }
    for (size_t i = 0; status == TMK_OK && i < f->n; i++) {
        if (f->nodes[i].mode == TMK_TREE_MODE_LEAF)
            f->nodes[i].yes = f->nodes[i].no = total;
        f->nodes[i].first = total;
        total += f->nodes[i].past;
    }
    for (size_t i = 0; status == TMK_OK && i < f->n_weights; i++) {
        struct tmk_tree_branch *b = &f->nodes[leaf_of[i]];
        f->weights[b->first++] = (struct tmk_tree_weight){(size_t)ids[i], number_at(&values, i)};
        b->no += b->mode == TMK_TREE_MODE_LEAF;
    }
    free(leaf_of);
    return status;
}

static enum tmk_status read_named(const struct tmk_node *node, const char *kind,
                                  struct tmk_forest *f, struct tmk_diag *diag) {
    char name[32];
    size_t n, n_weights;
    const int64_t *numbers = tmk_node_ints(node, "nodes_nodeids", &n), *trees;
    struct naming names = {0};
    struct numbers base;
    snprintf(name, sizeof name, "%s_ids", kind);
    (void)tmk_node_ints(node, name, &n_weights);
    TMK_TRY(want_ints(node, "nodes_treeids", n, &trees, diag));
    TMK_TRY(tmk_ml_transform_of(node, &f->transform, diag));
    TMK_TRY(make_arrays(f, n, n_weights, diag));
    TMK_TRY(find_numbers(node, "base_values", &base, diag));
    f->base = calloc(base.n + 1, sizeof *f->base);
    TMK_TRY_ALLOC(f->base, diag);
    for (; f->n_base < base.n; f->n_base++)
        f->base[f->n_base] = number_at(&base, f->n_base);
    enum tmk_status status = name_nodes(trees, numbers, n, &names, diag);
    TMK_THEN(status, read_named_nodes(node, n, trees, numbers, &names, f, diag));
    TMK_THEN(status, read_named_weights(node, kind, &names, f, diag));
    free(names.sorted);
    return status;
}

/* ---- nodes by position ---- */

static enum tmk_status read_placed_child(const int64_t *to, const int64_t *leaf, size_t i,
                                         size_t nodes, size_t leaves, uint32_t *out,
                                         struct tmk_diag *diag) {
    const size_t most = leaf[i] ? leaves : nodes;
    if (to[i] < 0 || (uint64_t)to[i] >= most)
        return tmk_fail(diag, TMK_GRAPH, "node %zu leads to %s %lld of %zu", i,
                        leaf[i] ? "leaf" : "node", (long long)to[i], most);
    *out = (uint32_t)((leaf[i] ? nodes : 0) + (size_t)to[i]);
    return TMK_OK;
}

static enum tmk_status read_placed_nodes(const struct tmk_node *node, size_t n, size_t leaves,
                                         struct tmk_forest *f, struct tmk_diag *diag) {
    const struct tmk_attr *modes = tmk_node_attr(node, "nodes_modes"),
                          *sets = tmk_node_attr(node, "membership_values");
    const int64_t *features = tmk_node_ints(node, "nodes_featureids", &n), *yes, *no, *yes_leaf,
                  *no_leaf;
    size_t n_missing, member = 0;
    const int64_t *missing = tmk_node_ints(node, "nodes_missing_value_tracks_true", &n_missing);
    struct numbers splits, members = {0};
    TMK_TRY(tensor_numbers(tmk_node_attr(node, "nodes_splits"), &splits, diag));
    TMK_TRY(want_length("nodes_splits", splits.n, n, diag));
    TMK_TRY(want_ints(node, "nodes_truenodeids", n, &yes, diag));
    TMK_TRY(want_ints(node, "nodes_falsenodeids", n, &no, diag));
    TMK_TRY(want_ints(node, "nodes_trueleafs", n, &yes_leaf, diag));
    TMK_TRY(want_ints(node, "nodes_falseleafs", n, &no_leaf, diag));
    if (n_missing)
        TMK_TRY(want_length("nodes_missing_value_tracks_true", n_missing, n, diag));
    if (modes->tensors->dtype != TMK_UINT8 || !modes->tensors->data)
        return tmk_fail(diag, TMK_TYPE, "attribute 'nodes_modes' is not of uint8");
    TMK_TRY(want_length("nodes_modes", tmk_tensor_count(modes->tensors), n, diag));
    if (sets) {
        TMK_TRY(tensor_numbers(sets, &members, diag));
        if (members.doubles)
            return tmk_fail(diag, TMK_UNSUPPORTED,
                            "attribute 'membership_values' of doubles is not supported");
    }
    f->members = members.floats;
    for (size_t i = 0; i < n; i++) {
        struct tmk_tree_branch *b = &f->nodes[i];
        const uint8_t mode = ((const uint8_t *)modes->tensors->data)[i];
        if (mode > TMK_TREE_MODE_MEMBER)
            return tmk_fail(diag, TMK_GRAPH, "'nodes_modes' holds %d", mode);
        *b = (struct tmk_tree_branch){.mode = (enum tmk_tree_mode)mode,
                                      .missing = n_missing && missing[i] == 1,
                                      .feature = features[i],
                                      .value = number_at(&splits, i)};
        TMK_TRY(read_placed_child(yes, yes_leaf, i, n, leaves, &b->yes, diag));
        TMK_TRY(read_placed_child(no, no_leaf, i, n, leaves, &b->no, diag));
        if (b->mode != TMK_TREE_MODE_MEMBER)
            continue;
        b->first = (uint32_t)member;
        while (member < members.n && !isnan(members.floats[member]))
            member++;
        b->past = (uint32_t)member;
        if (member == members.n)
            return tmk_fail(diag, TMK_SHAPE, "'membership_values' has no set for node %zu", i);
        member++;
    }
    return TMK_OK;
}

static enum tmk_status read_placed(const struct tmk_node *node, struct tmk_forest *f,
                                   struct tmk_diag *diag) {
    size_t n, leaves, roots;
    const int64_t transform = tmk_node_int(node, "post_transform", 0),
                  aggregate = tmk_node_int(node, "aggregate_function", 1),
                  *targets = tmk_node_ints(node, "leaf_targetids", &leaves),
                  *root = tmk_node_ints(node, "tree_roots", &roots);
    struct numbers weights;
    (void)tmk_node_ints(node, "nodes_featureids", &n);
    if (transform < 0 || transform >= TMK_ML_TRANSFORMS || aggregate < 0 ||
        aggregate >= TMK_AGGREGATES)
        return tmk_fail(diag, TMK_GRAPH, "'post_transform' is %lld and 'aggregate_function' %lld",
                        (long long)transform, (long long)aggregate);
    f->transform = (enum tmk_ml_transform)transform;
    f->aggregate = (enum tmk_aggregate)aggregate;
    TMK_TRY(tensor_numbers(tmk_node_attr(node, "leaf_weights"), &weights, diag));
    TMK_TRY(want_length("leaf_weights", weights.n, leaves, diag));
    TMK_TRY(make_arrays(f, n + leaves, leaves, diag));
    if (roots > n)
        return tmk_fail(diag, TMK_GRAPH, "%zu roots, and %zu nodes", roots, n);
    for (size_t i = 0; i < roots; i++) {
        if (root[i] < 0 || (uint64_t)root[i] >= n)
            return tmk_fail(diag, TMK_GRAPH, "root %lld of %zu nodes", (long long)root[i], n);
        f->roots[f->n_roots++] = (uint32_t)root[i];
    }
    for (size_t i = 0; i < leaves; i++) {
        if (targets[i] < 0 || (uint64_t)targets[i] >= f->targets)
            return tmk_fail(diag, TMK_GRAPH, "leaf %zu is of target %lld of %zu", i,
                            (long long)targets[i], f->targets);
        f->nodes[n + i] = (struct tmk_tree_branch){
            .mode = TMK_TREE_MODE_LEAF, .yes = (uint32_t)i, .no = (uint32_t)i + 1};
        f->weights[i] = (struct tmk_tree_weight){(size_t)targets[i], number_at(&weights, i)};
    }
    return read_placed_nodes(node, n, leaves, f, diag);
}

/* ---- both ---- */

/* A walk ends if no nodes form a circle: taking away nodes to which none leads takes all away. */
static enum tmk_status check_circles(const struct tmk_forest *f, struct tmk_diag *diag) {
    uint32_t *above = calloc(f->n + 1, sizeof *above), *free_ones = calloc(f->n + 1, sizeof *above);
    size_t n = 0, done = 0;
    enum tmk_status status = above && free_ones ? TMK_OK : tmk_nomem(diag);
    for (size_t i = 0; status == TMK_OK && i < f->n; i++)
        if (f->nodes[i].mode != TMK_TREE_MODE_LEAF) {
            above[f->nodes[i].yes]++;
            above[f->nodes[i].no]++;
        }
    for (size_t i = 0; status == TMK_OK && i < f->n; i++)
        if (!above[i])
            free_ones[n++] = (uint32_t)i;
    for (; status == TMK_OK && done < n; done++) {
        const struct tmk_tree_branch *b = &f->nodes[free_ones[done]];
        if (b->mode == TMK_TREE_MODE_LEAF)
            continue;
        if (!--above[b->yes])
            free_ones[n++] = b->yes;
        if (!--above[b->no])
            free_ones[n++] = b->no;
    }
    if (status == TMK_OK && done != f->n)
        status = tmk_fail(diag, TMK_GRAPH, "nodes of a tree lead back to themselves");
    free(above);
    free(free_ones);
    return status;
}

enum tmk_status tmk_forest_check(const struct tmk_forest *f, int64_t features,
                                 struct tmk_diag *diag) {
    for (size_t i = 0; i < f->n; i++)
        if (f->nodes[i].mode != TMK_TREE_MODE_LEAF &&
            (f->nodes[i].feature < 0 || f->nodes[i].feature >= features))
            return tmk_fail(diag, TMK_RANGE, "a tree asks for feature %lld of %lld",
                            (long long)f->nodes[i].feature, (long long)features);
    return TMK_OK;
}

enum tmk_status tmk_forest_plant(const struct tmk_node *node, const char *kind, size_t targets,
                                 struct tmk_forest *out, struct tmk_diag *diag) {
    struct tmk_forest f = {.targets = targets, .aggregate = TMK_AGGREGATE_SUM};
    enum tmk_status status = kind ? read_named(node, kind, &f, diag) : read_placed(node, &f, diag);
    TMK_THEN(status, check_circles(&f, diag));
    if (status == TMK_OK)
        *out = f;
    else
        tmk_forest_drop(&f);
    return status;
}

static bool goes_yes(const struct tmk_forest *f, const struct tmk_tree_branch *b, float x) {
    if (b->missing && isnan(x))
        return true;
    switch (b->mode) {
    case TMK_TREE_MODE_LEQ:
        return x <= b->value;
    case TMK_TREE_MODE_LT:
        return x < b->value;
    case TMK_TREE_MODE_GTE:
        return x >= b->value;
    case TMK_TREE_MODE_GT:
        return x > b->value;
    case TMK_TREE_MODE_EQ:
        return x == b->value;
    case TMK_TREE_MODE_NEQ:
        return x != b->value;
    default:
        break;
    }
    for (uint32_t i = b->first; i < b->past; i++)
        if (f->members[i] == x)
            return true;
    return false;
}

void tmk_forest_climb(const struct tmk_forest *f, const float *x, double *scores, bool *has) {
    memset(scores, 0, f->targets * sizeof *scores);
    memset(has, 0, f->targets * sizeof *has);
    for (size_t t = 0; t < f->n_roots; t++) {
        const struct tmk_tree_branch *b = &f->nodes[f->roots[t]];
        while (b->mode != TMK_TREE_MODE_LEAF)
            b = &f->nodes[goes_yes(f, b, x[b->feature]) ? b->yes : b->no];
        for (uint32_t i = b->yes; i < b->no; i++) {
            const struct tmk_tree_weight *w = &f->weights[i];
            double *score = &scores[w->target], value = (double)w->value;
            if (f->aggregate <= TMK_AGGREGATE_SUM)
                *score += value;
            else if (!has[w->target] ||
                     (f->aggregate == TMK_AGGREGATE_MIN ? value < *score : value > *score))
                *score = value;
            has[w->target] = true;
        }
    }
    for (size_t i = 0; f->aggregate == TMK_AGGREGATE_AVERAGE && f->n_roots && i < f->targets; i++)
        scores[i] /= (double)f->n_roots;
}
