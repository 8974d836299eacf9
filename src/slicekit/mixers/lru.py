"""The linear recurrent unit (Orvieto et al., Resurrecting Recurrent Neural Networks, 2023).

    h_t = Λ h_{t-1} + exp(γ_log) ⊙ B x_t,    y_t = Re(C h_t) + D ⊙ x_t,
    Λ = diag(exp(-exp(ν_log) + i exp(θ_log))).

Glossary:
    log_decay: ν_log; the modulus of an eigenvalue is exp(-exp(ν_log)) < 1.
    log_phase: θ_log.
    log_gain: γ_log, starts at log sqrt(1 - |λ|²), which makes a state of variance one.
    input_map, readout: B and C, complex, as pairs of real and imaginary parts.
    skip: D.
    hidden: h, complex, carried as pairs.
"""

from typing import Any

import torch
from torch import Tensor, nn

from slicekit.checks import check_positive
from slicekit.layers.state import State
from slicekit.mixers.arguments import check_sizes
from slicekit.mixers.base import Mixer
from slicekit.mixers.complex_maps import complex_of, to_complex, to_real
from slicekit.scans import propagate
from slicekit.structures import DiagonalTransition

ROUNDING = torch.finfo(torch.float32)


class LRU(Mixer):
    """A diagonal complex recurrence whose eigenvalues start on a ring.

    Args:
        width: size of inputs and outputs, H.
        dim: number of complex states, N.
        r_min: the smallest initial modulus.
        r_max: the largest; moduli are drawn uniformly on the ring's area.
        max_phase: the largest initial phase; phases are uniform from 0.

    Example:
        >>> lru = LRU(8, 16)
        >>> y, state = lru(torch.randn(2, 5, 8), return_state=True)
        >>> y.shape, state["hidden"].shape
        (torch.Size([2, 5, 8]), torch.Size([2, 16, 2]))
    """

    citations = ("orvieto2023lru",)
    linear = True

    def __init__(
        self,
        width: int,
        dim: int = 64,
        r_min: float = 0.0,
        r_max: float = 1.0,
        max_phase: float = 6.28,
    ) -> None:
        """Draw the parameters."""
        super().__init__()
        check_sizes(width=width, dim=dim)
        check_positive("max_phase", max_phase)
        if not 0 <= r_min < r_max <= 1:
            raise ValueError(f"r_min={r_min}, r_max={r_max}; expected 0 <= r_min < r_max <= 1")
        self.channels = self.outputs = width
        self.dim, self.r_min, self.r_max, self.max_phase = dim, r_min, r_max, max_phase
        squared_modulus = _open_uniform(dim) * (r_max**2 - r_min**2) + r_min**2
        # Rounding may give 0 or 1, whose logarithm or the logarithm of that is not finite.
        squared_modulus = squared_modulus.clamp(ROUNDING.tiny, 1 - ROUNDING.eps)
        decay = -0.5 * squared_modulus.log()
        self.log_decay = nn.Parameter(decay.log())
        self.log_phase = nn.Parameter((max_phase * _open_uniform(dim)).log())
        self.log_gain = nn.Parameter(0.5 * torch.log(-torch.expm1(-2 * decay)))
        self.input_map = nn.Parameter(torch.randn(dim, width, 2) * (2 * width) ** -0.5)
        self.readout = nn.Parameter(torch.randn(width, dim, 2) * dim**-0.5)
        self.skip = nn.Parameter(torch.randn(width))

    def start(self, batch: int, like: Tensor) -> State:
        """Zeros."""
        return State({"hidden": like.new_zeros(batch, self.dim, 2)})

    def eigenvalues(self, like: Tensor) -> Tensor:
        """The diagonal of Λ, (dim,) complex, in the precision of a real tensor."""
        decay, phase = self.log_decay.to(like.dtype).exp(), self.log_phase.to(like.dtype).exp()
        return torch.polar((-decay).exp(), phase)

    def inputs(self, x: Tensor, like: Tensor) -> Tensor:
        """exp(γ_log) ⊙ B x_t: (batch, length, width) -> (batch, length, dim) complex."""
        gain = self.log_gain.to(like.dtype).exp()
        return to_complex(x, gain.unsqueeze(-1) * complex_of(self.input_map, like))

    def mix(self, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        """Run x (batch, length, width) from a state."""
        hidden = state["hidden"]
        transitions = self.eigenvalues(hidden).expand(*x.shape[:2], -1)
        states, last = propagate(
            DiagonalTransition(transitions),
            complex_of(hidden, hidden),
            self.inputs(x, hidden),
            scan=self.scan,
            lengths=lengths,
        )
        y = to_real(states, complex_of(self.readout, hidden)) + self.skip.to(hidden.dtype) * x
        return y, State({"hidden": torch.view_as_real(last)})

    def configuration(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            "width": self.channels,
            "dim": self.dim,
            "r_min": self.r_min,
            "r_max": self.r_max,
            "max_phase": self.max_phase,
        }


def _open_uniform(count: int) -> Tensor:
    """Uniform numbers, never 0 (whose logarithm is not finite)."""
    return torch.rand(count).clamp_min(ROUNDING.eps)
