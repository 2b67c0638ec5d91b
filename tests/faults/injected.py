# SPDX-License-Identifier: Apache-2.0
"""A command whose n-th allocation, or n-th start of a thread, fails: what comes of it."""
import os
import re
import signal
import subprocess
from pathlib import Path

from cli import DONE, MACHINE, PROGRAM, Done

OLD = b"what was there before\n"
FAILED, OPTIONAL = "failed", "no matter"


class Job:
    """`words` are for tidemark; `outputs` are the files that it makes, `kept` those that it may also take away or leave.
    `figures`: its standard output is other numbers every time, and lines in their order."""

    def __init__(self, name, words, outputs=(), kept=None, stdin=None, status=DONE, figures=False):
        self.name, self.words, self.stdin, self.status = name, [str(word) for word in words], stdin, status
        self.figures = figures
        self.outputs = [Path(path) for path in outputs]
        self.kept = {Path(path): content for path, content in (kept or {}).items()}

    def prepare(self):
        for path in self.outputs:
            path.write_bytes(OLD)
        for path, content in self.kept.items():
            if content is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(content)

    def contents(self):
        return {path: path.read_bytes() if path.exists() else None for path in self.outputs}


class Sweep:
    """A program under `preload` that is loaded once and goes through `job` again and again; `path` is a folder for its own files."""

    def __init__(self, preload, path, job):
        self.job, self.path = job, path
        self.out, self.err, self.report, self.trace = (path / name for name in ("stdout", "stderr", "report", "trace"))
        requests, self.requests = os.pipe()
        replies, answers = os.pipe()
        before = os.environ.get("ASAN_OPTIONS", "")
        with open(self.out, "ab") as out, open(self.err, "ab") as err, open(job.stdin or os.devnull, "rb") as stdin:
            self.process = subprocess.Popen(
                [PROGRAM, *job.words], stdin=stdin, stdout=out, stderr=err, pass_fds=(requests, answers), cwd=path,
                env={**os.environ, "LD_PRELOAD": str(preload), "TIDEMARK_FAIL_PIPES": f"{requests},{answers}",
                     "TIDEMARK_FAIL_REPORT": str(self.report), "TIDEMARK_FAIL_TRACE": str(self.trace),
                     "ASAN_OPTIONS": f"{before}:verify_asan_link_order=0:allocator_may_return_null=1"})
        os.close(requests)
        os.close(answers)
        self.replies = os.fdopen(replies, "rb")
        self.whole = self.once("alloc:0")
        self.calls = {kind: counts[0] for kind, counts in self.counts().items()}
        assert self.whole.status == job.status, f"{job.name}: {self.whole}"
        self.right, self.around = job.contents(), self.files()

    def close(self):
        os.close(self.requests)
        self.replies.close()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def files(self):
        """In the folders of its outputs, other than those that may come and go."""
        folders = {path.parent for path in (*self.job.outputs, *self.job.kept)}
        return {path for folder in folders for path in folder.iterdir()} - set(self.job.kept)

    def counts(self):
        """Of each kind: calls, and how many failed."""
        lines = (line.split() for line in self.report.read_text().splitlines())
        return {kind: (int(calls), int(failed)) for kind, calls, failed in lines}

    def once(self, fault):
        for path in (self.out, self.err, self.trace, self.report):
            path.write_bytes(b"")
        self.job.prepare()
        os.write(self.requests, f"{fault}\n".encode())
        reply = self.replies.readline()
        assert reply, f"{self.job.name}: it did not start: {self.err.read_text()}"
        status = os.waitstatus_to_exitcode(int(reply))
        out, err = (path.read_bytes().decode("utf-8", "surrogateescape") for path in (self.out, self.err))
        out = re.sub(r" in [0-9.]+ s\b|\"seconds\":[0-9.e-]+", "#", out)
        if self.job.figures:
            out = "\n".join(sorted(re.sub(r"[0-9.e+-]+", "#", re.sub(" +", " ", out)).splitlines()))
        return Done(self.job.words, subprocess.CompletedProcess([], status, out, err))

    def judge(self, fault):
        """FAILED or OPTIONAL, and that everything was as it should be; otherwise an AssertionError with the difference."""
        done, contents = self.once(fault), self.job.contents()
        left = self.files() - self.around
        for path in left:
            path.unlink()
        if done.status < 0:
            raise AssertionError(f"ended by {signal.Signals(-done.status).name}: {done.err[-300:]}")
        assert not left, f"left behind: {sorted(path.name for path in left)}"
        if done.status == self.job.status:
            for path in self.right:
                assert contents[path] == self.right[path], f"status {done.status}, but {path.name} is not right"
            assert done.out == self.whole.out, f"status {done.status}, but standard output is not right"
            assert done.err == self.whole.err, f"status {done.status}, but said {done.err[-300:]!r}"
            return OPTIONAL
        assert done.status == MACHINE, f"status {done.status}: {done.err[-300:]!r}"
        done.says_one_line()
        for path in self.right:
            assert contents[path] in (OLD, self.right[path]), f"{path.name} is neither the old one nor the new one"
        assert self.job.figures or self.whole.out.startswith(done.out), "standard output is not right as far as it goes"
        return FAILED
