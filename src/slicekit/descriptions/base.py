"""What a structure says of itself without any tensor: its facts, its sizes, its costs, its start.

Glossary: dim is d_h; channels is d_ω, the number of matrices A^i; a start says how a parameter
begins: Gaussian, of a shape and a standard deviation.
"""

import math
from dataclasses import dataclass
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
        return self if depth == 1 else self.bracketed

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


def no_brackets(description: object, instead: str) -> ValueError:
    """The error for brackets of matrices that are not linear in Δω; another structure has them."""
    return ValueError(
        f"{description!r} is not linear in its increments, so it has no brackets: use {instead}, "
        "or depth=1"
    )
