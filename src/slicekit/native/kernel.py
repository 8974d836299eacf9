"""One way to call a kernel: a C struct with sizes, addresses and work space.

An address leaves Python once its tensor is what the kernel takes it for. A struct ends with `work`,
the address of as many bytes as the kernel asks for, and `work_bytes`.

A process that was forked has none of the threads with which its parent computed. Our kernels take
new ones, but torch's own products wait for the old ones for ever. So once a kernel has run,
processes that are forked from this one get one thread in torch, and the kernels follow it. Start
processes by `spawn` or `forkserver` where they should use several.
"""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from ctypes import Structure, byref, c_int64, c_void_p
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from threading import local
from types import SimpleNamespace
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor

from slicekit.native.library import check, library
from slicekit.native.waiting import sleep_soon


class Kind(IntEnum):
    """What a kernel can take A or M to be, as slicekit.h counts them."""

    BLOCKS = 0
    SKEW = 1
    LOW_RANK = 2
    HADAMARD = 3
    SPARSE = 4
    SHARED_FACTORS = 5
    DIAGONAL = 6  # of given transitions only


REAL = {4: torch.float32, 8: torch.float64}
COMPLEX = {4: torch.complex64, 8: torch.complex128}

HALF = torch.bfloat16
"""What memory may have of a path and its states; kernels compute in float32."""

Expected: TypeAlias = tuple[tuple[int, ...] | int, torch.dtype]
"""A shape, or a count of numbers in any shape, and a dtype."""


def plain(x: Tensor) -> Tensor:
    """In memory as it reads: no transposition, conjugation or sign that is yet to be applied."""
    if x.is_contiguous() and not x.is_neg() and not x.is_conj():
        return x
    return x.resolve_conj().resolve_neg().contiguous()


def address(name: str, x: Tensor, expected: Expected) -> int:
    """Where the numbers of a tensor begin.

    Raises:
        ValueError: unless it is a plain tensor on the CPU of the expected size and dtype.
    """
    size, dtype = expected
    if fits(x, size, dtype):
        start = x.data_ptr()
        if start or x.numel() == 0:
            return start
        raise ValueError(f"{name} has no memory behind its shape {tuple(x.shape)}")
    wanted = f"{size} numbers" if isinstance(size, int) else f"shape {tuple(size)}"
    raise ValueError(
        f"{name} is {_said(x)}; a kernel takes {wanted} of {dtype} on the CPU, contiguous"
    )


def fits(x: Tensor, size: tuple[int, ...] | int, dtype: torch.dtype) -> bool:
    """Whether it is a plain tensor on the CPU of that shape, or count of numbers, and dtype."""
    return (
        x.dtype is dtype
        and (x.numel() if isinstance(size, int) else x.shape) == size
        and x.is_cpu
        and x.layout is torch.strided
        and x.is_contiguous()
        and not x.is_neg()
        and not (dtype.is_complex and x.is_conj())
    )


def fill(
    struct: Any, expected: Mapping[str, Expected], arrays: Mapping[str, Tensor | None]
) -> None:
    """Set the addresses of arrays by name, none for None; the tensors must outlive the call."""
    for name, x in arrays.items():
        if x is not None:
            setattr(struct, name, address(name, x, expected[name]))


def _said(x: Tensor) -> str:
    bits = [word for word, bit in (("negative", x.is_neg()), ("conjugate", x.is_conj())) if bit]
    strided = x.layout is torch.strided
    if not strided or not x.is_contiguous():
        bits.append("not contiguous" if strided else str(x.layout))
    told = f"{x.dtype} of shape {tuple(x.shape)} on {x.device}"
    return ", ".join([told, *bits])


@lru_cache(maxsize=64)
def function(name: str) -> Any:
    """A function of the library that returns a status or a size."""
    loaded = library()
    if loaded is None:
        raise RuntimeError(f"native {name}: there is no native library")
    try:
        entry = getattr(loaded.c, name)
    except AttributeError as error:
        raise OSError(
            f"{loaded.path} is older than this slicekit: it has no {name}; install it again"
        ) from error
    entry.restype = c_int64
    return entry


def sizes(*names: str) -> list[tuple[str, Any]]:
    """Fields of a struct that are whole numbers."""
    return [(name, c_int64) for name in names]


def addresses(*names: str) -> list[tuple[str, Any]]:
    """Fields of a struct that are addresses."""
    return [(name, c_void_p) for name in names]


WORK = [*addresses("work"), *sizes("work_bytes")]
"""The last fields of a struct."""


def fields(
    numbers: str,
    operands: Iterable[str],
    results: Iterable[str],
    cotangents: Iterable[str],
    whole: Sequence[str] = (),
) -> list[tuple[str, Any]]:
    """Those of a struct for two passes, in the usual order: `whole` are operands of whole numbers,
    which come first and have no gradients.
    """
    floating = [name for name in operands if name not in whole]
    gradients = (f"in_{name}" for name in floating)
    arrays = addresses(*whole, *floating, *results, *cotangents, *gradients)
    return [*sizes(*numbers.split()), *arrays, *WORK]


WORTHWHILE = 2**23
"""Multiplications below which a second thread costs more than it gains.

They take some tenths of a millisecond. On a machine where nothing else runs a thread is there after
some microseconds, and little is lost by not asking it; on a busy one it has its turn after some
milliseconds, when the work is done.
"""

_used = False


def _keep_to_one() -> None:
    if _used:
        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_to_one)


def threads(work: int) -> int:
    """As many as torch uses; one for work of few multiplications."""
    global _used
    _used = True
    count = 1 if work < WORTHWHILE else torch.get_num_threads()
    if count > 1:
        sleep_soon()
    return count


SMALL = 2**16
"""Bytes of work space that a thread holds on to: asking for them takes longer than tiny kernels."""


def _room(count: int) -> Tensor:
    return torch.empty(count, dtype=torch.uint8, device="cpu")


_small = local()
"""Holds the work space of small calls of each thread: a call is over before the next begins."""


def work_space(count: int) -> Tensor:
    """So many bytes for one call, which may hold anything and are another call's later."""
    if count > SMALL:
        return _room(count)
    held = getattr(_small, "held", None)
    if held is None or held.numel() < count:
        held = _small.held = _room(count)
    return held


class Task(Structure):
    """A struct of sizes and addresses; `real` is the size of a number.

    For two passes it also has the arrays that these take or give, in order, with their shapes in
    terms of its sizes, such as "batch length 4 dim", or "" if only `shapes` can tell:
        operands: tensors or None; they have gradients where the struct does.
        results: what the forward pass writes.
        cotangents: names of the gradients that the backward pass is given.
        whole: names of arrays of whole numbers.
        settings: names of the sizes that are told; others are read off the operands.
        multiplications: sizes whose product is about how many a pass takes.
    """

    real: int
    operands: ClassVar[Mapping[str, str]] = {}
    results: ClassVar[Mapping[str, str]] = {}
    cotangents: ClassVar[tuple[str, ...]] = ()
    whole: ClassVar[tuple[str, ...]] = ()
    settings: ClassVar[tuple[str, ...]] = ()
    multiplications: ClassVar[str] = ""

    @classmethod
    def sizes_of(cls, *given: Any, **_: Any) -> dict[str, Any]:
        """The sizes, but for threads, from settings and operands; whoever traces has symbols."""
        told = dict(zip(cls.settings, given, strict=False))
        operands = given[len(told) :]
        read = {name: operands[i].shape[axis] for name, i, axis in _places(cls)}
        return {"real": operands[0].itemsize, **told, **read}

    @classmethod
    def cost(cls, sizes: Any) -> int:
        """About how many multiplications a pass takes."""
        return math.prod(_shape(cls.multiplications, sizes))

    @classmethod
    def shapes(cls, sizes: Any) -> dict[str, tuple[int, ...]]:
        """The shapes of arrays, by what has the sizes; a gradient, `in_{name}`, has the same."""
        return {name: _shape(x, sizes) for name, x in {**cls.operands, **cls.results}.items()}

    def expected(self) -> dict[str, Expected]:
        """The shape and dtype of each array."""
        dtype, whole = self.dtype(), self.whole
        pairs = self.shapes(self).items()
        arrays: dict[str, Expected] = {
            name: (x, torch.int64 if name in whole else dtype) for name, x in pairs
        }
        return arrays | {f"in_{name}": wanted for name, wanted in arrays.items()}

    def dtype(self) -> torch.dtype:
        """Of floating arrays; others than kernels take do not fit it, and are refused."""
        return REAL.get(self.real, torch.float32)


def _shape(text: str, sizes: Any) -> tuple[int, ...]:
    return tuple(int(x) if x.isdigit() else getattr(sizes, x) for x in text.split())


@lru_cache(maxsize=64)
def _places(task: type[Task]) -> list[tuple[str, int, int]]:
    """Where the sizes of a struct are read off: at which operand first, and along which axis."""
    places: dict[str, tuple[int, int]] = {}
    for i, shape in enumerate(task.operands.values()):
        for axis, name in enumerate(shape.split()):
            if hasattr(task, name):
                places.setdefault(name, (i, axis))
    return [(name, *place) for name, place in places.items()]


def windows(length: int, rescale: int) -> int:
    """How many times a state is divided, every `rescale` steps."""
    return -(-length // rescale)


@dataclass(frozen=True, eq=False)
class Kernel:
    """The functions of the library that take one struct.

    Args:
        name: `slicekit_{name}_{way}` runs it.
        measure: `slicekit_{name}_{measure}` says how much work space it needs, `{way}` for the way.
        told: whether that function is also told if the pass is a backward one.
    """

    name: str
    measure: str
    told: bool = field(default=False, kw_only=True)

    def call(self, way: str, task: Any, arrays: Mapping[str, Tensor | None]) -> None:
        """Run it, with as much work space as it asks for.

        Args:
            way: which of its functions, such as "forward".
            task: its sizes.
            arrays: plain tensors under the task's names, or None for those that are not there.

        Raises:
            ValueError: if one is not what the kernel takes it for.
            RuntimeError: if there is no library, or the kernel refuses what it is given.
        """
        fill(task, task.expected(), arrays)
        self.run(way, task, self.bytes(way, task))

    def bytes(self, way: str, task: Any) -> int:
        """How much work space it asks for."""
        name = f"slicekit_{self.name}_{self.measure.format(way=way)}"
        told = (c_int64(way == "backward"),) if self.told else ()
        needed = function(name)(byref(task), *told)
        check(max(0, -needed), name)
        return needed

    def run(self, way: str, task: Any, needed: int) -> None:
        """Run it with that much work space; the arrays are set."""
        name = f"slicekit_{self.name}_{way}"
        work = work_space(needed)
        task.work, task.work_bytes = work.data_ptr(), needed
        status = function(name)(byref(task))
        if status:
            check(status, name)


@lru_cache(maxsize=256)
def _known(task: type[Task], *sizes: Any) -> tuple[dict[str, Expected], int]:
    """The arrays and cost of a task of these sizes: to find them takes longer than tiny kernels."""
    made = task(**dict(sizes))
    return made.expected(), task.cost(made)


@dataclass(frozen=True, eq=False)
class Differentiable(Kernel):
    """A kernel with a forward and a backward pass, in the form in which operators are given them.

    Args:
        name, measure, told: as for all kernels.
        task: its struct.

    Operands are tensors of one dtype on the CPU, whole numbers in int64, or None if not there.
    Both passes raise ValueError and RuntimeError as `call` does.
    """

    task: type[Task]

    def problem(self, *plan: Any) -> tuple[Any, dict[str, Tensor | None]]:
        """The sizes, and what is given, by name, from (*settings, operands)."""
        *settings, operands = plan
        sizes = self.task.sizes_of(*settings, *operands)
        task: Any = self.task(**sizes)
        task.arrays, cost = _known(self.task, *sizes.items())
        task.threads = threads(cost)
        task.held = sizes  # as long as the addresses among them are used
        return task, dict(zip(task.operands, operands, strict=True))

    def forward(self, *plan: Any, room: Mapping[str, Tensor] | None = None) -> list[Tensor]:
        """(*settings, operands) -> results, those that there is room for in its place."""
        made = self._make("forward", *self.problem(*plan), self.task.results, room)
        return list(made.values())

    def shapes(self, *plan: Any) -> list[Tensor]:
        """(*settings, operands) -> tensors like the results, of sizes that may be symbolic."""
        *settings, operands = plan
        sizes: Any = SimpleNamespace(**self.task.sizes_of(*settings, *operands))
        shapes = self.task.shapes(sizes)
        return [operands[0].new_empty(shapes[name]) for name in self.task.results]

    def backward(self, *given: Any) -> list[Tensor | None]:
        """(*settings, operands, results, cotangents, needed) -> gradients of all operands.

        Results may be None where they are not read; gradients are where an operand has none.
        """
        *plan, results, cotangents, _ = given
        task, arrays = self.problem(*plan)
        names = [f"in_{name}" for name, x in arrays.items() if x is not None]
        names = [name for name in names if hasattr(self.task, name)]
        pairs = zip(task.results, results, strict=True)
        arrays |= {name: x for name, x in pairs if x is not None}
        arrays |= zip(task.cotangents, cotangents, strict=True)
        made = self._make("backward", task, arrays, names)
        return [made.get(f"in_{name}") for name in task.operands]

    def _make(
        self,
        way: str,
        task: Any,
        given: Mapping[str, Tensor | None],
        names: Iterable[str],
        room: Mapping[str, Tensor] | None = None,
    ) -> dict[str, Tensor]:
        """Run a pass, and give what it writes by name: new arrays, zero if the batch is empty, but
        where there is room.
        """
        expected, blank = task.arrays, torch.empty if task.batch else torch.zeros
        room = room or {}
        made = {
            name: room[name]
            if name in room
            else blank(expected[name][0], dtype=expected[name][1], device="cpu")
            for name in names
        }
        ready = {name: None if x is None else plain(x) for name, x in given.items()}
        fill(task, expected, ready | made)
        self.run(way, task, self.bytes(way, task))
        return made
