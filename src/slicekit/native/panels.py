"""The fused recurrence: transitions made from increments, used at once, made again or kept.

See native/include/slicekit_panels.h, which this mirrors.
"""

import ctypes
import math
from collections.abc import Callable, Sequence
from ctypes import POINTER, Structure, byref, c_double, c_void_p
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from slicekit.native.kernel import (
    HALF,
    REAL,
    WORK,
    Expected,
    Kernel,
    Kind,
    address,
    addresses,
    fill,
    function,
    sizes,
    threads,
    windows,
)
from slicekit.native.library import check, load

MOST_PARTS = 256
MOST_RANK = 256

RESTORE_EVERY = 32
"""Steps after which rotations get their norm back: twice as often as `Chunked` does it, as it costs
a kernel less."""

CACHED, FEWEST = 2**21, (8, 48)
"""Channels from which on it is faster to keep transitions than to make them again: where a cache
holds them, which are at most so many bytes then, and where none does."""

KERNEL = Kernel("panels", "workspace", told=True)


class _Part(Structure):
    _fields_ = sizes("kind", "dim", "size", "exponential")


class _Problem(Structure):
    _fields_ = [
        *sizes("real", "batch", "length", "channels", "dim", "columns", "vocabulary", "parts"),
        *sizes("rescale", "restore", "threads", "made", "still", "half", "directed"),
        ("pace", c_double),
        ("part", POINTER(_Part)),
        ("parameters", POINTER(c_void_p)),
        *addresses("increments", "index", "lengths", "state", "inputs"),
        *addresses("states", "directions", "last", "factors", "kept"),
        *addresses("in_states", "in_last"),
        ("in_parameters", POINTER(c_void_p)),
        *addresses("in_increments", "in_state", "in_inputs"),
        *addresses("product", "powers", "driven"),
        *WORK,
    ]


class Part(NamedTuple):  # no dataclass: those take far longer to look up
    """One part of a direct sum.

    Attributes:
        kind: of the first four kinds; `StepPlan` also takes shared factors.
        dim: rows of the state.
        size: block size, or rank.
        exponential: whether its flow is exp(A) instead of I + A.
    """

    kind: Kind
    dim: int
    size: int = 0
    exponential: bool = False

    @property
    def numbers(self) -> tuple[int, ...]:
        """How many numbers each parameter has for a channel."""
        if self.kind == Kind.BLOCKS:
            return (self.dim * self.size,)
        if self.kind == Kind.SKEW:
            return (self.dim * (self.size - 1) // 2,)
        if self.kind in (Kind.LOW_RANK, Kind.SHARED_FACTORS):
            return self.dim, self.dim * self.size, self.dim * self.size
        return (self.dim,)


@dataclass(eq=False)  # not frozen: that takes longer than the checks
class Panels:
    """A problem, with plain tensors of one dtype on the CPU: each is checked before it is used.

    Attributes:
        parts: of the direct sum.
        parameters: theirs, in order, (channels, ...) each.
        increments: (batch, length, channels), or the table (vocabulary, channels) with an index;
            with a pace, values with one channel less.
        index: (batch, length) rows of the table, or None; -1 drives nothing.
        state: (batch, dim, columns), or (batch, dim): then no states have columns.
        inputs: (batch, length, dim, columns) or None.
        rescale: steps between two divisions of the state; 0 for none.
        restore: steps after which rotations get their norms back; 0 for never.
        pace: if not 0, the increments are pace (1, values), which nobody writes down.
        still: whether the first position drives nothing, so that its state is the initial one.
        lengths: (batch,), positions from which on nothing drives, whatever stands there, or None;
            not with an index.
        half: whether increments (but for a table), states, directions and the gradients of these
            are bfloat16, and all else float32; not with inputs.
        directed: whether directions of the states are asked for, with rescale: then the gradients
            of states that go in are those of directions; not with inputs or several columns.
    """

    parts: tuple[Part, ...]
    parameters: Sequence[Tensor]
    increments: Tensor
    index: Tensor | None
    state: Tensor
    inputs: Tensor | None
    rescale: int
    restore: int = RESTORE_EVERY
    pace: float = 0.0
    still: bool = False
    lengths: Tensor | None = None
    half: bool = False
    directed: bool = False

    @cached_property
    def plan(self) -> "Plan":
        """What follows from the sizes alone."""
        # int: shapes may be symbolic where only sizes are asked for.
        path = tuple(map(int, self.increments.shape))
        state = tuple(map(int, self.state.shape))
        index = None if self.index is None else tuple(map(int, self.index.shape))
        rescaled = (self.rescale, self.restore, self.directed)
        settings = (*rescaled, self.pace, self.still, self.half)
        loaded, _ = load()
        isa = None if loaded is None else loaded.isa
        return _plan(self.parts, self.state.dtype, path, index, state, settings, isa)

    def worth_keeping(self, limit: int) -> int:
        """How many numbers of the transitions to keep within so many bytes: none where they are
        soon made again.
        """
        sizes, numbers = self.plan.sizes, self.plan.kept()
        size = numbers * sizes.real
        fewest = 0 if sizes.vocabulary else FEWEST[size > CACHED]
        return numbers if size <= limit and sizes.channels >= fewest else 0

    def _problem(self) -> _Problem:
        """For the kernel, but for what it writes."""
        plan = self.plan
        problem = _Problem.from_buffer_copy(plan.sizes)
        problem.parameters = plan.pointers(self.parameters)
        problem.threads = threads(plan.work)
        arrays = {"increments": self.increments, "index": self.index, "lengths": self.lengths}
        fill(problem, plan.expected, arrays | {"state": self.state, "inputs": self.inputs})
        return problem

    def product(self, kept: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """All transitions of each sequence as one, block by block; only the state's shape is used.

        Returns:
            The product P and powers E, both (batch, dim, rows of the largest block): in a block the
            entry of row i and column j is P_ij 2^(E_ij), where columns were divided every `rescale`
            steps, and zero beyond its last column. With inputs, also what these make of a state
            that is zero at first, (batch, dim, columns).
        """
        plan, problem, driven = self.plan, self._problem(), None
        product = self.state.new_empty(*self.state.shape[:2], plan.columns())
        powers = product.new_empty(product.shape, dtype=torch.int64)
        problem.product, problem.powers = product.data_ptr(), powers.data_ptr()
        if self.inputs is not None:
            driven = torch.empty_like(self.state)
            problem.driven = driven.data_ptr()
        plan.keep(problem, kept)
        plan.run("product", problem)
        return product, powers, driven

    def forward(
        self,
        kept: Tensor | None,
        made: bool = False,
        last: Tensor | None = None,
        directions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Run all steps.

        Args:
            kept: (plan.kept(),), to be filled with the transitions; None not to keep them.
            made: whether it is filled already, by `product`.
            last: like the state, to be filled with the last one before it is rounded, where states
                are bfloat16.
            directions: like the states, to be filled if `directed`.

        Returns:
            The states (batch, length, dim, columns) and what they were divided by at the beginning
            of every window of `rescale` steps, (batch, windows, dim, columns), or None.
        """
        plan, problem = self.plan, self._problem()
        shape, dtype = plan.expected["states"]
        states, factors = self.state.new_empty(shape, dtype=dtype), None
        problem.states = states.data_ptr()
        fill(problem, plan.expected, {"last": last, "directions": directions})
        if self.rescale:
            factors = self.state.new_ones(plan.expected["factors"][0])
            problem.factors = factors.data_ptr()
        plan.keep(problem, kept)
        problem.made = int(made)
        plan.run("forward", problem)
        return states, factors

    def backward(
        self,
        states: Tensor,
        factors: Tensor | None,
        kept: Tensor | None,
        in_states: Tensor,
        in_last: Tensor | None,
        wanted: bool = True,
        trained: bool = True,
    ) -> tuple[list[Tensor], Tensor, Tensor, Tensor | None]:
        """Gradients of the parameters, the increments or table, the state and the inputs.

        Each of the first two takes a third of the products. That of the increments (with a pace: of
        the values) is empty unless it is wanted, and those of the parameters are unless these are
        trained. Without `in_last` nothing but the states has a gradient.
        """
        plan, problem = self.plan, self._problem()
        in_parameters = [
            torch.empty_like(x) if trained else x.new_empty(0) for x in self.parameters
        ]
        in_increments = self.increments.new_empty(self.increments.shape if wanted else 0)
        in_state = torch.empty_like(self.state)
        plan.keep(problem, kept)
        problem.in_state = in_state.data_ptr()
        arrays = {"states": states, "in_states": in_states, "in_last": in_last}
        fill(problem, plan.expected, arrays | {"factors": factors if self.rescale else None})
        in_inputs = None
        if self.inputs is not None:
            in_inputs = torch.empty_like(self.inputs)
            problem.in_inputs = in_inputs.data_ptr()
        if wanted:
            problem.in_increments = in_increments.data_ptr()
        if trained:
            problem.in_parameters = plan.pointers(in_parameters)
        plan.run("backward", problem)
        if states.shape[0] == 0:
            for x in (*in_parameters, in_increments):
                x.zero_()
        return in_parameters, in_increments, in_state, in_inputs


class Plan:
    """What follows from the sizes of a problem alone, for all problems of these sizes.

    Attributes:
        sizes: the problem without its arrays.
        expected: the shape and dtype of each array.
        work: about how many multiplications a forward pass takes.
    """

    def __init__(
        self,
        parts: tuple[Part, ...],
        dtype: torch.dtype,
        path: tuple[int, ...],
        index: tuple[int, ...] | None,
        state: tuple[int, ...],
        settings: tuple[int, int, bool, float, bool, bool],
    ) -> None:
        """Write it down for the kernel; the shapes are those of `Panels`."""
        dtype = REAL.get(dtype.itemsize, torch.float32)  # what kernels take; others are refused
        rescale, restore, directed, pace, still, half = settings
        channels, columns = path[-1] + bool(pace), state[2:]
        batch, length = (path if index is None else index)[:2]
        self._parts = (_Part * len(parts))(*(_Part(*part) for part in parts))
        self.sizes = _Problem(
            real=dtype.itemsize,
            batch=batch,
            length=length,
            channels=channels,
            dim=state[1],
            columns=math.prod(columns),
            vocabulary=0 if index is None else path[0],
            parts=len(parts),
            rescale=rescale,
            restore=restore,
            threads=1,
            still=still,
            half=half,
            directed=directed,
            pace=pace,
            part=self._parts,
        )
        self.expected = self._expected(dtype, columns)
        numbers = sum(sum(part.numbers) for part in parts)  # made for a channel of a step
        making = channels * numbers + sum(10 * p.dim * p.size**2 for p in parts if p.exponential)
        made = batch * length if index is None else path[0]
        self.work = made * making + batch * length * self.sizes.columns * numbers
        self._parameters = [
            (3 * p + i, (channels * n, dtype))
            for p, part in enumerate(parts)
            for i, n in enumerate(part.numbers)
        ]
        self._pointers = c_void_p * (3 * len(parts))
        self._measured: dict[tuple, int] = {}

    def _expected(self, dtype: torch.dtype, columns: tuple[int, ...]) -> dict[str, Expected]:
        q = self.sizes
        state, factors = (q.batch, q.dim, *columns), (0,)
        path = (q.vocabulary,) if q.vocabulary else (q.batch, q.length)
        path = (*path, q.channels - bool(q.pace))
        states = (q.batch, q.length, q.dim, *columns)
        if q.rescale:
            factors = (q.batch, windows(q.length, q.rescale), q.dim, *columns)
        shapes = {"increments": path, "state": state, "last": state, "states": states}
        shapes |= {"directions": states, "inputs": states, "factors": factors}
        arrays: dict[str, Expected] = {name: (shape, dtype) for name, shape in shapes.items()}
        if q.half:
            path = () if q.vocabulary else ("increments",)
            arrays |= {name: (shapes[name], HALF) for name in (*path, "states", "directions")}
        arrays |= {f"in_{name}": wanted for name, wanted in arrays.items()}
        whole = {"index": (q.batch, q.length), "lengths": (q.batch,)}
        return arrays | {name: (shape, torch.int64) for name, shape in whole.items()}

    def columns(self) -> int:
        """Rows of the largest block, which the product of all transitions has side by side."""
        measure = function("slicekit_panels_columns")
        return self._once(("columns",), lambda: measure(byref(self.sizes)))

    def kept(self, problem: _Problem | None = None) -> int:
        """How many numbers hold all transitions of such a problem; 0 where they can't be kept."""
        problem = self.sizes if problem is None else problem
        measure = function("slicekit_panels_kept")
        return self._once(("kept", problem.threads), lambda: measure(byref(problem)))

    def pointers(self, tensors: Sequence[Tensor]) -> ctypes.Array:
        """Three for each part, null where it has fewer parameters."""
        pointers = self._pointers()
        for (place, expected), x in zip(self._parameters, tensors, strict=True):
            pointers[place] = address("a parameter", x, expected)
        return pointers

    def keep(self, problem: _Problem, kept: Tensor | None) -> None:
        """Set the address of the transitions that are kept, if they are."""
        if kept is not None:
            problem.kept = address("kept", kept, ((self.kept(problem),), REAL[problem.real]))

    def run(self, way: str, problem: _Problem) -> None:
        """Run a pass: its work space also depends on threads and on which arrays there are."""
        arrays = (problem.kept, problem.inputs, problem.lengths)
        gradients = (problem.in_increments, problem.in_parameters)
        key = (way, problem.threads, *map(bool, (*arrays, *gradients)))
        KERNEL.run(way, problem, self._once(key, lambda: KERNEL.bytes(way, problem)))

    def _once(self, key: tuple, measure: Callable[[], int]) -> int:
        if key not in self._measured:
            measured = measure()
            check(max(0, -measured), "slicekit_panels_kept")
            self._measured[key] = measured
        return self._measured[key]


@lru_cache(maxsize=256)
def _plan(*key: Any) -> Plan:
    """The key is all that a plan depends on: the instruction set too, which may be changed."""
    return Plan(*key[:-1])
