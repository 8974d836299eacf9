"""Log-signatures and the Log-ODE method, against torch's."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import slicekit as sk
import slicekit.jax as sj
from slicekit import paths
from slicekit.jax import paths as jax_paths
from tests.jax.twins import array, twin, with_gradients_in_jax
from tests.market import CHANNELS, make_parameters
from tests.scans.problems import assert_near, with_gradients

STEPS = torch.randn(2, 7, CHANNELS, generator=torch.Generator().manual_seed(4)).double() * 0.4


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("basis", ["hall", "lyndon"])
def test_log_signatures_are_those_of_torch(basis: str, depth: int) -> None:
    ours = getattr(jax_paths, basis)(CHANNELS, depth)
    theirs = getattr(paths, basis)(CHANNELS, depth)
    assert str(ours) == str(theirs)
    for stream in (False, True):
        want = paths.log_signatures(STEPS, theirs, 3, stream=stream)
        found = jax_paths.log_signatures(array(STEPS), ours, 3, stream=stream)
        np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-14)
    pieces = paths.log_signatures(STEPS, theirs, 3)
    joined = jax_paths.chen(ours, array(pieces[:, 0]), array(pieces[:, 1]))
    np.testing.assert_allclose(joined, paths.chen(theirs, pieces[:, 0], pieces[:, 1]), atol=1e-14)


@pytest.mark.filterwarnings("ignore:LogODE")
@pytest.mark.parametrize(
    ("structure", "depth", "flow"),
    [
        (sk.BlockDiagonal(blocks=[3, 2, 2]), 3, sk.Exponential()),
        (sk.Orthogonal(4, 2), 2, sk.Exponential()),
        (sk.DirectSum(sk.Diagonal(2), sk.DPLR(3, 1)), 2, sk.Euler()),
        (sk.Diagonal(3), 2, sk.Euler()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_windows_are_solved_as_in_torch(structure: Any, depth: int, flow: Any) -> None:
    lengths = torch.tensor([7, 4])
    leaves = {f"parameters.{k}": x for k, x in make_parameters(structure).items()}
    leaves |= {"path": STEPS, "start": torch.ones(2, structure.dim).double()}

    def own(given: Any) -> Any:
        return {k.removeprefix("parameters."): x for k, x in given.items() if "." in k}

    def in_torch(given: Any) -> Any:
        method = sk.LogODE(depth, 3, flow)
        h, last = sk.solve(
            structure, own(given), given["path"], given["start"], method, lengths=lengths
        )
        return {"states": h, "last": last}

    def in_jax(given: Any) -> Any:
        method = sj.LogODE(depth, 3, sj.Exponential() if flow == sk.Exponential() else sj.Euler())
        h, last = sj.solve(
            twin(structure), own(given), given["path"], given["start"], method, lengths=[7, 4]
        )
        return {"states": h, "last": last}

    assert_near(with_gradients_in_jax(in_jax, leaves), with_gradients(in_torch, leaves), 1e-10)


def test_parts_of_a_path_leave_windows_open() -> None:
    torch.manual_seed(0)
    theirs = sk.SLiCE(2, sk.BlockDiagonal(4, 2), flow=sk.LogODE(2, 4)).double()
    layer = sj.SLiCE(2, sj.BlockDiagonal(4, 2), flow=sj.LogODE(2, 4), key=jax.random.key(0))
    arrays = {name: array(x) for name, x in theirs.state_dict().items()}
    from slicekit.jax.serialisation import with_arrays

    layer = with_arrays(layer, arrays)
    x = torch.randn(2, 11, 2).double()
    first, state = layer(array(x[:, :7]), lengths=[7, 5], return_state=True)
    a, own = theirs(x[:, :7], lengths=[7, 5], return_state=True)
    np.testing.assert_allclose(first, a.detach(), rtol=1e-10)
    second, state = layer(array(x[:, 7:]), state, return_state=True)
    b, own = theirs(x[:, 7:], own, return_state=True)
    np.testing.assert_allclose(second, b.detach(), rtol=1e-10)
    third, state = layer.step(array(x[:, 0]), state)
    c, own = theirs.step(x[:, 0], own)
    np.testing.assert_allclose(third, c.detach(), rtol=1e-10)
    for name in ("hidden", "window", "filled"):
        np.testing.assert_allclose(state[name], own[name].detach(), rtol=1e-10)
    assert jnp.array_equal(layer.output_lengths(jnp.array([11, 1])), jnp.array([4, 1]))
