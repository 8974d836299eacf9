"""The transition of a whole shard, with its scales, and how such transitions act one by one.

The steps of a shard send its first state h to P h + u. P has the form of the structure: a number a
row (diagonal), a block, or a full matrix (low rank), for each *leaf* of a direct sum. It is found
by running the shard's steps on the columns of the identity, all at once where a kernel does that.
They are divided by powers of two on the way, so that nothing overflows however long the shard is:

    P_ij = 2^(E_j) M_ij,    h_i = 2^e m_i    for the rows i, j of one block.

Glossary: mantissas M (batch, blocks, size, size) and exponents E (batch, blocks, size) of P; a
state's m (batch, blocks, size, columns) and e (batch, blocks, 1, columns); driven u (batch, dim,
columns); probes are the columns of the identity, side by side for all blocks.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from slicekit.native import available
from slicekit.scans.base import Outer, as_tensors
from slicekit.scans.chunked.steps import StepPasses
from slicekit.scans.native.assignment import why_not
from slicekit.scans.native.passes import MadePasses
from slicekit.scans.native.policy import passes_of
from slicekit.scans.projective import WINDOW, exponents, powers_of_two
from slicekit.scans.sources import FromTransitions, Made, Source, leaves
from slicekit.structures import (
    BlockTransition,
    ColumnTransition,
    DiagonalTransition,
    LowRankTransition,
    Transition,
)

PIECE_BYTES = 2**21
"""About what the states of a piece of the shard may take: only its last one is kept."""

MOST_STEPS, MOST_DRIVEN_STEPS = 4096, 64
"""Steps in a piece; with affine inputs, whose states can't be divided, those between divisions."""


class Leaf(NamedTuple):
    """Rows of the state on which a transition has blocks of one size."""

    dim: int
    size: int

    @property
    def blocks(self) -> int:
        """How many there are."""
        return self.dim // self.size


def leaves_of(source: Source) -> tuple[Leaf, ...]:
    """The blocks of a source's transitions.

    Raises:
        ValueError: where products of transitions have no form that could be sent.
    """
    return tuple(Leaf(part.dim, _block(part)) for part in leaves(_sample(source)))


def _sample(source: Source) -> Transition:
    """A transition of the source's kind."""
    if isinstance(source, FromTransitions):
        return source.transition
    assert isinstance(source, Made)
    return source.make(source.path.flatten(0, -2)[:1])


def _block(part: Transition) -> int:
    if isinstance(part, DiagonalTransition):
        return 1
    if isinstance(part, BlockTransition):
        return part.blocks.shape[-1]
    if isinstance(part, ColumnTransition):
        return part.values.shape[-1]
    if isinstance(part, LowRankTransition) or part.closed:
        return part.dim
    raise ValueError(
        f"scan=Sharded() can't send the transition of a shard of {type(part).__name__}: products "
        f"leave the structure, and all {part.dim} columns of a full matrix would have to be run. "
        "Use Relay(), under which each rank waits for the state of the one before, or give each "
        "rank whole sequences of a part of the batch"
    )


@dataclass(frozen=True, eq=False)
class Shard:
    """What the steps of a shard do to its first state.

    Attributes:
        leaves: the blocks.
        mantissas, exponents: M and E of each leaf.
        driven: u, or None where there are no affine inputs.
    """

    leaves: tuple[Leaf, ...]
    mantissas: tuple[Tensor, ...]
    exponents: tuple[Tensor, ...]
    driven: Tensor | None

    def tensors(self) -> list[Tensor]:
        """All tensors, to be sent."""
        return [*self.mantissas, *self.exponents, *([] if self.driven is None else [self.driven])]

    def with_tensors(self, tensors: list[Tensor]) -> "Shard":
        """Another rank's shard of the same kind."""
        count = len(self.leaves)
        whole = [x.long() for x in tensors[count : 2 * count]]
        driven = tensors[2 * count] if self.driven is not None else None
        return Shard(self.leaves, tuple(tensors[:count]), tuple(whole), driven)

    def split(self, rows: Tensor) -> list[Tensor]:
        """(batch, dim, columns) -> (batch, blocks, size, columns) of each leaf."""
        return split(self.leaves, rows)

    def act(self, state: "Scaled") -> "Scaled":
        """P h, with scales of its own."""
        moved = [
            _act(m, e, x, exponent)
            for m, e, x, exponent in zip(
                self.mantissas, self.exponents, state.mantissas, state.exponents, strict=True
            )
        ]
        return Scaled(self.leaves, tuple(x for x, _ in moved), tuple(e for _, e in moved))

    def pull(self, cotangent: Tensor, shifts: tuple[Tensor, ...] | None = None) -> Tensor:
        """P^* c for c (batch, dim, columns), times a power of two for each block."""
        rows = []
        for at, c in enumerate(self.split(cotangent)):
            shift = self.exponents[at].unsqueeze(-1)
            shift = shift if shifts is None else shift + shifts[at]
            rows.append(scaled(self.mantissas[at].mH @ c, shift))
        return join(rows)


@dataclass(frozen=True, eq=False)
class Scaled:
    """A state as mantissas m (batch, blocks, size, columns) and exponents e, leaf by leaf."""

    leaves: tuple[Leaf, ...]
    mantissas: tuple[Tensor, ...]
    exponents: tuple[Tensor, ...]

    @classmethod
    def of(cls, leaves: tuple[Leaf, ...], state: Tensor) -> "Scaled":
        """A plain state (batch, dim, columns)."""
        rows = split(leaves, state)
        zeros = (
            x[..., :1, :].new_zeros((), dtype=torch.int64).expand_as(x[:, :, :1]) for x in rows
        )
        return cls(leaves, tuple(rows), tuple(zeros))

    def mantissa(self) -> Tensor:
        """m, (batch, dim, columns)."""
        return join(list(self.mantissas))

    def exponent(self) -> Tensor:
        """e of every row, (batch, dim, columns) int64."""
        pairs = zip(self.exponents, self.mantissas, strict=True)
        return join([e.expand(x.shape) for e, x in pairs])

    def plain(self) -> Tensor:
        """The state as numbers: (batch, dim, columns)."""
        pairs = zip(self.mantissas, self.exponents, strict=True)
        return join([scaled(m, e) for m, e in pairs])

    def below(self, other: "Scaled") -> tuple[Tensor, ...]:
        """e minus that of another state, for each leaf."""
        return tuple(a - b for a, b in zip(self.exponents, other.exponents, strict=True))


def split(leaves: tuple[Leaf, ...], rows: Tensor) -> list[Tensor]:
    """(batch, dim, columns) -> (batch, blocks, size, columns) of each leaf."""
    parts = rows.split([leaf.dim for leaf in leaves], 1)
    pairs = zip(leaves, parts, strict=True)
    return [x.unflatten(1, (leaf.blocks, leaf.size)) for leaf, x in pairs]


def join(parts: list[Tensor]) -> Tensor:
    """The inverse of `split`."""
    rows = [x.flatten(1, 2) for x in parts]
    return rows[0] if len(rows) == 1 else torch.cat(rows, 1)


def scaled(x: Tensor, shift: Tensor) -> Tensor:
    """x 2^shift, in two steps: the power alone may leave the range of floats."""
    real = x.dtype.to_real()
    shift = shift.clamp(-4000, 4000)
    half = torch.div(shift, 2, rounding_mode="floor")
    return x * torch.exp2(half.to(real)) * torch.exp2((shift - half).to(real))


def _act(m: Tensor, e: Tensor, x: Tensor, exponent: Tensor) -> tuple[Tensor, Tensor]:
    """M 2^E x 2^own as a mantissa near one and its exponent; zero stays zero."""
    moduli = x.abs()
    seen = (moduli > 0) & moduli.isfinite()
    powers = torch.frexp(moduli)[1].long() + e.unsqueeze(-1)
    least = torch.iinfo(torch.int64).min
    peak = powers.masked_fill(~seen, least).amax(-2, keepdim=True)
    peak = peak.masked_fill(peak == least, 0)
    moved = m @ scaled(x, e.unsqueeze(-1) - peak)
    size = torch.frexp(moved.abs().amax(-2, keepdim=True))[1].long()
    return scaled(moved, -size), exponent + peak + size


def summarise(
    source: Source, inputs: Tensor | Outer | None, state: Tensor, size: int
) -> tuple[Shard, list[Tensor]]:
    """The transition of all steps of a source, and what its inputs leave behind.

    Args:
        source: where the transitions come from; at least one step.
        inputs: u_l, dense (batch, length, dim, columns), outer products, or None.
        state: (batch, dim, columns), for its shape.
        size: bytes of transitions that may be kept for the passes that follow.

    Returns:
        The shard, and transitions that native passes need not make again.
    """
    kernel = available() and not why_not(source, False)
    if kernel and isinstance(source, Made):
        passes = MadePasses(source, state, as_tensors(inputs), None, size, WINDOW)
        if passes.multiplies():
            product, powers, driven, made = passes.product(True)
            return _shard(leaves_of(source), product, powers, driven), made
    return _by_columns(source, inputs, state.shape[-1], kernel), []


def _by_columns(source: Source, inputs: Tensor | Outer | None, columns: int, kernel: bool) -> Shard:
    """The columns run as states, piece by piece; nothing is kept but the last one."""
    leaves = leaves_of(source)
    width = max(leaf.size for leaf in leaves)
    first = source.tensors[0] if isinstance(source, FromTransitions) else _floats(source)
    state = _probes(leaves, width, first).expand(source.batch, -1, -1).contiguous()
    if inputs is not None:
        state = torch.cat([state, state.new_zeros(*state.shape[:2], columns)], 2)
    scales = torch.zeros(state.shape, dtype=torch.int64, device=state.device)
    rescale = WINDOW if inputs is None else 0
    size = _piece(source, state, inputs is not None)
    for start in range(0, source.length, size):
        stop = min(start + size, source.length)
        given = _padded(inputs, width, start, stop)
        kind = passes_of(source) if kernel else StepPasses
        passes = kind(source.part(start, stop), state, given, None, 0, rescale)
        states, state, factors, *_ = passes.forward(False)
        if rescale:
            scales = scales + exponents(factors)[:, -1]
        state, scales = _divided(leaves, state, scales, width)
        del states
    driven = state[..., width:].contiguous() if inputs is not None else None
    return _shard(leaves, state, scales, driven)


def _shard(
    leaves: tuple[Leaf, ...], columns: Tensor, scales: Tensor, driven: Tensor | None
) -> Shard:
    """From columns side by side for all blocks, and the powers of two they were divided by."""
    blocks = [x[..., : leaf.size] for leaf, x in zip(leaves, split(leaves, columns), strict=True)]
    powers = [x[..., 0, : leaf.size] for leaf, x in zip(leaves, split(leaves, scales), strict=True)]
    return Shard(
        leaves, tuple(x.contiguous() for x in blocks), tuple(x.contiguous() for x in powers), driven
    )


def _floats(source: Source) -> Tensor:
    return next(x for x in source.tensors if x.is_floating_point())


def _probes(leaves: tuple[Leaf, ...], width: int, like: Tensor) -> Tensor:
    """The identity, (1, dim, width): a unit column for each row of a block."""
    parts = [
        torch.eye(leaf.size, width, dtype=like.dtype, device=like.device).repeat(leaf.blocks, 1)
        for leaf in leaves
    ]
    return torch.cat(parts).unsqueeze(0)


def _piece(source: Source, state: Tensor, driven: bool) -> int:
    """Steps in a piece."""
    numbers = max(1, state.numel() * state.element_size())
    most = MOST_DRIVEN_STEPS if driven else MOST_STEPS
    return max(WINDOW, min(most, PIECE_BYTES // numbers))


def _padded(inputs: Tensor | Outer | None, width: int, start: int, stop: int) -> tuple[Tensor, ...]:
    """Inputs of some steps, zero for the probes."""
    tensors = [x[:, start:stop] for x in as_tensors(inputs)]
    if tensors:
        last = tensors[-1]
        zeros = last.new_zeros(1).expand(*last.shape[:-1], width)
        tensors[-1] = torch.cat([zeros, last], -1)
    return tuple(tensors)


def _divided(
    leaves: tuple[Leaf, ...], state: Tensor, scales: Tensor, width: int
) -> tuple[Tensor, Tensor]:
    """The probes' states divided by powers of two, block by block, which the scales count."""
    probes = state[..., :width]
    sizes = join([x.abs().amax(2, keepdim=True).expand(x.shape) for x in split(leaves, probes)])
    factors = powers_of_two(sizes)
    state, scales = state.clone(), scales.clone()
    state[..., :width] = probes / factors
    scales[..., :width] += torch.frexp(factors)[1] - 1
    return state, scales
