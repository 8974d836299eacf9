"""Who is timed: slicekit's scans, tabulated tokens and torch-slices, on one problem each.

Every contender runs forward and backward and gives the states and all gradients. They compute the
same thing from the same weights, which is checked before anything is timed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

import slicekit as sk
from benchmarks.problems import Problem
from slicekit.scans import Scan

try:
    import slices as torch_slices
except ImportError:
    torch_slices = None

CHUNKED, RECURRENT, TOKENS = "Chunked", "Recurrent", "tokens"
PEER_RECURRENT, PEER_PARALLEL = "torch-slices recurrent", "torch-slices parallel"
NAMES = (CHUNKED, RECURRENT, PEER_RECURRENT, PEER_PARALLEL, TOKENS)

Results = tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Contender:
    """Something to time.

    Attributes:
        run: forward and backward; the states and the gradients of all leaves.
        common: the results under names, and in units, that all contenders share.
    """

    run: Callable[[], Results]
    common: Callable[[Results], dict[str, Tensor]]


def scan_contender(problem: Problem, scan: Scan) -> Contender:
    """`solve` with increments given position by position."""
    increments = problem.increments.clone().requires_grad_()

    def common(results: Results) -> dict[str, Tensor]:
        states, in_increments, in_state, *rest = results
        in_table = torch.zeros_like(problem.table)
        in_table.index_add_(0, problem.index.flatten(), in_increments.flatten(0, 1))
        named = _named_parameters(problem, rest)
        return {
            "states": states,
            "input": in_increments[..., 1:],
            "table": in_table,
            "initial_state": in_state,
        } | named

    return Contender(_solving(problem, lambda: increments, increments, scan), common)


def tokens_contender(problem: Problem) -> Contender:
    """`solve` with `Tabulated` increments: transitions made once per token of the vocabulary."""
    table = problem.table.clone().requires_grad_()
    tokens = sk.Tabulated(table, problem.index)

    def common(results: Results) -> dict[str, Tensor]:
        states, in_table, in_state, *rest = results
        named = _named_parameters(problem, rest)
        return {"states": states, "table": in_table, "initial_state": in_state} | named

    return Contender(_solving(problem, lambda: tokens, table, sk.Chunked()), common)


def _trained(problem: Problem) -> list[str]:
    return [name for name, x in problem.parameters.items() if x.is_floating_point()]


def _named_parameters(problem: Problem, gradients: list[Tensor]) -> dict[str, Tensor]:
    return dict(zip(_trained(problem), gradients, strict=True))


def _solving(
    problem: Problem, increments: Callable[[], Tensor | sk.Tabulated], leaf: Tensor, scan: Scan
) -> Callable[[], Results]:
    parameters = {
        name: x.clone().requires_grad_() if x.is_floating_point() else x
        for name, x in problem.parameters.items()
    }
    state = problem.initial_state.clone().requires_grad_()
    leaves = [leaf, state, *(parameters[name] for name in _trained(problem))]

    def run() -> Results:
        start = state.expand(problem.shape.batch, -1)
        states, _ = sk.solve(problem.structure, parameters, increments(), start, scan=scan)
        return states, *torch.autograd.grad(states, leaves, problem.cotangent)

    return run


def peer_contender(problem: Problem, parallel: bool) -> Contender:
    """torch-slices with the problem's weights: it adds the time channel and scales by itself."""
    assert torch_slices is not None and problem.case.peer is not None
    layer = torch_slices.SLiCE(
        problem.channels - 1,
        problem.shape.dim,
        bias=False,
        scale=problem.scale,
        path_mode="increments",
        use_parallel=parallel,
        **problem.case.peer(problem.shape.dim),
    )
    weights = [weight for name, weight in layer.named_parameters() if name != "init"]
    with torch.no_grad():
        layer.get_parameter("init").copy_(problem.initial_state)
        for weight, own in zip(weights, problem.parameters.values(), strict=True):
            weight.copy_(own.flatten(1).t())
    inputs = (problem.increments[..., 1:] / problem.scale).requires_grad_()
    leaves = [inputs, layer.get_parameter("init"), *weights]

    def run() -> Results:
        states = layer(inputs)
        return states, *torch.autograd.grad(states, leaves, problem.cotangent)

    def common(results: Results) -> dict[str, Tensor]:
        states, in_inputs, in_state, *rest = results
        own = zip(problem.parameters.items(), rest, strict=True)
        named = {name: gradient.t().reshape(x.shape) for (name, x), gradient in own}
        return {
            "states": states,
            "input": in_inputs / problem.scale,
            "initial_state": in_state,
        } | named

    return Contender(run, common)


def contenders(problem: Problem) -> dict[str, Contender]:
    """All that apply to a problem and are installed."""
    found = {
        CHUNKED: scan_contender(problem, sk.Chunked()),
        RECURRENT: scan_contender(problem, sk.Recurrent()),
        TOKENS: tokens_contender(problem),
    }
    if torch_slices is not None and problem.case.peer is not None:
        found[PEER_RECURRENT] = peer_contender(problem, parallel=False)
        found[PEER_PARALLEL] = peer_contender(problem, parallel=True)
    return found


def relative_error(found: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """The largest over the shared results of |found - expected| / |expected|."""
    errors = [
        torch.linalg.vector_norm(found[name] - expected[name])
        / torch.linalg.vector_norm(expected[name])
        for name in found.keys() & expected.keys()
    ]
    return torch.stack(errors).max().item()
