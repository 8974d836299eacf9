"""The fused recurrence: transitions made from increments, used at once, made again or kept.

See native/include/slicekit_panels.h, which this mirrors.
"""

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, Structure, byref, c_int64, c_void_p
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor

from slicekit.native.arrays import REAL, Expected, address, fill
from slicekit.native.library import check, library
from slicekit.native.threads import threads

BLOCKS, SKEW, LOW_RANK, HADAMARD = range(4)
MOST_PARTS = 256
MOST_RANK = 256


@lru_cache(maxsize=8)
def function(name: str) -> Any:
    """A function of the library that takes a problem and returns a status or a size."""
    loaded = library()
    if loaded is None:
        raise RuntimeError(f"native {name}: there is no native library")
    found = getattr(loaded.c, name)
    found.restype = c_int64
    return found


class _Part(Structure):
    _fields_ = [(name, c_int64) for name in ("kind", "dim", "size", "exponential")]


class _Problem(Structure):
    _fields_ = [
        *(
            (name, c_int64)
            for name in (
                "real",
                "batch",
                "length",
                "channels",
                "dim",
                "columns",
                "vocabulary",
                "parts",
                "rescale",
                "restore",
                "threads",
            )
        ),
        ("part", POINTER(_Part)),
        ("parameters", POINTER(c_void_p)),
        *(
            (name, c_void_p)
            for name in (
                "increments",
                "index",
                "state",
                "inputs",
                "states",
                "factors",
                "kept",
                "in_states",
                "in_last",
            )
        ),
        ("in_parameters", POINTER(c_void_p)),
        *((name, c_void_p) for name in ("in_increments", "in_state", "in_inputs", "workspace")),
        ("workspace_bytes", c_int64),
    ]


@dataclass(frozen=True)
class Part:
    """One part of a direct sum.

    Attributes:
        kind: BLOCKS, SKEW, LOW_RANK or HADAMARD.
        dim: rows of the state.
        size: block size, or rank.
        exponential: whether its flow is exp(A) instead of I + A.
        tensors: how many parameters it has.
    """

    kind: int
    dim: int
    size: int = 0
    exponential: bool = False

    @property
    def tensors(self) -> int:
        """Number of parameters."""
        return 3 if self.kind == LOW_RANK else 1

    @property
    def numbers(self) -> tuple[int, ...]:
        """How many numbers each parameter has for a channel."""
        if self.kind == BLOCKS:
            return (self.dim * self.size,)
        if self.kind == SKEW:
            return (self.dim * (self.size - 1) // 2,)
        return (self.dim, *[self.dim * self.size] * (self.tensors - 1))


@dataclass(frozen=True, eq=False)
class Panels:
    """A problem, with plain tensors of one dtype on the CPU: each is checked before it is used.

    Attributes:
        parts: of the direct sum.
        parameters: theirs, in order, (channels, ...) each.
        increments: (batch, length, channels), or the table (vocabulary, channels) with an index.
        index: (batch, length) rows of the table, or None.
        state: (batch, dim, columns).
        inputs: (batch, length, dim, columns) or None.
        rescale: steps between two divisions of the state; 0 for none.
        restore: steps after which rotations get their norms back; 0 for never.
    """

    parts: tuple[Part, ...]
    parameters: tuple[Tensor, ...]
    increments: Tensor
    index: Tensor | None
    state: Tensor
    inputs: Tensor | None
    rescale: int
    restore: int

    def _shape(self) -> tuple[int, int]:
        where = self.increments if self.index is None else self.index
        return where.shape[0], where.shape[1]

    def _sizes(self) -> _Problem:
        """The problem without its arrays."""
        batch, length = self._shape()
        table = 0 if self.index is None else self.increments.shape[0]
        count, made = len(self.parts), sum(sum(p.numbers) for p in self.parts)
        parts = (_Part * count)(
            *(_Part(p.kind, p.dim, p.size, int(p.exponential)) for p in self.parts)
        )
        # int: shapes may be symbolic where only sizes are asked for.
        return _Problem(
            real=self.state.element_size(),
            batch=int(batch),
            length=int(length),
            channels=int(self.increments.shape[-1]),
            dim=int(self.state.shape[1]),
            columns=int(self.state.shape[2]),
            vocabulary=int(table),
            parts=count,
            rescale=self.rescale,
            restore=self.restore,
            threads=threads(int(batch * length * self.increments.shape[-1] * made)),
            part=parts,
        )

    def _problem(self) -> _Problem:
        problem = self._sizes()
        problem.parameters = self._pointers(self.parameters)
        fill(
            problem,
            self._expected,
            {
                "increments": self.increments,
                "index": self.index,
                "state": self.state,
                "inputs": self.inputs,
            },
        )
        return problem

    @cached_property
    def _expected(self) -> dict[str, Expected]:
        """The shape and dtype of each array."""
        batch, length = self._shape()
        dtype = self.state.dtype
        state = self.state.shape, dtype
        states = (batch, length, *self.state.shape[1:]), dtype
        path = self.increments.shape, dtype
        return {
            "increments": path,
            "in_increments": path,
            "index": ((batch, length), torch.int64),
            "state": ((batch, *self.state.shape[1:]), REAL.get(dtype.itemsize, torch.float32)),
            "in_state": state,
            "in_last": state,
            "states": states,
            "in_states": states,
            "inputs": states,
            "in_inputs": states,
            "factors": (self._factor_shape(), dtype),
        }

    def _factor_shape(self) -> tuple[int, ...]:
        batch, length = self._shape()
        if not self.rescale:
            return (0,)
        return (batch, -(-length // self.rescale), *self.state.shape[1:])

    def _keep(self, problem: _Problem, kept: Tensor | None) -> None:
        """Set the address of the transitions that are kept, if they are."""
        if kept is not None:
            problem.kept = kept.data_ptr()  # how many there are depends on whether there are any
            numbers = function("slicekit_panels_kept")(byref(problem))
            problem.kept = address("kept", kept, ((numbers,), REAL[problem.real]))

    def _pointers(self, tensors: Sequence[Tensor]) -> ctypes.Array:
        """Three for each part, null where it has fewer parameters."""
        addresses: list[int | None] = []
        given, dtype = iter(tensors), REAL.get(self.state.element_size(), torch.float32)
        channels = self.increments.shape[-1]
        for part in self.parts:
            counts = (channels * numbers for numbers in part.numbers)
            own = [address("a parameter", next(given), (count, dtype)) for count in counts]
            addresses += [*own, *[None] * (3 - part.tensors)]
        return (c_void_p * len(addresses))(*addresses)

    def _workspace(self, problem: _Problem, backward: bool) -> Tensor:
        size = function("slicekit_panels_workspace")(byref(problem), int(backward))
        check(max(0, -size), "slicekit_panels_workspace")
        workspace = torch.empty(size, dtype=torch.uint8)
        problem.workspace = workspace.data_ptr()
        problem.workspace_bytes = size
        return workspace

    def kept_numbers(self) -> int:
        """How many numbers hold all transitions; 0 where they can't be kept."""
        numbers = function("slicekit_panels_kept")(byref(self._sizes()))
        check(max(0, -numbers), "slicekit_panels_kept")
        return numbers

    def forward(self, kept: Tensor | None) -> tuple[Tensor, Tensor]:
        """Run all steps.

        Args:
            kept: (kept_numbers,), to be filled with the transitions; None not to keep them.

        Returns:
            The states (batch, length, dim, columns) and what they were divided by at the beginning
            of every window of `rescale` steps, (batch, windows, dim, columns), or nothing.
        """
        problem = self._problem()
        batch, length = self._shape()
        states = self.state.new_empty(batch, length, *self.state.shape[1:])
        factors = self.state.new_ones(self._factor_shape())
        fill(problem, self._expected, {"states": states, "factors": factors})
        self._keep(problem, kept)
        workspace = self._workspace(problem, False)
        check(function("slicekit_panels_forward")(byref(problem)), "slicekit_panels_forward")
        del workspace  # held until here
        return states, factors

    def backward(
        self,
        states: Tensor,
        factors: Tensor,
        kept: Tensor | None,
        in_states: Tensor,
        in_last: Tensor,
        wanted: bool = True,
        trained: bool = True,
    ) -> tuple[list[Tensor], Tensor, Tensor, Tensor | None]:
        """Gradients of the parameters, the increments or table, the state and the inputs.

        Each of the first two takes a third of the products. That of the increments is empty unless
        it is wanted, and those of the parameters are unless these are trained.
        """
        problem = self._problem()
        found = [torch.empty_like(x) if trained else x.new_empty(0) for x in self.parameters]
        in_increments = self.increments.new_empty(self.increments.shape if wanted else 0)
        in_state = torch.empty_like(self.state)
        in_inputs = None if self.inputs is None else torch.empty_like(self.inputs)
        self._keep(problem, kept)
        arrays = {
            "states": states,
            "factors": factors,
            "in_states": in_states,
            "in_last": in_last,
            "in_increments": in_increments if wanted else None,
            "in_state": in_state,
            "in_inputs": in_inputs,
        }
        fill(problem, self._expected, arrays)
        if trained:
            problem.in_parameters = self._pointers(found)
        workspace = self._workspace(problem, True)
        check(function("slicekit_panels_backward")(byref(problem)), "slicekit_panels_backward")
        del workspace
        if states.shape[0] == 0:
            for x in (*found, in_increments):
                x.zero_()
        return found, in_increments, in_state, in_inputs
