"""The portable fast path: transitions made chunk by chunk, with a hand-written adjoint.

Forward, each chunk's transitions are made by one matrix product and run without a tape. Backward,
the chunks are taken in reverse: their transitions are made again (or were kept, while they are
small), the adjoint recurrence is run, and its result is pulled back to the increments and the
parameters by two matrix products. Nothing but the states is stored in between.

Both passes are opaque operators, so that torch.compile takes them whole instead of unrolling time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from slicekit.scans.base import Recurrence, Scan, Solution, contract
from slicekit.scans.inputs import as_tensors, input_pullback, input_window
from slicekit.scans.kernels import run
from slicekit.scans.sources import FromTransitions, Source, rebuild
from slicekit.structures import Transition

CHUNK_BYTES = 4 * 2**20
"""Transitions that exist at a time, unless they are kept."""

KEEP_BYTES = 32 * 2**20
"""Transitions up to this size are kept for the backward pass; larger allocations page-fault."""

RESCALE_EVERY = 8
"""Steps between two divisions of a projective state."""


@dataclass(frozen=True)
class Chunked(Scan):
    """Steps in chunks of `size`, with transitions only ever made for one chunk at a time.

    Args:
        size: steps in a chunk; None lets the transitions of a chunk fill a few megabytes.

    First derivatives only: for second derivatives use `Recurrent`.
    """

    size: int | None = None
    citations: ClassVar[tuple[str, ...]] = ("yang2024parallelizing",)

    def __post_init__(self) -> None:
        """Check the size."""
        if self.size is not None and self.size < 1:
            raise ValueError(f"size={self.size}; expected at least 1, or None")

    def run(self, recurrence: Recurrence) -> Solution:
        """Run the chunks one after the other."""
        source = recurrence.source
        if isinstance(source, FromTransitions) and not source.rebuildable:
            raise ValueError(
                f"scan={self!r} does not know {type(source.transition).__name__}; use Recurrent()"
            )
        tensors = source.tensors
        inputs = as_tensors(recurrence.inputs)
        readout = recurrence.readout
        operands = (*tensors, recurrence.state, *inputs, *(() if readout is None else (readout,)))
        keep = torch.is_grad_enabled() and any(x.requires_grad for x in operands)
        plan = (
            source.spec(),
            len(tensors),
            len(inputs),
            self.size or 0,
            RESCALE_EVERY if recurrence.projective else 0,
            keep,
        )
        results: Any = _ChunkedScan.apply(plan, *operands)
        outputs, last, factors = results[:3]
        if not recurrence.projective:
            return Solution(outputs, last)
        return Solution(outputs, last, factors.log().cumsum(1))


def _windows(length: int, size: int) -> list[tuple[int, int]]:
    return [(start, min(start + size, length)) for start in range(0, length, size)]


def _sizes(source: Source, size: int, keep: bool) -> tuple[int, bool]:
    """Steps in a chunk, and whether its transitions are kept for the backward pass."""
    per_step = max(source.step_bytes(), 1)
    keep = keep and source.keeps and per_step * source.length <= KEEP_BYTES
    return size or max(1, CHUNK_BYTES // per_step), keep


def _parts(transition: Transition, rescale: int) -> Iterator[tuple[slice, Transition]]:
    """A chunk's transitions between two divisions of the state; in one piece if there are none."""
    steps = transition.tensors()[0].shape[0]
    if not rescale:
        yield slice(0, steps), transition
        return
    for start, stop in _windows(steps, rescale):
        part = slice(start, stop)
        yield part, transition.map(lambda x, part=part: x[part])


def _forward(
    source: Source,
    state: Tensor,
    inputs: tuple[Tensor, ...],
    readout: Tensor | None,
    size: int,
    rescale: int,
    keep: bool,
) -> list[Tensor]:
    """[outputs, last, factors, starts, *kept], see `_scan`."""
    size, keep = _sizes(source, size, keep)
    batch, dim, columns = state.shape
    length = source.length
    shape = (length, batch, dim, columns) if readout is None else (length, batch, columns)
    outputs = state.new_empty(shape)
    factors = state.new_ones((batch, length, columns) if rescale else (0, 0, 0), dtype=_real(state))
    starts, kept = [], []
    for start, stop in _windows(length, size):
        starts.append(state)
        chunk = source.window(start, stop)
        if keep:
            kept.extend(chunk.tensors())
        u = input_window(inputs, start, stop)
        if readout is None:
            states = outputs[start:stop]
        else:
            states = state.new_empty(stop - start, batch, dim, columns)
        for part, transition in _parts(chunk, rescale):
            if rescale and start + part.start > 0:
                norm = _norm(state)
                factors[:, start + part.start] = norm.squeeze(-2)
                state = state / norm
            run(transition, state, None if u is None else u[part], states[part])
            state = states[part][-1]
        if readout is not None:
            outputs[start:stop] = contract(readout[:, start:stop].transpose(0, 1), states)
            state = state.clone()
    result = outputs.transpose(0, 1).contiguous()
    marks = torch.stack(starts) if readout is not None else state.new_empty(0)
    return [result, state.clone(), factors, marks, *kept]


def _norm(state: Tensor) -> Tensor:
    norm = torch.linalg.vector_norm(state, dim=-2, keepdim=True)
    return norm.clamp_min(torch.finfo(norm.dtype).tiny)


def _real(state: Tensor) -> torch.dtype:
    return state.dtype.to_real()


def _adjoint(
    chunk: Transition, carry: Tensor, own: Tensor, factors: Tensor, rescale: int
) -> tuple[Tensor, Tensor]:
    """Cotangents of the states after each step of a chunk, and of the state before it.

    Args:
        carry: gradient of the last state from later steps.
        own: (1 + steps, batch, dim, columns): zero, then the states' own gradients.
        factors: (batch, steps, columns), by which the state was divided before each step.
    """
    cotangents = torch.empty_like(own)
    for part, transition in reversed(list(_parts(chunk, rescale))):
        # Row t of `rows` is the state before step t: its own gradient, and what step t passes back.
        rows = cotangents[part.start : part.stop + 1]
        torch.add(own[part.stop], carry, out=rows[-1])
        star = transition.adjoint()
        assert isinstance(star, Transition)
        before = own[part]
        if part.start:
            before = torch.cat([torch.zeros_like(own[:1]), before[1:]])
        run(star, rows[-1], before, rows[:-1], reverse=True)
        carry = rows[0]
        if rescale:
            carry = carry / factors[:, part.start].unsqueeze(-2)
    return cotangents[1:], carry


def _backward(
    source: Source,
    state: Tensor,
    inputs: tuple[Tensor, ...],
    readout: Tensor | None,
    size: int,
    rescale: int,
    saved: list[Tensor],
    in_outputs: Tensor,
    in_last: Tensor,
) -> list[Tensor]:
    """Gradients of the source's tensors, the state, the inputs and the readout."""
    outputs, _, factors, starts, *kept = saved
    size, keep = _sizes(source, size, bool(kept))
    batch, dim, columns = state.shape
    source.open_gradients()
    in_inputs = tuple(torch.empty_like(x) for x in inputs)
    in_readout = torch.empty_like(readout) if readout is not None else None
    carry = in_last
    windows = _windows(source.length, size)
    for number, (start, stop) in reversed(list(enumerate(windows))):
        whole = None
        if keep:
            share = len(kept) // len(windows)
            tensors = tuple(kept[number * share : (number + 1) * share])
            whole = source.window(0, 1).with_tensors(tensors)
        chunk, pullback = source.window_with_pullback(start, stop, whole)
        before = state.new_empty(stop - start, batch, dim, columns)
        own = state.new_zeros(stop - start + 1, batch, dim, columns)
        given = in_outputs[:, start:stop].transpose(0, 1)
        if readout is None:
            before[0] = outputs[:, start - 1] if start else state
            before[1:] = outputs[:, start : stop - 1].transpose(0, 1)
            own[1:] = given
        else:
            states = torch.empty_like(before)
            run(chunk, starts[number], input_window(inputs, start, stop), states)
            before[0], before[1:] = starts[number], states[:-1]
            query = readout[:, start:stop].transpose(0, 1)
            own[1:] = query.conj().unsqueeze(-1) * given.unsqueeze(-2)
            assert in_readout is not None
            in_query = (states.conj() @ given.unsqueeze(-1)).squeeze(-1)
            in_readout[:, start:stop] = in_query.transpose(0, 1)
        if rescale:
            before /= factors[:, start:stop].transpose(0, 1).unsqueeze(-2)
        cotangents, carry = _adjoint(chunk, carry, own, factors[:, start:stop], rescale)
        for total, x in zip(in_inputs, input_pullback(inputs, start, stop, cotangents), strict=True):
            total[:, start:stop] = x
        pullback(chunk.pullback(before, cotangents))
    tail = () if in_readout is None else (in_readout,)
    return [x.contiguous() for x in (*source.gradients(), carry, *in_inputs, *tail)]


def _unpack(spec: str, counts: list[int], operands: list[Tensor]) -> tuple[Any, ...]:
    """Source, state, inputs and readout out of the flat list of operands."""
    tensors, inputs = counts
    source = rebuild(spec, operands[:tensors])
    state, *rest = operands[tensors:]
    readout = rest[inputs] if len(rest) > inputs else None
    return source, state, tuple(rest[:inputs]), readout


@torch.library.custom_op("slicekit::chunked_scan", mutates_args=())
def _scan(
    spec: str, counts: list[int], operands: list[Tensor], size: int, rescale: int, keep: bool
) -> list[Tensor]:
    with _full_precision(operands):
        return _forward(*_unpack(spec, counts, operands), size, rescale, keep)


@_scan.register_fake
def _(
    spec: str, counts: list[int], operands: list[Tensor], size: int, rescale: int, keep: bool
) -> list[Tensor]:
    source, state, _, readout = _unpack(spec, counts, operands)
    size, keep = _sizes(source, size, keep)
    batch, dim, columns = state.shape
    length = source.length
    shape = (batch, length, dim, columns) if readout is None else (batch, length, columns)
    factors = (batch, length, columns) if rescale else (0, 0, 0)
    windows = _windows(length, size)
    kept = [x for start, stop in windows if keep for x in source.window(start, stop).tensors()]
    return [
        state.new_empty(shape),
        state.new_empty(state.shape),
        state.new_empty(factors, dtype=_real(state)),
        state.new_empty((0,) if readout is None else (len(windows), batch, dim, columns)),
        *(x.new_empty(x.shape) for x in kept),
    ]


@torch.library.custom_op("slicekit::chunked_scan_adjoint", mutates_args=())
def _scan_adjoint(
    spec: str,
    counts: list[int],
    operands: list[Tensor],
    size: int,
    rescale: int,
    saved: list[Tensor],
    in_outputs: Tensor,
    in_last: Tensor,
) -> list[Tensor]:
    with _full_precision(operands):
        return _backward(
            *_unpack(spec, counts, operands), size, rescale, saved, in_outputs, in_last
        )


@_scan_adjoint.register_fake
def _(
    spec: str,
    counts: list[int],
    operands: list[Tensor],
    size: int,
    rescale: int,
    saved: list[Tensor],
    in_outputs: Tensor,
    in_last: Tensor,
) -> list[Tensor]:
    return [x.new_empty(x.shape if _differentiable(x) else (0,)) for x in operands]


def _full_precision(operands: list[Tensor]) -> torch.autocast:
    return torch.autocast(operands[-1].device.type, enabled=False)


def _differentiable(x: Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


Plan = tuple[str, int, int, int, int, bool]


class _ChunkedScan(torch.autograd.Function):
    """outputs, last, factors, starts and kept transitions; the first two are differentiable."""

    @staticmethod
    def forward(plan: Plan, *operands: Tensor) -> tuple[Tensor, ...]:
        spec, tensors, inputs, size, rescale, keep = plan
        return tuple(_scan(spec, [tensors, inputs], list(operands), size, rescale, keep))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        ctx.plan, *operands = inputs
        ctx.count = len(operands)
        ctx.save_for_backward(*operands, *output)
        ctx.mark_non_differentiable(*output[2:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        operands, saved = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
        in_outputs, in_last = gradients[:2]
        in_outputs = torch.zeros_like(saved[0]) if in_outputs is None else in_outputs
        in_last = torch.zeros_like(saved[1]) if in_last is None else in_last
        spec, tensors, inputs, size, rescale, _ = ctx.plan
        # A Function inside a Function's backward is more than torch.compile can trace.
        if torch.compiler.is_compiling():
            found = _scan_adjoint(
                spec, [tensors, inputs], list(operands), size, rescale, list(saved), in_outputs,
                in_last,
            )
        else:
            found = _Adjoint.apply(ctx.plan, ctx.count, in_outputs, in_last, *operands, *saved)
        pairs = zip(operands, found, strict=True)  # type: ignore[arg-type]
        return (None, *(g if _differentiable(x) else None for x, g in pairs))

    @staticmethod
    def vmap(info: Any, in_dims: tuple, plan: Plan, *operands: Tensor) -> tuple[Any, Any]:
        return _map_over_batch(_ChunkedScan, info, in_dims, (plan,), operands)


class _Adjoint(torch.autograd.Function):
    """The backward pass as a Function of its own, so that a second derivative is refused."""

    @staticmethod
    def forward(
        plan: Plan, count: int, in_outputs: Tensor, in_last: Tensor, *rest: Tensor
    ) -> tuple[Tensor, ...]:
        spec, tensors, inputs, size, rescale, _ = plan
        operands, saved = list(rest[:count]), list(rest[count:])
        found = _scan_adjoint(
            spec, [tensors, inputs], operands, size, rescale, saved, in_outputs, in_last
        )
        return tuple(found)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise RuntimeError(
            "Chunked() gives first derivatives only; for second derivatives use scan=Recurrent()"
        )

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple, plan: Plan, count: int, *tensors: Tensor
    ) -> tuple[Any, Any]:
        return _map_over_batch(_Adjoint, info, in_dims, (plan, count), tensors)


def _map_over_batch(
    function: Any, info: Any, in_dims: tuple, fixed: tuple, tensors: tuple[Tensor, ...]
) -> tuple[Any, Any]:
    """torch.vmap by a loop: each element is a whole batch of sequences already."""
    axes = in_dims[len(fixed) :]
    rows = []
    for i in range(info.batch_size):
        row = (
            x if axis is None else x.select(axis, i) for x, axis in zip(tensors, axes, strict=True)
        )
        rows.append(function.apply(*fixed, *row))
    return tuple(torch.stack(column) for column in zip(*rows, strict=True)), (0,) * len(rows[0])
