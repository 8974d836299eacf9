"""What `torch.utils.flop_counter` counts for the operators of scans, which it can't look into.

A multiplication and its addition are two. A backward pass counts as two forward ones, as it does
for torch's own products; transitions that it makes again are not counted again.
"""

import math
from typing import Any

from slicekit.handles import recall
from slicekit.scans.sources import FIELD, LEAVES, NEXT

Shape = tuple[int, ...]


def of_scan(
    engine: str, spec: str, tensors: int, inputs: int, size: int, rescale: int, *rest: Any, **_: Any
) -> int:
    """Making the transitions, once for each increment or row of a table, and applying them."""
    operands: list[Shape] = rest[0]
    batch, columns = operands[tensors][0], operands[tensors][2]
    kind, *fields = spec.split(FIELD)
    if kind == "FromTransitions":
        count = sum(len(LEAVES[name].stepwise) for name in fields[0].split(NEXT))
        return 2 * columns * sum(math.prod(shape) for shape in operands[:count])
    path, length = operands[len(fields[2].split(NEXT))], operands[tensors - 1][1]
    structure, rows, channels = recall(fields[0]), math.prod(path[:-1]), path[-1]
    applying = structure.step_cost(0)
    making = structure.step_cost(channels) - applying
    return 2 * (rows * making + batch * length * columns * applying)


def of_adjoint(*args: Any, **_: Any) -> int:
    """Twice the forward pass."""
    return 2 * of_scan(*args)


def of_selective_scan(steps: Shape, rates: Shape, *_: Any, **__: Any) -> int:
    """Decay, drive and readout of each number of a state."""
    return 2 * 3 * math.prod(steps) * rates[-1]


def of_selective_adjoint(steps: Shape, rates: Shape, *_: Any, **__: Any) -> int:
    """Twice the forward pass."""
    return 2 * 2 * 3 * math.prod(steps) * rates[-1]
