"""Threads that use the same objects at once find what one thread finds."""

import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch
from torch import Tensor

import slicekit as sk
from tests.attack.runner import Size, Tally
from tests.market import STRUCTURES

THREADS = 8


def attack(tally: Tally, size: Size) -> None:
    """Forward, steps and gradients of shared layers, each call from some thread."""
    torch.manual_seed(0)
    layers = {name: sk.SLiCE(3, structure) for name, structure in STRUCTURES.items()}
    flow = sk.LogODE(depth=2, window=3)
    layers["log-ode"] = sk.SLiCE(3, sk.BlockDiagonal(8, 4), flow=flow)
    layers["projective"] = sk.SLiCE(3, sk.Dense(5), projective=True)
    inputs = [torch.randn(batch, 12, 3) for batch in (1, 2, 5)]
    calls = (forward, steps, gradient)
    expected = {
        (name, i, call.__name__): call(layer, x)
        for name, layer in layers.items()
        for i, x in enumerate(inputs)
        for call in calls
    }

    def once(source: random.Random) -> str | None:
        name, i, call = source.choice(list(layers)), source.randrange(3), source.choice(calls)
        found = call(layers[name], inputs[i])
        same = torch.allclose(found, expected[name, i, call.__name__], rtol=1e-5, atol=1e-6)
        return None if same else f"{call.__name__} of {name} differs"

    with ThreadPoolExecutor(THREADS) as pool:
        batch: list[random.Random] = []
        for number, source in size.cases(4000, least=200):
            batch.append(source)
            if len(batch) == 100:
                for wrong in pool.map(partial(_guarded, once), batch):
                    tally.note(f"call {number}", wrong)
                batch = []


def _guarded(once, source: random.Random) -> str | None:
    try:
        return once(source)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def forward(layer: sk.SLiCE, x: Tensor) -> Tensor:
    with torch.no_grad():
        return layer(x)


def steps(layer: sk.SLiCE, x: Tensor) -> Tensor:
    state, found = None, []
    with torch.inference_mode():
        for element in x.unbind(1):
            y, state = layer.step(element.clone(), state)
            found.append(y)
    return torch.stack(found, 1).clone()


def gradient(layer: sk.SLiCE, x: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(layer(x).sum(), x)[0]
