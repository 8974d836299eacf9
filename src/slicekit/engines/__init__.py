"""Where are runs done? On this machine, or on a cluster of SLURM, Ray or Dask.

One file for each engine, which imports its library when it is asked for. Nothing here needs torch:
a node's own process only starts the one that does a run.
"""

from slicekit.engines.base import Answer, Engine, Job, Order, Unreachable
from slicekit.engines.local import Local
from slicekit.engines.names import ENGINES, make

__all__ = ["ENGINES", "Answer", "Engine", "Job", "Local", "Order", "Unreachable", "make"]
