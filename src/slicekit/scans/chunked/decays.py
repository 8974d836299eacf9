"""How the steps of a chunk reach each other through the diagonals between them.

Glossary, for one chunk of C steps t = 0..C-1, h_{t+1} = D_t h_t + Σ_i w_{t,i} y_{t,i}^T:

- `gates`: D_t, one number a step (`ScalarDecays`) or one a row of the state (`VectorDecays`).
- `writes`: w_{t,i}, what step t adds to the state: the columns of U_t, and the input's left factor.
- `reads`: x_{t,i}, what is asked of the state: the columns of V_t before step t and, last, the
  readout q_t after it.
- `scores`: x_{t,i}^T D...D w_{s,j}, through the diagonals that lie between.
- `reach`: x_{t,i}^T D...D, from the beginning of the chunk.
- `lasting`: D...D w_{s,j}, to its end.
- `total`: D_{C-1}...D_0.

Products of diagonals are only ever built up by multiplication, so a diagonal may be zero. Each
class has a hand-written adjoint, for the chunks of many sequences side by side.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Decays:
    """Chunks with their gates, reads and writes.

    `decayed` says what the steps are to each other: scores (chunks, kinds, size, kinds, size) by
    read and write, reach as `reads`, lasting as `writes`, and total (chunks, 1) or (chunks, dim).
    `pullback` takes the gradients of these four to those of gates, reads and writes.

    Attributes:
        gates: (chunks, size, 1), or (chunks, size, dim) if every row has its own.
        reads: (chunks, kinds, size, dim), the readout last.
        writes: (chunks, kinds, size, dim).
        differentiated: whether `pullback` follows.
    """

    gates: Tensor
    reads: Tensor
    writes: Tensor
    differentiated: bool

    def system(self, scores: Tensor) -> Tensor:
        """Scores of all kinds but the last, in double precision: (chunks, r, size, r, size).

        Reflections keep every error of their triangular system for ever, so it is worth the price.
        """
        return precise(scores[:, :-1, :, :-1])


def precise(x: Tensor) -> Tensor:
    """In double precision, where the device has it."""
    return x if x.device.type == "mps" else x.double()


class ScalarDecays(Decays):
    """One gate a step: plain scores, times a matrix of the gates' products."""

    @cached_property
    def _products(self) -> Tensor:
        """L_ij = g_j ... g_{i-1} for i >= j, otherwise 0: (chunks, 1 + size, 1 + size)."""
        chunks, size, _ = self.gates.shape
        later = torch.ones(size, size + 1, dtype=torch.bool, device=self.gates.device).tril()
        factors = self.gates.new_ones(chunks, size + 1, size + 1)
        factors[:, 1:] = torch.where(later, self.gates, 1.0)
        return factors.cumprod(1).tril_()

    @cached_property
    def _factors(self) -> Tensor:
        """The factor of each read from the beginning, then from after each step on.

        (chunks, kinds, size, 1 + size): low-rank factors read before their step, the readout after.
        """
        products, kinds = self._products, self.reads.shape[1]
        return torch.stack([products[:, :-1]] * (kinds - 1) + [products[:, 1:]], 1)

    @cached_property
    def _plain(self) -> Tensor:
        """Scores of reads and writes as they are."""
        chunks, kinds, size, _ = self.reads.shape
        plain = self.reads.flatten(1, 2) @ self.writes.flatten(1, 2).mT
        return plain.view(chunks, kinds, size, kinds, size)

    @cached_property
    def decayed(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Scores, reach, lasting and total."""
        products, factors = self._products, self._factors
        return (
            self._plain * factors[..., None, 1:],
            self.reads * factors[..., :1],
            self.writes * products[:, None, -1, 1:, None],
            products[:, -1, :1],
        )

    def pullback(
        self, in_scores: Tensor, in_reach: Tensor, in_lasting: Tensor, in_total: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """With L = products, dL_ij / dg_k = L_i,k+1 L_kj: two small products for the gates."""
        products, factors = self._products, self._factors
        in_factors = torch.empty_like(factors)
        torch.sum(in_scores * self._plain, -2, out=in_factors[..., 1:])
        in_factors[..., 0] = _dot(in_reach, self.reads)
        in_products = torch.zeros_like(products)
        in_products[:, 1:] = in_factors[:, -1]
        in_products[:, :-1] += in_factors[:, :-1].sum(1)
        in_products[:, -1, 1:] += _dot(in_lasting, self.writes).sum(1)
        in_products[:, -1, :1] += in_total
        passed = products.mT @ in_products
        in_gates = _dot(passed[:, 1:], products[:, :-1]).unsqueeze(-1)

        in_plain = (in_scores * factors[..., None, 1:]).flatten(3).flatten(1, 2)
        in_reads = (in_reach * factors[..., :1]).flatten(1, 2)
        in_reads = in_reads.baddbmm_(in_plain, self.writes.flatten(1, 2))
        in_writes = (in_lasting * products[:, None, -1, 1:, None]).flatten(1, 2)
        in_writes = in_writes.baddbmm_(in_plain.mT, self.reads.flatten(1, 2))
        return in_gates, in_reads.view_as(self.reads), in_writes.view_as(self.writes)

    def system(self, scores: Tensor) -> Tensor:
        """Made again, as single precision would have rounded it already."""
        chunks, kinds, size, _ = self.reads.shape
        rows = (chunks, kinds - 1, size, kinds - 1, size)
        reads, writes = (precise(x[:, :-1].flatten(1, 2)) for x in (self.reads, self.writes))
        return (reads @ writes.mT).view(rows) * self._factors[:, :-1, :, None, 1:]


class VectorDecays(Decays):
    """One gate a row: blocks of 1, 2, 4, ... steps are joined two by two.

    Reads decayed from the beginning of the later block, times writes decayed to the end of the
    earlier, are all scores between the two; then the reads of the later block are decayed by all of
    the earlier, and the writes of the earlier by all of the later. The size is a power of two.
    Inside, the kinds of a step lie side by side, so that blocks are rows that follow each other.
    """

    @cached_property
    def decayed(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Scores, reach, lasting and total."""
        chunks, kinds, size, dim = self.reads.shape
        reach, lasting = _by_step(self.reads), _by_step(self.writes)
        total = self.gates
        scores = reach.new_zeros(chunks, size, kinds, size, kinds)
        _diagonal(scores).copy_(_dot(reach[:, :, -1:], lasting))
        reach[:, :, -1] *= self.gates  # the readout is of the state after its step
        block = 1
        while block < size:
            shape = (-1, 2, block * kinds, dim)
            later, earlier = reach.view(shape)[:, 1], lasting.view(shape)[:, 0]
            first, second = total.reshape(-1, 2, 1, dim).unbind(1)
            _between(scores, block).copy_((later @ earlier.mT).unflatten(0, (chunks, -1)))
            if self.differentiated:
                self._levels.append((later.clone(), earlier.clone(), first, second))
            later *= first
            earlier *= second
            total = (first * second).view(chunks, -1, dim)
            block *= 2
        by_kind = scores.permute(0, 2, 1, 4, 3).contiguous()
        return by_kind, reach.transpose(1, 2), lasting.transpose(1, 2), total.squeeze(1)

    @cached_property
    def _levels(self) -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Reads, writes and totals that were joined, by block size."""
        return []

    def pullback(
        self, in_scores: Tensor, in_reach: Tensor, in_lasting: Tensor, in_total: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same joins undone, in reverse."""
        chunks, kinds, size, dim = self.reads.shape
        in_reads, in_writes = _by_step(in_reach), _by_step(in_lasting)
        in_scores = in_scores.permute(0, 2, 1, 4, 3).contiguous()
        in_gates, block = in_total.reshape(-1, 1, dim), size
        for later, earlier, first, second in reversed(self._levels):
            block //= 2
            shape = (-1, 2, block * kinds, dim)
            in_later, in_earlier = in_reads.view(shape)[:, 1], in_writes.view(shape)[:, 0]
            in_pair = _between(in_scores, block).flatten(0, 1)
            in_first = (in_later * later).sum(-2, keepdim=True).addcmul_(in_gates, second)
            in_second = (in_earlier * earlier).sum(-2, keepdim=True).addcmul_(in_gates, first)
            in_gates = torch.stack([in_first, in_second], 1).view(-1, 1, dim)
            torch.addcmul(in_pair @ earlier, in_later, first, out=in_later)
            torch.addcmul(in_pair.mT @ later, in_earlier, second, out=in_earlier)
        query, in_query = self.reads[:, -1], in_reads[:, :, -1]
        in_gates = torch.addcmul(in_gates.view(chunks, size, dim), in_query, query)
        of_diagonal = _diagonal(in_scores).unsqueeze(-1)
        in_query *= self.gates
        in_query += (of_diagonal * _by_step(self.writes)).sum(2)
        in_writes.addcmul_(of_diagonal, query.unsqueeze(2))
        return in_gates, in_reads.transpose(1, 2), in_writes.transpose(1, 2)


def _by_step(x: Tensor) -> Tensor:
    """A copy of (chunks, kinds, size, dim) as (chunks, size, kinds, dim)."""
    return x.transpose(1, 2).clone(memory_format=torch.contiguous_format)


def _between(scores: Tensor, block: int) -> Tensor:
    """Scores of each second block with the one before it: (chunks, pairs, reads, writes)."""
    chunks, size, kinds = scores.shape[:3]
    split = (size // (2 * block), 2, block * kinds)
    pairs = scores.view(chunks, *split, *split).diagonal(dim1=1, dim2=4)
    return pairs[:, 1, :, 0].permute(0, 3, 1, 2)


def _diagonal(scores: Tensor) -> Tensor:
    """Scores of each step's readout with the step's own writes: (chunks, size, kinds)."""
    return scores[:, :, -1].diagonal(dim1=1, dim2=2).mT


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(-1)
