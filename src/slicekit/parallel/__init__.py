"""What if one machine is not enough? Sequences split over ranks, and models on meshes of them.

Every name here needs a process group of `torch.distributed`, as `torchrun` prepares it. Names are
loaded when they are first asked for: `torch.distributed` and its meshes take a while.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slicekit.parallel.failures import LostRank
    from slicekit.parallel.halos import halo
    from slicekit.parallel.models import add_up_gradients, part, shard
    from slicekit.parallel.ranks import Ranks
    from slicekit.parallel.relay import Relay
    from slicekit.parallel.sharded import Sharded
    from slicekit.parallel.storing import load_checkpoint, save_checkpoint

__all__ = [
    "LostRank",
    "Ranks",
    "Relay",
    "Sharded",
    "add_up_gradients",
    "halo",
    "load_checkpoint",
    "part",
    "save_checkpoint",
    "shard",
]

_HOMES = {
    "LostRank": "failures",
    "Ranks": "ranks",
    "Relay": "relay",
    "Sharded": "sharded",
    "add_up_gradients": "models",
    "halo": "halos",
    "load_checkpoint": "storing",
    "part": "models",
    "save_checkpoint": "storing",
    "shard": "models",
}


def __getattr__(name: str) -> Any:
    """A public name, when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"slicekit.parallel.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """Every public name, loaded or not."""
    return sorted({*globals(), *__all__})
