"""What if one machine is not enough? Sequences split over ranks, and models on meshes of them.

Every name here needs a process group of `torch.distributed`, as `torchrun` prepares it.
"""

from slicekit.parallel.ranks import LostRank
from slicekit.parallel.sharded import Sharded

__all__ = ["LostRank", "Sharded"]
