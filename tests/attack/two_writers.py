"""Several processes want one run folder, or one file: one of them has it, and nothing is mixed."""

import os
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import torch

import slicekit as sk
from tests.attack.kills import start
from tests.attack.runner import Size, Tally
from tests.training import killable
from tests.training.small import assert_same_runs

WRITERS = 3


def attack(tally: Tally, size: Size) -> None:
    """Runs in processes, and models saved over each other."""
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place) / "whole"
        with redirect_stdout(StringIO()):
            killable.run(str(whole))
        for number, _ in size.cases(2):
            folder = Path(place) / f"run-{number}"
            tally.attempt(f"run {number}", lambda f=folder: _train(f, whole))
        for number, _ in size.cases(10):
            path = Path(place) / f"model-{number}.safetensors"
            tally.attempt(f"model {number}", lambda p=path: _save(p))


def _train(folder: Path, whole: Path) -> None:
    processes = [start(folder) for _ in range(WRITERS)]
    told = [process.communicate(timeout=900)[1] for process in processes]
    codes = [process.returncode for process in processes]
    assert 0 in codes, told
    for code, text in zip(codes, told, strict=True):
        assert code == 0 or f"InUse: {folder}" in text, text[-500:]
    assert_same_runs(folder, whole)


def _save(path: Path) -> None:
    """What is there at the end is one of the models, whole."""
    children = []
    for writer in range(WRITERS):
        child = os.fork()
        if child == 0:
            try:
                for _ in range(20):
                    sk.save(_model(writer), path)
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert codes == [0] * WRITERS, codes
    found = sk.load(path).state_dict()["A.blocks"]
    written = [_model(writer).state_dict()["A.blocks"] for writer in range(WRITERS)]
    assert any(torch.equal(found, blocks) for blocks in written)
    assert [x.name for x in path.parent.glob(f".{path.name}*")] == []


def _model(writer: int) -> sk.SLiCE:
    return sk.SLiCE(3, sk.Dense(4), generator=torch.Generator().manual_seed(writer))
