"""The baselines on time series: the sizes of the comparison for each of its data sets.

LRU, S5, S6 and Mamba are stacks of `GatedBlock`s on embedded elements whose outputs are averaged;
NCDE, NRDE and Log-NCDE are one layer on the series itself, read out at the end. Sizes and rates are
the paper's (those of its search); the recipe `fast` trains less, as for the models in `series`. All
others of `BASELINES` have two blocks of width 64 there, on which the paper says nothing.

Whether a model was given time as a channel differs by data set; here the task settles it for all
models alike (`slicekit train SelfRegulationSCP1 --task-option time=true`), and likewise their
scaling. The paper's solver takes steps of a fixed length in time; here they are a whole number a
window.

Glossary: hidden and depth are width and number of layers of a field's network; window and log_depth
are those of log-signatures; dim is the size of the state; steps are the solver's, in an observation
or a window; blocks are those of S5's initialisation.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from slicekit import mixers
from slicekit.catalogue.baselines import BASELINES
from slicekit.catalogue.recipes import FAST, PAPER, Blocks, Recipe, single
from slicekit.catalogue.series import (
    DATA_SETS,
    HIGHEST_RATE,
    OTHER,
    PUBLISHED,
    SETTINGS,
    SPEED_UP,
)
from slicekit.catalogue.sizes import Sizes
from slicekit.layers import BatchNorm, GatedBlock, Last, LayerNorm
from slicekit.mixers import FixedStep, Heun
from slicekit.training.settings import Settings

Table = dict[str, dict[str, Any]]
"""Sizes and rate by data set."""

Norm = BatchNorm | LayerNorm

LRU: Table = {
    "EigenWorms": dict(width=64, dim=64, layers=4, rate=1e-3),
    "EthanolConcentration": dict(width=64, dim=16, layers=6, rate=1e-5),
    "Heartbeat": dict(width=128, dim=256, layers=2, rate=1e-4),
    "MotorImagery": dict(width=16, dim=256, layers=6, rate=1e-3),
    "SelfRegulationSCP1": dict(width=64, dim=16, layers=2, rate=1e-3),
    "SelfRegulationSCP2": dict(width=64, dim=16, layers=2, rate=1e-3),
}

S5: Table = {
    "EigenWorms": dict(width=64, dim=16, layers=2, blocks=8, rate=1e-4),
    "EthanolConcentration": dict(width=128, dim=16, layers=2, blocks=8, rate=1e-5),
    "Heartbeat": dict(width=128, dim=16, layers=4, blocks=4, rate=1e-3),
    "MotorImagery": dict(width=16, dim=64, layers=6, blocks=4, rate=1e-3),
    "SelfRegulationSCP1": dict(width=128, dim=16, layers=6, blocks=8, rate=1e-3),
    "SelfRegulationSCP2": dict(width=16, dim=64, layers=2, blocks=2, rate=1e-4),
}

S6: Table = {
    "EigenWorms": dict(width=16, dim=64, layers=4, rate=1e-3),
    "EthanolConcentration": dict(width=16, dim=16, layers=4, rate=1e-5),
    "Heartbeat": dict(width=16, dim=16, layers=4, rate=1e-3),
    "MotorImagery": dict(width=16, dim=256, layers=4, rate=1e-3),
    "SelfRegulationSCP1": dict(width=64, dim=16, layers=2, rate=1e-4),
    "SelfRegulationSCP2": dict(width=16, dim=256, layers=2, rate=1e-3),
}

MAMBA: Table = {
    "EigenWorms": dict(width=16, dim=64, layers=6, kernel=2, expand=1, rate=1e-3),
    "EthanolConcentration": dict(width=64, dim=256, layers=4, kernel=4, expand=4, rate=1e-3),
    "Heartbeat": dict(width=64, dim=256, layers=4, kernel=2, expand=4, rate=1e-4),
    "MotorImagery": dict(width=128, dim=64, layers=2, kernel=3, expand=1, rate=1e-5),
    "SelfRegulationSCP1": dict(width=128, dim=16, layers=2, kernel=4, expand=1, rate=1e-5),
    "SelfRegulationSCP2": dict(width=64, dim=64, layers=6, kernel=2, expand=2, rate=1e-4),
}

NCDE: Table = {
    "EigenWorms": dict(dim=128, depth=3, hidden=128, steps=1, rate=1e-3),
    "EthanolConcentration": dict(dim=128, depth=4, hidden=128, steps=1, rate=1e-3),
    "Heartbeat": dict(dim=128, depth=4, hidden=128, steps=2, rate=1e-3),
    "MotorImagery": dict(dim=16, depth=4, hidden=128, steps=1, rate=1e-3),
    "SelfRegulationSCP1": dict(dim=128, depth=4, hidden=128, steps=1, rate=1e-4),
    "SelfRegulationSCP2": dict(dim=128, depth=4, hidden=128, steps=1, rate=1e-3),
}

NRDE: Table = {
    "EigenWorms": dict(dim=64, depth=3, hidden=64, log_depth=2, window=4, steps=1, rate=1e-3),
    "EthanolConcentration": dict(
        dim=64, depth=4, hidden=128, log_depth=1, window=1, steps=1, rate=1e-3
    ),
    "Heartbeat": dict(dim=64, depth=3, hidden=128, log_depth=2, window=2, steps=3, rate=1e-3),
    "MotorImagery": dict(dim=128, depth=4, hidden=128, log_depth=1, window=1, steps=1, rate=1e-4),
    "SelfRegulationSCP1": dict(
        dim=64, depth=4, hidden=128, log_depth=1, window=1, steps=1, rate=1e-3
    ),
    "SelfRegulationSCP2": dict(
        dim=128, depth=4, hidden=128, log_depth=1, window=1, steps=1, rate=1e-4
    ),
}

LOG_NCDE: Table = {
    "EigenWorms": dict(depth=2, hidden=32, steps=1),
    "EthanolConcentration": dict(depth=3, hidden=64, steps=1),
    "Heartbeat": dict(depth=3, hidden=128, steps=3),
    "MotorImagery": dict(depth=3, hidden=64, steps=3),
    "SelfRegulationSCP1": dict(depth=3, hidden=128, steps=9),
    "SelfRegulationSCP2": dict(depth=2, hidden=32, steps=2),
}
"""The rest is as for all structures, in `series.DATA_SETS`."""

OTHER_SET = "SelfRegulationSCP1"
"""Whose sizes serve for data sets on which the paper says nothing."""

PLAIN = dict(width=64, layers=2, rate=1e-3)
"""Of the baselines that the paper has on tokens only."""

FIELD_EVALUATIONS = 100
"""Steps from one validation of a nonlinear CDE to the next in the paper."""


@dataclass(frozen=True)
class Wanted:
    """What a recipe is asked for.

    Attributes:
        data_set: its name.
        channels: of its series.
        recipe: `fast` or `paper`.
    """

    data_set: str
    channels: int
    recipe: str


def series_baseline(name: str, data_set: str, channels: int, recipe: str, sizes: Sizes) -> Recipe:
    """The recipe of a baseline for a data set.

    Args:
        name: one of `BASELINES`.
        data_set: its name.
        channels: of its series.
        recipe: `fast` or `paper`.
        sizes: those that the user chose.
    """
    make = MAKERS.get(name)
    if make is None:
        baseline, chosen = BASELINES[name], {**PLAIN, **sizes}
        return Recipe(
            baseline.blocks,
            _settings(recipe, chosen["rate"]),
            chosen["width"],
            chosen["layers"],
            dropout=0.1,
            final_norm=baseline.final_norm,
        )
    table, build = make
    row = {**table.get(data_set, table[OTHER_SET]), **sizes}
    return build(row, Wanted(data_set, channels, recipe))


def series_baseline_sizes(name: str) -> tuple[str, ...]:
    """The sizes that the name of a baseline may carry on series."""
    row = MAKERS[name][0][OTHER_SET] if name in MAKERS else PLAIN
    return tuple(size for size in row if size not in ("rate", "layers"))


def _settings(recipe: str, rate: float, **more: Any) -> Settings:
    if recipe == PAPER:
        return replace(PUBLISHED, rate=rate, final_rate=rate, **more)
    assert recipe == FAST
    more.pop("evaluate_every", None)
    return replace(SETTINGS, rate=min(SPEED_UP * rate, HIGHEST_RATE), **more)


def _gated(mixer: Callable[[int], nn.Module], norm: Norm) -> Blocks:
    def blocks(width: int, layers: int, dropout: float) -> list[nn.Module]:
        return [GatedBlock(mixer(width), width, norm, dropout) for _ in range(layers)]

    return blocks


def _stack(
    row: dict[str, Any],
    mixer: Callable[[int], nn.Module],
    norm: Norm,
    dropout: float,
    wanted: Wanted,
) -> Recipe:
    settings = _settings(wanted.recipe, row["rate"])
    return Recipe(_gated(mixer, norm), settings, row["width"], row["layers"], dropout=dropout)


def _lru(row: dict[str, Any], wanted: Wanted) -> Recipe:
    def mixer(width: int) -> nn.Module:
        return mixers.LRU(width, row["dim"], r_min=0.0, r_max=1.0, max_phase=6.28)

    return _stack(row, mixer, BatchNorm(), 0.1, wanted)


def _s5(row: dict[str, Any], wanted: Wanted) -> Recipe:
    def mixer(width: int) -> nn.Module:
        return mixers.S5(width, row["dim"], blocks=row["blocks"])

    return _stack(row, mixer, BatchNorm(), 0.05, wanted)


def _s6(row: dict[str, Any], wanted: Wanted) -> Recipe:
    return _stack(row, lambda width: mixers.S6(width, dim=row["dim"]), LayerNorm(), 0.1, wanted)


def _mamba(row: dict[str, Any], wanted: Wanted) -> Recipe:
    def mixer(width: int) -> nn.Module:
        return mixers.Mamba(width, dim=row["dim"], kernel=row["kernel"], expand=row["expand"])

    return _stack(row, mixer, LayerNorm(), 0.1, wanted)


def _ncde(row: dict[str, Any], wanted: Wanted) -> Recipe:
    channels, solver = wanted.channels, FixedStep(Heun(), row["steps"])

    def layer() -> nn.Module:
        field = {"hidden": row["hidden"], "depth": row["depth"]}
        return mixers.NCDE(channels, row["dim"], solver=solver, **field)

    return _on_the_series(layer, row["dim"], wanted, row["rate"])


def _rough(row: dict[str, Any], mixer: type[nn.Module], wanted: Wanted) -> Callable[[], nn.Module]:
    channels, solver = wanted.channels, FixedStep(Heun(), row["steps"])
    sizes = {key: row[key] for key in ("window", "log_depth", "hidden", "depth")}
    return lambda: mixer(channels, row["dim"], solver=solver, **sizes)


def _nrde(row: dict[str, Any], wanted: Wanted) -> Recipe:
    return _on_the_series(_rough(row, mixers.NRDE, wanted), row["dim"], wanted, row["rate"])


def _log_ncde(row: dict[str, Any], wanted: Wanted) -> Recipe:
    of_set = DATA_SETS.get(wanted.data_set, OTHER)
    row = {"dim": of_set.dim, "window": of_set.window, "log_depth": of_set.depth, **row}
    layer = _rough(row, mixers.LogNCDE, wanted)
    return _on_the_series(layer, row["dim"], wanted, of_set.rate, of_set.penalty)


def _on_the_series(
    layer: Callable[[], nn.Module], dim: int, wanted: Wanted, rate: float, penalty: float = 0.0
) -> Recipe:
    """One bare layer, read out at the end."""
    settings = _settings(wanted.recipe, rate, penalty=penalty, evaluate_every=FIELD_EVALUATIONS)
    return Recipe(single(layer), settings, dim, pool=Last(), embed=False)


MAKERS: dict[str, tuple[Table, Callable[[dict[str, Any], Wanted], Recipe]]] = {
    "lru": (LRU, _lru),
    "s5": (S5, _s5),
    "s6": (S6, _s6),
    "mamba": (MAMBA, _mamba),
    "ncde": (NCDE, _ncde),
    "nrde": (NRDE, _nrde),
    "log-ncde": (LOG_NCDE, _log_ncde),
}
"""The baselines of the comparison: their sizes by data set, and what makes a recipe of a row."""
