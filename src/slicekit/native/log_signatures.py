"""Log-signatures of windows, and their derivative, by the shared library."""

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import torch
from torch import Tensor

from slicekit.descriptions.word_tables import word_tables
from slicekit.native.kernel import REAL, address, function, plain
from slicekit.native.library import check, unsuited
from slicekit.native.threads import threads

DEEPEST = 16
"""The largest depth that the library takes."""


_SIZES = (
    *("real", "batch", "length", "channels", "depth", "windows", "window"),
    *("size", "top", "prefixes", "splits", "changes", "threads"),
)

_POINTERS = (
    *("places", "split_starts", "splits", "prefixes"),
    *("change_starts", "change_columns", "change_values"),
)


class Basis(Protocol):
    """What the library must know of a basis of the free Lie algebra; `paths.LieBasis` is one."""

    @property
    def channels(self) -> int:
        """Letters."""
        ...

    @property
    def depth(self) -> int:
        """Longest words."""
        ...

    @property
    def change(self) -> Any:
        """The change of basis, by rows, columns and values."""
        ...

    @property
    def size(self) -> int:
        """Number of elements."""
        ...

    @property
    def sizes(self) -> tuple[int, ...]:
        """By level."""
        ...


class _Sizes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in _SIZES]


class _Pointers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in _POINTERS]


def obstacle(increments: Tensor, basis: Basis) -> str | None:
    """Why there is no kernel for increments (batch, length, channels); None if there is."""
    if basis.channels < 2 or not 1 < basis.depth <= DEEPEST:
        return f"{basis.channels} channels at depth {basis.depth} need none"
    return unsuited(increments)


def forward(increments: Tensor, basis: Basis, window: int, edges: Tensor | None) -> Tensor:
    """Coefficients (batch, windows, size) from increments (batch, length, channels) on the CPU.

    Args:
        increments: float32 or float64.
        basis: of the coefficients.
        window: increments in a window; not used with edges.
        edges: (batch, windows + 1) int64 that do not decrease, in 0..length: where windows begin
            and end; or None.

    Raises:
        RuntimeError: if edges leave their range, or a size is far too large for the library.
    """
    windows = window_count(increments, window, edges)
    result = increments.new_empty(increments.shape[0], windows, basis.size)
    _call("slicekit_log_signatures_forward", increments, basis, window, edges, (), result)
    return result


def pullback(
    increments: Tensor, gradient: Tensor, basis: Basis, window: int, edges: Tensor | None
) -> Tensor:
    """The gradient of <gradient, coefficients> in the increments; zero outside of windows.

    Raises:
        RuntimeError: as `forward` does.
    """
    increments = plain(increments)
    result = torch.empty_like(increments) if edges is None else torch.zeros_like(increments)
    gradients = (plain(gradient),)
    _call("slicekit_log_signatures_pullback", increments, basis, window, edges, gradients, result)
    return result


def window_count(increments: Tensor, window: int, edges: Tensor | None) -> int:
    """The number of windows of each path."""
    if edges is not None:
        return edges.shape[1] - 1
    return (increments.shape[1] + window - 1) // window


def _call(
    name: str,
    increments: Tensor,
    basis: Basis,
    window: int,
    edges: Tensor | None,
    gradients: tuple[Tensor, ...],
    result: Tensor,
) -> None:
    tables = _tables(basis)
    increments = plain(increments)
    edges = None if edges is None else edges.contiguous()
    batch, length, channels = increments.shape
    windows = window_count(increments, window, edges)
    real = REAL.get(increments.itemsize, torch.float32)
    path, signatures = (batch, length, basis.channels), (batch, windows, basis.size)
    arrays = [
        address("increments", increments, (path, real)),
        *(address("gradient", x, (signatures, real)) for x in gradients),
        address("result", result, (path if gradients else signatures, real)),
    ]
    given = None
    if edges is not None:
        given = address("edges", edges, ((batch, windows + 1), torch.int64))
    sizes = ctypes.byref(
        _Sizes(
            *(increments.itemsize, batch, length, channels, basis.depth),
            *(windows, 0 if edges is not None else window),
            *(basis.size, basis.sizes[-1], len(tables.prefixes)),
            *(len(tables.splits), len(tables.change_columns)),
            threads(increments.numel() * basis.size),
        )
    )
    measured = function("slicekit_log_signatures_workspace")(sizes)
    work = torch.empty(measured, dtype=torch.uint8, device="cpu")
    pointers = [ctypes.c_void_p(x) for x in (given, *arrays, work.data_ptr())]
    told = ctypes.byref(tables.pointers())
    check(function(name)(sizes, told, *pointers, ctypes.c_int64(measured)), name)


@dataclass(frozen=True, eq=False)
class _Tables:
    """What the library needs to know of a basis; see its header."""

    places: Tensor
    split_starts: Tensor
    splits: Tensor
    prefixes: Tensor
    change_starts: Tensor
    change_columns: Tensor
    change_values: Tensor

    def pointers(self) -> _Pointers:
        return _Pointers(*(getattr(self, name).data_ptr() for name in _POINTERS))


@lru_cache(maxsize=64)
def _tables(basis: Basis) -> _Tables:
    words = word_tables(basis.channels, basis.depth)
    return _Tables(
        places=torch.from_numpy(words.places),
        split_starts=torch.from_numpy(words.split_starts),
        splits=torch.from_numpy(words.splits),
        prefixes=torch.from_numpy(words.prefixes),
        change_starts=torch.searchsorted(basis.change.rows, torch.arange(basis.size + 1)),
        change_columns=basis.change.columns,
        change_values=basis.change.values,
    )
