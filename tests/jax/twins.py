"""The market's structures and problems, said again in JAX."""

from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch
from jax import Array

import slicekit as sk
import slicekit.jax as sj
from slicekit.flows import Flow
from slicekit.jax import native
from slicekit.jax.scans import Scan
from slicekit.jax.structures import BlockGenerator, Structure
from tests.market import FLOWS, STRUCTURES
from tests.scans.problems import SCANS, SETTINGS, Answers, Problem, with_gradients

EVERY_FLOW = FLOWS | {"windows": sk.LogODE(2, 4)}
"""The market's flows, and one whose step is a window."""

JAX_SCANS: dict[str, Scan] = {
    "native": sj.Native(),
    "recurrent": sj.Recurrent(),
    "chunked-5": sj.Chunked(5),
    "chunked-parallel": sj.Chunked(3, parallel=True),
    "associative": sj.Associative(),
}


NO_KERNEL = {
    *("dplr", "sparse-by-density", "sparse-by-epsilon", "open-sum"),
    *("circulant", "householder", "row-normalised", "permutation-diagonal"),
}
"""Structures of the market that kernels have no form of in JAX."""

ONLY_EULER = {"joint-dplr", "hadamard-8", "unbounded-hadamard-32"}
"""Structures whose exponential has none."""


def need(scan: str) -> None:
    """Skip the test if a scan is that of kernels which are not here."""
    if scan == "native" and not native.available():
        pytest.skip(native.reason())


def has_kernel(name: str, flow: str) -> bool:
    """Whether `Native()` runs that structure of the market under that flow."""
    return name not in NO_KERNEL and not (name in ONLY_EULER and flow == "exponential")


@dataclass(frozen=True)
class Circulant(Structure):
    """A structure as a user writes it."""

    dim: int

    def init(self, channels: int, key: Array, *, increment: float = 1.0) -> dict[str, Array]:
        return {"first": jax.random.normal(key, (channels, self.dim)) / self.dim**0.5}

    def combine(self, parameters: dict[str, Array], increments: Array) -> BlockGenerator:
        first = increments @ parameters["first"]
        row = jnp.arange(self.dim)
        return BlockGenerator(first[..., (row[:, None] - row) % self.dim][..., None, :, :])

    def step_cost(self, channels: int) -> int:
        return (channels + self.dim) * self.dim


def twin(value: Any) -> Any:
    """The same structure or flow in JAX; exponentials with substeps, which tracing needs."""
    if value is None:
        return None
    if type(value).__name__ == "Exponential":
        return sj.Exponential(substeps=3)
    if type(value).__name__ == "Circulant":
        return Circulant(value.dim)
    if hasattr(value, "configuration"):
        arguments = dict(value.configuration())
    else:
        arguments = {f.name: getattr(value, f.name) for f in fields(value) if f.init}
    positional = [twin(part) for part in arguments.pop("*", ())]
    arguments |= {name: twin(x) for name, x in arguments.items() if isinstance(x, Flow)}
    return getattr(sj, type(value).__name__)(*positional, **arguments)


def array(x: torch.Tensor) -> Array:
    """The same numbers."""
    return jnp.asarray(x.detach().numpy())


def solve_in_jax(problem: Problem, leaves: Any, flow: Any, scan: Scan | None) -> dict[str, Any]:
    """What slicekit.jax says of a problem."""
    setting, state = problem.setting, leaves["initial_state"]
    head = "parameters."
    parameters = {k[len(head) :]: x for k, x in leaves.items() if k.startswith(head)}
    increments = leaves["path"]
    if setting.tokens:
        increments = sj.Tabulated(increments, array(problem.index))
    lengths = None if problem.lengths is None else array(problem.lengths)
    structure = twin(problem.structure)
    if setting.projective:
        start = sj.Projective.of(state, matrix=setting.matrix)
        h, end = sj.solve(structure, parameters, increments, start, flow, scan, lengths=lengths)
        return {
            "direction": h.direction,
            "log_norm": h.log_norm,
            "last direction": end.direction,
            "last log_norm": end.log_norm,
        }
    inputs = leaves.get("inputs")
    if setting.inputs == "outer":
        inputs = sj.Outer(leaves["left"], leaves["right"])
    states, last = sj.solve(structure, parameters, increments, state, flow, scan, inputs, lengths)
    return {"states": states, "last": last}


def with_gradients_in_jax(function: Any, leaves: dict[str, torch.Tensor]) -> Answers:
    """As `with_gradients`, for a function of arrays: the same functional of the answers."""
    arrays = {name: array(x) for name, x in leaves.items()}
    trained = {name: x for name, x in arrays.items() if jnp.issubdtype(x.dtype, jnp.floating)}

    def total(trained: dict[str, Array]) -> Any:
        answers = function(arrays | trained)
        source = torch.Generator().manual_seed(3)
        weights = [array(torch.randn(x.shape, generator=source).double()) for x in answers.values()]
        found = sum((w * x).sum() for w, x in zip(weights, answers.values(), strict=True))
        return found, list(answers.items())

    names: list[str] = []

    def traced(trained: dict[str, Array]) -> Any:
        value, answers = total(trained)
        names[:] = [name for name, _ in answers]
        return value, [x for _, x in answers]

    gradients, answers = jax.jit(jax.grad(traced, has_aux=True))(trained)
    found = dict(zip(names, answers, strict=True))
    found |= {f"gradient of {name}": gradients[name] for name in trained}
    return {name: torch.tensor(jax.device_get(x)) for name, x in found.items()}


@cache
def in_torch(name: str, flow: str, setting: str) -> Answers:
    """Values and gradients of torch's reference scan."""
    problem = Problem.make(STRUCTURES[name], SETTINGS[setting])
    return with_gradients(
        lambda leaves: problem.solve(leaves, EVERY_FLOW[flow], SCANS["recurrent"]), problem.leaves
    )
