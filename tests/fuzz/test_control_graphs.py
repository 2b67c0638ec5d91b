# SPDX-License-Identifier: Apache-2.0
"""Random graphs of If, Loop and Scan, one inside another, against ONNX Runtime: all outputs equal, in shape, type and every bit.

usage: test_control_graphs.py PROGRAM       TIDEMARK_RANDOM_GRAPHS (otherwise a few) from TIDEMARK_RANDOM_FIRST on

All numbers are whole and small, so that no sum is rounded. Exit status 1 when results differ, 77 without onnx and onnxruntime.
"""
import collections
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing} (TIDEMARK_TEST_PYTHON names the interpreter that has it)")
    sys.exit(77)
onnxruntime.set_default_logger_severity(4)

FIRST = int(os.environ.get("TIDEMARK_RANDOM_FIRST", 1))
COUNT = int(os.environ.get("TIDEMARK_RANDOM_GRAPHS", 80))
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
DEEPEST = 3
BOUND = 1000


class Maker:
    """A graph; `scope` has names of float values by their shapes. A shape that is not known is None: such a value is only summed."""

    def __init__(self, seed):
        self.dice, self.count, self.weights, self.used = random.Random(seed), 0, [], collections.Counter()

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def constant(self, array):
        name = self.name()
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, nodes, op, inputs, **attributes):
        name = self.name()
        nodes.append(helper.make_node(op, inputs, [name], **attributes))
        self.used[op] += 1
        return name

    def clip(self, nodes, name):
        return self.add(nodes, "Clip", [name, self.constant(np.float32(-BOUND)), self.constant(np.float32(BOUND))])

    def pick(self, scope, fits=lambda shape: shape is not None):
        found = [each for each in scope if fits(each[1])]
        return self.dice.choice(found) if found else None

    def number(self, nodes, scope):
        """A value as one number."""
        name, _ = self.dice.choice(scope)
        return self.clip(nodes, self.add(nodes, "ReduceSum", [name], keepdims=0))

    def simple(self, nodes, scope, depth=0):
        name, shape = self.pick(scope)
        op = self.dice.choice(("Add", "Sub", "Mul", "Max", "Min", "Neg", "Abs", "Relu", "Where"))
        if op in ("Neg", "Abs", "Relu"):
            made = self.add(nodes, op, [name])
        else:
            other = self.pick(scope, lambda s: s == shape)[0]
            if self.dice.random() < 0.4:
                other = self.constant(np.float32(self.dice.randint(-3, 3)))
            if op == "Where":
                made = self.add(nodes, op, [self.add(nodes, "Greater", [name, other]), name, other])
            else:
                made = self.add(nodes, op, [name, other])
        scope.append((self.clip(nodes, made), shape))

    def body(self, scope, depth, extra=()):
        """Nodes of a graph inside, and the names that may be its results: its own only."""
        nodes, inner = [], [*scope, *extra]
        outside = len(scope)
        for _ in range(self.dice.randint(1, 3)):
            self.step(nodes, inner, depth)
        if len(inner) == outside or inner[-1][1] is None:
            self.simple(nodes, inner)
        return nodes, inner[outside:]

    def info(self, name, shape, kind=FLOAT, known=True):
        return helper.make_tensor_value_info(name, kind, shape if known and self.dice.random() < 0.7 else None)

    def out(self, nodes, name):
        """A name of its own for a result: an input of the body can be none."""
        return self.add(nodes, "Identity", [name])

    def make_if(self, nodes, scope, depth):
        flag = self.add(nodes, "Greater", [self.number(nodes, scope), self.constant(np.float32(self.dice.randint(-5, 5)))])
        branches, shapes = [], []
        n = self.dice.randint(1, 2)
        for _ in range(2):
            inner, own = self.body(scope, depth + 1)
            results = []
            for k in range(n):
                shape = shapes[k] if len(shapes) > k else self.dice.choice(own)[1]
                of_shape = [each for each in own if each[1] == shape] or own
                results.append((self.out(inner, self.dice.choice(of_shape)[0]), self.dice.choice(of_shape)[1]))
                if of_shape is own:
                    results[-1] = (self.out(inner, own[-1][0]), own[-1][1])
            if not shapes:
                shapes = [shape for _, shape in results]
            else:
                shapes = [a if a == b else None for a, (_, b) in zip(shapes, results)]
            branches.append((inner, results))
        made = [self.name() for _ in range(n)]
        graphs = [helper.make_graph(inner, f"b{i}", [], [helper.make_tensor_value_info(name, FLOAT, None) for name, _ in results])
                  for i, (inner, results) in enumerate(branches)]
        nodes.append(helper.make_node("If", [flag], made, then_branch=graphs[0], else_branch=graphs[1]))
        self.used["If"] += 1
        scope += list(zip(made, shapes))

    def make_loop(self, nodes, scope, depth):
        rounds = self.dice.randint(0, 4)
        count = self.dice.choice(("constant", "computed", "none"))
        trips = ""
        if count == "constant":
            trips = self.constant(np.int64(rounds))
        elif count == "computed":  # of how many elements are above a number
            name, shape = self.pick(scope)
            above = self.add(nodes, "Cast", [self.add(nodes, "Greater", [name, self.constant(np.float32(0))])], to=INT64)
            trips = self.add(nodes, "ReduceSum", [above], keepdims=0)
        start = self.dice.choice(("", self.constant(np.bool_(True)), self.constant(np.bool_(self.dice.random() < 0.8))))
        carried = [self.pick(scope) for _ in range(self.dice.randint(0, 2))]
        i, going, inner_names = self.name(), self.name(), [self.name() for _ in carried]
        inputs = [helper.make_tensor_value_info(i, INT64, []), helper.make_tensor_value_info(going, BOOL, [])]
        inputs += [self.info(name, shape) for name, (_, shape) in zip(inner_names, carried)]
        number = []
        as_float = self.add(number, "Cast", [i], to=FLOAT)
        inner, own = self.body(scope, depth + 1, [(as_float, ()), *zip(inner_names, (shape for _, shape in carried))])
        inner = number + inner
        state = []
        for _, shape in carried:  # of the same shape as before
            fits = [name for name, each in own if each == shape]
            state.append(self.out(inner, self.dice.choice(fits)))
        stacked = [each for each in self.dice.choices(own, k=self.dice.randint(0, 2)) if each[1] is not None]
        rows = [self.out(inner, name) for name, _ in stacked]
        if count == "none" or self.dice.random() < 0.4:
            on = self.add(inner, "Less", [i, self.constant(np.int64(rounds))])
        else:
            on = self.add(inner, "Identity", [going])
        if not carried and not rows:
            return
        outputs = [helper.make_tensor_value_info(on, BOOL, [])]
        # Without a round, the shape of what is stacked is the declared one.
        outputs += [helper.make_tensor_value_info(name, FLOAT, shape) for name, (_, shape) in zip(state + rows, [*carried, *stacked])]
        body = helper.make_graph(inner, "body", inputs, outputs)
        made = [self.name() for _ in state + rows]
        nodes.append(helper.make_node("Loop", [trips, start, *[name for name, _ in carried]], made, body=body))
        self.used["Loop"] += 1
        scope += list(zip(made, [shape for _, shape in carried] + [None] * len(rows)))

    def make_scan(self, nodes, scope, depth):
        first = self.pick(scope, lambda shape: shape and len(shape) >= 1)
        if not first:
            return
        axis = self.dice.randrange(len(first[1]))
        length = first[1][axis]
        scanned, axes = [first], [axis]
        for name, shape in self.dice.sample(scope, len(scope)):
            if len(scanned) < 2 and shape and length in shape and self.dice.random() < 0.5:
                scanned.append((name, shape))
                axes.append(shape.index(length))
        states = [self.pick(scope) for _ in range(self.dice.randint(0, 2))]
        state_names, row_names = [self.name() for _ in states], [self.name() for _ in scanned]
        rows = [(*shape[:at], *shape[at + 1:]) for (_, shape), at in zip(scanned, axes)]
        inputs = [self.info(name, shape) for name, (_, shape) in zip(state_names, states)]
        inputs += [self.info(name, shape) for name, shape in zip(row_names, rows)]
        inner, own = self.body(scope, depth + 1, [*zip(state_names, (shape for _, shape in states)), *zip(row_names, rows)])
        results = [self.out(inner, self.dice.choice([name for name, each in own if each == shape])) for _, shape in states]
        stacked = [each for each in self.dice.choices(own, k=self.dice.randint(0, 2)) if each[1] is not None]
        made_rows = [self.out(inner, name) for name, _ in stacked]
        if not results and not made_rows:
            return
        outputs = [helper.make_tensor_value_info(name, FLOAT, shape)
                   for name, shape in zip(results + made_rows, [shape for _, shape in [*states, *stacked]])]
        attributes = {"num_scan_inputs": len(scanned), "scan_input_directions": [self.dice.randint(0, 1) for _ in scanned], "scan_input_axes": axes}
        out_axes = [self.dice.randint(0, len(shape)) for _, shape in stacked]
        if stacked:
            attributes["scan_output_axes"] = out_axes
            attributes["scan_output_directions"] = [self.dice.randint(0, 1) for _ in stacked]
        made = [self.name() for _ in results + made_rows]
        nodes.append(helper.make_node("Scan", [name for name, _ in [*states, *scanned]], made,
                                      body=helper.make_graph(inner, "scan", inputs, outputs), **attributes))
        self.used["Scan"] += 1
        shapes = [(*shape[:at], length, *shape[at:]) for (_, shape), at in zip(stacked, out_axes)]
        scope += list(zip(made, [shape for _, shape in states] + shapes))

    def step(self, nodes, scope, depth):
        kind = self.dice.choice([self.simple] * (2 + 2 * depth) + [self.make_if, self.make_loop, self.make_scan] * (depth < DEEPEST))
        kind(nodes, scope, depth)
        if self.dice.random() < 0.2:
            scope.append((self.number(nodes, scope), ()))
        if not any(shape is not None for _, shape in scope):
            scope.append((self.number(nodes, scope), ()))

    def model(self):
        nodes = []
        shape = tuple(self.dice.randint(1, 3) for _ in range(self.dice.randint(1, 3)))
        scope = [(self.add(nodes, "Squeeze", ["x", self.constant(np.int64([0]))]), shape)]
        scope.append((self.constant(np.array(self.dice.choices(range(-4, 5), k=int(np.prod(shape))), np.float32).reshape(shape)), shape))
        before = len(scope)
        for _ in range(self.dice.randint(2, 6)):
            self.step(nodes, scope, 0)
        axis = self.constant(np.int64([0]))
        results = [self.add(nodes, "Unsqueeze", [name, axis]) for name, _ in scope[before:]]
        if not results:
            results = [self.add(nodes, "Unsqueeze", [scope[0][0], axis])]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", FLOAT, [1, *shape])],
                                  [helper.make_tensor_value_info(name, FLOAT, None) for name in results], self.weights)
        array = np.array(self.dice.choices(range(-9, 10), k=int(np.prod(shape))), np.float32).reshape(1, *shape)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), array


def run_theirs(model, array):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"x": array})))


def compare(program, seed, folder, tally):
    """What differs; None: nothing."""
    maker = Maker(seed)
    model, array = maker.model()
    try:
        theirs = run_theirs(model, array)
    except Exception as error:  # ONNX Runtime's errors have no common base
        tally["refused by ONNX Runtime"] += 1
        if "TIDEMARK_RANDOM_ROWS" in os.environ:
            print(f"seed {seed}: {str(error)[:300]}")
        return None
    path, data, out = folder / "m.onnx", folder / "x.npy", folder / "y.npz"
    out.unlink(missing_ok=True)
    onnx.save(model, path)
    np.save(data, array)
    done = subprocess.run([program, "run", path, "--data", data, "-o", out, "--quiet", "--threads", "1"], capture_output=True, text=True, errors="replace")
    if done.returncode:
        return f"status {done.returncode}: {done.stderr.strip()}"
    ours = dict(np.load(out))
    tally["graphs"] += 1
    tally["outputs"] += len(theirs)
    for op in ("If", "Loop", "Scan"):
        tally[op] += maker.used[op]
    for name, want in theirs.items():
        got = ours.get(name)
        if got is None or got.shape != want.shape or got.dtype != want.dtype or got.tobytes() != (want + np.float32(0)).tobytes() and not np.array_equal(got, want):
            return f"'{name}' is {got if got is None or got.size < 20 else got.shape}, not {want if want.size < 20 else want.shape}"
    return None


def main():
    program, tally, differ = os.path.abspath(sys.argv[1]), collections.Counter(), []
    with tempfile.TemporaryDirectory(prefix="tidemark-control-") as name:
        for seed in range(FIRST, FIRST + COUNT):
            what = compare(program, seed, Path(name), tally)
            if what:
                differ.append(f"seed {seed}: {what}")
    print(f"{tally['graphs']} graphs with {tally['If']} If, {tally['Loop']} Loop, {tally['Scan']} Scan: {tally['outputs']} outputs compared, "
          f"{len(differ)} graphs differ, {tally['refused by ONNX Runtime']} refused by ONNX Runtime")
    print("\n".join(differ[:100]))
    if tally["graphs"] < COUNT / 2:
        print("too few graphs ran")
    sys.exit(bool(differ) or tally["graphs"] < COUNT / 2)


if __name__ == "__main__":
    main()
