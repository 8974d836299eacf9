"""How the settings of `SliceClassifier()` were chosen: on training data alone, many sets of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from slicekit import figures
from slicekit.studies.plans import Choice, Outcome, Plan
from slicekit.studies.settings_race import DEFAULT, SETTINGS
from slicekit.studies.study import Study
from slicekit.studies.tables import NOTHING, Table, percent
from slicekit.studies.training_parts import FAMILIES, LONG, names
from slicekit.suggestions import unknown
from slicekit.training import Settings

TASK = "estimator-settings"
QUICK = ("motifs", "order")


class EstimatorSettings(Study):
    """Every setting on every set, and for each set the one that all others would choose.

    A run is a split of one set, and lets all settings read the same features. The rows of its
    tables are sets, so that `models` names these.
    """

    name = "estimator-settings"
    summary = "How the settings of SliceClassifier() were chosen, inside training data"
    models = tuple(FAMILIES)
    seeds = (0, 1)

    def wanted(self, choice: Choice, outcomes: Mapping[str, Outcome]) -> list[Plan]:
        """Large and small splits of every set.

        Raises:
            ValueError: if a set is not at hand.
        """
        options = {} if choice.data is None else {"data": choice.data}
        if choice.quick:
            options |= {"groups": 1}
        return [
            Plan(
                f"{name}/{'few' if few else 'most'}/seed-{seed}",
                TASK,
                name,
                Settings(steps=1, seed=seed),
                (),
                options | {"few": few},
            )
            for name in self.chosen_models(choice)
            for few in (False, True)
            for seed in self.chosen_seeds(choice)
        ]

    def chosen_models(self, choice: Choice) -> tuple[str, ...]:
        """The sets.

        Raises:
            ValueError: if one is not at hand.
        """
        known = names(choice.data)
        for name in choice.models or ():
            if name not in known:
                raise unknown("set", name, known)
        everything = QUICK if choice.quick else tuple(x for x in known if x not in LONG)
        return choice.models or everything

    def shown_models(self, choice: Choice) -> tuple[str, ...]:
        """The sets of the tables."""
        return choice.models or self.models

    def words(self, outcome: Outcome) -> tuple[str, ...]:
        """Nothing: splits are the study's own."""
        return ()

    def lengths(self, choice: Choice) -> tuple[int, ...]:
        """None: series are as long as they are."""
        return ()

    def tables(self, choice: Choice, outcomes: Sequence[Outcome]) -> list[Table]:
        """Accuracies by set, and what leaving out one set at a time would choose."""
        scores = accuracies(outcomes)
        return [_accuracy_table(scores), _left_out_table(scores)] if scores else []

    def plot(self, choice: Choice, outcomes: Sequence[Outcome], path: Path) -> None:
        """The mean over the sets of every setting, against that of the default."""
        scores = accuracies(outcomes)
        made, (axis,) = figures.figure(1, 6.5, 4.2)
        gains = [100 * (_mean(scores, x) - _mean(scores, DEFAULT)) for x in SETTINGS]
        axis.bar(range(len(SETTINGS)), gains)
        axis.axhline(0, color="grey", linewidth=0.8)
        figures.names_below(axis, SETTINGS)
        figures.label(axis, title=f"mean of {len(scores)} sets", y="points above the default")
        figures.write(made, path)


def accuracies(outcomes: Sequence[Outcome]) -> dict[str, dict[str, float]]:
    """By set and setting: the mean over its splits, large and small ones alike."""
    shares: dict[str, list[dict[str, float]]] = {}
    for x in outcomes:
        cases = x.measured.get("cases", 0)
        if cases:
            of_seed = {name: x.measured[name] / cases for name in SETTINGS}
            shares.setdefault(x.plan.model, []).append(of_seed)
    return {
        data_set: {name: sum(x[name] for x in splits) / len(splits) for name in SETTINGS}
        for data_set, splits in shares.items()
    }


def chosen_without(scores: Mapping[str, Mapping[str, float]], left: str) -> str:
    """The setting that is the best on average over all other sets, the default among equals.

    >>> few = {"a": dict.fromkeys(SETTINGS, 0.5), "b": dict.fromkeys(SETTINGS, 0.5)}
    >>> chosen_without(few, "a") == DEFAULT
    True
    """
    others = {name: of_set for name, of_set in scores.items() if name != left} or scores
    ordered = (DEFAULT, *(x for x in SETTINGS if x != DEFAULT))
    return max(ordered, key=lambda setting: round(_mean(others, setting), 9))


def _mean(scores: Mapping[str, Mapping[str, float]], setting: str) -> float:
    return sum(of_set[setting] for of_set in scores.values()) / max(1, len(scores))


def _accuracy_table(scores: Mapping[str, Mapping[str, float]]) -> Table:
    rows = [(name, *(percent(of_set[x]) for x in SETTINGS)) for name, of_set in scores.items()]
    rows.append((f"mean of {len(scores)}", *(percent(_mean(scores, x)) for x in SETTINGS)))
    note = (
        "Accuracy in % on cases held out of training data: a third of every class, and all but "
        "five of it where there are enough, on average over both and the seeds. Filters of "
        "increments are blocks of their own (apart) or with those of values (together); the number "
        f"is of cases that speak for equal weights. The default is {DEFAULT}. No test set was read."
    )
    return Table("Settings inside training data", ("set", *SETTINGS), tuple(rows), note)


def _left_out_table(scores: Mapping[str, Mapping[str, float]]) -> Table:
    rows, sums = [], [0.0, 0.0]
    for name, of_set in scores.items():
        setting = chosen_without(scores, name)
        for place, x in enumerate((setting, DEFAULT)):
            sums[place] += of_set[x]
        rows.append((name, setting, percent(of_set[setting]), percent(of_set[DEFAULT])))
    means = [percent(x / len(scores)) for x in sums]
    rows.append((f"mean of {len(scores)}", NOTHING, *means))
    columns = ("set", "chosen on all others", "its accuracy here", f"that of {DEFAULT}")
    note = "What a user of a new set would have: the setting was chosen without having seen it."
    return Table("Leaving out one set at a time", columns, tuple(rows), note)
