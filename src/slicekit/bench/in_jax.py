"""`slicekit.jax` beside torch, the authors' formulation in JAX, `lax.scan` and diffrax.

Two problems: a block-diagonal layer, forward and backward; and a whole step of training on series
of the shape of EigenWorms, with Adam and the paper's penalty. The authors make every flow I + A(Δω)
first and scan them chunk by chunk, with prefix products inside a chunk; a chunk of one step is
their recurrence. Theirs begins from log-signatures that were made before, as their loader does;
ours makes them in every step.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from slicekit.bench.timing import Effort, least

NEEDED = ("jax", "equinox", "optax", "diffrax")
OURS = "JAX, kernels"

Runs = dict[str, Callable[[], Any]]


@dataclass(frozen=True)
class JaxRow:
    """A contender on a problem.

    Attributes:
        problem: its name.
        contender: who ran it.
        first: seconds of the first call, compilation and all.
        processor: least processor seconds of a call after that.
    """

    problem: str
    contender: str
    first: float
    processor: float


def missing() -> list[str]:
    """What has to be installed to measure this."""
    return [name for name in NEEDED if find_spec(name) is None]


def measure(problem: str, effort: Effort) -> Iterable[JaxRow]:
    """The contenders of a problem, which take turns.

    Raises:
        ArithmeticError: where one of them computes something else.
    """
    runs, first, values = PROBLEMS[problem](effort.quick), {}, {}
    for name, run in runs.items():
        start = time.perf_counter()
        values[name] = float(run())
        first[name] = time.perf_counter() - start
    for name, value in values.items():
        if name != "torch" and abs(value - values[OURS]) > 1e-3 * abs(values[OURS]):
            raise ArithmeticError(f"{problem}: {name} gives {value:.6g}, {OURS} {values[OURS]:.6g}")
    turns = {name: effort.turns(effort.rounds, first[name]) for name in runs}
    processor = least(runs, turns, time.process_time)
    return [JaxRow(problem, name, first[name], processor[name]) for name in runs]


def print_head() -> None:
    """The heading of the table."""
    print("\nJAX, processor seconds a call on one thread (first call, compilation included)")
    print(f"{'problem':<12}{'contender':<34}{'seconds':>10}{'first':>8}{'over ours':>11}")


def print_rows(rows: Iterable[JaxRow]) -> None:
    """The contenders of a problem."""
    rows = list(rows)
    ours = next(row.processor for row in rows if row.contender == OURS)
    for row in rows:
        print(
            f"{row.problem:<12}{row.contender:<34}{row.processor:>10.4f}{row.first:>8.1f}"
            f"{row.processor / ours:>10.2f}x",
            flush=True,
        )


def as_data(rows: Iterable[JaxRow]) -> list[dict[str, Any]]:
    """The table, for JSON."""
    return [vars(row) for row in rows]


def _layer(quick: bool) -> Runs:
    """BD-SLiCE, forward and backward: the sum of all gradients' squares."""
    import jax
    import torch

    import slicekit as sk
    import slicekit.jax as sj
    from slicekit.bench.jax_peers import Materialised, by_diffrax

    batch, length, channels, dim, block = (4, 64, 32, 128, 4) if quick else (32, 256, 32, 128, 4)
    x = jax.random.normal(jax.random.key(1), (batch, length, channels))

    def ours(scan: Any) -> Any:
        return sj.SLiCE(channels, sj.BlockDiagonal(dim, block), scan=scan, key=jax.random.key(0))

    def compiled(forward: Any, layer: Any) -> Callable[[], Any]:
        gradient = jax.jit(jax.grad(lambda layer, x: (forward(layer, x) ** 2).sum(), (0, 1)))
        return lambda: _size(jax.block_until_ready(gradient(layer, x)))

    theirs = sk.SLiCE(channels, sk.BlockDiagonal(dim, block))
    given = torch.from_numpy(jax.device_get(x).copy()).requires_grad_()

    def in_torch() -> float:
        theirs.zero_grad()
        given.grad = None
        theirs(given).square().sum().backward()
        return 0.0

    def call(layer: Any, x: Any) -> Any:
        return layer(x)

    return {
        OURS: compiled(call, ours(sj.Native())),
        "JAX, lax.scan": compiled(call, ours(sj.Recurrent())),
        "authors, chunks of 128": compiled(call, ours(Materialised(128))),
        "authors, recurrent": compiled(call, ours(Materialised(1))),
        "diffrax, Euler": compiled(by_diffrax, ours(None)),
        "torch": in_torch,
    }


def _size(gradients: Any) -> float:
    import jax
    import jax.numpy as jnp

    squares = [float(jnp.linalg.norm(x.ravel())) for x in jax.tree.leaves(gradients)]
    return sum(squares)


def _worms(quick: bool) -> Runs:
    """A step of training at the shape of EigenWorms; the loss of the first."""
    import jax
    import jax.numpy as jnp
    import optax

    import slicekit.jax as sj
    from slicekit.bench import eigenworms as shape
    from slicekit.bench.jax_peers import Materialised
    from slicekit.jax.paths import hall, log_signatures

    batch, length = (2, 600) if quick else (shape.BATCH, shape.LENGTH)
    keys = jax.random.split(jax.random.key(0), 3)
    walk = jnp.tanh(
        0.05 * jax.random.normal(keys[0], (batch, length, shape.CHANNELS - 1)).cumsum(1)
    )
    clock = jnp.broadcast_to(jnp.linspace(-1, 1, length)[None, :, None], (batch, length, 1))
    path = jnp.concatenate([clock, walk], -1)
    answers = jax.random.randint(keys[1], (batch,), 0, shape.CLASSES)
    structure = sj.BlockDiagonal(shape.DIM, shape.BLOCK, scale=0.25)
    basis = hall(shape.CHANNELS, shape.DEPTH)
    optimiser = optax.adam(1e-3)

    def start() -> Any:
        split = jax.random.split(keys[2], 3)
        return {
            "A": structure.init(shape.CHANNELS, split[0]),
            "first": jax.random.normal(split[1], (shape.DIM, shape.CHANNELS)) / 3,
            "head": jax.random.normal(split[2], (shape.CLASSES, shape.DIM)) / 12,
        }

    def loss(weights: Any, first: Any, signatures: Any, scan: Any) -> Any:
        lifted = structure.lift_parameters(weights["A"], basis)
        h0 = first @ weights["first"].T
        h, _ = sj.solve(structure, lifted, signatures, h0, sj.Euler(), scan)
        pooled = (h0 + h.sum(1)) / (1 + h.shape[1])
        entropy = optax.softmax_cross_entropy_with_integer_labels(
            pooled @ weights["head"].T, answers
        )
        penalty = jnp.linalg.norm(weights["A"]["blocks"].ravel())
        return entropy.mean() + 1e-3 * penalty

    def step(scan: Any, inside: bool) -> Callable[[], Any]:
        made = log_signatures(jnp.diff(path, axis=1), basis, shape.WINDOW)

        @jax.jit
        def update(weights: Any, memory: Any, given: Any) -> Any:
            def total(weights: Any) -> Any:
                windows = given
                if inside:
                    windows = log_signatures(jnp.diff(given, axis=1), basis, shape.WINDOW)
                return loss(weights, path[:, 0], windows, scan)

            value, gradients = jax.value_and_grad(total)(weights)
            updates, memory = optimiser.update(gradients, memory)
            return optax.apply_updates(weights, updates), memory, value

        weights = start()
        memory = optimiser.init(weights)
        given = path if inside else made
        return lambda: float(jax.block_until_ready(update(weights, memory, given))[2])

    return {
        OURS: step(sj.Native(), True),
        "JAX, lax.scan": step(sj.Recurrent(), True),
        "authors, chunks of 128": step(Materialised(128), False),
        "authors, recurrent": step(Materialised(1), False),
        "torch": _worms_in_torch(quick),
    }


def _worms_in_torch(quick: bool) -> Callable[[], float]:
    from slicekit.bench.eigenworms import training_step

    run = training_step(2, 600) if quick else training_step()

    def step() -> float:
        run()
        return 0.0

    return step


PROBLEMS: dict[str, Callable[[bool], Runs]] = {"layer": _layer, "EigenWorms": _worms}
