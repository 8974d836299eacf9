"""The fused recurrence: transitions made from increments, used at once, made again or kept.

See native/include/slicekit_panels.h, which this mirrors.
"""

import ctypes
from collections.abc import Callable, Sequence
from ctypes import POINTER, Structure, byref, c_double, c_void_p
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from slicekit.native.arrays import REAL, Expected, address, fill
from slicekit.native.kernel import WORK, Kernel, addresses, function, sizes
from slicekit.native.kinds import Kind
from slicekit.native.library import check, library
from slicekit.native.threads import threads

MOST_PARTS = 256
MOST_RANK = 256

CACHED, FEWEST = 2**21, (8, 48)
"""Channels from which on it is faster to keep transitions than to make them again: where a cache
holds them, which are at most so many bytes then, and where none does."""

KERNEL = Kernel("panels", "slicekit_panels_workspace", told=True)


class _Part(Structure):
    _fields_ = sizes("kind", "dim", "size", "exponential")


class _Problem(Structure):
    _fields_ = [
        *sizes("real", "batch", "length", "channels", "dim", "columns", "vocabulary", "parts"),
        *sizes("rescale", "restore", "threads", "made", "still"),
        ("pace", c_double),
        ("part", POINTER(_Part)),
        ("parameters", POINTER(c_void_p)),
        *addresses("increments", "index", "state", "inputs", "states", "factors", "kept"),
        *addresses("in_states", "in_last"),
        ("in_parameters", POINTER(c_void_p)),
        *addresses("in_increments", "in_state", "in_inputs"),
        *addresses("product", "powers", "driven"),
        *WORK,
    ]


@dataclass(frozen=True)
class Part:
    """One part of a direct sum.

    Attributes:
        kind: of the first four kinds.
        dim: rows of the state.
        size: block size, or rank.
        exponential: whether its flow is exp(A) instead of I + A.
        tensors: how many parameters it has.
    """

    kind: Kind
    dim: int
    size: int = 0
    exponential: bool = False

    @property
    def tensors(self) -> int:
        """Number of parameters."""
        return 3 if self.kind == Kind.LOW_RANK else 1

    @property
    def numbers(self) -> tuple[int, ...]:
        """How many numbers each parameter has for a channel."""
        if self.kind == Kind.BLOCKS:
            return (self.dim * self.size,)
        if self.kind == Kind.SKEW:
            return (self.dim * (self.size - 1) // 2,)
        return (self.dim, *[self.dim * self.size] * (self.tensors - 1))


@dataclass(eq=False)  # not frozen: that takes longer than the checks
class Panels:
    """A problem, with plain tensors of one dtype on the CPU: each is checked before it is used.

    Attributes:
        parts: of the direct sum.
        parameters: theirs, in order, (channels, ...) each.
        increments: (batch, length, channels), or the table (vocabulary, channels) with an index;
            with a pace, values with one channel less.
        index: (batch, length) rows of the table, or None.
        state: (batch, dim, columns).
        inputs: (batch, length, dim, columns) or None.
        rescale: steps between two divisions of the state; 0 for none.
        restore: steps after which rotations get their norms back; 0 for never.
        pace: if not 0, the increments are pace (1, values), which nobody writes down.
        still: whether the first position drives nothing, so that its state is the initial one.
    """

    parts: tuple[Part, ...]
    parameters: tuple[Tensor, ...]
    increments: Tensor
    index: Tensor | None
    state: Tensor
    inputs: Tensor | None
    rescale: int
    restore: int
    pace: float = 0.0
    still: bool = False

    @cached_property
    def plan(self) -> "Plan":
        """What follows from the sizes alone."""
        where = self.increments if self.index is None else self.index
        # int: shapes may be symbolic where only sizes are asked for.
        batch, length, channels = map(int, (*where.shape[:2], self.increments.shape[-1]))
        channels += bool(self.pace)
        _, dim, columns = self.state.shape
        vocabulary = 0 if self.index is None else int(self.increments.shape[0])
        steps = batch * length
        work = multiplications(cost(self.parts), vocabulary or steps, steps, channels, int(columns))
        return _plan(
            self.parts,
            self.state.element_size(),
            *(batch, length, channels, int(dim), int(columns), vocabulary),
            *(self.rescale, self.restore, threads(work)),
            *(self.pace, self.still, instructions()),
        )

    def check(self) -> None:
        """Raise unless all that is given is what the kernel takes it for."""
        self._problem()

    def _problem(self) -> _Problem:
        plan = self.plan
        for x, wanted in zip(self.parameters, plan.parameters, strict=True):
            address("a parameter", x, wanted)
        problem = plan.problem(self.parameters)
        arrays = {"increments": self.increments, "state": self.state}
        if self.index is not None:
            arrays["index"] = self.index
        if self.inputs is not None:
            arrays["inputs"] = self.inputs
        fill(problem, plan.expected, arrays)
        return problem

    def kept_numbers(self) -> int:
        """How many numbers hold all transitions; 0 where they can't be kept."""
        return self.plan.kept()

    def worth_keeping(self, limit: int) -> int:
        """How many of them to keep within so many bytes: none where they are soon made again."""
        return self.plan.worth_keeping(limit)

    def product(self, kept: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """All transitions of each sequence as one, block by block; the state is not used.

        Args:
            kept: as for `forward`.

        Returns:
            The product P and powers E, both (batch, dim, rows of the largest block): in a block the
            entry of row i and column j is P_ij 2^(E_ij), where columns were divided every `rescale`
            steps, and zero beyond its last column. With inputs, also what these make of a state
            that is zero at first, (batch, dim, columns).
        """
        plan, problem = self.plan, self._problem()
        expected = plan.product()
        product = self.state.new_empty(expected["product"][0])
        powers = self.state.new_empty(product.shape, dtype=torch.int64)
        fill(problem, expected, {"product": product, "powers": powers})
        driven = None if self.inputs is None else torch.empty_like(self.state)
        fill(problem, plan.expected, {"driven": driven})
        plan.keep(problem, kept)
        KERNEL.run("product", problem, plan.bytes("product", problem))
        return product, powers, driven

    def forward(self, kept: Tensor | None, made: bool = False) -> tuple[Tensor, Tensor]:
        """Run all steps.

        Args:
            kept: (kept_numbers,), to be filled with the transitions; None not to keep them.
            made: whether it is filled already, by `product`.

        Returns:
            The states (batch, length, dim, columns) and what they were divided by at the beginning
            of every window of `rescale` steps, (batch, windows, dim, columns), or nothing.
        """
        plan, problem = self.plan, self._problem()
        states = self.state.new_empty(plan.expected["states"][0])
        blank = self.state.new_ones if self.rescale else self.state.new_empty
        factors = blank(plan.expected["factors"][0])
        fill(problem, plan.expected, {"states": states})
        if self.rescale:
            fill(problem, plan.expected, {"factors": factors})
        plan.keep(problem, kept)
        problem.made = int(made)
        KERNEL.run("forward", problem, plan.bytes("forward", problem))
        return states, factors

    def backward(
        self,
        states: Tensor,
        factors: Tensor,
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
        in_inputs = None if self.inputs is None else torch.empty_like(self.inputs)
        plan.keep(problem, kept)
        arrays = {"states": states, "in_states": in_states, "in_state": in_state}
        if self.rescale:
            arrays["factors"] = factors
        if in_last is not None:
            arrays["in_last"] = in_last
        if wanted:
            arrays["in_increments"] = in_increments
        if in_inputs is not None:
            arrays["in_inputs"] = in_inputs
        fill(problem, plan.expected, arrays)
        if trained:
            problem.in_parameters = plan.pointers(in_parameters)
        KERNEL.run("backward", problem, plan.bytes("backward", problem))
        if states.shape[0] == 0:
            for x in (*in_parameters, in_increments):
                x.zero_()
        return in_parameters, in_increments, in_state, in_inputs


class Plan:
    """What follows from the sizes of a problem alone, for all problems of these sizes.

    Attributes:
        sizes: the problem without its arrays.
        expected: the shape and dtype of each array.
        parameters: the same of the parameters, part by part.
    """

    def __init__(self, parts: tuple[Part, ...], **fields: float) -> None:
        """Write it down for the kernel."""
        self._parts = (_Part * len(parts))(
            *(_Part(p.kind, p.dim, p.size, int(p.exponential)) for p in parts)
        )
        self.sizes = _Problem(**fields, parts=len(parts), part=self._parts)
        dtype = REAL.get(self.sizes.real, torch.float32)
        channels = self.sizes.channels
        self.expected = self._expected(dtype)
        self.parameters = [(channels * n, dtype) for part in parts for n in part.numbers]
        self._places = [3 * p + i for p, part in enumerate(parts) for i in range(part.tensors)]
        self._pointers = c_void_p * (3 * len(parts))
        self._measured: dict[tuple, int] = {}

    def _expected(self, dtype: torch.dtype) -> dict[str, Expected]:
        q = self.sizes
        state, factors = (q.batch, q.dim, q.columns), (0,)
        path = (q.vocabulary,) if q.vocabulary else (q.batch, q.length)
        path = (*path, q.channels - bool(q.pace))
        states = (q.batch, q.length, q.dim, q.columns)
        if q.rescale:
            factors = (q.batch, -(-q.length // q.rescale), q.dim, q.columns)
        shapes = {"increments": path, "state": state, "last": state, "states": states}
        shapes |= {"inputs": states, "factors": factors, "driven": state}
        arrays: dict[str, Expected] = {name: (shape, dtype) for name, shape in shapes.items()}
        arrays |= {f"in_{name}": wanted for name, wanted in arrays.items()}
        return arrays | {"index": ((q.batch, q.length), torch.int64)}

    def product(self) -> dict[str, Expected]:
        """What is expected of the product of all transitions."""
        q, columns = self.sizes, function("slicekit_panels_columns")
        shape = (q.batch, q.dim, self._once(("columns",), lambda: columns(byref(q))))
        return {"product": (shape, REAL[q.real]), "powers": (shape, torch.int64)}

    def kept(self) -> int:
        """How many numbers hold all transitions; 0 where they can't be kept."""
        return self._once(("kept",), lambda: function("slicekit_panels_kept")(byref(self.sizes)))

    def worth_keeping(self, limit: int) -> int:
        """See `Panels.worth_keeping`."""
        numbers = self.kept()
        size = numbers * self.sizes.real
        return numbers if size <= limit and self.sizes.channels >= FEWEST[size > CACHED] else 0

    def problem(self, parameters: Sequence[Tensor]) -> _Problem:
        """A problem of these sizes, whose parameters are known to fit; the rest is to be set."""
        problem = _Problem.from_buffer_copy(self.sizes)
        problem.parameters = self.pointers(parameters)
        return problem

    def pointers(self, tensors: Sequence[Tensor]) -> ctypes.Array:
        """Three for each part, null where it has fewer parameters."""
        pointers = self._pointers()
        for place, x in zip(self._places, tensors, strict=True):
            pointers[place] = x.data_ptr()
        return pointers

    def keep(self, problem: _Problem, kept: Tensor | None) -> None:
        """Set the address of the transitions that are kept, if they are."""
        if kept is None:
            return
        problem.kept = kept.data_ptr()  # how many there are depends on whether there are any
        numbers = self._once(
            ("are kept",), lambda: function("slicekit_panels_kept")(byref(problem))
        )
        problem.kept = address("kept", kept, ((numbers,), REAL[problem.real]))

    def bytes(self, way: str, problem: _Problem) -> int:
        """Work space of a pass, which also depends on which arrays there are."""
        arrays = (problem.kept, problem.inputs, problem.in_increments, problem.in_parameters)
        there = map(bool, arrays)
        return self._once((way, *there), lambda: KERNEL.bytes(way, problem))

    def _once(self, key: tuple, measure: Callable[[], int]) -> int:
        if key not in self._measured:
            measured = measure()
            check(max(0, -measured), "slicekit_panels_kept")
            self._measured[key] = measured
        return self._measured[key]


def instructions() -> str:
    """The instruction set in use, which work space depends on."""
    loaded = library()
    return "" if loaded is None else loaded.isa


@lru_cache(maxsize=256)
def _plan(
    parts: tuple[Part, ...],
    real: int,
    batch: int,
    length: int,
    channels: int,
    dim: int,
    columns: int,
    vocabulary: int,
    rescale: int,
    restore: int,
    team: int,
    pace: float,
    still: bool,
    isa: str,
) -> Plan:
    """The key is all that a plan depends on: the instruction set too, which may be changed."""
    return Plan(
        parts,
        real=real,
        batch=batch,
        length=length,
        channels=channels,
        dim=dim,
        columns=columns,
        vocabulary=vocabulary,
        rescale=rescale,
        restore=restore,
        threads=team,
        pace=pace,
        still=still,
    )


@lru_cache(maxsize=256)
def cost(parts: tuple[Part, ...]) -> tuple[int, int]:
    """Numbers that are made for a channel of a step, and multiplications that exponentiate them."""
    exponentials = (10 * part.dim * part.size**2 for part in parts if part.exponential)
    return sum(sum(part.numbers) for part in parts), sum(exponentials)


def multiplications(
    cost: tuple[int, int], made: int, steps: int, channels: int, columns: int
) -> int:
    """About how many a forward pass takes.

    Args:
        cost: of its parts.
        made: how many transitions are made.
        steps: how many are taken.
        channels, columns: of the increments and of the state.
    """
    numbers, exponentials = cost
    return made * (channels * numbers + exponentials) + steps * columns * numbers
