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


def key_of(k: Any) -> dict[str, Any]:
    return {"key": KEY} if k is sj else {}


def layer_of(k: Any, structure: Any = None, channels: int = 2, **more: Any) -> Any:
    structure = k.Diagonal(3) if structure is None else structure
    return k.SLiCE(channels, structure, **more, **key_of(k))


def model_of(k: Any, **changes: Any) -> Any:
    """A model of tokens, with some arguments changed; None leaves one out."""
    arguments = {"vocabulary": 5, "outputs": 2, "width": 4, "mixer": lambda *_: mixer_of(k)}
    arguments = {name: x for name, x in (arguments | changes).items() if x is not None}
    return k.SequenceModel(**arguments, **key_of(k))


def mixer_of(k: Any) -> Any:
    return layer_of(k, k.Diagonal(4), 4)


MISTAKES: dict[str, Callable[[Any], Any]] = {
    "block": lambda k: k.BlockDiagonal(8, 3),
    "ragged": lambda k: k.BlockDiagonal(blocks=[2, 0]),
    "power": lambda k: k.WalshHadamard(12),
    "rank": lambda k: k.DPLR(3, 4),
    "density": lambda k: k.Sparse(4, density=2.0),
    "sum": lambda k: k.DirectSum(),
    "depth": lambda k: k.LogODE(0, 2),
    "window": lambda k: k.LogODE(2, 0),
    "time": lambda k: k.Duration(0),
    "time's type": lambda k: k.Duration("1s"),
    "time's channel": lambda k: k.Duration(1.0, -1),
    "channel's type": lambda k: k.Duration(1.0, True),
    "output lengths": lambda k: layer_of(k, flow=k.LogODE(1, k.Duration(0.5))).output_lengths([3]),
    "substeps": lambda k: k.Exponential(0),
    "substeps' type": lambda k: k.Exponential(1.5),
    "saved": lambda k: k.save(3, "model.safetensors"),
    "dt": lambda k: k.TimeAndInput(dt=0.0),
    "channels' type": lambda k: layer_of(k, channels=2.5),  # pyright: ignore[reportArgumentType]
    "width's type": lambda k: model_of(k, width=4.0),
    "quadratic": lambda k: k.JointDPLR(3, 1).lift(2),
    "epsilon": lambda k: k.Sparse(4, density=0.1, epsilon=0.1),
    "skew": lambda k: k.Orthogonal(4, 1),
    "dim": lambda k: k.Diagonal(0),
    "part": lambda k: k.DirectSum(3),
    "chunk": lambda k: k.Chunked(0),
    "parallel chunk": lambda k: k.Associative(0),
    "inner": lambda k: k.LogODE(2, 3, k.LogODE(2, 3)),
    "scale": lambda k: k.Differences(scale=-1.0),
    "structure": lambda k: layer_of(k, "dense"),
    "drive": lambda k: layer_of(k, drive="time"),
    "initial": lambda k: layer_of(k, initial=3),
    "scan": lambda k: layer_of(k, scan="chunked"),
    "layer's flow": lambda k: layer_of(k, flow="euler"),
    "channels": lambda k: layer_of(k, channels=0),
    "affine": lambda k: layer_of(k, affine=True, projective=True),
    "width": lambda k: model_of(k, width=0),
    "no input": lambda k: model_of(k, vocabulary=None),
    "two inputs": lambda k: model_of(k, channels=3),
    "no mixer": lambda k: model_of(k, mixer=None),
    "two mixers": lambda k: model_of(k, blocks=[1]),
    "no blocks": lambda k: model_of(k, mixer=None, blocks=[]),
    "layers": lambda k: model_of(k, layers=0),
    "no outputs": lambda k: model_of(k, outputs=()),
    "outputs": lambda k: model_of(k, outputs=0),
    "vocabulary": lambda k: model_of(k, vocabulary=0),
    "dropout": lambda k: k.Block(None, 3, dropout=1.0, **key_of(k)),
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
    "vector outer": lambda k, ones: solve(
        k, ones, inputs=k.Outer(ones(2, 4, 3), ones(2, 4, 1)), start=(2, 3)
    ),
    "scan": lambda k, ones: solve(k, ones, scan="chunked"),
    "structure": lambda k, ones: solve(k, ones, structure=3),
    "fewer lengths": lambda k, ones: solve(k, ones, lengths=[1]),
    "window inputs": lambda k, ones: solve(k, ones, flow=k.LogODE(2, 2), inputs=ones(2, 4, 3)),
    "no time": lambda k, ones: k.Duration(1.0, 2).count(ones(2, 4, 2)),
    "backwards": lambda k, ones: solve(k, lambda *s: -ones(*s), flow=k.LogODE(1, k.Duration(1.0))),
    "too many": lambda k, ones: k.Duration(1e-9).ends(ones(1, 1, 1)),
    "elapsed": lambda k, ones: k.Duration(1.0).count(ones(2, 4, 2), ones(3)),
    "transitions": lambda k, ones: k.propagate([1.0], ones(2, 3)),
    "no table": lambda k, ones: k.Tabulated(ones(2), ones(2, 4)),
    "associative": lambda k, ones: k.solve(
        k.Diagonal(3),
        {"values": ones(2, 3)},
        ones(2, 4, 2),
        k.Projective.of(ones(2, 3)),
        scan=k.Associative(),
    ),
    "state type": lambda k, ones: layer(k)(ones(2, 4, 2), 3),
    "state shape": lambda k, ones: layer(k)(ones(2, 4, 2), k.State({"hidden": ones(2, 4)})),
    "element": lambda k, ones: layer(k).step(ones(2, 4, 2)),
    "places": lambda k, ones: layer(k).places(ones(2, 4, 2)),
    "tokens": lambda k, ones: model_of(k)(ones(2, 4)),
    "series": lambda k, ones: model_of(k, vocabulary=None, channels=2)(ones(2, 4, 3)),
    "channels": lambda k, ones: layer(k)(ones(2, 4, 5)),
    "length": lambda k, ones: layer(k)(ones(2, 0, 2)),
    "started": lambda k, ones: layer(k)(ones(2, 4, 2), lengths=[0, 1]),
}


def layer(k: Any) -> Any:
    return layer_of(k)


def single(*shape: int) -> Any:
    return jnp.ones(shape, jnp.float32)


def refusal(call: str, k: Any, ones: Any) -> tuple[type, str]:
    """What a call raises; dtypes have the same names in both libraries."""
    with pytest.raises(Exception) as raised:
        CALLS[call](k, ones)
    return type(raised.value), str(raised.value).replace("torch.", "")


@pytest.mark.parametrize("call", CALLS)
def test_calls_refuse_what_torch_s_refuse(call: str) -> None:
    jax.config.update("jax_enable_x64", False)
    theirs = refusal(call, sk, lambda *shape: torch.ones(*shape))
    assert refusal(call, sj, single) == theirs


DATA = ("lengths", "started", "backwards", "too many")
"""Mistakes that only data show."""


@pytest.mark.parametrize("call", [name for name in CALLS if name not in DATA])
def test_tracing_refuses_at_once_what_shapes_and_types_show(call: str) -> None:
    jax.config.update("jax_enable_x64", False)
    want, seen = refusal(call, sj, single), []

    def traced(x: Any) -> Any:
        seen.append(refusal(call, sj, lambda *shape: x + single(*shape)))
        return x

    jax.eval_shape(traced, jnp.float32(0))
    assert seen == [want]


def test_an_exponential_that_must_look_says_so() -> None:
    structure = sj.DPLR(3, 1)
    parameters = structure.init(2, KEY)
    steps = jnp.ones((1, 2, 2), next(iter(parameters.values())).dtype)

    def run(flow: Any, steps: Any = steps) -> Any:
        return sj.solve(structure, parameters, steps, jnp.ones((1, 3), steps.dtype), flow)[1]

    with pytest.raises(ValueError, match="can't look at traced data"):
        jax.jit(lambda x: run(sj.Exponential(), x))(steps)
    assert jnp.allclose(run(sj.Exponential()), run(sj.Exponential(20)), rtol=1e-8)
