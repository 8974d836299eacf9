"""Runs that meet a file size limit: python -m tests.training.limited FOLDER.

From some step on, no file may become larger than so many bytes. What the error says and which files
are there is printed; then the limit is lifted, and the run resumed.
"""

import json
import resource
import sys
from pathlib import Path

import torch

from slicekit.training import Report, Watcher, train
from tests.training.small import EVERYTHING, Parity, small_model

LIMITS = {"checkpoint": (9000, 13), "model": (2500, 6), "metrics": (1, 17)}


class Limiting(Watcher):
    def __init__(self, size: int, step: int) -> None:
        self.size, self.step = size, step

    def stepped(self, report: Report) -> None:
        if report.step == self.step:
            limit(self.size)


def limit(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def run(folder: Path, size: int, step: int) -> tuple[str, list[str]]:
    message = ""
    try:
        train(small_model(), Parity(), EVERYTHING, folder=folder, watch=Limiting(size, step))
    except OSError as error:
        message = str(error)
    limit(resource.RLIM_INFINITY)
    files = [path.name for path in folder.rglob("*") if path.is_file()]
    train(small_model(), Parity(), EVERYTHING, folder=folder, resume=True)
    return message, files


if __name__ == "__main__":
    torch.set_num_threads(1)
    root = Path(sys.argv[1])
    print(json.dumps({case: run(root / case, *limits) for case, limits in LIMITS.items()}))
