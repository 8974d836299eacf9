"""The folder of a run: its configuration, metrics, checkpoints and models, each in its place."""

import json
import math
import os
import tomllib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as to_bytes
from torch import nn

from slicekit import files, locks
from slicekit.serialisation import save
from slicekit.training import toml
from slicekit.training.checkpoints import (
    Checkpoint,
    list_checkpoints,
    newest_checkpoint,
    remove_old,
    write_checkpoint,
)
from slicekit.training.reports import Report
from slicekit.training.settings import Settings
from slicekit.version import __version__

TRAINING = "training"
"""The table of config.toml that holds the settings."""

VALIDATION = "validation"
"""The kind of record that comes second at a step that has two."""

KINDS = ("train", VALIDATION)
REPORTED = {field.name for field in fields(Report) if field.default is MISSING}
"""What every record tells; a number that was not finite is null."""


class RunFolder:
    """Where a run keeps its files; nothing is read or written before a method is called.

    Args:
        path: the folder, which need not exist.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Keep the path."""
        self.path = Path(path)

    @property
    def config(self) -> Path:
        """What repeats the run, as TOML."""
        return self.path / "config.toml"

    @property
    def metrics(self) -> Path:
        """What was measured on the way, a JSON object a line."""
        return self.path / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        """Where the run can go on from."""
        return self.path / "checkpoints"

    @property
    def best(self) -> Path:
        """The model with the best validation accuracy."""
        return self.path / "best.safetensors"

    @property
    def model(self) -> Path:
        """The model at the end; it is there when the run is finished."""
        return self.path / "model.safetensors"

    @property
    def plots(self) -> Path:
        """Where figures go."""
        return self.path / "plots"

    def holds_run(self) -> bool:
        """Whether a run was started here."""
        parts = (self.config, self.metrics, self.checkpoints, self.best, self.model)
        return any(path.exists() for path in parts)

    def writing(self) -> AbstractContextManager[None]:
        """Be the only one who writes here, as long as the context lasts or the process lives.

        Raises:
            InUse: if another is writing here.
            ValueError: if what is written would end up elsewhere.
        """
        self.check_own()
        return locks.writing(self.path)

    def check_own(self) -> None:
        """Raise ValueError where a link leads what a run writes, or removes, out of its folder.

        The folder itself may be a link, and so may models, which are replaced whole.
        """
        for path in (self.metrics, self.checkpoints, self.plots):
            if path.is_symlink():
                raise ValueError(
                    f"{path} is a link to {os.readlink(path)}; expected a part of the run's own "
                    "folder, since it is written to. Nothing was changed; to keep a run elsewhere, "
                    "make its whole folder a link"
                )

    def _check_files(self) -> None:
        """Raise ValueError where a device or a pipe, which may have no end, stands for a file."""
        files = (self.config, self.metrics, self.best, self.model)
        for path in (*files, *list_checkpoints(self.checkpoints)):
            if path.exists() and not path.is_file():
                raise ValueError(f"{path} is no file; expected one that a run wrote")

    def settings(self, given: Settings | None, resume: bool) -> Settings:
        """The settings to train with here: those given, or those of the run that is there.

        Raises:
            FileExistsError: if a run is there that is not to be resumed.
            ValueError: if the settings given are not those of the run to be resumed.
        """
        if not self.holds_run():
            return Settings() if given is None else given
        if not resume:
            raise FileExistsError(
                f"{self.path} already holds a run; resume it (resume=True), or choose another "
                "folder. Nothing was changed"
            )
        stored = self.stored_settings()
        _check_same(self.config, stored.as_table(), (given or stored).as_table())
        return stored

    def stored_settings(self) -> Settings:
        """Those of config.toml.

        Raises:
            ValueError: if the file is missing, is no TOML, or holds no valid settings.
        """
        table = self.read_config().get(TRAINING)
        if not isinstance(table, dict):
            raise ValueError(f"{self.config} has no table [{TRAINING}]")
        try:
            return Settings.from_table(table)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.config}: {error}") from error

    def read_config(self) -> dict[str, Any]:
        """All of config.toml.

        Raises:
            ValueError: if it is missing or no TOML, or something else stands in a file's place.
        """
        self._check_files()
        try:
            return tomllib.loads(self.config.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise ValueError(f"{self.path} holds no run: there is no {self.config.name}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"{self.config} is no TOML: {error}") from error

    def open(self, settings: Settings, describe: Mapping[str, Any] | None) -> Checkpoint | None:
        """Start a run here, or go on with the one that is there; its caller alone writes here.

        Args:
            settings: what `self.settings` gave.
            describe: what config.toml tells besides the settings.

        Returns:
            The checkpoint to go on from, None for a run that starts. The metrics end there.

        Raises:
            DamagedCheckpoint: if the last checkpoint is damaged.
            FileExistsError: if another has started a run here meanwhile.
            ValueError: if the run that is there was described in another way, or has results but no
                checkpoint to go on from. Nothing is touched then.
            OSError: if a file can't be written.
        """
        described = dict(describe or {})
        if TRAINING in described:
            raise ValueError(f"describe holds {TRAINING!r}, which is the settings' own table")
        if not self.holds_run():
            content = toml.dumps(described | {TRAINING: settings.as_table()})
            with files.naming(self.path):
                self.path.mkdir(parents=True, exist_ok=True)
            files.create(self.config, f"{_header()}\n{content}".encode())
            with files.naming(self.checkpoints):
                self.checkpoints.mkdir()
            return None
        stored = json.loads(json.dumps(self.read_config()))
        both = described.keys() & stored.keys()
        _check_same(self.config, stored, json.loads(json.dumps({k: described[k] for k in both})))
        checkpoint = newest_checkpoint(self.checkpoints)
        if checkpoint is None:
            self._check_without_results()
        self.checkpoints.mkdir(exist_ok=True)
        parts = (self.config, self.metrics, self.best, self.model)
        files.remove_leftovers(self.path, [path.name for path in parts])
        files.remove_leftovers(self.checkpoints)
        self._repair_metrics(-1 if checkpoint is None else checkpoint.step)
        return checkpoint

    def _check_without_results(self) -> None:
        """Raise ValueError if there is a result that a run from the first step would replace."""
        results = [path.name for path in (self.model, self.best) if path.exists()]
        records = read_records(self.metrics) if self.metrics.exists() else []
        if records:
            last = max(record["step"] for record in records)
            results.append(f"{self.metrics.name} up to step {last}")
        if results:
            raise ValueError(
                f"{self.path} holds {' and '.join(results)}, but no checkpoint to go on from in "
                f"{self.checkpoints.name}/. Nothing was changed; to train anew, choose another "
                "folder"
            )

    def record(self, report: Report) -> None:
        """Add a line to the metrics; a number that is not finite becomes null.

        Raises:
            OSError: if it can't be written.
        """
        line = {
            name: None if isinstance(x, float) and not math.isfinite(x) else x
            for name, x in report.as_record().items()
        }
        with files.naming(self.metrics), open(self.metrics, "ab") as file:
            file.write(json.dumps(line).encode() + b"\n")

    def keep(self, checkpoint: Checkpoint, keep: int) -> None:
        """Write a checkpoint, and remove all but the last few.

        Raises:
            OSError: if it can't be written; earlier checkpoints stay.
        """
        if self.metrics.exists():
            with files.naming(self.metrics), open(self.metrics, "rb") as file:
                os.fsync(file.fileno())
        write_checkpoint(self.checkpoints, checkpoint)
        remove_old(self.checkpoints, keep)

    def last_checkpoint(self) -> Path | None:
        """The file of the last checkpoint."""
        return next(reversed(list_checkpoints(self.checkpoints)), None)

    def save_model(self, model: nn.Module, path: Path) -> None:
        """Write a model so that `slicekit.load` reads it, or else its tensors by their names.

        Raises:
            OSError: if it can't be written.
        """
        try:
            with files.naming(path):
                save(model, path)
        except TypeError:
            weights = model.state_dict()
            tensors = {name: x.detach().cpu().contiguous().clone() for name, x in weights.items()}
            files.write(path, to_bytes(tensors))

    def _repair_metrics(self, step: int) -> None:
        """Leave of the metrics one line for each record up to a step, in their order.

        What goes is what came after it, a line that was half written, and lines that another writer
        added, as could happen before there were locks.
        """
        if not self.metrics.exists():
            return
        kept: dict[tuple[int, bool], str] = {}
        for record in read_records(self.metrics):
            key = (record["step"], record.get("kind") == VALIDATION)
            if record["step"] <= step:
                kept.setdefault(key, json.dumps(record))
        content = "".join(f"{kept[key]}\n" for key in sorted(kept)).encode()
        if content != self.metrics.read_bytes():
            files.write(self.metrics, content)


def read_records(path: Path) -> list[dict[str, Any]]:
    """The lines of a metrics file; a last one that was half written is left out.

    Raises:
        ValueError: if another line is no record.
    """
    lines = path.read_bytes().split(b"\n")
    records = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not _is_record(record):
            raise ValueError(f"{path}, line {number} is no record: {line[:80]!r}")
        records.append(record)
    return records


def _is_record(given: Any) -> bool:
    """Whether it has the fields that every report has, and nothing but numbers beside its kind."""
    if not isinstance(given, dict) or not given.keys() >= REPORTED:
        return False
    step, kind = given["step"], given["kind"]
    whole = isinstance(step, int) and not isinstance(step, bool) and 0 <= step < 2**63
    rest = (x for name, x in given.items() if name != "kind")
    return whole and kind in KINDS and all(x is None or _is_number(x) for x in rest)


def _is_number(given: Any) -> bool:
    # Of a whole number that no float can hold, nothing could be drawn or computed.
    return isinstance(given, float) or (isinstance(given, int) and abs(given) < 2**63)


def _check_same(path: Path, stored: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise ValueError where what is given differs from what a run was started with."""
    for name, x in given.items():
        if x != stored[name]:
            raise ValueError(
                f"{name}={x!r}, but {path} has {stored[name]!r}; resume with what the run was "
                "started with, or train into another folder"
            )


def _header() -> str:
    return f"# slicekit {__version__}, torch {torch.__version__}: this repeats the run."
