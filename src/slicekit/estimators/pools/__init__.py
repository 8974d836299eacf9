"""What is seen of a path: linear CDEs along it, pooled over time.

A pool looks at one level of the pyramid of a path, and gives features for one or more blocks. It
looks at whole series at once, or at one element after the other: both come to the same.
"""

from slicekit.estimators.pools.bands import BandPool
from slicekit.estimators.pools.base import Features, Memory, Pool
from slicekit.estimators.pools.covariances import CovariancePool
from slicekit.estimators.pools.filters import FilterPool
from slicekit.estimators.pools.means import MeanPool
from slicekit.estimators.pools.rotations import RotationPool

__all__ = [
    "BandPool",
    "CovariancePool",
    "Features",
    "FilterPool",
    "MeanPool",
    "Memory",
    "Pool",
    "RotationPool",
]
