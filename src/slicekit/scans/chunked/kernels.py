"""Runs of consecutive steps for each kind of transition, without a tape.

`run` computes x_{t+1} = M_t x_t + u_t for a window of steps, time first. It is all that a scan and
its adjoint need: the adjoint of a linear recurrence is the recurrence of the adjoint transitions,
run backwards. The default is the plain loop; each further kernel is registered by transition type.

Shapes: transitions (steps, batch, ...), states (batch, dim, columns), results
(steps, batch, dim, columns).
"""

from functools import singledispatch

import torch
from torch import Tensor

from slicekit.scans.chunked.products import inverse_of
from slicekit.structures import (
    BlockTransition,
    DiagonalTransition,
    LowRankTransition,
    RotationTransition,
    SumTransition,
    Transition,
)
from slicekit.structures.exponential import EulerAction
from slicekit.structures.walsh_hadamard import WalshHadamardGenerator, sylvester

CHUNK = 16
"""Steps that are solved together where the low-rank interactions form a triangular system."""

PARALLEL_BELOW = {True: 256, False: 4096}
"""Elements a diagonal step must have to be worth a launch of its own: on a CPU, and elsewhere."""

RESTORE_EVERY = 64
"""Steps after which rotations get their norm back; for a C++ kernel see `native.panels`."""


def run(
    transition: Transition, state: Tensor, inputs: Tensor | None, out: Tensor, reverse: bool = False
) -> None:
    """Run the steps (backwards in time if reverse) and write each result into out at its step."""
    kind = type(transition)
    for cls in kind.__mro__[:-1]:
        if cls in _kernel.registry and cls.act is kind.act:  # a subclass may act otherwise
            return _kernel.registry[cls](transition, state, inputs, out, reverse)
    return _kernel.registry[object](transition, state, inputs, out, reverse)


@singledispatch
def _kernel(
    transition: Transition, state: Tensor, inputs: Tensor | None, out: Tensor, reverse: bool
) -> None:
    """The plain loop."""
    steps = transition.unbind(0)
    outs = out.unbind(0)
    for t in _order(len(steps), reverse):
        state = steps[t].act(state)
        if inputs is not None:
            state = state + inputs[t]
        outs[t].copy_(state)


def _order(count: int, reverse: bool) -> range:
    return range(count - 1, -1, -1) if reverse else range(count)


@_kernel.register
def _(
    transition: SumTransition, state: Tensor, inputs: Tensor | None, out: Tensor, reverse: bool
) -> None:
    sizes = [part.dim for part in transition.parts]
    states, outs = state.split(sizes, -2), out.split(sizes, -2)
    parted = inputs.split(sizes, -2) if inputs is not None else [None] * len(sizes)
    for part, part_states, u, o in zip(transition.parts, states, parted, outs, strict=True):
        result = torch.empty_like(o, memory_format=torch.contiguous_format)
        run(part, part_states.contiguous(), None if u is None else u.contiguous(), result, reverse)
        o.copy_(result)


@_kernel.register
def _block_loop(
    transition: BlockTransition, state: Tensor, inputs: Tensor | None, out: Tensor, reverse: bool
) -> None:
    count, batch, k, b, _ = transition.blocks.shape
    columns = state.shape[-1]
    matrices = transition.blocks.reshape(count, batch * k, b, b).unbind(0)
    x = state.reshape(batch * k, b, columns)
    outs = out.view(count, batch * k, b, columns).unbind(0)
    if inputs is None:
        for t in _order(count, reverse):
            x = torch.bmm(matrices[t], x, out=outs[t])
        return
    u = inputs.reshape(count, batch * k, b, columns).unbind(0)
    for t in _order(count, reverse):
        x = torch.baddbmm(u[t], matrices[t], x, out=outs[t])


@_kernel.register
def _(
    transition: RotationTransition, state: Tensor, inputs: Tensor | None, out: Tensor, reverse: bool
) -> None:
    """Rotations keep the norm of every block; the drift of their rounding is undone on the way.

    A rounded rotation stretches by some 1e-8 a step in float32, always in the same way for the same
    token. The correction is of the size of rounding, and is left out of the gradient.
    """
    if inputs is not None or reverse:
        return _block_loop(transition, state, inputs, out, reverse)
    grid = transition.blocks.shape[-3:-1]
    kept = torch.linalg.vector_norm(state.unflatten(-2, grid), dim=-2, keepdim=True)
    for start in range(0, out.shape[0], RESTORE_EVERY):
        window = slice(start, start + RESTORE_EVERY)
        _block_loop(BlockTransition(transition.blocks[window]), state, None, out[window], reverse)
        last = out[window][-1].unflatten(-2, grid)
        norm = torch.linalg.vector_norm(last, dim=-2, keepdim=True)
        last *= torch.where((norm > 0) & norm.isfinite(), kept / norm, 1.0)
        state = out[window][-1]


@_kernel.register
def _(
    transition: DiagonalTransition, state: Tensor, inputs: Tensor | None, out: Tensor, reverse: bool
) -> None:
    values = transition.values.unsqueeze(-1)
    if values.shape[0] >= 2 * CHUNK and state.numel() < PARALLEL_BELOW[state.is_cpu]:
        _diagonal_in_chunks(values, state, inputs, out, reverse)
    else:
        _diagonal_loop(values, state, inputs, out, reverse)


def _diagonal_loop(
    values: Tensor, x: Tensor, inputs: Tensor | None, out: Tensor, reverse: bool
) -> None:
    factors, outs = values.unbind(0), out.unbind(0)
    u = inputs.unbind(0) if inputs is not None else None
    for t in _order(len(factors), reverse):
        if u is None:
            x = torch.mul(factors[t], x, out=outs[t])
        else:
            x = torch.addcmul(u[t], factors[t], x, out=outs[t])


def _diagonal_in_chunks(
    values: Tensor, state: Tensor, inputs: Tensor | None, out: Tensor, reverse: bool
) -> None:
    """About sqrt(steps) long chunks side by side, then the carry from chunk to chunk."""
    count = values.shape[0]
    size = max(CHUNK, int(count**0.5))
    whole = count // size * size
    cut = count - whole if reverse else whole
    head, tail = slice(0, cut), slice(cut, count)
    if reverse:
        head, tail = tail, head
    factors = values[head].unflatten(0, (-1, size))
    results = out[head].unflatten(0, (-1, size))
    products = torch.empty_like(factors)
    order = list(_order(size, reverse))
    local = inputs[head].unflatten(0, (-1, size)) if inputs is not None else None
    product, x = None, None
    for t in order:
        f = factors[:, t]
        product = products[:, t].copy_(f if product is None else f * product)
        if local is not None:
            x = results[:, t].copy_(local[:, t] if x is None else torch.addcmul(local[:, t], f, x))
    if not bool(products.isfinite().all()):  # a product may overflow where no state does
        return _diagonal_loop(values, state, inputs, out, reverse)
    chunks = factors.shape[0]
    starts = state.new_empty(chunks, *state.shape)
    for g in _order(chunks, reverse):
        starts[g] = state
        end = products[g, order[-1]] * state
        state = end if local is None else end + results[g, order[-1]]
    if local is None:
        torch.mul(products, starts.unsqueeze(1), out=results)
    else:
        results.addcmul_(products, starts.unsqueeze(1))
    if whole < count:
        rest = inputs[tail] if inputs is not None else None
        _diagonal_loop(values[tail], state, rest, out[tail], reverse)


@_kernel.register
def _(
    transition: EulerAction, state: Tensor, inputs: Tensor | None, out: Tensor, reverse: bool
) -> None:
    """Of Walsh-Hadamard, x + H (d x) or x + d (H x): H is the Kronecker product of two matrices."""
    generator = transition.generator
    if not isinstance(generator, WalshHadamardGenerator) or state.shape[-1] > 1:
        return _kernel.registry[object](transition, state, inputs, out, reverse)
    count, batch, dim = generator.values.shape
    columns = 2 ** ((dim.bit_length() - 1) // 2)
    grid = (batch, dim // columns, columns)
    left = sylvester(grid[1], state).expand(batch, -1, -1)
    right = sylvester(grid[2], state)
    factors = generator.values.view(count, *grid).unbind(0)
    outs = out.view(count, *grid).unbind(0)
    u = inputs.reshape(count, *grid).unbind(0) if inputs is not None else None
    x = state.reshape(grid)
    for t in _order(count, reverse):
        base = x if u is None else x + u[t]
        if generator.transposed:
            x = torch.addcmul(base, factors[t], torch.bmm(left, x @ right), out=outs[t])
        else:
            x = torch.baddbmm(base, left, (factors[t] * x) @ right, out=outs[t])


@_kernel.register
def _(
    transition: LowRankTransition, state: Tensor, inputs: Tensor | None, out: Tensor, reverse: bool
) -> None:
    if state.is_cpu:  # launches cost little there, and the loop stays in the cache
        low_rank_loop(transition, state, inputs, out, reverse)
    else:
        low_rank_in_chunks(transition, state, inputs, out, reverse)


def low_rank_loop(
    transition: LowRankTransition, x: Tensor, inputs: Tensor | None, out: Tensor, reverse: bool
) -> None:
    """Three small products a step."""
    diagonals = transition.diagonal.unsqueeze(-1).unbind(0)
    lefts, rights = transition.left.unbind(0), transition.right.mH.unbind(0)
    outs = out.unbind(0)
    u = inputs.unbind(0) if inputs is not None else None
    for t in _order(len(lefts), reverse):
        inner = torch.bmm(rights[t], x)
        scaled = diagonals[t] * x if u is None else torch.addcmul(u[t], diagonals[t], x)
        x = torch.baddbmm(scaled, lefts[t], inner, out=outs[t])


def low_rank_in_chunks(
    transition: LowRankTransition,
    state: Tensor,
    inputs: Tensor | None,
    out: Tensor,
    reverse: bool,
    size: int = CHUNK,
) -> None:
    """Chunks of `size` steps at once, all chunks side by side but for one carry each.

    Inside a chunk let z_t = V_t^* x_t. Unrolling x_{t+1} = D_t x_t + U_t z_t + u_t gives
        z_t - Σ_{s<t} V_t^* D_{t-1}...D_{s+1} U_s z_s = V_t^* (D_{t-1}...D_0 x_0 + a_t),
    where a_t is what the inputs alone make of a zero state: a unit lower-triangular system of size
    (steps x rank), that of `products`. There inputs are outer products and no state is asked for;
    here every state is, and follows from all z by a diagonal recurrence. The products of diagonals
    are built up by multiplication only, so diagonals may be zero.
    """
    if reverse:
        flipped = transition.map(lambda x: x.flip(0))
        result = torch.empty_like(out)
        backwards = inputs.flip(0) if inputs is not None else None
        low_rank_in_chunks(flipped, state, backwards, result, False, size)
        out.copy_(result.flip(0))
        return
    count, batch, dim = transition.diagonal.shape
    rank, columns = transition.left.shape[-1], state.shape[-1]
    chunks = -(-count // size)

    def chunked(x: Tensor, fill: float) -> Tensor:
        pad = x.new_full((chunks * size - count, *x.shape[1:]), fill)
        return torch.cat([x, pad]).unflatten(0, (chunks, size))

    d = chunked(transition.diagonal, 1.0)
    left, right = chunked(transition.left, 0.0), chunked(transition.right, 0.0)
    u = None if inputs is None else chunked(inputs, 0.0)

    # decayed: U_s after the diagonals of all later steps so far; reach: V_t^* D_{t-1}...D_0
    decayed = d.new_zeros(chunks, batch, size * rank, dim)
    reach = d.new_empty(chunks, batch, size * rank, dim)
    system = d.new_zeros(chunks, batch, size * rank, size * rank)
    driven = d.new_zeros(chunks, batch, size * rank, columns)
    decay = torch.ones_like(d[:, 0])
    alone = d.new_zeros(chunks, batch, dim, columns)
    for t in range(size):
        rows, before = slice(t * rank, (t + 1) * rank), slice(0, t * rank)
        v, step = right[:, t].mH, d[:, t].unsqueeze(-2)
        system[:, :, rows, before] = v @ decayed[:, :, before].mT
        torch.mul(v, decay.unsqueeze(-2), out=reach[:, :, rows])
        decayed[:, :, before] *= step
        decayed[:, :, rows] = left[:, t].mT
        decay = decay * d[:, t]
        if u is not None:
            driven[:, :, rows] = v @ alone
            alone = torch.addcmul(u[:, t], d[:, t].unsqueeze(-1), alone)
    inverse = inverse_of(system)

    starts = state.new_empty(chunks, *state.shape)
    inner = state.new_empty(chunks, batch, size * rank, columns)
    for g in range(chunks):
        starts[g] = state
        torch.matmul(inverse[g], reach[g] @ state + driven[g], out=inner[g])
        state = decay[g].unsqueeze(-1) * state + decayed[g].mT @ inner[g] + alone[g]

    pushed = left @ inner.unflatten(2, (size, rank)).movedim(2, 1)
    if u is not None:
        pushed += u
    x = starts
    for t in range(size):
        x = torch.addcmul(pushed[:, t], d[:, t].unsqueeze(-1), x, out=pushed[:, t])
    out.copy_(pushed.flatten(0, 1)[:count])
