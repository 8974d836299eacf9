"""The portable fast path: steps in chunks, with a hand-written adjoint; see `chunk_passes`."""

from dataclasses import dataclass
from typing import ClassVar

from slicekit.scans.base import Recurrence, Scan, Solution
from slicekit.scans.opaque import run_opaque
from slicekit.scans.sources import FromTransitions


@dataclass(frozen=True)
class Chunked(Scan):
    """Steps in chunks of `size`, with transitions only ever made for one chunk at a time.

    Args:
        size: steps in a chunk; None lets the transitions of a chunk fill a few megabytes.

    First derivatives in reverse mode only: for others use `Recurrent`.
    """

    size: int | None = None
    citations: ClassVar[tuple[str, ...]] = ("yang2024parallelizing",)

    def __post_init__(self) -> None:
        """Check the size."""
        if self.size is not None and (not isinstance(self.size, int) or self.size < 1):
            raise ValueError(f"size={self.size}; expected at least 1, or None")

    def run(self, recurrence: Recurrence) -> Solution:
        """Run the chunks one after the other.

        Raises:
            ValueError: for given transitions of a kind that is not slicekit's own.
        """
        source = recurrence.source
        if isinstance(source, FromTransitions) and not source.rebuildable:
            raise ValueError(
                f"scan={self!r} does not know {type(source.transition).__name__}; use Recurrent()"
            )
        return run_opaque("chunked", recurrence, self.size or 0)
