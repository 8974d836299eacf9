"""The two passes over matrix states that are only read out, by matrix products.

The contract is that of `steps`, but no state is ever made besides the first of each chunk;
what happens inside a chunk is `chunks`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from slicekit.scans.base import Passes
from slicekit.scans.chunked.chunks import OuterChunks
from slicekit.scans.chunked.decays import decays

CHUNK, WIDE_CHUNK, WIDE = 32, 64, 64
"""Steps in a chunk, if not asked for otherwise; with diagonals of this size or more, the latter."""

ROWS = 64
"""Rows of a chunk's triangular system at most, if not asked for otherwise."""

LONGEST = 128
"""Steps in a chunk at most: the scores within a chunk grow with the square."""

GROUP_NUMBERS = 2**17
"""Reads of the chunks that are worked on at a time; more would leave the cache."""


class ProductPasses(Passes):
    """One recurrence of a diagonal or low-rank transition with outer inputs and a readout.

    A diagonal of shape (batch, length, 1) is one for all rows. Steps in a chunk are the largest
    power of two up to `size`; 0 leaves the choice.
    """

    @property
    def rank(self) -> int:
        """Columns of U and V, or 0."""
        thin = self.source.tensors[1:]
        return thin[0].shape[-1] if thin else 0

    def chunk_size(self) -> int:
        """Steps in a chunk."""
        usual = WIDE_CHUNK if self.rank == 0 and self.state.shape[-2] >= WIDE else CHUNK
        asked = self.size or min(usual, max(8, ROWS // max(self.rank, 1)))
        return 1 << (min(asked, LONGEST).bit_length() - 1)

    def keeps(self) -> bool:
        """The inverses of the triangular systems, where there are any."""
        return self.rank > 0

    def blank_kept(self) -> list[Tensor]:
        """What `forward` keeps, for its shapes."""
        rows = self.rank * self._steps()
        return [self.state.new_empty(*self.start_shape()[:2], rows, rows)]

    def _steps(self) -> int:
        """Steps in a chunk, no more than there are."""
        return min(self.chunk_size(), 1 << (self.length - 1).bit_length())

    def forward(self, keep: bool) -> list[Tensor]:
        """Run all steps: outputs, last state, no factors, first states of chunks, and inverses."""
        state = self.state
        outputs = state.new_empty(self.output_shape())
        starts = state.new_empty(self.start_shape())
        kept = self.blank_kept() if keep else []
        for window in self._windows():
            first, chunks = starts[window.chunks], self._chunks(window, False)
            drives = chunks.drives()
            state = chunks.carry(state, drives, first)
            window.put(outputs, chunks.outputs(first, drives))
            for x in kept:
                x[window.chunks] = chunks.inverse.view(x[window.chunks].shape)
        factors = state.new_empty(self.factor_shape(), dtype=state.dtype.to_real())
        return [outputs, state.clone(), factors, starts, *kept]

    def backward(
        self, saved: list[Tensor], in_outputs: Tensor, in_last: Tensor | None, needed: list[bool]
    ) -> list[Tensor]:
        """Gradients of the transition's tensors, the state, the inputs and the readout."""
        assert self.readout is not None
        starts, kept = saved[3], saved[4:]
        carry = torch.zeros_like(self.state) if in_last is None else in_last
        stepwise = (*self.source.tensors, *self.inputs, self.readout)
        pulled = [x.new_empty(x.shape) for x in stepwise]
        for window in reversed(self._windows()):
            inverses = [x[window.chunks].flatten(0, 1) for x in kept]
            chunks, moved = self._chunks(window, True, *inverses), window.take(in_outputs)
            *gradients, carry = chunks.pullback(starts[window.chunks], moved, carry)
            for total, x in zip(pulled, gradients, strict=True):
                window.put(total, x)
        count = len(self.source.tensors)
        return [*pulled[:count], carry.clone(), *pulled[count:]]

    def _windows(self) -> list["_Window"]:
        """Chunks that are worked on together, as many as stay in the cache."""
        batch, dim, _ = self.state.shape
        size = self._steps()
        numbers = max(1, batch * size * dim * (self.rank + 1))
        count = max(1, GROUP_NUMBERS // numbers)
        starts = range(0, self.length, size * count)
        return [_Window(x, min(x + size * count, self.length), size) for x in starts]

    def _chunks(
        self, window: "_Window", differentiated: bool, inverse: Tensor | None = None
    ) -> OuterChunks:
        assert self.readout is not None
        diagonal, *thin = self.source.tensors
        reads, writes = window.take(self.readout).unsqueeze(1), window.take(self.inputs[0])
        writes = writes.unsqueeze(1)
        if thin:
            left, right = (window.take(x).movedim(-1, 1) for x in thin)
            reads, writes = torch.cat([right, reads], 1), torch.cat([left, writes], 1)
        reached = decays(window.take(diagonal, 1.0), reads, writes, differentiated)
        return OuterChunks(reached, window.take(self.inputs[1]), window.count, inverse)


@dataclass(frozen=True)
class _Window:
    """Steps start..stop-1 in chunks of `size`, the last of which may be filled up."""

    start: int
    stop: int
    size: int

    @property
    def count(self) -> int:
        """Number of chunks."""
        return -(-(self.stop - self.start) // self.size)

    @property
    def chunks(self) -> slice:
        """Which of all chunks these are."""
        first = self.start // self.size
        return slice(first, first + self.count)

    def take(self, x: Tensor, fill: float = 0.0) -> Tensor:
        """The window's steps of (batch, length, ...), as (chunks * batch, size, ...)."""
        elements = x[:, self.start : self.stop]
        missing = self.count * self.size - elements.shape[1]
        if missing:
            elements = pad(elements, (0, 0) * (x.ndim - 2) + (0, missing), value=fill)
        return elements.unflatten(1, (self.count, self.size)).transpose(0, 1).flatten(0, 1)

    def put(self, whole: Tensor, x: Tensor) -> None:
        """Write (chunks * batch, size, ...) into (batch, length, ...), which `take` undoes."""
        rows = x.unflatten(0, (self.count, -1)).transpose(0, 1)
        target = whole[:, self.start : self.stop]
        steps = target.shape[1] // self.size * self.size
        even = target[:, :steps].unflatten(1, (-1, self.size))
        even.copy_(rows[:, : even.shape[1]])
        if steps < target.shape[1]:
            target[:, steps:] = rows[:, -1, : target.shape[1] - steps]
