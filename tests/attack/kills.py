"""Runs that are killed, terminated or interrupted anywhere go on to the same bits."""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from slicekit import files
from tests.attack.runner import Size, Tally, spent
from tests.training import killable
from tests.training.small import ROOT, assert_same_runs

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
HITS = 12
"""Most of them on one run, which is left in peace afterwards."""


def attack(tally: Tally, size: Size) -> None:
    """Each case is a run, hit again and again until it is over."""
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place) / "whole"
        with redirect_stdout(StringIO()):
            killable.run(str(whole))
        for number, source in size.cases(6):
            folder = Path(place) / "hit"
            tally.attempt(f"run {number}", lambda f=folder, s=source: _hit(f, s, whole, size.until))
            shutil.rmtree(folder, ignore_errors=True)


def _hit(folder: Path, source: random.Random, whole: Path, until: float) -> None:
    for hit in range(HITS + 1):
        process = start(folder)
        assert process.stdout is not None
        process.stdout.readline()  # the first step comes
        if hit < 2 or (hit < HITS and spent() < until):
            time.sleep(source.choice([0.0, 0.05, 0.2, 0.6]) * source.random())
            if process.poll() is None:
                os.kill(process.pid, source.choice(SIGNALS))
        _, told = process.communicate(timeout=900)
        if process.returncode == 0:
            assert_same_runs(folder, whole)
            left = [x.name for x in folder.rglob(".*") if files.LEFTOVER.fullmatch(x.name)]
            assert not left, left
            return
        interrupted = process.returncode < 0 or "KeyboardInterrupt" in told
        assert interrupted, f"exit code {process.returncode}: {told[-500:]}"
    raise AssertionError(f"not over after {HITS} hits")


def start(folder: Path) -> subprocess.Popen[str]:
    """A process that trains there, or resumes."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.training.killable", str(folder)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
