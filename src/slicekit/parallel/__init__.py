"""What if one machine is not enough? Sequences split over ranks, and models on meshes of them.

Every name here needs a process group of `torch.distributed`, as `torchrun` prepares it.
"""

from slicekit.parallel.halos import halo
from slicekit.parallel.models import add_up_gradients, part, shard
from slicekit.parallel.ranks import LostRank, Ranks
from slicekit.parallel.relay import Relay
from slicekit.parallel.sharded import Sharded

__all__ = ["LostRank", "Ranks", "Relay", "Sharded", "add_up_gradients", "halo", "part", "shard"]
