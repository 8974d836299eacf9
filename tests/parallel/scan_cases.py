"""What ranks do with a sharded scan; see test_sharded.py."""

import warnings
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from slicekit import BlockDiagonal, Dense, Outer, Projective, Tabulated, solve
from slicekit.parallel import Relay, Sharded
from slicekit.scans import Scan
from tests.market import STRUCTURES
from tests.scans.problems import Problem, Setting, with_gradients


def bounds(length: int, count: int) -> list[int]:
    """Uneven cuts: shards of 1, 2, ... steps and the rest, but for one rank."""
    edges = [0]
    for rank in range(count - 1):
        edges.append(edges[-1] + 1 + rank)
    return [*edges, length]


def cut(problem: Problem, leaves: dict[str, Tensor], part: slice) -> dict[str, Tensor]:
    """The leaves of a problem with those along time cut."""
    timed = {"path", "inputs", "left", "right"} - ({"path"} if problem.setting.tokens else set())
    return {k: x[:, part] if k in timed else x for k, x in leaves.items()}


def answer(
    problem: Problem, leaves: dict[str, Tensor], part: slice, flow: Any, scan: Scan
) -> dict[str, Tensor]:
    """As `Problem.solve`, for some steps."""
    setting, own = problem.setting, cut(problem, leaves, part)
    index = problem.index[:, part]
    steps = index.shape[1]
    increments: Any = Tabulated(own["path"], index) if setting.tokens else own["path"]
    lengths = None
    if problem.lengths is not None:
        lengths = (problem.lengths - part.start).clamp(0, steps)
    inputs: Any = own.get("inputs")
    if setting.inputs == "outer":
        inputs = Outer(own["left"], own["right"])
    parameters = problem.parameters(own)
    state = own["initial_state"]
    if setting.projective:
        start = Projective.of(state, matrix=setting.matrix)
        h, end = solve(problem.structure, parameters, increments, start, flow, scan, None, lengths)
        return {
            "direction": h.direction,
            "log_norm": h.log_norm,
            "last direction": end.direction,
            "last log_norm": end.log_norm,
        }
    states, last = solve(
        problem.structure, parameters, increments, state, flow, scan, inputs, lengths
    )
    return {"states": states, "last": last}


def errors(
    group: Any, name: str, setting: Setting, flow: Any, length: int, scale: float, inner: Any
) -> dict[str, float]:
    """Relative errors of the sharded scan against the whole, values and gradients."""
    count, rank = dist.get_world_size(group), dist.get_rank(group)
    problem = Problem.make(STRUCTURES[name], setting, length, scale)
    edges = bounds(length, count)
    part = slice(edges[rank], edges[rank + 1])
    whole = with_gradients(
        lambda leaves: answer(problem, leaves, slice(0, length), flow, inner), problem.leaves
    )
    return _weighed(problem, part, flow, Sharded(group, inner), whole, count)


def _weighed(
    problem: Problem, part: slice, flow: Any, scan: Scan, whole: dict[str, Tensor], count: int
) -> dict[str, float]:
    """The same functional as `with_gradients`, of which each rank counts its own steps."""
    assert isinstance(scan, Sharded | Relay)
    trained = {
        k: x.detach().clone().requires_grad_()
        for k, x in problem.leaves.items()
        if x.is_floating_point()
    }
    answers = answer(problem, problem.leaves | trained, part, flow, scan)
    source = torch.Generator().manual_seed(3)
    total = torch.zeros((), dtype=torch.float64)
    errors = {}
    for name, x in answers.items():
        expected = whole[name]
        weights = torch.randn(expected.shape, generator=source).double()
        if name.startswith("last"):
            total = total + (weights * x).sum() / count
        else:
            expected, weights = expected[:, part], weights[:, part]
            total = total + (weights * x).sum()
        errors[name] = _error(x, expected)
    gradients = torch.autograd.grad(total, list(trained.values()), allow_unused=True)
    for (name, leaf), gradient in zip(trained.items(), gradients, strict=True):
        summed = torch.zeros_like(leaf) if gradient is None else gradient.contiguous()
        dist.all_reduce(summed, group=scan.group)
        errors[f"gradient of {name}"] = _error(summed, whole[f"gradient of {name}"])
    return errors


def traffic(group: Any, length: int, projective: bool) -> list[tuple[str, int]]:
    """The collectives of a layer's two passes, and the bytes of this rank's message in each."""
    seen: list[tuple[str, int]] = []
    known = {name: getattr(dist, name) for name in ("all_gather", "all_reduce", "send", "recv")}

    def counted(name: str) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            x = arguments[1] if name == "all_gather" else arguments[0]
            seen.append((name, x.numel() * x.element_size()))
            return known[name](*arguments, **named)

        return call

    problem = Problem.make(STRUCTURES["blocks"], Setting(projective=projective), length)
    leaves = {k: x.requires_grad_() for k, x in problem.leaves.items()}
    for name in known:
        setattr(dist, name, counted(name))
    try:
        found = answer(problem, leaves, slice(0, length), None, Sharded(group))
        torch.stack([x.sum() for x in found.values()]).sum().backward()
    finally:
        for name, function in known.items():
            setattr(dist, name, function)
    return seen


def growth(group: Any, dtype: torch.dtype, length: int) -> dict[str, float]:
    """Directions of a dense recurrence that grows or dies by 10^1000 in a shard, as the whole's."""
    count, rank = dist.get_world_size(group), dist.get_rank(group)
    source = torch.Generator().manual_seed(5)
    parameters = {"blocks": torch.eye(4).repeat(1, 3, 1, 1)}
    parameters["blocks"] = parameters["blocks"] * torch.tensor([1.0, -0.5, 0.1])[:, None, None]
    parameters["blocks"] = parameters["blocks"] + 0.02 * torch.randn(1, 3, 4, 4, generator=source)
    structure, path = BlockDiagonal(12, 4), torch.ones(2, length, 1).to(dtype)
    state = torch.randn(2, 12, generator=source).to(dtype)
    edges = [length * r // count for r in range(count + 1)]
    part = slice(edges[rank], edges[rank + 1])

    def run(steps: slice, scan: Scan | None) -> Any:
        blocks = parameters["blocks"].to(dtype).requires_grad_()
        start = Projective.of(state)
        h, last = solve(structure, {"blocks": blocks}, path[:, steps], start, scan=scan)
        places = torch.arange(length, dtype=dtype)[steps, None].cos()
        loss = (h.direction * places).sum() + (last.log_norm.sum() * 1e-3) / (
            1 if scan is None else count
        )
        loss.backward()
        assert blocks.grad is not None
        return h, last, blocks.grad

    h, last, gradient = run(slice(0, length), None)
    own, end, share = run(part, Sharded(group))
    dist.all_reduce(share, group=group)
    return {
        "direction": _error(own.direction, h.direction[:, part]),
        "log_norm": _error(own.log_norm, h.log_norm[:, part]),
        "last": _error(end.log_norm, last.log_norm),
        "gradient": _error(share, gradient),
        "finite": float(not share.isfinite().all()),
    }


def disagreeing(group: Any) -> str:
    """What a rank is told whose batch is another."""
    batch = 2 + dist.get_rank(group) % 2
    parameters = {"blocks": torch.zeros(1, 1, 3, 3)}
    try:
        solve(
            Dense(3),
            parameters,
            torch.zeros(batch, 2, 1),
            torch.zeros(batch, 3),
            None,
            Sharded(group),
        )
    except ValueError as error:
        return str(error)
    return "nothing"


def surprised(group: Any) -> str:
    """What is said where one rank has another batch than before, and the others have not."""
    own = dist.new_group(dist.get_process_group_ranks(group), timeout=timedelta(seconds=2))
    batches = (2, 3 if dist.get_rank(group) == 1 else 2)
    try:
        for batch in batches:
            path, state = torch.zeros(batch, 2, 1), torch.zeros(batch, 3)
            solve(Dense(3), {"blocks": torch.zeros(1, 1, 3, 3)}, path, state, None, Sharded(own))
    except ValueError as error:
        return str(error)
    return "nothing"


def refused(group: Any, name: str) -> str:
    """What is said of a structure whose products can't be sent."""
    problem = Problem.make(STRUCTURES[name], Setting())
    try:
        problem.solve(problem.leaves, None, Sharded(group))
    except ValueError as error:
        return str(error)
    return "nothing"


def large(group: Any, dim: int) -> list[str]:
    """The warnings of a dense recurrence of that size."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        increments, state = torch.zeros(1, 1, 1), torch.zeros(1, dim)
        parameters = {"blocks": torch.zeros(1, 1, dim, dim)}
        solve(Dense(dim), parameters, increments, state, None, Sharded(group))
    return [str(x.message) for x in told]


def _error(found: Tensor, expected: Tensor) -> float:
    size = expected.abs().max().clamp_min(1e-30)
    return float((found.detach() - expected).abs().max() / size)
