"""The C++ kernels from JAX, through XLA's foreign function interface on a CPU."""

from slicekit.jax.native.handlers import available, reason, warn_once

__all__ = ["available", "reason", "warn_once"]
