"""Log-depth scan: pairs of transitions are composed until all prefixes are known, of the whole
sequence or of one chunk after the other.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from slicekit.descriptions.checks import check_chosen
from slicekit.scans.base import Outer, Recurrence, Scan, Solution, contract
from slicekit.scans.sources import leaves
from slicekit.structures import BlockTransition, Transition

Affine = tuple[Transition, Tensor | None]

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
        inputs = recurrence.inputs
        inputs = inputs.dense() if isinstance(inputs, Outer) else inputs
        state, chunks = recurrence.state, []
        for part in _chunks((transition, inputs), self.chunk):
            prefix, driven = _prefixes(part)
            reached = prefix.act(state.unsqueeze(1))
            chunks.append(reached if driven is None else reached + driven)
            state = chunks[-1][:, -1]
        states = chunks[0] if len(chunks) == 1 else torch.cat(chunks, 1)
        if recurrence.readout is not None:
            return Solution(contract(recurrence.readout, states), state)
        return Solution(states, state)


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
    transition = later[0].compose(earlier[0])
    if later[1] is None or earlier[1] is None:
        return transition, None
    return transition, later[0].act(earlier[1]) + later[1]


def _pick(pairs: Affine, steps: slice) -> Affine:
    transition, inputs = pairs
    return transition.map(lambda x: x[:, steps]), None if inputs is None else inputs[:, steps]


def _chunks(pairs: Affine, chunk: int | None) -> Iterator[Affine]:
    """So many steps at a time; split, as the gradient of a slice is as long as the whole."""
    transition, inputs = pairs
    tensors = transition.tensors()
    if chunk is None or chunk >= tensors[0].shape[1]:
        yield pairs
        return
    driven = iter(()) if inputs is None else iter(inputs.split(chunk, 1))
    for part in zip(*(x.split(chunk, 1) for x in tensors), strict=True):
        yield transition.with_tensors(part), next(driven, None)


def _interleave(even: Tensor, odd: Tensor) -> Tensor:
    count = odd.shape[1]
    woven = torch.stack([even[:, :count], odd], 2).flatten(1, 2)
    return torch.cat([woven, even[:, count:]], 1)


def _prefixes(pairs: Affine) -> Affine:
    """Compositions of the first 1, 2, ..., length steps (a work-efficient recursion)."""
    length = pairs[0].tensors()[0].shape[1]
    if length == 1:
        return pairs
    halves = length // 2
    joined = _compose(_pick(pairs, slice(1, None, 2)), _pick(pairs, slice(0, 2 * halves, 2)))
    odd = _prefixes(joined)
    first = _pick(pairs, slice(0, 1))
    if length > 2:
        later = _pick(pairs, slice(2, None, 2))
        rest = _compose(later, _pick(odd, slice(0, (length - 1) // 2)))
        tensors = zip(first[0].tensors(), rest[0].tensors(), strict=True)
        even = first[0].with_tensors(tuple(torch.cat(pair, 1) for pair in tensors))
        driven = None
        if first[1] is not None and rest[1] is not None:
            driven = torch.cat([first[1], rest[1]], 1)
    else:
        even, driven = first
    woven = zip(even.tensors(), odd[0].tensors(), strict=True)
    transition = even.with_tensors(tuple(_interleave(a, b) for a, b in woven))
    if driven is None or odd[1] is None:
        return transition, None
    return transition, _interleave(driven, odd[1])
