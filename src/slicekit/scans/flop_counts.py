"""What `torch.utils.flop_counter` counts for the operators of scans, which it can't look into.

A multiplication and its addition are two. A backward pass counts as two forward ones, as it does
for torch's own products (see `slicekit.operators`); transitions made again are not counted again.
"""

import math

from slicekit.handles import recall
from slicekit.scans.sources import FIELD, LEAVES, NEXT

Shape = tuple[int, ...]


def of_scan(
    engine: str,
    spec: str,
    tensors: int,
    inputs: int,
    size: int,
    rescale: int,
    keep: bool,
    operands: list[Shape],
) -> int:
    """Making the transitions, once for each increment or row of a table, and applying them."""
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


def of_selective_scan(operands: list[Shape]) -> int:
    """Decay, drive and readout of each number of a state."""
    steps, rates = operands[:2]
    return 2 * 3 * math.prod(steps) * rates[-1]
