"""Who is timed: slicekit's scans, tabulated tokens and torch-slices, on one problem each.

Every contender runs forward and backward and gives the states and all gradients. They compute the
same thing from the same weights, which is checked before anything is timed.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

import slicekit as sk
from slicekit import native
from slicekit.bench.problems import Problem, Setting
from slicekit.flows import resolve
from slicekit.scans import Scan
from slicekit.scans.native.assignment import PANELS, runs_of

NATIVE, KEPT, RECOMPUTED = "native", "native kept", "native recomputed"
CHUNKED, RECURRENT, TOKENS = "chunked", "recurrent", "tokens"
PEER_RECURRENT, PEER_PARALLEL = "torch-slices recurrent", "torch-slices parallel"
PEERS = (PEER_RECURRENT, PEER_PARALLEL)

NO_KERNELS = "no C++ kernels"
NO_PEER = "torch-slices not installed"

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


def peer_installed() -> bool:
    """Whether torch-slices is there to be compared with."""
    return importlib.util.find_spec("slices") is not None


def obstacle(name: str, setting: Setting) -> str:
    """Why a contender can't run a setting here; empty if it can."""
    if name in (NATIVE, KEPT, RECOMPUTED, TOKENS) and not native.available():
        return NO_KERNELS
    if name == KEPT and not _keeps(setting):
        return "keeps nothing"
    if name in PEERS and setting.case.peer is None:
        return "torch-slices has none"
    if name in PEERS and not peer_installed():
        return NO_PEER
    return ""


def _keeps(setting: Setting) -> bool:
    """Whether there are transitions to keep: those of one panel kernel."""
    structure = setting.case.make(setting.shape.dim)
    runs = runs_of(structure, resolve(structure, setting.flow))
    return not isinstance(runs, str) and [run.kernel for run in runs] == [PANELS]


def enter(name: str, problem: Problem) -> Contender:
    """Make a contender for a problem that it can run."""
    return ENTRANTS[name](problem)


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

    return Contender(_solving(problem, increments, increments, scan), common)


def tokens_contender(problem: Problem) -> Contender:
    """`solve` with `Tabulated` increments: transitions made once per token of the vocabulary."""
    table = problem.table.clone().requires_grad_()
    tokens = sk.Tabulated(table, problem.index)

    def common(results: Results) -> dict[str, Tensor]:
        states, in_table, in_state, *rest = results
        named = _named_parameters(problem, rest)
        return {"states": states, "table": in_table, "initial_state": in_state} | named

    return Contender(_solving(problem, tokens, table, sk.Native()), common)


def _trained(problem: Problem) -> list[str]:
    return [name for name, x in problem.parameters.items() if x.is_floating_point()]


def _named_parameters(problem: Problem, gradients: list[Tensor]) -> dict[str, Tensor]:
    return dict(zip(_trained(problem), gradients, strict=True))


def _solving(
    problem: Problem, increments: Tensor | sk.Tabulated, leaf: Tensor, scan: Scan
) -> Callable[[], Results]:
    parameters = {
        name: x.clone().requires_grad_() if x.is_floating_point() else x
        for name, x in problem.parameters.items()
    }
    state = problem.initial_state.clone().requires_grad_()
    leaves = [leaf, state, *(parameters[name] for name in _trained(problem))]
    structure, flow, batch = problem.structure, problem.setting.flow, problem.index.shape[0]

    def run() -> Results:
        start = state.expand(batch, -1)
        states, _ = sk.solve(structure, parameters, increments, start, flow, scan)
        return states, *torch.autograd.grad(states, leaves, problem.cotangent)

    return run


def peer_contender(problem: Problem, parallel: bool) -> Contender:
    """torch-slices with the problem's weights: it adds the time channel and scales by itself."""
    layer = _peer_layer(problem, parallel)
    weights = [weight for name, weight in layer.named_parameters() if name != "init"]
    with torch.no_grad():
        layer.get_parameter("init").copy_(problem.initial_state)
        for weight, ours in zip(weights, problem.parameters.values(), strict=True):
            weight.copy_(ours.flatten(1).t())
    inputs = (problem.increments[..., 1:] / problem.scale).requires_grad_()
    leaves = [inputs, layer.get_parameter("init"), *weights]

    def run() -> Results:
        states = layer(inputs)
        return states, *torch.autograd.grad(states, leaves, problem.cotangent)

    def common(results: Results) -> dict[str, Tensor]:
        states, in_inputs, in_state, *rest = results
        ours = zip(problem.parameters.items(), rest, strict=True)
        named = {name: gradient.t().reshape(x.shape) for (name, x), gradient in ours}
        return {
            "states": states,
            "input": in_inputs / problem.scale,
            "initial_state": in_state,
        } | named

    return Contender(run, common)


def _peer_layer(problem: Problem, parallel: bool) -> Any:
    import slices

    setting = problem.setting
    assert setting.case.peer is not None
    return slices.SLiCE(
        setting.channels - 1,
        setting.shape.dim,
        bias=False,
        scale=problem.scale,
        path_mode="increments",
        use_parallel=parallel,
        **setting.case.peer(setting.shape.dim),
    )


ENTRANTS: dict[str, Callable[[Problem], Contender]] = {
    NATIVE: partial(scan_contender, scan=sk.Native()),
    KEPT: partial(scan_contender, scan=sk.Native(keep=2**62)),
    RECOMPUTED: partial(scan_contender, scan=sk.Native(keep=0)),
    CHUNKED: partial(scan_contender, scan=sk.Chunked()),
    RECURRENT: partial(scan_contender, scan=sk.Recurrent()),
    TOKENS: tokens_contender,
    PEER_RECURRENT: partial(peer_contender, parallel=False),
    PEER_PARALLEL: partial(peer_contender, parallel=True),
}


def relative_error(found: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """The largest over the shared results of |found - expected| / |expected|."""
    errors = [
        torch.linalg.vector_norm(found[name] - expected[name])
        / torch.linalg.vector_norm(expected[name])
        for name in found.keys() & expected.keys()
    ]
    return torch.stack(errors).max().item()
