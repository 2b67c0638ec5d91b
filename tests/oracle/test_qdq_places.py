# SPDX-License-Identifier: Apache-2.0
"""Which values of small networks are quantized, with each of the settings that ONNX Runtime's quantizer has: never one that its own
QDQ model leaves float, and all that it quantizes but for what docs/export-qdq.md names. `diff` finds the ranges of the encodings in it.

test_qdq_places.py PROGRAM SOURCE_ROOT FEATURES
"""
import json
import logging
import sys

from oracle import SOURCE, execute, folder, main, profile, session, subset, tidemark

import numpy as np
import onnx
from onnxruntime import quantization

sys.path.insert(0, str(SOURCE / "tests/heavy"))
import hand_made  # noqa: E402
import last_mile  # noqa: E402

logging.disable(logging.CRITICAL)
CLIPPING = ("Relu", "Clip")
MOVING = (*last_mile.PASSING, "Gather", "GatherElements", "Where", "TopK", "Split", "Pad")
UNKNOWN = ("Tanh", "HardSigmoid", "Erf", "Gelu", "Div", "Sub", "PRelu", "LSTM", "SpaceToDepth", "DepthToSpace", "Greater", "If", "Loop",
           "ReduceMean", "ReduceMax")


class Graph:
    def __init__(self, model):
        self.maker = {name: node for node in model.graph.node for name in node.output}
        self.readers = {}
        for node in model.graph.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)
        self.stored = {tensor.name for tensor in model.graph.initializer}

    def unclipped(self, name):
        """The value that a Relu or Clip clips: its pair may stand before or behind."""
        while name in self.maker and self.maker[name].op_type in CLIPPING:
            name = self.maker[name].input[0]
        return name

    def is_read_in_float(self, name, is_float):
        """All of its readers compute in float, or move it to such ones."""
        return all(is_float(node) or node.op_type in UNKNOWN
                   or (node.op_type in MOVING and all(self.is_read_in_float(out, is_float) for out in node.output))
                   for node in self.readers.get(name, []))

    def is_accumulator(self, name):
        """Of a MatMul whose bias an Add adds."""
        readers = self.readers.get(name, [])
        return (name in self.maker and self.maker[name].op_type == "MatMul" and [node.op_type for node in readers] == ["Add"]
                and bool(self.stored & set(readers[0].input)))

    def is_moved_in_float(self, name, is_float):
        """What an operator that is left float computes, or what only moves that: Split and Pad quantize it in ONNX Runtime."""
        maker = self.maker.get(name)
        while maker is not None and maker.op_type in MOVING:
            maker = self.maker.get(maker.input[0])
        return (maker is not None and (is_float(maker) or maker.op_type in UNKNOWN)
                and {node.op_type for node in self.readers.get(name, [])} <= {"Split", "Pad"})

    def is_pad_value(self, name):
        return {node.op_type for node in self.readers.get(name, [])} == {"Pad"}


def settings_of(model):
    """last_mile's, and nodes_to_quantize: name: (what quantize_static gets, of calibrate, config, float nodes by a function)."""
    known, found = last_mile.settings_of(quantization, model), {}
    for name in ("int8 symmetric", "per_channel", "op_types", "nodes_to_exclude"):  # the others are of types and scales
        words, options, config = known[name]
        kinds, nodes = words.get("op_types_to_quantize"), words.get("nodes_to_exclude", ())
        found[name] = words, options, config, lambda node, kinds=kinds, nodes=nodes: bool(kinds and node.op_type not in kinds) or node.name in nodes
    words, options, config = known["defaults"]
    chosen = [node.name for node in model.graph.node if node.op_type in last_mile.QUANTIZABLE][::2]
    rules = [{"match": {"node": node.name}, "quantize": False} for node in model.graph.node if node.name not in chosen]
    if chosen:
        found["nodes_to_quantize"] = {"nodes_to_quantize": chosen}, options, {**config, "rules": rules}, lambda node: node.name not in chosen
    return found


def quantized(path, graph):
    """Names of values, where a Relu or Clip follows that of its operand."""
    names = [node.name.removesuffix("_DequantizeLinear") for node in onnx.load(path).graph.node if node.op_type == "DequantizeLinear"]
    return {graph.unclipped(name.removesuffix("_convert")) for name in names}


def exported(path, options, config):
    (path / "config.json").write_text(json.dumps(config))
    tidemark("calibrate", path / "profile.json", "-o", path / "enc.json", "--quiet", "--sensitive=quantize", "--config", path / "config.json", *options)
    tidemark("export", path / "enc.json", "--model", path / "model.onnx", "--to", "qdq", "-o", path / "ours.onnx")


def ours(path, options, config):
    exported(path, options, config)
    if not json.loads((path / "enc.json").read_text())["encodings"]:
        return
    said = execute("diff", path / "enc.json", path / "ours.onnx", status=(0, 1)).stdout
    assert "\n! " not in said, said


def test_places():
    count = equal = 0
    for name in subset(hand_made.NETWORKS, 6):
        model, feeds = hand_made.make(name)
        feeds = feeds[:2]
        graph = Graph(model)
        with folder() as path:
            onnx.save(model, path / "model.onnx")
            np.savez(path / "data.npz", **{key: np.stack([feed[key] for feed in feeds]) for key in feeds[0]})
            profile(path / "model.onnx", path / "data.npz", path / "profile.json")
            for setting, (words, options, config, is_float) in settings_of(model).items():
                ours(path, options, config)
                made = quantized(path / "ours.onnx", graph)
                try:
                    quantization.quantize_static(path / "model.onnx", path / "theirs.onnx", last_mile.Reader(feeds), **words)
                except AssertionError:  # ONNX Runtime makes an invalid graph where an input is an output
                    assert name == "returned_input"
                    continue
                wanted = quantized(path / "theirs.onnx", graph)
                assert made <= wanted, f"{name}, {setting}: {sorted(made - wanted)} are float in ONNX Runtime's"
                missing = {value for value in wanted - made
                           if not (graph.is_read_in_float(value, is_float) or graph.is_moved_in_float(value, is_float)
                                   or graph.is_accumulator(value) or graph.is_pad_value(value))}
                assert not missing, f"{name}, {setting}: {sorted(missing)} stay float"
                count, equal = count + 1, equal + (made == wanted)
    print(f"  {equal} of {count} models quantize the very same values")


def dequantized(path):
    """Codes of constants that DequantizeLinear reads, and how many pairs stand behind pairs."""
    graph = onnx.load(path).graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    made = {name for node in graph.node if node.op_type == "DequantizeLinear" for name in node.output}
    codes = {onnx.numpy_helper.to_array(stored[node.input[0]]).tobytes() for node in graph.node
             if node.op_type == "DequantizeLinear" and node.input[0] in stored}
    return codes, sum(node.op_type == "QuantizeLinear" and node.input[0] in made for node in graph.node)


def outputs(path, feeds):
    return [np.concatenate([np.ravel(one).astype(np.float64) for one in session(path).run(None, feed)]) for feed in feeds]


def simulated(path, *words):
    """The lowest SQNR of an output to the model; infinite: they are equal."""
    said = json.loads(tidemark("simulate", path / "model.onnx", path / "enc.json", "--data", path / "data.npz", "--json", *words))
    return min(np.inf if value["sqnr"] is None else value["sqnr"] for value in said["values"] if value["output"])


def decibels(wanted, got):
    noise = sum(np.sum((a - b) ** 2) for a, b in zip(wanted, got, strict=True))
    return np.inf if noise == 0 else 10 * np.log10(sum(np.sum(a * a) for a in wanted) / noise)


WIDER = ("generator", "loop", "lstm", "unit_ends", "top_k")  # --integer quantizes operators that ONNX Runtime's quantizer does not


def test_what_has_codes_keeps_them():
    """ONNX Runtime's QDQ models as input: of the exported file the numbers are the model's, and those that simulate has of it."""
    kept = 0
    for name in subset(hand_made.NETWORKS, 6):
        model, feeds = hand_made.make(name)
        feeds = feeds[:2]
        if model.opset_import[0].version < 13:  # ONNX Runtime gives DequantizeLinear an axis that it has not
            continue
        for how in {"per_channel": True}, {"op_types_to_quantize": ["MatMul", "Conv", "Gemm"]}:
            with folder() as path:
                onnx.save(model, path / "float.onnx")
                np.savez(path / "data.npz", **{key: np.stack([feed[key] for feed in feeds]) for key in feeds[0]})
                try:
                    quantization.quantize_static(path / "float.onnx", path / "model.onnx", last_mile.Reader(feeds), **how)
                except AssertionError:
                    assert name == "returned_input"
                    continue
                profile(path / "model.onnx", path / "data.npz", path / "profile.json")
                exported(path, ["--model", path / "model.onnx"], {})
                (before, old), (after, new) = dequantized(path / "model.onnx"), dequantized(path / "ours.onnx")
                assert before <= after and new <= old, f"{name}: {len(before - after)} constants are encoded anew, {new} pairs stand behind pairs"
                kept += len(before)
                made = decibels(outputs(path / "model.onnx", feeds), outputs(path / "ours.onnx", feeds))
                whole = "per_channel" in how
                forms = simulated(path), simulated(path, "--integer")
                assert not whole or made > 100, f"{name}: {made:.1f} dB"
                for sqnr in forms[:1] if name in WIDER else forms:
                    assert min(sqnr, made) > 45 or abs(sqnr - made) < 3, f"{name}, {how}: {made:.1f} dB, by simulate {forms}"
    print(f"  {kept} constants keep their codes")


main()
