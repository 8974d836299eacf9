"""Runs of several processes: torchrun -m tests.training.together FOLDER."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from slicekit.tasks import Batch
from slicekit.training import is_first, train
from slicekit.training.checkpoints import list_checkpoints
from tests.training.small import EVERYTHING, ParityWithPairs, small_model

SETTINGS = replace(
    EVERYTHING,
    steps=12,
    batch=7,
    consistency=5.0,
    consistent_clusters=True,
    checkpoint_every=4,
    evaluate_every=4,
)


class Uneven(ParityWithPairs):
    """The first sequences have fewer labels than the others, the first few none at all."""

    def sample(self, batch: int, lengths: tuple[int, int], generator: Any, split: str = "train"):
        drawn = super().sample(batch, lengths, generator, split)
        rows = torch.arange(batch).unsqueeze(1)
        supervised = drawn.supervised & (torch.arange(lengths[1]) < rows)
        supervised[-1] = drawn.supervised[-1]
        return Batch(drawn.inputs, drawn.targets * supervised, supervised, drawn.lengths)


def double_model() -> Any:
    """Processes start from different weights: those of the first count."""
    return small_model(dtype=torch.float64, seed=0 if is_first() else 1)


def run(folder: Path) -> None:
    rank = 0 if is_first() else 1
    model = train(double_model(), Uneven(), SETTINGS, folder=folder / "exact").model
    save_file(model.state_dict(), folder / f"rank-{rank}.safetensors")

    # Dropout draws from a generator of each process, so that only a checkpoint of all can go on.
    train(small_model(dropout=0.3), Uneven(), SETTINGS, folder=folder / "whole")
    if is_first():
        shutil.copytree(folder / "whole", folder / "parts")
        (folder / "parts" / "model.safetensors").unlink()
        list_checkpoints(folder / "parts" / "checkpoints")[-1].unlink()
    train(small_model(dropout=0.3), Uneven(), SETTINGS, folder=folder / "parts", resume=True)

    try:
        train(double_model(), Uneven(), SETTINGS, folder=folder / "exact")
    except (FileExistsError, RuntimeError) as error:
        (folder / f"refused-{rank}").write_text(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(Path(sys.argv[1]))
