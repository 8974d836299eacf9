"""S4D, diagonal state spaces (Gu et al., On the Parameterization and Initialization of Diagonal
State Space Models, 2022).

    dh = (A h + x) dt,    y_t = 2 Re(C h_t) + D x_t,    for each channel by itself,

with A diagonal and complex. One state of each conjugate pair is kept, hence the factor 2; B is one,
as C can hold what it would. Then, across channels, GLU(W gelu(y) + b).

Glossary:
    log_decay, frequency: log(-Re A) and Im A, (width, dim / 2).
    log_steps: log Δ, one for each channel.
    readout: C, (width, dim / 2), as pairs of real and imaginary parts.
    skip: D.
    output_map: W and b.
    hidden: h, complex, carried as pairs.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from slicekit.layers.state import State
from slicekit.mixers.arguments import check_policy, check_sizes
from slicekit.mixers.base import Mixer
from slicekit.mixers.complex_maps import complex_of
from slicekit.mixers.discretisation import Discretisation, StepSizes, ZeroOrderHold
from slicekit.mixers.time_invariant import by_chunks


class Spectrum(ABC):
    """The initial eigenvalues of A, one of each conjugate pair."""

    @abstractmethod
    def rates(self, dim: int) -> tuple[Tensor, Tensor]:
        """Decays -Re A > 0 and frequencies Im A, each (dim / 2,)."""


@dataclass(frozen=True)
class S4DLin(Spectrum):
    """A_n = -1/2 + i π n.

    >>> S4DLin().rates(4)
    (tensor([0.5000, 0.5000]), tensor([0.0000, 3.1416]))
    """

    def rates(self, dim: int) -> tuple[Tensor, Tensor]:
        """Frequencies are multiples of π."""
        n = torch.arange(dim // 2)
        return torch.full((dim // 2,), 0.5), math.pi * n


@dataclass(frozen=True)
class S4DInv(Spectrum):
    """A_n = -1/2 + i N / π (N / (2 n + 1) - 1) for N = dim.

    >>> S4DInv().rates(4)[1]
    tensor([3.8197, 0.4244])
    """

    def rates(self, dim: int) -> tuple[Tensor, Tensor]:
        """Frequencies fall like 1 / n."""
        n = torch.arange(dim // 2)
        return torch.full((dim // 2,), 0.5), dim / math.pi * (dim / (2 * n + 1) - 1)


@dataclass(frozen=True)
class S4DReal(Spectrum):
    """A_n = -(n + 1).

    >>> S4DReal().rates(4)
    (tensor([1., 2.]), tensor([0., 0.]))
    """

    def rates(self, dim: int) -> tuple[Tensor, Tensor]:
        """No oscillation to begin with."""
        n = torch.arange(dim // 2)
        return n + 1.0, torch.zeros(dim // 2)


class S4D(Mixer):
    """A diagonal complex state space for each channel, and a map across channels.

    Runs by chunks (`slicekit.mixers.time_invariant`): exact at any length, from any state.

    Args:
        width: size of inputs and outputs, H.
        dim: number of states of a channel, N, even: dim / 2 complex ones are kept.
        spectrum: the initial A: `S4DLin()`, `S4DInv()` or `S4DReal()`.
        discretisation: `ZeroOrderHold()` or `Bilinear()`.
        steps: the initial step sizes.
        output_map: whether GELU, a linear map and a GLU follow, as in the authors' layer.
        chunk: steps in a chunk.

    Example:
        >>> s4d = S4D(8, 16)
        >>> y, state = s4d(torch.randn(2, 5, 8), return_state=True)
        >>> y.shape, state["hidden"].shape
        (torch.Size([2, 5, 8]), torch.Size([2, 8, 8, 2]))
    """

    citations = ("gu2022s4d",)
    linear = True

    def __init__(
        self,
        width: int,
        dim: int = 64,
        *,
        spectrum: Spectrum = S4DLin(),
        discretisation: Discretisation = ZeroOrderHold(),
        steps: StepSizes = StepSizes(),
        output_map: bool = True,
        chunk: int = 64,
    ) -> None:
        """Draw the parameters."""
        super().__init__()
        check_sizes(width=width, dim=dim, chunk=chunk)
        if dim % 2:
            raise ValueError(f"dim={dim}; expected an even number, as states come in pairs")
        check_policy("spectrum", spectrum, Spectrum, "a Spectrum such as S4DLin()")
        check_policy("discretisation", discretisation, Discretisation, "a Discretisation")
        check_policy("steps", steps, StepSizes, "a StepSizes")
        self.channels = self.outputs = width
        self.dim, self.chunk = dim, chunk
        self.spectrum, self.discretisation, self.steps = spectrum, discretisation, steps
        decay, frequency = spectrum.rates(dim)
        self.log_decay = nn.Parameter(decay.log().repeat(width, 1))
        self.frequency = nn.Parameter(frequency.repeat(width, 1))
        self.log_steps = nn.Parameter(steps.draw(width).log())
        # A complex normal variable of variance one.
        self.readout = nn.Parameter(torch.randn(width, dim // 2, 2) * 0.5**0.5)
        self.skip = nn.Parameter(torch.randn(width))
        self.output_map = nn.Linear(width, 2 * width) if output_map else None

    def start(self, batch: int, like: Tensor) -> State:
        """Zeros."""
        return State({"hidden": like.new_zeros(batch, self.channels, self.dim // 2, 2)})

    def discrete(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """λ and b of h <- λ h + b x, (width, dim / 2) complex, in a real tensor's precision."""
        decay = self.log_decay.to(like.dtype).exp()
        rates = torch.complex(-decay, self.frequency.to(like.dtype))
        steps = self.log_steps.to(like.dtype).exp()
        return self.discretisation.discretise(rates, steps.unsqueeze(-1))

    def mix(self, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        """Run x (batch, length, width) from a state."""
        hidden = state["hidden"]
        driving = x.to(hidden.dtype)
        y, last = by_chunks(
            *self.discrete(hidden),
            complex_of(self.readout, hidden),
            driving,
            complex_of(hidden, hidden),
            lengths,
            self.chunk,
            self.scan,
        )
        y = y + self.skip.to(hidden.dtype) * driving
        if self.output_map is not None:
            y = functional.glu(self.output_map(functional.gelu(y).to(x.dtype)))
        return y, State({"hidden": torch.view_as_real(last)})

    def configuration(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            "width": self.channels,
            "dim": self.dim,
            "spectrum": self.spectrum,
            "discretisation": self.discretisation,
            "steps": self.steps,
            "output_map": self.output_map is not None,
            "chunk": self.chunk,
        }
