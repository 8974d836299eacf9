"""How does one step move the state? `Euler`, `Exponential` and `LogODE`, as in `slicekit.flows`.

A flow asks the structure for what it needs and does not know which it is.
"""

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from jax import Array

from slicekit.descriptions.checks import check_chosen, check_size
from slicekit.jax.paths.cutting import cut
from slicekit.jax.paths.lie_bases import LieBasis, hall
from slicekit.jax.paths.windows import Duration
from slicekit.jax.structures import Parameters, Structure, Transition


class Flow(ABC):
    """A policy: how the generator of a step becomes its transition.

    Attributes:
        citations: keys into `slicekit.citations`.
    """

    citations: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def transition(
        self, structure: Structure, parameters: Parameters, increments: Array
    ) -> Transition:
        """The transitions of steps with the given increments (..., channels)."""

    def is_euler(self, structure: Structure) -> bool:
        """Whether the transition is I + A for this structure."""
        return False


@dataclass(frozen=True)
class Euler(Flow):
    """I + A(Δω): it can flip a sign and forget, and grows where A does."""

    def transition(
        self, structure: Structure, parameters: Parameters, increments: Array
    ) -> Transition:
        """I + A(Δω)."""
        return structure.euler(parameters, increments)

    def is_euler(self, structure: Structure) -> bool:
        """Always."""
        return True


@dataclass(frozen=True)
class Exponential(Flow):
    """exp(A(Δω)), exact to rounding of the state that it is applied to.

    As in torch, kernels (`Native`) err by a few roundings of |h|, also where exp(A) h is far
    smaller; the other scans by roundings of exp(A) h.

    Args:
        substeps: only for structures that are not closed, where exp(A) h is summed as a series in
            that many parts. None looks at the data; give a number at least as large as the norm of
            A where the data can't be looked at (under `jax.jit`, `jax.vmap`, `jax.checkpoint`).
    """

    substeps: int | None = None

    def __post_init__(self) -> None:
        """Check the number of substeps."""
        check_chosen("substeps", self.substeps)

    def transition(
        self, structure: Structure, parameters: Parameters, increments: Array
    ) -> Transition:
        """exp(A(Δω))."""
        return structure.combine(parameters, increments).exponential(self.substeps)


@dataclass(frozen=True)
class LogODE(Flow):
    """The Log-ODE method: one step for each window, with the log-signature of the path over it.

        Ā^k = A^k for letters,   Ā^[i,j] = Ā^j Ā^i - Ā^i Ā^j,   M = exp(Σ_k λ_k Ā^k)

    λ is the log-signature in the Hall basis up to `depth`, not divided by time. It changes the
    length: a sequence has one state at the end of each window.

    Args:
        depth: N, of the log-signature; 1 takes the windows' increments alone.
        window: how many steps, or `Duration(...)` in the units of the path's time channel.
        flow: of a window: `Exponential()`, or `Euler()` for the first-order form I + Σ_k λ_k Ā^k of
            the authors' code.
    """

    depth: int
    window: int | Duration
    flow: Flow = Exponential()
    citations: ClassVar[tuple[str, ...]] = ("walker2024logncde", "morrill2021")

    def __post_init__(self) -> None:
        """Check depth and window."""
        check_size("depth", self.depth)
        if not isinstance(self.window, Duration):
            check_size("window", self.window)
        if isinstance(self.flow, LogODE) or not isinstance(self.flow, Flow):
            raise TypeError(f"flow={self.flow!r}; expected Exponential() or Euler() for a window")

    def basis(self, structure: Structure, channels: int) -> LieBasis:
        """The Hall basis that a structure needs for paths of that many channels."""
        return hall(channels, 1 if structure.commutes else self.depth)

    def lift(self, structure: Structure) -> Any:
        """The structure of a window's generator; says once if it is a costlier one.

        Raises:
            ValueError: if the structure has no brackets.
        """
        lifted = structure if structure.commutes else structure.lift(self.depth)
        if lifted is not structure:
            _warn_dense(structure, self.depth)
        return lifted

    def transition(
        self, structure: Structure, parameters: Parameters, increments: Array
    ) -> Transition:
        """The transitions of all windows of increments (batch, length, channels)."""
        basis = self.basis(structure, increments.shape[-1])
        signatures = cut(increments, basis, self.window).signatures
        lifted, brackets = self.lift(structure), structure.lift_parameters(parameters, basis)
        return resolve(lifted, self.flow).transition(lifted, brackets, signatures)


@lru_cache(maxsize=256)
def _warn_dense(structure: Structure, depth: int) -> None:
    warnings.warn(
        f"LogODE(depth={depth}) with {structure!r}: brackets leave this structure, so windows have "
        f"dense generators, {structure.dim}² entries each. Diagonal, BlockDiagonal, Orthogonal and "
        "sums of them keep their structure, and depth=1 keeps every one",
        stacklevel=4,
    )


@dataclass(frozen=True)
class Natural(Flow):
    """What `flow=None` means: each structure's own choice, in a direct sum each part's."""

    def transition(
        self, structure: Structure, parameters: Parameters, increments: Array
    ) -> Transition:
        """I + A(Δω), but exp(A(Δω)) for isometries, and a generator's own choice if it has one."""
        return structure.natural(parameters, increments)

    def is_euler(self, structure: Structure) -> bool:
        """Of a structure of slicekit's own: unless there is an isometry in it."""
        return not structure.exponential_only


def resolve(structure: Structure, flow: Flow | None) -> Flow:
    """The flow to use, checked against the structure.

    Raises:
        TypeError: if flow is not a flow.
        ValueError: for Euler with a structure that must be exponentiated.
    """
    if flow is None:
        return Natural()
    if not isinstance(flow, Flow):
        raise TypeError(f"flow={flow!r}; expected a flow such as Euler() or Exponential(), or None")
    if isinstance(flow, Euler) and structure.exponential_only:
        raise ValueError(
            f"flow=Euler() with {structure!r}: an orthogonal structure is an isometry only under "
            "Exponential(); leave flow=None"
        )
    if isinstance(flow, LogODE):
        resolve(structure, flow.flow)
        resolve(flow.lift(structure), flow.flow)
    return flow
