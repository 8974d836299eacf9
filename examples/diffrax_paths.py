"""A linear controlled differential equation along a path of diffrax, solved exactly and by diffrax.

An irregular series becomes diffrax's `LinearInterpolation`. Between two observations the path is a
line, so slicekit needs one exponential for each; diffrax steps through it with an adaptive solver.

    python examples/diffrax_paths.py
"""

import diffrax
import jax
import jax.numpy as jnp
from jax import Array

import slicekit.jax as sk

LENGTH, CHANNELS, DIM = 12, 2, 6


def series(key: Array) -> tuple[Array, Array]:
    """Irregular times (length,), and time with values (length, 1 + channels)."""
    for_times, for_values = jax.random.split(key)
    times = jnp.cumsum(jax.random.uniform(for_times, (LENGTH,), minval=0.05, maxval=0.5))
    values = jnp.cumsum(jax.random.normal(for_values, (LENGTH, CHANNELS)), 0) / 4
    return times, jnp.concatenate([times[:, None], values], -1)


def by_diffrax(matrices: Array, path: diffrax.AbstractPath, times: Array, start: Array) -> Array:
    """dh = Σ_i A^i h dω^i, (length, dim)."""
    field = diffrax.ControlTerm(lambda t, h, args: jnp.einsum("cij,j->ic", matrices, h), path)
    steps = diffrax.PIDController(rtol=1e-6, atol=1e-6)
    found = diffrax.diffeqsolve(
        field.to_ode(),
        diffrax.Tsit5(),
        times[0],
        times[-1],
        None,
        start,
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.ClipStepSizeController(steps, jump_ts=times),
    )
    assert found.ys is not None
    return found.ys


def main() -> float:
    """The largest difference between both."""
    times, points = series(jax.random.key(0))
    path = diffrax.LinearInterpolation(times, points)
    structure = sk.BlockDiagonal(DIM, 3)
    parameters = structure.init(1 + CHANNELS, jax.random.key(1))
    start = jnp.ones(DIM)
    moved = sk.increments(jax.vmap(path.evaluate)(times)[None])
    ours, _ = sk.solve(structure, parameters, moved, start[None], sk.Exponential())
    matrices = structure.combine(parameters, jnp.eye(1 + CHANNELS)).as_dense()
    theirs = by_diffrax(matrices, path, times, start)
    difference = float(jnp.abs(ours[0] - theirs).max() / jnp.abs(theirs).max())
    print(f"largest difference, relative: {difference:.1e}")
    return difference


if __name__ == "__main__":
    main()
