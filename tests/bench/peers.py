#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures Tidemark and ONNX Runtime: in turns, each figure in a fresh process, the best of several rounds.

    peers.py --tidemark BUILD/tools/tidemark --work DIR --markdown docs/performance.md [--json FILE]

docs/performance.md lists what is compared. DIR keeps the made models and inputs (up to 1.2 GB). The interpreter
that runs this needs numpy, onnx and onnxruntime, though this process imports none of them: Linux counts the memory that
a process had before it became another program as that program's peak.
"""
import argparse
import datetime
import json
import math
import os
import platform
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import table

HERE = Path(__file__).resolve().parent
THREADS = 2
FEW, SOME, MANY = 16, 64, 1024
MEMORY_LIMIT = 8 << 30  # for ONNX Runtime's calibraters that keep every activation
SLOW_ROUNDS = 2
QUIET_MOMENT, QUIET_SHARE = 0.5, 0.1
GROUPS = ("rates", "slow", "threads", "start", "memory")
KINDS = {"resnet50": "images", "densenet121": "images", "mobilenetv2": "images", "squeezenet": "images",
         "bert6": "sequences", "mlp": "vectors"}
BATCHED = 32  # a second line for networks too small to be worth a call a sample
CASES = {**{name: (name, 1) for name in KINDS}, f"mlp-b{BATCHED}": ("mlp", BATCHED)}
MADE = {"images": 256, "sequences": 256, "vectors": 16384}
# What a calibrater of ONNX Runtime is shown, for each --samples: it takes its time, and keeps what it has seen.
MULTIPLE = {"images": 1, "sequences": 1, "vectors": 64}

# A profile is read by another process, too: it may be long.
SUMMARY = """
import json, sys
profile = json.load(open(sys.argv[1]))
producer, values = profile["producer"], [tensor["kind"] for tensor in profile["tensors"]]
print(json.dumps({"kernels": producer["kernels"], "isa": producer["isa"], "values": len(values) - values.count("weight")}))
"""

FIRST = """
import numpy, sys
numpy.save(sys.argv[3], numpy.load(sys.argv[1], mmap_mode="r")[:int(sys.argv[2])])
"""


def spawn(words, limit=None, patience=0):
    """Runs a program to its end: stdout, seconds, its peak memory, and the share of the machine that others had."""
    def narrow():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        wait_for_quiet(patience)
        busy, begin = busy_seconds(), time.perf_counter()
        process = subprocess.Popen([str(word) for word in words], stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                                   preexec_fn=narrow if limit else None)
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:  # an interrupt stops the other one, too
            process.kill()
            raise
        wall, busy = time.perf_counter() - begin, busy_seconds() - busy
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        said, complained = out.read(), err.read().strip().splitlines()
    found = {"wall_s": wall, "others": max(0.0, (busy - usage.ru_utime - usage.ru_stime) / (wall * os.cpu_count()))}
    if usage.ru_maxrss > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss:  # else it is this process's own
        found["peak_bytes"] = usage.ru_maxrss * 1024
    if process.returncode:
        found["error"] = f"status {process.returncode}: {complained[-1] if complained else 'said nothing'}"
    return said, found


def busy_seconds():
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, steal = (int(word) for word in file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def wait_for_quiet(patience):
    """Until others have left the processors alone for a moment, or patience ends."""
    begin = time.monotonic()
    while time.monotonic() - begin < patience:
        busy = busy_seconds()
        time.sleep(QUIET_MOMENT)
        if busy_seconds() - busy < QUIET_SHARE * QUIET_MOMENT * os.cpu_count():
            break


def batch_words(batch):
    """Of Tidemark: as it comes, it chooses how many samples make a call."""
    return ["--batch", batch] if batch > 1 else []


class Bench:
    def __init__(self, args):
        self.args = args
        self.records, self.versions, self.commands = [], {}, []
        if args.add and args.json.exists():
            old = json.loads(args.json.read_text())
            self.records, self.versions, self.commands = old["records"], old["about"]["versions"], old["about"]["commands"]
        self.commands.append(shlex.join(["tests/bench/peers.py", *args.said]))
        self.passes = {}
        self.figures = []
        args.work.mkdir(parents=True, exist_ok=True)
        self.cuts = tempfile.TemporaryDirectory(dir=args.work)

    # ---- one figure ----

    def keep(self, case, what, found):
        self.records.append({"case": case, "what": what, **found})
        shown = {key: round(value, 3) for key, value in found.items() if isinstance(value, float)}
        print(f"{case}: {what}: {found.get('error') or shown}", file=sys.stderr, flush=True)
        if self.args.json:
            unfinished = self.args.json.with_name(self.args.json.name + ".unfinished")
            unfinished.write_text(json.dumps(self.results(), indent=1) + "\n")
            os.replace(unfinished, self.args.json)

    def files(self, case):
        network, batch = CASES[case]
        return self.args.work / f"{network}.onnx", self.args.work / f"{KINDS[network]}.npy", batch

    def calibration_samples(self, case, share=1):
        kind = KINDS[CASES[case][0]]
        return min(MADE[kind], max(1, self.args.samples // share) * MULTIPLE[kind])

    def first(self, inputs, samples):
        """So many samples in a file of their own: a profile has the hash of the whole file, read or not."""
        path = Path(self.cuts.name) / f"{inputs.stem}-{samples}.npy"
        if not path.exists():
            subprocess.run([sys.executable, "-c", FIRST, inputs, str(samples), path], check=True)
        return path

    def ort(self, case, name, what, samples, seconds=0, limit=None):
        model, inputs, batch = self.files(case)
        said, found = spawn([sys.executable, HERE / "ort_once.py", what, model, inputs, "--samples", samples, "--batch", batch,
                             "--threads", THREADS, "--seconds", seconds], limit, self.args.patience)
        if "error" not in found:
            answer = json.loads(said.splitlines()[-1])
            self.versions["onnxruntime"] = answer.pop("version")
            found.update(answer)
        self.keep(case, name, found)

    def ours(self, case, name, figure, threads=THREADS):
        model, inputs, batch = self.files(case)
        samples = self.one_pass(case)
        again = samples == MADE[KINDS[CASES[case][0]]]  # there is not enough data for --seconds
        said, found = spawn([self.args.tidemark, "bench", model, "--data", self.first(inputs, samples), "--threads", threads,
                             *batch_words(batch), "--figure", figure, "--repeat", 1, "--seconds",
                             self.args.seconds if again else 0, "--json"], patience=self.args.patience)
        if "error" not in found:
            answer = json.loads(said)
            self.versions["tidemark"] = answer["tidemark"]
            measured = answer["figures"][0]
            found.update(rate=measured["samples_per_s"], batch=math.ceil(measured["samples"] / measured["batches"]))
        self.keep(case, name, found)

    def one_pass(self, case):
        """So many samples that a run takes --seconds: its plan is made anew each time, and should not count for much. On the
        way, which figures this program has."""
        if case not in self.passes:
            model, inputs, batch = self.files(case)
            said, found = spawn([self.args.tidemark, "bench", model, "--data", inputs, "--threads", THREADS, *batch_words(batch),
                                 "--limit", SOME * batch, "--repeat", 1, "--seconds", 0, "--json"])
            if "error" in found:
                sys.exit(f"{self.args.tidemark} bench {model}: {found['error']}")
            rates = {figure["what"]: figure["samples_per_s"] for figure in json.loads(said)["figures"]}
            most = MADE[KINDS[CASES[case][0]]]
            self.passes[case] = min(most, max(FEW * batch, round(rates["bare"] * self.args.seconds / batch) * batch))
            self.figures = list(rates)
        return self.passes[case]

    def start(self, case):
        """From the call of the program to its end, over one sample: what comes after the first batch is little."""
        model, inputs, _ = self.files(case)
        _, found = spawn([self.args.tidemark, "bench", model, "--data", inputs, "--threads", THREADS, "--limit", 1,
                          "--figure", "histograms", "--repeat", 1, "--seconds", 0, "--json"], patience=self.args.patience)
        self.keep(case, "start", found)

    def profile(self, case, name, samples):
        model, inputs, batch = self.files(case)
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "profile.json"
            _, found = spawn([self.args.tidemark, "profile", model, "--data", inputs, "--threads", THREADS, *batch_words(batch),
                              "--limit", samples, "--quiet", "-o", target])
            if "error" not in found:
                said, _ = spawn([sys.executable, "-c", SUMMARY, target])
                summary = json.loads(said)
                self.versions.update(kernels=summary["kernels"], isa=summary["isa"])
                found["values"] = summary["values"]
        self.keep(case, name, found)

    # ---- what belongs together ----

    def measure(self, case, group, round_number):
        args, network = self.args, CASES[case][0]
        alone = case == network  # memory and start of a network are measured once
        if group == "rates":
            self.ort(case, "ort-optimised", "optimised", FEW * CASES[case][1], args.seconds)
            self.one_pass(case)
            for figure in self.figures:
                self.ours(case, figure, figure)
            self.ort(case, "ort-plain", "plain", FEW * CASES[case][1], args.seconds)
            self.ort(case, "ort-minmax", "minmax", self.calibration_samples(case))
        elif group == "slow" and round_number < SLOW_ROUNDS:
            self.ort(case, "ort-entropy", "entropy", self.calibration_samples(case, share=4))
            self.ort(case, "ort-percentile", "percentile", self.calibration_samples(case, share=4))
        elif group == "threads" and alone:
            self.ours(case, "bare-1", "bare", threads=1)
            self.ours(case, "histograms-1", "histograms", threads=1)
        elif group == "start" and alone:
            self.start(case)
            self.ort(case, "ort-start", "minmax", 1)
        elif group == "memory" and alone and round_number == 0:
            self.profile(case, "memory-few", FEW)
            self.profile(case, "memory-many", args.many)
            self.ort(case, "ort-minmax-few", "minmax", FEW)
            self.ort(case, "ort-entropy-few", "entropy", FEW, limit=MEMORY_LIMIT)
            self.ort(case, "ort-entropy-some", "entropy", min(SOME, args.many), limit=MEMORY_LIMIT)

    # ---- the whole ----

    def make_inputs(self):
        """Models and inputs, by another process, which may be large."""
        networks = sorted({CASES[case][0] for case in self.args.models}, key=list(KINDS).index)
        for kind in MADE:
            if "memory" in self.args.only:
                MADE[kind] = max(MADE[kind], self.args.many)
        counts = [word for kind, count in MADE.items() for word in (f"--{kind}", count)]
        words = [sys.executable, HERE / "models.py", "--out", self.args.work, "--only", ",".join(networks), *counts]
        if subprocess.run([str(word) for word in words], stdout=sys.stderr).returncode:
            sys.exit("models.py could not make what is to be measured")

    def results(self):
        others = sorted(record["others"] for record in self.records)
        noise = (f"While a figure was taken, other programs used {100 * others[len(others) // 2]:.0f} % of the processors "
                 f"(median; {100 * others[-1]:.0f} % at most).") if others else ""
        about = {"machine": machine(), "date": datetime.date.today().isoformat(), "versions": self.versions, "noise": noise,
                 "commands": self.commands, "samples": {"few": FEW, "some": min(SOME, self.args.many), "many": f"{self.args.many:,}"}}
        return {"about": about, "records": self.records}

    def run(self):
        self.make_inputs()
        for round_number in range(self.args.rounds):
            for case in self.args.models:
                for group in self.args.only:
                    self.measure(case, group, round_number)
        return self.results()


def machine():
    with open("/proc/cpuinfo") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 30
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} processors, {memory} GiB"


def listed(known):
    def parse(text):
        words = [word for word in text.split(",") if word]
        if unknown := [word for word in words if word not in known]:
            raise argparse.ArgumentTypeError(f"no {', '.join(unknown)}; there are {', '.join(known)}")
        return words
    return parse


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidemark", type=Path, metavar="PATH", help="the program, built for release")
    parser.add_argument("--work", type=Path, metavar="DIR", help="for models and inputs; they are made where they are missing")
    parser.add_argument("--models", type=listed(CASES), default=list(CASES), metavar="A,B", help=f"of {', '.join(CASES)}")
    parser.add_argument("--only", type=listed(GROUPS), default=list(GROUPS), metavar="A,B", help=f"of {', '.join(GROUPS)}")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="the best counts (default: 5)")
    parser.add_argument("--seconds", type=float, default=4, metavar="S", help="for each figure of a round (default: 4)")
    parser.add_argument("--samples", type=int, default=32, metavar="N",
                        help="for MinMaxCalibrater; a quarter for the slow ones; 64 times as many vectors (default: 32)")
    parser.add_argument("--many", type=int, default=MANY, metavar="N", help=f"for peak memory (default: {MANY})")
    parser.add_argument("--patience", type=float, default=0, metavar="S",
                        help="before each figure, wait so long at most for other programs to leave the processors alone (default: 0)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every single measure")
    parser.add_argument("--add", action="store_true", help="to what the FILE of --json holds from another time")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="put the tables between this file's markers (default: stdout)")
    parser.add_argument("--render", type=Path, metavar="FILE", help="measure nothing, make the tables from what --json wrote")
    args = parser.parse_args()
    if not args.render and not (args.tidemark and args.work):
        parser.error("--tidemark and --work are needed")
    if args.add and not args.json:
        parser.error("--add: to which --json FILE?")
    args.said = [f"--rounds={args.rounds}", f"--seconds={args.seconds:g}", f"--samples={args.samples}"]
    args.said += [f"--many={args.many}"] if args.many != MANY else []
    for name, known in (("models", CASES), ("only", GROUPS)):
        chosen = getattr(args, name)
        args.said += [f"--{name}={','.join(chosen)}"] if len(chosen) < len(known) else []
    return args


def main():
    args = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    results = json.loads(args.render.read_text()) if args.render else Bench(args).run()
    lines = table.render(results)
    if args.markdown:
        old = args.markdown.read_text() if args.markdown.exists() else ""
        args.markdown.write_text(table.put_into(old, lines))
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
