"""The results of a study: what was found now beside what was found before, as tables and files.

They only grow. Another choice of models adds rows, a run that fails takes none away, and a quick
look has a folder of its own and says in every table that it is one.
"""

import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import slicekit
from slicekit import figures, files
from slicekit.studies.grid import Standing
from slicekit.studies.one_run import RESULTS as OF_RUN
from slicekit.studies.one_run import read_outcome
from slicekit.studies.plans import Choice, Outcome
from slicekit.studies.tables import Table, runs_table

if TYPE_CHECKING:
    from slicekit.studies.study import Study

RESULTS, MARKDOWN, PICTURE, RUNS = "results.json", "results.md", "results.png", "runs"

DRAWING = 10.0
"""Seconds between two pictures of a study that goes on."""

PASSING = ("seconds", "processor_seconds", "opened", "memory", "processor", "version")
"""What of a run differs from time to time, or from machine to machine."""

KIND = "study.json"
"""Which study a folder is of, and whether it is a quick look."""


def claim(study: "Study", choice: Choice, folder: Path) -> None:
    """Make a folder that of a study, for good.

    Raises:
        ValueError: if it is of another study, or only one of the two is a quick look. Nothing is
            touched then.
    """
    claimed = {"study": study.name, "quick": choice.quick}
    path = folder / KIND
    there = claimed
    if path.exists():
        there = _read(path)
    elif (folder / RESULTS).exists():
        earlier = _read(folder / RESULTS)
        there = {"study": earlier.get("study"), "quick": bool(_quick(earlier))}
    if there != claimed:
        raise ValueError(
            f"{folder} holds {_told(there)}; expected {_told(claimed)}; choose another folder with "
            "--out. Nothing was changed"
        )
    if not path.exists():
        files.create(path, (json.dumps(claimed) + "\n").encode())


def _quick(earlier: dict[str, Any]) -> Any:
    choice = earlier.get("choice")
    return choice.get("quick") if isinstance(choice, dict) else None


def _told(kind: dict[str, Any]) -> str:
    return f"{'a quick look at' if kind.get('quick') else 'the study'} {kind.get('study')}"


def _read(path: Path) -> dict[str, Any]:
    """A JSON object.

    Raises:
        ValueError: if the file holds none.
    """
    try:
        data = json.loads(path.read_bytes())
        if not isinstance(data, dict):
            raise TypeError(f"it holds a {type(data).__name__}")
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(
            f"{path} is damaged: {error}. Nothing was changed; once it is removed, the same study "
            "makes it again from its runs"
        ) from error
    return data


def gathered(
    study: "Study", choice: Choice, standing: Standing, folder: Path | None
) -> tuple[Choice, list[Outcome]]:
    """All that was found so far, in an order that does not depend on when.

    Args:
        study: which one.
        choice: what was wanted now.
        standing: what came of it.
        folder: of the study, with what was found before; None has nothing.

    Returns:
        A choice that covers all outcomes, and the outcomes.

    Raises:
        ValueError: if what was found before is damaged.
    """
    earlier = {} if folder is None else _in_results(folder) | _in_runs(folder)
    outcomes = list((earlier | standing.outcomes).values())
    covering = study.covering(choice, outcomes)
    models = list(covering.models or study.models)

    def order(outcome: Outcome) -> tuple[int, list[Any]]:
        model = outcome.plan.model
        place = models.index(model) if model in models else len(models)
        return place, [(len(x), x) if x.isdigit() else (0, x) for x in _parts(outcome.plan.name)]

    return covering, sorted(outcomes, key=order)


def _parts(name: str) -> list[str]:
    """Words and numbers, so that seed-10 comes after seed-2."""
    return re.findall(r"\d+|\D+", name)


def _in_results(folder: Path) -> dict[str, Outcome]:
    """What results.json tells, which is not of the times; a run's folder may be gone."""
    path = folder / RESULTS
    if not path.exists():
        return {}
    try:
        runs = [Outcome.from_dict(x | {"seconds": math.nan}) for x in _read(path)["runs"]]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if str(path) in str(error):
            raise
        raise ValueError(f"{path} is damaged: {error!r}. Nothing was changed") from error
    return {outcome.plan.name: outcome for outcome in runs}


def _in_runs(folder: Path) -> dict[str, Outcome]:
    """What the folders of the runs tell; one that is damaged is for the grid to report."""
    outcomes = {}
    for path in sorted((folder / RUNS).rglob(OF_RUN)):
        try:
            outcome = read_outcome(path)
        except ValueError:
            continue
        if outcome is not None and folder / RUNS / outcome.plan.name == path.parent:
            outcomes[outcome.plan.name] = outcome
    return outcomes


def shown(study: "Study", choice: Choice, outcomes: Sequence[Outcome]) -> list[Table]:
    """The tables of a study; those of a quick look say so."""
    return [_marked(table, choice) for table in study.tables(choice, outcomes)]


def _marked(table: Table, choice: Choice) -> Table:
    if not choice.quick:
        return table
    note = "A quick look, only to see that it works: few steps, few and short sequences."
    title = f"Quick look, no result: {table.title}"
    return replace(table, title=title, note=f"{table.note} {note}".strip())


class Results:
    """The files of a study's results, each of which is written as a whole.

    results.json holds nothing that differs when the study is done again: how long runs took, and
    when test sets were opened, is in results.md.

    Args:
        study: which one.
        choice: what the user wants of it.
        folder: where they are.
    """

    def __init__(self, study: "Study", choice: Choice, folder: Path) -> None:
        """Write nothing yet."""
        self._study, self._choice, self._folder = study, choice, folder
        self._drawn = -math.inf

    def write(self, standing: Standing) -> bool:
        """Write down how a study stands, unless that would spoil what is there.

        Returns:
            Whether it was written: not if nothing was found, nor if runs failed, none was finished
            now, and there are results already, which then stay as they are.
        """
        failed = standing.failures and not standing.done_now
        if not standing.outcomes or (failed and (self._folder / RESULTS).exists()):
            return False
        self._write(standing, figures.available())
        return True

    def write_soon(self, standing: Standing) -> None:
        """The same while a study goes on: tables at once, the picture every now and then."""
        if not standing.outcomes or not standing.done_now:
            return
        due = figures.available() and time.monotonic() - self._drawn > DRAWING
        self._write(standing, due)

    def _write(self, standing: Standing, drawn: bool) -> None:
        study, folder = self._study, self._folder
        covering, outcomes = gathered(study, self._choice, standing, folder)
        data = {
            "study": study.name,
            "slicekit": slicekit.__version__,
            "choice": asdict(covering),
            "runs": [_lasting(x) for x in outcomes],
            "failures": standing.failures,
        }
        text = as_markdown(study, covering, outcomes, standing.failures)
        files.write(folder / MARKDOWN, text.encode())
        if drawn:
            study.plot(covering, outcomes, folder / PICTURE)
            self._drawn = time.monotonic()
        files.write(folder / RESULTS, (json.dumps(data, indent=2) + "\n").encode())


def _lasting(outcome: Outcome) -> dict[str, Any]:
    """What came of a run, without what differs from time to time."""
    return {name: x for name, x in outcome.as_dict().items() if name not in PASSING}


def as_markdown(
    study: "Study", choice: Choice, outcomes: Sequence[Outcome], failures: Mapping[str, str]
) -> str:
    """All tables of a study."""
    tables = [*shown(study, choice, outcomes), _marked(runs_table(outcomes), choice)]
    text = "\n\n".join([f"## {study.summary}", *(table.as_markdown() for table in tables)])
    told = [f"- {name} failed: {why}" for name, why in failures.items()]
    return "\n".join([text, "", *told])
