"""Bad input: the same messages for the same mistakes as in torch, under jit while it traces."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch

import slicekit as sk
import slicekit.jax as sj

KEY = jax.random.key(0)

MISTAKES: dict[str, Callable[[Any], Any]] = {
    "block": lambda k: k.BlockDiagonal(8, 3),
    "ragged": lambda k: k.BlockDiagonal(blocks=[2, 0]),
    "power": lambda k: k.WalshHadamard(12),
    "rank": lambda k: k.DPLR(3, 4),
    "density": lambda k: k.Sparse(4, density=2.0),
    "sum": lambda k: k.DirectSum(),
    "depth": lambda k: k.LogODE(0, 2),
    "window": lambda k: k.LogODE(2, 0),
    "substeps": lambda k: k.Exponential(0),
    "dt": lambda k: k.TimeAndInput(dt=0.0),
    "quadratic": lambda k: k.JointDPLR(3, 1).lift(2),
    "dropout": lambda k: k.Block(None, 3, dropout=1.0, **({"key": KEY} if k is sj else {})),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_descriptions_refuse_what_torch_s_refuse(mistake: str) -> None:
    with pytest.raises(Exception) as theirs:
        MISTAKES[mistake](sk)
    with pytest.raises(Exception) as ours:
        MISTAKES[mistake](sj)
    assert type(ours.value) is type(theirs.value) and str(ours.value) == str(theirs.value)


def solve(k: Any, ones: Any, structure: Any = None, start: Any = (2, 3), **more: Any) -> Any:
    structure = k.Diagonal(3) if structure is None else structure
    parameters = {"values": ones(2, 3)}
    return k.solve(structure, parameters, ones(2, 4, 2), ones(*start), **more)


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "state": lambda k, ones: solve(k, ones, start=(2, 4)),
    "parameters": lambda k, ones: solve(k, ones, k.Dense(3)),
    "inputs": lambda k, ones: solve(k, ones, inputs=ones(2, 4, 5)),
    "outer": lambda k, ones: solve(k, ones, inputs=k.Outer(ones(2, 4, 3), ones(2, 4, 1))),
    "lengths": lambda k, ones: solve(k, ones, lengths=[5, 1]),
    "flow": lambda k, ones: solve(k, ones, flow="euler"),
    "isometry": lambda k, ones: solve(k, ones, k.Orthogonal(2, 2), flow=k.Euler()),
    "projective": lambda k, ones: k.solve(
        k.Diagonal(3),
        {"values": ones(2, 3)},
        ones(2, 4, 2),
        k.Projective.of(ones(2, 3)),
        inputs=ones(2, 4, 3),
    ),
    "channels": lambda k, ones: layer(k)(ones(2, 4, 5)),
    "length": lambda k, ones: layer(k)(ones(2, 0, 2)),
    "started": lambda k, ones: layer(k)(ones(2, 4, 2), lengths=[0, 1]),
}


def layer(k: Any) -> Any:
    return k.SLiCE(2, k.Diagonal(3), **({"key": KEY} if k is sj else {}))


def single(*shape: int) -> Any:
    return jnp.ones(shape, jnp.float32)


@pytest.mark.parametrize("call", CALLS)
def test_calls_refuse_what_torch_s_refuse(call: str) -> None:
    jax.config.update("jax_enable_x64", False)
    with pytest.raises(Exception) as theirs:
        CALLS[call](sk, lambda *shape: torch.ones(*shape))
    with pytest.raises(Exception) as ours:
        CALLS[call](sj, single)
    assert type(ours.value) is type(theirs.value) and str(ours.value) == str(theirs.value)


def test_tracing_refuses_at_once() -> None:
    with pytest.raises(ValueError, match="initial_state has shape"):
        jax.jit(lambda x: solve(sj, single, start=(2, 4)))(1.0)


def test_an_exponential_that_must_look_says_so() -> None:
    structure = sj.DPLR(3, 1)
    parameters = structure.init(2, KEY)
    steps = jnp.ones((1, 2, 2), next(iter(parameters.values())).dtype)

    def run(flow: Any, steps: Any = steps) -> Any:
        return sj.solve(structure, parameters, steps, jnp.ones((1, 3), steps.dtype), flow)[1]

    with pytest.raises(ValueError, match="can't look at traced data"):
        jax.jit(lambda x: run(sj.Exponential(), x))(steps)
    assert jnp.allclose(run(sj.Exponential()), run(sj.Exponential(20)), rtol=1e-8)
