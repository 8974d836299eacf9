"""S5, a state space layer with many inputs and outputs (Smith et al., 2023).

    dh = (Λ h + B x) dt,    y_t = 2 Re(C h_t) + D ⊙ x_t,

with Λ diagonal and complex: the eigenvalues of the normal part of HiPPO-LegS, in J blocks. One
state of each conjugate pair is kept, hence the factor 2.

Glossary:
    real_rates, imaginary_rates: Re Λ and Im Λ.
    log_steps: log Δ, one for each state.
    input_map: B̃ = V^{-1} B, (states, width), complex, as pairs of real and imaginary parts.
    readout: C̃ = C V, (width, states), likewise.
    skip: D.
    blocks: J, how many copies of a smaller HiPPO matrix the initial Λ holds.
    hidden: h, complex, carried as pairs.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from slicekit.layers.state import State
from slicekit.mixers.arguments import check_policy, check_sizes
from slicekit.mixers.base import Mixer
from slicekit.mixers.complex_maps import complex_of, to_complex, to_real
from slicekit.mixers.discretisation import Discretisation, StepSizes, ZeroOrderHold
from slicekit.scans import propagate
from slicekit.structures import DiagonalTransition

READOUTS = ("lecun_normal", "trunc_standard_normal", "complex_normal")
# The standard deviation of a standard normal variable that is cut at ±2.
CUT_DEVIATION = 0.87962566103423978


class S5(Mixer):
    """A diagonal complex state space that all channels share.

    Args:
        width: size of inputs and outputs, H.
        dim: number of states, P; with conjugate symmetry half as many complex ones are kept.
        blocks: J, the number of HiPPO blocks that the initial eigenvalues come from.
        conjugate: whether states come in conjugate pairs.
        clip: whether real parts of the eigenvalues are kept at or below -1e-4.
        discretisation: `ZeroOrderHold()` or `Bilinear()`.
        steps: the initial step sizes.
        readout: how C is drawn: "lecun_normal", "trunc_standard_normal" or "complex_normal".

    Example:
        >>> s5 = S5(8, 16, blocks=2)
        >>> y, state = s5(torch.randn(2, 5, 8), return_state=True)
        >>> y.shape, state["hidden"].shape
        (torch.Size([2, 5, 8]), torch.Size([2, 8, 2]))
    """

    citations = ("smith2023s5",)
    linear = True

    def __init__(
        self,
        width: int,
        dim: int = 64,
        blocks: int = 1,
        *,
        conjugate: bool = True,
        clip: bool = True,
        discretisation: Discretisation = ZeroOrderHold(),
        steps: StepSizes = StepSizes(),
        readout: str = "lecun_normal",
    ) -> None:
        """Draw the parameters."""
        super().__init__()
        check_sizes(width=width, dim=dim, blocks=blocks)
        check_policy("discretisation", discretisation, Discretisation, "a Discretisation")
        check_policy("steps", steps, StepSizes, "a StepSizes")
        unit = 2 * blocks if conjugate else blocks
        if dim % unit:
            pairs = " in conjugate pairs" if conjugate else ""
            raise ValueError(f"dim={dim} does not split into blocks={blocks} equal blocks{pairs}")
        if readout not in READOUTS:
            raise ValueError(f"readout={readout!r}; expected one of {', '.join(READOUTS)}")
        self.channels = self.outputs = width
        self.dim, self.blocks, self.conjugate, self.clip = dim, blocks, conjugate, clip
        self.discretisation, self.steps, self.readout_draw = discretisation, steps, readout
        self.states = dim // 2 if conjugate else dim
        rates, vectors = normal_hippo(dim // blocks)
        kept = self.states // blocks
        rates, vectors = (
            rates[:kept].repeat(blocks),
            torch.block_diag(*[vectors[:, :kept]] * blocks),
        )
        dtype = torch.get_default_dtype()
        self.real_rates = nn.Parameter(rates.real.to(dtype, copy=True))
        self.imaginary_rates = nn.Parameter(rates.imag.to(dtype, copy=True))
        self.log_steps = nn.Parameter(steps.draw(self.states).log())
        input_map = vectors.mH @ lecun_normal(dim, width, fan=dim).to(vectors)
        self.input_map = nn.Parameter(torch.view_as_real(input_map.resolve_conj()).to(dtype))
        self.readout = nn.Parameter(self._draw_readout(vectors))
        self.skip = nn.Parameter(torch.randn(width))

    def _draw_readout(self, vectors: Tensor) -> Tensor:
        """C̃ as pairs (width, states, 2)."""
        width = self.channels
        if self.readout_draw == "complex_normal":
            return torch.randn(width, self.states, 2) * 0.5**0.5
        # The authors' initialiser counts the width as a receptive field in the first of the two.
        fan = self.dim * width if self.readout_draw == "lecun_normal" else self.dim
        drawn = torch.view_as_complex(lecun_normal(width, self.dim, 2, fan=fan).double())
        return torch.view_as_real(drawn @ vectors).to(torch.get_default_dtype())

    def start(self, batch: int, like: Tensor) -> State:
        """Zeros."""
        return State({"hidden": like.new_zeros(batch, self.states, 2)})

    def rates(self, like: Tensor) -> Tensor:
        """Λ, (states,) complex, in the precision of a real tensor."""
        real = self.real_rates.to(like.dtype)
        real = real.clamp_max(-1e-4) if self.clip else real
        return torch.complex(real, self.imaginary_rates.to(like.dtype))

    def discrete(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """The eigenvalues of a step, (states,), and its input map B̄, (states, width)."""
        steps = self.log_steps.to(like.dtype).exp()
        transition, gain = self.discretisation.discretise(self.rates(like), steps)
        return transition, gain.unsqueeze(-1) * complex_of(self.input_map, like)

    def mix(self, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        """Run x (batch, length, width) from a state."""
        hidden = state["hidden"]
        transition, input_map = self.discrete(hidden)
        states, last = propagate(
            DiagonalTransition(transition.expand(*x.shape[:2], -1)),
            complex_of(hidden, hidden),
            to_complex(x, input_map),
            scan=self.scan,
            lengths=lengths,
        )
        weight = 2 if self.conjugate else 1
        y = to_real(states, weight * complex_of(self.readout, hidden))
        return y + self.skip.to(y.dtype) * x, State({"hidden": torch.view_as_real(last)})

    def configuration(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            "width": self.channels,
            "dim": self.dim,
            "blocks": self.blocks,
            "conjugate": self.conjugate,
            "clip": self.clip,
            "discretisation": self.discretisation,
            "steps": self.steps,
            "readout": self.readout_draw,
        }


def normal_hippo(dim: int) -> tuple[Tensor, Tensor]:
    """Eigenvalues (dim,) and unitary eigenvectors (dim, dim) of the normal part of HiPPO-LegS.

    That part is -I/2 plus the skew matrix with entries ∓ sqrt((2i + 1)(2j + 1)) / 2; eigenvalues
    come in conjugate pairs, by ascending imaginary part.

    >>> normal_hippo(2)[0].imag
    tensor([-0.8660,  0.8660], dtype=torch.float64)
    """
    root = torch.sqrt(2 * torch.arange(dim, dtype=torch.float64) + 1)
    outer = torch.outer(root, root) / 2
    skew = outer.triu(1) - outer.tril(-1)
    frequencies, vectors = torch.linalg.eigh(-1j * skew)
    return torch.complex(torch.full_like(frequencies, -0.5), frequencies), vectors


def lecun_normal(*shape: int, fan: int) -> Tensor:
    """Normal numbers of variance 1 / fan, from a normal distribution cut at two deviations.

    By the inverse of the error function, which looks at no number: torch's own draws until all fit.
    """
    uncut = fan**-0.5 / CUT_DEVIATION
    kept = math.erf(2**0.5)
    return torch.empty(shape).uniform_(-kept, kept).erfinv() * (2**0.5 * uncut)
