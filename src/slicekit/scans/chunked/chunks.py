"""Chunks of a recurrence of matrix states that are only read out, as matrix products.

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

from slicekit.scans.chunked.decays import Decays


@dataclass(frozen=True, eq=False)
class OuterChunks:
    """Consecutive chunks; tensors have leading shape (chunks * batch), the chunk first.

    Attributes:
        decays: of the gates, reads and writes.
        right: b, (chunks * batch, size, columns).
        count: number of chunks.
        known: the inverse of the triangular system, where it was kept.
    """

    decays: Decays
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
    def decayed(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Scores, reach, lasting and total."""
        return self.decays.decayed()

    @cached_property
    def inverse(self) -> Tensor:
        """(..., rank * size, rank * size), triangular if sorted by time."""
        if self.known is not None:
            return self.known
        rows, size = self.rank * self.size, (self.size, self.rank)
        system = self.decays.system(self.decayed[0])
        system = system.permute(0, 2, 1, 4, 3).reshape(-1, rows, rows)
        inverse = (
            inverse_of(system).to(self.right.dtype).view(-1, *size, *size).permute(0, 2, 1, 4, 3)
        )
        return inverse.reshape(system.shape)

    @cached_property
    def mixing(self) -> Tensor:
        """Scores of the columns of V with the inputs: (..., rank * size, size)."""
        rank = self.rank
        return self.decayed[0][:, :rank, :, rank].flatten(1, 2)

    @cached_property
    def pull(self) -> Tensor:
        """(..., rank * size, dim)."""
        return self.inverse @ self.decayed[1][:, : self.rank].flatten(1, 2)

    @cached_property
    def given(self) -> Tensor:
        """(..., rank * size, columns)."""
        return self.inverse @ (self.mixing @ self.right)

    def drives(self) -> Tensor:
        """y: (chunks * batch, (rank + 1) * size, columns), of which z is yet to be found."""
        if not self.rank:
            return self.right
        return torch.cat([self.given, self.right], 1)

    def carry(self, state: Tensor, drives: Tensor, first: Tensor) -> Tensor:
        """Run the chunks in turn, fill in their drives and first states, and return the end."""
        _, _, lasting, total = self.decayed
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
        scores, reach, _, _ = self.decayed
        near = scores[:, -1].flatten(2) @ drives
        return near.baddbmm_(reach[:, -1], first.flatten(0, 1))

    def pullback(self, first: Tensor, moved: Tensor, carry: Tensor) -> tuple[Tensor, ...]:
        """Gradients of gates, U and V, left, right, readout, and of the group's first state.

        Args:
            first: (chunks, batch, dim, columns), the chunks' first states.
            moved: (chunks * batch, size, columns), the gradient of the outputs.
            carry: (batch, dim, columns), that of the state after the group.
        """
        scores, reach, lasting, total = self.decayed
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
        shape = self.decays.reads.shape
        in_gates, in_reads, in_writes = self.decays.pullback(
            (asked @ drives.mT).view_as(scores),
            (asked @ starts.mT).view(shape),
            (drives @ after.mT).view(shape),
            _dot(after, starts) if total.shape[-1] == 1 else (after * starts).sum(-1),
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
        _, _, lasting, total = self.decayed
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


def _dot(x: Tensor, y: Tensor) -> Tensor:
    """(chunks, 1) from two of (chunks, dim, columns)."""
    return (x.flatten(1).unsqueeze(1) @ y.flatten(1).unsqueeze(2)).squeeze(2)
