# SPDX-License-Identifier: Apache-2.0
"""Models of one node of ai.onnx.ml, with random inputs and random trees."""
from itertools import product

import numpy as np
from contrib_cases import FLOAT, NUMBERS, Case, f32, one
from onnx import TensorProto, helper, numpy_helper

INT64 = TensorProto.INT64
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")
ROWS, FEATURES = 17, 4


def ml(name, op, operands, outputs=(FLOAT,), **attributes):
    return one(name, op, operands, outputs, domain="ai.onnx.ml", **attributes)


def floats(*shape):
    return f32(*shape).ravel().tolist()


def linear():
    for targets, transform in product((1, 3), TRANSFORMS):
        yield ml(f"{targets} {transform}", "LinearRegressor", [f32(ROWS, FEATURES)], coefficients=floats(targets, FEATURES),
                 intercepts=floats(targets), targets=targets, post_transform=transform)
    yield ml("bare", "LinearRegressor", [f32(ROWS, FEATURES)], coefficients=floats(FEATURES))
    yield ml("of integers", "LinearClassifier", [NUMBERS.integers(-3, 4, (ROWS, FEATURES))], (INT64, FLOAT), coefficients=floats(3, FEATURES),
             intercepts=floats(3), classlabels_ints=[1, 2, 3])
    for (classes, given), transform in product(((2, 1), (2, 2), (4, 4), (0, 1)), TRANSFORMS):
        yield ml(f"{classes} of {given} {transform}", "LinearClassifier", [f32(ROWS, FEATURES)], (INT64, FLOAT),
                 coefficients=floats(given, FEATURES), intercepts=floats(given), post_transform=transform,
                 **({"classlabels_ints": list(range(5, 5 + classes))} if classes else {}))


def vectors():
    for kernel, one_class in product(("LINEAR", "POLY", "RBF", "SIGMOID"), (0, 1)):
        yield ml(f"{kernel} {one_class}", "SVMRegressor", [f32(ROWS, FEATURES)], coefficients=floats(6), kernel_type=kernel,
                 kernel_params=[0.3, 0.2, 3.0], n_supports=6, rho=[0.1], support_vectors=floats(6, FEATURES), one_class=one_class)
    yield ml("without vectors", "SVMRegressor", [f32(ROWS, FEATURES)], coefficients=floats(FEATURES), rho=[0.1],
             kernel_params=[0.0, 0.0, 0.0])
    for classes, sure, transform in product((2, 3, 4), (False, True), TRANSFORMS):
        count, pairs = [2, 3, 1, 2][:classes], classes * (classes - 1) // 2
        more = {"prob_a": (-np.abs(f32(pairs)) - 0.5).tolist(), "prob_b": floats(pairs)} if sure else {}
        yield ml(f"{classes} {sure} {transform}", "SVMClassifier", [f32(ROWS, FEATURES)], (INT64, FLOAT),
                 classlabels_ints=list(range(3, 3 + classes)), coefficients=floats(classes - 1, sum(count)), kernel_type="RBF",
                 kernel_params=[0.3, 0.0, 3.0], rho=floats(pairs), support_vectors=floats(sum(count), FEATURES), vectors_per_class=count,
                 post_transform=transform, **more)
    for classes in (2, 3):
        yield ml(f"{classes} without vectors", "SVMClassifier", [f32(ROWS, FEATURES)], (INT64, FLOAT), rho=[0.2], kernel_params=[0.0] * 3,
                 classlabels_ints=list(range(classes)), coefficients=floats(classes, FEATURES))


def forest(kind, targets, trees=5, depth=3, positive=False, only=None, modes=("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")):
    """Attributes of full trees, whose features are small integers."""
    names = ("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_values", "nodes_modes", "nodes_truenodeids",
             "nodes_falsenodeids", "nodes_missing_value_tracks_true")
    rows, weights = [], []
    for tree in range(trees):
        inner = 2 ** depth - 1
        for i in range(2 * inner + 1):
            leaf = i >= inner
            rows.append((tree, i, 0 if leaf else int(NUMBERS.integers(FEATURES)), float(NUMBERS.integers(-2, 3)),
                         "LEAF" if leaf else "BRANCH_" + str(NUMBERS.choice(modes)), 0 if leaf else 2 * i + 1, 0 if leaf else 2 * i + 2,
                         int(NUMBERS.integers(2))))
            for target in range(targets if leaf else 0):
                value = float(NUMBERS.normal())
                if only is None or target == only:
                    weights.append((tree, i, target, abs(value) / trees if positive else value))
    end = ("treeids", "nodeids", "ids", "weights")
    return dict(zip(names, map(list, zip(*rows)))) | {f"{kind}_{name}": list(column) for name, column in zip(end, zip(*weights))}


def table():
    x = NUMBERS.integers(-3, 4, (ROWS, FEATURES)).astype(np.float32)
    x[3, 1] = x[5, 0] = x[6, 2] = np.nan
    return x


def trees():
    for targets, aggregate, transform in product((1, 3), ("SUM", "AVERAGE", "MIN", "MAX"), ("NONE", "SOFTMAX", "LOGISTIC")):
        yield ml(f"{targets} {aggregate} {transform}", "TreeEnsembleRegressor", [table()], n_targets=targets, aggregate_function=aggregate,
                 post_transform=transform, base_values=floats(targets), **forest("target", targets))
    shuffled = forest("target", 2)
    order = np.concatenate([tree * 15 + np.r_[0, 1 + NUMBERS.permutation(14)] for tree in range(5)])
    for name in list(shuffled):
        if name.startswith("nodes_"):
            shuffled[name] = [shuffled[name][i] for i in order]
    yield ml("shuffled", "TreeEnsembleRegressor", [table()], n_targets=2, **shuffled)
    yield ml("of integers", "TreeEnsembleClassifier", [NUMBERS.integers(-3, 4, (ROWS, FEATURES))], (INT64, FLOAT),
             classlabels_int64s=[0, 1, 2], **forest("class", 3))
    for classes, positive, only, transform in product((2, 3), (False, True), (None, 0, 1), TRANSFORMS[:3]):
        if classes == 3 and only is not None:
            continue
        yield ml(f"{classes} {positive} {only} {transform}", "TreeEnsembleClassifier", [table()], (INT64, FLOAT),
                 classlabels_int64s=list(range(classes)), post_transform=transform, **forest("class", classes, positive=positive, only=only))
    for classes, only, base in ((3, None, 3), (2, 0, 1), (2, None, 1)):
        yield ml(f"{classes} {only} base {base}", "TreeEnsembleClassifier", [table()], (INT64, FLOAT), base_values=floats(base),
                 classlabels_int64s=list(range(classes)), **forest("class", classes, only=only))


def placed_trees():
    """Two trees by position: a chain over all modes and a set of members, and a single leaf."""
    modes = [0, 1, 2, 3, 4, 5, 6]
    n = len(modes)
    x = table()
    for aggregate in range(4):  # of transforms ONNX Runtime has other numbers than the specification
        attributes = dict(
            aggregate_function=aggregate, n_targets=2, tree_roots=[0, n],
            nodes_modes=numpy_helper.from_array(np.array(modes + [0], np.uint8)),
            nodes_splits=numpy_helper.from_array(np.array([-2, -1, 3, 2, 1, 0, 0, 0], np.float32)),
            nodes_featureids=[0, 1, 2, 3, 0, 1, 2, 0], nodes_truenodeids=list(range(n + 1)), nodes_trueleafs=[1] * (n + 1),
            nodes_falsenodeids=[*range(1, n), n + 1, n], nodes_falseleafs=[0] * (n - 1) + [1, 1], nodes_missing_value_tracks_true=[0, 1] * 4,
            leaf_targetids=[i % 2 for i in range(n + 2)], leaf_weights=numpy_helper.from_array(f32(n + 2)),
            membership_values=numpy_helper.from_array(np.array([1, 3, -3, np.nan], np.float32)))
        yield ml(f"{aggregate}", "TreeEnsemble", [x], **attributes)


def encoders():
    x, i = table(), NUMBERS.integers(-2, 4, (ROWS, FEATURES))
    for name, value in (("one", [9.0]), ("each", floats(FEATURES))):
        yield ml(f"NaN {name}", "Imputer", [x], imputed_value_floats=value, replaced_value_float=float("nan"))
    for norm, kind in product(("MAX", "L1", "L2"), (np.float32, np.int32, np.int64)):
        yield ml(f"{norm} {np.dtype(kind).name}", "Normalizer", [(f32(ROWS, FEATURES) * 5).astype(kind)], norm=norm)
    for kind in (np.int32, np.int64):
        yield ml(np.dtype(kind).name, "Scaler", [(f32(ROWS, FEATURES) * 5).astype(kind)], offset=floats(FEATURES), scale=floats(FEATURES))
    yield ml("integers", "Imputer", [i], (INT64,), imputed_value_int64s=[7], replaced_value_int64=2)
    yield ml("integers", "OneHotEncoder", [i], cats_int64s=[-2, 0, 3], zeros=1)
    yield ml("floats", "OneHotEncoder", [np.nan_to_num(x)], cats_int64s=[1, 0, 3], zeros=1)
    yield ml("to integers", "LabelEncoder", [i], (INT64,), keys_int64s=[-2, 0, 3], values_int64s=[5, 6, 7], default_int64=-9)
    yield ml("to floats", "LabelEncoder", [i], keys_int64s=[-2, 0, 3], values_floats=[0.5, 1.5, 2.5], default_float=-1.0)
    yield ml("of floats", "LabelEncoder", [x], (INT64,), keys_floats=[1.0, -2.0], values_int64s=[5, 6])
    yield ml("", "FeatureVectorizer", [f32(ROWS, 2), f32(ROWS, FEATURES), f32(ROWS, 1)], inputdimensions=[2, FEATURES, 1])


def zip_map():
    """Whose result is no tensor to ONNX Runtime."""
    scores = f32(ROWS, 3)
    value = helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, []))
    graph = helper.make_graph([helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[3, 4, 5])], "one",
                              [helper.make_tensor_value_info("x", FLOAT, scores.shape)],
                              [helper.make_value_info("y", helper.make_sequence_type_proto(value))])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)])
    yield Case("ZipMap", model, {"x": scores}, lambda feeds: [feeds["x"]])


def ml_cases():
    for group in (linear, vectors, trees, placed_trees, encoders, zip_map):
        yield from group()
