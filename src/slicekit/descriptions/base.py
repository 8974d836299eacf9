"""What a structure says of itself without any tensor: its facts, its sizes, its costs, its start.

Glossary: dim is d_h; channels is d_ω, the number of matrices A^i; a start says how a parameter
begins: Gaussian, of a shape and a standard deviation.
"""

import math
from dataclasses import dataclass
from inspect import getattr_static
from typing import Any, ClassVar, NamedTuple

from slicekit.descriptions.checks import check_size


@dataclass(frozen=True)
class Facts:
    """What the paper's comparison table says of a structure, as data.

    Attributes:
        model: the paper's name for a layer with this structure.
        matrix: the form of A^i.
        parameters: order of the parameter count of A^1..A^dω.
        recurrent: order of the cost of one step.
        composition: order of the cost of composing two transitions.
        closed: whether products of transitions stay in the structure.
        expressive: whether it has maximal probabilistic expressivity.
        theorem: where that is shown, and under which condition, or why it is not so.
        efficient: whether kernels run it on a CPU: "yes", "tokens" (by tables of tokens alone) or
            "no".
        citations: keys into `slicekit.citations`.
    """

    model: str
    matrix: str
    parameters: str
    recurrent: str
    composition: str
    closed: bool
    expressive: bool
    theorem: str
    efficient: str = "no"
    citations: tuple[str, ...] = ()


class Start(NamedTuple):
    """How a parameter begins: Gaussian entries.

    Attributes:
        shape: of the parameter.
        std: standard deviation of its entries.
    """

    shape: tuple[int, ...]
    std: float


class Description:
    """A frozen description of what A^1..A^dω look like; it holds no tensors.

    Attributes:
        dim: d_h, the size of the state.
        exponential_only: whether I + A makes no sense here.
        has_isometries: whether some transition other than the identity is orthogonal.
        ragged: names of parameters whose number of elements is random (a sparsity pattern).
        linear_instead: where A(Δω) is not linear in Δω, and so has no brackets, what has.
    """

    facts: ClassVar[Facts] = Facts(
        model="own structure",
        matrix="?",
        parameters="?",
        recurrent="?",
        composition="dh³",
        closed=False,
        expressive=False,
        theorem="unknown",
    )
    dim: int
    exponential_only: bool = False
    has_isometries: bool = True
    ragged: tuple[str, ...] = ()
    linear_instead: str = ""

    def __post_init__(self) -> None:
        """Check the sizes."""
        check_size(f"{type(self).__name__} has dim", self.dim)

    @property
    def commutes(self) -> bool:
        """Whether every bracket of A^1..A^dω vanishes, so that depth 1 is all there is."""
        return False

    @property
    def largest_block(self) -> int:
        """Rows of the largest part of a state that no step mixes with others; dim if it is one."""
        return self.dim

    @property
    def bracketed(self) -> Any:
        """Where the brackets of its matrices live: itself where it is closed under them."""
        raise NotImplementedError

    def lift(self, depth: int) -> Any:
        """The structure of the brackets of A^1..A^dω up to `depth`; at depth 1, itself.

        Dense unless brackets stay in the structure: its transitions then cost dim² a step.

        Raises:
            ValueError: if depth is below 1, or A(Δω) is not linear in Δω.
        """
        check_size("depth", depth)
        if depth == 1:
            return self
        if self.linear_instead:
            raise ValueError(
                f"{self!r} is not linear in its increments, so it has no brackets: use "
                f"{self.linear_instead}, or depth=1"
            )
        return self.bracketed

    def composition_cost(self) -> int:
        """Multiplications of composing two transitions; dense unless the structure is closed."""
        return self.dim**3


class Started(Description):
    """A description that says how its parameters start."""

    def starts(self, channels: int, increment: float = 1.0) -> dict[str, Start]:
        """How the parameters of A^1..A^channels start, by name.

        Args:
            channels: dω.
            increment: typical size of one channel's increment, for structures whose start fixes the
                size of a whole step.
        """
        raise NotImplementedError

    def parameter_count(self, channels: int) -> int:
        """True number of trained parameters of A^1..A^channels (expected, where it is random)."""
        return sum(math.prod(start.shape) for start in self.starts(channels).values())


def derive_anew(cls: type, root: type, method: str, derived: tuple[str, ...]) -> None:
    """Where a class overrides a method, take what follows from it as the root has it.

    What it inherits from a class with another such method is about that one; what the root says
    holds for every one.

    Args:
        cls: a class that was just made.
        root: the class that leaves the method open.
        method: the name of it.
        derived: names of methods and properties that follow from it.
    """
    own, left_open = getattr(cls, method), getattr(root, method)
    newer = []
    for base in cls.__mro__:
        if getattr(base, method, own) not in (own, left_open):
            break
        newer.append(base)
    else:
        return
    for name in derived:
        if not any(name in vars(base) for base in newer):
            setattr(cls, name, getattr_static(root, name))
