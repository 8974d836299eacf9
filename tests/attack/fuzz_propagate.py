"""`propagate` on transitions of every kind, its answers and gradients against a dense loop."""

import random

import torch
from torch import Tensor

from slicekit import Associative, Chunked, Outer, Recurrent, propagate
from slicekit.scans import Scan
from slicekit.structures import BlockTransition, DiagonalTransition, LowRankTransition, Transition
from tests.attack.runner import Size, Tally
from tests.scans.problems import assert_near, with_gradients

SCANS: list[Scan | None] = [None, None, Chunked(), Chunked(3), Recurrent()]
KINDS = ("diagonal", "blocks", "low-rank")


def attack(tally: Tally, size: Size) -> None:
    """Three hundred problems."""
    for number, source in size.cases(300):
        tally.attempt(f"case {number}", lambda source=source: once(source))


def once(source: random.Random) -> None:
    """One problem, in float64 or float32."""
    kind, scan = source.choice(KINDS), source.choice(SCANS)
    scan = Associative() if kind != "low-rank" and source.random() < 0.2 else scan
    batch, length = source.choice([1, 2, 3]), source.choice([1, 2, 5, 17, 40])
    columns = source.choice([None, 1, 3])
    outer = columns is not None and source.random() < 0.5
    padded = source.random() < 0.4
    dtype, tolerance = source.choice([(torch.float64, 1e-8), (torch.float32, 2e-3)])
    draw = torch.Generator().manual_seed(source.randrange(2**31))

    def randn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw).double()

    leaves = _transitions(kind, batch, length, randn)
    dim = 6
    tail = () if columns is None else (columns,)
    leaves["state"] = randn(batch, dim, *tail)
    if outer:
        leaves |= {"left": randn(batch, length, dim), "right": randn(batch, length, *tail)}
    elif source.random() < 0.5:
        leaves["inputs"] = randn(batch, length, dim, *tail)
    lengths = torch.tensor([source.randint(0, length) for _ in range(batch)]) if padded else None

    def ours(x: dict[str, Tensor]) -> dict[str, Tensor]:
        inputs = Outer(x["left"], x["right"]) if outer else x.get("inputs")
        states, last = propagate(_made(kind, x), x["state"], inputs, scan=scan, lengths=lengths)
        return {"states": states, "last": last}

    def by_hand(x: dict[str, Tensor]) -> dict[str, Tensor]:
        matrices, h = _dense(kind, x), x["state"]
        h = h if tail else h[..., None]
        u = x.get("inputs")
        u = torch.einsum("bli,blj->blij", x["left"], x["right"]) if outer else u
        u = u if u is None or tail else u[..., None]
        states = []
        for step in range(length):
            moved = matrices[:, step] @ h
            moved = moved if u is None else moved + u[:, step]
            if lengths is not None:
                moved = torch.where((step < lengths)[:, None, None], moved, h)
            h = moved
            states.append(h)
        found = torch.stack(states, 1)
        return {"states": found if tail else found[..., 0], "last": h if tail else h[..., 0]}

    where = f"{kind}, {scan}, batch {batch}, length {length}, columns {columns}, outer {outer}, "
    where += f"padded {padded}, {dtype}, {sorted(leaves)}"
    try:
        found = with_gradients(ours, {name: x.to(dtype) for name, x in leaves.items()})
        assert_near(found, with_gradients(by_hand, leaves), tolerance)
    except Exception as error:
        raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error


def _transitions(kind: str, batch: int, length: int, randn) -> dict[str, Tensor]:
    if kind == "diagonal":
        return {"values": 1 + 0.2 * randn(batch, length, 6)}
    if kind == "blocks":
        return {"blocks": torch.eye(3).double() + 0.2 * randn(batch, length, 2, 3, 3)}
    return {
        "diagonal": 1 + 0.2 * randn(batch, length, 6),
        "low": 0.3 * randn(batch, length, 6, 2),
        "high": 0.3 * randn(batch, length, 6, 2),
    }


def _made(kind: str, x: dict[str, Tensor]) -> Transition:
    if kind == "diagonal":
        return DiagonalTransition(x["values"])
    if kind == "blocks":
        return BlockTransition(x["blocks"])
    return LowRankTransition(x["diagonal"], x["low"], x["high"])


def _dense(kind: str, x: dict[str, Tensor]) -> Tensor:
    if kind == "diagonal":
        return torch.diag_embed(x["values"])
    if kind == "blocks":
        whole = x["blocks"].new_zeros(*x["blocks"].shape[:2], 6, 6)
        whole = whole + torch.nn.functional.pad(x["blocks"][:, :, 0], (0, 3, 0, 3))
        return whole + torch.nn.functional.pad(x["blocks"][:, :, 1], (3, 0, 3, 0))
    return torch.diag_embed(x["diagonal"]) + x["low"] @ x["high"].mT
