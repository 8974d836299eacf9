"""The runs on disk, to list and compare."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slicekit.training.folder import RunFolder, read_records


@dataclass(frozen=True)
class Run:
    """What a run folder tells.

    Args:
        folder: where it is.
        config: config.toml, the settings in its table "training".
        records: metrics.jsonl, a dict a line.
        finished: whether the run came to its end.
        fault: why the folder can't be read, or None.
    """

    folder: Path
    config: dict[str, Any]
    records: tuple[dict[str, Any], ...]
    finished: bool
    fault: str | None = None

    @property
    def step(self) -> int:
        """The last step on record, 0 if there is none."""
        return max((record["step"] for record in self.records), default=0)

    @property
    def seconds(self) -> float:
        """Training time on record."""
        return max((record["seconds"] or 0.0 for record in self.records), default=0.0)

    @property
    def training(self) -> list[dict[str, Any]]:
        """The records of training."""
        return [record for record in self.records if record["kind"] == "train"]

    @property
    def validations(self) -> list[dict[str, Any]]:
        """The records of validations."""
        return [record for record in self.records if record["kind"] == "validation"]

    @property
    def best(self) -> dict[str, Any] | None:
        """The validation with the best accuracy, the last such one; None if there was none."""
        known = [x for x in self.validations if x["accuracy"] is not None]
        return max(known, key=lambda x: (x["accuracy"], x["step"]), default=None)


def read_run(folder: str | os.PathLike[str]) -> Run:
    """Read a run folder, finished or not.

    Raises:
        FileNotFoundError: if there is no such folder.
        ValueError: if it holds no run, or a file of it is damaged; the message names the file.
    """
    files = RunFolder(folder)
    if not files.path.is_dir():
        raise FileNotFoundError(f"no folder {files.path}")
    config = files.read_config()
    records = read_records(files.metrics) if files.metrics.exists() else []
    return Run(files.path, config, tuple(records), files.model.exists())


def list_runs(root: str | os.PathLike[str]) -> list[Run]:
    """All runs at or below a folder, by their paths.

    A run that can't be read is listed too: its `fault` says why.

    Raises:
        FileNotFoundError: if there is no such folder.
    """
    if not Path(root).is_dir():
        raise FileNotFoundError(f"no folder {root}")
    runs = []
    for config in sorted(Path(root).rglob("config.toml")):
        try:
            runs.append(read_run(config.parent))
        except ValueError as error:
            runs.append(Run(config.parent, {}, (), False, str(error)))
    return runs
