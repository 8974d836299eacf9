"""Models for time series: the paper's sizes for each of its data sets, as plain data.

One bare layer on the series itself, driven by its differences, with the Log-ODE method over windows
of observations: no embedding, norm, skip or dropout. The states at the ends of the windows, h_0
among them, are averaged, and a linear map gives the logits.

Sizes, windows, depths, penalties and initial deviations are the paper's. The recipe `fast` trains
less: 150 to 500 steps at ten times the rate, which falls as a cosine, in place of up to 100,000 at
a constant one; both by the validation cases of SelfRegulationSCP1. The recipe `paper` has its way.

The authors divide all log-signatures of Heartbeat by 10 (with DPLR, and those of MotorImagery too,
by 100); here the increments are, so that brackets, which are quadratic in them, become smaller
still.

With a `width` in its name, a model maps paths to paths, and can be stacked: the series are embedded
in so many channels, a block's states are read into as many, bent and normed, and that path, with an
element for each window of the block, drives the next block, over windows of its own.

Glossary: window is the number of observations of a log-signature; dim is d_h; penalty is λ; width
is the number of channels between stacked layers; further is the window of the layers after the
first, in elements of the path that drives them.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from slicekit.catalogue.recipes import FAST, PAPER, Recipe, single
from slicekit.catalogue.sizes import Sizes
from slicekit.flows import Euler, LogODE
from slicekit.layers import Block, Differences, FirstInput, SequenceModel, SLiCE
from slicekit.structures import (
    DPLR,
    BlockDiagonal,
    Dense,
    Diagonal,
    DiagonalDense,
    Sparse,
    Structure,
    WalshHadamard,
)
from slicekit.training.settings import Settings

DEVIATION = 0.25
"""Initial standard deviation of the paper's matrices, before the factor of the structure."""

SETTINGS = Settings(
    steps=500,
    batch=32,
    warmup=0.05,
    decay=0.0,
    evaluate_every=25,
    checkpoint_every=100,
)

SPEED_UP, HIGHEST_RATE = 10, 3e-3
"""How many times the paper's rate is taken, and the highest rate to take."""

PUBLISHED = Settings(
    steps=100_000,
    batch=32,
    warmup=0.0,
    decay=0.0,
    clip=None,
    evaluate_every=1000,
    checkpoint_every=1000,
    patience=11,
)
"""The paper's, but for rate and penalty."""


@dataclass(frozen=True)
class DataSet:
    """What the paper chose for a data set, by search, for all structures alike.

    Attributes:
        channels: of the series, time included.
        window: how many observations a log-signature is of.
        depth: of the log-signatures; that of diagonal matrices, which commute, is 1.
        dim: size of the state.
        rate: the paper's learning rate.
        penalty: weight of the mean norm of A^1, ..., A^dω.
        steps: how long we train, fewer where a step is long.
    """

    channels: int
    window: int
    depth: int
    dim: int
    rate: float
    penalty: float = 0.0
    steps: int = SETTINGS.steps


DATA_SETS: dict[str, DataSet] = {
    "EigenWorms": DataSet(7, window=12, depth=2, dim=128, rate=1e-3, penalty=1e-3),
    "EthanolConcentration": DataSet(4, window=1, depth=1, dim=64, rate=1e-4, penalty=1e-6),
    "Heartbeat": DataSet(62, window=2, depth=2, dim=16, rate=1e-3, penalty=1e-6),
    "MotorImagery": DataSet(64, window=16, depth=2, dim=16, rate=1e-3, penalty=1e-3, steps=150),
    "SelfRegulationSCP1": DataSet(6, window=16, depth=2, dim=64, rate=1e-4),
    "SelfRegulationSCP2": DataSet(
        7, window=4, depth=2, dim=128, rate=1e-4, penalty=1e-3, steps=150
    ),
}
"""The paper's data sets."""

OTHER = DataSet(1, window=4, depth=2, dim=64, rate=1e-4)
"""For all others, on which the paper says nothing."""

STRUCTURES: dict[str, Callable[..., Structure]] = {
    "bd-slice": lambda dim, block=4: BlockDiagonal(dim, block, scale=DEVIATION),
    "dplr-slice": lambda dim, rank=4: DPLR(dim, rank, scale=DEVIATION),
    "wh-slice": lambda dim: WalshHadamard(dim, bounded=False, scale=DEVIATION),
    "s-slice": lambda dim, density=0.1: Sparse(
        dim, density=density, scale=DEVIATION * density**0.5
    ),
    "de-lncde": lambda dim: Dense(dim, scale=DEVIATION),
    "d-slice": lambda dim: Diagonal(dim, scale=DEVIATION),
    "d-de-slice": lambda dim, block=16: DiagonalDense(dim, block, scale=DEVIATION),
}
"""The structure of each named model, given its sizes; that of d-de-slice is dense at dim 16."""

SCALES = {
    ("Heartbeat", "dplr-slice"): 0.01,
    ("MotorImagery", "dplr-slice"): 0.01,
    **{("Heartbeat", name): 0.1 for name in STRUCTURES if name != "dplr-slice"},
}
"""Factors for the increments, by data set and model; 1 where none is told."""


def series_recipe(name: str, data_set: str, channels: int, recipe: str, sizes: Sizes) -> Recipe:
    """The recipe of a named model for a data set.

    Args:
        name: one of `STRUCTURES`.
        data_set: its name.
        channels: of its series.
        recipe: `fast` or `paper`.
        sizes: those that the user chose.
    """
    of_set = DATA_SETS.get(data_set, OTHER)
    given: dict[str, Any] = {
        "dim": of_set.dim,
        "window": of_set.window,
        "depth": of_set.depth,
        **sizes,
    }
    window, depth = given.pop("window"), given.pop("depth")
    width, further = given.pop("width", None), given.pop("further", 1)
    structure = STRUCTURES[name](**given)
    drive = Differences(scale=SCALES.get((data_set, name), 1.0))
    flow = LogODE(1 if structure.commutes else depth, window, Euler())
    # Ours weighs the norm of all matrices together, the paper's the mean of theirs.
    penalty = of_set.penalty / of_set.channels**0.5
    settings = {
        FAST: replace(SETTINGS, rate=min(SPEED_UP * of_set.rate, HIGHEST_RATE), steps=of_set.steps),
        PAPER: replace(PUBLISHED, rate=of_set.rate, final_rate=of_set.rate),
    }[recipe]
    settings = replace(settings, penalty=penalty)
    if width is not None:
        further_flow = replace(flow, window=further)

        def blocks(width: int, layers: int, dropout: float) -> list[nn.Module]:
            flows = [flow, *[further_flow] * (layers - 1)]
            return [Block(path_layer(width, structure, x), width, dropout=dropout) for x in flows]

        return Recipe(blocks, settings, int(width), layers=2)
    return Recipe(
        single(lambda: SLiCE(channels, structure, drive=drive, initial=FirstInput(), flow=flow)),
        settings,
        structure.dim,
        embed=False,
        start=_start_as_the_authors,
    )


def series_sizes(name: str) -> tuple[str, ...]:
    """The sizes that the name of a model for series may carry."""
    sizes = inspect.signature(STRUCTURES[name]).parameters
    return (*sizes, "window", "depth", "width", "further")


def path_layer(width: int, structure: Structure, flow: LogODE) -> SLiCE:
    """A layer that is driven by the path which the one before it gives, (batch, length, width).

    Args:
        width: channels of the path.
        structure: of its matrices.
        flow: with its own windows, of elements of that path.
    """
    return SLiCE(width, structure, drive=Differences(), initial=FirstInput(), flow=flow)


def _start_as_the_authors(model: SequenceModel) -> None:
    """h_0 by a map with uniform entries, and low-rank factors of deviation 0.25 / sqrt(r)."""
    (layer,) = model.blocks
    assert isinstance(layer, SLiCE)
    bound = layer.channels**-0.5
    for tensor in layer.start.parameters():
        nn.init.uniform_(tensor, -bound, bound)
    if isinstance(layer.structure, DPLR):
        for name, tensor in layer.A.named_parameters():
            if name in ("left", "right"):
                nn.init.normal_(tensor, std=DEVIATION * layer.structure.rank**-0.5)
