"""Exponentials: of small matrices, exactly; and of any generator, as an action on the state.

`matrix_exponential` scales, sums a Taylor polynomial and squares. What is squared is exp(A) - I, by
E <- E (2 I + E), so that matrices far smaller than the largest of the batch lose no digits. It is
an opaque operator: the number of squarings depends on the data, which a compiled graph can't hold.
Small real matrices on the CPU go to the C++ kernels, where these are there; the rest is torch.

`EulerAction` and `ExponentialAction` are the flows of structures that are not closed: they know
their generator and apply I + A or exp(A) to a state without forming the matrix.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor
from torch._subclasses.fake_tensor import FakeTensor

from slicekit.choices import kernel_serves
from slicekit.dispatch import vjp
from slicekit.handles import recording
from slicekit.native import exponential as native
from slicekit.operators import Operator
from slicekit.structures.base import Generator, Transition

MAX_SQUARINGS = 64
MAX_SUBSTEPS = 10_000


def _taylor_minus_identity(a: Tensor, degree: int, columns: int) -> Tensor:
    """Σ_{1..degree} a^n / n!, by Paterson and Stockmeyer with powers up to `columns`."""
    powers = [torch.eye(a.shape[-1], dtype=a.dtype, device=a.device), a]
    for _ in range(columns - 1):
        powers.append(powers[-1] @ a)
    total = None
    for row in reversed(range(degree // columns)):
        first = row * columns + 1
        part = sum(
            (powers[n] / math.factorial(first + n) for n in range(1, columns)),
            start=powers[0] / math.factorial(first),
        )
        total = part if total is None else part + powers[columns] @ total
    assert total is not None
    return a @ total


def _largest(a: Tensor) -> Tensor:
    """The largest row sum of a batch (..., n, n), with all of it that torch.func maps over."""
    return _unwrapped(a.detach().abs().sum(-1).amax()).amax()


def _unwrapped(x: Tensor) -> Tensor:
    """The tensor under the wrappers of torch.func, which has an axis more for each torch.vmap."""
    return _unwrapped(get_unwrapped(x)) if is_functorch_wrapped_tensor(x) else x


def _exponential_minus_identity(a: Tensor) -> Tensor:
    if a.dtype in (torch.float64, torch.complex128):
        degree, columns, reach = 15, 3, 0.5
    else:
        degree, columns, reach = 9, 3, 0.5
    norm = float(_largest(a)) if a.numel() else 0.0
    squarings = max(0, math.ceil(math.log2(norm / reach))) if 0 < norm < math.inf else 0
    squarings = min(squarings, MAX_SQUARINGS)
    e = _taylor_minus_identity(a / 2**squarings, degree, columns)
    for _ in range(squarings):
        e = 2 * e + e @ e
    return e


def _exponential(a: Tensor) -> Tensor:
    """exp(A) = e^m exp(A - m I) with m the mean of the diagonal, so that pure decay stays exact."""
    unit = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    mean = a.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    return (_exponential_minus_identity(a - mean * unit) + unit) * mean.exp()


def _forward(operands: list[Tensor]) -> tuple[Tensor]:
    (a,) = operands
    if kernel_serves("exponentials", native.obstacle(a)):
        return (native.forward(a),)
    return (_exponential(a).contiguous(),)


def _shapes(operands: list[Tensor]) -> tuple[Tensor]:
    return (torch.empty_like(operands[0], memory_format=torch.contiguous_format),)


def _backward(
    operands: list[Tensor], results: Any, cotangents: list[Tensor], needed: Any
) -> tuple[Tensor, ...]:
    (a,) = operands
    if native.obstacle(a) is None:
        return (native.pullback(a, cotangents[0]),)
    return vjp(lambda x: (_exponential(x),), a)[1](tuple(cotangents))


def _second(operands: list[Tensor]) -> tuple[Tensor]:
    """By torch only where no numbers can be seen: the derivative of its exponential is that of
    [[A, G], [0, A]], and loses digits where the gradient G is far larger or smaller than A.
    """
    (a,) = operands
    below = _unwrapped(a)
    if recording() or below.is_meta or isinstance(below, FakeTensor):
        return (torch.matrix_exp(a),)
    return (_exponential(a),)


def _flops(shapes: list[tuple[int, ...]]) -> int:
    """Some ten products of matrices for each exponential."""
    return 2 * 10 * math.prod(shapes[0]) * shapes[0][-1]


MATRIX_EXPONENTIAL = Operator(
    "matrix_exponential",
    "",
    _forward,
    _shapes,
    _backward,
    _second,
    flops=_flops,
    keeps=(),
    subject="matrix_exponential gives",
    leading=True,
)


def matrix_exponential(a: Tensor) -> Tensor:
    """exp of square matrices (..., n, n), real or complex, with its true first two derivatives.

    Example:
        >>> half_turn = torch.tensor([[0.0, torch.pi], [-torch.pi, 0.0]])
        >>> matrix_exponential(half_turn).diagonal()
        tensor([-1., -1.])
    """
    return MATRIX_EXPONENTIAL((), (a,))[0]


@dataclass(frozen=True, eq=False)
class _Action(Transition):
    """A flow that is known through its generator."""

    generator: Generator
    stepwise: ClassVar[tuple[str, ...]] = ()

    @property
    def dim(self) -> int:
        """Size of the state."""
        return self.generator.dim

    def stepwise_count(self) -> int:
        """As the generator's."""
        return self.generator.stepwise_count()

    def tensors(self) -> tuple[Tensor, ...]:
        """The generator's."""
        return self.generator.tensors()

    def _with(self, generator: Generator) -> Self:
        raise NotImplementedError

    def with_tensors(self, tensors: tuple[Tensor, ...]) -> Self:
        """The flow of the generator with other tensors."""
        return self._with(self.generator.with_tensors(tensors))

    def adjoint(self) -> Transition:
        """The flow of the adjoint generator."""
        star = self.generator.adjoint()
        assert isinstance(star, Generator)
        return self._with(star)

    def where(self, valid: Tensor) -> Self:
        """Not offered: zero the increments instead, which is the identity exactly."""
        raise TypeError("mask the increments of this structure, not its transitions")


@dataclass(frozen=True, eq=False)
class EulerAction(_Action):
    """h is sent to h + A h."""

    def _with(self, generator: Generator) -> Self:
        return type(self)(generator)

    def act(self, state: Tensor) -> Tensor:
        """(I + A) H for H (..., dim, columns)."""
        return state + self.generator.act(state)

    def pullback(self, before: Tensor, cotangent: Tensor) -> tuple[Tensor, ...]:
        """The generator's."""
        return self.generator.pullback(before, cotangent)


@dataclass(frozen=True, eq=False)
class ExponentialAction(_Action):
    """h is sent to exp(A) h by a Taylor polynomial, in `substeps` equal parts."""

    substeps: int
    degree: int

    def _with(self, generator: Generator) -> Self:
        return type(self)(generator, self.substeps, self.degree)

    def act(self, state: Tensor) -> Tensor:
        """exp(A) H for H (..., dim, columns)."""
        for _ in range(self.substeps):
            term = state
            for n in range(1, self.degree + 1):
                term = self.generator.act(term) / (n * self.substeps)
                state = state + term
        return state


def _degree(reach: float, epsilon: float) -> int:
    """Smallest n with reach^n / n! below epsilon / 4, so that the derivative is exact as well."""
    term, n = 1.0, 0
    while term > epsilon / 4 and n < 40:
        n += 1
        term *= reach / n
    return max(n, 1)


def exponential_action(generator: Generator, substeps: int | None = None) -> ExponentialAction:
    """The action of exp(A), with as many substeps as the norm of A asks for.

    Args:
        generator: A, a batch of any shape.
        substeps: fixed number of substeps; the norm of A should then not exceed it. Needed where
            the data can't be looked at: under torch.vmap or torch.compile with `Recurrent`.
    """
    epsilon = torch.finfo(generator.tensors()[0].dtype).eps
    if substeps is not None:
        return ExponentialAction(generator, substeps, _degree(1.0, epsilon))
    if torch.compiler.is_compiling():
        raise ValueError("Exponential() can't look at traced data; use Exponential(substeps=n)")
    bound = generator.norm_bound().detach()
    if bound.is_meta or (isinstance(bound, FakeTensor) and not recording()):
        return ExponentialAction(generator, 1, _degree(1.0, epsilon))  # nothing is computed
    try:
        norm = float(bound.amax()) if bound.numel() else 0.0
    except RuntimeError as error:
        raise ValueError(
            "Exponential() can't look at the data inside torch.vmap; use Exponential(substeps=n)"
        ) from error
    if norm > MAX_SUBSTEPS:
        raise ValueError(
            f"Exponential() met a generator of norm {norm:.3g}, too large to exponentiate "
            f"(at most {MAX_SUBSTEPS}): scale the increments down"
        )
    count = max(1, math.ceil(norm)) if math.isfinite(norm) else 1
    return ExponentialAction(generator, count, _degree(min(norm / count, 1.0), epsilon))
