"""The selective scan of S6 and Mamba, whose states never leave the cache.

    h_{t+1}[c, n] = exp(Δ_t[c] A[c, n]) h_t[c, n] + Δ_t[c] B_t[n] x_t[c]
    y_t[c]        = Σ_n C_t[n] h_{t+1}[c, n]

| here | in Gu and Dao, 2024 |
|---|---|
| `steps` | Δ |
| `rates` | A |
| `inputs` | x |
| `left` | B |
| `readout` | C |
| `channels`, `dim` | D, N |

It is a diagonal recurrence of size channels x dim: an affine LNCDE driven by Δ. Its transitions are
dim times as large as its inputs, so they are made where they are used: by the C++ kernel on the
CPU, elsewhere a chunk of time at a time.
"""

import math

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from slicekit.checks import (
    Lengths,
    check_floating,
    check_lengths,
    check_same_device,
    check_shape,
)
from slicekit.choices import kernel_serves
from slicekit.native import available, warn_once
from slicekit.native.library import unsuited
from slicekit.native.sequences import SELECTIVE
from slicekit.operators import Operator
from slicekit.paths import mask_past_end
from slicekit.paths.tabulated import full_precision
from slicekit.scans.base import Scan
from slicekit.scans.chunked.policy import Chunked
from slicekit.scans.entry import propagate
from slicekit.scans.native.policy import Native
from slicekit.scans.operands import cast, check_length
from slicekit.scans.recurrent import Recurrent
from slicekit.structures import DiagonalTransition

SEQUENCES = (0, 2, 3, 4)
"""Places of the operands (batch, length, ...): all but the rates and the state."""

MOST_NUMBERS, LONGEST_CHUNK = 1 << 24, 128
"""Without the kernel: numbers in the states of a chunk, and steps in it, at most."""


def selective_scan(
    steps: Tensor,
    rates: Tensor,
    inputs: Tensor,
    left: Tensor,
    readout: Tensor,
    initial_state: Tensor,
    lengths: Lengths | None = None,
    scan: Scan | None = None,
) -> tuple[Tensor, Tensor]:
    """Run a selective scan; all tensors are differentiable.

    Args:
        steps: Δ, (batch, length, channels), not negative. A step of zero changes nothing.
        rates: A, (channels, dim), negative where states decay.
        inputs: x, (batch, length, channels).
        left: B, (batch, length, dim).
        readout: C, (batch, length, dim).
        initial_state: h_0, (batch, channels, dim).
        lengths: (batch,) integers; what is past the end changes nothing, and outputs there are 0.
        scan: None for the fastest that applies; `Native()` for the kernel, which gives first
            derivatives only; `Recurrent()` for a plain loop that stores all states; one of several
            processes for their parts together; any other for the scan inside a chunk of time.

    Returns:
        y (batch, length, channels) in the dtype of the inputs, and the last state
        (batch, channels, dim) in the precision it was computed in (float32 for half precision).

    Raises:
        ValueError, TypeError: naming the argument, what it is and what was expected.

    Example:
        >>> steps, ones = torch.full((1, 3, 1), 0.5), torch.ones(1, 3, 1)
        >>> rates = -2 * torch.ones(1, 1) * torch.tensor(2.0).log()
        >>> y, last = selective_scan(steps, rates, ones, ones, ones, torch.zeros(1, 1, 1))
        >>> y.flatten()
        tensor([0.5000, 0.7500, 0.8750])
    """
    check_shape("inputs", inputs, ("batch", "length", "channels"))
    check_floating("inputs", inputs)
    check_shape("rates", rates, (inputs.shape[-1], "dim"))
    (batch, length, channels), dim = inputs.shape, rates.shape[-1]
    check_length("inputs", length)
    if channels < 1 or dim < 1:
        raise ValueError(
            f"rates has shape ({channels}, {dim}); expected at least one channel and state"
        )
    check_shape("steps", steps, (batch, length, channels))
    check_shape("left", left, (batch, length, dim))
    check_shape("readout", readout, (batch, length, dim))
    check_shape("initial_state", initial_state, (batch, channels, dim))
    given = {"steps": steps, "rates": rates, "inputs": inputs, "left": left}
    given |= {"readout": readout, "initial_state": initial_state}
    work = full_precision(inputs).dtype
    for name, x in given.items():
        check_same_device(name, x, "inputs", inputs)
    operands = [cast(name, x, work) for name, x in given.items()]
    if lengths is not None:
        lengths = check_lengths(lengths, batch, length, device=inputs.device)
    outputs, last = _run(operands, lengths, scan)
    return outputs.to(inputs.dtype), last


def _run(
    operands: list[Tensor], lengths: Tensor | None, scan: Scan | None
) -> tuple[Tensor, Tensor]:
    inputs = operands[2]
    if scan is not None and scan.collective:
        return _run_together(operands, lengths, scan)
    if scan is None or isinstance(scan, Native):
        obstacle = unsuited(inputs)
        if kernel_serves("selective scan", obstacle, "chunks of torch"):
            outputs, last, _ = SELECTIVE_SCAN((), (*operands, lengths))
            return outputs, last
        if scan is not None:
            raise ValueError(f"scan=Native(): {obstacle}; leave scan=None or use Chunked()")
        if inputs.device.type == "cpu" and not available():
            warn_once()
    if lengths is not None:
        operands = [
            mask_past_end(x, lengths) if i in SEQUENCES else x for i, x in enumerate(operands)
        ]
    if isinstance(scan, Recurrent):
        return _run_part(scan, *operands)
    return _run_chunks(operands, Chunked() if scan is None else scan)


def _run_together(
    operands: list[Tensor], lengths: Tensor | None, scan: Scan
) -> tuple[Tensor, Tensor]:
    """This process's part: from zero first, to learn where it starts, and then from there.

    A part multiplies the state by exp(A Σ_t Δ_t). As two steps, of which the first changes nothing
    and brings out the state before the part.
    """
    steps, rates, *_, state = operands
    taken = steps if lengths is None else mask_past_end(steps, lengths)
    decay = (taken.sum(1).unsqueeze(-1) * rates).exp().flatten(1)
    driven = _run([*operands[:-1], torch.zeros_like(state)], lengths, None)[1].flatten(1)
    moves = DiagonalTransition(torch.stack([torch.ones_like(decay), decay], 1))
    inputs = torch.stack([torch.zeros_like(driven), driven], 1)
    states, last = propagate(moves, state.flatten(1), inputs, scan=scan)
    start = states[:, 0].unflatten(1, state.shape[1:])
    outputs, _ = _run([*operands[:-1], start], lengths, None)
    return outputs, last.unflatten(1, state.shape[1:])


def _run_part(scan: Scan, *operands: Tensor) -> tuple[Tensor, Tensor]:
    """As a diagonal recurrence of vectors, all of whose states are stored."""
    steps, rates, inputs, left, readout, state = operands
    decays = (steps.unsqueeze(-1) * rates).exp()
    driven = (steps * inputs).unsqueeze(-1) * left.unsqueeze(-2)
    transitions = DiagonalTransition(decays.flatten(2))
    states, last = propagate(transitions, state.flatten(1), driven.flatten(2), scan=scan)
    outputs = (states.unflatten(2, rates.shape) * readout.unsqueeze(-2)).sum(-1)
    return outputs, last.unflatten(1, rates.shape)


def _run_chunks(operands: list[Tensor], scan: Scan) -> tuple[Tensor, Tensor]:
    """A chunk of time after another; the backward pass makes the states of a chunk again."""
    steps, rates, inputs, left, readout, state = operands
    fitting = MOST_NUMBERS // max(1, state.numel())
    size = max(1, min(LONGEST_CHUNK, fitting))
    outputs = []
    parts = (x.split(size, 1) for x in (steps, inputs, left, readout))
    for step, x, b, c in zip(*parts, strict=True):
        y, state = checkpoint(_run_part, scan, step, rates, x, b, c, state, use_reentrant=False)
        outputs.append(y)
    return torch.cat(outputs, 1), state


def _flops(operands: list[tuple[int, ...]]) -> int:
    """Decay, drive and readout of each number of a state."""
    steps, rates = operands[:2]
    return 2 * 3 * math.prod(steps) * rates[-1]


SELECTIVE_SCAN = Operator(
    "selective_scan",
    "",
    SELECTIVE.forward,
    SELECTIVE.shapes,
    SELECTIVE.backward,
    flops=_flops,
    outputs=2,
    keeps=(2,),
    subject="selective_scan gives",
    advice="use scan=Recurrent(), where a scan can be chosen",
)
