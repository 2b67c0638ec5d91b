# SPDX-License-Identifier: Apache-2.0
"""`link` over copies that other tools make of every shared model: matched, missed, wrong, with and without --numbers.

usage: test_links.py PROGRAM SOURCE_ROOT FEATURES [KIND or MODEL or -v]...

The tools: onnxruntime's optimiser and quantizer, onnxsim, onnxslim, onnxoptimizer, onnxconverter-common; what is not installed is
left out, with the reason. The truth is ONNX Runtime's: both files run on samples that the linking did not see, with every value
as an output. An original survived if the copy has a value with its numbers, within what the copy's types can hold, that is not nearer
to another original. A match is wrong if what it states does not hold: to 1e-4 of the range in float32, and in narrower types if the
error is half of the signal, or if the copy's value of the original's name is more than twice as near.
"""
import json
import sys
from collections import Counter
from pathlib import Path

WORDS = sys.argv[4:]
del sys.argv[4:]
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "oracle"))

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from oracle import LeftOut, folder, graph_inputs, model_names, tidemark
from test_link import Case, Runtime, is_close, reach_of

# The root mean square of the difference, of the standard deviation: what is the same number within these types. Rounding errors
# add up over the depth of a network: 32 roundings of a half type, and a quarter of the signal (12 dB) behind 8 bits.
TOLERANCE = {"float32": 1e-4, "float16": 32 * 2**-11, "bfloat16": 32 * 2**-8, "int8": 0.25}
WRONG = 0.5  # likewise: what is that far off is another value


# ---- copies ----

def plain(case):
    """The model without the inputs that only repeat weights, as old files do: some tools break on them."""
    model = onnx.load(case.file)
    wanted = set(graph_inputs(model))
    kept = [value for value in model.graph.input if value.name in wanted]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.ir_version = max(4, model.ir_version)
    return model


def since_13(case):
    """As operator set 13: Cast supports bfloat16, and DequantizeLinear channels."""
    model = plain(case)
    return onnx.version_converter.convert_version(model, 13) if model.opset_import[0].version < 13 else model


def by_onnxruntime(level):
    def optimise(case, target):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        options.optimized_model_filepath = str(target)
        onnxruntime.InferenceSession(str(case.file), options, providers=["CPUExecutionProvider"])
    return optimise


def need(name):
    try:
        return __import__(name)
    except Exception as missing:  # large packages fail in many ways
        raise LeftOut(f"{type(missing).__name__}: {missing}") from None


def by_onnxsim(case, target):
    onnx.save(need("onnxsim").simplify(onnx.load(case.file))[0], target)


def by_onnxslim(case, target):
    onnx.save(need("onnxslim").slim(onnx.load(case.file)), target)


def by_onnxoptimizer(case, target):
    tool = need("onnxoptimizer")
    onnx.save(tool.optimize(onnx.load(case.file), tool.get_fuse_and_elimination_passes()), target)


def as_float16(keep_inputs):
    def convert(case, target):
        need("onnxconverter_common")
        from onnxconverter_common import float16
        onnx.save(float16.convert_float_to_float16(plain(case), keep_io_types=keep_inputs), target)
    return convert


def as_bfloat16(case, target):
    """Weights in bfloat16, and Casts behind them. (Results are not rounded: Tidemark computes half types in float32.)"""
    model = since_13(case)
    graph, nodes, called = model.graph, [], {}
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            bits = numpy_helper.to_array(tensor).astype("<f4").view(np.uint32)
            bits = (bits + 0x7fff + (bits >> 16 & 1)) >> 16
            tensor.CopyFrom(helper.make_tensor(tensor.name, TensorProto.BFLOAT16, list(tensor.dims), bits.astype("<u2").tobytes(), raw=True))
            called[tensor.name] = tensor.name + "_wide"
            nodes.append(helper.make_node("Cast", [tensor.name], [called[tensor.name]], to=TensorProto.FLOAT))
    for node in graph.node:
        node.input[:] = [called.get(name, name) for name in node.input]
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    onnx.save(model, target)


class Reader:
    """What quantize_static reads."""

    def __init__(self, feeds):
        self.feeds = iter(feeds)

    def get_next(self):
        return next(self.feeds, None)


def as_qdq(prepared=False, **settings):
    def quantize(case, target):
        from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
        source = target.with_name("prepared.onnx")
        onnx.save(since_13(case) if prepared else plain(case), source)
        if prepared:
            from onnxruntime.quantization.shape_inference import quant_pre_process
            quant_pre_process(str(source), str(source), skip_symbolic_shape=True)
        kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, **settings}
        quantize_static(str(source), str(target), Reader(case.seen + case.unseen), quant_format=QuantFormat.QDQ, **kinds)
    return quantize


KINDS = {
    "ort basic": ("float32", by_onnxruntime("ORT_ENABLE_BASIC")),
    "ort extended": ("float32", by_onnxruntime("ORT_ENABLE_EXTENDED")),
    "ort all": ("float32", by_onnxruntime("ORT_ENABLE_ALL")),
    "onnxsim": ("float32", by_onnxsim),
    "onnxslim": ("float32", by_onnxslim),
    "onnxoptimizer": ("float32", by_onnxoptimizer),
    "float16": ("float16", as_float16(True)),
    "float16 inputs": ("float16", as_float16(False)),
    "bfloat16 weights": ("bfloat16", as_bfloat16),
    "qdq": ("int8", as_qdq()),
    "qdq prepared": ("int8", as_qdq(prepared=True, per_channel=True)),
}


# ---- the truth ----

class Copy(Runtime):
    """A file that may have inputs and weights of narrower types."""

    def run(self, feed):
        types = {i.name: np.float16 for i in self.session.get_inputs() if i.type == "tensor(float16)"}
        return super().run({name: x.astype(types.get(name, x.dtype)) for name, x in feed.items()})


def error(x, y):
    """The root mean square of x - y, of the standard deviation of x; infinite where they have nothing to do with each other."""
    x, y = x.ravel().astype(np.float64), y.ravel().astype(np.float64)
    if x.size != y.size or not x.size:
        return np.inf
    with np.errstate(all="ignore"):
        same = x == y
        there = np.isfinite(x) & np.isfinite(y)
        if not np.all(same | there):
            return np.inf
        deviation = x[there].std() if there.any() else 0
        return float(np.sqrt(np.mean((x - y)[there] ** 2)) / deviation) if deviation > 0 else (0.0 if same.all() else np.inf)


def some(x):
    """A few thousand elements of all samples, at places that depend on the size only."""
    x = x.reshape(len(x), -1)
    return x[:, ::max(1, x.shape[1] // 509)].astype(np.float64)


def is_float(x):
    return x.dtype.kind == "f" or x.dtype.name == "bfloat16"


class Truth:
    """How far each value of the copy is from each original of its size, over all samples together."""

    def __init__(self, case, target):
        original, copy = Runtime(case.file), Copy(target)
        runs = [(original.run(feed), copy.run(feed)) for feed in case.unseen]
        alike = [(x, y) for x, y in runs if all(x[o].shape == a.shape for o, a in runs[0][0].items() if o in x)]
        self.x, self.y = ({name: np.stack([run[side][name] for run in alike]) for name, value in runs[0][side].items()
                           if isinstance(value, np.ndarray) and all(run[side][name].shape == value.shape for run in alike)} for side in (0, 1))
        self.few = [{name: some(value) for name, value in side.items() if is_float(value)} for side in (self.x, self.y)]
        self.errors, self.names, sizes = {}, set(copy.names), {}
        for v, value in self.y.items():
            if is_float(value) and value.size > 1:
                sizes.setdefault(value.size, []).append(v)
        self.pairs = [(o, v) for o, value in self.x.items() if is_float(value) and value.size and np.ptp(self.few[0][o]) > 0
                      for v in sizes.get(value.size, [])]

    def error(self, o, v):
        if (o, v) not in self.errors:
            self.errors[o, v] = error(self.few[0][o], self.few[1][v])
        return self.errors[o, v]

    def survivors(self, tolerance):
        near, best = {}, {}
        for o, v in self.pairs:
            e = self.error(o, v)
            if e <= tolerance:
                near.setdefault(o, []).append(v)
                best[v] = min(best.get(v, np.inf), e)
        return {o for o, values in near.items() if any(self.error(o, v) <= 1.1 * best[v] for v in values)}

    def is_wrong(self, entry, value, exact):
        o = entry["name"]
        if o not in self.x or value not in self.y:
            return False
        x, y = self.x[o], self.y[value]
        if not is_float(x):
            return x.dtype != y.dtype or not np.array_equal(x, y)
        x = related(entry, x, y)
        if exact:
            return not is_close(x, y.astype(np.float64), reach_of(y))
        if not np.array_equal(x, y) and error(x, y) > WRONG:
            return True
        return value != o and o in self.names and o in self.y and 2 * self.error(o, o) < error(x, y)


def related(entry, x, y):
    """The value, computed from the original's numbers by the lineage; the first axis is that of samples."""
    view, x = entry.get("view"), x.astype(np.float64)
    x = x.transpose(0, *(1 + i for i in view)) if isinstance(view, list) else x.reshape(y.shape) if view and x.size == y.size else x
    if entry["verdict"] == "affine":
        scale, shift = (np.array(entry["affine"][key]) for key in ("scale", "shift"))
        if len(scale) > 1:
            along = [1] * y.ndim
            along[1 + entry["affine"]["axis"]] = -1
            scale, shift = scale.reshape(along), shift.reshape(along)
        x = scale * x + shift
    return x


# ---- the table ----

def dumped(case, target):
    """All values that the copy makes of the samples that link it, as ONNX Runtime dumps them."""
    copy = Copy(target)
    runs = [copy.run(feed) for feed in case.alike]
    if any(run[key].shape != x.shape for key, x in runs[0].items() if isinstance(x, np.ndarray) for run in runs):
        raise LeftOut("sizes differ between samples, which --tensors cannot hold")
    arrays = {key: np.concatenate([run[key] for run in runs]) for key in copy.names
              if all(isinstance(run[key], np.ndarray) and run[key].ndim and run[key].dtype.kind in "fiub" for run in runs)}
    np.savez(case.path / "dump.npz", **{key: x for key, x in arrays.items() if len(x)})
    return case.path / "dump.npz"


def link(case, target, out, numbers):
    """Of what Tidemark cannot run (operators of one runtime) it gets the numbers from there."""
    words = ["link", case.profile, "--lineage-out", out, "--report", case.path / "report.json", "--quiet"]
    if not numbers:
        tidemark(*words, target)
        return
    words += ["--numbers", "--original", case.file, *case.words]
    try:
        tidemark(*words, target)
    except AssertionError:
        tidemark(*words, target, "--tensors", dumped(case, target))


def measure(case, kind, target, truth, numbers):
    """(survived, matched of these, other matches, wrong ones) of one link."""
    out = case.path / "lineage.json"
    link(case, target, out, numbers)
    lineage = json.loads(out.read_text())
    names = {v["id"]: v["name"] for v in lineage["values"]}
    entries = [e for e in lineage["originals"] if e["verdict"] in ("same", "view", "merged", "affine") and not e.get("path")]
    tolerance = TOLERANCE[KINDS[kind][0]]
    alive, found = truth.survivors(tolerance), {e["name"] for e in entries}
    exact = KINDS[kind][0] == "float32" or not numbers
    wrong = [(e["name"], e["verdict"], names[e["value"]]) for e in entries if truth.is_wrong(e, names[e["value"]], exact)]
    return alive, found, wrong


def run():
    kinds = [k for k in KINDS if k in WORDS] or list(KINDS)
    models = [m for m in model_names() if m in WORDS] or model_names()
    totals, problems = {}, []
    for model in models:
        with folder() as path:
            try:
                case = Case(model, path)
            except LeftOut as reason:
                print(f"  {model}: left out: {reason}")
                continue
            for kind in kinds:
                target = path / "copy.onnx"
                try:
                    KINDS[kind][1](case, target)
                    truth = Truth(case, target)
                except Exception as reason:
                    print(f"  {model}, {kind}: left out: {type(reason).__name__}: {str(reason).strip().splitlines()[0][:150]}", flush=True)
                    continue
                for numbers in (True, False):
                    try:
                        alive, found, wrong = measure(case, kind, target, truth, numbers)
                    except LeftOut as reason:
                        print(f"  {model}, {kind}: left out: {reason}", flush=True)
                        continue
                    except AssertionError as reason:
                        print(f"  {model}, {kind}: link fails: {str(reason)[-200:]}", flush=True)
                        totals.setdefault((kind, numbers), Counter())["failed"] += 1
                        continue
                    row = totals.setdefault((kind, numbers), Counter())
                    row.update(survived=len(alive), matched=len(alive & found), others=len(found - alive), wrong=len(wrong), models=1)
                    how = "--numbers" if numbers else "content"
                    print(f"  {model}, {kind}, {how}: {len(alive)} survived, {len(alive & found)} matched, {len(found - alive)} others, "
                          f"{len(wrong)} wrong", flush=True)
                    if "-v" in WORDS and numbers:
                        print("    missed:", sorted(alive - found)[:40], "\n    wrong:", wrong[:20])
                    problems += [(model, kind, how, w) for w in wrong]
    print("| copy | numbers | models | survived | matched | missed | others | wrong | link fails |")
    for (kind, numbers), row in totals.items():
        print(f"| {kind} | {'yes' if numbers else 'no'} | {row['models']} | {row['survived']} | {row['matched']} | "
              f"{row['survived'] - row['matched']} | {row['others']} | {row['wrong']} | {row['failed']} |")
    for problem in problems[:40]:
        print("wrong:", *problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(run())
