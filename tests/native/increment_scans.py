"""Scans of increments through a native door, and the same by a plain loop with a tape."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import slicekit as sk
from slicekit.native import kernel
from slicekit.native.kernel import Differentiable
from slicekit.native.recurrences import Steps
from slicekit.structures import Parameters, Structure

DIMS, CHANNELS = (1, 2, 7, 16, 31, 64), (1, 3, 17)
SHAPES = [  # batch, length, columns, with inputs
    (0, 2, 1, False),
    (1, 50, 1, False),
    (3, 50, 3, True),
    (16, 2, 1, True),
    (16, 50, 1, False),
    (37, 1, 1, False),
    (37, 2, 3, True),
]
OK, BAD_SIZE, BAD_POINTER, BAD_OPTION, BAD_WORKSPACE, BAD_INDEX = range(6)


@dataclass(frozen=True)
class Problem:
    """One recurrence and the gradients of its results."""

    structure: Structure
    parameters: Parameters
    increments: Tensor
    state: Tensor
    inputs: Tensor | None
    rescale: int
    in_states: Tensor
    in_last: Tensor

    def trained(self) -> list[str]:
        """Names of the parameters that have a gradient."""
        return [name for name, x in self.parameters.items() if x.is_floating_point()]

    def to(self, dtype: torch.dtype) -> "Problem":
        """The same numbers, rounded."""

        def cast(x: Tensor) -> Tensor:
            return x.to(dtype) if x.is_floating_point() else x

        return Problem(
            self.structure,
            {name: cast(x) for name, x in self.parameters.items()},
            cast(self.increments),
            cast(self.state),
            None if self.inputs is None else cast(self.inputs),
            self.rescale,
            cast(self.in_states),
            cast(self.in_last),
        )


def problem(
    structure: Structure,
    channels: int,
    batch: int,
    length: int,
    columns: int = 1,
    *,
    inputs: bool = False,
    rescale: int = 0,
    parameters: Parameters | None = None,
) -> Problem:
    """Random float64, with increments small enough for states of moderate size."""
    made = structure.init(channels) if parameters is None else parameters
    made = {name: x.double() if x.is_floating_point() else x for name, x in made.items()}
    shape = (batch, length, structure.dim, columns)
    increments = torch.randn(batch, length, channels).double() / (4 * channels**0.5)
    state, in_last = torch.randn(2, batch, structure.dim, columns).double()
    dense, in_states = torch.randn(2, *shape).double()
    u = dense if inputs else None
    return Problem(structure, made, increments, state, u, rescale, in_states, in_last)


def plan(given: Problem) -> tuple[Steps, list[Tensor | None]]:
    """What a kernel is given."""
    driven = (given.state, given.inputs, None)
    return Steps(given.rescale), [given.increments, *given.parameters.values(), *driven]


def native(kernel: Differentiable, given: Problem) -> dict[str, Tensor]:
    """All results and gradients of the kernel, by name."""
    states, factors, last, _ = results = kernel.forward(*plan(given))
    gradients = kernel.backward(*plan(given), results, (given.in_states, given.in_last), [])
    found = dict(zip(kernel.task.operands, gradients, strict=True))
    trained = (found[name] for name in (*given.trained(), "increments", "state", "inputs"))
    return _named(given, (states, last, factors), tuple(trained))


def plain(given: Problem) -> dict[str, Tensor]:
    """The same by `Recurrent`, or with rescale by a loop."""
    names = given.trained()
    parameters = dict(given.parameters)
    parameters |= {name: parameters[name].detach().requires_grad_() for name in names}
    increments = given.increments.detach().requires_grad_()
    state = given.state.detach().requires_grad_()
    inputs = None if given.inputs is None else given.inputs.detach().requires_grad_()
    factors = state.new_empty(0)
    if given.rescale:
        states, last, factors = _rescaled(given, parameters, increments, state)
    else:
        euler, scan = sk.Euler(), sk.Recurrent()
        states, last = sk.solve(given.structure, parameters, increments, state, euler, scan, inputs)
    leaves = [*(parameters[name] for name in names), increments, state]
    leaves += [] if inputs is None else [inputs]
    gradients = torch.autograd.grad(
        [states, last], leaves, [given.in_states, given.in_last], materialize_grads=True
    )
    return _named(given, (states.detach(), last.detach(), factors), gradients)


def _rescaled(
    given: Problem, parameters: Parameters, increments: Tensor, h: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    states, factors = [], []
    for t, increment in enumerate(increments.unbind(1)):
        if t % given.rescale == 0:
            size = h.detach().abs().amax(1) if t else torch.ones_like(h[:, 0])
            factors.append(torch.where(size == 0, 1.0, size.log2().floor().exp2()))
            h = h / factors[-1].unsqueeze(1)
        h = h + given.structure.combine(parameters, increment).act(h)
        states.append(h)
    return torch.stack(states, 1), h, torch.stack(factors, 1)


def _named(
    given: Problem, results: tuple[Tensor, ...], gradients: tuple[Tensor | None, ...]
) -> dict[str, Tensor]:
    names = [f"gradient of {name}" for name in (*given.trained(), "increments", "state", "inputs")]
    pairs = zip(("states", "last", "factors", *names), (*results, *gradients), strict=False)
    return {name: x for name, x in pairs if x is not None}


def assert_near(found: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float) -> None:
    """Each tensor within tolerance times the largest number that is expected in it."""
    assert found.keys() == expected.keys()
    for name, x in expected.items():
        assert found[name].shape == x.shape, name
        if x.numel():
            error = (found[name].double() - x).abs().max() / x.abs().max().clamp(min=1e-30)
            assert error <= tolerance, f"{name}: {error:.1e}"


def assert_equal(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """To the last bit."""
    for name, x in expected.items():
        assert torch.equal(found[name], x), name


@contextmanager
def poisoned_memory() -> Iterator[None]:
    """torch.empty gives NaN (and the largest integer) inside."""
    before = torch.are_deterministic_algorithms_enabled()
    deterministic: Any = torch.utils.deterministic
    filling = deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    deterministic.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        deterministic.fill_uninitialized_memory = filling


def negated_view(x: Tensor) -> Tensor:
    """-x as a view: its memory holds x, and a bit of the tensor the sign."""
    view: Any = vars(torch)["_neg_view"]
    return view(x)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """As many threads inside, for work of any size."""
    before = torch.get_num_threads(), kernel.WORTHWHILE
    torch.set_num_threads(count)
    kernel.WORTHWHILE = 0
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        kernel.WORTHWHILE = before[1]


def status(function: str, given: ctypes.Structure, **changes: int | None) -> int:
    """What a C function returns when some fields are changed."""
    from slicekit.native import library

    loaded = library()
    assert loaded is not None
    changed = type(given).from_buffer_copy(given)
    for name, value in changes.items():
        setattr(changed, name, value)
    run = getattr(loaded.c, function)
    run.argtypes, run.restype = [ctypes.c_void_p], ctypes.c_int64
    return run(ctypes.addressof(changed))
