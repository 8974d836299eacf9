"""How are steps put together? `solve` and `propagate`, and the scans they choose from."""

from slicekit.jax.scans.associative import Associative
from slicekit.jax.scans.base import Outer, Recurrence, Scan, Solution
from slicekit.jax.scans.chunked import Chunked
from slicekit.jax.scans.entry import propagate, solve
from slicekit.jax.scans.native import Native
from slicekit.jax.scans.projective import Projective
from slicekit.jax.scans.recurrent import Recurrent
from slicekit.jax.scans.sharded import Sharded

__all__ = [
    "Associative",
    "Chunked",
    "Native",
    "Outer",
    "Projective",
    "Recurrence",
    "Recurrent",
    "Scan",
    "Sharded",
    "Solution",
    "propagate",
    "solve",
]
