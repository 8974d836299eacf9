"""Which kernel runs which part of a structure, and what it is given.

A structure is cut into runs of neighbouring parts that one kernel takes in one pass. Most are one
run; a direct sum with a sparse part, say, is several, each on its own rows of the state.
"""

from dataclasses import dataclass

from slicekit.flows import Euler, Exponential, Flow, Natural
from slicekit.native.exponential import LARGEST
from slicekit.native.panels import BLOCKS, HADAMARD, LOW_RANK, MOST_PARTS, MOST_RANK, SKEW, Part
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

PANELS, SPARSE, SHARED_FACTORS = "panels", "sparse", "shared factors"


@dataclass(frozen=True)
class Run:
    """Parts that one kernel takes together.

    Attributes:
        kernel: PANELS, SPARSE or SHARED_FACTORS.
        dim: rows of the state.
        parts: what the panel kernel is told.
        names: of the parameters, in the order in which the kernel takes them.
        bounded: those of them whose tanh it takes.
    """

    kernel: str
    dim: int
    parts: tuple[Part, ...]
    names: tuple[str, ...]
    bounded: tuple[str, ...] = ()


def runs_of(structure: Structure, flow: Flow) -> tuple[Run, ...] | str:
    """The runs of a structure, or why there is no kernel for it."""
    if type(flow) not in (Euler, Exponential, Natural):
        return f"there is no kernel for the flow {type(flow).__name__}"
    leaves = _leaves(structure, "")
    runs: list[Run] = []
    for prefix, leaf in leaves:
        run = _run(leaf, not flow.is_euler(leaf), prefix)
        if isinstance(run, str):
            return run
        if runs and runs[-1].kernel == PANELS and run.kernel == PANELS:
            before = runs.pop()
            run = Run(
                PANELS,
                before.dim + run.dim,
                before.parts + run.parts,
                before.names + run.names,
                before.bounded + run.bounded,
            )
        runs.append(run)
    if any(len(run.parts) > MOST_PARTS for run in runs):
        return f"a direct sum of more than {MOST_PARTS} parts"
    return tuple(runs)


def _leaves(structure: Structure, prefix: str) -> list[tuple[str, Structure]]:
    """The parts that are no sums themselves, with the prefixes of their parameters' names."""
    if not isinstance(structure, Composite) or not structure.computes_as(Composite):
        return [(prefix, structure)]
    pairs = zip(structure.prefixes, structure.parts, strict=True)
    return [leaf for own, part in pairs for leaf in _leaves(part, prefix + own)]


def _run(leaf: Structure, exponential: bool, prefix: str) -> Run | str:
    kind = type(leaf)
    if isinstance(leaf, Blocks) and kind is Blocks:
        return _blocks(BLOCKS, leaf.dim, leaf.block, exponential, prefix + "blocks")
    if kind is Diagonal:
        return _blocks(BLOCKS, leaf.dim, 1, exponential, prefix + "values")
    if isinstance(leaf, Orthogonal) and kind is Orthogonal:
        return _blocks(SKEW, leaf.dim, leaf.block, exponential, prefix + "angles")
    if exponential:
        return f"there is no kernel for the exponential flow of {kind.__name__}"
    if isinstance(leaf, JointDPLR) and kind is JointDPLR:
        if leaf.rank > MOST_RANK:
            return f"rank={leaf.rank}, and the kernel takes at most {MOST_RANK}"
        part = Part(LOW_RANK, leaf.dim, leaf.rank)
        return Run(PANELS, leaf.dim, (part,), _three(prefix))
    if isinstance(leaf, WalshHadamard) and kind is WalshHadamard:
        name = prefix + "values"
        bounded = (name,) if leaf.bounded else ()
        return Run(PANELS, leaf.dim, (Part(HADAMARD, leaf.dim),), (name,), bounded)
    if kind is Sparse:
        return Run(SPARSE, leaf.dim, (), (prefix + "values", prefix + "places"))
    if kind is DPLR:
        return Run(SHARED_FACTORS, leaf.dim, (), _three(prefix))
    return f"there is no kernel for {kind.__name__}"


def _three(prefix: str) -> tuple[str, str, str]:
    return (prefix + "diagonal", prefix + "left", prefix + "right")


def _blocks(kind: int, dim: int, block: int, exponential: bool, name: str) -> Run | str:
    if exponential and block > LARGEST:
        return f"blocks of {block} rows, and the kernel exponentiates at most {LARGEST}"
    return Run(PANELS, dim, (Part(kind, dim, block, exponential),), (name,))
