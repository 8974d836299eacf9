"""Times of pieces: the exponential of blocks, one step of a layer, a tiny layer."""

import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

import slicekit as sk
from slicekit.bench.problems import still_layer
from slicekit.bench.timing import Effort, Runs, Times, clocked, repeated, threads, time_in_turns
from slicekit.structures.exponential import matrix_exponential

BLOCKS = 20_000
STEPS = 200
"""Steps in a run; one is too short to be timed."""


def exponential_times(block: int, effort: Effort) -> tuple[int, Times]:
    """exp of standard normal blocks over b, forward and backward, by slicekit and by torch.

    Returns:
        How many blocks, and the times of "slicekit" and "torch".

    Raises:
        ArithmeticError: if they do not agree.
    """
    count = 4 * BLOCKS // block if effort.quick else BLOCKS
    source = torch.Generator().manual_seed(0)
    blocks = torch.randn(count, block, block, generator=source) / block
    cotangent = torch.randn(count, block, block, generator=source)
    blocks.requires_grad_()

    def both_ways(exponential: Callable[[Tensor], Tensor]) -> Callable[[], tuple[Tensor, Tensor]]:
        def run() -> tuple[Tensor, Tensor]:
            value = exponential(blocks)
            (gradient,) = torch.autograd.grad(value, blocks, cotangent)
            return value, gradient

        return run

    runs = {"slicekit": both_ways(matrix_exponential), "torch": both_ways(torch.matrix_exp)}
    for found, expected in zip(runs["slicekit"](), runs["torch"](), strict=True):
        if not torch.allclose(found, expected, rtol=1e-3, atol=1e-4):
            raise ArithmeticError(f"exponential of blocks of {block} rows differs from torch's")
    return count, _timed(runs, effort)


def step_times(channels: int, effort: Effort) -> Times:
    """`SLiCE.step` beside one linear map that makes the same transition.

    Returns:
        The times of "step" and "linear", for `STEPS` of them.
    """
    layer = _layer(channels)
    x = torch.randn(1, channels)
    state = _state_at(layer, 16)
    increment = torch.randn(1, layer.drive.channels(channels))
    weight = torch.randn(layer.structure.dim * 4, increment.shape[1])
    runs = {
        "step": lambda: layer.step(x, state),
        "linear": lambda: functional.linear(increment, weight),
    }
    return _timed_steps(runs, effort)


def projective_times(batch: int, effort: Effort) -> Times:
    """`SLiCE.step` of a layer that carries direction and norm apart, beside a plain one.

    Returns:
        The times of "projective" and "plain", for `STEPS` of them.
    """
    x = torch.randn(batch, 32)
    layers = {"projective": _layer(32, projective=True), "plain": _layer(32)}
    runs = {
        name: partial(layer.step, x, _state_at(layer, 16, batch)) for name, layer in layers.items()
    }
    return _timed_steps(runs, effort)


def position_times(early: int, late: int, effort: Effort) -> Times:
    """`SLiCE.step` after few elements and after many: the times of "early" and "late"."""
    layer = _layer(32)
    x = torch.randn(1, 32)
    first, last = _state_at(layer, early), _state_at(layer, late)
    runs = {"early": lambda: layer.step(x, first), "late": lambda: layer.step(x, last)}
    return _timed_steps(runs, effort)


def tiny_times(effort: Effort) -> Times:
    """A layer of 16 channels and rows on 8 elements, forward and backward, beside torch's LSTM.

    Returns:
        The times of "SLiCE" and "LSTM", for `STEPS` of them.
    """
    x = torch.randn(1, 8, 16)
    slice_layer = sk.SLiCE(16, sk.BlockDiagonal(16, 4))
    lstm = nn.LSTM(16, 16, batch_first=True)

    def both_ways(module: nn.Module, run: Callable[[], Tensor]) -> Callable[[], object]:
        parameters = list(module.parameters())
        return repeated(lambda: torch.autograd.grad(run().sum(), parameters), STEPS)

    runs = {
        "SLiCE": both_ways(slice_layer, lambda: slice_layer(x)),
        "LSTM": both_ways(lstm, lambda: lstm(x)[0]),
    }
    return _timed(runs, effort)


def _layer(channels: int, projective: bool = False) -> sk.SLiCE:
    return still_layer(channels, sk.BlockDiagonal(128, 4), projective)


def _state_at(layer: sk.SLiCE, position: int, batch: int = 1) -> sk.State:
    """The state after so many random elements."""
    with torch.inference_mode():
        return layer(torch.randn(batch, position, layer.channels), return_state=True)[1]


def _timed_steps(runs: Runs, effort: Effort) -> Times:
    with torch.inference_mode():
        return _timed({name: repeated(run, STEPS) for name, run in runs.items()}, effort)


def _timed(runs: Runs, effort: Effort) -> Times:
    with threads(1):
        seconds = {name: clocked(run, time.process_time) for name, run in runs.items()}
    return time_in_turns(runs, effort, seconds)
