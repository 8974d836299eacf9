"""The paper's tables of scans: time and memory of a training step by recurrence, by associative
scans over chunks of every size, and by the scan that slicekit takes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slicekit import figures
from slicekit.studies.line_ups import SLICES, expand
from slicekit.studies.plans import Choice, Outcome, Plan
from slicekit.studies.scan_race import OURS, RECURRENCE, WHOLE, Cell
from slicekit.studies.study import Study
from slicekit.studies.tables import NOTHING, Table
from slicekit.suggestions import unknown
from slicekit.training import Settings

TASK = "scan-costs"
TURNS, BUDGET = 5, 4.0
"""Turns of a contender at most, and the seconds that they may take."""

LENGTH, CHANNELS, DIM = 17_984, 7, 128
"""EigenWorms: observations, channels with the time, and the state that the paper takes for it."""

CHUNKS = (4, 16, 64, 128, 256)
"""All that the paper has in either of its tables."""

QUICK: dict[str, Any] = {"length": 240, "dim": 16, "chunks": [4, 16]}


@dataclass(frozen=True)
class Case:
    """A table of the paper, or a half of one.

    Attributes:
        what: how tables call it.
        batch: series in a step.
        window: observations that a log-signature is of; 1 without the Log-ODE method.
        seconds: the longest step that is made.
        paper: the paper's seconds for 1,000 steps on an H100, by model and chunk.
    """

    what: str
    batch: int
    window: int
    seconds: float
    paper: dict[str, dict[str, float]]


def _times(*rows: tuple[str, tuple[float, ...]], chunks: Sequence[str]) -> Any:
    return {model: dict(zip(chunks, times, strict=True)) for model, times in rows}


TABLE_6, TABLE_7 = (RECURRENCE, "4", "16", "64", "256"), (RECURRENCE, "128")

CASES = {
    "table-6": Case(
        "batch 1",
        1,
        1,
        6.0,
        _times(
            ("d-slice", (311.0, 134.2, 57.50, 31.01, 21.10)),
            ("bd-slice", (374.89, 326.75, 161.74, 68.59, 30.53)),
            ("de-lncde", (444.68, 439.51, 257.56, 126.01, 71.54)),
            chunks=TABLE_6,
        ),
    ),
    "table-7-interval-1": Case(
        "batch 4",
        4,
        1,
        6.0,
        _times(
            ("d-slice", (317.49, 23.51)),
            ("bd-slice", (378.20, 48.74)),
            ("de-lncde", (465.94, 167.86)),
            chunks=TABLE_7,
        ),
    ),
    "table-7-interval-12": Case(
        "batch 4, Log-ODE over 12",
        4,
        12,
        2.0,
        _times(
            ("d-slice", (33.03, 10.96)),
            ("bd-slice", (46.98, 13.24)),
            ("de-lncde", (47.95, 29.37)),
            chunks=TABLE_7,
        ),
    ),
}

PAPERS_MEMORY = {
    ("table-7-interval-1", "d-slice"): (2.69, 2.69),
    ("table-7-interval-1", "bd-slice"): (2.69, 4.73),
    ("table-7-interval-1", "de-lncde"): (35.45, 51.84),
    ("table-7-interval-12", "d-slice"): (2.69, 2.69),
    ("table-7-interval-12", "bd-slice"): (2.69, 2.69),
    ("table-7-interval-12", "de-lncde"): (2.69, 6.79),
}
"""GB on the GPU, by recurrence and with chunks of 128."""


class ScanCosts(Study):
    """A training step on series like EigenWorms, with random values: forward and backward.

    A run lets all scans take turns on one structure; nothing is trained.
    """

    name = "scan-costs"
    summary = "Time and memory of a training step by recurrence, associative scans and ours"
    of_paper = "tables 6 and 7"
    models = SLICES
    seeds = (0,)

    def wanted(self, choice: Choice, outcomes: Mapping[str, Outcome]) -> list[Plan]:
        """Every structure of every case.

        Raises:
            ValueError: if a model is not one of the paper's structures.
        """
        models = self.chosen_models(choice)
        return [
            self._plan(choice, name, model, seed)
            for name in CASES
            for model in models
            for seed in self.chosen_seeds(choice)
        ]

    def _plan(self, choice: Choice, name: str, model: str, seed: int) -> Plan:
        case = CASES[name]
        options: dict[str, Any] = {
            "batch": choice.batch or case.batch,
            "length": LENGTH,
            "window": case.window,
            "dim": DIM,
            "channels": CHANNELS,
            "chunks": list(CHUNKS),
            "seconds": case.seconds,
            "budget": BUDGET,
        }
        if choice.quick:
            options |= QUICK
        turns = choice.steps or (1 if choice.quick else TURNS)
        place = f"{name}/{model}" + (f"/seed-{seed}" if seed else "")
        return Plan(place, TASK, model, Settings(steps=turns, seed=seed), (), options)

    def chosen_models(self, choice: Choice) -> tuple[str, ...]:
        """The structures to compare.

        Raises:
            ValueError: if a name is not one of them.
        """
        models = expand(choice.models or self.models)
        for name in models:
            if name not in self.models:
                raise unknown("model", name, self.models)
        return models

    def words(self, outcome: Outcome) -> tuple[str, ...]:
        """Nothing: turns and sizes are the study's own."""
        return ()

    def lengths(self, choice: Choice) -> tuple[int, ...]:
        """None: series are as long as they are."""
        return ()

    def tables(self, choice: Choice, outcomes: Sequence[Outcome]) -> list[Table]:
        """Time as ratios, memory, and where we are behind."""
        return [_time_table(outcomes), _memory_table(outcomes), _paper_table()]

    def plot(self, choice: Choice, outcomes: Sequence[Outcome], path: Path) -> None:
        """A panel for each case: ratios over the chunk, a line for each structure."""
        made, axes = figures.figure(len(CASES), 15, 4.8, self.summary)
        for axis, (name, case) in zip(axes, CASES.items(), strict=True):
            for number, outcome in enumerate(x for x in outcomes if case_of(x) == name):
                _draw_line(axis, figures.line(number), outcome)
            axis.axhline(1, color="grey", linewidth=0.8)
            figures.label(axis, title=case.what, y="time over ours")
            figures.names_below(axis, _scans(outcomes))
            figures.logarithmic(axis, "y")
        figures.legend(axes[-1], outside=True)
        figures.write(made, path)


def case_of(outcome: Outcome) -> str:
    """Which case a run is of."""
    return outcome.plan.name.split("/")[0]


def by_case(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The runs of one case after the other."""
    return [x for name in CASES for x in outcomes if case_of(x) == name]


def cells(outcome: Outcome) -> dict[str, Cell]:
    """What every scan took, by name."""
    return {name: Cell(**cell) for name, cell in outcome.measured.items()}


def behind(outcome: Outcome) -> dict[str, float]:
    """Scans that took less time than ours, and what share of it; none is what we want."""
    by_scan = cells(outcome)
    ratios = {name: cell.seconds / by_scan[OURS].seconds for name, cell in by_scan.items()}
    return {name: ratio for name, ratio in ratios.items() if ratio < 1}


def _scans(outcomes: Sequence[Outcome]) -> list[str]:
    """Those that ours is compared with, in order."""
    known = {name for x in outcomes for name in x.measured}
    chunks = sorted(int(name) for name in known if name.isdigit())
    return [RECURRENCE, *map(str, chunks or CHUNKS), WHOLE]


def _headings(scans: Sequence[str]) -> list[str]:
    return [f"chunk {x}" if x.isdigit() else x for x in scans]


def _time_table(outcomes: Sequence[Outcome]) -> Table:
    scans, rows = _scans(outcomes), []
    for outcome in by_case(outcomes):
        by_scan = cells(outcome)
        ours = by_scan[OURS].seconds
        others = [by_scan[x] for x in scans if x in by_scan]
        ratios = [_marked(_figures(by_scan[x].seconds / ours), by_scan[x]) for x in scans]
        least = min(x.seconds for x in others) / ours
        case = CASES[case_of(outcome)].what
        rows.append((case, outcome.plan.model, _figures(1000 * ours), *ratios, _figures(least)))
    columns = ("case", "model", "ours, s", *_headings(scans), "best other")
    note = (
        "Ours: seconds of processor time for 1,000 steps of training, forward and backward, on one "
        "thread. All others: as a multiple of ours, by turns in one run. ~ is scaled up from a "
        "sixteenth of the length, as the whole would take more than 6 s a step (with the Log-ODE "
        "method a third, and 2 s); ~m likewise, as it would take more than half of the memory that "
        "was free."
    )
    return Table("Time", columns, tuple(rows), note)


def _figures(number: float) -> str:
    """Three of them, or all of a large whole number."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _marked(text: str, cell: Cell) -> str:
    return {"": "", "time": "~", "memory": "~m "}[cell.obstacle] + text


def _memory_table(outcomes: Sequence[Outcome]) -> Table:
    scans, rows = [OURS, *_scans(outcomes)], []
    for outcome in by_case(outcomes):
        by_scan = cells(outcome)
        case = CASES[case_of(outcome)].what
        rows.append((case, outcome.plan.model, *(_mebibytes(by_scan[x]) for x in scans)))
    note = "MiB at most beyond model and series; marks as above."
    return Table("Memory", ("case", "model", OURS, *_headings(scans[1:])), tuple(rows), note)


def _mebibytes(cell: Cell) -> str:
    return NOTHING if cell.memory is None else _marked(f"{cell.memory / 2**20:,.0f}", cell)


def _paper_table() -> Table:
    rows = []
    for name, case in CASES.items():
        for model, times in case.paper.items():
            best = min(times, key=lambda x: times[x])
            gain = times[RECURRENCE] / times[best]
            memory = PAPERS_MEMORY.get((name, model))
            said = NOTHING if memory is None else f"{memory[0]} / {memory[1]}"
            listed = ", ".join(f"{x}: {seconds:g}" for x, seconds in times.items())
            rows.append((case.what, model, listed, f"{best} ({gain:.1f}x)", said))
    columns = ("case", "model", "s for 1,000 steps", "fastest, over recurrence", "memory, GB")
    note = "On an H100; memory by recurrence / with chunks of 128."
    return Table("The paper", columns, tuple(rows), note)


def _draw_line(axis: Any, look: dict[str, Any], outcome: Outcome) -> None:
    times = cells(outcome)
    ours = times.pop(OURS).seconds
    ratios = [cell.seconds / ours for cell in times.values()]
    axis.plot(range(len(ratios)), ratios, **look, marker="o", label=outcome.plan.model)
    scaled = [
        (i, r) for i, (r, x) in enumerate(zip(ratios, times.values(), strict=True)) if x.obstacle
    ]
    if scaled:
        axis.plot(*zip(*scaled, strict=True), "o", markerfacecolor="white", color=look["color"])
