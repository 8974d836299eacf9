"""The fastest scan on a CPU: C++ kernels, with transitions that never leave the cache."""

from dataclasses import dataclass

import torch

from slicekit.native import available, reason
from slicekit.scans.base import Recurrence, Scan, Solution
from slicekit.scans.native_runs import runs_of
from slicekit.scans.opaque import run_opaque
from slicekit.scans.sources import FromIncrements, FromTable, FromTransitions, Source, leaves
from slicekit.structures import BlockTransition, DiagonalTransition, LowRankTransition, Transition

REAL = (torch.float32, torch.float64)
COMPLEX = (torch.complex64, torch.complex128)


@dataclass(frozen=True)
class Native(Scan):
    """Kernels in C++, for every structure of slicekit on the CPU.

    A sequential loop over time for each sequence, on as many threads as torch uses. `solve` and
    `propagate` choose it by themselves wherever it applies; naming it makes sure of it.

    First derivatives in reverse mode only: for others use `Recurrent`.
    """

    def run(self, recurrence: Recurrence) -> Solution:
        """Run all steps.

        Raises:
            ValueError: where there is no kernel, saying why.
        """
        return run_opaque(*self.engine(recurrence))

    def engine(self, recurrence: Recurrence) -> tuple[str, Recurrence, int]:
        """What `run_opaque` takes."""
        if not available():
            raise ValueError(f"scan=Native(): {reason()}")
        obstacle = why_not(recurrence.source, recurrence.readout is not None)
        if obstacle:
            raise ValueError(f"scan=Native(): {obstacle}; leave scan=None or use Chunked()")
        return "native", recurrence, 0


def why_not(source: Source, readout: bool) -> str:
    """Why no kernel applies where there are kernels; empty if one does."""
    first = source.tensors[0]
    if first.device.type != "cpu":
        return f"there is no kernel for tensors on {first.device.type}"
    if isinstance(source, FromTransitions):
        return _why_not_given(source.transition, readout)
    if not isinstance(source, FromIncrements | FromTable):
        return f"there is no kernel for {type(source).__name__}"
    if any(x.is_floating_point() and x.dtype not in REAL for x in source.tensors):
        return f"there is no kernel for {first.dtype}"
    runs = runs_of(source.structure, source.flow)
    return runs if isinstance(runs, str) else ""


def _why_not_given(transition: Transition, readout: bool) -> str:
    parts = leaves(transition)
    if len(parts) > 1 and readout:
        return "a readout couples the parts of a direct sum"
    for part in parts:
        dtypes = REAL + COMPLEX if type(part) is DiagonalTransition else REAL
        known = type(part) in (DiagonalTransition, BlockTransition, LowRankTransition)
        if not known or part.tensors()[0].dtype not in dtypes:
            return f"there is no kernel for {type(part).__name__} of {part.tensors()[0].dtype}"
    return ""
