"""Matrix states that are only read out: `Chunked` by matrix products agrees with the steps."""

from dataclasses import dataclass
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from slicekit import Chunked, Outer, Recurrent, propagate
from slicekit.scans import Recurrence, Scan, Solution
from slicekit.scans.base import Passes
from slicekit.scans.chunked import policy, products
from slicekit.scans.chunked.products import ProductPasses
from slicekit.scans.chunked.steps import StepPasses
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
    monkeypatch.setattr(products, "GROUP_NUMBERS", 3 * BATCH * 4 * DIM * (kind.rank + 1))
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

    tensors = [x.requires_grad_() for x in leaves.values()]
    assert torch.autograd.gradcheck(outputs, tensors, fast_mode=True)


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


def delta_rule(length: int, strengths: Tensor, gates: Tensor) -> dict[str, Tensor]:
    """Normalised keys, all of them much alike, as float32 numbers in float64."""
    dim = 16
    randn = partial(torch.randn, 1, length, dim, dtype=torch.float64)
    keys = normalize(0.2 * randn() + 1, dim=-1)
    leaves = {
        "gates": gates,
        "left": (-strengths * gates * keys).unsqueeze(-1),
        "right": keys.unsqueeze(-1),
        "state": torch.zeros(1, dim, dim, dtype=torch.float64),
        "keys": strengths * keys,
        "values": randn(),
        "queries": normalize(randn(), dim=-1),
    }
    return {name: x.float().double() for name, x in leaves.items()}


def step_by_step(leaves: dict[str, Tensor]) -> dict[str, Tensor]:
    gates, left, right, state, keys, values, queries = (x[0] for x in leaves.values())
    outputs = []
    for t in range(len(keys)):
        found = right[t].T @ state
        state = torch.addmm(gates[t].unsqueeze(-1) * state, left[t], found)
        state = torch.addr(state, keys[t], values[t])
        outputs.append(queries[t] @ state)
    return {"outputs": torch.stack(outputs)[None], "last": state[None]}


@pytest.mark.parametrize("width", [1, 16])
@pytest.mark.parametrize("strengths", ["reflections", "any"])
def test_long_sequences_are_exact_to_rounding_in_float32(strengths: str, width: int) -> None:
    length = 16384
    uniform = partial(torch.rand, 1, length, dtype=torch.float64)
    strong = torch.full((1, length, 1), 2.0, dtype=torch.float64)
    if strengths == "any":
        leaves = delta_rule(length, 2 * uniform().unsqueeze(-1), torch.rand_like(strong) ** 0.01)
    else:
        leaves = delta_rule(length, strong, torch.ones_like(strong))
    leaves["gates"] = leaves["gates"].repeat(1, 1, width)
    single = {name: x.float() for name, x in leaves.items()}
    found = with_gradients(lambda x: answer(x, Chunked()), single)
    expected = with_gradients(lambda x: answer(x, Chunked()), leaves)
    assert_near(found, expected, 5e-5 if strengths == "reflections" else 1e-5)
    plain = step_by_step(leaves)
    assert_near({name: expected[name] for name in plain}, plain, 1e-11)


def test_half_precision_keeps_a_shared_gate_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    run = policy.run_opaque

    def watched(passes: type[Passes], recurrence: Recurrence, size: int) -> Solution:
        seen.append(recurrence.source.tensors[0].shape[-1])
        return run(passes, recurrence, size)

    monkeypatch.setattr(policy, "run_opaque", watched)
    leaves = {name: x.bfloat16() for name, x in make_leaves(Kind(True, 1), 9).items()}
    found = answer(leaves, Chunked(), torch.tensor([9, 4]))
    assert seen == [1]
    assert found["outputs"].dtype == torch.bfloat16 and found["last"].dtype == torch.float32


def test_products_are_taken_where_no_states_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[type[Passes]] = []
    run = policy.run_opaque

    def watched(passes: type[Passes], recurrence: Recurrence, size: int) -> Solution:
        taken.append(passes)
        return run(passes, recurrence, size)

    monkeypatch.setattr(policy, "run_opaque", watched)
    leaves = make_leaves(Kind(False, 1), 9)
    moved, outer = transitions(leaves), Outer(leaves["keys"], leaves["values"])
    propagate(moved, leaves["state"], outer, leaves["queries"], Chunked())
    propagate(moved, leaves["state"], None, leaves["queries"], Chunked())
    propagate(moved, leaves["state"], outer.dense(), leaves["queries"], Chunked())
    propagate(moved, leaves["state"], outer, None, Chunked())
    assert taken == [ProductPasses, ProductPasses, StepPasses, StepPasses]


@pytest.mark.parametrize(
    ("length", "dim", "rank", "products"),
    [
        (256, 128, 0, True),
        (255, 128, 0, False),
        (256, 64, 0, False),
        (256, 128, 1, False),
        (256, 256, 1, True),
    ],
)
def test_large_states_of_long_sequences_take_products(
    length: int, dim: int, rank: int, products: bool
) -> None:
    steps = torch.zeros(1, length, dim)
    thin = torch.zeros(1, length, dim, rank)
    moved = LowRankTransition(steps, thin, thin) if rank else DiagonalTransition(steps)
    source, state = FromTransitions(moved), torch.zeros(1, dim, dim)
    recurrence = Recurrence(source, state, Outer(steps, steps), steps)
    assert policy.by_products(recurrence)
    assert policy.beats_native(recurrence) == products


def test_an_empty_batch_of_large_states() -> None:
    gate = torch.ones(0, 300, 1).expand(-1, -1, 128)
    inputs = Outer(torch.ones(0, 300, 128), torch.ones(0, 300, 128))
    start = torch.zeros(0, 128, 128, requires_grad=True)
    y, last = propagate(DiagonalTransition(gate), start, inputs, torch.ones(0, 300, 128))
    assert y.shape == (0, 300, 128) and last.shape == start.shape
    (y.sum() + last.sum()).backward()
