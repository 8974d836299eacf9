"""Find, load and check the shared library; without it slicekit runs on pure torch.

SLICEKIT_NATIVE chooses: a path loads that library, `off` loads none. A path is for developers who
have built that library: to load it runs its code, and only then can its interface be checked.
SLICEKIT_ISA=avx2 or baseline takes the kernels of a lower instruction set than the best one here.
Nothing is loaded before the first question, and the answer then holds for the whole process.
"""

import ctypes
import os
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

INTERFACE = 15
"""Number of the C interface that this Python code speaks."""

ISAS = ("baseline", "avx2", "avx512", "neon")
"""Instruction sets for which kernels are built, here or elsewhere."""

NAMES = (
    "libslicekit_native.so",
    "libslicekit_native.dylib",
    "slicekit_native.dll",
    "libslicekit_native.dll",
)

STATUS = {
    1: "a size that the kernel can't take",
    2: "a missing array",
    3: "an option that the kernel does not know",
    4: "too small a work space",
    5: "an index outside its table",
}


class Library:
    """The loaded shared library.

    Attributes:
        path: where it was found.
        c: its functions, as ctypes gives them.
        isa: the instruction set in use, the best that runs here unless another was chosen.
        threads: whether it can use several threads.
    """

    def __init__(self, path: Path) -> None:
        """Load and check it.

        Raises:
            OSError: if it can't be loaded, is something else, or speaks another interface.
            ValueError: if SLICEKIT_ISA names an instruction set that can't be used.
        """
        self.path = path.resolve()
        try:
            self.c = ctypes.CDLL(str(self.path))
        except OSError as error:
            raise OSError(f"{path} can't be loaded: {error}") from error
        number = self._ask("slicekit_interface", ctypes.c_int64)
        if number != INTERFACE:
            raise OSError(f"{path} speaks interface {number}; this slicekit needs {INTERFACE}")
        self.isa: str = self._ask("slicekit_isa", ctypes.c_char_p).decode()
        if wish := os.environ.get("SLICEKIT_ISA"):
            self.use(wish)
        self.threads = bool(self._ask("slicekit_has_threads", ctypes.c_int64))

    def isas(self) -> tuple[str, ...]:
        """Instruction sets that the library has and this processor runs, the best one last."""
        running = tuple(isa for isa in ISAS if not self._choose(isa))
        self._choose(self.isa)
        return running

    def use(self, isa: str) -> None:
        """Take the kernels of another instruction set from now on, not amid a forward and backward.

        Raises:
            ValueError: if the library does not have it or the processor does not run it.
        """
        if self._choose(isa):
            raise ValueError(
                f"isa={isa!r} (or SLICEKIT_ISA) can't be used with this library on this processor; "
                f"choose one of {', '.join(self.isas())}"
            )
        self.isa = isa

    def _choose(self, isa: str) -> int:
        return self._ask("slicekit_use_isa", ctypes.c_int64, isa.encode())

    def _ask(self, function: str, answer: type, *arguments: bytes) -> Any:
        kinds = [ctypes.c_char_p] * len(arguments)
        try:
            return ctypes.CFUNCTYPE(answer, *kinds)((function, self.c))(*arguments)
        except AttributeError as error:
            raise OSError(f"{self.path} is no library of slicekit: it lacks {function}") from error


def check(status: int, function: str) -> None:
    """Raise if a kernel returned a fault.

    Raises:
        RuntimeError: naming the function and what it was given.
    """
    if status:
        fault = STATUS.get(status, f"unknown status {status}")
        raise RuntimeError(f"native {function} was given {fault}; please report this")


def _constant_when_compiled(function: F) -> F:
    """As `torch.compiler.assume_constant_result`, which would import the whole compiler for it."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def library() -> Library | None:
    """The shared library, or None where there is none; see `reason`."""
    return load()[0]


@_constant_when_compiled
def available() -> bool:
    """Whether native kernels can be used."""
    return library() is not None


def unsuited(x: Any) -> str | None:
    """Why no kernel takes a tensor of this dtype on this device; None if kernels do."""
    if x.device.type != "cpu" or str(x.dtype) not in ("torch.float32", "torch.float64"):
        return f"there is no kernel for {x.dtype} on {x.device.type}"
    return None if available() else reason()


def reason() -> str:
    """Why there is no library; empty if there is one."""
    return load()[1]


@_constant_when_compiled
def warn_once() -> None:
    """Say, once in a process, that slicekit runs without its kernels, and what to do.

    Silent where they are available, or were switched off on purpose.
    """
    _warn()


@lru_cache(maxsize=1)
def _warn() -> None:
    if not available() and not _switched_off():
        warnings.warn(
            f"slicekit runs without its C++ kernels, several times slower: {reason()}; "
            "see `slicekit doctor`",
            RuntimeWarning,
            stacklevel=3,
        )


@lru_cache(maxsize=1)
def load() -> tuple[Library | None, str]:
    """The library if there is one, and why there is none; found and loaded at the first call."""
    if _switched_off():
        return None, "switched off by SLICEKIT_NATIVE=off"
    wish = os.environ.get("SLICEKIT_NATIVE")
    if wish and not Path(wish).is_file():
        return None, f"SLICEKIT_NATIVE={wish} is no file"
    place = Path(wish) if wish else _installed()
    if place is None:
        return None, "not built when slicekit was installed; get a C++ compiler, install it again"
    try:
        return Library(place), ""
    except OSError as error:
        return None, str(error)


def _switched_off() -> bool:
    return os.environ.get("SLICEKIT_NATIVE") == "off"


def _installed() -> Path | None:
    """The library of this installation.

    An editable one keeps it apart from the Python files, but in a folder of the same package.
    """
    from slicekit import native

    places = (Path(folder) / name for folder in native.__path__ for name in NAMES)
    return next((place for place in places if place.is_file()), None)
