"""Memory that a step frees and the next one needs again."""

import ctypes
import os
import platform

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Numbers of the parameters of `mallopt`, from glibc's malloc.h."""

MMAP_THRESHOLD = 32 * 2**20
"""Larger blocks come from the system one by one; glibc allows no higher threshold."""

TRIM_THRESHOLD = 512 * 2**20
"""Free memory beyond this goes back to the system."""


def keep_freed_memory() -> bool:
    """Let the allocator of this process keep what is freed, up to half a gibibyte.

    By default, glibc hands the memory of a training step back to the system at its end, and gets it
    again page by page in the next: on a CPU that can take a quarter of the time. Nothing is changed
    where the user has set the thresholds (MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_).

    Returns:
        Whether the allocator was told; other C libraries have other habits, and are left alone.
    """
    chosen = {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"} & os.environ.keys()
    if chosen or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(
        mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD) and mallopt(M_TRIM_THRESHOLD, TRIM_THRESHOLD)
    )
