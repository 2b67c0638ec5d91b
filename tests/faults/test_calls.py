# SPDX-License-Identifier: Apache-2.0
"""System calls that fail and signals that come, one at a time: at each call of each command that writes files, with each error.

usage: test_calls.py PROGRAM SOURCE_ROOT FEATURES FAIL_CALLS.so [--all] [--seconds N] [--only TEXT] [--markdown FILE]

Every run ends within WATCHDOG seconds and leaves each file as it was before or whole and new, and nothing else. Without --all a
sample is run, the same each time; with --seconds, what there is time for. --markdown writes the table of docs/faults.md.
"""
import argparse
import collections
import itertools
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cli"))
import commands  # noqa: E402
from cli import BAD_INPUT, DONE, MACHINE, PROGRAM  # noqa: E402

WATCHDOG = 10
SAMPLED_STATES, SAMPLED_ERRORS, SAMPLED_SIGNALS = 40, 4, 1
BY_SIGNAL = 128
TEMPORARY = ".tidemark-"

# In the order of CALLS in fail_calls.c.
CALLS = ["any", "open", "write", "fsync", "fchmod", "linkat", "renameat2", "unlinkat", "unlink", "remove", "close", "read", "pread", "mmap",
         "fstat", "stat", "dlopen"]
WRITING = {
    "open": ["ENOSPC", "EDQUOT", "EROFS", "EIO", "EACCES", "EMFILE", "EINTR", "EOPNOTSUPP"],
    "write": ["ENOSPC", "EDQUOT", "EIO", "EINTR", "short", "zero"],
    "fsync": ["EIO", "ENOSPC", "EDQUOT", "EINTR", "EINVAL"],
    "fchmod": ["EIO", "EPERM", "EINTR"],
    "linkat": ["EIO", "ENOSPC", "EDQUOT", "EROFS", "EINTR"],
    "renameat2": ["EIO", "ENOSPC", "EDQUOT", "EROFS", "EINTR", "EINVAL"],
    "unlinkat": ["EIO", "EROFS", "EINTR"],
    "unlink": ["EIO", "EROFS", "EINTR"],
    "remove": ["EIO", "EROFS", "EINTR"],
    "close": ["EIO", "ENOSPC", "EDQUOT", "EINTR"],
    "stat": ["EIO", "EACCES", "EINTR"],
}
READING = {
    "open": ["EIO", "EACCES", "EMFILE", "ENOMEM", "EINTR"],
    "read": ["EIO", "EINTR", "short"],
    "pread": ["EIO", "EINTR", "short", "zero"],
    "mmap": ["EIO", "ENOMEM", "ENODEV", "EACCES"],
    "fstat": ["EIO"],
    "stat": ["EIO", "EACCES"],
}
SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGXCPU", "SIGPIPE", "SIGXFSZ", "SIGKILL"]
IGNORED = ("SIGPIPE", "SIGXFSZ")
TEMPORARY_MAY_STAY = ("unlinkat", "SIGKILL")  # what removes it fails; no process can remove it
OLD = b"what was there before\n"

NOTHING, FILES, NAMED = "nothing is there", "files are there", "files are there, and none without a name"
Fault = collections.namedtuple("Fault", "table command there call at later how")
SURVIVED, TOLD, DIED, WRONG = "survived", "told", "died", "wrong"


class Bench:
    """Runs commands with faults, and checks what they leave behind."""

    def __init__(self, inputs, library):
        self.inputs, self.library = inputs, library
        self.out = Path(tempfile.mkdtemp(prefix="tidemark-faults-out-"))
        self.counts = tempfile.NamedTemporaryFile(prefix="tidemark-faults-counts-")
        self.whole, self.made = {}, {}
        self.before_main = self.run(commands.Command("--version", ["--version"], []), NOTHING)[2]["any"]

    def run(self, command, there, under=None, call=None):
        """(status, stderr, counts); None: it hung."""
        commands.clear(self.out)
        for name in command.outputs if there != NOTHING else ():
            (self.out / name).write_bytes(OLD)
        self.counts.truncate(0)
        self.counts.truncate(256)
        environment = {**os.environ, "LD_PRELOAD": self.library, "FAIL_COUNTS": self.counts.name}
        if there == NAMED:
            environment["FAIL_UNNAMED"] = "1"
        if under:
            environment["FAIL_UNDER"] = str(under)
        if call:
            environment["FAIL_CALL"] = call
        stdin = open(self.inputs / command.stdin, "rb") if command.stdin else subprocess.DEVNULL
        process = subprocess.Popen([PROGRAM, *command.call(self.inputs, self.out)], stdin=stdin, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, env=environment)
        if command.stdin:
            stdin.close()
        try:
            said = process.communicate(timeout=WATCHDOG)[1].decode(errors="replace")
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return None
        numbers = struct.unpack("64I", Path(self.counts.name).read_bytes())
        return process.returncode, said, dict(zip(CALLS, numbers))

    def prepare(self, command, there):
        """A run without faults, once: what it makes, and how often it calls what."""
        key = command.name, there
        if key not in self.made:
            counts = {}
            for table, under in (("write", self.out), ("read", self.inputs), ("signal", None)):
                status, said, counts[table] = self.run(command, there, under)
                assert status == DONE, f"{command.name}: {status}: {said}"
            self.whole[command.name] = {name: (self.out / name).read_bytes() for name in command.outputs}
            left = sorted(str(path.relative_to(self.out)) for path in self.out.rglob("*"))
            assert left == sorted(command.outputs), f"{command.name} leaves {left}"
            self.made[key] = counts
        return self.made[key]

    def faults(self, command, there):
        counts = self.prepare(command, there)
        for table, errors in (("write", WRITING), ("read", READING)):
            for call, hows in errors.items():
                for at, how in itertools.product(range(1, counts[table][call] + 1), hows):
                    yield Fault(table, command, there, call, at, False, how)
                    if how not in ("EINTR", "EOPNOTSUPP", "zero"):
                        yield Fault(table, command, there, call, at, True, how)
        for name in SIGNALS:
            for at in range(1, counts["signal"]["any"] + 1):
                yield Fault("signal", command, there, "any", at, False, name)

    def inject(self, fault):
        """(outcome, remark)"""
        how = f"signal={getattr(signal, fault.how).value}" if fault.table == "signal" else fault.how
        under = {"write": self.out, "read": self.inputs, "signal": None}[fault.table]
        done = self.run(fault.command, fault.there, under, f"{fault.call}:{fault.at}{'+' if fault.later else ''}:{how}")
        if done is None:
            return WRONG, f"hung for {WATCHDOG} s"
        status, said, _ = done
        problem = self.look(fault, status, said)
        if problem:
            return WRONG, f"{problem}; status {status}, {said!r}"
        if status == DONE:
            return SURVIVED, ""
        if fault.table == "signal":
            return self.judge_signal(fault, status, said)
        return self.judge_error(fault, status, said)

    def judge_signal(self, fault, status, said):
        number = getattr(signal, fault.how).value
        if (fault.how in IGNORED and fault.at > self.before_main) or status not in (-number, BY_SIGNAL + number):
            return WRONG, f"status {status}, {said!r}"
        return DIED, ""

    def judge_error(self, fault, status, said):
        may_be = (MACHINE,) if fault.table == "write" else (BAD_INPUT, MACHINE)
        lines = [line for line in said.splitlines() if '"level": "info"' not in line]
        if status not in may_be or len(lines) != 1 or not lines[0].startswith(("tidemark: ", '{"event": "error"')):
            return WRONG, f"status {status}, {said!r}"
        if self.out.name not in said and self.inputs.name not in said and fault.command.stdin is None:
            return WRONG, f"no file is named: {said!r}"
        return TOLD, ""

    def look(self, fault, status, said):
        """What is wrong with the files; None: nothing."""
        command = fault.command
        new, old = self.whole[command.name], OLD if fault.there != NOTHING else None
        is_new = []
        for name in command.outputs:
            path = self.out / name
            content = path.read_bytes() if path.exists() else None
            if content == new[name]:
                is_new.append(True)
            elif content == old:
                is_new.append(False)
            else:
                return f"{name} is neither as it was nor as it should be"
        if status == DONE and not all(is_new):
            return "all is said to be well, but files are missing"
        if command.together and len(set(is_new)) > 1 and fault.how != "SIGKILL" and not says_which(said, command.outputs, is_new):
            return f"some of the files are there, some not: {is_new}"
        allowed = {*command.outputs, *(command.passing if status != DONE or fault.call in ("remove", "unlink") else ())}
        left = {str(path.relative_to(self.out)) for path in self.out.rglob("*")} - allowed
        if fault.how in TEMPORARY_MAY_STAY or fault.call in TEMPORARY_MAY_STAY or (fault.later and fault.call == "renameat2"):
            left = {name for name in left if not name.startswith(TEMPORARY)}
        return f"left behind: {sorted(left)}" if left else None


def says_which(said, outputs, is_new):
    """The message lists exactly these, since they could not be taken back."""
    told = {word.strip().rsplit("/", 1)[-1] for word in said.partition("already written: ")[2].split(",")}
    return told == set(itertools.compress(outputs, is_new))


def choose(bench, only, sample):
    """All faults, or (`sample`) some of some, in an order that is random and always the same."""
    chance = random.Random(1)
    states = [(command, there) for command in commands.commands() if only in command.name for there in (NOTHING, FILES, NAMED)]
    chosen = []
    for command, there in chance.sample(states, min(SAMPLED_STATES, len(states)) if sample else len(states)):
        faults = list(bench.faults(command, there))
        signals = [fault for fault in faults if fault.table == "signal"]
        errors = [fault for fault in faults if fault.table != "signal"]
        chosen += chance.sample(errors, min(SAMPLED_ERRORS, len(errors))) if sample else errors
        chosen += chance.sample(signals, min(SAMPLED_SIGNALS if sample else len(errors) // 4, len(signals)))
    chance.shuffle(chosen)
    return chosen


# ---- the table ----

def rows(results, table, key):
    by = collections.defaultdict(collections.Counter)
    for fault, outcome, _ in results:
        if fault.table == table:
            by[key(fault)][outcome] += 1
    return by


def put_table(lines, first, by, third):
    lines += [f"| {first} | injected | survived | {third[0]} | wrong |", "| --- | --: | --: | --: | --: |"]
    for key, counts in sorted(by.items()):
        lines.append(f"| {key} | {sum(counts.values())} | {counts[SURVIVED]} | {counts[third[1]]} | {counts[WRONG]} |")
    total = sum(by.values(), collections.Counter())
    lines += [f"| all | {sum(total.values())} | {total[SURVIVED]} | {total[third[1]]} | {total[WRONG]} |", ""]


def report(results):
    lines = []
    for table, title in (("write", "Calls that write"), ("read", "Calls that read")):
        lines += [f"### {title}", ""]
        put_table(lines, "call and how it fails", rows(results, table, lambda fault: f"`{fault.call}` {fault.how}"), ("reported", TOLD))
    lines += ["### Signals", ""]
    put_table(lines, "signal", rows(results, "signal", lambda fault: fault.how), ("ended by it", DIED))
    lines += ["### By command", ""]
    by = collections.defaultdict(collections.Counter)
    for fault, outcome, _ in results:
        by[f"`{fault.command.name}`"][TOLD if outcome == DIED else outcome] += 1
    put_table(lines, "command", by, ("reported, or ended by a signal", TOLD))
    return lines


def check_missing_library(bench):
    """An HDF5 library that is gone is told before the run, in one line."""
    for command in (one for one in commands.commands() if one.name == "profile to HDF5"):
        for at in range(1, bench.run(command, NOTHING)[2]["dlopen"] + 1):
            status, said, _ = bench.run(command, FILES, None, f"dlopen:{at}:EIO")
            assert status == BAD_INPUT and said.count("\n") == 1 and "HDF5 library cannot be loaded" in said, (status, said)
            assert (bench.out / "p.h5").read_bytes() == OLD


def put_into(page, lines):
    begin, end = "<!-- table: begin (made by tests/faults/test_calls.py) -->", "<!-- table: end -->"
    text = page.read_text()
    before, rest = text.split(begin)
    page.write_text("\n".join([before + begin, "", *lines, end]) + rest.split(end)[1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library", type=os.path.abspath)
    parser.add_argument("--all", action="store_true", help="every error, and a quarter as many signals; not a sample")
    parser.add_argument("--seconds", type=float, default=float("inf"), metavar="N", help="stop after so long")
    parser.add_argument("--only", default="", metavar="TEXT", help="commands with this in their name")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="put the table between this page's markers")
    options = parser.parse_args(sys.argv[4:])
    with commands.inputs() as inputs:
        bench = Bench(inputs, options.library)
        results = []
        until = time.monotonic() + options.seconds
        for fault in itertools.takewhile(lambda _: time.monotonic() < until, choose(bench, options.only, not options.all)):
            outcome, remark = bench.inject(fault)
            results.append((fault, outcome, remark))
            if outcome == WRONG:
                print(f"WRONG: {fault.command.name}, {fault.there}: {fault.table} {fault.call}:{fault.at}"
                      f"{'+' if fault.later else ''}:{fault.how}: {remark}", flush=True)
        check_missing_library(bench)
        commands.clear(bench.out)
        bench.out.rmdir()
    wrong = sum(outcome == WRONG for _, outcome, _ in results)
    if options.markdown:
        put_into(options.markdown, report(results))
    print(f"{len(results)} faults, {wrong} with the wrong outcome")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
