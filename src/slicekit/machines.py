"""What something was measured on, and how much memory this process took."""

import ctypes
import gc
import platform
import sys
from contextlib import suppress
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def processor() -> str:
    """Its model, as the system names it: on Linux platform.processor() knows the family alone."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    values = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
    named = {key.strip(): value.strip() for key, value in values.items()}
    if "model name" not in named:
        return platform.processor() or platform.machine()
    details = [f"{key} {named[key]}" for key in ("cpu family", "model") if key in named]
    return ", ".join([named["model name"], *details])


def forget_peak() -> bool:
    """Give free memory back to the system, and let the record of the peak begin anew.

    Returns:
        Whether that could be done: only Linux has a way to, and not everywhere.
    """
    gc.collect()
    if sys.platform != "linux":
        return False
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        CLEAR.write_text("5")
    except OSError:
        return False
    return True


def peak() -> int:
    """The most bytes that this process had in memory since `forget_peak`, where that worked."""
    return status("VmHWM")


def status(field: str) -> int:
    """A number of kilobytes that Linux tells of this process, as bytes."""
    (line,) = (x for x in STATUS.read_text().splitlines() if x.startswith(f"{field}:"))
    return 1024 * int(line.split()[1])
