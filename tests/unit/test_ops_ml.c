/* SPDX-License-Identifier: Apache-2.0 */
/* ai.onnx.ml: what attributes may not be, and what ONNX Runtime does not compute as specified. */
#include "op_case.h"

#define ROWS "init %x : f32[2,2] = {1, 2, -3, nan}"

/* A tree of a branch on feature F and two leaves, with other lists in place of some. */
#define TREE(feature, yes, no, nodes, modes, more)                                                 \
    "%y = ai.onnx.ml::TreeEnsembleRegressor.3(%x) {n_targets=1, nodes_featureids=[" feature        \
    ",0,0], nodes_truenodeids=" yes ", nodes_falsenodeids=" no ", nodes_nodeids=" nodes            \
    ", nodes_treeids=[0,0,0], nodes_values=[0f,0f,0f], nodes_modes=" modes                         \
    ", target_ids=[0,0], target_nodeids=[1,2], target_treeids=[0,0]" more "}"
#define MODES "[\"BRANCH_LEQ\",\"LEAF\",\"LEAF\"]"
#define WEIGHTS ", target_weights=[5f,7f]"

TEST(a_tree_climbs) {
    gives(17, ROWS, TREE("0", "[1,0,0]", "[2,0,0]", "[0,1,2]", MODES, WEIGHTS),
          "f32[2,1] = {7, 5}");
    gives(17, ROWS,
          TREE("1", "[1,0,0]", "[2,0,0]", "[0,1,2]", MODES,
               WEIGHTS ", nodes_missing_value_tracks_true=[1,0,0]"),
          "f32[2,1] = {7, 5}");
    gives(17, ROWS, TREE("1", "[1,0,0]", "[2,0,0]", "[0,1,2]", MODES, WEIGHTS),
          "f32[2,1] = {7, 7}");
}

TEST(trees_that_are_none_are_refused) {
    refuses(17, ROWS, TREE("2", "[1,0,0]", "[2,0,0]", "[0,1,2]", MODES, WEIGHTS), TMK_RANGE,
            "feature 2 of 2");
    refuses(17, ROWS, TREE("0", "[9,0,0]", "[2,0,0]", "[0,1,2]", MODES, WEIGHTS), TMK_GRAPH,
            "leads to node 9");
    refuses(17, ROWS, TREE("0", "[0,0,0]", "[2,0,0]", "[0,1,2]", MODES, WEIGHTS), TMK_GRAPH,
            "back to themselves");
    refuses(17, ROWS,
            TREE("0", "[1,2,0]", "[2,2,0]", "[0,1,2]",
                 "[\"BRANCH_LT\",\"BRANCH_LT\",\"BRANCH_LT\"]", WEIGHTS),
            TMK_GRAPH, "back to themselves");
    refuses(17, ROWS, TREE("0", "[1,0,0]", "[2,0,0]", "[0,1,1]", MODES, WEIGHTS), TMK_GRAPH,
            "twice");
    refuses(17, ROWS, TREE("0", "[1,0]", "[2,0,0]", "[0,1,2]", MODES, WEIGHTS), TMK_SHAPE,
            "nodes_truenodeids");
    refuses(17, ROWS,
            TREE("0", "[1,0,0]", "[2,0,0]", "[0,1,2]", "[\"BRANCH\",\"LEAF\",\"LEAF\"]", WEIGHTS),
            TMK_GRAPH, "'BRANCH'");
    refuses(17, ROWS, TREE("0", "[1,0,0]", "[2,0,0]", "[0,1,2]", MODES, ""), TMK_SHAPE,
            "target_weights");
    refuses(17, ROWS, TREE("0", "[1,0,0]", "[2,0,0]", "[0,1,2]", MODES, ", target_weights=[5f]"),
            TMK_SHAPE, "target_weights");
    refuses(
        17, ROWS,
        TREE("0", "[1,0,0]", "[2,0,0]", "[0,1,2]", MODES, WEIGHTS ", post_transform=\"COSINE\""),
        TMK_RANGE, "COSINE");
}

#define PLACED(yes, no, mode, more)                                                                \
    "%y = ai.onnx.ml::TreeEnsemble.5(%x) {leaf_targetids=[0,0], leaf_weights=f32[2]{5, 7}, "       \
    "nodes_falseleafs=[1], nodes_falsenodeids=[" no                                                \
    "], nodes_featureids=[0], nodes_modes=u8[1]{" mode                                             \
    "}, nodes_splits=f32[1]{0}, nodes_trueleafs=[1], nodes_truenodeids=[" yes                      \
    "], n_targets=1, tree_roots=" more "}"

TEST(trees_by_position) {
    gives(17, ROWS, PLACED("1", "0", "0", "[0]"), "f32[2,1] = {5, 7}");
    gives(17, ROWS, PLACED("1", "0", "6", "[0], membership_values=f32[3]{4, 1, nan}"),
          "f32[2,1] = {7, 5}");
    /* transforms have the numbers of the specification: 2 is LOGISTIC */
    gives(17, "init %x : f32[1,2] = {1, 2}",
          "%y = ai.onnx.ml::TreeEnsemble.5(%x) {leaf_targetids=[0,1], leaf_weights=f32[2]{0, 2}, "
          "nodes_falseleafs=[1,1], nodes_falsenodeids=[0,1], nodes_featureids=[0,0], "
          "nodes_modes=u8[2]{0, 0}, nodes_splits=f32[2]{0, 0}, nodes_trueleafs=[1,1], "
          "nodes_truenodeids=[0,1], n_targets=2, post_transform=2, tree_roots=[0,1]}",
          "f32[1,2] = {0.5, 0.8807971}");
    refuses(17, ROWS, PLACED("2", "0", "0", "[0]"), TMK_GRAPH, "leaf 2 of 2");
    refuses(17, ROWS, PLACED("-1", "0", "0", "[0]"), TMK_GRAPH, "leaf -1");
    refuses(17, ROWS, PLACED("1", "0", "0", "[1]"), TMK_GRAPH, "root 1");
    refuses(17, ROWS, PLACED("1", "0", "7", "[0]"), TMK_GRAPH, "7");
    refuses(17, ROWS, PLACED("1", "0", "6", "[0]"), TMK_SHAPE, "no set");
    refuses(17, ROWS, PLACED("1", "0", "0", "[0], post_transform=9"), TMK_GRAPH, "9");
}

TEST(lists_of_other_lengths_are_refused) {
    refuses(17, ROWS, "%y = ai.onnx.ml::LinearRegressor.1(%x) {coefficients=[1f], targets=1}",
            TMK_SHAPE, "2 are needed");
    refuses(17, ROWS, "%y = ai.onnx.ml::LinearRegressor.1(%x) {coefficients=[1f], targets=-1}",
            TMK_RANGE, "-1");
    refuses(17, ROWS,
            "%y = ai.onnx.ml::LinearClassifier.1(%x) {coefficients=[1f,2f,3f,4f], "
            "intercepts=[1f,2f], classlabels_ints=[1]}",
            TMK_SHAPE, "do not fit");
    refuses(17, ROWS,
            "%y = ai.onnx.ml::LinearClassifier.1(%x) {coefficients=[1f,2f,3f,4f], "
            "intercepts=[1f,2f], classlabels_strings=[\"a\",\"b\"]}",
            TMK_UNSUPPORTED, "strings");
    refuses(17, ROWS,
            "%y = ai.onnx.ml::SVMRegressor.1(%x) {coefficients=[1f], rho=[1f], n_supports=2, "
            "support_vectors=[1f,2f]}",
            TMK_SHAPE, "2 support vectors");
    refuses(17, ROWS,
            "%y = ai.onnx.ml::SVMClassifier.1(%x) {coefficients=[1f,2f], rho=[1f], "
            "classlabels_ints=[0,1], vectors_per_class=[1,-1], support_vectors=[1f,2f]}",
            TMK_RANGE, "-1");
    refuses(17, ROWS,
            "%y = ai.onnx.ml::SVMClassifier.1(%x) {coefficients=[1f,2f], "
            "classlabels_ints=[0,1], vectors_per_class=[1,1], support_vectors=[1f,2f,3f,4f]}",
            TMK_SHAPE, "'rho'");
    refuses(17, ROWS, "%y = ai.onnx.ml::Imputer.1(%x) {imputed_value_floats=[1f,2f,3f]}", TMK_SHAPE,
            "3 imputed values");
    refuses(17, "init %x : i64[2] = {1, 2}",
            "%y = ai.onnx.ml::LabelEncoder.2(%x) {keys_int64s=[1,2], values_int64s=[1]}", TMK_SHAPE,
            "2 keys for 1");
    refuses(17, "init %x : i64[2] = {1, 2}",
            "%y = ai.onnx.ml::OneHotEncoder.1(%x) {cats_int64s=[1], zeros=0}", TMK_RANGE,
            "element 1");
    refuses(17, ROWS, "%y = ai.onnx.ml::FeatureVectorizer.1(%x) {inputdimensions=[3]}", TMK_SHAPE,
            "input 0");
    refuses(17, ROWS, "%y = ai.onnx.ml::ZipMap.1(%x) {classlabels_int64s=[3]}", TMK_SHAPE,
            "1 classes");
}

/* From version 4 on, NaN is a label like others. */
TEST(nan_is_a_label) {
    const char *x = "init %x : f32[3] = {1, nan, 2}";
    gives(17, x, "%y = ai.onnx.ml::LabelEncoder.2(%x) {keys_floats=[1f,nan], values_int64s=[5,6]}",
          "i64[3] = {5, -1, -1}");
    gives(17, x, "%y = ai.onnx.ml::LabelEncoder.4(%x) {keys_floats=[1f,nan], values_int64s=[5,6]}",
          "i64[3] = {5, 6, -1}");
}
