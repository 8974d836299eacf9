"""Log-NCDEs: neural CDEs under the Log-ODE method (Walker et al. 2024).

    h_0 = ζ(x_0),   dh/ds = Σ_i λ_i f_i(h) + Σ_{i<j} λ_{ij} [f_i, f_j](h) over a window

| here | in the paper |
|---|---|
| `initial` | ζ, a linear map |
| `field` | f_θ, a SiLU network with a final tanh; its rows are f_1, ..., f_channels |
| λ, `window` | the log-signature of x over a window, and the window's number of increments |
| `log_depth` | N, the depth of the log-signature |
| [f, g] | (Dg) f - (Df) g, so that linear fields f_i(h) = A^i h have A^j A^i - A^i A^j |
| `regularisation()` | a bound of the field's Lip(2) norm |
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from slicekit.mixers.arguments import check_depth, check_sizes
from slicekit.mixers.fields import SILU, TANH, Field
from slicekit.mixers.solvers import Solver
from slicekit.mixers.windowed_cde import Autonomous, WindowedCDE
from slicekit.paths import hall


class LogNCDE(WindowedCDE):
    """A Log-NCDE: (batch, length, channels) -> (batch, 1 + ceil((length - 1) / window), dim).

    Args:
        channels: size of an observation.
        dim: size of the hidden state.
        window: increments in a window; with 1 there is an output for every element.
        log_depth: depth of the log-signature, 1 or 2.
        hidden: size of the field's hidden layers.
        depth: number of the field's hidden layers.
        solver: of a window, `FixedStep(...)` or `Adaptive(...)`.
        scale: what the field's weights and biases are divided by at the start.

    Example:
        >>> import torch
        >>> mixer = LogNCDE(channels=3, dim=8, window=4, hidden=16, depth=2)
        >>> mixer(torch.randn(2, 13, 3)).shape  # the first element, and three windows
        torch.Size([2, 4, 8])
        >>> mixer.regularisation() < 0.1
        tensor(True)
    """

    citations = ("walker2024logncde",)

    def __init__(
        self,
        channels: int,
        dim: int,
        window: int,
        log_depth: int = 2,
        hidden: int = 128,
        depth: int = 3,
        solver: Solver | None = None,
        scale: float = 1000.0,
    ) -> None:
        """Draw the weights."""
        check_sizes(channels=channels, log_depth=log_depth)
        check_depth(depth)
        if log_depth not in (1, 2):
            raise ValueError(f"log_depth={log_depth!r}; expected 1 or 2")
        # One increment has no area.
        basis = hall(channels, 1 if window == 1 else log_depth)
        super().__init__(channels, dim, window, basis, solver)
        self.log_depth, self.hidden, self.depth, self.scale = log_depth, hidden, depth, scale
        self.field = Field(dim, channels, hidden, [SILU] * depth + [TANH], scale)

    def slopes(self, signatures: Tensor) -> Sequence[Autonomous]:
        """h -> Σ_i λ_i f_i(h) + Σ_{i<j} λ_{ij} [f_i, f_j](h)."""
        field = self.field.prepare(signatures.dtype)
        velocities = signatures[..., : self.channels].unbind(1)
        if self.basis.depth == 1:
            return [lambda h, v=v: field.driven(h, v) for v in velocities]
        areas = self._areas(signatures[..., self.channels :]).unbind(1)
        return [
            lambda h, v=v, a=a: field.bracketed(h, v, a)
            for v, a in zip(velocities, areas, strict=True)
        ]

    def _areas(self, brackets: Tensor) -> Tensor:
        """λ_{ij}, (batch, windows, pairs), as antisymmetric (..., channels, channels)."""
        left, right = self.basis.brackets[0]
        upper = (left * self.channels + right).to(brackets.device)
        flat = brackets.new_zeros(*brackets.shape[:-1], self.channels**2)
        flat = flat.index_copy(-1, upper, brackets)
        square = flat.unflatten(-1, (self.channels, self.channels))
        return square - square.mT

    def regularisation(self) -> Tensor:
        """The paper's penalty: Σ over the field's maps of mean norm of a row + norm of the bias."""
        return self.field.lipschitz_penalty()

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this mixer again, but for its parameters."""
        return super().configuration() | {"scale": self.scale}
