# SPDX-License-Identifier: Apache-2.0
"""Quantized networks in consumers that convert them first: ncnn, LiteRT, OpenVINO. A table network x consumer x setting.

Each row has the decibels of the consumer's conversion in float, of what it quantizes by its own calibration of the same samples, and of
what it makes of our export, against the float network in ONNX Runtime on samples that nothing was calibrated on. A consumer, and its own
quantizer, is optional: what is missing is a reason in the row. Exit status 1 where the conversion works and ours does not.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import cases
from last_mile import SECONDS, decibels, one_line, run

MINMAX = ["--method", "minmax"]
# Consumer: (format, the file's suffix, the options of export, {setting: the options of calibrate}).
WAYS = {
    "ncnn": ("ncnn-int8", ".param", ["--template", "{folder}/model.ncnn.param"],
             {"target": ["--target", "ncnn"], "minmax": ["--target", "ncnn", *MINMAX],
              "per tensor": ["--target", "ncnn", *MINMAX, "--weights-per-tensor"]}),
    "ncnn2int8": ("ncnn-table", ".table", ["--template", "{folder}/model.ncnn.param"],
                  {"target": ["--target", "ncnn"], "minmax": ["--target", "ncnn", *MINMAX]}),
    "litert": ("litert", ".json", ["--names", "{folder}/names.json"],
               {"target": ["--target", "litert"], "minmax": ["--target", "litert", *MINMAX]}),
    "openvino": ("openvino", ".xml", ["--template", "{folder}/t.xml"],
                 {"target": ["--target", "openvino"], "minmax": ["--target", "openvino", *MINMAX],
                  "int8 symmetric": [*MINMAX, "--scheme", "symmetric", "--dtype", "int8"]}),
}


class Network:
    def __init__(self, options, name, scratch):
        self.options, self.name, self.scratch = options, name, Path(scratch)
        self.model = options.networks / name / "model.onnx"
        self.calibrate, self.check = (cases.read(options.networks, name, kind) for kind in ("calibrate", "check"))
        self.wanted = run(self.model, self.check, False)
        self.job = {"model": str(self.model), "out": str(self.scratch / "out.npz")}
        for kind, feeds in (("calibrate", self.calibrate), ("check", self.check)):
            self.job[kind] = str(self.scratch / f"{kind}.npz")
            np.savez(self.job[kind], **{f"{i}/{key}": array for i, feed in enumerate(feeds) for key, array in feed.items()})

    def consumer(self, consumer, step, **more):
        (self.scratch / "job.json").write_text(json.dumps({**self.job, **more}))
        python = self.options.python[consumer.removesuffix("2int8")]
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
        done = subprocess.run([python, "-B", Path(__file__).with_name("converted_run.py"), consumer.removesuffix("2int8"), step,
                               self.scratch / "job.json"], capture_output=True, encoding="utf-8", errors="replace",
                              timeout=SECONDS / 2, env=environment, cwd=self.scratch)
        if done.returncode:
            raise RuntimeError(f"{step}: status {done.returncode}: {(done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]}")
        return done.stdout.strip().splitlines()[-1:]

    def figure(self, consumer, step, **more):
        """Decibels, or the reason that there are none; and what the consumer said."""
        try:
            said = self.consumer(consumer, step, **more)
            with np.load(self.job["out"]) as arrays:
                got = [[self.shaped(arrays, i, k, want) for k, want in enumerate(outputs)] for i, outputs in enumerate(self.wanted)]
            return decibels(self.wanted, got), said
        except Exception as error:
            return one_line(error), []

    @staticmethod
    def shaped(arrays, i, k, want):
        """Of the output with as many numbers, which ncnn has without a batch dimension and LiteRT with channels last."""
        same = [key for key in arrays.files if key.startswith(f"{i}/") and arrays[key].size == want.size]
        got = arrays[f"{i}/{k}"] if f"{i}/{k}" in same else arrays[same[0]] if same else np.zeros(0)
        if got.shape != want.shape and got.ndim == want.ndim > 2 and np.moveaxis(got, -1, 1).shape == want.shape:
            return np.moveaxis(got, -1, 1)
        return got.reshape(want.shape) if got.size == want.size else got

    def program(self, *words):
        done = subprocess.run([self.options.program, *map(str, words)], capture_output=True, encoding="utf-8", errors="replace",
                              timeout=SECONDS)
        if done.returncode:
            raise RuntimeError(f"tidemark {words[0]}: status {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
        return done.stdout

    def ours(self, consumer, setting, folder):
        kind, suffix, words, settings = WAYS[consumer]
        profile, encodings, file = self.scratch / "profile.json", self.scratch / "enc.json", self.scratch / f"ours{suffix}"
        try:
            if not profile.exists():
                self.program("profile", self.model, "--data", self.options.networks / self.name / "calibrate", "-o", profile, "--quiet")
            self.program("calibrate", profile, "-o", encodings, "--sensitive=quantize", *settings[setting])
            told = json.loads(self.program("export", encodings, "--model", self.model, "--to", kind, "-o", file, "--json", "--quiet",
                                           *(word.format(folder=folder) for word in words)))
        except Exception as error:
            return one_line(error), ""
        found, said = self.figure(consumer, "ours", folder=str(folder), file=str(file))
        return found, " ".join([f"{told['written']} of {told['encodings']} written", *said, *told.get("remarks", [])[:2]])

    def rows(self):
        for consumer, (_, _, _, settings) in WAYS.items():
            if consumer.removesuffix("2int8") not in self.options.python or self.options.consumer not in (None, consumer):
                continue
            folder = self.scratch / consumer
            folder.mkdir()
            row = {"network": self.name, "consumer": consumer}
            try:
                self.consumer(consumer, "convert", folder=str(folder))
            except Exception as error:
                yield row | {"setting": "-", "float": one_line(error), "own": None, "ours": None, "note": ""}
                continue
            plain, _ = self.figure(consumer, "float", folder=str(folder))
            own, _ = self.figure(consumer, "own", folder=str(folder))
            for setting in settings:
                ours, note = self.ours(consumer, setting, folder)
                yield row | {"setting": setting, "float": plain, "own": own, "ours": ours, "note": note}


def show(row):
    def text(value):
        return f"{value:7.2f}" if isinstance(value, (int, float)) else f"{'-':>7}"
    why = [str(row[key]) for key in ("float", "own", "ours") if isinstance(row[key], str)]
    return (f"{row['network']:26} {row['consumer']:10} {row['setting']:15} float {text(row['float'])}  own {text(row['own'])}  "
            f"ours {text(row['ours'])}  {row['note']} {'; '.join(why)}")


def markdown(rows):
    def text(value):
        return f"{value:.1f}" if isinstance(value, (int, float)) else "–"
    lines = ["| consumer | network | setting | float | its own | ours |", "| --- | --- | --- | --- | --- | --- |"]
    lines += [f"| {row['consumer']} | {row['network']} | {row['setting']} | {text(row['float'])} | {text(row['own'])} | {text(row['ours'])} |"
              for row in sorted(rows, key=lambda row: (row["consumer"], row["network"]))]
    return "\n".join(lines) + "\n"


def failed(row):
    return isinstance(row["float"], (int, float)) and row["float"] > 20 and not isinstance(row["ours"], (int, float))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path, help="tidemark")
    parser.add_argument("networks", type=Path, help="a folder as networks.py fills it")
    parser.add_argument("--python", action="append", default=[], metavar="CONSUMER=PYTHON", help="ncnn, litert, openvino")
    parser.add_argument("--network", action="append", help="only these")
    parser.add_argument("--consumer", choices=WAYS, help="only this one")
    parser.add_argument("--json", type=Path, help="the rows, kept with those of earlier runs")
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    options.program, options.networks = options.program.resolve(), options.networks.resolve()
    options.python = dict(word.split("=", 1) for word in options.python)
    rows = json.loads(options.json.read_text()) if options.json and options.json.exists() else []
    for path in sorted(options.networks.glob("*/model.onnx")):
        name = path.parent.name
        if options.network and name not in options.network:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            for row in Network(options, name, scratch).rows():
                key = {k: row[k] for k in ("network", "consumer", "setting")}
                rows = [old for old in rows if any(old[k] != v for k, v in key.items())] + [row]
                print(show(row), flush=True)
                if options.json:
                    options.json.write_text(json.dumps(rows, indent=1))
    if options.markdown:
        options.markdown.write_text(markdown(rows))
    sys.exit(1 if any(map(failed, rows)) else 0)


if __name__ == "__main__":
    main()
