# SPDX-License-Identifier: Apache-2.0
"""One damaged file a case, and the commands that are to survive it."""
import shutil
from pathlib import Path

import damage_bytes
import damage_files
import damage_onnx
import onnx
import sources

EXPORTS = ("aimet", "litert", "tensorrt-cache", "tensorrt-ranges", "quark", "tpu-mlir", "tvm", "glow", "nncase", "csv")
MODEL_EXPORTS = ("qdq", "ort-cache", "relay", "ncnn-table", "mnn", "tidl")


class Case:
    """`commands`: run one after the other, each only if the one before had status 0; those behind the first are about what it
    wrote and must have status 0. `subjects`: files that a message may be about."""

    def __init__(self, kind, commands, subjects):
        self.kind, self.commands, self.subjects = kind, commands, [Path(s) for s in subjects]


def pick(dice, weighted):
    """One of {thing: how often}."""
    return dice.choices(list(weighted), weights=list(weighted.values()))[0]


def _spread(dice, path, content):
    """An ONNX file with its weights in a second file, one of the two damaged."""
    model = onnx.ModelProto.FromString(content)
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=64)
    weights = path.with_name("weights.bin")
    how = dice.choice(("weights", "entries", "entries", "file"))
    if how == "weights" and weights.exists():
        way, damaged = damage_bytes.damage(dice, weights.read_bytes())
        weights.write_bytes(damaged)
    elif how == "entries":
        model = onnx.load(path, load_external_data=False)
        outside = [t for t in model.graph.initializer if t.external_data]
        if outside:
            for entry in dice.choice(outside).external_data:
                if dice.random() < 0.5:
                    entry.value = dice.choice(("", "0", "-1", "1", "4096", "99999999", str(2**63), str(2**64), "x", "../weights.bin", "/dev/zero",
                                               "weights.bin/", ".", "absent", entry.value + "0", "model.onnx"))
                    entry.key = dice.choice((entry.key, entry.key, entry.key, "other", ""))
        path.write_bytes(model.SerializeToString())
        way = "entries"
    else:
        way, damaged = damage_bytes.damage(dice, path.read_bytes())
        path.write_bytes(damaged)
    return f"external {way}"


def damaged_model(dice, model, path):
    """Writes it; the kind of damage."""
    content = model.path.read_bytes()
    if model.relay:
        way, damaged = (damage_files.damage_text if dice.random() < 0.7 else damage_bytes.damage)(dice, content)
        path.write_bytes(damaged)
        return f"relay {way}"
    if dice.random() < 0.06 and len(content) > 1000:
        return _spread(dice, path, content)
    if dice.random() < 0.3:
        ends = dice.choice(((0, 3000), (max(0, len(content) - 3000), len(content)), None))
        way, damaged = damage_bytes.damage(dice, content, ends)
        way = f"bytes {way}"
    else:
        way, damaged = damage_onnx.damage(dice, onnx.ModelProto.FromString(content))
        way = f"structure {way}"
    path.write_bytes(damaged)
    return way


def _data(path, model, folder):
    """Data for the damaged model, by its declared inputs; None where an input's name is no file name."""
    target = folder / "x.npz"
    try:
        parsed = onnx.ModelProto.FromString(path.read_bytes())
        arrays = sources.feeds(parsed)
    except Exception:  # it doesn't parse
        arrays = {}
    if arrays:
        return target if sources.save(target, arrays) else None
    if model.data:
        shutil.copy(model.data, target)
    else:
        sources.save(target, {"x": sources.np.zeros((2, 3), "f4")})
    return target


def model_case(dice, every, folder):
    model = pick(dice, {m: m.weight for m in every.models})
    path = folder / ("m.relay" if model.relay else "m.onnx")
    kind = damaged_model(dice, model, path)
    params = ["--params", model.params] if model.params else []
    verbs = {"graph": 2, "profile": 5, "instrument": 1, "run": 3, "transform": 3, "link": 0.5, "check": 0.5, "simulate": 1.5, "export": 2, "verify": 1}
    verb = pick(dice, verbs)
    data = _data(path, model, folder) if verb in ("profile", "run", "simulate") else None
    if verb in ("profile", "run", "simulate") and not data:
        verb = dice.choice(("graph", "instrument", "transform"))
    known = model if model.encodings else every.named[0]
    subjects = [path, path.with_name("weights.bin"), folder / "out.npz", *([data] if data else [])]
    end = ["--threads", "2", "--quiet"]
    out = folder / "out"
    if verb == "graph":
        commands = [["graph", path, *params, *dice.choice(([], ["--dot"], ["--ops"], ["--json"]))]]
    elif verb == "profile":
        form = dice.choice(("json", "h5"))
        more = dice.choice(([], [], ["--kind", "range"], ["--observe", "weights"], ["--batch", "2"], ["--nan", "warn"], ["--kind", "guard"]))
        commands = [["profile", path, *params, "--data", data, "-o", f"{out}.{form}", *more, *end], ["check", f"{out}.{form}"]]
        if more[:1] == ["--kind"]:
            commands[1:] = [["show", f"{out}.{form}"]] if more[1] == "range" else []
    elif verb == "instrument":
        commands = [["instrument", path, *params, "-o", f"{out}.onnx", "--quiet"], ["graph", f"{out}.onnx"]]
    elif verb == "run":
        commands = [["run", path, *params, "--data", data, "-o", f"{out}.npz", *dice.choice(([], ["--values", "*"])), *end]]
    elif verb == "transform":
        commands = [["transform", path, *params, "--passes", dice.choice(("all", "all", "fold-constant", "none")), "-o", f"{out}.onnx",
                     "--lineage", f"{out}.json", "--quiet"], ["graph", f"{out}.onnx", "--lineage", f"{out}.json"]]
    elif verb == "simulate":
        subjects.append(known.encodings)
        commands = [["simulate", path, known.encodings, *params, "--data", data, *dice.choice(([], ["--integer"])), *end]]
    elif verb == "export":
        subjects.append(known.encodings)
        form = dice.choice((*MODEL_EXPORTS, "qdq", "relay"))
        target = f"{out}{'.onnx' if form == 'qdq' else '.new'}"
        commands = [["export", known.encodings, "--model", path, *params, "--to", form, "-o", target, "--quiet"]]
        commands += [["graph", target]] if form == "qdq" else []
    elif verb == "verify":
        commands = [["verify", path, *params, model.sets or every.sets, "--quiet"]]
        subjects += [f"{folder}/{name}" for name in ("test_data_set_0", "input_0.pb", "output_0.pb")] + [model.sets or every.sets]
    elif verb == "link":
        subjects.append(known.profile)
        commands = [["link", known.profile, path, *params, "-o", f"{out}.json", "--quiet"], ["check", f"{out}.json"]]
    else:
        commands = [["check", known.profile, "--against", path, *params]]
    return Case(f"model {kind}", commands, subjects)


# ---- profiles and what is made of them ----

def _damaged(dice, content, form, path):
    """Damage that fits the form, or bytes; the kind."""
    structured = {"json": damage_files.damage_json, "h5": damage_files.damage_hdf5, "text": damage_files.damage_text}.get(form)
    if structured and dice.random() < (0.8 if form == "h5" else 0.7):
        way, damaged = structured(dice, content)
        kind = f"{form} structure {way}"
    else:
        way, damaged = damage_bytes.damage(dice, content)
        kind = f"{form} bytes {way}"
    path.write_bytes(damaged)
    return kind


def _profile(dice, every, folder, form):
    model = pick(dice, {m: 1 / m.profile.stat().st_size for m in every.small})
    verb = dice.choice(("show", "show", "check", "merge", "merge", "diff", "calibrate", "calibrate", "report", "link"))
    whole = every.shard(model, 1, form) if verb == "merge" else model.profile.with_suffix(f".{form}")
    path, out = folder / f"p.{form}", folder / "out"
    kind = _damaged(dice, whole.read_bytes(), form, path)
    other = model.profile.with_suffix(f".{dice.choice(('json', 'h5'))}")
    commands = {
        "show": [["show", path, *dice.choice(([], ["--json"], ["--nodes"], ["--outliers"], ["--sort", "range"], ["p1"], ["p3", "--json"], ["*"]))]],
        "check": [["check", path, *dice.choice(([], ["--against", model.path]))]],
        "merge": [["merge", *dice.sample([path, every.shard(model, 2, dice.choice(("json", "h5")))], 2), "-o", f"{out}.{form}", "--quiet"], ["check", f"{out}.{form}"]],
        "diff": [["diff", "--quiet", *dice.sample([path, other], 2)]],
        "calibrate": [["calibrate", path, "-o", f"{out}.json", "--quiet", *dice.choice(
            ([], ["--method", "percentile"], ["--method", "entropy"], ["--method", "mse"], ["--method", "minmax"], ["--per-channel"], ["--pow2"]))],
            ["export", f"{out}.json", "--to", "csv", "-o", f"{out}.csv", "--quiet"]],
        "report": [["report", *dice.choice(([path], [other, "--since", path])), "-o", f"{out}.html", "--quiet"]],
        "link": [["link", path, model.path, "-o", f"{out}.json", "--quiet"], ["check", f"{out}.json"]],
    }[verb]
    return Case(f"profile {kind}", commands, [path])


def _checkpoint(dice, every, folder):
    words, checkpoint = every.checkpoint
    path = folder / "run.state"
    kind = _damaged(dice, checkpoint.read_bytes(), "checkpoint", path)
    return Case(kind, [["profile", *words, "--limit", "71880", "--checkpoint", path, "--resume", "-o", folder / "out.json"]], [path])


def _encodings(dice, every, folder):
    model, path, out = dice.choice(every.small), folder / "e.json", folder / "out"
    kind = _damaged(dice, model.encodings.read_bytes(), "json", path)
    commands = dice.choice((
        [["export", path, "--to", dice.choice(EXPORTS), "-o", f"{out}.new", "--quiet"]],
        [["export", path, "--to", dice.choice(MODEL_EXPORTS), "--model", model.path, "-o", f"{out}.new", "--quiet"]],
        [["simulate", model.path, path, "--data", model.data, "--quiet", *dice.choice(([], ["--integer"], ["--requant", "fixed"]))]],
        [["diff", "--quiet", *dice.sample([path, model.encodings], 2)]],
        [["report", model.profile, "--encodings", path, "-o", f"{out}.html", "--quiet"]],
        [["check", model.profile, "--against", path]]))
    return Case(f"encodings {kind}", commands, [path, model.path])


def _lineage(dice, every, folder):
    model, lineage, small = dice.choice(every.lineages)
    form = lineage.suffix[1:]
    path, out = folder / f"l.{form}", folder / "out"
    kind = _damaged(dice, lineage.read_bytes(), form, path)
    commands = dice.choice((
        [["graph", dice.choice((model.path, small)), "--lineage", path]],
        [["link", model.profile, small, "--lineage", path, "-o", f"{out}.json", "--quiet"], ["check", f"{out}.json"]],
        [["check", model.profile, "--against", small, "--lineage", path]]))
    return Case(f"lineage {kind}", commands, [path, model.path, small])


def _config(dice, every, folder):
    path, model = folder / "config.json", dice.choice(every.small)
    kind = _damaged(dice, every.config, "json", path)
    return Case(f"config {kind}", [["calibrate", model.profile, "--config", path, "-o", folder / "out.json", "--quiet"]], [path])


def _names(dice, every, folder):
    path, model = folder / "names.json", dice.choice(every.small)
    kind = _damaged(dice, b'{"p0": "a", "p1": "b", "p2": ["c", "d"], "stranger": "e", "p5": "a long name of a value"}', "json", path)
    return Case(f"names {kind}", [["export", model.encodings, "--to", dice.choice(EXPORTS), "--names", path, "-o", folder / "out.new", "--quiet",
                                   *dice.choice(([], ["--keep-names"]))]], [path])


def _template(dice, every, folder):
    form, template = dice.choice(sorted(every.templates.items()))
    path = folder / template.name
    kind = _damaged(dice, template.read_bytes(), "text", path)
    companion = template.with_suffix(".bin")
    if companion.exists():
        shutil.copy(companion, folder / companion.name)
    model = every.of_examples
    return Case(f"template {kind}", [["export", model.encodings, "--model", model.path, "--to", form, "--template", path, "-o", folder / f"out{path.suffix}", "--quiet"]],
                [path, folder / companion.name])


def _table(dice, every, folder):
    table = dice.choice(every.tables)
    path = folder / f"table{table.suffix}"
    content = table.read_bytes()
    if table.suffix == ".onnx":
        way, damaged = damage_onnx.damage(dice, onnx.ModelProto.FromString(content))
        path.write_bytes(damaged)
        kind = f"onnx structure {way}"
    else:
        form = "h5" if table.suffix == ".h5" else "json" if content.lstrip()[:1] in (b"{", b"[") else "text"
        kind = _damaged(dice, content, form, path)
    model = every.of_examples
    commands = dice.choice(([["diff", "--quiet", model.profile, path]], [["diff", "--quiet", path, table]], [["check", model.profile, "--against", path]]))
    return Case(f"ranges {kind}", commands, [path])


def _params(dice, every, folder):
    model = dice.choice([m for m in every.models if m.params])
    path = folder / "w.params"
    content = model.params.read_bytes()
    way, damaged = damage_bytes.damage(dice, content, (0, 300))
    path.write_bytes(damaged)
    return Case(f"params bytes {way}", [dice.choice((["graph", model.path, "--params", path],
                                                     ["transform", model.path, "--params", path, "--passes", "all", "-o", folder / "out.onnx", "--lineage", folder / "l.json", "--quiet"]))],
                [path, model.path])


def profile_case(dice, every, folder):
    kinds = {lambda: _profile(dice, every, folder, "json"): 32, lambda: _profile(dice, every, folder, "h5"): 20,
             lambda: _checkpoint(dice, every, folder): 7, lambda: _encodings(dice, every, folder): 12,
             lambda: _lineage(dice, every, folder): 8, lambda: _config(dice, every, folder): 5, lambda: _names(dice, every, folder): 2}
    if every.tables:
        kinds[lambda: _table(dice, every, folder)] = 12
    if every.templates:
        kinds[lambda: _template(dice, every, folder)] = 4
    if any(m.params for m in every.models):
        kinds[lambda: _params(dice, every, folder)] = 3
    return pick(dice, kinds)()


# ---- data ----

def data_case(dice, every, folder):
    model = every.models[0]
    shape = sources.np.arange(192, dtype="f4").reshape(3, 1, 8, 8)
    form = dice.choice(("npy", "npy", "npz", "npz", "bin", "png", "jpg", "h5", "pb", "txt"))
    path, more = folder / f"x.{form}", []
    source = path
    if form == "npy":
        sources.np.save(path, shape)
        way, damaged = (damage_files.damage_npy if dice.random() < 0.5 else damage_bytes.damage)(dice, path.read_bytes())
    elif form == "npz":
        dice.choice((sources.np.savez, sources.np.savez_compressed))(path, image=shape)
        way, damaged = damage_bytes.damage(dice, path.read_bytes())
    elif form == "bin":
        way, damaged = damage_bytes.damage(dice, shape.tobytes())
    elif form in ("png", "jpg"):
        more = ["--image", "color=grey,scale=1/255"]
        pictures = [p for p in damage_files.small_pictures(folder) if p.endswith(form)]
        way, damaged = damage_bytes.damage(dice, Path(dice.choice(pictures)).read_bytes())
    elif form == "h5":
        source = f"{path}:/x"
        with damage_files.h5py.File(path, "w") as file:
            file.create_dataset("x", data=shape, **dice.choice(({}, {"chunks": (1, 1, 8, 8), "compression": "gzip"})))
        way, damaged = (damage_files.damage_hdf5 if dice.random() < 0.6 else damage_bytes.damage)(dice, path.read_bytes())
    elif form == "txt":
        picture = Path(damage_files.small_pictures(folder)[0])
        more = ["--image", "color=grey"]
        way, damaged = damage_bytes.damage(dice, f"{picture.name}\n{picture.name}\n".encode())
    else:
        source = folder / "set"
        path = source / "test_data_set_0" / "input_0.pb"
        path.parent.mkdir(parents=True)
        way, damaged = damage_bytes.damage(dice, onnx.numpy_helper.from_array(shape[:1], "image").SerializeToString())
    path.write_bytes(damaged)
    return Case(f"data {form} {way}", [["profile", model.path, "--data", source, *more, "-o", folder / "out.json", "--quiet"], ["check", folder / "out.json"]],
                [path, model.path])  # of shapes that differ the message names the model and its input


FAMILIES = {"models": model_case, "profiles": profile_case, "data": data_case}
