"""The two passes over matrix states that are only read out, by matrix products.

The contract is that of `steps`, but no state is ever made besides the first of each chunk.

Glossary, for one chunk with first state h_0 and end h_C (see also `decays`):

- `inner`: z_t = V_t^T h_t, what the low-rank part finds in the state before step t.
- `drives`: y_t = (z_t, b_t), the rows that step t writes; b_t is the input's right factor.
- `system`: A, the scores of the columns of V with those of U; strictly lower triangular in time.
- `inverse`: T = (I - A)^-1; z = T (reach_V h_0 + scores_Vb b).
- `pull`, `given`: z = pull h_0 + given.

Then h_C = total h_0 + lasting^T y, one product for each chunk in turn, and the outputs are
reach_q h_0 + scores_q y, for many chunks at once. This is the chunk-wise form of linear attention
and, with the triangular system, the WY form of the delta rule. The products of a chunk's diagonals
must not overflow.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import pad

from slicekit.scans.base import Passes
from slicekit.scans.chunked.decays import ScalarDecays, VectorDecays

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
        return min(self.chunk_size(), 1 << (self.source.length - 1).bit_length())

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
        starts = range(0, self.source.length, size * count)
        return [_Window(x, min(x + size * count, self.source.length), size) for x in starts]

    def _chunks(
        self, window: "_Window", differentiated: bool, inverse: Tensor | None = None
    ) -> "OuterChunks":
        assert self.readout is not None
        diagonal, *thin = self.source.tensors
        reads, writes = window.take(self.readout).unsqueeze(1), window.take(self.inputs[0])
        writes = writes.unsqueeze(1)
        if thin:
            left, right = (window.take(x).movedim(-1, 1) for x in thin)
            reads, writes = torch.cat([right, reads], 1), torch.cat([left, writes], 1)
        kind = ScalarDecays if diagonal.shape[-1] == 1 else VectorDecays
        decays = kind(window.take(diagonal, 1.0), reads, writes, differentiated)
        return OuterChunks(decays, window.take(self.inputs[1]), window.count, inverse)


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


@dataclass(frozen=True, eq=False)
class OuterChunks:
    """Consecutive chunks; tensors have leading shape (chunks * batch), the chunk first.

    Attributes:
        decays: of the gates, reads and writes.
        right: b, (chunks * batch, size, columns).
        count: number of chunks.
        known: the inverse of the triangular system, where it was kept.
    """

    decays: ScalarDecays | VectorDecays
    right: Tensor
    count: int
    known: Tensor | None = None

    @property
    def rank(self) -> int:
        """Columns of U and V, or 0."""
        return self.decays.reads.shape[1] - 1

    @property
    def size(self) -> int:
        """Steps in a chunk."""
        return self.decays.reads.shape[2]

    def each(self, x: Tensor) -> tuple[Tensor, ...]:
        """Chunk by chunk, (batch, ...)."""
        return x.unflatten(0, (self.count, -1)).unbind(0)

    @cached_property
    def inverse(self) -> Tensor:
        """(..., rank * size, rank * size), triangular if sorted by time."""
        if self.known is not None:
            return self.known
        rows, size = self.rank * self.size, (self.size, self.rank)
        system = self.decays.system(self.decays.decayed[0])
        system = system.permute(0, 2, 1, 4, 3).reshape(-1, rows, rows)
        inverse = (
            inverse_of(system).to(self.right.dtype).view(-1, *size, *size).permute(0, 2, 1, 4, 3)
        )
        return inverse.reshape(system.shape)

    @cached_property
    def mixing(self) -> Tensor:
        """Scores of the columns of V with the inputs: (..., rank * size, size)."""
        rank = self.rank
        return self.decays.decayed[0][:, :rank, :, rank].flatten(1, 2)

    @cached_property
    def pull(self) -> Tensor:
        """(..., rank * size, dim)."""
        return self.inverse @ self.decays.decayed[1][:, : self.rank].flatten(1, 2)

    def drives(self) -> Tensor:
        """y: (chunks * batch, (rank + 1) * size, columns), of which z is yet to be found."""
        if not self.rank:
            return self.right
        given = self.inverse @ (self.mixing @ self.right)
        return torch.cat([given, self.right], 1)

    def carry(self, state: Tensor, drives: Tensor, first: Tensor) -> Tensor:
        """Run the chunks in turn, fill in their drives and first states, and return the end."""
        _, _, lasting, total = self.decays.decayed
        end = torch.empty_like(state)
        states, totals = (*first.unbind(0), end), self.each(total.unsqueeze(-1))
        pushes, rows = self.each(lasting.flatten(1, 2).mT), self.each(drives)
        states[0].copy_(state)
        thin = self.rank * self.size
        pulls = places = ()
        if thin:
            pulls, places = self.each(self.pull), self.each(drives[:, :thin])
        for j in range(self.count):
            if thin:
                places[j].add_(torch.bmm(pulls[j], states[j]))
            after = torch.mul(totals[j], states[j], out=states[j + 1])
            after.baddbmm_(pushes[j], rows[j])
        return end

    def outputs(self, first: Tensor, drives: Tensor) -> Tensor:
        """What is read out at all steps, from the chunks' first states."""
        scores, reach, _, _ = self.decays.decayed
        near = scores[:, -1].flatten(2) @ drives
        return near.baddbmm_(reach[:, -1], first.flatten(0, 1))

    def pullback(self, first: Tensor, moved: Tensor, carry: Tensor) -> tuple[Tensor, ...]:
        """Gradients of gates, U and V, left, right, readout, and of the group's first state.

        Args:
            first: (chunks, batch, dim, columns), the chunks' first states.
            moved: (chunks * batch, size, columns), the gradient of the outputs.
            carry: (batch, dim, columns), that of the state after the group.
        """
        scores, reach, lasting, total = self.decays.decayed
        rank, starts = self.rank, first.flatten(0, 1)
        thin = rank * self.size
        drives = self.drives()
        if thin:
            drives[:, :thin] += self.pull @ starts
        in_drives = scores[:, -1].flatten(2).mT @ moved
        in_first = (reach[:, -1].mT @ moved).view_as(first)
        in_inner = in_drives[:, :thin].contiguous()
        carry, ends = self._carry_back(carry, in_first, in_inner)

        after = ends.flatten(0, 1)
        in_right = in_drives[:, thin:].contiguous().baddbmm_(lasting[:, rank], after)
        asked = moved
        if thin:
            solved = self.inverse.mT @ in_inner
            in_right.baddbmm_(self.mixing.mT, solved)
            asked = torch.cat([solved, moved], 1)
        shape, in_total = self.decays.reads.shape, (after * starts).sum(-1)
        in_gates, in_reads, in_writes = self.decays.pullback(
            (asked @ drives.mT).view_as(scores),
            (asked @ starts.mT).view(shape),
            (drives @ after.mT).view(shape),
            in_total.sum(-1, keepdim=True) if total.shape[-1] == 1 else in_total,
        )
        in_thin = (in_writes, in_reads) if rank else ()
        in_thin = (x[:, :rank].movedim(1, -1) for x in in_thin)
        return (in_gates, *in_thin, in_writes[:, rank], in_right, in_reads[:, rank], carry)

    def _carry_back(
        self, carry: Tensor, in_first: Tensor, in_inner: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Gradients of the group's first state, and of the states after each chunk.

        Args:
            carry: (batch, dim, columns), that of the state after the group.
            in_first: (chunks, batch, dim, columns), what the outputs ask of the first states.
            in_inner: (chunks * batch, rank * size, columns), what they ask of z, to be completed.
        """
        _, _, lasting, total = self.decays.decayed
        rank = self.rank
        ends, begin = torch.empty_like(in_first), torch.empty_like(carry)
        targets, asked = (begin, *ends.unbind(0)), in_first.unbind(0)
        targets[-1].copy_(carry)
        totals = self.each(total.unsqueeze(-1))
        pulls = inners = thins = ()
        if rank:
            thin = lasting[:, :rank].flatten(1, 2)
            pulls, inners, thins = self.each(self.pull.mT), self.each(in_inner), self.each(thin)
        for j in reversed(range(self.count)):
            end = targets[j + 1]
            before = torch.addcmul(asked[j], totals[j], end, out=targets[j])
            if rank:
                before.baddbmm_(pulls[j], inners[j].baddbmm_(thins[j], end))
        return begin, ends


def inverse_of(system: Tensor) -> Tensor:
    """T = (I - A)^-1 of strictly lower triangular A (..., rows, rows)."""
    unit = torch.eye(system.shape[-1], dtype=system.dtype, device=system.device)
    return torch.linalg.solve_triangular(
        -system, unit.expand_as(system), upper=False, unitriangular=True
    )
