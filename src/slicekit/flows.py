"""How does one step move the state? Policies that turn increments into transitions.

`Euler`: I + A(Δω), the first-order form. `Exponential`: exp(A(Δω)), exact for a path that is linear
between observations. A flow asks the structure for what it needs and does not know which it is.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from slicekit.interning import intern, recall
from slicekit.structures import Parameters, Structure, Transition


class Flow(ABC):
    """A policy: how the generator of a step becomes its transition.

    Attributes:
        citations: keys into `slicekit.citations`.
    """

    citations: ClassVar[tuple[str, ...]] = ()

    @property
    def key(self) -> str:
        """The name under which `flow_named` knows this policy."""
        return intern(self)

    @abstractmethod
    def transition(
        self, structure: Structure, parameters: Parameters, increments: Tensor
    ) -> Transition:
        """The transitions of steps with the given increments (..., channels)."""

    def is_euler(self, structure: Structure) -> bool:
        """Whether the transition is I + A for this structure."""
        return False


@dataclass(frozen=True)
class Euler(Flow):
    """I + A(Δω): it can flip a sign and forget, and grows where A does."""

    @property
    def key(self) -> str:
        """A name that torch.compile can trace."""
        return "Euler"

    def transition(
        self, structure: Structure, parameters: Parameters, increments: Tensor
    ) -> Transition:
        """I + A(Δω)."""
        return structure.euler(parameters, increments)

    def is_euler(self, structure: Structure) -> bool:
        """Always."""
        return True


@dataclass(frozen=True)
class Exponential(Flow):
    """exp(A(Δω)), exact to rounding.

    Args:
        substeps: only for structures that are not closed, where exp(A) h is summed as a series in
            that many parts. None looks at the data; give a number at least as large as the norm of
            A where the data can't be looked at (torch.vmap or torch.compile with `Recurrent`).
    """

    substeps: int | None = None

    def __post_init__(self) -> None:
        """Check the number of substeps."""
        if self.substeps is not None and self.substeps < 1:
            raise ValueError(f"substeps={self.substeps}; expected at least 1, or None")

    @property
    def key(self) -> str:
        """A name that torch.compile can trace."""
        return f"Exponential {self.substeps}"

    def transition(
        self, structure: Structure, parameters: Parameters, increments: Tensor
    ) -> Transition:
        """exp(A(Δω))."""
        return structure.combine(parameters, increments).exponential(self.substeps)


@dataclass(frozen=True)
class Natural(Flow):
    """What `flow=None` means: each structure's own choice, in a direct sum each part's."""

    @property
    def key(self) -> str:
        """A name that torch.compile can trace."""
        return "Natural"

    def transition(
        self, structure: Structure, parameters: Parameters, increments: Tensor
    ) -> Transition:
        """I + A(Δω), but exp(A(Δω)) for isometries."""
        if self.is_euler(structure):
            return structure.euler(parameters, increments)
        return structure.combine(parameters, increments).natural()

    def is_euler(self, structure: Structure) -> bool:
        """Unless there is an isometry in it."""
        return not structure.exponential_only


NATURAL = Natural()


def flow_named(key: str) -> Flow:
    """The flow with that `key`."""
    kind, *rest = key.split(" ")
    if kind == "Exponential":
        return Exponential(None if rest == ["None"] else int(rest[0]))
    own: dict[str, Flow] = {"Euler": Euler(), "Natural": NATURAL}
    return own[key] if key in own else recall(key)


def resolve(structure: Structure, flow: Flow | None) -> Flow:
    """The flow to use, checked against the structure.

    Raises:
        TypeError: if flow is not a flow.
        ValueError: for Euler with a structure that must be exponentiated.
    """
    if flow is None:
        return NATURAL
    if not isinstance(flow, Flow):
        raise TypeError(f"flow={flow!r}; expected a flow such as Euler() or Exponential(), or None")
    if isinstance(flow, Euler) and structure.exponential_only:
        raise ValueError(
            f"flow=Euler() with {structure!r}: an orthogonal structure is an isometry only under "
            "Exponential(); leave flow=None"
        )
    return flow
