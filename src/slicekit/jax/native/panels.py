"""The fused recurrence: transitions made from increments, used at once, made again or kept.

See native/src/xla_panels.cpp, whose plan this writes, and native/include/slicekit_panels.h.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from slicekit.jax.native.handlers import call, kept_numbers
from slicekit.jax.native.kernel import Arrays, Flags, Kernel

BLOCKS, SKEW, LOW_RANK, HADAMARD = range(4)
MOST_PARTS = 256
MOST_RANK = 256

KEEP_BYTES = 8 * 2**20
"""Transitions up to this size in all are kept for the backward pass instead of made again.

Less than torch keeps: XLA asks for the memory of a whole program at once, and from 32 MiB on the
system gives it anew, page by page, in every call, which takes longer than to make them again.
"""

RESTORE_EVERY = 32
"""Steps after which rotations get their norm back."""


@dataclass(frozen=True)
class Part:
    """One part of a direct sum.

    Attributes:
        kind: BLOCKS, SKEW, LOW_RANK or HADAMARD.
        dim: rows of the state.
        size: block size, or rank.
        exponential: whether its flow is exp(A) instead of I + A.
    """

    kind: int
    dim: int
    size: int = 0
    exponential: bool = False

    @property
    def arrays(self) -> int:
        """Number of parameters."""
        return 3 if self.kind == LOW_RANK else 1


@dataclass(frozen=True)
class Panels(Kernel):
    """A recurrence over made transitions.

    Its arrays are the parts' parameters, (channels, ...) each; the increments (batch, length,
    channels), or a table (vocabulary, channels) and an index (batch, length); the state
    (batch, dim, columns); and the inputs (batch, length, dim, columns), if it is driven.

    Its outputs are the states (batch, length, dim, columns) and, if they are rescaled, what rows
    were divided by before each window of steps, (batch, windows, dim, columns).

    Attributes:
        parts: of the direct sum.
        tokens: whether the increments are a table and an index.
        driven: whether there are inputs.
        rescale: steps between two divisions of the state; 0 for none.
        keep: bytes of transitions that may be kept for the backward pass.
    """

    parts: tuple[Part, ...]
    tokens: bool
    driven: bool
    rescale: int
    keep: int = KEEP_BYTES

    @property
    def count(self) -> int:
        """How many parameters there are."""
        return sum(part.arrays for part in self.parts)

    def pure(self, arrays: Arrays, outputs: Arrays) -> Arrays:
        """By `lax.scan`; what the kernel divided by counts as constant."""
        from slicekit.jax.native.panels_twin import states_of

        return states_of(self, arrays, outputs)

    def forward(self, arrays: Arrays, save: bool) -> tuple[Arrays, Arrays]:
        """All steps; the transitions are saved where they are not too large."""
        path, state = arrays[self.count], arrays[self.count + 1 + self.tokens]
        where = arrays[self.count + self.tokens]
        states = jax.ShapeDtypeStruct((*where.shape[:2], *state.shape[1:]), state.dtype)
        results = [states]
        if self.rescale:
            windows = -(-where.shape[1] // self.rescale)
            shape = (state.shape[0], windows, *state.shape[1:])
            results.append(jax.ShapeDtypeStruct(shape, state.dtype))
        plan = self._plan(path, where, state)
        numbers = kept_numbers(plan) if save else 0
        keep = 0 < numbers * state.dtype.itemsize <= self.keep
        if keep:
            results.append(jax.ShapeDtypeStruct((numbers,), state.dtype))
        plan[FIELDS.index("keep")] = keep
        made = call(
            "panels_forward", results, *self._flat(arrays), plan=plan, batching="expand_dims"
        )
        outputs = 1 + bool(self.rescale)
        return tuple(made[:outputs]), tuple(made[outputs:])

    def backward(
        self, arrays: Arrays, outputs: Arrays, saved: Arrays, given: Arrays, perturbed: Flags
    ) -> Arrays:
        """The gradients; that of the increments, a third of the products, only if it is wanted."""
        count, flat = self.count, self._flat(arrays)
        path, state = arrays[count], arrays[count + 1 + self.tokens]
        wanted = perturbed[count]
        plan = self._plan(path, arrays[count + self.tokens], state)
        plan[FIELDS.index("keep")], plan[FIELDS.index("wanted")] = len(saved), wanted
        floating = [*range(count), *([count] if wanted else ()), *range(count + 1, len(arrays))]
        floating = [i for i in floating if not (self.tokens and i == count + 1)]
        gradients = call(
            "panels_backward",
            [jax.ShapeDtypeStruct(flat[i].shape, flat[i].dtype) for i in floating],
            *flat,
            *outputs,
            *saved,
            given[0],
            plan=plan,
            batching="expand_dims",
        )
        named = dict(zip(floating, gradients, strict=True))
        return tuple(named[i].reshape(x.shape) for i, x in enumerate(arrays) if perturbed[i])

    def _flat(self, arrays: Arrays) -> Arrays:
        """With parameters as (channels, numbers)."""
        head = (x.reshape(x.shape[0], -1) for x in arrays[: self.count])
        return (*head, *arrays[self.count :])

    def _plan(self, path: Array, where: Array, state: Array) -> np.ndarray:
        sizes = {
            "real": state.dtype.itemsize,
            "batch": where.shape[0],
            "length": where.shape[1],
            "channels": path.shape[-1],
            "dim": state.shape[1],
            "columns": state.shape[2],
            "vocabulary": path.shape[0] if self.tokens else 0,
            "rescale": self.rescale,
            "restore": RESTORE_EVERY,
            "driven": self.driven,
            "parts": len(self.parts),
        }
        parts = [n for p in self.parts for n in (p.kind, p.dim, p.size, int(p.exponential))]
        return np.array([*(int(sizes.get(name, 0)) for name in FIELDS), *parts], np.int64)


FIELDS = (
    *("real", "batch", "length", "channels", "dim", "columns", "vocabulary"),
    *("rescale", "restore", "keep", "driven", "wanted", "parts"),
)


def divided_steps(factors: Array, length: int, rescale: int) -> Array:
    """What the state is divided by before each step, (length, batch, dim, columns)."""
    batch, windows, *rest = factors.shape
    steps = jnp.ones((batch, windows, rescale, *rest), factors.dtype).at[:, :, 0].set(factors)
    return jnp.swapaxes(steps.reshape(batch, windows * rescale, *rest)[:, :length], 0, 1)
