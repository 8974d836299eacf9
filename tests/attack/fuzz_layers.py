"""Layers with everything drawn at random: outputs, states and gradients against a dense loop.

The Log-ODE method has a loop of its own: signatures of windows by Chen's relation in the tensor
algebra, their logarithm, and words as products of full matrices.
"""

import random
from itertools import pairwise
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from slicekit import Associative, Chunked, Euler, Exponential, LogODE, Recurrent, SLiCE, Tabulated
from tests.attack.exponentials import exponential
from tests.attack.runner import Size, Tally
from tests.layers.reference import (
    DRIVES,
    INITIALS,
    INPUTS,
    MODES,
    assert_near,
    gradients,
    increments_by_hand,
    make_layer,
    outputs_by_hand,
    run_parts,
    run_steps,
)
from tests.market import NONLINEAR, STRUCTURES

TOLERANCE = 1e-7
POINTWISE = ("time-and-input", "gates")


def attack(tally: Tally, size: Size) -> None:
    """Seven hundred layers, of each kind of question in turn."""
    questions = (whole_and_parts, tokens, padded, log_ode)
    for number, source in size.cases(700):
        question = questions[number % len(questions)]
        torch.manual_seed(source.randrange(2**31))
        tally.attempt(f"case {number}, {question.__name__}", lambda q=question, s=source: q(s))


def whole_and_parts(source: random.Random) -> None:
    """The whole as by hand, and as parts and steps give it."""
    layer, x = _layer(source), _input(source)
    y = layer(x)
    expected = _by_hand(layer, x)
    _compare(layer, {"outputs": y}, {"outputs": expected})
    slopes = gradients(expected, layer, x)
    _compare(layer, gradients(y, layer, x), slopes)
    parts, last = run_parts(layer, x, _split(x.shape[1], source))
    steps, end = run_steps(layer, x)
    joined = {"parts": torch.cat(parts, 1), "steps": torch.stack(steps, 1)}
    _compare(layer, joined, {name: expected for name in joined})
    _compare(layer, gradients(joined["parts"], layer, x), slopes)
    _compare(layer, {"state": last["hidden"]}, {"state": end["hidden"]})


def tokens(source: random.Random) -> None:
    """`Tabulated` inputs as the same inputs written out."""
    layer = _layer(source, drives=POINTWISE)
    length, vocabulary = source.choice([1, 2, 9, 20]), source.choice([1, 2, 5])
    table = torch.randn(vocabulary, INPUTS, dtype=torch.float64, requires_grad=True)
    index = torch.randint(vocabulary, (3, length))
    y, expected = layer(Tabulated(table, index)), _by_hand(layer, table[index])
    _compare(layer, {"outputs": y}, {"outputs": expected})
    _compare(layer, gradients(y, layer, table), gradients(expected, layer, table))


def padded(source: random.Random) -> None:
    """Padding of any kind changes nothing, also where it is not finite."""
    layer, x = _layer(source), _input(source)
    batch, length = x.shape[:2]
    lengths = [source.randint(1, length) for _ in range(batch)]
    past = torch.arange(length) >= torch.tensor(lengths)[:, None]
    spoilt = x.detach().masked_fill(past[..., None], source.choice([float("nan"), 1e30, 0.0]))
    y, state = layer(spoilt.requires_grad_(), None, lengths, True)
    alone = [layer(x[i : i + 1, : lengths[i]], None, None, True) for i in range(batch)]
    found = torch.cat([y[i, : lengths[i]] for i in range(batch)])
    expected = torch.cat([whole[0] for whole, _ in alone])
    _compare(layer, {"outputs": found}, {"outputs": expected})
    last = torch.cat([own["hidden"] for _, own in alone])
    _compare(layer, {"state": state["hidden"]}, {"state": last})
    ours, theirs = gradients(found, layer, spoilt), gradients(expected, layer, x)
    _compare(layer, ours, theirs)


def log_ode(source: random.Random) -> None:
    """Windows, with their gradients, as in the tensor algebra."""
    depth, window = source.choice([1, 2, 3]), source.choice([1, 2, 3, 5])
    inner = source.choice([Exponential(), Exponential(), Euler()])
    names = [n for n in STRUCTURES if n not in NONLINEAR]
    if isinstance(inner, Euler):
        names = [n for n in names if not n.startswith("orthogonal")]
    drive = source.choice(["time-and-input", "differences", "gates"])
    initial = source.choice(list(INITIALS))
    structure, scan = source.choice(names), source.choice([None, Recurrent(), Chunked(2)])
    flow = LogODE(depth=depth, window=window, flow=inner)
    layer = make_layer(structure, drive, initial, flow=flow, scan=scan)
    x = _input(source, scale=0.3)
    y, expected = layer(x), _windows_by_hand(layer, x, depth, window, isinstance(inner, Euler))
    _compare(layer, {"outputs": y}, {"outputs": expected})
    _compare(layer, gradients(y, layer, x), gradients(expected, layer, x))
    steps, _ = run_steps(layer, x)
    _compare(layer, {"last step": steps[-1]}, {"last step": expected[:, -1]})
    with torch.no_grad():  # with brackets that are kept, and with those of other parameters
        _compare(layer, {"kept": layer(x)}, {"kept": expected})
        for parameter in layer.A.parameters():
            parameter.mul_(0.5)
        again = _windows_by_hand(layer, x, depth, window, isinstance(inner, Euler))
        _compare(layer, {"changed": layer(x)}, {"changed": again})


def _by_hand(layer: SLiCE, x: Tensor) -> Tensor:
    """What the layer should say, with an exponential whose derivative holds for large gradients."""
    with mock.patch.object(torch, "matrix_exp", exponential):
        return outputs_by_hand(layer, x)


def _windows_by_hand(layer: SLiCE, x: Tensor, depth: int, window: int, euler: bool) -> Tensor:
    moves, start = increments_by_hand(layer.drive, x), layer.start()
    if "state" in start:
        h = torch.stack([start["state"]] * x.shape[0])
    else:
        h = torch.einsum("dc,bc->bd", start["weight"], x[:, 0]) + start["bias"]
    states = []
    if not layer.initial.drives_first:
        moves = moves[1:]
        states.append(h)
    letters = torch.eye(layer.drive.channels(INPUTS), dtype=x.dtype)
    matrices = layer.structure.combine(layer.A(), letters).as_dense()
    for first in range(0, len(moves), window):
        field = _field(moves[first : first + window], matrices, depth)
        eye = torch.eye(field.shape[-1], dtype=field.dtype)
        moved = eye + field if euler else exponential(field)
        h = torch.einsum("bij,bj->bi", moved, h)
        states.append(h)
    return torch.stack(states, 1)


def _field(moves: list[Tensor], matrices: Tensor, depth: int) -> Tensor:
    """The matrices of the words of a logarithm of a signature; later letters act later."""
    one, two, three = moves[0], None, None
    two = torch.einsum("bi,bj->bij", one, one) / 2
    three = torch.einsum("bi,bj,bk->bijk", one, one, one) / 6
    for d in moves[1:]:
        dd, ddd = torch.einsum("bi,bj->bij", d, d) / 2, torch.einsum("bi,bj,bk->bijk", d, d, d) / 6
        three = three + torch.einsum("bij,bk->bijk", two, d)
        three = three + torch.einsum("bi,bjk->bijk", one, dd) + ddd
        two = two + torch.einsum("bi,bj->bij", one, d) + dd
        one = one + d
    field = torch.einsum("bi,ixy->bxy", one, matrices)
    if depth >= 2:
        logarithm = two - torch.einsum("bi,bj->bij", one, one) / 2
        field = field + torch.einsum("bij,jxy,iyz->bxz", logarithm, matrices, matrices)
    if depth >= 3:
        cube = torch.einsum("bi,bj,bk->bijk", one, one, one) / 3
        mixed = torch.einsum("bi,bjk->bijk", one, two) + torch.einsum("bij,bk->bijk", two, one)
        words = torch.einsum("kwx,jxy,iyz->ijkwz", matrices, matrices, matrices)
        field = field + torch.einsum("bijk,ijkwz->bwz", three - mixed / 2 + cube, words)
    return field


def _layer(source: random.Random, drives: tuple[str, ...] = tuple(DRIVES)) -> SLiCE:
    name = source.choice(list(STRUCTURES))
    rest: dict[str, Any] = {
        "flow": source.choice([None, Exponential()]),
        "scan": source.choice([None, None, Recurrent(), Chunked(), Chunked(3), Associative()]),
    }
    mode, initial = source.choice(list(MODES)), source.choice(list(INITIALS))
    if mode == "projective" and isinstance(rest["scan"], Associative):  # which it refuses
        rest["scan"] = Recurrent()
    return make_layer(name, source.choice(drives), initial, mode, **rest)


def _input(source: random.Random, scale: float = 1.0) -> Tensor:
    batch, length = source.choice([1, 2, 3]), source.choice([1, 2, 5, 12, 31])
    x = torch.randn(batch, length, INPUTS, dtype=torch.float64) * scale
    return x.requires_grad_()


def _split(length: int, source: random.Random) -> list[int]:
    cuts = sorted({0, length, *(source.randint(0, length) for _ in range(3))})
    return [later - earlier for earlier, later in pairwise(cuts)]


def _compare(layer: SLiCE, found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    try:
        assert_near(found, expected, TOLERANCE)
    except AssertionError as difference:
        raise AssertionError(f"{layer}: {difference}") from difference
