# SPDX-License-Identifier: Apache-2.0
"""`link --numbers` against models that ONNX Runtime and onnxsim have optimised: what survived is found again, and nothing else is.

The truth is ONNX Runtime's: both files run on samples that the linking did not see, with every value as an output, and each match
must hold there, by the relation that the lineage states. A value survived if the optimised file has one with its numbers.

usage: test_link.py PROGRAM SOURCE_ROOT FEATURES [MODEL.onnx DATA.npy]...   (models besides the usual ones)
"""
import json
import sys
from pathlib import Path

from oracle import folder, main, model_of, np, onnx, onnxruntime, present, samples, session, skip, subset, tidemark

MODELS = ["super_resolution", "mlperf_ic_resnet8", "squeezenet10", "mlperf_vww_mobilenet", "mnist_cnn", "ultraface_rfb320", "char_gpt"]
MORE = [Path(word) for word in sys.argv[4:]]
LINKED, CHECKED = 16, 8  # samples
CLOSE = 1e-4  # of the range
SHARE = 0.95  # of those that survived


def feeds_of(name):
    if name in map(str, MORE[::2]):
        data = np.load(MORE[MORE.index(Path(name)) + 1], mmap_mode="r")[:LINKED // 2 + CHECKED // 2]
        return [{onnx.load(name).graph.input[0].name: np.ascontiguousarray(row[None])} for row in data]
    return samples(name, LINKED + CHECKED)


def file_of(name):
    return Path(name) if name in map(str, MORE[::2]) else model_of(name)


def changed(feed, seed):
    """Another sample of the same kind: floats mixed with their mirror image, and somewhat less of them."""
    rng = np.random.default_rng(seed)
    return {key: (0.8 * x + 0.15 * x[..., ::-1] + 0.02 * x.std() * rng.standard_normal(x.shape)).astype(x.dtype)
            if x.dtype.kind == "f" else x for key, x in feed.items()}


class Case:
    """A model, the samples that link it, and others."""

    def __init__(self, name, path):
        feeds = feeds_of(name)
        self.name, self.path, self.file = name, path, file_of(name)
        half = min(LINKED, (len(feeds) + 1) // 2)
        self.seen, self.unseen = feeds[:half], feeds[half:half + CHECKED] or [changed(f, i) for i, f in enumerate(feeds)]
        self.alike = alike = [f for f in self.seen if all(f[k].shape == x.shape for k, x in self.seen[0].items())]
        self.words = []
        for key in alike[0]:
            np.save(path / f"data{len(self.words)}.npy", np.stack([feed[key] for feed in alike]))
            self.words += ["--data", f"{key}={path / f'data{len(self.words)}.npy'}"]
        self.profile = path / "original.json"
        tidemark("profile", self.file, *self.words, "-o", self.profile, "--quiet")

    def link(self, target, *more):
        out, lineage, report = (self.path / f"{n}.json" for n in ("linked", "lineage", "report"))
        tidemark("link", self.profile, target, "-o", out, "--lineage-out", lineage, "--report", report, "--numbers", "--original",
                 self.file, *self.words, "--quiet", *more)
        return [json.loads(p.read_text()) for p in (out, lineage, report)]


def by_onnxruntime(source, target):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


def by_onnxsim(source, target):
    try:
        import onnxsim
    except ImportError as missing:
        skip(missing)
    onnx.save(onnxsim.simplify(onnx.load(source))[0], target)


def nameless(source, target):
    """The same file with meaningless names: all but those of the inputs and outputs."""
    model, names = onnx.load(source), {}
    graph = model.graph
    kept = {v.name for v in (*graph.input, *graph.output)} | {""}
    called = lambda name: name if name in kept else names.setdefault(name, f"v{len(names)}")
    for node in graph.node:
        node.name = ""
        node.input[:], node.output[:] = map(called, node.input), map(called, node.output)
    for tensor in graph.initializer:
        tensor.name = called(tensor.name)
    del graph.value_info[:]
    onnx.save(model, target)


# ---- the truth ----

class Runtime:
    """A file of which every value is an output."""

    def __init__(self, path):
        model = onnx.load(path)
        self.weights = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
        for node in model.graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self.weights[node.output[0]] = onnx.numpy_helper.to_array(node.attribute[0].t)
        have = {v.name for v in model.graph.output}
        self.names = [o for node in model.graph.node for o in node.output if o]
        model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(n) for n in self.names if n not in have)
        self.session = session(model)

    def run(self, feed):
        feed = {i.name: x for i, x in zip(self.session.get_inputs(), feed.values())} \
            if {i.name for i in self.session.get_inputs()} != set(feed) else feed
        values = dict(zip([o.name for o in self.session.get_outputs()], self.session.run(None, feed)))
        return {**self.weights, **values, **feed}


def is_close(x, y, reach):
    with np.errstate(invalid="ignore"):  # infinities are equal, or not
        return x.shape == y.shape and bool(np.all((x == y) | (np.abs(x.astype(np.float64) - y) <= reach)))


def reach_of(x):
    """Of numbers as another order of operations makes them."""
    x = x[np.isfinite(x)]
    return CLOSE * np.ptp(x) + 1e-6 * np.abs(x).max() if x.size else 0


def holds(entry, x, y):
    """Does the relation that the lineage states hold between the original x and the value y?"""
    if x.dtype.kind != "f":
        return x.dtype == y.dtype and np.array_equal(x, y)
    view = entry.get("view")
    if view == "reshaped":
        x = x.reshape(y.shape) if x.size == y.size else x
    elif view:
        x = x.transpose(view)
    if entry["verdict"] == "affine":
        scale, shift = (np.array(entry["affine"][k]) for k in ("scale", "shift"))
        if len(scale) > 1:
            along = [1] * y.ndim
            along[entry["affine"]["axis"]] = -1
            scale, shift = scale.reshape(along), shift.reshape(along)
        x = scale * x.astype(np.float64) + shift
    return is_close(x, y, reach_of(y))


def survivors(pairs, x, y):
    """Of pairs of names those with equal numbers in this sample, too; None: all that there could be."""
    if pairs is None:
        sizes = {}
        for v, b in y.items():
            if b.dtype == np.float32 and b.size > 1 and np.ptp(b) > 0:
                sizes.setdefault(b.size, []).append(v)
        pairs = [(o, v) for o, a in x.items() if a.dtype == np.float32 for v in sizes.get(a.size, [])]
    few, reach = {}, {o: reach_of(x[o]) for o in {o for o, _ in pairs}}

    def some(side, name, a):
        key = side, name
        if key not in few:
            few[key] = a.ravel()[:: max(1, a.size // 97)].astype(np.float64)
        return few[key]
    return [(o, v) for o, v in pairs if is_close(some(0, o, x[o]), some(1, v, y[v]), reach[o]) and
            is_close(x[o].ravel(), y[v].ravel(), reach[o])]


def check(case, target, lineage):
    """How many originals survived, how many of these were matched, and the matches that are wrong."""
    original, optimised = Runtime(case.file), Runtime(target)
    values = {v["id"]: v["name"] for v in lineage["values"]}
    entries = [e for e in lineage["originals"] if e["verdict"] in ("same", "view", "affine", "merged") and not e.get("path")]
    wrong, pairs = set(), None
    for feed in case.unseen:
        x, y = original.run(feed), optimised.run(feed)
        for e in entries:
            if e["name"] in x and values[e["value"]] in y and not holds(e, x[e["name"]], y[values[e["value"]]]):
                wrong.add((e["name"], e["verdict"], values[e["value"]]))
        pairs = survivors(pairs, x, y)
    pairs = [(o, v) for o, v in pairs if (o in original.weights) == (v in optimised.weights)  # a weight by its bytes
             and (o not in original.weights or np.array_equal(x[o].ravel(), y[v].ravel()))]
    alive = {o for o, _ in pairs}
    return alive, {e["name"] for e in entries}, wrong


def check_ranges(case, target, linked):
    """The largest difference of an extreme, of the range, between the carried profile and a run of the optimised file."""
    measured = case.path / "measured.json"
    data = case.words
    tidemark("profile", target, *data, "-o", measured, "--quiet")
    worst, compared = 0.0, 0
    for a, b in zip(linked["tensors"], json.loads(measured.read_text())["tensors"], strict=True):
        assert a["name"] == b["name"]
        if a["status"] == "never" or a.get("min") is None or a["dtype"] != "float32" or a["kind"] == "weight":
            continue
        compared += 1
        reach = b["max"] - b["min"] or 1
        worst = max(worst, abs(a["min"] - b["min"]) / reach, abs(a["max"] - b["max"]) / reach)
    return worst, compared


def link_all(how, names):
    total_alive = total_found = 0
    problems = []
    for name in subset(names):
        with folder() as path:
            case, target, bare = Case(name, path), path / "optimised.onnx", path / "nameless.onnx"
            how(case.file, target)
            linked, lineage, report = case.link(target)
            alive, found, wrong = check(case, target, lineage)
            worst, compared = check_ranges(case, target, linked)
            nameless(target, bare)
            _, bare_lineage, bare_report = case.link(bare)
            _, bare_found, bare_wrong = check(case, bare, bare_lineage)
            print(f"  {Path(name).stem}: {report['counts']['originals']} originals, {len(alive)} survived, "
                  f"{len(alive & found)} of these matched, {len(found - alive)} others, {len(report['ambiguous'])} ambiguous, "
                  f"{len(wrong)} wrong; without names {len(alive & bare_found)}, {len(bare_report['ambiguous'])} ambiguous, "
                  f"{len(bare_wrong)} wrong; {compared} ranges within {worst:.1e}", flush=True)
            total_alive += len(alive)
            total_found += len(alive & found)
            problems += [(name, w) for w in wrong | bare_wrong] + [(name, worst)] * (worst > CLOSE)
            missing = alive - found
            assert len(missing) <= (1 - SHARE) * len(alive), f"{name}: not matched: {sorted(missing)[:10]}"
    assert not problems, problems
    assert total_found >= SHARE * total_alive


def models():
    return present(*MODELS) + [str(path) for path in MORE[::2]]


def test_models_optimised_by_onnxruntime_are_matched():
    link_all(by_onnxruntime, models())


def test_models_simplified_by_onnxsim_are_matched():
    link_all(by_onnxsim, models())


def test_dumped_tensors_are_matched():
    """What it ran is not even shown: names and numbers are all there is."""
    for name in present("mlperf_ic_resnet8", "squeezenet10"):
        with folder() as path:
            case, target, dump = Case(name, path), path / "optimised.onnx", path / "dump.npz"
            by_onnxruntime(case.file, target)
            runtime = Runtime(target)
            runs = [runtime.run(feed) for feed in case.seen]
            np.savez(dump, **{key.replace("/", "|"): np.concatenate([run[key] for run in runs]) for key in runtime.names})
            words = ["link", case.profile, "--numbers", "--original", case.file, "--tensors", dump, *case.words]
            tidemark(*words, "-o", path / "linked.json", "--report", path / "report.json", "--quiet")
            report = json.loads((path / "report.json").read_text())
            kept = set(runtime.names) & set(Runtime(case.file).names)
            found = {m["name"]: m["value_name"].replace("|", "/") for m in report["matches"] if m["evidence"] == "equal"}
            print(f"  {name}: {len(runtime.names)} arrays, {len(kept)} with a name of the original's, {len(found)} originals found, "
                  f"{report['counts']['affine']} by a scale and a shift, {len(report['ambiguous'])} ambiguous", flush=True)
            assert {key: found.get(key) for key in kept} == {key: key for key in kept}, f"{name}: {found}"


if __name__ == "__main__":  # heavy/test_links.py uses what is above
    main()
