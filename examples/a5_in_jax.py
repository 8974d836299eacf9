"""One layer of rotations learns the word problem of A5 in JAX, with optax.

The recipe is that of `orthogonal-slice`: words that grow with the accuracy, cross-entropy, and the
spread of the features within their class. Words come from `slicekit.tasks`; the rest is JAX.

    python examples/a5_in_jax.py [--steps 2000] [--seed 0]
"""

import argparse
import time
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from jax import Array

import slicekit.jax as sk
from slicekit import tasks

CLASSES, WIDTH, BATCH, SHORTEST, LONGEST = 60, 128, 256, 3, 40
ROOM = 8  # words are padded to a multiple of it, so that few programs are compiled
LENGTHS = (20, 40, 320, 5120)


def make(seed: int) -> sk.SequenceModel:
    """One block of rotations by whole angles."""

    def mixer(width: int, key: Array) -> sk.SLiCE:
        return sk.SLiCE(width, sk.Orthogonal(width, block=8), drive=sk.TimeAndInput(1.0), key=key)

    return sk.SequenceModel(
        vocabulary=CLASSES, outputs=CLASSES, width=WIDTH, mixer=mixer, key=jax.random.key(seed)
    )


def loss(model: Any, words: Array, states: Array, valid: Array) -> tuple[Array, Array]:
    """Cross-entropy + 10 accuracy⁴ spread over the valid positions; and the accuracy."""
    features = model.blocks[0](sk.Tabulated(model.embedding.weight, words))
    logits = model.heads[0](features)
    count = valid.sum()
    entropy = optax.softmax_cross_entropy_with_integer_labels(logits, states)
    accuracy = jnp.where(valid, logits.argmax(-1) == states, 0).sum() / count
    apart = spread(features.reshape(-1, WIDTH), states.ravel(), valid.ravel())
    return jnp.where(valid, entropy, 0).sum() / count + 10 * accuracy**4 * apart, accuracy


def spread(features: Array, classes: Array, valid: Array) -> Array:
    """The share of the features' variance that their classes do not explain."""
    kind = jnp.where(valid, classes, CLASSES)
    counts = jnp.zeros(CLASSES + 1).at[kind].add(1)[:, None]
    sums = jnp.zeros((CLASSES + 1, features.shape[1])).at[kind].add(features)
    means = sums / jnp.maximum(counts, 1)
    middle = sums[:-1].sum(0) / counts[:-1].sum()
    within = jnp.where(valid[:, None], features - means[kind], 0)
    between = counts[:-1] * (means[:-1] - middle) ** 2
    total = (within**2).sum()
    return total / (total + between.sum())


def words_of(length: int, count: int, source: torch.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random words of A5 and the states after each letter, (count, length)."""
    batch = tasks.make("a5").sample(count, (length, length), source)
    return batch.inputs.numpy(), batch.targets.numpy()


def main(arguments: Sequence[str] | None = None) -> dict[int, float]:
    """Train, and give the accuracy over all positions at each length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    source, drawn = torch.Generator().manual_seed(given.seed), np.random.default_rng(given.seed)
    model = make(given.seed)
    rate = optax.cosine_decay_schedule(2e-3, max(1, given.steps))
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate))
    memory = optimiser.init(eqx.filter(model, eqx.is_inexact_array))

    @eqx.filter_jit
    def step(model: Any, memory: Any, words: Any, states: Any, valid: Any) -> Any:
        gradients, accuracy = eqx.filter_grad(loss, has_aux=True)(model, words, states, valid)
        updates, memory = optimiser.update(gradients, memory)
        return eqx.apply_updates(model, updates), memory, accuracy

    start, longest, running = time.perf_counter(), 8, 0.0
    for number in range(given.steps):
        length = int(drawn.integers(SHORTEST, longest + 1))
        words, states = words_of(-(-length // ROOM) * ROOM, BATCH, source)
        valid = np.broadcast_to(np.arange(words.shape[1]) < length, words.shape)
        model, memory, accuracy = step(model, memory, words, states, valid)
        if number == 0:
            print(f"first step, compiled: {time.perf_counter() - start:.1f} s", flush=True)
        running = 0.9 * running + 0.1 * float(accuracy)
        if running > 0.9 and longest < LONGEST:
            longest, running = min(LONGEST, max(longest + 1, int(1.25 * longest))), 0.0
        if number % 100 == 0:
            print(f"step {number}: accuracy {float(accuracy):.1%} at up to {longest}", flush=True)
    print(f"{given.steps} steps in {time.perf_counter() - start:.0f} s")
    found = {}
    for length in LENGTHS:
        words, states = words_of(length, 32, source)
        guesses = np.asarray(eqx.filter_jit(lambda m, x: m(x).argmax(-1))(model, words))
        found[length] = float((guesses == states).mean())
        print(f"length {length}: {found[length]:.2%}", flush=True)
    return found


if __name__ == "__main__":
    main()
