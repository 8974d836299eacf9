"""Scans as opaque operators: their two passes, which torch does not look into.

torch.compile takes an operator whole instead of unrolling time; around the operators stand
Functions, which torch.func can transform. The passes themselves are `chunk_passes`,
`outer_passes` and `native_passes`.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from slicekit.dispatch import apply, plain_torch
from slicekit.handles import Handled
from slicekit.native.mapping import map_by_loop
from slicekit.scans.base import Recurrence, Solution
from slicekit.scans.chunk_passes import Passes
from slicekit.scans.flop_counts import of_adjoint, of_scan
from slicekit.scans.inputs import as_tensors
from slicekit.scans.native_passes import NativePasses
from slicekit.scans.outer_passes import OuterPasses
from slicekit.scans.scales import WINDOW, directions, pull_directions
from slicekit.scans.sources import keep_named, rebuild

ADVICE = ("Chunked() and Native() have", "use scan=Recurrent(), where a scan can be chosen")


def run_opaque(engine: str, recurrence: Recurrence, size: int = 0) -> Solution:
    """Run a recurrence by the passes of an engine, differentiable once in reverse mode.

    Args:
        engine: a key of `PASSES`.
        recurrence: what to run.
        size: steps in a chunk, where the engine has a choice; 0 leaves it to the engine.
    """
    source, readout = recurrence.source, recurrence.readout
    inputs = as_tensors(recurrence.inputs)
    queries = () if readout is None else (readout,)
    operands = (*source.tensors, recurrence.state, *inputs, *queries)
    rescale = WINDOW if recurrence.projective else 0
    plan = (engine, source.spec(), len(source.tensors), len(inputs), size, rescale)
    # The backward pass asks for what the spec names; a graph keeps it by itself.
    held = () if torch.compiler.is_compiling() else source.descriptions
    taped = torch.is_grad_enabled() and any(x.requires_grad for x in operands)
    results: Any
    if torch.compiler.is_compiling() and not taped:
        # torch.compile can't call a Function of any number of tensors that needs no gradient.
        results = _scan(*plan, list(operands), False)
    else:
        # How much is kept depends on the length, which a compiled graph should leave open.
        keep = taped and not torch.compiler.is_compiling()
        results = apply(_OpaqueScan, *ADVICE, plan, held, keep, *operands)
    outputs, last, log_norm = results[:3]
    if recurrence.projective:
        return Solution.from_directions(recurrence, outputs, last, log_norm)
    return Solution(outputs, last)


Plan = tuple[str, str, int, int, int, int]


PASSES: dict[str, type[Passes] | type[OuterPasses] | type[NativePasses]] = {
    "chunked": Passes,
    "outer": OuterPasses,
    "native": NativePasses,
}


def _passes(
    engine: str,
    spec: str,
    tensors: int,
    inputs: int,
    size: int,
    rescale: int,
    operands: list[Tensor],
) -> Passes | OuterPasses | NativePasses:
    source = rebuild(spec, operands[:tensors])
    state, *rest = operands[tensors:]
    readout = rest[inputs] if len(rest) > inputs else None
    return PASSES[engine](source, state, tuple(rest[:inputs]), readout, size, rescale)


@torch.library.custom_op("slicekit::scan", mutates_args=())
def _scan(
    engine: str,
    spec: str,
    tensors: int,
    inputs: int,
    size: int,
    rescale: int,
    operands: list[Tensor],
    keep: bool,
) -> list[Tensor]:
    with plain_torch():
        passes = _passes(engine, spec, tensors, inputs, size, rescale, operands)
        states, last, factors, *rest = passes.forward(keep and passes.keeps())
        if not rescale:
            return [states, last, factors, *rest]
        direction, log_norms, norms, peaks = directions(states, factors, rescale)
        return [
            direction,
            direction[:, -1].clone(),
            log_norms,
            norms,
            peaks,
            states,
            factors,
            *rest,
        ]


@_scan.register_fake
def _(
    engine: str,
    spec: str,
    tensors: int,
    inputs: int,
    size: int,
    rescale: int,
    operands: list[Tensor],
    keep: bool,
) -> list[Tensor]:
    keep_named(spec)
    passes = _passes(engine, spec, tensors, inputs, size, rescale, operands)
    state = passes.state
    kept = passes.blank_kept() if keep and passes.keeps() else []
    real, shape = state.dtype.to_real(), passes.output_shape()
    outputs, last = state.new_empty(shape), state.new_empty(state.shape)
    factors = state.new_empty(passes.factor_shape(), dtype=real)
    rest = [state.new_empty(passes.start_shape()), *(x.new_empty(x.shape) for x in kept)]
    if not rescale:
        return [outputs, last, factors, *rest]
    columns = (shape[0], shape[1], shape[3])
    log_norms, norms = (state.new_empty(columns, dtype=real) for _ in range(2))
    peaks = state.new_empty(columns, dtype=torch.int64)
    return [outputs, last, log_norms, norms, peaks, torch.empty_like(outputs), factors, *rest]


@torch.library.custom_op("slicekit::scan_adjoint", mutates_args=())
def _scan_adjoint(
    engine: str,
    spec: str,
    tensors: int,
    inputs: int,
    size: int,
    rescale: int,
    operands: list[Tensor],
    saved: list[Tensor],
    in_outputs: Tensor,
    in_last: Tensor,
    in_log_norms: Tensor,
    needed: list[bool],
) -> list[Tensor]:
    with plain_torch():
        passes = _passes(engine, spec, tensors, inputs, size, rescale, operands)
        if rescale:
            direction, last, _, norms, peaks, states, factors, *rest = saved
            whole = in_outputs.clone()
            whole[:, -1] += in_last
            in_outputs = pull_directions(
                direction, norms, peaks, factors, rescale, whole, in_log_norms
            )
            saved, in_last = [states, last, factors, *rest], torch.zeros_like(in_last)
        found = passes.backward(saved, in_outputs, in_last, needed)
        return [g if n else g.new_empty(0) for g, n in zip(found, needed, strict=True)]


@_scan_adjoint.register_fake
def _(
    engine: str,
    spec: str,
    tensors: int,
    inputs: int,
    size: int,
    rescale: int,
    operands: list[Tensor],
    saved: list[Tensor],
    in_outputs: Tensor,
    in_last: Tensor,
    in_log_norms: Tensor,
    needed: list[bool],
) -> list[Tensor]:
    pairs = zip(operands, needed, strict=True)
    return [x.new_empty(x.shape if _differentiable(x) and n else (0,)) for x, n in pairs]


def _differentiable(x: Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


class _OpaqueScan(torch.autograd.Function):
    """Outputs, the last of them, and log-norms if projective; then what the backward pass needs."""

    @staticmethod
    def forward(
        plan: Plan, held: tuple[Handled, ...], keep: bool, *operands: Tensor
    ) -> tuple[Tensor, ...]:
        return tuple(_scan(*plan, list(operands), keep))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        ctx.plan, ctx.held, _, *operands = inputs
        ctx.count = len(operands)
        ctx.save_for_backward(*operands, *output)
        ctx.mark_non_differentiable(*output[3 if ctx.plan[-1] else 2 :])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        tensors = ctx.saved_tensors  # asked for once: torch.utils.checkpoint gives them only once
        operands, saved = tensors[: ctx.count], tensors[ctx.count :]
        pairs = zip(gradients[:3], saved[:3], strict=True)
        in_results = [torch.zeros_like(x) if g is None else g for g, x in pairs]
        found: Any
        # A Function inside a Function's backward is more than torch.compile can trace.
        if torch.compiler.is_compiling():
            needed = [True] * ctx.count
            found = _scan_adjoint(*ctx.plan, list(operands), list(saved), *in_results, needed)
        else:
            needed = list(ctx.needs_input_grad[3:])
            found = apply(
                *(_Adjoint, *ADVICE, ctx.plan, ctx.count, needed),
                *(*in_results, *operands, *saved),
            )
        triples = zip(operands, found, needed, strict=True)
        return (None, None, None, *(g if _differentiable(x) and n else None for x, g, n in triples))

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        return map_by_loop(_OpaqueScan, info, in_dims, args)


class _Adjoint(torch.autograd.Function):
    """The backward pass as a Function of its own, so that a second derivative is refused."""

    @staticmethod
    def forward(
        plan: Plan,
        count: int,
        needed: list[bool],
        in_outputs: Tensor,
        in_last: Tensor,
        in_log_norms: Tensor,
        *rest: Tensor,
    ) -> tuple[Tensor, ...]:
        operands, saved = list(rest[:count]), list(rest[count:])
        in_results = (in_outputs, in_last, in_log_norms)
        return tuple(_scan_adjoint(*plan, operands, saved, *in_results, needed))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError(
            "Chunked() and Native() give first derivatives only; for second derivatives use "
            "scan=Recurrent(), where a scan can be chosen"
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        return map_by_loop(_Adjoint, info, in_dims, args)


register_flop_formula(torch.ops.slicekit.scan)(of_scan)
register_flop_formula(torch.ops.slicekit.scan_adjoint)(of_adjoint)
