"""Results on record: what was found by a study, as one file of plain data that is kept for good.

results.json in the folder of a study holds nothing that differs from time to time. A record tells
that too: seconds, memory, processor and version of every run, and the commands that repeat them. It
is written as NAME.json, a line for each run, with NAME.md and NAME.png made of it. More runs are
added to those that are there, from as many folders as there are.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slicekit import figures, files
from slicekit.locks import writing
from slicekit.studies.grid import Standing
from slicekit.studies.plans import Choice, Outcome
from slicekit.studies.results import PASSING, as_markdown, gathered

if TYPE_CHECKING:
    from slicekit.studies.study import Study

PATIENCE = 60.0
"""Seconds to wait for another who adds to the same record."""

ELSEWHERE = ("data",)
"""Options of tasks that are places on one machine, and no part of what was done."""

SHARED = ("--lengths", "--sets")
"""Options of which one command may have several values."""


@dataclass(frozen=True)
class Record:
    """What is on record of a study.

    Args:
        study: which one.
        outcomes: of all runs, in the order of its tables.
    """

    study: "Study"
    outcomes: tuple[Outcome, ...]

    @property
    def choice(self) -> Choice:
        """The one that its tables are of."""
        return self.study.recorded(self.outcomes)

    def of(self, part: str) -> "Record":
        """Only the runs whose names begin with a part of the study."""
        own = (x for x in self.outcomes if x.plan.name.startswith(f"{part}/"))
        return replace(self, outcomes=tuple(own))

    @property
    def commands(self) -> list[str]:
        """Those that repeat the runs."""
        return commands(self.study, self.outcomes)

    @property
    def made_with(self) -> str:
        """Versions and processors, and how many runs tell theirs if not all do."""
        versions = sorted({f"slicekit {x.version}" for x in self.outcomes if x.version})
        processors = sorted({x.processor for x in self.outcomes if x.processor})
        told = sum(bool(x.version and x.processor) for x in self.outcomes)
        of_all = f" (as {told:,} of {len(self.outcomes):,} runs tell)"
        return "; ".join([*versions, *processors]) + of_all * (told < len(self.outcomes))

    def as_markdown(self) -> str:
        """Tables of all runs, and how to repeat them."""
        tables = as_markdown(self.study, self.choice, self.outcomes, {}).rstrip()
        lines = [f"    {command}" for command in self.commands]
        return "\n".join([tables, "", f"Made with {self.made_with}, by", "", *lines, ""])

    def as_json(self) -> str:
        """Plain data, with a line for each run."""
        head = {
            "study": self.study.name,
            "what": self.study.summary,
            "commands": self.commands,
            "choice": asdict(self.choice),
        }
        runs = ",\n".join(json.dumps(_as_dict(x)) for x in self.outcomes)
        return f'{json.dumps(head, indent=1)[:-2]},\n "runs": [\n{runs}\n]}}\n'

    def write(self, folder: Path, *, drawn: bool = True) -> None:
        """Write NAME.json and NAME.md, and NAME.png if it is wanted and can be drawn.

        Raises:
            OSError: if a file can't be written.
        """
        place = folder / self.study.name
        if drawn and figures.available():
            self.study.plot(self.choice, self.outcomes, place.with_suffix(".png"))
        files.write(place.with_suffix(".md"), self.as_markdown().encode())
        files.write(place.with_suffix(".json"), self.as_json().encode())


def _as_dict(outcome: Outcome) -> dict[str, Any]:
    """What came of a run, and nothing of what no one knows."""
    seconds = outcome.seconds if math.isfinite(outcome.seconds) else None
    told = outcome.as_dict() | {"seconds": seconds}
    return {name: x for name, x in told.items() if x is not None or name not in PASSING}


def read_record(study: "Study", folder: Path) -> Record | None:
    """What is on record of a study, None if nothing is; results.json of a study will do as well.

    Raises:
        ValueError: if the file is damaged, or of another study.
    """
    path = folder / f"{study.name}.json"
    if not path.exists():
        return None
    try:
        data = json.loads(path.read_bytes())
        if data["study"] != study.name:
            raise ValueError(f"it is of the study {data['study']}")
        outcomes = [_outcome(run, data.get("slicekit")) for run in data["runs"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error!r}. Nothing was changed") from error
    return recorded(study, outcomes) if outcomes else None


def _outcome(run: dict[str, Any], version: str | None) -> Outcome:
    known = {"version": version} | run
    return Outcome.from_dict(
        known | {"seconds": math.nan if (s := run.get("seconds")) is None else s}
    )


def recorded(study: "Study", outcomes: Sequence[Outcome]) -> Record:
    """A record, in the order of the tables: no places of one machine, seconds to a hundredth."""
    by_name = {x.plan.name: _anywhere(x) for x in outcomes}
    standing = Standing(outcomes=by_name)
    _, ordered = gathered(study, study.recorded(outcomes), standing, None)
    return Record(study, tuple(ordered))


def _anywhere(outcome: Outcome) -> Outcome:
    options = {name: x for name, x in outcome.plan.options.items() if name not in ELSEWHERE}
    plan = replace(outcome.plan, options=options)
    return replace(outcome, plan=plan, seconds=round(outcome.seconds, 2))


def add_to_record(study: "Study", outcomes: Sequence[Outcome], folder: Path) -> Record:
    """Add runs to what is on record of a study; one that is there already is replaced.

    Args:
        study: which one.
        outcomes: what came of the runs.
        folder: of the records.

    Raises:
        ValueError: if there are no runs, or the record is damaged.
        InUse: if another is writing it, and does not end.
        OSError: if a file can't be written.
    """
    if not outcomes:
        raise ValueError(f"no run of {study.name} is finished, so there is nothing to record")
    with writing(folder, f".{study.name}.lock", PATIENCE):
        earlier = read_record(study, folder)
        runs = {x.plan.name: x for x in (earlier.outcomes if earlier else ())}
        for x in outcomes:
            runs[x.plan.name] = _better(runs.get(x.plan.name), _anywhere(x))
        record = recorded(study, list(runs.values()))
        record.write(folder)
    return record


def _better(earlier: Outcome | None, now: Outcome) -> Outcome:
    """What was found now, with the times of before if those of the same run are no longer known."""
    if earlier is None or math.isfinite(now.seconds):
        return now
    alike = (earlier.plan, earlier.tested, earlier.steps) == (now.plan, now.tested, now.steps)
    return earlier if alike else now


def commands(study: "Study", outcomes: Sequence[Outcome]) -> list[str]:
    """Commands that repeat runs; those share one that differ in models, lengths or sets alone."""
    seeds: dict[tuple[tuple[str, ...], str], set[int]] = {}
    for x in outcomes:
        seeds.setdefault((study.words(x), study.named(x)), set()).add(x.plan.settings.seed)
    models: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for (words, model), numbers in seeds.items():
        models.setdefault((words, ",".join(map(str, sorted(numbers)))), []).append(model)
    shared: dict[tuple[str, ...], list[str]] = {}
    for (words, numbers), names in models.items():
        command = ("--models", ",".join(names), "--seeds", numbers, *words)
        at = next((n + 1 for n, x in enumerate(command) if x in SHARED), len(command))
        shared.setdefault((*command[:at], *command[at + 1 :]), []).extend(command[at : at + 1])
    return [
        " ".join(
            ["slicekit study", study.name]
            + [f"{x} {','.join(values)}" if x in SHARED else x for x in command]
        )
        for command, values in shared.items()
    ]
