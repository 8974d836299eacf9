"""A disk that is full at any byte: what was there stays, the error names the file, and it goes on.

The limit is that of the system on the size of a file, in a child, at a size drawn at random.
"""

import resource
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import slicekit as sk
from slicekit.estimators import Ridge, SliceClassifier
from slicekit.training import train
from tests.attack.guard import Guard
from tests.attack.mutated_files import SERIES
from tests.attack.runner import Size, Tally
from tests.training.limited import Limiting
from tests.training.small import EVERYTHING, Parity, assert_same_runs, small_model


def attack(tally: Tally, size: Size) -> None:
    """Models, estimators and runs."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        train(small_model(), Parity(), EVERYTHING, folder=folder / "whole")
        with Guard(lambda case: _work(folder, *case), seconds=60) as guard:
            for number, source in size.cases(60, least=6):
                kind = ("model", "estimator", "run")[number % 3]
                most = {"model": 2500, "estimator": 30_000, "run": 14_000}[kind]
                case = (kind, source.randrange(1, most), source.randrange(1, EVERYTHING.steps))
                tally.note(f"{case}", guard(case).wrong)


def _work(folder: Path, kind: str, limit: int, step: int) -> str | None:
    if kind == "run":
        return _run(folder / "run", folder / "whole", limit, step)
    path = folder / kind
    torch.manual_seed(0)
    thing: Any = sk.SLiCE(3, sk.Dense(5))
    write: Callable[[], None] = lambda: sk.save(thing, path)  # noqa: E731
    read: Callable[[], Any] = lambda: sk.load(path)  # noqa: E731
    if kind == "estimator":
        thing = SliceClassifier(solver=Ridge(groups=1), random_state=0).fit(
            SERIES, ["a", "b", "c"] * 4
        )
        write, read = lambda: thing.save(path), lambda: SliceClassifier.load(path)
    write()
    before = path.read_bytes()
    told = _limited(limit, write)
    if path.read_bytes() != before or read() is None:
        return "the old file is gone"
    if [x for x in folder.iterdir() if x.name.startswith(".")]:
        return "leftovers"
    return None if limit >= len(before) or str(path) in told else f"the error says {told!r}"


def _run(folder: Path, whole: Path, limit: int, step: int) -> str | None:
    shutil.rmtree(folder, ignore_errors=True)

    def begin() -> None:
        train(small_model(), Parity(), EVERYTHING, folder=folder, watch=Limiting(limit, step))

    told = _limited(None, begin)
    if told and str(folder) not in told:
        return f"the error says {told!r}"
    train(small_model(), Parity(), EVERYTHING, folder=folder, resume=True)
    assert_same_runs(folder, whole)
    return None


def _limited(limit: int | None, work: Callable[[], None]) -> str:
    """What the error says if no file may grow beyond a limit; "" without an error."""
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        work()
    except OSError as error:
        return str(error)
    finally:
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    return ""
