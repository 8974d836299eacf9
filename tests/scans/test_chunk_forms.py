"""Matrix states that are only read out: `Chunked` by matrix products agrees with the steps."""

from dataclasses import dataclass
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from slicekit import Chunked, Native, Outer, Recurrent, propagate
from slicekit.scans import Recurrence, Scan, Solution, chunked, outer_passes
from slicekit.scans.sources import FromTransitions
from slicekit.structures import DiagonalTransition, LowRankTransition, Transition
from tests.scans.problems import assert_near, with_gradients

BATCH, DIM, COLUMNS = 2, 5, 3


@dataclass(frozen=True)
class Kind:
    """A transition: whether all rows share one gate, and how many columns U and V have."""

    shared: bool
    rank: int


KINDS = [Kind(shared, rank) for shared in (True, False) for rank in (0, 1, 2, 3)]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)


def make_leaves(kind: Kind, length: int) -> dict[str, Tensor]:
    """Tensors of a problem in float64, with gates that are negative, zero, one or tiny."""
    randn = partial(torch.randn, dtype=torch.float64)
    width = 1 if kind.shared else DIM
    leaves = {"gates": randn(BATCH, length, width).clamp(-1.2, 1.2)}
    leaves["gates"][:, ::5] = 0
    leaves["gates"][:, 1::7] = 1
    leaves["gates"][:, 3::7] = 1e-300
    if kind.rank:
        leaves["left"] = randn(BATCH, length, DIM, kind.rank) * 0.4
        leaves["right"] = randn(BATCH, length, DIM, kind.rank) * 0.4
    leaves["state"] = randn(BATCH, DIM, COLUMNS)
    leaves["keys"] = randn(BATCH, length, DIM)
    leaves["values"] = randn(BATCH, length, COLUMNS)
    leaves["queries"] = randn(BATCH, length, DIM)
    return leaves


def transitions(leaves: dict[str, Tensor]) -> Transition:
    gates = leaves["gates"].expand_as(leaves["queries"])
    if "left" in leaves:
        return LowRankTransition(gates, leaves["left"], leaves["right"])
    return DiagonalTransition(gates)


def answer(
    leaves: dict[str, Tensor],
    scan: Scan | None,
    lengths: Tensor | None = None,
    driven: bool = True,
) -> dict[str, Tensor]:
    inputs = Outer(leaves["keys"], leaves["values"]) if driven else None
    outputs, last = propagate(
        transitions(leaves), leaves["state"], inputs, leaves["queries"], scan, lengths
    )
    return {"outputs": outputs, "last": last}


def assert_agrees(
    leaves: dict[str, Tensor],
    size: int | None,
    lengths: Tensor | None = None,
    driven: bool = True,
) -> None:
    def run(scan: Scan) -> dict[str, Tensor]:
        return with_gradients(lambda x: answer(x, scan, lengths, driven), leaves)

    assert_near(run(Chunked(size)), run(Recurrent()), 1e-10)


@every_kind
@pytest.mark.parametrize("size", [1, 3, 8, None])
@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 33])
def test_products_agree_with_steps(kind: Kind, length: int, size: int | None) -> None:
    assert_agrees(make_leaves(kind, length), size)


@every_kind
def test_products_agree_with_steps_without_inputs(kind: Kind) -> None:
    leaves = make_leaves(kind, 11)
    fixed = {name: leaves.pop(name).double() for name in ("keys", "values")}

    def run(scan: Scan) -> dict[str, Tensor]:
        return with_gradients(lambda x: answer(x | fixed, scan, driven=False), leaves)

    assert_near(run(Chunked(4)), run(Recurrent()), 1e-10)


@every_kind
def test_padding_is_left_out(kind: Kind) -> None:
    assert_agrees(make_leaves(kind, 13), 4, torch.tensor([13, 6]))
    assert_agrees(make_leaves(kind, 13), 4, torch.tensor([0, 12]))


@every_kind
def test_windows_of_few_chunks_agree_with_steps(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outer_passes, "GROUP_NUMBERS", 3 * BATCH * 4 * DIM * (kind.rank + 1))
    assert_agrees(make_leaves(kind, 29), 4)


@every_kind
@pytest.mark.parametrize("gate", [0.0, 1.0, -1.0, 1e-300])
def test_constant_gates_agree_with_steps(kind: Kind, gate: float) -> None:
    leaves = make_leaves(kind, 19)
    leaves["gates"] = torch.full_like(leaves["gates"], gate)
    assert_agrees(leaves, 8)


@every_kind
def test_gradients_are_those_of_finite_differences(kind: Kind) -> None:
    leaves = make_leaves(kind, 5)
    names = list(leaves)

    def outputs(*tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(answer(dict(zip(names, tensors, strict=True)), Chunked(2)).values())

    assert torch.autograd.gradcheck(outputs, [x.requires_grad_() for x in leaves.values()])


@every_kind
def test_parts_are_the_whole(kind: Kind) -> None:
    leaves = make_leaves(kind, 21)
    whole = answer(leaves, Chunked(8))
    pieces, state = [], leaves["state"]
    for start, stop in ((0, 5), (5, 6), (6, 21)):
        part = {name: x[:, start:stop] for name, x in leaves.items()} | {"state": state}
        found = answer(part, Chunked(8))
        pieces.append(found["outputs"])
        state = found["last"]
    assert_near({"outputs": torch.cat(pieces, 1), "last": state}, whole, 1e-12)


@pytest.mark.parametrize("kind", [Kind(True, 1), Kind(False, 1), Kind(True, 0)], ids=str)
def test_a_compiled_scan_is_the_eager_one(kind: Kind) -> None:
    torch.compiler.reset()
    leaves = make_leaves(kind, 19)
    lengths = torch.tensor([19, 6])
    compiled = torch.compile(answer, fullgraph=True, backend="aot_eager")
    found = with_gradients(lambda x: compiled(x, Chunked(8), lengths), leaves)
    assert_near(found, with_gradients(lambda x: answer(x, Chunked(8), lengths), leaves), 1e-12)


def test_a_compiled_scan_takes_any_length() -> None:
    torch.compiler.reset()
    compiled = torch.compile(answer, fullgraph=True, backend="aot_eager", dynamic=True)
    for length in (9, 40, 150):
        leaves = make_leaves(Kind(True, 1), length)
        found = with_gradients(lambda x: compiled(x, Chunked()), leaves)
        assert_near(found, with_gradients(lambda x: answer(x, Chunked()), leaves), 1e-12)


def delta_rule(length: int, dim: int, shared: bool) -> dict[str, Tensor]:
    """Normalised keys, of which many are alike, and write strengths in [0, 2]."""
    common = torch.randn(1, 1, dim, dtype=torch.float64)
    keys = normalize(torch.randn(1, length, dim, dtype=torch.float64) + common, dim=-1)
    strengths = 2 * torch.rand(1, length, 1, dtype=torch.float64)
    gates = torch.rand(1, length, 1 if shared else dim, dtype=torch.float64) ** 0.01
    return {
        "gates": gates,
        "left": (-strengths * keys).unsqueeze(-1) * gates.unsqueeze(-1),
        "right": keys.unsqueeze(-1),
        "state": torch.zeros(1, dim, dim, dtype=torch.float64),
        "keys": strengths * keys,
        "values": torch.randn(1, length, dim, dtype=torch.float64),
        "queries": normalize(torch.randn(1, length, dim, dtype=torch.float64), dim=-1),
    }


@pytest.mark.parametrize("shared", [True, False])
def test_long_sequences_in_float32_are_exact_to_rounding(shared: bool) -> None:
    leaves = delta_rule(16384, 16, shared)
    single = {name: x.float() for name, x in leaves.items()}
    found = with_gradients(lambda x: answer(x, Chunked()), single)
    expected = with_gradients(
        lambda x: answer(x, Native()), {name: x.double() for name, x in single.items()}
    )
    assert_near(found, expected, 2e-5)


def test_half_precision_keeps_a_shared_gate_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    run = chunked.run_opaque

    def watched(engine: str, recurrence: Recurrence, size: int) -> Solution:
        seen.append(recurrence.source.tensors[0].shape[-1])
        return run(engine, recurrence, size)

    monkeypatch.setattr(chunked, "run_opaque", watched)
    leaves = {name: x.bfloat16() for name, x in make_leaves(Kind(True, 1), 9).items()}
    found = answer(leaves, Chunked(), torch.tensor([9, 4]))
    assert seen == [1]
    assert found["outputs"].dtype == torch.bfloat16 and found["last"].dtype == torch.float32


def test_products_are_taken_where_no_states_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    engines: list[str] = []
    run = chunked.run_opaque

    def watched(engine: str, recurrence: Recurrence, size: int) -> Solution:
        engines.append(engine)
        return run(engine, recurrence, size)

    monkeypatch.setattr(chunked, "run_opaque", watched)
    leaves = make_leaves(Kind(False, 1), 9)
    moved, outer = transitions(leaves), Outer(leaves["keys"], leaves["values"])
    propagate(moved, leaves["state"], outer, leaves["queries"], Chunked())
    propagate(moved, leaves["state"], None, leaves["queries"], Chunked())
    propagate(moved, leaves["state"], outer.dense(), leaves["queries"], Chunked())
    propagate(moved, leaves["state"], outer, None, Chunked())
    assert engines == ["outer", "outer", "chunked", "chunked"]


@pytest.mark.parametrize(
    ("length", "dim", "rank", "products"),
    [(128, 128, 0, True), (127, 128, 0, False), (128, 64, 0, False), (128, 128, 1, False)],
)
def test_large_states_of_long_sequences_take_products(
    length: int, dim: int, rank: int, products: bool
) -> None:
    steps = torch.zeros(1, length, dim)
    thin = torch.zeros(1, length, dim, rank)
    moved = LowRankTransition(steps, thin, thin) if rank else DiagonalTransition(steps)
    source, state = FromTransitions(moved), torch.zeros(1, dim, dim)
    assert chunked.by_products(source, Outer(steps, steps), steps, False)
    assert chunked.beats_native(source, state) == products
