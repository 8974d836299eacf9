"""Which scan runs a recurrence where the user names none."""

from slicekit.native import available, warn_once
from slicekit.scans.base import Recurrence, Scan
from slicekit.scans.chunked import Chunked, beats_native, by_products, unknown
from slicekit.scans.native import Native, why_not
from slicekit.scans.recurrent import Recurrent


def fastest(recurrence: Recurrence) -> Scan:
    """The fastest scan that applies: kernels on a CPU, chunks anywhere, a loop for the unknown."""
    source, readout = recurrence.source, recurrence.readout
    if not why_not(source, readout is not None):
        products = by_products(source, recurrence.inputs, readout, recurrence.projective)
        if products and beats_native(source, recurrence.state):
            return Chunked()
        if available():
            return Native()
        warn_once()
    return Recurrent() if unknown(source) else Chunked()
