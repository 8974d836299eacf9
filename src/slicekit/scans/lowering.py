"""What is to be run: a structure and a flow as parts of few kinds, whatever runs them.

A direct sum is lowered part by part. What a structure of some type is made of is written down by
`lowers`, also for a structure of your own: one that computes as another does, under other names
say, then runs on the same kernels.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from slicekit.flows import Euler, Exponential, Flow, Natural
from slicekit.native.kernel import Kind
from slicekit.structures import (
    DPLR,
    Diagonal,
    JointDPLR,
    Orthogonal,
    Sparse,
    Structure,
    WalshHadamard,
)
from slicekit.structures.block_diagonal import Blocks
from slicekit.structures.direct_sum import Composite


@dataclass(frozen=True)
class Part:
    """Neighbouring rows of the state that mix with no others.

    Attributes:
        kind: what A^i is made of.
        dim: rows of the state.
        names: of its parameters, in the order in which kernels take them.
        size: of a block, or the rank; 0 for kinds that have neither.
        exponential: whether the flow is exp(A) instead of I + A.
        bounded: whether tanh of the parameters is taken.
        said: the name of its structure, for messages.
    """

    kind: Kind
    dim: int
    names: tuple[str, ...]
    size: int = 0
    exponential: bool = False
    bounded: bool = False
    said: str = ""


Lowered = tuple[Part, ...] | str
"""The parts, or why there are none."""

FACTORS = ("diagonal", "left", "right")

_rules: dict[type, Callable[..., Part]] = {
    Blocks: lambda s, exponential: Part(Kind.BLOCKS, s.dim, ("blocks",), s.block, exponential),
    Diagonal: lambda s, exponential: Part(Kind.BLOCKS, s.dim, ("values",), 1, exponential),
    Orthogonal: lambda s, exponential: Part(Kind.SKEW, s.dim, ("angles",), s.block, exponential),
    JointDPLR: lambda s, exponential: Part(Kind.LOW_RANK, s.dim, FACTORS, s.rank, exponential),
    DPLR: lambda s, exponential: Part(Kind.SHARED_FACTORS, s.dim, FACTORS, s.rank, exponential),
    Sparse: lambda s, exponential: Part(Kind.SPARSE, s.dim, ("values", "places"), 0, exponential),
    WalshHadamard: lambda s, exponential: Part(
        Kind.HADAMARD, s.dim, ("values",), 0, exponential, s.bounded
    ),
}
"""What a structure of exactly some type is made of, from it and whether its flow is exponential."""

generation = 0
"""How often rules have changed: what was found out by others no longer counts."""


def lowers(cls: type[Structure]) -> Callable[[Callable[..., Part]], Callable[..., Part]]:
    """Say what structures of exactly this type are made of.

    The rule takes the structure and whether its flow is exponential, and names parameters as
    `structure.init` does.

    Example:
        >>> from dataclasses import dataclass, replace
        >>> import slicekit as sk
        >>> @dataclass(frozen=True)
        ... class Decay(sk.Diagonal):
        ...     pass
        >>> @lowers(Decay)
        ... def _(structure, exponential):
        ...     return Part(Kind.BLOCKS, structure.dim, ("values",), 1, exponential)
        >>> lower(Decay(3), sk.Euler())[0].kind.name
        'BLOCKS'
    """

    def register(rule: Callable[..., Part]) -> Callable[..., Part]:
        global generation
        _rules[cls] = rule
        generation += 1
        return rule

    return register


def lower(structure: Structure, flow: Flow) -> Lowered:
    """The parts of a structure under a flow, or why they are not known."""
    if torch.compiler.is_compiling():
        return _lower(structure, flow)
    handle = structure.handle
    if not handle.shared or type(flow) not in (Euler, Exponential, Natural):
        return _lower(structure, flow)
    key = ("lowered", generation, flow.key)
    lowered = handle.known.get(key)
    if lowered is None:
        lowered = handle.known[key] = _lower(structure, flow)
    return lowered


def _lower(structure: Structure, flow: Flow) -> Lowered:
    if type(flow) not in (Euler, Exponential, Natural):
        return f"there is no kernel for the flow {type(flow).__name__}"
    parts = []
    for prefix, leaf in _leaves(structure, ""):
        rule = _rules.get(type(leaf))
        if rule is None:
            return f"there is no kernel for {type(leaf).__name__}"
        euler = flow.is_euler(leaf)
        if type(flow) is Natural and not euler and not leaf.exponential_only:
            return f"there is no kernel for the flow that {type(leaf).__name__} takes by itself"
        part = rule(leaf, not euler)
        names = tuple(prefix + name for name in part.names)
        parts.append(replace(part, names=names, said=type(leaf).__name__))
    return tuple(parts)


def _leaves(structure: Structure, prefix: str) -> list[tuple[str, Structure]]:
    """The parts that are no sums themselves, with the prefixes of their parameters' names."""
    if not isinstance(structure, Composite) or not structure.computes_as(Composite):
        return [(prefix, structure)]
    pairs = zip(structure.prefixes, structure.parts, strict=True)
    return [leaf for inner, part in pairs for leaf in _leaves(part, prefix + inner)]
