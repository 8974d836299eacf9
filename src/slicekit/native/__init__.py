"""The thin Python door to the C++ kernels: loading, calling and naming their faults."""

from slicekit.native.library import Library, available, library, reason, warn_once

__all__ = ["Library", "available", "library", "reason", "warn_once"]
