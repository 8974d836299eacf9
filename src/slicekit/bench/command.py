"""What `slicekit bench` does, in order."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slicekit import figures
from slicekit.bench import in_jax, mixer_report, mixers, plots, report, structures, targets
from slicekit.bench.in_jax import JaxRow
from slicekit.bench.memory import Worker, memory_worker
from slicekit.bench.mixers import MixerRow
from slicekit.bench.problems import CASES, Shape
from slicekit.bench.scaling import DIMS, LENGTHS, Curves, of_length, over_dim, over_length
from slicekit.bench.structures import Row
from slicekit.bench.targets import Line
from slicekit.bench.timing import FULL, QUICK, QUICK_TABLE, Effort, keep_freed_memory

SECTIONS = ("targets", "structures", "scaling", "mixers", "jax")


@dataclass(frozen=True)
class Choice:
    """What was asked for.

    Attributes:
        quick: fewer rounds, fewer lines.
        sections: some of `SECTIONS`.
        names: structures of the table of structures, keys of `CASES`.
        shapes: its shapes; none for those that fit the effort.
        folder: where JSON and pictures go.
        pictures: whether to draw any.
        mixers: rows of the table of mixers, keys of `mixers.CASES`.
    """

    quick: bool = False
    sections: tuple[str, ...] = SECTIONS
    names: tuple[str, ...] = tuple(CASES)
    shapes: tuple[Shape, ...] = ()
    folder: Path = Path("bench-results")
    pictures: bool = True
    mixers: tuple[str, ...] = tuple(mixers.CASES)

    @property
    def effort(self) -> Effort:
        """How long to measure targets and curves."""
        return QUICK if self.quick else FULL

    @property
    def table_effort(self) -> Effort:
        """How long to measure a structure."""
        return QUICK_TABLE if self.quick else FULL


@dataclass(eq=False)
class Found:
    """All that was measured so far; faults are contenders that gave wrong results."""

    machine: dict[str, object]
    lines: list[Line] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    lengths: Curves = field(default_factory=dict)
    dims: Curves = field(default_factory=dict)
    mixers: list[MixerRow] = field(default_factory=list)
    jax: list[JaxRow] = field(default_factory=list)
    seconds: float = 0
    faults: list[str] = field(default_factory=list)

    def as_data(self, choice: Choice) -> dict[str, Any]:
        """What the JSON holds."""
        return {
            "machine": self.machine,
            "quick": choice.quick,
            "seconds": self.seconds,
            "faults": self.faults,
            "targets": report.targets_as_data(self.lines),
            "structures": report.structures_as_data(self.rows),
            "scaling": {
                "length": report.curves_as_data(self.lengths),
                "dim": report.curves_as_data(self.dims),
            },
            "mixers": mixer_report.as_data(self.mixers),
            "jax": in_jax.as_data(self.jax),
        }


def run(choice: Choice) -> Found:
    """Measure, print and write what was asked for.

    What was found until an error or an interruption is written all the same.
    """
    keep_freed_memory()
    results = Found(report.machine())
    print(", ".join(f"{name} {value}" for name, value in results.machine.items()))
    progress = report.Progress()
    measures = {
        "targets": _targets,
        "structures": _structures,
        "scaling": _scaling,
        "mixers": _mixers,
        "jax": _jax,
    }
    with memory_worker() as worker, _written(results, choice, progress):
        for section in choice.sections:
            measures[section](results, choice, worker, progress)
    print(f"\n{results.seconds:.0f} s; written to {choice.folder}")
    return results


@contextmanager
def _noted(results: Found, progress: report.Progress) -> Iterator[None]:
    """A contender with wrong results spoils its own figures only."""
    try:
        yield
    except ArithmeticError as error:
        progress.clear()
        results.faults.append(str(error))
        print(f"WRONG: {error}", flush=True)


@contextmanager
def _written(results: Found, choice: Choice, progress: report.Progress) -> Iterator[None]:
    try:
        yield
    finally:
        progress.clear()
        results.seconds = progress.seconds
        report.write_json(choice.folder / "results.json", results.as_data(choice))
        if choice.pictures:
            _draw(results, choice.folder)


def _targets(results: Found, choice: Choice, worker: Worker, progress: report.Progress) -> None:
    report.print_targets_head()
    for about, lines in targets.parts(choice.effort, worker):
        progress.show(about)
        with _noted(results, progress):
            for line in lines():
                progress.clear()
                results.lines.append(line)
                report.print_target(line)
                progress.show(about)
    progress.clear()
    report.print_verdict(results.lines)


def _structures(results: Found, choice: Choice, worker: Worker, progress: report.Progress) -> None:
    for shape in choice.shapes or structures.shapes(choice.effort):
        report.print_structures_head(shape)
        for name in choice.names:
            progress.show(f"{name} at {shape}")
            with _noted(results, progress):
                row = structures.measure(name, shape, choice.table_effort, worker)
                progress.clear()
                results.rows.append(row)
                report.print_structure(row)


def _scaling(results: Found, choice: Choice, worker: Worker, progress: report.Progress) -> None:
    progress.show("lengths")
    results.lengths = over_length(choice.effort, worker)
    progress.clear()
    report.print_scaling("length", LENGTHS, results.lengths)
    progress.show("dims")
    results.dims = over_dim(choice.effort, worker)
    progress.clear()
    report.print_scaling("dim", DIMS, results.dims)


def _mixers(results: Found, choice: Choice, worker: Worker, progress: report.Progress) -> None:
    mixer_report.print_head()
    for name in choice.mixers:
        for width in mixers.WIDTHS[:1] if choice.quick else mixers.WIDTHS:
            progress.show(f"{name} at width {width}")
            for row in mixers.measure(name, width, choice.effort):
                progress.clear()
                results.mixers.append(row)
                mixer_report.print_row(row)
                progress.show(f"{name} at width {width}")
    progress.clear()
    mixer_report.print_verdict(results.mixers)


def _jax(results: Found, choice: Choice, worker: Worker, progress: report.Progress) -> None:
    if missing := in_jax.missing():
        print(f"\nno table of JAX: it needs {', '.join(missing)}")
        return
    in_jax.print_head()
    for problem in in_jax.PROBLEMS:
        progress.show(f"{problem} in JAX")
        with _noted(results, progress):
            rows = list(in_jax.measure(problem, choice.effort))
            progress.clear()
            results.jax += rows
            in_jax.print_rows(rows)


def _draw(results: Found, folder: Path) -> None:
    if not figures.available():
        print("no pictures: they need matplotlib, pip install 'slicekit[plot]'")
        return
    if results.lines:
        plots.plot_targets(results.lines, folder / "targets.png")
    if results.rows:
        plots.plot_structures(results.rows, folder / "structures.png")
    if results.lengths:
        batch = of_length(1).shape.batch
        plots.plot_scaling("length", results.lengths, batch, folder / "length.png")
    if results.dims:
        plots.plot_scaling("dim", results.dims, None, folder / "dim.png")
