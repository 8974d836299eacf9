"""Transitions that someone else made, against a dense loop, in values and gradients."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from slicekit import Outer, Projective, propagate
from slicekit.scans import Scan
from slicekit.structures import (
    BlockTransition,
    DiagonalTransition,
    LowRankTransition,
    SumTransition,
    Transition,
)
from tests.ownership import TAPES, every_tape, shared
from tests.scans.problems import SCANS, Answers, assert_near, with_gradients

pytestmark = pytest.mark.filterwarnings("ignore:Associative.. composes")

BATCH, LENGTH = 2, 19
LENGTHS = torch.tensor([7, LENGTH])
every_scan = pytest.mark.parametrize("scan", SCANS)


def randn(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, dtype=dtype)


def make_tensors() -> dict[str, tuple[Tensor, ...]]:
    """The tensors of every kind of transition."""
    steps = (BATCH, LENGTH)
    low_rank = (randn(*steps, 4) * 0.7, randn(*steps, 4, 2) * 0.4, randn(*steps, 4, 2) * 0.4)
    low_rank[0][:, ::3] = 0
    return {
        "diagonal": (randn(*steps, 4),),
        "complex diagonal": (randn(*steps, 4, dtype=torch.complex128),),
        "blocks": (randn(*steps, 2, 3, 3) * 0.5,),
        "low rank": low_rank,
        "sum": (randn(*steps, 2), randn(*steps, 2, 2, 2) * 0.6, *low_rank),
    }


KINDS = list(make_tensors())


def make_transition(kind: str, tensors: tuple[Tensor, ...]) -> Transition:
    if kind in ("diagonal", "complex diagonal"):
        return DiagonalTransition(*tensors)
    if kind == "blocks":
        return BlockTransition(*tensors)
    if kind == "low rank":
        return LowRankTransition(*tensors)
    diagonal, blocks, *low_rank = tensors
    inner = SumTransition((BlockTransition(blocks), LowRankTransition(*low_rank)))
    return SumTransition((DiagonalTransition(diagonal), inner))


def dense(kind: str, tensors: tuple[Tensor, ...]) -> Tensor:
    """The matrices, written out by hand."""
    if kind in ("diagonal", "complex diagonal"):
        return torch.diag_embed(tensors[0])
    if kind == "blocks":
        rows = [torch.block_diag(*k) for k in tensors[0].flatten(0, 1)]
        return torch.stack(rows).unflatten(0, (BATCH, LENGTH))
    if kind == "low rank":
        d, u, v = tensors
        return torch.diag_embed(d) + u @ v.mT
    diagonal, blocks, *low_rank = tensors
    parts = (
        dense("diagonal", (diagonal,)),
        dense("blocks", (blocks,)),
        dense("low rank", tuple(low_rank)),
    )
    rows = [torch.block_diag(*x) for x in zip(*(p.flatten(0, 1) for p in parts), strict=True)]
    return torch.stack(rows).unflatten(0, (BATCH, LENGTH))


@dataclass(frozen=True)
class Call:
    """What is asked of `propagate` besides the transitions and the scan."""

    columns: int | None = None
    inputs: str = "none"
    readout: bool = False
    padded: bool = False


CALLS = {
    "vector": Call(),
    "vector, inputs": Call(inputs="dense"),
    "vector, readout, padded": Call(inputs="dense", readout=True, padded=True),
    "matrix, inputs, padded": Call(columns=3, inputs="dense", padded=True),
    "matrix, outer": Call(columns=3, inputs="outer"),
    "matrix, outer, readout": Call(columns=3, inputs="outer", readout=True),
    "wide, outer, readout, padded": Call(columns=17, inputs="outer", readout=True, padded=True),
}


def make_leaves(kind: str, call: Call) -> dict[str, Tensor]:
    tensors = make_tensors()[kind]
    dim = dense(kind, tensors).shape[-1]
    dtype = tensors[0].dtype
    tail = () if call.columns is None else (call.columns,)
    leaves = {f"tensor {i}": x for i, x in enumerate(tensors)}
    leaves["initial_state"] = randn(BATCH, dim, *tail, dtype=dtype)
    if call.inputs == "dense":
        leaves["inputs"] = randn(BATCH, LENGTH, dim, *tail, dtype=dtype)
    if call.inputs == "outer":
        leaves["left"] = randn(BATCH, LENGTH, dim, dtype=dtype)
        leaves["right"] = randn(BATCH, LENGTH, *tail, dtype=dtype)
    if call.readout:
        leaves["readout"] = randn(BATCH, LENGTH, dim, dtype=dtype)
    return leaves


def transition_tensors(leaves: dict[str, Tensor]) -> tuple[Tensor, ...]:
    return tuple(x for name, x in leaves.items() if name.startswith("tensor"))


def answer(kind: str, call: Call, leaves: dict[str, Tensor], scan: Scan | None) -> Answers:
    inputs = leaves.get("inputs")
    outputs, last = propagate(
        make_transition(kind, transition_tensors(leaves)),
        leaves["initial_state"],
        Outer(leaves["left"], leaves["right"]) if call.inputs == "outer" else inputs,
        leaves.get("readout"),
        scan,
        LENGTHS if call.padded else None,
    )
    return as_real({"outputs": outputs, "last": last})


def reference(kind: str, call: Call, leaves: dict[str, Tensor]) -> Answers:
    matrices = dense(kind, transition_tensors(leaves))
    state = leaves["initial_state"]
    state = state if call.columns else state[..., None]
    u = leaves.get("inputs")
    if u is not None and not call.columns:
        u = u[..., None]
    if call.inputs == "outer":
        u = leaves["left"][..., :, None] * leaves["right"][..., None, :]
    outputs = []
    for step in range(LENGTH):
        moved = matrices[:, step] @ state
        if u is not None:
            moved = moved + u[:, step]
        if call.padded:
            moved = torch.where((step < LENGTHS)[:, None, None], moved, state)
        state = moved
        output = state
        if call.readout:
            output = torch.einsum("bi,bij->bj", leaves["readout"][:, step], state)
            if call.padded:
                output = torch.where((step < LENGTHS)[:, None], output, 0)
        outputs.append(output)
    found = torch.stack(outputs, 1), state
    if not call.columns:
        found = found[0].squeeze(-1), found[1].squeeze(-1)
    return as_real({"outputs": found[0], "last": found[1]})


def as_real(answers: Answers) -> Answers:
    """Real and imaginary parts side by side, so that a functional of them is real."""
    return {k: torch.view_as_real(x) if x.is_complex() else x for k, x in answers.items()}


def differentiate(
    function: Callable[[dict[str, Tensor]], Answers], leaves: dict[str, Tensor]
) -> Answers:
    """As `with_gradients`, for leaves that may be complex."""
    names = [k for k, x in leaves.items() if x.is_complex()]
    split = {k: torch.view_as_real(x) if x.is_complex() else x for k, x in leaves.items()}

    def joined(parts: dict[str, Tensor]) -> Answers:
        return function(
            {k: torch.view_as_complex(x) if k in names else x for k, x in parts.items()}
        )

    return with_gradients(joined, split)


@every_scan
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", KINDS)
def test_values_and_gradients_are_those_of_the_dense_loop(kind: str, call: str, scan: str) -> None:
    leaves = make_leaves(kind, CALLS[call])
    actual = differentiate(lambda x: answer(kind, CALLS[call], x, SCANS[scan]), leaves)
    expected = differentiate(lambda x: reference(kind, CALLS[call], x), leaves)
    assert_near(actual, expected, 1e-9)


@every_scan
@pytest.mark.parametrize("kind", KINDS)
def test_a_readout_is_the_contraction_of_the_states(kind: str, scan: str) -> None:
    leaves = make_leaves(kind, CALLS["matrix, outer, readout"])

    def contracted(x: dict[str, Tensor]) -> Answers:
        transition = make_transition(kind, transition_tensors(x))
        inputs = Outer(x["left"], x["right"])
        states, last = propagate(transition, x["initial_state"], inputs, scan=SCANS[scan])
        return as_real(
            {"outputs": torch.einsum("bli,blij->blj", x["readout"], states), "last": last}
        )

    call = CALLS["matrix, outer, readout"]
    direct = differentiate(lambda x: answer(kind, call, x, SCANS[scan]), leaves)
    assert_near(direct, differentiate(contracted, leaves), 1e-10)


@pytest.mark.parametrize("scan", [name for name in SCANS if name != "associative"])
@pytest.mark.parametrize("kind", KINDS)
def test_projective_states_are_the_plain_ones_taken_apart(kind: str, scan: str) -> None:
    leaves = make_leaves(kind, Call(columns=2))

    def projective(x: dict[str, Tensor]) -> Answers:
        transition = make_transition(kind, transition_tensors(x))
        start = Projective.of(x["initial_state"], matrix=True)
        states, last = propagate(transition, start, scan=SCANS[scan], lengths=LENGTHS)
        whole = states.log_norm.exp().unsqueeze(-2) * states.direction
        end = last.log_norm.exp().unsqueeze(-2) * last.direction
        return as_real({"outputs": whole, "last": end})

    call = Call(columns=2, padded=True)
    expected = differentiate(lambda x: reference(kind, call, x), leaves)
    assert_near(differentiate(projective, leaves), expected, 1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_garbage_past_the_end_reaches_nothing(kind: str) -> None:
    leaves = make_leaves(kind, Call(inputs="dense"))
    spoilt = {k: x.clone() for k, x in leaves.items()}
    for name, x in spoilt.items():
        if name != "initial_state":
            x[0, LENGTHS[0] :] = torch.nan
    call = Call(inputs="dense", padded=True)
    for scan in SCANS.values():
        clean = differentiate(lambda x, s=scan: answer(kind, call, x, s), leaves)
        dirty = differentiate(lambda x, s=scan: answer(kind, call, x, s), spoilt)
        assert_near(dirty, clean, 1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_scan_that_is_chosen_agrees(kind: str) -> None:
    call = CALLS["matrix, outer"]
    leaves = make_leaves(kind, call)
    chosen = differentiate(lambda x: answer(kind, call, x, None), leaves)
    assert_near(chosen, differentiate(lambda x: reference(kind, call, x), leaves), 1e-9)


def test_half_precision_is_computed_in_single_precision() -> None:
    blocks = torch.randn(2, 6, 2, 2, 2, dtype=torch.bfloat16)
    outputs, last = propagate(BlockTransition(blocks), torch.ones(2, 4, dtype=torch.bfloat16))
    expected, end = propagate(BlockTransition(blocks.float()), torch.ones(2, 4))
    assert outputs.dtype == torch.bfloat16
    assert last.dtype == torch.float32
    assert torch.equal(outputs, expected.bfloat16())
    assert torch.equal(last, end)


def test_a_real_state_is_taken_up_by_complex_transitions() -> None:
    values = randn(2, 5, 3, dtype=torch.complex128)
    states, _ = propagate(DiagonalTransition(values), torch.ones(2, 3).double())
    torch.testing.assert_close(states, values.cumprod(1))


def test_padding_of_a_readout_may_hold_anything() -> None:
    values = torch.rand(2, 6, 4, requires_grad=True)
    readout = torch.randn(2, 6, 4)
    readout[1, 3:] = float("nan")
    outputs, _ = propagate(
        DiagonalTransition(values), torch.randn(2, 4), readout=readout, lengths=[6, 3]
    )
    (gradient,) = torch.autograd.grad(outputs.sum(), values)
    assert outputs.isfinite().all() and gradient.isfinite().all()
    assert not outputs[1, 3:].any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", ["vector", "vector, readout, padded", "matrix, outer"])
@every_scan
@every_tape
def test_the_last_state_shares_no_memory_with_the_outputs(
    kind: str, call: str, scan: str, tape: str
) -> None:
    leaves = make_leaves(kind, CALLS[call])
    with TAPES[tape]():
        found = answer(kind, CALLS[call], leaves, SCANS[scan])
    assert not shared({"last": found["last"]}, found["outputs"], *leaves.values())
