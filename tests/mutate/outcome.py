# SPDX-License-Identifier: Apache-2.0
"""A run of the program on damaged input, and whether it ended as specified.

Specified: no signal, no sanitizer's report, no more than so many seconds of the processor and bytes of memory; status 0 and
silence, or status 3 and one line that names the file and a place in it. Status 1 is for verbs that answer a question,
status 4 for what is larger than the memory.
"""
import os
import re
import resource
import signal
import subprocess
import threading
import time

DONE, ANSWER_NO, WRONG_CALL, BAD_INPUT, MACHINE = range(5)
SANITIZER = 99
ANSWERS = {"diff", "check", "verify", "export"}
MOST_CPU = 10
MOST_WALL = 240
MEGABYTE = 1 << 20
# What models and data may use, plus the program itself, its libraries, and AddressSanitizer's overhead.
LIMIT = 256 * MEGABYTE
MOST_RSS = LIMIT + 256 * MEGABYTE
MOST_FILE = 1024 * MEGABYTE
# A place: a quoted name, or a word for a part of a file with its number or name.
PLACE = re.compile(r"'[^']*'|`[^`]*`|\"[^\"]*\"|\b(bytes?|line|offset|column|nodes?|values?|tensor|initializer|inputs?|outputs?|attribute|entry|field|"
                   r"member|dataset|samples?|graph|opset|function|histogram|header|key|row|bin|checksum|metadata|array|version|operators?)\b|/\w+|@?\bp\d+|"
                   r"\b\d+ of \d+|:\d+:|\[\d+\]|--\w+|\beof\b")
# What can be said of the whole file only.
WHOLE = re.compile(r"is no readable zip archive|names no images|the HDF5 file is damaged|neither a JSON object nor HDF5|not a JSON object|\bempty\b|the checkpoint is damaged: its checksum|not a checkpoint|holds no ranges in a form|holds no arrays")

# An export that leaves encodings out prints their count, even under --quiet.
LEFT_OUT = re.compile(r"(tidemark: )?(warning: )?\d+ of \d+ encodings were left out; --json lists them\n")
WANTS_DATA = re.compile(r"say INPUT=|add --data")


def environment(megabytes=4096):
    sanitizer = f"exitcode={SANITIZER}:detect_leaks=1:allocator_may_return_null=1:quarantine_size_mb=64:" \
                f"max_allocation_size_mb={megabytes}:hard_rss_limit_mb={2 * megabytes}"
    return {**os.environ, "ASAN_OPTIONS": sanitizer, "LSAN_OPTIONS": f"exitcode={SANITIZER}",
            "UBSAN_OPTIONS": f"halt_on_error=1:print_stacktrace=1:exitcode={SANITIZER}"}


def _limit():
    resource.setrlimit(resource.RLIMIT_CPU, (6 * MOST_CPU, 6 * MOST_CPU))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_FILE, MOST_FILE))  # SIGXFSZ beyond
    os.setpgid(0, 0)


class Outcome:
    def __init__(self, words, status, out, err, cpu, rss):
        self.words, self.status, self.out, self.err, self.cpu, self.rss = words, status, out, err, cpu, rss

    @property
    def verb(self):
        return self.words[0]

    def faults(self, subject):
        """What is not as specified. `subject`: the damaged file."""
        found = []
        if self.status < 0:
            found.append(f"signal {signal.Signals(-self.status).name}")
        elif self.status == SANITIZER or "Sanitizer" in self.err or "runtime error:" in self.err:
            found.append("sanitizer")
        elif self.status == BAD_INPUT:
            found += self._message(subject)
        elif self.status == MACHINE:
            found += ["status 4 and not memory"] if "memory" not in self.err else self._message(None)
        elif self.status == ANSWER_NO:
            found += [] if self.verb in ANSWERS or "guard" in self.words else ["status 1"]  # a guard answers, too: there is a NaN
        elif self.status == WRONG_CALL and WANTS_DATA.search(self.err):
            pass  # the damaged model has an input for which this call brings nothing
        elif self.status != DONE:
            found.append(f"status {self.status}")
        elif self.err and not (self.verb == "export" and LEFT_OUT.fullmatch(self.err)):
            found.append("status 0 and words on stderr")
        if self.cpu > MOST_CPU:
            found.append("too slow")
        if self.rss > MOST_RSS:
            found.append("too much memory")
        return found

    def _message(self, subject):
        line = self.err
        if not line.startswith("tidemark") or line.count("\n") != 1 or not line.endswith("\n"):
            return ["not one line"]
        if any(c < " " for c in line[:-1]):
            return ["control characters"]
        if subject is None:
            return []
        name = os.path.basename(subject)
        if name not in line:
            return ["file not named"]
        rest = re.sub(r"\S*" + re.escape(name), "", line)
        rest = re.sub(r"^tidemark[ \w]*:", "", rest)
        return [] if PLACE.search(rest) or WHOLE.search(rest) else ["no place"]


def run(program, words, cwd):
    """Outcome of one run; nothing of it outlives this call."""
    out, err = os.path.join(cwd, "stdout"), os.path.join(cwd, "stderr")
    words = [str(word) for word in words]
    words[1:1] = ["--memory-limit", f"{LIMIT // MEGABYTE}M"]
    with open(out, "wb") as to_out, open(err, "wb") as to_err:
        process = subprocess.Popen([program, *words], stdin=subprocess.DEVNULL, stdout=to_out, stderr=to_err, cwd=cwd,
                                   env=environment(), preexec_fn=_limit)
        timer = threading.Timer(MOST_WALL, lambda: os.killpg(process.pid, signal.SIGKILL))
        timer.start()
        begin = time.monotonic()
        _, status, used = os.wait4(process.pid, 0)
        timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = used.ru_utime + used.ru_stime
    if time.monotonic() - begin >= MOST_WALL:
        seconds = max(seconds, MOST_WALL)
    with open(out, errors="replace") as f:
        said = f.read(100_000)
    with open(err, errors="replace") as f:
        complained = f.read(100_000)
    return Outcome(words, process.returncode, said, complained, seconds, used.ru_maxrss * 1024)


def pattern(line):
    """A message without what is particular to this run, to count messages by."""
    line = re.sub(r"/\S*/", "", line.strip())
    line = re.sub(r"'[^']*'", "'…'", line)
    return re.sub(r"-?\d+(\.\d+)?(e[-+]?\d+)?", "N", line)[:160]
