# SPDX-License-Identifier: Apache-2.0
"""Threads and shards do not change profiles, names and order of a file do not change IDs, the number of samples does not change memory."""
import hashlib
import json
import random
import subprocess
import sys

from oracle import (BUNDLE, FEATURES, PROGRAM, UNSUPPORTED, graph_inputs, main, model_names, model_of, np, onnx,
                    photographs, present, skip, sources, subset, tidemark)

# ---- threads ----


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def same_bits(model, data, path, *more):
    endings = ["json"] + (["h5"] if "hdf5" in FEATURES else [])
    seen = set()
    for threads in (1, 2, 7):
        targets = [path / f"p.{ending}" for ending in endings]
        words = [word for target in targets for word in ("-o", target)]
        tidemark("profile", model, "--data", *data, "--quiet", "--threads", threads, *more, *words)
        seen.add(tuple(digest(target) for target in targets))
    assert len(seen) == 1, f"{model}: threads make {len(seen)} different profiles"
    shards = [path / f"{k}.{endings[k % len(endings)]}" for k in (1, 2, 3)]
    for k, shard in enumerate(shards, 1):
        tidemark("profile", model, "--data", *data, "--quiet", "--shard", f"{k}/3", *more, "-o", shard)
    tidemark("merge", *shards, *words)
    assert tuple(map(digest, targets)) in seen, f"{model}: merged shards differ from the run"


def test_threads_and_shards_do_not_change_the_profile(path):
    same_bits(model_of("digits"), [BUNDLE / "digits.npy"], path)
    same_bits(model_of("digits"), [BUNDLE / "digits.npy"], path, "--batch", "13")
    same_bits(model_of("digits"), [BUNDLE / "digits.npy"], path, "--kind", "range")
    for real, limit in subset((("mnist_cnn", 256), ("ultraface_rfb320", 5), ("yunet_dynamic", 6), ("char_gpt", 16),
                                ("mlperf_ic_resnet8", 57), ("dtln_lstm", 9))):
        for name in present(real):
            same_bits(model_of(name), sources(name), path, "--limit", limit)


# ---- names and order ----

class Renamer:
    """New names for everything that may be named freely, the same for the same name."""

    def __init__(self, seed):
        self.dice, self.names = random.Random(seed), {}

    def __call__(self, name):
        if name and name not in self.names:
            number = self.dice.getrandbits(48)
            self.names[name] = self.dice.choice((f"v{number:x}", f"/blocks/{number}/out:0", f"{number}", f"größe {number}"))
        return self.names.get(name, "")

    def graph(self, graph):
        for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
            value.name = self(value.name)
        for node in graph.node:
            node.input[:] = [self(name) for name in node.input]
            node.output[:] = [self(name) for name in node.output]
            node.name = f"n{self.dice.getrandbits(48):x}"
            for attribute in node.attribute:
                for inner in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
                    self.graph(inner)
        self.shuffle(graph.node)
        self.shuffle(graph.initializer)
        self.shuffle(graph.value_info)

    def shuffle(self, items):
        """Any order: a file need not be sorted."""
        mixed = list(items)
        self.dice.shuffle(mixed)
        del items[:]
        items.extend(mixed)


def ids(path):
    graph = json.loads(tidemark("graph", path, "--json"))
    return {value["name"]: (int(value["id"][1:]), value["fingerprint"], value["kind"], value["dtype"], value.get("shape"))
            for value in graph["values"]}


def names_read(node):
    """What a node reads, its sub-graphs included."""
    yield from node.input
    for attribute in node.attribute:
        for graph in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
            yield from (value.name for value in graph.output)
            for inner in graph.node:
                yield from names_read(inner)


def needed(graph):
    """Values that an output depends on. Others have no place in the walk from the outputs: equal ones among them, such as
    counters that are not read, cannot be distinguished."""
    makers = {output: node for node in graph.node for output in node.output}
    found, left = set(), [value.name for value in graph.output]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left.extend(names_read(makers[name]) if name in makers else [])
            left.extend(makers[name].output if name in makers else [])
    return found


def test_names_and_order_do_not_change_an_id(path):
    for name in model_names():
        original = onnx.load(model_of(name))
        before, place = ids(model_of(name)), needed(original.graph) | set(graph_inputs(original))
        for seed in range(3):
            renamer, model = Renamer(seed), onnx.ModelProto()
            model.CopyFrom(original)
            renamer.graph(model.graph)
            onnx.save(model, path / "renamed.onnx")
            after = ids(path / "renamed.onnx")
            assert len(after) == len(before), name
            assert sorted(before.values(), key=str) == sorted(after.values(), key=str), f"{name}, seed {seed}"
            for old, record in before.items():
                if old in renamer.names:  # else it was nameless, and has a name of our making
                    now = after[renamer(old)]
                    same = now == record if old in place else now[1:] == record[1:]
                    assert same, f"{name}, seed {seed}: '{old}' was {record} and is {now}"


def test_renamed_model_has_the_same_profile(path):
    for name in present("digits", "mnist_cnn", "char_gpt"):
        if name in UNSUPPORTED:
            continue
        model, renamer = onnx.load(model_of(name)), Renamer(9)
        renamer.graph(model.graph)
        onnx.save(model, path / "renamed.onnx")
        new = renamer.names
        for which, target in ((model_of(name), path / "a.json"), (path / "renamed.onnx", path / "b.json")):
            data = sources(name)[0]
            if which == path / "renamed.onnx" and data.suffix == ".npz":
                with np.load(data) as arrays:
                    np.savez(path / "renamed.npz", **{new.get(key, key).replace("/", "_"): arrays[key] for key in arrays})
                    key = next(key for key in arrays if key in new)
                    np.save(path / "renamed.npy", arrays[key])
                data = path / "renamed.npy"
            tidemark("profile", which, "--data", data, "--limit", 8, "--quiet", "-o", target)
        a, b = (json.loads((path / file).read_text())["tensors"] for file in ("a.json", "b.json"))
        for old, now in zip(a, b, strict=True):
            for record in (old, now):
                for end in [record["producer"] or {}, *record["consumers"]]:
                    end.pop("node", None)
                record["consumers"].sort(key=str)
            old["name"] = new.get(old["name"], old["name"])
            for record in (old, now):
                if old["name"] not in new.values():
                    record.pop("name", None)
            assert old == now, f"{name}: {old['id']}"


# ---- memory ----

# A process starts with the peak of the one that started it, so a small one must do that.
MEASURE = """import resource, subprocess, sys
status = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)"""


def peak(*words):
    """The program's largest resident set, in KiB."""
    command = [sys.executable, "-S", "-E", "-c", MEASURE, PROGRAM, *map(str, words)]
    return int(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def few_and_many(data, path, *counts):
    """Files of so many samples, of one array: again from the start where it ends."""
    for size in counts:
        np.save(path / f"{size}.npy", np.ascontiguousarray(data[np.arange(size) % len(data)]))


def test_memory_does_not_grow_with_the_samples(path):
    if "sanitized" in FEATURES:
        skip("a sanitizer keeps what was freed")
    wide, = present("squeezenet10")
    pictures = photographs(wide, path / "photographs.npy")
    # few are as many as give every value its table of bins
    few_of_wide = 16 if wide == "squeezenet10" else 256
    for name, data, least, count in (("digits", BUNDLE / "digits.npy", 512, 20000), (wide, pictures, few_of_wide, 16 * few_of_wide)):
        few_and_many(np.load(data), path, least, count)
        for threads in (1, 2) if name == "digits" else (2,):
            few, many = (min(peak("profile", model_of(name), "--data", path / f"{size}.npy", "--threads", threads,
                                  "--quiet", "-o", path / "p.json") for _ in range(2)) for size in (least, count))
            print(f"  {name}, {threads} threads: {few / 1024:.1f} MiB for {least} samples, {many / 1024:.1f} MiB for {count}")
            assert many < 1.1 * few, f"{name}: {few} KiB for {least} samples, {many} KiB for {count}"


main()
