"""Structures made of parts that stand side by side on the diagonal, as descriptions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from slicekit.descriptions.base import Description, Facts, Start, Started

Array = TypeVar("Array")


class Composite(Started):
    """A structure made of parts; with a single part it behaves as that part does.

    Attributes:
        parts: from the top left.
        prefixes: what the names of each part's parameters begin with.
    """

    parts: tuple[Any, ...]
    prefixes: tuple[str, ...]

    def set_parts(self, parts: Iterable[Any]) -> None:
        """Fix the parts and what follows from them; called before `__post_init__` of the base."""
        parts = tuple(parts)
        prefixes = ("",) if len(parts) == 1 else tuple(f"part{i}_" for i in range(len(parts)))
        kind = type(self)  # whose own word counts as well, where it is a user's
        ragged = [f"{p}{name}" for p, x in zip(prefixes, parts, strict=True) for name in x.ragged]
        exponential_only = kind.exponential_only or any(x.exponential_only for x in parts)
        linear_instead = (kind.linear_instead, *(x.linear_instead for x in parts))
        # one part is enough: the others may be the identity meanwhile
        has_isometries = kind.has_isometries and any(x.has_isometries for x in parts)
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "prefixes", prefixes)
        object.__setattr__(self, "ragged", (*kind.ragged, *ragged))
        object.__setattr__(self, "exponential_only", exponential_only)
        object.__setattr__(self, "linear_instead", next(filter(None, linear_instead), ""))
        object.__setattr__(self, "has_isometries", has_isometries)

    def own(self, parameters: Mapping[str, Array]) -> list[dict[str, Array]]:
        """Each part's parameters under the part's own names."""
        return [
            {name[len(p) :]: x for name, x in parameters.items() if name.startswith(p)}
            for p in self.prefixes
        ]

    def gathered(self, owned: Iterable[Mapping[str, Array]]) -> dict[str, Array]:
        """All parts' parameters in one, the inverse of `own`."""
        pairs = zip(self.prefixes, owned, strict=True)
        return {prefix + name: x for prefix, theta in pairs for name, x in theta.items()}

    def starts(self, channels: int, increment: float = 1.0) -> dict[str, Start]:
        """The parts' starts, with the names part0_..., part1_... where there are several."""
        return self.gathered(part.starts(channels, increment) for part in self.parts)

    @property
    def commutes(self) -> bool:
        """Whether every part does."""
        return all(part.commutes for part in self.parts)

    @property
    def largest_block(self) -> int:
        """That of a part."""
        return max(part.largest_block for part in self.parts)

    @property
    def bracketed(self) -> Any:
        """Part by part."""
        closures = [part.bracketed for part in self.parts]
        kept = all(new is part for new, part in zip(closures, self.parts, strict=True))
        return self if kept else self.beside(closures)

    def beside(self, parts: list[Any]) -> Any:
        """Those parts side by side."""
        raise NotImplementedError

    def step_cost(self, channels: int) -> int:
        """The parts' costs added up."""
        return sum(part.step_cost(channels) for part in self.parts)

    def composition_cost(self) -> int:
        """The parts' costs added up."""
        return sum(part.composition_cost() for part in self.parts)

    def parameter_count(self, channels: int) -> int:
        """The parts' counts added up."""
        return sum(part.parameter_count(channels) for part in self.parts)


@dataclass(frozen=True, init=False)
class DirectSum(Composite):
    """Any structures side by side on the diagonal; see `slicekit.DirectSum`.

    Attributes:
        part_class: what a part must be.
    """

    part_class: ClassVar[type] = Description
    parts: tuple[Any, ...]
    dim: int = field(init=False, repr=False)
    facts: ClassVar[Facts] = Facts(
        model="direct sum",
        matrix="diag(A_1, ..., A_p)",
        parameters="sum of the parts",
        recurrent="sum of the parts",
        composition="sum of the parts",
        closed=True,
        expressive=True,
        theorem="if a part is",
        efficient="yes",
        citations=("walker2025slices",),
    )

    def __init__(self, *structures: Any) -> None:
        """Put the structures side by side."""
        if not structures:
            raise ValueError("DirectSum() needs at least one structure")
        for structure in structures:
            if not isinstance(structure, self.part_class):
                raise TypeError(f"DirectSum takes structures; got {structure!r}")
        self.set_parts(structures)
        object.__setattr__(self, "dim", sum(part.dim for part in structures))
        closed = all(part.facts.closed for part in structures)
        expressive = any(part.facts.expressive for part in structures)
        facts = replace(type(self).facts, closed=closed, expressive=expressive)
        object.__setattr__(self, "facts", facts)
        self.__post_init__()

    def configuration(self) -> dict[str, tuple[Any, ...]]:
        """The positional arguments that make this sum again."""
        return {"*": self.parts}


@dataclass(frozen=True)
class DiagonalDense(Composite):
    """A diagonal part and one dense block; see `slicekit.DiagonalDense`.

    Attributes:
        diagonal_class, dense_class: what its parts are.
    """

    diagonal_class: ClassVar[type]
    dense_class: ClassVar[type]
    dim: int
    block: int
    scale: float = field(default=1.0, kw_only=True)
    facts: ClassVar[Facts] = Facts(
        model="D-DE-SLiCE",
        matrix="diag(d) ⊕ full",
        parameters="dω (dh - b + b²)",
        recurrent="dω (dh - b + b²)",
        composition="dh - b + b³",
        closed=True,
        expressive=True,
        theorem="Walker et al. 2025, Theorem 4.1, if b grows with dh",
        efficient="yes",
        citations=("walker2025slices",),
    )

    def __post_init__(self) -> None:
        """Check the sizes."""
        if not 1 <= self.block <= self.dim:
            raise ValueError(f"block={self.block}; expected 1 to dim={self.dim}")
        parts = [self.dense_class(self.block, scale=self.scale)]
        if self.dim > self.block:
            parts.insert(0, self.diagonal_class(self.dim - self.block, scale=self.scale))
        self.set_parts(parts)
        super().__post_init__()
