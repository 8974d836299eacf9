"""`propagate` on transitions of every kind, its answers and gradients against a dense loop."""

import random

import torch
from torch import Tensor

from slicekit import Associative, Chunked, Outer, Recurrent, propagate
from slicekit.scans import Scan
from slicekit.structures import (
    BlockTransition,
    DiagonalTransition,
    LowRankTransition,
    SumTransition,
    Transition,
)
from tests.attack.runner import Size, Tally
from tests.scans.problems import assert_near, side_by_side, with_gradients

SCANS: list[Scan | None] = [None, None, Chunked(), Chunked(3), Recurrent()]
DIM = 6
KINDS = ("diagonal", "complex", "blocks", "low-rank", "sum")


def attack(tally: Tally, size: Size) -> None:
    """Six hundred problems."""
    for number, source in size.cases(600):
        tally.attempt(f"case {number}", lambda source=source: once(source))


def once(source: random.Random) -> None:
    """One problem, in float64 or float32."""
    kind, scan = source.choice(KINDS), source.choice(SCANS)
    scan = Associative() if kind != "low-rank" and source.random() < 0.2 else scan
    batch, length = source.choice([1, 2, 3]), source.choice([1, 2, 5, 17, 40])
    columns = source.choice([None, 1, 3])
    outer = columns is not None and source.random() < 0.5
    padded, read = source.random() < 0.4, source.random() < 0.4
    dtype, tolerance = source.choice([(torch.float64, 1e-8), (torch.float32, 2e-3)])
    draw = torch.Generator().manual_seed(source.randrange(2**31))

    def randn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw).double()

    leaves = _transitions(kind, batch, length, randn)
    tail = () if columns is None else (columns,)
    leaves["state"] = randn(batch, DIM, *tail)
    if kind == "complex" and source.random() < 0.5:
        leaves["imaginary state"] = randn(batch, DIM, *tail)
    if outer:
        leaves |= {"left": randn(batch, length, DIM), "right": randn(batch, length, *tail)}
    elif source.random() < 0.5:
        leaves["inputs"] = randn(batch, length, DIM, *tail)
    if read:
        leaves["readout"] = randn(batch, length, DIM)
    lengths = torch.tensor([source.randint(0, length) for _ in range(batch)]) if padded else None

    def ours(x: dict[str, Tensor]) -> dict[str, Tensor]:
        inputs = Outer(x["left"], x["right"]) if outer else x.get("inputs")
        found, last = propagate(
            _made(kind, x), _start(x), inputs, x.get("readout"), scan=scan, lengths=lengths
        )
        return {"outputs": _real(found), "last": _real(last)}

    def by_hand(x: dict[str, Tensor]) -> dict[str, Tensor]:
        matrices, h, u = _dense(kind, x), _start(x), x.get("inputs")
        h = (h if tail else h[..., None]).to(matrices.dtype)
        u = torch.einsum("bli,blj->blij", x["left"], x["right"]) if outer else u
        u = u if u is None or tail else u[..., None]
        outputs = []
        for step in range(length):
            inside = torch.ones(batch) > 0 if lengths is None else step < lengths
            moved = matrices[:, step] @ h
            moved = moved if u is None else moved + u[:, step]
            h = torch.where(inside[:, None, None], moved, h)
            if read:
                q = x["readout"][:, step].to(h.dtype)
                outputs.append(torch.einsum("bi,bij->bj", q, h) * inside[:, None])
            else:
                outputs.append(h)
        found = torch.stack(outputs, 1)
        found, h = (found, h) if tail else (found[..., 0], h[..., 0])
        return {"outputs": _real(found), "last": _real(h)}

    where = f"{kind}, {scan}, batch {batch}, length {length}, columns {columns}, outer {outer}, "
    where += f"padded {padded}, {dtype}, {sorted(leaves)}"
    try:
        found = with_gradients(ours, {name: x.to(dtype) for name, x in leaves.items()})
        assert_near(found, with_gradients(by_hand, leaves), tolerance)
    except Exception as error:
        raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error


def _real(x: Tensor) -> Tensor:
    """Complex numbers as pairs."""
    return torch.view_as_real(x) if x.is_complex() else x


def _start(x: dict[str, Tensor]) -> Tensor:
    if "imaginary state" in x:
        return torch.complex(x["state"], x["imaginary state"])
    return x["state"]


def _transitions(kind: str, batch: int, length: int, randn) -> dict[str, Tensor]:
    if kind == "diagonal":
        return {"values": 1 + 0.2 * randn(batch, length, DIM)}
    if kind == "complex":
        real, imaginary = 0.7 + 0.2 * randn(batch, length, DIM), 0.5 * randn(batch, length, DIM)
        return {"values": real, "imaginary": imaginary}
    if kind == "blocks":
        return {"blocks": torch.eye(3).double() + 0.2 * randn(batch, length, 2, 3, 3)}
    if kind == "sum":
        return {
            "values": 1 + 0.2 * randn(batch, length, 2),
            "blocks": torch.eye(2).double() + 0.2 * randn(batch, length, 2, 2, 2),
        }
    return {
        "diagonal": 1 + 0.2 * randn(batch, length, DIM),
        "low": 0.3 * randn(batch, length, DIM, 2),
        "high": 0.3 * randn(batch, length, DIM, 2),
    }


def _made(kind: str, x: dict[str, Tensor]) -> Transition:
    if kind == "diagonal":
        return DiagonalTransition(x["values"])
    if kind == "complex":
        return DiagonalTransition(torch.complex(x["values"], x["imaginary"]))
    if kind == "blocks":
        return BlockTransition(x["blocks"])
    if kind == "sum":
        return SumTransition((DiagonalTransition(x["values"]), BlockTransition(x["blocks"])))
    return LowRankTransition(x["diagonal"], x["low"], x["high"])


def _dense(kind: str, x: dict[str, Tensor]) -> Tensor:
    if kind == "complex":
        return torch.diag_embed(torch.complex(x["values"], x["imaginary"]))
    if kind == "low-rank":
        return torch.diag_embed(x["diagonal"]) + x["low"] @ x["high"].mT
    parts = [torch.diag_embed(x["values"])] if "values" in x else []
    return side_by_side([*parts, *(x["blocks"].unbind(2) if "blocks" in x else ())])
