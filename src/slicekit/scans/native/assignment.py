"""Which C++ kernel runs which parts of a structure, and what it is given.

Neighbouring parts that one kernel takes in one pass are a run. Most structures are one run; a
direct sum with a sparse part, say, is several, each on its own rows of the state.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

import torch
from torch import Tensor

from slicekit.flows import Flow
from slicekit.handles import Handled
from slicekit.native.exponential import LARGEST
from slicekit.native.kernel import Kind
from slicekit.native.panels import MOST_PARTS, MOST_RANK
from slicekit.native.panels import Part as PanelPart
from slicekit.scans.lowering import Part, lower
from slicekit.scans.sources import FromTransitions, Made, Source, leaves
from slicekit.structures import (
    BlockTransition,
    DiagonalTransition,
    LowRankTransition,
    Structure,
    Transition,
)

PANELS = "panels"
"""The kernel of all kinds that have none of their own."""

REAL = (torch.float32, torch.float64)
COMPLEX = (torch.complex64, torch.complex128)

OWN_KERNEL = (Kind.SPARSE, Kind.SHARED_FACTORS)
EXPONENTIATED = (Kind.BLOCKS, Kind.SKEW)


@dataclass(frozen=True, eq=False)
class Run(Handled):
    """Parts that one kernel takes together; there is one for equal parts, so it is a key as it is.

    Attributes:
        kernel: PANELS, or the kind of its only part.
        dim: rows of the state.
        parts: what the panel kernel is told.
        names: of the parameters, in the order in which the kernel takes them.
        bounded: those of them whose tanh it takes.
    """

    kernel: str | Kind
    dim: int
    parts: tuple[PanelPart, ...]
    names: tuple[str, ...]
    bounded: tuple[str, ...] = ()

    def named(self, parameters: Sequence[Tensor]) -> dict[str, Tensor]:
        """The parameters of its only part under the names that the structure gives them."""
        names = (name.rpartition("_")[2] for name in self.names)
        return dict(zip(names, parameters, strict=True))


def runs_of(structure: Structure, flow: Flow) -> tuple[Run, ...] | str:
    """The runs of a structure, or why there is no kernel for it."""
    parts = lower(structure, flow)
    if isinstance(parts, str):
        return parts
    # torch.compile looks into what is cached, and warns of it.
    return _runs.__wrapped__(parts) if torch.compiler.is_compiling() else _runs(parts)


@lru_cache(maxsize=256)
def _runs(parts: tuple[Part, ...]) -> tuple[Run, ...] | str:
    runs = []
    for part in parts:
        if obstacle := _obstacle(part):
            return obstacle
    for alone, group in groupby(parts, key=lambda part: part.kind in OWN_KERNEL):
        together = list(group)
        runs += [_run([part]) for part in together] if alone else [_run(together)]
    if any(len(run.parts) > MOST_PARTS for run in runs):
        return f"a direct sum of more than {MOST_PARTS} parts"
    return tuple(runs)


def _obstacle(part: Part) -> str:
    if part.exponential and part.kind not in EXPONENTIATED:
        return f"there is no kernel for the exponential flow of {part.said}"
    if part.exponential and part.size > LARGEST:
        return f"blocks of {part.size} rows, and the kernel exponentiates at most {LARGEST}"
    if part.kind is Kind.LOW_RANK and part.size > MOST_RANK:
        return f"rank={part.size}, and the kernel takes at most {MOST_RANK}"
    return ""


def _run(parts: list[Part]) -> Run:
    kind = parts[0].kind
    alone = kind in OWN_KERNEL
    panels = () if alone else tuple(PanelPart(p.kind, p.dim, p.size, p.exponential) for p in parts)
    return Run(
        kind if alone else PANELS,
        sum(part.dim for part in parts),
        panels,
        tuple(name for part in parts for name in part.names),
        tuple(name for part in parts if part.bounded for name in part.names),
    )


def bound(source: Made) -> Made:
    """The same source, with parameters as kernels take them."""
    runs, given = runs_of(source.structure, source.flow), source.parameters
    assert not isinstance(runs, str), runs
    taken = {name: torch.tanh(given[name]) for run in runs for name in run.bounded}
    if not taken:
        return source
    return type(source)(source.structure, source.flow, given | taken, source.path, source.index)


def why_not(source: Source, readout: bool) -> str:
    """Why no kernel applies where there are kernels; empty if one does."""
    first = source.tensors[0]
    if first.device.type != "cpu":
        return f"there is no kernel for tensors on {first.device.type}"
    if isinstance(source, FromTransitions):
        return _why_not_given(source.transition, readout)
    if not isinstance(source, Made):
        return f"there is no kernel for {type(source).__name__}"
    if any(x.is_floating_point() and x.dtype not in REAL for x in source.tensors):
        return f"there is no kernel for {first.dtype}"
    runs = runs_of(source.structure, source.flow)
    return runs if isinstance(runs, str) else ""


def _why_not_given(transition: Transition, readout: bool) -> str:
    parts = leaves(transition)
    if len(parts) > 1 and readout:
        return "a readout couples the parts of a direct sum"
    for part in parts:
        dtypes = REAL + COMPLEX if type(part) is DiagonalTransition else REAL
        known = type(part) in (DiagonalTransition, BlockTransition, LowRankTransition)
        if not known or part.tensors()[0].dtype not in dtypes:
            return f"there is no kernel for {type(part).__name__} of {part.tensors()[0].dtype}"
    return ""
