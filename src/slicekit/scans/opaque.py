"""Scans as one operator of torch, which looks into none of them; see `slicekit.operators`."""

import math
import warnings
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from slicekit.checks import concrete
from slicekit.handles import keep as keep_named
from slicekit.handles import recall
from slicekit.operators import Operator
from slicekit.scans.base import Passes, Recurrence, Solution, as_tensors
from slicekit.scans.projective import WINDOW, directions, pull_directions, strained, window_of
from slicekit.scans.sources import LEAVES, rebuild


def run_opaque(passes: type[Passes], recurrence: Recurrence, size: int = 0) -> Solution:
    """Run a recurrence by its two passes, differentiable once in reverse mode.

    `size` is what they are told of it; 0 leaves it to them.
    """
    source, readout = recurrence.source, recurrence.readout
    inputs = as_tensors(recurrence.inputs)
    queries = () if readout is None else (readout,)
    operands = (*source.tensors, recurrence.state, *inputs, *queries)
    rescale = WINDOW if recurrence.projective else 0
    # How much is kept depends on the length, which a compiled graph should leave open.
    keep = torch.is_grad_enabled() and not torch.compiler.is_compiling()
    keep = keep and any(x.requires_grad for x in operands)
    # So do shapes after a second run: where they are settled beforehand, there is none.
    again = concrete(recurrence.state)
    plan = (passes, *source.recipe, len(source.tensors), len(inputs), size, rescale, again, keep)
    results = SCAN(plan, operands)[:2]
    if recurrence.projective:
        return Solution.from_directions(recurrence, *results)
    return Solution(*results)


def _passes(*plan: Any) -> Passes:
    """From the settings of `SCAN` and its operands; passes may be told by their `key`."""
    kind, structure, flow, names, tensors, inputs, size, rescale, _, _, operands = plan
    source = rebuild(structure, flow, names, operands[:tensors])
    state, *rest = operands[tensors:]
    readout = rest[inputs] if len(rest) > inputs else None
    if isinstance(kind, str):
        module, _, name = kind.partition(":")
        kind = getattr(import_module(module), name)
    return kind(source, state, tuple(rest[:inputs]), readout, size, rescale)


def _forward(*args: Any) -> list[Tensor]:
    """Outputs, and the last state, or log-norms if projective; then what `_backward` needs."""
    *start, rescale, again, keep, operands = args
    passes = _passes(*args)
    states, last, factors, *rest = passes.forward(keep and passes.keeps())
    if not rescale:
        return [states, last, factors, *rest]
    if strained(passes.state, states[:, -1], factors):
        if again:
            passes = _passes(*start, 1, again, keep, operands)
            states, last, factors, *rest = passes.forward(keep and passes.keeps())
        else:
            _warn_of_strain()
    window = window_of(factors, states.shape[1], rescale)
    direction, log_norms, norms, peaks = directions(states, factors, window)
    return [direction, log_norms, norms, peaks, states, factors, *rest]


def _warn_of_strain() -> None:
    warnings.warn(
        f"a projective state grew or shrank so much in {WINDOW} steps that numbers may be lost. "
        "Outside of torch.compile and torch.func it is divided at every step where that happens; "
        "or use smaller increments",
        RuntimeWarning,
        stacklevel=2,
    )


def _shapes(*args: Any) -> list[Tensor]:
    _, structure, flow, *_, rescale, _, keep, _ = args
    if torch.compiler.is_compiling():
        for key in filter(None, (structure, flow)):
            keep_named(key)
    passes = _passes(*args)
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
    return [outputs, log_norms, norms, peaks, torch.empty_like(outputs), factors, *rest]


def _backward(*args: Any) -> list[Tensor]:
    *start, rescale, again, keep, operands = args[:-3]
    saved, (in_outputs, in_second), needed = args[-3:]
    if in_outputs is None:
        in_outputs = torch.zeros_like(saved[0])
    if rescale:
        direction, log_norms, norms, peaks, states, factors, *rest = saved
        rescale = window_of(factors, states.shape[1], rescale)
        given = (in_outputs, torch.zeros_like(log_norms) if in_second is None else in_second)
        in_outputs = pull_directions(direction, norms, peaks, factors, rescale, *given)
        saved, in_second = [states, states[:, -1], factors, *rest], None
    passes = _passes(*start, rescale, again, keep, operands)
    return passes.backward(list(saved), in_outputs, in_second, needed)


def _flops(*plan: Any) -> int:
    """Making the transitions, once for each increment or row of a table, and applying them.

    A multiplication and its addition are two; what is made again is not counted again.
    """
    _, key, _, names, tensors, *_, operands = plan
    batch, columns = operands[tensors][0], operands[tensors][2]
    if key is None:
        count = sum(len(LEAVES[name].stepwise) for name in names)
        return 2 * columns * sum(math.prod(shape) for shape in operands[:count])
    path, length = operands[len(names)], operands[tensors - 1][1]
    structure, rows, channels = recall(key), math.prod(path[:-1]), path[-1]
    applying = structure.step_cost(0)
    making = structure.step_cost(channels) - applying
    return 2 * (rows * making + batch * length * columns * applying)


SCAN = Operator(
    "scan",
    "str passes, str? structure, str? flow, str[] names, int tensors, int inputs, int size, "
    "int rescale, bool again, bool keep",
    _forward,
    _shapes,
    _backward,
    flops=_flops,
    outputs=2,
    partial=True,
    subject="Chunked() and Native() give",
    advice="use scan=Recurrent(), where a scan can be chosen",
)
