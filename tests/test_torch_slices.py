"""`solve` against torch-slices with the same weights, in both of its execution modes.

By the loop and by the scan that is chosen: that all scans agree is what tests/scans is about.
Here its weights are handed to `solve` as differentiable views, and gradients are taken in the very
same tensors. Whole models are compared in `test_converters.py`.
"""

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from slicekit import (
    BlockDiagonal,
    Dense,
    Diagonal,
    DiagonalDense,
    Euler,
    Exponential,
    Recurrent,
    solve,
)
from slicekit.scans import Scan
from slicekit.structures import Parameters, Structure

slices = pytest.importorskip("slices")

BATCH, LENGTH, INPUTS, DIM = 2, 13, 3, 12
# The gradient of torch.matrix_exp, which torch-slices takes, is wrong by 1e-12 where ours is exact.
TOLERANCE = {torch.float64: 1e-11, torch.float32: 1e-5}
STRUCTURES: dict[str, Structure] = {
    "diagonal": Diagonal(DIM),
    "blocks": BlockDiagonal(DIM, 4),
    "dense": Dense(DIM),
    "diagonal-dense": DiagonalDense(DIM, 5),
}
BLOCKS = {"diagonal": 1, "blocks": 4, "dense": DIM, "diagonal-dense": 5}
FLOWS = {"euler": Euler(), "matrix_exp": Exponential()}
SCANS: dict[str, Scan | None] = {
    "recurrent": Recurrent(),
    "chosen": None,
}
Answers = dict[str, Tensor]


def peer(name: str, transition: str, path_mode: str, bias: bool, dtype: torch.dtype) -> Any:
    torch.manual_seed(1)
    module = slices.SLiCE(
        INPUTS,
        DIM,
        bias=bias,
        block_size=BLOCKS[name],
        diagonal_dense=name == "diagonal-dense",
        init_std=0.7,
        scale=0.5,
        chunk_size=5,
        path_mode=path_mode,
        transition_mode=transition,
    )
    return module.to(dtype)


def path(dtype: torch.dtype) -> Tensor:
    source = torch.Generator().manual_seed(2)
    return torch.randn(BATCH, LENGTH, INPUTS, generator=source).to(dtype).requires_grad_()


def increments(module: Any, x: Tensor) -> Tensor:
    """(1, ΔX) scale, or (1, X) scale where the input is taken for increments."""
    moved = x - torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)
    moved = moved if module.path_mode == "values" else x
    return torch.cat([torch.ones_like(x[..., :1]), moved], -1) * module.scale


def parameters(name: str, module: Any) -> Parameters:
    """A^i is what the linear map gives for the i-th unit vector, read row by row."""
    block = BLOCKS[name]
    if name == "diagonal":
        return {"values": module.vf_A.weight.t()}
    if name == "diagonal-dense":
        dense = module.vf_A_dense.weight.t().reshape(INPUTS + 1, 1, block, block)
        return {"part0_values": module.vf_A_diag.weight.t(), "part1_blocks": dense}
    blocks = module.vf_A.weight.t().reshape(INPUTS + 1, DIM // block, block, block)
    return {"blocks": blocks}


def with_gradients(states: Tensor, module: Any, x: Tensor) -> Answers:
    """States, and gradients of a fixed functional of them in the input and all weights."""
    weights = torch.randn(states.shape, generator=torch.Generator().manual_seed(3))
    leaves = {"x": x, **dict(module.named_parameters())}
    gradients = torch.autograd.grad((states * weights.to(states)).sum(), list(leaves.values()))
    named = {f"gradient of {k}": g for k, g in zip(leaves, gradients, strict=True)}
    return {"states": states.detach(), **named}


@cache
def theirs(name: str, mode: str, transition: str, path_mode: str, bias: bool) -> Answers:
    """In float64."""
    module, x = peer(name, transition, path_mode, bias, torch.float64), path(torch.float64)
    module.use_parallel = mode == "parallel"
    return with_gradients(module(x), module, x)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("bias", [True, False], ids=["affine", "linear"])
@pytest.mark.parametrize("path_mode", ["values", "increments"])
@pytest.mark.parametrize("transition", FLOWS)
@pytest.mark.parametrize("mode", ["recurrent", "parallel"])
@pytest.mark.parametrize("name", STRUCTURES)
def test_states_and_gradients_are_those_of_torch_slices(
    name: str,
    mode: str,
    transition: str,
    path_mode: str,
    bias: bool,
    scan: str,
    dtype: torch.dtype,
) -> None:
    module, x = peer(name, transition, path_mode, bias, dtype), path(dtype)
    moved = increments(module, x)
    states, _ = solve(
        STRUCTURES[name],
        parameters(name, module),
        moved,
        module.init.expand(BATCH, -1),
        FLOWS[transition],
        SCANS[scan],
        inputs=module.vf_B(moved) if bias else None,
    )
    ours = with_gradients(states, module, x)
    for what, want in theirs(name, mode, transition, path_mode, bias).items():
        error = (ours[what] - want).norm() / want.norm()
        assert error <= TOLERANCE[dtype], f"{what}: relative error {error:.1e}"
