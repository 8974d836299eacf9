"""Models for time series: the paper's sizes for each of its data sets, as plain data.

One bare layer on the series itself, driven by its differences, with the Log-ODE method over windows
of observations: no embedding, norm, skip or dropout. The states at the ends of the windows, h_0
among them, are averaged, and a linear map gives the logits.

Sizes, windows, depths, penalties and initial deviations are the paper's. Training is shorter: 150
to 500 steps at ten times the rate, which falls as a cosine, in place of up to 100,000 at a constant
one; both by the validation cases of SelfRegulationSCP1. `SeriesDesign.published` has the paper's
way.

The authors divide all log-signatures of Heartbeat by 10 (with DPLR, and those of MotorImagery too,
by 100); here the increments are, so that brackets, which are quadratic in them, become smaller
still.

Glossary: window is the number of observations of a log-signature; dim is d_h; penalty is λ.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import nn

from slicekit.flows import Euler, LogODE
from slicekit.layers import Differences, FirstInput, Mean, Pooling, SequenceModel, SLiCE
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
from slicekit.tasks import Task
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
class Sizes:
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


PAPER: dict[str, Sizes] = {
    "EigenWorms": Sizes(7, window=12, depth=2, dim=128, rate=1e-3, penalty=1e-3),
    "EthanolConcentration": Sizes(4, window=1, depth=1, dim=64, rate=1e-4, penalty=1e-6),
    "Heartbeat": Sizes(62, window=2, depth=2, dim=16, rate=1e-3, penalty=1e-6),
    "MotorImagery": Sizes(64, window=16, depth=2, dim=16, rate=1e-3, penalty=1e-3, steps=150),
    "SelfRegulationSCP1": Sizes(6, window=16, depth=2, dim=64, rate=1e-4),
    "SelfRegulationSCP2": Sizes(7, window=4, depth=2, dim=128, rate=1e-4, penalty=1e-3, steps=150),
}
"""The paper's data sets."""

OTHER = Sizes(1, window=4, depth=2, dim=64, rate=1e-4)
"""For all others, on which the paper says nothing."""

STRUCTURES: dict[str, Callable[[int], Structure]] = {
    "bd-slice": lambda dim: BlockDiagonal(dim, 4, scale=DEVIATION),
    "dplr-slice": lambda dim: DPLR(dim, 4, scale=DEVIATION),
    "wh-slice": lambda dim: WalshHadamard(dim, bounded=False, scale=DEVIATION),
    "s-slice": lambda dim: Sparse(dim, density=0.1, scale=DEVIATION * 0.1**0.5),
    "de-lncde": lambda dim: Dense(dim, scale=DEVIATION),
    "d-slice": lambda dim: Diagonal(dim, scale=DEVIATION),
    "d-de-slice": lambda dim: DiagonalDense(dim, 16, scale=DEVIATION),
}
"""The structure of each named model, given dim; that of d-de-slice is dense at dim 16."""

SCALES = {
    ("Heartbeat", "dplr-slice"): 0.01,
    ("MotorImagery", "dplr-slice"): 0.01,
    **{("Heartbeat", name): 0.1 for name in STRUCTURES if name != "dplr-slice"},
}
"""Factors for the increments, by data set and model; 1 where none is told."""


@dataclass(frozen=True)
class SeriesDesign:
    """A model for the series of one data set.

    Attributes:
        structure: what the matrices look like.
        settings: how it is trained.
        published: how the paper trains it.
        window: how many observations a log-signature is of.
        depth: of the log-signatures.
        scale: factor for the increments.
        pool: the readout, `Mean()` or `Last()`.
    """

    structure: Structure
    settings: Settings
    published: Settings
    window: int
    depth: int
    scale: float = 1.0
    pool: Pooling = Mean()

    def build(self, task: Task, layers: int | None = None) -> SequenceModel:
        """The model, initialised from torch's global source of randomness.

        Raises:
            ValueError: if there is to be more than one layer.
        """
        if layers not in (None, 1):
            raise ValueError(f"layers={layers}, but models for time series have one layer")
        assert task.channels is not None
        layer = SLiCE(
            task.channels,
            self.structure,
            drive=Differences(scale=self.scale),
            initial=FirstInput(),
            flow=LogODE(self.depth, self.window, Euler()),
        )
        _start_as_the_authors(layer)
        return SequenceModel(
            channels=task.channels,
            outputs=task.outputs,
            width=self.structure.dim,
            embed=False,
            blocks=[layer],
            pool=self.pool,
        )


def series_design(name: str, data_set: str) -> SeriesDesign:
    """The design of a named model for a data set.

    Args:
        name: one of `STRUCTURES`.
        data_set: the name of the task.
    """
    sizes = PAPER.get(data_set, OTHER)
    structure = STRUCTURES[name](sizes.dim)
    rate = min(SPEED_UP * sizes.rate, HIGHEST_RATE)
    # Ours weighs the norm of all matrices together, the paper's the mean of theirs.
    penalty = sizes.penalty / sizes.channels**0.5
    return SeriesDesign(
        structure,
        settings=replace(SETTINGS, rate=rate, penalty=penalty, steps=sizes.steps),
        published=replace(PUBLISHED, rate=sizes.rate, final_rate=sizes.rate, penalty=penalty),
        window=sizes.window,
        depth=1 if structure.commutes else sizes.depth,
        scale=SCALES.get((data_set, name), 1.0),
    )


def _start_as_the_authors(layer: SLiCE) -> None:
    """h_0 by a map with uniform entries, and low-rank factors of deviation 0.25 / sqrt(r)."""
    bound = layer.channels**-0.5
    for tensor in layer.start.parameters():
        nn.init.uniform_(tensor, -bound, bound)
    if isinstance(layer.structure, DPLR):
        for name, tensor in layer.A.named_parameters():
            if name in ("left", "right"):
                nn.init.normal_(tensor, std=DEVIATION * layer.structure.rank**-0.5)
