"""The C++ kernels from JAX: pure JAX's values and derivatives, under every transformation.

`test_agreement.py` compares them with torch, structure by structure.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import slicekit.jax as sj
from slicekit.jax import native
from slicekit.jax.native.exponential import exponential
from slicekit.jax.native.log_signatures import between, log_signatures
from slicekit.jax.paths import hall
from slicekit.jax.paths.log_signatures import in_windows, of_edges, of_runs
from slicekit.jax.structures.exponential import pure_matrix_exponential

pytestmark = pytest.mark.skipif(not native.available(), reason=native.reason())

SUM = sj.DirectSum(sj.BlockDiagonal(4, 2), sj.Orthogonal(3, 3), sj.JointDPLR(2, 1), sj.Diagonal(2))
RANDOM = np.random.default_rng(0)
PARAMETERS = {name: RANDOM.normal(size=shape) * 0.5 for name, shape in SUM.shapes(2).items()}
STEPS = RANDOM.normal(size=(2, 6, 2)) * 0.4
START = RANDOM.normal(size=(2, SUM.dim))
WEIGHTS = RANDOM.normal(size=(2, 6, SUM.dim))

Function = Callable[..., Any]


def states(scan: Any) -> Function:
    """The states as a function of the increments, the parameters and the first state."""

    def run(steps: Array, parameters: Any = PARAMETERS, start: Any = START) -> Array:
        arrays = {name: jnp.asarray(x) for name, x in parameters.items()}
        return sj.solve(SUM, arrays, steps, jnp.asarray(start), scan=scan)[0]

    return run


def matrices(scan: Any) -> Function:
    """Exponentials of 3 x 3 matrices made from the increments."""
    own = exponential if isinstance(scan, sj.Native) else pure_matrix_exponential
    return lambda steps: own(
        jnp.einsum("...c,cij->...ij", steps, np.ones((2, 3, 3)) / 2 + np.eye(3))
    )


def signatures(depth: int) -> Function:
    """Log-signatures of windows of four increments."""
    basis = hall(2, depth)

    def of(scan: Any) -> Function:
        if isinstance(scan, sj.Native):
            return lambda steps: log_signatures(steps, basis, 4)
        return lambda steps: of_runs(in_windows(steps, 4), basis)

    return of


def cut(scan: Any) -> Function:
    """Log-signatures of what lies between edges; one window is empty, and some steps in none."""
    basis, edges = hall(2, 3), jnp.array([[0, 2, 2, 5], [1, 2, 3, 6]])
    own = between if isinstance(scan, sj.Native) else of_edges
    return lambda steps: own(steps, basis, edges)


KERNELS = {
    "states": states,
    "exponentials": matrices,
    "log-signatures-2": signatures(2),
    "log-signatures-4": signatures(4),
    "log-signatures between edges": cut,
}


def gradient(run: Function) -> Function:
    return jax.grad(lambda x: (jnp.sin(run(x))).sum())


TRANSFORMS: dict[str, Callable[[Function], Function]] = {
    "value": lambda run: run,
    "grad": gradient,
    "checkpoint": lambda run: gradient(jax.checkpoint(run)),
    "jvp": lambda run: lambda x: jax.jvp(run, (x,), (jnp.cos(x),)),
    "jvp of grad": lambda run: lambda x: jax.jvp(gradient(run), (x,), (jnp.cos(x),)),
    "grad of grad": lambda run: gradient(gradient(run)),
    "jvp of jvp": lambda run: (
        lambda x: jax.jvp(lambda y: jax.jvp(run, (y,), (jnp.cos(y),))[1], (x,), (x,))
    ),
    "vmap": lambda run: lambda x: jax.vmap(run)(jnp.stack([x, 2 * x])),
    "grad of vmap": lambda run: lambda x: gradient(jax.vmap(run))(jnp.stack([x, 2 * x])),
    "vmap of grad": lambda run: lambda x: jax.vmap(jax.vmap(gradient(run)))(x * STACK),
}
STACK = np.array([1.0, 2.0, 0.5, -1.0]).reshape(2, 2, 1, 1, 1)


FEW = ("value", "grad", "jvp", "vmap of grad")
"""What is tried of kernels that are called as the first one is."""


@pytest.mark.parametrize(
    ("kernel", "transform"),
    [(k, t) for k in KERNELS for t in (TRANSFORMS if k == "states" else FEW)],
)
def test_kernels_are_their_pure_twins(kernel: str, transform: str) -> None:
    make, change = KERNELS[kernel], TRANSFORMS[transform]
    found, want = (
        jax.jit(change(make(scan)))(jnp.asarray(STEPS)) for scan in (sj.Native(), sj.Recurrent())
    )
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_second_derivatives_across_arguments_are_whole() -> None:
    """A gradient in one argument has a tangent also where another moves."""

    def moved(scan: Any) -> Any:
        def slope(steps: Array, parameters: Any, start: Array) -> Any:
            return jax.grad(lambda s: (states(scan)(s, parameters, start) ** 2).sum())(steps)

        point = (jnp.asarray(STEPS), PARAMETERS, jnp.asarray(START))
        return jax.jit(lambda point: jax.jvp(slope, point, point)[1])(point)

    np.testing.assert_allclose(moved(sj.Native()), moved(sj.Recurrent()), rtol=1e-9)


def test_parameters_of_one_problem_serve_all_that_are_mapped() -> None:
    def loss(scan: Any) -> Function:
        def total(parameters: Any, steps: Array) -> Array:
            found = jax.vmap(states(scan), (0, None, None))(steps, parameters, jnp.asarray(START))
            return (found * WEIGHTS).sum()

        return total

    steps = jnp.stack([STEPS, -STEPS, 0.5 * STEPS])
    found, want = (
        jax.jit(jax.grad(loss(scan), (0, 1)))(PARAMETERS, steps)
        for scan in (sj.Native(), sj.Recurrent())
    )
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_single_precision_is_close_to_double() -> None:
    def run(dtype: Any) -> Any:
        own = {name: jnp.asarray(x, dtype) for name, x in PARAMETERS.items()}
        steps, start = jnp.asarray(STEPS, dtype), jnp.asarray(START, dtype)

        def loss(steps: Array, own: Any, start: Array) -> Array:
            h = sj.solve(SUM, own, steps, start, scan=sj.Native())[0]
            return (h * WEIGHTS.astype(dtype)).sum()

        return jax.jit(jax.grad(loss, (0, 1, 2)))(steps, own, start)

    for a, b in zip(jax.tree.leaves(run("float32")), jax.tree.leaves(run("float64")), strict=True):
        assert a.dtype == jnp.float32
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_an_empty_batch_has_zero_gradients() -> None:
    def loss(parameters: Any) -> Array:
        return states(sj.Native())(jnp.zeros((0, 6, 2)), parameters, np.zeros((0, SUM.dim))).sum()

    assert all((g == 0).all() for g in jax.tree.leaves(jax.grad(loss)(PARAMETERS)))


def test_a_token_outside_its_table_is_refused_when_it_runs() -> None:
    own = {"values": jnp.ones((1, 2))}

    def run(index: Array) -> Array:
        tokens = sj.Tabulated(jnp.ones((3, 1)), index)
        return sj.solve(sj.Diagonal(2), own, tokens, jnp.ones((1, 2)), scan=sj.Native())[1]

    with pytest.raises(Exception, match="index holds a number outside its table"):
        jax.jit(run)(jnp.array([[7]])).block_until_ready()


def test_what_has_no_kernel_is_named() -> None:
    own = {name: jnp.zeros(shape) for name, shape in sj.DPLR(3, 1).shapes(2).items()}
    with pytest.raises(ValueError, match=r"scan=Native\(\): there is no kernel for DPLR; leave"):
        sj.solve(sj.DPLR(3, 1), own, jnp.asarray(STEPS), jnp.ones((2, 3)), scan=sj.Native())


ALONE = """
import warnings, jax.numpy as jnp, slicekit.jax as sj
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    for _ in range(2):
        one = jnp.ones((1, 1))
        h = sj.solve(sj.Diagonal(1), {"values": one}, jnp.ones((1, 2, 1)), one)[1]
assert float(h[0, 0]) == 4
print([str(w.message) for w in said if w.category is RuntimeWarning])
"""


@pytest.mark.parametrize(("wish", "words"), [("off", "[]"), ("none.so", "none.so is no file")])
def test_without_the_library_pure_jax_serves_which_is_said_once(wish: str, words: str) -> None:
    environment = os.environ | {"SLICEKIT_NATIVE": wish}
    run = subprocess.run(
        [sys.executable, "-c", ALONE], capture_output=True, text=True, env=environment
    )
    assert run.returncode == 0, run.stderr
    assert words in run.stdout and run.stdout.count("without its C++ kernels") <= 1


def test_gradients_are_the_same_whether_transitions_are_kept_or_made_again() -> None:
    layer = sj.SLiCE(3, sj.BlockDiagonal(8, 4), scan=sj.Native(keep=0), key=jax.random.key(0))
    other = sj.SLiCE(3, sj.BlockDiagonal(8, 4), scan=sj.Native(), key=jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (2, 9, 3))
    found, expected = (jax.grad(lambda x, m=m: (m(x) ** 2).sum())(x) for m in (layer, other))
    assert jnp.allclose(found, expected, rtol=1e-5)
