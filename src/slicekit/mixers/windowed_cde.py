"""Controlled differential equations under the Log-ODE method: one interval for each window.

    dh/ds = g(h; λ_k),  s from 0 to 1,  λ_k the log-signature of x over window k

| here | in the papers |
|---|---|
| `window` | how many increments x_{i+1} - x_i make up a window |
| `basis` | of λ, the Hall basis of depth N |
| `slopes` | g(·; λ_k), which `NRDE` and `LogNCDE` make in their own ways |

Outputs stand where those of `SLiCE` under `LogODE` do: h_0 at the first element, and a state at the
end of each window; inside a window the output is provisional. The first element closes a window
that holds nothing: that is how the state before it is filled.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from slicekit.checks import HALF, Lengths, check_lengths
from slicekit.dispatch import autocast_off
from slicekit.layers.log_ode import Places
from slicekit.layers.state import State
from slicekit.mixers.arguments import check_sizes
from slicekit.mixers.base import Mixer
from slicekit.mixers.convolution import last_window
from slicekit.mixers.precision import called_in
from slicekit.mixers.solvers import FixedStep, Solver, check_solver, keep
from slicekit.paths import mask_past_end
from slicekit.paths.cutting import OpenWindow, cut, ends
from slicekit.paths.lie_bases import LieBasis

Autonomous: TypeAlias = Callable[[Tensor], Tensor]
"""g: (batch, dim) -> (batch, dim)."""


class WindowedCDE(Mixer):
    """The parent of `NRDE` and `LogNCDE`: windows, their log-signatures, and the states at ends.

    Args:
        channels: size of an observation.
        dim: size of the hidden state.
        window: increments in a window.
        basis: of the log-signatures.
        solver: of a window.

    Attributes:
        log_depth, hidden, depth: a subclass's own, for its configuration.
    """

    log_depth: int
    hidden: int
    depth: int

    def __init__(
        self, channels: int, dim: int, window: int, basis: LieBasis, solver: Solver | None
    ) -> None:
        """Check the arguments; make h_0's map."""
        super().__init__()
        check_sizes(dim=dim, window=window)
        self.channels, self.outputs, self.window, self.basis = channels, dim, window, basis
        self.solver = FixedStep() if solver is None else solver
        check_solver(self.solver)
        self.initial = nn.Linear(channels, dim)

    @abstractmethod
    def slopes(self, signatures: Tensor) -> Sequence[Autonomous]:
        """The fields of all windows: signatures (batch, windows, β) -> one g for each window."""

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this mixer again, but for its parameters."""
        return {
            "channels": self.channels,
            "dim": self.outputs,
            "window": self.window,
            "log_depth": self.log_depth,
            "hidden": self.hidden,
            "depth": self.depth,
            "solver": self.solver,
        }

    @property
    def windowed(self) -> bool:
        """Whether outputs stand at the ends of windows, and not at every element."""
        return self.window > 1

    def output_lengths(self, lengths: Tensor) -> Tensor:
        """How many outputs sequences of these lengths have: (batch,) int64 -> (batch,)."""
        first = lengths.clamp_max(1)
        return first + (lengths - first + self.window - 1) // self.window

    def places(
        self, x: Tensor, state: State | None = None, lengths: Lengths | None = None
    ) -> Places:
        """Where the outputs of `forward` stand in its input, for the same arguments."""
        if lengths is not None:
            lengths = check_lengths(lengths, x.shape[0], x.shape[1], device=x.device)
        begun = self._begin(x, state)
        places = ends(x, self.window, begun["filled"], lengths)
        count = x.shape[1] if lengths is None else lengths
        counts = torch.where(begun["seen"] + count == 0, 0, places.counts)
        return Places(counts, places.closed, places.last)

    def start(self, batch: int, like: Tensor) -> State:
        """Nothing seen yet."""
        tensors = {
            "hidden": like.new_zeros(batch, self.outputs),
            "window": like.new_zeros(batch, self.basis.size),
            "filled": like.new_full((batch,), self.window - 1, dtype=torch.int64),
            "observed": like.new_zeros(batch, 1, self.channels),
            "seen": like.new_zeros(batch, dtype=torch.int64),
        }
        if self.solver.carries:
            tensors["step"] = like.new_ones(batch)
        return State(tensors)

    def mix(self, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        """One window after the other."""
        with autocast_off(x.device):
            return self._mix(x.float() if x.dtype in HALF else x, state, lengths)

    def _mix(self, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        seen, fresh = state["seen"], (state["seen"] == 0).unsqueeze(-1)
        observed = torch.cat([state["observed"], x], 1)
        increments = observed.diff(dim=1)
        increments = torch.cat(
            [torch.where(fresh, 0.0, increments[:, 0]).unsqueeze(1), increments[:, 1:]], 1
        )
        if lengths is not None:
            increments = mask_past_end(increments, lengths)
        opened = OpenWindow(state["window"], state["filled"])
        windows = cut(increments, self.basis, self.window, opened, lengths)
        h, step = state["hidden"], state.get("step")
        states, steps = [h], [step]
        for k, slope in enumerate(self.slopes(windows.signatures)):
            held, held_step = h, step
            h, step = self.solver.integrate(lambda s, h, slope=slope: slope(h), h, step)
            over = k >= windows.counts
            if k == 0:
                h = torch.where(fresh, called_in(self.initial, x[:, 0]), h)
                step = keep(fresh.squeeze(-1), held_step, step)
                over = over if lengths is None else over | (seen + lengths == 0)
            h = torch.where(over.unsqueeze(-1), held, h)
            step = keep(over, held_step, step)
            states.append(h)
            steps.append(step)
        along = torch.stack(states, 1)
        tensors = {
            "hidden": _pick(along, windows.closed),
            "window": windows.open.signature,
            "filled": windows.open.filled,
            "observed": last_window(observed, 1, lengths),
            "seen": seen + (x.shape[1] if lengths is None else lengths),
        }
        if self.solver.carries:
            carried = torch.stack([taken for taken in steps if taken is not None], 1)
            tensors["step"] = _pick(carried.unsqueeze(-1), windows.closed).squeeze(-1)
        return along[:, 1:], State(tensors)


def _pick(x: Tensor, index: Tensor) -> Tensor:
    """One element of each sequence: (batch, length, size) -> (batch, size)."""
    return x.gather(1, index[:, None, None].expand(-1, 1, x.shape[-1])).squeeze(1)
