"""Log-signatures of windows: the mirror of native/include/slicekit_log_signatures.h."""

from ctypes import Structure
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import numpy as np
from torch import Tensor

from slicekit.descriptions.word_tables import word_tables
from slicekit.native import kernel
from slicekit.native.kernel import Differentiable, addresses, fields, sizes
from slicekit.native.library import unsuited

DEEPEST = 16
"""The largest depth that the library takes."""

SIZES = (
    *("real", "batch", "length", "channels", "depth", "windows", "window"),
    *("size", "top", "prefixes", "splits", "changes", "threads"),
)
TABLES = (
    *("places", "split_starts", "splits", "prefixes"),
    *("change_starts", "change_columns", "change_values"),
)


class Tables(Structure):
    """`slicekit_log_signatures_tables`: what the library needs to know of a basis."""

    _fields_: ClassVar = addresses(*TABLES)
    __hash__ = object.__hash__  # there is one for each basis


class Task(kernel.Task):
    """`slicekit_log_signatures` of slicekit_log_signatures.h."""

    operands: ClassVar = {"increments": "batch length channels", "edges": ""}
    results: ClassVar = {"coefficients": "batch windows size"}
    cotangents, whole = ("in_coefficients",), ("edges",)
    multiplications = "batch length channels size"
    _fields_: ClassVar = [
        *sizes(*SIZES),
        ("tables", Tables),
        *fields("", operands, results, cotangents, whole),
    ]

    @classmethod
    def sizes_of(
        cls, basis: "_Basis", window: int, increments: Tensor, edges: Tensor | None
    ) -> dict[str, Any]:
        """Of increments (batch, length, channels), and of the tables of the basis."""
        pointers, (batch, length, _) = _tables(basis), increments.shape
        tables = pointers.held
        given = (
            *(increments.itemsize, batch, length, basis.channels, basis.depth),
            *(window_count(increments, window, edges), 0 if edges is not None else window),
            *(basis.size, basis.sizes[-1], len(tables["prefixes"])),
            *(len(tables["splits"]), len(tables["change_columns"])),
        )
        return {**dict(zip(SIZES, given, strict=False)), "tables": pointers}

    @classmethod
    def shapes(cls, sizes: Any) -> dict[str, tuple[int, ...]]:
        """Edges are one more than windows."""
        return super().shapes(sizes) | {"edges": (sizes.batch, sizes.windows + 1)}


class _Basis(Protocol):
    """What the library must know of a basis of the free Lie algebra; `paths.LieBasis` is one.

    Its letters, the longest words, how many elements there are of each length and in all, and the
    change of basis by rows, columns and values.
    """

    @property
    def channels(self) -> int: ...
    @property
    def depth(self) -> int: ...
    @property
    def sizes(self) -> tuple[int, ...]: ...
    @property
    def size(self) -> int: ...
    @property
    def change(self) -> Any: ...


KERNEL = Differentiable("log_signatures", "workspace", Task)
"""Coefficients (batch, windows, size) of a basis, from increments (batch, length, channels).

Settings are the basis and the increments in a window, which are not used with edges: (batch,
windows + 1) int64 that do not decrease, in 0..length, where windows begin and end. The gradient is
zero outside of windows.
"""


def obstacle(increments: Tensor, basis: _Basis) -> str | None:
    """Why there is no kernel for increments (batch, length, channels); None if there is."""
    if basis.channels < 2 or not 1 < basis.depth <= DEEPEST:
        return f"{basis.channels} channels at depth {basis.depth} need none"
    return unsuited(increments)


def window_count(increments: Tensor, window: int, edges: Tensor | None) -> int:
    """The number of windows of each path."""
    if edges is not None:
        return edges.shape[1] - 1
    return (increments.shape[1] + window - 1) // window


@lru_cache(maxsize=64)
def _tables(basis: _Basis) -> Tables:
    """The addresses of the tables of a basis, see the header, which hold these by name."""
    words, change = word_tables(basis.channels, basis.depth), basis.change
    tables = {name: getattr(words, name) for name in TABLES[:4]} | {
        "change_starts": np.searchsorted(change.rows.numpy(), np.arange(basis.size + 1)),
        "change_columns": change.columns.numpy(),
        "change_values": change.values.numpy(),
    }
    pointers = Tables(*(tables[name].ctypes.data for name in TABLES))
    pointers.held = tables
    return pointers
