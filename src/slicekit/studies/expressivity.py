"""The paper's theorems as measurements: which structures can tell which paths and words apart.

Nothing is trained. Words: how many products A_I h_0 are independent. Read-outs: how well a linear
map of a random CDE's state fits functionals of a path. Groups: the smallest state that a finite
group acts on faithfully.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slicekit import figures
from slicekit.studies.drawn_structures import NAMES
from slicekit.studies.group_actions import ACTIONS, CONSTRUCTED
from slicekit.studies.loop_fits import FUNCTIONALS as LOOP_FUNCTIONALS
from slicekit.studies.path_fits import FUNCTIONALS
from slicekit.studies.plans import Choice, Outcome, Plan
from slicekit.studies.study import Study
from slicekit.studies.tables import NOTHING, Table
from slicekit.studies.word_ranks import NEAR
from slicekit.suggestions import unknown
from slicekit.training import Settings

WORDS, FITS, LOOPS, GROUPS = "words", "read-outs", "loops", "groups"
TASKS = {WORDS: "word-ranks", FITS: "path-fits", LOOPS: "loop-fits", GROUPS: "group-actions"}

OPTIONS: dict[str, dict[str, Any]] = {
    WORDS: {"dims": [8, 16, 32, 64, 128, 256, 1024], "draws": list(range(20)), "length": 6},
    FITS: {"dims": [8, 16, 32, 64, 128], "draws": list(range(5)), "paths": 800, "length": 48},
    LOOPS: {"dims": [64, 128, 256, 512], "draws": list(range(5)), "paths": 1000, "length": 32},
    GROUPS: {"groups": ["a5", "s5", "a4xz5", "z60"]},
}
QUICK: dict[str, dict[str, Any]] = {
    WORDS: {"dims": [16, 32], "draws": [0, 1], "length": 4},
    FITS: {"dims": [16], "draws": [0, 1], "paths": 60, "length": 16},
    LOOPS: {"dims": [16], "draws": [0, 1], "paths": 60, "length": 16},
    GROUPS: {"groups": ["a5"]},
}

SEEDS_APART = 1000
"""Between the first draws of two seeds of the study."""

GOOD = 0.1
"""An error below this counts as a fit."""

LOOPED = ("diagonal", "block-2", "block-4", "block-8")
"""Structures of which it is known what they are blind to, and which are cheap at large dims."""

BLOCKS = {"diagonal": 1, "block-2": 2, "block-4": 4, "block-8": 8, "block-16": 16, "block-32": 32}

MOVAHEDI = "yes, as r grows (Movahedi et al. 2025, Prop. D.2)"
BLOCKED = "yes, only as max b grows (Theorem 4.1)"
THEOREMS = {
    "diagonal": "no (Cirone et al. 2024, Theorem 4.3)",
    **dict.fromkeys([*list(BLOCKS)[1:], "block-log", "log-block-4"], BLOCKED),
    "dense": "yes (Cirone et al. 2024, Theorem B.13)",
    "diagonal-dense": "yes (its dense half)",
    "dplr-4": MOVAHEDI,
    "dplr-16": MOVAHEDI,
    "log-dplr-4": MOVAHEDI,
    "sparse": "yes (Theorem 4.2)",
    "walsh-hadamard": "yes (Theorem 4.3)",
    "orthogonal-4": "no (no state is ever forgotten)",
    "log-diagonal": "no (brackets vanish)",
}
"""Whether a structure has maximal probabilistic expressivity, and who says so."""


class Expressivity(Study):
    """Words, read-outs and groups, for every structure."""

    name = "expressivity"
    summary = "The theorems as measurements: words, read-outs of paths, and groups"
    of_paper = "theorems 4.1 to 4.3"
    models = tuple(dict.fromkeys((*NAMES, *ACTIONS)))
    seeds = (0,)

    def wanted(self, choice: Choice, outcomes: Mapping[str, Outcome]) -> list[Plan]:
        """Every part for every structure that it is about.

        Raises:
            ValueError: if a structure is unknown.
        """
        models_of = {WORDS: NAMES, FITS: NAMES, LOOPS: LOOPED, GROUPS: tuple(ACTIONS)}
        models = self.chosen_models(choice)
        return [
            _plan(choice, part, model, seed)
            for part, names in models_of.items()
            for model in models
            if model in names
            for seed in ((0,) if part == GROUPS else self.chosen_seeds(choice))
        ]

    def chosen_models(self, choice: Choice) -> tuple[str, ...]:
        """The structures to compare.

        Raises:
            ValueError: if a name is unknown.
        """
        for name in choice.models or ():
            if name not in self.models:
                raise unknown("structure", name, self.models)
        return choice.models or self.models

    def lengths(self, choice: Choice) -> tuple[int, ...]:
        """None."""
        return ()

    def words(self, outcome: Outcome) -> tuple[str, ...]:
        """Nothing: sizes and draws are the study's own."""
        return ()

    def tables(self, choice: Choice, outcomes: Sequence[Outcome]) -> list[Table]:
        """Words, how near they are to orthonormal, read-outs, block sizes and groups."""
        words, fits, loops, groups = (of_part(part, outcomes) for part in TASKS)
        return [
            _rank_table(words),
            _distance_table(words),
            *(_fit_table(name, fits) for name in FUNCTIONALS),
            _loop_table(loops),
            _block_table(words, fits),
            _group_table(groups),
        ]

    def plot(self, choice: Choice, outcomes: Sequence[Outcome], path: Path) -> None:
        """Ranks and errors over the dim, and what the size of blocks changes."""
        words, fits, loops, _ = (of_part(part, outcomes) for part in TASKS)
        made, axes = figures.figure(2, 11, 8.4, self.summary, rows=2)
        looks = {name: figures.line(number) for number, name in enumerate(NAMES)}
        for outcome in words:
            ranks = {dim: x["ranks"] for dim, x in _by_dim(outcome).items()}
            _draw_line(axes[0], looks[outcome.plan.model], outcome.plan.model, ranks)
        for outcome in fits:
            errors = {dim: x["area"] for dim, x in _by_dim(outcome).items()}
            _draw_line(axes[1], looks[outcome.plan.model], outcome.plan.model, errors)
        for outcome in loops:
            errors = {dim: x["alternating"] for dim, x in _by_dim(outcome).items()}
            _draw_line(axes[2], looks[outcome.plan.model], outcome.plan.model, errors)
        _draw_blocks(axes[3], words)
        for axis, title in zip(axes, TITLES, strict=True):
            figures.label(axis, title=title, x="block size" if axis is axes[3] else "dim")
            figures.logarithmic(axis, "x")
            figures.logarithmic(axis, "y")
        figures.legend(axes[1], outside=True)
        figures.legend(axes[2])
        figures.legend(axes[3])
        figures.write(made, path)


def _plan(choice: Choice, part: str, model: str, seed: int) -> Plan:
    """A run; another seed draws other matrices."""
    options = dict(QUICK[part] if choice.quick else OPTIONS[part])
    if seed:
        options["draws"] = [SEEDS_APART * seed + draw for draw in options["draws"]]
    place = f"{part}/{model}" + (f"/seed-{seed}" if seed else "")
    return Plan(place, TASKS[part], model, Settings(steps=1, seed=seed), (), options)


def of_part(part: str, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The runs of a part, in the order of the structures."""
    order = {name: number for number, name in enumerate(Expressivity.models)}
    of_this = [x for x in outcomes if x.plan.name.startswith(f"{part}/")]
    return sorted(of_this, key=lambda x: order.get(x.plan.model, len(order)))


def _by_dim(outcome: Outcome) -> dict[int, dict[str, Any]]:
    return {int(dim): x for dim, x in outcome.measured["dims"].items()}


def _dims(outcomes: Sequence[Outcome]) -> list[int]:
    return sorted({dim for x in outcomes for dim in _by_dim(x)})


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and the deviation of the sample."""
    mean = sum(values) / len(values)
    rest = sum((x - mean) ** 2 for x in values) / max(1, len(values) - 1)
    return mean, rest**0.5


def _shown(values: Sequence[float] | None) -> str:
    if not values:
        return NOTHING
    mean, spread = mean_and_spread(values)
    return f"{mean:.3g} ± {spread:.1g}" if spread > 1e-6 * abs(mean) else f"{mean:.3g}"


def _share(values: Sequence[float] | None, limit: float) -> str:
    if not values:
        return NOTHING
    return f"{100 * sum(x < limit for x in values) / len(values):.0f} %"


def _rank_table(outcomes: Sequence[Outcome]) -> Table:
    dims, rows = _dims(outcomes), []
    for x in outcomes:
        by_dim, model = _by_dim(x), x.plan.model
        ranks = [_shown(by_dim[dim]["ranks"]) if dim in by_dim else NOTHING for dim in dims]
        unseen = x.measured["invisible"]
        rows.append((model, *ranks, str(unseen or "more than 8"), THEOREMS[model]))
    words = max((x.measured["words"] for x in outcomes), default=0)
    columns = ("structure", *(f"dim {x}" for x in dims), "invisible from", "maximally expressive")
    note = (
        f"How many of the vectors A_I h_0 of all {words} words over two letters are independent: "
        "mean and deviation over the draws. Invisible: the alternating sum over so many letters "
        "vanishes at any dim, and with it the alternating iterated integral of so many channels."
    )
    return Table("Independent words", columns, tuple(rows), note)


def _distance_table(outcomes: Sequence[Outcome]) -> Table:
    dims, rows = _dims(outcomes), []
    for x in outcomes:
        by_dim = _by_dim(x)
        far = [by_dim[dim]["distances"] if dim in by_dim else None for dim in dims]
        rows.append((x.plan.model, *(_shown(each) for each in far)))
        shares = [_share(each, NEAR) for each in far]
        rows.append((f"... within {NEAR}", *shares))
    note = (
        "The largest |<A_I h_0, A_J h_0> / N - δ_IJ| over words of at most two letters, which the "
        f"proofs send to 0; below it the share of draws in which it is under {NEAR}."
    )
    columns = ("structure", *(f"dim {x}" for x in dims))
    return Table("Distance from orthonormal words", columns, tuple(rows), note)


def _fit_table(functional: str, outcomes: Sequence[Outcome]) -> Table:
    dims, rows = _dims(outcomes), []
    for x in outcomes:
        by_dim = _by_dim(x)
        errors = [by_dim[dim][functional] if dim in by_dim else None for dim in dims]
        last = next((each for each in reversed(errors) if each), None)
        rows.append((x.plan.model, *(_shown(each) for each in errors), _share(last, GOOD)))
    columns = ("structure", *(f"dim {x}" for x in dims), f"draws under {GOOD}")
    note = (
        "Error on new paths, as a share of the functional's deviation: mean and deviation over the "
        "draws of the matrices; draws at the largest dim that was tried."
    )
    return Table(f"Read-outs: {NAMED[functional]}", columns, tuple(rows), note)


TITLES = (
    "independent words",
    "error of the Lévy area",
    "error of the alternating integral",
    "distance from orthonormal words",
)
NAMED = {
    "product": "the product x y at the end, which needs no order",
    "area": "the Lévy area of x and y",
    "integral": "the iterated integral of dx dy dx",
    "area²": "the Lévy area squared",
}


def _loop_table(outcomes: Sequence[Outcome]) -> Table:
    dims = _dims(outcomes)
    rows = [
        (
            x.plan.model,
            functional,
            *(_shown(_by_dim(x).get(dim, {}).get(functional)) for dim in dims),
        )
        for functional in LOOP_FUNCTIONALS
        for x in outcomes
    ]
    note = (
        "Errors as above, on closed paths in four channels: an area, the product of two, and the "
        "alternating iterated integral, the Pfaffian of all areas, which blocks of 2 lack."
    )
    columns = ("structure", "functional", *(f"dim {x}" for x in dims))
    return Table("Read-outs: what blocks of 2 are blind to", columns, tuple(rows), note)


def _block_table(words: Sequence[Outcome], fits: Sequence[Outcome]) -> Table:
    by_name = {x.plan.model: x for x in fits}
    rows = []
    for x in words:
        if x.plan.model not in BLOCKS:
            continue
        block, by_dim = BLOCKS[x.plan.model], _by_dim(x)
        dim = max(by_dim)
        near = _shown(by_dim[dim]["distances"])
        fit = by_name.get(x.plan.model)
        errors = _by_dim(fit)[max(_by_dim(fit))] if fit else {}
        shown = [_shown(errors.get(name)) for name in FUNCTIONALS]
        rows.append((str(block), near, f"{block**-0.5:.3g}", *shown))
    columns = ("block", "distance", "1/√b", *FUNCTIONALS)
    note = (
        "At the largest dims above. Theorem 4.1 bounds the distance by a multiple of 1/√b, for any "
        "number of blocks."
    )
    return Table("What the size of blocks changes", columns, tuple(rows), note)


def _group_table(outcomes: Sequence[Outcome]) -> Table:
    groups = list(dict.fromkeys(name for x in outcomes for name in x.measured))
    rows = [
        (x.plan.model, *(_smallest(x.plan.model, x.measured.get(name)) for name in groups))
        for x in outcomes
    ]
    note = (
        "The smallest dim on which the group acts faithfully, every element a token; each is an "
        "example of that structure whose matrices were multiplied out against the group's table. "
        "Blocks are filled up, so the dim is a multiple of theirs. At most: that of a construction "
        "by permutations; a smaller one is not excluded."
    )
    return Table("Groups", ("structure", *groups), tuple(rows), note)


def _smallest(model: str, measured: dict[str, Any] | None) -> str:
    if measured is None:
        return NOTHING
    if measured["dim"] is None:
        return "none known" if model in CONSTRUCTED else "at no dim"
    return f"at most {measured['dim']}" if model in CONSTRUCTED else str(measured["dim"])


def _draw_line(
    axis: Any, look: dict[str, Any], name: str, values: Mapping[int, Sequence[float]]
) -> None:
    dims = sorted(values)
    points = [mean_and_spread(values[dim]) for dim in dims]
    means, spreads = [x[0] for x in points], [x[1] for x in points]
    axis.errorbar(dims, means, yerr=spreads, label=name, capsize=2, **look)


def _draw_blocks(axis: Any, outcomes: Sequence[Outcome]) -> None:
    ranks = {
        BLOCKS[x.plan.model]: _by_dim(x)[max(_by_dim(x))]["distances"]
        for x in outcomes
        if x.plan.model in BLOCKS
    }
    if not ranks:
        return
    _draw_line(axis, figures.line(0), "measured", ranks)
    sizes = sorted(ranks)
    first = mean_and_spread(ranks[sizes[0]])[0]
    bound = [first * (sizes[0] / size) ** 0.5 for size in sizes]
    axis.plot(sizes, bound, color="grey", linestyle="--", label="a multiple of 1/√b")
