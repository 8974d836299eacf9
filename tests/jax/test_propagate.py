"""Given transitions: torch = JAX for every kind, call and scan, values and gradients.

The cases are those of `tests/scans/test_propagate.py`. Every kind is met with every scan, and every
call; the whole product runs with SLICEKIT_EVERY=1.
"""

import os
from typing import Any

import jax.numpy as jnp
import pytest
import torch

import slicekit as sk
import slicekit.jax as sj
from slicekit.jax import structures
from tests.jax.twins import JAX_SCANS, array, with_gradients_in_jax
from tests.scans import test_propagate as cases
from tests.scans.problems import Answers, assert_near

PROJECTIVE = "matrix, projective, padded"
CALLS = cases.CALLS | {PROJECTIVE: cases.Call(columns=2, padded=True)}
SCANS = [name for name in JAX_SCANS if name != "native"]
PAIRS = [(kind, scan) for kind in cases.KINDS for scan in SCANS]
CASES = [
    (kind, call, scan)
    for i, (kind, scan) in enumerate(PAIRS)
    for j, call in enumerate(CALLS)
    if os.environ.get("SLICEKIT_EVERY") == "1" or j == (i + i // len(SCANS)) % len(CALLS)
    if not (call == PROJECTIVE and scan == "associative")
]


def transition(kind: str, arrays: tuple[Any, ...]) -> Any:
    if kind == "sum":
        diagonal, blocks, *low_rank = arrays
        inner = (transition("blocks", (blocks,)), transition("low rank", tuple(low_rank)))
        outer = (transition("diagonal", (diagonal,)), structures.SumTransition(inner))
        return structures.SumTransition(outer)
    kinds = {"blocks": structures.BlockTransition, "low rank": structures.LowRankTransition}
    return kinds.get(kind, structures.DiagonalTransition)(*arrays)


def answer(library: Any, made: Any, name: str, leaves: Any, scan: Any, lengths: Any) -> Any:
    """Outputs and last states, of either library."""
    call = CALLS[name]
    start, inputs = leaves["initial_state"], leaves.get("inputs")
    if call.inputs == "outer":
        inputs = library.Outer(leaves["left"], leaves["right"])
    if name == PROJECTIVE:
        start = library.Projective.of(start, matrix=True)
    given = lengths if call.padded else None
    outputs, last = library.propagate(made, start, inputs, leaves.get("readout"), scan, given)
    if name != PROJECTIVE:
        return {"outputs": outputs, "last": last}
    return {
        "direction": outputs.direction,
        "log_norm": outputs.log_norm,
        "last direction": last.direction,
        "last log_norm": last.log_norm,
    }


def in_torch(kind: str, call: str, leaves: Any) -> Answers:
    def function(leaves: Any) -> Answers:
        made = cases.make_transition(kind, cases.transition_tensors(leaves))
        return cases.as_real(answer(sk, made, call, leaves, sk.Recurrent(), cases.LENGTHS))

    return cases.differentiate(function, leaves)


def in_jax(kind: str, call: str, scan: str, leaves: Any) -> Answers:
    complex_ones = {name for name, x in leaves.items() if x.is_complex()}
    split = {k: torch.view_as_real(x) if x.is_complex() else x for k, x in leaves.items()}

    def function(parts: Any) -> Any:
        joined = {
            k: x[..., 0] + 1j * x[..., 1] if k in complex_ones else x for k, x in parts.items()
        }
        arrays = tuple(x for name, x in joined.items() if name.startswith("tensor"))
        made = transition(kind, arrays)
        found = answer(sj, made, call, joined, JAX_SCANS[scan], array(cases.LENGTHS))
        return {
            name: jnp.stack([x.real, x.imag], -1) if jnp.iscomplexobj(x) else x
            for name, x in found.items()
        }

    return with_gradients_in_jax(function, split)


@pytest.mark.filterwarnings("ignore:Associative.. composes")
@pytest.mark.parametrize(("kind", "call", "scan"), CASES)
def test_values_and_gradients_are_those_of_torch(kind: str, call: str, scan: str) -> None:
    torch.manual_seed(0)
    leaves = cases.make_leaves(kind, CALLS[call])
    assert_near(in_jax(kind, call, scan, leaves), in_torch(kind, call, leaves), 1e-10)


def test_the_cases_cover_every_call_and_every_kind_and_scan() -> None:
    assert {call for _, call, _ in CASES} == set(CALLS)
    assert {(kind, scan) for kind, _, scan in CASES} >= {p for p in PAIRS if p[1] != "associative"}
