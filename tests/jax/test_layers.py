"""Layers: torch = JAX for every structure and every option, whole, in parts and step by step.

Every structure is met, and every option; the whole product runs with SLICEKIT_EVERY=1.
"""

import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
import torch
from torch.func import functional_call

import slicekit as sk
import slicekit.jax as sj
from slicekit.jax.serialisation import with_arrays
from tests.jax.twins import twin, with_gradients_in_jax
from tests.market import NONLINEAR, STRUCTURES
from tests.scans.problems import assert_near, with_gradients

CHANNELS, LENGTH, CUT = 3, 7, 4
LENGTHS = [7, 3]

OPTIONS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "natural": lambda k: {},
    "affine": lambda k: {"affine": True},
    "projective": lambda k: {"projective": True},
    "learned": lambda k: {"initial": k.Learned(), "drive": k.Differences(0.5)},
    "exponential": lambda k: {"flow": k.Exponential(3)},
    "windows": lambda k: {"flow": k.LogODE(1, 3, k.Exponential(3))},
    "deep windows": lambda k: {"flow": k.LogODE(2, 3)},
    "time windows": lambda k: {"flow": k.LogODE(2, k.Duration(0.06, **most(k)))},
}


def most(library: Any) -> dict[str, int]:
    """A bound where windows can't be counted."""
    return {"most": 4} if library is sj else {}


ALLOWED = [
    (name, [o for o in OPTIONS if not (o.endswith("windows") and name in NONLINEAR)])
    for name in STRUCTURES
    if name != "circulant"
]
EVERY = os.environ.get("SLICEKIT_EVERY") == "1"
PAIRS = [
    (name, option)
    for i, (name, options) in enumerate(ALLOWED)
    for option in (options if EVERY else [options[(i + 3) % len(OPTIONS) % len(options)]])
]


def make(library: Any, structure: Any, option: str, **more: Any) -> Any:
    """A layer of either library."""
    return library.SLiCE(CHANNELS, structure, **OPTIONS[option](library), **more)


def everything(layer: Any, x: Any, lengths: Any) -> dict[str, Any]:
    """What a layer says of a batch: whole, padded, in two parts, and one element at a time."""
    first, state = layer(x[:, :CUT], return_state=True)
    second, state = layer(x[:, CUT:-1], state, return_state=True)
    last, state = layer.step(x[:, -1], state)
    padded, end = layer(x, lengths=lengths, return_state=True)
    found = {"whole": layer(x), "first": first, "second": second, "last": last, "padded": padded}
    found |= {f"state {name}": value for name, value in held(state).items()}
    return found | {f"end {name}": value for name, value in held(end).items()}


def held(state: Any) -> dict[str, Any]:
    """The arrays of a state of either library."""
    return state.arrays if isinstance(state, sj.State) else state.tensors


@pytest.mark.filterwarnings("ignore:LogODE")
@pytest.mark.parametrize(("name", "option"), PAIRS)
def test_a_layer_is_torch_s_whole_in_parts_and_stepwise(name: str, option: str) -> None:
    """Values, and the gradients in the input and in every parameter."""
    torch.manual_seed(0)
    theirs = make(sk, STRUCTURES[name], option).double()
    ours = make(sj, twin(STRUCTURES[name]), option, key=jax.random.key(0))
    leaves = {key: x.detach() for key, x in theirs.state_dict().items()}
    leaves["x"] = torch.randn(2, LENGTH, CHANNELS).double() * 0.5

    def in_torch(given: Any) -> Any:
        own = {f"layer.{key}": x for key, x in given.items() if key != "x"}
        return functional_call(Everything(theirs), own, (given["x"],))

    want = with_gradients(in_torch, leaves)
    shapes = {key: x.shape[1] for key, x in want.items() if x.ndim > 2}

    def in_jax(given: Any) -> Any:
        own = {key: x for key, x in given.items() if key != "x"}
        found = everything(with_arrays(ours, own), given["x"], np.array(LENGTHS))
        # How many windows there are is not known while tracing: there may be room for more.
        return {key: x[:, : shapes[key]] if x.ndim > 2 else x for key, x in found.items()}

    assert_near(with_gradients_in_jax(in_jax, leaves), want, 1e-10)


class Everything(torch.nn.Module):
    """What `everything` says of a layer, as a function of its parameters."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        return everything(self.layer, x, torch.tensor(LENGTHS))


def test_every_structure_and_option_is_met() -> None:
    assert {name for name, _ in PAIRS} == set(STRUCTURES) - {"circulant"}
    assert {option for _, option in PAIRS} == set(OPTIONS)
