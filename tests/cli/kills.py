# SPDX-License-Identifier: Apache-2.0
"""A run with a checkpoint that is killed again and again, and must end with the bytes of one that was left alone."""
import os
import random
import signal
import time

from cli import DONE, SECONDS, files
from runs import assert_equal, outputs, profile, start, strata_of

class Kills:
    """Of one run, again and again, at random moments; and whether the profile is always the same in the end."""

    def __init__(self, path, words, seed, signals=(signal.SIGKILL,)):
        self.path, self.random, self.signals = path, random.Random(seed), signals
        self.command = ["profile", *words, *outputs(path / "p"), "--checkpoint", path / "c", "--every", "0.02s"]
        begin = time.monotonic()
        profile(path / "whole", *words)
        self.seconds = time.monotonic() - begin
        self.killed = self.resumed = self.profiles = 0

    def is_writing(self, process):
        """Files that are being written have no name, and are seen among the process's own."""
        descriptors = f"/proc/{process.pid}/fd"
        try:
            shown = [os.readlink(f"{descriptors}/{number}") for number in os.listdir(descriptors)]
        except OSError:  # it ended, or closed one meanwhile
            return False
        return any(name.startswith(f"{self.path}/") and (name.endswith(" (deleted)") or "/.tidemark-" in name) for name in shown)

    def wait_for_a_moment(self, process):
        """Any, or while a checkpoint or a profile is being written."""
        moment = self.random.choice(("any", "writing"))
        until = time.monotonic() + self.random.uniform(0, 0.7 * self.seconds)
        while process.poll() is None and time.monotonic() < until:
            time.sleep(0.0005)
        while process.poll() is None and moment == "writing" and not self.is_writing(process):
            time.sleep(0.0005)

    def one_run(self, kill):
        """Was it ended before its end?"""
        process = start(*self.command, "--threads", self.random.randint(1, 3))
        number, before = self.random.choice(self.signals), files(self.path)
        if kill:
            self.wait_for_a_moment(process)
            process.send_signal(number)
        said = process.communicate(timeout=SECONDS)[1]
        self.resumed += b"resuming from a checkpoint" in said
        if process.returncode == DONE:
            return False
        assert process.returncode in (-number, 128 + number), (process.returncode, said)
        left = set(files(self.path)) - {*before, "c"}
        assert not left or number == signal.SIGKILL and all(name.startswith(("p.", ".tidemark-")) for name in left), left
        return True

    def until_its_end(self, most):
        """A run that is killed up to so many times, and is resumed each time."""
        for left in self.path.glob("p.*"):
            left.unlink()
        killed = 0
        while self.one_run(kill=killed < most):
            killed += 1
            for left in self.path.glob(".tidemark-*"):  # it was killed in the instant between two names
                left.unlink()
        for label in ("", *(f".{name}" for name in strata_of(self.path / "whole"))):
            assert_equal(self.path / f"p{label}", self.path / f"whole{label}")
        assert not (self.path / "c").exists(), "the checkpoint is still there"
        self.killed += killed
        self.profiles += 1

    def go(self, kills):
        """Until there were so many; a machine on which runs end before they can be killed gets some more tries."""
        while self.killed < kills and self.profiles < 3 * kills + 5:
            self.until_its_end(min(self.random.randint(1, 3), kills - self.killed))
        return self
