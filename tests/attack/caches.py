"""Descriptions that look alike and are not: nothing that is kept may answer for another.

Structures and flows with equal names, equal words for themselves or equal values; brackets that are
kept while parameters change; and thousands of descriptions, which must not stay for ever.
"""

import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass

import torch
from torch import Tensor

import slicekit as sk
from slicekit.flows import Flow
from slicekit.scans import Scan
from slicekit.structures import Parameters, Structure, Transition
from tests.attack.runner import Size, Tally

SCANS: list[Scan | None] = [None, sk.Chunked(), sk.Chunked(2), sk.Recurrent()]


def attack(tally: Tally, size: Size) -> None:
    """Each attack under every scan, with and without gradients."""
    attempts: list[Callable[[Scan | None], None]] = [
        *(hidden_field, class_again_in_a_sum, flow_with_constant_words, equal_numbers, brackets)
    ]
    for number, _ in size.cases(40, least=1):
        scan = SCANS[number % len(SCANS)]
        for attempt in attempts:
            tally.attempt(f"{attempt.__name__}, {scan}", lambda a=attempt, s=scan: a(s))
    tally.attempt("thousands of structures", many_structures)


@dataclass(frozen=True)
class Hidden(sk.Diagonal):
    """A structure with a field that its words leave out."""

    factor: float = field(default=1.0, repr=False)

    def combine(self, parameters: Parameters, increments: Tensor):
        return super().combine(parameters, increments * self.factor)


@dataclass(frozen=True)
class Shrinking(Flow):
    """A flow whose words are always the same."""

    factor: float

    def __repr__(self) -> str:
        return "Shrinking"

    def transition(
        self, structure: Structure, parameters: Parameters, increments: Tensor
    ) -> Transition:
        return structure.combine(parameters, increments * self.factor).euler()


def hidden_field(scan: Scan | None) -> None:
    """`field(repr=False)` counts."""
    for factor in (1.0, -2.0, 0.5):
        _check(Hidden(4, factor=factor), sk.Euler(), scan, factor)


def class_again_in_a_sum(scan: Scan | None) -> None:
    """A class that is defined anew under its old name is another class."""
    for factor in (1.0, -2.0):

        def combine(self, parameters, increments, factor=factor):
            return sk.Diagonal.combine(self, parameters, increments * factor)

        made = make_dataclass("Again", [], bases=(sk.Diagonal,), frozen=True)
        made.combine = combine
        _check(sk.DirectSum(made(4), sk.Diagonal(2)), sk.Euler(), scan, None)


def flow_with_constant_words(scan: Scan | None) -> None:
    """A flow is what it is, not what it says of itself."""
    for factor in (1.0, 3.0):
        _check(sk.Diagonal(4), Shrinking(factor), scan, factor)


def equal_numbers(scan: Scan | None) -> None:
    """1 and True and 1.0 are equal, and must not be mistaken where they mean different things."""
    for value in (1, 1.0, True):
        structure = sk.WalshHadamard(4, bounded=bool(value))
        _check(structure, None, scan, None)
        _check(sk.WalshHadamard(4, bounded=False), None, scan, None)


def brackets(scan: Scan | None) -> None:
    """Brackets that are kept belong to the numbers that the parameters have now."""
    torch.manual_seed(0)
    layer = sk.SLiCE(2, sk.BlockDiagonal(4, 2), flow=sk.LogODE(depth=2, window=2), scan=scan)
    layer, x = layer.double(), torch.randn(2, 6, 2, dtype=torch.float64)
    with torch.no_grad():
        layer(x)
        for change in (_in_place, _by_data, _by_pointer):
            change(layer)
            fresh = sk.SLiCE(2, layer.structure, flow=layer.flow, scan=sk.Recurrent()).double()
            fresh.load_state_dict({k: p.clone() for k, p in layer.state_dict().items()})
            assert torch.allclose(layer(x), fresh(x), atol=1e-10), change.__name__


def _in_place(layer: sk.SLiCE) -> None:
    for p in layer.A.parameters():
        p.mul_(0.5)


def _by_data(layer: sk.SLiCE) -> None:
    for p in layer.A.parameters():
        p.data = p.data.mT.contiguous()


def _by_pointer(layer: sk.SLiCE) -> None:
    """Other numbers where the old ones were, without the version that torch counts."""
    for p in layer.A.parameters():
        p.detach().numpy()[...] *= -1


def many_structures() -> None:
    """A description that nobody has any more is forgotten, also if it was used."""

    def used(number: int) -> weakref.ref[Structure]:
        structure = sk.DirectSum(sk.Diagonal(1 + number % 50), Hidden(2, factor=float(number)))
        if number % 100 == 0:
            _check(structure, sk.Euler(), sk.Chunked(2), None)
        return weakref.ref(structure)

    kept = [used(number) for number in range(3000)]
    gc.collect()
    alive = sum(reference() is not None for reference in kept)
    assert alive <= 300, f"{alive} of {len(kept)} stay"


def _check(
    structure: Structure, flow: Flow | None, scan: Scan | None, factor: float | None
) -> None:
    """Compare with a loop over the structure's own dense matrices."""
    source = torch.Generator().manual_seed(1)
    parameters = {
        name: x.double() for name, x in structure.init(2, torch.Generator().manual_seed(2)).items()
    }
    increments = 0.3 * torch.randn(2, 7, 2, generator=source).double()
    start = torch.randn(2, structure.dim, generator=source).double()
    states, _ = sk.solve(structure, parameters, increments, start, flow, scan)
    h = start
    for step in range(7):
        moved = increments[:, step] * (factor if isinstance(flow, Shrinking) and factor else 1.0)
        field_ = structure.combine(parameters, moved).as_dense()
        h = h + torch.einsum("bij,bj->bi", field_, h)
        assert torch.allclose(states[:, step], h, atol=1e-8), f"{structure!r}, {flow!r}, {factor}"
