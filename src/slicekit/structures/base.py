"""The protocol of a structure: what a matrix may look like, and what it must be able to do.

Glossary (code name: the paper's symbol):
    structure: the set that A^1, ..., A^dω are taken from.
    parameters: θ, the tensors that hold A^1, ..., A^dω.
    increments: Δω, of shape (..., channels); channels is dω.
    generator: A(Δω) = Σ_i Δω^i A^i, the vector field of one step.
    transition: M, the flow of one step: I + A(Δω) or exp(A(Δω)); h is sent to M h.
    act: M H for a state H of shape (..., dim, columns); mv is the same for one column.
    adjoint: M^*, the conjugate transpose.
    bracket: [a, b] = b a - a b, the Lie bracket of linear vector fields.

Generators and transitions are kept apart because they live in different sets: the exponential of a
skew-symmetric matrix is not skew-symmetric, and I + H D is not of the form H D.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from slicekit.checks import concrete
from slicekit.descriptions.base import Description, Started, derive_anew
from slicekit.dispatch import constant_when_compiled, plain_torch, vjp
from slicekit.handles import Handled, recall
from slicekit.paths.lie_bases import LieBasis

Parameters = dict[str, Tensor]

OURS = "slicekit."
"""Where our own structures and flows are defined."""

LINEAR = 1e-3
"""How far from linear a `combine` may be, relative to its matrices: far above rounding."""

DENSE_DEFECT, DEFECT_PROBES = 32, 16
"""The largest dim at which M^* M is looked at whole, and by how many vectors otherwise."""


@dataclass(frozen=True, eq=False)
class Matrices(ABC):
    """A batch of structured square matrices.

    Subclasses are dataclasses whose fields are tensors. Those named in `stepwise` carry the leading
    axes of the batch (usually batch and length); those named in `shared` hold for all of it.
    """

    stepwise: ClassVar[tuple[str, ...]] = ()
    shared: ClassVar[tuple[str, ...]] = ()

    @property
    @abstractmethod
    def dim(self) -> int:
        """Number of rows and columns of each matrix."""

    @abstractmethod
    def act(self, state: Tensor) -> Tensor:
        """Multiply from the left: state (..., dim, columns) -> (..., dim, columns)."""

    @abstractmethod
    def adjoint(self) -> "Matrices":
        """The conjugate transpose of every matrix."""

    @classmethod
    def agrees(cls, *names: str) -> bool:
        """Whether methods are about what `act` does here.

        Those that a class inherits from one whose `act` it has overridden are about other matrices;
        those of classes that leave `act` open are about whatever it does.

        Args:
            names: of the methods.
        """
        for name in names:
            owner = next(base for base in cls.__mro__ if name in vars(base))
            act = getattr(owner, "act", cls.act)
            if act is not cls.act and not getattr(act, "__isabstractmethod__", False):
                return False
        return True

    def mv(self, vector: Tensor) -> Tensor:
        """Multiply vectors: (..., dim) -> (..., dim)."""
        return self.act(vector.unsqueeze(-1)).squeeze(-1)

    def as_dense(self) -> Tensor:
        """The matrices themselves, (..., dim, dim): the oracle of every test."""
        first = self.tensors()[0]
        return self.act(torch.eye(self.dim, dtype=first.dtype, device=first.device))

    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors, stepwise ones first."""
        return tuple(getattr(self, name) for name in (*self.stepwise, *self.shared))

    def with_tensors(self, tensors: tuple[Tensor, ...]) -> Self:
        """The same kind of matrices with other tensors, in the order of `tensors`."""
        given = dict(zip((*self.stepwise, *self.shared), tensors, strict=True))
        rest = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in given}
        return type(self)(**given, **rest)

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Apply a change of the leading axes (indexing, transposition) to every stepwise tensor."""
        count = self.stepwise_count()
        tensors = self.tensors()
        return self.with_tensors((*(change(x) for x in tensors[:count]), *tensors[count:]))

    def stepwise_count(self) -> int:
        """How many of `tensors` are stepwise."""
        return len(self.stepwise)

    def unbind(self, axis: int) -> list[Self]:
        """One batch of matrices for each index of a leading axis."""
        count = self.stepwise_count()
        tensors = self.tensors()
        slices = zip(*(x.unbind(axis) for x in tensors[:count]), strict=True)
        return [self.with_tensors((*step, *tensors[count:])) for step in slices]

    def pullback(self, before: Tensor, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Gradient of <cotangent, act(before)> in each of `tensors`.

        Args:
            before: (..., dim, columns), what was acted on.
            cotangent: (..., dim, columns), gradient of the result.
        """

        def apply(*tensors: Tensor) -> tuple[Tensor]:
            return (self.with_tensors(tensors).act(before),)

        return vjp(apply, *self.tensors())[1]((cotangent,))


@dataclass(frozen=True, eq=False)
class Transition(Matrices):
    """A batch of one-step flows: h is sent to M h.

    Where products stay in the structure, `closed` is true and `compose` multiplies.
    """

    closed: ClassVar[bool] = False

    def compose(self, earlier: Any) -> Self:
        """self after earlier, a transition of the same kind: the product self · earlier.

        Raises:
            TypeError: where products leave the structure.
        """
        raise TypeError(f"{type(self).__name__} is not closed under products; use as_dense()")

    @abstractmethod
    def where(self, valid: Tensor) -> Self:
        """The identity wherever valid, of the leading shape, is false."""

    def isometry_defect(self) -> Tensor:
        """|M^* M - I|² / dim of every matrix, of the leading shape: zero where it is an isometry.

        Beyond a small dim it is estimated without bias, by what M^* M - I does to a few Gaussian
        vectors.
        """
        first = self.tensors()[0]
        real = first.abs().dtype
        if self.dim <= DENSE_DEFECT:
            probes = torch.eye(self.dim, dtype=real, device=first.device)
        else:
            probes = torch.randn(self.dim, DEFECT_PROBES, dtype=real, device=first.device)
            probes = probes * DEFECT_PROBES**-0.5
        probes = probes.to(first.dtype)
        moved = self.adjoint().act(self.act(probes)) - probes
        return moved.abs().square().sum((-1, -2)) / self.dim

    def sizes(self, state: Tensor) -> Tensor:
        """For each number of a state, the largest modulus among the rows that mix with its row.

        Rows that no step ever mixes may be scaled apart; all do unless a subclass knows better.

        Args:
            state: (..., dim, columns), real or complex.

        Returns:
            (..., dim, columns), real.
        """
        return state.abs().amax(-2, keepdim=True).expand(state.shape)


@dataclass(frozen=True, eq=False)
class Generator(Matrices):
    """A batch of vector fields A(Δω), which flows turn into transitions."""

    @abstractmethod
    def euler(self) -> Transition:
        """I + A."""

    @abstractmethod
    def exponential(self, substeps: int | None = None) -> Transition:
        """exp(A), exact to rounding; substeps matters only where exp(A) is applied to the state."""

    def natural(self) -> Transition:
        """The flow that a structure takes when the user names none."""
        return self.euler()

    @property
    def takes_euler_steps(self) -> bool:
        """Whether `natural` is known to be I + A: not where a subclass has its own."""
        return type(self).natural is Generator.natural

    def bracket(self, other: "Generator") -> "Generator":
        """[self, other] = other · self - self · other, as vector fields.

        Structures that are not closed under it answer with a dense generator.
        """
        from slicekit.structures.block_diagonal import BlockGenerator

        a, b = self.as_dense(), other.as_dense()
        return BlockGenerator((b @ a - a @ b).unsqueeze(-3))

    def norm_bound(self) -> Tensor:
        """An upper bound, of the leading shape, for the operator norm."""
        return torch.linalg.matrix_norm(self.as_dense())


FROM_COMBINE = ("euler", "natural", "takes_euler_steps", "bilinear", "pullback", "lift_parameters")
FROM_COMBINE += ("commutes", "bracketed", "largest_block")
FROM_INIT = ("blank", "parameter_count")
"""What a structure says of the matrices that `combine` makes, and of what `init` draws."""


class Structure(Description, Handled):
    """A frozen description of what A^1..A^dω look like; it holds no tensors.

    A new structure is one subclass, a frozen dataclass with a field `dim` and the abstract methods;
    the generator that `combine` returns may be one of slicekit's own. A subclass of a structure
    that overrides `combine` or `init` alone is right by itself: what the other says of its own
    matrices or parameters, to be faster, is not inherited.

    Attributes:
        dim: d_h, the size of the state.
        exponential_only: whether I + A makes no sense here.
        has_isometries: whether some transition other than the identity is orthogonal.
        ragged: names of parameters whose number of elements is random (a sparsity pattern).
        linear_instead: where A(Δω) is not linear in Δω, and so has no brackets, what has.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Keep nothing that is about another `combine` or `init`."""
        super().__init_subclass__(**kwargs)
        derive_anew(cls, Structure, "combine", FROM_COMBINE)
        derive_anew(cls, Structure, "init", FROM_INIT)

    @abstractmethod
    def init(
        self, channels: int, generator: torch.Generator | None = None, *, increment: float = 1.0
    ) -> Parameters:
        """Random parameters of A^1..A^channels.

        Args:
            channels: dω.
            generator: source of randomness; torch's global one if None.
            increment: typical size of one channel's increment, for structures whose initialisation
                fixes the size of a whole step.

        Returns:
            Floating and complex tensors are to be trained, integer tensors (a sparsity pattern)
            are not. There may be none: `combine` then follows the increments.
        """

    @abstractmethod
    def combine(self, parameters: Parameters, increments: Tensor) -> Generator:
        """A(Δω) = Σ_i Δω^i A^i for increments (..., channels)."""

    def euler(self, parameters: Parameters, increments: Tensor) -> Transition:
        """I + A(Δω); a structure may make it with less traffic than through `combine`."""
        return self.combine(parameters, increments).euler()

    def natural(self, parameters: Parameters, increments: Tensor) -> Transition:
        """What it takes when the user names no flow: its generator's choice."""
        if type(self).euler is not Structure.euler and self.takes_euler_steps:
            return self.euler(parameters, increments)
        generator = self.combine(parameters, increments)
        if self.exponential_only and generator.takes_euler_steps:
            return generator.exponential()
        return generator.natural()

    @property
    def takes_euler_steps(self) -> bool:
        """Whether `natural` is known to be I + A."""
        if type(self).natural is not Structure.natural:
            return False
        if self.exponential_only or type(self).combine.__module__.startswith(OURS):
            return not self.exponential_only
        return _takes_euler_steps(self.key)

    @property
    def bilinear(self) -> bool:
        """Whether `pullback` is known: A is bilinear, a tensor a parameter, and so is I + A."""
        return False

    def computes_as(self, cls: "type[Structure]") -> bool:
        """Whether it makes generators and transitions as `cls` does, and is no change of it."""
        kind = type(self)
        made = kind.combine is cls.combine and kind.euler is cls.euler
        by_itself = kind.natural is cls.natural and kind.exponential_only == cls.exponential_only
        return made and by_itself

    def pullback(
        self, parameters: Parameters, increments: Tensor, gradients: tuple[Tensor, ...]
    ) -> tuple[Parameters, Tensor]:
        """Gradients in the parameters and increments from those of the generator's tensors."""
        raise TypeError(f"{type(self).__name__} has no pullback of its own")

    @property
    def bracketed(self) -> Any:
        """Where the brackets of its matrices live: itself where it is closed under them."""
        from slicekit.structures.dense import Dense

        return Dense(self.dim)

    def lift_parameters(self, parameters: Parameters, basis: LieBasis) -> Parameters:
        """The parameters of Ā^1..Ā^β for `lift(basis.depth)`: A^i at letters, brackets elsewhere.

        Args:
            parameters: of A^1..A^channels.
            basis: of the free Lie algebra over as many letters; β is its size.

        Raises:
            ValueError: if a `combine` that is not slicekit's is seen not to be linear in Δω.
        """
        if basis.depth == 1:
            return parameters
        given = next(iter(parameters.values()), torch.empty(0))
        letters = torch.eye(basis.channels, dtype=_dtype(parameters), device=given.device)
        dense = self.combine(parameters, letters).as_dense()
        if not type(self).combine.__module__.startswith(OURS) and concrete(dense):
            self._check_linear(parameters, dense.detach())
        return {"blocks": brackets(dense, basis).unsqueeze(1)}

    @torch.no_grad()
    def _check_linear(self, parameters: Parameters, dense: Tensor) -> None:
        """Raise unless A(Δω) of one Δω is Σ_i Δω^i A^i; dense (channels, dim, dim) are the A^i."""
        increment = torch.linspace(-1, 2, len(dense)).to(dense)
        moved = self.combine(parameters, increment).as_dense()
        error = (moved - torch.tensordot(increment, dense, 1)).abs().amax()
        if error > LINEAR * (moved.abs().amax() + dense.abs().amax()):
            raise ValueError(
                f"{self!r}: combine is not linear in the increments, so it has no brackets: use "
                "depth=1"
            )

    def blank(self, channels: int) -> Parameters:
        """Parameters without data: their names, shapes and dtypes; nothing random is drawn."""
        try:
            with torch.device("meta"):
                return self.init(channels)
        except Exception:  # an `init` that looks at its numbers, which then may raise anything
            with torch.random.fork_rng(devices=[]):
                return {name: x.to("meta") for name, x in self.init(channels).items()}

    def check_pattern(self, parameters: Parameters, channels: int) -> None:
        """Check integer parameters that come from a file: `ragged` ones, whose shapes say nothing.

        Raises:
            ValueError: if they are not what `init` could have made.
        """

    def parameter_count(self, channels: int) -> int:
        """True number of trained parameters of A^1..A^channels (expected, where it is random)."""
        blank = self.blank(channels).values()
        return sum(x.numel() for x in blank if x.is_floating_point() or x.is_complex())

    @abstractmethod
    def step_cost(self, channels: int) -> int:
        """Multiplications of one step: making A(Δω) and applying it to one state."""


class Drawn(Started, Structure):
    """A structure whose parameters are drawn as its description says they start."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Keep nothing that is about other `starts`."""
        super().__init_subclass__(**kwargs)
        derive_anew(cls, Drawn, "starts", ("init", *FROM_INIT))

    def init(
        self, channels: int, generator: torch.Generator | None = None, *, increment: float = 1.0
    ) -> Parameters:
        """Gaussian parameters, of the shapes and standard deviations of `starts`."""
        starts = self.starts(channels, increment)
        return {name: normal(start.shape, start.std, generator) for name, start in starts.items()}


@constant_when_compiled
def _takes_euler_steps(key: str) -> bool:
    """Whether the generators of the structure with that key do: one of them is looked at."""
    structure: Structure = recall(key)
    known = structure.handle.known if structure.handle.shared else {}
    if "takes_euler_steps" not in known:
        with plain_torch(), torch.random.fork_rng(devices=[]):
            try:
                generator = structure.combine(structure.blank(1), torch.zeros(1, 1, device="meta"))
            except (NotImplementedError, RuntimeError, TypeError):  # it looks at its numbers
                generator = structure.combine(structure.init(1), torch.zeros(1, 1))
        known["takes_euler_steps"] = generator.takes_euler_steps
    return known["takes_euler_steps"]


def brackets(matrices: Tensor, basis: LieBasis) -> Tensor:
    """Ā^1..Ā^β: the matrices of the letters, and [a, b] = b a - a b for every bracket of a basis.

    Args:
        matrices: (channels, ..., n, n).
        basis: over as many letters.

    Returns:
        (β, ..., n, n), in the order of the basis.
    """
    levels = [matrices]
    for left, right in basis.brackets:
        known = torch.cat(levels) if len(levels) > 1 else matrices
        a, b = known[left.to(known.device)], known[right.to(known.device)]
        levels.append(b @ a - a @ b)
    return torch.cat(levels)


def _dtype(parameters: Parameters) -> torch.dtype:
    """Of the floating parameters, or else of the parts of complex ones, or torch's own."""
    real = [x.dtype for x in parameters.values() if x.is_floating_point()]
    parts = [x.dtype.to_real() for x in parameters.values() if x.is_complex()]
    return next(iter(real + parts), torch.get_default_dtype())


def normal(shape: tuple[int, ...], std: float, generator: torch.Generator | None = None) -> Tensor:
    """Gaussian tensor with the given standard deviation."""
    return torch.randn(shape, generator=generator) * std


def weighted_sum(increments: Tensor, tensor: Tensor) -> Tensor:
    """Σ_i Δω^i T_i for increments (..., channels) and a tensor (channels, ...)."""
    flat = increments.reshape(-1, increments.shape[-1]) @ tensor.reshape(tensor.shape[0], -1)
    return flat.reshape(*increments.shape[:-1], *tensor.shape[1:])


def weighted_sum_pullback(
    increments: Tensor, tensor: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of `weighted_sum` in the tensor and in the increments."""
    flat = increments.reshape(-1, increments.shape[-1])
    rows = gradient.reshape(flat.shape[0], tensor.shape[1:].numel())  # a batch may be empty
    in_tensor = (flat.t() @ rows).reshape(tensor.shape)
    in_increments = (rows @ tensor.reshape(tensor.shape[0], -1).t()).reshape(increments.shape)
    return in_tensor, in_increments
