# SPDX-License-Identifier: Apache-2.0
"""Relay text through the reference reader and evaluator of ../shared/relay, with the operators that it lacks.

An independent reader of what Tidemark wrote.
"""
import sys

import numpy as np

from oracle import SHARED, skip

TOOLS = SHARED / "relay" / "tools"
HERE = (TOOLS / "relay_ref.py").is_file()
if HERE:
    sys.path.insert(0, str(TOOLS))
    import relay_ref
    import tvmparams
    EVALUATE = relay_ref.op_eval


def take(x, indices, attrs):
    axis, size = attrs.get("axis"), x.size if attrs.get("axis") is None else x.shape[attrs["axis"]]
    return np.take(x, indices % size if attrs.get("mode") == "wrap" else np.clip(indices, 0, size - 1), axis=axis)


def evaluate(op, values, attrs):
    if op == "annotation.quantize_info":
        return values[0]
    if op == "take":
        return take(values[0], values[1], attrs)
    return EVALUATE(op, values, attrs)


if HERE:
    relay_ref.op_eval = evaluate


class Module:
    """A text and its parameters."""

    def __init__(self, text, params=None):
        if not HERE:
            skip(f"there is no {TOOLS}: the reference reader of Relay is taken from the folder that TIDEMARK_SHARED names")
        self.text = text.read_text()
        self.parsed = relay_ref.Parser(self.text)
        self.main = self.parsed.funcs["main"]
        self.params = tvmparams.load(params.read_bytes()) if params else {}

    def inputs(self):
        return [name for name, _, _ in self.main.params if name not in self.params]

    def calls(self, op=None):
        return [node for node in self.main.nodes if op in (None, node["op"])]

    def run(self, *arrays):
        """The outputs, and [(name, op, value)] of everything on the way."""
        names = self.inputs()
        assert len(names) == len(arrays), f"{names} for {len(arrays)} arrays"
        with np.errstate(all="ignore"):
            result, values = relay_ref.run(self.parsed, "main", dict(zip(names, arrays)), self.params)
        return result if isinstance(result, tuple) else (result,), values


    def after_floats(self):
        """Names of what was computed from dequantized numbers: a tie may fall otherwise there, where floats are rounded
        otherwise."""
        touched = set()
        for i, node in enumerate(self.main.nodes):
            if node["op"] == "qnn.dequantize" or any(ref[0] == "n" and ref[1] in touched for ref in node["args"]):
                touched.add(i)
        return {self.main.nodes[i]["name"] for i in touched}
