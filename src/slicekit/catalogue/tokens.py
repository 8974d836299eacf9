"""SLiCEs for sequences of tokens: sizes and training settings, as plain data.

The paper's seven structures have the sizes of its state tracking experiments: 1024 non-zero entries
a matrix and one layer on word problems, 512 and two layers on regular languages. Their recipe
`paper` has h_0 from the first input, Euler steps of length 1/40, the initialisation of the authors'
code and 100,000 steps. Their recipe `fast` is one for all but what follows from a structure: a
learned h_0, steps of length channels^(-1/2), so that a transition starts as I plus a matrix of
spectral radius 1, lengths that grow, and a pressure on the steps to be isometries. Where a
structure has none (sparse), and where states must be forgotten, it is on disturbances of the states
not to grow, in the second case also on states that do not fall into blocks to keep their size; see
`slicekit.training.pressure`. Matrices with bounded entries (Walsh-Hadamard) can't grow to what
short steps would need: their steps have length 1, and their states are projective, so that nothing
is kept from growing. So are the states of diagonal matrices on regular languages; see `SEPARATE`.

Two models are our own, and the defaults: `orthogonal-slice` for word problems and
`projective-slice` for everything else.

Glossary: width is the size of the embedding; dim is d_h; dt scales the increments (1, X) dt.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from slicekit.catalogue.recipes import FAST, PAPER, Recipe
from slicekit.catalogue.sizes import Sizes
from slicekit.layers import (
    Block,
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
    Householder,
    JointDPLR,
    Orthogonal,
    PermutationDiagonal,
    RowNormalised,
    Sparse,
    Structure,
    WalshHadamard,
)
from slicekit.tasks import Task
from slicekit.training.settings import Settings

WORDS = "words"
LANGUAGES = "languages"

FAST_WORDS = Settings(
    steps=6000,
    rate=4e-3,
    decay=0.0,
    consistency=30.0,
    consistent_states=True,
    isometry=30.0,
    pressure_first=0.01,
    pressure_steps=3000,
    pressure_above=0.98,
    mixed_lengths=False,
    grow_at=0.9,
    grow_factor=1.6,
    evaluate_every=100,
    validation_batches=1,
)
"""Ours for the paper's structures on word problems."""

WITHOUT_ISOMETRIES = {
    "steps": 3000,
    "consistent_states": False,
    "isometry": 0.0,
    "growth": 30.0,
    "pressure_first": 1e-3,
    "pressure_steps": 1500,
}
"""And what differs where no step but the identity is an isometry."""

BOUNDED = {"steps": 8000, "rate": 1e-2, "warmup": 0.02, "isometry": 0.0}
"""And where matrices are bounded: steps are long and states projective, and nothing is kept from
growing."""

FAST_LANGUAGES = Settings(
    steps=5000,
    rate=2e-3,
    decay=0.0,
    consistency=3.0,
    growth=10.0,
    pressure_first=0.01,
    pressure_steps=1500,
    grow_at=0.9,
    grow_factor=1.25,
    evaluate_every=100,
    stop_at=0.9995,
)
"""Ours for them on regular languages, whose states may be reset: nothing is to be an isometry. They
stop where the paper's do."""

UNDIVIDED = {"drift": 10.0}
"""And what differs where a state is one whole. One that falls into blocks can stay as large as it
was while some of them grow and others fade, which longer words would tell."""

SEPARATE = {
    "decay": 0.3,
    "consistency": 0.0,
    "growth": 0.0,
    "drift": 300.0,
    "pressure_first": 0.1,
    "pressure_steps": 500,
}
"""And where no step mixes the numbers of a state. These can only count, in logarithms: equal states
for equal answers, or states that must not grow, would forbid it. Directions of states count as far
as numbers go; no number may count time, and what need not count is to stand still, so weights
decay."""

ORTHOGONAL_SETTINGS = Settings(
    steps=2000,
    rate=2e-3,
    decay=0.0,
    consistency=10.0,
    consistent_states=True,
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
    consistency=30.0,
    consistent_clusters=True,
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

WIDEST = 256
"""Largest embedding of the recipe `fast`: a block's linear maps would cost more than its states."""


@dataclass(frozen=True)
class Stack:
    """SLiCEs in blocks, for tokens.

    Attributes:
        structure: what the matrices of every layer look like.
        dt: length of a step in time.
        initial: where states start.
        projective: whether direction and norm are carried apart.
        wiring: where the norms are.
    """

    structure: Structure
    dt: float
    initial: InitialState = field(default_factory=Learned)
    projective: bool = False
    wiring: Wiring = field(default_factory=Wiring)

    def __call__(self, width: int, layers: int, dropout: float) -> list[nn.Module]:
        """The blocks."""
        return [Block(self.mixer(width), width, self.wiring, dropout) for _ in range(layers)]

    def mixer(self, width: int) -> SLiCE:
        """One layer."""
        return SLiCE(
            width,
            self.structure,
            drive=TimeAndInput(self.dt),
            initial=self.initial,
            projective=self.projective,
        )


DEVIATION = 0.5
"""Initial standard deviation in the authors' code, before the factor of the structure."""


def published(structure: Structure, words: bool) -> Recipe:
    """The paper's protocol: its blocks, start and training."""
    stack = Stack(structure, dt=1 / 40, initial=FirstInput())
    return Recipe(
        stack,
        PAPER_WORDS if words else PAPER_LANGUAGES,
        structure.dim,
        layers=1 if words else 2,
        dropout=0.1 if words else 0.01,
        start=_start_as_the_authors,
    )


def undisturbed(structure: Structure, words: bool) -> Recipe:
    """Ours for the paper's structures; what differs follows from the structure and its size."""
    width = min(structure.dim, WIDEST)
    stack = Stack(structure, (width + 1) ** -0.5, wiring=Wiring(mixed=True))
    bounded = getattr(structure, "bounded", False)
    if bounded:
        stack = replace(stack, dt=1.0, projective=True)
    if words:
        differing = BOUNDED if bounded else {} if structure.has_isometries else WITHOUT_ISOMETRIES
        return Recipe(stack, replace(FAST_WORDS, **differing), width)
    if structure.largest_block == 1:
        stack = replace(stack, projective=True, initial=FirstInput())
        differing = SEPARATE
    else:
        differing = UNDIVIDED if structure.largest_block == structure.dim else {}
        differing = differing | ({"growth": 0.0} if bounded else {})
    return Recipe(stack, replace(FAST_LANGUAGES, **differing), width, layers=2)


def rotating(structure: Structure, words: bool) -> Recipe:
    """Rotations by whole angles: dt = 1."""
    return Recipe(Stack(structure, dt=1.0), ORTHOGONAL_SETTINGS, structure.dim)


def forgetting(structure: Structure, words: bool) -> Recipe:
    """Directions of a state whose norm is carried apart."""
    width = 64
    wiring = Wiring(mixed=True)
    stack = Stack(structure, (width + 1) ** -0.5, projective=True, wiring=wiring)
    return Recipe(stack, PROJECTIVE_SETTINGS, width)


@dataclass(frozen=True)
class TokenModel:
    """A named SLiCE on tokens.

    Attributes:
        summary: one line.
        structure: makes its structure of the sizes.
        words: the sizes on word problems.
        languages: the sizes on regular languages and other tasks.
        fast: makes the recipe `fast`, given the structure and whether the task is a word problem.
    """

    summary: str
    structure: Callable[..., Structure]
    words: Mapping[str, int | float]
    languages: Mapping[str, int | float]
    fast: Callable[[Structure, bool], Recipe] = undisturbed

    @property
    def sizes(self) -> tuple[str, ...]:
        """The names of its sizes."""
        return tuple(self.words)

    def recipe(self, task: Task, recipe: str, sizes: Sizes) -> Recipe:
        """The recipe of that name for a task."""
        words = task.family == WORDS
        chosen: dict[str, Any] = {**(self.words if words else self.languages), **sizes}
        make = {FAST: self.fast, PAPER: published}[recipe]
        return make(self.structure(**chosen), words)


def _sparse(dim: int, epsilon: float) -> Sparse:
    """The authors do not scale the entries by their density."""
    return Sparse(dim, epsilon=epsilon, scale=dim ** ((epsilon - 1) / 2))


ROTATIONS = {"dim": 128, "block": 8}

TOKEN_MODELS: dict[str, TokenModel] = {
    "orthogonal-slice": TokenModel(
        "rotations in blocks of 8: every flow is an isometry, so nothing fades or explodes",
        Orthogonal,
        words=ROTATIONS,
        languages=ROTATIONS,
        fast=rotating,
    ),
    "projective-slice": TokenModel(
        "one dense block whose direction and norm are carried apart: it can rotate and forget",
        Dense,
        words={"dim": 96},
        languages={"dim": 96},
        fast=forgetting,
    ),
    "bd-slice": TokenModel(
        "the paper's BD-SLiCE",
        BlockDiagonal,
        words={"dim": 256, "block": 4},
        languages={"dim": 128, "block": 4},
    ),
    "dplr-slice": TokenModel(
        "the paper's DPLR-SLiCE",
        JointDPLR,
        words={"dim": 205, "rank": 2},
        languages={"dim": 57, "rank": 4},
    ),
    "wh-slice": TokenModel(
        "the paper's WH-SLiCE", WalshHadamard, words={"dim": 1024}, languages={"dim": 512}
    ),
    "s-slice": TokenModel(
        "the paper's S-SLiCE",
        _sparse,
        words={"dim": 128, "epsilon": 3 / 7},
        languages={"dim": 64, "epsilon": 1 / 2},
    ),
    "de-lncde": TokenModel(
        "the paper's dense LNCDE", Dense, words={"dim": 32}, languages={"dim": 22}
    ),
    "d-slice": TokenModel(
        "the paper's D-SLiCE", Diagonal, words={"dim": 1024}, languages={"dim": 512}
    ),
    "d-de-slice": TokenModel(
        "the paper's D-DE-SLiCE",
        DiagonalDense,
        words={"dim": 518, "block": 23},
        languages={"dim": 272, "block": 16},
    ),
    "householder-slice": TokenModel(
        "products of four reflections a step, as DeltaProduct has them: no state ever grows",
        Householder,
        words={"dim": 256, "count": 4},
        languages={"dim": 128, "count": 4},
    ),
    "row-normalised-slice": TokenModel(
        "blocks whose rows sum to at most one, as in BD-LRU: no state ever grows",
        RowNormalised,
        words={"dim": 256, "block": 4},
        languages={"dim": 128, "block": 4},
    ),
    "permutation-slice": TokenModel(
        "one number a column, at a row that tokens choose, as in PD-SSM: no state ever grows",
        PermutationDiagonal,
        words={"dim": 128, "block": 8},
        languages={"dim": 128, "block": 8},
    ),
}
"""By name, in the order to list them in."""


def _start_as_the_authors(model: SequenceModel) -> None:
    """Factors with deviation s / sqrt(r), and the initial map with s, whatever its size."""
    for layer in model.modules():
        if not isinstance(layer, SLiCE):
            continue
        structure = layer.structure
        sizes: dict[str, float] = {}
        if isinstance(structure, JointDPLR):
            sizes = {"left": structure.rank**-0.5, "right": structure.rank**-0.5}
        for name, tensor in layer.A.named_parameters():
            _scale(tensor, sizes.get(name))
        for tensor in layer.start.parameters():
            nn.init.normal_(tensor, std=DEVIATION)


def _scale(tensor: nn.Parameter, size: float | None) -> None:
    if size is not None:
        nn.init.normal_(tensor, std=DEVIATION * size)
    else:
        with torch.no_grad():
            tensor.mul_(DEVIATION)
