"""How are steps put together? `solve` and `propagate`, and the scans they choose from."""

from slicekit.scans.associative import Associative
from slicekit.scans.base import Outer, Recurrence, Scan, Solution
from slicekit.scans.chunked.policy import Chunked
from slicekit.scans.entry import propagate, solve
from slicekit.scans.native.policy import Native
from slicekit.scans.projective import Projective
from slicekit.scans.recurrent import Recurrent
from slicekit.scans.selective import selective_scan

__all__ = [
    "Associative",
    "Chunked",
    "Native",
    "Outer",
    "Projective",
    "Recurrence",
    "Recurrent",
    "Scan",
    "Solution",
    "propagate",
    "selective_scan",
    "solve",
]
