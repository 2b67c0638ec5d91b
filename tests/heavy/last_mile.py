# SPDX-License-Identifier: Apache-2.0
"""Quantized networks where they arrive: a table network x setting x consumer, made by running the consumer.

Each row has the decibels of ONNX Runtime's own quantize_static (MinMax) with the same settings, and ours, against the float network, on
samples that nothing was calibrated on. Exit status 1 where ONNX Runtime's works and ours does not, or is more than 0.5 dB below. Where
the last bits of scales decide (ours are measured by other kernels), a cell is below if our median is, of seven models whose scales
are moved by some of these bits, against the minimum of ONNX Runtime's seven. Where that is below, both sides get 15 models whose scales
are enlarged by up to a thousandth, and the medians decide. Where the difference, sample by sample, is less than twice its standard
error, it is chance: such outputs have few numbers, and other samples say the opposite.
"""
import argparse
import contextlib
import hashlib
import io
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path

try:
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as missing:
    print(f"skipped: {missing} (TIDEMARK_TEST_PYTHON names the interpreter that has it)")
    sys.exit(77)

import cases

SLACK = 0.5  # decibels
ENOUGH = 8  # samples for a mean's standard error
ULPS = 4  # how far ranges that are measured by other kernels are from each other
GRAIN = 1e-3  # scales enlarged by up to this differ by less than those of two calibration sets
NOTHING = "no such setting"
SECONDS = 1200
QUANTIZABLE = ("Conv", "MatMul", "Gemm", "ConvTranspose")
PASSING = ("Relu", "Clip", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Resize", "MaxPool", "AveragePool")
# Consumers in interpreters of their own: what is exported for them, how its file ends, and the settings that they are tried with. Those
# whose interpreter is not given get the file all the same, where it is not a model, and a row if it is not written.
ELSEWHERE = {
    "openvino": ("qdq", ".onnx", ("defaults", "int8 symmetric", "per_channel", "op_types", "nodes_to_exclude")),
    "tvm": ("qdq", ".onnx", ("defaults", "per_channel")),
    "qnn": ("qdq", ".onnx", ("defaults", "uint16")),
    "qnn_mixed": ("qdq", ".onnx", ("defaults", "uint16")),
    "aimet": ("aimet", ".encodings", ("per_channel",)),
    "quark": ("quark", ".json", ("defaults",)),
    "modelopt": ("tensorrt-cache", ".cache", ("int8 symmetric",)),
}
# Rules of calibrate that follow ONNX Runtime's quantizer, where a consumer's own has a scale for each tensor.
BUILT_IN = {"tensorrt-cache": {"pass-through-shares": False}}


def reshaped_constants(model):
    """Constants behind Reshape and the like, which ONNX Runtime takes for activations."""
    stored = {tensor.name for tensor in model.graph.initializer}
    nodes = [node for node in model.graph.node if node.op_type in PASSING and node.input and node.input[0] in stored]
    return sorted({node.input[0] for node in nodes} | {node.output[0] for node in nodes})


def constant_weights(model):
    """Operands of products that nodes make of constants: ONNX Runtime takes them for activations."""
    made, varies = set(), {value.name for value in model.graph.input} - {tensor.name for tensor in model.graph.initializer}
    for node in model.graph.node:
        subgraphs = any(attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for attribute in node.attribute)
        (varies if subgraphs or varies.intersection(node.input) else made).update(node.output)
    found = {name for node in model.graph.node if node.op_type in QUANTIZABLE for name in node.input[:2]} & made
    for node in reversed(model.graph.node):
        if node.op_type in PASSING and found.intersection(node.output):
            found.update(made.intersection(node.input[:1]))
    return sorted(found)


def settings_of(ort, model):
    """Name: (what quantize_static gets, what `tidemark calibrate` gets, its config), the latter None where it has no such setting."""
    types, minmax = ort.QuantType, ["--method", "minmax", "--scheme", "asymmetric"]
    int8 = [*minmax, "--dtype", "int8", "--weights-per-tensor"]
    wanted = ["MatMul", "Conv", "Gemm"]
    named = [node.name for node in model.graph.node if node.op_type in QUANTIZABLE]
    three = list(dict.fromkeys([named[0], named[len(named) // 2], named[-1]])) if named else []
    others = sorted({node.op_type for node in model.graph.node} - set(wanted))
    as_activations = constant_weights(model)
    def config(rules=(), dtype="int8", scheme="asymmetric"):
        others = [{"match": {"name": name}, "dtype": dtype, "scheme": scheme, "per_channel": False} for name in as_activations]
        return {"rules": [*rules, *others], "built_in": {"concat-inputs-share": False}}
    def left(key, values):
        return config({"match": {key: value}, "quantize": False} for value in values)
    def wide(dtype):
        return config(({"match": {"name": name}, "dtype": dtype, "scheme": "asymmetric"} for name in reshaped_constants(model)), dtype)
    return {
        "defaults": ({}, int8, config()),
        "int8 symmetric": ({"activation_type": types.QInt8, "weight_type": types.QInt8, "extra_options": {"ActivationSymmetric": True}},
                           ["--method", "minmax", "--scheme", "symmetric", "--dtype", "int8", "--weights-per-tensor"],
                           config(scheme="symmetric")),
        "uint16": ({"activation_type": types.QUInt16}, [*minmax, "--dtype", "uint16", "--weights-per-tensor"], wide("uint16")),
        "int16 x int8": ({"activation_type": types.QInt16, "weight_type": types.QInt8},
                         [*minmax, "--dtype", "int16", "--weights-per-tensor"], wide("int16")),
        "per_channel": ({"per_channel": True}, [*minmax, "--dtype", "int8"], config()),
        "reduce_range": ({"reduce_range": True}, None, None),
        "op_types": ({"op_types_to_quantize": wanted}, int8, left("op", others)),
        "nodes_to_exclude": ({"nodes_to_exclude": three}, int8, left("node", three)),
        "QOperator": ({"quant_format": ort.QuantFormat.QOperator}, None, None),
    }


# ---- running ----

class Reader:
    """ONNX Runtime's CalibrationDataReader."""

    def __init__(self, feeds):
        self.feeds, self.left = feeds, iter(feeds)

    def get_next(self):
        return next(self.left, None)

    def rewind(self):
        self.left = iter(self.feeds)

    def __len__(self):
        return len(self.feeds)

    def set_range(self, start_index, end_index):
        self.left = iter(self.feeds[start_index:end_index])


def run(model, feeds, optimised):
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    if optimised:  # else processors without VNNI saturate sums of 16 bits; some models do not load so
        options.add_session_config_entry("session.x64quantprecision", "1")
        with contextlib.suppress(onnxruntime.capi.onnxruntime_pybind11_state.Fail):
            session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return [session.run(None, feed) for feed in feeds]


def shares(wanted, got):
    """Of each float output with a signal: noise's share of the whole signal, by samples. Outputs whose shapes depend on numbers are left
    out where they differ, and infinities that both have."""
    found = []
    for outputs in zip(zip(*wanted), zip(*got)):
        signal, noise = 0.0, []
        for a, b in zip(*outputs):
            if not isinstance(a, np.ndarray) or a.dtype.kind != "f" or a.shape != b.shape:
                noise.append(0.0)
                continue
            a, b = a.astype(np.float64), b.astype(np.float64)
            with np.errstate(invalid="ignore"):
                noise.append(np.where(a == b, 0, (a - b) ** 2).sum())
            signal += (a[np.isfinite(a)] ** 2).sum()
        if signal > 0:
            found.append(np.array(noise) / signal)
    return found


def decibels(wanted, got):
    """Of the mean, over float outputs, of noise's share of the signal."""
    found = [noise.sum() for noise in shares(wanted, got)]
    if not found:
        return None
    share = float(np.mean(found))
    return -100.0 if not np.isfinite(share) else round(float(-10 * np.log10(max(share, 1e-20))), 2)


def by_chance(wanted, theirs, ours):
    """Is the mean of the differences, sample by sample, less than twice its standard error? Few samples tell nothing."""
    apart = sum(shares(wanted, ours)) - sum(shares(wanted, theirs))
    return len(wanted) >= ENOUGH and bool(apart.mean() < 2 * apart.std(ddof=1) / len(wanted) ** 0.5)


def one_line(error):
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300]


class Network:
    """What one worker does: a network, all settings, one consumer after the other."""

    def __init__(self, options, name, scratch):
        from onnxruntime import quantization
        self.options, self.name, self.scratch, self.ort = options, name, Path(scratch), quantization
        self.folder = options.networks / name
        self.model = self.folder / "model.onnx"
        proto = onnx.load(self.model)
        nameless = [node for node in proto.graph.node if not node.name]
        if nameless:  # both sides get the same names, since nodes_to_exclude needs some
            for i, node in enumerate(proto.graph.node):
                node.name = node.name or f"node_{i}"
            self.named = self.scratch / "named.onnx"
            onnx.save(proto, self.named)
        else:
            self.named = self.model
        self.settings = settings_of(quantization, proto)
        self.calibrate, self.check = (cases.read(options.networks, name, kind) for kind in ("calibrate", "check"))
        self.wanted = run(self.model, self.check, False)
        self.sources = {}
        self.python = dict(word.split("=", 1) for word in options.python)

    def source(self, setting):
        return self.named if setting == "nodes_to_exclude" else self.model

    def figure(self, path):
        """Decibels as loaded optimised and as written, or the reason that there are none."""
        found = {}
        for key, optimised in (("optimised", True), ("plain", False)):
            try:
                found[key] = decibels(self.wanted, run(path, self.check, optimised))
            except Exception as error:
                found[key] = "does not run: " + one_line(error)
        return found

    def made(self, make, path):
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                make(path)
        except Exception as error:
            if self.options.traceback:
                traceback.print_exc()
            return dict.fromkeys(("optimised", "plain"), one_line(error))
        return self.figure(path)

    def theirs(self, setting):
        """ONNX Runtime's own; kept next to the network, since it is always the same."""
        words, _, _ = self.settings[setting]
        key = hashlib.sha256(repr((onnxruntime.__version__, len(self.calibrate), len(self.check), setting, words, "precise")).encode()
                             + self.model.read_bytes()).hexdigest()
        path = self.folder / "onnxruntime.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        if key not in known:
            known[key] = self.made(lambda out: self.ort.quantize_static(self.source(setting), out, Reader(self.calibrate), **words),
                                   self.scratch / "theirs.onnx")
            path.write_text(json.dumps(known))
        return known[key]

    def moved(self, path, results, tries, low, high):
        """Decibels, ascending, of a quantized model whose scales are multiplied by 1 + low to 1 + high: what rounding alone
        can do. `results` is given the path of each."""
        rng, found = np.random.default_rng(1), []
        for _ in range(tries):
            model = onnx.load(path)
            for tensor in model.graph.initializer:
                if tensor.name.endswith("_scale"):
                    scale = onnx.numpy_helper.to_array(tensor)
                    moved = (scale * (1 + rng.uniform(low, high, scale.shape))).astype(scale.dtype)
                    tensor.CopyFrom(onnx.numpy_helper.from_array(moved, tensor.name))
            onnx.save(model, self.scratch / "moved.onnx")
            found.append(decibels(self.wanted, results(self.scratch / "moved.onnx")))
        return sorted(found)

    def spread(self, file, setting, results):
        """What a row gets that is below: whether that is chance, or what ONNX Runtime's own and ours are compared by, with scales moved:
        the minimum and our median, or two medians."""
        theirs, ulps = self.scratch / "theirs.onnx", ULPS * 2.0 ** -23
        self.ort.quantize_static(self.source(setting), theirs, Reader(self.calibrate), **self.settings[setting][0])
        both = theirs, self.scratch / file
        if by_chance(self.wanted, *map(results, both)):
            return {"chance": True}
        bits = [self.moved(path, results, 7, -ulps, ulps) for path in both]
        if bits[1][3] >= bits[0][0] - SLACK:
            return {"moved": (bits[0][0], bits[1][3])}
        return {"moved": tuple(self.moved(path, results, 15, 0, GRAIN)[7] for path in both)}

    def drop_in(self, setting):
        import tidemark.ort
        words, _, _ = self.settings[setting]
        return self.made(lambda out: tidemark.ort.quantize_static(self.source(setting), out, Reader(self.calibrate), **words),
                         self.scratch / "ours.onnx")

    def exported(self, setting, kind, out):
        """What calibrate and export make of a profile."""
        _, words, config = self.settings[setting]
        if words is None:
            raise LookupError(NOTHING)
        model = self.source(setting)
        if model not in self.sources:
            self.sources[model] = self.scratch / f"profile{len(self.sources)}.json"
            self.program("profile", model, "--data", self.folder / "calibrate", "-o", self.sources[model], "--quiet")
        config = {**config, "built_in": config["built_in"] | BUILT_IN.get(kind, {})}
        (self.scratch / "config.json").write_text(json.dumps(config))
        self.program("calibrate", self.sources[model], "-o", self.scratch / "enc.json", *words, "--sensitive=quantize",
                     "--config", self.scratch / "config.json")
        self.program("export", self.scratch / "enc.json", "--model", model, "--to", kind, "-o", out)

    def qdq(self, setting):
        return self.made(lambda out: self.exported(setting, "qdq", out), self.scratch / "qdq.onnx")

    def elsewhere(self, consumer, setting):
        """What the consumer makes by itself, or of ONNX Runtime's model, and what it makes of ours, in decibels."""
        kind, suffix, _ = ELSEWHERE[consumer]
        ours, theirs = self.scratch / f"ours-{kind}{suffix}", self.scratch / "theirs.onnx"
        if consumer not in self.python:
            try:
                self.exported(setting, kind, ours)
            except Exception as error:
                return {"theirs": 0.0, "ours": one_line(error)}
            return {}
        results = []
        def attempt(make, job):
            try:
                make()
                results.append(self.run_elsewhere(consumer, job))
                return decibels(self.wanted, results[-1])
            except Exception as error:
                return one_line(error)
        def quantize():
            self.ort.quantize_static(self.source(setting), theirs, Reader(self.calibrate), **self.settings[setting][0])
        job = {"model": str(self.source(setting)), "file": None}
        jobs = [{"model": str(path)} for path in (theirs, ours)] if kind == "qdq" else [job, {**job, "file": str(ours)}]
        figures = {"theirs": attempt(quantize if kind == "qdq" else lambda: None, jobs[0]),
                   "ours": attempt(lambda: self.exported(setting, kind, ours), jobs[1])}
        if kind != "qdq" and len(results) == 2 and verdict(figures) == "BELOW":
            figures["chance"] = by_chance(self.wanted, *results)
            if consumer == "aimet" and not figures["chance"]:
                figures["moved"] = tuple(sorted(decibels(self.wanted, self.run_elsewhere(consumer, {**job, "moved": (seed, GRAIN)}))
                                                for seed in range(15))[7] for job in jobs)
        return figures

    def run_elsewhere(self, consumer, job):
        for kind, feeds in (("calibrate", self.calibrate), ("check", self.check)):
            path = self.scratch / f"{kind}.npz"
            if not path.exists():
                np.savez(path, **{f"{i}/{key}": array for i, feed in enumerate(feeds) for key, array in feed.items()})
            job[kind] = str(path)
        out = self.scratch / "out.npz"
        out.unlink(missing_ok=True)
        (self.scratch / "job.json").write_text(json.dumps({**job, "out": str(out)}))
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
        done = subprocess.run([self.python[consumer], "-B", Path(__file__).with_name("consumer_run.py"), consumer, self.scratch / "job.json"],
                              capture_output=True, encoding="utf-8", errors="replace", timeout=SECONDS / 4, env=environment)
        if done.returncode:
            raise RuntimeError(f"{consumer}: status {done.returncode}: {(done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]}")
        with np.load(out) as arrays:
            return [[arrays[f"{i}/{k}"] for k in range(len(outputs))] for i, outputs in enumerate(self.wanted)]

    def program(self, *words):
        done = subprocess.run([self.options.program, *map(str, words)], capture_output=True, encoding="utf-8", errors="replace",
                              timeout=SECONDS)
        if done.returncode:
            raise RuntimeError(f"tidemark {words[0]}: status {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")

    def cells(self):
        """(setting, consumer) of all that is asked for."""
        here = ["quantize_static", "qdq", *(name for name, (kind, _, _) in ELSEWHERE.items() if name in self.python or kind != "qdq")]
        for setting in self.settings:
            for consumer in here:
                if self.options.setting and setting not in self.options.setting:
                    continue
                if self.options.consumer and consumer not in self.options.consumer:
                    continue
                if consumer not in ELSEWHERE or setting in ELSEWHERE[consumer][2]:
                    yield setting, consumer

    def rows(self, skip):
        """Of the cells behind the first `skip`; None at the end of each cell."""
        for setting, consumer in list(self.cells())[skip:]:
            row = {"network": self.name, "setting": setting}
            if consumer in ELSEWHERE:
                kind = ELSEWHERE[consumer][0]
                row |= {"consumer": f"{kind} in {consumer}", **self.elsewhere(consumer, setting)}
                if kind == "qdq" and "ours" in row and verdict(row) == "BELOW":
                    row |= self.spread("ours-qdq.onnx", setting, lambda path: self.run_elsewhere(consumer, {"model": str(path)}))
                if "ours" in row:
                    yield row
            else:
                theirs, ours = self.theirs(setting), (self.drop_in if consumer == "quantize_static" else self.qdq)(setting)
                for load in ours:
                    cell = {**row, "consumer": f"{consumer}, {load}", "theirs": theirs[load], "ours": ours[load]}
                    if verdict(cell) == "BELOW":
                        file = "ours.onnx" if consumer == "quantize_static" else "qdq.onnx"
                        cell |= self.spread(file, setting, lambda path, optimised=load == "optimised": run(path, self.check, optimised))
                    yield cell
            yield None


def work(options, name, skip):
    """The worker: rows as lines of JSON."""
    onnxruntime.set_default_logger_severity(4)
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as scratch:
        network = Network(options, name, scratch)
        print('\n@"began"')
        for row in network.rows(skip):
            print("\n@" + json.dumps(row), flush=True)


def worker_rows(options, name):
    """A network in a process of its own; where that dies, the cell gets an error, and another process continues after it."""
    done, status = 0, None
    while status != 0:
        words = [sys.executable, "-B", *sys.argv, "--worker", name, "--skip", str(done)]
        began, text = False, []
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace") as process:
            timer = threading.Timer(SECONDS, process.kill)
            timer.start()
            for line in process.stdout:
                if not line.startswith("@"):
                    text += [line] if line.strip() else []
                    continue
                row = json.loads(line[1:])
                if row == "began":
                    began = True
                elif row:
                    yield row
                else:
                    done += 1
            timer.cancel()
        status = process.returncode
        if options.traceback:
            print("".join(text))
        if status:
            yield {"network": name, "setting": f"cell {done}", "consumer": "worker", "theirs": 0.0,
                   "ours": f"status {status}: {text[-1].strip() if text else 'no word'}"}
            if not began:
                return
            done += 1


# ---- the table ----

def verdict(row):
    theirs, ours = row["theirs"], row["ours"]
    if str(ours).endswith(NOTHING):
        return "n/a"
    if not isinstance(theirs, (int, float)):
        return "ok" if isinstance(ours, (int, float)) else "neither"
    if not isinstance(ours, (int, float)):
        return "FAILS"
    if ours >= theirs - SLACK:
        return "ok"
    if row.get("chance"):
        return "chance"
    if "moved" in row and row["moved"][1] >= row["moved"][0] - SLACK:
        return "rounding"
    return "BELOW"


def show(row):
    def text(value):
        return f"{value:.2f}" if isinstance(value, (int, float)) else str(value)
    theirs = text(row["theirs"]) if isinstance(row["theirs"], (int, float)) else "-"
    if "moved" in row:
        theirs += " (moved: {:.2f}, ours {:.2f})".format(*row["moved"])
    return f"{row['verdict']:8} {row['network']:24} {row['setting']:17} {row['consumer']:26} {theirs:>8}  {text(row['ours'])}"


def summary(rows):
    counts = {}
    for row in rows:
        at = counts.setdefault(row["consumer"], dict.fromkeys(("ok", "rounding", "chance", "BELOW", "FAILS", "neither", "n/a"), 0))
        at[row["verdict"]] += 1
    for consumer, at in counts.items():
        print(f"{consumer:28} " + "  ".join(f"{key} {value}" for key, value in at.items()))


def markdown(rows):
    """A table a consumer: ours, and in brackets ONNX Runtime's (or the consumer's) own where it differs."""
    def text(value):
        return f"{value:.1f}" if isinstance(value, (int, float)) else "–"
    def cell(row):
        ours, theirs = text(row["ours"]), text(row["theirs"])
        return ours if ours == theirs else f"{ours} ({theirs})"
    lines = []
    for consumer in dict.fromkeys(row["consumer"] for row in rows):
        chosen = [row for row in rows if row["consumer"] == consumer and row["verdict"] != "n/a"]
        settings = list(dict.fromkeys(row["setting"] for row in chosen))
        found = {(row["network"], row["setting"]): cell(row) for row in chosen}
        lines += ["", f"### {consumer}", "", "| network | " + " | ".join(settings) + " |", "| --- |" + " --- |" * len(settings)]
        for network in dict.fromkeys(row["network"] for row in chosen):
            lines.append(f"| {network} | " + " | ".join(found.get((network, setting), "") for setting in settings) + " |")
    return "\n".join(lines[1:]) + "\n"


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path, help="tidemark")
    parser.add_argument("source", type=Path, help="the source tree, for its Python package")
    parser.add_argument("extension", type=Path, help="tidemark._core as it was built")
    parser.add_argument("--networks", type=Path, help="a folder of networks.py's; without it, small networks are made")
    parser.add_argument("--network", action="append", help="only these (default: all)")
    parser.add_argument("--setting", action="append", help="only these (default: all)")
    parser.add_argument("--python", action="append", default=[], metavar="CONSUMER=PYTHON",
                        help=f"an interpreter that has one of {', '.join(ELSEWHERE)}")
    parser.add_argument("--consumer", action="append", help="only these: quantize_static, qdq (in ONNX Runtime), and those of --python")
    parser.add_argument("--json", type=Path, help="where to write all rows")
    parser.add_argument("--markdown", type=Path, help="where to write a table of all figures")
    parser.add_argument("--failures", action="store_true", help="print rows that fail, no others")
    parser.add_argument("--traceback", action="store_true", help="print what was raised")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--skip", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


def package(options, folder):
    """The Python package over the extension that was built."""
    shutil.copytree(options.source / "python" / "tidemark", Path(folder) / "tidemark", ignore=shutil.ignore_patterns("*.c", "*.h"))
    shutil.copy(options.extension, Path(folder) / "tidemark")
    library = options.extension.resolve().parent.parent / "lib"
    for key, value in (("PYTHONPATH", folder), ("LD_LIBRARY_PATH", library)):
        os.environ[key] = os.pathsep.join(filter(None, [str(value), os.environ.get(key)]))


def main():
    options = parse()
    if options.worker:
        return work(options, options.worker, options.skip)
    with tempfile.TemporaryDirectory() as folder:
        package(options, folder)
        if not options.networks:
            options.networks = Path(folder) / "networks"
            cases.write_small(options.networks)
            sys.argv += ["--networks", str(options.networks)]
        names = options.network or sorted(path.parent.name for path in options.networks.glob("*/model.onnx"))
        rows = []
        for name in names:
            for row in worker_rows(options, name):
                row["verdict"] = verdict(row)
                rows.append(row)
                if not options.failures or row["verdict"] in ("FAILS", "BELOW"):
                    print(show(row), flush=True)
            if options.json:
                options.json.write_text(json.dumps(rows, indent=1))
            if options.markdown:
                options.markdown.write_text(markdown(rows), encoding="utf-8")
    summary(rows)
    if not rows:
        print("no rows")
    bad = sum(row["verdict"] in ("FAILS", "BELOW") for row in rows)
    print(f"{bad} of {len(rows)} cells fail")
    sys.exit(1 if bad or not rows else 0)


if __name__ == "__main__":
    main()
