"""Checkpoints: tensors as safetensors, with plain numbers as JSON in the header.

A checkpoint carries a digest of all that it holds, so that damage anywhere in the file shows.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from slicekit import files
from slicekit.stored_files import digest, told

FORMAT = "slicekit-checkpoint-2"
NAME = re.compile(r"step-(\d{8,})\.safetensors")


class DamagedCheckpoint(ValueError):
    """A checkpoint that can't be read as it was written.

    Args:
        path: the file, which is left as it is.
        why: what is wrong with it, and perhaps what to do.
    """

    def __init__(self, path: Path, why: str) -> None:
        """Put the file into the message."""
        super().__init__(f"{path} is damaged or truncated: {why}")
        self.path, self.why = path, why


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A run at the end of a step: all that is needed to go on as if nothing had happened.

    Args:
        step: how many updates were made.
        tensors: by name.
        numbers: plain data, as JSON can hold it.
    """

    step: int
    tensors: dict[str, Tensor]
    numbers: dict[str, Any]

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names start with a prefix and a slash, by what follows it."""
        start = f"{prefix}/"
        return {
            name.removeprefix(start): x
            for name, x in self.tensors.items()
            if name.startswith(start)
        }


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint under the name of its step.

    Args:
        folder: where the checkpoints of the run are.
        checkpoint: what to write.

    Returns:
        The file.

    Raises:
        OSError: if it can't be written; earlier checkpoints stay as they are.
    """
    tensors = {name: x.detach().cpu().contiguous() for name, x in checkpoint.tensors.items()}
    numbers = json.dumps({"step": checkpoint.step} | checkpoint.numbers)
    header = {"format": FORMAT, "numbers": numbers, "digest": digest(numbers, tensors)}
    path = folder / f"step-{checkpoint.step:08d}.safetensors"
    files.write(path, save({name: x.clone() for name, x in tensors.items()}, metadata=header))
    return path


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint, on the CPU.

    Raises:
        DamagedCheckpoint: if it is not what was written.
    """
    try:
        with safe_open(path, framework="pt") as stored:
            header = stored.metadata() or {}
            tensors = {name: stored.get_tensor(name).clone() for name in stored.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise DamagedCheckpoint(path, told(error)) from error
    if header.get("format") != FORMAT:
        raise DamagedCheckpoint(path, f"it is no {FORMAT}")
    text = header.get("numbers", "")
    if digest(text, tensors) != header.get("digest"):
        raise DamagedCheckpoint(path, "its content does not fit its digest")
    try:
        numbers = dict(json.loads(text))
        step = int(numbers.pop("step"))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedCheckpoint(path, f"its numbers are none: {told(error)}") from error
    return Checkpoint(step, tensors, numbers)


def list_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, by their step."""
    if not folder.is_dir():
        return []
    numbered = [(int(match[1]), path) for path in folder.iterdir() if (match := _named(path))]
    return [path for _, path in sorted(numbered)]


def _named(path: Path) -> re.Match[str] | None:
    return NAME.fullmatch(path.name)


def newest_checkpoint(folder: Path) -> Checkpoint | None:
    """The last checkpoint in a folder, or None if there is none.

    Raises:
        DamagedCheckpoint: if the last one is damaged; the message says which earlier one is whole,
            and how to go on from it. No file is touched.
    """
    paths = list_checkpoints(folder)
    if not paths:
        return None
    try:
        return read_checkpoint(paths[-1])
    except DamagedCheckpoint as damage:
        whole = _last_whole(reversed(paths[:-1]))
        way = (
            "no earlier checkpoint is whole, so start again in another folder"
            if whole is None
            else f"{whole.name} is whole; to go on from there, rename {damage.path.name} and resume"
        )
        raise DamagedCheckpoint(damage.path, f"{damage.why}. Nothing was changed; {way}") from None


def _last_whole(paths: Iterable[Path]) -> Path | None:
    for path in paths:
        try:
            read_checkpoint(path)
        except DamagedCheckpoint:
            continue
        return path
    return None


def remove_old(folder: Path, keep: int) -> None:
    """Remove all checkpoints but the last `keep` ones."""
    for path in list_checkpoints(folder)[:-keep]:
        path.unlink()
