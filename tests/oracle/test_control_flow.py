# SPDX-License-Identifier: Apache-2.0
"""Profiles of a model with a Loop, branches in it and around it, and samples of many lengths.

Every value, those inside bodies included, is computed here by hand: bodies are walked in Python, each node by ONNX Runtime alone.
"""
import json
from collections import Counter

from oracle import FEATURES, folder, main, np, onnx, session, tidemark
from onnx import TensorProto, helper, numpy_helper

WIDTH, HIDDEN, LENGTHS = 4, 3, (5, 1, 9, 2, 5, 7)
TOLERANCE = 1e-4  # of the range of a value
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


# ---- the model ----

def value(name, dtype, shape=None):
    return helper.make_tensor_value_info(name, dtype, shape)


def branch(name, nodes, result):
    return helper.make_graph(nodes, name, [], [value(result, FLOAT)])


def make_model():
    """x [1, length, WIDTH] goes step by step through an LSTM, in a Loop; even steps are doubled, odd ones made positive. A branch
    for large sums is never taken."""
    node, dice = helper.make_node, np.random.default_rng(11)
    even = branch("even", [node("Mul", ["step_y", "two"], ["doubled"])], "doubled")
    odd = branch("odd", [node("Relu", ["step_y"], ["positive"])], "positive")
    body = helper.make_graph([
        node("Gather", ["x", "i"], ["row"], axis=1),
        node("Unsqueeze", ["row", "axis0"], ["step_x"]),
        node("LSTM", ["step_x", "w", "r", "b", "", "h", "c"], ["", "next_h", "next_c"], "lstm", hidden_size=HIDDEN),
        node("Squeeze", ["next_h", "axis0"], ["step_y"]),
        node("Mod", ["i", "two_int"], ["parity"]),
        node("Equal", ["parity", "zero_int"], ["is_even"]),
        node("If", ["is_even"], ["chosen"], "by_parity", then_branch=even, else_branch=odd),
        node("Mul", ["i", "minus_three"], ["counted"]),
        node("Identity", ["going"], ["going_on"]),
    ], "steps", [value("i", INT64, []), value("going", BOOL, []), value("h", FLOAT, [1, 1, HIDDEN]),
                 value("c", FLOAT, [1, 1, HIDDEN])],
        [value("going_on", BOOL, []), value("next_h", FLOAT), value("next_c", FLOAT), value("chosen", FLOAT),
         value("counted", INT64)])
    large = branch("large", [node("Neg", ["total"], ["negative"]), node("Exp", ["negative"], ["vanishing"])], "vanishing")
    small = branch("small", [node("Abs", ["total"], ["absolute"])], "absolute")
    graph = helper.make_graph([
        node("Shape", ["x"], ["size"]),
        node("Gather", ["size", "one_int"], ["length"]),
        node("Loop", ["length", "", "start", "start"], ["last_h", "last_c", "all_steps", "all_counted"], "walk", body=body),
        node("ReduceSum", ["all_steps"], ["total"], keepdims=0),
        node("Greater", ["total", "limit"], ["is_large"]),
        node("If", ["is_large"], ["result"], "by_size", then_branch=large, else_branch=small),
    ], "g", [value("x", FLOAT, [1, "length", WIDTH])], [
        value("result", FLOAT, []), value("all_steps", FLOAT, [None, 1, HIDDEN]), value("all_counted", INT64, [None]),
        value("last_c", FLOAT, [1, 1, HIDDEN]),
    ], [
        numpy_helper.from_array(dice.normal(size=(1, 4 * HIDDEN, WIDTH)).astype(np.float32), "w"),
        numpy_helper.from_array(dice.normal(size=(1, 4 * HIDDEN, HIDDEN)).astype(np.float32), "r"),
        numpy_helper.from_array(dice.normal(size=(1, 8 * HIDDEN)).astype(np.float32), "b"),
        numpy_helper.from_array(np.zeros((1, 1, HIDDEN), np.float32), "start"),
        numpy_helper.from_array(np.float32(2), "two"), numpy_helper.from_array(np.float32(1000), "limit"),
        numpy_helper.from_array(np.int64([0]), "axis0"), numpy_helper.from_array(np.int64(0), "zero_int"),
        numpy_helper.from_array(np.int64(1), "one_int"), numpy_helper.from_array(np.int64(2), "two_int"),
        numpy_helper.from_array(np.int64(-3), "minus_three"),
    ])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def write_data(path):
    """A folder of test sets, a sample each; the samples."""
    dice, made = np.random.default_rng(5), []
    for i, length in enumerate(LENGTHS):
        made.append(dice.normal(size=(1, length, WIDTH)).astype(np.float32))
        target = path / "data" / f"test_data_set_{i}"
        target.mkdir(parents=True)
        (target / "input_0.pb").write_bytes(numpy_helper.from_array(made[-1], "x").SerializeToString())
    return made


# ---- by hand ----

class ByHand:
    """Runs the model, and keeps every array that each value was, with the sample."""

    def __init__(self, model):
        self.model, self.seen, self.sessions, self.samples = model, {}, {}, 0

    def keep(self, scope, name, array):
        scope[name] = np.asarray(array)
        self.seen.setdefault(name, []).append((self.samples, scope[name]))

    def run(self, x):
        scope = {}
        for tensor in self.model.graph.initializer:
            scope[tensor.name] = numpy_helper.to_array(tensor)
        self.keep(scope, "x", x)
        self.walk(self.model.graph, scope)
        self.samples += 1
        return [scope[output.name] for output in self.model.graph.output]

    def walk(self, graph, scope):
        for node in graph.node:
            bodies = {attribute.name: attribute.g for attribute in node.attribute if attribute.HasField("g")}
            if node.op_type == "If":
                body = bodies["then_branch" if scope[node.input[0]] else "else_branch"]
                made = self.walk(body, dict(scope))
            elif node.op_type == "Loop":
                made = self.loop(bodies["body"], scope, node)
            else:
                made = self.alone(node, scope)
            for name, array in zip(node.output, made, strict=True):
                if name:
                    self.keep(scope, name, array)
        return [scope[output.name] for output in graph.output]

    def loop(self, body, scope, node):
        state = [scope[name] for name in node.input[2:]]
        rows = []
        for i in range(int(scope[node.input[0]])):
            inner = dict(scope)
            for info, array in zip(body.input, [np.int64(i), np.bool_(True), *state], strict=True):
                self.keep(inner, info.name, array)
            made = self.walk(body, inner)
            state = made[1:1 + len(state)]
            rows.append(made[1 + len(state):])
        return state + [np.stack(column) for column in zip(*rows, strict=True)]

    def alone(self, node, scope):
        """One node by ONNX Runtime."""
        feed = {name: scope[name] for name in node.input if name}
        key = node.SerializeToString()
        if key not in self.sessions:
            inputs = [value(name, helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim)
                      for name, array in feed.items()]
            outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
            graph = helper.make_graph([node], "g", inputs, outputs)
            self.sessions[key] = session(helper.make_model(graph, opset_imports=self.model.opset_import, ir_version=8))
        made = iter(self.sessions[key].run(None, feed))
        return [next(made) if name else None for name in node.output]


def by_hand_and_profiled():
    """What ByHand saw, and the bytes of the profiles by one thread and by two."""
    model = make_model()
    hand = ByHand(model)
    with folder() as path:
        whole = session(model)
        for x in write_data(path):
            for one, two in zip(hand.run(x), whole.run(None, {"x": x}), strict=True):
                np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)
        onnx.save(model, path / "model.onnx")
        files = []
        for threads in (1, 2):
            targets = [path / f"{threads}.{ending}" for ending in ["json"] + ["h5"] * ("hdf5" in FEATURES)]
            words = [word for target in targets for word in ("-o", target)]
            tidemark("profile", path / "model.onnx", "--data", path / "data", "--quiet", "--threads", threads, *words)
            files.append([target.read_bytes() for target in targets])
    return model, hand.seen, files


MODEL, SEEN, FILES = by_hand_and_profiled()
PROFILE = json.loads(FILES[0][0])
RECORDS = {tensor["name"]: tensor for tensor in PROFILE["tensors"]}


# ---- tests ----

def places(graph, path=""):
    """Every value's name, and the bodies that it is in."""
    for named in (*graph.input, *graph.initializer):
        yield named.name, path
    for node in graph.node:
        yield from ((name, path) for name in node.output if name)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                step = f"{node.op_type} '{node.name}'/{attribute.name}"
                yield from places(attribute.g, f"{path}/{step}" if path else step)


def test_every_value_has_an_id():
    assert [tensor["id"] for tensor in PROFILE["tensors"]] == [f"p{i}" for i in range(len(RECORDS))]
    assert {name: record.get("path", "") for name, record in RECORDS.items()} == dict(places(MODEL.graph))
    assert PROFILE["ledger"]["run"] == len(LENGTHS)


def test_untaken_branch_has_status_never():
    for name in ("negative", "vanishing"):
        record = RECORDS[name]
        assert record["status"] == "never" and record["level"] == "none", record
        assert record["expected_count"] == 0 and record["observed_shapes"] == [], record
    never = [name for name, record in RECORDS.items() if record["status"] == "never"]
    assert sorted(never) == ["negative", "vanishing"]


def test_values_in_bodies_accumulate_over_steps_and_samples():
    stored = {tensor.name for tensor in MODEL.graph.initializer}
    assert set(RECORDS) == set(SEEN) | stored | {"negative", "vanishing"}
    assert len(SEEN["i"]) == sum(LENGTHS) and len(SEEN["doubled"]) == sum((length + 1) // 2 for length in LENGTHS)
    for name, seen in SEEN.items():
        record, arrays = RECORDS[name], [array for _, array in seen]
        shapes = Counter(array.shape for array in arrays)
        assert {tuple(one["shape"]): one["runs"] for one in record["observed_shapes"]} == shapes, name
        assert record["updates"] == len(arrays), name
        assert record["samples"] == len({sample for sample, _ in seen}), name
        numbers = np.concatenate([array.ravel() for array in arrays])
        assert record["count"] == record["expected_count"] == numbers.size, name
        assert record["zeros"] == np.count_nonzero(numbers == 0), name
        assert record["dtype"] == str(numbers.dtype), name
        for key, best in (("min", numbers.min()), ("max", numbers.max())):
            first = next(sample for sample, array in seen if best in array)
            assert record[f"{key}_at"]["sample"] == first, f"{name}: {key} of sample {record[f'{key}_at']}, not {first}"
        check_numbers(name, record, numbers)


def test_show_prints_the_runs_of_branches_and_bodies(path):
    (path / "p.json").write_bytes(FILES[0][0])
    for name in ("i", "doubled", "positive", "absolute", "vanishing"):
        seen = SEEN.get(name, [])
        said = tidemark("show", path / "p.json", name)
        assert f" {len(seen)} times in {len({sample for sample, _ in seen})} samples" in said, f"{name}: {said}"


def check_numbers(name, record, numbers):
    if record["dtype"] != "float32":
        assert record["status"] == record["level"] == "integer", name
        assert (record["min"], record["max"]) == (int(numbers.min()), int(numbers.max())), name
        return
    assert record["status"] == "observed" and record["nan"] == record["posinf"] == record["neginf"] == 0, name
    wanted = {"min": numbers.min(), "max": numbers.max(), "mean": numbers.mean(dtype=np.float64)}
    slack = TOLERANCE * (float(wanted["max"]) - float(wanted["min"]))
    for key, number in wanted.items():
        assert abs(record[key] - float(number)) <= slack, f"{name}: {key} {record[key]}, not {number}"


def test_threads_do_not_change_the_profile():
    assert FILES[0] == FILES[1]


main()
