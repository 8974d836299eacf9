"""The linear CDEs that a network starts from: damped rotations, or any structure.

    h_{t+1} = h_t + A(1, x_t) h_t + B x_t,    A(1, x) = A^0 + ε Σ_i A^i x^i

A^0 is made of damped rotations, with memories from one step to the length of the series and
frequencies up to the fastest that the steps can show; B reads a few random channels; the A^i are
small and random, and make the states polynomials of the path.
"""

import math

import torch
from torch import Tensor

from slicekit.flows import Euler
from slicekit.layers import Learned, SLiCE, TimeAndInput
from slicekit.structures import BlockDiagonal, Structure

BLOCK = 4


def check_structure(structure: Structure | None) -> None:
    """Raise TypeError unless it is a structure or None."""
    if structure is not None and not isinstance(structure, Structure):
        raise TypeError(
            f"structure={structure!r}; expected a structure such as BlockDiagonal(64, 4), or None"
        )


def random_layer(
    channels: int, structure: Structure | None, dim: int, length: int, mixing: float
) -> SLiCE:
    """Damped rotations, or a layer of some structure with increments that suit the length."""
    if structure is None:
        return rotations(channels, dim, length, mixing)
    drive = TimeAndInput(min(0.25, 1 / math.sqrt(max(1, length))))
    return SLiCE(channels, structure, drive=drive, initial=Learned())


def rotations(channels: int, dim: int, length: int, mixing: float) -> SLiCE:
    """Damped rotations of many speeds, driven by a few channels each; torch's own random numbers.

    Args:
        channels: of the input.
        dim: a multiple of 4.
        length: of the series: the longest memory.
        mixing: ε, size of the part of A that depends on the input.
    """
    layer = SLiCE(
        channels,
        BlockDiagonal(dim, BLOCK),
        drive=TimeAndInput(1.0),
        initial=Learned(),
        flow=Euler(),
        affine=True,
    )
    planes, longest = dim // 2, float(max(4, length))
    memory = _log_uniform(planes, 1.0, longest)
    speed = _log_uniform(planes, math.pi / longest, 0.9 * math.pi)
    speed[torch.rand(planes) < 0.25] = 0
    turning = torch.where(speed > 0, torch.rand(planes) / speed.clamp_min(1e-3), 0)
    kept = torch.exp(-1 / torch.maximum(memory, turning).clamp(max=longest))
    turn = torch.stack([speed.cos(), -speed.sin(), speed.sin(), speed.cos()], -1)
    planar = kept[:, None, None] * turn.reshape(planes, 2, 2)
    first = torch.zeros(dim // BLOCK, BLOCK, BLOCK)
    for place in range(0, BLOCK, 2):
        first[:, place : place + 2, place : place + 2] = planar[place // 2 :: BLOCK // 2]
    forgets = (1 - kept).reshape(-1, BLOCK // 2).amin(1)
    matrices = next(iter(layer.A.parameters()))
    assert layer.B is not None
    with torch.no_grad():
        scale = mixing / math.sqrt(channels * BLOCK) * forgets
        matrices.copy_(torch.randn(matrices.shape) * scale[:, None, None])
        matrices[0] = first - torch.eye(BLOCK)
        layer.B.copy_(_inputs(planes, channels) * (1 - kept).repeat_interleave(2)[:, None])
        for start in layer.start.parameters():
            start.zero_()
    return layer


def _inputs(planes: int, channels: int) -> Tensor:
    """B: every plane reads a few random channels, and none reads time."""
    reads = torch.zeros(planes, 2, channels + 1)
    few = min(channels, 9)
    for plane in range(planes):
        count = min(channels, int(2 ** (torch.rand(()).item() * math.log2(few + 1))))
        chosen = torch.randperm(channels)[:count]
        reads[plane, :, 1 + chosen] = torch.randn(2, count) / math.sqrt(count)
    return reads.flatten(0, 1)


def _log_uniform(count: int, low: float, high: float) -> Tensor:
    return torch.empty(count).uniform_(math.log(low), math.log(high)).exp()
