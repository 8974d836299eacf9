"""The smallest state on which a finite group acts faithfully, for each structure.

Every element of the group is a token, with a matrix of its own. What representations need is known
from the real irreducible ones; each claim is made here as parameters of the structure, and the
matrices that the structure makes of them are multiplied and compared with the group's table.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from slicekit.structures import (
    DPLR,
    BlockDiagonal,
    Dense,
    Diagonal,
    DiagonalDense,
    Householder,
    Orthogonal,
    Parameters,
    RowNormalised,
    Sparse,
    Structure,
)
from slicekit.studies.plans import Plan
from slicekit.studies.real_representations import (
    Representation,
    acts_faithfully,
    beside,
    faithful,
)
from slicekit.tasks.groups import Group, named_group

Chosen = Sequence[Representation]
Example = tuple[Structure, Parameters]

RANK = 4
FAR = 1e8
"""A reflection is the limit of long vectors: this one is exact in double precision."""


def measure(plan: Plan) -> tuple[int, dict[str, Any]]:
    """The smallest action of every group.

    Args:
        plan: its model is one of `ACTIONS`; its options are the names of groups.

    Returns:
        The parameters of the last example, and for every group the dim (None if there is none), the
        dims of the irreducible parts, and whether the example was checked.

    Raises:
        ArithmeticError: if an example is no faithful action.
    """
    smallest, count = {}, 0
    for name in plan.options["groups"]:
        group = named_group(name)
        example = ACTIONS[plan.model](group)
        if example is None:
            smallest[name] = {"dim": None}
            continue
        structure, parameters = example
        if not acts_faithfully(group, matrices(structure, parameters, group.order)):
            raise ArithmeticError(f"{structure!r} does not act faithfully as {name}")
        smallest[name] = {"dim": structure.dim, "structure": repr(structure)}
        count = sum(x.numel() for x in parameters.values())
    return count, smallest


def matrices(structure: Structure, parameters: Parameters, order: int) -> Tensor:
    """The transitions (order, dim, dim) of all tokens, by the structure's own flow."""
    tokens = torch.eye(order, dtype=torch.float64)
    return structure.combine(parameters, tokens).natural().as_dense()


def _less_identity(x: Tensor) -> Tensor:
    return x - torch.eye(x.shape[-1], dtype=x.dtype)


def _dense(group: Group) -> Example | None:
    parts = _smallest(group, lambda chosen: sum(x.dim for x in chosen))
    if parts is None:
        return None
    whole = _less_identity(beside([x.matrices for x in parts]))
    return Dense(whole.shape[-1]), {"blocks": whole.unsqueeze(1)}


def _smallest(group: Group, cost: Callable[[Chosen], float]) -> Chosen | None:
    """The faithful representation of the least cost; None if all costs are infinite."""
    known = [(cost(chosen), chosen) for chosen in faithful(group)]
    least = min(known, key=lambda x: x[0], default=(float("inf"), ()))
    return None if least[0] == float("inf") else least[1]


def _in_blocks(block: int, turned: bool = False) -> Callable[[Group], list[Tensor] | None]:
    """Matrices of blocks (order, block, block): irreducible parts that fit, filled up with I."""

    def made(group: Group) -> list[Tensor] | None:
        def own(part: Representation) -> Representation:
            return part.turned() if turned else part

        def cost(chosen: Chosen) -> float:
            if any(own(x).dim > block for x in chosen):
                return float("inf")
            return len(_packed([own(x).dim for x in chosen], block))

        parts = _smallest(group, cost)
        if parts is None:
            return None
        turning = [own(x).matrices for x in parts]
        bins = _packed([x.shape[-1] for x in turning], block)
        return [_filled(beside([turning[i] for i in own_bin]), block) for own_bin in bins]

    return made


def _packed(dims: Sequence[int], block: int) -> list[list[int]]:
    """Which parts share a block, the largest first; at most three parts, so this is the best."""
    bins: list[list[int]] = []
    for i in sorted(range(len(dims)), key=lambda i: -dims[i]):
        room = [members for members in bins if sum(dims[j] for j in members) + dims[i] <= block]
        if room:
            room[0].append(i)
        else:
            bins.append([i])
    return bins


def _filled(x: Tensor, block: int) -> Tensor:
    rest = torch.eye(block - x.shape[-1], dtype=x.dtype).expand(x.shape[0], -1, -1)
    return beside([x, rest]) if rest.shape[-1] else x


def _block_diagonal(block: int) -> Callable[[Group], Example | None]:
    def made(group: Group) -> Example | None:
        blocks = _in_blocks(block)(group)
        if blocks is None:
            return None
        stacked = _less_identity(torch.stack(blocks, 1))
        return BlockDiagonal(block * len(blocks), block), {"blocks": stacked}

    return made


def _diagonal(group: Group) -> Example | None:
    """Numbers of finite order are 1 and -1: only products of groups of two elements."""
    blocks = _in_blocks(1)(group)
    if blocks is None:
        return None
    return Diagonal(len(blocks)), {"values": torch.cat([x[..., 0] for x in blocks], -1) - 1}


def _diagonal_dense(group: Group) -> Example | None:
    """A dense block beside one number that nothing changes."""
    dense = _dense(group)
    if dense is None:
        return None
    structure = DiagonalDense(dense[0].dim + 1, dense[0].dim)
    still = {"values": torch.zeros(group.order, 1, dtype=torch.float64)}
    return structure, structure.gathered([still, dense[1]])


def _orthogonal(block: int) -> Callable[[Group], Example | None]:
    def made(group: Group) -> Example | None:
        blocks = _in_blocks(block, turned=True)(group)
        if blocks is None:
            return None
        above = torch.triu_indices(block, block, 1)
        angles = torch.stack([skew_logarithm(x)[:, above[0], above[1]] for x in blocks], 1)
        return Orthogonal(block * len(blocks), block), {"angles": angles}

    return made


def skew_logarithm(rotations: Tensor) -> Tensor:
    """Skew-symmetric matrices whose exponentials are rotations (..., n, n) of determinant 1.

    With C and K the symmetric and the skew part of R, log R = θ / sin θ K where C is cos θ, and
    half-turns are taken in pairs of directions.
    """
    symmetric, skew = (rotations + rotations.mT) / 2, (rotations - rotations.mT) / 2
    cosines, directions = torch.linalg.eigh(symmetric)
    angles = cosines.clamp(-1, 1).acos()
    half = cosines < -1 + 1e-9
    factors = torch.where(half | (angles < 1e-6), 1.0, angles / angles.sin().clamp_min(1e-12))
    logarithm = directions @ (factors.unsqueeze(-1) * (directions.mT @ skew))
    for index in half.any(-1).nonzero().flatten().tolist():
        turned = directions[index][:, half[index]]
        for first, second in zip(turned.T[::2], turned.T[1::2], strict=True):
            logarithm[index] += torch.pi * (torch.outer(first, second) - torch.outer(second, first))
    return logarithm


def _dplr(group: Group) -> Example | None:
    """A part of d rows, less a diagonal that makes it singular, has rank d - 1."""

    def cost(chosen: Chosen) -> float:
        dims = [x.dim for x in chosen]
        return sum(dims) if sum(dims) - len(dims) <= RANK else float("inf")

    parts = _smallest(group, cost)
    if parts is None:
        return None
    singular = [singular_making(x.matrices) for x in parts]
    diagonal = torch.cat(singular, -1)
    whole = beside([x.matrices for x in parts]) - torch.diag_embed(diagonal)
    rank = max(1, whole.shape[-1] - len(parts))
    left, sizes, right = torch.linalg.svd(whole)
    factors = left[..., :rank] * sizes[..., None, :rank], right[..., :rank, :].mT
    parameters = dict(zip(("left", "right"), factors, strict=True))
    return DPLR(whole.shape[-1], rank), {"diagonal": diagonal - 1, **parameters}


def singular_making(orthogonal: Tensor) -> Tensor:
    """Diagonals (order, d) by which R - D is singular.

    For a single entry x at i, det(R - D) = det R (1 - x R_ii); where all R_ii are small, two
    entries are taken.
    """
    making = orthogonal.new_zeros(orthogonal.shape[:-1])
    for row, r in zip(making, orthogonal, strict=True):
        i = int(r.diagonal().abs().argmax())
        if r.shape[-1] == 2 and abs(r[0, 0]) < 0.1:  # (c - x) (c - y) + s² = 0
            row[:] = torch.stack([r[0, 0] - r[1, 0], r[0, 0] + r[1, 0]])
        else:
            row[i] = 1 / r[i, i]
    return making


def _householder(group: Group) -> Example | None:
    """Every orthogonal matrix is a product of as many reflections as rows, or fewer."""
    parts = _smallest(group, lambda chosen: sum(x.dim for x in chosen))
    if parts is None:
        return None
    lists = [reflections(x) for x in beside([x.matrices for x in parts])]
    count, dim = max(map(len, lists)), sum(x.dim for x in parts)
    vectors = torch.zeros(group.order, count, dim, dtype=torch.float64)
    for vector_list, reflected in zip(vectors, lists, strict=True):
        for j, vector in enumerate(reflected):
            vector_list[j] = FAR * vector
    return Householder(dim, count), {"vectors": vectors}


def reflections(orthogonal: Tensor) -> list[Tensor]:
    """Unit vectors v_1, v_2, ... with R = ... H_2 H_1, found by fixing one direction at a time."""
    vectors: list[Tensor] = []
    left = orthogonal
    while (moved := _less_identity(left)).abs().max() > 1e-9:
        # H sends R e to e, for the direction e that moves most: H R fixes e, and what R fixed.
        worst = moved.norm(dim=0).argmax()
        vector = moved[:, worst] / moved[:, worst].norm()
        vectors.append(vector)
        left = left - 2 * torch.outer(vector, vector @ left)
    return vectors[::-1]


def _points(group: Group) -> list[Tensor] | None:
    """Permutation matrices (order, points, points) on each orbit of the group's points."""
    powers = _powers(group)
    if powers is not None:
        sizes = _prime_powers(group.order)
        turns = [torch.eye(q, dtype=torch.float64) for q in sizes]
        return [
            torch.stack([turn.roll(k % q, 0) for k in powers])
            for q, turn in zip(sizes, turns, strict=True)
        ]
    if group.permutations is None:
        return None
    images = torch.tensor(group.permutations)
    order, points = images.shape
    whole = torch.zeros(order, points, points, dtype=torch.float64)
    whole[torch.arange(order)[:, None], images, torch.arange(points)] = 1
    orbits = list(dict.fromkeys(tuple(sorted(set(column))) for column in images.T.tolist()))
    return [whole[:, list(x)][:, :, list(x)] for x in orbits]


def _powers(group: Group) -> list[int] | None:
    """For a cyclic group, which power of one element each element is; else None."""
    for element in range(group.order):
        powers, at = {0: 0}, element
        while at not in powers:
            powers[at] = len(powers)
            at = int(group.table[at, element])
        if len(powers) == group.order:
            return [powers[x] for x in range(group.order)]
    return None


def _prime_powers(number: int) -> list[int]:
    """Coprime factors: cycles of these lengths are turned by a cyclic group of that order.

    >>> _prime_powers(60)
    [4, 3, 5]
    """
    powers, prime = [], 2
    while number > 1:
        power = 1
        while number % prime == 0:
            number, power = number // prime, power * prime
        if power > 1:
            powers.append(power)
        prime += 1
    return powers


def _sparse(group: Group) -> Example | None:
    """One entry in each row: the permutations of the group's points, with that mask."""
    orbits = _points(group)
    if orbits is None:
        return None
    change = _less_identity(beside(orbits))
    places = change.flatten().nonzero().flatten()
    dim = change.shape[-1]
    density = max(1, len(places)) / change.numel()
    return Sparse(dim, density=density), {"values": change.flatten()[places], "places": places}


def _row_normalised(group: Group) -> Example | None:
    """The permutations of the group's points: rows whose absolute values add up to 1."""
    orbits = _points(group)
    if orbits is None:
        return None
    block = max(x.shape[-1] for x in orbits)
    stacked = torch.stack([_less_identity(_filled(x, block)) for x in orbits], 1)
    return RowNormalised(block * len(orbits), block), {"blocks": stacked}


def _none(group: Group) -> Example | None:
    return None


ACTIONS: dict[str, Callable[[Group], Example | None]] = {
    "diagonal": _diagonal,
    "block-2": _block_diagonal(2),
    "block-4": _block_diagonal(4),
    "block-8": _block_diagonal(8),
    "dense": _dense,
    "diagonal-dense": _diagonal_dense,
    "dplr-4": _dplr,
    "orthogonal-4": _orthogonal(4),
    "orthogonal-8": _orthogonal(8),
    "householder": _householder,
    "sparse": _sparse,
    "row-normalised": _row_normalised,
    "walsh-hadamard": _none,
}
"""How the smallest action that is known is made."""

CONSTRUCTED = ("sparse", "row-normalised", "walsh-hadamard")
"""Where nothing is known of the smallest dim, but that it is not below that of dense matrices."""
