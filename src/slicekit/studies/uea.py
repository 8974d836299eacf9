"""The paper's experiments with the UEA archive, and what it does not ask: new sets, and gaps."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from slicekit import figures
from slicekit.catalogue.series import DATA_SETS as SIZES
from slicekit.studies import uea_default, uea_paper, uea_robustness
from slicekit.studies.classifiers import NAMES
from slicekit.studies.line_ups import SERIES, expand
from slicekit.studies.plans import Choice, Outcome, Plan
from slicekit.studies.study import Study
from slicekit.studies.tables import Table
from slicekit.suggestions import unknown
from slicekit.tasks.archive_task import has_classes, is_on_disk, on_disk

PARTS = {"paper": uea_paper, "default": uea_default, "robustness": uea_robustness}
"""Each knows its plans, its tables and its panels of the picture."""


class UEA(Study):
    """Classification of multivariate time series, on the data sets that are on the disk.

    `paper`: the paper's models on its data sets, with the permutations of its five seeds, both as
    JAX made them before 0.5 and since; seed n is its n-th. `default`: `SliceClassifier()` as it
    comes on all data sets, with the archive's own split, beside four others. `robustness`: the
    same where a share of the observations is dropped.
    """

    name = "uea"
    summary = "Time series of the UEA archive: the paper's models, our classifier, gaps"
    models = SERIES
    of_paper = "tables 3 and 5, figure 5"
    needs_data = True

    def glimpse(self, choice: Choice) -> Choice:
        """The paper's smallest data set that is there, a linear model of each kind."""
        smallest = [x for x in ("SelfRegulationSCP1", *SIZES) if is_on_disk(x, choice.data)]
        few = replace(choice, quick=True, parts=("paper",), models=("bd-slice", "lru"))
        return replace(few, sets=tuple(smallest[:1]) or None)

    def wanted(self, choice: Choice, outcomes: Mapping[str, Outcome]) -> list[Plan]:
        """Every run of every part.

        Raises:
            ValueError: if a part, data set or model is unknown, or there are no data.
        """
        sets, models = self._sets(choice), self.chosen_models(choice)
        plans = []
        for part in self.parts(choice):
            plans += PARTS[part].plans(choice, sets, models)
        return plans

    def parts(self, choice: Choice) -> tuple[str, ...]:
        """Those to do.

        Raises:
            ValueError: if a name is unknown.
        """
        for name in choice.parts or ():
            if name not in PARTS:
                raise unknown("part", name, PARTS)
        return choice.parts or tuple(PARTS)

    def chosen_models(self, choice: Choice) -> tuple[str, ...]:
        """The paper's models, and the classifiers."""
        known = (*SERIES, *NAMES)
        models = expand(choice.models or known)
        for name in models:
            if name not in known:
                raise unknown("model", name, known)
        return models

    def _sets(self, choice: Choice) -> list[str]:
        for name in choice.sets or ():
            if not is_on_disk(name, choice.data):
                raise ValueError(f"no data set {name} on the disk; see: slicekit data --help")
            if not has_classes(name, choice.data):
                raise ValueError(f"{name} asks for numbers; expected a data set with classes")
        sets = choice.sets or [x for x in on_disk(choice.data) if has_classes(x, choice.data)]
        if not sets:
            raise ValueError(
                "no data set with classes on the disk; give their folder: --data FOLDER, or see: "
                "slicekit data --help"
            )
        return list(sets)

    def lengths(self, choice: Choice) -> tuple[int, ...]:
        """None: series are as long as they are."""
        return ()

    def lengths_of(self, outcome: Outcome) -> tuple[int, ...]:
        """None, likewise."""
        return ()

    def covering(self, choice: Choice, outcomes: Sequence[Outcome]) -> Choice:
        """Also the parts that were done before."""
        before = {x.plan.name.split("/")[0] for x in outcomes}
        parts = [part for part in PARTS if part in before or part in self.parts(choice)]
        return replace(super().covering(choice, outcomes), parts=tuple(parts))

    def tables(self, choice: Choice, outcomes: Sequence[Outcome]) -> list[Table]:
        """Those of every part."""
        tables = []
        for part in self.parts(choice):
            tables += PARTS[part].tables(_of(part, outcomes))
        return tables

    def plot(self, choice: Choice, outcomes: Sequence[Outcome], path: Path) -> None:
        """The panels of each part of which something is finished."""
        parts = [part for part in self.parts(choice) if _of(part, outcomes)]
        panels = [(part, plot) for part in parts for plot in PARTS[part].PANELS]
        columns, rows = min(len(panels), 2), (len(panels) + 1) // 2
        made, axes = figures.figure(columns, 6.5 * columns, 4.8 * rows, self.summary, rows=rows)
        for (part, plot), axis in zip(panels, axes, strict=False):
            plot(axis, _of(part, outcomes))
        for axis in axes[len(panels) :]:
            axis.remove()
        figures.write(made, path)

    def absent(self, choice: Choice) -> tuple[str, ...]:
        """The paper's data sets that are not on the disk."""
        return tuple(name for name in SIZES if not is_on_disk(name, choice.data))

    def recorded(self, outcomes: Sequence[Outcome]) -> Choice:
        """Only the parts of which there is something."""
        parts = tuple(part for part in PARTS if _of(part, outcomes))
        return replace(super().recorded(outcomes), parts=parts)

    def page_tables(self, choice: Choice, outcomes: Sequence[Outcome]) -> list[Table]:
        """Without every seed."""
        return [x for x in self.tables(choice, outcomes) if x.title != uea_paper.EVERY_SEED]

    def short_tables(self, choice: Choice, outcomes: Sequence[Outcome]) -> list[Table]:
        """Of the paper's models a line each, with what the paper says; of gaps the means."""
        tables = []
        for part in self.parts(choice):
            tables += PARTS[part].short_tables(_of(part, outcomes))
        return tables

    def known_plans(self, outcomes: Mapping[str, Outcome]) -> list[Plan]:
        """The paper's models on all its data sets."""
        return uea_paper.plans(Choice(), tuple(SIZES), SERIES)

    def words(self, outcome: Outcome) -> tuple[str, ...]:
        """Also the part and the data set; a classifier takes no steps."""
        part = outcome.plan.name.split("/")[0]
        where = ("--parts", part, "--sets", outcome.plan.task)
        return (*where, *(super().words(outcome) if part == "paper" else ()))


def _of(part: str, outcomes: Sequence[Outcome]) -> list[Outcome]:
    return [x for x in outcomes if x.plan.name.startswith(f"{part}/")]
