"""The scales of projective states: parts that leave the range of floats come back as they were."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from slicekit import (
    BlockDiagonal,
    Chunked,
    Dense,
    Diagonal,
    DirectSum,
    Projective,
    Recurrent,
    Tabulated,
    propagate,
    solve,
)
from slicekit.flows import NATURAL
from slicekit.scans import Scan
from slicekit.scans.chunked.steps import StepPasses
from slicekit.scans.projective import (
    WINDOW,
    differentiable_directions,
    directions,
    exponents,
    normalise,
    powers_of_two,
    pull_directions,
    strained,
)
from slicekit.scans.sources import Made
from slicekit.structures import (
    BlockTransition,
    DiagonalTransition,
    LowRankTransition,
    Parameters,
    Structure,
    SumTransition,
    Transition,
)
from tests.market import CHANNELS, STRUCTURES, every_structure, make_parameters
from tests.scans.problems import Answers, NativeOrSkip, assert_near, dense_transitions

SCANS: dict[str, Scan] = {
    "recurrent": Recurrent(),
    "chunked": Chunked(),
    "chunked-13": Chunked(13),
    "native": NativeOrSkip(),
}
every_scan = pytest.mark.parametrize("scan", SCANS)

HALF = 160
"""Steps for which rows halve before they double again: 2^-160 is no float32."""


def beside(structure: Structure) -> tuple[DirectSum, Parameters]:
    """A structure with two rows that a channel of their own drives, and its parameters."""
    named: Parameters = {"part0_values": torch.randn(CHANNELS + 1, 2)}
    named["part0_values"][-1] = 1
    for name, x in make_parameters(structure).items():
        more = torch.zeros_like(x[: 0 if structure.ragged else 1])
        named[f"part1_{name}"] = torch.cat([x, more]).contiguous()
    rounded = {k: x.float().double() if x.is_floating_point() else x for k, x in named.items()}
    return DirectSum(Diagonal(2), structure), rounded


def there_and_back() -> Tensor:
    """Increments (1, 2 HALF, CHANNELS + 1): 1 + a is 1/2, then 2, in the last channel."""
    walk = torch.randn(1, 2 * HALF, CHANNELS) * 0.02
    last = torch.cat([torch.full((HALF,), -0.5), torch.ones(HALF)])
    return torch.cat([walk, last.view(1, -1, 1)], -1).double()


def by_dense_loop(transitions: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Directions and log-norms in float64, whose range all of it fits into."""
    h, states = state.unsqueeze(-1), []
    for matrix in transitions.unbind(1):
        h = matrix @ h
        states.append(h.squeeze(-1))
    stacked = torch.stack(states, 1)
    norm = stacked.norm(dim=-1)
    return stacked / norm.unsqueeze(-1), norm.log()


def with_gradients(
    run: Callable[..., tuple[Tensor, Tensor]], leaves: dict[str, Tensor], dtype: torch.dtype
) -> Answers:
    """Directions, log-norms, and the gradients of a fixed functional of them."""
    moved = {k: x.to(dtype) if x.is_floating_point() else x for k, x in leaves.items()}
    trained = {k: x.requires_grad_() for k, x in moved.items() if x.is_floating_point()}
    direction, log_norm = run(**(moved | trained))
    source = torch.Generator().manual_seed(1)
    weights = torch.randn(direction.shape, generator=source).to(dtype)
    loss = (weights * direction).sum() + log_norm.sum() / 100
    found = torch.autograd.grad(loss, list(trained.values()))
    answers = {"direction": direction.detach(), "log norm": log_norm.detach()}
    return answers | dict(zip(trained, found, strict=True))


@every_scan
@every_structure
def test_a_part_that_falls_out_of_range_returns_beside_every_structure(
    name: str, scan: str
) -> None:
    structure, parameters = beside(STRUCTURES[name])
    leaves = parameters | {
        "path": there_and_back(),
        "state": torch.randn(1, structure.dim).double(),
    }

    def found(path: Tensor, state: Tensor, **parameters: Tensor) -> tuple[Tensor, Tensor]:
        h, _ = solve(structure, parameters, path, Projective.of(state), scan=SCANS[scan])
        return h.direction, h.log_norm

    def dense(path: Tensor, state: Tensor, **parameters: Tensor) -> tuple[Tensor, Tensor]:
        return by_dense_loop(dense_transitions(structure, parameters, path, None), state)

    expected = with_gradients(dense, leaves, torch.float64)
    assert expected["direction"][0, HALF - 1, :2].abs().max() < 1e-45
    assert_near(with_gradients(found, leaves, torch.float32), expected, 1e-3)


@every_scan
def test_tokens_return_as_well(scan: str) -> None:
    structure, parameters = beside(Dense(3))
    table = there_and_back()[0, HALF - 2 : HALF + 2]
    index = torch.cat([torch.randint(0, 2, (1, HALF)), torch.randint(2, 4, (1, HALF))], 1)
    leaves = parameters | {"table": table, "state": torch.randn(1, 5).double()}

    def found(table: Tensor, state: Tensor, **parameters: Tensor) -> tuple[Tensor, Tensor]:
        tokens, start = Tabulated(table, index), Projective.of(state)
        h, _ = solve(structure, parameters, tokens, start, scan=SCANS[scan])
        return h.direction, h.log_norm

    def dense(table: Tensor, state: Tensor, **parameters: Tensor) -> tuple[Tensor, Tensor]:
        matrices = dense_transitions(structure, parameters, table[index], None)
        return by_dense_loop(matrices, state)

    expected = with_gradients(dense, leaves, torch.float64)
    assert_near(with_gradients(found, leaves, torch.float32), expected, 1e-3)


def falling(*shape: int) -> Tensor:
    """Factors (1, 2 HALF, ...) near 1/2, then near 2."""
    middle = torch.cat([torch.full((HALF,), 0.5), torch.full((HALF,), 2.0)])
    return middle.view(1, -1, *[1] * len(shape)) * (1 + 0.02 * torch.randn(1, 2 * HALF, *shape))


GIVEN: dict[str, Callable[[], Transition]] = {
    "diagonal": lambda: DiagonalTransition(torch.cat([falling(2), torch.ones(1, 320, 2)], 2)),
    "blocks": lambda: BlockTransition(
        torch.stack(
            [
                falling(2, 2) * torch.tensor([[1, 0.2], [-0.2, 1]]),
                torch.eye(2).expand(1, 320, 2, 2),
            ],
            2,
        )
    ),
    "sum": lambda: SumTransition(
        (
            DiagonalTransition(falling(1)),
            LowRankTransition(falling(3), *0.1 * torch.randn(2, 1, 320, 3, 1)),
            BlockTransition(torch.eye(2) + 0.01 * torch.randn(1, 320, 1, 2, 2)),
        )
    ),
}


@every_scan
@pytest.mark.parametrize("kind", GIVEN)
@pytest.mark.parametrize("columns", [1, 3])
def test_given_transitions_return_too(kind: str, columns: int, scan: str) -> None:
    made = GIVEN[kind]()
    leaves = {f"x{i}": x.double() for i, x in enumerate(made.tensors())}
    leaves["state"] = torch.randn(1, made.dim, columns).double()

    def found(state: Tensor, **tensors: Tensor) -> tuple[Tensor, Tensor]:
        moved = made.with_tensors(tuple(tensors.values()))
        h, _ = propagate(moved, Projective.of(state, matrix=True), scan=SCANS[scan])
        return h.direction, h.log_norm

    def dense(state: Tensor, **tensors: Tensor) -> tuple[Tensor, Tensor]:
        matrices = made.with_tensors(tuple(tensors.values())).as_dense()
        results = [by_dense_loop(matrices, column) for column in state.unbind(-1)]
        return torch.stack([x for x, _ in results], -1), torch.stack([x for _, x in results], -1)

    expected = with_gradients(dense, leaves, torch.float64)
    assert_near(with_gradients(found, leaves, torch.float32), expected, 1e-3)


def test_powers_of_two_are_just_below_their_sizes() -> None:
    for dtype in (torch.float32, torch.float64):
        sizes = torch.tensor([0.0, 0.75, 1.0, 1.999, 2.0, 1e-30, 3e30], dtype=dtype)
        powers = powers_of_two(sizes)
        assert powers[0] == 1
        ratio = sizes[1:] / powers[1:]
        assert ((ratio >= 1) & (ratio < 2)).all()
        assert (torch.frexp(powers)[0] == 0.5).all()


@every_structure
def test_scaling_rounds_nothing(name: str) -> None:
    structure, parameters = STRUCTURES[name], make_parameters(STRUCTURES[name])
    single = {k: x.float() if x.is_floating_point() else x for k, x in parameters.items()}
    source = Made(structure, NATURAL, single, torch.randn(2, 30, CHANNELS) * 0.3)
    state = torch.randn(2, structure.dim, 3)
    plain, _, _, _ = StepPasses(source, state, (), None, 0, 0).forward(False)
    states, _, factors, _ = StepPasses(source, state, (), None, 0, WINDOW).forward(False)
    scale = exponents(factors).float().exp2().repeat_interleave(WINDOW, 1)[:, :30]
    if structure.exponential_only:  # norms of rotations are restored at other steps
        torch.testing.assert_close(states * scale, plain)
    else:
        assert torch.equal(states * scale, plain)


def spread_states() -> tuple[Tensor, Tensor]:
    """States (1, 19, 4, 2) and factors: one row dies at step 5, the others are 2^-200 of it; later
    one of these overtakes the other by as much.
    """
    states = torch.randn(1, 19, 4, 2).abs() + 0.5
    states[:, 5:, 0] = 0
    factors = torch.ones(1, 3, 4, 2)
    factors[:, 0, 1:] = 2.0**-100
    factors[:, 1, 1:] = 2.0**-100
    factors[:, 2, 2] = 2.0**120
    states[..., 3, 1] = 0
    return states, factors


def test_directions_of_groups_that_are_far_apart() -> None:
    states, factors = spread_states()
    scale = exponents(factors).double().exp2().repeat_interleave(WINDOW, 1)[:, :19]
    wide = states.double().requires_grad_()
    expected, logs = normalise(wide * scale)
    weights = torch.randn(1, 19, 4, 2).double()
    weights[:, 5:, 0] = 0  # the gradient of a row that died before the others is no float32
    own = torch.autograd.grad((weights * expected).sum() + logs.sum(), wide)[0]
    direction, log_norms, norms, peaks = directions(states, factors, WINDOW)
    pulled = pull_directions(
        direction, norms, peaks, factors, WINDOW, weights.float(), torch.ones_like(log_norms)
    )
    for x, y in ((direction, expected), (log_norms, logs), (pulled, own)):
        torch.testing.assert_close(x.double(), y.detach(), rtol=1e-5, atol=1e-6)
    again, same_logs = differentiable_directions(states, factors, WINDOW)
    torch.testing.assert_close(again, direction)
    torch.testing.assert_close(same_logs, log_norms)


ARITHMETIC = ("mul", "addcmul", "div", "mm", "bmm", "baddbmm")


class Subnormal(TorchDispatchMode):
    """Counts the subnormal numbers that sums and products make."""

    count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Run the operation and look at its result."""
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in ARITHMETIC:
            moduli = result.abs()
            self.count += int(((moduli > 0) & (moduli < torch.finfo(result.dtype).tiny)).sum())
        return result


RATES = torch.linspace(-0.7, 0.3, 6)
DYING = {
    "diagonal": (Diagonal(6), {"values": RATES}),
    "dense": (Dense(6), {"blocks": torch.diag(RATES).unsqueeze(0)}),
    "blocks": (BlockDiagonal(6, 2), {"blocks": torch.diag_embed(RATES.view(3, 2))}),
}


@pytest.mark.parametrize("last", [False, True], ids=["all", "last"])
@pytest.mark.parametrize("name", DYING)
def test_gradients_that_die_away_become_zero_and_not_subnormal(name: str, last: bool) -> None:
    """Some rows fall to 2^-1000 of the others, and the adjoint forgets as fast."""
    steps, (structure, means) = 800, DYING[name]
    parameters = {k: (x + 0.02 * torch.randn(x.shape)).unsqueeze(0) for k, x in means.items()}
    path = 1 + 0.1 * torch.randn(1, steps, 1)
    source = Made(structure, NATURAL, parameters, path)
    passes = StepPasses(source, torch.randn(1, 6, 1), (), None, 0, WINDOW)
    states, _, factors, *_ = saved = passes.forward(False)
    weights = torch.randn(states.shape)
    weights[:, : steps - 1] *= 0 if last else 1
    direction, log_norms, norms, peaks = directions(states, factors, WINDOW)
    own = pull_directions(
        direction, norms, peaks, factors, WINDOW, weights, torch.zeros_like(log_norms)
    )
    with Subnormal() as found:
        gradients = passes.backward(saved, own, torch.zeros(1, 6, 1), [True] * 3)
    assert found.count == 0
    assert all(x.isfinite().all() for x in gradients)


GAINS: dict[str, list[float]] = {
    "tiny": [1e-6],
    "small": [1e-5],
    "large": [1e5],
    "huge": [1e6],
    "there and back": [1e6] * 20 + [1e-6] * 20,
    "back and there": [1e-6] * 20 + [1e6] * 20,
}

GROUPED = ("diagonal", "sum")
"""Kinds with three rows more, that are groups of their own and keep their size."""


def with_gains(gains: list[float], kind: str, leaves: list[Tensor]) -> Transition:
    """Forty steps; the first two rows have the gains."""
    gain = torch.tensor(gains, dtype=leaves[0].dtype).expand(40).view(40, 1)
    one = torch.ones_like(gain)
    if kind == "diagonal":
        rows = torch.cat([gain, gain, one, one, one], 1)
        return DiagonalTransition(rows * leaves[0].exp())
    blocks = BlockTransition((leaves[1] + 2 * torch.eye(2)) * gain.view(40, 1, 1, 1))
    if kind == "sum":
        return SumTransition((blocks, DiagonalTransition(leaves[0][..., 2:].exp())))
    if kind == "low rank":
        decay = (leaves[0][..., :2].exp()) * gain
        return LowRankTransition(decay, leaves[1][:, :, 0] * gain.unsqueeze(-1), leaves[2])
    return blocks


@every_scan
@pytest.mark.parametrize("kind", ["diagonal", "blocks", "sum", "low rank"])
@pytest.mark.parametrize("gains", GAINS)
def test_steps_may_scale_by_a_million(gains: str, kind: str, scan: str) -> None:
    """In float32, against plain states in float64, which hold 10^±240."""
    steps = (2, 40)
    tensors = [torch.randn(*steps, 5) / 10, torch.randn(*steps, 1, 2, 2) / 10]
    tensors += [torch.randn(*steps, 2, 2) / 10, torch.randn(2, 5 if kind in GROUPED else 2)]
    weights = torch.randn(*steps, tensors[-1].shape[1] + 1)

    def answers(found: Projective, leaves: list[Tensor]) -> Answers:
        both = torch.cat([found.direction, found.log_norm.unsqueeze(-1)], -1)
        loss = (both * weights.to(both.dtype)).sum()
        pulled = torch.autograd.grad(loss, leaves, materialize_grads=True)
        return {"direction": found.direction, "log_norm": found.log_norm} | {
            f"in {i}": g for i, g in enumerate(pulled)
        }

    leaves = [x.double().requires_grad_() for x in tensors]
    plain, _ = propagate(with_gains(GAINS[gains], kind, leaves), leaves[-1], scan=Recurrent())
    largest = plain.detach().abs().amax(-1, keepdim=True)  # whose square no float64 holds
    norms = (plain / largest).norm(dim=-1, keepdim=True)
    direction, log_norm = plain / largest / norms, (norms.log() + largest.log()).squeeze(-1)
    expected = answers(Projective(direction, log_norm), leaves)
    leaves = [x.clone().requires_grad_() for x in tensors]
    transition = with_gains(GAINS[gains], kind, leaves)
    states, last = propagate(transition, Projective.of(leaves[-1]), scan=SCANS[scan])
    assert_near({k: x.double() for k, x in answers(states, leaves).items()}, expected, 1e-4)
    torch.testing.assert_close(last.direction, states.direction[:, -1])


def test_what_strains_a_window() -> None:
    first, factors = torch.tensor([[1.0, 0.0]]), torch.ones(1, 3, 2)
    assert not strained(first, torch.tensor([[2.0, 0.0]]), factors)
    for last in ([0.0, 0.0], [torch.nan, 0.0], [torch.inf, 0.0], [1e30, 1.0], [1e-30, 1.0]):
        assert strained(first, torch.tensor([last]), factors)
    for factor in (1e30, 1e-30, torch.inf):
        assert strained(first, first, factors.index_fill(1, torch.tensor(1), factor))
    assert not strained(first[:0], first[:0], factors[:0])


@pytest.mark.parametrize("gain", [1e-5, 1e5])
def test_where_there_is_no_second_run_it_is_said(gain: float) -> None:
    steps, start = torch.full((1, 20, 2), gain), torch.tensor([[3.0, 4.0]])

    def run(steps: Tensor) -> Tensor:
        return propagate(DiagonalTransition(steps), Projective.of(start), scan=Chunked())[
            0
        ].log_norm.sum()

    with pytest.warns(RuntimeWarning, match="so much in 8 steps that numbers may be lost"):
        torch.func.grad(run)(steps)
