"""Models for sequences of tokens: sizes and training settings, as plain data.

Two recipes of our own are the defaults: `orthogonal-slice` for word problems and
`projective-slice` for everything else. The others are the paper's, with the sizes of its state
tracking experiments: 1024 non-zero entries a matrix and one layer on word problems, 512 and two
layers on regular languages, h_0 from the first input, Euler steps of length 1/40, and the
initialisation of the authors' code.

Glossary: width is the size of the embedding; dim is d_h; dt scales the increments (1, X) dt.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from slicekit.layers import (
    FirstInput,
    InitialState,
    Learned,
    SequenceModel,
    SLiCE,
    TimeAndInput,
    Wiring,
)
from slicekit.structures import (
    BlockDiagonal,
    Dense,
    Diagonal,
    DiagonalDense,
    JointDPLR,
    Orthogonal,
    Sparse,
    Structure,
    WalshHadamard,
)
from slicekit.tasks import Task
from slicekit.training.settings import Settings

WORDS = "words"
LANGUAGES = "languages"


@dataclass(frozen=True)
class Design:
    """A model for one family of tasks with tokens.

    Attributes:
        structure: what the matrices of every layer look like.
        settings: how it is trained.
        layers: how many blocks.
        width: size of the embedding; None for the structure's dim.
        dt: length of a step in time.
        initial: where states start.
        projective: whether direction and norm are carried apart.
        wiring: where the norms are.
        dropout: probability, in every block.
        deviation: initial standard deviation as in the authors' code; None for slicekit's own.
    """

    structure: Structure
    settings: Settings
    layers: int = 1
    width: int | None = None
    dt: float = 1 / 40
    initial: InitialState = field(default_factory=FirstInput)
    projective: bool = False
    wiring: Wiring = field(default_factory=Wiring)
    dropout: float = 0.0
    deviation: float | None = None

    def build(self, task: Task, layers: int | None = None) -> SequenceModel:
        """The model, initialised from torch's global source of randomness."""
        model = SequenceModel(
            vocabulary=task.vocabulary,
            outputs=task.outputs,
            width=self.structure.dim if self.width is None else self.width,
            layers=self.layers if layers is None else layers,
            mixer=self._mixer,
            wiring=self.wiring,
            dropout=self.dropout,
        )
        if self.deviation is not None:
            _start_as_the_authors(model, self.deviation)
        return model

    def _mixer(self, width: int) -> SLiCE:
        return SLiCE(
            width,
            self.structure,
            drive=TimeAndInput(self.dt),
            initial=self.initial,
            projective=self.projective,
        )


ORTHOGONAL_SETTINGS = Settings(
    steps=2000,
    rate=2e-3,
    decay=0.0,
    consistency=10.0,
    mixed_lengths=False,
    grow_at=0.9,
    grow_factor=1.25,
    evaluate_every=100,
    validation_batches=1,
)

PROJECTIVE_SETTINGS = Settings(
    steps=1500,
    rate=1e-3,
    warmup=0.05,
    decay=0.0,
    consistency=1.0,
    grow_from=6,
    grow_at=0.9,
    grow_factor=1.25,
    evaluate_every=100,
)

PAPER_WORDS = Settings(
    steps=100_000,
    rate=1e-3,
    final_rate=1e-5,
    clip=None,
    penalty=1e-3,
    stop_at=0.9,
    evaluate_every=1000,
    checkpoint_every=1000,
)

PAPER_LANGUAGES = replace(
    PAPER_WORDS, rate=2e-3, stop_at=0.9995, evaluate_every=5000, checkpoint_every=5000
)


@dataclass(frozen=True)
class TokenModel:
    """A model's designs for both families of tasks.

    Attributes:
        summary: one line.
        words: its design for word problems.
        languages: its design for regular languages and other tasks.
    """

    summary: str
    words: Design
    languages: Design

    def design(self, task: Task) -> Design:
        """The design for a task."""
        return self.words if task.family == WORDS else self.languages


def _paper(summary: str, words: Structure, languages: Structure) -> TokenModel:
    return TokenModel(
        summary,
        Design(words, PAPER_WORDS, dropout=0.1, deviation=0.5),
        Design(languages, PAPER_LANGUAGES, layers=2, dropout=0.01, deviation=0.5),
    )


def _sparse(dim: int, epsilon: float) -> Sparse:
    """The authors do not scale the entries by their density."""
    return Sparse(dim, epsilon=epsilon, scale=dim ** ((epsilon - 1) / 2))


_ORTHOGONAL: dict[str, Any] = {"dt": 1.0, "initial": Learned()}

_PROJECTIVE: dict[str, Any] = {
    "width": 64,
    "dt": 65**-0.5,  # so that a transition starts as I plus a matrix of spectral radius 1
    "initial": Learned(),
    "projective": True,
    "wiring": Wiring(mixed=True),
}

TOKEN_MODELS: dict[str, TokenModel] = {
    "orthogonal-slice": TokenModel(
        "rotations in blocks of 8: every flow is an isometry, so nothing fades or explodes",
        Design(Orthogonal(128, block=8), ORTHOGONAL_SETTINGS, **_ORTHOGONAL),
        Design(Orthogonal(128, block=8), ORTHOGONAL_SETTINGS, **_ORTHOGONAL),
    ),
    "projective-slice": TokenModel(
        "one dense block whose direction and norm are carried apart: it can rotate and forget",
        Design(Dense(96), PROJECTIVE_SETTINGS, **_PROJECTIVE),
        Design(Dense(96), PROJECTIVE_SETTINGS, **_PROJECTIVE),
    ),
    "bd-slice": _paper("the paper's BD-SLiCE", BlockDiagonal(256, 4), BlockDiagonal(128, 4)),
    "dplr-slice": _paper("the paper's DPLR-SLiCE", JointDPLR(205, 2), JointDPLR(57, 4)),
    "wh-slice": _paper("the paper's WH-SLiCE", WalshHadamard(1024), WalshHadamard(512)),
    "s-slice": _paper("the paper's S-SLiCE", _sparse(128, 3 / 7), _sparse(64, 1 / 2)),
    "de-lncde": _paper("the paper's dense LNCDE", Dense(32), Dense(22)),
    "d-slice": _paper("the paper's D-SLiCE", Diagonal(1024), Diagonal(512)),
    "d-de-slice": _paper("the paper's D-DE-SLiCE", DiagonalDense(518, 23), DiagonalDense(272, 16)),
}
"""By name, in the order to list them in."""


def _start_as_the_authors(model: SequenceModel, deviation: float) -> None:
    """Factors with deviation s / sqrt(r), and the initial map with s, whatever its size."""
    for layer in model.modules():
        if not isinstance(layer, SLiCE):
            continue
        structure = layer.structure
        sizes: dict[str, float] = {}
        if isinstance(structure, JointDPLR):
            sizes = {"left": structure.rank**-0.5, "right": structure.rank**-0.5}
        for name, tensor in layer.A.named_parameters():
            _scale(tensor, deviation, sizes.get(name))
        for tensor in layer.start.parameters():
            nn.init.normal_(tensor, std=deviation)


def _scale(tensor: nn.Parameter, deviation: float, size: float | None) -> None:
    if size is not None:
        nn.init.normal_(tensor, std=deviation * size)
    else:
        with torch.no_grad():
            tensor.mul_(deviation)
