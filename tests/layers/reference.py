"""Layers to try, and what they should do: an obvious loop over full matrices.

The loop shares nothing with the layer but `structure.combine(...).as_dense()`: increments, initial
states, flows and norms are written out here by hand.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from slicekit import (
    Differences,
    DirectSum,
    Exponential,
    FirstInput,
    Learned,
    Pointwise,
    SLiCE,
    TimeAndInput,
)
from slicekit.layers import Drive, InitialState
from slicekit.structures import Structure
from tests.market import STRUCTURES

INPUTS, BATCH, LENGTH, GATES = 2, 2, 5, 3


def softplus_gates() -> Pointwise:
    """Non-negative channels with parameters of their own."""
    return Pointwise(nn.Sequential(nn.Linear(INPUTS, GATES), nn.Softplus()), GATES, scale=0.5)


DRIVES: dict[str, Callable[[], Drive]] = {
    "time-and-input": lambda: TimeAndInput(dt=0.3),
    "differences": lambda: Differences(scale=0.5),
    "timed-differences": lambda: Differences(times=0.7),
    "differences-from-origin": lambda: Differences(origin=True),
    "timed-differences-from-origin": lambda: Differences(times=0.7, origin=True, scale=0.5),
    "gates": softplus_gates,
}
INITIALS: dict[str, InitialState] = {
    "learned": Learned(),
    "first-input": FirstInput(),
    "first-input-drives": FirstInput(drives=True),
}
MODES: dict[str, dict[str, Any]] = {
    "plain": {},
    "affine": {"affine": True},
    "projective": {"projective": True},
}

every_drive = pytest.mark.parametrize("drive", DRIVES)
every_initial = pytest.mark.parametrize("initial", INITIALS)
every_mode = pytest.mark.parametrize("mode", MODES)


def make_layer(
    structure: str | Structure = "blocks",
    drive: str = "time-and-input",
    initial: str = "first-input",
    mode: str = "plain",
    **rest: Any,
) -> SLiCE:
    """A layer in float64; the global seed decides its parameters."""
    described = STRUCTURES[structure] if isinstance(structure, str) else structure
    policies: dict[str, Any] = {"drive": DRIVES[drive](), "initial": INITIALS[initial]}
    return SLiCE(INPUTS, described, **policies, **MODES[mode], **rest).double()


def make_input(batch: int = BATCH, length: int = LENGTH) -> Tensor:
    """Elements that a gradient can be taken in."""
    return torch.randn(batch, length, INPUTS, dtype=torch.float64, requires_grad=True)


def states_by_hand(layer: SLiCE, x: Tensor) -> Tensor:
    """The unnormalised states (batch, length, dim) of a layer, one step after the other."""
    moves = increments_by_hand(layer.drive, x)
    start, parameters = layer.start(), layer.A()
    if isinstance(layer.initial, Learned):
        h = torch.stack([start["state"]] * x.shape[0])
    else:
        h = torch.einsum("dc,bc->bd", start["weight"], x[:, 0]) + start["bias"]
    states = []
    for step, move in enumerate(moves):
        special = step == 0 and layer.initial == FirstInput()
        if not special:
            generator = layer.structure.combine(parameters, move).as_dense()
            h = torch.einsum("bij,bj->bi", transition_by_hand(layer, generator), h)
            if layer.B is not None:
                h = h + torch.einsum("dc,bc->bd", layer.B, move)
        states.append(h)
    return torch.stack(states, 1)


def increments_by_hand(drive: Drive, x: Tensor) -> list[Tensor]:
    """Δω for each step, (batch, channels)."""
    moves = []
    for step in range(x.shape[1]):
        now = x[:, step]
        one = torch.ones_like(now[:, :1])
        if isinstance(drive, TimeAndInput):
            moves.append(torch.cat([one, now], 1) * drive.dt)
        elif isinstance(drive, Differences):
            starts = step == 0 and not drive.origin
            before = x[:, step - 1] if step > 0 else now if starts else torch.zeros_like(now)
            clock = [] if drive.times is None else [one * (0 if starts else drive.times)]
            moves.append(torch.cat([*clock, now - before], 1) * drive.scale)
        else:
            assert isinstance(drive, Pointwise)
            assert isinstance(drive.module, nn.Sequential)
            linear = drive.module[0]
            assert isinstance(linear, nn.Linear)
            moves.append(torch.log1p(torch.exp(now @ linear.weight.t() + linear.bias)))
    return moves


def transition_by_hand(layer: SLiCE, generator: Tensor) -> Tensor:
    """I + A or exp(A) as full matrices; in a sum, every part takes its own."""
    if isinstance(layer.flow, Exponential):
        return torch.matrix_exp(generator)
    euler = torch.eye(generator.shape[-1], dtype=generator.dtype) + generator
    rotating = rotating_rows(layer.structure)[:, None]
    return torch.where(rotating, torch.matrix_exp(generator), euler) if rotating.any() else euler


def rotating_rows(structure: Structure) -> Tensor:
    """Which rows belong to a part that always exponentiates."""
    if isinstance(structure, DirectSum):
        return torch.cat([rotating_rows(part) for part in structure.parts])
    return torch.full((structure.dim,), structure.exponential_only)


def outputs_by_hand(layer: SLiCE, x: Tensor) -> Tensor:
    """What `layer(x)` should be."""
    states = states_by_hand(layer, x)
    return states / states.norm(dim=-1, keepdim=True) if layer.projective else states


def gradients(outputs: Tensor, module: nn.Module, *others: Tensor) -> dict[str, Tensor]:
    """Gradients of one random functional of the outputs, the same for equal shapes.

    What the outputs do not depend on has the gradient zero.
    """
    weights = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(5))
    leaves = dict(module.named_parameters()) | {f"input {i}": x for i, x in enumerate(others)}
    found = torch.autograd.grad(
        (outputs * weights.to(outputs.dtype)).sum(),
        list(leaves.values()),
        allow_unused=True,
        materialize_grads=True,
    )
    return dict(zip(leaves, found, strict=True))


def assert_near(
    actual: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float = 1e-9
) -> None:
    """Equal to a relative error in the norm of each tensor."""
    assert actual.keys() == expected.keys()
    for name, want in expected.items():
        got = actual[name]
        assert got.shape == want.shape, f"{name}: {tuple(got.shape)}, not {tuple(want.shape)}"
        error = torch.linalg.vector_norm((got - want).double())
        allowed = tolerance * (1 + torch.linalg.vector_norm(want.double()))
        assert error <= allowed, f"{name}: error {error:.2e} of {allowed:.2e}"


def every_split(length: int) -> list[list[int]]:
    """All ways to cut a sequence into parts, as sizes."""
    splits = []
    for cuts in range(2 ** (length - 1)):
        edges = [0, *(i + 1 for i in range(length - 1) if cuts >> i & 1), length]
        splits.append([later - earlier for earlier, later in pairwise(edges)])
    return splits


def run_parts(module: nn.Module, x: Tensor, sizes: Sequence[int]) -> tuple[list[Tensor], Any]:
    """The outputs of a module on each part of a sequence, and its last state."""
    state, outputs = None, []
    for part in x.split(list(sizes), 1):
        y, state = module(part, state, return_state=True)
        outputs.append(y)
    return outputs, state


def run_steps(module: Any, x: Tensor) -> tuple[list[Tensor], Any]:
    """The outputs of a module element by element, and its last state."""
    state, outputs = None, []
    for element in x.unbind(1):
        y, state = module.step(element, state)
        outputs.append(y)
    return outputs, state
