# SPDX-License-Identifier: Apache-2.0
"""Random graphs (tests/fuzz/graph_maker.h) against ONNX Runtime, node by node: each node is given the very tensors that
it had in our run, so that what one rounds differently does not grow.

usage: test_random_graphs.py GRAPH_TO_ONNX       TIDEMARK_RANDOM_GRAPHS (otherwise a few) from TIDEMARK_RANDOM_FIRST on

What ONNX Runtime refuses is counted by reason. Exit status 1 when results differ, 77 without onnx and onnxruntime.
"""
import collections
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as missing:
    print(f"skipped: {missing} (TIDEMARK_TEST_PYTHON names the interpreter that has it)")
    sys.exit(77)
onnxruntime.set_default_logger_severity(4)

FIRST = int(os.environ.get("TIDEMARK_RANDOM_FIRST", 1))
COUNT = int(os.environ.get("TIDEMARK_RANDOM_GRAPHS", 60))
AT_ONCE = 200
SECONDS = 60  # for one graph
NEWEST_IR = 10
# Drawn by each runtime in its own way, or of no meaning outside ours.
OWN = {"RandomUniform", "RandomNormal", "RandomUniformLike", "RandomNormalLike", "Bernoulli", "Multinomial"}


# Nothing but copies: with any numbers.
COPIES = {"Transpose", "Concat", "Split", "Slice", "Gather", "GatherElements", "GatherND", "Reshape", "Flatten", "Squeeze", "Unsqueeze",
          "Expand", "Tile", "Pad", "Identity", "DepthToSpace", "SpaceToDepth", "Where", "Neg", "Abs", "Not", "IsNaN", "IsInf", "Shape",
          "Size", "If", "Add", "Sub", "Mul", "Trilu", "ReverseSequence", "Dropout", "ScatterElements", "ScatterND", "Scatter", "Compress"}
HUGE = 1e6
# Sums of 16 bits, which saturate on processors without VNNI.
PRODUCTS = {"ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul"}
SATURATES = Path("/proc/cpuinfo").exists() and not re.search(r"vnni|asimddp", Path("/proc/cpuinfo").read_text())


class Tally:
    def __init__(self):
        self.compared, self.refused, self.differ = collections.Counter(), collections.Counter(), []


def outer_names(graph):
    """Names that nodes of a graph inside a node take from outside."""
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    taken = []
    for node in graph.node:
        taken += [name for name in node.input if name and name not in own]
        for attribute in node.attribute:
            for inner in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
                taken += [name for name in outer_names(inner) if name not in own]
        own |= set(node.output)
    return taken


def operands(node):
    names = list(node.input)
    for attribute in node.attribute:
        for inner in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
            names += outer_names(inner)
    return [name for name in dict.fromkeys(names) if name]


def alone(model, nodes, tensors, constants):
    """A model of these nodes side by side, each fed with what it had; and what to feed."""
    feeds, weights, made = {}, {}, []
    outputs = []
    for k, node in enumerate(nodes):
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        for i, name in enumerate(node.output):
            if name and name in tensors:
                copy.output[i] = f"{name}/made"
                outputs.append(onnx.helper.make_empty_tensor_value_info(f"{name}/made"))
            elif name:
                copy.output[i] = f"{name}/ignored{k}"
        for name in operands(node):
            if name in constants:
                weights[name] = constants[name]
            else:
                feeds[name] = tensors[name]
        made.append(copy)
    inputs = [onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
              for name, array in feeds.items()]
    graph = onnx.helper.make_graph(made, "alone", inputs, outputs, list(weights.values()))
    used = {node.domain for node in made} | {""}
    opsets = [opset for opset in model.opset_import if opset.domain in used]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=min(model.ir_version or 8, NEWEST_IR)), feeds


def reason_of(error):
    text = str(error).split("\n")[0]
    for pattern in (r"Could not find an implementation for (\w+\(\d+\))", r"(No Op registered for \w+) ",
                    r"(Fatal error: \S+) is not a registered", r"(ONNX Runtime only \*guarantees\*)"):
        found = re.search(pattern, text)
        if found:
            return found[0]
    return re.sub(r"\d+", "N", text)[:150]


def run(model, feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds)))


def difference(ours, theirs, node, operand):
    """What is not the same; None: nothing. `operand` is the first one, which bounds the size of sums."""
    if ours.shape != theirs.shape:
        return f"shape {ours.shape}, not {theirs.shape}"
    if ours.dtype != theirs.dtype:
        return f"type {ours.dtype}, not {theirs.dtype}"
    if node.op_type == "Cast" and operand.dtype == np.float32:  # beyond the type there is no meaning
        inside = (operand >= 0) & (operand < 127)
        ours, theirs = ours[inside], theirs[inside]
    if node.op_type.startswith("QLinear") and ours.dtype.itemsize == 1:  # ties of sums that were rounded
        wide = ours.astype(int) - theirs
        ours = np.where(abs(wide) == 1, theirs, ours)
    if ours.dtype != np.float32:
        bad = np.argwhere(ours != theirs)
        return f"{len(bad)} elements, as {ours[tuple(bad[0])]}, not {theirs[tuple(bad[0])]}" if len(bad) else None
    finite = theirs[np.isfinite(theirs)]
    reach = np.abs(finite).max(initial=0)
    if operand is not None and operand.dtype == np.float32:
        reach = max(reach, 0.05 * np.abs(operand[np.isfinite(operand)]).max(initial=0))
    with np.errstate(all="ignore"):
        near = np.abs(ours.astype(np.float64) - theirs) <= 2e-5 * np.abs(theirs) + 2e-5 * min(reach, 1e30) + 1e-37
    if node.op_type == "MeanVarianceNormalization":  # of equal numbers: without ONNX's small addend, and with a mean that is rounded
        near |= np.isnan(theirs) | ((ours == 0) & (np.abs(theirs) <= 1))
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs)) | near
    bad = np.argwhere(~same)
    return f"{len(bad)} of {ours.size} elements, as {ours[tuple(bad[0])]}, not {theirs[tuple(bad[0])]}" if len(bad) else None


def compare(seed, nodes, tensors, results, tally):
    for node in nodes:
        for name in node.output:
            if name in tensors:
                operand = tensors.get(node.input[0]) if node.input else None
                what = difference(tensors[name], np.asarray(results[f"{name}/made"]), node, operand)
                tally.compared[node.op_type] += 1
                if what:
                    tally.differ.append((node.op_type, f"seed {seed}: {node.op_type} makes '{name}': {what}"))


def left_out(node, tensors, constants):
    """Why a node is not compared; None: it is. Runtimes disagree on NaN and infinities in maxima, casts and sums that
    overflow, on means of nothing, and ONNX Runtime never ends with some windows over nothing."""
    if node.op_type in OWN or node.domain == "ai.tidemark":
        return "ours"
    if node.op_type == "ZipMap":
        return "a sequence of maps for ONNX Runtime"
    if node.op_type in PRODUCTS and SATURATES:
        return "sums that saturate"
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    if attributes.get("auto_pad", b"").startswith(b"SAME") and set(attributes.get("dilations", [])) - {1}:
        return "dilated, of SAME shape, which ONNX Runtime makes smaller"
    if node.op_type == "ConvTranspose" and attributes.get("auto_pad", b"").startswith(b"SAME"):
        kernel = constants[node.input[1]].dims[2:] if node.input[1] in constants else tensors[node.input[1]].shape[2:]
        if any(side < step for side, step in zip(kernel, attributes.get("strides", []))):
            return "SAME with windows of less than a step, where ONNX Runtime leaves ONNX's reference"
    if node.op_type == "Resize" and min(attributes.get("axes", [0])) < 0:
        return "axes from the end, whose size ONNX Runtime leaves as it was"
    if node.op_type == "LSTM" and "clip" in attributes:
        return "clipped, which ONNX Runtime leaves out of h(c)"
    names = operands(node)
    if not all(name in tensors or name in constants for name in names) or not set(node.output) & set(tensors):
        return "sequences"
    if attributes.get("coordinate_transformation_mode") in (b"align_corners", b"pytorch_half_pixel") and "".join(node.input[2:3]):
        scales = onnx.numpy_helper.to_array(constants[node.input[2]]) if node.input[2] in constants else tensors[node.input[2]]
        if (np.array(tensors[node.input[0]].shape) * scales % 1).any():
            return "corners at broken sizes, where ONNX Runtime leaves ONNX's reference"
    if node.op_type == "GroupNormalization":
        groups = tensors[node.input[0]].astype(float)
        groups = groups.reshape(len(groups), attributes["num_groups"], -1)
        with np.errstate(all="ignore"):
            far = np.abs(groups.mean(-1)) > 20 * groups.std(-1)
        if far.any():
            return "a variance that ONNX Runtime takes as the difference of large float32 squares"
    if node.op_type in COPIES:
        return None
    for name in names:
        array = tensors[name] if name in tensors else onnx.numpy_helper.to_array(constants[name])
        if not array.size:
            return "of no elements"
        if array.dtype == np.float32 and not (np.abs(array) < HUGE).all():
            return "of numbers that are huge or none"
    return None


def check(seed, folder, tally):
    path, arrays = folder / f"{seed}.onnx", folder / f"{seed}.npz"
    if not arrays.exists():
        tally.refused["not run by us"] += 1
        return
    model, tensors = onnx.load(path), dict(np.load(arrays))
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes = []
    for node in model.graph.node:
        why = left_out(node, tensors, constants)
        if why:
            tally.refused[f"{why}: {node.op_type}"] += 1
        else:
            nodes.append(node)
    if not nodes:
        return
    try:
        compare(seed, nodes, tensors, run(*alone(model, nodes, tensors, constants)), tally)
        return
    except Exception:  # ONNX Runtime's errors have no common base
        pass
    for node in nodes:
        try:
            results = run(*alone(model, [node], tensors, constants))
        except Exception as error:
            tally.refused[f"{node.op_type}: {reason_of(error)}"] += 1
            continue
        compare(seed, [node], tensors, results, tally)


def work(seeds, folder, pipe):
    for seed in seeds:
        tally = Tally()
        check(seed, folder, tally)
        pipe.send(tally)


def check_all(seeds, folder, tally):
    """In a process of its own: ONNX Runtime may crash or never end, and then the next graph is for another one."""
    seeds = list(seeds)
    while seeds:
        ours, theirs = multiprocessing.Pipe(duplex=False)
        child = multiprocessing.Process(target=work, args=(seeds, folder, theirs))
        child.start()
        theirs.close()
        why = None
        while seeds and not why:
            try:
                why = None if ours.poll(SECONDS) else "never ended"
                if not why:
                    one = ours.recv()
                    tally.compared += one.compared
                    tally.refused += one.refused
                    tally.differ += one.differ
            except EOFError:
                why = "crashed"
            if why:
                tally.refused[f"ONNX Runtime {why}"] += 1
            seeds.pop(0)
        child.kill()
        child.join()


def main():
    tally = Tally()
    for first in range(FIRST, FIRST + COUNT, AT_ONCE):
        with tempfile.TemporaryDirectory(prefix="tidemark-graphs-") as name:
            n = min(AT_ONCE, FIRST + COUNT - first)
            subprocess.run([sys.argv[1], str(first), str(n), name], check=True, stdout=subprocess.DEVNULL)
            check_all(range(first, first + n), Path(name), tally)
    print(f"{COUNT} graphs, {sum(tally.compared.values())} results of {len(tally.compared)} operators compared, "
          f"{len(tally.differ)} differ, {sum(tally.refused.values())} nodes not compared")
    for reason, n in tally.refused.most_common() if "TIDEMARK_RANDOM_ROWS" in os.environ else []:
        print(f"{n:>7}  {reason}")
    for _, text in tally.differ[:200]:
        print(text)
    sys.exit(bool(tally.differ))


if __name__ == "__main__":
    main()
