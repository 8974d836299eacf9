"""A layer that is changed between two calls: `step` says what `forward` says, or both refuse."""

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import prune

import slicekit as sk
from tests.attack.guard import Guard
from tests.attack.runner import Size, Tally

CHANNELS, DIM, BATCH = 3, 8, 2
STRUCTURES: dict[str, Callable[[], Any]] = {
    "dense": lambda: sk.Dense(DIM),
    "diagonal": lambda: sk.Diagonal(DIM),
    "blocks": lambda: sk.BlockDiagonal(DIM, 4),
    "joint": lambda: sk.JointDPLR(DIM, 2),
    "sparse": lambda: sk.Sparse(DIM, 0.5),
    "hadamard": lambda: sk.WalshHadamard(DIM),
    "orthogonal": lambda: sk.Orthogonal(DIM, 4),
    "sum": lambda: sk.DirectSum(sk.Diagonal(4), sk.Dense(4)),
}


def attack(tally: Tally, size: Size) -> None:
    """Every change of every structure, in a process that may crash."""
    changes = list(CHANGES)
    with Guard(_work) as guard:
        for number, source in size.cases(400, least=3 * len(changes)):
            structure = source.choice(list(STRUCTURES))
            case = (structure, changes[number % len(changes)], source.randrange(2**31))
            outcome = guard(case)
            tally.note(f"{case}", outcome.wrong)


def _work(case: tuple[str, str, int]) -> str | None:
    structure, change, seed = case
    torch.manual_seed(seed)
    layer = sk.SLiCE(CHANNELS, STRUCTURES[structure]()).eval()
    x = torch.randn(BATCH, 4, CHANNELS)
    with torch.inference_mode(mode=bool(seed % 2)), torch.no_grad():
        _, state = layer(x[:, :1], return_state=True)
        for step in (1, 2):  # contiguous, so that a plan is made and kept
            _, state = layer.step(x[:, step].clone(), state)
        here = x[:, 3].clone()
        try:
            here = CHANGES[change](layer, here, random.Random(seed))
        except (RuntimeError, TypeError, ValueError, AttributeError):
            return None  # a change that is not possible
        found, expected = (
            _said(lambda: layer.step(here, state)[0]),
            _said(lambda: layer(here.unsqueeze(1), state)[:, 0]),
        )
    return _difference(found, expected)


def _said(call: Callable[[], Tensor]) -> Tensor | str:
    try:
        return call()
    except (ValueError, TypeError, RuntimeError, IndexError, KeyError) as error:
        return f"{type(error).__name__}: {error}"


def _difference(found: Tensor | str, expected: Tensor | str) -> str | None:
    if isinstance(found, str) or isinstance(expected, str):
        same = isinstance(found, str) and isinstance(expected, str)
        return None if same else f"step: {found!s:.150}; forward: {expected!s:.150}"
    if found.shape != expected.shape:
        return f"shapes {tuple(found.shape)} and {tuple(expected.shape)}"
    near = torch.allclose(found, expected, rtol=1e-4, atol=1e-4, equal_nan=True)
    return None if near else f"step and forward differ by {(found - expected).abs().max():.3g}"


Change = Callable[[sk.SLiCE, Tensor, random.Random], Tensor]


def _exponential(layer: sk.SLiCE, x: Tensor, source: random.Random) -> Tensor:
    layer.flow = sk.Exponential()
    return x


def _drive(layer: sk.SLiCE, x: Tensor, source: random.Random) -> Tensor:
    layer.drive = sk.TimeAndInput(dt=0.7)
    return x


def _affine(layer: sk.SLiCE, x: Tensor, source: random.Random) -> Tensor:
    layer.B = nn.Parameter(torch.randn(DIM, CHANNELS + 1))
    return x


def _projective(layer: sk.SLiCE, x: Tensor, source: random.Random) -> Tensor:
    layer.projective = True
    return x


def _scan(layer: sk.SLiCE, x: Tensor, source: random.Random) -> Tensor:
    layer.scan = sk.Recurrent()
    return x


def _structure(layer: sk.SLiCE, x: Tensor, source: random.Random) -> Tensor:
    layer.structure = sk.Dense(DIM)
    return x


def _first(layer: sk.SLiCE) -> tuple[str, Tensor]:
    return next((name, p) for name, p in layer.A.named_parameters())


def _transposed(layer: sk.SLiCE, x: Tensor, source: random.Random) -> Tensor:
    p = _first(layer)[1]
    p.data = p.data.mT if p.ndim >= 2 and p.shape[-1] == p.shape[-2] else p.data.flip(0)
    return x


def _scaled(layer: sk.SLiCE, x: Tensor, source: random.Random) -> Tensor:
    _first(layer)[1].data.mul_(-2)
    return x


def _replaced(layer: sk.SLiCE, x: Tensor, source: random.Random) -> Tensor:
    name, p = _first(layer)
    setattr(layer.A, name, nn.Parameter(torch.randn(p.shape)))
    return x


def _shrunk(layer: sk.SLiCE, x: Tensor, source: random.Random) -> Tensor:
    name, _ = _first(layer)
    setattr(layer.A, name, nn.Parameter(torch.zeros(1)))
    return x


def _of_other_channels(layer: sk.SLiCE, x: Tensor, source: random.Random) -> Tensor:
    other = sk.SLiCE(CHANNELS + 2, layer.structure)
    layer.A = other.A
    return x


def _of_fewer_channels(layer: sk.SLiCE, x: Tensor, source: random.Random) -> Tensor:
    layer.A = sk.SLiCE(CHANNELS - 2, layer.structure).A
    return x


def _double(layer: sk.SLiCE, x: Tensor, source: random.Random) -> Tensor:
    name, p = _first(layer)
    setattr(layer.A, name, nn.Parameter(p.data.double()))
    return x


def _strided(layer: sk.SLiCE, x: Tensor, source: random.Random) -> Tensor:
    p = _first(layer)[1]
    p.data = torch.stack([p.data, p.data], -1)[..., 0]
    return x


def _negated(x: Tensor) -> Tensor:
    """-x by the negative bit: the numbers in memory are those of x."""
    return torch._neg_view(x)  # pyright: ignore[reportPrivateImportUsage]


def _negative_bit(layer: sk.SLiCE, x: Tensor, source: random.Random) -> Tensor:
    return _negated(x)


def _negative_parameter(layer: sk.SLiCE, x: Tensor, source: random.Random) -> Tensor:
    p = _first(layer)[1]
    p.data = _negated(p.data)
    return x


def _expanded(layer: sk.SLiCE, x: Tensor, source: random.Random) -> Tensor:
    return x[:1].expand(BATCH, -1)


def _pruned(layer: sk.SLiCE, x: Tensor, source: random.Random) -> Tensor:
    name, _ = _first(layer)
    prune.random_unstructured(layer.A, name, amount=0.5)
    return x


def _loaded(layer: sk.SLiCE, x: Tensor, source: random.Random) -> Tensor:
    layer.load_state_dict(sk.SLiCE(CHANNELS, layer.structure).state_dict(), assign=True)
    return x


CHANGES: dict[str, Change] = {
    change.__name__.removeprefix("_"): change
    for change in (
        *(_exponential, _drive, _affine, _projective, _scan, _structure, _transposed, _scaled),
        *(_replaced, _shrunk, _of_other_channels, _of_fewer_channels, _double, _strided),
        *(_negative_bit, _negative_parameter, _expanded, _pruned, _loaded),
    )
}
