"""The fastest scan on a CPU: C++ kernels, with transitions that never leave the cache."""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from slicekit.jax.flows import Euler, Exponential, Flow, Natural
from slicekit.jax.native import available, reason
from slicekit.jax.native.exponential import LARGEST
from slicekit.jax.native.kernel import run
from slicekit.jax.native.panels import (
    BLOCKS,
    HADAMARD,
    KEEP_BYTES,
    LOW_RANK,
    MOST_PARTS,
    MOST_RANK,
    SKEW,
    Panels,
    Part,
)
from slicekit.jax.scans.base import (
    FromIncrements,
    FromTokens,
    Recurrence,
    Scan,
    Solution,
    Source,
    dense_inputs,
)
from slicekit.jax.scans.scales import WINDOW, directions, exponents
from slicekit.jax.structures import (
    Diagonal,
    JointDPLR,
    Orthogonal,
    Parameters,
    Structure,
    WalshHadamard,
)
from slicekit.jax.structures.block_diagonal import BlockDiagonal, Blocks
from slicekit.jax.structures.dense import Dense, DiagonalDense
from slicekit.jax.structures.direct_sum import Composite, DirectSum


@dataclass(frozen=True)
class Native(Scan):
    """Kernels in C++, for `solve` with blocks, rotations, diagonals and sums of them on a CPU.

    A sequential loop over time for each sequence. `solve` chooses it by itself wherever it applies;
    naming it makes sure of it. Gradients in reverse mode are the kernels' too; forward mode and
    higher derivatives are those of `Recurrent`.

    Args:
        keep: bytes of transitions that may be kept for the backward pass instead of made again;
            None for 8 MiB.
    """

    keep: int | None = field(default=None, repr=False)

    def run(self, recurrence: Recurrence) -> Solution:
        """Run all steps.

        Raises:
            ValueError: where there is no kernel, saying why.
        """
        obstacle = why_not(recurrence.source)
        if obstacle:
            raise ValueError(f"scan=Native(): {obstacle}; leave scan=None or use Recurrent()")
        source = recurrence.source
        assert isinstance(source, FromIncrements | FromTokens)
        leaves = _leaves(source.structure, source.flow)
        assert not isinstance(leaves, str)
        inputs = dense_inputs(recurrence.inputs)
        rescale = WINDOW if recurrence.projective else 0
        tokens = isinstance(source, FromTokens)
        keep = KEEP_BYTES if self.keep is None else self.keep
        kernel = Panels(
            tuple(leaf.part for leaf in leaves), tokens, inputs is not None, rescale, keep
        )
        arrays = [x for leaf in leaves for x in leaf.arrays(source.parameters)]
        arrays += [source.table, source.index.T] if tokens else [_batch_first(source.increments)]
        arrays += [recurrence.state] + ([] if inputs is None else [_batch_first(inputs)])
        results = run(kernel, *arrays)
        states = jnp.swapaxes(results[0], 0, 1)
        if not rescale:
            return Solution(states, states[-1])
        moved = jnp.swapaxes(jnp.cumsum(exponents(results[1]), 1, dtype=jnp.int32), 0, 1)
        each = jnp.repeat(moved, WINDOW, axis=0, total_repeat_length=moved.shape[0] * WINDOW)
        direction, log_norm = directions(states, each[: source.length])
        return Solution(direction, direction[-1], log_norm)


def _batch_first(x: Array) -> Array:
    return jnp.swapaxes(x, 0, 1)


def why_not(source: Source) -> str:
    """Why no kernel applies; empty if one does."""
    if not available():
        return reason() or f"there is no kernel for arrays on {jax.default_backend()}"
    if not isinstance(source, FromIncrements | FromTokens):
        return f"there is no kernel for {type(source).__name__}"
    path = source.table if isinstance(source, FromTokens) else source.increments
    arrays = [path, *source.parameters.values()]
    if any(x.dtype not in (jnp.float32, jnp.float64) for x in arrays):
        return f"there is no kernel for {path.dtype}"
    leaves = _leaves(source.structure, source.flow)
    if isinstance(leaves, str):
        return leaves
    return f"a sum of {len(leaves)} parts" if len(leaves) > MOST_PARTS else ""


@dataclass(frozen=True)
class _Leaf:
    """A part, with the names of its parameters and whether the tanh of them is meant."""

    part: Part
    names: tuple[str, ...]
    bounded: bool = False

    def arrays(self, parameters: Parameters) -> list[Array]:
        arrays = [parameters[name] for name in self.names]
        return [jnp.tanh(x) for x in arrays] if self.bounded else arrays


def _leaves(structure: Structure, flow: Flow) -> list[_Leaf] | str:
    """The parts that are no sums themselves, or why there is no kernel for one."""
    if type(flow) not in (Euler, Exponential, Natural):
        return f"there is no kernel for the flow {type(flow).__name__}"
    leaves: list[_Leaf] = []
    for prefix, leaf in _flat(structure, ""):
        made = _leaf(leaf, not flow.is_euler(leaf), prefix)
        if isinstance(made, str):
            return made
        leaves.append(made)
    return leaves


SUMS = (BlockDiagonal, Dense, DiagonalDense, DirectSum)
"""Structures that are their parts side by side, and nothing else; a user's subclass may be more."""


def _flat(structure: Any, prefix: str) -> list[tuple[str, Any]]:
    if type(structure) not in SUMS or not isinstance(structure, Composite):
        return [(prefix, structure)]
    pairs = zip(structure.prefixes, structure.parts, strict=True)
    return [leaf for inner, part in pairs for leaf in _flat(part, prefix + inner)]


def _leaf(leaf: Any, exponential: bool, prefix: str) -> _Leaf | str:
    kind = type(leaf)
    if kind in (Blocks, Orthogonal, Diagonal):
        block = 1 if kind is Diagonal else leaf.block
        if exponential and block > LARGEST:
            return f"blocks of {block} rows, and the kernel exponentiates at most {LARGEST}"
        name = {Blocks: "blocks", Orthogonal: "angles", Diagonal: "values"}[kind]
        what = SKEW if kind is Orthogonal else BLOCKS
        return _Leaf(Part(what, leaf.dim, block, exponential), (prefix + name,))
    if exponential:
        return f"there is no kernel for the exponential flow of {kind.__name__}"
    if kind is JointDPLR:
        if leaf.rank > MOST_RANK:
            return f"rank={leaf.rank}, and the kernel takes at most {MOST_RANK}"
        names = tuple(prefix + name for name in ("diagonal", "left", "right"))
        return _Leaf(Part(LOW_RANK, leaf.dim, leaf.rank), names)
    if kind is WalshHadamard:
        return _Leaf(Part(HADAMARD, leaf.dim), (prefix + "values",), leaf.bounded)
    return f"there is no kernel for {kind.__name__}"
