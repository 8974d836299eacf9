"""The handlers of the shared library, registered with XLA at the first question."""

import ctypes
import warnings
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax import Array

from slicekit.native.library import library
from slicekit.native.library import reason as why_no_library
from slicekit.native.library import warn_once as library_warn_once

KERNELS = ("panels", "exponential", "log_signatures")

TARGETS = tuple(
    f"slicekit_xla_{kernel}_{direction}"
    for kernel in KERNELS
    for direction in ("forward", "backward" if kernel == "panels" else "pullback")
)


def available() -> bool:
    """Whether kernels can be called: the library is there, and JAX computes on a CPU."""
    return jax.default_backend() == "cpu" and not reason()


@lru_cache(maxsize=1)
def reason() -> str:
    """Why there are no kernels on a CPU; empty if there are. Registers them when first asked."""
    loaded = library()
    if loaded is None:
        return why_no_library()
    missing = [name for name in TARGETS if not hasattr(loaded.c, name)]
    if missing:
        return f"{loaded.path} is older than slicekit's JAX layer: it lacks {missing[0]}"
    for name in TARGETS:
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(loaded.c[name]), platform="cpu")
    return ""


@lru_cache(maxsize=1)
def warn_once() -> None:
    """Say, once in a process, that slicekit runs without its kernels, and what to do.

    Silent where they are available, or were switched off on purpose.
    """
    if library() is None:
        library_warn_once()
    elif reason():
        warnings.warn(
            f"slicekit.jax runs without the C++ kernels: {reason()}; install slicekit again",
            RuntimeWarning,
            stacklevel=4,
        )


def call(target: str, results: Any, *arrays: Array, batching: str, **numbers: Any) -> Any:
    """Call a handler.

    Args:
        target: without its prefix, such as `panels_forward`.
        results: what it returns, as `jax.ShapeDtypeStruct`s.
        arrays: what it is given.
        batching: what `jax.vmap` does: `expand_dims` or `broadcast_all`.
        numbers: arrays of int64 or float64, fixed when a program is compiled.
    """
    run = jax.ffi.ffi_call(f"slicekit_xla_{target}", results, vmap_method=batching)
    return run(*arrays, **numbers)


def kept_numbers(plan: np.ndarray) -> int:
    """How many numbers hold all transitions of a plan of the panel kernel; 0: not to be kept."""
    loaded = library()
    assert loaded is not None
    function = loaded.c.slicekit_xla_panels_kept
    function.restype = ctypes.c_int64
    pointer = plan.ctypes.data_as(ctypes.POINTER(ctypes.c_int64))
    return max(0, function(pointer, ctypes.c_int64(plan.size)))
