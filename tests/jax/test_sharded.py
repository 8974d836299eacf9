"""A sequence on several devices: the values and gradients of the whole, by one message a pass."""

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jax.sharding import Mesh, PartitionSpec

import slicekit.jax as sj

pytestmark = pytest.mark.skipif(jax.device_count() < 2, reason="one device")

ALONG, EVERYWHERE = PartitionSpec(None, "time"), PartitionSpec()
STRUCTURE = sj.DirectSum(sj.BlockDiagonal(4, 2), sj.Diagonal(3))
RANDOM = np.random.default_rng(0)
STEPS, INPUTS = RANDOM.normal(size=(2, 6, 2)) * 0.3, RANDOM.normal(size=(2, 6, 7))
START = RANDOM.normal(size=(2, 7))
PARAMETERS = {name: RANDOM.normal(size=shape) for name, shape in STRUCTURE.shapes(2).items()}

COLLECTIVES = (
    *("all_gather", "all_gather_invariant", "reduce_scatter", "psum", "psum2", "psum_invariant"),
    *("ppermute", "all_to_all", "pmax", "pmin", "pbroadcast"),
)


def solve(scan: Any, steps: Array, inputs: Array, parameters: Any = PARAMETERS) -> Any:
    own = {name: jnp.asarray(x) for name, x in parameters.items()}
    return sj.solve(STRUCTURE, own, steps, jnp.asarray(START), scan=scan, inputs=inputs)


def sharded(function: Any, inner: tuple[Any, ...], outer: Any) -> Any:
    mesh = Mesh(np.array(jax.devices()[:2]), ("time",))
    return jax.shard_map(function, mesh=mesh, in_specs=inner, out_specs=outer, check_vma=False)


def on_devices(steps: Array, inputs: Array, parameters: Any = PARAMETERS) -> Any:
    run = sharded(
        lambda *given: solve(sj.Sharded("time"), *given),
        (ALONG, ALONG, EVERYWHERE),
        (ALONG, EVERYWHERE),
    )
    return run(steps, inputs, parameters)


def test_values_and_gradients_are_those_of_the_whole() -> None:
    def loss(run: Any) -> Any:
        def total(*given: Any) -> Any:
            h, last = run(*given)
            return (jnp.sin(h)).sum() + (last**2).sum(), (h, last)

        return jax.jit(jax.grad(total, (0, 1, 2), has_aux=True))

    given = jnp.asarray(STEPS), jnp.asarray(INPUTS), PARAMETERS
    found, want = (loss(run)(*given) for run in (on_devices, lambda *x: solve(None, *x)))
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def collectives(jaxpr: Any) -> Counter[str]:
    """How often each collective stands in a program, in the programs inside it too."""
    found: Counter[str] = Counter()
    for equation in jaxpr.eqns:
        if equation.primitive.name in COLLECTIVES:
            found[equation.primitive.name] += 1
        for inside in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns")
        ):
            inner = getattr(inside, "jaxpr", inside)
            found += collectives(inner) if hasattr(inner, "eqns") else Counter()
    return found


def test_a_layer_takes_one_message_a_pass() -> None:
    """Forwards an all-gather of what the shards compose to; backwards its transpose."""
    given = jnp.asarray(STEPS), jnp.asarray(INPUTS)
    assert collectives(jax.make_jaxpr(on_devices)(*given).jaxpr) == {"all_gather": 1}

    def loss(*given: Array) -> Array:
        return jnp.sin(on_devices(*given)[0]).sum()

    both = jax.make_jaxpr(jax.grad(loss, (0, 1)))(*given)
    assert collectives(both.jaxpr) == {"all_gather": 1, "reduce_scatter": 1}
    text = str(jax.jit(jax.grad(loss, (0, 1))).lower(*given).compile().as_text())
    names = ("all-gather(", "reduce-scatter(", "all-reduce(", "collective-permute(", "all-to-all(")
    assert {name: text.count(f" {name}") for name in names if f" {name}" in text} == {
        "all-gather(": 1,
        "reduce-scatter(": 1,
    }


def test_a_layer_runs_on_shards_and_refuses_what_lies_elsewhere() -> None:
    def make(**options: Any) -> Any:
        return sj.SLiCE(2, sj.BlockDiagonal(4, 2), key=jax.random.key(0), **options)

    scan, x = sj.Sharded("time"), jnp.asarray(STEPS)
    layer, alone = make(scan=scan, initial=sj.Learned()), make(initial=sj.Learned())
    run = sharded(lambda layer, x: layer(x), (EVERYWHERE, ALONG), ALONG)
    np.testing.assert_allclose(jax.jit(run)(layer, x), alone(x), rtol=1e-12)
    with pytest.raises(ValueError, match=r"first element of the sequence lies on one device"):
        jax.eval_shape(run, make(scan=scan), x)
    for options in ({"drive": sj.Differences()}, {"flow": sj.LogODE(1, 2)}):
        with pytest.raises(ValueError, match="it needs elements that lie on another device"):
            make(scan=scan, **options)
