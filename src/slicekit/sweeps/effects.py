"""What mattered: the share of the differences between trials that each setting explains alone.

ω² of a one-way analysis of variance. With k groups of the n trials by a setting's value, sums of
squares between and within the groups B and W, and the mean square within them w = W / (n − k),

    ω² = (B − (k − 1) w) / (B + W + w),

which is 0 on average for a setting that does nothing, where B / (B + W) grows with k. What settings
do together is not counted. Trials of a range are put into groups by their order.
"""

import math
from collections.abc import Sequence
from typing import Any

from slicekit.sweeps.space import Choices, Domain

GROUPS, LEAST = 5, 4
"""Of a range: how many groups at most, and how many trials each at least."""


def share(groups: Sequence[int], scores: Sequence[float]) -> float:
    """ω², at least 0; NaN where there are too few trials to tell.

    Args:
        groups: the number of each trial's group.
        scores: of the trials.

    >>> share([0, 0, 1, 1], [0.0, 0.2, 0.8, 1.0]) > 0.8, share([0, 1, 0, 1], [0.0, 0.0, 1.0, 1.0])
    (True, 0.0)
    """
    kinds, count = sorted(set(groups)), len(scores)
    if not 2 <= len(kinds) < count:
        return math.nan
    mean = sum(scores) / count
    between = within = 0.0
    for kind in kinds:
        alike = [x for x, group in zip(scores, groups, strict=True) if group == kind]
        middle = sum(alike) / len(alike)
        between += len(alike) * (middle - mean) ** 2
        within += sum((x - middle) ** 2 for x in alike)
    if between + within == 0:
        return math.nan
    noise = within / (count - len(kinds))
    return max(0.0, (between - (len(kinds) - 1) * noise) / (between + within + noise))


def grouped(domain: Domain, values: Sequence[Any]) -> list[int]:
    """The number of each value's group: equal values of a list, neighbours of a range."""
    distinct = sorted(set(values)) if not isinstance(domain, Choices) else []
    if isinstance(domain, Choices):
        return [domain.values.index(x) for x in values]
    if len(distinct) <= GROUPS:
        return [distinct.index(x) for x in values]
    count = max(2, min(GROUPS, len(values) // LEAST))
    order = sorted(range(len(values)), key=lambda n: values[n])
    place = {n: at * count // len(values) for at, n in enumerate(order)}
    return [place[n] for n in range(len(values))]
