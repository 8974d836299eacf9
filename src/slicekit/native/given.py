"""Recurrences with given transitions; see native/include/slicekit_given.h, which this mirrors.

Diagonal transitions are real or complex; blocks and low-rank transitions are real.
"""

import ctypes

import torch
from torch import Tensor

from slicekit.native.arrays import COMPLEX, REAL, Expected, fill
from slicekit.native.library import check, library

DIAGONAL, BLOCKS, LOW_RANK = range(3)

SIZES = (
    *("kind", "real", "complex", "batch", "length", "dim", "columns"),
    *("block", "rank", "rescale", "threads"),
)
OPERANDS = (
    *("diagonal", "blocks", "left", "right", "state"),
    *("input", "input_left", "input_right", "readout"),
)
RESULTS = ("outputs", "last", "factors", "starts")
GRADIENTS = tuple(f"in_{name}" for name in OPERANDS)


class Task(ctypes.Structure):
    """`slicekit_given` of slicekit_given.h."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in SIZES),
        *((name, ctypes.c_void_p) for name in OPERANDS),
        *((name, ctypes.c_void_p) for name in RESULTS),
        *((name, ctypes.c_void_p) for name in ("in_outputs", "in_last")),
        *((name, ctypes.c_void_p) for name in GRADIENTS),
        ("work", ctypes.c_void_p),
        ("work_bytes", ctypes.c_int64),
    ]

    def expected(self, readout: bool) -> dict[str, Expected]:
        """The shape and dtype of each array, from the sizes and whether there is a readout."""
        dtype, real = (COMPLEX if self.complex else REAL)[self.real], REAL[self.real]
        batch, length, dim, columns = self.batch, self.length, self.dim, self.columns
        block, few = max(1, self.block), (batch, length, columns)
        shapes: dict[str, tuple[int, ...]] = {
            **dict.fromkeys(("diagonal", "input_left", "readout"), (batch, length, dim)),
            "blocks": (batch, length, dim // block, block, block),
            **dict.fromkeys(("left", "right"), (batch, length, dim, self.rank)),
            **dict.fromkeys(("state", "last"), (batch, dim, columns)),
            "input": (batch, length, dim, columns),
            "input_right": few,
            "outputs": few if readout else (batch, length, dim, columns),
            "starts": (0,),
        }
        if readout:
            size = chunk_size(dtype, dim, columns)
            shapes["starts"] = (-(-length // size), batch, dim, columns)
        found: dict[str, Expected] = {name: (shape, dtype) for name, shape in shapes.items()}
        found |= {f"in_{name}": wanted for name, wanted in found.items()}
        return found | {"factors": (self._factors(), real)}

    def _factors(self) -> tuple[int, ...]:
        """One for each number of a state, at the beginning of each window of `rescale` steps."""
        if not self.rescale:
            return (0,)
        return (self.batch, -(-self.length // self.rescale), self.dim, self.columns)


def chunk_size(dtype: torch.dtype, dim: int, columns: int) -> int:
    """Steps between two states that are stored where a readout is given."""
    found = library()
    assert found is not None
    function = found.c.slicekit_given_chunk
    function.restype = ctypes.c_int64
    sizes = (dtype.to_real().itemsize, int(dtype.is_complex), dim, columns)
    return function(*map(ctypes.c_int64, sizes))


def call(direction: str, task: Task, arrays: dict[str, Tensor]) -> None:
    """Run a task forward or backward, with as much work space as it asks for.

    Args:
        direction: "forward" or "backward".
        task: its sizes.
        arrays: plain tensors under the task's names.

    Raises:
        ValueError: if one is not what the kernel takes it for.
    """
    found = library()
    assert found is not None
    function = f"slicekit_given_{direction}"
    measure, run = getattr(found.c, f"{function}_work"), getattr(found.c, function)
    measure.restype = run.restype = ctypes.c_int64
    fill(task, task.expected("readout" in arrays), arrays)
    work = torch.empty(max(measure(ctypes.byref(task)), 0), dtype=torch.uint8)
    task.work, task.work_bytes = work.data_ptr(), work.numel()
    check(run(ctypes.byref(task)), function)
