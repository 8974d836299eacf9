"""A run in a process of its own, which the tests kill: python -m tests.training.killable FOLDER."""

import sys
from dataclasses import replace

import torch

from slicekit.training import Watcher, train
from tests.training.small import EVERYTHING, ParityWithPairs, small_model

SETTINGS = replace(EVERYTHING, steps=150)


class Announcing(Watcher):
    """Says when the first step comes."""

    def started(self, total_steps: int, from_step: int) -> None:
        print(from_step, flush=True)


def run(folder: str) -> None:
    model = small_model(dropout=0.2)
    train(model, ParityWithPairs(), SETTINGS, folder=folder, resume=True, watch=Announcing())


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(sys.argv[1])
