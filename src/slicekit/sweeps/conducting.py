"""A sweep from the first trial to the last, with everything that is kept on the way."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slicekit import files
from slicekit.devices import find_device
from slicekit.engines import Engine, Local
from slicekit.locks import WRITER, writing
from slicekit.studies.grid import GridWatcher, Standing, run_grid
from slicekit.sweeps import results
from slicekit.sweeps.searches import Search
from slicekit.sweeps.sweep import Sweep, differing
from slicekit.sweeps.trials import Trial, Trials, ranked

KIND, RUNS = "sweep.json", "runs"
"""What a folder is the sweep of, and where its runs are."""


@dataclass(frozen=True)
class Found:
    """What came of a sweep.

    Args:
        trials: in the order in which they were chosen.
        standing: of their runs.
        written: whether results were written.
    """

    trials: tuple[Trial, ...]
    standing: Standing
    written: bool

    @property
    def best(self) -> Trial | None:
        """The trial with the best validation accuracy; None if none came to one."""
        first = next(iter(ranked(list(self.trials))), None)
        return first if first is not None and first.score is not None else None


def conduct_sweep(
    sweep: Sweep,
    folder: Path,
    *,
    processes: int = 1,
    watch: GridWatcher | None = None,
    device: str | None = None,
    engine: Engine | None = None,
) -> Found:
    """Try what a sweep varies, and write results.json, results.md, results.png and best.toml.

    It may be stopped at any time. Done again with the same folder, it keeps what is finished and
    goes on with what is not; more trials or seeds add to what is there. Trials are compared by
    validation accuracy, and nothing is tested.

    Args:
        sweep: what to vary, and how.
        folder: for the results, and the runs below it.
        processes: how many runs at a time, with one thread each, if no engine is given.
        watch: is told of everything.
        device: of the machine that does a run, "cpu", "cuda" or "mps"; None is the CPU.
        engine: where the runs are done; None is this machine. A cluster's nodes must see `folder`.

    Returns:
        The trials and what came of their runs. A trial that diverges is no failure.

    Raises:
        InUse: if another process is doing a sweep in the folder.
        ValueError: if the folder is of another sweep, no trial fits, or there is no such device.
        ImportError: if Optuna, or the engine's library, is missing.
        Unreachable: if the engine's cluster does not answer, or does no more.
        OSError: if a file can't be written.
    """
    search = Search(sweep)
    engine = engine or Local(processes)
    if not engine.shared:
        find_device(device)
    with writing(folder), engine.opened(folder):
        _claim(sweep, folder)
        trials = Trials(sweep, search, folder, engine.at_once, watch or GridWatcher())
        standing = run_grid(trials.wanted, folder / RUNS, engine, trials, device, folder / WRITER)
        tried = trials.all(standing.outcomes)
        if not any(trial.plans for trial in tried):
            raise ValueError(f"no trial of the sweep fits; the first {tried[0].fault}")
        return Found(tuple(tried), standing, results.write(sweep, tried, folder))


def _claim(sweep: Sweep, folder: Path) -> None:
    """Make a folder that of a sweep, which may only grow."""
    path, table = folder / KIND, json.loads(json.dumps(dict(sweep.table)))
    if path.exists():
        had = _read(path)
        for key in differing(table, had):
            raise ValueError(
                f"{folder} holds a sweep with {key} = {had.get(key)!r}, but {key} = {table[key]!r} "
                "is asked for; choose another folder with --out. Nothing was changed"
            )
        if table == had:
            return
    elif any(x.name != WRITER for x in folder.iterdir()):
        raise ValueError(
            f"{folder} holds something, but no sweep; choose another folder with --out. Nothing "
            "was changed"
        )
    files.write(path, (json.dumps(table, indent=1) + "\n").encode())


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_bytes())
        if not isinstance(data, dict):
            raise TypeError(f"it holds a {type(data).__name__}")
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}. Nothing was changed") from error
    return data
