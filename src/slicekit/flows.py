"""How does one step move the state? Policies that turn increments into transitions.

`Euler`: I + A(Δω), the first-order form. `Exponential`: exp(A(Δω)), exact for a path that is linear
between observations. `LogODE`: one step for a whole window of observations, by its log-signature.
A flow asks the structure for what it needs and does not know which it is.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import ClassVar

import torch
from torch import Tensor

from slicekit.descriptions.checks import check_chosen, check_size
from slicekit.handles import Handled, constant, recall
from slicekit.paths.cutting import OpenWindow, Windows, cut
from slicekit.paths.lie_bases import LieBasis, hall
from slicekit.paths.windows import Duration
from slicekit.structures import Parameters, Structure, Transition


class Flow(Handled):
    """A policy: how the generator of a step becomes its transition.

    Attributes:
        citations: keys into `slicekit.citations`.
        windowed: whether a step is a whole window, as that of `LogODE` is.
    """

    citations: ClassVar[tuple[str, ...]] = ()
    windowed: ClassVar[bool] = False

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
        """A name that torch.compile can trace where the flow is made inside a graph."""
        return "Euler" if type(self) is Euler else self.handle_name()

    def transition(
        self, structure: Structure, parameters: Parameters, increments: Tensor
    ) -> Transition:
        """I + A(Δω)."""
        return structure.euler(parameters, increments)

    def is_euler(self, structure: Structure) -> bool:
        """Always, unless a subclass has another transition."""
        return type(self).transition is Euler.transition


@dataclass(frozen=True)
class Exponential(Flow):
    """exp(A(Δω)), exact to rounding of the state that it is applied to.

    Kernels (`Native`, `SLiCE.step` and what `scan=None` chooses on a CPU) compute h + (exp(A) - I)
    h: a step errs by a few roundings of |h|, also where exp(A) h is far smaller. In float32 the
    error relative to |exp(A) h| is 2e-3 at A = -12 and 1 from A = -18 on. `Recurrent`, `Chunked`
    and `Associative` form exp(A) itself, and err by roundings of exp(A) h.

    Args:
        substeps: only for structures that are not closed, where exp(A) h is summed as a series in
            that many parts. None looks at the data; give a number at least as large as the norm of
            A where the data can't be looked at (torch.vmap or torch.compile with `Recurrent`).
    """

    substeps: int | None = None

    def __post_init__(self) -> None:
        """Check the number of substeps."""
        check_chosen("substeps", self.substeps)

    @property
    def key(self) -> str:
        """A name that torch.compile can trace where the flow is made inside a graph."""
        if type(self) is Exponential:
            return f"Exponential {self.substeps}"
        return self.handle_name()

    def transition(
        self, structure: Structure, parameters: Parameters, increments: Tensor
    ) -> Transition:
        """exp(A(Δω))."""
        return structure.combine(parameters, increments).exponential(self.substeps)


@dataclass(frozen=True, eq=False)
class WindowSteps:
    """The steps of a path under the Log-ODE method.

    Attributes:
        structure: that of the windows' generators.
        parameters: those of the brackets.
        windows: the path, cut; their log-signatures are the increments of the steps.
        counts: (batch,) how many steps each sequence has; None where all have as many.
    """

    structure: Structure
    parameters: Parameters
    windows: Windows
    counts: Tensor | None


@dataclass(frozen=True)
class LogODE(Flow):
    """The Log-ODE method: one step for each window, with the log-signature of the path over it.

        Ā^k = A^k for letters,   Ā^[i,j] = Ā^j Ā^i - Ā^i Ā^j,   M = exp(Σ_k λ_k Ā^k)

    λ is the log-signature in the Hall basis up to `depth`, not divided by time; the error of a
    window of size s is of order s^(depth+1). It changes the length: a sequence has one state at the
    end of each window. Diagonal structures commute, and use depth 1; block-diagonal, dense and
    orthogonal ones keep their structure; for the others brackets are dense, at dim² a step.

    Args:
        depth: N, of the log-signature; 1 takes the windows' increments alone.
        window: how many steps, or `Duration(...)` in the units of the path's time channel.
        flow: of a window: `Exponential()`, or `Euler()` for the first-order form I + Σ_k λ_k Ā^k of
            the authors' code. That form drops terms of the order that depth 2 gains.

    Example:
        >>> import torch
        >>> from slicekit import BlockDiagonal, SLiCE
        >>> layer = SLiCE(3, BlockDiagonal(8, 4), flow=LogODE(depth=2, window=12))
        >>> layer(torch.randn(2, 25, 3)).shape  # the first element, and two windows
        torch.Size([2, 3, 8])
    """

    depth: int
    window: int | Duration
    flow: Flow = Exponential()
    citations: ClassVar[tuple[str, ...]] = ("walker2024logncde", "morrill2021")
    windowed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check depth and window."""
        check_size("depth", self.depth)
        if not isinstance(self.window, Duration):
            check_size("window", self.window)
        if not isinstance(self.flow, Flow) or self.flow.windowed:
            raise TypeError(f"flow={self.flow!r}; expected Exponential() or Euler() for a window")

    def basis(self, structure: Structure, channels: int) -> LieBasis:
        """The Hall basis that a structure needs for paths of that many channels."""
        return hall(channels, 1 if structure.commutes else self.depth)

    def lift(self, structure: Structure) -> Structure:
        """The structure of a window's generator; says once if it is a costlier one.

        Raises:
            ValueError: if the structure has no brackets.
        """
        if structure.commutes:
            return structure
        if torch.compiler.is_dynamo_compiling():
            return _lifted(structure.key, self.depth) or structure
        lifted = structure.lift(self.depth)
        if lifted is not structure and not torch.compiler.is_compiling():
            _warn_dense(repr(structure), structure.dim, self.depth)
        return lifted

    def steps(
        self,
        structure: Structure,
        parameters: Callable[[LieBasis], Parameters],
        increments: Tensor,
        before: OpenWindow | None = None,
        lengths: Tensor | None = None,
    ) -> WindowSteps:
        """Cut a path, and lift a structure to its windows.

        Args:
            structure: of A^1..A^channels.
            parameters: gives those of the brackets in a basis, as `structure.lift_parameters` does.
            increments: (batch, length, channels).
            before: the window that an earlier part of the path left open.
            lengths: (batch,) int64, the number of increments of each sequence, or None for all.
        """
        basis = self.basis(structure, increments.shape[-1])
        if increments.shape[1]:
            windows = cut(increments, basis, self.window, before, lengths)
        else:
            windows = Windows.none(increments, basis, self.window, before)
        regular = lengths is None and before is None and isinstance(self.window, int)
        counts = None if regular else windows.counts
        lifted = {
            name: x.to(increments) if x.is_floating_point() else x
            for name, x in parameters(basis).items()  # made of none, they know no path
        }
        return WindowSteps(self.lift(structure), lifted, windows, counts)

    def transition(
        self, structure: Structure, parameters: Parameters, increments: Tensor
    ) -> Transition:
        """The transitions of all windows of increments (batch, length, channels)."""
        made = self.steps(structure, partial(structure.lift_parameters, parameters), increments)
        flow = resolve(made.structure, self.flow)
        return flow.transition(made.structure, made.parameters, made.windows.signatures)


@constant
def _lifted(key: str, depth: int) -> Structure | None:
    """What a structure of that key is lifted to, if it is another."""
    structure: Structure = recall(key)
    lifted = structure.lift(depth)
    return None if lifted is structure else lifted


@lru_cache(maxsize=256)
def _warn_dense(structure: str, dim: int, depth: int) -> None:
    warnings.warn(
        f"LogODE(depth={depth}) with {structure}: brackets leave this structure, so windows have "
        f"dense generators, {dim}² entries each. Diagonal, BlockDiagonal, Orthogonal and "
        "sums of them keep their structure, and depth=1 keeps every one",
        stacklevel=4,
    )


@dataclass(frozen=True)
class Natural(Flow):
    """What `flow=None` means: each structure's own choice, in a direct sum each part's."""

    @property
    def key(self) -> str:
        """A name that torch.compile can trace where the flow is made inside a graph."""
        return "Natural" if type(self) is Natural else self.handle_name()

    def transition(
        self, structure: Structure, parameters: Parameters, increments: Tensor
    ) -> Transition:
        """I + A(Δω), but exp(A(Δω)) for isometries, and a generator's own choice if it has one."""
        return structure.natural(parameters, increments)

    def is_euler(self, structure: Structure) -> bool:
        """Unless there is an isometry in it, or a generator that chooses."""
        return structure.takes_euler_steps


NATURAL = Natural()
_EULER = Euler()


def flow_named(key: str) -> Flow:
    """The flow with that `key`."""
    known = {"Euler": _EULER, "Natural": NATURAL}
    kind, _, rest = key.partition(" ")
    if key in known:
        return known[key]
    if kind == "Exponential" and (rest == "None" or rest.isdecimal()):
        return Exponential(None if rest == "None" else int(rest))
    return recall(key)


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
    if isinstance(flow, LogODE):
        resolve(structure, flow.flow)
        resolve(flow.lift(structure), flow.flow)
    return flow
