"""The portable fast path: steps in chunks, with a hand-written adjoint; see `steps`, and
`products` for matrix states that are only read out.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from torch import Tensor

from slicekit.descriptions.checks import check_chosen
from slicekit.scans.base import Outer, Passes, Recurrence, Scan, Solution
from slicekit.scans.chunked.products import ProductPasses
from slicekit.scans.chunked.steps import StepPasses
from slicekit.scans.opaque import run_opaque
from slicekit.scans.sources import FromTransitions
from slicekit.structures import DiagonalTransition, LowRankTransition
from slicekit.structures.diagonal import narrowed

LARGE_SCALAR = 128 * 64 * 4
"""Bytes of a matrix state from which on products beat kernels, with one gate for all rows."""

LARGE_DIAGONAL = 128 * 128 * 4
"""The same with other diagonal transitions."""

LARGE_LOW_RANK = 192 * 192 * 4
"""The same with low-rank transitions, for each column of U and V."""

LONG = 256
"""Steps from which on products beat kernels."""


@dataclass(frozen=True)
class Chunked(Scan):
    """Steps in chunks of `size`, with transitions only ever made for one chunk at a time.

    Args:
        size: steps in a chunk; None lets the transitions of a chunk fill a few megabytes.

    With a readout, inputs that are `Outer` or none, and a real diagonal or low-rank transition, a
    chunk is a few matrix products and its states are never made; its steps are then the largest
    power of two up to `size`, at most 128. A diagonal with one number for all rows, passed as an
    expanded tensor, is faster than any other, and gets its gradient in the first row.

    First derivatives in reverse mode only: for others use `Recurrent`.
    """

    size: int | None = None
    citations: ClassVar[tuple[str, ...]] = ("yang2024parallelizing",)

    def __post_init__(self) -> None:
        """Check the size."""
        check_chosen("size", self.size)

    def run(self, recurrence: Recurrence) -> Solution:
        """Run the chunks one after the other.

        Raises:
            ValueError: for given transitions of a kind that is not slicekit's own, and for a
                structure whose transitions have another `act` than the class that their adjoint is
                of.
        """
        return run_opaque(*self.engine(recurrence))

    def engine(self, recurrence: Recurrence) -> tuple[type[Passes], Recurrence, int]:
        """What `run_opaque` takes."""
        obstacle = self.obstacle(recurrence)
        if obstacle is not None:
            raise ValueError(f"scan={self!r} {obstacle}; use Recurrent()")
        if by_products(recurrence):
            return ProductPasses, _narrowed(recurrence), self.size or 0
        return StepPasses, recurrence, self.size or 0

    def obstacle(self, recurrence: Recurrence) -> str | None:
        """Transitions or structures that it does not know."""
        unruled = recurrence.source.unruled()
        return f"does not know {unruled}" if unruled else None


def by_products(recurrence: Recurrence) -> bool:
    """Whether `Chunked` runs matrix products instead of steps."""
    source = recurrence.source
    if recurrence.readout is None or recurrence.projective or source.batch == 0:
        return False
    if isinstance(recurrence.inputs, Tensor):
        return False
    if not isinstance(source, FromTransitions) or source.tensors[0].is_complex():
        return False
    return type(source.transition) in (DiagonalTransition, LowRankTransition)


def beats_native(recurrence: Recurrence) -> bool:
    """Whether matrix products, where there are any, are faster than kernels of `Native` on a CPU.

    Kernels win while a state lies in the first cache, and for short sequences. A length that is
    left open while torch traces does not count as long.
    """
    source, state = recurrence.source, recurrence.state
    diagonal, *thin = source.tensors
    if thin:
        large = LARGE_LOW_RANK * thin[0].shape[-1]
    else:
        large = LARGE_SCALAR if narrowed(diagonal).shape[-1] == 1 else LARGE_DIAGONAL
    size = state.shape[-2] * state.shape[-1] * state.element_size()
    return _surely(size >= large) and _surely(source.length >= LONG)


def _surely(condition: Any) -> bool:
    """Whether a condition on sizes holds whatever they are, while torch traces."""
    if isinstance(condition, bool):
        return condition
    from torch.fx.experimental.symbolic_shapes import statically_known_true  # half a second

    return statically_known_true(condition)


def _narrowed(recurrence: Recurrence) -> Recurrence:
    """With inputs, and with a gate that all rows share as one number."""
    source, state = recurrence.source, recurrence.state
    assert isinstance(source, FromTransitions)
    inputs = recurrence.inputs
    if inputs is None:
        batch, length, zero = source.batch, source.length, state.new_zeros(())
        left = zero.expand(batch, length, state.shape[-2])
        inputs = Outer(left, zero.expand(batch, length, state.shape[-1]))
    diagonal, *thin = source.tensors
    transition = source.transition.with_tensors((narrowed(diagonal), *thin))
    return replace(recurrence, source=FromTransitions(transition), inputs=inputs)
