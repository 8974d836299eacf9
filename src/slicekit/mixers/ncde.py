"""Neural controlled differential equations (Kidger et al. 2020).

    h_0 = ζ(x_0),   dh = f(h) dX

| here | in the paper |
|---|---|
| `initial` | ζ, a linear map |
| `field` | f_θ: R^dim -> R^{dim x channels}, a ReLU network with a final tanh |
| `control` | how X goes through the observations x_0, x_1, ... |
| `solver` | of the differential equation, from one observation to the next |

Time is a channel of x, if it is wanted. Outputs stand at the observations, h_0 first.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from slicekit.checks import HALF
from slicekit.dispatch import autocast_off
from slicekit.layers.state import State
from slicekit.mixers.arguments import check_depth, check_sizes
from slicekit.mixers.base import Mixer
from slicekit.mixers.controls import Control, CubicHermite
from slicekit.mixers.convolution import last_window
from slicekit.mixers.fields import RELU, TANH, Field
from slicekit.mixers.precision import called_in
from slicekit.mixers.solvers import FixedStep, Solver, check_solver, keep


class NCDE(Mixer):
    """A neural CDE: (batch, length, channels) -> (batch, length, dim).

    Args:
        channels: size of an observation.
        dim: size of the hidden state.
        hidden: size of the field's hidden layers.
        depth: number of the field's hidden layers.
        control: the path between observations, `CubicHermite()` or `Linear()`.
        solver: `FixedStep(...)` or `Adaptive(...)`.

    The state holds the last observations, how many there were, and the step size of a solver that
    adapts it. Memory for gradients grows with length times steps.

    Example:
        >>> mixer = NCDE(channels=3, dim=8, hidden=16, depth=2)
        >>> x = torch.randn(2, 10, 3)
        >>> h, state = mixer(x[:, :9], return_state=True)
        >>> h_t, state = mixer.step(x[:, 9], state)
        >>> torch.allclose(h_t, mixer(x)[:, 9], atol=1e-5)
        True
    """

    citations = ("kidger2020",)

    def __init__(
        self,
        channels: int,
        dim: int,
        hidden: int = 128,
        depth: int = 4,
        control: Control | None = None,
        solver: Solver | None = None,
    ) -> None:
        """Draw the weights."""
        super().__init__()
        check_sizes(channels=channels, dim=dim, hidden=hidden)
        check_depth(depth)
        self.control = CubicHermite() if control is None else control
        self.solver = FixedStep() if solver is None else solver
        if not isinstance(self.control, Control):
            raise TypeError(f"control={control!r}; expected a control such as CubicHermite()")
        check_solver(self.solver)
        self.channels, self.outputs = channels, dim
        self.hidden, self.depth = hidden, depth
        self.initial = nn.Linear(channels, dim)
        self.field = Field(dim, channels, hidden, [RELU] * depth + [TANH])

    def start(self, batch: int, like: Tensor) -> State:
        """Nothing seen yet."""
        tensors = {
            "hidden": like.new_zeros(batch, self.outputs),
            "observed": like.new_zeros(batch, 1 + self.control.bends, self.channels),
            "seen": like.new_zeros(batch, dtype=torch.int64),
        }
        if self.solver.carries:
            tensors["step"] = like.new_ones(batch)
        return State(tensors)

    def mix(self, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        """One interval after the other."""
        with autocast_off(x.device):
            return self._mix(x.float() if x.dtype in HALF else x, state, lengths)

    def _mix(self, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        length, seen = x.shape[1], state["seen"]
        observed = torch.cat([state["observed"], x], 1)
        derivative = self._derivatives(observed, seen, length)
        field = self.field.prepare(x.dtype)
        h, step = state["hidden"], state.get("step")
        states: list[Tensor] = []
        for t in range(length):
            held, held_step = h, step
            h, step = self.solver.integrate(
                lambda s, h, t=t: field.driven(h, derivative(t, s)), h, step
            )
            if t == 0:
                fresh = (seen == 0).unsqueeze(-1)
                h = torch.where(fresh, called_in(self.initial, x[:, 0]), h)
                step = keep(fresh.squeeze(-1), held_step, step)
            if lengths is not None:
                over = lengths <= t
                h = torch.where(over.unsqueeze(-1), held, h)
                step = keep(over, held_step, step)
            states.append(h)
        tensors = {
            "hidden": h,
            "observed": last_window(observed, 1 + self.control.bends, lengths),
            "seen": seen + (length if lengths is None else lengths),
        }
        if step is not None:
            tensors["step"] = step
        return torch.stack(states, 1), State(tensors)

    def _derivatives(
        self, observed: Tensor, seen: Tensor, length: int
    ) -> Callable[[int, float | Tensor], Tensor]:
        """dX/ds at a fraction of the interval that ends at an element of the part."""
        right = observed[:, -length:]
        left = observed[:, -length - 1 : -1]
        number = (seen.unsqueeze(1) + torch.arange(length, device=seen.device)).unsqueeze(-1)
        left = torch.where(number == 0, right, left)
        previous = observed[:, -length - 2 : -2] if self.control.bends else left
        previous = torch.where(number <= 1, 2 * left - right, previous)
        control, fractions = self.control, self.solver.fractions
        if fractions is not None:
            known = {s: control.derivative(s, previous, left, right).unbind(1) for s in fractions}
            return lambda t, s: known[s][t]  # type: ignore[index]
        ends = [end.unbind(1) for end in (previous, left, right)]
        return lambda t, s: control.derivative(s, *(end[t] for end in ends))

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this mixer again, but for its parameters."""
        return {
            "channels": self.channels,
            "dim": self.outputs,
            "hidden": self.hidden,
            "depth": self.depth,
            "control": self.control,
            "solver": self.solver,
        }
