"""Log-depth scan: pairs of transitions are composed until all prefixes are known, of the whole
sequence or of one chunk after the other.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from slicekit.descriptions.checks import check_chosen
from slicekit.scans.base import Outer, Recurrence, Scan, Solution, contract
from slicekit.scans.sources import leaves
from slicekit.structures import BlockTransition, Transition

Affine = tuple[Transition, tuple[Tensor, ...]]
"""Steps, and their inputs, if there are any."""

_announced: set[str] = set()


@dataclass(frozen=True)
class Associative(Scan):
    """The paper's parallel scan: depth log(length), every prefix product is formed.

    Args:
        chunk: steps that are scanned in parallel; the next so many start from the state that these
            end in, as in the authors' code. None takes all at once.

    Structures that are not closed are composed as dense matrices, which is announced once.
    Projective states are refused: products of many steps overflow where a state does not.
    """

    chunk: int | None = None
    citations: ClassVar[tuple[str, ...]] = ("blelloch1990",)

    def __post_init__(self) -> None:
        """Check the chunk."""
        check_chosen("chunk", self.chunk)

    def run(self, recurrence: Recurrence) -> Solution:
        """Prefix products applied to the initial state, or to the one that a chunk starts from.

        Raises:
            ValueError: for projective states, whose products could overflow.
        """
        if recurrence.projective:
            raise ValueError(
                "scan=Associative() can't carry projective states: it forms the products of all "
                "prefixes, which overflow where a state does not; use Chunked(), or leave scan=None"
            )
        transition = _closed(recurrence.source.whole())
        given = recurrence.inputs
        dense = given.dense() if isinstance(given, Outer) else given
        inputs = () if dense is None else (dense,)
        state, chunks = recurrence.state, []
        for part in _chunks((transition, inputs), self.chunk):
            prefix, driven = _prefixes(part)
            chunks.append(sum(driven, prefix.act(state.unsqueeze(1))))
            state = chunks[-1][:, -1]
        states = chunks[0] if len(chunks) == 1 else torch.cat(chunks, 1)
        if recurrence.readout is not None:
            return Solution(contract(recurrence.readout, states), state.clone())
        return Solution(states, state.clone())


def _closed(transition: Transition) -> Transition:
    if transition.closed and all(type(leaf).agrees("compose") for leaf in leaves(transition)):
        return transition
    kind = type(transition).__name__
    if kind not in _announced:
        _announced.add(kind)
        warnings.warn(
            f"Associative() composes {kind} as dense {transition.dim} x {transition.dim} matrices, "
            "because products leave the structure; Chunked() and Recurrent() do not",
            stacklevel=5,
        )
    return BlockTransition(transition.as_dense().unsqueeze(-3))


def _compose(later: Affine, earlier: Affine) -> Affine:
    pairs = zip(later[1], earlier[1], strict=True)
    return later[0].compose(earlier[0]), tuple(later[0].act(before) + u for u, before in pairs)


def _pick(pairs: Affine, steps: slice) -> Affine:
    transition, inputs = pairs
    return transition.map(lambda x: x[:, steps]), tuple(u[:, steps] for u in inputs)


def _chunks(pairs: Affine, chunk: int | None) -> Iterator[Affine]:
    """So many steps at a time; split, as the gradient of a slice is as long as the whole."""
    transition, inputs = pairs
    tensors = transition.tensors()
    if chunk is None or chunk >= tensors[0].shape[1]:
        yield pairs
        return
    for part in zip(*(x.split(chunk, 1) for x in (*tensors, *inputs)), strict=True):
        yield transition.with_tensors(part[: len(tensors)]), part[len(tensors) :]


def _interleave(even: Tensor, odd: Tensor) -> Tensor:
    count = odd.shape[1]
    woven = torch.stack([even[:, :count], odd], 2).flatten(1, 2)
    return torch.cat([woven, even[:, count:]], 1)


def _join(by: Callable[[Tensor, Tensor], Tensor], a: Affine, b: Affine) -> Affine:
    """Each tensor of both by a function."""
    tensors = map(by, a[0].tensors(), b[0].tensors())
    return a[0].with_tensors(tuple(tensors)), tuple(map(by, a[1], b[1]))


def _prefixes(pairs: Affine) -> Affine:
    """Compositions of the first 1, 2, ..., length steps (a work-efficient recursion)."""
    length = pairs[0].tensors()[0].shape[1]
    if length == 1:
        return pairs
    later, earlier = (_pick(pairs, slice(i, length // 2 * 2, 2)) for i in (1, 0))
    odd, even = _prefixes(_compose(later, earlier)), _pick(pairs, slice(0, 1))
    if length > 2:
        before = _pick(odd, slice(0, (length - 1) // 2))
        rest = _compose(_pick(pairs, slice(2, None, 2)), before)
        even = _join(lambda x, y: torch.cat([x, y], 1), even, rest)
    return _join(_interleave, even, odd)
