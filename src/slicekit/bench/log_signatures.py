"""Log-signatures against other packages, on windows of a series as long as EigenWorms.

Packages use different bases; before anything is timed, coefficients on the Lyndon words and the
gradients through them are compared on a small series. Peers are handed the windows as paths, which
is what they take; cutting them is not timed.
"""

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slicekit.bench.timing import Effort, Times, time_in_turns
from slicekit.paths import hall, log_signatures

BATCH, LENGTH, CHANNELS = 32, 18_000, 6
DEPTHS, WINDOWS = (2, 3), (12, LENGTH)
OURS = "slicekit"
TOLERANCE = 1e-3

Run = Callable[[], object]


@dataclass(frozen=True)
class Problem:
    """What to compute.

    Attributes:
        depth: of the log-signatures.
        window: increments in a window.
        batch, length: of the series.
        backward: whether gradients are wanted too.
    """

    depth: int
    window: int
    backward: bool
    batch: int = BATCH
    length: int = LENGTH

    def __str__(self) -> str:
        passes = "both passes" if self.backward else "forward"
        return f"log-signatures, depth {self.depth}, window {self.window}, {passes}"

    def increments(self) -> Tensor:
        """(batch, length, channels), always the same."""
        generator = torch.Generator().manual_seed(0)
        return torch.randn(self.batch, self.length, CHANNELS, generator=generator) / 10

    def paths(self) -> Tensor:
        """The windows as points, (batch x windows, window + 1, channels)."""
        points = torch.nn.functional.pad(self.increments().cumsum(1), (0, 0, 1, 0))
        return (
            points.unfold(1, self.window + 1, self.window).transpose(-1, -2).flatten(0, 1).clone()
        )


PROBLEMS = [
    Problem(depth, window, backward)
    for depth in DEPTHS
    for window in WINDOWS
    for backward in (False, True)
]


def _ours(problem: Problem) -> Run:
    increments = problem.increments().requires_grad_(problem.backward)
    basis = hall(CHANNELS, problem.depth)
    return _torch_run(lambda x: log_signatures(x, basis, problem.window), increments)


def _torch_run(function: Callable[[Tensor], Tensor], leaf: Tensor) -> Run:
    if not leaf.requires_grad:
        return lambda: function(leaf)
    with torch.no_grad():
        gradient = torch.ones_like(function(leaf))
    return lambda: torch.autograd.grad(function(leaf), leaf, gradient)


def _pysiglib(problem: Problem) -> Run:
    import pysiglib  # pyright: ignore[reportMissingImports]
    from pysiglib import torch_api  # pyright: ignore[reportMissingImports]

    peer: Any = torch_api
    pysiglib.prepare_log_sig(CHANNELS, problem.depth, 1, device="cpu")
    paths = problem.paths().requires_grad_(problem.backward)

    def run(x: Tensor) -> Tensor:
        return peer.log_sig(x, problem.depth, method=1, n_jobs=torch.get_num_threads())

    return _torch_run(run, paths)


def _signax(problem: Problem) -> Run:
    import jax  # pyright: ignore[reportMissingImports]
    import jax.numpy as jnp  # pyright: ignore[reportMissingImports]
    import signax  # pyright: ignore[reportMissingImports]

    paths = jnp.asarray(problem.paths().numpy())

    def run(x: Any) -> Any:
        return signax.logsignature(x, problem.depth)

    def both(x: Any, gradient: Any) -> Any:
        return jax.vjp(run, x)[1](gradient)[0]

    forward, backward = jax.jit(run), jax.jit(both)
    if not problem.backward:
        return lambda: jax.block_until_ready(forward(paths))
    gradient = jnp.ones_like(forward(paths))
    return lambda: jax.block_until_ready(backward(paths, gradient))


PEERS: dict[str, Callable[[Problem], Run]] = {"pysiglib": _pysiglib, "signax": _signax}


def installed(peer: str) -> bool:
    """Whether a package is there to be compared with."""
    return importlib.util.find_spec(peer) is not None


def check(peer: str) -> None:
    """Compare with a peer on a small series.

    Raises:
        ArithmeticError: if values or gradients differ.
    """
    for depth in DEPTHS:
        forward, backward = (Problem(depth, 4, x, batch=2, length=8) for x in (False, True))
        basis = hall(CHANNELS, depth)
        leaf = forward.increments().requires_grad_()
        expanded = basis.expand(log_signatures(leaf, basis, 4))
        value = expanded[..., basis.words]
        (gradient,) = torch.autograd.grad(value.sum(), leaf)
        coefficients = torch.tensor(_listed(PEERS[peer](forward)()))
        pulled = torch.tensor(_listed(PEERS[peer](backward)())).reshape(2, 2, 5, CHANNELS)
        # A step moves all points that come after it.
        steps = pulled[:, :, 1:].flip(2).cumsum(2).flip(2).reshape(gradient.shape)
        for one, other in ((coefficients.reshape(value.shape), value), (steps, gradient)):
            error = float((one - other).abs().max().detach() / other.abs().max().detach())
            if not error < TOLERANCE:
                raise ArithmeticError(f"{peer}, depth {depth}: relative error {error:.2g}")


def _listed(result: Any) -> Any:
    return (result[0] if isinstance(result, tuple) else result).tolist()


def times(problem: Problem, peers: list[str], effort: Effort) -> Times:
    """Of slicekit and its peers in turns."""
    runs = {OURS: _ours(problem)} | {peer: PEERS[peer](problem) for peer in peers}
    for run in runs.values():
        run()
    return time_in_turns(runs, effort, {})


def races(effort: Effort) -> Iterator[tuple[Problem, dict[str, str], Times | None]]:
    """Every problem, which peers have no part in it and why, and the times of all others.

    A quick run leaves out signax, which is compiled for seconds, and whole series.
    """
    absent = {peer: f"{peer} not installed" for peer in PEERS if not installed(peer)}
    if effort.quick:
        absent.setdefault("signax", "full run only")
    able = [peer for peer in PEERS if peer not in absent]
    for peer in able:
        check(peer)
    for problem in PROBLEMS:
        if effort.quick and problem.window == LENGTH:
            yield problem, dict.fromkeys(PEERS, "full run only"), None
        else:
            yield problem, absent, times(problem, able, effort) if able else None
