"""The fastest scan on a CPU: C++ kernels, with transitions that never leave the cache."""

from dataclasses import dataclass, field, replace

from slicekit.native import available, reason, warn_once
from slicekit.scans.base import KEEP_BYTES, Passes, Recurrence, Scan, Solution
from slicekit.scans.chunked.policy import beats_native, by_products
from slicekit.scans.native.assignment import bound, why_not
from slicekit.scans.native.passes import GivenPasses, MadePasses
from slicekit.scans.opaque import run_opaque
from slicekit.scans.sources import FromTransitions, Made, Source


def passes_of(source: Source) -> type[Passes]:
    """The kernels' passes, by where the transitions come from."""
    return GivenPasses if isinstance(source, FromTransitions) else MadePasses


@dataclass(frozen=True)
class Native(Scan):
    """Kernels in C++, for every structure of slicekit on the CPU.

    A sequential loop over time for each sequence, on as many threads as torch uses. `solve` and
    `propagate` choose it by themselves wherever it applies; naming it makes sure of it.

    Args:
        keep: bytes of transitions that may be kept for the backward pass instead of made again;
            None for 32 MiB.

    First derivatives in reverse mode only: for others use `Recurrent`.
    """

    keep: int | None = field(default=None, repr=False)

    @property
    def limit(self) -> int:
        """How many bytes may be kept."""
        return KEEP_BYTES if self.keep is None else self.keep

    def run(self, recurrence: Recurrence) -> Solution:
        """Run all steps.

        Raises:
            ValueError: where there is no kernel, saying why.
        """
        return run_opaque(*self.engine(recurrence))

    def engine(self, recurrence: Recurrence) -> tuple[type[Passes], Recurrence, int]:
        """What `run_opaque` takes."""
        obstacle = self.obstacle(recurrence)
        if obstacle is not None:
            raise ValueError(f"scan=Native(): {obstacle}; leave scan=None or use Chunked()")
        source = recurrence.source
        if isinstance(source, Made):
            recurrence = replace(recurrence, source=bound(source))
        return passes_of(source), recurrence, self.limit

    def obstacle(self, recurrence: Recurrence) -> str | None:
        """No kernel for it, or no kernels at all, which is said aloud, once."""
        obstacle = why_not(recurrence.source, recurrence.readout is not None)
        if not obstacle and not available():
            warn_once()
            return reason()
        return obstacle or None

    def reluctance(self, recurrence: Recurrence) -> str | None:
        """Where matrix products are faster."""
        if by_products(recurrence) and beats_native(recurrence):
            return "matrix products are faster for states of this size, at this length"
        return None
