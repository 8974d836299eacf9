"""Log-depth scan: pairs of transitions are composed until all prefixes are known, of the whole
sequence or of one chunk after the other.
"""

import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array, lax

from slicekit.descriptions.checks import check_chosen
from slicekit.jax.scans.base import Recurrence, Scan, Solution, contract, dense_inputs
from slicekit.jax.structures import BlockTransition, Transition

Affine = tuple[Transition, Array | None]


@dataclass(frozen=True)
class Associative(Scan):
    """The paper's parallel scan: depth log(length), every prefix product is formed.

    Args:
        chunk: steps that are scanned in parallel; the next so many start from the state that these
            end in, as in the authors' code. None takes all at once.

    Structures that are not closed are composed as dense matrices, which is announced once.
    """

    chunk: int | None = None
    citations: ClassVar[tuple[str, ...]] = ("blelloch1990",)

    def __post_init__(self) -> None:
        """Check the chunk."""
        check_chosen("chunk", self.chunk)

    def run(self, recurrence: Recurrence) -> Solution:
        """Prefix products applied to the initial state, or to the one that a chunk starts from.

        Raises:
            ValueError: for projective states, whose products could overflow.
        """
        if recurrence.projective:
            raise ValueError(
                "scan=Associative() can't carry projective states: it forms the products of all "
                "prefixes, which overflow where a state does not; use Chunked(), or leave scan=None"
            )
        source = recurrence.source
        transition = closed(source.transition(source.steps()))
        inputs = dense_inputs(recurrence.inputs)
        if self.chunk is None or self.chunk >= source.length:
            states = prefixes(transition, inputs, recurrence.state)
        else:
            states = _by_chunks(transition, inputs, recurrence.state, self.chunk)
        outputs = states if recurrence.readout is None else contract(recurrence.readout, states)
        return Solution(outputs, states[-1])


def _by_chunks(transition: Transition, inputs: Array | None, state: Array, size: int) -> Array:
    """The states after every step, `size` steps at a time; what is left over is a shorter chunk."""
    length = transition.arrays()[0].shape[0]
    whole = length // size * size

    def run(start: Array, steps: Affine) -> tuple[Array, Array]:
        states = prefixes(*steps, start)
        return states[-1], states

    def cut(x: Array) -> Array:
        return x[:whole].reshape(whole // size, size, *x.shape[1:])

    state, states = lax.scan(run, state, jax.tree.map(cut, (transition, inputs)))
    states = states.reshape(whole, *states.shape[2:])
    if whole == length:
        return states
    _, rest = run(state, jax.tree.map(lambda x: x[whole:], (transition, inputs)))
    return jnp.concatenate([states, rest])


def prefixes(transition: Transition, inputs: Array | None, state: Array) -> Array:
    """The states after every step, (steps, batch, dim, columns), from a state before them."""
    prefix, driven = lax.associative_scan(_compose, (transition, inputs), axis=0)
    states = prefix.act(state)
    return states if driven is None else states + driven


def _compose(earlier: Affine, later: Affine) -> Affine:
    transition = later[0].compose(earlier[0])
    if later[1] is None or earlier[1] is None:
        return transition, None
    return transition, later[0].act(earlier[1]) + later[1]


def compose_all(transition: Transition, inputs: Array | None) -> Any:
    """All steps in one: a transition (batch,), and what inputs (steps, batch, ...) come to."""
    prefix, driven = lax.associative_scan(_compose, (transition, inputs), axis=0)
    return prefix.map(lambda x: x[-1]), None if driven is None else driven[-1]


def closed(transition: Transition) -> Transition:
    """Transitions that compose: the same, or as dense matrices, which is said once."""
    if transition.closed:
        return transition
    _announce(type(transition).__name__, transition.dim)
    return BlockTransition(transition.as_dense()[..., None, :, :])


@lru_cache(maxsize=256)
def _announce(kind: str, dim: int) -> None:
    warnings.warn(
        f"Associative() composes {kind} as dense {dim} x {dim} matrices, "
        "because products leave the structure; Chunked() and Recurrent() do not",
        stacklevel=6,
    )
