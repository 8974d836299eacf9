"""Tables of results: every seed, the mean over seeds, and what the paper says."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from slicekit.studies.plans import Outcome, Tested

NOTHING = "-"
"""What stands where a result is missing."""

PAPERS_STEPS = "100,000"
"""How many steps the paper made at most, in every experiment."""


@dataclass(frozen=True)
class Table:
    """Text in rows and columns.

    Args:
        title: one line.
        columns: the headings.
        rows: as many entries each as there are columns.
        note: what to know about it, or nothing.

    Example:
        >>> print(Table("speed", ("model", "s"), (("bd-slice", "2"),)).as_markdown())
        ### speed
        <BLANKLINE>
        | model    | s |
        | -------- | - |
        | bd-slice | 2 |
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def as_markdown(self) -> str:
        """With columns as wide as they need to be."""
        lines = [self.columns, *self.rows]
        widths = [max(len(line[n]) for line in lines) for n in range(len(self.columns))]
        rule = tuple("-" * width for width in widths)
        shown = [
            "| " + " | ".join(x.ljust(w) for x, w in zip(line, widths, strict=True)) + " |"
            for line in (self.columns, rule, *self.rows)
        ]
        note = ["", self.note] if self.note else []
        return "\n".join([f"### {self.title}", "", *shown, *note])


def means_of(table: Table) -> Table:
    """A table of every seed, its mean and what the paper says, without the seeds."""
    place = table.columns.index("seed")
    rows = [row for row in table.rows if not row[place].isdigit()]
    return replace(table, rows=tuple(rows))


def percent(share: float) -> str:
    """An accuracy in percent, so that only a whole one is 100.

    >>> percent(0.98765), percent(0.999999), percent(1.0)
    ('98.77', '99.99', '100')
    """
    return "100" if share == 1 else f"{min(100 * share, 99.99):.2f}"


def mean_and_deviation(shares: Sequence[float]) -> str:
    """Of accuracies over seeds, in percent; the deviation is that of the sample.

    >>> mean_and_deviation([0.9, 1.0]), mean_and_deviation([0.9]), mean_and_deviation([])
    ('95.00 ± 7.07', '90.00', '-')
    """
    if not shares:
        return NOTHING
    mean = sum(shares) / len(shares)
    if len(shares) == 1:
        return percent(mean)
    deviation = math.sqrt(sum((x - mean) ** 2 for x in shares) / (len(shares) - 1))
    return f"{percent(mean)} ± {100 * deviation:.2f}"


def both(tested: Tested | None) -> str:
    """Accuracy over all positions, and at the last."""
    if tested is None:
        return NOTHING
    return f"{percent(tested.overall)} / {percent(tested.last)}"


def both_means(tested: Iterable[Tested | None]) -> str:
    """The means over seeds of what `both` shows, of those that were tested."""
    known = [x for x in tested if x is not None]
    if not known:
        return NOTHING
    overall = sum(x.overall for x in known) / len(known)
    last = sum(x.last for x in known) / len(known)
    return f"{percent(overall)} / {percent(last)}"


def steps_made(outcomes: Iterable[Outcome]) -> str:
    """How many steps runs made: one number if they agree, else the least and the most."""
    made = {outcome.steps for outcome in outcomes}
    if not made:
        return NOTHING
    least, most = min(made), max(made)
    return f"{most:,}" if least == most else f"{least:,} to {most:,}"


def batches_made(outcomes: Iterable[Outcome]) -> str:
    """Which models had how many sequences in a batch, where they differ; else nothing."""
    models: dict[int, dict[str, None]] = {}
    for outcome in outcomes:
        models.setdefault(outcome.plan.settings.batch, {})[outcome.plan.model] = None
    if len(models) < 2:
        return ""
    told = (f"of {batch:,} {', '.join(models[batch])}" for batch in sorted(models))
    return f"Batches differ: {'; '.join(told)}."


def runs_table(outcomes: Iterable[Outcome]) -> Table:
    """Steps and seconds of every run, and when it was shown a test set if that is told."""
    outcomes = list(outcomes)
    told = any(outcome.opened for outcome in outcomes)
    rows = (
        (
            outcome.plan.name,
            f"{outcome.parameters:,}",
            f"{outcome.steps:,}",
            f"{outcome.best_step:,}",
            NOTHING if outcome.best_accuracy is None else percent(outcome.best_accuracy),
            NOTHING if math.isnan(outcome.seconds) else f"{outcome.seconds:.0f}",
            *((outcome.opened or NOTHING,) if told else ()),
        )
        for outcome in outcomes
    )
    columns = ("run", "parameters", "steps", "best step", "best validation, %", "seconds")
    columns += ("test set opened",) if told else ()
    return Table("Every run", columns, tuple(rows), "Seconds are of training, on one thread.")
